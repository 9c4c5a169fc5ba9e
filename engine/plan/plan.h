/*
 * The plan of a run: its instances (task x item x node), their needs and gangs, and the order in
 * which ready ones start. Made from a checked pipeline. No I/O, no clock: the same spec gives the
 * same plan, the same indices and the same keys, so a stored run finds its instances again.
 *
 * Everything is indexed from 0. Tasks: those of the spec in its order (plan task t < spec->n_tasks
 * is spec task t), then the hooks: on_success, on_failure, on_cancel, on_exit, each in its order.
 * Nodes: those of the spec in its order, then control. Instances: task by task, inside a task item
 * by item, of an item in the order of its nodes; those of task t are
 * insts[t.first .. t.first + t.count). A task with items of which none is left is empty: one
 * instance stands for it, by the name of the task, and ends without an attempt. So it is with one
 * whose list is awaited. Tasks whose lists are known in the run stand behind all others: first
 * those that are known, in the order in which they were, then those that are awaited. So a list
 * that gets known adds instances, and moves none but those of awaited tasks.
 *
 * A task may start when every instance of every task that it needs has ended; an item of one that
 * joins another one item by item (same) when that item of it has. Edges are therefore kept between
 * tasks, never between instances. A sidecar is no instance: it belongs to its task's
 * request, and that task's supervisor starts and stops it.
 *
 * Memory: all lies in the arena given by the caller and lives as long as it; it borrows the spec. A
 * plan is read-only once made. An instance costs about 40 bytes and its key.
 */
#ifndef FR_PLAN_PLAN_H
#define FR_PLAN_PLAN_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/spec/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FR_PLAN_NONE UINT32_MAX /* "no such index" */

enum { FR_PLAN_CONTROL_SLOTS = 8, FR_PLAN_MAX_INSTS = 1000000 };

const char *fr_hook_name(enum fr_hook hook); /* "on_exit" */

struct fr_plan_node {
    const char *name;           /* "control" for control */
    const struct fr_node *spec; /* NULL for control */
    uint32_t slots;             /* >= 1 */
};

/* Its name if it is a place of an allocation; else NULL. */
static inline const char *fr_plan_place(const struct fr_plan_node *n)
{
    return n->spec != NULL && n->spec->executor == FR_EXECUTOR_SLURM ? n->name : NULL;
}

struct fr_plan_inst {
    const char *key; /* "train@n1", "on_exit.0@control": unique, the store's name for it */
    uint32_t task, node;
    uint32_t item;   /* of its task, from 0 on; 0 where the task has none */
    uint32_t member; /* place among those of its item: the rank of its node in a gang, 0 the head */
};

struct fr_plan_task {
    const char *name;
    const struct fr_task *spec; /* retry, slots, grace_ms, when, … */
    int hook;                   /* enum fr_hook; -1: a task of the pipeline itself */
    bool gang;                  /* all instances of an item start together or none does */
    bool empty;                 /* it has no items, and one instance in their place */
    bool awaited;               /* it is empty, for its list is not known yet */
    uint32_t first, count;      /* its instances, item by item; >= 1 */
    uint32_t width;             /* instances of an item, >= 1: its nodes; without items count */
    const uint32_t *needs;      /* tasks, each once, ascending */
    const uint32_t *users;      /* tasks that need this one, ascending */
    uint32_t n_needs, n_users;
    const struct fr_need_rule *rules; /* of needs, one each; NULL: none has any */
    /* Of needs, ascending: those of which an item waits for the item with its own number alone.
     * These tasks have as many items. None for a task without items. */
    const uint32_t *same;
    uint32_t n_same;
    uint32_t depth; /* tasks on the longest chain of needs above it */
    uint32_t rank;  /* tasks on the longest chain from it to an end, itself included */
};

struct fr_plan {
    const struct fr_spec *spec;
    const struct fr_plan_task *tasks;
    const struct fr_plan_inst *insts;
    const struct fr_plan_node *nodes;
    uint32_t n_tasks, n_hooks;      /* n_tasks counts all; the last n_hooks are hooks */
    uint32_t n_insts, n_hook_insts; /* likewise */
    uint32_t n_nodes, control;      /* with control, which is the last */
    uint32_t max_parallel;          /* >= 1; a gang counts as one */
    const uint32_t *order;    /* tasks that are no hooks, by depth, then in the file's order */
    const uint32_t *critical; /* the longest chain of needs, first to last */
    uint32_t n_critical;
    const uint32_t *by_key; /* instances sorted by key, for fr_plan_inst() */
};

/*
 * Makes the plan. FR_USAGE: a cycle (a loaded spec has none); a task that takes more slots than one
 * of its nodes has; more than FR_PLAN_MAX_INSTS instances. FR_NOMEM. *out is NULL on failure.
 */
enum fr_rc fr_plan_make(const struct fr_spec *spec, struct fr_arena *arena, struct fr_plan **out,
                        struct fr_err *err);

/* Finders; FR_PLAN_NONE when there is none. By key O(log n), by name O(n). */
uint32_t fr_plan_inst(const struct fr_plan *plan, const char *key);
uint32_t fr_plan_task(const struct fr_plan *plan, const char *name);
uint32_t fr_plan_node(const struct fr_plan *plan, const char *name);

/* The instance of an item of task on node, or FR_PLAN_NONE. O(width). */
uint32_t fr_plan_inst_on(const struct fr_plan *plan, uint32_t task, uint32_t item, uint32_t node);

/* Whether an item of task waits for that item of need alone. O(same) */
bool fr_plan_is_same(const struct fr_plan *plan, uint32_t task, uint32_t need);

/* How many instances it has by its items. */
static inline uint32_t fr_plan_rows(const struct fr_plan_task *task)
{
    return task->empty ? 0 : task->count;
}

/* Its items are those of a list that got known in the run. */
static inline bool fr_plan_is_grown(const struct fr_plan_task *task)
{
    return task->spec->items != NULL && task->spec->items->grown > 0;
}

/* The number in plan of the instance that was inst in old, the plan of the same run before some
 * lists were known; FR_PLAN_NONE: it stood for an awaited task, and has no successor. */
static inline uint32_t fr_plan_moved(const struct fr_plan *plan, const struct fr_plan *old,
                                     uint32_t inst)
{
    uint32_t task = old->insts[inst].task;

    if (!old->tasks[task].awaited)
        return inst;
    return plan->tasks[task].awaited ? plan->tasks[task].first : FR_PLAN_NONE;
}

/* Appends the name of its task, with its item: the key without the node. */
void fr_plan_label(const struct fr_plan *plan, uint32_t inst, struct fr_buf *out);

/* What starts and ends together with an instance: its gang, else itself. */
struct fr_plan_unit {
    uint32_t first, n;
};
struct fr_plan_unit fr_plan_unit(const struct fr_plan *plan, uint32_t inst);

/* The plan's index of a node as the spec counts them (FR_NODE_CONTROL: plan->control). */
uint32_t fr_plan_node_of(const struct fr_plan *plan, int spec_node);

/* Sets marks[t] for task and for every task that it waits for. marks has n_tasks entries; tasks
 * that are marked already count like task. O(tasks + edges). */
void fr_plan_mark_needs(const struct fr_plan *plan, uint32_t task, bool *marks);

/*
 * Drawings of the graph. look(ctx, task) gives the word and colour that a task is shown with; NULL
 * draws the plan alone. Control bytes in names are shown as \xNN. Running out of memory shows in
 * out->bad.
 */
struct fr_plan_look {
    const char *word;  /* "running"; NULL: none */
    const char *color; /* X11 name, dot only; NULL: none */
};
struct fr_plan_draw { /* zero is the default */
    struct fr_plan_look (*look)(void *ctx, uint32_t task);
    void *ctx;
    bool nodes; /* name the nodes of each task */
    bool hooks; /* show hooks too */
};

/* One line per task in topological order, indented by depth, with its needs; '*' marks the critical
 * path. */
void fr_plan_draw_text(const struct fr_plan *plan, const struct fr_plan_draw *how,
                       struct fr_buf *out);

/* Graphviz's language (graphviz.org/doc/info/lang.html), left to right. */
void fr_plan_draw_dot(const struct fr_plan *plan, const struct fr_plan_draw *how,
                      struct fr_buf *out);

#endif
