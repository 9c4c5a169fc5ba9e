/*
 * numpy's default generator, seeded by one number, and its permutation: it decides the records of
 * --val_size, the data sets of --mix_strategy and the order of --streaming, as in the reference's
 * data library. Source: O'Neill 2014 (PCG, XSL RR 128/64); O'Neill 2015, "Developing a seed_seq
 * alternative"; numpy's documentation of SeedSequence, PCG64.
 */
#ifndef TR_DATASET_PCG_H
#define TR_DATASET_PCG_H

#include <stdbool.h>
#include <stdint.h>

struct tr_pcg {
    uint64_t state[2], inc[2]; /* 128 bits each, the low half first */
    bool has_half;
    uint32_t half; /* the upper one of the last number */
};

void tr_pcg_seed(struct tr_pcg *p, uint64_t seed);
/* 64 bits; shifted down by one, Generator.integers(0, 2^63). */
uint64_t tr_pcg_word(struct tr_pcg *p);
/* Generator.random(): 0 <= x < 1. */
double tr_pcg_real(struct tr_pcg *p);

/* Generator.shuffle(v), n <= 2^32. */
void tr_pcg_shuffle(struct tr_pcg *p, int64_t *v, int64_t n);

/* out[0..n) becomes numpy.random.default_rng(seed).permutation(n); 0 <= seed, n <= 2^32. */
void tr_pcg_permutation(uint64_t seed, int64_t n, int64_t *out);

#endif
