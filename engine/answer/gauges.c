/* The gauges of GET /metrics, read from the runs and schedules in memory at each request. */
#include "engine/answer/call.h"
#include "engine/curve/curve.h"
#include "engine/deliver/outbox.h"
#include "engine/metrics/family.h"
#include "engine/metrics/machines.h"
#include "engine/run/metrics.h"
#include "engine/store/home.h"
#include "engine/store/lead.h"
#include "engine/stream/stream.h"
#include "engine/timetable/schedules.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void look_at_runs(struct fr_host *host, struct fr_prom *prom)
{
    for (int s = FR_RUN_RUNNING; s <= FR_RUN_QUEUED; s++)
        if (s != FR_RUN_OVER)
            fr_prom_set(prom, AT(RUNS, fr_run_state_name((enum fr_run_state)s)), 0);
    for (int s = 0; s < FR_ST_N; s++)
        fr_prom_set(prom, AT(INSTANCES, fr_state_name((enum fr_state_of)s)), 0);
    for (size_t i = 0; i < host->n; i++) {
        const struct host_counts *c = meters_counts(&host->runs[i]->counts, host->runs[i]->run);
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
    const struct fr_limits *limits = &host->config.limits;

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
    if (fr_id_zero(home) || (m = fr_machines_find(host->meters->machines, home)) == NULL)
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
                continue; /* the run has sent nothing there yet */
            fr_prom_set(prom, AT(NODE_UP, name), up);
            look_at_disk(host, h, n);
            fr_prom_set(prom, AT(NODE_AWAY, name), up ? 0 : (double)(now - down) / 1000);
            fr_prom_add(prom, AT(NODE_ATTEMPTS, name), h->counts != NULL ? h->counts->live[n] : 0);
        }
    }
}

static void look_at_schedules(struct fr_host *host, struct fr_prom *prom)
{
    const struct host_schedules *all = schedules_of(host);

    fr_prom_clear(prom, SCHEDULE_NEXT);
    fr_prom_clear(prom, SCHEDULE_PAUSED);
    for (size_t i = 0; i < all->n; i++) {
        const struct host_schedule *s = all->list[i];

        if (s->s == NULL)
            continue;
        fr_prom_set(prom, AT(SCHEDULE_PAUSED, s->row.pipeline, s->row.name),
                    s->row.state == FR_SCHEDULE_PAUSED);
        if (s->due_wall != INT64_MAX)
            fr_prom_set(prom, AT(SCHEDULE_NEXT, s->row.pipeline, s->row.name),
                        (double)s->due_wall / 1000);
    }
    if (all->served) {
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

/* The newest live run with rows of each pipeline. */
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

void gauges_text(struct fr_host *host, struct fr_buf *out)
{
    const char *home = fr_store_home(host->env.store);
    struct fr_prom *prom = host->meters->prom;

    fr_prom_set(prom, AT(BUILD_INFO, FLOWRUN_VERSION), 1);
    fr_prom_set(prom, AT(START_TIME), (double)host->meters->start_wall / 1000);
    fr_prom_set(prom, AT(LEADER), fr_store_leads(host->env.store));
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
