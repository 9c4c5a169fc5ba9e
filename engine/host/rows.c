/* Rows of the store as JSON. */
#include "engine/host/internal.h"

#include <stdlib.h>

json_t *json_of_run(uint32_t epoch, const struct fr_run_row *row)
{
    char id[FR_ID_TEXT];

    fr_id_text(row->id, id);
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:I, s:b, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:I}",
        "no", (json_int_t)row->no, "id", id, "pipeline", row->name, "file", row->source, "state",
        row->state, "outcome", row->outcome, "reason", row->reason, "driven",
        row->host == (int64_t)epoch && strcmp(row->state, "over") != 0, "origin", row->origin,
        "priority", (json_int_t)row->priority, "pinned", row->pinned != 0, "queued_wall",
        (json_int_t)row->queued_wall, "not_before_wall", (json_int_t)row->not_before_wall,
        "started_wall", (json_int_t)row->started_wall, "ended_wall", (json_int_t)row->ended_wall,
        "retry_of", (json_int_t)row->retry_of, "reruns", (json_int_t)row->reruns, "rerun_wall",
        (json_int_t)row->rerun_wall);
}

static json_t *json_of_inst(const struct fr_inst_row *row)
{
    char id[FR_ID_TEXT] = "";

    if (!fr_id_zero(row->attempt))
        fr_id_text(row->attempt, id);
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:I, s:s, s:I, s:I, s:I}",
                     "idx", (json_int_t)row->idx, "key", row->key, "task", row->task, "node",
                     row->node, "hook", row->hook, "state", row->state, "attempt_no",
                     (json_int_t)row->attempt_no, "attempt", id, "cause", row->cause, "code",
                     (json_int_t)row->code, "reason", row->reason, "unreachable_wall",
                     (json_int_t)row->unreachable_wall, "started_wall",
                     (json_int_t)row->started_wall, "ended_wall", (json_int_t)row->ended_wall);
}

json_t *json_of_event(const struct fr_event_row *row)
{
    return json_pack("{s:I, s:I, s:I, s:s, s:I, s:s, s:I, s:s}", "seq", (json_int_t)row->seq,
                     "wall", (json_int_t)row->wall, "idx", (json_int_t)row->idx, "kind", row->kind,
                     "attempt_no", (json_int_t)row->attempt_no, "cause", row->cause, "code",
                     (json_int_t)row->code, "text", row->text);
}

/* {task: {state: count}} in the order of the tasks */
static json_t *json_of_tasks(const struct fr_inst_rows *rows)
{
    json_t *out = json_object();

    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_inst_row *r = &rows->rows[i];
        json_t *task = json_object_get(out, r->task);

        if (task == NULL && json_object_set_new(out, r->task, json_object()) == 0)
            task = json_object_get(out, r->task);
        json_object_set_new(task, r->state,
                            json_integer(json_integer_value(json_object_get(task, r->state)) + 1));
    }
    return out;
}

static enum fr_rc dump(json_t *doc, struct host_text *out, struct fr_err *err)
{
    char *text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;

    json_decref(doc);
    if (text != NULL)
        fr_buf_text(&out->json, text);
    free(text);
    return text == NULL || out->json.bad ? fr_fail(err, FR_NOMEM, "no memory for an answer")
                                         : FR_OK;
}

static json_t *json_of_insts(const struct fr_inst_rows *rows)
{
    json_t *items = json_array();

    for (size_t i = 0; i < rows->n; i++)
        json_array_append_new(items, json_of_inst(&rows->rows[i]));
    return json_pack("{s:o}", "items", items);
}

static json_t *json_of_whole(const struct host_text *text, const struct fr_run_row *row,
                             const struct fr_inst_rows *rows)
{
    json_t *doc = json_of_run(text->epoch, row);

    json_object_set_new(doc, "seq", json_integer(text->seq));
    json_object_set_new(doc, "tasks", json_of_tasks(rows));
    return doc;
}

enum fr_rc host_text_read(const char *home, struct host_text *text, struct fr_err *err)
{
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_inst_rows rows = {0};
    struct fr_run_row row;
    char id[FR_ID_TEXT];
    enum fr_rc rc = fr_store_open_read(home, &st, err);

    fr_id_text(text->run, id);
    if (rc == FR_OK)
        rc = fr_store_event_last(st, text->run, &text->seq, err);
    if (rc == FR_OK)
        rc = fr_store_run_find(st, id, &arena, &row, err);
    if (rc == FR_OK)
        rc = fr_store_insts(st, text->run, &arena, &rows, err);
    if (rc == FR_OK)
        rc = dump(text->insts ? json_of_insts(&rows) : json_of_whole(text, &row, &rows), text, err);
    fr_store_close(st);
    fr_arena_finish(&arena);
    return rc;
}
