/* Background jobs: their order, their threads, who waits for them. */
#include "engine/runs/job.h"

#include "engine/runs/state.h"
#include "engine/store/home.h"

enum { THREADS = 4, FORGET_MS = 10000 /* its asker may have gone */ };

static void free_job(void *arg)
{
    struct host_job *job = arg;

    if (job->ops->free != NULL)
        job->ops->free(job);
    fr_issues_finish(&job->issues);
    fr_arena_finish(&job->arena);
    fr_sys.free(job);
}

/* ---- their order ---- */

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
    if (job->ops->ended != NULL)
        job->ops->ended(job);
    job_wake(job);
}

static void in_thread(void *arg)
{
    struct host_job *job = arg;

    job->ops->in_thread(job);
}

static void on_over(void *arg)
{
    struct host_job *job = arg;

    job->host->woken = true;
    if (job->ops->landed != NULL)
        job->ops->landed(job);
    if (job->ops->makes && job->err.rc == FR_OK)
        job->state = JOB_MADE;
    else
        job_end(job);
    job_start_all(job->host);
}

static bool start(struct host_job *job)
{
    if (job->ops->begin != NULL && job->ops->begin(job) != FR_OK)
        return false;
    job->work = (struct fr_work){.run = in_thread, .over = on_over, .drop = free_job, .arg = job};
    if (fr_loop_work(job->host->env.loop, &job->work) == FR_OK)
        return true;
    fr_fail(&job->err, FR_NOMEM, "no thread for a request");
    return false;
}

/* ops NULL: of all kinds. */
static size_t running(const struct fr_host *host, const struct job_ops *ops)
{
    size_t n = 0;

    for (const struct host_job *job = host->jobs.first; job != NULL; job = job->next)
        n += job->state == JOB_RUNS && (ops == NULL || job->ops == ops);
    return n;
}

/* No more of that kind may run now. Many wait while a kind is full: *full remembers which. */
static bool is_full(const struct fr_host *host, const struct job_ops *ops,
                    const struct job_ops **full)
{
    if (ops->most != 0 && ops != *full && running(host, ops) >= ops->most)
        *full = ops;
    return ops->most != 0 && ops == *full;
}

void job_start_all(struct fr_host *host)
{
    bool making = false, alone = false; /* one before it, that is not over */
    const struct job_ops *full = NULL;
    size_t threads = running(host, NULL);

    for (struct host_job *job = host->jobs.first; job != NULL; job = job->next) {
        const struct job_ops *ops = job->ops;

        if (job->state == JOB_WAITS && !alone && !(ops->alone && making) && threads < THREADS &&
            !is_full(host, ops, &full)) {
            job->state = JOB_RUNS;
            if (!start(job))
                job_end(job);
            threads += job->state == JOB_RUNS;
        }
        making = making || (ops->makes && job->state != JOB_OVER);
        alone = alone || (ops->alone && job->state != JOB_OVER);
    }
}

/* ---- how they come and go ---- */

void job_drop(struct host_job *job)
{
    struct host_job **at = &job->host->jobs.first;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    free_job(job);
}

struct host_job *job_add(struct fr_host *host, const struct job_ops *ops, size_t bytes,
                         struct fr_id run)
{
    struct host_job *job = fr_sys.alloc(bytes), **at = &host->jobs.first;

    if (job == NULL)
        return NULL;
    memset(job, 0, bytes);
    *job =
        (struct host_job){.host = host, .ops = ops, .run = run, .ticket = ++host->jobs.last_ticket};
    job->home = fr_arena_dup(&job->arena, fr_store_home(host->env.store));
    if (job->home == NULL) {
        free_job(job);
        return NULL;
    }
    while (*at != NULL)
        at = &(*at)->next;
    *at = job;
    return job;
}

struct host_job *job_of(const struct fr_host *host, const struct fr_api_waiter *w)
{
    struct host_job *job = host->jobs.first;

    while (job != NULL && (w == NULL || job->ticket != w->ticket))
        job = job->next;
    return job;
}

void job_wait(struct host_job *job, struct fr_api_waiter *w)
{
    if (w == NULL)
        return;
    w->ticket = job->ticket;
    w->next = job->waiters;
    job->waiters = w;
}

void job_unwait(struct fr_host *host, struct fr_api_waiter *w)
{
    struct host_job *job = job_of(host, w);

    for (struct fr_api_waiter **at = job != NULL ? &job->waiters : NULL; at != NULL && *at != NULL;
         at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            return;
        }
}

bool job_over(const struct host_job *job)
{
    return job->state == JOB_OVER;
}

enum fr_rc job_result(struct host_job *job, struct fr_issues *issues, struct fr_err *err)
{
    if (job->err.rc != FR_OK)
        *err = job->err;
    *issues = job->issues;
    job->issues = (struct fr_issues){0};
    return job->err.rc;
}

void jobs_tidy(struct fr_host *host)
{
    int64_t now = fr_sys.mono_ms();

    for (struct host_job *job = host->jobs.first, *next; job != NULL; job = next) {
        next = job->next;
        if (job->state == JOB_OVER && ((job->ops->unasked != NULL && job->ops->unasked(job)) ||
                                       now > job->over_ms + FORGET_MS))
            job_drop(job);
    }
    if (host->jobs.untidy && untidy_begin(host) != NULL)
        host->jobs.untidy = false;
}

/* true: the job is ours again. A sweep does not outlive its host: what the next one has half
 * written would be left over to it. */
static bool forget(struct host_job *job)
{
    bool ours = fr_loop_forget(job->host->env.loop, &job->work);

    for (; !ours && job->ops->alone; ours = fr_loop_forget(job->host->env.loop, &job->work))
        fr_sys.poll(NULL, 0, 1);
    return ours;
}

void jobs_finish(struct fr_host *host)
{
    while (host->jobs.first != NULL) {
        struct host_job *job = host->jobs.first;

        host->jobs.first = job->next;
        job->waiters = NULL;
        if (job->state != JOB_RUNS || forget(job))
            free_job(job);
    }
}
