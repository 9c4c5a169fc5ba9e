/*
 * Several runs of one process on the same nodes: which of them share a connection, which events
 * each gets, and what is left when one of them leaves. The nodes are the test's own (exec_peer.h).
 */
#include "tests/unit/exec/exec_peer.h"

/* Attempts of the first and the other run. */
static const struct fr_id A = {{0xa}}, B = {{0xb}}, D = {{0xd}};
static struct peer_world w;
static struct peer_other o;

static enum fr_rc start(const struct fr_exec *ex, struct fr_id attempt)
{
    struct fr_exec_member m = {.prepare = {.attempt = attempt, .instance = FR_STR("t")}};

    return ex->ops->start(ex->self, &m, NULL);
}

static void say_launched(struct fr_id attempt)
{
    struct fr_msg m = {.type = FR_MSG_LAUNCHED, .launched = {attempt, 7, 1}};

    peer_say(&w.nodes[0], &m);
}

static void say_log(struct fr_id attempt, uint64_t offset, const char *text)
{
    struct fr_msg m = {.type = FR_MSG_LOG, .log = {attempt, offset, 5, fr_str_of(text)}};

    peer_say(&w.nodes[0], &m);
}

/* Both runs on node 0, connected. */
static void begin_both(void)
{
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    peer_join(&w, &o, w.infos, 1);
    CHECK(o.ex.ops->connect(o.ex.self, 0, NULL) == FR_OK);
    peer_run(&w);
    CHECK(peer_other_event(&o, FR_EXEC_UP) != NULL);
}

static void end_both(void)
{
    peer_other_finish(&o);
    peer_finish(&w);
}

static void test_one_link(void)
{
    const struct fr_exec_event *ev;

    check_row("two runs, one connection");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    CHECK(fr_id_eq(w.nodes[0].fence, (struct fr_id){{1}})); /* of the home, not of a run */
    peer_join(&w, &o, w.infos, 1);
    peer_run(&w);
    CHECK(o.events == NULL); /* it has not asked for the node */
    CHECK(start(&o.ex, B) == FR_OK);
    CHECK(o.events == NULL); /* only from the loop's turn */
    peer_run(&w);
    ev = peer_other_event(&o, FR_EXEC_UP);
    CHECK(ev != NULL && fr_id_eq(ev->up.home, (struct fr_id){{7}}) &&
          fr_str_is(ev->up.boot, "boot-1") && fr_str_is(ev->up.build, "b1") &&
          fr_str_is(ev->up.how, "test") && ev->up.epoch == (3LL << 32) + 1);
    CHECK(peer_events(&w, FR_EXEC_UP) == 0 && peer_other_events(&o, FR_EXEC_UP) == 0);
    CHECK_INT(w.nodes[0].opens, 1);
    CHECK(start(&w.ex, A) == FR_OK);
    peer_cut(&w.nodes[0], FR_UNREACHABLE);
    CHECK(peer_event(&w, FR_EXEC_DOWN) != NULL);
    CHECK(peer_other_event(&o, FR_EXEC_DOWN) != NULL);
    w.nodes[0].n_got = 0;
    peer_wait(&w, 1000);
    CHECK(peer_event(&w, FR_EXEC_UP) != NULL);
    CHECK(peer_other_event(&o, FR_EXEC_UP) != NULL);
    for (int i = 0; i < 2; i++)
        CHECK(peer_got(&w.nodes[0], FR_MSG_PREPARE) != NULL);
    CHECK_INT(w.nodes[0].opens, 2);
    end_both();
}

static void test_events(void)
{
    const struct fr_exec_event *ev;
    struct fr_exec_node nodes[2];

    check_row("an event reaches its own run");
    peer_setup(&w, 2);
    peer_connect(&w, 0);
    nodes[0] = w.infos[1]; /* the other way round */
    nodes[1] = w.infos[0];
    peer_join(&w, &o, nodes, 2);
    CHECK(start(&w.ex, A) == FR_OK);
    CHECK(o.ex.ops->attach(o.ex.self, (struct fr_exec_attempt){1, B}, (struct fr_exec_have){0},
                           NULL) == FR_OK);
    peer_run(&w);
    say_launched(A);
    say_log(B, 0, "of b");
    say_log(A, 0, "not followed");
    say_launched((struct fr_id){{0xc}}); /* of nobody */
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_LAUNCHED);
    CHECK(ev != NULL && fr_id_eq(ev->attempt, A) && ev->node == 0);
    CHECK(w.events == NULL);
    ev = peer_other_event(&o, FR_EXEC_LOG);
    CHECK(ev != NULL && fr_id_eq(ev->attempt, B) && ev->node == 1);
    CHECK(o.events == NULL);
    end_both();
}

static void test_refs(void)
{
    static struct fr_str cpus[] = {{"cpus=1", 6}, {"cpus=2", 6}};
    const struct fr_exec_event *ev;
    const struct fr_msg *m;
    struct fr_msg answer = {.type = FR_MSG_FACTS_ARE};
    uint64_t refs[2] = {0, 0};

    check_row("two runs number a request alike");
    begin_both();
    w.nodes[0].n_got = 0;
    CHECK(w.ex.ops->facts(w.ex.self, 0, 5, NULL) == FR_OK);
    CHECK(o.ex.ops->facts(o.ex.self, 0, 5, NULL) == FR_OK);
    peer_run(&w);
    for (int i = 0; i < 2; i++)
        refs[i] = (m = peer_got(&w.nodes[0], FR_MSG_FACTS)) != NULL ? m->facts.ref : 0;
    CHECK(refs[0] != refs[1]);
    for (int i = 1; i >= 0; i--) {
        answer.facts_are = (struct fr_facts_are){refs[i], {&cpus[i], 1}};
        peer_say(&w.nodes[0], &answer);
    }
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_FACTS);
    CHECK(ev != NULL && ev->ref == 5 && fr_str_is(ev->facts.facts.v[0], "cpus=1"));
    ev = peer_other_event(&o, FR_EXEC_FACTS);
    CHECK(ev != NULL && ev->ref == 5 && fr_str_is(ev->facts.facts.v[0], "cpus=2"));
    CHECK(w.events == NULL && o.events == NULL);
    end_both();
}

/* What one run asked for is gone with it; the other's stays. */
static void test_leave(void)
{
    struct peer *p = &w.nodes[0];
    struct fr_ship_file f = {.bytes = FR_STR("aa"), .path = "h/a", .sha256 = "x", .size = 2};
    struct fr_msg go_on = {.type = FR_MSG_PUT_STATE}, credit = {.type = FR_MSG_CREDIT};
    const struct fr_msg *m;
    size_t before;

    check_row("a run leaves");
    begin_both();
    CHECK(start(&w.ex, A) == FR_OK && start(&o.ex, B) == FR_OK);
    CHECK(w.ex.ops->attach(w.ex.self, (struct fr_exec_attempt){0, A}, (struct fr_exec_have){0},
                           NULL) == FR_OK);
    CHECK(o.ex.ops->attach(o.ex.self, (struct fr_exec_attempt){0, B}, (struct fr_exec_have){0},
                           NULL) == FR_OK);
    CHECK(w.ex.ops->put(w.ex.self, &(struct fr_exec_put){0, 6, &f, 1}, NULL) == FR_OK);
    CHECK(w.ex.ops->facts(w.ex.self, 0, 5, NULL) == FR_OK);
    CHECK(w.ex.ops->ack_end(w.ex.self, (struct fr_exec_attempt){0, D}, NULL) == FR_OK);
    fr_exec_destroy(&w.ex);
    CHECK(peer_got(p, FR_MSG_ACK_END) == NULL);
    CHECK_INT(p->n_runs, 2);
    peer_run(&w);
    CHECK(p->up_now && p->opens == 1);
    CHECK(p->n_runs == 1 && fr_id_eq(p->runs[0], (struct fr_id){{2}}));
    CHECK(peer_got(p, FR_MSG_ACK_END) != NULL); /* what was given is still sent */
    say_log(A, 0, "of a");
    say_log(B, 0, "of b");
    credit.credit.bytes = 50000;
    peer_say(p, &credit);
    go_on.put_state = (struct fr_put_state){1, 0, false, FR_STR("/s/h/a")};
    peer_say(p, &go_on);
    peer_run(&w);
    CHECK(w.events == NULL);
    CHECK_INT(peer_other_events(&o, FR_EXEC_LOG), 1);
    CHECK(peer_got(p, FR_MSG_PUT_DATA) == NULL);
    p->n_got = 0;
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1000);
    CHECK(p->up_now && w.events == NULL);
    CHECK_INT(p->n_got, 3);
    CHECK(p->n_runs == 1 && fr_id_eq(p->runs[0], (struct fr_id){{2}}));
    CHECK((m = peer_got(p, FR_MSG_PREPARE)) != NULL && fr_id_eq(m->prepare.attempt, B));
    CHECK((m = peer_got(p, FR_MSG_ACK_END)) != NULL && fr_id_eq(m->ack_end.attempt, D));
    CHECK((m = peer_got(p, FR_MSG_ATTACH)) != NULL && fr_id_eq(m->attach.attempt, B));
    check_row("the last one closes the connection");
    CHECK(o.ex.ops->ack_end(o.ex.self, (struct fr_exec_attempt){0, B}, NULL) == FR_OK);
    before = p->taken;
    peer_other_finish(&o);
    CHECK(!p->open && p->taken > before); /* the acknowledgement went first */
    peer_join(&w, &o, w.infos, 1);
    CHECK(o.ex.ops->connect(o.ex.self, 0, NULL) == FR_OK);
    peer_run(&w);
    CHECK(peer_other_event(&o, FR_EXEC_UP) != NULL);
    end_both();
}

static void join_again(int opens)
{
    peer_join(&w, &o, w.infos, 1);
    CHECK(o.ex.ops->connect(o.ex.self, 0, NULL) == FR_OK);
    peer_run(&w);
    CHECK(peer_other_event(&o, FR_EXEC_UP) != NULL);
    CHECK_INT(w.nodes[0].opens, opens);
}

/* The next run finds the node connected, for a while. */
static void test_linger(void)
{
    struct peer *p = &w.nodes[0];

    check_row("a connection outlives its last run");
    peer_linger(5000);
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    fr_exec_destroy(&w.ex);
    peer_wait(&w, 4000);
    CHECK(p->open && p->n_runs == 0);
    join_again(1);
    CHECK_INT(p->n_runs, 1);
    peer_other_finish(&o);
    peer_wait(&w, 4000); /* counted from the last one */
    CHECK(p->open);
    peer_wait(&w, 1001);
    CHECK(!p->open);
    join_again(2);
    check_row("one that is lost meanwhile is not made again");
    peer_other_finish(&o);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 20000);
    CHECK(!p->open && p->opens == 2);
    join_again(3);
    end_both(); /* and whoever destroys them all waits for nobody */
    peer_linger(0);
}

/* Options that differ make a connection of its own, also to a node of that name. */
static void test_options(void)
{
    static const char *const names[] = {"equal", "transport", "host",        "user",     "port",
                                        "key",   "config",    "known_hosts", "timeout",  "work",
                                        "days",  "bytes",     "connect",     "retry_for"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct fr_exec_node n;
        char copy[2] = "n";

        check_row(names[i]);
        peer_setup(&w, 2);
        w.infos[1].name = "n";
        n = w.infos[0];
        n.name = copy; /* by its text */
        n.transport = i == 1 ? FR_TRANSPORT_LOCAL : n.transport;
        n.ssh.host = i == 2 ? "h" : NULL;
        n.ssh.user = i == 3 ? "u" : NULL;
        n.ssh.port = i == 4;
        n.ssh.key = i == 5 ? "k" : NULL;
        n.ssh.config = i == 6 ? "c" : NULL;
        n.ssh.known_hosts = i == 7 ? "k" : NULL;
        n.ssh.connect_ms = i == 8;
        n.work = i == 9 ? "/w" : NULL;
        n.keep_days = i == 10;
        n.keep_bytes = i == 11;
        n.connect_ms += i == 12;
        n.retry_for_ms += i == 13;
        peer_connect(&w, 0);
        peer_join(&w, &o, &n, 1);
        CHECK(o.ex.ops->connect(o.ex.self, 0, NULL) == FR_OK);
        peer_run(&w);
        CHECK_INT(w.nodes[0].opens, 1);
        CHECK_INT(w.nodes[1].opens, i > 0);
        CHECK(peer_other_event(&o, FR_EXEC_UP) != NULL);
        end_both();
    }
}

/* A run that comes while a node is away waits its own time for it. */
static void test_away(void)
{
    const struct fr_exec_event *ev;
    int64_t began, later;

    check_row("a node that is away already");
    peer_setup(&w, 1);
    w.nodes[0].refuse = FR_UNREACHABLE;
    began = fr_sys.mono_ms();
    CHECK(w.ex.ops->connect(w.ex.self, 0, NULL) == FR_OK);
    peer_wait(&w, 100000);
    while (peer_event(&w, FR_EXEC_DOWN) != NULL)
        ;
    peer_join(&w, &o, w.infos, 1);
    later = fr_sys.mono_ms();
    CHECK(start(&o.ex, B) == FR_OK); /* which ends the pause */
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.since_ms == began && ev->down.until_ms == began + 120000);
    ev = peer_other_event(&o, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.since_ms == later && ev->down.until_ms == later + 120000);
    end_both();
}

/* Pieces of two puts go in turn, and end each by itself. */
static void test_puts(void)
{
    static char big[200000];
    struct fr_ship_file f = {.bytes = {big, sizeof(big)}, .path = "h/a", .sha256 = "x"};
    struct fr_msg go_on = {.type = FR_MSG_PUT_STATE}, credit = {.type = FR_MSG_CREDIT};
    struct peer *p = &w.nodes[0];
    uint64_t sent[3] = {0};

    check_row("puts of two runs");
    begin_both();
    f.size = sizeof(big);
    CHECK(w.ex.ops->put(w.ex.self, &(struct fr_exec_put){0, 9, &f, 1}, NULL) == FR_OK);
    CHECK(w.ex.ops->put(w.ex.self, &(struct fr_exec_put){0, 10, &f, 1}, NULL) == FR_OK);
    CHECK(o.ex.ops->put(o.ex.self, &(struct fr_exec_put){0, 9, &f, 1}, NULL) == FR_OK);
    peer_run(&w);
    CHECK_INT(p->n_got, 2); /* one of each run */
    for (uint64_t i = 0; i < 2; i++) {
        go_on.put_state = (struct fr_put_state){i == 0 ? 1 : 3, 0, false, FR_STR("/s/h/a")};
        peer_say(p, &go_on);
    }
    p->n_got = 0;
    for (int i = 0; i < 5; i++) {
        credit.credit.bytes = 64000;
        peer_say(p, &credit);
        peer_run(&w);
        while (p->n_got > 0) {
            const struct fr_put_data *d = &p->got[0].put_data;

            if (!CHECK(p->got[0].type == FR_MSG_PUT_DATA && (d->ref == 1 || d->ref == 3)))
                break;
            sent[d->ref - 1] += d->bytes.n;
            CHECK(sent[0] <= sent[2] + FR_BULK_MAX && sent[2] <= sent[0] + FR_BULK_MAX);
            (void)peer_got(p, FR_MSG_PUT_DATA);
        }
    }
    CHECK_INT(sent[0] + sent[2], 5 * 64000);
    end_both();
}

static void test_no_memory(void)
{
    for (long n = 1;; n++) {
        struct fr_nodes_run run = {.id = {{2}}, .nodes = w.infos, .n = 2};
        struct fr_exec ex;
        bool failed;
        char row[60];

        snprintf(row, sizeof(row), "allocation %ld of a join fails", n);
        check_row(row);
        peer_setup(&w, 2);
        fr_exec_destroy(&w.ex);
        peer_engine(+1);
        peer_fail(n);
        enum fr_rc rc = fr_nodes_join(w.all, &run, &ex, NULL);
        failed = peer_failed();
        peer_fail(0);
        peer_engine(-1);
        CHECK_INT(rc, failed ? FR_NOMEM : FR_OK);
        fr_exec_destroy(&ex);
        peer_finish(&w);
        if (!failed)
            break;
    }
}

int main(void)
{
    test_one_link();
    test_events();
    test_refs();
    test_leave();
    test_linger();
    test_options();
    test_away();
    test_puts();
    test_no_memory();
    return check_done();
}
