/*
 * A rank is killed at each call of an exchange, between processes on two nodes: the others end with
 * an error that names it, and none hangs. Without a kill all tokens come back. A rank that has
 * counted otherwise, so that it sends more, less, nothing, or where nothing is awaited: all end
 * with an error that says so.
 */
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/worlds.h"
#include "trainer/shard/exchange.h"

#include <signal.h>
#include <string.h>

enum { RANKS = 3, TOKENS = 6, E = 6, K = 2, N = 4, LAYERS = 20 };

/* Calls of the group in a layer: a landing rank hands out so much that there are two rounds. */
static const char *const calls[] = {"choices",  "to nodes", "to ranks", "back", "home",
                                    "to nodes", "to ranks", "back",     "home"};
enum { CALLS = sizeof(calls) / sizeof(*calls) };

/* What the last rank does at victim_call of the third layer. */
enum fault { DIES, SENDS_LESS, SENDS_MORE, SENDS_NOTHING, SENDS_UNASKED, FAULTS };
static const char *const faults[FAULTS] = {"dies at", "sends less", "sends more", "sends nothing",
                                           "sends unasked"};

static int victim_call = -1; /* inherited by the processes */
static enum fault fault;
static float tokens[TOKENS * N], sums[TOKENS * N];

/* The group's calls, of which the victim makes victim_call of the third layer no more. */
static struct tr_comm_ops counted;
static const struct tr_comm_ops *real;
static int made;

/* Whether this is the call; a rank that dies does so here. */
static bool is_victims(const struct tr_comm *comm)
{
    bool now = comm->rank == RANKS - 1 && victim_call >= 0 && made++ == 2 * CALLS + victim_call;

    if (now && fault == DIES)
        raise(SIGKILL);
    return now;
}

/* The same call with other bytes for one rank. */
static void miscount(const struct tr_alltoallv *x, struct tr_alltoallv *wrong)
{
    static char in[64 << 10];
    static size_t bytes[RANKS];
    int peer = -1;
    size_t end = 0;

    for (int k = 0; k < RANKS; k++) {
        bytes[k] = x->in_bytes[k];
        end = x->in_at[k] + bytes[k] > end ? x->in_at[k] + bytes[k] : end;
        if (k != RANKS - 1 && (bytes[k] == 0) == (fault == SENDS_UNASKED))
            peer = k;
    }
    memcpy(in, x->in, end);
    *wrong = *x;
    wrong->in = in;
    wrong->in_bytes = bytes;
    if (peer < 0)
        raise(SIGKILL); /* there is nothing to miscount: as good as dead */
    else if (fault == SENDS_LESS)
        bytes[peer] -= sizeof(float);
    else if (fault == SENDS_NOTHING)
        bytes[peer] = 0;
    else
        bytes[peer] += sizeof(float);
}

static struct tr_comm *the_group;

static enum fr_rc count_gather(void *self, struct tr_queue *q, const struct tr_allgather *x,
                               struct fr_err *err)
{
    (void)is_victims(the_group);
    return real->all_gather(self, q, x, err);
}

static enum fr_rc count_exchange(void *self, struct tr_queue *q, const struct tr_alltoallv *x,
                                 struct fr_err *err)
{
    struct tr_alltoallv wrong;

    if (!is_victims(the_group))
        return real->all_to_allv(self, q, x, err);
    miscount(x, &wrong);
    return real->all_to_allv(self, q, &wrong, err);
}

/* Every expert doubles, so a token's part is twice it for each expert that it has here. */
static enum fr_rc one_round(struct tr_exchange *x, struct tr_queue *q, int i, struct fr_err *err)
{
    static float here[RANKS * TOKENS * N];
    struct tr_exchange_round r;
    enum fr_rc rc = tr_exchange_round(x, q, i, &r, err);

    if (rc != FR_OK)
        return rc;
    struct tr_exchange_out out = {tr_view2(here, TR_F32, r.here, N),
                                  tr_view2(tokens + r.first * N, TR_F32, r.tokens, N)};
    struct tr_exchange_back back = {.y = tr_view2(sums + r.first * N, TR_F32, r.tokens, N),
                                    .in = out.out};

    if ((rc = tr_exchange_out(x, q, &out, err)) != FR_OK)
        return rc;
    for (int64_t c = 0; c < r.here; c++) {
        const int32_t *ids = (const int32_t *)r.ids.p + c * K;

        for (int64_t k = 0; k < N; k++)
            here[c * N + k] *= (float)(2 * ((ids[0] >= 0) + (ids[1] >= 0)));
    }
    return tr_exchange_back(x, q, &back, err);
}

static enum fr_rc one_layer(struct tr_exchange *x, struct tr_queue *q, int *wrong,
                            struct fr_err *err)
{
    static const int32_t rank[E] = {0, 0, 1, 1, 2, 2}, local[E] = {0, 1, 0, 1, 0, 1};
    struct tr_owners owners = {E, rank, local};
    struct tr_exchange_layer layer = {"layer 1 moe", &owners, 0, NULL};
    int32_t ids[TOKENS * K];
    int rounds = 0;
    enum fr_rc rc;

    for (int t = 0; t < TOKENS; t++) {
        ids[t * K] = t % 3;
        ids[t * K + 1] = 3 + t % 3;
        for (int i = 0; i < N; i++)
            tokens[t * N + i] = (float)(t + 1);
    }
    rc = tr_exchange_begin(x, q, tr_view2(ids, TR_I32, TOKENS, K), &layer, err);
    if (rc == FR_OK)
        rc = tr_exchange_plan(x, &layer, false, &rounds, err);
    for (int i = 0; i < rounds && rc == FR_OK; i++)
        rc = one_round(x, q, i, err);
    *wrong += rc == FR_OK && 1 + 4 * rounds != CALLS;
    for (int i = 0; i < TOKENS * N && rc == FR_OK; i++)
        *wrong += sums[i] != 2 * K * tokens[i];
    return rc;
}

/* Whether an error says what happened. */
static bool says_why(enum fr_rc rc, const char *text)
{
    if (rc == FR_PEER && strstr(text, "rank 2") != NULL)
        return true; /* it died, or had nothing to miscount */
    if (fault == SENDS_NOTHING && rc == FR_TIMEOUT && strstr(text, "waited") != NULL)
        return true; /* nobody can tell it from a rank that is slow */
    return fault != DIES && rc == FR_PROTO &&
           strstr(text, "disagree about who gets what") != NULL &&
           strstr(text, "layer 1 moe") != NULL;
}

/* 0: as it should be; 1: wrong values; 2: another error than that of the fault; 3: none came. */
static int layers(struct tr_comm *comm)
{
    struct tr_exchange_opts o = {.be = comm->be,
                                 .per_token = K,
                                 .tokens_max = TOKENS,
                                 .row_bytes = N * (int64_t)sizeof(float),
                                 .plans = 1};
    struct tr_exchange *x = NULL;
    struct tr_queue *q = NULL;
    struct tr_comm *group = NULL;
    struct fr_err err = {0};
    int wrong = 0;
    enum fr_rc rc = tr_comm_split(comm, 0, &group, &err);

    if (rc != FR_OK)
        return 2;
    real = group->ops;
    counted = *real;
    counted.all_gather = count_gather;
    counted.all_to_allv = count_exchange;
    group->ops = &counted;
    o.comm = the_group = group;
    rc = tr_queue_create(comm->be, 0, &q, &err);
    if (rc == FR_OK)
        rc = tr_exchange_create(&o, &x, &err);
    if (rc == FR_OK)
        rc = tr_exchange_alloc(x, &err);
    for (int i = 0; i < LAYERS && rc == FR_OK; i++)
        rc = one_layer(x, q, &wrong, &err);
    tr_exchange_destroy(x);
    tr_queue_destroy(comm->be, q);
    tr_comm_destroy(group);
    if (victim_call < 0)
        return rc != FR_OK || wrong > 0;
    if (rc == FR_OK)
        return 3;
    if (!says_why(rc, err.msg))
        printf("%s\n", err.msg);
    return says_why(rc, err.msg) ? 0 : 2;
}

/* The choices are equal slices, which cannot be miscounted. */
static void try_fault(enum fault f, int call)
{
    struct world w = {
        .size = RANKS, .per_node = 2, .timeout_ms = f == SENDS_NOTHING ? 4000 : 60000};
    int statuses[MAX];
    char row[64];

    (void)snprintf(row, sizeof(row), "%s %s", faults[f], call < 0 ? "nothing" : calls[call]);
    check_row(row);
    victim_call = call;
    fault = f;
    run_world(&w, layers, statuses);
    for (int r = 0; r < RANKS - 1; r++)
        CHECK_INT(statuses[r], 0);
    CHECK(statuses[RANKS - 1] == (call >= 0 && f == DIES ? 256 + SIGKILL : 0) ||
          (f != DIES && statuses[RANKS - 1] == 256 + SIGKILL));
}

int main(void)
{
    for (int call = -1; call < CALLS; call++)
        try_fault(DIES, call);
    for (int f = SENDS_LESS; f < FAULTS; f++)
        for (int call = 1; call < (f == SENDS_NOTHING ? 3 : CALLS); call++)
            try_fault((enum fault)f, call);
    return check_done();
}
