/*
 * Products of bf16 by the dot products of pairs that AVX-512 BF16 has: c (m, n) = a (m, k) b (k,
 * n), sums in f32. One instruction adds two products to each of 16 sums, so b is packed: panels of
 * 32 columns, in each a row of 32 pairs (b(k, j), b(k+1, j)) for every other k, zeros where there
 * is no k or j. Rows of a are read where they lie.
 *
 * Each sum takes its products in ascending order of k, whatever tile it lies in, so neither tiles
 * nor threads change the bits. Source: Goto & van de Geijn 2008; Intel Architecture Instruction Set
 * Extensions Programming Reference, VDPBF16PS.
 */
#ifndef TR_BACKEND_CPU_PAIRS_H
#define TR_BACKEND_CPU_PAIRS_H

#include "trainer/backend/cpu/cpu.h"

enum { CPU_PANEL = 32, CPU_STRIP = 14 }; /* columns of a panel; most rows of a strip */

static inline int64_t cpu_pairs_of(int64_t k)
{
    return (k + 1) / 2;
}

static inline int64_t cpu_panels_of(int64_t n)
{
    return (n + CPU_PANEL - 1) / CPU_PANEL;
}

/* Whether this build has the kernels and the chip the instructions. */
bool cpu_pairs_have(void);

/* dst: pairs; src: bf16, stored rows ld elements apart. */
struct cpu_pack {
    uint32_t *dst;
    const uint16_t *src;
    int64_t k, n, ld;
};
void cpu_pack_rows(const struct cpu_pack *p);   /* src (k, n); dst: panels */
void cpu_pack_turned(const struct cpu_pack *p); /* src (n, k); dst: panels */
void cpu_pack_pairs(const struct cpu_pack *p);  /* src (k, n); dst (k/2, n): an a stored (k, m) */

/* c (m, 32) = or += a panel of b times m <= CPU_STRIP rows of a. Columns from n on may be anything
 * afterwards; those from 16 on are left alone when n <= 16. With `half` given the sums begin at 0,
 * and n columns of them are rounded to half instead of stored in c. */
struct cpu_strip {
    float *c;
    uint16_t *half;
    int64_t ldc; /* of c, or of half */
    const char *a;
    int64_t a_row, a_pair; /* bytes from a row to the next, from a pair of a row to the next */
    const uint32_t *b;
    int64_t m, n, pairs;
    bool add;
};
void cpu_strip(const struct cpu_strip *s);

/* Rows of strip i when m rows are shared out evenly; count: how many strips there are. */
static inline int64_t cpu_strips_of(int64_t m)
{
    return (m + CPU_STRIP - 1) / CPU_STRIP;
}

static inline struct cpu_range cpu_strip_rows(int64_t m, int64_t i)
{
    int64_t count = cpu_strips_of(m);

    return (struct cpu_range){m * i / count, m * (i + 1) / count};
}

/* y = alpha x + beta y + bias for n <= 32 values in f32; bias NULL: none. y: bf16 or f32. */
struct cpu_put {
    void *y;
    const float *x, *bias;
    int64_t n;
    float alpha, beta;
    bool f32;
};
void cpu_put(const struct cpu_put *p);

#endif
