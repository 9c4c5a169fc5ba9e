#include "engine/host/meters.h"

#include "engine/curve/curve.h"
#include "engine/host/outbox.h"
#include "engine/host/prom.h"
#include "engine/host/schedules.h"
#include "engine/run/metrics.h"
#include "engine/store/home.h"
#include "engine/store/lists.h"
#include "engine/store/lead.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PIPELINES = 500, NODES = 1000, ROUTES = 200 };

enum {
    BUILD_INFO,
    START_TIME,
    LEADER,
    RUNS,
    RUNS_TOTAL,
    RUN_SECONDS,
    QUEUE_SECONDS,
    LAST_SUCCESS,
    ATTEMPTS_TOTAL,
    RETRIES_TOTAL,
    INSTANCES,
    QUEUE_LENGTH,
    POOL_USED,
    POOL_LIMIT,
    SCHEDULE_NEXT,
    SCHEDULE_PAUSED,
    FIRES_TOTAL,
    FIRE_LAG,
    CLOCK_STEPS,
    NODE_UP,
    NODE_AWAY,
    NODE_ATTEMPTS,
    NODE_DISK,
    TRAIN_STEP,
    TRAIN_LOSS,
    TRAIN_RATE,
    TRAIN_MOVED,
    COMMIT_SECONDS,
    STORE_BYTES,
    STALL_SECONDS,
    REQUESTS_TOTAL,
    REQUEST_SECONDS,
    STREAMS,
    STREAM_RESETS,
    DELIVERIES_TOTAL,
    DELIVERIES_WAITING,
    MEMORY,
    CPU,
    OPEN_FDS,
    MAX_FDS,
    FAMILIES
};

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

struct host_meters {
    struct fr_prom *prom; /* owns */
    int64_t start_wall;
    uint64_t clock_steps; /* that are counted */
};

struct host_counts {
    uint32_t by_state[FR_ST_N];
    uint32_t *live;  /* owns: one a node */
    uint8_t *states; /* owns: one an instance */
    bool started;    /* its time in the queue is counted */
};

#define AT(family_, ...) ((struct fr_prom_at){.family = (family_), .values = {__VA_ARGS__}})

struct host_meters *meters_create(void)
{
    struct host_meters *m = fr_sys.alloc(sizeof(*m));

    if (m == NULL)
        return NULL;
    *m = (struct host_meters){fr_prom_create(families, FAMILIES), fr_sys.wall_ms(), 0};
    if (m->prom != NULL)
        return m;
    fr_sys.free(m);
    return NULL;
}

void meters_destroy(struct host_meters *m)
{
    if (m != NULL)
        fr_prom_destroy(m->prom);
    fr_sys.free(m);
}

void meters_stay(struct fr_host *host)
{
    struct fr_arena arena = {0};
    struct fr_success_rows all = {0};

    if (host->meters != NULL &&
        fr_store_successes(host->store, PIPELINES, &arena, &all, NULL) == FR_OK)
        for (size_t i = 0; i < all.n; i++)
            if (all.rows[i].ended_wall > 0)
                fr_prom_set(host->meters->prom, AT(LAST_SUCCESS, all.rows[i].name),
                            (double)all.rows[i].ended_wall / 1000);
    fr_arena_finish(&arena);
}

/* ---- what happens ---- */

static bool lives(uint8_t state)
{
    return state == FR_ST_STARTING || state == FR_ST_RUNNING || state == FR_ST_STOPPING;
}

static void count(struct host_counts *c, const struct fr_plan *plan, uint32_t inst, int by)
{
    c->by_state[c->states[inst]] += (uint32_t)by;
    if (lives(c->states[inst]))
        c->live[plan->insts[inst].node] += (uint32_t)by;
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

/* The run's counts, made with the first note. NULL: no memory, or no plan yet. */
static struct host_counts *counts_of(struct host_run *h)
{
    const struct fr_plan *plan = h->run != NULL ? fr_run_plan(h->run) : NULL;
    struct host_counts *c = h->counts;

    if (c != NULL || plan == NULL || (c = fr_sys.alloc(sizeof(*c))) == NULL)
        return c;
    *c = (struct host_counts){.live = fr_sys.alloc((plan->n_nodes + 1) * sizeof(*c->live)),
                              .states = fr_sys.alloc(plan->n_insts + 1)};
    if (c->live == NULL || c->states == NULL) {
        meters_forget(c);
        return NULL;
    }
    memset(c->live, 0, plan->n_nodes * sizeof(*c->live));
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        c->states[i] = (uint8_t)fr_run_row(h->run, i).state;
        count(c, plan, i, 1);
    }
    return h->counts = c;
}

static void note_state(struct host_run *h, const struct fr_note *note)
{
    struct fr_prom *prom = h->host->meters->prom;
    const struct fr_plan *plan = fr_run_plan(h->run);
    const struct fr_row *row = &note->row;
    struct host_counts *c = h->counts;
    uint8_t before = c->states[note->inst];
    const char *name = fr_run_record(h->run)->name;
    const char *cause = row->cause != FR_CAUSE_NONE ? fr_cause_name(row->cause) : "";

    count(c, plan, note->inst, -1);
    c->states[note->inst] = (uint8_t)row->state;
    count(c, plan, note->inst, 1);
    if (row->state == before || row->attempt_no == 0)
        return;
    if (row->state == FR_ST_RETRYING)
        fr_prom_add(prom, AT(RETRIES_TOTAL, name, cause), 1);
    if (row->state == FR_ST_RETRYING || (fr_state_ended(row->state) && lives(before)))
        fr_prom_add(prom, AT(ATTEMPTS_TOTAL, name, fr_state_name(row->attempt_state), cause), 1);
}

static void note_run(struct host_run *h, const struct fr_note *note)
{
    struct fr_prom *prom = h->host->meters->prom;
    const struct fr_run_row *row = fr_run_record(h->run);
    const char *outcome = fr_outcome_name(note->now.outcome);

    if (note->now.state == FR_RUN_RUNNING && !h->counts->started && row->queued_wall > 0)
        fr_prom_observe(prom, AT(QUEUE_SECONDS, row->name),
                        (double)(note->wall_ms - row->queued_wall) / 1000);
    h->counts->started = h->counts->started || note->now.state == FR_RUN_RUNNING;
    if (note->now.state != FR_RUN_OVER)
        return;
    fr_prom_add(prom, AT(RUNS_TOTAL, row->name, outcome, row->origin), 1);
    if (row->started_wall > 0)
        fr_prom_observe(prom, AT(RUN_SECONDS, row->name, outcome),
                        (double)(note->wall_ms - row->started_wall) / 1000);
    if (note->now.outcome == FR_OUT_SUCCEEDED)
        fr_prom_set(prom, AT(LAST_SUCCESS, row->name), (double)note->wall_ms / 1000);
}

void meters_note(struct host_run *h, const struct fr_note *note)
{
    if (h->host->meters == NULL || counts_of(h) == NULL)
        return;
    if (note->kind == FR_NOTE_STATE)
        note_state(h, note);
    else if (note->kind == FR_NOTE_RUN)
        note_run(h, note);
}

void meters_commit(struct fr_host *host, int64_t ms)
{
    if (host->meters != NULL)
        fr_prom_observe(host->meters->prom, AT(COMMIT_SECONDS), (double)ms / 1000);
}

void meters_stall(struct fr_host *host, int64_t ms)
{
    if (host->meters != NULL && ms > FR_LOOP_SLOW_MS)
        fr_prom_observe(host->meters->prom, AT(STALL_SECONDS), (double)ms / 1000);
}

void meters_fire(struct fr_host *host, const char *decision, int64_t late_ms)
{
    if (host->meters == NULL)
        return;
    fr_prom_add(host->meters->prom, AT(FIRES_TOTAL, decision), 1);
    if (strcmp(decision, "ran") == 0)
        fr_prom_observe(host->meters->prom, AT(FIRE_LAG), (double)late_ms / 1000);
}

void meters_answer(struct fr_host *host, const char *route, int status, int64_t ms)
{
    char code[16];

    if (host->meters == NULL || status < 100)
        return;
    snprintf(code, sizeof(code), "%dxx", status / 100);
    fr_prom_add(host->meters->prom, AT(REQUESTS_TOTAL, route != NULL ? route : "none", code), 1);
    fr_prom_observe(host->meters->prom, AT(REQUEST_SECONDS), (double)ms / 1000);
}

void meters_reset(struct fr_host *host)
{
    if (host->meters != NULL)
        fr_prom_add(host->meters->prom, AT(STREAM_RESETS), 1);
}

void meters_delivery(struct fr_host *host, const char *kind, const char *result)
{
    if (host->meters != NULL)
        fr_prom_add(host->meters->prom, AT(DELIVERIES_TOTAL, kind, result), 1);
}

/* ---- what is true now ---- */

static void look_at_runs(struct fr_host *host, struct fr_prom *prom)
{
    for (int s = FR_RUN_RUNNING; s <= FR_RUN_QUEUED; s++)
        if (s != FR_RUN_OVER)
            fr_prom_set(prom, AT(RUNS, fr_run_state_name((enum fr_run_state)s)), 0);
    for (int s = 0; s < FR_ST_N; s++)
        fr_prom_set(prom, AT(INSTANCES, fr_state_name((enum fr_state_of)s)), 0);
    for (size_t i = 0; i < host->n; i++) {
        const struct host_counts *c = counts_of(host->runs[i]);
        struct fr_run_now now = fr_run_now(host->runs[i]->run);

        if (now.state != FR_RUN_OVER)
            fr_prom_add(prom, AT(RUNS, fr_run_state_name(now.state)), 1);
        for (int s = 0; c != NULL && s < FR_ST_N; s++)
            fr_prom_add(prom, AT(INSTANCES, fr_state_name((enum fr_state_of)s)), c->by_state[s]);
    }
}

static bool is_pool(const struct fr_limits *limits, const char *name)
{
    for (size_t i = 0; i < limits->n_pools; i++)
        if (strcmp(limits->pools[i].name, name) == 0)
            return true;
    return false;
}

static void look_at_pools(struct fr_host *host, struct fr_prom *prom)
{
    const struct fr_limits *limits = &host->limits;

    for (size_t f = QUEUE_LENGTH; f <= POOL_LIMIT; f++)
        fr_prom_clear(prom, f);
    fr_prom_set(prom, AT(QUEUE_LENGTH, ""), 0);
    for (size_t i = 0; i < limits->n_pools; i++) {
        const struct fr_pool *pool = &limits->pools[i];

        fr_prom_set(prom, AT(POOL_LIMIT, pool->name), pool->runs);
        fr_prom_set(prom, AT(POOL_USED, pool->name), 0);
        fr_prom_set(prom, AT(QUEUE_LENGTH, pool->name), 0);
    }
    for (size_t k = 0; k < host->n; k++) {
        const struct fr_run *run = host->runs[k]->run;
        const char *pool = fr_run_record(run)->pool;

        if (!is_pool(limits, pool))
            pool = "";
        if (fr_run_queued(run))
            fr_prom_add(prom, AT(QUEUE_LENGTH, pool), 1);
        else if (pool[0] != '\0' && fr_run_now(run).state != FR_RUN_OVER)
            fr_prom_add(prom, AT(POOL_USED, pool), 1);
    }
}

static void look_at_disk(struct fr_host *host, const struct host_run *h, uint32_t node)
{
    const struct fr_machine *m;
    struct fr_id home;

    (void)fr_run_demand(h->run, node, &home);
    if (host->machines_seen == NULL || fr_id_zero(home) ||
        (m = fr_machines_find(host->machines_seen, home)) == NULL)
        return;
    fr_prom_set(host->meters->prom, AT(NODE_DISK, fr_run_plan(h->run)->nodes[node].name),
                (double)m->disk_free);
}

static void look_at_nodes(struct fr_host *host, struct fr_prom *prom)
{
    int64_t now = fr_sys.wall_ms(), down;

    fr_prom_clear(prom, NODE_UP);
    fr_prom_clear(prom, NODE_AWAY);
    fr_prom_clear(prom, NODE_ATTEMPTS);
    fr_prom_clear(prom, NODE_DISK);
    for (size_t i = 0; i < host->n; i++) {
        const struct host_run *h = host->runs[i];
        const struct fr_plan *plan = fr_run_plan(h->run);

        for (uint32_t n = 0; n < plan->n_nodes; n++) {
            const char *name = plan->nodes[n].name;
            bool up = fr_run_node_up(h->run, n, &down);

            if (!up && down == 0)
                continue; /* nothing of the run went there yet */
            fr_prom_set(prom, AT(NODE_UP, name), up);
            look_at_disk(host, h, n);
            fr_prom_set(prom, AT(NODE_AWAY, name), up ? 0 : (double)(now - down) / 1000);
            fr_prom_add(prom, AT(NODE_ATTEMPTS, name), h->counts != NULL ? h->counts->live[n] : 0);
        }
    }
}

static void look_at_schedules(struct fr_host *host, struct fr_prom *prom)
{
    const struct host_schedules *all = host->schedules;

    fr_prom_clear(prom, SCHEDULE_NEXT);
    fr_prom_clear(prom, SCHEDULE_PAUSED);
    for (size_t i = 0; all != NULL && i < all->n; i++) {
        const struct host_schedule *s = all->list[i];

        if (s->s == NULL)
            continue;
        fr_prom_set(prom, AT(SCHEDULE_PAUSED, s->row.pipeline, s->row.name),
                    strcmp(s->row.state, "paused") == 0);
        if (s->due_wall != INT64_MAX)
            fr_prom_set(prom, AT(SCHEDULE_NEXT, s->row.pipeline, s->row.name),
                        (double)s->due_wall / 1000);
    }
    if (all != NULL) {
        fr_prom_add(prom, AT(CLOCK_STEPS), (double)(all->clock_steps - host->meters->clock_steps));
        host->meters->clock_steps = all->clock_steps;
    }
}

struct training {
    struct fr_prom *prom;
    const char *pipeline;
};

static void look_at_head(void *arg, const char *task, const struct fr_curve_head *h,
                         int64_t moved_wall)
{
    const struct training *t = arg;

    fr_prom_set(t->prom, AT(TRAIN_STEP, t->pipeline, task), h->step);
    if (!isnan(h->loss))
        fr_prom_set(t->prom, AT(TRAIN_LOSS, t->pipeline, task),
                    isnan(h->bad_since) ? h->loss : NAN);
    if (!isnan(h->rate))
        fr_prom_set(t->prom, AT(TRAIN_RATE, t->pipeline, task), h->rate);
    fr_prom_set(t->prom, AT(TRAIN_MOVED, t->pipeline, task), (double)moved_wall / 1000);
}

/* Of a pipeline the newest live run that has rows. */
static void look_at_trainings(struct fr_host *host, struct fr_prom *prom)
{
    for (size_t f = TRAIN_STEP; f <= TRAIN_MOVED; f++)
        fr_prom_clear(prom, f);
    for (int64_t before = 0;;) {
        const struct host_run *next = NULL;

        for (size_t i = 0; i < host->n; i++) {
            int64_t no = fr_run_no(host->runs[i]->run);

            if (no > before && (next == NULL || no < fr_run_no(next->run)))
                next = host->runs[i];
        }
        if (next == NULL)
            return;
        struct training t = {prom, fr_run_record(next->run)->name};
        fr_run_each_head(next->run, look_at_head, &t);
        before = fr_run_no(next->run);
    }
}

static double file_bytes(const char *home, const char *name)
{
    struct fr_buf path = {0};
    struct stat st;

    fr_buf_fmt(&path, "%s/%s", home, name);
    double bytes = !path.bad && fr_sys.lstat(path.p, &st) == 0 ? (double)st.st_size : 0;
    fr_buf_finish(&path);
    return bytes;
}

static void look_at_process(struct fr_prom *prom)
{
    char text[64] = "", **names;
    struct timespec cpu;
    struct rlimit most;
    long pages = 0;
    size_t n;
    int fd = fr_sys.open("/proc/self/statm", O_RDONLY, 0);

    if (fd >= 0 && fr_sys.read(fd, text, sizeof(text) - 1) > 0 &&
        sscanf(text, "%*d %ld", &pages) == 1)
        fr_prom_set(prom, AT(MEMORY), (double)pages * (double)sysconf(_SC_PAGESIZE));
    if (fd >= 0)
        fr_sys.close(fd);
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
        fr_prom_set(prom, AT(CPU), (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
    if (fr_sys.list("/proc/self/fd", &names, &n) == 0) {
        fr_prom_set(prom, AT(OPEN_FDS), (double)n - 1);
        fr_sys_names_free(names, n);
    }
    if (getrlimit(RLIMIT_NOFILE, &most) == 0)
        fr_prom_set(prom, AT(MAX_FDS), (double)most.rlim_cur);
}

static void look_at_deliveries(struct fr_host *host, struct fr_prom *prom)
{
    for (int kind = 0; kind < FR_CHANNEL_N; kind++)
        fr_prom_set(prom, AT(DELIVERIES_WAITING, fr_channel_kind_name((enum fr_channel_kind)kind)),
                    (double)outbox_waiting(host, (enum fr_channel_kind)kind));
}

void meters_text(struct fr_host *host, struct fr_buf *out)
{
    const char *home = fr_store_home(host->store);
    struct fr_prom *prom;

    if (host->meters == NULL)
        return;
    prom = host->meters->prom;
    fr_prom_set(prom, AT(BUILD_INFO, FLOWRUN_VERSION), 1);
    fr_prom_set(prom, AT(START_TIME), (double)host->meters->start_wall / 1000);
    fr_prom_set(prom, AT(LEADER), fr_store_leads(host->store));
    look_at_runs(host, prom);
    look_at_pools(host, prom);
    look_at_nodes(host, prom);
    look_at_schedules(host, prom);
    look_at_trainings(host, prom);
    look_at_deliveries(host, prom);
    fr_prom_set(prom, AT(STORE_BYTES),
                file_bytes(home, "state.db") + file_bytes(home, "state.db-wal"));
    fr_prom_set(prom, AT(STREAMS), (double)feed_streams(host));
    look_at_process(prom);
    fr_prom_text(prom, out);
}
