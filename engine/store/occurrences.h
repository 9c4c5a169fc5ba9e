/*
 * Schedules in the store: their state, and the decision on each instant.
 *
 * Exactly once: a run of a schedule is added in the same commit as the row of its instant, and a
 * second row of an instant is refused. The run's outcome enters this row in the commit that sets it
 * in the run's row, and stays when the run is removed.
 */
#ifndef FR_STORE_OCCURRENCES_H
#define FR_STORE_OCCURRENCES_H

#include "engine/store/store.h"

#define FR_SCHEDULE_COLUMNS(C, S, R)                                                               \
    C(R, INT, id, "id")              /* set by fr_store_schedule_add */                            \
    S(R, TEXT, pipeline, "pipeline") /* the pipeline's name */                                     \
    C(R, TEXT, name, "name")         /* in that file */                                            \
    C(R, TEXT, source, "file")       /* absolute path of its pipeline file */                      \
    S(R, TEXT, rule, "rule")         /* in words */                                                \
    S(R, SCHEDULE_STATE, state, "state")                                                           \
    S(R, INT, state_wall, "state_wall") /* since then */                                           \
    S(R, TEXT, note, "note")            /* why it is paused */                                     \
    S(R, INT, gone_wall, "gone_wall")   /* since when no served file has it; 0: one has */         \
    S(R, INT, seen_ms, "seen_ms")       /* every instant up to here is decided */                  \
    S(R, INT, since_ms, "since_ms")     /* first sight, resume, change of the rule */              \
    S(R, TEXT, fingerprint, NULL)       /* of rule and zone */

FR_ROWS(fr_schedule, FR_SCHEDULE_COLUMNS); /* by source and name */

/* Sets row->id to one that no run refers to, not even a run of a dropped schedule. */
enum fr_rc fr_store_schedule_add(struct fr_store *st, struct fr_schedule_row *row,
                                 struct fr_err *err);
enum fr_rc fr_store_schedule_set(struct fr_store *st, const struct fr_schedule_row *row,
                                 struct fr_err *err);
enum fr_rc fr_store_schedule_seen(struct fr_store *st, int64_t schedule, int64_t seen_ms,
                                  struct fr_err *err);
enum fr_rc fr_store_schedules(struct fr_store *st, struct fr_arena *arena,
                              struct fr_schedule_rows *out, struct fr_err *err);
/* Deletes the schedule and its instants. */
enum fr_rc fr_store_schedule_drop(struct fr_store *st, int64_t schedule, struct fr_err *err);

#define FR_OCCURRENCE_COLUMNS(C, S, R)                                                             \
    C(R, INT, at_ms, "at_ms") /* the instant, or the last of count since first_ms */               \
    C(R, INT, first_ms, "first_ms")                                                                \
    C(R, INT, count, "count")                                                                      \
    S(R, FATE, decision, "decision")                                                               \
    S(R, INT, run, "run")             /* number of the run that it made or was beside; 0: none */  \
    C(R, OUTCOME, outcome, "outcome") /* of the run that it made; only read */                     \
    C(R, INT, decided_wall, "decided_wall")                                                        \
    S(R, TEXT, note, "note")                                                                       \
    C(R, INT, schedule, NULL)
FR_ROWS(fr_occurrence, FR_OCCURRENCE_COLUMNS);

/* FR_BUSY: the instant has a row. */
enum fr_rc fr_store_occurrence_add(struct fr_store *st, const struct fr_occurrence_row *row,
                                   struct fr_err *err);
enum fr_rc fr_store_occurrence_set(struct fr_store *st, const struct fr_occurrence_row *row,
                                   struct fr_err *err);
enum fr_rc fr_store_occurrence_drop(struct fr_store *st, int64_t schedule, int64_t at_ms,
                                    struct fr_err *err);
/* Rows after an instant, in order. */
enum fr_rc fr_store_occurrences_after(struct fr_store *st, int64_t schedule, int64_t after_ms,
                                      struct fr_arena *arena, struct fr_occurrence_rows *out,
                                      struct fr_err *err);
/* Rows before an instant, newest first, at most limit. */
struct fr_occurrence_page {
    int64_t schedule, before_ms;
    size_t limit;
};
enum fr_rc fr_store_occurrences_before(struct fr_store *st, const struct fr_occurrence_page *page,
                                       struct fr_arena *arena, struct fr_occurrence_rows *out,
                                       struct fr_err *err);
/* The same, only rows whose run is over. */
enum fr_rc fr_store_occurrences_ended(struct fr_store *st, const struct fr_occurrence_page *page,
                                      struct fr_arena *arena, struct fr_occurrence_rows *out,
                                      struct fr_err *err);
/* The newest instant before before_ms whose run succeeded; 0: none. */
enum fr_rc fr_store_occurrence_succeeded(struct fr_store *st, int64_t schedule, int64_t before_ms,
                                         int64_t *at_ms, struct fr_err *err);
/* The run of the oldest instant after after_ms that succeeded; 0: none. */
enum fr_rc fr_store_occurrence_newer(struct fr_store *st, int64_t schedule, int64_t after_ms,
                                     int64_t *run, struct fr_err *err);
/* Removes at most limit rows before an instant; *n: how many. */
enum fr_rc fr_store_occurrences_prune(struct fr_store *st, const struct fr_occurrence_page *page,
                                      int64_t *n, struct fr_err *err);

#define FR_SCHEDULE_FILE_COLUMNS(C, S, R)                                                          \
    C(R, TEXT, path, NULL)                                                                         \
    C(R, TEXT, text, NULL)      /* the newest that could be used; "": none could */                \
    C(R, TEXT, error, NULL)     /* why the file of now cannot be; "": it can */                    \
    C(R, INT, error_wall, NULL) /* since then */
FR_ROWS(fr_schedule_file, FR_SCHEDULE_FILE_COLUMNS); /* by path */

/* Adds the row, or replaces the one of its path. */
enum fr_rc fr_store_schedule_file_put(struct fr_store *st, const struct fr_schedule_file_row *row,
                                      struct fr_err *err);
enum fr_rc fr_store_schedule_file_drop(struct fr_store *st, const char *path, struct fr_err *err);
enum fr_rc fr_store_schedule_files(struct fr_store *st, struct fr_arena *arena,
                                   struct fr_schedule_file_rows *out, struct fr_err *err);

#endif
