/*
 * What stays in a node's home: attempts and store by age and size, the journal made shorter, with a
 * stop at every call of the machine, and both by way of serve.
 */
#include "engine/node/compact.h"
#include "engine/node/prune.h"
#include "tests/unit/node/node_client.h"
#include "tests/unit/sync_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static const int64_t day = 86400000, now_ms = 1800000000000;

static int64_t fixed_wall(void)
{
    return now_ms;
}

static char top[] = "/tmp/node_keep.XXXXXX";
static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static const char *at(const char *fmt, const char *a)
{
    static _Thread_local char path[4][FR_NODE_PATH];
    static _Thread_local int i;
    char *p = path[i++ % 4];
    int n = snprintf(p, FR_NODE_PATH, "%s/home/", top);

    snprintf(p + n, (size_t)(FR_NODE_PATH - n), fmt, a);
    return p;
}

static void put(const char *path, size_t n, int64_t age_ms)
{
    char *bytes = calloc(1, n + 1);
    struct timespec t[2] = {{.tv_sec = (now_ms - age_ms) / 1000}, {0}};

    t[1] = t[0];
    CHECK(fr_file_write(path, bytes, n, 0600, NULL) == FR_OK);
    CHECK(utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW) == 0);
    free(bytes);
}

static void set_age(const char *path, int64_t age_ms)
{
    struct timespec t[2] = {{.tv_sec = (now_ms - age_ms) / 1000}, {0}};

    t[1] = t[0];
    CHECK(utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW) == 0);
}

static bool there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* --- attempts and store --- */

struct attempt_row {
    const char *name;
    int acked_days; /* -1: not acknowledged */
    bool live;      /* somebody holds its lock */
    int kept[3];    /* days 14, any size; days 14, 3500 bytes; days 0 */
    int log_days;   /* not in the journal any more, its log has this age less one; 0: it is */
};

static const struct attempt_row attempt_rows[] = {
    {"today", 0, false, {1, 1, 0}, 0},
    {"younger than that", 12, false, {1, 1, 0}, 0},
    {"the oldest of them", 14, false, {0, 0, 0}, 0},
    {"long ago", 400, false, {0, 0, 0}, 0},
    {"not acknowledged", -1, false, {1, 1, 1}, 0},
    {"its supervisor lives", 400, true, {1, 1, 1}, 0},
    {"too much in all", 13, false, {1, 0, 0}, 0},
    {"forgotten, long ago", -1, false, {0, 0, 0}, 501},
    {"forgotten today", -1, false, {1, 1, 0}, 1},
};

enum { ATTEMPTS = sizeof(attempt_rows) / sizeof(attempt_rows[0]) };

static struct fr_id id_of(size_t i)
{
    return (struct fr_id){{0x10, (uint8_t)i}};
}

static const char *id_text(size_t i)
{
    static _Thread_local char text[FR_ID_TEXT];

    fr_id_text(id_of(i), text);
    return text;
}

static void write_attempt(const struct fr_node_home *h, size_t i)
{
    const struct attempt_row *r = &attempt_rows[i];
    struct fr_rec rec = {.kind = FR_REC_PREPARED, .attempt = id_of(i), .instance = FR_STR("i")};

    if (r->log_days == 0)
        CHECK(fr_journal_append(h->journal, &rec, NULL) == FR_OK);
    rec.kind = FR_REC_ENDED;
    if (r->log_days == 0)
        CHECK(fr_journal_append(h->journal, &rec, NULL) == FR_OK);
    rec.kind = FR_REC_ACKED;
    rec.wall_ms = now_ms - r->acked_days * day;
    if (r->acked_days >= 0)
        CHECK(fr_journal_append(h->journal, &rec, NULL) == FR_OK);
    put(at("log/%s", id_text(i)), 400, (r->log_days > 0 ? r->log_days - 1 : 500) * day);
    put(at("log/%s.idx", id_text(i)), 100, 500 * day);
    put(at("a/%s.out", id_text(i)), 100, 500 * day);
    CHECK(mkdir(at("a/%s", id_text(i)), 0700) == 0 && mkdir(at("a/%s/d", id_text(i)), 0700) == 0);
    put(at("a/%s/d/f", id_text(i)), 400, 500 * day);
    CHECK(symlink(at("%s", "../outside"), at("a/%s/link", id_text(i))) == 0);
    CHECK(symlink(at("%s", "../outside/f"), at("a/%s/d/file", id_text(i))) == 0);
}

static int write_home(struct fr_node_home *h)
{
    int held = -1;

    CHECK(fr_home_open(h, at("%s", "."), NULL) == FR_OK);
    CHECK(mkdir(at("%s", "../outside"), 0700) == 0);
    put(at("%s", "../outside/f"), 10, 500 * day);
    put(at("work/%s", "mine"), 5000, 500 * day);
    for (size_t i = 0; i < ATTEMPTS; i++) {
        write_attempt(h, i);
        if (attempt_rows[i].live)
            held = open(at("log/%s", id_text(i)), O_RDWR | O_CLOEXEC);
    }
    CHECK(held >= 0 && fr_sys.lock(held) == 0);
    put(at("log/%s", "notes"), 10, 500 * day); /* not ours: stays */
    CHECK(mkdir(at("store/%s", hash), 0700) == 0 && mkdir(at("%s", "store/gather"), 0700) == 0);
    put(at("store/%s/old", hash), 1, 500 * day);
    put(at("store/%s/used", hash), 1, 3 * day);
    set_age(at("store/%s", hash), 500 * day);
    put(at("store/%s", "gather/old"), 1, 500 * day);
    put(at("store/%s", "gather/new"), 1, 0);
    CHECK(symlink(at("%s", "../outside"), at("store/%s", "link")) == 0);
    set_age(at("store/%s", "link"), 500 * day);
    put(at("tmp/%s", "half"), 10, 500 * day);
    put(at("tmp/%s", "coming"), 10, 0);
    return held;
}

static void check_kept(int column)
{
    for (size_t i = 0; i < ATTEMPTS; i++) {
        int kept = attempt_rows[i].kept[column];

        check_row(attempt_rows[i].name);
        CHECK_INT(there(at("log/%s", id_text(i))), kept);
        CHECK_INT(there(at("log/%s.idx", id_text(i))), kept);
        CHECK_INT(there(at("a/%s.out", id_text(i))), kept);
        CHECK_INT(there(at("a/%s/d/f", id_text(i))), kept);
        CHECK_INT(there(at("a/%s", id_text(i))), kept);
    }
    check_row("what is not ours");
    CHECK(there(at("%s", "../outside/f")) && there(at("work/%s", "mine")));
    CHECK(there(at("log/%s", "notes")));
}

/* All of it, in steps of that many files. */
static enum fr_rc prune_by(const struct fr_prune *p, size_t steps, uint64_t *left)
{
    struct fr_pruning *pr;
    bool done = false;
    enum fr_rc rc = fr_prune_begin(p, &pr, NULL);

    while (rc == FR_OK && !done)
        rc = fr_prune_step(pr, steps, &done, NULL);
    *left = pr != NULL ? fr_prune_end(pr) : 0;
    return rc;
}

static void test_prune(void)
{
    struct fr_node_home h;
    struct fr_table t = {0};
    uint64_t left = 0;
    int held = write_home(&h);
    struct fr_prune p = {.home = at("%s", "."), .table = &t, .days = 14};
    char home[FR_NODE_PATH];
    int driven;

    snprintf(home, sizeof(home), "%s", p.home);
    p.home = home;
    for (size_t i = 0; i < 2; i++)
        put(at("r/%s", id_text(i)), 0, 500 * day);
    CHECK(fr_home_hold_run(home, id_of(1), &driven, NULL) == FR_OK);
    fr_sys.wall_ms = fixed_wall;
    CHECK(fr_table_read(&t, h.journal, NULL) == FR_OK);
    CHECK(prune_by(&p, 1, &left) == FR_OK);
    check_kept(0);
    CHECK_INT(left, 4 * 1000 + 4); /* acknowledged ones, and the store, which others may use */
    CHECK(there(at("store/%s", "gather/old")) && there(at("tmp/%s", "half")));
    CHECK(there(at("store/%s", "link")) && there(at("r/%s", id_text(0))));
    check_row("alone");
    p.alone = true;
    p.bytes = 3500;
    CHECK(prune_by(&p, 7, &left) == FR_OK);
    check_kept(1);
    check_row("alone");
    CHECK_INT(left, 3 * 1000 + 3 + 10);
    CHECK(!there(at("store/%s", "gather/old")) && there(at("store/%s", "gather/new")));
    CHECK(there(at("store/%s/old", hash))); /* a bundle in use stays whole */
    CHECK(!there(at("store/%s", "link")));
    CHECK(!there(at("tmp/%s", "half")) && there(at("tmp/%s", "coming")));
    CHECK(!there(at("r/%s", id_text(0))) && there(at("r/%s", id_text(1)))); /* it is driven */
    close(driven);
    check_row("nothing is kept");
    p.days = 0;
    CHECK(prune_by(&p, 1000, &left) == FR_OK);
    check_kept(2);
    CHECK(!there(at("store/%s", hash)) && there(at("store/%s", "gather/new")));
    check_row("a folder of the home is a link");
    CHECK(rename(at("%s", "log"), at("%s", "../outside/log")) == 0 &&
          symlink("../outside/log", at("%s", "log")) == 0);
    close(held);
    CHECK(prune_by(&p, 1, &left) == FR_OK);
    CHECK(there(at("../outside/log/%s", id_text(5))));
    check_row("");
    fr_sys = fr_sys_real;
    fr_table_finish(&t);
    fr_home_close(&h);
    CHECK(fr_remove_tree(top, NULL) == FR_OK && mkdir(top, 0700) == 0);
}

/* --- the journal --- */

static const struct fr_id runs[] = {{{1}}, {{2}}, {{3}}, {{4}}};

static void append(const struct fr_node_home *h, enum fr_rec_kind kind, uint8_t id, int64_t age_ms)
{
    struct fr_rec r = {.kind = kind,
                       .attempt = {{0x20, id}},
                       .run = runs[2],
                       .epoch = 7,
                       .instance = FR_STR("task[1]@n"),
                       .spec_hash = FR_STR("spec"),
                       .generation = 3,
                       .boot = FR_STR("boot"),
                       .sup_pid = 77,
                       .sup_start = 78,
                       .launched_ms = 79,
                       .grace_ms = 80,
                       .container = FR_STR("box"),
                       .socket_id = {{0x66}},
                       .ended = FR_STR("ended bytes"),
                       .wall_ms = now_ms - age_ms};

    CHECK(fr_journal_append(h->journal, &r, NULL) == FR_OK);
}

/* Of the last one, as of a store. */
static void append_epoch(const struct fr_node_home *h, size_t run, uint64_t epoch, int64_t age_ms)
{
    struct fr_rec r = {.kind = FR_REC_EPOCH,
                       .attempt = run == 3 ? runs[run] : (struct fr_id){{0}},
                       .run = runs[run],
                       .epoch = epoch,
                       .wall_ms = now_ms - age_ms};

    CHECK(fr_journal_append(h->journal, &r, NULL) == FR_OK);
}

/* A long history of which little matters. */
static void write_journal(const struct fr_node_home *h)
{
    struct fr_rec home = {.kind = FR_REC_HOME, .attempt = {{0x77}}};

    CHECK(fr_journal_append(h->journal, &home, NULL) == FR_OK);
    append_epoch(h, 0, 9, 400 * day); /* nothing of it is left */
    append_epoch(h, 1, 8, 2 * day);   /* it may still be there */
    append_epoch(h, 2, 6, 401 * day); /* it has attempts */
    append_epoch(h, 2, 7, 400 * day);
    append_epoch(h, 3, 6, 400 * day); /* there are attempts */
    for (int i = 0; i < 600; i++) {   /* over and gone */
        append(h, FR_REC_PREPARED, 100, 0);
        append(h, FR_REC_LAUNCHED, 100, 0);
    }
    append(h, FR_REC_ENDED, 100, 0);
    append(h, FR_REC_ACKED, 100, 0);
    append(h, FR_REC_PREPARED, 1, 0);
    append(h, FR_REC_PREPARED, 2, 0);
    append(h, FR_REC_LAUNCHED, 2, 0);
    append(h, FR_REC_PREPARED, 3, 0);
    append(h, FR_REC_LAUNCHED, 3, 0);
    append(h, FR_REC_EXITED, 3, 0);
    append(h, FR_REC_PREPARED, 4, 0);
    append(h, FR_REC_LAUNCHED, 4, 0);
    append(h, FR_REC_ENDED, 4, 400 * day); /* not acknowledged */
    append(h, FR_REC_PREPARED, 5, 0);
    append(h, FR_REC_TOMBSTONE, 5, 29 * day);
    append(h, FR_REC_TOMBSTONE, 6, 0);
    append(h, FR_REC_TOMBSTONE, 7, 31 * day);
    append(h, FR_REC_ENDED, 8, 0); /* acknowledged, and its files are kept */
    append(h, FR_REC_ACKED, 8, 5 * day);
    put(at("log/%s", "20080000000000000000000000000000"), 1, 0);
}

static void check_journal(const struct fr_node_home *h, bool shorter)
{
    static const struct {
        const char *name;
        uint8_t id;
        bool prepared, launched, exited, ended, tombstoned, acked, forgotten;
    } rows[] = {
        {"prepared", 1, 1, 0, 0, 0, 0, 0, 0},
        {"launched", 2, 1, 1, 0, 0, 0, 0, 0},
        {"exited", 3, 1, 1, 1, 0, 0, 0, 0},
        {"ended", 4, 1, 1, 0, 1, 0, 0, 0},
        {"tombstone", 5, 1, 0, 0, 0, 1, 0, 0},
        {"tombstone of the unknown", 6, 0, 0, 0, 0, 1, 0, 0},
        {"old tombstone", 7, 0, 0, 0, 0, 1, 0, 1},
        {"over and gone", 100, 0, 0, 0, 0, 0, 1, 1},
        {"acknowledged, files kept", 8, 0, 0, 0, 0, 0, 1, 1},
    };
    struct fr_table t = {0};

    CHECK(fr_table_read(&t, h->journal, NULL) == FR_OK);
    check_row("home and epochs");
    CHECK_INT(t.home.b[0], 0x77);
    for (size_t i = 0; i < 4; i++) {
        const struct fr_fence *f = fr_table_fence(&t, runs[i]);

        CHECK_INT(f != NULL ? f->epoch : 0, i == 1 ? 8 : i == 2 ? 7 : i == 3 ? 6 : shorter ? 0 : 9);
        CHECK(i < 3 || (f != NULL && f->of_store));
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct fr_attempt *a = fr_table_find(&t, (struct fr_id){{0x20, rows[i].id}});

        check_row(rows[i].name);
        if (shorter && rows[i].forgotten) {
            CHECK(a == NULL);
            continue;
        }
        if (!CHECK(a != NULL))
            continue;
        CHECK(a->tombstoned == rows[i].tombstoned && a->acked == rows[i].acked);
        if (a->acked)
            continue;
        CHECK(a->prepared == rows[i].prepared && a->launched == rows[i].launched);
        CHECK(a->exited == rows[i].exited && a->ended == rows[i].ended);
        if (a->prepared)
            CHECK(fr_id_eq(a->run, runs[2]) && a->generation == 3 &&
                  strcmp(a->instance, "task[1]@n") == 0 && strcmp(a->spec_hash, "spec") == 0 &&
                  strcmp(a->boot, "boot") == 0);
        if (a->launched)
            CHECK(a->supervisor.pid == 77 && a->supervisor.start == 78 && a->launched_ms == 79 &&
                  a->grace_ms == 80 && strcmp(a->container, "box") == 0 &&
                  a->socket_id.b[0] == 0x66);
        if (a->ended || a->exited)
            CHECK(a->end.n == 11 && memcmp(a->end.p, "ended bytes", 11) == 0 &&
                  a->end_wall_ms == now_ms - (a->ended ? 400 * day : 0));
    }
    check_row("");
    fr_table_finish(&t);
}

/* From the n-th call on, no call that changes a file works: as if the machine had gone. */
static struct {
    int left;
} dying;

static bool dead(void)
{
    if (dying.left > 0)
        dying.left--;
    errno = EIO;
    return dying.left == 0;
}

static int dying_open(const char *path, int flags, mode_t mode)
{
    return dead() ? -1 : fr_sys_real.open(path, flags, mode);
}

/* A last write may get half its bytes onto the disk. */
static ssize_t dying_write(int fd, const void *p, size_t n)
{
    bool last = dying.left == 1;

    if (last)
        (void)!fr_sys_real.write(fd, p, n / 2);
    return dead() ? -1 : fr_sys_real.write(fd, p, n);
}

static int dying_fdatasync(int fd)
{
    return dead() ? -1 : fr_sys_real.fdatasync(fd);
}

static int dying_rename(const char *from, const char *to)
{
    return dead() ? -1 : fr_sys_real.rename(from, to);
}

static int dying_unlink(const char *path)
{
    return dead() ? -1 : fr_sys_real.unlink(path);
}

static void die_at(int n)
{
    dying.left = n;
    fr_sys.open = dying_open;
    fr_sys.write = dying_write;
    fr_sys.fdatasync = dying_fdatasync;
    fr_sys.rename = dying_rename;
    fr_sys.unlink = dying_unlink;
}

static off_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : -1;
}

static void test_compact(void)
{
    bool over = false, broken;
    int steps = 0;

    for (int n = 1; !over; n++) {
        struct fr_node_home h;
        struct fr_table t = {0};
        struct fr_err err = {0};
        bool shorter;

        CHECK(fr_home_open(&h, at("%s", "."), &err) == FR_OK);
        fr_sys.wall_ms = fixed_wall;
        write_journal(&h);
        CHECK(fr_table_read(&t, h.journal, &err) == FR_OK);
        CHECK((off_t)t.at > FR_COMPACT_MIN);
        die_at(n);
        over = fr_journal_compact(&h, &t, &broken, &err) == FR_OK;
        fr_sys = fr_sys_real;
        CHECK(over || err.msg[0] != '\0');
        if (over) {
            CHECK(t.at < 4096 && (off_t)t.at == size_of(at("%s", "journal")));
            check_journal(&h, true); /* what it has open is the new one */
            CHECK(!there(at("%s", "journal.new")));
        }
        fr_table_finish(&t);
        fr_home_close(&h);
        CHECK(fr_home_open(&h, at("%s", "."), &err) == FR_OK);
        shorter = size_of(at("%s", "journal")) < 4096;
        CHECK(shorter || !over);
        check_journal(&h, shorter);
        fr_home_close(&h);
        steps = n;
        CHECK(fr_remove_tree(top, NULL) == FR_OK && mkdir(top, 0700) == 0);
    }
    CHECK(steps >= 6); /* open, write, sync, rename, open, sync of the folder */
}

static void test_compact_synced(void)
{
    struct fr_node_home h;
    struct fr_table t = {0};
    bool broken;
    size_t renames;

    CHECK(fr_home_open(&h, at("%s", "."), NULL) == FR_OK);
    fr_sys.wall_ms = fixed_wall;
    write_journal(&h);
    CHECK(fr_table_read(&t, h.journal, NULL) == FR_OK);
    sync_guard_begin();
    CHECK(fr_journal_compact(&h, &t, &broken, NULL) == FR_OK);
    CHECK(sync_guard_end(true, &renames) == 0);
    CHECK(renames == 1);
    fr_sys = fr_sys_real;
    fr_table_finish(&t);
    fr_home_close(&h);
    CHECK(fr_remove_tree(top, NULL) == FR_OK && mkdir(top, 0700) == 0);
}

/* --- by way of serve --- */

static struct client open_keeping(const char *home, uint64_t epoch, uint32_t days)
{
    return client_begin(
        &(struct client_args){.home = home, .self = "flownode", .epoch = epoch, .keep_days = days});
}

/* Until the last supervisor of an earlier connection has ended. */
static void await_alone(void)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(at("%s", "lock"), O_RDWR | O_CLOEXEC);

    check_row("alone");
    CHECK(fd >= 0 && fcntl(fd, F_OFD_SETLKW, &l) == 0);
    close(fd);
}

static void ack(struct client *c, struct fr_id id)
{
    struct fr_msg m = {.type = FR_MSG_ACK_END, .ack_end = {id}};

    client_send(c, &m);
    CHECK_INT(client_status(c, id), FR_AT_UNKNOWN);
}

static void test_serve(void)
{
    char home[FR_NODE_PATH], id[FR_ID_TEXT];
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, "echo kept", true), live;
    struct fr_node_home other;

    snprintf(home, sizeof(home), "%s", at("%s", "."));
    CHECK(fr_home_open(&other, home, NULL) == FR_OK);
    fr_sys.wall_ms = fixed_wall;
    write_journal(&other);
    fr_sys = fr_sys_real;
    off_t whole = size_of(at("%s", "journal"));

    check_row("another has the home, too");
    struct client c = open_keeping(home, 1, 14);
    client_status(&c, m.prepare.attempt);
    CHECK(size_of(at("%s", "journal")) >= whole);
    CHECK(!fr_home_alone(&other));
    m = sh_prepare(words, "echo kept", true);
    client_send(&c, &m);
    client_expect(&c, FR_MSG_ENDED, m.prepare.attempt);
    ack(&c, m.prepare.attempt);
    fr_id_text(m.prepare.attempt, id);
    CHECK(there(at("log/%s", id)));
    CHECK_INT(client_close(&c, false), 0);
    fr_home_close(&other);

    check_row("a supervisor lives");
    c = open_keeping(home, 2, 14);
    live = sh_prepare(words, "exec sleep 600", true);
    client_send(&c, &live);
    client_expect(&c, FR_MSG_LAUNCHED, live.prepare.attempt);
    CHECK_INT(client_close(&c, false), 0);
    CHECK(fr_home_open(&other, home, NULL) == FR_OK);
    CHECK(!fr_home_alone(&other));
    fr_home_close(&other);
    c = open_keeping(home, 3, 14);
    client_stop(&c, live.prepare.attempt, 100);
    client_expect(&c, FR_MSG_ENDED, live.prepare.attempt);
    ack(&c, live.prepare.attempt);
    CHECK_INT(client_close(&c, false), 0);

    await_alone();
    CHECK(!there(at("a/%s", id))); /* its supervisor kept it for another attempt, and ended */
    c = open_keeping(home, 4, 0);
    CHECK_INT(client_status(&c, m.prepare.attempt), FR_AT_UNKNOWN);
    CHECK(!there(at("log/%s", id)));
    CHECK(size_of(at("%s", "journal")) < 8192);
    m = sh_prepare(words, "echo gone", true);
    client_send(&c, &m);
    client_expect(&c, FR_MSG_ENDED, m.prepare.attempt);
    fr_id_text(m.prepare.attempt, id);
    ack(&c, m.prepare.attempt);
    CHECK(!there(at("log/%s", id)));
    CHECK_INT(client_close(&c, false), 0);

    check_row("the old epoch is fenced still");
    c = open_keeping(home, 3, 0);
    while (!c.closed)
        client_next(&c);
    CHECK_INT(client_close(&c, false), 1);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    CHECK(mkdtemp(top) != NULL);
    test_prune();
    test_compact();
    test_compact_synced();
    test_serve();
    CHECK(fr_remove_tree(top, NULL) == FR_OK);
    return check_done();
}
