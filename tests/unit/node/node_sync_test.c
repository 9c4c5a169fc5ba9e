/*
 * What is synced to the disk on a node, and in which order, seen at its calls of the machine: files
 * received, the journal while it goes and when it is made shorter; and what a failed sync leads to.
 */
#include "engine/node/compact.h"
#include "tests/unit/node/node_client.h"

#include <errno.h>
#include <fcntl.h>

enum { ALL = 1000000, WAIT_MS = 30000 };

static char home[] = "/tmp/node_sync.XXXXXX";
static char trail[64]; /* a pipe with a name: each process says there what it called */
static int trail_fd;   /* the test's end of it */
static int failing;    /* so many syncs of the journal fail, in each process */
static struct fr_buf log_text;

static void say(const char *call, const char *a, const char *b)
{
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    char text[1200];
    int fd = open(trail, O_WRONLY | O_CLOEXEC);
    int n = snprintf(text, sizeof(text), "%s %s%s%s\n", call, x != NULL ? x + 1 : a,
                     b[0] != '\0' ? " " : "", y != NULL ? y + 1 : b);

    if (fd >= 0 && write(fd, text, (size_t)n) == n)
        close(fd);
}

static int said_sync(int fd)
{
    char link[64], path[FR_NODE_PATH] = "";

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof(path) - 1) < 0)
        return -1;
    if (failing > 0 && strstr(path, "/journal") != NULL && strstr(path, ".new") == NULL) {
        failing--;
        say("failed", path, "");
        errno = EIO;
        return -1;
    }
    say("sync", path, "");
    return fdatasync(fd);
}

static int said_rename(const char *from, const char *to)
{
    say("rename", from, to);
    return rename(from, to);
}

static void watch(int fails)
{
    fr_sys.fdatasync = said_sync;
    fr_sys.rename = said_rename;
    failing = fails;
}

/* Reads on until the calls so far hold text; false when it does not come. */
static bool heard(const char *text)
{
    char piece[512];

    for (;;) {
        struct pollfd p = {.fd = trail_fd, .events = POLLIN};
        fr_buf_add(&log_text, "", 0);
        if (log_text.n > 0 && memmem(log_text.p, log_text.n, text, strlen(text)) != NULL)
            return true;
        if (poll(&p, 1, WAIT_MS) != 1)
            return false;
        ssize_t k = read(trail_fd, piece, sizeof(piece));
        if (k > 0)
            fr_buf_add(&log_text, piece, (size_t)k);
    }
}

static void forget(void)
{
    char piece[512];
    struct pollfd p = {.fd = trail_fd, .events = POLLIN};

    while (poll(&p, 1, 0) == 1 && read(trail_fd, piece, sizeof(piece)) > 0)
        ;
    fr_buf_finish(&log_text);
    log_text = (struct fr_buf){0};
}

/* One call after the other, though not at once. */
static void check_order(const char *const *calls, size_t n)
{
    const char *p = log_text.p != NULL ? log_text.p : "";

    for (size_t i = 0; i < n; i++) {
        const char *found = strstr(p, calls[i]);
        if (found == NULL)
            CHECK_TEXT(log_text.p, calls[i]);
        p = found != NULL ? found + strlen(calls[i]) : p;
    }
    CHECK(n > 0);
}

/* The bytes are on the disk before the file has its name. */
static void test_put(void)
{
    char hash[FR_SHA256_TEXT], sync[100], rename[100];
    struct fr_msg m = {.type = FR_MSG_PUT_BEGIN}, d = {.type = FR_MSG_PUT_DATA},
                  end = {.type = FR_MSG_PUT_END, .put_end = {1}};

    check_row("put");
    forget();
    watch(0);
    struct client c = client_open(home, "flownode", 1);
    fr_sys = fr_sys_real;
    fr_sha256("bytes", 5, hash);
    m.put_begin = (struct fr_put_begin){1, FR_STR("files/f"), fr_str_of(hash), 5, 0600, {{0}}};
    d.put_data = (struct fr_put_data){1, 0, FR_STR("bytes")};
    client_send(&c, &m);
    client_expect(&c, FR_MSG_PUT_STATE, any);
    client_send(&c, &d);
    client_send(&c, &end);
    CHECK(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.done);
    snprintf(sync, sizeof(sync), "sync %s\n", hash);
    snprintf(rename, sizeof(rename), "rename %s f\n", hash);
    CHECK(heard(rename));
    check_order((const char *const[]){sync, rename}, 2);
    CHECK_INT(client_close(&c, false), 0);
}

static size_t journal_has(const char *text)
{
    char path[100];
    struct fr_buf b = {0};
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/journal", home);
    CHECK(fr_file_read(path, 1 << 24, &b, NULL) == FR_OK);
    for (const char *p = b.p, *found; p != NULL; p = found + 1) {
        found = memmem(p, b.n - (size_t)(p - b.p), text, strlen(text));
        if (found == NULL)
            break;
        n++;
    }
    fr_buf_finish(&b);
    return n;
}

static struct fr_msg named(struct fr_str words[3], const char *script, const char *instance)
{
    struct fr_msg m = sh_prepare(words, script, true);

    m.prepare.instance = fr_str_of(instance);
    return m;
}

/* serve syncs the journal a moment after it grew; after a failure, its records stand there again.
 */
static void test_serve(void)
{
    struct fr_str words[3];
    struct fr_msg m = named(words, "true", "once-synced");

    check_row("a sync that fails once");
    forget();
    watch(1);
    struct client c = client_open(home, "flownode", 2);
    fr_sys = fr_sys_real;
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended.code, 0);
    CHECK(heard("failed journal\nsync journal\n"));
    CHECK(journal_has("once-synced") > 1);
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_ENDED);
    CHECK_INT(client_close(&c, false), 0);

    check_row("a disk that cannot be synced");
    forget();
    watch(ALL);
    c = client_open(home, "flownode", 3);
    fr_sys = fr_sys_real;
    m = named(words, "true", "never-synced");
    client_send(&c, &m);
    struct fr_error e = client_expect(&c, FR_MSG_ERROR, any).error;
    CHECK_INT(e.rc, FR_IO);
    CHECK(strstr(e.text.p, home) != NULL && strstr(e.text.p, "cannot sync the journal") != NULL);
    CHECK_INT(client_close(&c, false), 1);
}

/* A supervisor that nobody is connected to syncs the end itself. */
static void test_alone(void)
{
    char gate[100], script[200];
    struct fr_str words[3];
    int fd;

    check_row("without serve");
    snprintf(gate, sizeof(gate), "%s/gate", home);
    CHECK(mkfifo(gate, 0600) == 0);
    snprintf(script, sizeof(script), "echo up; read x < %s", gate);
    struct fr_msg m = named(words, script, "alone");
    watch(1);
    struct client c = client_open(home, "flownode", 4);
    fr_sys = fr_sys_real;
    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    client_await_log(&c, "up\n");
    client_close(&c, true);
    forget();
    CHECK((fd = open(gate, O_RDWR)) >= 0 && write(fd, "\n", 1) == 1);
    CHECK(heard("failed journal\nsync journal\n"));
    close(fd);
    c = client_open(home, "flownode", 5);
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_ENDED);
    CHECK_INT(client_close(&c, false), 0);
}

/* The shorter journal is on the disk before it takes the old one's place, and so is that after. */
static void test_compact(void)
{
    const char *const order[] = {"sync journal.new\n", "rename journal.new journal\n",
                                 "sync compact\n"};
    char path[100];
    struct fr_node_home h;
    struct fr_table t = {0};
    bool broken;

    check_row("compaction");
    forget();
    snprintf(path, sizeof(path), "%s/compact", home);
    CHECK(fr_home_open(&h, path, NULL) == FR_OK && fr_home_alone(&h));
    for (int i = 0; i < 1000; i++) {
        struct fr_rec rec = {.kind = FR_REC_ENDED, .attempt = new_id()};
        CHECK(fr_journal_append(h.journal, &rec, NULL) == FR_OK);
        rec.kind = FR_REC_ACKED;
        CHECK(fr_journal_append(h.journal, &rec, NULL) == FR_OK);
    }
    CHECK(fr_table_read(&t, h.journal, NULL) == FR_OK);
    watch(0);
    CHECK(fr_journal_compact(&h, &t, &broken, NULL) == FR_OK && !broken);
    fr_sys = fr_sys_real;
    CHECK(heard(order[2]));
    check_order(order, 3);
    fr_table_finish(&t);
    fr_home_close(&h);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    CHECK(mkdtemp(home) != NULL);
    snprintf(trail, sizeof(trail), "%s.trail", home);
    CHECK(mkfifo(trail, 0600) == 0);
    trail_fd = open(trail, O_RDWR | O_CLOEXEC);
    test_put();
    test_serve();
    test_alone();
    test_compact();
    fr_buf_finish(&log_text);
    close(trail_fd);
    unlink(trail);
    CHECK(fr_remove_tree(home, NULL) == FR_OK);
    return check_done();
}
