/* Nodes that the run has for a time only: places of allocations, which whoever drives it takes. */
#include "engine/run/placed.h"

#include "engine/run/inside.h"

#include <stdio.h>
#include <string.h>

/* It was given up with its node, and nobody knows whether it is gone. */
static bool is_unproven(const struct fr_run *run, const struct run_attempt *at)
{
    struct fr_row row = fr_sched_row(run->sched, at->inst, fr_sys.mono_ms());

    return fr_id_eq(row.attempt, at->id) && row.attempt_state == FR_ST_STOP_UNPROVEN;
}

static bool is_held(const struct fr_run *run, const struct fr_plan_task *task, const bool *drained)
{
    for (uint32_t k = 0; task->gang && k < task->count; k++)
        if (drained[run_node_of(run, task->first + k)])
            return true;
    return false;
}

/* What is ready, and cannot start since a node is drained, needs none now. */
static void hold_back(const struct fr_run *run, const bool *drained, struct fr_run_use *uses)
{
    const struct fr_plan *plan = run->plan;

    for (uint32_t n = 0; n < plan->n_nodes; n++)
        uses[n].ready = drained[n] ? 0 : fr_sched_ready(run->sched, n);
    for (uint32_t t = 0; t < plan->n_tasks; t++) {
        const struct fr_plan_task *task = &plan->tasks[t];

        if (!is_held(run, task, drained))
            continue;
        for (uint32_t k = 0; k < task->count; k++) {
            struct fr_run_use *use = &uses[run_node_of(run, task->first + k)];

            if (use->ready > 0 && fr_sched_row(run->sched, task->first + k, 0).state == FR_ST_READY)
                use->ready--;
        }
    }
    for (uint32_t n = 0; n < plan->n_nodes; n++)
        if (uses[n].need == FR_NEED_NOW && uses[n].ready == 0 && !fr_sched_lives(run->sched, n))
            uses[n].need = FR_NEED_LATER;
}

void fr_run_uses(const struct fr_run *run, const bool *drained, struct fr_run_use *uses)
{
    for (uint32_t n = 0; n < run->plan->n_nodes; n++)
        uses[n] = (struct fr_run_use){.need = fr_run_queued(run) ? FR_NEED_LATER
                                                                 : fr_sched_need(run->sched, n),
                                      .up = run->nodes[n].up,
                                      .spent = fr_sched_spent(run->sched, n)};
    if (drained != NULL)
        hold_back(run, drained, uses);
    for (const struct run_attempt *at = run->attempts; at != NULL; at = at->next) {
        struct fr_run_use *use = &uses[run_node_of(run, at->inst)];

        use->spent = use->spent || at->displaced == FR_CAUSE_TIME_LIMIT;
        if (use->lives || !at->sent || (at->ended && !run_log_awaited(run, at)) ||
            is_unproven(run, at))
            continue;
        use->lives = true;
        use->need = FR_NEED_NOW;
    }
}

enum fr_rc fr_run_placed(struct fr_run *run, uint32_t node, const char *address,
                         int64_t deadline_wall, struct fr_err *err)
{
    struct run_node *n = &run->nodes[node];

    if (n->deadline_wall != deadline_wall) {
        n->deadline_wall = deadline_wall;
        run_queue_or_die(run,
                         &(struct fr_event){
                             .kind = FR_EV_LIMIT,
                             .node = node,
                             .left_ms = deadline_wall == 0 ? 0 : deadline_wall - fr_sys.wall_ms()});
        run_wake(run);
    }
    if (n->address != NULL && strcmp(n->address, address) == 0)
        return FR_OK;
    n->address = fr_arena_dup(&run->arena, address);
    return n->address != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for an address");
}

/* A keeper ends attempts as its job ends (with lost_after: it may have been their lease), and
 * notice: does before its limit. */
bool run_displaces(const struct fr_run *run, const struct run_attempt *at, enum fr_cause cause)
{
    bool lost = cause == FR_CAUSE_NODE_LOST && run_task_of(run, at->inst)->spec->lost_after_ms == 0;

    return (lost || cause == FR_CAUSE_TIME_LIMIT) && run_is_place(run, run_node_of(run, at->inst));
}

void fr_run_displaced(struct fr_run *run, uint32_t node, enum fr_cause cause, bool proven)
{
    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next) {
        bool limit = at->displaced == FR_CAUSE_TIME_LIMIT;

        if (at->displaced == FR_CAUSE_NONE || run_node_of(run, at->inst) != node)
            continue;
        at->displaced = FR_CAUSE_NONE;
        run_queue_or_die(run, &(struct fr_event){.kind = FR_EV_ENDED,
                                                 .inst = at->inst,
                                                 .attempt = at->id,
                                                 .cause = limit ? FR_CAUSE_TIME_LIMIT : cause,
                                                 .proven = true});
    }
    run_queue_or_die(
        run,
        &(struct fr_event){.kind = FR_EV_ABANDON, .node = node, .cause = cause, .proven = proven});
    run_wake(run);
}

void fr_run_unplaced(struct fr_run *run, uint32_t node, enum fr_cause cause, const char *why)
{
    struct run_node *n = &run->nodes[node];

    n->refused = true;
    run_say(n->reason, why, strlen(why));
    run_queue_or_die(run,
                     &(struct fr_event){.kind = FR_EV_NODE_REFUSED, .node = node, .cause = cause});
    run_wake(run);
}

void fr_run_node_say(struct fr_run *run, uint32_t node, const char *text)
{
    run_node_note(run, node, "%s", text);
}
