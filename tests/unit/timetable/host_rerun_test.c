/*
 * A run of a schedule that is to run again by itself counts as live: what the next instant does
 * beside it, a row for each kind of overlap; and that a later one goes on once it is dropped. One
 * that finds a full queue stays due.
 */
#include "engine/runs/job.h"
#include "engine/store/sql.h"
#include "engine/timetable/rerun.h"
#include "tests/unit/timetable/schedules_bed.h"

static struct host_bed bed = HOST_BED;

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

    CHECK_INT(fr_store_reruns(bed.st, &a, &rows, NULL), FR_OK);
    fr_arena_finish(&a);
    return rows.n > 0;
}

static void sql(const char *text)
{
    char path[400];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Run 1 has failed, and is to run again on the third day. */
static void fail_first(const char *from)
{
    char text[200];

    snprintf(text, sizeof(text),
             "UPDATE run SET outcome = 'failed', rerun_wall = 1772539200000, rerun_from = '%s' "
             "WHERE no = 1",
             from);
    sql(text);
}

static void test_overlap(size_t i)
{
    char schedule[100], want[200];

    reset(&bed);
    set_clock("2026-03-01T01:59:00Z");
    snprintf(schedule, sizeof(schedule), "{cron: \"0 2 * * *\", overlap: %s}", overlaps[i].policy);
    put_pipeline(&bed, "p", schedule);
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T02:00:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    settle_host(&bed);
    cancel(&bed, "1");
    close_host(&bed);
    fail_first("failed");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-02T02:00:00Z");
    snprintf(want, sizeof(want), "ran 03-01T02:00 run 1 failed, %s", overlaps[i].decided);
    until_fires(&bed, "p", want);
    check_row(overlaps[i].policy);
    check_runs(&bed, "p", overlaps[i].runs);
    CHECK(is_due() == overlaps[i].due);
}

static int64_t later_mono_ms(void)
{
    return fr_sys_real.mono_ms() + 61000;
}

static bool is_begun_or_dropped(struct host_bed *b, const char *arg)
{
    (void)arg;
    return count_runs(b) > 3 || !is_due();
}

static const struct {
    const char *name, *from, *then; /* from where it runs again; what is there then */
    bool ends;                      /* the active run does; else the limit is raised */
} fulls[] = {
    {"a queue with room: a new run", "start",
     "1 failed, 2 running, 3 queued (not started), 4 queued (not started)", false},
    {"one leaves the queue: a new run", "start",
     "1 failed, 2 cancelled, 3 running, 4 queued (not started)", true},
    {"one leaves the queue: what failed", "failed", "1 queued, 2 cancelled, 3 running", true},
};

/* A run that is to run again finds a full queue, nearly a day late: it stays due, and runs once
 * there is room. */
static void test_full(size_t i)
{
    struct fr_config config = {.limits = {.max_active_runs = 1, .max_queued = 1}};

    reset(&bed);
    put_file(bed.home, "p.yaml", pipeline);
    set_clock("2026-03-01T01:59:00Z");
    begin_host(&bed);
    submit(&bed, "p.yaml", 1, "", "running");
    cancel(&bed, "1");
    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    submit(&bed, "p.yaml", 2, "", "running");
    submit(&bed, "p.yaml", 3, "", "queued");
    close_host(&bed);
    fail_first(fulls[i].from);
    set_clock("2026-03-04T11:55:00Z");
    begin_host(&bed);
    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    until(&bed, is_ready, NULL);
    check_row("a full queue");
    settle_host(&bed);
    check_states(&bed, 1, "1 failed, 2 running, 3 queued (not started)");
    CHECK(is_due());
    check_row(fulls[i].name);
    if (fulls[i].ends) {
        cancel(&bed, "2");
    } else {
        config.limits.max_queued = 2;
        CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
        fr_sys.mono_ms = later_mono_ms;
    }
    until(&bed, is_begun_or_dropped, NULL);
    settle_host(&bed);
    check_states(&bed, 1, fulls[i].then);
    CHECK(!is_due());
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
}

/* The clock is set to behind its time while the host waits for that. An instant that has succeeded
 * meanwhile, as by a backfill, is its own, and no later one. */
static void test_clock(void)
{
    check_row("the clock is set");
    reset(&bed);
    set_clock("2026-03-01T01:59:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T02:00:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    settle_host(&bed);
    cancel(&bed, "1");
    close_host(&bed);
    fail_first("start");
    sql("UPDATE fire SET outcome = 'succeeded'");
    set_clock("2026-03-03T10:00:00Z");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    settle_host(&bed);
    CHECK(is_due());
    set_clock("2026-03-03T12:05:00Z");
    fr_sys.mono_ms = later_mono_ms;
    until(&bed, is_begun_or_dropped, NULL);
    CHECK_INT(count_runs(&bed), 2);
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
}

static bool is_dropped(struct host_bed *b, const char *arg)
{
    (void)b, (void)arg;
    return !is_due();
}

static const struct {
    const char *name, *from, *at, *why;
    bool lost; /* the copy of its pipeline */
} drops[] = {
    {"a day late", "start", "2026-03-04T12:05:00Z",
     "it does not run again by itself: no host that stays was there for a day", false},
    {"its pipeline is lost: a new run", "start", "2026-03-03T12:05:00Z",
     "it does not run again by itself: ", true},
    {"its pipeline is lost: what failed", "failed", "2026-03-03T12:05:00Z",
     "it does not run again by itself: ", true},
};

/* What will never run again is told, once. */
static void test_dropped(size_t i)
{
    char blobs[300];

    reset(&bed);
    put_file(bed.home, "p.yaml", pipeline);
    set_clock("2026-03-01T01:59:00Z");
    begin_host(&bed);
    submit(&bed, "p.yaml", 1, "", "running");
    cancel(&bed, "1");
    close_host(&bed);
    fail_first(drops[i].from);
    snprintf(blobs, sizeof(blobs), "%s/blobs", bed.home);
    if (drops[i].lost)
        CHECK_INT(fr_remove_tree(blobs, NULL), FR_OK);
    set_clock(drops[i].at);
    begin_host(&bed);
    until(&bed, is_dropped, NULL);
    check_row(drops[i].name);
    check_answer(ask(&bed, GET, "/api/v1/runs/1/events", NULL), 200, drops[i].why);
    check_states(&bed, 1, "1 failed");
    close_host(&bed);
}

/* ---- when it is looked at ---- */

static bool unreadable, refuses;

static int on_progress(void *arg)
{
    (void)arg;
    return unreadable;
}

static int on_commit(void *arg)
{
    (void)arg;
    return refuses;
}

static int64_t stopped_mono_ms(void)
{
    return 5000000;
}

static int64_t stopped_wall_ms(void)
{
    return INT64_C(1772539200000);
}

static const struct {
    const char *name;
    int left_ms; /* until it is due; 0: nothing is to run again */
    bool unreadable, refuses;
    int due_ms; /* when the host looks again; -1: never */
} looks[] = {
    {"nothing is to run again", 0, false, false, -1},
    {"it is due soon", 30000, false, false, 30000},
    {"it is due in hours: the clock may be set", 7200000, false, false, 60000},
    {"it is a day late, which cannot be written", -86400001, false, true, 60000},
    {"it is a day late", -86400001, false, false, 0},
    {"the store cannot be read", 30000, true, false, 60000},
};

static void look(void)
{
    struct fr_err err = {0};

    CHECK_INT(timetable_part.step[HOST_DECIDE](bed.host, &err), FR_OK);
}

/* A host that stays, without folders; run 1 has failed. */
static void begin_alone(void)
{
    reset(&bed);
    put_file(bed.home, "p.yaml", pipeline);
    set_clock("2026-03-03T11:00:00Z");
    open_host(&bed);
    submit(&bed, "p.yaml", 1, "", "running");
    cancel(&bed, "1");
    close_host(&bed);
    fail_first("start");
    open_host(&bed);
    fr_host_stay(bed.host);
    settle_host(&bed);
}

static void test_looks(size_t i)
{
    char text[100];
    int64_t due;

    begin_alone();
    check_row(looks[i].name);
    fr_sys.mono_ms = stopped_mono_ms;
    fr_sys.wall_ms = stopped_wall_ms;
    sqlite3_progress_handler(bed.st->db, 1, on_progress, NULL);
    sqlite3_commit_hook(bed.st->db, on_commit, NULL);
    snprintf(text, sizeof(text), "UPDATE run SET rerun_wall = %lld WHERE no = 1",
             looks[i].left_ms != 0 ? (long long)(stopped_wall_ms() + looks[i].left_ms) : 0LL);
    sql(text);
    bed.host->woken = false;
    rerun_changed(bed.host);
    CHECK(bed.host->woken);
    CHECK_INT(timetable_part.due(bed.host), 0);
    unreadable = looks[i].unreadable;
    refuses = looks[i].refuses;
    look();
    unreadable = refuses = false;
    due = timetable_part.due(bed.host);
    if (looks[i].due_ms != 0) /* 0: it is dropped, which frees a place */
        CHECK_INT(due == INT64_MAX ? -1 : due - stopped_mono_ms(), looks[i].due_ms);
    CHECK(is_due() == (looks[i].due_ms > 0));
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    fr_sys.wall_ms = bed_wall_ms;
}

static bool no_job(struct host_bed *b, const char *arg)
{
    (void)arg;
    for (const struct host_job *job = b->host->jobs.first; job != NULL; job = job->next)
        if (!job_over(job))
            return false;
    return true;
}

/* Somebody repeats it while the host makes its new run: nothing is made, nothing is said. */
static void test_repeated(void)
{
    struct fr_api_response res;

    begin_alone();
    check_row("somebody repeats it meanwhile");
    set_clock("2026-03-03T12:05:00Z");
    rerun_changed(bed.host);
    look();
    CHECK(bed.host->jobs.first != NULL);
    look();
    sql("UPDATE run SET rerun_wall = 0 WHERE no = 1");
    until(&bed, no_job, NULL);
    settle_host(&bed);
    CHECK_INT(count_runs(&bed), 1);
    res = ask(&bed, GET, "/api/v1/runs/1/events", NULL);
    fr_buf_add(&res.body, "", 1);
    CHECK(strstr(res.body.p, "does not run again") == NULL);
    fr_api_response_finish(&res);
    close_host(&bed);
    check_row("one that does not stay looks at nothing");
    begin_alone();
    close_host(&bed);
    open_host(&bed);
    sql("UPDATE run SET rerun_wall = 1772539200000 WHERE no = 1");
    bed.host->woken = false;
    rerun_changed(bed.host);
    CHECK(!bed.host->woken);
    look();
    CHECK(no_job(&bed, NULL));
    CHECK_INT(timetable_part.due(bed.host), INT64_MAX);
    close_host(&bed);
}

int main(void)
{
    make_home(bed.home);
    fr_sys.wall_ms = bed_wall_ms;
    for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
        test_overlap(i);
        if (strcmp(overlaps[i].policy, "queue") == 0) {
            check_answer(ask(&bed, GET, "/api/v1/queue", NULL), 200,
                         "\"why_waiting\":\"overlap: run 1 of p is before it\"");
            check_row("dropped: the one behind it starts");
            check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{}"), 202, "\"rerun_wall\":0");
            check_runs(&bed, "p", "1 failed schedule 03-01T02:00, 2 running schedule 03-02T02:00");
            check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{}"), 409, "run 1 is over");
        }
        close_host(&bed);
    }
    for (size_t i = 0; i < sizeof(fulls) / sizeof(fulls[0]); i++)
        test_full(i);
    test_clock();
    for (size_t i = 0; i < sizeof(drops) / sizeof(drops[0]); i++)
        test_dropped(i);
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        test_looks(i);
    test_repeated();
    fr_arena_finish(&bed.arena);
    remove_home(bed.home);
    return check_done();
}
