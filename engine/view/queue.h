/*
 * The queue: which runs wait, and why.
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
#ifndef FR_VIEW_QUEUE_H
#define FR_VIEW_QUEUE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/schedule/decide.h"
#include "engine/spec/config.h"
#include "engine/store/store.h"

struct fr_queue_limits {
    int pipeline;                       /* its max_active_runs; 0: no limit */
    const struct fr_limits *home;       /* borrows */
    const struct fr_schedule *schedule; /* of the run; NULL: none made it */
};

/* Whether run a is admitted before b, both queued. */
bool fr_queue_before(const struct fr_run_row *a, const struct fr_run_row *b);
int fr_queue_order(const void *a, const void *b); /* the same of run rows, for qsort */

bool fr_queue_waits(const struct fr_run_row *row);

/* The host's knowledge of its runs, which is ahead of the store; NULL: the store alone. */
struct fr_queue_driven {
    bool (*waits)(const void *arg, const struct fr_run_row *row); /* as fr_queue_waits() */
    const void *arg;
};

/* Keeps only the rows of active runs. */
void fr_queue_active(struct fr_run_rows *rows, const struct fr_queue_driven *driven);
/* Whether a limit keeps a run of that pipeline and pool from starting. */
bool fr_queue_full(const struct fr_run_rows *active, const char *name, const char *pool,
                   const struct fr_queue_limits *limits);

/* Whether the run also waits for live runs of its schedule s (NULL: none). A retry, a repeated run
 * and a run of a backfill wait for limits alone. */
bool fr_queue_overlaps(const struct fr_run_row *row, const struct fr_schedule *s);
/* The live runs of a pipeline, the oldest first, in arena. rows: the newest first. */
enum fr_rc fr_queue_live(const struct fr_run_rows *rows, const char *name,
                         const struct fr_queue_driven *driven, struct fr_arena *arena,
                         struct fr_overlap_of *out, struct fr_err *err);
/* For a run of a schedule: the live runs of its pipeline, itself included. */
enum fr_rc fr_queue_beside(const struct fr_run_rows *open, const struct fr_run_row *row,
                           const struct fr_queue_driven *driven, struct fr_arena *arena,
                           struct fr_overlap_of *out, struct fr_err *err);
/* fr_live.schedule of that number; NULL: no memory. */
const char *fr_queue_key(struct fr_arena *arena, int64_t schedule);

/* Appends why a queued run waits, from the store alone: the limit and the runs that fill it
 * ("pool gpu-a 1 of 1: run 41 of deepseek-lora since 02:00"), the run before it, or the time;
 * nothing when it waits for none of these. */
enum fr_rc fr_queue_why(struct fr_store *st, const struct fr_queue_limits *limits,
                        const struct fr_run_row *run, struct fr_buf *out, struct fr_err *err);

#endif
