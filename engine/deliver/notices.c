/* Notices become messages and deliveries. */
#include "engine/deliver/outbox.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/metrics/machines.h"
#include "engine/metrics/meters.h"
#include "engine/run/run.h"
#include "engine/spec/config.h"
#include "engine/store/home.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TAIL_BYTES = 8192, BODY_MOST = 32 << 10 };

/* ---- the message ---- */

static void put_time(json_t *doc, const char *key, int64_t wall_ms)
{
    time_t s = (time_t)(wall_ms / 1000);
    struct tm t;

    if (wall_ms == 0)
        return;
    gmtime_r(&s, &t);
    json_object_set_new(doc, key,
                        json_sprintf("%04d-%02d-%02dT%02d:%02d:%02dZ", t.tm_year + 1900,
                                     t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec));
}

static void put_text(json_t *doc, const char *key, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(doc, key, json_string(text));
}

/* {name: value}; secrets are no params. */
static void put_params(json_t *doc, const struct fr_run_row *row)
{
    json_t *stored = NULL, *params = json_object(), *item;
    size_t i;

    if (fr_json_parse(fr_str_of(row->params), "stored parameters", &stored, NULL) == FR_OK)
        json_array_foreach(json_object_get(stored, "params"), i, item)
        {
            const char *text = json_string_value(item), *eq = text ? strchr(text, '=') : NULL;

            if (eq != NULL)
                (void)fr_json_put(params, (struct fr_str){text, (size_t)(eq - text)},
                                  json_string(eq + 1));
        }
    json_decref(stored);
    json_object_set_new(doc, "params", params);
}

/* The tail of the attempt's output, as far as it was fetched. */
static json_t *tail_of(struct fr_host *host, struct fr_id run, const struct fr_inst_row *inst)
{
    struct fr_buf path = {0};
    struct stat st;
    json_t *tail = NULL;
    char text[TAIL_BYTES];
    int fd;

    fr_home_at(fr_store_home(host->env.store), FR_HOME_RUN, run, &path);
    fr_buf_text(&path, "/");
    fr_run_log_name(&path, inst->key, (uint32_t)inst->attempt_no);
    fd = path.bad ? -1 : fr_sys.open(path.p, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd >= 0 && fr_sys.fstat(fd, &st) == 0) {
        off_t from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
        ssize_t n = fr_sys.pread(fd, text, sizeof(text), from);

        tail = fr_message_tail(text, n > 0 ? (size_t)n : 0, from == 0);
    }
    if (fd >= 0)
        fr_sys.close(fd);
    fr_buf_finish(&path);
    return tail != NULL ? tail : json_array();
}

static void put_failure(json_t *doc, struct fr_host *host, const struct fr_run_row *run,
                        struct fr_arena *arena)
{
    struct fr_inst_rows rows = {0};
    const struct fr_inst_row *first;

    if (fr_store_inst_failed(host->env.store, run->id, arena, &rows, NULL) != FR_OK || rows.n == 0)
        return;
    first = &rows.rows[0];
    json_object_set_new(doc, "first_failure",
                        json_pack("{s:s, s:s, s:s, s:I, s:o}", "task", first->task, "node",
                                  first->node, "cause", fr_cause_name(first->cause), "code",
                                  (json_int_t)first->code, "tail", tail_of(host, run->id, first)));
}

static void put_run(json_t *data, struct fr_host *host, const struct fr_notice_row *notice,
                    struct fr_arena *arena)
{
    struct fr_run_row row;
    char text[FR_ID_TEXT];

    snprintf(text, sizeof(text), "%lld", (long long)notice->run);
    json_object_set_new(data, "run", json_integer(notice->run));
    if (json_array_size(host->config.pages) > 0)
        json_object_set_new(data, "url",
                            json_sprintf("%sruns/%lld",
                                         json_string_value(json_array_get(host->config.pages, 0)),
                                         (long long)notice->run));
    if (fr_store_run_find(host->env.store, text, arena, &row, NULL) != FR_OK ||
        row.no != notice->run)
        return; /* removed since then */
    fr_id_text(row.id, text);
    put_text(data, "id", text);
    put_text(data, "state", fr_run_state_name(row.state));
    put_text(data, "outcome", fr_outcome_name(row.outcome));
    if (row.origin == FR_ORIGIN_SCHEDULE || row.origin == FR_ORIGIN_CATCHUP ||
        row.origin == FR_ORIGIN_BACKFILL)
        put_text(data, "schedule", row.who);
    put_time(data, "started", row.started_wall);
    put_time(data, "ended", row.ended_wall);
    put_params(data, &row);
    if (strcmp(notice->kind, "failed") == 0)
        put_failure(data, host, &row, arena);
}

json_t *notice_message(struct fr_host *host, const struct fr_notice_row *notice, const char *kind,
                       struct fr_arena *arena)
{
    bool of_schedule = fr_has_prefix(kind, "schedule_");
    bool of_run = notice->run != 0 && notice->subject[0] == '\0';
    json_t *data = json_object(), *doc = NULL;
    struct fr_buf type = {0};

    fr_notify_type(kind, &type);
    put_text(data, "pipeline", notice->name);
    put_text(data, of_schedule ? "schedule" : "subject", notice->subject);
    put_text(data, of_run ? "reason" : "text", notice->text);
    if (notice->run != 0)
        put_run(data, host, notice, arena);
    if (!type.bad)
        doc = json_pack("{s:s, s:O}", "type", type.p, "data", data);
    put_time(doc, "timestamp", notice->wall);
    json_decref(data);
    fr_buf_finish(&type);
    return doc;
}

/* ---- what nobody else writes ---- */

static enum fr_rc add_disk_low(struct fr_host *host, const struct fr_machine *m, struct fr_err *err)
{
    char left[24], least[24], text[96];
    struct fr_notice_row row = {.kind = fr_notice_name(FR_NOTICE_DISK_LOW),
                                .wall = fr_sys.wall_ms(),
                                .subject = m->name,
                                .text = text};
    enum fr_rc rc = fr_store_begin_soft(host->env.store, err);

    fr_show_size((int64_t)m->disk_free, left);
    fr_show_size(host->config.limits.disk_low_bytes, least);
    snprintf(text, sizeof(text), "%s are left, limits.disk_low is %s", left, least);
    if (rc == FR_OK)
        rc = fr_store_notice_add(host->env.store, &row, err);
    return fr_store_end(host->env.store, rc, err);
}

void notice_samples(struct fr_host *host)
{
    struct fr_machines *all = meters_machines(host->meters);
    const struct fr_machine *m;
    struct fr_err err = {0};

    while ((m = fr_machines_disk_low(all, host->config.limits.disk_low_bytes)) != NULL) {
        fr_log(FR_LOG_WARN, "host", "node=%s has little disk left: bytes=%llu", m->name,
               (unsigned long long)m->disk_free);
        if (add_disk_low(host, m, &err) != FR_OK)
            fr_log(FR_LOG_WARN, "host", "nobody is told of it: %s", err.msg);
    }
}

/* ---- deliveries ---- */

struct dealing { /* of one notice */
    struct fr_host *host;
    const struct fr_notice_row *notice;
    struct fr_arena arena;
    json_t *served; /* channels that have it: {name: true} */
};

static const char *make_key(struct dealing *d, const char *rule, const char *channel)
{
    char home[FR_ID_TEXT], sum[FR_SHA256_TEXT];
    const char *text;

    fr_id_text(fr_store_home_id(d->host->env.store), home);
    text = fr_arena_fmt(&d->arena, "%s:%lld:%s:%s", home, (long long)d->notice->id, rule, channel);
    if (text == NULL)
        return NULL;
    fr_sha256(text, strlen(text), sum);
    return fr_arena_fmt(&d->arena, "msg_%.32s", sum);
}

/* In the arena; NULL: no memory. Drops the message, and of a long one its params. */
static const char *make_text(struct fr_arena *arena, json_t *message)
{
    char *text = message != NULL ? json_dumps(message, JSON_COMPACT) : NULL;
    const char *out;

    if (text != NULL && strlen(text) > BODY_MOST) {
        json_object_del(json_object_get(message, "data"), "params");
        free(text);
        text = json_dumps(message, JSON_COMPACT);
    }
    out = text != NULL ? fr_arena_dup(arena, text) : NULL;
    free(text);
    json_decref(message);
    return out;
}

/* As fr_notify_quiet_end, in the home's zone. */
static int64_t quiet_end(const struct fr_host *host, const json_t *rule, int64_t now_ms)
{
    struct fr_zones zones = host_zones(host);
    struct fr_zone zone = {0};
    struct fr_err err;
    int64_t end = 0;

    if (json_object_get(rule, "quiet") == NULL)
        return 0;
    if (fr_zone_load(&zone, zones.folder, zones.home, &err) == FR_OK)
        end = fr_notify_quiet_end(rule, &zone, now_ms);
    else
        fr_log(FR_LOG_WARN, "host", "quiet hours do not count: %s", err.msg);
    fr_zone_finish(&zone);
    return end;
}

/* Sets state, answer, due_wall and body: waiting, quiet until the quiet hours end, held by the
 * rule's throttle, or dead. */
static enum fr_rc judge(struct dealing *d, const json_t *rule, struct fr_delivery_row *row,
                        struct fr_err *err)
{
    struct fr_store *st = d->host->env.store;
    int64_t throttle_ms = json_integer_value(json_object_get(rule, "throttle_ms"));
    json_t *message = notice_message(d->host, d->notice, row->kind, &d->arena);
    struct fr_throttle t = {0};
    const char *note = NULL;
    int64_t quiet = quiet_end(d->host, rule, row->made_wall);
    enum fr_rc rc = fr_store_channel_note(st, row->channel, &d->arena, &note, err);

    if (rc == FR_OK && throttle_ms > 0)
        rc = fr_store_throttle(st, row, &t, err);
    if (t.held > 0)
        json_object_set_new(json_object_get(message, "data"), "held", json_integer(t.held));
    row->body = make_text(&d->arena, message);
    row->state = FR_DELIVERY_WAITING;
    if (json_object_get(outbox_channels(d->host), row->channel) == NULL)
        note = "config.yaml of the home has no channel of that name";
    if (note != NULL) {
        row->state = FR_DELIVERY_DEAD;
        row->answer = note;
    } else if (t.made_wall != 0 && row->made_wall >= t.made_wall && /* a clock may be set back */
               row->made_wall - t.made_wall < throttle_ms) {
        row->state = FR_DELIVERY_HELD;
    } else if (quiet != 0) {
        row->state = FR_DELIVERY_QUIET;
        row->due_wall = quiet;
    }
    return rc != FR_OK || row->body != NULL ? rc
                                            : fr_fail(err, FR_NOMEM, "no memory for a message");
}

static enum fr_rc add(struct dealing *d, const json_t *rule, struct fr_delivery_row *row,
                      struct fr_err *err)
{
    enum fr_rc rc;

    if (json_object_get(d->served, row->channel) != NULL)
        return FR_OK;
    row->key = make_key(d, row->rule, row->channel);
    if (row->key == NULL || json_object_set_new(d->served, row->channel, json_true()) != 0)
        return fr_fail(err, FR_NOMEM, "no memory for a delivery");
    rc = judge(d, rule, row, err);
    return rc == FR_OK ? fr_store_delivery_add(d->host->env.store, row, err) : rc;
}

/* The word of the event that the rule wants; NULL: it wants none. */
static enum fr_rc wanted(struct dealing *d, const json_t *rule, const char **kind,
                         struct fr_err *err)
{
    const struct fr_notice_row *n = d->notice;
    const char *before = "", *recovered = fr_notice_name(FR_NOTICE_RECOVERED);
    enum fr_rc rc = FR_OK;

    *kind = fr_notify_wants(rule, n->kind, n->name) ? n->kind : NULL;
    if (strcmp(n->kind, fr_notice_name(FR_NOTICE_SUCCEEDED)) == 0 &&
        fr_notify_wants(rule, recovered, n->name))
        rc = fr_store_outcome_before(d->host->env.store, n->name, n->run, &d->arena, &before, err);
    if (strcmp(before, fr_notice_name(FR_NOTICE_FAILED)) == 0)
        *kind = recovered;
    return rc;
}

/* of: the source of the rules, for their names. */
static enum fr_rc deal_rules(struct dealing *d, const json_t *rules, const char *of,
                             struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < json_array_size(rules); i++) {
        const json_t *rule = json_array_get(rules, i), *to = json_object_get(rule, "to");
        char name[40];
        int64_t now = fr_sys.wall_ms();
        const char *kind;

        snprintf(name, sizeof(name), "%s %zu", of, i + 1);
        rc = wanted(d, rule, &kind, err);
        for (size_t k = 0; rc == FR_OK && kind != NULL && k < json_array_size(to); k++) {
            struct fr_delivery_row row = {.channel = json_string_value(json_array_get(to, k)),
                                          .rule = name,
                                          .kind = kind,
                                          .run = d->notice->run,
                                          .name = d->notice->name,
                                          .made_wall = now,
                                          .due_wall = now};

            rc = add(d, rule, &row, err);
        }
    }
    return rc;
}

/* Rules of the pipeline of a run: NULL: it has none. */
static json_t *rules_of(struct dealing *d)
{
    struct fr_run_row row;
    json_t *rules = NULL;
    char no[24];

    snprintf(no, sizeof(no), "%lld", (long long)d->notice->run);
    if (d->notice->run == 0 ||
        fr_store_run_find(d->host->env.store, no, &d->arena, &row, NULL) != FR_OK ||
        row.no != d->notice->run || row.notify[0] == '\0')
        return NULL;
    (void)fr_json_parse(fr_str_of(row.notify), "stored rules", &rules, NULL);
    return rules;
}

enum fr_rc outbox_deal(struct fr_host *host, const struct fr_notice_row *notice, struct fr_err *err)
{
    struct dealing d = {.host = host, .notice = notice, .served = json_object()};
    json_t *own = rules_of(&d);
    enum fr_rc rc = fr_store_begin_soft(host->env.store, err);

    if (rc == FR_OK)
        rc = deal_rules(&d, outbox_rules(host), FR_CONFIG_FILE, err);
    if (rc == FR_OK)
        rc = deal_rules(&d, own, "pipeline", err);
    if (rc == FR_OK)
        rc = fr_store_notice_drop(host->env.store, notice->id, err);
    rc = fr_store_end(host->env.store, rc, err);
    json_decref(d.served);
    json_decref(own);
    fr_arena_finish(&d.arena);
    return rc;
}

/* ---- a test ---- */

enum fr_rc outbox_try(struct fr_host *host, const char *channel, struct fr_arena *arena,
                      struct fr_delivery_row *out, struct fr_err *err)
{
    struct fr_notice_row notice = {.kind = "test",
                                   .wall = fr_sys.wall_ms(),
                                   .name = "",
                                   .subject = "",
                                   .text = "somebody tries whether messages of this home arrive"};
    struct fr_delivery_rows rows = {0};
    struct fr_id id;
    char text[FR_ID_TEXT];
    enum fr_rc rc = fr_id_new(&id, err);

    if (rc == FR_OK && json_object_get(outbox_channels(host), channel) == NULL)
        rc = fr_fail(err, FR_NOTFOUND, "config.yaml of the home has no channel '%s'", channel);
    if (rc != FR_OK)
        return rc;
    fr_id_text(id, text);
    *out = (struct fr_delivery_row){
        .key = fr_arena_fmt(arena, "msg_%s", text),
        .channel = channel,
        .rule = "",
        .kind = notice.kind,
        .name = "",
        .body = make_text(arena, notice_message(host, &notice, "test", arena)),
        .state = FR_DELIVERY_WAITING,
        .made_wall = notice.wall,
        .due_wall = notice.wall};
    if (out->key == NULL || out->body == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a message");
    rc = fr_store_begin(host->env.store, err);
    if (rc == FR_OK)
        rc = fr_store_delivery_add(host->env.store, out, err);
    if (rc == FR_OK)
        rc = fr_store_channel_off(host->env.store, channel, NULL, err);
    rc = fr_store_end(host->env.store, rc, err);
    if (rc == FR_OK)
        rc = fr_store_deliveries(host->env.store,
                                 &(struct fr_delivery_filter){INT64_MAX, 0, channel, "", 1}, arena,
                                 &rows, err);
    if (rc == FR_OK)
        *out = rows.rows[0];
    return rc;
}
