#include "engine/base/sys.h"
#include "trainer/backend/trace.h"
#include "trainer/shard/private.h"

#include <string.h>

enum fr_rc tr_shard_create(const struct tr_shard_opts *o, struct tr_shard **out, struct fr_err *err)
{
    struct tr_shard *s = fr_sys.alloc(sizeof(*s));

    *out = NULL;
    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "a shard");
    memset(s, 0, sizeof(*s));
    s->o = *o;
    s->pass = s->last = -1;
    s->span_max = 1;
    s->norms_grain = 256;
    *out = s;
    return FR_OK;
}

void tr_shard_destroy(struct tr_shard *s)
{
    if (s == NULL)
        return;
    pool_free(s);
    for (int i = 0; i < PASSES; i++)
        fr_sys.free(s->orders[i].steps);
    rows_free(s);
    tr_mem_free(s->o.be, shard_staged(s) ? TR_MEM_PINNED : TR_MEM_DEVICE, s->base);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, s->persistent);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, s->trained);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, s->packed);
    tr_event_destroy(s->o.be, s->rows_done);
    tr_event_destroy(s->o.be, s->changed);
    if (s->o.comm != NULL)
        tr_comm_leave(s->o.comm, s->gq);
    tr_queue_destroy(s->o.be, s->gq);
    tr_queue_destroy(s->o.be, s->cq);
    fr_sys.free(s->units);
    fr_arena_finish(&s->arena);
    fr_sys.free(s);
}

static enum fr_rc grow(struct tr_shard *s, struct fr_err *err)
{
    struct unit *p = fr_grow(s->units, s->nunits + 1, &s->cap, sizeof(*p));

    if (p == NULL)
        return fr_fail(err, FR_NOMEM, "a table of %zu weight units", s->nunits + 1);
    s->units = p;
    return FR_OK;
}

static size_t tensor_bytes(const struct tr_unit_tensor *t)
{
    size_t n = (size_t)t->shape[0];

    if (t->rank == 2)
        n *= (size_t)t->shape[1];
    return n * tr_dtype_bytes(t->dtype);
}

/* Raises the size of the largest gather. */
static void plan(struct tr_shard *s, size_t n, size_t bytes, int64_t elements)
{
    s->span_max = n > s->span_max ? n : s->span_max;
    s->span_bytes = bytes > s->span_bytes ? bytes : s->span_bytes;
    s->span_elements = elements > s->span_elements ? elements : s->span_elements;
}

static enum fr_rc check_trained(struct unit *u, struct fr_err *err)
{
    for (size_t i = 0; i < u->n; i++)
        u->trained = u->trained || u->tensors[i].trained;
    for (size_t i = 0; i < u->n && u->trained; i++)
        if (u->tensors[i].dtype != u->tensors->dtype || u->kind == TR_UNIT_OWNED ||
            (u->kind == TR_UNIT_PERSISTENT && !u->tensors[i].trained))
            return fr_fail(err, FR_BUG, "unit %s cannot be trained", u->what);
    return FR_OK;
}

/* Lays out the tensors; sets the bytes that this rank keeps, and their offset. */
static void place(struct tr_shard *s, struct unit *u)
{
    size_t W = shard_ways(s), ranks = (size_t)s->o.comm->size;
    size_t grain = u->trained ? shard_grain(s, tr_dtype_bytes(u->tensors->dtype)) : 256;
    size_t *total = u->kind != TR_UNIT_PERSISTENT ? &s->base_bytes
                    : u->trained                  ? &s->trained_bytes
                                                  : &s->persistent_bytes;

    for (size_t i = 0; i < u->n; i++) {
        u->at[i] = u->bytes;
        u->bytes = shard_round(u->bytes + tensor_bytes(&u->tensors[i]), grain);
        u->elements +=
            (int64_t)(tensor_bytes(&u->tensors[i]) / tr_dtype_bytes(u->tensors[i].dtype));
    }
    u->whole = u->kind == TR_UNIT_PERSISTENT || u->kind == TR_UNIT_OWNED ||
               (W == 1 && (u->kind == TR_UNIT_ROWS || !shard_staged(s)));
    u->slice = shard_round((u->bytes + W - 1) / W, grain);
    u->share = shard_round((u->bytes + ranks - 1) / ranks, grain);
    if (u->trained && u->kind == TR_UNIT_PERSISTENT)
        s->norms_grain = grain;
    if (u->kind == TR_UNIT_ROWS) {
        u->share = (size_t)rows_per_rank(s, u) * row_bytes(u);
        u->slice = round_256(u->share);
    }
    if (u->by_rows > 0)
        u->share = u->slice = (size_t)rows_per_rank(s, u) * row_bytes(u);
    u->base_at = *total;
    u->reserved = u->whole ? u->bytes : u->slice;
    if (u->whole && (u->trained || u->by_rows > 0) && u->kind != TR_UNIT_PERSISTENT)
        u->reserved = round_256(u->share * ranks);
    *total += u->reserved;
    s->owned_bytes += u->kind == TR_UNIT_OWNED ? u->bytes : 0;
    if (!u->whole && u->kind == TR_UNIT_SHARDED)
        plan(s, 1, shard_whole(s, u), u->elements);
}

enum fr_rc tr_shard_add(struct tr_shard *s, const struct tr_unit_spec *spec, int *id,
                        struct fr_err *err)
{
    struct unit u = {.kind = spec->kind, .n = spec->n, .by_rows = spec->by_rows};
    enum fr_rc rc;

    if (s->base != NULL || ((spec->kind == TR_UNIT_ROWS || spec->by_rows > 0) &&
                            (spec->n != 1 || spec->tensors->rank != 2)))
        return fr_fail(err, FR_BUG, "unit %s cannot be added", spec->what);
    if (spec->kind == TR_UNIT_OWNED && shard_staged(s))
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s is owned by this rank and cannot wait in the host's memory: leave out "
                       "offload_param",
                       spec->what);
    if ((rc = grow(s, err)) != FR_OK)
        return rc;
    u.what = fr_arena_dup(&s->arena, spec->what);
    u.tensors = fr_arena_array(&s->arena, spec->n, sizeof(*u.tensors));
    u.at = fr_arena_array(&s->arena, spec->n, sizeof(*u.at));
    if (u.what == NULL || u.tensors == NULL || u.at == NULL)
        return fr_fail(err, FR_NOMEM, "unit %s", spec->what);
    for (size_t i = 0; i < spec->n; i++) {
        u.tensors[i] = spec->tensors[i];
        if ((u.tensors[i].name = fr_arena_dup(&s->arena, spec->tensors[i].name)) == NULL)
            return fr_fail(err, FR_NOMEM, "unit %s", spec->what);
    }
    if ((rc = check_trained(&u, err)) != FR_OK)
        return rc;
    place(s, &u);
    *id = (int)s->nunits;
    s->units[s->nunits++] = u;
    return FR_OK;
}

enum fr_rc tr_shard_plan_window(struct tr_shard *s, int first, int n, struct fr_err *err)
{
    size_t bytes = 0;
    int64_t elements = 0;

    for (int i = first; i < first + n; i++) {
        if (i < 0 || i >= (int)s->nunits ||
            (s->units[i].kind != TR_UNIT_SHARDED && s->units[i].kind != TR_UNIT_OWNED))
            return fr_fail(err, FR_BUG, "unit %d cannot be in a window", i);
        if (s->units[i].whole)
            return FR_OK;
        bytes += shard_whole(s, &s->units[i]);
        elements += s->units[i].elements;
    }
    plan(s, (size_t)n, bytes, elements);
    return FR_OK;
}

int64_t tr_shard_window_units(struct tr_shard *s, int64_t elements, int64_t beside)
{
    int64_t live = s->o.limits.max_live, n = elements > 0 ? live / 2 / elements : 1, fit = n;

    if (shard_ways(s) == 1 && !shard_staged(s))
        return INT64_MAX;
    if (elements > 0 && beside > 0 && (live - beside) / elements < n)
        fit = live > beside ? (live - beside) / elements : 0;
    fit = fit < 1 ? 1 : fit;
    if (fit < n) {
        s->window_wanted = n;
        s->window_cut = fit;
    }
    return fit;
}

int64_t tr_shard_elements(const struct tr_shard *s, int unit)
{
    return s->units[unit].elements;
}

/* Bytes of the packed form of tensor i; 0: none. */
static size_t packed_of(const struct tr_shard *s, const struct unit *u, size_t i)
{
    const struct tr_unit_tensor *t = &u->tensors[i];

    return t->rank == 2
               ? round_256(tr_prepack_bytes(s->o.be, tr_view_of(NULL, t->dtype, 2, t->shape)))
               : 0;
}

/* Whether tensor i has only a packed form. */
static bool replaced(const struct tr_shard *s, const struct unit *u, size_t i)
{
    const struct tr_unit_tensor *t = &u->tensors[i];

    return s->replace && t->factor &&
           tr_repacks(s->o.be, tr_view_of(NULL, t->dtype, t->rank, t->shape));
}

size_t tr_shard_prepack(struct tr_shard *s, size_t bytes, bool replace)
{
    s->replace = replace;
    for (size_t k = 0; k < s->nunits; k++) {
        struct unit *u = &s->units[k];
        size_t n = 0;

        for (size_t i = 0; i < u->n; i++)
            n += packed_of(s, u, i);
        if (!u->whole || u->trained || n == 0 || n > bytes - s->packed_bytes ||
            (u->kind != TR_UNIT_SHARDED && u->kind != TR_UNIT_OWNED))
            continue;
        u->packed = true;
        u->packed_at = s->packed_bytes;
        s->packed_bytes += n;
    }
    return s->packed_bytes;
}

enum fr_rc shard_prepack(struct tr_shard *s, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; k < s->nunits && s->packed_bytes > 0; k++)
        for (size_t i = 0; i < s->units[k].n && rc == FR_OK; i++) {
            struct tr_weight w = tr_shard_weight(s, (int)k, (int)i);

            if (w.packed == NULL)
                continue;
            rc = tr_prepack(s->o.be, s->gq, w.w, s->packed + ((const char *)w.packed - s->packed));
            if (rc == FR_OK && w.repacked)
                rc = tr_repack(s->o.be, s->gq, w.w, err);
        }
    if (rc == FR_OK && s->packed_bytes > 0)
        rc = tr_sync(s->o.be, s->gq, err);
    return rc;
}

void tr_shard_notes(const struct tr_shard *s, struct fr_buf *notes)
{
    const struct tr_shard_limits *l = &s->o.limits;

    if (s->span_elements == 0)
        return;
    if (s->window_cut > 0)
        fr_buf_fmt(notes,
                   "stage3_max_live_parameters %lld: %lld experts are gathered at once instead of "
                   "%lld, so that the gather before them fits beside them\n",
                   (long long)l->max_live, (long long)s->window_cut, (long long)s->window_wanted);
    if (l->prefetch_bucket > 0 && shard_bucket(s) < s->span_elements)
        fr_buf_fmt(notes,
                   "stage3_prefetch_bucket_size %lld is less than the largest gather, %lld "
                   "elements: a gather still goes ahead whole, one at a time\n",
                   (long long)l->prefetch_bucket, (long long)s->span_elements);
}

void tr_shard_bytes(const struct tr_shard *s, struct tr_shard_bytes *out)
{
    *out = (struct tr_shard_bytes){
        .base = s->base_bytes - s->owned_bytes,
        .owned = s->owned_bytes,
        .packed = s->packed_bytes,
        .persistent = s->persistent_bytes + shard_norms_share(s) * (size_t)s->o.comm->size,
        .windows = pool_bytes(s),
        .rows = rows_bytes(s),
    };
    for (size_t i = 0; i < s->nunits; i++)
        out->model += s->units[i].bytes;
}

void tr_shard_stats(const struct tr_shard *s, struct tr_shard_stats *out)
{
    *out = s->stats;
}

struct tr_view tr_shard_view(const struct tr_shard *s, int unit, int i)
{
    const struct unit *u = &s->units[unit];
    const struct tr_unit_tensor *t = &u->tensors[i];
    bool held = unit >= s->held.first && unit < s->held.first + s->held.n;
    char *p = NULL;

    if (u->whole)
        p = shard_home(s, u);
    if (p != NULL)
        p += u->base_at + u->at[i];
    else if (held)
        p = s->pool + u->pool_at + u->at[i];
    return tr_view_of(p, t->dtype, t->rank, t->shape);
}

struct tr_weight tr_shard_weight(const struct tr_shard *s, int unit, int i)
{
    const struct unit *u = &s->units[unit];
    struct tr_weight w = {.w = tr_shard_view(s, unit, i)};
    size_t at = u->packed_at;

    if (s->packed == NULL || !u->packed || packed_of(s, u, (size_t)i) == 0)
        return w;
    for (int k = 0; k < i; k++)
        at += packed_of(s, u, (size_t)k);
    w.packed = s->packed + at;
    w.repacked = replaced(s, u, (size_t)i);
    return w;
}

/* Allocates and zeroes device memory: padding is zeros, and all pages are mapped. what: the name in
 * the memory table and in errors. */
static enum fr_rc take(struct tr_shard *s, size_t bytes, const char *what, char **out,
                       struct fr_err *err)
{
    void *p = NULL;
    enum fr_rc rc = tr_mem_alloc(s->o.be, TR_MEM_DEVICE, bytes, &p, err);

    if (rc != FR_OK)
        return fr_while(err, "%s", what);
    *out = p;
    return tr_zero(s->o.be, s->gq, p, bytes);
}

/* In host memory load.c writes every byte, padding included. */
static enum fr_rc take_base(struct tr_shard *s, struct fr_err *err)
{
    void *p = NULL;
    enum fr_rc rc;

    if (!shard_base_is_hosts(s))
        return take(s, s->base_bytes, "base shard", &s->base, err);
    rc = tr_mem_alloc(s->o.be, shard_staged(s) ? TR_MEM_PINNED : TR_MEM_DEVICE, s->base_bytes, &p,
                      err);
    s->base = p;
    return rc == FR_OK ? rc : fr_while(err, "base shard");
}

static enum fr_rc make_queues(struct tr_shard *s, struct fr_err *err)
{
    enum fr_rc rc = tr_queue_create(s->o.be, 0, &s->gq, err);

    if (rc != FR_OK)
        return rc;
    tr_trace_queue(s->o.be, s->gq, "gather");
    if (shard_staged(s) && (rc = tr_queue_create(s->o.be, 0, &s->cq, err)) != FR_OK)
        return rc;
    if (s->cq != NULL)
        tr_trace_queue(s->o.be, s->cq, "copy weights");
    return FR_OK;
}

enum fr_rc tr_shard_rehearse(struct tr_shard *s, struct fr_err *err)
{
    enum fr_rc rc = make_queues(s, err);

    s->rehearsed = true;
    s->pool_bytes = pool_bytes(s);
    return rc == FR_OK ? pool_alloc(s, err) : rc;
}

void tr_shard_forget(struct tr_shard *s)
{
    pool_forget_all(s);
}

enum fr_rc tr_shard_changed(struct tr_shard *s, struct tr_queue *q, struct fr_err *err)
{
    pool_forget_all(s);
    if (tr_event_record(s->o.be, q, s->changed) == FR_OK &&
        tr_event_wait(s->o.be, s->gq, s->changed) == FR_OK &&
        (s->cq == NULL || tr_event_wait(s->o.be, s->cq, s->changed) == FR_OK))
        return FR_OK;
    return fr_fail(err, FR_IO, "cannot order gathers behind updated weights");
}

enum fr_rc shard_alloc(struct tr_shard *s, struct fr_err *err)
{
    enum fr_rc rc = make_queues(s, err);

    if (rc != FR_OK)
        return rc;
    if ((rc = tr_event_create(s->o.be, &s->rows_done, err)) != FR_OK ||
        (rc = tr_event_create(s->o.be, &s->changed, err)) != FR_OK ||
        (rc = take_base(s, err)) != FR_OK ||
        (rc = take(s, s->persistent_bytes, "norms and routers", &s->persistent, err)) != FR_OK ||
        (rc = rows_alloc(s, err)) != FR_OK)
        return rc;
    if (s->trained_bytes > 0 && (rc = take(s, shard_norms_share(s) * (size_t)s->o.comm->size,
                                           "norms and routers", &s->trained, err)) != FR_OK)
        return rc;
    if (s->packed_bytes > 0 &&
        (rc = take(s, s->packed_bytes, "packed weights", &s->packed, err)) != FR_OK)
        return rc;
    s->pool_bytes = pool_bytes(s);
    if (s->pool_bytes > 0 &&
        (rc = take(s, s->pool_bytes, "gather windows", &s->pool, err)) != FR_OK)
        return rc;
    return pool_alloc(s, err);
}
