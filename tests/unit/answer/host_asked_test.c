/* Requests about nodes, tokens and what was asked of a host: whole answers, to the last byte. */
#include "tests/unit/host/host_bed.h"

#include "engine/base/json.h"
#include "engine/runs/state.h"
#include "engine/metrics/machines.h"
#include "engine/metrics/meters.h"
#include "engine/store/access.h"
#include "engine/store/blob.h"
#include "engine/schedule/decide.h"
#include "engine/store/drained.h"
#include "engine/store/outbox.h"
#include "engine/view/text.h"
#include "engine/wire/message.h"

static struct host_bed bed = HOST_BED;

static int64_t now_ms = 1000000;

static int64_t clock_ms(void)
{
    return now_ms;
}

static uid_t uid(void)
{
    return 1000;
}

/* The answer has that body; of an error, it has the text. */
static void check(enum fr_api_method method, const char *path, const char *body, int status,
                  const char *want)
{
    check_row(path);
    check_whole(ask(&bed, method, path, body), status, want);
}

/* ---- nodes ---- */

static void put_rows(void)
{
    struct fr_run_row run = {.id = {.b = {0xaa}},
                             .name = "p",
                             .source = "/p.yaml",
                             .state = FR_RUN_OVER,
                             .outcome = FR_OUT_FAILED,
                             .origin = FR_ORIGIN_CLI,
                             .params = "{}",
                             .ended_wall = 700};
    struct fr_node_row nodes[] = {{.name = "n1", .home_id = {.b = {7}}},
                                  {.name = "n2", .home_id = {.b = {8}}}};

    CHECK_INT(fr_store_run_add(bed.st, &run, NULL), FR_OK);
    for (size_t i = 0; i < 2; i++)
        CHECK_INT(fr_store_node_put(bed.st, run.id, &nodes[i], NULL), FR_OK);
}

static void take_sample(uint32_t cpu)
{
    struct fr_exec_up up = {
        .home = {{7}}, .boot = FR_STR("b"), .build = FR_STR("v"), .how = FR_STR("local")};
    struct fr_sample sample = {.cpu = cpu, .mem_used = 100, .mem_bytes = 1000, .disk_free = 5};

    fr_machines_take(meters_machines(bed.host->meters),
                     &(struct fr_exec_sampled){"n1", &up, 5, 1, &sample}, now_ms);
}

#define NODE "/api/v1/nodes/n1"

static void test_nodes(void)
{
    take_sample(100);
    now_ms += 10000;
    take_sample(300);
    check(
        GET, "/api/v1/nodes", NULL, 200,
        "{\"items\":[{\"name\":\"n1\",\"home\":\"07000000000000000000000000000000\",\"boot\":\"b\","
        "\"build\":\"v\",\"how\":\"local\",\"seen_wall\":1010000,\"clock_offset_ms\":5,\"wall_"
        "offset_ms\":0,\"rtt_ms\":1,\"load\":{\"wall\":1010000,\"cpu\":0.30000001192092896,\"load_"
        "1m\":0.0,\"memory\":100.0,\"memory_bytes\":1000,\"disk_free\":5,\"rx\":0.0,\"tx\":0.0,"
        "\"gpu\":null,\"gpu_memory\":null},\"gpus\":[],\"state\":\"seen\",\"attempts\":[]},{"
        "\"name\":\"n2\",\"state\":\"seen\",\"attempts\":[],\"seen_wall\":700}],\"allocations\":[]"
        "}");
    check(GET, NODE, NULL, 200,
          "{\"name\":\"n1\",\"home\":\"07000000000000000000000000000000\",\"boot\":\"b\",\"build\":"
          "\"v\",\"how\":\"local\",\"seen_wall\":1010000,\"clock_offset_ms\":5,\"wall_offset_ms\":"
          "0,\"rtt_ms\":1,\"load\":{\"wall\":1010000,\"cpu\":0.30000001192092896,\"load_1m\":0.0,"
          "\"memory\":100.0,\"memory_bytes\":1000,\"disk_free\":5,\"rx\":0.0,\"tx\":0.0,\"gpu\":"
          "null,\"gpu_memory\":null},\"gpus\":[],\"state\":\"seen\",\"attempts\":[]}");
    check(GET, "/api/v1/nodes/n9", NULL, 404, "this host knows no node 'n9'");
    check(GET, NODE "/else", NULL, 404, "there is nothing at " NODE "/else\"");
    check(GET, NODE "/samples", NULL, 200,
          "{\"t\":[768000],\"cpu\":[0.20000000670552254],\"memory\":[100.0],\"rx\":[0.0],\"tx\":[0."
          "0],\"gpu\":[null],\"gpu_memory\":[null]}");
    check(GET, NODE "/samples?from=1000001", NULL, 200,
          "{\"t\":[1010000],\"cpu\":[0.30000001192092896],\"memory\":[100.0],\"rx\":[0.0],\"tx\":["
          "0.0],\"gpu\":[null],\"gpu_memory\":[null]}");
    check(GET, NODE "/samples?to=1009999&width=2", NULL, 200,
          "{\"t\":[0],\"cpu\":[0.10000000149011612],\"memory\":[100.0],\"rx\":[0.0],\"tx\":[0.0],"
          "\"gpu\":[null],\"gpu_memory\":[null]}");
    now_ms += 3 * 86400000LL; /* the day before that, not before now */
    check(GET, NODE "/samples?to=1009999&width=2", NULL, 200,
          "{\"t\":[0],\"cpu\":[0.10000000149011612],\"memory\":[100.0],\"rx\":[0.0],\"tx\":[0.0],"
          "\"gpu\":[null],\"gpu_memory\":[null]}");
    now_ms -= 3 * 86400000LL;
    check(GET, NODE "/samples?width=1", NULL, 400, "'width' must be 2 to 4000");
    check(GET, NODE "/samples?width=4001", NULL, 400, "'width' must be 2 to 4000");
    check(GET, NODE "/samples?from=5&to=4", NULL, 400, "'from' must not be larger than 'to'");
    check(GET, NODE "/samples?from=4&to=4&width=4000", NULL, 200,
          "{\"t\":[],\"cpu\":[],\"memory\":[],\"rx\":[],\"tx\":[],\"gpu\":[],\"gpu_memory\":[]}");
    check(GET, "/api/v1/nodes/n2/samples", NULL, 404, "no samples of node 'n2' came to this home");
    check(POST, NODE "/drain", "{\"note\": \"disks\"}", 200,
          "{\"name\":\"n1\",\"home\":\"07000000000000000000000000000000\",\"boot\":\"b\",\"build\":"
          "\"v\",\"how\":\"local\",\"seen_wall\":1010000,\"clock_offset_ms\":5,\"wall_offset_ms\":"
          "0,\"rtt_ms\":1,\"load\":{\"wall\":1010000,\"cpu\":0.30000001192092896,\"load_1m\":0.0,"
          "\"memory\":100.0,\"memory_bytes\":1000,\"disk_free\":5,\"rx\":0.0,\"tx\":0.0,\"gpu\":"
          "null,\"gpu_memory\":null},\"gpus\":[],\"state\":\"seen\",\"attempts\":[],\"drained\":{"
          "\"since_wall\":1010000,\"note\":\"disks\",\"who\":\"\"}}");
    check(GET, "/api/v1/nodes/n2", NULL, 200,
          "{\"name\":\"n2\",\"state\":\"seen\",\"attempts\":[],\"seen_wall\":700}");
    check(POST, NODE "/drain", "{\"nota\": 1}", 400, "the body must be {} or {");
    check(POST, NODE "/undrain", "{\"note\": \"x\"}", 400, "the body must be {}");
    check(POST, NODE "/undrain", "{}", 200,
          "{\"name\":\"n1\",\"home\":\"07000000000000000000000000000000\",\"boot\":\"b\",\"build\":"
          "\"v\",\"how\":\"local\",\"seen_wall\":1010000,\"clock_offset_ms\":5,\"wall_offset_ms\":"
          "0,\"rtt_ms\":1,\"load\":{\"wall\":1010000,\"cpu\":0.30000001192092896,\"load_1m\":0.0,"
          "\"memory\":100.0,\"memory_bytes\":1000,\"disk_free\":5,\"rx\":0.0,\"tx\":0.0,\"gpu\":"
          "null,\"gpu_memory\":null},\"gpus\":[],\"state\":\"seen\",\"attempts\":[]}");
    check(POST, "/api/v1/nodes/n9/drain", "{}", 404, "no run of this home has reached a node 'n9'");
    check(POST, NODE "/nothing", "{}", 404, "there is nothing to post at " NODE "/nothing\"");
    check(POST, NODE, "{}", 404, "there is nothing to post at " NODE "\"");
}

/* A node that only older runs have reached is listed while it is drained; who did that is named. */
static void test_old_node(const struct fr_api_caller *who)
{
    struct fr_run_row run = {.name = "p",
                             .source = "/p.yaml",
                             .state = FR_RUN_OVER,
                             .outcome = FR_OUT_FAILED,
                             .origin = FR_ORIGIN_CLI,
                             .params = "{}"};
    struct fr_node_row node = {.name = "m", .home_id = {.b = {6}}};

    for (uint8_t i = 0; i < FR_KNOWN_RUNS; i++) {
        run.id = (struct fr_id){.b = {0xbb, i}};
        CHECK_INT(fr_store_run_add(bed.st, &run, NULL), FR_OK);
        CHECK_INT(fr_store_node_put(bed.st, run.id, &node, NULL), FR_OK);
    }
    check(GET, "/api/v1/nodes/n2", NULL, 404, "this host knows no node 'n2'");
    bed.caller = who;
    check(POST, "/api/v1/nodes/n2/drain", "{}", 200,
          "{\"name\":\"n2\",\"state\":\"seen\",\"attempts\":[],\"drained\":{\"since_wall\":1010000,"
          "\"note\":\"\",\"who\":\"ci\"}}");
    bed.caller = NULL;
    check(GET, "/api/v1/nodes/n2", NULL, 200,
          "{\"name\":\"n2\",\"state\":\"seen\",\"attempts\":[],\"drained\":{\"since_wall\":1010000,"
          "\"note\":\"\",\"who\":\"ci\"}}");
    check(POST, "/api/v1/nodes/n2/undrain", "{}", 200,
          "{\"name\":\"n2\",\"state\":\"seen\",\"attempts\":[]}");
    check(GET, "/api/v1/nodes/m", NULL, 200,
          "{\"name\":\"m\",\"state\":\"seen\",\"attempts\":[],\"seen_wall\":0}");
}

/* What nvidia-smi says; what it does not know is null. Memory is in MiB there. */
static void test_gpus(void)
{
    struct fr_exec_up up = {
        .home = {{9}}, .boot = FR_STR("b"), .build = FR_STR("v"), .how = FR_STR("ssh")};
    struct fr_str gpus[] = {FR_STR("0, 35, 1024, 81559, 40, 300.5, NVIDIA H100, NVL"),
                            FR_STR("1, 45, 1, 81559, [N/A], 0, B"), FR_STR("")};
    struct fr_str facts[] = {FR_STR("cpus=8"), FR_STR("kernel=a=b"), FR_STR("none")};
    struct fr_sample sample = {.disk_free = 1, .gpus = {gpus, 3}, .facts = {facts, 3}};

    fr_machines_take(meters_machines(bed.host->meters),
                     &(struct fr_exec_sampled){"g", &up, -5, 1, &sample}, now_ms);
    check(GET, "/api/v1/nodes/g", NULL, 200,
          "{\"name\":\"g\",\"home\":\"09000000000000000000000000000000\",\"boot\":\"b\",\"build\":"
          "\"v\",\"how\":\"ssh\",\"seen_wall\":1010000,\"clock_offset_ms\":-5,\"wall_offset_ms\":0,"
          "\"rtt_ms\":1,\"load\":{\"wall\":1010000,\"cpu\":0.0,\"load_1m\":0.0,\"memory\":0.0,"
          "\"memory_bytes\":0,\"disk_free\":1,\"rx\":0.0,\"tx\":0.0,\"gpu\":0.40000000596046448,"
          "\"gpu_memory\":1074790400.0},\"facts\":{\"cpus\":\"8\",\"kernel\":\"a=b\"},\"gpus\":[{"
          "\"index\":0.0,\"use\":35.0,\"memory_used\":1024.0,\"memory\":81559.0,\"degrees\":40.0,"
          "\"watts\":300.5,\"name\":\"NVIDIA H100, "
          "NVL\"},{\"index\":1.0,\"use\":45.0,\"memory_used\":1.0,\"memory\":81559.0,\"degrees\":"
          "null,\"watts\":0.0,\"name\":\"B\"}],\"state\":\"seen\",\"attempts\":[]}");
}

/* ---- files that a run kept ---- */

static void check_part(const char *path, const char *range, int status, const char *want)
{
    struct fr_api_response res;
    char got[32] = "";

    check_row(range);
    bed.range = range;
    res = ask(&bed, GET, path, NULL);
    bed.range = "";
    CHECK_INT(res.status, status);
    CHECK_INT(res.total, 10);
    if (CHECK(res.file == (status < 300)) && res.file) {
        CHECK_INT(pread(res.fd, got, res.bytes, (off_t)res.offset), res.bytes);
        CHECK_TEXT(got, want);
        CHECK_TEXT(res.type, "application/octet-stream");
        CHECK(res.foreign && res.growing == NULL);
    }
    fr_api_response_finish(&res);
}

/* A part has a MiB at most, the whole has all. */
static void test_large_artifact(struct fr_id run)
{
    enum { BYTES = (1 << 20) + 1 };
    static char text[BYTES];
    static const struct {
        const char *range;
        uint64_t bytes;
    } parts[] = {
        {"", BYTES}, {"bytes=0-", 1 << 20}, {"bytes=1-", 1 << 20}, {"bytes=2-", BYTES - 2}};
    char hash[FR_SHA256_TEXT], path[200];

    CHECK_INT(fr_blob_put(bed.home, (struct fr_str){text, BYTES}, hash, NULL), FR_OK);
    struct fr_file_row row = {.path = "/large", .hash = hash, .bytes = BYTES};
    CHECK_INT(fr_store_file_put(bed.st, run, &row, NULL), FR_OK);
    snprintf(path, sizeof(path), "/api/v1/runs/1/artifacts/%s", hash);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct fr_api_response res;

        check_row(parts[i].range);
        bed.range = parts[i].range;
        res = ask(&bed, GET, path, NULL);
        bed.range = "";
        CHECK_INT(res.bytes, parts[i].bytes);
        CHECK_INT(res.total, BYTES);
        fr_api_response_finish(&res);
    }
}

static void test_artifact(void)
{
    struct fr_id run = {.b = {0xaa}};
    char hash[FR_SHA256_TEXT], other[FR_SHA256_TEXT], path[200], blobs[300];

    CHECK_INT(fr_blob_put(bed.home, FR_STR("of another"), other, NULL), FR_OK);
    CHECK_INT(fr_blob_put(bed.home, FR_STR("0123456789"), hash, NULL), FR_OK);
    struct fr_file_row row = {.path = "/x", .hash = hash, .bytes = 10};
    CHECK_INT(fr_store_file_put(bed.st, run, &row, NULL), FR_OK);
    snprintf(path, sizeof(path), "/api/v1/runs/1/artifacts/%s", other);
    check(GET, path, NULL, 404, "run 1 kept no such file");
    snprintf(path, sizeof(path), "/api/v1/runs/1/artifacts/%s", hash);
    check_part(path, "", 200, "0123456789");
    check_part(path, "bytes=2-4", 206, "234");
    check_part(path, "bytes=-3", 206, "789");
    check_part(path, "bytes=9-", 206, "9");
    check_part(path, "bytes=10-", 416, "");
    test_large_artifact(run);
    snprintf(blobs, sizeof(blobs), "%s/blobs", bed.home);
    CHECK_INT(fr_remove_tree(blobs, NULL), FR_OK);
    check(GET, path, NULL, 404, "opening the copy of /x");
}

/* ---- who may ---- */

static struct fr_api_caller caller = {FR_ROLE_ADMIN, "ci", "10.0.0.1", ""};

static void test_me(void)
{
    check(GET, "/api/v1/me", NULL, 200,
          "{\"name\":\"uid 1000\",\"role\":\"admin\",\"by\":\"socket\"}");
    bed.caller = &caller;
    check(GET, "/api/v1/me", NULL, 200, "{\"name\":\"ci\",\"role\":\"admin\",\"by\":\"token\"}");
    snprintf(caller.session, sizeof(caller.session), "s");
    check(GET, "/api/v1/me", NULL, 200, "{\"name\":\"ci\",\"role\":\"admin\",\"by\":\"session\"}");
    caller.session[0] = '\0';
    bed.caller = NULL;
    check(GET, "/api/v1/ready", NULL, 200, "{\"ready\":true}");
    check(GET, "/api/v1/health", NULL, 200, "{\"ok\":true}");
}

/* Makes a token; its secret is the caller's. */
static char *make_token(const char *body, int64_t days)
{
    struct fr_api_response res = ask(&bed, POST, "/api/v1/tokens", body);
    json_t *doc = NULL;
    char *secret = NULL;

    CHECK_INT(res.status, 201);
    CHECK_INT(fr_json_parse((struct fr_str){res.body.p, res.body.n}, "a token", &doc, NULL), FR_OK);
    CHECK_INT(json_integer_value(json_object_get(doc, "days")), days);
    if (CHECK(json_string_value(json_object_get(doc, "token")) != NULL))
        secret = strdup(json_string_value(json_object_get(doc, "token")));
    json_decref(doc);
    fr_api_response_finish(&res);
    return secret;
}

static void test_tokens(void)
{
    char *secret, body[200];
    struct fr_api_response res;

    check_row("tokens");
    free(make_token("{\"name\": \"usual\"}", 90));
    secret = make_token("{\"name\": \"mine\", \"role\": \"operate\", \"days\": 2}", 2);
    check(POST, "/api/v1/tokens", "{\"role\": \"view\"}", 400, "the body must be");
    check(POST, "/api/v1/tokens", "{\"name\": \"x\", \"more\": 1}", 400, "the body must be");
    check(GET, "/api/v1/tokens", NULL, 200,
          "{\"items\":[{\"name\":\"mine\",\"role\":\"operate\",\"made_wall\":1010000,\"ends_wall\":"
          "173810000,\"used_wall\":0},{\"name\":\"usual\",\"role\":\"view\",\"made_wall\":1010000,"
          "\"ends_wall\":7777010000,\"used_wall\":0}]}");

    check_row("login");
    snprintf(body, sizeof(body), "{\"token\": \"%s\"}", secret);
    bed.caller = &caller;
    res = ask(&bed, POST, "/api/v1/login", body);
    CHECK_INT(res.status, 200);
    CHECK(res.session.n > 20);
    fr_buf_add(&res.body, "", 1);
    CHECK_TEXT(res.body.p, "{\"name\":\"mine\",\"role\":\"operate\",\"by\":\"session\"}");
    fr_api_response_finish(&res);
    check_answer(ask(&bed, GET, "/api/v1/audit?limit=1", NULL), 200,
                 "\"name\":\"POST /api/v1/login\",\"outcome\":\"200\",\"who\":\"mine\",\"address\":"
                 "\"10.0.0.1\"");
    check(POST, "/api/v1/login", "{\"token\": \"wrong\"}", 401, "");
    check(POST, "/api/v1/login", "{\"code\": \"wrong\"}", 401, "");
    check(POST, "/api/v1/login", "{}", 400, "the body must be {\\\"token\\\": \\\"…\\\"} or");
    bed.caller = NULL;

    check_row("logout");
    snprintf(caller.session, sizeof(caller.session), "s");
    bed.caller = &caller;
    res = ask(&bed, POST, "/api/v1/logout", "{}");
    CHECK_INT(res.status, 204);
    CHECK(res.session_over);
    fr_api_response_finish(&res);
    caller.session[0] = '\0';
    bed.caller = NULL;

    check_row("a token that is dropped");
    res = ask(&bed, DELETE, "/api/v1/tokens/mine", "{}");
    CHECK_INT(res.status, 204);
    CHECK(res.access_over);
    fr_api_response_finish(&res);
    check(DELETE, "/api/v1/tokens/mine", "{}", 404, "mine");
    bed.caller = &caller;
    check(POST, "/api/v1/login", body, 401, "");
    bed.caller = NULL;
    check(POST, "/api/v1/codes", "{}", 404, "this host has no pages");
    free(secret);
}

static void test_audit(void)
{
    check(GET, "/api/v1/audit?limit=0", NULL, 400, "'limit' must be 1 to 200");
    check(GET, "/api/v1/audit?limit=201", NULL, 400, "'limit' must be 1 to 200");
    check(GET, "/api/v1/audit?limit=2&before=3", NULL, 200,
          "{\"items\":[{\"id\":2,\"wall\":1010000,\"what\":\"asked\",\"run\":0,\"name\":\"POST "
          "/api/v1/nodes/n1/drain\",\"outcome\":\"400\",\"who\":\"uid "
          "1000\",\"address\":\"\"},{\"id\":1,\"wall\":1010000,\"what\":\"asked\",\"run\":0,"
          "\"name\":\"POST /api/v1/nodes/n1/drain\",\"outcome\":\"200\",\"who\":\"uid "
          "1000\",\"address\":\"\"}],\"next\":\"/api/v1/audit?limit=2&before=1\"}");
    check(GET, "/api/v1/audit?before=2", NULL, 200,
          "{\"items\":[{\"id\":1,\"wall\":1010000,\"what\":\"asked\",\"run\":0,\"name\":\"POST "
          "/api/v1/nodes/n1/drain\",\"outcome\":\"200\",\"who\":\"uid 1000\",\"address\":\"\"}]}");
    bed.caller = &caller;
    check(POST, "/api/v1/runs/1/pin", "{\"pinned\": 1}", 400, "the body must be");
    bed.caller = NULL;
    check(GET, "/api/v1/runs/1/audit", NULL, 200,
          "{\"items\":[{\"id\":21,\"wall\":1010000,\"what\":\"asked\",\"run\":1,\"name\":\"POST "
          "/api/v1/runs/1/pin\",\"outcome\":\"400\",\"who\":\"ci\",\"address\":\"10.0.0.1\"}]}");
    bed.caller = &caller;
    caller.role = FR_ROLE_OPERATE;
    check(GET, "/api/v1/runs/1/audit", NULL, 200,
          "{\"items\":[{\"id\":21,\"wall\":1010000,\"what\":\"asked\",\"run\":1,\"name\":\"POST "
          "/api/v1/runs/1/pin\",\"outcome\":\"400\",\"who\":\"ci\",\"address\":\"\"}]}");
}

static void check_word(const char *query, const char *word)
{
    char path[100];

    snprintf(path, sizeof(path), "/api/v1/%s=%s", query, word);
    check_answer(ask(&bed, GET, path, NULL), 200, "");
}

/* Each word that the engine has is one that a list may be asked for. */
static void test_words(void)
{
    check_row("words of queries");
    for (int i = 0; i < FR_ST_N; i++)
        check_word("runs/1/instances?state", fr_state_name((enum fr_state_of)i));
    for (int i = FR_RUN_RUNNING; i <= FR_RUN_QUEUED; i++)
        if (i != FR_RUN_OVER)
            check_word("runs?state", fr_run_state_name((enum fr_run_state)i));
    for (int i = FR_OUT_SUCCEEDED; i <= FR_OUT_CANCELLED; i++)
        check_word("runs?state", fr_outcome_name((enum fr_outcome)i));
    for (int i = 0; i < FR_ORIGIN_N; i++)
        check_word("runs?origin", fr_origin_name((enum fr_origin)i));
    for (size_t i = 0; host_sorts[i] != NULL; i++)
        check_word("runs?sort", host_sorts[i]);
    for (int i = 0; i < fr_delivery_state_words.n; i++)
        check_word("deliveries?state", fr_word(&fr_delivery_state_words, i));
    check_row("");
}

/* What a node has told is there for the next host, too. */
static void test_next_host(void)
{
    close_host(&bed);
    open_host(&bed);
    check(GET, "/api/v1/nodes/g/samples?from=1000001&to=1010000", NULL, 200,
          "{\"t\":[1010000],\"cpu\":[0.0],\"memory\":[0.0],\"rx\":[0.0],\"tx\":[0.0],\"gpu\":["
          "0.40000000596046448],\"gpu_memory\":[1074790400.0]}");
}

int main(void)
{
    make_home(bed.home);
    fr_sys.wall_ms = clock_ms;
    fr_sys.uid = uid;
    open_host(&bed);
    put_rows();
    test_nodes();
    test_gpus();
    test_artifact();
    test_me();
    test_tokens();
    test_audit();
    caller.role = FR_ROLE_ADMIN;
    test_words();
    caller.role = FR_ROLE_ADMIN;
    test_old_node(&caller);
    test_next_host();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
