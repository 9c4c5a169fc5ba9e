/* Requests to begin runs that come over TCP, or that name what the host knows, as those of a shell.
 */
#ifndef FR_ANSWER_REMOTE_H
#define FR_ANSWER_REMOTE_H

#include "engine/answer/call.h"
#include "engine/store/fires.h"

/* {pipeline, params, at, priority}, where the path names no run; else {params, priority}. The body
 * becomes one as body_submit() takes, and call.fence is set (fenced.h). FR_USAGE; FR_NOTFOUND: the
 * host knows no such pipeline. */
enum fr_rc remote_submit(struct call *c, struct fr_err *err);
/* The same for a run of a schedule now, with its parameters. */
enum fr_rc remote_schedule(struct call *c, const struct fr_schedule_row *row, struct fr_err *err);

#endif
