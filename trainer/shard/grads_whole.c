/* Whole weights for the host, and what of them each rank has. */
#include "trainer/shard/grads_private.h"

const struct tr_grads_piece *tr_grads_pieces(const struct tr_grads *g, size_t *n)
{
    *n = g->npieces;
    return g->pieces;
}

bool tr_grads_muon(const struct tr_grads *g)
{
    return g->o.muon;
}

int tr_grads_ranks(const struct tr_grads *g)
{
    return g->ranks;
}

int tr_grads_rank(const struct tr_grads *g)
{
    return g->me;
}

struct tr_grads_span tr_grads_span(const struct tr_grads *g, const struct tr_grads_piece *p,
                                   int rank)
{
    const struct grads_part *part = &g->parts[p->part];
    int64_t lo = part->n * rank, hi = lo + part->n;
    int64_t from = lo > p->at ? lo : p->at, to = hi < p->at + p->n ? hi : p->at + p->n;

    if (from >= to)
        return (struct tr_grads_span){.n = 0};
    return (struct tr_grads_span){from - p->at, to - from, part->at + from - lo};
}

int tr_grads_first(const struct tr_grads *g, const struct tr_grads_piece *p)
{
    return (int)(p->at / g->parts[p->part].n);
}

size_t tr_grads_part_bytes(const struct tr_grads *g, int part)
{
    return grads_item_of(g, &g->parts[part]).bytes * (size_t)g->ranks;
}

static enum fr_rc to_host(struct tr_grads *g, struct tr_queue *q, char *host, const void *from,
                          size_t bytes, struct fr_err *err)
{
    return tr_copy(g->o.be, q, host, from, bytes) == FR_OK
               ? FR_OK
               : fr_fail(err, FR_IO, "cannot copy weights to the host");
}

/* Shares come through the window, as much of each at once as fits. */
static enum fr_rc collect(struct tr_grads *g, struct tr_queue *q, const struct grads_part *p,
                          char *host, struct fr_err *err)
{
    const struct unit *u = &g->o.shard->units[p->unit];
    struct tr_view room = tr_view_count(g->window) > 0 ? g->window : g->received;
    size_t most = tr_view_bytes(room) / (size_t)g->ranks / 256 * 256;
    const char *mine = shard_home(g->o.shard, u) + u->base_at;
    enum fr_rc rc = FR_OK;

    if (g->ranks == 1 && host == NULL)
        return FR_OK;
    if (g->ranks == 1) {
        rc = to_host(g, q, host, mine, u->share, err);
        return rc == FR_OK ? tr_sync(g->o.be, q, err) : rc;
    }
    for (size_t at = 0; at < u->share && rc == FR_OK; at += most) {
        size_t n = u->share - at < most ? u->share - at : most;
        char *slot = (char *)room.p + n * (size_t)g->me;
        struct tr_gather_item item = {room.p, slot, n};
        struct tr_allgather x = {.items = &item, .n = 1, .what = u->what};

        if (tr_copy(g->o.be, q, slot, mine + at, n) != FR_OK)
            return fr_fail(err, FR_IO, "cannot copy weights");
        rc = tr_comm_all_gather(g->o.comm, q, &x, err);
        for (int k = 0; k < g->ranks && host != NULL && rc == FR_OK; k++)
            rc = to_host(g, q, host + (size_t)k * u->share + at, (char *)room.p + (size_t)k * n, n,
                         err);
        if (rc == FR_OK)
            rc = tr_sync(g->o.be, q, err);
    }
    return rc;
}

enum fr_rc tr_grads_whole(struct tr_grads *g, struct tr_queue *q, int part, char *host,
                          struct fr_err *err)
{
    const struct grads_part *p = &g->parts[part];
    enum fr_rc rc;

    if (!grads_part_whole(g, p))
        return collect(g, q, p, host, err);
    if (host == NULL)
        return FR_OK;
    rc = to_host(g, q, host, grads_item_of(g, p).out, tr_grads_part_bytes(g, part), err);
    return rc == FR_OK ? tr_sync(g->o.be, q, err) : rc;
}

/* Between steps gradients hold nothing. */
static struct tr_view largest_window(const struct tr_grads *g)
{
    const struct tr_view *best = &g->window;

    if (tr_view_bytes(g->norm_window) > tr_view_bytes(*best))
        best = &g->norm_window;
    if (tr_view_bytes(g->received) > tr_view_bytes(*best))
        best = &g->received;
    return *best;
}

enum fr_rc tr_grads_whole_states(struct tr_grads *g, struct tr_queue *q,
                                 const struct tr_grads_states *s, struct fr_err *err)
{
    const struct grads_part *p = &g->parts[s->part];
    struct tr_view room = largest_window(g);
    int64_t most = (int64_t)(tr_view_bytes(room) / sizeof(float)) / g->ranks;
    enum fr_rc rc = FR_OK;

    if (g->ranks == 1)
        return s->read(s->self, p->at, p->n, s->host, err);
    for (int64_t at = 0, n; at < p->n && rc == FR_OK; at += n) {
        n = p->n - at < most ? p->n - at : most;

        float *slot = (float *)room.p + n * g->me;
        size_t bytes = (size_t)n * sizeof(float);
        struct tr_gather_item item = {room.p, slot, bytes};
        struct tr_allgather x = {.items = &item, .n = 1, .what = "masters"};

        rc = s->read(s->self, p->at + at, n, slot, err);
        if (rc == FR_OK)
            rc = tr_comm_all_gather(g->o.comm, q, &x, err);
        for (int k = 0; k < g->ranks && s->host != NULL && rc == FR_OK; k++)
            rc = to_host(g, q, (char *)(s->host + k * p->n + at), (float *)room.p + n * k, bytes,
                         err);
        if (rc == FR_OK)
            rc = tr_sync(g->o.be, q, err);
    }
    return rc;
}
