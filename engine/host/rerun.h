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
#ifndef FR_HOST_RERUN_H
#define FR_HOST_RERUN_H

#include "engine/host/internal.h"

void rerun_changed(struct fr_host *host); /* a run is gone from it, or may be begun now */
/* Begins what is due. */
enum fr_rc rerun_turn(struct fr_host *host, struct fr_err *err);
/* One that was begun as a new run is made, or why says why not. */
void rerun_made(struct fr_host *host, const struct fr_run_row *of, const struct fr_err *why);

/* The next run of its schedule takes its place. */
void rerun_forget(struct fr_host *host, int64_t no);

/* jobs.c: a run that repeats that one by itself is being made. */
bool jobs_repeating(const struct fr_host *host, struct fr_id run);

#endif
