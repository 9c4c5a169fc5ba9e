#include "engine/client/client.h"

#include "engine/base/sys.h"
#include "engine/api/problem.h"
#include "engine/web/http.h"

#include <errno.h>
#include <string.h>

enum {
    ANSWER_MS = 30000,
    SILENCE_MS = 40000,
    CONNECT_AGAIN_MS = 20, /* after a full backlog */
    READ_BYTES = 64 << 10,
    ANSWER_BYTES = 64 << 20
};

struct cli_client {
    struct fr_loop *loop; /* borrows */
    char *path;
    char *space; /* of READ_BYTES */
    struct client_stream *streams;
};

/* One request and its answer, on a connection of its own. */
struct transfer {
    struct cli_client *c;
    int fd; /* -1: not connected */
    struct fr_watch *watch;
    struct fr_timer *timer; /* the deadline, or the next try to connect */
    int64_t due_ms;
    struct fr_buf out; /* the unsent part of the request */
    struct fr_buf head;
    size_t looked;
    int status;  /* 0: the head is incomplete */
    bool events; /* the answer is a stream of events */
    struct fr_http_body framing;
    struct fr_buf body; /* received bytes that were not taken yet */
    bool over;
    struct fr_err err;      /* once over; FR_OK: the answer is complete */
    struct fr_post *notify; /* posted after bytes and at the end; NULL: client_ask() waits */
    int64_t patience_ms;    /* > 0: the deadline moves with each byte */
};

struct client_stream {
    struct transfer t;
    struct client_stream *next, **at;
    struct client_listener listener;
    struct fr_post post;
    struct fr_sse sse;
    bool calling, closed;
};

/* ---- a transfer ---- */

static void tell(struct transfer *t)
{
    if (t->notify != NULL)
        fr_loop_post(t->c->loop, t->notify);
}

static void hang_up(struct transfer *t)
{
    fr_loop_unwatch(t->c->loop, &t->watch);
    if (t->fd >= 0)
        fr_sys.close(t->fd);
    t->fd = -1;
}

/* t->err has the result. */
static void end(struct transfer *t)
{
    t->over = true;
    hang_up(t);
    fr_loop_arm(t->c->loop, t->timer, -1);
    tell(t);
}

static void end_with(struct transfer *t, enum fr_rc rc, const char *why)
{
    fr_fail(&t->err, rc, "the host at %s %s", t->c->path, why);
    end(t);
}

/* The answer is malformed. */
static void end_wrong(struct transfer *t, struct fr_err *err)
{
    t->err = *err;
    if (err->rc != FR_NOMEM)
        t->err.rc = FR_PROTO;
    fr_while(&t->err, "the answer of the host at %s", t->c->path);
    end(t);
}

static void wait_until(struct transfer *t, int64_t ms)
{
    fr_loop_arm(t->c->loop, t->timer, ms < t->due_ms ? ms : t->due_ms);
}

/* ---- bytes ---- */

static enum fr_rc take_head(struct transfer *t, size_t n, struct fr_err *err)
{
    struct fr_http_head head;
    const char *type;
    enum fr_rc rc = fr_http_response(t->head.p, n, &head, err);

    if (rc == FR_OK)
        rc = fr_http_body_begin(&t->framing, &head, err);
    if (rc != FR_OK)
        return rc;
    type = fr_http_find(&head, "Content-Type");
    t->events = head.status == 200 && type != NULL && fr_has_prefix(type, "text/event-stream");
    if (head.status >= 200)
        t->status = head.status;
    return FR_OK;
}

/* Heads of status 1xx precede the head of the answer. */
static enum fr_rc take_heads(struct transfer *t, struct fr_err *err)
{
    while (t->status == 0) {
        struct fr_str in = {t->head.p, t->head.n};
        size_t n = fr_http_head_end(in, &t->looked);
        enum fr_rc rc;

        if (n == 0 && t->head.n <= FR_HTTP_HEAD_MAX)
            return FR_OK;
        if (n == 0)
            return fr_fail(err, FR_FULL, "its head is too long");
        if ((rc = take_head(t, n, err)) != FR_OK)
            return rc;
        fr_buf_cut(&t->head, n);
        t->looked = 0;
        if (t->status == 0) { /* 1xx: the host is at work */
            t->due_ms = fr_sys.mono_ms() + ANSWER_MS;
            wait_until(t, t->due_ms);
        }
    }
    return fr_http_body_feed(&t->framing, (struct fr_str){t->head.p, t->head.n}, &t->body, err);
}

static void take_bytes(struct transfer *t, struct fr_str in)
{
    struct fr_err err = {0};
    enum fr_rc rc;

    if (t->status != 0) {
        rc = fr_http_body_feed(&t->framing, in, &t->body, &err);
    } else {
        fr_buf_add(&t->head, in.p, in.n);
        rc = t->head.bad ? fr_fail(&err, FR_NOMEM, "no memory for it") : take_heads(t, &err);
    }
    if (rc == FR_OK && t->body.n > ANSWER_BYTES)
        rc = fr_fail(&err, FR_FULL, "it is longer than %d bytes", ANSWER_BYTES);
    if (rc != FR_OK) {
        end_wrong(t, &err);
    } else if (t->status != 0 && t->framing.over) {
        end(t);
    } else if (t->patience_ms > 0) {
        t->due_ms = fr_sys.mono_ms() + t->patience_ms;
        wait_until(t, t->due_ms);
        tell(t);
    }
}

static void receive(struct transfer *t)
{
    ssize_t n = fr_sys.read(t->fd, t->c->space, READ_BYTES);

    if (n > 0)
        take_bytes(t, (struct fr_str){t->c->space, (size_t)n});
    else if (n == 0 && t->status != 0 && t->framing.kind == FR_BODY_TO_END)
        end(t);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        end_with(t, FR_UNREACHABLE, "went away before its answer was whole");
}

/* A host that closes before the request is complete may have answered it: reading goes on. */
static void transmit(struct transfer *t)
{
    ssize_t n = fr_sys.write(t->fd, t->out.p, t->out.n);

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        n = (ssize_t)t->out.n;
    fr_buf_cut(&t->out, n > 0 ? (size_t)n : 0);
    if (t->out.n == 0)
        fr_loop_want(t->c->loop, t->watch, FR_LOOP_READ);
}

static void on_ready(void *arg, int what)
{
    struct transfer *t = arg;

    if ((what & FR_LOOP_WRITE) && t->out.n > 0)
        transmit(t);
    if (what & FR_LOOP_READ)
        receive(t);
}

static void try_connect(struct transfer *t)
{
    struct cli_client *c = t->c;
    int e;

    t->fd = fr_sys.connect_unix(c->path);
    e = errno;
    if (t->fd < 0 && (e == EAGAIN || e == EINTR)) {
        wait_until(t, fr_sys.mono_ms() + CONNECT_AGAIN_MS);
        return;
    }
    if (t->fd < 0) {
        if (e == ENOENT || e == ECONNREFUSED)
            fr_fail(&t->err, FR_UNREACHABLE, "no host listens at %s", c->path);
        else
            fr_fail_errno(&t->err, e, "connecting to the host at %s", c->path);
        end(t);
        return;
    }
    wait_until(t, t->due_ms);
    if (fr_sys.set_nonblock(t->fd, true) != 0 ||
        fr_loop_watch(c->loop, t->fd, on_ready, t, &t->watch) != FR_OK) {
        fr_fail(&t->err, FR_NOMEM, "no memory for a request");
        end(t);
        return;
    }
    fr_loop_want(c->loop, t->watch, FR_LOOP_READ | FR_LOOP_WRITE);
}

static void on_due(void *arg)
{
    struct transfer *t = arg;

    if (t->over)
        return;
    if (fr_sys.mono_ms() >= t->due_ms)
        end_with(t, FR_TIMEOUT, "does not answer");
    else if (t->fd < 0)
        try_connect(t);
}

static void write_request(struct fr_buf *b, const struct client_request *req, const char *last_id)
{
    fr_buf_fmt(b, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", req->method,
               req->path);
    if (req->range != NULL)
        fr_buf_fmt(b, "Range: bytes=%s\r\n", req->range);
    if (last_id != NULL)
        fr_buf_fmt(b, "Last-Event-ID: %s\r\n", last_id);
    if (req->body.n > 0)
        fr_buf_text(b, "Content-Type: application/json\r\n");
    if (strcmp(req->method, "PUT") == 0)
        fr_buf_text(b, "If-Match: *\r\n"); /* without a check of the version */
    if (strcmp(req->method, "GET") != 0)
        fr_buf_fmt(b, "Content-Length: %zu\r\n", req->body.n);
    fr_buf_text(b, "\r\n");
    fr_buf_add(b, req->body.p, req->body.n);
}

/* Call transfer_finish() after an error, too. */
static enum fr_rc transfer_begin(struct transfer *t, const struct client_request *req,
                                 const char *last_id, struct fr_err *err)
{
    int64_t ms = req->deadline_ms > 0 ? req->deadline_ms : ANSWER_MS;

    t->fd = -1;
    t->due_ms = fr_sys.mono_ms() + (t->patience_ms > 0 ? t->patience_ms : ms);
    write_request(&t->out, req, last_id);
    if (t->out.bad || fr_loop_timer(t->c->loop, on_due, t, &t->timer) != FR_OK)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    try_connect(t);
    return FR_OK;
}

static void transfer_finish(struct transfer *t)
{
    hang_up(t);
    fr_loop_untimer(t->c->loop, &t->timer);
    fr_buf_finish(&t->out);
    fr_buf_finish(&t->head);
    fr_buf_finish(&t->body);
}

/* ---- a client ---- */

enum fr_rc client_create(struct fr_loop *loop, const char *socket_path, struct cli_client **out,
                         struct fr_err *err)
{
    struct cli_client *c = fr_sys.alloc(sizeof(*c));
    size_t n = strlen(socket_path) + 1;

    *out = NULL;
    if (c == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to reach the host");
    *c = (struct cli_client){
        .loop = loop, .path = fr_sys.alloc(n), .space = fr_sys.alloc(READ_BYTES)};
    if (c->path == NULL || c->space == NULL) {
        client_destroy(c);
        return fr_fail(err, FR_NOMEM, "no memory to reach the host");
    }
    memcpy(c->path, socket_path, n);
    *out = c;
    return FR_OK;
}

void client_destroy(struct cli_client *c)
{
    if (c == NULL)
        return;
    while (c->streams != NULL)
        client_stream_close(c->streams);
    fr_sys.free(c->path);
    fr_sys.free(c->space);
    fr_sys.free(c);
}

/* ---- a question ---- */

void client_answer_finish(struct client_answer *a)
{
    fr_buf_finish(&a->body);
    fr_issues_finish(&a->issues);
    *a = (struct client_answer){0};
}

static struct fr_str text_of(const struct fr_buf *b)
{
    return (struct fr_str){b->n > 0 ? b->p : "", b->n};
}

enum fr_rc client_ask(struct cli_client *c, const struct client_request *req,
                      struct client_answer *out, struct fr_err *err)
{
    struct transfer t = {.c = c};
    enum fr_rc rc = transfer_begin(&t, req, NULL, err);

    *out = (struct client_answer){0};
    while (rc == FR_OK && !t.over)
        rc = fr_loop_turn(c->loop, true, err);
    if (rc == FR_OK && t.err.rc != FR_OK) {
        *err = t.err;
        rc = err->rc;
    } else if (rc == FR_OK) {
        out->status = t.status;
        if (out->status >= 400) {
            rc = fr_problem_read(out->status, text_of(&t.body), &out->issues, err);
        } else {
            out->body = t.body;
            t.body = (struct fr_buf){0};
        }
    }
    transfer_finish(&t);
    return rc;
}

/* ---- a stream ---- */

static void stream_free(struct client_stream *s)
{
    fr_loop_withdraw(s->t.c->loop, &s->post);
    *s->at = s->next;
    if (s->next != NULL)
        s->next->at = s->at;
    transfer_finish(&s->t);
    fr_sse_finish(&s->sse);
    fr_sys.free(s);
}

static void on_sse(void *arg, const struct fr_sse_event *e)
{
    struct client_stream *s = arg;

    if (!s->closed)
        s->listener.on_event(s->listener.arg, e);
}

/* Hands received events to the listener; false: s->t.err has the error. */
static bool take_events(struct client_stream *s)
{
    struct fr_buf in = s->t.body;
    struct fr_err err = {0};

    if (in.n == 0 || !s->t.events)
        return true;
    s->t.body = (struct fr_buf){0};
    if (fr_sse_feed(&s->sse, (struct fr_str){in.p, in.n}, on_sse, s, &err) != FR_OK)
        s->t.err = err;
    fr_buf_finish(&in);
    return err.rc == FR_OK;
}

static void take_end(struct client_stream *s)
{
    struct transfer *t = &s->t;

    if (t->err.rc == FR_OK && t->events)
        fr_fail(&t->err, FR_STOPPED, "the host at %s ended the stream", t->c->path);
    else if (t->err.rc == FR_OK)
        fr_problem_read(t->status, text_of(&t->body), NULL, &t->err);
    s->closed = true;
    s->listener.on_end(s->listener.arg, &t->err);
}

static void stream_act(void *arg)
{
    struct client_stream *s = arg;
    bool good;

    s->calling = true;
    good = take_events(s);
    if (!s->closed && (s->t.over || !good))
        take_end(s);
    s->calling = false;
    if (s->closed)
        stream_free(s);
}

enum fr_rc client_stream(struct cli_client *c, const char *path, const char *last_id,
                         const struct client_listener *listener, struct client_stream **out,
                         struct fr_err *err)
{
    struct client_request req = {.method = "GET", .path = path};
    struct client_stream *s = fr_sys.alloc(sizeof(*s));
    enum fr_rc rc;

    *out = NULL;
    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a stream");
    *s = (struct client_stream){.t = {.c = c, .fd = -1, .patience_ms = SILENCE_MS},
                                .listener = *listener,
                                .next = c->streams,
                                .at = &c->streams};
    if (s->next != NULL)
        s->next->at = &s->next;
    c->streams = s;
    s->post = (struct fr_post){.run = stream_act, .arg = s};
    s->t.notify = &s->post;
    rc = transfer_begin(&s->t, &req, last_id, err);
    if (rc == FR_OK)
        *out = s;
    else
        stream_free(s);
    return rc;
}

void client_stream_patience(struct client_stream *s, int64_t ms)
{
    s->t.patience_ms = ms;
    s->t.due_ms = fr_sys.mono_ms() + ms;
    wait_until(&s->t, s->t.due_ms);
}

void client_stream_close(struct client_stream *s)
{
    if (s == NULL || s->closed)
        return;
    s->closed = true;
    if (!s->calling)
        stream_free(s);
}
