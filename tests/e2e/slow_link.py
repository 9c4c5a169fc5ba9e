#!/usr/bin/env python3
"""A slow way to a TCP port: what is sent arrives DELAY_MS later each way, at most KBIT a second.

usage: slow_link.py LISTEN_PORT TARGET TARGET_PORT DELAY_MS KBIT     (KBIT 0: any rate)
Ends by SIGTERM.
"""
import asyncio
import sys
import time


async def carry(reader, writer, delay, rate):
    queue, free_at = asyncio.Queue(64), 0.0

    async def deliver():
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    task = asyncio.ensure_future(deliver())
    try:
        while True:
            data = await reader.read(4096)
            free_at = max(free_at, time.monotonic()) + (len(data) * 8 / rate if rate else 0)
            await queue.put((free_at + delay, data))
            if not data:
                break
        await task
    except OSError:
        writer.close()
        task.cancel()


async def main(port, target, target_port, delay_ms, kbit):
    async def serve(reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(target, target_port)
        except OSError:
            writer.close()
            return
        args = delay_ms / 1000, kbit * 1000
        await asyncio.gather(carry(reader, far_writer, *args), carry(far_reader, writer, *args))

    server = await asyncio.start_server(serve, None, port)
    async with server:
        await server.serve_forever()


asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])))
