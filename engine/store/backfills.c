#include "engine/store/backfills.h"

#include "engine/base/sys.h"
#include "engine/store/sql.h"

static const struct fr_sql_row backfills = {"iiiittiittiiiiii", sizeof(struct fr_backfill_row),
                                            SQL_COUNT, 0};
static const struct fr_sql_row instants = {"it", sizeof(struct fr_instant), SQL_COUNT, 0};

enum fr_rc fr_store_backfill_add(struct fr_store *st, struct fr_backfill_row *row,
                                 struct fr_err *err)
{
    enum fr_rc rc =
        fr_sql_run(st, SQL_BACKFILL_ADD, err, "iiiittiitiii", row->schedule, row->from_ms,
                   row->to_ms, row->newest, row->existing, row->params, row->max_active,
                   row->priority, row->state, row->cursor_ms, row->total, row->made_wall);

    if (rc == FR_OK)
        row->id = sqlite3_last_insert_rowid(st->db);
    return rc;
}

enum fr_rc fr_store_backfill_set(struct fr_store *st, const struct fr_backfill_row *row,
                                 struct fr_err *err)
{
    return fr_sql_run(st, SQL_BACKFILL_SET, err, "ttiiii", row->state, row->note, row->cursor_ms,
                      row->made, row->kept, row->id);
}

enum fr_rc fr_store_backfills(struct fr_store *st, bool active, struct fr_arena *arena,
                              struct fr_backfill_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&backfills, arena, NULL, 0};
    enum fr_sql q = active ? SQL_BACKFILL_OPEN : SQL_BACKFILL_LIST;
    enum fr_rc rc = fr_sql_query(st, q, err, "");

    if (rc == FR_OK)
        rc = fr_sql_rows(st, q, &rows, err);
    *out = (struct fr_backfill_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_backfill_find(struct fr_store *st, int64_t id, struct fr_arena *arena,
                                  struct fr_backfill_row *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&backfills, arena, NULL, 0};
    enum fr_rc rc = fr_sql_query(st, SQL_BACKFILL_GET, err, "i", id);

    if (rc == FR_OK)
        rc = fr_sql_rows(st, SQL_BACKFILL_GET, &rows, err);
    if (rc == FR_OK && rows.n == 0)
        return fr_fail(err, FR_NOTFOUND, "there is no backfill %lld; 'flowrun backfills' lists all",
                       (long long)id);
    if (rc == FR_OK)
        *out = *(struct fr_backfill_row *)rows.v;
    return rc;
}

enum fr_rc fr_store_backfill_live(struct fr_store *st, int64_t id, int64_t *n, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_BACKFILL_LIVE, err, "i", id);

    *n = 0;
    if (rc == FR_OK && fr_sql_next(st, SQL_BACKFILL_LIVE, &rc, err))
        *n = fr_sql_int(st, SQL_BACKFILL_LIVE, 0);
    fr_sql_end(st, SQL_BACKFILL_LIVE);
    return rc;
}

enum fr_rc fr_store_instant(struct fr_store *st, int64_t schedule, int64_t at_ms,
                            struct fr_arena *arena, struct fr_instant *out, struct fr_err *err)
{
    static const enum fr_sql ways[] = {SQL_INSTANT_RUN, SQL_INSTANT_FIRE};
    enum fr_rc rc = FR_OK;

    *out = (struct fr_instant){.word = ""};
    for (size_t i = 0; rc == FR_OK && out->run == 0 && i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct fr_sql_rows rows = {&instants, arena, NULL, 0};

        rc = fr_sql_query(st, ways[i], err, "ii", schedule, at_ms);
        if (rc == FR_OK)
            rc = fr_sql_rows(st, ways[i], &rows, err);
        if (rc == FR_OK && rows.n > 0)
            *out = *(struct fr_instant *)rows.v;
    }
    return rc;
}

enum fr_rc fr_store_instant_fill(struct fr_store *st, int64_t schedule, int64_t at_ms, int64_t run,
                                 struct fr_err *err)
{
    return fr_sql_run(st, SQL_FIRE_FILL, err, "iiii", schedule, at_ms, run, fr_sys.wall_ms());
}
