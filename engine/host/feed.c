/*
 * Streams of server-sent events (text/event-stream, HTML Standard 9.2): what happens in the home,
 * to those who follow. An event says where there is news; what is true stands in the store.
 *
 *   hello {epoch, version, now_ms}           a stream begins
 *   run {run, state, outcome}                the run itself changed; topic list
 *   inst {run, seq, changes: [[idx, state, attempt, cause], …]}
 *   log {run, attempt, bytes}                there is more of an attempt's output
 *   metric {run, attempt, bytes}             the same of its metrics
 *   note {run, wall, text, node, up, idx}    what is in no row: how a node is reached, trouble; a
 *                                            stream begins with the newest of each node
 *   queue {}, schedule {}                    what waits changed; a schedule did; topics queue,
 *                                            schedules
 *   reset {run}                              more happened than was told: look at the whole again
 *   bye {reason}                             the stream ends
 *
 * A stream gets the events of the runs that it names (?runs=41,42), and those of its topics
 * (&topics=list,queue,nodes,schedules) of all runs; nodes are notes about them. Without either it
 * gets all.
 *
 * Events are numbered over the life of the host, "EPOCH-RANDOM.N": a home that was restored, and
 * another one behind the same address, count their epochs from where they like. The newest stay in
 * a ring: a reader that is slow, or comes again with Last-Event-ID or ?last=, goes on there; one
 * that is too far behind, or whose id is of elsewhere, gets a reset.
 */
#include "engine/host/feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STREAM_QUEUED = 256 << 10, /* a reader that has so much before it gets no more for now */
    STREAM_LOT = 32 << 10,     /* sent at once */
    STREAM_PAUSE_MS = 100,     /* between two lots of news of one run */
};

/* ---- events ---- */

static void put(struct fr_host *host, struct fr_id run, const char *name, unsigned topic,
                json_t *data)
{
    struct host_ring *ring = host->ring;
    struct fr_buf text = {0};
    char *json = data != NULL ? json_dumps(data, JSON_COMPACT) : NULL;

    json_decref(data);
    fr_buf_fmt(&text, "id: %s.%" PRIu64 "\nevent: %s\ndata: %s\n\n", ring->name, ring->next, name,
               json != NULL ? json : "{}");
    free(json);
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
    struct host_ring *ring = s->host->ring;
    struct fr_buf lot = {0};

    if (!s->full && s->at < ring->first) {
        s->at = ring->first;
        meters_reset(s->host);
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

void feed_topic(struct fr_host *host, enum host_topic topic)
{
    if (host->streams != NULL)
        host->changed_topics |= (unsigned)topic;
}

/* Many changes at once are one event. */
static void put_topics(struct fr_host *host)
{
    static const struct fr_id none;
    int64_t now = fr_sys.mono_ms();

    if (host->changed_topics == 0 || now < host->topics_ms + STREAM_PAUSE_MS)
        return;
    if (host->changed_topics & HOST_QUEUE)
        put(host, none, "queue", HOST_QUEUE, json_object());
    if (host->changed_topics & HOST_SCHEDULES)
        put(host, none, "schedule", HOST_SCHEDULES, json_object());
    host->changed_topics = 0;
    host->topics_ms = now;
}

int64_t feed_topics_due(const struct fr_host *host)
{
    return host->changed_topics != 0 ? host->topics_ms + STREAM_PAUSE_MS : INT64_MAX;
}

void feed_pump(struct fr_host *host)
{
    put_topics(host);
    if (host->ring == NULL || host->ring->pumped == host->ring->next)
        return;
    host->ring->pumped = host->ring->next;
    for (struct fr_api_stream *s = host->streams, *next; s != NULL; s = next) {
        next = s->next;
        stream_pump(s);
    }
}

/* ---- news of a run ---- */

static bool is_read(const struct host_run *h)
{
    return h->host->streams != NULL; /* a stream of all runs, or of this one */
}

static void note_state(struct host_news *news, const struct fr_row *row)
{
    const char *cause = row->cause != FR_CAUSE_NONE ? fr_cause_name(row->cause) : "";

    if (news->n_changes == HOST_CHANGES) {
        news->lost = true;
        return;
    }
    fr_buf_fmt(&news->changes, "%s[%u,\"%s\",%u,\"%s\"]", news->n_changes++ == 0 ? "[" : ",",
               row->inst, fr_state_name(row->state), row->attempt_no, cause);
    news->lost = news->lost || news->changes.bad;
}

static void note_log(struct host_run *h, const struct fr_note *note)
{
    struct host_news *news = &h->news;
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

    if (note->kind == FR_NOTE_NODE && h->places != NULL) {
        json_decref(h->places[note->node].note);
        h->places[note->node].note = json_incref(data);
    }
    if (is_read(h))
        put(h->host, fr_run_id(h->run), "note", note->kind == FR_NOTE_NODE ? HOST_NODES : 0, data);
    else
        json_decref(data);
}

void feed_note(struct host_run *h, const struct fr_note *note)
{
    if (h->run == NULL)
        return;
    if (note->kind == FR_NOTE_NODE || (note->kind == FR_NOTE_TROUBLE && note->seq == 0)) {
        take_text(h, note);
        return;
    }
    if (!is_read(h))
        return;
    switch (note->kind) {
    case FR_NOTE_STATE:
        note_state(&h->news, &note->row);
        h->news.seq = note->seq > h->news.seq ? note->seq : h->news.seq;
        break;
    case FR_NOTE_RUN:
    case FR_NOTE_TROUBLE: /* its row tells it */
        h->news.run = true;
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
    struct host_news *news = &h->news;
    json_t *changes;

    fr_buf_text(&news->changes, "]");
    changes = news->changes.bad ? NULL : json_loads(news->changes.p, 0, NULL);
    put(h->host, fr_run_id(h->run), "inst", 0,
        json_pack("{s:I, s:I, s:o*}", "run", no, "seq", (json_int_t)news->seq, "changes", changes));
}

static void put_logs(struct host_run *h, json_int_t no)
{
    for (size_t i = 0; i < h->news.n_logs; i++) {
        char id[FR_ID_TEXT];

        fr_id_text(h->news.logs[i].attempt, id);
        put(h->host, fr_run_id(h->run), h->news.logs[i].metrics ? "metric" : "log", 0,
            json_pack("{s:I, s:s, s:I}", "run", no, "attempt", id, "bytes",
                      (json_int_t)h->news.logs[i].bytes));
    }
}

void feed_flush(struct host_run *h, bool now)
{
    struct host_news *news = &h->news;
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
    *news = (struct host_news){.sent_ms = now_ms};
}

int64_t feed_due(const struct host_run *h)
{
    return has_news(&h->news) ? h->news.sent_ms + STREAM_PAUSE_MS : INT64_MAX;
}
