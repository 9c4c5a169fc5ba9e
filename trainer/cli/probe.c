/*
 * flowtrain probe: do the ranks reach each other, over which interface, how fast? Joins the
 * communicator, checks an all-reduce of known numbers and times it; on demand times every
 * collective over a range of sizes. Rank 0 prints tables, and last one JSON line; each rank names
 * its interface to it.
 */
#include "trainer/cli/cli.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/backend/device.h"
#include "trainer/cli/grid.h"
#include "trainer/cli/ranks.h"
#include "trainer/cli/collective_bench.h"
#include "trainer/comm/join.h"
#include "trainer/comm/launch_env.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SMALL_ROUNDS = 50 };

/* The command's arguments. */
struct asked {
    const char *size, *sweep_size, *rail_size, *timeout;
    int64_t bytes, sweep, rail, rounds; /* sweep, rail 0: none */
    bool slow;
    struct tr_ranks ranks;
    struct tr_comm_opts comm;
};

struct row {
    char host[64], iface[IF_NAMESIZE];
    int32_t node;
    double gbps; /* of the best round of the large all-reduce, as this rank saw it */
};

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

/* Parts that a sweep adds to the report. */
struct tables {
    json_t *sweep, *grid, *best; /* own */
};

static void add_tables(json_t *line, const struct tables *t)
{
    if (json_array_size(t->sweep) > 0)
        json_object_set(line, "sweep", t->sweep);
    if (json_array_size(t->grid) > 0) {
        json_object_set(line, "nccl_grid", t->grid);
        json_object_set(line, "nccl", t->best);
    }
}

static enum fr_rc report(const struct tr_comm *c, const struct row *rows,
                         const struct tr_timing *large, double latency_us, const struct tables *t,
                         struct fr_err *err)
{
    double worst = rows[0].gbps;
    json_t *nodes = json_array();

    for (int r = 0; r < c->size; r++) {
        worst = rows[r].gbps < worst ? rows[r].gbps : worst;
        json_array_append_new(nodes, json_pack("{s:i, s:i, s:s, s:s, s:f}", "rank", r, "node",
                                               (int)rows[r].node, "host", rows[r].host, "iface",
                                               rows[r].iface, "bandwidth_gbps", rows[r].gbps));
    }
    json_t *line =
        json_pack("{s:i, s:s, s:s, s:f, s:f, s:I, s:o}", "ranks", c->size, "transport",
                  c->ops->name, "iface", rows[0].iface, "bandwidth_gbps", worst, "latency_us",
                  latency_us, "bytes", (json_int_t)large->bytes, "by_rank", nodes);
    if (line != NULL)
        add_tables(line, t);
    enum fr_rc rc = fr_json_print(line, JSON_COMPACT | JSON_REAL_PRECISION(6), err);
    json_decref(line);
    return rc;
}

/* Every collective; where NCCL carries them between nodes, its settings for the exchange. */
static enum fr_rc sweep(struct tr_bench *r, const struct asked *a, const struct tables *t,
                        struct fr_err *err)
{
    const struct tr_grid_opts o = {
        .bytes = (size_t)a->sweep, .rounds = (int)a->rounds, .comm = &a->comm};
    enum fr_rc rc = tr_bench_sweep(r, (size_t)a->sweep, (int)a->rounds, t->sweep, err);

    if (rc == FR_OK && r->rail && strcmp(r->world->ops->name, "nccl") == 0)
        rc = tr_grid(r, &o, t->grid, t->best, err);
    return rc;
}

/* The exchange between nodes alone: one line, on rank 0. */
static enum fr_rc measure_rail(struct tr_bench *r, const struct asked *a, struct fr_err *err)
{
    struct tr_timing t = {
        .comm = r->world, .op = TR_BENCH_RAIL, .bytes = (size_t)a->rail, .rounds = (int)a->rounds};
    enum fr_rc rc;

    if (!r->rail)
        return fr_fail(err, FR_USAGE, "--rail: there are not several nodes of as many ranks each");
    rc = tr_bench_time(r, &t, err);
    if (rc == FR_OK)
        rc = tr_bench_slowest(r, &t.seconds, err);
    if (rc == FR_OK && r->world->rank == 0)
        fr_print("{\"rail_us\": %.3f, \"bytes\": %zu}\n", t.seconds * 1e6, t.bytes);
    return rc;
}

static enum fr_rc measure(struct tr_bench *r, const struct asked *a, const struct tables *t,
                          struct fr_err *err)
{
    size_t size = (size_t)r->world->size;
    struct tr_timing large = {r->world, TR_BENCH_ALL_REDUCE, (size_t)a->bytes, (int)a->rounds, 0};
    struct tr_timing small = {r->world, TR_BENCH_ALL_REDUCE, 16 * size, SMALL_ROUNDS, 0};
    struct row mine = {.node = r->world->node}, *rows = NULL;
    enum fr_rc rc = tr_bench_check(r, err);

    if (rc == FR_OK)
        rc = tr_bench_time(r, &large, err);
    if (rc == FR_OK)
        rc = tr_bench_time(r, &small, err);
    if (rc == FR_OK && a->sweep > 0)
        rc = sweep(r, a, t, err);
    if (rc != FR_OK)
        return rc;
    mine.gbps = tr_bench_gbps(&large);
    gethostname(mine.host, sizeof(mine.host) - 1);
    find_iface(&a->comm, mine.iface);
    rows = fr_sys.alloc(size * sizeof(*rows));
    if (rows == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the report");
    if (rc == FR_OK)
        rc = tr_comm_host_all_gather(r->world, rows, &mine, sizeof(mine), err);
    if (rc == FR_OK && r->world->rank == 0)
        rc = report(r->world, rows, &large, small.seconds * 1e6, t, err);
    fr_sys.free(rows);
    return rc;
}

static enum fr_rc probe_ranks(struct asked *a, struct fr_err *err)
{
    struct tr_ranks *ranks = &a->ranks;
    struct tr_bench room = {0};
    struct tables t = {json_array(), json_array(), json_object()};
    int64_t most = a->sweep > a->bytes ? a->sweep : a->bytes;
    enum fr_rc rc = tr_ranks_join(ranks, &a->comm, err);

    if (rc == FR_OK) {
        room = (struct tr_bench){.be = ranks->be, .world = ranks->comm};
        rc = tr_bench_make(&room, (size_t)(a->rail > 0 ? a->rail : most), err);
    }
    if (rc == FR_OK)
        rc = a->rail > 0 ? measure_rail(&room, a, err) : measure(&room, a, &t, err);
    if (rc != FR_OK && ranks->comm != NULL && err != NULL)
        tr_comm_abort(ranks->comm, err->msg);
    tr_bench_finish(&room);
    tr_comm_destroy(ranks->comm);
    tr_backend_destroy(ranks->be);
    json_decref(t.sweep);
    json_decref(t.grid);
    json_decref(t.best);
    return rc;
}

/* A size between what all ranks need and what a count of them can hold. */
static enum fr_rc parse_bytes(const char *flag, const char *text, int size, int64_t *bytes,
                              struct fr_err *err)
{
    if (fr_parse_size(fr_str_of(text), bytes, err) != FR_OK)
        return fr_while(err, "--%s", flag);
    if (*bytes < 4096 * (int64_t)size || *bytes > INT32_MAX)
        return fr_fail(err, FR_USAGE, "--%s must be from %d to 2 GB for %d ranks", flag,
                       4096 * size, size);
    return FR_OK;
}

static enum fr_rc probe(struct tr_call *call, struct fr_err *err)
{
    struct asked *a = call->options;
    enum fr_rc rc = tr_launch_env(&a->comm, err);

    if (rc == FR_OK)
        rc = parse_bytes("bytes", a->size, a->comm.size, &a->bytes, err);
    if (rc == FR_OK && a->sweep_size != NULL)
        rc = parse_bytes("sweep", a->sweep_size, a->comm.size, &a->sweep, err);
    if (rc == FR_OK && a->rail_size != NULL)
        rc = parse_bytes("rail", a->rail_size, a->comm.size, &a->rail, err);
    if (rc == FR_OK && fr_parse_duration(fr_str_of(a->timeout), &a->comm.join_ms, err) != FR_OK)
        rc = fr_while(err, "--timeout");
    a->comm.timeout_ms = a->comm.join_ms;
    a->comm.allow_slow_links = a->slow;
    if (rc == FR_OK)
        rc = probe_ranks(a, err);
    tr_comm_opts_finish(&a->comm);
    return rc;
}

#define AT(member) offsetof(struct asked, member)

static const struct tr_flag flags[] = {
    TR_FLAG("bytes", TR_TEXT, AT(size), "size of the timed all-reduce"),
    TR_FLAG("iterations", TR_INT, AT(rounds), "timed rounds; the best one counts", .least = 1,
            .most = 1000000),
    TR_FLAG("sweep", TR_TEXT, AT(sweep_size),
            "time every collective from 8 bytes to this, as 256MiB; and where NCCL works between "
            "nodes, find its best settings for the exchange of tokens"),
    TR_FLAG("rail", TR_TEXT, AT(rail_size), "time this exchange alone, so many bytes a rank"),
    TR_FLAG("device", TR_CHOICE, AT(ranks.device), "auto, cpu or cuda", TR_DEVICES),
    TR_FLAG("transport", TR_CHOICE, AT(ranks.transport), "between GPUs: auto, nccl or host",
            TR_TRANSPORTS),
    TR_FLAG("allow_slow_links", TR_SWITCH, AT(slow), "NCCL may go without NVLink inside a node"),
    TR_FLAG("timeout", TR_TEXT, AT(timeout), "how long to wait for the other ranks"),
};

const struct tr_command tr_cmd_probe = {
    .name = "probe",
    .summary = "check and time the connections between ranks",
    .usage = "flowtrain probe [FLAGS], started on every rank\n\n",
    TR_FLAGS(flags, struct asked),
    .initial = &(const struct asked){.size = "16MiB", .timeout = "60s", .rounds = 5},
    .run = probe,
};
