/*
 * What a request asks for and takes long: it is done in a thread, while the loop goes on with all
 * runs. The request is asked again when it is done, and then answered.
 *
 *   MAKE   reads, checks and stages the pipeline of a new run; its rows are then written by the
 *          host's commits, a slice each (jobs_write)
 *   SIZE   adds up the files of a run
 *   TEXT   reads a view of the store (text.h), as the text of an answer
 *   CURVES reads metrics of a run, likewise; one at a time, which has the host's cache meanwhile
 *   SWEEP  removes what no row knows
 *   TIDY   the same where a mark says that a submit was not completed (blob.h)
 *
 * Blobs are stored by MAKE alone, and no row names them before its commit: so SWEEP and TIDY wait
 * until no run is being made, and none is made meanwhile.
 */
#include "engine/host/backfilling.h"
#include "engine/host/job.h"
#include "engine/host/lines.h"
#include "engine/host/readers.h"
#include "engine/host/rerun.h"
#include "engine/host/schedules.h"
#include "engine/host/tally.h"

#include "engine/store/home.h"
#include "engine/store/outbox.h"

#include <stdlib.h>

enum {
    THREADS = 4,
    READERS = 3 /* of them for views */,
    FORGET_MS = 10000 /* its asker may have gone */
};

/* ---- in a thread ---- */

static enum fr_rc sweep(struct host_job *job, struct fr_err *err)
{
    struct fr_store *st = NULL;
    enum fr_rc rc = fr_store_open(job->home, &st, err);

    if (rc == FR_OK)
        fr_store_set_lead(st, job->lead);
    if (rc == FR_OK && job->kind == HOST_TIDY)
        fr_blob_tidy(st);
    else if (rc == FR_OK)
        rc = fr_retain_sweep(st, false, &job->swept, err);
    fr_store_close(st);
    return rc;
}

static void in_thread(void *arg)
{
    struct host_job *job = arg;
    struct fr_buf path = {0};

    switch (job->kind) {
    case HOST_MAKE:
        (void)fr_run_make(&job->env, &job->submit, &job->h->run, &job->issues, &job->err);
        break;
    case HOST_SIZE:
        fr_home_at(job->home, FR_HOME_RUN, job->run, &path);
        job->bytes = path.bad ? 0 : fr_tree_bytes(path.p);
        fr_buf_finish(&path);
        break;
    case HOST_TEXT:
        (void)host_text_read(job->home, &job->text, &job->err);
        break;
    case HOST_CURVES:
        (void)host_curves_read(job->home, &job->ask, job->curves, &job->text.json, &job->err);
        break;
    default:
        (void)sweep(job, &job->err);
    }
}

static void free_job(void *arg)
{
    struct host_job *job = arg;

    if (job->h != NULL)
        host_free_run(job->h);
    fr_claims_leave(job->env.claims);
    json_decref(job->doc);
    fr_curves_destroy(job->curves);
    fr_buf_finish(&job->text.json);
    host_lines_leave(job->text.lines);
    host_tallies_leave(job->text.tallies);
    host_readers_leave(job->text.readers);
    fr_issues_finish(&job->issues);
    fr_arena_finish(&job->texts);
    fr_arena_finish(&job->arena);
    fr_sys.free(job);
}

/* ---- their order ---- */

static bool is_alone(const struct host_job *job)
{
    return job->kind == HOST_SWEEP || job->kind == HOST_TIDY;
}

void job_wake(struct host_job *job)
{
    while (job->waiters != NULL) {
        struct fr_api_waiter *w = job->waiters;

        job->waiters = w->next;
        w->next = NULL;
        w->again(w->arg);
    }
}

void job_end(struct host_job *job)
{
    job->state = JOB_OVER;
    job->over_ms = fr_sys.mono_ms();
    if (job->kind == HOST_MAKE && (job->err.rc != FR_OK || job->h != NULL))
        job->host->untidy = true;
    if (job->fire != NULL) {
        job->host->untidy = job->host->untidy || job->h != NULL;
        fires_over(job->fire, &job->issues, &job->err);
        job->fire = NULL;
    }
    job_wake(job);
}

static void on_over(void *arg)
{
    struct host_job *job = arg;

    job->host->woken = true;
    if (job->kind == HOST_CURVES)
        job->host->curves = job->curves;
    job->curves = NULL;
    if (job->kind == HOST_MAKE && job->err.rc == FR_OK)
        job->state = JOB_MADE;
    else
        job_end(job);
    job_start_all(job->host);
}

/* The host's curves become the job's. false: no memory. */
static bool take_curves(struct host_job *job)
{
    if (job->kind != HOST_CURVES)
        return true;
    job->curves = job->host->curves != NULL ? job->host->curves : fr_curves_create(FR_CURVES_BYTES);
    job->host->curves = NULL;
    return job->curves != NULL;
}

/* What a sweep removes it removes as the host: not beside another one that has followed it. */
static enum fr_rc take_lead(struct host_job *job)
{
    struct fr_store *st = job->host->store;
    enum fr_rc rc = FR_OK;

    if (job->kind == HOST_SWEEP && !fr_store_get_lead(st).raised &&
        (rc = fr_store_begin(st, &job->err)) == FR_OK)
        rc = fr_store_commit(st, &job->err);
    job->lead = fr_store_get_lead(st);
    return rc;
}

static bool start(struct host_job *job)
{
    if (is_alone(job) && take_lead(job) != FR_OK)
        return false;
    job->work = (struct fr_work){.run = in_thread, .over = on_over, .drop = free_job, .arg = job};
    if (take_curves(job) && fr_loop_work(job->host->loop, &job->work) == FR_OK)
        return true;
    fr_fail(&job->err, FR_NOMEM, "no thread for a request");
    return false;
}

void job_start_all(struct fr_host *host)
{
    size_t making = 0, threads = 0, readers = 0;
    bool alone = false, drawing = false;

    for (struct host_job *job = host->jobs; job != NULL; job = job->next)
        drawing = drawing || (job->kind == HOST_CURVES && job->state == JOB_RUNS);
    for (struct host_job *job = host->jobs; job != NULL; job = job->next) {
        bool waits = job->state == JOB_WAITS, curves = job->kind == HOST_CURVES;

        if (waits && threads < THREADS && !alone && !(is_alone(job) && making > 0) &&
            !(curves && drawing) && !(job->kind == HOST_TEXT && readers == READERS)) {
            job->state = JOB_RUNS;
            drawing = drawing || curves;
            if (!start(job))
                job_end(job);
        }
        threads += job->state == JOB_RUNS;
        readers += job->state == JOB_RUNS && job->kind == HOST_TEXT;
        making += job->kind == HOST_MAKE && job->state != JOB_OVER;
        alone = alone || (is_alone(job) && job->state != JOB_OVER);
    }
}

/* ---- how they come and go ---- */

static void drop(struct host_job *job)
{
    struct host_job **at = &job->host->jobs;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    free_job(job);
}

struct host_job *jobs_add(struct fr_host *host, enum host_job_kind kind, struct fr_id run)
{
    struct host_job *job = fr_sys.alloc(sizeof(*job)), **at = &host->jobs;

    if (job == NULL)
        return NULL;
    *job = (struct host_job){.host = host, .kind = kind, .run = run, .ticket = ++host->last_ticket};
    job->home = fr_arena_dup(&job->arena, fr_store_home(host->store));
    if (job->home == NULL) {
        free_job(job);
        return NULL;
    }
    while (*at != NULL)
        at = &(*at)->next;
    *at = job;
    if (kind != HOST_MAKE && kind != HOST_CURVES && kind != HOST_TEXT)
        job_start_all(host);
    return job;
}

struct host_job *jobs_text(struct fr_host *host, const struct host_text *want)
{
    struct host_job *job = jobs_add(host, HOST_TEXT, want->run);

    if (job == NULL)
        return NULL;
    job->text = *want;
    job->text.epoch = host->env.epoch;
    job->text.changes = fr_store_changes(host->store);
    job->text.lines = NULL;
    job->text.tallies = NULL;
    job->text.readers = NULL;
    for (size_t i = 0; i < HOST_VIEW_ARGS; i++)
        if (want->args[i] != NULL &&
            (job->text.args[i] = fr_arena_dup(&job->arena, want->args[i])) == NULL) {
            drop(job);
            return NULL;
        }
    job->text.lines = host_lines_use(want->lines);
    if (host->tallies == NULL)
        host->tallies = host_tallies_create(); /* without memory each list counts */
    job->text.tallies = host_tallies_use(host->tallies);
    if (host->readers == NULL)
        host->readers = host_readers_create(); /* without memory each view opens one */
    job->text.readers = host_readers_use(host->readers);
    job_start_all(host);
    return job;
}

void jobs_make(struct host_job *job, const struct host_make *make)
{
    job->h = make->h;
    job->env = make->env;
    job->env.home = job->home;
    (void)fr_claims_use(job->env.claims);
    job->submit = make->submit;
    job->zones = make->zones;
    job->zones.home = fr_arena_dup(&job->arena, make->zones.home); /* NULL: UTC */
    job->submit.spec.zones = &job->zones;
    job->doc = json_incref(make->doc);
    job->texts = *make->arena;
    *make->arena = (struct fr_arena){0};
    job_start_all(job->host);
}

void jobs_curves(struct host_job *job, const struct host_curves *ask)
{
    job->ask = *ask;
    if (ask->task != NULL)
        job->ask.task = fr_arena_dup(&job->arena, ask->task);
    if (ask->keys != NULL)
        job->ask.keys = fr_arena_dup(&job->arena, ask->keys);
    job_start_all(job->host);
}

void jobs_of_fire(struct host_job *job, struct host_fire *fire)
{
    job->fire = fire;
    job->alone = true;
}

void jobs_of_backfill(struct host_job *job, const struct host_backfill *b)
{
    job->backfill = *b;
}

bool jobs_backfilling(const struct fr_host *host, int64_t id)
{
    for (const struct host_job *job = host->jobs; job != NULL; job = job->next)
        if (job->backfill.id == id)
            return true;
    return false;
}

struct host_job *jobs_making(const struct fr_host *host, struct fr_id run)
{
    struct host_job *job = host->jobs;

    while (job != NULL &&
           !(job->kind == HOST_MAKE && job->state != JOB_OVER && fr_id_eq(job->run, run)))
        job = job->next;
    return job;
}

bool jobs_repeating(const struct fr_host *host, struct fr_id run)
{
    for (const struct host_job *job = host->jobs; job != NULL; job = job->next)
        if (job->submit.by_itself && fr_id_eq(job->submit.again->row.id, run))
            return true;
    return false;
}

struct host_job *jobs_of(const struct fr_host *host, const struct fr_api_waiter *w)
{
    struct host_job *job = host->jobs;

    while (job != NULL && (w == NULL || job->ticket != w->ticket))
        job = job->next;
    return job;
}

void jobs_wait(struct host_job *job, struct fr_api_waiter *w)
{
    if (w == NULL)
        return;
    w->ticket = job->ticket;
    w->next = job->waiters;
    job->waiters = w;
}

void jobs_unwait(void *arg, struct fr_api_waiter *w)
{
    struct host_job *job = jobs_of(arg, w);

    for (struct fr_api_waiter **at = job != NULL ? &job->waiters : NULL; at != NULL && *at != NULL;
         at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            return;
        }
}

bool jobs_stuck(const struct host_job *job)
{
    return job->stuck;
}

bool jobs_over(const struct host_job *job)
{
    return job->state == JOB_OVER;
}

enum fr_rc jobs_take(struct host_job *job, struct host_result *out, struct fr_issues *issues,
                     struct fr_err *err)
{
    enum fr_rc rc = job->err.rc;

    *out = (struct host_result){.run = job->run, .bytes = job->bytes, .swept = job->swept};
    if (rc != FR_OK) {
        *err = job->err;
    } else {
        out->text = (struct host_text){.json = job->text.json,
                                       .seq = job->text.seq,
                                       .priority = job->text.priority,
                                       .pinned = job->text.pinned,
                                       .driven = job->text.driven,
                                       .changes = job->text.changes};
        memcpy(out->text.fixed, job->text.fixed, sizeof(out->text.fixed));
        job->text.json = (struct fr_buf){0};
    }
    *issues = job->issues;
    job->issues = (struct fr_issues){0};
    drop(job);
    return rc;
}

void jobs_tidy(struct fr_host *host)
{
    int64_t now = fr_sys.mono_ms();

    for (struct host_job *job = host->jobs, *next; job != NULL; job = next) {
        next = job->next;
        if (job->state == JOB_OVER && job->submit.by_itself) {
            rerun_made(host, &job->submit.again->row, &job->err);
            drop(job);
        } else if (job->state == JOB_OVER && job->backfill.id != 0) {
            backfill_made(host, &job->backfill, &job->issues, &job->err);
            drop(job);
        } else if (job->state == JOB_OVER &&
                   (job->kind == HOST_TIDY || job->alone || now > job->over_ms + FORGET_MS))
            drop(job);
    }
    if (host->untidy && jobs_add(host, HOST_TIDY, (struct fr_id){{0}}) != NULL)
        host->untidy = false;
}

/* true: the job is ours again. A sweep does not outlive its host: what the next one has half
 * written would be left over to it. */
static bool forget(struct host_job *job)
{
    bool ours = fr_loop_forget(job->host->loop, &job->work);

    for (; !ours && is_alone(job); ours = fr_loop_forget(job->host->loop, &job->work))
        fr_sys.poll(NULL, 0, 1);
    return ours;
}

void jobs_finish(struct fr_host *host)
{
    while (host->jobs != NULL) {
        struct host_job *job = host->jobs;

        host->jobs = job->next;
        job->waiters = NULL;
        if (job->state != JOB_RUNS || forget(job))
            free_job(job);
    }
    fr_curves_destroy(host->curves);
    host->curves = NULL;
}
