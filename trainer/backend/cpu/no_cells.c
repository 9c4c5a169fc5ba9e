/* A build whose compiler or processor has no AVX2 and AVX-512: there are no kernels of cells.h. */
#include "trainer/backend/cpu/cells.h"

#include <assert.h>

const struct cpu_kernels *cpu_kernels(void)
{
    return NULL;
}

bool cpu_may_tile(void)
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

void cpu_pack_across(const struct cpu_pack *p, int64_t apart)
{
    (void)p;
    (void)apart;
    assert(!"cells are pairs of bf16 without kernels");
}
