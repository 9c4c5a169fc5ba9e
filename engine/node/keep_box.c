/* A keeper in a container of Apptainer: this process starts it, and tells it what Slurm tells. */
#include "engine/node/keep_place.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/supervise/environ.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS = 32, LOG_TAIL = 512, NO_PROGRAM = 127 };

struct box {
    const struct fr_keep_args *a;
    const struct fr_keep_box *box;
    struct keep_place place;
    struct fr_arena arena;
    const char *const *argv;
    int signals;         /* owns */
    int life;            /* owns: the keeper's input; a byte is TERM, its end is KILL */
    int log, status;     /* own: read ends */
    pid_t group;         /* of Apptainer's processes */
    char tail[LOG_TAIL]; /* the end of what it printed */
    size_t n_tail;
};

/* ---- the command ---- */

static const char *work_of(const char *folder, struct fr_arena *arena)
{
    size_t n = strlen(folder);

    for (int parts = 0; n > 0 && parts < 2;)
        parts += folder[--n] == '/';
    return fr_arena_text(arena, folder, n);
}

static enum fr_rc make_args(struct box *b, struct fr_err *err)
{
    const struct fr_keep_box *box = b->box;
    const char *bind = "--bind", *base = b->place.base;
    const char *head[] = {box->program, "--quiet", "--nocolor", "exec",
                          bind,         base,      bind,        work_of(b->a->folder, &b->arena)};
    const char *tail[] = {box->image,
                          b->a->self,
                          "keep",
                          "--alloc",
                          b->a->folder,
                          "--kill-wait",
                          fr_arena_fmt(&b->arena, "%" PRId64, b->a->kill_wait_ms / 1000),
                          "--lease",
                          fr_arena_fmt(&b->arena, "%" PRId64, b->a->lease_ms / 1000),
                          "--base",
                          b->place.disk,
                          "--inside",
                          "--guarded"};
    const char **v = fr_arena_array(&b->arena, ARGS + 2 * box->n_mounts, sizeof(char *));
    size_t n = 0;

    if (v == NULL || head[7] == NULL || tail[6] == NULL || tail[8] == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the command of a container");
    for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
        v[n++] = head[i];
    if (box->nv)
        v[n++] = "--nv";
    for (size_t i = 0; i < box->n_mounts; i++) {
        v[n++] = bind;
        v[n++] = box->mounts[i];
    }
    for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
        v[n++] = tail[i];
    b->argv = v;
    return FR_OK;
}

/* ---- processes ---- */

static void become_program(const struct box *b, const int fds[3])
{
    static const int reset[] = {SIGPIPE, SIGXFSZ, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t none;

    for (size_t i = 0; i < sizeof(reset) / sizeof(reset[0]); i++)
        signal(reset[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0)
            _exit(1);
    execvp(b->argv[0], (char *const *)b->argv);
    if (errno == ENOENT)
        dprintf(2,
                "there is no program %s there; install Apptainer, or write container: {program: "
                "/PATH}; PATH=%s\n",
                b->argv[0], fr_environ_value(b->a->environ, "PATH"));
    else
        dprintf(2, "cannot start %s: %s\n", b->argv[0], strerror(errno));
    _exit(NO_PROGRAM);
}

/* Waits for the program, and tells how it ended. */
static void watch(const struct box *b, const int fds[3], int status_fd)
{
    pid_t pid = fork();
    int status = NO_PROGRAM;

    if (pid == 0)
        become_program(b, fds);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    if (pid > 0) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
        status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    fr_write_full(status_fd, &status, sizeof(status));
    _exit(0);
}

/* Starts it as no descendant of this process: where Slurm tells a step to end, it sends TERM to all
 * descendants, and without the program that serves an image's files nothing in it runs on. */
static enum fr_rc start(struct box *b, struct fr_err *err)
{
    int life[2] = {-1, -1}, log[2] = {-1, -1}, status[2] = {-1, -1};
    int *all[] = {&life[0], &log[1], &status[1]};
    enum fr_rc rc = FR_OK;

    if (fr_sys.pipe(life) != 0 || fr_sys.pipe(log) != 0 || fr_sys.pipe(status) != 0)
        rc = fr_fail_errno(err, errno, "cannot make a pipe");
    b->life = life[1];
    b->log = log[0];
    b->status = status[0];
    b->group = rc == FR_OK ? fork() : -1;
    if (b->group == 0) {
        fr_fd_close(&b->life);
        setsid();
        if (fork() == 0)
            watch(b, (const int[]){life[0], log[1], log[1]}, status[1]);
        _exit(0);
    }
    if (rc == FR_OK && b->group < 0)
        rc = fr_fail_errno(err, errno, "cannot start a process");
    if (b->group > 0)
        waitpid(b->group, NULL, 0);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        fr_fd_close(all[i]);
    return rc;
}

static bool is_up(const struct box *b)
{
    struct keep_place found;

    return keep_read_place(b->a->folder, b->place.place, &found, NULL) == FR_OK;
}

/* One that is not up yet may be fetching its image. */
static void tell(const struct box *b)
{
    struct signalfd_siginfo info;

    while (fr_sys.read(b->signals, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo == SIGTERM && !is_up(b))
            kill(-b->group, SIGTERM);
        else if (info.ssi_signo == SIGTERM)
            fr_write_full(b->life, "t", 1);
}

static void keep_tail(struct box *b)
{
    char piece[LOG_TAIL];
    ssize_t k = fr_sys.read(b->log, piece, sizeof(piece));
    size_t n = k > 0 ? (size_t)k : 0, old = b->n_tail;

    if (k <= 0 && (k == 0 || errno != EINTR))
        fr_fd_close(&b->log);
    if (old + n > LOG_TAIL)
        old = LOG_TAIL - n;
    memmove(b->tail, b->tail + b->n_tail - old, old);
    memcpy(b->tail + old, piece, n);
    b->n_tail = old + n;
}

/* Waits for the end of Apptainer; its exit status. */
static int wait_end(struct box *b)
{
    int status = NO_PROGRAM;

    for (;;) {
        struct pollfd p[] = {{.fd = b->signals, .events = POLLIN},
                             {.fd = b->log, .events = POLLIN},
                             {.fd = b->status, .events = POLLIN}};

        if (fr_sys.poll(p, 3, -1) <= 0)
            continue;
        if (p[0].revents != 0)
            tell(b);
        if (p[1].revents != 0)
            keep_tail(b);
        else if (p[2].revents != 0)
            break;
    }
    if (fr_sys.read(b->status, &status, sizeof(status)) != (ssize_t)sizeof(status))
        status = NO_PROGRAM;
    return status;
}

static struct fr_str last_line(const struct box *b)
{
    struct fr_str s = {b->tail, b->n_tail};
    const char *line;

    while (s.n > 0 && strchr("\n\r\t ", s.p[s.n - 1]) != NULL)
        s.n--;
    line = s.n > 0 ? memrchr(s.p, '\n', s.n) : NULL;
    return line != NULL ? (struct fr_str){line + 1, s.n - (size_t)(line + 1 - s.p)} : s;
}

/* What the keeper itself has written counts. */
static enum fr_rc failed(struct box *b, int status, struct fr_err *err)
{
    struct fr_str line = last_line(b);

    (void)fr_fail(err, FR_IO, "%s: the container of %s did not run: %.*s", b->place.host,
                  b->box->image, (int)line.n, line.p);
    if (line.n == 0)
        (void)fr_fail(err, FR_IO, "%s: the container of %s did not run: %s ended with status %d",
                      b->place.host, b->box->image, b->box->program, status);
    if (!keep_has_error(&b->place))
        keep_write_error(&b->place, err);
    return FR_IO;
}

static enum fr_rc take_signals(struct box *b, struct fr_err *err)
{
    sigset_t blocked, read;

    sigemptyset(&read);
    sigaddset(&read, SIGTERM);
    blocked = read;
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGCONT);
    if (sigprocmask(SIG_BLOCK, &blocked, NULL) != 0 ||
        (b->signals = signalfd(-1, &read, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
        return fr_fail_errno(err, errno, "cannot wait for signals");
    return FR_OK;
}

enum fr_rc fr_keep_boxed(const struct fr_keep_args *a, const struct fr_keep_box *box,
                         struct fr_err *err)
{
    struct box b = {
        .a = a, .box = box, .signals = -1, .life = -1, .log = -1, .status = -1, .group = -1};
    int status = 0;
    enum fr_rc rc = keep_folder_check(a->folder, err);

    if (rc == FR_OK)
        rc = keep_place_init(&b.place, a, err);
    if (rc == FR_OK)
        rc = take_signals(&b, err);
    if (rc == FR_OK)
        rc = keep_leave_streams(err);
    if (rc == FR_OK && ((rc = keep_base_make(&b.place, err)) != FR_OK ||
                        (rc = make_args(&b, err)) != FR_OK || (rc = start(&b, err)) != FR_OK))
        keep_write_error(&b.place, err);
    if (rc == FR_OK && (status = wait_end(&b)) != 0)
        rc = failed(&b, status, err);
    fr_fd_close(&b.signals);
    fr_fd_close(&b.life);
    fr_fd_close(&b.log);
    fr_fd_close(&b.status);
    fr_arena_finish(&b.arena);
    return rc;
}
