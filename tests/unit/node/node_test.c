/*
 * A node with real processes, serve as a child of the test: how an attempt begins, runs and is told
 * of, its gang, its ports, its container; and how one connection follows the other. The same
 * program is flownode for the shim's sake: `node_test shim --home DIR --attempt ID`.
 */
#include "engine/supervise/home.h"
#include "engine/node/shim.h"
#include "tests/unit/node/node_client.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

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

/* One after the other on one connection, so that a supervisor goes on to the next with the folder
 * of the last. */
static const char *const folder_rows[] = {
    "",
    "",
    "touch x .y",
    "",
    "mkdir -p sub/sub",
    "chmod 0555 .",
    "",
    "rm -rf ./*; rmdir $PWD",
    "",
    "rm -rf \"$FLOWRUN_DIR\"/*; echo k=1 > journal; echo x > ../journal",
    "",
};

/* Each attempt starts in an empty folder of its own, whatever the one before did to its own. */
static void test_folders(void)
{
    const char *first = "test -z \"$(ls -A)\" -a \"$PWD\" = \"$FLOWRUN_DIR\" -a \"$TMPDIR\" = "
                        "\"$PWD\" -a \"$(stat -c %a .)\" = 700 -a \"${PWD##*/}\" = "
                        "\"$FLOWRUN_ATTEMPT\" || exit 9; ";
    struct client c = open_client(2);

    for (size_t i = 0; i < sizeof(folder_rows) / sizeof(folder_rows[0]); i++) {
        struct fr_str words[3];
        char script[500];
        snprintf(script, sizeof(script), "%s%s\nexit 0", first, folder_rows[i]);
        struct fr_msg m = sh_prepare(words, script, true);
        check_row(folder_rows[i]);
        client_send(&c, &m);
        struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
        CHECK(e.cause == FR_END_EXIT && e.code == 0 && e.text.n == 0);
    }
    check_row("");
    CHECK_INT(client_close(&c, false), 0);
}

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
        CHECK(e.launched_boot_ms > 0 && e.ended_boot_ms >= e.launched_boot_ms &&
              e.sent_boot_ms >= e.ended_boot_ms);
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

/* The times of a log cannot be written: its lines have that of their launch. */
static void test_timeless(void)
{
    struct client c = open_client(1);
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "echo a line", true), got;
    char index[FR_NODE_PATH];

    fr_home_path(place.home, FR_HOME_INDEX, m.prepare.attempt, index);
    CHECK(mkdir(index, 0700) == 0);
    client_send(&c, &m);
    int64_t launched = client_expect(&c, FR_MSG_LAUNCHED, m.prepare.attempt).launched.mono_ms;
    client_attach(&c, m.prepare.attempt, 0);
    got = client_expect(&c, FR_MSG_LOG, m.prepare.attempt);
    CHECK(got.log.bytes.n > 0 && got.log.mono_ms == launched && launched > 0);
    client_expect(&c, FR_MSG_ENDED, m.prepare.attempt);
    rmdir(index);
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

    snprintf(vmstat, sizeof(vmstat), "%s.vmstat", place.home);
    CHECK(fr_file_write(vmstat, "x 1\noom_kill 3\n", 16, 0600, NULL) == FR_OK);
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

/* What a gang's member said to a connection before that asked after it is said again. */
static void test_gang_asked_late(void)
{
    struct client c = open_client(4);
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "true", false), query = {.type = FR_MSG_QUERY};

    m.prepare.request.port = FR_PORT_ANY;
    client_send(&c, &m);
    uint32_t port = client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared.port;
    client_close(&c, true);

    c = open_client(5);
    client_join(&c, m.prepare.run);
    client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt);
    query.query.attempts = (struct fr_ids){&m.prepare.attempt, 1};
    client_send(&c, &query);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, m.prepare.attempt).state.status, FR_AT_PREPARED);
    struct fr_prepared p = client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared;
    CHECK(p.rc == FR_OK && p.port == port);
    client_stop(&c, m.prepare.attempt, 100);
    client_expect(&c, FR_MSG_ENDED, m.prepare.attempt);
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
    CHECK(e.cause == FR_END_NODE_LOST && e.survivors.n == 0);
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

static void test_sidecar(void)
{
    struct client c = open_client(17);
    struct fr_str words[3],
        side[] = {FR_STR("/bin/sh"), FR_STR("-c"),
                  FR_STR("trap 'echo side bye; exit' TERM; echo side up; touch up; "
                         "while :; do sleep 0.01; done")};
    struct fr_sidecar car = {FR_STR("janitor"), {side, 3}, {NULL, 0}, {"", 0}};
    struct fr_msg m = sh_prepare(words, "while ! test -e up; do sleep 0.01; done; echo main", true);

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
    char runtime[300], work[300],
        script[] = "#!/bin/sh\nshift 3\nHOME=/of/the/container\n"
                   "\"$@\" </dev/null >/dev/null 2>&1 &\n";
    struct client c = open_client(18);
    const char *home = getenv("HOME");
    struct fr_str words[3], secret[] = {FR_STR("S=hidden")}, env[2] = {FR_STR("FLOWRUN_WORK=~/w")};
    struct fr_msg m = sh_prepare(words,
                                 "test \"$PWD\" = \"$FLOWRUN_DIR\" -a \"$TMPDIR\" = \"$PWD\" -a "
                                 "\"$FLOWRUN_WORK\" = \"$WANT\" && echo in $S; exit 4",
                                 true);

    /* the work folder is below the home outside, where it has the same path */
    snprintf(work, sizeof(work), "WANT=%s/w", home != NULL && home[0] == '/' ? home : "~");
    env[1] = fr_str_of(work);
    m.prepare.request.env = (struct fr_strs){env, 2};
    snprintf(runtime, sizeof(runtime), "%s/runtime", place.home);
    CHECK(fr_file_write(runtime, script, sizeof(script) - 1, 0700, NULL) == FR_OK);
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

static size_t lines_of(const char *name)
{
    char path[300];
    struct fr_buf b = {0};
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/%s", place.home, name);
    CHECK(fr_file_read(path, 1 << 20, &b, NULL) == FR_OK);
    for (size_t i = 0; i < b.n; i++)
        n += b.p[i] == '\n';
    fr_buf_finish(&b);
    return n;
}

/* With descriptors for four attempts, the fifth waits for its turn. What the engine says of one
 * that waits counts: go, stop, tombstone, and the same prepare again. */
static void test_few_descriptors(void)
{
    enum { N = 12, AT_ONCE = 4, STOPPED = 6, BURIED = 7, HELD = 8 };
    struct fr_msg m[N], go = {.type = FR_MSG_GO}, tomb = {.type = FR_MSG_TOMBSTONE};
    struct fr_str words[N][3];
    char script[700], gate[300];
    int fd;

    snprintf(gate, sizeof(gate), "%s/gate", place.home);
    CHECK(mkfifo(gate, 0600) == 0);
    snprintf(script, sizeof(script), "echo x >> %s/started; read x < %s; echo up", place.home,
             gate);
    struct client c = client_begin(&(struct client_args){
        .home = place.home, .self = place.self, .epoch = 22, .descriptors = 24 + 3 * AT_ONCE});
    for (int i = 0; i < N; i++) {
        m[i] = sh_prepare(words[i], script, i != HELD);
        client_send(&c, &m[i]);
    }
    for (int i = 0; i < AT_ONCE; i++)
        client_expect(&c, FR_MSG_LAUNCHED, any);
    for (int i = AT_ONCE; i < N; i++)
        CHECK_INT(client_status(&c, m[i].prepare.attempt), FR_AT_PREPARED);
    CHECK_INT(lines_of("started"), AT_ONCE);
    client_stop(&c, m[STOPPED].prepare.attempt, 0);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, m[STOPPED].prepare.attempt).state.status,
              FR_AT_TOMBSTONED);
    tomb.tombstone.attempt = m[BURIED].prepare.attempt;
    client_send(&c, &tomb);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, m[BURIED].prepare.attempt).state.status,
              FR_AT_TOMBSTONED);
    client_send(&c, &m[AT_ONCE]);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, m[AT_ONCE].prepare.attempt).state.status,
              FR_AT_PREPARED);
    go.go.attempt = m[HELD].prepare.attempt;
    client_send(&c, &go);
    fd = open(gate, O_RDWR);
    for (int i = 0; i < N - 2; i++) /* for each of those that run */
        CHECK(write(fd, "\n", 1) == 1);
    for (int i = 0; i < N - 2; i++) { /* in any order */
        struct fr_ended e = client_expect(&c, FR_MSG_ENDED, any).ended;
        CHECK(e.cause == FR_END_EXIT && e.code == 0 && e.log_bytes == 3);
    }
    close(fd);
    CHECK_INT(lines_of("started"), N - 2);
    CHECK_INT(client_close(&c, false), 0);
}

static int shim_main(char **argv)
{
    struct fr_shim_args a = {
        .home = argv[3], .self = place.self, .environ = (const char *const *)environ};

    return fr_id_parse(fr_str_of(argv[5]), &a.attempt) && fr_shim(&a, NULL) == FR_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    char cleanup[300];
    ssize_t n = readlink("/proc/self/exe", place.self, sizeof(place.self) - 1);

    signal(SIGPIPE, SIG_IGN);
    if (n > 0 && argc == 6 && strcmp(argv[1], "shim") == 0)
        return shim_main(argv);
    snprintf(place.home, sizeof(place.home), "/tmp/node_test.%d", (int)getpid());
    test_runs();
    test_timeless();
    test_folders();
    test_outputs();
    test_gang_phases();
    test_ports();
    test_gang_asked_late();
    test_serve_killed();
    test_tombstone_and_busy();
    test_epochs();
    test_failures();
    test_log_limits();
    test_sidecar();
    test_shim();
    test_torn_journal();
    test_oom();
    test_few_descriptors();
    snprintf(cleanup, sizeof(cleanup), "%s", place.home);
    CHECK(fr_remove_tree(cleanup, NULL) == FR_OK);
    return check_done();
}
