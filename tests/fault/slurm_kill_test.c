/*
 * Kills around allocations of a simulated Slurm (sim/slurm.h). A run takes an allocation, lets it
 * go as nothing uses it, and takes another one. In a run of its own, flowrun is killed
 *
 *   - at each commit of the store, before and behind it
 *   - at each effect of an sbatch or scancel, before and behind it; the command dies with it.
 * Before its effect: Slurm never hears of it (lost), or a minute and a half later (late), or so
 * late that flowrun asks again (twin)
 *   - a second time: at each commit of the flowrun that looks for a job whose sbatch died with the
 *     first
 *
 * and resumed; and the connection to a login node is cut at each effect and whenever a message
 * comes from there, for ten seconds. The run must end as the undisturbed one does, with no attempt
 * more; the rules of world.h and slurm.h hold. The table says how often each was done, by the state
 * of the newest allocation in the store at that moment.
 *
 * The first two are done with copies, too: an array of which the first element does the tasks of
 * both places, as the other one begins too late.
 *
 * Without a kill: how soon it is learnt that a job failed, and what follows from that.
 *
 *     slurm_kill_test [SEED]          all of it
 *     slurm_kill_test WAY POINT SEED  one case, and its story
 */
#include "tests/sim/slurm.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUT_S = 10 };

enum way {
    COMMIT,
    EFFECT_LOST,
    EFFECT_LATE,
    EFFECT_TWIN,
    AGAIN_LOST,
    AGAIN_LATE,
    AGAIN_TWIN,
    LOGIN_COMMIT,
    LOGIN_EFFECT,
    LOGIN_CUT,
    COPIES_COMMIT,
    COPIES_LOST,
    COPIES_LATE,
    COPIES_TWIN,
    WAYS
};

enum pipeline { HERE, LOGIN, COPIES, PIPELINES };

static const struct {
    const char *name;
    enum pipeline of;
    bool cuts;
    unsigned points;        /* kinds, as bits */
    enum sim_stroke stroke; /* of a command that dies at its effect */
    enum sim_stroke first;  /* NONE, or there is a kill before: at the first effect */
} ways[WAYS] = {
    [COMMIT] = {.name = "commit", .points = 1u << SIM_AT_COMMIT},
    [EFFECT_LOST] = {"effect, lost", .points = 1u << SIM_AT_EFFECT, .stroke = SIM_STROKE_LOST},
    [EFFECT_LATE] = {"effect, late", .points = 1u << SIM_AT_EFFECT, .stroke = SIM_STROKE_LATE},
    [EFFECT_TWIN] = {"effect, twin", .points = 1u << SIM_AT_EFFECT, .stroke = SIM_STROKE_TWIN},
    [AGAIN_LOST] = {"again, lost", .points = 1u << SIM_AT_COMMIT, .first = SIM_STROKE_LOST},
    [AGAIN_LATE] = {"again, late", .points = 1u << SIM_AT_COMMIT, .first = SIM_STROKE_LATE},
    [AGAIN_TWIN] = {"again, twin", .points = 1u << SIM_AT_COMMIT, .first = SIM_STROKE_TWIN},
    [LOGIN_COMMIT] = {"login: commit", .of = LOGIN, .points = 1u << SIM_AT_COMMIT},
    [LOGIN_EFFECT] = {"login: effect", .of = LOGIN, .points = 1u << SIM_AT_EFFECT},
    [LOGIN_CUT] = {"login: cut", .of = LOGIN, .cuts = true,
                   .points = 1u << SIM_AT_EFFECT | 1u << SIM_AT_ANSWER | 1u << SIM_AT_ARRIVE},
    [COPIES_COMMIT] = {"copies: commit", .of = COPIES, .points = 1u << SIM_AT_COMMIT},
    [COPIES_LOST] = {"copies: effect, lost", .of = COPIES, .points = 1u << SIM_AT_EFFECT,
                     .stroke = SIM_STROKE_LOST},
    [COPIES_LATE] = {"copies: effect, late", .of = COPIES, .points = 1u << SIM_AT_EFFECT,
                     .stroke = SIM_STROKE_LATE},
    [COPIES_TWIN] = {"copies: effect, twin", .of = COPIES, .points = 1u << SIM_AT_EFFECT,
                     .stroke = SIM_STROKE_TWIN},
};

#define TASKS                                                                                      \
    "    allocations: {n: {nodes: 2, time: 30m, idle: 3s}}\n"                                      \
    "tasks:\n"                                                                                     \
    "  a: {on: n1, argv: [sim, \"300\", \"0\"]}\n"                                                 \
    "  pair: {on: n, gang: true, needs: [a], argv: [sim, \"400\", \"0\"]}\n"                       \
    "  pause: {on: n3, needs: [pair], argv: [sim, \"9000\", \"0\"]}\n"                             \
    "  c: {on: n2, needs: [pause], argv: [sim, \"500\", \"0\"]}\n"
#define HEAD                                                                                       \
    "name: allocations\n"                                                                          \
    "defaults: {retry: {times: 3, delay: 300ms, on: [" WORLD_FAULTS "]}}\n"                        \
    "nodes:\n"                                                                                     \
    "  nodes: [{name: n3, executor: local}]\n"                                                     \
    "  slurm:\n"                                                                                   \
    "    work: /work\n"                                                                            \
    "    rpc: 60\n"

/* The second copy begins so late that the first one does the tasks of both places. */
static const char *const pipelines[PIPELINES] = {
    [HERE] = HEAD TASKS,
    [LOGIN] = HEAD "    login: {address: login, user: me}\n" TASKS,
    [COPIES] = HEAD "    allocations: {n: {copies: 2, time: 30m, idle: 3s}}\n"
                    "tasks:\n"
                    "  a: {on: n, argv: [sim, \"300\", \"0\"]}\n"
                    "  pause: {on: n3, needs: [a], argv: [sim, \"9000\", \"0\"]}\n"
                    "  c: {on: n, needs: [pause], argv: [sim, \"500\", \"0\"]}\n"};

/* Of allocations, and of the command that is at its effect. */
static const char *const states[] = {"none",     "wanted", "submitting", "looking", "queued",
                                     "starting", "up",     "releasing",  "over"};
enum { STATES = sizeof(states) / sizeof(states[0]) };

struct stroke {
    enum way way;
    int point, at;              /* 0: none */
    bool begun, struck, behind; /* begun: points are counted */
    size_t state;
    int64_t learnt_us; /* of a job that failed */
    struct sim_slurm slurm;
};

static struct world w;
static int table[WAYS][2][STATES];

static size_t state_now(struct world *world)
{
    struct fr_buf b = {0};
    size_t found = 0;

    world_rows(world, "SELECT state FROM allocation ORDER BY id DESC LIMIT 1", &b);
    for (size_t i = 1; i < STATES; i++)
        if (b.n == strlen(states[i]) + 1 && memcmp(b.p, states[i], b.n - 1) == 0)
            found = i;
    fr_buf_finish(&b);
    return found;
}

static void cut(struct world *world)
{
    struct sim_machine *m = &world->sim.machines[SIM_LOGIN];

    world_tell(world, "fault: the connection to the login node is cut");
    sim_links_drop(m);
    m->cut = true;
    m->heal_us = world->sim.now_us + CUT_S * 1000000LL;
}

static void on_point(struct sim *s, enum sim_point what)
{
    struct world *world = world_of(s);
    struct stroke *k = world->test;

    if (k->point > 0 && !k->begun && what == SIM_AT_EFFECT) {
        k->begun = true;
        k->slurm.stroke = ways[k->way].first;
        world_kill_engine(world, false);
        return;
    }
    if (!k->begun || (ways[k->way].points >> what & 1) == 0 || world->engine == NULL ||
        ++k->at != k->point)
        return;
    k->struck = true;
    k->behind = what == SIM_AT_COMMIT ? world->committed : k->slurm.acted;
    k->state = state_now(world);
    k->slurm.stroke = what == SIM_AT_EFFECT ? ways[k->way].stroke : SIM_STROKE_NONE;
    if (ways[k->way].cuts)
        cut(world);
    else
        world_kill_engine(world, false);
}

static void begin(struct world *world)
{
    struct stroke *k = world->test;

    sim_slurm_begin(&k->slurm, world, ways[k->way].of == LOGIN);
    k->begun = ways[k->way].first == SIM_STROKE_NONE;
    world->sim.on_point = on_point;
    world->restart_max_us = 5000000;
}

static const char ends[] = "SELECT key, state, attempt_no FROM instance ORDER BY key";
static struct fr_buf want[PIPELINES]; /* of the undisturbed run of each */

static void check_ends(struct stroke *k)
{
    struct fr_buf got = {0}, *wanted = &want[ways[k->way].of];

    world_rows(&w, ends, &got);
    sim_slurm_check_end(&k->slurm);
    if (k->point == 0)
        fr_buf_add(wanted, got.p, got.n);
    else if (!w.failed && (got.n != wanted->n || memcmp(got.p, wanted->p, got.n) != 0))
        world_violated(&w, "it ended with\n%s", got.p);
    fr_buf_finish(&got);
}

static void print_story(void)
{
    struct fr_buf rows = {0};

    world_rows(&w, "SELECT name, no, state, job, slurm, cause, note FROM allocation", &rows);
    world_rows(&w, "SELECT key, state, attempt_no, cause, reason FROM instance", &rows);
    printf("%s%s", w.story.p, rows.p);
    fr_buf_finish(&rows);
}

/* Whether the point was there. */
static bool run(enum way way, int point, uint64_t seed, bool tell)
{
    struct stroke k = {.way = way, .point = point};

    w.test = &k;
    w.settled = true;
    if (world_run(&w, pipelines[ways[way].of], seed, begin))
        check_ends(&k);
    if (tell)
        print_story();
    if (w.failed)
        printf("%s %d %llu\n", ways[way].name, point, (unsigned long long)seed);
    if (point == 0 || k.struck)
        CHECK(!w.failed);
    if (k.struck)
        table[way][k.behind][k.state]++;
    world_finish(&w);
    return k.struck && !w.failed;
}

static void print_table(void)
{
    printf("| struck at | |");
    for (size_t i = 0; i < STATES; i++)
        printf(" %s |", states[i]);
    printf("\n| --- | --- |");
    for (size_t i = 0; i < STATES; i++)
        printf(" --- |");
    for (int way = 0; way < WAYS; way++)
        for (int behind = 0; behind < 2; behind++) {
            printf("\n| %s | %s |", ways[way].name, behind ? "behind" : "before");
            for (size_t i = 0; i < STATES; i++)
                printf(" %d |", table[way][behind][i]);
        }
    printf("\n");
}

static enum way way_of(const char *name)
{
    for (int i = 0; i < WAYS; i++)
        if (strcmp(ways[i].name, name) == 0)
            return (enum way)i;
    return WAYS;
}

/* ---- a job that fails ---- */

static const char failing[] =
    "name: failing\n"
    "nodes:\n"
    "  nodes: [{name: n3, executor: local}]\n"
    "  slurm: {work: /work, rpc: 60, allocations: {n: {nodes: 2, time: 2h}}}\n"
    "tasks:\n"
    "  long: {on: n1, retry: {times: 3, delay: 0s}, argv: [sim, \"3600000\", \"0\"]}\n"
    "  other: {on: n3, argv: [sim, \"900000\", \"0\"]}\n";

enum { FAILS_US = 700 * 1000000, LEARNT_US = 60 * 1000000, LOOK_US = 1000000 };

/* Its keepers and links go with it, and what they knew. */
static void fail_job(struct world *world)
{
    struct stroke *k = world->test;

    world->look_us = k->struck ? world->sim.now_us + LOOK_US : FAILS_US;
    if (k->struck && k->learnt_us == 0 && strcmp(states[state_now(world)], "over") == 0)
        k->learnt_us = world->sim.now_us;
    if (k->learnt_us != 0)
        world->look_us = INT64_MAX;
    if (k->struck || world->sim.now_us < FAILS_US)
        return;
    k->struck = true;
    sim_slurm_kill(&k->slurm.jobs[0], "NODE_FAIL");
}

static void test_failing(uint64_t seed)
{
    struct stroke k = {0};
    struct fr_buf rows = {0};

    check_row("a job of which one place is used goes on; that it failed is learnt within a minute, "
              "and nothing follows where that is no proof");
    w.test = &k;
    w.look = fail_job;
    w.settled = true;
    CHECK(world_run(&w, failing, seed, begin));
    CHECK(k.struck && k.learnt_us > 0 && k.learnt_us - FAILS_US < LEARNT_US);
    world_rows(&w, "SELECT state, cause, proven FROM allocation", &rows);
    world_rows(&w, "SELECT key, state, attempt_no FROM instance ORDER BY key", &rows);
    CHECK_TEXT(rows.p, "over|node_lost|0\nlong@n1|stop_unproven|1\nother@n3|succeeded|1\n");
    CHECK_INT(k.slurm.n_jobs, 1);
    fr_buf_finish(&rows);
    world_finish(&w);
    w.look = NULL;
    check_row("");
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[argc - 1], NULL, 10) : 1;
    enum way one = argc > 3 ? way_of(argv[1]) : WAYS;

    world_setup();
    run(COMMIT, 0, seed, one != WAYS && (int)strtol(argv[2], NULL, 10) == 0);
    run(LOGIN_COMMIT, 0, seed, one != WAYS && (int)strtol(argv[2], NULL, 10) == 0);
    run(COPIES_COMMIT, 0, seed, one != WAYS && (int)strtol(argv[2], NULL, 10) == 0);
    if (one != WAYS)
        run(one, (int)strtol(argv[2], NULL, 10), seed, true);
    for (int way = 0; way < WAYS && one == WAYS; way++)
        for (int point = 1; run((enum way)way, point, seed, false);)
            point++;
    if (one == WAYS)
        print_table();
    if (one == WAYS)
        test_failing(seed);
    for (int i = 0; i < PIPELINES; i++)
        fr_buf_finish(&want[i]);
    world_clean();
    return check_done();
}
