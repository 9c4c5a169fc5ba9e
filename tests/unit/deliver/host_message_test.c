/* What a message says of a run, all of it; and the message of a disk that is low. */
#include "engine/base/json.h"
#include "engine/deliver/outbox.h"
#include "engine/metrics/machines.h"
#include "engine/metrics/meters.h"
#include "engine/run/run.h"
#include "engine/store/home.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

enum { LINE = 100, LINES = 100 };

/* 2026-11-22T16:17:18Z and 2027-03-07T09:08:05Z */
static const int64_t began_ms = 1795364238999, ended_ms = 1804410485000;

static struct fr_run_row run = {.id = {.b = {0xaa, 0xbb}},
                                .name = "p",
                                .source = "/p.yaml",
                                .folder = "/",
                                .spec_hash = "",
                                .params = "{\"params\": [\"x=1\", \"y=a=b\", \"none\"]}",
                                .state = FR_RUN_OVER,
                                .outcome = FR_OUT_FAILED,
                                .origin = FR_ORIGIN_CLI,
                                .who = "me"};

/* The output of an attempt: so many lines of LINE bytes, each with its number. */
static void put_log(const char *key, uint32_t attempt, int lines)
{
    struct fr_buf path = {0}, text = {0};

    fr_home_at(bed.home, FR_HOME_RUN, run.id, &path);
    CHECK_INT(fr_mkdirs(path.p, 0700, NULL), FR_OK);
    fr_buf_text(&path, "/");
    fr_run_log_name(&path, key, attempt);
    for (int i = 1; i <= lines; i++)
        fr_buf_fmt(&text, "%0*d\n", LINE - 1, i);
    CHECK_INT(fr_file_write(path.p, text.p, text.n, 0600, NULL), FR_OK);
    fr_buf_finish(&path);
    fr_buf_finish(&text);
}

static void put_rows(void)
{
    const struct fr_inst_row good = {
        .idx = 0, .key = "a@n1", .task = "a", .node = "n1", .state = FR_ST_SUCCEEDED};
    const struct fr_inst_row bad = {.idx = 1,
                                    .key = "b@n2",
                                    .task = "b",
                                    .node = "n2",
                                    .state = FR_ST_FAILED,
                                    .cause = FR_CAUSE_EXIT,
                                    .code = 3,
                                    .attempt_no = 2};

    run.started_wall = began_ms;
    run.ended_wall = ended_ms;
    CHECK_INT(fr_store_begin(bed.st, NULL), FR_OK);
    CHECK_INT(fr_store_run_add(bed.st, &run, NULL), FR_OK);
    CHECK_INT(fr_store_inst_put(bed.st, run.id, &good, NULL), FR_OK);
    CHECK_INT(fr_store_inst_put(bed.st, run.id, &bad, NULL), FR_OK);
    CHECK_INT(fr_store_commit(bed.st, NULL), FR_OK);
    put_log("b@n2", 1, 1);
    put_log("b@n2", 2, LINES);
}

/* Takes the tail off the message. */
static json_t *take_tail(json_t *message)
{
    json_t *failure = json_object_get(json_object_get(message, "data"), "first_failure");
    json_t *tail = json_incref(json_object_get(failure, "tail"));

    CHECK_INT(json_object_del(failure, "tail"), 0);
    return tail;
}

static void check_message(const struct fr_notice_row *notice, const char *want)
{
    struct fr_arena arena = {0};
    json_t *doc = notice_message(bed.host, notice, notice->kind, &arena), *tail = NULL;
    char *text;

    if (strstr(want, "first_failure") != NULL)
        tail = take_tail(doc);
    text = json_dumps(doc, JSON_COMPACT);
    CHECK_TEXT(text, want);
    if (tail != NULL) { /* the last 20 of the newest attempt */
        CHECK_INT(json_array_size(tail), 20);
        CHECK_INT(strtol(json_string_value(json_array_get(tail, 0)), NULL, 10), LINES - 19);
        CHECK_INT(strtol(json_string_value(json_array_get(tail, 19)), NULL, 10), LINES);
    }
    free(text);
    json_decref(doc);
    json_decref(tail);
    fr_arena_finish(&arena);
}

#define ABOUT                                                                                      \
    "\"id\":\"aabb0000000000000000000000000000\",\"state\":\"over\",\"outcome\":\"failed\","       \
    "\"started\":\"2026-11-22T16:17:18Z\",\"ended\":\"2027-03-07T09:08:05Z\",\"params\":{\"x\":"   \
    "\"1\",\"y\":\"a=b\"}"

static void test_runs(void)
{
    struct fr_notice_row notice = {.kind = "failed",
                                   .wall = 1804410486000,
                                   .run = 1,
                                   .name = "p",
                                   .subject = "",
                                   .text = "because"};

    check_row("a run that failed");
    check_message(&notice, "{\"type\":\"run.failed\",\"data\":{\"pipeline\":\"p\",\"reason\":"
                           "\"because\",\"run\":1," ABOUT
                           ",\"first_failure\":{\"task\":\"b\",\"node\":\"n2\",\"cause\":\"exit\","
                           "\"code\":3}},\"timestamp\":\"2027-03-07T09:08:06Z\"}");
    check_row("another event of it, about a task");
    notice.kind = "stalled";
    notice.subject = "b@n2";
    check_message(&notice, "{\"type\":\"task.stalled\",\"data\":{\"pipeline\":\"p\",\"subject\":"
                           "\"b@n2\",\"text\":\"because\",\"run\":1," ABOUT
                           "},\"timestamp\":\"2027-03-07T09:08:06Z\"}");
    check_row("of a schedule, and no run");
    notice = (struct fr_notice_row){.kind = "schedule_missed",
                                    .wall = 1804410486000,
                                    .name = "p",
                                    .subject = "nightly",
                                    .text = "3 times"};
    check_message(&notice, "{\"type\":\"schedule.missed\",\"data\":{\"pipeline\":\"p\","
                           "\"schedule\":\"nightly\",\"text\":\"3 times\"},\"timestamp\":"
                           "\"2027-03-07T09:08:06Z\"}");
}

/* A sample that says that a disk is low is a notice with the next turn, once. */
static void test_disk(void)
{
    struct fr_exec_up up = {.home = {{7}}};
    struct fr_sample sample = {.disk_free = 1536};
    struct fr_arena arena = {0};
    struct fr_notice_rows rows = {0};

    check_row("a disk");
    bed.host->config.limits.disk_low_bytes = 1 << 20;
    for (int i = 0; i < 2; i++) {
        fr_machines_take(meters_machines(bed.host->meters),
                         &(struct fr_exec_sampled){"n3", &up, 0, 0, &sample}, fr_sys.wall_ms());
        outbox_part.tell(bed.host);
    }
    CHECK_INT(fr_store_notices(bed.st, 10, &arena, &rows, NULL), FR_OK);
    if (CHECK_INT(rows.n, 1)) {
        CHECK_TEXT(rows.rows[0].kind, "disk_low");
        CHECK_TEXT(rows.rows[0].subject, "n3");
        CHECK_TEXT(rows.rows[0].text, "1.5 KiB are left, limits.disk_low is 1.0 MiB");
        CHECK(rows.rows[0].wall > ended_ms - 10LL * 365 * 86400000);
    }
    fr_arena_finish(&arena);
}

int main(void)
{
    make_home(bed.home);
    open_host(&bed);
    put_rows();
    test_runs();
    CHECK_INT(fr_store_notifies(bed.st, true, NULL), FR_OK);
    test_disk();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
