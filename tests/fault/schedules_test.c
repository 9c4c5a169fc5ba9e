/*
 * Kill at every transition while a schedule makes runs, on simulated machines: a pipeline that
 * fires every ten seconds, six times, under a host that stays. Each commit, each record in a
 * journal and each frame is two points, just before it takes effect and just after; flowrun is
 * killed at each, and then another one begins.
 *
 * Beside the rules of world.h: each instant has one decision, which made one run, and that
 * succeeded; no run is of an instant that has none. What the instants are is written here, apart
 * from the program's own rules.
 *
 *     schedules_test               a sample: every STRIDE-th point
 *     schedules_test all [SEED]    every point
 *     schedules_test POINT [SEED]  one case, and its story
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 13, SEED = 1, FIRES = 6 };

/* The simulated clock begins at 2023-11-14T22:13:20Z. */
static const int64_t FIRST_MS = 1700000010000;

static const char pipeline[] =
    "name: scheduled\n"
    "schedule: {every: 10s, start: 2023-11-14T22:13:30, end: 2023-11-14T22:14:30, catchup: all, "
    "overlap: parallel}\n"
    "nodes: [{name: n1, executor: local}]\n"
    "tasks: {one: {on: n1, argv: [sim, \"90\", \"0\"]}}\n";

struct killing {
    uint64_t point, at; /* 1, 2, …; 0: none */
};

static void on_point(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);
    struct killing *k = w->test;

    (void)what;
    if (++k->at == k->point && w->engine != NULL)
        world_kill_engine(w, false);
}

static void begin(struct world *w)
{
    w->restart_max_us = 500000;
    w->folder = "/served";
    w->until_wall_ms = FIRST_MS + FIRES * 10000;
    sim_put_file(&w->sim.machines[0], "/served/s.yaml", pipeline);
    w->sim.on_point = on_point;
}

static void must_be(struct world *w, const char *what, const char *sql, const char *want)
{
    struct fr_buf got = {0};

    world_rows(w, sql, &got);
    if (strcmp(got.p != NULL ? got.p : "", want) != 0)
        world_violated(w, "%s: %.400s", what, got.p != NULL ? got.p : "none");
    fr_buf_finish(&got);
}

static void check_end(struct world *w)
{
    struct fr_buf want = {0};

    for (int i = 0; i < FIRES; i++)
        fr_buf_fmt(&want, "%" PRId64 "|%" PRId64 "|1|ran|succeeded|1\n", FIRST_MS + i * 10000,
                   FIRST_MS + i * 10000);
    must_be(w, "instants",
            "SELECT at_ms, first_ms, count, decision, outcome, (SELECT count(*) FROM run r WHERE "
            "r.no = f.run AND r.at_ms = f.at_ms AND r.schedule = f.schedule AND r.outcome = "
            "'succeeded') FROM fire f ORDER BY at_ms",
            want.p);
    must_be(w, "runs", "SELECT count(*), count(DISTINCT at_ms) FROM run WHERE schedule <> 0",
            "6|6\n");
    must_be(w, "attempts", "SELECT count(*) FROM attempt", "7\n"); /* one run is by hand */
    fr_buf_finish(&want);
}

static bool run_case(struct world *w, struct killing *k, uint64_t seed)
{
    bool ok;

    w->test = k;
    w->stays = true;
    world_run(w, pipeline, seed, begin);
    if (!w->failed)
        check_end(w);
    ok = !w->failed;
    if (!ok)
        printf("case %" PRIu64 ", seed %" PRIu64 ": %s\n", k->point, seed, w->why);
    world_finish(w);
    return ok;
}

int main(int argc, char **argv)
{
    struct world *w = calloc(1, sizeof(*w));
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    uint64_t one = argc > 1 && !all ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : SEED, n = 0;
    struct killing none = {0};
    char row[40];

    world_setup();
    w->quiet = one == 0;
    CHECK(run_case(w, &none, seed));
    for (uint64_t i = one > 0 ? one : 1; i <= none.at; i += all || one > 0 ? 1 : STRIDE, n++) {
        struct killing k = {.point = i};

        snprintf(row, sizeof(row), "point %" PRIu64, i);
        check_row(row);
        CHECK(run_case(w, &k, seed));
        if (one > 0)
            break;
    }
    printf("seed %" PRIu64 ": %" PRIu64 " kills at %" PRIu64 " points\n", seed, n, none.at);
    world_clean();
    free(w);
    return check_done();
}
