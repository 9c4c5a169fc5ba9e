/* A build whose compiler or processor has no vectors of ours: there are no kernels of cells.h. */
#include "trainer/backend/cpu/cells.h"

const struct cpu_kernels *cpu_kernels(void)
{
    return NULL;
}
