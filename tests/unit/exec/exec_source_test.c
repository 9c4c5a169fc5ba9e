/* Files of this side that are shipped, on a file system that does not answer, or is slow: nothing
 * waits for it but who ships them. The clock and the threads are the test's own (exec_peer.h). */
#include "tests/unit/exec/exec_peer.h"

#include "engine/base/file.h"
#include "engine/ship/shipment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 3 << 20 };

static char dir[] = "/tmp/exec-source-XXXXXX", small_file[64], large_file[64], hash[FR_SHA256_TEXT];

static void make_files(void)
{
    char *bytes = calloc(1, LARGE);

    CHECK(bytes != NULL && mkdtemp(dir) != NULL);
    snprintf(small_file, sizeof(small_file), "%s/small", dir);
    snprintf(large_file, sizeof(large_file), "%s/large", dir);
    CHECK_INT(fr_file_write(small_file, "hello", 5, 0600, NULL), FR_OK);
    CHECK_INT(fr_file_write(large_file, bytes, LARGE, 0600, NULL), FR_OK);
    CHECK_INT(fr_sha256_file(large_file, hash, NULL), FR_OK);
    free(bytes);
}

/* ---- a put ---- */

static void begin_put(struct peer_world *w, struct fr_exec *ex, const char *local, uint64_t size)
{
    struct fr_ship_file file = {
        .local = local, .path = "h/f", .sha256 = "x", .size = size, .mode = 0644};
    struct peer *p = &w->nodes[0];
    struct fr_msg state = {.type = FR_MSG_PUT_STATE};
    const struct fr_msg *m;

    CHECK(ex->ops->put(ex->self, &(struct fr_exec_put){0, 9, &file, 1}, NULL) == FR_OK);
    peer_run(w);
    if (!CHECK((m = peer_got(p, FR_MSG_PUT_BEGIN)) != NULL))
        return;
    state.put_state = (struct fr_put_state){m->put_begin.ref, 0, false, FR_STR("/s/h/f")};
    peer_say(p, &state);
    peer_run(w);
}

static uint64_t sent(struct peer *p)
{
    const struct fr_msg *m;
    uint64_t n = 0;

    while ((m = peer_got(p, FR_MSG_PUT_DATA)) != NULL)
        n += m->put_data.bytes.n;
    return n;
}

static void test_put(void)
{
    static struct peer_world w;
    struct peer_other other;
    struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {50000}};
    struct peer *p = &w.nodes[0];
    const struct fr_exec_event *ev;

    check_row("a put whose file does not come");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    peer_join(&w, &other, w.infos, 1);
    peer_say(p, &credit);
    w.loop.hangs = true;
    begin_put(&w, &w.ex, large_file, LARGE);
    CHECK_INT(sent(p), 0);
    check_row("another run's file is sent meanwhile");
    w.loop.hangs = false;
    begin_put(&w, &other.ex, small_file, 5);
    CHECK_INT(sent(p), 5);
    CHECK(peer_event(&w, FR_EXEC_FAILED) == NULL);
    check_row("it fails in time, with its name");
    peer_wait(&w, FR_FILE_SOON_MS);
    if (CHECK((ev = peer_event(&w, FR_EXEC_FAILED)) != NULL)) {
        CHECK_INT(ev->err.rc, FR_TIMEOUT);
        CHECK(strstr(ev->err.msg, large_file) != NULL);
    }
    check_row("its thread ends later");
    peer_release(&w);
    peer_run(&w);
    CHECK_INT(sent(p), 0);
    peer_other_finish(&other);
    peer_finish(&w);
}

/* The file comes while nobody waits for it any more, or while it has to be read from elsewhere. */
static void test_put_again(void)
{
    static struct peer_world w;
    struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {50000}};
    struct fr_msg state = {.type = FR_MSG_PUT_STATE};
    struct peer *p = &w.nodes[0];
    const struct fr_msg *m;
    uint64_t from = LARGE - 100;

    check_row("the connection is lost while a file is read");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    peer_say(p, &credit);
    w.loop.hangs = true;
    begin_put(&w, &w.ex, large_file, LARGE);
    peer_cut(p, FR_IO);
    peer_wait(&w, 5000);
    w.loop.hangs = false;
    peer_release(&w);
    peer_run(&w);
    if (CHECK((m = peer_got(p, FR_MSG_PUT_BEGIN)) != NULL)) {
        state.put_state = (struct fr_put_state){m->put_begin.ref, from, false, FR_STR("/s/h/f")};
        peer_say(p, &state);
        peer_say(p, &credit);
        peer_run(&w);
    }
    if (CHECK((m = peer_got(p, FR_MSG_PUT_DATA)) != NULL)) {
        CHECK_INT(m->put_data.offset, from);
        CHECK_INT(m->put_data.bytes.n, 100);
    }
    peer_finish(&w);
    check_row("the run leaves while a file is read");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    peer_say(p, &credit);
    w.loop.hangs = true;
    begin_put(&w, &w.ex, large_file, LARGE);
    peer_finish(&w);
    if (CHECK(w.loop.hung != NULL))
        peer_release(&w);
    peer_run(&w);
}

/* A file that was hashed, and is another one when it is sent, or none. */
static void test_put_changed(void)
{
    static struct peer_world w;
    struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {50000}};
    struct fr_msg wrong = {.type = FR_MSG_ERROR};
    struct peer *p = &w.nodes[0];
    const struct fr_exec_event *ev;
    const struct fr_msg *m;

    check_row("a file with other bytes than were hashed");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    peer_say(p, &credit);
    begin_put(&w, &w.ex, small_file, 5);
    if (CHECK((m = peer_got(p, FR_MSG_PUT_DATA)) != NULL))
        wrong.error = (struct fr_error){m->put_data.ref, FR_CORRUPT, FR_STR("arrived otherwise")};
    peer_say(p, &wrong);
    peer_run(&w);
    if (CHECK((ev = peer_event(&w, FR_EXEC_FAILED)) != NULL)) {
        CHECK(strstr(ev->err.msg, small_file) != NULL);
        CHECK(strstr(ev->err.msg, "changed while it was shipped") != NULL);
        CHECK(strstr(ev->err.msg, "arrived otherwise") != NULL);
    }
    check_row("a file that is gone, and one that is a folder now: the next try may find another");
    for (int i = 0; i < 2; i++) {
        begin_put(&w, &w.ex, i == 0 ? "/nonexistent/f" : dir, 5);
        if (CHECK((ev = peer_event(&w, FR_EXEC_FAILED)) != NULL)) {
            CHECK_INT(ev->err.rc, FR_IO);
            CHECK(strstr(ev->err.msg, "changed while it was shipped") != NULL);
        }
    }
    peer_finish(&w);
}

/* ---- what is listed and hashed ---- */

static bool no_copies(void *arg, const char *path, struct fr_manifest *out)
{
    (void)arg, (void)path, (void)out;
    return true;
}

static int told;

static void on_ready(void *arg)
{
    (void)arg;
    told++;
}

static struct peer_world *turning;
static int pieces, last_piece; /* 0: all come */

/* A slow file system: each piece takes its time, in which the loop turns. */
static ssize_t read_slowly(int fd, void *p, size_t n)
{
    bool stuck = ++pieces == last_piece;

    peer_wait(turning, stuck ? 3 * FR_FILE_SOON_MS : FR_FILE_SOON_MS / 10);
    return fr_sys_real.read(fd, p, n);
}

static void test_shipment(void)
{
    static struct peer_world w;
    struct fr_arena arena = {0};
    struct fr_shipment c = {
        .arena = &arena, .loop = &w.loop.loop, .copies = no_copies, .ready = on_ready};
    struct fr_shipment_item *item;
    struct fr_err err = {0};

    check_row("a file to be shipped that does not come");
    told = 0;
    peer_setup(&w, 1);
    w.loop.hangs = true;
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_BUSY);
    check_row("another one does");
    w.loop.hangs = false;
    CHECK_INT(fr_shipment_path(&c, small_file, NULL, &item, &err), FR_BUSY);
    CHECK(!fr_shipment_due(&c));
    peer_run(&w);
    CHECK(told == 1 && fr_shipment_due(&c) && fr_shipment_step(&c));
    CHECK_INT(fr_shipment_path(&c, small_file, NULL, &item, &err), FR_OK);
    CHECK(item->manifest != NULL && item->manifest->n == 1 && item->manifest->files[0].size == 5);
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_BUSY);
    check_row("it fails in time, with its name");
    peer_wait(&w, 2 * FR_FILE_SOON_MS);
    CHECK(fr_shipment_step(&c));
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_TIMEOUT);
    CHECK(strstr(err.msg, large_file) != NULL);
    check_row("the next try reads it again");
    fr_shipment_forget(&c);
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_BUSY);
    peer_release(&w); /* that of the first try */
    peer_run(&w);
    CHECK(fr_shipment_step(&c));
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_OK);
    CHECK_TEXT(item->manifest->files[0].sha256, hash);
    fr_shipment_finish(&c);
    peer_finish(&w);
    fr_arena_finish(&arena);
}

static int reads;

static ssize_t count_reads(int fd, void *p, size_t n)
{
    reads++;
    return fr_sys_real.read(fd, p, n);
}

static int64_t later(void)
{
    return fr_sys_real.wall_ms() + 10000;
}

/* The item for what starts in that turn, which waits until it is there. */
static struct fr_shipment_item *item_in(struct peer_world *w, struct fr_shipment *c, uint64_t since)
{
    struct fr_shipment_item *item = NULL;
    struct fr_err err;

    reads = 0;
    fr_sys.read = count_reads;
    c->since = since;
    for (int i = 0; i < 9 && fr_shipment_path(c, small_file, NULL, &item, &err) == FR_BUSY; i++)
        peer_run(w);
    fr_sys.read = fr_sys_real.read;
    CHECK(fr_shipment_path(c, small_file, NULL, &item, &err) == FR_OK);
    return item;
}

static void test_changes(void)
{
    static struct peer_world w;
    struct fr_arena arena = {0};
    struct fr_shipment c = {
        .arena = &arena, .loop = &w.loop.loop, .copies = no_copies, .ready = on_ready};
    const struct fr_manifest *first, *second;
    struct fr_shipment_item *item;
    struct fr_err err;

    check_row("all starts of a turn share what was read");
    peer_setup(&w, 1);
    c.turn = 1;
    first = item_in(&w, &c, 1)->manifest;
    CHECK(reads > 0 && first->files[0].size == 5);
    CHECK(item_in(&w, &c, 1)->manifest == first && reads == 0);
    check_row("it may change a moment after it was changed");
    c.turn = 2;
    CHECK(item_in(&w, &c, 2)->manifest->files[0].size == 5 && reads > 0);
    check_row("a file that looks the same is not read again");
    fr_sys.wall_ms = later;
    c.turn = 3;
    first = item_in(&w, &c, 3)->manifest;
    c.turn = 4;
    CHECK(item_in(&w, &c, 4)->manifest == first && reads == 0);
    check_row("one that was changed meanwhile is, for who starts then");
    CHECK_INT(fr_file_write(small_file, "HELLO", 5, 0600, NULL), FR_OK);
    CHECK(item_in(&w, &c, 4)->manifest == first && reads == 0);
    c.turn = 6;
    second = item_in(&w, &c, 6)->manifest;
    CHECK(second != first && strcmp(second->hash, first->hash) != 0);
    CHECK_TEXT(first->files[0].local, second->files[0].local);
    check_row("so is one that is being read for an earlier start");
    c.turn = 7;
    c.since = 7;
    w.loop.hangs = true;
    CHECK_INT(fr_shipment_path(&c, small_file, NULL, &item, &err), FR_BUSY);
    w.loop.hangs = false;
    c.turn = c.since = 8;
    CHECK_INT(fr_shipment_path(&c, small_file, NULL, &item, &err), FR_BUSY);
    peer_release(&w);
    peer_run(&w);
    CHECK_INT(fr_shipment_path(&c, small_file, NULL, &item, &err), FR_BUSY);
    c.since = 7;
    CHECK_INT(fr_shipment_path(&c, small_file, NULL, &item, &err), FR_OK);
    fr_sys.wall_ms = fr_sys_real.wall_ms;
    fr_shipment_finish(&c);
    peer_run(&w);
    peer_finish(&w);
    fr_arena_finish(&arena);
}

static void test_slow_shipment(void)
{
    static struct peer_world w;
    struct fr_arena arena = {0};
    struct fr_shipment c = {
        .arena = &arena, .loop = &w.loop.loop, .copies = no_copies, .ready = on_ready};
    struct fr_shipment_item *item;
    struct fr_err err = {0};

    check_row("a slow one that comes in the end");
    peer_setup(&w, 1);
    w.loop.hangs = true;
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_BUSY);
    turning = &w;
    pieces = 0;
    fr_sys.read = read_slowly;
    peer_release(&w);
    fr_sys.read = fr_sys_real.read;
    peer_run(&w);
    CHECK(pieces > 10 && fr_shipment_step(&c));
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_OK);
    fr_shipment_finish(&c);
    check_row("one that stops coming in the middle");
    c.items = NULL;
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_BUSY);
    pieces = 0;
    last_piece = 20;
    fr_sys.read = read_slowly;
    peer_release(&w);
    fr_sys.read = fr_sys_real.read;
    peer_run(&w);
    CHECK(fr_shipment_step(&c));
    CHECK_INT(fr_shipment_path(&c, large_file, NULL, &item, &err), FR_TIMEOUT);
    check_row("a run that leaves what is being hashed");
    CHECK_INT(fr_shipment_path(&c, small_file, NULL, &item, &err), FR_BUSY);
    fr_shipment_finish(&c);
    peer_release(&w);
    peer_run(&w);
    peer_finish(&w);
    fr_arena_finish(&arena);
}

int main(void)
{
    make_files();
    test_put();
    test_put_again();
    test_put_changed();
    test_shipment();
    test_changes();
    test_slow_shipment();
    fr_remove_tree(dir, NULL);
    return check_done();
}
