/*
 * Runs for instants of a schedule that are past: a backfill. A host that serves the schedule's file
 * makes them, a next one when one of before is over. Each commit that adds a run moves the
 * backfill's cursor to its instant: so a host that is killed at any time goes on where it was.
 */
#ifndef FR_TIMETABLE_BACKFILL_H
#define FR_TIMETABLE_BACKFILL_H

#include "engine/schedule/rule.h"
#include "engine/store/backfills.h"

enum { FR_BACKFILL_MOST = 10000 }; /* instants */

/* The instant behind the cursor, in the backfill's order; false: none is left. */
bool fr_backfill_next(const struct fr_backfill_row *row, const struct fr_rule *rule,
                      int64_t *at_ms);
/* Whether it makes a run of an instant beside what there is. */
bool fr_backfill_wants(const struct fr_backfill_row *row, const struct fr_instant *there);

enum fr_backfill_act { FR_BACKFILL_PAUSE, FR_BACKFILL_RESUME, FR_BACKFILL_CANCEL };
/* In a commit of its own. FR_BUSY: it is so already, or over. Queued runs of one that is cancelled
 * are cancelled by the host, also by the next one. */
enum fr_rc fr_backfill_change(struct fr_store *st, int64_t id, enum fr_backfill_act act,
                              struct fr_err *err);

#endif
