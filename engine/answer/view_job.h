/* Answers that are read in a thread: views of the store and logs, and metrics of a run. */
#ifndef FR_ANSWER_VIEW_JOB_H
#define FR_ANSWER_VIEW_JOB_H

#include "engine/runs/job.h"
#include "engine/view/curves.h"
#include "engine/view/text.h"

/* Texts of want and ask are copied. NULL: no memory. */
struct host_job *view_begin(struct fr_host *host, const struct host_text *want);
struct host_job *curves_begin(struct fr_host *host, const struct host_curves *ask);

/* Of one that is over, and went well. The text is the caller's from here on. */
void view_take(struct host_job *job, struct host_text *out);
struct fr_buf curves_take(struct host_job *job);

#endif
