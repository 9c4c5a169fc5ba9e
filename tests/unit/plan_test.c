/* Plans from specs written as short texts: "a; b: a; c: a b @all gang" is tasks, needs, places. */
#include "engine/plan/plan.h"

#include "tests/unit/check.h"

enum { MAX_TASKS = 16 };

struct made {
    struct fr_spec spec;
    struct fr_task tasks[MAX_TASKS];
    struct fr_task hook;
    struct fr_node nodes[3];
    char names[MAX_TASKS][32];
    int needs[MAX_TASKS][MAX_TASKS];
    struct fr_source source;
};

static const int all_nodes[3] = {0, 1, 2};
static const int control_node[1] = {FR_NODE_CONTROL};

static int task_of(struct made *m, const char *name)
{
    for (size_t t = 0; t < m->spec.n_tasks; t++)
        if (strcmp(m->names[t], name) == 0)
            return (int)t;
    return -1;
}

static void add_word(struct made *m, size_t t, const char *word)
{
    struct fr_task *task = &m->tasks[t];

    if (strcmp(word, "@all") == 0) {
        task->n_nodes = 3;
    } else if (strcmp(word, "@control") == 0) {
        task->nodes = control_node;
    } else if (strcmp(word, "gang") == 0) {
        task->gang = true;
    } else if (strcmp(word, "fat") == 0) {
        task->slots = 9;
    } else {
        m->needs[t][task->n_needs++] = task_of(m, word);
    }
}

/* Two passes, so that a need may stand before its task. */
static void make_spec(struct made *m, const char *text)
{
    static const char *const names[3] = {"n1", "n2", "n3"};
    char copy[512], *save, *save2;

    memset(m, 0, sizeof *m);
    m->source.path = "p.yaml";
    m->spec.sources[0] = m->source;
    m->spec.name = "demo";
    m->spec.max_parallel = 16;
    for (int n = 0; n < 3; n++)
        m->nodes[n] = (struct fr_node){.name = names[n], .slots = 8};
    m->spec.nodes = m->nodes;
    m->spec.n_nodes = 3;
    for (int pass = 0; pass < 2; pass++) {
        size_t t = 0;

        snprintf(copy, sizeof copy, "%s", text);
        for (char *one = strtok_r(copy, ";", &save); one; one = strtok_r(NULL, ";", &save), t++) {
            char *word = strtok_r(one, " :", &save2);

            snprintf(m->names[t], sizeof m->names[t], "%s", word);
            m->tasks[t].act.name = m->names[t];
            m->tasks[t].act.pos = (struct fr_pos){0, (int)t + 1, 3};
            m->tasks[t].needs = m->needs[t];
            m->tasks[t].slots = m->tasks[t].slots ? m->tasks[t].slots : 1;
            if (pass == 0) {
                m->tasks[t].nodes = all_nodes;
                m->tasks[t].n_nodes = 1;
            }
            while (pass == 1 && (word = strtok_r(NULL, " :", &save2)) != NULL)
                add_word(m, t, word);
        }
        m->spec.n_tasks = t;
    }
    m->spec.tasks = m->tasks;
    m->hook = (struct fr_task){.act.name = "on_exit.0", .nodes = control_node, .n_nodes = 1};
    m->spec.hooks[FR_HOOK_EXIT] = &m->hook;
    m->spec.n_hooks[FR_HOOK_EXIT] = 1;
}

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
    {"depth is the longest way", "a; b: a; c: a b", "a/0/3 b/1/2 c/2/1 | a b c"},
    {"itself", "a: a", "p.yaml:1:3: tasks wait for each other: a (1:3) needs a"},
    {"pair", "a: b; b: a", "p.yaml:1:3: tasks wait for each other: a (1:3) needs b (2:3) needs a"},
    {"cycle behind a tail and before one", "s; t: s; a: t c; b: a; c: b; z: c",
     "p.yaml:3:3: tasks wait for each other: a (3:3) needs c (5:3) needs b (4:3) needs a"},
    {"too many slots", "a: fat",
     "p.yaml:1:3: task 'a' takes 9 slots, node 'n1' has 8: lower the task's slots or raise the "
     "node's"},
};

static void test_plans(void)
{
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        struct made m;
        struct fr_arena arena = {0};
        struct fr_plan *plan;
        struct fr_err err = {0};
        struct fr_buf out = {0};

        check_row(plans[i].row);
        make_spec(&m, plans[i].text);
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
    struct made m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;

    check_row("instances");
    make_spec(&m, "a: @all gang; b: a; c: b @control");
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
    CHECK_INT(fr_plan_inst_on(plan, 0, 1), 1);
    CHECK_INT(fr_plan_inst_on(plan, 1, 1), FR_PLAN_NONE);
    CHECK_INT(fr_plan_task(plan, "c"), 2);
    CHECK_INT(fr_plan_node(plan, "control"), 3);
    CHECK(plan->tasks[0].gang && plan->tasks[3].hook == FR_HOOK_EXIT);
    fr_arena_finish(&arena);
}

static void test_marks(void)
{
    struct made m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    bool down[8] = {false}, up[8] = {false};

    check_row("marks");
    make_spec(&m, "e: d; d: b; c: a; b: a; a");
    if (!CHECK(fr_plan_make(&m.spec, &arena, &plan, NULL) == FR_OK))
        return;
    fr_plan_mark_users(plan, 3, down);
    CHECK(down[0] && down[1] && !down[2] && down[3] && !down[4] && !down[5]);
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
    struct made m;
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    struct fr_buf out = {0};

    make_spec(&m, "a: @all gang; b: a; c");
    snprintf(m.names[2], sizeof m.names[2], "c\"\\\033");
    if (!CHECK(fr_plan_make(&m.spec, &arena, &plan, NULL) == FR_OK))
        return;
    check_row("text");
    fr_plan_draw_text(plan, &how, &out);
    CHECK_TEXT(out.p, "demo: 3 tasks, 5 instances, longest chain 2\n"
                      "* a gang [n1 n2 n3] (done)\n"
                      "- c\"\\\\x1b [n1]\n"
                      "  * b [n1] <- a\n"
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
                      "    \"a\" -> \"b\" [penwidth=2];\n"
                      "}\n");
    fr_buf_finish(&out);
    fr_arena_finish(&arena);
}

int main(void)
{
    test_plans();
    test_instances();
    test_marks();
    test_draw();
    return check_done();
}
