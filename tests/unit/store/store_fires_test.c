/* Schedules and their instants in the store: what is put comes back, an instant is decided once, a
 * run's outcome reaches its instant and outlives the run. */
#include "engine/store/occurrences.h"
#include "engine/store/retain.h"
#include "engine/store/sql.h"
#include "tests/unit/store/store_bed.h"

#include <string.h>

static char home[BED_HOME];

static struct fr_store *st;
static struct fr_err err;
static struct fr_arena arena;

static int64_t add_schedule(const char *source, const char *name)
{
    struct fr_schedule_row row = {.source = source,
                                  .name = name,
                                  .pipeline = "p",
                                  .rule = "every day at 02:30",
                                  .fingerprint = "cron",
                                  .state = FR_SCHEDULE_ACTIVE,
                                  .state_wall = 5,
                                  .seen_ms = 1000,
                                  .since_ms = 900};

    CHECK_INT(fr_store_schedule_add(st, &row, &err), FR_OK);
    return row.id;
}

static enum fr_rc add_fire(int64_t schedule, int64_t at_ms, enum fr_fate decision, int64_t run)
{
    struct fr_occurrence_row row = {.schedule = schedule,
                                    .at_ms = at_ms,
                                    .first_ms = at_ms - 10,
                                    .count = 2,
                                    .decision = decision,
                                    .run = run,
                                    .decided_wall = at_ms + 1,
                                    .note = "n"};

    return fr_store_occurrence_add(st, &row, &err);
}

static int64_t add_run(uint8_t first, int64_t schedule, int64_t at_ms)
{
    struct fr_run_row row = {.id = {{first, 1}},
                             .name = "p",
                             .params = "{}",
                             .state = FR_RUN_QUEUED,
                             .origin = FR_ORIGIN_SCHEDULE,
                             .schedule = schedule,
                             .at_ms = at_ms};

    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    return row.no;
}

static void end_run(uint8_t first, enum fr_outcome outcome)
{
    struct fr_run_row row = {
        .id = {{first, 1}}, .params = "{}", .state = FR_RUN_OVER, .outcome = outcome};

    CHECK_INT(fr_store_run_set(st, &row, &err), FR_OK);
}

/* "50:ran:3:failed 60:missed:0:" */
static void check_fires(const struct fr_occurrence_rows *rows, const char *want)
{
    struct fr_buf got = {0};

    fr_buf_text(&got, "");
    for (size_t i = 0; i < rows->n; i++)
        fr_buf_fmt(&got, "%s%lld:%s:%lld:%s", i > 0 ? " " : "", (long long)rows->rows[i].at_ms,
                   fr_fate_name(rows->rows[i].decision), (long long)rows->rows[i].run,
                   fr_outcome_name(rows->rows[i].outcome));
    CHECK_TEXT(got.p != NULL ? got.p : "", want);
    fr_buf_finish(&got);
}

static void test_schedules(void)
{
    int64_t b = add_schedule("/f/b.yaml", "default"), a2 = add_schedule("/f/a.yaml", "weekly");
    int64_t a1 = add_schedule("/f/a.yaml", "nightly");
    struct fr_schedule_row again = {.source = "/f/a.yaml", .name = "nightly"}, row;
    struct fr_schedule_rows rows;

    check_row("schedules");
    CHECK(fr_store_schedule_add(st, &again, &err) != FR_OK); /* a file's names are unique */
    CHECK_INT(fr_store_schedules(st, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 3);
    CHECK(rows.rows[0].id == a1 && rows.rows[1].id == a2 && rows.rows[2].id == b);
    row = rows.rows[0];
    CHECK_TEXT(row.source, "/f/a.yaml");
    CHECK_TEXT(row.rule, "every day at 02:30");
    CHECK_TEXT(row.fingerprint, "cron");
    CHECK_TEXT(row.pipeline, "p");
    CHECK_TEXT(row.note, "");
    CHECK(row.seen_ms == 1000 && row.since_ms == 900 && row.state_wall == 5);
    row.state = FR_SCHEDULE_PAUSED;
    row.note = "moving";
    row.state_wall = 7;
    row.gone_wall = 6;
    row.since_ms = 8;
    CHECK_INT(fr_store_schedule_set(st, &row, &err), FR_OK);
    CHECK_INT(fr_store_schedule_seen(st, a1, 2000, &err), FR_OK);
    CHECK_INT(fr_store_schedules(st, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.rows[0].state, FR_SCHEDULE_PAUSED);
    CHECK_TEXT(rows.rows[0].note, "moving");
    CHECK(rows.rows[0].seen_ms == 2000 && rows.rows[0].since_ms == 8);
    CHECK(rows.rows[0].state_wall == 7 && rows.rows[0].gone_wall == 6);
    CHECK_INT(rows.rows[1].seen_ms, 1000);
    CHECK_INT(add_fire(b, 50, FR_FATE_MISSED, 0), FR_OK);
    CHECK_INT(fr_store_schedule_drop(st, b, &err), FR_OK);
    CHECK_INT(fr_store_schedules(st, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 2);
    CHECK_INT(add_fire(b, 60, FR_FATE_MISSED, 0), FR_IO); /* it is no more */
    check_sound(home);
}

static void test_once(void)
{
    int64_t s = add_schedule("/f/c.yaml", "default"), other = add_schedule("/f/c.yaml", "other");
    struct fr_occurrence_row set = {
        .schedule = s, .at_ms = 70, .decision = FR_FATE_SUPERSEDED, .run = 4, .note = "by run 5"};
    struct fr_occurrence_page page = {s, 80, 2};
    struct fr_occurrence_rows rows;

    check_row("an instant is decided once");
    CHECK_INT(add_fire(s, 50, FR_FATE_MISSED, 0), FR_OK);
    CHECK_INT(add_fire(s, 50, FR_FATE_RAN, 3), FR_BUSY);
    CHECK_INT(add_fire(other, 50, FR_FATE_RAN, 3), FR_OK);
    CHECK_INT(add_fire(s, 80, FR_FATE_RAN, 5), FR_OK);
    CHECK_INT(add_fire(s, 70, FR_FATE_RAN, 4), FR_OK);
    CHECK_INT(add_fire(s, 60, FR_FATE_SKIPPED, 2), FR_OK);
    CHECK_INT(fr_store_occurrence_set(st, &set, &err), FR_OK);
    CHECK_INT(fr_store_occurrences_after(st, s, 50, &arena, &rows, &err), FR_OK);
    check_fires(&rows, "60:skipped:2: 70:superseded:4: 80:ran:5:");
    CHECK(rows.rows[1].first_ms == 60 && rows.rows[1].count == 2 &&
          rows.rows[1].decided_wall == 71 && rows.rows[1].schedule == s);
    CHECK_TEXT(rows.rows[1].note, "by run 5");
    CHECK_TEXT(rows.rows[0].note, "n");
    CHECK_INT(fr_store_occurrences_before(st, &page, &arena, &rows, &err), FR_OK);
    check_fires(&rows, "70:superseded:4: 60:skipped:2:");
    CHECK_INT(fr_store_occurrence_drop(st, s, 60, &err), FR_OK);
    CHECK_INT(fr_store_occurrences_before(st, &page, &arena, &rows, &err), FR_OK);
    check_fires(&rows, "70:superseded:4: 50:missed:0:");
}

/* A commit has both or none: the run of an instant, and the row that decides it. */
static void test_together(void)
{
    int64_t s = add_schedule("/f/d.yaml", "default");
    struct fr_run_row run;
    struct fr_occurrence_rows rows;

    check_row("a run and its instant are one commit");
    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(add_fire(s, 50, FR_FATE_RAN, add_run(0x41, s, 50)), FR_OK);
    fr_store_rollback(st);
    CHECK_INT(fr_store_occurrences_after(st, s, 0, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 0);
    CHECK_INT(fr_store_run_find(st, "41010000", &arena, &run, &err), FR_NOTFOUND);
    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(add_fire(s, 50, FR_FATE_RAN, add_run(0x41, s, 50)), FR_OK);
    CHECK_INT(fr_store_commit(st, &err), FR_OK);
    CHECK_INT(fr_store_run_find(st, "41010000", &arena, &run, &err), FR_OK);
    CHECK(run.schedule == s && run.at_ms == 50);
    CHECK_INT(run.origin, FR_ORIGIN_SCHEDULE);
}

static void test_outcome(void)
{
    int64_t s = add_schedule("/f/e.yaml", "default"), at = -1;
    struct fr_occurrence_page page = {s, INT64_MAX, 10};
    struct fr_occurrence_rows rows;
    struct fr_buf want = {0};
    int64_t no[4] = {add_run(0x51, s, 50), add_run(0x52, s, 60), add_run(0x53, s, 70),
                     add_run(0x54, 0, 0)};

    check_row("outcomes");
    for (int i = 0; i < 3; i++)
        CHECK_INT(add_fire(s, 50 + 10 * i, FR_FATE_RAN, no[i]), FR_OK);
    CHECK_INT(add_fire(s, 80, FR_FATE_SKIPPED, no[1]), FR_OK);
    CHECK_INT(fr_store_occurrence_succeeded(st, s, INT64_MAX, &at, &err), FR_OK);
    CHECK_INT(at, 0);
    end_run(0x51, FR_OUT_SUCCEEDED);
    end_run(0x52, FR_OUT_FAILED);
    end_run(0x54, FR_OUT_FAILED);
    CHECK_INT(fr_store_occurrences_ended(st, &page, &arena, &rows, &err), FR_OK);
    fr_buf_fmt(&want, "60:ran:%lld:failed 50:ran:%lld:succeeded", (long long)no[1],
               (long long)no[0]);
    check_fires(&rows, want.p); /* not the one that it skipped */
    CHECK_INT(fr_store_occurrence_succeeded(st, s, INT64_MAX, &at, &err), FR_OK);
    CHECK_INT(at, 50);
    CHECK_INT(fr_store_occurrence_succeeded(st, s, 50, &at, &err), FR_OK);
    CHECK_INT(at, 0);
    end_run(0x52, FR_OUT_NONE); /* a retry */
    end_run(0x52, FR_OUT_SUCCEEDED);
    CHECK_INT(fr_store_occurrence_succeeded(st, s, INT64_MAX, &at, &err), FR_OK);
    CHECK_INT(at, 60);

    check_row("an outcome outlives its run");
    CHECK_INT(fr_store_run_remove(st, (struct fr_id){{0x51, 1}}, &err), FR_OK);
    CHECK_INT(fr_store_runs_drop(st, &(struct fr_id){{0x51, 1}}, 1, &err), FR_OK);
    CHECK_INT(fr_store_occurrence_succeeded(st, s, 60, &at, &err), FR_OK);
    CHECK_INT(at, 50);
    fr_buf_finish(&want);
}

static void test_prune(void)
{
    int64_t s = add_schedule("/f/g.yaml", "default"), other = add_schedule("/f/g.yaml", "o"), n;
    struct fr_occurrence_page page = {s, 60, 4};
    struct fr_occurrence_rows rows;

    check_row("old instants go");
    for (int64_t at = 10; at <= 80; at += 10)
        CHECK(add_fire(s, at, FR_FATE_MISSED, 0) == FR_OK &&
              add_fire(other, at, FR_FATE_MISSED, 0) == FR_OK);
    CHECK_INT(fr_store_occurrences_prune(st, &page, &n, &err), FR_OK);
    CHECK_INT(n, 4);
    CHECK_INT(fr_store_occurrences_prune(st, &page, &n, &err), FR_OK);
    CHECK_INT(n, 1);
    CHECK_INT(fr_store_occurrences_after(st, s, 0, &arena, &rows, &err), FR_OK);
    check_fires(&rows, "60:missed:0: 70:missed:0: 80:missed:0:");
    CHECK_INT(fr_store_occurrences_after(st, other, 0, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 8);
}

/* Its runs outlive a schedule: they are not those of the next one. */
static void test_dropped(void)
{
    int64_t first, next;

    check_row("dropped, and another one added");
    first = add_schedule("/x/dropped.yaml", "a");
    (void)add_run(70, first, 5000);
    CHECK_INT(fr_store_schedule_drop(st, first, &err), FR_OK);
    next = add_schedule("/x/next.yaml", "a");
    CHECK(next > first);
    CHECK_INT(fr_store_schedule_drop(st, next, &err), FR_OK);
}

static void test_files(void)
{
    struct fr_schedule_file_row row = {.path = "/f/b.yaml", .text = "name: b\n", .error = ""};
    struct fr_schedule_file_rows rows;

    check_row("files");
    CHECK_INT(fr_store_schedule_file_put(st, &row, &err), FR_OK);
    row.error = "3:1: wrong";
    row.error_wall = 9;
    CHECK_INT(fr_store_schedule_file_put(st, &row, &err), FR_OK);
    row = (struct fr_schedule_file_row){.path = "/f/a.yaml"};
    CHECK_INT(fr_store_schedule_file_put(st, &row, &err), FR_OK);
    CHECK_INT(fr_store_schedule_files(st, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 2);
    CHECK_TEXT(rows.rows[0].path, "/f/a.yaml");
    CHECK_TEXT(rows.rows[0].text, "");
    CHECK_TEXT(rows.rows[1].text, "name: b\n");
    CHECK_TEXT(rows.rows[1].error, "3:1: wrong");
    CHECK_INT(rows.rows[1].error_wall, 9);
    CHECK_INT(fr_store_schedule_file_drop(st, "/f/a.yaml", &err), FR_OK);
    CHECK_INT(fr_store_schedule_files(st, &arena, &rows, &err), FR_OK);
    CHECK_INT(rows.n, 1);
}

/* A home of version 3: its runs are of no schedule. */
static void test_migration(void)
{
    static const char rows[] =
        "INSERT INTO home(one, id, made_wall) VALUES(1, x'0102030405060708090a0b0c0d0e0f10', 5);"
        "INSERT INTO run(id, no, name, source, folder, spec_hash, inventory_hash, inventory, "
        "params, state, started_wall) VALUES(x'07070707070707070707070707070707', 1, 'p', 's', "
        "'f', 'h', '', '', '{}', 'over', 1);"
        "PRAGMA user_version = 3";
    const char *four = strstr(fr_store_schema, "-- @version 4");
    struct fr_run_row run;
    struct fr_buf sql = {0};
    sqlite3 *db;
    char path[300];

    check_row("a home of version 3");
    fr_store_close(st);
    remove_store(home);
    snprintf(path, sizeof(path), "%s/state.db", home);
    fr_buf_add(&sql, fr_store_schema, (size_t)(four - fr_store_schema));
    fr_buf_text(&sql, rows);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql.p, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    fr_buf_finish(&sql);
    st = open_store(home);
    CHECK_INT(fr_store_run_find(st, "1", &arena, &run, &err), FR_OK);
    CHECK(run.schedule == 0 && run.at_ms == 0);
    CHECK_INT(add_fire(add_schedule("/f", "s"), 50, FR_FATE_MISSED, 0), FR_OK);
    check_sound(home);
}

int main(void)
{
    make_home(home);
    st = open_store(home);
    test_schedules();
    test_once();
    test_together();
    test_outcome();
    test_prune();
    test_dropped();
    test_files();
    test_migration();
    fr_arena_finish(&arena);
    fr_store_close(st);
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    return check_done();
}
