/*
 * Pictures of a plan as text and as dot. Names come from a checked file, but are escaped all the
 * same: a picture of a run is often pasted elsewhere.
 */
#include "engine/plan/internal.h"

#include <string.h>

static struct fr_plan_look look_of(const struct fr_plan_draw *how, uint32_t task)
{
    struct fr_plan_look none = {NULL, NULL};

    return how != NULL && how->look != NULL ? how->look(how->ctx, task) : none;
}

/* The task at place i of a longest chain has depth i. */
static bool is_critical(const struct fr_plan *plan, uint32_t task)
{
    uint32_t depth = plan->tasks[task].depth;

    return depth < plan->n_critical && plan->critical[depth] == task;
}

bool plan_follows(const struct fr_plan *plan, uint32_t need, uint32_t user)
{
    return is_critical(plan, need) && is_critical(plan, user) &&
           plan->tasks[need].depth + 1 == plan->tasks[user].depth;
}

static void add_visible(struct fr_buf *out, const char *s)
{
    fr_buf_visible(out, s, strlen(s));
}

static void add_nodes(const struct fr_plan *plan, const struct fr_plan_task *task,
                      struct fr_buf *out)
{
    for (uint32_t k = 0; k < task->width && k < task->count; k++) {
        if (k > 0)
            fr_buf_text(out, " ");
        add_visible(out, plan->nodes[plan->insts[task->first + k].node].name);
    }
}

/* How many instances, and the names that their items have. */
static void add_count(const struct fr_plan_task *task, struct fr_buf *out)
{
    const struct fr_items *items = task->spec->items;

    if (task->awaited)
        fr_buf_text(out, " xn");
    else
        fr_buf_fmt(out, " x%u", fr_plan_rows(task));
    if (items != NULL && items->of_list)
        fr_buf_text(out, " by item");
    for (size_t i = 0; items != NULL && i < items->n_names; i++) {
        fr_buf_text(out, i == 0 ? " by " : ", ");
        add_visible(out, items->names[i]);
    }
}

/* What the task asks of the need at place i: "succeeded, skipped", "skip_with". */
static void add_rule(const struct fr_plan_task *task, uint32_t i, struct fr_buf *out)
{
    const struct fr_need_rule *rule = task->rules != NULL ? &task->rules[i] : NULL;

    if (rule == NULL)
        return;
    fr_states_add(rule->states, out);
    if (rule->skip_with)
        fr_buf_fmt(out, "%sskip_with", rule->states != 0 ? "; " : "");
}

static void text_needs(const struct fr_plan *plan, uint32_t t, struct fr_buf *out)
{
    const struct fr_plan_task *task = &plan->tasks[t];
    struct fr_buf rule = {0};

    for (uint32_t i = 0; i < task->n_needs; i++) {
        fr_buf_text(out, i == 0 ? " <- " : ", ");
        add_visible(out, plan->tasks[task->needs[i]].name);
        if (fr_plan_is_same(plan, t, task->needs[i]))
            fr_buf_text(out, " item by item");
        rule.n = 0;
        add_rule(task, i, &rule);
        if (rule.n > 0)
            fr_buf_fmt(out, " (%s)", rule.p);
    }
    out->bad = out->bad || rule.bad;
    fr_buf_finish(&rule);
    if (task->spec->run_if != FR_RUN_IF_SUCCESS)
        fr_buf_fmt(out, "; run_if: %s", fr_run_if_name(task->spec->run_if));
}

static void text_line(const struct fr_plan *plan, uint32_t t, const struct fr_plan_draw *how,
                      struct fr_buf *out)
{
    const struct fr_plan_task *task = &plan->tasks[t];
    struct fr_plan_look look = look_of(how, t);

    fr_buf_fmt(out, "%*s%s ", (int)(task->depth * 2), "", is_critical(plan, t) ? "*" : "-");
    add_visible(out, task->name);
    if (task->gang)
        fr_buf_text(out, " gang");
    if (how != NULL && how->nodes) {
        fr_buf_text(out, " [");
        add_nodes(plan, task, out);
        fr_buf_text(out, "]");
    } else if (task->count != 1 || task->spec->items != NULL) {
        add_count(task, out);
    }
    if (look.word != NULL) {
        fr_buf_text(out, " (");
        add_visible(out, look.word);
        fr_buf_text(out, ")");
    }
    text_needs(plan, t, out);
    fr_buf_text(out, "\n");
}

void fr_plan_draw_text(const struct fr_plan *plan, const struct fr_plan_draw *how,
                       struct fr_buf *out)
{
    uint32_t n = plan->n_tasks - plan->n_hooks, n_insts = 0;

    for (uint32_t t = 0; t < n; t++)
        n_insts += fr_plan_rows(&plan->tasks[t]);
    add_visible(out, plan->spec->name);
    fr_buf_fmt(out, ": %u task%s, %u instance%s, longest chain %u\n", n, fr_plural(n), n_insts,
               fr_plural(n_insts), plan->n_critical);
    for (uint32_t k = 0; k < n; k++)
        text_line(plan, plan->order[k], how, out);
    for (uint32_t t = n; t < plan->n_tasks && how != NULL && how->hooks; t++)
        text_line(plan, t, how, out);
}

/* A quoted string of dot: a quote and a backslash are escaped. */
static void add_quoted(struct fr_buf *out, const char *s)
{
    fr_buf_text(out, "\"");
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            fr_buf_add(out, "\\", 1);
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            fr_buf_fmt(out, "\\\\x%02x", (unsigned)(unsigned char)*s);
        else
            fr_buf_add(out, s, 1);
    }
    fr_buf_text(out, "\"");
}

static void dot_label(const struct fr_plan *plan, uint32_t t, const struct fr_plan_draw *how,
                      struct fr_buf *out)
{
    const struct fr_plan_task *task = &plan->tasks[t];
    struct fr_plan_look look = look_of(how, t);
    struct fr_buf label = {0};

    add_visible(&label, task->name);
    if (task->gang)
        fr_buf_fmt(&label, " (gang)");
    if (how != NULL && how->nodes) {
        fr_buf_text(&label, "\n");
        add_nodes(plan, task, &label);
    } else if (task->count != 1 || task->spec->items != NULL) {
        add_count(task, &label);
    }
    if (task->spec->run_if != FR_RUN_IF_SUCCESS)
        fr_buf_fmt(&label, "\nrun_if: %s", fr_run_if_name(task->spec->run_if));
    if (look.word != NULL)
        fr_buf_fmt(&label, "\n%s", look.word);
    fr_buf_text(out, "[label=\"");
    for (size_t i = 0; i < label.n; i++) {
        char c = label.p[i];

        if (c == '\n') {
            fr_buf_text(out, "\\n");
            continue;
        }
        if (c == '"' || c == '\\')
            fr_buf_add(out, "\\", 1);
        fr_buf_add(out, &c, 1);
    }
    fr_buf_text(out, "\"");
    if (look.color != NULL) {
        fr_buf_text(out, ", style=\"rounded,filled\", fillcolor=");
        add_quoted(out, look.color);
    }
    if (is_critical(plan, t))
        fr_buf_text(out, ", penwidth=2");
    fr_buf_text(out, "]");
    out->bad = out->bad || label.bad;
    fr_buf_finish(&label);
}

/* What stands behind the arrow from the need at place i. */
static void dot_edge(const struct fr_plan_task *task, uint32_t i, bool critical, struct fr_buf *out)
{
    struct fr_buf rule = {0};

    add_rule(task, i, &rule);
    if (critical)
        fr_buf_text(out, " [penwidth=2");
    if (rule.n > 0) {
        fr_buf_text(out, critical ? ", label=" : " [label=");
        add_quoted(out, rule.p);
    }
    fr_buf_text(out, critical || rule.n > 0 ? "];\n" : ";\n");
    out->bad = out->bad || rule.bad;
    fr_buf_finish(&rule);
}

void fr_plan_draw_dot(const struct fr_plan *plan, const struct fr_plan_draw *how,
                      struct fr_buf *out)
{
    uint32_t n = plan->n_tasks - plan->n_hooks;
    uint32_t shown = how != NULL && how->hooks ? plan->n_tasks : n;

    fr_buf_text(out, "digraph ");
    add_quoted(out, plan->spec->name);
    fr_buf_text(out, " {\n    rankdir=LR;\n    node [shape=box, style=rounded, "
                     "fontname=\"sans-serif\"];\n");
    for (uint32_t t = 0; t < shown; t++) {
        fr_buf_text(out, "    ");
        add_quoted(out, plan->tasks[t].name);
        fr_buf_text(out, " ");
        dot_label(plan, t, how, out);
        fr_buf_text(out, ";\n");
    }
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < plan->tasks[t].n_needs; i++) {
            uint32_t need = plan->tasks[t].needs[i];

            fr_buf_text(out, "    ");
            add_quoted(out, plan->tasks[need].name);
            fr_buf_text(out, " -> ");
            add_quoted(out, plan->tasks[t].name);
            dot_edge(&plan->tasks[t], i, plan_follows(plan, need, t), out);
        }
    fr_buf_text(out, "}\n");
}
