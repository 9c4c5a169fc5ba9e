/* exp, sigmoid and SwiGLU of rows. */
#include "trainer/backend/cpu/cells.h"

#include <math.h>

/* exp by x = k ln 2 + r, |r| <= ln 2 / 2, and the series of exp(r) to r^7: 2 ulp. Below the
 * smallest normal it is 0; NaN stays NaN. Inlined, so that loops over it vectorise. */
static inline float exp_of(float x)
{
    float lo = x > -87.3f ? x : -87.3f;
    float c = lo > 88.7f ? 88.7f : lo;
    float k = rintf(c * 1.44269504f);
    float r = (c - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.0f / 5040;
    union {
        int32_t i;
        float f;
    } two;

    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1;
    p = p * r + 1;
    two.i = ((int32_t)k + 126) << 23; /* half of 2^k, so that k = 128 does not overflow */
    p = p * two.f * 2;
    p = x < -87.3f ? 0 : p;
    p = x > 88.72283f ? INFINITY : p;
    return x == x ? p : x;
}

CPU_KERNEL static float plain_exp_sum(float *x, float max, int64_t n)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        x[i] = exp_of(x[i] - max);
        sum += x[i];
    }
    return sum;
}

CPU_KERNEL static void plain_sigmoid(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = 1 / (1 + exp_of(-x[i]));
}

CPU_KERNEL static void plain_swiglu(float *h, const float *g, const float *u, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        h[i] = g[i] * (1 / (1 + exp_of(-g[i]))) * u[i];
}

float cpu_exp_sum(float *x, float max, int64_t n)
{
    return cpu_kernels() != NULL ? cpu_kernels()->exp_sum(x, max, n) : plain_exp_sum(x, max, n);
}

void cpu_sigmoid(float *y, const float *x, int64_t n)
{
    if (cpu_kernels() != NULL)
        cpu_kernels()->sigmoid(y, x, n);
    else
        plain_sigmoid(y, x, n);
}

void cpu_swiglu(float *h, const float *g, const float *u, int64_t n)
{
    if (cpu_kernels() != NULL)
        cpu_kernels()->swiglu(h, g, u, n);
    else
        plain_swiglu(h, g, u, n);
}
