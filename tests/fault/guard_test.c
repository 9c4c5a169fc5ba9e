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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 6, SECOND = 1000000 };

struct guard {
    const char *name, *yaml;
    void (*look)(struct world *w);
    void (*on_point)(struct sim *s, enum sim_point what);
    enum fr_outcome outcome;
    size_t attempts; /* commands that ran */
    int steps;       /* of the case that must have been taken */
};

/* What a case has done so far: world.test. */
struct so_far {
    const struct guard *guard;
    int step;
    int64_t at_us;
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
    yes = b.n > 0;
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
 * attempt is over, another takes its place and ends; then the old connection brings the frame.
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
    cut(w, m, 25);
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

#define ONE(more, command)                                                                         \
    "name: guard\nnodes: [{name: n1, executor: local}]\ntasks:\n"                                  \
    "  a: {" more "argv: [sim, " command "]}\n"

static const struct guard guards[] = {
    {.name = "a start that comes by an old connection",
     .yaml = ONE("lost_after: 5s, retry: {times: 3, on: [node_lost]}, ", "\"50\", \"0\""),
     .on_point = start_is_late,
     .outcome = FR_OUT_SUCCEEDED,
     .attempts = 1,
     .steps = 1},
    {.name = "a supervisor that begins after the tombstone",
     .yaml = ONE("", "\"50\", \"0\""),
     .look = look_slow,
     .outcome = FR_OUT_CANCELLED,
     .attempts = 0,
     .steps = 2},
};

static void begin(struct world *w)
{
    w->sim.on_point = so_far(w)->guard->on_point;
    w->restart_max_us = SECOND;
    w->look_us = 61 * SECOND;
}

static void look(struct world *w)
{
    const struct guard *g = so_far(w)->guard;

    if (g->look != NULL)
        g->look(w);
    if (w->sim.now_us >= w->look_us)
        w->look_us = INT64_MAX;
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
    CHECK_INT(f.step, g->steps);
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
