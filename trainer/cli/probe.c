/*
 * flowtrain probe: do the ranks reach each other, over which interface, how fast? Joins the
 * communicator, checks an all-reduce (reduce-scatter in rank order, then all-gather) of known
 * numbers and times it. Rank 0 prints one JSON line; each rank names its interface to it. Bus
 * bandwidth is NCCL's definition: bytes / seconds * 2 (n - 1) / n.
 */
#include "trainer/cli/cli.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/comm/comm.h"
#include "trainer/comm/join.h"
#include "trainer/comm/launch_env.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SMALL_ROUNDS = 50 };

struct row {
    char host[64], iface[IF_NAMESIZE];
    int32_t node;
    double seconds; /* best round of the large all-reduce, as this rank saw it */
};

struct room {
    struct tr_comm *comm;
    struct tr_backend *be;
    struct tr_queue *q;
    float *all, *slices, *mine; /* n, n, n / size */
    size_t n;
    int rounds; /* timed */
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum fr_rc all_reduce(struct room *r, size_t n, struct fr_err *err)
{
    int64_t part = (int64_t)n / r->comm->size;
    struct tr_reduce_scatter rs = {
        .out = tr_view1(r->mine, TR_F32, part),
        .in = tr_view2(r->all, TR_F32, r->comm->size, part),
        .slices = tr_view2(r->slices, TR_F32, r->comm->size, part),
        .what = "probe all-reduce",
    };
    struct tr_gather_item item = {r->all, r->mine, (size_t)part * sizeof(float)};
    struct tr_allgather ag = {&item, 1, "probe all-reduce"};
    enum fr_rc rc = tr_comm_reduce_scatter(r->comm, r->q, &rs, err);

    return rc == FR_OK ? tr_comm_all_gather(r->comm, r->q, &ag, err) : rc;
}

/* Rank k contributes k + i mod 7 at place i: the sum is known everywhere. */
static enum fr_rc check_once(struct room *r, struct fr_err *err)
{
    int size = r->comm->size;

    for (size_t i = 0; i < r->n; i++)
        r->all[i] = (float)(r->comm->rank + (int)(i % 7));
    enum fr_rc rc = all_reduce(r, r->n, err);
    for (size_t i = 0; i < r->n && rc == FR_OK; i++) {
        float want = (float)(size * (size - 1) / 2 + size * (int)(i % 7));
        if (r->all[i] != want)
            rc = fr_fail(err, FR_CORRUPT,
                         "all-reduce gave %g at element %zu on rank %d, expected %g",
                         (double)r->all[i], i, r->comm->rank, (double)want);
    }
    return rc;
}

static enum fr_rc best_time(struct room *r, size_t n, int rounds, double *seconds,
                            struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *seconds = 1e30;
    for (int k = 0; k < rounds && rc == FR_OK; k++) {
        if ((rc = tr_comm_host_barrier(r->comm, err)) != FR_OK)
            break;
        double t = now_s();
        rc = all_reduce(r, n, err);
        t = now_s() - t;
        *seconds = t < *seconds ? t : *seconds;
    }
    return rc;
}

/* The interface whose address our side of the rendezvous route has. */
static void find_iface(const struct tr_comm_opts *o, char out[IF_NAMESIZE])
{
    struct sockaddr_in6 me;
    struct ifaddrs *list = NULL;

    snprintf(out, IF_NAMESIZE, "?");
    if (!tr_route_source(o->addr, o->port, &me) || getifaddrs(&list) != 0)
        return;
    for (struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr == NULL)
            continue;
        bool same = false;
        if (i->ifa_addr->sa_family == AF_INET && IN6_IS_ADDR_V4MAPPED(&me.sin6_addr))
            same = memcmp(&((struct sockaddr_in *)i->ifa_addr)->sin_addr, &me.sin6_addr.s6_addr[12],
                          4) == 0;
        else if (i->ifa_addr->sa_family == AF_INET6)
            same = memcmp(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, &me.sin6_addr, 16) == 0;
        if (same)
            snprintf(out, IF_NAMESIZE, "%.*s", IF_NAMESIZE - 1, i->ifa_name);
    }
    freeifaddrs(list);
}

static enum fr_rc report(const struct tr_comm *c, const struct row *rows, size_t bytes,
                         double latency_us, struct fr_err *err)
{
    double worst = 0, factor = c->size > 1 ? 2.0 * (c->size - 1) / c->size : 1;
    json_t *nodes = json_array();

    for (int r = 0; r < c->size; r++) {
        double gbps = (double)bytes / rows[r].seconds * factor * 1e-9;
        worst = rows[r].seconds > worst ? rows[r].seconds : worst;
        json_array_append_new(nodes, json_pack("{s:i, s:i, s:s, s:s, s:f}", "rank", r, "node",
                                               (int)rows[r].node, "host", rows[r].host, "iface",
                                               rows[r].iface, "bandwidth_gbps", gbps * 8));
    }
    json_t *line = json_pack("{s:i, s:s, s:s, s:f, s:f, s:i, s:o}", "ranks", c->size, "transport",
                             c->ops->name, "iface", rows[0].iface, "bandwidth_gbps",
                             (double)bytes / worst * factor * 8e-9, "latency_us", latency_us,
                             "bytes", (int)bytes, "by_rank", nodes);
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text != NULL)
        fr_print("%s\n", text);
    json_decref(line);
    free(text);
    return text != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for the report");
}

static enum fr_rc measure(struct room *r, const struct tr_comm_opts *o, struct fr_err *err)
{
    struct row mine = {.node = r->comm->node}, *rows;
    double latency = 0;
    size_t small = (size_t)r->comm->size * 4;
    enum fr_rc rc = check_once(r, err);

    if (rc == FR_OK)
        rc = best_time(r, r->n, r->rounds, &mine.seconds, err);
    if (rc == FR_OK)
        rc = best_time(r, small, SMALL_ROUNDS, &latency, err);
    gethostname(mine.host, sizeof(mine.host) - 1);
    find_iface(o, mine.iface);
    rows = fr_sys.alloc((size_t)r->comm->size * sizeof(*rows));
    if (rows == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the report");
    if (rc == FR_OK)
        rc = tr_comm_host_all_gather(r->comm, rows, &mine, sizeof(mine), err);
    if (rc == FR_OK && r->comm->rank == 0)
        rc = report(r->comm, rows, r->n * sizeof(float), latency * 1e6, err);
    fr_sys.free(rows);
    return rc;
}

static enum fr_rc probe_ranks(const struct tr_comm_opts *o, int64_t bytes, int64_t rounds,
                              struct fr_err *err)
{
    struct room r = {.rounds = (int)rounds,
                     .n = (size_t)bytes / sizeof(float) / (size_t)o->size * (size_t)o->size};
    enum fr_rc rc = tr_cpu_create(&r.be, err);

    if (rc == FR_OK)
        rc = tr_queue_create(r.be, 0, &r.q, err);
    if (rc == FR_OK)
        rc = o->size > 1 ? tr_comm_cpu(r.be, o, &r.comm, err) : tr_comm_single(r.be, &r.comm, err);
    r.all = fr_sys.alloc(r.n * sizeof(float));
    r.slices = fr_sys.alloc(r.n * sizeof(float));
    r.mine = fr_sys.alloc(r.n * sizeof(float));
    if (rc == FR_OK && (r.all == NULL || r.slices == NULL || r.mine == NULL))
        rc = fr_fail(err, FR_NOMEM, "no memory for %lld bytes", (long long)bytes);
    if (rc == FR_OK)
        rc = measure(&r, o, err);
    if (rc != FR_OK && r.comm != NULL && err != NULL)
        tr_comm_abort(r.comm, err->msg);
    tr_comm_destroy(r.comm);
    if (r.q != NULL)
        tr_queue_destroy(r.be, r.q);
    tr_backend_destroy(r.be);
    fr_sys.free(r.all);
    fr_sys.free(r.slices);
    fr_sys.free(r.mine);
    return rc;
}

enum fr_rc tr_cmd_probe(int argc, const char *const *argv, struct fr_err *err)
{
    const char *size = "16MiB", *timeout = "60s", *iterations = "5";
    const struct tr_flag flags[] = {
        {"bytes", &size, NULL, "size of the timed all-reduce"},
        {"iterations", &iterations, NULL, "timed rounds; the best one counts"},
        {"timeout", &timeout, NULL, "how long to wait for the other ranks"},
    };
    struct tr_flags f = {.flags = flags, .n = sizeof(flags) / sizeof(flags[0])};
    struct tr_comm_opts o = {0};
    int64_t bytes = 0, rounds = 0;
    if (tr_wants_help(argc, argv))
        return tr_flags_print("flowtrain probe [FLAGS], started on every rank", &f, err);
    enum fr_rc rc = tr_flags_read(&f, argc, argv, err);

    if (rc == FR_OK && fr_parse_size(fr_str_of(size), &bytes, err) != FR_OK)
        return fr_while(err, "--bytes");
    if (rc == FR_OK && (fr_parse_i64(fr_str_of(iterations), &rounds, err) != FR_OK || rounds < 1 ||
                        rounds > 1000000))
        return fr_fail(err, FR_USAGE, "--iterations is '%s', expected 1 to 1000000", iterations);
    if (rc == FR_OK)
        rc = tr_launch_env(&o, err);
    if (rc == FR_OK && fr_parse_duration(fr_str_of(timeout), &o.join_ms, err) != FR_OK)
        rc = fr_while(err, "--timeout");
    o.timeout_ms = o.join_ms;
    if (rc == FR_OK && (bytes < 4096 * (int64_t)o.size || bytes > INT32_MAX))
        rc = fr_fail(err, FR_USAGE, "--bytes must be from %d to 2 GB for %d ranks", 4096 * o.size,
                     o.size);
    if (rc == FR_OK)
        rc = probe_ranks(&o, bytes, rounds, err);
    tr_comm_opts_finish(&o);
    return rc;
}
