/* Traces of runs: which spans there are, with their times, parents, attributes, links and events.
 */
#include "engine/notify/trace.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "tests/unit/store/store_bed.h"

#include <string.h>

static char home[BED_HOME];

static struct fr_store *st;

static struct fr_run_row run = {.id = {.b = {0xaa}},
                                .name = "p",
                                .source = "/p.yaml",
                                .state = FR_RUN_OVER,
                                .outcome = FR_OUT_FAILED,
                                .reason = "because",
                                .origin = FR_ORIGIN_SCHEDULE,
                                .params = "{}",
                                .queued_wall = 500,
                                .started_wall = 1000,
                                .ended_wall = 9000,
                                .at_ms = 3723000};

static const struct fr_inst_row insts[] = {
    {.idx = 0, .key = "a@n1", .task = "a", .node = "n1", .state = FR_ST_SUCCEEDED},
    {.idx = 1, .key = "g@n1", .task = "g", .node = "n1", .state = FR_ST_SUCCEEDED},
    {.idx = 2, .key = "g@n2", .task = "g", .node = "n2", .state = FR_ST_SUCCEEDED},
    {.idx = 3, .key = "c@n1", .task = "c", .node = "n1", .state = FR_ST_CANCELLED},
    {.idx = 4, .key = "t@n1", .task = "t", .node = "n1", .state = FR_ST_SUCCEEDED},
    {.idx = 5,
     .key = "t@n2",
     .task = "t",
     .node = "n2",
     .state = FR_ST_TIMED_OUT,
     .cause = FR_CAUSE_TIMEOUT,
     .code = 9},
    {.idx = 6, .key = "u@n1", .task = "u", .node = "n1", .state = FR_ST_UPSTREAM_FAILED},
    {.idx = 7, .key = "l@n1", .task = "l", .node = "n1", .state = FR_ST_RUNNING},
    {.idx = 8, .key = "v@n1", .task = "v", .node = "n1", .state = FR_ST_FAILED},
    {.idx = 9, .key = "v@n2", .task = "v", .node = "n2", .state = FR_ST_RUNNING},
};

static const struct fr_attempt_row attempts[] = {
    {.id = {.b = {1}},
     .idx = 0,
     .no = 1,
     .node = "n1",
     .state = FR_ST_FAILED,
     .cause = FR_CAUSE_EXIT,
     .code = 3,
     .reason = "bad\x1b",
     .log = "",
     .started_wall = 1100,
     .ended_wall = 2000},
    {.id = {.b = {2}},
     .idx = 0,
     .no = 2,
     .node = "n1",
     .state = FR_ST_SUCCEEDED,
     .cause = FR_CAUSE_EXIT,
     .log = "",
     .started_wall = 2500,
     .ended_wall = 3000},
    {.id = {.b = {3}},
     .idx = 1,
     .no = 1,
     .generation = 1,
     .node = "n1",
     .state = FR_ST_LOST,
     .cause = FR_CAUSE_LOST,
     .code = 0,
     .log = "",
     .started_wall = 1200,
     .ended_wall = 1500},
    {.id = {.b = {4}},
     .idx = 1,
     .no = 2,
     .generation = 2,
     .node = "n1",
     .state = FR_ST_SUCCEEDED,
     .cause = FR_CAUSE_EXIT,
     .log = "",
     .started_wall = 1600,
     .ended_wall = 2100},
    {.id = {.b = {5}},
     .idx = 2,
     .no = 1,
     .generation = 1,
     .rank = 1,
     .node = "n2",
     .state = FR_ST_STOP_UNPROVEN,
     .cause = FR_CAUSE_GANG_PEER,
     .log = "",
     .started_wall = 1150,
     .ended_wall = 1550},
    {.id = {.b = {6}},
     .idx = 2,
     .no = 2,
     .generation = 2,
     .rank = 1,
     .node = "n2",
     .state = FR_ST_SUCCEEDED,
     .cause = FR_CAUSE_EXIT,
     .log = "",
     .started_wall = 1650,
     .ended_wall = 2050},
    {.id = {.b = {7}},
     .idx = 3,
     .no = 1,
     .node = "n1",
     .state = FR_ST_CANCELLED,
     .cause = FR_CAUSE_STOPPED,
     .log = "",
     .started_wall = 4000,
     .ended_wall = 4100},
    {.id = {.b = {8}},
     .idx = 4,
     .no = 1,
     .node = "n1",
     .state = FR_ST_SUCCEEDED,
     .cause = FR_CAUSE_EXIT,
     .log = "",
     .started_wall = 5000,
     .ended_wall = 5100},
    {.id = {.b = {9}},
     .idx = 5,
     .no = 1,
     .node = "n2",
     .state = FR_ST_TIMED_OUT,
     .cause = FR_CAUSE_TIMEOUT,
     .code = 9,
     .log = "",
     .started_wall = 5000,
     .ended_wall = 6000},
    {.id = {.b = {10}},
     .idx = 7,
     .no = 1,
     .node = "n1",
     .state = FR_ST_SUCCEEDED,
     .log = "",
     .started_wall = 7000,
     .ended_wall = 7100},
    {.id = {.b = {11}},
     .idx = 7,
     .no = 2,
     .node = "n1",
     .state = FR_ST_RUNNING,
     .log = "",
     .started_wall = 8000},
    {.id = {.b = {12}},
     .idx = 8,
     .no = 1,
     .generation = 1,
     .node = "n1",
     .state = FR_ST_SUCCEEDED,
     .log = "",
     .started_wall = 8100,
     .ended_wall = 8200},
    {.id = {.b = {13}},
     .idx = 9,
     .no = 1,
     .generation = 1,
     .rank = 1,
     .node = "n2",
     .state = FR_ST_RUNNING,
     .log = "",
     .started_wall = 8100},
};

static const struct fr_event_row events[] = {
    {.wall = 600, .idx = -1, .kind = "ready"},
    {.wall = 1010, .idx = 0, .kind = "ready"},
    {.wall = 1210, .idx = 1, .kind = "running", .attempt_no = 1},
    {.wall = 1130, .idx = 0, .kind = "running", .attempt_no = 1},
    {.wall = 1140, .idx = 0, .kind = "running", .attempt_no = 1},
    {.wall = 1500, .idx = 0, .kind = "unreachable", .attempt_no = 1},
    {.wall = 1600, .idx = 0, .kind = "reachable", .attempt_no = 1},
    {.wall = 2001, .idx = 0, .kind = "reachable", .attempt_no = 1}, /* it is over */
    {.wall = 2400, .idx = 0, .kind = "ready"},
    {.wall = 2600, .idx = 0, .kind = "running", .attempt_no = 2},
    {.wall = 2700, .idx = 0, .kind = "log", .attempt_no = 2},
    {.wall = 5000, .idx = 4, .kind = "running", .attempt_no = 1},
    {.wall = 5050, .idx = 5, .kind = "running", .attempt_no = 1},
};

static void put_rows(void)
{
    CHECK_INT(fr_store_run_add(st, &run, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(insts) / sizeof(insts[0]); i++)
        CHECK_INT(fr_store_inst_put(st, run.id, &insts[i], NULL), FR_OK);
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
        CHECK_INT(fr_store_attempt_put(st, run.id, &attempts[i], NULL), FR_OK);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        CHECK_INT(fr_store_event_add(st, run.id, &events[i], NULL), FR_OK);
}

static const char *text_of(const json_t *doc, const char *key)
{
    const char *text = json_string_value(json_object_get(doc, key));

    return text != NULL ? text : "";
}

static json_t *spans_of(const json_t *batch)
{
    const json_t *resource = json_array_get(json_object_get(batch, "resourceSpans"), 0);

    return json_object_get(json_array_get(json_object_get(resource, "scopeSpans"), 0), "spans");
}

/* "1.500" s of "1500000000" ns */
static void put_time(struct fr_buf *out, const char *ns)
{
    size_t n = strlen(ns);

    CHECK(n > 6 && strcmp(ns + n - 6, "000000") == 0);
    fr_buf_add(out, ns, n > 6 ? n - 6 : 0);
}

/* NAME in PARENT START-END, then what else there is. */
static void put_span(struct fr_buf *out, const json_t *spans, const json_t *s)
{
    const char *parent = text_of(s, "parentSpanId"), *in = parent[0] != '\0' ? "?" : "-";
    const json_t *status = json_object_get(s, "status"), *item;
    size_t i;

    CHECK_TEXT(text_of(s, "traceId"), "aa000000000000000000000000000000");
    CHECK_INT(strlen(text_of(s, "spanId")), 16);
    json_array_foreach(spans, i, item) if (strcmp(text_of(item, "spanId"), parent) == 0) in =
        text_of(item, "name");
    fr_buf_fmt(out, "%s in %s ", text_of(s, "name"), in);
    put_time(out, text_of(s, "startTimeUnixNano"));
    fr_buf_text(out, "-");
    put_time(out, text_of(s, "endTimeUnixNano"));
    if (status != NULL)
        fr_buf_fmt(out, " %d:%s", (int)json_integer_value(json_object_get(status, "code")),
                   text_of(status, "message"));
    json_array_foreach(json_object_get(s, "attributes"), i, item)
    {
        const json_t *value = json_object_get(item, "value");

        fr_buf_fmt(out, " %s=%s%s", strrchr(text_of(item, "key"), '.') + 1,
                   text_of(value, "stringValue"), text_of(value, "intValue"));
    }
    json_array_foreach(json_object_get(s, "links"), i, item)
        fr_buf_fmt(out, " after %s", text_of(item, "spanId"));
    json_array_foreach(json_object_get(s, "events"), i, item)
    {
        fr_buf_fmt(out, " %s ", text_of(item, "name"));
        put_time(out, text_of(item, "timeUnixNano"));
    }
    fr_buf_text(out, "\n");
}

static const char *const want[] = {
    "p in - 500-9000 2:because name=p id=aa000000000000000000000000000000 result=failure run=1 "
    "origin=schedule time=1970-01-01T01:02:03Z\n",
    "queued in p 500-1000\n",
    "a in p 1100-3000 name=a\n",
    "a@n1 in a 1100-2000 2:bad\\x1b name=a id=0100000000000000 result=failure node=n1 rank=0 "
    "generation=0 attempt=1 cause=exit exit_code=3 unreachable 1500 reachable 1600\n",
    "wait in a 1010-1100\n",
    "start in a@n1 1100-1130\n",
    "a@n1 in a 2500-3000 name=a id=0200000000000000 result=success node=n1 rank=0 generation=0 "
    "attempt=2 cause=exit exit_code=0 after 0100000000000000\n",
    "wait in a 2400-2500\n",
    "start in a@n1 2500-2600\n",
    "g in p 1150-2100 name=g\n",
    "generation in g 1150-1550 name=g generation=1\n",
    "generation in g 1600-2100 name=g generation=2\n",
    "g@n1 in generation 1200-1500 2:lost 0 name=g id=0300000000000000 result=failure node=n1 "
    "rank=0 generation=1 attempt=1 cause=lost\n",
    "start in g@n1 1200-1210\n",
    "g@n1 in generation 1600-2100 name=g id=0400000000000000 result=success node=n1 rank=0 "
    "generation=2 attempt=2 cause=exit exit_code=0 after 0300000000000000\n",
    "g@n2 in generation 1150-1550 2:gang_peer 0 name=g id=0500000000000000 result=failure node=n2 "
    "rank=1 generation=1 attempt=1 cause=gang_peer\n",
    "g@n2 in generation 1650-2050 name=g id=0600000000000000 result=success node=n2 rank=1 "
    "generation=2 attempt=2 cause=exit exit_code=0 after 0500000000000000\n",
    "c in p 4000-4100 name=c\n",
    "c@n1 in c 4000-4100 name=c id=0700000000000000 result=cancellation node=n1 rank=0 "
    "generation=0 attempt=1 cause=stopped\n",
    "t in p 5000-6000 2:timeout 9 name=t\n",
    "t@n1 in t 5000-5100 name=t id=0800000000000000 result=success node=n1 rank=0 generation=0 "
    "attempt=1 cause=exit exit_code=0\n",
    "t@n2 in t 5000-6000 2:timeout 9 name=t id=0900000000000000 result=timeout node=n2 rank=0 "
    "generation=0 attempt=1 cause=timeout\n",
    "start in t@n2 5000-5050\n",
    "l@n1 in ? 7000-7100 name=l id=0a00000000000000 result=success node=n1 rank=0 generation=0 "
    "attempt=1\n",
    "v@n1 in ? 8100-8200 name=v id=0c00000000000000 result=success node=n1 rank=0 generation=1 "
    "attempt=1\n",
};

static void test_spans(void)
{
    json_t *doc = NULL, *spans, *item;
    size_t i;

    check_row("spans");
    CHECK_INT(fr_trace_run(st, &run, &doc, NULL), FR_OK);
    CHECK_INT(json_array_size(doc), 1);
    spans = spans_of(json_array_get(doc, 0));
    CHECK_INT(json_array_size(spans), sizeof(want) / sizeof(want[0]));
    json_array_foreach(spans, i, item)
    {
        struct fr_buf line = {0};

        put_span(&line, spans, item);
        CHECK_TEXT(line.p, i < sizeof(want) / sizeof(want[0]) ? want[i] : "");
        fr_buf_finish(&line);
    }
    json_decref(doc);
}

/* More spans than one request takes: the run's, and two of each of its tasks. */
static void test_batches(void)
{
    enum { TASKS = 300 };
    struct fr_run_row many = run;
    char host[256], name[400], *text;
    json_t *doc = NULL, *first;

    check_row("batches");
    many.id.b[0] = 0xbb;
    many.queued_wall = many.at_ms = 0; /* it never waited, and no schedule made it */
    many.origin = FR_ORIGIN_CLI;
    CHECK_INT(fr_store_begin(st, NULL), FR_OK);
    CHECK_INT(fr_store_run_add(st, &many, NULL), FR_OK);
    for (int i = 0; i < TASKS; i++) {
        char task[20];
        struct fr_inst_row inst = {
            .idx = i, .key = task, .task = task, .node = "n", .state = FR_ST_SUCCEEDED};
        struct fr_attempt_row at = {.id = {.b = {1, (uint8_t)(i / 256), (uint8_t)i}},
                                    .idx = i,
                                    .no = 1,
                                    .node = "n",
                                    .state = FR_ST_SUCCEEDED,
                                    .log = "",
                                    .started_wall = 2000,
                                    .ended_wall = 3000};

        snprintf(task, sizeof(task), "t%d", i);
        CHECK_INT(fr_store_inst_put(st, many.id, &inst, NULL), FR_OK);
        CHECK_INT(fr_store_attempt_put(st, many.id, &at, NULL), FR_OK);
    }
    CHECK_INT(fr_store_commit(st, NULL), FR_OK);
    CHECK_INT(fr_trace_run(st, &many, &doc, NULL), FR_OK);
    CHECK_INT(json_array_size(doc), 2);
    CHECK_INT(json_array_size(spans_of(json_array_get(doc, 0))), FR_TRACE_BATCH);
    CHECK_INT(json_array_size(spans_of(json_array_get(doc, 1))), 1 + 2 * TASKS - FR_TRACE_BATCH);
    first = json_array_get(spans_of(json_array_get(doc, 0)), 0);
    CHECK_TEXT(text_of(first, "startTimeUnixNano"), "1000000000");
    text = json_dumps(json_object_get(first, "attributes"), JSON_COMPACT);
    CHECK(strstr(text, "\"cli\"") != NULL && strstr(text, "schedule.time") == NULL);
    free(text);
    json_decref(doc);

    check_row("none");
    doc = fr_trace_none();
    CHECK_INT(gethostname(host, sizeof(host)), 0);
    snprintf(name, sizeof(name), "{\"key\":\"host.name\",\"value\":{\"stringValue\":\"%s\"}}",
             host);
    text = json_dumps(doc, JSON_COMPACT);
    CHECK(strstr(text, name) != NULL);
    free(text);
    CHECK_INT(json_array_size(doc), 1);
    CHECK(spans_of(json_array_get(doc, 0)) != NULL);
    CHECK_INT(json_array_size(spans_of(json_array_get(doc, 0))), 0);
    json_decref(doc);
}

int main(void)
{
    make_home(home);
    st = open_store(home);
    put_rows();
    test_spans();
    test_batches();
    fr_store_close(st);
    remove_home(home);
    return check_done();
}
