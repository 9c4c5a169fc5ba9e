#include "trainer/backend/cpu/cpu.h"

#include <oneapi/dnnl/dnnl.h>

#include <stdio.h>

bool cpu_onednn_has_sgemm(void)
{
    return true;
}

void cpu_onednn_tile(const struct cpu_tile *t, bool trans_a, bool trans_b)
{
    /* Fails only on arguments that no tile has. */
    dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', t->m, t->n, t->k, 1, t->a, t->lda, t->b,
               t->ldb, 1, t->c, t->ldc);
}

enum fr_rc cpu_onednn_create(struct cpu_onednn **out, struct fr_err *err)
{
    (void)err;
    *out = NULL;
    return FR_OK;
}

void cpu_onednn_destroy(struct cpu_onednn *d)
{
    (void)d;
}

bool cpu_onednn_takes(const struct cpu_onednn *d, const struct tr_gemm *g)
{
    (void)g;
    return d != NULL;
}

enum fr_rc cpu_onednn_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                              struct fr_err *err)
{
    (void)cpu;
    (void)q;
    (void)g;
    return fr_fail(err, FR_BUG, "onednn");
}

void cpu_onednn_describe(char out[128])
{
    const dnnl_version_t *v = dnnl_version();

    snprintf(out, 128, " onednn=%d.%d.%d isa=%d", v->major, v->minor, v->patch,
             (int)dnnl_get_effective_cpu_isa());
}
