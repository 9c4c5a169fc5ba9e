/*
 * The schedules of a staying host: the files of its folders (folders.h), the state of each schedule
 * (store/occurrences.h), and the runs that they make. For the host alone.
 *
 *   timetable.c       begin and end
 *   schedules.c       due times, steps of the clock
 *   folder_scan.c     scans of the folders
 *   schedule_store.c  the table and its rows: loaded at the start, written on change, pruned
 *   clock_rollback.c  a clock that was set back
 *   occurrences.c     decisions about the instants that are due
 *   schedule_runs.c   the runs of schedules
 *
 * One commit decides an instant: it has the queued run, if any, with the copy of its pipeline, the
 * row of the instant, and the schedule's `seen`. A host killed before that commit leaves the
 * instant to the next host; after the commit none decides it again. Consequences, such as
 * cancelling an earlier run, follow from these rows at any time: see admit/admission.c.
 */
#ifndef FR_TIMETABLE_SCHEDULES_H
#define FR_TIMETABLE_SCHEDULES_H

#include "engine/base/heap.h"
#include "engine/timetable/folders.h"
#include "engine/runs/job.h"
#include "engine/runs/state.h"
#include "engine/timetable/pause.h"
#include "engine/timetable/timetable.h"
#include "engine/store/occurrences.h"

struct host_occurrence;

struct host_schedule {
    struct host_file *file;
    struct fr_schedule_row row;   /* owns its texts, but source */
    const struct fr_schedule *s;  /* of the file's spec; NULL: no served file has it */
    const struct fr_timetable *t; /* likewise */
    int64_t delay_ms;             /* jitter */
    bool stored;                  /* the store has its row */
    bool dirty;                   /* the row must be written before the next decision */
    uint32_t turn;                /* raised when s, t or row changed otherwise than by a decision */
    uint32_t place, stamp;        /* in list; of its entry among those that are due */
    int64_t due_wall;             /* INT64_MAX: never */
    int64_t retry_ms, backoff_ms; /* after a failed decision: no other before, mono_ms */
    struct host_occurrence *occurrence; /* owns: an instant whose run is being made; NULL */
    bool ended;                         /* a run of it ended: check whether it failed too often */
    bool other_rule;                    /* decisions ahead of now used another rule than t */
};

struct host_file {
    const char *path; /* owns */
    struct fr_folder_mark mark;
    const char *name;            /* owns: of its last usable pipeline; NULL: none */
    struct fr_spec *spec;        /* owns: its last usable content; NULL: none */
    struct fr_timetable *tables; /* owns: one a schedule of spec */
    const char *error;           /* owns: why the present file is unusable; NULL: it is usable */
    int64_t error_wall;          /* since then */
    const char *text;            /* owns: of the store's row, until spec has one; NULL */
    bool dirty;                  /* its row must be written */
    bool found;                  /* by the scan that is being taken in */
    struct host_schedule **own;  /* owns: those that it has or had, by name */
    size_t n, cap;
};

struct host_schedules { /* the state of timetable_part */
    struct fr_host *host;
    /* When rerun.c and backfill.c look next, in mono_ms; INT64_MAX: never. */
    int64_t rerun_due_ms, backfill_due_ms;
    bool served;          /* fr_host_watch() was called: the rest is in use */
    const char **folders; /* owns */
    size_t n_folders;
    struct host_file **files; /* owns; by path */
    size_t n_files, cap_files;
    struct host_schedule **list; /* of all files, in the order in which they came */
    size_t n, cap;
    bool dirty;             /* some rows must be written */
    struct fr_heap due;     /* by due_wall; id: place in list */
    struct host_look *look; /* the scan; NULL: none */
    bool taking;            /* the scan is over, and some of its files are not taken in yet */
    int64_t look_ms;        /* the next scan, mono_ms */
    bool looked;            /* a scan was taken in */
    bool unread;            /* a folder could not be read; logged once */
    bool ready;             /* instants due at the start are decided, or being decided */
    bool more;              /* more is due than one turn decides */
    bool ended;             /* a run of some schedule ended */
    bool unarmed;           /* some due times are missing: arm all again */
    size_t to_arm;          /* schedules at the begin of the list that must be armed */
    struct fr_err err;      /* no memory for a scan: final */
    int dir_fd, clock_fd;   /* notifications of the system; -1: none */
    struct fr_watch *dir_watch, *clock_watch;
    int64_t wall_ms, mono_ms; /* of the last turn: a step of the clock shows between two */
    uint64_t clock_steps;
    int64_t write_ms, backoff_ms; /* after a failed write: the next try, mono_ms */
    bool back;                    /* the clock was set back: rows from back_at on must follow */
    size_t back_at;               /* in list */
    int64_t prune_ms;
    size_t prune_at;
    size_t making; /* runs */
};

struct host_schedules *schedules_of(const struct fr_host *host);

/* ---- schedules.c ---- */

enum {
    FR_KEEP_STEP_MS = 3600000,
    FR_KEEP_WAIT_MS = 86400000
}; /* nothing goes by age behind a
       step of the clock */
/* Decides the instants that are due. An error is final. */
enum fr_rc schedules_turn(struct fr_host *host, struct fr_err *err);
int64_t schedules_due(const struct fr_host *host); /* of the next turn, in mono_ms */
void schedules_ended(struct fr_host *host,
                     const struct fr_run_row *run); /* perhaps one of a schedule */
/* The zone for schedules without one may have changed. */
void schedules_configured(struct fr_host *host);
/* Whether this turn has used its time after `done` steps: leave the rest to the next turn. */
bool schedules_spent(const struct host_schedules *all, size_t done);
void schedules_look_soon(struct host_schedules *all, int64_t in_ms);
uint64_t schedules_clock_steps(const struct fr_host *host); /* noticed steps */
/* Pauses or resumes. FR_BUSY: already in that state. */
enum fr_rc schedules_pause(struct host_schedules *all, struct host_schedule *s,
                           const struct fr_pause *how, struct fr_err *err);
struct host_schedule *schedules_find(const struct fr_host *host, int64_t id); /* NULL: none */
/* The file of the pipeline of that name in the folders; NULL: none has it. */
const char *schedules_file_of(const struct fr_host *host, const char *name);
/* [[name, file], …] of all served pipelines, by path. NULL: no memory. */
json_t *schedules_pipelines(const struct fr_host *host);
/* Computes its next due time from its rule and rows. */
void schedules_rearm(struct host_schedules *all, struct host_schedule *s);
/* After a failed decision: retry later, with back-off. */
void schedules_retry(struct host_schedules *all, struct host_schedule *s);

/* ---- folder_scan.c ---- */

enum fr_rc folder_scan_begin(struct host_schedules *all, struct fr_err *err);
void folder_scan_take(struct host_schedules *all); /* takes in some files of a finished scan */
void folder_scan_end(struct host_schedules *all);  /* drops a scan in progress */

/* ---- schedule_store.c ---- */

bool schedules_text(const char **slot, const char *text); /* false: no memory */
struct host_file *schedules_file(struct host_schedules *all, const char *path); /* found or added */
/* Adds a schedule to its file, with the texts of row but source. NULL: no memory. */
struct host_schedule *schedules_add(struct host_schedules *all, struct host_file *file,
                                    const struct fr_schedule_row *row);
void schedules_free_file(struct host_file *file); /* frees its schedules, too */
enum fr_rc schedules_load(struct host_schedules *all, struct fr_err *err);
/* Writes changed rows, several files in one commit, until the turn is spent. */
enum fr_rc schedules_write(struct host_schedules *all, struct fr_err *err);
/* Deletes some of the instants that are too old. */
void schedules_prune(struct host_schedules *all);

/* ---- clock_rollback.c ---- */

/* The clock stands before what is decided: see fr_seen_back. Some schedules, in one commit; back is
 * false once it was all. Those that no served file has are left as they are, until one has them. */
enum fr_rc clock_rollback(struct host_schedules *all, struct fr_err *err);

/* ---- schedule_runs.c ---- */

struct host_making {
    const struct host_schedule *s; /* its file is served */
    enum fr_origin origin;
    int64_t at_ms;  /* its instant; 0: it is of none, and its time is at, or now */
    const char *at; /* as written; NULL: now */
    int64_t priority;
    struct host_occurrence *occurrence;   /* whose run it is; NULL */
    const struct host_backfill *backfill; /* likewise; NULL */
    json_t
        *params; /* borrows: as fr_backfill_row.params, beside those of the schedule; NULL: none */
};
/* Begins to make the run. */
enum fr_rc schedules_make(struct fr_host *host, const struct host_making *what, struct fr_err *err);

/* ---- occurrences.c ---- */

/* Decisions of several schedules that make no run: one commit. */
enum { OCCURRENCES_BATCH = 200 };
struct occurrences_decided {
    struct host_schedule *s;
    int64_t seen_ms;
    struct fr_occurrence_row newest; /* for the log */
};
struct occurrences_batch {
    struct host_schedules *all;
    struct occurrences_decided list[OCCURRENCES_BATCH];
    size_t n; /* their rows are in an open transaction, unless it is 0 */
};
/* Decides what is due of the schedule: nothing, or it is in the batch, or its run is being made.
 * After an error the batch is to be ended with it. */
enum fr_rc occurrences_decide(struct occurrences_batch *batch, struct host_schedule *s,
                              struct fr_err *err);
/* Ends the batch: rc is of its last decision. Those of it are armed again. */
enum fr_rc occurrences_commit(struct occurrences_batch *batch, enum fr_rc rc, struct fr_err *err);
void occurrences_forget(struct host_schedule *s); /* the run that is being made is of no use */
extern const struct make_for of_occurrence;       /* of a struct host_occurrence */
/* The decisions of a schedule behind an instant, in their order; they live in the arena. */
struct occurrences_stored {
    int64_t schedule, after_ms;
    struct fr_decided *list;
    size_t n;
};
enum fr_rc occurrences_read(struct fr_store *st, struct occurrences_stored *of,
                            struct fr_arena *arena, struct fr_err *err);
/* The state of a schedule, to be asked what is due; rows live in arena. */
enum fr_rc occurrences_state(struct host_schedules *all, const struct host_schedule *s,
                             struct fr_arena *arena, struct fr_due *out, struct fr_err *err);

#endif
