/*
 * Argument checks of all ops, made once for all backends: a table of what each view must be,
 * walked by one function. Internal to trainer/backend.
 */
#ifndef TR_BACKEND_CHECK_H
#define TR_BACKEND_CHECK_H

#include "trainer/backend/backend.h"

/* Types a view may have; C is the call's compute type, S its sum type (f64 for f64, else f32). */
enum {
    TR_IS_C = 1,
    TR_IS_S = 2,
    TR_IS_F64 = 4,
    TR_IS_I32 = 8,
    TR_IS_I64 = 16,
    TR_IS_FLOAT = 32, /* f32, bf16, f16; f64 where the call computes in it */
    TR_OPTIONAL = 64,
    TR_CONTIGUOUS = 128,
    TR_IS_F8 = 256
};

struct tr_need {
    const char *name;
    const struct tr_view *view;
    int rule; /* of the bits above */
    int rank; /* 0: any */
    int64_t shape[TR_RANK_MAX];
};

struct tr_check {
    struct tr_backend *be;
    enum tr_op op;
    enum tr_dtype compute; /* set by tr_check_views */
    struct fr_err *err;
};

/* compute is the type of the view called C; weight the type of the weight, or compute. */
enum fr_rc tr_check_views(struct tr_check *c, enum tr_dtype compute, enum tr_dtype weight,
                          const struct tr_need *needs, size_t n);

/* A weight of shape (rows, cols): of the compute type, or FP8 with scales that cover it. */
enum fr_rc tr_check_weight(struct tr_check *c, const struct tr_weight *w, int64_t rows,
                           int64_t cols);

/* FR_SHAPE "op: what" when ok is false. */
enum fr_rc tr_check_that(struct tr_check *c, bool ok, const char *what);

#define TR_OP_CHECK(name, args)                                                                    \
    enum fr_rc tr_check_##name(struct tr_check *c, const struct args *a);
TR_OPS(TR_OP_CHECK)
#undef TR_OP_CHECK

#endif
