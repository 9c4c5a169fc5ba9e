/*
 * Files that cleanup removes: what matches a pattern below /dev/shm, /tmp or ~/.nv. Links are never
 * followed, neither on the way nor at the end; other owners' files, and files that a process has
 * open or mapped, are spared.
 */
#ifndef TASKS_SWEEP_H
#define TASKS_SWEEP_H

#include "tasks/stale.h"

struct fr_sweep {
    struct fr_job *job;
    const struct fr_stale *stale; /* shared machine: only names with an ended attempt's id */
    uid_t owner;
    struct fr_buf used; /* owns: paths that processes have open, a line each */
    bool looked;        /* used is filled in */
    size_t removed, spared;
};

/* FR_USAGE: not below one of the three folders, or with a part ".." or "." or "". */
enum fr_rc fr_sweep_check(const char *pattern, struct fr_err *err);

/* Removes what matches. FR_OK when nothing does. */
enum fr_rc fr_sweep_pattern(struct fr_sweep *s, const char *pattern, struct fr_err *err);
void fr_sweep_finish(struct fr_sweep *s);

#endif
