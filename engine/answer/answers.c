#include "engine/answer/answers.h"

#include "engine/answer/long_poll.h"
#include "engine/curve/cache.h"
#include "engine/runs/job.h"
#include "engine/view/connection_pool.h"
#include "engine/view/line_index.h"
#include "engine/view/task_summary.h"

void host_unwait(void *host, struct fr_api_waiter *w)
{
    job_unwait(host, w);
    long_poll_forget(host, w);
}

struct host_answers *answers_of(const struct fr_host *host)
{
    return host_state(host, &answers_part);
}

bool host_identify(void *arg, enum fr_api_secret kind, const char *secret, bool used,
                   struct fr_api_caller *out)
{
    const struct fr_host *host = arg;

    return fr_access_identify(answers_of(host)->access, kind, secret, used, out);
}

static enum fr_rc open_answers(struct fr_host *host, struct fr_err *err)
{
    return fr_access_create(host->env.store, &answers_of(host)->access, err);
}

static void close_answers(struct fr_host *host)
{
    struct host_answers *a = answers_of(host);

    long_poll_finish(host);
    fr_access_destroy(a->access);
    fr_curves_destroy(a->curves);
    line_index_leave(a->lines);
    task_summaries_leave(a->summaries);
    connection_pool_leave(a->connections);
    response_cache_finish(&a->responses);
}

const struct host_part answers_part = {.name = "requests that wait for news",
                                       .state_bytes = sizeof(struct host_answers),
                                       .step = {[HOST_OPEN] = open_answers},
                                       .tell = long_poll_turn,
                                       .due = long_poll_due,
                                       .close = close_answers};
