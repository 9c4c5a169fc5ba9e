/* Requests to the host, and their answers. One table says which there are. */
#include "engine/host/call.h"
#include "engine/host/problem.h"
#include "engine/host/range.h"
#include "engine/host/retain.h"
#include "engine/store/home.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LIST_MOST = 200, /* rows of one answer */
    LIST_USUAL = 50,
};

enum fr_rc answer_json(struct call *c, int status, json_t *doc, struct fr_err *err)
{
    char *text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;

    json_decref(doc);
    if (text != NULL)
        fr_buf_text(&c->res->body, text);
    free(text);
    if (text == NULL || c->res->body.bad)
        return fr_fail(err, FR_NOMEM, "no memory for an answer");
    c->res->status = status;
    c->res->type = "application/json";
    return FR_OK;
}

static const char *query(const struct call *c, const char *name)
{
    for (size_t i = 0; i < c->req->n_query; i++)
        if (strcmp(c->req->query[i].name, name) == 0)
            return c->req->query[i].value;
    return NULL;
}

/* A whole number of the query, from 0 to most. */
enum fr_rc query_number(const struct call *c, const char *name, int64_t usual, int64_t *out,
                        struct fr_err *err)
{
    const char *text = query(c, name);

    *out = usual;
    if (text == NULL)
        return FR_OK;
    if (fr_parse_i64(fr_str_of(text), out, NULL) != FR_OK || *out < 0)
        return fr_fail(err, FR_USAGE, "'%s' must be a whole number, not '%s'", name, text);
    return FR_OK;
}

/* ---- list, look ---- */

static enum fr_rc answer_run(struct call *c, int status, struct fr_id id, struct fr_err *err)
{
    struct fr_run_row row;
    char text[FR_ID_TEXT];
    enum fr_rc rc;

    fr_id_text(id, text);
    rc = fr_store_run_find(c->host->store, text, &c->arena, &row, err);
    if (rc != FR_OK)
        return rc;
    fr_buf_fmt(&c->res->location, "/api/v1/runs/%s", text);
    return answer_json(c, status, json_of_run(c->host->env.epoch, &row), err);
}

/* The host itself: how long its turns take, and what held the longest. */
static enum fr_rc get_host(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_loop_slow slow = fr_loop_slow(c->host->loop);
    const struct host_meter *m = &c->host->meter;

    (void)issues;
    return answer_json(c, 200,
                       json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "epoch",
                                 (json_int_t)c->host->env.epoch, "runs", (json_int_t)c->host->n,
                                 "turns", (json_int_t)slow.turns, "slow_turns",
                                 (json_int_t)slow.slow, "longest_ms", (json_int_t)slow.longest_ms,
                                 "held_by", m->held_by),
                       err);
}

static enum fr_rc get_runs(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    json_t *items = json_array(), *out;
    struct fr_run_rows rows = {0};
    int64_t limit, before;
    size_t n = 0;
    enum fr_rc rc = query_number(c, "limit", LIST_USUAL, &limit, err);

    (void)issues;
    if (rc == FR_OK)
        rc = query_number(c, "before", INT64_MAX, &before, err);
    if (rc == FR_OK && (limit < 1 || limit > LIST_MOST))
        rc = fr_fail(err, FR_USAGE, "'limit' must be 1 to %d", LIST_MOST);
    if (rc == FR_OK)
        rc = fr_store_runs_before(c->host->store, before, (size_t)limit, &c->arena, &rows, err);
    for (; rc == FR_OK && n < rows.n; n++)
        json_array_append_new(items, json_of_run(c->host->env.epoch, &rows.rows[n]));
    if (rc != FR_OK) {
        json_decref(items);
        return rc;
    }
    out = json_pack("{s:o}", "items", items);
    if (n == (size_t)limit)
        json_object_set_new(out, "next",
                            json_sprintf("/api/v1/runs?limit=%lld&before=%lld", (long long)limit,
                                         (long long)rows.rows[n - 1].no));
    return answer_json(c, 200, out, err);
}

/* It is answered when that is over. */
static enum fr_rc answer_later(struct call *c, struct host_job *job, struct fr_err *err)
{
    if (job == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    jobs_wait(job, c->req->waiter);
    c->res->status = FR_API_LATER;
    return FR_OK;
}

/* Where the path names a run, that is to be repeated. */
/* What the job of that kind found out; it is begun with the first call. *rc FR_OK and false: the
 * request is answered later. */
static bool ask_job(struct call *c, enum host_job_kind kind, struct host_result *out,
                    enum fr_rc *rc, struct fr_err *err)
{
    struct host_job *job = jobs_of(c->host, c->req->waiter);
    struct fr_issues none;

    if (job != NULL && jobs_over(job)) {
        *rc = jobs_take(job, out, &none, err);
        return *rc == FR_OK;
    }
    *rc = answer_later(c, job != NULL ? job : jobs_add(c->host, kind, c->run.id), err);
    return false;
}

/* What may have many rows is read beside the loop. */
static enum fr_rc answer_text(struct call *c, enum host_job_kind kind, struct fr_err *err)
{
    struct host_result result;
    enum fr_rc rc;

    if (!ask_job(c, kind, &result, &rc, err))
        return rc;
    c->res->status = 200;
    c->res->type = "application/json";
    c->res->body = result.text.json;
    if (kind == HOST_TASKS)
        fr_buf_fmt(&c->res->etag, "\"%lld\"", (long long)result.text.seq);
    return FR_OK;
}

static enum fr_rc get_run(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    int64_t seq = 0;
    char etag[24];
    enum fr_rc rc = fr_store_event_last(c->host->store, c->run.id, &seq, err);

    (void)issues;
    if (rc != FR_OK)
        return rc;
    snprintf(etag, sizeof(etag), "\"%lld\"", (long long)seq);
    if (strcmp(etag, c->req->if_none_match) != 0)
        return answer_text(c, HOST_TASKS, err);
    fr_buf_text(&c->res->etag, etag);
    c->res->status = 304;
    return FR_OK;
}

static enum fr_rc get_instances(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    (void)issues;
    return answer_text(c, HOST_INSTS, err);
}

static enum fr_rc get_events(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_event_rows rows = {0};
    json_t *items = json_array();
    enum fr_rc rc = query_number(c, "after", 0, &rows.after, err);

    (void)issues;
    if (rc == FR_OK)
        rc = fr_store_events(c->host->store, c->run.id, &c->arena, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        json_array_append_new(items, json_of_event(&rows.rows[i]));
    if (rc == FR_OK)
        return answer_json(
            c, 200, json_pack("{s:o, s:I}", "items", items, "after", (json_int_t)rows.after), err);
    json_decref(items);
    return rc;
}

/* ---- logs ---- */

static enum fr_rc find_log(struct call *c, struct fr_buf *path, struct fr_err *err)
{
    struct fr_attempt_rows rows;
    const char *end = strchr(c->rest, '/');
    struct fr_id id;
    enum fr_rc rc;

    if (end == NULL || strcmp(end, "/log") != 0 ||
        !fr_id_parse((struct fr_str){c->rest, (size_t)(end - c->rest)}, &id))
        return fr_fail(err, FR_NOTFOUND, "there is nothing at %s", c->req->path);
    if ((rc = fr_store_attempts(c->host->store, c->run.id, &c->arena, &rows, err)) != FR_OK)
        return rc;
    for (size_t i = 0; i < rows.n; i++)
        if (fr_id_eq(rows.rows[i].id, id)) {
            fr_home_at(fr_store_home(c->host->store), FR_HOME_RUN, c->run.id, path);
            fr_buf_fmt(path, "/%s", rows.rows[i].log);
            return path->bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : FR_OK;
        }
    return fr_fail(err, FR_NOTFOUND, "run %lld has no such attempt", (long long)c->run.no);
}

static enum fr_rc get_log(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_buf path = {0};
    struct stat st = {0};
    int fd = -1;
    enum fr_rc rc = find_log(c, &path, err);

    (void)issues;
    if (rc == FR_OK)
        rc = fr_check_unlinked(path.p, strlen(fr_store_home(c->host->store)), err);
    if (rc == FR_OK)
        fd = fr_sys.open(path.p, O_RDONLY | O_NOFOLLOW, 0); /* none: it wrote nothing yet */
    fr_buf_finish(&path);
    if (rc != FR_OK)
        return rc;
    if (fd >= 0 && fr_sys.fstat(fd, &st) != 0)
        st.st_size = 0;
    *c->res = (struct fr_api_response){.type = "text/plain; charset=utf-8",
                                       .file = fd >= 0,
                                       .fd = fd,
                                       .total = (uint64_t)st.st_size};
    switch (fr_range_parse(c->req->range, c->res->total, &c->res->offset, &c->res->bytes)) {
    case FR_RANGE_WHOLE:
        c->res->status = 200;
        return FR_OK;
    case FR_RANGE_PART:
        c->res->status = 206;
        return FR_OK;
    default:
        fr_api_response_finish(c->res);
        c->res->status = 416;
        return FR_OK;
    }
}

/* ---- what users ask of a run ---- */

/* The run, driven by this host from now on if it was not. */
static enum fr_rc drive(struct call *c, struct fr_resume_opts *opts, json_t *shell,
                        struct host_run **out, struct fr_issues *issues, struct fr_err *err)
{
    char id[FR_ID_TEXT];
    enum fr_rc rc;

    if (jobs_making(c->host, c->run.id) != NULL) {
        json_decref(shell);
        return fr_fail(err, FR_BUSY, "run %lld is being submitted: ask again in a moment",
                       (long long)c->run.no);
    }
    *out = host_find(c->host, c->run.id);
    if (*out != NULL && opts->retry && fr_run_over((*out)->run) && !(*out)->mine) {
        fr_host_drop(c->host, (*out)->run);
        *out = NULL;
    }
    if (*out == NULL) {
        fr_id_text(c->run.id, id);
        opts->run = id;
        rc = host_resume(c->host, opts, shell, out, issues, err);
        return rc == FR_OK && opts->retry ? host_settle(c->host, err) : rc;
    }
    if (opts->retry || opts->file != NULL)
        rc = fr_fail(err, FR_BUSY,
                     "run %lld is still going on; cancel it first, or wait for its end",
                     (long long)c->run.no);
    else
        rc = host_give(*out, shell, err);
    json_decref(shell);
    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; i < opts->n_abandon; i++) {
        if ((rc = fr_run_abandon((*out)->run, opts->abandon[i], err)) != FR_OK)
            return rc;
    }
    return opts->n_abandon > 0 ? host_settle(c->host, err) : FR_OK;
}

/* The answer to the first request was lost, perhaps with the host that took it: then this one
 * drives the run. */
static enum fr_rc submit_again(struct call *c, json_t *shell, struct fr_issues *issues,
                               struct fr_err *err)
{
    struct fr_resume_opts opts = {0};
    struct host_run *h = NULL;
    enum fr_rc rc = FR_OK;

    if (strcmp(c->run.state, "over") == 0)
        json_decref(shell);
    else
        rc = drive(c, &opts, shell, &h, issues, err);
    return rc == FR_OK ? answer_run(c, 200, c->run.id, err) : rc;
}

static enum fr_rc begin_submit(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct host_texts texts = {.doc = c->doc, .arena = &c->arena};
    struct fr_again *again = NULL;
    struct host_job *job;
    struct fr_submit submit;
    char id[FR_ID_TEXT];
    enum fr_rc rc = FR_OK;

    if (c->run.no != 0 && (again = fr_arena_alloc(&c->arena, sizeof(*again))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    if (again != NULL)
        rc = fr_run_again(c->host->store, &c->run, &c->arena, again, err);
    if (rc == FR_OK)
        rc = body_submit(c->doc, again, &c->arena, &submit, &texts.shell, err);
    if (rc != FR_OK)
        return rc;
    fr_id_text(submit.id, id);
    if ((job = jobs_making(c->host, submit.id)) != NULL)
        json_decref(texts.shell);
    else if (fr_store_run_find(c->host->store, id, &c->arena, &c->run, NULL) == FR_OK)
        return submit_again(c, texts.shell, issues, err);
    else
        job = host_submit(c->host, &submit, &texts, err);
    return answer_later(c, job, err);
}

static enum fr_rc post_runs(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct host_job *job = jobs_of(c->host, c->req->waiter);
    struct host_result result;
    enum fr_rc rc;

    if (job == NULL)
        return begin_submit(c, issues, err);
    if (!jobs_over(job))
        return answer_later(c, job, err);
    rc = jobs_take(job, &result, issues, err);
    return rc == FR_OK ? answer_run(c, 201, result.run, err) : rc;
}

static enum fr_rc post_resume(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_resume_opts opts;
    struct host_run *h;
    json_t *shell = NULL;
    enum fr_rc rc = body_resume(c->doc, &c->arena, &opts, &shell, err);

    if (rc == FR_OK)
        rc = drive(c, &opts, shell, &h, issues, err);
    return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
}

/* A follower has what the run may lack. */
static enum fr_rc post_shell(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct host_run *h = host_find(c->host, c->run.id);
    json_t *shell = NULL;
    enum fr_rc rc = body_give(c->doc, &shell, err);

    (void)issues;
    if (rc == FR_OK && h == NULL)
        rc = fr_fail(err, FR_BUSY, "run %lld is not driven by this host", (long long)c->run.no);
    if (rc == FR_OK)
        rc = host_give(h, shell, err);
    json_decref(shell);
    return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
}

static enum fr_rc post_cancel(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_resume_opts opts = {0};
    struct host_run *h;
    enum fr_rc rc;

    if (strcmp(c->run.state, "over") == 0 && c->run.rerun_wall == 0)
        return fr_fail(err, FR_BUSY, "run %lld is over (%s)", (long long)c->run.no, c->run.outcome);
    if (strcmp(c->run.state, "over") == 0) {
        rc = fr_store_rerun_drop(c->host->store, c->run.id, FR_RERUN_CANCELLED, err);
        queue_changed(c->host);
        return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
    }
    rc = drive(c, &opts, NULL, &h, issues, err);
    if (rc != FR_OK)
        return rc;
    h->cancelled = true;
    fr_run_say(h->run, "cancelled from another shell: stopping all tasks");
    fr_run_cancel(h->run);
    rc = host_settle(c->host, err);
    return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
}

/* ---- which runs the home keeps ---- */

/* Its files and rows go behind other turns of the loop. */
static enum fr_rc delete_run(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct host_result size;
    enum fr_rc rc;

    (void)issues;
    if (!ask_job(c, HOST_SIZE, &size, &rc, err) ||
        (rc = fr_retain_remove(c->host->store, c->run.id, err)) != FR_OK)
        return rc;
    fr_retain_wake(c->host->retain);
    return answer_json(
        c, 200,
        json_pack("{s:I, s:I}", "no", (json_int_t)c->run.no, "bytes", (json_int_t)size.bytes), err);
}

static enum fr_rc post_pin(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    json_t *pinned = json_object_get(c->doc, "pinned");
    enum fr_rc rc;

    (void)issues;
    if (!json_is_boolean(pinned) || json_object_size(c->doc) != 1)
        return fr_fail(err, FR_USAGE, "the body must be {\"pinned\": true} or false");
    rc = fr_store_run_pin(c->host->store, c->run.id, json_is_true(pinned), err);
    return rc == FR_OK ? answer_run(c, 200, c->run.id, err) : rc;
}

static enum fr_rc post_sweep(struct call *c, struct fr_issues *issues, struct fr_err *err)
{
    struct host_result result;
    enum fr_rc rc;

    (void)issues;
    if (!ask_job(c, HOST_SWEEP, &result, &rc, err))
        return rc;
    return answer_json(c, 200,
                       json_pack("{s:I, s:I}", "files", (json_int_t)result.swept.files, "bytes",
                                 (json_int_t)result.swept.bytes),
                       err);
}

/* ---- which there are ---- */

struct route {
    enum fr_api_method method;
    const char *path; /* "*": a run; "#": a number; ends in "/": more follows, in call.rest */
    handler *run;
};

static const struct route routes[] = {
    {FR_API_GET, "/api/v1/host", get_host},
    {FR_API_GET, "/api/v1/runs", get_runs},
    {FR_API_POST, "/api/v1/runs", post_runs},
    {FR_API_GET, "/api/v1/runs/*", get_run},
    {FR_API_GET, "/api/v1/runs/*/instances", get_instances},
    {FR_API_GET, "/api/v1/runs/*/events", get_events},
    {FR_API_GET, "/api/v1/runs/*/attempts/", get_log},
    {FR_API_POST, "/api/v1/runs/*/resume", post_resume},
    {FR_API_POST, "/api/v1/runs/*/rerun", post_runs},
    {FR_API_POST, "/api/v1/runs/*/shell", post_shell},
    {FR_API_POST, "/api/v1/runs/*/cancel", post_cancel},
    {FR_API_POST, "/api/v1/runs/*/pin", post_pin},
    {FR_API_DELETE, "/api/v1/runs/*", delete_run},
    {FR_API_POST, "/api/v1/sweep", post_sweep},
    {FR_API_GET, "/api/v1/schedules", get_schedules},
    {FR_API_GET, "/api/v1/schedules/#", get_schedule},
    {FR_API_PUT, "/api/v1/schedules/#", put_schedule},
    {FR_API_GET, "/api/v1/schedules/#/fires", get_fires},
    {FR_API_GET, "/api/v1/backfills", get_backfills},
    {FR_API_POST, "/api/v1/backfills", post_backfills},
    {FR_API_POST, "/api/v1/backfills/#/pause", post_backfill_pause},
    {FR_API_POST, "/api/v1/backfills/#/resume", post_backfill_resume},
    {FR_API_POST, "/api/v1/backfills/#/cancel", post_backfill_cancel},
};

/* Whether path is one of pattern's; *run (or schedule) and *rest lie in path. */
static bool matches(const char *pattern, const char *path, struct fr_str *run, const char **rest)
{
    *run = (struct fr_str){0};
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '*' || *pattern == '#') {
            *run = (struct fr_str){path, strcspn(path, "/")};
            path += run->n;
            if (run->n == 0)
                return false;
        } else if (*pattern != *path++) {
            return false;
        }
    }
    *rest = path;
    return *path == '\0' || (pattern[-1] == '/' && *path != '\0');
}

static enum fr_rc find_run(struct call *c, struct fr_str name, struct fr_err *err)
{
    const char *text;

    if (name.p == NULL)
        return FR_OK;
    text = fr_arena_text(&c->arena, name.p, name.n);
    return text != NULL ? fr_store_run_find(c->host->store, text, &c->arena, &c->run, err)
                        : fr_fail(err, FR_NOMEM, "no memory for a request");
}

static enum fr_rc read_body(struct call *c, struct fr_err *err)
{
    if (c->req->method == FR_API_GET)
        return FR_OK;
    if (strncmp(c->req->content_type, "application/json", strlen("application/json")) != 0)
        return fr_fail(err, FR_UNSUPPORTED, "the body must be application/json");
    return fr_json_parse(c->req->body.n > 0 ? c->req->body : FR_STR("{}"), "the body", &c->doc,
                         err);
}

static const char *const method_names[] = {"GET", "POST", "PUT", "DELETE"};

/* Nothing fits: another method may. */
static void no_route(struct call *c)
{
    struct fr_err err = {0};
    struct fr_str run;
    const char *rest;
    int status = 404;
    struct fr_buf allow = {0};

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (matches(routes[i].path, c->req->path, &run, &rest)) {
            fr_buf_fmt(&allow, "%s%s", allow.n > 0 ? ", " : "", method_names[routes[i].method]);
            status = 405;
        }
    fr_fail(&err, status == 405 ? FR_USAGE : FR_NOTFOUND, "there is no %s %s",
            method_names[c->req->method], c->req->path);
    fr_problem(c->res, status, c->req->path, &err, NULL);
    c->res->allow = allow;
}

static void run_route(struct call *c, const struct route *route, struct fr_str run)
{
    struct fr_issues issues = {0};
    struct fr_err err = {0};
    enum fr_rc rc = read_body(c, &err);
    int status = rc == FR_UNSUPPORTED ? 415 : 0;

    if (rc == FR_OK)
        rc = strchr(route->path, '#') != NULL ? call_find_schedule(c, run, &err)
                                              : find_run(c, run, &err);
    if (rc == FR_OK)
        rc = route->run(c, &issues, &err);
    if (rc != FR_OK)
        fr_problem(c->res, issues.n > 0 ? 422 : status, c->req->path, &err, &issues);
    fr_issues_finish(&issues);
}

void host_answer(void *host, const struct fr_api_request *req, struct fr_api_response *out)
{
    struct call c = {.host = host, .req = req, .res = out};
    struct fr_str run;
    int64_t since = fr_sys.mono_ms();
    bool found = false;

    *out = (struct fr_api_response){.fd = -1};
    for (size_t i = 0; !found && i < sizeof(routes) / sizeof(routes[0]); i++)
        if (routes[i].method == req->method && matches(routes[i].path, req->path, &run, &c.rest)) {
            found = true;
            run_route(&c, &routes[i], run);
        }
    if (!found)
        no_route(&c);
    host_took(c.host, since, "the request %s %.50s", method_names[req->method], req->path);
    json_decref(c.doc);
    fr_arena_finish(&c.arena);
}
