/*
 * The random bits of dropout, the same on every backend, world size and recompute: Philox 4x32-10
 * keyed by (seed, module, epoch), counted by (block of 4 channels, position, place of the sample).
 * Plain C that is valid C++ too, so that device code includes it.
 * Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3 and table
 * 2.
 */
#ifndef TR_BACKEND_PHILOX_H
#define TR_BACKEND_PHILOX_H

#include "trainer/tensor/draw.h"

#include <stdint.h>

struct tr_philox {
    uint32_t v[4];
};

/* ctr: the counter; key: low word first. */
TR_INLINE struct tr_philox tr_philox4x32(struct tr_philox ctr, uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * ctr.v[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * ctr.v[2];

        ctr.v[0] = (uint32_t)(p1 >> 32) ^ ctr.v[1] ^ k0;
        ctr.v[1] = (uint32_t)p1;
        ctr.v[2] = (uint32_t)(p0 >> 32) ^ ctr.v[3] ^ k1;
        ctr.v[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return ctr;
}

/* A bijection that spreads every bit, also those of 0. */
TR_INLINE uint64_t tr_mix64(uint64_t z)
{
    return tr_draw_mix(z + 0x9E3779B97F4A7C15u);
}

TR_INLINE uint64_t tr_dropout_key(uint64_t seed, uint64_t module, uint32_t epoch)
{
    return tr_mix64(tr_mix64(tr_mix64(seed) ^ module) ^ epoch);
}

/* The bits of channels 4*quad .. 4*quad+3 at this place and position. */
TR_INLINE struct tr_philox tr_dropout_bits(uint64_t key, int64_t place, int32_t pos, uint32_t quad)
{
    struct tr_philox ctr;

    ctr.v[0] = quad;
    ctr.v[1] = (uint32_t)pos;
    ctr.v[2] = (uint32_t)(uint64_t)place;
    ctr.v[3] = (uint32_t)((uint64_t)place >> 32);
    return tr_philox4x32(ctr, key);
}

/* A channel is dropped when its bits are below this. */
TR_INLINE uint32_t tr_dropout_threshold(float p)
{
    return (uint32_t)((double)p * 4294967296.0);
}

#endif
