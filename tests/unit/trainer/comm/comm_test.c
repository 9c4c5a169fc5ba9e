/* Collectives of the CPU transport between real processes: every size of world, shared memory and
 * TCP. */
#include "engine/base/str.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/worlds.h"

#include <signal.h>

/* Byte i of what rank `from` sends in round `k`. */
static uint8_t pattern(int from, int k, size_t i)
{
    return (uint8_t)(from * 31 + k * 7 + (int)(i % 251));
}

static int gather_round(struct tr_comm *c, size_t a, size_t b, int k)
{
    size_t n = (size_t)c->size;
    uint8_t *x = calloc(n, a), *y = calloc(n, b), *mine = malloc(b);
    struct tr_gather_item items[2] = {{x, x + (size_t)c->rank * a, a}, {y, mine, b}};
    struct tr_allgather g = {items, 2, "test gather"};
    int bad = 0;

    for (size_t i = 0; i < a; i++)
        x[(size_t)c->rank * a + i] = pattern(c->rank, k, i);
    for (size_t i = 0; i < b; i++)
        mine[i] = pattern(c->rank, k + 1, i);
    bad += tr_comm_all_gather(c, NULL, &g, NULL) != FR_OK;
    for (int r = 0; r < c->size; r++) {
        for (size_t i = 0; i < a; i++)
            bad += x[(size_t)r * a + i] != pattern(r, k, i);
        for (size_t i = 0; i < b; i++)
            bad += y[(size_t)r * b + i] != pattern(r, k + 1, i);
    }
    free(x);
    free(y);
    free(mine);
    return bad != 0;
}

static int exchange_round(struct tr_comm *c, size_t bytes, int k)
{
    size_t n = (size_t)c->size, at[MAX], got_at[MAX], give[MAX], take[MAX], sum = 0, got = 0;
    uint8_t *in = malloc(n * bytes), *out = malloc(n * bytes);
    struct tr_alltoall x = {out, in, bytes, "test exchange"};
    int bad = 0;

    for (int to = 0; to < c->size; to++)
        for (size_t i = 0; i < bytes; i++)
            in[(size_t)to * bytes + i] = pattern(c->rank * MAX + to, k, i);
    bad += tr_comm_all_to_all(c, NULL, &x, NULL) != FR_OK;
    for (int r = 0; r < c->size; r++)
        for (size_t i = 0; i < bytes; i++)
            bad += out[(size_t)r * bytes + i] != pattern(r * MAX + c->rank, k, i);
    for (int r = 0; r < c->size; r++) { /* unequal: rank a sends (a + 2b) % 5 quarters to rank b */
        give[r] = (size_t)((c->rank + 2 * r) % 5) * (bytes / 4);
        take[r] = (size_t)((r + 2 * c->rank) % 5) * (bytes / 4);
        at[r] = sum;
        got_at[r] = got;
        sum += give[r];
        got += take[r];
    }
    uint8_t *vin = malloc(sum + 1), *vout = malloc(got + 1);
    for (int to = 0; to < c->size; to++)
        for (size_t i = 0; i < give[to]; i++)
            vin[at[to] + i] = pattern(c->rank * MAX + to, k, i);
    struct tr_alltoallv v = {vout, vin, got_at, take, at, give, "test uneven exchange"};
    bad += tr_comm_all_to_allv(c, NULL, &v, NULL) != FR_OK;
    for (int r = 0; r < c->size; r++)
        for (size_t i = 0; i < take[r]; i++)
            bad += vout[got_at[r] + i] != pattern(r * MAX + c->rank, k, i);
    free(vin);
    free(vout);
    free(in);
    free(out);
    return bad != 0;
}

/* A sum that has other bits in another order of ranks. */
static int reduce_round(struct tr_comm *c, int64_t n)
{
    int64_t all = n * c->size;
    float *p = malloc((size_t)all * sizeof(*p)), *slices = malloc((size_t)all * sizeof(*p));
    struct tr_all_reduce x = {tr_view2(p, TR_F32, c->size, n), tr_view2(slices, TR_F32, c->size, n),
                              "test sum"};
    struct tr_queue *q = NULL;
    int bad = tr_queue_create(c->be, 0, &q, NULL) != FR_OK;

    for (int64_t i = 0; i < all; i++)
        p[i] = (float)pattern(c->rank, 1, (size_t)i) / 3;
    bad += tr_comm_all_reduce(c, q, &x, NULL) != FR_OK;
    for (int64_t i = 0; i < all; i++) {
        float sum = 0;
        for (int r = 0; r < c->size; r++)
            sum += (float)pattern(r, 1, (size_t)i) / 3;
        bad += p[i] != sum;
    }
    tr_comm_leave(c, q);
    tr_queue_destroy(c->be, q);
    free(p);
    free(slices);
    return bad != 0;
}

static int collectives(struct tr_comm *c)
{
    static const size_t sizes[] = {4, 252, 4096, 65540, 3 * 1024 * 1024 + 4};
    int bad = 0, root = c->size - 1;
    double sums[2] = {1.5, (double)c->rank};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        bad += gather_round(c, sizes[i], sizes[(i + 2) % 5], (int)i);
        bad += exchange_round(c, sizes[i], (int)i);
        uint8_t *p = calloc(1, sizes[i]);
        for (size_t k = 0; k < sizes[i] && c->rank == root; k++)
            p[k] = pattern(9, (int)i, k);
        struct tr_broadcast b = {p, sizes[i], root, "test broadcast"};
        size_t before = c->sent_bytes, others = (size_t)c->size - 1;
        int64_t calls = c->collectives;
        bad += tr_comm_broadcast(c, NULL, &b, NULL) != FR_OK;
        bad += c->sent_bytes - before != (c->rank == root ? others * sizes[i] : 0);
        bad += c->collectives != calls + 1;
        for (size_t k = 0; k < sizes[i]; k++)
            bad += p[k] != pattern(9, (int)i, k);
        free(p);
        bad += tr_comm_host_barrier(c, NULL) != FR_OK;
    }
    bad += reduce_round(c, 1) + reduce_round(c, 63) + reduce_round(c, 70001);
    bad += tr_comm_host_sum(c, sums, 2, NULL) != FR_OK;
    bad += sums[0] != 1.5 * c->size || sums[1] != c->size * (c->size - 1) / 2.0;
    return bad > 90 ? 90 : bad;
}

/* A communicator belongs to the queue of its first call; a group of all ranks to another. */
static int two_queues(struct tr_comm *c)
{
    struct tr_queue *q[2] = {NULL, NULL};
    uint8_t in[4] = {1, 2, 3, (uint8_t)c->rank}, out[4 * MAX] = {0};
    struct tr_gather_item item = {out, in, sizeof(in)};
    struct tr_allgather g = {&item, 1, "weights"};
    struct tr_broadcast b = {in, sizeof(in), 0, "state"};
    struct tr_alltoall x = {out, out, sizeof(in), "gradients"};
    struct tr_comm *group = NULL;
    struct fr_err err = {0};
    int bad = 0;

    for (int i = 0; i < 2; i++)
        bad += tr_queue_create(c->be, 0, &q[i], NULL) != FR_OK;
    bad += tr_comm_all_gather(c, q[0], &g, NULL) != FR_OK;
    bad += tr_comm_broadcast(c, q[1], &b, &err) != FR_BUG;
    bad += strcmp(err.msg, "state: a communicator's calls are all on one queue") != 0;
    bad += tr_comm_all_gather(c, q[1], &g, NULL) != FR_BUG;
    bad += tr_comm_all_to_all(c, q[1], &x, NULL) != FR_BUG;
    bad += tr_comm_split(c, 0, &group, NULL) != FR_OK;
    bad += group == NULL || group->size != c->size || group->rank != c->rank;
    bad += tr_comm_broadcast(group, q[1], &b, NULL) != FR_OK;
    bad += tr_comm_all_gather(c, q[0], &g, NULL) != FR_OK;
    tr_comm_destroy(group);
    tr_comm_leave(c, q[0]);
    bad += tr_comm_all_gather(c, q[1], &g, NULL) != FR_OK;
    tr_comm_leave(c, q[1]);
    for (int i = 0; i < 2; i++)
        tr_queue_destroy(c->be, q[i]);
    return bad;
}

/* The last rank dies in the middle; each other must learn of it and name it. */
static int one_dies(struct tr_comm *c)
{
    struct fr_err err = {0};
    uint8_t buf[MAX * 8] = {0};
    struct tr_gather_item item = {buf, buf + c->rank * 8, 8};
    struct tr_allgather g = {&item, 1, "layer 1 experts"};
    char name[32];
    /* it may die before the others have left the barrier */
    enum fr_rc rc = tr_comm_host_barrier(c, &err);

    if (c->rank == c->size - 1)
        raise(SIGKILL);
    snprintf(name, sizeof(name), "rank %d", c->size - 1);
    for (int i = 0; i < 1000 && rc == FR_OK; i++)
        rc = tr_comm_all_gather(c, NULL, &g, &err);
    return rc == FR_PEER && strstr(err.msg, name) != NULL ? 0 : 1;
}

/* Rank 0 never takes part: the others end at the time-out and name it. */
static int one_waits(struct tr_comm *c)
{
    struct fr_err err = {0};
    uint8_t buf[MAX * 8] = {0};
    struct tr_gather_item item = {buf, buf + c->rank * 8, 8};
    struct tr_allgather g = {&item, 1, "layer 2 experts"};

    if (c->rank == 0) {
        while (tr_comm_host_barrier(c, &err) == FR_OK) {
        }
        return err.rc == FR_TIMEOUT && strstr(err.msg, "layer 2 experts") != NULL ? 0 : 1;
    }
    enum fr_rc rc = tr_comm_all_gather(c, NULL, &g, &err);
    return rc == FR_TIMEOUT && strstr(err.msg, "layer 2 experts") != NULL ? 0 : 2;
}

/* Ranks call different collectives: checking mode says so. */
static int disagree(struct tr_comm *c)
{
    struct fr_err err = {0};
    uint8_t buf[MAX * 16] = {0};
    size_t bytes = c->rank == 1 ? 16 : 8;
    struct tr_gather_item item = {buf, buf + (size_t)c->rank * bytes, bytes};
    struct tr_allgather g = {&item, 1, c->rank == 1 ? "unit b" : "unit a"};

    enum fr_rc rc = tr_comm_all_gather(c, NULL, &g, &err);
    return rc == FR_PROTO && strstr(err.msg, "rank") != NULL ? 0 : 1;
}

/* Rows of two ranks, neighbours (X) and across (Z); what is called in each differs between groups.
 * 0 when all is well. */
static int make_groups(struct tr_comm *c, struct tr_comm **x, struct tr_comm **z)
{
    return (tr_comm_split(c, c->rank / 2, x, NULL) != FR_OK) +
           (tr_comm_split(c, c->rank % 2, z, NULL) != FR_OK);
}

/* An all-gather of 8 bytes, and of unequal slices: rank a sends a * 4 bytes to rank b, and takes
 * b * 4 of it, or `more`. */
static enum fr_rc call_in(struct tr_comm *g, const char *what, size_t more, struct fr_err *err)
{
    uint8_t in[64] = {0}, out[64] = {0};
    size_t at[2] = {0, 32}, give[2], take[2] = {0, 4 + more};
    struct tr_gather_item item = {out, in, 8};
    struct tr_allgather a = {&item, 1, what};
    struct tr_alltoallv v = {out, in, at, take, at, give, what};
    enum fr_rc rc = tr_comm_all_gather(g, NULL, &a, err);

    give[0] = give[1] = (size_t)g->rank * 4;
    return rc == FR_OK ? tr_comm_all_to_allv(g, NULL, &v, err) : rc;
}

/* Both kinds of groups, and the world between them. */
static int groups_agree(struct tr_comm *c, struct tr_comm *x, struct tr_comm *z)
{
    int bad = 0;

    for (int i = 0; i < 3; i++) {
        bad += call_in(x, c->rank / 2 == 0 ? "experts" : "experts of the second", 0, NULL) != FR_OK;
        bad += gather_round(c, 8, 4, i);
        bad += call_in(z, "weights", 0, NULL) != FR_OK;
        bad += tr_comm_host_barrier(c, NULL) != FR_OK;
    }
    return bad;
}

/* What every rank ends with: that of the first that differs. */
static int ends_with(struct tr_comm *c, enum fr_rc rc, struct fr_err *err, const char *want)
{
    while (rc == FR_OK)
        rc = tr_comm_host_barrier(c, err);
    if (rc == FR_PROTO && strstr(err->msg, want) != NULL)
        return 0;
    printf("rank %d: %s\n", c->rank, err->msg);
    return 1;
}

static int group_differs(struct tr_comm *c)
{
    struct tr_comm *x = NULL, *z = NULL;
    struct fr_err err = {0};
    int bad = make_groups(c, &x, &z);

    bad += groups_agree(c, x, z);
    bad += ends_with(c, call_in(z, c->rank == 3 ? "unit b" : "unit a", 0, &err), &err,
                     "ranks differ: rank 1 calls all_gather 'unit a' of 8 bytes, rank 3 "
                     "all_gather 'unit b' of 8 bytes");
    tr_comm_destroy(x);
    tr_comm_destroy(z);
    return bad;
}

static int slices_differ(struct tr_comm *c)
{
    struct tr_comm *x = NULL, *z = NULL;
    struct fr_err err = {0};
    int bad = make_groups(c, &x, &z);

    bad += ends_with(c, call_in(x, "rows", c->rank == 2 ? 4 : 0, &err), &err,
                     "all_to_allv 'rows': rank 3 sends 4 bytes to rank 2, which takes 8");
    tr_comm_destroy(x);
    tr_comm_destroy(z);
    return bad;
}

/* 0 and 3 begin with their neighbours, 1 and 2 across: each waits for another. */
static int circle(struct tr_comm *c)
{
    struct tr_comm *x = NULL, *z = NULL;
    struct fr_err err = {0};
    int bad = make_groups(c, &x, &z);
    bool first = c->rank == 0 || c->rank == 3;

    bad += ends_with(c, call_in(first ? x : z, first ? "experts" : "weights", 0, &err), &err,
                     "ranks differ: rank 0 calls all_gather 'experts' of 8 bytes, rank 1 "
                     "all_gather 'weights' of 8 bytes: none can go on");
    tr_comm_destroy(x);
    tr_comm_destroy(z);
    return bad;
}

/* Rank 2 waits for all where the others gather. */
static int one_elsewhere(struct tr_comm *c)
{
    struct fr_err err = {0};
    enum fr_rc rc = c->rank == 2 ? tr_comm_host_barrier(c, &err) : call_in(c, "weights", 0, &err);

    return ends_with(c, rc, &err, "rank 2 a host collective: none can go on");
}

static void differing(void)
{
    static const struct {
        const char *name;
        rank_body body;
    } rows[] = {{"a group differs", group_differs},
                {"slices of a group differ", slices_differ},
                {"groups in a circle", circle},
                {"one in a host collective", one_elsewhere}};
    int statuses[MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w = {.size = 4, .per_node = 2, .timeout_ms = 60000, .check = true};

        check_row(rows[i].name);
        run_world(&w, rows[i].body, statuses);
        for (int r = 0; r < w.size; r++)
            CHECK_INT(statuses[r], 0);
    }
}

int main(void)
{
    int statuses[MAX];

    for (int size = 1; size <= MAX; size++)
        for (int per_node = 0; per_node <= 3; per_node++) {
            struct world w = {.size = size,
                              .per_node = per_node > 0 ? per_node : size,
                              .timeout_ms = 60000,
                              .staged = per_node == 0};
            char row[64];
            snprintf(row, sizeof(row), "%d ranks, %d a node%s", size, w.per_node,
                     w.staged ? ", through host memory" : "");
            check_row(row);
            run_world(&w, collectives, statuses);
            for (int r = 0; r < size; r++)
                CHECK_INT(statuses[r], 0);
        }
    for (int size = 1; size <= MAX; size++) {
        struct world w = {.size = size, .per_node = 2, .timeout_ms = 60000};

        check_row("two queues");
        run_world(&w, two_queues, statuses);
        for (int r = 0; r < size; r++)
            CHECK_INT(statuses[r], 0);
    }
    struct world dying = {.size = 4, .per_node = 2, .timeout_ms = 60000};
    check_row("a rank dies");
    run_world(&dying, one_dies, statuses);
    for (int r = 0; r < 3; r++)
        CHECK_INT(statuses[r], 0);
    CHECK_INT(statuses[3], 256 + SIGKILL);
    struct world late = {.size = 3, .per_node = 3, .timeout_ms = 700};
    check_row("a rank never comes to the collective");
    run_world(&late, one_waits, statuses);
    for (int r = 0; r < 3; r++)
        CHECK_INT(statuses[r], 0);
    struct world unlike = {.size = 3, .per_node = 1, .timeout_ms = 60000, .check = true};
    check_row("ranks disagree");
    run_world(&unlike, disagree, statuses);
    for (int r = 0; r < 3; r++)
        CHECK_INT(statuses[r], 0);
    differing();
    return check_done();
}
