/*
 * Races on a node, each made to happen at its one moment: a record that another process writes just
 * before ours, a supervisor that begins while a later serve looks at it, commands for attempts that
 * wait or run, the lease's clock; and what an error says of a command that has a secret and cannot
 * start.
 */
#include "engine/supervise/journal.h"
#include "tests/unit/node/node_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

static char home[] = "/tmp/node_race.XXXXXX";

/* What another process writes into the journal just before our record of that kind. */
static struct {
    enum fr_rec_kind before, kind;
    uint64_t epoch;
} rival;

static ssize_t write_second(int fd, const void *p, size_t n)
{
    enum { KIND = 12, ATTEMPT = 16 }; /* where the record has them */
    const char *bytes = p;
    struct fr_rec rec = {.kind = rival.kind, .epoch = rival.epoch};

    if (n > ATTEMPT + sizeof(rec.attempt) && memcmp(bytes, "FRJ1", 4) == 0 &&
        bytes[KIND] == (char)rival.before) {
        if (rival.kind == FR_REC_TOMBSTONE)
            memcpy(&rec.attempt, bytes + ATTEMPT, sizeof(rec.attempt));
        CHECK(fr_journal_append(fd, &rec, NULL) == FR_OK);
    }
    return write(fd, p, n);
}

static bool ran(void)
{
    char path[100];

    snprintf(path, sizeof(path), "%s/ran", home);
    return unlink(path) == 0;
}

static struct fr_msg prepare_run(struct fr_str words[3])
{
    static char script[100];

    snprintf(script, sizeof(script), "touch %s/ran", home);
    return sh_prepare(words, script, true);
}

/* A tombstone comes between the supervisor's last look at the journal and its launch. */
static void test_tombstone_first(void)
{
    struct fr_str words[3];
    struct fr_msg m = prepare_run(words);

    check_row("a tombstone just before the launch");
    rival.before = FR_REC_LAUNCHED;
    rival.kind = FR_REC_TOMBSTONE;
    fr_sys.write = write_second;
    struct client c = client_open(home, "flownode", 1);
    fr_sys = fr_sys_real;
    client_send(&c, &m);
    CHECK(client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared.rc != FR_OK);
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_TOMBSTONED);
    CHECK_INT(client_close(&c, false), 0);
    CHECK(!ran());
}

/* A newer connection comes between the look at the epoch and the record of the prepare. */
static void test_epoch_first(void)
{
    struct fr_str words[3];
    struct fr_msg m = prepare_run(words), got;

    check_row("a newer connection just before the prepare");
    rival.before = FR_REC_PREPARED;
    rival.kind = FR_REC_EPOCH;
    rival.epoch = 3;
    fr_sys.write = write_second;
    struct client c = client_open(home, "flownode", 2);
    fr_sys = fr_sys_real;
    client_send(&c, &m);
    while ((got = client_next(&c)).type != 0)
        CHECK(got.type != FR_MSG_LAUNCHED && got.type != FR_MSG_ENDED);
    CHECK_INT(client_close(&c, false), 1);
    CHECK(!ran());
}

/* A command on an old connection is refused before it is carried out. */
static void test_old_connection(void)
{
    struct fr_str words[3];
    struct fr_msg m = prepare_run(words);

    check_row("a command on an old connection");
    struct client older = client_open(home, "flownode", 4), newer;
    CHECK_INT(client_status(&older, m.prepare.attempt), FR_AT_UNKNOWN);
    newer = client_open(home, "flownode", 5);
    CHECK_INT(client_status(&newer, m.prepare.attempt), FR_AT_UNKNOWN);
    client_send(&older, &m);
    struct fr_msg got = client_next(&older);
    CHECK_INT(got.type, FR_MSG_ERROR);
    CHECK_INT(got.error.rc, FR_BUSY);
    CHECK_INT(client_close(&older, false), 1);
    CHECK_INT(client_status(&newer, m.prepare.attempt), FR_AT_UNKNOWN);
    CHECK_INT(client_close(&newer, false), 0);
    CHECK(!ran());
}

/* An acknowledgement of an attempt that runs changes nothing. */
static void test_early_ack(void)
{
    struct client c = client_open(home, "flownode", 6);
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "exec sleep 1000", true), ack = {.type = FR_MSG_ACK_END};

    check_row("an acknowledgement while it runs");
    client_send(&c, &m);
    client_expect(&c, FR_MSG_LAUNCHED, m.prepare.attempt);
    ack.ack_end.attempt = m.prepare.attempt;
    client_send(&c, &ack);
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_RUNNING);
    client_stop(&c, m.prepare.attempt, 0);
    struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK_INT(e.cause, FR_END_STOPPED);
    CHECK_INT(client_close(&c, false), 0);
}

static int64_t *boot; /* the boot clock of all processes; goes on over a suspend */

static int64_t shared_boot(void)
{
    return __atomic_load_n(boot, __ATOMIC_SEQ_CST);
}

static void set_boot(int64_t ms)
{
    __atomic_store_n(boot, ms, __ATOMIC_SEQ_CST);
}

/* A renewal counts from when it came. A machine that was suspended for longer than the lease stops
 * the attempt when it wakes. */
static void test_lease(void)
{
    char gate[100], script[200];
    struct fr_str words[3];
    struct fr_msg m, lease = {.type = FR_MSG_LEASE, .lease = {.ref = 8}};

    check_row("a lease that is renewed");
    snprintf(gate, sizeof(gate), "%s/lease", home);
    CHECK(mkfifo(gate, 0600) == 0);
    snprintf(script, sizeof(script), "echo up; read x < %s; echo woke; exec sleep 1000", gate);
    m = sh_prepare(words, script, true);
    m.prepare.request.lease_ms = 1000;
    set_boot(5000);
    fr_sys.boot_ms = shared_boot;
    struct client c = client_open(home, "flownode", 7);
    fr_sys = fr_sys_real;
    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    client_await_log(&c, "up\n");
    set_boot(5900);
    lease.lease.run = m.prepare.run;
    client_send(&c, &lease);
    CHECK_INT(client_expect(&c, FR_MSG_LEASED, any).leased.boot_ms, 5900);
    set_boot(6800);
    int fd = open(gate, O_RDWR);
    CHECK(write(fd, "\n", 1) == 1);
    client_await_log(&c, "woke\n"); /* its supervisor looked at the lease before it sent that */
    client_stop(&c, m.prepare.attempt, 0);
    CHECK_INT(client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended.cause, FR_END_STOPPED);
    close(fd);

    check_row("the lease over a suspend");
    m = sh_prepare(words, "echo again; exec sleep 1000", true);
    m.prepare.request.lease_ms = 1000;
    client_send(&c, &m);
    client_attach(&c, m.prepare.attempt, 0);
    client_await_log(&c, "again\n");
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_RUNNING);
    set_boot(7800);
    CHECK_INT(client_expect(&c, FR_MSG_ENDED, m.prepare.attempt).ended.cause, FR_END_NODE_LOST);
    CHECK_INT(client_close(&c, false), 0);
}

/* Attempts that wait for descriptors start in the order in which they came; the lease of one
 * counts from the engine's last renewal; one with a tombstone is not handed to a container. */
static void test_queued(void)
{
    enum { N = 4, LEASED = 3 };
    char scripts[N][200], gate[100], entered[100], path[120];
    struct fr_str words[N + 1][3];
    struct fr_msg m[N + 1], lease = {.type = FR_MSG_LEASE, .lease = {.ref = 9}},
                            tomb = {.type = FR_MSG_TOMBSTONE};
    struct fr_buf order = {0};

    check_row("attempts that wait");
    snprintf(gate, sizeof(gate), "%s/gate", home);
    CHECK(mkfifo(gate, 0600) == 0);
    set_boot(5000);
    fr_sys.boot_ms = shared_boot;
    struct client c = client_begin(
        &(struct client_args){.home = home, .self = "flownode", .epoch = 8, .descriptors = 24 + 3});
    fr_sys = fr_sys_real;
    for (int i = 0; i < N; i++) {
        snprintf(scripts[i], sizeof(scripts[i]), "echo %d >> %s/order%s%s", i, home,
                 i == 0 ? "; read x < " : "", i == 0 ? gate : "");
        m[i] = sh_prepare(words[i], scripts[i], true);
        m[i].prepare.request.lease_ms = i == LEASED ? 1000 : 0;
        client_send(&c, &m[i]);
    }
    snprintf(entered, sizeof(entered), "%s/runtime", home);
    CHECK(fr_file_write(entered, "#!/bin/sh\n: > $0.ran\n", 21, 0700, NULL) == FR_OK);
    m[N] = sh_prepare(words[N], "true", true);
    m[N].prepare.request.container =
        (struct fr_container){fr_str_of(entered), FR_STR("box"), FR_STR("x"), fr_str_of(home)};
    client_send(&c, &m[N]);
    client_expect(&c, FR_MSG_LAUNCHED, m[0].prepare.attempt);
    for (int i = 1; i <= N; i++)
        CHECK_INT(client_status(&c, m[i].prepare.attempt), FR_AT_PREPARED);
    tomb.tombstone.attempt = m[N].prepare.attempt;
    client_send(&c, &tomb);
    set_boot(5900);
    lease.lease.run = m[LEASED].prepare.run;
    client_send(&c, &lease);
    client_expect(&c, FR_MSG_LEASED, any);
    set_boot(6500);
    int fd = open(gate, O_RDWR);
    CHECK(write(fd, "\n", 1) == 1);
    for (int i = 0; i < N; i++) {
        struct fr_ended e = client_expect(&c, FR_MSG_ENDED, m[i].prepare.attempt).ended;
        CHECK(e.cause == FR_END_EXIT && e.code == 0);
    }
    CHECK_INT(client_status(&c, m[N].prepare.attempt), FR_AT_TOMBSTONED);
    close(fd);
    CHECK_INT(client_close(&c, false), 0);
    snprintf(path, sizeof(path), "%s/order", home);
    CHECK(fr_file_read(path, 100, &order, NULL) == FR_OK);
    CHECK_TEXT(order.p, "0\n1\n2\n3\n");
    fr_buf_finish(&order);
    snprintf(path, sizeof(path), "%s.ran", entered);
    CHECK(access(path, F_OK) != 0);
}

/* An attempt that serve could not start is never started later. */
static void test_not_started(void)
{
    struct client c = client_open(home, "flownode", 9);
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "true", true);

    check_row("not started");
    m.prepare.request.container = (struct fr_container){FR_STR("/no/such/runtime"), FR_STR("box"),
                                                        FR_STR("x"), fr_str_of(home)};
    client_send(&c, &m);
    CHECK(client_expect(&c, FR_MSG_PREPARED, m.prepare.attempt).prepared.rc != FR_OK);
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_TOMBSTONED);
    CHECK_INT(client_close(&c, false), 0);
}

#define SECRET "hidden-word"

static const struct {
    const char *name, *program, *cwd, *file, *want;
} secret_rows[] = {
    {"program with a path", "/no/" SECRET "/program", "", "", "/no/***/program"},
    {"program on PATH", "no-" SECRET, "", "", "no-***"},
    {"working folder", "/bin/true", "/no/" SECRET, "", "/no/***"},
    {"PATH", "no-such", "", "", "on PATH=***"},
    {"shipped file", "/bin/true", "", "files/" SECRET, "files/***"},
};

/* What an error quotes of a command is masked like its output. */
static void test_secret_in_error(void)
{
    struct client c = client_open(home, "flownode", 10);
    struct fr_str secret[] = {FR_STR("S=" SECRET), FR_STR("PATH=/bin/" SECRET)}, word;

    for (size_t i = 0; i < sizeof(secret_rows) / sizeof(secret_rows[0]); i++) {
        struct fr_file_want want = {fr_str_of(secret_rows[i].file), FR_STR("x"), 0600};
        struct fr_str words[3], text;
        struct fr_msg m = sh_prepare(words, "", true), got;
        check_row(secret_rows[i].name);
        word = fr_str_of(secret_rows[i].program);
        m.prepare.request.argv = (struct fr_strs){&word, 1};
        m.prepare.request.cwd = fr_str_of(secret_rows[i].cwd);
        m.prepare.request.files = (struct fr_file_wants){&want, want.store.n > 0};
        m.prepare.request.secret_env = (struct fr_strs){secret, 2};
        client_send(&c, &m);
        do {
            got = client_next(&c);
        } while (!c.closed && got.type != FR_MSG_ENDED &&
                 (got.type != FR_MSG_PREPARED || got.prepared.rc == FR_OK));
        text = got.type == FR_MSG_ENDED ? got.ended.text : got.prepared.text;
        CHECK(!c.closed && strstr(text.p, secret_rows[i].want) != NULL);
        CHECK(!c.closed && strstr(text.p, SECRET) == NULL);
    }
    CHECK_INT(client_close(&c, false), 0);
}

/* ---- a supervisor that is late ---- */

/* It is held before it takes its log, as under load, and its serve goes. At one moment of the next
 * serve it goes on, until its command runs or, over, until it has ended. */
static struct {
    char log[150], here[100], take[100], up[100];
    bool over, released;
    enum fr_rec_kind before; /* the moment is just before such a record; 0: at a look at the lock */
} late;

static int hold_log(const char *path, int flags, mode_t mode)
{
    if (strcmp(path, late.log) == 0 && (flags & O_CREAT) != 0) {
        close(open(late.here, O_WRONLY)); /* it has its attempt, and its lock on the home */
        close(open(late.take, O_RDONLY));
        if (late.over)
            (void)!open(late.up, O_WRONLY | O_CLOEXEC); /* until it exits */
    }
    return fr_sys_real.open(path, flags, mode);
}

static void release(void)
{
    char c;

    if (late.released)
        return;
    late.released = true;
    close(open(late.take, O_WRONLY));
    int fd = open(late.up, O_RDONLY);
    CHECK(read(fd, &c, 1) == 0);
    close(fd);
}

static int look_early(const char *path, int flags, mode_t mode)
{
    int fd = fr_sys_real.open(path, flags, mode), e = errno;

    if (strcmp(path, late.log) == 0)
        release();
    errno = e;
    return fd;
}

static ssize_t write_late(int fd, const void *p, size_t n)
{
    enum { KIND = 12 };
    const char *bytes = p;

    if (n > KIND && memcmp(bytes, "FRJ1", 4) == 0 && bytes[KIND] == (char)late.before)
        release();
    return write(fd, p, n);
}

static int no_socket(const char *path)
{
    (void)path;
    errno = EMFILE;
    return -1;
}

static const struct late_row {
    const char *name;
    enum fr_msg_type type; /* what the engine sends to the next serve; 0: only asks how it is */
    enum fr_rec_kind before;
    bool over, loaded /* its run joins: that serve looks at once */;
    bool lame; /* supervisors of the next serve end at once */
    enum fr_attempt_status status;
} late_rows[] = {
    {"a launch behind the look at the lock", 0, 0, false, true, false, FR_AT_RUNNING},
    {"an end behind the look at the lock", 0, 0, true, false, false, FR_AT_ENDED},
    {"a launch before a stop's tombstone", FR_MSG_STOP, FR_REC_TOMBSTONE, false, false, false,
     FR_AT_RUNNING},
    {"an end before a tombstone", FR_MSG_TOMBSTONE, FR_REC_TOMBSTONE, true, false, false,
     FR_AT_ENDED},
    {"a launch before it is prepared again", FR_MSG_PREPARE, FR_REC_PREPARED, false, false, false,
     FR_AT_RUNNING},
    {"a launch before another one's tombstone", FR_MSG_PREPARE, FR_REC_TOMBSTONE, false, false,
     true, FR_AT_RUNNING},
};

static struct fr_msg begin_late(const struct late_row *r, struct fr_str words[3], uint64_t epoch)
{
    static char script[200];
    char id[FR_ID_TEXT];

    snprintf(script, sizeof(script), ": > %s; exec sleep 1000", late.up);
    struct fr_msg m = sh_prepare(words, r->over ? "true" : script, true);
    if (r->loaded)
        m.prepare.run = any;
    fr_id_text(m.prepare.attempt, id);
    snprintf(late.log, sizeof(late.log), "%s/log/%s", home, id);
    late.over = r->over;
    late.before = r->before;
    fr_sys.open = hold_log;
    struct client c = client_open(home, "flownode", epoch);
    fr_sys = fr_sys_real;
    client_send(&c, &m);
    close(open(late.here, O_RDONLY));
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_PREPARED);
    CHECK_INT(client_close(&c, false), 0);
    return m;
}

/* It is not taken for dead nor forgotten: what runs is watched and can be stopped, and an end is
 * told. */
static void test_late(void)
{
    uint64_t epoch = 11;

    snprintf(late.take, sizeof(late.take), "%s/take", home);
    snprintf(late.here, sizeof(late.here), "%s/here", home);
    snprintf(late.up, sizeof(late.up), "%s/up", home);
    CHECK(mkfifo(late.here, 0600) == 0 && mkfifo(late.take, 0600) == 0 &&
          mkfifo(late.up, 0600) == 0);
    for (size_t i = 0; i < sizeof(late_rows) / sizeof(late_rows[0]); i++) {
        const struct late_row *r = &late_rows[i];
        struct fr_str words[3];
        check_row(r->name);
        struct fr_msg m = begin_late(r, words, epoch++), ask = m;
        struct fr_id id = m.prepare.attempt;
        ask.type = r->type;
        if (r->type == FR_MSG_STOP)
            ask.stop = (struct fr_stop){id, 0, 7, false};
        else if (r->type == FR_MSG_TOMBSTONE)
            ask.tombstone.attempt = id;
        if (r->before == 0)
            fr_sys.open = look_early;
        else
            fr_sys.write = write_late;
        if (r->lame)
            fr_sys.listen_unix = no_socket;
        struct client c = client_open(home, "flownode", epoch++);
        fr_sys = fr_sys_real;
        if (r->loaded)
            client_join(&c, m.prepare.run);
        if (r->type != 0)
            client_send(&c, &ask);
        if (r->type == 0)
            CHECK_INT(client_status(&c, id), r->status);
        else if (r->type == FR_MSG_TOMBSTONE)
            CHECK_INT(client_expect(&c, FR_MSG_STATE, id).state.status, r->status);
        else if (r->type == FR_MSG_PREPARE)
            client_expect(&c, FR_MSG_LAUNCHED, id);
        if (r->status == FR_AT_RUNNING && r->type != FR_MSG_STOP)
            client_stop(&c, id, 0);
        CHECK_INT(client_expect(&c, FR_MSG_ENDED, id).ended.cause,
                  r->over ? FR_END_EXIT : FR_END_STOPPED);
        CHECK_INT(client_close(&c, false), 0);
    }
}

/* A query about an attempt that waits for go is followed by what its supervisor says: its port. */
static void test_prepared_again(void)
{
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "true", false), query = {.type = FR_MSG_QUERY};
    struct fr_id id = m.prepare.attempt;

    check_row("prepared, on a later connection");
    m.prepare.request.port = FR_PORT_ANY;
    struct client c = client_open(home, "flownode", 40);
    client_send(&c, &m);
    uint32_t port = client_expect(&c, FR_MSG_PREPARED, id).prepared.port;
    CHECK(port != 0);
    CHECK_INT(client_close(&c, false), 0);
    c = client_open(home, "flownode", 41);
    query.query.attempts = (struct fr_ids){&id, 1};
    client_send(&c, &query);
    CHECK_INT(client_expect(&c, FR_MSG_STATE, id).state.status, FR_AT_PREPARED);
    CHECK_INT(client_expect(&c, FR_MSG_PREPARED, id).prepared.port, port);
    client_stop(&c, id, 0);
    CHECK_INT(client_expect(&c, FR_MSG_ENDED, id).ended.cause, FR_END_STOPPED);
    CHECK_INT(client_close(&c, false), 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    CHECK(mkdtemp(home) != NULL);
    boot = mmap(NULL, sizeof(*boot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(boot != MAP_FAILED);
    test_tombstone_first();
    test_epoch_first();
    test_old_connection();
    test_early_ack();
    test_lease();
    test_queued();
    test_not_started();
    test_secret_in_error();
    test_late();
    test_prepared_again();
    CHECK(fr_remove_tree(home, NULL) == FR_OK);
    return check_done();
}
