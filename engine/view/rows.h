/* Rows of the store as JSON; NULL: no memory. */
#ifndef FR_VIEW_ROWS_H
#define FR_VIEW_ROWS_H

#include "engine/base/json.h"
#include "engine/store/store.h"

json_t *json_of_run(uint32_t epoch, const struct fr_run_row *row); /* epoch: of this host */
json_t *json_of_event(const struct fr_event_row *row);

/* The ETag of a schedule: another one after each pause and resume. */
enum { SCHEDULE_TAG = 48 };
struct fr_schedule_row;
void schedule_tag(const struct fr_schedule_row *row, char out[SCHEDULE_TAG]);

#endif
