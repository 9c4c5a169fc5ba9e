/*
 * How the node executor comes to a node and keeps its link: hello, silence, refusals, the pauses
 * between its tries, what the boot script says. The nodes are the test's own (exec_peer.h).
 */
#include "tests/unit/exec/exec_peer.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/ship/ship.h"

#include <stdlib.h>

static const struct fr_id A = {{0xa}};

static void test_up(void)
{
    static struct peer_world w;
    const struct fr_exec_event *ev;

    check_row("up");
    peer_setup(&w, 1);
    w.nodes[0].clock = 5000;
    CHECK(w.ex.ops->connect(w.ex.self, 0, NULL) == FR_OK);
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
    CHECK(w.ex.ops->attach(w.ex.self, (struct fr_exec_attempt){0, A}, (struct fr_exec_have){0},
                           NULL) == FR_OK);
    peer_wait(&w, 20000);
    CHECK_INT(w.nodes[0].pings, 6);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
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
    peer_connect(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){0}, &err) == FR_OK);
    peer_run(&w);
    w.nodes[0].silent = true;
    peer_wait(&w, 8900);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    peer_wait(&w, 200);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.silent && ev->err.rc == FR_UNREACHABLE);
    w.nodes[0].silent = false; /* the hello of the try under way is lost: that one gives up first */
    peer_wait(&w, 40000);
    CHECK_INT(peer_events(&w, FR_EXEC_UP), 1);
    peer_finish(&w);
}

/* The answer to a ping may wait to be read while this process does not run. */
static void test_held_up(void)
{
    static struct peer_world w;
    struct fr_msg pong = {.type = FR_MSG_PONG};
    struct fr_exec_attempt a = {0, A};

    check_row("this process was held up");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){0}, NULL) == FR_OK);
    peer_run(&w);
    w.nodes[0].silent = true;
    peer_wait(&w, 4100);
    peer_hold_up(&w, 20000);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    w.nodes[0].silent = false;
    pong.pong = (struct fr_pong){fr_sys.mono_ms(), 1, 1};
    peer_say(&w.nodes[0], &pong);
    peer_wait(&w, 20000);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
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
    peer_connect(&w, 0);
    w.nodes[0].silent = true;
    peer_wait(&w, 24900);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    peer_wait(&w, 200);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.silent && ev->err.rc == FR_UNREACHABLE);
    peer_finish(&w);

    check_row("an attempt where it was silent");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    w.nodes[0].silent = true;
    peer_wait(&w, 19000);
    CHECK(w.ex.ops->attach(w.ex.self, a, (struct fr_exec_have){0}, &err) == FR_OK);
    peer_wait(&w, 4900);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    peer_wait(&w, 200);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 1);
    peer_finish(&w);
}

static void test_reads_nothing(void)
{
    static struct peer_world w;
    struct fr_msg ping = {.type = FR_MSG_PING};
    const struct fr_exec_event *ev;

    check_row("a node that talks and does not read");
    peer_setup(&w, 1);
    peer_connect(&w, 0);
    w.nodes[0].reads_nothing = true;
    for (int i = 0; i < 40 && peer_events(&w, FR_EXEC_DOWN) == 0; i++) {
        peer_say(&w.nodes[0], &ping);
        peer_wait(&w, 1000);
        CHECK(i > 28 || peer_events(&w, FR_EXEC_DOWN) == 0);
    }
    ev = peer_event(&w, FR_EXEC_DOWN);
    if (CHECK(ev != NULL))
        CHECK_TEXT(ev->err.msg, "node n: it took nothing that was sent for 30 s");
    w.nodes[0].reads_nothing = false;
    peer_wait(&w, 1000);
    CHECK_INT(peer_events(&w, FR_EXEC_UP), 1);
    peer_finish(&w);
}

/* Errors that nothing asked for: one line of them. */
static void test_unknown_refs(void)
{
    static struct peer_world w;
    struct fr_msg m = {.type = FR_MSG_ERROR, .error = {77, FR_IO, FR_STR("stray\x1b[31m")}};
    char said[4096];
    int fds[2];

    check_row("errors about nothing");
    CHECK(fr_sys.pipe(fds) == 0);
    fr_log_to(fds[1]);
    peer_setup(&w, 1);
    peer_connect(&w, 0);
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

/* How long a node has been away is holds_slot from the first try, or from the connection's end. */
static void test_outage(void)
{
    static struct peer_world w;
    const struct fr_exec_event *ev;
    int64_t began;

    check_row("how long it is away");
    peer_setup_limits(&w, 1, 4000, 120000);
    w.nodes[0].silent = true;
    began = fr_sys.mono_ms();
    w.ex.ops->connect(w.ex.self, 0, NULL);
    for (int i = 0; i < 3; i++) {
        peer_wait(&w, i == 0 ? 5100 : 12000);
        if (!CHECK((ev = peer_event(&w, FR_EXEC_DOWN)) != NULL))
            break;
        CHECK_INT(ev->down.since_ms - began, 0);
        CHECK_INT(ev->down.until_ms - began, 120000);
        CHECK(strstr(ev->err.msg, "within 4.0s (connect.timeout)") != NULL);
    }
    w.nodes[0].silent = false;
    peer_wait(&w, 30000);
    CHECK(peer_event(&w, FR_EXEC_UP) != NULL);
    peer_finish(&w);
    peer_setup_limits(&w, 1, 4000, 0);
    peer_connect(&w, 0);
    w.nodes[0].refuse = FR_UNREACHABLE;
    peer_wait(&w, 10000);
    began = fr_sys.mono_ms();
    peer_cut(&w.nodes[0], FR_UNREACHABLE);
    for (int i = 0; i < 3; i++) {
        peer_wait(&w, 5000);
        if (!CHECK((ev = peer_event(&w, FR_EXEC_DOWN)) != NULL))
            break;
        CHECK_INT(ev->down.since_ms - began, 0);
        CHECK_INT(ev->down.until_ms, -1);
    }
    peer_finish(&w);
}

/* Without a connect.timeout a try has 60 s. */
static void test_slow_login(void)
{
    static struct peer_world w;

    check_row("a login that takes 45 s");
    peer_setup_limits(&w, 1, 0, 120000);
    w.nodes[0].silent = true;
    w.ex.ops->connect(w.ex.self, 0, NULL);
    peer_wait(&w, 45000);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 0);
    CHECK_INT(w.nodes[0].opens, 1);
    peer_wait(&w, 17000);
    CHECK_INT(peer_events(&w, FR_EXEC_DOWN), 1);
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
    peer_connect(&w, 0);
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
        w.nodes[i].silent = true;
        w.ex.ops->connect(w.ex.self, i, NULL);
    }
    peer_run(&w);
    for (size_t i = 0; i < 10; i++)
        most += w.nodes[i].open;
    CHECK_INT(most, FR_EXEC_CONNECTS);
    for (size_t i = 0; i < 10; i++)
        w.nodes[i].silent = false;
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
    peer_connect(&w, 0);
    m.error = (struct fr_error){0, FR_PROTO, FR_STR("epoch 1 is older than 2")};
    peer_say(&w.nodes[0], &m);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_DOWN);
    if (CHECK(ev != NULL))
        CHECK_TEXT(ev->err.msg, "node n: the node ends the connection: epoch 1 is older than 2");
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
         "no flownode for machine type vax: build it for that and put it at "
         "/nonexistent/flownode-vax"},
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

/* Each try takes another agent; a refusal by all of them is final until there is a new one. */
static void test_agents(void)
{
    static struct peer_world w;
    static const char *const two[] = {"/a", "/b", "/a"}, *const three[] = {"/c", "/b", "/a"};
    struct peer *p = &w.nodes[0];
    const struct fr_exec_event *ev;

    check_row("a login that is refused with one agent is tried with the other");
    peer_setup(&w, 1);
    CHECK_INT(fr_nodes_agents(w.all, two, 3, NULL), FR_OK);
    p->refuse = FR_DENIED;
    CHECK_INT(w.ex.ops->connect(w.ex.self, 0, NULL), FR_OK);
    peer_run(&w);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.retry_ms > 0 && ev->err.rc == FR_DENIED);
    peer_wait(&w, 200);
    ev = peer_event(&w, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.retry_ms == -1);
    peer_wait(&w, 60000);
    CHECK_INT(p->opens, 2);
    check_row("the same agents are not tried again");
    CHECK_INT(fr_nodes_agents(w.all, three + 1, 2, NULL), FR_OK);
    peer_wait(&w, 60000);
    CHECK_INT(p->opens, 2);
    check_row("a new one is, and those before");
    CHECK_INT(fr_nodes_agents(w.all, three, 3, NULL), FR_OK);
    peer_wait(&w, 60000);
    CHECK_INT(p->opens, 5);
    CHECK_INT(peer_events(&w, FR_EXEC_UP), 0);
    check_row("one that comes before a try");
    CHECK_INT(fr_nodes_agents(w.all, two, 1, NULL), FR_OK);
    CHECK_INT(w.ex.ops->connect(w.ex.self, 0, NULL), FR_OK);
    CHECK_INT(fr_nodes_agents(w.all, three, 1, NULL), FR_OK);
    peer_wait(&w, 60000);
    CHECK_INT(p->opens, 6);
    check_row("one that is taken");
    p->refuse = FR_OK;
    CHECK_INT(fr_nodes_agents(w.all, two, 2, NULL), FR_OK);
    CHECK_INT(fr_nodes_agents(w.all, three, 1, NULL), FR_OK);
    peer_wait(&w, 1000);
    CHECK(p->up_now && peer_event(&w, FR_EXEC_UP) != NULL);
    CHECK_INT(p->opens, 7);
    check_row("");
    peer_finish(&w);
}

int main(void)
{
    test_agents();
    test_up();
    test_silence();
    test_held_up();
    test_idle();
    test_reads_nothing();
    test_unknown_refs();
    test_pauses();
    test_outage();
    test_slow_login();
    test_final();
    test_few_connects();
    test_fenced();
    test_boot();
    return check_done();
}
