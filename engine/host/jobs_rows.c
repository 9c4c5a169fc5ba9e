/* Rows of new runs: what jobs of kind MAKE have made, a slice with each commit of the host. */
#include "engine/host/job.h"

bool jobs_made(const struct fr_host *host)
{
    for (const struct host_job *job = host->jobs; job != NULL; job = job->next)
        if (job->state == JOB_MADE)
            return true;
    return false;
}

/* The first rows of a schedule's run, with the row of its instant. */
static enum fr_rc put_fire(struct host_job *job, size_t *rows, struct fr_err *err)
{
    bool enters = false;
    enum fr_rc rc = fires_enter(job->fire, job->h->run, &enters, err);

    job->decided = !enters;
    if (rc != FR_OK || !enters)
        return rc;
    job->putting = true;
    rc = fr_run_put(job->h->run, &job->submit, rows, err);
    return rc == FR_OK ? fires_put(job->fire, fr_run_no(job->h->run), err) : rc;
}

/* The same of a backfill, with its cursor. */
static enum fr_rc put_backfill(struct host_job *job, size_t *rows, struct fr_err *err)
{
    bool enters = false;
    enum fr_rc rc = backfill_enter(job->host, &job->backfill, &enters, err);

    job->decided = !enters;
    if (rc != FR_OK || !enters)
        return rc;
    job->putting = true;
    rc = fr_run_put(job->h->run, &job->submit, rows, err);
    return rc == FR_OK ? backfill_put(job->host, &job->backfill, fr_run_no(job->h->run), err) : rc;
}

enum fr_rc jobs_write(struct fr_host *host, struct fr_err *err)
{
    size_t rows = FR_RUN_PUT_ROWS;
    enum fr_rc rc = FR_OK;

    for (struct host_job *job = host->jobs; rc == FR_OK && job != NULL; job = job->next) {
        job->putting = job->decided = false;
        if (job->state != JOB_MADE || rows == 0)
            continue;
        if (fr_run_enqueue(job->h->run, &job->submit, &job->err) != FR_OK) {
            job_end(job); /* the queue is full */
        } else if (job->fire != NULL && !fr_run_added(job->h->run)) {
            rc = put_fire(job, &rows, err);
        } else if (job->backfill.id != 0 && !fr_run_added(job->h->run)) {
            rc = put_backfill(job, &rows, err);
        } else {
            job->putting = true;
            rc = fr_run_put(job->h->run, &job->submit, &rows, err);
        }
    }
    return rc;
}

void jobs_written(struct fr_host *host)
{
    for (struct host_job *job = host->jobs; job != NULL; job = job->next) {
        bool all = false;

        if (job->decided)
            job_end(job);
        if (!job->putting || job->decided)
            continue;
        job->putting = job->stuck = false;
        if (fr_run_put_over(job->h->run, &all, &job->err) != FR_OK ||
            (all && host_take(job->h, &job->err) != FR_OK)) {
            job_end(job);
        } else if (all) {
            job->h = NULL;
            job_end(job);
        }
    }
    job_start_all(host);
}

void jobs_not_written(struct fr_host *host, const struct fr_err *why)
{
    for (struct host_job *job = host->jobs; job != NULL && why->rc != FR_BUSY; job = job->next)
        if (job->putting && !fr_run_added(job->h->run)) {
            job->putting = false;
            job->err = *why;
            job_end(job);
        } else if (job->putting) {
            job->stuck = true;
            job_wake(job);
        }
    job_start_all(host);
}
