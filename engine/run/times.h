/*
 * When starts and ends happened, by this machine's calendar. A node reports them by its own clocks,
 * perhaps much later: after a lost connection, or to the next flowrun. So they stand where they
 * were, between the start of their attempt and now.
 */
#ifndef FR_RUN_TIMES_H
#define FR_RUN_TIMES_H

#include "engine/run/state.h"

/* The command of the attempt was launched at node_ms of its node's mono_ms; 0: not known. */
void run_times_launched(struct fr_run *run, const struct run_attempt *at, int64_t node_ms);

/* Records the attempt's end, reported for the first time. Returns how long ago it was, in ms. e
 * NULL: now. */
int64_t run_times_ended(struct fr_run *run, const struct run_attempt *at, const struct fr_ended *e);

/* When the instance, whose row was in state in->state before, came into the state of row. */
int64_t run_times_of(const struct fr_run *run, const struct fr_row *row, int64_t now);
/* Sets the times of the instance, for a row of wall_ms. */
void run_times_put(struct fr_run *run, const struct fr_row *row, int64_t wall_ms);

/* When the run, which is over now, ended: with the last of its instances that were not skipped. */
int64_t run_times_over(const struct fr_run *run, int64_t now);

#endif
