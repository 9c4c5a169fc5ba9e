#include "trainer/backend/cpu/cells_avx.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = sizeof(uint32_t) };
enum level { UNASKED, NONE, WIDE, WIDE_BF16, TILES };

/* ONEDNN_MAX_CPU_ISA, as oneDNN reads it (its guide: CPU Dispatcher Control). */
static enum level allowed(void)
{
    const char *max = getenv("ONEDNN_MAX_CPU_ISA");

    if (max == NULL || max[0] == '\0' || strcmp(max, "ALL") == 0 || strcmp(max, "DEFAULT") == 0)
        return TILES;
    if (strstr(max, "AMX") != NULL)
        return TILES;
    if (strcmp(max, "AVX512_CORE") == 0 || strcmp(max, "AVX512_CORE_VNNI") == 0)
        return WIDE;
    return strncmp(max, "AVX512", 6) == 0 || strncmp(max, "AVX10", 5) == 0 ? WIDE_BF16 : NONE;
}

static enum level level(void)
{
    static _Atomic int known;
    int is = atomic_load_explicit(&known, memory_order_relaxed);

    if (is == UNASKED) {
        is = allowed();
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return (enum level)is;
}

bool cpu_cells_have(bool f32)
{
    return level() >= (f32 ? WIDE : WIDE_BF16) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && (f32 || __builtin_cpu_supports("avx512bf16"));
}

bool cpu_cells_may_tile(void)
{
    return level() == TILES;
}

/* ---- packing ---- */

/* 32 cells; low: the first 16. */
struct row {
    __m512i low, high;
};

INLINE struct row pair_up(__m512i a, __m512i b)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));

    return (struct row){_mm512_permutex2var_epi16(a, low, b),
                        _mm512_permutex2var_epi16(a, high, b)};
}

/* Columns [j, j+32) of row i of the cells of src (k, n). */
INLINE struct row row_at(const struct cpu_pack *p, int64_t i, int64_t j)
{
    const float *whole = (const float *)p->src + i * p->ld + j;
    const uint16_t *half = (const uint16_t *)p->src + 2 * i * p->ld + j;
    __mmask32 cols = first(p->n - j);
    __m512i a, b = _mm512_setzero_si512();

    if (p->f32)
        return (struct row){_mm512_maskz_loadu_epi32((__mmask16)cols, whole),
                            _mm512_maskz_loadu_epi32((__mmask16)(cols >> 16), whole + 16)};
    a = _mm512_maskz_loadu_epi16(cols, half);
    if (2 * i + 1 < p->k)
        b = _mm512_maskz_loadu_epi16(cols, half + p->ld);
    return pair_up(a, b);
}

CELLS void cpu_pack_rows(const struct cpu_pack *p)
{
    int64_t cells = cpu_cells_of(p->k, p->f32);

    for (int64_t j = 0; j < p->n; j += CPU_PANEL) {
        uint32_t *dst = p->dst + j * cells;

        for (int64_t i = 0; i < cells; i++, dst += CPU_PANEL) {
            struct row r = row_at(p, i, j);

            _mm512_storeu_si512(dst, r.low);
            if (j + 16 < p->n)
                _mm512_storeu_si512(dst + 16, r.high);
        }
    }
}

CELLS void cpu_pack_cells(const struct cpu_pack *p)
{
    for (int64_t i = 0; i < cpu_cells_of(p->k, p->f32); i++)
        for (int64_t j = 0; j < p->n; j += 32) {
            uint32_t *dst = p->dst + i * p->n + j;
            __mmask32 cols = first(p->n - j);
            struct row r = row_at(p, i, j);

            _mm512_mask_storeu_epi32(dst, (__mmask16)cols, r.low);
            _mm512_mask_storeu_epi32(dst + 16, (__mmask16)(cols >> 16), r.high);
        }
}

CELLS void cpu_pack_strips(const struct cpu_pack *p)
{
    int64_t cells = cpu_cells_of(p->k, p->f32), strips = cpu_strips_of(p->n, false);

    for (int64_t k = 0; k < cells; k++)
        for (int64_t i = 0; i < strips; i++)
            _mm512_storeu_si512(p->dst + (i * cells + k) * CPU_STRIP_CELLS,
                                row_at(p, k, cpu_strip_rows(p->n, i, false).begin).low);
}

/* 16 x 16 cells of 32 bits, by four rounds of interleaving; src: rows ld bytes apart, dst: ldd
 * cells. The first two rounds are loads: x takes four cells of every fourth row. */
INLINE void turn(uint32_t *dst, int64_t ldd, const char *src, int64_t ld)
{
#pragma GCC unroll 4
    for (int64_t q = 0; q < 4; q++) {
        __m512i x[4], t[4];

#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const char *at = src + i * ld + 16 * q;

            x[i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)at));
#pragma GCC unroll 3
            for (int k = 1; k < 4; k++)
                x[i] =
                    _mm512_mask_broadcast_i32x4(x[i], (__mmask16)(0xf << 4 * k),
                                                _mm_loadu_si128((const void *)(at + 4 * k * ld)));
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            t[i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
            t[i + 2] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            uint32_t *to = dst + (4 * q + 2 * i) * ldd;

            _mm512_storeu_si512(to, _mm512_unpacklo_epi64(t[2 * i], t[2 * i + 1]));
            _mm512_storeu_si512(to + ldd, _mm512_unpackhi_epi64(t[2 * i], t[2 * i + 1]));
        }
    }
}

CELLS void cpu_cells_turn(const struct cpu_turn *t)
{
    for (int64_t i = 0; i < t->rows; i += CPU_SQUARE)
        for (int64_t j = 0; j < t->cols; j += CPU_SQUARE)
            turn((uint32_t *)t->dst + j * t->ldd + i, t->ldd,
                 (const char *)(t->src + i * t->lds + j), t->lds * CELL);
}

/* Cells [i, i+16) of stored row j of src (n, k). */
INLINE __m512i turned_at(const struct cpu_pack *p, int64_t i, int64_t j)
{
    if (p->f32)
        return _mm512_maskz_loadu_epi32((__mmask16)first(p->k - i),
                                        (const float *)p->src + j * p->ld + i);
    return _mm512_maskz_loadu_epi16(first(p->k - 2 * i),
                                    (const uint16_t *)p->src + j * p->ld + 2 * i);
}

/* Prefetches the rows that turn_block reads two blocks later: the hardware prefetcher does not
 * follow rows that far apart. */
INLINE void bring_block(const struct cpu_pack *p, int64_t i, int64_t j)
{
    int64_t size = p->f32 ? 4 : 2;
    const char *at = (const char *)p->src + j * p->ld * size + (i + 32) * CELL;

#pragma GCC unroll 16
    for (int64_t c = 0; c < 16; c++)
        if (j + c < p->n)
            __builtin_prefetch(at + c * p->ld * size);
}

/* Cells [i, i+16) of 16 columns from j on, of src (n, k): into 16 columns of a panel. */
INLINE void turn_block(const struct cpu_pack *p, int64_t i, int64_t j, uint32_t *at)
{
    int64_t size = p->f32 ? 4 : 2, step = p->f32 ? 16 : 32, rows = cpu_cells_of(p->k, p->f32) - i;
    uint32_t x[16][16], y[16][CPU_PANEL];

    bring_block(p, i, j);
    if (j + 16 <= p->n && i / 16 * step + step <= p->k) {
        turn(at, CPU_PANEL, (const char *)p->src + j * p->ld * size + i * CELL, p->ld * size);
        return;
    }
    for (int64_t c = 0; c < 16; c++)
        _mm512_storeu_si512(x[c], j + c < p->n ? turned_at(p, i, j + c) : _mm512_setzero_si512());
    turn(y[0], CPU_PANEL, (const char *)x, sizeof x[0]);
    for (int64_t r = 0; r < cpu_least(rows, 16); r++)
        _mm512_storeu_si512(at + r * CPU_PANEL, _mm512_loadu_si512(y[r]));
}

CELLS void cpu_pack_turned(const struct cpu_pack *p)
{
    int64_t cells = cpu_cells_of(p->k, p->f32);

    for (int64_t j = 0; j < p->n; j += CPU_PANEL)
        for (int64_t i = 0; i < cells; i += 16) {
            uint32_t *at = p->dst + j * cells + i * CPU_PANEL;

            turn_block(p, i, j, at);
            if (j + 16 < p->n)
                turn_block(p, i, j + 16, at + 16);
        }
}

CELLS void cpu_pack_across(const struct cpu_pack *p, int64_t apart)
{
    uint32_t x[16][CPU_PANEL];

    for (int64_t i = 0; i < cpu_cells_of(p->k, false); i += 16)
        for (int64_t j = 0; j < p->n; j += CPU_PANEL) {
            uint32_t *to = p->dst + j * apart + i;

            for (int64_t r = 0; r < 16; r++) {
                struct row some = {_mm512_setzero_si512(), _mm512_setzero_si512()};

                if (2 * (i + r) < p->k)
                    some = row_at(p, i + r, j);
                _mm512_storeu_si512(x[r], some.low);
                _mm512_storeu_si512(x[r] + 16, some.high);
            }
            turn(to, apart, (const char *)x, sizeof x[0]);
            if (j + 16 < p->n)
                turn(to + 16 * apart, apart, (const char *)(x[0] + 16), sizeof x[0]);
        }
}

/* ---- sums ---- */

/* The cell at a, 16 times. */
INLINE __m512i spread(const char *a)
{
    int cell;

    memcpy(&cell, a, sizeof cell);
    return _mm512_set1_epi32(cell);
}

INLINE __m512 add_products(__m512 sum, __m512i x, __m512i y, const bool f32)
{
    return f32 ? _mm512_fmadd_ps((__m512)x, (__m512)y, sum)
               : _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
}

/* Sums of a strip: registers, where m rows and v vectors of 16 columns are constants. */
struct sums {
    __m512 v[CPU_STRIP][2];
};

INLINE __m512 scaled(const struct cpu_strip *s, __m512 sum, __m512 held)
{
    __m512 x = _mm512_mul_ps(sum, _mm512_set1_ps(s->alpha));

    return s->beta != 0 ? _mm512_fmadd_ps(held, _mm512_set1_ps(s->beta), x) : x;
}

/* c and its stride are in locals: vector stores may alias all memory. */
INLINE void store_halves(const struct cpu_strip *s, const struct sums *sum, const int m,
                         const int v)
{
    __mmask32 cols = first(s->n);
    uint16_t *c = s->half;
    int64_t ldc = s->ldc;
    bool scales = s->scales;

#pragma GCC unroll 14
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++) {
            __mmask16 some = (__mmask16)(cols >> 16 * j);
            __m512 x = sum->v[i][j];

            if (scales)
                x = scaled(s, x, widen(_mm256_maskz_loadu_epi16(some, c + i * ldc + 16 * j)));
            _mm256_mask_storeu_epi16(c + i * ldc + 16 * j, some, (__m256i)_mm512_cvtneps_pbh(x));
        }
}

INLINE void store_sums(const struct cpu_strip *s, const struct sums *sum, const int m, const int v)
{
    __mmask32 cols = first(s->n);
    float *c = s->c;
    int64_t ldc = s->ldc;
    bool scales = s->scales;

#pragma GCC unroll 14
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++) {
            __mmask16 some = (__mmask16)(cols >> 16 * j);
            __m512 x = sum->v[i][j];

            if (scales)
                x = scaled(s, x, _mm512_maskz_loadu_ps(some, c + i * ldc + 16 * j));
            _mm512_mask_storeu_ps(c + i * ldc + 16 * j, some, x);
        }
}

INLINE void begin_sums(const struct cpu_strip *s, struct sums *sum, const int m, const int v)
{
    __mmask32 cols = first(s->n);
    bool add = s->add && s->half == NULL;
    const float *c = s->c;
    int64_t ldc = s->ldc;

#pragma GCC unroll 14
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            sum->v[i][j] =
                add ? _mm512_maskz_loadu_ps((__mmask16)(cols >> 16 * j), c + i * ldc + 16 * j)
                    : _mm512_setzero_ps();
}

/* Rows are addressed from every third row, so that few registers hold addresses. */
INLINE void strip(const struct cpu_strip *s, const int m, const int v, const bool f32)
{
    struct sums sum;
    const char *a[CPU_STRIP / 3 + 1];
    const uint32_t *b = s->b;
    int64_t row = s->a_row, b_row = s->b_row != 0 ? s->b_row : CPU_PANEL, wait = 1, every = 1;
    struct cpu_ahead ahead = {.rows = 0};

    if (s->ahead != NULL) {
        ahead = *s->ahead;
        every = s->cells > s->lines ? s->cells / s->lines : 1;
        cpu_bring(&ahead, s->lines - s->cells);
    }
#pragma GCC unroll 5
    for (int i = 0; i < m; i += 3)
        a[i / 3] = s->a + i * row;
    begin_sums(s, &sum, m, v);
    for (int64_t k = s->cells; k > 0; k--, b += b_row) {
        __m512i y[2];

        if (--wait == 0 && ahead.rows > 0) {
            cpu_bring_line(&ahead);
            wait = every;
        }
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            y[j] = _mm512_loadu_si512(b + 16 * j);
#pragma GCC unroll 14
        for (int i = 0; i < m; i++) {
            __m512i x = spread(a[i / 3] + i % 3 * row);

#pragma GCC unroll 2
            for (int j = 0; j < v; j++)
                sum.v[i][j] = add_products(sum.v[i][j], x, y[j], f32);
        }
#pragma GCC unroll 5
        for (int i = 0; i < m; i += 3)
            a[i / 3] += s->a_cell;
    }
    if (s->ahead != NULL)
        *s->ahead = ahead;
    if (s->half != NULL)
        store_halves(s, &sum, m, v);
    else
        store_sums(s, &sum, m, v);
}

#define STRIP(m)                                                                                   \
    CELLS static void strip_##m##_f32(const struct cpu_strip *s)                                   \
    {                                                                                              \
        s->n > 16 ? strip(s, m, 2, true) : strip(s, m, 1, true);                                   \
    }                                                                                              \
    CELLS static void strip_##m##_bf16(const struct cpu_strip *s)                                  \
    {                                                                                              \
        s->n > 16 ? strip(s, m, 2, false) : strip(s, m, 1, false);                                 \
    }
#define STRIPS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
STRIPS(STRIP)

void cpu_strip(const struct cpu_strip *s)
{
#define STRIP_ROW(m) {strip_##m##_bf16, strip_##m##_f32},
    static void (*const strips[CPU_STRIP][2])(const struct cpu_strip *) = {STRIPS(STRIP_ROW)};

    if (s->amx) {
        cpu_amx_strip(s);
        return;
    }
    assert(s->b_row == 0 || s->n % (CPU_PANEL / 2) == 0); /* whole vectors are read */
    strips[s->m - 1][s->f32](s);
}
