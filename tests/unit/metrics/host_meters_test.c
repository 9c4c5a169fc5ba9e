/* GET /metrics: the figures of a host whose clock stands, all lines of them. */
#include "engine/metrics/meters.h"

#include "engine/timetable/schedules.h"
#include "engine/spec/config.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

static int64_t now_ms = 1000000;

static int64_t clock_ms(void)
{
    return now_ms;
}

/* What differs from time to time, buckets (prom_test looks at them), and labels that have 0. */
static bool is_left_out(const char *line)
{
    static const char *const parts[] = {"#",
                                        "_bucket",
                                        "process_",
                                        "flowrun_store_",
                                        "flowrun_http_",
                                        "flowrun_build_info",
                                        "flowrun_loop_",
                                        "} 0\n"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *at = strstr(line, parts[i]);

        if (at != NULL && at < strchr(line, '\n'))
            return true;
    }
    return false;
}

static void check_figures(const char *want)
{
    struct fr_api_response res = ask(&bed, GET, "/metrics", NULL);
    struct fr_buf got = {0};

    fr_buf_add(&res.body, "", 1);
    for (const char *at = res.body.p; *at != '\0'; at = strchr(at, '\n') + 1)
        if (!is_left_out(at))
            fr_buf_add(&got, at, (size_t)(strchr(at, '\n') + 1 - at));
    fr_buf_add(&got, "", 1);
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
    fr_api_response_finish(&res);
}

/* How often the text stands there, at the beginning of a line. */
static int count_of(const char *text)
{
    struct fr_api_response res = ask(&bed, GET, "/metrics", NULL);
    struct fr_buf line = {0};
    int n = 0;

    fr_buf_fmt(&line, "\n%s", text);
    fr_buf_add(&res.body, "", 1);
    for (const char *at = res.body.p; (at = strstr(at, line.p)) != NULL; at++)
        n++;
    fr_buf_finish(&line);
    fr_api_response_finish(&res);
    return n;
}

static void check_line(const char *want)
{
    check_row(want);
    CHECK_INT(count_of(want), 1);
}

/* It has the version as the host says it, and the value 1. */
static void check_build(void)
{
    struct fr_api_response res = ask(&bed, GET, "/api/v1/host", NULL);
    json_t *doc = json_loadb(res.body.p, res.body.n, 0, NULL);
    char line[100];

    (void)snprintf(line, sizeof(line), "flowrun_build_info{version=\"%s\"} 1\n",
                   json_string_value(json_object_get(doc, "version")));
    check_line(line);
    json_decref(doc);
    fr_api_response_finish(&res);
}

static void break_link(void *arg)
{
    struct fr_err why = {0};

    (void)arg;
    fr_fail(&why, FR_UNREACHABLE, "no route");
    bed.opened.on_down(bed.opened.arg, &why, false);
}

static const struct fr_config config = {
    .limits = {.pools = {{"wide", 3}, {"small", 1}}, .n_pools = 2}};

/* One run has the only place of its pool, another waits for that; the third one's node goes. */
static void test_runs(void)
{
    struct fr_post post = {.run = break_link};
    struct reader r = {0};

    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    check_row("before any run");
    check_figures("flowrun_start_time_seconds 1000\n"
                  "flowrun_leader 1\n"
                  "flowrun_pool_limit{pool=\"wide\"} 3\n"
                  "flowrun_pool_limit{pool=\"small\"} 1\n"
                  "flowrun_streams 0\n");
    submit(&bed, "q.yaml", 1, "", "running");
    submit(&bed, "q.yaml", 2, "", "queued");
    submit(&bed, "p.yaml", 3, "", "running");
    settle_host(&bed);
    CHECK_INT(follow(&bed, &r, "1,3", ""), 200);
    while (bed.opened.on_down == NULL && turn_host(&bed))
        ;
    fr_loop_post(&bed.loop, &post);
    turn_until(&bed, &r, "unreachable");
    now_ms += 2500;
    check_row("while they run");
    check_figures("flowrun_start_time_seconds 1000\n"
                  "flowrun_leader 1\n"
                  "flowrun_runs{state=\"running\"} 2\n"
                  "flowrun_runs{state=\"queued\"} 1\n"
                  "flowrun_run_queue_seconds_count{pipeline=\"q\"} 1\n"
                  "flowrun_run_queue_seconds_count{pipeline=\"p\"} 1\n"
                  "flowrun_instances{state=\"waiting\"} 4\n"
                  "flowrun_instances{state=\"ready\"} 2\n"
                  "flowrun_queue_length{pool=\"small\"} 1\n"
                  "flowrun_pool_used{pool=\"small\"} 1\n"
                  "flowrun_pool_limit{pool=\"wide\"} 3\n"
                  "flowrun_pool_limit{pool=\"small\"} 1\n"
                  "flowrun_node_unreachable_seconds{node=\"local\"} 2.5\n"
                  "flowrun_streams 1\n");
    check_line("flowrun_http_requests_total{route=\"/api/v1/stream\",code=\"2xx\"} 1\n");
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
}

/* What ended counts; labels stay where there are none of them now. */
static void test_next(void)
{
    CHECK_INT(
        fr_host_configure(bed.host, &(struct fr_config){.limits = {.max_active_runs = 1}}, NULL),
        FR_OK);
    check_build();
    check_line("flowrun_queue_length{pool=\"\"} 1\n"); /* of a pool that there is no more */
    CHECK_INT(count_of("flowrun_pool_"), 0);
    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK);
    CHECK_INT(count_of("flowrun_pool_limit{"), 2);
    CHECK_INT(count_of("flowrun_deliveries_waiting{"), FR_CHANNEL_N);
    cancel(&bed, "1");
    settle_host(&bed);
    check_row("the next one has its place");
    check_figures("flowrun_start_time_seconds 1000\n"
                  "flowrun_leader 1\n"
                  "flowrun_runs{state=\"running\"} 2\n"
                  "flowrun_runs_total{pipeline=\"q\",outcome=\"cancelled\",origin=\"cli\"} 1\n"
                  "flowrun_run_duration_seconds_sum{pipeline=\"q\",outcome=\"cancelled\"} 2.5\n"
                  "flowrun_run_duration_seconds_count{pipeline=\"q\",outcome=\"cancelled\"} 1\n"
                  "flowrun_run_queue_seconds_sum{pipeline=\"q\"} 2.5\n"
                  "flowrun_run_queue_seconds_count{pipeline=\"q\"} 2\n"
                  "flowrun_run_queue_seconds_count{pipeline=\"p\"} 1\n"
                  "flowrun_instances{state=\"waiting\"} 2\n"
                  "flowrun_instances{state=\"ready\"} 2\n"
                  "flowrun_pool_used{pool=\"small\"} 1\n"
                  "flowrun_pool_limit{pool=\"wide\"} 3\n"
                  "flowrun_pool_limit{pool=\"small\"} 1\n"
                  "flowrun_node_unreachable_seconds{node=\"local\"} 2.5\n"
                  "flowrun_streams 0\n");
    check_line("flowrun_node_up{node=\"local\"} 0\n");
    check_line("flowrun_queue_length{pool=\"\"} 0\n");
    check_line("flowrun_queue_length{pool=\"small\"} 0\n");
    check_line("flowrun_pool_used{pool=\"wide\"} 0\n");
    check_line("flowrun_runs{state=\"hooks\"} 0\n");
    CHECK_INT(count_of("flowrun_runs{"), 4);
    CHECK_INT(count_of("flowrun_instances{"), FR_ST_N);
}

static void state_is(struct host_run *h, enum fr_state_of state, uint32_t attempt_no)
{
    struct fr_note note = {
        .kind = FR_NOTE_STATE,
        .row = {.state = state, .attempt_state = FR_ST_FAILED, .cause = FR_CAUSE_SIGNAL}};

    note.row.attempt_no = attempt_no;
    meters_note(bed.host->meters, &h->counts, h->run, &note);
}

/* An attempt that another follows, one that ends; an end without an attempt. */
static void test_states(void)
{
    struct host_run *h = host_find_no(bed.host, 3);

    state_is(h, FR_ST_RUNNING, 1);
    check_line("flowrun_instances{state=\"running\"} 1\n");
    check_line("flowrun_instances{state=\"ready\"} 1\n");
    check_line("flowrun_node_attempts{node=\"local\"} 1\n");
    state_is(h, FR_ST_RUNNING, 1);
    state_is(h, FR_ST_RETRYING, 1);
    check_line("flowrun_retries_total{pipeline=\"p\",cause=\"signal\"} 1\n");
    check_line("flowrun_node_attempts{node=\"local\"} 0\n");
    state_is(h, FR_ST_STOPPING, 2);
    state_is(h, FR_ST_CANCELLED, 2);
    state_is(h, FR_ST_READY, 2);
    state_is(h, FR_ST_SKIPPED, 2);
    state_is(h, FR_ST_STARTING, 0);
    state_is(h, FR_ST_FAILED, 0);
    check_line("flowrun_retries_total{pipeline=\"p\",cause=\"signal\"} 1\n");
    check_line("flowrun_attempts_total{pipeline=\"p\",outcome=\"failed\",cause=\"signal\"} 2\n");
    check_line("flowrun_instances{state=\"failed\"} 1\n");
    state_is(h, FR_ST_READY, 0); /* as it is */
    meters_note(bed.host->meters, &h->counts, h->run,
                &(struct fr_note){.kind = FR_NOTE_RUN, .wall_ms = now_ms + 1});
    check_line("flowrun_run_queue_seconds_count{pipeline=\"p\"} 1\n"); /* counted already */
}

static void test_store(void)
{
    static const char *const names[] = {"state.db", "state.db-wal"};
    char line[100], path[300];
    int64_t bytes = 0;

    for (size_t i = 0; i < 2; i++) {
        struct stat at;

        snprintf(path, sizeof(path), "%s/%s", bed.home, names[i]);
        CHECK(stat(path, &at) == 0 && at.st_size > 0);
        bytes += at.st_size;
    }
    snprintf(line, sizeof(line), "flowrun_store_bytes %lld\n", (long long)bytes);
    check_line(line);
}

static void test_told(void)
{
    meters_occurrence(bed.host->meters, FR_FATE_RAN, 2500);
    meters_occurrence(bed.host->meters, FR_FATE_MISSED, 9000);
    check_line("flowrun_schedule_fires_total{decision=\"missed\"} 1\n");
    check_line("flowrun_schedule_lag_seconds_sum 2.5\n");
    meters_answer(bed.host->meters, NULL, 404, 3600000);
    check_line("flowrun_http_request_seconds_sum 3600");
    meters_answer(bed.host->meters, "/no", 99, 4);
    check_line("flowrun_http_requests_total{route=\"none\",code=\"4xx\"} 1\n");
    meters_stall(bed.host->meters, 3600000);
    meters_stall(bed.host->meters, FR_LOOP_SLOW_MS);
    check_line("flowrun_loop_stall_seconds_bucket{le=\"0.1\"} 0\n");
    meters_commit(bed.host->meters, 7200000);
    check_line("flowrun_store_commit_seconds_sum 7200"); /* and what commits have taken */
    meters_delivery(bed.host->meters, "slack", "dead");
    check_line("flowrun_deliveries_total{kind=\"slack\",result=\"dead\"} 1\n");
    meters_reset(bed.host->meters);
    check_line("flowrun_stream_resets_total 1\n");
}

/* One is due, one is paused; a third one no file has any more. */
static void test_schedules(void)
{
    struct host_schedule due = {.s = &(struct fr_schedule){0}, .due_wall = 1500}, paused = due,
                         gone = due, *list[] = {&gone, &due, &paused};
    struct host_schedules *all = schedules_of(bed.host), none = *all;

    due.row = (struct fr_schedule_row){.pipeline = "p", .name = "a", .state = FR_SCHEDULE_ACTIVE};
    paused.row =
        (struct fr_schedule_row){.pipeline = "p", .name = "b", .state = FR_SCHEDULE_PAUSED};
    paused.due_wall = INT64_MAX;
    gone.row = (struct fr_schedule_row){.pipeline = "p", .name = "c", .state = FR_SCHEDULE_ACTIVE};
    gone.s = NULL;
    *all = (struct host_schedules){
        .host = bed.host, .served = true, .list = list, .n = 3, .clock_steps = 2};
    check_line("flowrun_schedule_next_timestamp_seconds{pipeline=\"p\",schedule=\"a\"} 1.5\n");
    check_line("flowrun_schedule_paused{pipeline=\"p\",schedule=\"a\"} 0\n");
    check_line("flowrun_schedule_paused{pipeline=\"p\",schedule=\"b\"} 1\n");
    check_line("flowrun_clock_steps_total 2\n");
    check_row("those that no file has, and times that do not come");
    CHECK_INT(count_of("flowrun_schedule_next"), 1);
    CHECK_INT(count_of("flowrun_schedule_paused"), 2);
    all->n = 1;
    all->clock_steps = 5;
    check_line("flowrun_clock_steps_total 5\n");
    check_row("no schedules");
    CHECK_INT(count_of("flowrun_schedule_next"), 0);
    CHECK_INT(count_of("flowrun_schedule_paused"), 0);
    *all = none;
    check_line("flowrun_clock_steps_total 5\n");
}

/* When pipelines succeeded before this host began; of runs that it ends itself it knows. */
static void test_successes(void)
{
    struct fr_run_row row = {.id = {.b = {0xaa}},
                             .name = "old",
                             .source = "/o.yaml",
                             .state = FR_RUN_OVER,
                             .outcome = FR_OUT_SUCCEEDED,
                             .origin = FR_ORIGIN_CLI,
                             .params = "{}",
                             .ended_wall = 7500};

    CHECK_INT(fr_store_run_add(bed.st, &row, NULL), FR_OK);
    fr_host_stay(bed.host);
    check_line("flowrun_run_last_success_timestamp_seconds{pipeline=\"old\"} 7.5\n");
}

int main(void)
{
    static const char pooled[] = "name: q\npool: small\ntasks:\n  one: {run: 'true'}\n"
                                 "  two: {run: 'true', needs: [one]}\n";

    make_pipelines(&bed);
    put_file(bed.home, "q.yaml", pooled);
    fr_sys.wall_ms = clock_ms;
    open_host(&bed);
    test_runs();
    test_next();
    test_states();
    test_store();
    test_told();
    test_schedules();
    test_successes();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
