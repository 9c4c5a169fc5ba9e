/*
 * A run of a schedule that is to run again by itself counts as live: what the next instant does
 * beside it, a row for each kind of overlap; and that a later one goes on once it is dropped.
 */
#include "tests/unit/schedules_bed.h"

static const struct {
    const char *policy, *decided, *runs;
    bool due; /* it is still to run again */
} overlaps[] = {
    {"skip", "skipped 03-02T02:00 run 1", "1 failed schedule 03-01T02:00", true},
    {"queue", "ran 03-02T02:00 run 2",
     "1 failed schedule 03-01T02:00, 2 queued schedule 03-02T02:00", true},
    {"cancel_previous", "ran 03-02T02:00 run 2",
     "1 failed schedule 03-01T02:00, 2 running schedule 03-02T02:00", false},
    {"parallel", "ran 03-02T02:00 run 2",
     "1 failed schedule 03-01T02:00, 2 running schedule 03-02T02:00", true},
};

static bool is_due(void)
{
    struct fr_arena a = {0};
    struct fr_run_rows rows = {0};

    CHECK_INT(fr_store_reruns(st, &a, &rows, NULL), FR_OK);
    fr_arena_finish(&a);
    return rows.n > 0;
}

/* Run 1 has failed, and is to run again on the third day. */
static void fail_first(void)
{
    char path[400];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/state.db", home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db,
                           "UPDATE run SET outcome = 'failed', rerun_wall = 1772539200000, "
                           "rerun_from = 'failed'",
                           NULL, NULL, NULL),
              SQLITE_OK);
    sqlite3_close(db);
}

static void test_overlap(size_t i)
{
    char schedule[100], want[200];

    reset();
    set_clock("2026-03-01T01:59:00Z");
    snprintf(schedule, sizeof(schedule), "{cron: \"0 2 * * *\", overlap: %s}", overlaps[i].policy);
    put_pipeline("p", schedule);
    begin_host();
    until(is_ready, NULL);
    set_clock("2026-03-01T02:00:00Z");
    until_fires("p", "ran 03-01T02:00 run 1");
    settle();
    cancel("1");
    close_host();
    fail_first();
    begin_host();
    until(is_ready, NULL);
    set_clock("2026-03-02T02:00:00Z");
    snprintf(want, sizeof(want), "ran 03-01T02:00 run 1 failed, %s", overlaps[i].decided);
    until_fires("p", want);
    check_row(overlaps[i].policy);
    check_runs("p", overlaps[i].runs);
    CHECK(is_due() == overlaps[i].due);
}

int main(void)
{
    make_home();
    fr_sys.wall_ms = shifted_wall_ms;
    for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
        test_overlap(i);
        if (strcmp(overlaps[i].policy, "queue") == 0) {
            check_row("dropped: the one behind it starts");
            check_answer(FR_API_POST, "/api/v1/runs/1/cancel", "{}", 202, "\"rerun_wall\":0");
            check_runs("p", "1 failed schedule 03-01T02:00, 2 running schedule 03-02T02:00");
            check_answer(FR_API_POST, "/api/v1/runs/1/cancel", "{}", 409, "run 1 is over");
        }
        close_host();
    }
    fr_arena_finish(&arena);
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}
