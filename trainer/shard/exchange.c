#include "trainer/shard/exchange.h"

#include "engine/base/sys.h"
#include "trainer/backend/trace.h"

#include <stdio.h>
#include <string.h>

struct tr_exchange {
    struct tr_exchange_opts o;
    struct tr_route *route; /* owns */
    struct tr_route_limits limits;
    struct tr_queue *xq;      /* owns: the group's */
    struct tr_event *turn;    /* recorded in the compute queue before a call of the group */
    struct tr_event *moved;   /* the group's call is done */
    struct tr_event *read[2]; /* a half of host_lists was read */

    int32_t *ids, *host_ids;      /* own: (size, T_max, K) device, pinned */
    uint16_t *kept;               /* owns: (plans, size, T_max, K) */
    struct tr_route_cuts *cuts;   /* owns: (plans) */
    int32_t *lists, *host_lists;  /* own: device; pinned, two rounds in turn */
    char *handed, *landed, *sums; /* own, device: rows inside the node, from other nodes, by node */
    size_t *bytes;                /* owns: (4, size) of a call */

    unsigned rounds;
    int most;      /* of a layer */
    bool counting; /* the plan's layer is counted */
    struct tr_exchange_routes routes;
    struct tr_route_round round;
    const char *what;
};

static size_t size_of(const struct tr_exchange *x)
{
    return (size_t)x->o.comm->size;
}

static size_t choices(const struct tr_exchange *x)
{
    return size_of(x) * (size_t)(x->o.tokens_max * x->o.per_token);
}

enum fr_rc tr_exchange_create(const struct tr_exchange_opts *o, struct tr_exchange **out,
                              struct fr_err *err)
{
    struct tr_route_opts ro = {.size = o->comm->size,
                               .rank = o->comm->rank,
                               .node_of = o->comm->node_of,
                               .per_token = o->per_token,
                               .tokens_max = o->tokens_max,
                               .rows_max = o->rows_max};
    struct tr_exchange *x = fr_sys.alloc(sizeof(*x));
    enum fr_rc rc;

    *out = NULL;
    if (x == NULL)
        return fr_fail(err, FR_NOMEM, "an exchange");
    *x = (struct tr_exchange){.o = *o};
    if ((rc = tr_route_create(&ro, &x->route, err)) != FR_OK) {
        fr_sys.free(x);
        return rc;
    }
    tr_route_limits(x->route, &x->limits);
    *out = x;
    return FR_OK;
}

int tr_exchange_most_rounds(const struct tr_exchange *x)
{
    return x->most;
}

void tr_exchange_routes(const struct tr_exchange *x, struct tr_exchange_routes *out)
{
    *out = x->routes;
}

void tr_exchange_limits(const struct tr_exchange *x, struct tr_route_limits *out)
{
    *out = x->limits;
}

/* Device memory, piece by piece. */
enum { IDS, LISTS, HANDED, LANDED, SUMS, PIECES };

static void device_bytes(const struct tr_exchange *x, size_t out[PIECES])
{
    const struct tr_route_limits *l = &x->limits;
    size_t row = (size_t)x->o.row_bytes;

    out[IDS] = choices(x) * sizeof(int32_t);
    out[LISTS] = (size_t)l->lists * sizeof(int32_t);
    out[HANDED] = (size_t)l->here * row;
    out[LANDED] = (size_t)l->lands * row;
    out[SUMS] = l->nodes > 1 ? (size_t)(x->o.tokens_max + l->far) * row : 0;
}

void tr_exchange_bytes(const struct tr_exchange *x, struct tr_exchange_bytes *out)
{
    size_t n[PIECES];

    device_bytes(x, n);
    *out = (struct tr_exchange_bytes){
        .host = n[IDS] + 2 * n[LISTS] +
                (size_t)x->o.plans * (choices(x) * sizeof(*x->kept) + sizeof(*x->cuts))};
    out->host += size_of(x) * (size_t)x->o.tokens_max * sizeof(uint64_t); /* the route's masks */
    for (int i = 0; i < PIECES; i++)
        out->device += (n[i] + 255) / 256 * 256;
}

static enum fr_rc make_queue(struct tr_exchange *x, struct fr_err *err)
{
    struct tr_event **const events[] = {&x->turn, &x->moved, &x->read[0], &x->read[1]};
    enum fr_rc rc = tr_queue_create(x->o.be, 0, &x->xq, err);

    if (rc == FR_OK)
        tr_trace_queue(x->o.be, x->xq, "exchange");
    for (int i = 0; i < 4 && rc == FR_OK; i++)
        rc = tr_event_create(x->o.be, events[i], err);
    return rc;
}

enum fr_rc tr_exchange_alloc(struct tr_exchange *x, struct fr_err *err)
{
    void **const to[PIECES] = {(void **)&x->ids, (void **)&x->lists, (void **)&x->handed,
                               (void **)&x->landed, (void **)&x->sums};
    size_t n[PIECES], plans = (size_t)x->o.plans * choices(x) * sizeof(*x->kept);
    enum fr_rc rc = make_queue(x, err);

    device_bytes(x, n);
    for (int i = 0; i < PIECES && rc == FR_OK; i++)
        if ((rc = tr_mem_alloc(x->o.be, TR_MEM_DEVICE, n[i], to[i], err)) == FR_OK)
            rc = tr_zero(x->o.be, x->xq, *to[i], n[i]);
    if (rc == FR_OK)
        rc = tr_mem_alloc(x->o.be, TR_MEM_PINNED, n[IDS], (void **)&x->host_ids, err);
    if (rc == FR_OK)
        rc = tr_mem_alloc(x->o.be, TR_MEM_PINNED, 2 * n[LISTS], (void **)&x->host_lists, err);
    if (rc == FR_OK) {
        x->kept = fr_sys.alloc(plans);
        x->cuts = fr_sys.alloc((size_t)x->o.plans * sizeof(*x->cuts));
        x->bytes = fr_sys.alloc(4 * size_of(x) * sizeof(*x->bytes));
        if (x->kept == NULL || x->cuts == NULL || x->bytes == NULL)
            rc = fr_fail(err, FR_NOMEM, "%zu bytes of plans", plans);
    }
    if (rc == FR_OK)
        memset(x->kept, 0xff, plans);
    return rc == FR_OK ? rc : fr_while(err, "exchange of tokens");
}

void tr_exchange_destroy(struct tr_exchange *x)
{
    if (x == NULL)
        return;
    void *const device[] = {x->ids, x->lists, x->handed, x->landed, x->sums};

    for (size_t i = 0; i < sizeof(device) / sizeof(*device); i++)
        tr_mem_free(x->o.be, TR_MEM_DEVICE, device[i]);
    tr_mem_free(x->o.be, TR_MEM_PINNED, x->host_ids);
    tr_mem_free(x->o.be, TR_MEM_PINNED, x->host_lists);
    tr_event_destroy(x->o.be, x->turn);
    tr_event_destroy(x->o.be, x->moved);
    tr_event_destroy(x->o.be, x->read[0]);
    tr_event_destroy(x->o.be, x->read[1]);
    tr_comm_leave(x->o.comm, x->xq);
    tr_queue_destroy(x->o.be, x->xq);
    tr_route_destroy(x->route);
    fr_sys.free(x->kept);
    fr_sys.free(x->cuts);
    fr_sys.free(x->bytes);
    fr_sys.free(x);
}

/* ---- queues ---- */

/* Later work of `later` waits for the work that `first` holds now. */
static enum fr_rc follow(struct tr_exchange *x, struct tr_queue *first, struct tr_queue *later,
                         struct tr_event *e, struct fr_err *err)
{
    enum fr_rc rc = tr_event_record(x->o.be, first, e);

    if (rc == FR_OK)
        rc = tr_event_wait(x->o.be, later, e);
    return rc == FR_OK ? rc : fr_fail(err, rc, "ordering the exchange of tokens");
}

/* ---- begin and plan ---- */

/* Copies this rank's choices to their place in x->ids, followed by -1. */
static enum fr_rc put_ids(struct tr_exchange *x, struct tr_queue *q, struct tr_view ids,
                          struct fr_err *err)
{
    int64_t T = x->o.tokens_max, K = x->o.per_token, n = ids.shape[0];
    int32_t *mine = x->ids + x->o.comm->rank * T * K;
    struct tr_cast c = {.y = tr_view2(mine, TR_I32, n, K), .x = ids};
    struct tr_fill f = {.y = tr_view2(mine + n * K, TR_I32, T - n, K), .value = -1};
    enum fr_rc rc = tr_cast(x->o.be, q, &c, err);

    return rc == FR_OK ? tr_fill(x->o.be, q, &f, err) : rc;
}

enum fr_rc tr_exchange_begin(struct tr_exchange *x, struct tr_queue *q, struct tr_view ids,
                             const struct tr_exchange_layer *layer, struct fr_err *err)
{
    size_t bytes = choices(x) / size_of(x) * sizeof(int32_t);
    struct tr_gather_item item = {x->ids, (char *)x->ids + (size_t)x->o.comm->rank * bytes, bytes};
    struct tr_allgather g = {.items = &item, .n = 1, .what = layer->what};
    enum fr_rc rc = put_ids(x, q, ids, err);

    if (rc != FR_OK || (rc = follow(x, q, x->xq, x->turn, err)) != FR_OK ||
        (rc = tr_comm_all_gather(x->o.comm, x->xq, &g, err)) != FR_OK)
        return rc;
    if ((rc = tr_copy(x->o.be, x->xq, x->host_ids, x->ids, size_of(x) * bytes)) == FR_OK)
        rc = tr_event_record(x->o.be, x->xq, x->moved);
    return rc == FR_OK ? rc : fr_fail(err, rc, "choices of experts");
}

/* Counts the rows that this rank's tokens give each expert. */
static void count_rows(const struct tr_exchange *x, const uint16_t *ids, int64_t *rows)
{
    size_t n = choices(x) / size_of(x);

    for (const uint16_t *id = ids + (size_t)x->o.comm->rank * n; n > 0; n--, id++)
        if (*id != TR_ROUTE_NONE)
            rows[*id]++;
}

enum fr_rc tr_exchange_plan(struct tr_exchange *x, const struct tr_exchange_layer *layer,
                            bool replay, int *rounds, struct fr_err *err)
{
    size_t n = choices(x);
    uint16_t *kept = x->kept + (size_t)layer->plan * n;
    struct tr_route_cuts *cuts = &x->cuts[layer->plan];
    enum fr_rc rc = replay ? FR_OK : tr_event_wait(x->o.be, NULL, x->moved);

    x->what = layer->what;
    if (rc != FR_OK)
        return fr_fail(err, rc, "waiting for the choices of experts");
    for (size_t i = 0; i < n && !replay; i++)
        kept[i] = x->host_ids[i] < 0 || x->host_ids[i] > TR_ROUTE_NONE ? TR_ROUTE_NONE
                                                                       : (uint16_t)x->host_ids[i];
    if (!replay)
        cuts->rounds = 0;
    rc = tr_route_plan(x->route, kept, layer->owners, cuts, err);
    *rounds = cuts->rounds;
    x->most = cuts->rounds > x->most ? cuts->rounds : x->most;
    x->counting = !replay && layer->rows != NULL;
    if (rc == FR_OK && x->counting)
        count_rows(x, kept, layer->rows);
    return rc;
}

static void count_routes(struct tr_exchange *x)
{
    const struct tr_route_round *r = &x->round;

    x->routes.far += r->far;
    x->routes.near += r->handed - (int64_t)r->near_out.n[x->o.comm->rank];
}

enum fr_rc tr_exchange_round(struct tr_exchange *x, struct tr_queue *q, int i,
                             struct tr_exchange_round *out, struct fr_err *err)
{
    unsigned half = x->rounds++ % 2;
    int32_t *lists = x->host_lists + half * (size_t)x->limits.lists;
    const struct tr_route_round *r = &x->round;
    enum fr_rc rc = tr_event_wait(x->o.be, NULL, x->read[half]);

    if (rc != FR_OK)
        return fr_fail(err, rc, "waiting for the lists of a round");
    tr_route_round(x->route, i, lists, &x->round);
    if (x->counting)
        count_routes(x);
    if ((rc = tr_copy(x->o.be, q, x->lists, lists, r->lists * sizeof(*lists))) == FR_OK)
        rc = tr_event_record(x->o.be, q, x->read[half]);
    *out = (struct tr_exchange_round){
        .first = r->first,
        .tokens = r->tokens,
        .here = r->here,
        .rows = r->rows,
        .ids = tr_view2(x->lists + r->ids, TR_I32, r->here, x->o.per_token),
    };
    return rc == FR_OK ? rc : fr_fail(err, rc, "lists of a round");
}

/* ---- rows ---- */

/* One all_to_allv of the group, ordered in q. */
struct crossing {
    void *out;
    const void *in;
    const struct tr_run_of *give, *take;
    size_t row; /* bytes of a row */
    const char *way;
};

static enum fr_rc cross(struct tr_exchange *x, struct tr_queue *q, const struct crossing *c,
                        struct fr_err *err)
{
    size_t P = size_of(x), *b = x->bytes;
    char what[96];
    struct tr_alltoallv v = {.out = c->out,
                             .in = c->in,
                             .out_at = b,
                             .out_bytes = b + P,
                             .in_at = b + 2 * P,
                             .in_bytes = b + 3 * P,
                             .what = what};
    enum fr_rc rc;

    (void)snprintf(what, sizeof(what), "%s, tokens %s", x->what, c->way);
    for (size_t k = 0; k < P; k++) {
        b[k] = c->take->at[k] * c->row;
        b[P + k] = c->take->n[k] * c->row;
        b[2 * P + k] = c->give->at[k] * c->row;
        b[3 * P + k] = c->give->n[k] * c->row;
    }
    if ((rc = follow(x, q, x->xq, x->turn, err)) != FR_OK ||
        (rc = tr_comm_all_to_allv(x->o.comm, x->xq, &v, err)) != FR_OK)
        return rc;
    return follow(x, x->xq, q, x->moved, err);
}

/* Copies the rows of x that a list of the round names into a buffer; rows without an entry stay. */
static enum fr_rc pick(struct tr_exchange *x, struct tr_queue *q, void *to, struct tr_view from,
                       struct tr_view list, struct fr_err *err)
{
    struct tr_moe_permute p = {
        .xp = tr_view2(to, from.dtype, list.shape[0], from.shape[1]),
        .x = from,
        .slot_of = list,
        .K = 1,
    };

    return tr_moe_permute(x->o.be, q, &p, err);
}

static struct tr_view list1(const struct tr_exchange *x, size_t at, int64_t n)
{
    return tr_view1(x->lists + at, TR_I32, n);
}

/* Sends each token once to every other node with experts of it. */
static enum fr_rc out_far(struct tr_exchange *x, struct tr_queue *q,
                          const struct tr_exchange_out *a, size_t row, struct fr_err *err)
{
    const struct tr_route_round *r = &x->round;
    struct crossing c = {x->landed, x->sums, &r->far_out, &r->far_in, row, "to nodes"};
    enum fr_rc rc = pick(x, q, x->sums, a->in, list1(x, r->far_from, r->far), err);

    return rc == FR_OK ? cross(x, q, &c, err) : rc;
}

enum fr_rc tr_exchange_out(struct tr_exchange *x, struct tr_queue *q,
                           const struct tr_exchange_out *a, struct fr_err *err)
{
    const struct tr_route_round *r = &x->round;
    size_t row = (size_t)a->in.shape[1] * tr_dtype_bytes(a->in.dtype);
    struct crossing c = {a->out.p, x->handed, &r->near_out, &r->near_in, row, "to ranks"};
    struct tr_view landed = tr_view2(x->landed, a->in.dtype, r->lands, a->in.shape[1]);
    enum fr_rc rc = FR_OK;

    if (x->limits.nodes > 1 && (rc = out_far(x, q, a, row, err)) != FR_OK)
        return rc;
    rc = pick(x, q, x->handed, a->in, list1(x, r->near_own, r->handed), err);
    if (rc == FR_OK && r->lands > 0)
        rc = pick(x, q, x->handed, landed, list1(x, r->near_landed, r->handed), err);
    return rc == FR_OK ? cross(x, q, &c, err) : rc;
}

/* y = add + rows of `from` by a list with a column a part. */
struct adding {
    struct tr_view y, add, from;
    size_t list;
    int columns;
};

static enum fr_rc add_up(struct tr_exchange *x, struct tr_queue *q, const struct adding *s,
                         struct fr_err *err)
{
    struct tr_moe_combine c = {
        .y = s->y,
        .add = s->add,
        .yp = s->from,
        .row_of = tr_view2(x->lists + s->list, TR_I32, s->y.shape[0], s->columns),
    };

    return tr_moe_combine(x->o.be, q, &c, err);
}

/* Sums the parts of this node for own tokens, and for landed tokens, whose sums return to their
 * sources. */
static enum fr_rc back_far(struct tr_exchange *x, struct tr_queue *q,
                           const struct tr_exchange_back *a, struct tr_view parts,
                           struct fr_err *err)
{
    const struct tr_route_round *r = &x->round;
    enum tr_dtype t = a->in.dtype;
    int64_t n = a->in.shape[1];
    size_t row = (size_t)n * tr_dtype_bytes(t);
    char *away = x->sums + (size_t)r->tokens * row;
    struct adding own = {.y = tr_view2(x->sums, t, r->tokens, n),
                         .from = parts,
                         .list = r->own_parts,
                         .columns = x->limits.local};
    struct adding landed = {.y = tr_view2(x->landed, t, r->lands, n),
                            .from = parts,
                            .list = r->landed_parts,
                            .columns = x->limits.local};
    struct adding all = {.y = a->y,
                         .add = a->add,
                         .from = tr_view2(x->sums, t, r->tokens + r->far, n),
                         .list = r->sums,
                         .columns = x->limits.nodes};
    struct crossing c = {away, x->landed, &r->far_in, &r->far_out, row, "home"};
    enum fr_rc rc = add_up(x, q, &own, err);

    if (rc == FR_OK)
        rc = add_up(x, q, &landed, err);
    if (rc == FR_OK)
        rc = cross(x, q, &c, err);
    return rc == FR_OK ? add_up(x, q, &all, err) : rc;
}

enum fr_rc tr_exchange_back(struct tr_exchange *x, struct tr_queue *q,
                            const struct tr_exchange_back *a, struct fr_err *err)
{
    const struct tr_route_round *r = &x->round;
    size_t row = (size_t)a->in.shape[1] * tr_dtype_bytes(a->in.dtype);
    struct crossing c = {x->handed, a->in.p, &r->near_in, &r->near_out, row, "back"};
    struct tr_view parts = tr_view2(x->handed, a->in.dtype, r->handed, a->in.shape[1]);
    struct adding all = {
        .y = a->y, .add = a->add, .from = parts, .list = r->own_parts, .columns = x->limits.local};
    enum fr_rc rc = cross(x, q, &c, err);

    if (rc != FR_OK)
        return rc;
    return x->limits.nodes > 1 ? back_far(x, q, a, parts, err) : add_up(x, q, &all, err);
}
