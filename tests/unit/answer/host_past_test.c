/* Lists of runs: what the next page is asked for with, what is shown of runs of other tasks, and
 * which runs a reason names. */
#include "engine/view/connection_pool.h"
#include "engine/view/queue.h"
#include "tests/unit/host/host_bed.h"

#include "engine/runs/state.h"
#include "engine/store/occurrences.h"

#include <fcntl.h>

static struct host_bed bed = HOST_BED;

static json_t *ask_doc(const char *path)
{
    struct fr_api_response res = ask(&bed, GET, path, NULL);
    json_t *doc = NULL;

    if (!CHECK_INT(res.status, 200))
        printf("   %s\n", res.body.p);
    CHECK_INT(fr_json_parse((struct fr_str){res.body.p, res.body.n}, "an answer", &doc, NULL),
              FR_OK);
    fr_api_response_finish(&res);
    return doc;
}

static void add_open(int no)
{
    struct fr_run_row row = {.name = "p",
                             .source = "/p.yaml",
                             .state = FR_RUN_RUNNING,
                             .origin = FR_ORIGIN_CLI,
                             .params = "{}",
                             .pool = "",
                             .queued_wall = 1000};

    row.id.b[0] = (uint8_t)no;
    CHECK_INT(fr_store_run_add(bed.st, &row, NULL), FR_OK);
}

/* Ten that go on, of which eight are named, the newest first. */
static void test_reason(void)
{
    const struct fr_limits home_limits = {.max_active_runs = 10};
    struct fr_queue_limits limits = {.home = &home_limits};
    struct fr_run_row row = {.id = {.b = {77}},
                             .name = "q",
                             .pool = "",
                             .origin = FR_ORIGIN_CLI,
                             .outcome = FR_OUT_NONE};
    struct fr_buf got = {0};

    check_row("why a run waits for many");
    for (int no = 1; no <= 10; no++)
        add_open(no);
    CHECK_INT(fr_queue_why(bed.st, &limits, &row, &got, NULL), FR_OK);
#define SINCE " of p since 1970-01-01 00:00"
    CHECK_TEXT(got.p,
               "limits.max_active_runs 10 of 10: run 1" SINCE ", run 2" SINCE ", run 3" SINCE
               ", run 4" SINCE ", run 5" SINCE ", run 6" SINCE ", run 7" SINCE ", run 8" SINCE
               ", …; no flowrun looks after run 1: 'flowrun resume 1' takes over");
    fr_buf_finish(&got);
}

/* ---- what a queued run waits for ---- */

static int64_t now_ms = 1772413200000; /* 2026-03-02T01:00Z */

static int64_t stopped_ms(void)
{
    return now_ms;
}

static void add_active(int no, const char *name, const char *pool, int64_t ago_ms, bool left)
{
    struct fr_run_row row = {.name = name,
                             .source = "/q.yaml",
                             .state = FR_RUN_RUNNING,
                             .origin = FR_ORIGIN_CLI,
                             .params = "{}",
                             .pool = pool,
                             .host = left ? 0 : bed.host->env.epoch,
                             .started_wall = now_ms - ago_ms};

    row.id.b[0] = (uint8_t)(20 + no);
    CHECK_INT(fr_store_run_add(bed.st, &row, NULL), FR_OK);
    CHECK_INT(row.no, no);
}

enum { HOUR_MS = 3600000, DAY_MS = 24 * HOUR_MS };

static const struct fr_schedule queues = {.overlap = FR_OVERLAP_QUEUE, .queue_max = 1};

#define Q "run 11 of q since 00:00"
#define R "run 12 of r since 2026-03-01 01:00"

/* Beside ten runs of p, a run of q and one of r, both in a pool. */
static const struct {
    const char *name, *pipeline, *pool;
    int own, pools, all; /* limits: of the pipeline, of the pool gpu, of the home */
    const struct fr_schedule *schedule;
    enum fr_origin origin;
    enum fr_outcome outcome;
    int64_t not_before;
    const char *want;
} waits[] = {
    {"its pipeline", "q", "", 1, 9, 0, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 0,
     "max_active_runs 1 of 1: " Q},
    {"which has room", "q", "", 2, 9, 0, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 0, ""},
    {"its pool", "q", "gpu", 0, 2, 0, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 0,
     "pool gpu 2 of 2: " Q ", " R
     "; no flowrun looks after run 12: 'flowrun resume 12' takes over"},
    {"which has room", "q", "gpu", 0, 3, 0, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 0, ""},
    {"a pool that is gone", "q", "tpu", 0, 9, 0, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 0,
     "pool tpu, which is not among pools: of config.yaml"},
    {"its pipeline before its pool", "q", "gpu", 1, 2, 12, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 0,
     "max_active_runs 1 of 1: " Q},
    {"the home, which has room", "s", "", 0, 9, 13, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 0, ""},
    {"its time", "q", "", 2, 9, 0, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 1772413200000 + 90 * 60000,
     "not before 2026-03-02 02:30"},
    {"which has come", "q", "", 2, 9, 0, NULL, FR_ORIGIN_CLI, FR_OUT_NONE, 1772413200000 - 1, ""},
    {"a limit, whatever its time", "q", "", 1, 9, 0, NULL, FR_ORIGIN_CLI, FR_OUT_NONE,
     1772413200000 + 1, "max_active_runs 1 of 1: " Q},
    {"the run before it", "q", "", 0, 9, 0, &queues, FR_ORIGIN_SCHEDULE, FR_OUT_NONE, 0,
     "overlap: run 11 of q is before it"},
    {"not of another pipeline", "s", "", 0, 9, 0, &queues, FR_ORIGIN_SCHEDULE, FR_OUT_NONE, 0, ""},
    {"not one that was asked for", "q", "", 0, 9, 0, &queues, FR_ORIGIN_API, FR_OUT_NONE, 0, ""},
    {"nor one of a backfill", "q", "", 0, 9, 0, &queues, FR_ORIGIN_BACKFILL, FR_OUT_NONE, 0, ""},
    {"nor a retry", "q", "", 0, 9, 0, &queues, FR_ORIGIN_SCHEDULE, FR_OUT_FAILED, 0, ""},
};

static void test_waits(void)
{
    fr_sys.wall_ms = stopped_ms;
    add_active(11, "q", "gpu", HOUR_MS, false);
    add_active(12, "r", "gpu", DAY_MS, true);
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        struct fr_limits of_home = {
            .max_active_runs = waits[i].all, .pools = {{"gpu", waits[i].pools}}, .n_pools = 1};
        struct fr_queue_limits limits = {waits[i].own, &of_home, waits[i].schedule};
        struct fr_run_row row = {.id = {.b = {77}},
                                 .no = 99,
                                 .name = waits[i].pipeline,
                                 .pool = waits[i].pool,
                                 .origin = waits[i].origin,
                                 .outcome = waits[i].outcome,
                                 .not_before_wall = waits[i].not_before};
        struct fr_buf got = {0};

        check_row(waits[i].name);
        CHECK_INT(fr_queue_why(bed.st, &limits, &row, &got, NULL), FR_OK);
        CHECK_TEXT(got.p != NULL ? got.p : "", waits[i].want);
        fr_buf_finish(&got);
    }
    fr_sys.wall_ms = fr_sys_real.wall_ms;
}

/* Two runs of "h", which have other tasks; the number of the newest. */
static int64_t put_past(int64_t *schedule)
{
    static const struct {
        const char *task;
        enum fr_state_of state;
    } tasks[2][3] = {{{"old", FR_ST_FAILED}, {"kept", FR_ST_SUCCEEDED}, {"gone", FR_ST_SKIPPED}},
                     {{"kept", FR_ST_TIMED_OUT}, {"new", FR_ST_CANCELLED}, {NULL, FR_ST_NONE}}};
    struct fr_schedule_row nightly = {
        .source = "/h.yaml", .name = "n", .pipeline = "h", .state = FR_SCHEDULE_ACTIVE};
    struct fr_run_row row = {.name = "h",
                             .source = "/h.yaml",
                             .folder = "/",
                             .spec_hash = "",
                             .params = "{}",
                             .state = FR_RUN_OVER,
                             .outcome = FR_OUT_FAILED,
                             .origin = FR_ORIGIN_BACKFILL,
                             .ended_wall = 3723004};

    CHECK_INT(fr_store_schedule_add(bed.st, &nightly, NULL), FR_OK);
    row.schedule = nightly.id;
    for (int k = 0; k < 2; k++) {
        row.id.b[0] = (uint8_t)(0xb0 + k);
        row.started_wall = row.queued_wall = 1000 + k;
        CHECK_INT(fr_store_run_add(bed.st, &row, NULL), FR_OK);
        for (int i = 0; i < 3 && tasks[k][i].task != NULL; i++) {
            struct fr_inst_row inst = {.idx = (uint32_t)i,
                                       .key = tasks[k][i].task,
                                       .task = tasks[k][i].task,
                                       .node = "n1",
                                       .state = tasks[k][i].state};

            CHECK_INT(fr_store_inst_put(bed.st, row.id, &inst, NULL), FR_OK);
        }
    }
    *schedule = nightly.id;
    return row.no;
}

/* Letters stand for tasks of the newest; the next page has the whole filter. */
static void test_past(void)
{
    char text[400], asked[200];
    int64_t schedule, newest = put_past(&schedule);
    json_t *doc;

    for (int again = 0; again < 2; again++) { /* the second time what is over is known */
        check_row("a history of other tasks");
        doc = ask_doc("/api/v1/pipelines/h/history");
        for (size_t i = 0; i < 2; i++) {
            const json_t *item = json_array_get(json_object_get(doc, "items"), i);

            CHECK_TEXT(json_string_value(json_object_get(item, "states")), i == 0 ? "s-" : "tc");
        }
        CHECK_TEXT(json_string_value(json_array_get(json_object_get(doc, "tasks"), 1)), "new");
        json_decref(doc);
    }

    check_row("the next page has the whole filter");
    (void)snprintf(asked, sizeof(asked),
                   "/api/v1/runs?limit=1&pipeline=h&schedule=%lld&since=5&until=99999&"
                   "origin=backfill&q=h",
                   (long long)schedule);
    doc = ask_doc(asked);
    (void)snprintf(
        text, sizeof(text),
        "/api/v1/runs?limit=1&before=%lld&schedule=%lld&since=5&until=99999&pipeline=%%68&"
        "origin=%%62%%61%%63%%6b%%66%%69%%6c%%6c&q=%%68",
        (long long)newest, (long long)schedule);
    CHECK_TEXT(json_string_value(json_object_get(doc, "next")), text);
    json_decref(doc);
    (void)snprintf(text, sizeof(text), "%s&before=%lld", asked, (long long)newest);
    doc = ask_doc(text);
    CHECK_INT(
        json_integer_value(json_object_get(json_array_get(json_object_get(doc, "items"), 0), "no")),
        newest - 1);
    json_decref(doc);
    (void)snprintf(text, sizeof(text), "%s&before=%lld", asked, (long long)newest - 1);
    doc = ask_doc(text); /* behind the last one */
    CHECK(json_array_size(json_object_get(doc, "items")) == 0 &&
          json_object_get(doc, "next") == NULL);
    json_decref(doc);
}

/* Those that ran, and those of schedules alone; what is gone is not counted. */
static void test_pipelines(void)
{
    static const struct fr_schedule_row more[] = {
        {.source = "/h.yaml", .name = "late", .pipeline = "h", .state = FR_SCHEDULE_PAUSED},
        {.source = "/h.yaml",
         .name = "gone",
         .pipeline = "h",
         .state = FR_SCHEDULE_ACTIVE,
         .gone_wall = 5},
        {.source = "/o.yaml", .name = "n", .pipeline = "o", .state = FR_SCHEDULE_ACTIVE}};
    struct fr_buf got = {0};
    json_t *doc, *item;
    size_t at;

    check_row("pipelines");
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        struct fr_schedule_row row = more[i];

        CHECK_INT(fr_store_schedule_add(bed.st, &row, NULL), FR_OK);
    }
    doc = ask_doc("/api/v1/pipelines");
    json_array_foreach(json_object_get(doc, "items"), at, item)
    {
        const json_t *last = json_object_get(item, "last");

        fr_buf_fmt(&got, "%s %s %lld %lld, ", json_string_value(json_object_get(item, "name")),
                   json_string_value(json_object_get(item, "file")),
                   (long long)json_integer_value(json_object_get(item, "schedules")),
                   (long long)json_integer_value(json_object_get(last, "no")));
    }
    CHECK_TEXT(got.p, "h /h.yaml 2 14, p /p.yaml 0 10, q /q.yaml 0 11, r /q.yaml 0 12, "
                      "o /o.yaml 1 0, ");
    fr_buf_finish(&got);
    json_decref(doc);
}

/* Each run of a list has the median of its pipeline's last runs that succeeded. */
static void test_median(void)
{
    static const struct {
        const char *name;
        enum fr_outcome outcome;
        int64_t took;
    } runs[] = {{"m", FR_OUT_SUCCEEDED, 100},
                {"m", FR_OUT_SUCCEEDED, 300},
                {"m", FR_OUT_SUCCEEDED, 200},
                {"m", FR_OUT_FAILED, 1},
                {"n", FR_OUT_SUCCEEDED, 7}};
    struct fr_run_row row = {.source = "/m.yaml",
                             .folder = "/",
                             .spec_hash = "",
                             .params = "{}",
                             .state = FR_RUN_OVER,
                             .origin = FR_ORIGIN_CLI,
                             .queued_wall = 5000,
                             .started_wall = 5000};
    struct fr_buf got = {0};
    json_t *doc, *item;
    size_t at;

    check_row("medians");
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        row.id.b[0] = (uint8_t)(0xd0 + i);
        row.name = runs[i].name;
        row.outcome = runs[i].outcome;
        row.ended_wall = 5000 + runs[i].took;
        CHECK_INT(fr_store_run_add(bed.st, &row, NULL), FR_OK);
    }
    doc = ask_doc("/api/v1/runs?limit=5");
    json_array_foreach(json_object_get(doc, "items"), at, item)
        fr_buf_fmt(&got, "%s %lld, ", json_string_value(json_object_get(item, "pipeline")),
                   (long long)json_integer_value(json_object_get(item, "median_ms")));
    CHECK_TEXT(got.p, "n 7, m 200, m 200, m 200, m 200, ");
    fr_buf_finish(&got);
    json_decref(doc);
}

/* ---- connections to the store ---- */

/* A connection that was given back serves the next one, and sees what came meanwhile. */
static void test_readers(void)
{
    struct connection_pool *r = connection_pool_create();
    struct fr_store *a = NULL, *b = NULL, *c = NULL;
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    struct fr_run_row row = {
        .name = "p", .state = FR_RUN_OVER, .outcome = FR_OUT_FAILED, .params = "{}"};
    size_t before;

    check_row("readers");
    CHECK_INT(connection_pool_take(r, bed.home, &a, NULL), FR_OK);
    CHECK_INT(connection_pool_take(r, bed.home, &b, NULL), FR_OK);
    CHECK(a != b);
    CHECK_INT(fr_store_runs(a, 0, &arena, &rows, NULL), FR_OK);
    before = rows.n;
    connection_pool_give(r, a, true);
    connection_pool_give(r, b, false);
    CHECK_INT(fr_id_new(&row.id, NULL), FR_OK);
    CHECK_INT(fr_store_run_add(bed.st, &row, NULL), FR_OK);
    CHECK_INT(connection_pool_take(r, bed.home, &c, NULL), FR_OK);
    CHECK(c == a);
    CHECK_INT(fr_store_runs(c, 0, &arena, &rows, NULL), FR_OK);
    CHECK_INT(rows.n, before + 1);
    connection_pool_leave(connection_pool_use(r));
    connection_pool_give(r, c, true);
    connection_pool_leave(r);
    fr_arena_finish(&arena);
}

static size_t count_fds(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 1000; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* What was opened for a view serves the next one, or is closed. */
static void test_connections(void)
{
    size_t fds = count_fds();

    check_row("connections of views");
    for (int i = 0; i < 10; i++) {
        check_answer(ask(&bed, GET, "/api/v1/queue", NULL), 200, NULL);
        check_answer(ask(&bed, GET, "/api/v1/pipelines/none", NULL), 404, NULL);
        check_answer(ask(&bed, GET, "/api/v1/runs/1/log/search?q=x", NULL), 200, NULL);
    }
    CHECK(count_fds() <= fds + 3);
}

int main(void)
{
    CHECK(setenv("TZ", "UTC", 1) == 0);
    make_home(bed.home);
    open_host(&bed);
    test_reason();
    test_waits();
    test_past();
    test_pipelines();
    test_median();
    test_connections();
    test_readers();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
