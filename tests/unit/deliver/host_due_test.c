/* When a host looks at its messages again: what is due, what could not be read, written or begun.
 */
#include "engine/deliver/deliver.h"
#include "engine/store/sql.h"
#include "tests/unit/deliver/outbox_bed.h"

static struct outbox o = {.bed = HOST_BED};

enum { WALL_MS = 1000000000, MONO_MS = 5000000, HOUR_MS = 3600000 };

static int64_t stopped_wall_ms(void)
{
    return WALL_MS;
}

static int64_t stopped_mono_ms(void)
{
    return MONO_MS;
}

/* ---- faults ---- */

static bool unreadable, refuses, no_thread;

static int on_progress(void *arg)
{
    (void)arg;
    return unreadable;
}

static int on_commit(void *arg)
{
    (void)arg;
    return refuses;
}

static const struct fr_loop_ops *real_loop;

static enum fr_rc work(void *self, struct fr_work *w)
{
    return no_thread ? FR_NOMEM : real_loop->work(self, w);
}

/* ---- what is due ---- */

enum { NEVER = -1 };

/* One delivery of each channel; times are those from now on. */
struct message {
    const char *channel; /* NULL: none */
    enum fr_delivery_state state;
    int made_ms, due_ms;
    int tried_ms, tries;
};

static const struct {
    const char *name;
    struct message of[2];
    bool unreadable, refuses, no_thread; /* … the store, its commits, or no thread begins */
    int due_ms;                          /* when it is looked at again; NEVER; 0: at once */
    const char *sends;                   /* channels */
} rows[] = {
    {"nothing", {{0}}, false, false, false, NEVER, ""},
    {"one that is due", {{"a", FR_DELIVERY_WAITING, -5, 0, 0, 0}}, false, false, false, NEVER, "a"},
    {"later", {{"a", FR_DELIVERY_WAITING, -5, 7000, -5, 1}}, false, false, false, 7000, ""},
    {"much later",
     {{"a", FR_DELIVERY_WAITING, -5, HOUR_MS, -5, 1}},
     false,
     false,
     false,
     60000,
     ""},
    {"the first of two",
     {{"a", FR_DELIVERY_WAITING, -5, 7000, -5, 1}, {"b", FR_DELIVERY_WAITING, -5, 5000, -5, 1}},
     false,
     false,
     false,
     5000,
     ""},
    {"the first of two, the other way",
     {{"a", FR_DELIVERY_WAITING, -5, 4000, -5, 1}, {"b", FR_DELIVERY_WAITING, -5, 5000, -5, 1}},
     false,
     false,
     false,
     4000,
     ""},
    {"one channel waits, the other does not",
     {{"a", FR_DELIVERY_WAITING, -5, 4000, -5, 1}, {"b", FR_DELIVERY_WAITING, -5, 0, 0, 0}},
     false,
     false,
     false,
     4000,
     "b"},
    {"the clock was set back before it was made",
     {{"a", FR_DELIVERY_WAITING, 9000, 9000, 0, 0}},
     false,
     false,
     false,
     NEVER,
     "a"},
    {"made ahead of the clock, tried since",
     {{"a", FR_DELIVERY_WAITING, 9000, 500, -5, 1}},
     false,
     false,
     false,
     500,
     ""},
    {"the clock was set back before its last try",
     {{"a", FR_DELIVERY_WAITING, -9000, 9000, 5000, 1}},
     false,
     false,
     false,
     NEVER,
     "a"},
    {"quiet for a while",
     {{"a", FR_DELIVERY_QUIET, -5, 7000, 0, 0}},
     false,
     false,
     false,
     7000,
     ""},
    {"quiet for hours",
     {{"a", FR_DELIVERY_QUIET, -5, HOUR_MS, 0, 0}},
     false,
     false,
     false,
     60000,
     ""},
    {"quiet no more", {{"a", FR_DELIVERY_QUIET, -5, 0, 0, 0}}, false, false, false, 0, ""},
    {"quiet no more, which cannot be written",
     {{"a", FR_DELIVERY_QUIET, -5, 0, 0, 0}},
     false,
     true,
     false,
     1000,
     ""},
    {"of no channel", {{"c", FR_DELIVERY_WAITING, -5, 0, 0, 0}}, false, false, false, 0, ""},
    {"of no channel, which cannot be written",
     {{"c", FR_DELIVERY_WAITING, -5, 0, 0, 0}},
     false,
     true,
     false,
     1000,
     ""},
    {"too old", {{"a", FR_DELIVERY_WAITING, -37 * HOUR_MS, 0, 0, 0}}, false, false, false, 0, ""},
    {"old", {{"a", FR_DELIVERY_WAITING, -36 * HOUR_MS, 0, 0, 0}}, false, false, false, NEVER, "a"},
    {"sent", {{"a", FR_DELIVERY_SENT, -5, 0, -5, 1}}, false, false, false, NEVER, ""},
    {"the store cannot be read",
     {{"a", FR_DELIVERY_WAITING, -5, 0, 0, 0}},
     true,
     false,
     false,
     1000,
     ""},
    {"no thread", {{"a", FR_DELIVERY_WAITING, -5, 0, 0, 0}}, false, false, true, 1000, ""},
};

static void add(const struct message *m, int i)
{
    char key[20];
    struct fr_delivery_row row = {.key = key,
                                  .channel = m->channel,
                                  .rule = "",
                                  .kind = "failed",
                                  .name = "p",
                                  .state = m->state,
                                  .made_wall = WALL_MS + m->made_ms,
                                  .due_wall = WALL_MS + m->due_ms,
                                  .answer = "",
                                  .body = "{\"type\":\"run.failed\",\"data\":{\"run\":1}}"};

    snprintf(key, sizeof(key), "msg_%d", i);
    CHECK_INT(fr_store_begin(o.bed.st, NULL), FR_OK);
    CHECK_INT(fr_store_delivery_add(o.bed.st, &row, NULL), FR_OK);
    row.id = i;
    row.tried_wall = WALL_MS + m->tried_ms;
    row.tries = m->tries;
    CHECK_INT(fr_store_delivery_set(o.bed.st, &row, NULL), FR_OK);
    CHECK_INT(fr_store_commit(o.bed.st, NULL), FR_OK);
}

static int due_ms(void)
{
    int64_t due = outbox_part.due(o.bed.host);

    return due == INT64_MAX ? NEVER : due == 0 ? 0 : (int)(due - MONO_MS);
}

static struct fr_loop_ops loop;

static void begin_stopped(const char *config)
{
    reset(&o);
    begin(&o, config);
    fr_sys.wall_ms = stopped_wall_ms;
    fr_sys.mono_ms = stopped_mono_ms;
    sqlite3_progress_handler(o.bed.st->db, 1, on_progress, NULL);
    sqlite3_commit_hook(o.bed.st->db, on_commit, NULL);
    real_loop = o.bed.loop.ops;
    loop = *real_loop;
    loop.work = work;
    o.bed.loop.ops = &loop;
}

static void end_stopped(void)
{
    unreadable = refuses = no_thread = false;
    o.bed.loop.ops = real_loop;
    fr_sys.wall_ms = bed_wall_ms;
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    close_host(&o.bed);
}

/* The channels of what it sends, in their order. */
static void check_sends(const char *want)
{
    char got[8] = "";
    size_t n = 0;

    for (int i = 0; i < 2000 && strlen(got) < strlen(want); i++) {
        fr_sys.poll(NULL, 0, 1);
        pthread_mutex_lock(&o.lock);
        n = 0;
        for (const char *p = o.got.p; p != NULL && *p != '\0' && n < 7; p = strchr(p, '\n') + 1)
            got[n++] = *p;
        pthread_mutex_unlock(&o.lock);
        got[n] = '\0';
    }
    CHECK_TEXT(got, want);
}

static void test_due(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        begin_stopped(CHANNELS);
        outbox_part.tell(o.bed.host);
        CHECK_INT(due_ms(), NEVER);
        for (int k = 0; k < 2 && rows[i].of[k].channel != NULL; k++)
            add(&rows[i].of[k], k + 1);
        unreadable = rows[i].unreadable;
        refuses = rows[i].refuses;
        no_thread = rows[i].no_thread;
        outbox_part.tell(o.bed.host);
        unreadable = refuses = no_thread = false;
        CHECK_INT(due_ms(), rows[i].due_ms);
        check_sends(rows[i].sends);
        end_stopped();
    }
}

/* A result that cannot be written is written a second later; until then the channel is busy. */
static void test_result(void)
{
    struct fr_arena arena = {0};
    const struct message m = {"a", FR_DELIVERY_WAITING, -5, 0, 0, 0};

    check_row("a result that cannot be written");
    begin_stopped(CHANNELS);
    add(&m, 1);
    add(&m, 2);
    outbox_part.tell(o.bed.host);
    check_sends("a");
    for (int i = 0; i < 2000 && due_ms() == NEVER; i++) {
        refuses = true;
        CHECK_INT(fr_loop_turn(&o.bed.loop, false, NULL), FR_OK);
        outbox_part.tell(o.bed.host);
        fr_sys.poll(NULL, 0, 1);
    }
    CHECK_INT(due_ms(), 1000);
    CHECK_TEXT(deliveries(&o, &arena), "a failed 0 waiting 0, a failed 0 waiting 0");
    refuses = false;
    outbox_part.tell(o.bed.host);
    fr_arena_finish(&arena);
    CHECK_TEXT(deliveries(&o, &arena), "a failed 0 sent 1, a failed 0 waiting 0");
    check_row("then the next one is sent");
    CHECK_INT(due_ms(), 0);
    outbox_part.tell(o.bed.host);
    check_sends("aa");
    fr_arena_finish(&arena);
    end_stopped();
}

/* Fifty notices a turn; what cannot be written is tried again a second later. */
static void test_notices(void)
{
    struct fr_arena arena = {0};
    struct fr_notice_rows left = {0};

    check_row("more notices than a turn deals");
    begin_stopped(CHANNELS "notify: {on: failed, to: b}\n");
    for (int i = 0; i < 60; i++)
        end_run(&o, FR_OUT_FAILED, "");
    refuses = true;
    outbox_part.tell(o.bed.host);
    refuses = false;
    CHECK_INT(fr_store_notices(o.bed.st, 100, &arena, &left, NULL), FR_OK);
    CHECK_INT(left.n, 60);
    outbox_part.tell(o.bed.host);
    CHECK_INT(fr_store_notices(o.bed.st, 100, &arena, &left, NULL), FR_OK);
    CHECK_INT(left.n, 10);
    CHECK_INT(due_ms(), 0);
    outbox_part.tell(o.bed.host);
    CHECK_INT(fr_store_notices(o.bed.st, 100, &arena, &left, NULL), FR_OK);
    CHECK_INT(left.n, 0);
    check_row("notices that cannot be written");
    for (int i = 0; i < 3; i++)
        outbox_part.tell(o.bed.host);
    end_run(&o, FR_OUT_FAILED, "");
    refuses = true;
    outbox_part.tell(o.bed.host);
    refuses = false;
    CHECK_INT(due_ms(), 1000);
    fr_arena_finish(&arena);
    end_stopped();
}

/* How many messages wait, a kind each. */
static void test_waiting(void)
{
    static const struct message of[] = {{"a", FR_DELIVERY_WAITING, -5, 5000, -5, 1},
                                        {"a", FR_DELIVERY_WAITING, -5, 5000, -5, 1},
                                        {"b", FR_DELIVERY_WAITING, -5, 5000, -5, 1},
                                        {"c", FR_DELIVERY_WAITING, -5, 5000, -5, 1},
                                        {"b", FR_DELIVERY_SENT, -5, 5000, -5, 1}};

    check_row("how many wait");
    begin_stopped(CHANNELS);
    for (int i = 0; i < 5; i++)
        add(&of[i], i + 1);
    outbox_part.tell(o.bed.host);
    CHECK_INT(outbox_waiting(o.bed.host, FR_CHANNEL_WEBHOOK), 2);
    CHECK_INT(outbox_waiting(o.bed.host, FR_CHANNEL_SLACK), 1);
    CHECK_INT(outbox_waiting(o.bed.host, FR_CHANNEL_COMMAND), 0);
    outbox_part.tell(o.bed.host);
    CHECK_INT(outbox_waiting(o.bed.host, FR_CHANNEL_WEBHOOK), 2);
    end_stopped();
}

/* What is given up says why. */
static void test_answers(void)
{
    static const struct message of[] = {{"c", FR_DELIVERY_WAITING, -5, 0, 0, 0},
                                        {"a", FR_DELIVERY_WAITING, -37 * HOUR_MS, 0, 0, 0}};
    static const char *const want[] = {"config.yaml of the home has no channel of that name",
                                       "it was not sent for 36 hours"};
    struct fr_arena arena = {0};
    struct fr_delivery_row row;

    begin_stopped(CHANNELS);
    for (int i = 0; i < 2; i++)
        add(&of[i], i + 1);
    outbox_part.tell(o.bed.host);
    for (int i = 0; i < 2; i++) {
        check_row(want[i]);
        CHECK_INT(fr_store_delivery(o.bed.st, i + 1, &arena, &row, NULL), FR_OK);
        CHECK_INT(row.state, FR_DELIVERY_DEAD);
        CHECK_TEXT(row.answer, want[i]);
    }
    fr_arena_finish(&arena);
    end_stopped();
}

/* Another configuration is looked at at once, also where nothing waits for a time. */
static void test_configured(void)
{
    struct fr_arena arena = {0};

    check_row("another configuration");
    begin_stopped(CHANNELS);
    outbox_part.tell(o.bed.host);
    CHECK_INT(due_ms(), NEVER);
    configure(&o, CHANNELS);
    CHECK_INT(due_ms(), 0);
    end_stopped();
    check_row("a collector of traces that the environment names wants events, too");
    CHECK_INT(setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h/a", 1), 0);
    begin_stopped(CHANNELS);
    end_run(&o, FR_OUT_FAILED, "");
    no_thread = true;
    outbox_part.tell(o.bed.host);
    CHECK(strstr(deliveries(&o, &arena), "otlp ") != NULL);
    CHECK_INT(unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT"), 0);
    fr_arena_finish(&arena);
    end_stopped();
}

int main(void)
{
    begin_outbox(&o);
    test_due();
    test_result();
    test_notices();
    test_waiting();
    test_configured();
    test_answers();
    return end_outbox(&o);
}
