/* Why runs and tasks wait, as text for users. */
#ifndef FR_CLIENT_WAITING_H
#define FR_CLIENT_WAITING_H

#include "engine/client/session.h"

/* Sets row->reason to why the queued run waits, in arena: the store has no reason of such a run.
 * After a mistake in config.yaml the reason names that. FR_NOMEM. */
enum fr_rc cli_queue_reason(struct fr_store *st, struct fr_arena *arena, struct fr_run_row *row,
                            struct fr_err *err);
/* Sets the reasons of the ready instances of a run that a host drives. rows: all of the run. */
enum fr_rc cli_ready_reasons(struct fr_store *st, struct fr_arena *arena,
                             const struct fr_run_row *run, struct fr_inst_rows *rows,
                             struct fr_err *err);
/* Prints why the shown run waits, if it is queued. */
void cli_say_queued(struct cli_drive *d, struct fr_store *st);

#endif
