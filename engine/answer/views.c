/* Requests for views of the store (text.h), and their answers. */
#include "engine/answer/long_poll.h"
#include "engine/answer/call.h"
#include "engine/api/range.h"
#include "engine/timetable/schedules.h"
#include "engine/store/lists.h"
#include "engine/store/outbox.h"

#include <stdlib.h>

enum { RUNS_USUAL = 50, RUNS_MOST = 200 };

/* known: NULL, or gets the version of the response's text, once the text is ready. */
static enum fr_rc take_view(struct call *c, const struct host_text *want, struct host_text *known,
                            struct fr_err *err)
{
    struct host_job *job = job_of(c->host, c->req->waiter);
    struct host_text text;
    enum fr_rc rc;

    if (job == NULL || !job_over(job)) {
        fr_buf_finish(&c->res->etag); /* the response has its own */
        return answer_later(c, job != NULL ? job : view_begin(c->host, want), err);
    }
    if ((rc = job_result(job, &c->issues, err)) == FR_OK) {
        view_take(job, &text);
        c->res->status = 200;
        c->res->type = "application/json";
        c->res->body = text.json;
        if (known != NULL)
            *known = text;
    }
    job_drop(job);
    return rc;
}

enum fr_rc answer_view(struct call *c, const struct host_text *want, struct fr_err *err)
{
    return take_view(c, want, NULL, err);
}

static void set_tag(struct call *c, const char *etag)
{
    fr_buf_cut(&c->res->etag, c->res->etag.n);
    fr_buf_text(&c->res->etag, etag);
}

/* Whether the reader has that version already; the response then says so. etag is quoted. */
static bool is_known(struct call *c, const char *etag)
{
    set_tag(c, etag);
    if (!fr_etag_known(c->req->if_none_match, etag))
        return false;
    c->res->status = 304;
    return true;
}

/* The ETag follows the version of the text: newer events may exist meanwhile. */
enum { TAG_BYTES = 64 };

static const char *tag_of_run(const struct call *c, const struct host_text *known,
                              char out[TAG_BYTES])
{
    snprintf(out, TAG_BYTES, "\"%lld.%u.%lld%s\"", (long long)known->seq,
             known->driven ? c->host->env.epoch : 0, (long long)known->priority,
             known->pinned ? "p" : "");
    return out;
}

/* A view that changes with each event of the run. */
static enum fr_rc answer_live(struct call *c, const struct host_text *want, struct fr_err *err)
{
    struct host_text known = {.priority = c->run.priority,
                              .pinned = c->run.pinned != 0,
                              .driven = c->run.host == (int64_t)c->host->env.epoch};
    char tag[TAG_BYTES];
    enum fr_rc rc = fr_store_event_last(c->host->env.store, c->run.id, &known.seq, err);

    if (rc != FR_OK || is_known(c, tag_of_run(c, &known, tag)))
        return rc;
    rc = take_view(c, want, &known, err);
    if (rc == FR_OK && c->res->status == 200)
        set_tag(c, tag_of_run(c, &known, tag));
    return rc;
}

static const char *tag_of_store(const struct call *c, uint64_t changes, char out[TAG_BYTES])
{
    snprintf(out, TAG_BYTES, "W/\"%u.%llu\"", c->host->env.epoch, (unsigned long long)changes);
    return out;
}

/* A view of many runs, which changes with the store. */
static enum fr_rc answer_list(struct call *c, const struct host_text *want, struct fr_err *err)
{
    struct host_text known = {.changes = fr_store_changes(c->host->env.store)};
    char tag[TAG_BYTES];
    enum fr_rc rc;

    if (is_known(c, tag_of_store(c, known.changes, tag)))
        return FR_OK;
    rc = take_view(c, want, &known, err);
    if (rc == FR_OK && c->res->status == 200)
        set_tag(c, tag_of_store(c, known.changes, tag));
    return rc;
}

/* A view of the run's pipeline and parameters, which changes only with its file. */
static enum fr_rc answer_fixed(struct call *c, enum host_view view, struct fr_err *err)
{
    struct host_answers *a = answers_of(c->host);
    struct host_text want = {.view = view, .run = c->run.id}, known = {.seq = 0};
    char tag[RESPONSE_TAG];
    enum fr_rc rc;

    response_cache_tag(&c->run, tag);
    if (is_known(c, tag))
        return FR_OK;
    if (job_of(c->host, c->req->waiter) == NULL &&
        response_cache_get(&a->responses, (int)view, tag, &c->res->body)) {
        c->res->status = 200;
        c->res->type = "application/json";
        return FR_OK;
    }
    rc = take_view(c, &want, &known, err);
    if (rc == FR_OK && c->res->status == 200) {
        set_tag(c, known.fixed);
        response_cache_put(&a->responses, (int)view, known.fixed, &c->res->body);
    }
    return rc;
}

/* The run's row without its tasks: responded at once. The row is read after the number of its last
 * event, so it is never older than that event. */
static enum fr_rc answer_row(struct call *c, struct fr_err *err)
{
    struct host_text known = {0};
    char id[FR_ID_TEXT], tag[TAG_BYTES];
    json_t *doc;
    enum fr_rc rc = fr_store_event_last(c->host->env.store, c->run.id, &known.seq, err);

    fr_id_text(c->run.id, id);
    if (rc == FR_OK)
        rc = fr_store_run_find(c->host->env.store, id, &c->arena, &c->run, err);
    known.priority = c->run.priority;
    known.pinned = c->run.pinned != 0;
    known.driven = c->run.host == (int64_t)c->host->env.epoch;
    if (rc != FR_OK || is_known(c, tag_of_run(c, &known, tag)))
        return rc;
    doc = json_of_run(c->host->env.epoch, &c->run);
    json_object_set_new(doc, "seq", json_integer(known.seq));
    return answer_json(c, 200, doc, err);
}

/* ?form=row&seq= */
enum fr_rc get_runs_run(struct call *c, struct fr_err *err)
{
    const char *form = query_text(c, "form");
    int64_t seq;
    enum fr_rc rc = query_number(c, "seq", 0, &seq, err);

    if (rc != FR_OK || (query_text(c, "seq") != NULL && !long_poll_over(c, seq, &rc, err)))
        return rc;
    if (form != NULL)
        return answer_row(c, err);
    return answer_live(c, &(struct host_text){.view = HOST_VIEW_RUN, .run = c->run.id}, err);
}

/* ?form=columns&task=&node=&state= */
enum fr_rc get_runs_run_instances(struct call *c, struct fr_err *err)
{
    const char *form = query_text(c, "form");
    struct host_text want = {.view = HOST_VIEW_INSTS, .run = c->run.id};

    if (form != NULL && form[0] == 'c')
        want.view = HOST_VIEW_COLUMNS;
    want.args[0] = query_text(c, "task");
    want.args[1] = query_text(c, "node");
    want.args[2] = query_text(c, "state");
    return answer_live(c, &want, err);
}

enum fr_rc get_runs_run_outputs(struct call *c, struct fr_err *err)
{
    return answer_live(c, &(struct host_text){.view = HOST_VIEW_OUTPUTS, .run = c->run.id}, err);
}

enum fr_rc get_runs_run_artifacts(struct call *c, struct fr_err *err)
{
    return answer_live(c, &(struct host_text){.view = HOST_VIEW_ARTIFACTS, .run = c->run.id}, err);
}

/* ?apart= */
enum fr_rc get_runs_run_graph(struct call *c, struct fr_err *err)
{
    struct host_text want = {.view = HOST_VIEW_GRAPH, .run = c->run.id};

    want.args[HOST_ARG_APART] = query_text(c, "apart");
    return want.args[HOST_ARG_APART] != NULL ? answer_view(c, &want, err)
                                             : answer_fixed(c, HOST_VIEW_GRAPH, err);
}

enum fr_rc get_runs_run_params(struct call *c, struct fr_err *err)
{
    return answer_fixed(c, HOST_VIEW_PARAMS, err);
}

/* ?form=now: the file as it is now */
enum fr_rc get_runs_run_spec(struct call *c, struct fr_err *err)
{
    const char *form = query_text(c, "form");

    if (form == NULL)
        return answer_fixed(c, HOST_VIEW_SPEC, err);
    return answer_view(
        c, &(struct host_text){.view = HOST_VIEW_SPEC, .run = c->run.id, .args = {form}}, err);
}

/* "KEY.NO.NOW" of next: the start of a page of sorted runs. */
static bool read_cursor(const char *text, int64_t out[3])
{
    for (size_t i = 0; i < 3; i++) {
        size_t n = strcspn(text, ".");

        if (fr_parse_i64((struct fr_str){text, n}, &out[i], NULL) != FR_OK ||
            (text[n] == '.') != (i < 2))
            return false;
        text += n + 1;
    }
    return out[1] > 0 && out[2] > 0;
}

/* ?sort=&cursor=: as numbers of the view. */
static enum fr_rc take_order(const struct call *c, int64_t numbers[HOST_VIEW_NUMBERS],
                             struct fr_err *err)
{
    const char *sort = query_text(c, "sort"), *cursor = query_text(c, "cursor");
    int64_t at[3] = {0, 0, fr_sys.wall_ms()};
    int64_t by = 0;

    while (sort != NULL && strcmp(host_sorts[by], sort) != 0) /* query.c has checked the word */
        by++;
    if (cursor != NULL && (by == FR_SORT_NEWEST || !read_cursor(cursor, at)))
        return fr_fail(err, FR_USAGE, "'cursor' is none of 'next' of such a list");
    numbers[6] = by;
    numbers[7] = at[2];
    numbers[8] = at[0];
    numbers[9] = at[1];
    return FR_OK;
}

/* ?state=&pipeline=&origin=&q=&before=&schedule=&since=&until=&limit=&count=1&sort=; times in ms.
 * Durations change without a change of the store. */
enum fr_rc get_runs(struct call *c, struct fr_err *err)
{
    static const char *const texts[] = {"state", "pipeline", "origin", "q"};
    static const char *const numbers[] = {"before", "schedule", "since", "until", NULL, "count"};
    struct host_text want = {.view = HOST_VIEW_RUNS};
    enum fr_rc rc = take_order(c, want.numbers, err);

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        want.args[i] = query_text(c, texts[i]);
    for (size_t i = 0; rc == FR_OK && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i] != NULL)
            rc = query_number(c, numbers[i], i == 0 ? INT64_MAX : 0, &want.numbers[i], err);
    if (rc == FR_OK)
        rc = query_range(c, "limit", (struct query_range){1, RUNS_MOST, RUNS_USUAL},
                         &want.numbers[4], err);
    if (rc != FR_OK)
        return rc;
    return want.numbers[6] == FR_SORT_LONGEST || want.numbers[6] == FR_SORT_SHORTEST
               ? answer_view(c, &want, err)
               : answer_list(c, &want, err);
}

enum fr_rc get_pipelines(struct call *c, struct fr_err *err)
{
    json_t *served = schedules_pipelines(c->host);
    char *text = served != NULL ? json_dumps(served, JSON_COMPACT) : NULL;
    struct host_text want = {.view = HOST_VIEW_PIPELINES, .args = {text}};
    enum fr_rc rc = text != NULL ? answer_view(c, &want, err)
                                 : fr_fail(err, FR_NOMEM, "no memory for the pipelines");

    free(text);
    json_decref(served);
    return rc;
}

/* NAME?apart=, NAME/history */
enum fr_rc get_pipelines_name(struct call *c, struct fr_err *err)
{
    size_t n = strcspn(c->rest, "/");
    struct host_text want = {.view = HOST_VIEW_PIPELINE};

    if (strcmp(c->rest + n, "/history") == 0)
        want.view = HOST_VIEW_HISTORY;
    else if (c->rest[n] != '\0')
        return fr_fail(err, FR_NOTFOUND, "there is nothing at %s", c->req->path);
    want.args[0] = fr_arena_text(&c->arena, c->rest, n);
    if (want.args[0] == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    want.args[1] = schedules_file_of(c->host, want.args[0]);
    want.args[HOST_ARG_APART] = query_text(c, "apart");
    want.getenv = c->host->config.shell.getenv;
    want.getenv_self = c->host->config.shell.self;
    return answer_view(c, &want, err);
}

enum fr_rc get_queue(struct call *c, struct fr_err *err)
{
    struct host_text want = {.view = HOST_VIEW_QUEUE, .limits = c->host->config.limits};

    return answer_view(c, &want, err);
}

enum fr_rc get_pools(struct call *c, struct fr_err *err)
{
    struct host_text want = {.view = HOST_VIEW_POOLS, .limits = c->host->config.limits};

    return answer_view(c, &want, err);
}

/* {text}: checks the text of a file; stores nothing */
enum fr_rc post_pipelines_validate(struct call *c, struct fr_err *err)
{
    struct host_text want = {.view = HOST_VIEW_CHECK};

    if (json_unpack(c->doc, "{s:s !}", "text", &want.args[0]) != 0)
        return fr_fail(err, FR_USAGE, "the body must be {\"text\": \"…\"}");
    return answer_view(c, &want, err);
}

enum fr_rc get_runs_run_events(struct call *c, struct fr_err *err)
{
    struct fr_event_rows rows = {0};
    json_t *items = json_array();
    enum fr_rc rc = query_number(c, "after", 0, &rows.after, err);

    if (rc == FR_OK)
        rc = fr_store_events(c->host->env.store, c->run.id, &c->arena, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        json_array_append_new(items, json_of_event(&rows.rows[i]));
    if (rc == FR_OK)
        return answer_json(
            c, 200, json_pack("{s:o, s:I}", "items", items, "after", (json_int_t)rows.after), err);
    json_decref(items);
    return rc;
}
