#include "engine/web/internal.h"

#include "engine/base/sys.h"
#include "engine/host/problem.h"

static size_t on_send(void *arg, struct fr_str events)
{
    struct conn *c = arg;

    if (c->closed || events.n == 0)
        return conn_queued(c);
    if (c->opening) {
        fr_buf_add(&c->early, events.p, events.n);
        return c->early.n;
    }
    answer_part(c, events);
    if (!c->closed)
        web_comment(c, c->server->times.comment);
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

static void end(struct conn *c)
{
    if (c->closed)
        return;
    conn_begin_send(c);
    evhttp_send_reply_end(c->req);
    conn_end_send(c);
}

static void on_close(void *arg)
{
    struct conn *c = arg;

    forget(c);
    end(c);
}

static void begin(struct conn *c)
{
    if (c->early.bad) {
        conn_close(c);
        return;
    }
    answer_header(c, "Content-Type", "text/event-stream");
    answer_header(c, "Cache-Control", "no-store");
    answer_header(c, "X-Accel-Buffering", "no");
    answer_header(c, "Connection", "close");
    conn_begin_send(c);
    evhttp_send_reply_start(c->req, 200, fr_status_phrase(200));
    conn_end_send(c);
    answer_part(c, c->early.n > 0 ? (struct fr_str){c->early.p, c->early.n} : FR_STR(":\n\n"));
    fr_buf_finish(&c->early);
    if (!c->closed)
        web_comment(c, c->server->times.comment);
}

void stream_open(struct conn *c, const struct fr_api_request *req)
{
    const struct fr_api *api = c->server->api;
    struct fr_api_sink sink = {.send = on_send, .close = on_close, .arg = c};
    struct fr_api_response res = {.fd = -1};
    struct fr_err err;

    if (evhttp_request_get_command(c->req) == EVHTTP_REQ_HEAD) {
        fr_fail(&err, FR_UNSUPPORTED, "a stream is for GET");
        fr_problem(&res, 405, req->path, &err, NULL);
        fr_buf_text(&res.allow, "GET");
    } else if (c->server->n_streams == WEB_STREAMS) {
        fr_fail(&err, FR_BUSY, "the host has %d streams", WEB_STREAMS);
        fr_problem(&res, 503, req->path, &err, NULL);
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
    begin(c);
}

void stream_drained(struct conn *c)
{
    web_comment(c, c->server->times.comment);
    c->server->api->drained(c->server->api->self, c->stream);
}

/* Tells the reader that the host lives, and the host that the reader does. */
void stream_comment(struct conn *c)
{
    web_comment(c, c->server->times.comment);
    if (conn_queued(c) == 0)
        answer_part(c, FR_STR(":\n\n"));
}

void stream_bye(struct conn *c)
{
    if (!c->streaming || c->closed)
        return;
    answer_part(c, FR_STR("event: bye\ndata: {\"reason\":\"the host leaves\"}\n\n"));
    end(c);
}

void stream_gone(struct conn *c)
{
    struct fr_api_stream *s = c->stream;

    if (!c->streaming)
        return;
    forget(c);
    c->server->api->gone(c->server->api->self, s);
}
