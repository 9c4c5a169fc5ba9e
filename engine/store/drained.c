#include "engine/store/drained.h"

#include "engine/store/sql.h"

#include <string.h>

FR_SQL_LIST(fr_store_drained, drained, SQL_DRAINED)

enum fr_rc fr_store_known_nodes(struct fr_store *st, struct fr_arena *arena,
                                struct fr_known_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_NODE_KNOWN, FR_SQL_INTO(known, arena, out), err, "i",
                       (int64_t)FR_KNOWN_RUNS);
}

const struct fr_drained_row *fr_drained_find(const struct fr_drained_rows *rows, struct fr_id home,
                                             const char *place)
{
    for (size_t i = 0; i < rows->n; i++)
        if ((!fr_id_zero(home) && fr_id_eq(rows->rows[i].home, home)) ||
            (place != NULL && strcmp(rows->rows[i].name, place) == 0))
            return &rows->rows[i];
    return NULL;
}

enum fr_rc fr_store_drain(struct fr_store *st, const struct fr_drained_row *row, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    return fr_store_end(st, fr_sql_put(st, SQL_DRAIN, &fr_drained_type, row, NULL, err), err);
}

enum fr_rc fr_store_undrain(struct fr_store *st, struct fr_id home, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    rc = fr_sql_run(st, SQL_UNDRAIN, err, "d", home);
    if (rc == FR_OK && sqlite3_changes(st->db) == 0)
        rc = fr_fail(err, FR_BUSY, "the node is not drained");
    return fr_store_end(st, rc, err);
}

enum fr_rc fr_store_node_home(struct fr_store *st, const char *name, struct fr_id *home,
                              struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_NODE_HOME, err, "t", name);

    rc = fr_sql_first_id(st, SQL_NODE_HOME, rc, home, err);
    if (rc == FR_OK && fr_id_zero(*home))
        return fr_fail(err, FR_NOTFOUND,
                       "no run of this home has reached a node '%s': a node is known from then on",
                       name);
    return rc;
}
