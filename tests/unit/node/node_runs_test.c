/*
 * Several runs over one connection to a node: whose connection it is, whom a newer one ends, whose
 * leases a renewal reaches, in which order bulk bytes of runs are sent, and what is left when one
 * of them leaves.
 */
#include "engine/supervise/home.h"
#include "engine/supervise/journal.h"
#include "engine/supervise/table.h"
#include "tests/unit/node/node_client.h"

#include <stdio.h>
#include <sys/mman.h>

static char home[] = "/tmp/node_runs.XXXXXX";
static const struct fr_id STORE = {{0x51}}, OTHER_STORE = {{0x52}};
static const struct fr_id ONE = {{1}}, TWO = {{2}};            /* runs */
static const struct fr_id FIRST = {{0xc1}}, SECOND = {{0xc2}}; /* channels */

static struct client open_channel(struct fr_id store, struct fr_id channel, uint64_t epoch)
{
    struct client_args a = {
        .home = home, .self = "flownode", .epoch = epoch, .store = store, .channel = channel};

    return client_begin(&a);
}

/* Whether the connection is still listened to. */
static bool is_heard(struct client *c)
{
    struct fr_msg f = {.type = FR_MSG_FACTS, .facts = {5}}, m;

    client_send(c, &f);
    while ((m = client_next(c)).type != FR_MSG_FACTS_ARE && m.type != 0)
        if (m.type == FR_MSG_ERROR)
            CHECK_INT(m.error.rc, FR_BUSY);
    return m.type == FR_MSG_FACTS_ARE;
}

/* Channels of one process do not end each other; a newer connection of a channel, or of a newer
 * process, ends the older ones. */
static void test_fences(void)
{
    const uint64_t first = 1ULL << 32, second = 2ULL << 32;
    struct client a, b, c, d, e;

    check_row("two channels of a process");
    a = open_channel(STORE, FIRST, first + 1);
    b = open_channel(STORE, SECOND, first + 2);
    CHECK(is_heard(&a) && is_heard(&b));
    check_row("a newer connection of a channel");
    c = open_channel(STORE, FIRST, first + 3);
    CHECK(is_heard(&c) && is_heard(&b) && !is_heard(&a));
    CHECK_INT(client_close(&a, false), 1);
    a = open_channel(STORE, FIRST, first + 1); /* by a frame that was long under way */
    CHECK(!is_heard(&a));
    CHECK_INT(client_close(&a, false), 1);
    check_row("another store's");
    d = open_channel(OTHER_STORE, (struct fr_id){{3}}, 1);
    CHECK(is_heard(&d) && is_heard(&c));
    check_row("a newer process");
    e = open_channel(STORE, (struct fr_id){{4}}, second + 1);
    CHECK(is_heard(&e) && is_heard(&d) && !is_heard(&b) && !is_heard(&c));
    CHECK_INT(client_close(&b, false), 1);
    CHECK_INT(client_close(&c, false), 1);
    check_row("an older process, by a new channel");
    b = open_channel(STORE, (struct fr_id){{5}}, first + 9);
    CHECK(!is_heard(&b));
    CHECK_INT(client_close(&b, false), 1);
    CHECK_INT(client_close(&e, false), 0); /* which has a copy of d's end of the pipe */
    CHECK_INT(client_close(&d, false), 0);
}

/* A connection of protocol 1 fenced by run: one of a run that joins here is heard no more. */
static void test_older(void)
{
    struct fr_node_home h = {.journal = -1, .lock = -1};
    struct fr_rec rec = {.kind = FR_REC_EPOCH, .run = ONE, .epoch = (9ULL << 32) + 1};
    struct fr_table t = {0};
    struct client c;

    check_row("a run of an older flowrun");
    CHECK(fr_home_open(&h, home, NULL) == FR_OK);
    CHECK(fr_journal_append(h.journal, &rec, NULL) == FR_OK);
    c = open_channel(STORE, FIRST, 3ULL << 32);
    client_join(&c, ONE);
    client_join(&c, TWO);
    CHECK(is_heard(&c));
    CHECK_INT(client_close(&c, false), 0);
    CHECK(fr_table_read(&t, h.journal, NULL) == FR_OK);
    const struct fr_fence *f = fr_table_fence(&t, ONE);
    CHECK(f != NULL && f->epoch == UINT64_MAX);
    CHECK(fr_table_fence(&t, TWO) == NULL || fr_table_fence(&t, TWO)->epoch < UINT64_MAX);
    fr_table_finish(&t);
    fr_home_close(&h);
}

static struct fr_msg prepare_of(struct fr_id run, struct fr_str words[3], const char *script)
{
    struct fr_msg m = sh_prepare(words, script, true);

    m.prepare.run = run;
    return m;
}

/* All that can be sent is known before there is credit for any of it. */
static void test_bulk(void)
{
    enum { FILE_BYTES = 1 << 20, LOG_BYTES = 500000 };
    struct client_args a = {.home = home,
                            .self = "flownode",
                            .epoch = 4ULL << 32,
                            .store = STORE,
                            .channel = FIRST,
                            .no_credit = true};
    struct fr_msg m = {.type = FR_MSG_CREDIT, .credit = {4 << 20}}, task;
    struct fr_str words[3];
    char path[100], *big = calloc(1, FILE_BYTES);
    size_t files[3] = {0}, logs = 0;
    uint64_t bytes = 0;
    struct client c = client_begin(&a);

    check_row("large files of one run, and the log of another");
    snprintf(path, sizeof(path), "%s/big", home);
    CHECK(big != NULL && fr_file_write(path, big, FILE_BYTES, 0600, NULL) == FR_OK);
    task = prepare_of(TWO, words, "head -c 500000 /dev/zero");
    client_send(&c, &task);
    client_expect(&c, FR_MSG_ENDED, task.prepare.attempt);
    client_join(&c, ONE);
    for (uint64_t ref = 1; ref <= 2; ref++) {
        struct fr_msg get = {.type = FR_MSG_GET, .get = {ref, FR_STR("big"), 0, 0, ONE}};

        client_send(&c, &get);
    }
    client_attach(&c, task.prepare.attempt, 0);
    client_send(&c, &m);
    while (bytes < LOG_BYTES && !c.closed) {
        m = client_next(&c);
        if (m.type == FR_MSG_GET_DATA && CHECK(m.get_data.ref <= 2))
            files[m.get_data.ref]++;
        logs += m.type == FR_MSG_LOG;
        bytes += m.type == FR_MSG_LOG ? m.log.bytes.n : 0;
        CHECK(files[1] + files[2] <= logs + 1); /* the log waits for one message at a time */
        CHECK(files[1] <= files[2] + 1 && files[2] <= files[1] + 1);
    }
    CHECK(files[1] + files[2] + 1 >= logs && logs > 30); /* nor do the files wait for longer */
    CHECK_INT(client_close(&c, false), 0);
    free(big);
}

static int64_t *boot; /* the clock of leases, which the supervisors see, too */

static int64_t shared_boot(void)
{
    return __atomic_load_n(boot, __ATOMIC_SEQ_CST);
}

static void set_boot(int64_t ms)
{
    __atomic_store_n(boot, ms, __ATOMIC_SEQ_CST);
}

/* A renewal is of one run: the other's lease ends. */
static void test_lease(void)
{
    struct fr_msg m[2], lease = {.type = FR_MSG_LEASE, .lease = {8, ONE}};
    struct fr_str words[2][3];
    struct client c;

    check_row("a renewal of one run");
    set_boot(5000);
    fr_sys.boot_ms = shared_boot;
    c = open_channel(STORE, FIRST, 5ULL << 32);
    fr_sys = fr_sys_real;
    for (int i = 0; i < 2; i++) {
        m[i] = prepare_of(i == 0 ? ONE : TWO, words[i], "exec sleep 1000");
        m[i].prepare.request.lease_ms = 1000;
        client_send(&c, &m[i]);
        client_expect(&c, FR_MSG_LAUNCHED, m[i].prepare.attempt);
    }
    set_boot(5900);
    client_send(&c, &lease);
    struct fr_leased l = client_expect(&c, FR_MSG_LEASED, any).leased;
    CHECK(l.ref == 8 && l.boot_ms == 5900 && fr_id_eq(l.run, ONE));
    set_boot(6500);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, any).ended;
    CHECK(e.cause == FR_END_NODE_LOST && fr_id_eq(e.attempt, m[1].prepare.attempt));
    CHECK_INT(client_status(&c, m[0].prepare.attempt), FR_AT_RUNNING);
    client_stop(&c, m[0].prepare.attempt, 0);
    e = client_expect(&c, FR_MSG_ENDED, m[0].prepare.attempt).ended;
    CHECK_INT(e.cause, FR_END_STOPPED);
    CHECK_INT(client_close(&c, false), 0);
}

/* Whether a flowrun drives the run here, by its lock. */
static bool is_driven(struct fr_id run)
{
    return fr_home_run_driven(home, run);
}

/* Of a run that has left nothing is said or sent; its attempts go on, and are found again. */
static void test_leave(void)
{
    struct client_args a = {.home = home,
                            .self = "flownode",
                            .epoch = 6ULL << 32,
                            .store = STORE,
                            .channel = FIRST,
                            .no_credit = true};
    struct fr_msg m[2], leave = {.type = FR_MSG_LEAVE, .leave = {ONE}}, got;
    struct fr_msg get = {.type = FR_MSG_GET, .get = {1, FR_STR("big"), 0, 0, ONE}};
    struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {1 << 20}};
    struct fr_msg facts = {.type = FR_MSG_FACTS, .facts = {99}};
    struct fr_str words[2][3];
    struct client c = client_begin(&a);

    check_row("a run leaves");
    for (int i = 0; i < 2; i++) {
        m[i] = prepare_of(i == 0 ? ONE : TWO, words[i], "echo up; exec sleep 1000");
        client_send(&c, &m[i]);
        client_expect(&c, FR_MSG_LAUNCHED, m[i].prepare.attempt);
        client_attach(&c, m[i].prepare.attempt, 0);
    }
    client_send(&c, &get);
    CHECK_INT(client_status(&c, m[1].prepare.attempt), FR_AT_RUNNING);
    CHECK(is_driven(ONE) && is_driven(TWO));
    client_send(&c, &leave);
    client_send(&c, &credit);
    client_send(&c, &facts);
    for (int i = 0; i < 2; i++) { /* the facts, and the log of the other run */
        got = client_next(&c);
        CHECK(got.type == FR_MSG_FACTS_ARE ||
              (got.type == FR_MSG_LOG && fr_id_eq(got.log.attempt, m[1].prepare.attempt)));
    }
    CHECK(!is_driven(ONE) && is_driven(TWO));
    CHECK_INT(processes_of(m[0].prepare.attempt), 1);
    check_row("and comes again");
    client_join(&c, ONE);
    client_attach(&c, m[0].prepare.attempt, 0);
    got = client_expect(&c, FR_MSG_STATE, m[0].prepare.attempt);
    CHECK_INT(got.state.status, FR_AT_RUNNING);
    client_expect(&c, FR_MSG_LOG, m[0].prepare.attempt);
    CHECK(is_driven(ONE));
    for (int i = 0; i < 2; i++) {
        client_stop(&c, m[i].prepare.attempt, 0);
        client_expect(&c, FR_MSG_ENDED, m[i].prepare.attempt);
    }
    CHECK_INT(client_close(&c, false), 0);
    CHECK(!is_driven(ONE) && !is_driven(TWO));
}

/* What the engine could not take is sent no further; other files are. */
static void test_cancel(void)
{
    struct client_args a = {.home = home,
                            .self = "flownode",
                            .epoch = 7ULL << 32,
                            .store = STORE,
                            .channel = FIRST,
                            .no_credit = true};
    struct fr_msg cancel = {.type = FR_MSG_CANCEL, .cancel = {1}}, got;
    struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {4 << 20}};
    struct client c = client_begin(&a);

    check_row("a get that is cancelled");
    client_join(&c, ONE);
    for (uint64_t ref = 1; ref <= 2; ref++) {
        struct fr_msg get = {.type = FR_MSG_GET, .get = {ref, FR_STR("big"), 0, 0, ONE}};

        client_send(&c, &get);
    }
    client_send(&c, &cancel);
    client_send(&c, &credit);
    while ((got = client_next(&c)).type != FR_MSG_GET_END && !c.closed)
        CHECK(got.type == FR_MSG_CREDIT || (got.type == FR_MSG_GET_DATA && got.get_data.ref == 2));
    CHECK_INT(got.get_end.ref, 2);
    CHECK_INT(client_close(&c, false), 0);
}

/* So many bytes come, and no more: what is asked behind them, twice, is answered first. */
static void expect_bytes(struct client *c, size_t n)
{
    struct fr_msg got, facts = {.type = FR_MSG_FACTS, .facts = {9}};
    size_t came = 0;

    for (int answers = 0; answers < 2 && !c->closed;) {
        if (came >= n)
            client_send(c, &facts);
        got = client_next(c);
        came += got.type == FR_MSG_GET_DATA ? got.get_data.bytes.n : 0;
        answers += got.type == FR_MSG_FACTS_ARE;
    }
    CHECK_INT(came, n);
}

/* A get sends as much as it may, and goes on when it may send more. */
static void test_window(void)
{
    struct client c = open_channel(STORE, FIRST, 9ULL << 32);
    struct fr_msg get = {.type = FR_MSG_GET, .get = {1, FR_STR("big"), 0, 100, ONE}};
    struct fr_msg more = {.type = FR_MSG_GET_MORE, .get_more = {1, 50}};

    check_row("a get with a window");
    client_join(&c, ONE);
    client_send(&c, &get);
    expect_bytes(&c, 100);
    more.get_more.ref = 2;
    client_send(&c, &more); /* of none */
    expect_bytes(&c, 0);
    more.get_more.ref = 1;
    client_send(&c, &more);
    expect_bytes(&c, 50);
    CHECK_INT(client_close(&c, false), 0);
}

/* A start for a run that has not joined is refused. */
static void test_stranger(void)
{
    struct client c = open_channel(STORE, FIRST, 8ULL << 32);
    struct fr_str words[3];
    struct fr_msg m = prepare_of(ONE, words, "true"),
                  leave = {.type = FR_MSG_LEAVE, .leave = {ONE}};
    struct fr_buf b = {0};

    check_row("a run that has not joined");
    client_send(&c, &leave); /* changes nothing */
    CHECK(fr_msg_put(&m, &b, NULL) == FR_OK);
    CHECK(fr_write_full(c.to, b.p, b.n));
    fr_buf_finish(&b);
    CHECK_INT(client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared.rc, FR_PROTO);
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_UNKNOWN);
    CHECK_INT(client_close(&c, false), 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    CHECK(mkdtemp(home) != NULL);
    boot = mmap(NULL, sizeof(*boot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(boot != MAP_FAILED);
    test_fences();
    test_older();
    test_bulk();
    test_lease();
    test_leave();
    test_cancel();
    test_stranger();
    test_window();
    CHECK(fr_remove_tree(home, NULL) == FR_OK);
    return check_done();
}
