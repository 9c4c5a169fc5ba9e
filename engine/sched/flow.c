/* Consequences of an end: users of a task, `when`, the run's outcome, hooks. */
#include "engine/sched/internal.h"

static bool has_when(const struct fr_plan_task *task)
{
    return task->spec->when.s != NULL || task->spec->when.expr != NULL;
}

static bool task_failed(const struct fr_sched *s, uint32_t t)
{
    const uint32_t *c = s->tasks[t].count;

    if (s->plan->tasks[t].spec->best_effort)
        return false;
    return c[FR_ST_FAILED] + c[FR_ST_TIMED_OUT] + c[FR_ST_CANCELLED] + c[FR_ST_LOST] +
               c[FR_ST_STOP_UNPROVEN] + c[FR_ST_UPSTREAM_FAILED] >
           0;
}

bool fr_sched_needs_failed(const struct fr_sched *s, uint32_t task)
{
    const struct fr_plan_task *t = &s->plan->tasks[task];

    if (t->hook >= 0)
        return s->run.outcome == FR_OUT_FAILED;
    for (uint32_t i = 0; i < t->n_needs; i++)
        if (task_failed(s, t->needs[i]))
            return true;
    return false;
}

static void end_waiting(struct fr_sched *s, uint32_t t, enum fr_state_of state)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];

    for (uint32_t k = 0; k < task->count; k++)
        if (s->insts[task->first + k].row.state == FR_ST_WAITING)
            set_row(s, task->first + k, state);
}

/* Its waiting instances go on, from task.at on, while *slice lasts. false: some are left. */
static bool activate_some(struct fr_sched *s, uint32_t t, uint32_t *slice)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    uint32_t *at = &s->tasks[t].at, units = task->gang ? 1 : task->count;
    bool fails;

    if (s->stopping || s->tasks[t].count[FR_ST_WAITING] == 0)
        return true;
    if (task->gang && s->tasks[t].count[FR_ST_WAITING] < task->count)
        return true; /* a member is still being proven gone */
    fails = task->hook < 0 && !task->spec->ended_is_enough && fr_sched_needs_failed(s, t);
    for (; *at<units && * slice> 0; ++*at) {
        struct inst *in = &s->insts[task->first + *at];

        if (in->row.state != FR_ST_WAITING || in->asked || in->row.blocked)
            continue;
        --*slice;
        if (fails && task->gang) {
            end_waiting(s, t, FR_ST_UPSTREAM_FAILED);
        } else if (fails) {
            set_row(s, task->first + *at, FR_ST_UPSTREAM_FAILED);
        } else if (has_when(task)) {
            in->asked = true;
            s->asking++;
            put_act(s, FR_ACT_EVAL, task->first + *at);
        } else {
            make_ready(s, task->first + *at);
        }
    }
    return *at == units;
}

void activate(struct fr_sched *s, uint32_t t)
{
    s->tasks[t].at = 0;
    if (s->tasks[t].going)
        return;
    s->tasks[t].going = true;
    s->going[(s->going_at + s->going_n++) % s->plan->n_tasks] = t;
}

void block_task(struct fr_sched *s, uint32_t t, bool blocked)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];

    s->tasks[t].blocked = blocked;
    for (uint32_t k = 0; k < task->count; k++)
        s->insts[task->first + k].row.blocked = false; /* it is looked at again */
    if (s->begun && !is_hook(s, t) && s->tasks[t].needs_left == 0)
        activate(s, t);
}

static void go_on(struct fr_sched *s)
{
    while (s->going_n > 0 && activate_some(s, s->going[s->going_at], &s->slice)) {
        s->tasks[s->going[s->going_at]].going = false;
        s->going_at = (s->going_at + 1) % s->plan->n_tasks;
        s->going_n--;
    }
}

void answer_when(struct fr_sched *s, const struct fr_event *ev)
{
    struct inst *in = &s->insts[ev->inst];
    const struct fr_plan_task *task = plan_task(s, ev->inst);

    if (!in->asked)
        return;
    in->asked = false;
    s->asking--;
    if (in->row.state != FR_ST_WAITING)
        return;
    if (ev->failed)
        fail_unstarted(s, ev->inst, FR_CAUSE_EXPRESSION);
    else if (ev->value)
        make_ready(s, ev->inst);
    else if (task->gang)
        end_waiting(s, s->plan->insts[ev->inst].task, FR_ST_SKIPPED);
    else
        set_row(s, ev->inst, FR_ST_SKIPPED);
}

void conclude(struct fr_sched *s, uint32_t t)
{
    if (s->tasks[t].concluded)
        return;
    s->tasks[t].concluded = true;
    s->queue[(s->queue_at + s->queue_n++) % s->plan->n_tasks] = t;
}

static bool pass_on(struct fr_sched *s)
{
    bool any = s->queue_n > 0;

    while (s->queue_n > 0) {
        uint32_t t = s->queue[s->queue_at];
        const struct fr_plan_task *task = &s->plan->tasks[t];

        s->queue_at = (s->queue_at + 1) % s->plan->n_tasks;
        s->queue_n--;
        for (uint32_t i = 0; i < task->n_users; i++)
            if (--s->tasks[task->users[i]].needs_left == 0)
                activate(s, task->users[i]);
    }
    return any;
}

void recount_needs(struct fr_sched *s)
{
    for (uint32_t t = 0; t < s->plan->n_tasks; t++) {
        const struct fr_plan_task *task = &s->plan->tasks[t];

        s->tasks[t].needs_left = 0;
        s->tasks[t].going = false;
        s->tasks[t].concluded = s->tasks[t].open == 0;
        for (uint32_t i = 0; i < task->n_needs; i++)
            s->tasks[t].needs_left += s->tasks[task->needs[i]].open > 0;
    }
    s->queue_n = s->going_n = 0;
    if (s->run.state == FR_RUN_OVER) /* what another file added is not of that round */
        return;
    for (uint32_t k = 0; k < s->plan->n_tasks - s->plan->n_hooks; k++)
        if (s->tasks[s->plan->order[k]].needs_left == 0)
            activate(s, s->plan->order[k]);
}

static void decide_outcome(struct fr_sched *s)
{
    bool cancelled = s->run.state == FR_RUN_CANCELLING && !s->run.timed_out;

    s->run.timed_out = ended_late(s);
    if (cancelled || s->run.timed_out)
        s->run.outcome = cancelled ? FR_OUT_CANCELLED : FR_OUT_FAILED;
    else
        s->run.outcome = s->main_bad > 0 ? FR_OUT_FAILED : FR_OUT_SUCCEEDED;
    s->run.state = FR_RUN_HOOKS;
    s->stopping = false;
    s->hook_at = s->plan->n_tasks - s->plan->n_hooks;
    put_run(s);
}

static bool hook_wanted(const struct fr_sched *s, uint32_t t)
{
    switch (s->plan->tasks[t].hook) {
    case FR_HOOK_SUCCESS:
        return s->run.outcome == FR_OUT_SUCCEEDED;
    case FR_HOOK_FAILURE:
        return s->run.outcome == FR_OUT_FAILED;
    case FR_HOOK_CANCEL:
        return s->run.outcome == FR_OUT_CANCELLED;
    default:
        return true;
    }
}

/* Starts the next hook once the one before has ended; after the last the run is over. */
static void advance_hooks(struct fr_sched *s)
{
    struct fr_act *a;

    for (; s->hook_at < s->plan->n_tasks; s->hook_at++) {
        uint32_t all = UINT32_MAX;

        if (s->tasks[s->hook_at].open == 0)
            continue;
        s->tasks[s->hook_at].at = 0;
        if (!s->unstarted && hook_wanted(s, s->hook_at))
            (void)activate_some(s, s->hook_at, &all);
        else
            end_waiting(s, s->hook_at, FR_ST_SKIPPED);
        if (s->tasks[s->hook_at].open > 0)
            return;
    }
    s->run.state = FR_RUN_OVER;
    put_run(s);
    if ((a = new_act(s, FR_ACT_OVER)) != NULL)
        a->run = s->run;
}

void settle(struct fr_sched *s)
{
    reset_some(s); /* while some are left it takes all of the slice: nothing gets ready before */
    do {
        cancel_some(s);
        fail_refused(s);
        pass_on(s);
        go_on(s);
        if (s->main_open == 0 &&
            (s->run.state == FR_RUN_RUNNING || s->run.state == FR_RUN_CANCELLING))
            decide_outcome(s);
        if (s->run.state == FR_RUN_HOOKS)
            advance_hooks(s);
        dispatch(s);
    } while ((s->queue_n > 0 || (s->going_n > 0 && s->slice > 0)) && !s->broken);
}
