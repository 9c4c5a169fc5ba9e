/* Requests for views of the store (text.h), and their answers. */
#include "engine/host/call.h"
#include "engine/host/schedules.h"

#include <stdlib.h>

enum { RUNS_USUAL = 50, RUNS_MOST = 200 };

enum fr_rc answer_view(struct call *c, const struct host_text *want, struct fr_err *err)
{
    struct host_job *job = jobs_of(c->host, c->req->waiter);
    struct host_result result;
    struct fr_issues none;
    enum fr_rc rc;

    if (job == NULL || !jobs_over(job)) {
        fr_buf_finish(&c->res->etag); /* that of the answer comes with it */
        return answer_later(c, job != NULL ? job : jobs_text(c->host, want), err);
    }
    if ((rc = jobs_take(job, &result, &none, err)) != FR_OK)
        return rc;
    c->res->status = 200;
    c->res->type = "application/json";
    c->res->body = result.text.json;
    return FR_OK;
}

/* Whether the reader has what it asks for: then that is the answer. etag is quoted. */
static bool is_known(struct call *c, const char *etag)
{
    fr_buf_text(&c->res->etag, etag);
    if (strcmp(etag, c->req->if_none_match) != 0)
        return false;
    c->res->status = 304;
    return true;
}

/* A view that changes with each event of the run. */
static enum fr_rc answer_live(struct call *c, const struct host_text *want, struct fr_err *err)
{
    int64_t seq = 0;
    char etag[64];
    enum fr_rc rc = fr_store_event_last(c->host->store, c->run.id, &seq, err);

    if (rc != FR_OK)
        return rc;
    snprintf(etag, sizeof(etag), "\"%lld.%u.%lld%s\"", (long long)seq,
             c->run.host == (int64_t)c->host->env.epoch ? c->host->env.epoch : 0,
             (long long)c->run.priority, c->run.pinned != 0 ? "p" : "");
    return is_known(c, etag) ? FR_OK : answer_view(c, want, err);
}

static enum fr_rc answer_kept(struct call *c, const struct host_text *want, const char *etag,
                              struct fr_err *err)
{
    enum fr_rc rc;

    if (jobs_of(c->host, c->req->waiter) == NULL &&
        fixed_get(&c->host->fixed, (int)want->view, etag, &c->res->body)) {
        c->res->status = 200;
        c->res->type = "application/json";
        return FR_OK;
    }
    rc = answer_view(c, want, err);
    if (rc == FR_OK && c->res->status == 200)
        fixed_put(&c->host->fixed, (int)want->view, etag, &c->res->body);
    return rc;
}

/* A view of what the run was begun with, which changes only with its file. */
static enum fr_rc answer_fixed(struct call *c, enum host_view view, struct fr_err *err)
{
    struct host_text want = {.view = view, .run = c->run.id};
    char *text = fr_arena_fmt(&c->arena, "%s %s %s\n%s\n%s", c->run.spec_hash,
                              c->run.inventory_hash, c->run.params, c->run.source, c->run.folder);
    char hash[FR_SHA256_TEXT], etag[20];

    if (text == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    fr_sha256(text, strlen(text), hash);
    snprintf(etag, sizeof(etag), "\"%.16s\"", hash);
    return is_known(c, etag) ? FR_OK : answer_kept(c, &want, etag, err);
}

/* ?form=row */
enum fr_rc get_run(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    const char *form = query_text(c, "form");

    (void)issues;
    if (form != NULL && strcmp(form, "row") != 0)
        return fr_fail(err, FR_USAGE, "'form' must be row, not '%s'", form);
    return answer_live(
        c, &(struct host_text){.view = HOST_VIEW_RUN, .run = c->run.id, .args = {form}}, err);
}

/* ?form=columns&task=&node=&state= */
enum fr_rc get_instances(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    const char *form = query_text(c, "form");
    struct host_text want = {.view = HOST_VIEW_INSTS, .run = c->run.id};

    (void)issues;
    if (form != NULL && strcmp(form, "columns") != 0 && strcmp(form, "rows") != 0)
        return fr_fail(err, FR_USAGE, "'form' must be columns or rows, not '%s'", form);
    if (form != NULL && form[0] == 'c')
        want.view = HOST_VIEW_COLUMNS;
    want.args[0] = query_text(c, "task");
    want.args[1] = query_text(c, "node");
    want.args[2] = query_text(c, "state");
    return answer_live(c, &want, err);
}

enum fr_rc get_outputs(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    (void)issues;
    return answer_live(c, &(struct host_text){.view = HOST_VIEW_OUTPUTS, .run = c->run.id}, err);
}

enum fr_rc get_artifacts(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    (void)issues;
    return answer_live(c, &(struct host_text){.view = HOST_VIEW_ARTIFACTS, .run = c->run.id}, err);
}

enum fr_rc get_graph(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    (void)issues;
    return answer_fixed(c, HOST_VIEW_GRAPH, err);
}

enum fr_rc get_params(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    (void)issues;
    return answer_fixed(c, HOST_VIEW_PARAMS, err);
}

/* ?form=now: the file as it is now */
enum fr_rc get_spec(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    const char *form = query_text(c, "form");

    (void)issues;
    if (form == NULL)
        return answer_fixed(c, HOST_VIEW_SPEC, err);
    if (strcmp(form, "now") != 0)
        return fr_fail(err, FR_USAGE, "'form' must be now, not '%s'", form);
    return answer_view(
        c, &(struct host_text){.view = HOST_VIEW_SPEC, .run = c->run.id, .args = {form}}, err);
}

/* ?state=&pipeline=&origin=&q=&before=&schedule=&since=&until=&limit=&count=1; times in ms */
enum fr_rc get_runs(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    static const char *const texts[] = {"state", "pipeline", "origin", "q"};
    static const char *const numbers[] = {"before", "schedule", "since", "until", "limit", "count"};
    struct host_text want = {.view = HOST_VIEW_RUNS};
    enum fr_rc rc = FR_OK;

    (void)issues;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        want.args[i] = query_text(c, texts[i]);
    for (size_t i = 0; rc == FR_OK && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        rc = query_number(c, numbers[i],
                          i == 0   ? INT64_MAX
                          : i == 4 ? RUNS_USUAL
                                   : 0,
                          &want.numbers[i], err);
    if (rc == FR_OK && (want.numbers[4] < 1 || want.numbers[4] > RUNS_MOST))
        rc = fr_fail(err, FR_USAGE, "'limit' must be 1 to %d", RUNS_MOST);
    return rc == FR_OK ? answer_view(c, &want, err) : rc;
}

enum fr_rc get_pipelines(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    json_t *served = schedules_pipelines(c->host);
    char *text = served != NULL ? json_dumps(served, JSON_COMPACT) : NULL;
    struct host_text want = {.view = HOST_VIEW_PIPELINES, .args = {text}};
    enum fr_rc rc = text != NULL ? answer_view(c, &want, err)
                                 : fr_fail(err, FR_NOMEM, "no memory for the pipelines");

    (void)issues;
    free(text);
    json_decref(served);
    return rc;
}

/* NAME, NAME/history */
enum fr_rc get_pipeline(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    size_t n = strcspn(c->rest, "/");
    struct host_text want = {.view = HOST_VIEW_PIPELINE};

    (void)issues;
    if (strcmp(c->rest + n, "/history") == 0)
        want.view = HOST_VIEW_HISTORY;
    else if (c->rest[n] != '\0')
        return fr_fail(err, FR_NOTFOUND, "there is nothing at %s", c->req->path);
    want.args[0] = fr_arena_text(&c->arena, c->rest, n);
    if (want.args[0] == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    want.args[1] = schedules_file_of(c->host, want.args[0]);
    want.getenv = c->host->shell.getenv;
    want.getenv_self = c->host->shell.self;
    return answer_view(c, &want, err);
}

enum fr_rc get_queue(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct host_text want = {.view = HOST_VIEW_QUEUE, .limits = c->host->limits};

    (void)issues;
    return answer_view(c, &want, err);
}

enum fr_rc get_pools(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct host_text want = {.view = HOST_VIEW_POOLS, .limits = c->host->limits};

    (void)issues;
    return answer_view(c, &want, err);
}

/* {text}: the file; nothing is stored */
enum fr_rc post_validate(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct host_text want = {.view = HOST_VIEW_CHECK};

    (void)issues;
    if (json_unpack(c->doc, "{s:s !}", "text", &want.args[0]) != 0)
        return fr_fail(err, FR_USAGE, "the body must be {\"text\": \"…\"}");
    return answer_view(c, &want, err);
}
