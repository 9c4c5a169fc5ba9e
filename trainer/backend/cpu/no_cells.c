/* A build whose compiler or processor has no AVX-512: nothing asks for these kernels. */
#include "trainer/backend/cpu/cells.h"

#include <assert.h>

bool cpu_cells_have(bool f32)
{
    (void)f32;
    return false;
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

void cpu_strip(const struct cpu_strip *s)
{
    assert(s == NULL);
}

void cpu_put(const struct cpu_put *p)
{
    assert(p == NULL);
}
