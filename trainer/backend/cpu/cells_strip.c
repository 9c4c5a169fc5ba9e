/* Strips of products and stores of their sums (cells.h), built once for each level of cells_simd.h.
 */
#include "trainer/backend/cpu/cells_simd.h"

#include <assert.h>
#include <string.h>

/* sum + a cell x (of `spread`) times those of y. */
INLINE vec add_products(vec sum, vec x, vec y, const bool f32)
{
#ifdef CPU_PAIRS
    if (!f32)
        return add_spread_pairs(sum, x, y);
#endif
    return add_spread(sum, x, y);
}

/* Sums of a strip: registers, where m rows and v vectors of columns are constants. */
struct sums {
    vec v[STRIP][2];
};

/* Sums of a strip in memory. */
struct kept {
    float v[STRIP][PANEL];
};

/* Loads what the sums of a strip begin at; beyond n columns 0. */
static __attribute__((noinline)) CELLS void load_held(const struct cpu_strip *s, struct kept *to)
{
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < PANEL; j += LANES)
            VEC(storeu_ps)(to->v[i] + j, load_part(s->held + i * s->ld_held + j, s->n - j));
}

INLINE void begin_sums(const struct cpu_strip *s, struct sums *sum, const int m, const int v)
{
    const float *old = s->held;
    int64_t ld = s->ld_held;
    struct kept held;

    if (old != NULL && s->n != v * LANES) {
        load_held(s, &held);
        old = held.v[0];
        ld = PANEL;
    }
#pragma GCC unroll 14
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            sum->v[i][j] =
                old == NULL ? VEC(setzero_ps)() : VEC(loadu_ps)(old + i * ld + LANES * j);
}

/* Stores sums that are rounded, scaled, or no whole vectors. */
static __attribute__((noinline)) void store_kept(const struct cpu_strip *s, const struct kept *sum)
{
    KERNEL(put)
    (&(struct cpu_put){.y = s->half != NULL ? (void *)s->half : s->c,
                       .x = sum->v[0],
                       .m = s->m,
                       .n = s->n,
                       .ldy = s->ldc,
                       .ldx = PANEL,
                       .alpha = s->scales ? s->alpha : 1,
                       .beta = s->scales ? s->beta : 0,
                       .type = s->half != NULL ? TR_BF16 : TR_F32});
}

INLINE void store_halves_of(uint16_t *c, int64_t ldc, const struct sums *sum, const int m,
                            const int v)
{
#pragma GCC unroll 14
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            store_halves(c + i * ldc + LANES * j, LANES, to_bf16(sum->v[i][j]));
}

INLINE void store_sums(const struct cpu_strip *s, const struct sums *sum, const int m, const int v)
{
    bool whole = !s->scales && s->n == v * LANES, direct = whole && s->half == NULL;
    struct kept kept;
    float *c = direct ? s->c : kept.v[0];
    int64_t ldc = direct ? s->ldc : PANEL; /* in a local: vector stores may alias all memory */

    if (whole && !direct) {
        store_halves_of(s->half, s->ldc, sum, m, v);
        return;
    }
#pragma GCC unroll 14
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            VEC(storeu_ps)(c + i * ldc + LANES * j, sum->v[i][j]);
    if (!direct)
        store_kept(s, &kept);
}

/* Where a strip is in its operands. Rows are addressed from every third row, so that few registers
 * hold addresses. */
struct place {
    const char *a[STRIP / 3 + 1];
    const uint32_t *b;
};

INLINE void add_cell(const struct cpu_strip *s, struct place *at, struct sums *sum, const int m,
                     const int v)
{
    const bool f32 = s->f32;
    int64_t row = s->a_row;
    vec y[2];

#pragma GCC unroll 2
    for (int j = 0; j < v; j++)
        y[j] = VEC(loadu_ps)((const float *)at->b + LANES * j);
#pragma GCC unroll 14
    for (int i = 0; i < m; i++) {
        float cell;
        vec x;

        memcpy(&cell, at->a[i / 3] + i % 3 * row, sizeof cell);
        x = spread(cell);

#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            sum->v[i][j] = add_products(sum->v[i][j], x, y[j], f32);
    }
#pragma GCC unroll 5
    for (int i = 0; i < m; i += 3)
        at->a[i / 3] += s->a_cell;
    at->b += s->b_row;
}

/* Cells of k in a turn of the loop: with more, counters cost less. */
enum { TURN = CPU_LEVEL >= 4 ? 1 : 4 };

INLINE void strip(const struct cpu_strip *whole, const int m, const int v, const bool f32)
{
    /* known not to change by stores */
    const struct cpu_strip s = {.a_row = whole->a_row,
                                .a_cell = whole->a_cell,
                                .b_row = whole->b_row != 0 ? whole->b_row : PANEL,
                                .f32 = f32};
    struct place at = {.b = whole->b};
    struct cpu_ahead ahead = {.rows = 0};
    int64_t wait = 1, every = 1, k = whole->cells;
    struct sums sum;

    if (whole->ahead != NULL) {
        int64_t turns = k / TURN;

        ahead = *whole->ahead;
        every = turns > whole->lines ? turns / whole->lines : 1;
        cpu_bring(&ahead, whole->lines - turns);
    }
#pragma GCC unroll 5
    for (int i = 0; i < m; i += 3)
        at.a[i / 3] = whole->a + i * s.a_row;
    begin_sums(whole, &sum, m, v);
    for (; k >= TURN; k -= TURN) {
        if (--wait == 0 && ahead.rows > 0) {
            cpu_bring_line(&ahead);
            wait = every;
        }
#pragma GCC unroll 4
        for (int i = 0; i < TURN; i++)
            add_cell(&s, &at, &sum, m, v);
    }
    for (; k > 0; k--)
        add_cell(&s, &at, &sum, m, v);
    if (whole->ahead != NULL)
        *whole->ahead = ahead;
    store_sums(whole, &sum, m, v);
}

#define STRIP_OF(m, name, f32)                                                                     \
    CELLS static void strip_##m##_##name(const struct cpu_strip *s)                                \
    {                                                                                              \
        s->n > LANES ? strip(s, m, 2, f32) : strip(s, m, 1, f32);                                  \
    }
#define STRIPS_6(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define STRIPS_12(X) STRIPS_6(X) X(7) X(8) X(9) X(10) X(11) X(12)
#ifdef __aarch64__
#define STRIPS STRIPS_12
#elif CPU_LEVEL == 2
#define STRIPS STRIPS_6
#else
#define STRIPS(X) STRIPS_12(X) X(13) X(14)
#endif
#ifdef CPU_PAIRS
#define STRIP_KERNELS(m) STRIP_OF(m, f32, true) STRIP_OF(m, bf16, false)
#define STRIP_ROW(m) {strip_##m##_bf16, strip_##m##_f32},
#else
#define STRIP_KERNELS(m) STRIP_OF(m, f32, true)
#define STRIP_ROW(m) {NULL, strip_##m##_f32},
#endif
STRIPS(STRIP_KERNELS)

void KERNEL(strip)(const struct cpu_strip *s)
{
    static void (*const strips[STRIP][2])(const struct cpu_strip *) = {STRIPS(STRIP_ROW)};

#if CPU_LEVEL == 5
    if (s->amx) {
        cpu_amx_strip(s);
        return;
    }
#endif
    assert(s->b_row == 0 || s->n % LANES == 0); /* whole vectors are read */
    strips[s->m - 1][s->f32](s);
}

/* ---- stores ---- */

/* Stores one row; plain: without beta and bias. Prefetches the row that is stored AHEAD rows later.
 */
INLINE void put_row(const struct cpu_put *p, int64_t i, const enum tr_dtype type, const bool plain)
{
    enum { AHEAD = 8, LINE = 64 };
    const vec alpha = VEC(set1_ps)(p->alpha), beta = VEC(set1_ps)(p->beta);
    const float *x = p->x + i * p->ldx, *bias = p->bias;
    int64_t n = p->n, size = type == TR_F32 ? 4 : 2, row = p->ldy * size;
    char *y = (char *)p->y + i * row;

    for (int64_t at = 0; i + AHEAD < p->m && at < n * size; at += LINE)
        __builtin_prefetch(y + AHEAD * row + at, 1);
    for (int64_t at = 0; at < n; at += LANES) {
        vec z = VEC(mul_ps)(load_part(x + at, n - at), alpha);

        if (!plain && p->beta != 0)
            z = VEC(fmadd_ps)(load(y, at, n - at, type), beta, z);
        if (!plain && bias != NULL)
            z = VEC(add_ps)(z, load_part(bias + at, n - at));
        store(y, at, n - at, z, type);
    }
}

INLINE void put(const struct cpu_put *p, const enum tr_dtype type)
{
    bool plain = p->beta == 0 && p->bias == NULL;

    for (int64_t i = 0; i < p->m; i++)
        plain ? put_row(p, i, type, true) : put_row(p, i, type, false);
}

CELLS void KERNEL(put)(const struct cpu_put *p)
{
    if (p->type == TR_F32)
        put(p, TR_F32);
    else if (p->type == TR_BF16)
        put(p, TR_BF16);
    else
        put(p, TR_F16);
}

/* ---- the level's kernels ---- */

#ifdef __aarch64__
#define NAME "neon"
#else
#define NAME (CPU_LEVEL == 2 ? "avx2" : "avx512")
#endif
#define CELLS_SLOT(type, name, ...) .name = KERNEL(name),
const struct cpu_kernels KERNEL(kernels) = {.name = NAME,
                                            .lanes = LANES,
                                            .panel = PANEL,
                                            .strip_rows = STRIP,
                                            .strip_cells = STRIP_CELLS,
#ifdef CPU_PAIRS
                                            .pairs = true,
#endif
                                            CPU_KERNELS(CELLS_SLOT)};
