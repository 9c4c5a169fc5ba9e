/*
 * Notifications of a host: which deliveries an event gives, and what becomes of them with receivers
 * that are down, slow or unwilling, on a wall clock of the test's own; and when the host dies.
 */
#include "tests/unit/host_bed.h"

#include "engine/base/json.h"
#include "engine/host/outbox.h"
#include "engine/spec/config.h"

#include <pthread.h>

static _Atomic int64_t shift_ms; /* of the wall clock */

static int64_t shifted_wall_ms(void)
{
    return fr_sys_real.wall_ms() + shift_ms;
}

/* ---- a receiver ---- */

static struct {
    pthread_mutex_t lock;
    struct fr_sent answer; /* for channel a; b takes everything */
    struct fr_buf got;     /* "channel type run key\n" of each try */
    bool blocked;          /* a waits until it is not */
    pthread_cond_t free;
} receiver = {.lock = PTHREAD_MUTEX_INITIALIZER, .free = PTHREAD_COND_INITIALIZER};

static void deliver(void *arg, const char *job, struct fr_sent *out)
{
    json_t *doc = NULL, *channel, *message, *data;
    const char *to;

    (void)arg;
    CHECK_INT(fr_json_parse(fr_str_of(job), "job", &doc, NULL), FR_OK);
    channel = json_object_get(doc, "channel");
    message = json_object_get(doc, "message");
    data = json_object_get(message, "data");
    to = json_string_value(json_object_get(channel, "url"));
    pthread_mutex_lock(&receiver.lock);
    fr_buf_fmt(&receiver.got, "%c %s %lld%s %s\n", to[strlen(to) - 1],
               json_string_value(json_object_get(message, "type")),
               (long long)json_integer_value(json_object_get(data, "run")),
               json_object_get(data, "held") != NULL ? " held" : "",
               json_string_value(json_object_get(doc, "key")));
    *out = to[strlen(to) - 1] == 'a' ? receiver.answer : (struct fr_sent){.done = true};
    while (to[strlen(to) - 1] == 'a' && receiver.blocked)
        pthread_cond_wait(&receiver.free, &receiver.lock);
    pthread_mutex_unlock(&receiver.lock);
    json_decref(doc);
}

static void answer(struct fr_sent with)
{
    pthread_mutex_lock(&receiver.lock);
    receiver.answer = with;
    pthread_mutex_unlock(&receiver.lock);
}

static void block(bool yes)
{
    pthread_mutex_lock(&receiver.lock);
    receiver.blocked = yes;
    pthread_cond_broadcast(&receiver.free);
    pthread_mutex_unlock(&receiver.lock);
}

/* ---- the home ---- */

#define CHANNELS                                                                                   \
    "channels: {a: {kind: webhook, url: \"http://h/a\"}, b: {kind: slack, url: \"http://h/b\"}}\n"

static void configure(const char *text)
{
    struct fr_config *config = NULL;
    struct fr_issues issues = {0};
    struct fr_err err = {0};
    char path[300];

    snprintf(path, sizeof(path), "%s/config.yaml", home);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, &err), FR_OK);
    if (!CHECK_INT(fr_config_load(path, &config, &issues, &err), FR_OK))
        printf("   %s\n", err.msg);
    CHECK_INT(fr_host_configure(host, config, &err), FR_OK);
    fr_config_destroy(config);
    fr_issues_finish(&issues);
}

static const char *configured; /* the text */

static void begin(const char *config)
{
    open_host();
    fr_host_stay(host);
    fr_host_deliver_by(host, deliver, &receiver);
    configure(configured = config);
}

static void reset(void)
{
    remove_store();
    shift_ms = 0;
    answer((struct fr_sent){.done = true});
    fr_buf_finish(&receiver.got);
    receiver.got = (struct fr_buf){0};
}

static const char *of_schedule; /* that made the runs; NULL: none did */

/* A run of pipeline p that is over so, in one commit; its number. */
static int64_t end_run(const char *outcome, const char *rules)
{
    struct fr_err err = {0};
    struct fr_run_row row = {.name = "p",
                             .source = "/p.yaml",
                             .folder = "/",
                             .spec_hash = "",
                             .params = "{\"params\": [\"x=1\"]}",
                             .state = "over",
                             .outcome = outcome,
                             .reason = "because",
                             .origin = of_schedule != NULL ? "schedule" : "cli",
                             .who = of_schedule != NULL ? of_schedule : "",
                             .started_wall = fr_sys.wall_ms(),
                             .ended_wall = fr_sys.wall_ms(),
                             .notify = rules};

    CHECK_INT(fr_id_new(&row.id, &err), FR_OK);
    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    CHECK_INT(fr_store_commit(st, &err), FR_OK);
    return row.no;
}

/* "a failed 1 sent 1" of each, the oldest first: channel, event, run, state, tries. */
static const char *deliveries(struct fr_arena *arena)
{
    struct fr_delivery_filter f = {INT64_MAX, 0, "", "", 100};
    struct fr_delivery_rows rows = {0};
    struct fr_buf b = {0};
    const char *text;

    CHECK_INT(fr_store_deliveries(st, &f, arena, &rows, NULL), FR_OK);
    for (size_t i = rows.n; i-- > 0;)
        fr_buf_fmt(&b, "%s%s %s %lld %s %lld", b.n > 0 ? ", " : "", rows.rows[i].channel,
                   rows.rows[i].kind, (long long)rows.rows[i].run, rows.rows[i].state,
                   (long long)rows.rows[i].tries);
    text = fr_arena_dup(arena, b.p != NULL ? b.p : "");
    fr_buf_finish(&b);
    return text;
}

/* Turns until the deliveries are those; the test's deadline ends it else. */
static void until(const char *want)
{
    struct fr_arena arena = {0};

    configure(configured); /* the host looks, now that the clock was set */
    for (int i = 0; i < 2000 && strcmp(deliveries(&arena), want) != 0; i++) {
        fr_arena_finish(&arena);
        settle();
    }
    CHECK_TEXT(deliveries(&arena), want);
    fr_arena_finish(&arena);
}

static void pass(int64_t seconds)
{
    shift_ms += seconds * 1000;
}

static void check_got(const char *want)
{
    struct fr_buf got = {0};

    pthread_mutex_lock(&receiver.lock);
    for (const char *p = receiver.got.p; p != NULL && *p != '\0'; p = strchr(p, '\n') + 1)
        fr_buf_fmt(&got, "%s%.*s", got.n > 0 ? ", " : "", (int)(strstr(p, " msg_") - p), p);
    pthread_mutex_unlock(&receiver.lock);
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
}

/* ---- what an event gives ---- */

static const struct {
    const char *name, *config, *rules, *outcomes[3], *want;
} rules[] = {
    {"two channels",
     "notify: {on: failed, to: [a, b]}",
     "",
     {"failed"},
     "a failed 1 sent 1, b failed 1 sent 1"},
    {"another event", "notify: {on: succeeded, to: a}", "", {"failed"}, ""},
    {"another pipeline",
     "notify: {on: failed, to: a, pipelines: [q, pp*, x*p]}",
     "",
     {"failed"},
     ""},
    {"this pipeline",
     "notify: {on: failed, to: a, pipelines: [q, p*]}",
     "",
     {"failed"},
     "a failed 1 sent 1"},
    {"a channel that two rules name has it once",
     "notify: [{on: failed, to: a}, {on: [failed, started], to: [b, a]}]",
     "",
     {"failed"},
     "a failed 1 sent 1, b failed 1 sent 1"},
    {"a success behind a failure",
     "notify: {on: recovered, to: a}",
     "",
     {"succeeded", "failed", "succeeded"},
     "a recovered 3 sent 1"},
    {"said as a success",
     "notify: {on: succeeded, to: a}",
     "",
     {"succeeded", "failed", "succeeded"},
     "a succeeded 1 sent 1, a succeeded 3 sent 1"},
    {"by both words it is one",
     "notify: {on: [succeeded, recovered], to: a}",
     "",
     {"succeeded", "failed", "succeeded"},
     "a succeeded 1 sent 1, a recovered 3 sent 1"},
    {"a cancelled run between is neither",
     "notify: {on: recovered, to: a}",
     "",
     {"failed", "cancelled", "succeeded"},
     "a recovered 3 sent 1"},
    {"rules of the pipeline alone",
     "",
     "[{\"on\": [\"failed\"], \"pipelines\": [], \"to\": [\"b\"], \"throttle_ms\": 0}]",
     {"failed", "succeeded"},
     "b failed 1 sent 1"},
    {"a channel that there is not",
     "",
     "[{\"on\": [\"failed\"], \"pipelines\": [], \"to\": [\"c\"], \"throttle_ms\": 0}]",
     {"failed"},
     "c failed 1 dead 0"},
    {"no rules", "", "", {"failed"}, ""},
};

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        char config[400];
        struct fr_notice_rows notices = {0};
        struct fr_arena arena = {0};

        check_row(rules[i].name);
        reset();
        snprintf(config, sizeof(config), "%s%s\n", CHANNELS, rules[i].config);
        begin(config);
        for (size_t k = 0; k < 3 && rules[i].outcomes[k] != NULL; k++)
            end_run(rules[i].outcomes[k], rules[i].rules);
        until(rules[i].want);
        settle();
        CHECK_INT(fr_store_notices(st, 10, &arena, &notices, NULL), FR_OK);
        CHECK_INT(notices.n, 0);
        CHECK(!fr_host_owes(host));
        fr_arena_finish(&arena);
        close_host();
    }
    check_row("");
}

static void test_throttle(void)
{
    check_row("throttle");
    reset();
    begin(CHANNELS "notify: {on: failed, to: a, throttle: 10m}\n");
    end_run("failed", "");
    until("a failed 1 sent 1");
    end_run("failed", "");
    end_run("failed", "");
    until("a failed 1 sent 1, a failed 2 held 0, a failed 3 held 0");
    pass(601);
    end_run("failed", "");
    until("a failed 1 sent 1, a failed 2 held 0, a failed 3 held 0, a failed 4 sent 1");
    check_got("a run.failed 1, a run.failed 4 held");
    close_host();
}

/* A message names the schedule of its run, and no caller of the interface. */
static void test_schedule(void)
{
    struct fr_arena arena = {0};
    struct fr_delivery_row row = {.body = ""};

    check_row("the schedule of a run");
    reset();
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    end_run("failed", "");
    of_schedule = "nightly";
    end_run("failed", "");
    of_schedule = NULL;
    until("a failed 1 sent 1, a failed 2 sent 1");
    CHECK_INT(fr_store_delivery(st, 1, &arena, &row, NULL), FR_OK);
    CHECK(strstr(row.body, "\"schedule\"") == NULL);
    CHECK_INT(fr_store_delivery(st, 2, &arena, &row, NULL), FR_OK);
    CHECK(strstr(row.body, "\"schedule\":\"nightly\"") != NULL);
    fr_arena_finish(&arena);
    close_host();
}

/* What happens in quiet hours comes at their end; other messages of the channel do not wait. */
static void test_quiet(void)
{
    int minute, from, to;
    char config[300];

    check_row("quiet hours");
    reset();
    minute = (int)(fr_sys.wall_ms() / 60000 % 1440);
    from = (minute + 1439) % 1440;
    to = (minute + 5) % 1440;
    snprintf(config, sizeof(config),
             CHANNELS "notify: [{on: failed, to: a, quiet: %02d:%02d-%02d:%02d}, {on: cancelled, "
                      "to: a}]\n",
             from / 60, from % 60, to / 60, to % 60);
    begin(config);
    end_run("failed", "");
    end_run("cancelled", "");
    until("a failed 1 quiet 0, a cancelled 2 sent 1");
    CHECK(!fr_host_owes(host));
    pass(300);
    until("a failed 1 sent 1, a cancelled 2 sent 1");
    check_got("a run.cancelled 2, a run.failed 1");
    end_run("failed", "");
    until("a failed 1 sent 1, a cancelled 2 sent 1, a failed 3 sent 1");
    close_host();
}

/* ---- receivers ---- */

/* Down for an hour: each try at its time, in the order of events; another channel does not wait. */
static void test_down(void)
{
    static const int steps_s[] = {5, 30, 120, 600};
    char want[100];

    check_row("a receiver that is down");
    reset();
    answer((struct fr_sent){.text = "refused"});
    begin(CHANNELS "notify: [{on: failed, to: a}, {on: cancelled, to: b}]\n");
    end_run("failed", "");
    until("a failed 1 waiting 1");
    end_run("failed", "");
    end_run("cancelled", "");
    until("a failed 1 waiting 1, a failed 2 waiting 0, b cancelled 3 sent 1");
    CHECK(!fr_host_owes(host)); /* what waits has its turn with the next host */
    for (int i = 0; i < 4; i++) {
        pass(steps_s[i] * 79 / 100);
        snprintf(want, sizeof(want),
                 "a failed 1 waiting %d, a failed 2 waiting 0, b cancelled 3 sent 1", i + 1);
        until(want); /* not before its time */
        settle();
        pass(steps_s[i] * 42 / 100 + 1);
        snprintf(want, sizeof(want),
                 "a failed 1 waiting %d, a failed 2 waiting 0, b cancelled 3 sent 1", i + 2);
        until(want);
    }
    answer((struct fr_sent){.done = true});
    pass(3600 * 121 / 100);
    until("a failed 1 sent 6, a failed 2 sent 1, b cancelled 3 sent 1");
    check_got("a run.failed 1, b run.cancelled 3, a run.failed 1, a run.failed 1, a run.failed 1, "
              "a run.failed 1, a run.failed 1, a run.failed 2");
    close_host();
}

static void test_keys(void)
{
    const char *first, *second;

    check_row("the key is the same in each try");
    reset();
    answer((struct fr_sent){.text = "no"});
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    end_run("failed", "");
    until("a failed 1 waiting 1");
    close_host();
    begin(configured);
    pass(7);
    until("a failed 1 waiting 2");
    first = strstr(receiver.got.p, "msg_");
    second = strstr(first + 1, "msg_");
    CHECK(second != NULL && strncmp(first, second, 36) == 0);
    close_host();
}

static void test_wait(void)
{
    check_row("a receiver that asks for patience");
    reset();
    answer((struct fr_sent){.wait_ms = 900 * 1000, .text = "HTTP status 429"});
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    end_run("failed", "");
    until("a failed 1 waiting 1");
    pass(890);
    settle();
    until("a failed 1 waiting 1");
    answer((struct fr_sent){.done = true});
    pass(11);
    until("a failed 1 sent 2");
    close_host();
}

/* The wall clock is set back by a day: nothing waits for that day. */
static void test_set_back(void)
{
    check_row("a clock that is set back");
    reset();
    answer((struct fr_sent){.text = "no"});
    begin(CHANNELS "notify: {on: failed, to: a, throttle: 10m}\n");
    end_run("failed", "");
    until("a failed 1 waiting 1");
    answer((struct fr_sent){.done = true});
    pass(-86400);
    until("a failed 1 sent 2");
    end_run("failed", "");
    until("a failed 1 sent 2, a failed 2 sent 1");
    close_host();
}

static void test_refused(void)
{
    check_row("a message that is refused");
    reset();
    answer((struct fr_sent){.refused = true, .text = "HTTP status 400"});
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    end_run("failed", "");
    end_run("failed", "");
    until("a failed 1 waiting 1, a failed 2 waiting 0");
    pass(7);
    until("a failed 1 waiting 2, a failed 2 waiting 0");
    pass(37);
    until("a failed 1 dead 3, a failed 2 waiting 1");
    check_row("sent again it is tried as often as before");
    check_answer(FR_API_POST, "/api/v1/deliveries/1/again", "{}", 202, "\"state\":\"waiting\"");
    until("a failed 1 waiting 1, a failed 2 waiting 1");
    close_host();
}

static void test_gone(void)
{
    check_row("a receiver that wants no more");
    reset();
    answer((struct fr_sent){.gone = true, .text = "HTTP status 410"});
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    end_run("failed", "");
    end_run("failed", "");
    until("a failed 1 dead 1, a failed 2 dead 0");
    end_run("failed", "");
    until("a failed 1 dead 1, a failed 2 dead 0, a failed 3 dead 0");
    check_answer(FR_API_GET, "/api/v1/channels", NULL, 200,
                 "\"off\":\"the channel is off: its receiver wants no more (410)\"");
    check_answer(FR_API_GET, "/metrics", NULL, 200,
                 "flowrun_deliveries_total{kind=\"webhook\",result=\"dead\"} 1\n");
    check_answer(FR_API_GET, "/metrics", NULL, 200,
                 "flowrun_deliveries_waiting{kind=\"webhook\"} 0\n");
    for (int no = 2; no <= 3; no++) { /* what waited then, and what came later */
        char path[40];

        snprintf(path, sizeof(path), "/api/v1/deliveries/%d", no);
        check_answer(FR_API_GET, path, NULL, 200,
                     "\"answer\":\"the channel is off: its receiver wants no more (410)\"");
    }
    answer((struct fr_sent){.done = true});
    check_answer(FR_API_POST, "/api/v1/deliveries/2/again", "{}", 202, "\"state\":\"waiting\"");
    until("a failed 1 dead 1, a failed 2 sent 1, a failed 3 dead 0");
    end_run("failed", "");
    until("a failed 1 dead 1, a failed 2 sent 1, a failed 3 dead 0, a failed 4 sent 1");
    close_host();
}

/* A test message goes through a channel that is off, and turns it on. */
static void test_try(void)
{
    struct fr_api_response res;

    check_row("a test message");
    reset();
    answer((struct fr_sent){.gone = true, .text = "HTTP status 410"});
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    end_run("failed", "");
    until("a failed 1 dead 1");
    answer((struct fr_sent){.done = true});
    res = ask(FR_API_POST, "/api/v1/deliveries", "{\"channel\": \"a\"}");
    CHECK_INT(res.status, 201);
    CHECK_TEXT(res.location.p, "/api/v1/deliveries/2");
    fr_api_response_finish(&res);
    check_answer(FR_API_GET, "/api/v1/channels", NULL, 200, "\"kind\":\"webhook\",\"off\":\"\"}");
    until("a failed 1 dead 1, a test 0 sent 1");
    check_got("a run.failed 1, a channel.test 0");
    close_host();
}

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
    {FR_API_GET, "?limit=2", NULL, 200, "\"next\":\"/api/v1/deliveries?limit=2&before=5\""},
    {FR_API_GET, "?limit=1&channel=a&state=sent&run=3", NULL, 200, "{\"items\":[{\"id\":5,"},
    {FR_API_GET, "?limit=1&channel=a&state=sent&run=3", NULL, 200,
     "\"next\":\"/api/v1/deliveries?limit=1&before=5&channel=a&state=sent&run=3\""},
    {FR_API_GET, "?before=2", NULL, 200, "{\"items\":[{\"id\":1,\"key\":\"msg_"},
    {FR_API_GET, "?limit=200&before=2", NULL, 200,
     "\"channel\":\"a\",\"rule\":\"config.yaml "
     "1\",\"kind\":\"failed\",\"run\":1,\"pipeline\":\"p\","
     "\"state\":\"sent\""},
    {FR_API_GET, "?run=9", NULL, 200, "{\"items\":[]}"},
    {FR_API_GET, "?limit=0", NULL, 400, "'limit' must be 1 to 200"},
    {FR_API_GET, "?limit=201", NULL, 400, "'limit' must be 1 to 200"},
    {FR_API_GET, "?run=x", NULL, 400, "a whole number"},
    {FR_API_GET, "?before=x", NULL, 400, "a whole number"},
    {FR_API_GET, "?channel=none", NULL, 404, "no channel 'none'"},
    {FR_API_GET, "?state=gone", NULL, 400, "'state' must be"},
    {FR_API_GET, "/1", NULL, 200, "\"message\":{\"type\":\"run.failed\""},
    {FR_API_GET, "/1", NULL, 200, "\"url\":\"http://h/runs/1\""},
    {FR_API_GET, "/1", NULL, 200, "\"params\":{\"x\":\"1\"}"},
    {FR_API_GET, "/9", NULL, 404, "9"},
    {FR_API_POST, "", "{\"channel\": \"none\"}", 404, "no channel"},
    {FR_API_POST, "", "{}", 400, "the body must be"},
    {FR_API_POST, "/9/again", "{}", 404, "9"},
};

static void test_asked(void)
{
    struct fr_run_shell shell = {.cwd = "/", .getenv = no_variable};
    struct fr_err err = {0};

    check_row("what is asked");
    reset();
    begin(CHANNELS "notify: {on: failed, to: [a, b]}\n");
    CHECK_INT(fr_host_pages(host, "http://h/", &shell, &err), FR_OK);
    for (int i = 0; i < 3; i++)
        end_run("failed", "");
    until("a failed 1 sent 1, b failed 1 sent 1, a failed 2 sent 1, b failed 2 sent 1, "
          "a failed 3 sent 1, b failed 3 sent 1");
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        char path[120];

        check_row(asked[i].path);
        snprintf(path, sizeof(path), "/api/v1/deliveries%s", asked[i].path);
        check_answer(asked[i].method, path, asked[i].body, asked[i].status, asked[i].text);
    }
    check_answer(FR_API_GET, "/api/v1/channels", NULL, 200, "\"rules\":[{\"on\":[\"failed\"]");
    check_row("one that waits");
    block(true);
    check_answer(FR_API_POST, "/api/v1/deliveries/1/again", "{}", 202, "\"state\":\"waiting\"");
    check_answer(FR_API_POST, "/api/v1/deliveries/1/again", "{}", 409, "waits to be sent already");
    block(false);
    close_host();
}

static void test_many_dead(void)
{
    struct fr_arena arena = {0};
    const char *note = NULL;

    check_row("twenty in a row");
    reset();
    answer((struct fr_sent){.refused = true, .text = "HTTP status 404"});
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    for (int i = 0; i < 21; i++)
        end_run("failed", "");
    for (int i = 0; i < 500 && note == NULL; i++) {
        pass(40);
        configure(configured);
        settle();
        CHECK_INT(fr_store_channel_note(st, "a", &arena, &note, NULL), FR_OK);
    }
    CHECK_TEXT(note, "the channel is off: 20 messages in a row failed");
    fr_arena_finish(&arena);
    close_host();
}

static void test_old(void)
{
    check_row("older than 36 hours");
    reset();
    answer((struct fr_sent){.text = "no"});
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    end_run("failed", "");
    end_run("failed", "");
    until("a failed 1 waiting 1, a failed 2 waiting 0");
    pass(36 * 3600 + 10);
    until("a failed 1 dead 1, a failed 2 dead 0");
    check_row("sent again its age begins anew");
    answer((struct fr_sent){.done = true});
    check_answer(FR_API_POST, "/api/v1/deliveries/2/again", "{}", 202, "\"state\":\"waiting\"");
    until("a failed 1 dead 1, a failed 2 sent 1");
    close_host();
}

/* The host's turns go on, and other channels have theirs, while a receiver takes its time. */
static void test_slow(void)
{
    const char *first;

    check_row("a slow receiver");
    reset();
    begin(CHANNELS "notify: [{on: failed, to: a}, {on: cancelled, to: b}]\n");
    block(true);
    end_run("failed", "");
    end_run("cancelled", "");
    until("a failed 1 waiting 0, b cancelled 2 sent 1");
    CHECK(fr_host_owes(host));
    check_answer(FR_API_GET, "/api/v1/runs", NULL, 200, "\"no\":2");
    block(false);
    until("a failed 1 sent 1, b cancelled 2 sent 1");
    first = strstr(receiver.got.p, "a run.failed");
    CHECK(first != NULL && strstr(first + 1, "a run.failed") == NULL);
    close_host();
}

/* ---- hosts that die ---- */

static void test_killed(void)
{
    check_row("a host that ends behind the commit");
    reset();
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    end_run("failed", "");
    close_host(); /* no turn was made */
    begin(configured);
    until("a failed 1 sent 1");
    check_got("a run.failed 1");
    close_host();

    check_row("a host that ends while it sends");
    reset();
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    block(true);
    end_run("failed", "");
    until("a failed 1 waiting 0");
    while (receiver.got.n == 0)
        settle();
    close_host();
    block(false);
    begin(configured);
    until("a failed 1 sent 1");
    check_got("a run.failed 1, a run.failed 1");
    close_host();
}

/* What is not committed is not told. */
static void test_rollback(void)
{
    struct fr_run_row row = {.name = "p", .state = "over", .outcome = "failed", .params = "{}"};
    struct fr_err err = {0};

    check_row("a commit that fails");
    reset();
    begin(CHANNELS "notify: {on: failed, to: a}\n");
    CHECK_INT(fr_id_new(&row.id, &err), FR_OK);
    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    fr_store_rollback(st);
    end_run("failed", "");
    until("a failed 1 sent 1");
    check_got("a run.failed 1");
    close_host();
}

int main(void)
{
    make_home();
    fr_sys.wall_ms = shifted_wall_ms;
    test_rules();
    test_throttle();
    test_quiet();
    test_down();
    test_keys();
    test_schedule();
    test_wait();
    test_set_back();
    test_refused();
    test_gone();
    test_try();
    test_asked();
    test_many_dead();
    test_old();
    test_slow();
    test_killed();
    test_rollback();
    fr_buf_finish(&receiver.got);
    remove_home();
    return check_done();
}
