/*
 * A list of more elements than one commit has rows for: flowrun is killed, or the power of control
 * fails, at each commit of the run, before it and behind it. The list is evaluated once it is
 * stored never again, nothing of it starts before all rows are committed, and each element runs
 * once.
 *
 *     expand_test [POINT [power]]    one case, and its story
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 1203, RUNNING = 3 };

struct expanding {
    uint64_t point, at; /* commits, 1, 2, …; 0: none */
    bool power, struck;
    long rows; /* of elements, that were seen committed */
    long had;  /* … when flowrun was killed */
};

/* What is committed makes sense at each moment. */
static void judge(struct world *w)
{
    struct expanding *x = w->test;
    long rows = world_number(w, "SELECT count(*) FROM instance WHERE key LIKE 'each[%'");
    long lists = world_number(w, "SELECT count(*) FROM item_list");

    if (rows < x->rows || (rows > 0) != (lists > 0) || lists > 1)
        world_violated(w, "%ld rows of elements behind %ld, %ld lists", rows, x->rows, lists);
    if (rows < ELEMENTS &&
        world_number(w, "SELECT count(*) FROM attempt a JOIN instance i ON i.run = "
                        "a.run AND i.idx = a.idx WHERE i.task = 'each'") > 0)
        world_violated(w, "an element began, and %ld rows are there", rows);
    if (rows > 0 && world_number(w, "SELECT count(*) FROM instance WHERE key = 'each'") > 0)
        world_violated(w, "elements, and what stood for them");
    if (rows > 0 && world_number(w, "SELECT count(*) FROM instance WHERE key = 'other'") != 1)
        world_violated(w, "what stands for another list is not there once");
    if (x->had > 0 && rows < ELEMENTS &&
        world_number(w, "SELECT count(*) FROM run, home WHERE host = epoch AND epoch > 1") > 0)
        world_violated(w, "the next host goes on with %ld rows", rows);
    x->rows = rows;
}

static void on_point(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);
    struct expanding *x = w->test;

    if (what != SIM_AT_COMMIT)
        return;
    x->at++;
    if (x->power && x->struck)
        x->rows = 0; /* what was not synced may be gone */
    judge(w);
    if (x->struck || x->at != x->point || w->engine == NULL)
        return;
    x->struck = true;
    x->had = x->power ? 0 : x->rows;
    world_kill_engine(w, x->power);
}

static void begin(struct world *w)
{
    w->sim.on_point = on_point;
    w->restart_max_us = 300000;
}

static char pipeline[16384];

static void make_pipeline(void)
{
    size_t n = (size_t)snprintf(pipeline, sizeof(pipeline),
                                "name: expand\nnodes: [{name: n1, executor: local}]\ntasks:\n"
                                "  give: {outputs: [v], argv: [sim, \"50\", \"0\", out]}\n"
                                "  each: {needs: [give], when: index < %d, outputs: [v], argv: "
                                "[sim, \"40\", \"0\", out], foreach: '[\"${{ tasks.give.outputs.v "
                                "}}\"",
                                RUNNING);

    for (int i = 1; i < ELEMENTS; i++)
        n += (size_t)snprintf(pipeline + n, sizeof(pipeline) - n, ",%d", i);
    snprintf(pipeline + n, sizeof(pipeline) - n,
             "]'}\n  other: {needs: [each], run_if: failure, foreach: \"${{ tasks.each.all.v }}\", "
             "argv: [sim, \"10\", \"0\"]}\n");
}

/* The number of commit points; 0: the case failed. */
static uint64_t run_case(struct world *w, uint64_t point, bool power)
{
    struct expanding x = {.point = point, .power = power};
    int before = check_counts.failed;

    w->test = &x;
    CHECK(world_run(w, pipeline, 1, begin));
    CHECK_INT(w->outcome, FR_OUT_SUCCEEDED);
    CHECK_INT(x.rows, ELEMENTS);
    CHECK_INT(world_number(w, "SELECT count(*) FROM instance WHERE key LIKE 'each[%' AND state = "
                              "'succeeded' AND attempt_no = 1"),
              RUNNING);
    CHECK_INT(world_number(w, "SELECT count(*) FROM instance WHERE key LIKE 'each[%' AND state = "
                              "'skipped' AND attempt_no = 0"),
              ELEMENTS - RUNNING);
    CHECK_INT(world_number(w, "SELECT count(*) FROM event WHERE kind = 'expanded'"), 1);
    CHECK_INT(world_number(w, "SELECT max(idx) FROM instance"), ELEMENTS + 1);
    CHECK_INT(
        world_number(w, "SELECT count(*) FROM instance WHERE key = 'other' AND state = 'skipped'"),
        1);
    if (check_counts.failed > before)
        printf("%s at commit point %" PRIu64 ": %s\n", power ? "power" : "kill", point, w->why);
    world_finish(w);
    return check_counts.failed > before ? 0 : x.at;
}

int main(int argc, char **argv)
{
    struct world *w = calloc(1, sizeof(*w));
    uint64_t points, n = 0;
    char row[64];

    world_setup();
    make_pipeline();
    if (argc > 1) {
        (void)run_case(w, strtoull(argv[1], NULL, 10), argc > 2);
    } else {
        w->quiet = true;
        points = run_case(w, 0, false);
        for (uint64_t i = 1; i <= points; i++)
            for (int power = 0; power < 2; power++, n++) {
                snprintf(row, sizeof(row), "%s at commit point %" PRIu64, power ? "power" : "kill",
                         i);
                check_row(row);
                (void)run_case(w, i, power);
            }
        printf("%" PRIu64 " kills and power cuts\n", n);
    }
    world_clean();
    free(w);
    return check_done();
}
