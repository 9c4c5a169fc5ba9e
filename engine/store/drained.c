#include "engine/store/drained.h"

#include "engine/store/sql.h"

static const struct fr_column known_columns[] = {FR_SQL_COLUMN(TEXT, fr_known_row, name),
                                                 FR_SQL_COLUMN(ID, fr_known_row, home),
                                                 FR_SQL_COLUMN(INT, fr_known_row, wall)};
static const struct fr_row_type known = FR_SQL_TYPE(known_columns, fr_known_row);

enum fr_rc fr_store_drained(struct fr_store *st, struct fr_arena *arena,
                            struct fr_drained_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_drained_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_DRAINED, &rows, err, "");

    *out = (struct fr_drained_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_known_nodes(struct fr_store *st, struct fr_arena *arena,
                                struct fr_known_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&known, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_NODE_KNOWN, &rows, err, "i", (int64_t)FR_KNOWN_RUNS);

    *out = (struct fr_known_rows){rows.v, rows.n};
    return rc;
}

const struct fr_drained_row *fr_drained_find(const struct fr_drained_rows *rows, struct fr_id home)
{
    for (size_t i = 0; i < rows->n; i++)
        if (fr_id_eq(rows->rows[i].home, home))
            return &rows->rows[i];
    return NULL;
}

static enum fr_rc end(struct fr_store *st, enum fr_rc rc, struct fr_err *err)
{
    if (rc == FR_OK)
        return fr_store_commit(st, err);
    fr_store_rollback(st);
    return rc;
}

enum fr_rc fr_store_drain(struct fr_store *st, const struct fr_drained_row *row, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    return end(st, fr_sql_put(st, SQL_DRAIN, &fr_drained_type, row, NULL, err), err);
}

enum fr_rc fr_store_undrain(struct fr_store *st, struct fr_id home, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    rc = fr_sql_run(st, SQL_UNDRAIN, err, "d", home);
    if (rc == FR_OK && sqlite3_changes(st->db) == 0)
        rc = fr_fail(err, FR_BUSY, "the node is not drained");
    return end(st, rc, err);
}

enum fr_rc fr_store_node_home(struct fr_store *st, const char *name, struct fr_id *home,
                              struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_NODE_HOME, err, "t", name);

    *home = (struct fr_id){{0}};
    if (rc == FR_OK && fr_sql_next(st, SQL_NODE_HOME, &rc, err))
        *home = fr_sql_id(st, SQL_NODE_HOME, 0);
    fr_sql_end(st, SQL_NODE_HOME);
    if (rc == FR_OK && fr_id_zero(*home))
        return fr_fail(err, FR_NOTFOUND,
                       "no run of this home has reached a node '%s': a node is known from then on",
                       name);
    return rc;
}
