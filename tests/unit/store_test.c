/* The store on a real file in a temporary folder: what is put comes back, what is not committed
 * does not, versions are refused, runs are found by what people type. */
#include "engine/base/sys.h"
#include "engine/store/blob.h"
#include "engine/store/home.h"
#include "engine/store/sql.h"
#include "engine/store/store.h"
#include "tests/unit/check.h"
#include "tests/unit/sync_guard.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[256];

static void make_home(void)
{
    struct fr_err err;
    const char *tmp = getenv("TMPDIR");

    snprintf(home, sizeof(home), "%s/flowrun-store-XXXXXX", tmp != NULL ? tmp : "/tmp");
    CHECK(mkdtemp(home) != NULL);
    CHECK_INT(fr_home_make(home, &err), FR_OK);
}

static struct fr_store *open_store(void)
{
    struct fr_store *st = NULL;
    struct fr_err err = {0};

    if (fr_store_open(home, &st, &err) != FR_OK)
        printf("%s\n", err.msg);
    CHECK(st != NULL);
    return st;
}

/* The database is whole, and no row names one that is not there. */
static void check_sound(void)
{
    static const char *const sql[] = {
        "SELECT 1 FROM pragma_integrity_check(1) WHERE integrity_check <> 'ok'",
        "SELECT 1 FROM pragma_foreign_key_check"};
    char path[300];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/state.db", home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *stmt = NULL;

        CHECK_INT(sqlite3_prepare_v2(db, sql[i], -1, &stmt, NULL), SQLITE_OK);
        CHECK_INT(sqlite3_step(stmt), SQLITE_DONE);
        sqlite3_finalize(stmt);
    }
    sqlite3_close(db);
}

static struct fr_id id_of(uint8_t first)
{
    struct fr_id id = {{first, 0xbc, 0x12}};

    id.b[15] = 9;
    return id;
}

static struct fr_run_row run_row(uint8_t first)
{
    return (struct fr_run_row){.id = id_of(first),
                               .name = "hello",
                               .source = "/p/hello.yaml",
                               .folder = "/p",
                               .spec_hash = "aa",
                               .params = "{}",
                               .state = "running",
                               .started_wall = 1000,
                               .round = 1};
}

static void test_run_rows(void)
{
    struct fr_store *st = open_store();
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    struct fr_run_row a = run_row(0xab), b = run_row(0xcd), got = {.no = 0};
    struct fr_run_rows rows;

    CHECK_INT(fr_store_run_find(st, NULL, &arena, &got, &err), FR_NOTFOUND);
    CHECK_INT(fr_store_run_add(st, &a, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &b, &err), FR_OK);
    CHECK_INT(a.no, 1);
    CHECK_INT(b.no, 2);
    CHECK(fr_store_run_add(st, &b, &err) != FR_OK);
    a.state = "over";
    a.outcome = "failed";
    a.reason = "task x";
    a.ended_wall = 2000;
    a.round = 2;
    CHECK_INT(fr_store_run_set(st, &a, &err), FR_OK);
    CHECK_INT(fr_store_runs(st, 0, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 2);
    CHECK_INT(rows.rows[0].no, 2);
    CHECK_TEXT(rows.rows[1].state, "over");
    CHECK_TEXT(rows.rows[1].outcome, "failed");
    CHECK_TEXT(rows.rows[1].reason, "task x");
    CHECK_INT(rows.rows[1].round, 2);
    CHECK_TEXT(rows.rows[1].source, "/p/hello.yaml");
    CHECK_INT(fr_store_runs(st, 1, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 1);
    fr_arena_finish(&arena);
    fr_store_close(st);
}

static void test_find(void)
{
    static const struct {
        const char *text;
        enum fr_rc rc;
        int64_t no;
    } cases[] = {
        {NULL, FR_OK, 2},         {"1", FR_OK, 1},       {"2", FR_OK, 2},
        {"abbc", FR_OK, 1},       {"ABBC12", FR_OK, 1},  {"cdbc1200", FR_OK, 2},
        {"ab", FR_NOTFOUND, 0},   {"3", FR_NOTFOUND, 0}, {"beef", FR_NOTFOUND, 0},
        {"ab%c", FR_NOTFOUND, 0}, {"", FR_NOTFOUND, 0},  {"../x", FR_NOTFOUND, 0},
    };
    struct fr_store *st = open_store();
    struct fr_arena arena = {0};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fr_run_row got = {.no = 0};
        struct fr_err err = {0};

        check_row(cases[i].text != NULL ? cases[i].text : "(newest)");
        CHECK_INT(fr_store_run_find(st, cases[i].text, &arena, &got, &err), cases[i].rc);
        CHECK_INT(got.no, cases[i].no);
        CHECK((cases[i].rc == FR_OK) == (err.msg[0] == '\0'));
    }
    check_row("");
    fr_arena_finish(&arena);
    fr_store_close(st);
}

static void check_insts(struct fr_store *st, struct fr_arena *arena, struct fr_id run)
{
    struct fr_inst_row inst = {.idx = 3,
                               .key = "train@n1",
                               .task = "train",
                               .node = "n1",
                               .state = "starting",
                               .attempt_no = 1,
                               .retries = 2,
                               .live = 1,
                               .attempt_state = "starting",
                               .generation = 4,
                               .go = 1,
                               .attempt = id_of(7),
                               .due_wall = 50,
                               .due_delay_ms = 60,
                               .started_wall = 70};
    struct fr_inst_rows rows;
    struct fr_err err = {0};

    CHECK_INT(fr_store_inst_put(st, run, &inst, &err), FR_OK);
    inst.state = "stopping";
    inst.cause = "timeout";
    inst.unreachable_wall = 80;
    CHECK_INT(fr_store_inst_put(st, run, &inst, &err), FR_OK);
    inst = (struct fr_inst_row){.idx = 1, .task = "a", .node = "n2", .state = "waiting"};
    CHECK_INT(fr_store_inst_put(st, run, &inst, &err), FR_OK);
    CHECK_INT(fr_store_insts(st, run, arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 2);
    CHECK_TEXT(rows.rows[0].task, "a");
    CHECK(fr_id_zero(rows.rows[0].attempt));
    CHECK_TEXT(rows.rows[1].state, "stopping");
    CHECK_TEXT(rows.rows[1].cause, "timeout");
    CHECK_TEXT(rows.rows[1].key, "train@n1");
    CHECK_TEXT(rows.rows[1].attempt_state, "starting");
    CHECK_INT(rows.rows[1].retries, 2);
    CHECK_INT(rows.rows[1].live, 1);
    CHECK_INT(rows.rows[1].go, 1);
    CHECK_INT(rows.rows[1].generation, 4);
    CHECK(fr_id_eq(rows.rows[1].attempt, id_of(7)));
    CHECK_INT(rows.rows[1].due_wall, 50);
    CHECK_INT(rows.rows[1].due_delay_ms, 60);
    CHECK_INT(rows.rows[1].unreachable_wall, 80);
    CHECK_INT(rows.rows[1].started_wall, 70);
}

static void check_attempts(struct fr_store *st, struct fr_arena *arena, struct fr_id run)
{
    struct fr_attempt_row row = {.id = id_of(7),
                                 .idx = 3,
                                 .no = 2,
                                 .generation = 4,
                                 .rank = 1,
                                 .node = "n1",
                                 .state = "starting",
                                 .log = "train@n1.2.log",
                                 .started_wall = 5};
    struct fr_attempt_rows rows;
    struct fr_err err = {0};

    CHECK_INT(fr_store_attempt_put(st, run, &row, &err), FR_OK);
    row.home_id = id_of(8);
    row.boot_id = "boot";
    row.state = "failed";
    row.cause = "exit";
    row.code = 3;
    row.address = "10.0.0.1";
    row.port = 39500;
    row.ended_wall = 9;
    CHECK_INT(fr_store_attempt_put(st, run, &row, &err), FR_OK);
    CHECK_INT(fr_store_attempt_done(st, run, &row, &err), FR_OK);
    CHECK_INT(fr_store_attempts(st, run, arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 1);
    CHECK_INT(rows.rows[0].done, 1);
    CHECK(fr_id_eq(rows.rows[0].home_id, id_of(8)));
    CHECK_TEXT(rows.rows[0].boot_id, "boot");
    CHECK_TEXT(rows.rows[0].address, "10.0.0.1");
    CHECK_TEXT(rows.rows[0].log, "train@n1.2.log");
    CHECK_INT(rows.rows[0].code, 3);
    CHECK_INT(rows.rows[0].port, 39500);
    CHECK_INT(rows.rows[0].rank, 1);
    CHECK_TEXT(rows.rows[0].state, "failed");
}

static void check_others(struct fr_store *st, struct fr_arena *arena, struct fr_id run)
{
    struct fr_output_row output = {3, "k", "v\nw"};
    struct fr_output_rows outputs;
    struct fr_node_row node = {.name = "n1"};
    struct fr_node_rows nodes;
    struct fr_file_row file = {"/p/x", "ab", 0755, 12};
    struct fr_file_rows files;
    struct fr_err err = {0};
    int64_t base = -1;

    CHECK_INT(fr_store_output_put(st, run, &output, &err), FR_OK);
    CHECK_INT(fr_store_outputs(st, run, arena, &outputs, &err), FR_OK);
    CHECK_INT(outputs.n, 1);
    CHECK_TEXT(outputs.rows[0].value, "v\nw");
    CHECK_INT(fr_store_output_clear(st, run, 3, &err), FR_OK);
    CHECK_INT(fr_store_outputs(st, run, arena, &outputs, &err), FR_OK);
    CHECK_INT(outputs.n, 0);

    CHECK_INT(fr_store_node_put(st, run, &node, &err), FR_OK);
    CHECK_INT(fr_store_epochs(st, run, 1000, &base, &err), FR_OK);
    CHECK_INT(base, 0);
    node.boot_id = "b";
    node.abandoned = 1;
    CHECK_INT(fr_store_node_put(st, run, &node, &err), FR_OK);
    CHECK_INT(fr_store_epochs(st, run, 1000, &base, &err), FR_OK);
    CHECK_INT(base, 1000);
    CHECK_INT(fr_store_nodes(st, run, arena, &nodes, &err), FR_OK);
    CHECK_INT(nodes.n, 1);
    CHECK_INT(nodes.rows[0].epoch, 2000);
    CHECK_INT(nodes.rows[0].abandoned, 1);
    CHECK_TEXT(nodes.rows[0].boot_id, "b");

    CHECK_INT(fr_store_file_put(st, run, &file, &err), FR_OK);
    CHECK_INT(fr_store_files(st, run, arena, &files, &err), FR_OK);
    CHECK_INT(files.n, 1);
    CHECK_INT(files.rows[0].mode, 0755);
}

static void test_rows(void)
{
    struct fr_store *st = open_store();
    struct fr_arena arena = {0};
    struct fr_id run = id_of(0xab);

    check_insts(st, &arena, run);
    check_attempts(st, &arena, run);
    check_others(st, &arena, run);
    check_sound();
    fr_arena_finish(&arena);
    fr_store_close(st);
}

static void test_requests_events(void)
{
    struct fr_store *st = open_store();
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    struct fr_id run = id_of(0xab);
    struct fr_request_row r1 = {.kind = "cancel", .asked_wall = 5}, r2 = {.kind = "retry"};
    struct fr_request_rows open;
    const char *answer;
    struct fr_event_rows rows = {0};

    CHECK_INT(fr_store_request_add(st, run, &r1, &err), FR_OK);
    CHECK_INT(fr_store_request_add(st, run, &r2, &err), FR_OK);
    CHECK_INT(fr_store_request_answer(st, r1.id, &arena, &answer, &err), FR_OK);
    CHECK(answer == NULL);
    CHECK_INT(fr_store_request_done(st, r1.id, "yes", &err), FR_OK);
    CHECK_INT(fr_store_request_answer(st, r1.id, &arena, &answer, &err), FR_OK);
    CHECK(answer != NULL && strcmp(answer, "yes") == 0);
    CHECK_INT(fr_store_requests(st, run, &arena, &open, &err), FR_OK);
    CHECK_INT(open.n, 1);
    CHECK_INT(open.rows[0].id, r2.id);
    for (int i = 0; i < 1500; i++) {
        struct fr_event_row ev = {.wall = i, .idx = i % 7, .kind = "ready", .text = "t"};

        CHECK_INT(fr_store_event_add(st, run, &ev, &err), FR_OK);
        if (i == 0)
            CHECK_INT(fr_store_begin(st, &err), FR_OK);
    }
    CHECK_INT(fr_store_commit(st, &err), FR_OK);
    CHECK_INT(fr_store_events(st, run, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 1000);
    CHECK_INT(fr_store_events(st, run, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 500);
    CHECK_INT(rows.rows[499].wall, 1499);
    CHECK_INT(fr_store_events(st, run, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 0);
    fr_arena_finish(&arena);
    fr_store_close(st);
}

/* A turn that is rolled back, or whose process dies before its commit, leaves nothing. */
static void test_atomic(void)
{
    struct fr_store *st = open_store(), *other;
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    struct fr_run_row row = run_row(0xef), got;

    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    fr_store_rollback(st);
    CHECK_INT(fr_store_run_find(st, "efbc", &arena, &got, &err), FR_NOTFOUND);
    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    other = open_store();
    CHECK_INT(fr_store_run_find(other, "efbc", &arena, &got, &err), FR_NOTFOUND);
    fr_store_close(st);
    CHECK_INT(fr_store_run_find(other, "efbc", &arena, &got, &err), FR_NOTFOUND);
    fr_store_close(other);
    fr_arena_finish(&arena);
}

static void remove_store(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[300];

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/state.db%s", home, ends[i]);
        unlink(path);
    }
}

/* A commit that fails leaves nothing of its transaction, and others may write. A row that names one
 * that is not there fails it. */
static void test_commit_fails(void)
{
    struct fr_store *st = open_store(), *other = open_store();
    struct fr_run_row row = run_row(0xed);
    struct fr_err err = {0};

    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    CHECK_INT(sqlite3_exec(st->db,
                           "PRAGMA defer_foreign_keys = ON;"
                           "INSERT INTO event(run, seq, wall, idx, kind) "
                           "VALUES(x'00', 1, 1, 0, 'ready')",
                           NULL, NULL, NULL),
              SQLITE_OK);
    CHECK(fr_store_commit(st, &err) != FR_OK);
    CHECK(sqlite3_get_autocommit(st->db) != 0);
    CHECK_INT(fr_store_begin(other, &err), FR_OK);
    CHECK_INT(fr_store_run_add(other, &row, &err), FR_OK);
    CHECK_INT(fr_store_commit(other, &err), FR_OK);
    fr_store_close(st);
    fr_store_close(other);
    remove_store();
}

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

static bool blob_there(const char *name)
{
    struct fr_buf path = {0};

    fr_blob_path(home, name, &path);
    bool yes = access(path.p, F_OK) == 0;
    fr_buf_finish(&path);
    return yes;
}

/* What no row names goes once something says that a flowrun left it, and nothing else. */
static void check_blob_tidy(const char *named)
{
    static const char unnamed[] =
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const struct {
        const char *name;
        bool stays;
    } rows[] = {
        {".a", false}, {"x.tmp-1", false}, {unnamed, false}, {"notes", true}, {named, true}};
    struct fr_store *st = open_store(), *other = open_store();
    struct fr_run_row run = {.id = id_of(77), .name = "x", .spec_hash = named, .state = "over"};
    struct fr_file_row file = {.path = "/f", .mode = 0600};
    char hash[FR_SHA256_TEXT];
    struct fr_err err = {0};

    CHECK_INT(fr_store_run_add(st, &run, &err), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf path = {0};
        fr_blob_path(home, rows[i].name, &path);
        close(open(path.p, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        fr_buf_finish(&path);
    }
    fr_blob_tidy(st);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        CHECK(blob_there(rows[i].name) == rows[i].stays);
    }
    check_row("of a flowrun at work");
    sqlite3_busy_timeout(st->db, 0);
    CHECK_INT(fr_store_begin(other, &err), FR_OK);
    CHECK_INT(fr_blob_mark(home, run.id, &err), FR_OK);
    CHECK_INT(fr_blob_put(home, FR_STR("at work"), hash, &err), FR_OK);
    fr_blob_tidy(st);
    CHECK(blob_there(hash));
    file.hash = hash;
    CHECK_INT(fr_store_file_put(other, run.id, &file, &err), FR_OK);
    CHECK_INT(fr_store_commit(other, &err), FR_OK);
    fr_blob_tidy(st); /* its mark still stands */
    CHECK(blob_there(hash));
    fr_blob_unmark(home, run.id);
    check_row("of one that failed");
    CHECK_INT(fr_store_begin(other, &err), FR_OK);
    CHECK_INT(fr_blob_mark(home, run.id, &err), FR_OK);
    CHECK_INT(fr_blob_put(home, FR_STR("in vain"), hash, &err), FR_OK);
    fr_store_rollback(other);
    fr_blob_tidy(st);
    CHECK(!blob_there(hash));
    fr_store_close(other);
    fr_store_close(st);
}

/* What a row may name is on the disk, and so is its name. */
static void test_blobs_synced(void)
{
    char hash[FR_SHA256_TEXT];
    struct fr_err err = {0};
    struct fr_buf path = {0};
    size_t renames;

    check_row("blobs are synced");
    sync_guard_begin();
    CHECK_INT(fr_blob_put(home, FR_STR("bytes\n"), hash, &err), FR_OK);
    CHECK_INT(sync_guard_end(true, &renames), 0);
    CHECK_INT(renames, 1);
    fr_buf_fmt(&path, "%s/given", home);
    CHECK_INT(fr_file_write(path.p, "a file\n", 7, 0600, &err), FR_OK);
    sync_guard_begin();
    CHECK_INT(fr_blob_put_file(home, path.p, hash, &err), FR_OK);
    CHECK_INT(sync_guard_end(true, &renames), 0);
    CHECK_INT(renames, 1);
    fr_buf_finish(&path);
}

static void test_blobs(void)
{
    char hash[FR_SHA256_TEXT], again[FR_SHA256_TEXT];
    struct fr_err err = {0};
    struct fr_buf got = {0}, path = {0};

    CHECK_INT(fr_blob_put(home, FR_STR("hello\n"), hash, &err), FR_OK);
    CHECK_TEXT(hash, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    fr_blob_path(home, hash, &path);
    CHECK_INT(fr_blob_put_file(home, path.p, again, &err), FR_OK);
    CHECK_TEXT(again, hash);
    CHECK_INT(fr_blob_get(home, hash, &got, &err), FR_OK);
    CHECK_TEXT(got.p, "hello\n");
    CHECK(truncate(path.p, 3) == 0);
    got.n = 0;
    CHECK_INT(fr_blob_get(home, hash, &got, &err), FR_CORRUPT);
    CHECK_INT(fr_blob_put_file(home, "/nowhere/x", again, &err), FR_NOTFOUND);
    check_blob_tidy(hash);
    fr_buf_finish(&got);
    fr_buf_finish(&path);
}

int main(void)
{
    struct fr_err err = {0};

    make_home();
    test_run_rows();
    test_find();
    test_rows();
    test_requests_events();
    test_atomic();
    test_commit_fails();
    test_private();
    test_blobs();
    test_blobs_synced();
    test_made_by_two();
    test_newer_by_one();
    test_versions();
    test_migration();
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    return check_done();
}
