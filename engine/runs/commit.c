/* A turn of the host: the runs decide, commit and act. */
#include "engine/runs/job.h"
#include "engine/runs/state.h"

#include "engine/base/log.h"
#include "engine/metrics/meters.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    COMMIT_RETRY_MS = 1000,
    BUSY_MS = 10,       /* another process writes: wait so long for it, … */
    BUSY_RETRY_MS = 20, /* … retry after so long, … */
    BUSY_SAY_MS = 5000, /* … and tell users after so long */
};

/* ---- the parts ---- */

void *host_state(const struct fr_host *host, const struct host_part *part)
{
    size_t i = 0;

    while (host->parts[i] != part)
        i++;
    return host->states[i];
}

enum fr_rc host_step(struct fr_host *host, enum host_step step, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (const struct host_part *const *p = host->parts; rc == FR_OK && *p != NULL; p++) {
        int64_t since = fr_sys.mono_ms();

        if ((*p)->step[step] != NULL)
            rc = (*p)->step[step](host, err);
        host_took(host, since, "%s", (*p)->name);
    }
    return rc;
}

void host_run_step(struct host_run *h, enum host_run_step step)
{
    for (const struct host_part *const *p = h->parts; *p != NULL; p++)
        if ((*p)->of_run[step] != NULL)
            (*p)->of_run[step](h);
}

void host_changed(struct fr_host *host, enum host_topic topic)
{
    for (const struct host_part *const *p = host->parts; *p != NULL; p++)
        if ((*p)->changed != NULL)
            (*p)->changed(host, topic);
}

void host_took(struct fr_host *host, int64_t since_ms, const char *fmt, ...)
{
    int64_t ms = fr_sys.mono_ms() - since_ms;
    va_list ap;

    if (ms <= host->meter.ms)
        return;
    host->meter.ms = ms;
    va_start(ap, fmt);
    vsnprintf(host->meter.what, sizeof(host->meter.what), fmt, ap);
    va_end(ap);
}

void host_say_all(struct fr_host *host, const char *text)
{
    for (size_t i = 0; i < host->n; i++)
        fr_run_say(host->runs[i]->run, text);
}

/* ---- deciding ---- */

static enum fr_rc decide_run(struct host_run *h, int64_t now, bool *sent, struct fr_err *err)
{
    struct fr_host *host = h->host;
    int64_t since = fr_sys.mono_ms();
    enum fr_rc rc;

    h->woken = false;
    rc = fr_run_drain(h->run, now, err);
    host_took(host, since, "deciding what run %lld does next", (long long)fr_run_no(h->run));
    h->due = fr_run_due(h->run);
    *sent = *sent || h->due.sent_early;
    for (const struct host_part *const *p = host->parts; rc == FR_OK && *p != NULL; p++)
        if ((*p)->decided != NULL)
            rc = (*p)->decided(h, err);
    return rc;
}

enum fr_rc host_decide(struct fr_host *host, bool *sent, struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms();
    enum fr_rc rc = host_step(host, HOST_DECIDE, err);

    host->woken = *sent = false;
    for (size_t i = 0; rc == FR_OK && i < host->n; i++) {
        struct host_run *h = host->runs[i];

        if (!h->woken && h->due.drain_ms > now)
            continue;
        rc = decide_run(h, now, sent, err);
        if (rc != FR_OK && !h->mine) { /* that run alone cannot go on here */
            rc = host_give_up(h, err);
            i--;
        }
    }
    return rc == FR_OK ? host_step(host, HOST_SHARE, err) : rc;
}

/* ---- the commit ---- */

int64_t host_commit_due(const struct fr_host *host)
{
    int64_t due = makes_due(host) ? 0 : INT64_MAX;

    for (size_t i = 0; i < host->n; i++)
        if (host->runs[i]->due.commit_ms < due)
            due = host->runs[i]->due.commit_ms;
    return due != INT64_MAX && host->commit.retry_ms != 0 ? host->commit.retry_ms : due;
}

static enum fr_rc write_all(struct fr_host *host, struct fr_err *err)
{
    bool soft = !makes_due(host);
    enum fr_rc rc;

    for (size_t i = 0; i < host->n; i++)
        soft = soft && (host->runs[i]->due.commit_ms == INT64_MAX || host->runs[i]->due.soft);
    fr_store_patience(host->env.store, BUSY_MS);
    rc = soft ? fr_store_begin_soft(host->env.store, err) : fr_store_begin(host->env.store, err);
    fr_store_patience(host->env.store, 0);
    if (rc == FR_OK)
        rc = makes_write(host, err);
    for (size_t i = 0; rc == FR_OK && i < host->n; i++)
        if (host->runs[i]->due.commit_ms != INT64_MAX)
            rc = fr_run_write(host->runs[i]->run, err);
    return fr_store_end(host->env.store, rc, err);
}

static enum fr_rc not_written(struct fr_host *host, struct fr_err *why, struct fr_err *err)
{
    struct host_commit *c = &host->commit;
    struct fr_buf b = {0};

    if (why->rc == FR_DENIED) /* it does not pass by itself, as a full disk may */
        return fr_fail(err, FR_DENIED, "%s", why->msg);
    if (c->busy_ms == 0 && why->rc == FR_BUSY)
        c->busy_ms = fr_sys.mono_ms();
    if (why->rc == FR_BUSY && fr_sys.mono_ms() < c->busy_ms + BUSY_SAY_MS) {
        c->retry_ms = fr_sys.mono_ms() + BUSY_RETRY_MS;
        return FR_OK;
    }
    fr_buf_fmt(&b,
               "the state cannot be written, so nothing is started or acknowledged until it can; "
               "tasks go on: %s",
               why->msg);
    if (!c->unwritten)
        host_say_all(host, b.bad ? why->msg : b.p);
    fr_buf_finish(&b);
    c->unwritten = true;
    c->retry_ms = fr_sys.mono_ms() + COMMIT_RETRY_MS;
    return FR_OK;
}

enum fr_rc host_commit(struct fr_host *host, struct fr_err *err)
{
    int64_t from = fr_sys.mono_ms();
    struct fr_err why = {0};

    if (write_all(host, &why) != FR_OK) {
        makes_not_written(host, &why);
        return not_written(host, &why, err);
    }
    host_took(host, from, "a commit of the store");
    int64_t put = fr_sys.mono_ms();
    makes_written(host);
    host_took(host, put, "the begin of new runs");
    if (host->commit.unwritten)
        host_say_all(host, "the state can be written again");
    host->commit = (struct host_commit){0};
    int64_t took = fr_sys.mono_ms() - from;
    meters_commit(host->meters, took);
    for (size_t i = 0; i < host->n; i++) {
        struct host_run *h = host->runs[i];

        if (h->due.commit_ms == INT64_MAX)
            continue;
        int64_t since = fr_sys.mono_ms();
        fr_run_act(h->run, took);
        host_took(host, since, "starting what run %lld has ready", (long long)fr_run_no(h->run));
        h->due = fr_run_due(h->run);
    }
    return FR_OK;
}

enum fr_rc host_settle(struct fr_host *host, struct fr_err *err)
{
    bool sent = false;
    enum fr_rc rc = host_decide(host, &sent, err);

    if (rc == FR_OK && host_commit_due(host) != INT64_MAX)
        rc = host_commit(host, err);
    if (rc == FR_OK && host->commit.retry_ms != 0)
        rc = fr_fail(err, FR_FULL,
                     "the state cannot be written now; it is done once it can be, if this host "
                     "lives that long");
    return rc;
}
