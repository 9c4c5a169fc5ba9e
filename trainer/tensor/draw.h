/*
 * Numbers drawn by position: the value at (seed, name, index) is a hash of the three, so any
 * rank, any shard and any order of calls gives the same bits on every machine.
 */
#ifndef TR_TENSOR_DRAW_H
#define TR_TENSOR_DRAW_H

#include <stdint.h>

/* One stream of numbers. */
struct tr_draw {
    uint64_t key;
};

struct tr_draw tr_draw_of(uint64_t seed, const char *name);

/* 64 random bits for index i. */
uint64_t tr_draw_bits(struct tr_draw d, uint64_t i);

/* [0, 1) */
float tr_draw_uniform(struct tr_draw d, uint64_t i);

/* Mean 0, variance 1: the sum of four 16-bit uniforms, |x| < 3.47. No library function is called,
 * so the bits do not depend on the C library. */
float tr_draw_normal(struct tr_draw d, uint64_t i);

#endif
