/* Consequences of an end: users of a task, `when`, the run's outcome, hooks. */
#include "engine/sched/internal.h"

static bool has_when(const struct fr_plan_task *task)
{
    return task->spec->when.s != NULL || task->spec->when.expr != NULL;
}

static void end_waiting(struct fr_sched *s, uint32_t first, uint32_t n, enum fr_state_of state)
{
    for (uint32_t k = 0; k < n; k++)
        if (s->insts[first + k].row.state == FR_ST_WAITING)
            set_row(s, first + k, state);
}

/* Else a member is still being proven gone. */
static bool unit_waits(const struct fr_sched *s, struct fr_plan_unit unit)
{
    for (uint32_t k = 0; k < unit.n; k++)
        if (s->insts[unit.first + k].row.state != FR_ST_WAITING)
            return false;
    return true;
}

/* Whether one more instance, or gang, may be on its way. */
static bool has_room(const struct fr_sched *s, uint32_t t)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    const uint32_t *c = s->tasks[t].count;
    uint32_t n = c[FR_ST_READY] + c[FR_ST_STARTING] + c[FR_ST_RUNNING] + c[FR_ST_STOPPING] +
                 c[FR_ST_RETRYING];

    if (task->spec->max_parallel <= 0)
        return true;
    n = task->gang ? (n + task->width - 1) / task->width : n;
    return n + s->tasks[t].asked < (uint32_t)task->spec->max_parallel;
}

/* The state of what ends without an attempt. */
static enum fr_state_of ended_by(enum fr_verdict_kind kind)
{
    return kind == FR_VERDICT_FAIL ? FR_ST_UPSTREAM_FAILED : FR_ST_SKIPPED;
}

static void ask(struct fr_sched *s, enum fr_act_kind kind, uint32_t inst)
{
    s->insts[inst].asked = true;
    s->asking++;
    s->tasks[s->plan->insts[inst].task].asked++;
    put_act(s, kind, inst);
}

/* It is not asked any more. False: nothing was awaited. */
static bool answered(struct fr_sched *s, uint32_t inst)
{
    struct inst *in = &s->insts[inst];

    if (!in->asked)
        return false;
    in->asked = false;
    s->asking--;
    s->tasks[s->plan->insts[inst].task].asked--;
    return in->row.state == FR_ST_WAITING;
}

/* What starts together goes on, if it waits: true. */
static bool activate_unit(struct fr_sched *s, struct fr_plan_unit unit, enum fr_verdict_kind kind)
{
    struct inst *in = &s->insts[unit.first];

    if (!unit_waits(s, unit) || in->asked || in->row.blocked)
        return false;
    if (kind != FR_VERDICT_RUN) {
        end_waiting(s, unit.first, unit.n, ended_by(kind));
    } else if (plan_task(s, unit.first)->awaited) {
        ask(s, FR_ACT_EXPAND, unit.first);
    } else if (plan_task(s, unit.first)->empty) {
        end_waiting(s, unit.first, unit.n, FR_ST_SUCCEEDED);
    } else if (has_when(plan_task(s, unit.first))) {
        ask(s, FR_ACT_EVAL, unit.first);
    } else {
        make_ready(s, unit.first);
    }
    return true;
}

bool fails_fast(const struct fr_sched *s, uint32_t t)
{
    const uint32_t *c = s->tasks[t].count;

    return s->plan->tasks[t].spec->fail_fast &&
           c[FR_ST_FAILED] + c[FR_ST_TIMED_OUT] + c[FR_ST_LOST] + c[FR_ST_STOP_UNPROVEN] > 0;
}

/* What has not ended is cancelled, from task.at on, while *slice lasts. false: some are left. */
static bool cut_some(struct fr_sched *s, uint32_t t, uint32_t *slice)
{
    if (s->reserver != NONE && s->plan->insts[s->gangs[s->reserver].first].task == t)
        drop_reservation(s);
    return s->tasks[t].open == 0 || cancel_task(s, t, &s->tasks[t].at, slice, FR_CAUSE_FAIL_FAST);
}

/* Its waiting instances go on, from task.at on, while *slice lasts. false: some are left. */
static bool activate_some(struct fr_sched *s, uint32_t t, uint32_t *slice)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    uint32_t *at = &s->tasks[t].at, step = task->gang ? task->width : 1;
    enum fr_verdict_kind kind = FR_VERDICT_WAIT;

    if (!s->stopping && fails_fast(s, t))
        return cut_some(s, t, slice);
    if (s->stopping || s->tasks[t].held || s->tasks[t].count[FR_ST_WAITING] == 0)
        return true;
    if (task->n_same == 0)
        kind = verdict_of(s, t, 0).kind;
    for (; *at<task->count && * slice> 0; *at += step) {
        uint32_t item = *at / task->width;

        if (!has_room(s, t))
            return true; /* activate_more() goes on */
        if (task->n_same > 0)
            kind = verdict_of(s, t, item).kind;
        if (kind != FR_VERDICT_WAIT)
            *slice -= activate_unit(s, (struct fr_plan_unit){task->first + *at, step}, kind);
    }
    return *at >= task->count;
}

void item_ended(struct fr_sched *s, uint32_t inst)
{
    const struct fr_plan_inst *in = &s->plan->insts[inst];
    uint32_t *v;

    if (!item_over(s, in->task, in->item))
        return;
    v = fr_grow(s->items, s->items_n + 1, &s->items_cap, sizeof(*v));
    if (v == NULL) {
        s->broken = true;
        return;
    }
    s->items = v;
    v[s->items_n++] = inst;
}

/* The item of a task that joins others item by item goes on, if nothing else is in its way. */
static void activate_item(struct fr_sched *s, uint32_t t, uint32_t item)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    uint32_t first = task->first + item * task->width, step = task->gang ? task->width : 1;
    enum fr_verdict_kind kind;

    if (s->stopping || s->tasks[t].needs_left > 0)
        return;
    kind = verdict_of(s, t, item).kind;
    for (uint32_t k = 0; kind != FR_VERDICT_WAIT && k < task->width && has_room(s, t); k += step)
        (void)activate_unit(s, (struct fr_plan_unit){first + k, step}, kind);
}

/* Passes the ends of items on to those that wait for them alone, while the slice lasts. */
static void pass_items(struct fr_sched *s)
{
    while (s->items_n > 0 && s->slice > 0) {
        const struct fr_plan_inst *in = &s->plan->insts[s->items[--s->items_n]];
        const struct fr_plan_task *task = &s->plan->tasks[in->task];

        s->slice--;
        for (uint32_t i = 0; i < task->n_users; i++)
            if (fr_plan_is_same(s->plan, task->users[i], in->task))
                activate_item(s, task->users[i], in->item);
    }
}

static void go(struct fr_sched *s, uint32_t t)
{
    if (s->tasks[t].going)
        return;
    s->tasks[t].going = true;
    s->going[(s->going_at + s->going_n++) % s->plan->n_tasks] = t;
}

void activate(struct fr_sched *s, uint32_t t)
{
    s->tasks[t].at = 0;
    go(s, t);
}

/* Those that join others item by item may have been passed over: their item there had not ended. */
void activate_more(struct fr_sched *s, uint32_t t)
{
    if (is_hook(s, t) || s->tasks[t].needs_left > 0 || s->tasks[t].count[FR_ST_WAITING] == 0)
        return;
    if (s->plan->tasks[t].n_same > 0)
        s->tasks[t].at = 0;
    if (s->begun)
        go(s, t);
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
    struct fr_plan_unit unit = fr_plan_unit(s->plan, ev->inst);

    if (!answered(s, ev->inst))
        return;
    if (ev->failed)
        fail_unstarted(s, ev->inst, FR_CAUSE_EXPRESSION);
    else if (ev->kind == FR_EV_LIST)
        end_waiting(s, unit.first, unit.n, FR_ST_SUCCEEDED);
    else if (ev->value)
        make_ready(s, ev->inst);
    else
        end_waiting(s, unit.first, unit.n, FR_ST_SKIPPED);
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
            if (!fr_plan_is_same(s->plan, task->users[i], t) &&
                --s->tasks[task->users[i]].needs_left == 0)
                activate(s, task->users[i]);
    }
    return any;
}

void recount_needs(struct fr_sched *s)
{
    uint32_t n_main = s->plan->n_tasks - s->plan->n_hooks;

    for (uint32_t k = 0; k < s->plan->n_tasks; k++) { /* what a task needs comes before it */
        uint32_t t = k < n_main ? s->plan->order[k] : k;
        const struct fr_plan_task *task = &s->plan->tasks[t];

        s->tasks[t].needs_left = 0;
        s->tasks[t].going = false;
        for (uint32_t i = 0; i < task->n_needs; i++)
            s->tasks[t].needs_left +=
                !s->tasks[task->needs[i]].concluded && !fr_plan_is_same(s->plan, t, task->needs[i]);
        s->tasks[t].concluded = s->tasks[t].open == 0;
    }
    s->queue_n = s->going_n = 0;
    s->items_n = 0;
    if (s->run.state == FR_RUN_OVER) /* what another file added is not of that round */
        return;
    for (uint32_t k = 0; k < n_main; k++)
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
            end_waiting(s, s->plan->tasks[s->hook_at].first, s->plan->tasks[s->hook_at].count,
                        FR_ST_SKIPPED);
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
        pass_items(s);
        pass_on(s);
        go_on(s);
        if (s->main_open == 0 &&
            (s->run.state == FR_RUN_RUNNING || s->run.state == FR_RUN_CANCELLING))
            decide_outcome(s);
        if (s->run.state == FR_RUN_HOOKS)
            advance_hooks(s);
        dispatch(s);
    } while ((s->queue_n > 0 || ((s->going_n > 0 || s->items_n > 0) && s->slice > 0)) &&
             !s->broken);
}
