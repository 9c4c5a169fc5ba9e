/* A build whose compiler or processor has no AVX-512: cpu_cells_have is false, so nothing calls the
 * kernels. */
#include "trainer/backend/cpu/cells.h"

#include <assert.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

bool cpu_cells_have(bool f32)
{
    return false;
}

bool cpu_cells_may_tile(void)
{
    return false;
}

bool cpu_amx_have(void)
{
    return false;
}

void cpu_amx_release(void)
{
}

#define NEVER(type, name, ...)                                                                     \
    type name(__VA_ARGS__)                                                                         \
    {                                                                                              \
        assert(!"a kernel of AVX-512");                                                            \
        return (type)0;                                                                            \
    }
NEVER(void, cpu_cells_halve, uint16_t *dst, const float *src, int64_t n)
NEVER(void, cpu_cells_round, float *x, int64_t n)
NEVER(void, cpu_cells_copy, void *dst, const void *src, int64_t bytes)
NEVER(float, cpu_cells_exp_sum, float *x, float max, int64_t n)
NEVER(void, cpu_cells_sigmoid, float *y, const float *x, int64_t n)
NEVER(float, cpu_cells_norm, const struct cpu_norm *p, float eps)
NEVER(void, cpu_cells_norm_grad, const struct cpu_norm *p, float r)
NEVER(void, cpu_cells_combine, const struct cpu_combine *c)
NEVER(void, cpu_cells_swiglu, float *h, const float *g, const float *u, int64_t n)
NEVER(void, cpu_pack_rows, const struct cpu_pack *p)
NEVER(void, cpu_pack_turned, const struct cpu_pack *p)
NEVER(void, cpu_cells_turn, const struct cpu_turn *t)
NEVER(void, cpu_pack_cells, const struct cpu_pack *p)
NEVER(void, cpu_pack_strips, const struct cpu_pack *p)
NEVER(void, cpu_pack_across, const struct cpu_pack *p, int64_t apart)
NEVER(void, cpu_strip, const struct cpu_strip *s)
NEVER(void, cpu_put, const struct cpu_put *p)
NEVER(float, cpu_pair_dot, const struct cpu_pair *p)
NEVER(float, cpu_scores_max, const struct cpu_scores *x, float least)
NEVER(float, cpu_scores_exp, const struct cpu_scores *x, float max)
NEVER(void, cpu_scores_grad, const struct cpu_scores *x, float lse, float d)
