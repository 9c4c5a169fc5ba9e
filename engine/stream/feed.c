/* Turns changes of runs into events, and sends them to streams. */
#include "engine/stream/feed.h"

#include "engine/metrics/meters.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

enum {
    STREAM_QUEUED = 256 << 10, /* queued bytes at which a reader gets no more for now */
    STREAM_LOT = 32 << 10,     /* sent at once */
    STREAM_PAUSE_MS = 100,     /* between two sends of one run's changes */
};

/* ---- events ---- */

struct event {
    struct fr_id run; /* zero: of no run */
    const char *name;
    unsigned topic; /* enum host_topic; 0: none */
    bool lost;      /* its data could not be written */
};

/* Adds an event to the ring; fmt gives its data, which is JSON. */
struct host_streams *streams_of(const struct fr_host *host)
{
    return host_state(host, &stream_part);
}

__attribute__((format(printf, 3, 4))) static void put(struct fr_host *host, struct event ev,
                                                      const char *fmt, ...)
{
    struct host_ring *ring = streams_of(host)->ring;
    struct fr_buf text = {.bad = ev.lost};
    va_list ap;

    fr_buf_fmt(&text, "id: %s.%" PRIu64 "\nevent: %s\ndata: ", ring->name, ring->next, ev.name);
    va_start(ap, fmt);
    fr_buf_vfmt(&text, fmt, ap);
    va_end(ap);
    fr_buf_text(&text, "\n\n");
    while (ring->first < ring->next && (text.bad || ring->next - ring->first >= HOST_RING ||
                                        ring->bytes + text.n > HOST_RING_BYTES)) {
        struct host_event *old = &ring->events[ring->first++ % HOST_RING];

        ring->bytes -= old->text.n;
        fr_buf_finish(&old->text);
    }
    if (text.bad) { /* the gap in the numbers makes readers read all again */
        fr_buf_finish(&text);
        ring->first = ++ring->next;
        return;
    }
    ring->events[ring->next++ % HOST_RING] = (struct host_event){ev.run, ev.topic, text};
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

/* Sends the gathered events. */
static void send_lot(struct fr_api_stream *s, struct fr_buf *lot)
{
    if (lot->n > 0)
        stream_send(s, (struct fr_str){lot->p, lot->n});
    fr_buf_cut(lot, lot->n);
}

/* Sends all events that are ready in few pieces. */
void stream_pump(struct fr_api_stream *s)
{
    struct host_ring *ring = streams_of(s->host)->ring;
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
    if (lot.bad) /* no memory for some events: the reader gets a reset */
        s->at = 0;
    send_lot(s, &lot);
    fr_buf_finish(&lot);
}

/* Several changes of a topic become one event. */
static void put_topics(struct fr_host *host)
{
    struct host_streams *all = streams_of(host);
    int64_t now = fr_sys.mono_ms();

    if (all->first == NULL)
        all->topics = 0;
    if (all->topics == 0 || now < all->topics_ms + STREAM_PAUSE_MS)
        return;
    if (all->topics & HOST_QUEUE)
        put(host, (struct event){.name = "queue", .topic = HOST_QUEUE}, "{}");
    if (all->topics & HOST_SCHEDULES)
        put(host, (struct event){.name = "schedule", .topic = HOST_SCHEDULES}, "{}");
    all->topics = 0;
    all->topics_ms = now;
}

static void pump(struct fr_host *host)
{
    struct host_streams *all = streams_of(host);
    struct host_ring *ring = all->ring;

    put_topics(host);
    if (ring == NULL || ring->pumped == ring->next)
        return;
    ring->pumped = ring->next;
    for (struct fr_api_stream *s = all->first, *next; s != NULL; s = next) {
        next = s->next;
        stream_pump(s);
    }
}

/* ---- changes of a run ---- */

static bool is_read(const struct host_run *h)
{
    return streams_of(h->host)->first != NULL; /* a stream of all runs, or of this one */
}

static void note_state(struct host_news *news, const struct fr_note *note)
{
    const struct fr_row *row = &note->row;
    const char *cause = fr_cause_name(row->cause);
    int64_t due = row->state == FR_ST_RETRYING ? note->wall_ms + row->delay_ms : 0;
    struct fr_buf *out = &news->changes;

    if (news->n_changes == HOST_CHANGES) {
        news->lost = true;
        return;
    }
    fr_buf_fmt(out, "%s[%u,\"%s\",%u,\"%s\",%d,", news->n_changes++ == 0 ? "[" : ",", row->inst,
               fr_state_name(row->state), row->attempt_no, cause, row->code);
    fr_json_add_text(out, note->text);
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

/* The data of an event, as JSON. */
static struct fr_buf text_of_note(const struct host_run *h, const struct fr_note *note)
{
    struct fr_buf out = {0};

    fr_buf_fmt(&out, "{\"run\":%" PRId64 ",\"wall\":%" PRId64 ",\"text\":", fr_run_no(h->run),
               note->wall_ms);
    fr_json_add_text(&out, note->text);
    if (note->node != FR_PLAN_NONE) {
        fr_buf_text(&out, ",\"node\":");
        fr_json_add_text(&out, fr_run_plan(h->run)->nodes[note->node].name);
        fr_buf_fmt(&out, ",\"up\":%s", note->up ? "true" : "false");
    }
    if (note->inst != FR_PLAN_NONE)
        fr_buf_fmt(&out, ",\"idx\":%u", note->inst);
    fr_buf_text(&out, "}");
    return out;
}

static void take_text(struct host_run *h, const struct fr_note *note)
{
    bool of_node = note->kind == FR_NOTE_NODE;
    struct fr_buf data = text_of_note(h, note);

    if (is_read(h))
        put(h->host, (struct event){fr_run_id(h->run), "note", of_node ? HOST_NODES : 0, data.bad},
            "%s", data.bad ? "" : data.p);
    if (of_node) {
        fr_buf_finish(&h->news->nodes[note->node]);
        h->news->nodes[note->node] = data;
    } else {
        fr_buf_finish(&data);
    }
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
        news->nodes[n] = (struct fr_buf){0};
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
        fr_buf_finish(&h->news->nodes[n]);
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
    case FR_NOTE_PLAN: /* all is read again */
        h->news->lost = true;
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

static void put_logs(struct host_run *h)
{
    for (size_t i = 0; i < h->news->n_logs; i++) {
        const struct host_log *log = &h->news->logs[i];
        char id[FR_ID_TEXT];

        fr_id_text(log->attempt, id);
        put(h->host,
            (struct event){.run = fr_run_id(h->run), .name = log->metrics ? "metric" : "log"},
            "{\"run\":%" PRId64 ",\"attempt\":\"%s\",\"bytes\":%" PRIu64 "}", fr_run_no(h->run), id,
            log->bytes);
    }
}

/* now: without waiting for STREAM_PAUSE_MS */
static void flush(struct host_run *h, bool now)
{
    struct host_news *news = h->news;
    struct fr_id run = fr_run_id(h->run);
    int64_t now_ms, no = fr_run_no(h->run);
    struct fr_run_now state;

    if (!has_news(news))
        return;
    now_ms = fr_sys.mono_ms();
    if (!now && !news->run && now_ms < news->sent_ms + STREAM_PAUSE_MS)
        return;
    state = fr_run_now(h->run);
    if (news->lost)
        put(h->host, (struct event){.run = run, .name = "reset"}, "{\"run\":%" PRId64 "}", no);
    else if (news->n_changes > 0)
        put(h->host, (struct event){.run = run, .name = "inst"},
            "{\"run\":%" PRId64 ",\"seq\":%" PRId64 ",\"changes\":%s]}", no, news->seq,
            news->changes.p);
    if (!news->lost)
        put_logs(h);
    if (news->run)
        put(h->host, (struct event){run, "run", HOST_LIST, false},
            "{\"run\":%" PRId64 ",\"state\":\"%s\",\"outcome\":\"%s\"}", no,
            fr_run_state_name(state.state), fr_outcome_name(state.outcome));
    fr_buf_finish(&news->changes);
    *news = (struct host_news){.sent_ms = now_ms, .nodes = news->nodes, .n_nodes = news->n_nodes};
}

/* ---- the part ---- */

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
    streams_of(host)->topics |= (unsigned)topic;
}

static int64_t due(const struct fr_host *host)
{
    const struct host_streams *all = streams_of(host);
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
    .state_bytes = sizeof(struct host_streams),
    .of_run = {[HOST_RUN_SETTLED] = settle, [HOST_RUN_LEAVES] = leave, [HOST_RUN_FREE] = free_news},
    .changed = note_topic,
    .tell = pump,
    .due = due,
    .came = come,
    .note = take_note,
    .close = feed_finish};
