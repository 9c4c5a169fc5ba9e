#include "engine/store/unfetched.h"

#include "engine/store/sql.h"

static const struct fr_column columns[] = {FR_SQL_COLUMN(ID, fr_unfetched_row, run),
                                           FR_SQL_COLUMN(INT, fr_unfetched_row, no)};
static const struct fr_row_type runs = FR_SQL_TYPE(columns, fr_unfetched_row);

enum fr_rc fr_store_unfetched(struct fr_store *st, struct fr_arena *arena,
                              struct fr_unfetched_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&runs, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_RUN_UNFETCHED, &rows, err, "");

    *out = (struct fr_unfetched_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_lacks_output(struct fr_store *st, struct fr_id run, bool *yes,
                                 struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_LACKS_OUTPUT, err, "d", run);

    *yes = rc == FR_OK && fr_sql_next(st, SQL_LACKS_OUTPUT, &rc, err);
    fr_sql_end(st, SQL_LACKS_OUTPUT);
    return rc;
}
