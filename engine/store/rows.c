/* Instances, attempts, outputs, nodes and files of a run. */
#include "engine/store/blob.h"
#include "engine/store/item_lists.h"
#include "engine/store/lists.h"
#include "engine/store/ready.h"
#include "engine/store/shipped.h"
#include "engine/store/sql.h"
#include "engine/store/store.h"

#include <string.h>

FR_SQL_PUT_OF_RUN(fr_store_inst_put, inst, SQL_INST_PUT)
FR_SQL_LIST_OF_RUN(fr_store_insts, inst, SQL_INST_LIST)

enum fr_rc fr_store_insts_of(struct fr_store *st, const struct fr_inst_filter *of,
                             struct fr_arena *arena, struct fr_inst_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_INST_OF, FR_SQL_INTO(inst, arena, out), err, "dttt", of->run,
                       of->task, of->node, of->state);
}

bool fr_inst_named(const struct fr_inst_row *row, const char *name)
{
    struct fr_str pattern = fr_str_of(name);

    return strcmp(name, row->task) == 0 || strcmp(name, row->key) == 0 ||
           fr_star_match(pattern, row->key, false) || fr_star_match(pattern, row->task, false);
}

const struct fr_inst_row *fr_inst_at(const struct fr_inst_rows *rows, int64_t idx)
{
    size_t from = 0, to = rows->n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (rows->rows[middle].idx < idx)
            from = middle + 1;
        else
            to = middle;
    }
    return from < rows->n && rows->rows[from].idx == idx ? &rows->rows[from] : NULL;
}

FR_SQL_LIST_OF_RUN(fr_store_inst_failed, inst, SQL_INST_FAILED)
FR_SQL_LIST_OF_RUN(fr_store_ready_tasks, task, SQL_INST_READY)

enum fr_rc fr_store_any_ready(struct fr_store *st, struct fr_id run, bool *out, struct fr_err *err)
{
    return fr_sql_yes(st, SQL_INST_ANY_READY, out, err, "d", run);
}

FR_SQL_PUT_OF_RUN(fr_store_attempt_put, attempt, SQL_ATTEMPT_PUT)
FR_SQL_LIST_OF_RUN(fr_store_attempts, attempt, SQL_ATTEMPT_LIST)

enum fr_rc fr_store_attempts_of(struct fr_store *st, const struct fr_inst_of *of,
                                struct fr_arena *arena, struct fr_attempt_rows *out,
                                struct fr_err *err)
{
    return fr_sql_list(st, SQL_ATTEMPT_OF, FR_SQL_INTO(attempt, arena, out), err, "di", of->run,
                       of->idx);
}

enum fr_rc fr_store_attempt_find(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                 struct fr_attempt_row *row, struct fr_err *err)
{
    struct fr_attempt_rows rows = {0};
    enum fr_rc rc = fr_sql_list(st, SQL_ATTEMPT_FIND, FR_SQL_INTO(attempt, arena, &rows), err, "dd",
                                row->id, run);

    if (rc == FR_OK && rows.n == 0)
        return fr_fail(err, FR_NOTFOUND, "the run has no such attempt");
    if (rc == FR_OK)
        *row = rows.rows[0];
    return rc;
}

FR_SQL_PUT_OF_RUN(fr_store_output_put, output, SQL_OUTPUT_PUT)
FR_SQL_LIST_OF_RUN(fr_store_outputs, output, SQL_OUTPUT_LIST)

enum fr_rc fr_store_outputs_of(struct fr_store *st, const struct fr_inst_of *of,
                               struct fr_arena *arena, struct fr_output_rows *out,
                               struct fr_err *err)
{
    return fr_sql_list(st, SQL_OUTPUT_OF, FR_SQL_INTO(output, arena, out), err, "di", of->run,
                       of->idx);
}

FR_SQL_PUT_OF_RUN(fr_store_node_put, node, SQL_NODE_PUT)
FR_SQL_LIST_OF_RUN(fr_store_nodes, node, SQL_NODE_LIST)
FR_SQL_PUT_OF_RUN(fr_store_file_put, file, SQL_FILE_PUT)
FR_SQL_LIST_OF_RUN(fr_store_files, file, SQL_FILE_LIST)
FR_SQL_PUT_OF_RUN(fr_store_shipped_put, shipped, SQL_SHIPPED_PUT)
FR_SQL_LIST_OF_RUN(fr_store_shipped, shipped, SQL_SHIPPED_LIST)
FR_SQL_PUT_OF_RUN(fr_store_item_list_put, item_list, SQL_ITEM_LIST_PUT)
FR_SQL_LIST_OF_RUN(fr_store_item_lists, item_list, SQL_ITEM_LISTS)

enum fr_rc fr_store_inst_move(struct fr_store *st, struct fr_id run, int64_t from, int64_t to,
                              struct fr_err *err)
{
    enum fr_rc rc = to < 0 ? fr_sql_run(st, SQL_INST_DROP, err, "di", run, from)
                           : fr_sql_run(st, SQL_INST_MOVE, err, "idi", to, run, from);
    int64_t idx = to < 0 ? FR_EVENT_GONE : to;

    return rc == FR_OK ? fr_sql_run(st, SQL_EVENTS_MOVE, err, "idi", idx, run, from) : rc;
}

enum fr_rc fr_store_insts_clear(struct fr_store *st, struct fr_id run, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_INST_CLEAR, err, "d", run);

    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_ATTEMPT_CLEAR, err, "d", run);
    return rc == FR_OK ? fr_sql_run(st, SQL_OUTPUT_CLEAR_ALL, err, "d", run) : rc;
}

FR_SQL_LIST(fr_store_held, held, SQL_ATTEMPT_HELD)

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
