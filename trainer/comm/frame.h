/* Frames of the control plane: u32 length of the payload, u8 type, three zero bytes, payload. */
#ifndef TR_COMM_FRAME_H
#define TR_COMM_FRAME_H

#include "engine/base/str.h"
#include "trainer/comm/control.h"

#include <stdbool.h>

enum tr_frame_type {
    TR_FRAME_HELLO = 1, /* tr_hello: a rank introduces itself */
    TR_FRAME_TABLE,     /* size * tr_peer: all ranks have joined */
    TR_FRAME_REFUSE,    /* text */
    TR_FRAME_BEAT,      /* tr_beat */
    TR_FRAME_PART,      /* a rank's part of a host all-gather, to rank 0 */
    TR_FRAME_WHOLE,     /* all parts, from rank 0 */
    TR_FRAME_ABORT,     /* u32 fr_rc, text */
    TR_FRAME_BYE,
    TR_FRAME_ANNOUNCE, /* to rank 0: tr_announced_call and its numbers, the rank's next call */
    TR_FRAME_AGREED    /* from rank 0: that call may begin */
};

enum { TR_FRAME_HEAD = 8, TR_FRAME_MAX = 256 * 1024 * 1024, TR_HELLO_MAGIC = 0x52544c46 };

struct tr_hello {
    uint32_t magic, version;
    uint64_t job;
    int32_t rank, size, node, local_rank, data_port;
    char host[TR_CONTROL_HOST];
};

struct tr_beat {
    int64_t seq;                /* collectives begun */
    char what[TR_CONTROL_WHAT]; /* "" while it computes */
};

void tr_frame_add(struct fr_buf *out, enum tr_frame_type type, const void *p, size_t n);

/* The first frame in `in`: 1 with type and payload (borrowed) set; 0: incomplete; -1: not a frame.
 * The caller then drops TR_FRAME_HEAD + payload->n bytes. */
int tr_frame_first(const struct fr_buf *in, enum tr_frame_type *type, struct fr_str *payload);

/* Blocking; used before the control thread runs. false at the deadline (clock: fr_sys.mono_ms). */
bool tr_frame_send(int fd, const struct fr_buf *out, int64_t deadline_ms);
bool tr_frame_recv(int fd, struct fr_buf *in, enum tr_frame_type *type, struct fr_str *payload,
                   int64_t deadline_ms);

#endif
