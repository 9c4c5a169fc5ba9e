#include "engine/store/backfills.h"

#include "engine/base/sys.h"
#include "engine/store/sql.h"

FR_SQL_ADD(fr_store_backfill_add, backfill, SQL_BACKFILL_ADD)
FR_SQL_PUT(fr_store_backfill_set, backfill, SQL_BACKFILL_SET)

enum fr_rc fr_store_backfills(struct fr_store *st, bool active, struct fr_arena *arena,
                              struct fr_backfill_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, active ? SQL_BACKFILL_OPEN : SQL_BACKFILL_LIST,
                       FR_SQL_INTO(backfill, arena, out), err, "");
}

enum fr_rc fr_store_backfill_find(struct fr_store *st, int64_t id, struct fr_arena *arena,
                                  struct fr_backfill_row *out, struct fr_err *err)
{
    struct fr_backfill_rows rows;
    enum fr_rc rc =
        fr_sql_list(st, SQL_BACKFILL_GET, FR_SQL_INTO(backfill, arena, &rows), err, "i", id);

    if (rc == FR_OK && rows.n == 0)
        return fr_fail(err, FR_NOTFOUND, "there is no backfill %lld; 'flowrun backfills' lists all",
                       (long long)id);
    if (rc == FR_OK)
        *out = rows.rows[0];
    return rc;
}

enum fr_rc fr_store_backfill_live(struct fr_store *st, int64_t id, int64_t *n, struct fr_err *err)
{
    return fr_sql_number(st, SQL_BACKFILL_LIVE, n, err, "i", id);
}

enum fr_rc fr_store_instant(struct fr_store *st, int64_t schedule, int64_t at_ms,
                            struct fr_arena *arena, struct fr_instant *out, struct fr_err *err)
{
    static const enum fr_sql ways[] = {SQL_INSTANT_RUN, SQL_INSTANT_OCCURRENCE};
    enum fr_rc rc = FR_OK;

    *out = (struct fr_instant){0};
    for (size_t i = 0; rc == FR_OK && out->run == 0 && i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct {
            struct fr_instant *rows;
            size_t n;
        } found;

        rc = fr_sql_list(st, ways[i], FR_SQL_INTO(instant, arena, &found), err, "ii", schedule,
                         at_ms);
        if (rc == FR_OK && found.n > 0)
            *out = found.rows[0];
    }
    return rc;
}

enum fr_rc fr_store_instant_fill(struct fr_store *st, int64_t schedule, int64_t at_ms, int64_t run,
                                 struct fr_err *err)
{
    return fr_sql_run(st, SQL_OCCURRENCE_FILL, err, "iiii", schedule, at_ms, run, fr_sys.wall_ms());
}
