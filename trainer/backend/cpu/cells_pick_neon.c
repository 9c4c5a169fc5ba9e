/* Which kernels of cells.h run on AArch64: every chip has NEON, some have BF16. */
#include "trainer/backend/cpu/cells.h"

#include <asm/hwcap.h>
#include <sys/auxv.h>

extern const struct cpu_kernels cpu_neon_kernels, cpu_neonbf16_kernels;

const struct cpu_kernels *cpu_kernels(void)
{
    return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? &cpu_neonbf16_kernels : &cpu_neon_kernels;
}
