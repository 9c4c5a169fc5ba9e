#include "engine/web/private.h"

#include "engine/base/log.h"
#include "engine/base/proc.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <string.h>

enum { ACCEPT_AGAIN_MS = 1000, ACCEPT_AT_ONCE = 64, LOOK_MS = 5000 };

/* ---- deadlines ---- */

static int64_t earliest(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void arm(struct fr_server *s, int64_t ms)
{
    if (ms < 0 || (s->armed_ms >= 0 && s->armed_ms <= ms))
        return;
    s->armed_ms = ms;
    fr_loop_arm(s->loop, s->timer, ms);
}

void web_due(struct conn *c, int64_t in_ms)
{
    c->due_ms = in_ms < 0 ? -1 : fr_sys.mono_ms() + in_ms;
    arm(c->server, c->due_ms);
}

void web_comment(struct conn *c, int64_t in_ms)
{
    c->comment_ms = in_ms < 0 ? -1 : fr_sys.mono_ms() + in_ms;
    arm(c->server, c->comment_ms);
}

static bool passed(int64_t ms, int64_t now)
{
    return ms >= 0 && ms <= now;
}

bool web_is_scarce(const struct fr_server *s, int fd)
{
    return s->fd_most > 0 && (size_t)fd >= s->fd_most; /* the lowest free one is taken */
}

/* ---- the listener ---- */

/* There are few descriptors left, or none: those that wait keep waiting. */
static void pause_accept(struct fr_server *s, bool tcp_alone, const char *why)
{
    fr_log(FR_LOG_WARN, "web", "accept error=\"%s\"", why);
    for (struct listener *l = s->listeners; l != NULL; l = l->next)
        if (l->tcp || !tcp_alone)
            fr_loop_want(s->loop, l->watch, 0);
    s->accept_ms = fr_sys.mono_ms() + ACCEPT_AGAIN_MS;
    arm(s, s->accept_ms);
}

static void on_caller(void *arg, int what)
{
    struct listener *l = arg;
    int fd;

    (void)what;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        if ((fd = fr_sys.accept(l->fd)) >= 0) {
            conn_create(l, fd);
            if (l->tcp && web_is_scarce(l->server, fd)) {
                pause_accept(l->server, true, "few descriptors are left");
                return;
            }
        } else {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                pause_accept(l->server, false, strerror(errno));
            return;
        }
    }
}

static void listener_free(struct listener *l)
{
    fr_loop_unwatch(l->server->loop, &l->watch);
    fr_sys.close(l->fd);
    fr_sys.free(l);
}

/* what: its kind. Takes the descriptor, also when it fails. */
static enum fr_rc add_listener(struct fr_server *s, int fd, const struct listener *what,
                               struct fr_err *err)
{
    struct listener *l = fr_sys.alloc(sizeof(*l));

    if (l == NULL) {
        fr_sys.close(fd);
        return fr_fail(err, FR_NOMEM, "no memory to listen");
    }
    *l = *what;
    l->next = s->listeners;
    l->server = s;
    l->fd = fd;
    s->listeners = l;
    if (fr_loop_watch(s->loop, fd, on_caller, l, &l->watch) != FR_OK)
        return fr_fail(err, FR_NOMEM, "no memory to listen");
    fr_loop_want(s->loop, l->watch, FR_LOOP_READ);
    return FR_OK;
}

static enum fr_rc listen_at(struct fr_server *s, struct fr_err *err)
{
    int fd = fr_sys.listen_unix(s->path);
    struct stat st = {0};

    s->ino = 0;
    if (fd < 0 || fr_sys.set_nonblock(fd, true) != 0 ||
        (fr_sys.lstat(s->path, &st) != 0 && errno != ENOENT)) {
        fr_fail_errno(err, errno, "listening at %s", s->path);
        if (fd >= 0)
            fr_sys.close(fd);
        return err->rc;
    }
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    return add_listener(s, fd, &(struct listener){.tcp = false}, err);
}

/* Another server may listen at the path by now. */
static bool owns_socket(const struct fr_server *s)
{
    struct stat st;

    return s->ino != 0 && fr_sys.lstat(s->path, &st) == 0 && st.st_dev == s->dev &&
           st.st_ino == s->ino;
}

/* Whoever removed the socket, or put one in its place, need not be the host: a process that was
 * stopped while it began to listen, or to leave, does that when it goes on. */
static void look_at_socket(struct fr_server *s)
{
    struct listener **at = &s->listeners, *old;
    struct fr_err err = {0};

    s->look_ms = fr_sys.mono_ms() + s->look_every_ms;
    if (!s->api->leads(s->api->self) || owns_socket(s))
        return;
    while (*at != NULL && (*at)->tcp)
        at = &(*at)->next;
    if ((old = *at) != NULL) {
        *at = old->next;
        listener_free(old);
    }
    if (listen_at(s, &err) == FR_OK)
        fr_log(FR_LOG_WARN, "web", "its socket was gone, and is made anew path=%s", s->path);
    else
        fr_log(FR_LOG_WARN, "web", "lost its socket path=%s error=\"%s\"", s->path, err.msg);
}

static void on_time(void *arg)
{
    struct fr_server *s = arg;
    int64_t now = fr_sys.mono_ms(), next = -1;

    s->armed_ms = -1;
    if (passed(s->accept_ms, now)) {
        s->accept_ms = -1;
        for (struct listener *l = s->listeners; l != NULL; l = l->next)
            fr_loop_want(s->loop, l->watch, FR_LOOP_READ);
    }
    for (struct conn *c = s->conns; c != NULL; c = c->next) {
        c->over |= passed(c->due_ms, now);
        if (c->over || passed(c->comment_ms, now))
            fr_loop_post(s->loop, &c->post);
        if (!c->over)
            next = earliest(next, c->due_ms);
        if (!passed(c->comment_ms, now))
            next = earliest(next, c->comment_ms);
    }
    if (passed(s->look_ms, now))
        look_at_socket(s);
    arm(s, earliest(next, earliest(s->accept_ms, s->look_ms)));
}

static enum fr_rc listen_tcp(struct fr_server *s, struct fr_endpoint *at, bool metrics_only,
                             struct fr_err *err)
{
    int fd = fr_sys.listen_tcp(at);

    if (fd < 0 && errno == EADDRINUSE)
        return fr_fail(err, FR_BUSY, "another process listens at %s port %d: take another port",
                       at->host, at->port);
    if (fd < 0 && (errno == EINVAL || errno == EADDRNOTAVAIL))
        return fr_fail(err, FR_USAGE, "%s is no numeric address of this machine", at->host);
    if (fd < 0 || fr_sys.endpoint(fd, false, at) != 0) {
        fr_fail_errno(err, errno, "listening at %s port %d", at->host, at->port);
        if (fd >= 0)
            fr_sys.close(fd);
        return err->rc;
    }
    return add_listener(s, fd, &(struct listener){.tcp = true, .metrics_only = metrics_only}, err);
}

enum fr_rc fr_server_listen(struct fr_server *s, struct fr_endpoint *at, struct fr_err *err)
{
    return listen_tcp(s, at, false, err);
}

enum fr_rc fr_server_listen_metrics(struct fr_server *s, struct fr_endpoint *at, struct fr_err *err)
{
    return listen_tcp(s, at, true, err);
}

void fr_server_set_descriptors(struct fr_server *s, size_t n)
{
    s->fd_most = n - n / 20;
}

void fr_server_gate(struct fr_server *s, const struct fr_gate *gate)
{
    s->gate = *gate;
}

enum fr_rc fr_server_create(struct fr_loop *loop, const char *path, const struct fr_api *api,
                            struct fr_server **out, struct fr_err *err)
{
    struct fr_server *s = fr_sys.alloc(sizeof(*s));
    enum fr_rc rc;

    *out = NULL;
    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the web server");
    *s = (struct fr_server){.loop = loop,
                            .api = api,
                            .gate = {.base = "", .cookie = "flowrun"},
                            .accept_ms = -1,
                            .armed_ms = -1};
    fr_server_set_times(
        s, &(struct fr_server_times){
               .head = 10000, .body = 30000, .drain = 30000, .idle = 60000, .comment = 15000});
    fr_server_set_descriptors(s, fr_proc_max_descriptors());
    s->path = fr_sys_dup(path);
    s->space = fr_sys.alloc(WEB_BLOCK_BYTES);
    if (s->path == NULL || s->space == NULL || fr_loop_timer(loop, on_time, s, &s->timer) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for the web server");
    else
        rc = listen_at(s, err);
    if (rc != FR_OK) {
        fr_server_destroy(s);
        return rc;
    }
    fr_server_set_look(s, LOOK_MS);
    *out = s;
    return FR_OK;
}

void fr_server_set_times(struct fr_server *s, const struct fr_server_times *times)
{
    s->times = *times;
}

void fr_server_set_look(struct fr_server *s, int64_t every_ms)
{
    s->look_every_ms = every_ms;
    s->look_ms = fr_sys.mono_ms() + every_ms;
    arm(s, s->look_ms);
}

void fr_server_destroy(struct fr_server *s)
{
    if (s == NULL)
        return;
    if (owns_socket(s))
        fr_sys.unlink(s->path);
    while (s->conns != NULL) {
        stream_bye(s->conns, true);
        conn_flush(s->conns);
        conn_destroy(s->conns);
    }
    while (s->listeners != NULL) {
        struct listener *l = s->listeners;

        s->listeners = l->next;
        listener_free(l);
    }
    fr_loop_untimer(s->loop, &s->timer);
    fr_sys.free(s->space);
    fr_sys.free(s->path);
    fr_sys.free(s);
}
