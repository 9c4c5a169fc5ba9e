/*
 * Kill at every transition while runs wait in the queue, on simulated machines. Five runs of a
 * pipeline that lets one be active are submitted at once, some with a larger priority. Each commit,
 * each record in a journal and each frame is two points, just before it takes effect and just
 * after. flowrun is killed at each, then the runs are resumed, and those are submitted that were
 * not yet.
 *
 * Beside the rules of world.h: each run succeeds, one at a time; none starts while one that was
 * queued before has a larger priority, or the same and a smaller number; each is started once, by
 * the host that is there then.
 *
 *     queued_test               a sample: every STRIDE-th point
 *     queued_test all [SEED]    every point
 *     queued_test POINT [SEED]  one case, and its story
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 7, SEED = 1, RUNS = 5 };

static const char pipeline[] = "name: queued\n"
                               "max_active_runs: 1\n"
                               "nodes:\n"
                               "  - {name: n1, executor: local}\n"
                               "  - {name: n2, executor: local}\n"
                               "tasks:\n"
                               "  one: {on: all, argv: [sim, \"90\", \"0\"]}\n"
                               "  two: {on: n1, needs: [one], argv: [sim, \"60\", \"0\"]}\n";

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
    static const int64_t priorities[RUNS] = {0, 0, 5, 0, 5};

    w->restart_max_us = 500000;
    memcpy(w->priorities, priorities, sizeof(priorities));
    w->sim.on_point = on_point;
}

static void must_be(struct world *w, const char *what, const char *sql, const char *want)
{
    struct fr_buf got = {0};

    world_rows(w, sql, &got);
    if (strcmp(got.p != NULL ? got.p : "", want) != 0)
        world_violated(w, "%s: %s", what, got.p != NULL ? got.p : "none");
    fr_buf_finish(&got);
}

static void check_end(struct world *w)
{
    must_be(w, "runs that succeeded", "SELECT count(*) FROM run WHERE outcome = 'succeeded'",
            "5\n");
    must_be(w, "two runs at a time",
            "SELECT a.no, b.no FROM run a, run b WHERE a.started_wall < b.started_wall AND "
            "b.started_wall < a.ended_wall",
            "");
    must_be(w, "runs that overtook others",
            "SELECT a.no, b.no FROM run a, run b WHERE a.started_wall < b.started_wall AND "
            "b.queued_wall < a.started_wall AND (b.priority > a.priority OR b.priority = "
            "a.priority AND b.no < a.no)",
            "");
    must_be(w, "attempts", "SELECT count(*) FROM attempt", "15\n");
    must_be(
        w, "admissions of a run",
        "SELECT (SELECT no FROM run WHERE id = e.run), count(*) FROM event e WHERE idx = -1 AND "
        "kind = 'running' AND run IN (SELECT run FROM event WHERE kind = 'queued' AND idx = -1) "
        "GROUP BY run HAVING count(*) <> 1",
        "");
}

static bool run_case(struct world *w, struct killing *k, uint64_t seed)
{
    bool ok;

    w->test = k;
    w->runs = RUNS;
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
