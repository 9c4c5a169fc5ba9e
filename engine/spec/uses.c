/* References to outputs of other tasks: is the task needed, the output declared, the instance
 * clear? */
#include "engine/spec/load.h"

#include <stdlib.h>
#include <string.h>

static bool runs_on(const struct fr_task *task, int node)
{
    for (size_t i = 0; i < task->n_nodes; i++)
        if (task->nodes[i] == node)
            return true;
    return false;
}

bool needs_walk_init(struct loader *l, struct needs_walk *w)
{
    size_t n = l->spec->n_tasks;

    *w = (struct needs_walk){.tasks = l->spec->tasks, .cyclic = l->cyclic, .to = -1};
    w->seen = load_scratch(l, n, sizeof(*w->seen));
    w->path = load_scratch(l, n, sizeof(*w->path));
    w->next = load_scratch(l, n, sizeof(*w->next));
    return w->seen != NULL && w->path != NULL && w->next != NULL;
}

/* In depth, from a task not seen yet. What is on the path when the answer is yes needs it, and what
 * was left does not. */
static bool walk(struct needs_walk *w, int from)
{
    size_t depth = 0;

    w->path[0] = from;
    w->next[0] = 0;
    w->seen[from] = w->stamp;
    for (;;) {
        const struct fr_task *task = &w->tasks[w->path[depth]];
        int need = w->next[depth] < task->n_needs ? task->needs[w->next[depth]++] : -1;

        if (need < 0 && depth-- == 0)
            return false;
        if (need < 0)
            continue;
        if (need == w->to || w->seen[need] == w->stamp + 1) {
            for (size_t i = 0; i <= depth; i++)
                w->seen[w->path[i]] = w->stamp + 1;
            return true;
        }
        if (w->seen[need] == w->stamp)
            continue;
        w->seen[need] = w->stamp;
        w->path[++depth] = need;
        w->next[depth] = 0;
    }
}

bool needs_task(struct needs_walk *w, const struct fr_task *from, int to)
{
    int at = (int)(from - w->tasks);

    if (w->to != to || w->cyclic) {
        w->to = to;
        w->stamp += 2;
    }
    return w->seen[at] == w->stamp + 1 || (w->seen[at] != w->stamp && walk(w, at));
}

/* Uses of one task's outputs, one after the other. */
static int by_task(const void *a, const void *b)
{
    const struct output_use *x = *(const struct output_use *const *)a;
    const struct output_use *y = *(const struct output_use *const *)b;

    return x->ref->task != y->ref->task ? (x->ref->task < y->ref->task ? -1 : 1)
                                        : (x->pos.line > y->pos.line) - (x->pos.line < y->pos.line);
}

static bool check_declared(struct loader *l, const struct output_use *use,
                           const struct fr_task *task, const char *output)
{
    for (size_t i = 0; i < task->n_outputs; i++)
        if (strcmp(task->outputs[i], output) == 0)
            return true;

    const char *name = task->act.name;
    size_t n = task->n_outputs - (task->act.what == FR_USES && task->n_outputs > 0); /* FR_RESULT */
    struct hint hint = {.expected = word_list(l, task->outputs, n),
                        .word = output,
                        .words = task->outputs,
                        .n_words = n};

    if (n == 0)
        hint.expected = fr_arena_fmt(l->arena,
                                     task->act.what == FR_USES ? "another task: %s tasks have none"
                                                               : "'outputs: [%s]' under that task",
                                     task->act.what == FR_USES ? task->act.uses->name : output);
    complain_near(l, use->pos, &hint, "task '%s' declares no output '%s'", name, output);
    return false;
}

static bool joins(const struct fr_task *user, int task)
{
    for (size_t i = 0; i < user->n_same; i++)
        if (user->same[i] == task)
            return true;
    return false;
}

static void check_place(struct loader *l, const struct output_use *use, const struct fr_task *task)
{
    const char *name = task->act.name, *key = use->ref->name;
    bool clear = task->n_nodes == 1;
    const char *expected;

    if (task->items != NULL && task->items->of_list) {
        complain(l, use->pos,
                 fr_arena_fmt(l->arena,
                              "tasks.%s.all.%s (all of them) or best(tasks.%s.items, '%s') (one)",
                              name, key, name, key),
                 "task '%s' has an instance for each element of its list: which is meant?", name);
        return;
    }
    if (task->items != NULL && !joins(use->user, use->ref->task)) {
        complain(l, use->pos,
                 fr_arena_fmt(l->arena,
                              "tasks.%s.all.%s (all of them), best(tasks.%s.items, '%s') (one), or "
                              "needs: [{task: %s, item: same}] in a task with the same matrix",
                              name, key, name, key, name),
                 "task '%s' has %zu items: which is meant?", name, task->items->n);
        return;
    }
    if (use->ref->where == FR_WHERE_NODE) {
        if (!runs_on(task, use->ref->node))
            complain(l, use->pos, NULL, "task '%s' does not run on node '%s'", name,
                     l->spec->nodes[use->ref->node].name);
        return;
    }
    if (use->ref->where == FR_WHERE_HEAD) {
        if (!runs_on(task, 0))
            complain(l, use->pos, NULL, "task '%s' does not run on the head", name);
        return;
    }
    for (size_t i = 0; !clear && i < use->user->n_nodes; i++)
        if (!runs_on(task, use->user->nodes[i]))
            break;
        else
            clear = i + 1 == use->user->n_nodes;
    if (clear)
        return;
    expected = fr_arena_fmt(
        l->arena, "tasks.%s.on('%s').outputs.%s or tasks.%s.on_head.outputs.%s", name,
        task->nodes[0] < 0 ? "control" : l->spec->nodes[task->nodes[0]].name, key, name, key);
    complain(l, use->pos, expected,
             "task '%s' runs on %zu nodes, and not on all of '%s': which is meant?", name,
             task->n_nodes, use->user->act.name);
}

/* Of what all instances gave: is it declared? */
static void check_instances(struct loader *l, const struct output_use *use,
                            const struct fr_task *task)
{
    const struct fr_ref *ref = use->ref;

    if (ref->name != NULL && !check_declared(l, use, task, ref->name))
        return;
    if (ref->pick == FR_PICK_OUTPUT)
        check_declared(l, use, task, ref->pick_name);
    else if (ref->pick == FR_PICK_MATRIX && (task->items == NULL || task->items->of_list))
        complain(l, use->pos, NULL, "task '%s' has no matrix", task->act.name);
    else if (ref->pick == FR_PICK_ITEM && (task->items == NULL || !task->items->of_list))
        complain(l, use->pos, NULL, "task '%s' has no foreach", task->act.name);
    else if (ref->pick == FR_PICK_MATRIX && fr_items_name(task->items, ref->pick_name) < 0)
        complain_near(
            l, use->pos,
            &(struct hint){NULL, ref->pick_name, task->items->names, task->items->n_names},
            "the matrix of '%s' has no '%s'", task->act.name, ref->pick_name);
}

static void check_use(struct loader *l, struct needs_walk *walk, const struct output_use *use)
{
    const struct fr_task *task = &l->spec->tasks[use->ref->task];

    if (use->user == NULL || task->n_nodes == 0 ||
        (task->act.what == FR_USES && task->act.uses == NULL))
        return; /* its own mistakes were reported */
    if (!use->hook && use->user != task && !needs_task(walk, use->user, use->ref->task)) {
        complain(l, use->pos, fr_arena_fmt(l->arena, "'%s' under its needs:", task->act.name),
                 "task '%s' uses an output of '%s' but does not need it", use->user->act.name,
                 task->act.name);
        return;
    }
    if (use->user == task) {
        complain(l, use->pos, NULL, "task '%s' cannot use its own output", task->act.name);
        return;
    }
    if (use->ref->kind != FR_REF_OUTPUT)
        check_instances(l, use, task);
    else if (check_declared(l, use, task, use->ref->name) && use->user->n_nodes > 0)
        check_place(l, use, task);
}

void check_uses(struct loader *l)
{
    const struct output_use **sorted;
    struct needs_walk walk;
    size_t n = 0, i = 0;

    for (const struct output_use *use = l->uses; use != NULL; use = use->next)
        n++;
    sorted = load_scratch(l, n, sizeof(*sorted));
    if (sorted == NULL || !needs_walk_init(l, &walk))
        return;
    for (const struct output_use *use = l->uses; use != NULL; use = use->next)
        sorted[i++] = use;
    qsort(sorted, n, sizeof(*sorted), by_task);
    for (i = 0; i < n; i++)
        check_use(l, &walk, sorted[i]);
}
