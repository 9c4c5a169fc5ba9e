/*
 * What the files of the host share; nobody else includes it. The rooms of the folder:
 *
 *   its turn       host.c; what takes long: jobs.h, jobs_rows.c (in a thread, then in slices)
 *   its runs       runs.c how they come, how long they are driven; take_up.c what the host before
 *                  left; queue.h which queued ones start; rerun.h which failed ones run again
 *   machines       share.c what runs have in common; arbiter.h who may use slots; held.c what is
 *                  held that this host does not drive; why.h, why_gang.c what an instance waits
 *                  for; machines.h, machine_file.h how nodes fare
 *   schedules      schedules.h; folders.h, looking.c what files say; keeping.c rows; fires.c
 *                  instants; making.c their runs; set_back.c a clock that was; pause.h, backfill.h
 *   its interface  api.h; answer.c the table, answer_*.c what each does (call.h), body.c what they
 *                  bring; remote.h from elsewhere, keyed.h only once, await.h until there is news,
 *                  problem.h errors, access.h who may; feed.c, feed_open.c those who follow
 *   views          text.h the store and logs as text: rows.c, view_*.c (view.h); lines.h, newest.h,
 *                  merge.h logs; tally.h, curves.h, readers.h, fixed.h, range.h
 *   what it tells  outbox.h, notices.c, deliver.h messages; meters.h, prom.h figures
 *   what stays     retain.h which ended runs, keeper.c by itself
 */
#ifndef FR_HOST_INTERNAL_H
#define FR_HOST_INTERNAL_H

#include "engine/base/arena.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/host/access.h"
#include "engine/host/fixed.h"
#include "engine/host/host.h"
#include "engine/host/jobs.h"
#include "engine/host/machines.h"
#include "engine/host/meters.h"
#include "engine/host/queue.h"
#include "engine/host/retain.h"
#include "engine/host/text.h"
#include "engine/store/types.h"

#include <string.h>

enum { HOST_NO_MACHINE = UINT32_MAX };

struct host_place {          /* a node of a run */
    uint32_t machine;        /* among those of the host; HOST_NO_MACHINE: not known yet */
    struct fr_demand demand; /* as last seen */
    uint32_t lent;           /* as of the last fr_run_lend() */
    bool contended, over;
    json_t *note; /* owns: the newest that was said of it; NULL: none */
};

struct host_log { /* of an attempt there is more */
    struct fr_id attempt;
    uint64_t bytes;
    bool metrics; /* of these; else of its output */
};

enum { HOST_CHANGES = 500, HOST_LOGS = 64 }; /* in one event of a stream */

/* What happened to a run, and is not yet in the streams. */
struct host_news {
    struct fr_buf changes; /* owns: "[[idx, state, attempt, cause], …" without its end */
    size_t n_changes, n_logs;
    int64_t seq; /* of the newest event among the changes */
    struct host_log logs[HOST_LOGS];
    bool lost;       /* more than fits: readers look at the whole again */
    bool run;        /* the run itself changed */
    int64_t sent_ms; /* when the streams last got some */
};

struct host_run {
    struct fr_host *host;
    struct fr_run *run;        /* owns */
    struct host_place *places; /* one a node of its plan; owns */
    struct fr_run_due due;
    bool woken;
    bool mine;               /* of this process: dropped by who brought it */
    bool own_shell;          /* its shell is this process's: own */
    struct fr_view view;     /* of this process */
    struct fr_run_shell own; /* of this process */
    json_t *shell; /* owns: of others: {cwd, env: {…}, umask, secrets: {…}, parent_…}; of a run of
                      this process the secrets that others gave; NULL: nothing yet */
    struct fr_id granted; /* a machine on which it runs in its parent's slots; zero: none */
    size_t followers;     /* streams that name it */
    bool cancelled;       /* by a request: driven until its tasks have ended */
    int64_t alone_ms;     /* since when nobody follows it */
    struct host_news news;
    struct host_counts *counts; /* owns: meters.h */
};

struct host_user { /* of a machine */
    struct host_run *run;
    uint32_t node;
};

struct host_machine {
    struct fr_id home;       /* of its flownode */
    struct host_user *users; /* owns */
    size_t n, cap;
    bool changed; /* somebody uses or wants more or less of it */
    bool drained; /* nothing new starts there */
};

struct host_held { /* by an attempt of a run that this host does not drive */
    struct fr_held_row row;
    bool asked; /* its node is, whether it still lives, or for its tombstone */
};

struct host_probe { /* asks a machine about such attempts */
    struct host_probe *next;
    struct fr_host *host;
    struct fr_id home;
    struct fr_exec exec; /* owns */
};

/* What a stream may ask for beside the runs that it names; a bit each. */
enum host_topic { HOST_LIST = 1, HOST_QUEUE = 2, HOST_NODES = 4, HOST_SCHEDULES = 8 };

struct host_event {     /* of the streams, as its bytes */
    struct fr_id run;   /* zero: of no run */
    unsigned topic;     /* enum host_topic; 0: none */
    struct fr_buf text; /* owns */
};

enum { HOST_RING = 4096, HOST_RING_BYTES = 1 << 20 };

struct host_ring { /* the newest events, for those who read slowly or come again */
    struct host_event events[HOST_RING]; /* event n lies at n % HOST_RING */
    char name[24];                       /* "EPOCH-RANDOM": no other ring has that, of any home */
    uint64_t next, first, pumped; /* the next event; the oldest that is kept; streams had so many */
    size_t bytes;
};

struct host_meter { /* what took the longest in this turn */
    int64_t ms;
    char what[80];
    int64_t longest_ms; /* of all turns, and what took the most of that */
    char held_by[80];
    int64_t said_ms, said_took_ms; /* the last note of a long turn; 0: none */
};

struct fr_host {
    struct fr_run_env env;  /* of its runs */
    struct fr_loop *loop;   /* borrows */
    struct fr_store *store; /* borrows */
    int *lock_fd;           /* borrows: fr_host_lock() */
    bool stays;
    struct fr_api_stream *streams; /* owns */
    struct host_ring *ring;        /* owns; made with the first stream */
    unsigned changed_topics;       /* enum host_topic: the streams do not know it yet */
    int64_t topics_ms;             /* when they were last told */
    struct host_run **runs;        /* owns */
    size_t n, cap;
    struct host_machine *machines; /* owns */
    size_t n_machines, cap_machines;
    struct host_held *held; /* owns */
    size_t n_held, cap_held;
    struct host_probe *probes; /* owns */
    struct fr_timer *held_timer;
    struct fr_claim *claims; /* space of share_all(); owns */
    size_t cap_claims;
    struct fr_timer *timer;
    struct fr_retain *retain;
    struct fr_limits limits;
    char zone[FR_ZONE_NAME]; /* of schedules that name none */
    bool queue_changed;      /* a queued run may start now */
    int64_t queue_due_ms;    /* the same at that time; INT64_MAX: no run waits for a time */
    int64_t rerun_due_ms, backfill_due_ms; /* likewise of these; INT64_MAX: none */
    bool woken;                            /* a run is */
    bool changed;                          /* a machine is */
    int64_t retry_ms;                      /* next try after a failed commit; 0: none failed */
    struct host_job *jobs;                 /* owns, in their order */
    struct host_awaits awaits;
    struct fr_curves *curves; /* owns; NULL: none was asked for, or a job has it */
    uint64_t last_ticket;
    bool unwritten;  /* and users know it */
    int64_t busy_ms; /* since when another process writes; 0: none does */
    struct host_meter meter;
    struct fr_machines *machines_seen; /* owns; NULL: no memory for them */
    bool sampled;                      /* there is news of one */
    struct host_meters *meters;        /* owns; NULL: no memory for them */
    bool untidy;                       /* a submit was not completed, here or before a kill */
    struct host_schedules *schedules;  /* owns; NULL: it has none */
    struct fr_run_shell shell;         /* of runs that are asked for over TCP: this process's own */
    struct fr_access *access;          /* owns */
    struct host_outbox *outbox;        /* owns */
    struct host_lines *lines;          /* owns a use; NULL: none was asked for */
    struct host_tallies *tallies;      /* likewise */
    struct host_readers *readers;      /* likewise */
    struct host_fixed fixed;
    json_t *pages; /* owns: where its pages are, each a text; NULL: nowhere */
};

/* host.c */
/* Something was done since then: a turn that is too long names what took the most of it. */
void host_took(struct fr_host *host, int64_t since_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* What a request asked of a run is decided and committed. */
enum fr_rc host_settle(struct fr_host *host, struct fr_err *err);

/* runs.c */
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

/* answer.c */
void host_answer(void *host, const struct fr_api_request *req, struct fr_api_response *out);

/* body.c */
/* {id, pipeline, params: {name: value}, cwd, env, umask, secrets, agent, origin, priority, at,
 * not_before_wall}; of a run that repeats again (else NULL) without pipeline and at.
 * *shell is the caller's. Texts of out live in doc and arena. */
enum fr_rc body_submit(json_t *doc, const struct fr_again *again, struct fr_arena *arena,
                       struct fr_submit *out, json_t **shell, struct fr_err *err);
/* {secrets, agent} */
enum fr_rc body_give(json_t *doc, json_t **shell, struct fr_err *err);
/* {file, abandon: [node], retry, from, cwd, env, umask, secrets, agent} */
enum fr_rc body_resume(json_t *doc, struct fr_arena *arena, struct fr_resume_opts *out,
                       json_t **shell, struct fr_err *err);

/* rows.c: rows as JSON; NULL: no memory */
json_t *json_of_run(uint32_t epoch, const struct fr_run_row *row); /* epoch: of this host */
json_t *json_of_event(const struct fr_event_row *row);
/* The ETag of a schedule: another one behind each pause and resume. */
enum { SCHEDULE_TAG = 48 };
struct fr_schedule_row;
void schedule_tag(const struct fr_schedule_row *row, char out[SCHEDULE_TAG]);

/* feed.c */
void feed_open(void *host, const struct fr_api_request *req, const struct fr_api_sink *sink,
               struct fr_api_response *res, struct fr_api_stream **out);
void feed_drained(void *host, struct fr_api_stream *s);
void feed_gone(void *host, struct fr_api_stream *s);
/* Something of the queue or the schedules changed: streams are told soon. */
void feed_topic(struct fr_host *host, enum host_topic topic);
int64_t feed_topics_due(const struct fr_host *host); /* then; INT64_MAX: nothing did */
/* Remembers it for a flush, and what is said of a node for those who come later. */
void feed_note(struct host_run *h, const struct fr_note *note);
void feed_flush(struct host_run *h, bool now);   /* now: also what came a moment ago */
int64_t feed_due(const struct host_run *h);      /* of the next flush; INT64_MAX: none */
void feed_pump(struct fr_host *host);            /* sends what is new to all */
size_t feed_streams(const struct fr_host *host); /* how many there are */
size_t feed_followers(const struct fr_host *host, struct fr_id run);
void feed_finish(struct fr_host *host);

/* held.c */
/* Reads from the store what runs hold that are not this host's. */
enum fr_rc held_load(struct fr_host *host, struct fr_err *err);
/* The host drives the run, and it has found out that one of its nodes is this machine. */
void held_forget(struct fr_host *host, struct fr_id run, struct fr_id home);
uint32_t held_slots(const struct fr_host *host, struct fr_id home);
/* A run has found out that its node is this machine: it is asked about what is held there. */
void held_ask(struct host_run *h, uint32_t node, struct fr_id home);
void held_finish(struct fr_host *host);

/* queue.c */
void queue_changed(struct fr_host *host);
/* Admits the queued runs that may start. */
enum fr_rc queue_admit(struct fr_host *host, struct fr_err *err);
/* For fr_submit.queue: arg is the host. */
enum fr_rc queue_ask(void *arg, const struct fr_spec *spec, int64_t not_before_wall, bool *wait,
                     struct fr_err *err);

/* share.c */
void share_changed(struct fr_host *host, struct fr_id home); /* of the machine, if there is one */
/* The machine was drained, or is not any more. */
enum fr_rc share_drained(struct fr_host *host, struct fr_id home, struct fr_err *err);
/* Takes in what the run uses and wants now, after a drain. */
enum fr_rc share_look(struct host_run *h, struct fr_err *err);
/* Lends the slots of the machines that changed. */
enum fr_rc share_all(struct fr_host *host, struct fr_err *err);
void share_leave(struct host_run *h); /* the run goes: its machines are free of it */
void share_finish(struct fr_host *host);

#endif
