/* Gradients of rows: a table of this rank's ids alone, whose rows travel to their owners. A round
 * has at most so many rows of a peer, and all rows of an id are in one round: the owner adds them
 * in rank order. */
#include "engine/base/sys.h"
#include "trainer/shard/grads_private.h"

#include <string.h>

/* Rows of a peer in a round. */
static int64_t round_rows(const struct tr_grads *g)
{
    int64_t n = (g->o.tokens_max + g->ranks - 1) / g->ranks;

    return n > 1 ? n : 1;
}

enum { COMPACT, RECEIVED, PICK, HOST_PICK, BUFFERS };

static void buffer_bytes(const struct tr_grads *g, size_t n[BUFFERS])
{
    size_t row = (size_t)g->cols * tr_dtype_bytes(g->o.sum), T = (size_t)g->o.tokens_max;
    size_t sent = (size_t)g->cols * tr_dtype_bytes(g->wire);
    size_t ids = (size_t)g->ranks * (size_t)round_rows(g);
    size_t least = 256 * (size_t)g->ranks; /* grads_whole.c takes it as a window */

    n[COMPACT] = g->cols > 0 ? T * row : 0;
    n[RECEIVED] = 0;
    if (g->cols > 0 && g->ranks > 1)
        n[RECEIVED] = ids * sent > least ? ids * sent : least;
    n[PICK] = g->cols > 0 ? (ids > T ? ids : T) * sizeof(int32_t) : 0;
    n[HOST_PICK] = g->cols > 0 ? 2 * (size_t)g->ranks * T * sizeof(int32_t) : 0;
}

size_t grads_rows_bytes(const struct tr_grads *g)
{
    size_t n[BUFFERS], sum = 0;

    buffer_bytes(g, n);
    for (int i = 0; i < HOST_PICK; i++)
        sum += n[i];
    return sum;
}

enum fr_rc grads_rows_alloc(struct tr_grads *g, struct fr_err *err)
{
    void **const to[BUFFERS] = {&g->compact.p, &g->received.p, &g->pick.p, (void **)&g->host_pick};
    size_t n[BUFFERS];
    enum fr_rc rc = FR_OK;

    if (g->cols == 0)
        return FR_OK;
    buffer_bytes(g, n);
    for (int i = 0; i < BUFFERS && rc == FR_OK; i++)
        rc =
            tr_mem_alloc(g->o.be, i == HOST_PICK ? TR_MEM_PINNED : TR_MEM_DEVICE, n[i], to[i], err);
    g->received =
        tr_view1(g->received.p, g->o.sum, (int64_t)(n[RECEIVED] / tr_dtype_bytes(g->o.sum)));
    for (int i = 0; i < 2 && rc == FR_OK; i++)
        rc = tr_event_create(g->o.be, &g->picked[i], err);
    if (rc == FR_OK && (g->counts = fr_sys.alloc(4 * (size_t)g->ranks * sizeof(size_t))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "counts of %d ranks", g->ranks);
    return rc == FR_OK ? rc : fr_while(err, "rows of the embedding");
}

void grads_rows_free(struct tr_grads *g)
{
    tr_mem_free(g->o.be, TR_MEM_DEVICE, g->compact.p);
    tr_mem_free(g->o.be, TR_MEM_DEVICE, g->received.p);
    tr_mem_free(g->o.be, TR_MEM_DEVICE, g->pick.p);
    tr_mem_free(g->o.be, TR_MEM_PINNED, g->host_pick);
    for (int i = 0; i < 2; i++)
        if (g->picked[i] != NULL)
            tr_event_destroy(g->o.be, g->picked[i]);
    fr_sys.free(g->counts);
}

/* One call: the sums of this rank's rows, and how far the ids of each owner are sent. */
struct rows {
    struct tr_grads *g;
    struct tr_queue *q;
    void *sums;        /* (per, cols) f32* */
    int64_t per, cols; /* rows of an owner */
    int32_t *pick;     /* pinned: the next ids */
    struct tr_view in; /* gradients of this rank's ids, as they are sent */
};

/* The id at which owner o's round ends: no rank has more rows of it than fit. */
static int64_t cut(const struct rows *r, int owner, int64_t from)
{
    size_t most = (size_t)round_rows(r->g);
    int64_t end = r->per * (owner + 1);

    for (int k = 0; k < r->g->ranks; k++) {
        struct tr_id_list l = tr_shard_ids(r->g->o.shard, k);
        size_t at = rows_lower(l.ids, l.n, from);

        if (at + most < l.n && l.ids[at + most] < end)
            end = l.ids[at + most];
    }
    return end;
}

/* sums[pick[i] - row0] += x[i], i ascending. */
static enum fr_rc add_rows(struct rows *r, struct tr_view x, struct fr_err *err)
{
    struct tr_grads *g = r->g;
    int64_t n = x.shape[0];
    struct tr_embed e = {.row0 = r->per * g->me, .ids = tr_view1(g->pick.p, TR_I32, n), .dy = x};
    size_t bytes = (size_t)n * sizeof(int32_t);

    e.dtable = tr_view2(r->sums, g->o.sum, r->per, r->cols);
    if (tr_copy(g->o.be, r->q, g->pick.p, r->pick, bytes) != FR_OK)
        return fr_fail(err, FR_IO, "cannot send the ids of rows");
    r->pick += n;
    return tr_embed_bwd(g->o.be, r->q, &e, err);
}

static enum fr_rc one_round(struct rows *r, struct fr_err *err)
{
    struct tr_grads *g = r->g;
    size_t W = (size_t)g->ranks, row = (size_t)r->cols * tr_dtype_bytes(g->wire), got = 0;
    struct tr_id_list mine = tr_shard_ids(g->o.shard, g->me);
    struct tr_alltoallv x = {.out = g->received.p,
                             .in = r->in.p,
                             .out_at = g->counts,
                             .out_bytes = g->counts + W,
                             .in_at = g->counts + 2 * W,
                             .in_bytes = g->counts + 3 * W,
                             .what = "gradients of embedding rows"};
    int64_t from = g->cursor[g->me], end = cut(r, g->me, from);
    enum fr_rc rc;

    for (int k = 0; k < g->ranks; k++) {
        struct tr_id_list l = tr_shard_ids(g->o.shard, k);
        size_t at = rows_lower(l.ids, l.n, from), n = rows_lower(l.ids, l.n, end) - at;

        memcpy(r->pick + got, l.ids + at, n * sizeof(int32_t));
        g->counts[k] = got * row;
        g->counts[W + (size_t)k] = n * row;
        got += n;
    }
    for (int o = 0; o < g->ranks; o++) {
        int64_t first = g->cursor[o], last = cut(r, o, first);
        size_t at = rows_lower(mine.ids, mine.n, first);

        g->counts[2 * W + (size_t)o] = at * row;
        g->counts[3 * W + (size_t)o] = (rows_lower(mine.ids, mine.n, last) - at) * row;
        g->cursor[o] = last;
    }
    rc = tr_comm_all_to_allv(g->o.comm, r->q, &x, err);
    return rc == FR_OK ? add_rows(r, tr_view2(g->received.p, g->wire, (int64_t)got, r->cols), err)
                       : rc;
}

static bool more(const struct rows *r)
{
    for (int o = 0; o < r->g->ranks; o++)
        if (r->g->cursor[o] < r->per * (o + 1))
            return true;
    return false;
}

static enum fr_rc all_rounds(struct rows *r, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int o = 0; o < r->g->ranks; o++)
        r->g->cursor[o] = r->per * o;
    while (more(r) && rc == FR_OK)
        rc = one_round(r, err);
    return rc;
}

enum fr_rc tr_grads_rows(struct tr_grads *g, struct tr_queue *q, const struct tr_grads_rows *in,
                         struct fr_err *err)
{
    struct row_table t = rows_table(g->o.shard, in->unit, in->units);
    struct grads_part *p = &g->parts[g->part_of[in->unit]];
    struct tr_id_list mine = tr_shard_ids(g->o.shard, g->me);
    size_t half = (size_t)g->ranks * (size_t)g->o.tokens_max;
    struct rows r = {.g = g,
                     .q = q,
                     .sums = grads_sums_of(g, p).p,
                     .per = t.n * t.per,
                     .cols = t.unit->tensors->shape[1]};
    struct tr_embed e = {.dy = in->dy, .ids = in->compact};
    enum fr_rc rc = tr_event_wait(g->o.be, NULL, g->picked[g->calls % 2]);

    if (rc == FR_OK)
        rc = grads_beside_wait(g, q, err);
    if (rc == FR_OK && grads_hosted(g))
        rc = grads_host_wait(g, q);

    r.pick = g->host_pick + g->calls % 2 * half;
    e.dtable = tr_view2(g->compact.p, g->o.sum, (int64_t)mine.n, r.cols);
    for (int i = 0; i < t.n && rc == FR_OK; i++, p++) {
        if (p->fresh)
            rc = tr_zero(g->o.be, q, grads_sums_of(g, p).p, tr_view_bytes(grads_sums_of(g, p)));
        p->fresh = false;
    }
    if (rc == FR_OK)
        rc = tr_zero(g->o.be, q, e.dtable.p, tr_view_bytes(e.dtable));
    if (rc == FR_OK)
        rc = tr_embed_bwd(g->o.be, q, &e, err);
    r.in = e.dtable;
    if (rc == FR_OK)
        rc = grads_on_wire(g, q, &r.in, err);
    if (rc == FR_OK && g->ranks > 1) {
        size_t before[TR_LINK_CLASSES];

        memcpy(before, g->o.comm->class_bytes, sizeof(before));
        rc = all_rounds(&r, err);
        grads_count(g->o.comm, before, g->moved.rows);
    }
    if (rc == FR_OK && g->ranks == 1) {
        memcpy(r.pick, mine.ids, mine.n * sizeof(int32_t));
        rc = add_rows(&r, r.in, err);
    }
    return rc == FR_OK ? tr_event_record(g->o.be, q, g->picked[g->calls++ % 2]) : rc;
}
