/*
 * Products by NEON, AVX2 or AVX-512, and of bf16 by BF16 of NEON or AVX-512, or AMX: c (m, n) = a
 * (m, k) b (k, n), sums in f32. A cell is 32 bits of an operand: one f32, or a pair of bf16 that
 * are neighbours in k, whose two products one instruction adds. Where the chip has no such
 * instruction, and where types differ, cells are f32: bf16 and f16 are widened while they are
 * packed or copied, FP8 is decoded before. b is packed into panels of two vectors of columns; a
 * panel has a row of cells for every cell of k, with zeros beyond k and n. Rows of an f32 a are
 * read in place, as are rows of an f32 b whose columns fill vectors, by NEON and AVX2 only if few
 * rows of a read them.
 *
 * Each sum takes its products in ascending order of k, by AMX 32 of them at once, whatever tile it
 * lies in, so neither tiles nor threads change the bits. Source: Goto & van de Geijn 2008; Intel
 * Architecture Instruction Set Extensions Programming Reference, VDPBF16PS, TDPBF16PS; Arm
 * Architecture Reference Manual for A-profile, BFDOT, BFCVT.
 */
#ifndef TR_BACKEND_CPU_CELLS_H
#define TR_BACKEND_CPU_CELLS_H

#include "trainer/backend/cpu/cpu.h"

#include <string.h>

enum {
    CPU_STRIP_AMX = 32, /* most rows of a strip by AMX */
    CPU_PANEL_MOST = 32 /* most columns of a panel */
};

static inline int64_t cpu_length(struct cpu_range r)
{
    return r.end - r.begin;
}

static inline int64_t cpu_cells_of(int64_t k, bool f32)
{
    return f32 ? k : (k + 1) / 2;
}

/* dst: cells of f32, or pairs of bf16; src: f32, bf16 or f16, for pairs bf16, stored rows ld
 * elements apart. */
struct cpu_pack {
    uint32_t *dst;
    const void *src;
    int64_t k, n, ld;
    enum tr_dtype type;
    bool f32;
};
/* src (k, n), pairs; dst (n, cells of k), rows `apart` cells apart, written in squares of 16: a
 * stored (k, m), in the order of AMX. */
void cpu_pack_across(const struct cpu_pack *p, int64_t apart);

/* Memory to prefetch: rows of `bytes`, ld bytes apart; `at` bytes of the first row are done. */
struct cpu_ahead {
    const char *p;
    int64_t rows, bytes, ld;
    int64_t at;
};

/* Prefetches one more line of 64 bytes; rows > 0. */
static inline void cpu_bring_line(struct cpu_ahead *a)
{
    __builtin_prefetch(a->p + a->at, 0, 2);
    a->at += 64;
    if (a->at >= a->bytes) {
        a->at = 0;
        a->p += a->ld;
        a->rows--;
    }
}

static inline void cpu_bring(struct cpu_ahead *a, int64_t lines)
{
    for (; lines > 0 && a->rows > 0; lines--)
        cpu_bring_line(a);
}

/* c (m, n) = n columns of b, at most a panel, times m rows of a. The sums begin at `held`, which
 * may be c, or at 0. half: they are stored there, rounded to bf16, instead of in c. scales: the
 * result is alpha * sums + beta * old value; the old value is not read when beta is 0. If b is no
 * panel, n fills one or two vectors. amx: b is a panel of pairs, and cells of a row of a are
 * contiguous. */
struct cpu_strip {
    float *c;
    uint16_t *half;    /* or NULL */
    int64_t ldc;       /* of c, or of half */
    const float *held; /* or NULL */
    int64_t ld_held;
    const char *a;
    int64_t a_row, a_cell; /* bytes from a row to the next, from a cell of a row to the next */
    const uint32_t *b;
    int64_t b_row; /* cells from a row of b to the next; 0: b is a panel */
    int64_t m, n, cells;
    float alpha, beta;
    bool scales, f32, amx;
    struct cpu_ahead *ahead; /* NULL, or prefetched by so many lines, spread over the strip */
    int64_t lines;           /* > 0 */
};

/* y (m, n) = alpha x + beta y + bias, x in f32; bias (n) NULL: none. y: f32, bf16 or f16. */
struct cpu_put {
    void *y;
    const float *x, *bias;
    int64_t m, n, ldy, ldx;
    float alpha, beta;
    enum tr_dtype type; /* of y */
};

/* A row of n values of rmsnorm_fwd and of rmsnorm_bwd (ops.h), all in C; the gain in C or f32. */
struct cpu_norm {
    void *y;
    const void *x, *gain;
    const void *dy, *dres; /* backward; y is dx then; dres NULL: none */
    int64_t n;
    bool f32, gain_f32;
};

/* y = add (NULL: 0) + the sum of weighted rows, ascending; n values in C each. */
enum { CPU_COMBINE = 16 };
struct cpu_combine {
    void *y;
    const void *add, *rows[CPU_COMBINE];
    float weights[CPU_COMBINE];
    int64_t count, n;
    bool f32;
};

/* Two rows of n values. */
struct cpu_pair {
    const void *x, *y;
    int64_t n;
    enum tr_dtype type; /* f32, bf16 or f16 */
};

/* A row of scores s and, in a backward, of dO V^T: those in [from, n) are seen. Rows p and ds of
 * `width` values in C get zeros elsewhere. */
struct cpu_scores {
    const float *s, *dp;
    void *p, *ds;
    int64_t from, n, width;
    float scale;
    bool f32;
};

/*
 * Kernels by vectors of one width, of `lanes` f32. Packing: of src (k, n) into panels (pack_rows;
 * with no more columns than a vector has, the rest of a panel's rows stays), the same of src (n, k)
 * (pack_turned); into (cells of k, n), an a stored (k, m) (pack_cells); and into (strips of n,
 * cells of k, strip_cells), where what lies beyond a strip's columns is of no use (pack_strips).
 *   widen            n values of f32, bf16 or f16 to f32
 *   halve, round     n values to bf16, round in place as f32; BF16's instruction takes subnormal
 *                    numbers as 0
 *   copy, exp_sum, sigmoid, swiglu   as cpu_copy_row, cpu_exp_sum, cpu_sigmoid and cpu_swiglu
 *   turn             as cpu_turn, of rows and columns that fill vectors
 *   norm             returns r
 *   scores_max       the largest of scale * s, at least `least`
 *   scores_exp       p = exp(scale * s - max); returns the sum, before p is rounded
 *   scores_grad      p = exp(scale * s - lse); ds = p * (dp - d) * scale
 */
#define CPU_KERNELS(X)                                                                             \
    X(void, pack_rows, const struct cpu_pack *p)                                                   \
    X(void, pack_turned, const struct cpu_pack *p)                                                 \
    X(void, pack_cells, const struct cpu_pack *p)                                                  \
    X(void, pack_strips, const struct cpu_pack *p)                                                 \
    X(void, strip, const struct cpu_strip *s)                                                      \
    X(void, put, const struct cpu_put *p)                                                          \
    X(void, widen, float *dst, const void *src, enum tr_dtype type, int64_t n)                     \
    X(void, halve, uint16_t *dst, const float *src, int64_t n)                                     \
    X(void, round, float *x, int64_t n)                                                            \
    X(void, copy, void *dst, const void *src, int64_t bytes)                                       \
    X(void, turn, const struct cpu_turn *t)                                                        \
    X(float, exp_sum, float *x, float max, int64_t n)                                              \
    X(void, sigmoid, float *y, const float *x, int64_t n)                                          \
    X(void, swiglu, float *h, const float *g, const float *u, int64_t n)                           \
    X(float, norm, const struct cpu_norm *p, float eps)                                            \
    X(void, norm_grad, const struct cpu_norm *p, float r)                                          \
    X(void, combine, const struct cpu_combine *c)                                                  \
    X(float, dot, const struct cpu_pair *p)                                                        \
    X(float, scores_max, const struct cpu_scores *x, float least)                                  \
    X(float, scores_exp, const struct cpu_scores *x, float max)                                    \
    X(void, scores_grad, const struct cpu_scores *x, float lse, float d)

struct cpu_kernels {
    const char *name;
    int64_t lanes, panel;            /* f32 of a vector; columns of a panel */
    int64_t strip_rows, strip_cells; /* most rows of a strip; cells of a row of a packed one */
    bool pairs;                      /* cells may be pairs of bf16 */
#define CPU_KERNEL_SLOT(type, name, ...) type (*name)(__VA_ARGS__);
    CPU_KERNELS(CPU_KERNEL_SLOT)
#undef CPU_KERNEL_SLOT
};

/* The widest kernels that this build has, the chip runs and FLOWTRAIN_MAX_ISA allows; NULL: none.
 * Tests set that variable to try a lesser chip. */
const struct cpu_kernels *cpu_kernels(void);
bool cpu_may_tile(void); /* whether that variable allows AMX */

static inline int64_t cpu_panels_of(int64_t n)
{
    int64_t panel = cpu_kernels()->panel;

    return (n + panel - 1) / panel;
}

/* Whether the chip has AMX and the system lets this process use it. */
bool cpu_amx_have(void);
void cpu_amx_strip(const struct cpu_strip *s); /* what `strip` does when s->amx */
/* Releases the thread's tile registers after its strips. */
void cpu_amx_release(void);

/* Whether rows that lie `apart` bytes apart fall into too few sets of the L1 cache for a strip. */
bool cpu_crowded(int64_t apart, int64_t rows);

/* Row stride, in cells, of a copied strip: an odd number of cache lines. */
static inline int64_t cpu_spread(int64_t cells)
{
    return ((cells + 15) / 16 | 1) * 16;
}

/* Most rows of a strip. */
static inline int64_t cpu_strip_most(bool amx)
{
    return amx ? CPU_STRIP_AMX : cpu_kernels()->strip_rows;
}

/* Sets the strip's rows of a, of a type and `apart` bytes apart: in place, or in `copy` (m rows of
 * cpu_spread(cells)) if cpu_crowded or to be widened. */
static inline void cpu_strip_take(struct cpu_strip *s, const char *rows, int64_t apart,
                                  enum tr_dtype type, uint32_t *copy)
{
    int64_t cell = sizeof *copy, to = cpu_spread(s->cells) * cell;
    bool widened = s->f32 && type != TR_F32;

    s->a = rows;
    s->a_row = apart;
    s->a_cell = cell;
    if (!widened && !cpu_crowded(apart, cpu_strip_most(s->amx)))
        return;
    for (int64_t i = 0; i < s->m; i++) {
        char *at = (char *)copy + i * to;

        if (widened)
            cpu_kernels()->widen((float *)at, rows + i * apart, type, s->cells);
        else
            memcpy(at, rows + i * apart, (size_t)(s->cells * cell));
    }
    s->a = (const char *)copy;
    s->a_row = to;
}

/* The number of strips of m rows, and the rows of strip i: of equal size, or full but the last. */
static inline int64_t cpu_strips_of(int64_t m, bool amx)
{
    int64_t most = cpu_strip_most(amx);

    return (m + most - 1) / most;
}

static inline struct cpu_range cpu_strip_rows(int64_t m, int64_t i, bool amx)
{
    int64_t count = cpu_strips_of(m, amx);

    if (amx)
        return (struct cpu_range){i * CPU_STRIP_AMX, cpu_least((i + 1) * CPU_STRIP_AMX, m)};
    return (struct cpu_range){m * i / count, m * (i + 1) / count};
}

#endif
