/*
 * New runs: a thread reads, checks and stages the pipeline of each; its rows are then written by
 * the host's commits, a slice each.
 */
#include "engine/runs/job.h"
#include "engine/runs/state.h"

#include "engine/store/claims.h"

struct make_job {
    struct host_job job;
    json_t *doc;           /* owns: texts of submit live there … */
    struct fr_arena texts; /* … and here */
    struct fr_submit submit;
    struct fr_zones zones;
    struct fr_run_env env;
    struct host_run *h;        /* owns, until it is one of the host's */
    bool putting;              /* the open transaction has rows of it */
    bool stuck;                /* the first are written, the next ones cannot be now */
    bool obsolete;             /* the transaction found that the job is obsolete */
    const struct make_for *of; /* NULL: a request */
    void *arg;
};

static void in_thread(struct host_job *job)
{
    struct make_job *m = (struct make_job *)job;

    (void)fr_run_make(&m->env, &m->submit, &m->h->run, &job->issues, &job->err);
}

static void landed(struct host_job *job)
{
    (void)host_cause(job->host, job->err.rc, &job->issues, &job->err);
}

/* What is left of one that was not made is removed. */
static void ended(struct host_job *job)
{
    if (((struct make_job *)job)->h != NULL)
        job->host->jobs.untidy = true;
}

static bool unasked(struct host_job *job)
{
    struct make_job *m = (struct make_job *)job;

    if (m->of == NULL)
        return false;
    m->of->over(m->arg, &job->issues, &job->err);
    return true;
}

static void free_make(struct host_job *job)
{
    struct make_job *m = (struct make_job *)job;

    if (m->h != NULL)
        host_free_run(m->h);
    fr_claims_leave(m->env.claims);
    json_decref(m->doc);
    fr_arena_finish(&m->texts);
}

static const struct job_ops make_ops = {.makes = true,
                                        .in_thread = in_thread,
                                        .landed = landed,
                                        .ended = ended,
                                        .unasked = unasked,
                                        .free = free_make};

struct host_job *make_begin(struct fr_host *host, const struct host_make *make)
{
    struct host_job *job = job_add(host, &make_ops, sizeof(struct make_job), make->submit.id);
    struct make_job *m = (struct make_job *)job;

    if (job == NULL)
        return NULL;
    m->h = make->h;
    m->env = make->env;
    m->env.home = job->home;
    (void)fr_claims_use(m->env.claims);
    m->submit = make->submit;
    m->zones = make->zones;
    m->zones.home = fr_arena_dup(&job->arena, make->zones.home); /* NULL: UTC */
    m->submit.spec.zones = &m->zones;
    m->doc = json_incref(make->doc);
    m->texts = *make->arena;
    *make->arena = (struct fr_arena){0};
    job_start_all(host);
    return job;
}

void make_for(struct host_job *job, const struct make_for *ops, void *arg)
{
    struct make_job *m = (struct make_job *)job;

    m->of = ops;
    m->arg = arg;
}

static struct make_job *next_make(struct host_job *job)
{
    while (job != NULL && !job->ops->makes)
        job = job->next;
    return (struct make_job *)job;
}

struct host_job *make_find(const struct fr_host *host, struct fr_id run)
{
    for (struct make_job *m = next_make(host->jobs.first); m != NULL; m = next_make(m->job.next))
        if (m->job.state != JOB_OVER && fr_id_eq(m->job.run, run))
            return &m->job;
    return NULL;
}

bool make_any(const struct fr_host *host, const struct make_for *ops, make_is_fn *is,
              const void *what)
{
    for (struct make_job *m = next_make(host->jobs.first); m != NULL; m = next_make(m->job.next))
        if (m->of == ops && is(m->arg, what))
            return true;
    return false;
}

bool make_stuck(const struct host_job *job)
{
    return ((const struct make_job *)job)->stuck;
}

/* ---- their rows ---- */

bool makes_due(const struct fr_host *host)
{
    for (const struct host_job *job = host->jobs.first; job != NULL; job = job->next)
        if (job->state == JOB_MADE)
            return true;
    return false;
}

/* The first rows, with what says that the run is made. */
static enum fr_rc put_first(struct make_job *m, size_t *rows, struct fr_err *err)
{
    bool enters = true;
    enum fr_rc rc = FR_OK;

    if (m->of != NULL && m->of->enter != NULL)
        rc = m->of->enter(m->arg, m->h->run, &enters, err);
    m->obsolete = !enters;
    if (rc != FR_OK || !enters)
        return rc;
    m->putting = true;
    rc = fr_run_put(m->h->run, &m->submit, rows, err);
    return rc == FR_OK && m->of != NULL && m->of->put != NULL
               ? m->of->put(m->arg, fr_run_no(m->h->run), err)
               : rc;
}

enum fr_rc makes_write(struct fr_host *host, struct fr_err *err)
{
    size_t rows = FR_RUN_PUT_ROWS;
    enum fr_rc rc = FR_OK;

    for (struct make_job *m = next_make(host->jobs.first); rc == FR_OK && m != NULL;
         m = next_make(m->job.next)) {
        m->putting = m->obsolete = false;
        if (m->job.state != JOB_MADE || rows == 0)
            continue;
        if (fr_run_enqueue(m->h->run, &m->submit, &m->job.err) != FR_OK) {
            job_end(&m->job); /* the queue is full */
        } else if (!fr_run_added(m->h->run)) {
            rc = put_first(m, &rows, err);
        } else {
            m->putting = true;
            rc = fr_run_put(m->h->run, &m->submit, &rows, err);
        }
    }
    return rc;
}

void makes_written(struct fr_host *host)
{
    for (struct make_job *m = next_make(host->jobs.first); m != NULL; m = next_make(m->job.next)) {
        bool all = false;

        if (m->obsolete)
            job_end(&m->job);
        if (!m->putting || m->obsolete)
            continue;
        m->putting = m->stuck = false;
        if (fr_run_put_over(m->h->run, &all, &m->job.err) != FR_OK ||
            (all && host_take(m->h, &m->job.err) != FR_OK)) {
            job_end(&m->job);
        } else if (all) {
            m->h = NULL;
            job_end(&m->job);
        }
    }
    job_start_all(host);
}

void makes_not_written(struct fr_host *host, const struct fr_err *why)
{
    for (struct make_job *m = next_make(host->jobs.first); m != NULL && why->rc != FR_BUSY;
         m = next_make(m->job.next))
        if (m->putting && !fr_run_added(m->h->run)) {
            m->putting = false;
            m->job.err = *why;
            job_end(&m->job);
        } else if (m->putting) {
            m->stuck = true;
            job_wake(&m->job);
        }
    job_start_all(host);
}
