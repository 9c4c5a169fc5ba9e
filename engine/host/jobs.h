/* What requests ask for and takes long. Part of internal.h. */
#ifndef FR_HOST_JOBS_H
#define FR_HOST_JOBS_H

#include "engine/base/json.h"
#include "engine/host/api.h"
#include "engine/host/curves.h"
#include "engine/host/retain.h"
#include "engine/host/text.h"
#include "engine/run/run.h"

struct fr_host;
struct host_run;

struct host_await;
struct host_awaits {          /* await.h */
    struct host_await *first; /* owns: requests that wait for news of a run */
    uint64_t changes;         /* of the store, when they were looked at; … */
    int64_t ms;               /* … then */
};

enum host_job_kind { HOST_MAKE, HOST_SIZE, HOST_TEXT, HOST_CURVES, HOST_SWEEP, HOST_TIDY };
struct host_job;
struct host_make { /* a run that is to be made */
    struct host_run *h;
    struct fr_run_env env;
    struct fr_submit submit; /* its texts live in doc and arena */
    struct fr_zones zones;
    json_t *doc;
    struct fr_arena *arena; /* its memory becomes the job's */
};
struct host_result {
    struct fr_id run;
    int64_t bytes;
    struct fr_swept swept;
    struct host_text text; /* of TEXT and CURVES; the caller's to free */
};
/* Starts it as soon as it may run; MAKE, TEXT, CURVES: once jobs_make() and so on was called.
 * NULL: no memory. */
struct host_job *jobs_add(struct fr_host *host, enum host_job_kind kind, struct fr_id run);
/* A view of the store: texts of want are copied. NULL: no memory. */
struct host_job *jobs_text(struct fr_host *host, const struct host_text *want);
void jobs_make(struct host_job *job, const struct host_make *make);
void jobs_curves(struct host_job *job, const struct host_curves *ask);
struct host_job *jobs_making(const struct fr_host *host, struct fr_id run); /* NULL: none */
/* What the request waits for; NULL: nothing. */
struct host_job *jobs_of(const struct fr_host *host, const struct fr_api_waiter *w);
void jobs_wait(struct host_job *job, struct fr_api_waiter *w);
void jobs_unwait(void *host, struct fr_api_waiter *w);
bool jobs_over(const struct host_job *job);
bool jobs_stuck(const struct host_job *job); /* its run is half written, and goes on later */
/* Of one that is over; drops it. */
enum fr_rc jobs_take(struct host_job *job, struct host_result *out, struct fr_issues *issues,
                     struct fr_err *err);
void jobs_tidy(struct fr_host *host);
void jobs_finish(struct fr_host *host);
bool jobs_made(const struct fr_host *host); /* rows of new runs are to be written */
/* Inside of the host's transaction; one of the others behind it. */
enum fr_rc jobs_write(struct fr_host *host, struct fr_err *err);
void jobs_written(struct fr_host *host);
void jobs_not_written(struct fr_host *host, const struct fr_err *why);

#endif
