/* The node executor against nodes that the test plays itself, on a clock that the test moves. */
#include "tests/unit/exec_peer.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/exec/ship.h"

#include <stdlib.h>
#include <unistd.h>

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

static void bring_up(struct peer_world *w, size_t node)
{
    struct fr_err err = {0};

    CHECK(w->ex.ops->connect(w->ex.self, node, &err) == FR_OK);
    peer_run(w);
    CHECK(peer_event(w, FR_EXEC_UP) != NULL);
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

static void test_up(void)
{
    static struct peer_world w;
    struct fr_err err = {0};
    const struct fr_exec_event *ev;

    check_row("up");
    peer_setup(&w, 1);
    w.nodes[0].clock = 5000;
    CHECK(w.ex.ops->connect(w.ex.self, 0, &err) == FR_OK);
    CHECK_INT(w.nodes[0].opens, 0); /* nothing happens inside of a call */
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_UP);
    if (CHECK(ev != NULL)) {
        CHECK_INT(ev->up.epoch, (3LL << 32) + 1);
        CHECK_INT(ev->up.home.b[0], 7);
        CHECK(fr_str_is(ev->up.boot, "boot-1"));
        CHECK_INT(ev->up.offset_ms, 5000);
    }
    CHECK_INT(w.ex.ops->clock_offset(w.ex.self, 0), 5000);
    w.nodes[0].pings = 0;
    peer_wait(&w, 20000);
    CHECK_INT(w.nodes[0].pings, 1);
    CHECK(w.ex.ops->attach(w.ex.self, (struct fr_exec_attempt){0, A}, 0, &err) == FR_OK);
    peer_wait(&w, 20000);
    CHECK_INT(w.nodes[0].pings, 6);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    peer_finish(&w);
}

static void test_start_again(void)
{
    static struct peer_world w;
    struct fr_err err = {0};
    struct fr_exec_member mb = member(0, A);
    struct peer *p = &w.nodes[0];
    const struct fr_msg *m;

    check_row("a start is sent again until it is answered");
    peer_setup(&w, 1);
    CHECK(w.ex.ops->start(w.ex.self, &mb, &err) == FR_OK);
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
    struct fr_err err = {0};
    struct fr_exec_member v[2] = {member(0, A), member(1, B)};
    struct fr_exec_gang gang = {v, 2};
    struct fr_str env = FR_STR("MASTER_ADDR=10.0.0.1");
    struct fr_msg ok = {.type = FR_MSG_PREPARED, .prepared = {.attempt = A, .port = 39500}};
    struct fr_msg no = {.type = FR_MSG_PREPARED};
    const struct fr_exec_event *ev;
    const struct fr_msg *m;

    check_row("prepare, then go");
    peer_setup(&w, 2);
    CHECK(w.ex.ops->prepare(w.ex.self, &gang, &err) == FR_OK);
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
    gang.n = 1;
    CHECK(w.ex.ops->go(w.ex.self, &gang, &err) == FR_OK);
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
    struct fr_err err = {0};
    struct fr_exec_attempt a = {0, A};
    struct peer *p = &w.nodes[0];
    const struct fr_exec_event *ev;
    const struct fr_msg *m;

    check_row("a log is followed over lost connections");
    peer_setup(&w, 1);
    bring_up(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, 3, &err) == FR_OK);
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
    CHECK(w.ex.ops->ack_end(w.ex.self, a, &err) == FR_OK);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1500);
    CHECK(peer_got(p, FR_MSG_ACK_END) != NULL && peer_got(p, FR_MSG_ATTACH) == NULL);
    peer_wait(&w, 5000); /* a ping after it was answered: it did arrive */
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 5000);
    CHECK(p->up_now && peer_got(p, FR_MSG_ACK_END) == NULL);
    peer_finish(&w);
}

static void test_gap(void)
{
    static struct peer_world w;
    struct fr_err err = {0};
    struct fr_exec_attempt a = {0, A};
    const struct fr_exec_event *ev;

    check_row("a gap in a log ends the connection, not the log");
    peer_setup(&w, 1);
    bring_up(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, 0, &err) == FR_OK);
    say_log(&w.nodes[0], 4, "x");
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->err.rc == FR_PROTO && ev->down.retry_ms > 0);
    CHECK_TEXT(ev->err.msg, "node n: log goes on at byte 4, but only 0 came before");
    peer_finish(&w);
}

static void test_silence(void)
{
    static struct peer_world w;
    struct fr_err err = {0};
    struct fr_exec_attempt a = {0, A};
    const struct fr_exec_event *ev;

    check_row("silence beside an attempt");
    peer_setup(&w, 1);
    bring_up(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, 0, &err) == FR_OK);
    peer_run(&w);
    w.nodes[0].mute = true;
    peer_wait(&w, 8900);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    peer_wait(&w, 200);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.silent && ev->err.rc == FR_UNREACHABLE);
    w.nodes[0].mute = false; /* the hello of the try under way is lost: that one gives up first */
    peer_wait(&w, 40000);
    CHECK_INT(peer_events(&w, FR_EXEC_UP), 1);
    peer_finish(&w);
}

static void test_idle(void)
{
    static struct peer_world w;
    struct fr_err err = {0};
    struct fr_exec_attempt a = {0, A};
    const struct fr_exec_event *ev;

    check_row("silence where nothing is under way");
    peer_setup(&w, 1);
    bring_up(&w, 0);
    w.nodes[0].mute = true;
    peer_wait(&w, 24900);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    peer_wait(&w, 200);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.silent && ev->err.rc == FR_UNREACHABLE);
    peer_finish(&w);

    check_row("an attempt where it was silent");
    peer_setup(&w, 1);
    bring_up(&w, 0);
    w.nodes[0].mute = true;
    peer_wait(&w, 19000);
    CHECK(w.ex.ops->attach(w.ex.self, a, 0, &err) == FR_OK);
    peer_wait(&w, 4900);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    peer_wait(&w, 200);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 1);
    peer_finish(&w);
}

static void test_deaf(void)
{
    static struct peer_world w;
    struct fr_msg ping = {.type = FR_MSG_PING};
    const struct fr_exec_event *ev;

    check_row("a node that talks and does not read");
    peer_setup(&w, 1);
    bring_up(&w, 0);
    w.nodes[0].deaf = true;
    for (int i = 0; i < 40 && peer_events(&w, FR_EXEC_DOWN) == 0; i++) {
        peer_say(&w.nodes[0], &ping);
        peer_wait(&w, 1000);
        CHECK(i > 28 || peer_events(&w, FR_EXEC_DOWN) == 0);
    }
    ev = peer_event(&w, FR_EXEC_DOWN);
    if (CHECK(ev != NULL))
        CHECK_TEXT(ev->err.msg, "node n: it took nothing that was sent for 30 s");
    w.nodes[0].deaf = false;
    peer_wait(&w, 1000);
    CHECK_INT(peer_events(&w, FR_EXEC_UP), 1);
    peer_finish(&w);
}

/* Errors that nothing asked for: one line of them. */
static void test_strays(void)
{
    static struct peer_world w;
    struct fr_msg m = {.type = FR_MSG_ERROR, .error = {77, FR_IO, FR_STR("stray\x1b[31m")}};
    char said[4096];
    int fds[2];

    check_row("errors about nothing");
    CHECK(fr_sys.pipe(fds) == 0);
    fr_log_to(fds[1]);
    peer_setup(&w, 1);
    bring_up(&w, 0);
    for (int i = 0; i < 1000; i++)
        peer_say(&w.nodes[0], &m);
    peer_run(&w);
    fr_log_to(2);
    ssize_t n = fr_sys.read(fds[0], said, sizeof(said) - 1);
    said[n > 0 ? n : 0] = '\0';
    CHECK_TEXT(said, "warn exec node=n error for an unknown ref: stray\\x1b[31m\n");
    fr_sys.close(fds[0]);
    fr_sys.close(fds[1]);
    peer_finish(&w);
}

static void test_pauses(void)
{
    static struct peer_world w;
    int64_t last = 0;

    check_row("pauses grow, up to a limit");
    peer_setup(&w, 1);
    w.nodes[0].refuse = FR_UNREACHABLE;
    w.ex.ops->connect(w.ex.self, 0, NULL);
    for (int i = 0; i < 10; i++) {
        const struct fr_exec_event *ev;

        peer_run(&w);
        if (!CHECK((ev = peer_event(&w, FR_EXEC_DOWN)) != NULL))
            break;
        CHECK(ev->down.retry_ms >= (last < 15000 ? last : 15000));
        CHECK(ev->down.retry_ms <= 18000);
        last = i < 5 ? ev->down.retry_ms : 15000;
        peer_wait(&w, ev->down.retry_ms);
    }
    CHECK_INT(w.nodes[0].opens, 11);
    w.nodes[0].refuse = FR_OK;
    peer_wait(&w, 18000);
    CHECK(peer_event(&w, FR_EXEC_UP) != NULL);
    peer_finish(&w);
}

static void test_final(void)
{
    static struct peer_world w;
    const struct fr_exec_event *ev;

    check_row("a refusal is final until somebody asks again");
    peer_setup(&w, 1);
    w.nodes[0].refuse = FR_DENIED;
    w.ex.ops->connect(w.ex.self, 0, NULL);
    peer_wait(&w, 60000);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.retry_ms == -1 && ev->err.rc == FR_DENIED);
    CHECK_INT(w.nodes[0].opens, 1);
    w.nodes[0].refuse = FR_OK;
    bring_up(&w, 0);
    w.nodes[0].refuse =
        FR_DENIED; /* it worked before: a node that comes back may refuse for a while */
    peer_cut(&w.nodes[0], FR_UNREACHABLE);
    peer_wait(&w, 3000);
    w.nodes[0].refuse = FR_OK;
    peer_wait(&w, 20000);
    CHECK_INT(peer_events(&w, FR_EXEC_UP), 1);
    peer_finish(&w);
}

static void test_few_connects(void)
{
    static struct peer_world w;
    size_t most = 0;

    check_row("few connects at once");
    peer_setup(&w, 10);
    for (size_t i = 0; i < 10; i++) {
        w.nodes[i].mute = true;
        w.ex.ops->connect(w.ex.self, i, NULL);
    }
    peer_run(&w);
    for (size_t i = 0; i < 10; i++)
        most += w.nodes[i].open;
    CHECK_INT(most, FR_EXEC_CONNECTS);
    for (size_t i = 0; i < 10; i++)
        w.nodes[i].mute = false;
    peer_wait(&w, 60000); /* the four that heard nothing give up first, then all come up */
    CHECK_INT(peer_events(&w, FR_EXEC_UP), 10);
    peer_finish(&w);
}

static void test_fenced(void)
{
    static struct peer_world w;
    struct fr_msg m = {.type = FR_MSG_ERROR};
    const struct fr_exec_event *ev;

    check_row("a newer engine has the node");
    peer_setup(&w, 1);
    bring_up(&w, 0);
    m.error = (struct fr_error){0, FR_PROTO, FR_STR("epoch 1 is older than 2")};
    peer_say(&w.nodes[0], &m);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_DOWN);
    if (CHECK(ev != NULL))
        CHECK_TEXT(ev->err.msg, "node n: the node ends the connection: epoch 1 is older than 2");
    peer_finish(&w);
}

static void test_questions(void)
{
    static struct peer_world w;
    struct fr_err err = {0};
    struct fr_exec_attempt a = {0, A};
    struct peer *p = &w.nodes[0];
    struct fr_msg refused = {.type = FR_MSG_ERROR};
    const struct fr_exec_event *ev;

    check_row("query, tombstone, facts, list");
    peer_setup(&w, 1);
    bring_up(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, 0, &err) == FR_OK);
    CHECK(w.ex.ops->query(w.ex.self, &a, 1, &err) == FR_OK);
    CHECK(w.ex.ops->tombstone(w.ex.self, a, &err) == FR_OK);
    CHECK(w.ex.ops->facts(w.ex.self, 0, 71, &err) == FR_OK);
    CHECK(w.ex.ops->list(w.ex.self, 0, 72, "/none", &err) == FR_OK);
    peer_run(&w);
    say_state(p, A, FR_AT_UNKNOWN); /* the query's: the log is still followed */
    refused.error = (struct fr_error){72, FR_NOTFOUND, FR_STR("/none is not there")};
    peer_say(p, &refused);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_STATE);
    CHECK(ev != NULL && ev->state.status == FR_AT_UNKNOWN);
    ev = peer_event(&w, FR_EXEC_FAILED);
    CHECK(ev != NULL && ev->ref == 72 && ev->err.rc == FR_NOTFOUND);
    CHECK_TEXT(ev->err.msg, "node n: /none is not there");
    p->n_got = 0;
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1000);
    CHECK(peer_got(p, FR_MSG_QUERY) == NULL);
    CHECK(peer_got(p, FR_MSG_TOMBSTONE) != NULL);
    CHECK(peer_got(p, FR_MSG_FACTS) != NULL);
    CHECK(peer_got(p, FR_MSG_LIST) == NULL);
    CHECK(peer_got(p, FR_MSG_ATTACH) != NULL);
    peer_finish(&w);
}

static void test_put(void)
{
    static struct peer_world w;
    static char big[300000];
    struct peer *p = &w.nodes[0];
    struct fr_exec_file v[2] = {{.path = "h/a", .sha256 = "x", .mode = 0644},
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
    done.put_state = (struct fr_put_state){9, 2, true, FR_STR("/home/s/h/a")};
    peer_say(p, &done); /* there already */
    peer_run(&w);
    CHECK((m = peer_got(p, FR_MSG_PUT_BEGIN)) != NULL && fr_str_is(m->put_begin.path, "h/b"));
    done.put_state = (struct fr_put_state){9, at, false, FR_STR("/home/s/h/b")};
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

static void test_get(void)
{
    static struct peer_world w;
    struct peer *p = &w.nodes[0];
    char dir[] = "/tmp/exec-test-XXXXXX", path[64], sum[FR_SHA256_TEXT];
    struct fr_msg data = {.type = FR_MSG_GET_DATA}, end = {.type = FR_MSG_GET_END};
    struct fr_buf text = {0};
    const struct fr_msg *m;
    const struct fr_exec_event *ev;

    check_row("get");
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/f", dir);
    peer_setup(&w, 1);
    CHECK(w.ex.ops->get(w.ex.self, &(struct fr_exec_get){0, 5, "/r/f", path, 9}, NULL) == FR_OK);
    peer_run(&w);
    CHECK((m = peer_got(p, FR_MSG_GET)) != NULL && m->get.offset == 0);
    data.get_data = (struct fr_get_data){5, 0, FR_STR("hello ")};
    peer_say(p, &data);
    peer_run(&w);
    peer_cut(p, FR_UNREACHABLE);
    peer_wait(&w, 1000);
    CHECK((m = peer_got(p, FR_MSG_GET)) != NULL && m->get.offset == 6);
    data.get_data = (struct fr_get_data){5, 6, FR_STR("you")};
    peer_say(p, &data);
    end.get_end = (struct fr_get_end){5, 9, 0644};
    peer_say(p, &end);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_GET_DONE);
    CHECK(ev != NULL && ev->ref == 5 && ev->get.size == 9);
    fr_sha256("hello you", 9, sum);
    CHECK_TEXT(ev->get.sha256, sum);
    CHECK(fr_file_read(path, 100, &text, NULL) == FR_OK && text.n == 9);
    CHECK(text.n == 9 && memcmp(text.p, "hello you", 9) == 0);
    fr_buf_finish(&text);
    check_row("get of more than is wanted");
    snprintf(path, sizeof(path), "%s/g", dir);
    CHECK(w.ex.ops->get(w.ex.self, &(struct fr_exec_get){0, 6, "/r/g", path, 8}, NULL) == FR_OK);
    peer_run(&w);
    data.get_data = (struct fr_get_data){6, 0, FR_STR("hello ")};
    peer_say(p, &data);
    data.get_data = (struct fr_get_data){6, 6, FR_STR("you")};
    peer_say(p, &data);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_FAILED);
    CHECK(ev != NULL && ev->ref == 6 && ev->err.rc == FR_USAGE);
    CHECK_TEXT(ev != NULL ? ev->err.msg : "",
               "node n: /r/g is larger than the 8 bytes that max_size allows");
    snprintf(path, sizeof(path), "%s/g.part", dir);
    CHECK(access(path, F_OK) != 0);
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

        data.get_data = (struct fr_get_data){7, at, {large, n}};
        peer_say(p, &data);
        peer_run(&w);
    }
    end.get_end = (struct fr_get_end){7, LARGE, 0644};
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
    bring_up(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, 0, NULL) == FR_OK);
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

static void test_boot(void)
{
    static const struct {
        const char *row, *says, *error;
    } rows[] = {
        {"no Linux", "hi\nFLOWBOOT uname Darwin arm64\n",
         "the node runs 'Darwin arm64', flownode runs on Linux (before that it said: hi)"},
        {"no program for it", "FLOWBOOT uname Linux vax\n",
         "no flownode for machine type vax: /nonexistent/flownode-vax is not there"},
        {"refused", "FLOWBOOT refused no folder\n", "no folder"},
        {"a path as machine type", "FLOWBOOT uname Linux ../secret\n",
         "the node runs 'Linux ../secret', flownode runs on Linux"},
        {"asks for ever",
         "FLOWBOOT uname Linux pdp11\nFLOWBOOT need /a\nFLOWBOOT need /a\nFLOWBOOT need /a\n",
         "the node asks for flownode a second time"},
    };
    char dir[] = "/tmp/exec-boot-XXXXXX", path[64];

    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/flownode-pdp11", dir);
    CHECK(fr_file_write(path, "program", 7, 0700, NULL) == FR_OK);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_boot b = {0};
        struct fr_ship *s = NULL;
        struct fr_err err = {0};
        size_t used = 0;

        check_row(rows[i].row);
        CHECK(fr_ship_create(&s, strstr(rows[i].says, "pdp11") ? dir : "/nonexistent", &err) ==
              FR_OK);
        CHECK(fr_boot_feed(&b, s, fr_str_of(rows[i].says), &used, &err) != FR_OK);
        CHECK_TEXT(err.msg, rows[i].error);
        fr_boot_finish(&b);
        fr_ship_destroy(s);
    }
    fr_remove_tree(dir, NULL);
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
    struct fr_exec_file file = {.bytes = FR_STR("aa"), .path = "h/a", .sha256 = "x", .size = 2};
    struct fr_msg m = {.type = FR_MSG_LAUNCHED, .launched = {A, 7, 1}};
    struct fr_msg put = {.type = FR_MSG_PUT_STATE, .put_state = {9, 2, true, FR_STR("/s/h/a")}};
    struct peer *p = &w->nodes[0];

    INSIST(w->ex.ops->start(w->ex.self, &mb, NULL));
    INSIST(w->ex.ops->attach(w->ex.self, a, 0, NULL));
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
    test_up();
    test_start_again();
    test_reboot();
    test_gang();
    test_log();
    test_gap();
    test_silence();
    test_idle();
    test_deaf();
    test_strays();
    test_pauses();
    test_final();
    test_few_connects();
    test_fenced();
    test_questions();
    test_put();
    test_get();
    test_large_get();
    test_credit();
    test_boot();
    test_no_memory();
    return check_done();
}
