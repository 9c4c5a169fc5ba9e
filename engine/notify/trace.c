#include "engine/notify/trace.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/notify/otel.h"
#include "engine/words/states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SPAN_TEXT = 17, KIND_INTERNAL = 1, STATUS_ERROR = 2 };

struct tracing {
    const struct fr_run_row *run;
    struct fr_inst_rows insts;
    struct fr_attempt_rows attempts;
    struct fr_event_row *events; /* by instance, then in their order */
    size_t n_events;
    size_t attempt, event; /* of the first instance of the task at hand */
    char trace[FR_ID_TEXT], root[SPAN_TEXT];
    json_t *spans;
};

/* ---- parts of a span ---- */

/* An id for a span without one: the first half of a hash. */
static void make_id(const struct tracing *t, const char *what, int64_t number, char out[SPAN_TEXT])
{
    struct fr_buf text = {0};
    char sum[FR_SHA256_TEXT] = "";

    fr_buf_fmt(&text, "%s %s %lld", t->trace, what, (long long)number);
    if (!text.bad)
        fr_sha256(text.p, text.n, sum);
    memcpy(out, sum, SPAN_TEXT - 1);
    out[SPAN_TEXT - 1] = '\0';
    fr_buf_finish(&text);
}

static void attempt_id(const struct fr_attempt_row *at, char out[SPAN_TEXT])
{
    char id[FR_ID_TEXT];

    fr_id_text(at->id, id);
    memcpy(out, id, SPAN_TEXT - 1);
    out[SPAN_TEXT - 1] = '\0';
}

static json_t *nanoseconds(int64_t wall_ms)
{
    return json_sprintf("%lld000000", (long long)wall_ms);
}

static void put_text(json_t *list, const char *key, const char *value)
{
    if (value[0] != '\0')
        json_array_append_new(
            list, json_pack("{s:s, s:{s:s}}", "key", key, "value", "stringValue", value));
}

static void put_number(json_t *list, const char *key, int64_t value)
{
    json_array_append_new(list, json_pack("{s:s, s:{s:o}}", "key", key, "value", "intValue",
                                          json_sprintf("%lld", (long long)value)));
}

struct span {
    const char *name, *id, *parent; /* parent "": it is the root */
    int64_t start_wall, end_wall;
    const char *failed; /* why; NULL: it did not fail */
};

/* Returns the span's attributes, for further ones. */
static json_t *add_span(struct tracing *t, const struct span *s)
{
    json_t *list = json_array();
    json_t *span = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:O}", "traceId", t->trace, "spanId",
                             s->id, "name", s->name, "kind", KIND_INTERNAL, "startTimeUnixNano",
                             nanoseconds(s->start_wall), "endTimeUnixNano",
                             nanoseconds(s->end_wall), "attributes", list);

    if (s->parent[0] != '\0')
        json_object_set_new(span, "parentSpanId", json_string(s->parent));
    if (s->failed != NULL)
        json_object_set_new(span, "status",
                            json_pack("{s:i, s:s}", "code", STATUS_ERROR, "message", s->failed));
    json_array_append_new(t->spans, span);
    json_decref(list); /* the span has it */
    return list;
}

/* "2026-11-22T04:00:00Z" */
static void put_time(json_t *list, const char *key, int64_t wall_ms)
{
    time_t s = (time_t)(wall_ms / 1000);
    char text[32];
    struct tm t;

    gmtime_r(&s, &t);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &t);
    put_text(list, key, text);
}

enum { WHY_TEXT = 600 };

/* Why an attempt failed; NULL: it did not. */
static const char *why_failed(const struct fr_attempt_row *at, char out[WHY_TEXT])
{
    if (!fr_state_failed(at->state))
        return NULL;
    if (at->reason[0] != '\0')
        (void)fr_visible(out, WHY_TEXT, at->reason, strlen(at->reason));
    else
        snprintf(out, WHY_TEXT, "%s %lld", fr_cause_name(at->cause), (long long)at->code);
    return out;
}

/* As the semantic conventions of CI/CD name results. */
static const char *const run_results[] = {[FR_OUT_NONE] = "",
                                          [FR_OUT_SUCCEEDED] = "success",
                                          [FR_OUT_FAILED] = "failure",
                                          [FR_OUT_CANCELLED] = "cancellation"};

static const char *result_of(enum fr_state_of state)
{
    return state == FR_ST_SUCCEEDED   ? "success"
           : state == FR_ST_CANCELLED ? "cancellation"
           : state == FR_ST_TIMED_OUT ? "timeout"
           : fr_state_failed(state)   ? "failure"
                                      : "";
}

/* ---- attempts ---- */

static json_t *newest_span(const struct tracing *t)
{
    return json_array_get(t->spans, json_array_size(t->spans) - 1);
}

/* What lies between two steps of an instance. */
static void add_step(struct tracing *t, const char *name, const struct fr_attempt_row *at,
                     const char *parent, const int64_t wall[2])
{
    char id[SPAN_TEXT], own[SPAN_TEXT];

    if (wall[0] == 0 || wall[1] <= wall[0])
        return;
    attempt_id(at, own);
    make_id(t, own, name[0], id);
    (void)add_span(t, &(struct span){name, id, parent, wall[0], wall[1], NULL});
}

/* When the attempt was ready, and when it ran; 0: not known. Connections that were lost are events
 * of its span. */
static void look_at_events(struct tracing *t, const struct fr_attempt_row *at, int64_t *ready,
                           int64_t *running)
{
    json_t *list = json_array();

    *ready = *running = 0;
    for (size_t i = t->event; i < t->n_events && t->events[i].idx <= at->idx; i++) {
        const struct fr_event_row *e = &t->events[i];

        if (e->idx < at->idx || e->wall > at->ended_wall)
            continue;
        if (strcmp(e->kind, "ready") == 0 && e->wall <= at->started_wall)
            *ready = e->wall;
        else if (strcmp(e->kind, "running") == 0 && e->attempt_no == at->no && *running == 0)
            *running = e->wall;
        else if (e->attempt_no == at->no &&
                 (strcmp(e->kind, "unreachable") == 0 || strcmp(e->kind, "reachable") == 0))
            json_array_append_new(list, json_pack("{s:s, s:o}", "name", e->kind, "timeUnixNano",
                                                  nanoseconds(e->wall)));
    }
    if (json_array_size(list) > 0)
        json_object_set(newest_span(t), "events", list);
    json_decref(list);
}

/* before: the instance's previous attempt; NULL: none. */
static void add_attempt(struct tracing *t, const struct fr_attempt_row *at,
                        const struct fr_attempt_row *before, const char *parent)
{
    const struct fr_inst_row *inst = &t->insts.rows[at->idx];
    char id[SPAN_TEXT], last[SPAN_TEXT], why[WHY_TEXT];
    int64_t ready, running;
    json_t *list;

    if (at->ended_wall == 0)
        return;
    attempt_id(at, id);
    list = add_span(t, &(struct span){inst->key, id, parent, at->started_wall, at->ended_wall,
                                      why_failed(at, why)});
    put_text(list, "cicd.pipeline.task.name", inst->task);
    put_text(list, "cicd.pipeline.task.run.id", id);
    put_text(list, "cicd.pipeline.task.run.result", result_of(at->state));
    put_text(list, "flowrun.node", at->node);
    put_number(list, "flowrun.rank", at->rank);
    put_number(list, "flowrun.generation", at->generation);
    put_number(list, "flowrun.attempt", at->no);
    put_text(list, "flowrun.cause", fr_cause_name(at->cause));
    if (at->cause == FR_CAUSE_EXIT)
        put_number(list, "flowrun.exit_code", at->code);
    if (before != NULL) {
        attempt_id(before, last);
        json_object_set_new(newest_span(t), "links",
                            json_pack("[{s:s, s:s}]", "traceId", t->trace, "spanId", last));
    }
    look_at_events(t, at, &ready, &running);
    add_step(t, "wait", at, parent, (int64_t[]){ready, at->started_wall});
    add_step(t, "start", at, id, (int64_t[]){at->started_wall, running});
}

/* ---- tasks ---- */

struct part {           /* attempts of a task, or of one generation of it */
    int64_t generation; /* 0: all */
    int64_t start_wall, end_wall;
    bool live, gang;
};

static struct part look_at(const struct tracing *t, size_t end, int64_t generation)
{
    struct part p = {.generation = generation};

    for (size_t i = t->attempt; i < end; i++) {
        const struct fr_attempt_row *at = &t->attempts.rows[i];

        if (generation != 0 && at->generation != generation)
            continue;
        if (p.start_wall == 0 || at->started_wall < p.start_wall)
            p.start_wall = at->started_wall;
        if (at->ended_wall > p.end_wall)
            p.end_wall = at->ended_wall;
        p.live = p.live || at->ended_wall == 0;
        p.gang = p.gang || at->rank > 0;
    }
    return p;
}

/* Spans of the generations of a gang that are over. */
static void add_generations(struct tracing *t, const struct fr_inst_row *inst, size_t end,
                            const char *parent)
{
    int64_t newest = 0;

    for (size_t i = t->attempt; i < end; i++)
        if (t->attempts.rows[i].generation > newest)
            newest = t->attempts.rows[i].generation;
    for (int64_t g = 1; g <= newest; g++) {
        struct part p = look_at(t, end, g);
        char id[SPAN_TEXT];
        json_t *list;

        if (p.live || p.end_wall == 0)
            continue;
        make_id(t, inst->task, g, id);
        list =
            add_span(t, &(struct span){"generation", id, parent, p.start_wall, p.end_wall, NULL});
        put_text(list, "cicd.pipeline.task.name", inst->task);
        put_number(list, "flowrun.generation", g);
    }
}

/* Why the first instance of [from, to) that failed did so; NULL: none did. */
static const char *failure_of(const struct tracing *t, size_t from, size_t to, char out[WHY_TEXT])
{
    for (size_t i = from; i < to; i++) {
        const struct fr_inst_row *inst = &t->insts.rows[i];
        struct fr_attempt_row at = {
            .state = inst->state, .reason = inst->reason, .cause = inst->cause, .code = inst->code};

        if (why_failed(&at, out) != NULL)
            return out;
    }
    return NULL;
}

/* Adds a task: its instances are [from, to), its attempts end before `end`. */
static void add_task(struct tracing *t, size_t from, size_t to, size_t end)
{
    const struct fr_inst_row *inst = &t->insts.rows[from];
    const struct fr_attempt_row *at = t->attempts.rows;
    struct part p = look_at(t, end, 0);
    char id[SPAN_TEXT], group[SPAN_TEXT], why[WHY_TEXT];

    if (p.end_wall == 0) /* it never ran */
        return;
    make_id(t, inst->task, 0, id);
    if (!p.live)
        put_text(add_span(t, &(struct span){inst->task, id, t->root, p.start_wall, p.end_wall,
                                            failure_of(t, from, to, why)}),
                 "cicd.pipeline.task.name", inst->task);
    if (p.gang)
        add_generations(t, inst, end, id);
    for (size_t i = t->attempt; i < end; i++) {
        bool again = i > t->attempt && at[i - 1].idx == at[i].idx;

        make_id(t, inst->task, at[i].generation, group);
        add_attempt(t, &at[i], again ? &at[i - 1] : NULL, p.gang ? group : id);
    }
}

static void add_tasks(struct tracing *t)
{
    for (size_t from = 0, to; from < t->insts.n; from = to) {
        size_t end = t->attempt;

        for (to = from + 1; to < t->insts.n; to++)
            if (strcmp(t->insts.rows[to].task, t->insts.rows[from].task) != 0)
                break;
        while (end < t->attempts.n && t->attempts.rows[end].idx < (int64_t)to)
            end++;
        while (t->event < t->n_events && t->events[t->event].idx < (int64_t)from)
            t->event++;
        add_task(t, from, to, end);
        t->attempt = end;
    }
}

/* ---- the run ---- */

static void add_run(struct tracing *t)
{
    const struct fr_run_row *run = t->run;
    int64_t began = run->queued_wall != 0 ? run->queued_wall : run->started_wall;
    char id[SPAN_TEXT];
    json_t *list;

    if (run->ended_wall == 0 || began == 0)
        return;
    list = add_span(t, &(struct span){run->name, t->root, "", began, run->ended_wall,
                                      run->outcome == FR_OUT_FAILED ? run->reason : NULL});
    put_text(list, "cicd.pipeline.name", run->name);
    put_text(list, "cicd.pipeline.run.id", t->trace);
    put_text(list, "cicd.pipeline.result", run_results[run->outcome]);
    put_number(list, "flowrun.run", run->no);
    put_text(list, "flowrun.origin", fr_origin_name(run->origin));
    if (run->at_ms != 0)
        put_time(list, "schedule.time", run->at_ms);
    make_id(t, "queued", -1, id);
    if (run->started_wall > began)
        (void)add_span(t, &(struct span){"queued", id, t->root, began, run->started_wall, NULL});
}

static int by_instance(const void *a, const void *b)
{
    const struct fr_event_row *x = a, *y = b;

    if (x->idx != y->idx)
        return x->idx < y->idx ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static enum fr_rc read_events(struct tracing *t, struct fr_store *st, struct fr_arena *arena,
                              struct fr_err *err)
{
    struct fr_event_rows page = {0};
    int64_t last = 0;
    enum fr_rc rc = fr_store_event_last(st, t->run->id, &last, err);

    if (rc != FR_OK || last <= 0)
        return rc;
    t->events = fr_arena_alloc(arena, (size_t)last * sizeof(*t->events));
    if (t->events == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the events of a run");
    do {
        if ((rc = fr_store_events(st, t->run->id, arena, &page, err)) != FR_OK)
            return rc;
        for (size_t i = 0; i < page.n && t->n_events < (size_t)last; i++)
            t->events[t->n_events++] = page.rows[i];
    } while (page.n > 0 && t->n_events < (size_t)last);
    qsort(t->events, t->n_events, sizeof(*t->events), by_instance);
    return FR_OK;
}

/* ---- the document ---- */

static json_t *request_of(json_t *spans)
{
    char host[256] = "";
    json_t *about = json_array(), *resource, *value;
    const char *key;

    (void)gethostname(host, sizeof(host) - 1);
    resource = fr_otel_resource(json_pack("{s:s, s:s, s:s}", "service.name", "flowrun",
                                          "service.version", FLOWRUN_VERSION, "host.name", host));
    json_object_foreach(resource, key, value) put_text(about, key, json_string_value(value));
    json_decref(resource);
    return json_pack("{s:[{s:{s:o}, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceSpans", "resource",
                     "attributes", about, "scopeSpans", "scope", "name", "flowrun", "version",
                     FLOWRUN_VERSION, "spans", spans);
}

json_t *fr_trace_none(void)
{
    return json_pack("[o]", request_of(json_array()));
}

static json_t *batches_of(const json_t *spans)
{
    json_t *all = json_array();
    size_t i = 0, n = json_array_size(spans);

    do {
        json_t *some = json_array();

        while (i < n && json_array_size(some) < FR_TRACE_BATCH)
            json_array_append(some, json_array_get(spans, i++));
        json_array_append_new(all, request_of(some));
    } while (i < n);
    return all;
}

enum fr_rc fr_trace_run(struct fr_store *st, const struct fr_run_row *run, json_t **out,
                        struct fr_err *err)
{
    struct tracing t = {.run = run};
    struct fr_arena arena = {0};
    char sum[FR_SHA256_TEXT];
    enum fr_rc rc = fr_store_insts(st, run->id, &arena, &t.insts, err);

    *out = NULL;
    if (rc == FR_OK)
        rc = fr_store_attempts(st, run->id, &arena, &t.attempts, err);
    if (rc == FR_OK)
        rc = read_events(&t, st, &arena, err);
    if (rc == FR_OK) {
        fr_id_text(run->id, t.trace);
        fr_sha256(run->id.b, sizeof(run->id.b), sum);
        memcpy(t.root, sum, SPAN_TEXT - 1);
        t.spans = json_array();
        add_run(&t);
        add_tasks(&t);
        *out = batches_of(t.spans);
        json_decref(t.spans);
        rc = *out != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a trace");
    }
    fr_arena_finish(&arena);
    return rc;
}
