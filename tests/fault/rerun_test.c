/*
 * Kill at every transition while runs that failed run again by themselves, on simulated machines.
 * Each commit, each record in a journal and each frame is two points, just before it takes effect
 * and just after. flowrun, a host that stays, is killed at each, and then another one begins.
 *
 * Beside the rules of world.h: however often it is killed, what failed runs again as often as
 * rerun: says, no more and no less; from its start as new runs, each of which names the one before.
 *
 *     rerun_test               a sample: every STRIDE-th point
 *     rerun_test all [SEED]    every point
 *     rerun_test CASE POINT [SEED]   one case (0, 1, 2), and its story
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 5, SEED = 1 };

static const struct {
    const char *name, *pipeline, *runs, *attempts;
} cases[] = {
    {"from what failed",
     "name: failed\n"
     "rerun: {times: 2, after: 2s}\n"
     "nodes: [{name: n1, executor: local}, {name: n2, executor: local}]\n"
     "tasks:\n"
     "  one: {on: n1, argv: [sim, \"50\", \"0\"]}\n"
     "  two: {on: n2, needs: [one], argv: [sim, \"60\", \"3\"]}\n",
     "1|failed|3|2|0|0\n", "one|1\ntwo|3\n"},
    {"from what failed, once",
     "name: once\n"
     "rerun: {times: 5, after: 1s}\n"
     "nodes: [{name: n1, executor: local}]\n"
     "tasks:\n"
     "  one: {argv: [sim, \"50\", \"3\", once]}\n",
     "1|succeeded|2|1|0|0\n", "one|2\n"},
    {"from its start",
     "name: start\n"
     "rerun: {times: 2, after: 2s, from: start}\n"
     "nodes: [{name: n1, executor: local}]\n"
     "tasks:\n"
     "  one: {argv: [sim, \"50\", \"0\"]}\n"
     "  two: {needs: [one], argv: [sim, \"60\", \"3\"]}\n",
     "1|failed|1|0|0|0\n2|failed|1|1|1|0\n3|failed|1|2|2|0\n", "one|3\ntwo|3\n"},
};

struct killing {
    size_t which;
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

static void check_end(struct world *w, size_t which)
{
    must_be(w, "runs",
            "SELECT no, outcome, round, reruns, retry_of, rerun_wall FROM run ORDER BY no",
            cases[which].runs);
    must_be(w, "attempts",
            "SELECT task, count(*) FROM attempt JOIN instance USING (run, idx) GROUP BY task "
            "ORDER BY task",
            cases[which].attempts);
}

static bool run_case(struct world *w, struct killing *k, uint64_t seed)
{
    bool ok;

    w->test = k;
    w->stays = true;
    world_run(w, cases[k->which].pipeline, seed, begin);
    if (!w->failed)
        check_end(w, k->which);
    ok = !w->failed;
    if (!ok)
        printf("%s: case %zu %" PRIu64 ", seed %" PRIu64 ": %s\n", cases[k->which].name, k->which,
               k->point, seed, w->why);
    world_finish(w);
    return ok;
}

static void kill_all(struct world *w, size_t which, uint64_t step, uint64_t seed)
{
    struct killing none = {.which = which};
    uint64_t n = 0;
    char row[60];

    CHECK(run_case(w, &none, seed));
    for (uint64_t i = 1; i <= none.at; i += step, n++) {
        struct killing k = {.which = which, .point = i};

        snprintf(row, sizeof(row), "case %zu point %" PRIu64, which, i);
        check_row(row);
        CHECK(run_case(w, &k, seed));
    }
    printf("%s, seed %" PRIu64 ": %" PRIu64 " kills at %" PRIu64 " points\n", cases[which].name,
           seed, n, none.at);
}

int main(int argc, char **argv)
{
    struct world *w = calloc(1, sizeof(*w));
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    bool one = argc > 2 && !all;
    uint64_t seed = argc > 2 + one ? strtoull(argv[2 + one], NULL, 10) : SEED;

    world_setup();
    w->quiet = !one;
    for (size_t c = 0; !one && c < sizeof(cases) / sizeof(cases[0]); c++)
        kill_all(w, c, all ? 1 : STRIDE, seed);
    if (one) {
        struct killing k = {strtoul(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), 0};

        CHECK(run_case(w, &k, seed));
    }
    world_clean();
    free(w);
    return check_done();
}
