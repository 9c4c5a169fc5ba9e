/*
 * Moments of AdamW as codes of 8 bits. Blocks of TR_CODED_BLOCK elements have a largest magnitude
 * each; a code stands for a value of a fixed map times that magnitude. Values of the map lie in
 * seven decades below 1, evenly in each, twice as many in each as in the one below; 0 and 1 are
 * values as well. Code `zero` is 0, zero + k is value k, and zero - k is the negative of value k.
 * A number gets the code of the nearest value; of two that are as near, of the smaller one.
 * Plain C that is valid C++ too: device code includes it.
 * Source: Dettmers et al. 2022 (8-bit optimizers via block-wise quantization), section 2 and
 * appendix F; bitsandbytes has the same maps, blocks and least number of elements.
 */
#ifndef TR_BACKEND_CODED_H
#define TR_BACKEND_CODED_H

#include "trainer/tensor/draw.h"

#include <stdint.h>

enum {
    TR_CODED_BLOCK = 256,
    TR_CODED_LEAST = 4096, /* elements: a smaller tensor keeps f32 moments */
    TR_CODED_DECADES = 7
};

struct tr_codes {
    int count;        /* of values */
    int zero;         /* 0; or, where negative numbers have codes, 127 */
    float value[256]; /* ascending from 0 to 1 */
};

/* The map for numbers of both signs, or for those >= 0, of which there are more. */
static inline void tr_codes_make(struct tr_codes *c, int both_signs)
{
    const double top[TR_CODED_DECADES] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};

    c->count = 0;
    c->zero = both_signs ? 127 : 0;
    c->value[c->count++] = 0;
    for (int i = 0; i < TR_CODED_DECADES; i++) {
        int n = both_signs ? 1 << i : 2 << i;

        for (int k = 0; k < n; k++)
            c->value[c->count++] = (float)(top[i] * (0.1 + 0.9 * (k + 0.5) / n));
    }
    c->value[c->count++] = 1;
}

/* The least number that is nearer to value k + 1 than to value k is above this one. */
TR_INLINE float tr_codes_middle(const struct tr_codes *c, int k)
{
    return 0.5f * (c->value[k] + c->value[k + 1]);
}

TR_INLINE float tr_codes_value(const struct tr_codes *c, int code)
{
    return code < c->zero ? -c->value[c->zero - code] : c->value[code - c->zero];
}

/* The code of value k, negative or not. Below zero there is one value less. */
TR_INLINE int tr_codes_code(const struct tr_codes *c, int k, int negative)
{
    return !negative ? c->zero + k : k < c->zero ? c->zero - k : 0;
}

#endif
