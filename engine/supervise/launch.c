/* Preparing an attempt and starting its command. */
#include "engine/supervise/private.h"

#include "engine/base/file.h"
#include "engine/supervise/cgroup.h"
#include "engine/supervise/environ.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { COPY_PIECE = 256 << 10, ANY_TRIES = 16, ARG_STRLEN = 128 << 10 };

/* Copies without following a link at either end; the target is new. */
static enum fr_rc copy_file(const char *from, const char *to, mode_t mode, struct fr_err *err)
{
    int in;
    enum fr_rc rc = fr_file_open_plain(from, &in, err);
    if (rc != FR_OK)
        return fr_while(err, "the shipped file");
    int out = fr_sys.open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode & 0700);
    char *piece = fr_sys.alloc(COPY_PIECE);
    ssize_t k = 0;

    if (piece == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to copy %s", from);
    else if (out < 0)
        rc = fr_fail_errno(err, errno, "cannot make %s", to);
    while (rc == FR_OK && (k = fr_sys.read(in, piece, COPY_PIECE)) != 0) {
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            rc = fr_fail_errno(err, errno, "cannot read %s", from);
        else if (!fr_write_full(out, piece, (size_t)k))
            rc = fr_fail_errno(err, errno, "cannot write %s", to);
    }
    fr_sys.free(piece);
    fr_sys.close(in);
    if (out >= 0)
        fr_sys.close(out);
    return rc;
}

static enum fr_rc place_file(struct sup *s, const struct fr_file_want *f, struct fr_err *err)
{
    const char *home = s->home.path;

    bool own = f->store.n > 0 && f->store.p[0] == '/';
    if ((!own && !fr_path_is_inner(f->store)) || !fr_path_is_inner(f->path))
        return fr_fail(err, FR_USAGE,
                       "not a relative path of at most %d bytes without \"..\": file "
                       "\"%.*s\"",
                       FR_PATH_INNER_MAX, (int)f->path.n, f->path.p);
    char *from = fr_arena_fmt(&s->arena, "%s%s%.*s", own ? "" : home, own ? "" : "/store/",
                              (int)f->store.n, f->store.p);
    char *to = fr_arena_fmt(&s->arena, "%s/%.*s", s->dir, (int)f->path.n, f->path.p);
    if (from == NULL || to == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for files");
    char *slash = strrchr(to, '/');
    *slash = '\0';
    enum fr_rc rc = fr_mkdirs(to, 0700, err);
    *slash = '/';
    return rc == FR_OK ? copy_file(from, to, f->mode != 0 ? f->mode : 0600, err) : rc;
}

/* Renames the empty folder of this process's last attempt, which costs a tenth of a new folder. A
 * folder whose mode or owner was changed is not taken. */
static bool take_spare_dir(struct sup *s)
{
    char spare[FR_NODE_PATH];
    struct stat st;

    if (fr_id_zero(s->process->spare_dir))
        return false;
    fr_home_path(s->home.path, FR_HOME_DIR, s->process->spare_dir, spare);
    s->process->spare_dir = (struct fr_id){{0}};
    if (fr_sys.lstat(spare, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0700 &&
        st.st_uid == fr_sys.uid() && fr_sys.rename(spare, s->dir) == 0)
        return true;
    fr_sys.rmdir(spare);
    return false;
}

/* The attempt's folder, empty: an earlier supervisor may have made it and never launched. */
static enum fr_rc make_dir(struct sup *s, struct fr_err *err)
{
    enum fr_rc rc;

    fr_home_path(s->home.path, FR_HOME_DIR, s->a->prepare.attempt, s->dir);
    fr_home_path(s->home.path, FR_HOME_OUTPUT, s->a->prepare.attempt, s->output);
    if (take_spare_dir(s) || fr_sys.mkdir(s->dir, 0700) == 0)
        return FR_OK;
    if (errno == EEXIST && (rc = fr_remove_tree(s->dir, err)) != FR_OK)
        return rc;
    if (fr_sys.mkdir(s->dir, 0700) != 0)
        return fr_fail_errno(err, errno, "cannot make the folder %s", s->dir);
    return FR_OK;
}

/* The file of the outputs is made here, for this user: the command may run as another. */
static enum fr_rc fill_dir(struct sup *s, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < s->req->files.n && rc == FR_OK; i++)
        rc = place_file(s, &s->req->files.v[i], err);
    if (rc == FR_OK && s->req->outputs.n > 0) {
        fr_sys.unlink(s->output);
        int fd = fr_sys.open(s->output, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        if (fd < 0)
            return fr_fail_errno(err, errno, "cannot make %s", s->output);
        fr_sys.close(fd);
    }
    return rc;
}

/* Holds the port and claims it: the launch closes the port, and no other attempt on this machine
 * may take it before the command binds it. */
static bool hold_one(struct sup *s, int wanted)
{
    int port = 0;

    s->port_fd = fr_sys.hold_port(wanted, &port);
    if (s->port_fd < 0)
        return false;
    s->claim_fd = fr_sys.claim_port(port);
    if (s->claim_fd < 0) {
        int e = errno;
        fr_sys.close(s->port_fd);
        s->port_fd = -1;
        errno = e;
        return false;
    }
    s->port = (uint32_t)port;
    return true;
}

/* Does not look for the process that listens there: the engine's preflight names it. */
static enum fr_rc hold_port(struct sup *s, struct fr_err *err)
{
    const bool any = s->req->port == FR_PORT_ANY;
    const int first = s->req->port, last = any ? ANY_TRIES : first + (int)s->req->ports_more;

    for (int i = first; i <= last; i++)
        if (hold_one(s, any ? FR_PORT_ANY : i))
            return FR_OK;
        else if (errno != EADDRINUSE)
            return fr_fail_errno(err, errno, "cannot hold port %d", i);
    if (any || first == last)
        return fr_fail(err, FR_BUSY, "port %d is in use", first);
    return fr_fail(err, FR_BUSY, "the ports from %d to %d are all in use", first, last);
}

/* Values of secrets, the lines of those that have several, and both as tools quote them. */
static enum fr_rc gather_masks(struct sup *s, struct fr_err *err)
{
    const struct fr_strs *sources[] = {&s->req->secret_env, &s->req->mask};

    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < sources[i]->n; k++) {
            struct fr_str v = sources[i]->v[k];
            const char *eq = i == 0 ? memchr(v.p, '=', v.n) : NULL;
            if (eq != NULL)
                v = (struct fr_str){eq + 1, v.n - (size_t)(eq + 1 - v.p)};
            if (!fr_mask_add(&s->arena, &s->masked, v))
                return fr_fail(err, FR_NOMEM, "no memory for secrets");
        }
    return FR_OK;
}

/* more: variables of a sidecar; none: n is 0. */
static const char **make_env(struct sup *s, struct fr_strs more)
{
    char id[FR_ID_TEXT];
    struct fr_str own[4], first[2];
    struct fr_strs ours = {own, 4}, presets = {first, 2};

    fr_id_text(s->a->prepare.attempt, id);
    own[0] = fr_str_of(fr_arena_fmt(&s->arena, "FLOWRUN_ATTEMPT=%s", id));
    own[1] = fr_str_of(fr_arena_fmt(&s->arena, "FLOWRUN_NODE_HOME=%s", s->home.path));
    own[2] = fr_str_of(fr_arena_fmt(&s->arena, "FLOWRUN_DIR=%s", s->dir));
    own[3] = fr_str_of(fr_arena_fmt(&s->arena, "FLOWRUN_OUTPUT=%s", s->output));
    first[0] = fr_str_of(fr_arena_fmt(&s->arena, "FLOWRUN_WORK=%s/work", s->home.path));
    first[1] = fr_str_of(fr_arena_fmt(&s->arena, "TMPDIR=%s", s->dir));
    const struct fr_strs *lists[] = {&s->a->environ,      &presets, &s->req->env, &s->go_env,
                                     &s->req->secret_env, &more,    &ours};
    const char **v = fr_environ_make(lists, sizeof(lists) / sizeof(lists[0]), &s->arena);
    return v != NULL && fr_environ_finish(v, &s->a->environ, &s->arena) ? v : NULL;
}

/* Makes the work folder that the inventory names, where it is not there. In a container it is a
 * mount or nothing. */
static enum fr_rc make_work(struct sup *s, struct fr_err *err)
{
    const char **env, *work;
    struct stat st;
    bool named = false;

    for (size_t i = 0; i < s->req->env.n; i++)
        named = named || fr_has_prefix(s->req->env.v[i].p, "FLOWRUN_WORK=");
    env = named && s->req->container.runtime.n == 0 ? make_env(s, (struct fr_strs){0}) : NULL;
    work = env != NULL ? fr_environ_value(env, "FLOWRUN_WORK") : "";
    if (work[0] != '/' || fr_sys.lstat(work, &st) == 0)
        return FR_OK;
    return fr_mkdirs(work, 0700, err) == FR_OK ? FR_OK : fr_while(err, "the work folder %s", work);
}

enum fr_rc sup_prepare(struct sup *s, struct fr_err *err)
{
    const struct fr_request *r = s->req;
    enum fr_rc rc = gather_masks(s, err);

    if (rc == FR_OK && r->argv.n == 0)
        rc = fr_fail(err, FR_USAGE, "the attempt has no command");
    if (rc == FR_OK && r->sidecars.n > SUP_SIDECARS)
        rc = fr_fail(err, FR_USAGE, "%zu sidecars, more than %d", r->sidecars.n, (int)SUP_SIDECARS);
    if (rc == FR_OK)
        rc = make_work(s, err);
    if (rc == FR_OK && (rc = make_dir(s, err)) == FR_OK)
        rc = fill_dir(s, err);
    if (rc == FR_OK && r->port >= 0)
        rc = hold_port(s, err);
    return rc;
}

/* A NULL-terminated argument vector with FR_ARGV_FLOWNODE replaced. */
static const char **make_argv(struct sup *s, const struct fr_strs *argv)
{
    const char **v = fr_vector(argv, &s->arena);

    if (v != NULL && v[0] != NULL && strcmp(v[0], FR_ARGV_FLOWNODE) == 0)
        v[0] = fr_arena_text(&s->arena, s->a->self.p, s->a->self.n);
    return v;
}

static char *make_cwd(struct sup *s, struct fr_str cwd)
{
    if (cwd.n == 0)
        return fr_arena_dup(&s->arena, s->dir);
    return cwd.p[0] == '/' ? fr_arena_text(&s->arena, cwd.p, cwd.n)
                           : fr_arena_fmt(&s->arena, "%s/%.*s", s->dir, (int)cwd.n, cwd.p);
}

/* Names the argument or variable that is too long for the kernel. */
static enum fr_rc too_long(const struct fr_spawn *sp, struct fr_err *err)
{
    size_t all = 0;

    for (const char *const *v = sp->envp; *v != NULL; v++) {
        size_t n = strlen(*v) + 1;
        if (n > ARG_STRLEN)
            return fr_fail(err, FR_USAGE,
                           "cannot start %s: the variable %.*s has %zu bytes; the kernel takes at "
                           "most %d in one, a file holds more",
                           sp->argv[0], (int)strcspn(*v, "="), *v, n - 1 - strcspn(*v, "=") - 1,
                           (int)ARG_STRLEN);
        all += n;
    }
    for (size_t i = 0; sp->argv[i] != NULL; i++) {
        size_t n = strlen(sp->argv[i]) + 1;
        if (n > ARG_STRLEN)
            return fr_fail(err, FR_USAGE,
                           "cannot start %s: its argument %zu has %zu bytes; the kernel takes at "
                           "most %d in one, a file holds more",
                           sp->argv[0], i, n - 1, (int)ARG_STRLEN);
        all += n;
    }
    return fr_fail(err, FR_USAGE,
                   "cannot start %s: its arguments and variables have %zu bytes, more than the "
                   "kernel takes at once (a quarter of ulimit -s)",
                   sp->argv[0], all);
}

/* Why a command did not start: its folder, its program, or the interpreter that the file names. */
static enum fr_rc cannot_start(const struct fr_spawn *sp, int e, struct fr_err *err)
{
    const char *program = sp->argv[0];
    struct stat st;

    if (*sp->cwd_refused)
        return fr_fail_errno(err, e, "cannot start %s: its working folder (cwd) %s cannot be used",
                             program, sp->cwd);
    if (e == E2BIG)
        return too_long(sp, err);
    if (strchr(program, '/') == NULL && e == ENOENT)
        return fr_fail(err, FR_IO, "cannot start %s: there is no such program on PATH=%s", program,
                       fr_environ_value(sp->envp, "PATH"));
    if (program[0] == '/' && e == ENOENT && fr_sys.lstat(program, &st) == 0)
        return fr_fail(err, FR_IO,
                       "cannot start %s: the interpreter of its first line is not there", program);
    return fr_fail_errno(err, e, "cannot start %s in %s", program, sp->cwd);
}

struct start {
    const struct fr_strs *argv, *env;
    struct fr_str cwd, name;
    int input; /* becomes its stdin, -1: /dev/null */
    bool sidecar;
};

static enum fr_rc start_one(struct sup *s, const struct start *st, struct fr_proc *out,
                            struct fr_err *err)
{
    int fds[2];
    bool cwd_refused = false;
    struct fr_spawn sp = {.argv = make_argv(s, st->argv),
                          .envp = make_env(s, st->env != NULL ? *st->env : (struct fr_strs){0}),
                          .cwd = make_cwd(s, st->cwd),
                          .cwd_refused = &cwd_refused,
                          .no_core = s->masked.n > 0,
                          .umask = s->req->umask,
                          .new_session = st->sidecar,
                          .new_group = !st->sidecar};

    if (sp.argv == NULL || sp.argv[0] == NULL || sp.envp == NULL || sp.cwd == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to start a command");
    if (fr_sys.pipe(fds) != 0)
        return fr_fail_errno(err, errno, "cannot make a pipe");
    sp.fds[0] = st->input;
    sp.fds[1] = sp.fds[2] = fds[1];
    int rc = fr_sys.spawn(&sp, out), e = errno;
    fr_sys.close(fds[1]);
    if (rc != 0) {
        fr_sys.close(fds[0]);
        return cannot_start(&sp, e, err);
    }
    sup_stream_add(s, fds[0], st->name);
    return FR_OK;
}

/* The pipe that the command reads its input from; *end is for the child. */
static enum fr_rc open_input(struct sup *s, int *end, struct fr_err *err)
{
    int fds[2];

    *end = -1;
    fr_buf_add(&s->input, s->req->input.p, s->req->input.n);
    if (s->input.bad)
        return fr_fail(err, FR_NOMEM, "no memory for the input");
    if (s->input.n == 0)
        return FR_OK;
    if (fr_sys.pipe(fds) != 0)
        return fr_fail_errno(err, errno, "cannot make a pipe");
    *end = fds[0];
    s->input_fd = fds[1];
    fr_sys.set_nonblock(fds[1], true);
    return FR_OK;
}

static enum fr_rc journal_launch(struct sup *s, struct fr_err *err)
{
    const struct fr_container *c = &s->req->container;
    const struct fr_attempt *a;
    struct fr_rec rec = {.kind = FR_REC_LAUNCHED,
                         .container = c->runtime.n > 0 ? c->name : (struct fr_str){"", 0},
                         .cgroup = fr_cgroup_above(s->process->cgroup),
                         .attempt = s->a->prepare.attempt,
                         .boot = s->a->boot,
                         .sup_pid = (uint32_t)s->process->self.pid,
                         .sup_start = s->process->self.start,
                         .launched_ms = fr_sys.mono_ms(),
                         .grace_ms = s->req->grace_ms,
                         .socket_id =
                             s->listen_fd < 0 ? s->process->socket_id : (struct fr_id){{0}}};
    enum fr_rc rc = fr_journal_append(s->home.journal, &rec, err);

    if (rc == FR_OK)
        rc = fr_table_read(&s->table, s->home.journal, err);
    if (rc != FR_OK)
        return rc;
    a = fr_table_find(&s->table, rec.attempt);
    if (a == NULL || !a->launched)
        return fr_fail(err, FR_STOPPED, "the attempt was given up before it started");
    s->end.launched_ms = rec.launched_ms;
    s->end.launched_boot_ms = fr_sys.boot_ms();
    return FR_OK;
}

/* Appends the NUL-terminated texts of v; returns how many. */
static size_t add_texts(struct fr_buf *b, const char *const *v)
{
    size_t n = 0;

    for (; v[n] != NULL; n++)
        fr_buf_add(b, v[n], strlen(v[n]) + 1);
    return n;
}

/* sudo keeps no environment and nothing secret belongs on a command line: `flownode become` takes
 * both from the head of its input, "ARGC ENVC BYTES\n" and the texts. */
static enum fr_rc wrap_become(struct sup *s, struct fr_strs *argv, struct start *st,
                              struct fr_err *err)
{
    const struct fr_str words[] = {FR_STR("sudo"), FR_STR("-n"), FR_STR("--"), s->a->self,
                                   FR_STR("become")};
    const char **env = make_env(s, (struct fr_strs){0}), **cmd = make_argv(s, &s->req->argv);
    struct fr_buf body = {0};

    st->env = &s->a->environ; /* sudo is looked for on the node's PATH, not on the command's */
    argv->n = sizeof(words) / sizeof(words[0]);
    argv->v = fr_arena_array(&s->arena, argv->n, sizeof(struct fr_str));
    if (argv->v == NULL || env == NULL || cmd == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for sudo");
    memcpy(argv->v, words, sizeof(words));
    size_t argc = add_texts(&body, cmd), envc = add_texts(&body, env);
    fr_buf_fmt(&s->input, "%zu %zu %zu\n", argc, envc, body.n);
    fr_buf_add(&s->input, body.p, body.n);
    s->input.bad = s->input.bad || body.bad;
    fr_buf_finish(&body);
    return FR_OK;
}

static enum fr_rc start_sidecars(struct sup *s, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < s->req->sidecars.n && rc == FR_OK; i++) {
        const struct fr_sidecar *c = &s->req->sidecars.v[i];
        struct start st = {&c->argv, &c->env, c->cwd, c->name, -1, true};
        struct fr_proc p = {0};
        rc = start_one(s, &st, &p, err);
        if (p.pid != 0)
            s->sidecars[s->n_sidecars++] = p.pid;
        if (rc != FR_OK)
            fr_while(err, "sidecar %.*s", (int)c->name.n, c->name.p);
    }
    return rc;
}

/* The path of the command's metrics, by its folder and its environment. */
static const char *metrics_path(struct sup *s)
{
    static const char *const folders[] = {"FLOWRUN_WORK", "FLOWRUN_DIR"};
    struct fr_str path = s->req->metrics;
    const char **env = make_env(s, (struct fr_strs){0});

    for (size_t i = 0; env != NULL && i < 2; i++) {
        size_t n = strlen(folders[i]);

        if (path.n > n + 2 && path.p[0] == '$' && memcmp(path.p + 1, folders[i], n) == 0 &&
            path.p[n + 1] == '/')
            return fr_arena_fmt(&s->arena, "%s%.*s", fr_environ_value(env, folders[i]),
                                (int)(path.n - n - 1), path.p + n + 1);
    }
    if (path.p[0] == '/')
        return fr_arena_text(&s->arena, path.p, path.n);
    return fr_arena_fmt(&s->arena, "%s/%.*s", make_cwd(s, s->req->cwd), (int)path.n, path.p);
}

static void begin_metrics(struct sup *s)
{
    const char *path = s->req->metrics.n > 0 ? metrics_path(s) : NULL;

    if (path == NULL)
        return;
    s->metrics.home = s->home.path;
    fr_metrics_begin(&s->metrics, path, &s->masked);
    s->metrics_ms = fr_sys.mono_ms() + FR_METRICS_MS;
}

enum fr_rc sup_launch(struct sup *s, struct fr_err *err)
{
    struct fr_strs argv = s->req->argv;
    struct start st = {&argv, NULL, s->req->cwd, {"", 0}, -1, false};
    enum fr_rc rc = journal_launch(s, err);

    if (s->port_fd >= 0)
        fr_sys.close(s->port_fd); /* the command binds it now */
    s->port_fd = -1;
    if (rc != FR_OK)
        return rc;
    if (s->req->become && fr_sys.uid() != 0) /* root may not have a sudo */
        rc = wrap_become(s, &argv, &st, err);
    if (rc == FR_OK)
        rc = open_input(s, &st.input, err);
    begin_metrics(s);
    sup_oom_look(s->process);
    if (rc == FR_OK)
        rc = start_sidecars(s, err);
    if (rc == FR_OK)
        rc = start_one(s, &st, &s->child, err);
    fr_fd_close(&st.input);
    if (s->child.pid == 0)
        return rc;
    s->alive = true;
    s->end.launched = true;
    s->child_fd = fr_sys.proc_fd(s->child.pid);
    return rc;
}
