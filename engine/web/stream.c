#include "engine/web/private.h"

#include "engine/base/sys.h"
#include "engine/api/problem.h"

#include <string.h>

/* HTTP/1.0, which nginx speaks by default, knows no chunks: there the end of the connection ends
 * the stream. */
static bool is_chunked(const struct conn *c)
{
    return c->head.minor > 0;
}

static void add_part(struct conn *c, struct fr_str p)
{
    if (is_chunked(c))
        fr_buf_fmt(&c->out, "%zx\r\n", p.n);
    conn_add(c, p);
    if (is_chunked(c))
        conn_add(c, FR_STR("\r\n"));
    conn_flush(c);
    web_comment(c, c->server->times.comment);
}

static void add_end(struct conn *c)
{
    if (is_chunked(c))
        conn_add(c, FR_STR("0\r\n\r\n"));
}

/* The host learns later, in a turn of its own, that the reader has all bytes. */
static void send_events(struct conn *c, struct fr_str events)
{
    add_part(c, events);
    c->behind = true;
    fr_loop_post(c->server->loop, &c->post);
}

/* Who reads the stream has its secret no more: the session is over, or the token is gone. */
static bool has_lost(const struct conn *c)
{
    const struct fr_api *api = c->server->api;
    struct fr_api_caller caller;

    return c->tcp && c->secret[0] != '\0' &&
           !api->identify(api->self, c->kind, c->secret, false, &caller);
}

/* The same, asked once in the time of a comment, also where events
 * come all the time. */
static bool is_locked_out(struct conn *c)
{
    if (fr_sys.mono_ms() < c->checked_ms + c->server->times.comment)
        return false;
    c->checked_ms = fr_sys.mono_ms();
    return has_lost(c);
}

static void end_with_bye(struct conn *c)
{
    stream_bye(c, false);
    conn_flush(c);
    c->over = true;
    fr_loop_post(c->server->loop, &c->post);
}

static size_t on_send(void *arg, struct fr_str events)
{
    struct conn *c = arg;

    if (c->opening) {
        fr_buf_add(&c->early, events.p, events.n);
        return c->early.n;
    }
    if (!c->over && is_locked_out(c))
        end_with_bye(c);
    if (!c->over && events.n > 0)
        send_events(c, events);
    return conn_queued(c);
}

/* The stream is the host's no more. */
static void forget(struct conn *c)
{
    c->server->n_streams--;
    c->streaming = false;
    c->stream = NULL;
    c->comment_ms = -1;
}

static void on_close(void *arg)
{
    struct conn *c = arg;

    forget(c);
    add_end(c);
    conn_flush(c);
    fr_loop_post(c->server->loop, &c->post);
}

static void begin(struct conn *c)
{
    c->last = true;
    fr_buf_text(&c->out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                         "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
    answer_add_guards(c, false);
    fr_buf_text(&c->out, is_chunked(c) ? "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                                       : "Connection: close\r\n\r\n");
    if (c->early.bad)
        c->over = true;
    else
        send_events(c, c->early.n > 0 ? (struct fr_str){c->early.p, c->early.n} : FR_STR(":\n\n"));
    fr_buf_finish(&c->early);
}

void stream_open(struct conn *c, const struct fr_api_request *req)
{
    const struct fr_api *api = c->server->api;
    struct fr_api_sink sink = {.send = on_send, .close = on_close, .arg = c};
    struct fr_api_response res = {.fd = -1};
    struct fr_err err;

    if (answer_is_head(c)) {
        fr_fail(&err, FR_UNSUPPORTED, "a stream is for GET");
        fr_problem(&res, 405, req->path, &err, NULL);
        fr_buf_text(&res.allow, "GET");
    } else if (c->server->n_streams == WEB_STREAMS) {
        fr_fail(&err, FR_BUSY, "the host has %d streams", WEB_STREAMS);
        fr_problem(&res, 503, req->path, &err, NULL);
        fr_problem_retry(&res, CROWDED_MS);
    } else {
        c->opening = true;
        api->open(api->self, req, &sink, &res, &c->stream);
        c->opening = false;
    }
    if (c->stream == NULL) {
        fr_buf_finish(&c->early);
        answer_send(c, &res);
        return;
    }
    fr_api_response_finish(&res);
    c->server->n_streams++;
    c->streaming = true;
    c->checked_ms = fr_sys.mono_ms();
    begin(c);
}

void stream_drained(struct conn *c)
{
    c->behind = false;
    c->server->api->drained(c->server->api->self, c->stream);
}

void stream_end_of(struct fr_server *s, const char *session)
{
    for (struct conn *c = s->conns; c != NULL; c = c->next)
        if (c->streaming && session[0] != '\0' && strcmp(c->caller.session, session) == 0)
            end_with_bye(c);
}

void stream_end_lost(struct fr_server *s)
{
    for (struct conn *c = s->conns; c != NULL; c = c->next)
        if (c->streaming && !c->over && has_lost(c))
            end_with_bye(c);
}

/* Tells the reader that the host lives, and the host that the reader does. */
void stream_comment(struct conn *c)
{
    if (is_locked_out(c)) {
        end_with_bye(c);
        return;
    }
    web_comment(c, c->server->times.comment);
    if (conn_queued(c) == 0)
        add_part(c, FR_STR(":\n\n"));
}

void stream_bye(struct conn *c, bool leaves)
{
    if (!c->streaming || c->over)
        return;
    add_part(c, leaves ? FR_STR("event: bye\ndata: {\"reason\":\"the host leaves\"}\n\n")
                       : FR_STR("event: bye\ndata: {\"reason\":\"logged out\"}\n\n"));
    add_end(c);
}

void stream_gone(struct conn *c)
{
    struct fr_api_stream *s = c->stream;

    if (!c->streaming)
        return;
    forget(c);
    c->server->api->gone(c->server->api->self, s);
}
