/*
 * Experts that stay: random groups, nodes, tables of owners and choices against a plain reading of
 * the protocol. Values are whole numbers in doubles, so that every sum is exact and what comes back
 * must be equal; bytes by class of link equal those counted token by token. Then one case with
 * values whose sums depend on their order: seeds that delay messages change no bit.
 */
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "trainer/shard/exchange.h"

#include "engine/base/sys.h"

#include <math.h>

enum { E_MAX = 24, K_MAX = 6, T_MAX = 70, N = 3, RANDOM = 150, SEEDS = 1000 };

/* What every rank knows of a case. */
struct scene {
    int P, node[RANKS_MAX];
    int64_t E, K, tokens_max, T[RANKS_MAX], rows_max;
    int32_t owner[E_MAX], local[E_MAX];
    int32_t ids[RANKS_MAX][T_MAX * K_MAX];
    bool rough; /* values whose sums are not exact */
};

struct seen {
    const struct scene *s;
    int failed, rounds;
    double y[T_MAX * N], scalars[T_MAX * K_MAX];
    size_t bytes[TR_LINK_CLASSES];
    struct tr_exchange_routes routes;
};

static uint64_t draw(uint64_t *seed, uint64_t n)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (*seed >> 33) % n;
}

static double value(const struct scene *s, int rank, int64_t t, int64_t i)
{
    double x = (double)(1 + rank * 1000 + t * 7 + i);

    return s->rough ? sin(x) / 3 : x;
}

static double weight(int rank, int64_t t, int64_t k)
{
    return (double)(1 + (rank + t + 2 * k) % 5);
}

/* What expert e makes of x, and of the weight of a slot. */
static double expert(int64_t e, double x)
{
    return x * (double)(e + 1);
}

/* ---- a rank ---- */

struct bench {
    struct tr_backend *be;
    struct tr_comm world, *group;
    struct tr_queue *q;
    struct tr_exchange *x;
};

static int bench_begin(struct bench *b, struct rank_self *self, const struct scene *s)
{
    struct tr_exchange_opts o = {.per_token = s->K,
                                 .tokens_max = s->tokens_max,
                                 .row_bytes = K_MAX * (int64_t)sizeof(double),
                                 .rows_max = s->rows_max,
                                 .plans = 2};
    struct fr_err err = {0};
    int bad = tr_ref_create(&b->be, &err) != FR_OK;

    b->world = ranks_comm(self, b->be);
    bad += tr_comm_split(&b->world, 0, &b->group, &err) != FR_OK;
    o.be = b->be;
    o.comm = b->group;
    bad += tr_queue_create(b->be, 0, &b->q, &err) != FR_OK;
    bad += tr_exchange_create(&o, &b->x, &err) != FR_OK;
    bad += tr_exchange_alloc(b->x, &err) != FR_OK;
    return bad;
}

static void bench_end(struct bench *b)
{
    tr_exchange_destroy(b->x);
    tr_queue_destroy(b->be, b->q);
    tr_comm_destroy(b->group);
    tr_backend_destroy(b->be);
}

/* The round's tokens through the experts of this rank: in (here, N) becomes their part, slots the
 * scalars of its experts. */
static void compute(const struct scene *s, int rank, const struct tr_exchange_round *r, double *in,
                    double *weights)
{
    const int32_t *ids = r->ids.p;
    int64_t here[E_MAX] = {0};

    for (int64_t e = 0; e < s->E; e++)
        if (s->owner[e] == rank)
            here[s->local[e]] = e;
    for (int64_t c = 0; c < r->here; c++) {
        double sum[N] = {0}, first = in[c * N];

        for (int64_t k = 0; k < s->K; k++) {
            int32_t local = ids[c * s->K + k];
            double w = weights[c * s->K + k];

            for (int64_t i = 0; i < N && local >= 0; i++)
                sum[i] += w * expert(here[local], in[c * N + i]);
            weights[c * s->K + k] = local >= 0 ? expert(here[local], first) : 0;
        }
        memcpy(in + c * N, sum, sizeof(sum));
    }
}

static int one_round(struct bench *b, struct seen *v, int i, double *x, double *w)
{
    const struct scene *s = v->s;
    struct tr_exchange_round r;
    struct fr_err err = {0};
    int bad = tr_exchange_round(b->x, b->q, i, &r, &err) != FR_OK;
    double *here = calloc((size_t)(r.here * N + 1), sizeof(double));
    double *weights = calloc((size_t)(r.here * s->K + 1), sizeof(double));
    double *y = v->y + r.first * N, *scalars = v->scalars + r.first * s->K;
    struct tr_exchange_out rows = {tr_view2(here, TR_F64, r.here, N),
                                   tr_view2(x + r.first * N, TR_F64, r.tokens, N)};
    struct tr_exchange_out slots = {tr_view2(weights, TR_F64, r.here, s->K),
                                    tr_view2(w + r.first * s->K, TR_F64, r.tokens, s->K)};
    struct tr_exchange_back sums = {.y = tr_view2(y, TR_F64, r.tokens, N), .in = rows.out};
    struct tr_exchange_back parts = {.y = tr_view2(scalars, TR_F64, r.tokens, s->K),
                                     .in = slots.out};

    sums.add = sums.y;
    bad += tr_exchange_out(b->x, b->q, &rows, &err) != FR_OK;
    bad += tr_exchange_out(b->x, b->q, &slots, &err) != FR_OK;
    compute(s, b->group->rank, &r, here, weights);
    bad += tr_exchange_back(b->x, b->q, &sums, &err) != FR_OK;
    bad += tr_exchange_back(b->x, b->q, &parts, &err) != FR_OK;
    if (bad > 0)
        printf("%s\n", err.msg);
    free(here);
    free(weights);
    return bad;
}

/* A backward takes the rounds of its forward: it does not weigh them again, whoever the owners are
 * that it is asked with. */
static int replayed(struct bench *b, const struct seen *v, const struct tr_exchange_layer *layer)
{
    static const int32_t one[E_MAX];
    struct tr_owners owners = {v->s->E, one, one};
    struct tr_exchange_layer other = *layer;
    struct fr_err err = {0};
    int rounds = 0;

    other.owners = &owners;
    return (tr_exchange_plan(b->x, &other, true, &rounds, &err) != FR_OK) + (rounds != v->rounds);
}

/* The rounds of a layer without tokens. */
static int nothing(struct bench *b, const struct scene *s, const struct tr_exchange_layer *layer)
{
    int32_t none = 0;
    struct tr_view ids = tr_view2(&none, TR_I32, 0, s->K);
    struct tr_exchange_layer other = *layer;
    struct fr_err err = {0};
    int rounds = 0;

    other.plan = 0;
    if (tr_exchange_begin(b->x, b->q, ids, &other, &err) != FR_OK ||
        tr_exchange_plan(b->x, &other, false, &rounds, &err) != FR_OK)
        return -1;
    return rounds;
}

/* A forward and its replay: twice the rows, once the choices. y starts at 1 and -1. */
static void body(struct rank_self *self, void *arg)
{
    struct seen *v = arg;
    const struct scene *s = v->s;
    int64_t T = s->T[self->rank];
    struct tr_owners owners = {s->E, s->owner, s->local};
    int64_t rows[E_MAX] = {0};
    struct tr_exchange_layer layer = {"layer 1 moe", &owners, 1, rows};
    struct tr_view ids = tr_view2((void *)(uintptr_t)s->ids[self->rank], TR_I32, T, s->K);
    double x[T_MAX * N], w[T_MAX * K_MAX];
    struct fr_err err = {0};
    struct bench b = {0};

    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 0; i < N; i++)
            x[t * N + i] = value(s, self->rank, t, i);
        for (int64_t k = 0; k < s->K; k++)
            w[t * s->K + k] = weight(self->rank, t, k);
    }
    v->failed += bench_begin(&b, self, s);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < T * N; i++)
            v->y[i] = pass == 0 ? -1 : 1;
        if (pass == 0)
            v->failed += tr_exchange_begin(b.x, b.q, ids, &layer, &err) != FR_OK;
        v->failed += tr_exchange_plan(b.x, &layer, pass > 0, &v->rounds, &err) != FR_OK;
        for (int i = 0; i < v->rounds; i++)
            v->failed += one_round(&b, v, i, x, w);
    }
    v->failed += replayed(&b, v, &layer);
    for (int64_t i = 0; i < T * s->K; i++)
        rows[s->ids[self->rank][i]]--;
    for (int64_t e = 0; e < s->E; e++)
        v->failed += rows[e] != 0; /* counted once, not in the replay */
    tr_exchange_routes(b.x, &v->routes);
    memcpy(v->bytes, b.group->class_bytes, sizeof(v->bytes));
    v->failed += memcmp(v->bytes, b.world.class_bytes, sizeof(v->bytes)) != 0;
    v->failed += tr_exchange_most_rounds(b.x) != v->rounds || nothing(&b, s, &layer) != 1 ||
                 tr_exchange_most_rounds(b.x) != v->rounds; /* of a layer, not of the last one */
    bench_end(&b);
}

/* ---- the plain reading ---- */

static void wanted_values(const struct scene *s, int rank, double *y, double *scalars)
{
    for (int64_t t = 0; t < s->T[rank]; t++)
        for (int64_t i = 0; i < N; i++) {
            y[t * N + i] = 1;
            for (int64_t k = 0; k < s->K; k++) {
                int32_t e = s->ids[rank][t * s->K + k];

                y[t * N + i] += weight(rank, t, k) * expert(e, value(s, rank, t, i));
                scalars[t * s->K + k] = expert(e, value(s, rank, t, 0));
            }
        }
}

static int number_in_node(const struct scene *s, int rank)
{
    int n = 0;

    for (int k = 0; k < rank; k++)
        n += s->node[k] == s->node[rank];
    return n;
}

/* Where tokens of rank s are handed out in the node of rank r. */
static int entry(const struct scene *s, int from, int r)
{
    int size = 0, first = -1;

    if (s->node[from] == s->node[r])
        return from;
    for (int k = 0; k < s->P; k++)
        if (s->node[k] == s->node[r]) {
            first = first < 0 ? k : first;
            size++;
        }
    return first + number_in_node(s, from) % size;
}

static void add_bytes(const struct scene *s, size_t out[RANKS_MAX][TR_LINK_CLASSES], int from,
                      int to, size_t bytes)
{
    out[from][from == to                     ? TR_LINK_SELF
              : s->node[from] == s->node[to] ? TR_LINK_NODE
                                             : TR_LINK_FAR] += bytes;
}

/* Each token: out and back once a node between source and landing rank, once a rank inside. Routes
 * are those out of the forward alone. */
static void wanted_bytes(const struct scene *s, size_t out[RANKS_MAX][TR_LINK_CLASSES],
                         struct tr_exchange_routes routes[RANKS_MAX])
{
    size_t row = 2 * (size_t)(N + s->K) * sizeof(double); /* two passes */

    for (int from = 0; from < s->P; from++) {
        size_t choices = (size_t)(s->tokens_max * s->K) * sizeof(int32_t);

        add_bytes(s, out, from, from, choices);
        add_bytes(s, out, from, (from + 1) % s->P, choices * (size_t)(s->P - 1)); /* a ring */
        for (int64_t t = 0; t < s->T[from]; t++) {
            bool node[RANKS_MAX] = {false}, rank[RANKS_MAX] = {false};

            for (int64_t k = 0; k < s->K; k++) {
                int r = s->owner[s->ids[from][t * s->K + k]], at = entry(s, from, r);

                if (at != from && !node[s->node[r]]) {
                    routes[from].far++;
                    add_bytes(s, out, from, at, row);
                    add_bytes(s, out, at, from, row);
                }
                if (!rank[r]) {
                    routes[at].near += at != r;
                    add_bytes(s, out, at, r, row);
                    add_bytes(s, out, r, at, row);
                }
                node[s->node[r]] = rank[r] = true;
            }
        }
    }
}

static void run_scene(const struct scene *s, struct seen *v, uint64_t seed)
{
    void *args[RANKS_MAX];

    for (int k = 0; k < s->P; k++) {
        v[k] = (struct seen){.s = s};
        args[k] = &v[k];
    }
    ranks_run_on(s->P, s->node, seed, body, args);
}

static void try_scene(const struct scene *s)
{
    static struct seen v[RANKS_MAX];
    size_t bytes[RANKS_MAX][TR_LINK_CLASSES] = {{0}};
    struct tr_exchange_routes routes[RANKS_MAX] = {{0}};
    static double y[T_MAX * N], scalars[T_MAX * K_MAX];

    run_scene(s, v, 0);
    wanted_bytes(s, bytes, routes);
    for (int k = 0; k < s->P; k++) {
        wanted_values(s, k, y, scalars);
        CHECK_INT(v[k].failed, 0);
        CHECK_INT(v[k].rounds, v[0].rounds);
        CHECK(memcmp(v[k].y, y, (size_t)(s->T[k] * N) * sizeof(*y)) == 0);
        CHECK(memcmp(v[k].scalars, scalars, (size_t)(s->T[k] * s->K) * sizeof(*y)) == 0);
        for (int c = 0; c < TR_LINK_CLASSES; c++)
            CHECK_INT(v[k].bytes[c], bytes[k][c]);
        CHECK_INT(v[k].routes.far, routes[k].far);
        CHECK_INT(v[k].routes.near, routes[k].near);
    }
}

/* ---- cases ---- */

/* Node maps by the ranks of each node. */
static const int maps[][4] = {{1},       {2},          {4},       {2, 2},    {3, 1},
                              {1, 3},    {1, 1},       {1, 1, 1}, {2, 1, 2}, {3, 2},
                              {4, 4, 0}, {1, 1, 1, 1}, {3, 3, 2}};
enum { MAPS = sizeof(maps) / sizeof(*maps) };

static void set_map(struct scene *s, int map)
{
    s->P = 0;
    for (int j = 0; j < 4 && maps[map][j] > 0; j++)
        for (int i = 0; i < maps[map][j]; i++)
            s->node[s->P++] = j;
}

/* Numbers of the experts of each rank, ascending. */
static void set_locals(struct scene *s)
{
    int32_t n[RANKS_MAX] = {0};

    for (int64_t e = 0; e < s->E; e++)
        s->local[e] = n[s->owner[e]]++;
}

static void choose(struct scene *s, uint64_t *seed)
{
    for (int r = 0; r < s->P; r++)
        for (int64_t t = 0; t < s->T[r]; t++) {
            int64_t k = 0;

            for (int64_t e = 0; e < s->E; e++)
                if ((int64_t)draw(seed, (uint64_t)(s->E - e)) < s->K - k)
                    s->ids[r][t * s->K + k++] = (int32_t)e;
        }
}

static void random_scene(struct scene *s, uint64_t seed)
{
    *s = (struct scene){0};
    set_map(s, (int)draw(&seed, MAPS));
    s->E = (int64_t)(s->P + (int)draw(&seed, (uint64_t)(E_MAX - s->P + 1)));
    s->K = 1 + (int64_t)draw(&seed, (uint64_t)(s->E < K_MAX ? s->E : K_MAX));
    s->tokens_max = 1 + (int64_t)draw(&seed, T_MAX);
    for (int r = 0; r < s->P; r++)
        s->T[r] = (int64_t)draw(&seed, (uint64_t)s->tokens_max + 1);
    for (int64_t e = 0; e < s->E; e++)
        s->owner[e] = (int32_t)(draw(&seed, 2) == 0 ? (uint64_t)(e * s->P / s->E)
                                                    : draw(&seed, (uint64_t)s->P));
    set_locals(s);
    choose(s, &seed);
    s->rows_max = draw(&seed, 3) == 0 ? 1 : 0;
}

/* Named cases on two nodes of two ranks. */
struct named {
    const char *name;
    int32_t ids[K_MAX]; /* of every token; experts 0..7, two a rank */
    int64_t T[4], rows_max;
    int rounds;
};

static const struct named named[] = {
    {"all tokens to experts 0 and 1", {0, 1}, {60, 60, 60, 60}, 0, 2},
    {"the same in rounds", {0, 1}, {64, 64, 64, 64}, 64, 8},
    {"as many as ranges", {0, 1}, {64, 64, 64, 64}, 1, 64},
    {"all to the other node", {4, 7}, {9, 5, 0, 0}, 0, 1},
    {"one rank without tokens", {2, 6}, {9, 0, 9, 9}, 0, 1},
    {"one token in all", {3, 4}, {0, 0, 1, 0}, 0, 1},
    {"no token", {0, 1}, {0, 0, 0, 0}, 0, 1},
};

static void try_named(const struct named *n)
{
    static struct scene s;
    static struct seen v[RANKS_MAX];

    check_row(n->name);
    s = (struct scene){.E = 8, .K = 2, .tokens_max = 64, .rows_max = n->rows_max};
    set_map(&s, 3);
    for (int64_t e = 0; e < s.E; e++)
        s.owner[e] = (int32_t)(e / 2);
    set_locals(&s);
    for (int r = 0; r < s.P; r++) {
        s.T[r] = n->T[r];
        for (int64_t t = 0; t < s.T[r]; t++)
            memcpy(&s.ids[r][t * s.K], n->ids, (size_t)s.K * sizeof(int32_t));
    }
    try_scene(&s);
    run_scene(&s, v, 0);
    CHECK_INT(v[0].rounds, n->rounds);
}

/* The same bits whatever arrives first, and however the tokens are cut into rounds. */
static void check_order(void)
{
    static struct scene s;
    static struct seen first[RANKS_MAX], v[RANKS_MAX];
    uint64_t seed = 77;

    check_row("order");
    s = (struct scene){.E = 16, .K = 5, .tokens_max = 12, .rough = true};
    set_map(&s, 8);
    for (int64_t e = 0; e < s.E; e++)
        s.owner[e] = (int32_t)(e * s.P / s.E);
    set_locals(&s);
    for (int r = 0; r < s.P; r++)
        s.T[r] = 12 - r;
    choose(&s, &seed);
    run_scene(&s, first, 0);
    for (uint64_t i = 1; i <= SEEDS; i++) {
        s.rows_max = i % 10 == 0 ? (int64_t)(i % 100) : 0;
        run_scene(&s, v, i);
        for (int k = 0; k < s.P; k++)
            if (!CHECK(v[k].failed == 0 && memcmp(v[k].y, first[k].y, sizeof(v[k].y)) == 0 &&
                       memcmp(v[k].scalars, first[k].scalars, sizeof(v[k].scalars)) == 0))
                return;
    }
}

/* A choice that is no expert names its rank and token on every rank. */
static void check_choice(void)
{
    static const int node[64] = {0};
    static const int32_t owner[2] = {0, 1}, local[2] = {0, 0};
    static const uint16_t ids[] = {0, 1, 2, TR_ROUTE_NONE};
    struct tr_route_opts o = {
        .size = 2, .rank = 1, .node_of = node, .per_token = 1, .tokens_max = 2};
    struct tr_owners owners = {2, owner, local};
    struct tr_route *r = NULL;
    struct fr_err err = {0};
    struct tr_route_cuts cuts = {0};

    check_row("a choice that is no expert");
    CHECK_INT(tr_route_create(&o, &r, &err), FR_OK);
    CHECK_INT(tr_route_plan(r, ids, &owners, &cuts, &err), FR_PROTO);
    CHECK_TEXT(err.msg, "rank 1 of the expert group sends its token 0 to expert 2, there are 2");
    tr_route_destroy(r);
    check_row("the second choice of a token is no expert");
    o.per_token = 2;
    CHECK_INT(tr_route_create(&o, &r, &err), FR_OK);
    CHECK_INT(tr_route_plan(r, (const uint16_t[]){0, 1, 1, 3, TR_ROUTE_NONE, 0, 0, 0}, &owners,
                            &cuts, &err),
              FR_PROTO);
    CHECK_TEXT(err.msg, "rank 0 of the expert group sends its token 1 to expert 3, there are 2");
    tr_route_destroy(r);
    tr_route_destroy(NULL);
    tr_exchange_destroy(NULL);
    check_row("as many as may be");
    o.per_token = 64;
    CHECK_INT(tr_route_create(&o, &r, &err), FR_OK);
    tr_route_destroy(r);
    o.size = 64;
    CHECK_INT(tr_route_create(&o, &r, &err), FR_OK);
    tr_route_destroy(r);
    check_row("none, and too many");
    o.per_token = 0;
    CHECK_INT(tr_route_create(&o, &r, &err), FR_USAGE);
    o.per_token = 65;
    CHECK_INT(tr_route_create(&o, &r, &err), FR_USAGE);
    CHECK(r == NULL);
    o.per_token = 1;
    o.size = 65;
    CHECK_INT(tr_route_create(&o, &r, &err), FR_USAGE);
    CHECK_TEXT(err.msg,
               "1 experts a token over 65 ranks: 1 to 64 over up to 64 ranks can be exchanged");
}

/* Owners by load, and what they are worth. */
struct placing {
    const char *name;
    int64_t E;
    int P;
    bool loads;
    int64_t rows[9];
    int32_t rank[9];
    double skew;
};

static const struct placing placings[] = {
    {"neighbours", 5, 2, false, {1, 1, 1, 1, 4}, {0, 0, 0, 1, 1}, 1.25},
    {"the heaviest first", 5, 2, true, {1, 1, 1, 1, 4}, {1, 1, 1, 0, 0}, 1.25},
    {"even", 6, 3, true, {5, 1, 4, 2, 3, 3}, {0, 0, 1, 1, 2, 2}, 1},
    {"a full rank takes no more", 4, 2, true, {9, 0, 0, 0}, {0, 1, 1, 0}, 2},
    {"no load at all", 7, 3, true, {0}, {0, 1, 2, 0, 1, 2, 0}, 1},
    {"each has one", 3, 3, true, {0, 7, 0}, {1, 0, 2}, 3},
};

static void try_placing(const struct placing *p)
{
    int32_t rank[9], local[9], n[9] = {0};
    struct fr_err err = {0};

    check_row(p->name);
    CHECK_INT(tr_owners_place(p->E, p->P, p->loads ? p->rows : NULL, rank, local, &err), FR_OK);
    for (int64_t e = 0; e < p->E; e++) {
        CHECK_INT(rank[e], p->rank[e]);
        CHECK_INT(local[e], n[rank[e]]++);
    }
    CHECK(fabs(tr_owners_skew(p->E, p->P, p->rows, rank) - p->skew) < 1e-12);
}

static size_t taken;

static void *count_alloc(size_t bytes)
{
    taken += bytes;
    return fr_sys_real.alloc(bytes);
}

/* What is said of its memory is what it takes, but for tables of ranks and for alignment. */
static void check_memory(void)
{
    struct tr_exchange_opts o = {.per_token = 6, .tokens_max = 8000, .row_bytes = 512, .plans = 3};
    struct tr_exchange_bytes said;
    struct tr_exchange *x = NULL;
    struct fr_err err = {0};

    check_row("memory");
    CHECK_INT(tr_cpu_create(&o.be, &err), FR_OK);
    CHECK_INT(tr_comm_single(o.be, &o.comm, &err), FR_OK);
    fr_sys.alloc = count_alloc;
    CHECK_INT(tr_exchange_create(&o, &x, &err), FR_OK);
    CHECK_INT(tr_exchange_alloc(x, &err), FR_OK);
    fr_sys.alloc = fr_sys_real.alloc;
    tr_exchange_bytes(x, &said);
    CHECK(taken >= said.host + said.device);
    CHECK(taken - said.host - said.device < (64 << 10));
    tr_exchange_destroy(x);
    tr_comm_destroy(o.comm);
    tr_backend_destroy(o.be);
}

int main(void)
{
    static struct scene s;
    char row[32];

    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
        try_named(&named[i]);
    for (uint64_t i = 1; i <= RANDOM; i++) {
        (void)snprintf(row, sizeof(row), "random %d", (int)i);
        check_row(row);
        random_scene(&s, i);
        try_scene(&s);
    }
    for (size_t i = 0; i < sizeof(placings) / sizeof(*placings); i++)
        try_placing(&placings[i]);
    check_order();
    check_choice();
    check_memory();
    return check_done();
}
