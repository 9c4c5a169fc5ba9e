#include "tests/ref/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ref {
    struct tr_backend base;
};

struct tr_queue {
    struct ref *owner;
};

struct tr_event {
    bool recorded;
};

int64_t ref_width(const struct tr_view *v)
{
    int64_t n = 1;

    for (int i = 1; i < v->rank; i++)
        n *= v->shape[i];
    return n;
}

double ref_at(const struct tr_view *v, int64_t row, int64_t col)
{
    struct tr_view one = *v;

    one.p = (char *)v->p + (row * v->ld + col) * (int64_t)tr_dtype_bytes(v->dtype);
    one.rank = 1;
    one.ld = 1;
    return tr_get(one, 0);
}

void ref_put(const struct tr_view *v, int64_t row, int64_t col, double x)
{
    struct tr_view one = *v;

    one.p = (char *)v->p + (row * v->ld + col) * (int64_t)tr_dtype_bytes(v->dtype);
    one.rank = 1;
    one.ld = 1;
    tr_set(one, 0, x);
}

void ref_add(const struct tr_view *v, int64_t row, int64_t col, double x)
{
    ref_put(v, row, col, ref_at(v, row, col) + x);
}

int64_t ref_int(const struct tr_view *v, int64_t row, int64_t col)
{
    const char *p = (const char *)v->p + (row * v->ld + col) * (int64_t)tr_dtype_bytes(v->dtype);

    return v->dtype == TR_I64 ? *(const int64_t *)(const void *)p
                              : *(const int32_t *)(const void *)p;
}

double ref_round(enum tr_dtype t, double x)
{
    double cell;
    struct tr_view v = tr_view1(&cell, t, 1);

    tr_set(v, 0, x);
    return tr_get(v, 0);
}

double ref_weight(const struct tr_weight *w, int64_t row, int64_t col)
{
    double x = ref_at(&w->w, row, col);

    if (w->w.dtype == TR_F8_E4M3)
        x *= ref_at(&w->scale, (w->row0 + row) / w->block_rows, col / w->block_cols);
    return x;
}

struct ref_range ref_rows(const struct tr_rows *r, int64_t all)
{
    struct ref_range range = {0, all};

    if (!tr_view_absent(r->offsets)) {
        range.begin = ref_int(&r->offsets, r->first, 0);
        range.end = ref_int(&r->offsets, r->last, 0);
    }
    return range;
}

static enum fr_rc ref_mem_alloc(void *self, enum tr_mem kind, size_t bytes, void **out,
                                struct fr_err *err)
{
    (void)self;
    (void)kind;
    *out = aligned_alloc(256, (bytes + 256) / 256 * 256);
    return *out != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "%zu bytes", bytes);
}

static void ref_mem_free(void *self, enum tr_mem kind, void *p)
{
    (void)self;
    (void)kind;
    free(p);
}

static enum fr_rc ref_copy(void *self, struct tr_queue *q, void *dst, const void *src, size_t bytes)
{
    (void)self;
    (void)q;
    memcpy(dst, src, bytes);
    return FR_OK;
}

static enum fr_rc ref_zero(void *self, struct tr_queue *q, void *dst, size_t bytes)
{
    (void)self;
    (void)q;
    memset(dst, 0, bytes);
    return FR_OK;
}

static enum fr_rc ref_queue_create(void *self, size_t workspace_bytes, struct tr_queue **out,
                                   struct fr_err *err)
{
    (void)workspace_bytes;
    if ((*out = calloc(1, sizeof **out)) == NULL)
        return fr_fail(err, FR_NOMEM, "queue");
    (*out)->owner = self;
    return FR_OK;
}

static void ref_queue_destroy(void *self, struct tr_queue *q)
{
    (void)self;
    free(q);
}

static enum fr_rc ref_event_create(void *self, bool timed, struct tr_event **out,
                                   struct fr_err *err)
{
    (void)self;
    (void)timed;
    *out = calloc(1, sizeof **out);
    return *out != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "event");
}

static void ref_event_destroy(void *self, struct tr_event *e)
{
    (void)self;
    free(e);
}

static enum fr_rc ref_event_record(void *self, struct tr_queue *q, struct tr_event *e)
{
    (void)self;
    (void)q;
    e->recorded = true;
    return FR_OK;
}

static enum fr_rc ref_event_wait(void *self, struct tr_queue *q, struct tr_event *e)
{
    (void)self;
    (void)q;
    (void)e;
    return FR_OK;
}

static enum fr_rc ref_sync(void *self, struct tr_queue *q, struct fr_err *err)
{
    (void)self;
    (void)q;
    (void)err;
    return FR_OK;
}

static void ref_describe(void *self, char out[256])
{
    (void)self;
    snprintf(out, 256, "ref: plain loops, sums in f64");
}

static void ref_destroy(void *self)
{
    free(self);
}

static const struct tr_memory_ops ref_memory = {
    .is_host = true, .alloc = ref_mem_alloc, .free = ref_mem_free};

static const struct tr_queue_ops ref_queues = {
    .create = ref_queue_create,
    .destroy = ref_queue_destroy,
    .copy = ref_copy,
    .zero = ref_zero,
    .sync = ref_sync,
    .event_create = ref_event_create,
    .event_destroy = ref_event_destroy,
    .event_record = ref_event_record,
    .event_wait = ref_event_wait,
};

static const struct tr_backend_ops ref_ops = {
    .name = "ref",
    .computes = 1 << TR_F64 | 1 << TR_F32 | 1 << TR_BF16 | 1 << TR_F16,
    .describe = ref_describe,
    .destroy = ref_destroy,
#define REF_SLOT(name, args, fp8) .name = ref_##name,
    TR_OPS(REF_SLOT)
#undef REF_SLOT
};

enum fr_rc tr_ref_create(struct tr_backend **out, struct fr_err *err)
{
    struct ref *r = calloc(1, sizeof *r);

    *out = NULL;
    if (r == NULL)
        return fr_fail(err, FR_NOMEM, "backend ref");
    r->base = (struct tr_backend){&ref_memory, &ref_queues, r, &ref_ops, r, NULL, 0};
    *out = &r->base;
    return FR_OK;
}
