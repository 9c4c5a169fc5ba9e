/*
 * Ended runs leave the store. A removed run goes in steps, each of which may be the last before a
 * crash: (1) one commit sets its state to `removed`, and no query of store.h finds it any more; (2)
 * the caller removes its folder; (3) fr_store_runs_drop removes its rows and the blobs that no
 * other run names, in commits of bounded size, the row of the run last; a row of audit says so. Any
 * writer goes on with the runs that fr_store_removed names.
 */
#ifndef FR_STORE_RETAIN_H
#define FR_STORE_RETAIN_H

#include "engine/store/store.h"

#define FR_OVER_COLUMNS(C, S, R)                                                                   \
    C(R, ID, id, NULL)                                                                             \
    C(R, INT, no, NULL)                                                                            \
    C(R, TEXT, name, NULL)                                                                         \
    C(R, OUTCOME, outcome, NULL)                                                                   \
    C(R, INT, ended_wall, NULL)                                                                    \
    C(R, INT, pinned, NULL)
FR_ROWS(fr_over, FR_OVER_COLUMNS); /* the newest first */

/* All runs that are over, have no automatic rerun due, and belong to no open backfill. */
enum fr_rc fr_store_runs_over(struct fr_store *st, struct fr_arena *arena, struct fr_over_rows *out,
                              struct fr_err *err);
/* A pinned run cannot be removed. FR_NOTFOUND. */
enum fr_rc fr_store_run_pin(struct fr_store *st, struct fr_id run, bool pin, struct fr_err *err);

/* Whether there is a row of the run, removed or not. */
enum fr_rc fr_store_run_known(struct fr_store *st, struct fr_id run, bool *yes, struct fr_err *err);

/* Step 1. FR_BUSY: the run is not over (any more), or is pinned, or removed. */
enum fr_rc fr_store_run_remove(struct fr_store *st, struct fr_id run, struct fr_err *err);
/* Step 1 of several runs in one commit; runs that changed since they were listed, or whose backfill
 * is open, are left. */
enum fr_rc fr_store_runs_remove(struct fr_store *st, const struct fr_over_row *rows, size_t n,
                                struct fr_err *err);
/* The run in step 2 or 3 that follows *run (zero: the first); zero: there is none. */
enum fr_rc fr_store_removed(struct fr_store *st, struct fr_id *run, struct fr_err *err);
/* One commit of step 3, of bounded size, for the runs in order. Free pages beyond 4 MiB go back to
 * the file system, 256 a commit. */
enum fr_rc fr_store_runs_drop(struct fr_store *st, const struct fr_id *runs, size_t n,
                              struct fr_err *err);

/* Gives free pages back to the file system if they are more than half of the file. Takes seconds in
 * which nobody else may write: call it while nothing of the home runs. */
enum fr_rc fr_store_shrink(struct fr_store *st, struct fr_err *err);

#endif
