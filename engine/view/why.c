#include "engine/view/why.h"

#include "engine/base/sys.h"
#include "engine/sched/sched.h"
#include "engine/slurm/wait.h"

#include <string.h>

enum { NAMED = 4 }; /* attempts, gangs or nodes in a reason */

/* A gang counts once in max_parallel. What is booked does not count yet. */
static uint32_t count_units(const struct fr_why *w)
{
    uint32_t n = 0;

    for (size_t i = 0; i < w->insts->n; i++) {
        const struct fr_inst_row *row = &w->insts->rows[i];
        uint32_t inst = fr_plan_inst(w->plan, row->key);

        if (row->live == 0 || row->state == FR_ST_READY || inst == FR_PLAN_NONE)
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
    if (rc == FR_OK)
        rc = fr_store_held(st, &w->arena, &w->held, err);
    if (rc == FR_OK)
        rc = fr_store_drained(st, &w->arena, &w->drained, err);
    if (rc == FR_OK)
        rc = fr_store_allocations(st, run, &w->arena, &w->allocations, err);
    return rc == FR_OK ? fr_why_gangs(w, st, run, err) : rc;
}

void fr_why_finish(struct fr_why *w)
{
    fr_arena_finish(&w->arena);
}

static bool holds(const struct fr_held_row *row, struct fr_id home)
{
    return fr_id_eq(row->home, home) && row->state != FR_ST_READY;
}

static uint32_t used_on(const struct fr_why *w, uint32_t node)
{
    int64_t used = 0;

    for (size_t i = 0; i < w->held.n; i++)
        used += holds(&w->held.rows[i], w->homes[node]) ? w->held.rows[i].slots : 0;
    return (uint32_t)used;
}

static uint32_t taken_on(const struct fr_why_gang *g, struct fr_id home)
{
    for (size_t i = 0; i < g->n_parts; i++)
        if (fr_id_eq(g->parts[i].home, home))
            return g->parts[i].slots;
    return 0;
}

static uint64_t key_of(const struct fr_plan *plan, uint32_t inst)
{
    return (uint64_t)(UINT32_MAX - plan->tasks[plan->insts[inst].task].rank) << 32 | inst;
}

/* Whether the instance, or the gang that begins with it, waits behind g. Of another run of the same
 * priority it does: else it had started. */
static bool is_behind(const struct fr_why *w, uint32_t inst, const struct fr_why_gang *g)
{
    if (g->first == FR_PLAN_NONE)
        return g->priority >= w->priority;
    return key_of(w->plan, g->first) < key_of(w->plan, inst);
}

struct want { /* slots of a node, for an instance or the gang that begins with it */
    uint32_t inst, node, slots;
};

static uint32_t kept_from(const struct fr_why *w, const struct want *want)
{
    uint32_t kept = 0;

    for (size_t i = 0; i < w->n_gangs; i++)
        if (is_behind(w, want->inst, &w->gangs[i]))
            kept += taken_on(&w->gangs[i], w->homes[want->node]);
    return kept;
}

static void name_attempts(const struct fr_why *w, uint32_t node, struct fr_buf *out)
{
    size_t n = 0;

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

static void name_gangs(const struct fr_why *w, const struct want *want, struct fr_buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_gangs; i++) {
        const struct fr_why_gang *g = &w->gangs[i];
        uint32_t slots = taken_on(g, w->homes[want->node]);

        if (slots == 0 || !is_behind(w, want->inst, g) || n++ >= NAMED)
            continue;
        fr_buf_fmt(out, "%s the gang %s of run %lld (%u)",
                   n == 1 ? "; free ones are kept for" : ",", g->task, (long long)g->no, slots);
    }
}

/* The node has fewer slots for it than it wants: who has them, or for whom they are kept. */
static void name_holders(const struct fr_why *w, const struct want *want, struct fr_buf *out)
{
    const struct fr_plan_node *pn = &w->plan->nodes[want->node];
    uint32_t used = used_on(w, want->node);
    bool full = used + want->slots > pn->slots;

    if (!full && used + kept_from(w, want) + want->slots <= pn->slots)
        return;
    fr_buf_fmt(out, "slots of %s, %u of %u", pn->name, used, pn->slots);
    name_attempts(w, want->node, out);
    if (!full)
        name_gangs(w, want, out);
}

/* It comes too late for that one (fr_task_last_ms). */
static bool is_late(const struct fr_why *w, uint32_t inst, const struct fr_allocation_row *row)
{
    int64_t last = fr_task_last_ms(w->plan->tasks[w->plan->insts[inst].task].spec);

    return row->state == FR_ALLOCATION_UP && row->end_wall != 0 && last > 0 &&
           row->end_wall - fr_sys.wall_ms() <= last;
}

/* What the allocation of its place still lacks. */
static void name_allocation(const struct fr_why *w, uint32_t inst, const struct fr_node *spec,
                            struct fr_buf *out)
{
    const struct fr_slurm_spec *slurm = w->plan->spec->slurm;
    bool copies = slurm->allocations[spec->allocation].copies > 0;
    const struct fr_allocation_row *newest = NULL;
    const char *name = spec->labels[0];
    struct fr_allocation_life life;
    int open = 0;

    for (size_t i = 0; i < w->allocations.n; i++) {
        const struct fr_allocation_row *row = &w->allocations.rows[i];

        if (strcmp(row->name, name) == 0 && row->copy == (copies ? spec->place : 0) &&
            (newest == NULL || newest->state == FR_ALLOCATION_OVER))
            newest = row;
        open += row->state != FR_ALLOCATION_OVER;
    }
    if (copies && open >= slurm->max_jobs &&
        (newest == NULL || newest->state == FR_ALLOCATION_OVER)) {
        fr_buf_fmt(out, "one of the %d jobs that Slurm may have (max_jobs)", slurm->max_jobs);
        return;
    }
    if (newest != NULL && is_late(w, inst, newest)) {
        fr_buf_fmt(out, "a further allocation %s, as this one is near its limit", name);
        return;
    }
    if (newest != NULL)
        life = (struct fr_allocation_life){.state = newest->state,
                                           .job = newest->job,
                                           .element = newest->element,
                                           .estimate_wall = newest->estimate_wall};
    if (newest != NULL)
        snprintf(life.reason, sizeof(life.reason), "%s", newest->reason);
    if (newest != NULL)
        snprintf(life.note, sizeof(life.note), "%s", newest->note);
    fr_allocation_wait(newest != NULL ? &life : NULL, name, out);
}

/* What of the node is in the way. */
static void name_node(const struct fr_why *w, const struct want *want, struct fr_buf *out)
{
    uint32_t node = want->node;
    const struct fr_drained_row *drained =
        fr_drained_find(&w->drained, w->homes[node], fr_plan_place(&w->plan->nodes[node]));
    const struct fr_node *spec = w->plan->nodes[node].spec;

    if (drained != NULL) {
        fr_buf_fmt(out, "%s, which is drained%s%s", w->plan->nodes[node].name,
                   drained->note[0] != '\0' ? ": " : "", drained->note);
        return;
    }
    if (spec != NULL && spec->executor == FR_EXECUTOR_SLURM)
        name_allocation(w, want->inst, spec, out);
    if (out->n > 0)
        return;
    if (w->away_wall[node] != 0)
        fr_buf_fmt(out, "%s, which is unreachable", w->plan->nodes[node].name);
    else if (fr_id_zero(w->homes[node]))
        fr_buf_fmt(out, "the connection to %s", w->plan->nodes[node].name);
    else
        name_holders(w, want, out);
}

static const struct fr_why_gang *own_gang(const struct fr_why *w)
{
    for (size_t i = 0; i < w->n_gangs; i++)
        if (w->gangs[i].first != FR_PLAN_NONE)
            return &w->gangs[i];
    return NULL;
}

/* What a gang keeps of its nodes while it waits for the others. */
static void name_kept(const struct fr_why *w, struct fr_plan_unit gang, uint32_t slots,
                      struct fr_buf *out)
{
    size_t n = 0;

    for (uint32_t k = 0; k < gang.n && n < NAMED; k++) {
        uint32_t node = w->plan->insts[gang.first + k].node, used = used_on(w, node);
        uint32_t left = used < w->plan->nodes[node].slots ? w->plan->nodes[node].slots - used : 0;
        uint32_t keeps = left < slots ? left : slots;

        if (keeps > 0)
            fr_buf_fmt(out, "%s%u of %s", n++ == 0 ? "; it keeps free slots meanwhile: " : ", ",
                       keeps, w->plan->nodes[node].name);
    }
}

/* What is in the way of a gang as a whole. */
static void name_for_gang(const struct fr_why *w, struct fr_plan_unit gang, uint32_t slots,
                          struct fr_buf *out)
{
    const struct fr_why_gang *turn = own_gang(w);

    for (uint32_t k = 0; out->n == 0 && k < gang.n; k++)
        name_node(w, &(struct want){gang.first, w->plan->insts[gang.first + k].node, slots}, out);
    if (turn == NULL)
        return;
    if (out->n > 0 && turn->first == gang.first)
        name_kept(w, gang, slots, out);
    else if (out->n == 0 && turn->first != gang.first)
        fr_buf_fmt(out, "the gang %s of its run, which comes first", turn->task);
}

void fr_why_ready(const struct fr_why *w, const struct fr_inst_row *row, struct fr_buf *out)
{
    uint32_t inst = fr_plan_inst(w->plan, row->key);
    const struct fr_plan_task *task;
    struct fr_buf what = {0};

    if (inst == FR_PLAN_NONE || row->state != FR_ST_READY)
        return;
    task = &w->plan->tasks[w->plan->insts[inst].task];
    if (w->units >= w->plan->max_parallel)
        fr_buf_fmt(&what, "max_parallel, %u of %u", w->units, w->plan->max_parallel);
    else if (task->gang)
        name_for_gang(w, fr_plan_unit(w->plan, inst), (uint32_t)task->spec->slots, &what);
    else
        name_node(w, &(struct want){inst, w->plan->insts[inst].node, (uint32_t)task->spec->slots},
                  &what);
    if (what.n > 0)
        fr_buf_fmt(out, "waits for %s", what.p);
    out->bad = out->bad || what.bad;
    fr_buf_finish(&what);
}
