/*
 * The schedules of a host that stays: what the files of its folders say (folders.h), where each
 * schedule stands (store/fires.h), and the runs that it makes. For the files of the host alone.
 *
 *   timetable.c       begin and end
 *   schedules.c       when something is due, the clock
 *   folder_scan.c     what the files of the folders say
 *   schedule_store.c  the table and its rows: read at the start, written when they change, pruned
 *   clock_rollback.c  a clock that was set back
 *   occurrences.c     what becomes of the instants that are due
 *   schedule_runs.c   the runs of schedules
 *
 * An instant is decided with what is true in the commit that decides it. Where it makes a run, that
 * commit has the run, queued, with the copy of its pipeline, the row of the instant, and the
 * schedule's `seen`. So a host that is killed before it decides again from the same rows, and
 * behind it none decides twice. What follows from the commit (a run of before is cancelled, another
 * makes room) follows from its rows at any time: see admit/admission.c.
 */
#ifndef FR_TIMETABLE_SCHEDULES_H
#define FR_TIMETABLE_SCHEDULES_H

#include "engine/base/heap.h"
#include "engine/timetable/folders.h"
#include "engine/runs/job.h"
#include "engine/runs/state.h"
#include "engine/timetable/pause.h"
#include "engine/timetable/timetable.h"
#include "engine/store/fires.h"

struct host_fire;

struct host_again { /* when rerun.c and backfill.c look next, in mono_ms; INT64_MAX: never */
    int64_t rerun_due_ms, backfill_due_ms;
};

struct host_schedule {
    struct host_file *file;
    struct fr_schedule_row row;   /* owns its texts, but source */
    const struct fr_schedule *s;  /* of the file's spec; NULL: no served file has it */
    const struct fr_timetable *t; /* likewise */
    int64_t delay_ms;             /* jitter */
    bool stored;                  /* the store has its row … */
    bool dirty;                   /* … which is to be written: nothing is decided before */
    uint32_t turn;                /* raised when s, t or row changed otherwise than by a decision */
    uint32_t place, stamp;        /* in list; of its entry among those that are due */
    int64_t due_wall;             /* INT64_MAX: never */
    int64_t retry_ms, backoff_ms; /* a decision failed: no other before, in mono_ms */
    struct host_fire *fire;       /* owns: an instant whose run is being made; NULL */
    bool ended;                   /* a run of it: has it failed too often? */
    bool other_rule;              /* decisions ahead of now went by another one than t's */
};

struct host_file {
    const char *path; /* owns */
    struct fr_folder_mark mark;
    const char *name;            /* owns: of its pipeline when it could last be used; NULL: none */
    struct fr_spec *spec;        /* owns: what it said when it could last be used; NULL: nothing */
    struct fr_timetable *tables; /* owns: one a schedule of spec */
    const char *error;           /* owns: why the file of now cannot be used; NULL: it can */
    int64_t error_wall;          /* since then */
    const char *text;            /* owns: of the store's row, until spec has one; NULL */
    bool dirty;                  /* its row is to be written */
    bool found;                  /* by the look that is taken in */
    struct host_schedule **own;  /* owns: those that it has or had, by name */
    size_t n, cap;
};

struct host_schedules {
    struct fr_host *host;
    const char **folders; /* owns */
    size_t n_folders;
    struct host_file **files; /* owns; by path */
    size_t n_files, cap_files;
    struct host_schedule **list; /* of all files, in the order in which they came */
    size_t n, cap;
    bool dirty;             /* some rows are to be written */
    struct fr_heap due;     /* by due_wall; id: place in list */
    struct host_look *look; /* under way; NULL … */
    bool taking;            /* … or over, and not all of its files are taken in */
    int64_t look_ms;        /* the next one, in mono_ms */
    bool looked;            /* one was taken in */
    bool unread;            /* a folder could not be looked into; said once */
    bool ready;             /* what was due at the start is decided, or under way */
    bool more;              /* is due than one turn decides */
    bool ended;             /* a run of a schedule, which is to be looked at */
    bool unarmed;           /* when some are due is not known: all are armed again */
    size_t to_arm;          /* of these, so many from the beginning of the list are left */
    struct fr_err err;      /* no memory for what a look found: final */
    int dir_fd, clock_fd;   /* -1: the system says nothing */
    struct fr_watch *dir_watch, *clock_watch;
    int64_t wall_ms, mono_ms; /* of the last turn: a step of the clock shows between two */
    uint64_t clock_steps;
    int64_t write_ms, backoff_ms; /* rows could not be written: the next try, in mono_ms */
    bool back;                    /* the clock was set back, and the rows do not know it yet … */
    size_t back_at;               /* … from there on in the list */
    int64_t prune_ms;
    size_t prune_at;
    size_t making; /* runs */
};

/* ---- schedules.c ---- */

enum {
    FR_KEEP_STEP_MS = 3600000,
    FR_KEEP_WAIT_MS = 86400000
}; /* nothing goes by age behind a
       step of the clock */
/* What is due now. An error is final. */
enum fr_rc schedules_turn(struct fr_host *host, struct fr_err *err);
int64_t schedules_due(const struct fr_host *host); /* of the next turn, in mono_ms */
void schedules_ended(struct fr_host *host,
                     const struct fr_run_row *run); /* perhaps one of theirs */
/* The zone of schedules that name none may be another one now. */
void schedules_configured(struct fr_host *host);
/* This turn has had its time, and so many were done: what is left is for the next one. */
bool schedules_spent(const struct host_schedules *all, size_t done);
void schedules_look_soon(struct host_schedules *all, int64_t in_ms);
uint64_t schedules_clock_steps(const struct fr_host *host); /* that were noticed */
/* FR_BUSY: it is so already. */
enum fr_rc schedules_pause(struct host_schedules *all, struct host_schedule *s,
                           const struct fr_pause *how, struct fr_err *err);
struct host_schedule *schedules_find(const struct fr_host *host, int64_t id); /* NULL: none */
/* The file of the pipeline of that name in the folders; NULL: none has it. */
const char *schedules_file_of(const struct fr_host *host, const char *name);
/* [[name, file], …] of all of them, by path. NULL: no memory. */
json_t *schedules_pipelines(const struct fr_host *host);
/* When it has to be asked again: from its rule and rows. */
void schedules_rearm(struct host_schedules *all, struct host_schedule *s);
/* Its decision failed: it is asked again later, and later each time. */
void schedules_retry(struct host_schedules *all, struct host_schedule *s);

/* ---- folder_scan.c ---- */

enum fr_rc folder_scan_begin(struct host_schedules *all, struct fr_err *err);
void folder_scan_take(struct host_schedules *all); /* some files of the look that is over */
void folder_scan_end(struct host_schedules *all);  /* of what is under way, nothing is taken in */

/* ---- schedule_store.c ---- */

bool schedules_text(const char **slot, const char *text); /* false: no memory */
struct host_file *schedules_file(struct host_schedules *all, const char *path); /* found or added */
/* Adds a schedule to its file, with the texts of row but source. NULL: no memory. */
struct host_schedule *schedules_add(struct host_schedules *all, struct host_file *file,
                                    const struct fr_schedule_row *row);
void schedules_free(struct host_schedule *s);
void schedules_free_file(struct host_file *file); /* and its schedules */
enum fr_rc schedules_load(struct host_schedules *all, struct fr_err *err);
/* Writes rows that changed, in one commit those of several files: all, unless the turn is spent. */
enum fr_rc schedules_write(struct host_schedules *all, struct fr_err *err);
/* Some of the instants that are too old go. */
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
    struct host_fire *fire;               /* whose run it is; NULL */
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
    struct fr_fire_row newest; /* for the log */
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
extern const struct make_for of_fire;             /* of a struct host_fire */
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
