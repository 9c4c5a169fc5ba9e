/* Rows of the store as JSON. */
#include "engine/store/blob.h"
#include "engine/view/connection_pool.h"
#include "engine/view/view.h"
#include "engine/view/rows.h"

#include <stdio.h>

json_t *json_of_run(uint32_t epoch, const struct fr_run_row *row)
{
    json_t *doc = fr_row_json(&fr_run_type, row);

    json_object_set_new(doc, "driven",
                        json_boolean(row->host == (int64_t)epoch && row->state != FR_RUN_OVER));
    return doc;
}

void schedule_tag(const struct fr_schedule_row *row, char out[SCHEDULE_TAG])
{
    snprintf(out, SCHEDULE_TAG, "\"%lld.%.10s\"", (long long)row->state_wall,
             fr_word(&fr_schedule_state_words, row->state));
}

json_t *json_of_event(const struct fr_event_row *row)
{
    json_t *doc = fr_row_json(&fr_event_type, row);

    if (row->delay_ms <= 0)
        json_object_del(doc, "delay_ms");
    return doc;
}

/* {state: n} over all tasks without hooks */
static json_t *json_of_counts(const struct fr_count_rows *rows)
{
    json_t *out = json_object();

    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_count_row *r = &rows->rows[i];
        const char *state = fr_state_name(r->state);

        if (r->hook[0] == '\0')
            json_object_set_new(
                out, state, json_integer(json_integer_value(json_object_get(out, state)) + r->n));
    }
    return out;
}

/* ,"tasks":[{"name","hook","counts":{state: n}}]: as text, for there may be thousands. Names of
 * tasks have no character that JSON escapes. */
static void put_tasks(const struct fr_count_rows *rows, struct fr_buf *out)
{
    const char *name = NULL;

    fr_buf_text(out, ",\"tasks\":[");
    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_count_row *r = &rows->rows[i];
        bool same = name != NULL && strcmp(name, r->task) == 0;

        if (!same)
            fr_buf_fmt(out, "%s{\"name\":\"%s\",\"hook\":\"%s\",\"counts\":{",
                       name != NULL ? "}}," : "", r->task, r->hook);
        fr_buf_fmt(out, "%s\"%s\":%lld", same ? "," : "", fr_state_name(r->state), (long long)r->n);
        name = r->task;
    }
    fr_buf_text(out, name != NULL ? "}}]" : "]");
}

static enum fr_rc view_run(struct view *v, struct fr_err *err)
{
    struct fr_count_rows rows = {0};
    enum fr_rc rc;

    v->doc = json_of_run(v->text->epoch, &v->run);
    json_object_set_new(v->doc, "seq", json_integer(v->text->seq));
    if ((rc = fr_store_counts(v->st, v->run.id, &v->arena, &rows, err)) != FR_OK)
        return rc;
    json_object_set_new(v->doc, "counts", json_of_counts(&rows));
    put_tasks(&rows, &v->more);
    return FR_OK;
}

/* ---- instances ---- */

enum fr_rc view_instances(struct view *v, struct fr_inst_rows *out, struct fr_err *err)
{
    const char *const *args = v->text->args;
    struct fr_inst_filter of = {v->run.id, args[0], args[1], args[2]};

    return fr_store_insts_of(v->st, &of, &v->arena, out, err);
}

/* [[no, id], …] */
static json_t *json_of_attempts(const struct fr_attempt_rows *rows)
{
    json_t *list = json_array();

    for (size_t i = 0; i < rows->n; i++) {
        char id[FR_ID_TEXT];

        fr_id_text(rows->rows[i].id, id);
        json_array_append_new(list, json_pack("[I, s]", (json_int_t)rows->rows[i].no, id));
    }
    return list;
}

static enum fr_rc view_insts(struct view *v, struct fr_err *err)
{
    struct fr_inst_rows rows = {0};
    json_t *items = json_array();
    enum fr_rc rc = view_instances(v, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        struct fr_inst_of of = {v->run.id, rows.rows[i].idx};
        struct fr_attempt_rows attempts = {0};
        json_t *item = fr_row_json(&fr_inst_type, &rows.rows[i]);

        if (rows.rows[i].attempt_no > 1)
            rc = fr_store_attempts_of(v->st, &of, &v->arena, &attempts, err);
        if (attempts.n > 1)
            json_object_set_new(item, "attempts", json_of_attempts(&attempts));
        json_array_append_new(items, item);
    }
    v->doc = json_pack("{s:I, s:o}", "seq", (json_int_t)v->text->seq, "items", items);
    return rc;
}

/* ---- what tasks gave, and what was kept ---- */

static enum fr_rc view_outputs(struct view *v, struct fr_err *err)
{
    struct fr_inst_rows insts = {0};
    struct fr_output_rows rows = {0};
    json_t *items = json_array();
    enum fr_rc rc = fr_store_insts(v->st, v->run.id, &v->arena, &insts, err);

    if (rc == FR_OK)
        rc = fr_store_outputs(v->st, v->run.id, &v->arena, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_output_row *r = &rows.rows[i];
        const struct fr_inst_row *in = fr_inst_at(&insts, r->idx);

        if (in != NULL)
            json_array_append_new(items,
                                  json_pack("{s:I, s:s, s:s, s:s, s:s, s:s}", "idx",
                                            (json_int_t)r->idx, "key", in->key, "task", in->task,
                                            "node", in->node, "name", r->key, "value", r->value));
    }
    v->doc = json_pack("{s:o}", "items", items);
    return rc;
}

static enum fr_rc view_artifacts(struct view *v, struct fr_err *err)
{
    struct fr_file_rows rows = {0};
    enum fr_rc rc = fr_store_files(v->st, v->run.id, &v->arena, &rows, err);

    v->doc = json_pack("{s:o}", "items", fr_rows_json(&fr_file_type, rows.rows, rows.n));
    return rc;
}

/* ---- all views ---- */

static const struct {
    view_fn *read;
    bool of_run;
} views[HOST_VIEW_N] = {
    [HOST_VIEW_RUN] = {view_run, true},
    [HOST_VIEW_INSTS] = {view_insts, true},
    [HOST_VIEW_COLUMNS] = {view_columns, true},
    [HOST_VIEW_OUTPUTS] = {view_outputs, true},
    [HOST_VIEW_ARTIFACTS] = {view_artifacts, true},
    [HOST_VIEW_GRAPH] = {view_graph, true},
    [HOST_VIEW_PARAMS] = {view_params, true},
    [HOST_VIEW_SPEC] = {view_spec, true},
    [HOST_VIEW_RUNS] = {view_runs, false},
    [HOST_VIEW_PIPELINES] = {view_pipelines, false},
    [HOST_VIEW_PIPELINE] = {view_pipeline, false},
    [HOST_VIEW_CHECK] = {view_check, false},
    [HOST_VIEW_HISTORY] = {view_history, false},
    [HOST_VIEW_QUEUE] = {view_queue, false},
    [HOST_VIEW_POOLS] = {view_pools, false},
    [HOST_VIEW_MERGED] = {view_merged, true},
    [HOST_VIEW_LINES] = {view_lines, false},
    [HOST_VIEW_HITS] = {view_hits, false},
    [HOST_VIEW_FOUND] = {view_found, true},
    [HOST_VIEW_TIMES] = {view_times, false},
};

static enum fr_rc dump(struct view *v, struct fr_err *err)
{
    struct fr_buf *out = &v->text->json;

    fr_json_add(out, v->doc, JSON_COMPACT);
    if (!out->bad && v->more.n > 0) { /* in place of the last brace */
        out->n--;
        fr_buf_fmt(out, "%s}", v->more.p);
    }
    out->bad |= v->more.bad;
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for an answer") : FR_OK;
}

/* The newest event is read first: what is read behind it is no older. */
static enum fr_rc find_run(struct view *v, struct fr_err *err)
{
    char id[FR_ID_TEXT];
    enum fr_rc rc = fr_store_event_last(v->st, v->text->run, &v->text->seq, err);

    fr_id_text(v->text->run, id);
    if (rc == FR_OK)
        rc = fr_store_run_find(v->st, id, &v->arena, &v->run, err);
    v->text->priority = v->run.priority;
    v->text->pinned = v->run.pinned != 0;
    v->text->driven = v->run.host == (int64_t)v->text->epoch;
    if (rc == FR_OK)
        response_cache_tag(&v->run, v->text->fixed);
    return rc;
}

enum fr_rc host_text_read(const char *home, struct host_text *text, struct fr_err *err)
{
    struct view v = {.home = home, .text = text};
    enum fr_rc rc = connection_pool_take(text->connections, home, &v.st, err);

    if (rc == FR_OK && views[text->view].of_run)
        rc = find_run(&v, err);
    if (rc == FR_OK)
        rc = views[text->view].read(&v, err);
    if (rc == FR_OK && text->view != HOST_VIEW_MERGED)
        rc = dump(&v, err);
    json_decref(v.doc);
    fr_buf_finish(&v.more);
    connection_pool_give(text->connections, v.st, rc == FR_OK);
    fr_arena_finish(&v.arena);
    return rc;
}
