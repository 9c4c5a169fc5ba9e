#include "engine/host/host.h"

#include "engine/admit/admit.h"
#include "engine/allocate/allocate.h"
#include "engine/answer/answers.h"
#include "engine/base/log.h"
#include "engine/deliver/outbox.h"
#include "engine/metrics/machines.h"
#include "engine/metrics/meters.h"
#include "engine/retain/retain.h"
#include "engine/runs/job.h"
#include "engine/store/blob.h"
#include "engine/store/home.h"
#include "engine/store/lead.h"
#include "engine/stream/stream.h"
#include "engine/timetable/backfilling.h"
#include "engine/timetable/rerun.h"
#include "engine/timetable/schedules.h"

#include <stdio.h>

enum {
    LINGER_MS = 60000,    /* a node stays connected so long for the next run */
    SAY_MS = 1000,        /* users are told of a turn of that length, … */
    SAY_AGAIN_MS = 60000, /* … at most so often, unless it is twice as long */
};

static void on_timer(void *arg)
{
    (void)arg; /* the next turn does what is due */
}

static void on_sample(void *arg, const struct fr_exec_sampled *s)
{
    fr_machines_take(arg, s, fr_sys.wall_ms());
}

/* The order of calls: schedules make runs, the queue admits them, then slots are shared. Streams
 * get an event before waiting requests do. */
static const struct host_part *const parts[] = {&timetable_part,   &queue_part,  &slots_part,
                                                &allocations_part, &outbox_part, &stream_part,
                                                &answers_part,     NULL};

enum { PARTS = sizeof(parts) / sizeof(parts[0]) - 1, ALIGN = _Alignof(max_align_t) };

static size_t padded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* The states of all parts, zero, in one allocation. NULL: no memory. */
static void **make_states(void)
{
    size_t bytes = padded(PARTS * sizeof(void *)), at = bytes;
    void **states;

    for (size_t i = 0; i < PARTS; i++)
        bytes += padded(parts[i]->state_bytes);
    states = fr_sys.alloc(bytes);
    if (states == NULL)
        return NULL;
    memset(states, 0, bytes);
    for (size_t i = 0; i < PARTS; at += padded(parts[i++]->state_bytes))
        states[i] = (char *)states + at;
    return states;
}

static enum fr_rc join_nodes(struct fr_host *host, const struct fr_nodes_args *links,
                             struct fr_err *err)
{
    struct fr_nodes_args nodes = *links;

    nodes.loop = host->env.loop;
    nodes.control = fr_store_home_id(host->env.store);
    nodes.home = fr_store_home(host->env.store);
    nodes.epoch = host->env.epoch;
    nodes.linger_ms = LINGER_MS;
    nodes.sample = on_sample;
    nodes.sample_arg = meters_machines(host->meters);
    return fr_nodes_create(&host->env.nodes, &nodes, err);
}

static enum fr_rc open_host(struct fr_host *host, const struct fr_nodes_args *links,
                            struct fr_err *err)
{
    enum fr_rc rc = fr_store_lead(host->env.store, &host->env.epoch, err);

    if (rc == FR_OK && fr_loop_timer(host->env.loop, on_timer, host, &host->timer) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for the host");
    if (rc == FR_OK)
        rc = join_nodes(host, links, err);
    if (rc == FR_OK)
        rc = fr_retain_create(host->env.loop, host->env.store, &host->retain, err);
    if (rc == FR_OK)
        rc = host_step(host, HOST_OPEN, err);
    host->meter = (struct host_meter){0}; /* of turns alone */
    return rc;
}

enum fr_rc fr_host_create(const struct fr_run_env *env, const struct fr_nodes_args *links,
                          struct fr_host **out, struct fr_err *err)
{
    struct fr_host *host = fr_sys.alloc(sizeof(*host));
    struct host_meters *meters = meters_create(fr_store_home(env->store));
    void **states = make_states();
    enum fr_rc rc;

    *out = NULL;
    if (host == NULL || meters == NULL || states == NULL) {
        meters_destroy(meters);
        fr_sys.free(states);
        fr_sys.free(host);
        return fr_fail(err, FR_NOMEM, "no memory for the host");
    }
    *host = (struct fr_host){
        .parts = parts, .states = states, .env = *env, .jobs.untidy = true, .meters = meters};
    host->env.home = fr_store_home(host->env.store);
    host->env.claims = fr_blob_claims(host->env.store);
    rc = open_host(host, links, err);
    if (rc == FR_OK)
        *out = host;
    else
        fr_host_destroy(host);
    return rc;
}

void fr_host_destroy(struct fr_host *host)
{
    if (host == NULL)
        return;
    while (host->n > 0)
        host_forget(host, host->runs[host->n - 1]);
    jobs_finish(host);
    for (const struct host_part *const *p = parts; *p != NULL; p++)
        if ((*p)->close != NULL)
            (*p)->close(host);
    fr_nodes_destroy(host->env.nodes);
    fr_loop_untimer(host->env.loop, &host->timer);
    fr_retain_destroy(host->retain);
    json_decref(host->config.pages);
    meters_destroy(host->meters);
    fr_sys.free(host->runs);
    fr_sys.free(host->states);
    fr_sys.free(host);
}

void fr_host_lock(struct fr_host *host, int *lock_fd)
{
    host->config.lock_fd = lock_fd;
}

void fr_host_stay(struct fr_host *host)
{
    host->config.stays = true;
    rerun_changed(host);
    backfill_changed(host);
    fr_retain_stay(host->retain);
    meters_stay(host->meters, host->env.store);
}

struct fr_host_load fr_host_load(const struct fr_host *host)
{
    const struct host_schedules *all = schedules_of(host);
    struct fr_host_load load = {.runs = host->n};

    for (size_t i = 0; i < host->n; i++)
        load.queued += fr_run_queued(host->runs[i]->run);
    for (size_t i = 0; i < all->n; i++)
        load.schedules += all->list[i]->s != NULL;
    return load;
}

enum fr_rc fr_host_configure(struct fr_host *host, const struct fr_config *config,
                             struct fr_err *err)
{
    enum fr_rc rc = outbox_configure(host, config, err);

    if (rc != FR_OK)
        return rc;
    host->config.limits = config->limits;
    fr_retain_configure(host->retain, &config->keep);
    (void)snprintf(host->config.zone, sizeof(host->config.zone), "%s",
                   config->zone != NULL ? config->zone : "UTC");
    schedules_configured(host);
    host_changed(host, HOST_QUEUE);
    return FR_OK;
}

static bool leads(void *arg)
{
    const struct fr_host *host = arg;
    struct fr_err err = {0};

    if (fr_store_followed(host->env.store, NULL))
        return false;
    if (host->config.lock_fd == NULL ||
        fr_home_keep(fr_store_home(host->env.store), host->config.lock_fd, &err) == FR_OK)
        return true;
    fr_log(FR_LOG_WARN, "host", "lost its lock error=\"%s\"", err.msg);
    return false;
}

enum fr_rc fr_host_pages(struct fr_host *host, const char *url, const struct fr_run_shell *shell,
                         struct fr_err *err)
{
    host->config.shell = *shell;
    if (host->config.pages == NULL)
        host->config.pages = json_array();
    return json_array_append_new(host->config.pages, json_string(url)) == 0
               ? FR_OK
               : fr_fail(err, FR_NOMEM, "no memory for the address of the pages");
}

struct fr_api fr_host_api(struct fr_host *host)
{
    return (struct fr_api){.answer = host_answer,
                           .forget = host_unwait,
                           .open = feed_open,
                           .drained = feed_drained,
                           .gone = feed_gone,
                           .identify = host_identify,
                           .leads = leads,
                           .self = host};
}

bool fr_host_owes(const struct fr_host *host)
{
    for (const struct host_part *const *p = parts; *p != NULL; p++)
        if ((*p)->owes != NULL && (*p)->owes(host))
            return true;
    return false;
}

void fr_host_owed(const struct fr_host *host, struct fr_buf *out)
{
    for (const struct host_part *const *p = parts; *p != NULL; p++)
        if ((*p)->owed != NULL)
            (*p)->owed(host, out);
}

/* ---- what holds the loop ---- */

/* Whether this process shows a run to a person. */
static bool shows_runs(const struct fr_host *host)
{
    for (size_t i = 0; i < host->n; i++)
        if (host->runs[i]->mine)
            return true;
    return false;
}

/* After a long turn, tells the users of all runs what held the loop. */
static void say_slow(struct fr_host *host)
{
    struct fr_loop_slow slow = fr_loop_slow(host->env.loop);
    struct host_meter *m = &host->meter;
    int64_t now = fr_sys.mono_ms();
    char text[200];

    meters_stall(host->meters, slow.now_ms);
    if (slow.now_ms >= SAY_MS &&
        (m->said_ms == 0 || now > m->said_ms + SAY_AGAIN_MS || slow.now_ms > 2 * m->said_took_ms)) {
        snprintf(text, sizeof(text),
                 "this home's host was held up for %lld ms, mostly by %s (%lld ms); so were all "
                 "its runs",
                 (long long)slow.now_ms, m->what, (long long)m->ms);
        fr_log(shows_runs(host) ? FR_LOG_DEBUG : FR_LOG_INFO, "host", "%s", text);
        host_say_all(host, text);
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

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void arm(struct fr_host *host)
{
    int64_t due = sooner(host_commit_due(host), host_tidy_due(host));

    fr_retain_live(host->retain, host->n > 0);
    for (const struct host_part *const *p = parts; *p != NULL; p++)
        if ((*p)->due != NULL)
            due = sooner(due, (*p)->due(host));
    for (size_t i = 0; i < host->n; i++)
        due = sooner(due, host->runs[i]->due.drain_ms);
    fr_loop_arm(host->env.loop, host->timer, due == INT64_MAX ? -1 : due);
}

static void tell_parts(struct fr_host *host)
{
    for (const struct host_part *const *p = parts; *p != NULL; p++) {
        int64_t since = fr_sys.mono_ms();

        if ((*p)->tell != NULL)
            (*p)->tell(host);
        host_took(host, since, "%s", (*p)->name);
    }
}

/* What the commit itself makes due is of a later decision. */
static enum fr_rc write_turn(struct fr_host *host, bool sent, struct fr_err *err)
{
    bool written = host_commit_due(host) == INT64_MAX;
    enum fr_rc rc = FR_OK;

    if (!sent && !written && host_commit_due(host) <= fr_sys.mono_ms()) {
        rc = host_commit(host, err);
        written = host->commit.retry_ms == 0;
    }
    return rc == FR_OK && written ? host_step(host, HOST_WRITTEN, err) : rc;
}

enum fr_rc fr_host_turn(struct fr_host *host, struct fr_err *err)
{
    bool sent = false;
    enum fr_rc rc = fr_loop_turn(host->env.loop, !host->woken, err);

    int64_t taken = fr_loop_slow(host->env.loop).now_ms - host->meter.ms; /* less what is named */
    host_took(host, fr_sys.mono_ms() - taken, "what came from nodes and callers");
    if (rc == FR_OK)
        rc = host_step(host, HOST_TURN, err);
    if (rc == FR_OK)
        rc = host_decide(host, &sent, err);
    if (rc == FR_OK)
        rc = write_turn(host, sent, err);
    if (rc == FR_OK)
        rc = host_tidy(host, err);
    if (rc == FR_OK) {
        jobs_tidy(host);
        tell_parts(host);
        say_slow(host);
        arm(host);
    }
    return rc;
}
