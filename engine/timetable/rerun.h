/*
 * Runs that failed run again by themselves, where rerun: of their pipeline says so. For the files
 * of the host alone.
 *
 * That one is due is a row of the commit that ended it. From what failed: the commit that begins
 * the next round takes that back; from its start: the commit that has the new run does. So each is
 * begun once, whenever a host is killed.
 *
 * It is dropped when a later instant of its schedule has succeeded, and when it cannot be: the
 * run's story says so. One that nobody began for a day is not begun by surprise.
 */
#ifndef FR_TIMETABLE_RERUN_H
#define FR_TIMETABLE_RERUN_H

#include "engine/runs/job.h"
#include "engine/runs/state.h"

void rerun_changed(struct fr_host *host); /* a run is gone from it, or may be begun now */
/* Begins what is due. */
enum fr_rc rerun_turn(struct fr_host *host, struct fr_err *err);
/* The next run of its schedule takes its place. */
void rerun_forget(struct fr_host *host, int64_t no);

#endif
