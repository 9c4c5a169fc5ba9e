/* Opening the store: versions, migration, two that make it at once, one that only reads. */
#include "engine/base/sys.h"
#include "engine/store/home.h"
#include "engine/store/lists.h"
#include "engine/store/sql.h"
#include "engine/store/store.h"
#include "tests/unit/store/store_bed.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static char home[BED_HOME];

/* Whatever the umask says, the store is for its owner alone. */
static void test_private(void)
{
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm"};
    mode_t mask = umask(0);

    remove_store(home);
    struct fr_store *st = open_store(home);
    umask(mask);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[300];
        struct stat info = {0};
        snprintf(path, sizeof(path), "%s/%s", home, names[i]);
        check_row(names[i]);
        CHECK(stat(path, &info) == 0 && (info.st_mode & 077) == 0);
    }
    fr_store_close(st);
    remove_store(home);
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
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    int (*sleep)(sqlite3_vfs *, int) = vfs->xSleep;

    check_row("made by two at once");
    remove_store(home);
    snprintf(path, sizeof(path), "%s/state.db", home);
    CHECK_INT(sqlite3_open(path, &maker), SQLITE_OK);
    CHECK_INT(sqlite3_exec(maker, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    vfs->xSleep = sleep_until_made;
    CHECK_INT(fr_store_open(home, &st, NULL), FR_OK);
    vfs->xSleep = sleep;
    CHECK_INT(sleeps, 3);
    fr_store_close(st);
    sqlite3_close(maker);
    remove_store(home);
}

/* Who only reads waits for nobody, and cannot write. */
static void test_read(void)
{
    struct fr_store *st = open_store(home), *reader = NULL;
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
    remove_store(home);
    CHECK_INT(fr_store_open_read(home, &reader, &err), FR_OK);
    fr_store_close(reader);
    remove_store(home);
}

static void test_newer_by_one(void)
{
    struct fr_store *st = open_store(home);
    struct fr_err err = {0};

    check_row("a schema newer by one");
    fr_store_close(st);
    set_version(newest_schema() + 1);
    CHECK_INT(fr_store_open(home, &st, &err), FR_UNSUPPORTED);
    set_version(newest_schema());
    CHECK_INT(fr_store_open(home, &st, &err), FR_OK);
    fr_store_close(st);
    check_row("… while the store is opened");
    remove_store(home);
    sqlite3_auto_extension((void (*)(void))on_open);
    CHECK_INT(fr_store_open(home, &st, &err), FR_UNSUPPORTED);
    sqlite3_cancel_auto_extension((void (*)(void))on_open);
    CHECK(raced);
    remove_store(home);
}

static void test_versions(void)
{
    struct fr_store *st = open_store(home);
    struct fr_id id = fr_store_home_id(st);
    struct fr_err err = {0};
    sqlite3 *db;
    char path[300];

    fr_store_close(st);
    st = open_store(home);
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
    CHECK_INT(fr_store_open(home, &st, NULL), FR_OK);
    CHECK_INT(fr_store_event_add(st, run, &ev, NULL), FR_OK);
    CHECK_INT(fr_store_events(st, run, &arena, &events, NULL), FR_OK);
    CHECK_INT(events.n, 3);
    CHECK_TEXT(events.rows[2].kind, "running");
    CHECK_INT(events.rows[2].seq, 3);
    CHECK_INT(fr_store_attempts(st, run, &arena, &attempts, NULL), FR_OK);
    CHECK_INT(attempts.n, 2);
    CHECK_TEXT(attempts.rows[0].log, "b.log");
    CHECK_INT(attempts.rows[1].state, FR_ST_FAILED);
    check_sound(home);
    fr_arena_finish(&arena);
    fr_store_close(st);
}

/* Two hosts: the later one's first commit ends the writing of the earlier one. */
static void test_lead(void)
{
    struct fr_store *first, *second;
    uint32_t one = 0, two = 0, now = 9;
    struct fr_err err = {0};

    remove_store(home);
    first = open_store(home);
    second = open_store(home);
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
    uint32_t one = 0, two = 0;
    struct fr_err err = {0}, why = {0};

    remove_store(home);
    first = open_store(home);
    second = open_store(home);
    writer = open_store(home);
    CHECK_INT(fr_store_begin(writer, &err), FR_OK);
    fr_store_patience(first, 0);
    fr_store_patience(second, 0);
    CHECK_INT(fr_store_lead(first, &one, &err), FR_OK);
    CHECK_INT(fr_store_lead(second, &two, &err), FR_OK);
    CHECK_INT(two, one);
    fr_store_close(writer);
    CHECK(fr_store_leads(first) && !fr_store_followed(first, &why));
    CHECK_INT(fr_store_begin(second, &err), FR_OK);
    CHECK_INT(fr_store_commit(second, &err), FR_OK);
    CHECK(fr_store_leads(second) && !fr_store_followed(second, &why));
    CHECK(!fr_store_leads(first) && fr_store_followed(first, &why));
    CHECK_INT(why.rc, FR_DENIED);
    CHECK_INT(fr_store_begin(first, &err), FR_DENIED);
    CHECK(strcmp(why.msg, err.msg) == 0);
    fr_store_close(first);
    fr_store_close(second);
}

static enum fr_rc read_runs(struct fr_store *st, struct fr_arena *arena, struct fr_err *err)
{
    struct fr_run_rows rows;
    enum fr_rc rc = fr_store_runs(st, 0, arena, &rows, err);

    CHECK_INT(rows.n, rc == FR_OK ? 2 : 0);
    return rc;
}

static enum fr_rc read_insts(struct fr_store *st, struct fr_arena *arena, struct fr_err *err)
{
    return fr_store_insts(st, (struct fr_id){{1}}, arena, &(struct fr_inst_rows){0}, err);
}

static enum fr_rc read_counts(struct fr_store *st, struct fr_arena *arena, struct fr_err *err)
{
    return fr_store_counts(st, (struct fr_id){{1}}, arena, &(struct fr_count_rows){0}, err);
}

static enum fr_rc read_attempts(struct fr_store *st, struct fr_arena *arena, struct fr_err *err)
{
    return fr_store_attempts(st, (struct fr_id){{1}}, arena, &(struct fr_attempt_rows){0}, err);
}

/* A word that no value has is an error that says where it is, also after rows that are read. */
static void test_unknown_words(void)
{
    static const struct {
        const char *table, *column, *word;
        enum fr_rc (*read)(struct fr_store *st, struct fr_arena *arena, struct fr_err *err);
    } rows[] = {
        {"run", "state", "asleep", read_runs},
        {"run", "state", "", read_runs},
        {"run", "outcome", "none", read_runs},
        {"instance", "state", "", read_insts},
        {"instance", "state", "asleep", read_counts},
        {"instance", "attempt_state", "asleep", read_insts},
        {"instance", "cause", "none", read_insts},
        {"instance", "stop_cause", "asleep", read_insts},
        {"attempt", "state", "", read_attempts},
        {"attempt", "cause", "asleep", read_attempts},
    };
    struct fr_store *st = open_store(home);
    struct fr_run_row a = {.id = {{1}}, .name = "p"}, b = {.id = {{2}}, .name = "p"};
    struct fr_inst_row inst = {.key = "a@n", .task = "a", .attempt_state = FR_ST_NONE};
    struct fr_err err = {0};

    CHECK_INT(fr_store_run_add(st, &a, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &b, &err), FR_OK);
    CHECK_INT(fr_store_inst_put(st, a.id, &inst, &err), FR_OK);
    CHECK_INT(fr_store_attempt_put(st, a.id, &(struct fr_attempt_row){.id = {{3}}, .no = 1}, &err),
              FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        char sql[120], want[400];

        check_row(rows[i].column);
        CHECK_INT(rows[i].read(st, &arena, &err), FR_OK);
        snprintf(sql, sizeof(sql), "SAVEPOINT before; UPDATE %s SET %s = '%s'%s", rows[i].table,
                 rows[i].column, rows[i].word, rows[i].read == read_runs ? " WHERE no = 1" : "");
        CHECK_INT(sqlite3_exec(st->db, sql, NULL, NULL, NULL), SQLITE_OK);
        CHECK_INT(rows[i].read(st, &arena, &err), FR_UNSUPPORTED);
        snprintf(want, sizeof(want),
                 "%s/state.db: table %s, column %s: this flowrun does not know the word '%s'; a "
                 "newer one may have written it",
                 home, rows[i].table, rows[i].column, rows[i].word);
        CHECK_TEXT(err.msg, want);
        CHECK_INT(sqlite3_exec(st->db, "ROLLBACK TO before; RELEASE before", NULL, NULL, NULL),
                  SQLITE_OK);
        fr_arena_finish(&arena);
    }
    fr_store_close(st);
    remove_store(home);
}

int main(void)
{
    make_home(home);
    test_private();
    test_made_by_two();
    test_read();
    test_newer_by_one();
    test_versions();
    test_migration();
    test_lead();
    test_lead_at_once();
    remove_store(home);
    test_unknown_words();
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}
