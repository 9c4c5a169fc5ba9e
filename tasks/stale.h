/*
 * Processes that cleanup ends: those of given names, and whoever listens on a port. Whatever else
 * matches, spared are this process and its ancestors, processes of another owner, processes of a
 * live attempt (FLOWRUN_ATTEMPT in their environment or an ancestor's, of an attempt whose
 * supervisor lives), and on a local node, where several nodes share one machine, all that do not
 * carry an attempt of this node's own journal.
 */
#ifndef TASKS_STALE_H
#define TASKS_STALE_H

#include "tasks/job.h"

#include "engine/base/sys.h"
#include "engine/node/table.h"

struct fr_stale {
    struct fr_job *job;
    const char *home;      /* the node's, "" when unknown */
    struct fr_table table; /* what its journal says; owns */
    bool local;            /* this is a local node */
    uid_t owner;
    struct fr_procinfo *procs; /* owns */
    size_t n;
    struct fr_proc *doomed; /* in the job's arena, room for n */
    size_t n_doomed;
};

enum fr_rc fr_stale_open(struct fr_job *job, uid_t owner, struct fr_stale *s, struct fr_err *err);
void fr_stale_close(struct fr_stale *s);

/* Marks all that are called name: the program file's name, or the process's own (comm). */
void fr_stale_named(struct fr_stale *s, const char *name);

/* Marks who listens on port; FR_BUSY when somebody does who is spared, outside a local node. */
enum fr_rc fr_stale_port(struct fr_stale *s, int64_t port, struct fr_err *err);

/* SIGTERM, grace_ms later SIGKILL, until each is gone; FR_BUSY names those that are not. */
enum fr_rc fr_stale_end(struct fr_stale *s, int64_t grace_ms, struct fr_err *err);

/* Whether name holds the id of an attempt of this home that is over. */
bool fr_stale_carries(const struct fr_stale *s, const char *name);

#endif
