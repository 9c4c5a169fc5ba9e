/* Lists of runs: what the next page is asked for with, what is shown of runs of other tasks, and
 * which runs a reason names. */
#include "engine/view/queue.h"
#include "tests/unit/host_bed.h"

#include "engine/runs/state.h"
#include "engine/store/fires.h"

static json_t *ask_doc(const char *path)
{
    struct fr_api_response res = ask(FR_API_GET, path, NULL);
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
                             .state = "running",
                             .origin = "cli",
                             .params = "{}",
                             .pool = "",
                             .queued_wall = 1000};

    row.id.b[0] = (uint8_t)no;
    CHECK_INT(fr_store_run_add(st, &row, NULL), FR_OK);
}

/* Ten that go on, of which eight are named, the newest first. */
static void test_reason(void)
{
    const struct fr_limits home_limits = {.max_active_runs = 10};
    struct fr_queue_limits limits = {.home = &home_limits};
    struct fr_run_row row = {
        .id = {.b = {77}}, .name = "q", .pool = "", .origin = "cli", .outcome = ""};
    struct fr_buf got = {0};

    check_row("why a run waits for many");
    for (int no = 1; no <= 10; no++)
        add_open(no);
    CHECK_INT(fr_queue_why(st, &limits, &row, &got, NULL), FR_OK);
#define SINCE " of p since 1970-01-01 00:00"
    CHECK_TEXT(got.p,
               "limits.max_active_runs 10 of 10: run 1" SINCE ", run 2" SINCE ", run 3" SINCE
               ", run 4" SINCE ", run 5" SINCE ", run 6" SINCE ", run 7" SINCE ", run 8" SINCE
               ", …; no flowrun looks after run 1: 'flowrun resume 1' takes over");
    fr_buf_finish(&got);
}

/* Two runs of "h", which have other tasks; the number of the newest. */
static int64_t put_past(int64_t *schedule)
{
    static const struct {
        const char *task, *state;
    } tasks[2][3] = {{{"old", "failed"}, {"kept", "succeeded"}, {"gone", "skipped"}},
                     {{"kept", "timed_out"}, {"new", "cancelled"}, {NULL, NULL}}};
    struct fr_schedule_row nightly = {
        .source = "/h.yaml", .name = "n", .pipeline = "h", .state = "active"};
    struct fr_run_row row = {.name = "h",
                             .source = "/h.yaml",
                             .folder = "/",
                             .spec_hash = "",
                             .params = "{}",
                             .state = "over",
                             .outcome = "failed",
                             .origin = "backfill",
                             .ended_wall = 3723004};

    CHECK_INT(fr_store_schedule_add(st, &nightly, NULL), FR_OK);
    row.schedule = nightly.id;
    for (int k = 0; k < 2; k++) {
        row.id.b[0] = (uint8_t)(0xb0 + k);
        row.started_wall = row.queued_wall = 1000 + k;
        CHECK_INT(fr_store_run_add(st, &row, NULL), FR_OK);
        for (int i = 0; i < 3 && tasks[k][i].task != NULL; i++) {
            struct fr_inst_row inst = {.idx = (uint32_t)i,
                                       .key = tasks[k][i].task,
                                       .task = tasks[k][i].task,
                                       .node = "n1",
                                       .state = tasks[k][i].state};

            CHECK_INT(fr_store_inst_put(st, row.id, &inst, NULL), FR_OK);
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

/* Each run of a list has the median of its pipeline's last runs that succeeded. */
static void test_median(void)
{
    static const struct {
        const char *name, *outcome;
        int64_t took;
    } runs[] = {{"m", "succeeded", 100},
                {"m", "succeeded", 300},
                {"m", "succeeded", 200},
                {"m", "failed", 1},
                {"n", "succeeded", 7}};
    struct fr_run_row row = {.source = "/m.yaml",
                             .folder = "/",
                             .spec_hash = "",
                             .params = "{}",
                             .state = "over",
                             .origin = "cli",
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
        CHECK_INT(fr_store_run_add(st, &row, NULL), FR_OK);
    }
    doc = ask_doc("/api/v1/runs?limit=5");
    json_array_foreach(json_object_get(doc, "items"), at, item)
        fr_buf_fmt(&got, "%s %lld, ", json_string_value(json_object_get(item, "pipeline")),
                   (long long)json_integer_value(json_object_get(item, "median_ms")));
    CHECK_TEXT(got.p, "n 7, m 200, m 200, m 200, m 200, ");
    fr_buf_finish(&got);
    json_decref(doc);
}

int main(void)
{
    CHECK(setenv("TZ", "UTC", 1) == 0);
    make_home();
    open_host();
    test_reason();
    test_past();
    test_median();
    close_host();
    remove_home();
    return check_done();
}
