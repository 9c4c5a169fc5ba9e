#include "engine/run/inside.h"
#include "engine/run/growth.h"
#include "engine/run/metrics.h"

#include <string.h>

enum {
    LAUNCH_MS = 50, /* a launch alone waits so long for its commit */
    BATCH_MS = 5,   /* ends and starts wait for others while BATCH_MIN attempts keep nodes busy */
    BATCH_MIN = 4,
    BOOKED_MS = 10, /* ends wait so long while there are attempts that need no commit to start, … */
    BOOKED_MOST_MS = 100,    /* … longer where commits are slow, as nothing starts during one */
    LINGER_BYTES = 64 << 10, /* of late logs: RUN_LINGER_MS counts anew */
    KEEP_ACTS = 4096,
};

/* ---- the drain ---- */

static enum fr_rc top_up(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t n = fr_sched_ids_wanted(run->sched); rc == FR_OK && n > 0; n--) {
        struct fr_id id;

        if ((rc = fr_id_new(&id, err)) == FR_OK)
            rc = fr_sched_add_ids(run->sched, &id, 1, err);
    }
    return rc;
}

/* Applies queued events, and those that the evaluation of conditions adds. */
static enum fr_rc apply_all(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && (run->n_events > 0 || run->looked < run->acts.n)) {
        struct fr_event *batch = run->events;
        size_t n = run->n_events;

        run->events = NULL;
        run->n_events = run->cap_events = 0;
        for (size_t i = 0; rc == FR_OK && i < n; i++) {
            if ((rc = top_up(run, err)) != FR_OK)
                break;
            rc = fr_sched_apply(run->sched, &batch[i], fr_sys.mono_ms(), &run->acts, err);
            if (rc == FR_USAGE || rc == FR_BUSY) {
                run_trouble(run, FR_PLAN_NONE, "%s", err->msg);
                rc = FR_OK;
            }
        }
        fr_sys.free(batch);
        for (; rc == FR_OK && run->looked < run->acts.n; run->looked++)
            if (run->acts.v[run->looked].kind == FR_ACT_EVAL ||
                run->acts.v[run->looked].kind == FR_ACT_EXPAND) {
                struct fr_act act = run->acts.v[run->looked];

                if (act.kind == FR_ACT_EVAL)
                    run_eval(run, &act);
                else
                    run_expand(run, &act);
            }
    }
    return rc;
}

/* How long the commit may wait to cover more transitions; 0: commit now. A launch matters only to
 * views. While attempts are booked, an end can wait, too: the next start does not depend on its
 * commit. While enough attempts run to keep the nodes busy, half of them may end first. */
static int64_t commit_delay_ms(const struct fr_run *run)
{
    size_t ended = 0, starts = 0;
    bool only_launches = true;

    for (size_t i = 0; i < run->acts.n; i++) {
        const struct fr_act *act = &run->acts.v[i];

        if (act->kind == FR_ACT_EVAL || act->kind == FR_ACT_PAST ||
            (act->kind == FR_ACT_ROW && !act->row.unreachable && act->row.state == FR_ST_RUNNING))
            continue;
        only_launches = false;
        if (act->kind == FR_ACT_ROW && !act->row.unreachable)
            ended += act->row.attempt_no > 0 && !act->row.live;
        else if (act->kind == FR_ACT_START)
            starts++;
        else if (act->kind != FR_ACT_ACK && act->kind != FR_ACT_ATTACH)
            return 0;
    }
    size_t running = fr_sched_live(run->sched);
    running = running > starts ? running - starts : 0;
    if (starts == 0 && running > 0 && fr_sched_booked(run->sched) > 0) {
        int64_t ms = BOOKED_MS + 2 * run->commit_ms;
        return ms < BOOKED_MOST_MS ? ms : BOOKED_MOST_MS;
    }
    return only_launches ? LAUNCH_MS : running >= BATCH_MIN && ended < running ? BATCH_MS : 0;
}

/* That a node may forget an attempt waits for other rows: where it is not written, it is asked of
 * the node again. After the end there are no others. The identity of a node is written at once:
 * status says from it what an instance waits for. */
static bool has_rows(const struct fr_run *run)
{
    return run->acts.n > 0 || run->growth.before != NULL || run->n_remarks > 0 ||
           run->nodes_changed || run->shipping.dirty || (run->over && run->n_done > 0);
}

/* Of the scheduler. A slice waits for the commit of the one before. */
static int64_t tick_due_ms(const struct fr_run *run)
{
    return fr_sched_more(run->sched) && has_rows(run) ? INT64_MAX : fr_sched_next_due(run->sched);
}

static void renew_leases(struct fr_run *run)
{
    run->lease_due_ms = fr_sys.mono_ms() + run->lease_every_ms;
    for (uint32_t n = 0; n < run->plan->n_nodes; n++) {
        bool wanted = false;

        for (struct run_attempt *at = run->attempts; at != NULL && !wanted; at = at->next)
            wanted = !at->ended && run_node_of(run, at->inst) == n &&
                     run_task_of(run, at->inst)->spec->lost_after_ms > 0;
        if (wanted && run->nodes[n].up)
            (void)run->exec.ops->lease(run->exec.self, n, NULL);
    }
}

/* Logs that could not be written: their bytes are asked for again. */
static void follow_again(struct fr_run *run)
{
    run->log_due_ms = INT64_MAX;
    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next) {
        if (!at->log.failed && !at->metrics.failed)
            continue;
        at->log.failed = at->metrics.failed = false;
        run_follow(run, at);
    }
}

static void take_inputs(struct fr_run *run, int64_t now)
{
    while (run->posted != NULL) {
        struct fr_exec_event *ev = run->posted;

        run->posted = ev->next;
        if (run->posted == NULL)
            run->posted_last = &run->posted;
        run_take_event(run, ev);
        fr_exec_event_free(ev);
    }
    if (run->shell_changed || run->block_due_ms <= now)
        run_blocks_look(run, now);
    if (run->secrets_ready) {
        run->secrets_ready = false;
        run_start_secrets(run);
    }
    if (fr_shipment_due(&run->shipment))
        run_start_hash(run);
    if (!run->over && tick_due_ms(run) <= now)
        run_queue_or_die(run, &(struct fr_event){.kind = FR_EV_TICK});
    if (run->lease_every_ms > 0 && run->lease_due_ms <= now)
        renew_leases(run);
    if (run->log_due_ms <= now)
        follow_again(run);
    if (run->stall_due_ms <= now)
        run_progress_look(run, now);
    /* who cancels wants it to end, whatever is still to come over a slow link */
    if (run->over && run->late_bytes >= LINGER_BYTES &&
        (run->late || fr_sched_now(run->sched).outcome != FR_OUT_CANCELLED)) {
        run->over_ms = now;
        run->late_bytes = 0;
    }
}

/* Its attempt was committed when it was booked, for its node as it is now; its needs had ended by
 * that commit. */
static bool may_start_now(struct fr_run *run, const struct fr_act *act)
{
    const struct run_node *node = &run->nodes[act->node];
    const struct run_attempt *at = run_attempt_find(run, act->attempt);

    return act->booked && node->up && at != NULL && at->booked &&
           fr_id_eq(at->home_id, node->home_id) && strcmp(at->boot_id, node->boot_id) == 0;
}

/* Effects that need not wait for the commit of this drain: starts of booked attempts; and
 * connections, whose epoch was committed before the first of them. true: there was one. */
static bool early_effects(struct fr_run *run)
{
    bool any = false;

    for (size_t i = run->early; i < run->acts.n; i++) {
        struct fr_act *act = &run->acts.v[i];

        if (act->kind != FR_ACT_CONNECT && (act->kind != FR_ACT_START || !may_start_now(run, act)))
            continue;
        run_act(run, act);
        act->kind = FR_ACT_PAST;
        any = true;
    }
    run->early = run->acts.n;
    return any;
}

enum fr_rc fr_run_drain(struct fr_run *run, int64_t now, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    run->sent_early = false;
    run->shipment.turn++;
    if (!run->fatal) {
        take_inputs(run, now);
        rc = apply_all(run, err);
    }
    if (rc == FR_OK && !run->fatal) {
        run->sent_early = early_effects(run);
        if (run->held_ms == 0 && has_rows(run))
            run->held_ms = now;
        if (run->over)
            run_log_missing(run, now);
    }
    if (rc == FR_OK && run->fatal) {
        rc = run->fatal_err.rc;
        if (err != NULL)
            *err = run->fatal_err;
    }
    return rc;
}

struct fr_run_due fr_run_due(const struct fr_run *run)
{
    struct fr_run_due due = {.drain_ms =
                                 run->over ? run->over_ms + RUN_LINGER_MS : tick_due_ms(run),
                             .commit_ms = INT64_MAX,
                             .soft = run->acts.n == 0,
                             .sent_early = run->sent_early};

    if (run->n_events > 0 || run->posted != NULL || run->secrets_ready || run->shell_changed ||
        fr_shipment_due(&run->shipment) || run->fatal)
        due.drain_ms = 0;
    if (run->lease_every_ms > 0 && run->lease_due_ms < due.drain_ms)
        due.drain_ms = run->lease_due_ms;
    if (run->log_due_ms < due.drain_ms)
        due.drain_ms = run->log_due_ms;
    if (run->stall_due_ms < due.drain_ms && !run->over)
        due.drain_ms = run->stall_due_ms;
    if (run->block_due_ms < due.drain_ms)
        due.drain_ms = run->block_due_ms;
    if (has_rows(run))
        due.commit_ms = run->over || run->growth.before != NULL || fr_sched_more(run->sched)
                            ? 0
                            : run->held_ms + commit_delay_ms(run);
    return due;
}

void fr_run_act(struct fr_run *run, int64_t commit_ms)
{
    run->commit_ms = commit_ms;
    run->held_ms = 0;
    run_growth_written(run);
    run_show(run);
    for (size_t i = 0; i < run->acts.n && !run->fatal; i++)
        if (run->acts.v[i].kind >= FR_ACT_EFFECTS)
            run_act(run, &run->acts.v[i]);
    run->acts.n = 0;
    run->looked = run->early = run->prepared = 0;
    run_growth_begin(run);
    if (run->acts.cap > KEEP_ACTS) { /* a run's first turn has a row for each instance */
        fr_acts_finish(&run->acts);
        run_changes_drop(run);
    }
}

void fr_run_on_wake(struct fr_run *run, void (*wake)(void *arg), void *arg)
{
    run->wake = wake;
    run->wake_arg = arg;
}

void fr_run_destroy(struct fr_run *run)
{
    if (run == NULL)
        return;
    if (!run->added)
        fr_claims_end(run->env.claims, run->id);
    fr_exec_destroy(&run->exec);
    while (run->posted != NULL) {
        struct fr_exec_event *ev = run->posted;

        run->posted = ev->next;
        fr_exec_event_free(ev);
    }
    while (run->attempts != NULL)
        run_attempt_drop(run, run->attempts);
    fr_shipment_finish(&run->shipment);
    fr_sched_destroy(run->sched);
    fr_acts_finish(&run->acts);
    fr_sys.free(run->events);
    run_changes_drop(run);
    run_remarks_drop(run);
    fr_sys.free(run->done);
    fr_spec_destroy(run->spec);
    fr_sys.free(run->insts);
    fr_arena_finish(&run->growth.arena);
    fr_arena_finish(&run->plan_arena);
    fr_arena_finish(&run->arena);
    fr_sys.free(run);
}
