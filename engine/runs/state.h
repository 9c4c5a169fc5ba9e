/*
 * The host of a home, for the rooms above: the runs that it drives, and its parts. A part owns a
 * struct of its own and registers callbacks (struct host_part). These are the only calls from a
 * lower room to a higher one.
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

/* Callbacks of a part about the host, in the order of a turn. An error ends the host. */
enum host_step {
    HOST_OPEN,    /* once, before all else */
    HOST_TURN,    /* at the begin of each turn */
    HOST_DECIDE,  /* before the runs decide, also for a request that waits for that */
    HOST_SHARE,   /* after all runs have decided */
    HOST_WRITTEN, /* in a turn in which nothing that runs decided waits to be committed */
    HOST_PARKED,  /* a run is no longer driven, and its tasks go on */
    HOST_STEPS
};

/* Callbacks of a part about a run. */
enum host_run_step {
    HOST_RUN_SETTLED, /* after each commit, before any run leaves */
    HOST_RUN_LEAVES,  /* the run is no longer driven: send what was not sent */
    HOST_RUN_GONE,    /* the run is no longer in the host's list */
    HOST_RUN_FREE,    /* give back the part's memory of it */
    HOST_RUN_STEPS
};

/* Kinds of changes, a bit each: parts and streams subscribe to them. */
enum host_topic {
    HOST_LIST = 1,  /* of runs */
    HOST_QUEUE = 2, /* a queued run may start now, or another one waits */
    HOST_NODES = 4,
    HOST_SCHEDULES = 8
};

/* A part of the host; a function that is NULL has nothing to do. All parts are called in the order
 * of the host's list. close may find a state that HOST_OPEN has not seen. */
struct host_part {
    const char *name;   /* what held the loop: "what schedules had to do" */
    size_t state_bytes; /* of its state, see host_state() */
    enum fr_rc (*step[HOST_STEPS])(struct fr_host *host, struct fr_err *err);
    void (*of_run[HOST_RUN_STEPS])(struct host_run *h);
    enum fr_rc (*decided)(struct host_run *h, struct fr_err *err); /* a run has */
    void (*changed)(struct fr_host *host, enum host_topic topic);
    void (*tell)(struct fr_host *host);         /* after the commit */
    bool (*owes)(const struct fr_host *host);   /* something of runs that are over is not done */
    /* What of it users are told when the host ends all the same, a line each. */
    void (*owed)(const struct fr_host *host, struct fr_buf *out);
    int64_t (*due)(const struct fr_host *host); /* next turn it needs, mono_ms; INT64_MAX: none */
    /* Sets *wait if a new run of this pipeline has to be queued. */
    enum fr_rc (*waits)(struct fr_host *host, const struct fr_spec *spec, int64_t not_before_wall,
                        bool *wait, struct fr_err *err);
    /* Run no, which the host does not drive, is superseded by the next run of its schedule. */
    void (*superseded)(struct fr_host *host, int64_t no);
    /* A run joined the host; a note. A note may precede `came` while the run is being made. */
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
    json_t *shell; /* owns: {cwd, env: {…}, umask, secrets: {…}, parent_…} of the submitter; for a
                      run of this process only secrets from other shells; NULL: none yet */
    struct fr_id granted;       /* machine where its parent's slots count for it; zero: none */
    size_t followers;           /* streams that name it, counted by stream */
    bool cancelled;             /* by a request: driven until its tasks have ended */
    int64_t alone_ms;           /* since when nobody follows it */
    struct host_place *places;  /* owned by admit: its slots on each machine */
    struct host_news *news;     /* owned by stream: changes that were not sent yet */
    struct host_counts *counts; /* owned by metrics */
};

struct host_meter { /* the longest step of this turn */
    int64_t ms;
    char what[80];
    int64_t longest_ms; /* the longest turn so far, and its longest step */
    char held_by[80];
    int64_t said_ms, said_took_ms; /* the last note of a long turn; 0: none */
};

struct host_commit {
    int64_t retry_ms; /* next try after a failed one; 0: none failed */
    bool unwritten;   /* users were told that commits fail */
    int64_t busy_ms;  /* since when another process holds the write lock; 0: none */
};

struct host_jobs {          /* job.h */
    struct host_job *first; /* owns, in their order */
    uint64_t last_ticket;
    bool untidy; /* an incomplete submit, perhaps of a killed host, left files */
};

struct host_config { /* what the home's config.yaml and the process say */
    bool stays;
    int *lock_fd; /* borrows: fr_host_lock() */
    struct fr_limits limits;
    char zone[FR_ZONE_NAME];   /* of schedules that name none */
    struct fr_run_shell shell; /* of runs that are asked for over TCP: this process's own */
    struct fr_run_shell schedule_shell; /* likewise of runs of schedules */
    json_t *pages;                      /* owns: addresses of the pages, texts; NULL: none */
};

struct fr_host {
    const struct host_part *const *parts; /* ended by NULL */
    void **states;                        /* owns: of the parts, host_state() */
    struct fr_run_env env;                /* of its runs, and of its own: loop, store, nodes */
    struct fr_timer *timer;
    bool woken;             /* a run or a part has work: the next turn does not wait */
    struct host_run **runs; /* owns */
    size_t n, cap;
    struct host_jobs jobs;
    struct host_commit commit;
    struct host_meter meter;
    struct host_config config;
    struct host_meters *meters; /* owns */
    struct fr_retain *retain;   /* owns */
};

/* ---- what happens ---- */

/* The state of a part: zero before HOST_OPEN, freed after all parts have closed. */
void *host_state(const struct fr_host *host, const struct host_part *part);
enum fr_rc host_step(struct fr_host *host, enum host_step step, struct fr_err *err);
void host_run_step(struct host_run *h, enum host_run_step step);
void host_changed(struct fr_host *host, enum host_topic topic);

/* ---- commit.c ---- */

/* Records a step of this turn that began at since_ms; a turn that is too long names its longest
 * step. */
void host_took(struct fr_host *host, int64_t since_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void host_say_all(struct fr_host *host, const char *text); /* to the users of all runs */
/* Drains the runs and parts that have events. *sent: bytes were queued that the loop should write
 * before the commit. */
enum fr_rc host_decide(struct fr_host *host, bool *sent, struct fr_err *err);
/* One transaction for the rows of all runs; then each acts. */
enum fr_rc host_commit(struct fr_host *host, struct fr_err *err);
int64_t host_commit_due(const struct fr_host *host); /* mono_ms; INT64_MAX: nothing to write */
/* Decides and commits at once, for a request that needs the result. */
enum fr_rc host_settle(struct fr_host *host, struct fr_err *err);

/* ---- runs.c ---- */

/* Adds what a resuming or following shell brings to the run: {secrets: {…}, agent}. agent is the
 * socket of its ssh agent and is not stored. The newest value of a secret counts, but this
 * process's own value wins. FR_NOMEM. */
enum fr_rc host_give(struct host_run *h, json_t *shell, struct fr_err *err);
struct host_run *host_find(const struct fr_host *host, struct fr_id run);
struct host_run *host_find_no(const struct fr_host *host, int64_t no);
void host_forget(struct fr_host *host, struct host_run *h);
/* The source of time zones for schedules, with the time of now. */
struct fr_zones host_zones(const struct fr_host *host);
/* Drops runs that are over or no longer followed. */
enum fr_rc host_tidy(struct fr_host *host, struct fr_err *err);
/* Drops a run of another process that cannot go on here; its followers get the reason. */
enum fr_rc host_give_up(struct host_run *h, struct fr_err *err);
/* When host_tidy() is due, mono_ms; INT64_MAX: never. */
int64_t host_tidy_due(const struct fr_host *host);
/* The error of work that read or wrote files of the home, for its caller: FR_DENIED where another
 * process became the host meanwhile, which removes what this one has half written; else rc. A
 * mistake in what the caller sent, in issues, stays one. */
enum fr_rc host_cause(const struct fr_host *host, enum fr_rc rc, const struct fr_issues *issues,
                      struct fr_err *err);
/* Resumes a run for another process. Takes shell. */
enum fr_rc host_resume(struct fr_host *host, const struct fr_resume_opts *opts, json_t *shell,
                       struct host_run **out, struct fr_issues *issues, struct fr_err *err);
/* Begins the job that makes a run for another process. Takes shell; the texts of submit live in
 * doc, which the job shares, and in arena, which the job takes. NULL: no memory. */
struct host_texts {
    json_t *shell, *doc;
    const struct fr_run_shell *own; /* NULL, or: the run is made in this process's shell */
    struct fr_arena *arena;
};
struct host_job *host_submit(struct fr_host *host, const struct fr_submit *submit,
                             const struct host_texts *texts, struct fr_err *err);
enum fr_rc host_take(struct host_run *h, struct fr_err *err); /* takes over a made run */
void host_free_run(struct host_run *h);

#endif
