/* Schedules of a host over their life: pauses, what is asked of them, faults. */
#include "engine/store/lead.h"
#include "tests/unit/timetable/schedules_bed.h"

#include <errno.h>
#include <semaphore.h>

static struct host_bed bed = HOST_BED;

/* ---- pause ---- */

/* A change says what it has seen. */
static void check_match(void)
{
    struct fr_api_response res = ask(&bed, GET, "/api/v1/schedules/1", NULL);
    char tag[80] = "";

    if (CHECK(res.etag.p != NULL && strstr(res.body.p, res.etag.p + 1) == NULL))
        snprintf(tag, sizeof(tag), "%s", res.etag.p);
    fr_api_response_finish(&res);
    bed.match = NULL;
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false}"), 428,
                 "needs If-Match");
    bed.match = "\"0\"";
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false}"), 412,
                 "schedule p/default was changed meanwhile: it is paused");
    bed.match = tag;
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false}"), 200, NULL);
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true}"), 412, "it is active");
    bed.match = "*";
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true}"), 200, NULL);
    check_answer(ask(&bed, GET, "/api/v1/schedules/1/fires?limit=0", NULL), 400, "1 to 200");
    check_answer(ask(&bed, GET, "/api/v1/schedules/1/fires?limit=201", NULL), 400, "1 to 200");
    check_answer(ask(&bed, GET, "/api/v1/schedules/1/fires?limit=200", NULL), 200,
                 "{\"items\":[]}");
}

/* Who follows schedules hears of a pause. */
static void test_topic(void)
{
    static const struct fr_api_pair topic = {"topics", "schedules"};
    const struct fr_api_request req = {.path = "/api/v1/stream",
                                       .query = &topic,
                                       .n_query = 1,
                                       .content_type = "",
                                       .range = "",
                                       .if_none_match = "",
                                       .last_event_id = ""};
    struct reader r = {0};
    struct fr_api_sink sink = {take, closed, &r};
    struct fr_api_response res = {0};

    check_row("a stream of schedules");
    bed.api.open(bed.api.self, &req, &sink, &res, &r.s);
    CHECK_INT(res.status, 200);
    settle_host(&bed);
    CHECK(!has(&r, "event: schedule"));
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true}"), 200, NULL);
    turn_until(&bed, &r, "event: schedule\ndata: {}\n\n");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false}"), 200, NULL);
    bed.api.gone(bed.api.self, r.s);
    fr_api_response_finish(&res);
    fr_buf_finish(&r.got);
}

static void test_pause(void)
{
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\", catchup: all, overlap: parallel}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    test_topic();
    check_row("paused");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true, \"note\": \"moving\"}"),
                 200, "\"note\":\"moving\"");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true}"), 409,
                 "paused already");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"pause\": true}"), 400, "paused");
    check_match();
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", "paused 03-01T02:00");
    set_clock("2026-03-01T04:30Z");
    until_fires(&bed, "p", "paused 03-01T02:00, paused 03-01T03:00-03-01T04:00 x2");

    check_row("resumed: what was paused stays so");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false}"), 200,
                 "\"note\":\"\"");
    set_clock("2026-03-01T05:00Z");
    until_fires(&bed, "p",
                "paused 03-01T02:00, paused 03-01T03:00-03-01T04:00 x2, ran 03-01T05:00 run 1");

    check_row("resumed with its catch-up");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true}"), 200, NULL);
    set_clock("2026-03-01T06:00Z");
    until_fires(&bed, "p",
                "paused 03-01T02:00, paused 03-01T03:00-03-01T04:00 x2, ran 03-01T05:00 run "
                "1, paused 03-01T06:00");
    set_clock("2026-03-01T07:30Z");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false, \"catchup\": true}"),
                 200, NULL);
    until_fires(&bed, "p",
                "paused 03-01T02:00, paused 03-01T03:00-03-01T04:00 x2, ran 03-01T05:00 run "
                "1, ran 03-01T06:00 run 2, ran 03-01T07:00 run 3");
    close_host(&bed);
}

/* What was due before the pause, and found it there, is undecided again, too. */
static void test_resume_with_before(void)
{
    struct fr_schedule_row row;

    check_row("resumed with what was due before the pause");
    reset(&bed);
    set_clock("2026-03-01T00:30Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\", catchup: last}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    close_host(&bed);
    set_clock("2026-03-01T02:30Z");
    bed.st = open_store(bed.home);
    CHECK(find_row(&bed, "p", &row));
    CHECK_INT(fr_schedule_pause(bed.st, &row, &(struct fr_pause){.pause = true}, NULL), FR_OK);
    fr_store_close(bed.st);
    set_clock("2026-03-01T04:30Z");
    begin_host(&bed);
    until_fires(&bed, "p", "paused 03-01T01:00-03-01T04:00 x4");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false, \"catchup\": true}"),
                 200, NULL);
    until_fires(&bed, "p", "missed 03-01T01:00-03-01T03:00 x3, ran 03-01T04:00 run 1");
    close_host(&bed);
}

/* A command while no host is there: what a clock ahead of it decided is the next host's to undo. */
static void test_resume_ahead(void)
{
    struct fr_schedule_row row;

    check_row("resumed before a clock that was set right is noticed");
    reset(&bed);
    set_clock("2026-03-01T00:30Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T05:30Z");
    until_fires(&bed, "p", "missed 03-01T01:00-03-01T05:00 x5");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true, \"note\": \"moving\"}"),
                 200, NULL);
    close_host(&bed);
    set_clock("2026-03-01T02:30Z");
    bed.st = open_store(bed.home);
    CHECK(find_row(&bed, "p", &row));
    CHECK_TEXT(row.note, "moving");
    CHECK_INT(fr_schedule_pause(bed.st, &row, &(struct fr_pause){.pause = false}, NULL), FR_OK);
    CHECK(find_row(&bed, "p", &row));
    CHECK_TEXT(row.note, "");
    fr_store_close(bed.st);
    begin_host(&bed);
    until_fires(&bed, "p", "missed 03-01T01:00-03-01T02:00 x2");
    set_clock("2026-03-01T03:00Z");
    until_fires(&bed, "p", "missed 03-01T01:00-03-01T02:00 x2, ran 03-01T03:00 run 1");
    close_host(&bed);
}

/* One runs, and two wait behind it. */
static void begin_waiting(void)
{
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p",
                 "{cron: \"0 * * * *\", overlap: queue, queue_max: 5}\nmax_active_runs: 1");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    set_clock("2026-03-01T03:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, ran 03-01T03:00 run 2");
    set_clock("2026-03-01T04:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, ran 03-01T03:00 run 2, ran 03-01T04:00 run 3");
}

/* Of the 1st of March from 00:00 to 24:00. */
#define BACKFILL                                                                                   \
    "{\"schedule\": 1, \"from_ms\": 1772323200000, \"to_ms\": 1772409600000, \"order\": \"%s\", "  \
    "\"existing\": \"skip\", \"max_active\": 1, \"priority\": -10, \"params\": []%s}"

static void ask_backfill(const char *order, const char *more, int status, const char *want)
{
    char body[400];

    snprintf(body, sizeof(body), BACKFILL, order, more);
    check_answer(ask(&bed, POST, "/api/v1/backfills", body), status, want);
}

static void test_pause_queued(void)
{
    static const char *const want = "ran 03-01T02:00 run 1, paused 03-01T03:00 run 2 cancelled, "
                                    "paused 03-01T04:00 run 3 cancelled";
    struct fr_schedule_row row;
    char whole[200];

    check_row("paused: what waits stays");
    begin_waiting();
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true}"), 200, NULL);
    check_fires(&bed, "p", "ran 03-01T02:00 run 1, ran 03-01T03:00 run 2, ran 03-01T04:00 run 3");
    check_row("paused again, with what waits; a backfill is another matter");
    ask_backfill("oldest", "", 201, NULL);
    until_fires(&bed, "p",
                "ran 03-01T00:00 run 4, ran 03-01T02:00 run 1, ran 03-01T03:00 run 2, "
                "ran 03-01T04:00 run 3");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true, \"queued\": true}"), 200,
                 NULL);
    snprintf(whole, sizeof(whole), "ran 03-01T00:00 run 4, %s", want);
    until_fires(&bed, "p", whole);
    check_runs(&bed, "p",
               "1 running schedule 03-01T02:00, 2 cancelled schedule 03-01T03:00, "
               "3 cancelled schedule 03-01T04:00, 4 queued backfill 03-01T00:00");
    close_host(&bed);

    check_row("while there is no host: by the next one");
    begin_waiting();
    close_host(&bed);
    bed.st = open_store(bed.home);
    CHECK(find_row(&bed, "p", &row));
    CHECK_INT(
        fr_schedule_pause(bed.st, &row, &(struct fr_pause){.pause = true, .queued = true}, NULL),
        FR_OK);
    fr_store_close(bed.st);
    begin_host(&bed);
    until_fires(&bed, "p", want);
    close_host(&bed);
}

static void sql(const char *text)
{
    sqlite3 *db = NULL;
    char path[400];

    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* No such row can be written until admit(). */
static void refuse(const char *what)
{
    char text[200];

    snprintf(text, sizeof(text),
             "CREATE TRIGGER refuse BEFORE %s BEGIN SELECT RAISE(FAIL, 'refused'); END", what);
    sql(text);
}

static void admit(void)
{
    sql("DROP TRIGGER refuse");
}

static bool is_paused(struct host_bed *b, const char *of)
{
    struct fr_schedule_row row;

    return find_row(b, of, &row) && row.state == FR_SCHEDULE_PAUSED;
}

/* It ends so, as its nodes are none; that its schedule pauses is written once there is room. */
static void fail_run(int no)
{
    const struct fr_note over = {.kind = FR_NOTE_RUN, .now = {.state = FR_RUN_OVER}};
    struct host_run *h;

    settle_host(&bed);
    h = host_find_no(bed.host, no);
    sql("UPDATE fire SET outcome = 'failed'");
    refuse("UPDATE ON schedule");
    timetable_part.note(h, h->run, &over);
    settle_host(&bed);
    CHECK(!is_paused(&bed, "p"));
    admit();
}

/* Runs fail before they begin, as their file cannot be loaded. */
static void test_pause_after(void)
{
    struct fr_schedule_row row;

    check_row("paused by itself");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\", pause_after: 2}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    write_pipeline(&bed, "p", "schedule: [\n");
    until(&bed, has_error, "p.yaml");
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", "invalid 03-01T02:00 run 1 failed");
    CHECK(!is_paused(&bed, "p"));
    set_clock("2026-03-01T03:00Z");
    until(&bed, is_paused, "p");
    CHECK(find_row(&bed, "p", &row) && strcmp(row.note, "its last 2 runs have failed") == 0);
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false}"), 200, NULL);
    set_clock("2026-03-01T04:00Z");
    until_fires(&bed, "p",
                "invalid 03-01T02:00 run 1 failed, invalid 03-01T03:00 run 2 failed, "
                "invalid 03-01T04:00 run 3 failed");
    settle_host(&bed);
    CHECK(!is_paused(&bed, "p")); /* one since it was resumed */
    check_row("by a run that began, too");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\", pause_after: 2}");
    until(&bed, has_error, "");
    set_clock("2026-03-01T05:00Z");
    until_fires(&bed, "p",
                "invalid 03-01T02:00 run 1 failed, invalid 03-01T03:00 run 2 failed, "
                "invalid 03-01T04:00 run 3 failed, ran 03-01T05:00 run 4");
    fail_run(4);
    until(&bed, is_paused, "p");
    close_host(&bed);
}

/* ---- what is asked of it ---- */

static void check_params(const char *run, const char *text)
{
    struct fr_arena a = {0};
    struct fr_run_row row = {.params = ""};

    CHECK_INT(fr_store_run_find(bed.st, run, &a, &row, NULL), FR_OK);
    if (!CHECK(strstr(row.params, text) != NULL))
        printf("   no %s in %s\n", text, row.params);
    fr_arena_finish(&a);
}

/* The answer about the only schedule: what its row has, and more behind that. */
static void check_schedule(const char *name, const char *rule, const char *more)
{
    struct fr_schedule_row row;
    char want[1000];

    CHECK(find_row(&bed, "p", &row));
    CHECK(row.state_wall > 0 && row.seen_ms > 0 && row.since_ms > 0);
    snprintf(
        want, sizeof(want),
        "{\"items\":[{\"id\":1,\"etag\":\"\\\"%lld.active\\\"\",\"pipeline\":\"p\",\"name\":\"%s\","
        "\"file\":\"%s/p.yaml\",\"rule\":\"%s\",\"state\":\"active\",\"state_wall\":%lld,\"note\":"
        "\"\",\"gone_wall\":0,\"seen_ms\":%lld,\"since_ms\":%lld,%s}]}",
        (long long)row.state_wall, name, bed.folder, rule, (long long)row.state_wall,
        (long long)row.seen_ms, (long long)row.since_ms, more);
    check_answer(ask(&bed, GET, "/api/v1/schedules", NULL), 200, want);
}

static void test_run(void)
{
    check_row("a run of a schedule, when somebody asks for one");
    reset(&bed);
    set_clock("2026-03-01T01:00:30Z");
    write_pipeline(&bed, "p",
                   "name: p\nparams: {n: {type: int}}\nschedule: {name: s, cron: \"0 2 * * "
                   "*\", zone: Europe/Berlin, priority: 4, params: {n: 7}}\n"
                   "tasks: {a: {run: 'true', env: {N: \"${{ params.n }}\"}}}\n");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    check_schedule(
        "s", "every day at 02:00 in Europe/Berlin",
        "\"zone\":\"Europe/Berlin\",\"due_wall\":1772413200000,\"next\":[{\"at_ms\":"
        "1772413200000,\"local\":\"2026-03-02 02:00\"},{\"at_ms\":1772499600000,"
        "\"local\":\"2026-03-03 02:00\"},{\"at_ms\":1772586000000,\"local\":\"2026-03-04 "
        "02:00\"},{\"at_ms\":1772672400000,\"local\":\"2026-03-05 02:00\"},{\"at_ms\":"
        "1772758800000,\"local\":\"2026-03-06 02:00\"}]");
    check_answer(ask(&bed, POST, "/api/v1/schedules/1/run", "{\"x\": 1}"), 400,
                 "the body must be {}");
    check_answer(ask(&bed, POST, "/api/v1/schedules/9/run", "{}"), 404, "there is no schedule 9");
    check_answer(ask(&bed, POST, "/api/v1/schedules/1/run", "{}"), 201, "\"no\":1,");
    check_fires(&bed, "p", "");
    check_runs(&bed, "p", "1 running api by hand");
    check_params("1", "n=7");
    drop_pipeline(&bed, "p");
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, is_gone, "p");
    check_answer(ask(&bed, POST, "/api/v1/schedules/1/run", "{}"), 404, "is not served any more");
    close_host(&bed);
}

static void test_dry_backfill(void)
{
    check_row("what a backfill would do");
    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 2,14 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    ask_backfill("oldest", ", \"dry_run\": true", 200,
                 "{\"total\":2,\"runs\":1,\"items\":[{\"at_ms\":1772330400000,\"existing\":"
                 "\"live\",\"run\":1,\"makes_run\":false},{\"at_ms\":1772373600000,"
                 "\"existing\":\"\",\"run\":0,\"makes_run\":true}]}");
    ask_backfill("newest", ", \"dry_run\": true", 200, "[{\"at_ms\":1772373600000");
    check_answer(ask(&bed, GET, "/api/v1/backfills", NULL), 200, "{\"items\":[]}");
    ask_backfill("first", ", \"dry_run\": true", 400, "order must be oldest or newest");
    ask_backfill("oldest", ", \"dry\": true", 400, "nothing else");
    check_row("many: the rest is asked for");
    put_pipeline(&bed, "p", "{every: 1m}");
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, has_rule, "every 1 min in UTC");
    ask_backfill("oldest", ", \"dry_run\": true", 200,
                 "\"next\":{\"from_ms\":1772353140001,\"to_ms\":1772409600000}");
    ask_backfill("newest", ", \"dry_run\": true", 200,
                 "\"next\":{\"from_ms\":1772323200000,\"to_ms\":1772379600000}");
    check_row("without its total");
    ask_backfill("oldest", "", 201, "\"total\":1440");
    close_host(&bed);
}

/* ---- faults ---- */

static _Atomic bool disk_full; /* read in threads, as all below */
static _Atomic int refused;

static ssize_t write_unless_full(int fd, const void *p, size_t n)
{
    if (!disk_full)
        return fr_sys_real.write(fd, p, n);
    refused++;
    errno = ENOSPC;
    return -1;
}

static bool was_refused(struct host_bed *b, const char *arg)
{
    (void)b, (void)arg;
    return refused > 0;
}

static bool backs_off(struct host_bed *b, const char *arg)
{
    (void)arg;
    return schedules_of(b->host)->list[0]->backoff_ms != 0;
}

static void test_full(void)
{
    check_row("a full disk: decided once there is room");
    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    fr_sys.write = write_unless_full;
    disk_full = true;
    set_clock("2026-03-01T02:00Z");
    until(&bed, was_refused, NULL);
    check_fires(&bed, "p", "");
    disk_full = false;
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    CHECK_INT(schedules_of(bed.host)->list[0]->backoff_ms,
              0); /* the next fault is the first again */
    check_row("a decision that cannot be written");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true}"), 200, NULL);
    refuse("INSERT ON fire");
    set_clock("2026-03-02T02:00Z");
    until(&bed, backs_off, NULL);
    check_fires(&bed, "p", "ran 03-01T02:00 run 1");
    admit();
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, paused 03-02T02:00");
    CHECK_INT(schedules_of(bed.host)->list[0]->backoff_ms, 0);
    close_host(&bed); /* a thread may write until then */
    fr_sys.write = fr_sys_real.write;
}

static void test_busy(void)
{
    sqlite3 *db = NULL;
    char path[400];

    check_row("another process writes meanwhile");
    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    set_clock("2026-03-01T02:00Z");
    settle_host(&bed);
    CHECK_INT(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    sqlite3_close(db);
    close_host(&bed);
}

/* Another process becomes the host: this one decides nothing any more. */
static sem_t comes;
static _Atomic bool holds;

/* The next file that is read in a thread waits. */
static int open_held(const char *path, int flags, mode_t mode)
{
    size_t n = strlen(path);

    if (holds && n > 7 && strcmp(path + n - 7, "/p.yaml") == 0) {
        holds = false;
        while (sem_wait(&comes) != 0)
            ;
    }
    return fr_sys_real.open(path, flags, mode);
}

static bool is_held(struct host_bed *b, const char *arg)
{
    (void)b, (void)arg;
    return !holds;
}

static void hold_fire(const char *clock)
{
    holds = true;
    set_clock(clock);
    until(&bed, is_held, NULL);
}

/* What happens while the run of an instant is made counts for its decision. */
static void test_meanwhile(void)
{
    static const char other[] = "name: p\ntasks: {a: {run: x}}\n";
    char path[340], body[400];

    check_row("a run by hand comes while that of an instant is made");
    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\"}");
    snprintf(path, sizeof(path), "%s/other.yaml", bed.home);
    put_file(bed.home, "other.yaml", other);
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    CHECK_INT(sem_init(&comes, 0, 0), 0);
    fr_sys.open = open_held;
    begin_log(&bed);
    hold_fire("2026-03-01T02:00Z");
    snprintf(body, sizeof(body), "{\"pipeline\": \"%s\", \"cwd\": \"/\"}", path);
    check_answer(ask(&bed, POST, "/api/v1/runs", body), 201, "\"no\":1,");
    check_fires(&bed, "p", "");
    sem_post(&comes);
    until_fires(&bed, "p", "skipped 03-01T02:00 run 1");
    check_runs(&bed, "p", "1 running cli by hand");
    fr_print_by(NULL);
    CHECK(has_logged(&bed, "schedules p/default: skipped at=2026-03-01T02:00:00Z count=1 run=1\n"));
    cancel(&bed, "1");
    check_row("a pause comes while it is made");
    hold_fire("2026-03-01T03:00Z");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true}"), 200, NULL);
    sem_post(&comes);
    until_fires(&bed, "p", "skipped 03-01T02:00 run 1, paused 03-01T03:00");
    check_runs(&bed, "p", "1 cancelled cli by hand");
    check_row("its file changes while it is made");
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": false}"), 200, NULL);
    hold_fire("2026-03-01T04:00Z");
    put_pipeline(&bed, "p", "{cron: \"30 * * * *\"}");
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, has_rule, "at minute 30 of every hour in UTC");
    sem_post(&comes);
    settle_host(&bed);
    set_clock("2026-03-01T04:30Z");
    until_fires(&bed, "p", "skipped 03-01T02:00 run 1, paused 03-01T03:00, ran 03-01T04:30 run 2");
    check_row("a backfill is paused while its run is made");
    holds = true;
    ask_backfill("oldest", "", 201, NULL);
    until(&bed, is_held, NULL);
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/pause", "{}"), 202, NULL);
    sem_post(&comes);
    settle_host(&bed);
    cancel(&bed, "2"); /* in a later commit */
    CHECK_INT(count_runs(&bed), 2);
    check_answer(ask(&bed, GET, "/api/v1/backfills", NULL), 200, "\"made\":0,\"kept\":0");
    fr_sys.open = fr_sys_real.open;
    close_host(&bed);
    sem_destroy(&comes);
}

static void test_two_hosts(void)
{
    struct fr_store *other;
    struct fr_err err = {0};
    uint32_t epoch;
    int turns = 0;

    check_row("two hosts");
    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    other = open_store(bed.home);
    CHECK_INT(fr_store_lead(other, &epoch, &err), FR_OK);
    CHECK_INT(fr_store_begin(other, &err), FR_OK);
    CHECK_INT(fr_store_commit(other, &err), FR_OK);
    set_clock("2026-03-01T02:00Z");
    struct fr_timer *timer = NULL;
    CHECK_INT(fr_loop_timer(&bed.loop, nothing, NULL, &timer), FR_OK);
    enum fr_rc rc = FR_OK;
    for (; rc == FR_OK && turns < 10000; turns++) {
        fr_loop_arm_in(&bed.loop, timer, 1);
        rc = fr_host_turn(bed.host, &err);
    }
    fr_loop_untimer(&bed.loop, &timer);
    CHECK_INT(rc, FR_DENIED);
    CHECK(count_runs(&bed) == 0);
    fr_store_close(other);
    close_host(&bed);
}

/* ---- by name ---- */

static const struct {
    const char *text, *want; /* the names of those that move to the front, or the error */
} named[] = {
    {NULL, "p/a p/b q/a q/c"},
    {"p/a", "p/a"},
    {"p/gone", "p/gone"},
    {"/f/p.yaml", "p/a p/b p/gone"},
    {"q", "q/a q/c"},
    {"b", "p/b"},
    {"c", "q/c"},
    {"gone", "there is no schedule 'gone'"},
    {"old", "there is no schedule 'old'"},
    {"old/c", "old/c"},
    {"p/", "there is no schedule 'p/'"},
    {"a", "2 schedules are called 'a'"},
};

static void test_named(void)
{
    static const struct fr_schedule_row all[] = {
        {.pipeline = "p", .name = "a", .source = "/f/p.yaml"},
        {.pipeline = "p", .name = "b", .source = "/f/p.yaml"},
        {.pipeline = "q", .name = "a", .source = "/f/q.yaml"},
        {.pipeline = "p", .name = "gone", .source = "/f/p.yaml", .gone_wall = 1},
        {.pipeline = "q", .name = "c", .source = "/f/q.yaml"},
        {.pipeline = "old", .name = "c", .source = "/f/old.yaml", .gone_wall = 1},
    };

    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        struct fr_schedule_row list[sizeof(all) / sizeof(all[0])];
        struct fr_schedule_rows rows = {list, sizeof(all) / sizeof(all[0])};
        struct fr_buf got = {0};
        struct fr_err err = {0};

        check_row(named[i].text != NULL ? named[i].text : "all");
        memcpy(list, all, sizeof(all));
        fr_buf_text(&got, "");
        if (fr_schedules_named(&rows, named[i].text, &err) == FR_OK)
            for (size_t k = 0; k < rows.n; k++)
                fr_buf_fmt(&got, "%s%s/%s", k > 0 ? " " : "", list[k].pipeline, list[k].name);
        else
            fr_buf_fmt(&got, "%.*s", (int)strcspn(err.msg, ":"), err.msg);
        CHECK_TEXT(got.p, named[i].want);
        fr_buf_finish(&got);
    }
    check_row("");
}

int main(void)
{
    make_home(bed.home);
    fr_sys.wall_ms = bed_wall_ms;
    test_pause();
    test_resume_with_before();
    test_resume_ahead();
    test_pause_queued();
    test_run();
    test_dry_backfill();
    test_pause_after();
    test_full();
    test_busy();
    test_meanwhile();
    test_two_hosts();
    test_named();
    fr_sys = fr_sys_real;
    fr_arena_finish(&bed.arena);
    remove_home(bed.home);
    return check_done();
}
