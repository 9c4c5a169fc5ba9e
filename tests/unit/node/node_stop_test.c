/*
 * Nothing of an attempt is left running: stop and time-out, what a command leaves behind, what a
 * killed supervisor leaves, what escaped from it. Real processes beneath a real serve.
 */
#include "engine/supervise/cgroup.h"
#include "tests/unit/node/node_client.h"

#include <errno.h>
#include <stdio.h>

static char home[] = "/tmp/node_stop.XXXXXX";

/* Ignores SIGTERM, double-forks, leaves the session and clears its environment. */
static const char stubborn[] =
    "trap '' TERM; (setsid sh -c 'trap \"\" TERM; (env -i sleep 1000) & sleep 1000' &) ; "
    "echo up; while :; do sleep 1; done";

static void test_stop(void)
{
    struct client c = client_open(home, "flownode", 4);
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

/* Before the limit of its job: it may save what it has, and its end is that of the limit. Without
 * a limit, and without notice, it is left alone. */
static void test_notice(void)
{
    static const struct {
        int64_t notice_ms, left_ms;
        enum fr_end_cause cause;
    } rows[] = {{3600000, 3600200, FR_END_TIME_LIMIT}, /* of so much left: in 200 ms */
                {3600000, 1000, FR_END_TIME_LIMIT},    /* less is left */
                {0, 200, FR_END_EXIT},
                {3600000, 0, FR_END_EXIT}};
    struct client c = client_open(home, "flownode", 12);
    struct fr_str words[3];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool told = rows[i].cause == FR_END_TIME_LIMIT;
        struct fr_msg m = sh_prepare(
            words,
            told ? "trap 'echo saved; exit 0' TERM; while :; do sleep 0.01; done" : "sleep 1",
            true);
        struct fr_ended e;

        m.prepare.request.notice_ms = rows[i].notice_ms;
        m.prepare.request.deadline_wall =
            rows[i].left_ms > 0 ? fr_sys.wall_ms() + rows[i].left_ms : 0;
        c.log.n = 0;
        client_send(&c, &m);
        client_attach(&c, m.prepare.attempt, 0);
        e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
        CHECK_INT(e.cause, rows[i].cause);
        CHECK(e.survivors.n == 0);
        client_await_bytes(&c, e.log_bytes);
        CHECK(i != 0 || strstr(c.log.p, "saved\n") != NULL); /* the second may have no trap yet */
    }
    CHECK_INT(client_close(&c, false), 0);
}

/* One that begins when its notice is due has a half of what is left, not of its notice. */
static void test_late_notice(void)
{
    struct client c = client_open(home, "flownode", 12);
    struct fr_str words[3];
    struct fr_msg m =
        sh_prepare(words, "trap '' TERM; echo up; while :; do sleep 0.01; done", true);
    struct fr_ended e;

    m.prepare.request.notice_ms = 3600000;
    m.prepare.request.deadline_wall = fr_sys.wall_ms() + 4000;
    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended; /* half an hour is too long */
    CHECK_INT(e.cause, FR_END_TIME_LIMIT);
    CHECK_INT(client_close(&c, false), 0);
}

/* A stop that comes in one piece with its prepare counts: the supervisor reads both at once. */
static void test_stop_behind_prepare(void)
{
    struct client c = client_open(home, "flownode", 4);
    struct fr_str words[3];
    struct fr_buf both = {0};

    for (int i = 0; i < 2; i++) { /* for a new supervisor, and for an idle one */
        struct fr_msg m = sh_prepare(words, "sleep 1000", true), stop = {.type = FR_MSG_STOP};
        stop.stop = (struct fr_stop){m.prepare.attempt, 0, 7, false};
        client_join(&c, m.prepare.run);
        CHECK(fr_msg_put(&m, &both, NULL) == FR_OK && fr_msg_put(&stop, &both, NULL) == FR_OK);
        CHECK(fr_write_full(c.to, both.p, both.n));
        fr_buf_finish(&both);
        struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
        CHECK(e.cause == FR_END_STOPPED && e.stop_cause == 7 && !e.launched);
    }
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
    struct client c = client_open(home, "flownode", 5);
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
    struct client c = client_open(home, "flownode", 8);
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
    struct client c = client_open(home, "flownode", 8);
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

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(home) == NULL)
        return EXIT_FAILURE;
    test_stop();
    test_stop_behind_prepare();
    test_leftovers();
    test_supervisor_killed();
    test_escaped();
    test_notice();
    test_late_notice();
    CHECK(fr_remove_tree(home, NULL) == FR_OK);
    return check_done();
}
