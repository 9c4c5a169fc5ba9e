/*
 * A table for each op: name, type, shape and direction of every view, once for all backends.
 * tr_<op> checks a call against the table; tr_cost_of and the mutations of tests/op read directions
 * and sizes from the same rows. Internal to trainer/backend.
 */
#ifndef TR_BACKEND_CHECK_H
#define TR_BACKEND_CHECK_H

#include "trainer/backend/cost.h"

/* A rule has bits of three kinds. Types: C is the call's compute type, S its sum type (f64 for f64,
 * else f32). */
enum {
    C = 1,
    S = 2,
    F64 = 4,
    I32 = 8,
    I64 = 16,
    FLOAT = 32, /* f32, bf16, f16; f64 where the call computes in it */
    F8 = 64,
    C_OR_S = C | S,
    INTS = I32 | I64,
    U8 = 4096,
    /* Form. */
    OPT = 128,   /* may be absent */
    WHOLE = 256, /* contiguous */
    /* Direction; neither: read. */
    OUT = 512,  /* "=" */
    ADD = 1024, /* "+=" */
    FEW = 2048  /* not part of the cost: few bytes, or tr_check_picks counts its rows */
};

struct tr_need {
    const char *name;
    const struct tr_view *view;
    int rule; /* of the bits above */
    int rank; /* 0: any */
    int64_t shape[TR_RANK_MAX];
};

/* One walk over the views of a call. */
struct tr_check {
    struct tr_backend *be;
    enum tr_op op;
    enum fr_rc rc; /* of the first check that failed; the later ones do nothing */
    struct fr_err *err;
    enum tr_dtype compute; /* set by tr_check_views */
    /* Receives each view and weight instead of a check, in the order of the tables. NULL: check. */
    void (*see)(void *self, const struct tr_need *n);
    void *self;
    double share; /* of the rows: the part that the op reads or writes in the views that follow */
    struct tr_cost cost; /* of the op, but for the bytes of its views */
};

/* compute is the type of the view called C; weight the type of the weight, or compute. */
void tr_check_views(struct tr_check *c, enum tr_dtype compute, enum tr_dtype weight,
                    const struct tr_need *needs, size_t n);
/* The same where weights have the type of the view that gives C. */
#define VIEWS(c, compute, needs)                                                                   \
    tr_check_views(c, (compute).dtype, (compute).dtype, needs, sizeof(needs) / sizeof((needs)[0]))

/* A weight of shape (rows, cols): of the compute type, or FP8 with scales that cover it. */
void tr_check_weight(struct tr_check *c, const struct tr_weight *w, int64_t rows, int64_t cols);

/* FR_SHAPE "op: what" when ok is false. */
void tr_check_that(struct tr_check *c, bool ok, const char *what);

/* The op multiplies (rows, in) by (in, out), or its share of the rows. */
void tr_check_product(struct tr_check *c, int64_t rows, int64_t in, int64_t out);

/* The op moves so many rows of v that an index picks; v itself is FEW. */
void tr_check_picks(struct tr_check *c, double rows, struct tr_view v);

/* The share of the rows that lies between offsets[first] and offsets[last], as if all were evenly
 * long. */
double tr_check_share(struct tr_view offsets, int64_t first, int64_t last);

/* Runs tr_check_<op> of c->op. */
void tr_check_args(struct tr_check *c, const void *args);

#define TR_OP_CHECK(name, args, fp8) void tr_check_##name(struct tr_check *c, const struct args *a);
TR_OPS(TR_OP_CHECK)
#undef TR_OP_CHECK

#endif
