#!/usr/bin/env python3
"""What a retry and a failure among many instances of one run cost a host while 64 pages show that run: bytes that it sends, its
CPU, and how long until the last page has read what it shows. The readers do as the page does: they read the stream, and ask
for what engine/web/static/model.js and failure.js ask for (which a change without a reason makes more). Several builds are
measured one after the other. Prints a line a measurement and never fails. usage: failure.py [--instances N] BUILD..."""
import gzip
import http.client
import json
import os
import socket
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from api_lib import Host  # noqa: E402

READERS, NODES = 64, 20
FAILED = {"failed", "timed_out", "lost", "stop_unproven"}
GATE = "until test -e $W/%s; do sleep 0.05; done"


def pipeline(instances):
    """All but two of them wait for a gate; bad fails twice, each time once there is a file."""
    text = "name: big\nenv: {W: \"${{ env.W }}\"}\nnodes: [%s]\ntasks:\n" % ", ".join("{name: n%d}" % i for i in range(NODES))
    text += "  gate: {on: n0, run: '%s'}\n" % GATE % "never"
    text += "  bad: {on: n0, retry: {times: 1, delay: 1s}, run: '%s; echo error: no; exit 3'}\n" % GATE % "go.$FLOWRUN_ATTEMPT_NO"
    return text + "".join("  t%d: {on: all, needs: [gate], run: 'true'}\n" % i for i in range((instances - 2) // NODES))


class Reader(threading.Thread):
    def __init__(self, host, no, i):
        super().__init__(daemon=True)
        self.host, self.no, self.bytes, self.requests, self.seen = host, no, 0, 0, []
        self.source = ("127.0.0.%d" % (2 + i // 8), 0)  # one address may have 16 connections
        self.ready = threading.Event()
        self.own = http.client.HTTPConnection("127.0.0.1", host.port, timeout=600, source_address=self.source)
        self.lock = threading.Condition()

    def ask(self, path, method="GET", **headers):
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        self.own.request(method, "/api/v1/" + path, headers={"Authorization": "Bearer " + self.host.tokens["view"], "Accept-Encoding": "gzip", **headers})
        r = self.own.getresponse()
        body = r.read()
        self.bytes += len(body) + sum(len(k) + len(v) + 4 for k, v in r.getheaders()) + 19
        self.requests += 1
        return gzip.decompress(body) if r.headers.get("Content-Encoding") == "gzip" and "columns" not in path else body

    def load(self):
        self.ask("runs/%d?form=row" % self.no)
        self.ask("runs/%d/instances?form=columns" % self.no)

    def show_failure(self):
        items = json.loads(self.ask("runs/%d/instances?task=bad&node=n0" % self.no))["items"]
        attempt = items[0]["attempts"][-1][1] if items[0].get("attempts") else items[0]["attempt"]
        path = "runs/%d/attempts/%s/log" % (self.no, attempt)
        self.ask(path, "HEAD")
        self.ask(path, Range="bytes=0-")

    def take(self, event, data):
        whole = False
        if event == "hello":
            self.ready.set()
        if event == "run":
            self.ask("runs/%d?form=row" % self.no)
        for _, state, _, _, *more in data.get("changes", []) if event == "inst" else []:
            if not more and not whole and (state == "retrying" or state in FAILED):
                self.load()
                whole = True
            if state in FAILED:
                self.show_failure()
            with self.lock:
                self.seen.append(state)
                self.lock.notify()

    def run(self):
        try:
            self.read()
        except (ConnectionError, http.client.HTTPException):
            pass  # the host is gone

    def read(self):
        s = socket.create_connection(("127.0.0.1", self.host.port), 600, self.source)
        s.sendall(("GET /api/v1/stream?runs=%d&topics= HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
                   % (self.no, self.host.tokens["view"])).encode())
        text = b""
        while part := s.recv(1 << 16):
            self.bytes += len(part)
            text += part
            while b"\n\n" in text:
                one, text = text.split(b"\n\n", 1)
                lines = [line.split(b": ", 1) for line in one.split(b"\n") if b": " in line]
                fields = {k.decode(): v.decode() for k, v in lines}
                if "event" in fields:
                    self.take(fields["event"], json.loads(fields["data"]))

    def wait(self, state):
        with self.lock:
            if not self.lock.wait_for(lambda: state in self.seen, 600):
                sys.exit("a reader did not see '%s': %s" % (state, self.seen))


def cpu_ms(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(host, readers, file, state):
    before, sent, asked = cpu_ms(host.host.pid), sum(r.bytes for r in readers), sum(r.requests for r in readers)
    since = time.monotonic()
    open(os.path.join(host.work, file), "w").close()
    for r in readers:
        r.wait(state)
    took = time.monotonic() - since
    return {"KB sent": (sum(r.bytes for r in readers) - sent) / 1024, "ms of CPU": cpu_ms(host.host.pid) - before,
            "requests": sum(r.requests for r in readers) - asked, "ms until the last page has it": 1000 * took}


def of_build(build, instances):
    host = Host(build)
    try:
        with open(host.folder + "/big.yaml", "w") as f:
            f.write(pipeline(instances))
        host.until("/pipelines", lambda doc: [p for p in doc["items"] if p["name"] == "big"])
        no = host.ask("POST", "/runs", {"pipeline": "big"}).json()["no"]
        host.until("/runs/%d/instances?task=bad" % no, lambda doc: doc["items"][0]["state"] == "running")
        readers = [Reader(host, no, i) for i in range(READERS)]
        for r in readers:
            r.start()
        for r in readers:
            r.ready.wait(600)
        return {what: measure(host, readers, "go.%d" % n, state) for n, what, state in ((1, "a retry", "retrying"), (2, "a failure", "failed"))}
    finally:
        host.ask("POST", "/runs/%d/cancel" % no, {})
        host.end()


def main():
    args = sys.argv[1:]
    instances = int(args.pop(args.index("--instances") + 1)) if "--instances" in args else 100000
    args = [a for a in args if a != "--instances"]
    print("load of the machine: %.1f" % os.getloadavg()[0])
    first = None
    for build in args:
        got = of_build(build, instances)
        first = first or got
        for what, values in got.items():
            for name, value in values.items():
                print("%-40s %-10s %-30s %12.0f   %.3f x" % (build, what, name, value, value / max(first[what][name], 1e-9)), flush=True)


main()
