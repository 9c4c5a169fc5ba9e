/*
 * Repeats failed runs as rerun: of their pipeline asks. For the host alone.
 *
 * The commit that ends a run sets when its rerun is due. The commit that begins the next round, or
 * that adds the new run, clears it. So each rerun begins once, whenever a host is killed.
 *
 * A rerun is dropped, with an event of the run, if a later instant of its schedule has succeeded,
 * if it cannot begin, or if it is due for more than a day.
 */
#ifndef FR_TIMETABLE_RERUN_H
#define FR_TIMETABLE_RERUN_H

#include "engine/runs/job.h"
#include "engine/runs/state.h"

void rerun_changed(struct fr_host *host); /* looks for due reruns in the next turn */
/* Begins the reruns that are due. */
enum fr_rc rerun_turn(struct fr_host *host, struct fr_err *err);
/* Drops the rerun of run no: the next run of its schedule supersedes it. */
void rerun_forget(struct fr_host *host, int64_t no);

#endif
