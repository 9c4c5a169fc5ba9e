/* What happens to a whole run: cancel, retry, resume, time. */
#include "engine/sched/internal.h"

#include "engine/base/sys.h"

static void cancel_inst(struct fr_sched *s, uint32_t inst, bool gang_runs, enum fr_cause cause)
{
    struct inst *in = &s->insts[inst];

    if (in->row.live) {
        if (in->row.state != FR_ST_STOPPING)
            put_stop(s, inst, cause);
    } else if (!fr_state_ended(in->row.state) && !gang_runs) {
        if (cause == FR_CAUSE_FAIL_FAST && in->row.attempt_state != FR_ST_CANCELLED) {
            in->row.cause = cause;
            in->row.code = 0;
        }
        s->asking -= in->asked;
        s->tasks[s->plan->insts[inst].task].asked -= in->asked;
        in->asked = false;
        set_row(s, inst, FR_ST_CANCELLED);
    }
}

bool cancel_task(struct fr_sched *s, uint32_t t, uint32_t *k, uint32_t *slice, enum fr_cause cause)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    uint32_t step = task->gang ? task->width : 1;

    for (; *k<task->count && * slice> 0; *k += step) {
        uint32_t gang = task->gang ? gang_of(s, task->first + *k) : NONE;
        bool gang_runs = gang != NONE && s->gangs[gang].live > 0;

        for (uint32_t i = task->first + *k; i < task->first + *k + step; i++) {
            *slice -= *slice > 0 && !fr_state_ended(s->insts[i].row.state);
            cancel_inst(s, i, gang_runs, cause);
        }
        if (gang_runs)
            gang_stop(s, gang, cause);
    }
    return *k >= task->count;
}

static bool cancels(const struct fr_sched *s)
{
    return s->stopping && s->cancel_at < s->plan->n_tasks - s->plan->n_hooks;
}

bool fr_sched_more(const struct fr_sched *s)
{
    return s->going_n > 0 || s->items_n > 0 || s->n_refused > 0 || s->late || cancels(s) ||
           fr_sched_resets(s);
}

void cancel_some(struct fr_sched *s)
{
    while (cancels(s) && s->slice > 0 &&
           cancel_task(s, s->cancel_at, &s->cancel_k, &s->slice, FR_CAUSE_STOPPED)) {
        s->cancel_at++;
        s->cancel_k = 0;
    }
}

static void cancel_hooks(struct fr_sched *s)
{
    for (uint32_t t = s->plan->n_tasks - s->plan->n_hooks; t < s->plan->n_tasks; t++) {
        uint32_t k = 0, all = UINT32_MAX;

        (void)cancel_task(s, t, &k, &all, FR_CAUSE_STOPPED);
    }
}

/* Live attempts are stopped before the first slice of waiting instances. */
static void stop_live(struct fr_sched *s)
{
    for (uint32_t n = 0; n < s->plan->n_nodes; n++)
        for (uint32_t i = s->nodes[n].live; i != NONE; i = s->insts[i].next)
            if (!plan_task(s, i)->gang)
                cancel_inst(s, i, false, FR_CAUSE_STOPPED);
}

bool fr_sched_resets(const struct fr_sched *s)
{
    return s->what != NULL;
}

/* From here on the run goes on. */
static void end_reset(struct fr_sched *s)
{
    if (s->what == NULL)
        return;
    fr_sys.free(s->what);
    s->what = NULL;
    recount_needs(s);
}

void cancel_run(struct fr_sched *s)
{
    if (s->stopping || s->run.state == FR_RUN_OVER)
        return;
    s->stopping = true;
    end_reset(s); /* instances not yet reset stay as they ended */
    if (s->reserver != NONE)
        drop_reservation(s);
    if (s->run.state == FR_RUN_HOOKS) {
        cancel_hooks(s);
        return;
    }
    s->run.state = FR_RUN_CANCELLING;
    put_run(s);
    s->cancel_at = s->cancel_k = 0;
    if (s->plan->n_insts > FR_SCHED_SLICE)
        stop_live(s);
}

void limit_run(struct fr_sched *s, int64_t left_ms)
{
    s->end_due_ms = s->timeout_ms > 0 ? s->now_ms + left_ms : INT64_MAX;
}

bool past_limit(const struct fr_sched *s)
{
    return s->run.state == FR_RUN_RUNNING && s->now_ms >= s->end_due_ms;
}

bool ended_late(const struct fr_sched *s)
{
    if (s->run.state == FR_RUN_RUNNING)
        return s->ended_ms > s->end_due_ms;
    return s->run.timed_out &&
           (s->ended_ms > s->end_due_ms || s->main_bad > 0 || s->count[FR_ST_CANCELLED] > 0);
}

bool fr_sched_in_doubt(const struct fr_sched *s, bool away)
{
    bool any = false;

    for (uint32_t n = 0; n < s->plan->n_nodes; n++) {
        const struct node *node = &s->nodes[n];
        bool silent = node->link == LINK_ASKED || (away && node->link != LINK_UP);

        for (uint32_t i = node->live; i != NONE; i = s->insts[i].next) {
            if (!silent && !s->insts[i].queried)
                return false;
            any = true;
        }
    }
    return any;
}

/* The limit has passed. Attempts on a node that does not answer may have ended before it, and could
 * not be stopped now. So their nodes are awaited, unless something else shows that the run takes
 * longer. */
bool time_out(struct fr_sched *s)
{
    bool settled = s->asking == 0 && s->going_n == 0 && s->queue_n == 0 && s->items_n == 0;

    s->in_doubt = past_limit(s) && fr_sched_in_doubt(s, true);
    if (!past_limit(s) || s->in_doubt || (s->live == 0 && !settled))
        return false;
    s->run.timed_out = true;
    s->run.outcome = FR_OUT_FAILED;
    cancel_run(s);
    return true;
}

/* Resets an instance to its start. An attempt that may still live is first stopped, proven. */
static void reset_inst(struct fr_sched *s, uint32_t inst)
{
    struct inst *in = &s->insts[inst];

    if (in->again || in->row.state == FR_ST_WAITING)
        return;
    s->slice -= s->slice > 0;
    in->reset = false;
    in->row.retries = 0;
    in->row.chained = 0;
    if (in->row.cause == FR_CAUSE_FAIL_FAST && in->row.attempt_state != FR_ST_CANCELLED)
        in->row.cause = FR_CAUSE_NONE; /* it was of no attempt */
    if (in->row.attempt_state == FR_ST_STOP_UNPROVEN) {
        in->again = true;
        want_link(s, s->plan->insts[inst].node);
        make_live(s, inst);
        put_stop(s, inst, FR_CAUSE_STOPPED);
        return;
    }
    set_row(s, inst, FR_ST_WAITING);
}

enum { KEEP, BAD_ONLY, WHOLE };

/* A gang as a whole: also one of which an interrupted retry has reset some. */
static bool unit_bad(const struct fr_sched *s, uint32_t first, uint32_t n)
{
    bool bad = false, reset = false;

    for (uint32_t i = first; i < first + n; i++) {
        bad = bad || ended_badly(s->insts[i].row.state);
        reset = reset || !fr_state_ended(s->insts[i].row.state);
    }
    return bad || reset;
}

/* The members from *k on, while the slice lasts; a gang as a whole. */
static void reset_task(struct fr_sched *s, uint32_t t, uint32_t *k)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    uint32_t step = task->gang ? task->width : 1;

    for (; *k < task->count && s->what[t] != KEEP && s->slice > 0; *k += step) {
        uint32_t first = task->first + *k;

        if (s->what[t] == WHOLE || s->insts[first].reset || unit_bad(s, first, step))
            for (uint32_t i = first; i < first + step; i++)
                reset_inst(s, i);
    }
}

void reset_some(struct fr_sched *s)
{
    while (s->what != NULL && s->slice > 0) {
        if (s->reset_at == s->plan->n_tasks) {
            end_reset(s);
            return;
        }
        reset_task(s, s->reset_at, &s->reset_k);
        if (s->what[s->reset_at] == KEEP || s->reset_k >= s->plan->tasks[s->reset_at].count) {
            s->reset_at++;
            s->reset_k = 0;
        }
    }
}

/* Whether a retry has something to do there: what failed, what another file added, or what an
 * interrupted retry has left. */
static bool task_bad(const struct fr_sched *s, uint32_t t)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];

    if (s->tasks[t].open > 0)
        return true;
    if (task->spec->best_effort)
        return false;
    for (uint32_t k = 0; k < task->count; k++)
        if (ended_badly(s->insts[task->first + k].row.state))
            return true;
    return false;
}

/* what[t]: how much of each task is reset. Users of something reset are reset whole (those that
 * join it item by item, in the items that are reset there), hooks always. */
static bool choose(const struct fr_sched *s, uint32_t from, unsigned char *what, bool *above)
{
    uint32_t n = s->plan->n_tasks - s->plan->n_hooks;
    bool any = false;

    for (uint32_t t = 0; t < s->plan->n_tasks; t++) {
        what[t] = KEEP;
        above[t] = false;
    }
    if (from != NONE)
        fr_plan_mark_needs(s->plan, from, above);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t t = s->plan->order[k];
        const struct fr_plan_task *task = &s->plan->tasks[t];

        if ((from == NONE || above[t]) && task_bad(s, t))
            what[t] = BAD_ONLY;
        if (t == from)
            what[t] = WHOLE;
        for (uint32_t i = 0; i < task->n_needs; i++)
            if (what[task->needs[i]] == WHOLE ||
                (what[task->needs[i]] == BAD_ONLY && !fr_plan_is_same(s->plan, t, task->needs[i])))
                what[t] = WHOLE;
            else if (what[task->needs[i]] == BAD_ONLY && what[t] == KEEP)
                what[t] = BAD_ONLY;
        any = any || what[t] != KEEP;
    }
    for (uint32_t t = n; t < s->plan->n_tasks; t++)
        what[t] = WHOLE;
    return any;
}

/* Marks the items of tasks that join others item by item whose item there is reset. */
static void mark_items(struct fr_sched *s, const unsigned char *what)
{
    for (uint32_t k = 0; k < s->plan->n_tasks - s->plan->n_hooks; k++) {
        const struct fr_plan_task *task = &s->plan->tasks[s->plan->order[k]];

        for (uint32_t i = 0; i < task->count && task->n_same > 0; i++) {
            struct inst *in = &s->insts[task->first + i];

            in->reset = false;
            for (uint32_t n = 0; n < task->n_same && !in->reset; n++) {
                const struct fr_plan_task *need = &s->plan->tasks[task->same[n]];
                uint32_t first = need->first + i / task->width * need->width;

                in->reset = what[task->same[n]] != KEEP &&
                            (unit_bad(s, first, need->width) || s->insts[first].reset);
            }
        }
    }
}

/* What a retry from task would reset; what and above hold n_tasks each. */
static enum fr_rc check_retry(const struct fr_sched *s, uint32_t task, unsigned char *what,
                              bool *above, struct fr_err *err)
{
    uint32_t n = s->plan->n_tasks, list;

    if (s->run.state != FR_RUN_OVER)
        return fr_fail(err, FR_BUSY, "the run is not over: cancel it, or wait for its end");
    if (task != NONE && (task >= n || is_hook(s, task)))
        return fr_fail(err, FR_USAGE, "hooks run with every retry: name a task of the pipeline");
    if (!choose(s, task, what, above))
        return fr_fail(err, FR_USAGE,
                       "nothing failed in this run: name a task to run again from (--from TASK)");
    if ((list = loses_list(s, what)) != NONE)
        return fr_fail(err, FR_USAGE,
                       "the elements of '%s' are those of a list that would be made again: --from "
                       "%s keeps them, a new run has new ones ('flowrun rerun')",
                       s->plan->tasks[list].name, s->plan->tasks[list].name);
    return FR_OK;
}

enum fr_rc fr_sched_may_retry(const struct fr_sched *s, uint32_t task, struct fr_err *err)
{
    unsigned char *what = fr_sys.alloc(s->plan->n_tasks);
    bool *above = fr_sys.alloc(s->plan->n_tasks);
    enum fr_rc rc;

    if (what == NULL || above == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a retry of %u tasks", s->plan->n_tasks);
    else
        rc = check_retry(s, task, what, above, err);
    fr_sys.free(what);
    fr_sys.free(above);
    return rc;
}

static void begin_round(struct fr_sched *s)
{
    s->run = (struct fr_run_now){.state = FR_RUN_RUNNING, .round = s->run.round + 1};
    limit_run(s, s->timeout_ms);
    s->stopping = false;
    put_run(s);
    for (uint32_t k = 0; k < s->plan->n_nodes; k++) {
        s->nodes[k].gang_wait = NONE;
        if (s->nodes[k].link == LINK_REFUSED)
            s->nodes[k].link = LINK_NEW;
    }
}

enum fr_rc retry_run(struct fr_sched *s, const struct fr_event *ev, struct fr_err *err)
{
    uint32_t n = s->plan->n_tasks;
    unsigned char *what = fr_sys.alloc(n);
    bool *above = fr_sys.alloc(n), begins = ev->kind == FR_EV_RETRY;
    enum fr_rc rc = FR_OK;

    if (what == NULL || above == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a retry of %u tasks", n);
    else if (begins)
        rc = check_retry(s, ev->task, what, above, err);
    else
        (void)choose(s, ev->task, what, above);
    if (rc == FR_OK && begins)
        begin_round(s);
    if (rc == FR_OK) {
        mark_items(s, what);
        s->what = what;
        s->reset_at = s->reset_k = 0;
        what = NULL;
    }
    fr_sys.free(what);
    fr_sys.free(above);
    return rc;
}

/* A gang in flight: what its rows say of the generation. */
static void resume_gang(struct fr_sched *s, struct gang *gang)
{
    bool flight = false;

    gang->first_failed = NONE;
    for (uint32_t k = 0; k < gang->n; k++) {
        struct inst *in = &s->insts[gang->first + k];
        const struct fr_row *row = &in->row;

        if (row->generation > gang->generation)
            gang->generation = row->generation;
        if (in->again)
            continue;
        gang->live += row->live;
        flight = flight || row->live;
        gang->held += !row->live && row->state == FR_ST_RUNNING;
        gang->failing = gang->failing || row->state == FR_ST_STOPPING;
        gang->unproven = gang->unproven || row->state == FR_ST_STOP_UNPROVEN;
        if (!row->live && row->state == FR_ST_STOPPING && gang->first_failed == NONE &&
            row->cause != FR_CAUSE_GANG_PEER) {
            gang->first_failed = gang->first + k;
            gang->free = row->cause == FR_CAUSE_NONE;
        }
    }
    gang->failing = gang->failing || (flight && gang->unproven);
    if (flight) {
        gang->unit = true;
        s->units++;
    }
}

static void resume_inst(struct fr_sched *s, uint32_t i)
{
    struct inst *in = &s->insts[i];
    const struct fr_plan_task *task = plan_task(s, i);

    if (in->row.live) {
        if (in->unsure) /* its row stays: a resume after this one must ask, too */
            set_state(s, i, FR_ST_STARTING);
        if (!in->again) {
            take_slot(s, i);
            s->units += !task->gang;
        }
        want_link(s, s->plan->insts[i].node);
    } else if (in->row.state == FR_ST_READY && s->tasks[s->plan->insts[i].task].blocked) {
        set_state(s, i, FR_ST_WAITING); /* recount_needs() goes on with it */
    } else if (in->row.state == FR_ST_READY) {
        if (!task->gang || s->plan->insts[i].member == 0)
            enqueue(s, i);
    } else if (in->row.state == FR_ST_RETRYING) {
        in->due_ms += s->now_ms;
        if (!task->gang || s->plan->insts[i].member == 0)
            set_timer(s, i, in->stamp, in->due_ms);
    }
}

/* A stop by the user in a run that is not being cancelled belongs to a retry (reset_inst). */
void resume_run(struct fr_sched *s)
{
    s->stopping = s->run.state == FR_RUN_CANCELLING;
    s->run.timed_out = s->stopping && s->run.outcome == FR_OUT_FAILED;
    s->hook_at = s->plan->n_tasks - s->plan->n_hooks;
    for (uint32_t i = 0; i < s->plan->n_insts; i++)
        s->insts[i].again = s->run.state == FR_RUN_RUNNING && s->insts[i].row.live &&
                            s->insts[i].row.state == FR_ST_STOPPING &&
                            s->insts[i].row.stop_cause == FR_CAUSE_STOPPED;
    for (uint32_t g = 0; g < s->n_gangs; g++)
        resume_gang(s, &s->gangs[g]);
    for (uint32_t i = 0; i < s->plan->n_insts; i++)
        resume_inst(s, i);
    recount_needs(s);
}

void tick(struct fr_sched *s)
{
    s->late = false;
    while (s->timers.n > 0 && (int64_t)s->timers.v[0].key <= s->now_ms && !s->late) {
        struct fr_heap_entry e = fr_heap_pop(&s->timers);
        uint32_t i = e.id & ~(uint32_t)(LOST_TIMER | AWAY_TIMER);

        if (e.id & LOST_TIMER) {
            if (s->insts[i].lost_stamp == e.stamp && s->insts[i].row.live)
                give_up(s, i);
        } else if (e.id & AWAY_TIMER) {
            end_waits(s, i, (int64_t)e.key);
        } else if (s->insts[i].stamp == e.stamp && s->insts[i].row.state == FR_ST_RETRYING) {
            make_ready(s, i);
            s->slice -= s->slice > 0;
        }
        s->late = s->late || s->slice == 0;
    }
}
