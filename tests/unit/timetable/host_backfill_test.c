/* What a backfill does with an instant that has runs or decisions already: a cell for each of them
 * and each --existing; and when the disk is full. A run that it makes is e2e/backfill.sh's. */
#include "tests/unit/timetable/schedules_bed.h"

#include "engine/runs/job.h"
#include "engine/runs/state.h"
#include "engine/store/backfills.h"
#include "engine/timetable/backfilling.h"

#include <errno.h>
#include <semaphore.h>

static struct host_bed bed = HOST_BED;

#define DAY_MS INT64_C(86400000)
#define FIRST_MS INT64_C(1769911200000) /* 2026-02-01T02:00Z; each row has a day of its own */

enum { RUN = 100, REMOVED = 6 }; /* number of the run of the first day; a row */

static const struct {
    const char *name;
    const char *runs;     /* outcomes, the older first; "rerun": failed, and to run again */
    const char *decision; /* of its row; NULL: it has none */
    const char *outcome;  /* likewise */
    const char *existing; /* what is said of it */
    const char *makes;    /* whether a run is made with --existing skip, failed, all */
} rows[] = {
    {"nothing", "", NULL, "", "", "y-y"},
    {"a run that succeeded", "succeeded", "ran", "succeeded", "succeeded", "--y"},
    {"a run that failed", "failed", "ran", "failed", "failed", "yyy"},
    {"a run that was cancelled", "cancelled", "ran", "cancelled", "cancelled", "y-y"},
    {"runs, the newer one succeeded", "failed succeeded", "ran", "failed", "succeeded", "--y"},
    {"runs, the newer one failed", "succeeded failed", "ran", "failed", "succeeded", "--y"},
    {"a removed run that succeeded", "", "ran", "succeeded", "succeeded", "--y"},
    {"a removed run that failed", "", "ran", "failed", "failed", "yyy"},
    {"a run that is to run again", "rerun", "ran", "failed", "live", "---"},
    {"missed", "", "missed", "", "", "y-y"},
    {"dropped", "", "dropped", "", "", "y-y"},
    {"skipped", "", "skipped", "", "", "y-y"},
    {"paused", "", "paused", "", "", "y-y"},
    {"invalid", "failed", "invalid", "failed", "failed", "yyy"},
    {"superseded", "cancelled", "superseded", "cancelled", "cancelled", "y-y"},
};

static void sql(const char *text)
{
    char path[400];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    if (!CHECK_INT(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK))
        printf("%s: %s\n", sqlite3_errmsg(db), text);
    sqlite3_close(db);
}

/* Row i, on that day. Its runs have the numbers RUN + 10 * day, and so on. */
static void put_row(size_t i, int day)
{
    int64_t at_ms = FIRST_MS + day * DAY_MS;
    char text[700];
    int no = RUN + 10 * day;

    for (const char *p = rows[i].runs; *p != '\0'; p += strcspn(p, " "), p += *p == ' ', no++) {
        bool again = strncmp(p, "rerun", 5) == 0;

        snprintf(text, sizeof(text),
                 "INSERT INTO run(id, no, name, source, folder, spec_hash, inventory_hash, "
                 "inventory, params, state, outcome, started_wall, schedule, at_ms, rerun_wall) "
                 "VALUES(randomblob(16), %d, 'p', '', '', '', '', '', '{}', 'over', '%.*s', 0, 1, "
                 "%lld, %s)",
                 no, again ? 6 : (int)strcspn(p, " "), again ? "failed" : p, (long long)at_ms,
                 again ? "4102444800000" : "0");
        sql(text);
    }
    snprintf(text, sizeof(text),
             "INSERT INTO fire(schedule, at_ms, first_ms, count, decision, run, outcome, "
             "decided_wall) VALUES(1, %lld, %lld, 1, '%s', %d, '%s', 0)",
             (long long)at_ms, (long long)at_ms, rows[i].decision, RUN + 10 * day, rows[i].outcome);
    if (rows[i].decision != NULL)
        sql(text);
}

static void check_cell(size_t i, size_t which)
{
    static const char *const words[] = {"skip", "failed", "all"};
    int64_t at_ms = FIRST_MS + (int64_t)i * DAY_MS;
    bool makes = rows[i].makes[which] == 'y';
    char row[80], body[300], want[200], existing[60];

    snprintf(row, sizeof(row), "%s, --existing %s", rows[i].name, words[which]);
    check_row(row);
    snprintf(body, sizeof(body),
             "{\"schedule\": 1, \"from_ms\": %lld, \"to_ms\": %lld, \"order\": \"oldest\", "
             "\"existing\": \"%s\", \"max_active\": 1, \"priority\": -10, \"params\": [], "
             "\"dry_run\": true}",
             (long long)at_ms, (long long)at_ms + 1, words[which]);
    snprintf(want, sizeof(want), "{\"total\":1,\"runs\":%d,\"items\":[", makes);
    check_answer(ask(&bed, POST, "/api/v1/backfills", body), 200, want);
    snprintf(existing, sizeof(existing), "\"existing\":\"%s\"", rows[i].existing);
    check_answer(ask(&bed, POST, "/api/v1/backfills", body), 200, existing);
}

/* ---- a full disk ---- */

static _Atomic bool is_full;

static ssize_t write_unless_full(int fd, const void *p, size_t n)
{
    struct stat file;

    if (is_full && fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
        errno = ENOSPC;
        return -1;
    }
    return fr_sys_real.write(fd, p, n);
}

static int64_t later_mono_ms(void)
{
    return fr_sys_real.mono_ms() + 61000;
}

static bool has_run(struct host_bed *b, const char *arg)
{
    (void)arg;
    return count_runs(b) > 0;
}

static bool is_backfill_over(struct host_bed *b, const char *arg)
{
    struct fr_arena a = {0};
    struct fr_backfill_row row;
    bool over;

    (void)arg;
    CHECK_INT(fr_store_backfill_find(b->st, 1, &a, &row, NULL), FR_OK);
    over = row.state == FR_BACKFILL_OVER;
    fr_arena_finish(&a);
    return over;
}

/* A run that cannot be made for now is made later. With its end the backfill is over. Instants that
 * have a run already are counted, in front of it and behind it. */
static void test_full(void)
{
    char body[300];

    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    put_row(REMOVED, 0);
    put_row(REMOVED, 1);
    put_row(REMOVED, 3);
    check_row("a full disk");
    fr_sys.write = write_unless_full;
    is_full = true;
    begin_log(&bed);
    snprintf(body, sizeof(body),
             "{\"schedule\": 1, \"from_ms\": %lld, \"to_ms\": %lld, \"order\": \"oldest\", "
             "\"existing\": \"skip\", \"max_active\": 1, \"priority\": -10, \"params\": [], "
             "\"dry_run\": false}",
             (long long)FIRST_MS, (long long)(FIRST_MS + 3 * DAY_MS + 1));
    check_answer(ask(&bed, POST, "/api/v1/backfills", body), 201, NULL);
    until(&bed, has_logged, "backfill=1 ");
    fr_print_by(NULL);
    if (!CHECK(has_logged(&bed, "backfill=1 goes on later: ")))
        printf("   %s", bed.logged);
    check_answer(ask(&bed, GET, "/api/v1/backfills", NULL), 200, "\"state\":\"active\"");
    check_row("a disk with room again");
    is_full = false;
    fr_sys.mono_ms = later_mono_ms;
    until(&bed, has_run, NULL);
    check_runs(&bed, "p", "1 running backfill 02-03T02:00");
    check_answer(ask(&bed, GET, "/api/v1/backfills", NULL), 200,
                 "\"total\":4,\"made\":1,\"kept\":2");
    check_row("what is paused already, and what goes on");
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/resume", "{}"), 409,
                 "backfill 1 is active already");
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/pause", "{}"), 202, "\"note\":\"by hand\"");
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/pause", "{}"), 409,
                 "backfill 1 is paused already");
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/resume", "{}"), 202, "\"note\":\"\"");
    check_row("what is over can neither be paused nor go on");
    cancel(&bed, "1");
    until(&bed, is_backfill_over, NULL);
    check_answer(ask(&bed, GET, "/api/v1/backfills", NULL), 200,
                 "\"total\":4,\"made\":1,\"kept\":3");
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/pause", "{}"), 409,
                 "backfill 1 is over already");
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/resume", "{}"), 409,
                 "backfill 1 is over already");
    close_host(&bed);
}

/* More instants that stay as they are than one look passes over, from either end. */
static void test_long(void)
{
    enum { N = 600 };
    char text[400];

    for (int newest = 0; newest < 2; newest++) {
        check_row(newest ? "600 instants, the newest first" : "600 instants");
        reset(&bed);
        set_clock("2028-03-01T01:59Z");
        put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
        begin_host(&bed);
        until(&bed, is_ready, NULL);
        snprintf(text, sizeof(text),
                 "WITH RECURSIVE day(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM day WHERE i < %d) "
                 "INSERT INTO fire(schedule, at_ms, first_ms, count, decision, run, outcome, "
                 "decided_wall) SELECT 1, %lld + i * %lld, 0, 1, 'ran', i + 1, 'succeeded', 0 "
                 "FROM day",
                 N - 1, (long long)FIRST_MS, (long long)DAY_MS);
        sql(text);
        snprintf(text, sizeof(text),
                 "{\"schedule\": 1, \"from_ms\": %lld, \"to_ms\": %lld, \"order\": \"%s\", "
                 "\"existing\": \"skip\", \"max_active\": 1, \"priority\": -3, \"params\": []}",
                 (long long)FIRST_MS, (long long)(FIRST_MS + N * DAY_MS),
                 newest ? "newest" : "oldest");
        check_answer(ask(&bed, POST, "/api/v1/backfills", text), 201, NULL);
        settle_host(&bed);
        snprintf(text, sizeof(text),
                 "{\"items\":[{\"id\":1,\"schedule\":1,\"from_ms\":%lld,\"to_ms\":%lld,\"order\":"
                 "\"%s\",\"existing\":\"skip\",\"max_active\":1,\"priority\":-3,\"state\":\"over\","
                 "\"note\":\"\",\"total\":600,\"made\":0,\"kept\":600,\"made_wall\":18",
                 (long long)FIRST_MS, (long long)(FIRST_MS + N * DAY_MS),
                 newest ? "newest" : "oldest");
        check_answer(ask(&bed, GET, "/api/v1/backfills", NULL), 200, text);
        close_host(&bed);
    }
}

/* Bodies that are refused, of a pipeline that fires once a day. */
static void test_bodies(void)
{
    static const struct {
        long long schedule, from, to; /* days behind the first */
        const char *order, *existing, *params;
        int most, status;
        const char *want;
    } bodies[] = {
        {1, 0, 0, "oldest", "skip", "[]", 1, 400, "from_ms must be below to_ms, max_active at"},
        {1, 1, 0, "oldest", "skip", "[]", 1, 400, "from_ms must be below to_ms, max_active at"},
        {1, 0, 1, "oldest", "skip", "[]", 0, 400, "from_ms must be below to_ms, max_active at"},
        {1, 0, 1, "eldest", "skip", "[]", 1, 400, "order must be oldest or newest, existing skip"},
        {1, 0, 1, "oldest", "none", "[]", 1, 400, "order must be oldest or newest, existing skip"},
        {1, 0, 1, "oldest", "skip", "{}", 1, 400, "priority and params, a list"},
        {1, 0, 1, "oldest", "skip", "[1]", 1, 400, "params must be a list of"},
        {1, 0, 1, "oldest", "skip", "[true]", 1, 400, "params must be a list of"},
        {9, 0, 1, "oldest", "skip", "[]", 1, 404, "there is no schedule 9"},
        {1, 0, 10001, "oldest", "skip", "[]", 1, 400,
         "fires 10001 times from from_ms to to_ms; a backfill makes 1 to 10000 runs"},
        {1, 0, 10000, "oldest", "skip", "[]", 1, 200, "{\"total\":10000,\"runs\":"},
    };
    char body[400];

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        check_row(bodies[i].want);
        snprintf(body, sizeof(body),
                 "{\"schedule\": %lld, \"from_ms\": %lld, \"to_ms\": %lld, \"order\": \"%s\", "
                 "\"existing\": \"%s\", \"max_active\": %d, \"priority\": 0, \"params\": %s, "
                 "\"dry_run\": true}",
                 bodies[i].schedule, (long long)FIRST_MS + bodies[i].from * DAY_MS,
                 (long long)FIRST_MS + bodies[i].to * DAY_MS, bodies[i].order, bodies[i].existing,
                 bodies[i].most, bodies[i].params);
        check_answer(ask(&bed, POST, "/api/v1/backfills", body), bodies[i].status, bodies[i].want);
    }
    check_row("no instant at all");
    snprintf(body, sizeof(body),
             "{\"schedule\": 1, \"from_ms\": %lld, \"to_ms\": %lld, \"order\": \"oldest\", "
             "\"existing\": \"skip\", \"max_active\": 1, \"priority\": 0, \"params\": []}",
             (long long)FIRST_MS + 1, (long long)FIRST_MS + 2);
    check_answer(ask(&bed, POST, "/api/v1/backfills", body), 400, "fires 0 times from");
}

static bool is_paused(struct host_bed *b, const char *arg)
{
    struct fr_arena a = {0};
    struct fr_backfill_row row;
    bool yes;

    CHECK_INT(fr_store_backfill_find(b->st, strtoll(arg, NULL, 10), &a, &row, NULL), FR_OK);
    yes = row.state == FR_BACKFILL_PAUSED;
    fr_arena_finish(&a);
    return yes;
}

/* What an operator gives as a parameter names no file outside of the folders, also when the run is
 * made later; an administrator's may. */
static void test_fence(void)
{
    static struct fr_api_caller caller = {FR_ROLE_OPERATE, "ci", "10.0.0.1", ""};
    static const char refused[] = "is no file that a token of role operate may name";
    struct fr_arena a = {0};
    struct fr_backfill_row row;
    char body[400];

    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    write_pipeline(&bed, "n", "nodes: [{name: n1}]\n");
    write_pipeline(&bed, "p",
                   "name: p\nparams: {n: {default: n.yaml}}\nnodes: \"${{ params.n }}\"\n"
                   "schedule: {cron: \"0 2 * * *\"}\ntasks: {a: {run: x}}\n");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    snprintf(body, sizeof(body),
             "{\"schedule\": 1, \"from_ms\": %lld, \"to_ms\": %lld, \"order\": \"oldest\", "
             "\"existing\": \"skip\", \"max_active\": 1, \"priority\": 0, \"params\": "
             "[\"n=/nonexistent/nodes.yaml\"]}",
             (long long)FIRST_MS, (long long)FIRST_MS + 1);
    bed.caller = &caller;
    check_row("a backfill of an operator");
    check_answer(ask(&bed, POST, "/api/v1/backfills", body), 201, NULL);
    until(&bed, is_paused, "1");
    CHECK_INT(fr_store_backfill_find(bed.st, 1, &a, &row, NULL), FR_OK);
    if (!CHECK(strstr(row.note, refused) != NULL))
        printf("   %s\n", row.note);
    check_row("a backfill of an administrator");
    caller.role = FR_ROLE_ADMIN;
    check_answer(ask(&bed, POST, "/api/v1/backfills", body), 201, NULL);
    bed.caller = NULL;
    until(&bed, is_paused, "2");
    CHECK_INT(fr_store_backfill_find(bed.st, 2, &a, &row, NULL), FR_OK);
    if (!CHECK(strstr(row.note, refused) == NULL && strstr(row.note, "nodes.yaml") != NULL))
        printf("   %s\n", row.note);
    fr_arena_finish(&a);
    close_host(&bed);
}

static int64_t runs_wanted;

static bool has_runs(struct host_bed *b, const char *arg)
{
    (void)arg;
    return count_runs(b) >= runs_wanted;
}

/* Days of backfill no, which has no instant with a run yet. */
static void make_backfill(int days, int most)
{
    char body[300];

    snprintf(body, sizeof(body),
             "{\"schedule\": 1, \"from_ms\": %lld, \"to_ms\": %lld, \"order\": \"oldest\", "
             "\"existing\": \"skip\", \"max_active\": %d, \"priority\": 2, \"params\": []}",
             (long long)FIRST_MS, (long long)(FIRST_MS + days * DAY_MS), most);
    check_answer(ask(&bed, POST, "/api/v1/backfills", body), 201, NULL);
}

static bool has_ended(struct host_bed *b, const char *arg)
{
    return is_over(b, arg);
}

static bool makes_nothing(struct host_bed *b, const char *arg)
{
    (void)arg;
    for (const struct host_job *job = b->host->jobs.first; job != NULL; job = job->next)
        if (!job_over(job))
            return false;
    return true;
}

static sem_t may_open;

/* The thread that makes the backfill's run gets its pipeline once the test says so. */
static int open_when_told(const char *path, int flags, mode_t mode)
{
    if (strstr(path, "/pipelines/p.yaml") != NULL) {
        while (sem_wait(&may_open) != 0)
            CHECK_INT(errno, EINTR);
        sem_post(&may_open);
    }
    return fr_sys_real.open(path, flags, mode);
}

/* A backfill whose first run gets its pipeline once another run, the second one, is made. */
static void make_overtaken(int days, int most)
{
    CHECK_INT(sem_init(&may_open, 0, 0), 0);
    fr_sys.open = open_when_told;
    make_backfill(days, most);
    runs_wanted = 2;
    until(&bed, has_runs, NULL);
    sem_post(&may_open);
    until(&bed, makes_nothing, NULL);
    fr_sys.open = fr_sys_real.open;
    sem_destroy(&may_open);
    settle_host(&bed);
}

/* A backfill waits until the queue has room, also when another run takes the last place as its own
 * is made. */
static void test_full_queue(void)
{
    static const char other[] = "name: q\ntasks: {a: {run: x}}\n";
    struct fr_config config = {.limits = {.max_active_runs = 1, .max_queued = 1}};
    bool again = false;
    struct fr_api_waiter waiter = {.again = on_again, .arg = &again};
    struct fr_api_request req = {.method = POST,
                                 .path = "/api/v1/runs",
                                 .content_type = "application/json",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = "",
                                 .waiter = &waiter};
    struct fr_api_response res = {0};
    char path[300];

    reset(&bed);
    snprintf(path, sizeof(path), "%s/q.yaml", bed.home);
    CHECK_INT(fr_file_write(path, other, sizeof(other) - 1, 0600, NULL), FR_OK);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    submit(&bed, "q.yaml", 1, "", "running");
    check_row("a run takes the last place of the queue before one of a backfill does");
    snprintf(bed.body, sizeof(bed.body), "{\"pipeline\": \"%s\", \"cwd\": \"/\"}", path);
    req.body = fr_str_of(bed.body);
    bed.api.answer(bed.api.self, &req, &res);
    CHECK_INT(res.status, FR_API_LATER);
    make_overtaken(3, 3);
    check_states(&bed, 1, "1 running, 2 queued (not started)");
    check_row("a place gets free");
    cancel(&bed, "1");
    runs_wanted = 3;
    until(&bed, has_runs, NULL);
    settle_host(&bed);
    check_states(&bed, 1, "1 cancelled, 2 running, 3 queued (not started)");
    check_row("and again");
    cancel(&bed, "2");
    runs_wanted = 4;
    until(&bed, has_runs, NULL);
    check_states(&bed, 1, "1 cancelled, 2 cancelled, 3 running, 4 queued (not started)");
    check_runs(&bed, "p", "3 running backfill 02-01T02:00, 4 queued backfill 02-02T02:00");
    check_row("what waits is cancelled");
    check_answer(ask(&bed, POST, "/api/v1/runs/4/cancel", "{}"), 202, NULL);
    until(&bed, has_ended, "4");
    runs_wanted = 5;
    until(&bed, has_runs, NULL);
    check_runs(&bed, "p",
               "3 running backfill 02-01T02:00, 4 cancelled backfill 02-02T02:00, 5 queued "
               "backfill 02-03T02:00");
    check_answer(ask(&bed, GET, "/api/v1/backfills", NULL), 200, "\"total\":3,\"made\":3,");
    bed.api.forget(bed.api.self, &waiter);
    fr_api_response_finish(&res);
    close_host(&bed);
}

/* As many as may be live; of one that is cancelled those that wait are, too. */
static void test_cancel(void)
{
    struct fr_arena a = {0};
    struct reader r = {0};
    struct fr_run_row row;

    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    write_pipeline(&bed, "p",
                   "name: p\nmax_active_runs: 1\nschedule: {cron: \"0 2 * * *\"}\n"
                   "tasks: {a: {run: x}}\n");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    check_row("two of three instants: one runs, one waits");
    runs_wanted = 2;
    make_backfill(3, 2);
    until(&bed, has_runs, NULL);
    settle_host(&bed);
    check_runs(&bed, "p", "1 running backfill 02-01T02:00, 2 queued backfill 02-02T02:00");
    check_fires(&bed, "p", "ran 02-01T02:00 run 1, ran 02-02T02:00 run 2");
    CHECK_INT(fr_store_run_find(bed.st, "2", &a, &row, NULL), FR_OK);
    CHECK_INT(row.priority, 2);
    CHECK_INT(row.backfill, 1);
    CHECK_TEXT(row.who, "default");
    check_answer(ask(&bed, GET, "/api/v1/backfills", NULL), 200,
                 "\"state\":\"active\",\"note\":\"\",\"total\":3,\"made\":2,\"kept\":0,");
    check_row("it is cancelled");
    CHECK_INT(follow(&bed, &r, "2", ""), 200);
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/cancel", "{}"), 202,
                 "\"state\":\"cancelled\"");
    turn_until_over(&bed, "2");
    check_runs(&bed, "p", "1 running backfill 02-01T02:00, 2 cancelled backfill 02-02T02:00");
    CHECK(has(&r, "its backfill was cancelled"));
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/cancel", "{}"), 409,
                 "1 is cancelled already");
    check_answer(ask(&bed, POST, "/api/v1/backfills/1/resume", "{}"), 409,
                 "1 is cancelled already");
    check_answer(ask(&bed, POST, "/api/v1/backfills/2/cancel", "{}"), 404, "2");
    check_row("one ends, and the next one is made");
    cancel(&bed, "1");
    make_backfill(3, 2);
    runs_wanted = 4;
    until(&bed, has_runs, NULL);
    settle_host(&bed);
    CHECK_INT(count_runs(&bed), 4);
    cancel(&bed, "3");
    runs_wanted = 5;
    until(&bed, has_runs, NULL);
    check_runs(&bed, "p",
               "1 cancelled backfill 02-01T02:00, 2 cancelled backfill 02-02T02:00, "
               "3 cancelled backfill 02-01T02:00, 4 running backfill 02-02T02:00, "
               "5 queued backfill 02-03T02:00");
    fr_arena_finish(&a);
    close_host(&bed);
}

/* ---- a run that was not made ---- */

/* What may be better in a minute is tried then; for the rest somebody has to look. */
static void test_not_made(void)
{
    static const struct {
        enum fr_rc rc;
        bool issue;
        const char *note; /* of the backfill, which is paused; NULL: it goes on later */
    } results[] = {{FR_NOMEM, false, NULL},  {FR_BUSY, false, NULL},
                   {FR_FULL, false, NULL},   {FR_IO, true, NULL},
                   {FR_USAGE, false, "why"}, {FR_USAGE, true, "p.yaml:1:1: x"}};
    const char *lines[] = {"p.yaml:1:1: x"};
    struct fr_arena arena = {0};

    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        int64_t *due_ms = &schedules_of(bed.host)->backfill_due_ms, before;
        struct fr_issues issues = {.lines = lines, .n = results[i].issue};
        struct host_backfill b = {.host = bed.host, .id = (int64_t)i + 1};
        struct fr_backfill_row row;
        struct fr_err err = {0};

        check_row(fr_rc_name(results[i].rc));
        make_backfill(2, 1);
        CHECK_INT(fr_store_backfill_find(bed.st, b.id, &arena, &row, NULL), FR_OK);
        b.cursor_ms = row.cursor_ms;
        (void)fr_fail(&err, results[i].rc, "why");
        *due_ms = INT64_MAX;
        before = fr_sys.mono_ms();
        of_backfill.over(&b, &issues, &err);
        CHECK_INT(fr_store_backfill_find(bed.st, b.id, &arena, &row, NULL), FR_OK);
        CHECK_INT(row.state, results[i].note != NULL ? FR_BACKFILL_PAUSED : FR_BACKFILL_ACTIVE);
        if (results[i].note != NULL) {
            CHECK_TEXT(row.note, results[i].note);
            CHECK(*due_ms == INT64_MAX);
        } else {
            CHECK(*due_ms >= before + 60000 && *due_ms <= fr_sys.mono_ms() + 60000);
        }
    }
    fr_arena_finish(&arena);
    close_host(&bed);
}

int main(void)
{
    size_t n = sizeof(rows) / sizeof(rows[0]);

    make_home(bed.home);
    fr_sys.wall_ms = bed_wall_ms;
    reset(&bed);
    set_clock("2026-03-01T01:59Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    for (size_t i = 0; i < n; i++)
        put_row(i, (int)i);
    for (size_t i = 0; i < n; i++)
        for (size_t which = 0; which < 3; which++)
            check_cell(i, which);
    test_bodies();
    close_host(&bed);
    test_fence();
    test_cancel();
    test_full_queue();
    test_not_made();
    test_long();
    test_full();
    fr_sys = fr_sys_real;
    fr_arena_finish(&bed.arena);
    remove_home(bed.home);
    return check_done();
}
