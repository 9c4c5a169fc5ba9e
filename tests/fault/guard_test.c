/*
 * What keeps an attempt from starting twice, or after it was given up, each by itself: simulated
 * cases so narrow that random ones hardly meet them. results.md says which change of the code each
 * notices.
 *
 *     guard_test [SEED]    the seed of the first of SEEDS runs of each
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PREPARED_AT: before and after it is told of each record: of the home, the epoch, PREPARED. */
enum { SEEDS = 6, SECOND = 1000000, LOOKED_AT = 120 /* s */, PREPARED_AT = 5 };

struct guard {
    const char *name, *yaml;
    void (*look)(struct world *w);
    void (*on_point)(struct sim *s, enum sim_point what);
    void (*after)(struct world *w);
    enum fr_outcome outcome;
    size_t attempts; /* commands that ran */
    int steps;       /* of the case that must have been taken, at least */
};

#define HEAD "name: guard\nnodes: [{name: n1, executor: local}"
#define ONE(more, command) HEAD "]\ntasks:\n  a: {" more "argv: [sim, " command "]}\n"
#define LEASE "lost_after: 5s, retry: {times: 3, on: [node_lost]}, "
#define GANG                                                                                       \
    HEAD ", {name: n2, executor: local}, {name: n3, executor: local}]\n"                           \
         "tasks:\n  a: {on: all, gang: true, retry: {times: 3, on: [start_failed, lost]}, "        \
         "argv: [sim, \"300\", \"0\"]}\n"
#define TWO                                                                                        \
    ONE("", "\"300\", \"0\"")                                                                      \
    "  b: {needs: [a], argv: [sim, \"2000\", \"0\"]}\n"

static const char edited[] = ONE("", "\"301\", \"0\"");

/* What a case has done so far: world.test. */
struct so_far {
    const struct guard *guard;
    int step, records;
};

static struct so_far *so_far(struct world *w)
{
    return w->test;
}

static bool any(struct world *w, const char *sql)
{
    struct fr_buf b = {0};
    bool yes;

    world_rows(w, sql, &b);
    yes = b.n > 0 && strcmp(b.p, "cannot be read\n") != 0; /* not there yet */
    fr_buf_finish(&b);
    return yes;
}

static void cut(struct world *w, struct sim_machine *m, int64_t seconds)
{
    world_tell(w, "fault: %s cut for %" PRId64 " s", m->name, seconds);
    m->cut = true;
    m->heal_us = w->sim.now_us + seconds * SECOND;
}

/*
 * A start that comes too late. The link breaks while the frame is under way; the lease of the
 * attempt is over; flowrun is killed, and the next one does not know that a stop should be sent.
 * Another attempt runs and ends; then the old connection brings the frame.
 */
static void start_is_late(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);
    struct sim_machine *m = &s->machines[1];

    if (what != SIM_AT_SEND || so_far(w)->step > 0 ||
        !any(w, "SELECT 1 FROM attempt WHERE state = 'starting'"))
        return;
    so_far(w)->step = 1;
    m->stale_us = 60 * SECOND; /* the serve there waits longer for its engine */
    cut(w, m, 40);
}

static void look_late(struct world *w)
{
    if (so_far(w)->step != 1 || !any(w, "SELECT 1 FROM attempt WHERE state = 'lost'"))
        return;
    so_far(w)->step = 2;
    world_kill_engine(w, false);
}

/* The same with a serve that gets no processor, from its look at the epoch until after the other
 * attempt ended: it writes PREPARED then, and only behind that sees that it is too late. */
static void serve_is_slow(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);

    if (what != SIM_AT_RECORD || so_far(w)->step > 0 || s->cur == NULL ||
        strcmp(s->cur->comm, "serve") != 0 || ++so_far(w)->records < PREPARED_AT)
        return;
    so_far(w)->step = 1;
    cut(w, &s->machines[1], 40);
    s->cur->held_us = s->now_us + 80 * SECOND;
    sim_switch_to_scheduler();
}

/* The supervisor that has got an attempt and not begun with it. */
static struct sim_proc *handed(struct world *w)
{
    struct sim_proc *p = world_pick(w, &w->sim.machines[1], "flownode", 0);

    if (p == NULL)
        return NULL;
    p->held_us = 60 * SECOND;
    for (int fd = 0; fd < SIM_FDS; fd++)
        if (p->fds[fd] != NULL && p->fds[fd]->kind == SIM_STREAM && p->fds[fd]->rd != NULL &&
            p->fds[fd]->rd->n > 0)
            return p;
    return NULL;
}

/*
 * A supervisor that gets no processor. Its serve is killed, and the user cancels: the next serve
 * sees nobody, writes that the attempt never starts, and the run is over. Then the supervisor goes
 * on.
 */
static void look_slow(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step == 0 && handed(w) != NULL) {
        f->step = 1;
        world_kill(w, world_pick(w, &w->sim.machines[1], "serve", 0), "");
        world_request(w, "cancel", "");
    }
    if (f->step == 1 && w->sim.now_us >= 61 * SECOND)
        f->step = 2;
}

static struct sim_machine *n1(struct world *w)
{
    return &w->sim.machines[1];
}

static bool later(const struct world *w, int64_t seconds)
{
    return w->sim.now_us >= seconds * SECOND;
}

static bool runs(struct world *w)
{
    return any(w, "SELECT 1 FROM instance WHERE state = 'running'");
}

/* As in look_slow; but the link is down, too, the user gives the node up, and flowrun is killed
 * before it comes back: only the attempt that takes its place makes it write the tombstone. */
static void look_slow_lost(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step == 0 && handed(w) != NULL) {
        f->step = 1;
        cut(w, n1(w), 40);
        world_kill(w, world_pick(w, n1(w), "serve", 0), "");
        world_request(w, "abandon", "n1");
    }
    if (f->step == 1 && any(w, "SELECT 1 FROM attempt WHERE state = 'lost'")) {
        f->step = 2;
        world_kill_engine(w, false);
    }
    if (f->step == 2 && later(w, 61))
        f->step = 3;
}

/* An attempt that is given up, and cannot stop itself: the next one has to wait for its end. */
static void look_rival(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step > 0 || !runs(w))
        return;
    f->step = 1;
    world_pick(w, n1(w), "flownode", 0)->held_us = 60 * SECOND;
    cut(w, n1(w), 25);
}

/* A supervisor that is halted does not hear the stop. */
static void look_halted(struct world *w)
{
    if (so_far(w)->step > 0 || !runs(w))
        return;
    so_far(w)->step = 1;
    world_pick(w, n1(w), "flownode", 0)->held_us = INT64_MAX;
    world_request(w, "cancel", "");
}

/* Its lease ends before the engine gives it up. */
static void look_lease(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step == 0 && runs(w)) {
        f->step = 1;
        cut(w, n1(w), 60);
    }
    if (f->step != 1 || !any(w, "SELECT 1 FROM attempt WHERE state = 'lost'"))
        return;
    f->step = 2;
    if (world_pick(w, n1(w), "sim", 0) != NULL)
        world_violated(w, "it is given up, and runs");
}

/* flowrun is killed in the back-off, and while the last attempt that is allowed runs. */
static void look_budget(struct world *w)
{
    struct so_far *f = so_far(w);

    if (w->engine == NULL ||
        !any(w, f->step == 0 ? "SELECT 1 FROM instance WHERE state = 'retrying'"
                             : "SELECT 1 FROM instance WHERE state = 'running' AND attempt_no = 2"))
        return;
    if (f->step < 2)
        world_kill_engine(w, false);
    f->step = 2 - (f->step == 0);
}

/* The same once, and for each second seed the calendar goes back by a day meanwhile. */
static void look_back_off(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step > 0 || !any(w, "SELECT 1 FROM instance WHERE state = 'retrying'"))
        return;
    f->step = 1;
    world_kill_engine(w, false);
    if (w->seed % 2 == 0)
        w->sim.machines[0].skew_ms -= 86400000;
}

static void after_back_off(struct world *w)
{
    int64_t between = w->records[1].spawned_us - w->records[0].spawned_us;

    CHECK(between >= 58 * SECOND && between <= 75 * SECOND);
}

/* Once a node has forgotten a log, the copy outlives a power cut. */
static void look_log(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step > 0 || !any(w, "SELECT 1 FROM attempt WHERE done = 1"))
        return;
    f->step = 1;
    world_kill_engine(w, true);
}

/* flowrun is killed at each of the commits that follow a cancel. */
static void look_request(struct world *w)
{
    if (so_far(w)->step > 0 || !runs(w))
        return;
    so_far(w)->step = 1;
    world_request(w, "cancel", "");
}

static void request_is_taken(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);

    if (what == SIM_AT_COMMIT && w->asked > 0 && w->engine != NULL && w->starts == 1 &&
        (uint64_t)so_far(w)->step++ == 1 + w->seed % 4)
        world_kill_engine(w, false);
}

/* The store takes nothing from the start of a on, and flowrun is killed before it does again. */
static void look_refused(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step == 0 && runs(w)) {
        f->step = 1;
        w->refuse_us = 15 * SECOND;
    }
    if (f->step == 1 && later(w, 10)) {
        f->step = 2;
        world_kill_engine(w, false);
        w->restart_us = 16 * SECOND;
    }
}

/* One member takes 20 s to get ready: no other may start before. */
static void look_gang(struct world *w)
{
    struct so_far *f = so_far(w);
    struct sim_proc *p = world_pick(w, &w->sim.machines[2], "flownode", 0);

    if (f->step == 0 && p != NULL && p->held_us == 0)
        p->held_us = 20 * SECOND;
    if (f->step == 0 && later(w, 10)) {
        f->step = 1;
        if (w->n_records > 0)
            world_violated(w, "a gang goes without all of its members");
    }
}

/* The same, and its serve is killed meanwhile: the next one starts it again, as slowly. */
static void look_late_again(struct world *w)
{
    struct so_far *f = so_far(w);
    struct sim_machine *m = &w->sim.machines[2];

    for (uint64_t i = 0; f->step < 2 && i < 2; i++) {
        struct sim_proc *p = world_pick(w, m, "flownode", i);
        if (p != NULL && p->held_us == 0)
            p->held_us = 20 * SECOND;
    }
    if (f->step == 0 && later(w, 3)) {
        f->step = 1;
        world_kill(w, world_pick(w, m, "serve", 0), "");
    }
    if (f->step == 1 && later(w, 12)) {
        f->step = 2;
        if (w->n_records > 0)
            world_violated(w, "a gang goes without all of its members");
    }
}

/* Members wait for a go that no flowrun sends. */
static void look_expires(struct world *w)
{
    struct so_far *f = so_far(w);
    struct sim_proc *p = world_pick(w, &w->sim.machines[2], "flownode", 0);

    if (f->step == 0 && p != NULL && p->held_us == 0)
        p->held_us = 20 * SECOND;
    if (f->step == 0 && later(w, 5)) {
        f->step = 1;
        world_kill_engine(w, false);
        w->restart_us = 110 * SECOND;
    }
    if (f->step == 1 && later(w, 100)) {
        f->step = 2;
        if (world_pick(w, n1(w), "flownode", 0) != NULL)
            world_violated(w, "a member waits for its go without end");
    }
}

/* The supervisor is killed between its two records of the end: the exit is known. */
static void end_is_known(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);

    if (what != SIM_AT_RECORD || s->cur == NULL || strcmp(s->cur->comm, "flownode") != 0 ||
        world_succeeded(w, "a", NULL) == 0 || ++so_far(w)->step != 3)
        return;
    world_kill(w, s->cur, "");
}

/* The node loses power between the two, and with it what the command wrote into the file of its
 * outputs; the record of the exit was on the disk already. */
static void exit_is_written(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);

    if (what != SIM_AT_RECORD || s->cur == NULL || strcmp(s->cur->comm, "flownode") != 0 ||
        world_succeeded(w, "a", NULL) == 0 || ++so_far(w)->step != 2)
        return;
    s->cur->held_us = s->now_us + SECOND;
    sim_lookup(s->cur->m, "/node/journal")->synced = sim_lookup(s->cur->m, "/node/journal")->n;
    sim_switch_to_scheduler();
}

static void look_power(struct world *w)
{
    if (so_far(w)->step != 2)
        return;
    so_far(w)->step = 3;
    n1(w)->up = false;
    n1(w)->up_us = w->sim.now_us + SECOND;
    sim_crash(n1(w), true);
}

static void after_power(struct world *w)
{
    CHECK(any(w, "SELECT 1 FROM output WHERE key = 'v' AND value = 'a.n1.'"));
}

/* flowrun is killed when what it keeps is stored and its run is not yet; before the next one the
 * pipeline is edited, so that no run will ever name the first text. */
static void nothing_is_committed(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);

    if (what != SIM_AT_COMMIT || so_far(w)->step > 0 || any(w, "SELECT 1 FROM run") ||
        !any(w, "SELECT 1 FROM home"))
        return;
    so_far(w)->step = 1;
    sim_put_file(&s->machines[0], "/sim.yaml", edited);
    world_kill_engine(w, false);
}

/* A stop that the link swallows. */
static void look_swallowed(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step > 0 || !runs(w))
        return;
    f->step = 1;
    n1(w)->stale_us = 60 * SECOND;
    cut(w, n1(w), 20);
    world_request(w, "cancel", "");
}

/* Somebody removes the home of the node while its task runs. */
static void look_wiped(struct world *w)
{
    struct so_far *f = so_far(w);

    if (f->step > 0 || !runs(w))
        return;
    f->step = 1;
    sim_wipe(n1(w));
    world_kill(w, world_pick(w, n1(w), "serve", 0), "");
}

static bool is_stopped(const struct sim_machine *m)
{
    for (const struct sim_proc *p = m->procs; p != NULL; p = p->next)
        if (strcmp(p->comm, "sim") == 0 && (p->came >> SIGTERM & 1))
            return true;
    return false;
}

/* A supervisor is killed. Its serve stands still while it stops the processes, until the next serve
 * has recorded their end, and finds that in the journal as the other task has ended. */
static void look_swept(struct world *w)
{
    struct so_far *f = so_far(w);
    struct sim_proc *serve = world_pick(w, n1(w), "serve", 0);

    if (f->step == 0 && w->n_records == 2 && runs(w)) {
        f->step = 1;
        world_kill(w, world_pick(w, n1(w), "flownode", 0), "");
    }
    if (f->step == 1 && is_stopped(n1(w)) && serve != NULL && serve->state == SIM_BLOCKED) {
        f->step = 2;
        serve->held_us = w->sim.now_us + 60 * SECOND;
        n1(w)->stale_us = 90 * SECOND;
        cut(w, n1(w), 5);
    }
}

static void after_stuck(struct world *w)
{
    CHECK(any(w, "SELECT 1 FROM instance WHERE state = 'stop_unproven'"));
}

static const struct guard guards[] = {
    {"a pipeline that is stored and not committed", ONE("", "\"300\", \"0\""), NULL,
     nothing_is_committed, NULL, FR_OUT_SUCCEEDED, 1, 1},
    {"a start that comes by an old connection", ONE(LEASE, "\"50\", \"0\""), look_late,
     start_is_late, NULL, FR_OUT_SUCCEEDED, 1, 2},
    {"a start that a slow serve has", ONE(LEASE, "\"50\", \"0\""), look_late, serve_is_slow, NULL,
     FR_OUT_SUCCEEDED, 1, 2},
    {"a supervisor that begins after the tombstone", ONE("", "\"50\", \"0\""), look_slow, NULL,
     NULL, FR_OUT_CANCELLED, 0, 2},
    {"a supervisor that begins after its successor",
     ONE("retry: {times: 3, on: [node_lost]}, ", "\"50\", \"0\""), look_slow_lost, NULL, NULL,
     FR_OUT_SUCCEEDED, 1, 3},
    {"a rival that lives", ONE(LEASE, "\"90000\", \"0\""), look_rival, NULL, NULL, FR_OUT_SUCCEEDED,
     2, 1},
    {"a supervisor that is halted", ONE("", "\"90000000\", \"0\""), look_halted, NULL, NULL,
     FR_OUT_CANCELLED, 1, 1},
    {"a lease", ONE(LEASE, "\"20000\", \"0\""), look_lease, NULL, NULL, FR_OUT_SUCCEEDED, 2, 2},
    {"a retry budget", ONE("retry: {times: 1, delay: 300ms, on: [exit]}, ", "\"500\", \"3\""),
     look_budget, NULL, NULL, FR_OUT_FAILED, 2, 2},
    {"a back-off",
     ONE("retry: {times: 1, delay: 60s, jitter: 0, on: [exit]}, ", "\"50\", \"3\", once"),
     look_back_off, NULL, after_back_off, FR_OUT_SUCCEEDED, 2, 1},
    {"a log that is acknowledged", TWO, look_log, NULL, NULL, FR_OUT_SUCCEEDED, 2, 1},
    {"a request that is taken", ONE("", "\"60000\", \"0\""), look_request, request_is_taken, NULL,
     FR_OUT_CANCELLED, 1, 0},
    {"a store that takes nothing", TWO, look_refused, NULL, NULL, FR_OUT_SUCCEEDED, 2, 2},
    {"a gang of which one is late", GANG, look_gang, NULL, NULL, FR_OUT_SUCCEEDED, 3, 1},
    {"a gang of which one is late again", GANG, look_late_again, NULL, NULL, FR_OUT_SUCCEEDED, 3,
     2},
    {"a gang that never goes", GANG, look_expires, NULL, NULL, FR_OUT_SUCCEEDED, 3, 2},
    {"an exit before the supervisor died", ONE("retry: {times: 2, on: [lost]}, ", "\"50\", \"0\""),
     NULL, end_is_known, NULL, FR_OUT_SUCCEEDED, 1, 3},
    {"an exit before the node lost power",
     "name: guard\nnodes: [{name: n1, executor: local}]\n"
     "tasks:\n  a: {outputs: [v], argv: [sim, \"50\", \"0\", out]}\n",
     look_power, exit_is_written, after_power, FR_OUT_SUCCEEDED, 1, 3},
    {"a stop that is swallowed", ONE("", "\"90000000\", \"0\""), look_swallowed, NULL, NULL,
     FR_OUT_CANCELLED, 1, 1},
    {"a home that is gone", ONE("retry: {times: 2, on: [lost]}, ", "\"90000\", \"0\""), look_wiped,
     NULL, NULL, FR_OUT_SUCCEEDED, 2, 1},
    {"processes that another serve has stopped",
     "name: guard\nnodes: [{name: n1, executor: local}]\n"
     "defaults: {retry: {times: 2, on: [lost]}}\n"
     "tasks:\n  a: {argv: [sim, \"30000\", \"0\", wild]}\n"
     "  b: {argv: [sim, \"30000\", \"0\", wild]}\n",
     look_swept, NULL, NULL, FR_OUT_SUCCEEDED, 3, 2},
    {"a process that does not end",
     ONE("timeout: 1s, retry: {times: 3, on: [timeout]}, ", "\"90000\", \"0\", stuck"), NULL, NULL,
     after_stuck, FR_OUT_FAILED, 1, 0},
};

static void begin(struct world *w)
{
    w->sim.on_point = so_far(w)->guard->on_point;
    w->restart_max_us = SECOND;
    w->look_us = SECOND;
}

static void look(struct world *w)
{
    const struct guard *g = so_far(w)->guard;

    if (g->look != NULL)
        g->look(w);
    if (w->sim.now_us >= w->look_us)
        w->look_us = later(w, LOOKED_AT) ? INT64_MAX : w->sim.now_us + SECOND;
}

static void run_guard(struct world *w, const struct guard *g, uint64_t seed)
{
    struct so_far f = {.guard = g};
    int before = check_counts.failed;

    w->test = &f;
    w->look = look;
    CHECK(world_run(w, g->yaml, seed, begin));
    CHECK_INT(w->outcome, g->outcome);
    CHECK_INT(w->n_records, g->attempts);
    CHECK(f.step >= g->steps);
    if (g->after != NULL)
        g->after(w);
    if (check_counts.failed > before)
        printf("seed %" PRIu64 ":\n%s", seed, w->story.p != NULL ? w->story.p : "");
    world_finish(w);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    struct world *w = calloc(1, sizeof(*w));

    world_setup();
    for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
        for (uint64_t s = first; s < first + SEEDS; s++) {
            check_row(guards[i].name);
            run_guard(w, &guards[i], s);
        }
    world_clean();
    free(w);
    return check_done();
}
