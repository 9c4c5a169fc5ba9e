#include "engine/web/private.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/api/problem.h"
#include "engine/web/target.h"

#include <errno.h>
#include <string.h>
#include <time.h>

bool answer_is_head(const struct conn *c)
{
    return c->head.method != NULL && strcmp(c->head.method, "HEAD") == 0;
}

static enum fr_api_method method_of(const char *s)
{
    if (strcmp(s, "POST") == 0)
        return FR_API_POST;
    if (strcmp(s, "PUT") == 0)
        return FR_API_PUT;
    return strcmp(s, "DELETE") == 0 ? FR_API_DELETE : FR_API_GET;
}

static const char *value_of(const struct conn *c, const char *name)
{
    const char *value = fr_http_find(&c->head, name);

    return value != NULL ? value : "";
}

static bool is_stream(const char *path)
{
    static const char end[] = "/stream";
    size_t n = strlen(path);

    return n >= sizeof(end) - 1 && strcmp(path + n - (sizeof(end) - 1), end) == 0;
}

/* The caller, by the secret that it gave; the token wins. */
static void identify(struct conn *c, const struct fr_gate_found *found)
{
    const struct fr_api *api = c->server->api;
    bool bearer = found->bearer[0] != '\0';

    c->tls = found->tls;
    c->caller = (struct fr_api_caller){0};
    c->kind = bearer ? FR_SECRET_TOKEN : FR_SECRET_SESSION;
    memcpy(c->secret, bearer ? found->bearer : found->session, sizeof(c->secret));
    if (c->secret[0] == '\0' || !api->identify(api->self, c->kind, c->secret, true, &c->caller)) {
        c->secret[0] = '\0';
        if (c->server->gate.open_view)
            c->caller = (struct fr_api_caller){FR_ROLE_VIEW, "anonymous", "", ""};
    }
    memcpy(c->caller.address, found->address, sizeof(c->caller.address));
}

/* Checks a request on a listener for metrics; 0, or the status to refuse it with. */
static int check_metrics(struct conn *c, const struct fr_gate_found *found, struct fr_err *err)
{
    if (strcmp(found->path, "/metrics") != 0) {
        fr_fail(err, FR_NOTFOUND, "there is nothing but /metrics here");
        return 404;
    }
    c->caller = (struct fr_api_caller){FR_ROLE_VIEW, "anonymous", "", ""};
    memcpy(c->caller.address, found->address, sizeof(c->caller.address));
    return 0;
}

/* Whether the request may be answered. */
static bool pass_gate(struct conn *c, struct fr_api_request *req)
{
    struct fr_gate_seen seen = {&c->head, req->path, c->peer.host, c->local.host};
    struct fr_gate gate = c->server->gate;
    struct fr_gate_found found;
    struct fr_err err;
    int status;

    if (!c->tcp)
        return true;
    if (c->metrics_only)
        gate.base = "";
    status = fr_gate_check(&gate, &seen, &found, &err);
    if (status == 0 && c->metrics_only)
        status = check_metrics(c, &found, &err);
    else if (status == 0)
        identify(c, &found);
    if (status != 0) {
        answer_refuse(c, status, &err);
        return false;
    }
    req->path = found.path;
    req->caller = &c->caller;
    return true;
}

static void ask(struct conn *c, const struct fr_api_request *req)
{
    const struct fr_api *api = c->server->api;
    struct fr_api_response res = {.fd = -1};

    c->again = false;
    if (c->tcp && pages_have(req->path))
        pages_answer(c, req, &res);
    else
        api->answer(api->self, req, &res);
    c->later = res.status == FR_API_LATER;
    if (c->later) {
        web_comment(c, c->server->times.comment);
        return;
    }
    c->waiter.ticket = 0;
    c->comment_ms = -1;
    if (res.session_over)
        stream_end_of(c->server, c->caller.session);
    if (res.access_over)
        stream_end_lost(c->server);
    answer_send(c, &res);
}

void answer_request(struct conn *c, struct fr_str body)
{
    struct fr_target target;
    struct fr_err err;
    enum fr_rc rc = fr_target_parse(c->head.target, &target, &err);

    if (rc != FR_OK) {
        answer_refuse(c, rc == FR_FULL ? 414 : 400, &err);
        return;
    }
    struct fr_api_request req = {.method = method_of(c->head.method),
                                 .path = target.path,
                                 .query = target.query,
                                 .n_query = target.n_query,
                                 .body = body,
                                 .content_type = value_of(c, "Content-Type"),
                                 .range = value_of(c, "Range"),
                                 .if_none_match = value_of(c, "If-None-Match"),
                                 .last_event_id = value_of(c, "Last-Event-ID"),
                                 .if_match = fr_http_find(&c->head, "If-Match"),
                                 .key = fr_http_find(&c->head, "Idempotency-Key"),
                                 .waiter = &c->waiter};
    if (!pass_gate(c, &req))
        return;
    if (req.method == FR_API_GET && is_stream(req.path))
        stream_open(c, &req);
    else
        ask(c, &req);
}

void answer_wait(struct conn *c)
{
    web_comment(c, c->server->times.comment);
    if (c->head.minor == 0 || c->tcp) /* proxies and Python's http.client take it for the answer */
        return;
    conn_add(c, FR_STR("HTTP/1.1 102 Processing\r\n\r\n"));
    conn_flush(c);
}

/* Further bytes of the connection are not read. */
void answer_refuse(struct conn *c, int status, const struct fr_err *err)
{
    struct fr_api_response res = {.fd = -1};

    fr_log(FR_LOG_DEBUG, "web", "refused status=%d why=\"%s\"", status, err->msg);
    c->state = CONN_ANSWER;
    c->due_ms = -1;
    c->last = c->lingers = true;
    fr_problem(&res, status, NULL, err, NULL);
    if (status == 503)
        fr_problem_retry(&res, CROWDED_MS);
    answer_send(c, &res);
}

/* ---- heads ---- */

static void add_optional(struct conn *c, const char *name, const struct fr_buf *value)
{
    if (value->n > 0)
        fr_buf_fmt(&c->out, "%s: %s\r\n", name, value->p);
}

static void add_date(struct conn *c)
{
    time_t now = (time_t)(fr_sys.wall_ms() / 1000);
    struct tm tm;
    char text[40];

    if (gmtime_r(&now, &tm) != NULL &&
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
        fr_buf_fmt(&c->out, "Date: %s\r\n", text);
}

/* Pages run our scripts alone and ask this host alone; what tasks wrote runs nothing. */
void answer_add_guards(struct conn *c, bool foreign)
{
    fr_buf_text(&c->out, foreign
                             ? "Content-Security-Policy: sandbox; default-src 'none'\r\n"
                               "Content-Disposition: attachment\r\n"
                             : "Content-Security-Policy: default-src 'none'; script-src 'self'; "
                               "style-src 'self'; img-src 'self' data:; connect-src 'self'; "
                               "form-action 'self'; base-uri 'self'; frame-ancestors 'none'; "
                               "require-trusted-types-for 'script'\r\n");
    fr_buf_text(&c->out, "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
                         "Cross-Origin-Opener-Policy: same-origin\r\n"
                         "Cross-Origin-Resource-Policy: same-origin\r\n"
                         "Permissions-Policy: camera=(), geolocation=(), microphone=(), "
                         "payment=(), usb=()\r\n");
}

/* The browser keeps the session, or forgets it. */
static void add_cookie(struct conn *c, const struct fr_api_response *res)
{
    struct fr_buf cookie = {0};

    if (!c->tcp || (res->session.n == 0 && !res->session_over))
        return;
    fr_gate_cookie(&c->server->gate, c->tls, res->session.n > 0 ? res->session.p : "", &cookie);
    if (cookie.bad)
        c->out.bad = true;
    else
        fr_buf_fmt(&c->out, "Set-Cookie: %s\r\n", cookie.p);
    fr_buf_finish(&cookie);
}

static void add_head(struct conn *c, const struct fr_api_response *res)
{
    bool bare = res->status == 204 || res->status == 304;
    bool chunked = res->packed && c->head.minor > 0;
    uint64_t n = res->file ? res->bytes : res->body.n;

    fr_buf_fmt(&c->out, "HTTP/1.1 %d %s\r\n", res->status, fr_status_phrase(res->status));
    add_date(c);
    if (res->type != NULL && !bare)
        fr_buf_fmt(&c->out, "Content-Type: %s\r\n", res->type);
    if (chunked)
        fr_buf_text(&c->out, "Transfer-Encoding: chunked\r\n");
    if (!bare && !res->packed)
        fr_buf_fmt(&c->out, "Content-Length: %llu\r\n", (unsigned long long)n);
    if (res->file && res->status == 206)
        fr_buf_fmt(&c->out, "Content-Range: bytes %llu-%llu/%llu\r\n",
                   (unsigned long long)res->offset, (unsigned long long)(res->offset + n - 1),
                   (unsigned long long)res->total);
    if (res->status == 416)
        fr_buf_fmt(&c->out, "Content-Range: bytes */%llu\r\n", (unsigned long long)res->total);
    if (res->file && !res->packed)
        fr_buf_text(&c->out, "Accept-Ranges: bytes\r\n");
    add_optional(c, "Location", &res->location);
    add_optional(c, "ETag", &res->etag);
    add_optional(c, "Allow", &res->allow);
    if (res->growing != NULL)
        fr_buf_fmt(&c->out, "Flowrun-Growing: %s\r\n", res->growing);
    if (res->encoding != NULL)
        fr_buf_fmt(&c->out, "Content-Encoding: %s\r\n", res->encoding);
    if (res->retry_after_s > 0)
        fr_buf_fmt(&c->out, "Retry-After: %d\r\n", res->retry_after_s);
    if (res->status == 401)
        fr_buf_text(&c->out, "WWW-Authenticate: Bearer\r\n");
    fr_buf_fmt(&c->out, "Cache-Control: %s\r\nVary: Accept-Encoding\r\n",
               res->cache != NULL ? res->cache : "private, no-cache");
    add_cookie(c, res);
    answer_add_guards(c, res->foreign);
    if (c->last)
        fr_buf_text(&c->out, "Connection: close\r\n");
    fr_buf_text(&c->out, "\r\n");
}

/* ---- bodies ---- */

void answer_send(struct conn *c, struct fr_api_response *res)
{
    bool content = !answer_is_head(c) && res->status != 204 && res->status != 304;
    struct fr_err err;

    if (res->status == 0 || res->body.bad) {
        fr_fail(&err, res->body.bad ? FR_NOMEM : FR_BUG, "the handler gave no answer");
        fr_problem(res, 0, NULL, &err, NULL);
    }
    if (res->packed && content && (c->gzip = web_gzip_create()) == NULL) {
        fr_fail(&err, FR_NOMEM, "no memory to pack a file");
        fr_problem(res, 0, NULL, &err, NULL);
    }
    add_head(c, res);
    if (res->file && content) {
        c->res = *res;
        *res = (struct fr_api_response){.fd = -1};
        c->file_sent = 0;
    } else if (content && !res->file) {
        conn_add(c, (struct fr_str){res->body.p, res->body.n});
    }
    fr_api_response_finish(res);
    conn_flush(c);
}

/* The next packed bytes, framed where they can be; those of the end are the last. */
static void add_packed(struct conn *c, struct fr_str in, bool end)
{
    bool chunked = c->head.minor > 0;
    struct fr_buf packed = {0};

    web_gzip_add(c->gzip, in, end, &packed);
    if (chunked && packed.n > 0)
        fr_buf_fmt(&c->out, "%zx\r\n", packed.n);
    conn_add(c, (struct fr_str){packed.p, packed.n});
    if (chunked && packed.n > 0)
        fr_buf_text(&c->out, "\r\n");
    if (chunked && end)
        fr_buf_text(&c->out, "0\r\n\r\n");
    c->out.bad |= packed.bad;
    fr_buf_finish(&packed);
}

/* Nothing of the file is left to be read. */
static void end_file(struct conn *c)
{
    if (c->gzip != NULL) {
        add_packed(c, (struct fr_str){0}, true);
        web_gzip_destroy(c->gzip);
        c->gzip = NULL;
        conn_flush(c);
    }
    fr_api_response_finish(&c->res);
}

/* A file that is shorter than was said ends the connection, so that the reader notices. */
void answer_more(struct conn *c)
{
    uint64_t left = c->res.bytes - c->file_sent;
    size_t want = left < WEB_BLOCK_BYTES ? (size_t)left : WEB_BLOCK_BYTES;
    ssize_t n = 0;

    if (left == 0) {
        end_file(c);
        return;
    }
    do
        n = fr_sys.pread(c->res.fd, c->server->space, want, (off_t)(c->res.offset + c->file_sent));
    while (n < 0 && errno == EINTR);
    if (n <= 0) {
        c->over = true;
        return;
    }
    c->file_sent += (uint64_t)n;
    if (c->gzip != NULL)
        add_packed(c, (struct fr_str){c->server->space, (size_t)n}, false);
    else
        conn_add(c, (struct fr_str){c->server->space, (size_t)n});
    conn_flush(c);
}
