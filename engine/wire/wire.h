/*
 * The protocol between flowrun and flownode, over any pair of byte streams: stdin and stdout of
 * `flownode serve`. The same messages go between serve and its supervisors.
 *
 * Stream. The node first writes FR_WIRE_MAGIC; earlier output (motd, .bashrc) is skipped. Then
 * frames both ways: u32 length of the payload (<= FR_FRAME_MAX), u8 type, payload; integers are
 * little-endian. A message longer than a frame continues in the next frames: all but its last carry
 * FR_FRAME_MORE in the type byte, and no other message comes between them. Payload: the fields of
 * the message (protocol.h) in their order. Text is u32 length + bytes (never a NUL inside unless
 * said so), a list is u32 count + items, a struct inside is preceded by its u32 length. Fields that
 * are missing at the end of a payload are zero, and fields after the last known one are skipped, so
 * a later protocol adds fields at the end. Anything else that does not fit is FR_PROTO, and the
 * connection ends.
 *
 * Order of a connection. Both send hello first. The connection serves all runs of a process: join
 * names each before the first command about it, leave ends it. The upper half of the engine's epoch
 * is one that the process committed in its store before, the lower half counts its connections. A
 * node refuses (error, then end of stream) a process older than the newest it saw of that store,
 * and an older connection of the same channel: at hello, and at any later frame. Bulk payload bytes
 * (log, tail, metrics, get_data, put_data, pipe_data) are sent only against credit, which starts at
 * 0 on both sides and is granted by the receiver; runs take turns in it. All else goes at once and
 * before waiting bulk. The engine sends ping every FR_PING_MS while something is under way there,
 * else every FR_PING_IDLE_MS, and the node answers; no byte at all for FR_ANSWER_MS after a ping
 * means unreachable, and nothing is concluded from it. A node reports without a request on attempts
 * that were named on this connection: launched, ended, and state (tombstoned) when the supervisor
 * dies before go.
 *
 * Over srun (a place of an allocation). Who gets the first piece of a message answers at once, with
 * a credit of 0 bytes where there is nothing to say: srun carries pieces (1 KiB of stdin) over a
 * TCP connection that holds a small one back until the one before is acknowledged, at once with the
 * other side's bytes, else up to 40 ms later (RFC 896, RFC 1122 4.2.3.2). In what comes from the
 * node newlines and bytes 0xFE have changed places (fr_wire_swap): srun writes each line by itself.
 */
#ifndef FR_WIRE_WIRE_H
#define FR_WIRE_WIRE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/wire/message.h"

#include <stdbool.h>
#include <stdint.h>

#define FR_WIRE_MAGIC "FLOWNODE 1\n"

enum {
    FR_PROTO_MIN = 2,     /* 1: a connection was of one run, named in hello */
    FR_PROTO_MAX = 3,     /* 2: a login node runs no commands */
    FR_FRAME_MAX = 16384, /* bytes of payload in one frame */
    FR_FRAME_HEAD = 5,
    FR_FRAME_MORE = 0x80,
    FR_BULK_MAX = 16000,        /* bytes of data in one log, get_data or put_data */
    FR_MSG_MAX = 4 << 20,       /* bytes of payload of one message */
    FR_PREAMBLE_MAX = 64 << 10, /* bytes before the magic */
    FR_CREDIT_MAX = 1 << 20,  /* bulk bytes in flight a node and direction */
    FR_PIPE_WINDOW = 64 << 10,  /* bytes for a command's stdin that it has not taken yet */
    FR_PIPE_ERRORS = 4096,      /* bytes of a command's stderr in pipe_end */
    FR_PING_MS = 4000,
    FR_PING_IDLE_MS = 20000,
    FR_ANSWER_MS = 5000,
    FR_PREPARED_EXPIRES_MS =
        60000, /* a prepared attempt without go is given up (ended: start_failed) */
    FR_OUTPUT_VALUE_MAX = 64 << 10, /* bytes of one output value */
    FR_OUTPUTS_MAX = 1 << 20        /* bytes of all outputs of an attempt */
};

/* Appends m to out as frames. FR_USAGE when it is larger than FR_MSG_MAX, FR_NOMEM. */
enum fr_rc fr_msg_put(const struct fr_msg *m, struct fr_buf *out, struct fr_err *err);

/* Received bytes. Zero it to start; on the engine's side set magic, to wait for FR_WIRE_MAGIC. */
struct fr_wire_in {
    bool magic;         /* still skipping to the magic */
    bool swaps;         /* what is fed was swapped */
    struct fr_buf raw;  /* owns: bytes not yet taken */
    struct fr_buf part; /* owns: payload of a message whose last frame is still to come */
    size_t taken;       /* of raw */
};

void fr_wire_feed(struct fr_wire_in *in, const void *p, size_t n);
void fr_wire_swap(char *p, size_t n); /* swapped twice they are as before */

/* Takes the next whole message. *got is false when more bytes are needed. All that *m points to
 * lives in arena. A message of an unknown type is skipped. FR_PROTO: the stream cannot go on (while
 * the magic is awaited, err quotes the bytes that came instead). */
enum fr_rc fr_wire_next(struct fr_wire_in *in, struct fr_arena *arena, struct fr_msg *m, bool *got,
                        struct fr_err *err);

/* Bytes of a message whose end is still to come are there. */
bool fr_wire_waits(const struct fr_wire_in *in);

void fr_wire_finish(struct fr_wire_in *in);

/* Checks that both sides have a protocol in common; FR_PROTO names both ranges. */
enum fr_rc fr_wire_agree(const struct fr_hello *theirs, struct fr_err *err);

#endif
