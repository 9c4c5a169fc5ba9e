/* How long runs are driven, what a store that takes nothing means for requests, and lists, logs and
 * streams at their limits. */
#include "engine/runs/state.h"
#include "tests/unit/host/host_bed.h"

#include <sys/stat.h>

static struct host_bed bed = HOST_BED;

/* ---- a clock that the test moves ---- */

/* The clocks move by pass() alone: neither a disk nor a busy machine does it. */
static int64_t begin_mono_ms, begin_wall_ms, shift_ms, wall_jump_ms;

static int64_t shifted_mono_ms(void)
{
    return begin_mono_ms + shift_ms;
}

static int64_t shifted_wall_ms(void)
{
    return begin_wall_ms + shift_ms + wall_jump_ms;
}

static void pass(int64_t ms)
{
    shift_ms += ms;
    settle_host(&bed);
}

static bool is_driven(const char *run)
{
    char path[60];

    snprintf(path, sizeof(path), "/api/v1/runs/%s", run);
    return has_answer(&bed, path, "\"driven\":true");
}

/* A run of others is driven while it is followed, and five seconds longer; the real clock goes on
 * beside ours, so 3 s are surely less and 5.1 surely more. */
static void test_park(void)
{
    struct reader r = {0}, all = {0};

    open_host(&bed);
    check_row("nobody comes");
    submit(&bed, "p.yaml", 1, "", "running");
    pass(3000);
    CHECK(is_driven("1"));
    pass(2100);
    CHECK(!is_driven("1"));
    check_row("a follower, and a while behind it");
    submit(&bed, "p.yaml", 2, "", "running");
    CHECK_INT(follow(&bed, &r, "2", ""), 200);
    pass(6000);
    CHECK(is_driven("2"));
    bed.api.gone(bed.api.self, r.s);
    pass(3000);
    CHECK(is_driven("2"));
    pass(2100);
    CHECK(!is_driven("2"));
    check_row("it was followed before it came again");
    CHECK_INT(follow(&bed, &r, "2", ""), 200);
    check_answer(ask(&bed, POST, "/api/v1/runs/2/resume", "{}"), 202, NULL);
    pass(6000);
    CHECK(is_driven("2"));
    bed.api.gone(bed.api.self, r.s);
    check_row("a stream of all runs follows none");
    CHECK_INT(follow(&bed, &all, "", ""), 200);
    submit(&bed, "p.yaml", 3, "", "running");
    pass(6000);
    CHECK(!is_driven("3"));
    submit(&bed, "p.yaml", 4, "", "running");
    check_row("a host that stays");
    fr_host_stay(bed.host);
    submit(&bed, "p.yaml", 5, "", "running");
    pass(60000);
    CHECK(is_driven("5"));
    check_row("");
    close_host(&bed);
    fr_buf_finish(&r.got);
    fr_buf_finish(&all.got);
}

/* A cancelled run is driven until its end, followed or not: its hook waits for a node. */
static void test_cancelled(void)
{
    static const char hook[] = "name: h\n"
                               "tasks: {one: {run: 'true'}}\n"
                               "on_exit: [{name: e, run: 'true'}]\n";

    put_file(bed.home, "h.yaml", hook);
    open_host(&bed);
    submit(&bed, "h.yaml", 6, "", "running");
    check_answer(ask(&bed, POST, "/api/v1/runs/6/cancel", "{}"), 202, NULL);
    pass(60000);
    CHECK(!is_over(&bed, "6"));
    CHECK(is_driven("6"));
    close_host(&bed);
}

/* ---- a store that takes nothing ---- */

static bool refuses;
static int tries;
static int64_t slow_ms; /* how long the next commit takes */

static int on_commit(void *arg)
{
    (void)arg;
    shift_ms += slow_ms;
    slow_ms = 0;
    tries += refuses;
    return refuses;
}

static int on_open(sqlite3 *db, char **err, const struct sqlite3_api_routines *routines)
{
    (void)err, (void)routines;
    sqlite3_commit_hook(db, on_commit, NULL);
    return SQLITE_OK;
}

static int count(const struct reader *r, const char *text)
{
    int n = 0;

    for (const char *at = r->got.p; at != NULL && (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* What is not written is not granted, is tried again once a second, and is said once. */
static void test_refused(void)
{
    struct reader r = {0};

    sqlite3_auto_extension((void (*)(void))on_open);
    open_host(&bed);
    submit(&bed, "p.yaml", 7, "", "running");
    CHECK_INT(follow(&bed, &r, "7", ""), 200);
    settle_host(&bed);
    refuses = true;
    check_answer(ask(&bed, POST, "/api/v1/runs/7/cancel", "{}"), 507, "cannot be written now");
    tries = 0;
    settle_host(&bed);
    CHECK_INT(tries, 0);
    pass(1100);
    CHECK_INT(tries, 1);
    pass(1100);
    CHECK_INT(tries, 2);
    CHECK(!is_over(&bed, "7"));
    CHECK_INT(count(&r, "the state cannot be written"), 1);
    CHECK_INT(count(&r, "can be written again"), 0);
    refuses = false;
    pass(1100);
    settle_host(&bed);
    CHECK(is_over(&bed, "7"));
    CHECK_INT(count(&r, "can be written again"), 1);
    CHECK_INT(count(&r, "\"outcome\":\"cancelled\""), 1);
    check_row("the next request is granted at once");
    submit(&bed, "p.yaml", 8, "", "running");
    check_answer(ask(&bed, POST, "/api/v1/runs/8/cancel", "{}"), 202, NULL);
    check_row("a node is given up only once that is written");
    submit(&bed, "p.yaml", 9, "", "running");
    settle_host(&bed);
    check_answer(ask(&bed, POST, "/api/v1/runs/9/resume", "{\"abandon\": [\"local\", \"none\"]}"),
                 400, "none");
    submit(&bed, "p.yaml", 10, "", "running");
    settle_host(&bed);
    refuses = true;
    check_answer(ask(&bed, POST, "/api/v1/runs/10/resume", "{\"abandon\": [\"local\"]}"), 507,
                 NULL);
    refuses = false;
    pass(1100);
    check_row("");
    sqlite3_cancel_auto_extension((void (*)(void))on_open);
    close_host(&bed);
    fr_buf_finish(&r.got);
}

/* A slow disk is named as what it is, and the longest turn is kept. */
static void test_slow_commit(int no)
{
    struct reader r = {0};
    struct fr_api_response res;
    const char *at;

    check_row("a slow commit");
    sqlite3_auto_extension((void (*)(void))on_open);
    open_host(&bed);
    CHECK_INT(follow(&bed, &r, "", ""), 200);
    submit(&bed, "p.yaml", no, "", "running");
    settle_host(&bed);
    slow_ms = 2500;
    submit(&bed, "p.yaml", no + 1, "", "running");
    turn_until(&bed, &r, "this home's host was held up for ");
    CHECK(has(&r, "mostly by a commit of the store ("));
    res = ask(&bed, GET, "/api/v1/host", NULL);
    at = strstr(res.body.p, "\"longest_ms\":");
    CHECK(at != NULL && strtoll(at + 13, NULL, 10) == 2500);
    CHECK(strstr(res.body.p, "\"held_by\":\"a commit of the store\"") != NULL);
    fr_api_response_finish(&res);
    sqlite3_cancel_auto_extension((void (*)(void))on_open);
    close_host(&bed);
    fr_buf_finish(&r.got);
    check_row("");
}

/* ---- limits of requests ---- */

static void sql(const char *text)
{
    sqlite3 *db = NULL;
    char path[300];

    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    CHECK_INT(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

#define ATTEMPT                                                                                    \
    "INSERT INTO attempt (id, run, idx, no, generation, node, rank, home_id, state, log, "         \
    "started_wall, ended_wall) SELECT x'%s', id, 0, 1, 1, 'local', 0, x'%s', '%s', '%s', 1, %d "   \
    "FROM run WHERE no = %d"
#define FIRST "000000000000000000000000000000a1"
#define SECOND "000000000000000000000000000000a2"

static void add_attempt(const char *id, const char *log, int ended, int run)
{
    char text[600];

    snprintf(text, sizeof(text), ATTEMPT, id, "000000000000000000000000000000b1",
             ended != 0 ? "succeeded" : "running", log, ended, run);
    sql(text);
}

static void check_range(const char *path, const char *range, int status, uint64_t bytes)
{
    struct fr_api_response res = {0};
    struct fr_api_request req = {.method = GET,
                                 .path = path,
                                 .content_type = "",
                                 .range = range,
                                 .if_none_match = "",
                                 .last_event_id = ""};

    check_row(range);
    bed.api.answer(bed.api.self, &req, &res);
    CHECK_INT(res.status, status);
    CHECK_INT(res.bytes, bytes);
    fr_api_response_finish(&res);
    check_row("");
}

/* A log is one of its own run, and a file. */
static void test_logs(void)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;
    struct fr_buf dir = {0};
    char path[400], other[400];

    open_host(&bed);
    submit(&bed, "p.yaml", 11, "", "running");
    CHECK_INT(fr_store_run_find(bed.st, "11", &arena, &row, NULL), FR_OK);
    fr_home_at(bed.home, FR_HOME_RUN, row.id, &dir);
    mkdir(dir.p, 0700);
    snprintf(path, sizeof(path), "%s/a.log", dir.p);
    CHECK_INT(fr_file_write(path, "0123456789", 10, 0600, NULL), FR_OK);
    snprintf(other, sizeof(other), "%s/b.log", dir.p);
    CHECK_INT(symlink(path, other), 0);
    add_attempt(FIRST, "a.log", 1, 11);
    add_attempt(SECOND, "b.log", 1, 11);
    check_range("/api/v1/runs/11/attempts/" FIRST "/log", "", 200, 10);
    check_range("/api/v1/runs/11/attempts/" FIRST "/log", "bytes=2-4", 206, 3);
    check_range("/api/v1/runs/11/attempts/" FIRST "/log", "bytes=20-", 416, 0);
    check_answer(ask(&bed, GET, "/api/v1/runs/11/attempts/" OTHER "/log", NULL), 404, "no such");
    struct fr_api_response res = ask(&bed, GET, "/api/v1/runs/11/attempts/" SECOND "/log", NULL);
    CHECK(res.status >= 400);
    fr_api_response_finish(&res);
    fr_buf_finish(&dir);
    fr_arena_finish(&arena);
    close_host(&bed);
}

/* A run of a flowrun inside a task is not queued while that task lives, also if it comes again. */
static void test_nested(void)
{
    static const char one[] = "name: g\nmax_active_runs: 1\ntasks: {one: {run: 'true'}}\n";
    char more[200], again[240];

    put_file(bed.home, "g.yaml", one);
    open_host(&bed);
    submit(&bed, "g.yaml", 12, "", "running");
    add_attempt("000000000000000000000000000000c1", "c.log", 0, 12);
    add_attempt("000000000000000000000000000000c2", "d.log", 1, 12);
    snprintf(
        more, sizeof(more),
        ", \"parent_run\": \"%032x\", \"parent_attempt\": \"000000000000000000000000000000c1\"",
        0xabc000 + 12);
    submit(&bed, "g.yaml", 13, more, "running");
    cancel(&bed, "13");
    settle_host(&bed);
    snprintf(again, sizeof(again), "{\"retry\": true%s}", more);
    check_answer(ask(&bed, POST, "/api/v1/runs/13/resume", again), 202, "\"state\":\"running\"");
    check_row("its task has ended");
    more[strlen(more) - 2] = '2';
    submit(&bed, "g.yaml", 14, more, "queued");
    check_row("");
    close_host(&bed);
}

static void test_limits(void)
{
    struct fr_buf many = {0};
    struct fr_api_response res;
    struct reader r = {0}, ahead = {0};
    char last[40];

    open_host(&bed);
    check_answer(ask(&bed, GET, "/api/v1/runs?limit=201", NULL), 400, "'limit' must be 1 to 200");
    check_answer(ask(&bed, GET, "/api/v1/runs?before=-1", NULL), 400, "a whole number, not '-1'");
    res = ask(&bed, GET, "/api/v1/runs?limit=200", NULL);
    CHECK(strstr(res.body.p, "\"next\"") == NULL);
    fr_api_response_finish(&res);
    check_answer(ask(&bed, POST, "/api/v1/runs/1/pin", "{\"pinned\": true}"), 200,
                 "\"pinned\":true");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/pin", "{\"pinned\": false}"), 200,
                 "\"pinned\":false");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/pin", "{\"pinned\": true, \"x\": 1}"), 400,
                 "the body must be");
    for (int i = 0; i < 65; i++)
        fr_buf_text(&many, ",1");
    CHECK_INT(follow(&bed, &r, many.p + 1, ""), 400);
    fr_buf_finish(&many);
    check_row("a number that no event had");
    CHECK_INT(follow(&bed, &r, "1", ""), 200);
    snprintf(last, sizeof(last), "%ld.99999", strtol(strstr(r.got.p, "\"epoch\":") + 8, NULL, 10));
    CHECK_INT(follow(&bed, &ahead, "1", last), 200);
    CHECK(has(&ahead, "event: reset"));
    bed.api.gone(bed.api.self, r.s);
    bed.api.gone(bed.api.self, ahead.s);
    fr_buf_finish(&r.got);
    fr_buf_finish(&ahead.got);
    check_row("a submit again, of a run that is over");
    make_body(&bed, ID, "");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, NULL);
    check_answer(ask(&bed, POST, "/api/v1/runs/" ID "/resume", "{\"retry\": true}"), 409,
                 "is still going on");
    cancel(&bed, ID);
    settle_host(&bed);
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 200, "\"state\":\"over\"");
    check_row("a retry");
    check_answer(ask(&bed, POST, "/api/v1/runs/" ID "/resume", "{\"retry\": true}"), 202,
                 "\"state\":\"running\"");
    check_answer(ask(&bed, POST, "/api/v1/runs/" ID "/cancel", "{}"), 202, NULL);
    check_row("");
    close_host(&bed);
}

/* ---- what wakes the host ---- */

/* By the list, which is answered at once and turns nothing. */
static bool is(const char *run, const char *text)
{
    char path[60], *end;
    struct fr_api_response res;
    bool yes;

    snprintf(path, sizeof(path), "/api/v1/runs?before=%d", (int)strtol(run, NULL, 10) + 1);
    res = ask(&bed, GET, path, NULL);
    if (res.body.p != NULL && (end = strchr(res.body.p, '}')) != NULL)
        *end = '\0';
    yes = res.body.p != NULL && strstr(res.body.p, text) != NULL;
    fr_api_response_finish(&res);
    return yes;
}

/* Turns the host, which nothing but itself wakes, until the run is so. */
static void wait_until(const char *run, const char *text)
{
    while (!is(run, text) && turn_host(&bed))
        ;
}

static void submit_at(int no, int64_t in_ms)
{
    char more[80];

    snprintf(more, sizeof(more), ", \"not_before_wall\": %lld",
             (long long)(fr_sys.wall_ms() + in_ms));
    submit(&bed, "p.yaml", no, more, "queued");
}

static void test_wakes(int no)
{
    char run[4][12];

    for (int i = 0; i < 4; i++)
        snprintf(run[i], sizeof(run[i]), "%d", no + i);
    open_host(&bed);
    settle_host(&bed);
    check_row("the time of a queued run comes, of another one it does not");
    submit_at(no, 50);
    submit_at(no + 1, 3600000);
    pass(49);
    CHECK(is(run[0], "\"state\":\"queued\""));
    pass(1);
    CHECK(is(run[0], "\"state\":\"running\""));
    check_row("a queued run is parked, too");
    cancel(&bed, run[0]);
    settle_host(&bed);
    shift_ms += 5000;
    wait_until(run[1], "\"driven\":false");
    CHECK(is(run[1], "\"state\":\"queued\""));
    check_row("the clock is set");
    fr_host_stay(bed.host);
    submit_at(no + 2, 3600000);
    settle_host(&bed);
    wall_jump_ms = 3600000;
    pass(61000);
    CHECK(is(run[2], "\"state\":\"running\""));
    wall_jump_ms = 0;
    cancel(&bed, run[2]);
    check_row("");
    close_host(&bed);
}

/* A queued run whose limit has room again under a host that did not know it. */
static void test_resumed(int no)
{
    char run[2][12], path[60];

    snprintf(run[0], sizeof(run[0]), "%d", no);
    snprintf(run[1], sizeof(run[1]), "%d", no + 1);
    open_host(&bed);
    cancel(&bed, "12");
    cancel(&bed, "13");
    cancel(&bed, "14");
    submit(&bed, "g.yaml", no, "", "running");
    submit(&bed, "g.yaml", no + 1, "", "queued");
    close_host(&bed);
    open_host(&bed);
    cancel(&bed, run[0]);
    close_host(&bed);
    open_host(&bed);
    snprintf(path, sizeof(path), "/api/v1/runs/%s/resume", run[1]);
    check_answer(ask(&bed, POST, path, "{}"), 202, NULL);
    settle_host(&bed);
    CHECK(is(run[1], "\"state\":\"running\""));
    cancel(&bed, run[1]);
    close_host(&bed);
}

static void test_counts(int no)
{
    static const char two[] = "name: n\n"
                              "nodes: [{name: n1, executor: local}, {name: n2, executor: local}]\n"
                              "tasks: {one: {on: all, run: 'true'}}\n";
    char path[300], run[12];

    put_file(bed.home, "n.yaml", two);
    open_host(&bed);
    submit(&bed, "n.yaml", no, "", "running");
    snprintf(run, sizeof(run), "%d", no);
    settle_host(&bed);
    snprintf(path, sizeof(path), "/api/v1/runs/%s", run);
    check_answer(ask(&bed, GET, path, NULL), 200, "\"counts\":{\"ready\":2}}]");
    close_host(&bed);
}

/* ---- many changes at once ---- */

enum { MANY = 3000 };

static void test_many(void)
{
    static char text[MANY * 24];
    struct reader r = {0}, late = {0};
    size_t n = (size_t)snprintf(text, sizeof(text), "name: m\nmax_parallel: 4\ntasks:\n");
    char path[300];

    for (int i = 0; i < MANY; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "  t%d: {run: x}\n", i);
    snprintf(path, sizeof(path), "%s/m.yaml", bed.home);
    CHECK_INT(fr_file_write(path, text, n, 0600, NULL), FR_OK);
    open_host(&bed);
    make_body(&bed, OTHER, "");
    memcpy(strstr(bed.body, "p.yaml"), "m.yaml", 6);
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, NULL);
    CHECK_INT(follow(&bed, &r, OTHER, ""), 200);
    settle_host(&bed);
    check_row("readers are told to look at the whole");
    late.queued = 1 << 20;
    CHECK_INT(follow(&bed, &late, OTHER, ""), 200);
    check_answer(ask(&bed, POST, "/api/v1/runs/" OTHER "/cancel", "{}"), 202, NULL);
    turn_until(&bed, &r, "\"outcome\":\"cancelled\"");
    CHECK(has(&r, "event: reset\ndata: {\"run\":"));
    check_row("one that does not read gets the rest when it has read");
    settle_host(&bed);
    CHECK(!has(&late, "\"outcome\":\"cancelled\""));
    late.queued = 0;
    bed.api.drained(bed.api.self, late.s);
    CHECK(has(&late, "\"outcome\":\"cancelled\""));
    check_row("nothing is told twice");
    pass(1000);
    CHECK_INT(count(&r, "\"outcome\":\"cancelled\""), 1);
    check_row("");
    bed.api.gone(bed.api.self, r.s);
    bed.api.gone(bed.api.self, late.s);
    close_host(&bed);
    fr_buf_finish(&r.got);
    fr_buf_finish(&late.got);
}

/* Instances of the run in that state, as the store has them; and whether its row says that a retry
 * resets more of them. */
static size_t count_insts(const char *run, enum fr_state_of state, bool *resets)
{
    struct fr_arena arena = {0};
    struct fr_inst_rows rows = {0};
    struct fr_run_row row = {0};
    size_t n = 0;

    CHECK_INT(fr_store_run_find(bed.st, run, &arena, &row, NULL), FR_OK);
    CHECK_INT(fr_store_insts(bed.st, row.id, &arena, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        n += rows.rows[i].state == state;
    *resets = strstr(row.params, "\"resets\"") != NULL;
    fr_arena_finish(&arena);
    return n;
}

/* Each turn resets a slice of what a retry runs again. A host that is killed between two of them
 * leaves the rest to the next one. */
static void test_retry_slices(void)
{
    size_t left, was = MANY;
    bool resets = true;

    check_row("a retry of many");
    open_host(&bed);
    check_answer(ask(&bed, POST, "/api/v1/runs/" OTHER "/resume", "{\"retry\": true}"), 202, NULL);
    for (int turns = 0; (left = count_insts(OTHER, FR_ST_CANCELLED, &resets)) > MANY / 2; turns++) {
        CHECK(was - left <= FR_SCHED_SLICE && resets);
        was = left;
        if (!CHECK(turns < MANY) || !turn_host(&bed))
            break;
    }
    CHECK_INT(count_insts(OTHER, FR_ST_READY, &resets), 0);
    close_host(&bed);
    check_row("the next host goes on with it");
    open_host(&bed);
    fr_host_stay(bed.host);
    CHECK_INT(fr_host_recover(bed.host, NULL), FR_OK);
    while (count_insts(OTHER, FR_ST_CANCELLED, &resets) > 0 && resets && turn_host(&bed))
        ;
    settle_host(&bed);
    CHECK_INT(count_insts(OTHER, FR_ST_CANCELLED, &resets), 0);
    CHECK(!resets);
    check_answer(ask(&bed, GET, "/api/v1/runs/" OTHER, NULL), 200, "\"state\":\"running\"");
    cancel(&bed, OTHER);
    check_row("");
    close_host(&bed);
}

static int64_t host_of(const char *run)
{
    struct fr_arena arena = {0};
    struct fr_run_row row = {0};

    CHECK_INT(fr_store_run_find(bed.st, run, &arena, &row, NULL), FR_OK);
    fr_arena_finish(&arena);
    return row.host;
}

/* Its host went before it had all output. The next one asks the nodes for ten seconds, followed or
 * not; then who resumes it asks again. */
static void test_unfetched(void)
{
    open_host(&bed);
    submit(&bed, "p.yaml", 23, "", "running");
    submit(&bed, "p.yaml", 24, "", "running");
    cancel(&bed, "23");
    cancel(&bed, "24");
    settle_host(&bed);
    CHECK_INT(host_of("24"), 0);
    add_attempt("000000000000000000000000000000a3", "one@n1.1.log", 1, 24);
    check_answer(ask(&bed, POST, "/api/v1/runs/23/resume", "{}"), 400, "is over");
    sql("UPDATE run SET host = 1 WHERE no IN (23, 24)");
    close_host(&bed);
    open_host(&bed);
    fr_host_fetch(bed.host);
    check_row("a run of which nothing is missing");
    CHECK_INT(host_of("23"), 0);
    check_row("one of which something is");
    CHECK(host_of("24") > 1);
    pass(9900);
    CHECK(host_of("24") > 1);
    check_row("its nodes were not there");
    pass(200);
    CHECK_INT(host_of("24"), 0);
    fr_host_fetch(bed.host);
    CHECK_INT(host_of("24"), 0);
    check_answer(ask(&bed, POST, "/api/v1/runs/24/resume", "{\"file\": \"/x.yaml\"}"), 400,
                 "is over");
    check_row("resumed; a retry need not wait");
    check_answer(ask(&bed, POST, "/api/v1/runs/24/resume", "{}"), 202, NULL);
    CHECK(host_of("24") > 1);
    check_answer(ask(&bed, POST, "/api/v1/runs/24/resume", "{\"retry\": true}"), 202, NULL);
    CHECK(!is_over(&bed, "24"));
    cancel(&bed, "24");
    check_row("a host that ends before it gave up leaves it to the next one");
    sql("UPDATE attempt SET done = 0");
    sql("UPDATE run SET host = 1 WHERE no = 24");
    close_host(&bed);
    open_host(&bed);
    fr_host_fetch(bed.host);
    close_host(&bed);
    open_host(&bed);
    CHECK(host_of("24") > 1);
    check_row("");
    close_host(&bed);
}

int main(void)
{
    make_pipelines(&bed);
    begin_mono_ms = fr_sys.mono_ms();
    begin_wall_ms = fr_sys.wall_ms();
    fr_sys.mono_ms = shifted_mono_ms;
    fr_sys.wall_ms = shifted_wall_ms;
    test_park();
    test_cancelled();
    test_refused();
    test_logs();
    test_nested();
    test_limits();
    test_many();
    test_retry_slices();
    test_wakes(17);
    test_resumed(20);
    test_counts(22);
    test_unfetched();
    test_slow_commit(25);
    check_sound(bed.home);
    remove_home(bed.home);
    return check_done();
}
