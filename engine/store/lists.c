#include "engine/store/lists.h"

#include "engine/store/sql.h"

#include <string.h>

/* Which of the four statements from `first` on reads the fewest rows: most runs succeed. */
static enum fr_sql by_filter(enum fr_sql first, const struct fr_run_filter *f)
{
    if (strcmp(f->state, "live") == 0)
        return first + 2;
    if (f->state[0] != '\0' && (f->pipeline[0] == '\0' || strcmp(f->state, "succeeded") != 0))
        return first + 1;
    return f->pipeline[0] != '\0' ? first + 3 : first;
}

static enum fr_rc query(struct fr_store *st, enum fr_sql which, const struct fr_run_filter *f,
                        int64_t limit, struct fr_err *err)
{
    return fr_sql_query(st, which, err, "itttiiiti", f->before, f->pipeline, f->state, f->origin,
                        f->schedule, f->since_wall, f->until_wall, f->text, limit);
}

int64_t fr_run_key(const struct fr_run_order *order, const struct fr_run_row *row)
{
    bool over = row->state == FR_RUN_OVER;
    int64_t ms = (over ? row->ended_wall : order->now_wall) - row->started_wall;

    switch (order->by) {
    case FR_SORT_OLDEST:
        return row->no;
    case FR_SORT_LONGEST:
        return -ms;
    case FR_SORT_SHORTEST:
        return ms;
    case FR_SORT_ENDED:
        return -row->ended_wall;
    default:
        return -row->no;
    }
}

static enum fr_rc query_sorted(struct fr_store *st, const struct fr_run_filter *f,
                               struct fr_err *err)
{
    const struct fr_run_order *o = &f->order;

    return fr_sql_query(st, SQL_RUN_SORTED, err, "itttiiitiiiii", f->before, f->pipeline, f->state,
                        f->origin, f->schedule, f->since_wall, f->until_wall, f->text,
                        (int64_t)f->limit, (int64_t)o->by, o->now_wall, o->key, o->no);
}

enum fr_rc fr_store_runs_where(struct fr_store *st, const struct fr_run_filter *f,
                               struct fr_arena *arena, struct fr_run_rows *out, struct fr_err *err)
{
    bool sorted = f->order.by != FR_SORT_NEWEST;
    enum fr_sql which = sorted ? SQL_RUN_SORTED : by_filter(SQL_RUN_WHERE, f);
    enum fr_rc rc = sorted ? query_sorted(st, f, err) : query(st, which, f, (int64_t)f->limit, err);

    return fr_sql_rows(st, which, rc, FR_SQL_INTO(run, arena, out), err);
}

enum fr_rc fr_store_runs_count(struct fr_store *st, const struct fr_run_filter *f, int64_t *n,
                               struct fr_err *err)
{
    struct fr_run_filter all = *f;
    enum fr_sql which = by_filter(SQL_RUN_COUNT, f);
    enum fr_rc rc;

    all.before = INT64_MAX;
    rc = query(st, which, &all, FR_COUNT_MOST, err);
    *n = 0;
    if (rc == FR_OK && fr_sql_next(st, which, &rc, err))
        *n = fr_sql_int(st, which, 0);
    fr_sql_end(st, which);
    return rc;
}

FR_SQL_LIST(fr_store_runs_newest, run, SQL_RUN_NEWEST)

enum fr_rc fr_store_successes(struct fr_store *st, size_t limit, struct fr_arena *arena,
                              struct fr_success_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_RUN_SUCCESSES, FR_SQL_INTO(success, arena, out), err, "i",
                       (int64_t)limit);
}

enum fr_rc fr_store_run_median(struct fr_store *st, const char *pipeline, int64_t n,
                               int64_t *median_ms, struct fr_err *err)
{
    return fr_sql_number(st, SQL_RUN_MEDIAN, median_ms, err, "ti", pipeline, n);
}

/* The row of that state among those of the newest task; NULL: there is none yet. */
static struct fr_count_row *find_count(const struct fr_count_rows *rows, const char *task,
                                       int state)
{
    for (size_t i = rows->n; i-- > 0 && strcmp(rows->rows[i].task, task) == 0;)
        if ((int)rows->rows[i].state == state)
            return &rows->rows[i];
    return NULL;
}

static enum fr_rc add_count(struct fr_count_rows *rows, struct fr_store *st, int state,
                            struct fr_arena *arena, struct fr_err *err)
{
    struct fr_count_row *grown = fr_arena_grow(arena, rows->rows, rows->n, sizeof(*grown));
    struct fr_count_row row = {fr_sql_text(st, SQL_INST_STATES, 0, arena),
                               fr_sql_text(st, SQL_INST_STATES, 2, arena), (enum fr_state_of)state,
                               1};

    if (grown == NULL || row.task == NULL || row.hook == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the counts of a run");
    rows->rows = grown;
    rows->rows[rows->n++] = row;
    return FR_OK;
}

/* Instances of a task follow each other: so nothing is sorted. */
enum fr_rc fr_store_counts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                           struct fr_count_rows *out, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_INST_STATES, err, "d", run);

    *out = (struct fr_count_rows){0};
    while (rc == FR_OK && fr_sql_next(st, SQL_INST_STATES, &rc, err)) {
        struct fr_count_row *row;
        int state;

        rc = fr_sql_word(st, SQL_INST_STATES, 1, &fr_inst_type, &state, err);
        row = rc == FR_OK ? find_count(out, fr_sql_here(st, SQL_INST_STATES, 0), state) : NULL;
        if (row != NULL)
            row->n++;
        else if (rc == FR_OK)
            rc = add_count(out, st, state, arena, err);
    }
    fr_sql_end(st, SQL_INST_STATES);
    return rc;
}
