/*
 * A cluster under Slurm, as one process asks it: its commands run one at a time as children of this
 * process, and never more than its budget allows. Calls never block; answers come from the loop's
 * turn, in the order of the calls of each kind.
 *
 * Budget. Commands that reach slurmctld (sbatch, squeue, scancel, sacct, scontrol show config) take
 * one of 6 places, refilled at `rpc` a minute (12; half of the rate limit that the cluster has, if
 * that is less). Links (srun) are not counted here: they are started by exec.
 *
 * Errors. A command that fails with "Unable to contact slurm controller" and the like, or is killed
 * after 30 s (sbatch: 60 s), is not an answer: the cluster is `away` from the first of these until
 * a command succeeds, and what was asked is asked again after 10 s, growing to 120 s. sbatch is not
 * repeated; its end is told.
 */
#ifndef FR_SLURM_CLUSTER_H
#define FR_SLURM_CLUSTER_H

#include "engine/base/err.h"
#include "engine/loop/loop.h"
#include "engine/slurm/commands.h"

struct fr_cluster;

struct fr_cluster_args {
    struct fr_loop *loop;
    const char *path;           /* a folder in front of PATH for the commands; NULL. Copied */
    int rpc;                    /* commands a minute; 0: 12 */
    void (*changed)(void *arg); /* away, or what is known of it, has changed */
    void *arg;
};
enum fr_rc fr_cluster_create(const struct fr_cluster_args *args, struct fr_cluster **out,
                             struct fr_err *err);
void fr_cluster_destroy(struct fr_cluster *c); /* no call answers after it; NULL is fine */

/* A command's end. code: exit status; -1: killed, or not started. Texts are borrowed for the call.
 */
struct fr_command_end {
    int code;
    struct fr_str out, errors;
};
/* argv[0] is a name, found by path and PATH; argv is copied. asks: it reaches slurmctld and takes a
 * place of the budget. repeat: an error of the kind above is not told, but the command repeated. */
struct fr_command {
    const char *const *argv;
    bool asks, repeat;
    int64_t limit_ms;
    void (*ended)(void *arg, const struct fr_command_end *end);
    void *arg;
};
enum fr_rc fr_cluster_run(struct fr_cluster *c, const struct fr_command *command,
                          struct fr_err *err);
void fr_cluster_forget(struct fr_cluster *c, void *arg); /* calls with that arg answer no more */

bool fr_cluster_may_ask(const struct fr_cluster *c); /* a command would start at once */
/* Since when it does not answer, wall ms; 0: it does. why: the newest error; "" none. */
int64_t fr_cluster_away(const struct fr_cluster *c, const char **why);
int64_t fr_cluster_asked(const struct fr_cluster *c); /* commands that reached slurmctld so far */

#endif
