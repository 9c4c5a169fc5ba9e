/* Plans from specs written as short texts (minispec.h): orders, cycles, keys, pictures. */
#include "engine/plan/plan.h"

#include "tests/unit/check.h"
#include "tests/unit/sched/minispec.h"

static void show_plan(const struct fr_plan *p, struct fr_buf *out)
{
    for (uint32_t k = 0; k < p->n_tasks - p->n_hooks; k++)
        fr_buf_fmt(out, "%s%s/%u/%u", k ? " " : "", p->tasks[p->order[k]].name,
                   p->tasks[p->order[k]].depth, p->tasks[p->order[k]].rank);
    fr_buf_text(out, " |");
    for (uint32_t k = 0; k < p->n_critical; k++)
        fr_buf_fmt(out, " %s", p->tasks[p->critical[k]].name);
}

/* order as name/depth/rank, then the critical path; or the error */
static const struct {
    const char *row, *text, *want;
} plans[] = {
    {"one", "a", "a/0/1 | a"},
    {"chain", "a; b: a; c: b", "a/0/3 b/1/2 c/2/1 | a b c"},
    {"needs written later", "c: b; b: a; a", "a/0/3 b/1/2 c/2/1 | a b c"},
    {"diamond", "a; b: a; c: a; d: c b", "a/0/3 b/1/2 c/1/2 d/2/1 | a b d"},
    {"two chains, the longer is critical", "x; y: x; a; b: a; c: b",
     "x/0/2 a/0/3 y/1/1 b/1/2 c/2/1 | a b c"},
    {"of two of one length the first is critical", "x; y: x; a; b: a",
     "x/0/2 a/0/2 y/1/1 b/1/1 | x y"},
    {"depth is the longest way", "a; b: a; c: a b", "a/0/3 b/1/2 c/2/1 | a b c"},
    {"itself", "a: a", "tasks wait for each other"},
    {"pair", "a: b; b: a", "tasks wait for each other"},
    {"cycle behind a tail and before one", "s; t: s; a: t c; b: a; c: b; z: c",
     "tasks wait for each other"},
    {"too many slots", "a: slots=9",
     "p.yaml:1:3: task 'a' takes 9 slots, node 'n1' has 8: lower the task's slots or raise the "
     "node's"},
};

static void test_plans(void)
{
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        struct minispec m;
        struct fr_arena arena = {0};
        struct fr_plan *plan;
        struct fr_err err = {0};
        struct fr_buf out = {0};

        check_row(plans[i].row);
        mini_make(&m, plans[i].text);
        if (fr_plan_make(&m.spec, &arena, &plan, &err) == FR_OK)
            show_plan(plan, &out);
        else
            fr_buf_text(&out, err.msg);
        CHECK_TEXT(out.p, plans[i].want);
        CHECK((plan == NULL) == (err.rc == FR_USAGE));
        fr_buf_finish(&out);
        fr_arena_finish(&arena);
    }
}

static void test_instances(void)
{
    static const char *const keys[] = {"a@n1", "a@n2",      "a@n3",
                                       "b@n1", "c@control", "on_exit.0@control"};
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;

    check_row("instances");
    mini_make(&m, "a: @all gang; b: a; c: b @control; !exit on_exit.0");
    if (!CHECK(fr_plan_make(&m.spec, &arena, &plan, NULL) == FR_OK))
        return;
    CHECK_INT(plan->n_insts, 6);
    CHECK_INT(plan->n_hook_insts, 1);
    CHECK_INT(plan->control, 3);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_TEXT(plan->insts[i].key, keys[i]);
        CHECK_INT(fr_plan_inst(plan, keys[i]), i);
    }
    CHECK_INT(plan->insts[2].member, 2);
    CHECK_INT(fr_plan_inst(plan, "a@n4"), FR_PLAN_NONE);
    CHECK_INT(fr_plan_inst_on(plan, 0, 0, 1), 1);
    CHECK_INT(fr_plan_inst_on(plan, 1, 0, 1), FR_PLAN_NONE);
    CHECK_INT(fr_plan_task(plan, "c"), 2);
    CHECK_INT(fr_plan_node(plan, "control"), 3);
    CHECK(plan->tasks[0].gang && plan->tasks[3].hook == FR_HOOK_EXIT);
    fr_arena_finish(&arena);
}

/* One instance more than a run may have; the list of nodes is not looked at before. */
static void test_too_many(void)
{
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    struct fr_err err = {0};

    check_row("too many");
    mini_make(&m, "a; b");
    m.tasks[0].n_nodes = FR_PLAN_MAX_INSTS;
    CHECK_INT(fr_plan_make(&m.spec, &arena, &plan, &err), FR_USAGE);
    CHECK(strstr(err.msg, "instances in a run") != NULL && plan == NULL);
    fr_arena_finish(&arena);
}

static void test_marks(void)
{
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    bool up[8] = {false};

    check_row("marks");
    mini_make(&m, "e: d; d: b; c: a; b: a; a; !exit h");
    if (!CHECK(fr_plan_make(&m.spec, &arena, &plan, NULL) == FR_OK))
        return;
    fr_plan_mark_needs(plan, 1, up);
    CHECK(!up[0] && up[1] && !up[2] && up[3] && up[4] && !up[5]);
    fr_arena_finish(&arena);
}

static struct fr_plan_look look(void *ctx, uint32_t task)
{
    struct fr_plan_look l = {task == 0 ? "done" : NULL, task == 0 ? "green" : NULL};

    (void)ctx;
    return l;
}

static void test_draw(void)
{
    struct fr_plan_draw how = {look, NULL, true, true};
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    struct fr_buf out = {0};

    mini_make(&m, "a: @all gang; b: a; c; d: b a; !exit on_exit.0");
    snprintf(m.names[2], sizeof m.names[2], "c\"\\\033");
    if (!CHECK(fr_plan_make(&m.spec, &arena, &plan, NULL) == FR_OK))
        return;
    check_row("text");
    fr_plan_draw_text(plan, &how, &out);
    CHECK_TEXT(out.p, "demo: 4 tasks, 6 instances, longest chain 3\n"
                      "* a gang [n1 n2 n3] (done)\n"
                      "- c\"\\\\x1b [n1]\n"
                      "  * b [n1] <- a\n"
                      "    * d [n1] <- a, b\n"
                      "- on_exit.0 [control]\n");
    fr_buf_finish(&out);
    check_row("dot");
    out = (struct fr_buf){0};
    fr_plan_draw_dot(plan, NULL, &out);
    CHECK_TEXT(out.p, "digraph \"demo\" {\n"
                      "    rankdir=LR;\n"
                      "    node [shape=box, style=rounded, fontname=\"sans-serif\"];\n"
                      "    \"a\" [label=\"a (gang) x3\", penwidth=2];\n"
                      "    \"b\" [label=\"b\", penwidth=2];\n"
                      "    \"c\\\"\\\\\\\\x1b\" [label=\"c\\\"\\\\\\\\x1b\"];\n"
                      "    \"d\" [label=\"d\", penwidth=2];\n"
                      "    \"a\" -> \"b\" [penwidth=2];\n"
                      "    \"a\" -> \"d\";\n"
                      "    \"b\" -> \"d\" [penwidth=2];\n"
                      "}\n");
    fr_buf_finish(&out);
    check_row("dot with looks, nodes and hooks");
    out = (struct fr_buf){0};
    fr_plan_draw_dot(plan, &how, &out);
    CHECK_TEXT(out.p, "digraph \"demo\" {\n"
                      "    rankdir=LR;\n"
                      "    node [shape=box, style=rounded, fontname=\"sans-serif\"];\n"
                      "    \"a\" [label=\"a (gang)\\nn1 n2 n3\\ndone\", style=\"rounded,filled\", "
                      "fillcolor=\"green\", penwidth=2];\n"
                      "    \"b\" [label=\"b\\nn1\", penwidth=2];\n"
                      "    \"c\\\"\\\\\\\\x1b\" [label=\"c\\\"\\\\\\\\x1b\\nn1\"];\n"
                      "    \"d\" [label=\"d\\nn1\", penwidth=2];\n"
                      "    \"on_exit.0\" [label=\"on_exit.0\\ncontrol\"];\n"
                      "    \"a\" -> \"b\" [penwidth=2];\n"
                      "    \"a\" -> \"d\";\n"
                      "    \"b\" -> \"d\" [penwidth=2];\n"
                      "}\n");
    fr_buf_finish(&out);
    fr_arena_finish(&arena);
}

/* When tasks start, and what they ask of single needs. */
static void test_draw_rules(void)
{
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    struct fr_buf out = {0};

    mini_make(&m, "a; b: a onfail; c: b~/sk a/f any; d: c~ ended");
    if (!CHECK(fr_plan_make(&m.spec, &arena, &plan, NULL) == FR_OK))
        return;
    check_row("text with rules");
    fr_plan_draw_text(plan, NULL, &out);
    CHECK_TEXT(out.p, "demo: 4 tasks, 4 instances, longest chain 4\n"
                      "* a\n"
                      "  * b <- a; run_if: failure\n"
                      "    * c <- a (failed), b (succeeded, skipped; skip_with); run_if: any\n"
                      "      * d <- c (skip_with); run_if: always\n");
    fr_buf_finish(&out);
    check_row("dot with rules");
    out = (struct fr_buf){0};
    fr_plan_draw_dot(plan, NULL, &out);
    CHECK_TEXT(strstr(out.p, "    \"a\""),
               "    \"a\" [label=\"a\", penwidth=2];\n"
               "    \"b\" [label=\"b\\nrun_if: failure\", penwidth=2];\n"
               "    \"c\" [label=\"c\\nrun_if: any\", penwidth=2];\n"
               "    \"d\" [label=\"d\\nrun_if: always\", penwidth=2];\n"
               "    \"a\" -> \"b\" [penwidth=2];\n"
               "    \"a\" -> \"c\" [label=\"failed\"];\n"
               "    \"b\" -> \"c\" [penwidth=2, label=\"succeeded, skipped; skip_with\"];\n"
               "    \"c\" -> \"d\" [penwidth=2, label=\"skip_with\"];\n"
               "}\n");
    fr_buf_finish(&out);
    fr_arena_finish(&arena);
}

/* What is not asked for is not drawn. */
static void test_draw_bare(void)
{
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    struct fr_buf out = {0};

    mini_make(&m, "a: @all gang; b: a; c; d: b a; !exit on_exit.0");
    if (!CHECK(fr_plan_make(&m.spec, &arena, &plan, NULL) == FR_OK))
        return;
    check_row("text without looks, nodes and hooks");
    fr_plan_draw_text(plan, NULL, &out);
    CHECK_TEXT(out.p, "demo: 4 tasks, 6 instances, longest chain 3\n"
                      "* a gang x3\n"
                      "- c\n"
                      "  * b <- a\n"
                      "    * d <- a, b\n");
    fr_buf_finish(&out);
    fr_arena_finish(&arena);
}

int main(void)
{
    test_plans();
    test_instances();
    test_too_many();
    test_marks();
    test_draw();
    test_draw_rules();
    test_draw_bare();
    return check_done();
}
