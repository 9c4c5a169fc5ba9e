/* Packing of operands into cells (cells.h), built once for each level of cells_simd.h. */
#include "trainer/backend/cpu/cells_simd.h"

#include <string.h>

enum { CELL = sizeof(uint32_t) };

#ifdef CPU_PAIRS
INLINE struct row pairs_at(const struct cpu_pack *p, int64_t i, int64_t j)
{
    const uint16_t *half = (const uint16_t *)p->src + 2 * i * p->ld + j;
    vec below = VEC(setzero_ps)();

    if (2 * i + 1 < p->k)
        below = load_pairs(half + p->ld, p->n - j);
    return pair_up(load_pairs(half, p->n - j), below);
}
#endif

/* Columns [j, j+PANEL) of row i of the cells of src (k, n). */
INLINE struct row row_at(const struct cpu_pack *p, int64_t i, int64_t j, const enum tr_dtype type)
{
    int64_t at = i * p->ld + j, n = p->n - j;

#ifdef CPU_PAIRS
    if (type == TR_NONE)
        return pairs_at(p, i, j);
#endif
    return (struct row){load(p->src, at, n, type), load(p->src, at + LANES, n - LANES, type)};
}

/* What a cell is made of: a type, or TR_NONE: a pair of bf16. */
INLINE enum tr_dtype made_of(const struct cpu_pack *p)
{
    return p->f32 ? p->type : TR_NONE;
}

/* Runs DO with a constant for each type that cells are made of. */
#ifdef CPU_PAIRS
#define EACH_TYPE(p, DO)                                                                           \
    do {                                                                                           \
        enum tr_dtype type_ = made_of(p);                                                          \
        if (type_ == TR_NONE)                                                                      \
            DO(p, TR_NONE);                                                                        \
        else if (type_ == TR_F32)                                                                  \
            DO(p, TR_F32);                                                                         \
        else if (type_ == TR_BF16)                                                                 \
            DO(p, TR_BF16);                                                                        \
        else                                                                                       \
            DO(p, TR_F16);                                                                         \
    } while (0)
#else
#define EACH_TYPE(p, DO)                                                                           \
    do {                                                                                           \
        enum tr_dtype type_ = made_of(p);                                                          \
        if (type_ == TR_F32)                                                                       \
            DO(p, TR_F32);                                                                         \
        else if (type_ == TR_BF16)                                                                 \
            DO(p, TR_BF16);                                                                        \
        else                                                                                       \
            DO(p, TR_F16);                                                                         \
    } while (0)
#endif

INLINE void pack_rows(const struct cpu_pack *p, const enum tr_dtype type)
{
    int64_t cells = cpu_cells_of(p->k, p->f32);

    for (int64_t j = 0; j < p->n; j += PANEL) {
        float *dst = (float *)p->dst + j * cells;

        for (int64_t i = 0; i < cells; i++, dst += PANEL) {
            struct row r = row_at(p, i, j, type);

            VEC(storeu_ps)(dst, r.low);
            if (j + LANES < p->n)
                VEC(storeu_ps)(dst + LANES, r.high);
        }
    }
}

CELLS void KERNEL(pack_rows)(const struct cpu_pack *p)
{
    EACH_TYPE(p, pack_rows);
}

INLINE void pack_cells(const struct cpu_pack *p, const enum tr_dtype type)
{
    for (int64_t i = 0; i < cpu_cells_of(p->k, p->f32); i++)
        for (int64_t j = 0; j < p->n; j += PANEL) {
            float *dst = (float *)p->dst + i * p->n + j;
            struct row r = row_at(p, i, j, type);

            store_part(dst, p->n - j, r.low);
            store_part(dst + LANES, p->n - j - LANES, r.high);
        }
}

CELLS void KERNEL(pack_cells)(const struct cpu_pack *p)
{
    EACH_TYPE(p, pack_cells);
}

/* Some strips at once, whose first columns are known then: each row of src is read through. */
INLINE void pack_strips(const struct cpu_pack *p, const enum tr_dtype type)
{
    enum { SOME = 64 };
    int64_t cells = cpu_cells_of(p->k, p->f32), strips = cpu_strips_of(p->n, false), cols[SOME];

    for (int64_t first = 0; first < strips; first += SOME) {
        int64_t n = cpu_least(SOME, strips - first);
        float *dst = (float *)p->dst + first * cells * STRIP_CELLS;

        for (int64_t i = 0; i < n; i++)
            cols[i] = cpu_strip_rows(p->n, first + i, false).begin;
        for (int64_t k = 0; k < cells; k++, dst += STRIP_CELLS)
            for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 3
                for (int64_t c = 0; c < STRIP_CELLS; c += LANES)
                    VEC(storeu_ps)
        (dst + i * cells * STRIP_CELLS + c, row_at(p, k, cols[i] + c, type).low);
    }
}

CELLS void KERNEL(pack_strips)(const struct cpu_pack *p)
{
    EACH_TYPE(p, pack_strips);
}

INLINE void widen_row(float *dst, const void *src, const enum tr_dtype type, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES)
        store_part(dst + i, n - i, load(src, i, n - i, type));
}

CELLS void KERNEL(widen)(float *dst, const void *src, enum tr_dtype type, int64_t n)
{
    if (type == TR_BF16)
        widen_row(dst, src, TR_BF16, n);
    else if (type == TR_F16)
        widen_row(dst, src, TR_F16, n);
    else
        memcpy(dst, src, (size_t)n * sizeof *dst);
}

/* ---- transposed ---- */

/* Row r of a turned square. Pairs of bf16 become two rows of f32. */
INLINE void store_turned(float *dst, int64_t ldd, int64_t r, vec x, const enum tr_dtype type)
{
    if (type != TR_BF16) {
        VEC(storeu_ps)(dst + r * ldd, x);
        return;
    }
    VEC(storeu_ps)(dst + 2 * r * ldd, lower_half(x));
    VEC(storeu_ps)(dst + (2 * r + 1) * ldd, upper_half(x));
}

/* LANES words of 32 bits in a row and a column, src in rows ld bytes apart, dst ldd words. By
 * rounds of interleaving, the first of which are loads: x takes four words of every fourth row. */
INLINE void turn(float *dst, int64_t ldd, const char *src, int64_t ld, const enum tr_dtype type)
{
#pragma GCC unroll 4
    for (int64_t q = 0; q < LANES / 4; q++) {
        vec x[4], t[4];

#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            x[i] = quarters(src + i * ld + 16 * q, 4 * ld);
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            t[i] = VEC(unpacklo_ps)(x[2 * i], x[2 * i + 1]);
            t[i + 2] = VEC(unpackhi_ps)(x[2 * i], x[2 * i + 1]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            int64_t r = 4 * q + 2 * i;

            store_turned(dst, ldd, r, VEC(shuffle_ps)(t[2 * i], t[2 * i + 1], 0x44), type);
            store_turned(dst, ldd, r + 1, VEC(shuffle_ps)(t[2 * i], t[2 * i + 1], 0xee), type);
        }
    }
}

CELLS void KERNEL(turn)(const struct cpu_turn *t)
{
    for (int64_t i = 0; i < t->rows; i += LANES)
        for (int64_t j = 0; j < t->cols; j += LANES)
            turn(t->dst + j * t->ldd + i, t->ldd, (const char *)(t->src + i * t->lds + j),
                 t->lds * CELL, TR_F32);
}

/* Cells [i, i+LANES) of stored row j of src (n, k). */
INLINE vec turned_at(const struct cpu_pack *p, int64_t i, int64_t j, const enum tr_dtype type)
{
#ifdef CPU_PAIRS
    if (type == TR_NONE)
        return load_pairs((const uint16_t *)p->src + j * p->ld + 2 * i, p->k - 2 * i);
#endif
    return load(p->src, j * p->ld + i, p->k - i, type);
}

/* Prefetches the rows that turn_block reads two blocks later: the hardware prefetcher does not
 * follow rows that far apart. */
INLINE void bring_block(const struct cpu_pack *p, int64_t i, int64_t j, const enum tr_dtype type)
{
    int64_t size = type == TR_F32 ? 4 : 2, cell = type == TR_NONE ? CELL : size;
    const char *at = (const char *)p->src + j * p->ld * size + (i + 32) * cell;

#pragma GCC unroll 16
    for (int64_t c = 0; c < LANES; c++)
        if (j + c < p->n)
            __builtin_prefetch(at + c * p->ld * size);
}

/* Rows of a panel that a turned square gives. */
INLINE int64_t turned_rows(const enum tr_dtype type)
{
    return type == TR_BF16 ? 2 * LANES : LANES;
}

/* Cells [i, i + turned_rows) of LANES columns from j on, of src (n, k): into columns of a panel. */
INLINE void turn_block(const struct cpu_pack *p, int64_t i, int64_t j, float *at,
                       const enum tr_dtype type)
{
    int64_t size = type == TR_F32 ? 4 : 2, step = type == TR_NONE ? 2 : 1, n = turned_rows(type);
    int64_t rows = cpu_least(cpu_cells_of(p->k, p->f32) - i, n);
    float x[LANES][LANES], y[LANES][PANEL];

    bring_block(p, i, j, type);
    if (type != TR_F16 && j + LANES <= p->n && (i + n) * step <= p->k) {
        turn(at, PANEL, (const char *)p->src + (j * p->ld + i * step) * size, p->ld * size, type);
        return;
    }
    for (; rows > 0; i += LANES, at += LANES * PANEL, rows -= LANES) {
        for (int64_t c = 0; c < LANES; c++)
            VEC(storeu_ps)(x[c], j + c < p->n ? turned_at(p, i, j + c, type) : VEC(setzero_ps)());
        turn(y[0], PANEL, (const char *)x, sizeof x[0], TR_F32);
        for (int64_t r = 0; r < cpu_least(rows, LANES); r++)
            VEC(storeu_ps)(at + r * PANEL, VEC(loadu_ps)(y[r]));
    }
}

INLINE void pack_turned(const struct cpu_pack *p, const enum tr_dtype type)
{
    int64_t cells = cpu_cells_of(p->k, p->f32);

    for (int64_t j = 0; j < p->n; j += PANEL)
        for (int64_t i = 0; i < cells; i += turned_rows(type)) {
            float *at = (float *)p->dst + j * cells + i * PANEL;

            turn_block(p, i, j, at, type);
            if (j + LANES < p->n)
                turn_block(p, i, j + LANES, at + LANES, type);
        }
}

CELLS void KERNEL(pack_turned)(const struct cpu_pack *p)
{
    EACH_TYPE(p, pack_turned);
}

#if CPU_LEVEL == 5
CELLS void cpu_pack_across(const struct cpu_pack *p, int64_t apart)
{
    float x[LANES][PANEL];

    for (int64_t i = 0; i < cpu_cells_of(p->k, false); i += 16)
        for (int64_t j = 0; j < p->n; j += PANEL) {
            float *to = (float *)p->dst + j * apart + i;

            for (int64_t r = 0; r < 16; r++) {
                struct row some = {VEC(setzero_ps)(), VEC(setzero_ps)()};

                if (2 * (i + r) < p->k)
                    some = pairs_at(p, i + r, j);
                VEC(storeu_ps)(x[r], some.low);
                VEC(storeu_ps)(x[r] + 16, some.high);
            }
            turn(to, apart, (const char *)x, sizeof x[0], TR_F32);
            if (j + 16 < p->n)
                turn(to + 16 * apart, apart, (const char *)(x[0] + 16), sizeof x[0], TR_F32);
        }
}
#endif
