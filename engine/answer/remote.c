/* Requests over TCP have only names of pipelines and values: files, variables and secrets are those
 * of the host's own shell. */
#include "engine/answer/remote.h"

#include "engine/api/body.h"
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
    enum fr_rc rc = fr_store_runs_where(c->host->env.store, &f, &c->arena, &runs, err);

    *out = runs.n > 0 ? runs.rows[0].source : NULL;
    if (rc == FR_OK && *out == NULL)
        rc = fr_store_schedules(c->host->env.store, &c->arena, &schedules, err);
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

/* Replaces c->doc by the new body. */
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
    const char *file = c->run.source;
    json_t *doc;
    enum fr_rc rc = body_over_tcp(c->doc, again ? BODY_RERUN : BODY_SUBMIT, err);

    if (rc == FR_OK && !again)
        rc = find_file(c, json_string_value(json_object_get(c->doc, "pipeline")), &file, err);
    if (rc == FR_OK && fenced_is(c->req->caller) &&
        (c->fence = fenced_make(c->host, &c->arena)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a request");
    if (rc != FR_OK)
        return rc;
    doc = json_copy(c->doc);
    if (!again)
        json_object_set_new(doc, "pipeline", json_string(file));
    json_object_set_new(doc, "origin", json_string("api"));
    return put_body(c, doc, folder_of(c, file), err);
}

enum fr_rc remote_schedule(struct call *c, const struct fr_schedule_row *row, struct fr_err *err)
{
    const struct host_schedule *s = schedules_find(c->host, row->id);
    struct fr_submit submit = {.spec.path = row->source, .origin = FR_ORIGIN_API};
    json_t *doc;

    if (row->gone_wall != 0)
        return fr_fail(err, FR_NOTFOUND, "the file of schedule %s/%s is not served any more",
                       row->pipeline, row->name);
    if (s != NULL && s->s != NULL) {
        submit.spec.params = s->s->params;
        submit.spec.n_params = s->s->n_params;
    }
    if ((doc = json_object()) != NULL)
        body_write(BODY_SUBMIT, &submit, "/", doc);
    return put_body(c, doc, folder_of(c, row->source), err);
}
