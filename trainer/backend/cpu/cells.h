/*
 * Products of f32 and of bf16 by AVX-512: c (m, n) = a (m, k) b (k, n), sums in f32. A cell is 32
 * bits of an operand: one f32, or a pair of bf16 that are neighbours in k, whose two products one
 * instruction adds (AVX-512 BF16). b is packed: panels of 32 columns, in each a row of 32 cells for
 * every cell of k, zeros where there is no k or j. Rows of a are read where they lie.
 *
 * Each sum takes its products in ascending order of k, whatever tile it lies in, so neither tiles
 * nor threads change the bits. Source: Goto & van de Geijn 2008; Intel Architecture Instruction Set
 * Extensions Programming Reference, VDPBF16PS.
 */
#ifndef TR_BACKEND_CPU_CELLS_H
#define TR_BACKEND_CPU_CELLS_H

#include "trainer/backend/cpu/cpu.h"

enum { CPU_PANEL = 32, CPU_STRIP = 14 }; /* columns of a panel; most rows of a strip */

static inline int64_t cpu_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cpu_length(struct cpu_range r)
{
    return r.end - r.begin;
}

static inline int64_t cpu_cells_of(int64_t k, bool f32)
{
    return f32 ? k : (k + 1) / 2;
}

static inline int64_t cpu_panels_of(int64_t n)
{
    return (n + CPU_PANEL - 1) / CPU_PANEL;
}

/* Whether this build has the kernels and the chip the instructions. */
bool cpu_cells_have(bool f32);

/* dst: cells; src: f32 or bf16, stored rows ld elements apart. */
struct cpu_pack {
    uint32_t *dst;
    const void *src;
    int64_t k, n, ld;
    bool f32;
};
void cpu_pack_rows(const struct cpu_pack *p);   /* src (k, n); dst: panels */
void cpu_pack_turned(const struct cpu_pack *p); /* src (n, k); dst: panels */
void cpu_pack_cells(
    const struct cpu_pack *p); /* src (k, n); dst (cells of k, n): a stored (k, m) */

/* c (m, n) = or += n <= 32 columns of a panel of b times m <= CPU_STRIP rows of a. half: bf16 takes
 * the rounded sums instead of c, which begin at 0. */
struct cpu_strip {
    float *c;
    uint16_t *half; /* or NULL */
    int64_t ldc;    /* of c, or of half */
    const char *a;
    int64_t a_row, a_cell; /* bytes from a row to the next, from a cell of a row to the next */
    const uint32_t *b;
    int64_t m, n, cells;
    bool add, f32;
};
void cpu_strip(const struct cpu_strip *s);

/* Strips that m rows are shared out to evenly, and the rows of strip i. */
static inline int64_t cpu_strips_of(int64_t m)
{
    return (m + CPU_STRIP - 1) / CPU_STRIP;
}

static inline struct cpu_range cpu_strip_rows(int64_t m, int64_t i)
{
    int64_t count = cpu_strips_of(m);

    return (struct cpu_range){m * i / count, m * (i + 1) / count};
}

/* Memory that is read soon: rows of `bytes`, ld bytes apart; row and at: how far it was brought. */
struct cpu_ahead {
    const char *p;
    int64_t rows, bytes, ld;
    int64_t row, at;
};

/* Brings so many more lines of 64 bytes nearer. */
static inline void cpu_bring(struct cpu_ahead *a, int64_t lines)
{
    for (; lines > 0 && a->row < a->rows; lines--) {
        __builtin_prefetch(a->p + a->row * a->ld + a->at, 0, 2);
        a->at += 64;
        if (a->at >= a->bytes) {
            a->at = 0;
            a->row++;
        }
    }
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
