#include "engine/web/private.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { STEPS_A_TURN = 16 };

/* ---- bytes ---- */

size_t conn_queued(const struct conn *c)
{
    return c->out.n - c->written;
}

void conn_add(struct conn *c, struct fr_str p)
{
    fr_buf_add(&c->out, p.p, p.n);
}

static void end_soon(struct conn *c)
{
    c->over = true;
    fr_loop_post(c->server->loop, &c->post);
}

static void want(struct conn *c)
{
    bool reads = !c->eof && (c->state != CONN_ANSWER || !c->last || c->streaming);

    fr_loop_want(c->server->loop, c->watch,
                 (reads ? FR_LOOP_READ : 0) | (conn_queued(c) > 0 ? FR_LOOP_WRITE : 0));
}

static void set_drain_due(struct conn *c)
{
    if (conn_queued(c) == 0)
        web_due(c, -1);
    else if (c->due_ms < 0)
        web_due(c, c->server->times.drain);
}

void conn_flush(struct conn *c)
{
    ssize_t n = 1;

    if (c->out.bad)
        end_soon(c);
    while (!c->over && conn_queued(c) > 0 && n > 0) {
        n = fr_sys.write(c->fd, c->out.p + c->written, conn_queued(c));
        if (n > 0)
            c->written += (size_t)n;
        else if (errno == EINTR)
            n = 1;
        else if (errno != EAGAIN)
            end_soon(c);
    }
    if (c->over)
        return;
    if (conn_queued(c) == 0 || c->written >= WEB_AHEAD_BYTES) {
        fr_buf_cut(&c->out, c->written);
        c->written = 0;
    }
    if (c->out.n == 0)
        fr_buf_finish(&c->out); /* a reader that waits for events holds no memory */
    if (c->state == CONN_ANSWER)
        set_drain_due(c);
    want(c);
}

static void receive(struct conn *c)
{
    ssize_t n = fr_sys.read(c->fd, c->server->space, WEB_BLOCK_BYTES);

    if (n > 0 && c->state == CONN_LINGER)
        return;
    if (n > 0) {
        if (c->state == CONN_HEAD && c->in.n == 0)
            web_due(c, c->server->times.head);
        fr_buf_add(&c->in, c->server->space, (size_t)n);
        c->over |= c->in.bad || (c->state == CONN_ANSWER && c->in.n > WEB_AHEAD_BYTES);
    } else if (n == 0) {
        c->eof = true;
        want(c);
    } else if (errno != EAGAIN && errno != EINTR) {
        c->over = true;
    }
}

static void on_ready(void *arg, int what)
{
    struct conn *c = arg;

    if (what & FR_LOOP_WRITE)
        conn_flush(c);
    if ((what & FR_LOOP_READ) && !c->over)
        receive(c);
    fr_loop_post(c->server->loop, &c->post);
}

/* ---- turns ---- */

static void next_request(struct conn *c)
{
    c->state = CONN_HEAD;
    c->looked = 0;
    fr_buf_finish(&c->head_text);
    fr_buf_finish(&c->content);
    if (c->in.n == 0)
        fr_buf_finish(&c->in);
    web_due(c, c->in.n > 0 ? c->server->times.head : c->server->times.idle);
}

/* All is written. */
static void end_last(struct conn *c)
{
    if (!c->lingers || c->eof || shutdown(c->fd, SHUT_WR) != 0) {
        c->over = true;
        return;
    }
    c->state = CONN_LINGER;
    fr_buf_finish(&c->in);
    web_due(c, WEB_LINGER_MS);
    want(c);
}

/* The answer goes on, or all of it is written. */
static bool step_answer(struct conn *c)
{
    if (c->streaming && c->eof)
        c->over = true;
    if (c->over || conn_queued(c) > 0 || (c->later && !c->again))
        return false;
    if (c->later) {
        request_answer(c);
        return true;
    }
    if (c->streaming) {
        if (c->behind)
            stream_drained(c);
        return false;
    }
    if (c->res.file)
        answer_more(c);
    else if (c->last)
        end_last(c);
    else
        next_request(c);
    return true;
}

static bool step(struct conn *c)
{
    bool did;

    if (c->state == CONN_ANSWER)
        return step_answer(c);
    if (c->state == CONN_LINGER) {
        c->over |= c->eof;
        return false;
    }
    did = c->state == CONN_HEAD ? request_head(c) : request_body(c);
    c->over |= !did && c->eof;
    return did;
}

static void act(void *arg)
{
    struct conn *c = arg;
    int steps = 0;

    if (!c->over && c->comment_ms >= 0 && c->comment_ms <= fr_sys.mono_ms())
        (c->later ? answer_wait : stream_comment)(c); /* may end it */
    while (!c->over && steps < STEPS_A_TURN && step(c))
        steps++;
    if (c->over)
        conn_destroy(c);
    else if (steps == STEPS_A_TURN) /* others have their turn first */
        fr_loop_post(c->server->loop, &c->post);
}

static void on_again(void *arg)
{
    struct conn *c = arg;

    c->again = true;
    fr_loop_post(c->server->loop, &c->post);
}

/* ---- its life ---- */

static bool is_owner(struct conn *c)
{
    uid_t peer = (uid_t)-1;

    if (fr_sys.peer_uid(c->fd, &peer) == 0 && peer == fr_sys.uid())
        return true;
    fr_log(FR_LOG_WARN, "web", "refused uid=%ld", (long)peer);
    return false;
}

static bool is_known(struct conn *c)
{
    return c->tcp ? fr_sys.endpoint(c->fd, true, &c->peer) == 0 &&
                        fr_sys.endpoint(c->fd, false, &c->local) == 0
                  : is_owner(c);
}

/* Counts connections from the address of c; those of a proxy serve many users and do not count. */
static size_t conns_of(const struct conn *c)
{
    size_t n = 0;

    for (const struct conn *o = c->server->conns; o != NULL; o = o->next)
        n += o->tcp && strcmp(o->peer.host, c->peer.host) == 0;
    return fr_gate_is_proxy(&c->server->gate, c->peer.host) ? 0 : n;
}

/* Whether there are too many connections. */
static bool check_crowd(struct conn *c, struct fr_err *err)
{
    struct fr_server *s = c->server;

    if (s->n_conns > WEB_CONNS)
        fr_fail(err, FR_BUSY, "the host has %d connections", WEB_CONNS);
    else if (c->tcp && web_is_scarce(s, c->fd))
        fr_fail(err, FR_BUSY, "the host has few descriptors left");
    else if (c->tcp && s->n_tcp > WEB_CONNS_TCP)
        fr_fail(err, FR_BUSY, "the host has %d connections over TCP", WEB_CONNS_TCP);
    else if (c->tcp && conns_of(c) > WEB_CONNS_OF)
        fr_fail(err, FR_BUSY, "the host has %d connections of %s", WEB_CONNS_OF, c->peer.host);
    else
        return false;
    return true;
}

void conn_create(struct listener *l, int fd)
{
    struct fr_server *s = l->server;
    struct conn *c = fr_sys.alloc(sizeof(*c));
    struct fr_err err;

    if (c == NULL) {
        fr_sys.close(fd);
        return;
    }
    *c = (struct conn){.server = s,
                       .fd = fd,
                       .tcp = l->tcp,
                       .metrics_only = l->metrics_only,
                       .due_ms = -1,
                       .comment_ms = -1,
                       .res = {.fd = -1},
                       .next = s->conns};
    c->post = (struct fr_post){.run = act, .arg = c};
    c->waiter = (struct fr_api_waiter){.again = on_again, .arg = c};
    if (c->next != NULL)
        c->next->prev = c;
    s->conns = c;
    s->n_conns++;
    s->n_tcp += c->tcp;
    if (!is_known(c) || fr_sys.set_nonblock(fd, true) != 0 ||
        fr_loop_watch(s->loop, fd, on_ready, c, &c->watch) != FR_OK) {
        conn_destroy(c);
        return;
    }
    web_due(c, s->times.head);
    want(c);
    if (check_crowd(c, &err)) {
        answer_refuse(c, 503, &err);
        c->lingers = false; /* there are too many as it is */
        fr_loop_post(s->loop, &c->post);
    }
}

void conn_destroy(struct conn *c)
{
    struct fr_server *s = c->server;

    fr_loop_withdraw(s->loop, &c->post);
    stream_gone(c);
    if (c->later)
        s->api->forget(s->api->self, &c->waiter);
    fr_loop_unwatch(s->loop, &c->watch);
    fr_sys.close(c->fd);
    fr_api_response_finish(&c->res);
    web_gzip_destroy(c->gzip);
    fr_buf_finish(&c->in);
    fr_buf_finish(&c->content);
    fr_buf_finish(&c->out);
    fr_buf_finish(&c->head_text);
    fr_buf_finish(&c->early);
    *(c->prev != NULL ? &c->prev->next : &s->conns) = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    s->n_conns--;
    s->n_tcp -= c->tcp;
    fr_sys.free(c);
}
