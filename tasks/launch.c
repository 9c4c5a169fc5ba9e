#include "tasks/launch.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *fr_flowtrain(struct fr_job *job)
{
    const char *shipped = fr_env("FLOWRUN_PROGRAM_FLOWTRAIN", NULL);
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (shipped != NULL)
        return shipped;
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash != NULL) {
        *slash = '\0';
        const char *beside = fr_arena_fmt(&job->arena, "%s/flowtrain", self);
        if (beside != NULL && access(beside, X_OK) == 0)
            return beside;
    }
    return "flowtrain";
}

void fr_launch_add(struct fr_job *job, struct fr_launch *l, const char *word)
{
    if (l->n + 2 > l->cap) {
        size_t cap = l->cap == 0 ? 128 : 2 * l->cap;
        const char **more = fr_arena_array(&job->arena, cap, sizeof(*more));
        if (more == NULL)
            return;
        if (l->n > 0)
            memcpy(more, l->argv, l->n * sizeof(*more));
        l->argv = more;
        l->cap = cap;
    }
    l->argv[l->n++] = word;
    l->argv[l->n] = NULL;
}

void fr_launch_flag(struct fr_job *job, struct fr_launch *l, const char *name, const char *fmt, ...)
{
    va_list ap;

    fr_launch_add(job, l, fr_arena_fmt(&job->arena, "--%s", name));
    va_start(ap, fmt);
    fr_launch_add(job, l, fr_arena_vfmt(&job->arena, fmt, ap));
    va_end(ap);
}

/* A port that is free now, for a single node without a given port. */
static int64_t free_port(void)
{
    int port = 0, fd = fr_sys.hold_port(0, &port);

    if (fd >= 0)
        fr_sys.close(fd);
    return port;
}

static enum fr_rc read_gang(struct fr_job *job, struct fr_launch *l, struct fr_err *err)
{
    int64_t gpus = fr_env_int("FLOWRUN_GPUS", 0), wanted_port = fr_input_int(job, "port", 0);

    l->nnodes = fr_env_int("NNODES", 1);
    l->node_rank = fr_env_int("NODE_RANK", 0);
    l->nproc = fr_input_int(job, "nproc_per_node", gpus > 0 ? gpus : 1);
    l->master_addr = fr_env("MASTER_ADDR", l->nnodes == 1 ? "127.0.0.1" : NULL);
    l->master_port = fr_env_int("MASTER_PORT", wanted_port);
    l->generation = fr_env_int("FLOWRUN_GENERATION", 0);
    if (l->generation <= 0)
        l->generation = fr_env_int("FLOWRUN_ATTEMPT_NO", 1);
    if (l->nproc < 1 || l->nproc > 256)
        return fr_fail(err, FR_USAGE, "input 'nproc_per_node' is %lld; expected 1 to 256",
                       (long long)l->nproc);
    if (l->nnodes < 1 || l->node_rank < 0 || l->node_rank >= l->nnodes)
        return fr_fail(err, FR_USAGE, "NODE_RANK %lld of NNODES %lld: no such node",
                       (long long)l->node_rank, (long long)l->nnodes);
    if (l->master_addr == NULL || (l->nnodes > 1 && l->master_port == 0))
        return fr_fail(err, FR_USAGE,
                       "MASTER_ADDR and MASTER_PORT are not set: with several nodes "
                       "the task needs `gang: true`");
    if (l->master_port == 0)
        l->master_port = free_port();
    if (l->master_port < 1 || l->master_port > 65535)
        return fr_fail(err, FR_USAGE, "port %lld is not from 1 to 65535",
                       (long long)l->master_port);
    return fr_inputs_ok(job, err);
}

enum fr_rc fr_launch_begin(struct fr_job *job, struct fr_launch *l, struct fr_err *err)
{
    enum fr_rc rc = read_gang(job, l, err);

    if (rc != FR_OK)
        return rc;
    l->program = fr_flowtrain(job);
    fr_launch_add(job, l, l->program);
    fr_launch_add(job, l, "launch");
    fr_launch_flag(job, l, "nproc_per_node", "%lld", (long long)l->nproc);
    fr_launch_flag(job, l, "nnodes", "%lld", (long long)l->nnodes);
    fr_launch_flag(job, l, "node_rank", "%lld", (long long)l->node_rank);
    fr_launch_flag(job, l, "master_port", "%lld", (long long)l->master_port);
    fr_launch_flag(job, l, "master_addr", "%s", l->master_addr);
    fr_launch_flag(job, l, "rdzv_id", "%s", fr_env("FLOWRUN_RUN", "none"));
    fr_launch_add(job, l, "--");
    return FR_OK;
}

void fr_launch_show(struct fr_job *job, const struct fr_launch *l)
{
    struct fr_buf line = {0};

    for (size_t i = 0; i < l->n; i++)
        fr_buf_fmt(&line, "%s%s", i > 0 ? " " : "", l->argv[i]);
    if (job->dry_run)
        fr_note(job, "commands", "run %s", line.p != NULL ? line.p : "");
    else
        fr_print("%s: run %s\n", job->name, line.p != NULL ? line.p : "");
    fr_buf_finish(&line);
}

/* The last line of a rank; the launcher's own lines follow it. */
static struct fr_str rank_line(const struct fr_buf *out)
{
    struct fr_str found = fr_last_line(out);

    for (const char *p = out->p; p != NULL && *p != '\0';) {
        size_t n = strcspn(p, "\n");
        if (fr_has_prefix(p, "flowtrain ") && !fr_has_prefix(p, "flowtrain launch: "))
            found = (struct fr_str){p, n};
        p += p[n] == '\n' ? n + 1 : n;
    }
    return found;
}

static enum fr_rc set_number(const char *name, int64_t value, struct fr_err *err)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)value);
    return setenv(name, text, 1) == 0 ? FR_OK
                                      : fr_fail(err, FR_NOMEM, "no memory for the environment");
}

/* Sets the ranks' variables besides torchrun's. Local nodes are one machine: they share its
 * processors, unless the pipeline sets the threads of a rank. */
static enum fr_rc set_environment(const struct fr_launch *l, struct fr_err *err)
{
    int64_t share = sysconf(_SC_NPROCESSORS_ONLN) / (l->nnodes * l->nproc);
    bool local = strcmp(fr_env("FLOWRUN_EXECUTOR", ""), "local") == 0 && l->nnodes > 1;
    enum fr_rc rc = set_number("FLOWTRAIN_GENERATION", l->generation, err);

    if (rc == FR_OK && local && fr_env("OMP_NUM_THREADS", NULL) == NULL)
        rc = set_number("OMP_NUM_THREADS", share > 1 ? share : 1, err);
    return rc;
}

enum fr_rc fr_launch_run(struct fr_launch *l, struct fr_err *err)
{
    struct fr_command c = {.argv = l->argv, .tee = true, .log_fd = l->log_fd};
    enum fr_rc rc;

    for (size_t i = 0; i < l->n; i++)
        if (l->argv[i] == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a command");
    rc = set_environment(l, err);
    if (rc == FR_OK)
        rc = fr_command_run(&c, err);
    l->out = c.out;
    if (rc == FR_NOTFOUND)
        return fr_fail(err, FR_NOTFOUND,
                       "flowtrain is not on this node: neither shipped "
                       "(needs_program), nor beside flownode, nor in PATH");
    if (rc != FR_OK || (c.code == 0 && !c.signaled))
        return rc;
    if (c.passed != 0)
        return fr_fail(err, FR_STOPPED, "stopped by signal %d", c.passed);
    struct fr_str why = rank_line(&c.out);
    return fr_fail(err, !c.signaled && c.code == 2 ? FR_USAGE : FR_PEER,
                   "flowtrain launch %s %d: %.*s",
                   c.signaled ? "was killed by signal" : "exited with status", c.code,
                   (int)(why.n < 300 ? why.n : 300), why.p);
}
