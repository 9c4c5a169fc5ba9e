/* Sums of gradients in the host's memory. */
#include "trainer/backend/trace.h"
#include "trainer/shard/grads_private.h"

enum { TILE = 4 << 20, TILE_OF = 64 /* elements: it is a multiple */ };

const struct tr_grads_host *tr_grads_host(const struct tr_grads *g)
{
    return &g->o.host;
}

int64_t tr_grads_tile(const struct tr_grads *g)
{
    int64_t most = 0, tile = g->o.host.tile, block = tr_grads_block(g);
    int64_t of = block > TILE_OF ? block : TILE_OF;

    for (size_t k = 0; k < g->nparts; k++)
        most = g->parts[k].n > most ? g->parts[k].n : most;
    tile = tile <= 0 || tile > TILE ? TILE : tile;
    tile = tile < most ? tile : most;
    return (tile + of - 1) / of * of;
}

enum fr_rc grads_host_alloc(struct tr_grads *g, struct fr_err *err)
{
    size_t bytes = (size_t)g->flat * tr_dtype_bytes(g->o.sum);
    void *p = NULL;
    enum fr_rc rc = tr_mem_alloc(g->o.be, TR_MEM_PINNED, bytes, &p, err);

    g->sums = tr_view1(p, g->o.sum, g->flat);
    if (rc == FR_OK)
        rc = tr_queue_create(g->o.be, 0, &g->down, err);
    if (rc == FR_OK)
        rc = tr_event_create(g->o.be, &g->ready, err);
    if (rc == FR_OK)
        rc = tr_event_create(g->o.be, &g->landed, err);
    if (rc != FR_OK)
        return fr_while(err, "gradients");
    tr_trace_queue(g->o.be, g->down, "copy gradients");
    return FR_OK;
}

void grads_host_free(struct tr_grads *g)
{
    if (!grads_hosted(g))
        return;
    tr_queue_destroy(g->o.be, g->down);
    if (g->ready != NULL)
        tr_event_destroy(g->o.be, g->ready);
    if (g->landed != NULL)
        tr_event_destroy(g->o.be, g->landed);
    tr_mem_free(g->o.be, TR_MEM_PINNED, g->sums.p);
}

static enum fr_rc failed(struct fr_err *err)
{
    return fr_fail(err, FR_IO, "cannot copy gradients between the device and the host");
}

enum fr_rc grads_host_wait(struct tr_grads *g, struct tr_queue *q)
{
    return tr_event_wait(g->o.be, q, g->landed);
}

enum fr_rc grads_host_up(struct tr_grads *g, struct tr_queue *q, struct tr_view sums,
                         struct fr_err *err)
{
    if (grads_host_wait(g, q) != FR_OK)
        return failed(err);
    if (sums.p == NULL || tr_copy(g->o.be, q, g->landing.p, sums.p, tr_view_bytes(sums)) == FR_OK)
        return FR_OK;
    return failed(err);
}

enum fr_rc grads_host_down(struct tr_grads *g, struct tr_queue *q, struct tr_view sums,
                           struct fr_err *err)
{
    if (tr_event_record(g->o.be, q, g->ready) != FR_OK ||
        tr_event_wait(g->o.be, g->down, g->ready) != FR_OK ||
        tr_copy(g->o.be, g->down, sums.p, g->landing.p, tr_view_bytes(sums)) != FR_OK ||
        tr_event_record(g->o.be, g->down, g->landed) != FR_OK)
        return failed(err);
    return FR_OK;
}

enum fr_rc tr_grads_arrived(struct tr_grads *g, struct tr_queue *q, struct fr_err *err)
{
    enum fr_rc rc = tr_sync(g->o.be, q, err);

    return rc == FR_OK && grads_hosted(g) ? tr_sync(g->o.be, g->down, err) : rc;
}

struct tr_view tr_grads_room(const struct tr_grads *g)
{
    struct tr_view rows = tr_view1(g->compact.p, g->o.sum, g->cols * g->o.tokens_max);
    struct tr_view most = g->window;

    if (!grads_hosted(g))
        return g->sums;
    if (tr_view_count(g->norm_window) > tr_view_count(most))
        most = g->norm_window;
    return tr_view_count(rows) > tr_view_count(most) ? rows : most;
}
