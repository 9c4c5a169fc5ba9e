#include "engine/host/await.h"
#include "engine/host/backfilling.h"
#include "engine/host/lines.h"
#include "engine/host/outbox.h"
#include "engine/host/readers.h"
#include "engine/host/rerun.h"
#include "engine/host/schedules.h"
#include "engine/host/tally.h"

#include "engine/base/log.h"
#include "engine/store/blob.h"
#include "engine/store/home.h"
#include "engine/store/lead.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    LINGER_MS = 60000, /* a node stays connected for the next run */
    COMMIT_RETRY_MS = 1000,
    BUSY_MS = 10,         /* another process writes: it is waited for so long, … */
    BUSY_RETRY_MS = 20,   /* … the next try comes then, and others have their turn … */
    BUSY_SAY_MS = 5000,   /* … and users are told after so long */
    SAY_MS = 1000,        /* users are told of a turn as long as that, … */
    SAY_AGAIN_MS = 60000, /* … at most so often, unless it is twice as long */
};

static void on_timer(void *arg)
{
    (void)arg; /* the turn that follows looks at what is due */
}

static void on_sample(void *arg, const struct fr_exec_sampled *s)
{
    struct fr_host *host = arg;

    if (host->machines_seen != NULL)
        fr_machines_take(host->machines_seen, s, fr_sys.wall_ms());
    host->sampled = true;
}

static struct fr_machines *machines_of(const struct fr_store *store)
{
    struct fr_buf dir = {0};
    struct fr_machines *all = NULL;

    fr_buf_fmt(&dir, "%s/machines", fr_store_home(store));
    if (!dir.bad)
        all = fr_machines_create(dir.p);
    fr_buf_finish(&dir);
    return all;
}

enum fr_rc fr_host_create(const struct fr_run_env *env, const struct fr_nodes_args *links,
                          struct fr_host **out, struct fr_err *err)
{
    struct fr_host *host = fr_sys.alloc(sizeof(*host));
    struct fr_nodes_args nodes = *links;
    enum fr_rc rc;

    *out = NULL;
    if (host == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the host");
    *host = (struct fr_host){.env = *env,
                             .loop = env->loop,
                             .store = env->store,
                             .queue_due_ms = INT64_MAX,
                             .rerun_due_ms = INT64_MAX,
                             .backfill_due_ms = INT64_MAX,
                             .untidy = true,
                             .meters = meters_create(),
                             .machines_seen = machines_of(env->store)};
    host->env.home = fr_store_home(host->store);
    host->env.claims = fr_blob_claims(host->store);
    rc = fr_store_lead(host->store, &host->env.epoch, err);
    if (rc == FR_OK && fr_loop_timer(host->loop, on_timer, host, &host->timer) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for the host");
    nodes.loop = host->loop;
    nodes.control = fr_store_home_id(host->store);
    nodes.home = fr_store_home(host->store);
    nodes.epoch = host->env.epoch;
    nodes.linger_ms = LINGER_MS;
    nodes.sample = on_sample;
    nodes.sample_arg = host;
    if (rc == FR_OK)
        rc = fr_nodes_create(&host->env.nodes, &nodes, err);
    if (rc != FR_OK) {
        fr_loop_untimer(host->loop, &host->timer);
        meters_destroy(host->meters);
        fr_machines_destroy(host->machines_seen);
        fr_sys.free(host);
        return rc;
    }
    if ((rc = held_load(host, err)) != FR_OK) {
        fr_host_destroy(host);
        return rc;
    }
    if ((rc = fr_access_create(host->store, &host->access, err)) != FR_OK) {
        fr_host_destroy(host);
        return rc;
    }
    if (fr_retain_create(host->loop, host->store, &host->retain, err) != FR_OK) {
        fr_host_destroy(host);
        return FR_NOMEM;
    }
    if ((host->outbox = outbox_create(host)) == NULL) {
        fr_host_destroy(host);
        return fr_fail(err, FR_NOMEM, "no memory for the host");
    }
    *out = host;
    return FR_OK;
}

void fr_host_destroy(struct fr_host *host)
{
    if (host == NULL)
        return;
    while (host->n > 0)
        host_forget(host, host->runs[host->n - 1]);
    jobs_finish(host);
    await_finish(host);
    outbox_destroy(host->outbox);
    schedules_close(host);
    feed_finish(host);
    held_finish(host);
    fr_nodes_destroy(host->env.nodes);
    fr_loop_untimer(host->loop, &host->timer);
    fr_retain_destroy(host->retain);
    fr_access_destroy(host->access);
    json_decref(host->pages);
    host_lines_leave(host->lines);
    host_tallies_leave(host->tallies);
    host_readers_leave(host->readers);
    fixed_finish(&host->fixed);
    share_finish(host);
    meters_destroy(host->meters);
    fr_machines_destroy(host->machines_seen);
    fr_sys.free(host->runs);
    fr_sys.free(host);
}

void fr_host_lock(struct fr_host *host, int *lock_fd)
{
    host->lock_fd = lock_fd;
}

void fr_host_stay(struct fr_host *host)
{
    host->stays = true;
    rerun_changed(host);
    backfill_changed(host);
    fr_retain_stay(host->retain);
    meters_stay(host);
}

struct fr_host_load fr_host_load(const struct fr_host *host)
{
    struct fr_host_load load = {.runs = host->n};

    for (size_t i = 0; i < host->n; i++)
        load.queued += fr_run_queued(host->runs[i]->run);
    for (size_t i = 0; host->schedules != NULL && i < host->schedules->n; i++)
        load.schedules += host->schedules->list[i]->s != NULL;
    return load;
}

bool fr_host_ready(const struct fr_host *host)
{
    return host->schedules == NULL || host->schedules->ready;
}

enum fr_rc fr_host_configure(struct fr_host *host, const struct fr_config *config,
                             struct fr_err *err)
{
    enum fr_rc rc = outbox_configure(host, config, err);

    if (rc != FR_OK)
        return rc;
    host->limits = config->limits;
    fr_retain_configure(host->retain, &config->keep);
    (void)snprintf(host->zone, sizeof(host->zone), "%s",
                   config->zone != NULL ? config->zone : "UTC");
    schedules_configured(host);
    queue_changed(host);
    return FR_OK;
}

static bool identify(void *host, enum fr_api_secret kind, const char *secret, bool used,
                     struct fr_api_caller *out)
{
    return fr_access_identify(((struct fr_host *)host)->access, kind, secret, used, out);
}

/* It is asked from time to time. */
static bool leads(void *arg)
{
    const struct fr_host *host = arg;
    struct fr_err err = {0};
    uint32_t epoch;

    if (fr_store_followed(host->store, &epoch))
        return false;
    if (host->lock_fd == NULL ||
        fr_home_keep(fr_store_home(host->store), host->lock_fd, &err) == FR_OK)
        return true;
    fr_log(FR_LOG_WARN, "host", "lost its lock error=\"%s\"", err.msg);
    return false;
}

enum fr_rc fr_host_pages(struct fr_host *host, const char *url, const struct fr_run_shell *shell,
                         struct fr_err *err)
{
    host->shell = *shell;
    if (host->pages == NULL)
        host->pages = json_array();
    return json_array_append_new(host->pages, json_string(url)) == 0
               ? FR_OK
               : fr_fail(err, FR_NOMEM, "no memory for the address of the pages");
}

static void forget(void *host, struct fr_api_waiter *w)
{
    jobs_unwait(host, w);
    await_forget(host, w);
}

struct fr_api fr_host_api(struct fr_host *host)
{
    return (struct fr_api){.answer = host_answer,
                           .forget = forget,
                           .open = feed_open,
                           .drained = feed_drained,
                           .gone = feed_gone,
                           .identify = identify,
                           .leads = leads,
                           .self = host};
}

/* ---- what holds the loop ---- */

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

static void say_all(struct fr_host *host, const char *text)
{
    for (size_t i = 0; i < host->n; i++)
        fr_run_say(host->runs[i]->run, text);
}

/* A person sees this process's own run. */
static bool shows_runs(const struct fr_host *host)
{
    for (size_t i = 0; i < host->n; i++)
        if (host->runs[i]->mine)
            return true;
    return false;
}

/* All runs stood still meanwhile: their users are told what it was. */
static void say_slow(struct fr_host *host)
{
    struct fr_loop_slow slow = fr_loop_slow(host->loop);
    struct host_meter *m = &host->meter;
    int64_t now = fr_sys.mono_ms();
    char text[200];

    meters_stall(host, slow.now_ms);
    if (slow.now_ms >= SAY_MS &&
        (m->said_ms == 0 || now > m->said_ms + SAY_AGAIN_MS || slow.now_ms > 2 * m->said_took_ms)) {
        snprintf(text, sizeof(text),
                 "this home's host was held up for %lld ms, mostly by %s (%lld ms); so were all "
                 "its runs",
                 (long long)slow.now_ms, m->what, (long long)m->ms);
        fr_log(shows_runs(host) ? FR_LOG_DEBUG : FR_LOG_INFO, "host", "%s", text);
        say_all(host, text);
        m->said_ms = now;
        m->said_took_ms = slow.now_ms;
    }
    if (slow.now_ms > m->longest_ms) {
        m->longest_ms = slow.now_ms;
        memcpy(m->held_by, m->what, sizeof(m->held_by));
    }
    m->ms = 0;
    m->what[0] = '\0';
}

/* ---- a turn ---- */

/* Lets those that have something to do take it. *sent: something was sent that the loop should pass
 * on before the commit. */
static enum fr_rc drain_all(struct fr_host *host, bool *sent, struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms();
    enum fr_rc rc = rerun_turn(host, err);

    if (rc == FR_OK)
        rc = backfill_turn(host, err);

    if (rc == FR_OK)
        rc = queue_admit(host, err);
    host->woken = *sent = false;
    for (size_t i = 0; rc == FR_OK && i < host->n; i++) {
        struct host_run *h = host->runs[i];

        if (!h->woken && h->due.drain_ms > now)
            continue;
        int64_t since = fr_sys.mono_ms();
        h->woken = false;
        rc = fr_run_drain(h->run, now, err);
        host_took(host, since, "deciding what run %lld does next", (long long)fr_run_no(h->run));
        h->due = fr_run_due(h->run);
        *sent = *sent || h->due.sent_early;
        if (rc == FR_OK)
            rc = share_look(h, err);
        if (rc != FR_OK && !h->mine) { /* that run alone cannot go on here */
            rc = host_give_up(h, err);
            i--;
        }
    }
    return rc == FR_OK ? share_all(host, err) : rc;
}

static int64_t commit_due(const struct fr_host *host)
{
    int64_t due = jobs_made(host) ? 0 : INT64_MAX;

    for (size_t i = 0; i < host->n; i++)
        if (host->runs[i]->due.commit_ms < due)
            due = host->runs[i]->due.commit_ms;
    return due != INT64_MAX && host->retry_ms != 0 ? host->retry_ms : due;
}

static enum fr_rc write_all(struct fr_host *host, struct fr_err *err)
{
    bool soft = !jobs_made(host);
    enum fr_rc rc;

    for (size_t i = 0; i < host->n; i++)
        soft = soft && (host->runs[i]->due.commit_ms == INT64_MAX || host->runs[i]->due.soft);
    fr_store_patience(host->store, BUSY_MS);
    rc = soft ? fr_store_begin_soft(host->store, err) : fr_store_begin(host->store, err);
    fr_store_patience(host->store, 0);
    if (rc != FR_OK)
        return rc;
    rc = jobs_write(host, err);
    for (size_t i = 0; rc == FR_OK && i < host->n; i++)
        if (host->runs[i]->due.commit_ms != INT64_MAX)
            rc = fr_run_write(host->runs[i]->run, err);
    if (rc == FR_OK)
        return fr_store_commit(host->store, err);
    fr_store_rollback(host->store);
    return rc;
}

static enum fr_rc not_written(struct fr_host *host, struct fr_err *why, struct fr_err *err)
{
    struct fr_buf b = {0};

    if (why->rc == FR_DENIED) /* it does not pass by itself, as a full disk may */
        return fr_fail(err, FR_DENIED, "%s", why->msg);
    if (host->busy_ms == 0 && why->rc == FR_BUSY)
        host->busy_ms = fr_sys.mono_ms();
    if (why->rc == FR_BUSY && fr_sys.mono_ms() < host->busy_ms + BUSY_SAY_MS) {
        host->retry_ms = fr_sys.mono_ms() + BUSY_RETRY_MS;
        return FR_OK;
    }
    fr_buf_fmt(&b,
               "the state cannot be written, so nothing is started or acknowledged until it can; "
               "tasks go on: %s",
               why->msg);
    if (!host->unwritten)
        say_all(host, b.bad ? why->msg : b.p);
    fr_buf_finish(&b);
    host->unwritten = true;
    host->retry_ms = fr_sys.mono_ms() + COMMIT_RETRY_MS;
    return FR_OK;
}

/* One transaction for the rows of all runs; then each acts. */
static enum fr_rc commit(struct fr_host *host, struct fr_err *err)
{
    int64_t from = fr_sys.mono_ms();
    struct fr_err why = {0};

    if (write_all(host, &why) != FR_OK) {
        jobs_not_written(host, &why);
        return not_written(host, &why, err);
    }
    host_took(host, from, "a commit of the store");
    int64_t put = fr_sys.mono_ms();
    jobs_written(host);
    host_took(host, put, "the begin of new runs");
    if (host->unwritten)
        say_all(host, "the state can be written again");
    host->unwritten = false;
    host->retry_ms = host->busy_ms = 0;
    int64_t took = fr_sys.mono_ms() - from;
    meters_commit(host, took);
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
    enum fr_rc rc = drain_all(host, &sent, err);

    if (rc == FR_OK && commit_due(host) != INT64_MAX)
        rc = commit(host, err);
    if (rc == FR_OK && host->retry_ms != 0)
        rc = fr_fail(err, FR_FULL,
                     "the state cannot be written now; it is done once it can be, if this host "
                     "lives that long");
    return rc;
}

static void arm(struct fr_host *host)
{
    int64_t due = commit_due(host), tidy = host_tidy_due(host), next = schedules_due(host);

    fr_retain_live(host->retain, host->n > 0);
    due = tidy < due ? tidy : due;
    due = next < due ? next : due;
    due = host->queue_due_ms < due ? host->queue_due_ms : due;
    due = host->rerun_due_ms < due ? host->rerun_due_ms : due;
    due = host->backfill_due_ms < due ? host->backfill_due_ms : due;
    due = outbox_due(host) < due ? outbox_due(host) : due;
    due = await_due(host) < due ? await_due(host) : due;
    due = feed_topics_due(host) < due ? feed_topics_due(host) : due;
    for (size_t i = 0; i < host->n; i++) {
        int64_t flush = feed_due(host->runs[i]);

        if (host->runs[i]->due.drain_ms < due)
            due = host->runs[i]->due.drain_ms;
        due = flush < due ? flush : due;
    }
    fr_loop_arm(host->loop, host->timer, due == INT64_MAX ? -1 : due);
}

enum fr_rc fr_host_turn(struct fr_host *host, struct fr_err *err)
{
    bool sent = false;
    enum fr_rc rc = fr_loop_turn(host->loop, !host->woken, err);

    int64_t taken = fr_loop_slow(host->loop).now_ms - host->meter.ms; /* less what is named */
    host_took(host, fr_sys.mono_ms() - taken, "what came from nodes and callers");
    int64_t since = fr_sys.mono_ms();
    if (rc == FR_OK)
        rc = schedules_turn(host, err);
    host_took(host, since, "what schedules had to do");
    if (rc == FR_OK)
        rc = drain_all(host, &sent, err);
    if (rc == FR_OK && !sent && commit_due(host) <= fr_sys.mono_ms())
        rc = commit(host, err);
    if (rc == FR_OK)
        rc = host_tidy(host, err);
    if (rc == FR_OK) {
        jobs_tidy(host);
        outbox_turn(host);
        feed_pump(host);
        await_turn(host);
        say_slow(host);
        arm(host);
    }
    return rc;
}
