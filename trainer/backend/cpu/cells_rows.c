/* Row kernels (cells.h), built once for each level of cells_simd.h: norms, exp, rounding, and
 * scores of attention. */
#include "trainer/backend/cpu/cells_simd.h"

#include <math.h>

CELLS void KERNEL(copy)(void *dst, const void *src, int64_t bytes)
{
    enum { CELL = sizeof(float) };
    int64_t n = bytes / CELL;

    for (int64_t i = 0; i < n; i += LANES)
        store_part((float *)dst + i, n - i, load_part((const float *)src + i, n - i));
    for (int64_t i = n * CELL; i < bytes; i++)
        ((char *)dst)[i] = ((const char *)src)[i];
}

/* ---- norm ---- */

INLINE float norm(const struct cpu_norm *p, float eps, const enum tr_dtype type,
                  const enum tr_dtype gain)
{
    vec sum[2] = {VEC(setzero_ps)(), VEC(setzero_ps)()}, r;
    int64_t n = p->n;
    float root;

    for (int64_t at = 0; at < n; at += PANEL)
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            vec x = load(p->x, at + LANES * k, n - at - LANES * k, type);

            sum[k] = VEC(fmadd_ps)(x, x, sum[k]);
        }
    root = 1 / sqrtf(sum_of(VEC(add_ps)(sum[0], sum[1])) / (float)n + eps);
    r = VEC(set1_ps)(root);
    for (int64_t at = 0; at < n; at += LANES) {
        vec x = VEC(mul_ps)(load(p->x, at, n - at, type), r);

        if (type == TR_BF16)
            x = widen(to_bf16(x));
        store(p->y, at, n - at, VEC(mul_ps)(x, load(p->gain, at, n - at, gain)), type);
    }
    return root;
}

CELLS float KERNEL(norm)(const struct cpu_norm *p, float eps)
{
    if (p->f32)
        return norm(p, eps, TR_F32, TR_F32);
    return p->gain_f32 ? norm(p, eps, TR_BF16, TR_F32) : norm(p, eps, TR_BF16, TR_BF16);
}

INLINE void norm_grad(const struct cpu_norm *p, float root, const enum tr_dtype type,
                      const enum tr_dtype gain)
{
    vec sum = VEC(setzero_ps)(), r = VEC(set1_ps)(root), mean;
    int64_t n = p->n;

    for (int64_t at = 0; at < n; at += LANES) {
        vec u = VEC(mul_ps)(load(p->dy, at, n - at, type), load(p->gain, at, n - at, gain));

        sum = VEC(fmadd_ps)(u, VEC(mul_ps)(load(p->x, at, n - at, type), r), sum);
    }
    mean = VEC(set1_ps)(sum_of(sum) / (float)n);
    for (int64_t at = 0; at < n; at += LANES) {
        vec u = VEC(mul_ps)(load(p->dy, at, n - at, type), load(p->gain, at, n - at, gain));

        u = VEC(fnmadd_ps)(mean, VEC(mul_ps)(load(p->x, at, n - at, type), r), u);
        u = VEC(mul_ps)(u, r);
        if (p->dres != NULL)
            u = VEC(add_ps)(u, load(p->dres, at, n - at, type));
        store(p->y, at, n - at, u, type);
    }
}

CELLS void KERNEL(norm_grad)(const struct cpu_norm *p, float r)
{
    if (p->f32)
        norm_grad(p, r, TR_F32, TR_F32);
    else if (p->gain_f32)
        norm_grad(p, r, TR_BF16, TR_F32);
    else
        norm_grad(p, r, TR_BF16, TR_BF16);
}

INLINE void combine(const struct cpu_combine *c, const enum tr_dtype type)
{
    for (int64_t at = 0; at < c->n; at += LANES) {
        int64_t n = c->n - at;
        vec sum = c->add != NULL ? load(c->add, at, n, type) : VEC(setzero_ps)();

        for (int64_t k = 0; k < c->count; k++)
            sum = VEC(fmadd_ps)(VEC(set1_ps)(c->weights[k]), load(c->rows[k], at, n, type), sum);
        store(c->y, at, n, sum, type);
    }
}

CELLS void KERNEL(combine)(const struct cpu_combine *c)
{
    if (c->f32)
        combine(c, TR_F32);
    else
        combine(c, TR_BF16);
}

/* ---- exp ---- */

/* exp(x) by x = k ln 2 + r, |r| <= ln 2 / 2, and the series of exp(r) to r^7: 2 ulp. Below the
 * smallest normal it is 0; NaN stays NaN. */
INLINE vec exp_of(vec x)
{
    vec c = VEC(min_ps)(VEC(set1_ps)(89), x); /* if one is NaN, the second operand */
    vec k = nearest(VEC(mul_ps)(c, VEC(set1_ps)(1.44269504f)));
    vec r = VEC(fnmadd_ps)(k, VEC(set1_ps)(0.693359375f), c);
    vec p = VEC(set1_ps)(1.0f / 5040);

    r = VEC(fmadd_ps)(k, VEC(set1_ps)(2.12194440e-4f), r);
    p = VEC(fmadd_ps)(p, r, VEC(set1_ps)(1.0f / 720));
    p = VEC(fmadd_ps)(p, r, VEC(set1_ps)(1.0f / 120));
    p = VEC(fmadd_ps)(p, r, VEC(set1_ps)(1.0f / 24));
    p = VEC(fmadd_ps)(p, r, VEC(set1_ps)(1.0f / 6));
    p = VEC(fmadd_ps)(p, r, VEC(set1_ps)(0.5f));
    p = VEC(fmadd_ps)(p, r, VEC(set1_ps)(1));
    p = VEC(fmadd_ps)(p, r, VEC(set1_ps)(1));
    return scale_above(p, k, x, VEC(set1_ps)(-87.3f));
}

CELLS float KERNEL(exp_sum)(float *x, float max, int64_t n)
{
    vec sum = VEC(setzero_ps)(), most = VEC(set1_ps)(max);

    for (int64_t i = 0; i < n; i += LANES) {
        vec y = exp_of(VEC(sub_ps)(load_part(x + i, n - i), most));

        store_part(x + i, n - i, y);
        sum = VEC(add_ps)(sum, select_lanes(within(0, n - i), y, VEC(setzero_ps)()));
    }
    return sum_of(sum);
}

INLINE vec sigmoid(vec x)
{
    const vec one = VEC(set1_ps)(1);

    return VEC(div_ps)(one, VEC(add_ps)(one, exp_of(VEC(sub_ps)(VEC(setzero_ps)(), x))));
}

CELLS void KERNEL(sigmoid)(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES)
        store_part(y + i, n - i, sigmoid(load_part(x + i, n - i)));
}

CELLS void KERNEL(swiglu)(float *h, const float *g, const float *u, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        vec x = load_part(g + i, n - i);

        x = VEC(mul_ps)(VEC(mul_ps)(x, sigmoid(x)), load_part(u + i, n - i));
        store_part(h + i, n - i, x);
    }
}

/* ---- rounding ---- */

CELLS void KERNEL(halve)(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;

#ifdef CPU_PAIRS
    for (; i + PANEL <= n; i += PANEL)
        VEC(storeu_ps)
        ((float *)(void *)(dst + i),
         halve_two(VEC(loadu_ps)(src + i), VEC(loadu_ps)(src + i + LANES)));
#endif
    for (; i < n; i += LANES)
        store(dst, i, n - i, load_part(src + i, n - i), TR_BF16);
}

CELLS void KERNEL(round)(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES)
        store_part(x + i, n - i, widen(to_bf16(load_part(x + i, n - i))));
}

/* ---- attention ---- */

INLINE vec dot(const struct cpu_pair *p, const enum tr_dtype type)
{
    vec sum = VEC(setzero_ps)();

    for (int64_t i = 0; i < p->n; i += LANES)
        sum = VEC(fmadd_ps)(load(p->x, i, p->n - i, type), load(p->y, i, p->n - i, type), sum);
    return sum;
}

#ifdef CPU_PAIRS
INLINE vec dot_pairs(const struct cpu_pair *p)
{
    vec sum = VEC(setzero_ps)();

    for (int64_t i = 0; i < p->n; i += PANEL)
        sum = add_pairs(sum, load_pairs((const uint16_t *)p->x + i, p->n - i),
                        load_pairs((const uint16_t *)p->y + i, p->n - i));
    return sum;
}
#else
INLINE vec dot_pairs(const struct cpu_pair *p)
{
    return dot(p, TR_BF16);
}
#endif

CELLS float KERNEL(dot)(const struct cpu_pair *p)
{
    if (p->type == TR_BF16)
        return sum_of(dot_pairs(p));
    return sum_of(p->type == TR_F32 ? dot(p, TR_F32) : dot(p, TR_F16));
}

CELLS float KERNEL(scores_max)(const struct cpu_scores *x, float least)
{
    vec max = VEC(set1_ps)(least), scale = VEC(set1_ps)(x->scale);

    for (int64_t at = x->from & ~(int64_t)(LANES - 1); at < x->n; at += LANES) {
        vec s = VEC(mul_ps)(VEC(loadu_ps)(x->s + at), scale);

        s = VEC(max_ps)(s, max); /* if one is NaN, the maximum so far */
        max = select_lanes(within(x->from - at, x->n - at), s, max);
    }
    return max_of(max);
}

/* Probabilities of the seen columns among [at, at+LANES), 0 elsewhere. */
INLINE vec probabilities(const struct cpu_scores *x, int64_t at, float max)
{
    mask some = within(x->from - at, x->n - at);
    vec p;

    if (!any(some))
        return VEC(setzero_ps)();
    p = VEC(mul_ps)(VEC(loadu_ps)(x->s + at), VEC(set1_ps)(x->scale));
    p = exp_of(VEC(sub_ps)(p, VEC(set1_ps)(max)));
    return select_lanes(some, p, VEC(setzero_ps)());
}

CELLS float KERNEL(scores_exp)(const struct cpu_scores *x, float max)
{
    vec sum = VEC(setzero_ps)();

    for (int64_t at = 0; at < x->width; at += LANES) {
        vec p = probabilities(x, at, max);

        sum = VEC(add_ps)(sum, p);
        store(x->p, at, LANES, p, x->f32 ? TR_F32 : TR_BF16);
    }
    return sum_of(sum);
}

CELLS void KERNEL(scores_grad)(const struct cpu_scores *x, float lse, float d)
{
    vec scale = VEC(set1_ps)(x->scale), less = VEC(set1_ps)(d);
    const enum tr_dtype type = x->f32 ? TR_F32 : TR_BF16;

    for (int64_t at = 0; at < x->width; at += LANES) {
        mask some = within(x->from - at, x->n - at);
        vec p = probabilities(x, at, lse), ds = VEC(setzero_ps)();

        if (any(some)) {
            ds = VEC(mul_ps)(p, VEC(sub_ps)(VEC(loadu_ps)(x->dp + at), less));
            ds = select_lanes(some, VEC(mul_ps)(ds, scale), VEC(setzero_ps)());
        }
        store(x->p, at, LANES, p, type);
        store(x->ds, at, LANES, ds, type);
    }
}
