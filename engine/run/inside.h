/*
 * The functions of a run that its files share. Only engine/run includes this header.
 *
 *   check.c     files, keys and secrets of this machine, before a run begins
 *   open.c      submit: spec, plan, first commit -> struct fr_run
 *   again.c     the same of a run that is over
 *   rerun.c     automatic reruns
 *   load.c      resume and retry: the same from stored rows
 *   shell.c     environment and umask of the shell that it came from
 *   stored.c    the pipeline of a stored run
 *   stage.c     control-side files, kept by content at submit
 *   asked.c     requests of its user and its driver
 *   changed.c   files that changed since the run began
 *   view.c      accessors for views
 *   nodes.c     nodes come and go
 *
 * The way of an attempt:
 *
 *   run.c       the drain: events in, decisions, rows and effects out
 *   expand.c    lists of foreach: that get known -> instances
 *   rows.c      rows of the scheduler -> rows of the store
 *   reasons.c   why they are in their states, in words
 *   start.c     files and programs that go to its node before it is sent
 *   occasion.c  schedule.* of the run
 *   values.c    values of ${{ … }} and of secrets, at start
 *   blocked.c   tasks that wait for a secret
 *   request.c   the request to the node: argv, environment, limits, rendezvous
 *   attempt.c   events of the executor -> events of the scheduler; effects
 *   fetch.c     copies of its output
 *   gather.c    files from node to node
 */
#ifndef FR_RUN_INSIDE_H
#define FR_RUN_INSIDE_H

#include "engine/run/state.h"

/* ---- open.c ---- */
struct fr_run *run_new(const struct fr_run_env *env, struct fr_err *err);
struct run_inst *run_new_insts(const struct fr_plan *plan); /* of fr_sys; NULL: no memory */
/* Makes the plan, the scheduler and the folder's name. Spec and id must be set. */
enum fr_rc run_make_parts(struct fr_run *run, struct fr_err *err);
/* Makes folder and executor; queues the first event. */
enum fr_rc run_begin(struct fr_run *run, enum fr_event_kind kind, struct fr_err *err);
/* Sets row.params to JSON from which run->spec can be made again out of its sources. */
enum fr_rc run_pack_params(struct fr_run *run, json_t *params, struct fr_err *err);
enum fr_rc run_keep_sources(struct fr_run *run, struct fr_err *err); /* fills row.notify, too */
enum fr_rc run_name_source(struct fr_run *run, const char *file, struct fr_err *err); /* absolute */
enum fr_rc run_put_nodes(struct fr_run *run, struct fr_err *err);
enum fr_rc run_put_insts(struct fr_run *run, uint32_t from, uint32_t to, struct fr_err *err);
enum fr_rc run_put_files(struct fr_run *run, struct fr_err *err); /* run->files */

/* ---- again.c ---- */
/* Spec, parts, shell, occasion and kept files of a run that repeats submit->again. */
enum fr_rc run_again_make(struct fr_run *run, const struct fr_submit *submit,
                          struct fr_issues *issues, struct fr_err *err);
/* Inside the transaction that adds the new run: checks that the repeated run still exists. */
enum fr_rc run_again_check(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err);
/* Then, in the same transaction: cancels the other's rerun, with an event that names the run. */
enum fr_rc run_again_put(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err);

/* ---- rerun.c ---- */
/* Sets in the row of a run that ended when it reruns automatically, if it does. */
void run_rerun_plan(struct fr_run *run, const struct fr_run_now *now);
/* Clears that in the row of a run that has a new round. */
void run_rerun_begin(struct fr_run *run);
/* Its reason, and when it runs again; in the run's arena. NULL: no memory. */
const char *run_rerun_text(struct fr_run *run);

/* ---- load.c ---- */
/* Finds the instance of each row of a list (attempts, outputs) in one pass; all are by idx. */
struct run_cursor {
    struct fr_inst_rows insts;
    size_t at;
    size_t steps; /* instances passed so far; at most insts.n */
};
/* Queues the retry from the task run->retry_from. */
enum fr_rc run_queue_retry(struct fr_run *run, struct fr_err *err);
/* Follows the rest of the output of ended attempts. */
void run_follow_ended(struct fr_run *run);
const struct fr_inst_row *run_cursor_to(struct run_cursor *c, int64_t idx); /* NULL: none */

/* ---- shell.c ---- */
enum fr_rc run_shell_take(struct fr_run *run, struct fr_err *err); /* of a new run */
/* Of a stored one: from its row; or the shell's that resumes it, and row.params then has that. And
 * run->retries or run->resetting. */
enum fr_rc run_shell_load(struct fr_run *run, struct fr_err *err);
/* In the commits of a retry's slices: mark the run's row, and unmark it with the last slice. */
bool run_reset_mark(struct fr_run *run); /* false: no memory */
enum fr_rc run_reset_write(struct fr_run *run, struct fr_err *err);
json_t *run_shell_json(const struct fr_run *run);
/* This process's environment and the shell's variables, of a command that is no task; or NULL. */
const char **run_shell_environ(const struct fr_run *run, struct fr_arena *arena);

/* ---- stored.c ---- */
struct run_source { /* all borrowed */
    const struct fr_run_row *row;
    const char *home;
    struct fr_store *st;              /* has the lists that the run knew; NULL: it knows none */
    const struct fr_run_shell *shell; /* of a changed file; NULL: there is none */
    const struct fr_fence *fence;     /* as of fr_spec_opts */
    struct fr_arena *arena;
};
/* The stored pipeline (file NULL) or a changed one, with the stored inventory and parameters. */
enum fr_rc run_load_file(const struct run_source *from, const char *file, struct fr_spec **out,
                         struct fr_issues *issues, struct fr_err *err);

/* ---- run.c ---- */
enum fr_rc run_queue(struct fr_run *run, const struct fr_event *ev, struct fr_err *err);
void run_wake(struct fr_run *run);                          /* there is something to drain */
void run_die(struct fr_run *run, const struct fr_err *err); /* flowrun ends; a resume goes on */
void run_queue_or_die(struct fr_run *run, const struct fr_event *ev); /* no memory: fatal */
void run_trouble(struct fr_run *run, uint32_t inst, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void run_node_note(struct fr_run *run, uint32_t node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void run_note(struct fr_run *run, struct fr_note *note); /* fills wall_ms */
const char *run_json_text(struct fr_run *run,
                          const json_t *doc); /* in its arena; NULL: no memory */
struct run_attempt *run_attempt_find(struct fr_run *run, struct fr_id id);
struct run_attempt *run_attempt_add(struct fr_run *run, struct fr_id id, uint32_t inst,
                                    uint32_t no);
void run_attempt_drop(struct fr_run *run, struct run_attempt *at);
uint32_t run_node_of(const struct fr_run *run, uint32_t inst);
const struct fr_plan_task *run_task_of(const struct fr_run *run, uint32_t inst);
struct fr_exec_attempt run_exec_attempt(const struct fr_run *run, const struct run_attempt *at);

/* Copies text from a node as one line that is safe to show. */
void run_say(char out[256], const char *text, size_t n);
/* Appends "K=V" (formatted) to strs; false: no memory. */
bool run_add(struct fr_arena *arena, struct fr_strs *strs, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- attempt.c ---- */
void run_take_event(struct fr_run *run, struct fr_exec_event *ev);
/* Ends an attempt that cannot be started as start_failed, or as expression if one of its values
 * cannot be evaluated. It is not retried when the error is permanent (usage, denied, not found,
 * unsupported); refused: it is, as who refused it may take it later. */
void run_start_failed(struct fr_run *run, struct run_attempt *at, const struct fr_err *err);
void run_start_refused(struct fr_run *run, struct run_attempt *at, const struct fr_err *err);

void run_eval(struct fr_run *run, const struct fr_act *act);
void run_act(struct fr_run *run, const struct fr_act *act);
void run_ack(struct fr_run *run, struct run_attempt *at);    /* when end and log are both safe */
void run_follow(struct fr_run *run, struct run_attempt *at); /* its log, from the local size on */

/* ---- rows.c ---- */
/* wall_ms: when the row was made; its delay counts from then. */
enum fr_rc run_put_inst(struct fr_run *run, const struct fr_row *row, int64_t wall_ms,
                        struct fr_err *err);
enum fr_rc run_put_output(struct fr_run *run, uint32_t inst, const char *kv, struct fr_err *err);
void run_show(struct fr_run *run);         /* after the commit */
void run_changes_drop(struct fr_run *run); /* frees the lists of changes */

/* ---- nodes.c ---- */
void run_node_up(struct fr_run *run, uint32_t n, const struct fr_exec_event *ev);
void run_node_down(struct fr_run *run, uint32_t n, const struct fr_exec_event *ev);
void run_node_connect(struct fr_run *run, uint32_t n);
/* Which node the instance waited for in vain. In the run's arena; NULL: no memory. */
const char *run_node_missed(struct fr_run *run, uint32_t inst);
enum fr_rc run_nodes_write(struct fr_run *run, struct fr_err *err);

/* ---- start.c ---- */
void run_start(struct fr_run *run, const struct fr_act *act);
void run_start_go(struct fr_run *run, const struct fr_act *act);
void run_start_drop(struct fr_run *run, struct run_start *start); /* NULL is fine */
void run_start_secrets(struct fr_run *run); /* starts that wait for commands of secrets */
void run_start_hash(struct fr_run *run);    /* hashes a slice; starts that waited go on */
/* An answer to one of its puts and gets. */
void run_start_answer(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev);
uint64_t run_job_add(struct fr_run *run, struct run_attempt *at); /* a new ref; 0: no memory */

/* ---- occasion.c ---- */
enum fr_rc run_occasion_make(struct fr_run *run, const struct fr_submit *submit,
                             struct fr_err *err); /* spec and row.origin are set */
enum fr_rc run_occasion_read(struct fr_run *run, struct fr_err *err); /* from row.params */
json_t *run_occasion_pack(const struct fr_run *run);
const char *run_occasion(const struct fr_run *run, const char *name); /* "time"; never NULL */
bool run_occasion_env(const struct fr_run *run, struct fr_arena *arena, struct fr_strs *env);

/* ---- request.c ---- */
struct run_shipped {  /* a file in the node's store for this start */
    const char *what; /* a needs_program; NULL: a file of `files:` */
    const char *name; /* its path in the attempt's folder */
    const char *path; /* absolute on the node; of a file: below the store folder */
    uint32_t mode;
    struct run_shipped *next;
};

struct run_order { /* inputs of the request, collected by start.c */
    struct fr_arena *arena;
    struct run_answered *secrets; /* secrets by command */
    json_t *with;                 /* of the task, paths rewritten; NULL: none */
    json_t **sidecars;            /* likewise, one a sidecar */
    const struct run_shipped *shipped;
    bool in_container; /* the attempt runs in the container below */
    struct fr_container container;
};

enum fr_rc run_request(struct fr_run *run, const struct run_attempt *at,
                       const struct run_order *order, struct fr_request *out, struct fr_err *err);
/* The path, as the command sees it, of the file that was put at rel. In order's arena. */
const char *run_on_node(const struct fr_run *run, const struct run_attempt *at,
                        const struct run_order *order, const char *rel);
/* The "K=V" that are known only at go: the rendezvous of a gang. */
enum fr_rc run_go_env(struct fr_run *run, const struct run_attempt *at, struct fr_arena *arena,
                      struct fr_strs *out, struct fr_err *err);

/* The address of the task's head as its other nodes reach it. */
enum fr_rc run_rendezvous(struct fr_run *run, uint32_t inst, char out[64], struct fr_err *err);
/* How control and the other nodes name a node. */
const char *run_node_address(const struct fr_run *run, uint32_t node);
bool run_local(const struct fr_plan *plan, uint32_t node); /* on this machine */
bool run_node_local(const struct fr_run *run, uint32_t node);
bool run_is_place(const struct fr_run *run, uint32_t n); /* of an allocation */
/* Whether that end waits for fr_run_displaced(), which tells its cause. */
bool run_displaces(const struct fr_run *run, const struct run_attempt *at, enum fr_cause cause);

/* ---- values.c ---- */
struct run_scope { /* whose values: an instance */
    struct fr_run *run;
    uint32_t inst;
    uint32_t attempt_no;
    const struct run_answered *secrets; /* of commands; NULL: none was asked */
    const char *other_node; /* set: the one, not this machine, of which an output was taken */
    bool no_secret;         /* set: the missing value is a secret */
};
struct fr_resolver run_resolver(struct run_scope *scope);
/* Returns rc, that of a value of the scope; notes whether an expression has none. */
enum fr_rc run_value(const struct run_scope *scope, enum fr_rc rc);
const char *run_output(const struct fr_run *run, uint32_t inst, const char *name);
/* fan.c: FR_REF_ALL, FR_REF_ITEMS and FR_REF_BEST */
enum fr_rc run_fan_value(const struct fr_run *run, const struct fr_ref *ref, struct fr_buf *out,
                         struct fr_err *err);

const struct fr_secret *run_secret_find(const struct fr_spec *spec, const char *name);
/* Calls fn for each reference in env and with of the action, until it returns false. */
void run_each_ref(const struct fr_action *act, bool (*fn)(void *arg, const struct fr_ref *ref),
                  void *arg);
/* Appends the value of a secret that no command gives; waits for a file. */
enum fr_rc run_secret_read(const struct fr_secret *s, const struct fr_run_shell *shell,
                           struct fr_buf *out, struct fr_err *err);
enum fr_rc run_secret(const struct run_scope *scope, const char *name, struct fr_buf *out,
                      struct fr_err *err);
/* Asks for each secret of a file or command that act holds, adding to *out; NULL: there is none.
 * run->secrets_ready is set once some answered. */
enum fr_rc run_secrets_ask(struct fr_run *run, const struct fr_action *act, struct fr_arena *arena,
                           struct run_answered **out, struct fr_err *err);
/* Whether all have answered; err: the failure of one, or FR_OK; *passes: a retry may help. */
bool run_secrets_ready(const struct run_answered *list, bool *passes, struct fr_err *err);
void run_secrets_drop(struct run_answered *list); /* stops those that still run */

/* ---- blocked.c ---- */
/* A secret of a variable that the task takes and no shell of the run gave; NULL: there is none. */
const struct fr_secret *run_lacks(const struct fr_run *run, uint32_t task);
/* Queues FR_EV_BLOCK for each task that lacks one. */
enum fr_rc run_blocks_begin(struct fr_run *run, struct fr_err *err);
void run_blocks_look(struct fr_run *run, int64_t now); /* and for those for which that changed */
/* The reason of a blocked instance: its secret, and until when it waits. NULL: no memory. */
const char *run_block_text(struct fr_run *run, uint32_t task);
/* Its start lacks the secret, which was waited for as long as may be. */
void run_block_fail(struct fr_run *run, struct run_attempt *at, const struct fr_secret *lacks);

/* ---- stage.c: small files of this side ---- */
/* After run_keep_sources(): copies the files that the pipeline names. All blobs are synced then. */
enum fr_rc run_stage(struct fr_run *run, struct fr_err *err);
/* Before that blob is put: claims it, and marks the run unless it is *there. */
enum fr_rc run_blob_begin(struct fr_run *run, const char *hash, bool *there, struct fr_err *err);
bool run_kept(const struct fr_run *run, const char *path); /* the copy is used, on each node */
/* Callback of a shipment, arg is the run: the files kept at submit. */
bool run_copies(void *arg, const char *path, struct fr_manifest *out);

/* ---- fetch.c ---- */
/* Sets at->log.size from the copy; opens a copy that is not empty. */
enum fr_rc run_log_look(struct fr_run *run, struct run_attempt *at, struct fr_err *err);
void run_log_take(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev);
void run_log_tail(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev);
enum fr_rc run_log_sync(struct fr_run *run, struct run_attempt *at, struct fr_err *err);
void run_log_close(struct run_attempt *at);
/* The copies that could not be written are asked for again, a while later. */
void run_follow_later(struct fr_run *run);
/* After the run's end: whether the rest of an attempt's output is awaited; reports output that is
 * not awaited, once; whether all output is here, so that the run needs no host any more. */
bool run_log_awaited(const struct fr_run *run, const struct run_attempt *at);
void run_log_missing(struct fr_run *run, int64_t now);
bool run_frees_host(const struct fr_run *run);

/* ---- changed.c ---- */
/* Reports which tasks differ between run->spec and old. */
void run_name_changes(struct fr_run *run, const struct fr_spec *old);
/* Reports which of the run's files have changed since submit; the run uses its copies. */
void run_edited(struct fr_run *run, bool retry);

#endif
