#include "engine/answer/long_poll.h"

#include "engine/answer/answers.h"
#include "engine/store/outbox.h"

enum {
    PATIENCE_MS = 25000, /* less than the timeout of proxies */
    PAUSE_MS = 100       /* between two checks: many events are reported once */
};

struct host_long_poll { /* one request */
    struct host_long_poll *next;
    struct fr_api_waiter *waiter; /* borrows */
    struct fr_id run;
    int64_t seq, until_ms;
    bool called; /* and the request is not repeated yet */
};

static struct host_long_poll **place_of(struct fr_host *host, const struct fr_api_waiter *w)
{
    struct host_long_poll **at = &answers_of(host)->long_polls.first;

    while (*at != NULL && (*at)->waiter != w)
        at = &(*at)->next;
    return at;
}

void long_poll_forget(struct fr_host *host, const struct fr_api_waiter *w)
{
    struct host_long_poll **at = place_of(host, w), *a = *at;

    if (a == NULL)
        return;
    *at = a->next;
    fr_sys.free(a);
}

void long_poll_finish(struct fr_host *host)
{
    struct host_long_polls *polls = &answers_of(host)->long_polls;

    while (polls->first != NULL)
        long_poll_forget(host, polls->first->waiter);
}

static enum fr_rc wait_on(struct call *c, int64_t seq, struct fr_err *err)
{
    struct host_long_poll **at = place_of(c->host, c->req->waiter), *a = *at;

    if (a == NULL) {
        if ((a = fr_sys.alloc(sizeof(*a))) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a request");
        *a = (struct host_long_poll){.waiter = c->req->waiter,
                                     .run = c->run.id,
                                     .seq = seq,
                                     .until_ms = fr_sys.mono_ms() + PATIENCE_MS};
        *at = a;
    }
    a->called = false;
    c->res->status = FR_API_LATER;
    return FR_OK;
}

bool long_poll_over(struct call *c, int64_t seq, enum fr_rc *rc, struct fr_err *err)
{
    const struct host_long_poll *a = *place_of(c->host, c->req->waiter);
    int64_t last = 0;
    bool over;

    if (job_of(c->host, c->req->waiter) != NULL) /* its response is being read */
        return true;
    *rc = fr_store_event_last(c->host->env.store, c->run.id, &last, err);
    over = *rc != FR_OK || last > seq || c->req->waiter == NULL ||
           (a != NULL && fr_sys.mono_ms() >= a->until_ms);
    if (over)
        long_poll_forget(c->host, c->req->waiter);
    else
        *rc = wait_on(c, seq, err);
    return over && *rc == FR_OK;
}

/* The request itself reports a read error. */
static bool has_news(struct fr_host *host, const struct host_long_poll *a)
{
    int64_t last = 0;

    return fr_store_event_last(host->env.store, a->run, &last, NULL) != FR_OK || last > a->seq;
}

void long_poll_turn(struct fr_host *host)
{
    struct host_long_polls *polls = &answers_of(host)->long_polls;
    int64_t now = fr_sys.mono_ms();
    bool look = fr_store_changes(host->env.store) != polls->changes && now >= polls->ms + PAUSE_MS;

    if (polls->first == NULL)
        return;
    if (look) {
        polls->changes = fr_store_changes(host->env.store);
        polls->ms = now;
    }
    for (struct host_long_poll *a = polls->first; a != NULL; a = a->next)
        if (!a->called && (now >= a->until_ms || (look && has_news(host, a)))) {
            a->called = true;
            a->waiter->again(a->waiter->arg);
        }
}

int64_t long_poll_due(const struct fr_host *host)
{
    struct host_long_polls *polls = &answers_of(host)->long_polls;
    int64_t due = INT64_MAX;

    if (polls->first != NULL && fr_store_changes(host->env.store) != polls->changes)
        due = polls->ms + PAUSE_MS;
    for (const struct host_long_poll *a = polls->first; a != NULL; a = a->next)
        if (!a->called && a->until_ms < due)
            due = a->until_ms;
    return due;
}
