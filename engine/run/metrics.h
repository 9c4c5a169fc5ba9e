/* Metrics of attempts: a run's copies of the files that tasks write (metrics:), and other inputs of
 * the host's metrics. */
#ifndef FR_RUN_METRICS_H
#define FR_RUN_METRICS_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>

/* Appends the name of the file below runs/<id>/ that has the metrics of an attempt. */
void fr_run_metrics_name(struct fr_buf *out, const char *key, uint32_t no);

struct fr_run;
struct fr_curve_head;

/* Calls fn for each live attempt with metrics. head: its newest values; moved_wall: when its newest
 * step came. */
typedef void fr_run_head_fn(void *arg, const char *task, const struct fr_curve_head *head,
                            int64_t moved_wall);
void fr_run_each_head(const struct fr_run *run, fr_run_head_fn *fn, void *arg);

/* Whether the node is connected; *down_wall: since when it is unreachable; 0: it is not. */
bool fr_run_node_up(const struct fr_run *run, uint32_t node, int64_t *down_wall);

/* Inside of engine/run: metrics.c. */
struct fr_exec_event;
struct run_attempt;

/* Sets at->metrics.size and its progress from the copy. */
enum fr_rc run_metrics_look(struct fr_run *run, struct run_attempt *at, struct fr_err *err);
void run_metrics_take(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev);
enum fr_rc run_metrics_sync(struct fr_run *run, struct run_attempt *at, struct fr_err *err);

/* chain.c: stops the attempt if allocations follow each other in vain. To be called whenever more
 * of its metrics are here. */
void run_chain_look(struct fr_run *run, struct run_attempt *at);

/*
 * progress.c: events about the progress of attempts, of these kinds.
 * - stalled: no new step for limits.stalled, though its node is there
 * - progress: new steps again
 * - not_finite: its loss is no finite number any more
 * - late: the run is not over at row.late_wall
 */
void run_progress_take(struct fr_run *run, struct run_attempt *at, struct fr_str bytes);
void run_progress_load(struct fr_run *run, struct run_attempt *at, const char *path);
void run_progress_drop(struct run_attempt *at);
void run_progress_look(struct fr_run *run, int64_t now); /* due at run->stall_due_ms */
void run_late_begin(struct fr_run *run);                 /* sets row.late_wall, counted from now */
/* An event of the run that leaves its state as it is, shown after the commit. */
void run_remark(struct fr_run *run, const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum fr_rc run_remarks_write(struct fr_run *run, struct fr_err *err);
void run_remarks_show(struct fr_run *run, int64_t before); /* those with a smaller seq */
void run_remarks_drop(struct fr_run *run);

#endif
