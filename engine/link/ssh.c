#include "engine/link/ssh.h"

#include "engine/base/sys.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    OUT_MAX = 64 << 10, /* bytes taken before libssh2 takes them */
    READ_BYTES = 32 << 10,
    READS_A_TURN = 4,
    HANDSHAKE = 2, /* its place among the steps */
};

static int connect_ms(const struct fr_ssh *s)
{
    return s->conf->connect_ms > 0 ? s->conf->connect_ms : FR_SSH_CONNECT_MS;
}

/* Closes the connection in whatever state it is. The node sees the end of its stdin. */
static void ssh_close(void *self)
{
    struct fr_ssh *s = self;

    s->serial++;
    s->open = false;
    fr_loop_arm(s->loop, s->timer, -1);
    s->deadline_ms = 0;
    fr_loop_unwatch(s->loop, &s->watch);
    if (fr_ssh_agent_leave(s))
        fr_ssh_login_finish(s);
    if (s->session != NULL) {
        if (s->stage > HANDSHAKE) /* before that, libssh2 would write with half made keys */
            libssh2_session_disconnect(s->session, "closed");
        shutdown(s->fd, SHUT_RDWR); /* from here on nothing can wait for the socket */
        fr_ssh_login_finish(s);
        if (s->channel != NULL)
            libssh2_channel_free(s->channel);
        libssh2_session_free(s->session);
    }
    s->session = NULL;
    s->channel = NULL;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    fr_ssh_tcp_finish(s);
    fr_buf_finish(&s->out);
    s->out = (struct fr_buf){0};
    s->started = s->read_first = s->write_first = false;
    s->tail_n = 0;
    s->stage = 0;
}

static void go_down(struct fr_ssh *s, const struct fr_err *err, bool ran)
{
    struct fr_link_events ev = s->ev;

    ssh_close(s);
    ev.on_down(ev.arg, err, ran);
}

static bool outbound(struct fr_ssh *s)
{
    return (libssh2_session_block_directions(s->session) & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0;
}

static void want_by_session(struct fr_ssh *s)
{
    int want = FR_LOOP_READ;

    if (fr_ssh_called(s))
        return;
    if (s->session != NULL && outbound(s))
        want |= FR_LOOP_WRITE;
    if (s->watch != NULL && s->session != NULL)
        fr_loop_want(s->loop, s->watch, want);
}

static enum fr_ssh_step open_channel(struct fr_ssh *s, struct fr_err *err)
{
    int rc;

    if (s->channel == NULL && (s->channel = libssh2_channel_open_session(s->session)) == NULL) {
        if (libssh2_session_last_errno(s->session) == LIBSSH2_ERROR_EAGAIN)
            return FR_SSH_AGAIN;
        return fr_ssh_failed(fr_fail(err, FR_UNREACHABLE, "%s opened no channel: %s", s->conf->host,
                                     fr_ssh_error_text(s)));
    }
    rc = libssh2_channel_exec(s->channel, s->command);
    if (rc == LIBSSH2_ERROR_EAGAIN)
        return FR_SSH_AGAIN;
    if (rc == 0)
        return FR_SSH_DONE;
    return fr_ssh_failed(fr_fail(err, fr_ssh_hung_up(s) ? FR_UNREACHABLE : FR_DENIED,
                                 "%s runs no command for '%s': %s", s->conf->host, s->conf->user,
                                 fr_ssh_error_text(s)));
}

static enum fr_ssh_step (*const steps[])(struct fr_ssh *s, struct fr_err *err) = {
    fr_ssh_resolve, fr_ssh_connect, fr_ssh_handshake, fr_ssh_host_key, fr_ssh_login, open_channel,
};

enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };

/* The command ended, or the connection did (failed: libssh2's code, 0 for an end in order). */
static void end_channel(struct fr_ssh *s, ssize_t failed)
{
    struct fr_err err = {0};
    struct fr_buf tail = {0};
    const char *colon;
    int status;

    fr_link_quote(&tail, s->tail, s->tail_n);
    colon = tail.n > 0 ? ": " : "";
    status = failed == 0 ? libssh2_channel_get_exit_status(s->channel) : 0;
    if (failed != 0)
        fr_fail(&err, FR_UNREACHABLE, "the connection to %s broke: %s%s%s", s->conf->host,
                fr_ssh_error_text(s), colon, tail.n > 0 ? tail.p : "");
    else
        fr_fail(&err, status == 126 || status == 127 ? FR_UNSUPPORTED : FR_UNREACHABLE,
                "the command on %s ended with status %d%s%s", s->conf->host, status, colon,
                tail.n > 0 ? tail.p : "");
    fr_buf_finish(&tail);
    go_down(s, &err, failed == 0);
}

/* Writes the waiting bytes. False: the link is gone. */
static bool pump_out(struct fr_ssh *s)
{
    bool full = s->out.n >= OUT_MAX;
    uint32_t serial = s->serial;

    while (s->out.n > 0) {
        ssize_t n = libssh2_channel_write(s->channel, s->out.p, s->out.n);

        s->write_first = n == LIBSSH2_ERROR_EAGAIN && outbound(s);
        if (n == LIBSSH2_ERROR_EAGAIN)
            break;
        if (n < 0) {
            end_channel(s, n);
            return false;
        }
        fr_buf_cut(&s->out, (size_t)n);
    }
    if (full && s->out.n < OUT_MAX)
        s->ev.on_writable(s->ev.arg);
    return s->serial == serial;
}

/* Also limited per turn: a node that writes to stderr without end would hold up all others. */
static bool pump_stderr(struct fr_ssh *s, bool *more)
{
    char buf[4096];
    ssize_t n = 0;

    for (int i = 0; i < READS_A_TURN; i++) {
        n = libssh2_channel_read_stderr(s->channel, buf, sizeof(buf));
        if (n <= 0)
            break;
        fr_link_keep_tail((struct fr_str){buf, (size_t)n}, s->tail, sizeof(s->tail), &s->tail_n);
    }
    *more = *more || n > 0;
    return n >= 0 || n == LIBSSH2_ERROR_EAGAIN;
}

/* Whether libssh2 has queued packets of our channel. Every call of libssh2, also a write or a read
 * of stderr, takes what the socket has; afterwards the socket does not become readable again. */
static bool queued(struct fr_ssh *s)
{
    unsigned long n = 0;

    libssh2_channel_window_read_ex(s->channel, &n, NULL);
    return n > 0 || libssh2_channel_eof(s->channel) != 0;
}

/* Reads until libssh2 has no more: it buffers decrypted bytes. Each further read also asks the
 * socket in vain, so a read that does not fill the buffer ends the loop; then the queue only has
 * stderr. *more: there may be more, but others should have their turn. False: the link is gone. */
static bool pump_in(struct fr_ssh *s, bool *more)
{
    uint32_t serial = s->serial;
    char buf[READ_BYTES];
    ssize_t n = 0;

    *more = false;
    for (int i = 0; i < READS_A_TURN; i++) {
        n = libssh2_channel_read(s->channel, buf, sizeof(buf));
        s->read_first = n == LIBSSH2_ERROR_EAGAIN && outbound(s);
        if (n <= 0)
            break;
        s->ev.on_bytes(s->ev.arg, buf, (size_t)n);
        if (s->serial != serial)
            return false;
        if (s->write_first)
            return true;
        if ((size_t)n < sizeof(buf))
            break;
    }
    if (s->read_first)
        return true;
    if (n < 0 && n != LIBSSH2_ERROR_EAGAIN) {
        end_channel(s, n);
        return false;
    }
    *more = n == (ssize_t)sizeof(buf);
    if (queued(s) && !pump_stderr(s, more)) {
        end_channel(s, LIBSSH2_ERROR_SOCKET_RECV);
        return false;
    }
    if (!*more && libssh2_channel_eof(s->channel)) {
        end_channel(s, 0);
        return false;
    }
    return true;
}

/* Takes the steps in order until one has to wait. False: one failed, err says why. */
static bool run_steps(struct fr_ssh *s, struct fr_err *err)
{
    while (s->stage < N_STEPS) {
        enum fr_ssh_step step = steps[s->stage](s, err);

        if (step == FR_SSH_FAILED)
            return false;
        if (step == FR_SSH_AGAIN) {
            want_by_session(s);
            return true;
        }
        if (++s->stage == HANDSHAKE) {
            s->deadline_ms = s->opened_ms + connect_ms(s);
            fr_loop_arm(s->loop, s->timer, s->deadline_ms);
        }
    }
    return true;
}

static void drive(struct fr_ssh *s)
{
    struct fr_err err = {0};
    bool more = false;

    if (s->stage < N_STEPS) {
        if (!run_steps(s, &err)) {
            go_down(s, &err, false);
            return;
        }
        if (s->stage < N_STEPS)
            return;
        fr_loop_arm(s->loop, s->timer, -1);
        s->deadline_ms = 0;
        s->started = true;
        s->ev.on_up(s->ev.arg);
        if (!s->open)
            return;
    }
    /* a packet that is half sent must be finished by the same call before any other sends */
    if (!s->read_first && !pump_out(s))
        return;
    if (!s->write_first && !pump_in(s, &more))
        return;
    if (!s->read_first && !s->write_first && s->out.n > 0 && !pump_out(s))
        return;
    want_by_session(s);
    if (more || (!s->read_first && !s->write_first && queued(s)))
        fr_loop_arm_in(s->loop, s->timer, 0);
}

static void on_ready(void *arg, int what)
{
    (void)what;
    drive(arg);
}

static void on_timer(void *arg)
{
    struct fr_ssh *s = arg;
    struct fr_err err = {0};

    if (s->deadline_ms != 0 && fr_sys.mono_ms() >= s->deadline_ms) {
        fr_fail(&err, FR_UNREACHABLE, "%s port %d did not answer within %d s%s%s", s->conf->host,
                s->conf->port, (int)((s->deadline_ms - s->opened_ms) / 1000),
                s->tried[0] != '\0' ? ": " : "", s->tried);
        go_down(s, &err, false);
        return;
    }
    if (s->deadline_ms != 0)
        fr_loop_arm(s->loop, s->timer, s->deadline_ms);
    drive(s);
}

enum fr_rc fr_ssh_watch(struct fr_ssh *s, int fd, int what, struct fr_err *err)
{
    s->fd = fd;
    if (fr_loop_watch(s->loop, fd, on_ready, s, &s->watch) != FR_OK)
        return fr_fail(err, FR_NOMEM, "no memory for a connection");
    fr_loop_want(s->loop, s->watch, what);
    return FR_OK;
}

static enum fr_rc ssh_open(void *self, const struct fr_link_events *ev, struct fr_err *err)
{
    struct fr_ssh *s = self;

    (void)err;
    ssh_close(s);
    s->ev = *ev;
    s->open = true;
    s->opened_ms = fr_sys.mono_ms();
    s->deadline_ms =
        s->opened_ms + (connect_ms(s) < FR_TCP_CONNECT_MS ? connect_ms(s) : FR_TCP_CONNECT_MS);
    fr_loop_arm_in(s->loop, s->timer, 0); /* begins in the loop's turn */
    return FR_OK;
}

static size_t ssh_send(void *self, const char *p, size_t n)
{
    struct fr_ssh *s = self;
    size_t room = s->out.n < OUT_MAX ? OUT_MAX - s->out.n : 0;

    if (!s->started)
        return 0;
    n = n < room ? n : room;
    fr_buf_add(&s->out, p, n);
    if (s->out.bad)
        return 0;
    if (n > 0)
        fr_loop_arm_in(s->loop, s->timer, 0);
    return n;
}

static void ssh_destroy(void *self)
{
    struct fr_ssh *s = self;

    ssh_close(s);
    fr_loop_untimer(s->loop, &s->timer);
    fr_arena_finish(&s->arena);
    fr_sys.free(s);
    libssh2_exit();
}

static const struct fr_link_ops ssh_ops = {"libssh2", ssh_open, ssh_send, ssh_close, ssh_destroy};

enum fr_rc fr_link_ssh_create(struct fr_link *link, struct fr_loop *loop,
                              const struct fr_ssh_conf *conf, const char *command,
                              struct fr_err *err)
{
    struct fr_ssh *s = fr_sys.alloc(sizeof(*s));

    *link = (struct fr_link){0};
    if (s == NULL || libssh2_init(0) != 0) {
        fr_sys.free(s);
        return fr_fail(err, FR_NOMEM, "no memory for an SSH link");
    }
    *s = (struct fr_ssh){.loop = loop, .conf = conf, .fd = -1};
    s->command = fr_arena_dup(&s->arena, command);
    if (s->command == NULL || fr_loop_timer(loop, on_timer, s, &s->timer) != FR_OK) {
        fr_arena_finish(&s->arena);
        fr_sys.free(s);
        libssh2_exit();
        return fr_fail(err, FR_NOMEM, "no memory for an SSH link");
    }
    *link = (struct fr_link){&ssh_ops, s};
    return FR_OK;
}
