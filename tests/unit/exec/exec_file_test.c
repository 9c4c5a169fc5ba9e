/* Files to a node and from it, by the node executor: in pieces, against credit, over lost
 * connections. The nodes are the test's own (exec_peer.h). */
#include "tests/unit/exec/exec_peer.h"
#include "tests/unit/sync_guard.h"

#include "engine/ship/ignore.h"
#include "engine/base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void test_put(void)
{
    static struct peer_world w;
    static char big[300000];
    struct peer *p = &w.nodes[0];
    struct fr_ship_file v[2] = {{.path = "h/a", .sha256 = "x", .mode = 0644},
                                {.path = "h/b", .sha256 = "y", .mode = 0755}};
    struct fr_msg done = {.type = FR_MSG_PUT_STATE}, credit = {.type = FR_MSG_CREDIT};
    const struct fr_msg *m;
    const struct fr_exec_event *ev;
    uint64_t at = 100;

    check_row("put");
    peer_setup(&w, 1);
    memset(big, 'q', sizeof(big));
    v[0].bytes = FR_STR("aa");
    v[0].size = 2;
    v[1].bytes = (struct fr_str){big, sizeof(big)};
    v[1].size = sizeof(big);
    CHECK(w.ex.ops->put(w.ex.self, &(struct fr_exec_put){0, 9, v, 2}, NULL) == FR_OK);
    peer_run(&w);
    CHECK((m = peer_got(p, FR_MSG_PUT_BEGIN)) != NULL && m->put_begin.size == 2);
    done.put_state = (struct fr_put_state){1, 2, true, FR_STR("/home/s/h/a")};
    peer_say(p, &done); /* there already */
    peer_run(&w);
    CHECK((m = peer_got(p, FR_MSG_PUT_BEGIN)) != NULL && fr_str_is(m->put_begin.path, "h/b"));
    done.put_state = (struct fr_put_state){1, at, false, FR_STR("/home/s/h/b")};
    peer_say(p, &done);
    peer_run(&w);
    CHECK(peer_got(p, FR_MSG_PUT_DATA) == NULL); /* no credit yet */
    while (at < sizeof(big)) {
        uint64_t got = 0;

        credit.credit.bytes = 50000;
        peer_say(p, &credit);
        peer_run(&w);
        while (p->n_got > 0 && p->got[0].type == FR_MSG_PUT_DATA) {
            m = peer_got(p, FR_MSG_PUT_DATA);
            CHECK_INT(m->put_data.offset, at);
            at += m->put_data.bytes.n;
            got += m->put_data.bytes.n;
        }
        CHECK(got <= 50000);
        if (!CHECK(got > 0))
            break;
    }
    CHECK(peer_got(p, FR_MSG_PUT_END) != NULL);
    done.put_state.done = true;
    peer_say(p, &done);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_PUT_DONE);
    CHECK(ev != NULL && ev->ref == 9 && fr_str_is(ev->put.dir, "/home/s"));
    peer_finish(&w);
}

/* A put may begin to send while a message that fills the room stands before it, all of which the
 * link then takes at once. */
static void test_put_behind(void)
{
    static struct peer_world w;
    static char large[40000];
    struct peer *p = &w.nodes[0];
    struct fr_ship_file v = {
        .path = "h/a", .sha256 = "x", .mode = 0644, .bytes = FR_STR("abc"), .size = 3};
    struct fr_exec_member start = {.prepare = {.attempt = {{1}}, .instance = FR_STR("train")}};
    struct fr_msg state = {.type = FR_MSG_PUT_STATE}, credit = {.type = FR_MSG_CREDIT};
    struct fr_str argv = {large, sizeof(large)};
    struct fr_buf say;

    check_row("a put behind a large start");
    peer_setup(&w, 1);
    memset(large, 'q', sizeof(large));
    start.prepare.request.argv = (struct fr_strs){&argv, 1};
    credit.credit.bytes = 1000;
    CHECK(w.ex.ops->put(w.ex.self, &(struct fr_exec_put){0, 9, &v, 1}, NULL) == FR_OK);
    peer_run(&w);
    peer_say(p, &credit);
    peer_run(&w);
    CHECK(peer_got(p, FR_MSG_PUT_BEGIN) != NULL);
    CHECK(w.ex.ops->start(w.ex.self, &start, NULL) == FR_OK);
    state.put_state = (struct fr_put_state){1, 0, false, FR_STR("/home/s/h/a")};
    peer_say(p, &state);
    say = p->out; /* it comes before the start is sent */
    p->out = (struct fr_buf){0};
    p->ev.on_bytes(p->ev.arg, say.p, say.n);
    fr_buf_finish(&say);
    peer_run(&w);
    CHECK(peer_got(p, FR_MSG_PREPARE) != NULL);
    CHECK(peer_got(p, FR_MSG_PUT_DATA) != NULL && peer_got(p, FR_MSG_PUT_END) != NULL);
    peer_finish(&w);
}

static void test_get(void)
{
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    char dir[] = "/tmp/exec-test-XXXXXX", path[64], sum[FR_SHA256_TEXT];
    struct fr_msg data = {.type = FR_MSG_GET_DATA}, end = {.type = FR_MSG_GET_END};
    struct fr_buf text = {0};
    const struct fr_msg *m;
    const struct fr_exec_event *ev;
    size_t renames;

    check_row("get");
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/f", dir);
    peer_setup(&w, 1);
    sync_guard_begin(); /* a file has its name only once its bytes are safe */
    CHECK(w.ex.ops->get(w.ex.self, &(struct fr_exec_get){0, 5, "/r/f", path, 9}, NULL) == FR_OK);
    peer_run(&w);
    CHECK((m = peer_got(p, FR_MSG_GET)) != NULL && m->get.offset == 0);
    data.get_data = (struct fr_get_data){1, 0, FR_STR("hello ")};
    peer_say(p, &data);
    peer_run(&w);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1000);
    CHECK((m = peer_got(p, FR_MSG_GET)) != NULL && m->get.offset == 6);
    data.get_data = (struct fr_get_data){1, 6, FR_STR("you")};
    peer_say(p, &data);
    end.get_end = (struct fr_get_end){1, 9, 0644};
    peer_say(p, &end);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_GET_DONE);
    CHECK(ev != NULL && ev->ref == 5 && ev->get.size == 9);
    CHECK(sync_guard_end(false, &renames) == 0);
    CHECK(renames == 1);
    fr_sha256("hello you", 9, sum);
    CHECK_TEXT(ev->get.sha256, sum);
    CHECK(fr_file_read(path, 100, &text, NULL) == FR_OK && text.n == 9);
    CHECK(text.n == 9 && memcmp(text.p, "hello you", 9) == 0);
    fr_buf_finish(&text);
    check_row("get of more than is wanted");
    snprintf(path, sizeof(path), "%s/g", dir);
    CHECK(w.ex.ops->get(w.ex.self, &(struct fr_exec_get){0, 6, "/r/g", path, 8}, NULL) == FR_OK);
    peer_run(&w);
    data.get_data = (struct fr_get_data){2, 0, FR_STR("hello ")};
    peer_say(p, &data);
    data.get_data = (struct fr_get_data){2, 6, FR_STR("you")};
    peer_say(p, &data);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_FAILED);
    CHECK(ev != NULL && ev->ref == 6 && ev->err.rc == FR_USAGE);
    CHECK_TEXT(ev != NULL ? ev->err.msg : "",
               "node n: /r/g is larger than the 8 bytes that max_size allows");
    snprintf(path, sizeof(path), "%s/g.part", dir);
    CHECK(access(path, F_OK) != 0);
    CHECK((m = peer_got(p, FR_MSG_CANCEL)) != NULL && m->cancel.ref == 2);
    fr_remove_tree(dir, NULL);
    peer_finish(&w);
}

static void test_large_get(void)
{
    enum { LARGE = 9 << 20 };
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    char dir[] = "/tmp/exec-test-XXXXXX", path[64], sum[FR_SHA256_TEXT];
    struct fr_msg data = {.type = FR_MSG_GET_DATA}, end = {.type = FR_MSG_GET_END};
    char *large = calloc(1, LARGE);
    const struct fr_exec_event *ev;

    check_row("get of what is hashed in several turns");
    CHECK(large != NULL && mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/f", dir);
    peer_setup(&w, 1);
    CHECK(w.ex.ops->get(w.ex.self, &(struct fr_exec_get){0, 7, "/r/f", path, LARGE}, NULL) ==
          FR_OK);
    peer_run(&w);
    for (size_t at = 0; at < LARGE; at += data.get_data.bytes.n) {
        size_t n = LARGE - at < FR_BULK_MAX ? LARGE - at : FR_BULK_MAX;

        data.get_data = (struct fr_get_data){1, at, {large, n}};
        peer_say(p, &data);
        peer_run(&w);
    }
    end.get_end = (struct fr_get_end){1, LARGE, 0644};
    peer_say(p, &end);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_GET_DONE);
    fr_sha256(large, LARGE, sum);
    if (CHECK(ev != NULL && ev->ref == 7 && ev->get.size == LARGE))
        CHECK_TEXT(ev->get.sha256, sum);
    free(large);
    fr_remove_tree(dir, NULL);
    peer_finish(&w);
}

/* Whether a file is on the disk before it has its name: the calls, in order. */
static struct {
    char order[64];
    bool full; /* the disk */
} disk;

static void note(const char *call)
{
    size_t n = strlen(disk.order);

    snprintf(disk.order + n, sizeof(disk.order) - n, "%s ", call);
}

static int noted_sync(int fd)
{
    note("sync");
    errno = ENOSPC;
    return disk.full ? -1 : fr_sys_real.fdatasync(fd);
}

static int noted_rename(const char *from, const char *to)
{
    note("rename");
    return fr_sys_real.rename(from, to);
}

static void test_durable_get(void)
{
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    char dir[] = "/tmp/exec-test-XXXXXX", path[64], part[80];
    struct fr_msg data = {.type = FR_MSG_GET_DATA}, end = {.type = FR_MSG_GET_END};
    const struct fr_exec_event *ev;

    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/f", dir);
    snprintf(part, sizeof(part), "%s.part", path);
    for (int full = 0; full < 2; full++) {
        check_row(full ? "a full disk" : "synced before it has its name");
        disk.order[0] = '\0';
        disk.full = full;
        peer_setup(&w, 1);
        fr_sys.fdatasync = noted_sync;
        fr_sys.rename = noted_rename;
        CHECK(w.ex.ops->get(w.ex.self, &(struct fr_exec_get){0, 5, "/r/f", path, 9}, NULL) ==
              FR_OK);
        peer_run(&w);
        data.get_data = (struct fr_get_data){1, 0, FR_STR("hello you")};
        peer_say(p, &data);
        end.get_end = (struct fr_get_end){1, 9, 0644};
        peer_say(p, &end);
        peer_run(&w);
        ev = peer_event(&w, full ? FR_EXEC_FAILED : FR_EXEC_GET_DONE);
        if (CHECK(ev != NULL) && full)
            CHECK_INT(ev->err.rc, FR_FULL);
        CHECK_TEXT(disk.order, full ? "sync " : "sync rename ");
        CHECK(access(part, F_OK) != 0);
        peer_finish(&w);
        unlink(path);
    }
    fr_remove_tree(dir, NULL);
}

/* A sync that began before the last bytes came is followed by one more. */
static void test_second_sync(void)
{
    enum { LAST = (2 << 20) - 1000 };
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    char dir[] = "/tmp/exec-test-XXXXXX", path[64];
    struct fr_msg data = {.type = FR_MSG_GET_DATA}, end = {.type = FR_MSG_GET_END};
    char *large = calloc(1, FR_BULK_MAX);

    check_row("bytes that come behind a sync");
    CHECK(large != NULL && mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/f", dir);
    peer_setup(&w, 1);
    fr_sys.fdatasync = noted_sync;
    fr_sys.rename = noted_rename;
    disk.order[0] = '\0';
    disk.full = false;
    CHECK(w.ex.ops->get(w.ex.self, &(struct fr_exec_get){0, 7, "/r/f", path, 9 << 20}, NULL) ==
          FR_OK);
    peer_run(&w);
    for (size_t at = 0; at < LAST; at += data.get_data.bytes.n) {
        size_t n = LAST - at < FR_BULK_MAX ? LAST - at : FR_BULK_MAX;

        data.get_data = (struct fr_get_data){1, at, {large, n}};
        peer_say(p, &data);
        peer_run(&w);
    }
    CHECK_TEXT(disk.order, "");
    for (size_t at = LAST; at < LAST + 4000; at += 2000) { /* these and the end in one turn */
        data.get_data = (struct fr_get_data){1, at, {large, 2000}};
        peer_say(p, &data);
    }
    end.get_end = (struct fr_get_end){1, LAST + 4000, 0644};
    peer_say(p, &end);
    peer_run(&w);
    CHECK(peer_event(&w, FR_EXEC_GET_DONE) != NULL);
    CHECK_TEXT(disk.order, "sync sync rename ");
    free(large);
    peer_finish(&w);
    fr_remove_tree(dir, NULL);
}

/* What is not on the disk yet is bounded: more may come once some of it is. */
static void test_get_window(void)
{
    enum { HALF = 2 << 20, LARGE = 16 << 20 };
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    char dir[] = "/tmp/exec-test-XXXXXX", path[64];
    struct fr_msg data = {.type = FR_MSG_GET_DATA};
    char *large = calloc(1, LARGE);
    const struct fr_msg *m;
    uint64_t allowed = 0, at = 0;

    check_row("a get is allowed as much as the disk takes");
    CHECK(large != NULL && mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/f", dir);
    peer_setup(&w, 1);
    CHECK(w.ex.ops->get(w.ex.self, &(struct fr_exec_get){0, 7, "/r/f", path, LARGE}, NULL) ==
          FR_OK);
    peer_run(&w);
    if (CHECK((m = peer_got(p, FR_MSG_GET)) != NULL))
        allowed = m->get.window;
    CHECK(allowed >= HALF && allowed < LARGE);
    for (int synced = 0; at < allowed; at += data.get_data.bytes.n) {
        size_t n = allowed - at < FR_BULK_MAX ? allowed - at : FR_BULK_MAX;

        data.get_data = (struct fr_get_data){1, at, {large, n}};
        peer_say(p, &data);
        peer_run(&w);
        if ((m = peer_got(p, FR_MSG_GET_MORE)) != NULL && synced++ == 0) {
            CHECK(at + n >= HALF && m->get_more.ref == 1); /* not before that is on the disk */
            allowed += m->get_more.bytes;
            CHECK(allowed <= at + n + 2 * HALF);
        }
    }
    CHECK(peer_event(&w, FR_EXEC_FAILED) == NULL && at > 2 * HALF);
    check_row("a node that sends more than it may");
    for (int i = 0; i < 2 * HALF / FR_BULK_MAX + 1; i++) {
        data.get_data = (struct fr_get_data){1, at, {large, FR_BULK_MAX}};
        at += FR_BULK_MAX;
        peer_say(p, &data);
    }
    peer_run(&w);
    CHECK(peer_event(&w, FR_EXEC_FAILED) != NULL);
    free(large);
    peer_finish(&w);
    fr_remove_tree(dir, NULL);
}

static size_t n_ends(const struct peer_world *w)
{
    return peer_events(w, FR_EXEC_GET_DONE) + peer_events(w, FR_EXEC_FAILED);
}

/* A node that gives the file whenever it is asked, and an allocation that fails. */
static void test_get_no_memory(void)
{
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    char dir[] = "/tmp/exec-test-XXXXXX", path[64], row[40];
    struct fr_exec_get get = {0, 5, "/r/f", path, 9};
    bool failed = true;

    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/f", dir);
    for (long n = 1; failed; n++) {
        snprintf(row, sizeof(row), "allocation %ld fails", n);
        check_row(row);
        peer_setup(&w, 1);
        peer_fail(n);
        peer_engine(+1);
        while (w.ex.ops->get(w.ex.self, &get, NULL) != FR_OK)
            ;
        peer_engine(-1);
        for (int i = 0; i < 8 && n_ends(&w) == 0; i++) {
            const struct fr_msg *m;

            peer_wait(&w, 4000);
            if ((m = peer_got(p, FR_MSG_GET)) == NULL || !p->up_now)
                continue;
            struct fr_msg end = {.type = FR_MSG_GET_END, .get_end = {m->get.ref, 3, 0644}};
            struct fr_msg data = {.type = FR_MSG_GET_DATA,
                                  .get_data = {m->get.ref, 0, FR_STR("abc")}};

            if (m->get.offset == 0)
                peer_say(p, &data);
            peer_say(p, &end);
            peer_run(&w);
        }
        failed = peer_failed();
        peer_fail(0);
        CHECK_INT(n_ends(&w), 1);
        CHECK_INT(access(path, F_OK), peer_events(&w, FR_EXEC_GET_DONE) == 1 ? 0 : -1);
        peer_finish(&w);
        unlink(path);
    }
    fr_remove_tree(dir, NULL);
}

/* Credit of a connection ends with it. */
static void test_old_credit(void)
{
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    struct fr_ship_file f = {.bytes = FR_STR("aa"), .path = "h/a", .sha256 = "x", .size = 2};
    struct fr_msg go_on = {.type = FR_MSG_PUT_STATE}, credit = {.type = FR_MSG_CREDIT};

    check_row("credit of an old connection");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    credit.credit.bytes = 50000;
    peer_say(p, &credit);
    peer_run(&w);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1500);
    CHECK(w.ex.ops->put(w.ex.self, &(struct fr_exec_put){0, 9, &f, 1}, NULL) == FR_OK);
    go_on.put_state = (struct fr_put_state){1, 0, false, FR_STR("/s/h/a")};
    peer_run(&w);
    CHECK(peer_got(p, FR_MSG_PUT_BEGIN) != NULL);
    peer_say(p, &go_on);
    peer_run(&w);
    CHECK(peer_got(p, FR_MSG_PUT_DATA) == NULL);
    peer_say(p, &credit);
    peer_run(&w);
    CHECK(peer_got(p, FR_MSG_PUT_DATA) != NULL);
    peer_finish(&w);
}

/* Patterns of what is not shipped, one a line; git decides the same. */
static void test_ignore(void)
{
    static const struct {
        const char *lines, *path;
        bool out; /* want; a path that ends with a slash is a folder */
    } rows[] = {
        {"", "a", false},
        {"# a\n\n", "# a", false},
        {"a", "a", true},
        {"a", "x/a/", true},
        {"a", "aa", false},
        {"*.o", "x/y.o", true},
        {"*.o\n!keep.o", "x/keep.o", false},
        {"!keep.o\n*.o", "keep.o", true},
        {".git/", ".git/", true},
        {".git/", ".git", false},
        {"/top", "top", true},
        {"/top", "x/top", false},
        {"a/b", "a/b", true},
        {"a/b", "x/a/b", false},
        {"a/*", "a/b", true},
        {"a/*", "a/b/c", false},
        {"**/b", "b", true},
        {"**/b", "a/x/b", true},
        {"a/**", "a/b/c", true},
        {"a/**", "a/", false},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "a/x/y/c", false},
        {"**/a/**/b/**", "x/a/a/b/c", true},
        {"a/**/b/**/c", "a/b/x/b/c", true},
        {"[ab]?", "bx", true},
        {"[!ab]?", "bx", false},
        {"\\#x", "#x", true},
        {"\\!x", "!x", true},
        {"x  ", "x", true},
        {"x\r", "x", true},
        {"/", "a/", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_ignore ig = {0};
        char path[64];
        size_t n = strlen(rows[i].path);
        bool folder = rows[i].path[n - 1] == '/';

        check_row(rows[i].lines);
        snprintf(path, sizeof(path), "%.*s", (int)(n - folder), rows[i].path);
        CHECK(fr_ignore_lines(&ig, fr_str_of(rows[i].lines), &arena));
        CHECK(fr_ignored(&ig, path, folder) == rows[i].out);
        fr_arena_finish(&arena);
    }
    check_row("");
}

int main(void)
{
    test_ignore();
    test_put();
    test_put_behind();
    test_get();
    test_large_get();
    test_durable_get();
    test_second_sync();
    test_get_window();
    test_get_no_memory();
    test_old_credit();
    return check_done();
}
