/* Events of a run that somebody was told of. */
#ifndef FR_STORE_TOLD_H
#define FR_STORE_TOLD_H

#include "engine/store/store.h"

/* The row with that seq is of row->idx from now on; nobody is told of it again. */
enum fr_rc fr_store_event_move(struct fr_store *st, struct fr_id run,
                               const struct fr_event_row *row, struct fr_err *err);
/* Those that tell how far attempts are (run/metrics.h), in their order. Reads all of the run. */
enum fr_rc fr_store_events_told(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_event_rows *out, struct fr_err *err);

#endif
