/*
 * Which ended runs stay in a home, and how the others leave it: store/retain.h has the steps.
 */
#ifndef FR_HOST_RETAIN_H
#define FR_HOST_RETAIN_H

#include "engine/exec/loop.h"
#include "engine/spec/config.h"
#include "engine/store/blob.h"
#include "engine/store/retain.h"

/* The runs that keep does not keep, the newest first. Pinned ones are never among them, nor the
 * newest succeeded and the newest failed one of a pipeline. */
enum fr_rc fr_retain_choose(struct fr_store *st, const struct fr_keep_runs *keep,
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

/* Makes the steps that an earlier process left, in a loop: one now, then one a second, so that no
 * run's commit waits for them. */
struct fr_retain;
enum fr_rc fr_retain_create(struct fr_loop *loop, struct fr_store *st, struct fr_retain **out,
                            struct fr_err *err);
void fr_retain_destroy(struct fr_retain *r); /* NULL is fine */
void fr_retain_wake(struct fr_retain *r);    /* a run was removed */

#endif
