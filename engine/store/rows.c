/* Instances, attempts, outputs, nodes and files of a run. */
#include "engine/store/ready.h"
#include "engine/store/shipped.h"
#include "engine/store/sql.h"
#include "engine/store/store.h"

static const struct fr_sql_row insts = {"itttttidtiiiitittiiiii", sizeof(struct fr_inst_row),
                                        SQL_INST_PUT, 22};
static const struct fr_sql_row attempts = {"diiitidtttittitiiii", sizeof(struct fr_attempt_row),
                                           SQL_ATTEMPT_PUT, 19};
static const struct fr_sql_row held = {"dddiitt", sizeof(struct fr_held_row), SQL_ATTEMPT_PUT, 0};
static const struct fr_sql_row tasks = {"t", sizeof(struct fr_task_row), SQL_INST_PUT, 0};
static const struct fr_sql_row outputs = {"itt", sizeof(struct fr_output_row), SQL_OUTPUT_PUT, 3};
static const struct fr_sql_row nodes = {"tdttii", sizeof(struct fr_node_row), SQL_NODE_PUT, 6};
static const struct fr_sql_row files = {"ttii", sizeof(struct fr_file_row), SQL_FILE_PUT, 4};
static const struct fr_sql_row shipped = {"ttt", sizeof(struct fr_shipped_row), SQL_SHIPPED_PUT, 3};

/* All rows of the run. */
static enum fr_rc list(struct fr_store *st, enum fr_sql q, struct fr_id run,
                       struct fr_sql_rows *out, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, q, err, "d", run);

    return rc == FR_OK ? fr_sql_rows(st, q, out, err) : rc;
}

enum fr_rc fr_store_inst_put(struct fr_store *st, struct fr_id run, const struct fr_inst_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, &insts, run, row, err);
}

enum fr_rc fr_store_insts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_inst_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&insts, arena, NULL, 0};
    enum fr_rc rc = list(st, SQL_INST_LIST, run, &rows, err);

    *out = (struct fr_inst_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_inst_failed(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_inst_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&insts, arena, NULL, 0};
    enum fr_rc rc = list(st, SQL_INST_FAILED, run, &rows, err);

    *out = (struct fr_inst_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_ready_tasks(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_task_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&tasks, arena, NULL, 0};
    enum fr_rc rc = list(st, SQL_INST_READY, run, &rows, err);

    *out = (struct fr_task_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_any_ready(struct fr_store *st, struct fr_id run, bool *out, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_INST_ANY_READY, err, "d", run);

    *out = rc == FR_OK && fr_sql_next(st, SQL_INST_ANY_READY, &rc, err) &&
           fr_sql_int(st, SQL_INST_ANY_READY, 0) != 0;
    fr_sql_end(st, SQL_INST_ANY_READY);
    return rc;
}

enum fr_rc fr_store_attempt_put(struct fr_store *st, struct fr_id run,
                                const struct fr_attempt_row *row, struct fr_err *err)
{
    return fr_sql_put(st, &attempts, run, row, err);
}

enum fr_rc fr_store_attempts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                             struct fr_attempt_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&attempts, arena, NULL, 0};
    enum fr_rc rc = list(st, SQL_ATTEMPT_LIST, run, &rows, err);

    *out = (struct fr_attempt_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_output_put(struct fr_store *st, struct fr_id run,
                               const struct fr_output_row *row, struct fr_err *err)
{
    return fr_sql_put(st, &outputs, run, row, err);
}

enum fr_rc fr_store_outputs(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_output_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&outputs, arena, NULL, 0};
    enum fr_rc rc = list(st, SQL_OUTPUT_LIST, run, &rows, err);

    *out = (struct fr_output_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_outputs_of(struct fr_store *st, const struct fr_inst_of *of,
                               struct fr_arena *arena, struct fr_output_rows *out,
                               struct fr_err *err)
{
    struct fr_sql_rows rows = {&outputs, arena, NULL, 0};
    enum fr_rc rc = fr_sql_query(st, SQL_OUTPUT_OF, err, "di", of->run, of->idx);

    if (rc == FR_OK)
        rc = fr_sql_rows(st, SQL_OUTPUT_OF, &rows, err);
    *out = (struct fr_output_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_node_put(struct fr_store *st, struct fr_id run, const struct fr_node_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, &nodes, run, row, err);
}

enum fr_rc fr_store_nodes(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_node_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&nodes, arena, NULL, 0};
    enum fr_rc rc = list(st, SQL_NODE_LIST, run, &rows, err);

    *out = (struct fr_node_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_file_put(struct fr_store *st, struct fr_id run, const struct fr_file_row *row,
                             struct fr_err *err)
{
    return fr_sql_put(st, &files, run, row, err);
}

enum fr_rc fr_store_files(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_file_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&files, arena, NULL, 0};
    enum fr_rc rc = list(st, SQL_FILE_LIST, run, &rows, err);

    *out = (struct fr_file_rows){rows.v, rows.n};
    return rc;
}

enum fr_rc fr_store_shipped_put(struct fr_store *st, struct fr_id run,
                                const struct fr_shipped_row *row, struct fr_err *err)
{
    return fr_sql_put(st, &shipped, run, row, err);
}

enum fr_rc fr_store_shipped(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_shipped_rows *out, struct fr_err *err)
{
    struct fr_sql_rows rows = {&shipped, arena, NULL, 0};
    enum fr_rc rc = list(st, SQL_SHIPPED_LIST, run, &rows, err);

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
    enum fr_rc rc = fr_sql_query(st, SQL_ATTEMPT_HELD, err, "");

    if (rc == FR_OK)
        rc = fr_sql_rows(st, SQL_ATTEMPT_HELD, &rows, err);
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
