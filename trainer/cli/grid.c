#include "trainer/cli/grid.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/cli/cli.h"
#include "trainer/cli/ranks.h"
#include "trainer/comm/nccl_env.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMES = 5, VALUES = 5, PORTS = 31, OUT_MAX = 64 << 10, WHY = 160 };

/* A set's value for each variable; NULL: unset. */
struct set {
    const char *values[NAMES];
};

static const char *const names[NAMES] = {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD",
                                         "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_P2P_NET_CHUNKSIZE",
                                         "NCCL_BUFFSIZE"};

/* Variables that are tried together, and their values. */
static const struct axis {
    int first, n;
    const char *values[VALUES][2];
} axes[] = {
    {0, 2, {{"1", "4"}, {"2", "8"}, {"4", "1"}, {"4", "4"}, {"8", "8"}}},
    {2, 1, {{"2"}, {"4"}, {"8"}}},
    {3, 1, {{"262144"}, {"524288"}, {"1048576"}}},
    {4, 1, {{"1048576"}, {"8388608"}, {"16777216"}}},
};
static const double GAIN = 0.97;

/* A rank's result of a try; seconds are rank 0's. */
struct result {
    int32_t failed;
    double seconds;
    char why[WHY];
};

/* ---- one set, in processes of its own ---- */

/* A port beside the rendezvous port, which the machines let through; else any that is free. */
static int free_port(const struct tr_comm_opts *o)
{
    int port = 0, fd = -1;

    for (int i = 1; i <= PORTS && fd < 0; i++)
        fd = fr_sys.hold_port(o->port + i, &port);
    if (fd < 0)
        fd = fr_sys.hold_port(0, &port);
    if (fd >= 0)
        fr_sys.close(fd);
    return fd >= 0 ? port : 0;
}

/* The environment of a try: text holds what is its own. */
static const char **environment(const struct set *s, int port, struct fr_buf *text)
{
    tr_add_variable(text, "MASTER_PORT=%d", port);
    for (int i = 0; i < NAMES; i++)
        if (s->values[i] != NULL)
            tr_add_variable(text, "%s=%s", names[i], s->values[i]);
    return tr_environment(text);
}

/* Reads the output until it ends; false: the deadline passed, or it is too long. */
static bool read_output(int fd, int64_t deadline_ms, struct fr_buf *out)
{
    char piece[4096];
    ssize_t n = 1;

    while (n > 0 && out->n < OUT_MAX) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = deadline_ms - fr_sys.mono_ms();

        if (left <= 0)
            break;
        if (fr_sys.poll(&p, 1, (int)left) <= 0)
            continue;
        n = fr_sys.read(fd, piece, sizeof(piece));
        if (n > 0)
            fr_buf_add(out, piece, (size_t)n);
    }
    return n == 0;
}

static void judge(const struct fr_wait *w, const struct fr_buf *out, struct result *r)
{
    const char *at = out->n > 0 ? strstr(out->p, "{\"rail_us\":") : NULL;
    size_t n = out->n;

    r->failed = w->signaled || w->code != 0;
    if (at != NULL)
        r->seconds = strtod(strchr(at, ':') + 1, NULL) * 1e-6;
    while (n > 0 && out->p[n - 1] == '\n')
        n--;
    for (size_t line = n; r->failed && line > 0; line--)
        if (line == 1 || out->p[line - 2] == '\n') {
            (void)snprintf(r->why, sizeof(r->why), "%.*s", (int)(n - line + 1), out->p + line - 1);
            return;
        }
}

static enum fr_rc start(const struct tr_grid_opts *o, const char *const *env, int to,
                        struct fr_proc *proc, struct fr_err *err)
{
    char bytes[24], rounds[24], timeout[24];
    const char *argv[] = {tr_program(),
                          "probe",
                          "--rail",
                          bytes,
                          "--iterations",
                          rounds,
                          "--timeout",
                          timeout,
                          "--device",
                          "cuda",
                          o->comm->allow_slow_links ? "--allow_slow_links" : NULL,
                          NULL};
    struct fr_spawn s = {.argv = argv, .envp = env, .fds = {-1, to, to}, .die_with_parent = true};

    (void)snprintf(bytes, sizeof(bytes), "%zu", o->bytes);
    (void)snprintf(rounds, sizeof(rounds), "%d", o->rounds);
    (void)snprintf(timeout, sizeof(timeout), "%lldms", (long long)o->comm->join_ms);
    return fr_sys.spawn(&s, proc) == 0 ? FR_OK
                                       : fr_fail_errno(err, errno, "cannot start a try of NCCL");
}

/* This rank's part of a try. */
static enum fr_rc run_one(const struct tr_grid_opts *o, const struct set *s, int port,
                          struct result *r, struct fr_err *err)
{
    struct fr_buf text = {0}, out = {0};
    const char **env = environment(s, port, &text);
    int64_t deadline = fr_sys.mono_ms() + 2 * o->comm->join_ms;
    struct fr_proc proc = {0};
    struct fr_wait w = {0};
    int fds[2] = {-1, -1};
    enum fr_rc rc = FR_OK;

    if (env == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the environment of a try");
    else if (fr_sys.pipe(fds) != 0)
        rc = fr_fail_errno(err, errno, "a pipe");
    if (rc == FR_OK)
        rc = start(o, env, fds[1], &proc, err);
    if (fds[1] >= 0)
        fr_sys.close(fds[1]);
    if (rc == FR_OK) {
        if (!read_output(fds[0], deadline, &out))
            (void)fr_sys.kill(proc, SIGKILL);
        while (fr_sys.wait(proc.pid, &w, 0) != 0 && errno == EINTR) {
        }
        judge(&w, &out, r);
    }
    if (fds[0] >= 0)
        fr_sys.close(fds[0]);
    fr_buf_finish(&out);
    fr_buf_finish(&text);
    fr_sys.free(env);
    return rc;
}

/* A try on all ranks; *r is rank 0's, or the first failure. */
static enum fr_rc try_set(struct tr_bench *room, const struct tr_grid_opts *o, const struct set *s,
                          struct result *r, struct fr_err *err)
{
    int size = room->world->size;
    int32_t port = room->world->rank == 0 ? free_port(o->comm) : 0;
    struct result *all = fr_sys.alloc((size_t)(size + 1) * sizeof(*all)), *mine = all + size;
    enum fr_rc rc;

    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "results of %d ranks", size);
    memset(all, 0, (size_t)(size + 1) * sizeof(*all));
    rc = tr_comm_host_broadcast(room->world, &port, sizeof(port), 0, err);
    if (rc == FR_OK && port == 0)
        rc = fr_fail(err, FR_IO, "no free port for tries of NCCL");
    if (rc == FR_OK)
        rc = run_one(o, s, port, mine, err);
    if (rc == FR_OK)
        rc = tr_comm_host_all_gather(room->world, all, mine, sizeof(*mine), err);
    *r = all[0];
    for (int k = size - 1; k >= 0 && rc == FR_OK; k--)
        if (all[k].failed)
            *r = all[k];
    r->failed = r->failed || !(r->seconds > 0);
    fr_sys.free(all);
    return rc;
}

/* ---- the grid ---- */

static json_t *json_of(const struct set *s)
{
    json_t *o = json_object();

    for (int i = 0; i < NAMES; i++)
        if (s->values[i] != NULL)
            (void)json_object_set_new(o, names[i], json_string(s->values[i]));
    return o;
}

static enum fr_rc say(const struct tr_grid_opts *o, const struct set *s, const struct result *r,
                      json_t *grid, struct fr_err *err)
{
    double gbps = r->failed ? 0 : (double)o->bytes / r->seconds * 8e-9;
    json_t *row = json_pack("{s:o}", "set", json_of(s));
    struct fr_buf text = {0};

    for (int i = 0; i < NAMES; i++)
        if (s->values[i] != NULL)
            fr_buf_fmt(&text, " %s=%s", names[i] + strlen("NCCL_"), s->values[i]);
    if (r->failed) {
        fr_print("%12s %10s %s: %s\n", "-", "-", text.n > 0 ? text.p : " as it is", r->why);
        (void)json_object_set_new(row, "why", json_string(r->why));
    } else {
        fr_print("%12.1f %10.3f %s\n", r->seconds * 1e6, gbps, text.n > 0 ? text.p : " as it is");
        (void)json_object_set_new(row, "us", json_real(r->seconds * 1e6));
        (void)json_object_set_new(row, "bandwidth_gbps", json_real(gbps));
    }
    fr_buf_finish(&text);
    return row != NULL && json_array_append_new(grid, row) == 0
               ? FR_OK
               : fr_fail(err, FR_NOMEM, "no memory for the report");
}

/* Whether the user has set one of the variables; with tell, prints it. */
static bool users(const struct axis *a, bool tell)
{
    char path[PATH_MAX];
    struct tr_nccl_vars vars = tr_nccl_vars_here(path, sizeof(path));

    for (int i = a->first; i < a->first + a->n; i++)
        if (tr_nccl_set(&vars, names[i])) {
            if (tell)
                fr_print("%s is set already and stays\n", names[i]);
            return true;
        }
    return false;
}

struct search {
    struct tr_bench *room;
    const struct tr_grid_opts *o;
    json_t *grid;
    struct set best;
    double seconds; /* of it */
};

static enum fr_rc try_and_say(struct search *s, const struct set *set, struct result *r,
                              struct fr_err *err)
{
    enum fr_rc rc = try_set(s->room, s->o, set, r, err);

    return rc == FR_OK && s->room->world->rank == 0 ? say(s->o, set, r, s->grid, err) : rc;
}

static enum fr_rc search_axis(struct search *s, const struct axis *a, struct fr_err *err)
{
    struct set best = s->best;
    double seconds = s->seconds;
    enum fr_rc rc = FR_OK;

    for (int v = 0; v < VALUES && a->values[v][0] != NULL && rc == FR_OK; v++) {
        struct set set = s->best;
        struct result r;

        for (int i = 0; i < a->n; i++)
            set.values[a->first + i] = a->values[v][i];
        if ((rc = try_and_say(s, &set, &r, err)) != FR_OK || r.failed || r.seconds >= seconds ||
            r.seconds >= s->seconds * GAIN)
            continue;
        best = set;
        seconds = r.seconds;
    }
    s->best = best;
    s->seconds = seconds;
    return rc;
}

/* Ranks of other nodes may have other settings: what one has is set for all. */
static enum fr_rc agree(struct tr_bench *r, bool *set, struct fr_err *err)
{
    double any = *set;
    enum fr_rc rc = tr_comm_host_sum(r->world, &any, 1, err);

    *set = any > 0;
    return rc;
}

enum fr_rc tr_grid(struct tr_bench *r, const struct tr_grid_opts *o, json_t *grid, json_t *best,
                   struct fr_err *err)
{
    struct search s = {.room = r, .o = o, .grid = grid};
    bool first = r->world->rank == 0;
    struct result base;
    json_t *found;
    enum fr_rc rc;

    if (first)
        fr_print("\nNCCL's settings, %zu bytes a rank between nodes\n%12s %10s\n", o->bytes, "us",
                 "Gbit/s");
    if ((rc = try_and_say(&s, &s.best, &base, err)) != FR_OK)
        return rc;
    if (base.failed)
        return fr_fail(err, FR_PEER, "NCCL as it is set does not exchange tokens: %s", base.why);
    s.seconds = base.seconds;
    for (size_t i = 0; i < sizeof(axes) / sizeof(axes[0]) && rc == FR_OK; i++) {
        bool theirs = users(&axes[i], first);

        rc = agree(r, &theirs, err);
        if (rc == FR_OK && !theirs)
            rc = search_axis(&s, &axes[i], err);
    }
    found = json_of(&s.best);
    if (rc == FR_OK && first && json_object_update(best, found) != 0)
        rc = fr_fail(err, FR_NOMEM, "no memory for the report");
    json_decref(found);
    return rc;
}
