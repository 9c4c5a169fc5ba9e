/*
 * The power fails at the moments that random cuts hardly meet: what was promised before is there
 * afterwards. kill_test cuts the power of control at each commit.
 *
 *     power_test [SEED]    the seed of the first of SEEDS runs of each
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 6, SECOND = 1000000 };

struct moment {
    const char *name;
    const char *ms; /* that the task takes */
    void (*look)(struct world *w);
    void (*on_point)(struct sim *s, enum sim_point what);
};

struct so_far {
    const struct moment *moment;
    int step, records;
};

static struct so_far *so_far(struct world *w)
{
    return w->test;
}

static struct sim_machine *n1(struct world *w)
{
    return &w->sim.machines[1];
}

static bool any(struct world *w, const char *sql)
{
    struct fr_buf b = {0};
    bool some;

    world_rows(w, sql, &b);
    some = b.n > 0 && strcmp(b.p, "cannot be read\n") != 0;
    fr_buf_finish(&b);
    return some;
}

/* True once, at the time. */
static bool once_at(struct world *w, int step, int64_t s)
{
    if (so_far(w)->step != step || w->sim.now_us < s * SECOND)
        return false;
    so_far(w)->step++;
    return true;
}

static void reboot(struct world *w, struct sim_machine *m)
{
    world_tell(w, "fault: the power of %s fails", m->name);
    m->up = false;
    m->up_us = w->sim.now_us + SECOND;
    sim_crash(m, true);
}

/* Control, behind the first commit of a run that keeps its file alone. */
static void run_is_begun(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);

    if (what != SIM_AT_COMMIT || so_far(w)->step > 0 || !any(w, "SELECT 1 FROM run"))
        return;
    so_far(w)->step++;
    world_kill_engine(w, true);
}

/* The node, a minute behind an end that nobody was connected to hear of. */
static void look_alone(struct world *w)
{
    if (once_at(w, 0, 2)) {
        n1(w)->cut = true;
        n1(w)->heal_us = 100 * SECOND;
        world_kill(w, world_pick(w, n1(w), "serve", 0), "");
    }
    if (once_at(w, 1, 70))
        reboot(w, n1(w));
}

/* The node, a minute behind an end that flowrun could not commit; flowrun is killed, too. */
static void look_refused(struct world *w)
{
    if (once_at(w, 0, 2))
        w->refuse_us = 100 * SECOND;
    if (once_at(w, 1, 70)) {
        reboot(w, n1(w));
        world_kill_engine(w, false);
        w->restart_us = 110 * SECOND;
    }
}

/* flowrun is killed as the end is recorded; serve leaves before its next sync would be due. */
static void end_is_recorded(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);

    if (what != SIM_AT_RECORD || s->cur == NULL || strcmp(s->cur->comm, "flownode") != 0 ||
        world_succeeded(w, "a", NULL) == 0 || ++so_far(w)->records != 4)
        return;
    world_kill_engine(w, false);
    w->restart_us = 110 * SECOND;
    so_far(w)->step = 1;
}

static void look_left(struct world *w)
{
    if (once_at(w, 1, 70))
        reboot(w, n1(w));
}

static const struct moment moments[] = {
    {"a run is begun", "300", NULL, run_is_begun},
    {"an end that nobody hears of", "5000", look_alone, NULL},
    {"an end that cannot be committed", "5000", look_refused, NULL},
    {"an end as flowrun leaves", "5000", look_left, end_is_recorded},
};

static void begin(struct world *w)
{
    w->sim.on_point = so_far(w)->moment->on_point;
    w->restart_max_us = SECOND;
    w->look_us = SECOND;
}

static void look(struct world *w)
{
    const struct moment *m = so_far(w)->moment;

    if (m->look != NULL)
        m->look(w);
    if (w->sim.now_us >= w->look_us)
        w->look_us = w->sim.now_us < 120 * SECOND ? w->sim.now_us + SECOND : INT64_MAX;
}

static void run_moment(struct world *w, const struct moment *m, uint64_t seed)
{
    struct so_far f = {.moment = m};
    int before = check_counts.failed;
    char yaml[256];

    snprintf(yaml, sizeof(yaml),
             "name: power\nnodes: [{name: n1, executor: local}]\ntasks:\n"
             "  a: {outputs: [v], argv: [sim, \"%s\", \"0\", out]}\n",
             m->ms);
    w->test = &f;
    w->look = look;
    CHECK(world_run(w, yaml, seed, begin));
    CHECK_INT(w->outcome, FR_OUT_SUCCEEDED);
    CHECK_INT(w->n_records, 1);
    CHECK(f.step > 0);
    CHECK(any(w, "SELECT 1 FROM output WHERE key = 'v' AND value = 'a.n1.'"));
    if (check_counts.failed > before)
        printf("seed %" PRIu64 ":\n%s", seed, w->story.p != NULL ? w->story.p : "");
    world_finish(w);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    struct world *w = calloc(1, sizeof(*w));

    world_setup();
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++)
        for (uint64_t s = first; s < first + SEEDS; s++) {
            check_row(moments[i].name);
            run_moment(w, &moments[i], s);
        }
    world_clean();
    free(w);
    return check_done();
}
