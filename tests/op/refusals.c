/* What the checks refuse, and with which words. */
#include "tests/op/op.h"

#include <stdio.h>

static float memory[64];

static struct tr_view f32(int64_t rows, int64_t cols)
{
    return tr_view2(memory, TR_F32, rows, cols);
}

static void gemm_refusals(struct tr_backend *be, struct tr_queue *q)
{
    static const struct {
        int64_t c[2], a[2], b[2];
        enum tr_dtype type;
        enum fr_rc rc;
        const char *text;
    } rows[] = {
        {{2, 3}, {2, 4}, {3, 4}, TR_F32, FR_OK, ""},
        {{2, 3},
         {2, 4},
         {4, 3},
         TR_F32,
         FR_SHAPE,
         "gemm: weight is (4, 3) f32, ld 3; wanted (3, 4) f32"},
        {{2, 3},
         {3, 4},
         {3, 4},
         TR_F32,
         FR_SHAPE,
         "gemm: a is (3, 4) f32, ld 4; wanted (2, 4) f32"},
        {{2, 3},
         {2, 4},
         {3, 4},
         TR_BF16,
         FR_UNSUPPORTED,
         "backend cpu lacks gemm in bf16 with weights in f32, c (2, 3) f32"},
        {{2, 3},
         {2, 4},
         {3, 4},
         TR_I32,
         FR_UNSUPPORTED,
         "backend cpu lacks gemm in i32 with weights in f32, c (2, 3) f32"},
        {{2, 3},
         {2, 4},
         {3, 4},
         TR_F64,
         FR_DTYPE,
         "gemm: c is (2, 3) f32 in a call that computes in f64"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fr_err err = {0};
        struct tr_gemm g = {.c = f32(rows[i].c[0], rows[i].c[1]),
                            .a = f32(rows[i].a[0], rows[i].a[1]),
                            .b = {.w = f32(rows[i].b[0], rows[i].b[1])},
                            .trans_b = true,
                            .alpha = 1};

        g.a.dtype = rows[i].type;
        op_expect(tr_gemm(be, q, &g, &err), rows[i].rc, &err, rows[i].text);
    }
}

void op_refusals(void)
{
    struct op_case *c;
    struct tr_backend *be;
    struct tr_queue *q;
    struct fr_err err = {0};

    op_begin(&c, "refusals");
    be = op_backend(c, OP_DEV);
    q = op_queue(c, OP_DEV);
    gemm_refusals(be, q);

    struct tr_colsum sum = {.x = f32(2, 3)};
    op_expect(tr_colsum(be, q, &sum, &err), FR_SHAPE, &err, "colsum: out is absent");
    sum.out = tr_view1(memory, TR_F32, 3);
    sum.x.ld = 2;
    op_expect(tr_colsum(be, q, &sum, &err), FR_SHAPE, &err,
              "colsum: x is (2, 3) f32, ld 2; wanted (2, 3) f32");
    sum.x = tr_view2(memory, TR_F64, 2, 3);
    sum.out.dtype = TR_F64;
    op_expect(tr_colsum(be, q, &sum, &err), FR_UNSUPPORTED, &err,
              "backend cpu lacks colsum in f64 with weights in f64, x (2, 3) f64");

    struct tr_router r = {.x = f32(1, 2),
                          .ids = tr_view2(memory, TR_I32, 1, 3),
                          .weights = f32(1, 3),
                          .scores = f32(1, 3),
                          .gate = f32(4, 2),
                          .n_group = 2,
                          .topk_group = 1};
    op_expect(tr_router_fwd(be, q, &r, &err), FR_SHAPE, &err,
              "router_fwd: K or topk_group does not fit the groups");
    op_end(c);
}
