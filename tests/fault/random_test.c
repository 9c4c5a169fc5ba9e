/*
 * Random pipelines under random faults, on simulated machines: kills, processes that are stopped
 * (SIGSTOP) for a while, links that are cut, frozen, lossy, late or slow, reboots, empty and full
 * disks, clocks that step, a laptop that sleeps for twelve hours, and a user who cancels and
 * retries; some tasks run for each element of a list. The rules of world.h hold at every moment;
 * what failed or was cancelled is retried in the end, and then every task has succeeded with the
 * outputs that it must have, and the one for failures was skipped. A case that fails is made as
 * small as it can be and shown.
 *
 *     random_test [SEED [COUNT]]     one seed alone tells its story
 */
#include "tests/fault/shrink.h"
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 250, TASKS_MAX = 10, FAULTS_MAX = 12, RETRIES = 20 };

static const int64_t STOPPED_US = 12000000, STOPPED_MAX_US = 150000000;

/* Not as it must be once all is well. */
#define UNWELL "state <> CASE task WHEN 'rescue' THEN 'skipped' ELSE 'succeeded' END"

enum mode { PLAIN, ONCE, SLOW, WILD, OUT, MODES };

struct task {
    bool there;
    int node; /* 1 … 3; 0: all */
    bool gang, side, lease;
    bool each; /* of a list that an earlier task gives, if one does */
    enum mode mode;
    int ms;
    unsigned needs; /* bits of earlier tasks */
    const char *run_if;
};

enum kind {
    KILL_FLOWRUN,
    REBOOT_CONTROL,
    KILL_SERVE,
    KILL_SUPERVISOR,
    KILL_COMMAND,
    KILL_SSHD,
    CUT_SHORT,  /* 1 s */
    CUT,        /* 20 s */
    CUT_LONG,   /* 3 h */
    CUT_CLOSED, /* and connections end */
    BAD_LINK,   /* loss, delay, little rate */
    REBOOT,
    EMPTY_DISK,
    KILL_ALL,
    FULL_DISK,
    CLOCK,
    SLEEP,
    CANCEL,
    STOP_FLOWRUN,
    STOP_SERVE,
    STOP_SUPERVISOR,
    STOP_COMMAND,
    STOP_FLOWNODES, /* all of a machine, which go on one by one */
    KINDS
};

static const char *const kind_names[KINDS] = {
    "kill flowrun",      "reboot control", "kill serve",        "kill a supervisor",
    "kill a command",    "kill sshd",      "cut for 1 s",       "cut for 20 s",
    "cut for 3 h",       "close and cut",  "a bad link",        "reboot",
    "empty disk",        "kill all",       "full disk",         "step a clock",
    "sleep for 12 h",    "cancel",         "stop flowrun",      "stop serve",
    "stop a supervisor", "stop a command", "stop all flownodes"};

struct fault {
    bool there;
    enum kind kind;
    uint64_t step;
    int machine; /* 0 … 3 */
    uint64_t more;
};

struct scenario {
    uint64_t seed; /* of the world */
    struct task tasks[TASKS_MAX];
    struct fault faults[FAULTS_MAX];
    int parallel;
    bool rescue; /* a task for failures of all others */
    size_t runs; /* of the pipeline, at once */
    /* of one run of it */
    int next, retries;
    bool retried;
};

/* ---- making one ---- */

static int below(uint64_t *s, int n)
{
    return (int)(sim_draw(s) % (uint64_t)n);
}

static void make_task(struct scenario *c, int i, uint64_t *s)
{
    struct task *t = &c->tasks[i];

    *t = (struct task){.there = true, .node = below(s, 4), .ms = 20 + below(s, 600)};
    t->gang = t->node == 0 && below(s, 2) == 0;
    t->mode = (enum mode)below(s, MODES);
    t->side = below(s, 8) == 0;
    t->lease = below(s, 6) == 0;
    if (below(s, 12) == 0)
        t->ms = 5000 + below(s, 60000);
    if (t->mode == OUT && t->node == 0)
        t->mode = PLAIN;
    t->each = t->mode != OUT && below(s, 3) == 0;
    for (int k = 0; k < i; k++)
        if (below(s, 3) == 0)
            t->needs |= 1u << k;
    t->run_if = (const char *[]){NULL, NULL, "success", "any", "always"}[below(s, 5)];
}

/* The rare kinds are slow to simulate. */
static enum kind make_kind(uint64_t *s)
{
    enum kind k = (enum kind)below(s, KINDS);

    if ((k == CUT_LONG || k == SLEEP || k == CANCEL) && below(s, 3) != 0)
        k = KILL_FLOWRUN;
    return k;
}

static void make_scenario(struct scenario *c, uint64_t seed)
{
    uint64_t s = seed * 0x9e3779b97f4a7c15u, at = 0;
    int tasks = 2 + below(&s, TASKS_MAX - 1), faults = below(&s, FAULTS_MAX + 1);

    memset(c, 0, sizeof(*c));
    c->seed = seed;
    c->parallel = 1 + below(&s, 12);
    for (int i = 0; i < tasks; i++)
        make_task(c, i, &s);
    for (int i = 0; i < faults; i++) {
        at += 20 + sim_draw(&s) % 900;
        c->faults[i] = (struct fault){true, make_kind(&s), at, below(&s, 4), sim_draw(&s)};
    }
    c->runs = below(&s, 3) == 0 ? 2 + (size_t)below(&s, 2) : 1;
    c->rescue = below(&s, 2) == 0;
}

static int in_of(const struct scenario *c, int i)
{
    for (int k = 0; k < i; k++)
        if (c->tasks[k].there && (c->tasks[i].needs >> k & 1) && c->tasks[k].mode == OUT)
            return k;
    return -1;
}

static void put_task(const struct scenario *c, int i, struct fr_buf *b)
{
    static const char *const modes[MODES] = {"", ", once", ", once", ", wild", ", out"};
    const struct task *t = &c->tasks[i];
    int in = in_of(c, i), n = 0;

    fr_buf_fmt(b, "  t%d: {on: ", i);
    fr_buf_fmt(b, t->node == 0 ? "all" : "n%d", t->node);
    fr_buf_fmt(b, "%s, argv: [sim, \"%d\", \"%d\"%s]", t->gang ? ", gang: true" : "",
               t->mode == SLOW ? 90000 : t->ms, t->mode == ONCE ? 3 : 0, modes[t->mode]);
    for (int k = 0; k < i; k++)
        if (c->tasks[k].there && (t->needs >> k & 1))
            fr_buf_fmt(b, "%s t%d", n++ == 0 ? ", needs: [" : ",", k);
    fr_buf_text(b, n > 0 ? "]" : "");
    if (n > 0 && t->run_if != NULL)
        fr_buf_fmt(b, ", run_if: %s", t->run_if);
    if (t->mode == SLOW)
        fr_buf_text(b, ", timeout: 70s");
    if (t->lease)
        fr_buf_text(b, ", lost_after: 30s");
    if (t->side)
        fr_buf_text(b, ", sidecars: [{argv: [sim, \"0\", \"0\", side]}]");
    if (t->mode == OUT)
        fr_buf_text(b, ", outputs: [v]");
    if (in >= 0 && t->each)
        fr_buf_fmt(b, ", foreach: '[\"${{ tasks.t%d.outputs.v }}\", 1, {\"k\": 2}]'", in);
    if (in >= 0)
        fr_buf_fmt(b, ", env: {IN: \"${{ tasks.t%d.outputs.v }}\"}", in);
    fr_buf_text(b, "}\n");
}

static void put_pipeline(const struct scenario *c, struct fr_buf *b)
{
    struct fr_buf needs = {0};

    fr_buf_fmt(b,
               "name: random\nmax_parallel: %d\nnodes:\n"
               "  - {name: n1, executor: local}\n  - {name: n2, executor: local}\n"
               "  - {name: n3, executor: local}\n"
               "defaults: {timeout: 1h, retry: {times: 60, delay: 300ms, on: [" WORLD_FAULTS
               ", exit]}}\ntasks:\n",
               c->parallel);
    for (int i = 0; i < TASKS_MAX; i++)
        if (c->tasks[i].there) {
            put_task(c, i, b);
            fr_buf_fmt(&needs, "%st%d", needs.n > 0 ? ", " : "", i);
        }
    if (c->rescue && needs.n > 0)
        fr_buf_fmt(b,
                   "  rescue: {on: n1, needs: [%s], run_if: failure, argv: [sim, \"50\", \"0\"]}\n",
                   needs.p);
    fr_buf_finish(&needs);
}

/* ---- faults ---- */

static void kill_named(struct world *w, const struct fault *f, const char *comm)
{
    struct sim_machine *m = &w->sim.machines[1 + f->machine % 3];
    struct sim_proc *p = world_pick(w, m, comm, f->more);

    if (p != NULL)
        world_kill(w, p, "");
}

/* For some time, mostly short: a link, a lease, or the patience with a node may outlast it or not.
 */
static void stop(struct world *w, struct sim_proc *p, const struct fault *f)
{
    int64_t most = f->more % 4 == 0 ? STOPPED_MAX_US : STOPPED_US;
    int64_t until = sim->now_us + sim_between(sim, 10000, most);

    if (p == NULL || p->state == SIM_ZOMBIE || p->held_us >= until)
        return;
    world_tell(w, "%s %d stands still for %.1f s", p->comm, (int)p->pid,
               (double)(until - sim->now_us) / 1e6);
    p->held_us = until;
}

static void stop_named(struct world *w, const struct fault *f, const char *comm)
{
    stop(w, world_pick(w, &w->sim.machines[1 + f->machine % 3], comm, f->more / 4), f);
}

static void stop_flownodes(struct world *w, const struct fault *f)
{
    struct sim_proc *p = w->sim.machines[1 + f->machine % 3].procs;

    for (; p != NULL; p = p->next)
        if (strcmp(p->comm, "serve") == 0 || strcmp(p->comm, "flownode") == 0)
            stop(w, p, f);
}

static void cut(struct sim_machine *m, int64_t seconds)
{
    int64_t until = sim->now_us + seconds * 1000000;

    m->heal_us = m->cut && m->heal_us > until ? m->heal_us : until;
    m->cut = true;
}

static void power_off(struct sim_machine *m, uint64_t more, bool wipe)
{
    m->up = false;
    m->up_us = sim->now_us + 500000 + (int64_t)(more % 20000000);
    sim_crash(m, true);
    if (wipe)
        sim_wipe(m);
}

static void spoil(struct sim_machine *m, uint64_t more)
{
    m->rate_us = sim->now_us + 60000000;
    m->late_us = more % 3 == 0 ? 1500000 : 200000; /* a lost packet comes again, later */
    m->us_a_kb = more % 3 == 1 ? 8192 : 0;         /* 1 Mbit/s */
}

static void strike_machine(struct world *w, const struct fault *f)
{
    struct sim_machine *any = &w->sim.machines[f->machine],
                       *m = &w->sim.machines[1 + f->machine % 3];

    switch (f->kind) {
    case KILL_SSHD:
    case CUT_CLOSED:
        sim_links_drop(m);
        if (f->kind == CUT_CLOSED)
            cut(m, 10);
        break;
    case CUT_SHORT:
        cut(m, 1);
        break;
    case CUT:
        cut(m, 20);
        break;
    case CUT_LONG:
        cut(m, 3 * 3600);
        break;
    case BAD_LINK:
        spoil(m, f->more);
        break;
    case REBOOT:
    case EMPTY_DISK:
        power_off(m, f->more, f->kind == EMPTY_DISK);
        break;
    case KILL_ALL:
        sim_crash(m, false);
        break;
    case FULL_DISK:
        any->full = any->was_full = true;
        any->room_us = w->sim.now_us + 500000 + (int64_t)(f->more % 30000000);
        break;
    case CLOCK:
        any->skew_ms += f->more % 2 == 0 ? 86400000 : -86400000;
        break;
    default:
        sim_suspend(&w->sim.machines[0], 12LL * 3600 * 1000000);
    }
}

/* Inside of a transaction the real SQLite would wait for it. */
static bool is_due(const struct world *w, const struct fault *f)
{
    return w->sim.steps >= f->step &&
           (f->kind != STOP_FLOWRUN || w->engine == NULL || !world_writes(w->engine));
}

static void strike(struct world *w, const struct fault *f)
{
    world_tell(w, "fault: %s (%d)", kind_names[f->kind], f->machine);
    switch (f->kind) {
    case KILL_FLOWRUN:
    case REBOOT_CONTROL:
        if (w->engine != NULL)
            world_kill_engine(w, f->kind == REBOOT_CONTROL);
        break;
    case KILL_SERVE:
        kill_named(w, f, "serve");
        break;
    case KILL_SUPERVISOR:
        kill_named(w, f, "flownode");
        break;
    case KILL_COMMAND:
        kill_named(w, f, "sim");
        break;
    case CANCEL:
        world_request(w, "cancel", "");
        break;
    case STOP_FLOWRUN:
        stop(w, w->engine, f);
        break;
    case STOP_SERVE:
        stop_named(w, f, "serve");
        break;
    case STOP_SUPERVISOR:
        stop_named(w, f, "flownode");
        break;
    case STOP_COMMAND:
        stop_named(w, f, "sim");
        break;
    case STOP_FLOWNODES:
        stop_flownodes(w, f);
        break;
    default:
        strike_machine(w, f);
    }
}

static const struct fault *next_fault(struct scenario *c)
{
    while (c->next < FAULTS_MAX && !c->faults[c->next].there)
        c->next++;
    return c->next < FAULTS_MAX ? &c->faults[c->next] : NULL;
}

/* A run may be cancelled too late to matter. */
static bool unwell(struct world *w)
{
    struct fr_buf b = {0};
    bool yes;

    world_rows(w, "SELECT 1 FROM instance WHERE " UNWELL, &b);
    yes = b.n > 0;
    fr_buf_finish(&b);
    return yes;
}

/* What is not well is retried, once no fault is to come. */
static void look(struct world *w)
{
    struct scenario *c = w->test;
    const struct fault *f = next_fault(c);

    w->sim.fault_step = f != NULL ? f->step : UINT64_MAX;
    if (f != NULL && is_due(w, f)) {
        c->next++;
        if (!w->over)
            strike(w, f);
    }
    if (w->over && w->engine == NULL && w->restart_us == INT64_MAX && c->retries < RETRIES &&
        w->outcome != FR_OUT_SUCCEEDED && w->outcome != FR_OUT_NONE && unwell(w)) {
        c->retries++;
        w->retry = true;
        w->restart_us = w->sim.now_us + 1200000000;
    }
}

/* ---- the verdict ---- */

static void expect(const struct scenario *c, int i, struct fr_buf *b)
{
    int in = in_of(c, i);

    fr_buf_fmt(b, "t%d.n%d.", i, c->tasks[i].node);
    if (in >= 0)
        expect(c, in, b);
}

static void check_outputs(struct world *w, const struct scenario *c)
{
    struct fr_buf got = {0}, want = {0};

    world_rows(w, "SELECT o.value FROM output o ORDER BY o.run, o.idx", &got);
    for (int i = 0; i < TASKS_MAX * (int)c->runs; i++)
        if (c->tasks[i % TASKS_MAX].there && c->tasks[i % TASKS_MAX].mode == OUT) {
            expect(c, i % TASKS_MAX, &want);
            fr_buf_text(&want, "\n");
        }
    if (got.n != want.n || (got.n > 0 && memcmp(got.p, want.p, got.n) != 0))
        world_violated(w, "outputs are %.200s and not %.200s", got.n > 0 ? got.p : "none",
                       want.n > 0 ? want.p : "none");
    fr_buf_finish(&got);
    fr_buf_finish(&want);
}

static bool run_scenario(struct world *w, void *arg)
{
    struct scenario *c = arg;
    struct fr_buf yaml = {0}, bad = {0};

    c->next = c->retries = 0;
    w->test = c;
    w->look = look;
    w->runs = c->runs;
    put_pipeline(c, &yaml);
    world_run(w, yaml.p, c->seed, NULL);
    if (!w->failed) {
        world_rows(w, "SELECT key, state, cause FROM instance WHERE " UNWELL, &bad);
        if (bad.n > 0)
            world_violated(w, "after all retries: %.300s", bad.p);
    }
    if (!w->failed)
        check_outputs(w, c);
    fr_buf_finish(&bad);
    fr_buf_finish(&yaml);
    return !w->failed;
}

/* ---- making it small ---- */

static bool *part(void *arg, int i)
{
    struct scenario *c = arg;

    return i < TASKS_MAX ? &c->tasks[i].there : &c->faults[i - TASKS_MAX].there;
}

static const struct shrink smaller = {run_scenario, part, TASKS_MAX + FAULTS_MAX};

static void show(struct world *w, struct scenario *c)
{
    struct fr_buf yaml = {0};

    run_scenario(w, c);
    put_pipeline(c, &yaml);
    printf("seed %llu, %zu runs: %s\n%s", (unsigned long long)c->seed, c->runs, w->why, yaml.p);
    for (int i = 0; i < FAULTS_MAX; i++)
        if (c->faults[i].there)
            printf("fault at step %llu: %s (%d)\n", (unsigned long long)c->faults[i].step,
                   kind_names[c->faults[i].kind], c->faults[i].machine);
    printf("%s", w->story.p != NULL ? w->story.p : "");
    fr_buf_finish(&yaml);
    world_finish(w);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : SEEDS;
    struct world *w = calloc(1, sizeof(*w));
    struct scenario c;
    size_t attempts = 0;

    world_setup();
    w->quiet = w->settled = true;
    for (uint64_t i = 0; i < count; i++) {
        char row[32];
        snprintf(row, sizeof(row), "seed %llu", (unsigned long long)(first + i));
        check_row(row);
        make_scenario(&c, first + i);
        bool ok = run_scenario(w, &c);
        attempts += w->n_records;
        world_finish(w);
        if (!CHECK(ok))
            shrink(&smaller, w, &c);
        if (!ok || argc == 2)
            show(w, &c);
        if (check_counts.failed >= 5)
            break;
    }
    world_clean();
    printf("seeds %llu to %llu, %zu attempts\n", (unsigned long long)first,
           (unsigned long long)(first + count - 1), attempts);
    free(w);
    return check_done();
}
