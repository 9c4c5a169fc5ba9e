/* Instances, attempts, outputs, nodes and files of a run. */
#include "engine/store/ready.h"
#include "engine/store/shipped.h"
#include "engine/store/sql.h"
#include "engine/store/store.h"

static const struct fr_column held_columns[] = {
    FR_SQL_COLUMN(ID, fr_held_row, run),    FR_SQL_COLUMN(ID, fr_held_row, attempt),
    FR_SQL_COLUMN(ID, fr_held_row, home),   FR_SQL_COLUMN(INT, fr_held_row, slots),
    FR_SQL_COLUMN(INT, fr_held_row, no),    FR_SQL_COLUMN(TEXT, fr_held_row, key),
    FR_SQL_COLUMN(TEXT, fr_held_row, state)};
static const struct fr_row_type held = FR_SQL_TYPE(held_columns, fr_held_row);
static const struct fr_column task_columns[] = {FR_SQL_COLUMN(TEXT, fr_task_row, task)};
static const struct fr_row_type tasks = FR_SQL_TYPE(task_columns, fr_task_row);

enum fr_rc fr_store_inst_put(struct fr_store *st, struct fr_id run, const struct fr_inst_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, SQL_INST_PUT, &fr_inst_type, row, &run, err);
}

enum fr_rc fr_store_insts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_inst_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_inst_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_INST_LIST, &rows, err, "d", run);

    *out = (struct fr_inst_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_inst_failed(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_inst_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_inst_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_INST_FAILED, &rows, err, "d", run);

    *out = (struct fr_inst_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_ready_tasks(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_task_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&tasks, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_INST_READY, &rows, err, "d", run);

    *out = (struct fr_task_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_any_ready(struct fr_store *st, struct fr_id run, bool *out, struct fr_err *err)
{
    int64_t n;
    enum fr_rc rc = fr_sql_number(st, SQL_INST_ANY_READY, &n, err, "d", run);

    *out = n != 0;
    return rc;
}

enum fr_rc fr_store_attempt_put(struct fr_store *st, struct fr_id run,
                                const struct fr_attempt_row *row, struct fr_err *err)
{
    return fr_sql_put(st, SQL_ATTEMPT_PUT, &fr_attempt_type, row, &run, err);
}

enum fr_rc fr_store_attempts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                             struct fr_attempt_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_attempt_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_ATTEMPT_LIST, &rows, err, "d", run);

    *out = (struct fr_attempt_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_output_put(struct fr_store *st, struct fr_id run,
                               const struct fr_output_row *row, struct fr_err *err)
{
    return fr_sql_put(st, SQL_OUTPUT_PUT, &fr_output_type, row, &run, err);
}

enum fr_rc fr_store_outputs(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_output_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_output_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_OUTPUT_LIST, &rows, err, "d", run);

    *out = (struct fr_output_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_outputs_of(struct fr_store *st, const struct fr_inst_of *of,
                               struct fr_arena *arena, struct fr_output_rows *out,
                               struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_output_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_OUTPUT_OF, &rows, err, "di", of->run, of->idx);

    *out = (struct fr_output_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_node_put(struct fr_store *st, struct fr_id run, const struct fr_node_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, SQL_NODE_PUT, &fr_node_type, row, &run, err);
}

enum fr_rc fr_store_nodes(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_node_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_node_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_NODE_LIST, &rows, err, "d", run);

    *out = (struct fr_node_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_file_put(struct fr_store *st, struct fr_id run, const struct fr_file_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, SQL_FILE_PUT, &fr_file_type, row, &run, err);
}

enum fr_rc fr_store_files(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_file_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_file_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_FILE_LIST, &rows, err, "d", run);

    *out = (struct fr_file_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_shipped_put(struct fr_store *st, struct fr_id run,
                                const struct fr_shipped_row *row, struct fr_err *err)
{
    return fr_sql_put(st, SQL_SHIPPED_PUT, &fr_shipped_type, row, &run, err);
}

enum fr_rc fr_store_shipped(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_shipped_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&fr_shipped_type, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_SHIPPED_LIST, &rows, err, "d", run);

    *out = (struct fr_shipped_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_insts_clear(struct fr_store *st, struct fr_id run, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_INST_CLEAR, err, "d", run);

    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_ATTEMPT_CLEAR, err, "d", run);
    return rc == FR_OK ? fr_sql_run(st, SQL_OUTPUT_CLEAR_ALL, err, "d", run) : rc;
}

enum fr_rc fr_store_held(struct fr_store *st, struct fr_arena *arena, struct fr_held_rows *out,
                         struct fr_err *err)
{
    struct fr_sql_rows rows = {&held, arena, NULL, 0};
    enum fr_rc rc = fr_sql_list(st, SQL_ATTEMPT_HELD, &rows, err, "");

    *out = (struct fr_held_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_attempt_done(struct fr_store *st, struct fr_id run,
                                 const struct fr_attempt_row *row, struct fr_err *err)
{
    return fr_sql_run(st, SQL_ATTEMPT_DONE, err, "diid", run, row->idx, row->no, row->id);
}

enum fr_rc fr_store_output_clear(struct fr_store *st, struct fr_id run, int64_t idx,
                                 struct fr_err *err)
{
    return fr_sql_run(st, SQL_OUTPUT_CLEAR, err, "di", run, idx);
}
