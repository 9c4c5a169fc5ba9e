/*
 * Output that only its node has. A run that is over keeps its host (fr_run_row.host) until each of
 * its attempts is done, or the host gave up. After a host was killed, the next one fetches the
 * missing output.
 */
#ifndef FR_STORE_UNFETCHED_H
#define FR_STORE_UNFETCHED_H

#include "engine/store/store.h"

#define FR_UNFETCHED_COLUMNS(C, S, R)                                                              \
    C(R, ID, run, NULL)                                                                            \
    C(R, INT, no, NULL)
FR_ROWS(fr_unfetched, FR_UNFETCHED_COLUMNS);

/* Runs that are over and have a host, the oldest first. */
enum fr_rc fr_store_unfetched(struct fr_store *st, struct fr_arena *arena,
                              struct fr_unfetched_rows *out, struct fr_err *err);
/* Whether the run has an attempt that ended and is not done. */
enum fr_rc fr_store_lacks_output(struct fr_store *st, struct fr_id run, bool *yes,
                                 struct fr_err *err);

#endif
