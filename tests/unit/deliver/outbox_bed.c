#include "tests/unit/deliver/outbox_bed.h"

static void deliver(void *arg, const char *job, struct fr_sent *out)
{
    struct outbox *o = arg;
    json_t *doc = NULL, *channel, *message, *data;
    const char *to;

    CHECK_INT(fr_json_parse(fr_str_of(job), "job", &doc, NULL), FR_OK);
    channel = json_object_get(doc, "channel");
    message = json_object_get(doc, "message");
    data = json_object_get(message, "data");
    to = json_string_value(json_object_get(channel, "url"));
    pthread_mutex_lock(&o->lock);
    fr_buf_fmt(&o->got, "%c %s %lld%s %s\n", to[strlen(to) - 1],
               json_string_value(json_object_get(message, "type")),
               (long long)json_integer_value(json_object_get(data, "run")),
               json_object_get(data, "held") != NULL ? " held" : "",
               json_string_value(json_object_get(doc, "key")));
    *out = to[strlen(to) - 1] == 'a' ? o->answer : (struct fr_sent){.done = true};
    while (to[strlen(to) - 1] == 'a' && o->blocked)
        pthread_cond_wait(&o->free, &o->lock);
    pthread_mutex_unlock(&o->lock);
    json_decref(doc);
}

void answer(struct outbox *o, struct fr_sent with)
{
    pthread_mutex_lock(&o->lock);
    o->answer = with;
    pthread_mutex_unlock(&o->lock);
}

void block(struct outbox *o, bool yes)
{
    pthread_mutex_lock(&o->lock);
    o->blocked = yes;
    pthread_cond_broadcast(&o->free);
    pthread_mutex_unlock(&o->lock);
}

void configure(struct outbox *o, const char *text)
{
    struct fr_config *config = NULL;
    struct fr_issues issues = {0};
    struct fr_err err = {0};
    char path[300];

    snprintf(path, sizeof(path), "%s/config.yaml", o->bed.home);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, &err), FR_OK);
    if (!CHECK_INT(fr_config_load(path, &config, &issues, &err), FR_OK))
        printf("   %s\n", err.msg);
    CHECK_INT(fr_host_configure(o->bed.host, config, &err), FR_OK);
    fr_config_destroy(config);
    fr_issues_finish(&issues);
}

void begin(struct outbox *o, const char *config)
{
    open_host(&o->bed);
    fr_host_stay(o->bed.host);
    fr_host_deliver_by(o->bed.host, deliver, o);
    configure(o, o->config = config);
}

void reset(struct outbox *o)
{
    remove_store(o->bed.home);
    bed_shift(0);
    answer(o, (struct fr_sent){.done = true});
    fr_buf_finish(&o->got);
}

int64_t end_run(struct outbox *o, enum fr_outcome outcome, const char *rules)
{
    struct fr_run_row row = {.name = "p",
                             .source = "/p.yaml",
                             .folder = "/",
                             .spec_hash = "",
                             .params = o->params != NULL ? o->params : "{\"params\": [\"x=1\"]}",
                             .state = FR_RUN_OVER,
                             .outcome = outcome,
                             .reason = "because",
                             .origin = o->schedule != NULL ? FR_ORIGIN_SCHEDULE : FR_ORIGIN_CLI,
                             .who = o->schedule != NULL ? o->schedule : "",
                             .started_wall = fr_sys.wall_ms(),
                             .ended_wall = fr_sys.wall_ms(),
                             .notify = rules};

    CHECK_INT(fr_id_new(&row.id, NULL), FR_OK);
    CHECK_INT(fr_store_begin(o->bed.st, NULL), FR_OK);
    CHECK_INT(fr_store_run_add(o->bed.st, &row, NULL), FR_OK);
    CHECK_INT(fr_store_commit(o->bed.st, NULL), FR_OK);
    return row.no;
}

const char *deliveries(struct outbox *o, struct fr_arena *arena)
{
    struct fr_delivery_filter f = {INT64_MAX, 0, "", "", 100};
    struct fr_delivery_rows rows = {0};
    struct fr_buf b = {0};
    const char *text;

    CHECK_INT(fr_store_deliveries(o->bed.st, &f, arena, &rows, NULL), FR_OK);
    for (size_t i = rows.n; i-- > 0;)
        fr_buf_fmt(&b, "%s%s %s %lld %s %lld", b.n > 0 ? ", " : "", rows.rows[i].channel,
                   rows.rows[i].kind, (long long)rows.rows[i].run,
                   fr_word(&fr_delivery_state_words, rows.rows[i].state),
                   (long long)rows.rows[i].tries);
    text = fr_arena_dup(arena, b.p != NULL ? b.p : "");
    fr_buf_finish(&b);
    return text;
}

void until(struct outbox *o, const char *want)
{
    struct fr_arena arena = {0};

    for (int i = 0; i < 2000 && strcmp(deliveries(o, &arena), want) != 0; i++) {
        fr_arena_finish(&arena);
        settle_host(&o->bed);
    }
    CHECK_TEXT(deliveries(o, &arena), want);
    fr_arena_finish(&arena);
}

void check_got(struct outbox *o, const char *want)
{
    struct fr_buf got = {0};

    pthread_mutex_lock(&o->lock);
    for (const char *p = o->got.p; p != NULL && *p != '\0'; p = strchr(p, '\n') + 1)
        fr_buf_fmt(&got, "%s%.*s", got.n > 0 ? ", " : "", (int)(strstr(p, " msg_") - p), p);
    pthread_mutex_unlock(&o->lock);
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
}

static _Atomic int64_t passed_ms; /* fr_sys.mono_ms has no argument */

static int64_t mono_ms(void)
{
    return fr_sys_real.mono_ms() + passed_ms;
}

void pass(int64_t seconds)
{
    bed_pass(seconds);
    passed_ms += seconds * 1000;
}

void begin_outbox(struct outbox *o)
{
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->free, NULL);
    make_home(o->bed.home);
    fr_sys.wall_ms = bed_wall_ms;
    fr_sys.mono_ms = mono_ms;
}

int end_outbox(struct outbox *o)
{
    fr_buf_finish(&o->got);
    remove_home(o->bed.home);
    return check_done();
}
