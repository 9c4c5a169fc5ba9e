#include "engine/store/unfetched.h"

#include "engine/store/sql.h"

enum fr_rc fr_store_unfetched(struct fr_store *st, struct fr_arena *arena,
                              struct fr_unfetched_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_RUN_UNFETCHED, FR_SQL_INTO(unfetched, arena, out), err, "");
}

enum fr_rc fr_store_lacks_output(struct fr_store *st, struct fr_id run, bool *yes,
                                 struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_LACKS_OUTPUT, err, "d", run);

    *yes = rc == FR_OK && fr_sql_next(st, SQL_LACKS_OUTPUT, &rc, err);
    fr_sql_end(st, SQL_LACKS_OUTPUT);
    return rc;
}
