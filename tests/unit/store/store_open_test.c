/* Opening the store: versions, migration, two that make it at once, one that only reads. */
#include "engine/base/sys.h"
#include "engine/store/home.h"
#include "engine/store/sql.h"
#include "engine/store/store.h"
#include "tests/unit/store/store_bed.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Whatever the umask says, the store is for its owner alone. */
static void test_private(void)
{
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm"};
    mode_t mask = umask(0);

    remove_store();
    struct fr_store *st = open_store();
    umask(mask);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[300];
        struct stat info = {0};
        snprintf(path, sizeof(path), "%s/%s", home, names[i]);
        check_row(names[i]);
        CHECK(stat(path, &info) == 0 && (info.st_mode & 077) == 0);
    }
    fr_store_close(st);
    remove_store();
}

static int newest_schema(void)
{
    int n = 0;

    for (const char *p = fr_store_schema; (p = strstr(p, "\n-- @version ")) != NULL; p++)
        n++;
    return n;
}

static void set_version(int version)
{
    char path[300], sql[64];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/state.db", home);
    snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", version);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static bool raced;

/* A newer flowrun migrates between the first look at the version and the write lock. */
static int race(unsigned what, void *arg, void *stmt, void *sql)
{
    (void)what;
    (void)arg;
    (void)stmt;
    if (!raced && strncmp(sql, "BEGIN", 5) == 0) {
        raced = true;
        set_version(newest_schema() + 1);
    }
    return 0;
}

static int on_open(sqlite3 *db, char **text, const struct sqlite3_api_routines *api)
{
    (void)text;
    (void)api;
    return raced ? SQLITE_OK : sqlite3_trace_v2(db, SQLITE_TRACE_STMT, race, NULL);
}

static sqlite3 *maker;
static int sleeps;

static int sleep_until_made(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    if (++sleeps == 3)
        CHECK_INT(sqlite3_exec(maker, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    return us;
}

/* Another process is making the store, and about to write, when this one opens it. */
static void test_made_by_two(void)
{
    char path[300];
    struct fr_store *st = NULL;
    struct fr_err err = {0};
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    int (*sleep)(sqlite3_vfs *, int) = vfs->xSleep;

    check_row("made by two at once");
    remove_store();
    snprintf(path, sizeof(path), "%s/state.db", home);
    CHECK_INT(sqlite3_open(path, &maker), SQLITE_OK);
    CHECK_INT(sqlite3_exec(maker, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    vfs->xSleep = sleep_until_made;
    CHECK_INT(fr_store_open(home, &st, &err), FR_OK);
    vfs->xSleep = sleep;
    CHECK_INT(sleeps, 3);
    fr_store_close(st);
    sqlite3_close(maker);
    remove_store();
}

/* Who only reads waits for nobody, and cannot write. */
static void test_read(void)
{
    struct fr_store *st = open_store(), *reader = NULL;
    struct fr_run_row row = {.name = "r", .state = FR_RUN_RUNNING};
    struct fr_id id = fr_store_home_id(st);
    struct fr_err err = {0};

    check_row("a reader beside a writer");
    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(fr_store_open_read(home, &reader, &err), FR_OK);
    CHECK(reader != NULL && fr_id_eq(fr_store_home_id(reader), id));
    CHECK(fr_store_begin(reader, &err) != FR_OK || fr_store_run_add(reader, &row, &err) != FR_OK);
    fr_store_close(reader);
    fr_store_rollback(st);
    fr_store_close(st);

    check_row("a reader of a newer schema");
    set_version(newest_schema() + 1);
    CHECK_INT(fr_store_open_read(home, &reader, &err), FR_UNSUPPORTED);
    set_version(newest_schema());

    check_row("a reader of a home without a store");
    remove_store();
    CHECK_INT(fr_store_open_read(home, &reader, &err), FR_OK);
    fr_store_close(reader);
    remove_store();
}

static void test_newer_by_one(void)
{
    struct fr_store *st = open_store();
    struct fr_err err = {0};

    check_row("a schema newer by one");
    fr_store_close(st);
    set_version(newest_schema() + 1);
    CHECK_INT(fr_store_open(home, &st, &err), FR_UNSUPPORTED);
    set_version(newest_schema());
    CHECK_INT(fr_store_open(home, &st, &err), FR_OK);
    fr_store_close(st);
    check_row("… while the store is opened");
    remove_store();
    sqlite3_auto_extension((void (*)(void))on_open);
    CHECK_INT(fr_store_open(home, &st, &err), FR_UNSUPPORTED);
    sqlite3_cancel_auto_extension((void (*)(void))on_open);
    CHECK(raced);
    remove_store();
}

static void test_versions(void)
{
    struct fr_store *st = open_store();
    struct fr_id id = fr_store_home_id(st);
    struct fr_err err = {0};
    sqlite3 *db;
    char path[300];

    fr_store_close(st);
    st = open_store();
    CHECK(fr_id_eq(id, fr_store_home_id(st)));
    CHECK(!fr_id_zero(id));
    fr_store_close(st);
    snprintf(path, sizeof(path), "%s/state.db", home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    CHECK_INT(fr_store_open(home, &st, &err), FR_UNSUPPORTED);
    CHECK(st == NULL && strstr(err.msg, "schema 99") != NULL);
    CHECK(truncate(path, 100) == 0);
    CHECK_INT(fr_store_open(home, &st, &err), FR_CORRUPT);
}

/* A home of version 1 comes out as it was. */
static void test_migration(void)
{
    static const char rows[] =
        "INSERT INTO home VALUES(1, x'0102030405060708090a0b0c0d0e0f10', 5);"
        "INSERT INTO run(id, no, name, source, folder, spec_hash, inventory_hash, inventory, "
        "params, "
        "state, started_wall) VALUES(x'07070707070707070707070707070707', 1, 'p', 's', 'f', 'h', "
        "'', "
        "'', '{}', 'running', 1);"
        "INSERT INTO attempt(id, run, idx, no, generation, node, rank, state, log, started_wall) "
        "VALUES(x'02', x'07070707070707070707070707070707', -1, 1, 1, 'n', 0, 'failed', 'a.log', "
        "2), "
        "(x'01', x'07070707070707070707070707070707', -1, 1, 1, 'n', 0, 'lost', 'b.log', 3);"
        "INSERT INTO event(run, wall, idx, kind) VALUES(x'07070707070707070707070707070707', 4, 0, "
        "'ready'), (x'07070707070707070707070707070707', 5, 0, 'starting');"
        "PRAGMA user_version = 1";
    const char *two = strstr(fr_store_schema, "-- @version 2");
    struct fr_id run;
    struct fr_event_row ev = {.wall = 6, .idx = 0, .kind = "running"};
    struct fr_event_rows events = {0};
    struct fr_attempt_rows attempts;
    struct fr_arena arena = {0};
    struct fr_store *st = NULL;
    struct fr_err err = {0};
    struct fr_buf sql = {0};
    sqlite3 *db;
    char path[300];

    memset(run.b, 7, sizeof(run.b));
    snprintf(path, sizeof(path), "%s/state.db", home);
    unlink(path);
    fr_buf_add(&sql, fr_store_schema, (size_t)(two - fr_store_schema));
    fr_buf_text(&sql, rows);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql.p, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    fr_buf_finish(&sql);
    CHECK_INT(fr_store_open(home, &st, &err), FR_OK);
    CHECK_INT(fr_store_event_add(st, run, &ev, &err), FR_OK);
    CHECK_INT(fr_store_events(st, run, &arena, &events, &err), FR_OK);
    CHECK_INT(events.n, 3);
    CHECK_TEXT(events.rows[2].kind, "running");
    CHECK_INT(events.rows[2].seq, 3);
    CHECK_INT(fr_store_attempts(st, run, &arena, &attempts, &err), FR_OK);
    CHECK_INT(attempts.n, 2);
    CHECK_TEXT(attempts.rows[0].log, "b.log");
    CHECK_TEXT(attempts.rows[1].state, "failed");
    check_sound();
    fr_arena_finish(&arena);
    fr_store_close(st);
}

/* Two hosts: the later one's first commit ends the writing of the earlier one. */
static void test_lead(void)
{
    struct fr_store *first, *second;
    uint32_t one = 0, two = 0, now = 9;
    struct fr_err err = {0};

    remove_store();
    first = open_store();
    second = open_store();
    CHECK_INT(fr_store_epoch(first, &now, &err), FR_OK);
    CHECK_INT(now, 0);
    CHECK_INT(fr_store_lead(first, &one, &err), FR_OK);
    CHECK_INT(fr_store_epoch(first, &now, &err), FR_OK);
    CHECK_INT(now, one);
    CHECK_INT(fr_store_begin(first, &err), FR_OK);
    CHECK_INT(fr_store_commit(first, &err), FR_OK);
    CHECK_INT(fr_store_lead(second, &two, &err), FR_OK);
    CHECK_INT(two, one + 1);
    CHECK_INT(fr_store_begin(first, &err), FR_DENIED); /* it writes nothing that second lacks */
    CHECK(strstr(err.msg, "another flowrun became the host") != NULL);
    CHECK_INT(fr_store_begin(second, &err), FR_OK);
    CHECK_INT(fr_store_commit(second, &err), FR_OK);
    fr_store_close(first);
    fr_store_close(second);
}

/* Two that could not write when they took the same number: who commits first is the host. */
static void test_lead_at_once(void)
{
    struct fr_store *first, *second, *writer;
    uint32_t one = 0, two = 0, now = 0;
    struct fr_err err = {0};

    remove_store();
    first = open_store();
    second = open_store();
    writer = open_store();
    CHECK_INT(fr_store_begin(writer, &err), FR_OK);
    fr_store_patience(first, 0);
    fr_store_patience(second, 0);
    CHECK_INT(fr_store_lead(first, &one, &err), FR_OK);
    CHECK_INT(fr_store_lead(second, &two, &err), FR_OK);
    CHECK_INT(two, one);
    fr_store_close(writer);
    CHECK(fr_store_leads(first) && !fr_store_followed(first, &now));
    CHECK_INT(fr_store_begin(second, &err), FR_OK);
    CHECK_INT(fr_store_commit(second, &err), FR_OK);
    CHECK(fr_store_leads(second) && !fr_store_followed(second, &now));
    CHECK(!fr_store_leads(first) && fr_store_followed(first, &now));
    CHECK_INT(now, two);
    CHECK_INT(fr_store_begin(first, &err), FR_DENIED);
    fr_store_close(first);
    fr_store_close(second);
}

/* A word that no value has is an error that says where it is, also after rows that are read. */
static void test_unknown_words(void)
{
    static const struct {
        const char *change, *want;
    } rows[] = {
        {"UPDATE run SET state = 'asleep' WHERE no = 1",
         "/state.db: table run, column state: this flowrun does not know the word 'asleep'; a "
         "newer "
         "one may have written it"},
        {"UPDATE run SET state = '' WHERE no = 1",
         "/state.db: table run, column state: this flowrun does not know the word ''; a newer one "
         "may have written it"},
        {"UPDATE run SET outcome = 'none' WHERE no = 1",
         "/state.db: table run, column outcome: this flowrun does not know the word 'none'; a "
         "newer "
         "one may have written it"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_store *st = open_store();
        struct fr_run_row a = {.id = {{1}}, .name = "p"}, b = {.id = {{2}}, .name = "p"};
        struct fr_arena arena = {0};
        struct fr_run_rows got;
        struct fr_err err = {0};

        check_row(rows[i].change);
        CHECK_INT(fr_store_run_add(st, &a, &err), FR_OK);
        CHECK_INT(fr_store_run_add(st, &b, &err), FR_OK);
        CHECK_INT(sqlite3_exec(st->db, rows[i].change, NULL, NULL, NULL), SQLITE_OK);
        CHECK_INT(fr_store_runs(st, 0, &arena, &got, &err), FR_UNSUPPORTED);
        CHECK(strncmp(err.msg, home, strlen(home)) == 0);
        CHECK_TEXT(err.msg + strlen(home), rows[i].want);
        CHECK_INT(got.n, 0);
        CHECK_INT(fr_store_runs(st, 1, &arena, &got, &err), FR_OK);
        CHECK_INT(got.n, 1);
        fr_store_close(st);
        fr_arena_finish(&arena);
        remove_store();
    }
}

int main(void)
{
    struct fr_err err = {0};

    make_home();
    test_private();
    test_made_by_two();
    test_read();
    test_newer_by_one();
    test_versions();
    test_migration();
    test_lead();
    test_lead_at_once();
    remove_store();
    test_unknown_words();
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    return check_done();
}
