#include "engine/web/internal.h"

#include "engine/base/sys.h"
#include "engine/host/problem.h"
#include "engine/web/target.h"

#include <errno.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

/* ---- the request ---- */

struct heads { /* the headers that count, as they came; NULL: absent */
    const char *host, *length, *encoding, *type, *range, *match, *last_id;
};

struct named {
    const char *name;
    size_t at; /* in struct heads */
    bool once;
};

static bool is_token(const char *s)
{
    size_t n = strspn(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

    return n > 0 && s[n] == '\0';
}

static enum fr_rc read_heads(struct evkeyvalq *all, struct heads *out, struct fr_err *err)
{
    static const struct named table[] = {
        {"Host", offsetof(struct heads, host), true},
        {"Content-Length", offsetof(struct heads, length), true},
        {"Transfer-Encoding", offsetof(struct heads, encoding), false},
        {"Content-Type", offsetof(struct heads, type), true},
        {"Range", offsetof(struct heads, range), true},
        {"If-None-Match", offsetof(struct heads, match), false},
        {"Last-Event-ID", offsetof(struct heads, last_id), true},
    };

    *out = (struct heads){0};
    for (struct evkeyval *h = TAILQ_FIRST(all); h != NULL; h = TAILQ_NEXT(h, next)) {
        if (!is_token(h->key))
            return fr_fail(err, FR_USAGE, "a header has a bad name");
        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
            const char **slot = (const char **)((char *)out + table[i].at);

            if (strcasecmp(h->key, table[i].name) != 0)
                continue;
            if (*slot != NULL && table[i].once)
                return fr_fail(err, FR_USAGE, "the header %s came twice", table[i].name);
            *slot = h->value;
        }
    }
    return FR_OK;
}

/* The status of a request that no handler sees, or 0. */
static int check_heads(const struct heads *h, struct fr_err *err)
{
    if (h->encoding != NULL) {
        fr_fail(err, FR_UNSUPPORTED, "a body needs Content-Length, not Transfer-Encoding");
        return 411;
    }
    if (h->length != NULL && h->length[strspn(h->length, "0123456789")] != '\0')
        fr_fail(err, FR_USAGE, "Content-Length is not a number");
    else if (h->host == NULL || !fr_target_host_valid(h->host))
        fr_fail(err, FR_USAGE, "the request needs one valid Host");
    else
        return 0;
    return 400;
}

static int check_line(const struct evhttp_request *req, struct fr_api_request *out,
                      struct fr_err *err)
{
    switch (req->type) {
    case EVHTTP_REQ_GET:
    case EVHTTP_REQ_HEAD:
        out->method = FR_API_GET;
        break;
    case EVHTTP_REQ_POST:
        out->method = FR_API_POST;
        break;
    case EVHTTP_REQ_PUT:
        out->method = FR_API_PUT;
        break;
    case EVHTTP_REQ_DELETE:
        out->method = FR_API_DELETE;
        break;
    default:
        fr_fail(err, FR_UNSUPPORTED, "methods are GET, HEAD, POST, PUT and DELETE");
        return 501;
    }
    if (req->major == 1 && (req->minor == 0 || req->minor == 1))
        return 0;
    fr_fail(err, FR_UNSUPPORTED, "the version of HTTP is 1.1");
    return 505;
}

static const char *or_empty(const char *s)
{
    return s != NULL ? s : "";
}

/* 0, or the status to refuse it with. *target and the request's headers stay with the caller. */
static int read_request(struct conn *c, struct fr_target *target, struct fr_api_request *out,
                        struct fr_err *err)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(c->req);
    size_t n = evbuffer_get_length(body);
    const char *bytes = n > 0 ? (const char *)evbuffer_pullup(body, -1) : "";
    struct heads h;
    int status = check_line(c->req, out, err);
    enum fr_rc rc;

    if (status != 0)
        return status;
    if (read_heads(evhttp_request_get_input_headers(c->req), &h, err) != FR_OK)
        return 400;
    if ((status = check_heads(&h, err)) != 0)
        return status;
    if ((rc = fr_target_parse(evhttp_request_get_uri(c->req), target, err)) != FR_OK)
        return rc == FR_FULL ? 414 : 400;
    if (bytes == NULL) {
        fr_fail(err, FR_NOMEM, "no memory for the body");
        return 503;
    }
    out->path = target->path;
    out->query = target->query;
    out->n_query = target->n_query;
    out->body = (struct fr_str){bytes, n};
    out->content_type = or_empty(h.type);
    out->range = or_empty(h.range);
    out->if_none_match = or_empty(h.match);
    out->last_event_id = or_empty(h.last_id);
    out->uid = c->uid;
    return 0;
}

static bool is_stream(const char *path)
{
    static const char end[] = "/stream";
    size_t n = strlen(path);

    return n >= sizeof(end) - 1 && strcmp(path + n - (sizeof(end) - 1), end) == 0;
}

void answer_request(struct conn *c)
{
    struct fr_api_request req = {0};
    struct fr_api_response res = {.fd = -1};
    struct fr_target target;
    struct fr_err err;
    int status = read_request(c, &target, &req, &err);

    if (status != 0) {
        answer_header(c, "Connection", "close");
        fr_problem(&res, status, NULL, &err, NULL);
    } else if (req.method == FR_API_GET && is_stream(req.path)) {
        stream_open(c, &req);
        return;
    } else {
        c->server->api->answer(c->server->api->self, &req, &res);
    }
    answer_send(c, &res);
}

/* ---- the answer ---- */

void answer_header(struct conn *c, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(c->req), name, value);
}

static void optional_header(struct conn *c, const char *name, const struct fr_buf *value)
{
    if (value->n > 0)
        answer_header(c, name, value->p);
}

static void size_header(struct conn *c, const char *name, uint64_t n)
{
    struct fr_buf text = {0};

    fr_buf_fmt(&text, "%llu", (unsigned long long)n);
    optional_header(c, name, &text);
    fr_buf_finish(&text);
}

static void set_headers(struct conn *c, const struct fr_api_response *res)
{
    bool bare = res->status == 204 || res->status == 304;

    if (res->type != NULL && !bare)
        answer_header(c, "Content-Type", res->type);
    answer_header(c, "Cache-Control", "private, no-cache");
    answer_header(c, "X-Content-Type-Options", "nosniff");
    optional_header(c, "Location", &res->location);
    optional_header(c, "ETag", &res->etag);
    optional_header(c, "Allow", &res->allow);
    if (!bare)
        size_header(c, "Content-Length", res->file ? res->bytes : res->body.n);
}

static void send_body(struct conn *c, const struct fr_api_response *res)
{
    struct evbuffer *body = evbuffer_new();
    bool has = res->body.n > 0 && evhttp_request_get_command(c->req) != EVHTTP_REQ_HEAD &&
               res->status != 204 && res->status != 304;

    if (body == NULL || (has && evbuffer_add(body, res->body.p, res->body.n) != 0)) {
        conn_close(c);
    } else {
        conn_begin_send(c);
        evhttp_send_reply(c->req, res->status, fr_status_phrase(res->status), body);
        conn_end_send(c);
    }
    if (body != NULL)
        evbuffer_free(body);
}

static void send_file(struct conn *c, struct fr_api_response *res)
{
    struct fr_buf range = {0};

    if (res->status == 206) {
        fr_buf_fmt(&range, "bytes %llu-%llu/%llu", (unsigned long long)res->offset,
                   (unsigned long long)(res->offset + res->bytes - 1),
                   (unsigned long long)res->total);
        optional_header(c, "Content-Range", &range);
        fr_buf_finish(&range);
    }
    answer_header(c, "Accept-Ranges", "bytes");
    c->res = *res;
    *res = (struct fr_api_response){.fd = -1};
    c->file_sent = evhttp_request_get_command(c->req) == EVHTTP_REQ_HEAD ? c->res.bytes : 0;
    conn_begin_send(c);
    evhttp_send_reply_start(c->req, c->res.status, fr_status_phrase(c->res.status));
    conn_end_send(c);
    answer_more(c);
}

void answer_send(struct conn *c, struct fr_api_response *res)
{
    struct fr_err err;

    if (res->status == 0 || res->body.bad) {
        fr_fail(&err, res->body.bad ? FR_NOMEM : FR_BUG, "the handler gave no answer");
        fr_problem(res, 0, NULL, &err, NULL);
    }
    set_headers(c, res);
    if (res->file)
        send_file(c, res);
    else
        send_body(c, res);
    fr_api_response_finish(res);
}

/* ---- in parts ---- */

static void on_drained(struct evhttp_connection *evcon, void *conn)
{
    struct conn *c = conn;

    (void)evcon;
    c->due_ms = -1;
    c->drained = true;
    fr_loop_post(c->server->loop, &c->post);
}

void answer_part(struct conn *c, struct fr_str p)
{
    struct evbuffer *part = evbuffer_new();

    if (part == NULL || evbuffer_add(part, p.p, p.n) != 0) {
        conn_close(c);
    } else {
        conn_begin_send(c);
        evhttp_send_reply_chunk_with_cb(c->req, part, on_drained, c);
        conn_end_send(c);
    }
    if (part != NULL)
        evbuffer_free(part);
}

/* A file that is shorter than was said ends the connection, so that the reader notices. */
void answer_more(struct conn *c)
{
    static const size_t block = WEB_BLOCK_BYTES;
    uint64_t left = c->res.bytes - c->file_sent;
    char *p;
    ssize_t n;

    if (!c->res.file)
        return;
    if (left == 0) {
        fr_api_response_finish(&c->res);
        conn_begin_send(c);
        evhttp_send_reply_end(c->req);
        conn_end_send(c);
        return;
    }
    p = fr_sys.alloc(block);
    do
        n = p == NULL ? -1
                      : fr_sys.pread(c->res.fd, p, left < block ? (size_t)left : block,
                                     (off_t)(c->res.offset + c->file_sent));
    while (p != NULL && n < 0 && errno == EINTR);
    if (n > 0) {
        c->file_sent += (uint64_t)n;
        answer_part(c, (struct fr_str){p, (size_t)n});
    } else {
        conn_close(c);
    }
    fr_sys.free(p);
}
