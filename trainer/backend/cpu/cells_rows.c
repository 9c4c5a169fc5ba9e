/* Row kernels by AVX-512: stores of sums, norms, exp, rounding, and scores of attention. */
#include "trainer/backend/cpu/cells_avx.h"

#include <math.h>

/* 16 values, masked. */
INLINE __m512 load(const void *y, int64_t at, __mmask16 mask, bool f32)
{
    if (f32)
        return _mm512_maskz_loadu_ps(mask, (const float *)y + at);
    return widen(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)y + at));
}

INLINE void store(void *y, int64_t at, __mmask16 mask, __m512 x, bool f32)
{
    if (f32)
        _mm512_mask_storeu_ps((float *)y + at, mask, x);
    else
        _mm256_mask_storeu_epi16((uint16_t *)y + at, mask, (__m256i)_mm512_cvtneps_pbh(x));
}

CELLS void cpu_cells_copy(void *dst, const void *src, int64_t bytes)
{
    int64_t i = 0;

    for (; i + 64 <= bytes; i += 64)
        _mm512_storeu_si512((char *)dst + i, _mm512_loadu_si512((const char *)src + i));
    if (i < bytes) {
        __mmask64 some = ~0ULL >> (64 - (bytes - i));

        _mm512_mask_storeu_epi8((char *)dst + i, some,
                                _mm512_maskz_loadu_epi8(some, (const char *)src + i));
    }
}

/* Stores one row; plain: without beta and bias. Prefetches the row that is stored AHEAD rows later.
 */
INLINE void put_row(const struct cpu_put *p, int64_t i, const bool f32, const bool plain)
{
    enum { AHEAD = 8 };
    const __m512 alpha = _mm512_set1_ps(p->alpha), beta = _mm512_set1_ps(p->beta);
    const float *x = p->x + i * p->ldx, *bias = p->bias;
    int64_t n = p->n, row = p->ldy * (f32 ? 4 : 2);
    char *y = (char *)p->y + i * row;

    for (int64_t at = 0; i + AHEAD < p->m && at < n; at += f32 ? 16 : 32)
        __builtin_prefetch(y + AHEAD * row + at * (f32 ? 4 : 2), 1);
    for (int64_t at = 0; at < n; at += 16) {
        __mmask16 mask = (__mmask16)first(n - at);
        __m512 z = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + at), alpha);

        if (!plain && p->beta != 0)
            z = _mm512_fmadd_ps(load(y, at, mask, f32), beta, z);
        if (!plain && bias != NULL)
            z = _mm512_add_ps(z, _mm512_maskz_loadu_ps(mask, bias + at));
        store(y, at, mask, z, f32);
    }
}

CELLS void cpu_put(const struct cpu_put *p)
{
    bool plain = p->beta == 0 && p->bias == NULL;

    for (int64_t i = 0; i < p->m; i++)
        if (p->f32)
            plain ? put_row(p, i, true, true) : put_row(p, i, true, false);
        else
            plain ? put_row(p, i, false, true) : put_row(p, i, false, false);
}

/* ---- norm ---- */

INLINE float norm(const struct cpu_norm *p, float eps, const bool f32, const bool gain_f32)
{
    __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()}, r;
    int64_t n = p->n;
    float root;

    for (int64_t at = 0; at < n; at += 32)
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            __m512 x = load(p->x, at + 16 * k, (__mmask16)first(n - at - 16 * k), f32);

            sum[k] = _mm512_fmadd_ps(x, x, sum[k]);
        }
    root = 1 / sqrtf(_mm512_reduce_add_ps(_mm512_add_ps(sum[0], sum[1])) / (float)n + eps);
    r = _mm512_set1_ps(root);
    for (int64_t at = 0; at < n; at += 16) {
        __mmask16 some = (__mmask16)first(n - at);
        __m512 x = _mm512_mul_ps(load(p->x, at, some, f32), r);

        if (!f32)
            x = widen((__m256i)_mm512_cvtneps_pbh(x));
        store(p->y, at, some, _mm512_mul_ps(x, load(p->gain, at, some, gain_f32)), f32);
    }
    return root;
}

CELLS float cpu_cells_norm(const struct cpu_norm *p, float eps)
{
    if (p->f32)
        return norm(p, eps, true, true);
    return p->gain_f32 ? norm(p, eps, false, true) : norm(p, eps, false, false);
}

INLINE void norm_grad(const struct cpu_norm *p, float root, const bool f32, const bool gain_f32)
{
    __m512 sum = _mm512_setzero_ps(), r = _mm512_set1_ps(root), mean;
    int64_t n = p->n;

    for (int64_t at = 0; at < n; at += 16) {
        __mmask16 some = (__mmask16)first(n - at);
        __m512 u = _mm512_mul_ps(load(p->dy, at, some, f32), load(p->gain, at, some, gain_f32));

        sum = _mm512_fmadd_ps(u, _mm512_mul_ps(load(p->x, at, some, f32), r), sum);
    }
    mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)n);
    for (int64_t at = 0; at < n; at += 16) {
        __mmask16 some = (__mmask16)first(n - at);
        __m512 u = _mm512_mul_ps(load(p->dy, at, some, f32), load(p->gain, at, some, gain_f32));

        u = _mm512_fnmadd_ps(mean, _mm512_mul_ps(load(p->x, at, some, f32), r), u);
        u = _mm512_mul_ps(u, r);
        if (p->dres != NULL)
            u = _mm512_add_ps(u, load(p->dres, at, some, f32));
        store(p->y, at, some, u, f32);
    }
}

CELLS void cpu_cells_norm_grad(const struct cpu_norm *p, float r)
{
    if (p->f32)
        norm_grad(p, r, true, true);
    else if (p->gain_f32)
        norm_grad(p, r, false, true);
    else
        norm_grad(p, r, false, false);
}

INLINE void combine(const struct cpu_combine *c, const bool f32)
{
    for (int64_t at = 0; at < c->n; at += 16) {
        __mmask16 some = (__mmask16)first(c->n - at);
        __m512 sum = c->add != NULL ? load(c->add, at, some, f32) : _mm512_setzero_ps();

        for (int64_t k = 0; k < c->count; k++)
            sum = _mm512_fmadd_ps(_mm512_set1_ps(c->weights[k]), load(c->rows[k], at, some, f32),
                                  sum);
        store(c->y, at, some, sum, f32);
    }
}

CELLS void cpu_cells_combine(const struct cpu_combine *c)
{
    if (c->f32)
        combine(c, true);
    else
        combine(c, false);
}

/* ---- exp ---- */

/* exp(x) by x = k ln 2 + r, |r| <= ln 2 / 2, and the series of exp(r) to r^7: 2 ulp. Below the
 * smallest normal it is 0; NaN stays NaN. */
INLINE __m512 exp_of(__m512 x)
{
    __m512 c = _mm512_min_ps(_mm512_set1_ps(89), x); /* if one is NaN, the second operand */
    __m512 k = _mm512_roundscale_ps(_mm512_mul_ps(c, _mm512_set1_ps(1.44269504f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(k, _mm512_set1_ps(0.693359375f), c);
    __m512 p = _mm512_set1_ps(1.0f / 5040);

    r = _mm512_fmadd_ps(k, _mm512_set1_ps(2.12194440e-4f), r);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ), p, k);
}

CELLS float cpu_cells_exp_sum(float *x, float max, int64_t n)
{
    __m512 sum = _mm512_setzero_ps(), most = _mm512_set1_ps(max);

    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 some = (__mmask16)first(n - i);
        __m512 y = exp_of(_mm512_sub_ps(_mm512_maskz_loadu_ps(some, x + i), most));

        _mm512_mask_storeu_ps(x + i, some, y);
        sum = _mm512_mask_add_ps(sum, some, sum, y);
    }
    return _mm512_reduce_add_ps(sum);
}

INLINE __m512 sigmoid(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1);

    return _mm512_div_ps(one, _mm512_add_ps(one, exp_of(_mm512_sub_ps(_mm512_setzero_ps(), x))));
}

CELLS void cpu_cells_sigmoid(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 some = (__mmask16)first(n - i);

        _mm512_mask_storeu_ps(y + i, some, sigmoid(_mm512_maskz_loadu_ps(some, x + i)));
    }
}

CELLS void cpu_cells_swiglu(float *h, const float *g, const float *u, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 some = (__mmask16)first(n - i);
        __m512 x = _mm512_maskz_loadu_ps(some, g + i);

        x = _mm512_mul_ps(_mm512_mul_ps(x, sigmoid(x)), _mm512_maskz_loadu_ps(some, u + i));
        _mm512_mask_storeu_ps(h + i, some, x);
    }
}

/* ---- rounding ---- */

CELLS void cpu_cells_halve(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 32 <= n; i += 32)
        _mm512_storeu_si512(dst + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(src + i + 16),
                                                                  _mm512_loadu_ps(src + i)));
    for (; i < n; i += 16) {
        __mmask16 some = (__mmask16)first(n - i);

        store(dst, i, some, _mm512_maskz_loadu_ps(some, src + i), false);
    }
}

CELLS void cpu_cells_round(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 some = (__mmask16)first(n - i);
        __m256i half = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i));

        _mm512_mask_storeu_epi32(x + i, some, _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
    }
}

/* ---- attention ---- */

CELLS float cpu_pair_dot(const struct cpu_pair *p)
{
    const float *x = p->x, *y = p->y;
    const uint16_t *a = p->x, *b = p->y;
    __m512 sum = _mm512_setzero_ps();

    for (int64_t i = 0; p->f32 && i < p->n; i += 16) {
        __mmask16 some = (__mmask16)first(p->n - i);

        sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(some, x + i),
                              _mm512_maskz_loadu_ps(some, y + i), sum);
    }
    for (int64_t i = 0; !p->f32 && i < p->n; i += 32) {
        __mmask32 some = first(p->n - i);

        sum = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_maskz_loadu_epi16(some, a + i),
                               (__m512bh)_mm512_maskz_loadu_epi16(some, b + i));
    }
    return _mm512_reduce_add_ps(sum);
}

/* The mask of the seen columns among [at, at+16). */
INLINE __mmask16 seen(const struct cpu_scores *x, int64_t at)
{
    __mmask16 before = (__mmask16)first(x->from - at);

    return (__mmask16)first(x->n - at) & (__mmask16)~before;
}

CELLS float cpu_scores_max(const struct cpu_scores *x, float least)
{
    __m512 max = _mm512_set1_ps(least), scale = _mm512_set1_ps(x->scale);

    for (int64_t at = x->from & ~(int64_t)15; at < x->n; at += 16) {
        __m512 s = _mm512_mul_ps(_mm512_loadu_ps(x->s + at), scale);

        max = _mm512_mask_max_ps(max, seen(x, at), s, max); /* if one is NaN, the maximum so far */
    }
    return _mm512_reduce_max_ps(max);
}

CELLS float cpu_scores_exp(const struct cpu_scores *x, float max)
{
    __m512 sum = _mm512_setzero_ps(), most = _mm512_set1_ps(max), scale = _mm512_set1_ps(x->scale);

    for (int64_t at = 0; at < x->width; at += 16) {
        __mmask16 some = seen(x, at);
        __m512 p = _mm512_setzero_ps();

        if (some != 0) {
            p = _mm512_mul_ps(_mm512_loadu_ps(x->s + at), scale);
            p = _mm512_maskz_mov_ps(some, exp_of(_mm512_sub_ps(p, most)));
            sum = _mm512_add_ps(sum, p);
        }
        store(x->p, at, 0xffff, p, x->f32);
    }
    return _mm512_reduce_add_ps(sum);
}

CELLS void cpu_scores_grad(const struct cpu_scores *x, float lse, float d)
{
    __m512 scale = _mm512_set1_ps(x->scale), most = _mm512_set1_ps(lse), less = _mm512_set1_ps(d);

    for (int64_t at = 0; at < x->width; at += 16) {
        __mmask16 some = seen(x, at);
        __m512 p = _mm512_setzero_ps(), ds = p;

        if (some != 0) {
            p = _mm512_mul_ps(_mm512_loadu_ps(x->s + at), scale);
            p = _mm512_maskz_mov_ps(some, exp_of(_mm512_sub_ps(p, most)));
            ds = _mm512_mul_ps(p, _mm512_sub_ps(_mm512_loadu_ps(x->dp + at), less));
            ds = _mm512_maskz_mul_ps(some, ds, scale);
        }
        store(x->p, at, 0xffff, p, x->f32);
        store(x->ds, at, 0xffff, ds, x->f32);
    }
}
