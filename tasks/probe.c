/*
 * nccl-probe: all nodes join a communicator; `flowtrain probe` checks and times an all-reduce, on
 * demand all collectives, and tries NCCL's settings. The
 * head reads its line, compares it with the thresholds, and names the node that is below.
 */
#include "tasks/launch.h"
#include "tasks/task.h"

#include "engine/base/json.h"
#include "engine/base/log.h"

#include <stdlib.h>
#include <string.h>

struct gate {
    double min_gbps, max_us; /* 0: none */
    const char *backend, *iface;
};

/* The probe's line in what the launcher printed; NULL when there is none. */
static json_t *find_line(const struct fr_buf *out)
{
    json_t *found = NULL;

    for (const char *p = out->p; p != NULL && *p != '\0';) {
        size_t n = strcspn(p, "\n");
        json_t *line = p[0] == '{' ? json_loadb(p, n, 0, NULL) : NULL;
        if (json_is_number(json_object_get(line, "bandwidth_gbps"))) {
            json_decref(found);
            found = json_incref(line);
        }
        json_decref(line);
        p += p[n] == '\n' ? n + 1 : n;
    }
    return found;
}

/* Adds to bad, for each rank that is below a threshold, its node and why. */
static void check_row(struct fr_job *job, const json_t *row, const struct gate *g,
                      struct fr_buf *bad)
{
    const char *name = fr_peer_name(job, json_integer_value(json_object_get(row, "node")));
    const char *iface = fr_text_at(row, "iface"), *comma = bad->n > 0 ? "; " : "";
    double gbps = json_number_value(json_object_get(row, "bandwidth_gbps"));
    double us = json_number_value(json_object_get(row, "latency_us"));

    fr_print("nccl-probe: %-16s rank %-3lld %-12s %10.3f Gbit/s\n", name,
             (long long)json_integer_value(json_object_get(row, "rank")), iface, gbps);
    if (g->min_gbps > 0 && gbps < g->min_gbps)
        fr_buf_fmt(bad, "%snode %s: %.3f Gbit/s, below min_bandwidth_gbps %g", comma, name, gbps,
                   g->min_gbps);
    else if (g->max_us > 0 && us > g->max_us)
        fr_buf_fmt(bad, "%snode %s: %.1f us, above max_latency_us %g", comma, name, us, g->max_us);
    else if (g->iface != NULL && strcmp(g->iface, iface) != 0)
        fr_buf_fmt(bad, "%snode %s: the route to the head takes %s, not %s", comma, name, iface,
                   g->iface);
}

static enum fr_rc check_rows(struct fr_job *job, const json_t *rows, const struct gate *g,
                             struct fr_err *err)
{
    struct fr_buf bad = {0};
    enum fr_rc rc = FR_OK;
    size_t i;
    json_t *row;

    json_array_foreach((json_t *)rows, i, row) check_row(job, row, g, &bad);
    if (bad.n > 0)
        rc = fr_fail(err, FR_PEER, "%s", bad.p);
    fr_buf_finish(&bad);
    return rc;
}

/* NCCL's best settings as the input nccl_env of train takes them: "NAME=VALUE NAME=VALUE". */
static enum fr_rc give_settings(struct fr_job *job, json_t *settings, struct fr_err *err)
{
    struct fr_buf text = {0};
    const char *name;
    json_t *value;
    enum fr_rc rc;

    json_object_foreach(settings, name, value)
        fr_buf_fmt(&text, "%s%s=%s", text.n > 0 ? " " : "", name, json_string_value(value));
    if (settings != NULL)
        fr_print("nccl-probe: NCCL is fastest %s%s\n", text.n > 0 ? "with " : "as it is",
                 text.n > 0 ? text.p : "");
    rc = fr_output(job, err, "nccl_env", "%s", text.n > 0 ? text.p : "");
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc judge(struct fr_job *job, const struct fr_launch *l, const struct gate *g,
                        struct fr_err *err)
{
    json_t *line = find_line(&l->out);
    double gbps = json_number_value(json_object_get(line, "bandwidth_gbps"));
    double us = json_number_value(json_object_get(line, "latency_us"));
    const char *transport = fr_text_at(line, "transport");
    enum fr_rc rc;

    if (line == NULL)
        return fr_fail(err, FR_PROTO, "flowtrain probe ended well without its report");
    json_object_set(job->did, "probe", line);
    rc = check_rows(job, json_object_get(line, "by_rank"), g, err);
    if (rc == FR_OK && g->max_us > 0 && us > g->max_us)
        rc = fr_fail(err, FR_PEER, "latency %.1f us, above max_latency_us %.1f", us, g->max_us);
    if (rc == FR_OK && strcmp(g->backend, "nccl") == 0 && strcmp(transport, "nccl") != 0)
        rc = fr_fail(err, FR_UNSUPPORTED, "backend nccl was asked for, the ranks met by %s",
                     transport);
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"bandwidth_gbps", gbps}, {"latency_us", us}};
    if (rc == FR_OK)
        rc = fr_output(job, err, "iface", "%s", fr_text_at(line, "iface"));
    for (size_t i = 0; rc == FR_OK && i < 2; i++)
        rc = fr_output(job, err, numbers[i].key, "%.6g", numbers[i].value);
    if (rc == FR_OK)
        rc = fr_output(job, err, "master_addr", "%s", l->master_addr);
    if (rc == FR_OK)
        rc = fr_output(job, err, "master_port", "%lld", (long long)l->master_port);
    if (rc == FR_OK)
        rc = give_settings(job, json_object_get(line, "nccl"), err);
    json_decref(line);
    return rc;
}

static enum fr_rc probe(struct fr_job *job, struct fr_err *err)
{
    struct fr_launch l = {.n = 0};
    int64_t bytes = fr_input_int(job, "size", 16 << 20);
    int64_t rounds = fr_input_int(job, "iterations", 10);
    int64_t timeout_ms = fr_input_int(job, "timeout", 120000);
    int64_t sweep = fr_input_int(job, "sweep", 0);
    struct gate g = {fr_input_real(job, "min_bandwidth_gbps", 0),
                     fr_input_real(job, "max_latency_us", 0), fr_input_text(job, "backend"),
                     fr_input_text(job, "interface")};
    enum fr_rc rc = fr_launch_begin(job, &l, err);

    if (rc == FR_OK && (rounds < 1 || rounds > 1000000))
        rc = fr_fail(err, FR_USAGE, "input 'iterations' is %lld; expected 1 to 1000000",
                     (long long)rounds);
    if (rc != FR_OK)
        return rc;
    if (g.backend == NULL)
        g.backend = "auto";
    if (g.iface != NULL)
        setenv("NCCL_SOCKET_IFNAME", fr_arena_fmt(&job->arena, "=%s", g.iface), 1);
    fr_launch_add(job, &l, "probe");
    fr_launch_flag(job, &l, "bytes", "%lld", (long long)bytes);
    fr_launch_flag(job, &l, "iterations", "%lld", (long long)rounds);
    fr_launch_flag(job, &l, "timeout", "%lldms", (long long)timeout_ms);
    if (sweep > 0)
        fr_launch_flag(job, &l, "sweep", "%lld", (long long)sweep);
    json_object_set_new(job->did, "node_rank", json_integer(l.node_rank));
    json_object_set_new(job->did, "nodes", json_integer(l.nnodes));
    fr_launch_show(job, &l);
    if (!job->dry_run)
        rc = fr_launch_run(&l, err);
    if (rc == FR_OK && !job->dry_run && l.node_rank == 0)
        rc = judge(job, &l, &g, err);
    fr_buf_finish(&l.out);
    return rc;
}

int fr_task_nccl_probe(int argc, char **argv)
{
    return fr_job_main("nccl-probe", argc, argv, probe);
}
