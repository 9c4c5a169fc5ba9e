/* What is shown of rows of the store and of logs beside them: whole answers, to the last byte. The
 * run is one that nobody drives. */
#include "tests/unit/host/host_bed.h"

#include "engine/base/mark.h"
#include "engine/runs/state.h"
#include "engine/metrics/machines.h"
#include "engine/metrics/meters.h"
#include "engine/deliver/outbox.h"
#include "engine/notify/notify.h"
#include "engine/run/run.h"
#include "engine/spec/config.h"
#include "engine/wire/message.h"

static struct host_bed bed = HOST_BED;

#define RUN "aa000000000000000000000000000000"
#define A1 "01000000000000000000000000000000"
#define B1 "02000000000000000000000000000000"
#define B2 "03000000000000000000000000000000"
#define C1 "04000000000000000000000000000000"
#define D1 "05000000000000000000000000000000"

static const struct fr_id run_id = {.b = {0xaa}};

/* ---- the rows ---- */

static const struct fr_inst_row insts[] = {
    {.idx = 0,
     .key = "a@n1",
     .task = "a",
     .node = "n1",
     .state = FR_ST_SUCCEEDED,
     .attempt_no = 1,
     .attempt = {.b = {1}},
     .started_wall = 1000,
     .ended_wall = 3000},
    {.idx = 2,
     .key = "b@n1",
     .task = "b",
     .node = "n1",
     .state = FR_ST_FAILED,
     .attempt_no = 2,
     .attempt = {.b = {3}},
     .cause = FR_CAUSE_EXIT,
     .code = 3,
     .reason = "exit code 3",
     .started_wall = 2000,
     .ended_wall = 5000},
    {.idx = 5,
     .key = "b@n2",
     .task = "b",
     .node = "n2",
     .state = FR_ST_SUCCEEDED,
     .attempt_no = 1,
     .attempt = {.b = {5}},
     .started_wall = 2000,
     .ended_wall = 4000},
    {.idx = 7, .key = "c@n1", .task = "c", .node = "n1", .state = FR_ST_UPSTREAM_FAILED},
    {.idx = 8,
     .key = "h@n1",
     .task = "h",
     .node = "n1",
     .hook = "on_failure",
     .state = FR_ST_FAILED,
     .attempt_no = 1,
     .attempt = {.b = {4}},
     .cause = FR_CAUSE_EXIT,
     .code = 1,
     .started_wall = 6000,
     .ended_wall = 4500},
};

static struct {
    struct fr_attempt_row row;
    const char *key, *text;
    struct fr_log_mark marks[2];
} attempts[] = {
    {{.id = {.b = {1}}, .idx = 0, .no = 1, .node = "n1", .state = FR_ST_SUCCEEDED, .done = 1},
     "a@n1",
     "one\ntwo\nthree\n",
     {{0, 1000}, {4, 3000}}},
    {{.id = {.b = {2}}, .idx = 2, .no = 1, .node = "n1", .state = FR_ST_SUCCEEDED, .done = 1},
     "b@n1",
     "beta two\n",
     {{0, 2000}, {UINT64_MAX, 0}}},
    {{.id = {.b = {3}}, .idx = 2, .no = 2, .node = "n1", .state = FR_ST_SUCCEEDED, .done = 1},
     "b@n1",
     "x\xff\xe4\xb8y\n\xc3\xa9 \xe4\xb8\xad\ntwo, the end",
     {{0, 4000}, {UINT64_MAX, 0}}},
    {{.id = {.b = {5}}, .idx = 5, .no = 1, .node = "n2", .state = FR_ST_SUCCEEDED},
     "b@n2",
     NULL,
     {{0, 0}}},
    {{.id = {.b = {4}}, .idx = 8, .no = 1, .node = "n1", .state = FR_ST_SUCCEEDED, .done = 1},
     "h@n1",
     "",
     {{0, 0}}},
};

enum { N_ATTEMPTS = sizeof(attempts) / sizeof(attempts[0]), HITS = 1500 };

static void write_beside(const char *dir, const char *name, const void *p, size_t n)
{
    char path[400];
    struct fr_err err = {0};

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (!CHECK_INT(fr_file_write(path, p, n, 0600, &err), FR_OK))
        printf("   %s\n", err.msg);
}

/* The last one has many lines and marks. */
static void put_many(const char *dir, const char *name)
{
    struct fr_buf text = {0}, index = {0}, idx_name = {0};

    fr_buf_fmt(&idx_name, "%s.idx", name);
    for (int i = 0; i < HITS; i++) {
        struct fr_log_mark mark = {text.n, 10000 + i};

        fr_buf_fmt(&text, "hit %d\n", i);
        fr_buf_add(&index, (const char *)&mark, sizeof(mark));
    }
    for (int i = 0; i < 300000; i++)
        fr_buf_text(&text, "z");
    write_beside(dir, name, text.p, text.n);
    write_beside(dir, idx_name.p, index.p, index.n);
    fr_buf_finish(&text);
    fr_buf_finish(&index);
    fr_buf_finish(&idx_name);
}

static void put_attempts(void)
{
    struct fr_buf dir = {0};

    fr_home_at(bed.home, FR_HOME_RUN, run_id, &dir);
    for (size_t i = 0; i < N_ATTEMPTS; i++) {
        struct fr_buf log = {0}, path = {0}, index = {0};

        fr_run_log_name(&log, attempts[i].key, (uint32_t)attempts[i].row.no);
        attempts[i].row.log = log.p;
        fr_buf_fmt(&path, "%s/%s", dir.p, log.p);
        *strrchr(path.p, '/') = '\0';
        CHECK_INT(fr_mkdirs(path.p, 0700, NULL), FR_OK);
        fr_buf_fmt(&index, "%s.idx", log.p);
        if (i == N_ATTEMPTS - 1)
            put_many(dir.p, log.p);
        else if (attempts[i].text != NULL) {
            write_beside(dir.p, log.p, attempts[i].text, strlen(attempts[i].text));
            write_beside(dir.p, index.p, attempts[i].marks,
                         sizeof(attempts[i].marks[0]) * (attempts[i].marks[1].ms != 0 ? 2 : 1));
        }
        CHECK_INT(fr_store_attempt_put(bed.st, run_id, &attempts[i].row, NULL), FR_OK);
        fr_buf_finish(&log);
        fr_buf_finish(&path);
        fr_buf_finish(&index);
    }
    fr_buf_finish(&dir);
}

static struct fr_run_row run_row = {.name = "p",
                                    .source = "/p.yaml",
                                    .folder = "/",
                                    .spec_hash = "",
                                    .params = "{\"params\": [\"x=1=2\", \"y\"]}",
                                    .state = FR_RUN_OVER,
                                    .outcome = FR_OUT_FAILED,
                                    .reason = "because",
                                    .origin = FR_ORIGIN_BACKFILL,
                                    .who = "nightly",
                                    .started_wall = 1000,
                                    .ended_wall = 3723004};

static void put_rows(void)
{
    static const struct fr_output_row outputs[] = {{0, "k", "v"}, {5, "y", "8"}, {5, "z", "9"}};
    struct fr_event_row event = {.wall = 77,
                                 .idx = 2,
                                 .kind = "retry",
                                 .attempt_no = 1,
                                 .cause = "exit",
                                 .code = 3,
                                 .text = "later",
                                 .delay_ms = 500};

    CHECK_INT(fr_store_begin(bed.st, NULL), FR_OK);
    run_row.id = run_id;
    CHECK_INT(fr_store_run_add(bed.st, &run_row, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(insts) / sizeof(insts[0]); i++)
        CHECK_INT(fr_store_inst_put(bed.st, run_id, &insts[i], NULL), FR_OK);
    put_attempts();
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
        CHECK_INT(fr_store_output_put(bed.st, run_id, &outputs[i], NULL), FR_OK);
    CHECK_INT(fr_store_event_add(bed.st, run_id, &event, NULL), FR_OK);
    event.delay_ms = 0;
    CHECK_INT(fr_store_event_add(bed.st, run_id, &event, NULL), FR_OK);
    CHECK_INT(fr_store_commit(bed.st, NULL), FR_OK);
}

/* ---- answers ---- */

struct answer {
    const char *path;
    int status;
    const char *text; /* the body; of an error, a part of it */
};

static void check_answers(const struct answer *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        check_row(rows[i].path);
        check_whole(ask(&bed, GET, rows[i].path, NULL), rows[i].status, rows[i].text);
    }
}

#define CHECK_ANSWERS(rows) check_answers(rows, sizeof(rows) / sizeof((rows)[0]))

static const struct answer of_rows[] = {
    {"/api/v1/runs/1/instances?node=n2", 200,
     "{\"seq\":2,\"items\":[{\"idx\":5,\"key\":\"b@n2\",\"task\":\"b\",\"node\":\"n2\",\"hook\":"
     "\"\",\"state\":\"succeeded\",\"attempt_no\":1,\"attempt\":\"" D1
     "\",\"cause\":\"\",\"code\":0,\"reason\":\"\",\"unreachable_wall\":0,\"started_wall\":2000,"
     "\"ended_wall\":4000}]}"},
    {"/api/v1/runs/1/instances?state=failed", 200,
     "{\"seq\":2,\"items\":[{\"idx\":2,\"key\":\"b@n1\",\"task\":\"b\",\"node\":\"n1\",\"hook\":"
     "\"\",\"state\":\"failed\",\"attempt_no\":2,\"attempt\":\"" B2
     "\",\"cause\":\"exit\",\"code\":3,\"reason\":\"exit code "
     "3\",\"unreachable_wall\":0,\"started_wall\":2000,\"ended_wall\":5000,\"attempts\":[[1,\"" B1
     "\"],[2,\"" B2 "\"]]},{\"idx\":8,\"key\":\"h@n1\",\"task\":\"h\",\"node\":\"n1\",\"hook\":"
     "\"on_failure\",\"state\":\"failed\",\"attempt_no\":1,\"attempt\":\"" C1
     "\",\"cause\":\"exit\",\"code\":1,\"reason\":\"\",\"unreachable_wall\":0,\"started_wall\":"
     "6000,\"ended_wall\":4500}]}"},
    {"/api/v1/runs/1/instances?task=b&node=n1", 200,
     "{\"seq\":2,\"items\":[{\"idx\":2,\"key\":\"b@n1\",\"task\":\"b\",\"node\":\"n1\",\"hook\":"
     "\"\",\"state\":\"failed\",\"attempt_no\":2,\"attempt\":\"" B2
     "\",\"cause\":\"exit\",\"code\":3,\"reason\":\"exit code "
     "3\",\"unreachable_wall\":0,\"started_wall\":2000,\"ended_wall\":5000,\"attempts\":[[1,\"" B1
     "\"],[2,\"" B2 "\"]]}]}"},
    {"/api/v1/runs/1/instances?form=columns", 200,
     "{\"seq\":2,\"wall\":1000,\"tasks\":[\"a\",\"b\",\"c\",\"h\"],\"nodes\":[\"n1\",\"n2\"],"
     "\"idx\":[0,1,1,1,2,1,1,1,0,1],\"task\":[0,1,1,2,2,1,3,1],\"hook\":[\"\",4,\"on_failure\",1],"
     "\"state\":\"sfspf\",\"attempt_no\":[1,1,2,1,1,1,0,1,1,1],\"cause\":[\"\",1,\"exit\",1,\"\",2,"
     "\"exit\",1],\"code\":[0,1,3,1,0,2,1,1],\"reason\":[\"\",1,\"exit code "
     "3\",1,\"\",3],\"unreachable\":[0,5],\"due\":[0,5],\"node\":[0,0,1,0,0],\"started\":[1,1001,1,"
     "0,4001],\"ended\":[2001,3001,2001,0,-1500]}"},
    {"/api/v1/runs/1/instances?form=columns&task=b", 200,
     "{\"seq\":2,\"wall\":1000,\"tasks\":[\"b\"],\"nodes\":[\"n1\",\"n2\"],\"idx\":[2,2],\"task\":["
     "0,2],\"hook\":[\"\",2],\"state\":\"fs\",\"attempt_no\":[2,1,1,1],\"cause\":[\"exit\",1,\"\","
     "1],\"code\":[3,1,0,1],\"reason\":[\"exit code "
     "3\",1,\"\",1],\"unreachable\":[0,2],\"due\":[0,2],\"node\":[0,1],\"started\":[1001,1],"
     "\"ended\":[3001,2001]}"},
    {"/api/v1/runs/1", 200,
     "{\"no\":1,\"id\":\"aa000000000000000000000000000000\",\"pipeline\":\"p\",\"file\":\"/"
     "p.yaml\",\"state\":\"over\",\"outcome\":\"failed\",\"reason\":\"because\",\"driven\":false,"
     "\"origin\":\"backfill\",\"priority\":0,\"pinned\":false,\"queued_wall\":0,\"not_before_"
     "wall\":0,\"started_wall\":1000,\"ended_wall\":3723004,\"retry_of\":0,\"reruns\":0,\"rerun_"
     "wall\":0,\"who\":\"nightly\",\"seq\":2,\"counts\":{\"succeeded\":2,\"failed\":1,\"upstream_"
     "failed\":1},\"tasks\":[{\"name\":\"a\",\"hook\":\"\",\"counts\":{\"succeeded\":1}},{\"name\":"
     "\"b\",\"hook\":\"\",\"counts\":{\"failed\":1,\"succeeded\":1}},{\"name\":\"c\",\"hook\":\"\","
     "\"counts\":{\"upstream_failed\":1}},{\"name\":\"h\",\"hook\":\"on_failure\",\"counts\":{"
     "\"failed\":1}}]}"},
    {"/api/v1/pipelines/p/history", 200,
     "{\"tasks\":[\"a\",\"b\",\"c\"],\"items\":[{\"no\":1,\"id\":"
     "\"aa000000000000000000000000000000\",\"pipeline\":\"p\",\"file\":\"/"
     "p.yaml\",\"state\":\"over\",\"outcome\":\"failed\",\"reason\":\"because\",\"driven\":false,"
     "\"origin\":\"backfill\",\"priority\":0,\"pinned\":false,\"queued_wall\":0,\"not_before_"
     "wall\":0,\"started_wall\":1000,\"ended_wall\":3723004,\"retry_of\":0,\"reruns\":0,\"rerun_"
     "wall\":0,\"who\":\"nightly\",\"states\":\"sfp\"}],\"gaps\":[]}"},
    {"/api/v1/runs/1/outputs", 200,
     "{\"items\":[{\"idx\":0,\"key\":\"a@n1\",\"task\":\"a\",\"node\":\"n1\",\"name\":\"k\","
     "\"value\":\"v\"},{\"idx\":5,\"key\":\"b@n2\",\"task\":\"b\",\"node\":\"n2\",\"name\":\"y\","
     "\"value\":\"8\"},{\"idx\":5,\"key\":\"b@n2\",\"task\":\"b\",\"node\":\"n2\",\"name\":\"z\","
     "\"value\":\"9\"}]}"},
    {"/api/v1/runs/1/events", 200,
     "{\"items\":[{\"seq\":1,\"wall\":77,\"idx\":2,\"kind\":\"retry\",\"attempt_no\":1,\"cause\":"
     "\"exit\",\"code\":3,\"text\":\"later\",\"delay_ms\":500},{\"seq\":2,\"wall\":77,\"idx\":2,"
     "\"kind\":\"retry\",\"attempt_no\":1,\"cause\":\"exit\",\"code\":3,\"text\":\"later\"}],"
     "\"after\":2}"},
    {"/api/v1/runs/1/events?after=1", 200,
     "{\"items\":[{\"seq\":2,\"wall\":77,\"idx\":2,\"kind\":\"retry\",\"attempt_no\":1,\"cause\":"
     "\"exit\",\"code\":3,\"text\":\"later\"}],\"after\":2}"},
};

static const struct answer of_merged[] = {
    {"/api/v1/runs/1/log?task=a", 200, "a@n1 | one\na@n1 | two\na@n1 | three\n"},
    {"/api/v1/runs/1/log?task=b&times=ms", 200,
     "2000 b@n1 | beta two\n4000 b@n1#2 | x\\xff\\xe4\\xb8y\n4000 b@n1#2 | é 中\n4000 b@n1#2 | "
     "two, the end\n"},
    {"/api/v1/runs/1/log?task=b@n1&times=1", 200,
     "00:00:02 b@n1 | beta two\n00:00:04 b@n1#2 | x\\xff\\xe4\\xb8y\n00:00:04 b@n1#2 | é "
     "中\n00:00:04 b@n1#2 | two, the end\n"},
    {"/api/v1/runs/1/log?task=b@n2", 200, ""},
    {"/api/v1/runs/1/log?task=none", 200, ""},
    {"/api/v1/runs/1/log?task=a&tail=2", 200, "a@n1 | two\na@n1 | three\n"},
    {"/api/v1/runs/1/log?task=a&tail=20000", 200, "a@n1 | one\na@n1 | two\na@n1 | three\n"},
    {"/api/v1/runs/1/log?tail=0", 400, "'tail' must be 1 to 20000"},
    {"/api/v1/runs/1/log?tail=20001", 400, "'tail' must be 1 to 20000"},
};

#define SEARCH "/api/v1/runs/1/log/search"

static const struct answer of_found[] = {
    {SEARCH "?q=two", 200,
     "{\"items\":[{\"line\":2,\"offset\":4,\"text\":\"two\",\"instance\":\"a@n1\",\"attempt\":\"" A1
     "\",\"attempt_no\":1},{\"line\":1,\"offset\":5,\"text\":\"beta "
     "two\",\"instance\":\"b@n1\",\"attempt\":\"" B1
     "\",\"attempt_no\":1},{\"line\":3,\"offset\":13,\"text\":\"two, the "
     "end\",\"instance\":\"b@n1\",\"attempt\":\"" B2 "\",\"attempt_no\":2}],\"truncated\":false}"},
    {SEARCH "?q=t.o&re=1&task=a", 200,
     "{\"items\":[{\"line\":2,\"offset\":4,\"text\":\"two\",\"instance\":\"a@n1\",\"attempt\":\"" A1
     "\",\"attempt_no\":1}],\"truncated\":false}"},
    {SEARCH "?q=t.o&task=a", 200, "{\"items\":[],\"truncated\":false}"},
    {SEARCH "?q=two&attempt=" B1, 200,
     "{\"items\":[{\"line\":1,\"offset\":5,\"text\":\"beta "
     "two\",\"instance\":\"b@n1\",\"attempt\":\"" B1
     "\",\"attempt_no\":1},{\"line\":3,\"offset\":13,\"text\":\"two, the "
     "end\",\"instance\":\"b@n1\",\"attempt\":\"" B2 "\",\"attempt_no\":2}],\"truncated\":false}"},
    {SEARCH "?q=two&attempt=" A1 "&from=2", 200,
     "{\"items\":[{\"line\":2,\"offset\":4,\"text\":\"two\",\"instance\":\"a@n1\",\"attempt\":\"" A1
     "\",\"attempt_no\":1},{\"line\":1,\"offset\":5,\"text\":\"beta "
     "two\",\"instance\":\"b@n1\",\"attempt\":\"" B1
     "\",\"attempt_no\":1},{\"line\":3,\"offset\":13,\"text\":\"two, the "
     "end\",\"instance\":\"b@n1\",\"attempt\":\"" B2 "\",\"attempt_no\":2}],\"truncated\":false}"},
    {SEARCH "?q=two&attempt=" A1 "&from=3", 200,
     "{\"items\":[{\"line\":1,\"offset\":5,\"text\":\"beta "
     "two\",\"instance\":\"b@n1\",\"attempt\":\"" B1
     "\",\"attempt_no\":1},{\"line\":3,\"offset\":13,\"text\":\"two, the "
     "end\",\"instance\":\"b@n1\",\"attempt\":\"" B2 "\",\"attempt_no\":2}],\"truncated\":false}"},
    {SEARCH "?q=two&task=a&attempt=" B1, 404, "run 1 has no such attempt"},
    {SEARCH "?q=", 400, "'q' must be 1 to 1000 bytes, 'from' 1 or more"},
    {SEARCH "?q=x&from=0", 400, "'q' must be 1 to 1000 bytes"},
    {SEARCH, 400, "'q' must be 1 to 1000 bytes"},
    {SEARCH "?q=a(&re=1", 400, "the pattern is wrong at character 3: "},
};

#define LOG "/api/v1/runs/1/attempts/"

static const struct answer of_log[] = {
    {LOG A1 "/log/lines", 200,
     "{\"total\":3,\"bytes\":14,\"items\":[{\"line\":1,\"offset\":0,\"text\":\"one\",\"cut\":false}"
     ",{\"line\":2,\"offset\":4,\"text\":\"two\",\"cut\":false},{\"line\":3,\"offset\":8,\"text\":"
     "\"three\",\"cut\":false}]}"},
    {LOG A1 "/log/lines?from=2&n=1", 200,
     "{\"total\":3,\"bytes\":14,\"items\":[{\"line\":2,\"offset\":4,\"text\":\"two\",\"cut\":false}"
     "]}"},
    {LOG A1 "/log/lines?from=4", 200, "{\"total\":3,\"bytes\":14,\"items\":[]}"},
    {LOG A1 "/log/lines?from=0", 400, "'from' must be 1 or more, 'n' 1 to 1000"},
    {LOG A1 "/log/lines?n=0", 400, "'n' 1 to 1000"},
    {LOG A1 "/log/lines?n=1001", 400, "'n' 1 to 1000"},
    {LOG B2 "/log/lines?n=1000", 200,
     "{\"total\":3,\"bytes\":25,\"items\":[{\"line\":1,\"offset\":0,\"text\":\"x���y\",\"cut\":"
     "false},{\"line\":2,\"offset\":6,\"text\":\"é "
     "中\",\"cut\":false},{\"line\":3,\"offset\":13,\"text\":\"two, the end\",\"cut\":false}]}"},
    {LOG D1 "/log/lines", 200, "{\"total\":0,\"bytes\":0,\"items\":[]}"},
    {LOG D1 "/log/times", 200, "{\"items\":[]}"},
    {LOG D1 "/log/search?q=x", 200, "{\"items\":[],\"truncated\":false}"},
    {LOG D1 "/log.gz", 404, "the attempt has written nothing yet"},
    {LOG A1 "/log/times", 200, "{\"items\":[[0,1000],[4,3000]]}"},
    {LOG A1 "/log/times?from=4", 200, "{\"items\":[[4,3000]]}"},
    {LOG A1 "/log/times?to=4", 200, "{\"items\":[[0,1000]]}"},
    {LOG A1 "/log/times?from=4&to=4", 200, "{\"items\":[]}"},
    {LOG A1 "/log/search?q=t", 200,
     "{\"items\":[{\"line\":2,\"offset\":4,\"text\":\"two\"},{\"line\":3,\"offset\":8,\"text\":"
     "\"three\"}],\"truncated\":false}"},
    {LOG A1 "/log/search?q=t&from=3", 200,
     "{\"items\":[{\"line\":3,\"offset\":8,\"text\":\"three\"}],\"truncated\":false}"},
    {LOG A1 "/log/nothing", 404, "there is nothing at"},
    {LOG A1 "/lag", 404, "there is nothing at"},
    {LOG RUN "/log", 404, "run 1 has no such attempt"},
};

/* ---- more than an answer has ---- */

static json_t *ask_doc(enum fr_api_method method, const char *path, const char *body, int status)
{
    struct fr_api_response res = ask(&bed, method, path, body);
    json_t *doc = NULL;

    CHECK_INT(res.status, status);
    CHECK_INT(fr_json_parse((struct fr_str){res.body.p, res.body.n}, "an answer", &doc, NULL),
              FR_OK);
    fr_api_response_finish(&res);
    return doc;
}

static json_int_t number_of(const json_t *doc, size_t i, const char *key)
{
    return json_integer_value(
        json_object_get(json_array_get(json_object_get(doc, "items"), i), key));
}

/* The items of the answer are n, the first one at line `first`; it says where to go on. */
static void check_part(const char *path, size_t n, json_int_t first, const char *next)
{
    json_t *doc, *items;
    char *text;

    check_row(path);
    doc = ask_doc(GET, path, NULL, 200);
    items = json_object_get(doc, "items");
    if (CHECK_INT(json_array_size(items), n) && n > 0) {
        CHECK_INT(number_of(doc, 0, "line"), first);
        CHECK_INT(number_of(doc, n - 1, "line"), first + (json_int_t)n - 1);
    }
    text = json_dumps(json_object_get(doc, "next"), JSON_COMPACT | JSON_ENCODE_ANY);
    CHECK_TEXT(text != NULL ? text : "", next);
    free(text);
    json_decref(doc);
}

static void test_parts(void)
{
    json_t *doc, *items;
    const char *text = "";

    check_part(SEARCH "?q=hit", 1000, 1, "{\"attempt\":\"" C1 "\",\"from\":1001}");
    check_part(SEARCH "?q=hit&attempt=" C1 "&from=1001", 500, 1001, "");
    check_part(LOG C1 "/log/search?q=hit", 1000, 1, "1001");
    check_part(LOG C1 "/log/search?q=hit&from=1001", 500, 1001, "");
    check_part(LOG C1 "/log/lines", 256, 1, "");
    check_part(LOG C1 "/log/lines?from=1000&n=1000", HITS + 1 - 999, 1000, "");

    check_row("a long line");
    doc = ask_doc(GET, LOG C1 "/log/lines?from=1501", NULL, 200);
    items = json_object_get(doc, "items");
    CHECK_INT(json_array_size(items), 1);
    text = json_string_value(json_object_get(json_array_get(items, 0), "text"));
    CHECK(text != NULL && strlen(text) == 8192);
    CHECK(json_is_true(json_object_get(json_array_get(items, 0), "cut")));
    json_decref(doc);

    check_row("many marks");
    doc = ask_doc(GET, LOG C1 "/log/times", NULL, 200);
    items = json_object_get(doc, "items");
    CHECK_INT(json_array_size(items), 1000);
    CHECK_INT(json_integer_value(json_array_get(json_array_get(items, 999), 1)), 10999);
    CHECK_INT(json_integer_value(json_object_get(doc, "next")), 10 * 6 + 90 * 7 + 900 * 8);
    json_decref(doc);
    doc = ask_doc(GET, LOG C1 "/log/times?from=7890", NULL, 200);
    items = json_object_get(doc, "items");
    CHECK_INT(json_array_size(items), 500);
    CHECK_INT(json_integer_value(json_array_get(json_array_get(items, 0), 1)), 11000);
    CHECK(json_object_get(doc, "next") == NULL);
    json_decref(doc);
}

/* ---- messages ---- */

static void deliver(void *arg, const char *job, struct fr_sent *out)
{
    (void)arg, (void)job;
    *out = (struct fr_sent){.done = true};
}

static void configure(const char *text)
{
    struct fr_config *config = NULL;
    struct fr_issues issues = {0};
    char path[300];

    snprintf(path, sizeof(path), "%s/config.yaml", bed.home);
    put_file(bed.home, "config.yaml", text);
    CHECK_INT(fr_config_load(path, &config, &issues, NULL), FR_OK);
    CHECK_INT(fr_host_configure(bed.host, config, NULL), FR_OK);
    fr_config_destroy(config);
    fr_issues_finish(&issues);
}

static void check_message(int id, const char *want)
{
    char path[60], *text = NULL;
    json_t *doc;

    snprintf(path, sizeof(path), "/api/v1/deliveries/%d", id);
    for (int i = 0; i < 300; i++) { /* until the rule has made it */
        struct fr_api_response res = ask(&bed, GET, path, NULL);
        int status = res.status;

        fr_api_response_finish(&res);
        if (status == 200)
            break;
        settle_host(&bed);
    }
    doc = ask_doc(GET, path, NULL, 200);
    text = json_dumps(json_object_get(json_object_get(doc, "message"), "data"),
                      JSON_COMPACT | JSON_SORT_KEYS);
    CHECK_TEXT(text, want);
    free(text);
    json_decref(doc);
}

/* Of a long output a message has whole lines alone. */
static void check_tail(size_t bytes, size_t lines)
{
    const struct fr_notice_row notice = {
        .kind = "failed", .name = "p", .subject = "", .text = "", .run = 1};
    struct fr_arena arena = {0};
    struct fr_buf dir = {0}, text = {0};
    json_t *message, *tail;

    check_row(lines == 1 ? "output whose first line is cut" : "output that is read whole");
    while (text.n < bytes - 4)
        fr_buf_text(&text, "y");
    fr_buf_text(&text, "\nend");
    fr_home_at(bed.home, FR_HOME_RUN, run_id, &dir);
    write_beside(dir.p, "b@n1.2.log", text.p, text.n);
    message = notice_message(bed.host, &notice, "failed", &arena);
    tail =
        json_object_get(json_object_get(json_object_get(message, "data"), "first_failure"), "tail");
    CHECK_INT(json_array_size(tail), lines);
    CHECK_TEXT(json_string_value(json_array_get(tail, lines - 1)), "end");
    json_decref(message);
    fr_arena_finish(&arena);
    fr_buf_finish(&dir);
    fr_buf_finish(&text);
}

static void take_sample(const char *node, uint64_t free_bytes)
{
    struct fr_exec_up up = {.home = {{(uint8_t)node[1]}},
                            .boot = FR_STR("b"),
                            .build = FR_STR("v"),
                            .how = FR_STR("local")};
    struct fr_sample sample = {.disk_free = free_bytes};

    fr_machines_take(meters_machines(bed.host->meters),
                     &(struct fr_exec_sampled){node, &up, 5, 1, &sample}, 1000);
}

#define CONFIG                                                                                     \
    "channels: {a: {kind: webhook, url: \"http://h/a\"}, b: {kind: slack, url: \"http://h/b\"}}\n" \
    "notify:\n  - {on: [failed, disk_low], to: a}\n"

static void test_messages(void)
{
    json_t *doc;

    check_row("a failed run");
    check_message(
        1,
        "{\"ended\":\"1970-01-01T01:02:03Z\",\"first_failure\":{\"cause\":\"exit\",\"code\":3,"
        "\"node\":\"n1\",\"tail\":[\"x\\\\xff\\\\xe4\\\\xb8y\",\"é 中\",\"two, the "
        "end\"],\"task\":\"b\"},\"id\":\"aa000000000000000000000000000000\",\"outcome\":\"failed\","
        "\"params\":{\"x\":\"1=2\"},\"pipeline\":\"p\",\"reason\":\"because\",\"run\":1,"
        "\"schedule\":\"nightly\",\"started\":\"1970-01-01T00:00:01Z\",\"state\":\"over\"}");
    check_tail(8192, 2);
    check_tail(8193, 1);
    check_row("a disk");
    take_sample("n1", (uint64_t)10 << 30);
    settle_host(&bed);
    take_sample("n1", (uint64_t)3 << 30);
    check_message(
        2, "{\"subject\":\"n1\",\"text\":\"3.0 GiB are left, limits.disk_low is 10.0 GiB\"}");
    check_row("a test");
    doc = ask_doc(POST, "/api/v1/deliveries", "{\"channel\": \"b\"}", 201);
    CHECK_TEXT(json_string_value(json_object_get(doc, "kind")), "test");
    CHECK_INT(json_integer_value(json_object_get(doc, "id")), 3);
    json_decref(doc);
    check_message(3, "{\"text\":\"somebody tries whether messages of this home arrive\"}");
    check_answer(ask(&bed, POST, "/api/v1/deliveries", "{\"channel\": \"c\"}"), 404,
                 "config.yaml of the home has no channel 'c'");
    check_answer(ask(&bed, POST, "/api/v1/deliveries", "{}"), 400, "the body must be");
    check_answer(ask(&bed, GET, "/api/v1/deliveries?channel=c", NULL), 404, "no channel 'c'");
    check_answer(ask(&bed, GET, "/api/v1/deliveries?limit=0", NULL), 400,
                 "'limit' must be 1 to 200");
    check_answer(ask(&bed, GET, "/api/v1/deliveries?limit=201", NULL), 400,
                 "'limit' must be 1 to 200");
    check_answer(ask(&bed, GET, "/api/v1/deliveries?limit=1&channel=a", NULL), 200,
                 "\"next\":\"/api/v1/deliveries?limit=1&before=2&channel=a\"}");
    check_answer(ask(&bed, GET, "/api/v1/deliveries?limit=1&before=2&run=1", NULL), 200,
                 "\"next\":\"/api/v1/deliveries?limit=1&before=1&run=1\"}");
    check_answer(ask(&bed, GET, "/api/v1/deliveries?before=1", NULL), 200, "{\"items\":[]}");
    check_answer(ask(&bed, GET, "/api/v1/deliveries?state=held", NULL), 200, "{\"items\":[]}");
    check_answer(ask(&bed, GET, "/api/v1/channels", NULL), 200,
                 "{\"items\":[{\"name\":\"a\",\"kind\":\"webhook\",\"off\":\"\"},{\"name\":\"b\","
                 "\"kind\":\"slack\",\"off\":\"\"}],\"rules\":[{");
    check_row("two disks in one turn");
    take_sample("n2", (uint64_t)3 << 30);
    take_sample("n3", (uint64_t)1 << 30);
    check_message(
        4, "{\"subject\":\"n2\",\"text\":\"3.0 GiB are left, limits.disk_low is 10.0 GiB\"}");
    check_message(
        5, "{\"subject\":\"n3\",\"text\":\"1.0 GiB are left, limits.disk_low is 10.0 GiB\"}");
}

/* ---- pools, and what waits ---- */

static void add_open(int no, enum fr_run_state state, const char *pool, int64_t not_before)
{
    struct fr_run_row row = {.name = "p",
                             .source = "/p.yaml",
                             .state = state,
                             .origin = FR_ORIGIN_CLI,
                             .params = "{}",
                             .pool = pool,
                             .queued_wall = 1000,
                             .not_before_wall = not_before};

    row.id.b[0] = (uint8_t)no;
    CHECK_INT(fr_store_run_add(bed.st, &row, NULL), FR_OK);
    CHECK_INT(row.no, no);
}

static void test_pools(void)
{
    static const struct answer of_pools[] = {
        {"/api/v1/pools", 200,
         "{\"items\":[{\"name\":\"cpu\",\"limit\":3,\"used\":1,\"runs\":[4],\"waiting\":0},{"
         "\"name\":\"gpu\",\"limit\":2,\"used\":2,\"runs\":[5,2],\"waiting\":1}]}"},
        {"/api/v1/queue", 200,
         "{\"items\":[{\"no\":3,\"id\":\"03000000000000000000000000000000\",\"pipeline\":\"p\","
         "\"file\":\"/"
         "p.yaml\",\"state\":\"queued\",\"outcome\":\"\",\"reason\":\"\",\"driven\":false,"
         "\"origin\":\"cli\",\"priority\":0,\"pinned\":false,\"queued_wall\":1000,\"not_before_"
         "wall\":4102444800000,\"started_wall\":0,\"ended_wall\":0,\"retry_of\":0,\"reruns\":0,"
         "\"rerun_wall\":0,\"who\":\"\",\"why_waiting\":\"why cannot be said: run 3: its stored "
         "file cannot be read: run 3 has no pipeline that could be read: 'flowrun run /p.yaml' "
         "takes the file as it is now\"}],\"tasks\":[]}"},
        {"/api/v1/runs/3/instances?form=columns", 200,
         "{\"seq\":0,\"wall\":1000,\"tasks\":[],\"nodes\":[],\"idx\":[],\"task\":[],\"hook\":[],"
         "\"state\":\"\",\"attempt_no\":[],\"cause\":[],\"code\":[],\"reason\":[],\"unreachable\":["
         "],\"due\":[],\"node\":[],\"started\":[],\"ended\":[]}"},
    };
    const int64_t later = 4102444800000; /* 2100 */

    configure(CONFIG "pools: {cpu: 3, gpu: 2}\n");
    add_open(2, FR_RUN_RUNNING, "gpu", 0);
    add_open(3, FR_RUN_QUEUED, "gpu", later);
    add_open(4, FR_RUN_RUNNING, "cpu", 0);
    add_open(5, FR_RUN_HOOKS, "gpu", 0);
    CHECK_ANSWERS(of_pools);
}

int main(void)
{
    CHECK(setenv("TZ", "UTC", 1) == 0);
    make_home(bed.home);
    open_host(&bed);
    fr_host_stay(bed.host);
    fr_host_deliver_by(bed.host, deliver, NULL);
    configure(CONFIG "limits: {disk_low: 10GiB}\n");
    put_rows();
    CHECK_ANSWERS(of_rows);
    CHECK_ANSWERS(of_merged);
    CHECK_ANSWERS(of_found);
    CHECK_ANSWERS(of_log);
    test_parts();
    test_messages();
    test_pools();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
