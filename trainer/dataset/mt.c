#include "trainer/dataset/mt.h"

enum { N = 624, M = 397 };

void tr_mt_seed(struct tr_mt *mt, uint32_t seed)
{
    mt->state[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        mt->state[i] = 1812433253u * (mt->state[i - 1] ^ mt->state[i - 1] >> 30) + i;
    mt->next = N;
}

static void refill(struct tr_mt *mt)
{
    uint32_t *s = mt->state;

    for (int i = 0; i < N; i++) {
        uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % N] & 0x7fffffffu);
        s[i] = s[(i + M) % N] ^ y >> 1 ^ ((y & 1) != 0 ? 0x9908b0dfu : 0);
    }
    mt->next = 0;
}

uint32_t tr_mt_next(struct tr_mt *mt)
{
    if (mt->next == N)
        refill(mt);
    uint32_t y = mt->state[mt->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

void tr_randperm(int64_t seed, int64_t n, int64_t *out)
{
    struct tr_mt mt;

    tr_mt_seed(&mt, (uint32_t)seed);
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = 0; i + 1 < n; i++) {
        int64_t k = i + (int64_t)(tr_mt_next(&mt) % (uint64_t)(n - i)), x = out[i];
        out[i] = out[k];
        out[k] = x;
    }
}

/* A draw of 0..most: as many low bits as most has, again until they are no more than it. */
static uint32_t masked(struct tr_mt *mt, uint32_t most)
{
    uint32_t mask = most, k;

    for (int s = 1; s <= 16; s *= 2)
        mask |= mask >> s;
    while ((k = tr_mt_next(mt) & mask) > most)
        ;
    return k;
}

void tr_mt_choose(struct tr_mt *mt, int64_t n, int64_t k, int64_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t at = masked(mt, (uint32_t)i);
        int64_t x = out[i];
        out[i] = out[at];
        out[at] = x;
    }
    for (int64_t i = n; i < k; i++)
        out[i] = masked(mt, (uint32_t)(n - 1));
}
