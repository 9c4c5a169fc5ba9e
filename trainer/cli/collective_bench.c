#include "trainer/cli/collective_bench.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdio.h>

enum { SHORT = 64 << 10, SHORT_ROUNDS = 20, FIRST = 8, STEP = 8 };

static const char *const op_names[] = {"all_reduce", "all_gather", "all_to_all", "all_to_allv"};

/* Whether there are several nodes, of as many ranks each. */
static enum fr_rc find_rail(struct tr_bench *r, struct fr_err *err)
{
    int32_t mine = r->world->local_size, *all;
    enum fr_rc rc;

    if ((all = fr_sys.alloc((size_t)r->world->size * sizeof(*all))) == NULL)
        return fr_fail(err, FR_NOMEM, "sizes of %d ranks' nodes", r->world->size);
    rc = tr_comm_host_all_gather(r->world, all, &mine, sizeof(mine), err);
    r->rail = rc == FR_OK && r->world->nodes > 1;
    for (int k = 0; k < r->world->size; k++)
        r->rail = r->rail && all[k] == mine;
    fr_sys.free(all);
    return rc;
}

enum fr_rc tr_bench_make(struct tr_bench *r, size_t bytes, struct fr_err *err)
{
    size_t size = (size_t)r->world->size;
    void *p[2] = {0};
    enum fr_rc rc = tr_queue_create(r->be, 0, &r->q, err);

    r->n = (bytes / sizeof(float) + size) / size * size;
    for (int i = 0; i < 2 && rc == FR_OK; i++) {
        rc = tr_mem_alloc(r->be, TR_MEM_DEVICE, r->n * sizeof(float), &p[i], err);
        if (rc == FR_OK)
            rc = tr_zero(r->be, r->q, p[i], r->n * sizeof(float));
    }
    if (rc == FR_OK && (rc = tr_event_create_timed(r->be, &r->began, err)) == FR_OK)
        rc = tr_event_create_timed(r->be, &r->ended, err);
    if (rc == FR_OK)
        rc = find_rail(r, err);
    r->all = p[0];
    r->slices = p[1];
    return rc;
}

void tr_bench_finish(struct tr_bench *r)
{
    if (r->be == NULL)
        return;
    tr_mem_free(r->be, TR_MEM_DEVICE, r->all);
    tr_mem_free(r->be, TR_MEM_DEVICE, r->slices);
    tr_event_destroy(r->be, r->began);
    tr_event_destroy(r->be, r->ended);
    tr_queue_destroy(r->be, r->q);
}

/* Whether rank k has this rank's place in another node. */
static bool on_rail(const struct tr_comm *c, int k)
{
    int local = c->local_size;

    return k != c->rank && k % local == c->rank % local;
}

static enum fr_rc run_rail(struct tr_bench *r, const struct tr_timing *t, struct fr_err *err)
{
    int size = t->comm->size;
    size_t part = t->bytes / (size_t)(t->comm->nodes - 1), *n;
    struct tr_alltoallv v = {.out = r->slices, .in = r->all, .what = "of the probe"};
    enum fr_rc rc;

    if ((n = fr_sys.alloc(2 * (size_t)size * sizeof(*n))) == NULL)
        return fr_fail(err, FR_NOMEM, "sizes of %d ranks", size);
    for (int k = 0, peers = 0; k < size; k++) {
        n[k] = on_rail(t->comm, k) ? part : 0;
        n[size + k] = (size_t)peers * part;
        peers += on_rail(t->comm, k);
    }
    v.in_bytes = v.out_bytes = n;
    v.in_at = v.out_at = n + size;
    rc = tr_comm_all_to_allv(t->comm, r->q, &v, err);
    fr_sys.free(n);
    return rc;
}

static enum fr_rc run(struct tr_bench *r, const struct tr_timing *t, struct fr_err *err)
{
    size_t size = (size_t)t->comm->size, bytes = t->bytes / size;
    int64_t part = (int64_t)(bytes / sizeof(float));
    struct tr_all_reduce sum = {
        .p = tr_view2(r->all, TR_F32, (int64_t)size, part),
        .slices = tr_view2(r->slices, TR_F32, (int64_t)size, part),
        .what = "of the probe",
    };
    struct tr_gather_item item = {r->all, r->all + part * t->comm->rank, bytes};
    struct tr_allgather g = {&item, 1, "of the probe"};
    struct tr_alltoall a = {r->slices, r->all, bytes, "of the probe"};

    switch (t->op) {
    case TR_BENCH_ALL_REDUCE:
        return tr_comm_all_reduce(t->comm, r->q, &sum, err);
    case TR_BENCH_ALL_GATHER:
        return tr_comm_all_gather(t->comm, r->q, &g, err);
    case TR_BENCH_RAIL:
        return run_rail(r, t, err);
    default:
        return tr_comm_all_to_all(t->comm, r->q, &a, err);
    }
}

/* Rank k contributes k + i mod 7 at place i: the sum is known everywhere. */
static enum fr_rc check_sums(const struct tr_bench *r, const float *got, struct fr_err *err)
{
    int size = r->world->size;

    for (size_t i = 0; i < r->n; i++) {
        float want = (float)(size * (size - 1) / 2 + size * (int)(i % 7));

        if (got[i] != want)
            return fr_fail(err, FR_CORRUPT,
                           "all-reduce gave %g at element %zu on rank %d, expected %g",
                           (double)got[i], i, r->world->rank, (double)want);
    }
    return FR_OK;
}

enum fr_rc tr_bench_check(struct tr_bench *r, struct fr_err *err)
{
    struct tr_timing t = {r->world, TR_BENCH_ALL_REDUCE, r->n * sizeof(float), 1, 0};
    float *host = fr_sys.alloc(t.bytes);
    enum fr_rc rc;

    if (host == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu bytes", t.bytes);
    for (size_t i = 0; i < r->n; i++)
        host[i] = (float)(r->world->rank + (int)(i % 7));
    rc = tr_copy(r->be, r->q, r->all, host, t.bytes);
    if (rc == FR_OK)
        rc = run(r, &t, err);
    if (rc == FR_OK)
        rc = tr_copy(r->be, r->q, host, r->all, t.bytes);
    if (rc == FR_OK)
        rc = tr_sync(r->be, r->q, err);
    if (rc == FR_OK)
        rc = check_sums(r, host, err);
    fr_sys.free(host);
    return rc;
}

/* Times one round by the device's clock. */
static enum fr_rc time_round(struct tr_bench *r, const struct tr_timing *t, double *seconds,
                             struct fr_err *err)
{
    enum fr_rc rc = tr_event_record(r->be, r->q, r->began);

    if (rc == FR_OK)
        rc = run(r, t, err);
    if (rc == FR_OK)
        rc = tr_event_record(r->be, r->q, r->ended);
    if (rc == FR_OK)
        rc = tr_sync(r->be, r->q, err);
    if (rc == FR_OK)
        *seconds = r->be->queues->event_between(r->be->device, r->began, r->ended) * 1e-6;
    return rc;
}

enum fr_rc tr_bench_time(struct tr_bench *r, struct tr_timing *t, struct fr_err *err)
{
    size_t size = (size_t)(t->op == TR_BENCH_RAIL ? t->comm->nodes - 1 : t->comm->size);
    size_t part = t->bytes / sizeof(float) / size;
    enum fr_rc rc = FR_OK;

    t->bytes = (part > 0 ? part : 1) * size * sizeof(float);
    t->seconds = 1e30;
    for (int k = 0; k < t->rounds && rc == FR_OK; k++) {
        double s = 0;

        if ((rc = tr_comm_host_barrier(r->world, err)) == FR_OK)
            rc = time_round(r, t, &s, err);
        t->seconds = s < t->seconds ? s : t->seconds;
    }
    return rc;
}

double tr_bench_gbps(const struct tr_timing *t)
{
    double n = t->comm->size, share = n > 1 ? (n - 1) / n : 0.5;

    if (t->op == TR_BENCH_RAIL)
        return (double)t->bytes / t->seconds * 8e-9;

    return (double)t->bytes / t->seconds * share * (t->op == TR_BENCH_ALL_REDUCE ? 2 : 1) * 8e-9;
}

/* ---- sweep ---- */

enum fr_rc tr_bench_slowest(struct tr_bench *r, double *seconds, struct fr_err *err)
{
    double *all = fr_sys.alloc((size_t)r->world->size * sizeof(*all));
    enum fr_rc rc;

    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %d ranks", r->world->size);
    rc = tr_comm_host_all_gather(r->world, all, seconds, sizeof(*seconds), err);
    for (int k = 0; k < r->world->size && rc == FR_OK; k++)
        *seconds = all[k] > *seconds ? all[k] : *seconds;
    fr_sys.free(all);
    return rc;
}

/* Ranks that are timed together, by which calls. */
struct scope {
    const char *name, *title;
    struct tr_comm *comm;
    enum tr_bench_op first, last;
};

/* All collectives of one size: a row of the table. */
static enum fr_rc measure(struct tr_bench *r, const struct scope *s, struct tr_timing *asked,
                          json_t *rows, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    char line[128];
    int at = 0;

    for (int op = s->first; op <= (int)s->last && rc == FR_OK; op++) {
        struct tr_timing t = *asked;

        t.op = (enum tr_bench_op)op;
        rc = tr_bench_time(r, &t, err);
        if (rc == FR_OK)
            rc = tr_bench_slowest(r, &t.seconds, err);
        if (rc != FR_OK)
            break;
        if (at == 0)
            at = snprintf(line, sizeof(line), "%12zu", t.bytes);
        at += snprintf(line + at, sizeof(line) - (size_t)at, " %12.1f %10.3f", t.seconds * 1e6,
                       tr_bench_gbps(&t));
        if (json_array_append_new(
                rows, json_pack("{s:s, s:s, s:i, s:I, s:f, s:f}", "scope", s->name, "op",
                                op_names[op], "ranks", t.comm->size, "bytes", (json_int_t)t.bytes,
                                "us", t.seconds * 1e6, "bandwidth_gbps", tr_bench_gbps(&t))) != 0)
            rc = fr_fail(err, FR_NOMEM, "no memory for the report");
    }
    if (rc == FR_OK && r->world->rank == 0)
        fr_print("%s\n", line);
    return rc;
}

static void print_head(const struct scope *s)
{
    static const char *const titles[] = {"all-reduce", "all-gather", "all-to-all", "all-to-allv"};

    fr_print("\n%s: %d ranks by %s\n%12s", s->title, s->comm->size, s->comm->ops->name, "");
    for (int op = s->first; op <= (int)s->last; op++)
        fr_print(" %23s", titles[op]);
    fr_print("\n%12s", "bytes");
    for (int op = s->first; op <= (int)s->last; op++)
        fr_print(" %12s %10s", "us", "Gbit/s");
    fr_print("\n");
}

static enum fr_rc sweep_scope(struct tr_bench *r, const struct scope *s, size_t most, int rounds,
                              json_t *rows, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (r->world->rank == 0)
        print_head(s);
    for (size_t bytes = FIRST; rc == FR_OK; bytes = bytes * STEP < most ? bytes * STEP : most) {
        struct tr_timing t = {.comm = s->comm, .bytes = bytes, .rounds = rounds};

        if (bytes <= SHORT && rounds < SHORT_ROUNDS)
            t.rounds = SHORT_ROUNDS;
        rc = measure(r, s, &t, rows, err);
        if (bytes >= most)
            break;
    }
    return rc;
}

enum fr_rc tr_bench_sweep(struct tr_bench *r, size_t most, int rounds, json_t *rows,
                          struct fr_err *err)
{
    struct tr_comm *w = r->world;
    bool both = w->nodes > 1 && w->local_size > 1;
    const enum tr_bench_op last = TR_BENCH_ALL_TO_ALL;
    struct scope scopes[] = {
        {"node", "Inside a node", NULL, TR_BENCH_ALL_REDUCE, last},
        {"across", "Across nodes", NULL, TR_BENCH_ALL_REDUCE, last},
        {"all", "All ranks", w, TR_BENCH_ALL_REDUCE, last},
        {"rail", "Exchange of tokens between nodes", w, TR_BENCH_RAIL, TR_BENCH_RAIL}};
    int first = both ? 0 : 2, end = r->rail ? 4 : 3;
    enum fr_rc rc = FR_OK;

    if (both && (rc = tr_comm_split(w, w->node, &scopes[0].comm, err)) == FR_OK)
        rc = tr_comm_split(w, w->local_rank, &scopes[1].comm, err);
    if (!both) {
        scopes[2].name = w->nodes > 1 ? "across" : "node";
        scopes[2].title = w->nodes > 1 ? "Across nodes" : "Inside a node";
    }
    for (int i = first; i < end && rc == FR_OK; i++)
        rc = sweep_scope(r, &scopes[i], most, rounds, rows, err);
    tr_comm_destroy(scopes[0].comm);
    tr_comm_destroy(scopes[1].comm);
    return rc;
}
