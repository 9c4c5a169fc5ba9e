/* Requests about backfills, and their answers. */
#include "engine/host/backfilling.h"
#include "engine/host/call.h"

#include <stdlib.h>

static json_t *json_of_backfill(const struct fr_backfill_row *row)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I}", "id",
                     (json_int_t)row->id, "schedule", (json_int_t)row->schedule, "from_ms",
                     (json_int_t)row->from_ms, "to_ms", (json_int_t)row->to_ms, "order",
                     row->newest != 0 ? "newest" : "oldest", "existing", row->existing,
                     "max_active", (json_int_t)row->max_active, "priority",
                     (json_int_t)row->priority, "state", row->state, "note", row->note, "total",
                     (json_int_t)row->total, "made", (json_int_t)row->made, "kept",
                     (json_int_t)row->kept, "made_wall", (json_int_t)row->made_wall);
}

enum fr_rc get_backfills(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_backfill_rows rows = {0};
    json_t *items = json_array();
    enum fr_rc rc = fr_store_backfills(c->host->store, false, &c->arena, &rows, err);

    (void)issues;
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        json_array_append_new(items, json_of_backfill(&rows.rows[i]));
    if (rc == FR_OK)
        return answer_json(c, 200, json_pack("{s:o}", "items", items), err);
    json_decref(items);
    return rc;
}

static enum fr_rc answer_backfill(struct call *c, int status, int64_t id, struct fr_err *err)
{
    struct fr_backfill_row row;
    enum fr_rc rc = fr_store_backfill_find(c->host->store, id, &c->arena, &row, err);

    backfill_changed(c->host);
    return rc == FR_OK ? answer_json(c, status, json_of_backfill(&row), err) : rc;
}

static enum fr_rc wrong(struct fr_err *err, const char *what)
{
    return fr_fail(err, FR_USAGE, "the body of a backfill: %s", what);
}

/* {schedule, from_ms, to_ms, total, order, existing, max_active, priority, params: ["name=value"]}
 */
static enum fr_rc read_backfill(struct call *c, struct fr_backfill_row *row, struct fr_err *err)
{
    long long schedule = 0, from = 0, to = 0, total = 0, most = 0, priority = 0;
    const char *order = "", *existing = "";
    json_t *params = NULL;
    char *text;

    if (json_unpack(c->doc, "{s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:o!}", "schedule", &schedule,
                    "from_ms", &from, "to_ms", &to, "total", &total, "order", &order, "existing",
                    &existing, "max_active", &most, "priority", &priority, "params", &params) != 0)
        return wrong(err, "it must have schedule, from_ms, to_ms, total, order, existing, "
                          "max_active, priority and params, and nothing else");
    if (from >= to || total < 1 || total > FR_BACKFILL_MOST || most < 1 || !json_is_array(params))
        return wrong(err, "from_ms must be below to_ms, total within 1 and 10000, max_active at "
                          "least 1, params a list");
    if ((strcmp(order, "oldest") != 0 && strcmp(order, "newest") != 0) ||
        (strcmp(existing, "skip") != 0 && strcmp(existing, "failed") != 0 &&
         strcmp(existing, "all") != 0))
        return wrong(err, "order must be oldest or newest, existing skip, failed or all");
    text = json_dumps(params, JSON_COMPACT);
    *row = (struct fr_backfill_row){.schedule = schedule,
                                    .from_ms = from,
                                    .to_ms = to,
                                    .newest = strcmp(order, "newest") == 0,
                                    .existing = existing,
                                    .params = text != NULL ? fr_arena_dup(&c->arena, text) : NULL,
                                    .max_active = most,
                                    .priority = priority,
                                    .state = "active",
                                    .total = total,
                                    .made_wall = fr_sys.wall_ms()};
    row->cursor_ms = row->newest != 0 ? to : from - 1;
    free(text);
    return row->params != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a request");
}

enum fr_rc post_backfills(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_backfill_row row;
    enum fr_rc rc = read_backfill(c, &row, err);

    (void)issues;
    if (rc == FR_OK)
        rc = fr_store_backfill_add(c->host->store, &row, err);
    return rc == FR_OK ? answer_backfill(c, 201, row.id, err) : rc;
}

static enum fr_rc change(struct call *c, enum fr_backfill_act act, struct fr_err *err)
{
    enum fr_rc rc = fr_backfill_change(c->host->store, c->schedule, act, err);

    return rc == FR_OK ? answer_backfill(c, 202, c->schedule, err) : rc;
}

enum fr_rc post_backfill_pause(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    (void)issues;
    return change(c, FR_BACKFILL_PAUSE, err);
}

enum fr_rc post_backfill_resume(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    (void)issues;
    return change(c, FR_BACKFILL_RESUME, err);
}

enum fr_rc post_backfill_cancel(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    (void)issues;
    return change(c, FR_BACKFILL_CANCEL, err);
}
