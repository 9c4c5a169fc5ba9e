/*
 * Which runs wait, and why.
 *
 * A run is active from its start to its end, also while nobody drives it. A home limits its active
 * runs (config.yaml), a pipeline those of its name, a pool those of all pipelines that name it. A
 * run that is submitted beyond a limit, or with
 * a time before which it must not start, is queued: it is checked, staged and committed, and
 * nothing of it starts. A retry of a run that is over waits likewise; a run that was left is
 * active, and a resume of it does not wait. The host admits the queued runs that it drives: the
 * larger priority first, then in the order of their numbers. A run whose pipeline has no room holds
 * up no other. A run of a flowrun inside a task is never queued: its task waits for it.
 *
 * A run of a schedule waits besides for the live runs of its pipeline, as overlap: says
 * (schedule/decide.h), and one that is to run again by itself is live, too; with cancel_previous it
 * asks those of before to end. One whose instant says that a newer one took its place is cancelled.
 */
#ifndef FR_HOST_QUEUE_H
#define FR_HOST_QUEUE_H

#include "engine/base/err.h"
#include "engine/spec/config.h"
#include "engine/store/store.h"

struct fr_queue_limits {
    int pipeline;                       /* its max_active_runs; 0: no limit */
    const struct fr_limits *home;       /* borrows */
    const struct fr_schedule *schedule; /* that made the run; NULL: none */
};

/* Whether run a is admitted before b, both queued. */
bool fr_queue_before(const struct fr_run_row *a, const struct fr_run_row *b);

/* Appends why a queued run waits, from the store alone: the limit and the runs that fill it
 * ("pool gpu-a 1 of 1: run 41 of deepseek-lora since 02:00"), the run before it, or the time;
 * nothing when it waits for none of these. */
enum fr_rc fr_queue_why(struct fr_store *st, const struct fr_queue_limits *limits,
                        const struct fr_run_row *run, struct fr_buf *out, struct fr_err *err);

#endif
