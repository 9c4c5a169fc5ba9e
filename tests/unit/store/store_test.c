/* The store on a real file in a temporary folder: what is put comes back, what is not committed
 * does not, runs are found by what people type. */
#include "engine/base/sys.h"
#include "engine/store/blob.h"
#include "engine/store/home.h"
#include "engine/store/sql.h"
#include "engine/store/store.h"
#include "tests/unit/store/store_bed.h"
#include "tests/unit/sync_guard.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

static char home[BED_HOME];

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
                               .state = FR_RUN_RUNNING,
                               .started_wall = 1000,
                               .round = 1};
}

static void test_run_rows(void)
{
    struct fr_store *st = open_store(home);
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
    a.state = FR_RUN_OVER;
    a.outcome = FR_OUT_FAILED;
    a.reason = "task x";
    a.ended_wall = 2000;
    a.round = 2;
    CHECK_INT(fr_store_run_set(st, &a, &err), FR_OK);
    CHECK_INT(fr_store_runs(st, 0, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 2);
    CHECK_INT(rows.rows[0].no, 2);
    CHECK_INT(rows.rows[1].state, FR_RUN_OVER);
    CHECK_INT(rows.rows[1].outcome, FR_OUT_FAILED);
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
    struct fr_store *st = open_store(home);
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
                               .state = FR_ST_STARTING,
                               .attempt_no = 1,
                               .retries = 2,
                               .chained = 5,
                               .live = 1,
                               .attempt_state = FR_ST_STARTING,
                               .generation = 4,
                               .go = 1,
                               .attempt = id_of(7),
                               .due_wall = 50,
                               .due_delay_ms = 60,
                               .started_wall = 70};
    struct fr_inst_rows rows;

    CHECK_INT(fr_store_inst_put(st, run, &inst, NULL), FR_OK);
    inst.state = FR_ST_STOPPING;
    inst.cause = FR_CAUSE_TIMEOUT;
    inst.unreachable_wall = 80;
    CHECK_INT(fr_store_inst_put(st, run, &inst, NULL), FR_OK);
    inst = (struct fr_inst_row){.idx = 1, .task = "a", .node = "n2", .state = FR_ST_WAITING};
    CHECK_INT(fr_store_inst_put(st, run, &inst, NULL), FR_OK);
    CHECK_INT(fr_store_insts(st, run, arena, &rows, NULL), FR_OK);
    CHECK_INT(rows.n, 2);
    CHECK_TEXT(rows.rows[0].task, "a");
    CHECK(fr_id_zero(rows.rows[0].attempt));
    CHECK_INT(rows.rows[1].state, FR_ST_STOPPING);
    CHECK_INT(rows.rows[1].cause, FR_CAUSE_TIMEOUT);
    CHECK_TEXT(rows.rows[1].key, "train@n1");
    CHECK_INT(rows.rows[1].attempt_state, FR_ST_STARTING);
    CHECK_INT(rows.rows[1].retries, 2);
    CHECK_INT(rows.rows[1].chained, 5);
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
                                 .state = FR_ST_STARTING,
                                 .log = "train@n1.2.log",
                                 .started_wall = 5};
    struct fr_attempt_rows rows;

    CHECK_INT(fr_store_attempt_put(st, run, &row, NULL), FR_OK);
    row.home_id = id_of(8);
    row.boot_id = "boot";
    row.state = FR_ST_FAILED;
    row.cause = FR_CAUSE_EXIT;
    row.code = 3;
    row.address = "10.0.0.1";
    row.port = 39500;
    row.ended_wall = 9;
    CHECK_INT(fr_store_attempt_put(st, run, &row, NULL), FR_OK);
    CHECK_INT(fr_store_attempt_done(st, run, &row, NULL), FR_OK);
    CHECK_INT(fr_store_attempts(st, run, arena, &rows, NULL), FR_OK);
    CHECK_INT(rows.n, 1);
    CHECK_INT(rows.rows[0].done, 1);
    CHECK(fr_id_eq(rows.rows[0].home_id, id_of(8)));
    CHECK_TEXT(rows.rows[0].boot_id, "boot");
    CHECK_TEXT(rows.rows[0].address, "10.0.0.1");
    CHECK_TEXT(rows.rows[0].log, "train@n1.2.log");
    CHECK_INT(rows.rows[0].code, 3);
    CHECK_INT(rows.rows[0].port, 39500);
    CHECK_INT(rows.rows[0].rank, 1);
    CHECK_INT(rows.rows[0].state, FR_ST_FAILED);
}

static void check_others(struct fr_store *st, struct fr_arena *arena, struct fr_id run)
{
    struct fr_output_row output = {3, "k", "v\nw"};
    struct fr_output_rows outputs;
    struct fr_node_row node = {.name = "n1"};
    struct fr_node_rows nodes;
    struct fr_file_row file = {.path = "/p/x", .hash = "ab", .mode = 0755, .bytes = 12};
    struct fr_file_rows files;

    CHECK_INT(fr_store_output_put(st, run, &output, NULL), FR_OK);
    CHECK_INT(fr_store_outputs(st, run, arena, &outputs, NULL), FR_OK);
    CHECK_INT(outputs.n, 1);
    CHECK_TEXT(outputs.rows[0].value, "v\nw");
    CHECK_INT(fr_store_output_clear(st, run, 3, NULL), FR_OK);
    CHECK_INT(fr_store_outputs(st, run, arena, &outputs, NULL), FR_OK);
    CHECK_INT(outputs.n, 0);

    CHECK_INT(fr_store_node_put(st, run, &node, NULL), FR_OK);
    node.boot_id = "b";
    node.abandoned = 1;
    CHECK_INT(fr_store_node_put(st, run, &node, NULL), FR_OK);
    CHECK_INT(fr_store_nodes(st, run, arena, &nodes, NULL), FR_OK);
    CHECK_INT(nodes.n, 1);
    CHECK_INT(nodes.rows[0].abandoned, 1);
    CHECK_TEXT(nodes.rows[0].boot_id, "b");

    CHECK_INT(fr_store_file_put(st, run, &file, NULL), FR_OK);
    CHECK_INT(fr_store_files(st, run, arena, &files, NULL), FR_OK);
    CHECK_INT(files.n, 1);
    CHECK_INT(files.rows[0].mode, 0755);
}

static void test_rows(void)
{
    struct fr_store *st = open_store(home);
    struct fr_arena arena = {0};
    struct fr_id run = id_of(0xab);

    check_insts(st, &arena, run);
    check_attempts(st, &arena, run);
    check_others(st, &arena, run);
    check_sound(home);
    fr_arena_finish(&arena);
    fr_store_close(st);
}

/* When the newest round began; of a run without such an event it stays what it was. */
static void check_began(struct fr_store *st, struct fr_id run)
{
    struct fr_event_row ev = {.wall = 4000, .idx = -1, .kind = "running"};
    int64_t began = 77;

    CHECK_INT(fr_store_round_began(st, run, &began, NULL), FR_OK);
    CHECK_INT(began, 77);
    CHECK_INT(fr_store_event_add(st, run, &ev, NULL), FR_OK);
    ev = (struct fr_event_row){.wall = 5000, .idx = -1, .kind = "running"};
    CHECK_INT(fr_store_event_add(st, run, &ev, NULL), FR_OK);
    ev = (struct fr_event_row){.wall = 6000, .idx = 0, .kind = "running"};
    CHECK_INT(fr_store_event_add(st, run, &ev, NULL), FR_OK);
    CHECK_INT(fr_store_round_began(st, run, &began, NULL), FR_OK);
    CHECK_INT(began, 5000);
}

static void test_events(void)
{
    struct fr_store *st = open_store(home);
    struct fr_arena arena = {0};
    struct fr_id run = id_of(0xab);
    struct fr_event_rows rows = {0};

    for (int i = 0; i < 1500; i++) {
        struct fr_event_row ev = {.wall = i, .idx = i % 7, .kind = "ready", .text = "t"};

        CHECK_INT(fr_store_event_add(st, run, &ev, NULL), FR_OK);
        if (i == 0)
            CHECK_INT(fr_store_begin(st, NULL), FR_OK);
    }
    CHECK_INT(fr_store_commit(st, NULL), FR_OK);
    CHECK_INT(fr_store_events(st, run, &arena, &rows, NULL), FR_OK);
    CHECK_INT(rows.n, 1000);
    CHECK_INT(fr_store_events(st, run, &arena, &rows, NULL), FR_OK);
    CHECK_INT(rows.n, 500);
    CHECK_INT(rows.rows[499].wall, 1499);
    CHECK_INT(fr_store_events(st, run, &arena, &rows, NULL), FR_OK);
    CHECK_INT(rows.n, 0);
    fr_arena_finish(&arena);
    check_began(st, run);
    fr_store_close(st);
}

/* A row under a seq that is there replaces that row; other rows stay as they are. */
static void test_event_again(void)
{
    struct fr_store *st = open_store(home);
    struct fr_run_row row = run_row(0xf1);
    struct fr_event_row ev = {.wall = 1, .idx = 0, .kind = "ready"};
    struct fr_event_rows rows = {0};
    struct fr_arena arena = {0};
    int64_t seq = -1;

    CHECK_INT(fr_store_run_add(st, &row, NULL), FR_OK);
    CHECK_INT(fr_store_event_last(st, row.id, &seq, NULL), FR_OK);
    CHECK_INT(seq, 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(fr_store_event_add(st, row.id, &ev, NULL), FR_OK);
    ev = (struct fr_event_row){.idx = 7,
                               .kind = "retrying",
                               .stop_cause = FR_CAUSE_STOPPED,
                               .delay_ms = 20,
                               .log_bytes = 30,
                               .seq = 2};
    CHECK_INT(fr_store_event_add(st, row.id, &ev, NULL), FR_OK);
    CHECK_INT(fr_store_event_last(st, row.id, &seq, NULL), FR_OK);
    CHECK_INT(seq, 3);
    CHECK_INT(fr_store_events(st, row.id, &arena, &rows, NULL), FR_OK);
    if (CHECK_INT(rows.n, 3)) {
        CHECK(rows.rows[0].idx == 0 && rows.rows[2].idx == 0);
        CHECK_INT(rows.rows[1].idx, 7);
        CHECK_INT(rows.rows[1].stop_cause, FR_CAUSE_STOPPED);
        CHECK(rows.rows[1].delay_ms == 20 && rows.rows[1].log_bytes == 30);
    }
    fr_arena_finish(&arena);
    fr_store_close(st);
}

/* A turn that is rolled back, or whose process dies before its commit, leaves nothing. */
static void test_atomic(void)
{
    struct fr_store *st = open_store(home), *other;
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    struct fr_run_row row = run_row(0xef), got;

    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    fr_store_rollback(st);
    CHECK_INT(fr_store_run_find(st, "efbc", &arena, &got, &err), FR_NOTFOUND);
    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    other = open_store(home);
    CHECK_INT(fr_store_run_find(other, "efbc", &arena, &got, &err), FR_NOTFOUND);
    fr_store_close(st);
    CHECK_INT(fr_store_run_find(other, "efbc", &arena, &got, &err), FR_NOTFOUND);
    fr_store_close(other);
    fr_arena_finish(&arena);
}

/* A commit that fails leaves nothing of its transaction, and others may write. A row that names one
 * that is not there fails it. */
static void test_commit_fails(void)
{
    struct fr_store *st = open_store(home), *other = open_store(home);
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
    remove_store(home);
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
static bool is_marked(void)
{
    struct fr_buf path = {0};
    char **names = NULL;
    size_t n = 0;

    fr_buf_fmt(&path, "%s/begun", home);
    CHECK(fr_sys.list(path.p, &names, &n) == 0);
    fr_sys_names_free(names, n);
    fr_buf_finish(&path);
    return n > 0;
}

static void check_blob_tidy(const char *named)
{
    static const char unnamed[] =
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const struct {
        const char *name;
        bool stays;
    } rows[] = {
        {".a", false}, {"x.tmp-1", false}, {unnamed, false}, {"notes", true}, {named, true}};
    struct fr_store *st = open_store(home), *other = open_store(home);
    struct fr_run_row run = {.id = id_of(77), .name = "x", .spec_hash = named};
    struct fr_file_row file = {.path = "/f", .mode = 0600};
    char hash[FR_SHA256_TEXT];

    CHECK_INT(fr_store_run_add(st, &run, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf path = {0};
        fr_blob_path(home, rows[i].name, &path);
        close(open(path.p, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        fr_buf_finish(&path);
    }
    fr_blob_tidy(st);
    CHECK(blob_there(unnamed));
    CHECK_INT(fr_blob_mark(home, id_of(78), NULL), FR_OK);
    fr_blob_tidy(st);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        CHECK(blob_there(rows[i].name) == rows[i].stays);
    }
    CHECK_INT(fr_blob_put(home, FR_STR("behind the mark"), hash, NULL), FR_OK);
    fr_blob_tidy(st); /* the mark is gone */
    CHECK(blob_there(hash));
    check_row("of a flowrun at work");
    sqlite3_busy_timeout(st->db, 0);
    CHECK_INT(fr_store_begin(other, NULL), FR_OK);
    CHECK_INT(fr_blob_mark(home, run.id, NULL), FR_OK);
    CHECK_INT(fr_blob_put(home, FR_STR("at work"), hash, NULL), FR_OK);
    fr_blob_tidy(st);
    CHECK(blob_there(hash));
    file.hash = hash;
    CHECK_INT(fr_store_file_put(other, run.id, &file, NULL), FR_OK);
    CHECK_INT(fr_store_commit(other, NULL), FR_OK);
    fr_blob_tidy(st); /* its mark still stands */
    CHECK(blob_there(hash));
    fr_blob_unmark(home, run.id);
    check_row("of one that failed");
    CHECK_INT(fr_store_begin(other, NULL), FR_OK);
    CHECK_INT(fr_blob_mark(home, run.id, NULL), FR_OK);
    CHECK_INT(fr_blob_put(home, FR_STR("in vain"), hash, NULL), FR_OK);
    fr_store_rollback(other);
    fr_blob_tidy(st);
    CHECK(!blob_there(hash));
    check_row("of a host that was killed before another one had the same run");
    CHECK_INT(fr_blob_mark(home, run.id, NULL), FR_OK);
    CHECK_INT(fr_blob_put(home, FR_STR("killed"), hash, NULL), FR_OK);
    CHECK_INT(fr_blob_mark(home, run.id, NULL), FR_OK);
    fr_blob_unmark(home, run.id);
    fr_blob_tidy(st);
    CHECK(!blob_there(hash) && !is_marked());
    fr_store_close(other);
    fr_store_close(st);
}

/* Marks of a host that does not know that another one has followed it. */
static void check_blob_mark_again(void)
{
    struct fr_id id = id_of(79);
    char hash[FR_SHA256_TEXT];
    struct fr_store *st = open_store(home);

    check_row("of a host that another one followed meanwhile");
    CHECK_INT(fr_blob_mark(home, id, NULL), FR_OK);
    fr_blob_tidy(st);
    CHECK_INT(fr_blob_put(home, FR_STR("late"), hash, NULL), FR_OK);
    CHECK_INT(fr_blob_mark_again(home, id, NULL), FR_OK);
    fr_blob_tidy(st);
    CHECK(!blob_there(hash) && !is_marked());
    check_row("a mark that stands is not made again");
    CHECK_INT(fr_blob_mark(home, id, NULL), FR_OK);
    CHECK_INT(fr_blob_mark_again(home, id, NULL), FR_OK);
    fr_blob_unmark(home, id);
    CHECK(!is_marked());
    fr_store_close(st);
}

/* What a row may name is on the disk, and so is its name. */
static void test_blobs_synced(void)
{
    char hash[FR_SHA256_TEXT];
    struct fr_buf path = {0};
    size_t renames;

    check_row("blobs are synced");
    sync_guard_begin();
    CHECK_INT(fr_blob_put(home, FR_STR("bytes\n"), hash, NULL), FR_OK);
    CHECK_INT(sync_guard_end(true, &renames), 0);
    CHECK_INT(renames, 1);
    fr_buf_fmt(&path, "%s/given", home);
    CHECK_INT(fr_file_write(path.p, "a file\n", 7, 0600, NULL), FR_OK);
    sync_guard_begin();
    CHECK_INT(fr_blob_put_file(home, path.p, hash, NULL), FR_OK);
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
    check_blob_mark_again();
    fr_buf_finish(&got);
    fr_buf_finish(&path);
}

/* The columns that the UPDATE of a type writes; the others stay, whatever the row in memory says.
 */
static void test_updates(void)
{
    static const struct {
        const struct fr_row_type *type;
        const char *set;
    } rows[] = {
        {&fr_run_type, "source state outcome reason queued_wall started_wall ended_wall reruns "
                       "rerun_wall spec_hash inventory_hash inventory params round rerun_from "
                       "notify pool late_wall "},
        {&fr_node_type, "home_id boot_id folder unreachable_wall abandoned "},
        {&fr_schedule_type, "pipeline rule state state_wall note gone_wall seen_ms since_ms "
                            "fingerprint "},
        {&fr_occurrence_type, "decision run note "},
        {&fr_backfill_type, "state note made kept cursor_ms "},
        {&fr_delivery_type, "state made_wall due_wall tried_wall tries answer "},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf set = {0};

        for (size_t k = 0; k < rows[i].type->n; k++)
            if (rows[i].type->columns[k].set)
                fr_buf_fmt(&set, "%s ", rows[i].type->columns[k].name);
        CHECK_TEXT(set.p, rows[i].set);
        fr_buf_finish(&set);
    }
}

/* What a run's UPDATE leaves alone is what the store has. */
static void test_update_leaves(void)
{
    struct fr_store *st = open_store(home);
    struct fr_arena arena = {0};
    struct fr_run_row row = run_row(0x77), got;

    CHECK_INT(fr_store_run_add(st, &row, NULL), FR_OK);
    CHECK_INT(fr_store_run_host(st, row.id, 5, NULL), FR_OK);
    row.state = FR_RUN_HOOKS;
    row.late_wall = 9;
    row.host = row.priority = 99;
    row.who = "x";
    CHECK_INT(fr_store_run_set(st, &row, NULL), FR_OK);
    CHECK_INT(fr_store_run_find(st, NULL, &arena, &got, NULL), FR_OK);
    CHECK_INT(got.state, FR_RUN_HOOKS);
    CHECK_TEXT(got.who, "");
    CHECK(got.host == 5 && got.priority == 0 && got.late_wall == 9);
    fr_arena_finish(&arena);
    fr_store_close(st);
}

int main(void)
{
    make_home(home);
    test_updates();
    test_run_rows();
    test_find();
    test_rows();
    test_update_leaves();
    test_events();
    test_event_again();
    test_atomic();
    test_commit_fails();
    test_blobs();
    test_blobs_synced();
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}
