/* Begin and end of event streams (feed.c). */
#include "engine/stream/feed.h"
#include "engine/api/problem.h"
#include "engine/metrics/meters.h"

#include <inttypes.h>
#include <stdio.h>

static const char *query_of(const struct fr_api_request *req, const char *name)
{
    for (size_t i = 0; i < req->n_query; i++)
        if (strcmp(req->query[i].name, name) == 0)
            return req->query[i].value;
    return "";
}

static enum fr_rc add_run(struct fr_api_stream *s, const char *name, struct fr_arena *arena,
                          struct fr_err *err)
{
    struct fr_run_row row;
    enum fr_rc rc;

    if (s->n_runs == STREAM_RUNS)
        return fr_fail(err, FR_USAGE, "a stream follows at most %d runs", STREAM_RUNS);
    if ((rc = fr_store_run_find(s->host->env.store, name, arena, &row, err)) == FR_OK)
        s->runs[s->n_runs++] = row.id;
    return rc;
}

static enum fr_rc add_topic(struct fr_api_stream *s, const char *name, struct fr_arena *arena,
                            struct fr_err *err)
{
    static const char *const names[] = {"list", "queue", "nodes", "schedules"};

    (void)arena;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0) {
            s->topics |= 1U << i;
            return FR_OK;
        }
    return fr_fail(err, FR_USAGE, "a topic is list, queue, nodes or schedules, not '%s'", name);
}

/* Calls add for each of the words of text, separated by commas. */
static enum fr_rc add_all(struct fr_api_stream *s, const char *text,
                          enum fr_rc (*add)(struct fr_api_stream *s, const char *name,
                                            struct fr_arena *arena, struct fr_err *err),
                          struct fr_err *err)
{
    struct fr_arena arena = {0};
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && *text != '\0') {
        size_t n = strcspn(text, ",");
        const char *name = fr_arena_text(&arena, text, n);

        if (name == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a stream");
        else if (n > 0)
            rc = add(s, name, &arena, err);
        text += n + (text[n] == ',');
    }
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc check_names(const struct fr_api_request *req, struct fr_err *err)
{
    for (size_t i = 0; i < req->n_query; i++) {
        const char *name = req->query[i].name;

        if (strcmp(name, "runs") != 0 && strcmp(name, "topics") != 0 && strcmp(name, "last") != 0)
            return fr_fail(err, FR_USAGE, "there is no parameter '%s' here, but: runs topics last",
                           name);
        if (query_of(req, name) != req->query[i].value)
            return fr_fail(err, FR_USAGE, "the parameter '%s' comes twice", name);
    }
    return FR_OK;
}

static enum fr_rc read_query(const struct fr_api_request *req, struct fr_api_stream *s,
                             struct fr_err *err)
{
    enum fr_rc rc = check_names(req, err);

    if (rc == FR_OK)
        rc = add_all(s, query_of(req, "runs"), add_run, err);
    if (rc == FR_OK)
        rc = add_all(s, query_of(req, "topics"), add_topic, err);
    s->all = s->n_runs == 0 && s->topics == 0;
    return rc;
}

/* The first event for a reader: the one after `last`; 0: it gets a reset. */
static uint64_t first_event(const struct host_ring *ring, const char *last)
{
    size_t n = strlen(ring->name);
    int64_t seen;

    if (last[0] == '\0')
        return ring->next;
    if (strncmp(last, ring->name, n) != 0 || last[n] != '.' ||
        fr_parse_i64(fr_str_of(last + n + 1), &seen, NULL) != FR_OK || seen < 0 ||
        (uint64_t)seen >= ring->next || (uint64_t)seen + 1 < ring->first)
        return 0; /* gets a reset */
    return (uint64_t)seen + 1;
}

static struct host_ring *make_ring(uint32_t epoch)
{
    struct host_ring *ring = fr_sys.alloc(sizeof(*ring));
    uint32_t drawn = 0;

    if (ring == NULL || fr_sys.random(&drawn, sizeof(drawn)) != 0) {
        fr_sys.free(ring);
        return NULL;
    }
    *ring = (struct host_ring){.next = 1, .first = 1};
    snprintf(ring->name, sizeof(ring->name), "%" PRIu32 "-%08" PRIx32, epoch, drawn);
    return ring;
}

size_t feed_streams(const struct fr_host *host)
{
    size_t n = 0;

    for (const struct fr_api_stream *s = streams_of(host)->first; s != NULL; s = s->next)
        n++;
    return n;
}

size_t feed_followers(const struct fr_host *host, struct fr_id run)
{
    size_t n = 0;

    for (const struct fr_api_stream *s = streams_of(host)->first; s != NULL; s = s->next)
        n += s->n_runs > 0 && stream_wants(s, run);
    return n;
}

static void count_follower(struct fr_api_stream *s, bool comes)
{
    for (size_t i = 0; i < s->n_runs; i++) {
        struct host_run *h = host_find(s->host, s->runs[i]);

        if (h == NULL)
            continue;
        h->followers += comes ? 1 : 0;
        h->followers -= !comes && h->followers > 0 ? 1 : 0;
        h->alone_ms = fr_sys.mono_ms();
    }
}

/* Sends the newest note of each node of its runs. */
static void say_nodes(struct fr_api_stream *s)
{
    for (size_t i = 0; i < s->n_runs; i++) {
        const struct host_run *h = host_find(s->host, s->runs[i]);

        for (uint32_t n = 0; h != NULL && n < fr_run_plan(h->run)->n_nodes; n++) {
            const struct fr_buf *note = &h->news->nodes[n];
            struct fr_buf text = {0};

            if (note->n == 0 || note->bad)
                continue;
            fr_buf_fmt(&text, "event: note\ndata: %s\n\n", note->p);
            if (!text.bad)
                stream_send(s, (struct fr_str){text.p, text.n});
            fr_buf_finish(&text);
        }
    }
}

/* 0, or the status of an error. */
static int check_opener(const struct fr_api_request *req, struct fr_err *err)
{
    if (req->caller != NULL && req->caller->role < FR_ROLE_VIEW) {
        fr_fail(err, FR_DENIED, "log in first: this needs a token, or a session");
        return 401;
    }
    if (strcmp(req->path, "/api/v1/stream") == 0)
        return 0;
    fr_fail(err, FR_NOTFOUND, "there is no stream at %s", req->path);
    return 404;
}

static void open_stream(struct fr_host *host, const struct fr_api_request *req,
                        const struct fr_api_sink *sink, struct fr_api_response *res,
                        struct fr_api_stream **out)
{
    struct host_streams *all = streams_of(host);
    struct fr_api_stream *s = fr_sys.alloc(sizeof(*s));
    struct fr_err err = {0};
    const char *last = req->last_event_id[0] != '\0' ? req->last_event_id : query_of(req, "last");
    enum fr_rc rc = FR_OK;
    int status = check_opener(req, &err);

    *out = NULL;
    if (status != 0) {
        fr_sys.free(s);
        fr_problem(res, status, req->path, &err, NULL);
        return;
    }
    if (all->ring == NULL)
        all->ring = make_ring(host->env.epoch);
    if (s == NULL || all->ring == NULL) {
        rc = fr_fail(&err, FR_NOMEM, "no memory for a stream");
    } else {
        *s = (struct fr_api_stream){.host = host, .sink = *sink};
        rc = read_query(req, s, &err);
    }
    if (rc != FR_OK) {
        fr_problem(res, 0, req->path, &err, NULL);
        fr_sys.free(s);
        return;
    }
    res->status = 200;
    s->at = first_event(all->ring, last);
    s->next = all->first;
    all->first = s;
    *out = s;
    count_follower(s, true);
    struct fr_buf hello = {0};
    fr_buf_fmt(&hello,
               "retry: 2000\nevent: hello\ndata: {\"epoch\":%u,\"version\":\"" FLOWRUN_VERSION
               "\",\"now_ms\":%" PRId64 "}\n\n",
               host->env.epoch, fr_sys.wall_ms());
    if (!hello.bad)
        stream_send(s, (struct fr_str){hello.p, hello.n});
    fr_buf_finish(&hello);
    if (last[0] == '\0' || s->at == 0)
        say_nodes(s);
    if (!s->full)
        stream_pump(s);
}

void feed_open(void *arg, const struct fr_api_request *req, const struct fr_api_sink *sink,
               struct fr_api_response *res, struct fr_api_stream **out)
{
    int64_t since = fr_sys.mono_ms();

    open_stream(arg, req, sink, res, out);
    meters_answer(((struct fr_host *)arg)->meters, "/api/v1/stream", res->status,
                  fr_sys.mono_ms() - since);
}

void feed_drained(void *arg, struct fr_api_stream *s)
{
    (void)arg;
    s->full = false;
    stream_pump(s);
}

void feed_gone(void *arg, struct fr_api_stream *s)
{
    struct fr_host *host = arg;

    count_follower(s, false);
    for (struct fr_api_stream **p = &streams_of(host)->first; *p != NULL; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    fr_sys.free(s);
}

void feed_finish(struct fr_host *host)
{
    struct host_streams *all = streams_of(host);

    while (all->first != NULL) {
        struct fr_api_stream *s = all->first;

        all->first = s->next;
        s->sink.close(s->sink.arg);
        fr_sys.free(s);
    }
    for (size_t i = 0; all->ring != NULL && i < HOST_RING; i++)
        fr_buf_finish(&all->ring->events[i].text);
    fr_sys.free(all->ring);
}
