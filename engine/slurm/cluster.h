/*
 * A cluster under Slurm, as one process asks it: its commands run one at a time, on this machine or
 * where its runner runs them, and never more than its budget allows. Calls never block; ends are
 * told from the loop's turn, in the order of the calls.
 *
 * Budget. Commands that reach slurmctld (sbatch, squeue, scancel, scontrol show config) take one of
 * 6 places, refilled at `rpc` a minute (12), and so does sacct, which reaches slurmdbd: it runs
 * beside those, and its errors say nothing of slurmctld. Others run at once, beside them.
 * Links (srun) are not counted here: they are started by exec.
 *
 * Errors. A command that fails with "Unable to contact slurm controller" and the like, or is killed
 * after its limit, is no answer: the cluster is `away` from the first of these until a command
 * succeeds, and no command starts for 10 s, growing to 120 s. One with `repeat` is then started
 * again; the end of another (sbatch, scancel) is told. No command starts while its runner is not
 * ready; one whose end was lost with its runner's connection does not make the cluster away.
 */
#ifndef FR_SLURM_CLUSTER_H
#define FR_SLURM_CLUSTER_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/link/runner.h"
#include "engine/loop/loop.h"

struct fr_cluster;

struct fr_cluster_args {
    struct fr_loop *loop;
    const char *path; /* a folder in front of PATH for the commands here; NULL. Copied */
    const struct fr_runner *runner; /* runs them; NULL: this machine does. Outlives the cluster */
    int rpc;                        /* commands a minute; 0: 12 */
    void (*changed)(void *arg);     /* away, or its reason, has changed; NULL */
    void *arg;
};
enum fr_rc fr_cluster_create(const struct fr_cluster_args *args, struct fr_cluster **out,
                             struct fr_err *err);
/* No call answers after it. Not from a call of the cluster. NULL is fine. */
void fr_cluster_destroy(struct fr_cluster *c);

/* A command's end. code: exit status; 127: there is no such program; -1: killed, or not started.
 * errors: the last 2 KiB of what it said there, or why it was killed. Borrowed for the call. */
struct fr_command_end {
    int code;
    struct fr_str out, errors;
};
struct fr_command {
    const char *const *argv; /* argv[0] is a name, found by path and PATH. Copied */
    bool asks;               /* it reaches slurmctld, and takes a place of the budget */
    bool accounts;           /* it reaches slurmdbd alone, and takes a place of the budget, too */
    bool repeat;             /* started again until it is an answer */
    int64_t limit_ms;        /* 0: 30 s */
    void (*ended)(void *arg, const struct fr_command_end *end);
    void *arg;
};
enum fr_rc fr_cluster_run(struct fr_cluster *c, const struct fr_command *command,
                          struct fr_err *err);
/* Calls with that arg answer no more: those that wait are not started, one that runs is left to
 * end. */
void fr_cluster_forget(struct fr_cluster *c, const void *arg);

/* At most so many commands a minute, where that is less: what the cluster itself allows. */
void fr_cluster_limit(struct fr_cluster *c, int rpc);
/* Its runner has become ready: commands that waited for that start. */
void fr_cluster_ready(struct fr_cluster *c);
bool fr_cluster_may_ask(const struct fr_cluster *c); /* a command would start at once */
/* When fr_cluster_may_ask() may become true, mono_ms; 0: it is, INT64_MAX: a command's end, or the
 * runner, is waited for. */
int64_t fr_cluster_may_ask_ms(const struct fr_cluster *c);
/* Since when it does not answer, wall ms; 0: it does. why: the newest error; "" none. */
int64_t fr_cluster_away(const struct fr_cluster *c, const char **why);
int64_t fr_cluster_asked(const struct fr_cluster *c); /* places of the budget taken so far */

/* For links to the places of its allocations, which count in no budget. */
const struct fr_runner *fr_cluster_runner(const struct fr_cluster *c);

#endif
