/*
 * Which ended runs stay in a home, and how the others leave it: store/retain.h has the steps.
 */
#ifndef FR_RETAIN_RETAIN_H
#define FR_RETAIN_RETAIN_H

#include "engine/loop/loop.h"
#include "engine/spec/config.h"
#include "engine/store/blob.h"
#include "engine/store/retain.h"

/* The runs that keep does not keep, the newest first; what keep_runs: says in the newest run of a
 * pipeline wins. Pinned ones are never among them, nor the newest succeeded and the newest failed
 * one of a pipeline, nor those of a backfill that goes on. now_ms: a run's age counts up to then;
 * 0: none is too old, as behind a step of the clock. */
struct fr_keep_by {
    struct fr_keep_runs keep;
    int64_t now_ms;
};
enum fr_rc fr_retain_choose(struct fr_store *st, const struct fr_keep_by *by,
                            struct fr_arena *arena, struct fr_over_rows *out, struct fr_err *err);
/* Size of the run's folder. */
int64_t fr_retain_bytes(const struct fr_store *st, struct fr_id run);

/* The run is removed: nothing shows it from now on. fr_retain_step does the rest. FR_BUSY: it is
 * not over, or is pinned. */
enum fr_rc fr_retain_remove(struct fr_store *st, struct fr_id run, struct fr_err *err);
/* Some of the files and rows of a removed run go, in a few milliseconds. *more: something went, and
 * there may be more. An error: what is left cannot be removed now. */
enum fr_rc fr_retain_step(struct fr_store *st, bool *more, struct fr_err *err);
/* What no row knows goes: blobs, folders of runs, files that were on their way between nodes. dry:
 * it is counted alone. Adds to out. */
enum fr_rc fr_retain_sweep(struct fr_store *st, bool dry, struct fr_swept *out, struct fr_err *err);

/* In a loop. It makes the steps that are left, in slices of a few milliseconds: one a second while
 * a run is live, so that no commit of a run waits long for them. Of a host that stays it looks once
 * an hour, in a thread, which runs keep does not keep, and removes those. */
struct fr_retain;
enum fr_rc fr_retain_create(struct fr_loop *loop, struct fr_store *st, struct fr_retain **out,
                            struct fr_err *err);
void fr_retain_destroy(struct fr_retain *r);         /* NULL is fine */
void fr_retain_wake(struct fr_retain *r);            /* a run was removed */
void fr_retain_live(struct fr_retain *r, bool live); /* whether a run is */
void fr_retain_configure(struct fr_retain *r, const struct fr_keep_runs *keep);
void fr_retain_stay(struct fr_retain *r); /* from now on it looks by itself */

#endif
