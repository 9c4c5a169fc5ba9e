/* State of the host for requests, and its entry points (struct fr_api). */
#ifndef FR_ANSWER_ANSWERS_H
#define FR_ANSWER_ANSWERS_H

#include "engine/answer/access.h"
#include "engine/runs/state.h"
#include "engine/view/response_cache.h"

struct host_long_poll;
struct host_long_polls {          /* long_poll.h */
    struct host_long_poll *first; /* owns: requests that wait for an event of a run */
    uint64_t changes;             /* of the store at the last check */
    int64_t ms;                   /* mono_ms of the last check */
};

struct host_answers {
    struct fr_access *access; /* owns */
    struct host_long_polls long_polls;
    struct fr_curves *curves;            /* owns; NULL: not needed yet, or lent to a job */
    struct line_index *lines;            /* owns a reference; NULL: not needed yet */
    struct task_summaries *summaries;    /* likewise */
    struct connection_pool *connections; /* likewise */
    struct host_response_cache responses;
};

extern const struct host_part answers_part;

struct host_answers *answers_of(const struct fr_host *host); /* the state of answers_part */

/* As of struct fr_api; arg is the host. */
void host_answer(void *host, const struct fr_api_request *req, struct fr_api_response *out);
void host_unwait(void *host, struct fr_api_waiter *w);
bool host_identify(void *host, enum fr_api_secret kind, const char *secret, bool used,
                   struct fr_api_caller *out);

#endif
