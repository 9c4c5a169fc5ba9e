/* The gangs that collect slots, of all runs that the host drives: of each run the one whose turn it
 * is, which is the first of its ready gangs all of whose nodes are connected. */
#include "engine/view/why.h"
#include "engine/run/run.h"
#include "engine/store/lead.h"
#include "engine/store/ready.h"

#include <stdlib.h>
#include <string.h>

struct look { /* at a run */
    const struct fr_run_row *row;
    const struct fr_plan *plan;
    struct fr_task_rows ready;
    struct fr_node_rows nodes;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct fr_task_row *)a)->task, ((const struct fr_task_row *)b)->task);
}

static bool is_ready(const struct look *l, const struct fr_plan_task *task)
{
    struct fr_task_row key = {task->name};

    return bsearch(&key, l->ready.rows, l->ready.n, sizeof(key), by_name) != NULL;
}

/* The machine of the node; zero: it is not known, or away. */
static struct fr_id machine_of(const struct look *l, uint32_t node)
{
    for (size_t i = 0; i < l->nodes.n; i++)
        if (strcmp(l->nodes.rows[i].name, l->plan->nodes[node].name) == 0 &&
            l->nodes.rows[i].unreachable_wall == 0)
            return l->nodes.rows[i].home_id;
    return (struct fr_id){{0}};
}

static bool is_connected(const struct look *l, const struct fr_plan_task *gang)
{
    for (uint32_t k = 0; k < gang->width; k++)
        if (fr_id_zero(machine_of(l, l->plan->insts[gang->first + k].node)))
            return false;
    return true;
}

/* NULL: none collects. */
static const struct fr_plan_task *find_gang(const struct look *l)
{
    const struct fr_plan_task *best = NULL;

    for (uint32_t t = 0; t < l->plan->n_tasks; t++) {
        const struct fr_plan_task *task = &l->plan->tasks[t];

        if (task->gang && (best == NULL || task->rank > best->rank) && is_ready(l, task) &&
            is_connected(l, task))
            best = task;
    }
    return best;
}

/* Nodes may be one machine. */
static void add_part(struct fr_why_gang *g, struct fr_id home, uint32_t slots)
{
    size_t i = 0;

    while (i < g->n_parts && !fr_id_eq(g->parts[i].home, home))
        i++;
    if (i == g->n_parts)
        g->parts[g->n_parts++] = (struct fr_why_part){.home = home};
    g->parts[i].slots += slots;
}

/* Its gang whose turn it is: the first of those that are ready. */
static uint32_t first_ready(const struct fr_why *w, const struct fr_plan_task *gang)
{
    uint32_t best = FR_PLAN_NONE;

    for (size_t i = 0; i < w->insts->n; i++) {
        const struct fr_inst_row *row = &w->insts->rows[i];
        uint32_t inst = row->state == FR_ST_READY && strcmp(row->task, gang->name) == 0
                            ? fr_plan_inst(w->plan, row->key)
                            : FR_PLAN_NONE;

        if (inst != FR_PLAN_NONE && w->plan->insts[inst].member == 0 && inst < best)
            best = inst;
    }
    return best != FR_PLAN_NONE ? best : gang->first;
}

static enum fr_rc add_gang(struct fr_why *w, const struct look *l, const struct fr_plan_task *gang,
                           struct fr_err *err)
{
    struct fr_why_gang g = {.no = l->row->no,
                            .priority = l->row->priority,
                            .task = fr_arena_dup(&w->arena, gang->name),
                            .first = l->plan == w->plan ? first_ready(w, gang) : FR_PLAN_NONE,
                            .parts = fr_arena_array(&w->arena, gang->width, sizeof(*g.parts))};
    struct fr_why_gang *more = fr_arena_grow(&w->arena, w->gangs, w->n_gangs, sizeof(*more));

    if (g.task == NULL || g.parts == NULL || more == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for gangs");
    for (uint32_t k = 0; k < gang->width; k++)
        add_part(&g, machine_of(l, l->plan->insts[gang->first + k].node),
                 (uint32_t)gang->spec->slots);
    w->gangs = more;
    w->gangs[w->n_gangs++] = g;
    return FR_OK;
}

/* Of a run whose copy cannot be read nothing is known. */
static enum fr_rc look_at(struct fr_why *w, struct fr_store *st, const struct fr_run_row *row,
                          const struct fr_plan *own, struct fr_err *err)
{
    struct look l = {.row = row, .plan = own};
    struct fr_stored stored = {0};
    struct fr_arena arena = {0};
    const struct fr_plan_task *gang = NULL;
    enum fr_rc rc = fr_store_ready_tasks(st, row->id, &arena, &l.ready, err);

    if (rc == FR_OK && l.ready.n > 0 && own == NULL &&
        fr_run_stored(st, row, &stored, NULL) == FR_OK)
        l.plan = stored.plan;
    if (rc == FR_OK && l.ready.n > 0 && l.plan != NULL &&
        (rc = fr_store_nodes(st, row->id, &arena, &l.nodes, err)) == FR_OK)
        gang = find_gang(&l);
    if (gang != NULL)
        rc = add_gang(w, &l, gang, err);
    fr_run_stored_finish(&stored);
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc fr_why_gangs(struct fr_why *w, struct fr_store *st, struct fr_id run, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    uint32_t epoch = 0;
    enum fr_rc rc = fr_store_runs_open(st, &arena, &rows, err);

    if (rc == FR_OK)
        rc = fr_store_epoch(st, &epoch, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_run_row *row = &rows.rows[i];
        bool own = fr_id_eq(row->id, run);

        if (own)
            w->priority = row->priority;
        if (row->host == (int64_t)epoch)
            rc = look_at(w, st, row, own ? w->plan : NULL, err);
    }
    fr_arena_finish(&arena);
    return rc;
}
