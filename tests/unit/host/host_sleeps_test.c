/* A host that has nothing to do sleeps, and knows until when; what it may not write any more, and
 * what cannot be written, it says. */
#include "engine/runs/state.h"
#include "engine/store/lead.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

static const char one[] = "name: g\nmax_active_runs: 1\ntasks: {one: {run: 'true'}}\n";

/* The clocks move by pass() alone. */
static int64_t begin_mono_ms, begin_wall_ms, shift_ms;

static int64_t shifted_mono_ms(void)
{
    return begin_mono_ms + shift_ms;
}

static int64_t shifted_wall_ms(void)
{
    return begin_wall_ms + shift_ms;
}

static void pass(int64_t ms)
{
    shift_ms += ms;
    settle_host(&bed);
}

static void submit_at(int no, int64_t in_ms)
{
    char more[80];

    snprintf(more, sizeof(more), ", \"not_before_wall\": %lld",
             (long long)(fr_sys.wall_ms() + in_ms));
    submit(&bed, "p.yaml", no, more, "queued");
}

/* How long the host has nothing to do but what nodes, callers and attempts bring; -1: for ever. */
static int64_t sleeps_ms(void)
{
    int64_t due = host_commit_due(bed.host), tidy = host_tidy_due(bed.host);

    due = tidy < due ? tidy : due;
    for (const struct host_part *const *p = bed.host->parts; *p != NULL; p++)
        if ((*p)->due != NULL && (*p)->due(bed.host) < due)
            due = (*p)->due(bed.host);
    return due == INT64_MAX ? -1 : due - fr_sys.mono_ms();
}

/* The numbers of queued runs. */
static void check_queue(const char *want)
{
    struct fr_api_response res = ask(&bed, GET, "/api/v1/queue", NULL);
    struct fr_buf got = {0};

    fr_buf_add(&res.body, "", 1);
    for (const char *at = res.body.p; (at = strstr(at, "{\"no\":")) != NULL; at++)
        fr_buf_fmt(&got, "%s%ld", got.n > 0 ? " " : "", strtol(at + 6, NULL, 10));
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
    fr_api_response_finish(&res);
}

static const char *no_variable(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "TOKEN") == 0 ? "planted-secret" : strcmp(name, "WHO") == 0 ? "me" : NULL;
}

/* A host that has nothing to do makes no turn. */
static void test_sleeps(int no)
{
    struct reader r = {0};
    char name[12];

    open_host(&bed);
    settle_host(&bed);
    check_row("nothing to do");
    CHECK_INT(sleeps_ms(), -1);
    check_row("a run that nobody follows");
    submit(&bed, "p.yaml", no, "", "running");
    settle_host(&bed);
    CHECK_INT(sleeps_ms(), 5000);
    pass(2000);
    CHECK_INT(sleeps_ms(), 3000);
    check_row("one that somebody follows, and news of it");
    snprintf(name, sizeof(name), "%d", no);
    CHECK_INT(follow(&bed, &r, name, ""), 200);
    settle_host(&bed);
    CHECK_INT(sleeps_ms(), -1);
    fr_run_say(host_find_no(bed.host, no)->run, "news");
    settle_host(&bed);
    CHECK(has(&r, "news"));
    CHECK_INT(sleeps_ms(), -1);
    check_row("one that waits for its time");
    submit_at(no + 1, 50);
    settle_host(&bed);
    CHECK_INT(sleeps_ms(), 50);
    pass(50);
    CHECK_INT(sleeps_ms(), 4950); /* nobody has followed it since it came */
    bed.api.gone(bed.api.self, r.s);
    close_host(&bed);
    fr_buf_finish(&r.got);
}

/* Of this process, and queued ones. */
static void test_own(int no)
{
    const struct fr_host_own own = {.shell = {.cwd = "/", .getenv = no_variable}};
    struct fr_submit submit_own = {.spec = {.path = "", .cwd = "/"}, .origin = FR_ORIGIN_CLI};
    struct fr_issues issues = {0};
    struct fr_run *run = NULL;
    char path[300], name[12];

    check_row("a run of this process, which nobody follows");
    open_host(&bed);
    snprintf(path, sizeof(path), "%s/p.yaml", bed.home);
    submit_own.spec.path = path;
    CHECK_INT(fr_id_new(&submit_own.id, NULL), FR_OK);
    CHECK_INT(fr_host_submit(bed.host, &submit_own, &own, &run, &issues, NULL), FR_OK);
    pass(60000);
    CHECK_INT(sleeps_ms(), -1);
    CHECK(host_find(bed.host, fr_run_id(run)) != NULL);
    fr_host_drop(bed.host, run);
    fr_issues_finish(&issues);
    check_row("one that waits for another: whether this is still the host is looked at");
    fr_host_stay(bed.host);
    submit(&bed, "g.yaml", no + 1, "", "running");
    submit(&bed, "g.yaml", no + 2, "", "queued");
    settle_host(&bed);
    CHECK_INT(sleeps_ms(), 10000);
    check_row("what waits, in the order of its turn, and why");
    submit(&bed, "g.yaml", no + 3, ", \"priority\": 2", "queued");
    submit(&bed, "g.yaml", no + 4, ", \"priority\": 1", "queued");
    check_queue("6 7 5");
    check_answer(ask(&bed, GET, "/api/v1/queue", NULL), 200,
                 "\"why_waiting\":\"max_active_runs 1 of 1: run 4 of g since ");
    for (int i = 5; i <= 7; i++) {
        snprintf(name, sizeof(name), "%d", i);
        cancel(&bed, name);
    }
    check_row("nothing waits any more");
    pass(20000);
    CHECK_INT(sleeps_ms(), -1);
    check_row("one whose time is days away: the clock may be set meanwhile");
    submit_at(no + 5, 3 * 86400000LL);
    settle_host(&bed);
    CHECK_INT(sleeps_ms(), 10000);
    close_host(&bed);
    check_row("");
}

/* Another host took its place meanwhile: what this one would write of a run it may not. */
static void test_followed(int no)
{
    struct fr_store *other;
    struct fr_err err = {0};
    uint32_t epoch;
    enum fr_rc rc = FR_OK;

    check_row("a run that nobody follows, of a host that another one has followed");
    open_host(&bed);
    submit(&bed, "p.yaml", no, "", "running");
    settle_host(&bed);
    other = open_store(bed.home);
    CHECK_INT(fr_store_lead(other, &epoch, &err), FR_OK);
    shift_ms += 6000;
    for (int i = 0; rc == FR_OK && i < 10; i++) {
        struct fr_timer *timer = NULL;

        CHECK_INT(fr_loop_timer(&bed.loop, nothing, NULL, &timer), FR_OK);
        fr_loop_arm_in(&bed.loop, timer, 0);
        rc = fr_host_turn(bed.host, &err);
        fr_loop_untimer(&bed.loop, &timer);
    }
    CHECK_INT(rc, FR_DENIED);
    fr_store_close(other);
    close_host(&bed);
    check_row("");
}

/* ---- a store that takes nothing ---- */

static bool refuses;

static int on_commit(void *arg)
{
    (void)arg;
    return refuses;
}

static int on_open(sqlite3 *db, char **err, const struct sqlite3_api_routines *routines)
{
    (void)err, (void)routines;
    sqlite3_commit_hook(db, on_commit, NULL);
    return SQLITE_OK;
}

static void test_refused(void)
{
    check_row("a submit whose first rows cannot be written");
    sqlite3_auto_extension((void (*)(void))on_open);
    open_host(&bed);
    settle_host(&bed);
    make_body(&bed, ID, "");
    refuses = true;
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 500, "constraint failed");
    refuses = false;
    check_answer(ask(&bed, GET, "/api/v1/runs/" ID, NULL), 404, NULL);
    pass(2000);
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, NULL);
    check_row("a run that nobody follows, and that cannot be parked");
    pass(3000);
    refuses = true;
    pass(2100);
    CHECK_INT(sleeps_ms(), 5000);
    refuses = false;
    pass(5000);
    CHECK_INT(sleeps_ms(), -1);
    sqlite3_cancel_auto_extension((void (*)(void))on_open);
    close_host(&bed);
    check_row("");
}

static int count(const struct reader *r, const char *text)
{
    int n = 0;

    for (const char *at = r->got.p; at != NULL && (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

enum { MANY = 1200 };

static void write_many(void)
{
    struct fr_buf b = {0};
    char path[300];

    fr_buf_text(&b, "name: m\ntasks:\n");
    for (int i = 0; i < MANY; i++)
        fr_buf_fmt(&b, "  t%d: {run: x}\n", i);
    snprintf(path, sizeof(path), "%s/m.yaml", bed.home);
    CHECK_INT(fr_file_write(path, b.p, b.n, 0600, NULL), FR_OK);
    fr_buf_finish(&b);
}

/* The store takes the first rows of a run, and then nothing for a while: the run is made once it
 * takes the others. */
static void test_half_made(int no)
{
    bool again = false;
    struct fr_api_waiter waiter = {.again = on_again, .arg = &again};
    struct fr_api_request req = {.method = POST,
                                 .path = "/api/v1/runs",
                                 .waiter = &waiter,
                                 .content_type = "application/json",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = ""};
    struct fr_api_response res = {0};
    char run[40];

    check_row("a store that takes half of a run");
    sqlite3_auto_extension((void (*)(void))on_open);
    write_many();
    open_host(&bed);
    snprintf(run, sizeof(run), "%032x", 0xabc000 + no);
    make_body(&bed, run, "");
    memcpy(strstr(bed.body, "p.yaml"), "m.yaml", 6);
    req.body = fr_str_of(bed.body);
    bed.api.answer(bed.api.self, &req, &res);
    CHECK_INT(res.status, FR_API_LATER);
    while (count_rows(&bed, run) == 0 && turn_host(&bed))
        ;
    refuses = true;
    settle_host(&bed);
    refuses = again = false;
    bed.api.answer(bed.api.self, &req, &res);
    CHECK_INT(res.status, FR_API_LATER);
    shift_ms += 1100;
    while (!again && turn_host(&bed))
        ;
    bed.api.answer(bed.api.self, &req, &res);
    CHECK_INT(res.status, 201);
    fr_api_response_finish(&res);
    CHECK_INT(count_rows(&bed, run), MANY);
    sqlite3_cancel_auto_extension((void (*)(void))on_open);
    check_row("");
    close_host(&bed);
}

/* Another process keeps the store to itself: users are told after five seconds, each time. */
static void test_locked(int no)
{
    struct reader r = {0};
    sqlite3 *db = NULL;
    char path[300], run[12];

    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    open_host(&bed);
    submit(&bed, "p.yaml", no, "", "running");
    snprintf(run, sizeof(run), "%d", no);
    CHECK_INT(follow(&bed, &r, run, ""), 200);
    for (int i = 1; i < 3; i++) {
        check_row(i == 1 ? "a locked store" : "locked again");
        submit_at(no + i, 50);
        settle_host(&bed);
        CHECK_INT(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
        pass(50);
        pass(4900);
        CHECK_INT(count(&r, "the state cannot be written"), i - 1);
        pass(200);
        pass(2000);
        CHECK_INT(count(&r, "the state cannot be written"), i);
        CHECK_INT(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        pass(1100);
        CHECK_INT(count(&r, "can be written again"), i);
    }
    check_row("");
    sqlite3_close(db);
    close_host(&bed);
    fr_buf_finish(&r.got);
}

int main(void)
{
    make_pipelines(&bed);
    put_file(bed.home, "g.yaml", one);
    begin_mono_ms = fr_sys.mono_ms();
    begin_wall_ms = fr_sys.wall_ms();
    fr_sys.mono_ms = shifted_mono_ms;
    fr_sys.wall_ms = shifted_wall_ms;
    test_sleeps(1);
    test_own(3);
    test_followed(9);
    test_refused();
    test_half_made(11);
    test_locked(12);
    fr_sys = fr_sys_real;
    remove_home(bed.home);
    return check_done();
}
