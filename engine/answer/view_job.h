/* Jobs that read a response in a thread: views of the store and logs, metrics of a run. */
#ifndef FR_ANSWER_VIEW_JOB_H
#define FR_ANSWER_VIEW_JOB_H

#include "engine/runs/job.h"
#include "engine/view/curves.h"
#include "engine/view/text.h"

/* Copy the texts of want and ask. NULL: no memory. */
struct host_job *view_begin(struct fr_host *host, const struct host_text *want);
struct host_job *curves_begin(struct fr_host *host, const struct host_curves *ask);

/* The text of a job that has succeeded; the caller owns it. */
void view_take(struct host_job *job, struct host_text *out);
struct fr_buf curves_take(struct host_job *job);

#endif
