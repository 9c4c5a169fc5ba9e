/* Requests to the host: the handler of each, and the role that it needs. */
#include "engine/answer/routes.h"

#include "engine/answer/idempotency.h"
#include "engine/api/problem.h"
#include "engine/base/log.h"
#include "engine/metrics/meters.h"

#include <stdio.h>
#include <strings.h>

enum { DEPTH_MOST = 32 }; /* of the JSON of a body */

/* Whether path matches pattern; *run (or schedule) and *rest lie in path. */
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
    return text != NULL ? fr_store_run_find(c->host->env.store, text, &c->arena, &c->run, err)
                        : fr_fail(err, FR_NOMEM, "no memory for a request");
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t n = sizeof(json) - 1;

    return strncasecmp(type, json, n) == 0 && (type[n] == '\0' || strchr("; \t", type[n]) != NULL);
}

/* Limits the depth of the JSON, and refuses a NUL, which would cut a text. */
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

/* No route matches: one of another method may. */
static void no_route(struct call *c)
{
    struct fr_err err = {0};
    struct fr_str run;
    const char *rest;
    int status = 404;
    struct fr_buf allow = {0};

    for (const struct route *r = routes; r->path != NULL; r++)
        if (matches(r->path, c->req->path, &run, &rest)) {
            fr_buf_fmt(&allow, "%s%s", allow.n > 0 ? ", " : "", method_names[r->method]);
            status = 405;
        }
    fr_fail(&err, status == 405 ? FR_USAGE : FR_NOTFOUND, "there is no %s %s",
            method_names[c->req->method], c->req->path);
    fr_problem(c->res, status, c->req->path, &err, NULL);
    c->res->allow = allow;
}

/* 0: the caller is authorized; else the status of the refusal. route NULL: there is none. */
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
    struct fr_err err = {0};
    enum fr_rc rc = read_body(c, &err);

    if (rc == FR_OK)
        rc = query_check(c, route, &err);
    c->status = rc == FR_UNSUPPORTED ? 415 : 0;
    if (rc == FR_OK)
        rc = strchr(route->path, '#') != NULL ? call_find_schedule(c, run, &err)
                                              : find_run(c, run, &err);
    if (rc == FR_OK)
        rc = route->run(c, &err);
    if (rc != FR_OK)
        fr_problem(c->res, c->issues.n > 0 ? 422 : c->status, c->req->path, &err, &c->issues);
    if (rc != FR_OK)
        fr_problem_retry(c->res, c->wait_ms);
}

/* The audit has every request that changes something, whatever the response; of callers who are not
 * logged in it has only logins. */
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
    if (fr_store_asked_add(c->host->env.store, &row, &err) != FR_OK)
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
    for (const struct route *r = routes; route == NULL && r->path != NULL; r++)
        if (r->method == req->method && matches(r->path, req->path, &run, &c.rest))
            route = r;
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
    fr_issues_finish(&c.issues);
    json_decref(c.doc);
    fr_arena_finish(&c.arena);
}
