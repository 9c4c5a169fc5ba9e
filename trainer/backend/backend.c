#include "trainer/backend/backend.h"

#include "trainer/backend/check.h"
#include "trainer/backend/trace.h"

#include <assert.h>
#include <stdio.h>

static const char *const op_names[] = {
#define OP_NAME(name, args) [TR_OP_##name] = #name,
    TR_OPS(OP_NAME)
#undef OP_NAME
};

const char *tr_op_name(enum tr_op op)
{
    return (unsigned)op < TR_OP_COUNT ? op_names[op] : "?";
}

bool tr_supports(struct tr_backend *be, enum tr_op op, enum tr_dtype compute, enum tr_dtype weight)
{
    return (unsigned)op < TR_OP_COUNT && be->ops->supports(be->self, op, compute, weight);
}

enum fr_rc tr_check_that(struct tr_check *c, bool ok, const char *what)
{
    if (ok)
        return FR_OK;
    return fr_fail(c->err, FR_SHAPE, "%s: %s", tr_op_name(c->op), what);
}

static bool is_float(enum tr_dtype t)
{
    return t == TR_F64 || t == TR_F32 || t == TR_BF16 || t == TR_F16;
}

static bool type_fits(const struct tr_check *c, int rule, enum tr_dtype t)
{
    enum tr_dtype sum = c->compute == TR_F64 ? TR_F64 : TR_F32;

    return ((rule & TR_IS_C) && t == c->compute) || ((rule & TR_IS_S) && t == sum) ||
           ((rule & TR_IS_F64) && t == TR_F64) || ((rule & TR_IS_I32) && t == TR_I32) ||
           ((rule & TR_IS_I64) && t == TR_I64) || ((rule & TR_IS_F8) && t == TR_F8_E4M3) ||
           ((rule & TR_IS_FLOAT) && is_float(t) && (t != TR_F64 || c->compute == TR_F64));
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
    return !(n->rule & TR_CONTIGUOUS) || tr_view_contiguous(*v);
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
        if (n->rule & TR_OPTIONAL)
            return FR_OK;
        return fr_fail(c->err, FR_SHAPE, "%s: %s is absent", tr_op_name(c->op), n->name);
    }
    if (tr_view_absent(*v) && (n->rule & TR_OPTIONAL))
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

enum fr_rc tr_check_views(struct tr_check *c, enum tr_dtype compute, enum tr_dtype weight,
                          const struct tr_need *needs, size_t n)
{
    c->compute = compute;
    for (size_t i = 0; i < n; i++) {
        enum fr_rc rc = check_view(c, &needs[i]);

        if (rc != FR_OK)
            return rc;
    }
    if (!c->be->ops->supports(c->be->self, c->op, compute, weight)) {
        char shape[96] = "";

        if (n > 0)
            tr_view_show(*needs[0].view, shape);
        return fr_fail(c->err, FR_UNSUPPORTED,
                       "backend %s lacks %s in %s with weights in %s, %s %s", c->be->ops->name,
                       tr_op_name(c->op), tr_dtype_name(compute), tr_dtype_name(weight),
                       n > 0 ? needs[0].name : "", shape);
    }
    return FR_OK;
}

enum fr_rc tr_check_weight(struct tr_check *c, const struct tr_weight *w, int64_t rows,
                           int64_t cols)
{
    struct tr_need need = {"weight", &w->w, TR_IS_FLOAT, 2, {rows, cols}};
    char got[96];

    if (w->w.dtype == TR_F8_E4M3) {
        struct tr_view s = w->scale;

        if (w->w.rank != 2 || !shape_fits(&need) || (tr_view_absent(w->w) && rows * cols > 0))
            return refuse_shape(c, &need);
        if (w->block_rows < 1 || w->block_cols < 1 || w->row0 < 0 || tr_view_absent(s) ||
            s.rank != 2 || s.dtype != TR_F32 || s.ld < s.shape[1] ||
            s.shape[0] * w->block_rows < w->row0 + rows || s.shape[1] * w->block_cols < cols) {
            tr_view_show(s, got);
            return fr_fail(c->err, FR_SHAPE, "%s: scale is %s for rows %lld.. of (%lld, %lld)",
                           tr_op_name(c->op), got, (long long)w->row0, (long long)rows,
                           (long long)cols);
        }
        return c->compute == TR_F64
                   ? fr_fail(c->err, FR_DTYPE, "%s: FP8 weight in f64", tr_op_name(c->op))
                   : FR_OK;
    }
    need.rule = TR_IS_C;
    return check_view(c, &need);
}

#define OP_CALL(name, args)                                                                        \
    enum fr_rc tr_##name(struct tr_backend *be, struct tr_queue *q, const struct args *a,          \
                         struct fr_err *err)                                                       \
    {                                                                                              \
        struct tr_check c = {.be = be, .op = TR_OP_##name, .err = err};                            \
        enum fr_rc rc = tr_check_##name(&c, a);                                                    \
                                                                                                   \
        assert(q != NULL);                                                                         \
        if (rc != FR_OK)                                                                           \
            return rc;                                                                             \
        tr_trace_begin(be, q, #name);                                                              \
        rc = be->ops->name(be->self, q, a, err);                                                   \
        tr_trace_end(be, q);                                                                       \
        return rc;                                                                                 \
    }
TR_OPS(OP_CALL)
#undef OP_CALL

enum fr_rc tr_mem_alloc(struct tr_backend *be, enum tr_mem kind, size_t bytes, void **out,
                        struct fr_err *err)
{
    enum fr_rc rc;

    *out = NULL;
    rc = be->ops->mem_alloc(be->self, kind, bytes, out, err);
    assert((uintptr_t)*out % 256 == 0);
    be->taken += rc == FR_OK ? bytes : 0;
    return rc;
}

void tr_mem_free(struct tr_backend *be, enum tr_mem kind, void *p)
{
    if (p != NULL)
        be->ops->mem_free(be->self, kind, p);
}

enum fr_rc tr_mem_reserve(struct tr_backend *be, size_t bytes, struct fr_err *err)
{
    return be->ops->mem_reserve != NULL ? be->ops->mem_reserve(be->self, bytes, err) : FR_OK;
}

size_t tr_mem_room(struct tr_backend *be)
{
    return be->ops->mem_room != NULL ? be->ops->mem_room(be->self) : 0;
}

size_t tr_prepack_bytes(struct tr_backend *be, struct tr_view w)
{
    return be->ops->prepack_bytes != NULL ? be->ops->prepack_bytes(be->self, &w) : 0;
}

enum fr_rc tr_prepack(struct tr_backend *be, struct tr_queue *q, struct tr_view w, void *packed)
{
    enum fr_rc rc;

    assert(tr_prepack_bytes(be, w) > 0);
    tr_trace_begin(be, q, "prepack");
    rc = be->ops->prepack(be->self, q, &w, packed);
    tr_trace_end(be, q);
    return rc;
}

bool tr_repacks(struct tr_backend *be, struct tr_view w)
{
    return tr_prepack_bytes(be, w) > 0 && be->ops->repacks != NULL &&
           be->ops->repacks(be->self, &w);
}

enum fr_rc tr_repack(struct tr_backend *be, struct tr_queue *q, struct tr_view w,
                     struct fr_err *err)
{
    enum fr_rc rc;

    assert(tr_repacks(be, w));
    tr_trace_begin(be, q, "repack");
    rc = be->ops->repack(be->self, q, &w, err);
    tr_trace_end(be, q);
    return rc;
}

enum fr_rc tr_copy(struct tr_backend *be, struct tr_queue *q, void *dst, const void *src,
                   size_t bytes)
{
    enum fr_rc rc;

    if (bytes == 0)
        return FR_OK;
    tr_trace_begin(be, q, "copy %zu bytes", bytes);
    rc = be->ops->copy(be->self, q, dst, src, bytes);
    tr_trace_end(be, q);
    return rc;
}

enum fr_rc tr_zero(struct tr_backend *be, struct tr_queue *q, void *dst, size_t bytes)
{
    return bytes == 0 ? FR_OK : be->ops->zero(be->self, q, dst, bytes);
}

enum fr_rc tr_queue_create(struct tr_backend *be, size_t workspace_bytes, struct tr_queue **out,
                           struct fr_err *err)
{
    enum fr_rc rc;

    *out = NULL;
    rc = be->ops->queue_create(be->self, workspace_bytes, out, err);
    be->taken += rc == FR_OK ? workspace_bytes : 0;
    return rc;
}

void tr_queue_destroy(struct tr_backend *be, struct tr_queue *q)
{
    if (q == NULL)
        return;
    tr_trace_forget(be, q);
    be->ops->queue_destroy(be->self, q);
}

enum fr_rc tr_event_create(struct tr_backend *be, struct tr_event **out, struct fr_err *err)
{
    *out = NULL;
    return be->ops->event_create(be->self, false, out, err);
}

enum fr_rc tr_event_create_timed(struct tr_backend *be, struct tr_event **out, struct fr_err *err)
{
    *out = NULL;
    return be->ops->event_create(be->self, true, out, err);
}

void tr_event_destroy(struct tr_backend *be, struct tr_event *e)
{
    if (e != NULL)
        be->ops->event_destroy(be->self, e);
}

enum fr_rc tr_event_record(struct tr_backend *be, struct tr_queue *q, struct tr_event *e)
{
    return be->ops->event_record(be->self, q, e);
}

enum fr_rc tr_event_wait(struct tr_backend *be, struct tr_queue *q, struct tr_event *e)
{
    return be->ops->event_wait(be->self, q, e);
}

enum fr_rc tr_sync(struct tr_backend *be, struct tr_queue *q, struct fr_err *err)
{
    return be->ops->sync(be->self, q, err);
}

void tr_backend_describe(struct tr_backend *be, char out[256])
{
    be->ops->describe(be->self, out);
}

void tr_backend_destroy(struct tr_backend *be)
{
    if (be != NULL)
        be->ops->destroy(be->self);
}
