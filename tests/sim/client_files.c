#include "tests/sim/client_files.h"

#include "engine/base/str.h"

#include <stdio.h>

static const char pipeline[] =
    "name: p\n"
    "nodes:\n"
    "  - {name: n1, executor: local, slots: 2}\n"
    "  - {name: n2, executor: local, slots: 2}\n"
    "tasks:\n"
    "  a: {on: all, argv: [sim, \"500\", \"0\"]}\n"
    "  b: {on: n2, needs: [a], argv: [sim, \"1000\", \"3\", once], retry: {times: 3, delay: "
    "300ms}}\n"
    "  c: {on: n1, needs: [b], argv: [sim, \"300\", \"0\"]}\n";

static const char small[] = "name: q\n"
                            "nodes: [{name: n1, executor: local, slots: 2}]\n"
                            "tasks: {q: {on: n1, argv: [sim, \"100\", \"0\"]}}\n";

/* The outer task holds the only slot of home, and the inner one needs it. */
static const char outer[] = "name: outer\n"
                            "nodes: [{name: home, executor: local, slots: 1}]\n"
                            "tasks:\n"
                            "  o: {on: home, argv: [sim, \"0\", \"0\", nest, /inner.yaml]}\n"
                            "  q: {on: home, needs: [o], argv: [sim, \"100\", \"0\"]}\n";
/* The inner one comes later. */
static const char late[] = "name: late\n"
                           "nodes: [{name: home, executor: local, slots: 1}]\n"
                           "tasks:\n"
                           "  w: {on: home, argv: [sim, \"1000\", \"0\"]}\n"
                           "  o: {on: home, needs: [w], argv: [sim, \"0\", \"0\", nest, "
                           "/inner.yaml], timeout: 60s}\n";
/* Its end is committed before its last output comes. */
static const char loud[] = "name: loud\n"
                           "nodes: [{name: n1, executor: local}]\n"
                           "tasks: {l: {on: n1, argv: [sim, \"800\", \"0\", loud]}}\n";
static const char hold[] = "name: hold\n"
                           "nodes: [{name: n1, executor: local, slots: 1}]\n"
                           "tasks: {h: {on: n1, argv: [sim, \"5000\", \"0\"]}}\n";
static const char chain[] = "name: chain\n"
                            "nodes: [{name: n1, executor: local, slots: 1}]\n"
                            "tasks:\n"
                            "  x: {on: n1, argv: [sim, \"2000\", \"0\"]}\n"
                            "  y: {on: n1, needs: [x], argv: [sim, \"20000\", \"0\"]}\n";
static const char wait_yaml[] = "name: wait\n"
                                "nodes: [{name: n2, executor: local}]\n"
                                "tasks: {w: {on: n2, argv: [sim, \"60000\", \"0\"]}}\n";
static const char two[] = "name: two\n"
                          "nodes: [{name: n1, executor: local, slots: 2}]\n"
                          "tasks:\n"
                          "  x: {on: n1, argv: [sim, \"60000\", \"0\"]}\n"
                          "  y: {on: n1, argv: [sim, \"2000\", \"0\"]}\n";
/* Two gangs want n1 whole, of which x has a slot: first a, and b once n2 is gone. */
static const char gangs[] =
    "name: gangs\n"
    "nodes:\n"
    "  - {name: n1, executor: local, slots: 2}\n"
    "  - {name: n2, executor: local, slots: 2}\n"
    "tasks:\n"
    "  x: {on: n1, argv: [sim, \"60000\", \"0\"]}\n"
    "  a: {on: all, gang: true, slots: 2, argv: [sim, \"100\", \"0\"]}\n"
    "  d: {on: n2, argv: [sim, \"3000\", \"0\"]}\n"
    "  b: {on: n1, gang: true, slots: 2, needs: [d], argv: [sim, \"100\", \"0\"]}\n";
static const char inner[] = "name: inner\n"
                            "nodes: [{name: home, executor: local, slots: 1}]\n"
                            "tasks: {i: {on: home, argv: [sim, \"200\", \"0\"]}}\n";

enum { MANY = 45 };

static void put_many(struct sim_machine *control)
{
    struct fr_buf b = {0};

    fr_buf_text(&b, "name: many\nnodes: [{name: n1, executor: local, slots: 8}]\ntasks:\n");
    for (int i = 0; i < MANY; i++)
        fr_buf_fmt(&b, "  m%d: {on: n1, argv: [sim, \"20\", \"0\"]}\n", i);
    sim_put_file(control, "/many.yaml", b.p);
    fr_buf_finish(&b);
}

void client_files_put(struct world *w, bool one)
{
    struct sim_machine *control = &w->sim.machines[0];
    char path[160];

    sim_put_file(control, "/p.yaml", pipeline);
    sim_put_file(control, "/q.yaml", small);
    sim_put_file(control, "/outer.yaml", outer);
    sim_put_file(control, "/late.yaml", late);
    sim_put_file(control, "/inner.yaml", inner);
    sim_put_file(control, "/loud.yaml", loud);
    sim_put_file(control, "/wait.yaml", wait_yaml);
    sim_put_file(control, "/hold.yaml", hold);
    sim_put_file(control, "/chain.yaml", chain);
    put_many(control);
    sim_put_file(control, "/two.yaml", two);
    sim_put_file(control, "/gangs.yaml", gangs);
    if (one) {
        snprintf(path, sizeof(path), "%s/config.yaml", w->home);
        sim_put_file(control, path, "limits: {max_active_runs: 1}\n");
    }
}
