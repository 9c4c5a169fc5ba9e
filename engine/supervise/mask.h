/*
 * Masks secrets in output: each occurrence of a value becomes "***", also if it arrives in pieces.
 * Bytes that may begin a secret are held back until the next bytes, or the end, decide.
 */
#ifndef FR_SUPERVISE_MASK_H
#define FR_SUPERVISE_MASK_H

#include "engine/base/arena.h"
#include "engine/base/str.h"
#include "engine/wire/request.h"

/* Adds the texts to mask for a secret: its value, each line of a value with several lines, and the
 * quoted forms of both: for shells (set -x: a single quote as '\'' and '"'"') and for JSON (letters
 * beyond ASCII plain and as \u). False without memory. */
bool fr_mask_add(struct fr_arena *arena, struct fr_strs *list, struct fr_str value);

struct fr_mask {
    const struct fr_str *v; /* borrowed: longest first is not needed */
    size_t n;
    bool first[256];    /* bytes that some secret begins with */
    struct fr_buf held; /* owns */
};

/* values: borrowed for the mask's life; empty ones are ignored. */
void fr_mask_init(struct fr_mask *m, const struct fr_strs *values);
void fr_mask_feed(struct fr_mask *m, const char *p, size_t n, struct fr_buf *out);
void fr_mask_end(struct fr_mask *m, struct fr_buf *out);
void fr_mask_finish(struct fr_mask *m);

#endif
