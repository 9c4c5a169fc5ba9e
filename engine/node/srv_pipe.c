/* Commands of Slurm that a login node runs for the engine: bytes both ways, and how they end. */
#include "engine/node/private.h"

#include "engine/submit/environ.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    IN,
    OUT,
    ERR,
    NO_PROGRAM = 127,
    ENDING_MS = 3000, /* how long an end may take after stdout closed */
    REAP_MS = 20      /* between two looks for it */
};

static const char commands[] = "sbatch squeue scancel srun scontrol sacct sinfo sbcast flownode";

static struct srv_pipe *find(const struct srv *s, uint64_t ref)
{
    struct srv_pipe *p = s->pipes;

    while (p != NULL && (p->ref != ref || p->gone))
        p = p->next;
    return p;
}

static void drop(struct srv *s, struct srv_pipe *p)
{
    struct srv_pipe **at = &s->pipes;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    s->n_pipes--;
    fr_buf_finish(&p->in);
    fr_sys.free(p);
}

/* True: it is not there any more. A process on a dead file system outlives its SIGKILL. */
static bool reap(struct srv_pipe *p, struct fr_wait *w)
{
    if (p->proc.pid != 0 && (fr_sys.wait(p->proc.pid, w, FR_WAIT_NOHANG) != 0 || w->pid != 0))
        p->proc.pid = 0;
    return p->proc.pid == 0;
}

/* Nothing more is said of it. With its descriptors closed it ends by itself, or is killed. */
static void abandon(struct srv *s, struct srv_pipe *p)
{
    struct fr_wait w = {0};

    for (int i = 0; i < 3; i++)
        fr_fd_close(&p->fd[i]);
    p->ready = false;
    p->gone = true;
    p->until_ms = fr_sys.mono_ms() + ENDING_MS;
    if (reap(p, &w))
        drop(s, p);
}

static void try_reap(struct srv *s, struct srv_pipe *p, int64_t now)
{
    struct fr_wait w = {0};

    if (reap(p, &w)) {
        drop(s, p);
    } else if (now >= p->until_ms) {
        p->until_ms = INT64_MAX;
        fr_sys.kill(p->proc, SIGKILL);
    }
}

static void send_end(struct srv *s, struct srv_pipe *p)
{
    struct fr_msg m = {.type = FR_MSG_PIPE_END};

    m.pipe_end = (struct fr_pipe_end){.ref = p->ref,
                                      .code = p->code,
                                      .text = fr_str_of(p->why),
                                      .errors = {p->errors, p->n_errors}};
    srv_send(s, &m);
    abandon(s, p);
}

/* ---- its start ---- */

/* NULL-terminated; NULL: no memory, or no such command. */
static const char **argv_of(const struct srv *s, const struct fr_strs *given,
                            struct fr_arena *arena, struct fr_err *err)
{
    const char **argv = fr_arena_array(arena, given->n + 1, sizeof(*argv));

    for (size_t i = 0; argv != NULL && i < given->n; i++)
        if ((argv[i] = fr_arena_text(arena, given->v[i].p, given->v[i].n)) == NULL)
            argv = NULL;
    if (argv == NULL) {
        fr_fail(err, FR_NOMEM, "no memory for a command");
        return NULL;
    }
    if (argv[0] == NULL || !fr_word_in(commands, argv[0])) {
        fr_fail(err, FR_DENIED, "'%s' is no command of Slurm", argv[0] != NULL ? argv[0] : "");
        return NULL;
    }
    if (strcmp(argv[0], "flownode") == 0)
        argv[0] = s->a->self;
    return argv;
}

static enum fr_rc make_pipes(struct srv_pipe *p, int theirs[3], struct fr_err *err)
{
    for (int i = 0; i < 3; i++) {
        int fds[2];

        if (fr_sys.pipe(fds) != 0)
            return fr_fail_errno(err, errno, "pipe");
        p->fd[i] = i == IN ? fds[1] : fds[0];
        theirs[i] = i == IN ? fds[0] : fds[1];
        if (fr_sys.set_nonblock(p->fd[i], true) != 0)
            return fr_fail_errno(err, errno, "pipe");
    }
    return FR_OK;
}

static enum fr_rc start(const struct srv *s, struct srv_pipe *p, const struct fr_pipe_open *m,
                        struct fr_err *err)
{
    struct fr_arena arena = {0};
    const char *path = m->path.n > 0 ? fr_arena_text(&arena, m->path.p, m->path.n) : NULL;
    struct fr_spawn sp = {.argv = argv_of(s, &m->argv, &arena, err),
                          .envp = fr_slurm_environ(path, &arena),
                          .fds = {-1, -1, -1},
                          .new_session = true,
                          .die_with_parent = true};
    enum fr_rc rc = sp.argv == NULL ? err->rc : FR_OK;

    if (rc == FR_OK && (sp.envp == NULL || (m->path.n > 0 && path == NULL)))
        rc = fr_fail(err, FR_NOMEM, "no memory for a command");
    if (rc == FR_OK)
        rc = make_pipes(p, sp.fds, err);
    if (rc == FR_OK && fr_sys.spawn(&sp, &p->proc) != 0) {
        p->proc.pid = 0;
        p->code = errno == ENOENT || errno == EACCES || errno == ENOTDIR ? NO_PROGRAM : -1;
        rc = fr_fail_errno(err, errno, "cannot start %s", sp.argv[0]);
    }
    for (int i = 0; i < 3; i++)
        fr_fd_close(&sp.fds[i]);
    fr_arena_finish(&arena);
    return rc;
}

void srv_pipe_open(struct srv *s, const struct fr_pipe_open *m)
{
    struct srv_pipe *p = find(s, m->ref) == NULL ? fr_sys.alloc(sizeof(*p)) : NULL;
    struct fr_err err = {0};

    if (p == NULL) {
        if (find(s, m->ref) != NULL)
            fr_fail(&err, FR_PROTO, "a second command %llu", (unsigned long long)m->ref);
        else
            fr_fail(&err, FR_NOMEM, "no memory for a command");
        srv_end(s, &err);
        return;
    }
    *p = (struct srv_pipe){.next = s->pipes,
                           .ref = m->ref,
                           .turn = s->turns,
                           .fd = {-1, -1, -1},
                           .until_ms = INT64_MAX,
                           .code = -1};
    if (m->limit_ms > 0 && m->limit_ms < INT64_MAX - fr_sys.mono_ms())
        p->until_ms = fr_sys.mono_ms() + m->limit_ms;
    s->pipes = p;
    s->n_pipes++;
    if (start(s, p, m, &err) == FR_OK)
        return;
    snprintf(p->why, sizeof(p->why), "%s", err.msg);
    send_end(s, p);
}

/* ---- its bytes ---- */

/* What the command does not take any more is given back all the same. */
static void write_in(struct srv *s, struct srv_pipe *p)
{
    struct fr_msg more = {.type = FR_MSG_PIPE_MORE};
    ssize_t k = 0;
    size_t taken = 0;

    while (p->in.n > 0 && p->fd[IN] >= 0) {
        k = fr_sys.write(p->fd[IN], p->in.p, p->in.n);
        if (k < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (k <= 0)
            fr_fd_close(&p->fd[IN]);
        else
            fr_buf_cut(&p->in, (size_t)k);
        taken += k > 0 ? (size_t)k : 0;
    }
    if (p->fd[IN] < 0 && p->in.n > 0) {
        taken += p->in.n;
        fr_buf_cut(&p->in, p->in.n);
    }
    if (p->in.n == 0 && p->in_ends)
        fr_fd_close(&p->fd[IN]);
    more.pipe_more = (struct fr_pipe_more){p->ref, taken};
    if (taken > 0 && !p->in_ends)
        srv_send(s, &more);
}

void srv_pipe_data(struct srv *s, const struct fr_pipe_data *m)
{
    struct srv_pipe *p = find(s, m->ref);
    struct fr_err err;

    srv_granted(s, m->bytes.n);
    if (p == NULL || p->in_ends)
        return; /* it has ended, and the engine does not know yet */
    if (m->bytes.n > FR_PIPE_WINDOW - p->in.n) {
        fr_fail(&err, FR_PROTO, "command %llu got more than %d bytes", (unsigned long long)m->ref,
                FR_PIPE_WINDOW);
        srv_end(s, &err);
        return;
    }
    fr_buf_add(&p->in, m->bytes.p, m->bytes.n);
    if (p->in.bad) {
        fr_fail(&err, FR_NOMEM, "no memory for a command");
        srv_end(s, &err);
        return;
    }
    write_in(s, p);
}

void srv_pipe_close(struct srv *s, const struct fr_pipe_close *m)
{
    struct srv_pipe *p = find(s, m->ref);

    if (p == NULL)
        return;
    p->in_ends = true;
    if (m->leave)
        abandon(s, p);
    else
        write_in(s, p);
}

static void close_out(struct srv_pipe *p)
{
    p->ready = false;
    fr_fd_close(&p->fd[OUT]);
    fr_fd_close(&p->fd[IN]);
    p->closed_ms = fr_sys.mono_ms();
}

bool srv_pipe_send(struct srv *s, struct srv_pipe *p)
{
    char piece[FR_BULK_MAX];
    struct fr_msg m = {.type = FR_MSG_PIPE_DATA};
    struct fr_err err;
    ssize_t k = fr_sys.read(p->fd[OUT], piece,
                            s->credit < sizeof(piece) ? (size_t)s->credit : sizeof(piece));

    if (k <= 0) {
        if (k == 0 || (errno != EAGAIN && errno != EINTR))
            close_out(p);
        p->ready = false;
        return false;
    }
    s->credit -= (size_t)k;
    m.pipe_data = (struct fr_pipe_data){p->ref, {piece, (size_t)k}};
    if (fr_msg_put(&m, &s->out, &err) != FR_OK)
        srv_fail(s, &err);
    return true;
}

static void read_errors(struct srv_pipe *p)
{
    char piece[FR_PIPE_ERRORS];
    ssize_t k = fr_sys.read(p->fd[ERR], piece, sizeof(piece));
    size_t n = k > 0 ? (size_t)k : 0, keep = sizeof(p->errors) - n;

    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
        fr_fd_close(&p->fd[ERR]);
    if (n == 0)
        return;
    keep = p->n_errors < keep ? p->n_errors : keep;
    memmove(p->errors, p->errors + (p->n_errors - keep), keep);
    memcpy(p->errors + keep, piece, n);
    p->n_errors = keep + n;
}

/* ---- its end ---- */

/* After stdout closed: waits for the rest of stderr and the exit status, at most ENDING_MS. */
static void try_end(struct srv *s, struct srv_pipe *p, int64_t now)
{
    struct fr_wait w = {0};
    bool late = now - p->closed_ms >= ENDING_MS;

    if (p->fd[ERR] >= 0 && !late)
        return;
    if (!reap(p, &w) && !late)
        return;
    if (p->why[0] == '\0' && w.pid != 0 && !w.signaled)
        p->code = w.code;
    else if (p->why[0] == '\0' && w.pid != 0)
        snprintf(p->why, sizeof(p->why), "ended with signal %d", w.code);
    else if (p->why[0] == '\0')
        snprintf(p->why, sizeof(p->why), "closed its output");
    send_end(s, p);
}

static void check_limit(struct srv_pipe *p, int64_t now)
{
    if (now < p->until_ms || p->closed_ms != 0)
        return;
    snprintf(p->why, sizeof(p->why), "it did not end in time, and was killed");
    fr_sys.kill(p->proc, SIGKILL);
    close_out(p); /* of what it started something may still have it open */
}

nfds_t srv_pipe_wanted(struct srv *s, struct pollfd *polls, nfds_t n)
{
    for (struct srv_pipe *p = s->pipes; p != NULL; p = p->next) {
        const bool wanted[3] = {p->in.n > 0, !p->ready, true};

        for (int i = 0; i < 3; i++) {
            p->at[i] = wanted[i] && p->fd[i] >= 0 ? n : 0;
            if (p->at[i] != 0)
                polls[n++] = (struct pollfd){.fd = p->fd[i], .events = i == IN ? POLLOUT : POLLIN};
        }
    }
    return n;
}

void srv_pipe_step(struct srv *s, const struct pollfd *polls)
{
    int64_t now = fr_sys.mono_ms();

    for (struct srv_pipe *p = s->pipes, *next; p != NULL; p = next) {
        next = p->next;
        if (p->gone) {
            try_reap(s, p, now);
            continue;
        }
        if (p->at[IN] != 0 && polls[p->at[IN]].revents != 0)
            write_in(s, p);
        if (p->at[OUT] != 0 && polls[p->at[OUT]].revents != 0)
            p->ready = true;
        if (p->at[ERR] != 0 && polls[p->at[ERR]].revents != 0)
            read_errors(p);
        check_limit(p, now);
        if (p->closed_ms != 0)
            try_end(s, p, now);
    }
}

int64_t srv_pipe_due(const struct srv *s)
{
    int64_t due = INT64_MAX;

    for (const struct srv_pipe *p = s->pipes; p != NULL; p = p->next) {
        bool ends = p->gone || p->closed_ms != 0;
        int64_t one = ends ? fr_sys.mono_ms() + REAP_MS : p->until_ms;

        due = one < due ? one : due;
    }
    return due;
}

void srv_pipe_finish(struct srv *s)
{
    while (s->pipes != NULL) {
        struct srv_pipe *p = s->pipes;

        for (int i = 0; i < 3; i++)
            fr_fd_close(&p->fd[i]);
        if (p->proc.pid != 0)
            fr_sys.kill(p->proc, SIGKILL);
        drop(s, p);
    }
}
