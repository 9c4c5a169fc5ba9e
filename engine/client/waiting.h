/* Runs and tasks that wait, in words. */
#ifndef FR_CLIENT_WAITING_H
#define FR_CLIENT_WAITING_H

#include "engine/client/session.h"

/* Appends why a queued run waits; nothing where it is about to start. */
enum fr_rc cli_queue_why(struct fr_store *st, const struct fr_run_row *row, struct fr_buf *out,
                         struct fr_err *err);
/* The reason of a queued run is not stored: row->reason becomes it, in arena, or why it cannot be
 * said (a mistake in config.yaml). FR_NOMEM. */
enum fr_rc cli_queue_reason(struct fr_store *st, struct fr_arena *arena, struct fr_run_row *row,
                            struct fr_err *err);
/* The same of the ready instances of a run that is driven. rows: all of the run's. */
enum fr_rc cli_ready_reasons(struct fr_store *st, struct fr_arena *arena,
                             const struct fr_run_row *run, struct fr_inst_rows *rows,
                             struct fr_err *err);
/* Says it of the run that is shown, unless that is not queued. */
void cli_say_queued(struct cli_drive *d, struct fr_store *st);

#endif
