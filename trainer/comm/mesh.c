#include "trainer/comm/mesh.h"

#include "engine/base/sys.h"
#include "trainer/comm/join.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { SPINS = 200, SLEEP_MS = 200, JOIN_MS = 60000 };

/* A position in the pieces of a move. */
struct cursor {
    const struct tr_pieces *v;
    size_t piece, at, done;
};

static void skip_empty(struct cursor *c)
{
    while (c->piece < c->v->n && c->at == c->v->bytes[c->piece]) {
        c->piece++;
        c->at = 0;
    }
}

static size_t total(const struct tr_pieces *v)
{
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++)
        n += v->bytes[i];
    return n;
}

/* Moves the bytes that fit now, at most `limit`; -1 with errno: the link is broken. */
static ssize_t push(struct tr_link *l, struct cursor *c, size_t limit, bool sending)
{
    skip_empty(c);
    if (c->piece == c->v->n || limit == 0)
        return 0;
    char *p = c->v->p[c->piece] + c->at;
    size_t n = c->v->bytes[c->piece] - c->at;
    if (n > limit)
        n = limit;
    ssize_t k = sending ? l->ops->send(l, p, n) : l->ops->recv(l, p, n);
    if (k > 0) {
        c->at += (size_t)k;
        c->done += (size_t)k;
    }
    return k;
}

/* Sleeps until one side can move, at most SLEEP_MS. */
static void doze(struct tr_link *to, struct tr_link *from)
{
    struct pollfd set[2];
    nfds_t n = 0;
    bool sleep = true;

    if (to != NULL && to == from)
        sleep = to->ops->arm(to, true, true, &set[n++]);
    else {
        if (to != NULL)
            sleep = to->ops->arm(to, true, false, &set[n++]);
        if (sleep && from != NULL)
            sleep = from->ops->arm(from, false, true, &set[n++]);
    }
    if (sleep)
        fr_sys.poll(set, n, SLEEP_MS);
    if (to != NULL)
        to->ops->disarm(to);
    if (from != NULL && from != to)
        from->ops->disarm(from);
}

static enum fr_rc broken(struct tr_mesh *m, const struct tr_move *v, int peer, struct fr_err *err)
{
    int e = errno;
    int64_t until =
        fr_sys.mono_ms() + 2000; /* the control plane usually has the cause a moment later */

    while (tr_control_check(m->control, err) == FR_OK && fr_sys.mono_ms() < until)
        fr_sys.poll(NULL, 0, 10);
    if (tr_control_check(m->control, err) != FR_OK)
        return err != NULL ? err->rc : FR_PEER;
    fr_fail(err, FR_PEER, "'%s': the connection to rank %d (%s) broke: %s", v->what, peer,
            tr_control_peers(m->control)[peer].host, strerror(e));
    if (err != NULL)
        tr_control_abort(m->control, FR_PEER, err->msg);
    return FR_PEER;
}

static enum fr_rc too_late(struct tr_mesh *m, const struct tr_move *v, bool receiving,
                           struct fr_err *err)
{
    int peer = receiving ? v->from : v->to;
    char text[256];

    snprintf(text, sizeof(text), "rank %d waited %lld s for rank %d (%s) in '%s' (--ddp_timeout)",
             m->rank, (long long)(m->timeout_ms / 1000), peer,
             tr_control_peers(m->control)[peer].host, v->what);
    tr_control_abort(m->control, FR_TIMEOUT, text);
    return fr_fail(err, FR_TIMEOUT, "%s", text);
}

/* The received head is unexpected: the bytes belong to another call. */
static enum fr_rc astray(struct tr_mesh *m, const struct tr_move *v, struct fr_err *err)
{
    char text[400];

    snprintf(text, sizeof(text),
             "'%.120s': what rank %d (%s) sends is not of the size, or of the call, that rank %d "
             "takes: the ranks disagree about who gets what",
             v->what, v->from, tr_control_peers(m->control)[v->from].host, m->rank);
    tr_control_abort(m->control, FR_PROTO, text);
    return fr_fail(err, FR_PROTO, "%s", text);
}

/* Whether the complete head is wrong. */
static bool wrong_head(const struct tr_move *v, const struct cursor *in)
{
    return v->head != NULL && in->done >= v->in.bytes[0] &&
           memcmp(v->in.p[0], v->head, v->in.bytes[0]) != 0;
}

enum fr_rc tr_mesh_move(struct tr_mesh *m, const struct tr_move *v, struct fr_err *err)
{
    struct tr_link *to = v->to >= 0 ? &m->links[v->to] : NULL;
    struct tr_link *from = v->from >= 0 ? &m->links[v->from] : NULL;
    struct cursor out = {.v = &v->out}, in = {.v = &v->in};
    size_t out_all = to != NULL ? total(&v->out) : 0, in_all = from != NULL ? total(&v->in) : 0;
    int64_t last = fr_sys.mono_ms();
    enum fr_rc rc = FR_OK;

    for (int idle = 0; rc == FR_OK && (out.done < out_all || in.done < in_all);) {
        size_t may_send = out.done < out_all ? v->own + in.done - out.done : 0;
        ssize_t s = may_send > 0 ? push(to, &out, may_send, true) : 0;
        if (s < 0)
            return broken(m, v, v->to, err);
        ssize_t r = in.done < in_all ? push(from, &in, in_all, false) : 0;
        if (r < 0)
            return broken(m, v, v->from, err);
        if (r > 0 && wrong_head(v, &in))
            return astray(m, v, err);
        if (s > 0 || r > 0) {
            idle = 0;
            continue;
        }
        if (idle == 0)
            last = fr_sys.mono_ms();
        if (++idle < SPINS && m->size == 2)
            continue;
        may_send = out.done < out_all ? v->own + in.done - out.done : 0;
        doze(may_send > 0 ? to : NULL, in.done < in_all ? from : NULL);
        rc = tr_control_check(m->control, err);
        if (rc == FR_OK && fr_sys.mono_ms() - last > m->timeout_ms)
            rc = too_late(m, v, in.done < in_all, err);
    }
    return rc;
}

/* The first bytes on a data connection: the caller's identity. */
struct caller {
    uint64_t job;
    int32_t rank;
    int32_t zero;
};

static enum fr_rc call(struct tr_mesh *m, int peer, uint64_t job, struct fr_err *err)
{
    const struct tr_peer *p = &tr_control_peers(m->control)[peer];
    struct caller me = {.job = job, .rank = m->rank};
    char host[INET6_ADDRSTRLEN];
    int fd;

    const char *text = inet_ntop(AF_INET6, &p->data.sin6_addr, host, sizeof(host));
    if (text != NULL && strncmp(text, "::ffff:", 7) == 0)
        text += 7;
    enum fr_rc rc =
        tr_connect(text, ntohs(p->data.sin6_port), fr_sys.mono_ms() + JOIN_MS, &fd, err);
    if (rc != FR_OK)
        return fr_while(err, "data connection from rank %d to rank %d on %s", m->rank, peer,
                        p->host);
    if (send(fd, &me, sizeof(me), MSG_NOSIGNAL) != (ssize_t)sizeof(me)) {
        fr_sys.close(fd);
        return fr_fail_errno(err, errno, "data connection to rank %d", peer);
    }
    return tr_link_tcp(fd, &m->links[peer], err);
}

static enum fr_rc answer(struct tr_mesh *m, int listener, uint64_t job, struct fr_err *err)
{
    struct timeval limit = {.tv_sec = 10};
    struct pollfd p = {.fd = listener, .events = POLLIN};
    struct caller who = {0};
    int64_t deadline = fr_sys.mono_ms() + JOIN_MS;
    enum fr_rc rc;
    ssize_t n;

    while (fr_sys.poll(&p, 1, SLEEP_MS) <= 0) {
        if ((rc = tr_control_check(m->control, err)) != FR_OK)
            return rc;
        if (fr_sys.mono_ms() > deadline)
            return fr_fail(err, FR_TIMEOUT, "rank %d: not all data connections came within %d s",
                           m->rank, JOIN_MS / 1000);
    }
    int fd = fr_sys.accept(listener);
    if (fd < 0)
        return FR_OK;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    while ((n = recv(fd, &who, sizeof(who), MSG_WAITALL)) < 0 && errno == EINTR) {
    } /* a stopped and continued process gets EINTR */
    bool ok = n == (ssize_t)sizeof(who) && who.job == job && who.rank > m->rank &&
              who.rank < m->size && m->links[who.rank].ops == NULL;
    if (!ok) { /* not a rank of this run */
        fr_sys.close(fd);
        return FR_OK;
    }
    return tr_link_tcp(fd, &m->links[who.rank], err);
}

enum fr_rc tr_mesh_connect(struct tr_mesh *m, const struct tr_comm_opts *o, int listener,
                           struct fr_err *err)
{
    int first = o->rank - o->local_rank, missing = 0; /* ranks are numbered node by node */
    enum fr_rc rc = FR_OK;

    m->links = fr_sys.alloc((size_t)m->size * sizeof(*m->links));
    if (m->links == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %d links", m->size);
    memset(m->links, 0, (size_t)m->size * sizeof(*m->links));
    for (int j = 0; j < o->local_size && o->local_socks != NULL && rc == FR_OK; j++)
        if (j != o->local_rank) {
            rc = tr_link_shm(o->local_socks[j], o->local_rank < j, &m->links[first + j], err);
            m->bytes += tr_link_shm_bytes();
        }
    for (int r = 0; r < m->rank && rc == FR_OK; r++)
        if (m->links[r].ops == NULL)
            rc = call(m, r, o->job, err);
    for (int r = m->rank + 1; r < m->size; r++)
        missing += m->links[r].ops == NULL;
    while (missing > 0 && rc == FR_OK) {
        rc = answer(m, listener, o->job, err);
        missing = 0;
        for (int r = m->rank + 1; r < m->size; r++)
            missing += m->links[r].ops == NULL;
    }
    return rc;
}

void tr_mesh_finish(struct tr_mesh *m)
{
    for (int r = 0; m->links != NULL && r < m->size; r++)
        tr_link_finish(&m->links[r]);
    fr_sys.free(m->links);
    m->links = NULL;
}
