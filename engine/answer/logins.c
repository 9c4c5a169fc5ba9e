/* Requests about logins, tokens and the audit, and their responses. */
#include "engine/answer/access.h"
#include "engine/answer/call.h"
#include "engine/timetable/timetable.h"

enum { DAYS_USUAL = 90, AUDIT_USUAL = 50, AUDIT_MOST = 200, TOO_MANY = 429 };

/* ---- login ---- */

static json_t *json_of_caller(const struct fr_api_caller *who)
{
    return json_pack("{s:s, s:s, s:s}", "name", who->name, "role", fr_role_name(who->role), "by",
                     who->session[0] != '\0'   ? "session"
                     : who->address[0] != '\0' ? "token"
                                               : "socket");
}

/* {token}, or {code} of a link */
enum fr_rc post_login(struct call *c, struct fr_err *err)
{
    const char *token = NULL;
    char secret[FR_SECRET_TEXT];
    int64_t wait_ms = 0;
    enum fr_rc rc;

    if (json_unpack(c->doc, "{s:s !}", "token", &token) != 0 &&
        json_unpack(c->doc, "{s:s !}", "code", &token) != 0)
        return fr_fail(err, FR_USAGE, "the body must be {\"token\": \"…\"} or {\"code\": \"…\"}");
    if (c->req->caller != NULL)
        c->login = *c->req->caller;
    c->login.role = FR_ROLE_NONE;
    rc = fr_access_login(answers_of(c->host)->access, token, &c->login, secret, &wait_ms, err);
    if (rc == FR_BUSY || rc == FR_DENIED)
        c->status = rc == FR_BUSY ? TOO_MANY : 401;
    if (rc == FR_BUSY)
        c->wait_ms = wait_ms;
    if (rc != FR_OK)
        return rc;
    fr_buf_text(&c->res->session, secret);
    return answer_json(c, 200, json_of_caller(&c->login), err);
}

/* A caller without a session is logged out already. */
enum fr_rc post_logout(struct call *c, struct fr_err *err)
{
    const struct fr_api_caller *who = c->req->caller;
    enum fr_rc rc = FR_OK;

    if (who != NULL && who->session[0] != '\0')
        rc = fr_access_logout(answers_of(c->host)->access, who->session, err);
    if (rc != FR_OK)
        return rc;
    c->res->session_over = true;
    c->res->status = 204;
    return FR_OK;
}

enum fr_rc get_me(struct call *c, struct fr_err *err)
{
    struct fr_api_caller owner = {.role = FR_ROLE_ADMIN};
    const struct fr_api_caller *who = c->req->caller != NULL ? c->req->caller : &owner;

    snprintf(owner.name, sizeof(owner.name), "uid %ld", (long)fr_sys.uid());
    return answer_json(c, 200, json_of_caller(who), err);
}

enum fr_rc get_health(struct call *c, struct fr_err *err)
{
    return answer_json(c, 200, json_pack("{s:b}", "ok", true), err);
}

enum fr_rc get_ready(struct call *c, struct fr_err *err)
{
    bool ready = fr_host_ready(c->host);

    return answer_json(c, ready ? 200 : 503, json_pack("{s:b}", "ready", ready), err);
}

enum fr_rc get_openapi_json(struct call *c, struct fr_err *err)
{
    fr_buf_text(&c->res->body, fr_host_openapi);
    if (c->res->body.bad)
        return fr_fail(err, FR_NOMEM, "no memory for an answer");
    c->res->status = 200;
    c->res->type = "application/json";
    return FR_OK;
}

/* ---- tokens ---- */

enum fr_rc get_tokens(struct call *c, struct fr_err *err)
{
    struct fr_token_rows rows = {0};
    enum fr_rc rc = fr_store_tokens(c->host->env.store, &c->arena, &rows, err);

    return rc == FR_OK ? answer_rows(c, &fr_token_type, rows.rows, rows.n, err) : rc;
}

/* {name, role, days} */
enum fr_rc post_tokens(struct call *c, struct fr_err *err)
{
    const char *name = "", *role = "view";
    json_int_t days = DAYS_USUAL;
    struct fr_grant grant;
    char secret[FR_SECRET_TEXT];
    enum fr_rc rc;

    if (json_unpack(c->doc, "{s:s, s?s, s?I !}", "name", &name, "role", &role, "days", &days) != 0)
        return fr_fail(err, FR_USAGE,
                       "the body must be {\"name\": \"…\", \"role\": \"view\", \"days\": 90}");
    c->has_secret = true;
    grant = (struct fr_grant){name, fr_role_of(role), days};
    rc = fr_token_make(c->host->env.store, &grant, secret, err);
    if (rc == FR_OK)
        rc = fr_access_reload(answers_of(c->host)->access, err);
    return rc == FR_OK ? answer_json(c, 201,
                                     json_pack("{s:s, s:s, s:I, s:s}", "name", name, "role", role,
                                               "days", days, "token", secret),
                                     err)
                       : rc;
}

enum fr_rc delete_tokens_name(struct call *c, struct fr_err *err)
{
    enum fr_rc rc = fr_store_token_drop(c->host->env.store, c->rest, err);

    if (rc == FR_OK)
        rc = fr_access_reload(answers_of(c->host)->access, err);
    c->res->access_over = true;
    if (rc == FR_OK)
        c->res->status = 204;
    return rc;
}

/* A link that logs its owner in once. */
enum fr_rc post_codes(struct call *c, struct fr_err *err)
{
    char code[FR_SECRET_TEXT];
    enum fr_rc rc;

    if (json_array_size(c->host->config.pages) == 0)
        return fr_fail(err, FR_NOTFOUND,
                       "this host has no pages: 'flowrun serve --http 127.0.0.1:8470' is one that "
                       "has");
    c->has_secret = true;
    if ((rc = fr_access_code(answers_of(c->host)->access, code, err)) != FR_OK)
        return rc;
    return answer_json(c, 201,
                       json_pack("{s:O, s:s}", "pages", c->host->config.pages, "code", code), err);
}

/* ---- what was asked ---- */

enum fr_rc get_audit(struct call *c, struct fr_err *err)
{
    struct fr_audit_rows rows = {0};
    int64_t limit = 0, before = 0;
    json_t *out;
    enum fr_rc rc =
        query_range(c, "limit", (struct query_range){1, AUDIT_MOST, AUDIT_USUAL}, &limit, err);

    if (rc == FR_OK)
        rc = query_number(c, "before", INT64_MAX, &before, err);
    if (rc == FR_OK)
        rc = fr_store_audit(c->host->env.store, before, (size_t)limit, &c->arena, &rows, err);
    if (rc != FR_OK)
        return rc;
    out = json_pack("{s:o}", "items", fr_rows_json(&fr_audit_type, rows.rows, rows.n));
    if (rows.n == (size_t)limit)
        json_object_set_new(out, "next",
                            json_sprintf("/api/v1/audit?limit=%lld&before=%lld", (long long)limit,
                                         (long long)rows.rows[rows.n - 1].id));
    return answer_json(c, 200, out, err);
}

/* The audit of one run. Only administrators see the addresses. */
enum fr_rc get_runs_run_audit(struct call *c, struct fr_err *err)
{
    bool all = c->req->caller == NULL || c->req->caller->role >= FR_ROLE_ADMIN;
    struct fr_audit_rows rows = {0};
    enum fr_rc rc =
        fr_store_asked_of(c->host->env.store, c->run.no, AUDIT_MOST, &c->arena, &rows, err);

    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; !all && i < rows.n; i++)
        rows.rows[i].address = "";
    return answer_rows(c, &fr_audit_type, rows.rows, rows.n, err);
}
