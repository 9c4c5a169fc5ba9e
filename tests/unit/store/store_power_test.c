/*
 * The power fails beneath the store: what a commit promised is there, whatever kind of commit came
 * before it. The disk (tests/sim/sim_db.h) loses all that SQLite did not sync.
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"
#include "engine/store/store.h"
#include "tests/sim/sim_db.h"
#include "tests/unit/check.h"

#include <unistd.h>

static const struct fr_id RUN = {{7}};

static char home[256];
static struct fr_store *st;

static void open_store(void)
{
    struct fr_err err = {0};

    if (!CHECK(fr_store_open(home, &st, &err) == FR_OK)) {
        printf("%s\n", err.msg);
        exit(1);
    }
}

static void cut_power(void)
{
    fr_store_close(st);
    sim_db_cut();
    open_store();
}

static void add(const char *kind)
{
    struct fr_event_row row = {.idx = -1, .kind = kind};

    CHECK_INT(fr_store_event_add(st, RUN, &row, NULL), FR_OK);
}

/* The events of the run, a letter each. */
static void expect(const char *want)
{
    struct fr_arena arena = {0};
    struct fr_event_rows rows = {0};
    char got[64] = "";

    CHECK_INT(fr_store_events(st, RUN, &arena, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n && i + 1 < sizeof(got); i++)
        got[i] = rows.rows[i].kind[0];
    CHECK_TEXT(got, want);
    fr_arena_finish(&arena);
}

static void commit(bool soft, const char *kind)
{
    CHECK_INT(soft ? fr_store_begin_soft(st, NULL) : fr_store_begin(st, NULL), FR_OK);
    add(kind);
    CHECK_INT(fr_store_commit(st, NULL), FR_OK);
}

static void test_schema(void)
{
    struct fr_id id = fr_store_home_id(st);

    check_row("the schema and the home's id");
    cut_power();
    CHECK(fr_id_eq(fr_store_home_id(st), id));
}

static void test_commits(void)
{
    struct fr_run_row run = {.id = RUN, .name = "r", .state = FR_RUN_RUNNING};

    check_row("a run that begins");
    CHECK_INT(fr_store_run_add(st, &run, NULL), FR_OK);
    cut_power();
    expect("");
    check_row("a commit");
    commit(false, "a");
    cut_power();
    expect("a");
    check_row("a soft commit may be lost");
    commit(true, "lost");
    expect("al");
    cut_power();
    expect("a");
    check_row("a commit behind a soft one");
    commit(true, "b");
    commit(false, "c");
    cut_power();
    expect("abc");
    check_row("a single statement behind a soft commit");
    commit(true, "d");
    add("e");
    cut_power();
    expect("abcde");
    check_row("a commit behind a soft one that was rolled back");
    CHECK_INT(fr_store_begin_soft(st, NULL), FR_OK);
    fr_store_rollback(st);
    add("f");
    cut_power();
    expect("abcdef");
}

/* Behind each of so many commits that the log is moved into the database several times. */
static void test_checkpoints(void)
{
    enum { COMMITS = 1500, EVERY = 250 };
    struct fr_attempt_row row = {.state = FR_ST_RUNNING, .log = "l", .node = "n"};
    struct fr_attempt_rows rows;
    struct fr_arena arena = {0};

    check_row("checkpoints");
    for (int i = 1; i <= COMMITS; i++) {
        row.id.b[0] = (uint8_t)i;
        row.id.b[1] = (uint8_t)(i >> 8);
        row.idx = i;
        CHECK_INT(fr_store_begin(st, NULL), FR_OK);
        CHECK_INT(fr_store_attempt_put(st, RUN, &row, NULL), FR_OK);
        CHECK_INT(fr_store_commit(st, NULL), FR_OK);
        if (i % EVERY != 0)
            continue;
        cut_power();
        CHECK_INT(fr_store_attempts(st, RUN, &arena, &rows, NULL), FR_OK);
        CHECK_INT(rows.n, i);
        fr_arena_finish(&arena);
        arena = (struct fr_arena){0};
    }
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(home, sizeof(home), "%s/flowrun-power-XXXXXX", tmp != NULL ? tmp : "/tmp");
    CHECK(mkdtemp(home) != NULL);
    CHECK_INT(fr_home_make(home, NULL), FR_OK);
    sim_db_setup();
    open_store();
    test_schema();
    test_commits();
    test_checkpoints();
    fr_store_close(st);
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}
