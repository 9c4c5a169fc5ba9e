/* A build whose compiler or processor has no AVX-512: nothing asks for these kernels. */
#include "trainer/backend/cpu/cells.h"

#include <assert.h>

bool cpu_cells_have(bool f32)
{
    (void)f32;
    return false;
}

bool cpu_cells_may_tile(void)
{
    return false;
}

void cpu_cells_halve(uint16_t *dst, const float *src, int64_t n)
{
    (void)n;
    assert(dst == NULL && src == NULL);
}

void cpu_cells_round(float *x, int64_t n)
{
    (void)n;
    assert(x == NULL);
}

void cpu_cells_copy(void *dst, const void *src, int64_t bytes)
{
    (void)bytes;
    assert(dst == NULL && src == NULL);
}

float cpu_cells_exp_sum(float *x, float max, int64_t n)
{
    (void)n;
    assert(x == NULL);
    return max;
}

void cpu_cells_sigmoid(float *y, const float *x, int64_t n)
{
    (void)n;
    assert(x == NULL && y == NULL);
}

float cpu_cells_norm(const struct cpu_norm *p, float eps)
{
    assert(p == NULL);
    return eps;
}

void cpu_cells_norm_grad(const struct cpu_norm *p, float r)
{
    (void)r;
    assert(p == NULL);
}

void cpu_cells_combine(const struct cpu_combine *c)
{
    assert(c == NULL);
}

void cpu_cells_swiglu(float *h, const float *g, const float *u, int64_t n)
{
    (void)n;
    assert(h == NULL && g == NULL && u == NULL);
}

void cpu_pack_rows(const struct cpu_pack *p)
{
    assert(p == NULL);
}

void cpu_pack_turned(const struct cpu_pack *p)
{
    assert(p == NULL);
}

void cpu_pack_cells(const struct cpu_pack *p)
{
    assert(p == NULL);
}

void cpu_pack_across(const struct cpu_pack *p, int64_t apart)
{
    (void)apart;
    assert(p == NULL);
}

bool cpu_amx_have(void)
{
    return false;
}

void cpu_amx_release(void)
{
}

void cpu_strip(const struct cpu_strip *s)
{
    assert(s == NULL);
}

void cpu_put(const struct cpu_put *p)
{
    assert(p == NULL);
}

float cpu_pair_dot(const struct cpu_pair *p)
{
    assert(p == NULL);
    return 0;
}

float cpu_scores_max(const struct cpu_scores *x, float least)
{
    assert(x == NULL);
    return least;
}

float cpu_scores_exp(const struct cpu_scores *x, float max)
{
    assert(x == NULL);
    return max;
}

void cpu_scores_grad(const struct cpu_scores *x, float lse, float d)
{
    assert(x == NULL && lse == d);
}
