/* What is asked over TCP names pipelines and values alone: files, variables and secrets are those
 * of the host's own shell. */
#include "engine/answer/remote.h"

#include "engine/base/json.h"
#include "engine/timetable/fenced.h"
#include "engine/answer/idempotency.h"
#include "engine/timetable/schedules.h"
#include "engine/store/lists.h"

/* ---- pipelines by name ---- */

/* The file of the newest run of that name, of a schedule, or of a folder. */
static enum fr_rc find_file(struct call *c, const char *name, const char **out, struct fr_err *err)
{
    struct fr_run_filter f = {
        .before = INT64_MAX, .pipeline = name, .state = "", .origin = "", .text = "", .limit = 1};
    struct fr_run_rows runs = {0};
    struct fr_schedule_rows schedules = {0};
    enum fr_rc rc = fr_store_runs_where(c->host->store, &f, &c->arena, &runs, err);

    *out = runs.n > 0 ? runs.rows[0].source : NULL;
    if (rc == FR_OK && *out == NULL)
        rc = fr_store_schedules(c->host->store, &c->arena, &schedules, err);
    for (size_t i = 0; rc == FR_OK && *out == NULL && i < schedules.n; i++)
        if (strcmp(schedules.rows[i].pipeline, name) == 0 && schedules.rows[i].gone_wall == 0)
            *out = schedules.rows[i].source;
    if (rc == FR_OK && *out == NULL)
        *out = schedules_file_of(c->host, name);
    if (rc == FR_OK && *out == NULL)
        rc = fr_fail(err, FR_NOTFOUND,
                     "there is no pipeline '%s': it is in no folder of 'flowrun serve', and never "
                     "ran by 'flowrun FILE'",
                     name);
    return rc;
}

static char *folder_of(struct call *c, const char *file)
{
    const char *slash = strrchr(file, '/');
    size_t n = slash == NULL || slash == file ? 1 : (size_t)(slash - file);

    return fr_arena_text(&c->arena, slash != NULL ? file : "/", n);
}

/* ---- bodies ---- */

static enum fr_rc wrong(struct fr_err *err, bool again)
{
    return fr_fail(
        err, FR_USAGE,
        again ? "the body must be {\"params\": {…}, \"priority\": 0}, both may be left out"
              : "the body must be {\"pipeline\": \"name\", \"params\": {…}, \"at\": \"…\", "
                "\"priority\": 0}; all but pipeline may be left out");
}

/* The new body takes the place of c->doc. */
static enum fr_rc put_body(struct call *c, json_t *doc, const char *folder, struct fr_err *err)
{
    json_t *old = c->doc;
    char id[FR_ID_TEXT];

    if (doc == NULL || folder == NULL) {
        json_decref(doc);
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    }
    json_object_set_new(doc, "cwd", json_string(folder));
    if (idempotency_run(c, id))
        json_object_set_new(doc, "id", json_string(id));
    c->doc = doc;
    json_decref(old);
    return FR_OK;
}

enum fr_rc remote_submit(struct call *c, struct fr_err *err)
{
    bool again = c->run.no != 0;
    const char *name = "", *at = NULL, *file = c->run.source;
    json_t *params = NULL;
    json_int_t priority = 0;
    enum fr_rc rc = FR_OK;

    if (again ? json_unpack(c->doc, "{s?o, s?I !}", "params", &params, "priority", &priority) != 0
              : json_unpack(c->doc, "{s:s, s?o, s?s, s?I !}", "pipeline", &name, "params", &params,
                            "at", &at, "priority", &priority) != 0)
        return wrong(err, again);
    if (params != NULL && !json_is_object(params))
        return wrong(err, again);
    if (!again)
        rc = find_file(c, name, &file, err);
    if (rc == FR_OK && fenced_is(c->req->caller) &&
        (c->fence = fenced_make(c->host, &c->arena)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a request");
    if (rc != FR_OK)
        return rc;
    params = params != NULL ? json_incref(params) : json_object();
    if (again)
        return put_body(
            c,
            json_pack("{s:o, s:I, s:s}", "params", params, "priority", priority, "origin", "api"),
            folder_of(c, file), err);
    return put_body(c,
                    json_pack("{s:s, s:s*, s:o, s:I, s:s}", "pipeline", file, "at", at, "params",
                              params, "priority", priority, "origin", "api"),
                    folder_of(c, file), err);
}

/* ["name=value"] as {name: value} */
static json_t *json_of_params(const struct fr_schedule *s)
{
    json_t *out = json_object();

    for (size_t i = 0; s != NULL && i < s->n_params; i++) {
        size_t n = strcspn(s->params[i], "=");
        struct fr_str name = {s->params[i], n};

        if (s->params[i][n] == '=')
            (void)fr_json_put(out, name, json_string(s->params[i] + n + 1));
    }
    return out;
}

enum fr_rc remote_schedule(struct call *c, const struct fr_schedule_row *row, struct fr_err *err)
{
    const struct host_schedule *s = schedules_find(c->host, row->id);

    if (row->gone_wall != 0)
        return fr_fail(err, FR_NOTFOUND, "the file of schedule %s/%s is not served any more",
                       row->pipeline, row->name);
    return put_body(c,
                    json_pack("{s:s, s:o, s:s}", "pipeline", row->source, "params",
                              json_of_params(s != NULL ? s->s : NULL), "origin", "api"),
                    folder_of(c, row->source), err);
}
