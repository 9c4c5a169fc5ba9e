#include "engine/link/child.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "engine/link/sshconf.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10,
    TAIL_BYTES = 2048, /* of stderr, kept for the error */
    ENDING_MS = 3000,  /* how long an end may take after stdout closed */
    REAP_EVERY_MS = 20,
};

enum { IN, OUT, ERR };

struct child {
    struct fr_loop *loop; /* borrows */
    struct fr_arena arena;
    const char *what;
    const char **argv, **envp; /* envp NULL: this process's */
    bool die_with_parent;
    int own_failure;
    enum fr_rc (*judge)(int code, struct fr_str tail, struct fr_buf *advice);
    const char *key; /* NULL: none */
    struct fr_link_events ev;
    struct fr_proc proc; /* pid 0: none, or reaped */
    int fd[3];           /* our ends: write, read, read */
    struct fr_watch *watch[3];
    struct fr_timer *reap;
    struct fr_post up;
    int64_t ending_since; /* 0: stdout is open */
    char tail[TAIL_BYTES];
    size_t tail_n;
    int code; /* exit status; -1: none */
};

static void close_fd(struct child *c, int i)
{
    fr_loop_unwatch(c->loop, &c->watch[i]);
    if (c->fd[i] >= 0)
        fr_sys.close(c->fd[i]);
    c->fd[i] = -1;
}

static void child_close(void *self)
{
    struct child *c = self;

    fr_loop_withdraw(c->loop, &c->up);
    fr_loop_arm(c->loop, c->reap, -1);
    c->ending_since = 0;
    for (int i = 0; i < 3; i++)
        close_fd(c, i);
    c->ev = (struct fr_link_events){0};
}

/* Kills the process of an earlier open, which may hang on a dead network. */
static void end_leftover(struct child *c, int sig)
{
    struct fr_wait w = {0};

    if (c->proc.pid == 0)
        return;
    if (fr_sys.wait(c->proc.pid, &w, FR_WAIT_NOHANG) == 0 && w.pid == 0) {
        fr_sys.kill(c->proc, sig);
        fr_sys.wait(c->proc.pid, &w, sig == SIGKILL ? 0 : FR_WAIT_NOHANG);
    }
    c->proc.pid = 0;
}

static void child_destroy(void *self)
{
    struct child *c = self;

    child_close(c);
    /* a local serve may still be writing its journal: stdin's end stops it; ssh need not linger */
    if (c->die_with_parent)
        end_leftover(c, SIGKILL);
    fr_loop_untimer(c->loop, &c->reap);
    fr_arena_finish(&c->arena);
    fr_sys.free(c);
}

static void add_key_fault(const char *key, struct fr_buf *advice)
{
    const char *fault = fr_ssh_key_fault(key);

    if (fault != NULL)
        fr_buf_fmt(advice, " (key %s: %s)", key, fault);
}

static enum fr_rc describe(const struct child *c, const struct fr_wait *w, struct fr_err *err)
{
    struct fr_str tail = {c->tail, c->tail_n};
    struct fr_buf text = {0}, advice = {0};
    enum fr_rc rc = FR_UNREACHABLE;

    if (w->pid != 0 && !w->signaled && c->judge != NULL)
        rc = c->judge(w->code, tail, &advice);
    if (rc == FR_DENIED && c->key != NULL)
        add_key_fault(c->key, &advice);
    fr_link_quote(&text, tail.p, tail.n);
    if (w->pid == 0)
        fr_fail(err, rc, "%s: closed its output%s%s%s", c->what, text.n ? ": " : "",
                text.n ? text.p : "", advice.n ? advice.p : "");
    else
        fr_fail(err, rc, "%s: ended with %s %d%s%s%s", c->what, w->signaled ? "signal" : "status",
                w->code, text.n ? ": " : "", text.n ? text.p : "", advice.n ? advice.p : "");
    fr_buf_finish(&text);
    fr_buf_finish(&advice);
    return rc;
}

static void go_down(struct child *c, const struct fr_err *err, bool ran)
{
    struct fr_link_events ev = c->ev;

    child_close(c);
    ev.on_down(ev.arg, err, ran);
}

/* After stdout closed: waits for the rest of stderr and the exit status, at most ENDING_MS. */
static void try_end(void *arg)
{
    struct child *c = arg;
    struct fr_wait w = {0};
    struct fr_err err = {0};
    bool late = fr_sys.mono_ms() - c->ending_since >= ENDING_MS;

    if (c->fd[ERR] >= 0 && !late) {
        fr_loop_arm_in(c->loop, c->reap, REAP_EVERY_MS);
        return;
    }
    if (c->proc.pid != 0 && (fr_sys.wait(c->proc.pid, &w, FR_WAIT_NOHANG) != 0 || w.pid != 0))
        c->proc.pid = 0;
    if (c->proc.pid != 0 && !late) {
        fr_loop_arm_in(c->loop, c->reap, REAP_EVERY_MS);
        return;
    }
    c->code = w.pid != 0 && !w.signaled ? w.code : -1;
    describe(c, &w, &err);
    go_down(c, &err, w.pid != 0 && !w.signaled && w.code != c->own_failure);
}

static void on_stderr(void *arg, int what)
{
    struct child *c = arg;
    char buf[4096];
    ssize_t n = fr_sys.read(c->fd[ERR], buf, sizeof(buf));

    (void)what;
    if (n > 0)
        fr_link_keep_tail((struct fr_str){buf, (size_t)n}, c->tail, TAIL_BYTES, &c->tail_n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_fd(c, ERR);
}

static void on_stdout(void *arg, int what)
{
    struct child *c = arg;
    char buf[READ_BYTES];
    ssize_t n = fr_sys.read(c->fd[OUT], buf, sizeof(buf));

    (void)what;
    if (n > 0) {
        c->ev.on_bytes(c->ev.arg, buf, (size_t)n);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close_fd(c, OUT);
    close_fd(c, IN);
    c->ending_since = fr_sys.mono_ms();
    fr_loop_arm_in(c->loop, c->reap, 0);
}

static void on_stdin(void *arg, int what)
{
    struct child *c = arg;

    (void)what;
    fr_loop_want(c->loop, c->watch[IN], 0);
    c->ev.on_writable(c->ev.arg);
}

static void on_up(void *arg)
{
    struct child *c = arg;

    c->ev.on_up(c->ev.arg);
}

static size_t child_send(void *self, const char *p, size_t n)
{
    struct child *c = self;
    size_t done = 0;

    while (done < n && c->fd[IN] >= 0) {
        ssize_t k = fr_sys.write(c->fd[IN], p + done, n - done);

        if (k > 0) {
            done += (size_t)k;
        } else if (k < 0 && errno == EINTR) {
            continue;
        } else if (k < 0 && errno == EAGAIN) {
            fr_loop_want(c->loop, c->watch[IN], FR_LOOP_WRITE);
            break;
        } else {
            break; /* EPIPE: the end of stdout reports the rest */
        }
    }
    return done;
}

static enum fr_rc start(struct child *c, const int theirs[3], struct fr_err *err)
{
    struct fr_spawn s = {
        .argv = c->argv,
        .envp = c->envp != NULL ? c->envp : (const char *const *)environ,
        .fds = {theirs[IN], theirs[OUT], theirs[ERR]},
        .new_session = true, /* Ctrl-C on the terminal is flowrun's business */
        .die_with_parent = c->die_with_parent,
    };

    if (fr_sys.spawn(&s, &c->proc) != 0) {
        c->proc.pid = 0;
        return fr_fail_errno(err, errno, "%s: cannot start %s", c->what, c->argv[0]);
    }
    return FR_OK;
}

static enum fr_rc child_open(void *self, const struct fr_link_events *ev, struct fr_err *err)
{
    static fr_ready_fn *const on[3] = {on_stdin, on_stdout, on_stderr};
    struct child *c = self;
    int theirs[3] = {-1, -1, -1};
    enum fr_rc rc = FR_OK;

    child_close(c);
    end_leftover(c, SIGKILL);
    c->tail_n = 0;
    c->code = -1;
    for (int i = 0; i < 3 && rc == FR_OK; i++) {
        int p[2];

        if (fr_sys.pipe(p) != 0) {
            rc = fr_fail_errno(err, errno, "%s: pipe", c->what);
            break;
        }
        c->fd[i] = i == IN ? p[1] : p[0];
        theirs[i] = i == IN ? p[0] : p[1];
        if (fr_sys.set_nonblock(c->fd[i], true) != 0)
            rc = fr_fail_errno(err, errno, "%s: pipe", c->what);
        else if (fr_loop_watch(c->loop, c->fd[i], on[i], c, &c->watch[i]) != FR_OK)
            rc = fr_fail(err, FR_NOMEM, "%s: no memory", c->what);
    }
    if (rc == FR_OK)
        rc = start(c, theirs, err);
    for (int i = 0; i < 3; i++)
        if (theirs[i] >= 0)
            fr_sys.close(theirs[i]);
    if (rc != FR_OK) {
        child_close(c);
        return rc;
    }
    c->ev = *ev;
    fr_loop_want(c->loop, c->watch[OUT], FR_LOOP_READ);
    fr_loop_want(c->loop, c->watch[ERR], FR_LOOP_READ);
    fr_loop_post(c->loop, &c->up);
    return FR_OK;
}

static const struct fr_link_ops local_ops = {"local", child_open, child_send, child_close,
                                             child_destroy};
static const struct fr_link_ops openssh_ops = {"openssh", child_open, child_send, child_close,
                                               child_destroy};

/* This process's environment with another agent. */
static bool make_env(struct child *c, const char *agent)
{
    static const char name[] = "SSH_AUTH_SOCK=";
    size_t n = 0, all = 0;

    while (environ[all] != NULL)
        all++;
    if ((c->envp = fr_arena_array(&c->arena, all + 2, sizeof(*c->envp))) == NULL)
        return false;
    for (size_t i = 0; i < all; i++)
        if (!fr_has_prefix(environ[i], name))
            c->envp[n++] = environ[i];
    if (agent[0] != '\0')
        c->envp[n++] = fr_arena_fmt(&c->arena, "%s%s", name, agent);
    return agent[0] == '\0' || c->envp[n - 1] != NULL;
}

static const char **copy_list(struct fr_arena *arena, const char *const *list)
{
    const char **copy;
    size_t n = 0;

    while (list[n] != NULL)
        n++;
    copy = fr_arena_array(arena, n + 1, sizeof(*copy));
    for (size_t i = 0; i < n && copy != NULL; i++)
        if ((copy[i] = fr_arena_dup(arena, list[i])) == NULL)
            return NULL;
    return copy;
}

static bool copy_args(struct child *c, const struct fr_child_args *a)
{
    c->argv = copy_list(&c->arena, a->argv);
    c->what = fr_arena_dup(&c->arena, a->what);
    c->key = a->key != NULL ? fr_arena_dup(&c->arena, a->key) : NULL;
    if (a->envp != NULL)
        c->envp = copy_list(&c->arena, a->envp);
    return c->argv != NULL && c->what != NULL && (a->key == NULL || c->key != NULL) &&
           (a->envp == NULL || c->envp != NULL) && (a->agent == NULL || make_env(c, a->agent));
}

int fr_link_child_code(const struct fr_link *link, struct fr_str *errors)
{
    const struct child *c = link->self;

    *errors = (struct fr_str){c->tail, c->tail_n};
    return c->code;
}

enum fr_rc fr_link_child_create(struct fr_link *link, struct fr_loop *loop,
                                const struct fr_child_args *a, struct fr_err *err)
{
    struct child *c = fr_sys.alloc(sizeof(*c));

    *link = (struct fr_link){0};
    if (c == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a link");
    *c = (struct child){.loop = loop,
                        .die_with_parent = a->die_with_parent,
                        .own_failure = a->own_failure,
                        .judge = a->judge,
                        .fd = {-1, -1, -1},
                        .up = {.run = on_up, .arg = c}};
    if (!copy_args(c, a) || fr_loop_timer(loop, try_end, c, &c->reap) != FR_OK) {
        fr_arena_finish(&c->arena);
        fr_sys.free(c);
        return fr_fail(err, FR_NOMEM, "no memory for a link");
    }
    *link = (struct fr_link){a->die_with_parent ? &openssh_ops : &local_ops, c};
    return FR_OK;
}

enum fr_rc fr_link_local_create(struct fr_link *link, struct fr_loop *loop, const char *const *argv,
                                struct fr_err *err)
{
    struct fr_child_args a = {.what = argv[0], .argv = argv, .own_failure = -1};

    return fr_link_child_create(link, loop, &a, err);
}
