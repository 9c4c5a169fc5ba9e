/* Instances, attempts, outputs, nodes and files of a run. */
#include "engine/store/ready.h"
#include "engine/store/shipped.h"
#include "engine/store/sql.h"
#include "engine/store/store.h"

enum fr_rc fr_store_inst_put(struct fr_store *st, struct fr_id run, const struct fr_inst_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, SQL_INST_PUT, &fr_inst_type, row, &run, err);
}

enum fr_rc fr_store_insts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_inst_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_INST_LIST, FR_SQL_INTO(inst, arena, out), err, "d", run);
}

enum fr_rc fr_store_inst_failed(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_inst_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_INST_FAILED, FR_SQL_INTO(inst, arena, out), err, "d", run);
}

enum fr_rc fr_store_ready_tasks(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_task_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_INST_READY, FR_SQL_INTO(task, arena, out), err, "d", run);
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
    return fr_sql_list(st, SQL_ATTEMPT_LIST, FR_SQL_INTO(attempt, arena, out), err, "d", run);
}

enum fr_rc fr_store_output_put(struct fr_store *st, struct fr_id run,
                               const struct fr_output_row *row, struct fr_err *err)
{
    return fr_sql_put(st, SQL_OUTPUT_PUT, &fr_output_type, row, &run, err);
}

enum fr_rc fr_store_outputs(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_output_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_OUTPUT_LIST, FR_SQL_INTO(output, arena, out), err, "d", run);
}

enum fr_rc fr_store_outputs_of(struct fr_store *st, const struct fr_inst_of *of,
                               struct fr_arena *arena, struct fr_output_rows *out,
                               struct fr_err *err)
{
    return fr_sql_list(st, SQL_OUTPUT_OF, FR_SQL_INTO(output, arena, out), err, "di", of->run,
                       of->idx);
}

enum fr_rc fr_store_node_put(struct fr_store *st, struct fr_id run, const struct fr_node_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, SQL_NODE_PUT, &fr_node_type, row, &run, err);
}

enum fr_rc fr_store_nodes(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_node_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_NODE_LIST, FR_SQL_INTO(node, arena, out), err, "d", run);
}

enum fr_rc fr_store_file_put(struct fr_store *st, struct fr_id run, const struct fr_file_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, SQL_FILE_PUT, &fr_file_type, row, &run, err);
}

enum fr_rc fr_store_files(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_file_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_FILE_LIST, FR_SQL_INTO(file, arena, out), err, "d", run);
}

enum fr_rc fr_store_shipped_put(struct fr_store *st, struct fr_id run,
                                const struct fr_shipped_row *row, struct fr_err *err)
{
    return fr_sql_put(st, SQL_SHIPPED_PUT, &fr_shipped_type, row, &run, err);
}

enum fr_rc fr_store_shipped(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_shipped_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_SHIPPED_LIST, FR_SQL_INTO(shipped, arena, out), err, "d", run);
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
    return fr_sql_list(st, SQL_ATTEMPT_HELD, FR_SQL_INTO(held, arena, out), err, "");
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
