/* Events of a run that report progress. */
#ifndef FR_STORE_TOLD_H
#define FR_STORE_TOLD_H

#include "engine/store/store.h"

/* Changes the instance of the event row->seq to row->idx; followers do not see it again. */
enum fr_rc fr_store_event_move(struct fr_store *st, struct fr_id run,
                               const struct fr_event_row *row, struct fr_err *err);
/* The events stalled, progress and not_finite (run/metrics.h), in order. Reads all events of the
 * run. */
enum fr_rc fr_store_events_told(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_event_rows *out, struct fr_err *err);

#endif
