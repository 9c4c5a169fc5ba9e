#include "engine/web/internal.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/host/problem.h"

#include <string.h>
#include <sys/socket.h>

size_t conn_queued(struct conn *c)
{
    return c->bev != NULL ? evbuffer_get_length(bufferevent_get_output(c->bev)) : 0;
}

static void end_later(struct conn *c)
{
    c->over = true;
    fr_loop_post(c->server->loop, &c->post);
}

/* ---- what comes ---- */

/* An empty line ends the head. */
static bool scan(struct conn *c, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        c->head_bytes++;
        if (p[i] == '\n' && c->line_bytes == 0)
            return true;
        if (p[i] == '\n')
            c->line_bytes = 0;
        else if (p[i] != '\r')
            c->line_bytes++;
    }
    return false;
}

/* The last n bytes of buf are part of a head, and maybe of what follows it. */
static void scan_last(struct conn *c, struct evbuffer *buf, size_t n)
{
    struct evbuffer_ptr at;
    struct evbuffer_iovec v;

    if (evbuffer_ptr_set(buf, &at, evbuffer_get_length(buf) - n, EVBUFFER_PTR_SET) != 0)
        return;
    while (n > 0 && evbuffer_peek(buf, (ev_ssize_t)n, &at, &v, 1) > 0 && v.iov_len > 0) {
        size_t take = v.iov_len < n ? v.iov_len : n;

        if (scan(c, v.iov_base, take)) {
            c->state = CONN_BODY;
            web_due(c, c->server->times.body);
            return;
        }
        n -= take;
        if (n > 0 && evbuffer_ptr_set(buf, &at, take, EVBUFFER_PTR_ADD) != 0)
            return;
    }
}

static void come(struct conn *c, struct evbuffer *buf, size_t n)
{
    if (c->state == CONN_IDLE) {
        c->state = CONN_HEAD;
        c->head_bytes = c->line_bytes = 0;
        web_due(c, c->server->times.head);
    }
    if (c->state == CONN_HEAD)
        scan_last(c, buf, n);
    else if (c->state == CONN_ANSWER && evbuffer_get_length(buf) > WEB_AHEAD_BYTES)
        end_later(c);
}

static void on_input(struct evbuffer *buf, const struct evbuffer_cb_info *info, void *conn)
{
    if (info->n_added > 0)
        come(conn, buf, info->n_added);
}

/* ---- what evhttp sends on its own account ---- */

static int page_status(struct evbuffer *buf)
{
    char line[13] = "";

    if (evbuffer_copyout(buf, line, sizeof(line) - 1) != (ev_ssize_t)sizeof(line) - 1 ||
        memcmp(line, "HTTP/1.", 7) != 0)
        return 0;
    return 100 * (line[9] - '0') + 10 * (line[10] - '0') + line[11] - '0';
}

static void replace_page(struct conn *c, int status)
{
    struct fr_err err;

    if (status == 413)
        fr_fail(&err, FR_FULL, "the body is longer than %d bytes", WEB_BODY_BYTES);
    else if (status == 417)
        fr_fail(&err, FR_UNSUPPORTED, "of Expect only \"100-continue\" is known");
    else if (c->head_bytes > WEB_HEAD_BYTES)
        fr_fail(&err, FR_FULL, "the head is longer than %d bytes", WEB_HEAD_BYTES);
    else
        fr_fail(&err, FR_USAGE, "this is no HTTP/1.1 request");
    conn_refuse(c, status == 400 && err.rc == FR_FULL ? 431 : status, &err);
}

static void on_output(struct evbuffer *buf, const struct evbuffer_cb_info *info, void *conn)
{
    struct conn *c = conn;

    if (info->n_added > 0 && !c->sending && !c->refused && page_status(buf) != 100)
        replace_page(c, page_status(buf));
}

void conn_begin_send(struct conn *c)
{
    c->sending = true;
    if (c->due_ms < 0)
        web_due(c, c->server->times.drain);
}

void conn_end_send(struct conn *c)
{
    c->sending = false;
}

/* Nothing waits in the output buffer: each answer was written before the next request was read. The
 * socket takes it, or the reader did not read the answers before. evhttp's own page then finds the
 * socket shut down, and evhttp closes the connection. */
void conn_refuse(struct conn *c, int status, const struct fr_err *err)
{
    struct fr_api_response res = {.fd = -1};
    struct fr_buf text = {0};
    int fd = (int)bufferevent_getfd(c->bev);

    c->refused = true;
    fr_log(FR_LOG_DEBUG, "web", "refused status=%d why=\"%s\"", status, err->msg);
    fr_problem(&res, status, NULL, err, NULL);
    fr_buf_fmt(&text,
               "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
               "Connection: close\r\n\r\n",
               status, fr_status_phrase(status), res.type, res.body.n);
    fr_buf_add(&text, res.body.p, res.body.n);
    if (!text.bad)
        (void)!send(fd, text.p, text.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_RDWR);
    fr_buf_finish(&text);
    fr_api_response_finish(&res);
}

void conn_flush(struct conn *c)
{
    struct evbuffer *out = c->bev != NULL ? bufferevent_get_output(c->bev) : NULL;

    if (out == NULL)
        return;
    evbuffer_unfreeze(out, 1);
    while (evbuffer_get_length(out) > 0 && evbuffer_write(out, bufferevent_getfd(c->bev)) > 0)
        ;
    evbuffer_freeze(out, 1);
}

/* ---- its life ---- */

/* evhttp frees the connection when this returns. A request that it no longer counts among those of
 * the connection is ours. */
static void on_closed(struct evhttp_connection *evcon, void *conn)
{
    struct conn *c = conn;

    (void)evcon;
    evbuffer_remove_cb(bufferevent_get_input(c->bev), on_input, c);
    evbuffer_remove_cb(bufferevent_get_output(c->bev), on_output, c);
    if (c->req != NULL && evhttp_request_get_connection(c->req) == NULL)
        evhttp_request_free(c->req);
    c->req = NULL;
    c->evcon = NULL;
    c->bev = NULL;
    c->closed = true;
    c->due_ms = c->comment_ms = -1;
    fr_loop_post(c->server->loop, &c->post);
}

void conn_close(struct conn *c)
{
    if (c->evcon != NULL)
        evhttp_connection_free(c->evcon);
}

/* The connection's first turn. evhttp made its object behind bevcb; that is the argument of the
 * bufferevent's callbacks. */
static void adopt(struct conn *c)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof(peer);
    struct fr_err err;
    void *evcon = NULL;

    bufferevent_getcb(c->bev, NULL, NULL, NULL, &evcon);
    if (evcon == NULL) { /* evhttp had no memory for it */
        bufferevent_decref(c->bev);
        c->bev = NULL;
        c->closed = true;
        return;
    }
    bufferevent_decref(c->bev);
    c->evcon = evcon;
    evhttp_connection_set_closecb(c->evcon, on_closed, c);
    if (getsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 ||
        peer.uid != fr_sys.uid()) {
        fr_log(FR_LOG_WARN, "web", "refused uid=%ld", (long)peer.uid);
        c->over = true;
    } else if (c->server->n_conns > WEB_CONNS) {
        fr_fail(&err, FR_BUSY, "the host has %d connections", WEB_CONNS);
        conn_refuse(c, 503, &err);
        c->over = true;
    }
    c->uid = peer.uid;
}

/* What happened in callbacks is acted on here, outside of them. */
static void act(void *conn)
{
    struct conn *c = conn;

    if (c->evcon == NULL && !c->closed)
        adopt(c);
    if (c->over)
        conn_close(c);
    if (c->closed) {
        conn_destroy(c);
        return;
    }
    if (c->ready) {
        c->ready = false;
        answer_request(c);
    } else if (c->drained && conn_queued(c) == 0) {
        if (c->streaming)
            stream_drained(c);
        else
            answer_more(c);
    }
    c->drained = false;
    if (!c->closed && c->streaming && c->comment_ms >= 0 && c->comment_ms <= fr_sys.mono_ms())
        stream_comment(c);
}

struct bufferevent *conn_create(struct event_base *base, void *server)
{
    struct fr_server *s = server;
    struct conn *c = fr_sys.alloc(sizeof(*c));
    struct bufferevent *bev = c != NULL ? bufferevent_socket_new(base, -1, 0) : NULL;

    if (bev == NULL || evbuffer_add_cb(bufferevent_get_input(bev), on_input, c) == NULL ||
        evbuffer_add_cb(bufferevent_get_output(bev), on_output, c) == NULL) {
        if (bev != NULL)
            bufferevent_free(bev);
        fr_sys.free(c);
        return NULL;
    }
    *c = (struct conn){.server = s, .bev = bev, .comment_ms = -1, .res = {.fd = -1}};
    c->post = (struct fr_post){.run = act, .arg = c};
    bufferevent_incref(bev); /* until adopt() */
    c->next = s->conns;
    if (c->next != NULL)
        c->next->prev = c;
    s->conns = c;
    s->n_conns++;
    web_due(c, s->times.head);
    fr_loop_post(s->loop, &c->post);
    return bev;
}

void conn_destroy(struct conn *c)
{
    struct fr_server *s = c->server;

    fr_loop_withdraw(s->loop, &c->post);
    stream_gone(c);
    fr_api_response_finish(&c->res);
    fr_buf_finish(&c->early);
    if (c->bev != NULL) { /* never adopted: evhttp_free() takes the connection */
        evbuffer_remove_cb(bufferevent_get_input(c->bev), on_input, c);
        evbuffer_remove_cb(bufferevent_get_output(c->bev), on_output, c);
        bufferevent_decref(c->bev);
    }
    *(c->prev != NULL ? &c->prev->next : &s->conns) = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    s->n_conns--;
    fr_sys.free(c);
}

/* ---- requests ---- */

/* All of the answer is written. Bytes of the next request may be there already. */
static void on_complete(struct evhttp_request *req, void *conn)
{
    struct conn *c = conn;
    struct evbuffer *buf = bufferevent_get_input(c->bev);
    size_t n = evbuffer_get_length(buf);

    (void)req;
    c->req = NULL;
    c->state = CONN_IDLE;
    web_due(c, c->server->times.idle);
    if (n > 0)
        come(c, buf, n);
}

void conn_request(struct evhttp_request *req, void *server)
{
    struct fr_server *s = server;
    struct evhttp_connection *evcon = evhttp_request_get_connection(req);
    struct conn *c = s->conns;

    while (c != NULL && c->evcon != evcon)
        c = c->next;
    if (c == NULL) { /* conn_create() had no memory */
        evhttp_connection_free(evcon);
        return;
    }
    c->req = req;
    c->state = CONN_ANSWER;
    c->due_ms = -1;
    evhttp_request_set_on_complete_cb(req, on_complete, c);
    c->ready = true;
    fr_loop_post(s->loop, &c->post);
}
