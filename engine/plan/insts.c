/* The instances of a plan: their keys and numbers. */
#include "engine/plan/internal.h"

#include <stdlib.h>

/* "task@node"; "task[item]@node", without the node where on: is head or control. */
static const char *key_of(const struct fr_plan *p, const struct fr_plan_inst *inst,
                          struct fr_arena *arena)
{
    const struct fr_task *task = p->tasks[inst->task].spec;
    const char *name = task->act.name, *node = p->nodes[inst->node].name;

    if (p->tasks[inst->task].empty)
        return name;
    if (task->items == NULL)
        return fr_arena_fmt(arena, "%s@%s", name, node);
    if (task->on == FR_ON_HEAD || task->on == FR_ON_CONTROL)
        return fr_arena_fmt(arena, "%s[%s]", name, task->items->v[inst->item].key);
    return fr_arena_fmt(arena, "%s[%s]@%s", name, task->items->v[inst->item].key, node);
}

void fr_plan_label(const struct fr_plan *plan, uint32_t inst, struct fr_buf *out)
{
    const struct fr_plan_inst *in = &plan->insts[inst];
    const struct fr_items *items = plan->tasks[in->task].spec->items;

    fr_buf_text(out, plan->tasks[in->task].name);
    if (items != NULL && !plan->tasks[in->task].empty)
        fr_buf_fmt(out, "[%s]", items->v[in->item].key);
}

static enum fr_rc make_insts(struct fr_plan *p, uint32_t t, struct fr_arena *arena,
                             struct fr_err *err)
{
    const struct fr_plan_task *task = &p->tasks[t];

    for (uint32_t k = 0; k < task->count; k++) {
        struct fr_plan_inst *inst = (struct fr_plan_inst *)&p->insts[task->first + k];

        *inst =
            (struct fr_plan_inst){.task = t, .item = k / task->width, .member = k % task->width};
        inst->node = fr_plan_node_of(p, task->spec->nodes[inst->member]);
        inst->key = key_of(p, inst, arena);
        if (inst->key == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a plan of %u instances", p->n_insts);
    }
    return FR_OK;
}

/* 0: its items are known from the beginning; UINT32_MAX: they are awaited. */
static uint32_t known_at(const struct fr_plan_task *task)
{
    const struct fr_items *items = task->spec->items;

    return task->awaited ? UINT32_MAX : items != NULL ? items->grown : 0;
}

static int by_known(const void *a, const void *b)
{
    const struct fr_plan_task *x = *(const struct fr_plan_task *const *)a;
    const struct fr_plan_task *y = *(const struct fr_plan_task *const *)b;

    if (known_at(x) != known_at(y))
        return known_at(x) < known_at(y) ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Where the instances of each task begin. */
static bool number_insts(struct fr_plan *p, struct fr_plan_task *tasks, struct fr_arena *arena)
{
    struct fr_plan_task **late = fr_arena_array(arena, p->n_tasks + 1, sizeof(*late));
    uint32_t next = 0, n_late = 0;

    if (late == NULL)
        return false;
    for (uint32_t t = 0; t < p->n_tasks; t++) {
        if (known_at(&tasks[t]) > 0) {
            late[n_late++] = &tasks[t];
            continue;
        }
        tasks[t].first = next;
        next += tasks[t].count;
    }
    qsort(late, n_late, sizeof(*late), by_known);
    for (uint32_t i = 0; i < n_late; i++) {
        late[i]->first = next;
        next += late[i]->count;
    }
    return true;
}

enum fr_rc plan_make_insts(struct fr_plan *p, struct fr_plan_task *tasks, struct fr_arena *arena,
                           struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (!number_insts(p, tasks, arena))
        return fr_fail(err, FR_NOMEM, "no memory for a plan of %u tasks", p->n_tasks);
    for (uint32_t t = 0; rc == FR_OK && t < p->n_tasks; t++)
        rc = make_insts(p, t, arena, err);
    return rc;
}
