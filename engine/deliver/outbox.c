#include "engine/deliver/outbox.h"

#include "engine/base/log.h"
#include "engine/deliver/deliver.h"
#include "engine/metrics/machines.h"
#include "engine/metrics/meters.h"
#include "engine/spec/config.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    DEAL_MOST = 50,  /* notices in a turn */
    AGAIN_MS = 1000, /* what could not be written, or begun, is tried again */
    LOOK_MS = 60000, /* the wall clock may be set: a time is looked at again so often */
    DEAD_MOST = 20,  /* in a row: the channel is off */
};

static const int64_t OLD_MS = 36LL * 3600 * 1000;

struct host_deliver {
    fr_deliver_fn *fn;
    void *arg;
};

struct lane { /* what a channel sends now */
    struct lane *next;
    struct fr_delivery_row row; /* state, times, tries and answer; texts live in arena */
    struct fr_arena arena;      /* owns */
    enum fr_channel_kind kind;
    struct host_deliver how;
    struct fr_work work;
    char *job;
    struct fr_sent sent;
    bool over;
    bool dead; /* as sent says; else it is tried again, or was sent */
};

struct host_outbox {
    struct fr_host *host;
    json_t *channels, *rules; /* owns; NULL: config.yaml was not read */
    struct lane *lanes;       /* owns */
    struct host_deliver how;
    uint64_t changes; /* of the store, when it was looked at last */
    bool look;
    int64_t due_ms; /* of the next delivery or try */
    int64_t waiting[FR_CHANNEL_N];
};

static struct host_outbox *outbox_of(const struct fr_host *host)
{
    return host_state(host, &outbox_part);
}

static enum fr_rc open_outbox(struct fr_host *host, struct fr_err *err)
{
    (void)err;
    *outbox_of(host) = (struct host_outbox){.host = host,
                                            .look = true,
                                            .due_ms = INT64_MAX,
                                            .how = {deliver_by_process, (void *)host->env.self}};
    return FR_OK;
}

static void free_lane(void *arg)
{
    struct lane *lane = arg;

    fr_arena_finish(&lane->arena);
    free(lane->job);
    fr_sys.free(lane);
}

static void close_outbox(struct fr_host *host)
{
    struct host_outbox *o = outbox_of(host);

    for (struct lane *lane = o->lanes, *next; lane != NULL; lane = next) {
        next = lane->next;
        if (lane->over || fr_loop_forget(o->host->env.loop, &lane->work))
            free_lane(lane);
    }
    json_decref(o->channels);
    json_decref(o->rules);
}

enum fr_rc outbox_configure(struct fr_host *host, const struct fr_config *config,
                            struct fr_err *err)
{
    struct host_outbox *o = outbox_of(host);
    json_t *channels = fr_channels_json(config->channels, config->n_channels);
    json_t *rules = fr_notify_json(config->notify, config->n_notify);
    bool traces = fr_notify_collector(channels, rules);
    enum fr_rc rc = channels != NULL && rules != NULL
                        ? fr_store_notifies(host->env.store, config->n_notify > 0 || traces, err)
                        : fr_fail(err, FR_NOMEM, "no memory for the rules of config.yaml");

    if (rc != FR_OK) {
        json_decref(channels);
        json_decref(rules);
        return rc;
    }
    json_decref(o->channels);
    json_decref(o->rules);
    o->channels = channels;
    o->rules = rules;
    o->look = true;
    return FR_OK;
}

int64_t outbox_waiting(const struct fr_host *host, enum fr_channel_kind kind)
{
    return outbox_of(host)->waiting[kind];
}

const json_t *outbox_channels(const struct fr_host *host)
{
    return outbox_of(host)->channels;
}

const json_t *outbox_rules(const struct fr_host *host)
{
    return outbox_of(host)->rules;
}

void fr_host_deliver_by(struct fr_host *host, fr_deliver_fn *fn, void *arg)
{
    outbox_of(host)->how = (struct host_deliver){fn, arg};
}

static int64_t due(const struct fr_host *host)
{
    struct host_outbox *o = outbox_of(host);

    return o->look ? 0 : o->due_ms;
}

static void look_in(struct host_outbox *o, int64_t ms)
{
    int64_t due = fr_sys.mono_ms() + ms;

    if (due < o->due_ms)
        o->due_ms = due;
}

/* ---- a try ---- */

/* The kind of a channel of config.yaml; FR_CHANNEL_N: there is no such channel. */
static enum fr_channel_kind kind_of(const struct host_outbox *o, const char *channel)
{
    const char *name =
        json_string_value(json_object_get(json_object_get(o->channels, channel), "kind"));
    int kind = 0;

    while (kind < FR_CHANNEL_N &&
           (name == NULL || strcmp(fr_channel_kind_name((enum fr_channel_kind)kind), name) != 0))
        kind++;
    return (enum fr_channel_kind)kind;
}

static void run_lane(void *arg)
{
    struct lane *lane = arg;

    lane->how.fn(lane->how.arg, lane->job, &lane->sent);
}

static void lane_over(void *arg)
{
    ((struct lane *)arg)->over = true;
}

/* The delivery in its own memory; NULL: none is there. */
static struct lane *make_lane(struct host_outbox *o, const struct fr_delivery_row *row)
{
    struct lane *lane = fr_sys.alloc(sizeof(*lane));
    json_t *doc = NULL;

    if (lane == NULL)
        return NULL;
    *lane = (struct lane){.row = *row, .kind = kind_of(o, row->channel), .how = o->how};
    lane->row.channel = fr_arena_dup(&lane->arena, row->channel);
    lane->row.key = fr_arena_dup(&lane->arena, row->key);
    if (lane->how.fn == deliver_by_process) /* the host may be gone before the thread */
        lane->how.arg = fr_arena_dup(&lane->arena, lane->how.arg);
    if (fr_json_parse(fr_str_of(row->body), "a stored message", &doc, NULL) == FR_OK)
        doc = json_pack("{s:O, s:s, s:o}", "channel", json_object_get(o->channels, row->channel),
                        "key", row->key, "message", doc);
    lane->job = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    lane->work =
        (struct fr_work){.run = run_lane, .over = lane_over, .drop = free_lane, .arg = lane};
    if (lane->row.channel != NULL && lane->row.key != NULL && lane->how.arg != NULL &&
        lane->job != NULL)
        return lane;
    free_lane(lane);
    return NULL;
}

static void begin(struct host_outbox *o, const struct fr_delivery_row *row)
{
    struct lane *lane = make_lane(o, row);

    if (lane == NULL || fr_loop_work(o->host->env.loop, &lane->work) != FR_OK) {
        if (lane != NULL)
            free_lane(lane);
        look_in(o, AGAIN_MS);
        return;
    }
    lane->next = o->lanes;
    o->lanes = lane;
}

/* Why the delivery will never be sent; NULL: it may be. */
static const char *hopeless(const struct host_outbox *o, const struct fr_delivery_row *row)
{
    if (json_object_get(o->channels, row->channel) == NULL)
        return "config.yaml of the home has no channel of that name";
    return fr_sys.wall_ms() - row->made_wall > OLD_MS ? "it was not sent for 36 hours" : NULL;
}

/* How long it is to wait. Of a clock that was set back behind its last try nobody knows how long
 * ago that was: it is tried. */
static int64_t left_of(const struct fr_delivery_row *row)
{
    int64_t now = fr_sys.wall_ms();

    return now < (row->tries > 0 ? row->tried_wall : row->made_wall) ? 0 : row->due_wall - now;
}

static bool is_busy(const struct host_outbox *o, const char *channel)
{
    const struct lane *lane = o->lanes;

    while (lane != NULL && strcmp(lane->row.channel, channel) != 0)
        lane = lane->next;
    return lane != NULL;
}

/* Inside of a transaction of its own. */
static enum fr_rc give_up(struct host_outbox *o, const struct fr_delivery_row *row, const char *why)
{
    struct fr_delivery_row dead = *row;
    struct fr_store *st = o->host->env.store;
    struct fr_err err = {0};
    enum fr_rc rc = fr_store_begin_soft(st, &err);

    dead.state = FR_DELIVERY_DEAD;
    dead.answer = why;
    if (rc == FR_OK)
        rc = fr_store_delivery_set(st, &dead, &err);
    rc = fr_store_end(st, rc, &err);
    fr_log(FR_LOG_WARN, "host", "delivery=%lld channel=%s is not sent: %s", (long long)row->id,
           row->channel, rc == FR_OK ? why : err.msg);
    return rc;
}

static void count_waiting(struct host_outbox *o, const struct fr_delivery_rows *rows)
{
    memset(o->waiting, 0, sizeof(o->waiting));
    for (size_t i = 0; i < rows->n; i++) {
        enum fr_channel_kind kind = kind_of(o, rows->rows[i].channel);
        int64_t n = 0;

        if (kind < FR_CHANNEL_N &&
            fr_store_deliveries_waiting(o->host->env.store, rows->rows[i].channel, &n, NULL) ==
                FR_OK)
            o->waiting[kind] += n;
    }
}

/* Quiet hours that are over end; the next ones are looked at when they do. */
static void end_quiet(struct host_outbox *o)
{
    struct fr_store *st = o->host->env.store;
    int64_t due, now = fr_sys.wall_ms();
    enum fr_rc rc = fr_store_deliveries_quiet(st, &due, NULL);

    if (rc == FR_OK && due != 0 && due <= now && (rc = fr_store_begin_soft(st, NULL)) == FR_OK) {
        rc = fr_store_end(st, fr_store_deliveries_wake(st, now, NULL), NULL);
        o->look = o->look || rc == FR_OK;
    } else if (rc == FR_OK && due != 0) {
        look_in(o, due - now < LOOK_MS ? due - now : LOOK_MS);
    }
    if (rc != FR_OK)
        look_in(o, AGAIN_MS);
}

static void send_due(struct host_outbox *o)
{
    struct fr_arena arena = {0};
    struct fr_delivery_rows rows = {0};
    enum fr_rc rc = o->channels != NULL
                        ? fr_store_deliveries_next(o->host->env.store, &arena, &rows, NULL)
                        : FR_OK;

    end_quiet(o);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_delivery_row *row = &rows.rows[i];
        int64_t left = left_of(row);
        const char *why = hopeless(o, row);

        if (is_busy(o, row->channel))
            continue;
        if (why != NULL && give_up(o, row, why) == FR_OK)
            o->look = true; /* the one behind it may be due */
        else if (why != NULL || left > 0)
            look_in(o, why != NULL ? AGAIN_MS : left < LOOK_MS ? left : LOOK_MS);
        else
            begin(o, row);
    }
    if (rc != FR_OK)
        look_in(o, AGAIN_MS);
    else
        count_waiting(o, &rows);
    fr_arena_finish(&arena);
}

/* ---- its result ---- */

/* In the transaction that writes a delivery that is dead. */
static enum fr_rc turn_off(struct host_outbox *o, const struct lane *lane, struct fr_err *err)
{
    struct fr_store *st = o->host->env.store;
    int64_t dead = 0;
    char note[80];
    enum fr_rc rc = fr_store_deliveries_dead(st, lane->row.channel, &dead, err);

    if (rc != FR_OK || (!lane->sent.gone && dead < DEAD_MOST))
        return rc;
    if (lane->sent.gone)
        snprintf(note, sizeof(note), "the channel is off: its receiver wants no more (410)");
    else
        snprintf(note, sizeof(note), "the channel is off: %lld messages in a row failed",
                 (long long)dead);
    fr_log(FR_LOG_WARN, "host", "channel=%s %s", lane->row.channel, note);
    return fr_store_channel_off(st, lane->row.channel, note, err);
}

static enum fr_rc write_lane(struct host_outbox *o, struct lane *lane, struct fr_err *err)
{
    struct fr_delivery_row row = lane->row;
    int64_t delay_ms = 0;
    enum fr_try what = fr_notify_try(&lane->sent, row.tries + 1, row.key, &delay_ms);
    enum fr_rc rc = fr_store_begin_soft(o->host->env.store, err);

    row.tries++;
    row.tried_wall = fr_sys.wall_ms();
    row.due_wall = row.tried_wall + delay_ms;
    row.answer = lane->sent.text;
    row.state = what == FR_TRY_DONE   ? FR_DELIVERY_SENT
                : what == FR_TRY_DEAD ? FR_DELIVERY_DEAD
                                      : FR_DELIVERY_WAITING;
    if (rc == FR_OK)
        rc = fr_store_delivery_set(o->host->env.store, &row, err);
    if (rc == FR_OK && what == FR_TRY_DEAD)
        rc = turn_off(o, lane, err);
    rc = fr_store_end(o->host->env.store, rc, err);
    if (rc == FR_OK)
        meters_delivery(o->host->meters, fr_channel_kind_name(lane->kind),
                        what == FR_TRY_DONE    ? "sent"
                        : what == FR_TRY_AGAIN ? "failed"
                                               : "dead");
    if (rc == FR_OK && what != FR_TRY_DONE)
        fr_log(what == FR_TRY_DEAD ? FR_LOG_WARN : FR_LOG_INFO, "host",
               "delivery=%lld channel=%s try=%lld %s: %s", (long long)row.id, row.channel,
               (long long)row.tries, what == FR_TRY_DEAD ? "failed for good" : "failed",
               row.answer);
    return rc;
}

static void write_over(struct host_outbox *o)
{
    for (struct lane **at = &o->lanes, *lane; (lane = *at) != NULL;) {
        if (!lane->over || write_lane(o, lane, NULL) != FR_OK) {
            if (lane->over)
                look_in(o, AGAIN_MS);
            at = &lane->next;
            continue;
        }
        *at = lane->next;
        free_lane(lane);
        o->look = true;
    }
}

/* ---- the turn ---- */

static void deal(struct host_outbox *o)
{
    struct fr_arena arena = {0};
    struct fr_notice_rows rows = {0};
    struct fr_err err = {0};
    enum fr_rc rc = fr_store_notices(o->host->env.store, DEAL_MOST, &arena, &rows, &err);

    o->look = o->look || rows.n == DEAL_MOST;
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        rc = outbox_deal(o->host, &rows.rows[i], &err);
    if (rc != FR_OK) {
        fr_log(FR_LOG_WARN, "host", "notices wait: %s", err.msg);
        look_in(o, AGAIN_MS);
    }
    fr_arena_finish(&arena);
}

/* Records results, turns new notices into deliveries, and begins to send what is due. */
static void turn(struct fr_host *host)
{
    struct host_outbox *o = outbox_of(host);
    bool over = false;

    for (const struct lane *lane = o->lanes; lane != NULL; lane = lane->next)
        over = over || lane->over;
    if (fr_machines_heard(meters_machines(host->meters)))
        notice_samples(host);
    if (fr_store_changes(host->env.store) != o->changes)
        o->look = true;
    if (!o->look && !over && o->due_ms > fr_sys.mono_ms())
        return;
    o->look = false;
    o->due_ms = INT64_MAX;
    write_over(o);
    if (o->channels != NULL)
        deal(o);
    send_due(o);
    o->changes = fr_store_changes(host->env.store);
}

/* A delivery was not tried yet and waits for nothing else. */
static bool owes(const struct fr_host *host)
{
    struct fr_arena arena = {0};
    struct fr_notice_rows notices = {0};
    struct fr_delivery_rows rows = {0};
    bool any;

    (void)fr_store_notices(host->env.store, 1, &arena, &notices, NULL);
    (void)fr_store_deliveries_next(host->env.store, &arena, &rows, NULL);
    any = notices.n > 0;
    for (size_t i = 0; i < rows.n && !any; i++)
        any = rows.rows[i].tries == 0;
    fr_arena_finish(&arena);
    return any;
}

/* ---- requests ---- */

enum fr_rc outbox_again(struct fr_host *host, int64_t id, struct fr_err *err)
{
    struct host_outbox *o = outbox_of(host);
    struct fr_arena arena = {0};
    struct fr_delivery_row row;
    int64_t now = fr_sys.wall_ms();
    enum fr_rc rc = fr_store_delivery(host->env.store, id, &arena, &row, err);

    if (rc == FR_OK && row.state == FR_DELIVERY_WAITING)
        rc = fr_fail(err, FR_BUSY, "delivery %lld waits to be sent already", (long long)id);
    if (rc == FR_OK && json_object_get(o->channels, row.channel) == NULL)
        rc = fr_fail(err, FR_NOTFOUND, "config.yaml of the home has no channel '%s' (any more)",
                     row.channel);
    if (rc == FR_OK && (rc = fr_store_begin(host->env.store, err)) == FR_OK) {
        row.state = FR_DELIVERY_WAITING;
        row.made_wall = row.due_wall = now;
        row.tries = 0;
        rc = fr_store_delivery_set(host->env.store, &row, err);
        if (rc == FR_OK)
            rc = fr_store_channel_off(host->env.store, row.channel, NULL, err);
        rc = fr_store_end(host->env.store, rc, err);
    }
    o->look = true;
    fr_arena_finish(&arena);
    return rc;
}

const struct host_part outbox_part = {.name = "sending messages",
                                      .state_bytes = sizeof(struct host_outbox),
                                      .step = {[HOST_OPEN] = open_outbox},
                                      .tell = turn,
                                      .owes = owes,
                                      .due = due,
                                      .close = close_outbox};
