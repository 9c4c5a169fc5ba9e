/* Nodes that the run has for a time only: places of allocations, which whoever drives it takes. */
#include "engine/run/placed.h"

#include "engine/run/inside.h"

#include <stdio.h>
#include <string.h>

enum fr_need fr_run_need(const struct fr_run *run, uint32_t node)
{
    for (const struct run_attempt *at = run->attempts; at != NULL; at = at->next)
        if (run_node_of(run, at->inst) == node && at->sent &&
            (!at->ended || run_log_awaited(run, at)))
            return FR_NEED_NOW;
    return fr_run_queued(run) ? FR_NEED_LATER : fr_sched_need(run->sched, node);
}

enum fr_rc fr_run_placed(struct fr_run *run, uint32_t node, const char *address, struct fr_err *err)
{
    struct run_node *n = &run->nodes[node];

    if (n->address != NULL && strcmp(n->address, address) == 0)
        return FR_OK;
    n->address = fr_arena_dup(&run->arena, address);
    return n->address != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for an address");
}

/* A keeper ends attempts as its job ends. With lost_after: it may have been their lease. */
bool run_displaces(const struct fr_run *run, const struct run_attempt *at, enum fr_cause cause)
{
    return cause == FR_CAUSE_NODE_LOST && run_is_place(run, run_node_of(run, at->inst)) &&
           run_task_of(run, at->inst)->spec->lost_after_ms == 0;
}

void fr_run_displaced(struct fr_run *run, uint32_t node, enum fr_cause cause, bool proven)
{
    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next) {
        if (!at->displaced || run_node_of(run, at->inst) != node)
            continue;
        at->displaced = false;
        run_queue_or_die(run, &(struct fr_event){.kind = FR_EV_ENDED,
                                                 .inst = at->inst,
                                                 .attempt = at->id,
                                                 .cause = cause,
                                                 .proven = true});
    }
    run_queue_or_die(
        run,
        &(struct fr_event){.kind = FR_EV_ABANDON, .node = node, .cause = cause, .proven = proven});
    run_wake(run);
}

void fr_run_unplaced(struct fr_run *run, uint32_t node, const char *why)
{
    struct run_node *n = &run->nodes[node];

    n->refused = true;
    run_say(n->reason, why, strlen(why));
    run_queue_or_die(run, &(struct fr_event){.kind = FR_EV_NODE_REFUSED, .node = node});
    run_wake(run);
}

void fr_run_node_say(struct fr_run *run, uint32_t node, const char *text)
{
    run_node_note(run, node, "%s", text);
}
