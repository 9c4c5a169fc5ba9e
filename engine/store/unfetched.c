#include "engine/store/unfetched.h"

#include "engine/store/sql.h"

FR_SQL_LIST(fr_store_unfetched, unfetched, SQL_RUN_UNFETCHED)

enum fr_rc fr_store_lacks_output(struct fr_store *st, struct fr_id run, bool *yes,
                                 struct fr_err *err)
{
    return fr_sql_yes(st, SQL_LACKS_OUTPUT, yes, err, "d", run);
}
