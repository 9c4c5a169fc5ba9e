/*
 * The host of a home, as the rooms above share it: the runs that it drives, and the parts that it
 * is made of. A part keeps what it knows in a struct of its own, and hears of runs by the functions
 * of its row (struct host_part); nobody else calls up.
 */
#ifndef FR_RUNS_STATE_H
#define FR_RUNS_STATE_H

#include "engine/base/arena.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/run/run.h"
#include "engine/runs/runs.h"
#include "engine/spec/config.h"
#include "engine/store/types.h"

#include <string.h>

struct fr_host;
struct host_run;

/* What the parts do for the host; an error is final. */
enum host_step {
    HOST_OPEN,   /* once, before all else */
    HOST_TURN,   /* at the begin of each turn */
    HOST_DECIDE, /* before the runs decide, also for a request that waits for that */
    HOST_SHARE,  /* after all runs have decided */
    HOST_PARKED, /* a run is no longer driven, and its tasks go on */
    HOST_STEPS
};

/* What the parts do for a run. */
enum host_run_step {
    HOST_RUN_SETTLED, /* after each commit, before any run leaves */
    HOST_RUN_LEAVES,  /* it is no longer driven: send what was not sent */
    HOST_RUN_GONE,    /* it is no longer in the host's list */
    HOST_RUN_FREE,    /* give back the part's memory of it */
    HOST_RUN_STEPS
};

/* What the host tells its parts, and streams those who follow a topic; a bit each. */
enum host_topic {
    HOST_LIST = 1,  /* of runs */
    HOST_QUEUE = 2, /* a queued run may start now, or another one waits */
    HOST_NODES = 4,
    HOST_SCHEDULES = 8
};

/* A part of the host; a function that is NULL has nothing to do. All parts are called in the order
 * of the host's list. */
struct host_part {
    const char *name; /* what held the loop: "what schedules had to do" */
    enum fr_rc (*step[HOST_STEPS])(struct fr_host *host, struct fr_err *err);
    void (*of_run[HOST_RUN_STEPS])(struct host_run *h);
    enum fr_rc (*decided)(struct host_run *h, struct fr_err *err); /* a run has */
    void (*changed)(struct fr_host *host, enum host_topic topic);
    void (*tell)(struct fr_host *host);         /* after the commit */
    int64_t (*due)(const struct fr_host *host); /* the next turn, in mono_ms; INT64_MAX: none */
    /* Whether a new run of that waits in the queue. */
    enum fr_rc (*waits)(struct fr_host *host, const struct fr_spec *spec, int64_t not_before_wall,
                        bool *wait, struct fr_err *err);
    /* The next run of its schedule takes the place of that one, which the host does not drive. */
    void (*superseded)(struct fr_host *host, int64_t no);
    /* Of a run. A note may come while it is being made, before it came. */
    enum fr_rc (*came)(struct host_run *h, struct fr_err *err);
    void (*note)(struct host_run *h, const struct fr_run *run, const struct fr_note *note);
    void (*close)(struct fr_host *host);
};

struct host_run {
    struct fr_host *host;
    const struct host_part *const *parts; /* the host's; a job may free the run after the host */
    struct fr_run *run;                   /* owns */
    struct fr_run_due due;
    bool woken;
    bool mine;               /* of this process: dropped by who brought it */
    bool own_shell;          /* its shell is this process's: own */
    struct fr_view view;     /* of this process */
    struct fr_run_shell own; /* of this process */
    json_t *shell; /* owns: of others: {cwd, env: {…}, umask, secrets: {…}, parent_…}; of a run of
                      this process the secrets that others gave; NULL: nothing yet */
    struct fr_id granted;       /* a machine on which it runs in its parent's slots; zero: none */
    size_t followers;           /* streams that name it; the stream's part counts them */
    bool cancelled;             /* by a request: driven until its tasks have ended */
    int64_t alone_ms;           /* since when nobody follows it */
    struct host_place *places;  /* admit owns: what it uses of each machine */
    struct host_news *news;     /* stream owns: what followers do not know yet */
    struct host_counts *counts; /* metrics own */
};

struct host_meter { /* what took the longest in this turn */
    int64_t ms;
    char what[80];
    int64_t longest_ms; /* of all turns, and what took the most of that */
    char held_by[80];
    int64_t said_ms, said_took_ms; /* the last note of a long turn; 0: none */
};

struct host_commit {
    int64_t retry_ms; /* next try after a failed one; 0: none failed */
    bool unwritten;   /* and users know it */
    int64_t busy_ms;  /* since when another process writes; 0: none does */
};

struct host_jobs {          /* job.h */
    struct host_job *first; /* owns, in their order */
    uint64_t last_ticket;
    bool untidy; /* a submit was not completed, here or before a kill */
};

struct host_config { /* what the home's config.yaml and the process say */
    struct fr_limits limits;
    char zone[FR_ZONE_NAME];   /* of schedules that name none */
    struct fr_run_shell shell; /* of runs that are asked for over TCP: this process's own */
    struct fr_run_shell schedule_shell; /* likewise of runs of schedules */
    json_t *pages;                      /* owns: addresses of the pages, texts; NULL: none */
};

struct fr_host {
    const struct host_part *const *parts; /* ended by NULL */
    struct fr_run_env env;                /* of its runs */
    struct fr_loop *loop;                 /* borrows */
    struct fr_store *store;               /* borrows */
    struct fr_timer *timer;
    int *lock_fd; /* borrows: fr_host_lock() */
    bool stays;
    bool woken;             /* a run is, or a part */
    struct host_run **runs; /* owns */
    size_t n, cap;
    struct host_jobs jobs;
    struct host_commit commit;
    struct host_meter meter;
    struct host_config config;

    /* What the parts own. */
    struct host_slots *slots;
    struct host_schedules *schedules; /* NULL: it has none */
    struct host_again *again;
    struct host_streams *streams;
    struct host_outbox *outbox;
    struct host_answers *answers;
    struct host_meters *meters;        /* NULL: no memory for them */
    struct fr_machines *machines_seen; /* NULL: no memory for them */
    struct fr_retain *retain;
};

/* ---- what happens ---- */

enum fr_rc host_step(struct fr_host *host, enum host_step step, struct fr_err *err);
void host_run_step(struct host_run *h, enum host_run_step step);
void host_changed(struct fr_host *host, enum host_topic topic);

/* ---- commit.c ---- */

/* Something was done since then: a turn that is too long names what took the most of it. */
void host_took(struct fr_host *host, int64_t since_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void host_say_all(struct fr_host *host, const char *text); /* to the users of all runs */
/* Lets those that have something to do take it. *sent: something was sent that the loop should pass
 * on before the commit. */
enum fr_rc host_decide(struct fr_host *host, bool *sent, struct fr_err *err);
/* One transaction for the rows of all runs; then each acts. */
enum fr_rc host_commit(struct fr_host *host, struct fr_err *err);
int64_t host_commit_due(const struct fr_host *host); /* in mono_ms; INT64_MAX: nothing to write */
/* What a request asked of a run is decided and committed. */
enum fr_rc host_settle(struct fr_host *host, struct fr_err *err);

/* ---- runs.c ---- */

/* Another shell that resumes or follows the run gives it what it may lack: {secrets: {…}, agent}.
 * agent is the socket of its ssh agent, which is not stored. The
 * newest value of a secret counts, behind this process's own. FR_NOMEM. */
enum fr_rc host_give(struct host_run *h, json_t *shell, struct fr_err *err);
struct host_run *host_find(const struct fr_host *host, struct fr_id run);
struct host_run *host_find_no(const struct fr_host *host, int64_t no);
void host_forget(struct fr_host *host, struct host_run *h);
/* Where the zones of schedules come from, now. */
struct fr_zones host_zones(const struct fr_host *host);
/* Drops what is over or no longer followed. */
enum fr_rc host_tidy(struct fr_host *host, struct fr_err *err);
/* A run of others cannot go on in this process: it is left, its followers are told why. */
enum fr_rc host_give_up(struct host_run *h, struct fr_err *err);
/* When that has something to do; INT64_MAX: never. */
int64_t host_tidy_due(const struct fr_host *host);
/* Takes a resume of others: shell is theirs from here on. */
enum fr_rc host_resume(struct fr_host *host, const struct fr_resume_opts *opts, json_t *shell,
                       struct host_run **out, struct fr_issues *issues, struct fr_err *err);
/* Begins to take a submit of others: shell is theirs from here on; the texts of submit live in doc,
 * of which the job is one more owner, and arena, which becomes the job's. NULL: no memory. */
struct host_texts {
    json_t *shell, *doc;
    const struct fr_run_shell *own; /* NULL, or: the run is made in this process's shell */
    struct fr_arena *arena;
};
struct host_job *host_submit(struct fr_host *host, const struct fr_submit *submit,
                             const struct host_texts *texts, struct fr_err *err);
enum fr_rc host_take(struct host_run *h, struct fr_err *err); /* it is made: the host drives it */
void host_free_run(struct host_run *h);

#endif
