#include "trainer/dataset/pcg.h"

enum { POOL = 4, WORDS = 8 };

__extension__ typedef unsigned __int128 u128;

/* ---- SeedSequence ---- */

/* Multiplies into the running constant; each use changes it. */
static uint32_t hash_in(uint32_t value, uint32_t *constant)
{
    value ^= *constant;
    *constant *= 0x931e8875u;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t r = 0xca01f9ddu * x - 0x4973f715u * y;

    return r ^ r >> 16;
}

static void fill_pool(uint64_t seed, uint32_t pool[POOL])
{
    uint32_t constant = 0x43b0d7e5u, entropy[POOL] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    for (int i = 0; i < POOL; i++)
        pool[i] = hash_in(entropy[i], &constant);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (from != to)
                pool[to] = mix(pool[to], hash_in(pool[from], &constant));
}

static void words_of(const uint32_t pool[POOL], uint32_t out[WORDS])
{
    uint32_t constant = 0x8b51f9ddu;

    for (int i = 0; i < WORDS; i++) {
        uint32_t v = pool[i % POOL] ^ constant;
        constant *= 0x58f38dedu;
        v *= constant;
        out[i] = v ^ v >> 16;
    }
}

/* ---- the generator ---- */

static u128 wide(const uint64_t v[2])
{
    return (u128)v[1] << 64 | v[0];
}

static void set_state(struct tr_pcg *p, u128 state)
{
    p->state[0] = (uint64_t)state;
    p->state[1] = (uint64_t)(state >> 64);
}

static void step(struct tr_pcg *p)
{
    const u128 multiplier = (u128)0x2360ed051fc65da4u << 64 | 0x4385df649fccf645u;

    set_state(p, wide(p->state) * multiplier + wide(p->inc));
}

static uint64_t next64(struct tr_pcg *p)
{
    step(p);
    uint64_t x = p->state[1] ^ p->state[0];
    unsigned turn = (unsigned)(p->state[1] >> 58);

    return x >> turn | x << (-turn & 63);
}

static uint32_t next32(struct tr_pcg *p)
{
    uint64_t x;

    if (p->has_half) {
        p->has_half = false;
        return p->half;
    }
    x = next64(p);
    p->has_half = true;
    p->half = (uint32_t)(x >> 32);
    return (uint32_t)x;
}

void tr_pcg_seed(struct tr_pcg *p, uint64_t seed)
{
    uint32_t pool[POOL], w[WORDS];
    uint64_t v[WORDS / 2];

    fill_pool(seed, pool);
    words_of(pool, w);
    for (int i = 0; i < WORDS / 2; i++)
        v[i] = (uint64_t)w[2 * i + 1] << 32 | w[2 * i];
    u128 inc = ((u128)v[2] << 64 | v[3]) << 1 | 1;
    *p = (struct tr_pcg){.inc = {(uint64_t)inc, (uint64_t)(inc >> 64)}};
    step(p);
    set_state(p, wide(p->state) + ((u128)v[0] << 64 | v[1]));
    step(p);
}

uint64_t tr_pcg_word(struct tr_pcg *p)
{
    return next64(p);
}

double tr_pcg_real(struct tr_pcg *p)
{
    return (double)(next64(p) >> 11) * 0x1p-53;
}

/* A number of 0 .. most, by masking and rejection. */
static uint32_t below(struct tr_pcg *p, uint32_t most)
{
    uint32_t mask = most, x;

    for (int s = 1; s <= 16; s *= 2)
        mask |= mask >> s;
    while ((x = next32(p) & mask) > most)
        ;
    return x;
}

void tr_pcg_shuffle(struct tr_pcg *p, int64_t *v, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = below(p, (uint32_t)i), x = v[i];
        v[i] = v[k];
        v[k] = x;
    }
}

void tr_pcg_permutation(uint64_t seed, int64_t n, int64_t *out)
{
    struct tr_pcg p;

    tr_pcg_seed(&p, seed);
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    tr_pcg_shuffle(&p, out, n);
}
