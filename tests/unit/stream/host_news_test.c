/* What readers are told of news: tags of answers, requests that wait for an event (?seq=), streams
 * that come again, and lists in other orders, page by page. Requests as structs, no sockets. */
#include "engine/base/json.h"
#include "engine/answer/long_poll.h"
#include "engine/spec/config.h"
#include "engine/store/access.h"
#include "engine/stream/feed.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

static int64_t now_ms; /* the clock that deadlines are by */

static int64_t stopped_ms(void)
{
    return now_ms;
}

struct asked {
    struct fr_api_request req;
    struct fr_api_pair query[4];
    struct fr_api_waiter waiter;
    struct fr_api_response res;
    bool again;
};

static void begin_ask(struct asked *a, const char *path, const char *name, const char *value)
{
    *a = (struct asked){.waiter = {.again = on_again},
                        .query = {{name, value}},
                        .req = {.path = path,
                                .n_query = name != NULL,
                                .content_type = "",
                                .range = "",
                                .if_none_match = "",
                                .last_event_id = ""}};
    a->waiter.arg = &a->again;
    a->req.waiter = &a->waiter;
    a->req.query = a->query;
    bed.api.answer(bed.api.self, &a->req, &a->res);
}

/* Turns until it is answered, from where it is now. */
static void end_ask(struct asked *a)
{
    while (a->res.status == FR_API_LATER) {
        while (!a->again && turn_host(&bed))
            ;
        a->again = false;
        bed.api.answer(bed.api.self, &a->req, &a->res);
    }
}

static int64_t seq_of(const struct fr_api_response *res)
{
    const char *at = res->body.p != NULL ? strstr(res->body.p, "\"seq\":") : NULL;
    long long seq = -1;

    CHECK(at != NULL && sscanf(at, "\"seq\":%lld", &seq) == 1);
    return seq;
}

static int64_t last_seq(const char *run)
{
    struct fr_api_response res = ask(&bed, GET, run, NULL);
    int64_t seq = seq_of(&res);

    fr_api_response_finish(&res);
    return seq;
}

/* ---- tags ---- */

/* The run goes on between the read of a text and its answer: the tag is that of the text. */
static void test_tag_of_text(void)
{
    struct asked old, now;

    check_row("an event while a view is read");
    begin_ask(&old, "/api/v1/runs/1", NULL, NULL);
    CHECK_INT(old.res.status, FR_API_LATER);
    while (!old.again && turn_host(&bed)) /* it is read */
        ;
    check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{}"), 202, NULL);
    end_ask(&old);
    CHECK_INT(old.res.status, 200);
    begin_ask(&now, "/api/v1/runs/1", NULL, NULL);
    end_ask(&now);
    CHECK(seq_of(&old.res) < seq_of(&now.res));
    CHECK(strcmp(old.res.etag.p, now.res.etag.p) != 0);
    fr_api_response_finish(&now.res);

    check_row("who has the older text gets the newer one");
    now.req.if_none_match = old.res.etag.p;
    bed.api.answer(bed.api.self, &now.req, &now.res);
    CHECK_INT(now.res.status, FR_API_LATER);
    now.again = false;
    end_ask(&now);
    CHECK_INT(now.res.status, 200);
    fr_api_response_finish(&now.res);
    fr_api_response_finish(&old.res);
}

/* A list has a weak tag, which changes with the store. */
static void test_tag_of_list(void)
{
    struct asked a;
    char tag[80] = "";

    check_row("the tag of a list");
    begin_ask(&a, "/api/v1/runs", NULL, NULL);
    end_ask(&a);
    CHECK(fr_has_prefix(a.res.etag.p, "W/\""));
    snprintf(tag, sizeof(tag), "\"x\", %s", a.res.etag.p);
    fr_api_response_finish(&a.res);
    a.req.if_none_match = tag;
    bed.api.answer(bed.api.self, &a.req, &a.res);
    CHECK_INT(a.res.status, 304);
    fr_api_response_finish(&a.res);
    check_answer(ask(&bed, POST, "/api/v1/runs/1/pin", "{\"pinned\": true}"), 200, NULL);
    bed.api.answer(bed.api.self, &a.req, &a.res);
    CHECK_INT(a.res.status, FR_API_LATER);
    a.again = false;
    end_ask(&a);
    CHECK(a.res.status == 200 && strstr(a.res.body.p, "\"pinned\":true") != NULL);
    fr_api_response_finish(&a.res);
}

/* What a reader has is not what is there any more: each change gives the row another tag. */
static void test_tag_of_row(void)
{
    static const char *const changes[][2] = {{"/api/v1/runs/1/pin", "{\"pinned\": false}"},
                                             {"/api/v1/runs/1/pin", "{\"pinned\": true}"},
                                             {"/api/v1/runs/1/retry", "{}"}};
    static const char *const forms[] = {NULL, "row"};

    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < 3; i++) {
            struct asked a;
            char tag[80];

            check_row(changes[i][0]);
            begin_ask(&a, "/api/v1/runs/1", forms[f] != NULL ? "form" : NULL, forms[f]);
            end_ask(&a);
            snprintf(tag, sizeof(tag), "%s", a.res.etag.p);
            fr_api_response_finish(&a.res);
            a.req.if_none_match = tag;
            bed.api.answer(bed.api.self, &a.req, &a.res);
            CHECK_INT(a.res.status, 304);
            CHECK_TEXT(a.res.etag.p, tag);
            fr_api_response_finish(&a.res);
            check_answer(ask(&bed, POST, changes[i][0], changes[i][1]), i == 2 ? 202 : 200, NULL);
            bed.api.answer(bed.api.self, &a.req, &a.res);
            a.again = false;
            end_ask(&a);
            CHECK_INT(a.res.status, 200);
            CHECK(strcmp(a.res.etag.p, tag) != 0);
            fr_api_response_finish(&a.res);
            if (i == 2)
                cancel(&bed, "1");
        }
}

/* What a run was begun with is read once, and has one tag. */
static void test_tag_of_fixed(void)
{
    static const char *const paths[] = {"/api/v1/runs/1/params", "/api/v1/runs/1/spec",
                                        "/api/v1/runs/1/graph"};

    for (size_t i = 0; i < 3; i++) {
        struct asked a, b;

        check_row(paths[i]);
        begin_ask(&a, paths[i], NULL, NULL);
        CHECK_INT(a.res.status, FR_API_LATER);
        end_ask(&a);
        CHECK_INT(a.res.status, 200);
        begin_ask(&b, paths[i], NULL, NULL);
        CHECK_INT(b.res.status, 200);
        CHECK(a.res.body.n == b.res.body.n &&
              memcmp(a.res.body.p, b.res.body.p, b.res.body.n) == 0);
        CHECK_TEXT(a.res.type, b.res.type);
        CHECK(a.res.etag.p != NULL && a.res.etag.p[0] == '"');
        CHECK_TEXT(b.res.etag.p, a.res.etag.p);
        fr_api_response_finish(&b.res);
        b.req.if_none_match = a.res.etag.p;
        bed.api.answer(bed.api.self, &b.req, &b.res);
        CHECK_INT(b.res.status, 304);
        CHECK_INT(b.res.body.n, 0);
        fr_api_response_finish(&a.res);
        fr_api_response_finish(&b.res);
    }
    check_row("");
}

/* ---- ?seq= ---- */

static void test_wait(void)
{
    struct asked a, gone, early;
    int64_t looked_ms;
    char seq[24];

    check_row("a wait for news");
    snprintf(seq, sizeof(seq), "%lld", (long long)last_seq("/api/v1/runs/1"));
    begin_ask(&early, "/api/v1/runs/1", "seq", "0");
    end_ask(&early);
    CHECK(early.res.status == 200); /* there is some */
    fr_api_response_finish(&early.res);
    begin_ask(&a, "/api/v1/runs/1", "seq", seq);
    begin_ask(&gone, "/api/v1/runs/1", "seq", seq);
    CHECK_INT(a.res.status, FR_API_LATER);
    bed.api.forget(bed.api.self, &gone.waiter);
    now_ms += 1000;
    settle_host(&bed);
    CHECK(!a.again);
    looked_ms = answers_of(bed.host)->long_polls.ms;
    check_row("news of another run: looked at once, and the next ones not before a pause");
    check_answer(ask(&bed, POST, "/api/v1/runs/2/pin", "{\"pinned\": true}"), 200, NULL);
    now_ms += 1000;
    settle_host(&bed);
    CHECK(!a.again && answers_of(bed.host)->long_polls.ms > looked_ms);
    CHECK(long_poll_due(bed.host) > answers_of(bed.host)->long_polls.ms + 1000);
    check_answer(ask(&bed, POST, "/api/v1/runs/2/pin", "{\"pinned\": false}"), 200, NULL);
    CHECK_INT(long_poll_due(bed.host), answers_of(bed.host)->long_polls.ms + 100);
    check_row("a wait for news");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{}"), 202, NULL);
    now_ms += 100;
    end_ask(&a);
    CHECK_INT(a.res.status, 200);
    CHECK(seq_of(&a.res) > strtoll(seq, NULL, 10));
    CHECK(!gone.again);
    fr_api_response_finish(&a.res);

    check_row("a wait in vain");
    turn_until_over(&bed, "1");
    settle_host(&bed);
    snprintf(seq, sizeof(seq), "%lld", (long long)last_seq("/api/v1/runs/1"));
    begin_ask(&a, "/api/v1/runs/1", "seq", seq);
    now_ms += 24999;
    settle_host(&bed);
    CHECK(a.res.status == FR_API_LATER && !a.again);
    now_ms += 1;
    settle_host(&bed);
    CHECK(a.again);
    end_ask(&a);
    CHECK_INT(a.res.status, 200);
    CHECK_INT(seq_of(&a.res), strtoll(seq, NULL, 10));
    fr_api_response_finish(&a.res);
    check_answer(ask(&bed, GET, "/api/v1/runs/1?seq=x", NULL), 400, "whole number");

    check_row("a host that leaves");
    begin_ask(&a, "/api/v1/runs/1", "seq", seq);
    CHECK_INT(a.res.status, FR_API_LATER);
    check_row("");
}

/* ---- queries ---- */

static void test_queries(void)
{
    static const struct {
        const char *path, *text;
    } wrong[] = {
        {"/api/v1/runs?pipelin=p", "no parameter 'pipelin' here, but: state pipeline"},
        {"/api/v1/runs?state pipeline=p", "no parameter"},
        {"/api/v1/me?x=1", "no parameter 'x' here\""},
        {"/api/v1/runs/1/events?=", "no parameter '' here"},
        {"/api/v1/runs?sort=oldes", "must be newest, oldest, longest, shortest or ended"},
        {"/api/v1/runs?cursor=1.2.3", "'cursor' is none"},
        {"/api/v1/runs?sort=oldest&cursor=1.2", "'cursor' is none"},
        {"/api/v1/runs?sort=oldest&cursor=1.2.3.4", "'cursor' is none"},
        {"/api/v1/runs?sort=oldest&cursor=1.2.x", "'cursor' is none"},
        {"/api/v1/runs?sort=oldest&cursor=1.0.3", "'cursor' is none"},
        {"/api/v1/runs?sort=oldest&cursor=1.2.0", "'cursor' is none"},
    };
    static char sought[1002];
    struct asked a;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        check_row(wrong[i].path);
        check_answer(ask(&bed, GET, wrong[i].path, NULL), 400, wrong[i].text);
    }
    check_row("a parameter twice");
    begin_ask(&a, "/api/v1/runs", "state", "live");
    fr_api_response_finish(&a.res);
    bed.api.forget(bed.api.self, &a.waiter);
    a.query[1] = (struct fr_api_pair){"state", "over"};
    a.req.n_query = 2;
    bed.api.answer(bed.api.self, &a.req, &a.res);
    CHECK(a.res.status == 400 && strstr(a.res.body.p, "comes twice") != NULL);
    fr_api_response_finish(&a.res);
    check_answer(ask(&bed, GET, "/api/v1/health?probe=7", NULL), 200, "true");
    check_row("a text as long as may be sought, and a longer one");
    memset(sought, 'x', sizeof(sought) - 1);
    begin_ask(&a, "/api/v1/runs/1/log/search", "q", sought);
    CHECK_INT(a.res.status, 400);
    CHECK(strstr(a.res.body.p, "'q' must be 1 to 1000 bytes") != NULL);
    fr_api_response_finish(&a.res);
    begin_ask(&a, "/api/v1/runs/1/log/search", "q", sought + 1);
    CHECK_INT(a.res.status, FR_API_LATER);
    end_ask(&a);
    CHECK_INT(a.res.status, 200);
    fr_api_response_finish(&a.res);
    check_row("");
}

/* ---- streams ---- */

/* An id of another ring, also of one with the same epoch, is none of this one. */
static void test_ids(void)
{
    static const char *const foreign[] = {"1.1", "7", "1-00000000.1", "x", "1-"};
    struct reader r = {0};
    char name[40], last[80], runs[2 * 65 + 1] = "";
    long long newest;
    const char *at;

    check_row("ids of elsewhere");
    CHECK_INT(follow(&bed, &r, "1", ""), 200);
    CHECK(!has(&r, "event: reset"));
    check_answer(ask(&bed, POST, "/api/v1/runs/1/retry", "{}"), 202, NULL);
    turn_until(&bed, &r, "\nevent: run\n");
    at = strstr(r.got.p, "\nid: ");
    CHECK(at != NULL && sscanf(at, "\nid: %39[^.\n].", name) == 1);
    newest = (long long)streams_of(bed.host)->ring->next - 1;
    for (size_t i = 0; i < 10; i++) {
        struct reader later = {0};

        if (i < 5)
            snprintf(last, sizeof(last), "%s", foreign[i]);
        else if (i == 8) /* as long as ours, and a number that is there */
            snprintf(last, sizeof(last), "%.*sxxxx.%lld", (int)strlen(name) - 4, name, newest);
        else if (i == 9)
            snprintf(last, sizeof(last), "%s:%lld", name, newest);
        else
            snprintf(last, sizeof(last), "%s.%s", name, i == 5 ? "999999" : i == 6 ? "-1" : "1x");
        check_row(last);
        CHECK_INT(follow(&bed, &later, "1", last), 200);
        CHECK(has(&later, "event: reset"));
        bed.api.gone(bed.api.self, later.s);
        fr_buf_finish(&later.got);
    }
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
    check_row("as many runs as a stream may name, and one more");
    for (size_t i = 0; i < 65; i++)
        memcpy(runs + 2 * i, "1,", 2);
    CHECK_INT(follow(&bed, &r, runs, ""), 400);
    runs[2 * 64] = '\0';
    CHECK_INT(follow(&bed, &r, runs, ""), 200);
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
    check_row("");
}

static size_t count(const struct reader *r, const char *text)
{
    size_t n = 0;

    for (const char *at = r->got.p; at != NULL && (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* Of run 1, whose host pumps them at once. */
static void say(size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        fr_run_say(host_find_no(bed.host, 1)->run, text);
    settle_host(&bed);
}

/* By ?last=, as readers ask that cannot set a header. */
static int follow_last(struct reader *r, const char *last)
{
    const struct fr_api_pair pairs[] = {{"runs", "1"}, {"last", last}};

    return follow_by(&bed, r, pairs, 2, "");
}

/* More than is sent at once, and more than the ring has: each event comes once, and where some are
 * lost the reset comes once, in front of those that are there. */
static void test_crowd(void)
{
    enum { LOTS = 300, LOST = HOST_RING + 500 };
    struct reader r = {0}, later = {0}, slow = {.queued = 1 << 20};
    char text[201], last[60];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    CHECK_INT(follow(&bed, &r, "1", ""), 200);
    snprintf(last, sizeof(last), "%s.%lld", streams_of(bed.host)->ring->name,
             (long long)streams_of(bed.host)->ring->next - 1);
    check_row("many events at once");
    say(LOTS, text);
    CHECK_INT(count(&r, "event: note\n"), LOTS);
    CHECK_INT(follow_last(&later, last), 200);
    CHECK_INT(count(&later, "event: note\n"), LOTS);
    CHECK(!has(&later, "event: reset") && !has(&r, "event: reset"));
    bed.api.gone(bed.api.self, r.s);
    check_row("more events than are kept");
    CHECK_INT(follow(&bed, &slow, "1", ""), 200);
    say(LOST, "short");
    CHECK_INT(count(&slow, "event: note\n"), 0);
    slow.queued = 0;
    bed.api.drained(bed.api.self, slow.s);
    CHECK_INT(count(&slow, "event: reset\n"), 1);
    CHECK_INT(count(&slow, "event: note\n"), HOST_RING);
    bed.api.gone(bed.api.self, later.s);
    bed.api.gone(bed.api.self, slow.s);
    fr_buf_finish(&r.got);
    fr_buf_finish(&later.got);
    fr_buf_finish(&slow.got);
    check_row("");
}

/* ---- order ---- */

/* Runs 2 to 7: the milliseconds of their start and end; 0: never, or not yet. */
static const int64_t times[][2] = {{1000, 2000}, {1000, 9000}, {3000, 4000},
                                   {2000, 0},    {0, 1500},    {5000, 5500}};

static int64_t first_no; /* of them */

static void add_runs(void)
{
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        struct fr_run_row row = {.name = "s",
                                 .source = "/s.yaml",
                                 .folder = "/",
                                 .params = "{}",
                                 .spec_hash = "",
                                 .state = times[i][1] != 0 ? FR_RUN_OVER : FR_RUN_RUNNING,
                                 .outcome = times[i][1] != 0 ? FR_OUT_CANCELLED : FR_OUT_NONE,
                                 .origin = FR_ORIGIN_CLI,
                                 .started_wall = times[i][0],
                                 .ended_wall = times[i][1]};

        CHECK_INT(fr_id_new(&row.id, NULL), FR_OK);
        CHECK_INT(fr_store_run_add(bed.st, &row, NULL), FR_OK);
        if (first_no == 0)
            first_no = row.no;
    }
}

/* The numbers of a page, added to got; *next: the cursor of the next one, "": none. */
static void add_page(const struct fr_api_response *res, struct fr_buf *got, char next[80])
{
    json_t *doc = NULL, *item;
    const char *url, *at;
    size_t i;

    CHECK_INT(res->status, 200);
    CHECK_INT(fr_json_parse((struct fr_str){res->body.p, res->body.n}, "a page", &doc, NULL),
              FR_OK);
    json_array_foreach(json_object_get(doc, "items"), i, item)
    {
        fr_buf_fmt(got, " %lld", (long long)json_integer_value(json_object_get(item, "no")));
    }
    url = json_string_value(json_object_get(doc, "next"));
    at = url != NULL ? strstr(url, "cursor=") : NULL;
    CHECK(url == NULL || at != NULL);
    snprintf(next, 80, "%.*s", at != NULL ? (int)strcspn(at + 7, "&") : 0,
             at != NULL ? at + 7 : "");
    json_decref(doc);
}

static void test_order(void)
{
    static const struct {
        const char *sort, *want;
    } rows[] = {{"oldest", " 2 3 4 5 6 7"},
                {"longest", " 5 3 4 2 7"},
                {"shortest", " 7 4 2 3 5"},
                {"ended", " 3 7 4 2 6"}};

    add_runs();
    CHECK_INT(first_no, 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf got = {0};
        char next[80] = "";
        int pages = 0;

        check_row(rows[i].sort);
        do {
            struct asked a;

            begin_ask(&a, "/api/v1/none", NULL, NULL);
            fr_api_response_finish(&a.res);
            a.req.path = "/api/v1/runs";
            a.query[0] = (struct fr_api_pair){"sort", rows[i].sort};
            a.query[1] = (struct fr_api_pair){"limit", "2"};
            a.query[2] = (struct fr_api_pair){"pipeline", "s"};
            a.query[3] = (struct fr_api_pair){"cursor", next};
            a.req.n_query = next[0] != '\0' ? 4 : 3;
            bed.api.answer(bed.api.self, &a.req, &a.res);
            end_ask(&a);
            add_page(&a.res, &got, next);
            fr_api_response_finish(&a.res);
        } while (next[0] != '\0' && ++pages < 9);
        CHECK_TEXT(got.p, rows[i].want);
        fr_buf_finish(&got);
    }
    check_row("");
}

static struct fr_id run_of(const char *no)
{
    struct fr_arena arena = {0};
    struct fr_run_row row = {0};

    CHECK_INT(fr_store_run_find(bed.st, no, &arena, &row, NULL), FR_OK);
    fr_arena_finish(&arena);
    return row.id;
}

static size_t count_items(const char *path, bool *next)
{
    struct fr_api_response res = ask(&bed, GET, path, NULL);
    json_t *doc = NULL;
    size_t n;

    CHECK_INT(fr_json_parse((struct fr_str){res.body.p, res.body.n}, "a list", &doc, NULL), FR_OK);
    n = json_array_size(json_object_get(doc, "items"));
    *next = json_object_get(doc, "next") != NULL;
    json_decref(doc);
    fr_api_response_finish(&res);
    return n;
}

/* Of runs 2 to 55. */
static void check_history(void)
{
    struct fr_api_response res = ask(&bed, GET, "/api/v1/pipelines/s/history", NULL);
    json_t *doc = NULL, *item;
    size_t i;

    CHECK_INT(fr_json_parse((struct fr_str){res.body.p, res.body.n}, "a history", &doc, NULL),
              FR_OK);
    CHECK_INT(json_array_size(json_object_get(doc, "items")), 50);
    json_array_foreach(json_object_get(doc, "items"), i, item)
    {
        CHECK_INT(json_integer_value(json_object_get(item, "no")), 6 + i);
    }
    json_decref(doc);
    fr_api_response_finish(&res);
}

/* How long a list is if nobody says it; a host that stays keeps as many runs as its file says, and
 * one is removed when somebody asks for it. */
static void test_many_runs(void)
{
    const struct fr_config config = {.keep = {.runs = 3}};
    struct fr_buf dir = {0}, file = {0};
    bool next;

    check_row("a list");
    for (size_t i = 0; i < 8; i++)
        add_runs();
    CHECK_INT(count_items("/api/v1/runs", &next), 50);
    CHECK(next);
    CHECK_INT(count_items("/api/v1/runs?limit=200", &next), 55);
    CHECK(!next);
    check_row("the history of a pipeline: its last fifty, the oldest first");
    check_history();
    check_row("a run that is removed");
    fr_home_at(bed.home, FR_HOME_RUN, run_of("55"), &dir);
    CHECK_INT(fr_mkdirs(dir.p, 0700, NULL), FR_OK);
    fr_buf_fmt(&file, "%s/x", dir.p);
    CHECK_INT(fr_file_write(file.p, "1234567", 7, 0600, NULL), FR_OK);
    check_answer(ask(&bed, DELETE, "/api/v1/runs/55", "{}"), 200, "{\"no\":55,\"bytes\":7}");
    check_answer(ask(&bed, GET, "/api/v1/runs/55", NULL), 404, NULL);
    check_row("runs that are too many");
    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    fr_host_stay(bed.host);
    while (count_items("/api/v1/runs?pipeline=s&state=cancelled&limit=200", &next) > 3)
        settle_host(&bed);
    CHECK_INT(count_items("/api/v1/runs?pipeline=s&state=cancelled", &next), 3);
    CHECK(access(dir.p, F_OK) != 0);
    fr_buf_finish(&dir);
    fr_buf_finish(&file);
    check_row("");
}

/* ---- strangers ---- */

static const char *kept(const char *key, struct fr_arena *arena)
{
    struct fr_kept_row row = {0};

    return fr_store_kept(bed.st, "", key, arena, &row, NULL) == FR_OK ? "kept" : "none";
}

/* Who is not let in leaves nothing behind. */
static void test_strangers(void)
{
    static const struct fr_api_caller nobody = {FR_ROLE_NONE, "", "203.0.113.9", ""},
                                      other = {FR_ROLE_NONE, "", "203.0.113.8", ""};
    struct fr_arena arena = {0};

    check_row("a login with a key");
    bed.caller = &nobody;
    bed.key = "key-of-nobody";
    for (int i = 0; i < 7; i++)
        check_answer(ask(&bed, POST, "/api/v1/login", "{\"token\": \"x\"}"), i < 5 ? 401 : 429,
                     i < 5 ? "" : ",\"retry_after_ms\":");
    check_row("another address is not held up by it");
    bed.caller = &other;
    check_answer(ask(&bed, POST, "/api/v1/login", "{\"token\": \"x\"}"), 401, NULL);
    bed.caller = NULL;
    bed.key = NULL;
    CHECK_TEXT(kept("key-of-nobody", &arena), "none");
    fr_arena_finish(&arena);
    check_row("");
}

int main(void)
{
    make_pipelines(&bed);
    open_host(&bed);
    make_body(&bed, ID, "");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, "\"no\":1");
    settle_host(&bed);
    test_order();
    test_queries();
    test_strangers();
    test_crowd();
    test_tag_of_text();
    turn_until_over(&bed, "1");
    test_tag_of_list();
    test_tag_of_row();
    test_tag_of_fixed();
    test_ids();
    now_ms = fr_sys.mono_ms();
    fr_sys.mono_ms = stopped_ms;
    test_wait();
    close_host(&bed);
    open_host(&bed);
    test_many_runs();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
