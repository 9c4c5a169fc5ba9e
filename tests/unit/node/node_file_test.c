/* Files that the engine puts into a node's store and gets back, by a real serve: in pieces, over
 * lost connections, twice at once, and refused. */
#include "tests/unit/node/node_client.h"

#include <fcntl.h>
#include <stdio.h>

static char home[] = "/tmp/node_file.XXXXXX";

/* A file comes in pieces, cut once by a lost connection, is used by an attempt and got back. */
static void test_files(void)
{
    enum { N = 50000 };
    char *data = malloc(N), hash[FR_SHA256_TEXT];
    struct client c = client_open(home, "flownode", 14);
    struct fr_buf back = {0};
    struct fr_msg m = {.type = FR_MSG_PUT_BEGIN}, d = {.type = FR_MSG_PUT_DATA}, got;
    struct fr_file_want want = {FR_STR("files/a"), FR_STR("in/a"), 0700};
    struct fr_str words[3];

    for (int i = 0; i < N; i++)
        data[i] = (char)(i * 7 + i / 256);
    fr_sha256(data, N, hash);
    m.put_begin = (struct fr_put_begin){1, FR_STR("files/a"), fr_str_of(hash), N, 0755, {{0}}};
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.offset, 0);
    d.put_data = (struct fr_put_data){1, 0, {data, 16000}};
    client_send(&c, &d);
    got = (struct fr_msg){.type = FR_MSG_FACTS, .facts = {2}};
    client_send(&c, &got); /* answered in order: the data was taken */
    client_expect(&c, FR_MSG_FACTS_ARE, any);
    client_close(&c, true);

    c = client_open(home, "flownode", 15);
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.offset, 16000);
    for (size_t at = 16000; at < N; at += 10000) {
        d.put_data = (struct fr_put_data){1, at, {data + at, N - at < 10000 ? N - at : 10000}};
        client_send(&c, &d);
    }
    got = (struct fr_msg){.type = FR_MSG_PUT_END, .put_end = {1}};
    client_send(&c, &got);
    CHECK(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.done);
    client_send(&c, &m); /* it is there now */
    CHECK_INT(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.offset, N);
    m = sh_prepare(words, "test -x in/a && cat in/a > copy && ls", true);
    m.prepare.request.files = (struct fr_file_wants){&want, 1};
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended.code, 0);
    char path[64], id[FR_ID_TEXT];
    fr_id_text(m.prepare.attempt, id);
    snprintf(path, sizeof(path), "a/%s/copy", id);
    got = (struct fr_msg){.type = FR_MSG_GET, .get = {3, fr_str_of(path), 100, 0, {{0}}}};
    client_send(&c, &got);
    while ((got = client_next(&c)).type != FR_MSG_GET_END && !c.closed)
        if (got.type == FR_MSG_GET_DATA) {
            CHECK_INT(got.get_data.offset, 100 + back.n);
            fr_buf_add(&back, got.get_data.bytes.p, got.get_data.bytes.n);
        }
    CHECK(back.n == N - 100 && memcmp(back.p, data + 100, back.n) == 0);
    CHECK(got.get_end.size == N);
    fr_buf_finish(&back);
    free(data);
    CHECK_INT(client_close(&c, false), 0);
}

/* What serve stops at until the test has its pong. A serve that does everything in one turn has not
 * sent the pong by then: it stops in vain, and ends. */
enum { GATE_MS = 20000, GATE_EXIT = 9, GATE_FILES = 1000, LARGE = 3 << 20, GATE_BYTES = 2 << 20 };

static int gate[2];
static int n_removed;

static void await_gate(void)
{
    struct pollfd p = {.fd = gate[0], .events = POLLIN};
    char byte;

    if (poll(&p, 1, GATE_MS) != 1 || read(gate[0], &byte, 1) != 1)
        _exit(GATE_EXIT);
}

static ssize_t gated_read(int fd, void *p, size_t n)
{
    ssize_t k = read(fd, p, n);
    off_t at = lseek(fd, 0, SEEK_CUR);
    struct stat st;

    if (k > 0 && at >= GATE_BYTES && at - k < GATE_BYTES && fstat(fd, &st) == 0 &&
        st.st_size == LARGE)
        await_gate();
    return k;
}

static int gated_unlink(const char *path)
{
    if (strstr(path, "/many/") != NULL && ++n_removed == GATE_FILES)
        await_gate();
    return unlink(path);
}

/* Each look at the clock is a millisecond: what serve does within one turn is then the same on
 * every machine. */
static int64_t counted_ms(void)
{
    static int64_t ms;

    return ++ms;
}

/* Sends m and a ping in one piece; the pong must come before serve goes on behind the gate. */
static void answered_beside(struct client *c, const struct fr_msg *m)
{
    struct fr_msg ping = {.type = FR_MSG_PING, .ping = {42}}, got = {.type = FR_MSG_CREDIT};
    struct fr_buf b = {0};

    CHECK(fr_msg_put(m, &b, NULL) == FR_OK && fr_msg_put(&ping, &b, NULL) == FR_OK);
    CHECK(fr_write_full(c->to, b.p, b.n));
    fr_buf_finish(&b);
    while (got.type == FR_MSG_CREDIT)
        got = client_next(c);
    CHECK_INT(got.type, FR_MSG_PONG);
    CHECK(write(gate[1], "", 1) == 1);
}

/* A file is hashed in slices: when it came, and when it is to be sent and may be there already. */
static void test_put_beside(void)
{
    enum { N = LARGE, PIECE = 16000 };
    char *data = calloc(1, N), hash[FR_SHA256_TEXT];
    fr_sys.read = gated_read;
    struct client c = client_open(home, "flownode", 15);
    fr_sys = fr_sys_real;
    struct fr_msg m = {.type = FR_MSG_PUT_BEGIN}, d = {.type = FR_MSG_PUT_DATA},
                  end = {.type = FR_MSG_PUT_END, .put_end = {1}};
    struct fr_put_state state;

    fr_sha256(data, N, hash);
    m.put_begin = (struct fr_put_begin){1, FR_STR("files/large"), fr_str_of(hash), N, 0644, {{0}}};
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.offset, 0);
    for (size_t at = 0; at < N; at += PIECE) {
        d.put_data = (struct fr_put_data){1, at, {data + at, N - at < PIECE ? N - at : PIECE}};
        client_send(&c, &d);
    }
    answered_beside(&c, &end);
    CHECK(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.done);
    answered_beside(&c, &m);
    state = client_expect(&c, FR_MSG_PUT_STATE, any).put_state;
    CHECK(state.offset == N && !state.done);
    CHECK_INT(client_close(&c, false), 0);
    free(data);
}

/* The folder of an acknowledged attempt is removed in slices. */
static void test_remove_beside(void)
{
    enum { N = 1500 };
    char dir[100], path[120], id[FR_ID_TEXT];
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "mkdir many", true), ack = {.type = FR_MSG_ACK_END};
    struct stat st;

    fr_sys.unlink = gated_unlink;
    fr_sys.mono_ms = counted_ms;
    struct client c = client_open(home, "flownode", 15);
    fr_sys = fr_sys_real;
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended.code, 0);
    fr_id_text(m.prepare.attempt, id);
    snprintf(dir, sizeof(dir), "%s/a/%s", home, id);
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof(path), "%s/many/%04d", dir, i);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        CHECK(fd >= 0 && close(fd) == 0);
    }
    ack.ack_end.attempt = m.prepare.attempt;
    answered_beside(&c, &ack);
    CHECK_INT(client_close(&c, false), 0);
    CHECK(lstat(dir, &st) != 0);
    snprintf(path, sizeof(path), "%s/log/%s", home, id);
    CHECK(lstat(path, &st) != 0);
}

/* The same file on two ways at once, as over a connection and the one that took its place. */
static void test_file_twice(void)
{
    struct client c = client_open(home, "flownode", 16);
    struct fr_msg m = {.type = FR_MSG_PUT_BEGIN}, end = {.type = FR_MSG_PUT_END};
    char hash[FR_SHA256_TEXT];

    fr_sha256("right", 5, hash);
    m.put_begin = (struct fr_put_begin){1, FR_STR("files/c"), fr_str_of(hash), 5, 0600, {{0}}};
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.offset, 0);
    struct fr_msg d = {.type = FR_MSG_PUT_DATA, .put_data = {1, 0, FR_STR("right")}};
    client_send(&c, &d);
    m.put_begin.ref = 2;
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.offset, 5);
    for (uint64_t ref = 1; ref <= 2; ref++) {
        end.put_end.ref = ref;
        client_send(&c, &end);
        struct fr_msg got = client_next(&c);
        CHECK(got.type == FR_MSG_PUT_STATE && got.put_state.done && got.put_state.ref == ref);
    }
    CHECK_INT(client_close(&c, false), 0);
}

static const struct {
    const char *name, *path;
    const char *bytes;
    enum fr_rc rc;
} put_rows[] = {
    {"wrong hash", "files/b", "wrong", FR_CORRUPT},
    {"outside the store", "../b", "right", FR_USAGE},
    {"absolute", "/tmp/b", "right", FR_USAGE},
};

static void test_bad_files(void)
{
    struct client c = client_open(home, "flownode", 16);
    char hash[FR_SHA256_TEXT];

    fr_sha256("right", 5, hash);
    for (size_t i = 0; i < sizeof(put_rows) / sizeof(put_rows[0]); i++) {
        struct fr_msg m = {.type = FR_MSG_PUT_BEGIN};
        check_row(put_rows[i].name);
        m.put_begin = (struct fr_put_begin){
            i + 1, fr_str_of(put_rows[i].path), fr_str_of(hash), 5, 0600, {{0}}};
        client_send(&c, &m);
        m = (struct fr_msg){.type = FR_MSG_PUT_DATA};
        m.put_data = (struct fr_put_data){i + 1, 0, fr_str_of(put_rows[i].bytes)};
        client_send(&c, &m);
        m = (struct fr_msg){.type = FR_MSG_PUT_END, .put_end = {i + 1}};
        client_send(&c, &m);
        struct fr_error e = client_expect(&c, FR_MSG_ERROR, any).error;
        CHECK(e.ref == i + 1 && e.rc == put_rows[i].rc);
    }
    check_row("");
    CHECK_INT(client_close(&c, false), 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(home) == NULL || fr_sys.pipe(gate) != 0)
        return EXIT_FAILURE;
    test_files();
    test_put_beside();
    test_remove_beside();
    test_file_twice();
    test_bad_files();
    CHECK(fr_remove_tree(home, NULL) == FR_OK);
    return check_done();
}
