/*
 * The choice of the next token from its logits: the largest, or drawn, in the order of
 * transformers' generation: temperature, then the top_k largest, then the smallest set whose share
 * reaches top_p (Holtzman et al. 2020).
 */
#ifndef TR_TRAIN_SAMPLE_H
#define TR_TRAIN_SAMPLE_H

#include "engine/base/err.h"

#include <stdint.h>

struct tr_sampling {
    double temperature; /* 0: the largest logit, the first of equal ones */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 < p <= 1; 0 means 1 */
    uint64_t seed;
};

/* One row of V logits. The draw depends on seed, stream and step alone: the same for any number of
 * ranks and any batch. FR_CORRUPT when a logit is NaN. */
struct tr_row {
    const float *logits;
    int64_t V;
    uint64_t stream, step;
};
enum fr_rc tr_sample(const struct tr_sampling *s, const struct tr_row *row, int32_t *out,
                     struct fr_err *err);

#endif
