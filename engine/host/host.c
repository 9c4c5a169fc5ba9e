#include "engine/host/internal.h"

enum { COMMIT_RETRY_MS = 1000 };

static void on_timer(void *arg)
{
    (void)arg; /* the turn that follows looks at what is due */
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
    *host = (struct fr_host){
        .env = *env, .loop = env->loop, .store = env->store, .queue_due_ms = INT64_MAX};
    rc = fr_store_lead(host->store, &host->env.epoch, err);
    if (rc == FR_OK && fr_loop_timer(host->loop, on_timer, host, &host->timer) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for the host");
    nodes.loop = host->loop;
    nodes.control = fr_store_home_id(host->store);
    nodes.home = fr_store_home(host->store);
    nodes.epoch = host->env.epoch;
    if (rc == FR_OK)
        rc = fr_nodes_create(&host->env.nodes, &nodes, err);
    if (rc != FR_OK) {
        fr_loop_untimer(host->loop, &host->timer);
        fr_sys.free(host);
        return rc;
    }
    if ((rc = held_load(host, err)) != FR_OK) {
        fr_host_destroy(host);
        return rc;
    }
    if (fr_retain_create(host->loop, host->store, &host->retain, err) != FR_OK) {
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
        host_forget(host, host->runs[host->n - 1]);
    feed_finish(host);
    held_finish(host);
    fr_nodes_destroy(host->env.nodes);
    fr_loop_untimer(host->loop, &host->timer);
    fr_retain_destroy(host->retain);
    share_finish(host);
    fr_sys.free(host->runs);
    fr_sys.free(host);
}

void fr_host_stay(struct fr_host *host)
{
    host->stays = true;
}

struct fr_host_load fr_host_load(const struct fr_host *host)
{
    struct fr_host_load load = {.runs = host->n};

    for (size_t i = 0; i < host->n; i++)
        load.queued += fr_run_queued(host->runs[i]->run);
    return load;
}

void fr_host_configure(struct fr_host *host, const struct fr_config *config)
{
    host->limits = config->limits;
    (void)snprintf(host->zone, sizeof(host->zone), "%s",
                   config->zone != NULL ? config->zone : "UTC");
    queue_changed(host);
}

struct fr_api fr_host_api(struct fr_host *host)
{
    return (struct fr_api){.answer = host_answer,
                           .open = feed_open,
                           .drained = feed_drained,
                           .gone = feed_gone,
                           .self = host};
}

/* ---- a turn ---- */

/* Lets those that have something to do take it. *sent: something was sent that the loop should pass
 * on before the commit. */
static enum fr_rc drain_all(struct fr_host *host, bool *sent, struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms();
    enum fr_rc rc = queue_admit(host, err);

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
        if (rc != FR_OK && !h->mine) { /* that run alone cannot go on here */
            rc = host_give_up(h, err);
            i--;
        }
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
        return fr_fail(err, FR_DENIED, "%s", why->msg);
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
    int64_t due = commit_due(host), tidy = host_tidy_due(host);

    due = tidy < due ? tidy : due;
    due = host->queue_due_ms < due ? host->queue_due_ms : due;
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

    if (rc == FR_OK)
        rc = drain_all(host, &sent, err);
    if (rc == FR_OK && !sent && commit_due(host) <= fr_sys.mono_ms())
        rc = commit(host, err);
    if (rc == FR_OK)
        rc = host_tidy(host, err);
    if (rc == FR_OK)
        feed_pump(host);
    if (rc == FR_OK)
        arm(host);
    return rc;
}
