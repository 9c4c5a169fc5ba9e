/* What the host's interface shows of runs, pipelines, logs and the queue: by requests, no sockets.
 */
#include "engine/answer/access.h"
#include "engine/host/host.h"
#include "engine/runs/state.h"
#include "engine/store/occurrences.h"
#include "engine/stream/feed.h"
#include "tests/unit/host/host_bed.h"

#include <errno.h>

static struct host_bed bed = HOST_BED;

static const char *env(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "TOKEN") == 0 ? "planted-secret" : "";
}

struct row {
    const char *path;
    int status;
    const char *text; /* in the answer */
};

static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct fr_api_response res;

        check_row(rows[i].path);
        res = ask(&bed, GET, rows[i].path, NULL);
        CHECK_INT(res.status, rows[i].status);
        if (!CHECK(res.body.p != NULL && strstr(res.body.p, rows[i].text) != NULL))
            printf("   %s\n", res.body.p != NULL ? res.body.p : "(none)");
        CHECK(res.body.p == NULL || strstr(res.body.p, "planted-secret") == NULL);
        fr_api_response_finish(&res);
    }
}

static const struct row of_runs[] = {
    {"/api/v1/runs", 200, "\"counts\":{\"ready\":1,\"waiting\":1}"},
    {"/api/v1/runs?state=live", 200, "\"no\":1,"},
    {"/api/v1/runs?state=failed", 200, "{\"items\":[]}"},
    {"/api/v1/runs?pipeline=p", 200, "\"no\":1,"},
    {"/api/v1/runs?pipeline=q", 200, "{\"items\":[]}"},
    {"/api/v1/runs?origin=api", 200, "\"no\":1,"},
    {"/api/v1/runs?origin=schedule", 200, "{\"items\":[]}"},
    {"/api/v1/runs?q=P", 200, "\"no\":1,"},
    {"/api/v1/runs?q=2", 200, "{\"items\":[]}"},
    {"/api/v1/runs?until=1", 200, "{\"items\":[]}"},
    {"/api/v1/runs?since=1", 200, "\"no\":1,"},
    {"/api/v1/runs?schedule=3", 200, "{\"items\":[]}"},
    {"/api/v1/runs?count=1", 200, "\"count\":1"},
    {"/api/v1/runs?state=", 200, "\"no\":1,"},
    {"/api/v1/runs?state=FAILED", 400,
     "'state' must be live, running, cancelling, hooks, queued, succeeded, failed or cancelled, "
     "not "
     "'FAILED'"},
    {"/api/v1/runs?state=running cancelling", 400, "'state' must be live,"},
    {"/api/v1/runs?origin=nosuch", 400,
     "'origin' must be cli, api, schedule, catchup, backfill or retry, not 'nosuch'"},
    {"/api/v1/runs?sort=", 400, "'sort' must be newest, oldest, longest, shortest or ended"},
    {"/api/v1/runs?count=2", 400, "'count' must be 0 or 1, not '2'"},
    {"/api/v1/runs?limit=0", 400, "'limit' must be 1 to 200"},
    {"/api/v1/runs?limit=201", 400, "'limit' must be 1 to 200"},
    {"/api/v1/runs?before=x", 400, "'before' must be a whole number"},
    {"/api/v1/runs/1", 200,
     "\"tasks\":[{\"name\":\"one\",\"hook\":\"\",\"counts\":{\"ready\":1}},{\"name\":\"two\","},
    {"/api/v1/runs/1/instances", 200, "\"key\":\"one@local\""},
    {"/api/v1/runs/1/instances?task=two", 200, "\"items\":[{\"idx\":1,"},
    {"/api/v1/runs/1/instances?state=failed", 200, "\"items\":[]"},
    {"/api/v1/runs/1/instances?form=columns", 200,
     "\"tasks\":[\"one\",\"two\"],\"nodes\":[\"local\"],\"idx\":[0,2],"},
    {"/api/v1/runs/1/instances?task=&state=&node=", 200, "\"key\":\"two@local\""},
    {"/api/v1/runs/1/instances?form=x", 400, "'form' must be columns or rows"},
    {"/api/v1/runs/1/instances?state=fialed", 400, "'state' must be waiting, ready, starting,"},
    {"/api/v1/runs/1/instances?state=queued", 400, "skipped or upstream_failed, not 'queued'"},
    {"/api/v1/runs/1/log?times=s", 400, "'times' must be 1 or ms, not 's'"},
    {"/api/v1/runs/1/log/search?re=yes", 400, "'re' must be 1, not 'yes'"},
    {"/api/v1/runs/1/metrics?x=loss", 400, "'x' must be step, tokens, time or epoch"},
    {"/api/v1/runs/1/spec?form=then", 400, "'form' must be now, not 'then'"},
    {"/api/v1/runs/1/graph?apart=2", 400, "'apart' must be numbers of tasks below 2, not '2'"},
    {"/api/v1/runs/1/graph?apart=0,-1", 400, "not '-1'"},
    {"/api/v1/runs/1/graph?apart=0x,1", 400, "not '0x'"},
    {"/api/v1/runs/1/graph?apart=0,1", 200, "\"edges\":[{\"from\":0,\"to\":1,"},
    {"/api/v1/runs/1/graph", 200, "\"edges\":[{\"from\":0,\"to\":1,\"critical\":true,"},
    {"/api/v1/runs/1/params", 200,
     "\"y\",\"type\":\"int\",\"value\":\"3\",\"default\":\"3\",\"help\":\"many\",\"from\":"
     "\"default\",\"choices\":["
     "\"3\",\"4\"],\"required\":false,\"secret\":false},{\"name\":\"s\",\"type\":\"secret\","
     "\"value\":\"•••\",\"from\":"
     "\"env\",\"secret\":true}]}"},
    {"/api/v1/runs/1/spec", 200, "\"text\":\"name: p\\nparams:"},
    {"/api/v1/runs/1/spec?form=now", 200, "\"text\":\"name: p\\nparams:"},
    {"/api/v1/runs/1/outputs", 200, "{\"items\":[]}"},
    {"/api/v1/runs/1/artifacts", 200, "{\"items\":[]}"},
    {"/api/v1/runs/1/elsewhere", 404, "there is no GET"},
    {"/api/v1/runs/9/graph", 404, "there is no run '9'"},
    {"/api/v1/pipelines", 200, "\"name\":\"p\",\"file\":\""},
    {"/api/v1/pipelines/p", 200, "\"graph\":{\"width\":"},
    {"/api/v1/pipelines/q", 404, "there is no pipeline 'q'"},
    {"/api/v1/pipelines/p/history", 200, "\"states\":\"ew\""},
    {"/api/v1/pipelines/q/history", 404, "there is no pipeline 'q'"},
    {"/api/v1/pipelines/p/else", 404, "there is nothing at"},
    {"/api/v1/queue", 200,
     "\"items\":[],\"tasks\":[{\"run\":1,\"key\":\"one@local\",\"task\":\"one\",\"node\":\"local\","
     "\"why_waiting\":\"waits for the connection to local\"}]}"},
};

/* Instants of a schedule that made no run; those that did, and what is of another time or pipeline,
 * are none. */
static void test_gaps(void)
{
    struct fr_schedule_row s = {
        .source = "/p.yaml", .name = "n", .pipeline = "p", .state = FR_SCHEDULE_ACTIVE};
    struct fr_schedule_row other = {
        .source = "/q.yaml", .name = "n", .pipeline = "q", .state = FR_SCHEDULE_ACTIVE};
    int64_t now = fr_sys.wall_ms() + 60000;
    struct fr_occurrence_row fires[] = {
        {.at_ms = 1000, .first_ms = 1000, .count = 1, .decision = FR_FATE_MISSED},
        {.at_ms = now, .first_ms = now - 10, .count = 3, .decision = FR_FATE_SKIPPED, .run = 1},
        {.at_ms = now + 1, .first_ms = now + 1, .count = 1, .decision = FR_FATE_RAN, .run = 1},
        {.at_ms = now + 2, .first_ms = now + 2, .count = 1, .decision = FR_FATE_INVALID, .run = 1}};
    char want[80];

    CHECK_INT(fr_store_begin(bed.st, NULL), FR_OK);
    CHECK_INT(fr_store_schedule_add(bed.st, &s, NULL), FR_OK);
    CHECK_INT(fr_store_schedule_add(bed.st, &other, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(fires) / sizeof(fires[0]); i++) {
        fires[i].schedule = s.id;
        CHECK_INT(fr_store_occurrence_add(bed.st, &fires[i], NULL), FR_OK);
    }
    fires[0].schedule = other.id;
    fires[0].at_ms = now;
    CHECK_INT(fr_store_occurrence_add(bed.st, &fires[0], NULL), FR_OK);
    CHECK_INT(fr_store_commit(bed.st, NULL), FR_OK);
    snprintf(want, sizeof(want), "\"gaps\":[{\"at_ms\":%lld,", (long long)now);
    check_answer(ask(&bed, GET, "/api/v1/pipelines/p/history", NULL), 200, want);
    check_answer(
        ask(&bed, GET, "/api/v1/pipelines/p/history", NULL), 200,
        "\"count\":3,\"decision\":\"skipped\",\"run\":1,\"outcome\":\"\",\"decided_wall\":0,"
        "\"note\":\"\"}]}");
    CHECK_INT(fr_store_begin(bed.st, NULL), FR_OK);
    CHECK_INT(fr_store_schedule_drop(bed.st, s.id, NULL), FR_OK);
    CHECK_INT(fr_store_schedule_drop(bed.st, other.id, NULL), FR_OK);
    CHECK_INT(fr_store_commit(bed.st, NULL), FR_OK);
}

static void check_spec(const char *path, const char *text)
{
    char sum[FR_SHA256_TEXT], want[100];

    fr_sha256(text, strlen(text), sum);
    (void)snprintf(want, sizeof(want), "\"sha256\":\"%s\",\"text\":\"%.7s\\n", sum, text);
    check_answer(ask(&bed, GET, path, NULL), 200, want);
}

/* A file of the home is not what it was. */
static void test_file(void)
{
    char path[300];

    check_row("a file with a mistake");
    (void)snprintf(path, sizeof(path), "%s/p.yaml", bed.home);
    CHECK_INT(fr_file_write(path, "name: p\ntasks: {}\n", 18, 0600, NULL), FR_OK);
    check_answer(ask(&bed, GET, "/api/v1/pipelines/p", NULL), 200, "p.yaml:2:");
    check_answer(ask(&bed, GET, "/api/v1/pipelines/p", NULL), 200, "\"graph\":{\"width\":");
    check_spec("/api/v1/runs/1/spec", pipeline);
    check_spec("/api/v1/runs/1/spec?form=now", "name: p\ntasks: {}\n");
    check_row("a file that is no text, and one that is gone");
    CHECK_INT(fr_file_write(path, "\xff", 1, 0600, NULL), FR_OK);
    check_answer(ask(&bed, GET, "/api/v1/runs/1/spec?form=now", NULL), 500, "p.yaml is no text");
    CHECK_INT(unlink(path), 0);
    check_answer(ask(&bed, GET, "/api/v1/runs/1/spec?form=now", NULL), 404, "p.yaml");
    CHECK_INT(fr_file_write(path, pipeline, sizeof(pipeline) - 1, 0600, NULL), FR_OK);
}

/* The second time nothing is read. */
static void test_known(void)
{
    static const char *const paths[] = {"/api/v1/runs/1", "/api/v1/runs/1/instances",
                                        "/api/v1/runs/1/graph", "/api/v1/runs/1/spec"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct fr_api_response res = ask(&bed, GET, paths[i], NULL), again = {0};
        struct fr_api_request req = {.path = paths[i],
                                     .content_type = "",
                                     .range = "",
                                     .if_none_match = res.etag.p,
                                     .last_event_id = ""};

        check_row(paths[i]);
        if (CHECK(res.etag.p != NULL)) {
            bed.api.answer(bed.api.self, &req, &again);
            CHECK_INT(again.status, 304);
        }
        fr_api_response_finish(&again);
        fr_api_response_finish(&res);
    }
}

/* ---- over TCP ---- */

static struct fr_api_caller caller = {FR_ROLE_OPERATE, "ci", "127.0.0.1", ""};

/* What was made of a run's file needs no look at that file again. */
static void test_kept(void)
{
    char blobs[300], away[300];

    snprintf(blobs, sizeof(blobs), "%s/blobs", bed.home);
    snprintf(away, sizeof(away), "%s/away", bed.home);
    CHECK_INT(rename(blobs, away), 0);
    check_answer(ask(&bed, GET, "/api/v1/runs/1/graph", NULL), 200, "\"edges\":[{\"from\":0,");
    check_answer(ask(&bed, GET, "/api/v1/runs/1/params", NULL), 200, "\"name\":\"x\"");
    CHECK_INT(rename(away, blobs), 0);
}

static void check_remote(enum fr_api_method method, const char *path, const char *body, int status,
                         const char *text)
{
    check_row(path);
    bed.caller = &caller;
    check_answer(ask(&bed, method, path, body), status, text);
    bed.caller = NULL;
}

static void test_remote(void)
{
    struct fr_run_shell shell = {.cwd = "/", .getenv = env};

    check_answer(ask(&bed, POST, "/api/v1/codes", "{}"), 404, "this host has no pages");
    CHECK_INT(fr_host_pages(bed.host, "http://127.0.0.1:1/", &shell, NULL), FR_OK);
    check_remote(POST, "/api/v1/runs", "{\"pipeline\": \"p\", \"params\": {\"x\": \"7\"}}", 201,
                 "\"origin\":\"api\"");
    check_answer(ask(&bed, GET, "/api/v1/runs/2/params", NULL), 200,
                 "\"value\":\"7\",\"default\":\"1\"");
    check_remote(POST, "/api/v1/runs", "{\"pipeline\": \"q\"}", 404, "no pipeline 'q'");
    check_remote(POST, "/api/v1/runs", "{\"pipeline\": \"/etc/passwd\"}", 404, "no pipeline");
    check_remote(POST, "/api/v1/runs", "{\"pipeline\": \"p\", \"cwd\": \"/\"}", 400,
                 "the body must be");
    check_remote(POST, "/api/v1/runs", "{\"pipeline\": \"p\", \"secrets\": {}}", 400,
                 "the body must be");
    check_remote(POST, "/api/v1/runs", "{\"pipeline\": \"p\", \"params\": []}", 400,
                 "the body must be");
    check_remote(POST, "/api/v1/runs", "{\"pipeline\": \"p\", \"params\": {\"z\": 1}}", 422,
                 "issues");
    check_remote(POST, "/api/v1/runs/1/resume", "{\"file\": \"/x\"}", 400, "must be {}");
    check_remote(POST, "/api/v1/runs/1/resume", "{}", 202, "\"driven\":true");
    check_remote(POST, "/api/v1/runs/1/retry", "{\"failed\": true}", 409, "still going on");
    check_remote(POST, "/api/v1/runs/1/retry", "{\"failed\": false}", 400, "must be");
    check_remote(POST, "/api/v1/runs/1/retry", "{\"from\": \"a\", \"failed\": true}", 400,
                 "must be");
    check_remote(POST, "/api/v1/runs/1/abandon", "{\"node\": \"nowhere\"}", 400, "nowhere");
    check_remote(POST, "/api/v1/runs/1/shell", "{}", 403, "socket alone");
    check_remote(DELETE, "/api/v1/runs/1", "{}", 403, "needs the role admin; ci has operate");
    caller.role = FR_ROLE_VIEW;
    check_remote(POST, "/api/v1/runs/2/cancel", "{}", 403, "needs the role operate");
    check_remote(GET, "/api/v1/runs/2", NULL, 200, "\"no\":2");
    check_remote(GET, "/api/v1/runs/2", NULL, 200, "\"who\":\"ci\"");
    caller.role = FR_ROLE_NONE;
    check_remote(GET, "/api/v1/runs/2", NULL, 401, "log in first");
    check_remote(GET, "/api/v1/nothing", NULL, 401, "log in first");
    check_remote(GET, "/api/v1/health", NULL, 200, "\"ok\":true");
    caller.role = FR_ROLE_OPERATE;
}

/* What a key may be, and what is not kept for it. */
static void test_keys_of_owner(void)
{
    static const struct {
        const char *key;
        bool good;
    } keys[] = {{"", false},
                {"a b", false},
                {"a\x7f", false},
                {"\xc3\xa9", false},
                {"!", true},
                {"~", true},
                {"1234567890123456789012345678901234567890123456789012345678901234", true},
                {"12345678901234567890123456789012345678901234567890123456789012345", false}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        check_row(keys[i].key);
        bed.key = keys[i].key;
        check_answer(ask(&bed, POST, "/api/v1/runs/99/cancel", "{}"), keys[i].good ? 404 : 400,
                     keys[i].good ? "" : "Idempotency-Key must be 1 to 64 visible characters");
    }
    check_row("a key of the owner: another path is another request");
    bed.key = "key-3";
    check_answer(ask(&bed, POST, "/api/v1/runs/98/cancel", "{}"), 404, NULL);
    check_answer(ask(&bed, POST, "/api/v1/runs/98/cancel", "{}"), 404, NULL);
    check_answer(ask(&bed, POST, "/api/v1/runs/97/cancel", "{}"), 422, "another request");
    check_answer(ask(&bed, DELETE, "/api/v1/runs/98/cancel", "{}"), 405, NULL);
    check_row("a secret is not kept for a key");
    bed.key = "key-4";
    check_answer(ask(&bed, POST, "/api/v1/tokens", "{\"name\": \"kept\"}"), 201, NULL);
    check_answer(ask(&bed, POST, "/api/v1/tokens", "{\"name\": \"kept\"}"), 409, "kept");
    check_row("");
}

/* A second request with a key changes nothing. */
static void test_keys(void)
{
    static const char body[] = "{\"pipeline\": \"p\", \"params\": {\"x\": \"8\"}}";
    struct fr_api_response one, two;

    bed.key = "key-1";
    bed.caller = &caller;
    check_row("a run by a key");
    one = ask(&bed, POST, "/api/v1/runs", body);
    two = ask(&bed, POST, "/api/v1/runs", body);
    CHECK_INT(one.status, 201);
    CHECK_INT(two.status, 201);
    CHECK_TEXT(two.body.p, one.body.p);
    CHECK_TEXT(two.location.p, one.location.p);
    fr_api_response_finish(&one);
    fr_api_response_finish(&two);
    check_answer(ask(&bed, POST, "/api/v1/runs", "{\"pipeline\": \"p\"}"), 422, "another request");
    bed.key = "key-2";
    check_row("an error by a key");
    one = ask(&bed, POST, "/api/v1/runs", "{\"pipeline\": \"q\"}");
    two = ask(&bed, POST, "/api/v1/runs", "{\"pipeline\": \"q\"}");
    CHECK_INT(two.status, 404);
    CHECK_TEXT(one.type, "application/problem+json");
    CHECK_TEXT(two.type, one.type);
    fr_api_response_finish(&one);
    fr_api_response_finish(&two);
    bed.key = "key-1";
    check_answer(ask(&bed, POST, "/api/v1/runs/3/cancel", "{}"), 422, "another request");
    caller.name[0] = 'C';
    check_row("the same key of another caller");
    check_answer(ask(&bed, POST, "/api/v1/runs", body), 201, "\"no\":4,");
    caller.name[0] = 'c';
    bed.caller = NULL;
    test_keys_of_owner();
    bed.key = NULL;
    check_answer(ask(&bed, GET, "/api/v1/runs?count=1", NULL), 200, "\"count\":4");
}

/* ---- who may ---- */

static void text_behind(const struct fr_buf *b, const char *name, char out[FR_SECRET_TEXT])
{
    const char *at = b->p != NULL ? strstr(b->p, name) : NULL;

    out[0] = '\0';
    if (CHECK(at != NULL))
        snprintf(out, FR_SECRET_TEXT, "%.*s", (int)strcspn(at + strlen(name), "\""),
                 at + strlen(name));
}

/* Asks, and takes the secret that the answer has behind that name. */
static void ask_secret(const char *path, const char *body, int status, const char *name,
                       char out[FR_SECRET_TEXT])
{
    struct fr_api_response res;

    check_row(path);
    res = ask(&bed, POST, path, body);
    CHECK_INT(res.status, status);
    text_behind(name != NULL ? &res.body : &res.session, name != NULL ? name : "", out);
    fr_api_response_finish(&res);
}

static bool identify(enum fr_api_secret kind, const char *secret, struct fr_api_caller *who)
{
    *who = (struct fr_api_caller){.address = "203.0.113.9"};
    return bed.api.identify(bed.api.self, kind, secret, true, who);
}

static const struct {
    enum fr_api_method method;
    const char *path, *body;
    int status;
    const char *text;
} of_access[] = {
    {GET, "me", NULL, 200, "\"role\":\"admin\",\"by\":\"socket\"}"},
    {GET, "tokens", NULL, 200, "\"name\":\"ci-1\",\"role\":\"view\","},
    {POST, "tokens", "{\"name\": \"ci-1\"}", 409, NULL},
    {POST, "tokens", "{\"name\": \"x\", \"role\": \"owner\"}", 400, "view, operate or admin"},
    {POST, "tokens", "{\"name\": \"x\", \"days\": 0}", 400, "1 to 3650 days"},
    {POST, "tokens", "{\"role\": \"view\"}", 400, "the body must be"},
    {DELETE, "tokens/none", "{}", 404, "none"},
    {POST, "login", "{\"token\": \"frt_no\"}", 401, "this is no token"},
    {POST, "login", "{}", 400, "the body must be"},
    {GET, "audit?limit=0", NULL, 400, "'limit' must be 1 to 200"},
    {GET, "audit?limit=201", NULL, 400, "'limit' must be 1 to 200"},
    {GET, "audit?limit=200", NULL, 200, "\"name\":\"POST /api/v1/tokens\",\"outcome\":\"409\""},
    {GET, "audit?before=1", NULL, 200, "{\"items\":[]}"},
    {GET, "audit?before=x", NULL, 400, "a whole number"},
    {GET, "ready", NULL, 200, "{\"ready\":true}"},
    {GET, "openapi.json", NULL, 200, "\"openapi\":"},
};

static void test_access(void)
{
    static const struct fr_api_caller nobody = {FR_ROLE_NONE, "", "203.0.113.9", ""};
    char view[FR_SECRET_TEXT], two[FR_SECRET_TEXT], code[FR_SECRET_TEXT], s[FR_SECRET_TEXT];
    struct fr_api_caller who;

    ask_secret("/api/v1/tokens", "{\"name\": \"ci-1\"}", 201,
               "\"role\":\"view\",\"days\":90,\"token\":\"", view);
    ask_secret("/api/v1/tokens", "{\"name\": \"ci-2\", \"role\": \"operate\", \"days\": 3}", 201,
               "\"role\":\"operate\",\"days\":3,\"token\":\"", two);
    CHECK(identify(FR_SECRET_TOKEN, view, &who) && who.role == FR_ROLE_VIEW);
    CHECK(identify(FR_SECRET_TOKEN, two, &who) && who.role == FR_ROLE_OPERATE);
    for (size_t i = 0; i < sizeof(of_access) / sizeof(of_access[0]); i++) {
        char path[100];

        check_row(of_access[i].path);
        snprintf(path, sizeof(path), "/api/v1/%s", of_access[i].path);
        check_answer(ask(&bed, of_access[i].method, path, of_access[i].body), of_access[i].status,
                     of_access[i].text);
    }

    check_row("a token that is removed");
    check_answer(ask(&bed, DELETE, "/api/v1/tokens/ci-2", "{}"), 204, NULL);
    CHECK(!identify(FR_SECRET_TOKEN, two, &who) && identify(FR_SECRET_TOKEN, view, &who));

    ask_secret("/api/v1/codes", "{}", 201, "\"code\":\"", code);
    snprintf(bed.body, sizeof(bed.body), "{\"code\": \"%s\"}", code);
    bed.caller = &nobody;
    ask_secret("/api/v1/login", bed.body, 200, NULL, s);
    check_row("the session of a link");
    CHECK(identify(FR_SECRET_SESSION, s, &who) && who.role == FR_ROLE_ADMIN);
    bed.caller = &who;
    check_answer(ask(&bed, GET, "/api/v1/me", NULL), 200, "\"role\":\"admin\",\"by\":\"session\"}");
    check_answer(ask(&bed, POST, "/api/v1/runs/2/cancel", "{}"), 202, NULL);
    check_answer(ask(&bed, GET, "/api/v1/runs/2/audit", NULL), 200, "\"address\":\"203.0.113.9\"");
    check_answer(ask(&bed, POST, "/api/v1/logout", "{}"), 204, NULL);
    CHECK(!identify(FR_SECRET_SESSION, s, &who));
    CHECK(identify(FR_SECRET_TOKEN, view, &who));
    check_answer(ask(&bed, GET, "/api/v1/me", NULL), 200,
                 "\"name\":\"ci-1\",\"role\":\"view\",\"by\":\"token\"}");
    check_answer(ask(&bed, GET, "/api/v1/runs/2/audit", NULL), 200, "\"address\":\"\"");
    check_answer(ask(&bed, POST, "/api/v1/logout", "{}"), 204, NULL);
    bed.caller = NULL;
}

/* ---- the stream ---- */

static void end_stream(struct reader *r)
{
    bed.api.gone(bed.api.self, r->s);
    fr_buf_finish(&r->got);
}

static void test_topics(void)
{
    static const struct fr_api_pair list[] = {{"topics", "list,queue"}}, one[] = {{"runs", "1"}},
                                    wrong[] = {{"topics", "lists"}},
                                    twice[] = {{"runs", "1"}, {"runs", "2"}},
                                    unknown[] = {{"run", "1"}}, absent[] = {{"runs", "1,,99"}};
    struct reader of_list = {0}, of_one = {0}, of_all = {0}, none = {0};
    const char *over;

    check_row("topics");
    CHECK_INT(follow_by(&bed, &none, wrong, 1, ""), 400);
    CHECK_INT(follow_by(&bed, &none, twice, 2, ""), 400);
    CHECK_INT(follow_by(&bed, &none, unknown, 1, ""), 400);
    CHECK_INT(follow_by(&bed, &none, absent, 1, ""), 404);
    caller.role = FR_ROLE_NONE;
    bed.caller = &caller;
    CHECK_INT(follow_by(&bed, &none, list, 1, ""), 401);
    caller.role = FR_ROLE_VIEW;
    CHECK_INT(follow_by(&bed, &of_all, NULL, 0, ""), 200);
    caller.role = FR_ROLE_OPERATE;
    bed.caller = NULL;
    CHECK_INT(follow_by(&bed, &of_list, list, 1, ""), 200);
    CHECK_INT(follow_by(&bed, &of_one, one, 1, ""), 200);
    CHECK(has(&of_list, "\"version\":\""));
    check_answer(ask(&bed, POST, "/api/v1/runs/4/cancel", "{}"), 202, NULL);
    turn_until(&bed, &of_list, "\"outcome\":\"cancelled\"");
    turn_until(&bed, &of_list, "event: queue\ndata: {}");
    CHECK(has(&of_list, "event: run\ndata: {\"run\":4,\"state\":\"over\""));
    CHECK(!has(&of_list, "event: inst") && !has(&of_one, "event: run"));
    settle_host(&bed);
    over = has(&of_all, "event: run") ? strstr(of_all.got.p, "\"run\":4,\"state\":\"over\"") : NULL;
    CHECK(over != NULL && strstr(over + 1, "\"run\":4,\"state\":\"over\"") == NULL);
    end_stream(&of_all);
    end_stream(&of_list);
    end_stream(&of_one);
    fr_buf_finish(&none.got);
}

static int64_t stopped_ms;

static int64_t stopped(void)
{
    return stopped_ms;
}

static void check_queue_events(const struct reader *r, int want)
{
    int n = 0;

    settle_host(&bed);
    for (const char *p = r->got.p; p != NULL && (p = strstr(p, "event: queue")) != NULL; p++)
        n++;
    CHECK_INT(n, want);
}

static void test_topics_together(void)
{
    static const struct fr_api_pair queue[] = {{"topics", "queue"}};
    struct reader r = {0};

    check_row("changes of a topic at one time are one event, and one behind it");
    CHECK_INT(follow_by(&bed, &r, queue, 1, ""), 200);
    stopped_ms = fr_sys.mono_ms() + 1000;
    fr_sys.mono_ms = stopped;
    for (int i = 0; i < 3; i++) {
        host_changed(bed.host, HOST_QUEUE);
        check_queue_events(&r, 1);
    }
    stopped_ms += 100;
    check_queue_events(&r, 2);
    stopped_ms += 100;
    check_queue_events(&r, 2);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    end_stream(&r);
}

/* Of one attempt the newest lengths of its output and of its metrics, an event each. */
static void test_lengths(void)
{
    static const struct fr_api_pair all[] = {{"runs", "1"}};
    static const struct fr_note notes[] = {{.kind = FR_NOTE_LOG, .bytes.n = 5},
                                           {.kind = FR_NOTE_METRICS, .offset = 100, .bytes.n = 5},
                                           {.kind = FR_NOTE_LOG, .offset = 10, .bytes.n = 5},
                                           {.kind = FR_NOTE_METRICS, .offset = 200, .bytes.n = 5}};
    struct host_run *h = host_find_no(bed.host, 1);
    struct reader r = {0};
    const char *text;

    check_row("output and metrics of one attempt");
    CHECK_INT(follow_by(&bed, &r, all, 1, ""), 200);
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        stream_part.note(h, h->run, &notes[i]);
    stream_part.of_run[HOST_RUN_LEAVES](h);
    settle_host(&bed);
    text = r.got.p != NULL ? r.got.p : "";
    CHECK(strstr(text, "\"bytes\":5}") == NULL && strstr(text, "\"bytes\":105}") == NULL);
    if (CHECK((text = strstr(text, "event: log\n")) != NULL &&
              strstr(text, "\"bytes\":15}") != NULL))
        CHECK((text = strstr(text, "event: metric\n")) != NULL &&
              strstr(text, "\"bytes\":205}") != NULL);
    end_stream(&r);
}

static void *no_memory(void *p, size_t n)
{
    (void)p, (void)n;
    return NULL;
}

static void say(int i)
{
    char text[500];
    struct fr_note note = {
        .kind = FR_NOTE_TROUBLE, .node = FR_PLAN_NONE, .inst = FR_PLAN_NONE, .text = text};
    struct host_run *h = host_find_no(bed.host, 1);

    snprintf(text, sizeof(text), "note %d %*s", i, 480, "");
    stream_part.note(h, h->run, &note);
    stream_part.tell(bed.host);
}

/* The id of that note, as the reader got it. */
static void id_of(const struct reader *r, int i, char id[60])
{
    char text[20], *at;

    snprintf(text, sizeof(text), "\"note %d ", i);
    id[0] = '\0';
    if (CHECK(r->got.p != NULL && (at = strstr(r->got.p, text)) != NULL)) {
        while (strncmp(at, "id: ", 4) != 0)
            at--;
        snprintf(id, 60, "%.*s", (int)strcspn(at + 4, "\n"), at + 4);
    }
}

/* Who saw that note comes again, and gets the one behind it, or a reset. */
static void come_again(const struct reader *r, int i, bool reset)
{
    struct reader again = {0};
    char id[60], text[20];

    id_of(r, i, id);
    CHECK_INT(follow(&bed, &again, "1", id), 200);
    snprintf(text, sizeof(text), "\"note %d ", i);
    CHECK(has(&again, "event: reset") == reset && !has(&again, text));
    snprintf(text, sizeof(text), "\"note %d ", i + 1);
    CHECK(has(&again, text) == !reset);
    end_stream(&again);
}

/* More than the ring holds: a reader that lacks the newest few gets those alone. */
static void test_ring(void)
{
    static const struct fr_api_pair one[] = {{"runs", "1"}};
    enum { NOTES = 3000 };
    struct reader r = {0};
    size_t bytes;

    check_row("a ring that has overflowed");
    CHECK_INT(follow_by(&bed, &r, one, 1, ""), 200);
    for (int i = 1; i <= NOTES; i++)
        say(i);
    come_again(&r, NOTES - 10, false);
    come_again(&r, 1, true);
    bytes = streams_of(bed.host)->ring->bytes;
    CHECK(bytes <= HOST_RING_BYTES && bytes > HOST_RING_BYTES - 1000);

    check_row("an event for which there is no memory");
    fr_sys.realloc = no_memory;
    say(NOTES + 1);
    fr_sys.realloc = fr_sys_real.realloc;
    come_again(&r, NOTES, true);
    CHECK_INT(streams_of(bed.host)->ring->bytes, 0);
    say(NOTES + 2);
    say(NOTES + 3);
    come_again(&r, NOTES + 2, false);
    end_stream(&r);
}

static void test_check(void)
{
    check_row("validate");
    check_answer(ask(&bed, POST, "/api/v1/pipelines/validate",
                     "{\"text\": \"name: x\\ntasks: {a: {runn: y}}\"}"),
                 200, "{\"valid\":false,\"issues\":[{\"file\":\"/pipeline.yaml\",\"line\":2,");
    check_answer(ask(&bed, POST, "/api/v1/pipelines/validate",
                     "{\"text\": \"name: x\\ntasks: {a: {run: y}}\"}"),
                 200, "{\"valid\":true,");
    check_answer(ask(&bed, POST, "/api/v1/pipelines/validate",
                     "{\"text\": \"name: x\\ntasks: {a: {run: y, needs: [b]}, b: {run: y, needs: "
                     "[a]}}\"}"),
                 200, "{\"valid\":false,\"issues\":[{\"file\":\"/pipeline.yaml\",\"line\":2,");
    check_answer(ask(&bed, POST, "/api/v1/pipelines/validate", "{\"text\": 1}"), 400, "must be");
}

static int open_badly(const char *path, int flags, mode_t mode)
{
    if (strstr(path, "/p.yaml") == NULL)
        return fr_sys_real.open(path, flags, mode);
    errno = EIO;
    return -1;
}

/* A fault of this machine is no answer to keep: the same request is tried again. */
static void test_key_of_fault(void)
{
    check_row("a fault by a key");
    bed.key = "key-of-fault";
    bed.caller = &caller;
    fr_sys.open = open_badly;
    check_answer(ask(&bed, POST, "/api/v1/runs", "{\"pipeline\": \"p\"}"), 500, "p.yaml: Input/");
    fr_sys.open = fr_sys_real.open;
    check_answer(ask(&bed, POST, "/api/v1/runs", "{\"pipeline\": \"p\"}"), 201, "\"no\":");
    bed.key = NULL;
    bed.caller = NULL;
}

int main(void)
{
    make_pipelines(&bed);
    open_host(&bed);
    bed.host->config.stays = true; /* however slow the machine is, nobody parks the run */
    make_body(&bed, ID, ", \"origin\": \"api\"");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, "\"no\":1");
    settle_host(&bed);
    check_rows(of_runs, sizeof(of_runs) / sizeof(of_runs[0]));
    test_gaps();
    test_file();
    test_known();
    test_kept();
    test_remote();
    test_keys();
    test_access();
    test_topics();
    test_topics_together();
    test_lengths();
    test_ring();
    test_check();
    test_key_of_fault();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
