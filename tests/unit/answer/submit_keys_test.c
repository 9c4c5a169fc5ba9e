/* Each key of a submit: as an option, in the body that a client writes, at the host's socket, over
 * TCP and in the description of the interface. */
#include "engine/api/body.h"
#include "engine/base/json.h"
#include "engine/cli/cli.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

extern const char fr_host_openapi[];

static const struct {
    const char *key;
    const char *option, *sent; /* a command line of `run`, and the key in the body made of it */
    const char *good, *shown; /* a value at the host's socket, and what the run's row shows of it */
    const char *wrong, *error;
    bool tcp;
} rows[] = {
    {"id", NULL, NULL, "\"" ID "\"", "\"id\":\"" ID "\"", "1", "a string", false},
    {"pipeline", "run q.yaml", "\"pipeline\": \"/in/q.yaml\"", NULL, "\"pipeline\":\"q\"", "1",
     "a string", true},
    {"params", "run q.yaml -p x=1=2", "\"params\": {\"x\": \"1=2\"}", "{\"x\": true}", NULL, "[]",
     "an object", true},
    {"at", "run q.yaml --at 2026-12-24T02:00", "\"at\": \"2026-12-24T02:00\"",
     "\"2026-12-24T02:00\"", NULL, "1", "a string", true},
    {"priority", "run q.yaml --priority -5", "\"priority\": -5", "7", "\"priority\":7", "\"7\"",
     "an integer", true},
    {"origin", NULL, NULL, "\"schedule\"", "\"origin\":\"schedule\"", "1", "a string", false},
    {"not_before_wall", NULL, NULL, "77", "\"not_before_wall\":77", "0.5", "an integer", false},
    {"cwd", NULL, NULL, "\"/\"", NULL, "1", "a string", false},
    {"env", NULL, NULL, "{\"WHO\": \"me\"}", NULL, "[]", "an object", false},
    {"umask", NULL, NULL, "63", NULL, "0.5", "an integer", false},
    {"secrets", NULL, NULL, "{}", NULL, "\"x\"", "an object", false},
    {"agent", NULL, NULL, "\"/agent\"", NULL, "{}", "a string", false},
    {"parent_run", NULL, NULL, "\"x\"", NULL, "{}", "a string", false},
    {"parent_attempt", NULL, NULL, "\"x\"", NULL, "{}", "a string", false},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* All keys of new runs have their row, in their order. */
static void test_all(void)
{
    size_t n = 0;

    check_row("a row a key");
    for (const struct body_key *key = body_keys(); key->name != NULL; key++)
        if ((key->of & BODY_SUBMIT) != 0 && CHECK(n < ROWS)) {
            CHECK_TEXT(key->name, rows[n].key);
            CHECK_INT(key->over_tcp != NULL, rows[n].tcp);
            CHECK(key->option == NULL || (rows[n].option != NULL && rows[n].sent != NULL));
            n++;
        }
    CHECK_INT(n, ROWS);
}

/* ---- a command line becomes a body ---- */

static const char *wanted; /* in the body */

static enum fr_rc write_body(struct cli_call *c, struct fr_err *err)
{
    const struct cli_list *params = cli_values(c, "--param");
    struct fr_submit submit = {0}, got;
    json_t *body = json_object(), *shell = NULL;
    enum fr_rc rc = cli_submit_options(c, &submit, err);
    char *text;

    submit.spec.path = c->args.v[0];
    submit.spec.params = params->v;
    submit.spec.n_params = params->n;
    body_write(BODY_SUBMIT, &submit, "/in", body);
    text = json_dumps(body, 0);
    if (!CHECK(strstr(text, wanted) != NULL))
        printf("   %s\n", text);
    json_object_set_new(body, "cwd", json_string("/in"));
    CHECK_INT(body_submit(body, NULL, &c->arena, &got, &shell, err), FR_OK);
    CHECK(got.priority == submit.priority && got.spec.n_params == params->n);
    CHECK(!fr_id_zero(got.id));
    free(text);
    json_decref(shell);
    json_decref(body);
    return rc;
}

static void test_options(void)
{
    struct cli_command run = *cli_command_find("run");

    run.run = write_body;
    for (size_t i = 0; i < ROWS; i++) {
        char line[100], *argv[8] = {NULL}, *rest = NULL;
        size_t n = 0;

        if (rows[i].option == NULL)
            continue;
        check_row(rows[i].option);
        snprintf(line, sizeof(line), "%s", rows[i].option);
        for (char *w = strtok_r(line, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest))
            argv[n++] = w;
        wanted = rows[i].sent;
        CHECK_INT(cli_dispatch(&run, argv), CLI_OK);
    }
}

/* ---- the host ---- */

/* Submits q with that value of key; NULL: without it. */
static struct fr_api_response ask_with(const char *key, const char *value, bool tcp)
{
    static const struct fr_api_caller caller = {.name = "a", .role = FR_ROLE_ADMIN};
    json_t *doc = tcp ? json_pack("{s:s}", "pipeline", "q")
                      : json_pack("{s:s+, s:s}", "pipeline", bed.home, "/q.yaml", "cwd", "/");
    struct fr_api_response res;
    char *text;

    if (value != NULL)
        json_object_set_new(doc, key, json_loads(value, JSON_DECODE_ANY, NULL));
    text = json_dumps(doc, 0);
    bed.caller = tcp ? &caller : NULL;
    res = ask(&bed, POST, "/api/v1/runs", text);
    free(text);
    json_decref(doc);
    return res;
}

#define OVER_TCP                                                                                   \
    "the body must be {\\\"pipeline\\\": \\\"name\\\", \\\"params\\\": {…}, \\\"at\\\": "        \
    "\\\"…\\\", \\\"priority\\\": 0}; all but pipeline may be left out"

static void test_host(void)
{
    char text[200];

    for (size_t i = 0; i < ROWS; i++) {
        check_row(rows[i].key);
        snprintf(text, sizeof(text), "'%s' in the body must be %s", rows[i].key, rows[i].error);
        check_answer(ask_with(rows[i].key, rows[i].wrong, false), 400, text);
        check_answer(ask_with(rows[i].key, rows[i].good, false), 201, rows[i].shown);
        check_answer(ask_with(rows[i].key, rows[i].wrong, true), 400, OVER_TCP);
        if (rows[i].tcp)
            check_answer(ask_with(rows[i].key, rows[i].good, true), 201, rows[i].shown);
        else
            check_answer(ask_with(rows[i].key, "\"/x\"", true), 400, OVER_TCP);
    }
    check_row("a logical time that is none");
    check_answer(ask_with("at", "\"soon\"", false), 400, "soon");
    check_answer(ask_with("at", "\"soon\"", true), 400, "soon");
    check_row("no pipeline");
    check_answer(ask(&bed, POST, "/api/v1/runs", "{\"priority\": 1}"), 400, OVER_TCP);
    check_row("a repeat");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/rerun", "{\"at\": \"x\"}"), 400,
                 "{\\\"params\\\": {…}, \\\"priority\\\": 0}, both may be left out");
}

/* What the description of the interface lets a request have is what it may have over TCP. */
static void test_described(void)
{
    static const struct {
        const char *path;
        enum body_use use;
    } requests[] = {{"/runs", BODY_SUBMIT}, {"/runs/{run}/rerun", BODY_RERUN}};
    json_t *doc = json_loads(fr_host_openapi, 0, NULL), *known;

    for (size_t i = 0; i < 2; i++) {
        size_t n = 0;

        check_row(requests[i].path);
        known = NULL;
        CHECK_INT(json_unpack(doc, "{s{s{s{s{s{s{s{so}}}}}}}}", "paths", requests[i].path, "post",
                              "requestBody", "content", "application/json", "schema", "properties",
                              &known),
                  0);
        for (const struct body_key *key = body_keys(); key->name != NULL; key++)
            if ((key->of & requests[i].use) != 0 && key->over_tcp != NULL) {
                CHECK(json_object_get(known, key->name) != NULL);
                n++;
            }
        CHECK_INT(json_object_size(known), n);
    }
    json_decref(doc);
}

/* ---- a resume ---- */

static void test_resume(void)
{
    static const char *const nodes[] = {"n1", "n2"};
    struct fr_arena arena = {0};
    struct fr_resume_opts none = {0},
                          all = {.file = "x.yaml",
                                 .retry = true,
                                 .retry_from = "a",
                                 .abandon = nodes,
                                 .n_abandon = 2},
                          got;
    json_t *body = json_object(), *shell = NULL;
    char *text;

    check_row("a resume");
    body_write(BODY_RESUME, &none, "/in", body);
    CHECK_TEXT(text = json_dumps(body, 0), "{\"abandon\": []}");
    free(text);
    body_write(BODY_RESUME, &all, "/in", body);
    json_object_set_new(body, "agent", json_string("/agent"));
    CHECK_INT(body_resume(body, &arena, &got, &shell, NULL), FR_OK);
    CHECK_TEXT(got.file, "/in/x.yaml");
    CHECK(got.retry && got.n_abandon == 2 && strcmp(got.abandon[1], "n2") == 0);
    CHECK_TEXT(got.retry_from, "a");
    CHECK_TEXT(text = json_dumps(shell, 0), "{\"agent\": \"/agent\"}");
    free(text);
    json_decref(shell);
    json_decref(body);
    fr_arena_finish(&arena);
}

int main(void)
{
    static const char q[] = "name: q\nparams: {x: {default: \"1\"}}\ntasks: {one: {run: 'true'}}\n";

    make_home(bed.home);
    put_file(bed.home, "q.yaml", q);
    test_all();
    test_options();
    test_resume();
    open_host(&bed);
    test_host();
    close_host(&bed);
    test_described();
    remove_home(bed.home);
    return check_done();
}
