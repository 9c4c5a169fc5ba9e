/* Instances, attempts, outputs, nodes and files of a run. */
#include "engine/store/sql.h"
#include "engine/store/store.h"

static enum fr_rc no_memory(struct fr_store *st, enum fr_sql q, struct fr_err *err)
{
    fr_sql_end(st, q);
    return fr_fail(err, FR_NOMEM, "no memory for rows of the store");
}

enum fr_rc fr_store_inst_put(struct fr_store *st, struct fr_id run, const struct fr_inst_row *row,
                             struct fr_err *err)
{
    return fr_sql_run(st, SQL_INST_PUT, err, "ditttttidtiiiitittiiiii", run, row->idx, row->key,
                      row->task, row->node, row->hook, row->state, row->attempt_no, row->attempt,
                      row->attempt_state, row->live, row->go, row->generation, row->retries,
                      row->cause, row->code, row->stop_cause, row->reason, row->due_wall,
                      row->due_delay_ms, row->unreachable_wall, row->started_wall, row->ended_wall);
}

enum fr_rc fr_store_insts_clear(struct fr_store *st, struct fr_id run, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_INST_CLEAR, err, "d", run);

    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_ATTEMPT_CLEAR, err, "d", run);
    return rc == FR_OK ? fr_sql_run(st, SQL_OUTPUT_CLEAR_ALL, err, "d", run) : rc;
}

enum fr_rc fr_store_insts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_inst_rows *out, struct fr_err *err)
{
    enum fr_sql q = SQL_INST_LIST;
    enum fr_rc rc = fr_sql_query(st, q, err, "d", run);

    *out = (struct fr_inst_rows){0};
    while (fr_sql_next(st, q, &rc, err)) {
        struct fr_inst_row *row;

        out->rows = fr_arena_grow(arena, out->rows, out->n, sizeof(*out->rows));
        if (out->rows == NULL)
            return no_memory(st, q, err);
        row = &out->rows[out->n++];
        row->idx = fr_sql_int(st, q, 0);
        row->key = fr_sql_text(st, q, 1, arena);
        row->task = fr_sql_text(st, q, 2, arena);
        row->node = fr_sql_text(st, q, 3, arena);
        row->hook = fr_sql_text(st, q, 4, arena);
        row->state = fr_sql_text(st, q, 5, arena);
        row->attempt_no = fr_sql_int(st, q, 6);
        row->attempt = fr_sql_id(st, q, 7);
        row->attempt_state = fr_sql_text(st, q, 8, arena);
        row->live = fr_sql_int(st, q, 9);
        row->go = fr_sql_int(st, q, 10);
        row->generation = fr_sql_int(st, q, 11);
        row->retries = fr_sql_int(st, q, 12);
        row->cause = fr_sql_text(st, q, 13, arena);
        row->code = fr_sql_int(st, q, 14);
        row->stop_cause = fr_sql_text(st, q, 15, arena);
        row->reason = fr_sql_text(st, q, 16, arena);
        row->due_wall = fr_sql_int(st, q, 17);
        row->due_delay_ms = fr_sql_int(st, q, 18);
        row->unreachable_wall = fr_sql_int(st, q, 19);
        row->started_wall = fr_sql_int(st, q, 20);
        row->ended_wall = fr_sql_int(st, q, 21);
    }
    return rc;
}

enum fr_rc fr_store_attempt_put(struct fr_store *st, struct fr_id run,
                                const struct fr_attempt_row *row, struct fr_err *err)
{
    return fr_sql_run(st, SQL_ATTEMPT_PUT, err, "ddiiitidtttittitiii", run, row->id, row->idx,
                      row->no, row->generation, row->node, row->rank, row->home_id, row->boot_id,
                      row->state, row->cause, row->code, row->reason, row->address, row->port,
                      row->log, row->started_wall, row->ended_wall, row->done);
}

enum fr_rc fr_store_attempt_done(struct fr_store *st, struct fr_id run,
                                 const struct fr_attempt_row *row, struct fr_err *err)
{
    return fr_sql_run(st, SQL_ATTEMPT_DONE, err, "diid", run, row->idx, row->no, row->id);
}

static void read_attempt(struct fr_store *st, struct fr_arena *arena, struct fr_attempt_row *row)
{
    enum fr_sql q = SQL_ATTEMPT_LIST;

    row->id = fr_sql_id(st, q, 0);
    row->idx = fr_sql_int(st, q, 1);
    row->no = fr_sql_int(st, q, 2);
    row->generation = fr_sql_int(st, q, 3);
    row->node = fr_sql_text(st, q, 4, arena);
    row->rank = fr_sql_int(st, q, 5);
    row->home_id = fr_sql_id(st, q, 6);
    row->boot_id = fr_sql_text(st, q, 7, arena);
    row->state = fr_sql_text(st, q, 8, arena);
    row->cause = fr_sql_text(st, q, 9, arena);
    row->code = fr_sql_int(st, q, 10);
    row->reason = fr_sql_text(st, q, 11, arena);
    row->address = fr_sql_text(st, q, 12, arena);
    row->port = fr_sql_int(st, q, 13);
    row->log = fr_sql_text(st, q, 14, arena);
    row->started_wall = fr_sql_int(st, q, 15);
    row->ended_wall = fr_sql_int(st, q, 16);
    row->done = fr_sql_int(st, q, 17);
}

enum fr_rc fr_store_attempts(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                             struct fr_attempt_rows *out, struct fr_err *err)
{
    enum fr_sql q = SQL_ATTEMPT_LIST;
    enum fr_rc rc = fr_sql_query(st, q, err, "d", run);

    *out = (struct fr_attempt_rows){0};
    while (fr_sql_next(st, q, &rc, err)) {
        out->rows = fr_arena_grow(arena, out->rows, out->n, sizeof(*out->rows));
        if (out->rows == NULL)
            return no_memory(st, q, err);
        read_attempt(st, arena, &out->rows[out->n++]);
    }
    return rc;
}

enum fr_rc fr_store_output_put(struct fr_store *st, struct fr_id run,
                               const struct fr_output_row *row, struct fr_err *err)
{
    return fr_sql_run(st, SQL_OUTPUT_PUT, err, "ditt", run, row->idx, row->key, row->value);
}

enum fr_rc fr_store_output_clear(struct fr_store *st, struct fr_id run, int64_t idx,
                                 struct fr_err *err)
{
    return fr_sql_run(st, SQL_OUTPUT_CLEAR, err, "di", run, idx);
}

enum fr_rc fr_store_outputs(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_output_rows *out, struct fr_err *err)
{
    enum fr_sql q = SQL_OUTPUT_LIST;
    enum fr_rc rc = fr_sql_query(st, q, err, "d", run);

    *out = (struct fr_output_rows){0};
    while (fr_sql_next(st, q, &rc, err)) {
        struct fr_output_row *row;

        out->rows = fr_arena_grow(arena, out->rows, out->n, sizeof(*out->rows));
        if (out->rows == NULL)
            return no_memory(st, q, err);
        row = &out->rows[out->n++];
        row->idx = fr_sql_int(st, q, 0);
        row->key = fr_sql_text(st, q, 1, arena);
        row->value = fr_sql_text(st, q, 2, arena);
    }
    return rc;
}

enum fr_rc fr_store_node_put(struct fr_store *st, struct fr_id run, const struct fr_node_row *row,
                             struct fr_err *err)
{
    return fr_sql_run(st, SQL_NODE_PUT, err, "dtdttii", run, row->name, row->home_id, row->boot_id,
                      row->folder, row->unreachable_wall, row->abandoned);
}

enum fr_rc fr_store_nodes(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_node_rows *out, struct fr_err *err)
{
    enum fr_sql q = SQL_NODE_LIST;
    enum fr_rc rc = fr_sql_query(st, q, err, "d", run);

    *out = (struct fr_node_rows){0};
    while (fr_sql_next(st, q, &rc, err)) {
        struct fr_node_row *row;

        out->rows = fr_arena_grow(arena, out->rows, out->n, sizeof(*out->rows));
        if (out->rows == NULL)
            return no_memory(st, q, err);
        row = &out->rows[out->n++];
        row->name = fr_sql_text(st, q, 0, arena);
        row->epoch = fr_sql_int(st, q, 1);
        row->home_id = fr_sql_id(st, q, 2);
        row->boot_id = fr_sql_text(st, q, 3, arena);
        row->folder = fr_sql_text(st, q, 4, arena);
        row->unreachable_wall = fr_sql_int(st, q, 5);
        row->abandoned = fr_sql_int(st, q, 6);
    }
    return rc;
}

enum fr_rc fr_store_epochs(struct fr_store *st, struct fr_id run, int64_t by, int64_t *base,
                           struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_EPOCH_GET, err, "d", run);

    *base = 0;
    if (rc == FR_OK && fr_sql_next(st, SQL_EPOCH_GET, &rc, err))
        *base = fr_sql_int(st, SQL_EPOCH_GET, 0);
    fr_sql_end(st, SQL_EPOCH_GET);
    return rc == FR_OK ? fr_sql_run(st, SQL_EPOCH_RAISE, err, "id", by, run) : rc;
}

enum fr_rc fr_store_file_put(struct fr_store *st, struct fr_id run, const struct fr_file_row *row,
                             struct fr_err *err)
{
    return fr_sql_run(st, SQL_FILE_PUT, err, "dttii", run, row->path, row->hash, row->mode,
                      row->bytes);
}

enum fr_rc fr_store_files(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_file_rows *out, struct fr_err *err)
{
    enum fr_sql q = SQL_FILE_LIST;
    enum fr_rc rc = fr_sql_query(st, q, err, "d", run);

    *out = (struct fr_file_rows){0};
    while (fr_sql_next(st, q, &rc, err)) {
        struct fr_file_row *row;

        out->rows = fr_arena_grow(arena, out->rows, out->n, sizeof(*out->rows));
        if (out->rows == NULL)
            return no_memory(st, q, err);
        row = &out->rows[out->n++];
        row->path = fr_sql_text(st, q, 0, arena);
        row->hash = fr_sql_text(st, q, 1, arena);
        row->mode = fr_sql_int(st, q, 2);
        row->bytes = fr_sql_int(st, q, 3);
    }
    return rc;
}
