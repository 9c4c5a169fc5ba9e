/* oneDNN primitives of bf16 products. */
#ifndef TR_BACKEND_CPU_ONEDNN_H
#define TR_BACKEND_CPU_ONEDNN_H

#include "trainer/backend/cpu/cpu.h"
#include "trainer/backend/cpu/onednn_api.h"

/* The key of a primitive: c = alpha A B + beta c with A (m, k), B (k, n), c (m, n), row-major. A is
 * a, or its transpose if trans_a; B likewise. a and b are bf16; c is f32 if c_f32, else bf16. lda,
 * ldb, ldc: elements from one row in memory to the next. */
struct cpu_shape {
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
    bool trans_a, trans_b, c_f32;
};

struct cpu_primitive {
    struct cpu_shape shape;
    dnnl_primitive_t run; /* owns */
    size_t scratch_bytes;
    struct cpu_primitive *next; /* owns: the next primitive of the same hash bucket */
};

/* The primitive of a shape, owned by d; the first call with a shape makes it. Thread-safe.
 * FR_UNSUPPORTED: oneDNN refuses the shape. */
enum fr_rc cpu_primitive_find(struct cpu_onednn *d, const struct cpu_shape *s,
                              const struct cpu_primitive **out, struct fr_err *err);

/* Computes c on the calling thread and returns when it is done. addr: a, b, c, and scratch of
 * p->scratch_bytes. */
dnnl_status_t cpu_primitive_run(const struct cpu_primitive *p, char *const addr[4]);

#endif
