#include "tests/unit/host/host_bed.h"

enum {
    HANGS_MS = 60000,    /* the turns of a row: what should have woken the host did not */
    TURNS_MOST = 100000, /* of all that a test makes */
};

static enum fr_rc link_open(void *self, const struct fr_link_events *ev, struct fr_err *err)
{
    (void)err;
    ((struct host_bed *)self)->opened = *ev;
    return FR_OK;
}

static size_t link_send(void *self, const char *p, size_t n)
{
    (void)self, (void)p, (void)n;
    return 0;
}

static void link_close(void *self)
{
    (void)self;
}

static enum fr_rc make_link(void *arg, const struct fr_exec_node *node, struct fr_link *out,
                            struct fr_err *err)
{
    static const struct fr_link_ops ops = {"none", link_open, link_send, link_close, link_close};

    (void)node, (void)err;
    *out = (struct fr_link){&ops, arg};
    return FR_OK;
}

static _Atomic int64_t shift_ms; /* fr_sys.wall_ms has no argument */

int64_t bed_wall_ms(void)
{
    return fr_sys_real.wall_ms() + shift_ms;
}

void bed_shift(int64_t ahead_ms)
{
    shift_ms = ahead_ms;
}

void bed_pass(int64_t seconds)
{
    shift_ms += seconds * 1000;
}

void open_host(struct host_bed *bed)
{
    struct fr_nodes_args links = {
        .flownode_dir = "/", .make_link = make_link, .make_link_arg = bed};
    struct fr_run_env env = {.loop = &bed->loop, .self = "/flowrun"};

    bed->st = open_store(bed->home);
    env.store = bed->st;
    CHECK_INT(fr_loop_event_create(&bed->loop, NULL), FR_OK);
    CHECK_INT(fr_host_create(&env, &links, &bed->host, NULL), FR_OK);
    bed->api = fr_host_api(bed->host);
}

void close_host(struct host_bed *bed)
{
    fr_host_destroy(bed->host);
    fr_loop_destroy(&bed->loop);
    fr_store_close(bed->st);
    bed->host = NULL;
}

void on_again(void *again)
{
    *(bool *)again = true;
}

bool turn_host(struct host_bed *bed)
{
    static int turns, row;
    static int64_t took_ms; /* the turns of this row */
    int64_t began_ms = fr_sys_real.mono_ms();
    struct fr_timer *guard = NULL;
    enum fr_rc rc;

    CHECK_INT(fr_loop_timer(&bed->loop, nothing, NULL, &guard), FR_OK);
    fr_loop_arm_in(&bed->loop, guard, HANGS_MS);
    rc = fr_host_turn(bed->host, NULL);
    fr_loop_untimer(&bed->loop, &guard);
    took_ms = (row == check_counts.rows ? took_ms : 0) + fr_sys_real.mono_ms() - began_ms;
    row = check_counts.rows;
    return CHECK_INT(rc, FR_OK) && CHECK(took_ms < HANGS_MS) && CHECK(++turns < TURNS_MOST);
}

struct fr_api_response ask(struct host_bed *bed, enum fr_api_method method, const char *path,
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
                                 .caller = bed->caller,
                                 .key = bed->key,
                                 .body = fr_str_of(body),
                                 .content_type = body != NULL ? bed->type : "",
                                 .range = bed->range,
                                 .if_none_match = "",
                                 .last_event_id = "",
                                 .if_match = method == PUT ? bed->match : NULL};

    snprintf(copy, sizeof(copy), "%s", path);
    req.query = pairs;
    for (query = strchr(copy, '?'); query != NULL && (eq = strchr(query, '=')) != NULL;
         query = strchr(eq + 1, '&')) { /* at most twelve */
        *query = *eq = '\0';
        pairs[req.n_query++] = (struct fr_api_pair){query + 1, eq + 1};
    }
    bed->api.answer(bed->api.self, &req, &res);
    while (res.status == FR_API_LATER) {
        again = false;
        while (!again && turn_host(bed))
            ;
        if (!again)
            break;
        bed->api.answer(bed->api.self, &req, &res);
    }
    return res;
}

void check_answer(struct fr_api_response res, int status, const char *text)
{
    CHECK_INT(res.status, status);
    if (text != NULL && !CHECK(res.body.p != NULL && strstr(res.body.p, text) != NULL))
        printf("   %s\n", res.body.p != NULL ? res.body.p : "(none)");
    fr_api_response_finish(&res);
}

void check_whole(struct fr_api_response res, int status, const char *text)
{
    if (status >= 300) {
        check_answer(res, status, text);
        return;
    }
    fr_buf_add(&res.body, "", 1);
    CHECK_INT(res.status, status);
    CHECK_TEXT(res.body.p, text);
    fr_api_response_finish(&res);
}

bool has_answer(struct host_bed *bed, const char *path, const char *text)
{
    struct fr_api_response res = ask(bed, GET, path, NULL);
    bool yes = res.body.p != NULL && strstr(res.body.p, text) != NULL;

    fr_api_response_finish(&res);
    return yes;
}

void make_body(struct host_bed *bed, const char *id, const char *more)
{
    snprintf(bed->body, sizeof(bed->body),
             "{\"id\": \"%s\", \"pipeline\": \"%s/p.yaml\", \"cwd\": \"/\", \"env\": {\"WHO\": "
             "\"me\"}, \"secrets\": {\"TOKEN\": \"planted-secret\"}%s}",
             id, bed->home, more);
}

size_t take(void *arg, struct fr_str events)
{
    struct reader *r = arg;

    fr_buf_add(&r->got, events.p, events.n);
    return r->queued;
}

void closed(void *arg)
{
    ((struct reader *)arg)->closed = true;
}

int follow_by(struct host_bed *bed, struct reader *r, const struct fr_api_pair *query, size_t n,
              const char *last)
{
    struct fr_api_request req = {.path = "/api/v1/stream",
                                 .query = query,
                                 .n_query = n,
                                 .caller = bed->caller,
                                 .content_type = "",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = last};
    struct fr_api_sink sink = {take, closed, r};
    struct fr_api_response res = {0};
    int status;

    bed->api.open(bed->api.self, &req, &sink, &res, &r->s);
    status = res.status;
    fr_api_response_finish(&res);
    return status;
}

int follow(struct host_bed *bed, struct reader *r, const char *runs, const char *last)
{
    return follow_by(bed, r, &(struct fr_api_pair){"runs", runs}, 1, last);
}

bool has(const struct reader *r, const char *text)
{
    return r->got.p != NULL && strstr(r->got.p, text) != NULL;
}

void turn_until(struct host_bed *bed, struct reader *r, const char *text)
{
    while (!has(r, text) && turn_host(bed))
        ;
}

bool is_over(struct host_bed *bed, const char *run)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;
    bool over;

    CHECK_INT(fr_store_run_find(bed->st, run, &arena, &row, NULL), FR_OK);
    over = row.state == FR_RUN_OVER;
    fr_arena_finish(&arena);
    return over;
}

void submit(struct host_bed *bed, const char *file, int no, const char *more, const char *state)
{
    char text[60];

    snprintf(
        bed->body, sizeof(bed->body),
        "{\"id\": \"%032x\", \"pipeline\": \"%s/%s\", \"cwd\": \"/\", \"secrets\": {\"TOKEN\": "
        "\"planted-secret\"}, \"env\": {\"WHO\": \"me\"}%s}",
        0xabc000 + no, bed->home, file, more);
    snprintf(text, sizeof(text), "\"no\":%d,", no);
    check_answer(ask(bed, POST, "/api/v1/runs", bed->body), 201, text);
    snprintf(text, sizeof(text), "\"state\":\"%s\"", state);
    check_answer(ask(bed, POST, "/api/v1/runs", bed->body), 200, text);
}

void turn_until_over(struct host_bed *bed, const char *run)
{
    while (!is_over(bed, run) && turn_host(bed))
        ;
}

void check_states(struct host_bed *bed, int from, const char *want)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    struct fr_buf got = {0};

    CHECK_INT(fr_store_runs(bed->st, 0, &arena, &rows, NULL), FR_OK);
    for (size_t i = rows.n; i-- > 0;)
        if (rows.rows[i].no >= from)
            fr_buf_fmt(&got, "%s%lld %s%s", got.n > 0 ? ", " : "", (long long)rows.rows[i].no,
                       fr_run_word(rows.rows[i].state, rows.rows[i].outcome),
                       rows.rows[i].started_wall != 0 ? "" : " (not started)");
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
    fr_arena_finish(&arena);
}

void cancel(struct host_bed *bed, const char *run)
{
    char path[60];

    snprintf(path, sizeof(path), "/api/v1/runs/%s/cancel", run);
    check_answer(ask(bed, POST, path, "{}"), 202, NULL);
    turn_until_over(bed, run);
}

void nothing(void *arg)
{
    (void)arg;
}

void settle_host(struct host_bed *bed)
{
    struct fr_timer *timer = NULL;

    CHECK_INT(fr_loop_timer(&bed->loop, nothing, NULL, &timer), FR_OK);
    for (int i = 0; i < 4; i++) {
        fr_loop_arm_in(&bed->loop, timer, 0); /* a turn waits for something to happen */
        CHECK_INT(fr_host_turn(bed->host, NULL), FR_OK);
    }
    fr_loop_untimer(&bed->loop, &timer);
}

void make_pipelines(struct host_bed *bed)
{
    char path[300];

    make_home(bed->home);
    snprintf(path, sizeof(path), "%s/p.yaml", bed->home);
    CHECK_INT(fr_file_write(path, pipeline, sizeof(pipeline) - 1, 0600, NULL), FR_OK);
}

size_t count_rows(struct host_bed *bed, const char *run)
{
    struct fr_arena arena = {0};
    struct fr_inst_rows rows = {0};
    struct fr_run_row row;

    if (fr_store_run_find(bed->st, run, &arena, &row, NULL) == FR_OK)
        CHECK_INT(fr_store_insts(bed->st, row.id, &arena, &rows, NULL), FR_OK);
    fr_arena_finish(&arena);
    return rows.n;
}
