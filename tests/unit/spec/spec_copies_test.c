/* copies: of an allocation in an inventory: places, and what cannot be one. */
#include "tests/unit/spec/spec_load.h"

#define NODES(allocations) "nodes: {slurm: {work: /w, allocations: {" allocations "}}}\n"

static const struct {
    const char *name, *text, *want;
} wrong[] = {
    {"nodes and copies", NODES("t: {time: 1h, nodes: 2, copies: 3}") "tasks: {a: {run: x}}",
     "p.yaml:1:73: allocation 't' has both nodes and copies; expected nodes: (one allocation) or "
     "copies: (many of one node)"},
    {"no copies", NODES("t: {time: 1h, copies: 0}") "tasks: {a: {run: x}}",
     "p.yaml:1:63: copies is '0'; expected a whole number from 1 to 100000"},
    {"more places than there may be",
     "nodes: {slurm: {work: /w, allocations: {a: {time: 1h, copies: 100000}, b: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:40: all allocations have 100001 nodes together; expected at most 100000"},
    {"a copy and an allocation",
     "nodes: {slurm: {work: /w, allocations: {a: {time: 1h, copies: 11}, a11: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:68: allocation 'a11' has the name of a place of allocation 'a', which has a1 to "
     "a11; expected another name"},
    {"no jobs",
     "nodes: {slurm: {work: /w, max_jobs: 0, allocations: {a: {time: 1h}}}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:37: max_jobs is '0'; expected a whole number from 1 to 100000"},
    {"a gang of copies",
     "nodes: {slurm: {work: /w, allocations: {a: {time: 1h, copies: 3}}}}\n"
     "tasks: {t: {run: x, gang: true, on: a}}",
     "p.yaml:2:37: task 't' is a gang, which has one allocation; a1 and a2 are of two; expected "
     "on: a1, or on: a2"},
};

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_issues issues = {0};
        struct fr_spec *spec;

        check_row(wrong[i].name);
        CHECK_INT(load(wrong[i].text, NULL, 0, &spec, &issues), FR_USAGE);
        CHECK_INT(issues.n, 1);
        CHECK_TEXT(issues.n > 0 ? issues.lines[0] : "", wrong[i].want);
        fr_issues_finish(&issues);
        fr_spec_destroy(spec);
    }
}

/* Copies are places of one node each, in a row. */
static void test_copies(void)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    const char *text =
        "nodes: {slurm: {work: /w, max_jobs: 7, allocations: {w: {time: 1h, copies: 12},\n"
        "  t: {time: 1h, nodes: 2}}}}\n"
        "tasks: {a: {run: x, on: w}, b: {run: x, on: w12}, c: {run: x, on: w3, gang: true},\n"
        "  d: {run: x, on: t, gang: true}}\n";
    const struct fr_allocation_spec *w, *t;

    if (!CHECK_INT(load(text, NULL, 0, &spec, &issues), FR_OK)) {
        fr_issues_finish(&issues);
        return;
    }
    w = &spec->slurm->allocations[0];
    t = &spec->slurm->allocations[1];
    CHECK_INT(spec->slurm->max_jobs, 7);
    CHECK(w->copies == 12 && w->nodes == 1 && fr_allocation_places(w) == 12 && w->first == 0);
    CHECK(t->copies == 0 && fr_allocation_places(t) == 2 && t->first == 12);
    CHECK_INT(spec->n_nodes, 14);
    CHECK_INT(spec->tasks[0].n_nodes, 12);
    CHECK_INT(spec->tasks[1].nodes[0], 11);
    CHECK_TEXT(spec->nodes[11].name, "w12");
    CHECK_INT(spec->nodes[11].place, 12);
    fr_spec_destroy(spec);
}

int main(void)
{
    test_wrong();
    test_copies();
    return check_done();
}
