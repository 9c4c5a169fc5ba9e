/* Schedules of a host whose clock is set, and decisions that are too old to be kept. */
#include "tests/unit/timetable/schedules_bed.h"

static struct host_bed bed = HOST_BED;

/* ---- clocks ---- */

static bool has_stepped(struct host_bed *b, const char *steps)
{
    return schedules_clock_steps(b->host) == strtoull(steps, NULL, 10);
}

static void test_clock_steps(void)
{
    check_row("steps of the clock are counted");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    check_answer(ask(&bed, GET, "/api/v1/host", NULL), 200, "\"clock_steps\":0");
    set_clock("2026-03-01T01:10Z");
    until(&bed, has_stepped, "1");
    set_clock("2026-03-01T01:05Z");
    until(&bed, has_stepped, "2");
    check_answer(ask(&bed, GET, "/api/v1/host", NULL), 200, "\"clock_steps\":2");
    close_host(&bed);
}

static void test_clock_back(void)
{
    check_row("a clock in the future, set right");
    reset(&bed);
    set_clock("2030-01-01T00:30Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2030-01-01T03:30Z");
    until_fires(&bed, "p", "missed 01-01T01:00-01-01T03:00 x3");
    set_clock("2026-03-01T00:59Z");
    until_fires(&bed, "p", "");
    set_clock("2026-03-01T01:00Z");
    until_fires(&bed, "p", "ran 03-01T01:00 run 1");

    check_row("set back by a little: what ran does not run again");
    set_clock("2026-03-01T00:58Z");
    settle_host(&bed);
    set_clock("2026-03-01T01:00:10Z");
    check_fires(&bed, "p", "ran 03-01T01:00 run 1");
    close_host(&bed);

    check_row("set back while no host was there");
    reset(&bed);
    set_clock("2030-01-01T00:30Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    close_host(&bed);
    set_clock("2026-03-01T00:59Z");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T01:00Z");
    until_fires(&bed, "p", "ran 03-01T01:00 run 1");
    close_host(&bed);
}

static bool seen_has_fallen(struct host_bed *b, const char *of)
{
    struct fr_schedule_row row;

    return find_row(b, of, &row) && row.seen_ms <= bed_wall_ms();
}

/* Hourly, and missed from 01:00 to 05:00, but for 02:00, which ran before. */
static void begin_ahead(const char *schedule)
{
    reset(&bed);
    set_clock("2026-03-01T01:30Z");
    put_pipeline(&bed, "p", schedule);
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    set_clock("2026-03-01T00:30Z");
    until(&bed, seen_has_fallen, "p");
    close_host(&bed);
    set_clock("2026-03-01T05:30Z");
    begin_host(&bed);
}

static void test_back_among_missed(void)
{
    check_row("set back among what was missed: what is past stays so");
    begin_ahead("{cron: \"0 * * * *\", overlap: parallel}");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, missed 03-01T01:00-03-01T05:00 x4");
    set_clock("2026-03-01T03:30Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, missed 03-01T01:00-03-01T03:00 x2");
    set_clock("2026-03-01T02:30Z");
    until_fires(&bed, "p", "missed 03-01T01:00, ran 03-01T02:00 run 1");
    set_clock("2026-03-01T03:00Z");
    until_fires(&bed, "p", "missed 03-01T01:00, ran 03-01T02:00 run 1, ran 03-01T03:00 run 2");
    close_host(&bed);

    check_row("by another rule: the first one is known");
    begin_ahead("{cron: \"0 * * * *\", overlap: parallel}");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, missed 03-01T01:00-03-01T05:00 x4");
    close_host(&bed);
    put_pipeline(&bed, "p", "{cron: \"30 * * * *\", overlap: parallel}");
    set_clock("2026-03-01T03:40Z");
    begin_host(&bed);
    until_fires(&bed, "p", "missed 03-01T01:00, ran 03-01T02:00 run 1");
    set_clock("2026-03-01T04:30Z");
    until_fires(&bed, "p", "missed 03-01T01:00, ran 03-01T02:00 run 1, ran 03-01T04:30 run 2");
    close_host(&bed);

    check_row("removed meanwhile: once it is back");
    begin_ahead("{cron: \"0 * * * *\", overlap: parallel}");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, missed 03-01T01:00-03-01T05:00 x4");
    drop_pipeline(&bed, "p");
    until(&bed, is_gone, "p");
    set_clock("2026-03-01T03:30Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\", overlap: parallel}");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, missed 03-01T01:00-03-01T03:00 x2");
    close_host(&bed);
}

/* ---- decisions that are too old ---- */

static bool has_first(const char *want)
{
    struct fr_buf got = {0};
    bool yes;

    show_fires(&bed, "p", &got);
    yes = strncmp(got.p, want, strlen(want)) == 0;
    fr_buf_finish(&got);
    return yes;
}

static bool lacks_first(struct host_bed *b, const char *want)
{
    (void)b;
    return !has_first(want);
}

/* The row of the first time, under hosts that begin so much later. */
static void test_old_rows(void)
{
    static const struct {
        const char *name, *schedule, *kept, *gone;
    } rows[] = {
        {"400 days", "{at: [2026-03-01T02:00Z, 2099-01-01T00:00Z]}", "2027-04-04T02:00Z",
         "2027-04-06T02:00Z"},
        {"30 days, with more than 100 times a day", "{every: 10m}", "2026-03-30T02:05Z",
         "2026-04-01T02:05Z"},
    };
    static const char *const first = "ran 03-01T02:00 run 1";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reset(&bed);
        check_row(rows[i].name);
        set_clock("2026-03-01T01:59:30Z");
        put_pipeline(&bed, "p", rows[i].schedule);
        begin_host(&bed);
        until(&bed, is_ready, NULL);
        set_clock("2026-03-01T02:00Z");
        until_fires(&bed, "p", first);
        close_host(&bed);
        set_clock(rows[i].kept);
        begin_host(&bed);
        until(&bed, is_ready, NULL);
        settle_host(&bed);
        CHECK(has_first(first));
        close_host(&bed);
        set_clock(rows[i].gone);
        begin_host(&bed);
        until(&bed, lacks_first, first);
        CHECK_INT(count_runs(&bed), 1); /* that is another matter */
        close_host(&bed);
    }
}

static _Atomic int64_t mono_ahead_ms;

static int64_t ahead_mono_ms(void)
{
    return fr_sys_real.mono_ms() + mono_ahead_ms;
}

/* A clock that was set may be wrong: for a day nothing is removed by it. */
static void test_step_keeps(void)
{
    static const char *const first = "ran 03-01T02:00 run 1";

    check_row("an old row behind a step of the clock");
    reset(&bed);
    set_clock("2026-03-01T01:59:30Z");
    put_pipeline(&bed, "p", "{at: [2026-03-01T02:00Z, 2099-01-01T00:00Z]}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", first);
    set_clock("2027-04-06T02:00Z");
    until(&bed, has_stepped, "2");
    fr_sys.mono_ms = ahead_mono_ms;
    for (int minute = 0; minute < 3; minute++) {
        mono_ahead_ms += 61000;
        bed_pass(61);
        settle_host(&bed);
        CHECK(has_first(first));
    }
    mono_ahead_ms += 86400000;
    bed_pass(86400);
    until(&bed, lacks_first, first);
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
}

static bool is_unknown(struct host_bed *b, const char *of)
{
    struct fr_schedule_row row;

    return !find_row(b, of, &row);
}

static void begin_at(const char *clock)
{
    set_clock(clock);
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    settle_host(&bed);
}

/* More than one commit removes. */
static void add_missed(void)
{
    sqlite3 *db = NULL;
    char path[400];

    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db,
                           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
                           "i < 600) INSERT INTO fire(schedule, at_ms, first_ms, count, decision, "
                           "run, outcome, decided_wall) SELECT 1, i * 60000, i * 60000, 1, "
                           "'missed', 0, '', 0 FROM n",
                           NULL, NULL, NULL),
              SQLITE_OK);
    sqlite3_close(db);
}

/* A schedule whose file is gone is kept for thirty days, with what became of its instants. */
static void test_gone(void)
{
    struct fr_schedule_row row = {0};

    check_row("gone for thirty days");
    reset(&bed);
    begin_at("2026-03-01T01:59:30Z");
    put_pipeline(&bed, "p", "{at: [2026-03-01T02:00Z, 2099-01-01T00:00Z]}");
    until(&bed, is_known, "p");
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    drop_pipeline(&bed, "p");
    until(&bed, is_gone, "p");
    close_host(&bed);
    begin_at("2026-03-31T01:00Z");
    CHECK(is_gone(&bed, "p") && has_first("ran 03-01T02:00 run 1"));
    close_host(&bed);
    check_row("it goes behind its decisions, when they are many");
    add_missed();
    set_clock("2026-03-31T03:00Z");
    begin_host(&bed);
    until(&bed, lacks_first, "missed 01-01T00:01");
    CHECK(is_gone(&bed, "p"));
    fr_sys.mono_ms = ahead_mono_ms;
    mono_ahead_ms = 61000;
    until(&bed, is_unknown, "p");
    check_row("it comes back as another one");
    put_pipeline(&bed, "p", "{at: [2099-01-01T00:00Z]}");
    until(&bed, is_known, "p");
    CHECK(find_row(&bed, "p", &row) && row.since_ms > fr_sys.wall_ms() - 60000);
    check_fires(&bed, "p", "");
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
}

static void test_old_row_ahead(void)
{
    static const char *const first = "ran 03-01T02:00 run 1";

    check_row("an old row of an instant that the clock was set back to before");
    reset(&bed);
    set_clock("2026-03-01T01:59:30Z");
    put_pipeline(&bed, "p", "{at: [2026-03-01T02:00Z, 2099-01-01T00:00Z], catchup: all}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", first);
    close_host(&bed);
    set_clock("2026-03-01T01:00Z");
    begin_host(&bed);
    until(&bed, seen_has_fallen, "p");
    close_host(&bed);
    set_clock("2027-04-06T02:00Z");
    for (int i = 0; i < 2; i++) { /* the second would not know what the first removed */
        begin_host(&bed);
        until(&bed, is_ready, NULL);
        settle_host(&bed);
        CHECK(has_first(first));
        CHECK_INT(count_runs(&bed), 1);
        close_host(&bed);
    }
}

int main(void)
{
    make_home(bed.home);
    fr_sys.wall_ms = bed_wall_ms;
    test_clock_steps();
    test_clock_back();
    test_back_among_missed();
    test_old_rows();
    test_old_row_ahead();
    test_step_keeps();
    test_gone();
    fr_sys = fr_sys_real;
    fr_arena_finish(&bed.arena);
    remove_home(bed.home);
    return check_done();
}
