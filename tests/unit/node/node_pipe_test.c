/*
 * Commands of Slurm that a serve runs for the engine: which of them, their bytes both ways, how
 * they end, and that none outlives its connection. The programs are scripts of the test's own.
 */
#include "tests/unit/node/node_client.h"

#include <stdio.h>
#include <sys/stat.h>

static char home[] = "/tmp/node_pipe.XXXXXX", bin[64];
static uint64_t epoch = 1;

static void program(const char *name, const char *script)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", bin, name);
    f = fopen(path, "w");
    fprintf(f, "#!/bin/sh\nPATH=/bin:/usr/bin\n%s\n", script);
    fclose(f);
    chmod(path, 0700);
}

static void open_pipe(struct client *c, uint64_t ref, const char *const *words, int64_t limit_ms)
{
    struct fr_str argv[8];
    struct fr_msg m = {.type = FR_MSG_PIPE_OPEN};
    size_t n = 0;

    for (; words[n] != NULL; n++)
        argv[n] = fr_str_of(words[n]);
    m.pipe_open = (struct fr_pipe_open){
        .ref = ref, .argv = {argv, n}, .path = fr_str_of(bin), .limit_ms = limit_ms};
    client_send(c, &m);
}

static void send_data(struct client *c, uint64_t ref, const char *p, size_t n)
{
    struct fr_msg m = {.type = FR_MSG_PIPE_DATA, .pipe_data = {ref, {p, n}}};

    client_send(c, &m);
}

static void close_pipe(struct client *c, uint64_t ref, bool leave)
{
    struct fr_msg m = {.type = FR_MSG_PIPE_CLOSE, .pipe_close = {ref, leave}};

    client_send(c, &m);
}

/* Reads to the end of the command; its stdout is added to out, and credit is given back. */
static struct fr_pipe_end await_end(struct client *c, uint64_t ref, struct fr_buf *out)
{
    struct fr_msg m;

    while ((m = client_next(c)).type != FR_MSG_PIPE_END || m.pipe_end.ref != ref) {
        if (c->closed) {
            CHECK_TEXT("the stream ended", "pipe_end");
            return (struct fr_pipe_end){0};
        }
        if (m.type == FR_MSG_PIPE_DATA && m.pipe_data.ref == ref) {
            struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {m.pipe_data.bytes.n}};

            fr_buf_add(out, m.pipe_data.bytes.p, m.pipe_data.bytes.n);
            client_send(c, &credit);
        }
    }
    return m.pipe_end;
}

static void check_end(struct client *c, const char *const *words, int code, const char *out,
                      const char *errors)
{
    struct fr_buf got = {0};
    struct fr_pipe_end end;

    open_pipe(c, ++epoch, words, 0);
    close_pipe(c, epoch, false);
    end = await_end(c, epoch, &got);
    CHECK_INT((int32_t)end.code, code);
    fr_buf_text(&got, "");
    CHECK_TEXT(got.p, out);
    CHECK(fr_str_is(end.errors, errors));
    CHECK((end.text.n > 0) == (code < 0 || code == 127));
    fr_buf_finish(&got);
}

static void test_ends(struct client *c)
{
    check_row("both streams, and a status");
    program("squeue", "echo \"$1 $LC_ALL $TZ $SECRET\"; echo bad >&2; exit 3");
    check_end(c, (const char *const[]){"squeue", "a b", NULL}, 3, "a b C UTC \n", "bad\n");
    check_row("a signal");
    program("scancel", "kill -9 $$");
    check_end(c, (const char *const[]){"scancel", NULL}, -1, "", "");
    check_row("no such program");
    check_end(c, (const char *const[]){"sacct", NULL}, 127, "", "");
    check_row("this program");
    check_end(c, (const char *const[]){"flownode", "folder", "x", NULL}, 0, "folder x\n", "");
}

/* Nothing but Slurm's commands by their names, and this program. */
static void test_refused(struct client *c)
{
    static const char *const wrong[] = {"sh", "/bin/sh", "./squeue", "", "squeue scancel", "sq"};
    struct fr_buf out = {0};
    struct fr_msg m = {.type = FR_MSG_PIPE_OPEN, .pipe_open = {.ref = 7}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_pipe_end end;

        check_row(wrong[i]);
        open_pipe(c, ++epoch, (const char *const[]){wrong[i], "-c", "true", NULL}, 0);
        end = await_end(c, epoch, &out);
        CHECK_INT((int32_t)end.code, -1);
        CHECK(end.text.n > 0);
    }
    check_row("no words");
    client_send(c, &m);
    CHECK_INT((int32_t)await_end(c, 7, &out).code, -1);
    CHECK_INT((int)out.n, 0);
    fr_buf_finish(&out);
}

/* A megabyte there and back, at most a window of it under way. */
static void test_bytes(struct client *c)
{
    enum { ALL = 1 << 20, PIECE = 10000 };
    struct fr_buf out = {0}, sent = {0};
    int64_t window = FR_PIPE_WINDOW;
    struct fr_msg m;

    check_row("many bytes");
    program("srun", "exec cat");
    for (size_t i = 0; i < ALL; i++)
        fr_buf_add(&sent, &(char){(char)(i * 7 + i / 251)}, 1);
    open_pipe(c, ++epoch, (const char *const[]){"srun", NULL}, 0);
    for (size_t at = 0; out.n < ALL && !c->closed;) {
        size_t n = ALL - at < PIECE ? ALL - at : PIECE;

        if (n > 0 && window >= (int64_t)n) {
            send_data(c, epoch, sent.p + at, n);
            at += n;
            window -= (int64_t)n;
            continue;
        }
        m = client_next(c);
        if (m.type == FR_MSG_PIPE_MORE)
            window += (int64_t)m.pipe_more.bytes;
        if (m.type == FR_MSG_PIPE_DATA) {
            struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {m.pipe_data.bytes.n}};

            CHECK(m.pipe_data.bytes.n <= FR_BULK_MAX);
            fr_buf_add(&out, m.pipe_data.bytes.p, m.pipe_data.bytes.n);
            client_send(c, &credit);
        }
    }
    CHECK(out.n == ALL && memcmp(out.p, sent.p, ALL) == 0);
    close_pipe(c, epoch, false);
    CHECK_INT((int32_t)await_end(c, epoch, &out).code, 0);
    fr_buf_finish(&out);
    fr_buf_finish(&sent);
}

static void test_errors_tail(struct client *c)
{
    struct fr_buf out = {0}, all = {0};
    struct fr_pipe_end end;

    check_row("the end of many errors");
    program("sbatch", "seq 1 20000 >&2");
    open_pipe(c, ++epoch, (const char *const[]){"sbatch", NULL}, 0);
    end = await_end(c, epoch, &out);
    CHECK_INT((int32_t)end.code, 0);
    CHECK_INT((int)end.errors.n, FR_PIPE_ERRORS);
    for (int i = 1; i <= 20000; i++)
        fr_buf_fmt(&all, "%d\n", i);
    CHECK(memcmp(end.errors.p, all.p + all.n - end.errors.n, end.errors.n) == 0);
    fr_buf_finish(&all);
    fr_buf_finish(&out);
}

/* One that takes too long; and what it said before that. */
static void test_limit(struct client *c)
{
    struct fr_buf out = {0};
    struct fr_pipe_end end;

    check_row("a limit");
    program("sbatch", "echo 4711; exec sleep 100000");
    open_pipe(c, ++epoch, (const char *const[]){"sbatch", NULL}, 300);
    end = await_end(c, epoch, &out);
    CHECK_INT((int32_t)end.code, -1);
    CHECK(end.text.n > 0);
    fr_buf_text(&out, "");
    CHECK_TEXT(out.p, "4711\n");
    fr_buf_finish(&out);
}

/* Without credit nothing comes, and pings are answered all the same. */
static void test_credit(void)
{
    struct client c = client_begin(&(struct client_args){
        .home = home, .self = "flownode", .epoch = ++epoch, .no_credit = true});
    struct fr_msg m = {.type = FR_MSG_PING, .ping = {5}};
    struct fr_buf out = {0};

    check_row("no credit");
    program("srun", "head -c 100000 /dev/zero");
    open_pipe(&c, 1, (const char *const[]){"srun", NULL}, 0);
    client_send(&c, &m);
    CHECK_INT((m = client_next(&c)).type, FR_MSG_CREDIT);
    CHECK_INT((m = client_next(&c)).type, FR_MSG_PONG);
    m = (struct fr_msg){.type = FR_MSG_CREDIT, .credit = {100}};
    client_send(&c, &m);
    for (size_t n = 0; n < 100 && !c.closed; n += m.pipe_data.bytes.n)
        CHECK_INT((m = client_next(&c)).type, FR_MSG_PIPE_DATA);
    m = (struct fr_msg){.type = FR_MSG_PING, .ping = {6}};
    client_send(&c, &m);
    CHECK_INT((m = client_next(&c)).type, FR_MSG_PONG); /* and no further byte */
    m = (struct fr_msg){.type = FR_MSG_CREDIT, .credit = {100000}};
    client_send(&c, &m);
    CHECK_INT((int32_t)await_end(&c, 1, &out).code, 0);
    client_close(&c, false);
    fr_buf_finish(&out);
}

/* More than a command may have waiting ends the connection. */
static void test_too_much(void)
{
    struct client c = client_open(home, "flownode", ++epoch);
    char piece[FR_BULK_MAX] = {0};
    struct fr_msg m;

    check_row("more than the window");
    program("srun", "exec sleep 100000");
    open_pipe(&c, 1, (const char *const[]){"srun", NULL}, 0);
    for (size_t n = 0; n < 4 * FR_PIPE_WINDOW; n += sizeof(piece))
        send_data(&c, 1, piece, sizeof(piece));
    while ((m = client_next(&c)).type != FR_MSG_ERROR && !c.closed)
        ;
    CHECK_INT(m.type, FR_MSG_ERROR);
    CHECK_INT(m.error.rc, FR_PROTO);
    CHECK_INT(client_close(&c, false), 1);
}

static bool lives(pid_t pid)
{
    return kill(pid, 0) == 0;
}

/* The process of a command, which it says itself. */
static pid_t begin_sleeper(struct client *c, uint64_t ref)
{
    struct fr_msg m;
    long pid;

    program("srun", "echo $$; exec sleep 100000");
    open_pipe(c, ref, (const char *const[]){"srun", NULL}, 0);
    m = client_expect(c, FR_MSG_PIPE_DATA, any);
    pid = strtol(fr_arena_text(&c->arena, m.pipe_data.bytes.p, m.pipe_data.bytes.n), NULL, 10);
    CHECK(pid > 1 && lives((pid_t)pid));
    return (pid_t)pid;
}

static void test_killed(void)
{
    static const char *const how[] = {"end of input", "killed", "left"};

    for (size_t i = 0; i < 3; i++) {
        struct client c = client_open(home, "flownode", ++epoch);
        pid_t pid = begin_sleeper(&c, 1);

        check_row(how[i]);
        if (i == 2) {
            close_pipe(&c, 1, true);
            while (lives(pid)) /* it takes no notice of its stdin: it is killed */
                fr_sys.poll(NULL, 0, 10);
        }
        client_close(&c, i == 1);
        while (lives(pid)) /* the runner's time limit ends what never comes */
            fr_sys.poll(NULL, 0, 10);
        CHECK(!lives(pid));
    }
}

int main(void)
{
    char self[300];
    struct client c;

    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(home) == NULL)
        return 99;
    snprintf(bin, sizeof(bin), "%s/bin", home);
    mkdir(bin, 0700);
    program("self", "echo \"$@\"");
    snprintf(self, sizeof(self), "%s/self", bin);
    setenv("SECRET", "not for commands", 1);
    setenv("PATH", "/nonexistent", 1); /* this machine may have programs of Slurm */
    c = client_open(home, self, epoch);
    test_ends(&c);
    test_refused(&c);
    test_bytes(&c);
    test_errors_tail(&c);
    test_limit(&c);
    client_close(&c, false);
    test_credit();
    test_too_much();
    test_killed();
    CHECK(fr_remove_tree(home, NULL) == FR_OK);
    return check_done();
}
