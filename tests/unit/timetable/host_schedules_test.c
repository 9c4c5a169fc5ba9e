/* What a host does with the instants of a schedule: in time, after it was away, beside live runs,
 * when a zone is replaced, and with many schedules at once. */
#include "tests/unit/schedule/schedule_bed.h"
#include "tests/unit/timetable/schedules_bed.h"

static struct host_bed bed = HOST_BED;

/* ---- an instant ---- */

static void test_in_time(void)
{
    struct fr_schedule_row row;

    check_row("in time");
    reset(&bed);
    set_clock("2026-03-01T01:59:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\", priority: 3, params: {}}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    check_fires(&bed, "p", "");
    set_clock("2026-03-01T01:59:59Z");
    check_fires(&bed, "p", "");
    set_clock("2026-03-01T02:00:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    check_runs(&bed, "p", "1 running schedule 03-01T02:00");
    CHECK(find_row(&bed, "p", &row) && row.seen_ms == 1772330400000);
    check_answer(ask(&bed, GET, "/api/v1/runs/1", NULL), 200, "\"priority\":3");
    check_answer(ask(&bed, GET, "/api/v1/schedules", NULL), 200, "\"pipeline\":\"p\"");
    check_answer(ask(&bed, GET, "/api/v1/schedules/1", NULL), 200, "\"due_wall\":1772416800000");
    check_answer(ask(&bed, GET, "/api/v1/schedules/9", NULL), 404, "there is no schedule 9");
    check_answer(ask(&bed, GET, "/api/v1/schedules/1/fires?limit=0", NULL), 400, "limit");
    check_answer(ask(&bed, GET, "/api/v1/schedules/1/fires", NULL), 200, "\"decision\":\"ran\"");
    check_answer(ask(&bed, GET, "/metrics", NULL), 200,
                 "\nflowrun_schedule_fires_total{decision=\"ran\"} 1\n");
    check_answer(ask(&bed, GET, "/metrics", NULL), 200, "\nflowrun_schedule_lag_seconds_count 1\n");
    cancel(&bed, "1");
    check_fires(&bed, "p", "ran 03-01T02:00 run 1 cancelled");

    check_row("killed, and here again: it does not happen again");
    close_host(&bed);
    set_clock("2026-03-01T02:00:30Z");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    check_fires(&bed, "p", "ran 03-01T02:00 run 1 cancelled");
    close_host(&bed);
}

/* ---- a host that was away ---- */

static const struct {
    const char *schedule, *seen, *back, *want, *runs;
} lates[] = {
    {"{cron: \"0 2 * * *\"}", "2026-03-01T01:00Z", "2026-03-04T09:00Z",
     "missed 03-01T02:00-03-04T02:00 x4", ""},
    {"{cron: \"0 2 * * *\", catchup: last}", "2026-03-01T01:00Z", "2026-03-04T09:00Z",
     "missed 03-01T02:00-03-03T02:00 x3, ran 03-04T02:00 run 1", "1 running catchup 03-04T02:00"},
    {"{cron: \"0 2 * * *\", catchup: all}", "2026-03-01T01:00Z", "2026-03-04T09:00Z",
     "ran 03-01T02:00 run 1, ran 03-02T02:00 run 2, ran 03-03T02:00 run 3, ran 03-04T02:00 run 4",
     "1 running catchup 03-01T02:00, 2 queued catchup 03-02T02:00, 3 queued catchup 03-03T02:00, "
     "4 queued catchup 03-04T02:00"},
    {"{cron: \"0 2 * * *\", catchup: all, catchup_limit: 2}", "2026-03-01T01:00Z",
     "2026-03-04T09:00Z",
     "dropped 03-01T02:00-03-02T02:00 x2, ran 03-03T02:00 run 1, ran 03-04T02:00 run 2",
     "1 running catchup 03-03T02:00, 2 queued catchup 03-04T02:00"},
    {"{cron: \"0 2 * * *\"}", "2026-03-01T01:00Z", "2026-03-04T02:08Z",
     "missed 03-01T02:00-03-03T02:00 x3, ran 03-04T02:00 run 1", "1 running schedule 03-04T02:00"},
    {"{cron: \"0 2 * * *\", catchup: all, catchup_limit: 3}", "2026-03-01T01:00Z",
     "2026-03-04T02:08Z",
     "dropped 03-01T02:00, ran 03-02T02:00 run 1, ran 03-03T02:00 run 2, ran 03-04T02:00 run 3",
     "1 running catchup 03-02T02:00, 2 queued catchup 03-03T02:00, 3 queued catchup 03-04T02:00"},
    {"{cron: \"* * * * *\"}", "2026-03-01T01:00:10Z", "2026-03-01T01:07:30Z",
     "missed 03-01T01:01-03-01T01:06 x6, ran 03-01T01:07 run 1", "1 running schedule 03-01T01:07"},
    {"{cron: \"* * * * *\"}", "2025-03-01T00:00Z", "2026-03-01T00:00Z",
     "missed 03-01T00:01-02-28T23:59 x525599, ran 03-01T00:00 run 1",
     "1 running schedule 03-01T00:00"},
    {"{at: [2026-03-01T02:00Z, 2026-03-02T02:00Z], grace: 2h}", "2026-03-01T02:30Z",
     "2026-03-02T03:30Z", "ran 03-02T02:00 run 1", "1 running schedule 03-02T02:00"},
    {"{every: 6h, end: 2026-03-01T12:00}", "2026-03-01T01:00Z", "2026-03-02T00:00Z",
     "missed 03-01T06:00", ""},
};

static void test_away(void)
{
    for (size_t i = 0; i < sizeof(lates) / sizeof(lates[0]); i++) {
        reset(&bed);
        check_row(lates[i].want);
        set_clock(lates[i].seen);
        put_pipeline(&bed, "p", lates[i].schedule);
        begin_host(&bed);
        until(&bed, is_ready, NULL);
        close_host(&bed);
        set_clock(lates[i].back);
        begin_host(&bed);
        until_fires(&bed, "p", lates[i].want);
        check_runs(&bed, "p", lates[i].runs);
        check_fires(&bed, "p", lates[i].want); /* and no more */
        close_host(&bed);
    }
}

/* ---- beside live runs ---- */

/* The schedule that is due beside runs that went before: h by hand, s of the same schedule, o of
 * another one of the pipeline; q: it is queued, as max_active_runs says. */
static const struct {
    const char *policy, *before, *decided, *runs;
} overlaps[] = {
    {"skip", "", "ran 03-02T02:00 run 1", "1 running"},
    {"skip", "h", "skipped 03-02T02:00 run 1", "1 running"},
    {"skip", "s", "skipped 03-02T02:00 run 1", "1 running"},
    {"skip", "o", "skipped 03-02T02:00 run 1", "1 running"},
    {"queue", "", "ran 03-02T02:00 run 1", "1 running"},
    {"queue", "h", "ran 03-02T02:00 run 2", "1 running, 2 queued"},
    {"queue", "s", "ran 03-02T02:00 run 2", "1 running, 2 queued"},
    {"queue", "o", "ran 03-02T02:00 run 2", "1 running, 2 queued"},
    {"queue", "ss", "ran 03-02T02:00 run 3", "1 running, 2 cancelled, 3 queued"},
    {"queue, queue_max: 2", "ss", "ran 03-02T02:00 run 3", "1 running, 2 queued, 3 queued"},
    {"cancel_previous", "", "ran 03-02T02:00 run 1", "1 running"},
    {"cancel_previous", "h", "skipped 03-02T02:00 run 1", "1 running"},
    {"cancel_previous", "s", "ran 03-02T02:00 run 2", "1 cancelled, 2 running"},
    {"cancel_previous", "o", "skipped 03-02T02:00 run 1", "1 running"},
    {"parallel", "", "ran 03-02T02:00 run 1", "1 running"},
    {"parallel", "h", "ran 03-02T02:00 run 2", "1 running, 2 running"},
    {"parallel", "s", "ran 03-02T02:00 run 2", "1 running, 2 running"},
    {"parallel", "o", "ran 03-02T02:00 run 2", "1 running, 2 running"},
};

/* The newest decision of the first schedule, and the state of each run. */
static bool has_overlap(struct host_bed *b, const char *row)
{
    size_t i = (size_t)strtoul(row, NULL, 10);
    struct fr_arena a = {0};
    struct fr_run_rows rows = {0};
    struct fr_buf got = {0};
    const char *newest;
    bool yes;

    show_fires(b, "p", &got);
    newest = strrchr(got.p, ',') != NULL ? strrchr(got.p, ',') + 2 : got.p;
    yes = strcmp(newest, overlaps[i].decided) == 0;
    got.n = 0;
    fr_buf_text(&got, "");
    CHECK_INT(fr_store_runs(b->st, 0, &a, &rows, NULL), FR_OK);
    for (size_t k = rows.n; k-- > 0;)
        fr_buf_fmt(&got, "%s%lld %s", got.n > 0 ? ", " : "", (long long)rows.rows[k].no,
                   fr_run_word(rows.rows[k].state, rows.rows[k].outcome));
    yes = yes && strcmp(got.p, overlaps[i].runs) == 0;
    fr_buf_finish(&got);
    fr_arena_finish(&a);
    return yes;
}

static bool has_runs(struct host_bed *b, const char *n)
{
    return count_runs(b) == strtol(n, NULL, 10);
}

static void run_by_hand(void)
{
    snprintf(bed.body, sizeof(bed.body),
             "{\"id\": \"%s\", \"pipeline\": \"%s/p.yaml\", \"cwd\": \"/\", \"env\": {\"WHO\": "
             "\"me\"}}",
             ID, bed.folder);
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, "\"no\":1,");
}

static void test_overlap_row(size_t i)
{
    /* same-schedule runs of before fire on days before; the other schedule fires once */
    static const char *const days[] = {"2026-03-01T02:00Z", "2026-03-01T14:00Z"};
    char schedule[300], row[20], n[20];
    int before = 0;

    snprintf(schedule, sizeof(schedule),
             "[{name: a, cron: \"0 2,14 * * *\", overlap: %s}, {name: other, at: "
             "[2026-03-01T20:00Z]}]",
             overlaps[i].policy);
    set_clock(overlaps[i].before[0] == 's' ? "2026-03-01T01:00Z" : "2026-03-01T15:00Z");
    put_pipeline(&bed, "p", schedule);
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    for (const char *b = overlaps[i].before; *b != '\0'; b++) {
        snprintf(n, sizeof(n), "%d", before + 1);
        if (*b == 'h')
            run_by_hand();
        else
            set_clock(*b == 'o' ? "2026-03-01T20:00Z" : days[before]);
        until(&bed, has_runs, n);
        before++;
    }
    settle_host(&bed);
    set_clock("2026-03-02T01:59Z"); /* what is due before counts as missed, or is decided */
    settle_host(&bed);
    set_clock("2026-03-02T02:00Z");
    snprintf(row, sizeof(row), "%zu", i);
    until(&bed, has_overlap, row);
    settle_host(&bed);
    CHECK(has_overlap(&bed, row));
    if (strstr(overlaps[i].runs, "2 cancelled") != NULL) /* run 3 has its place */
        check_answer(ask(&bed, GET, "/api/v1/schedules/1/fires", NULL), 200,
                     "\"note\":\"by run 3\"");
    close_host(&bed);
}

static void test_overlap(void)
{
    for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
        char row[80];

        snprintf(row, sizeof(row), "%s beside '%s'", overlaps[i].policy, overlaps[i].before);
        reset(&bed);
        check_row(row);
        test_overlap_row(i);
    }
}

/* ---- zones ---- */

static void put_zone(const char *path, const char *like)
{
    struct fr_buf b = {0};

    for (size_t i = 0; i < BED_ZONES; i++)
        if (strcmp(bed_zones[i].name, like) == 0)
            bed_file(&bed_zones[i], &b);
    CHECK_INT(fr_file_write(path, b.p, b.n, 0644, NULL), FR_OK);
    fr_buf_finish(&b);
}

/* The last schedule is due next at that time in UTC. */
static bool is_due_at(struct host_bed *b, const char *text)
{
    const struct host_schedules *all = schedules_of(b->host);

    return all->n > 0 && all->list[all->n - 1]->due_wall == bed_time(text) * 1000;
}

static void test_zone_replaced(void)
{
    char zones[340], tokyo[400];

    check_row("another version of a zone: from now on");
    reset(&bed);
    snprintf(zones, sizeof(zones), "%s/zones", bed.home);
    snprintf(tokyo, sizeof(tokyo), "%s/Asia/Tokyo", zones);
    CHECK_INT(fr_mkdirs(zones, 0700, NULL), FR_OK);
    bed_database(zones);
    CHECK_INT(setenv("TZDIR", zones, 1), 0);
    set_clock("2026-03-01T02:59Z");
    put_pipeline(&bed, "p",
                 "[{name: z, at: [2099-01-01T00:00Z]}, {name: a, cron: \"0 9,12 * * *\", zone: "
                 "Asia/Tokyo, overlap: parallel}]");
    begin_host(&bed);
    until(&bed, is_due_at, "2026-03-01T03:00Z");
    set_clock("2026-03-01T03:00Z");
    until_fires(&bed, "p", "ran 03-01T03:00 run 1");
    until(&bed, is_due_at, "2026-03-02T00:00Z");
    set_clock("2026-03-01T04:00Z");
    put_zone(tokyo, "Asia/Kolkata"); /* there 09:00 of that day was at 03:30 */
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, is_due_at, "2026-03-01T06:30Z");
    set_clock("2026-03-01T06:30Z");
    until_fires(&bed, "p", "ran 03-01T03:00 run 1, ran 03-01T06:30 run 2");
    close_host(&bed);
    CHECK_INT(unsetenv("TZDIR"), 0);
}

/* ---- many at once ---- */

enum { MANY = 30 };

static _Atomic int hurry; /* each look at the clock takes a millisecond */

static int64_t hurried_mono_ms(void)
{
    return fr_sys_real.mono_ms() + hurry++;
}

static bool have_fires(struct host_bed *b, const char *want)
{
    char of[12];
    bool yes = true;

    b->wanted = want;
    for (int i = 0; yes && i < MANY; i++) {
        snprintf(of, sizeof(of), "p%d", i);
        yes = has_fires(b, of);
    }
    return yes;
}

static bool is_taking(struct host_bed *b, const char *arg)
{
    (void)arg;
    return schedules_of(b->host)->taking;
}

/* More than one turn has time for: a part of it each, and nothing is lost. */
static void test_many(void)
{
    char of[12];

    check_row("many, of which a turn has time for a few");
    reset(&bed);
    fr_sys.mono_ms = hurried_mono_ms;
    set_clock("2026-03-01T00:30Z");
    for (int i = 0; i < MANY; i++) {
        snprintf(of, sizeof(of), "p%d", i);
        put_pipeline(&bed, of, "{cron: \"0 * * * *\", pause_after: 3}");
    }
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T05:30Z");
    until(&bed, have_fires, "missed 03-01T01:00-03-01T05:00 x5");
    set_clock("2026-03-01T03:30Z");
    until(&bed, have_fires, "missed 03-01T01:00-03-01T03:00 x3");
    close_host(&bed);

    check_row("for the next host, too, and one that is left before it knows all");
    set_clock("2026-03-01T06:30Z");
    begin_host(&bed);
    until(&bed, is_taking, NULL);
    close_host(&bed);
    begin_host(&bed);
    until(&bed, have_fires, "missed 03-01T01:00-03-01T03:00 x3, missed 03-01T04:00-03-01T06:00 x3");
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
}

/* The next decision of a schedule waits twice as long each time, and a minute at most. */
static void test_backoff(void)
{
    static const int64_t want[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    struct host_schedule *s;

    check_row("faults in a row");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    s = schedules_of(bed.host)->list[0];
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        int64_t before = fr_sys.mono_ms();

        schedules_retry(schedules_of(bed.host), s);
        CHECK_INT(s->backoff_ms, want[i]);
        CHECK(s->retry_ms >= before + want[i] && s->retry_ms <= fr_sys.mono_ms() + want[i]);
    }
    close_host(&bed);
}

int main(void)
{
    make_home(bed.home);
    fr_sys.wall_ms = bed_wall_ms;
    test_in_time();
    test_away();
    test_overlap();
    test_zone_replaced();
    test_many();
    test_backoff();
    fr_sys = fr_sys_real;
    fr_arena_finish(&bed.arena);
    remove_home(bed.home);
    return check_done();
}
