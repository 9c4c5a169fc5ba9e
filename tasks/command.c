#include "tasks/command.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tasks/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

extern char **environ;

enum { PIECE = 64 << 10, CAPTURE_MAX = 8 << 20, KEPT_MAX = 256 << 10 };

struct pump { /* a command that runs */
    struct fr_command *c;
    struct fr_proc proc;
    int fds[2]; /* of its stdout and stderr, -1 once ended */
    int signals;
    int64_t until_ms;
    bool over; /* nothing more is read: it was killed, or ended and left its pipes to others */
};

static void keep(struct fr_buf *b, const char *p, size_t n, size_t max, bool newest)
{
    if (!newest && b->n + n > max)
        n = b->n < max ? max - b->n : 0;
    fr_buf_add(b, p, n);
    if (newest && b->n > 2 * max)
        fr_buf_cut(b, b->n - max);
}

static void take_piece(struct pump *p, int i)
{
    char piece[PIECE];
    ssize_t n = fr_sys.read(p->fds[i], piece, sizeof(piece));

    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        fr_sys.close(p->fds[i]);
        p->fds[i] = -1;
        return;
    }
    if (!p->c->tee) {
        keep(i == 0 ? &p->c->out : &p->c->err, piece, (size_t)n, CAPTURE_MAX, false);
        return;
    }
    keep(&p->c->out, piece, (size_t)n, KEPT_MAX, true);
    (void)fr_write_full(STDOUT_FILENO, piece, (size_t)n);
    if (p->c->log_fd > 0 && !fr_write_full(p->c->log_fd, piece, (size_t)n))
        p->c->log_fd = 0; /* a log that cannot be written does not end the work */
}

static void pass_signal(struct pump *p)
{
    struct signalfd_siginfo info;

    if (read(p->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    p->c->passed = (int)info.ssi_signo;
    fr_sys.kill(p->proc, p->c->passed);
}

static void pump_turn(struct pump *p)
{
    struct pollfd fds[3] = {{.fd = p->fds[0], .events = POLLIN},
                            {.fd = p->fds[1], .events = POLLIN},
                            {.fd = p->signals, .events = POLLIN}};
    int64_t left = p->until_ms - fr_sys.mono_ms();
    struct fr_wait w;

    if (left <= 0) {
        fr_sys.kill(p->proc, SIGKILL);
        p->over = true;
        p->c->code = -1;
        return;
    }
    int ready = fr_sys.poll(fds, 3, left > 1000 ? 1000 : (int)left);
    if (ready == 0)
        p->over = fr_sys.wait(p->proc.pid, &w, FR_WAIT_PEEK | FR_WAIT_NOHANG) == 0 && w.pid != 0;
    if (ready <= 0)
        return;
    for (int i = 0; i < 2; i++)
        if (fds[i].revents != 0)
            take_piece(p, i);
    if (fds[2].revents != 0)
        pass_signal(p);
}

static int catch_signals(void)
{
    static const int wanted[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        sigaddset(&set, wanted[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Starts the command with its pipes; the other ends are closed here. */
static enum fr_rc start(struct pump *p, struct fr_err *err)
{
    int out[2], other[2];
    struct fr_spawn s = {
        .argv = p->c->argv, .envp = (const char *const *)environ, .die_with_parent = true};

    if (fr_sys.pipe(out) != 0)
        return fr_fail_errno(err, errno, "cannot make a pipe");
    if (fr_sys.pipe(other) != 0) {
        int e = errno;
        fr_sys.close(out[0]);
        fr_sys.close(out[1]);
        return fr_fail_errno(err, e, "cannot make a pipe");
    }
    s.fds[0] = -1;
    s.fds[1] = out[1];
    s.fds[2] = p->c->tee ? out[1] : other[1];
    int rc = fr_sys.spawn(&s, &p->proc), e = errno;
    fr_sys.close(out[1]);
    fr_sys.close(other[1]);
    p->fds[0] = out[0];
    p->fds[1] = other[0];
    if (rc == 0)
        return FR_OK;
    fr_sys.close(out[0]);
    fr_sys.close(other[0]);
    return e == ENOENT ? fr_fail(err, FR_NOTFOUND, "there is no program %s", p->c->argv[0])
                       : fr_fail_errno(err, e, "cannot start %s", p->c->argv[0]);
}

enum fr_rc fr_command_run(struct fr_command *c, struct fr_err *err)
{
    struct pump p = {.c = c, .signals = -1, .until_ms = INT64_MAX};
    struct fr_wait w = {0};
    enum fr_rc rc;

    if (c->tee && (p.signals = catch_signals()) < 0)
        return fr_fail_errno(err, errno, "signalfd");
    fflush(stdout);
    rc = start(&p, err);
    if (rc == FR_OK && c->timeout_ms > 0)
        p.until_ms = fr_sys.mono_ms() + c->timeout_ms;
    c->code = 0;
    while (rc == FR_OK && !p.over && (p.fds[0] >= 0 || p.fds[1] >= 0))
        pump_turn(&p);
    for (int i = 0; i < 2 && rc == FR_OK; i++)
        if (p.fds[i] >= 0)
            fr_sys.close(p.fds[i]);
    if (rc == FR_OK && fr_sys.wait(p.proc.pid, &w, 0) != 0)
        rc = fr_fail_errno(err, errno, "waiting for %s", c->argv[0]);
    if (rc == FR_OK && c->code == -1)
        rc = fr_fail(err, FR_TIMEOUT, "%s did not end in %lld ms", c->argv[0],
                     (long long)c->timeout_ms);
    c->code = w.code;
    c->signaled = w.signaled;
    if (p.signals >= 0)
        fr_sys.close(p.signals);
    return rc;
}

struct fr_str fr_last_line(const struct fr_buf *text)
{
    size_t end = text->n, start;

    while (end > 0 && (text->p[end - 1] == '\n' || text->p[end - 1] == ' '))
        end--;
    for (start = end; start > 0 && text->p[start - 1] != '\n'; start--) {
    }
    return (struct fr_str){text->p != NULL ? text->p + start : "", end - start};
}

enum fr_rc fr_command_must(struct fr_command *c, struct fr_err *err)
{
    enum fr_rc rc = fr_command_run(c, err);

    if (rc != FR_OK || (c->code == 0 && !c->signaled))
        return rc;
    struct fr_str why = fr_last_line(c->err.n > 0 ? &c->err : &c->out);
    return fr_fail(err, FR_IO, "%s %s%s %d%s%.*s", c->argv[0], c->argv[1] != NULL ? c->argv[1] : "",
                   c->signaled ? " was killed by signal" : " exited with status", c->code,
                   why.n > 0 ? ": " : "", (int)(why.n < 400 ? why.n : 400), why.p);
}

void fr_command_finish(struct fr_command *c)
{
    fr_buf_finish(&c->out);
    fr_buf_finish(&c->err);
}

bool fr_program_found(const char *name)
{
    const char *path = fr_env("PATH", "/usr/local/bin:/usr/bin:/bin");
    char file[4096];

    if (strchr(name, '/') != NULL)
        return access(name, X_OK) == 0;
    for (const char *p = path, *end; *p != '\0'; p = *end != '\0' ? end + 1 : end) {
        end = p + strcspn(p, ":");
        snprintf(file, sizeof(file), "%.*s/%s", (int)(end - p), p, name);
        if (access(file, X_OK) == 0)
            return true;
    }
    return false;
}
