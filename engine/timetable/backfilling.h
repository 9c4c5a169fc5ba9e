/* The backfills of a staying host; see backfill.h. For the host alone. */
#ifndef FR_TIMETABLE_BACKFILLING_H
#define FR_TIMETABLE_BACKFILLING_H

#include "engine/timetable/backfill.h"
#include "engine/runs/job.h"
#include "engine/runs/state.h"

void backfill_changed(struct fr_host *host); /* looks for due runs in the next turn */
/* Makes the runs that are due. */
enum fr_rc backfill_turn(struct fr_host *host, struct fr_err *err);

struct host_backfill { /* of a run that is being made */
    struct fr_host *host;
    int64_t id, at_ms;
    int64_t cursor_ms, kept; /* the row's cursor before it, and what it leaves as it is */
};
extern const struct make_for of_backfill; /* of one as above */

#endif
