/* Messages about events: rules, words, shapes of channels, and when a try follows. */
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/notify/notify.h"
#include "engine/notify/otel.h"

#include "tests/unit/check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t wall_ms = 1795320000000; /* 2026-11-22T04:00:00Z, a Sunday */

static int64_t fixed_wall_ms(void)
{
    return wall_ms;
}

static json_t *parse(const char *text)
{
    json_t *doc = NULL;
    struct fr_err err = {0};

    if (!CHECK_INT(fr_json_parse(fr_str_of(text), "test", &doc, &err), FR_OK))
        printf("   %s\n", err.msg);
    return doc;
}

/* ---- rules ---- */

static void test_wants(void)
{
    static const struct {
        const char *pipelines, *name;
        bool want;
    } rows[] = {
        {"[]", "p", true},
        {"[\"p\"]", "p", true},
        {"[\"p\"]", "pp", false},
        {"[\"q\", \"p\"]", "p", true},
        {"[\"*\"]", "p", true},
        {"[\"*\"]", "", true},
        {"[\"night*\"]", "nightly", true},
        {"[\"night*\"]", "night", true},
        {"[\"*-lora\"]", "deepseek-lora", true},
        {"[\"*-lora\"]", "deepseek-lora2", false},
        {"[\"a*b*c\"]", "a-bb-c", true},
        {"[\"a*b*c\"]", "a-c-b", false},
        {"[\"a*bc\"]", "abbc", true},
        {"[\"\"]", "p", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200];
        json_t *rule;

        check_row(rows[i].pipelines);
        snprintf(text, sizeof(text), "{\"on\": [\"failed\", \"stalled\"], \"pipelines\": %s}",
                 rows[i].pipelines);
        rule = parse(text);
        CHECK(fr_notify_wants(rule, "stalled", rows[i].name) == rows[i].want);
        CHECK(!fr_notify_wants(rule, "started", rows[i].name));
        json_decref(rule);
    }
    check_row("");
}

/* ---- quiet hours ---- */

/* Minutes until they end, from a wall time of Berlin, where 2026-03-29 lacks the hour from 02:00
 * and 2026-10-25 has it twice; 0: it is in none. */
static void test_quiet(void)
{
    static const struct {
        const char *name;
        int from, to;
        struct fr_date date;
        int minute;
        int64_t want;
    } rows[] = {
        {"before", 1320, 420, {2026, 11, 22}, 1319, 0},
        {"the first minute", 1320, 420, {2026, 11, 22}, 1320, 540},
        {"behind midnight", 1320, 420, {2026, 11, 23}, 30, 390},
        {"the last minute", 1320, 420, {2026, 11, 23}, 419, 1},
        {"the end", 1320, 420, {2026, 11, 23}, 420, 0},
        {"by day", 720, 780, {2026, 11, 22}, 750, 30},
        {"by day, before", 720, 780, {2026, 11, 22}, 719, 0},
        {"by day, the end", 720, 780, {2026, 11, 22}, 780, 0},
        {"until midnight", 1320, 0, {2026, 12, 31}, 1380, 60},
        {"a night of an hour less", 1320, 420, {2026, 3, 28}, 1380, 420},
        {"of an hour more", 1320, 420, {2026, 10, 24}, 1380, 540},
        {"an end that does not exist", 0, 150, {2026, 3, 29}, 30, 120},
    };
    struct fr_zone berlin = {0};

    if (!CHECK_INT(fr_zone_load(&berlin, NULL, "Europe/Berlin", NULL), FR_OK))
        return;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *rule = json_pack("{s:[i, i]}", "quiet", rows[i].from, rows[i].to);
        int64_t now =
            fr_zone_instant(&berlin, (struct fr_when){.s = fr_date_day(rows[i].date) * FR_DAY_S +
                                                           rows[i].minute * 60}) *
            1000;
        int64_t end = fr_notify_quiet_end(rule, &berlin, now);

        check_row(rows[i].name);
        CHECK_INT(end == 0 ? 0 : (end - now) / 60000, rows[i].want);
        json_decref(rule);
    }
    check_row("");
    fr_zone_finish(&berlin);
}

/* ---- words ---- */

static const struct {
    const char *message, *title, *text;
} messages[] = {
    {"{\"type\": \"run.failed\", \"data\": {\"run\": 41, \"pipeline\": \"nightly\", \"reason\": "
     "\"train@n2: exit code 3\", \"started\": \"2026-11-22T02:00:00Z\", \"first_failure\": "
     "{\"task\": \"train\", \"node\": \"n2\", \"cause\": \"exit\", \"code\": 3, \"tail\": "
     "[\"x\"]}, "
     "\"url\": "
     "\"http://h/runs/41\"}}",
     "nightly run 41 failed",
     "nightly run 41 failed\ntrain@n2: exit code 3\nfirst failure: train on n2, exit 3\n    x\n"
     "started: 2026-11-22T02:00:00Z\nhttp://h/runs/41\n"},
    {"{\"type\": \"run.recovered\", \"data\": {\"run\": 42, \"pipeline\": \"nightly\", \"held\": "
     "2}}",
     "nightly run 42 succeeded, after a failure",
     "nightly run 42 succeeded, after a failure\n"
     "2 more were held back since the last message of this kind\n"},
    {"{\"type\": \"run.failed\", \"data\": {\"run\": 42, \"pipeline\": \"p\", \"held\": 1}}",
     "p run 42 failed",
     "p run 42 failed\n1 more was held back since the last message of this kind\n"},
    {"{\"type\": \"task.stalled\", \"data\": {\"run\": 1, \"pipeline\": \"p\", \"subject\": "
     "\"train@n1\", \"text\": \"no progress for 10m\"}}",
     "p run 1: train@n1 shows no progress",
     "p run 1: train@n1 shows no progress\nno progress for 10m\n"},
    {"{\"type\": \"node.unreachable\", \"data\": {\"run\": 1, \"pipeline\": \"p\", \"subject\": "
     "\"n2\"}}",
     "p run 1: node n2 cannot be reached", "p run 1: node n2 cannot be reached\n"},
    {"{\"type\": \"schedule.missed\", \"data\": {\"pipeline\": \"p\", \"subject\": \"nightly\"}}",
     "p: schedule nightly missed a time", "p: schedule nightly missed a time\n"},
    {"{\"type\": \"node.disk_low\", \"data\": {\"subject\": \"n1\"}}",
     "flowrun: node n1 has little disk left", "flowrun: node n1 has little disk left\n"},
    {"{\"type\": \"run.late\", \"data\": {\"run\": 3, \"pipeline\": \"p\"}}",
     "p run 3 takes longer than it should", "p run 3 takes longer than it should\n"},
    {"{\"type\": \"run.started\", \"data\": {\"run\": 4, \"pipeline\": \"p\", \"schedule\": "
     "\"nightly\"}}",
     "p run 4 started", "p run 4 started\nschedule: nightly\n"},
    {"{\"type\": \"run.succeeded\", \"data\": {\"run\": 5, \"pipeline\": \"p\", \"started\": "
     "\"s\", \"ended\": \"e\", \"held\": 0}}",
     "p run 5 succeeded", "p run 5 succeeded\nstarted: s\nended: e\n"},
    {"{\"type\": \"run.cancelled\", \"data\": {\"run\": 6, \"pipeline\": \"p\"}}",
     "p run 6 was cancelled", "p run 6 was cancelled\n"},
    {"{\"type\": \"run.failed\", \"data\": {\"run\": 7, \"pipeline\": \"p\", \"first_failure\": "
     "{\"task\": \"t\", "
     "\"node\": \"n\", \"cause\": \"lost\", \"code\": 0, \"tail\": [\"x\", \"\", \"y\"]}}}",
     "p run 7 failed", "p run 7 failed\nfirst failure: t on n, lost\n    x\n    \n    y\n"},
    {"{\"type\": \"task.not_finite\", \"data\": {\"run\": 8, \"pipeline\": \"p\", \"subject\": "
     "\"t@n\"}}",
     "p run 8: t@n has a loss that is not finite", "p run 8: t@n has a loss that is not finite\n"},
    {"{\"type\": \"schedule.paused\", \"data\": {\"pipeline\": \"p\", \"subject\": \"s\"}}",
     "p: schedule s was paused", "p: schedule s was paused\n"},
    {"{\"type\": \"run.new_kind\", \"data\": {\"run\": 9, \"pipeline\": \"p\"}}",
     "p run 9 run.new_kind", "p run 9 run.new_kind\n"},
    {"{\"type\": \"channel.test\", \"data\": {\"text\": \"x\"}}", "flowrun: a test message",
     "flowrun: a test message\nx\n"},
    {"{\"type\": \"run.failed\", \"data\": {\"run\": 1, \"pipeline\": \"p\", \"reason\": "
     "\"a\\r\\nBcc: x@y\\u001b[2J\"}}",
     "p run 1 failed", "p run 1 failed\na\\x0d\\x0aBcc: x@y\\x1b[2J\n"},
};

static void test_words(void)
{
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        json_t *doc = parse(messages[i].message);
        struct fr_buf title = {0}, text = {0};

        check_row(messages[i].title);
        fr_message_title(doc, &title);
        fr_message_text(doc, &text);
        CHECK_TEXT(title.p, messages[i].title);
        CHECK_TEXT(text.p, messages[i].text);
        fr_buf_finish(&title);
        fr_buf_finish(&text);
        json_decref(doc);
    }
    check_row("");
}

static void test_tail(void)
{
    static const struct {
        const char *name, *output;
        bool whole;
        const char *want;
    } rows[] = {
        {"nothing", "", true, "[]"},
        {"a line", "one\n", true, "[\"one\"]"},
        {"a line without an end", "one", true, "[\"one\"]"},
        {"a part of a line", "one", false, "[]"},
        {"lines behind a part", "one\ntwo\n\nthree\n", false, "[\"two\",\"\",\"three\"]"},
        {"colours", "\033[1;31merror\033[0m: \033]x\n", true, "[\"error: x\"]"},
        {"an escape that ends with @", "a\033[2@b\n", true, "[\"ab\"]"},
        {"an escape without an end", "a\033[1;3", true, "[\"a\"]"},
        {"only an escape", "a\033", true, "[\"a\"]"},
        {"a progress bar", "10%\r20%\r30%\r\nend\r\n", true, "[\"30%\",\"end\"]"},
        {"bytes that are no text", "a\tb\001\377\n", true, "[\"a b\\\\x01\\\\xff\"]"},
    };
    struct fr_buf many = {0};
    json_t *list;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text;

        check_row(rows[i].name);
        list = fr_message_tail(rows[i].output, strlen(rows[i].output), rows[i].whole);
        text = json_dumps(list, JSON_COMPACT);
        CHECK_TEXT(text, rows[i].want);
        free(text);
        json_decref(list);
    }
    check_row("many and long lines");
    for (int i = 0; i < 30; i++)
        fr_buf_fmt(&many, "%d %0500d\n", i, 0);
    list = fr_message_tail(many.p, many.n, true);
    CHECK_INT(json_array_size(list), 20);
    CHECK(fr_has_prefix(json_string_value(json_array_get(list, 0)), "10 000"));
    CHECK_INT(json_string_length(json_array_get(list, 19)), 299);
    json_decref(list);
    fr_buf_finish(&many);
    check_row("");
}

/* A card's lines are texts, whatever they look like. */
static void test_teams(void)
{
    static const struct {
        const char *text, *weight, *font;
    } lines[] = {{"p run 1 failed", "bolder", "default"},
                 {"[x](http://evil)", "default", "default"},
                 {"first failure: t on n, exit 3", "default", "default"},
                 {"    no", "default", "monospace"},
                 {"http://h/runs/1", "default", "default"}};
    json_t *doc =
        parse("{\"type\": \"run.failed\", \"data\": {\"run\": 1, \"pipeline\": \"p\", "
              "\"reason\": \"[x](http://evil)\", \"url\": \"http://h/runs/1\", "
              "\"first_failure\": {\"task\": \"t\", \"node\": \"n\", \"cause\": \"exit\", "
              "\"code\": 3, \"tail\": [\"no\"]}}}");
    json_t *teams = fr_message_teams(doc), *body = NULL;
    const char *kind = "", *type = "", *url = "";

    check_row("teams");
    CHECK_INT(json_unpack(teams, "{s:s, s:[{s:s, s:{s:s, s:s, s:o, s:[{s:s, s:s, s:s !}] !} !}] !}",
                          "type", &type, "attachments", "contentType", &kind, "content", "type",
                          &type, "version", &type, "body", &body, "actions", "type", &type, "title",
                          &type, "url", &url),
              0);
    CHECK_TEXT(kind, "application/vnd.microsoft.card.adaptive");
    CHECK_TEXT(url, "http://h/runs/1");
    CHECK_INT(json_array_size(body), sizeof(lines) / sizeof(lines[0]));
    for (size_t i = 0; i < json_array_size(body); i++) {
        const char *text = "", *weight = "", *font = "", *spacing = "";

        CHECK_INT(json_unpack(json_array_get(body, i), "{s:s, s:s, s:[{s:s, s:s, s:s, s:s !}] !}",
                              "type", &type, "spacing", &spacing, "inlines", "type", &type, "text",
                              &text, "weight", &weight, "fontType", &font),
                  0);
        CHECK_TEXT(type, "TextRun");
        CHECK_TEXT(text, lines[i].text);
        CHECK_TEXT(weight, lines[i].weight);
        CHECK_TEXT(font, lines[i].font);
        CHECK_TEXT(spacing, i == 0 ? "default" : "none");
    }
    json_decref(teams);
    json_decref(doc);
}

static void test_slack(void)
{
    json_t *doc = parse("{\"type\": \"run.failed\", \"data\": {\"run\": 1, \"pipeline\": \"p\", "
                        "\"reason\": \"<!channel> a & b\"}}");
    json_t *slack = fr_message_slack(doc);

    check_row("slack");
    CHECK_TEXT(json_string_value(json_object_get(slack, "text")),
               "*p run 1 failed*\n&lt;!channel&gt; a &amp; b\n");
    CHECK_INT(json_object_size(slack), 1);
    json_decref(slack);
    json_decref(doc);
}

/* Each line ends in CR LF, has at most 998 bytes, and only ours are headers. */
static void test_mail(void)
{
    struct fr_buf long_text = {0}, mail = {0};
    json_t *doc, *channel = parse("{\"kind\": \"email\", \"from\": \"f@x\", \"to\": [\"a@x\", "
                                  "\"b@x\"]}");

    check_row("mail");
    fr_buf_text(&long_text, "x");
    for (int i = 0; i < 700; i++)
        fr_buf_text(&long_text, "\303\244"); /* 1,401 bytes without an end */
    doc =
        json_pack("{s:s, s:{s:i, s:s, s:s, s:s}}", "type", "run.failed", "data", "run", 7,
                  "pipeline", "p", "id", "00112233445566778899aabbccddeeff", "reason", long_text.p);
    fr_message_mail(channel, "msg_1", doc, &mail);
    CHECK(!mail.bad);
    CHECK(fr_has_prefix(mail.p, "Date: Sun, 22 Nov 2026 04:00:00 +0000\r\n"
                                "From: f@x\r\n"
                                "To: a@x,\r\n b@x\r\n"
                                "Subject: p run 7 failed\r\n"
                                "Message-ID: <msg_1@flowrun>\r\n"
                                "In-Reply-To: <run-00112233445566778899aabbccddeeff@flowrun>\r\n"
                                "References: <run-00112233445566778899aabbccddeeff@flowrun>\r\n"
                                "Auto-Submitted: auto-generated\r\n"
                                "MIME-Version: 1.0\r\n"
                                "Content-Type: text/plain; charset=utf-8\r\n"
                                "Content-Transfer-Encoding: 8bit\r\n\r\n"
                                "p run 7 failed\r\nx\303\244"));
    for (const char *p = mail.p, *end; *p != '\0'; p = end + 2) {
        end = strstr(p, "\r\n");
        if (!CHECK(end != NULL && memchr(p, '\n', (size_t)(end - p)) == NULL))
            break;
        CHECK(end - p <= 998 && fr_utf8_valid(p, (size_t)(end - p)));
    }
    fr_buf_finish(&long_text);
    fr_buf_finish(&mail);
    json_decref(doc);
    check_row("a subject of other letters is cut between characters");
    fr_buf_text(&long_text, "x");
    for (int i = 0; i < 20; i++)
        fr_buf_text(&long_text, "\342\202\254");
    doc = json_pack("{s:s, s:{s:i, s:s}}", "type", "run.failed", "data", "run", 7, "pipeline",
                    long_text.p);
    wall_ms = 1804410485000;
    fr_message_mail(channel, "msg_1", doc, &mail);
    wall_ms = 1795320000000;
    CHECK(fr_has_prefix(mail.p, "Date: Sun, 7 Mar 2027 09:08:05 +0000\r\n"));
    CHECK(strstr(mail.p,
                 "\r\nSubject: "
                 "=?utf-8?B?eOKCrOKCrOKCrOKCrOKCrOKCrOKCrOKCrOKCrOKCrOKCrOKCrOKCrA==?=\r\n "
                 "=?utf-8?B?4oKs4oKs4oKs4oKs4oKs4oKs4oKsIHJ1biA3IGZhaWxlZA==?=\r\n") != NULL);
    fr_buf_finish(&long_text), fr_buf_finish(&mail);
    json_decref(doc), json_decref(channel);
    check_row("");
}

/* ---- tries ---- */

static void test_status(void)
{
    static const struct {
        int status, after;
        bool done, refused, gone;
        int64_t wait_ms;
    } rows[] = {
        {199, 0, false, false, false, 0},
        {200, 0, true, false, false, 0},
        {299, 0, true, false, false, 0},
        {300, 0, false, false, false, 0},
        {499, 0, false, true, false, 0},
        {400, 0, false, true, false, 0},
        {404, 9, false, true, false, 0},
        {408, 0, false, false, false, 0},
        {410, 0, false, true, true, 0},
        {425, 0, false, false, false, 0},
        {429, 120, false, false, false, 120000},
        {500, 7, false, false, false, 0},
        {503, 3600, false, false, false, 3600000},
        {503, 999999, false, false, false, 86400000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_sent got, again;
        json_t *doc;
        char name[32];

        snprintf(name, sizeof(name), "status %d", rows[i].status);
        check_row(name);
        fr_notify_status(rows[i].status, rows[i].after, &got);
        CHECK(got.done == rows[i].done && got.refused == rows[i].refused &&
              got.gone == rows[i].gone);
        CHECK_INT(got.wait_ms, rows[i].wait_ms);
        doc = fr_sent_json(&got);
        CHECK(fr_sent_read(doc, &again) && again.done == got.done && again.wait_ms == got.wait_ms);
        CHECK(again.refused == got.refused && again.gone == got.gone);
        CHECK_TEXT(again.text, got.text);
        json_decref(doc);
    }
    check_row("");
}

/* Delays lie within a fifth of each step, differ by key, and end. */
static void test_tries(void)
{
    static const int64_t steps_s[] = {5, 30, 120, 600, 3600, 10800, 28800, 86400};
    static const int64_t spreads[] = {970, 1104, 1193, 836, 925, 1059, 1148, 1192};
    struct fr_sent down = {.text = "down"}, patient = {.wait_ms = 50000},
                   refused = {.refused = true};
    int64_t delay, other, differ = 0;

    for (int64_t n = 1; n <= 8; n++)
        for (int k = 0; k < 50; k++) {
            char key[16], next[16];

            snprintf(key, sizeof(key), "msg_%d", k);
            snprintf(next, sizeof(next), "msg_%d", k + 1);
            CHECK_INT(fr_notify_try(&down, n, key, &delay), FR_TRY_AGAIN);
            CHECK(delay >= steps_s[n - 1] * 800 && delay <= steps_s[n - 1] * 1200);
            (void)fr_notify_try(&down, n, next, &other);
            differ += other != delay;
        }
    CHECK(differ > 300);
    for (int64_t n = 1; n <= 8; n++) { /* by the try, too */
        (void)fr_notify_try(&down, n, "msg_1", &delay);
        CHECK_INT(delay, steps_s[n - 1] * spreads[n - 1]);
    }
    CHECK_INT(fr_notify_try(&down, 9, "k", &delay), FR_TRY_DEAD);
    CHECK_INT(fr_notify_try(&patient, 1, "k", &delay), FR_TRY_AGAIN);
    CHECK_INT(delay, 50000);
    CHECK_INT(fr_notify_try(&refused, 2, "k", &delay), FR_TRY_AGAIN);
    CHECK_INT(fr_notify_try(&refused, 3, "k", &delay), FR_TRY_DEAD);
    CHECK_INT(fr_notify_try(&(struct fr_sent){.gone = true}, 1, "k", &delay), FR_TRY_DEAD);
    CHECK_INT(fr_notify_try(&(struct fr_sent){.done = true}, 9, "k", &delay), FR_TRY_DONE);
}

/* What never reaches a network: secrets that are not there, and channels that are broken. */
static void test_send(void)
{
    static const struct {
        const char *channel, *want;
    } rows[] = {
        {"{\"kind\": \"webhook\", \"url\": {\"env\": \"NO_SUCH_VARIABLE\"}}",
         "url: the host's environment has no variable NO_SUCH_VARIABLE"},
        {"{\"kind\": \"slack\", \"url\": {\"file\": \"/nonexistent/url\"}}", "url: "},
        {"{\"kind\": \"webhook\", \"url\": {\"env\": \"NO_URL\"}}",
         "url is not http://… or https://…"},
        {"{\"kind\": \"webhook\", \"url\": \"http://127.0.0.1:1/\", \"sign_with\": {\"env\": "
         "\"NO_URL\"}}",
         "a secret that signs webhooks is whsec_ and base64"},
        {"{\"kind\": \"command\", \"command\": [\"/bin/sh\", \"-c\", \"exit 3\"]}",
         "the command ended with exit code 3"},
        {"{\"kind\": \"command\", \"command\": [\"/nonexistent/program\"]}", ""},
    };
    json_t *message = parse("{\"type\": \"run.failed\", \"data\": {}}");

    setenv("NO_URL", "planted-secret", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *channel = parse(rows[i].channel);
        struct fr_sent sent;

        check_row(rows[i].channel);
        fr_notify_send(channel, "msg_1", message, &sent);
        CHECK(!sent.done && !sent.refused);
        if (!CHECK(sent.text[0] != '\0' && strstr(sent.text, rows[i].want) != NULL))
            printf("   %s\n", sent.text);
        CHECK(strstr(sent.text, "planted-secret") == NULL);
        json_decref(channel);
    }
    json_decref(message);
    check_row("");
}

static char fifo[64];
static int held_open = -1;

/* Time is up once the command's own child runs: it holds the FIFO open. */
static int time_is_up(struct pollfd *p, nfds_t n, int ms)
{
    (void)p;
    (void)n;
    CHECK_INT(ms, FR_SEND_COMMAND_MS);
    held_open = open(fifo, O_RDONLY | O_CLOEXEC);
    return 0;
}

/* A command that is late ends with all that it has started. */
static void test_late_command(void)
{
    int (*poll_of)(struct pollfd *, nfds_t, int) = fr_sys.poll;
    json_t *message = parse("{\"type\": \"run.failed\", \"data\": {}}"), *channel;
    char dir[] = "/tmp/flowrun-notify-XXXXXX", text[300];
    struct fr_sent sent;

    check_row("a late command and its child");
    CHECK(mkdtemp(dir) != NULL);
    snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
    CHECK_INT(mkfifo(fifo, 0600), 0);
    snprintf(text, sizeof(text),
             "{\"kind\": \"command\", \"command\": [\"/bin/sh\", \"-c\", "
             "\"sleep 60 > %s & wait\"]}",
             fifo);
    channel = parse(text);
    fr_sys.poll = time_is_up;
    fr_notify_send(channel, "msg_1", message, &sent);
    fr_sys.poll = poll_of;
    CHECK(!sent.done);
    CHECK_TEXT(sent.text, "the command was not over after 60 s");
    struct pollfd left = {.fd = held_open, .events = POLLIN};
    CHECK_INT(poll(&left, 1, 20000), 1); /* nobody has it open */
    close(held_open);
    unlink(fifo);
    rmdir(dir);
    json_decref(channel);
    json_decref(message);
    check_row("");
}

/* ---- the collector of the environment ---- */

static void test_collector(void)
{
    static const struct {
        const char *name, *all, *own, *headers, *channels, *want, *own_headers;
    } rows[] = {
        {"no variable", NULL, NULL, NULL, "{}", "{}", NULL},
        {"an empty one", "", NULL, "k=v", "{}", "{}", NULL},
        {"of all signals", "http://c", NULL, NULL, "{}",
         "{\"otlp\":{\"kind\":\"otlp\",\"url\":{\"env\":\"OTEL_EXPORTER_OTLP_ENDPOINT\"},\"path\":"
         "\"/v1/traces\"}}",
         NULL},
        {"of traces wins", "http://c", "http://t/x", "k=v", "{}",
         "{\"otlp\":{\"kind\":\"otlp\",\"url\":{\"env\":\"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT\"},"
         "\"headers\":{\"env\":\"OTEL_EXPORTER_OTLP_HEADERS\"}}}",
         NULL},
        {"of traces alone", NULL, "http://t/x", NULL, "{}",
         "{\"otlp\":{\"kind\":\"otlp\",\"url\":{\"env\":\"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT\"}}}",
         NULL},
        {"an empty one of traces", "http://c", "", NULL, "{}",
         "{\"otlp\":{\"kind\":\"otlp\",\"url\":{\"env\":\"OTEL_EXPORTER_OTLP_ENDPOINT\"},\"path\":"
         "\"/v1/traces\"}}",
         NULL},
        {"headers of traces win, too", "http://c", NULL, "k=v", "{}",
         "{\"otlp\":{\"kind\":\"otlp\",\"url\":{\"env\":\"OTEL_EXPORTER_OTLP_ENDPOINT\"},\"path\":"
         "\"/v1/traces\",\"headers\":{\"env\":\"OTEL_EXPORTER_OTLP_TRACES_HEADERS\"}}}",
         "k=t"},
        {"headers of traces alone", "http://c", NULL, NULL, "{}",
         "{\"otlp\":{\"kind\":\"otlp\",\"url\":{\"env\":\"OTEL_EXPORTER_OTLP_ENDPOINT\"},\"path\":"
         "\"/v1/traces\",\"headers\":{\"env\":\"OTEL_EXPORTER_OTLP_TRACES_HEADERS\"}}}",
         "k=t"},
        {"beside a channel of that name", "http://c", NULL, NULL, "{\"otlp\":{\"kind\":\"slack\"}}",
         "{\"otlp\":{\"kind\":\"slack\"}}", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const names[] = {
            "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"};
        const char *const values[] = {rows[i].all, rows[i].own, rows[i].headers,
                                      rows[i].own_headers};
        json_t *channels = parse(rows[i].channels), *rules = json_array();
        char *text;
        bool asked;

        check_row(rows[i].name);
        for (size_t k = 0; k < 4; k++)
            CHECK((values[k] != NULL ? setenv(names[k], values[k], 1) : unsetenv(names[k])) == 0);
        asked = fr_notify_collector(channels, rules);
        text = json_dumps(channels, JSON_COMPACT);
        CHECK_TEXT(text, rows[i].want);
        CHECK(asked == (strcmp(rows[i].want, rows[i].channels) != 0));
        CHECK_INT(json_array_size(rules), asked ? 1 : 0);
        if (asked)
            CHECK(fr_notify_wants(json_array_get(rules, 0), "cancelled", "p") &&
                  !fr_notify_wants(json_array_get(rules, 0), "started", "p"));
        free(text);
        json_decref(channels);
        json_decref(rules);
    }
    check_row("");
}

/* ---- what the SDK of Python makes of its variables (tests/golden/otel.py) ---- */

static void check_lists(const json_t *rows, bool headers)
{
    json_t *row;
    size_t i;

    CHECK(json_array_size(rows) > 10);
    json_array_foreach((json_t *)rows, i, row)
    {
        const char *text = json_string_value(json_array_get(row, 0));
        size_t bad = 0;
        json_t *got = headers ? fr_otel_headers(text, &bad) : fr_otel_attributes(text);
        char *shown = json_dumps(got, JSON_COMPACT);

        check_row(text);
        if (!CHECK(json_equal(got, json_array_get(row, 1))))
            printf("   %s\n", shown);
        free(shown);
        json_decref(got);
    }
}

static void test_otel(void)
{
    json_t *doc = json_load_file(SOURCE_ROOT "/tests/golden/otel.json", 0, NULL), *row;
    struct fr_buf got = {0};
    size_t i, bad = 0;

    check_lists(json_object_get(doc, "headers"), true);
    check_lists(json_object_get(doc, "attributes"), false);
    json_array_foreach(json_object_get(doc, "endpoints"), i, row)
    {
        const char *all = json_string_value(json_object_get(json_array_get(row, 0), "all"));
        const char *own = json_string_value(json_object_get(json_array_get(row, 0), "own"));
        const char *want = json_string_value(json_array_get(row, 1));

        fr_buf_cut(&got, got.n);
        if (own == NULL || own[0] == '\0')
            fr_otel_endpoint(all, "/v1/traces", &got);
        CHECK_TEXT(got.n > 0 ? got.p : own, want);
    }
    fr_buf_finish(&got);
    json_decref(doc);

    check_row("a query stays behind the path; the SDK puts the path behind it");
    fr_otel_endpoint("http://c/base/?token=1/2", "/v1/traces", &got);
    CHECK_TEXT(got.p, "http://c/base/v1/traces?token=1/2");
    fr_buf_finish(&got);
    check_row("a control character in a value; the SDK has it, and then cannot send");
    doc = fr_otel_headers("a=x%0d%0ab:%201,c=2,bad,%20=3", &bad);
    CHECK_INT(json_object_size(doc), 1);
    CHECK_INT(bad, 3);
    json_decref(doc);
    check_row("an entry without anything is none; DEL is a control character, too");
    doc = fr_otel_headers("a=1,,b=2, ,c=%7f", &bad);
    CHECK_INT(json_object_size(doc), 2);
    CHECK_INT(bad, 1);
    json_decref(doc);
    check_row("");
}

/* Whether anything is sent, and about what. */
static void test_otel_asked(void)
{
    static const struct {
        const char *disabled, *exporter;
        bool wanted;
    } rows[] = {
        {NULL, NULL, true},       {"", "", true},          {"true", NULL, false},
        {" TRUE ", NULL, false},  {"false", NULL, true},   {"1", NULL, true},
        {NULL, "none", false},    {NULL, "otlp", true},    {NULL, "console, otlp", true},
        {NULL, "console", false}, {"true", "otlp", false}, {NULL, "otlp_proto_http", true},
    };
    json_t *base = json_pack("{s:s, s:s}", "service.name", "flowrun", "host.name", "h");
    json_t *channels = json_object(), *rules = json_array();

    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const values[] = {rows[i].disabled, rows[i].exporter};
        const char *const names[] = {"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"};

        for (size_t k = 0; k < 2; k++)
            CHECK((values[k] != NULL ? setenv(names[k], values[k], 1) : unsetenv(names[k])) == 0);
        json_object_clear(channels);
        CHECK_INT(fr_notify_collector(channels, rules), rows[i].wanted);
    }
    unsetenv("OTEL_TRACES_EXPORTER");
    setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=ours,deployment.environment=lab", 1);
    base = fr_otel_resource(base);
    CHECK_TEXT(json_string_value(json_object_get(base, "service.name")), "ours");
    CHECK_TEXT(json_string_value(json_object_get(base, "deployment.environment")), "lab");
    CHECK_TEXT(json_string_value(json_object_get(base, "host.name")), "h");
    setenv("OTEL_SERVICE_NAME", "", 1);
    base = fr_otel_resource(base);
    CHECK_TEXT(json_string_value(json_object_get(base, "service.name")), "ours");
    setenv("OTEL_SERVICE_NAME", "nightly", 1);
    base = fr_otel_resource(base);
    CHECK_TEXT(json_string_value(json_object_get(base, "service.name")), "nightly");
    json_decref(base), json_decref(channels), json_decref(rules);
}

int main(void)
{
    fr_sys.wall_ms = fixed_wall_ms;
    test_wants();
    test_quiet();
    test_words();
    test_tail();
    test_slack();
    test_teams();
    test_mail();
    test_status();
    test_tries();
    test_collector();
    test_otel();
    test_otel_asked();
    test_send();
    test_late_command();
    return check_done();
}
