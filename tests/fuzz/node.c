/*
 * The node's side: what serve takes from an engine, the journal, and the masking of secrets. serve
 * runs on the real file system below a folder of its own; whatever else it would change, or start,
 * is found.
 */
#include "tests/fuzz/fuzz.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/supervise/mask.h"
#include "engine/node/serve.h"
#include "engine/supervise/table.h"
#include "engine/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IN = 9000, OUT = 9001, PIECE = 700, MADE_MAX = 512, OUT_MAX = 32 << 20 };

/* The machine that serve sees: its connection, its clock, and the files it made. */
static struct {
    struct fr_buf in, out;
    size_t taken;
    int64_t now;
    bool started; /* a supervisor can be started (and is gone at once) */
    char home[256];
    struct {
        char *path;
        bool dir;
    } made[MADE_MAX]; /* to be removed again, the newest first */
    size_t n_made;
} m;

static bool inside(const char *path)
{
    size_t n = strlen(m.home);

    return strncmp(path, m.home, n) == 0 && path[n] == '/' && strstr(path, "/../") == NULL &&
           (strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0);
}

static void remember(const char *path, bool dir)
{
    if (m.n_made == MADE_MAX)
        return;
    m.made[m.n_made].path = strdup(path);
    m.made[m.n_made++].dir = dir;
}

static int fake_open(const char *path, int flags, mode_t mode)
{
    struct stat st;
    bool there = (flags & O_CREAT) == 0 || fr_sys_real.lstat(path, &st) == 0;

    if ((flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0) {
        fuzz_want(inside(path), "a file is written inside of the home");
    } else if (!inside(path) && strstr(m.home, path) != m.home) {
        errno = ENOENT; /* the engine may read what the user may read: not here */
        return -1;
    }
    int fd = fr_sys_real.open(path, flags, mode);
    if (fd >= 0 && !there)
        remember(path, false);
    return fd;
}

static int fake_mkdir(const char *path, mode_t mode)
{
    fuzz_want(inside(path) || strcmp(path, m.home) == 0 || strstr(m.home, path) == m.home,
              "a folder is made inside of the home");
    int rc = fr_sys_real.mkdir(path, mode);
    if (rc == 0)
        remember(path, true);
    return rc;
}

static int fake_rename(const char *from, const char *to)
{
    fuzz_want(inside(from) && inside(to), "a file is renamed inside of the home");
    int rc = fr_sys_real.rename(from, to);
    if (rc == 0)
        remember(to, false);
    return rc;
}

static int fake_unlink(const char *path)
{
    fuzz_want(inside(path), "a file is removed inside of the home");
    return fr_sys_real.unlink(path);
}

static int fake_rmdir(const char *path)
{
    fuzz_want(inside(path), "a folder is removed inside of the home");
    return fr_sys_real.rmdir(path);
}

static int fake_list(const char *path, char ***names, size_t *n)
{
    if (inside(path))
        return fr_sys_real.list(path, names, n);
    errno = ENOENT;
    return -1;
}

static ssize_t fake_read(int fd, void *p, size_t n)
{
    if (fd != IN)
        return fr_sys_real.read(fd, p, n);
    n = n < PIECE ? n : PIECE;
    n = n < m.in.n - m.taken ? n : m.in.n - m.taken;
    if (n > 0)
        memcpy(p, m.in.p + m.taken, n);
    m.taken += n;
    return (ssize_t)n;
}

static ssize_t fake_write(int fd, const void *p, size_t n)
{
    if (fd != OUT)
        return fr_sys_real.write(fd, p, n);
    fr_buf_add(&m.out, p, n);
    fuzz_want(m.out.n < OUT_MAX, "answers are in proportion to what is asked");
    return (ssize_t)n;
}

static int fake_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int ready = 0;

    m.now += timeout_ms > 50 || timeout_ms < 0 ? 50 : timeout_ms;
    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = 0;
        if (fds[i].fd == IN || fds[i].fd == OUT)
            fds[i].revents = fds[i].events;
        else if (fds[i].fd >= 0)
            fr_sys_real.poll(&fds[i], 1, 0);
        ready += fds[i].revents != 0;
    }
    return ready;
}

static int64_t fake_mono(void)
{
    return m.now;
}

static int fake_nonblock(int fd, bool on)
{
    return fd == IN || fd == OUT ? 0 : fr_sys_real.set_nonblock(fd, on);
}

/* A command of Slurm prints something, and is gone at once. Nothing else starts. */
static int fake_spawn(const struct fr_spawn *s, struct fr_proc *out)
{
    if (!m.started || s->fds[0] < 0) {
        errno = EPERM;
        return -1;
    }
    fuzz_want(fr_word_in("sbatch squeue scancel srun scontrol sacct sinfo sbcast /bin/flownode",
                         s->argv[0]),
              "a command is one of Slurm's");
    fuzz_want(write(s->fds[1], "4711\n", 5) == 5 && write(s->fds[2], "no\n", 3) == 3, "it prints");
    *out = (struct fr_proc){.pid = 1 << 30};
    return 0;
}

static int fake_detach(const struct fr_detach *d)
{
    (void)d;
    errno = EAGAIN;
    return m.started ? 0 : -1;
}

static int fake_kill(struct fr_proc proc, int sig)
{
    (void)proc, (void)sig;
    errno = ESRCH;
    return -1;
}

static int fake_procs(struct fr_procinfo **list, size_t *n)
{
    *list = NULL;
    *n = 0;
    return 0;
}

static int fake_random(void *p, size_t n)
{
    memset(p, 7, n);
    return 0;
}

static void enter(void)
{
    (void)snprintf(m.home, sizeof(m.home), "%s/home", fuzz_dir());
    fr_sys = fr_sys_real;
    fr_sys.open = fake_open;
    fr_sys.mkdir = fake_mkdir;
    fr_sys.rename = fake_rename;
    fr_sys.unlink = fake_unlink;
    fr_sys.rmdir = fake_rmdir;
    fr_sys.list = fake_list;
    fr_sys.read = fake_read;
    fr_sys.write = fake_write;
    fr_sys.poll = fake_poll;
    fr_sys.mono_ms = fr_sys.boot_ms = fr_sys.wall_ms = fake_mono;
    fr_sys.set_nonblock = fake_nonblock;
    fr_sys.spawn = fake_spawn;
    fr_sys.detach = fake_detach;
    fr_sys.kill = fake_kill;
    fr_sys.procs = fake_procs;
    fr_sys.random = fake_random;
    m.now = 1000;
    m.taken = 0;
}

static void leave(void)
{
    struct stat st;

    fr_sys = fr_sys_real;
    while (m.n_made > 0) {
        m.n_made--;
        if (m.made[m.n_made].dir)
            fr_sys.rmdir(m.made[m.n_made].path);
        else
            fr_sys.unlink(m.made[m.n_made].path);
        free(m.made[m.n_made].path);
    }
    if (fr_sys.lstat(m.home, &st) == 0)
        fr_remove_tree(m.home, NULL); /* what did not fit the list */
    fr_buf_finish(&m.in);
    fr_buf_finish(&m.out);
    m.in = m.out = (struct fr_buf){0};
}

/* All that serve said can be read by an engine. */
static void check_said(void)
{
    struct fr_wire_in in = {.magic = true};
    struct fr_msg msg;
    struct fr_err err = {0};
    bool got = true;

    fr_wire_feed(&in, m.out.p, m.out.n);
    while (got) {
        struct fr_arena arena = {0};
        fuzz_want(fr_wire_next(&in, &arena, &msg, &got, &err) == FR_OK, "serve speaks wire");
        fr_arena_finish(&arena);
    }
    fr_wire_finish(&in);
}

void fuzz_serve(struct fr_str in)
{
    static const char *const env[] = {"PATH=/bin", "HOME=/home/u", NULL};
    struct fr_serve_args a = {.home = m.home,
                              .self = "/bin/flownode",
                              .build = "b1",
                              .environ = env,
                              .in = IN,
                              .out = OUT};
    struct fr_err err = {0};

    enter();
    m.started = in.n > 0 && (in.p[0] & 2) != 0;
    fuzz_frames(in, &m.in);
    fuzz_want_err(fr_serve(&a, &err), &err);
    fuzz_want(m.out.n > 0, "serve begins");
    check_said();
    leave();
}

/* ---- seeds: conversations as an engine has them ---- */

static const struct fr_id RUN = {{1}}, A = {{0xa}}, B = {{0xb}};

static void hello(struct fr_buf *b)
{
    struct fr_msg h = {.type = FR_MSG_HELLO,
                       .hello = {FR_PROTO_MIN, FR_PROTO_MAX, FR_STR(""), RUN, FR_STR(""), 7, 5, 5}};
    struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {100000}};

    struct fr_msg join = {.type = FR_MSG_JOIN, .join = {RUN}};

    fuzz_piece(&h, b);
    fuzz_piece(&join, b);
    fuzz_piece(&credit, b);
}

static struct fr_msg prepare(void)
{
    static struct fr_str argv[] = {{"sh", 2}, {"-c", 2}, {"true", 4}}, env[] = {{"K=V", 3}};
    static struct fr_file_want files[] = {{{"h/f", 3}, {"in/f", 4}, 0600}};
    static struct fr_sidecar cars[] = {{{"car", 3}, {argv, 3}, {env, 1}, {"", 0}}};
    struct fr_msg p = {.type = FR_MSG_PREPARE};

    p.prepare = (struct fr_prepare){.attempt = A,
                                    .run = RUN,
                                    .instance = FR_STR("train@n1"),
                                    .generation = 1,
                                    .spec_hash = FR_STR("hash"),
                                    .go_now = true};
    p.prepare.request = (struct fr_request){.argv = {argv, 3},
                                            .env = {env, 1},
                                            .secret_env = {env, 1},
                                            .input = FR_STR("in"),
                                            .timeout_ms = 1000,
                                            .log_max_bytes = 4096,
                                            .outputs = {env, 1},
                                            .files = {files, 1},
                                            .sidecars = {cars, 1},
                                            .port = FR_PORT_ANY};
    return p;
}

static void put_attempts(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    static struct fr_id ids[] = {{{0xa}}, {{0xb}}};
    static struct fr_str env[] = {{"R=1", 3}};
    struct fr_msg msgs[] = {
        prepare(),
        {.type = FR_MSG_GO, .go = {A, {env, 1}}},
        {.type = FR_MSG_ATTACH, .attach = {A, 0}},
        {.type = FR_MSG_QUERY, .query = {{ids, 2}}},
        {.type = FR_MSG_STOP, .stop = {A, 1000, 2, true}},
        {.type = FR_MSG_TOMBSTONE, .tombstone = {B}},
        {.type = FR_MSG_ACK_END, .ack_end = {A}},
        {.type = FR_MSG_LEASE, .lease = {3, RUN}},
        {.type = FR_MSG_PING, .ping = {42}},
        {.type = FR_MSG_LEAVE, .leave = {RUN}},
    };
    struct fr_buf b = {0};

    fr_buf_text(&b, "\1");
    hello(&b);
    for (size_t i = 0; i < sizeof(msgs) / sizeof(msgs[0]); i++)
        fuzz_piece(&msgs[i], &b);
    put(arg, "attempt", (struct fr_str){b.p, b.n});
    b.p[0] = 3; /* its supervisor starts */
    put(arg, "supervised", (struct fr_str){b.p, b.n});
    b.n = 0;
    fr_buf_text(&b, "\3");
    hello(&b);
    msgs[0].prepare.request.container =
        (struct fr_container){FR_STR("podman"), FR_STR("box"), FR_STR("/f"), FR_STR("/h")};
    fuzz_piece(&msgs[0], &b);
    fuzz_piece(&msgs[4], &b);
    put(arg, "container", (struct fr_str){b.p, b.n});
    fr_buf_finish(&b);
}

static void put_files(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    char hash[FR_SHA256_TEXT];
    struct fr_msg msgs[] = {
        {.type = FR_MSG_PUT_BEGIN, .put_begin = {4, FR_STR("h/f"), {hash, 64}, 5, 0755, RUN}},
        {.type = FR_MSG_PUT_DATA, .put_data = {4, 0, FR_STR("bytes")}},
        {.type = FR_MSG_PUT_END, .put_end = {4}},
        {.type = FR_MSG_PUT_BEGIN, .put_begin = {5, FR_STR("../../up"), {hash, 64}, 5, 0755, RUN}},
        {.type = FR_MSG_GET, .get = {6, FR_STR("store/h/f"), 1, 3, RUN}},
        {.type = FR_MSG_GET, .get = {7, FR_STR("/etc/passwd"), 0, 0, RUN}},
        {.type = FR_MSG_GET_MORE, .get_more = {6, 2}},
        {.type = FR_MSG_CANCEL, .cancel = {6}},
        {.type = FR_MSG_FACTS, .facts = {10}},
        {.type = FR_MSG_LEAVE, .leave = {RUN}},
    };
    struct fr_buf b = {0};

    fr_sha256("bytes", 5, hash);
    fr_buf_text(&b, "\1");
    hello(&b);
    for (size_t i = 0; i < sizeof(msgs) / sizeof(msgs[0]); i++)
        fuzz_piece(&msgs[i], &b);
    put(arg, "files", (struct fr_str){b.p, b.n});
    fr_buf_finish(&b);
}

static void put_pipes(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    static struct fr_str queue[] = {{"squeue", 6}, {"-h", 2}}, shell[] = {{"sh", 2}};
    static struct fr_str read[] = {{"flownode", 8}, {"folder", 6}, {"read", 4}};
    const struct fr_msg msgs[] = {
        {.type = FR_MSG_CREDIT, .credit = {65536}},
        {.type = FR_MSG_PIPE_OPEN, .pipe_open = {1, {queue, 2}, FR_STR("/opt/bin"), 30000}},
        {.type = FR_MSG_PIPE_DATA, .pipe_data = {1, FR_STR("for its stdin")}},
        {.type = FR_MSG_PIPE_CLOSE, .pipe_close = {1, false}},
        {.type = FR_MSG_PIPE_OPEN, .pipe_open = {2, {read, 3}, FR_STR(""), 40}},
        {.type = FR_MSG_PIPE_DATA, .pipe_data = {2, FR_STR("more")}},
        {.type = FR_MSG_PIPE_OPEN, .pipe_open = {3, {shell, 1}, FR_STR(""), 0}},
        {.type = FR_MSG_PIPE_CLOSE, .pipe_close = {2, true}},
        {.type = FR_MSG_PING, .ping = {1}},
        {.type = FR_MSG_FACTS, .facts = {10}},
    };
    struct fr_buf b = {0};

    fr_buf_text(&b, "\3");
    hello(&b);
    for (size_t i = 0; i < sizeof(msgs) / sizeof(msgs[0]); i++)
        fuzz_piece(&msgs[i], &b);
    put(arg, "pipes", (struct fr_str){b.p, b.n});
    fr_buf_finish(&b);
}

void fuzz_serve_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    put_attempts(put, arg);
    put_files(put, arg);
    put_pipes(put, arg);
    put(arg, "raw", FR_STR("\0\x05\0\0\0\x02\0\0\0\0\0\xff\xff\xff\xff\x81"));
}

/* ---- the journal ---- */

void fuzz_journal(struct fr_str in)
{
    struct fr_table t = {0};
    struct fr_err err = {0};
    int fd = fr_sys.open(fuzz_path(in), O_RDWR | O_APPEND, 0);

    fuzz_want(fd >= 0, "the journal opens");
    fuzz_want_err(fr_table_read(&t, fd, &err), &err);
    fuzz_want(t.at <= in.n, "no more is read than there is");
    for (size_t i = 0; i < t.n; i++) {
        const struct fr_attempt *a = t.v[i];
        struct fr_arena arena = {0};
        struct fr_ended e;

        fuzz_want(fr_table_find(&t, a->id) == a, "an attempt is found by its id");
        fr_ended_get((struct fr_str){a->end.p, a->end.n}, &arena, &e, &err);
        fr_arena_finish(&arena);
    }
    /* what is appended to a damaged journal is read all the same */
    struct fr_rec rec = {.kind = FR_REC_TOMBSTONE, .attempt = {{0xee, 1, 2, 3}}};
    fuzz_want(fr_journal_append(fd, &rec, &err) == FR_OK, "a record can be added");
    fuzz_want(fr_table_read(&t, fd, &err) == FR_OK, "the journal can be read on");
    fuzz_want(fr_table_find(&t, rec.attempt) != NULL, "what is appended is read at once");
    fr_table_finish(&t);
    fr_sys.close(fd);
}

void fuzz_journal_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    struct fr_buf end = {0}, all = {0};
    const char *path = fuzz_path(FR_STR(""));
    struct fr_str outs[] = {FR_STR("k=v")};
    struct fr_ended e = {
        .attempt = A, .cause = FR_END_EXIT, .launched = true, .outputs = {outs, 1}};
    struct fr_rec recs[] = {
        {.kind = FR_REC_HOME, .attempt = {{9}}},
        {.kind = FR_REC_EPOCH, .run = RUN, .epoch = 7},
        {.kind = FR_REC_PREPARED,
         .attempt = A,
         .run = RUN,
         .instance = FR_STR("t@n"),
         .spec_hash = FR_STR("h"),
         .generation = 1,
         .boot = FR_STR("boot")},
        {.kind = FR_REC_LAUNCHED,
         .attempt = A,
         .boot = FR_STR("boot"),
         .sup_pid = 7,
         .launched_ms = 5,
         .container = FR_STR("box")},
        {.kind = FR_REC_EXITED, .attempt = A},
        {.kind = FR_REC_ENDED, .attempt = A},
        {.kind = FR_REC_TOMBSTONE, .attempt = B},
        {.kind = FR_REC_ACKED, .attempt = A},
    };
    struct fr_err err;

    fr_ended_put(&e, &end);
    int fd = fr_sys.open(path, O_RDWR | O_APPEND, 0);
    for (size_t i = 0; i < sizeof(recs) / sizeof(recs[0]); i++) {
        recs[i].ended = (struct fr_str){end.p, end.n};
        fuzz_want(fr_journal_append(fd, &recs[i], &err) == FR_OK, "a record can be added");
    }
    fr_sys.close(fd);
    fuzz_want(fr_file_read(path, 1 << 20, &all, &err) == FR_OK, "the journal can be read");
    put(arg, "attempt", (struct fr_str){all.p, all.n});
    fr_buf_finish(&all);
    fr_buf_finish(&end);
}

/* ---- masking ---- */

/* The first line has the secrets, separated by blanks; the first byte of all cuts the rest. */
void fuzz_mask(struct fr_str in)
{
    const char *line = in.n > 1 ? memchr(in.p, '\n', in.n) : NULL;
    struct fr_str values[8];
    struct fr_strs secrets = {values, 0};
    struct fr_buf pieces = {0}, whole = {0};
    struct fr_mask a, b;

    if (line == NULL)
        return;
    for (const char *p = in.p + 1; p < line && secrets.n < 8;) {
        const char *end = memchr(p, ' ', (size_t)(line - p));
        end = end != NULL ? end : line;
        values[secrets.n++] = (struct fr_str){p, (size_t)(end - p)};
        p = end + 1;
    }
    struct fr_str rest = {line + 1, in.n - (size_t)(line + 1 - in.p)};
    size_t step = 1 + ((uint8_t)in.p[0] & 15);
    fr_mask_init(&a, &secrets);
    fr_mask_init(&b, &secrets);
    for (size_t at = 0; at < rest.n; at += step)
        fr_mask_feed(&a, rest.p + at, rest.n - at < step ? rest.n - at : step, &pieces);
    fr_mask_end(&a, &pieces);
    fr_mask_feed(&b, rest.p, rest.n, &whole);
    fr_mask_end(&b, &whole);
    fuzz_want(pieces.n == whole.n && (whole.n == 0 || memcmp(pieces.p, whole.p, whole.n) == 0),
              "pieces are masked as the whole is");
    for (size_t i = 0; i < secrets.n; i++) /* "***" may join what stands around it */
        if (values[i].n > 0 && memchr(values[i].p, '*', values[i].n) == NULL)
            fuzz_want(whole.n == 0 || memmem(whole.p, whole.n, values[i].p, values[i].n) == NULL,
                      "no secret is left");
    fr_mask_finish(&a);
    fr_mask_finish(&b);
    fr_buf_finish(&pieces);
    fr_buf_finish(&whole);
}
