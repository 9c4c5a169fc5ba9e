/* References to outputs of other tasks: is the task needed, the output declared, the instance
 * clear? */
#include "engine/spec/load.h"

#include <string.h>

static bool runs_on(const struct fr_task *task, int node)
{
    for (size_t i = 0; i < task->n_nodes; i++)
        if (task->nodes[i] == node)
            return true;
    return false;
}

/* Cycles do no harm. */
bool needs_task(struct loader *l, const struct fr_task *from, int to)
{
    struct fr_arena scratch = {0};
    const struct fr_task **stack = fr_arena_array(&scratch, l->spec->n_tasks + 1, sizeof(*stack));
    bool *seen = fr_arena_array(&scratch, l->spec->n_tasks, sizeof(*seen));
    bool found = false;
    size_t depth = 0;

    l->no_memory |= stack == NULL || seen == NULL;
    if (!l->no_memory)
        stack[depth++] = from;
    while (depth > 0 && !found) {
        const struct fr_task *task = stack[--depth];

        for (size_t i = 0; i < task->n_needs && !found; i++) {
            int need = task->needs[i];

            found = need == to;
            if (!seen[need])
                stack[depth++] = &l->spec->tasks[need];
            seen[need] = true;
        }
    }
    fr_arena_finish(&scratch);
    return found;
}

static bool check_declared(struct loader *l, const struct output_use *use,
                           const struct fr_task *task)
{
    for (size_t i = 0; i < task->n_outputs; i++)
        if (strcmp(task->outputs[i], use->ref->name) == 0)
            return true;

    const char *name = task->act.name;
    struct hint hint = {.expected = word_list(l, task->outputs, task->n_outputs),
                        .word = use->ref->name,
                        .words = task->outputs,
                        .n_words = task->n_outputs};

    if (task->n_outputs == 0)
        hint.expected =
            fr_arena_fmt(l->arena,
                         task->act.what == FR_USES ? "another task: %s tasks have none"
                                                   : "'outputs: [%s]' under that task",
                         task->act.what == FR_USES ? task->act.uses->name : use->ref->name);
    complain(l, use->pos, &hint, "task '%s' declares no output '%s'", name, use->ref->name);
    return false;
}

static void check_place(struct loader *l, const struct output_use *use, const struct fr_task *task)
{
    const char *name = task->act.name, *key = use->ref->name;
    bool clear = task->n_nodes == 1;
    struct hint hint = {0};

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
    hint.expected = fr_arena_fmt(
        l->arena, "tasks.%s.on('%s').outputs.%s or tasks.%s.on_head.outputs.%s", name,
        task->nodes[0] < 0 ? "control" : l->spec->nodes[task->nodes[0]].name, key, name, key);
    complain(l, use->pos, &hint,
             "task '%s' runs on %zu nodes, and not on all of '%s': which is meant?", name,
             task->n_nodes, use->user->act.name);
}

void check_uses(struct loader *l)
{
    for (const struct output_use *use = l->uses; use != NULL; use = use->next) {
        const struct fr_task *task = &l->spec->tasks[use->ref->task];

        if (use->user == NULL || task->n_nodes == 0 ||
            (task->act.what == FR_USES && task->act.uses == NULL))
            continue; /* its own mistakes were reported */
        if (!use->hook && use->user != task && !needs_task(l, use->user, use->ref->task)) {
            struct hint hint = {
                .expected = fr_arena_fmt(l->arena, "'%s' under its needs:", task->act.name)};
            complain(l, use->pos, &hint, "task '%s' uses an output of '%s' but does not need it",
                     use->user->act.name, task->act.name);
            continue;
        }
        if (use->user == task) {
            complain(l, use->pos, NULL, "task '%s' cannot use its own output", task->act.name);
            continue;
        }
        if (check_declared(l, use, task) && use->user->n_nodes > 0)
            check_place(l, use, task);
    }
}
