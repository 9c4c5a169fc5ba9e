/* Which queued runs start, and how runs share the slots of machines. */
#ifndef FR_ADMIT_ADMIT_H
#define FR_ADMIT_ADMIT_H

#include "engine/runs/state.h"

/* Rows of the host: admission.c, slot_allocation.c. */
extern const struct host_part queue_part, slots_part;

/* The live runs of a pipeline, oldest first, in arena. rows: newest first. The host knows ahead of
 * the store which of its runs are queued. */
struct fr_overlap_of;
enum fr_rc queue_live(const struct fr_host *host, const struct fr_run_rows *rows, const char *name,
                      struct fr_arena *arena, struct fr_overlap_of *out, struct fr_err *err);
/* As of host_part.waits. */
enum fr_rc queue_ask(struct fr_host *host, const struct fr_spec *spec, int64_t not_before_wall,
                     bool *wait, struct fr_err *err);

/* The machine was drained or undrained, or a place that was there. */
enum fr_rc slots_drained(struct fr_host *host, struct fr_id home, struct fr_err *err);

#endif
