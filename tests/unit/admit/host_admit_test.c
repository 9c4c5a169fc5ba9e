/* Which queued runs start: beside runs of their schedule, past one that waits, and when the store
 * cannot be read for a while. */
#include "engine/admit/private.h"
#include "engine/store/lead.h"
#include "engine/store/sql.h"
#include "tests/unit/timetable/schedules_bed.h"

static struct host_bed bed = HOST_BED;

static int64_t ahead_ms;

static int64_t moved_ms(void)
{
    return 1000000 + ahead_ms;
}

static void pass(int64_t ms)
{
    ahead_ms += ms;
    settle_host(&bed);
}

static void sql(const char *text)
{
    char path[400];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (!CHECK_INT(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK))
        printf("   %s\n", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static size_t count(const struct reader *r, const char *text)
{
    size_t n = 0;

    for (const char *at = r->got.p; at != NULL && (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* A host with p.yaml and that schedule; a run that is cancelled goes on with its hook. */
static void begin(const char *overlap, const char *more)
{
    char text[300];

    reset(&bed);
    set_clock("2026-03-01T01:59:00Z");
    snprintf(text, sizeof(text),
             "name: p\n%sschedule: {cron: \"0 2 * * *\", overlap: %s}\ntasks: {a: {run: 'true'}}\n"
             "on_exit: [{name: e, run: 'true'}]\n",
             more, overlap);
    write_pipeline(&bed, "p", text);
    begin_host(&bed);
    until(&bed, is_ready, NULL);
}

/* The instant of that day comes. */
static void come(int day, const char *fires)
{
    char text[40];

    snprintf(text, sizeof(text), "2026-03-%02dT02:00:00Z", day);
    set_clock(text);
    until_fires(&bed, "p", fires);
    settle_host(&bed);
}

/* Run 1 is over; its hooks would wait for a node. */
static void end_first(void)
{
    fr_host_drop(bed.host, host_find_no(bed.host, 1)->run);
    sql("UPDATE run SET state = 'over', outcome = 'cancelled' WHERE no = 1");
}

/* A run that takes the place of the one before cancels that alone, once: not itself, and not one
 * that is newer. */
static void test_cancel_previous(void)
{
    struct reader r = {0};

    begin("cancel_previous", "");
    CHECK_INT(follow(&bed, &r, "", ""), 200);
    check_row("the run before is asked to end");
    come(1, "ran 03-01T02:00 run 1");
    check_runs(&bed, "p", "1 running schedule 03-01T02:00");
    come(2, "ran 03-01T02:00 run 1, ran 03-02T02:00 run 2");
    check_runs(&bed, "p", "1 hooks schedule 03-01T02:00, 2 queued schedule 03-02T02:00");
    CHECK(host_find_no(bed.host, 1)->cancelled);
    CHECK(!host_find_no(bed.host, 2)->cancelled);
    settle_host(&bed);
    CHECK_INT(count(&r, "the next run of its schedule takes its place"), 1);
    check_row("a newer one behind it: the one between is cancelled");
    come(3,
         "ran 03-01T02:00 run 1 cancelled, ran 03-02T02:00 run 2 cancelled, ran 03-03T02:00 run 3");
    check_runs(&bed, "p",
               "1 hooks schedule 03-01T02:00, 2 cancelled schedule 03-02T02:00, "
               "3 queued schedule 03-03T02:00");
    check_row("it is over: the newest starts");
    end_first();
    host_changed(bed.host, HOST_QUEUE);
    settle_host(&bed);
    check_runs(&bed, "p",
               "1 cancelled schedule 03-01T02:00, 2 cancelled schedule 03-02T02:00, "
               "3 running schedule 03-03T02:00");
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
    close_host(&bed);
}

/* Queued runs of a schedule whose instant says that another one took its place, or that it is
 * paused, never start. */
static void test_unwanted(void)
{
    static const struct {
        const char *decision, *runs; /* NULL: the instant has no row any more */
    } rows[] = {
        {NULL, "1 running schedule 03-01T02:00, 2 queued schedule 03-02T02:00"},
        {"superseded", "1 running schedule 03-01T02:00, 2 cancelled schedule 03-02T02:00"},
        {"paused", "1 running schedule 03-01T02:00, 2 cancelled schedule 03-02T02:00"},
        {"ran", "1 running schedule 03-01T02:00, 2 queued schedule 03-02T02:00"},
    };
    char text[120];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin("queue", "");
        come(1, "ran 03-01T02:00 run 1");
        come(2, "ran 03-01T02:00 run 1, ran 03-02T02:00 run 2");
        check_row(rows[i].decision != NULL ? rows[i].decision : "no row");
        snprintf(text, sizeof(text), "UPDATE fire SET decision = '%s' WHERE run = 2",
                 rows[i].decision != NULL ? rows[i].decision : "");
        sql(rows[i].decision != NULL ? text : "DELETE FROM fire WHERE run = 2");
        snprintf(text, sizeof(text), "UPDATE fire SET decision = 'superseded' WHERE run = 1");
        sql(text); /* of another instant */
        host_changed(bed.host, HOST_QUEUE);
        settle_host(&bed);
        settle_host(&bed);
        check_runs(&bed, "p", rows[i].runs);
        close_host(&bed);
    }
}

/* ---- a store that cannot be read ---- */

static bool unreadable;

static int on_progress(void *arg)
{
    (void)arg;
    return unreadable;
}

/* The queue is looked at once, by itself. */
static void look(void)
{
    struct fr_err err = {0};

    CHECK_INT(queue_part.step[HOST_DECIDE](bed.host, &err), FR_OK);
}

static const struct fr_config limit = {.limits = {.max_active_runs = 1}};

static void test_unreadable(void)
{
    struct reader r = {0};

    reset(&bed);
    put_file(bed.home, "p.yaml", pipeline);
    set_clock("2026-03-01T01:59:00Z");
    begin_host(&bed);
    CHECK_INT(fr_host_configure(bed.host, &limit, NULL), FR_OK);
    submit(&bed, "p.yaml", 1, "", "running");
    submit(&bed, "p.yaml", 2, "", "queued");
    submit(&bed, "p.yaml", 3, ", \"priority\": 4", "queued");
    CHECK_INT(follow(&bed, &r, "", ""), 200);
    settle_host(&bed);
    check_row("the store cannot be read");
    fr_sys.mono_ms = moved_ms;
    sqlite3_progress_handler(bed.st->db, 1, on_progress, NULL);
    bed.host->config.limits.max_active_runs = 2;
    queue_part.changed(bed.host, HOST_QUEUE);
    unreadable = true;
    look();
    unreadable = false;
    CHECK_INT(queue_part.due(bed.host), fr_sys.mono_ms() + 1000);
    pass(999);
    check_states(&bed, 1, "1 running, 2 queued (not started), 3 queued (not started)");
    CHECK_INT(count(&r, "\"run\":3,\"wall\""), 1); /* the first of the queue says why */
    CHECK_INT(count(&r, "\"run\":2,\"wall\""), 0);
    check_row("it is read again a second later");
    pass(1);
    check_states(&bed, 1, "1 running, 2 queued (not started), 3 running");
    check_row("it is not looked at where nothing has changed");
    bed.host->config.limits.max_active_runs = 3;
    pass(1000);
    check_states(&bed, 1, "1 running, 2 queued (not started), 3 running");
    check_row("… but as often as it looks whether another host is there");
    pass(9000);
    check_states(&bed, 1, "1 running, 2 running, 3 running");
    check_row("nobody waits: the store is not read");
    unreadable = true;
    queue_part.changed(bed.host, HOST_QUEUE);
    look();
    unreadable = false;
    CHECK_INT(queue_part.due(bed.host), INT64_MAX);
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
}

/* What a run of a schedule has to know cannot be read: it waits, and those behind it do not. */
static void test_unreadable_instant(void)
{
    struct reader r = {0};

    begin("queue", "max_active_runs: 2\n");
    come(1, "ran 03-01T02:00 run 1");
    come(2, "ran 03-01T02:00 run 1, ran 03-02T02:00 run 2");
    CHECK_INT(fr_host_configure(bed.host, &limit, NULL), FR_OK);
    put_file(bed.home, "q.yaml", "name: q\ntasks: {one: {run: 'true'}}\n");
    submit(&bed, "q.yaml", 3, "", "queued");
    CHECK_INT(follow(&bed, &r, "", ""), 200);
    settle_host(&bed);
    check_row("the instants cannot be read");
    fr_sys.mono_ms = moved_ms;
    settle_host(&bed);
    sql("ALTER TABLE fire RENAME TO away");
    bed.host->config.limits.max_active_runs = 9;
    queue_part.changed(bed.host, HOST_QUEUE);
    look();
    CHECK_INT(queue_part.due(bed.host), fr_sys.mono_ms() + 1000);
    sql("ALTER TABLE away RENAME TO fire");
    settle_host(&bed);
    check_states(&bed, 1, "1 running, 2 queued (not started), 3 running");
    CHECK_INT(count(&r, "no such table: fire"), 1);
    check_row("they are read again a second later");
    end_first();
    pass(999);
    check_states(&bed, 1, "1 cancelled, 2 queued (not started), 3 running");
    pass(1);
    check_states(&bed, 1, "1 cancelled, 2 running, 3 running");
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
}

/* One look starts as many as there is room for, in the order of the queue. */
static void test_room(void)
{
    static const struct {
        const char *name;
        int home;         /* limits.max_active_runs then */
        const char *runs; /* 1, 2: of p; 3, 4, 5: of l, of which one may run; 5 is the first */
    } rows[] = {
        {"no room", 1,
         "1 running, 2 queued (not started), 3 queued (not started), 4 queued (not "
         "started), 5 queued (not started)"},
        {"for one", 2,
         "1 running, 2 queued (not started), 3 queued (not started), 4 queued (not "
         "started), 5 running"},
        {"for two: one of l is enough", 3,
         "1 running, 2 running, 3 queued (not started), 4 queued (not started), 5 running"},
        {"for all", 0,
         "1 running, 2 running, 3 queued (not started), 4 queued (not started), 5 running"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reset(&bed);
        put_file(bed.home, "p.yaml", pipeline);
        put_file(bed.home, "l.yaml", "name: l\nmax_active_runs: 1\ntasks: {one: {run: 'true'}}\n");
        open_host(&bed);
        CHECK_INT(fr_host_configure(bed.host, &limit, NULL), FR_OK);
        submit(&bed, "p.yaml", 1, "", "running");
        submit(&bed, "p.yaml", 2, "", "queued");
        submit(&bed, "l.yaml", 3, "", "queued");
        submit(&bed, "l.yaml", 4, "", "queued");
        submit(&bed, "l.yaml", 5, ", \"priority\": 1", "queued");
        settle_host(&bed);
        check_row(rows[i].name);
        bed.host->config.limits.max_active_runs = rows[i].home;
        queue_part.changed(bed.host, HOST_QUEUE);
        look();
            settle_host(&bed);
        check_states(&bed, 1, rows[i].runs);
        close_host(&bed);
    }
}

static bool has_to_wait(const char *name, const char *pool, int most)
{
    const struct fr_spec spec = {.name = name, .pool = pool, .max_active_runs = most};
    bool wait = false;

    CHECK_INT(queue_ask(bed.host, &spec, 0, &wait, NULL), FR_OK);
    return wait;
}

/* Which new runs wait, beside an active one of p in pool gpu and one of l that waits for another.
 */
static void test_ask(void)
{
    struct fr_config config = {
        .limits = {.pools = {{.name = "gpu", .runs = 1}, {.name = "tpu", .runs = 1}},
                   .n_pools = 2}};

    reset(&bed);
    put_file(bed.home, "p.yaml", "name: p\npool: gpu\ntasks: {one: {run: 'true'}}\n");
    put_file(bed.home, "l.yaml", "name: l\nmax_active_runs: 1\ntasks: {one: {run: 'true'}}\n");
    open_host(&bed);
    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    submit(&bed, "p.yaml", 1, "", "running");
    submit(&bed, "l.yaml", 2, "", "running");
    submit(&bed, "l.yaml", 3, "", "queued");
    settle_host(&bed);
    check_row("a pool that is full, and others");
    CHECK(has_to_wait("x", "gpu", 0));
    CHECK(!has_to_wait("x", "tpu", 0));
    CHECK(!has_to_wait("p", NULL, 0));
    CHECK(!has_to_wait("p", NULL, 2));
    CHECK(has_to_wait("p", NULL, 1));
    check_row("one that waits for its pipeline holds up no other");
    CHECK(!has_to_wait("x", NULL, 1));
    check_row("a limit of the home");
    bed.host->config.limits.max_active_runs = 3;
    CHECK(!has_to_wait("x", NULL, 0));
    bed.host->config.limits.max_active_runs = 2;
    CHECK(has_to_wait("x", NULL, 0));
    check_row("what is queued and not driven takes no place");
    bed.host->config.limits.max_active_runs = 3;
    fr_host_drop(bed.host, host_find_no(bed.host, 3)->run);
    CHECK(!has_to_wait("x", NULL, 0));
    check_row("the host is woken");
    bed.host->woken = false;
    queue_part.changed(bed.host, HOST_NODES);
    CHECK(!bed.host->woken);
    queue_part.changed(bed.host, HOST_QUEUE);
    CHECK(bed.host->woken);
    close_host(&bed);
}

/* Another host took the home: this one starts nothing more. */
static void test_followed(void)
{
    struct fr_store *other;
    struct fr_err err = {0};
    uint32_t epoch;

    reset(&bed);
    put_file(bed.home, "l.yaml", "name: l\nmax_active_runs: 1\ntasks: {one: {run: 'true'}}\n");
    open_host(&bed);
    submit(&bed, "l.yaml", 1, "", "running");
    submit(&bed, "l.yaml", 2, "", "queued");
    settle_host(&bed);
    check_row("another host is there");
    other = open_store(bed.home);
    CHECK_INT(fr_store_lead(other, &epoch, &err), FR_OK);
    queue_part.changed(bed.host, HOST_QUEUE);
    CHECK_INT(queue_part.step[HOST_DECIDE](bed.host, &err), FR_DENIED);
    CHECK(strstr(err.msg, "another flowrun became the host") != NULL);
    fr_store_close(other);
    close_host(&bed);
}

int main(void)
{
    make_home(bed.home);
    fr_sys.wall_ms = bed_wall_ms;
    test_cancel_previous();
    test_unwanted();
    test_unreadable();
    test_unreadable_instant();
    test_room();
    test_ask();
    test_followed();
    fr_sys = fr_sys_real;
    fr_arena_finish(&bed.arena);
    remove_home(bed.home);
    return check_done();
}
