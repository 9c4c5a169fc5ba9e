/* clang-format off */
/*
 * A run from its first commit to its end. It joins plan, sched, store and exec. It is passive:
 * events come in from the executor, and whoever drives it (host/host.h) calls
 *
 *   fr_run_drain()   the scheduler takes the events; rows and effects come out
 *   fr_run_write()   writes the rows, inside a transaction of the caller
 *   fr_run_act()     after the commit: shows what is now true, and performs the effects
 *
 * until it is over. A view watches it.
 *
 * Environment of a task's command, besides what the node adds (wire/request.h: FLOWRUN_ATTEMPT,
 * FLOWRUN_OUTPUT, FLOWRUN_DIR, FLOWRUN_NODE_HOME, PATH …):
 *
 *   FLOWRUN_RUN, FLOWRUN_RUN_NAME       the run's id (32 digits) and the pipeline's name
 *   FLOWRUN_HOME_ID                     of flowrun's home (32 digits): a flowrun inside the task
 *                                       hands its runs to the host of that home, and never is it
 *   FLOWRUN_TASK, FLOWRUN_NODE          names of task and node
 *   FLOWRUN_ATTEMPT_NO                  1, 2, …; grows over retries by the user too
 *   FLOWRUN_GENERATION                  of a gang: 1, 2, …
 *   FLOWRUN_EXECUTOR                    local | ssh | slurm: how the node is reached
 *   FLOWRUN_GPUS                        of the node, as the inventory says
 *   FLOWRUN_WORK                        its work folder, else the folder `work` in the node's home
 *   FLOWRUN_PROGRAM_NAME                path of each needs_program, NAME in upper case; its folder
 *                                       stands in front of PATH, too
 *   NNODES, NODE_RANK                   of a gang; the head (its first node) is rank 0. Else 1, 0
 *   MASTER_ADDR, MASTER_PORT            of a gang: the head's address as the others see it, and a
 *                                       port that the node held until the launch
 *   FLOWRUN_PEERS                       of a gang: a line "NAME ADDRESS" for each member, by rank
 *   FLOWRUN_WITH                        of a built-in task or sidecar: its `with`, a JSON object
 *                                       with defaults filled in (spec/kinds.h); a secret variable
 *                                       when it holds secrets
 *
 * and the env of pipeline, node and task. Built-in tasks and sidecars run as `flownode task NAME`.
 * A path that `with` takes from control is shipped first; FLOWRUN_WITH holds its path on the node.
 */
/* clang-format on */
#ifndef FR_RUN_RUN_H
#define FR_RUN_RUN_H

#include "engine/base/err.h"
#include "engine/exec/exec.h"
#include "engine/loop/loop.h"
#include "engine/plan/plan.h"
#include "engine/sched/sched.h"
#include "engine/spec/spec.h"
#include "engine/store/blob.h"
#include "engine/store/shipped.h"

struct fr_run;
struct fr_limits;

/* Something that happened, for views: sent after the commit that made it true. */
enum fr_note_kind {
    FR_NOTE_STATE,   /* inst changed: row; text: the reason; outputs once it has succeeded */
    FR_NOTE_RUN,     /* the run changed: now */
    FR_NOTE_LOG,     /* bytes of an attempt of inst, from offset on; wall_ms of the first */
    FR_NOTE_METRICS, /* bytes of an attempt's metrics, from offset on */
    FR_NOTE_FULL,    /* inst's log is full: its newer output is a note at its end alone */
    FR_NOTE_PLAN,    /* a list is known: plan has more instances (fr_plan_moved()) */
    FR_NOTE_NODE,    /* text about node (installing, connected, unreachable since) */
    FR_NOTE_TROUBLE, /* text: the store cannot be written, a request was refused … */
};

struct fr_note {
    enum fr_note_kind kind;
    int64_t wall_ms;
    uint32_t inst, node; /* FR_PLAN_NONE: the note is about none */
    struct fr_row row;
    struct fr_run_now now;
    const char *text; /* borrowed for the call, as all below; "" none */
    /* STATE, RUN: the row that the store's story has for it (fr_event_row.seq), and the newest of
     * two; 0: nothing of it stands there. wall_ms is the row's. */
    int64_t seq;
    const struct fr_strs *outputs; /* each "NAME=value"; NULL: none */
    const struct fr_plan *plan;    /* PLAN: of the run, for as long as it, or the next of these */
    uint64_t left;       /* LOG, and STATE at the end of an attempt: as fr_run_output_left() */
    bool up;             /* NODE: it can be reached */
    uint32_t attempt_no; /* LOG, METRICS, FULL */
    struct fr_str bytes;
    uint64_t offset;
};

struct fr_view {
    void (*note)(void *arg, const struct fr_run *run, const struct fr_note *note);
    void *arg;
};

/* The shell that a run was submitted or resumed in. */
struct fr_run_shell {
    const char *cwd; /* absolute: relative paths of the command line count from it */
    const char *(*getenv)(void *self, const char *name);
    void *self;
    uint32_t umask; /* as fr_spawn.umask, for tasks on this machine; 0: not known */
    bool stored;    /* no shell: getenv has secrets alone; umask and the variables of
                       fr_run_inherited() are the stored ones of the run */
};

/* The variables of the shell that commands on this machine get: tasks of local nodes, commands of
 * secrets. NULL-terminated. */
const char *const *fr_run_inherited(void);

/* The services of the process that a run uses. All borrowed for the run's life. */
struct fr_run_env {
    struct fr_loop *loop;
    struct fr_store *store;
    const char *home;         /* filled in by the host, as … */
    struct fr_claims *claims; /* … these: all of the store that fr_run_make touches */
    uint32_t epoch;           /* of the home's host, which this process is; 0: it has none */
    struct fr_run_shell shell;
    struct fr_view view;            /* note may be NULL */
    const struct fr_limits *limits; /* of the home (spec/config.h); may change meanwhile */
    struct fr_nodes *nodes;         /* connections of the process */
    const char *self;               /* path of the flowrun program: `notify` runs it */
    /* Appends the path of a program that tasks may need ("flowtrain"); FR_NOTFOUND. */
    enum fr_rc (*program)(void *arg, const char *name, struct fr_buf *out, struct fr_err *err);
    void *program_arg;
};

/* Checks that everything on this machine that the pipeline names exists: files of tasks (unless
 * kept, or an earlier task may make them), keys of nodes, secrets. kept may be NULL. FR_USAGE: out
 * lists all that is missing, with its place in the file. */
enum fr_rc fr_run_check(const struct fr_plan *plan, const struct fr_run_shell *shell,
                        const struct fr_file_rows *kept, struct fr_issues *out, struct fr_err *err);

/* The values of schedule.* in a run. */
struct fr_occasion {
    const char *at;       /* its logical time as written, in the zone of its schedule; NULL: */
    int64_t at_ms;        /* that time; 0: now */
    const char *schedule; /* name of the one that made it; NULL: none did */
    int64_t previous_ms;  /* of its newest run that succeeded; 0: none */
};

/* A run that is over, to be made again as a new one: with its pipeline, parameters and files. */
struct fr_again {
    struct fr_run_row row;
    struct fr_file_rows files;
    struct fr_shipped_rows shipped;
};
/* Fills out from row and its files, which are read into arena. FR_USAGE: the run is not over, or
 * has no pipeline. */
enum fr_rc fr_run_again(struct fr_store *st, const struct fr_run_row *row, struct fr_arena *arena,
                        struct fr_again *out, struct fr_err *err);

struct fr_submit {
    struct fr_id id;          /* whoever submits draws it, so that a repeated submit is one run */
    struct fr_spec_opts spec; /* sources is not used */
    enum fr_origin origin;
    const char *who;            /* as of fr_run_row; NULL: the home's owner */
    int64_t schedule, backfill; /* ids of those that made it; 0: none did */
    int64_t priority;           /* the larger first */
    int64_t not_before_wall;    /* 0: at once */
    struct fr_occasion occasion;
    bool by_itself;               /* with again: it is due (rerun:) */
    const struct fr_again *again; /* of spec only cwd and params count then, which win over those
                                   * that it has; occasion does not */
    /* Decides whether the run waits in the queue, or refuses it. NULL: it starts. */
    enum fr_rc (*queue)(void *arg, const struct fr_spec *spec, int64_t not_before_wall, bool *wait,
                        struct fr_err *err);
    void *queue_arg;
};

/* Makes a new run of a pipeline file, in two parts.
 * - fr_run_make() reads and checks the pipeline, and keeps it and the small files that it names in
 *   the home (blob.h). It takes long, and may be called in any thread: of env it uses the home's
 *   path, the shell and `program`. FR_USAGE: issues lists every mistake. A dropped run leaves its
 *   mark.
 * - fr_run_put() writes its rows in a transaction of the caller: at most *rows instances, less
 * those written. fr_run_enqueue() comes before it and asks submit->queue; fr_run_put_over() after
 * each commit; *all: it was the last one, and the run has begun or is queued. A run that is partly
 *   written can be resumed: an instance without a row waits. */
enum { FR_RUN_PUT_ROWS = 500 };
enum fr_rc fr_run_make(const struct fr_run_env *env, const struct fr_submit *submit,
                       struct fr_run **out, struct fr_issues *issues, struct fr_err *err);
enum fr_rc fr_run_enqueue(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err);
bool fr_run_added(const struct fr_run *run); /* its row is committed */
enum fr_rc fr_run_put(struct fr_run *run, const struct fr_submit *submit, size_t *rows,
                      struct fr_err *err);
enum fr_rc fr_run_put_over(struct fr_run *run, bool *all, struct fr_err *err);
/* Both, at once. */
enum fr_rc fr_run_submit(const struct fr_run_env *env, const struct fr_submit *submit,
                         struct fr_run **out, struct fr_issues *issues, struct fr_err *err);

struct fr_resume_opts {
    const char *run;            /* see fr_store_run_find; NULL: the newest */
    const char *file;           /* a changed pipeline file to go on with; NULL: the stored copy */
    const char *const *abandon; /* names of nodes that are given up */
    size_t n_abandon;
    bool retry;             /* of a run that is over: failures run again … */
    const char *retry_from; /* … or this task and all that need it; NULL */
    bool by_itself;         /* with retry: it is due (rerun:) */
    /* For a retry, as fr_submit.queue. A waiting retry is committed: the run is queued until it is
     * admitted; cancelled before that, it is over as cancelled. */
    enum fr_rc (*queue)(void *arg, const struct fr_spec *spec, int64_t not_before_wall, bool *wait,
                        struct fr_err *err);
    void *queue_arg;
};

/* Loads a stored run and takes it over. FR_USAGE: it is over and retry is not set, or a named task
 * or node is not its own. A run that is over and lacks output (store/unfetched.h) is taken over for
 * its output alone. */
enum fr_rc fr_run_resume(const struct fr_run_env *env, const struct fr_resume_opts *opts,
                         struct fr_run **out, struct fr_issues *issues, struct fr_err *err);

/* The schedule that made the run, from its copy of the pipeline; NULL: none. */
const struct fr_schedule *fr_run_schedule(const struct fr_run *run);

/* A queued run holds no node, and nothing of it has started. It stays queued in the store until its
 * first rows are committed. If cancelled, it ends without hooks. */
bool fr_run_queued(const struct fr_run *run);
enum fr_rc fr_run_admit(struct fr_run *run, struct fr_err *err);
void fr_run_prioritize(struct fr_run *run, int64_t priority); /* its row has it already */

/* When the run has work without being woken, in mono_ms; INT64_MAX: never. */
struct fr_run_due {
    int64_t drain_ms;
    int64_t commit_ms; /* its rows are to be committed by then; INT64_MAX: it has none */
    bool soft;         /* they can be recovered: the commit need not be synced */
    bool sent_early;   /* the drain sent starts that wait for no commit: they leave before it */
};

/* Calls wake from the loop's turn, and from fr_run_cancel(), when there is something to drain. */
void fr_run_on_wake(struct fr_run *run, void (*wake)(void *arg), void *arg);
/* Handles posted events and due timers. An error is final: the run cannot go on in this process. */
enum fr_rc fr_run_drain(struct fr_run *run, int64_t now, struct fr_err *err);
struct fr_run_due fr_run_due(const struct fr_run *run); /* changes with each call of these three */
/* Repeats the same rows until fr_run_act() was called. */
enum fr_rc fr_run_write(struct fr_run *run, struct fr_err *err);
void fr_run_act(struct fr_run *run, int64_t commit_ms); /* how long the commit took */
/*
 * A task that takes a secret from a variable without a value in env.shell is blocked (FR_EV_BLOCK):
 * its instances wait, hold no slot, and have a reason that names secret, variable and remedy, which
 * is an event of the run. After limits.secret_wait they start nevertheless, and fail without retry.
 * The driver calls fr_run_shell_changed() when the shell has new values.
 */
void fr_run_shell_changed(struct fr_run *run);
void fr_run_say(struct fr_run *run, const char *text); /* a FR_NOTE_TROUBLE of its driver */

/* The slots that the run uses and wants on a node of its plan; *home: the id of the node's home,
 * zero while unknown. */
struct fr_demand fr_run_demand(const struct fr_run *run, uint32_t node, struct fr_id *home);
/* Sets how many slots of the node the run may use, see FR_EV_SLOTS. A new run has none. */
struct fr_lent {
    uint32_t slots;
    bool contended, over;
};
void fr_run_lend(struct fr_run *run, uint32_t node, const struct fr_lent *lent);

/* Whether the run is finished here: its end is committed and shown, and its output is fetched or
 * given up. */
bool fr_run_over(const struct fr_run *run);

/* Stops all tasks, as `flowrun cancel` does. */
void fr_run_cancel(struct fr_run *run);
/* The user gives a node up: its live attempts end as node_lost, and no instance waits for it until
 * it is up again. FR_USAGE: there is no such node. */
enum fr_rc fr_run_abandon(struct fr_run *run, const char *node, struct fr_err *err);

/* Frees the run in this process. Connections end, tasks go on. NULL is allowed. */
void fr_run_destroy(struct fr_run *run);

/* Views; borrowed from the run. */
const struct fr_plan *fr_run_plan(const struct fr_run *run);
const struct fr_spec *fr_run_spec(const struct fr_run *run);
struct fr_run_now fr_run_now(const struct fr_run *run);
struct fr_id fr_run_id(const struct fr_run *run);
int64_t fr_run_no(const struct fr_run *run);
const struct fr_run_row *fr_run_record(const struct fr_run *run); /* its row of the store */
struct fr_row fr_run_row(const struct fr_run *run, uint32_t inst);

struct fr_run_inst { /* times, 0: none yet, and the reason of its state ("": none) */
    int64_t started_wall, ended_wall, unreachable_wall;
    const char *reason;
};
struct fr_run_inst fr_run_inst(const struct fr_run *run, uint32_t inst);

/* Bytes of output of the instance's ended attempts that are still to come; 0 while its node is
 * unreachable. */
uint64_t fr_run_output_left(const struct fr_run *run, uint32_t inst);

struct fr_stored { /* the pipeline of a stored run, to show it; owns all; zeroed: nothing */
    struct fr_spec *spec;
    struct fr_plan *plan;
    struct fr_arena arena;
};
/* The schedule that made the run, as its copy of the pipeline has it; NULL: it has none. */
const struct fr_schedule *fr_run_stored_schedule(const struct fr_stored *s,
                                                 const struct fr_run_row *row);
/* Reads the copy that the home keeps, with the lists that the run knows by now. row must outlive
 * *out. FR_UNSUPPORTED: a newer flowrun made it; FR_CORRUPT: it cannot be read. */
enum fr_rc fr_run_stored(struct fr_store *st, const struct fr_run_row *row, struct fr_stored *out,
                         struct fr_err *err);
void fr_run_stored_finish(struct fr_stored *s);
/* Appends the name of the file below runs/<id>/ that has the output of an attempt. */
void fr_run_log_name(struct fr_buf *out, const char *key, uint32_t no);

/* Outputs of an instance's newest ended attempt, each "NAME=value". */
const struct fr_strs *fr_run_outputs(const struct fr_run *run, uint32_t inst);

#endif
