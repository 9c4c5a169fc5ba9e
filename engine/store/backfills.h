/*
 * Backfills in the store: runs for past instants of a schedule. A run is added in the commit that
 * moves the cursor to its instant, so no instant is run twice or skipped.
 */
#ifndef FR_STORE_BACKFILLS_H
#define FR_STORE_BACKFILLS_H

#include "engine/store/store.h"

#define FR_BACKFILL_COLUMNS(C, S, R)                                                               \
    C(R, INT, id, "id")             /* set by fr_store_backfill_add */                             \
    C(R, INT, schedule, "schedule") /* fr_schedule_row.id */                                       \
    C(R, INT, from_ms, "from_ms")   /* from <= instant < to */                                     \
    C(R, INT, to_ms, "to_ms")                                                                      \
    C(R, ORDER, newest, "order") /* 1: the newest first */                                         \
    C(R, EXISTING, existing, "existing")                                                           \
    C(R, INT, max_active, "max_active")                                                            \
    C(R, INT, priority, "priority")                                                                \
    S(R, BACKFILL_STATE, state, "state")                                                           \
    S(R, TEXT, note, "note") /* paused: why */                                                     \
    C(R, INT, total, "total")                                                                      \
    S(R, INT, made, "made")                                                                        \
    S(R, INT, kept, "kept")                                                                        \
    C(R, INT, made_wall, "made_wall")                                                              \
    C(R, TEXT, params, NULL)   /* JSON: ["name=value"], perhaps after true (fr_given_rules) */     \
    S(R, INT, cursor_ms, NULL) /* the instant decided last; at first from - 1, or to */
FR_ROWS(fr_backfill, FR_BACKFILL_COLUMNS);

enum fr_rc fr_store_backfill_add(struct fr_store *st, struct fr_backfill_row *row,
                                 struct fr_err *err);
enum fr_rc fr_store_backfill_set(struct fr_store *st, const struct fr_backfill_row *row,
                                 struct fr_err *err);
/* All backfills, newest first; or the active ones, oldest first. */
enum fr_rc fr_store_backfills(struct fr_store *st, bool active, struct fr_arena *arena,
                              struct fr_backfill_rows *out, struct fr_err *err);
/* FR_NOTFOUND. */
enum fr_rc fr_store_backfill_find(struct fr_store *st, int64_t id, struct fr_arena *arena,
                                  struct fr_backfill_row *out, struct fr_err *err);
/* How many of its runs are live or have an automatic rerun due. */
enum fr_rc fr_store_backfill_live(struct fr_store *st, int64_t id, int64_t *n, struct fr_err *err);

/* The result of an instant, also after its run was removed. */
#define FR_INSTANT_COLUMNS(C, S, R)                                                                \
    C(R, INT, run, NULL)              /* number; 0: none */                                        \
    C(R, OUTCOME_OR_LIVE, word, NULL) /* NONE: no run */
FR_ROW(fr_instant, FR_INSTANT_COLUMNS);
enum fr_rc fr_store_instant(struct fr_store *st, int64_t schedule, int64_t at_ms,
                            struct fr_arena *arena, struct fr_instant *out, struct fr_err *err);
/* Adds a row of the instant for that run, unless it has one. */
enum fr_rc fr_store_instant_fill(struct fr_store *st, int64_t schedule, int64_t at_ms, int64_t run,
                                 struct fr_err *err);

#endif
