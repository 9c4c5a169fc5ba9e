/*
 * Background jobs: work that is too long for the event loop. A job's thread does it while the loop
 * goes on with all runs; a request that asked for it is asked again once it is over, and is
 * answered then.
 *
 *   make_job.c            reads, checks and stages the pipeline of a new run; its rows are then
 *                         written by the host's commits, a slice each
 *   sweep_job.c           adds up the files of a run; removes what no row knows
 *   answer/view_job.c     reads the store, logs or metrics, as the text of an answer
 *
 * Blobs are stored by the making of runs alone, and no row names them before its commit: so a sweep
 * waits until no run is being made, and none is made meanwhile.
 */
#ifndef FR_RUNS_JOB_H
#define FR_RUNS_JOB_H

#include "engine/api/api.h"
#include "engine/base/arena.h"
#include "engine/loop/loop.h"
#include "engine/run/run.h"

struct fr_host;
struct host_job;

/* A kind of jobs; a function that is NULL has nothing to do. */
struct job_ops {
    bool makes;  /* a run */
    bool alone;  /* beside none that makes a run, and before none that comes after it */
    size_t most; /* of this kind at once; 0: as many as there are threads */
    enum fr_rc (*begin)(struct host_job *job); /* before its thread; its error is job->err */
    void (*in_thread)(struct host_job *job);   /* its error is job->err */
    void (*landed)(struct host_job *job);      /* its thread is over */
    void (*ended)(struct host_job *job);       /* it is over */
    bool (*unasked)(struct host_job *job);     /* after the turn; true: nobody asks for it */
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
/* Those that wait, in their order, as far as they may run beside those that do. */
void job_start_all(struct fr_host *host);
void job_end(struct host_job *job);  /* it is over: those who wait for it ask again */
void job_wake(struct host_job *job); /* they ask again */
void job_drop(struct host_job *job); /* one whose thread does not run */
bool job_over(const struct host_job *job);
/* What became of one that is over; issues are the caller's from here on. */
enum fr_rc job_result(struct host_job *job, struct fr_issues *issues, struct fr_err *err);

/* What the request waits for; NULL: nothing. */
struct host_job *job_of(const struct fr_host *host, const struct fr_api_waiter *w);
void job_wait(struct host_job *job, struct fr_api_waiter *w);
void job_unwait(struct fr_host *host, struct fr_api_waiter *w);

void jobs_tidy(struct fr_host *host); /* drops what nobody asks for any more */
void jobs_finish(struct fr_host *host);

/* ---- make_job.c ---- */

/* Who a run is made for, when that is no request. */
struct make_for {
    /* Inside of the transaction that adds the run, before and after its rows. *enters false: it is
     * not wanted any more. NULL: it always is. */
    enum fr_rc (*enter)(void *arg, const struct fr_run *run, bool *enters, struct fr_err *err);
    enum fr_rc (*put)(void *arg, int64_t no, struct fr_err *err);
    /* It is made, or why and issues say why not; outside of a transaction. */
    void (*over)(void *arg, const struct fr_issues *issues, const struct fr_err *why);
};

struct host_make { /* a run that is to be made */
    struct host_run *h;
    struct fr_run_env env;
    struct fr_submit submit; /* its texts live in doc and arena */
    struct fr_zones zones;
    json_t *doc;
    struct fr_arena *arena; /* its memory becomes the job's */
};
/* NULL: no memory. */
struct host_job *make_begin(struct fr_host *host, const struct host_make *make);
/* ops and arg live until arg was told that it is over, or the host ends. */
void make_for(struct host_job *job, const struct make_for *ops, void *arg);
struct host_job *make_find(const struct fr_host *host, struct fr_id run); /* NULL: none */
/* Whether one of the runs that are being made for ops is the one. */
typedef bool make_is_fn(const void *arg, const void *what);
bool make_any(const struct fr_host *host, const struct make_for *ops, make_is_fn *is,
              const void *what);
bool make_stuck(const struct host_job *job); /* its run is half written, and goes on later */
bool makes_due(const struct fr_host *host);  /* rows of new runs are to be written */
/* Inside of the host's transaction; one of the others after it. */
enum fr_rc makes_write(struct fr_host *host, struct fr_err *err);
void makes_written(struct fr_host *host);
void makes_not_written(struct fr_host *host, const struct fr_err *why);

/* ---- sweep_job.c: NULL: no memory ---- */

struct host_job *size_begin(struct fr_host *host, struct fr_id run);
int64_t size_bytes(const struct host_job *job); /* of one that is over */
struct fr_swept;
struct host_job *sweep_begin(struct fr_host *host, struct fr_id run);
struct fr_swept sweep_result(const struct host_job *job);
/* Removes what a submit left that was not completed (blob.h). */
struct host_job *untidy_begin(struct fr_host *host);

#endif
