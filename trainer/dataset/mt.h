/*
 * MT19937 and torch.randperm, so that the order of samples is that of the reference trainer.
 * Source: Matsumoto & Nishimura 1998; torch's CPU generator.
 */
#ifndef TR_DATASET_MT_H
#define TR_DATASET_MT_H

#include <stdint.h>

struct tr_mt {
    uint32_t state[624];
    int next;
};

void tr_mt_seed(struct tr_mt *mt, uint32_t seed);
uint32_t tr_mt_next(struct tr_mt *mt);

/*
 * out[0..max(n, k)) begins with the k of n indices that numpy's legacy generator draws:
 * permutation(n), and after it, where k is larger, choice(n, k - n), which may repeat. n is 1 or
 * more where k is.
 */
void tr_mt_choose(struct tr_mt *mt, int64_t n, int64_t k, int64_t *out);

/* out[0..n) becomes torch.randperm(n) of a fresh generator with this seed; n < 2^32/20. */
void tr_randperm(int64_t seed, int64_t n, int64_t *out);

#endif
