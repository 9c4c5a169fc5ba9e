/*
 * A backfill: runs for past instants of a schedule. The host that serves the schedule's file adds
 * them, the next run when an earlier one is over. The commit that adds a run also moves the
 * backfill's cursor to the run's instant, so the next host goes on where a killed one was.
 */
#ifndef FR_TIMETABLE_BACKFILL_H
#define FR_TIMETABLE_BACKFILL_H

#include "engine/schedule/rule.h"
#include "engine/store/backfills.h"

enum { FR_BACKFILL_MOST = 10000 }; /* instants of one backfill */

/* The next instant after the cursor, in the order of the backfill; false: none is left. */
bool fr_backfill_next(const struct fr_backfill_row *row, const struct fr_rule *rule,
                      int64_t *at_ms);
/* Whether the backfill adds a run for an instant. there: what the store has for that instant
 * (fr_store_instant). */
bool fr_backfill_wants(const struct fr_backfill_row *row, const struct fr_instant *there);

/* Sets the state, which is not OVER, in a commit of its own. FR_BUSY: the backfill is in that state
 * already, or over. After a cancel the host, this one or the next, cancels the queued runs of the
 * backfill. */
enum fr_rc fr_backfill_change(struct fr_store *st, int64_t id, enum fr_backfill_state state,
                              struct fr_err *err);

#endif
