/*
 * Processes that cleanup ends: those of given names, and the listener on a port. Never ended are
 *   - this process and its ancestors;
 *   - processes of another owner;
 *   - processes of a live attempt: they or an ancestor have FLOWRUN_ATTEMPT in the environment, and
 *     the supervisor of that attempt lives;
 *   - on a machine that several nodes (local ones) or jobs (of Slurm) share, processes without the
 *     id of an attempt of this node's own journal.
 */
#ifndef TASKS_STALE_H
#define TASKS_STALE_H

#include "tasks/job.h"

#include "engine/base/sys.h"
#include "engine/supervise/table.h"

struct fr_stale {
    struct fr_job *job;
    const char *home;      /* the node's, "" when unknown */
    struct fr_table table; /* what its journal says; owns */
    bool shared;           /* fr_machine_shared() */
    uid_t owner;
    struct fr_procinfo *procs; /* owns */
    size_t n;
    struct fr_proc *ending; /* in the job's arena, room for n */
    size_t n_ending;
};

enum fr_rc fr_stale_open(struct fr_job *job, uid_t owner, struct fr_stale *s, struct fr_err *err);
void fr_stale_close(struct fr_stale *s);

/* Marks all that are called name: the program file's name, or the process's own (comm). */
void fr_stale_named(struct fr_stale *s, const char *name);

/* Marks the processes that listen on port. FR_BUSY: one of them may not be ended (not reported on a
 * shared machine). */
enum fr_rc fr_stale_port(struct fr_stale *s, int64_t port, struct fr_err *err);

/* SIGTERM, grace_ms later SIGKILL, until each is gone; FR_BUSY names those that are not. */
enum fr_rc fr_stale_end(struct fr_stale *s, int64_t grace_ms, struct fr_err *err);

/* Classifies a file by the attempt ids in its name: of a live attempt of this home, only of ended
 * ones, or of none. */
enum fr_stale_name { FR_NAME_OTHER, FR_NAME_ENDED, FR_NAME_LIVE };
enum fr_stale_name fr_stale_name(const struct fr_stale *s, const char *name);

#endif
