/*
 * A node with real processes: serve as a child of the test, supervisors and commands beneath it.
 * The same program is flownode for the shim's sake: `node_test shim --home DIR --attempt ID`.
 */
#include "engine/node/cgroup.h"
#include "engine/node/shim.h"
#include "tests/unit/node_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static const struct fr_id any = {{0}};

struct place {
    char home[256], self[256];
};

static struct place place;

static struct client open_client(uint64_t epoch)
{
    return client_open(place.home, place.self, epoch);
}

struct run_row {
    const char *name, *script;
    enum fr_end_cause cause;
    int code;
    const char *log;
};

static const struct run_row run_rows[] = {
    {"exit 0", "echo hello; echo again >&2", FR_END_EXIT, 0, "hello\nagain\n"},
    {"exit 3", "exit 3", FR_END_EXIT, 3, ""},
    {"signal", "kill -9 $$", FR_END_SIGNAL, 9, ""},
    {"kill 0 reaches its own group only", "kill -9 0", FR_END_SIGNAL, 9, ""},
    {"environment", "echo $A $B $S; test ${#FLOWRUN_ATTEMPT} = 32", FR_END_EXIT, 0, "2 b ***\n"},
    {"split secret", "printf hid; printf den; printf hidd; echo", FR_END_EXIT, 0, "***hidd\n"},
    {"input", "cat", FR_END_EXIT, 0, "in\nput"},
    {"background output", "(echo late) & wait; echo done", FR_END_EXIT, 0, "late\ndone\n"},
};

static void test_runs(void)
{
    struct client c = open_client(1);
    struct fr_str env[] = {FR_STR("A=1"), FR_STR("B=b"), FR_STR("A=2")},
                  secret[] = {FR_STR("S=hidden")};

    for (size_t i = 0; i < sizeof(run_rows) / sizeof(run_rows[0]); i++) {
        struct fr_str words[3];
        struct fr_msg m = sh_prepare(words, run_rows[i].script, true);
        check_row(run_rows[i].name);
        m.prepare.request.env = (struct fr_strs){env, 3};
        m.prepare.request.secret_env = (struct fr_strs){secret, 1};
        m.prepare.request.input = FR_STR("in\nput");
        c.log.n = 0;
        client_send(&c, &m);
        CHECK(client_expect(&c, FR_MSG_LAUNCHED, m.prepare.attempt).launched.pid > 1);
        client_attach(&c, m.prepare.attempt, 0);
        struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
        CHECK_INT(e.cause, run_rows[i].cause);
        CHECK_INT(e.code, run_rows[i].code);
        CHECK(e.launched && e.survivors.n == 0 && e.ended_ms >= e.launched_ms);
        client_await_bytes(&c, e.log_bytes);
        CHECK_TEXT(c.log.n > 0 ? c.log.p : "", run_rows[i].log);
        CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_ENDED);
        m = (struct fr_msg){.type = FR_MSG_ACK_END, .ack_end = {m.prepare.attempt}};
        client_send(&c, &m);
        CHECK_INT(client_status(&c, m.ack_end.attempt), FR_AT_UNKNOWN);
    }
    check_row("");
    CHECK_INT(client_close(&c, false), 0);
}

static char vmstat[300];

static int open_vmstat(const char *path, int flags, mode_t mode)
{
    return fr_sys_real.open(strcmp(path, "/proc/vmstat") == 0 ? vmstat : path, flags, mode);
}

#define GROW "printf 'x 1\\noom_kill %s\\n' $N > $VM; "

/* The kernel's count grows within the first milliseconds of a command that says nothing. */
static void test_oom(void)
{
    static const struct run_row rows[] = {
        {"killed, none for memory", "kill -9 $$", FR_END_SIGNAL, 9, ""},
        {"killed for memory", GROW "kill -9 $$", FR_END_OOM, 9, ""},
        {"none for memory again", "kill -9 $$", FR_END_SIGNAL, 9, ""},
        {"what a shell tells", GROW "sh -c 'kill -9 $$'; exit $?", FR_END_OOM, 137, ""},
        {"another program was killed", GROW "exit 1", FR_END_EXIT, 1, ""},
    };
    struct client c;
    struct fr_err err;

    snprintf(vmstat, sizeof(vmstat), "%s.vmstat", place.home);
    CHECK(fr_file_write(vmstat, "x 1\noom_kill 3\n", 16, 0600, &err) == FR_OK);
    fr_sys.open = open_vmstat; /* serve and its supervisors are forked from here */
    c = open_client(21);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_str words[3], env[2];
        struct fr_msg m = sh_prepare(words, rows[i].script, true);
        char n[16], vm[320];

        check_row(rows[i].name);
        snprintf(n, sizeof(n), "N=%zu", i + 10);
        snprintf(vm, sizeof(vm), "VM=%s", vmstat);
        env[0] = fr_str_of(n);
        env[1] = fr_str_of(vm);
        m.prepare.request.env = (struct fr_strs){env, 2};
        client_send(&c, &m);
        struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
        CHECK_INT(e.cause, rows[i].cause);
        CHECK_INT(e.code, rows[i].code);
    }
    check_row("");
    fr_sys.open = fr_sys_real.open;
    CHECK_INT(client_close(&c, false), 0);
    unlink(vmstat);
}

static void test_outputs(void)
{
    struct client c = open_client(2);
    struct fr_str words[3], names[] = {FR_STR("k"), FR_STR("block")};
    struct fr_msg m = sh_prepare(words,
                                 "printf 'k=v=w\\nblock<<E\\na\\nb\\nE\\n' > $FLOWRUN_OUTPUT; "
                                 "test -d $FLOWRUN_DIR",
                                 true);

    m.prepare.request.outputs = (struct fr_strs){names, 2};
    client_send(&c, &m);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.code == 0 && e.outputs.n == 2 && e.text.n == 0);
    if (e.outputs.n == 2) {
        CHECK_TEXT(e.outputs.v[0].p, "k=v=w");
        CHECK_TEXT(e.outputs.v[1].p, "block=a\nb");
    }
    m = sh_prepare(words, "rm $FLOWRUN_OUTPUT; ln -s /etc/passwd $FLOWRUN_OUTPUT", true);
    m.prepare.request.outputs = (struct fr_strs){names, 2};
    client_send(&c, &m);
    e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.outputs.n == 0 && e.text.n > 0);
    CHECK_INT(client_close(&c, false), 0);
}

static void test_gang_phases(void)
{
    struct client c = open_client(3);
    struct fr_str words[3], env[] = {FR_STR("MASTER_PORT=1234")};
    struct fr_msg m = sh_prepare(words, "echo port $MASTER_PORT", false), m2;

    m.prepare.request.port = FR_PORT_ANY;
    client_send(&c, &m);
    struct fr_prepared p = client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared;
    CHECK(p.rc == FR_OK && p.port > 0);
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_PREPARED);
    /* the port it holds is busy for another */
    m2 = sh_prepare(words, "true", false);
    m2.prepare.request.port = (int32_t)p.port;
    client_send(&c, &m2);
    CHECK_INT(client_expect(&c, FR_MSG_PREPARED, m2.prepare.attempt).prepared.rc, FR_BUSY);
    CHECK_INT(client_status(&c, m2.prepare.attempt), FR_AT_TOMBSTONED);
    m2 = (struct fr_msg){.type = FR_MSG_GO, .go = {m.prepare.attempt, {env, 1}}};
    client_attach(&c, m.prepare.attempt, 0);
    client_send(&c, &m2);
    client_expect(&c, FR_MSG_LAUNCHED, m.prepare.attempt);
    CHECK_INT(client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended.code, 0);
    client_await_log(&c, "port 1234\n");
    /* stopped before go: it never ran */
    m = sh_prepare(words, "echo never", false);
    client_send(&c, &m);
    client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt);
    client_stop(&c, m.prepare.attempt, 1000);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_STOPPED && e.stop_cause == 7 && !e.launched);
    CHECK_INT(client_close(&c, false), 0);
}

/* The command that was told a port has not bound it yet: nobody else is given it meanwhile. */
static void test_ports(void)
{
    struct client c = open_client(3);
    struct fr_str words[3];
    struct fr_msg holder = sh_prepare(words, "exec sleep 1000", false), m;

    holder.prepare.request.port = FR_PORT_ANY;
    client_send(&c, &holder);
    uint32_t port = client_expect(&c, FR_MSG_PREPARED, holder.prepare.attempt).prepared.port;
    m = (struct fr_msg){.type = FR_MSG_GO, .go = {.attempt = holder.prepare.attempt}};
    client_send(&c, &m);
    client_expect(&c, FR_MSG_LAUNCHED, holder.prepare.attempt);
    for (uint32_t more = 0; more <= 100; more += 100) {
        m = sh_prepare(words, "true", false);
        m.prepare.request.port = (int32_t)port;
        m.prepare.request.ports_more = more;
        client_send(&c, &m);
        struct fr_prepared p = client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared;
        CHECK_INT(p.rc, more == 0 ? FR_BUSY : FR_OK);
        CHECK(more == 0 || (p.port > port && p.port <= port + more));
    }
    client_stop(&c, holder.prepare.attempt, 100);
    client_expect(&c, FR_MSG_ENDED, holder.prepare.attempt);
    CHECK_INT(client_close(&c, false), 0);
}

/* Ignores SIGTERM, double-forks, leaves the session and clears its environment. */
static const char stubborn[] =
    "trap '' TERM; (setsid sh -c 'trap \"\" TERM; (env -i sleep 1000) & sleep 1000' &) ; "
    "echo up; while :; do sleep 1; done";

static void test_stop(void)
{
    struct client c = open_client(4);
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, stubborn, true);
    struct fr_ended e;

    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    client_await_log(&c, "up\n");
    client_stop(&c, m.prepare.attempt, 100);
    e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_STOPPED && e.stop_cause == 7 && e.survivors.n == 0);
    CHECK_INT(processes_of(m.prepare.attempt), 0);
    /* the same by time-out */
    m = sh_prepare(words, stubborn, true);
    m.prepare.request.timeout_ms = 300;
    m.prepare.request.grace_ms = 50;
    client_send(&c, &m);
    e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_TIMEOUT && e.survivors.n == 0);
    CHECK_INT(processes_of(m.prepare.attempt), 0);
    /* SIGTERM once: the command may end itself with what it likes */
    m = sh_prepare(words, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done",
                   true);
    c.log.n = 0;
    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    client_await_log(&c, "ready\n");
    client_stop(&c, m.prepare.attempt, 60000);
    e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_STOPPED && e.code == 0);
    client_await_bytes(&c, e.log_bytes);
    CHECK(strstr(c.log.p, "bye\n") != NULL);
    CHECK_INT(client_close(&c, false), 0);
}

static void kill_marked(struct fr_id id)
{
    struct fr_procinfo *list;
    char text[FR_ID_TEXT];
    size_t n;

    fr_id_text(id, text);
    CHECK(fr_sys.procs(&list, &n) == 0);
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].marker, text) == 0)
            fr_sys.kill(list[i].proc, SIGKILL);
    fr_sys.free(list);
}

/* Children left behind by a command that ended are stopped, too. */
static void test_leftovers(void)
{
    struct client c = open_client(5);
    struct fr_str words[3];
    struct fr_msg m =
        sh_prepare(words, "setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & exit 5", true);

    m.prepare.request.grace_ms = 50;
    client_send(&c, &m);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_EXIT && e.code == 5 && e.survivors.n == 0);
    CHECK_INT(processes_of(m.prepare.attempt), 0);
    /* unless it may leave them: they go on until somebody stops them */
    m = sh_prepare(words, "setsid sleep 1000 >/dev/null 2>&1 &", true);
    m.prepare.request.leaves = true;
    client_send(&c, &m);
    e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_EXIT && e.code == 0 && e.survivors.n == 0);
    CHECK_INT(processes_of(m.prepare.attempt), 1);
    kill_marked(m.prepare.attempt);
    CHECK_INT(client_close(&c, false), 0);
}

/* serve is killed in the middle: the command goes on, and a new connection gets the rest. */
static void test_serve_killed(void)
{
    struct client c = open_client(6);
    char script[512], go[300];
    struct fr_str words[3];

    snprintf(go, sizeof(go), "%s/go", place.home);
    snprintf(script, sizeof(script), "echo one; while ! test -e %s; do sleep 0.01; done; echo two",
             go);
    struct fr_msg m = sh_prepare(words, script, true);
    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    client_await_log(&c, "one\n");
    uint64_t have = c.log.n;
    struct fr_hello first = c.node;
    client_close(&c, true);

    c = open_client(7);
    CHECK(fr_id_eq(first.home, c.node.home));
    /* a repeated prepare starts nothing */
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, m.prepare.attempt).state.status, FR_AT_RUNNING);
    client_attach(&c, m.prepare.attempt, have);
    close(open(go, O_CREAT | O_WRONLY, 0600));
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_EXIT && e.code == 0);
    client_await_bytes(&c, e.log_bytes - have);
    CHECK_TEXT(c.log.p, "two\n");
    unlink(go);
    CHECK_INT(client_close(&c, false), 0);
}

static pid_t supervisor_of(uint32_t child)
{
    struct fr_procinfo *list;
    size_t n;
    pid_t parent = 0;

    CHECK(fr_sys.procs(&list, &n) == 0);
    for (size_t i = 0; i < n; i++)
        if (list[i].proc.pid == (pid_t)child)
            parent = list[i].ppid;
    fr_sys.free(list);
    return parent;
}

/* The supervisor is killed: what it left is stopped before the attempt is called lost. */
static void test_supervisor_killed(void)
{
    struct client c = open_client(8);
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "trap '' TERM; echo up; while :; do sleep 1; done", true);

    client_send(&c, &m);
    struct fr_launched l = client_expect(&c, FR_MSG_LAUNCHED, m.prepare.attempt).launched;
    client_attach(&c, m.prepare.attempt, 0);
    client_await_log(&c, "up\n");
    pid_t sup = supervisor_of(l.pid);
    CHECK(sup > 1 && sup != c.pid);
    kill(sup, SIGKILL);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_LOST && e.survivors.n == 0 && e.launched);
    CHECK_INT(processes_of(m.prepare.attempt), 0);
    CHECK_INT(client_close(&c, false), 0);
}

enum { CGROUP_PATH = 2 * FR_NODE_PATH };

/* The cgroup of a process below the one that this test is in, as a folder; false: it is in none. */
static bool cgroup_of(pid_t pid, const char *own, char out[CGROUP_PATH])
{
    struct fr_buf text = {0};
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    CHECK_INT(fr_file_read(path, 1 << 20, &text, NULL), FR_OK);
    const char *p = text.p != NULL ? strstr(text.p, "/flowrun-") : NULL;
    if (p != NULL)
        snprintf(out, CGROUP_PATH, "%s%.*s", own, (int)strcspn(p, "\n"), p);
    fr_buf_finish(&text);
    return p != NULL;
}

static bool cgroups_can_be_made(char own[FR_NODE_PATH])
{
    char path[FR_NODE_PATH], file[FR_NODE_PATH + 16];

    if (!fr_cgroup_own(own))
        return false;
    fr_cgroup_path(fr_str_of(own), new_id(), path);
    if (mkdir(path, 0755) != 0)
        return false;
    snprintf(file, sizeof(file), "%s/cgroup.kill", path);
    bool can = access(file, W_OK) == 0;
    rmdir(path);
    return can;
}

static bool is_alive(pid_t pid)
{
    struct fr_procinfo *list;
    size_t n;
    bool alive = false;

    CHECK(fr_sys.procs(&list, &n) == 0);
    for (size_t i = 0; i < n; i++)
        alive = alive || (list[i].proc.pid == pid && list[i].state != 'Z');
    fr_sys.free(list);
    return alive;
}

/* Killed with its supervisor as it is, a process without parents that is in another session and has
 * another environment can be found by its cgroup alone. */
static void test_escaped(void)
{
    char own[FR_NODE_PATH], cgroup[CGROUP_PATH];
    struct fr_str words[3];

    if (!cgroups_can_be_made(own)) {
        printf("no cgroup can be made here: what escapes from a killed supervisor is not tested\n");
        return;
    }
    struct client c = open_client(8);
    struct fr_msg m = sh_prepare(words,
                                 "(setsid env -i /bin/sh -c 'trap \"\" TERM; echo $$; "
                                 "while :; do sleep 1; done' &); while :; do sleep 1; done",
                                 true);

    client_send(&c, &m);
    struct fr_launched l = client_expect(&c, FR_MSG_LAUNCHED, m.prepare.attempt).launched;
    client_attach(&c, m.prepare.attempt, 0);
    client_await_log(&c, "\n");
    pid_t sup = supervisor_of(l.pid), escaped = (pid_t)strtol(c.log.p, NULL, 10);
    CHECK(escaped > 1 && is_alive(escaped));
    if (CHECK(cgroup_of(sup, own, cgroup)))
        CHECK(access(cgroup, F_OK) == 0);
    kill(sup, SIGKILL);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_LOST && e.survivors.n == 0);
    if (!CHECK(!is_alive(escaped)))
        kill(escaped, SIGKILL);
    CHECK(access(cgroup, F_OK) != 0 && errno == ENOENT);
    CHECK_INT(client_close(&c, false), 0);
}

static void test_tombstone_and_busy(void)
{
    struct client c = open_client(9);
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "sleep 1000", true), m2 = m;
    struct fr_msg t = {.type = FR_MSG_TOMBSTONE, .tombstone = {new_id()}};

    client_send(&c, &t);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, t.tombstone.attempt).state.status, FR_AT_TOMBSTONED);
    m2.prepare.attempt = t.tombstone.attempt; /* too late: it does nothing */
    client_send(&c, &m2);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, t.tombstone.attempt).state.status, FR_AT_TOMBSTONED);
    client_send(&c, &m);
    client_expect(&c, FR_MSG_LAUNCHED, m.prepare.attempt);
    t.tombstone.attempt = m.prepare.attempt; /* it did start: no tombstone */
    client_send(&c, &t);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, m.prepare.attempt).state.status, FR_AT_RUNNING);
    m2.prepare.attempt = new_id(); /* same run and instance */
    client_send(&c, &m2);
    struct fr_busy b = client_expect(&c, FR_MSG_BUSY, m2.prepare.attempt).busy;
    CHECK(fr_id_eq(b.other, m.prepare.attempt) && b.generation == 1 &&
          fr_str_is(b.spec_hash, "hash"));
    client_stop(&c, m.prepare.attempt, 0);
    client_expect(&c, FR_MSG_ENDED, m.prepare.attempt);
    client_send(&c, &m2);
    client_expect(&c, FR_MSG_LAUNCHED, m2.prepare.attempt);
    client_stop(&c, m2.prepare.attempt, 0);
    client_expect(&c, FR_MSG_ENDED, m2.prepare.attempt);
    CHECK_INT(client_close(&c, false), 0);
}

static void test_epochs(void)
{
    struct client older = open_client(10), newer;
    struct fr_msg f = {.type = FR_MSG_FACTS, .facts = {5}};

    client_send(&older, &f);
    CHECK(client_expect(&older, FR_MSG_FACTS_ARE, any).facts_are.facts.n > 8);
    newer = open_client(11);
    client_send(&newer, &f);
    client_expect(&newer, FR_MSG_FACTS_ARE, any);
    client_send(&older, &f); /* refused: a newer connection has the node */
    CHECK_INT(client_expect(&older, FR_MSG_ERROR, any).error.rc, FR_BUSY);
    CHECK_INT(client_close(&older, false), 1);
    CHECK_INT(client_close(&newer, false), 0);
}

static void test_failures(void)
{
    struct client c = open_client(12);
    struct fr_str words[3], file[] = {FR_STR("nothing/here")};
    struct fr_file_want want = {file[0], FR_STR("x"), 0600};
    struct fr_msg m = sh_prepare(words, "true", true);

    words[0] = FR_STR("/no/such/program");
    client_send(&c, &m);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_START_FAILED && !e.launched && strstr(e.text.p, "/no/such/program"));
    m = sh_prepare(words, "true", true);
    m.prepare.request.files = (struct fr_file_wants){&want, 1};
    client_send(&c, &m);
    struct fr_prepared p = client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared;
    CHECK(p.rc == FR_NOTFOUND && strstr(p.text.p, "nothing/here"));
    m = sh_prepare(words, "sleep 1000", true);
    m.prepare.request.lease_ms = 200;
    client_send(&c, &m);
    e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_LEASE && e.survivors.n == 0);
    CHECK_INT(client_close(&c, false), 0);
}

static void test_log_limits(void)
{
    struct client c = open_client(13);
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "yes 1234567 | head -c 800000; echo END", true);

    m.prepare.request.log_max_bytes = 20000;
    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    client_await_bytes(&c, e.log_bytes);
    CHECK(e.log_bytes > 20000 && e.log_bytes < 20100);
    CHECK_INT(e.dropped_bytes, 800004 - 20000);
    CHECK(strstr(c.log.p, "[flowrun: 780004 bytes dropped]\n") != NULL);
    CHECK(c.log.n > 4 && strcmp(c.log.p + c.log.n - 4, "END\n") == 0);
    m = sh_prepare(words, "yes 1234567 | head -c 800000", true);
    m.prepare.request.log_max_bytes = 20000;
    m.prepare.request.log_on_full = FR_LOG_STOP;
    client_send(&c, &m);
    c.log.n = 0;
    client_attach(&c, m.prepare.attempt, 0);
    e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    client_await_bytes(&c, e.log_bytes);
    CHECK(e.log_bytes > 20000 && e.dropped_bytes == 780000);
    CHECK_TEXT(c.log.n > 20000 ? c.log.p + 20000 : "", "\n[flowrun: 780000 bytes dropped]\n");
    CHECK_INT(client_close(&c, false), 0);
}

/* A file comes in pieces, cut once by a lost connection, is used by an attempt and got back. */
static void test_files(void)
{
    enum { N = 50000 };
    char *data = malloc(N), hash[FR_SHA256_TEXT];
    struct client c = open_client(14);
    struct fr_buf back = {0};
    struct fr_msg m = {.type = FR_MSG_PUT_BEGIN}, d = {.type = FR_MSG_PUT_DATA}, got;
    struct fr_file_want want = {FR_STR("files/a"), FR_STR("in/a"), 0700};
    struct fr_str words[3];

    for (int i = 0; i < N; i++)
        data[i] = (char)(i * 7 + i / 256);
    fr_sha256(data, N, hash);
    m.put_begin = (struct fr_put_begin){1, FR_STR("files/a"), fr_str_of(hash), N, 0755};
    client_send(&c, &m);
    CHECK_INT(client_expect(&c, FR_MSG_PUT_STATE, any).put_state.offset, 0);
    d.put_data = (struct fr_put_data){1, 0, {data, 16000}};
    client_send(&c, &d);
    got = (struct fr_msg){.type = FR_MSG_FACTS, .facts = {2}};
    client_send(&c, &got); /* answered in order: the data was taken */
    client_expect(&c, FR_MSG_FACTS_ARE, any);
    client_close(&c, true);

    c = open_client(15);
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
    snprintf(path, sizeof(path), "a/%s", id);
    got = (struct fr_msg){.type = FR_MSG_LIST, .list = {4, fr_str_of(path)}};
    client_send(&c, &got);
    struct fr_listing list = client_expect(&c, FR_MSG_LISTING, any).listing;
    CHECK(list.files.n == 2 && strstr(list.files.v[0].p, "50000 644 copy") == list.files.v[0].p);
    snprintf(path, sizeof(path), "a/%s/copy", id);
    got = (struct fr_msg){.type = FR_MSG_GET, .get = {3, fr_str_of(path), 100, 0}};
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

/* Sends m and a ping in one piece; the ping must be answered first. */
static void answered_beside(struct client *c, const struct fr_msg *m)
{
    struct fr_msg ping = {.type = FR_MSG_PING, .ping = {42}}, got = {.type = FR_MSG_CREDIT};
    struct fr_buf b = {0};
    struct fr_err err;

    CHECK(fr_msg_put(m, &b, &err) == FR_OK && fr_msg_put(&ping, &b, &err) == FR_OK);
    CHECK(fr_write_full(c->to, b.p, b.n));
    fr_buf_finish(&b);
    while (got.type == FR_MSG_CREDIT)
        got = client_next(c);
    CHECK_INT(got.type, FR_MSG_PONG);
}

/* A file is hashed in slices: when it came, and when it is to be sent and may be there already. */
static void test_put_beside(void)
{
    enum { N = 3 << 20, PIECE = 16000 };
    char *data = calloc(1, N), hash[FR_SHA256_TEXT];
    struct client c = open_client(15);
    struct fr_msg m = {.type = FR_MSG_PUT_BEGIN}, d = {.type = FR_MSG_PUT_DATA},
                  end = {.type = FR_MSG_PUT_END, .put_end = {1}};
    struct fr_put_state state;

    fr_sha256(data, N, hash);
    m.put_begin = (struct fr_put_begin){1, FR_STR("files/large"), fr_str_of(hash), N, 0644};
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

/* The same file on two ways at once, as over a connection and the one that took its place. */
static void test_file_twice(void)
{
    struct client c = open_client(16);
    struct fr_msg m = {.type = FR_MSG_PUT_BEGIN}, end = {.type = FR_MSG_PUT_END};
    char hash[FR_SHA256_TEXT];

    fr_sha256("right", 5, hash);
    m.put_begin = (struct fr_put_begin){1, FR_STR("files/c"), fr_str_of(hash), 5, 0600};
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
    struct client c = open_client(16);
    char hash[FR_SHA256_TEXT];

    fr_sha256("right", 5, hash);
    for (size_t i = 0; i < sizeof(put_rows) / sizeof(put_rows[0]); i++) {
        struct fr_msg m = {.type = FR_MSG_PUT_BEGIN};
        check_row(put_rows[i].name);
        m.put_begin =
            (struct fr_put_begin){i + 1, fr_str_of(put_rows[i].path), fr_str_of(hash), 5, 0600};
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

static void test_sidecar(void)
{
    struct client c = open_client(17);
    struct fr_str words[3],
        side[] = {FR_STR("/bin/sh"), FR_STR("-c"),
                  FR_STR("echo side up; touch up; trap 'echo side bye; exit' TERM; "
                         "while :; do sleep 0.01; done")};
    struct fr_sidecar car = {FR_STR("janitor"), {side, 3}, {NULL, 0}, {"", 0}};
    struct fr_msg m = sh_prepare(words, "while ! test -e up; do sleep 0.01; done; echo main", true);

    m.prepare.request.want_dir = true;
    m.prepare.request.grace_ms = 10000;
    m.prepare.request.sidecars = (struct fr_sidecars){&car, 1};
    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_EXIT && e.code == 0 && e.survivors.n == 0);
    client_await_bytes(&c, e.log_bytes);
    CHECK(strstr(c.log.p, "[janitor] side up\n") && strstr(c.log.p, "[janitor] side bye\n"));
    CHECK(strstr(c.log.p, "main\n") != NULL);
    CHECK_INT(processes_of(m.prepare.attempt), 0);
    CHECK_INT(client_close(&c, false), 0);
}

/* A runtime that is a script: `exec -d NAME COMMAND…` in the background, as a real one would. */
static void test_shim(void)
{
    char runtime[300], script[] = "#!/bin/sh\nshift 3\n\"$@\" </dev/null >/dev/null 2>&1 &\n";
    struct client c = open_client(18);
    struct fr_str words[3], secret[] = {FR_STR("S=hidden")};
    struct fr_msg m = sh_prepare(words, "echo in $S; exit 4", true);
    struct fr_err err;

    snprintf(runtime, sizeof(runtime), "%s/runtime", place.home);
    CHECK(fr_file_write(runtime, script, sizeof(script) - 1, 0700, &err) == FR_OK);
    m.prepare.request.secret_env = (struct fr_strs){secret, 1};
    m.prepare.request.container = (struct fr_container){
        fr_str_of(runtime), FR_STR("box"), fr_str_of(place.self), fr_str_of(place.home)};
    client_send(&c, &m);
    client_expect(&c, FR_MSG_LAUNCHED, m.prepare.attempt);
    client_attach(&c, m.prepare.attempt, 0);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_EXIT && e.code == 4);
    client_await_bytes(&c, e.log_bytes);
    CHECK_TEXT(c.log.p, "in ***\n");
    m = sh_prepare(words, "true", true);
    m.prepare.request.container = (struct fr_container){
        FR_STR("/bin/false"), FR_STR("box"), fr_str_of(place.self), fr_str_of(place.home)};
    client_send(&c, &m);
    struct fr_prepared p = client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared;
    CHECK(p.rc != FR_OK && strstr(p.text.p, "exec ended with status 1") != NULL);
    CHECK_INT(client_close(&c, false), 0);
}

/* A torn record in the journal costs that record alone. */
static void test_torn_journal(void)
{
    struct client c = open_client(19);
    struct fr_id home = c.node.home;
    char path[300];
    int fd;

    CHECK_INT(client_close(&c, false), 0);
    snprintf(path, sizeof(path), "%s/journal", place.home);
    fd = open(path, O_WRONLY | O_APPEND);
    CHECK(write(fd, "FRJ1\x40\0\0\0torn", 12) == 12);
    close(fd);
    c = open_client(20);
    CHECK(fr_id_eq(home, c.node.home));
    CHECK_INT(client_close(&c, false), 0);
    c = open_client(19); /* refused: the record behind the torn one counts */
    CHECK_INT(client_expect(&c, FR_MSG_ERROR, any).error.rc, FR_BUSY);
    CHECK_INT(client_close(&c, false), 1);
}

static int shim_main(char **argv)
{
    struct fr_shim_args a = {
        .home = argv[3], .self = place.self, .environ = (const char *const *)environ};
    struct fr_err err;

    return fr_id_parse(fr_str_of(argv[5]), &a.attempt) && fr_shim(&a, &err) == FR_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    char cleanup[300];
    struct fr_err err;
    ssize_t n = readlink("/proc/self/exe", place.self, sizeof(place.self) - 1);

    signal(SIGPIPE, SIG_IGN);
    if (n > 0 && argc == 6 && strcmp(argv[1], "shim") == 0)
        return shim_main(argv);
    snprintf(place.home, sizeof(place.home), "/tmp/node_test.%d", (int)getpid());
    test_runs();
    test_outputs();
    test_gang_phases();
    test_ports();
    test_stop();
    test_leftovers();
    test_serve_killed();
    test_supervisor_killed();
    test_escaped();
    test_tombstone_and_busy();
    test_epochs();
    test_failures();
    test_log_limits();
    test_files();
    test_put_beside();
    test_file_twice();
    test_bad_files();
    test_sidecar();
    test_shim();
    test_torn_journal();
    test_oom();
    snprintf(cleanup, sizeof(cleanup), "%s", place.home);
    CHECK(fr_remove_tree(cleanup, &err) == FR_OK);
    return check_done();
}
