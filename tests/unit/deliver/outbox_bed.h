/*
 * For tests of a host's notifications: receivers that answer as a test says, on a wall clock of the
 * test's own, and what the store says of deliveries.
 */
#ifndef TESTS_UNIT_OUTBOX_BED_H
#define TESTS_UNIT_OUTBOX_BED_H

#include "tests/unit/host/host_bed.h"

#include "engine/base/json.h"
#include "engine/deliver/outbox.h"
#include "engine/spec/config.h"

#include <pthread.h>

static _Atomic int64_t shift_ms; /* of the wall clock */

static inline int64_t shifted_wall_ms(void)
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

static inline void deliver(void *arg, const char *job, struct fr_sent *out)
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

static inline void answer(struct fr_sent with)
{
    pthread_mutex_lock(&receiver.lock);
    receiver.answer = with;
    pthread_mutex_unlock(&receiver.lock);
}

static inline void block(bool yes)
{
    pthread_mutex_lock(&receiver.lock);
    receiver.blocked = yes;
    pthread_cond_broadcast(&receiver.free);
    pthread_mutex_unlock(&receiver.lock);
}

/* ---- the home ---- */

#define CHANNELS                                                                                   \
    "channels: {a: {kind: webhook, url: \"http://h/a\"}, b: {kind: slack, url: \"http://h/b\"}}\n"

static inline void configure(const char *text)
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

static inline void begin(const char *config)
{
    open_host();
    fr_host_stay(host);
    fr_host_deliver_by(host, deliver, &receiver);
    configure(configured = config);
}

static inline void reset(void)
{
    remove_store();
    shift_ms = 0;
    answer((struct fr_sent){.done = true});
    fr_buf_finish(&receiver.got);
    receiver.got = (struct fr_buf){0};
}

static const char *of_params;   /* of the runs; NULL: x=1 */
static const char *of_schedule; /* that made the runs; NULL: none did */

/* A run of pipeline p that is over so, in one commit; its number. */
static inline int64_t end_run(enum fr_outcome outcome, const char *rules)
{
    struct fr_err err = {0};
    struct fr_run_row row = {.name = "p",
                             .source = "/p.yaml",
                             .folder = "/",
                             .spec_hash = "",
                             .params = of_params != NULL ? of_params : "{\"params\": [\"x=1\"]}",
                             .state = FR_RUN_OVER,
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
static inline const char *deliveries(struct fr_arena *arena)
{
    struct fr_delivery_filter f = {INT64_MAX, 0, "", "", 100};
    struct fr_delivery_rows rows = {0};
    struct fr_buf b = {0};
    const char *text;

    CHECK_INT(fr_store_deliveries(st, &f, arena, &rows, NULL), FR_OK);
    for (size_t i = rows.n; i-- > 0;)
        fr_buf_fmt(&b, "%s%s %s %lld %s %lld", b.n > 0 ? ", " : "", rows.rows[i].channel,
                   rows.rows[i].kind, (long long)rows.rows[i].run,
                   fr_word(&fr_delivery_state_words, rows.rows[i].state),
                   (long long)rows.rows[i].tries);
    text = fr_arena_dup(arena, b.p != NULL ? b.p : "");
    fr_buf_finish(&b);
    return text;
}

/* Turns until the deliveries are those; the test's deadline ends it else. */
static inline void until(const char *want)
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

static inline void pass(int64_t seconds)
{
    shift_ms += seconds * 1000;
}

static inline void check_got(const char *want)
{
    struct fr_buf got = {0};

    pthread_mutex_lock(&receiver.lock);
    for (const char *p = receiver.got.p; p != NULL && *p != '\0'; p = strchr(p, '\n') + 1)
        fr_buf_fmt(&got, "%s%.*s", got.n > 0 ? ", " : "", (int)(strstr(p, " msg_") - p), p);
    pthread_mutex_unlock(&receiver.lock);
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
}

static inline void begin_outbox(void)
{
    make_home();
    fr_sys.wall_ms = shifted_wall_ms;
}

static inline int end_outbox(void)
{
    fr_buf_finish(&receiver.got);
    remove_home();
    return check_done();
}

#endif
