/* Rows of runs, for the files of the store alone. */
#ifndef FR_STORE_RUNS_H
#define FR_STORE_RUNS_H

#include "engine/store/sql.h"

/* All rows of a query that has the columns of a run and is bound, or failed as `bound` says. */
enum fr_rc store_read_runs(struct fr_store *st, enum fr_sql q, enum fr_rc bound,
                           struct fr_arena *arena, struct fr_run_rows *out, struct fr_err *err);

#endif
