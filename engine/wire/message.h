/*
 * The messages between flowrun and a flownode; protocol.h has the fields of each and its answer.
 * They are open values; their memory belongs to their maker (after decoding: an arena).
 */
#ifndef FR_WIRE_MESSAGE_H
#define FR_WIRE_MESSAGE_H

#include "engine/wire/request.h"
#include "engine/words/causes.h"

/* clang-format off */
#define FR_MESSAGE(number, ID, name, type) struct type {
#define FR_FIELD(kind, member) FR_CODEC_##kind member;
#define FR_INNER(kind, type, member) FR_CODEC_##kind(type) member;
#define FR_END };
#include "engine/wire/protocol.h"

enum fr_msg_type {
#define FR_MESSAGE(number, ID, name, type) FR_MSG_##ID = (number),
#define FR_FIELD(kind, member)
#define FR_INNER(kind, type, member)
#define FR_END
#include "engine/wire/protocol.h"
};

struct fr_msg {
    enum fr_msg_type type;
    union {
#define FR_MESSAGE(number, ID, name, type) struct type name;
#define FR_FIELD(kind, member)
#define FR_INNER(kind, type, member)
#define FR_END
#include "engine/wire/protocol.h"
    };
};
/* clang-format on */

/* The state of an attempt on its node. */
enum fr_attempt_status {
    /* No process of it lives that the node knows of. Without state.prepared: the node has no record
     * of it, or an acknowledged one; connections older than the answered one cannot start it any
     * more. With it: the attempt was prepared, and its supervisor may only be halted; a tombstone
     * decides whether it ever starts. */
    FR_AT_UNKNOWN,
    FR_AT_PREPARED,   /* starts on go, now or once it is ready: prepared follows */
    FR_AT_RUNNING,    /* launched, its supervisor lives (also while it is being stopped) */
    FR_AT_ENDED,      /* over: its processes are gone, or listed as survivors; ended follows */
    FR_AT_TOMBSTONED, /* never started, and never will */
    FR_AT_SWEEPING    /* its supervisor is gone; the node stops what is left, then sends ended */
};

/* Metrics are lines of JSON. The node adds two of its own: a new part begins; no further lines were
 * kept. */
#define FR_METRICS_PART "{\"flowrun\":\"part\"}\n"
#define FR_METRICS_FULL "{\"flowrun\":\"full\"}\n"

enum {
    FR_METRICS_ROWS = 1000000,    /* lines of a part */
    FR_METRICS_BYTES = 256 << 20, /* of an attempt's metrics */
    FR_SAMPLE_MS = 10000          /* between two samples */
};

/* "prepare", "log" …; "?" for a number that is none. */
const char *fr_msg_name(enum fr_msg_type type);

/* The fields of a message of that type (codec.h), NULL when there is no such message. */
const struct fr_shape *fr_msg_shape(enum fr_msg_type type);

#endif
