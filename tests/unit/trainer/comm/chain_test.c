/*
 * Sums that go from node to node, over ranks that are threads: the bits of tr_comm_reduce_scatter,
 * the bytes that are said to be sent, by every node, and which of the two ways sends fewer.
 */
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "trainer/comm/chain.h"

#include <math.h>

struct way {
    const char *name;
    struct tr_comm_nodes nodes;
    int64_t n, piece;
    enum tr_dtype wire;
    bool add;
};

struct job {
    const struct way *way;
    int failed;
    size_t bytes[TR_LINK_CLASSES];
    int64_t calls;
};

/* Sums of numbers of all sizes depend on their order; zeros of both signs and a sum of zeros are
 * among them. */
static float value(int rank, int64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761u) ^ ((uint32_t)rank + 1) * 2246822519u;

    x ^= x >> 15;
    x *= 2654435761u;
    if (i % 7 == 0)
        return -0.0f;
    return ldexpf((float)(int32_t)x, -31 - (int)(x % 13));
}

static void fill(struct tr_view v, int rank, int64_t first)
{
    for (int64_t i = 0; i < tr_view_count(v); i++)
        tr_set(v, i, (double)value(rank, first + i));
}

struct buffers {
    float out[2][600];
    double in[RANKS_MAX * 600 / 2], slices[RANKS_MAX * 600 / 2];
    float sums[3 * RANKS_MAX * 600];
    size_t lists[4 * RANKS_MAX];
};

static void body(struct rank_self *self, void *arg)
{
    struct job *j = arg;
    const struct way *w = j->way;
    int W = self->all->size;
    struct buffers *b = calloc(1, sizeof(*b));
    struct tr_comm comm, *ranks = NULL;
    struct tr_backend *be = NULL;
    struct tr_queue *q = NULL;
    struct fr_err err = {0};

    j->failed += tr_cpu_create(&be, &err) != FR_OK || tr_queue_create(be, 0, &q, &err) != FR_OK;
    comm = ranks_comm(self, be);
    j->failed += tr_comm_split(&comm, 0, &ranks, &err) != FR_OK;

    struct tr_reduce_scatter all = {.out = tr_view1(b->out[0], TR_F32, w->n),
                                    .in = tr_view2(b->in, w->wire, W, w->n),
                                    .slices = tr_view2(b->slices, w->wire, W, w->n),
                                    .add = w->add,
                                    .what = "all"};
    struct tr_chain x = {.nodes = w->nodes,
                         .out = tr_view1(b->out[1], TR_F32, w->n),
                         .in = all.in,
                         .slices = tr_view2(b->slices, w->wire, w->nodes.ranks, w->piece),
                         .sums = tr_view2(b->sums, TR_F32, 3, w->piece),
                         .lists = b->lists,
                         .add = w->add,
                         .what = "chain"};
    struct tr_comm_nodes nodes;

    fill(all.in, self->rank, 0);
    for (int i = 0; i < 2; i++)
        fill(tr_view1(b->out[i], TR_F32, w->n), W, self->rank * w->n);
    j->failed += tr_comm_reduce_scatter(ranks, q, &all, &err) != FR_OK;
    memset(b->slices, 0xff, sizeof(b->slices));
    memset(b->sums, 0xff, sizeof(b->sums));
    memcpy(j->bytes, ranks->class_bytes, sizeof(j->bytes));
    j->calls = ranks->collectives;
    j->failed += tr_chain_reduce(ranks, q, &x, &err) != FR_OK;
    j->calls = ranks->collectives - j->calls;
    for (int c = 0; c < TR_LINK_CLASSES; c++)
        j->bytes[c] = ranks->class_bytes[c] - j->bytes[c];
    j->failed += memcmp(b->out[0], b->out[1], (size_t)w->n * sizeof(float)) != 0;
    j->failed += !tr_comm_nodes(ranks, &nodes) || nodes.nodes != w->nodes.nodes ||
                 nodes.ranks != w->nodes.ranks;
    if (j->failed > 0)
        printf("rank %d: %s\n", self->rank, err.msg);
    tr_comm_destroy(ranks);
    tr_queue_destroy(be, q);
    tr_backend_destroy(be);
    free(b);
}

static const struct way ways[] = {
    {"2 x 2", {2, 2}, 64, 128, TR_F32, false},
    {"2 x 2, to a sum", {2, 2}, 64, 128, TR_F32, true},
    {"2 x 2, pieces", {2, 2}, 64, 16, TR_F32, false},
    {"2 x 2, pieces across slices, to a sum", {2, 2}, 67, 29, TR_F32, true},
    {"3 x 2, to a sum", {3, 2}, 70, 64, TR_F32, true},
    {"3 x 2, pieces", {3, 2}, 131, 100, TR_F32, false},
    {"2 x 3", {2, 3}, 65, 17, TR_F32, true},
    {"4 x 2, pieces of one", {4, 2}, 3, 1, TR_F32, true},
    {"8 x 1", {8, 1}, 33, 64, TR_F32, true},
    {"8 x 1, one piece", {8, 1}, 33, 264, TR_F32, false},
    {"2 x 4, 16 bits", {2, 4}, 64, 100, TR_BF16, false},
    {"2 x 4, 16 bits, to a sum", {2, 4}, 66, 30, TR_F16, true},
    {"2 x 4, more pieces than elements fit", {2, 4}, 600, 7, TR_F32, true},
};

/* Bytes out of node i, by hand. */
static size_t far_of(const struct way *w, int i)
{
    size_t n = (size_t)w->nodes.nodes, g = (size_t)w->nodes.ranks, S = (size_t)w->n * sizeof(float);

    return (i < w->nodes.nodes - 1 ? n * g * S : (n - 1) * g * S) + (w->add && i > 0 ? g * S : 0);
}

static void try_way(const struct way *w)
{
    struct job j[RANKS_MAX] = {0};
    void *args[RANKS_MAX];
    int node[RANKS_MAX], W = w->nodes.nodes * w->nodes.ranks;
    size_t sent[RANKS_MAX] = {0}, got[TR_LINK_CLASSES] = {0}, busiest = 0;
    struct tr_scatter_size size = {.nodes = w->nodes,
                                   .slice = (size_t)w->n * tr_dtype_bytes(w->wire),
                                   .sum = (size_t)w->n * sizeof(float),
                                   .add = w->add};
    struct tr_scatter_bytes want;
    int64_t pieces = (w->n * w->nodes.nodes + w->piece - 1) / w->piece;

    check_row(w->name);
    for (int k = 0; k < W; k++) {
        node[k] = k / w->nodes.ranks;
        j[k].way = w;
        args[k] = &j[k];
    }
    ranks_run_on(W, node, 7, body, args);
    for (int k = 0; k < W; k++) {
        CHECK_INT(j[k].failed, 0);
        CHECK_INT(j[k].calls, 2 * (pieces + w->nodes.nodes - 1) + (w->add ? pieces : 0));
        sent[node[k]] += j[k].bytes[TR_LINK_FAR];
        for (int c = 0; c < TR_LINK_CLASSES; c++)
            got[c] += j[k].bytes[c];
    }
    tr_chain_bytes(&size, &want);
    for (int i = 0; i < w->nodes.nodes; i++) {
        CHECK_INT((long long)sent[i], (long long)far_of(w, i));
        busiest = sent[i] > busiest ? sent[i] : busiest;
    }
    CHECK_INT((long long)want.self, (long long)got[TR_LINK_SELF]);
    CHECK_INT((long long)want.node, (long long)got[TR_LINK_NODE]);
    CHECK_INT((long long)want.far, (long long)got[TR_LINK_FAR]);
    CHECK_INT((long long)want.busiest, (long long)busiest);
}

/* Of slices of 4 bytes out of the busiest node and in all, worked out by hand. */
static void test_choice(void)
{
    static const struct {
        const char *name;
        struct tr_comm_nodes nodes;
        size_t slice;
        bool add, chain;
    } rows[] = {
        {"one node", {1, 8}, 4, false, false},
        {"2 x 1: 4 against 8", {2, 1}, 4, false, false},
        {"2 x 2: 16 both, 24 against 32 in all", {2, 2}, 4, false, true},
        {"2 x 2, to a sum: 32 both in all", {2, 2}, 4, true, false},
        {"3 x 2: 24 against 32", {3, 2}, 4, false, true},
        {"3 x 2, to a sum: 32 both, 80 against 96 in all", {3, 2}, 4, true, true},
        {"2 x 3: 24 against 36", {2, 3}, 4, true, true},
        {"4 x 1: 16 against 12", {4, 1}, 4, false, false},
        {"2 x 3, 16 bits: 24 against 18", {2, 3}, 2, false, false},
        {"2 x 4, 16 bits: 32 both, 48 against 64 in all", {2, 4}, 2, false, true},
        {"2 x 4, 16 bits, to a sum: 64 both in all", {2, 4}, 2, true, false},
        {"2 x 8, 16 bits", {2, 8}, 2, true, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct tr_scatter_size s = {rows[i].nodes, rows[i].slice, 4, rows[i].add};

        check_row(rows[i].name);
        CHECK_INT(tr_chain_fewer(&s), rows[i].chain);
        s.slice *= 1000;
        s.sum *= 1000;
        CHECK_INT(tr_chain_fewer(&s), rows[i].chain);
    }
}

static void test_nodes(void)
{
    static const struct {
        int size, node_of[6], nodes, ranks; /* nodes 0: no */
    } rows[] = {
        {4, {0, 0, 1, 1}, 2, 2},       {6, {0, 0, 1, 1, 2, 2}, 3, 2}, {6, {2, 2, 0, 0, 1, 1}, 3, 2},
        {3, {0, 1, 2}, 3, 1},          {4, {0, 0, 0, 0}, 1, 4},       {3, {0, 0, 1}, 0, 0},
        {5, {0, 0, 1, 1, 1}, 0, 0},    {4, {0, 1, 0, 1}, 0, 0},       {4, {0, 0, 1, 2}, 0, 0},
        {6, {0, 0, 1, 1, 0, 0}, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct tr_comm comm = {.size = rows[i].size, .node_of = rows[i].node_of};
        struct tr_comm_nodes got;
        bool good = tr_comm_nodes(&comm, &got);

        CHECK_INT(good, rows[i].nodes > 0);
        if (good)
            CHECK(got.nodes == rows[i].nodes && got.ranks == rows[i].ranks);
    }
}

static void test_piece(void)
{
    const struct tr_comm_nodes two = {2, 2};
    int64_t before = 0;

    CHECK_INT(tr_chain_piece(&two, 64), 128);
    CHECK_INT(tr_chain_piece(&two, 1 << 20), 1 << 17);
    CHECK_INT(tr_chain_piece(&two, INT64_C(1) << 30), 1 << 20);
    for (int64_t n = 64; n < 1 << 21; n += 64) {
        int64_t piece = tr_chain_piece(&two, n);

        if (piece < before || piece % 64 != 0)
            CHECK_INT(piece, before);
        before = piece;
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
        try_way(&ways[i]);
    test_choice();
    test_nodes();
    test_piece();
    return check_done();
}
