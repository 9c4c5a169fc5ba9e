#include "engine/metrics/family.h"
#include "engine/metrics/machines.h"

#include "engine/base/sys.h"
#include "engine/run/run.h"
#include "engine/store/lists.h"

#include <stdio.h>
#include <string.h>

enum { PIPELINES = 500, NODES = 1000, ROUTES = 200 };

#define COUNTER(name_, help_, ...)                                                                 \
    {                                                                                              \
        .name = name_, .help = help_, .kind = FR_PROM_COUNTER, __VA_ARGS__                         \
    }
#define GAUGE(name_, help_, ...)                                                                   \
    {                                                                                              \
        .name = name_, .help = help_, .kind = FR_PROM_GAUGE, __VA_ARGS__                           \
    }
#define HISTOGRAM(name_, help_, ...)                                                               \
    {                                                                                              \
        .name = name_, .help = help_, .kind = FR_PROM_HISTOGRAM, __VA_ARGS__                       \
    }
#define OF_PIPELINE(...) .labels = {"pipeline", __VA_ARGS__}, .most = PIPELINES
#define LONG_TIMES .buckets = {1, 10, 60, 300, 1800, 3600, 14400, 43200, 86400, 259200}
#define SHORT_TIMES .buckets = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}

static const struct fr_prom_family families[FAMILIES] = {
    [BUILD_INFO] = GAUGE("flowrun_build_info", "1, of the version.", .labels = {"version"}),
    [START_TIME] = GAUGE("flowrun_start_time_seconds", "When this host began."),
    [LEADER] = GAUGE("flowrun_leader", "1: this process is the home's host."),
    [RUNS] = GAUGE("flowrun_runs", "Runs that this host drives, and those that are queued.",
                   .labels = {"state"}),
    [RUNS_TOTAL] =
        COUNTER("flowrun_runs_total", "Runs that ended.", OF_PIPELINE("outcome", "origin")),
    [RUN_SECONDS] = HISTOGRAM("flowrun_run_duration_seconds", "From a run's start to its end.",
                              OF_PIPELINE("outcome"), LONG_TIMES),
    [QUEUE_SECONDS] = HISTOGRAM("flowrun_run_queue_seconds", "How long runs were queued.",
                                OF_PIPELINE(NULL), LONG_TIMES),
    [LAST_SUCCESS] = GAUGE("flowrun_run_last_success_timestamp_seconds",
                           "When the newest run ended that succeeded.", OF_PIPELINE(NULL)),
    [ATTEMPTS_TOTAL] = COUNTER("flowrun_attempts_total", "Attempts of tasks that ended.",
                               OF_PIPELINE("outcome", "cause")),
    [RETRIES_TOTAL] = COUNTER("flowrun_retries_total", "Attempts that were followed by another.",
                              OF_PIPELINE("cause")),
    [INSTANCES] =
        GAUGE("flowrun_instances", "Instances of tasks of the driven runs.", .labels = {"state"}),
    [QUEUE_LENGTH] = GAUGE("flowrun_queue_length", "Runs that are queued; pool \"\": for none.",
                           .labels = {"pool"}),
    [POOL_USED] = GAUGE("flowrun_pool_used", "Active runs in the pool.", .labels = {"pool"}),
    [POOL_LIMIT] =
        GAUGE("flowrun_pool_limit", "Runs that may be active in the pool.", .labels = {"pool"}),
    [SCHEDULE_NEXT] = GAUGE("flowrun_schedule_next_timestamp_seconds",
                            "When the schedule is due next.", OF_PIPELINE("schedule")),
    [SCHEDULE_PAUSED] =
        GAUGE("flowrun_schedule_paused", "1: the schedule is paused.", OF_PIPELINE("schedule")),
    [FIRES_TOTAL] = COUNTER("flowrun_schedule_fires_total", "Instants of schedules, as decided.",
                            .labels = {"decision"}),
    [FIRE_LAG] = HISTOGRAM("flowrun_schedule_lag_seconds",
                           "From an instant to the decision that makes its run.", LONG_TIMES),
    [CLOCK_STEPS] = COUNTER("flowrun_clock_steps_total", "Steps of the wall clock that were seen."),
    [NODE_UP] =
        GAUGE("flowrun_node_up", "1: the node is connected.", .labels = {"node"}, .most = NODES),
    [NODE_AWAY] = GAUGE("flowrun_node_unreachable_seconds", "Since when it is not reached.",
                        .labels = {"node"}, .most = NODES),
    [NODE_ATTEMPTS] = GAUGE("flowrun_node_attempts", "Attempts that live there.",
                            .labels = {"node"}, .most = NODES),
    [NODE_DISK] = GAUGE("flowrun_node_disk_free_bytes", "Free space in its home, as last sampled.",
                        .labels = {"node"}, .most = NODES),
    [TRAIN_STEP] =
        GAUGE("flowrun_train_step", "Newest step of the newest live run.", OF_PIPELINE("task")),
    [TRAIN_LOSS] =
        GAUGE("flowrun_train_loss", "Its loss; NaN: it is not finite.", OF_PIPELINE("task")),
    [TRAIN_RATE] = GAUGE("flowrun_train_tokens_per_second", "Its speed.", OF_PIPELINE("task")),
    [TRAIN_MOVED] = GAUGE("flowrun_train_progress_timestamp_seconds", "When that step came.",
                          OF_PIPELINE("task")),
    [COMMIT_SECONDS] =
        HISTOGRAM("flowrun_store_commit_seconds", "Commits of the store.", SHORT_TIMES),
    [STORE_BYTES] = GAUGE("flowrun_store_bytes", "Size of the store's files."),
    [STALL_SECONDS] =
        HISTOGRAM("flowrun_loop_stall_seconds", "Turns of the loop of more than 100 ms.",
                  .buckets = {.1, .25, .5, 1, 2.5, 5, 10, 30}),
    [REQUESTS_TOTAL] = COUNTER("flowrun_http_requests_total", "Requests that were answered.",
                               .labels = {"route", "code"}, .most = ROUTES),
    [REQUEST_SECONDS] = HISTOGRAM("flowrun_http_request_seconds",
                                  "Time of the loop that answers took.", SHORT_TIMES),
    [STREAMS] = GAUGE("flowrun_streams", "Streams of events that are open."),
    [STREAM_RESETS] =
        COUNTER("flowrun_stream_resets_total", "Readers of streams that were too far behind."),
    [DELIVERIES_TOTAL] = COUNTER("flowrun_deliveries_total",
                                 "Tries to send messages; dead: it is not tried any more.",
                                 .labels = {"kind", "result"}),
    [DELIVERIES_WAITING] =
        GAUGE("flowrun_deliveries_waiting", "Messages that are to be sent.", .labels = {"kind"}),
    [MEMORY] = GAUGE("process_resident_memory_bytes", "Resident memory size in bytes."),
    [CPU] = COUNTER("process_cpu_seconds_total", "User and system CPU time spent in seconds."),
    [OPEN_FDS] = GAUGE("process_open_fds", "Number of open file descriptors."),
    [MAX_FDS] = GAUGE("process_max_fds", "Maximum number of open file descriptors."),
};

struct host_meters *meters_create(const char *home)
{
    struct host_meters *m = fr_sys.alloc(sizeof(*m));
    struct fr_buf dir = {0};

    if (m == NULL)
        return NULL;
    fr_buf_fmt(&dir, "%s/machines", home);
    *m = (struct host_meters){.prom = fr_prom_create(families, FAMILIES),
                              .machines = dir.bad ? NULL : fr_machines_create(dir.p),
                              .start_wall = fr_sys.wall_ms()};
    fr_buf_finish(&dir);
    if (m->prom != NULL && m->machines != NULL)
        return m;
    meters_destroy(m);
    return NULL;
}

void meters_destroy(struct host_meters *m)
{
    if (m != NULL) {
        fr_prom_destroy(m->prom);
        fr_machines_destroy(m->machines);
    }
    fr_sys.free(m);
}

struct fr_machines *meters_machines(const struct host_meters *m)
{
    return m->machines;
}

void meters_stay(struct host_meters *m, struct fr_store *st)
{
    struct fr_arena arena = {0};
    struct fr_success_rows all = {0};

    if (fr_store_successes(st, PIPELINES, &arena, &all, NULL) == FR_OK)
        for (size_t i = 0; i < all.n; i++)
            if (all.rows[i].ended_wall > 0)
                fr_prom_set(m->prom, AT(LAST_SUCCESS, all.rows[i].name),
                            (double)all.rows[i].ended_wall / 1000);
    fr_arena_finish(&arena);
}

/* ---- what happens ---- */

static void count(struct host_counts *c, const struct fr_plan *plan, uint32_t inst, int by)
{
    c->by_state[c->states[inst]] += (uint32_t)by;
    if (fr_state_lives(c->states[inst]))
        c->live[plan->insts[inst].node] += (uint32_t)by;
}

/* Counts the instances as they are; false: no memory, and none are counted. */
static bool count_all(struct host_counts *c, const struct fr_run *run)
{
    const struct fr_plan *plan = fr_run_plan(run);
    uint8_t *states = fr_sys.realloc(c->states, plan->n_insts + 1);

    if (states == NULL)
        return false;
    c->states = states;
    c->n = plan->n_insts;
    memset(c->by_state, 0, sizeof(c->by_state));
    memset(c->live, 0, plan->n_nodes * sizeof(*c->live));
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        c->states[i] = (uint8_t)fr_run_row(run, i).state;
        count(c, plan, i, 1);
    }
    return true;
}

void meters_forget(struct host_counts *c)
{
    if (c != NULL) {
        fr_sys.free(c->live);
        fr_sys.free(c->states);
    }
    fr_sys.free(c);
}

uint32_t meters_live(const struct host_counts *counts, uint32_t node)
{
    return counts->live[node];
}

struct host_counts *meters_counts(struct host_counts **counts, const struct fr_run *run)
{
    const struct fr_plan *plan = run != NULL ? fr_run_plan(run) : NULL;
    struct host_counts *c = *counts;

    if (c != NULL || plan == NULL || (c = fr_sys.alloc(sizeof(*c))) == NULL)
        return c;
    *c = (struct host_counts){.live = fr_sys.alloc((plan->n_nodes + 1) * sizeof(*c->live))};
    if (c->live == NULL || !count_all(c, run)) {
        meters_forget(c);
        return NULL;
    }
    return *counts = c;
}

static void note_state(struct fr_prom *prom, struct host_counts *c, const struct fr_run *run,
                       const struct fr_note *note)
{
    const struct fr_plan *plan = fr_run_plan(run);
    const struct fr_row *row = &note->row;
    uint8_t before = c->states[note->inst];
    const char *name = fr_run_record(run)->name;
    const char *cause = fr_cause_name(row->cause);

    count(c, plan, note->inst, -1);
    c->states[note->inst] = (uint8_t)row->state;
    count(c, plan, note->inst, 1);
    if (row->state == before || row->attempt_no == 0)
        return;
    if (row->state == FR_ST_RETRYING)
        fr_prom_add(prom, AT(RETRIES_TOTAL, name, cause), 1);
    if (row->state == FR_ST_RETRYING || (fr_state_ended(row->state) && fr_state_lives(before)))
        fr_prom_add(prom, AT(ATTEMPTS_TOTAL, name, fr_state_name(row->attempt_state), cause), 1);
}

static void note_run(struct fr_prom *prom, struct host_counts *c, const struct fr_run *run,
                     const struct fr_note *note)
{
    const struct fr_run_row *row = fr_run_record(run);
    const char *outcome = fr_outcome_name(note->now.outcome);

    if (note->now.state == FR_RUN_RUNNING && !c->started && row->queued_wall > 0)
        fr_prom_observe(prom, AT(QUEUE_SECONDS, row->name),
                        (double)(note->wall_ms - row->queued_wall) / 1000);
    c->started = c->started || note->now.state == FR_RUN_RUNNING;
    if (note->now.state != FR_RUN_OVER)
        return;
    fr_prom_add(prom, AT(RUNS_TOTAL, row->name, outcome, fr_origin_name(row->origin)), 1);
    if (row->started_wall > 0)
        fr_prom_observe(prom, AT(RUN_SECONDS, row->name, outcome),
                        (double)(note->wall_ms - row->started_wall) / 1000);
    if (note->now.outcome == FR_OUT_SUCCEEDED)
        fr_prom_set(prom, AT(LAST_SUCCESS, row->name), (double)note->wall_ms / 1000);
}

void meters_note(struct host_meters *m, struct host_counts **counts, const struct fr_run *run,
                 const struct fr_note *note)
{
    struct host_counts *c = meters_counts(counts, run);

    if (c == NULL)
        return;
    if (note->kind == FR_NOTE_PLAN)
        (void)count_all(c, run);
    else if (note->kind == FR_NOTE_STATE && note->inst < c->n)
        note_state(m->prom, c, run, note);
    else if (note->kind == FR_NOTE_RUN)
        note_run(m->prom, c, run, note);
}

void meters_commit(struct host_meters *m, int64_t ms)
{
    fr_prom_observe(m->prom, AT(COMMIT_SECONDS), (double)ms / 1000);
}

void meters_stall(struct host_meters *m, int64_t ms)
{
    if (ms > FR_LOOP_SLOW_MS)
        fr_prom_observe(m->prom, AT(STALL_SECONDS), (double)ms / 1000);
}

void meters_occurrence(struct host_meters *m, enum fr_fate decision, int64_t late_ms)
{
    fr_prom_add(m->prom, AT(FIRES_TOTAL, fr_fate_name(decision)), 1);
    if (decision == FR_FATE_RAN)
        fr_prom_observe(m->prom, AT(FIRE_LAG), (double)late_ms / 1000);
}

void meters_answer(struct host_meters *m, const char *route, int status, int64_t ms)
{
    char code[16];

    if (status < 100)
        return;
    snprintf(code, sizeof(code), "%dxx", status / 100);
    fr_prom_add(m->prom, AT(REQUESTS_TOTAL, route != NULL ? route : "none", code), 1);
    fr_prom_observe(m->prom, AT(REQUEST_SECONDS), (double)ms / 1000);
}

void meters_reset(struct host_meters *m)
{
    fr_prom_add(m->prom, AT(STREAM_RESETS), 1);
}

void meters_delivery(struct host_meters *m, const char *kind, const char *result)
{
    fr_prom_add(m->prom, AT(DELIVERIES_TOTAL, kind, result), 1);
}
