/* Every AArch64 has NEON. */
#include "trainer/backend/cpu/cells.h"

extern const struct cpu_kernels cpu_neon_kernels;

const struct cpu_kernels *cpu_kernels(void)
{
    return &cpu_neon_kernels;
}
