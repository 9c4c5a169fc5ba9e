/*
 * The store: all SQL of the engine, over one SQLite file in the home. schema/state.sql explains
 * each column. States, causes and kinds are words that the caller chooses; the store gives them no
 * meaning.
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
#include "engine/base/file.h"
#include "engine/base/str.h"

struct fr_store;

/* Opens the store in home (fr_home_make must have run), making or migrating its schema.
 * FR_UNSUPPORTED when a newer flowrun wrote it; FR_BUSY when an older one is to be migrated and a
 * flowrun of then still drives a run. */
enum fr_rc fr_store_open(const char *home, struct fr_store **out, struct fr_err *err);
/* The same for a caller that only reads: nothing of the home changes, unless it has no store yet or
 * one with an older schema. */
enum fr_rc fr_store_open_read(const char *home, struct fr_store **out, struct fr_err *err);
void fr_store_close(struct fr_store *st);
/* No statement is under way any more, and no page is kept: it can be used again later. */
void fr_store_rest(struct fr_store *st);

int fr_store_newest(void); /* the newest schema that this program knows */
const char *fr_store_home(const struct fr_store *st);     /* its folder, borrowed */
struct fr_id fr_store_home_id(const struct fr_store *st); /* made once with the schema */

/* From now on a writer waits that long for another; 0: as said above. */
void fr_store_patience(struct fr_store *st, int ms);
enum fr_rc fr_store_begin(struct fr_store *st, struct fr_err *err);
/* A transaction of rows that can be found out again: its commit outlives this process, but a power
 * cut may take it back until the next commit. All other commits are synced. */
enum fr_rc fr_store_begin_soft(struct fr_store *st, struct fr_err *err);
enum fr_rc fr_store_commit(struct fr_store *st, struct fr_err *err); /* failed: rolled back */
void fr_store_rollback(struct fr_store *st);                         /* leaves errors as they are */

/* ---- runs ---- */

struct fr_run_row {
    struct fr_id id;
    const char *name, *source, *folder;
    const char *spec_hash, *inventory_hash, *inventory;
    const char *params; /* JSON */
    const char *state, *outcome, *reason;
    int64_t started_wall, ended_wall;
    int64_t round;
    int64_t host;                         /* epoch of who drives it (unfetched.h); 0: nobody */
    const char *origin;                   /* cli, api, schedule, catchup, backfill, retry */
    int64_t priority;                     /* the larger first */
    int64_t queued_wall, not_before_wall; /* submitted; not started before */
    int64_t pinned;
    int64_t schedule, at_ms; /* that made it (fires.h), for that instant; 0: none did */
    int64_t backfill;        /* likewise (backfills.h) */
    int64_t retry_of;        /* number of the run that it repeats; 0: none */
    int64_t reruns, rerun_wall;
    const char *rerun_from;
    const char *notify; /* rules of its pipeline (outbox.h): JSON; "": none */
    const char *pool;   /* of its pipeline; "": none */
    const char *who;    /* asked for it: name of a token, of its schedule; "": the home's owner */
    int64_t late_wall;  /* it is late then; 0: never, or it was told */
    int64_t no;         /* in this home, 1 …; set by fr_store_run_add */
};

struct fr_run_rows {
    struct fr_run_row *rows;
    size_t n;
};

enum fr_rc fr_store_run_add(struct fr_store *st, struct fr_run_row *row, struct fr_err *err);
/* Writes state, outcome, reason, times, round, params, source, inventory, hashes, reruns and
 * notify, pool and late_wall of row->id. */
enum fr_rc fr_store_run_set(struct fr_store *st, const struct fr_run_row *row, struct fr_err *err);
/* Who drives it from now on. */
enum fr_rc fr_store_run_host(struct fr_store *st, struct fr_id run, int64_t host,
                             struct fr_err *err);
/* FR_BUSY: it is queued no more. */
enum fr_rc fr_store_run_priority(struct fr_store *st, struct fr_id run, int64_t priority,
                                 struct fr_err *err);
/* The spec_hash of a run: another one means another plan. */
enum fr_rc fr_store_run_spec(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                             const char **hash, struct fr_err *err);
/* The newest first, at most limit (0: all). */
enum fr_rc fr_store_runs(struct fr_store *st, size_t limit, struct fr_arena *arena,
                         struct fr_run_rows *out, struct fr_err *err);
/* Those that are not over, the newest first. */
enum fr_rc fr_store_runs_open(struct fr_store *st, struct fr_arena *arena, struct fr_run_rows *out,
                              struct fr_err *err);
/* Those that are not over, and those that are to run again by themselves, the newest first. */
enum fr_rc fr_store_runs_live(struct fr_store *st, struct fr_arena *arena, struct fr_run_rows *out,
                              struct fr_err *err);
/* Those that are to run again by themselves, the earliest first. */
enum fr_rc fr_store_reruns(struct fr_store *st, struct fr_arena *arena, struct fr_run_rows *out,
                           struct fr_err *err);
#define FR_RERUN_CANCELLED "it does not run again by itself: cancelled"
/* The run does not run again by itself; its story says why. */
enum fr_rc fr_store_rerun_drop(struct fr_store *st, struct fr_id run, const char *why,
                               struct fr_err *err);
/* When its newest round began: an event of the run that says `running`; *wall_ms stays as it is
 * where there is none. */
enum fr_rc fr_store_round_began(struct fr_store *st, struct fr_id run, int64_t *wall_ms,
                                struct fr_err *err);
/* The run that text names: an id or a unique beginning of one (4 digits or more), a number of this
 * home, or NULL for the newest. FR_NOTFOUND says what there is instead; FR_USAGE: several match. */
enum fr_rc fr_store_run_find(struct fr_store *st, const char *text, struct fr_arena *arena,
                             struct fr_run_row *out, struct fr_err *err);

/* ---- instances ---- */

struct fr_inst_row {
    int64_t idx;
    const char *key, *task, *node, *hook;
    const char *state;
    int64_t attempt_no;
    struct fr_id attempt; /* zero: none */
    const char *attempt_state;
    int64_t live, go, generation, retries;
    const char *cause;
    int64_t code;
    const char *stop_cause, *reason;
    int64_t due_wall, due_delay_ms;
    int64_t unreachable_wall;
    int64_t started_wall, ended_wall;
};

struct fr_inst_rows {
    struct fr_inst_row *rows; /* by idx */
    size_t n;
};

/* Adds the row, or replaces the one with its idx. */
enum fr_rc fr_store_inst_put(struct fr_store *st, struct fr_id run, const struct fr_inst_row *row,
                             struct fr_err *err);
/* Forgets all instances, attempts and outputs of the run, to be put again: its plan has changed. */
enum fr_rc fr_store_insts_clear(struct fr_store *st, struct fr_id run, struct fr_err *err);
enum fr_rc fr_store_insts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_inst_rows *out, struct fr_err *err);
/* The one that ended first of those that failed by themselves, tasks before hooks; none: n is 0. */
enum fr_rc fr_store_inst_failed(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_inst_rows *out, struct fr_err *err);

/* ---- attempts ---- */

struct fr_attempt_row {
    struct fr_id id;
    int64_t idx, no, generation;
    const char *node;
    int64_t rank;
    struct fr_id home_id; /* zero: not known */
    const char *boot_id;
    const char *state, *cause;
    int64_t code;
    const char *reason, *address;
    int64_t port;
    const char *log;
    int64_t slots; /* of its node that it holds */
    int64_t started_wall, ended_wall;
    int64_t done; /* all of its log is here and the node may forget it */
};

struct fr_attempt_rows {
    struct fr_attempt_row *rows; /* by idx, no */
    size_t n;
};

/* Adds the row, or replaces the one with its idx, no and id. */
enum fr_rc fr_store_attempt_put(struct fr_store *st, struct fr_id run,
                                const struct fr_attempt_row *row, struct fr_err *err);
/* What may live of runs that are not over. */
struct fr_held_row {
    struct fr_id run, attempt, home; /* home: of its node */
    int64_t slots;
    int64_t no;      /* of the run */
    const char *key; /* of the instance */
    const char *state;
};
struct fr_held_rows {
    struct fr_held_row *rows;
    size_t n;
};
enum fr_rc fr_store_held(struct fr_store *st, struct fr_arena *arena, struct fr_held_rows *out,
                         struct fr_err *err);
/* Only idx, no and id of row are used. */
enum fr_rc fr_store_attempt_done(struct fr_store *st, struct fr_id run,
                                 const struct fr_attempt_row *row, struct fr_err *err);
enum fr_rc fr_store_attempts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                             struct fr_attempt_rows *out, struct fr_err *err);

/* ---- outputs ---- */

struct fr_output_row {
    int64_t idx;
    const char *key, *value;
};

struct fr_output_rows {
    struct fr_output_row *rows; /* by idx, key */
    size_t n;
};

struct fr_inst_of {
    struct fr_id run;
    int64_t idx;
};

enum fr_rc fr_store_output_put(struct fr_store *st, struct fr_id run,
                               const struct fr_output_row *row, struct fr_err *err);
/* Forgets all outputs of an instance, before it runs again. */
enum fr_rc fr_store_output_clear(struct fr_store *st, struct fr_id run, int64_t idx,
                                 struct fr_err *err);
enum fr_rc fr_store_outputs(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_output_rows *out, struct fr_err *err);
/* Those of one instance: out->rows holds them. */
enum fr_rc fr_store_outputs_of(struct fr_store *st, const struct fr_inst_of *of,
                               struct fr_arena *arena, struct fr_output_rows *out,
                               struct fr_err *err);

/* ---- nodes ---- */

struct fr_node_row {
    const char *name;
    struct fr_id home_id;
    const char *boot_id, *folder;
    int64_t unreachable_wall, abandoned;
};

struct fr_node_rows {
    struct fr_node_row *rows;
    size_t n;
};

enum fr_rc fr_store_node_put(struct fr_store *st, struct fr_id run, const struct fr_node_row *row,
                             struct fr_err *err);
enum fr_rc fr_store_nodes(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_node_rows *out, struct fr_err *err);
/* ---- events ---- */

struct fr_event_row {
    int64_t wall;
    int64_t idx; /* -1: the run */
    const char *kind;
    int64_t attempt_no;
    const char *cause;
    int64_t code;
    const char *text, *stop_cause;
    int64_t delay_ms, log_bytes;
    int64_t seq; /* 1, 2, … in the run */
};

struct fr_event_rows {
    struct fr_event_row *rows;
    size_t n;
    int64_t after; /* in: show what is behind this seq; out: the seq of the last row returned */
};

/* Adds the row, or replaces the one with its seq. seq 0: it gets the next one of the run. */
enum fr_rc fr_store_event_add(struct fr_store *st, struct fr_id run, const struct fr_event_row *row,
                              struct fr_err *err);
/* At most 1000 of those with seq > out->after, in their order. */
enum fr_rc fr_store_events(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                           struct fr_event_rows *out, struct fr_err *err);

/* The newest seq of the run; 0: it has no event. */
enum fr_rc fr_store_event_last(struct fr_store *st, struct fr_id run, int64_t *seq,
                               struct fr_err *err);

/* ---- files by content: see blob.h ---- */

struct fr_file_row {
    const char *path, *hash;
    int64_t mode, bytes;
};

struct fr_file_rows {
    struct fr_file_row *rows; /* by path */
    size_t n;
};

enum fr_rc fr_store_file_put(struct fr_store *st, struct fr_id run, const struct fr_file_row *row,
                             struct fr_err *err);
enum fr_rc fr_store_files(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_file_rows *out, struct fr_err *err);

#endif
