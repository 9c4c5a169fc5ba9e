/* Why an instance, or the run, is in its state: texts for people, in the run's arena; NULL: no
 * memory. */
#ifndef FR_RUN_REASONS_H
#define FR_RUN_REASONS_H

#include "engine/run/run.h"

/* "": no reason. */
const char *run_why_waiting(const struct fr_run *run, uint32_t inst); /* while nothing blocks it */
const char *run_why(struct fr_run *run, const struct fr_row *row);
const char *run_why_timed_out(struct fr_run *run);
/* Of a run that failed: its first instance that did, and why that did. */
const char *run_why_failed(struct fr_run *run);
/* An instance whose failure failed the run. */
bool run_is_failure(const struct fr_run *run, const struct fr_row *row);

#endif
