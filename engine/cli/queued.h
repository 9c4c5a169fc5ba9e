/* A run that waits in the queue, in words. */
#ifndef FR_CLI_QUEUED_H
#define FR_CLI_QUEUED_H

#include "engine/cli/cli.h"

/* Appends why a queued run waits; nothing where it is about to start. */
enum fr_rc cli_queue_why(struct fr_store *st, const struct fr_run_row *row, struct fr_buf *out,
                         struct fr_err *err);
/* Says it of the run that is shown, unless that is not queued. */
void cli_say_queued(struct cli_drive *d, struct fr_store *st);

#endif
