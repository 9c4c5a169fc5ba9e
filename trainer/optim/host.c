/* Masters and moments of trained weights in the host's memory. */
#include "trainer/optim/optim_private.h"

static size_t tile_bytes(const struct tr_grads *g)
{
    size_t n;
    const struct tr_grads_range *r = tr_grads_ranges(g, &n);
    size_t size = n > 0 ? tr_dtype_bytes(r->weight.dtype) : 0;

    return (size_t)tr_grads_tile(g) * size;
}

size_t optim_host_bytes(const struct tr_grads *g)
{
    return 3 * (size_t)tr_grads_flat(g) * sizeof(float) + 2 * tile_bytes(g);
}

static enum fr_rc take(struct tr_optim *o, struct tr_view *v, int64_t n, struct fr_err *err)
{
    void *p = NULL;
    size_t bytes = (size_t)n * sizeof(float);
    enum fr_rc rc = tr_mem_alloc(o->be, TR_MEM_PINNED, bytes, &p, err);

    if (rc == FR_OK)
        rc = tr_zero(o->host.be, o->host.q, p, bytes);
    *v = tr_view1(p, TR_F32, n);
    return rc;
}

enum fr_rc optim_host_create(struct tr_optim *o, struct fr_err *err)
{
    struct tr_view *const states[] = {&o->weights.master, &o->weights.m, &o->weights.v};
    void *p = NULL;
    enum fr_rc rc;

    o->host =
        (struct tr_optim_host){.be = tr_grads_host(o->grads)->be, .tile = tr_grads_tile(o->grads)};
    rc = tr_queue_create(o->host.be, 0, &o->host.q, err);
    for (size_t i = 0; i < 3 && rc == FR_OK; i++)
        rc = take(o, states[i], tr_grads_flat(o->grads), err);
    for (int i = 0; i < 2 && rc == FR_OK; i++) {
        rc = tr_mem_alloc(o->be, TR_MEM_PINNED, tile_bytes(o->grads), &p, err);
        o->host.tiles[i] = rc == FR_OK ? p : NULL;
        if (rc == FR_OK)
            rc = tr_event_create(o->be, &o->host.sent[i], err);
    }
    return rc == FR_OK ? rc : fr_while(err, "optimizer states");
}

void optim_host_finish(struct tr_optim *o)
{
    void *const pinned[] = {o->weights.master.p, o->weights.m.p, o->weights.v.p, o->host.tiles[0],
                            o->host.tiles[1]};

    for (size_t i = 0; i < sizeof(pinned) / sizeof(pinned[0]); i++)
        tr_mem_free(o->be, TR_MEM_PINNED, pinned[i]);
    o->weights = (struct tr_optim_weights){0};
    for (int i = 0; i < 2; i++)
        if (o->host.sent[i] != NULL)
            tr_event_destroy(o->be, o->host.sent[i]);
    tr_queue_destroy(o->host.be, o->host.q);
}

enum fr_rc optim_host_look(struct tr_optim *o, struct optim_found *found, struct fr_err *err)
{
    const struct tr_grads_range *r;
    enum fr_rc rc = tr_grads_arrived(o->grads, o->q, err);
    size_t n;

    r = tr_grads_ranges(o->grads, &n);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        struct tr_view x = optim_sums_of(o, &r[i]);
        struct tr_nonfinite nf = {.found = tr_view1(&found->count, TR_I64, 1), .x = x};
        struct tr_sumsq sq = {.out = tr_view1(found->limbs, TR_I64, TR_EXACT_LIMBS), .x = x};

        rc = tr_nonfinite(o->host.be, o->host.q, &nf, err);
        if (rc == FR_OK)
            rc = tr_sumsq(o->host.be, o->host.q, &sq, err);
    }
    return rc;
}

/* Elements [at, at+n) of a range, by way of tile `slot`. */
static enum fr_rc update_tile(struct tr_optim *o, const struct tr_adamw *a, struct tr_view weight,
                              int slot, struct fr_err *err)
{
    struct tr_adamw x = *a;
    enum fr_rc rc = tr_event_wait(o->be, NULL, o->host.sent[slot]);

    x.copy = tr_view1(o->host.tiles[slot], weight.dtype, tr_view_count(weight));
    if (rc == FR_OK)
        rc = tr_adamw(o->host.be, o->host.q, &x, err);
    if (rc != FR_OK)
        return rc;
    if (tr_copy(o->be, o->q, weight.p, x.copy.p, tr_view_bytes(x.copy)) != FR_OK ||
        tr_event_record(o->be, o->q, o->host.sent[slot]) != FR_OK)
        return fr_fail(err, FR_IO, "cannot copy updated weights to the device");
    return FR_OK;
}

enum fr_rc optim_host_update(struct tr_optim *o, const struct tr_adamw *a, struct fr_err *err)
{
    const struct tr_grads_range *r;
    enum fr_rc rc = FR_OK;
    unsigned tiles = 0;
    size_t n;

    r = tr_grads_ranges(o->grads, &n);
    for (size_t i = 0; i < n; i++) {
        struct tr_adamw all = optim_range(o, a, &r[i]);

        for (int64_t at = 0, m; at < r[i].n && rc == FR_OK; at += m) {
            struct tr_adamw x = all;

            m = r[i].n - at < o->host.tile ? r[i].n - at : o->host.tile;
            x.p = optim_part(all.p, at, m);
            x.m = optim_part(all.m, at, m);
            x.v = optim_part(all.v, at, m);
            x.g = optim_part(all.g, at, m);
            rc = update_tile(o, &x, optim_part(r[i].weight, at, m), tiles++ % 2, err);
        }
    }
    return rc;
}
