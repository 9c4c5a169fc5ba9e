/* Turns requests over TCP to begin runs, which name pipelines, into the bodies of a shell. */
#ifndef FR_ANSWER_REMOTE_H
#define FR_ANSWER_REMOTE_H

#include "engine/answer/call.h"
#include "engine/store/occurrences.h"

/* Takes what body_over_tcp() allows, of BODY_RERUN where the path names a run. Replaces call.doc by
 * a body for body_submit() and sets call.fence (fenced.h). FR_USAGE; FR_NOTFOUND: no such
 * pipeline. */
enum fr_rc remote_submit(struct call *c, struct fr_err *err);
/* The same for a run of a schedule now, with its parameters. */
enum fr_rc remote_schedule(struct call *c, const struct fr_schedule_row *row, struct fr_err *err);

#endif
