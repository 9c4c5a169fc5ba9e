/* Views of a pipeline: its picture, its parameters, its file. */
#include "engine/base/file.h"
#include "engine/base/yaml.h"
#include "engine/view/rows.h"
#include "engine/api/problem.h"
#include "engine/view/view.h"
#include "engine/plan/layout.h"
#include "engine/store/blob.h"
#include "engine/store/occurrences.h"

#include <string.h>

enum { ALIKE = 8 /* so many tasks that stand between the same ones are one box */ };

/* ---- the picture ---- */

static json_t *json_of_ints(const uint32_t *v, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(v[i]));
    return list;
}

static bool is_critical(const struct fr_plan *plan, uint32_t task)
{
    for (uint32_t i = 0; i < plan->n_critical; i++)
        if (plan->critical[i] == task)
            return true;
    return false;
}

/* The names of its items, and which tasks it joins item by item. */
static void add_items(const struct fr_plan_task *task, json_t *doc)
{
    const struct fr_items *items = task->spec->items;

    if (items != NULL && items->of_list)
        json_object_set_new(doc, "foreach", json_string(task->awaited ? "awaited" : "known"));
    if (items == NULL || items->of_list)
        return;
    json_object_set_new(doc, "matrix", fr_json_texts(items->names, items->n_names));
    json_object_set_new(doc, "same", json_of_ints(task->same, task->n_same));
}

/* What it asks of its needs; nothing where all must have succeeded. */
static void add_rules(const struct fr_plan_task *task, json_t *doc)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < task->n_needs && task->rules != NULL; i++) {
        const struct fr_need_rule *rule = &task->rules[i];
        json_t *states = json_array();

        for (int st = FR_ST_SUCCEEDED; st < FR_ST_N; st++)
            if (rule->states & 1u << st)
                json_array_append_new(states, json_string(fr_state_name((enum fr_state_of)st)));
        if (rule->states != 0 || rule->skip_with)
            json_array_append_new(list,
                                  json_pack("{s:I, s:o, s:b}", "need", (json_int_t)task->needs[i],
                                            "states", states, "skip_with", rule->skip_with));
        else
            json_decref(states);
    }
    if (task->spec->run_if != FR_RUN_IF_SUCCESS)
        json_object_set_new(doc, "run_if", json_string(fr_run_if_name(task->spec->run_if)));
    if (json_array_size(list) > 0)
        json_object_set(doc, "rules", list);
    json_decref(list);
}

static json_t *json_of_tasks(const struct fr_plan *plan)
{
    json_t *list = json_array();

    for (uint32_t t = 0; t < plan->n_tasks; t++) {
        const struct fr_plan_task *task = &plan->tasks[t];
        const char *help = task->spec->help;
        json_t *doc =
            json_pack("{s:s, s:s, s:b, s:I, s:I, s:o, s:b, s:s}", "name", task->name, "hook",
                      task->hook >= 0 ? fr_hook_name((enum fr_hook)task->hook) : "", "gang",
                      task->gang, "first", (json_int_t)task->first, "count",
                      (json_int_t)task->count, "needs", json_of_ints(task->needs, task->n_needs),
                      "critical", is_critical(plan, t), "help", help != NULL ? help : "");

        add_items(task, doc);
        add_rules(task, doc);
        json_array_append_new(list, doc);
    }
    return list;
}

static json_t *json_of_points(const struct fr_layout_edge *e)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < e->n_points; i++) {
        json_array_append_new(list, json_integer(e->points[i].x));
        json_array_append_new(list, json_integer(e->points[i].y));
    }
    return list;
}

static json_t *json_of_layout(const struct fr_plan *plan, const struct fr_layout *l)
{
    json_t *boxes = json_array(), *edges = json_array();

    for (uint32_t i = 0; i < l->n_boxes; i++)
        json_array_append_new(boxes,
                              json_pack("{s:o, s:i, s:i, s:i}", "tasks",
                                        json_of_ints(l->boxes[i].tasks, l->boxes[i].n_tasks), "x",
                                        l->boxes[i].x, "y", l->boxes[i].y, "w", l->boxes[i].w));
    for (uint32_t i = 0; i < l->n_edges; i++)
        json_array_append_new(
            edges, json_pack("{s:I, s:I, s:b, s:o}", "from", (json_int_t)l->edges[i].from, "to",
                             (json_int_t)l->edges[i].to, "critical", l->edges[i].critical, "points",
                             json_of_points(&l->edges[i])));
    return json_pack("{s:i, s:i, s:I, s:I, s:o, s:o, s:o}", "width", l->width, "height", l->height,
                     "layers", (json_int_t)l->n_layers, "hooks", (json_int_t)l->n_hooks, "boxes",
                     boxes, "edges", edges, "tasks", json_of_tasks(plan));
}

/* "7,23": numbers of tasks that are not folded. */
static enum fr_rc take_apart(struct view *v, const struct fr_plan *plan, const bool **out,
                             struct fr_err *err)
{
    bool *apart = fr_arena_array(&v->arena, plan->n_tasks + 1, sizeof(*apart));
    const char *text = v->text->args[HOST_ARG_APART];
    int64_t task;

    if (apart == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a picture");
    for (size_t n; text != NULL && *text != '\0'; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        if (fr_parse_i64((struct fr_str){text, n}, &task, NULL) != FR_OK || task < 0 ||
            task >= (int64_t)plan->n_tasks)
            return fr_fail(err, FR_USAGE, "'apart' must be numbers of tasks below %u, not '%.*s'",
                           plan->n_tasks, (int)(n < 40 ? n : 40), text);
        apart[task] = true;
    }
    *out = apart;
    return FR_OK;
}

static enum fr_rc draw(struct view *v, const struct fr_plan *plan, json_t **out, struct fr_err *err)
{
    struct fr_layout_opts opts = {.hooks = true, .alike = ALIKE};
    struct fr_layout *layout = NULL;
    enum fr_rc rc = take_apart(v, plan, &opts.apart, err);

    if (rc == FR_OK)
        rc = fr_plan_layout(plan, &opts, &v->arena, &layout, err);
    if (rc == FR_OK)
        *out = json_of_layout(plan, layout);
    return rc;
}

enum fr_rc view_graph(struct view *v, struct fr_err *err)
{
    struct fr_stored stored = {0};
    enum fr_rc rc = fr_run_stored(v->st, &v->run, &stored, err);

    if (rc == FR_OK)
        rc = draw(v, stored.plan, &v->doc, err);
    fr_run_stored_finish(&stored);
    return rc;
}

/* ---- parameters ---- */

static const char *type_name(enum fr_type type)
{
    static const char *const names[] = {"string", "int",      "float",  "bool", "duration", "size",
                                        "path",   "nodepath", "choice", "list", "map"};

    return names[type];
}

/* Of a secret only that there is one. */
static json_t *json_of_params(const struct fr_spec *spec)
{
    static const char *const from[] = {"env", "file", "command"};
    json_t *list = json_array();

    for (size_t i = 0; i < spec->n_params; i++) {
        const struct fr_param *p = &spec->params[i];

        json_array_append_new(list, json_pack("{s:s, s:s, s:s*, s:s*, s:s, s:s, s:o, s:b, s:b}",
                                              "name", p->name, "type", type_name(p->type), "value",
                                              p->value, "default", p->preset, "help",
                                              p->help != NULL ? p->help : "", "from",
                                              p->given ? "given" : "default", "choices",
                                              fr_json_texts(p->choices, p->n_choices), "required",
                                              p->preset == NULL, "secret", false));
    }
    for (size_t i = 0; i < spec->n_secrets; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s, s:b}", "name", spec->secrets[i].name,
                                        "type", "secret", "value", "•••", "from",
                                        from[spec->secrets[i].from], "secret", true));
    return list;
}

enum fr_rc view_params(struct view *v, struct fr_err *err)
{
    struct fr_stored stored = {0};
    enum fr_rc rc = fr_run_stored(v->st, &v->run, &stored, err);

    if (rc == FR_OK)
        v->doc = json_pack("{s:o}", "items", json_of_params(stored.spec));
    fr_run_stored_finish(&stored);
    return rc;
}

enum fr_rc view_spec(struct view *v, struct fr_err *err)
{
    struct fr_buf text = {0};
    char now[FR_SHA256_TEXT];
    const char *hash = v->run.spec_hash;
    enum fr_rc rc;

    if (v->run.spec_hash[0] == '\0')
        return fr_fail(err, FR_NOTFOUND, "run %lld has no pipeline that could be read",
                       (long long)v->run.no);
    if (v->text->args[0] == NULL) {
        rc = fr_blob_get(v->home, hash, &text, err);
    } else if ((rc = fr_file_read(v->run.source, FR_YAML_MAX_BYTES, &text, err)) == FR_OK) {
        fr_sha256(text.p != NULL ? text.p : "", text.n, now);
        hash = now;
    }
    if (rc == FR_OK && !fr_utf8_valid(text.p != NULL ? text.p : "", text.n))
        rc = fr_fail(err, FR_CORRUPT, "%s is no text", v->run.source);
    if (rc == FR_OK)
        v->doc = json_pack("{s:s, s:s, s:o}", "file", v->run.source, "sha256", hash, "text",
                           json_stringn(text.p != NULL ? text.p : "", text.n));
    fr_buf_finish(&text);
    return rc;
}

/* ---- a pipeline by its name ---- */

/* The file as a run that is asked for over TCP would read it now; else why it could not, and the
 * copy of the newest run. */
static enum fr_rc load_now(struct view *v, struct fr_stored *out, const char **error,
                           struct fr_err *err)
{
    const char *source = v->run.source, *slash = strrchr(source, '/');
    size_t n = slash == NULL || slash == source ? 1 : (size_t)(slash - source);
    struct fr_spec_opts opts = {.path = source,
                                .cwd = fr_arena_text(&v->arena, slash != NULL ? source : "/", n),
                                .getenv = v->text->getenv,
                                .getenv_self = v->text->getenv_self};
    struct fr_issues issues = {0};
    struct fr_err why = {0};
    enum fr_rc rc = opts.cwd != NULL ? fr_spec_load(&opts, &out->spec, &issues, &why)
                                     : fr_fail(&why, FR_NOMEM, "no memory for a path");

    if (rc == FR_OK)
        rc = fr_plan_make(out->spec, &out->arena, &out->plan, &why);
    if (rc != FR_OK) {
        *error = fr_arena_dup(&v->arena, issues.n > 0 ? issues.lines[0] : why.msg);
        fr_run_stored_finish(out);
        rc = v->run.no > 0 ? fr_run_stored(v->st, &v->run, out, err) : FR_OK;
    }
    fr_issues_finish(&issues);
    return rc;
}

static json_t *json_of_schedules(struct view *v, const struct fr_schedule_rows *rows)
{
    json_t *list = json_array();

    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_schedule_row *r = &rows->rows[i];
        char tag[SCHEDULE_TAG];

        schedule_tag(r, tag);
        if (strcmp(r->pipeline, v->text->args[0]) == 0)
            json_array_append_new(list,
                                  json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I}", "id",
                                            (json_int_t)r->id, "etag", tag, "pipeline", r->pipeline,
                                            "name", r->name, "rule", r->rule, "state",
                                            fr_word(&fr_schedule_state_words, r->state),
                                            "state_wall", (json_int_t)r->state_wall, "note",
                                            r->note, "gone_wall", (json_int_t)r->gone_wall));
    }
    return list;
}

/* Its newest run, a schedule of it, or a folder says which file it is. */
enum fr_rc view_find_pipeline(struct view *v, const struct fr_schedule_rows *schedules,
                              struct fr_err *err)
{
    struct fr_run_filter f = {.before = INT64_MAX,
                              .pipeline = v->text->args[0],
                              .state = "",
                              .origin = "",
                              .text = "",
                              .limit = 1};
    struct fr_run_rows rows = {0};
    enum fr_rc rc = fr_store_runs_where(v->st, &f, &v->arena, &rows, err);

    if (rc != FR_OK)
        return rc;
    if (rows.n > 0) {
        v->run = rows.rows[0];
        return FR_OK;
    }
    for (size_t i = 0; i < schedules->n; i++)
        if (strcmp(schedules->rows[i].pipeline, f.pipeline) == 0) {
            v->run = (struct fr_run_row){.source = schedules->rows[i].source};
            return FR_OK;
        }
    if (v->text->args[1] == NULL)
        return fr_fail(err, FR_NOTFOUND, "there is no pipeline '%s'", f.pipeline);
    v->run = (struct fr_run_row){.source = v->text->args[1]};
    return FR_OK;
}

enum fr_rc view_pipeline(struct view *v, struct fr_err *err)
{
    struct fr_schedule_rows schedules = {0};
    struct fr_stored now = {0};
    const char *error = NULL;
    json_t *graph = NULL;
    enum fr_rc rc = fr_store_schedules(v->st, &v->arena, &schedules, err);

    if (rc == FR_OK)
        rc = view_find_pipeline(v, &schedules, err);
    if (rc == FR_OK)
        rc = load_now(v, &now, &error, err);
    if (rc == FR_OK && now.plan != NULL)
        rc = draw(v, now.plan, &graph, err);
    if (rc == FR_OK)
        v->doc =
            json_pack("{s:s, s:s, s:s, s:s*, s:o, s:o*, s:o}", "name", v->text->args[0], "file",
                      v->run.source, "description",
                      now.spec != NULL && now.spec->help != NULL ? now.spec->help : "", "error",
                      error, "params", now.spec != NULL ? json_of_params(now.spec) : json_array(),
                      "graph", graph, "schedules", json_of_schedules(v, &schedules));
    fr_run_stored_finish(&now);
    return rc;
}

/* ---- a file that is written ---- */

/* Whoever writes a file is not to read the host's variables by it. */
static const char *no_env(void *self, const char *name)
{
    (void)self, (void)name;
    return NULL;
}

static json_t *json_of_lines(const char *const *lines, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, fr_problem_issue(lines[i]));
    return list;
}

enum fr_rc view_check(struct view *v, struct fr_err *err)
{
    struct fr_source source = {.path = "/pipeline.yaml", .text = fr_str_of(v->text->args[0])};
    struct fr_spec_opts opts = {.path = source.path,
                                .cwd = "/",
                                .alone = true,
                                .sources = &source,
                                .n_sources = 1,
                                .getenv = no_env};
    struct fr_issues issues = {0};
    struct fr_spec *spec = NULL;
    struct fr_plan *plan = NULL;
    struct fr_err why = {0};
    const char *text = why.msg;
    json_t *graph = NULL;
    enum fr_rc rc = fr_spec_load(&opts, &spec, &issues, &why);

    if (rc == FR_OK)
        rc = fr_plan_make(spec, &v->arena, &plan, &why);
    if (rc == FR_OK)
        rc = draw(v, plan, &graph, &why);
    if (rc == FR_OK)
        v->doc = json_pack("{s:b, s:[], s:o, s:o*}", "valid", true, "issues", "notes",
                           json_of_lines(spec->notes, spec->n_notes), "graph", graph);
    else if (rc == FR_USAGE)
        v->doc = json_pack("{s:b, s:o, s:[]}", "valid", false, "issues",
                           issues.n > 0 ? json_of_lines(issues.lines, issues.n)
                                        : json_of_lines(&text, 1),
                           "notes");
    else
        fr_fail(err, rc, "%s", why.msg);
    fr_spec_destroy(spec);
    fr_issues_finish(&issues);
    return rc == FR_USAGE ? FR_OK : rc;
}
