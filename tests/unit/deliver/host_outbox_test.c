/*
 * Notifications of a host: which deliveries an event gives, what is said of them, and when the host
 * dies. Receivers that are down, slow or unwilling are host_channels_test.c's.
 */
#include "engine/store/sql.h"
#include "tests/unit/deliver/outbox_bed.h"

static struct outbox o = {.bed = HOST_BED};

/* ---- what an event gives ---- */

static const struct {
    const char *name, *config, *rules;
    enum fr_outcome outcomes[3];
    const char *want;
} rules[] = {
    {"two channels",
     "notify: {on: failed, to: [a, b]}",
     "",
     {FR_OUT_FAILED},
     "a failed 1 sent 1, b failed 1 sent 1"},
    {"another event", "notify: {on: succeeded, to: a}", "", {FR_OUT_FAILED}, ""},
    {"another pipeline",
     "notify: {on: failed, to: a, pipelines: [q, pp*, x*p]}",
     "",
     {FR_OUT_FAILED},
     ""},
    {"this pipeline",
     "notify: {on: failed, to: a, pipelines: [q, p*]}",
     "",
     {FR_OUT_FAILED},
     "a failed 1 sent 1"},
    {"a channel that two rules name has it once",
     "notify: [{on: failed, to: a}, {on: [failed, started], to: [b, a]}]",
     "",
     {FR_OUT_FAILED},
     "a failed 1 sent 1, b failed 1 sent 1"},
    {"a success behind a failure",
     "notify: {on: recovered, to: a}",
     "",
     {FR_OUT_SUCCEEDED, FR_OUT_FAILED, FR_OUT_SUCCEEDED},
     "a recovered 3 sent 1"},
    {"said as a success",
     "notify: {on: succeeded, to: a}",
     "",
     {FR_OUT_SUCCEEDED, FR_OUT_FAILED, FR_OUT_SUCCEEDED},
     "a succeeded 1 sent 1, a succeeded 3 sent 1"},
    {"by both words it is one",
     "notify: {on: [succeeded, recovered], to: a}",
     "",
     {FR_OUT_SUCCEEDED, FR_OUT_FAILED, FR_OUT_SUCCEEDED},
     "a succeeded 1 sent 1, a recovered 3 sent 1"},
    {"a cancelled run between is neither",
     "notify: {on: recovered, to: a}",
     "",
     {FR_OUT_FAILED, FR_OUT_CANCELLED, FR_OUT_SUCCEEDED},
     "a recovered 3 sent 1"},
    {"rules of the pipeline alone",
     "",
     "[{\"on\": [\"failed\"], \"pipelines\": [], \"to\": [\"b\"], \"throttle_ms\": 0}]",
     {FR_OUT_FAILED, FR_OUT_SUCCEEDED},
     "b failed 1 sent 1"},
    {"a channel that there is not",
     "",
     "[{\"on\": [\"failed\"], \"pipelines\": [], \"to\": [\"c\"], \"throttle_ms\": 0}]",
     {FR_OUT_FAILED},
     "c failed 1 dead 0"},
    {"no rules", "", "", {FR_OUT_FAILED}, ""},
};

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        char config[400];
        struct fr_notice_rows notices = {0};
        struct fr_arena arena = {0};

        check_row(rules[i].name);
        reset(&o);
        snprintf(config, sizeof(config), "%s%s\n", CHANNELS, rules[i].config);
        begin(&o, config);
        for (size_t k = 0; k < 3 && rules[i].outcomes[k] != FR_OUT_NONE; k++)
            end_run(&o, rules[i].outcomes[k], rules[i].rules);
        until(&o, rules[i].want);
        settle_host(&o.bed);
        CHECK_INT(fr_store_notices(o.bed.st, 10, &arena, &notices, NULL), FR_OK);
        CHECK_INT(notices.n, 0);
        CHECK(!fr_host_owes(o.bed.host));
        fr_arena_finish(&arena);
        close_host(&o.bed);
    }
    check_row("");
}

/* The message of delivery id has that. */
static void check_body(int64_t id, const char *text)
{
    struct fr_arena arena = {0};
    struct fr_delivery_row row = {.body = ""};

    CHECK_INT(fr_store_delivery(o.bed.st, id, &arena, &row, NULL), FR_OK);
    if (!CHECK(strstr(row.body, text) != NULL))
        printf("   %s\n", row.body);
    fr_arena_finish(&arena);
}

static void test_throttle(void)
{
    check_row("throttle");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: a, throttle: 10m}\n");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 1");
    end_run(&o, FR_OUT_FAILED, "");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 1, a failed 2 held 0, a failed 3 held 0");
    pass(601);
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 1, a failed 2 held 0, a failed 3 held 0, a failed 4 sent 1");
    check_got(&o, "a run.failed 1, a run.failed 4 held");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 1, a failed 2 held 0, a failed 3 held 0, a failed 4 sent 1, "
              "a failed 5 held 0");
    pass(601);
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 1, a failed 2 held 0, a failed 3 held 0, a failed 4 sent 1, "
              "a failed 5 held 0, a failed 6 sent 1");
    check_body(4, "\"held\":2");
    check_body(6, "\"held\":1");
    close_host(&o.bed);
}

static void sql(const char *text)
{
    CHECK_INT(sqlite3_exec(o.bed.st->db, text, NULL, NULL, NULL), SQLITE_OK);
}

/* A message names the schedule of its run, and no caller of the interface. Of a run that was
 * removed it says nothing, whose id ever begins with that number. */
static void test_schedule(void)
{
    struct fr_arena arena = {0};
    struct fr_delivery_row row = {.body = ""};

    check_row("the schedule of a run");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    end_run(&o, FR_OUT_FAILED, "");
    o.schedule = "nightly";
    end_run(&o, FR_OUT_FAILED, "");
    o.schedule = NULL;
    until(&o, "a failed 1 sent 1, a failed 2 sent 1");
    CHECK_INT(fr_store_delivery(o.bed.st, 1, &arena, &row, NULL), FR_OK);
    CHECK(strstr(row.body, "\"schedule\"") == NULL);
    check_body(2, "\"schedule\":\"nightly\"");
    check_row("of a backfill");
    o.schedule = "nightly";
    end_run(&o, FR_OUT_FAILED, "");
    o.schedule = NULL;
    sql("UPDATE run SET origin = 'backfill' WHERE no = 3");
    until(&o, "a failed 1 sent 1, a failed 2 sent 1, a failed 3 sent 1");
    check_body(3, "\"schedule\":\"nightly\"");
    check_row("of a run that catches up");
    o.schedule = "nightly";
    end_run(&o, FR_OUT_FAILED, "");
    o.schedule = NULL;
    sql("UPDATE run SET origin = 'catchup' WHERE no = 4");
    until(&o, "a failed 1 sent 1, a failed 2 sent 1, a failed 3 sent 1, a failed 4 sent 1");
    check_body(4, "\"schedule\":\"nightly\"");
    check_row("of a run that was removed");
    end_run(&o, FR_OUT_FAILED, "");
    sql("DELETE FROM run WHERE no = 5");
    sql("UPDATE notice SET run = 4000");
    sql("UPDATE run SET id = x'40000000000000000000000000000000' WHERE no = 3");
    until(&o, "a failed 1 sent 1, a failed 2 sent 1, a failed 3 sent 1, a failed 4 sent 1, "
              "a failed 4000 sent 1");
    CHECK_INT(fr_store_delivery(o.bed.st, 5, &arena, &row, NULL), FR_OK);
    CHECK(strstr(row.body, "\"outcome\"") == NULL);
    fr_arena_finish(&arena);
    close_host(&o.bed);
}

/* What happens in quiet hours comes at their end; other messages of the channel do not wait. */
static void test_quiet(void)
{
    int minute, from, to;
    char config[300];

    check_row("quiet hours");
    reset(&o);
    minute = (int)(fr_sys.wall_ms() / 60000 % 1440);
    from = (minute + 1439) % 1440;
    to = (minute + 5) % 1440;
    snprintf(config, sizeof(config),
             CHANNELS "notify: [{on: failed, to: a, quiet: %02d:%02d-%02d:%02d}, {on: cancelled, "
                      "to: a}]\n",
             from / 60, from % 60, to / 60, to % 60);
    begin(&o, config);
    end_run(&o, FR_OUT_FAILED, "");
    end_run(&o, FR_OUT_CANCELLED, "");
    until(&o, "a failed 1 quiet 0, a cancelled 2 sent 1");
    CHECK(!fr_host_owes(o.bed.host));
    pass(300);
    until(&o, "a failed 1 sent 1, a cancelled 2 sent 1");
    check_got(&o, "a run.cancelled 2, a run.failed 1");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 1, a cancelled 2 sent 1, a failed 3 sent 1");
    check_row("of before, told in quiet hours");
    pass(86400 - 600);
    end_run(&o, FR_OUT_FAILED, "");
    pass(300);
    until(&o, "a failed 1 sent 1, a cancelled 2 sent 1, a failed 3 sent 1, a failed 4 quiet 0");
    close_host(&o.bed);
}

/* The second of a night is held, as it would be by day. */
static void test_quiet_throttle(void)
{
    int minute, from, to;
    char config[300];

    check_row("quiet hours, and a throttle");
    reset(&o);
    minute = (int)(fr_sys.wall_ms() / 60000 % 1440);
    from = (minute + 1439) % 1440;
    to = (minute + 5) % 1440;
    snprintf(config, sizeof(config),
             CHANNELS "notify: {on: failed, to: a, throttle: 10m, quiet: %02d:%02d-%02d:%02d}\n",
             from / 60, from % 60, to / 60, to % 60);
    begin(&o, config);
    end_run(&o, FR_OUT_FAILED, "");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 quiet 0, a failed 2 held 0");
    pass(300);
    until(&o, "a failed 1 sent 1, a failed 2 held 0");
    close_host(&o.bed);
}

/* More at once than a turn has room for, and nothing else happens. */
static void test_many(void)
{
    enum { N = 51 };
    struct fr_arena arena = {0};
    struct fr_notice_rows notices = {0};

    check_row("many at once");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    block(&o, true);
    for (int i = 0; i < N; i++)
        end_run(&o, FR_OUT_FAILED, "");
    settle_host(&o.bed);
    CHECK_INT(fr_store_notices(o.bed.st, N, &arena, &notices, NULL), FR_OK);
    CHECK_INT(notices.n, 0);
    block(&o, false);
    fr_arena_finish(&arena);
    close_host(&o.bed);
}

/* ---- what is asked ---- */

static const char *no_variable(void *self, const char *name)
{
    (void)self, (void)name;
    return NULL;
}

static const struct {
    enum fr_api_method method;
    const char *path, *body;
    int status;
    const char *text;
} asked[] = {
    {GET, "?limit=2", NULL, 200, "\"next\":\"/api/v1/deliveries?limit=2&before=5\""},
    {GET, "?limit=1&channel=a&state=sent&run=3", NULL, 200, "{\"items\":[{\"id\":5,"},
    {GET, "?limit=1&channel=a&state=sent&run=3", NULL, 200,
     "\"next\":\"/api/v1/deliveries?limit=1&before=5&channel=a&state=sent&run=3\""},
    {GET, "?before=2", NULL, 200, "{\"items\":[{\"id\":1,\"key\":\"msg_"},
    {GET, "?limit=200&before=2", NULL, 200,
     "\"channel\":\"a\",\"rule\":\"config.yaml "
     "1\",\"kind\":\"failed\",\"run\":1,\"pipeline\":\"p\","
     "\"state\":\"sent\""},
    {GET, "?run=9", NULL, 200, "{\"items\":[]}"},
    {GET, "?limit=0", NULL, 400, "'limit' must be 1 to 200"},
    {GET, "?limit=201", NULL, 400, "'limit' must be 1 to 200"},
    {GET, "?run=x", NULL, 400, "a whole number"},
    {GET, "?before=x", NULL, 400, "a whole number"},
    {GET, "?channel=none", NULL, 404, "no channel 'none'"},
    {GET, "?state=gone", NULL, 400, "'state' must be"},
    {GET, "/1", NULL, 200, "\"message\":{\"type\":\"run.failed\""},
    {GET, "/1", NULL, 200, "\"url\":\"http://h/runs/1\""},
    {GET, "/1", NULL, 200, "\"params\":{\"x\":\"1\"}"},
    {GET, "/9", NULL, 404, "9"},
    {POST, "", "{\"channel\": \"none\"}", 404, "no channel"},
    {POST, "", "{}", 400, "the body must be"},
    {POST, "/9/again", "{}", 404, "9"},
};

static void test_asked(void)
{
    struct fr_run_shell shell = {.cwd = "/", .getenv = no_variable};

    check_row("what is asked");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: [a, b]}\n");
    CHECK_INT(fr_host_pages(o.bed.host, "http://h/", &shell, NULL), FR_OK);
    for (int i = 0; i < 3; i++)
        end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 1, b failed 1 sent 1, a failed 2 sent 1, b failed 2 sent 1, "
              "a failed 3 sent 1, b failed 3 sent 1");
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        char path[120];

        check_row(asked[i].path);
        snprintf(path, sizeof(path), "/api/v1/deliveries%s", asked[i].path);
        check_answer(ask(&o.bed, asked[i].method, path, asked[i].body), asked[i].status,
                     asked[i].text);
    }
    check_answer(ask(&o.bed, GET, "/api/v1/channels", NULL), 200,
                 "\"rules\":[{\"on\":[\"failed\"]");
    check_row("one that waits");
    block(&o, true);
    check_answer(ask(&o.bed, POST, "/api/v1/deliveries/1/again", "{}"), 202,
                 "\"state\":\"waiting\"");
    check_answer(ask(&o.bed, POST, "/api/v1/deliveries/1/again", "{}"), 409,
                 "waits to be sent already");
    block(&o, false);
    close_host(&o.bed);
}

/* A message of a run with very long parameters goes without them; once more of a channel that
 * config.yaml has no more it does not go; what was sent is sent anew. */
static void test_again(void)
{
    static char value[33 << 10], params[sizeof(value) + 40];
    struct fr_arena arena = {0};
    struct fr_delivery_row row = {.body = ""};

    check_row("long parameters");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: [a, b]}\n");
    memset(value, 'v', sizeof(value) - 1);
    (void)snprintf(params, sizeof(params), "{\"params\": [\"x=%s\"]}", value);
    o.params = params;
    end_run(&o, FR_OUT_FAILED, "");
    o.params = NULL;
    until(&o, "a failed 1 sent 1, b failed 1 sent 1");
    CHECK_INT(fr_store_delivery(o.bed.st, 1, &arena, &row, NULL), FR_OK);
    CHECK(strstr(row.body, "\"params\"") == NULL && strstr(row.body, "\"outcome\"") != NULL);
    fr_arena_finish(&arena);

    check_row("once more");
    fr_buf_finish(&o.got);
    configure(&o, o.config = "channels: {a: {kind: webhook, url: \"http://h/a\"}}\n");
    check_answer(ask(&o.bed, POST, "/api/v1/deliveries/2/again", "{}"), 404,
                 "config.yaml of the home has no channel 'b' (any more)");
    pass(100);
    check_answer(ask(&o.bed, POST, "/api/v1/deliveries/1/again", "{}"), 202,
                 "\"state\":\"waiting\"");
    until(&o, "a failed 1 sent 1, b failed 1 sent 1");
    check_got(&o, "a run.failed 1");
    close_host(&o.bed);
}

/* ---- hosts that die ---- */

static void test_killed(void)
{
    check_row("a host that ends behind the commit");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    CHECK(!fr_host_owes(o.bed.host));
    end_run(&o, FR_OUT_FAILED, "");
    CHECK(fr_host_owes(o.bed.host));
    close_host(&o.bed); /* no turn was made */
    begin(&o, o.config);
    until(&o, "a failed 1 sent 1");
    check_got(&o, "a run.failed 1");
    close_host(&o.bed);

    check_row("a host that ends while it sends");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    block(&o, true);
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 0");
    while (o.got.n == 0)
        settle_host(&o.bed);
    close_host(&o.bed);
    block(&o, false);
    begin(&o, o.config);
    until(&o, "a failed 1 sent 1");
    check_got(&o, "a run.failed 1, a run.failed 1");
    close_host(&o.bed);
}

/* What is not committed is not told. */
static void test_rollback(void)
{
    struct fr_run_row row = {
        .name = "p", .state = FR_RUN_OVER, .outcome = FR_OUT_FAILED, .params = "{}"};

    check_row("a commit that fails");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    CHECK_INT(fr_id_new(&row.id, NULL), FR_OK);
    CHECK_INT(fr_store_begin(o.bed.st, NULL), FR_OK);
    CHECK_INT(fr_store_run_add(o.bed.st, &row, NULL), FR_OK);
    fr_store_rollback(o.bed.st);
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 1");
    check_got(&o, "a run.failed 1");
    close_host(&o.bed);
}

int main(void)
{
    begin_outbox(&o);
    test_rules();
    test_throttle();
    test_quiet();
    test_quiet_throttle();
    test_schedule();
    test_many();
    test_asked();
    test_again();
    test_killed();
    test_rollback();
    return end_outbox(&o);
}
