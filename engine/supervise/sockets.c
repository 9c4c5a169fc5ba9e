/* The sockets of a supervisor: the one to the serve that started it, and those of later serves. */
#include "engine/supervise/private.h"

#include <errno.h>
#include <string.h>

enum {
    READ_PIECE = 16 << 10,
    GREW_BEHIND = 64 /* bytes: room for LAUNCHED, but not for another GREW */
};

void sup_conn_close(struct sup_conn *c)
{
    fr_fd_close(&c->fd);
    fr_wire_finish(&c->in);
    fr_buf_finish(&c->out);
    *c = (struct sup_conn){.fd = -1};
}

static void put(struct sup_conn *c, const struct fr_msg *m)
{
    struct fr_err err;

    if (c->fd >= 0 && fr_msg_put(m, &c->out, &err) != FR_OK)
        sup_conn_close(c);
}

/* To all connections. */
static void send_all(struct sup *s, const struct fr_msg *m)
{
    for (int i = 0; i < SUP_CONNS; i++)
        put(&s->conns[i], m);
}

static struct fr_msg prepared_msg(const struct sup *s, enum fr_rc rc, const char *text)
{
    struct fr_msg m = {.type = FR_MSG_PREPARED};

    m.prepared.attempt = s->a->prepare.attempt;
    m.prepared.rc = rc;
    m.prepared.text = fr_str_of(text);
    m.prepared.port = s->port;
    return m;
}

static struct fr_msg launched_msg(const struct sup *s)
{
    struct fr_msg m = {.type = FR_MSG_LAUNCHED};

    m.launched.attempt = s->a->prepare.attempt;
    m.launched.pid = (uint32_t)s->child.pid;
    m.launched.mono_ms = s->end.launched_ms;
    return m;
}

void sup_send_prepared(struct sup *s, enum fr_rc rc, const char *text)
{
    struct fr_msg m = prepared_msg(s, rc, text);

    send_all(s, &m);
}

void sup_send_launched(struct sup *s)
{
    struct fr_msg m = launched_msg(s);

    s->launch_due_ms = INT64_MAX;
    send_all(s, &m);
}

/* A new connection first gets STATE, which names the attempt. When all places are taken, the oldest
 * connection is closed. */
void sup_accept(struct sup *s, int listen_fd)
{
    int fd = fr_sys.accept(listen_fd);
    struct sup_conn *c = NULL;
    struct fr_msg m = {.type = FR_MSG_STATE};

    if (fd < 0)
        return;
    for (int i = 0; i < SUP_CONNS && c == NULL; i++)
        if (s->conns[i].fd < 0)
            c = &s->conns[i];
    if (c == NULL) {
        sup_conn_close(&s->conns[0]);
        memmove(&s->conns[0], &s->conns[1], (SUP_CONNS - 1) * sizeof(s->conns[0]));
        c = &s->conns[SUP_CONNS - 1];
    }
    *c = (struct sup_conn){.fd = fd, .grew = s->log.size > 0 || s->metrics.size > 0};
    fr_sys.set_nonblock(fd, true);
    m.state.attempt = s->a->prepare.attempt;
    m.state.status = s->end.launched ? FR_AT_RUNNING : FR_AT_PREPARED;
    put(c, &m);
    if (s->phase == SUP_WAITING && !s->go) {
        m = prepared_msg(s, FR_OK, "");
        put(c, &m);
    } else if (s->end.launched && s->launch_due_ms == INT64_MAX) {
        m = launched_msg(s);
        put(c, &m);
    }
}

static void take_go(struct sup *s, const struct fr_go *go)
{
    if (s->phase != SUP_WAITING || s->go)
        return;
    s->go_env.v = fr_arena_array(&s->arena, go->env.n + 1, sizeof(struct fr_str));
    for (size_t i = 0; s->go_env.v != NULL && i < go->env.n; i++)
        s->go_env.v[s->go_env.n++] = (struct fr_str){
            fr_arena_text(&s->arena, go->env.v[i].p, go->env.v[i].n), go->env.v[i].n};
    s->go = true;
}

static void take(struct sup *s, const struct fr_msg *m)
{
    struct fr_id id = s->a->prepare.attempt;

    if (m->type == FR_MSG_GO && fr_id_eq(m->go.attempt, id))
        take_go(s, &m->go);
    else if (m->type == FR_MSG_STOP && fr_id_eq(m->stop.attempt, id) &&
             (!m->stop.notice || s->req->notice_ms > 0))
        sup_stop(s, m->stop.stop_cause == FR_CAUSE_NODE_LOST ? FR_END_NODE_LOST : FR_END_STOPPED,
                 m->stop.stop_cause, m->stop.grace_ms);
    else if (m->type == FR_MSG_LEASED && s->req->lease_ms > 0)
        s->lease_ms = m->leased.boot_ms + s->req->lease_ms;
}

void sup_conn_take(struct sup *s, struct sup_conn *c)
{
    bool got = true;

    while (got && c->fd >= 0) {
        struct fr_arena arena = {0};
        struct fr_msg m;
        struct fr_err err;
        if (fr_wire_next(&c->in, &arena, &m, &got, &err) != FR_OK)
            sup_conn_close(c);
        else if (got)
            take(s, &m);
        fr_arena_finish(&arena);
    }
}

void sup_conn_read(struct sup *s, struct sup_conn *c)
{
    char piece[READ_PIECE];
    ssize_t k = fr_sys.read(c->fd, piece, sizeof(piece));

    if (k < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (k <= 0) {
        sup_conn_close(c);
        return;
    }
    fr_wire_feed(&c->in, piece, (size_t)k);
    sup_conn_take(s, c);
}

void sup_conn_write(struct sup *s, struct sup_conn *c)
{
    if (c->grew && c->out.n < GREW_BEHIND) {
        struct fr_msg m = {.type = FR_MSG_GREW};
        if (s->launch_due_ms !=
            INT64_MAX) /* its output comes before its end, and its launch first */
            sup_send_launched(s);
        m.grew.attempt = s->a->prepare.attempt;
        m.grew.log_bytes = s->log.size;
        c->grew = false;
        put(c, &m);
    }
    if (c->fd < 0 || c->out.n == 0)
        return;
    ssize_t k = fr_sys.write(c->fd, c->out.p, c->out.n);
    if (k > 0)
        fr_buf_cut(&c->out, (size_t)k);
    else if (k == 0 || (errno != EAGAIN && errno != EINTR))
        sup_conn_close(c);
}
