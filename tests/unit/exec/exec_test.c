/*
 * What the node executor tells a node of attempts, and takes from it: starts, gangs, logs,
 * questions, each until it is answered, whatever becomes of the link, and when memory is short. The
 * nodes are the test's own (exec_peer.h).
 */
#include "tests/unit/exec/exec_peer.h"

static const struct fr_id A = {{0xa}}, B = {{0xb}};

static struct fr_exec_member member(size_t node, struct fr_id attempt)
{
    struct fr_exec_member m = {.node = node};

    m.prepare.attempt = attempt;
    m.prepare.instance = FR_STR("train");
    m.prepare.spec_hash = FR_STR("h");
    m.prepare.generation = 2;
    m.prepare.request.port = FR_PORT_NONE;
    return m;
}

static void say_state(struct peer *p, struct fr_id id, enum fr_attempt_status status)
{
    struct fr_msg m = {.type = FR_MSG_STATE, .state = {.attempt = id, .status = status}};

    peer_say(p, &m);
}

static void say_log(struct peer *p, uint64_t offset, const char *text)
{
    struct fr_msg m = {.type = FR_MSG_LOG, .log = {A, offset, 5, fr_str_of(text)}};

    peer_say(p, &m);
}

static void test_start_again(void)
{
    static struct peer_world w;
    struct fr_exec_member mb = member(0, A);
    struct peer *p = &w.nodes[0];
    const struct fr_msg *m;

    check_row("a start is sent again until it is answered");
    peer_setup(&w, 1);
    CHECK(w.ex.ops->start(w.ex.self, &mb, NULL) == FR_OK);
    peer_run(&w);
    m = peer_got(p, FR_MSG_PREPARE);
    CHECK(m != NULL && m->prepare.go_now && m->prepare.generation == 2);
    CHECK(peer_event(&w, FR_EXEC_UP) != NULL);
    peer_cut(p, FR_UNREACHABLE);
    CHECK(peer_event(&w, FR_EXEC_DOWN) != NULL);
    peer_wait(&w, 1000);
    CHECK(peer_event(&w, FR_EXEC_UP) != NULL);
    CHECK(peer_got(p, FR_MSG_PREPARE) != NULL);
    CHECK_INT(p->epoch, (3LL << 32) + 2);
    say_state(p, A, FR_AT_PREPARED); /* not launched yet: still wanted, and no reason to start it
                                        once more */
    peer_run(&w);
    CHECK_INT(peer_events(&w, FR_EXEC_STATE), 0);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 2000);
    CHECK(peer_got(p, FR_MSG_PREPARE) != NULL);
    say_state(p, A, FR_AT_RUNNING);
    peer_run(&w);
    CHECK(peer_event(&w, FR_EXEC_STATE) != NULL);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 4000);
    CHECK(p->up_now && peer_got(p, FR_MSG_PREPARE) == NULL);
    peer_finish(&w);
}

static void test_reboot(void)
{
    static struct peer_world w;
    struct fr_exec_member mb = member(0, A);
    struct peer *p = &w.nodes[0];

    check_row("a start is not sent again after a reboot");
    peer_setup(&w, 1);
    CHECK(w.ex.ops->start(w.ex.self, &mb, NULL) == FR_OK);
    peer_run(&w);
    CHECK(peer_got(p, FR_MSG_PREPARE) != NULL);
    p->boot = "boot-2";
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1000);
    CHECK(p->n_got == 1 && peer_got(p, FR_MSG_QUERY) != NULL);
    say_state(p, A, FR_AT_UNKNOWN);
    peer_run(&w);
    CHECK_INT(peer_events(&w, FR_EXEC_STATE), 1);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 2000);
    CHECK(p->up_now && p->n_got == 0);
    peer_finish(&w);
}

static void test_gang(void)
{
    static struct peer_world w;
    struct fr_exec_member v[2] = {member(0, A), member(1, B)};
    struct fr_str env = FR_STR("MASTER_ADDR=10.0.0.1");
    struct fr_msg ok = {.type = FR_MSG_PREPARED, .prepared = {.attempt = A, .port = 39500}};
    struct fr_msg no = {.type = FR_MSG_PREPARED};
    const struct fr_exec_event *ev;
    const struct fr_msg *m;

    check_row("prepare, then go");
    peer_setup(&w, 2);
    for (int i = 0; i < 2; i++)
        CHECK(w.ex.ops->prepare(w.ex.self, &v[i], NULL) == FR_OK);
    peer_run(&w);
    CHECK((m = peer_got(&w.nodes[0], FR_MSG_PREPARE)) != NULL && !m->prepare.go_now);
    CHECK(peer_got(&w.nodes[1], FR_MSG_PREPARE) != NULL);
    peer_say(&w.nodes[0], &ok);
    no.prepared = (struct fr_prepared){B, FR_BUSY, FR_STR("port 39500 is held by pid 7"), 0};
    peer_say(&w.nodes[1], &no);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_PREPARED);
    CHECK(ev != NULL && fr_id_eq(ev->attempt, A) && ev->prepared.port == 39500);
    ev = peer_event(&w, FR_EXEC_PREPARED);
    CHECK(ev != NULL && ev->node == 1 && ev->prepared.rc == FR_BUSY && ev->prepared.text.n > 0);
    v[0].go_env = (struct fr_strs){&env, 1};
    CHECK(w.ex.ops->go(w.ex.self, &v[0], NULL) == FR_OK);
    peer_run(&w);
    m = peer_got(&w.nodes[0], FR_MSG_GO);
    CHECK(m != NULL && m->go.env.n == 1 && fr_str_is(m->go.env.v[0], "MASTER_ADDR=10.0.0.1"));
    CHECK(peer_got(&w.nodes[1], FR_MSG_GO) == NULL);
    peer_finish(&w);
}

static void say_ended(struct peer *p, uint64_t log_bytes)
{
    struct fr_msg m = {.type = FR_MSG_ENDED};

    m.ended = (struct fr_ended){
        .attempt = A, .cause = FR_END_EXIT, .launched = true, .log_bytes = log_bytes};
    peer_say(p, &m);
}

static void test_log(void)
{
    static struct peer_world w;
    struct fr_exec_attempt a = {0, A};
    struct peer *p = &w.nodes[0];
    const struct fr_exec_event *ev;
    const struct fr_msg *m;

    check_row("a log is followed over lost connections");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){.log = 3}, NULL) == FR_OK);
    peer_run(&w);
    CHECK((m = peer_got(p, FR_MSG_ATTACH)) != NULL && m->attach.offset == 3);
    say_state(p, A, FR_AT_RUNNING);
    say_log(p, 3, "defg");
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_LOG);
    CHECK(ev != NULL && ev->log.offset == 3 && fr_str_is(ev->log.bytes, "defg"));
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1000);
    CHECK((m = peer_got(p, FR_MSG_ATTACH)) != NULL && m->attach.offset == 7);
    say_ended(p, 12);      /* control runs ahead of bulk */
    say_log(p, 5, "fghi"); /* overlaps */
    say_log(p, 5, "fg");   /* old */
    say_log(p, 9, "jkl");
    peer_run(&w);
    CHECK(peer_event(&w, FR_EXEC_ENDED) != NULL);
    CHECK_INT(peer_events(&w, FR_EXEC_LOG), 2);
    ev = peer_event(&w, FR_EXEC_LOG);
    CHECK(ev != NULL && ev->log.offset == 7 && fr_str_is(ev->log.bytes, "hi"));
    ev = peer_event(&w, FR_EXEC_LOG);
    CHECK(ev != NULL && ev->log.offset == 9 && fr_str_is(ev->log.bytes, "jkl"));
    CHECK(peer_event(&w, FR_EXEC_LOG_END) != NULL);
    CHECK(w.ex.ops->ack_end(w.ex.self, a, NULL) == FR_OK);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1500);
    CHECK(peer_got(p, FR_MSG_ACK_END) != NULL && peer_got(p, FR_MSG_ATTACH) == NULL);
    peer_wait(&w, 5000); /* a ping after it was answered: it did arrive */
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 5000);
    CHECK(p->up_now && peer_got(p, FR_MSG_ACK_END) == NULL);
    peer_finish(&w);
}

static void say_metrics(struct peer *p, uint64_t offset, const char *text)
{
    struct fr_msg m = {.type = FR_MSG_METRICS, .metrics = {A, offset, fr_str_of(text)}};

    peer_say(p, &m);
}

static void test_metrics(void)
{
    static struct peer_world w;
    struct fr_msg ended = {.type = FR_MSG_ENDED};
    struct fr_exec_attempt a = {0, A};
    struct peer *p = &w.nodes[0];
    const struct fr_exec_event *ev;
    const struct fr_msg *m;

    check_row("metrics are followed over lost connections, and awaited");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){.metrics = 3}, NULL) == FR_OK);
    peer_run(&w);
    m = peer_got(p, FR_MSG_ATTACH);
    CHECK(m != NULL && m->attach.metrics && m->attach.metrics_at == 3 && m->attach.offset == 0);
    say_metrics(p, 1, "bcdef");
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_METRICS);
    CHECK(ev != NULL && ev->metrics.offset == 3 && fr_str_is(ev->metrics.bytes, "def"));
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1000);
    CHECK((m = peer_got(p, FR_MSG_ATTACH)) != NULL && m->attach.metrics_at == 6);
    ended.ended = (struct fr_ended){.attempt = A, .cause = FR_END_EXIT, .metrics_bytes = 8};
    peer_say(p, &ended);
    say_metrics(p, 3, "def");
    peer_run(&w);
    CHECK_INT(peer_events(&w, FR_EXEC_METRICS), 0);
    CHECK(peer_event(&w, FR_EXEC_ENDED) != NULL && peer_event(&w, FR_EXEC_LOG_END) == NULL);
    say_metrics(p, 6, "gh");
    peer_run(&w);
    CHECK_INT(peer_events(&w, FR_EXEC_METRICS), 1);
    CHECK(peer_event(&w, FR_EXEC_LOG_END) != NULL);
    say_metrics(p, 9, "j");
    peer_run(&w);
    CHECK(peer_event(&w, FR_EXEC_DOWN) == NULL); /* nobody follows it any more */
    peer_finish(&w);
}

static void test_gap(void)
{
    static struct peer_world w;
    struct fr_err err = {0};
    struct fr_exec_attempt a = {0, A};
    const struct fr_exec_event *ev;

    check_row("a gap in a log ends the connection, not the log");
    for (uint64_t at = 1; at <= 4; at += 3) {
        char want[80];

        peer_setup(&w, 1);
        peer_connect(&w, 0);
        CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){0}, &err) == FR_OK);
        say_log(&w.nodes[0], at, "x");
        peer_run(&w);
        ev = peer_event(&w, FR_EXEC_DOWN);
        CHECK(ev != NULL && ev->err.rc == FR_PROTO && ev->down.retry_ms > 0);
        snprintf(want, sizeof(want), "node n: log goes on at byte %d, but only 0 came before",
                 (int)at);
        CHECK_TEXT(ev != NULL ? ev->err.msg : "", want);
        peer_finish(&w);
    }
}

/* What is to stop, or never to start, is not started by the next connection first. */
static void test_replaced(void)
{
    static struct peer_world w;
    struct fr_exec_member mb = member(0, A), other = member(0, B);
    struct fr_exec_attempt a = {0, A};

    for (int stop = 0; stop < 2; stop++) {
        check_row(stop ? "a stop replaces a queued start" : "a tombstone replaces a queued start");
        peer_setup(&w, 1);
        CHECK(w.ex.ops->start(w.ex.self, &mb, NULL) == FR_OK);
        CHECK(w.ex.ops->start(w.ex.self, &other, NULL) == FR_OK);
        CHECK((stop ? w.ex.ops->stop(w.ex.self, a, 5, 0, NULL)
                    : w.ex.ops->tombstone(w.ex.self, a, NULL)) == FR_OK);
        peer_run(&w);
        const struct fr_msg *m = peer_got(&w.nodes[0], FR_MSG_PREPARE);
        CHECK(m != NULL && fr_id_eq(m->prepare.attempt, B));
        CHECK(peer_got(&w.nodes[0], stop ? FR_MSG_STOP : FR_MSG_TOMBSTONE) != NULL);
        CHECK(peer_got(&w.nodes[0], FR_MSG_PREPARE) == NULL);
        peer_finish(&w);
    }
}

/* A pong proves what was sent before its ping, and nothing later. */
static void test_old_pong(void)
{
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    struct fr_msg pong = {.type = FR_MSG_PONG};
    struct fr_exec_attempt a = {0, A};

    check_row("a pong for a ping before the acknowledgement");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    peer_wait(&w, 1000);
    pong.pong = (struct fr_pong){fr_sys.mono_ms(), 1, 1};
    peer_wait(&w, 1000);
    CHECK(w.ex.ops->ack_end(w.ex.self, a, NULL) == FR_OK);
    peer_run(&w);
    CHECK(peer_got(p, FR_MSG_ACK_END) != NULL);
    peer_say(p, &pong);
    peer_run(&w);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1500);
    CHECK(peer_got(p, FR_MSG_ACK_END) != NULL);
    peer_finish(&w);
}

/* The first window of a connection is 32 KiB: a byte more ends it. */
static void test_over_credit(void)
{
    static struct peer_world w;
    static char piece[(32 << 10) + 2];
    struct fr_exec_attempt a = {0, A};

    for (int over = 0; over < 2; over++) {
        check_row(over ? "a byte more than was allowed" : "all that was allowed");
        peer_setup(&w, 1);
        peer_connect(&w, 0);
        CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){0}, NULL) == FR_OK);
        memset(piece, 'l', sizeof(piece));
        piece[(32 << 10) + over] = '\0';
        say_log(&w.nodes[0], 0, piece);
        peer_run(&w);
        CHECK_INT(peer_events(&w, FR_EXEC_DOWN), over);
        peer_finish(&w);
    }
}

static void test_questions(void)
{
    static struct peer_world w;
    struct fr_err err = {0};
    struct fr_exec_attempt a = {0, A};
    struct peer *p = &w.nodes[0];
    struct fr_msg refused = {.type = FR_MSG_ERROR};
    const struct fr_exec_event *ev;

    check_row("query, tombstone, facts");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){0}, &err) == FR_OK);
    CHECK(w.ex.ops->query(w.ex.self, &a, 1, &err) == FR_OK);
    CHECK(w.ex.ops->tombstone(w.ex.self, a, &err) == FR_OK);
    CHECK(w.ex.ops->facts(w.ex.self, 0, 71, &err) == FR_OK);
    CHECK(w.ex.ops->facts(w.ex.self, 0, 72, &err) == FR_OK);
    peer_run(&w);
    say_state(p, A, FR_AT_UNKNOWN); /* the query's: the log is still followed */
    refused.error = (struct fr_error){2, FR_NOTFOUND, FR_STR("no facts here")};
    peer_say(p, &refused);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_STATE);
    CHECK(ev != NULL && ev->state.status == FR_AT_UNKNOWN);
    ev = peer_event(&w, FR_EXEC_FAILED);
    CHECK(ev != NULL && ev->ref == 72 && ev->err.rc == FR_NOTFOUND);
    CHECK_TEXT(ev->err.msg, "node n: no facts here");
    p->n_got = 0;
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1000);
    CHECK(peer_got(p, FR_MSG_QUERY) == NULL);
    CHECK(peer_got(p, FR_MSG_TOMBSTONE) != NULL);
    CHECK(peer_got(p, FR_MSG_FACTS) != NULL);
    CHECK(peer_got(p, FR_MSG_ATTACH) != NULL);
    peer_finish(&w);
}

static void test_credit(void)
{
    static struct peer_world w;
    static char piece[16001];
    struct peer *p = &w.nodes[0];
    struct fr_exec_attempt a = {0, A};
    uint64_t at = 0;

    check_row("credit for a log: never short for long, never too much");
    peer_setup(&w, 1);
    memset(piece, 'l', sizeof(piece) - 1);
    peer_connect(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){0}, NULL) == FR_OK);
    for (int i = 0; i < 2000; i++) {
        if (i % 10 == 0)
            peer_wait(&w, 20);
        if (!CHECK(p->credit >= sizeof(piece) - 1))
            break;
        say_log(p, at, piece);
        at += sizeof(piece) - 1;
        peer_run(&w);
    }
    CHECK(p->credit_max <= FR_CREDIT_MAX);
    CHECK(p->credit_max >= FR_CREDIT_MAX / 2);
    peer_finish(&w);
}

/* A log in two pieces: how often the engine answered the first. */
static int answers_to_a_piece(struct peer_world *w)
{
    struct peer *p = &w->nodes[0];
    struct fr_msg m = {.type = FR_MSG_LOG, .log = {A, 0, 0, FR_STR("all of it")}};
    struct fr_exec_attempt a = {0, A};
    struct fr_buf b = {0};
    int before;

    peer_connect(w, 0);
    CHECK(w->ex.ops->attach(w->ex.self, a, (struct fr_exec_have){0}, NULL) == FR_OK);
    peer_run(w);
    before = p->answers;
    CHECK(fr_msg_put(&m, &b, NULL) == FR_OK);
    fr_buf_add(&p->out, b.p, b.n / 2);
    peer_run(w);
    CHECK_INT(peer_events(w, FR_EXEC_LOG), 0);
    before = p->answers - before;
    fr_buf_add(&p->out, b.p + b.n / 2, b.n - b.n / 2);
    peer_run(w);
    CHECK_INT(peer_events(w, FR_EXEC_LOG), 1);
    fr_buf_finish(&b);
    peer_finish(w);
    return before;
}

static void test_pieces(void)
{
    static struct peer_world w;

    check_row("a piece of a message that srun brings is answered, no other");
    peer_setup_place(&w);
    CHECK_INT(answers_to_a_piece(&w), 1);
    peer_setup(&w, 1);
    CHECK_INT(answers_to_a_piece(&w), 0);
}

/* A place of which an end was acknowledged a moment before it is nowhere. */
static void begin_leave(struct peer_world *w, int64_t linger_ms)
{
    peer_linger(linger_ms);
    peer_setup_place(w);
    peer_linger(0);
    peer_connect(w, 0);
    peer_wait(w, 1000);
    w->nodes[0].silent = true;
    CHECK(w->ex.ops->ack_end(w->ex.self, (struct fr_exec_attempt){0, A}, NULL) == FR_OK);
    w->nowhere = true;
    fr_nodes_moved(w->all);
}

static void test_leave(void)
{
    static struct peer_world w;
    struct peer *p = &w.nodes[0];

    check_row("a place is left once it has the acknowledgements on their way");
    begin_leave(&w, 0);
    peer_wait(&w, 2000);
    CHECK(p->open && peer_event(&w, FR_EXEC_DOWN) == NULL);
    p->silent = false; /* what it was sent meanwhile is lost, and not answered */
    peer_wait(&w, 100);
    CHECK(!p->open && peer_event(&w, FR_EXEC_DOWN) != NULL);
    peer_finish(&w);

    check_row("also when its run has left");
    begin_leave(&w, 60000);
    fr_exec_destroy(&w.ex);
    peer_wait(&w, 2000);
    CHECK(p->open);
    p->silent = false;
    peer_wait(&w, 100);
    CHECK(!p->open);
    peer_finish(&w);

    check_row("one that does not answer is left all the same");
    begin_leave(&w, 0);
    peer_wait(&w, 6000);
    CHECK(!p->open && peer_event(&w, FR_EXEC_DOWN) != NULL);
    peer_finish(&w);

    check_row("one that is there again is not");
    begin_leave(&w, 0);
    w.nowhere = p->silent = false;
    peer_wait(&w, 9000);
    CHECK(p->open && peer_event(&w, FR_EXEC_DOWN) == NULL);
    peer_finish(&w);

    check_row("without any on their way it is left at once");
    peer_setup_place(&w);
    peer_connect(&w, 0);
    w.nowhere = true;
    fr_nodes_moved(w.all);
    CHECK(!p->open);
    peer_finish(&w);
}

/* A command is given until it is taken. */
#define INSIST(call)                                                                               \
    do {                                                                                           \
        peer_engine(+1);                                                                           \
        while ((call) != FR_OK)                                                                    \
            ;                                                                                      \
        peer_engine(-1);                                                                           \
    } while (0)

/* One attempt from start to its last byte, on a node that does what it is told. */
static void run_attempt(struct peer_world *w)
{
    struct fr_exec_member mb = member(0, A);
    struct fr_exec_attempt a = {0, A};
    struct fr_ship_file file = {.bytes = FR_STR("aa"), .path = "h/a", .sha256 = "x", .size = 2};
    struct fr_msg m = {.type = FR_MSG_LAUNCHED, .launched = {A, 7, 1}};
    struct fr_msg put = {.type = FR_MSG_PUT_STATE, .put_state = {1, 2, true, FR_STR("/s/h/a")}};
    struct peer *p = &w->nodes[0];

    INSIST(w->ex.ops->start(w->ex.self, &mb, NULL));
    INSIST(w->ex.ops->attach(w->ex.self, a, (struct fr_exec_have){0}, NULL));
    INSIST(w->ex.ops->put(w->ex.self, &(struct fr_exec_put){0, 9, &file, 1}, NULL));
    for (int i = 0;
         i < 8 && (peer_events(w, FR_EXEC_LOG_END) == 0 || peer_events(w, FR_EXEC_PUT_DONE) == 0);
         i++) {
        peer_wait(w, 4000);
        if (peer_got(p, FR_MSG_PREPARE) != NULL && p->up_now)
            peer_say(p, &m);
        if (p->up_now) {
            say_log(p, 0, "one");
            say_log(p, 3, "two");
            say_ended(p, 6);
            peer_say(p, &put);
        }
        peer_run(w);
        p->n_got = 0;
    }
}

static void test_no_memory(void)
{
    static struct peer_world w;

    for (long n = 1;; n++) {
        char row[40];
        bool failed;

        snprintf(row, sizeof(row), "allocation %ld fails", n);
        check_row(row);
        peer_setup(&w, 1);
        peer_fail(n);
        run_attempt(&w);
        failed = peer_failed();
        peer_fail(0);
        CHECK_INT(peer_events(&w, FR_EXEC_LOG), 2);
        CHECK(peer_events(&w, FR_EXEC_ENDED) >= 1);
        CHECK_INT(peer_events(&w, FR_EXEC_LOG_END), 1);
        CHECK_INT(peer_events(&w, FR_EXEC_PUT_DONE), 1);
        peer_finish(&w);
        if (!failed)
            break;
    }
}

int main(void)
{
    test_start_again();
    test_reboot();
    test_gang();
    test_log();
    test_gap();
    test_metrics();
    test_replaced();
    test_old_pong();
    test_over_credit();
    test_questions();
    test_credit();
    test_pieces();
    test_leave();
    test_no_memory();
    return check_done();
}
