/* A build without oneDNN: our f32 tiles run all products. */
#include "trainer/backend/cpu/cpu.h"

#include <assert.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

bool cpu_onednn_has_sgemm(void)
{
    return false;
}

void cpu_onednn_tile(const struct cpu_tile *t, bool trans_a, bool trans_b)
{
    assert(!trans_a && !trans_b);
    cpu_tile_gemm(t);
}

bool cpu_onednn_has_bf16(bool emulated)
{
    return false;
}

enum fr_rc cpu_onednn_create(struct cpu_onednn **out, struct fr_err *err)
{
    *out = NULL;
    return FR_OK;
}

void cpu_onednn_destroy(struct cpu_onednn *d)
{
}

bool cpu_onednn_takes(const struct cpu_onednn *d, const struct tr_gemm *g)
{
    return false;
}

enum fr_rc cpu_onednn_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                              struct fr_err *err)
{
    return fr_fail(err, FR_UNSUPPORTED, "this build has no oneDNN");
}

enum fr_rc cpu_onednn_group(struct cpu *cpu, struct tr_queue *q, const struct tr_grouped_gemm *a,
                            struct fr_err *err)
{
    return fr_fail(err, FR_UNSUPPORTED, "this build has no oneDNN");
}

size_t cpu_onednn_group_bytes(struct cpu *cpu, const struct tr_grouped_gemm *a,
                              const struct tr_gemm *any)
{
    return 0;
}

size_t cpu_onednn_bytes(struct cpu *cpu, const struct tr_gemm *g)
{
    return 0;
}

void cpu_onednn_describe(char out[128])
{
    out[0] = '\0';
}
