#include "engine/plan/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *fr_hook_name(enum fr_hook hook)
{
    static const char *const names[FR_HOOK_N] = {"on_success", "on_failure", "on_cancel",
                                                 "on_exit"};

    return (size_t)hook < FR_HOOK_N ? names[hook] : "";
}

uint32_t fr_plan_node_of(const struct fr_plan *plan, int spec_node)
{
    return spec_node == FR_NODE_CONTROL ? plan->control : (uint32_t)spec_node;
}

static const struct fr_task *spec_task(const struct fr_spec *spec, uint32_t t, int *hook)
{
    *hook = -1;
    if (t < spec->n_tasks)
        return &spec->tasks[t];
    t -= (uint32_t)spec->n_tasks;
    for (int h = 0; h < FR_HOOK_N; h++) {
        *hook = h;
        if (t < spec->n_hooks[h])
            return &spec->hooks[h][t];
        t -= (uint32_t)spec->n_hooks[h];
    }
    assert(!"task index in range");
    return NULL;
}

static bool is_empty(const struct fr_task *task)
{
    return task->items != NULL && task->items->n == 0;
}

static size_t n_insts(const struct fr_task *task)
{
    return is_empty(task) ? 1 : task->n_nodes * (task->items != NULL ? task->items->n : 1);
}

/* Counts tasks and instances, refusing what would not fit. */
static enum fr_rc count_all(struct fr_plan *p, struct fr_err *err)
{
    const struct fr_spec *spec = p->spec;
    size_t n_tasks = spec->n_tasks, insts = 0;
    int hook;

    for (int h = 0; h < FR_HOOK_N; h++)
        n_tasks += spec->n_hooks[h];
    if (n_tasks > FR_PLAN_MAX_INSTS)
        return fr_fail(err, FR_USAGE, "%zu tasks: at most %d instances fit in a run", n_tasks,
                       FR_PLAN_MAX_INSTS);
    p->n_tasks = (uint32_t)n_tasks;
    p->n_hooks = (uint32_t)(n_tasks - spec->n_tasks);
    for (uint32_t t = 0; t < p->n_tasks; t++) {
        const struct fr_task *task = spec_task(spec, t, &hook);

        insts += n_insts(task);
        if (insts > FR_PLAN_MAX_INSTS)
            return fr_fail(err, FR_USAGE, "more than %d instances in a run", FR_PLAN_MAX_INSTS);
    }
    p->n_insts = (uint32_t)insts;
    p->n_nodes = (uint32_t)spec->n_nodes + 1;
    p->control = (uint32_t)spec->n_nodes;
    p->max_parallel = spec->max_parallel > 0 ? (uint32_t)spec->max_parallel : 1;
    return FR_OK;
}

static bool make_nodes(struct fr_plan *p, struct fr_arena *arena)
{
    struct fr_plan_node *nodes = fr_arena_array(arena, p->n_nodes, sizeof *nodes);

    if (nodes == NULL)
        return false;
    for (uint32_t n = 0; n < p->control; n++) {
        const struct fr_node *from = &p->spec->nodes[n];

        nodes[n] =
            (struct fr_plan_node){from->name, from, from->slots > 0 ? (uint32_t)from->slots : 1};
    }
    nodes[p->control] = (struct fr_plan_node){"control", NULL, FR_PLAN_CONTROL_SLOTS};
    p->nodes = nodes;
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static bool copy_sorted(const int *from, size_t n, struct fr_arena *arena, const uint32_t **out)
{
    uint32_t *v = n > 0 ? fr_arena_array(arena, n, sizeof *v) : NULL;

    if (n > 0 && v == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        v[i] = (uint32_t)from[i];
    if (n > 1)
        qsort(v, n, sizeof *v, by_number);
    *out = v;
    return true;
}

/* The rules in the order of the sorted needs. */
static bool copy_rules(struct fr_plan_task *task, struct fr_arena *arena)
{
    const struct fr_task *spec = task->spec;
    struct fr_need_rule *rules;

    if (spec->rules == NULL)
        return true;
    if ((rules = fr_arena_array(arena, task->n_needs, sizeof *rules)) == NULL)
        return false;
    for (uint32_t i = 0; i < task->n_needs; i++)
        for (uint32_t k = 0; k < task->n_needs; k++)
            if (spec->needs[k] == (int)task->needs[i])
                rules[i] = spec->rules[k];
    task->rules = rules;
    return true;
}

static bool make_needs(struct fr_plan_task *task, struct fr_arena *arena)
{
    const struct fr_task *spec = task->spec;

    task->n_needs = (uint32_t)spec->n_needs;
    task->n_same = task->empty ? 0 : (uint32_t)spec->n_same;
    return copy_sorted(spec->needs, task->n_needs, arena, &task->needs) &&
           copy_sorted(spec->same, task->n_same, arena, &task->same) && copy_rules(task, arena);
}

static enum fr_rc check_slots(const struct fr_plan *p, const struct fr_plan_task *task,
                              struct fr_err *err)
{
    for (uint32_t k = 0; k < task->spec->n_nodes; k++) {
        const struct fr_plan_node *node = &p->nodes[fr_plan_node_of(p, task->spec->nodes[k])];

        if (task->spec->slots > 0 && (uint32_t)task->spec->slots > node->slots)
            return fr_fail(err, FR_USAGE,
                           "%s:%d:%d: task '%s' takes %d slots, node '%s' has %u: lower the task's "
                           "slots or raise the node's",
                           p->spec->sources[task->spec->act.pos.file].path,
                           task->spec->act.pos.line, task->spec->act.pos.col, task->name,
                           task->spec->slots, node->name, node->slots);
    }
    return FR_OK;
}

static enum fr_rc make_tasks(struct fr_plan *p, struct fr_arena *arena, struct fr_err *err)
{
    struct fr_plan_task *tasks = fr_arena_array(arena, p->n_tasks, sizeof *tasks);

    p->tasks = tasks;
    p->insts = fr_arena_array(arena, p->n_insts, sizeof *p->insts);
    if (tasks == NULL || p->insts == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a plan of %u instances", p->n_insts);
    for (uint32_t t = 0; t < p->n_tasks; t++) {
        struct fr_plan_task *task = &tasks[t];

        task->spec = spec_task(p->spec, t, &task->hook);
        task->name = task->spec->act.name;
        task->empty = is_empty(task->spec);
        task->awaited = task->empty && task->spec->items->awaited;
        task->gang = task->spec->gang && !task->empty;
        task->width = task->empty ? 1 : (uint32_t)task->spec->n_nodes;
        task->count = (uint32_t)n_insts(task->spec);
        if (!make_needs(task, arena))
            return fr_fail(err, FR_NOMEM, "no memory for a plan of %u tasks", p->n_tasks);
        if (check_slots(p, task, err) != FR_OK)
            return FR_USAGE;
        if (task->hook >= 0)
            p->n_hook_insts += task->count;
    }
    return plan_make_insts(p, tasks, arena, err);
}

/* users: the needs turned round; two passes over the edges. */
static bool make_users(struct fr_plan *p, struct fr_plan_task *tasks, struct fr_arena *arena)
{
    size_t edges = 0;
    uint32_t *all, *at;

    for (uint32_t t = 0; t < p->n_tasks; t++) {
        edges += tasks[t].n_needs;
        for (uint32_t i = 0; i < tasks[t].n_needs; i++)
            tasks[tasks[t].needs[i]].n_users++;
    }
    if ((all = fr_arena_array(arena, edges + 1, sizeof *all)) == NULL)
        return false;
    at = all;
    for (uint32_t t = 0; t < p->n_tasks; t++) {
        tasks[t].users = at;
        at += tasks[t].n_users;
        tasks[t].n_users = 0;
    }
    for (uint32_t t = 0; t < p->n_tasks; t++)
        for (uint32_t i = 0; i < tasks[t].n_needs; i++) {
            struct fr_plan_task *need = &tasks[tasks[t].needs[i]];

            all[(need->users - all) + need->n_users++] = t;
        }
    return true;
}

/* Depths by taking tasks whose needs are all taken (Kahn 1962); the rest lies after a cycle, which
 * a checked spec does not have. */
static enum fr_rc make_depths(struct fr_plan *p, struct fr_plan_task *tasks, uint32_t *work,
                              struct fr_err *err)
{
    uint32_t n = p->n_tasks, head = 0, tail = 0;
    uint32_t *left = work, *queue = work + n;

    for (uint32_t t = 0; t < n; t++)
        if ((left[t] = tasks[t].n_needs) == 0)
            queue[tail++] = t;
    while (head < tail) {
        const struct fr_plan_task *task = &tasks[queue[head++]];

        for (uint32_t i = 0; i < task->n_users; i++) {
            struct fr_plan_task *user = &tasks[task->users[i]];

            if (user->depth < task->depth + 1)
                user->depth = task->depth + 1;
            if (--left[task->users[i]] == 0)
                queue[tail++] = task->users[i];
        }
    }
    return tail == n ? FR_OK : fr_fail(err, FR_USAGE, "tasks wait for each other");
}

/* By depth, then index: a counting sort. Ranks and the critical path follow from it backwards. */
static void make_order(struct fr_plan *p, struct fr_plan_task *tasks, uint32_t *order,
                       uint32_t *work)
{
    uint32_t n = p->n_tasks - p->n_hooks, sum = 0;

    memset(work, 0, (n + 1) * sizeof *work);
    for (uint32_t t = 0; t < n; t++)
        work[tasks[t].depth]++;
    for (uint32_t d = 0; d <= n; d++) {
        uint32_t count = work[d];

        work[d] = sum;
        sum += count;
    }
    for (uint32_t t = 0; t < n; t++)
        order[work[tasks[t].depth]++] = t;
    for (uint32_t t = n; t < p->n_tasks; t++)
        tasks[t].rank = 1;
    for (uint32_t k = n; k-- > 0;) {
        struct fr_plan_task *task = &tasks[order[k]];

        task->rank = 1;
        for (uint32_t i = 0; i < task->n_users; i++)
            if (task->rank <= tasks[task->users[i]].rank)
                task->rank = tasks[task->users[i]].rank + 1;
    }
    p->order = order;
}

static bool make_critical(struct fr_plan *p, struct fr_arena *arena)
{
    uint32_t best = FR_PLAN_NONE, n = p->n_tasks - p->n_hooks;
    uint32_t *path;

    for (uint32_t t = 0; t < n; t++)
        if (best == FR_PLAN_NONE || p->tasks[t].rank > p->tasks[best].rank)
            best = t;
    path = fr_arena_array(arena, best == FR_PLAN_NONE ? 1 : p->tasks[best].rank, sizeof *path);
    if (path == NULL)
        return false;
    while (best != FR_PLAN_NONE) {
        const struct fr_plan_task *task = &p->tasks[best];

        path[p->n_critical++] = best;
        best = FR_PLAN_NONE;
        for (uint32_t i = 0; i < task->n_users && best == FR_PLAN_NONE; i++)
            if (p->tasks[task->users[i]].rank + 1 == task->rank)
                best = task->users[i];
    }
    p->critical = path;
    return true;
}

static int by_key_of(const void *a, const void *b, void *arg)
{
    const struct fr_plan *p = arg;

    return strcmp(p->insts[*(const uint32_t *)a].key, p->insts[*(const uint32_t *)b].key);
}

static bool make_keys(struct fr_plan *p, struct fr_arena *arena)
{
    uint32_t *sorted = fr_arena_array(arena, p->n_insts + 1, sizeof *sorted);

    if (sorted == NULL)
        return false;
    for (uint32_t i = 0; i < p->n_insts; i++)
        sorted[i] = i;
    qsort_r(sorted, p->n_insts, sizeof *sorted, by_key_of, p);
    p->by_key = sorted;
    return true;
}

static enum fr_rc link_tasks(struct fr_plan *p, struct fr_arena *arena, struct fr_err *err)
{
    struct fr_plan_task *tasks = (struct fr_plan_task *)p->tasks;
    uint32_t *work = fr_arena_array(arena, 2 * (size_t)p->n_tasks + 2, sizeof *work);
    uint32_t *order = fr_arena_array(arena, p->n_tasks + 1, sizeof *order);
    enum fr_rc rc;

    if (work == NULL || order == NULL || !make_users(p, tasks, arena))
        return fr_fail(err, FR_NOMEM, "no memory for a plan of %u tasks", p->n_tasks);
    if ((rc = make_depths(p, tasks, work, err)) != FR_OK)
        return rc;
    make_order(p, tasks, order, work);
    if (!make_critical(p, arena) || !make_keys(p, arena))
        return fr_fail(err, FR_NOMEM, "no memory for a plan of %u tasks", p->n_tasks);
    return FR_OK;
}

enum fr_rc fr_plan_make(const struct fr_spec *spec, struct fr_arena *arena, struct fr_plan **out,
                        struct fr_err *err)
{
    struct fr_plan *p = fr_arena_alloc(arena, sizeof *p);
    enum fr_rc rc;

    *out = NULL;
    if (p == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a plan");
    p->spec = spec;
    if ((rc = count_all(p, err)) != FR_OK)
        return rc;
    if (!make_nodes(p, arena))
        return fr_fail(err, FR_NOMEM, "no memory for a plan of %u nodes", p->n_nodes);
    if ((rc = make_tasks(p, arena, err)) != FR_OK || (rc = link_tasks(p, arena, err)) != FR_OK)
        return rc;
    *out = p;
    return FR_OK;
}

uint32_t fr_plan_inst(const struct fr_plan *plan, const char *key)
{
    uint32_t lo = 0, hi = plan->n_insts;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int order = strcmp(key, plan->insts[plan->by_key[mid]].key);

        if (order == 0)
            return plan->by_key[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return FR_PLAN_NONE;
}

uint32_t fr_plan_task(const struct fr_plan *plan, const char *name)
{
    for (uint32_t t = 0; t < plan->n_tasks; t++)
        if (strcmp(plan->tasks[t].name, name) == 0)
            return t;
    return FR_PLAN_NONE;
}

uint32_t fr_plan_node(const struct fr_plan *plan, const char *name)
{
    for (uint32_t n = 0; n < plan->n_nodes; n++)
        if (strcmp(plan->nodes[n].name, name) == 0)
            return n;
    return FR_PLAN_NONE;
}

uint32_t fr_plan_inst_on(const struct fr_plan *plan, uint32_t task, uint32_t item, uint32_t node)
{
    const struct fr_plan_task *t = &plan->tasks[task];
    uint32_t first = t->first + item * t->width;

    for (uint32_t k = 0; k < t->width && first + k < t->first + t->count; k++)
        if (plan->insts[first + k].node == node)
            return first + k;
    return FR_PLAN_NONE;
}

bool fr_plan_is_same(const struct fr_plan *plan, uint32_t task, uint32_t need)
{
    const struct fr_plan_task *t = &plan->tasks[task];

    for (uint32_t i = 0; i < t->n_same; i++)
        if (t->same[i] == need)
            return true;
    return false;
}

struct fr_plan_unit fr_plan_unit(const struct fr_plan *plan, uint32_t inst)
{
    const struct fr_plan_inst *in = &plan->insts[inst];
    const struct fr_plan_task *task = &plan->tasks[in->task];

    return task->gang ? (struct fr_plan_unit){inst - in->member, task->width}
                      : (struct fr_plan_unit){inst, 1};
}

/* Tasks lie in order by depth, so one pass against it reaches everything. */
void fr_plan_mark_needs(const struct fr_plan *plan, uint32_t task, bool *marks)
{
    uint32_t n = plan->n_tasks - plan->n_hooks;

    marks[task] = true;
    for (uint32_t k = n; k-- > 0;) {
        const struct fr_plan_task *t = &plan->tasks[plan->order[k]];

        for (uint32_t i = 0; i < t->n_users && !marks[plan->order[k]]; i++)
            marks[plan->order[k]] = marks[t->users[i]];
    }
}
