/* Requests about backfills, and their answers. */
#include "engine/timetable/backfilling.h"
#include "engine/answer/call.h"
#include "engine/timetable/fenced.h"
#include "engine/timetable/schedules.h"

#include <stdlib.h>

enum { DRY_MOST = 500 }; /* instants in a response */

enum fr_rc get_backfills(struct call *c, struct fr_err *err)
{
    struct fr_backfill_rows rows = {0};
    enum fr_rc rc = fr_store_backfills(c->host->env.store, false, &c->arena, &rows, err);

    return rc == FR_OK ? answer_rows(c, &fr_backfill_type, rows.rows, rows.n, err) : rc;
}

static enum fr_rc answer_backfill(struct call *c, int status, int64_t id, struct fr_err *err)
{
    struct fr_backfill_row row;
    enum fr_rc rc = fr_store_backfill_find(c->host->env.store, id, &c->arena, &row, err);

    backfill_changed(c->host);
    return rc == FR_OK ? answer_json(c, status, fr_row_json(&fr_backfill_type, &row), err) : rc;
}

static enum fr_rc wrong(struct fr_err *err, const char *what)
{
    return fr_fail(err, FR_USAGE, "the body of a backfill: %s", what);
}

struct wish { /* of a body */
    struct fr_backfill_row row;
    bool dry;
};

static enum fr_rc check_wish(const struct wish *w, const char *order, struct fr_err *err)
{
    const struct fr_backfill_row *row = &w->row;

    if (row->from_ms >= row->to_ms || row->max_active < 1)
        return wrong(err, "from_ms must be below to_ms, max_active at least 1");
    if ((strcmp(order, "oldest") != 0 && strcmp(order, "newest") != 0) || (int)row->existing < 0)
        return wrong(err, "order must be oldest or newest, existing skip, failed or all");
    return FR_OK;
}

/* Counts the instants by the current file if the body has no total. */
static enum fr_rc count(struct call *c, struct wish *w, struct fr_err *err)
{
    const struct host_schedule *s = schedules_find(c->host, w->row.schedule);
    struct fr_backfill_row *row = &w->row;
    struct fr_schedule_row known;
    enum fr_rc rc;

    c->schedule = row->schedule;
    if ((rc = call_schedule_row(c, &known, err)) != FR_OK)
        return rc;
    if (s != NULL && s->t != NULL)
        row->total = fr_rule_count(&s->t->rule, row->from_ms - 1, row->to_ms - 1);
    else if (row->total == 0 || w->dry)
        return fr_fail(err, FR_BUSY, "no served folder has schedule %lld now",
                       (long long)row->schedule);
    if (row->total < 1 || row->total > FR_BACKFILL_MOST)
        return fr_fail(err, FR_USAGE,
                       "the schedule fires %lld times from from_ms to to_ms; a backfill makes 1 to "
                       "%d runs",
                       (long long)row->total, FR_BACKFILL_MOST);
    return FR_OK;
}

static enum fr_rc check_params(const json_t *params, struct fr_err *err)
{
    for (size_t i = 0; i < json_array_size(params); i++)
        if (!json_is_string(json_array_get(params, i)))
            return wrong(err, "params must be a list of \"name=value\"");
    return FR_OK;
}

/* {schedule, from_ms, to_ms, order, existing, max_active, priority, params: ["name=value"]}, and
 * total, dry_run. */
static enum fr_rc read_wish(struct call *c, struct wish *w, struct fr_err *err)
{
    long long schedule = 0, from = 0, to = 0, total = 0, most = 0, priority = 0;
    const char *order = "", *existing = "";
    json_t *params = NULL;
    int dry = 0;
    char *text;
    enum fr_rc rc;

    if (json_unpack(c->doc, "{s:I, s:I, s:I, s?I, s:s, s:s, s:I, s:I, s:o, s?b!}", "schedule",
                    &schedule, "from_ms", &from, "to_ms", &to, "total", &total, "order", &order,
                    "existing", &existing, "max_active", &most, "priority", &priority, "params",
                    &params, "dry_run", &dry) != 0 ||
        !json_is_array(params))
        return wrong(err, "it must have schedule, from_ms, to_ms, order, existing, max_active, "
                          "priority and params, a list, may have total and dry_run, and nothing "
                          "else");
    if ((rc = check_params(params, err)) != FR_OK)
        return rc;
    if (fenced_is(c->req->caller))
        json_array_insert_new(params, 0, json_true());
    text = json_dumps(params, JSON_COMPACT);
    *w = (struct wish){
        .row = {.schedule = schedule,
                .from_ms = from,
                .to_ms = to,
                .newest = strcmp(order, "newest") == 0,
                .existing = (enum fr_existing)fr_word_find(&fr_existing_words, fr_str_of(existing)),
                .params = text != NULL ? fr_arena_dup(&c->arena, text) : NULL,
                .max_active = most,
                .priority = priority,
                .state = FR_BACKFILL_ACTIVE,
                .total = total,
                .made_wall = fr_sys.wall_ms()},
        .dry = dry != 0};
    w->row.cursor_ms = w->row.newest != 0 ? to : from - 1;
    free(text);
    if (w->row.params == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    rc = check_wish(w, order, err);
    return rc == FR_OK ? count(c, w, err) : rc;
}

/* Responds with the decisions for at most DRY_MOST instants; next: the body for the others. */
static enum fr_rc answer_dry(struct call *c, struct fr_backfill_row row, struct fr_err *err)
{
    const struct host_schedule *s = schedules_find(c->host, row.schedule);
    json_t *items = json_array(), *doc;
    int64_t ms, runs = 0;
    bool more;
    enum fr_rc rc = FR_OK;

    while ((more = fr_backfill_next(&row, &s->t->rule, &ms)) && rc == FR_OK &&
           json_array_size(items) < DRY_MOST) {
        struct fr_instant there;
        bool wanted;

        if ((rc = fr_store_instant(c->host->env.store, row.schedule, ms, &c->arena, &there, err)) !=
            FR_OK)
            break;
        wanted = fr_backfill_wants(&row, &there);
        runs += wanted;
        row.cursor_ms = ms;
        json_array_append_new(items,
                              json_pack("{s:I, s:s, s:I, s:b}", "at_ms", (json_int_t)ms, "existing",
                                        fr_word(&fr_outcome_or_live_words, there.word), "run",
                                        (json_int_t)there.run, "makes_run", wanted));
    }
    if (rc != FR_OK) {
        json_decref(items);
        return rc;
    }
    doc = json_pack("{s:I, s:I, s:o}", "total", (json_int_t)row.total, "runs", (json_int_t)runs,
                    "items", items);
    if (more)
        json_object_set_new(
            doc, "next",
            json_pack("{s:I, s:I}", "from_ms",
                      (json_int_t)(row.newest != 0 ? row.from_ms : row.cursor_ms + 1), "to_ms",
                      (json_int_t)(row.newest != 0 ? row.cursor_ms : row.to_ms)));
    return answer_json(c, 200, doc, err);
}

enum fr_rc post_backfills(struct call *c, struct fr_err *err)
{
    struct wish wish;
    enum fr_rc rc = read_wish(c, &wish, err);

    if (rc == FR_OK && wish.dry)
        return answer_dry(c, wish.row, err);
    if (rc == FR_OK)
        rc = fr_store_backfill_add(c->host->env.store, &wish.row, err);
    return rc == FR_OK ? answer_backfill(c, 201, wish.row.id, err) : rc;
}

static enum fr_rc change(struct call *c, enum fr_backfill_state state, struct fr_err *err)
{
    enum fr_rc rc = fr_backfill_change(c->host->env.store, c->schedule, state, err);

    return rc == FR_OK ? answer_backfill(c, 202, c->schedule, err) : rc;
}

enum fr_rc post_backfills_id_pause(struct call *c, struct fr_err *err)
{
    return change(c, FR_BACKFILL_PAUSED, err);
}

enum fr_rc post_backfills_id_resume(struct call *c, struct fr_err *err)
{
    return change(c, FR_BACKFILL_ACTIVE, err);
}

enum fr_rc post_backfills_id_cancel(struct call *c, struct fr_err *err)
{
    return change(c, FR_BACKFILL_CANCELLED, err);
}
