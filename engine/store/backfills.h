/*
 * Backfills in the store: runs for instants of a schedule that are past. A run of one is added in
 * the commit that moves its cursor to the run's instant, so none is made twice and none is left
 * out.
 */
#ifndef FR_STORE_BACKFILLS_H
#define FR_STORE_BACKFILLS_H

#include "engine/store/store.h"

struct fr_backfill_row {
    int64_t schedule;       /* fr_schedule_row.id */
    int64_t from_ms, to_ms; /* from <= instant < to */
    int64_t newest;         /* 1: the newest first */
    const char *existing;   /* skip, failed, all */
    const char *params;     /* JSON: ["name=value"]; in front true: by whom that may not name every
                             * file */
    int64_t max_active, priority;
    const char *state; /* active, paused, over, cancelled */
    const char *note;  /* paused: why */
    int64_t cursor_ms; /* the instant decided last; at first from - 1, or to */
    int64_t total, made, kept;
    int64_t made_wall;
    int64_t id; /* set by fr_store_backfill_add */
};

struct fr_backfill_rows {
    struct fr_backfill_row *rows;
    size_t n;
};

enum fr_rc fr_store_backfill_add(struct fr_store *st, struct fr_backfill_row *row,
                                 struct fr_err *err);
/* Writes state, note, cursor, made and kept of row->id. */
enum fr_rc fr_store_backfill_set(struct fr_store *st, const struct fr_backfill_row *row,
                                 struct fr_err *err);
/* All, the newest first; or the active ones, the oldest first. */
enum fr_rc fr_store_backfills(struct fr_store *st, bool active, struct fr_arena *arena,
                              struct fr_backfill_rows *out, struct fr_err *err);
/* FR_NOTFOUND. */
enum fr_rc fr_store_backfill_find(struct fr_store *st, int64_t id, struct fr_arena *arena,
                                  struct fr_backfill_row *out, struct fr_err *err);
/* How many of its runs are live, or run again by themselves. */
enum fr_rc fr_store_backfill_live(struct fr_store *st, int64_t id, int64_t *n, struct fr_err *err);

/* What there is of an instant, also behind the removal of its run. */
struct fr_instant {
    int64_t run;      /* number; 0: none */
    const char *word; /* live, succeeded, failed, cancelled; "": no run */
};
enum fr_rc fr_store_instant(struct fr_store *st, int64_t schedule, int64_t at_ms,
                            struct fr_arena *arena, struct fr_instant *out, struct fr_err *err);
/* A row of the instant for that run, unless it has one. */
enum fr_rc fr_store_instant_fill(struct fr_store *st, int64_t schedule, int64_t at_ms, int64_t run,
                                 struct fr_err *err);

#endif
