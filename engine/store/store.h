/*
 * The store: all SQL of the engine, over one SQLite file in the home. schema/state.sql explains
 * each column. Kinds are words that the caller chooses; the store gives them no meaning.
 *
 * Durability rule: the host of the home puts all transitions of one turn of its loop between
 * fr_store_begin and fr_store_commit (WAL, synchronous=FULL), and performs their effects only after
 * the commit returned FR_OK. A failed commit has changed nothing (the store rolls back): nothing
 * takes effect and the same turn is tried again. Calls outside begin/commit commit by themselves.
 *
 * Several processes may have the store open: the home's host, which alone writes, and any number of
 * readers; a writer waits up to five seconds for another, then fails with FR_BUSY. Text in rows
 * given to the store is borrowed for the call, NULL counts as ""; rows that the store returns live
 * in the caller's arena. Errors: FR_IO, FR_FULL, FR_BUSY, FR_CORRUPT, FR_NOMEM; FR_NOTFOUND where
 * said.
 */
#ifndef FR_STORE_STORE_H
#define FR_STORE_STORE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/store/row.h"

struct fr_store;

/* Opens the store in home (fr_home_make must have run), making or migrating its schema.
 * FR_UNSUPPORTED when a newer flowrun wrote it; FR_BUSY when an older one is to be migrated and a
 * flowrun of then still drives a run. */
enum fr_rc fr_store_open(const char *home, struct fr_store **out, struct fr_err *err);
/* The same for a caller that only reads: nothing of the home changes, unless it has no store yet or
 * one with an older schema. */
enum fr_rc fr_store_open_read(const char *home, struct fr_store **out, struct fr_err *err);
void fr_store_close(struct fr_store *st);
/* Resets all statements and frees cached pages; the store stays usable. */
void fr_store_rest(struct fr_store *st);

int fr_store_newest(void); /* the newest schema that this program knows */
const char *fr_store_home(const struct fr_store *st);     /* its folder, borrowed */
struct fr_id fr_store_home_id(const struct fr_store *st); /* made once with the schema */

/* Sets how long a writer waits for another one; 0: the default of five seconds. */
void fr_store_patience(struct fr_store *st, int ms);
enum fr_rc fr_store_begin(struct fr_store *st, struct fr_err *err);
/* A transaction of rows that can be recovered. Its commit is not synced: it survives this process,
 * but a power cut may undo it until the next synced commit. All other commits are synced. */
enum fr_rc fr_store_begin_soft(struct fr_store *st, struct fr_err *err);
enum fr_rc fr_store_commit(struct fr_store *st, struct fr_err *err); /* failed: rolled back */
void fr_store_rollback(struct fr_store *st);                         /* leaves errors as they are */
/* Ends a transaction: commits it if rc is FR_OK, else rolls it back and returns rc. */
enum fr_rc fr_store_end(struct fr_store *st, enum fr_rc rc, struct fr_err *err);

/* ---- runs ---- */

#define FR_RUN_COLUMNS(C, S, R)                                                                    \
    C(R, INT, no, "no") /* in this home, 1 …; set by fr_store_run_add */                         \
    C(R, ID, id, "id")                                                                             \
    C(R, TEXT, name, "pipeline")                                                                   \
    S(R, TEXT, source, "file")                                                                     \
    S(R, RUN_STATE, state, "state")                                                                \
    S(R, OUTCOME, outcome, "outcome")                                                              \
    S(R, TEXT, reason, "reason")                                                                   \
    C(R, BOOL, host, "driven") /* epoch of who drives it (unfetched.h); 0: nobody */               \
    C(R, ORIGIN, origin, "origin")                                                                 \
    C(R, INT, priority, "priority") /* the larger first */                                         \
    C(R, BOOL, pinned, "pinned")                                                                   \
    S(R, INT, queued_wall, "queued_wall")         /* submitted */                                  \
    C(R, INT, not_before_wall, "not_before_wall") /* not started before */                         \
    S(R, INT, started_wall, "started_wall")                                                        \
    S(R, INT, ended_wall, "ended_wall")                                                            \
    C(R, INT, retry_of, "retry_of") /* number of the run that it repeats; 0: none */               \
    S(R, INT, reruns, "reruns")                                                                    \
    S(R, INT, rerun_wall, "rerun_wall")                                                            \
    C(R, TEXT, who, "who") /* asked for it: a token or schedule by name; "": the owner */          \
    C(R, TEXT, folder, NULL)                                                                       \
    S(R, TEXT, spec_hash, NULL)                                                                    \
    S(R, TEXT, inventory_hash, NULL)                                                               \
    S(R, TEXT, inventory, NULL)                                                                    \
    S(R, TEXT, params, NULL) /* JSON */                                                            \
    S(R, INT, round, NULL)                                                                         \
    C(R, INT, schedule, NULL) /* its schedule (occurrences.h); 0: none */                          \
    C(R, INT, at_ms, NULL)    /* the instant of schedule that it is for */                         \
    C(R, INT, backfill, NULL) /* its backfill (backfills.h); 0: none */                            \
    S(R, TEXT, rerun_from, NULL)                                                                   \
    S(R, TEXT, notify, NULL)   /* rules of its pipeline (outbox.h): JSON; "": none */              \
    S(R, TEXT, pool, NULL)     /* of its pipeline; "": none */                                     \
    S(R, INT, late_wall, NULL) /* when it is late; 0: never, or reported already */
FR_ROWS(fr_run, FR_RUN_COLUMNS);

enum fr_rc fr_store_run_add(struct fr_store *st, struct fr_run_row *row, struct fr_err *err);
/* Writes the S columns of row->id; so does each _set. */
enum fr_rc fr_store_run_set(struct fr_store *st, const struct fr_run_row *row, struct fr_err *err);
/* Sets the epoch of the host that drives the run. */
enum fr_rc fr_store_run_host(struct fr_store *st, struct fr_id run, int64_t host,
                             struct fr_err *err);
/* FR_BUSY: the run is not queued any more. */
enum fr_rc fr_store_run_priority(struct fr_store *st, struct fr_id run, int64_t priority,
                                 struct fr_err *err);
/* What the plan of a run depends on: with another hash it is another one, with more lists
 * (item_lists.h) it has more instances. */
struct fr_run_plan {
    const char *hash; /* spec_hash; in arena */
    int64_t lists;
};
enum fr_rc fr_store_run_spec(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                             struct fr_run_plan *out, struct fr_err *err);
/* Runs, newest first, at most limit (0: all). */
enum fr_rc fr_store_runs(struct fr_store *st, size_t limit, struct fr_arena *arena,
                         struct fr_run_rows *out, struct fr_err *err);
/* Runs that are not over, newest first. */
enum fr_rc fr_store_runs_open(struct fr_store *st, struct fr_arena *arena, struct fr_run_rows *out,
                              struct fr_err *err);
/* Runs that are not over or have an automatic rerun due, newest first. */
enum fr_rc fr_store_runs_live(struct fr_store *st, struct fr_arena *arena, struct fr_run_rows *out,
                              struct fr_err *err);
/* Runs that have an automatic rerun due, earliest first. */
enum fr_rc fr_store_reruns(struct fr_store *st, struct fr_arena *arena, struct fr_run_rows *out,
                           struct fr_err *err);
#define FR_RERUN_CANCELLED "it does not run again by itself: cancelled"
/* Cancels the automatic rerun; an event of the run records why. */
enum fr_rc fr_store_rerun_drop(struct fr_store *st, struct fr_id run, const char *why,
                               struct fr_err *err);
/* When the run's newest round began, from its newest event `running`; without one *wall_ms keeps
 * its value. */
enum fr_rc fr_store_round_began(struct fr_store *st, struct fr_id run, int64_t *wall_ms,
                                struct fr_err *err);
/* The run that text names: an id or a unique beginning of one (4 digits or more), a number of this
 * home, or NULL for the newest. FR_NOTFOUND: the message names the newest run; FR_USAGE: several
 * match. */
enum fr_rc fr_store_run_find(struct fr_store *st, const char *text, struct fr_arena *arena,
                             struct fr_run_row *out, struct fr_err *err);

/* ---- instances ---- */

#define FR_INST_COLUMNS(C, S, R)                                                                   \
    C(R, INT, idx, "idx")                                                                          \
    C(R, TEXT, key, "key")                                                                         \
    C(R, TEXT, task, "task")                                                                       \
    C(R, TEXT, node, "node")                                                                       \
    C(R, TEXT, hook, "hook")                                                                       \
    C(R, STATE, state, "state")                                                                    \
    C(R, INT, attempt_no, "attempt_no")                                                            \
    C(R, ID, attempt, "attempt") /* zero: none */                                                  \
    C(R, CAUSE, cause, "cause")                                                                    \
    C(R, INT, code, "code")                                                                        \
    C(R, TEXT, reason, "reason")                                                                   \
    C(R, INT, unreachable_wall, "unreachable_wall")                                                \
    C(R, INT, started_wall, "started_wall")                                                        \
    C(R, INT, ended_wall, "ended_wall")                                                            \
    C(R, STATE_OR_NONE, attempt_state, NULL)                                                       \
    C(R, INT, live, NULL)                                                                          \
    C(R, INT, go, NULL)                                                                            \
    C(R, INT, generation, NULL)                                                                    \
    C(R, INT, retries, NULL)                                                                       \
    C(R, INT, chained, NULL)                                                                       \
    C(R, CAUSE, stop_cause, NULL)                                                                  \
    C(R, INT, due_wall, NULL)                                                                      \
    C(R, INT, due_delay_ms, NULL)
FR_ROWS(fr_inst, FR_INST_COLUMNS); /* by idx */

/* Adds the row, or replaces the one with its idx. */
enum fr_rc fr_store_inst_put(struct fr_store *st, struct fr_id run, const struct fr_inst_row *row,
                             struct fr_err *err);
/* Deletes all instances, attempts and outputs of the run, which are put again for its new plan. */
enum fr_rc fr_store_insts_clear(struct fr_store *st, struct fr_id run, struct fr_err *err);
enum fr_rc fr_store_insts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_inst_rows *out, struct fr_err *err);
/* Whether name is its task, its key, or a pattern of either with '*' and '?'. */
bool fr_inst_named(const struct fr_inst_row *row, const char *name);
/* The row of that instance among all of its run; NULL: none. */
const struct fr_inst_row *fr_inst_at(const struct fr_inst_rows *rows, int64_t idx);
/* The first instance that failed by itself, tasks before hooks; n is 0 if there is none. */
enum fr_rc fr_store_inst_failed(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_inst_rows *out, struct fr_err *err);

/* ---- attempts ---- */

#define FR_ATTEMPT_COLUMNS(C, S, R)                                                                \
    C(R, ID, id, NULL)                                                                             \
    C(R, INT, idx, NULL)                                                                           \
    C(R, INT, no, NULL)                                                                            \
    C(R, INT, generation, NULL)                                                                    \
    C(R, TEXT, node, NULL)                                                                         \
    C(R, INT, rank, NULL)                                                                          \
    C(R, ID, home_id, NULL) /* zero: not known */                                                  \
    C(R, TEXT, boot_id, NULL)                                                                      \
    C(R, STATE, state, NULL)                                                                       \
    C(R, CAUSE, cause, NULL)                                                                       \
    C(R, INT, code, NULL)                                                                          \
    C(R, TEXT, reason, NULL)                                                                       \
    C(R, TEXT, address, NULL)                                                                      \
    C(R, INT, port, NULL)                                                                          \
    C(R, TEXT, log, NULL)                                                                          \
    C(R, INT, slots, NULL) /* of its node that it holds */                                         \
    C(R, INT, started_wall, NULL)                                                                  \
    C(R, INT, ended_wall, NULL)                                                                    \
    C(R, INT, done, NULL) /* its log is copied whole: the node may forget it */

FR_ROWS(fr_attempt, FR_ATTEMPT_COLUMNS); /* by idx, no */

/* Adds the row, or replaces the one with its idx, no and id. */
enum fr_rc fr_store_attempt_put(struct fr_store *st, struct fr_id run,
                                const struct fr_attempt_row *row, struct fr_err *err);
/* Attempts that may live, of runs that are not over. */
#define FR_HELD_COLUMNS(C, S, R)                                                                   \
    C(R, ID, run, NULL)                                                                            \
    C(R, ID, attempt, NULL)                                                                        \
    C(R, ID, home, NULL) /* of its node */                                                         \
    C(R, INT, slots, NULL)                                                                         \
    C(R, INT, no, NULL)   /* of the run */                                                         \
    C(R, TEXT, key, NULL) /* of the instance */                                                    \
    C(R, STATE, state, NULL)
FR_ROWS(fr_held, FR_HELD_COLUMNS);
enum fr_rc fr_store_held(struct fr_store *st, struct fr_arena *arena, struct fr_held_rows *out,
                         struct fr_err *err);
/* Only idx, no and id of row are used. */
enum fr_rc fr_store_attempt_done(struct fr_store *st, struct fr_id run,
                                 const struct fr_attempt_row *row, struct fr_err *err);
enum fr_rc fr_store_attempts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                             struct fr_attempt_rows *out, struct fr_err *err);

/* ---- outputs ---- */

#define FR_OUTPUT_COLUMNS(C, S, R)                                                                 \
    C(R, INT, idx, NULL)                                                                           \
    C(R, TEXT, key, NULL)                                                                          \
    C(R, TEXT, value, NULL)
FR_ROWS(fr_output, FR_OUTPUT_COLUMNS); /* by idx, key */

struct fr_inst_of {
    struct fr_id run;
    int64_t idx;
};

enum fr_rc fr_store_output_put(struct fr_store *st, struct fr_id run,
                               const struct fr_output_row *row, struct fr_err *err);
/* Deletes all outputs of an instance before it runs again. */
enum fr_rc fr_store_output_clear(struct fr_store *st, struct fr_id run, int64_t idx,
                                 struct fr_err *err);
enum fr_rc fr_store_outputs(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_output_rows *out, struct fr_err *err);
/* The outputs of one instance. */
enum fr_rc fr_store_outputs_of(struct fr_store *st, const struct fr_inst_of *of,
                               struct fr_arena *arena, struct fr_output_rows *out,
                               struct fr_err *err);

/* ---- nodes ---- */

#define FR_NODE_COLUMNS(C, S, R)                                                                   \
    C(R, TEXT, name, NULL)                                                                         \
    S(R, ID, home_id, NULL)                                                                        \
    S(R, TEXT, boot_id, NULL)                                                                      \
    S(R, TEXT, folder, NULL)                                                                       \
    S(R, INT, unreachable_wall, NULL)                                                              \
    S(R, INT, abandoned, NULL)
FR_ROWS(fr_node, FR_NODE_COLUMNS);

enum fr_rc fr_store_node_put(struct fr_store *st, struct fr_id run, const struct fr_node_row *row,
                             struct fr_err *err);
enum fr_rc fr_store_nodes(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_node_rows *out, struct fr_err *err);
/* ---- events ---- */

#define FR_EVENT_COLUMNS(C, S, R)                                                                  \
    C(R, INT, seq, "seq") /* 1, 2, … in the run */                                               \
    C(R, INT, wall, "wall")                                                                        \
    C(R, INT, idx, "idx") /* -1: the run */                                                        \
    C(R, TEXT, kind, "kind")                                                                       \
    C(R, INT, attempt_no, "attempt_no")                                                            \
    C(R, TEXT, cause, "cause")                                                                     \
    C(R, INT, code, "code")                                                                        \
    C(R, TEXT, text, "text")                                                                       \
    C(R, INT, delay_ms, "delay_ms")                                                                \
    C(R, CAUSE, stop_cause, NULL)                                                                  \
    C(R, INT, log_bytes, NULL)
FR_ROW(fr_event_row, FR_EVENT_COLUMNS);
enum { FR_EVENT_GONE = -2 }; /* idx: the plan has that instance no more */

struct fr_event_rows {
    struct fr_event_row *rows;
    size_t n;
    int64_t after; /* in: only rows after this seq; out: the seq of the last row */
};

/* Adds the row, or replaces the one with its seq. seq 0: the run's next one is used. */
enum fr_rc fr_store_event_add(struct fr_store *st, struct fr_id run, const struct fr_event_row *row,
                              struct fr_err *err);
/* At most 1000 events with seq > out->after, in order. */
enum fr_rc fr_store_events(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                           struct fr_event_rows *out, struct fr_err *err);

/* The newest seq of the run; 0: no event. */
enum fr_rc fr_store_event_last(struct fr_store *st, struct fr_id run, int64_t *seq,
                               struct fr_err *err);

#endif
