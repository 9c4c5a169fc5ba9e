/*
 * A pipeline of 12 tasks, with a gang over all nodes, is run under random kills (flowrun, serve,
 * supervisors), lost links, reboots, dead nodes and full disks. After any of them the run is
 * resumed; it must end succeeded, and the rules of world.h hold at every moment. At every third
 * seed two to five runs of it share one host and nodes with few slots.
 *
 * `sim_test [SEED [COUNT]]`; a failure names its seed. One seed alone tells its story.
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 150, FAULTS_MAX = 10 };

/* Behind the name and the nodes, whose slots are few when runs share them. */
static const char tasks[] =
    "defaults: {timeout: 1h, retry: {times: 60, delay: 500ms, on: [" WORLD_FAULTS ", exit]}}\n"
    "tasks:\n"
    "  prep: {on: n1, argv: [sim, \"200\", \"0\"]}\n"
    "  fetch: {on: all, needs: [prep], argv: [sim, \"400\", \"0\"]}\n"
    "  build: {on: n2, needs: [prep], files: {data: /data}, argv: [sim, \"300\", \"0\"]}\n"
    "  scan: {on: n3, argv: [sim, \"900\", \"0\"]}\n"
    "  flaky: {on: n2, needs: [prep], argv: [sim, \"100\", \"3\", once]}\n"
    "  slow: {on: n3, needs: [scan], timeout: 2s, argv: [sim, \"9000\", \"0\", once]}\n"
    "  wild: {on: n1, needs: [prep], argv: [sim, \"500\", \"0\", wild]}\n"
    "  train: {on: all, gang: true, needs: [fetch, build], argv: [sim, \"2500\", \"0\"]}\n"
    "  eval: {on: all, needs: [train], argv: [sim, \"300\", \"0\"]}\n"
    "  sum: {on: n3, needs: [eval, slow], argv: [sim, \"100\", \"0\"]}\n"
    "  gather: {on: n1, needs: [train, wild], argv: [sim, \"300\", \"0\"]}\n"
    "  publish: {on: n2, needs: [gather, sum, flaky], argv: [sim, \"200\", \"0\"]}\n";

static void kill_named(struct world *w, const char *comm)
{
    struct sim_machine *m = &w->sim.machines[sim_between(&w->sim, 1, 3)];
    struct sim_proc *p = world_pick(w, m, comm, sim_random(&w->sim));

    if (p != NULL)
        world_kill(w, p, "");
}

static void strike(struct world *w)
{
    struct sim *s = &w->sim;
    struct sim_machine *m = &s->machines[sim_between(s, 1, 3)];
    int64_t kind = sim_between(s, 0, 99);

    if (kind < 25) {
        if (w->engine != NULL)
            world_kill_engine(w, kind < 5);
    } else if (kind < 40) {
        kill_named(w, "serve");
    } else if (kind < 60) {
        kill_named(w, "flownode");
    } else if (kind < 65) {
        kill_named(w, "sim");
    } else if (kind < 80) {
        m->cut = true;
        m->heal_us = s->now_us + sim_between(s, 500000, 30000000);
        world_tell(w, "fault: link of %s cut until %.3f", m->name, (double)m->heal_us / 1e6);
    } else if (kind < 85) {
        m = &s->machines[sim_between(s, 0, 3)];
        m->full = m->was_full = true;
        m->room_us = s->now_us + sim_between(s, 500000, 30000000);
        world_tell(w, "fault: disk of %s full until %.3f", m->name, (double)m->room_us / 1e6);
    } else if (kind < 93) {
        m->up = false;
        m->up_us = s->now_us + sim_between(s, 500000, 20000000);
        sim_crash(m, true);
        world_tell(w, "fault: %s reboots until %.3f", m->name, (double)m->up_us / 1e6);
    } else {
        sim_crash(m, false);
        world_tell(w, "fault: all processes of %s killed", m->name);
    }
}

static void next_fault(struct world *w)
{
    int *left = w->test;

    w->sim.fault_step = UINT64_MAX;
    if ((*left)-- > 0)
        w->sim.fault_step = w->sim.steps + (uint64_t)sim_between(&w->sim, 20, 1200);
}

static void look(struct world *w)
{
    if (w->sim.steps < w->sim.fault_step)
        return;
    if (!w->over)
        strike(w);
    next_fault(w);
}

static void begin(struct world *w)
{
    *(int *)w->test = (int)sim_between(&w->sim, 0, FAULTS_MAX);
    sim_put_file(&w->sim.machines[0], "/data", "what is shipped");
    next_fault(w);
}

static bool run_seed(struct world *w, uint64_t seed, bool verbose)
{
    int slots = seed % 3 == 0 ? 2 : 8;
    char pipeline[4096];
    bool ok;

    snprintf(pipeline, sizeof(pipeline),
             "name: sim\n"
             "nodes:\n"
             "  - {name: n1, executor: local, slots: %d}\n"
             "  - {name: n2, executor: local, slots: %d}\n"
             "  - {name: n3, executor: local, slots: %d}\n%s",
             slots, slots, slots, tasks);
    w->runs = seed % 3 == 0 ? 2 + seed % 4 : 1;
    ok = world_run(w, pipeline, seed, begin);

    if (ok && w->outcome != FR_OUT_SUCCEEDED && w->outcome != FR_OUT_NONE)
        world_violated(w, "the run ended %s", fr_outcome_name(w->outcome));
    for (size_t k = 0; k < w->n_tasks && !w->failed; k++)
        for (int n = 1; n <= 3 && w->tasks[k].count == 3; n++)
            if (world_succeeded(w, w->tasks[k].name, w->sim.machines[n].name) < (int)w->runs)
                world_violated(w, "%s on %s never succeeded", w->tasks[k].name,
                               w->sim.machines[n].name);
    if (verbose)
        printf("seed %llu, %llu steps, %.3f s:\n%s", (unsigned long long)seed,
               (unsigned long long)w->sim.steps, (double)w->sim.now_us / 1e6,
               w->story.p != NULL ? w->story.p : "");
    ok = !w->failed;
    world_finish(w);
    return ok;
}

/*
 * A lease of 120 s, renewed every 40 s. serve is killed behind the first renewal and the link is
 * cut; between coming back at 60 s and the next turn, at 80 s, it is cut again, beyond the 160 s
 * that the first renewal gave. Only one that came with the connection keeps the task alive.
 */
static const char leased[] = "name: leased\n"
                             "nodes: [{name: n1, executor: local}]\n"
                             "tasks:\n"
                             "  long: {lost_after: 120s, argv: [sim, \"300000\", \"0\"]}\n";

static const struct {
    int64_t at_s, until_s;
} cuts[] = {{41, 60}, {78, 165}};

enum { CUTS = sizeof(cuts) / sizeof(cuts[0]) };

static void look_leased(struct world *w)
{
    size_t *next = w->test;
    struct sim_machine *m = &w->sim.machines[1];

    if (*next < CUTS && w->sim.now_us >= cuts[*next].at_s * 1000000) {
        m->cut = true;
        m->heal_us = cuts[*next].until_s * 1000000;
        if (++*next == 1)
            world_kill(w, world_pick(w, m, "serve", 0), "");
    }
    w->look_us = *next < CUTS ? cuts[*next].at_s * 1000000 : INT64_MAX;
}

static void test_lease(struct world *w)
{
    size_t next = 0;

    check_row("lease");
    w->look = look_leased;
    w->test = &next;
    CHECK(world_run(w, leased, 1, NULL));
    CHECK_INT(w->outcome, FR_OUT_SUCCEEDED);
    CHECK_INT(w->n_records, 1);
    CHECK_INT(next, CUTS);
    world_finish(w);
}

/*
 * No commit succeeds from 2 s to 600 s, while tasks end and others are to start. The same rows are
 * tried again each second: flowrun's memory does not grow with the tries, and what was committed in
 * the end is what happened, once.
 */
static const char refused[] = "name: refused\n"
                              "nodes: [{name: n1, executor: local}]\n"
                              "defaults: {retry: {times: 1, delay: 1s}}\n"
                              "tasks:\n"
                              "  a: {argv: [sim, \"2000\", \"3\", once]}\n"
                              "  b: {argv: [sim, \"2000\", \"0\", out], outputs: [v]}\n"
                              "  c: {needs: [a, b], argv: [sim, \"200\", \"0\"]}\n";

struct refusal {
    size_t bytes[2]; /* of flowrun, early in the refusal and late */
    int looks;
};

static size_t held_bytes(const struct sim_proc *p)
{
    size_t n = 0;

    for (const struct sim_block *b = p->blocks; b != NULL; b = b->next)
        n += b->n;
    return n;
}

static void look_refused(struct world *w)
{
    static const int64_t at_us[] = {10000000, 590000000, INT64_MAX};
    struct refusal *r = w->test;

    w->refuse_us = w->sim.now_us >= 2000000 ? 600000000 : 0;
    if (r->looks < 2 && w->sim.now_us >= at_us[r->looks])
        r->bytes[r->looks++] = held_bytes(w->engine);
    w->look_us = w->sim.now_us < 2000000 ? 2000000 : at_us[r->looks];
}

static void test_refused(struct world *w)
{
    struct refusal r = {0};
    struct fr_buf rows = {0};

    check_row("refused commits");
    w->look = look_refused;
    w->test = &r;
    CHECK(world_run(w, refused, 1, NULL));
    CHECK_INT(w->outcome, FR_OUT_SUCCEEDED);
    CHECK_INT(w->n_records, 4);
    CHECK_INT(r.looks, 2);
    CHECK_INT(r.bytes[1], r.bytes[0]);
    world_rows(w, "SELECT idx, no, state, cause, code FROM attempt ORDER BY idx, no", &rows);
    CHECK_TEXT(rows.p, "0|1|failed|exit|3\n0|2|succeeded|exit|0\n1|1|succeeded|exit|0\n"
                       "2|1|succeeded|exit|0\n");
    rows.n = 0;
    world_rows(w,
               "SELECT e.idx, e.kind FROM event e WHERE idx = 0 OR kind = 'succeeded' "
               "ORDER BY idx, seq",
               &rows);
    CHECK_TEXT(rows.p,
               "-1|succeeded\n0|ready\n0|starting\n0|running\n0|retrying\n0|ready\n0|starting\n"
               "0|running\n0|succeeded\n1|succeeded\n2|succeeded\n");
    rows.n = 0;
    world_rows(w, "SELECT (ended_wall - started_wall) / 1000 FROM attempt WHERE idx = 0 AND no = 1",
               &rows);
    CHECK_TEXT(rows.p, "2\n");
    rows.n = 0;
    world_rows(w, "SELECT idx, key, value FROM output", &rows);
    CHECK_TEXT(rows.p, "1|v|b.n1.\n");
    fr_buf_finish(&rows);
    world_finish(w);
}

/*
 * The disk of n1 is full until 30 s while a file is shipped to it: each attempt ends as
 * start_failed, and retry.on says whether another follows. n2 takes the same file at once.
 */
static const char full_disk[] =
    "name: full\n"
    "nodes: [{name: n1, executor: local}, {name: n2, executor: local}]\n"
    "tasks:\n"
    "  again: {on: all, files: {data: /data}, retry: {times: 9, delay: 7s, backoff: 1, jitter: 0,\n"
    "          on: [start_failed]}, argv: [sim, \"100\", \"0\"]}\n"
    "  once: {files: {data: /data}, best_effort: true, retry: {times: 9, delay: 7s, on: [exit]},\n"
    "         argv: [sim, \"100\", \"0\"]}\n";

static void begin_full(struct world *w)
{
    struct sim_machine *n1 = &w->sim.machines[1];

    sim_put_file(&w->sim.machines[0], "/data", "what is shipped");
    n1->room_us = 30000000;
}

/* The node has taken its first hello. */
static bool is_up(const struct sim_machine *m)
{
    for (int i = 0; i < SIM_NAMES; i++)
        if (m->names[i].inode != NULL && strcmp(m->names[i].path, "/node/swept") == 0)
            return true;
    return false;
}

/* Full once the start is committed and the node is connected: what fails is the put. */
static void look_full(struct world *w)
{
    struct sim_machine *n1 = &w->sim.machines[1];
    struct fr_buf starting = {0};

    if (n1->was_full || !is_up(n1))
        return;
    world_rows(w, "SELECT 'it' FROM instance WHERE key = 'again@n1' AND state = 'starting'",
               &starting);
    n1->full = n1->was_full = starting.p != NULL && strcmp(starting.p, "it\n") == 0;
    fr_buf_finish(&starting);
}

static void test_full(struct world *w)
{
    struct fr_buf rows = {0};

    check_row("a disk that is full while files are shipped");
    w->look = look_full;
    CHECK(world_run(w, full_disk, 1, begin_full));
    CHECK_INT(w->outcome, FR_OUT_SUCCEEDED);
    world_rows(w, "SELECT key, state, cause, attempt_no > 1 FROM instance ORDER BY idx", &rows);
    CHECK_TEXT(rows.p, "again@n1|succeeded|exit|1\nagain@n2|succeeded|exit|0\n"
                       "once@n1|failed|start_failed|0\n");
    rows.n = 0;
    world_rows(w, "SELECT DISTINCT state, cause FROM attempt WHERE idx = 0 ORDER BY state", &rows);
    CHECK_TEXT(rows.p, "failed|start_failed\nsucceeded|exit\n");
    fr_buf_finish(&rows);
    world_finish(w);
}

/*
 * A run may take 30 s, and its task takes 300. flowrun is killed before, so that the time is
 * counted on from the run's begin; as the run times out; while the task is stopped; and while hooks
 * run.
 */
static const char limited[] = "name: limited\n"
                              "timeout: 30s\n"
                              "nodes: [{name: n1, executor: local}]\n"
                              "tasks:\n"
                              "  long: {argv: [sim, \"300000\", \"0\"]}\n"
                              "  next: {needs: [long], argv: [sim, \"10\", \"0\"]}\n"
                              "on_failure: [{name: bad, argv: [sim, \"10\", \"0\"]}]\n"
                              "on_cancel: [{name: left, argv: [sim, \"10\", \"0\"]}]\n";

static const struct {
    int64_t at_us;
    const char *state; /* NULL: any; else committed */
} kills[] = {{12000000, NULL}, {29999000, NULL}, {29999000, "cancelling"}, {29999000, "hooks"}};

enum { KILLS = sizeof(kills) / sizeof(kills[0]) };

static void begin_limited(struct world *w)
{
    w->restart_max_us = 2000000;
}

static void look_limited(struct world *w)
{
    size_t *next = w->test;
    struct fr_buf state = {0};

    w->look_us = *next == KILLS                       ? INT64_MAX
                 : w->sim.now_us < kills[*next].at_us ? kills[*next].at_us
                                                      : w->sim.now_us + 1000;
    if (*next == KILLS || w->engine == NULL || w->sim.now_us < kills[*next].at_us)
        return;
    world_rows(w, "SELECT state FROM run", &state);
    if (kills[*next].state == NULL ||
        (state.p != NULL && fr_has_prefix(state.p, kills[*next].state))) {
        world_kill_engine(w, false);
        ++*next;
    }
    fr_buf_finish(&state);
}

static void test_limited(struct world *w)
{
    struct fr_buf rows = {0};

    for (uint64_t seed = 1; seed <= 20; seed++) {
        size_t next = seed % KILLS;

        check_row("a run that takes too long");
        w->look = look_limited;
        w->test = &next;
        CHECK(world_run(w, limited, seed, begin_limited));
        CHECK_INT(w->outcome, FR_OUT_FAILED);
        CHECK_INT(next, KILLS);
        rows.n = 0;
        world_rows(
            w, "SELECT outcome, reason, ended_wall - started_wall BETWEEN 30000 AND 36000 FROM run",
            &rows);
        CHECK_TEXT(rows.p, "failed|timeout after 30.0s|1\n");
        rows.n = 0;
        world_rows(w, "SELECT task, state, reason FROM instance ORDER BY idx", &rows);
        CHECK_TEXT(rows.p, "long|cancelled|stopped: the run's timeout\nnext|cancelled|\n"
                           "bad|succeeded|\nleft|skipped|\n");
        world_finish(w);
    }
    fr_buf_finish(&rows);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : SEEDS;
    struct world *w = calloc(1, sizeof(*w));
    size_t attempts = 0;
    int left;

    world_setup();
    if (argc == 1) {
        test_lease(w);
        test_refused(w);
        test_full(w);
        test_limited(w);
    }
    w->look = look;
    w->test = &left;
    for (uint64_t i = 0; i < count; i++) {
        char row[32];
        snprintf(row, sizeof(row), "seed %llu", (unsigned long long)(first + i));
        check_row(row);
        CHECK(run_seed(w, first + i, argc == 2));
        attempts += w->n_records;
    }
    world_clean();
    printf("seeds %llu to %llu, %zu attempts\n", (unsigned long long)first,
           (unsigned long long)(first + count - 1), attempts);
    free(w);
    return check_done();
}
