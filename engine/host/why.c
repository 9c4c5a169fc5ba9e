#include "engine/host/why.h"

#include "engine/sched/sched.h"

#include <string.h>

enum { NAMED = 4 }; /* attempts in a reason */

static bool is_ready(const char *state)
{
    return strcmp(state, fr_state_name(FR_ST_READY)) == 0;
}

/* A gang counts once in max_parallel. What is booked does not count yet. */
static uint32_t count_units(const struct fr_why *w)
{
    uint32_t n = 0;

    for (size_t i = 0; i < w->insts->n; i++) {
        const struct fr_inst_row *row = &w->insts->rows[i];
        uint32_t inst = fr_plan_inst(w->plan, row->key);

        if (row->live == 0 || is_ready(row->state) || inst == FR_PLAN_NONE)
            continue;
        n += !w->plan->tasks[w->plan->insts[inst].task].gang || w->plan->insts[inst].member == 0;
    }
    return n;
}

static enum fr_rc read_nodes(struct fr_why *w, struct fr_store *st, struct fr_id run,
                             struct fr_err *err)
{
    struct fr_node_rows rows = {0};
    enum fr_rc rc;

    w->homes = fr_arena_array(&w->arena, w->plan->n_nodes, sizeof(*w->homes));
    w->away_wall = fr_arena_array(&w->arena, w->plan->n_nodes, sizeof(*w->away_wall));
    if (w->homes == NULL || w->away_wall == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the nodes");
    rc = fr_store_nodes(st, run, &w->arena, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        uint32_t n = fr_plan_node(w->plan, rows.rows[i].name);

        if (n == FR_PLAN_NONE)
            continue;
        w->homes[n] = rows.rows[i].home_id;
        w->away_wall[n] = rows.rows[i].unreachable_wall;
    }
    return rc;
}

enum fr_rc fr_why_open(struct fr_why *w, struct fr_store *st, struct fr_id run,
                       const struct fr_plan *plan, const struct fr_inst_rows *insts,
                       struct fr_err *err)
{
    enum fr_rc rc;

    *w = (struct fr_why){.plan = plan, .insts = insts};
    w->units = count_units(w);
    rc = read_nodes(w, st, run, err);
    return rc == FR_OK ? fr_store_held(st, &w->arena, &w->held, err) : rc;
}

void fr_why_finish(struct fr_why *w)
{
    fr_arena_finish(&w->arena);
}

static bool holds(const struct fr_held_row *row, struct fr_id home)
{
    return fr_id_eq(row->home, home) && !is_ready(row->state);
}

/* The node has fewer free slots than that: who has them. */
static void name_holders(const struct fr_why *w, uint32_t node, uint32_t slots, struct fr_buf *out)
{
    const struct fr_plan_node *pn = &w->plan->nodes[node];
    int64_t used = 0;
    size_t n = 0;

    for (size_t i = 0; i < w->held.n; i++)
        used += holds(&w->held.rows[i], w->homes[node]) ? w->held.rows[i].slots : 0;
    if (used + slots <= pn->slots)
        return;
    fr_buf_fmt(out, "slots of %s, %lld of %u", pn->name, (long long)used, pn->slots);
    for (size_t i = 0; i < w->held.n; i++) {
        const struct fr_held_row *row = &w->held.rows[i];

        if (!holds(row, w->homes[node]) || n++ > NAMED)
            continue;
        if (n <= NAMED)
            fr_buf_fmt(out, "%s%s of run %lld", n == 1 ? ": " : ", ", row->key, (long long)row->no);
        else
            fr_buf_text(out, ", …");
    }
}

/* What of the node is in the way. */
static void name_node(const struct fr_why *w, uint32_t node, uint32_t slots, struct fr_buf *out)
{
    if (w->away_wall[node] != 0)
        fr_buf_fmt(out, "%s, which is unreachable", w->plan->nodes[node].name);
    else if (fr_id_zero(w->homes[node]))
        fr_buf_fmt(out, "the connection to %s", w->plan->nodes[node].name);
    else
        name_holders(w, node, slots, out);
}

void fr_why_ready(const struct fr_why *w, const struct fr_inst_row *row, struct fr_buf *out)
{
    uint32_t inst = fr_plan_inst(w->plan, row->key);
    const struct fr_plan_task *task;
    struct fr_buf what = {0};
    uint32_t first, n;

    if (inst == FR_PLAN_NONE || !is_ready(row->state))
        return;
    task = &w->plan->tasks[w->plan->insts[inst].task];
    first = task->gang ? task->first : inst;
    n = task->gang ? task->count : 1;
    if (w->units >= w->plan->max_parallel)
        fr_buf_fmt(&what, "max_parallel, %u of %u", w->units, w->plan->max_parallel);
    for (uint32_t k = 0; what.n == 0 && k < n; k++)
        name_node(w, w->plan->insts[first + k].node, (uint32_t)task->spec->slots, &what);
    if (what.n > 0)
        fr_buf_fmt(out, "waits for %s", what.p);
    out->bad = out->bad || what.bad;
    fr_buf_finish(&what);
}
