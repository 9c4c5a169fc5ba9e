/*
 * Background jobs: work that is too long for the event loop, done in a thread. The request that
 * needs a job is repeated once the job is over, and answered then.
 *
 *   make_job.c            reads, checks and stages the pipeline of a new run; the host's commits
 *                         then write its rows in slices
 *   sweep_job.c           adds up the files of a run; removes what no row knows
 *   answer/view_job.c     reads the store, logs or metrics, as the text of an answer
 *
 * Only make_job.c stores blobs, and no row names a blob before the run's commit. So a sweep never
 * runs beside a make job.
 */
#ifndef FR_RUNS_JOB_H
#define FR_RUNS_JOB_H

#include "engine/api/api.h"
#include "engine/base/arena.h"
#include "engine/loop/loop.h"
#include "engine/run/run.h"

struct fr_host;
struct host_job;

/* A kind of jobs; functions may be NULL. */
struct job_ops {
    bool makes;  /* makes a run */
    bool alone;  /* never beside a job that makes a run; later ones wait for it */
    size_t most; /* at once; 0: as many as there are threads */
    enum fr_rc (*begin)(struct host_job *job); /* before its thread; its error is job->err */
    void (*in_thread)(struct host_job *job);   /* its error is job->err */
    void (*landed)(struct host_job *job);      /* its thread is over */
    void (*ended)(struct host_job *job);       /* the job is over */
    bool (*unasked)(struct host_job *job);     /* after the turn; true: no request needs it */
    void (*free)(struct host_job *job);        /* gives back what the job owns beside this */
};

enum job_state {
    JOB_WAITS,
    JOB_RUNS,
    JOB_MADE, /* a run: its rows are to be written */
    JOB_OVER
};

struct host_job { /* the first member of its kind's */
    struct host_job *next;
    struct fr_host *host;
    const struct job_ops *ops;
    enum job_state state;
    uint64_t ticket;
    struct fr_work work;
    struct fr_api_waiter *waiters;
    int64_t over_ms;
    struct fr_id run;
    char *home;            /* in the arena, as all texts */
    struct fr_arena arena; /* owns */
    struct fr_issues issues;
    struct fr_err err;
};

/* A job of bytes, zero but for this part; it starts with job_start_all(). NULL: no memory. */
struct host_job *job_add(struct fr_host *host, const struct job_ops *ops, size_t bytes,
                         struct fr_id run);
/* Starts waiting jobs in their order, as far as the limits of their kinds permit. */
void job_start_all(struct fr_host *host);
void job_end(struct host_job *job);  /* ends it, and repeats the requests that wait for it */
void job_wake(struct host_job *job); /* repeats the requests that wait for it */
void job_drop(struct host_job *job); /* frees it; its thread must not run */
bool job_over(const struct host_job *job);
/* The result of a job that is over. The caller owns issues from here on. */
enum fr_rc job_result(struct host_job *job, struct fr_issues *issues, struct fr_err *err);

/* The job that the request waits for; NULL: none. */
struct host_job *job_of(const struct fr_host *host, const struct fr_api_waiter *w);
void job_wait(struct host_job *job, struct fr_api_waiter *w);
void job_unwait(struct fr_host *host, struct fr_api_waiter *w);

void jobs_tidy(struct fr_host *host); /* drops finished jobs that no request needs */
void jobs_finish(struct fr_host *host);

/* ---- make_job.c ---- */

/* Callbacks of the maker of a run, where no request waits for it. */
struct make_for {
    /* Inside the transaction that adds the run, before and after its rows. *enters false: the run
     * is obsolete and is not added. NULL: it always enters. */
    enum fr_rc (*enter)(void *arg, const struct fr_run *run, bool *enters, struct fr_err *err);
    enum fr_rc (*put)(void *arg, int64_t no, struct fr_err *err);
    /* The run is made, or why and issues have the error. Outside a transaction. */
    void (*over)(void *arg, const struct fr_issues *issues, const struct fr_err *why);
};

struct host_make { /* a run to make */
    struct host_run *h;
    struct fr_run_env env;
    struct fr_submit submit; /* its texts live in doc and arena */
    struct fr_zones zones;
    json_t *doc;
    struct fr_arena *arena; /* the job takes its memory */
};
/* NULL: no memory. */
struct host_job *make_begin(struct fr_host *host, const struct host_make *make);
/* ops and arg live until over() was called, or the host ends. */
void make_for(struct host_job *job, const struct make_for *ops, void *arg);
struct host_job *make_find(const struct fr_host *host, struct fr_id run); /* NULL: none */
/* Whether a run that is being made for ops fits is(arg, what). */
typedef bool make_is_fn(const void *arg, const void *what);
bool make_any(const struct fr_host *host, const struct make_for *ops, make_is_fn *is,
              const void *what);
bool make_stuck(const struct host_job *job); /* its run is half written; commits fail now */
bool makes_due(const struct fr_host *host);  /* new runs have rows to write */
/* Inside the host's transaction; then one of the other two, by its result. */
enum fr_rc makes_write(struct fr_host *host, struct fr_err *err);
void makes_written(struct fr_host *host);
void makes_not_written(struct fr_host *host, const struct fr_err *why);

/* ---- sweep_job.c: NULL: no memory ---- */

struct host_job *size_begin(struct fr_host *host, struct fr_id run);
int64_t size_bytes(const struct host_job *job); /* of one that is over */
struct fr_swept;
struct host_job *sweep_begin(struct fr_host *host, struct fr_id run);
struct fr_swept sweep_result(const struct host_job *job);
/* Removes the files of an incomplete submit (blob.h). */
struct host_job *untidy_begin(struct fr_host *host);

#endif
