/*
 * Sums of gradients of trained weights over W ranks (threads): the bits of a plain fold in the
 * order of the step's micro-batches, whatever type ranks send each other, and the bytes that they
 * send. Their squares: the same digits for all, of units before the step's end where its last
 * micro-batch is known.
 */
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "tests/unit/trainer/model/tiny_model.h"
#include "trainer/shard/grads.h"

#include <math.h>

enum { UNITS = 3, NORMS = UNITS, ROWS_UNIT, ROWS = 11, COLS = 3, TOKENS = 6, MICROS = 24 };
enum { STEPS = 2 }; /* of the first the last micro-batch is known */

/* Elements of the units, their tensors side by side. */
static const int64_t shapes[UNITS][2] = {{7, 13}, {31, 9}, {5, 3}};
enum { NORM = 19 };

struct way {
    const char *name;
    int W;
    bool partition;
    enum tr_dtype wire; /* asked for */
    bool beside;        /* reductions are on a queue of their own */
    int node[RANKS_MAX];
    struct tr_comm_nodes nodes; /* ranks 0: one node, or not as many ranks on each */
    bool chain[2]; /* between nodes, in the first micro-batch of a step and in later ones */
};

struct job {
    const struct way *way;
    int failed;
    struct tr_grads_moved moved;
    struct tr_grads_shares shares;
    struct tr_grads_bytes bytes;
    int64_t collectives; /* beside */
    struct digits {
        int64_t limbs[TR_EXACT_LIMBS];
    } early[STEPS],
        all[STEPS]; /* squares of this rank's sums: behind the backward; and at the end */
};

static enum tr_dtype wire_of(const struct way *w)
{
    return w->W > 1 && w->wire != TR_NONE ? w->wire : TR_F32;
}

/* One rounding, to the nearest. */
static float rounded(float x, enum tr_dtype t)
{
    char room[8];
    struct tr_view v = tr_view1(room, t, 1);

    tr_set(v, 0, x);
    return (float)tr_get(v, 0);
}

/* Element i of a unit's gradient of micro-batch j; of rows: of token t. */
static float grad(int unit, int j, int64_t i)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "g%d.%d", unit, j);
    return (float)(tiny_random(name, (uint64_t)i) * (unit == 1 ? 1e-3 : 1));
}

static int32_t id_of(int j, int64_t t)
{
    return (int32_t)((j * 5 + t * t * 3) % ROWS);
}

static int64_t tokens_of(int j)
{
    return j % 5 == 2 ? 0 : TOKENS - j % 3;
}

/* What element i of a unit's sum has to be. */
static float want(const struct way *w, int unit, int64_t i)
{
    float sum = 0;

    for (int j = 0; j < MICROS; j++) {
        float s = 0;

        if (unit != ROWS_UNIT) {
            sum += rounded(grad(unit, j, i), wire_of(w));
            continue;
        }
        bool any = false;

        for (int64_t t = 0; t < tokens_of(j); t++)
            if (id_of(j, t) == i / COLS) {
                s += grad(unit, j, t * COLS + i % COLS);
                any = true;
            }
        if (any)
            sum += rounded(s, wire_of(w));
    }
    return sum;
}

static int add_units(struct tr_shard *s, struct fr_err *err)
{
    static const char *const names[] = {"u0", "u1", "u2", "n", "e"};
    int id, bad = 0;

    for (int i = 0; i <= ROWS_UNIT; i++) {
        struct tr_unit_spec u = {.what = names[i], .n = 1};

        u.kind = i == NORMS ? TR_UNIT_PERSISTENT : i == ROWS_UNIT ? TR_UNIT_ROWS : TR_UNIT_SHARDED;
        u.tensors[0] = (struct tr_unit_tensor){
            .name = names[i], .rank = 2, .shape = {ROWS, COLS}, .dtype = TR_F32, .trained = true};
        if (i < UNITS)
            memcpy(u.tensors[0].shape, shapes[i], sizeof(shapes[i]));
        if (i == NORMS) {
            u.tensors[0].rank = 1;
            u.tensors[0].shape[0] = NORM;
        }
        bad += tr_shard_add(s, &u, &id, err) != FR_OK || id != i;
    }
    return bad;
}

static void put(const struct tr_grads *g, int unit, int j)
{
    struct tr_view v = tr_grads_view(g, unit, 0);

    for (int64_t i = 0; i < tr_view_count(v); i++)
        ((float *)v.p)[i] = grad(unit, j, i);
}

struct rank {
    struct tr_backend *be;
    struct tr_queue *q;
    struct tr_shard *s;
    struct tr_grads *g;
};

static int put_rows(struct rank *r, int j, struct fr_err *err)
{
    int32_t ids[TOKENS], index[TOKENS], compact[TOKENS];
    float dy[TOKENS * COLS];
    int64_t n = tokens_of(j);
    struct tr_fetch_rows f = {
        .unit = ROWS_UNIT, .ids = ids, .out_index = index, .tokens = n, .compact = compact};
    struct tr_grads_rows x = {.unit = ROWS_UNIT,
                              .dy = tr_view2(dy, TR_F32, n, COLS),
                              .compact = tr_view1(compact, TR_I32, n)};
    int bad = 0;

    for (int64_t t = 0; t < n; t++)
        ids[t] = id_of(j, t);
    for (int64_t i = 0; i < n * COLS; i++)
        dy[i] = grad(ROWS_UNIT, j, i);
    bad += tr_shard_fetch_rows(r->s, r->q, &f, err) != FR_OK;
    bad += tr_shard_rows_used(r->s, r->q, err) != FR_OK;
    bad += tr_grads_rows(r->g, r->q, &x, err) != FR_OK;
    return bad;
}

static int micro(struct rank *r, int j, bool last, struct fr_err *err)
{
    int bad = tr_grads_begin(r->g, r->q, last, err) != FR_OK;

    put(r->g, NORMS, j);
    for (int u = UNITS; u-- > 0;) {
        put(r->g, u, j);
        bad += tr_grads_reduce(r->g, r->q, u, err) != FR_OK;
    }
    bad += put_rows(r, j, err);
    bad += tr_grads_end(r->g, r->q, err) != FR_OK;
    return bad;
}

static int unit_of(const char *name)
{
    return name[0] == 'u' ? name[1] - '0' : name[0] == 'n' ? NORMS : ROWS_UNIT;
}

static int wrong_sums(const struct rank *r, const struct way *w)
{
    const float *sums = tr_grads_sums(r->g).p;
    const struct tr_grads_range *x;
    size_t n;
    int bad = 0;

    x = tr_grads_ranges(r->g, &n);
    for (size_t k = 0; k < n; k++)
        for (int64_t i = 0; i < x[k].n; i++)
            bad += sums[x[k].at + i] != want(w, unit_of(x[k].name), x[k].first + i);
    return bad;
}

static int64_t elements_of(int unit)
{
    return unit == NORMS       ? NORM
           : unit == ROWS_UNIT ? ROWS * COLS
                               : shapes[unit][0] * shapes[unit][1];
}

/* Adds the squares of a unit's sums, a block or a row's part of one at a time. */
static void add_squares(const struct way *w, int unit, struct digits *out)
{
    int64_t row = unit == ROWS_UNIT ? COLS : elements_of(unit);

    for (int64_t first = 0; first < elements_of(unit); first += row)
        for (int64_t at = 0; at < row; at += TR_SUMSQ_BLOCK) {
            double lane[TR_SUMSQ_LANES] = {0}, sum;
            uint64_t bits;

            for (int64_t i = at; i < row && i < at + TR_SUMSQ_BLOCK; i++) {
                double x = want(w, unit, first + i);

                lane[(i - at) % TR_SUMSQ_LANES] += x * x;
            }
            sum = ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
                  ((lane[1] + lane[5]) + (lane[3] + lane[7]));
            memcpy(&bits, &sum, sizeof(bits));
            tr_exact_add(out->limbs, tr_exact_of(bits));
        }
}

/* With an infinity in place of this rank's first sum, if it has one. */
static int wrong_count(struct rank *r, const struct tr_grads_look *l, struct fr_err *err)
{
    struct digits limbs = {{0}};
    int64_t found = 0;
    struct tr_grads_look again = *l;
    size_t n;
    const struct tr_grads_range *x = tr_grads_ranges(r->g, &n);

    if (n > 0)
        ((float *)tr_grads_sums(r->g).p)[x->at] = -INFINITY;
    again.squares = tr_view1(limbs.limbs, TR_I64, TR_EXACT_LIMBS);
    again.found = tr_view1(&found, TR_I64, 1);
    return (tr_grads_look(r->g, &again, true, err) != FR_OK) + (found != (n > 0));
}

/* One step: what is found in this rank's sums. */
static int step(struct rank *r, struct job *j, int k, int rank, struct fr_err *err)
{
    int64_t found = 0;
    struct tr_grads_look l = {.be = r->be,
                              .q = r->q,
                              .squares = tr_view1(j->all[k].limbs, TR_I64, TR_EXACT_LIMBS),
                              .found = tr_view1(&found, TR_I64, 1)};
    int W = j->way->W, bad = 0;

    tr_grads_reset(r->g);
    tr_grads_watch(r->g, l.squares, l.found);
    for (int i = rank; i < MICROS; i += W)
        bad += micro(r, i, k == 0 && i + W >= MICROS, err);
    j->early[k] = j->all[k];
    bad += tr_grads_look(r->g, &l, false, err) != FR_OK;
    bad += (found != 0) + wrong_sums(r, j->way);
    return bad + wrong_count(r, &l, err);
}

static void body(struct rank_self *self, void *arg)
{
    struct job *j = arg;
    struct tr_shard_source src = {.fill = tiny_fill};
    struct tr_shard_opts o = {
        .partition = j->way->partition, .limits = {.max_live = 100000}, .tokens_max = TOKENS};
    struct tr_grads_opts go = {.sum = TR_F32, .wire = j->way->wire, .tokens_max = TOKENS};
    struct tr_comm comm, *again = NULL, *beside = NULL;
    struct rank r = {0};
    struct fr_err err = {0};

    j->failed += tr_cpu_create(&r.be, &err) != FR_OK;
    comm = ranks_comm(self, r.be);
    o.be = go.be = r.be;
    o.comm = &comm;
    j->failed += tr_comm_split(&comm, 0, &again, &err) != FR_OK;
    j->failed += tr_queue_create(r.be, 0, &r.q, &err) != FR_OK;
    j->failed += tr_shard_create(&o, &r.s, &err) != FR_OK;
    j->failed += add_units(r.s, &err);
    j->failed += tr_shard_fill(r.s, &src, &err) != FR_OK;
    go.shard = r.s;
    go.comm = again;
    if (j->way->beside)
        j->failed += tr_comm_split(&comm, 0, &beside, &err) != FR_OK;
    go.beside = beside;
    j->failed += tr_grads_create(&go, &r.g, &err) != FR_OK;
    tr_grads_bytes(r.g, &j->bytes);
    tr_grads_shares(r.g, &j->shares);
    j->failed += tr_grads_alloc(r.g, r.q, &err) != FR_OK;
    for (int k = 0; k < STEPS; k++)
        j->failed += step(&r, j, k, self->rank, &err);
    tr_grads_moved(r.g, &j->moved);
    if (j->failed > 0)
        printf("rank %d: %s\n", self->rank, err.msg);
    tr_grads_destroy(r.g);
    tr_shard_destroy(r.s);
    j->collectives = beside != NULL ? beside->collectives : 0;
    tr_comm_destroy(beside);
    tr_comm_destroy(again);
    tr_queue_destroy(r.be, r.q);
    tr_backend_destroy(r.be);
}

/* Elements of a rank's share of n f32 weights. */
static size_t share(int64_t n, int W)
{
    size_t each = ((size_t)n * sizeof(float) + (size_t)W - 1) / (size_t)W;

    return (each + 255) / 256 * 256 / sizeof(float);
}

static const struct way ways[] = {
    {"one rank", 1, true, TR_F32, false, {0}, {1, 0}, {false}},
    {"one rank does not round", 1, true, TR_BF16, false, {0}, {1, 0}, {false}},
    {"two, f32", 2, true, TR_F32, false, {0}, {1, 0}, {false}},
    {"two, no type asked for", 2, true, TR_NONE, false, {0}, {1, 0}, {false}},
    {"two, bf16", 2, true, TR_BF16, false, {0}, {1, 0}, {false}},
    {"two, f16, stage 2", 2, false, TR_F16, false, {0}, {1, 0}, {false}},
    {"three, bf16", 3, true, TR_BF16, false, {0}, {1, 0}, {false}},
    {"four, bf16, stage 2", 4, false, TR_BF16, false, {0}, {1, 0}, {false}},
    {"six, f16", 6, true, TR_F16, false, {0}, {1, 0}, {false}},
    {"two, f32, beside", 2, true, TR_F32, true, {0}, {1, 0}, {false}},
    {"three, bf16, beside", 3, true, TR_BF16, true, {0}, {1, 0}, {false}},
    {"one rank has nothing beside", 1, true, TR_F32, true, {0}, {1, 0}, {false}},
    {"2 x 2", 4, true, TR_F32, false, {0, 0, 1, 1}, {2, 2}, {true, false}},
    {"2 x 2, beside", 4, true, TR_F32, true, {0, 0, 1, 1}, {2, 2}, {true, false}},
    {"3 x 2, stage 2", 6, false, TR_F32, false, {0, 0, 1, 1, 2, 2}, {3, 2}, {true, true}},
    {"3 x 2, beside", 6, true, TR_F32, true, {0, 0, 1, 1, 2, 2}, {3, 2}, {true, true}},
    {"2 x 3", 6, true, TR_F32, false, {0, 0, 0, 1, 1, 1}, {2, 3}, {true, true}},
    {"2 x 3, bf16", 6, true, TR_BF16, false, {0, 0, 0, 1, 1, 1}, {2, 3}, {false, false}},
    {"2 x 4, bf16", 8, true, TR_BF16, false, {0, 0, 0, 0, 1, 1, 1, 1}, {2, 4}, {true, false}},
    {"3 x 1", 3, true, TR_F32, false, {0, 1, 2}, {3, 1}, {false, false}},
    {"two ranks and one", 3, true, TR_F32, false, {0, 0, 1}, {0, 0}, {false, false}},
};

static struct tr_comm_nodes nodes_of(const struct way *w)
{
    return w->nodes.ranks > 0 ? w->nodes : (struct tr_comm_nodes){1, w->W};
}

/* What all ranks have sent in one micro-batch of shares of so many elements. */
static void add_sent(const struct way *w, bool later, size_t elements, size_t out[TR_LINK_CLASSES])
{
    size_t n = (size_t)nodes_of(w).nodes, g = (size_t)nodes_of(w).ranks, W = n * g;
    size_t wire = elements * tr_dtype_bytes(wire_of(w)), sum = elements * sizeof(float);
    size_t ends = later ? 2 : 1;

    out[TR_LINK_NODE] += W * (g - 1) * wire;
    if (!w->chain[later]) {
        out[TR_LINK_FAR] += W * (W - g) * wire;
        return;
    }
    out[TR_LINK_NODE] += W * (g - 1) * (n - 1) * wire + ends * (g - 1) * sum;
    out[TR_LINK_FAR] += (n - 1) * W * sum + ends * (n - 1) * g * sum;
}

/* Calls of a unit's reduction: a piece takes as many turns as there are nodes. */
static int64_t calls_of(const struct way *w, bool later)
{
    return w->chain[later] ? 2 * w->nodes.nodes + later : 1;
}

/* f32: the window, one that is reduced beside it, what arrives, norms; 16 bits: rounded gradients
 * in place of the second window, what arrives half as large. Sums of a node's part on their way
 * between nodes, and rows of the embedding. */
static size_t windows_of(const struct way *w)
{
    size_t W = (size_t)w->W, wire = tr_dtype_bytes(wire_of(w)), most = 0;
    size_t each = (TOKENS + W - 1) / W, got = W * each * COLS * wire, pick = W * each;

    for (int i = 0; i < UNITS; i++) {
        size_t n = W * share(shapes[i][0] * shapes[i][1], w->W);

        most = n > most ? n : most;
    }
    got = got < 256 * W ? 256 * W : got;
    pick = (pick < TOKENS ? TOKENS : pick) * sizeof(int32_t);
    return most * (w->beside && W > 1 && wire == 4 ? 8 : 4) + (W > 1 ? most * wire : 0) +
           (wire < 4 ? most * wire : 0) + W * share(NORM, w->W) * 4 + TOKENS * COLS * 4 +
           (W > 1 ? got : 0) + pick +
           (w->chain[0] || w->chain[1] ? 3 * most / (size_t)w->nodes.ranks * 4 : 0);
}

/* Whether the ranks' digits add up to those of whole sums. */
static bool same_squares(const struct job *j, int step, bool early)
{
    struct digits want = {{0}}, got = {{0}};
    int units = !early ? ROWS_UNIT + 1 : step == 0 ? NORMS + 1 : 0;

    for (int u = 0; u < units; u++)
        add_squares(j->way, u, &want);
    for (int k = 0; k < j->way->W; k++)
        for (int i = 0; i < TR_EXACT_LIMBS; i++)
            got.limbs[i] += early ? j[k].early[step].limbs[i] : j[k].all[step].limbs[i];
    tr_exact_carry(want.limbs);
    tr_exact_carry(got.limbs);
    return memcmp(&want, &got, sizeof(want)) == 0;
}

static void try_way(const struct way *w)
{
    struct job j[RANKS_MAX] = {0};
    void *args[RANKS_MAX];
    size_t elements = share(NORM, w->W), wire = tr_dtype_bytes(wire_of(w));
    size_t times = (size_t)(2 * MICROS / w->W);
    size_t sent[TR_LINK_CLASSES] = {0}, got[TR_LINK_CLASSES] = {0};
    int64_t calls = 0;

    check_row(w->name);
    for (int i = 0; i < UNITS; i++)
        elements += share(shapes[i][0] * shapes[i][1], w->W);
    for (int k = 0; k < w->W; k++) {
        j[k].way = w;
        args[k] = &j[k];
    }
    ranks_run_on(w->W, w->node, 0, body, args);
    for (size_t i = 0; i < times; i++) {
        bool later = i % (times / 2) > 0;

        add_sent(w, later, elements, sent);
        calls += calls_of(w, later) * (UNITS + 1);
    }
    for (int k = 0; k < w->W; k++) {
        CHECK_INT(j[k].failed, 0);
        CHECK_INT((long long)j[k].shares.reduced, (long long)(elements * wire));
        CHECK_INT(j[k].collectives, w->beside && w->W > 1 ? calls : 0);
        for (int c = 0; c < TR_LINK_CLASSES; c++)
            got[c] += j[k].moved.reduced[c];
        CHECK_INT((long long)j[k].bytes.windows, (long long)windows_of(w));
        CHECK_INT((long long)(j[k].moved.rows[TR_LINK_NODE] % (COLS * wire)), 0);
    }
    for (int k = 0; k < STEPS; k++) {
        CHECK(same_squares(j, k, true));
        CHECK(same_squares(j, k, false));
    }
    if (w->nodes.ranks > 0) {
        CHECK_INT((long long)got[TR_LINK_NODE], (long long)sent[TR_LINK_NODE]);
        CHECK_INT((long long)got[TR_LINK_FAR], (long long)sent[TR_LINK_FAR]);
    } else
        CHECK_INT((long long)(got[TR_LINK_NODE] + got[TR_LINK_FAR]), (long long)sent[TR_LINK_NODE]);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
        try_way(&ways[i]);
    return check_done();
}
