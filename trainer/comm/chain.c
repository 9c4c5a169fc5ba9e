#include "trainer/comm/chain.h"

#include <assert.h>
#include <string.h>

/* Elements. Small pieces keep all nodes busy, large ones keep the calls few. */
enum { PIECE_LEAST = 1 << 14, PIECE_MOST = 1 << 20, PIECES_OF_SLICE = 8, PIECE_OF = 64 };

bool tr_comm_nodes(const struct tr_comm *comm, struct tr_comm_nodes *out)
{
    int ranks = 0;

    *out = (struct tr_comm_nodes){1, comm->size};
    if (comm->node_of == NULL)
        return true;
    while (ranks < comm->size && comm->node_of[ranks] == comm->node_of[0])
        ranks++;
    for (int k = ranks; k < comm->size; k++) {
        bool begins = comm->node_of[k] != comm->node_of[k - 1];

        if (begins != (k % ranks == 0))
            return false;
        for (int i = 0; i < k && begins; i++)
            if (comm->node_of[i] == comm->node_of[k])
                return false;
    }
    *out = (struct tr_comm_nodes){comm->size / ranks, ranks};
    return comm->size % ranks == 0;
}

/* ---- bytes ---- */

void tr_scatter_bytes(const struct tr_scatter_size *s, struct tr_scatter_bytes *out)
{
    size_t n = (size_t)s->nodes.nodes, g = (size_t)s->nodes.ranks, W = n * g;

    *out = (struct tr_scatter_bytes){.self = W * s->slice,
                                     .node = W * (g - 1) * s->slice,
                                     .far = W * (W - g) * s->slice,
                                     .busiest = g * (W - g) * s->slice};
}

/* Whole sums go to their owners, of which the last node has g, with one to itself: the last rank.
 * Sums to begin at come from their owners, of which the first node has g, with one to itself. */
void tr_chain_bytes(const struct tr_scatter_size *s, struct tr_scatter_bytes *out)
{
    size_t n = (size_t)s->nodes.nodes, g = (size_t)s->nodes.ranks, W = n * g;
    size_t ways = s->add ? 2 : 1; /* between a slice's owner and an end of the chain */

    *out = (struct tr_scatter_bytes){
        .self = W * n * s->slice + ways * s->sum,
        .node = W * (g - 1) * n * s->slice + ways * (g - 1) * s->sum,
        .far = (n - 1) * W * s->sum + ways * (W - g) * s->sum,
        .busiest = W * s->sum + (s->add && n > 2 ? g * s->sum : 0),
    };
}

bool tr_chain_fewer(const struct tr_scatter_size *s)
{
    struct tr_scatter_bytes all, chain;

    if (s->nodes.nodes < 2)
        return false;
    tr_scatter_bytes(s, &all);
    tr_chain_bytes(s, &chain);
    return chain.busiest != all.busiest ? chain.busiest < all.busiest : chain.far < all.far;
}

int64_t tr_chain_piece(const struct tr_comm_nodes *nodes, int64_t n)
{
    int64_t piece = (n / PIECES_OF_SLICE + PIECE_OF - 1) / PIECE_OF * PIECE_OF;

    piece = piece < PIECE_LEAST ? PIECE_LEAST : piece;
    piece = piece > PIECE_MOST ? PIECE_MOST : piece;
    return piece < n * nodes->nodes ? piece : n * nodes->nodes;
}

/* ---- a turn ---- */

struct turn {
    struct tr_comm *comm;
    struct tr_queue *q;
    const struct tr_chain *x;
    int node, local;      /* this rank's */
    int64_t range, piece; /* elements */
    size_t in_size, size; /* bytes of an element of `in`, of a sum */
    int64_t t;
    struct tr_alltoallv v;
    size_t *out_at, *out_bytes, *in_at, *in_bytes;
};

/* Elements [from, to), empty where to <= from. */
struct part {
    int64_t from, to;
};

/* Piece k of a range. */
static struct part piece_of(const struct turn *t, int64_t k)
{
    int64_t from = k * t->piece, to = from + t->piece;

    if (k < 0)
        return (struct part){0, 0};
    return (struct part){from, to < t->range ? to : t->range};
}

/* What slice s of a range, 0 to n-1, has of piece k. */
static struct part slice_of(const struct turn *t, int64_t k, int s)
{
    int64_t n = t->range / t->x->nodes.nodes;
    struct part p = piece_of(t, k);
    int64_t from = n * s, to = from + n;

    return (struct part){from > p.from ? from : p.from, to < p.to ? to : p.to};
}

static size_t bytes_of(struct part p, size_t size)
{
    return p.to > p.from ? (size_t)(p.to - p.from) * size : 0;
}

/* Begins a call without a byte from `in` to `out`. */
static void clear(struct turn *t, const void *in, void *out)
{
    size_t size = (size_t)t->comm->size;

    memset(t->x->lists, 0, 4 * size * sizeof(*t->x->lists));
    t->out_at = t->x->lists;
    t->out_bytes = t->out_at + size;
    t->in_at = t->out_bytes + size;
    t->in_bytes = t->in_at + size;
    t->v = (struct tr_alltoallv){.out = out,
                                 .in = in,
                                 .out_at = t->out_at,
                                 .out_bytes = t->out_bytes,
                                 .in_at = t->in_at,
                                 .in_bytes = t->in_bytes,
                                 .what = t->x->what};
}

static void give(struct turn *t, int rank, int64_t at, size_t bytes, size_t size)
{
    t->in_at[rank] = (size_t)at * size;
    t->in_bytes[rank] = bytes;
}

static void take(struct turn *t, int rank, int64_t at, size_t bytes, size_t size)
{
    t->out_at[rank] = (size_t)at * size;
    t->out_bytes[rank] = bytes;
}

static enum fr_rc call(struct turn *t, struct fr_err *err)
{
    return tr_comm_all_to_allv(t->comm, t->q, &t->v, err);
}

/* The sums of a turn: of the piece that this rank adds to, of the next one, of what ends here. */
static struct tr_view sums_of(const struct turn *t, int64_t k)
{
    return tr_view1((char *)t->x->sums.p + (size_t)(k * t->piece) * t->size, t->x->sums.dtype,
                    t->piece);
}

/* Sums that the first node begins at come from their owners. */
static enum fr_rc begin_sums(struct turn *t, struct fr_err *err)
{
    int n = t->x->nodes.nodes, mine = t->comm->rank % n;
    int64_t first = piece_of(t, t->t).from, slice = t->range / n;
    struct part p = slice_of(t, t->t, mine);

    clear(t, t->x->out.p, sums_of(t, t->t % 2).p);
    give(t, t->comm->rank / n, p.to > p.from ? p.from - slice * mine : 0, bytes_of(p, t->size),
         t->size);
    for (int s = 0; s < n && t->node == 0; s++) {
        p = slice_of(t, t->t, s);
        if (p.to > p.from)
            take(t, t->local * n + s, p.from - first, bytes_of(p, t->size), t->size);
    }
    return call(t, err);
}

/* The values of this node's ranks, in their order, are added to its piece. */
static enum fr_rc add_node(struct turn *t, struct fr_err *err)
{
    int g = t->x->nodes.ranks;
    struct part p = piece_of(t, t->t - t->node);
    int64_t m = p.to > p.from ? p.to - p.from : 0;
    struct tr_reduce r = {.out = sums_of(t, t->t % 2), .add = t->x->add || t->node > 0};
    enum fr_rc rc;

    clear(t, t->x->in.p, t->x->slices.p);
    for (int l = 0; l < g && m > 0; l++) {
        give(t, t->node * g + l, t->range * l + p.from, bytes_of(p, t->in_size), t->in_size);
        take(t, t->node * g + l, m * l, bytes_of(p, t->in_size), t->in_size);
    }
    if ((rc = call(t, err)) != FR_OK || m == 0)
        return rc;
    r.out.shape[0] = m;
    r.slices = tr_view2(t->x->slices.p, t->x->slices.dtype, g, m);
    return tr_reduce_ordered(t->comm->be, t->q, &r, err);
}

/* Sums go to the next node, whole ones to their owners. */
static enum fr_rc pass_sums(struct turn *t, struct fr_err *err)
{
    int n = t->x->nodes.nodes, g = t->x->nodes.ranks, me = t->comm->rank, mine = me % n;
    bool last = t->node == n - 1;
    int64_t ends = t->t - (n - 1), slice = t->range / n;
    struct part p = slice_of(t, ends, mine), own = piece_of(t, t->t - t->node);
    size_t bytes = bytes_of(p, t->size);

    clear(t, sums_of(t, t->t % 2).p, t->x->sums.p);
    take(t, (n - 1) * g + me / n, 2 * t->piece, bytes, t->size);
    if (t->node > 0)
        take(t, me - g, (t->t + 1) % 2 * t->piece,
             bytes_of(piece_of(t, t->t - t->node + 1), t->size), t->size);
    if (!last)
        give(t, me + g, 0, bytes_of(own, t->size), t->size);
    for (int s = 0; s < n && last; s++) {
        struct part of = slice_of(t, ends, s);

        if (of.to > of.from)
            give(t, t->local * n + s, of.from - own.from, bytes_of(of, t->size), t->size);
    }
    enum fr_rc rc = call(t, err);
    if (rc == FR_OK && bytes > 0 &&
        tr_copy(t->comm->be, t->q, (char *)t->x->out.p + (size_t)(p.from - slice * mine) * t->size,
                sums_of(t, 2).p, bytes) != FR_OK)
        rc = fr_fail(err, FR_IO, "cannot copy sums of %s", t->x->what);
    return rc;
}

enum fr_rc tr_chain_reduce(struct tr_comm *comm, struct tr_queue *q, const struct tr_chain *x,
                           struct fr_err *err)
{
    int n = x->nodes.nodes, g = x->nodes.ranks;
    struct turn t = {.comm = comm,
                     .q = q,
                     .x = x,
                     .node = comm->rank / g,
                     .local = comm->rank % g,
                     .range = tr_view_count(x->out) * n,
                     .piece = tr_view_count(x->sums) / 3,
                     .in_size = tr_dtype_bytes(x->in.dtype),
                     .size = tr_dtype_bytes(x->out.dtype)};
    int64_t pieces = (t.range + t.piece - 1) / t.piece;
    enum fr_rc rc = FR_OK;

    assert(n > 1 && n * g == comm->size && t.piece > 0);
    if (tr_view_count(x->in) != t.range * g || x->slices.dtype != x->in.dtype ||
        x->sums.dtype != x->out.dtype || tr_view_count(x->slices) != t.piece * g)
        return fr_fail(err, FR_SHAPE, "reduce-scatter of %s: %d slices of %lld do not fit", x->what,
                       comm->size, (long long)tr_view_count(x->out));
    for (t.t = 0; t.t < pieces + n - 1 && rc == FR_OK; t.t++) {
        if (x->add && t.t < pieces)
            rc = begin_sums(&t, err);
        if (rc == FR_OK)
            rc = add_node(&t, err);
        if (rc == FR_OK)
            rc = pass_sums(&t, err);
    }
    return rc;
}
