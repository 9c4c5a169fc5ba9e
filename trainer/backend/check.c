#include "trainer/backend/check.h"

#include <assert.h>

void tr_check_that(struct tr_check *c, bool ok, const char *what)
{
    if (c->rc == FR_OK && c->see == NULL && !ok)
        c->rc = fr_fail(c->err, FR_SHAPE, "%s: %s", tr_op_name(c->op), what);
}

void tr_check_product(struct tr_check *c, int64_t rows, int64_t in, int64_t out)
{
    c->cost.flop = 2 * c->share * (double)rows * (double)in * (double)out;
    c->cost.shape[0] = rows;
    c->cost.shape[1] = in;
    c->cost.shape[2] = out;
}

void tr_check_picks(struct tr_check *c, double rows, struct tr_view v)
{
    double all = (double)tr_view_count(v) * (double)tr_dtype_bytes(v.dtype);

    if (v.p != NULL && v.shape[0] > 0)
        c->cost.bytes += rows * all / (double)v.shape[0];
}

double tr_check_share(struct tr_view offsets, int64_t first, int64_t last)
{
    return (double)(last - first) / (double)(offsets.shape[0] - 1);
}

static bool is_float(enum tr_dtype t)
{
    return t == TR_F64 || t == TR_F32 || t == TR_BF16 || t == TR_F16;
}

static bool type_fits(const struct tr_check *c, int rule, enum tr_dtype t)
{
    enum tr_dtype sum = c->compute == TR_F64 ? TR_F64 : TR_F32;

    return ((rule & C) && t == c->compute) || ((rule & S) && t == sum) ||
           ((rule & F64) && t == TR_F64) || ((rule & I32) && t == TR_I32) ||
           ((rule & I64) && t == TR_I64) || ((rule & F8) && t == TR_F8_E4M3) ||
           ((rule & U8) && t == TR_U8) ||
           ((rule & FLOAT) && is_float(t) && (t != TR_F64 || c->compute == TR_F64));
}

static bool shape_fits(const struct tr_need *n)
{
    const struct tr_view *v = n->view;
    int64_t row = 1;

    if (v->rank < 1 || v->rank > TR_RANK_MAX || (n->rank != 0 && v->rank != n->rank))
        return false;
    for (int i = 0; i < v->rank; i++)
        if (v->shape[i] < 0 || (n->rank != 0 && v->shape[i] != n->shape[i]))
            return false;
    for (int i = 1; i < v->rank; i++)
        row *= v->shape[i];
    if (v->shape[0] > 1 && (v->ld < row || (v->rank == 1 && v->ld != 1)))
        return false;
    return !(n->rule & WHOLE) || tr_view_contiguous(*v);
}

static enum fr_rc refuse_shape(const struct tr_check *c, const struct tr_need *n)
{
    struct tr_view want = *n->view;
    char got[96], wanted[96];

    tr_view_show(*n->view, got);
    if (n->rank == 0)
        return fr_fail(c->err, FR_SHAPE, "%s: %s is %s, ld %lld", tr_op_name(c->op), n->name, got,
                       (long long)n->view->ld);
    want.rank = n->rank;
    for (int i = 0; i < n->rank; i++)
        want.shape[i] = n->shape[i];
    tr_view_show(want, wanted);
    return fr_fail(c->err, FR_SHAPE, "%s: %s is %s, ld %lld; wanted %s", tr_op_name(c->op), n->name,
                   got, (long long)n->view->ld, wanted);
}

static enum fr_rc check_view(const struct tr_check *c, const struct tr_need *n)
{
    const struct tr_view *v = n->view;
    char got[96];

    if (tr_view_absent(*v) && v->rank == 0) {
        if (n->rule & OPT)
            return FR_OK;
        return fr_fail(c->err, FR_SHAPE, "%s: %s is absent", tr_op_name(c->op), n->name);
    }
    if (tr_view_absent(*v) && (n->rule & OPT))
        return FR_OK;
    if (!type_fits(c, n->rule, v->dtype)) {
        tr_view_show(*v, got);
        return fr_fail(c->err, FR_DTYPE, "%s: %s is %s in a call that computes in %s",
                       tr_op_name(c->op), n->name, got, tr_dtype_name(c->compute));
    }
    assert((uintptr_t)v->p % tr_dtype_bytes(v->dtype) == 0);
    if (!shape_fits(n))
        return refuse_shape(c, n);
    if (tr_view_absent(*v) && tr_view_count(*v) > 0)
        return fr_fail(c->err, FR_SHAPE, "%s: %s has no memory", tr_op_name(c->op), n->name);
    return FR_OK;
}

void tr_check_views(struct tr_check *c, enum tr_dtype compute, enum tr_dtype weight,
                    const struct tr_need *needs, size_t n)
{
    c->compute = compute;
    for (size_t i = 0; i < n && c->rc == FR_OK; i++)
        if (c->see != NULL)
            c->see(c->self, &needs[i]);
        else
            c->rc = check_view(c, &needs[i]);
    if (c->rc == FR_OK && c->see == NULL && !tr_supports(c->be, c->op, compute, weight)) {
        char shape[96] = "";

        tr_view_show(*needs[0].view, shape);
        c->rc =
            fr_fail(c->err, FR_UNSUPPORTED, "backend %s lacks %s in %s with weights in %s, %s %s",
                    c->be->ops->name, tr_op_name(c->op), tr_dtype_name(compute),
                    tr_dtype_name(weight), needs[0].name, shape);
    }
}

static enum fr_rc check_fp8(const struct tr_check *c, const struct tr_weight *w,
                            const struct tr_need *need)
{
    struct tr_view s = w->scale;
    int64_t rows = need->shape[0], cols = need->shape[1];
    char got[96];

    if (w->w.rank != 2 || !shape_fits(need) || (tr_view_absent(w->w) && rows * cols > 0))
        return refuse_shape(c, need);
    if (w->block_rows < 1 || w->block_cols < 1 || w->row0 < 0 || tr_view_absent(s) || s.rank != 2 ||
        s.dtype != TR_F32 || s.ld < s.shape[1] || s.shape[0] * w->block_rows < w->row0 + rows ||
        s.shape[1] * w->block_cols < cols) {
        tr_view_show(s, got);
        return fr_fail(c->err, FR_SHAPE, "%s: scale is %s for rows %lld.. of (%lld, %lld)",
                       tr_op_name(c->op), got, (long long)w->row0, (long long)rows,
                       (long long)cols);
    }
    return c->compute == TR_F64
               ? fr_fail(c->err, FR_DTYPE, "%s: FP8 weight in f64", tr_op_name(c->op))
               : FR_OK;
}

void tr_check_weight(struct tr_check *c, const struct tr_weight *w, int64_t rows, int64_t cols)
{
    struct tr_need need = {"weight", &w->w, C, 2, {rows, cols}};
    struct tr_need scale = {.name = "scale", .view = &w->scale};

    if (c->see != NULL) {
        c->see(c->self, &need);
        c->see(c->self, &scale);
    } else if (c->rc == FR_OK) {
        c->rc = w->w.dtype == TR_F8_E4M3 ? check_fp8(c, w, &need) : check_view(c, &need);
    }
}

void tr_check_args(struct tr_check *c, const void *args)
{
    switch (c->op) {
#define OP_CHECK(name, type, fp8)                                                                  \
    case TR_OP_##name:                                                                             \
        tr_check_##name(c, args);                                                                  \
        break;
        TR_OPS(OP_CHECK)
#undef OP_CHECK
    case TR_OP_COUNT:
        break;
    }
}
