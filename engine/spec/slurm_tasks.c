/* What tasks ask of the allocations that their places are of: gangs, and notices before a limit. */
#include "engine/spec/load.h"

/* ---- gangs ---- */

/* Whether two nodes come at the same time: no node of Slurm does with another allocation's. */
static bool one_allocation(const struct loader *l, const struct fr_node *a, const struct fr_node *b)
{
    if (a->executor != FR_EXECUTOR_SLURM || b->executor != FR_EXECUTOR_SLURM)
        return a->executor != FR_EXECUTOR_SLURM && b->executor != FR_EXECUTOR_SLURM;
    return a->allocation == b->allocation &&
           (a == b || l->spec->slurm->allocations[a->allocation].copies == 0);
}

/* A gang starts at once or not at all, and an allocation comes as a whole: two of them could wait
 * for each other. */
void check_gangs(struct loader *l)
{
    for (size_t i = 0; i < l->spec->n_tasks; i++) {
        const struct fr_task *task = &l->spec->tasks[i];
        const struct fr_yaml *on = fr_yaml_get(l->tasks->pairs[i].value, "on");
        const struct fr_node *a, *b = NULL;
        bool copies;

        if (!task->gang || task->n_nodes < 2 || l->spec->slurm == NULL)
            continue;
        a = &l->spec->nodes[task->nodes[0]];
        for (size_t k = 1; k < task->n_nodes && b == NULL; k++) {
            const struct fr_node *node = &l->spec->nodes[task->nodes[k]];

            if (!one_allocation(l, a, node))
                b = node;
        }
        if (b == NULL)
            continue;
        if (b->executor != FR_EXECUTOR_SLURM) {
            const struct fr_node *place = a;

            a = b;
            b = place;
        }
        copies = a->executor == b->executor && a->allocation == b->allocation;
        if (a->executor == b->executor)
            complain(l, on != NULL ? pos_of(l, on) : task->act.pos,
                     fr_arena_fmt(l->arena, "on: %s, or on: %s", copies ? a->name : a->labels[0],
                                  copies ? b->name : b->labels[0]),
                     "task '%s' is a gang, which has one allocation; %s and %s are of two",
                     task->act.name, a->name, b->name);
        else
            complain(l, on != NULL ? pos_of(l, on) : task->act.pos,
                     fr_arena_fmt(l->arena, "on: %s, or nodes alone", b->labels[0]),
                     "task '%s' is a gang, which has one allocation; %s is of '%s', and %s of none",
                     task->act.name, b->name, b->labels[0], a->name);
    }
}

/* ---- notices ---- */

static void check_notice(struct loader *l, const struct fr_yaml *y, const struct fr_task *task)
{
    for (size_t k = 0; k < task->n_nodes; k++) {
        const struct fr_node *node = task->nodes[k] < 0 ? NULL : &l->spec->nodes[task->nodes[k]];
        const struct fr_allocation_spec *a;
        char notice[24], time[24];

        if (node == NULL || node->executor != FR_EXECUTOR_SLURM)
            continue;
        a = &l->spec->slurm->allocations[node->allocation];
        if (task->notice_ms < a->time_ms || a->time_ms == 0)
            continue;
        fr_show_duration(task->notice_ms, notice);
        fr_show_duration(a->time_ms, time);
        complain(l, y != NULL ? pos_of(l, y) : task->act.pos, "less than that, or never",
                 "task '%s' has a notice of %s, and allocation '%s' a time of %s", task->act.name,
                 notice, a->name, time);
        return;
    }
}

void check_notices(struct loader *l)
{
    for (size_t i = 0; l->spec->slurm != NULL && i < l->spec->n_tasks; i++)
        if (l->spec->tasks[i].notice_ms > 0)
            check_notice(l, fr_yaml_get(l->tasks->pairs[i].value, "notice"), &l->spec->tasks[i]);
}
