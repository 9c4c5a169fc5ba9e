/* What happens to runs, as events of streams. */
#include "engine/stream/feed.h"

#include "engine/metrics/meters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STREAM_QUEUED = 256 << 10, /* a reader that has so much before it gets no more for now */
    STREAM_LOT = 32 << 10,     /* sent at once */
    STREAM_PAUSE_MS = 100,     /* between two lots of news of one run */
};

/* ---- events ---- */

/* data: JSON; NULL: there was no memory for it. */
static void put_text(struct fr_host *host, struct fr_id run, const char *name, unsigned topic,
                     const char *data)
{
    struct host_ring *ring = host->streams->ring;
    struct fr_buf text = {.bad = data == NULL};

    fr_buf_fmt(&text, "id: %s.%" PRIu64 "\nevent: %s\ndata: %s\n\n", ring->name, ring->next, name,
               data != NULL ? data : "");
    while (ring->first < ring->next && (text.bad || ring->next - ring->first >= HOST_RING ||
                                        ring->bytes + text.n > HOST_RING_BYTES)) {
        struct host_event *old = &ring->events[ring->first++ % HOST_RING];

        ring->bytes -= old->text.n;
        fr_buf_finish(&old->text);
    }
    if (text.bad) { /* readers see a hole in the numbers, and look again */
        fr_buf_finish(&text);
        ring->first = ++ring->next;
        return;
    }
    ring->events[ring->next++ % HOST_RING] = (struct host_event){run, topic, text};
    ring->bytes += text.n;
}

/* Drops data. */
static void put(struct fr_host *host, struct fr_id run, const char *name, unsigned topic,
                json_t *data)
{
    char *json = data != NULL ? json_dumps(data, JSON_COMPACT) : NULL;

    json_decref(data);
    put_text(host, run, name, topic, json);
    free(json);
}

bool stream_wants(const struct fr_api_stream *s, struct fr_id run)
{
    for (size_t i = 0; i < s->n_runs; i++)
        if (fr_id_eq(s->runs[i], run))
            return true;
    return s->all;
}

void stream_send(struct fr_api_stream *s, struct fr_str text)
{
    s->full = s->sink.send(s->sink.arg, text) > STREAM_QUEUED;
}

/* Sends what was gathered. */
static void send_lot(struct fr_api_stream *s, struct fr_buf *lot)
{
    if (lot->n > 0)
        stream_send(s, (struct fr_str){lot->p, lot->n});
    fr_buf_cut(lot, lot->n);
}

/* Events that are there together are sent together. */
void stream_pump(struct fr_api_stream *s)
{
    struct host_ring *ring = s->host->streams->ring;
    struct fr_buf lot = {0};

    if (!s->full && s->at < ring->first) {
        s->at = ring->first;
        meters_reset(s->host->meters);
        fr_buf_text(&lot, "event: reset\ndata: {}\n\n");
    }
    for (; !s->full && s->at < ring->next; s->at++) {
        const struct host_event *ev = &ring->events[s->at % HOST_RING];

        if ((s->topics & ev->topic) == 0 && !stream_wants(s, ev->run))
            continue;
        fr_buf_add(&lot, ev->text.p, ev->text.n);
        if (lot.n >= STREAM_LOT)
            send_lot(s, &lot);
    }
    if (lot.bad) /* what was lost is told as an overrun is */
        s->at = 0;
    send_lot(s, &lot);
    fr_buf_finish(&lot);
}

/* Many changes at once are one event. */
static void put_topics(struct fr_host *host)
{
    static const struct fr_id none;
    struct host_streams *all = host->streams;
    int64_t now = fr_sys.mono_ms();

    if (all->first == NULL)
        all->topics = 0;
    if (all->topics == 0 || now < all->topics_ms + STREAM_PAUSE_MS)
        return;
    if (all->topics & HOST_QUEUE)
        put(host, none, "queue", HOST_QUEUE, json_object());
    if (all->topics & HOST_SCHEDULES)
        put(host, none, "schedule", HOST_SCHEDULES, json_object());
    all->topics = 0;
    all->topics_ms = now;
}

static void pump(struct fr_host *host)
{
    struct host_ring *ring = host->streams->ring;

    put_topics(host);
    if (ring == NULL || ring->pumped == ring->next)
        return;
    ring->pumped = ring->next;
    for (struct fr_api_stream *s = host->streams->first, *next; s != NULL; s = next) {
        next = s->next;
        stream_pump(s);
    }
}

/* ---- news of a run ---- */

static bool is_read(const struct host_run *h)
{
    return h->host->streams->first != NULL; /* a stream of all runs, or of this one */
}

/* As a JSON string. */
static void put_string(struct fr_buf *out, const char *text)
{
    json_t *string = json_string(text);
    char *json = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;

    if (json != NULL)
        fr_buf_text(out, json);
    out->bad |= json == NULL;
    free(json);
    json_decref(string);
}

static void note_state(struct host_news *news, const struct fr_note *note)
{
    const struct fr_row *row = &note->row;
    const char *cause = row->cause != FR_CAUSE_NONE ? fr_cause_name(row->cause) : "";
    int64_t due = row->state == FR_ST_RETRYING ? note->wall_ms + row->delay_ms : 0;
    struct fr_buf *out = &news->changes;

    if (news->n_changes == HOST_CHANGES) {
        news->lost = true;
        return;
    }
    fr_buf_fmt(out, "%s[%u,\"%s\",%u,\"%s\",%d,", news->n_changes++ == 0 ? "[" : ",", row->inst,
               fr_state_name(row->state), row->attempt_no, cause, row->code);
    put_string(out, note->text);
    fr_buf_fmt(out, ",%" PRId64 ",%" PRId64 ",%d]", note->wall_ms, due, row->unreachable);
    news->lost = news->lost || out->bad;
}

static void note_log(struct host_run *h, const struct fr_note *note)
{
    struct host_news *news = h->news;
    struct host_log log = {fr_run_row(h->run, note->inst).attempt, note->offset + note->bytes.n,
                           note->kind == FR_NOTE_METRICS};
    size_t i = 0;

    while (i < news->n_logs &&
           (!fr_id_eq(news->logs[i].attempt, log.attempt) || news->logs[i].metrics != log.metrics))
        i++;
    if (i == HOST_LOGS) {
        news->lost = true;
        return;
    }
    news->logs[i] = log;
    news->n_logs += i == news->n_logs;
}

static json_t *json_of_note(const struct host_run *h, const struct fr_note *note)
{
    json_t *data = json_pack("{s:I, s:I, s:s}", "run", (json_int_t)fr_run_no(h->run), "wall",
                             (json_int_t)note->wall_ms, "text", note->text);

    if (note->node != FR_PLAN_NONE) {
        json_object_set_new(data, "node", json_string(fr_run_plan(h->run)->nodes[note->node].name));
        json_object_set_new(data, "up", json_boolean(note->up));
    }
    if (note->inst != FR_PLAN_NONE)
        json_object_set_new(data, "idx", json_integer(note->inst));
    return data;
}

static void take_text(struct host_run *h, const struct fr_note *note)
{
    json_t *data = json_of_note(h, note);

    if (note->kind == FR_NOTE_NODE) {
        json_decref(h->news->nodes[note->node]);
        h->news->nodes[note->node] = json_incref(data);
    }
    if (is_read(h))
        put(h->host, fr_run_id(h->run), "note", note->kind == FR_NOTE_NODE ? HOST_NODES : 0, data);
    else
        json_decref(data);
}

/* Of a run, made with its first note. */
static enum fr_rc make_news(struct host_run *h, struct fr_err *err)
{
    uint32_t n_nodes = fr_run_plan(h->run)->n_nodes;
    struct host_news *news;

    if (h->news != NULL)
        return FR_OK;
    news = fr_sys.alloc(sizeof(*news));
    if (news != NULL)
        *news = (struct host_news){.nodes = fr_sys.alloc((n_nodes + 1) * sizeof(*news->nodes)),
                                   .n_nodes = n_nodes};
    if (news == NULL || news->nodes == NULL) {
        fr_sys.free(news);
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    }
    for (uint32_t n = 0; n < n_nodes; n++)
        news->nodes[n] = NULL;
    h->news = news;
    return FR_OK;
}

static enum fr_rc come(struct host_run *h, struct fr_err *err)
{
    h->followers = feed_followers(h->host, fr_run_id(h->run));
    return make_news(h, err);
}

static void free_news(struct host_run *h)
{
    if (h->news == NULL)
        return;
    for (uint32_t n = 0; n < h->news->n_nodes; n++)
        json_decref(h->news->nodes[n]);
    fr_buf_finish(&h->news->changes);
    fr_sys.free(h->news->nodes);
    fr_sys.free(h->news);
}

static void take_note(struct host_run *h, const struct fr_run *run, const struct fr_note *note)
{
    (void)run;
    if (h->run == NULL || make_news(h, NULL) != FR_OK)
        return;
    if (note->kind == FR_NOTE_NODE || (note->kind == FR_NOTE_TROUBLE && note->seq == 0)) {
        take_text(h, note);
        return;
    }
    if (!is_read(h))
        return;
    switch (note->kind) {
    case FR_NOTE_STATE:
        note_state(h->news, note);
        h->news->seq = note->seq > h->news->seq ? note->seq : h->news->seq;
        break;
    case FR_NOTE_RUN:
    case FR_NOTE_TROUBLE: /* its row tells it */
        h->news->run = true;
        break;
    case FR_NOTE_LOG:
    case FR_NOTE_METRICS:
        note_log(h, note);
        break;
    default: /* a follower finds out from the log itself */
        break;
    }
}

static bool has_news(const struct host_news *news)
{
    return news->n_changes > 0 || news->n_logs > 0 || news->lost || news->run;
}

static void put_changes(struct host_run *h, json_int_t no)
{
    struct fr_buf data = {0};

    fr_buf_fmt(&data, "{\"run\":%lld,\"seq\":%lld,\"changes\":%s]}", (long long)no,
               (long long)h->news->seq, h->news->changes.p);
    put_text(h->host, fr_run_id(h->run), "inst", 0, data.bad ? NULL : data.p);
    fr_buf_finish(&data);
}

static void put_logs(struct host_run *h, json_int_t no)
{
    for (size_t i = 0; i < h->news->n_logs; i++) {
        char id[FR_ID_TEXT];

        fr_id_text(h->news->logs[i].attempt, id);
        put(h->host, fr_run_id(h->run), h->news->logs[i].metrics ? "metric" : "log", 0,
            json_pack("{s:I, s:s, s:I}", "run", no, "attempt", id, "bytes",
                      (json_int_t)h->news->logs[i].bytes));
    }
}

/* now: also what came a moment ago */
static void flush(struct host_run *h, bool now)
{
    struct host_news *news = h->news;
    struct fr_run_now state;
    json_int_t no;
    int64_t now_ms;

    if (!has_news(news))
        return;
    now_ms = fr_sys.mono_ms();
    if (!now && !news->run && now_ms < news->sent_ms + STREAM_PAUSE_MS)
        return;
    state = fr_run_now(h->run);
    no = fr_run_no(h->run);
    if (news->lost)
        put(h->host, fr_run_id(h->run), "reset", 0, json_pack("{s:I}", "run", no));
    else if (news->n_changes > 0)
        put_changes(h, no);
    if (!news->lost)
        put_logs(h, no);
    if (news->run)
        put(h->host, fr_run_id(h->run), "run", HOST_LIST,
            json_pack("{s:I, s:s, s:s}", "run", no, "state", fr_run_state_name(state.state),
                      "outcome",
                      state.outcome != FR_OUT_NONE ? fr_outcome_name(state.outcome) : ""));
    fr_buf_finish(&news->changes);
    *news = (struct host_news){.sent_ms = now_ms, .nodes = news->nodes, .n_nodes = news->n_nodes};
}

/* ---- the part ---- */

static enum fr_rc open_streams(struct fr_host *host, struct fr_err *err)
{
    host->streams = fr_sys.alloc(sizeof(*host->streams));
    if (host->streams == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the host");
    *host->streams = (struct host_streams){0};
    return FR_OK;
}

static void leave(struct host_run *h)
{
    flush(h, true);
    pump(h->host);
}

static void settle(struct host_run *h)
{
    flush(h, false);
}

static void note_topic(struct fr_host *host, enum host_topic topic)
{
    if (host->streams != NULL)
        host->streams->topics |= (unsigned)topic;
}

static int64_t due(const struct fr_host *host)
{
    const struct host_streams *all = host->streams;
    int64_t due =
        all->topics != 0 && all->first != NULL ? all->topics_ms + STREAM_PAUSE_MS : INT64_MAX;

    for (size_t i = 0; i < host->n; i++) {
        const struct host_news *news = host->runs[i]->news;

        if (has_news(news) && news->sent_ms + STREAM_PAUSE_MS < due)
            due = news->sent_ms + STREAM_PAUSE_MS;
    }
    return due;
}

const struct host_part stream_part = {
    .name = "what streams had to send",
    .step = {[HOST_OPEN] = open_streams},
    .of_run = {[HOST_RUN_SETTLED] = settle, [HOST_RUN_LEAVES] = leave, [HOST_RUN_FREE] = free_news},
    .changed = note_topic,
    .tell = pump,
    .due = due,
    .came = come,
    .note = take_note,
    .close = feed_finish};
