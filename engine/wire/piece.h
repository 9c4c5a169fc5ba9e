/* What a node sends of an attempt's output. */
#ifndef FR_WIRE_PIECE_H
#define FR_WIRE_PIECE_H

#include "engine/base/str.h"

#include <stdint.h>

/* Byte-exact piece of the log file. mono_ms: when its first byte was written. */
struct fr_log_piece {
    struct fr_id attempt;
    uint64_t offset;
    int64_t mono_ms;
    struct fr_str bytes;
};
/* Piece of the tail of a full log, for a reader who does not wait for its end (base/tail.h). at is
 * the number of its first byte. Numbers may be left out: these bytes were dropped. */
struct fr_tail_piece {
    struct fr_id attempt;
    uint64_t head, keep, at; /* head, keep: as in struct fr_tail_head */
    uint64_t joined;         /* not 0: the last one. at is behind the last byte, bytes is empty */
    uint64_t dropped;
    int64_t mono_ms; /* when its last byte was written */
    struct fr_str bytes;
};

#endif
