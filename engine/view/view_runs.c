/* Views of many runs: lists, pipelines, what waits. */
#include "engine/view/rows.h"
#include "engine/view/queue.h"
#include "engine/view/task_summary.h"
#include "engine/view/view.h"
#include "engine/view/why.h"
#include "engine/store/occurrences.h"
#include "engine/store/ready.h"

#include <stdlib.h>

enum { MEDIAN_OF = 20, HISTORY_RUNS = 50, HISTORY_OCCURRENCES = 200, QUEUE_TASKS = 200 };

/* ---- lists ---- */

static const char *arg(const struct view *v, size_t i)
{
    return v->text->args[i] != NULL ? v->text->args[i] : "";
}

/* medians: by pipeline, those that were asked for. */
static enum fr_rc find_median(struct view *v, const char *pipeline, json_t *medians,
                              struct fr_err *err)
{
    int64_t ms = 0;
    enum fr_rc rc = FR_OK;

    if (json_object_get(medians, pipeline) != NULL)
        return FR_OK;
    rc = fr_store_run_median(v->st, pipeline, MEDIAN_OF, &ms, err);
    json_object_set_new(medians, pipeline, json_integer(ms));
    return rc;
}

/* *rows has its counts where they had to be read. */
static enum fr_rc find_summary(struct view *v, const struct fr_run_row *row,
                               struct task_summary *out, struct fr_count_rows *rows,
                               struct fr_err *err)
{
    enum fr_rc rc;

    *rows = (struct fr_count_rows){0};
    if (task_summaries_get(v->text->summaries, row, out))
        return FR_OK;
    if ((rc = fr_store_counts(v->st, row->id, &v->arena, rows, err)) != FR_OK)
        return rc;
    task_summary_make(rows, out);
    task_summaries_put(v->text->summaries, row, out);
    return FR_OK;
}

/* The run, with what its row in a list shows. */
static enum fr_rc add_run(struct view *v, const struct fr_run_row *row, json_t *medians,
                          json_t *items, struct fr_err *err)
{
    struct fr_count_rows rows;
    struct task_summary summary = {.names = 0};
    json_t *doc = json_of_run(v->text->epoch, row);
    enum fr_rc rc = find_summary(v, row, &summary, &rows, err);

    if (rc == FR_OK)
        rc = find_median(v, row->name, medians, err);
    json_object_set_new(doc, "counts", task_summary_counts(&summary));
    json_object_set(doc, "median_ms", json_object_get(medians, row->name));
    json_array_append_new(items, doc);
    return rc;
}

const char *const host_sorts[] = {"newest", "oldest", "longest", "shortest", "ended", NULL};

/* Behind the last row of a page. */
static void put_cursor(const struct fr_run_filter *f, const struct fr_run_row *last,
                       struct fr_buf *out)
{
    const struct fr_run_order *o = &f->order;
    int64_t before = o->by == FR_SORT_NEWEST ? last->no : f->before;

    if (before != INT64_MAX)
        fr_buf_fmt(out, "&before=%lld", (long long)before);
    if (o->by != FR_SORT_NEWEST)
        fr_buf_fmt(out, "&sort=%s&cursor=%lld.%lld.%lld", host_sorts[o->by],
                   (long long)fr_run_key(o, last), (long long)last->no, (long long)o->now_wall);
}

/* "/api/v1/runs?…" with all of the filter. */
static json_t *next_of(const struct view *v, const struct fr_run_filter *f,
                       const struct fr_run_row *last)
{
    static const char *const names[] = {"state", "pipeline", "origin", "q"};
    static const char *const numbers[] = {"schedule", "since", "until"};
    struct fr_buf b = {0};
    json_t *out;

    fr_buf_fmt(&b, "/api/v1/runs?limit=%zu", f->limit);
    put_cursor(f, last, &b);
    for (size_t i = 0; i < 3; i++)
        if (v->text->numbers[i + 1] != 0)
            fr_buf_fmt(&b, "&%s=%lld", numbers[i], (long long)v->text->numbers[i + 1]);
    for (size_t i = 0; i < 4; i++)
        if (arg(v, i)[0] != '\0') {
            fr_buf_fmt(&b, "&%s=", names[i]);
            for (const char *p = arg(v, i); *p != '\0'; p++)
                fr_buf_fmt(&b, "%%%02x", (unsigned char)*p);
        }
    out = b.bad ? NULL : json_string(b.p);
    fr_buf_finish(&b);
    return out;
}

enum fr_rc view_runs(struct view *v, struct fr_err *err)
{
    const int64_t *n = v->text->numbers;
    struct fr_run_filter f = {.state = arg(v, 0),
                              .pipeline = arg(v, 1),
                              .origin = arg(v, 2),
                              .text = arg(v, 3),
                              .before = n[0],
                              .schedule = n[1],
                              .since_wall = n[2],
                              .until_wall = n[3],
                              .limit = (size_t)n[4],
                              .order = {(enum fr_run_sort)n[6], n[7], n[8], n[9]}};
    struct fr_run_rows rows = {0};
    json_t *items = json_array(), *medians = json_object();
    int64_t count = 0;
    enum fr_rc rc = fr_store_runs_where(v->st, &f, &v->arena, &rows, err);

    v->doc = json_pack("{s:o}", "items", items);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        rc = add_run(v, &rows.rows[i], medians, items, err);
    json_decref(medians);
    if (rc == FR_OK && rows.n > 0 && rows.n == f.limit)
        json_object_set_new(v->doc, "next", next_of(v, &f, &rows.rows[rows.n - 1]));
    if (rc == FR_OK && n[5] != 0 && (rc = fr_store_runs_count(v->st, &f, &count, err)) == FR_OK)
        json_object_set_new(v->doc, "count", json_integer(count));
    return rc;
}

/* ---- pipelines ---- */

static json_t *pipeline_of(json_t *items, const char *name, const char *file)
{
    size_t i;
    json_t *item;

    json_array_foreach(items, i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0)
            return item;
    }
    item = json_pack("{s:s, s:s, s:i}", "name", name, "file", file, "schedules", 0);
    json_array_append_new(items, item);
    return item;
}

enum fr_rc view_pipelines(struct view *v, struct fr_err *err)
{
    struct fr_run_rows runs = {0};
    struct fr_schedule_rows schedules = {0};
    json_t *items = json_array(), *served = NULL, *one;
    size_t at;
    enum fr_rc rc = fr_json_parse(fr_str_of(arg(v, 0)), "the folders", &served, err);

    v->doc = json_pack("{s:o}", "items", items);
    if (rc == FR_OK)
        rc = fr_store_runs_newest(v->st, &v->arena, &runs, err);
    if (rc == FR_OK)
        rc = fr_store_schedules(v->st, &v->arena, &schedules, err);
    for (size_t i = 0; rc == FR_OK && i < runs.n; i++)
        json_object_set_new(pipeline_of(items, runs.rows[i].name, runs.rows[i].source), "last",
                            json_of_run(v->text->epoch, &runs.rows[i]));
    for (size_t i = 0; rc == FR_OK && i < schedules.n; i++) {
        const struct fr_schedule_row *r = &schedules.rows[i];
        json_t *item = pipeline_of(items, r->pipeline, r->source);

        if (r->gone_wall == 0)
            json_object_set_new(
                item, "schedules",
                json_integer(json_integer_value(json_object_get(item, "schedules")) + 1));
    }
    json_array_foreach(served, at, one)
    {
        pipeline_of(items, json_string_value(json_array_get(one, 0)),
                    json_string_value(json_array_get(one, 1)));
    }
    json_decref(served);
    return rc;
}

/* ---- history ---- */

/* The letters of a run for the tasks of the newest, of which newest is the summary. */
static enum fr_rc add_past(struct view *v, const struct fr_run_row *row, json_t *tasks,
                           const struct task_summary *newest, json_t *items, struct fr_err *err)
{
    json_t *doc = json_of_run(v->text->epoch, row);
    struct fr_count_rows rows;
    struct task_summary summary;
    enum fr_rc rc = find_summary(v, row, &summary, &rows, err);

    if (rc == FR_OK && summary.names != newest->names && rows.n == 0)
        rc = fr_store_counts(v->st, row->id, &v->arena, &rows, err);
    if (rc == FR_OK)
        json_object_set_new(doc, "states",
                            summary.names == newest->names ? json_string(summary.letters)
                                                           : task_summary_letters(&rows, tasks));
    json_array_insert_new(items, 0, doc);
    return rc;
}

/* What was decided of instants since the oldest of these runs without one. */
static enum fr_rc add_gaps(struct view *v, const struct fr_schedule_rows *schedules,
                           const struct fr_run_rows *runs, json_t *gaps, struct fr_err *err)
{
    int64_t since = runs->n > 0 ? runs->rows[runs->n - 1].queued_wall : 0;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < schedules->n; i++) {
        struct fr_occurrence_page page = {schedules->rows[i].id, INT64_MAX, HISTORY_OCCURRENCES};
        struct fr_occurrence_rows occurrences = {0};

        if (strcmp(schedules->rows[i].pipeline, arg(v, 0)) != 0)
            continue;
        rc = fr_store_occurrences_before(v->st, &page, &v->arena, &occurrences, err);
        for (size_t k = 0; k < occurrences.n && occurrences.rows[k].at_ms >= since; k++)
            if (occurrences.rows[k].decision != FR_FATE_RAN &&
                occurrences.rows[k].decision != FR_FATE_INVALID)
                json_array_append_new(gaps, fr_row_json(&fr_occurrence_type, &occurrences.rows[k]));
    }
    return rc;
}

/* The last runs, the oldest first; the tasks are those of the newest. */
enum fr_rc view_history(struct view *v, struct fr_err *err)
{
    struct fr_run_filter f = {.before = INT64_MAX,
                              .pipeline = arg(v, 0),
                              .state = "",
                              .origin = "",
                              .text = "",
                              .limit = HISTORY_RUNS};
    struct fr_run_rows rows = {0};
    struct fr_schedule_rows schedules = {0};
    struct fr_count_rows counts = {0};
    struct task_summary newest;
    json_t *items = json_array(), *gaps = json_array(), *tasks;
    enum fr_rc rc = fr_store_runs_where(v->st, &f, &v->arena, &rows, err);

    if (rc == FR_OK)
        rc = fr_store_schedules(v->st, &v->arena, &schedules, err);
    if (rc == FR_OK && rows.n == 0)
        rc = view_find_pipeline(v, &schedules, err);
    if (rc == FR_OK)
        rc = add_gaps(v, &schedules, &rows, gaps, err);
    if (rc == FR_OK && rows.n > 0)
        rc = fr_store_counts(v->st, rows.rows[0].id, &v->arena, &counts, err);
    task_summary_make(&counts, &newest);
    tasks = task_summary_tasks(&counts);
    v->doc = json_pack("{s:o, s:o, s:o}", "tasks", tasks, "items", items, "gaps", gaps);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        rc = add_past(v, &rows.rows[i], tasks, &newest, items, err);
    return rc;
}

/* ---- what waits ---- */

/* "" when it waits for nothing that is known. */
static const char *why_queued(struct view *v, const struct fr_run_row *row)
{
    struct fr_queue_limits limits = {.home = &v->text->limits};
    struct fr_stored stored = {0};
    struct fr_buf why = {0};
    struct fr_err err = {0};
    const char *text = "";
    enum fr_rc rc = fr_run_stored(v->st, row, &stored, &err);

    if (rc == FR_OK) {
        limits.pipeline = stored.spec->max_active_runs;
        limits.schedule = fr_run_stored_schedule(&stored, row);
        rc = fr_queue_why(v->st, &limits, row, &why, &err);
    }
    if (rc != FR_OK)
        text = fr_arena_fmt(&v->arena, "why cannot be said: %s", err.msg);
    else if (why.n > 0 && !why.bad)
        text = fr_arena_text(&v->arena, why.p, why.n);
    fr_buf_finish(&why);
    fr_run_stored_finish(&stored);
    return text != NULL ? text : "";
}

/* Tasks of the run that are ready: what is booked has not begun, either. */
static enum fr_rc add_ready(struct view *v, const struct fr_run_row *run, json_t *tasks,
                            struct fr_err *err)
{
    bool any = false;
    struct fr_inst_rows rows = {0};
    struct fr_stored stored = {0};
    struct fr_why why = {0};
    struct fr_err unread = {0};
    enum fr_rc rc = fr_store_any_ready(v->st, run->id, &any, err);

    if (rc != FR_OK || !any || json_array_size(tasks) >= QUEUE_TASKS)
        return rc;
    rc = fr_store_insts(v->st, run->id, &v->arena, &rows, err);
    if (rc == FR_OK && fr_run_stored(v->st, run, &stored, &unread) == FR_OK)
        rc = fr_why_open(&why, v->st, run->id, stored.plan, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n && json_array_size(tasks) < QUEUE_TASKS; i++) {
        const struct fr_inst_row *r = &rows.rows[i];
        struct fr_buf text = {0};

        if (r->state != FR_ST_READY)
            continue;
        if (stored.plan != NULL && r->reason[0] == '\0')
            fr_why_ready(&why, r, &text);
        json_array_append_new(tasks, json_pack("{s:I, s:s, s:s, s:s, s:s}", "run",
                                               (json_int_t)run->no, "key", r->key, "task", r->task,
                                               "node", r->node, "why_waiting",
                                               text.n > 0 && !text.bad ? text.p : r->reason));
        fr_buf_finish(&text);
    }
    fr_why_finish(&why);
    fr_run_stored_finish(&stored);
    return rc;
}

enum fr_rc view_queue(struct view *v, struct fr_err *err)
{
    struct fr_run_rows rows = {0};
    json_t *items = json_array(), *tasks = json_array();
    enum fr_rc rc = fr_store_runs_open(v->st, &v->arena, &rows, err);

    v->doc = json_pack("{s:o, s:o}", "items", items, "tasks", tasks);
    if (rc == FR_OK && rows.n > 1)
        qsort(rows.rows, rows.n, sizeof(*rows.rows), fr_queue_order);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_run_row *r = &rows.rows[i];

        if (r->state == FR_RUN_QUEUED) {
            json_t *doc = json_of_run(v->text->epoch, r);

            json_object_set_new(doc, "why_waiting", json_string(why_queued(v, r)));
            json_array_append_new(items, doc);
        } else {
            rc = add_ready(v, r, tasks, err);
        }
    }
    return rc;
}

/* ---- pools ---- */

static json_t *json_of_pool(const struct fr_pool *pool, const struct fr_run_rows *open)
{
    json_t *by = json_array();
    json_int_t waiting = 0;

    for (size_t i = 0; i < open->n; i++) {
        const struct fr_run_row *r = &open->rows[i];

        if (strcmp(r->pool, pool->name) != 0)
            continue;
        if (r->state == FR_RUN_QUEUED)
            waiting++;
        else
            json_array_append_new(by, json_integer(r->no));
    }
    return json_pack("{s:s, s:i, s:I, s:o, s:I}", "name", pool->name, "limit", pool->runs, "used",
                     (json_int_t)json_array_size(by), "runs", by, "waiting", waiting);
}

enum fr_rc view_pools(struct view *v, struct fr_err *err)
{
    const struct fr_limits *limits = &v->text->limits;
    struct fr_run_rows rows = {0};
    json_t *items = json_array();
    enum fr_rc rc = fr_store_runs_open(v->st, &v->arena, &rows, err);

    v->doc = json_pack("{s:o}", "items", items);
    for (size_t i = 0; rc == FR_OK && i < limits->n_pools; i++)
        json_array_append_new(items, json_of_pool(&limits->pools[i], &rows));
    return rc;
}
