/*
 * Products of f32 by AVX-512, and of bf16 by AVX-512 or AMX: c (m, n) = a (m, k) b (k, n), sums in
 * f32. A cell is 32 bits of an operand: one f32, or a pair of bf16 that are neighbours in k, whose
 * two products one instruction adds. b is packed into panels of 32 columns; a panel has a row of 32
 * cells for every cell of k, with zeros beyond k and n. Rows of a are read in place, as are rows of
 * an f32 b whose columns fill vectors.
 *
 * Each sum takes its products in ascending order of k, by AMX 32 of them at once, whatever tile it
 * lies in, so neither tiles nor threads change the bits. Source: Goto & van de Geijn 2008; Intel
 * Architecture Instruction Set Extensions Programming Reference, VDPBF16PS, TDPBF16PS.
 */
#ifndef TR_BACKEND_CPU_CELLS_H
#define TR_BACKEND_CPU_CELLS_H

#include "trainer/backend/cpu/cpu.h"

#include <string.h>

/* Columns of a panel; most rows of a strip, and of one by AMX; cells of a row of a packed strip. */
enum { CPU_PANEL = 32, CPU_STRIP = 14, CPU_STRIP_AMX = 32, CPU_STRIP_CELLS = 16 };

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

/* Whether this build has the kernels, the chip has the instructions, and ONEDNN_MAX_CPU_ISA allows
 * them; tests set that variable to try a lesser chip. */
bool cpu_cells_have(bool f32);
bool cpu_cells_may_tile(void); /* whether that variable allows AMX */

/* n values rounded to bf16, if cpu_cells_have(false): into dst, or in place as f32. Subnormal
 * numbers become 0. */
void cpu_cells_halve(uint16_t *dst, const float *src, int64_t n);
void cpu_cells_round(float *x, int64_t n);

/* As cpu_copy_row, if cpu_cells_have(true). */
void cpu_cells_copy(void *dst, const void *src, int64_t bytes);

/* As cpu_turn of whole squares of 16, if cpu_cells_have(true). */
enum { CPU_SQUARE = 16 };
void cpu_cells_turn(const struct cpu_turn *t);

/* As cpu_exp_sum, cpu_sigmoid and cpu_swiglu, if cpu_cells_have(true). */
float cpu_cells_exp_sum(float *x, float max, int64_t n);
void cpu_cells_sigmoid(float *y, const float *x, int64_t n);
void cpu_cells_swiglu(float *h, const float *g, const float *u, int64_t n);

/* dst: cells; src: f32 or bf16, stored rows ld elements apart. */
struct cpu_pack {
    uint32_t *dst;
    const void *src;
    int64_t k, n, ld;
    bool f32;
};
/* src (k, n); dst: panels. In a panel of 16 columns or fewer the rest of each row of dst stays. */
void cpu_pack_rows(const struct cpu_pack *p);
void cpu_pack_turned(const struct cpu_pack *p); /* the same of src (n, k) */
/* src (k, n); dst (cells of k, n): a stored (k, m). */
void cpu_pack_cells(const struct cpu_pack *p);
/* src (k, n); dst (strips of n, cells of k, CPU_STRIP_CELLS): a stored (k, m), by strips. What lies
 * beyond a strip's columns is of no use. */
void cpu_pack_strips(const struct cpu_pack *p);
/* bf16 alone: src (k, n); dst (n, cells of k), rows `apart` cells apart, written in squares of 16:
 * a stored (k, m), in the order of AMX. */
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

/* c (m, n) = or += n <= 32 columns of b times m rows of a. half: the sums begin at 0 and are stored
 * there, rounded to bf16, instead of in c. scales: the result is alpha * sums + beta * old value;
 * the old value is not read when beta is 0. If b is no panel, n is 16 or 32. amx: b is a panel of
 * bf16, and cells of a row of a are contiguous. */
struct cpu_strip {
    float *c;
    uint16_t *half; /* or NULL */
    int64_t ldc;    /* of c, or of half */
    const char *a;
    int64_t a_row, a_cell; /* bytes from a row to the next, from a cell of a row to the next */
    const uint32_t *b;
    int64_t b_row; /* cells from a row of b to the next; 0: b is a panel */
    int64_t m, n, cells;
    float alpha, beta;
    bool add, scales, f32, amx;
    struct cpu_ahead *ahead; /* NULL, or prefetched by so many lines, spread over the strip */
    int64_t lines;           /* > 0 */
};
void cpu_strip(const struct cpu_strip *s);

/* Whether the chip has AMX and the system lets this process use it. */
bool cpu_amx_have(void);
void cpu_amx_strip(const struct cpu_strip *s); /* cpu_strip calls it when s->amx */
/* Releases the thread's tile registers after its strips. */
void cpu_amx_release(void);

/* Whether rows that lie `apart` bytes apart fall into too few sets of the L1 cache for a strip. */
bool cpu_crowded(int64_t apart, int64_t rows);

/* Row stride, in cells, of a copied strip: an odd number of cache lines. */
static inline int64_t cpu_spread(int64_t cells)
{
    return ((cells + 15) / 16 | 1) * 16;
}

/* Sets the strip's rows of a, `apart` bytes apart: in place, or in `copy` (m rows of
 * cpu_spread(cells)) if cpu_crowded. */
static inline void cpu_strip_take(struct cpu_strip *s, const char *rows, int64_t apart,
                                  uint32_t *copy)
{
    int64_t cell = sizeof *copy, to = cpu_spread(s->cells) * cell;

    s->a = rows;
    s->a_row = apart;
    s->a_cell = cell;
    if (!cpu_crowded(apart, s->amx ? CPU_STRIP_AMX : CPU_STRIP))
        return;
    for (int64_t i = 0; i < s->m; i++)
        memcpy((char *)copy + i * to, rows + i * apart, (size_t)(s->cells * cell));
    s->a = (const char *)copy;
    s->a_row = to;
}

/* The number of strips of m rows, and the rows of strip i: of equal size, or full but the last. */
static inline int64_t cpu_strips_of(int64_t m, bool amx)
{
    int64_t most = amx ? CPU_STRIP_AMX : CPU_STRIP;

    return (m + most - 1) / most;
}

static inline struct cpu_range cpu_strip_rows(int64_t m, int64_t i, bool amx)
{
    int64_t count = cpu_strips_of(m, amx);

    if (amx)
        return (struct cpu_range){i * CPU_STRIP_AMX, cpu_least((i + 1) * CPU_STRIP_AMX, m)};
    return (struct cpu_range){m * i / count, m * (i + 1) / count};
}

/* y (m, n) = alpha x + beta y + bias, x in f32; bias (n) NULL: none. y: bf16 or f32. */
struct cpu_put {
    void *y;
    const float *x, *bias;
    int64_t m, n, ldy, ldx;
    float alpha, beta;
    bool f32;
};
void cpu_put(const struct cpu_put *p);

/* A row of n values of rmsnorm_fwd and of rmsnorm_bwd (ops.h), all in C; the gain in C or f32. */
struct cpu_norm {
    void *y;
    const void *x, *gain;
    const void *dy, *dres; /* backward; y is dx then; dres NULL: none */
    int64_t n;
    bool f32, gain_f32;
};
float cpu_cells_norm(const struct cpu_norm *p, float eps); /* r */
void cpu_cells_norm_grad(const struct cpu_norm *p, float r);

/* y = add (NULL: 0) + the sum of weighted rows, ascending; n values in C each. */
enum { CPU_COMBINE = 16 };
struct cpu_combine {
    void *y;
    const void *add, *rows[CPU_COMBINE];
    float weights[CPU_COMBINE];
    int64_t count, n;
    bool f32;
};
void cpu_cells_combine(const struct cpu_combine *c);

/* x . y of n values in C. */
struct cpu_pair {
    const void *x, *y;
    int64_t n;
    bool f32;
};
float cpu_pair_dot(const struct cpu_pair *p);

/* A row of scores s and, in a backward, of dO V^T: those in [from, n) are seen. Rows p and ds of
 * `width` values in C get zeros elsewhere. */
struct cpu_scores {
    const float *s, *dp;
    void *p, *ds;
    int64_t from, n, width;
    float scale;
    bool f32;
};
/* The largest of scale * s, at least `least`. */
float cpu_scores_max(const struct cpu_scores *x, float least);
/* p = exp(scale * s - max); the sum, before p is rounded. */
float cpu_scores_exp(const struct cpu_scores *x, float max);
/* p = exp(scale * s - lse); ds = p * (dp - d) * scale. */
void cpu_scores_grad(const struct cpu_scores *x, float lse, float d);

#endif
