/* A build for a processor without AMX and pairs of bf16. */
#include "trainer/backend/cpu/cells.h"

#include <assert.h>

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
    assert(0 && "cells are pairs of bf16 without kernels");
}
