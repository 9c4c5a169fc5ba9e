/* Runs and their stories. */
#include "engine/store/sql.h"
#include "engine/store/told.h"

#include "engine/base/sys.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

enum fr_rc fr_store_run_add(struct fr_store *st, struct fr_run_row *row, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_put(st, SQL_RUN_ADD, &fr_run_type, row, NULL, err);

    return rc == FR_OK ? fr_sql_number(st, SQL_RUN_NO, &row->no, err, "d", row->id) : rc;
}

FR_SQL_PUT(fr_store_run_set, run, SQL_RUN_SET)

enum fr_rc fr_store_run_priority(struct fr_store *st, struct fr_id run, int64_t priority,
                                 struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_RUN_PRIORITY, err, "id", priority, run);

    if (rc == FR_OK && sqlite3_changes(st->db) == 0)
        return fr_fail(err, FR_BUSY, "the run does not wait in the queue");
    return rc;
}

enum fr_rc fr_store_run_host(struct fr_store *st, struct fr_id run, int64_t host,
                             struct fr_err *err)
{
    return fr_sql_run(st, SQL_RUN_HOST, err, "id", host, run);
}

enum fr_rc fr_store_run_spec(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                             struct fr_run_plan *out, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_RUN_SPEC, err, "d", run);

    *out = (struct fr_run_plan){0};
    if (rc == FR_OK && fr_sql_next(st, SQL_RUN_SPEC, &rc, err)) {
        out->hash = fr_sql_text(st, SQL_RUN_SPEC, 0, arena);
        out->lists = fr_sql_int(st, SQL_RUN_SPEC, 1);
        fr_sql_end(st, SQL_RUN_SPEC);
        return out->hash != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a run");
    }
    return rc == FR_OK ? fr_fail(err, FR_NOTFOUND, "the run has been removed") : rc;
}

enum fr_rc fr_store_runs(struct fr_store *st, size_t limit, struct fr_arena *arena,
                         struct fr_run_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_RUN_LIST, FR_SQL_INTO(run, arena, out), err, "i",
                       limit == 0 ? (int64_t)-1 : (int64_t)limit);
}

FR_SQL_LIST(fr_store_runs_open, run, SQL_RUN_OPEN)
FR_SQL_LIST(fr_store_runs_live, run, SQL_RUN_LIVE)
FR_SQL_LIST(fr_store_reruns, run, SQL_RERUNS)

enum fr_rc fr_store_rerun_drop(struct fr_store *st, struct fr_id run, const char *why,
                               struct fr_err *err)
{
    struct fr_event_row ev = {.wall = fr_sys.wall_ms(), .idx = -1, .kind = "rerun", .text = why};
    enum fr_rc rc = fr_sql_run(st, SQL_RERUN_DROP, err, "d", run);

    return rc == FR_OK ? fr_store_event_add(st, run, &ev, err) : rc;
}

enum fr_rc fr_store_round_began(struct fr_store *st, struct fr_id run, int64_t *wall_ms,
                                struct fr_err *err)
{
    int64_t found;
    enum fr_rc rc = fr_sql_number(st, SQL_ROUND_BEGAN, &found, err, "d", run);

    if (found != 0)
        *wall_ms = found;
    return rc;
}

/* The first and the last id that begin with these digits. */
static void id_range(const char *digits, struct fr_id *from, struct fr_id *to)
{
    *from = (struct fr_id){{0}};
    memset(to, 0xff, sizeof(*to));
    for (size_t i = 0; digits[i] != '\0'; i++) {
        int c = tolower((unsigned char)digits[i]);
        unsigned v = (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10), shift = i % 2 == 0 ? 4 : 0;

        from->b[i / 2] |= (uint8_t)(v << shift);
        to->b[i / 2] &= (uint8_t)(v << shift | 0xfu << (4 - shift));
    }
}

/* Rows that text names: by number first ("12"), else by a beginning of the id. */
static enum fr_rc matches(struct fr_store *st, const char *text, struct fr_arena *arena,
                          struct fr_run_rows *rows, struct fr_err *err)
{
    struct fr_id from, to;
    size_t n = strlen(text);
    int64_t no;
    enum fr_rc rc;

    *rows = (struct fr_run_rows){0};
    if (fr_parse_i64(fr_str_of(text), &no, NULL) == FR_OK) {
        rc = fr_sql_list(st, SQL_RUN_BY_NO, FR_SQL_INTO(run, arena, rows), err, "i", no);
        if (rc != FR_OK || rows->n > 0)
            return rc;
    }
    if (n < 4 || n >= FR_ID_TEXT || strspn(text, "0123456789abcdefABCDEF") != n)
        return FR_OK;
    id_range(text, &from, &to);
    return fr_sql_list(st, SQL_RUN_BY_ID, FR_SQL_INTO(run, arena, rows), err, "dd", from, to);
}

/* FR_NOTFOUND: it was there. */
static enum fr_rc was_removed(struct fr_store *st, int64_t no, struct fr_arena *arena,
                              struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_AUDIT_OF, err, "i", no);

    if (rc == FR_OK && fr_sql_next(st, SQL_AUDIT_OF, &rc, err)) {
        const char *name = fr_sql_text(st, SQL_AUDIT_OF, 1, arena);
        const char *outcome = fr_sql_text(st, SQL_AUDIT_OF, 2, arena);
        time_t s = (time_t)(fr_sql_int(st, SQL_AUDIT_OF, 0) / 1000);
        char date[32] = "";
        struct tm tm;

        if (localtime_r(&s, &tm) != NULL)
            strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
        rc = fr_fail(err, FR_NOTFOUND,
                     "there is no run '%lld' any more: of %s, it %s; it was removed at %s",
                     (long long)no, name != NULL ? name : "", outcome != NULL ? outcome : "", date);
    }
    fr_sql_end(st, SQL_AUDIT_OF);
    return rc;
}

/* text names no run. */
static enum fr_rc no_run(struct fr_store *st, const char *text, struct fr_arena *arena,
                         struct fr_err *err)
{
    struct fr_run_rows newest;
    int64_t no = 0;
    enum fr_rc rc = fr_store_runs(st, 1, arena, &newest, err);

    if (rc != FR_OK)
        return rc;
    if (newest.n == 0)
        return fr_fail(err, FR_NOTFOUND, "there are no runs in %s", st->home);
    if (fr_parse_i64(fr_str_of(text), &no, NULL) == FR_OK &&
        (rc = was_removed(st, no, arena, err)) != FR_OK)
        return rc;
    return fr_fail(err, FR_NOTFOUND,
                   "there is no run '%s'; the newest is %lld ('flowrun runs' "
                   "lists all)",
                   text, (long long)newest.rows[0].no);
}

enum fr_rc fr_store_run_find(struct fr_store *st, const char *text, struct fr_arena *arena,
                             struct fr_run_row *out, struct fr_err *err)
{
    struct fr_run_rows rows;
    enum fr_rc rc = text != NULL ? matches(st, text, arena, &rows, err)
                                 : fr_store_runs(st, 1, arena, &rows, err);

    if (rc != FR_OK)
        return rc;
    if (rows.n == 0)
        return no_run(st, text, arena, err);
    if (rows.n > 1)
        return fr_fail(err, FR_USAGE, "'%s' fits %zu runs: give more digits or the run's number",
                       text, rows.n);
    *out = rows.rows[0];
    return FR_OK;
}

FR_SQL_PUT_OF_RUN(fr_store_event_add, event, SQL_EVENT_ADD)

enum fr_rc fr_store_events(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                           struct fr_event_rows *out, struct fr_err *err)
{
    enum fr_rc rc =
        fr_sql_list(st, SQL_EVENT_LIST, FR_SQL_INTO(event, arena, out), err, "di", run, out->after);

    if (out->n > 0)
        out->after = out->rows[out->n - 1].seq;
    return rc;
}

enum fr_rc fr_store_event_move(struct fr_store *st, struct fr_id run,
                               const struct fr_event_row *row, struct fr_err *err)
{
    return fr_sql_run(st, SQL_EVENT_MOVE, err, "idi", row->idx, run, row->seq);
}

enum fr_rc fr_store_events_told(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_event_rows *out, struct fr_err *err)
{
    out->after = 0;
    return fr_sql_list(st, SQL_EVENT_TOLD, FR_SQL_INTO(event, arena, out), err, "d", run);
}

enum fr_rc fr_store_event_last(struct fr_store *st, struct fr_id run, int64_t *seq,
                               struct fr_err *err)
{
    return fr_sql_number(st, SQL_EVENT_LAST, seq, err, "d", run);
}
