/* Requests to the host, and their answers. One table says which there are. */
#include "engine/answer/call.h"

#include "engine/base/log.h"
#include "engine/answer/answers.h"
#include "engine/metrics/meters.h"
#include "engine/answer/idempotency.h"
#include "engine/api/problem.h"
#include "engine/timetable/schedules.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { DEPTH_MOST = 32 }; /* of the JSON of a body */

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

enum fr_rc answer_rows(struct call *c, const struct fr_row_type *type, const void *rows, size_t n,
                       struct fr_err *err)
{
    return answer_json(c, 200, json_pack("{s:o}", "items", fr_rows_json(type, rows, n)), err);
}

/* ---- list, look ---- */

enum fr_rc answer_run(struct call *c, int status, struct fr_id id, struct fr_err *err)
{
    struct fr_run_row row;
    char text[FR_ID_TEXT];
    enum fr_rc rc;

    fr_id_text(id, text);
    rc = fr_store_run_find(c->host->store, text, &c->arena, &row, err);
    if (rc != FR_OK)
        return rc;
    c->made = row.no;
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
                       json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I}", "version",
                                 FLOWRUN_VERSION, "epoch", (json_int_t)c->host->env.epoch, "runs",
                                 (json_int_t)c->host->n, "turns", (json_int_t)slow.turns,
                                 "slow_turns", (json_int_t)slow.slow, "longest_ms",
                                 (json_int_t)slow.longest_ms, "held_by", m->held_by, "clock_steps",
                                 (json_int_t)schedules_clock_steps(c->host)),
                       err);
}

enum fr_rc answer_later(struct call *c, struct host_job *job, struct fr_err *err)
{
    if (job == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    job_wait(job, c->req->waiter);
    c->res->status = FR_API_LATER;
    return FR_OK;
}

struct host_job *ask_job(struct call *c, job_begin_fn *begin, enum fr_rc *rc, struct fr_err *err)
{
    struct host_job *job = job_of(c->host, c->req->waiter);
    struct fr_issues none;

    if (job == NULL || !job_over(job)) {
        *rc = answer_later(c, job != NULL ? job : begin(c->host, c->run.id), err);
        return NULL;
    }
    if ((*rc = job_result(job, &none, err)) == FR_OK)
        return job;
    job_drop(job);
    return NULL;
}

enum fr_rc get_events(struct call *c, struct fr_issues *issues, struct fr_err *err)
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

/* ---- which there are ---- */

struct route {
    enum fr_api_method method;
    const char *path;  /* "*": a run; "#": a number; ends in "/": more follows, in call.rest */
    enum fr_role role; /* the least that may */
    handler *run;
};

static const struct route routes[] = {
    {FR_API_POST, "/api/v1/login", FR_ROLE_NONE, post_login},
    {FR_API_POST, "/api/v1/logout", FR_ROLE_NONE, post_logout},
    {FR_API_GET, "/api/v1/health", FR_ROLE_NONE, get_health},
    {FR_API_GET, "/api/v1/ready", FR_ROLE_NONE, get_ready},
    {FR_API_GET, "/api/v1/openapi.json", FR_ROLE_NONE, get_openapi},
    {FR_API_GET, "/api/v1/me", FR_ROLE_VIEW, get_me},
    {FR_API_GET, "/api/v1/nodes", FR_ROLE_VIEW, get_nodes},
    {FR_API_GET, "/api/v1/nodes/", FR_ROLE_VIEW, get_node},
    {FR_API_POST, "/api/v1/nodes/", FR_ROLE_ADMIN, post_node},
    {FR_API_GET, "/metrics", FR_ROLE_VIEW, get_figures},
    {FR_API_GET, "/api/v1/host", FR_ROLE_VIEW, get_host},
    {FR_API_GET, "/api/v1/runs", FR_ROLE_VIEW, get_runs},
    {FR_API_POST, "/api/v1/runs", FR_ROLE_OPERATE, post_runs},
    {FR_API_GET, "/api/v1/runs/*", FR_ROLE_VIEW, get_run},
    {FR_API_GET, "/api/v1/runs/*/instances", FR_ROLE_VIEW, get_instances},
    {FR_API_GET, "/api/v1/runs/*/events", FR_ROLE_VIEW, get_events},
    {FR_API_GET, "/api/v1/runs/*/audit", FR_ROLE_VIEW, get_run_audit},
    {FR_API_GET, "/api/v1/runs/*/metrics", FR_ROLE_VIEW, get_metrics},
    {FR_API_GET, "/api/v1/runs/*/outputs", FR_ROLE_VIEW, get_outputs},
    {FR_API_GET, "/api/v1/runs/*/artifacts", FR_ROLE_VIEW, get_artifacts},
    {FR_API_GET, "/api/v1/runs/*/artifacts/", FR_ROLE_VIEW, get_artifact},
    {FR_API_GET, "/api/v1/runs/*/graph", FR_ROLE_VIEW, get_graph},
    {FR_API_GET, "/api/v1/runs/*/params", FR_ROLE_VIEW, get_params},
    {FR_API_GET, "/api/v1/runs/*/spec", FR_ROLE_VIEW, get_spec},
    {FR_API_GET, "/api/v1/pipelines", FR_ROLE_VIEW, get_pipelines},
    {FR_API_POST, "/api/v1/pipelines/validate", FR_ROLE_OPERATE, post_validate},
    {FR_API_GET, "/api/v1/pipelines/", FR_ROLE_VIEW, get_pipeline},
    {FR_API_GET, "/api/v1/queue", FR_ROLE_VIEW, get_queue},
    {FR_API_GET, "/api/v1/pools", FR_ROLE_VIEW, get_pools},
    {FR_API_GET, "/api/v1/runs/*/log", FR_ROLE_VIEW, get_merged},
    {FR_API_GET, "/api/v1/runs/*/log/search", FR_ROLE_VIEW, get_found},
    {FR_API_GET, "/api/v1/runs/*/attempts/", FR_ROLE_VIEW, get_log},
    {FR_API_POST, "/api/v1/runs/*/resume", FR_ROLE_OPERATE, post_resume},
    {FR_API_POST, "/api/v1/runs/*/rerun", FR_ROLE_OPERATE, post_runs},
    {FR_API_POST, "/api/v1/runs/*/retry", FR_ROLE_OPERATE, post_retry},
    {FR_API_POST, "/api/v1/runs/*/abandon", FR_ROLE_OPERATE, post_abandon},
    {FR_API_POST, "/api/v1/runs/*/shell", FR_ROLE_OWNER, post_shell},
    {FR_API_POST, "/api/v1/runs/*/cancel", FR_ROLE_OPERATE, post_cancel},
    {FR_API_POST, "/api/v1/runs/*/pin", FR_ROLE_OPERATE, post_pin},
    {FR_API_POST, "/api/v1/runs/*/priority", FR_ROLE_OPERATE, post_priority},
    {FR_API_DELETE, "/api/v1/runs/*", FR_ROLE_ADMIN, delete_run},
    {FR_API_POST, "/api/v1/sweep", FR_ROLE_ADMIN, post_sweep},
    {FR_API_GET, "/api/v1/schedules", FR_ROLE_VIEW, get_schedules},
    {FR_API_GET, "/api/v1/schedules/#", FR_ROLE_VIEW, get_schedule},
    {FR_API_PUT, "/api/v1/schedules/#", FR_ROLE_OPERATE, put_schedule},
    {FR_API_POST, "/api/v1/schedules/#/run", FR_ROLE_OPERATE, post_schedule_run},
    {FR_API_GET, "/api/v1/schedules/#/fires", FR_ROLE_VIEW, get_fires},
    {FR_API_GET, "/api/v1/backfills", FR_ROLE_VIEW, get_backfills},
    {FR_API_POST, "/api/v1/backfills", FR_ROLE_OPERATE, post_backfills},
    {FR_API_POST, "/api/v1/backfills/#/pause", FR_ROLE_OPERATE, post_backfill_pause},
    {FR_API_POST, "/api/v1/backfills/#/resume", FR_ROLE_OPERATE, post_backfill_resume},
    {FR_API_POST, "/api/v1/backfills/#/cancel", FR_ROLE_OPERATE, post_backfill_cancel},
    {FR_API_GET, "/api/v1/channels", FR_ROLE_ADMIN, get_channels},
    {FR_API_GET, "/api/v1/deliveries", FR_ROLE_ADMIN, get_deliveries},
    {FR_API_POST, "/api/v1/deliveries", FR_ROLE_ADMIN, post_deliveries},
    {FR_API_GET, "/api/v1/deliveries/#", FR_ROLE_ADMIN, get_delivery},
    {FR_API_POST, "/api/v1/deliveries/#/again", FR_ROLE_ADMIN, post_delivery_again},
    {FR_API_GET, "/api/v1/audit", FR_ROLE_ADMIN, get_audit},
    {FR_API_GET, "/api/v1/tokens", FR_ROLE_ADMIN, get_tokens},
    {FR_API_POST, "/api/v1/tokens", FR_ROLE_ADMIN, post_tokens},
    {FR_API_DELETE, "/api/v1/tokens/", FR_ROLE_ADMIN, delete_token},
    {FR_API_POST, "/api/v1/codes", FR_ROLE_OWNER, post_codes},
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

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t n = sizeof(json) - 1;

    return strncasecmp(type, json, n) == 0 && (type[n] == '\0' || strchr("; \t", type[n]) != NULL);
}

/* No deeper than a body has to be, and no NUL, at which a text would be cut. */
static enum fr_rc check_body(struct fr_str body, struct fr_err *err)
{
    bool in_text = false;
    int depth = 0;

    for (size_t i = 0; i < body.n; i++) {
        char ch = body.p[i];

        if (in_text && ch == '\\') {
            if (body.n - i >= 6 && memcmp(body.p + i, "\\u0000", 6) == 0)
                return fr_fail(err, FR_USAGE, "the body has a NUL in a text");
            i++;
        } else if (ch == '"') {
            in_text = !in_text;
        } else if (!in_text) {
            depth += (ch == '{' || ch == '[') - (ch == '}' || ch == ']');
            if (depth > DEPTH_MOST)
                return fr_fail(err, FR_USAGE, "the body is deeper than %d levels", DEPTH_MOST);
        }
    }
    return FR_OK;
}

static enum fr_rc read_body(struct call *c, struct fr_err *err)
{
    if (c->req->method == FR_API_GET)
        return FR_OK;
    if (!is_json(c->req->content_type))
        return fr_fail(err, FR_UNSUPPORTED, "the body must be application/json");
    if (check_body(c->req->body, err) != FR_OK)
        return err->rc;
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

/* 0: the caller may; else the status that says why not. route NULL: there is none. */
static int check_role(const struct call *c, const struct route *route, struct fr_err *err)
{
    const struct fr_api_caller *who = c->req->caller;
    enum fr_role least = route != NULL ? route->role : FR_ROLE_VIEW;

    if (who == NULL)
        return 0;
    if (who->role == FR_ROLE_NONE && least > FR_ROLE_NONE) {
        fr_fail(err, FR_DENIED, "log in first: this needs a token, or a session");
        return 401;
    }
    if (least == FR_ROLE_OWNER) { /* bodies name files and secrets of a shell */
        fr_fail(err, FR_DENIED, "this is answered over the host's socket alone");
        return 403;
    }
    if (who->role < least) {
        fr_fail(err, FR_DENIED, "this needs the role %s; %s has %s", fr_role_name(least), who->name,
                fr_role_name(who->role));
        return 403;
    }
    return 0;
}

static void run_route(struct call *c, const struct route *route, struct fr_str run)
{
    struct fr_issues issues = {0};
    struct fr_err err = {0};
    enum fr_rc rc = read_body(c, &err);

    if (rc == FR_OK)
        rc = query_check(c, route->run, &err);
    c->status = rc == FR_UNSUPPORTED ? 415 : 0;
    if (rc == FR_OK)
        rc = strchr(route->path, '#') != NULL ? call_find_schedule(c, run, &err)
                                              : find_run(c, run, &err);
    if (rc == FR_OK)
        rc = route->run(c, &issues, &err);
    if (rc != FR_OK)
        fr_problem(c->res, issues.n > 0 ? 422 : c->status, c->req->path, &err, &issues);
    if (rc != FR_OK)
        fr_problem_retry(c->res, c->wait_ms);
    fr_issues_finish(&issues);
}

/* What changes something is in the audit, whatever the answer; of those that are not logged in
 * only what lets them in. */
static void note_asked(struct call *c)
{
    const struct fr_api_caller *who = c->req->caller;
    char owner[32], name[200], status[8];
    struct fr_err err = {0};
    struct fr_audit_row row = {.wall = fr_sys.wall_ms(),
                               .run = c->run.no,
                               .name = name,
                               .outcome = status,
                               .who = owner,
                               .address = who != NULL ? who->address : ""};

    if (c->req->method == FR_API_GET || c->res->status == FR_API_LATER ||
        (who != NULL && who->role == FR_ROLE_NONE && c->login.role == FR_ROLE_NONE))
        return;
    snprintf(owner, sizeof(owner), "uid %ld", (long)fr_sys.uid());
    snprintf(name, sizeof(name), "%s %.180s", method_names[c->req->method], c->req->path);
    snprintf(status, sizeof(status), "%d", c->res->status);
    if (c->login.role != FR_ROLE_NONE)
        row.who = c->login.name;
    else if (who != NULL)
        row.who = who->name;
    if (fr_store_asked_add(c->host->store, &row, &err) != FR_OK)
        fr_log(FR_LOG_WARN, "host", "the audit lacks \"%s\" by %s: error=\"%s\"", name, row.who,
               err.msg);
}

void host_answer(void *host, const struct fr_api_request *req, struct fr_api_response *out)
{
    struct call c = {.host = host, .req = req, .res = out};
    const struct route *route = NULL;
    struct fr_err err = {0};
    struct fr_str run = {0};
    int64_t since = fr_sys.mono_ms();
    int refused;

    *out = (struct fr_api_response){.fd = -1};
    for (size_t i = 0; route == NULL && i < sizeof(routes) / sizeof(routes[0]); i++)
        if (routes[i].method == req->method && matches(routes[i].path, req->path, &run, &c.rest))
            route = &routes[i];
    if ((refused = check_role(&c, route, &err)) != 0) {
        fr_problem(out, refused, req->path, &err, NULL);
        note_asked(&c);
    } else if (route == NULL)
        no_route(&c);
    else if (!idempotency_answered(&c)) {
        run_route(&c, route, run);
        idempotency_keep(&c);
        note_asked(&c);
    }
    meters_answer(c.host->meters, route != NULL ? route->path : NULL, out->status,
                  fr_sys.mono_ms() - since);
    host_took(c.host, since, "the request %s %.50s", method_names[req->method], req->path);
    json_decref(c.doc);
    fr_arena_finish(&c.arena);
}
