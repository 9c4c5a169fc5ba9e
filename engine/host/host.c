#include "engine/host/internal.h"

enum { COMMIT_RETRY_MS = 1000 };

static void on_timer(void *arg)
{
    (void)arg; /* the turn that follows looks at what is due */
}

enum fr_rc fr_host_create(struct fr_loop *loop, struct fr_store *store, struct fr_host **out,
                          struct fr_err *err)
{
    struct fr_host *host = fr_sys.alloc(sizeof(*host));

    *out = NULL;
    if (host != NULL)
        *host = (struct fr_host){.loop = loop, .store = store};
    if (host == NULL || fr_loop_timer(loop, on_timer, host, &host->timer) != FR_OK) {
        fr_sys.free(host);
        return fr_fail(err, FR_NOMEM, "no memory for the host");
    }
    if (fr_retain_create(loop, store, &host->retain, err) != FR_OK) {
        fr_host_destroy(host);
        return FR_NOMEM;
    }
    *out = host;
    return FR_OK;
}

void fr_host_destroy(struct fr_host *host)
{
    if (host == NULL)
        return;
    while (host->n > 0)
        fr_host_drop(host, host->runs[host->n - 1]->run);
    fr_loop_untimer(host->loop, &host->timer);
    fr_retain_destroy(host->retain);
    share_finish(host);
    fr_sys.free(host->runs);
    fr_sys.free(host);
}

/* ---- its runs ---- */

static void on_wake(void *arg)
{
    struct host_run *h = arg;

    h->woken = h->host->woken = true;
}

static struct host_run *new_run(struct fr_host *host, struct fr_run *run)
{
    const struct fr_plan *plan = fr_run_plan(run);
    struct host_run *h = fr_sys.alloc(sizeof(*h));
    size_t bytes;

    if (h == NULL)
        return NULL;
    *h = (struct host_run){.host = host, .run = run};
    if (fr_mul_size(plan->n_nodes + 1, sizeof(*h->places), &bytes))
        h->places = fr_sys.alloc(bytes);
    if (h->places == NULL) {
        fr_sys.free(h);
        return NULL;
    }
    for (uint32_t n = 0; n < plan->n_nodes; n++)
        h->places[n] = (struct host_place){.machine = HOST_NO_MACHINE};
    return h;
}

enum fr_rc fr_host_add(struct fr_host *host, struct fr_run *run, struct fr_err *err)
{
    struct host_run **runs = fr_grow(host->runs, host->n + 1, &host->cap, sizeof(*runs));
    struct host_run *h = runs != NULL ? new_run(host, run) : NULL;

    if (runs != NULL)
        host->runs = runs;
    if (h == NULL) {
        fr_run_destroy(run);
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    }
    host->runs[host->n++] = h;
    fr_run_on_wake(run, on_wake, h);
    on_wake(h);
    return FR_OK;
}

void fr_host_drop(struct fr_host *host, struct fr_run *run)
{
    for (size_t i = 0; i < host->n; i++) {
        struct host_run *h = host->runs[i];

        if (h->run != run)
            continue;
        host->runs[i] = host->runs[--host->n];
        share_leave(h);
        fr_run_destroy(run);
        fr_sys.free(h->places);
        fr_sys.free(h);
        return;
    }
}

/* ---- a turn ---- */

/* Lets those that have something to do take it. *sent: something was sent that the loop should pass
 * on before the commit. */
static enum fr_rc drain_all(struct fr_host *host, bool *sent, struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms();
    enum fr_rc rc = FR_OK;

    host->woken = *sent = false;
    for (size_t i = 0; rc == FR_OK && i < host->n; i++) {
        struct host_run *h = host->runs[i];

        if (!h->woken && h->due.drain_ms > now)
            continue;
        h->woken = false;
        rc = fr_run_drain(h->run, now, err);
        h->due = fr_run_due(h->run);
        *sent = *sent || h->due.sent_early;
        if (rc == FR_OK)
            rc = share_look(h, err);
    }
    return rc == FR_OK ? share_all(host, err) : rc;
}

static int64_t commit_due(const struct fr_host *host)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < host->n; i++)
        if (host->runs[i]->due.commit_ms < due)
            due = host->runs[i]->due.commit_ms;
    return due != INT64_MAX && host->retry_ms != 0 ? host->retry_ms : due;
}

static enum fr_rc write_all(struct fr_host *host, struct fr_err *err)
{
    bool soft = true;
    enum fr_rc rc;

    for (size_t i = 0; i < host->n; i++)
        soft = soft && (host->runs[i]->due.commit_ms == INT64_MAX || host->runs[i]->due.soft);
    rc = soft ? fr_store_begin_soft(host->store, err) : fr_store_begin(host->store, err);
    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; rc == FR_OK && i < host->n; i++)
        if (host->runs[i]->due.commit_ms != INT64_MAX)
            rc = fr_run_write(host->runs[i]->run, err);
    if (rc == FR_OK)
        return fr_store_commit(host->store, err);
    fr_store_rollback(host->store);
    return rc;
}

static void say_all(struct fr_host *host, const char *text)
{
    for (size_t i = 0; i < host->n; i++)
        fr_run_say(host->runs[i]->run, text);
}

static enum fr_rc not_written(struct fr_host *host, struct fr_err *why, struct fr_err *err)
{
    struct fr_buf b = {0};

    if (why->rc == FR_DENIED) /* it does not pass by itself, as a full disk may */
        return fr_fail(err, FR_DENIED,
                       "%s; somebody must make it writable again (its file system, its mode)",
                       why->msg);
    fr_buf_fmt(&b,
               "the state cannot be written, so nothing is started or acknowledged until it can; "
               "tasks go on: %s",
               why->msg);
    if (host->retry_ms == 0)
        say_all(host, b.bad ? why->msg : b.p);
    fr_buf_finish(&b);
    host->retry_ms = fr_sys.mono_ms() + COMMIT_RETRY_MS;
    return FR_OK;
}

/* One transaction for the rows of all runs; then each acts. */
static enum fr_rc commit(struct fr_host *host, struct fr_err *err)
{
    int64_t from = fr_sys.mono_ms();
    struct fr_err why = {0};

    if (write_all(host, &why) != FR_OK)
        return not_written(host, &why, err);
    if (host->retry_ms != 0)
        say_all(host, "the state can be written again");
    host->retry_ms = 0;
    int64_t took = fr_sys.mono_ms() - from;
    for (size_t i = 0; i < host->n; i++) {
        struct host_run *h = host->runs[i];

        if (h->due.commit_ms == INT64_MAX)
            continue;
        fr_run_act(h->run, took);
        h->due = fr_run_due(h->run);
    }
    return FR_OK;
}

static void arm(struct fr_host *host)
{
    int64_t due = commit_due(host);

    for (size_t i = 0; i < host->n; i++)
        if (host->runs[i]->due.drain_ms < due)
            due = host->runs[i]->due.drain_ms;
    fr_loop_arm(host->loop, host->timer, due == INT64_MAX ? -1 : due);
}

enum fr_rc fr_host_turn(struct fr_host *host, struct fr_err *err)
{
    bool sent = false;
    enum fr_rc rc = fr_loop_turn(host->loop, !host->woken, err);

    if (rc == FR_OK)
        rc = drain_all(host, &sent, err);
    if (rc == FR_OK && !sent && commit_due(host) <= fr_sys.mono_ms())
        rc = commit(host, err);
    if (rc == FR_OK)
        arm(host);
    return rc;
}
