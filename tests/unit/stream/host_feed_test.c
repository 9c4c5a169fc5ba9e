/* What becomes of a run's notes: which events, for which streams, and when. The notes are made
 * here, and the clock stands unless a row moves it. */
#include "engine/stream/feed.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

static int64_t now_ms = 1000000;

static int64_t stopped_ms(void)
{
    return now_ms;
}

enum { OF_RUN, OF_LIST, OF_QUEUE, OF_NODES, OF_SCHEDULES, OF_ALL, READERS };

static const struct fr_api_pair asked[READERS] = {
    [OF_RUN] = {"runs", "1"},         [OF_LIST] = {"topics", "list"},
    [OF_QUEUE] = {"topics", "queue"}, [OF_NODES] = {"topics", "nodes"},
    [OF_ALL] = {"topics", ""},        [OF_SCHEDULES] = {"topics", "schedules"}};
static const char *const names[READERS] = {"run", "list", "queue", "nodes", "schedules", "all"};

static struct reader readers[READERS];

static struct host_run *run_one(void)
{
    return host_find_no(bed.host, 1);
}

static void note(struct fr_note n)
{
    stream_part.note(run_one(), run_one()->run, &n);
}

/* What the reader got since the last time, without the numbers of its events. */
static void check_got(struct reader *r, const char *want)
{
    struct fr_buf got = {0};
    const char *at = r->got.p != NULL ? r->got.p : "";

    fr_buf_text(&got, "");
    while (*at != '\0') {
        size_t n = strcspn(at, "\n") + 1;

        if (strncmp(at, "id: ", 4) != 0)
            fr_buf_add(&got, at, n);
        at += n;
    }
    CHECK_TEXT(got.n > 0 ? got.p : "", want);
    fr_buf_finish(&got);
    fr_buf_finish(&r->got);
}

/* Everything is sent; who: a bit a reader that gets the text, others get nothing. */
static void check_told(unsigned who, const char *want)
{
    stream_part.tell(bed.host);
    for (unsigned i = 0; i < READERS; i++) {
        check_row(names[i]);
        check_got(&readers[i], (who & 1U << i) != 0 ? want : "");
    }
}

enum {
    RUN = 1 << OF_RUN,
    LIST = 1 << OF_LIST,
    QUEUE = 1 << OF_QUEUE,
    NODES = 1 << OF_NODES,
    SCHEDULES = 1 << OF_SCHEDULES,
    ALL = 1 << OF_ALL
};

static void settled(void)
{
    stream_part.of_run[HOST_RUN_SETTLED](run_one());
}

/* ---- notes ---- */

#define GONE "{\"run\":1,\"wall\":7000,\"text\":\"gone \\\"x\\\"\",\"node\":\"n2\",\"up\":false}"
#define BACK "{\"run\":1,\"wall\":7001,\"text\":\"\",\"node\":\"n2\",\"up\":true}"

static void test_nodes(void)
{
    struct fr_note n = {.kind = FR_NOTE_NODE,
                        .inst = FR_PLAN_NONE,
                        .node = 1,
                        .wall_ms = 7000,
                        .text = "gone \"x\""};
    struct reader later = {0};
    char last[60];

    note(n);
    check_told(RUN | NODES | ALL, "event: note\ndata: " GONE "\n\n");
    CHECK_INT(follow(&bed, &later, "1", ""), 200);
    CHECK(has(&later, "\n\nevent: note\ndata: " GONE "\n\n"));
    bed.api.gone(bed.api.self, later.s);
    fr_buf_finish(&later.got);
    n.up = true;
    n.text = "";
    n.wall_ms++;
    note(n);
    check_told(RUN | NODES | ALL, "event: note\ndata: " BACK "\n\n");
    check_row("a stream of the run begins with the newest note of each node");
    CHECK_INT(follow(&bed, &later, "1", ""), 200);
    CHECK(has(&later, "\n\nevent: note\ndata: " BACK "\n\n") && !has(&later, GONE));
    bed.api.gone(bed.api.self, later.s);
    fr_buf_finish(&later.got);
    check_row("not one that goes on");
    snprintf(last, sizeof(last), "%s.%lld", streams_of(bed.host)->ring->name,
             (long long)streams_of(bed.host)->ring->next - 1);
    CHECK_INT(follow(&bed, &later, "1", last), 200);
    CHECK(has(&later, "event: hello\n") && !has(&later, "event: note\n"));
    bed.api.gone(bed.api.self, later.s);
    fr_buf_finish(&later.got);
    check_row("but one that has to begin anew");
    CHECK_INT(follow(&bed, &later, "1", "x.1"), 200);
    CHECK(has(&later, "\n\nevent: note\ndata: " BACK "\n\n") && has(&later, "event: reset\n"));
    bed.api.gone(bed.api.self, later.s);
    fr_buf_finish(&later.got);
    check_row("");
}

static void test_trouble(void)
{
    struct fr_note n = {
        .kind = FR_NOTE_TROUBLE, .inst = 1, .node = FR_PLAN_NONE, .wall_ms = 7002, .text = "slow"};

    note(n);
    check_told(RUN | ALL, "event: note\ndata: {\"run\":1,\"wall\":7002,\"text\":\"slow\","
                          "\"idx\":1}\n\n");
    n.seq = 9; /* it has a row: the run is read again */
    note(n);
    settled();
    check_told(RUN | LIST | ALL,
               "event: run\ndata: {\"run\":1,\"state\":\"running\",\"outcome\":\"\"}\n\n");
}

/* ---- instances ---- */

static struct fr_note state_note(enum fr_state_of state, int64_t seq)
{
    return (struct fr_note){.kind = FR_NOTE_STATE,
                            .inst = 1,
                            .node = FR_PLAN_NONE,
                            .row = {.inst = 1,
                                    .state = state,
                                    .attempt_no = 2,
                                    .cause = FR_CAUSE_EXIT,
                                    .code = 3,
                                    .delay_ms = 500},
                            .wall_ms = 9000,
                            .text = "why",
                            .seq = seq};
}

static void test_states(void)
{
    struct fr_note n = state_note(FR_ST_RETRYING, 12);

    now_ms += 1000;
    note(n);
    n = state_note(FR_ST_RUNNING, 11);
    n.row.unreachable = true;
    note(n);
    check_row("two changes of an instance are one event");
    settled();
    check_told(RUN | ALL, "event: inst\ndata: {\"run\":1,\"seq\":12,\"changes\":"
                          "[[1,\"retrying\",2,\"exit\",3,\"why\",9000,9500,0],"
                          "[1,\"running\",2,\"exit\",3,\"why\",9000,0,1]]}\n\n");
    check_row("the next ones wait a tenth of a second");
    note(state_note(FR_ST_RUNNING, 13));
    now_ms += 99;
    settled();
    check_told(0, "");
    CHECK_INT(stream_part.due(bed.host), now_ms + 1);
    now_ms++;
    settled();
    check_told(RUN | ALL, "event: inst\ndata: {\"run\":1,\"seq\":13,\"changes\":"
                          "[[1,\"running\",2,\"exit\",3,\"why\",9000,0,0]]}\n\n");
    CHECK(stream_part.due(bed.host) == INT64_MAX);
    check_row("not with a change of the run");
    note(state_note(FR_ST_RUNNING, 14));
    n = (struct fr_note){.kind = FR_NOTE_RUN, .inst = FR_PLAN_NONE, .node = FR_PLAN_NONE};
    note(n);
    settled();
    stream_part.tell(bed.host);
    check_got(&readers[OF_RUN],
              "event: inst\ndata: {\"run\":1,\"seq\":14,\"changes\":"
              "[[1,\"running\",2,\"exit\",3,\"why\",9000,0,0]]}\n\n"
              "event: run\ndata: {\"run\":1,\"state\":\"running\",\"outcome\":\"\"}\n\n");
    fr_buf_finish(&readers[OF_ALL].got);
    fr_buf_finish(&readers[OF_LIST].got);
    check_row("nor when the run leaves");
    note(state_note(FR_ST_RUNNING, 15));
    stream_part.of_run[HOST_RUN_LEAVES](run_one());
    check_got(&readers[OF_RUN], "event: inst\ndata: {\"run\":1,\"seq\":15,\"changes\":"
                                "[[1,\"running\",2,\"exit\",3,\"why\",9000,0,0]]}\n\n");
    fr_buf_finish(&readers[OF_ALL].got);
    check_row("more than one event has room for");
    now_ms += 100;
    for (int i = 0; i < HOST_CHANGES; i++)
        note(state_note(FR_ST_RUNNING, 16 + i));
    CHECK(!run_one()->news->lost);
    note(state_note(FR_ST_RUNNING, 999));
    settled();
    check_told(RUN | ALL, "event: reset\ndata: {\"run\":1}\n\n");
}

/* ---- output ---- */

static struct fr_note log_note(enum fr_note_kind kind, uint64_t offset)
{
    return (struct fr_note){
        .kind = kind, .inst = 1, .node = FR_PLAN_NONE, .bytes = {"1234567", 7}, .offset = offset};
}

#define NO_ATTEMPT "00000000000000000000000000000000"

static void test_logs(void)
{
    struct host_news *news = run_one()->news;

    check_row("the newest length of output and of metrics");
    now_ms += 100;
    note(log_note(FR_NOTE_LOG, 0));
    note(log_note(FR_NOTE_METRICS, 20));
    note(log_note(FR_NOTE_LOG, 7));
    settled();
    check_told(RUN | ALL,
               "event: log\ndata: {\"run\":1,\"attempt\":\"" NO_ATTEMPT "\",\"bytes\":14}\n\n"
               "event: metric\ndata: {\"run\":1,\"attempt\":\"" NO_ATTEMPT "\",\"bytes\":27}\n\n");
    check_row("as many as there is room for");
    now_ms += 100;
    for (uint8_t i = 0; i < HOST_LOGS - 1; i++)
        news->logs[news->n_logs++] = (struct host_log){{{1, i}}, 5, false};
    note(log_note(FR_NOTE_LOG, 0));
    note(log_note(FR_NOTE_LOG, 7));
    CHECK_INT(news->n_logs, HOST_LOGS);
    CHECK(!news->lost);
    check_row("one more: all is read again");
    note(log_note(FR_NOTE_METRICS, 0));
    settled();
    check_told(RUN | ALL, "event: reset\ndata: {\"run\":1}\n\n");
    check_row("which is said once");
    now_ms += 100;
    note(log_note(FR_NOTE_LOG, 14));
    settled();
    check_told(RUN | ALL,
               "event: log\ndata: {\"run\":1,\"attempt\":\"" NO_ATTEMPT "\",\"bytes\":21}\n\n");
}

/* ---- topics ---- */

static void test_topics(void)
{
    check_row("changes of a topic are one event");
    now_ms += 100;
    stream_part.changed(bed.host, HOST_QUEUE);
    stream_part.changed(bed.host, HOST_QUEUE);
    check_told(QUEUE | ALL, "event: queue\ndata: {}\n\n");
    stream_part.changed(bed.host, HOST_SCHEDULES);
    now_ms += 99;
    check_told(0, "");
    CHECK_INT(stream_part.due(bed.host), now_ms + 1);
    now_ms++;
    check_told(SCHEDULES | ALL, "event: schedule\ndata: {}\n\n");
    CHECK(stream_part.due(bed.host) == INT64_MAX);
}

/* Without a reader nothing is gathered, and nobody is told later what was before. */
static void test_unread(void)
{
    const struct fr_note up = {
        .kind = FR_NOTE_NODE, .inst = FR_PLAN_NONE, .node = 0, .text = "", .up = true};
    struct reader later = {0};
    uint64_t next = streams_of(bed.host)->ring->next;

    for (size_t i = 0; i < READERS; i++)
        bed.api.gone(bed.api.self, readers[i].s);
    now_ms += 1000;
    note(up);
    note(state_note(FR_ST_RUNNING, 2000));
    note(log_note(FR_NOTE_LOG, 0));
    stream_part.changed(bed.host, HOST_QUEUE);
    stream_part.tell(bed.host);
    CHECK(stream_part.due(bed.host) == INT64_MAX);
    CHECK_INT(follow_by(&bed, &later, &asked[OF_QUEUE], 1, ""), 200);
    settled();
    now_ms += 100;
    stream_part.tell(bed.host);
    CHECK(!has(&later, "event: queue"));
    CHECK_INT(streams_of(bed.host)->ring->next, next);
    bed.api.gone(bed.api.self, later.s);
    fr_buf_finish(&later.got);
}

/* ---- readers ---- */

/* How many streams name a run, and since when none does: also of one that is driven later. */
static void test_followers(void)
{
    struct reader one = {0}, two = {0}, all = {0};

    check_row("streams that name the run");
    CHECK_INT(run_one()->followers, 0);
    CHECK_INT(follow(&bed, &one, "1", ""), 200);
    CHECK_INT(run_one()->followers, 1);
    CHECK_INT(follow(&bed, &two, "1", ""), 200);
    CHECK_INT(follow(&bed, &all, "", ""), 200);
    CHECK_INT(run_one()->followers, 2);
    now_ms += 5000;
    bed.api.gone(bed.api.self, two.s);
    CHECK_INT(run_one()->followers, 1);
    CHECK_INT(run_one()->alone_ms, now_ms);
    check_row("one that it had before it was driven");
    run_one()->followers = 9;
    CHECK_INT(stream_part.came(run_one(), NULL), FR_OK);
    CHECK_INT(run_one()->followers, 1);
    bed.api.gone(bed.api.self, all.s);
    CHECK_INT(run_one()->followers, 1);
    bed.api.gone(bed.api.self, one.s);
    CHECK_INT(run_one()->followers, 0);
    fr_buf_finish(&one.got);
    fr_buf_finish(&two.got);
    fr_buf_finish(&all.got);
}

/* The first event names the host; what is no stream is none. */
static void test_hello(void)
{
    struct reader r = {0};
    struct fr_api_sink sink = {take, closed, &r};
    struct fr_api_request req = {.path = "/api/v1/strea", .last_event_id = ""};
    struct fr_api_response res = {0};
    char text[80];

    check_row("hello");
    CHECK(bed.host->env.epoch > 0);
    CHECK_INT(follow(&bed, &r, "1", ""), 200);
    snprintf(text, sizeof(text),
             "retry: 2000\nevent: hello\ndata: {\"epoch\":%u,\"version\":", bed.host->env.epoch);
    CHECK(r.got.p != NULL && fr_has_prefix(r.got.p, text));
    snprintf(text, sizeof(text), "%u-", bed.host->env.epoch);
    CHECK(fr_has_prefix(streams_of(bed.host)->ring->name, text));
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
    check_row("no stream");
    bed.api.open(bed.api.self, &req, &sink, &res, &r.s);
    CHECK(r.s == NULL && res.status == 404);
    CHECK(strstr(res.body.p, "there is no stream at /api/v1/strea") != NULL);
    fr_api_response_finish(&res);
    check_row("");
}

/* A ring has so many bytes, whatever the events are; who is behind them begins anew. */
static void test_bytes(void)
{
    enum { EACH = 60000, EVENTS = 40 };
    static char text[EACH + 1];
    struct fr_note n = {
        .kind = FR_NOTE_TROUBLE, .inst = FR_PLAN_NONE, .node = FR_PLAN_NONE, .text = text};
    const struct host_ring *ring = streams_of(bed.host)->ring;
    struct reader slow = {.queued = 1 << 20};
    size_t sum = 0, kept = 0;

    check_row("long events");
    memset(text, 'x', EACH);
    CHECK_INT(follow(&bed, &slow, "1", ""), 200);
    for (int i = 0; i < EVENTS; i++)
        note(n);
    for (uint64_t i = ring->first; i < ring->next; i++, kept++)
        sum += ring->events[i % HOST_RING].text.n;
    CHECK_INT(ring->bytes, sum);
    CHECK(sum <= HOST_RING_BYTES && sum + EACH + 200 > HOST_RING_BYTES);
    fr_buf_finish(&slow.got);
    slow.queued = 0;
    bed.api.drained(bed.api.self, slow.s);
    CHECK(has(&slow, "event: reset\ndata: {}\n\n"));
    sum = 0;
    for (const char *at = slow.got.p; (at = strstr(at, "event: note\n")) != NULL; at++)
        sum++;
    CHECK_INT(sum, kept);
    bed.api.gone(bed.api.self, slow.s);
    fr_buf_finish(&slow.got);
}

/* What a stream says of a run that is over; and it ends with its host. */
static void test_end(void)
{
    struct reader r = {0};

    check_row("the end of a run");
    CHECK_INT(follow(&bed, &r, "1", ""), 200);
    check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{}"), 202, NULL);
    turn_until(&bed, &r,
               "event: run\ndata: {\"run\":1,\"state\":\"over\",\"outcome\":"
               "\"cancelled\"}\n\n");
    check_row("the end of its host");
    close_host(&bed);
    CHECK(r.closed);
    fr_buf_finish(&r.got);
}

int main(void)
{
    make_home(bed.home);
    put_file(bed.home, "f.yaml",
             "name: f\nnodes: [{name: n1, executor: local}, {name: n2, executor: local}]\n"
             "tasks: {one: {on: all, run: 'true'}}\n");
    open_host(&bed);
    submit(&bed, "f.yaml", 1, "", "running");
    settle_host(&bed);
    fr_sys.mono_ms = stopped_ms;
    for (size_t i = 0; i < READERS; i++) {
        CHECK_INT(follow_by(&bed, &readers[i], &asked[i], 1, ""), 200);
        fr_buf_finish(&readers[i].got);
    }
    test_nodes();
    test_trouble();
    test_states();
    test_logs();
    test_topics();
    test_unread();
    test_followers();
    test_hello();
    test_bytes();
    fr_sys = fr_sys_real;
    test_end();
    remove_home(bed.home);
    return check_done();
}
