/* Lists of runs, pipelines and instances for views. */
#ifndef FR_STORE_LISTS_H
#define FR_STORE_LISTS_H

#include "engine/store/store.h"

struct fr_run_filter { /* "" and 0: any */
    int64_t before;    /* numbers below it */
    const char *pipeline;
    const char *state; /* of a run that is over its outcome counts; "live": not over */
    const char *origin;
    int64_t schedule;
    int64_t since_wall, until_wall; /* begun, or queued, then: since <= t < until */
    const char *text;               /* in its pipeline or reason, in any case; or its number */
    size_t limit;
    struct fr_run_order {
        enum fr_run_sort {
            FR_SORT_NEWEST, /* by number */
            FR_SORT_OLDEST,
            FR_SORT_LONGEST,  /* from start to end; one that is not over: to now_wall */
            FR_SORT_SHORTEST, /* both leave out runs that never started */
            FR_SORT_ENDED     /* the latest end first; only runs that are over */
        } by;
        int64_t now_wall;
        int64_t key,
            no; /* of the last one that was seen, as fr_run_key() says; no 0: from the first */
    } order;
};

/* The sort key of a run: ascending, of equal keys the newer run first. */
int64_t fr_run_key(const struct fr_run_order *order, const struct fr_run_row *row);

/* In their order. */
enum fr_rc fr_store_runs_where(struct fr_store *st, const struct fr_run_filter *f,
                               struct fr_arena *arena, struct fr_run_rows *out, struct fr_err *err);
/* How many runs fit, whatever limit and before are; at most FR_COUNT_MOST. */
enum { FR_COUNT_MOST = 10000 };
enum fr_rc fr_store_runs_count(struct fr_store *st, const struct fr_run_filter *f, int64_t *n,
                               struct fr_err *err);
/* The newest run of each pipeline, by its name. */
enum fr_rc fr_store_runs_newest(struct fr_store *st, struct fr_arena *arena,
                                struct fr_run_rows *out, struct fr_err *err);

#define FR_SUCCESS_COLUMNS(C, S, R)                                                                \
    C(R, TEXT, name, NULL)      /* of a pipeline */                                                \
    C(R, INT, ended_wall, NULL) /* of its newest run that succeeded; 0: none did */

FR_ROWS(fr_success, FR_SUCCESS_COLUMNS); /* by name */
enum fr_rc fr_store_successes(struct fr_store *st, size_t limit, struct fr_arena *arena,
                              struct fr_success_rows *out, struct fr_err *err);
/* The median duration of the successful ones among a pipeline's last n runs; 0: none succeeded. */
enum fr_rc fr_store_run_median(struct fr_store *st, const char *pipeline, int64_t n,
                               int64_t *median_ms, struct fr_err *err);

struct fr_count_row { /* instances of a task in a state */
    const char *task, *hook;
    enum fr_state_of state;
    int64_t n;
};
struct fr_count_rows {
    struct fr_count_row *rows; /* task by task, in the plan's order */
    size_t n;
};
enum fr_rc fr_store_counts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                           struct fr_count_rows *out, struct fr_err *err);

/* Those of a task, on a node, in a state; "" or NULL: of any. */
struct fr_inst_filter {
    struct fr_id run;
    const char *task, *node, *state;
};
enum fr_rc fr_store_insts_of(struct fr_store *st, const struct fr_inst_filter *of,
                             struct fr_arena *arena, struct fr_inst_rows *out, struct fr_err *err);
/* The attempts of one instance. */
enum fr_rc fr_store_attempts_of(struct fr_store *st, const struct fr_inst_of *of,
                                struct fr_arena *arena, struct fr_attempt_rows *out,
                                struct fr_err *err);
/* Fills in the rest of the row with the id row->id. FR_NOTFOUND: the run has no such attempt. */
enum fr_rc fr_store_attempt_find(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                 struct fr_attempt_row *row, struct fr_err *err);

#endif
