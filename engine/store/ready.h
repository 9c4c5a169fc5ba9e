/* Tasks of a run that wait to start. */
#ifndef FR_STORE_READY_H
#define FR_STORE_READY_H

#include "engine/store/store.h"

/* The tasks of a run that have an instance which is `ready` and has no attempt. */
#define FR_TASK_COLUMNS(C, S, R) C(R, TEXT, task, NULL)
FR_ROWS(fr_task, FR_TASK_COLUMNS); /* by name */
enum fr_rc fr_store_ready_tasks(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_task_rows *out, struct fr_err *err);
/* Whether one is ready; it may have an attempt that is booked. */
enum fr_rc fr_store_any_ready(struct fr_store *st, struct fr_id run, bool *out, struct fr_err *err);

#endif
