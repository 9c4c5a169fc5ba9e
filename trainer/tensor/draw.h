/*
 * Numbers drawn by position: the value at (seed, name, index) is a hash of the three, so any rank,
 * any shard and any order of calls gives the same bits on every machine. Plain C that is valid C++
 * too, so that device code includes it.
 */
#ifndef TR_TENSOR_DRAW_H
#define TR_TENSOR_DRAW_H

#include <stdint.h>

#ifndef TR_INLINE
#ifdef __CUDACC__
#define TR_INLINE static __host__ __device__ inline
#else
#define TR_INLINE static inline
#endif
#endif

/* One stream of numbers. */
struct tr_draw {
    uint64_t key;
};

struct tr_draw tr_draw_of(uint64_t seed, const char *name);

/* The finaliser of SplitMix64 (Steele, Lea & Flood 2014). */
TR_INLINE uint64_t tr_draw_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* 64 random bits for index i. */
TR_INLINE uint64_t tr_draw_bits(struct tr_draw d, uint64_t i)
{
    return tr_draw_mix(d.key + (i + 1) * 0x9e3779b97f4a7c15u);
}

/* [0, 1) */
TR_INLINE float tr_draw_uniform(struct tr_draw d, uint64_t i)
{
    return (float)(tr_draw_bits(d, i) >> 40) * 0x1p-24f;
}

/* Mean 0, variance 1: the sum of four 16-bit uniforms, |x| < 3.47. No library function is called,
 * so the bits do not depend on the C library. */
TR_INLINE float tr_draw_normal(struct tr_draw d, uint64_t i)
{
    uint64_t b = tr_draw_bits(d, i);
    int32_t sum = (int32_t)((b & 0xffff) + (b >> 16 & 0xffff) + (b >> 32 & 0xffff) + (b >> 48));

    /* four uniforms over 0..65535: mean 131070, variance 4 * (65536^2 - 1) / 12 */
    return (float)(sum - 131070) * 2.6428998e-5f;
}

#endif
