/* Requests to a run, from its user and its driver. */
#include "engine/run/inside.h"

void fr_run_say(struct fr_run *run, const char *text)
{
    run_trouble(run, FR_PLAN_NONE, "%s", text);
}

void fr_run_shell_changed(struct fr_run *run)
{
    run->shell_changed = true;
    run_wake(run);
}

void fr_run_lend(struct fr_run *run, uint32_t node, const struct fr_lent *lent)
{
    run_queue_or_die(run, &(struct fr_event){.kind = FR_EV_SLOTS,
                                             .node = node,
                                             .slots = lent->slots,
                                             .contended = lent->contended,
                                             .over = lent->over});
    run_wake(run);
}

/* It was over, and runs again as a retry that did not wait. */
static enum fr_rc admit_retry(struct fr_run *run, struct fr_err *err)
{
    struct fr_run_now was = {
        .state = FR_RUN_OVER, .outcome = run->row.outcome, .round = (uint32_t)run->row.round};
    enum fr_rc rc = fr_sched_load_run(run->sched, &was, err);

    if (rc == FR_OK && (rc = run_begin(run, FR_EV_RESUME, err)) == FR_OK)
        rc = run_queue_retry(run, err);
    if (rc == FR_OK)
        run_follow_ended(run);
    return rc;
}

enum fr_rc fr_run_admit(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc;

    if (run->retries) {
        rc = admit_retry(run, err);
    } else {
        run->row.started_wall = fr_sys.wall_ms();
        rc = run_begin(run, FR_EV_BEGIN, err);
    }
    run->queued = rc != FR_OK;
    run->retries = run->retries && run->queued;
    run_wake(run);
    return rc;
}

void fr_run_prioritize(struct fr_run *run, int64_t priority)
{
    run->row.priority = priority;
}

void fr_run_cancel(struct fr_run *run)
{
    run->queued = false;
    run_queue_or_die(run, &(struct fr_event){.kind = FR_EV_CANCEL});
    run_wake(run);
}

enum fr_rc fr_run_abandon(struct fr_run *run, const char *name, struct fr_err *err)
{
    struct fr_event ev = {.kind = FR_EV_ABANDON,
                          .node = fr_plan_node(run->plan, name),
                          .cause = FR_CAUSE_NODE_LOST,
                          .proven = true};
    struct run_node *node;
    struct fr_buf why = {0};
    enum fr_rc rc;

    if (run->queued)
        return fr_fail(err, FR_USAGE, "run %lld is queued and holds no node",
                       (long long)run->row.no);
    if (ev.node == FR_PLAN_NONE)
        return fr_fail(err, FR_USAGE, "the run has no node '%s'", name);
    node = &run->nodes[ev.node];
    run_wake(run);
    if ((rc = run_queue(run, &ev, err)) != FR_OK || node->up)
        return rc;
    node->refused = true;
    fr_buf_fmt(&why, "its node is given up%s%s", node->reason[0] != '\0' ? ": " : "", node->reason);
    if (!why.bad)
        run_say(node->reason, why.p, why.n);
    fr_buf_finish(&why);
    /* starts there do not wait for the node either */
    return run_queue(run, &(struct fr_event){.kind = FR_EV_NODE_REFUSED, .node = ev.node}, err);
}
