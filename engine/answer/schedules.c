/* Requests about schedules, and their answers. */
#include "engine/answer/call.h"
#include "engine/timetable/schedules.h"

enum { OCCURRENCES_USUAL = 50, OCCURRENCES_MOST = 200, NEXT = 5, NEXT_OF = 200 };

static json_t *json_of_schedule(const struct fr_host *host, const struct fr_schedule_row *row)
{
    const struct host_schedule *s = schedules_find(host, row->id);
    char tag[SCHEDULE_TAG];
    json_t *doc, *shown = fr_row_json(&fr_schedule_type, row);

    schedule_tag(row, tag);
    doc = json_pack("{s:I, s:s}", "id", (json_int_t)row->id, "etag", tag);
    json_object_update(doc, shown);
    json_decref(shown);
    if (s != NULL && s->file->error != NULL)
        json_object_set_new(doc, "error", json_string(s->file->error));
    if (s != NULL && s->t != NULL)
        json_object_set_new(doc, "zone",
                            json_string(s->t->zone.name[0] != '\0' ? s->t->zone.name : "UTC"));
    if (s != NULL && s->due_wall != INT64_MAX)
        json_object_set_new(doc, "due_wall", json_integer(s->due_wall));
    return doc;
}

/* The next instants: [{at_ms, local}], local in the zone of the schedule. */
static void put_next(json_t *doc, const struct host_schedule *s)
{
    json_t *list = json_array();
    int64_t at_ms = fr_sys.wall_ms();

    for (int i = 0; i < NEXT && fr_rule_next(&s->t->rule, at_ms, &at_ms); i++) {
        int64_t at = fr_div_down(at_ms, 1000);
        int32_t offset = fr_zone_offset(&s->t->zone, at);
        json_t *one = json_pack("{s:I}", "at_ms", (json_int_t)(at_ms + s->delay_ms));
        char text[FR_TIME_TEXT];

        fr_wall_text(at + offset, text);
        if (s->t->zone.name[0] != '\0' && strcmp(s->t->zone.name, "UTC") != 0)
            json_object_set_new(one, "local", json_string(text));
        json_array_append_new(list, one);
    }
    json_object_set_new(doc, "next", list);
}

/* ?pipeline= */
enum fr_rc get_schedules(struct call *c, struct fr_err *err)
{
    struct fr_schedule_rows rows = {0};
    const char *pipeline = query_text(c, "pipeline");
    json_t *items = json_array();
    enum fr_rc rc = fr_store_schedules(c->host->env.store, &c->arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_schedule_row *row = &rows.rows[i];
        const struct host_schedule *s = schedules_find(c->host, row->id);
        json_t *doc;

        if (pipeline != NULL && strcmp(pipeline, row->pipeline) != 0)
            continue;
        json_array_append_new(items, doc = json_of_schedule(c->host, row));
        if (s != NULL && s->t != NULL && json_array_size(items) <= NEXT_OF &&
            row->state == FR_SCHEDULE_ACTIVE)
            put_next(doc, s);
    }
    if (rc == FR_OK)
        return answer_json(c, 200, json_pack("{s:o}", "items", items), err);
    json_decref(items);
    return rc;
}

enum fr_rc call_schedule_row(struct call *c, struct fr_schedule_row *out, struct fr_err *err)
{
    struct fr_schedule_rows rows = {0};
    enum fr_rc rc = fr_store_schedules(c->host->env.store, &c->arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        if (rows.rows[i].id == c->schedule) {
            *out = rows.rows[i];
            return FR_OK;
        }
    return rc != FR_OK
               ? rc
               : fr_fail(err, FR_NOTFOUND, "there is no schedule %lld", (long long)c->schedule);
}

enum fr_rc call_find_schedule(struct call *c, struct fr_str name, struct fr_err *err)
{
    if (fr_parse_i64(name, &c->schedule, NULL) == FR_OK)
        return FR_OK;
    return fr_fail(err, FR_NOTFOUND, "it is named by its id, a number");
}

enum fr_rc get_schedules_id(struct call *c, struct fr_err *err)
{
    struct fr_schedule_row row;
    char tag[SCHEDULE_TAG];
    enum fr_rc rc = call_schedule_row(c, &row, err);

    if (rc == FR_OK) {
        schedule_tag(&row, tag);
        fr_buf_text(&c->res->etag, tag);
    }
    return rc == FR_OK ? answer_json(c, 200, json_of_schedule(c->host, &row), err) : rc;
}

/* Without schedules in this host, only the store changes. */
static enum fr_rc pause_it(struct call *c, struct fr_schedule_row *row, const struct fr_pause *how,
                           struct fr_err *err)
{
    struct host_schedule *s = schedules_find(c->host, c->schedule);

    if (s != NULL)
        return schedules_pause(schedules_of(c->host), s, how, err);
    return fr_schedule_pause(c->host->env.store, row, how, err);
}

/* Whether the schedule is unchanged since the caller read it. */
static enum fr_rc check_match(struct call *c, const struct fr_schedule_row *row, struct fr_err *err)
{
    char tag[SCHEDULE_TAG];

    if (c->req->if_match == NULL) {
        c->status = 428;
        return fr_fail(err, FR_USAGE,
                       "a change of a schedule needs If-Match: the ETag of what was seen, or *");
    }
    schedule_tag(row, tag);
    if (strcmp(c->req->if_match, "*") == 0 || strcmp(c->req->if_match, tag) == 0)
        return FR_OK;
    c->status = 412;
    return fr_fail(err, FR_BUSY, "schedule %s/%s was changed meanwhile: it is %s", row->pipeline,
                   row->name, fr_word(&fr_schedule_state_words, row->state));
}

/* {paused, note, catchup, queued} */
enum fr_rc put_schedules_id(struct call *c, struct fr_err *err)
{
    struct fr_schedule_row row;
    struct fr_pause how = {0};
    const char *text = "";
    int pause = 0, catchup = 0, queued = 0;
    enum fr_rc rc = call_schedule_row(c, &row, err);

    if (rc == FR_OK)
        rc = check_match(c, &row, err);
    if (rc != FR_OK)
        return rc;
    if (json_unpack(c->doc, "{s:b, s?s, s?b, s?b !}", "paused", &pause, "note", &text, "catchup",
                    &catchup, "queued", &queued) != 0)
        return fr_fail(err, FR_USAGE,
                       "the body must be {\"paused\": true, \"note\": \"…\", \"queued\": false} or "
                       "{\"paused\": false, \"catchup\": false}");
    how = (struct fr_pause){
        .pause = pause != 0, .note = text, .catchup = catchup != 0, .queued = queued != 0};
    rc = pause_it(c, &row, &how, err);
    c->host->woken = true;
    host_changed(c->host, HOST_SCHEDULES);
    return rc == FR_OK ? get_schedules_id(c, err) : rc;
}

enum fr_rc get_schedules_id_fires(struct call *c, struct fr_err *err)
{
    struct fr_occurrence_page page = {.schedule = c->schedule};
    struct fr_schedule_row row;
    struct fr_occurrence_rows rows = {0};
    int64_t limit = 0;
    enum fr_rc rc = call_schedule_row(c, &row, err);

    if (rc == FR_OK)
        rc = query_number(c, "before", INT64_MAX, &page.before_ms, err);
    if (rc == FR_OK)
        rc = query_range(c, "limit", (struct query_range){1, OCCURRENCES_MOST, OCCURRENCES_USUAL},
                         &limit, err);
    page.limit = (size_t)limit;
    if (rc == FR_OK)
        rc = fr_store_occurrences_before(c->host->env.store, &page, &c->arena, &rows, err);
    return rc == FR_OK ? answer_rows(c, &fr_occurrence_type, rows.rows, rows.n, err) : rc;
}
