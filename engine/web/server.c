#include "engine/web/internal.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <event2/listener.h>
#include <string.h>
#include <unistd.h>

enum { ACCEPT_AGAIN_MS = 1000, BACKLOG = 256 };

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

static void on_time(void *arg)
{
    struct fr_server *s = arg;
    int64_t now = fr_sys.mono_ms(), next = -1;

    s->armed_ms = -1;
    if (passed(s->accept_ms, now)) {
        s->accept_ms = -1;
        evconnlistener_enable(s->listener);
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
    arm(s, earliest(next, s->accept_ms));
}

/* ---- the listener ---- */

/* Most often there are no descriptors left: those that wait keep waiting. */
static void on_accept_error(struct evconnlistener *listener, void *server)
{
    struct fr_server *s = server;

    fr_log(FR_LOG_WARN, "web", "accept error=\"%s\"", strerror(errno));
    evconnlistener_disable(listener);
    s->accept_ms = fr_sys.mono_ms() + ACCEPT_AGAIN_MS;
    arm(s, s->accept_ms);
}

static enum fr_rc listen_at(struct fr_server *s, const char *path, struct fr_err *err)
{
    struct event_base *base = fr_loop_base(s->loop);
    struct stat st;
    int fd = fr_sys.listen_unix(path);

    if (fd < 0)
        return fr_fail_errno(err, errno, "listening at %s", path);
    if (fr_sys.set_nonblock(fd, true) != 0 || fr_sys.lstat(path, &st) != 0) {
        fr_fail_errno(err, errno, "listening at %s", path);
        fr_sys.close(fd);
        return err->rc;
    }
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    s->listener = evconnlistener_new(base, NULL, NULL,
                                     LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
    if (s->listener == NULL) {
        fr_sys.close(fd);
        return fr_fail(err, FR_NOMEM, "no memory to listen at %s", path);
    }
    if (evhttp_bind_listener(s->http, s->listener) == NULL) {
        evconnlistener_free(s->listener);
        s->listener = NULL;
        return fr_fail(err, FR_NOMEM, "no memory to listen at %s", path);
    }
    evconnlistener_set_error_cb(s->listener, on_accept_error);
    return FR_OK;
}

static void on_libevent_log(int severity, const char *text)
{
    fr_log(severity >= EVENT_LOG_WARN ? FR_LOG_WARN : FR_LOG_DEBUG, "libevent", "%s", text);
}

static enum fr_rc make_http(struct fr_server *s, struct fr_err *err)
{
    event_set_log_callback(on_libevent_log);
    s->http = evhttp_new(fr_loop_base(s->loop));
    if (s->http == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the web server");
    evhttp_set_max_headers_size(s->http, WEB_HEAD_BYTES);
    evhttp_set_max_body_size(s->http, WEB_BODY_BYTES);
    evhttp_set_allowed_methods(s->http, UINT16_MAX); /* also unknown ones: the answer is ours */
    evhttp_set_bevcb(s->http, conn_create, s);
    evhttp_set_gencb(s->http, conn_request, s);
    return FR_OK;
}

static char *copy(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = fr_sys.alloc(n);

    return p != NULL ? memcpy(p, s, n) : NULL;
}

enum fr_rc fr_server_create(struct fr_loop *loop, const char *path, const struct fr_api *api,
                            struct fr_server **out, struct fr_err *err)
{
    struct fr_server *s = fr_sys.alloc(sizeof(*s));
    enum fr_rc rc;

    *out = NULL;
    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the web server");
    *s = (struct fr_server){.loop = loop, .api = api, .accept_ms = -1, .armed_ms = -1};
    fr_server_set_times(
        s, &(struct fr_server_times){
               .head = 10000, .body = 30000, .drain = 30000, .idle = 60000, .comment = 15000});
    if ((s->path = copy(path)) == NULL || fr_loop_timer(loop, on_time, s, &s->timer) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for the web server");
    else if ((rc = make_http(s, err)) == FR_OK)
        rc = listen_at(s, path, err);
    if (rc != FR_OK) {
        fr_server_destroy(s);
        return rc;
    }
    *out = s;
    return FR_OK;
}

void fr_server_set_times(struct fr_server *s, const struct fr_server_times *times)
{
    s->times = *times;
}

/* Another server may listen at the path by now. */
static void remove_socket(struct fr_server *s)
{
    struct stat st;

    if (s->ino != 0 && fr_sys.lstat(s->path, &st) == 0 && st.st_dev == s->dev &&
        st.st_ino == s->ino)
        fr_sys.unlink(s->path);
}

void fr_server_destroy(struct fr_server *s)
{
    if (s == NULL)
        return;
    remove_socket(s);
    for (struct conn *c = s->conns; c != NULL; c = c->next) {
        stream_bye(c);
        conn_flush(c);
        conn_close(c);
    }
    while (s->conns != NULL)
        conn_destroy(s->conns);
    if (s->http != NULL)
        evhttp_free(s->http); /* with its listener */
    if (s->timer != NULL)
        fr_loop_untimer(s->loop, &s->timer);
    fr_sys.free(s->path);
    fr_sys.free(s);
}
