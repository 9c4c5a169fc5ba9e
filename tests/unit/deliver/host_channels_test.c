/* Channels of a host whose receivers are down, slow or unwilling. */
#include "engine/store/sql.h"
#include "tests/unit/deliver/outbox_bed.h"

static struct outbox o = {.bed = HOST_BED};

/* Down for an hour: each try at its time, in the order of events; another channel does not wait. */
static void test_down(void)
{
    static const int steps_s[] = {5, 30, 120, 600};
    char want[100];

    check_row("a receiver that is down");
    reset(&o);
    answer(&o, (struct fr_sent){.text = "refused"});
    begin(&o, CHANNELS "notify: [{on: failed, to: a}, {on: cancelled, to: b}]\n");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 1");
    end_run(&o, FR_OUT_FAILED, "");
    end_run(&o, FR_OUT_CANCELLED, "");
    until(&o, "a failed 1 waiting 1, a failed 2 waiting 0, b cancelled 3 sent 1");
    CHECK(!fr_host_owes(o.bed.host)); /* what waits has its turn with the next host */
    for (int i = 0; i < 4; i++) {
        pass(steps_s[i] * 79 / 100);
        snprintf(want, sizeof(want),
                 "a failed 1 waiting %d, a failed 2 waiting 0, b cancelled 3 sent 1", i + 1);
        until(&o, want); /* not before its time */
        settle_host(&o.bed);
        pass(steps_s[i] * 42 / 100 + 1);
        snprintf(want, sizeof(want),
                 "a failed 1 waiting %d, a failed 2 waiting 0, b cancelled 3 sent 1", i + 2);
        until(&o, want);
    }
    answer(&o, (struct fr_sent){.done = true});
    pass(3600 * 121 / 100);
    until(&o, "a failed 1 sent 6, a failed 2 sent 1, b cancelled 3 sent 1");
    check_got(&o,
              "a run.failed 1, b run.cancelled 3, a run.failed 1, a run.failed 1, a run.failed 1, "
              "a run.failed 1, a run.failed 1, a run.failed 2");
    close_host(&o.bed);
}

static void test_keys(void)
{
    const char *first, *second;

    check_row("the key is the same in each try");
    reset(&o);
    answer(&o, (struct fr_sent){.text = "no"});
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 1");
    close_host(&o.bed);
    begin(&o, o.config);
    pass(7);
    until(&o, "a failed 1 waiting 2");
    first = strstr(o.got.p, "msg_");
    second = strstr(first + 1, "msg_");
    CHECK(second != NULL && strncmp(first, second, 36) == 0);
    close_host(&o.bed);
}

static void test_wait(void)
{
    check_row("a receiver that asks for patience");
    reset(&o);
    answer(&o, (struct fr_sent){.wait_ms = 900 * 1000, .text = "HTTP status 429"});
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 1");
    pass(890);
    settle_host(&o.bed);
    until(&o, "a failed 1 waiting 1");
    answer(&o, (struct fr_sent){.done = true});
    pass(11);
    until(&o, "a failed 1 sent 2");
    close_host(&o.bed);
}

/* The wall clock is set back by a day: nothing waits for that day. */
static void test_set_back(void)
{
    check_row("a clock that is set back");
    reset(&o);
    answer(&o, (struct fr_sent){.text = "no"});
    begin(&o, CHANNELS "notify: {on: failed, to: a, throttle: 10m}\n");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 1");
    answer(&o, (struct fr_sent){.done = true});
    bed_pass(-86400);
    pass(5); /* when its next try was to be: the host looks at its clock */
    until(&o, "a failed 1 sent 2");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 sent 2, a failed 2 sent 1");
    close_host(&o.bed);
}

static void test_refused(void)
{
    check_row("a message that is refused");
    reset(&o);
    answer(&o, (struct fr_sent){.refused = true, .text = "HTTP status 400"});
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    end_run(&o, FR_OUT_FAILED, "");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 1, a failed 2 waiting 0");
    pass(7);
    until(&o, "a failed 1 waiting 2, a failed 2 waiting 0");
    pass(37);
    until(&o, "a failed 1 dead 3, a failed 2 waiting 1");
    check_row("sent again it is tried as often as before");
    check_answer(ask(&o.bed, POST, "/api/v1/deliveries/1/again", "{}"), 202,
                 "\"state\":\"waiting\"");
    until(&o, "a failed 1 waiting 1, a failed 2 waiting 1");
    close_host(&o.bed);
}

static void test_gone(void)
{
    check_row("a receiver that wants no more");
    reset(&o);
    answer(&o, (struct fr_sent){.gone = true, .text = "HTTP status 410"});
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    end_run(&o, FR_OUT_FAILED, "");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 dead 1, a failed 2 dead 0");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 dead 1, a failed 2 dead 0, a failed 3 dead 0");
    check_answer(ask(&o.bed, GET, "/api/v1/channels", NULL), 200,
                 "\"off\":\"the channel is off: its receiver wants no more (410)\"");
    check_answer(ask(&o.bed, GET, "/metrics", NULL), 200,
                 "flowrun_deliveries_total{kind=\"webhook\",result=\"dead\"} 1\n");
    check_answer(ask(&o.bed, GET, "/metrics", NULL), 200,
                 "flowrun_deliveries_waiting{kind=\"webhook\"} 0\n");
    for (int no = 2; no <= 3; no++) { /* what waited then, and what came later */
        char path[40];

        snprintf(path, sizeof(path), "/api/v1/deliveries/%d", no);
        check_answer(ask(&o.bed, GET, path, NULL), 200,
                     "\"answer\":\"the channel is off: its receiver wants no more (410)\"");
    }
    answer(&o, (struct fr_sent){.done = true});
    check_answer(ask(&o.bed, POST, "/api/v1/deliveries/2/again", "{}"), 202,
                 "\"state\":\"waiting\"");
    until(&o, "a failed 1 dead 1, a failed 2 sent 1, a failed 3 dead 0");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 dead 1, a failed 2 sent 1, a failed 3 dead 0, a failed 4 sent 1");
    close_host(&o.bed);
}

/* A test message goes through a channel that is off, and turns it on. */
static void test_try(void)
{
    struct fr_api_response res;

    check_row("a test message");
    reset(&o);
    answer(&o, (struct fr_sent){.gone = true, .text = "HTTP status 410"});
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 dead 1");
    answer(&o, (struct fr_sent){.done = true});
    res = ask(&o.bed, POST, "/api/v1/deliveries", "{\"channel\": \"a\"}");
    CHECK_INT(res.status, 201);
    CHECK_TEXT(res.location.p, "/api/v1/deliveries/2");
    fr_api_response_finish(&res);
    check_answer(ask(&o.bed, GET, "/api/v1/channels", NULL), 200,
                 "\"kind\":\"webhook\",\"off\":\"\"}");
    until(&o, "a failed 1 dead 1, a test 0 sent 1");
    check_got(&o, "a run.failed 1, a channel.test 0");
    close_host(&o.bed);
}

static void test_many_dead(void)
{
    struct fr_arena arena = {0};
    const char *note = NULL;

    check_row("twenty in a row");
    reset(&o);
    answer(&o, (struct fr_sent){.refused = true, .text = "HTTP status 404"});
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    for (int i = 0; i < 21; i++)
        end_run(&o, FR_OUT_FAILED, "");
    for (int i = 0; i < 500 && note == NULL; i++) {
        pass(40);
        settle_host(&o.bed);
        CHECK_INT(fr_store_channel_note(o.bed.st, "a", &arena, &note, NULL), FR_OK);
    }
    CHECK_TEXT(note, "the channel is off: 20 messages in a row failed");
    fr_arena_finish(&arena);
    close_host(&o.bed);
}

static void test_old(void)
{
    check_row("older than 36 hours");
    reset(&o);
    answer(&o, (struct fr_sent){.text = "no"});
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    end_run(&o, FR_OUT_FAILED, "");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 1, a failed 2 waiting 0");
    pass(36 * 3600 + 10);
    until(&o, "a failed 1 dead 1, a failed 2 dead 0");
    check_row("sent again its age begins anew");
    answer(&o, (struct fr_sent){.done = true});
    check_answer(ask(&o.bed, POST, "/api/v1/deliveries/2/again", "{}"), 202,
                 "\"state\":\"waiting\"");
    until(&o, "a failed 1 dead 1, a failed 2 sent 1");
    close_host(&o.bed);
}

/* The host's turns go on, and other channels have theirs, while a receiver takes its time. */
static void test_slow(void)
{
    const char *first;

    check_row("a slow receiver");
    reset(&o);
    begin(&o, CHANNELS "notify: [{on: failed, to: a}, {on: cancelled, to: b}]\n");
    block(&o, true);
    end_run(&o, FR_OUT_FAILED, "");
    end_run(&o, FR_OUT_CANCELLED, "");
    until(&o, "a failed 1 waiting 0, b cancelled 2 sent 1");
    CHECK(fr_host_owes(o.bed.host));
    check_answer(ask(&o.bed, GET, "/api/v1/runs", NULL), 200, "\"no\":2");
    block(&o, false);
    until(&o, "a failed 1 sent 1, b cancelled 2 sent 1");
    first = strstr(o.got.p, "a run.failed");
    CHECK(first != NULL && strstr(first + 1, "a run.failed") == NULL);
    close_host(&o.bed);
}

/* The gauge is of a kind, whichever of its channels they wait for. */
static void test_waiting(void)
{
    check_row("two channels of a kind");
    reset(&o);
    answer(&o, (struct fr_sent){.text = "no"});
    begin(&o, "channels: {a: {kind: webhook, url: \"http://h/a\"}, c: {kind: webhook, url: "
              "\"http://h/ca\"}}\nnotify: {on: failed, to: [a, c]}\n");
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 1, c failed 1 waiting 1");
    check_answer(ask(&o.bed, GET, "/metrics", NULL), 200,
                 "flowrun_deliveries_waiting{kind=\"webhook\"} 2\n");
    close_host(&o.bed);
}

static int refused;

static void refuse(sqlite3_context *of, int n, sqlite3_value **v)
{
    (void)n, (void)v;
    refused++;
    sqlite3_result_error(of, "refused", -1);
}

static void sql(const char *text)
{
    CHECK_INT(sqlite3_exec(o.bed.st->db, text, NULL, NULL, NULL), SQLITE_OK);
}

/* What was sent is not sent again because that could not be written at once. */
static void test_unwritten(void)
{
    check_row("a result that cannot be written");
    reset(&o);
    begin(&o, CHANNELS "notify: {on: failed, to: a}\n");
    block(&o, true);
    end_run(&o, FR_OUT_FAILED, "");
    until(&o, "a failed 1 waiting 0");
    CHECK_INT(
        sqlite3_create_function(o.bed.st->db, "refuse", 0, SQLITE_UTF8, NULL, refuse, NULL, NULL),
        SQLITE_OK);
    sql("CREATE TEMP TRIGGER refuse BEFORE UPDATE ON delivery BEGIN SELECT refuse(); END");
    block(&o, false);
    while (refused == 0)
        settle_host(&o.bed);
    until(&o, "a failed 1 waiting 0");
    sql("DROP TRIGGER refuse");
    pass(1);
    until(&o, "a failed 1 sent 1");
    check_got(&o, "a run.failed 1");
    close_host(&o.bed);
}

int main(void)
{
    begin_outbox(&o);
    test_down();
    test_keys();
    test_wait();
    test_set_back();
    test_refused();
    test_gone();
    test_try();
    test_many_dead();
    test_old();
    test_slow();
    test_waiting();
    test_unwritten();
    return end_outbox(&o);
}
