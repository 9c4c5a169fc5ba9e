#include "trainer/shard/route.h"

#include "engine/base/sys.h"

#include <string.h>

enum { K_MAX = 64, RANKS_MAX = 64, RUNS = 4 };

struct tr_route {
    struct tr_route_opts o;
    int nodes;
    int *node, *place;  /* own: (size) node of a rank from 0; its number in the node */
    int *first, *count; /* (nodes) first rank of a node and its ranks */
    int32_t *load;      /* owns: (3, size) of the ranges of a round: rows, tokens here, handed */
    int32_t *range;     /* (3, size) of one range */
    size_t *runs;       /* owns: (2 * RUNS, size) */
    int64_t rows_max, here_max;
    const uint16_t *ids;
    const struct tr_owners *owners;
    int64_t *tokens;   /* owns: (size) T of each rank */
    uint64_t *masks;   /* owns: (size, T_max) the ranks that have experts of a token */
    uint64_t *members; /* owns: (nodes) the ranks of a node */
    struct tr_route_cuts cuts;
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The landing rank of source s in node j. */
static int landing(const struct tr_route *r, int s, int j)
{
    return r->first[j] + r->place[s] % r->count[j];
}

/* The rank of node j that hands out the tokens of s: s itself in its own node. */
static int entry(const struct tr_route *r, int s, int j)
{
    return r->node[s] == j ? s : landing(r, s, j);
}

static void find_nodes(struct tr_route *r, const int *node_of)
{
    for (int k = 0; k < r->o.size; k++) {
        if (k == 0 || (node_of != NULL && node_of[k] != node_of[k - 1])) {
            r->first[r->nodes] = k;
            r->count[r->nodes++] = 0;
        }
        r->members[r->nodes - 1] |= UINT64_C(1) << k;
        r->node[k] = r->nodes - 1;
        r->place[k] = r->count[r->nodes - 1]++;
    }
}

/* The number of ranks whose tokens land at rank k. */
static int64_t sources(const struct tr_route *r, int k)
{
    int64_t n = 0;

    for (int s = 0; s < r->o.size; s++)
        n += r->node[s] != r->node[k] && landing(r, s, r->node[k]) == k;
    return n;
}

/* Sets limits with room for any single range. */
static void set_limits(struct tr_route *r)
{
    int64_t T = r->o.tokens_max, K = r->o.per_token, P = r->o.size;
    int64_t range = ceil_div(T, TR_ROUTE_RANGES), here = T * (K < P ? K : P), alone = 0;

    for (int k = 0; k < r->o.size; k++) {
        int64_t most = (sources(r, k) + 1) * r->count[r->node[k]] * range;

        alone = most > alone ? most : alone;
    }
    r->rows_max = r->o.rows_max > 0 ? r->o.rows_max : 2 * T * K;
    r->rows_max = r->rows_max > P * range * K ? r->rows_max : P * range * K;
    here = here < r->rows_max ? here : r->rows_max;
    r->here_max = here > alone ? here : alone;
}

enum fr_rc tr_route_create(const struct tr_route_opts *o, struct tr_route **out, struct fr_err *err)
{
    size_t size = (size_t)o->size;
    struct tr_route *r = fr_sys.alloc(sizeof(*r));

    *out = NULL;
    if (o->per_token < 1 || o->per_token > K_MAX || o->size > RANKS_MAX) {
        fr_sys.free(r);
        return fr_fail(err, FR_USAGE,
                       "%lld experts a token over %d ranks: 1 to %d over up to %d ranks can be "
                       "exchanged",
                       (long long)o->per_token, o->size, K_MAX, RANKS_MAX);
    }
    if (r == NULL)
        return fr_fail(err, FR_NOMEM, "routes of %zu ranks", size);
    *r = (struct tr_route){.o = *o,
                           .node = fr_sys.alloc(4 * size * sizeof(int)),
                           .load = fr_sys.alloc(6 * size * sizeof(int32_t)),
                           .runs = fr_sys.alloc(2 * RUNS * size * sizeof(size_t)),
                           .tokens = fr_sys.alloc(size * sizeof(int64_t)),
                           .masks = fr_sys.alloc(size * (size_t)o->tokens_max * sizeof(uint64_t)),
                           .members = fr_sys.alloc(size * sizeof(uint64_t))};
    if (r->node == NULL || r->load == NULL || r->runs == NULL || r->tokens == NULL ||
        r->masks == NULL || r->members == NULL) {
        tr_route_destroy(r);
        return fr_fail(err, FR_NOMEM, "routes of %zu ranks", size);
    }
    memset(r->members, 0, size * sizeof(uint64_t));
    r->place = r->node + size;
    r->first = r->place + size;
    r->count = r->first + size;
    r->range = r->load + 3 * size;
    find_nodes(r, o->node_of);
    set_limits(r);
    *out = r;
    return FR_OK;
}

void tr_route_destroy(struct tr_route *r)
{
    if (r == NULL)
        return;
    fr_sys.free(r->node);
    fr_sys.free(r->load);
    fr_sys.free(r->runs);
    fr_sys.free(r->tokens);
    fr_sys.free(r->masks);
    fr_sys.free(r->members);
    fr_sys.free(r);
}

void tr_route_limits(const struct tr_route *r, struct tr_route_limits *out)
{
    int64_t T = r->o.tokens_max, local = r->count[r->node[r->o.rank]], n = r->nodes;

    *out = (struct tr_route_limits){.rows = r->rows_max,
                                    .here = r->here_max,
                                    .far = T * (n - 1),
                                    .lands = T * sources(r, r->o.rank),
                                    .nodes = r->nodes,
                                    .local = (int)local};
    out->lists =
        out->far + 2 * out->here + (T + out->lands) * local + T * n + out->here * r->o.per_token;
}

/* ---- the plan ---- */

static const uint16_t *chosen(const struct tr_route *r, int s, int64_t t)
{
    return r->ids + (s * r->o.tokens_max + t) * r->o.per_token;
}

/* The ranks that have experts of a token; false: an id is no expert. */
static bool mask_of(const struct tr_route *r, const uint16_t *ids, uint64_t *mask)
{
    uint64_t m = 0;

    for (int64_t k = 0; k < r->o.per_token; k++) {
        if (ids[k] >= r->owners->experts)
            return false;
        m |= UINT64_C(1) << r->owners->rank[ids[k]];
    }
    *mask = m;
    return true;
}

static enum fr_rc no_expert(const struct tr_route *r, int s, int64_t t, struct fr_err *err)
{
    const uint16_t *id = chosen(r, s, t);

    while (*id < r->owners->experts)
        id++;
    return fr_fail(err, FR_PROTO,
                   "rank %d of the expert group sends its token %lld to expert %d, there are %lld",
                   s, (long long)t, *id, (long long)r->owners->experts);
}

/* Reads the number of tokens of each rank and the ranks of their experts. */
static enum fr_rc read_ids(struct tr_route *r, struct fr_err *err)
{
    for (int s = 0; s < r->o.size; s++) {
        uint64_t *masks = r->masks + s * r->o.tokens_max;
        int64_t t = 0;

        for (; t < r->o.tokens_max && *chosen(r, s, t) != TR_ROUTE_NONE; t++)
            if (!mask_of(r, chosen(r, s, t), &masks[t]))
                return no_expert(r, s, t, err);
        r->tokens[s] = t;
    }
    return FR_OK;
}

/* Tokens of s in the ranges before range i. */
static int64_t before(const struct tr_route *r, int s, int i)
{
    int64_t n = ceil_div(r->tokens[s], TR_ROUTE_RANGES) * i;

    return n < r->tokens[s] ? n : r->tokens[s];
}

static int first_of(uint64_t mask)
{
    return __builtin_ctzll(mask);
}

/* Adds the load of tokens [t, end) of s on each rank: rows, tokens, and rows to hand out. */
static void weigh_source(struct tr_route *r, int s, int64_t t, int64_t end)
{
    int32_t *rows = r->range, *here = rows + r->o.size, *handed = here + r->o.size;
    const uint16_t *ids = chosen(r, s, t), *last = chosen(r, s, end);

    for (; ids < last; ids++)
        rows[r->owners->rank[*ids]]++;
    for (; t < end; t++) {
        uint64_t mask = r->masks[s * r->o.tokens_max + t];

        for (int j = 0; j < r->nodes; j++)
            handed[entry(r, s, j)] += __builtin_popcountll(mask & r->members[j]);
        for (; mask != 0; mask &= mask - 1)
            here[first_of(mask)]++;
    }
}

/* The load of range i on each rank. */
static void weigh(struct tr_route *r, int i)
{
    memset(r->range, 0, 3 * (size_t)r->o.size * sizeof(*r->range));
    for (int s = 0; s < r->o.size; s++)
        weigh_source(r, s, before(r, s, i), before(r, s, i + 1));
}

/* Whether the round has room for the range. */
static bool fits(const struct tr_route *r)
{
    int P = r->o.size;

    for (int k = 0; k < 3 * P; k++)
        if (r->load[k] + r->range[k] > (k < P ? r->rows_max : r->here_max))
            return false;
    return true;
}

static void cut(struct tr_route *r, struct tr_route_cuts *cuts)
{
    size_t bytes = 3 * (size_t)r->o.size * sizeof(*r->load);

    memset(r->load, 0, bytes);
    cuts->at[0] = 0;
    for (int i = 0; i < TR_ROUTE_RANGES; i++) {
        weigh(r, i);
        if (!fits(r)) {
            cuts->at[++cuts->rounds] = (uint8_t)i;
            memset(r->load, 0, bytes);
        }
        for (int k = 0; k < 3 * r->o.size; k++)
            r->load[k] += r->range[k];
    }
    cuts->at[++cuts->rounds] = TR_ROUTE_RANGES;
}

enum fr_rc tr_route_plan(struct tr_route *r, const uint16_t *ids, const struct tr_owners *owners,
                         struct tr_route_cuts *cuts, struct fr_err *err)
{
    enum fr_rc rc;

    r->ids = ids;
    r->owners = owners;
    if ((rc = read_ids(r, err)) != FR_OK)
        return rc;
    if (cuts->rounds == 0)
        cut(r, cuts);
    r->cuts = *cuts;
    return FR_OK;
}

/* ---- a round ---- */

/* A walk over all tokens of a round; the first counts the rows of each run, the second places them.
 */
struct walk {
    struct tr_route *r;
    struct tr_route_round *out;
    int32_t *lists; /* NULL: the counting walk */
    int64_t row;    /* of the source's tokens in this round */
    int64_t landed; /* rows that have landed so far */
};

/* The next row of rank k's run. */
static size_t next_row(const struct tr_run_of *run, int k)
{
    return run->at[k] + run->n[k]++;
}

/* Sends an own token to the nodes of its experts. */
static void send_far(struct walk *w, uint64_t mask)
{
    struct tr_route *r = w->r;
    int me = r->o.rank;
    int32_t *sums = w->lists == NULL ? NULL : w->lists + w->out->sums + w->row * r->nodes;

    for (int j = 0; j < r->nodes; j++) {
        if ((mask & r->members[j]) == 0)
            continue;
        if (j == r->node[me]) {
            if (sums != NULL)
                sums[j] = (int32_t)w->row;
            continue;
        }
        size_t at = next_row(&w->out->far_out, landing(r, me, j));

        if (sums != NULL) {
            w->lists[w->out->far_from + at] = (int32_t)w->row;
            sums[j] = (int32_t)(w->out->tokens + (int64_t)at);
        }
    }
}

/* Hands a token, own or landed, to the local ranks of its experts. */
static void hand_out(struct walk *w, uint64_t local_mask, bool own)
{
    struct tr_route *r = w->r;
    int64_t local = r->count[r->node[r->o.rank]];
    int32_t row = (int32_t)(own ? w->row : w->landed);
    size_t parts = own ? w->out->own_parts : w->out->landed_parts;

    for (uint64_t mask = local_mask; mask != 0; mask &= mask - 1) {
        int rank = first_of(mask);
        size_t at = next_row(&w->out->near_out, rank);

        if (w->lists == NULL)
            continue;
        w->lists[w->out->near_own + at] = own ? row : -1;
        w->lists[w->out->near_landed + at] = own ? -1 : row;
        w->lists[parts + (size_t)(row * local + r->place[rank])] = (int32_t)at;
    }
}

/* Receives a token with experts of this rank from local rank `from`. */
static void receive(struct walk *w, const uint16_t *ids, int from)
{
    struct tr_route *r = w->r;
    size_t at = next_row(&w->out->near_in, from);

    for (int64_t k = 0; k < r->o.per_token; k++) {
        bool mine = r->owners->rank[ids[k]] == r->o.rank;

        if (w->lists == NULL)
            w->out->rows += mine;
        else
            w->lists[w->out->ids + at * (size_t)r->o.per_token + (size_t)k] =
                mine ? r->owners->local[ids[k]] : -1;
    }
}

/* Token t of s, which enters this node at rank `from`. */
static void one_token(struct walk *w, int s, int64_t t, int from)
{
    struct tr_route *r = w->r;
    int me = r->o.rank;
    uint64_t mask = r->masks[s * r->o.tokens_max + t], local = mask & r->members[r->node[me]];

    if (s == me)
        send_far(w, mask);
    if (local != 0 && from == me)
        hand_out(w, local, s == me);
    if (local != 0 && from == me && s != me) {
        w->landed++;
        w->out->far_in.n[s]++;
    }
    if ((mask >> me & 1) != 0)
        receive(w, chosen(r, s, t), from);
}

static void walk_all(struct walk *w, int i)
{
    struct tr_route *r = w->r;

    w->landed = 0;
    for (int s = 0; s < r->o.size; s++) {
        int from = entry(r, s, r->node[r->o.rank]);
        int64_t end = before(r, s, r->cuts.at[i + 1]);

        w->row = 0;
        for (int64_t t = before(r, s, r->cuts.at[i]); t < end; t++, w->row++)
            one_token(w, s, t, from);
    }
}

/* Lays out the runs in the order of ranks; returns the rows of all. */
static int64_t lay_runs(const struct tr_route *r, struct tr_run_of *run)
{
    size_t sum = 0;

    for (int k = 0; k < r->o.size; k++) {
        run->at[k] = sum;
        sum += run->n[k];
        run->n[k] = 0;
    }
    return (int64_t)sum;
}

/* The offset of each list. */
static void lay_lists(const struct tr_route *r, struct tr_route_round *x)
{
    size_t local = (size_t)r->count[r->node[r->o.rank]], handed = (size_t)x->handed;

    x->far_from = 0;
    x->near_own = x->far_from + (size_t)x->far;
    x->near_landed = x->near_own + handed;
    x->own_parts = x->near_landed + handed;
    x->landed_parts = x->own_parts + (size_t)x->tokens * local;
    x->sums = x->landed_parts + (size_t)x->lands * local;
    x->ids = x->sums + (size_t)x->tokens * (size_t)r->nodes;
    x->lists = x->ids + (size_t)(x->here * r->o.per_token);
}

void tr_route_round(struct tr_route *r, int i, int32_t *lists, struct tr_route_round *out)
{
    size_t P = (size_t)r->o.size;
    struct walk w = {.r = r, .out = out};
    struct tr_run_of *const runs[RUNS] = {&out->far_out, &out->far_in, &out->near_out,
                                          &out->near_in};
    int64_t rows[RUNS];

    *out = (struct tr_route_round){.first = before(r, r->o.rank, r->cuts.at[i])};
    out->tokens = before(r, r->o.rank, r->cuts.at[i + 1]) - out->first;
    memset(r->runs, 0, 2 * RUNS * P * sizeof(*r->runs));
    for (size_t k = 0; k < RUNS; k++)
        *runs[k] = (struct tr_run_of){r->runs + 2 * k * P, r->runs + (2 * k + 1) * P};
    walk_all(&w, i);
    for (size_t k = 0; k < RUNS; k++)
        rows[k] = lay_runs(r, runs[k]);
    out->far = rows[0];
    out->lands = rows[1];
    out->handed = rows[2];
    out->here = rows[3];
    lay_lists(r, out);
    memset(lists, 0xff, out->lists * sizeof(*lists));
    w.lists = lists;
    walk_all(&w, i);
}
