/*
 * Masks secrets in output: each occurrence of a value becomes "***", also if it arrives in pieces.
 * Bytes that may begin a secret are held back until the next bytes, or the end, decide.
 */
#ifndef FR_NODE_MASK_H
#define FR_NODE_MASK_H

#include "engine/base/str.h"
#include "engine/wire/request.h"

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
