/*
 * What tests of the host share: a host in a home of its own, with links to nodes that never come
 * up; requests as structs, a reader of a stream in memory, no sockets.
 */
#ifndef TESTS_UNIT_HOST_BED_H
#define TESTS_UNIT_HOST_BED_H

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/host/host.h"
#include "tests/unit/store/store_bed.h"

#include <string.h>
#include <sys/stat.h>

static const char pipeline[] = "name: p\nparams: {x: {default: \"1\"}, y: {type: int, default: 3, "
                               "choices: [3, 4], help: many}}\n"
                               "secrets: {s: {env: TOKEN}}\n"
                               "tasks:\n"
                               "  one: {run: 'true', env: {X: \"${{ params.x }}${{ env.WHO }}\"}}\n"
                               "  two: {needs: [one], run: 'true'}\n";

static struct fr_loop loop;
static struct fr_store *st;
static struct fr_host *host;
static struct fr_api api;

/* ---- links that are never up ---- */

static struct fr_link_events opened; /* of the newest link */

static inline enum fr_rc link_open(void *self, const struct fr_link_events *ev, struct fr_err *err)
{
    (void)self, (void)err;
    opened = *ev;
    return FR_OK;
}

static inline size_t link_send(void *self, const char *p, size_t n)
{
    (void)self, (void)p, (void)n;
    return 0;
}

static inline void link_close(void *self)
{
    (void)self;
}

static inline enum fr_rc make_link(void *arg, const struct fr_exec_node *node, struct fr_link *out,
                                   struct fr_err *err)
{
    static const struct fr_link_ops ops = {"none", link_open, link_send, link_close, link_close};

    (void)arg, (void)node, (void)err;
    *out = (struct fr_link){&ops, NULL};
    return FR_OK;
}

static inline void open_host(void)
{
    struct fr_nodes_args links = {.flownode_dir = "/", .make_link = make_link};
    struct fr_run_env env = {.loop = &loop, .self = "/flowrun"};
    struct fr_err err = {0};

    st = open_store();
    env.store = st;
    CHECK_INT(fr_loop_event_create(&loop, &err), FR_OK);
    CHECK_INT(fr_host_create(&env, &links, &host, &err), FR_OK);
    api = fr_host_api(host);
}

static inline void close_host(void)
{
    fr_host_destroy(host);
    fr_loop_destroy(&loop);
    fr_store_close(st);
    host = NULL;
}

/* ---- requests ---- */

static const struct fr_api_caller *bed_caller; /* who asks over TCP; NULL: over the socket */
/* Idempotency-Key, Range, Content-Type and, of a PUT, If-Match */
static const char *bed_key, *bed_range = "", *bed_type = "application/json", *bed_match = "*";

static inline void on_again(void *again)
{
    *(bool *)again = true;
}

/* What is answered later is asked again when the host says so. */
static inline struct fr_api_response ask(enum fr_api_method method, const char *path,
                                         const char *body)
{
    struct fr_api_response res = {0};
    struct fr_api_pair pairs[12];
    bool again = false;
    struct fr_api_waiter waiter = {.again = on_again, .arg = &again};
    char copy[200];
    char *query, *eq;
    struct fr_api_request req = {.method = method,
                                 .path = copy,
                                 .waiter = &waiter,
                                 .caller = bed_caller,
                                 .key = bed_key,
                                 .body = fr_str_of(body),
                                 .content_type = body != NULL ? bed_type : "",
                                 .range = bed_range,
                                 .if_none_match = "",
                                 .last_event_id = "",
                                 .if_match = method == FR_API_PUT ? bed_match : NULL};

    snprintf(copy, sizeof(copy), "%s", path);
    req.query = pairs;
    for (query = strchr(copy, '?'); query != NULL && (eq = strchr(query, '=')) != NULL;
         query = strchr(eq + 1, '&')) { /* at most twelve */
        *query = *eq = '\0';
        pairs[req.n_query++] = (struct fr_api_pair){query + 1, eq + 1};
    }
    api.answer(api.self, &req, &res);
    while (res.status == FR_API_LATER) {
        again = false;
        while (!again && CHECK_INT(fr_host_turn(host, NULL), FR_OK))
            ;
        api.answer(api.self, &req, &res);
    }
    return res;
}

/* The answer has that status, and text in its body. */
static inline void check_answer(enum fr_api_method method, const char *path, const char *body,
                                int status, const char *text)
{
    struct fr_api_response res = ask(method, path, body);

    CHECK_INT(res.status, status);
    if (text != NULL && !CHECK(res.body.p != NULL && strstr(res.body.p, text) != NULL))
        printf("   %s\n", res.body.p != NULL ? res.body.p : "(none)");
    fr_api_response_finish(&res);
}

#define ID "00112233445566778899aabbccddeeff"
#define OTHER "ffeeddccbbaa99887766554433221100"

static char submit_body[1200];

static inline void make_body(const char *id, const char *more)
{
    snprintf(submit_body, sizeof(submit_body),
             "{\"id\": \"%s\", \"pipeline\": \"%s/p.yaml\", \"cwd\": \"/\", \"env\": {\"WHO\": "
             "\"me\"}, \"secrets\": {\"TOKEN\": \"planted-secret\"}%s}",
             id, home, more);
}

/* ---- streams ---- */

struct reader {
    struct fr_api_stream *s;
    struct fr_buf got;
    size_t queued; /* as send() answers */
    bool closed;
};

static inline size_t take(void *arg, struct fr_str events)
{
    struct reader *r = arg;

    fr_buf_add(&r->got, events.p, events.n);
    return r->queued;
}

static inline void closed(void *arg)
{
    ((struct reader *)arg)->closed = true;
}

static inline int follow(struct reader *r, const char *runs, const char *last)
{
    struct fr_api_pair pair = {"runs", runs};
    struct fr_api_request req = {.path = "/api/v1/stream",
                                 .query = &pair,
                                 .n_query = 1,
                                 .content_type = "",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = last};
    struct fr_api_sink sink = {take, closed, r};
    struct fr_api_response res = {0};
    int status;

    api.open(api.self, &req, &sink, &res, &r->s);
    status = res.status;
    fr_api_response_finish(&res);
    return status;
}

static inline bool has(const struct reader *r, const char *text)
{
    return r->got.p != NULL && strstr(r->got.p, text) != NULL;
}

static inline void turn_until(struct reader *r, const char *text)
{
    struct fr_err err = {0};

    while (!has(r, text) && CHECK_INT(fr_host_turn(host, &err), FR_OK))
        ;
}

static inline bool is_over(const char *run)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;
    struct fr_err err = {0};
    bool over;

    CHECK_INT(fr_store_run_find(st, run, &arena, &row, &err), FR_OK);
    over = row.state == FR_RUN_OVER;
    fr_arena_finish(&arena);
    return over;
}

/* Submits a run of FILE, whose number is no, and says in which state its row is then. */
static inline void submit(const char *file, int no, const char *more, const char *state)
{
    char text[60];

    snprintf(
        submit_body, sizeof(submit_body),
        "{\"id\": \"%032x\", \"pipeline\": \"%s/%s\", \"cwd\": \"/\", \"secrets\": {\"TOKEN\": "
        "\"planted-secret\"}, \"env\": {\"WHO\": \"me\"}%s}",
        0xabc000 + no, home, file, more);
    snprintf(text, sizeof(text), "\"no\":%d,", no);
    check_answer(FR_API_POST, "/api/v1/runs", submit_body, 201, text);
    snprintf(text, sizeof(text), "\"state\":\"%s\"", state);
    check_answer(FR_API_POST, "/api/v1/runs", submit_body, 200, text);
}

/* What the store says: "1 running, 2 queued", the runs from number from on. */
static inline void check_states(int from, const char *want)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    struct fr_buf got = {0};

    CHECK_INT(fr_store_runs(st, 0, &arena, &rows, NULL), FR_OK);
    for (size_t i = rows.n; i-- > 0;)
        if (rows.rows[i].no >= from)
            fr_buf_fmt(&got, "%s%lld %s%s", got.n > 0 ? ", " : "", (long long)rows.rows[i].no,
                       fr_run_word(rows.rows[i].state, rows.rows[i].outcome),
                       rows.rows[i].started_wall != 0 ? "" : " (not started)");
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
    fr_arena_finish(&arena);
}

static inline void cancel(const char *run)
{
    char path[60];
    struct fr_err err = {0};

    snprintf(path, sizeof(path), "/api/v1/runs/%s/cancel", run);
    check_answer(FR_API_POST, path, "{}", 202, NULL);
    while (!is_over(run) && CHECK_INT(fr_host_turn(host, &err), FR_OK))
        ;
}

static inline void nothing(void *arg)
{
    (void)arg;
}

/* The host admits in the turn behind, and writes in the next. */
static inline void settle(void)
{
    struct fr_timer *timer = NULL;
    struct fr_err err = {0};

    CHECK_INT(fr_loop_timer(&loop, nothing, NULL, &timer), FR_OK);
    for (int i = 0; i < 4; i++) {
        fr_loop_arm_in(&loop, timer, 0); /* a turn waits for something to happen */
        CHECK_INT(fr_host_turn(host, &err), FR_OK);
    }
    fr_loop_untimer(&loop, &timer);
}

/* The home with p.yaml, which is the pipeline above. */
static inline void make_pipelines(void)
{
    struct fr_err err = {0};
    char path[300];

    make_home();
    snprintf(path, sizeof(path), "%s/p.yaml", home);
    CHECK_INT(fr_file_write(path, pipeline, sizeof(pipeline) - 1, 0600, &err), FR_OK);
}

#endif
