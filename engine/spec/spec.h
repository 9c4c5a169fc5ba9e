/*
 * A pipeline file, typed and checked. Loading resolves parameters, reads the inventory, checks
 * every key, type and expression, and reports all mistakes in one pass. The result is plain data in
 * one arena: it never changes and needs no file.
 *
 * A relative path counts from the folder of the file that it stands in: the pipeline or the
 * inventory. The value of a -p, and a text that begins with one, counts from the current folder.
 *
 * Not checked here: whether control-side files exist (run, fr_run_check).
 */
#ifndef FR_SPEC_SPEC_H
#define FR_SPEC_SPEC_H

#include "engine/base/json.h"
#include "engine/spec/expr.h"
#include "engine/spec/inventory.h"
#include "engine/spec/issues.h"
#include "engine/spec/items.h"
#include "engine/spec/kinds.h"
#include "engine/spec/notify.h"
#include "engine/spec/schedule.h"
#include "engine/words/causes.h"
#include "engine/words/states.h"

enum { FR_EXIT_USAGE = 64 };   /* exit code of a built-in task whose `with` is wrong: not retried */
enum { FR_NODE_CONTROL = -1 }; /* node index of the machine flowrun runs on */

struct fr_excludes { /* patterns of files that are not shipped of a folder */
    const char *const *v;
    size_t n;
};
struct fr_retry {
    int times;            /* further attempts after the first; 0: none */
    int64_t delay_ms;     /* before the first retry; default 10 s */
    int64_t max_delay_ms; /* default 10 min */
    double backoff;       /* factor a retry, >= 1; default 2 */
    double jitter;        /* share of the delay, 0..1; default 0.1 */
    unsigned causes;      /* bit 1u << enum fr_cause */
    const int *codes;     /* exit codes retried although FR_CAUSE_EXIT is not in causes */
    size_t n_codes;
};

enum fr_on_full { FR_ON_FULL_DROP_MIDDLE, FR_ON_FULL_STOP };

enum fr_rerun_from { FR_RERUN_FAILED, FR_RERUN_START }; /* another round; a new run */

struct fr_rerun {         /* of a run that failed, by a host that stays */
    struct fr_retry when; /* first member: times, causes and codes; times 0: never */
    int64_t after_ms;     /* its end; default 10 min */
    enum fr_rerun_from from;
};

struct fr_log_limit {
    int64_t max_bytes;       /* default 1 GiB */
    enum fr_on_full on_full; /* STOP: the log stops, the task goes on */
};

/* Which ended runs stay in the home. 0: no limit; all 0: nothing is removed. */
struct fr_keep_runs {
    int runs;        /* the newest of each pipeline */
    int days;        /* since their end */
    int failed_days; /* the same for failed ones; unsaid: as days */
    int64_t bytes;   /* of logs in all, beyond which the oldest go */
};

/* The kind of an action: a built-in task, a script or a program. */
enum fr_what { FR_USES, FR_RUN, FR_ARGV };

struct fr_with {
    const struct fr_key *key;
    struct fr_pos pos;
    const struct fr_kv *items; /* scalar: 1, unnamed; list: n, unnamed; map: n, named */
    size_t n;
};

struct fr_action {
    const char *name; /* task's name; hooks "on_exit.0"; sidecars "janitor" or "sidecar.0" */
    struct fr_pos pos;
    enum fr_what what;
    const struct fr_kind *uses;
    const char *run;   /* script text, no expressions */
    const char *shell; /* "sh", "bash" or a path; runs the script with -e */
    const struct fr_text *argv;
    size_t n_argv;
    const struct fr_with *with; /* as written, without defaults: fr_with_json() adds them */
    size_t n_with;
    const struct fr_kv *env; /* of pipeline and task; the task's value counts; unique names */
    size_t n_env;
    struct fr_text cwd;          /* on the node; absent: the attempt's folder */
    bool login;                  /* run in the environment that a login of the node's user has */
    const char *const *programs; /* needs_program, those implied by uses among them */
    size_t n_programs;
};

/* When a task starts, once what it needs has ended. Needs with states are not counted. */
enum fr_run_if {
    FR_RUN_IF_SUCCESS, /* no need failed, but those that are best_effort */
    FR_RUN_IF_FAILURE, /* an instance of a need failed, best_effort or not; cancelled is not failed
                        */
    FR_RUN_IF_ANY,     /* an instance of a need succeeded */
    FR_RUN_IF_ALWAYS,
    FR_RUN_IF_N
};
/* What a task asks of one of its needs. */
struct fr_need_rule {
    unsigned states; /* it must end as one of these, bit 1u << enum fr_state_of; 0: see run_if */
    bool skip_with;  /* if it was skipped, so is the task */
};

enum fr_on { FR_ON_HEAD, FR_ON_ALL, FR_ON_CONTROL, FR_ON_NAMED /* nodes or labels by name */ };

struct fr_task {
    struct fr_action act;
    const char *help; /* description, or NULL */
    const int *needs; /* indices of tasks, in the order written, unique */
    size_t n_needs;
    const struct fr_need_rule *rules; /* of needs, one each; NULL: none has any */
    enum fr_run_if run_if; /* of a task whose when: calls failure() or always(): ALWAYS */
    const int *same; /* those of needs that are joined item by item: their items have equal keys */
    size_t n_same;
    const struct fr_items *items; /* NULL: it has none, and an instance each of nodes */
    enum fr_on on;
    const int *nodes; /* of an item an instance each: indices of nodes, inventory order; or
                       * FR_NODE_CONTROL */
    size_t n_nodes;   /* at least 1 */
    bool gang;        /* instances of an item start together or not at all; rank = place in nodes */
    int max_parallel; /* instances of it at once, a gang counts as one; 0: as the run's allows */
    bool fail_fast;   /* once an instance of it has failed, the others are cancelled */
    bool best_effort; /* its failure does not fail the run nor what needs it */
    struct fr_text when; /* absent: true. Evaluated per instance; false: skipped */
    struct fr_retry retry;
    int64_t timeout_ms;    /* of an attempt; 0: none */
    int64_t lost_after_ms; /* 0: never */
    int64_t grace_ms;      /* between SIGTERM and SIGKILL; default 10 s */
    int64_t notice_ms;     /* stopped so long before the limit of its allocation; 0: not */
    struct fr_log_limit log;
    enum fr_become become;
    int slots;                  /* of its node; default 1; 0 is allowed */
    int in;                     /* task of kind container that it runs in; -1: the host */
    const char *const *outputs; /* declared, or those of its kind */
    size_t n_outputs;
    const struct fr_kv *files; /* name in the attempt's folder -> control path or "node:/path" */
    const struct fr_excludes *excludes; /* n_files: one each */
    size_t n_files;
    struct fr_text metrics; /* file of JSON lines that it writes; absent: as its kind says */
    const struct fr_action *sidecars;
    size_t n_sidecars;
};

enum fr_hook { FR_HOOK_SUCCESS, FR_HOOK_FAILURE, FR_HOOK_CANCEL, FR_HOOK_EXIT, FR_HOOK_N };

/* An attempt is not started so shortly before the limit of an allocation: it would be told at once,
 * or (in the last minutes) may take longer than is left. 0: whenever. */
enum { FR_LAST_MINUTES_MS = 180000 };
static inline int64_t fr_task_last_ms(const struct fr_task *task)
{
    int64_t takes = task->timeout_ms < FR_LAST_MINUTES_MS ? task->timeout_ms : FR_LAST_MINUTES_MS;

    return task->notice_ms > takes ? task->notice_ms : takes;
}

struct fr_param {
    const char *name, *help; /* help may be NULL */
    enum fr_type type;
    struct fr_pos pos;
    const char *preset;         /* NULL: must be given */
    const char *value;          /* as used: paths absolute, a bool as true or false */
    bool given;                 /* by -p */
    bool fenced;                /* a text by a request with a fence, and not the preset */
    const char *const *choices; /* allowed values; none: any of its type */
    size_t n_choices;
};

enum fr_secret_from { FR_SECRET_ENV, FR_SECRET_FILE, FR_SECRET_COMMAND };

struct fr_secret {
    const char *name;
    struct fr_pos pos;
    enum fr_secret_from from;
    const char
        *arg; /* variable; absolute path; command for sh -c: resolved on control at each start */
};

struct fr_source {    /* a file that the spec was made from, for the store's copy */
    const char *path; /* as named: opts.path; the value of nodes: made absolute */
    struct fr_str text;
};

struct fr_spec { /* owns: the arena, and with it all below */
    struct fr_arena arena;
    const char *name, *help; /* help (description) may be NULL */
    struct fr_source sources[2];
    size_t n_sources;
    const char *folder; /* absolute: relative paths that are known at a start only count from it */
    const struct fr_param *params;
    size_t n_params;
    const struct fr_node *nodes; /* at least 1; [0] is the head */
    size_t n_nodes;
    const struct fr_slurm_spec *slurm; /* NULL: none */
    const struct fr_task *tasks;       /* in the file's order; at least 1 */
    size_t n_tasks;
    const struct fr_task *hooks[FR_HOOK_N]; /* no needs; default on: control */
    size_t n_hooks[FR_HOOK_N];
    const struct fr_secret *secrets;
    size_t n_secrets;
    const struct fr_schedule *schedules;
    size_t n_schedules;
    const struct fr_notify *notify;
    size_t n_notify;
    struct fr_rerun rerun;
    struct fr_keep_runs keep_runs;  /* of the pipeline; 0: as the home says */
    int max_parallel;               /* instances at once; default 16 */
    int max_active_runs;            /* runs of the pipeline at once; 0: no limit */
    const char *pool;               /* of the home that a run takes a place of; NULL: none */
    int64_t timeout_ms;             /* of the whole run, hooks left out; 0: none */
    int64_t late_ms;                /* a run that takes longer is late; 0: none is */
    const char *rendezvous_address; /* NULL: the head's on the route from the others */
    int rendezvous_port;            /* 0: the task's own choice */
    const char *const *notes;       /* "file:line:col: note: …": likely mistakes, not refused */
    size_t n_notes;
    const struct fr_kv *env_used; /* values of ${{ env.X }}, for resume: plain texts */
    size_t n_env_used;
};

/*
 * Versions of the meaning of pipeline files. A stored run keeps the version of its own.
 * - 1: when: may have text around ${{ }}, and that is true; a && b and a || b give true or false; a
 *   bool param keeps its text; timeout: 0s is no limit; relative paths count from cwd; names of
 *   hooks may be the same.
 * - 2: as described in this header.
 */
enum { FR_SPEC_RULES = 2 };

struct fr_spec_opts {
    const char *path;          /* the pipeline file, also its name in messages */
    const char *folder;        /* absolute; the file's paths count from it. NULL: that of path */
    const char *cwd;           /* absolute; path and the paths in params count from it */
    const char *const *params; /* "name=value", as given by -p */
    size_t n_params;
    const struct fr_fence *fence; /* fence.h; NULL: params may name any file */
    bool alone;                   /* the inventory is not opened, and each name of a node taken */
    bool scheduled; /* a param that all schedules of the file give has the first one's, not none */
    int rules;      /* by which the file was submitted, as stored with its run; 0: FR_SPEC_RULES */
    /* For the check of schedules' zones. NULL: no check, as for a stored file. */
    const struct fr_zones *zones;
    const struct fr_source *sources; /* copies used instead of reading the file of that path */
    size_t n_sources;
    const char *(*getenv)(void *self, const char *name); /* for ${{ env.X }}; NULL: no variables */
    void *getenv_self;
};

/* *out is NULL on failure, to be freed by fr_spec_destroy. FR_USAGE: issues has every mistake, err
 * the first. FR_NOTFOUND, FR_IO …: the file could not be read. */
enum fr_rc fr_spec_load(const struct fr_spec_opts *opts, struct fr_spec **out,
                        struct fr_issues *issues, struct fr_err *err);
void fr_spec_destroy(struct fr_spec *spec);

/* Whether its attempts have metrics: by its own key or by its kind. */
bool fr_task_has_metrics(const struct fr_task *task);
const char *fr_run_if_name(enum fr_run_if run_if);              /* "success" */
int fr_spec_task(const struct fr_spec *spec, const char *name); /* index, or -1 */
int fr_spec_node(const struct fr_spec *spec, const char *name); /* index, or -1 */

/* The `with` of a built-in task as its JSON object, evaluated for one instance, types checked,
 * defaults filled in, control paths made absolute from folder. */
enum fr_rc fr_with_json(const struct fr_action *act, const char *folder,
                        const struct fr_resolver *r, json_t **out, struct fr_err *err);

/* True when a value of act->with holds a secret. */
bool fr_with_secret(const struct fr_action *act);

/* Appends schema/pipeline.schema.json: the files that fr_spec_load accepts, as JSON Schema draft
 * 2020-12. */
enum fr_rc fr_spec_schema(struct fr_buf *out, struct fr_err *err);

#endif
