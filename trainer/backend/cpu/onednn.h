/* oneDNN primitives of bf16 products. */
#ifndef TR_BACKEND_CPU_ONEDNN_H
#define TR_BACKEND_CPU_ONEDNN_H

#include "trainer/backend/cpu/cpu.h"
#include "trainer/backend/cpu/onednn_api.h"

/* The key of a primitive: c (m, n) = alpha op(a) op(b) + beta c; a and b are bf16. */
struct cpu_shape {
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
    bool trans_a, trans_b, c_f32;
};

struct cpu_primitive {
    struct cpu_shape shape;
    dnnl_primitive_t run; /* owns */
    size_t scratch_bytes;
    struct cpu_primitive *next; /* owns: of the same bucket */
};

/* The primitive of a shape; the first call with a shape makes it. */
enum fr_rc cpu_primitive_find(struct cpu_onednn *d, const struct cpu_shape *s,
                              const struct cpu_primitive **out, struct fr_err *err);

/* addr: a, b, c and scratch. On the calling thread. */
dnnl_status_t cpu_primitive_run(const struct cpu_primitive *p, char *const addr[4]);

#endif
