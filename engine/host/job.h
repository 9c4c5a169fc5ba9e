/* A job, for jobs.c and jobs_rows.c alone. */
#ifndef FR_HOST_JOB_H
#define FR_HOST_JOB_H

#include "engine/host/backfilling.h"
#include "engine/host/internal.h"
#include "engine/host/schedules.h"
#include "engine/store/lead.h"

enum job_state {
    JOB_WAITS,
    JOB_RUNS,
    JOB_MADE, /* MAKE: its rows are to be written */
    JOB_OVER
};

struct host_job {
    struct host_job *next;
    struct fr_host *host;
    enum host_job_kind kind;
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
    struct fr_swept swept; /* SWEEP, TIDY: with the host's lead */
    struct fr_lead lead;
    int64_t bytes;
    struct host_text text;
    struct host_curves ask;   /* CURVES */
    struct fr_curves *curves; /* owns: the host's, while it runs */
    /* MAKE */
    json_t *doc;           /* owns: texts of submit live there … */
    struct fr_arena texts; /* … and here */
    struct fr_submit submit;
    struct fr_zones zones;
    struct fr_run_env env;
    struct host_run *h;            /* owns, until it is one of the host's */
    bool putting;                  /* rows of it are in the transaction */
    bool stuck;                    /* the first are written, the next ones cannot be now */
    struct host_fire *fire;        /* of its schedule, until it is over; NULL: none */
    struct host_backfill backfill; /* id 0: it is of none */
    bool decided;                  /* it is of no use any more: so says the transaction */
    bool alone;                    /* nobody asks for what became of it */
};

void job_end(struct host_job *job);
void job_wake(struct host_job *job); /* those who wait for it ask again */
/* Those that wait, in their order, as far as they may run beside those that do. */
void job_start_all(struct fr_host *host);

#endif
