/* The host's interface: requests and their answers, streams, the queue. */
#include "engine/runs/state.h"
#include "engine/stream/stream.h"
#include "engine/view/queue.h"
#include "tests/unit/host/host_bed.h"

#include <time.h>

static struct host_bed bed = HOST_BED;

static const struct {
    enum fr_api_method method;
    const char *path, *body;
    int status;
    const char *text;
} wrong_rows[] = {
    {GET, "/", NULL, 404, "there is no GET /"},
    {GET, "/api/v1/runs/", NULL, 404, "\"code\":\"not_found\""},
    {GET, "/api/v1/runs/7", NULL, 404, "problems"},
    {GET, "/api/v1/runs/7/cancel", NULL, 405, "there is no GET"},
    {PUT, "/api/v1/runs", "{}", 405, "there is no PUT"},
    {POST, "/api/v1/runs", NULL, 415, "application/json"},
    {POST, "/api/v1/runs", "{", 400, "the body"},
    {POST, "/api/v1/runs", "[]", 400, "not a JSON object"},
    {POST, "/api/v1/runs", "{}", 400, "lacks 'pipeline'"},
    {POST, "/api/v1/runs", "{\"pipelin\": 1}", 400, "unknown key 'pipelin'"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"a\", \"cwd\": \"/\"}", 400,
     "must be an absolute path"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"/\", \"id\": \"x\"}", 400,
     "32 hexadecimal digits"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"/\", \"params\": {\"a\": []}}", 400,
     "parameter 'a'"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"/\", \"secrets\": {\"a\": 1}}", 400,
     "'a' of secrets"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"/\", \"umask\": 512}", 400,
     "'umask' in the body must be 0 to 511"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"/\", \"umask\": -1}", 400,
     "'umask' in the body must be 0 to 511"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"/\", \"agent\": \"a\"}", 400,
     "'agent' in the body must be an absolute path"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"/\", \"origin\": \"x\"}", 400,
     "'origin' in the body is none of runs: 'x'"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\"}", 400, "lacks 'cwd'"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"a\"}", 400,
     "'cwd' in the body must be an absolute path, not 'a'"},
    {POST, "/api/v1/runs",
     "{\"pipeline\": \"/no\", \"cwd\": \"/\", \"umask\": 511, \"agent\": \"/a\"}", 404, "/no"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/a\", \"cwd\": \"/\", \"env\": {\"a\": 1}}", 400,
     "'a' of env"},
    {POST, "/api/v1/runs", "{\"pipeline\": \"/no/such\", \"cwd\": \"/\"}", 404, "/no/such"},
    {POST, "/api/v1/runs/7/shell", "{}", 404, "7"},
    {GET, "/api/v1/runs?limit=0", NULL, 400, "'limit' must be 1 to 200"},
    {GET, "/api/v1/runs?limit=x", NULL, 400, "a whole number, not 'x'"},
};

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof(wrong_rows) / sizeof(wrong_rows[0]); i++) {
        char row[100];

        snprintf(row, sizeof(row), "row %zu: %s %s", i, wrong_rows[i].path,
                 wrong_rows[i].body != NULL ? wrong_rows[i].body : "");
        check_row(row);
        check_answer(ask(&bed, wrong_rows[i].method, wrong_rows[i].path, wrong_rows[i].body),
                     wrong_rows[i].status, wrong_rows[i].text);
    }
    check_row("");
    struct fr_api_response res = ask(&bed, DELETE, "/api/v1/runs", "{}");
    CHECK_TEXT(res.allow.p, "GET, POST");
    fr_api_response_finish(&res);
}

/* What a body is said to be, and how deep it may be: no submit is read but of JSON. */
static void test_bodies(void)
{
    static const struct {
        const char *type, *body;
        int status;
        const char *text;
    } rows[] = {
        {"Application/JSON", "[]", 400, "not a JSON object"},
        {"application/json; charset=utf-8", "[]", 400, "not a JSON object"},
        {"application/json ", "[]", 400, "not a JSON object"},
        {"application/json\t;", "[]", 400, "not a JSON object"},
        {"application/jsonl", "[]", 415, "must be application/json"},
        {"application/jso", "[]", 415, "must be application/json"},
        {"text/plain", "[]", 415, "must be application/json"},
        {"application/json", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
         400, "not a JSON object"},
        {"application/json", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
         400, "deeper than 32 levels"},
        {"application/json",
         "[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}"
         ",{},{},{},{},{},{},{},{},{},{}]",
         400, "not a JSON object"},
        {"application/json", "[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]", 400,
         "not a JSON object"},
        {"application/json", "[\"\\u0000\"]", 400, "the body has a NUL in a text"},
        {"application/json", "[\"x\\u0000", 400, "the body has a NUL in a text"},
        {"application/json", "[\"\\\\u0000\"]", 400, "not a JSON object"},
        {"application/json", "[\"\\u0001\"]", 400, "not a JSON object"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].type);
        bed.type = rows[i].type;
        check_answer(ask(&bed, POST, "/api/v1/runs", rows[i].body), rows[i].status, rows[i].text);
    }
    bed.type = "application/json";
    check_row("");
}

/* A pipeline with mistakes: all of them come back. */
static void test_mistakes(void)
{
    static const char wrong[] = "name: w\ntasks:\n  a: {runn: x}\n  b: {needs: [c]}\n";
    char path[300], body[500];

    snprintf(path, sizeof(path), "%s/wrong.yaml", bed.home);
    put_file(bed.home, "wrong.yaml", wrong);
    snprintf(body, sizeof(body), "{\"pipeline\": \"%s\", \"cwd\": \"/\"}", path);
    check_answer(ask(&bed, POST, "/api/v1/runs", body), 422, "\"line\":3,\"col\":7");
    check_answer(ask(&bed, POST, "/api/v1/runs", body), 422, "\"line\":4,");
}

/* Run 1 goes on. */
static void check_going_on(void)
{
    check_row("one that goes on does not begin anew, with another file or as a retry");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/resume", "{\"file\": \"/x.yaml\"}"), 409,
                 "run 1 is still going on; cancel it first, or wait for its end");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/resume", "{\"retry\": true}"), 409,
                 "run 1 is still going on; cancel it first, or wait for its end");
    check_row("one that runs does not wait");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{\"queued\": true}"), 409,
                 "run 1 does not wait in the queue");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/priority", "{\"priority\": 3}"), 409,
                 "run 1 does not wait in the queue");
}

static void test_submit(void)
{
    make_body(&bed, ID, "");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, "\"no\":1");
    check_row("the same submit again, after its answer was lost");
    struct fr_api_response again = ask(&bed, POST, "/api/v1/runs", bed.body);
    CHECK_INT(again.status, 200);
    CHECK(strstr(again.body.p, "\"no\":1") != NULL);
    CHECK_TEXT(again.location.p, "/api/v1/runs/" ID);
    fr_api_response_finish(&again);
    make_body(&bed, OTHER, ", \"params\": {\"x\": 2, \"y\": true}");
    check_row("a parameter that the pipeline does not have");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 422, "'y'");
    make_body(&bed, OTHER, ", \"params\": {\"x\": 0.25}, \"priority\": 5, \"origin\": \"api\"");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, "\"priority\":5");
    check_answer(ask(&bed, GET, "/api/v1/runs/2/params", NULL), 200, "0.25");
    check_row("the audit names what was begun");
    check_answer(ask(&bed, GET, "/api/v1/audit?limit=1", NULL), 200,
                 "\"run\":2,\"name\":\"POST /api/v1/runs\",\"outcome\":\"201\"");
    check_row("");
    check_answer(ask(&bed, GET, "/api/v1/runs", NULL), 200, "\"origin\":\"api\"");
    check_answer(ask(&bed, GET, "/api/v1/runs?limit=1", NULL), 200,
                 "\"next\":\"/api/v1/runs?limit=1&"
                 "before=2\"");
    check_answer(ask(&bed, GET, "/api/v1/runs?before=2", NULL), 200, "\"no\":1");
    check_answer(ask(&bed, GET, "/api/v1/runs/" ID, NULL), 200, "\"driven\":true");
    check_answer(ask(&bed, GET, "/api/v1/runs/1/instances", NULL), 200, "\"key\":\"one@local\"");
    check_answer(ask(&bed, GET, "/api/v1/runs/1/events", NULL), 200, "\"kind\":\"running\"");
    check_row("a follower gives its secrets");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/shell", "{\"secrets\": {\"TOKEN\": 1}}"), 400,
                 "'TOKEN' of secrets");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/shell", "{\"env\": {}}"), 400,
                 "unknown key 'env'");
    check_answer(
        ask(&bed, POST, "/api/v1/runs/1/shell", "{\"secrets\": {\"TOKEN\": \"planted-secret\"}}"),
        202, "\"no\":1");
    check_row("bodies that fit no request");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/abandon", "{\"nod\": \"local\"}"), 400,
                 "the body must be {\\\"node\\\": \\\"name\\\"}");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{\"queued\": 1}"), 400,
                 "the body must be {} or {\\\"queued\\\": true}");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/priority", "{}"), 400, "{\\\"priority\\\": N}");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/pin", "{\"pinned\": true, \"x\": 1}"), 400,
                 "the body must be {\\\"pinned\\\": true} or false");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/resume", "{\"abandon\": [1]}"), 400,
                 "'abandon' in the body must be a list of names of nodes");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/resume", "{\"abandon\": {}}"), 400,
                 "'abandon' in the body must be an array");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/resume", "{\"retry\": 1}"), 400,
                 "'retry' in the body must be true or false");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/resume", "{\"file\": \"x.yaml\"}"), 400,
                 "'file' in the body must be an absolute path");
    check_going_on();
    check_row("a row alone");
    check_answer(ask(&bed, GET, "/api/v1/runs/1?form=row", NULL), 200, ",\"seq\":");
    check_row("");
    check_answer(ask(&bed, GET, "/api/v1/runs/1/attempts/" ID "/log", NULL), 404,
                 "no such attempt");
    check_answer(ask(&bed, GET, "/api/v1/runs/1/attempts/x/log", NULL), 404, "there is nothing at");
}

/* What did not change is not sent again. */
static void test_etag(void)
{
    struct fr_api_response first = ask(&bed, GET, "/api/v1/runs/1", NULL), again = {0};
    struct fr_api_request req = {.method = GET,
                                 .path = "/api/v1/runs/1",
                                 .content_type = "",
                                 .range = "",
                                 .if_none_match = first.etag.p,
                                 .last_event_id = ""};

    bed.api.answer(bed.api.self, &req, &again);
    CHECK_INT(again.status, 304);
    CHECK_INT(again.body.n, 0);
    fr_api_response_finish(&again);
    req.if_none_match = "\"0\"";
    bed.api.answer(bed.api.self, &req, &again);
    CHECK_INT(again.status, FR_API_LATER); /* it is read again */
    fr_api_response_finish(&again);
    fr_api_response_finish(&first);
}

/* What a reader needs to keep an instance's row: an event of the changes, whole or not at all. */
static void test_changes(void)
{
    static const struct {
        const char *what, *reason, *want;
        int64_t wall;
        struct fr_row row;
    } rows[] = {
        {"a start", "", "[0,\"starting\",1,\"\",0,\"\",5000,0,0]", 5000, {.state = FR_ST_STARTING}},
        {"an exit",
         "exit code 3",
         "[0,\"failed\",1,\"exit\",3,\"exit code 3\",5001,0,0]",
         5001,
         {.state = FR_ST_FAILED, .cause = FR_CAUSE_EXIT, .code = 3}},
        {"a retry",
         "said \"no\"\n\\",
         "[0,\"retrying\",1,\"signal\",9,\"said \\\"no\\\"\\n\\\\\",5002,65002,0]",
         5002,
         {.state = FR_ST_RETRYING, .cause = FR_CAUSE_SIGNAL, .code = 9, .delay_ms = 60000}},
        {"a node that does not answer",
         "",
         "[0,\"running\",1,\"\",0,\"\",5003,0,1]",
         5003,
         {.state = FR_ST_RUNNING, .unreachable = true, .delay_ms = 7}},
        {"no text", "\xff", NULL, 5004, {.state = FR_ST_FAILED}},
    };
    struct host_run *h = host_find_no(bed.host, 1);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reader r = {0};
        struct fr_note note = {.kind = FR_NOTE_STATE,
                               .row = rows[i].row,
                               .text = rows[i].reason,
                               .wall_ms = rows[i].wall,
                               .seq = 5};

        check_row(rows[i].what);
        note.row.attempt_no = 1;
        CHECK_INT(follow(&bed, &r, "1", ""), 200);
        stream_part.note(h, h->run, &note);
        stream_part.of_run[HOST_RUN_LEAVES](h);
        CHECK(has(&r, rows[i].want != NULL ? rows[i].want : "event: reset\ndata: {\"run\":1}"));
        CHECK(has(&r, "event: inst") == (rows[i].want != NULL));
        bed.api.gone(bed.api.self, r.s);
        fr_buf_finish(&r.got);
    }
    check_row("");
}

/* A stream tells what a cancel does; one that comes again gets what it has not seen. */
static void test_stream(void)
{
    struct reader r = {0}, later = {0}, other = {0}, lost = {0};
    struct reader stuck = {.queued = (256 << 10) + 1}, slow = {.queued = 256 << 10};
    const char *id;
    char last[40] = "";

    CHECK_INT(follow(&bed, &r, "9", ""), 404);
    CHECK(r.s == NULL);
    CHECK_INT(follow(&bed, &r, "1", ""), 200);
    CHECK_INT(follow(&bed, &other, "2", ""), 200);
    CHECK(has(&r, "event: hello\ndata: {\"epoch\":"));
    check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{}"), 202, "\"state\":");
    turn_until(&bed, &r, "\"outcome\":\"cancelled\"");
    CHECK(has(
        &r,
        "event: inst\ndata: {\"run\":1,\"seq\":6,\"changes\":[[0,\"cancelled\",0,\"\",0,\"\","));
    CHECK(has(&r, ",0,0],[1,\"cancelled\",0,\"\",0,\"\","));
    CHECK(has(&r, ",\"text\":\"cancelled from another shell: stopping all tasks\"}\n\n"));
    CHECK(
        has(&r, "event: run\ndata: {\"run\":1,\"state\":\"over\",\"outcome\":\"cancelled\"}\n\n"));
    CHECK(!has(&other, "\"run\":1"));
    check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{}"), 409, "run 1 is over (cancelled)");

    check_row("a stream that comes again");
    id = strstr(r.got.p, "\nid: ");
    CHECK(id != NULL);
    snprintf(last, sizeof(last), "%.*s", (int)strcspn(id + 5, "\n"), id + 5);
    CHECK_INT(follow(&bed, &later, "1", last), 200);
    CHECK(has(&later, "\"outcome\":\"cancelled\""));
    check_row("one that saw another host");
    CHECK_INT(follow(&bed, &lost, "1", "999.1"), 200);
    CHECK(has(&lost, "event: reset"));
    check_row("");
    bed.api.gone(bed.api.self, r.s);
    bed.api.gone(bed.api.self, later.s);
    bed.api.gone(bed.api.self, lost.s);
    fr_buf_finish(&r.got);
    fr_buf_finish(&later.got);
    fr_buf_finish(&lost.got);

    check_row("a reader that does not read");
    CHECK_INT(follow(&bed, &stuck, "2", ""), 200);
    CHECK_INT(follow(&bed, &slow, "2", ""), 200);
    check_answer(ask(&bed, POST, "/api/v1/runs/2/cancel", "{}"), 202, NULL);
    turn_until(&bed, &other, "\"outcome\":\"cancelled\"");
    CHECK(has(&stuck, "event: hello") && !has(&stuck, "\"run\":2"));
    CHECK(has(&slow, "\"outcome\":\"cancelled\""));
    bed.api.gone(bed.api.self, slow.s);
    fr_buf_finish(&slow.got);
    stuck.queued = 0;
    bed.api.drained(bed.api.self, stuck.s);
    turn_until(&bed, &stuck, "\"outcome\":\"cancelled\"");
    bed.api.gone(bed.api.self, stuck.s);
    fr_buf_finish(&stuck.got);
    check_answer(ask(&bed, POST, "/api/v1/runs/2/shell", "{}"), 409, "run 2 is not driven by this");
    check_row("");
    close_host(&bed);
    CHECK(other.closed);
    fr_buf_finish(&other.got);
}

/* What came with a submit and may not be stored is nowhere in the home. */
static void test_secret(void)
{
    static const char secret[] = "planted-secret";
    const char *const files[] = {"state.db", "state.db-wal"};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct fr_buf b = {0};
        char path[300];

        snprintf(path, sizeof(path), "%s/%s", bed.home, files[i]);
        CHECK_INT(fr_file_read(path, 64 << 20, &b, NULL), FR_OK);
        CHECK(b.n > 0 && memmem(b.p, b.n, secret, strlen(secret)) == NULL);
        fr_buf_finish(&b);
    }
}

/* ---- the queue ---- */

static const char limited[] = "name: q\n"
                              "max_active_runs: 1\n"
                              "tasks: {one: {run: 'true'}, two: {needs: [one], run: 'true'}}\n";
/* The same pipeline, with hooks: they would wait for a node. */
static const char hooks[] = "name: q\n"
                            "max_active_runs: 1\n"
                            "tasks: {one: {run: 'true'}, two: {needs: [one], run: 'true'}}\n"
                            "on_cancel: [{name: c, run: 'true'}]\n"
                            "on_exit: [{name: e, run: 'true'}]\n";

static void check_why(const char *run, int of_pipeline, int of_home, const char *want)
{
    const struct fr_limits home_limits = {.max_active_runs = of_home};
    struct fr_queue_limits limits = {.pipeline = of_pipeline, .home = &home_limits};
    struct fr_arena arena = {0};
    struct fr_run_row row;
    struct fr_buf got = {0};

    CHECK_INT(fr_store_run_find(bed.st, run, &arena, &row, NULL), FR_OK);
    CHECK_INT(fr_queue_why(bed.st, &limits, &row, &got, NULL), FR_OK);
    for (char *at = got.p; at != NULL && (at = strstr(at, "since ")) != NULL; at += 6)
        memset(at + 6, '0', 2), memset(at + 9, '0', 2); /* the time of day */
    CHECK_TEXT(got.p != NULL ? got.p : "", want);
    fr_buf_finish(&got);
    fr_arena_finish(&arena);
}

/* A time to come has its date, as the last day's has not. */
static void check_time(void)
{
    const struct fr_limits home_limits = {0};
    struct fr_queue_limits limits = {.home = &home_limits};
    struct fr_run_row row = {.id = {.b = {1}},
                             .name = "none",
                             .pool = "",
                             .origin = FR_ORIGIN_CLI,
                             .outcome = FR_OUT_NONE,
                             .not_before_wall = fr_sys.wall_ms() + 7200 * 1000};
    time_t at = (time_t)(row.not_before_wall / 1000);
    struct fr_buf got = {0};
    char want[60];
    struct tm tm;

    strftime(want, sizeof(want), "not before %Y-%m-%d %H:%M", localtime_r(&at, &tm));
    CHECK_INT(fr_queue_why(bed.st, &limits, &row, &got, NULL), FR_OK);
    CHECK_TEXT(got.p != NULL ? got.p : "", want);
    fr_buf_finish(&got);
}

/* Runs of q, one at a time: the larger priority first, then the smaller number. */
static void test_order(void)
{
    submit(&bed, "q.yaml", 3, "", "running");
    submit(&bed, "hooks.yaml", 4, "", "queued");
    submit(&bed, "q.yaml", 5, "", "queued");
    submit(&bed, "q.yaml", 6, "", "queued");
    check_answer(ask(&bed, POST, "/api/v1/runs/6/priority", "{\"priority\": 5}"), 200,
                 "\"priority\":5");
    check_row("another pipeline is not held up");
    submit(&bed, "p.yaml", 7, "", "running");
    settle_host(&bed);
    check_states(&bed, 3,
                 "3 running, 4 queued (not started), 5 queued (not started), 6 queued (not "
                 "started), 7 running");
    check_answer(ask(&bed, GET, "/api/v1/runs/4/events", NULL), 200, "\"kind\":\"queued\"");
    check_answer(ask(&bed, GET, "/api/v1/runs/4/instances", NULL), 200, "\"state\":\"waiting\"");
    check_answer(ask(&bed, POST, "/api/v1/runs/4/resume", "{\"abandon\": [\"local\"]}"), 400,
                 "run 4 is queued and holds no node");
    check_why("4", 1, 0, "max_active_runs 1 of 1: run 3 of q since 00:00");
    check_row("one ends: the largest priority, then the smallest number");
    cancel(&bed, "3");
    settle_host(&bed);
    check_states(&bed, 3,
                 "3 cancelled, 4 queued (not started), 5 queued (not started), 6 running, 7 "
                 "running");
    check_row("cancelled while it is queued: no hook either");
    cancel(&bed, "4");
    check_states(&bed, 4,
                 "4 cancelled (not started), 5 queued (not started), 6 running, 7 running");
    struct fr_api_response res = ask(&bed, GET, "/api/v1/runs/4/instances", NULL);
    CHECK(strstr(res.body.p, "\"key\":\"c@control\",\"task\":\"c\"") != NULL);
    CHECK(strstr(res.body.p, "\"state\":\"ready\"") == NULL);
    CHECK(strstr(res.body.p, "\"state\":\"skipped\"") != NULL);
    fr_api_response_finish(&res);
    check_row("");
}

/* The host dies while a run is queued: another one finds it so. */
static void test_queued_over_hosts(void)
{
    close_host(&bed);
    open_host(&bed);
    settle_host(&bed);
    check_states(&bed, 5, "5 queued (not started), 6 running, 7 running");
    check_answer(ask(&bed, POST, "/api/v1/runs/5/resume", "{}"), 202, "\"state\":\"queued\"");
    settle_host(&bed);
    check_row("a run that nobody drives keeps its place");
    check_states(&bed, 5, "5 queued (not started), 6 running, 7 running");
    check_why("5", 1, 0,
              "max_active_runs 1 of 1: run 6 of q since 00:00; no flowrun looks after run 6: "
              "'flowrun resume 6' takes over");
    check_row("it ends");
    cancel(&bed, "6");
    settle_host(&bed);
    check_states(&bed, 5, "5 running, 6 cancelled, 7 running");
    cancel(&bed, "5");
    cancel(&bed, "7");
    check_row("");
}

/* Limits of the home, and a time. */
static void test_home_limits(void)
{
    struct fr_config config = {.limits = {.max_active_runs = 2, .max_queued = 2}};
    char more[60];

    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    submit(&bed, "p.yaml", 8, "", "running");
    submit(&bed, "p.yaml", 9, "", "running");
    submit(&bed, "q.yaml", 10, "", "queued");
    submit(&bed, "p.yaml", 11, "", "queued");
    check_why("11", 0, 2,
              "limits.max_active_runs 2 of 2: run 8 of p since 00:00, run 9 of p since 00:00");
    snprintf(bed.body, sizeof(bed.body), "{\"pipeline\": \"%s/q.yaml\", \"cwd\": \"/\"}", bed.home);
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 409,
                 "the queue of this home is full: 2 runs wait (limits.max_queued is 2");
    check_row("the limit is raised");
    config.limits = (struct fr_limits){.max_active_runs = 3};
    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    settle_host(&bed);
    check_states(&bed, 8, "8 running, 9 running, 10 running, 11 queued (not started)");
    check_row("a new one does not go before one that waits for the slot that got free now");
    cancel(&bed, "8");
    submit(&bed, "p.yaml", 12, "", "queued");
    settle_host(&bed);
    check_states(&bed, 9, "9 running, 10 running, 11 running, 12 queued (not started)");
    check_row("no limit, but a time");
    CHECK_INT(fr_host_configure(bed.host, &(struct fr_config){0}, NULL), FR_OK);
    settle_host(&bed);
    snprintf(more, sizeof(more), ", \"not_before_wall\": %lld",
             (long long)fr_sys.wall_ms() + 3600000);
    submit(&bed, "p.yaml", 13, more, "queued");
    settle_host(&bed);
    check_states(&bed, 12, "12 running, 13 queued (not started)");
    bed_shift(3600000);
    fr_sys.wall_ms = bed_wall_ms;
    CHECK_INT(fr_host_configure(bed.host, &(struct fr_config){0}, NULL), FR_OK);
    settle_host(&bed);
    check_states(&bed, 12, "12 running, 13 running");
    fr_sys.wall_ms = fr_sys_real.wall_ms;
    check_row("");
}

/* A retry waits as a new run does, over hosts too; cancelled it is over again. */
static void test_retry_waits(void)
{
    static const char retry[] = "{\"retry\": true, \"from\": \"one\"}";

    cancel(&bed, "10");
    check_row("a retry without anything in its way");
    check_answer(ask(&bed, POST, "/api/v1/runs/10/resume", retry), 202, NULL);
    settle_host(&bed);
    check_answer(ask(&bed, GET, "/api/v1/runs/10", NULL), 200, "\"state\":\"running\"");
    cancel(&bed, "10");
    check_row("it waits");
    submit(&bed, "q.yaml", 14, "", "running");
    check_answer(ask(&bed, POST, "/api/v1/runs/10/resume", "{\"retry\": true, \"from\": \"x\"}"),
                 400, "the run has no task 'x'");
    check_answer(ask(&bed, POST, "/api/v1/runs/10/resume", retry), 202, "\"state\":\"queued\"");
    check_why("10", 1, 0, "max_active_runs 1 of 1: run 14 of q since 00:00");
    check_answer(ask(&bed, GET, "/api/v1/runs/10/events", NULL), 200, "\"kind\":\"queued\"");
    submit(&bed, "q.yaml", 15, ", \"priority\": -1", "queued");
    check_row("another host finds it so");
    close_host(&bed);
    open_host(&bed);
    check_answer(ask(&bed, POST, "/api/v1/runs/10/resume", retry), 400, "run 10 is not over");
    check_answer(ask(&bed, POST, "/api/v1/runs/10/resume", "{}"), 202, "\"state\":\"queued\"");
    check_answer(ask(&bed, POST, "/api/v1/runs/15/resume", "{}"), 202, "\"state\":\"queued\"");
    cancel(&bed, "14");
    settle_host(&bed);
    check_answer(ask(&bed, GET, "/api/v1/runs/10", NULL), 200, "\"state\":\"running\"");
    check_answer(ask(&bed, GET, "/api/v1/runs/10/instances", NULL), 200, "\"state\":\"ready\"");
    check_answer(ask(&bed, GET, "/api/v1/runs/15", NULL), 200, "\"state\":\"queued\"");
    check_row("cancelled while it waits");
    cancel(&bed, "10");
    settle_host(&bed);
    check_answer(ask(&bed, GET, "/api/v1/runs/15", NULL), 200, "\"state\":\"running\"");
    check_answer(ask(&bed, POST, "/api/v1/runs/10/resume", retry), 202, "\"state\":\"queued\"");
    cancel(&bed, "10");
    check_answer(ask(&bed, GET, "/api/v1/runs/10", NULL), 200, "\"outcome\":\"cancelled\"");
    check_row("and once more, with nothing in its way");
    cancel(&bed, "15");
    check_answer(ask(&bed, POST, "/api/v1/runs/10/resume", retry), 202, NULL);
    settle_host(&bed);
    check_answer(ask(&bed, GET, "/api/v1/runs/10", NULL), 200, "\"state\":\"running\"");
    cancel(&bed, "10");
    check_row("");
}

static void test_queue(void)
{
    put_file(bed.home, "q.yaml", limited);
    put_file(bed.home, "hooks.yaml", hooks);
    open_host(&bed);
    test_order();
    check_row("a time");
    check_time();
    test_queued_over_hosts();
    test_home_limits();
    test_retry_waits();
    close_host(&bed);
    check_sound(bed.home);
}

int main(void)
{
    make_pipelines(&bed);
    open_host(&bed);
    test_wrong();
    test_bodies();
    test_mistakes();
    test_submit();
    test_etag();
    test_changes();
    test_stream();
    test_secret();
    test_queue();
    remove_home(bed.home);
    return check_done();
}
