/* Retention: which ended runs stay in a home, and the removal of others (store/retain.h). */
#ifndef FR_RETAIN_RETAIN_H
#define FR_RETAIN_RETAIN_H

#include "engine/loop/loop.h"
#include "engine/spec/config.h"
#include "engine/store/blob.h"
#include "engine/store/retain.h"

/* The runs to remove, newest first. keep_runs: in the newest run of a pipeline overrides `keep`.
 * Never removed: pinned runs, a pipeline's newest succeeded and newest failed run, runs of an
 * active backfill. now_ms: ages count up to then; 0: no run is too old, as after a clock step. */
struct fr_keep_by {
    struct fr_keep_runs keep;
    int64_t now_ms;
};
enum fr_rc fr_retain_choose(struct fr_store *st, const struct fr_keep_by *by,
                            struct fr_arena *arena, struct fr_over_rows *out, struct fr_err *err);
/* Size of the run's folder. */
int64_t fr_retain_bytes(const struct fr_store *st, struct fr_id run);

/* Marks the run as removed: nothing shows it any more. fr_retain_step() deletes its files and rows.
 * FR_BUSY: it is not over, or is pinned. */
enum fr_rc fr_retain_remove(struct fr_store *st, struct fr_id run, struct fr_err *err);
/* Deletes some files and rows of removed runs, in a few milliseconds. *more: there may be more. An
 * error: the rest cannot be deleted now. */
enum fr_rc fr_retain_step(struct fr_store *st, bool *more, struct fr_err *err);
/* Deletes what no row refers to: blobs, folders of runs, files in transit between nodes. dry: only
 * counts. Adds to out. */
enum fr_rc fr_retain_sweep(struct fr_store *st, bool dry, struct fr_swept *out, struct fr_err *err);

/* Retention in a loop. It takes the pending steps in slices of a few milliseconds, one a second
 * while a run is live, so that commits do not wait. For a staying host a thread chooses once an
 * hour which runs to remove. */
struct fr_retain;
enum fr_rc fr_retain_create(struct fr_loop *loop, struct fr_store *st, struct fr_retain **out,
                            struct fr_err *err);
void fr_retain_destroy(struct fr_retain *r);         /* NULL is fine */
void fr_retain_wake(struct fr_retain *r);            /* a run was removed */
void fr_retain_live(struct fr_retain *r, bool live); /* whether a run is live */
void fr_retain_configure(struct fr_retain *r, const struct fr_keep_runs *keep);
void fr_retain_stay(struct fr_retain *r); /* the host stays: choose every hour */

#endif
