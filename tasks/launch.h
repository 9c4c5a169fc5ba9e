/* `flowtrain launch` on this node, as one member of the gang that the engine's environment
 * describes (engine/run/run.h: NNODES NODE_RANK MASTER_ADDR MASTER_PORT FLOWRUN_GENERATION …). */
#ifndef TASKS_LAUNCH_H
#define TASKS_LAUNCH_H

#include "tasks/command.h"
#include "tasks/job.h"

struct fr_launch {
    int64_t nnodes, node_rank, nproc; /* nproc: ranks on this node */
    const char *master_addr;
    int64_t master_port;
    int64_t generation;  /* try of the gang, from 1 */
    const char *program; /* flowtrain */
    const char **argv;   /* in the job's arena, NULL-ended; fr_launch_add() */
    size_t n, cap;
    int log_fd;
    struct fr_buf out; /* owns: the newest part of its output */
};

/* Reads the environment and the inputs nproc_per_node and port, and begins argv up to "--". */
enum fr_rc fr_launch_begin(struct fr_job *job, struct fr_launch *l, struct fr_err *err);

/* Adds one word after "--". A NULL word (no memory) makes fr_launch_run fail. */
void fr_launch_add(struct fr_job *job, struct fr_launch *l, const char *word);
/* Adds --NAME and its value. */
void fr_launch_flag(struct fr_job *job, struct fr_launch *l, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Runs it; its output is passed on. FR_STOPPED: by a signal; FR_USAGE: flowtrain refused its
 * arguments; FR_PEER: a rank failed. */
enum fr_rc fr_launch_run(struct fr_launch *l, struct fr_err *err);

/* Prints the command; a dry run also has it in its result. */
void fr_launch_show(struct fr_job *job, const struct fr_launch *l);

/* Path of flowtrain: what the engine shipped, else beside this program, else the name alone. */
const char *fr_flowtrain(struct fr_job *job);

#endif
