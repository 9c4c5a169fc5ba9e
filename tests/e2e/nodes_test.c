/*
 * The node executor with the real flownode: one local node, and three sshd nodes that cluster.sh
 * has made (libssh2 to the first two, the system's ssh with an RSA key and a jump host to the
 * third).
 *
 *   nodes_test FLOWNODE_DIR [CLUSTER_DIR CLUSTER_SCRIPT]     without a cluster: the local node only
 *
 * Each wait is for an event that must come; the test runner's time-out is the only clock.
 */
#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/exec/exec.h"
#include "engine/ship/ship.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES_MAX = 4, BIG = 3 << 20 };

struct site {
    struct fr_arena arena;
    char dir[64];
    const char *cluster, *script;
    struct fr_loop loop;
    struct fr_nodes *all;
    struct fr_exec ex;
    struct fr_exec_node nodes[NODES_MAX];
    size_t n;
    struct fr_exec_event *events, **last;
    struct fr_buf log; /* of the attempt that is being followed */
};

static void sink(void *arg, struct fr_exec_event *ev)
{
    struct site *s = arg;

    ev->next = NULL;
    *s->last = ev;
    s->last = &ev->next;
}

/* The next event of that kind on that node; others are dropped, bytes of logs kept in s->log. */
static struct fr_exec_event *await(struct site *s, size_t node, enum fr_exec_kind kind)
{
    struct fr_err err = {0};

    for (;;) {
        struct fr_exec_event *ev = s->events;

        if (ev == NULL) {
            if (fr_loop_turn(&s->loop, true, &err) != FR_OK)
                return NULL;
            continue;
        }
        s->events = ev->next;
        if (s->events == NULL)
            s->last = &s->events;
        if (ev->kind == FR_EXEC_LOG)
            fr_buf_add(&s->log, ev->log.bytes.p, ev->log.bytes.n);
        if (ev->kind == FR_EXEC_DOWN || ev->kind == FR_EXEC_FAILED)
            printf("   node %zu: %s\n", ev->node, ev->err.msg);
        if (ev->kind == FR_EXEC_DOWN && !CHECK(ev->down.retry_ms >= 0))
            exit(check_done());
        if (ev->kind == FR_EXEC_PREPARED && ev->prepared.rc != FR_OK)
            printf("   node %zu: %.*s\n", ev->node, (int)ev->prepared.text.n, ev->prepared.text.p);
        if (ev->kind == FR_EXEC_NOTE)
            printf("   node %zu: %.*s\n", ev->node, (int)ev->text.n, ev->text.p);
        if (ev->kind == kind && ev->node == node)
            return ev;
        fr_exec_event_free(ev);
    }
}

static void drop_await(struct site *s, size_t node, enum fr_exec_kind kind)
{
    struct fr_exec_event *ev = await(s, node, kind);

    CHECK(ev != NULL);
    fr_exec_event_free(ev);
}

/* Starts `sh -c script` on a node and follows it. */
static struct fr_exec_attempt start(struct site *s, size_t node, const char *script)
{
    struct fr_str argv[] = {FR_STR("/bin/sh"), FR_STR("-c"), fr_str_of(script)};
    struct fr_exec_member m = {.node = node};
    struct fr_exec_attempt a = {.node = node};
    struct fr_err err = {0};
    char key[FR_ID_TEXT];

    CHECK(fr_id_new(&a.attempt, &err) == FR_OK);
    fr_id_text(a.attempt, key);
    m.prepare.attempt = a.attempt;
    m.prepare.run.b[0] = 1;
    m.prepare.instance = fr_str_of(key);
    m.prepare.spec_hash = FR_STR("h");
    m.prepare.generation = 1;
    m.prepare.request.argv = (struct fr_strs){argv, 3};
    m.prepare.request.port = FR_PORT_NONE;
    s->log.n = 0;
    CHECK(s->ex.ops->start(s->ex.self, &m, &err) == FR_OK);
    CHECK(s->ex.ops->attach(s->ex.self, a, (struct fr_exec_have){0}, &err) == FR_OK);
    return a;
}

/* Waits for end and log, acknowledges. The caller frees what is returned. */
static struct fr_exec_event *finish(struct site *s, struct fr_exec_attempt a)
{
    struct fr_exec_event *ev = await(s, a.node, FR_EXEC_ENDED);
    struct fr_err err = {0};

    if (CHECK(ev != NULL)) {
        CHECK(fr_id_eq(ev->attempt, a.attempt));
        CHECK_INT(ev->ended.survivors.n, 0);
        while (s->log.n < ev->ended.log_bytes && fr_loop_turn(&s->loop, true, &err) == FR_OK)
            while (s->events != NULL && s->events->kind == FR_EXEC_LOG)
                drop_await(s, a.node, FR_EXEC_LOG);
    }
    drop_await(s, a.node, FR_EXEC_LOG_END);
    CHECK(s->ex.ops->ack_end(s->ex.self, a, &err) == FR_OK);
    return ev;
}

static void test_task(struct site *s, size_t node)
{
    struct fr_exec_attempt a = start(s, node, "echo hello; echo err >&2; exit 3");
    struct fr_exec_event *ev = finish(s, a);

    check_row("a task");
    if (ev != NULL) {
        CHECK_INT(ev->ended.cause, FR_END_EXIT);
        CHECK_INT(ev->ended.code, 3);
    }
    CHECK_TEXT(s->log.p, "hello\nerr\n");
    fr_exec_event_free(ev);
}

static void check_big(struct site *s)
{
    size_t bad = 0;

    CHECK_INT(s->log.n, BIG);
    for (size_t i = 0; i < s->log.n; i += 8) {
        char want[32];

        snprintf(want, sizeof(want), "%07zu\n", i / 8);
        bad += memcmp(s->log.p + i, want, 8) != 0;
    }
    CHECK_INT(bad, 0);
}

static const char *big_script(struct site *s)
{
    return fr_arena_fmt(&s->arena, "seq -f %%07.0f 0 %d", BIG / 8 - 1);
}

static void test_big_log(struct site *s, size_t node)
{
    check_row("three megabytes of output");
    fr_exec_event_free(finish(s, start(s, node, big_script(s))));
    check_big(s);
}

/* Cuts the connection as often as it comes back while a log is being read. */
static void test_broken(struct site *s, size_t node, void (*cut)(struct site *s, size_t node))
{
    struct fr_exec_attempt a;

    check_row("a log over broken connections");
    a = start(s, node, big_script(s));
    for (int i = 0; i < 3; i++) {
        drop_await(s, node, FR_EXEC_LOG);
        cut(s, node);
        drop_await(s, node, FR_EXEC_DOWN);
        drop_await(s, node, FR_EXEC_UP);
    }
    fr_exec_event_free(finish(s, a));
    check_big(s);
}

static void test_stop(struct site *s, size_t node)
{
    struct fr_exec_attempt a =
        start(s, node,
              "trap '' TERM; (setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &) "
              "; echo up; while :; do sleep 1; done");
    struct fr_exec_event *ev;
    struct fr_err err = {0};

    check_row("stop of a tree that does not want to");
    drop_await(s, node, FR_EXEC_LOG);
    CHECK(s->ex.ops->stop(s->ex.self, a, 200, 7, &err) == FR_OK);
    ev = finish(s, a);
    if (ev != NULL) {
        CHECK_INT(ev->ended.cause, FR_END_STOPPED);
        CHECK_INT(ev->ended.stop_cause, 7);
    }
    fr_exec_event_free(ev);
}

/* No step reads much more than it may, whatever the size of a file, so that a loop can do other
 * things between two. */
static void hash_in_slices(struct fr_bundle *b)
{
    enum { SLICE = 100000 };
    uint64_t all = 0;
    size_t steps = 0;
    bool done = false;
    struct fr_err err = {0};
    char sha256[65];

    for (size_t i = 0; i < b->n; i++)
        all += b->v[i].size;
    while (!done && CHECK_INT(fr_bundle_step(b, SLICE, &done, &err), FR_OK))
        steps++;
    CHECK(steps > all / (2 * SLICE) && all > 10 * SLICE);
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].local != NULL) {
            CHECK_INT(fr_sha256_file(b->v[i].local, sha256, &err), FR_OK);
            CHECK_TEXT(b->v[i].sha256, sha256);
        }
}

static enum fr_rc put_bundle(const struct fr_bundle *b, struct fr_exec *ex, size_t node,
                             uint64_t ref, struct fr_err *err)
{
    return ex->ops->put(ex->self, &(struct fr_exec_put){node, ref, b->v, b->n}, err);
}

static void test_bundle(struct site *s, size_t node)
{
    struct fr_bundle b;
    struct fr_err err = {0};
    struct fr_exec_event *ev;

    check_row("a program and its libraries");
    if (!CHECK(fr_bundle_open(&b, "/usr/bin/openssl", &err) == FR_OK)) {
        printf("   %s\n", err.msg);
        return;
    }
    CHECK(b.n > 5);
    hash_in_slices(&b);
    for (int i = 0; i < 2; i++) { /* the second time nothing is sent */
        CHECK(put_bundle(&b, &s->ex, node, 40 + (uint64_t)i, &err) == FR_OK);
        ev = await(s, node, FR_EXEC_PUT_DONE);
        CHECK(ev != NULL && ev->ref == 40 + (uint64_t)i && ev->put.dir.n > 0);
        if (ev == NULL)
            break;
        fr_exec_event_free(
            finish(s, start(s, node,
                            fr_arena_fmt(&s->arena, "exec %.*s/%s version", (int)ev->put.dir.n,
                                         ev->put.dir.p, b.program))));
        CHECK(s->log.n > 8 && memcmp(s->log.p, "OpenSSL ", 8) == 0);
        fr_exec_event_free(ev);
    }
    fr_bundle_finish(&b);
}

static void test_files(struct site *s, size_t node)
{
    const char *local = fr_arena_fmt(&s->arena, "%s/got%zu", s->dir, node);
    struct fr_exec_event *ev;
    struct fr_err err = {0};
    char sum[FR_SHA256_TEXT];

    check_row("get, list, facts");
    fr_exec_event_free(finish(
        s, start(s, node,
                 "mkdir -p \"$FLOWRUN_NODE_HOME/t/u\"; cd \"$FLOWRUN_NODE_HOME/t\"; echo x > u/b; "
                 "seq 200000 > a; sha256sum < a")));
    CHECK(s->ex.ops->get(s->ex.self, &(struct fr_exec_get){node, 50, "t/a", local, 1 << 30},
                         &err) == FR_OK);
    ev = await(s, node, FR_EXEC_GET_DONE);
    CHECK(fr_sha256_file(local, sum, &err) == FR_OK);
    CHECK(s->log.n > 64 && memcmp(s->log.p, sum, 64) == 0);
    if (CHECK(ev != NULL))
        CHECK_TEXT(ev->get.sha256, sum);
    fr_exec_event_free(ev);
    CHECK(s->ex.ops->facts(s->ex.self, node, 52, &err) == FR_OK);
    ev = await(s, node, FR_EXEC_FACTS);
    CHECK(ev != NULL && ev->facts.facts.n > 3);
    fr_exec_event_free(ev);
    CHECK(s->ex.ops->get(s->ex.self, &(struct fr_exec_get){node, 53, "/none", local, 1 << 30},
                         &err) == FR_OK);
    ev = await(s, node, FR_EXEC_FAILED);
    CHECK(ev != NULL && ev->ref == 53);
    fr_exec_event_free(ev);
}

/* All serve processes of this test's node, or the connections to it, are killed. */
static void kill_serve(struct site *s, size_t node)
{
    const char *home = fr_arena_fmt(&s->arena, "%s/nodes/%s", s->dir, s->nodes[node].name);
    struct fr_procinfo *list = NULL;
    size_t n = 0, killed = 0;

    CHECK(fr_sys.procs(&list, &n) == 0);
    for (size_t i = 0; i < n; i++) {
        char path[64];
        int fd;
        char c[4096];
        ssize_t k = 0;

        snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)list[i].proc.pid);
        if ((fd = fr_sys.open(path, O_RDONLY, 0)) >= 0) {
            k = fr_sys.read(fd, c, sizeof(c));
            fr_sys.close(fd);
        }
        if (list[i].ppid == getpid() && k > 0 && memmem(c, (size_t)k, home, strlen(home)) != NULL) {
            fr_sys.kill(list[i].proc, SIGKILL);
            killed++;
        }
    }
    fr_sys.free(list);
    CHECK_INT(killed, 1);
}

/* Runs cluster.sh; arg is behind the folder. */
static void cluster(struct site *s, const char *verb, size_t node, const char *rest)
{
    const char *script =
        fr_arena_fmt(&s->arena, "%s %s '%s' %zu %s", s->script, verb, s->cluster, node, rest);
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct fr_spawn sp = {.argv = argv, .envp = (const char *const *)environ, .fds = {-1, 1, 2}};
    struct fr_proc p;
    struct fr_wait w = {0};

    CHECK(fr_sys.spawn(&sp, &p) == 0 && fr_sys.wait(p.pid, &w, 0) == 0 && w.code == 0);
}

static void cut_ssh(struct site *s, size_t node)
{
    cluster(s, "exec", node, "pkill -9 -f 'sshd(-session)?: root@'");
}

/* The link is down for long enough to be noticed; the task goes on, and nothing is lost. */
static void test_link_down(struct site *s, size_t node)
{
    struct fr_exec_attempt a;
    struct fr_exec_event *ev;

    check_row("a link down, and up again");
    a = start(s, node, "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 1; done");
    drop_await(s, node, FR_EXEC_LOG);
    cluster(s, "cut", node, "");
    ev = await(s, node, FR_EXEC_DOWN);
    CHECK(ev != NULL && ev->down.silent);
    fr_exec_event_free(ev);
    cluster(s, "join", node, "");
    ev = finish(s, a);
    CHECK(ev != NULL && ev->ended.cause == FR_END_EXIT && ev->ended.code == 0);
    CHECK_TEXT(s->log.p, "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    fr_exec_event_free(ev);
}

/* Everything on the node is killed and it boots again: the attempt is lost, and said to be. */
static void test_crash(struct site *s, size_t node)
{
    struct fr_exec_attempt a;
    struct fr_exec_event *ev;

    check_row("a node that crashed");
    a = start(s, node, "echo up; exec sleep 1000");
    drop_await(s, node, FR_EXEC_LOG);
    cluster(s, "crash", node, "");
    drop_await(s, node, FR_EXEC_DOWN);
    cluster(s, "boot", node, "");
    ev = finish(s, a);
    CHECK(ev != NULL && ev->ended.cause == FR_END_LOST);
    CHECK_TEXT(s->log.p, "up\n");
    fr_exec_event_free(ev);
}

static void add_node(struct site *s, enum fr_transport t, const char *host)
{
    const char *c = s->cluster;
    struct fr_exec_node *n = &s->nodes[s->n++];

    *n = (struct fr_exec_node){.name = host, .transport = t};
    n->ssh.host = host;
    n->ssh.config = fr_arena_fmt(&s->arena, "%s/ssh_config", c);
}

static void open_site(struct site *s, const char *flownode_dir)
{
    struct fr_nodes_args args = {
        .control = {{0xc0}}, .epoch = 1, .flownode_dir = flownode_dir, .home = s->dir};
    struct fr_nodes_run run = {.id = {{1}}, .nodes = s->nodes, .sink = {sink, s}};
    struct fr_err err = {0};

    s->last = &s->events;
    CHECK(mkdtemp(s->dir) != NULL);
    add_node(s, FR_TRANSPORT_LOCAL, "here");
    if (s->cluster != NULL) {
        add_node(s, FR_TRANSPORT_LIBSSH2, "plain1");
        add_node(s, FR_TRANSPORT_LIBSSH2, "plain2");
        add_node(s, FR_TRANSPORT_AUTO, "node3");
    }
    run.n = s->n;
    CHECK(fr_loop_event_create(&s->loop, &err) == FR_OK);
    args.loop = &s->loop;
    CHECK(fr_nodes_create(&s->all, &args, &err) == FR_OK);
    CHECK(fr_nodes_join(s->all, &run, &s->ex, &err) == FR_OK);
}

int main(int argc, char **argv)
{
    static struct site s = {.dir = "/tmp/nodes-test-XXXXXX"};

    if (argc < 2)
        return check_skip("nodes_test FLOWNODE_DIR [CLUSTER_DIR CLUSTER_SCRIPT]");
    s.cluster = argc > 3 ? argv[2] : NULL;
    s.script = argc > 3 ? argv[3] : NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_site(&s, argv[1]);
    for (size_t i = 0; i < s.n; i++) {
        printf("node %s\n", s.nodes[i].name);
        test_task(&s, i);
        test_big_log(&s, i);
        test_stop(&s, i);
        test_files(&s, i);
        test_bundle(&s, i);
        test_broken(&s, i, i == 0 ? kill_serve : cut_ssh);
    }
    if (s.cluster != NULL) {
        test_link_down(&s, 1);
        test_crash(&s, 2);
    }
    fr_exec_destroy(&s.ex);
    fr_nodes_destroy(s.all);
    fr_loop_destroy(&s.loop);
    while (s.events != NULL) {
        struct fr_exec_event *ev = s.events;

        s.events = ev->next;
        fr_exec_event_free(ev);
    }
    fr_buf_finish(&s.log);
    fr_remove_tree(s.dir, NULL);
    fr_arena_finish(&s.arena);
    return check_done();
}
