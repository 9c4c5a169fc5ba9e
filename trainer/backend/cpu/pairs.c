#include "trainer/backend/cpu/pairs.h"

#include <immintrin.h>
#include <string.h>

#define PAIRS __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define INLINE static inline __attribute__((always_inline)) PAIRS

bool cpu_pairs_have(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

/* ---- packing ---- */

/* The first n of 32. */
INLINE __mmask32 first(int64_t n)
{
    return n >= 32 ? 0xffffffffU : n <= 0 ? 0 : (__mmask32)((1U << n) - 1);
}

/* Pairs of 32 columns of two rows, low: columns 0 .. 15. */
struct two {
    __m512i low, high;
};

INLINE struct two pair_up(__m512i a, __m512i b)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));

    return (struct two){_mm512_permutex2var_epi16(a, low, b),
                        _mm512_permutex2var_epi16(a, high, b)};
}

/* Pairs of columns [j, j+32) of rows 2i and 2i + 1 of src (k, n). */
INLINE struct two pair_at(const struct cpu_pack *p, int64_t i, int64_t j)
{
    const uint16_t *src = p->src + 2 * i * p->ld + j;
    __mmask32 cols = first(p->n - j);
    __m512i a = _mm512_maskz_loadu_epi16(cols, src), b = _mm512_setzero_si512();

    if (2 * i + 1 < p->k)
        b = _mm512_maskz_loadu_epi16(cols, src + p->ld);
    return pair_up(a, b);
}

PAIRS void cpu_pack_rows(const struct cpu_pack *p)
{
    int64_t pairs = cpu_pairs_of(p->k);

    for (int64_t j = 0; j < p->n; j += CPU_PANEL) {
        uint32_t *dst = p->dst + j * pairs;

        for (int64_t i = 0; i < pairs; i++, dst += CPU_PANEL) {
            struct two t = pair_at(p, i, j);

            _mm512_storeu_si512(dst, t.low);
            _mm512_storeu_si512(dst + 16, t.high);
        }
    }
}

PAIRS void cpu_pack_pairs(const struct cpu_pack *p)
{
    for (int64_t i = 0; i < cpu_pairs_of(p->k); i++)
        for (int64_t j = 0; j < p->n; j += 32) {
            uint32_t *dst = p->dst + i * p->n + j;
            __mmask32 cols = first(p->n - j);
            struct two t = pair_at(p, i, j);

            _mm512_mask_storeu_epi32(dst, (__mmask16)cols, t.low);
            _mm512_mask_storeu_epi32(dst + 16, (__mmask16)(cols >> 16), t.high);
        }
}

/* 16 x 16 cells of 32 bits, by four rounds of interleaving. */
INLINE void turn(__m512i x[16])
{
    __m512i t[16];

    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 2; k++) {
            x[i + 2 * k] = _mm512_unpacklo_epi64(t[i + k], t[i + k + 2]);
            x[i + 2 * k + 1] = _mm512_unpackhi_epi64(t[i + k], t[i + k + 2]);
        }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) {
            t[i + 8 * k] = _mm512_shuffle_i32x4(x[i + 8 * k], x[i + 8 * k + 4], 0x88);
            t[i + 8 * k + 4] = _mm512_shuffle_i32x4(x[i + 8 * k], x[i + 8 * k + 4], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        x[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        x[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

/* Pairs [i, i+16) of 16 columns from j on, of src (n, k): into columns at of a panel. */
INLINE void turn_block(const struct cpu_pack *p, int64_t i, int64_t j, uint32_t *at)
{
    int64_t rows = cpu_pairs_of(p->k) - i;
    __mmask32 inner = first(p->k - 2 * i);
    __m512i x[16];

    for (int64_t c = 0; c < 16; c++)
        x[c] = j + c < p->n ? _mm512_maskz_loadu_epi16(inner, p->src + (j + c) * p->ld + 2 * i)
                            : _mm512_setzero_si512();
    turn(x);
    for (int64_t r = 0; r < 16; r++)
        if (r < rows)
            _mm512_storeu_si512(at + r * CPU_PANEL, x[r]);
}

PAIRS void cpu_pack_turned(const struct cpu_pack *p)
{
    int64_t pairs = cpu_pairs_of(p->k);

    for (int64_t j = 0; j < p->n; j += CPU_PANEL)
        for (int64_t i = 0; i < pairs; i += 16) {
            uint32_t *at = p->dst + j * pairs + i * CPU_PANEL;

            turn_block(p, i, j, at);
            turn_block(p, i, j + 16, at + 16);
        }
}

/* ---- sums ---- */

INLINE __m512bh twice(const char *a)
{
    int pair;

    memcpy(&pair, a, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

/* m and v (vectors of 16 columns) are constants where this is inlined: the sums are registers.
 * Rows are addressed from every third, so that few addresses are kept. */
INLINE void strip(const struct cpu_strip *s, const int m, const int v)
{
    __m512 sum[CPU_STRIP][2];
    const char *a[CPU_STRIP / 3 + 1];
    const uint32_t *b = s->b;
    int64_t row = s->a_row;

    for (int i = 0; i < m; i += 3)
        a[i / 3] = s->a + i * row;
#pragma GCC unroll 14
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            sum[i][j] = s->add && s->half == NULL ? _mm512_loadu_ps(s->c + i * s->ldc + 16 * j)
                                                  : _mm512_setzero_ps();
    for (int64_t k = s->pairs; k > 0; k--, b += CPU_PANEL) {
        __m512bh y[2];

#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            y[j] = (__m512bh)_mm512_loadu_si512(b + 16 * j);
#pragma GCC unroll 14
        for (int i = 0; i < m; i++) {
            __m512bh x = twice(a[i / 3] + i % 3 * row);

#pragma GCC unroll 2
            for (int j = 0; j < v; j++)
                sum[i][j] = _mm512_dpbf16_ps(sum[i][j], x, y[j]);
        }
#pragma GCC unroll 5
        for (int i = 0; i < m; i += 3)
            a[i / 3] += s->a_pair;
    }
    if (s->half != NULL) {
        __mmask32 cols = first(s->n);

#pragma GCC unroll 14
        for (int i = 0; i < m; i++)
#pragma GCC unroll 2
            for (int j = 0; j < v; j++)
                _mm256_mask_storeu_epi16(s->half + i * s->ldc + 16 * j, (__mmask16)(cols >> 16 * j),
                                         (__m256i)_mm512_cvtneps_pbh(sum[i][j]));
        return;
    }
#pragma GCC unroll 14
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            _mm512_storeu_ps(s->c + i * s->ldc + 16 * j, sum[i][j]);
}

#define STRIP(m)                                                                                   \
    PAIRS static void strip_##m##_half(const struct cpu_strip *s)                                  \
    {                                                                                              \
        strip(s, m, 1);                                                                            \
    }                                                                                              \
    PAIRS static void strip_##m##_full(const struct cpu_strip *s)                                  \
    {                                                                                              \
        strip(s, m, 2);                                                                            \
    }
#define STRIPS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
STRIPS(STRIP)

void cpu_strip(const struct cpu_strip *s)
{
#define STRIP_ROW(m) {strip_##m##_half, strip_##m##_full},
    static void (*const strips[CPU_STRIP][2])(const struct cpu_strip *) = {STRIPS(STRIP_ROW)};

    strips[s->m - 1][s->n > 16](s);
}

/* 16 values of y, those of the mask. */
INLINE __m512 load(const struct cpu_put *p, int64_t at, __mmask16 mask)
{
    if (p->f32)
        return _mm512_maskz_loadu_ps(mask, (const float *)p->y + at);
    return (__m512)_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)p->y + at)), 16);
}

INLINE void store(const struct cpu_put *p, int64_t at, __mmask16 mask, __m512 x)
{
    if (p->f32)
        _mm512_mask_storeu_ps((float *)p->y + at, mask, x);
    else
        _mm256_mask_storeu_epi16((uint16_t *)p->y + at, mask, (__m256i)_mm512_cvtneps_pbh(x));
}

PAIRS void cpu_put(const struct cpu_put *p)
{
    for (int64_t at = 0; at < p->n; at += 16) {
        __mmask16 mask = (__mmask16)first(p->n - at);
        __m512 x = _mm512_mul_ps(_mm512_loadu_ps(p->x + at), _mm512_set1_ps(p->alpha));

        if (p->beta != 0)
            x = _mm512_fmadd_ps(load(p, at, mask), _mm512_set1_ps(p->beta), x);
        if (p->bias != NULL)
            x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, p->bias + at));
        store(p, at, mask, x);
    }
}
