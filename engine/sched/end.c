/*
 * Ends of attempts: the resulting state of an instance, its retry, and how a gang that failed is
 * brought to rest before its next generation.
 */
#include "engine/sched/internal.h"

#include <math.h>

/* splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators") */
static uint64_t draw(struct fr_sched *s)
{
    uint64_t z = s->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static enum fr_state_of state_of(enum fr_cause cause, int code)
{
    switch (cause) {
    case FR_CAUSE_EXIT:
        return code == 0 ? FR_ST_SUCCEEDED : FR_ST_FAILED;
    case FR_CAUSE_TIMEOUT:
        return FR_ST_TIMED_OUT;
    case FR_CAUSE_NODE_LOST:
    case FR_CAUSE_LOST:
        return FR_ST_LOST;
    case FR_CAUSE_STOPPED:
    case FR_CAUSE_FAIL_FAST:
    case FR_CAUSE_NONE:
        return FR_ST_CANCELLED;
    default:
        return FR_ST_FAILED;
    }
}

/* Its allocation ended, and another one may follow: whatever was tried before. */
static bool may_chain(const struct fr_sched *s, uint32_t inst)
{
    const struct fr_row *row = &s->insts[inst].row;
    const struct fr_node *node = s->plan->nodes[s->plan->insts[inst].node].spec;

    return (row->cause == FR_CAUSE_TIME_LIMIT || row->cause == FR_CAUSE_PREEMPTED) &&
           node != NULL && (int64_t)row->chained < node->chain;
}

static bool may_retry(const struct fr_sched *s, uint32_t inst)
{
    const struct inst *in = &s->insts[inst];
    const struct fr_task *spec = plan_task(s, inst)->spec;
    const struct fr_retry *retry = &spec->retry;
    const struct fr_row *row = &in->row;

    if (s->stopping || in->no_retry || fails_fast(s, s->plan->insts[inst].task))
        return false;
    if (may_chain(s, inst))
        return true;
    if ((int64_t)row->retries >= retry->times)
        return false;
    if (row->cause == FR_CAUSE_EXIT &&
        (row->code == 0 || (spec->act.what == FR_USES && row->code == FR_EXIT_USAGE)))
        return false;
    if (retry->causes & 1u << row->cause)
        return true;
    for (size_t i = 0; i < retry->n_codes && row->cause == FR_CAUSE_EXIT; i++)
        if (retry->codes[i] == row->code)
            return true;
    return false;
}

static int64_t back_off(struct fr_sched *s, uint32_t inst)
{
    const struct fr_retry *retry = &plan_task(s, inst)->spec->retry;
    double factor = retry->backoff >= 1 ? retry->backoff : 1;
    double ms = (double)retry->delay_ms * pow(factor, (double)s->insts[inst].row.retries);
    double unit = (double)(draw(s) >> 11) * 0x1p-53;

    if (retry->max_delay_ms > 0 && ms > (double)retry->max_delay_ms)
        ms = (double)retry->max_delay_ms;
    ms *= 1 + retry->jitter * (2 * unit - 1);
    return ms >= 1 && ms < 1e15 ? (int64_t)ms : ms >= 1e15 ? (int64_t)1e15 : 0;
}

void make_ready(struct fr_sched *s, uint32_t inst)
{
    struct fr_plan_unit unit = fr_plan_unit(s->plan, inst);
    bool blocked = s->tasks[s->plan->insts[inst].task].blocked;

    for (uint32_t k = 0; k < unit.n; k++) {
        set_state(s, unit.first + k, blocked ? FR_ST_WAITING : FR_ST_READY);
        s->insts[unit.first + k].row.blocked = blocked;
        put_row(s, unit.first + k);
    }
    if (!blocked)
        enqueue(s, unit.first);
}

/* One instance, or a whole gang with one delay and one count, after the end of inst. The delay
 * counts from from_ms on; there is none where a further allocation is waited for. */
static void try_again(struct fr_sched *s, uint32_t inst, int64_t from_ms)
{
    struct fr_plan_unit unit = fr_plan_unit(s->plan, inst);
    uint32_t first = unit.first;
    bool chain = may_chain(s, inst);
    int64_t due = from_ms + (chain ? 0 : back_off(s, first));

    for (uint32_t k = 0; k < unit.n; k++) {
        struct inst *in = &s->insts[first + k];

        in->row.chained += chain;
        in->row.retries += !chain;
        in->idle_answers = 0;
        in->due_ms = due > s->now_ms ? due : s->now_ms;
        set_row(s, first + k, FR_ST_RETRYING);
    }
    set_timer(s, first, s->insts[first].stamp, s->insts[first].due_ms);
}

/* When the last member of the generation ended. */
static int64_t gang_ended(const struct fr_sched *s, const struct gang *gang)
{
    int64_t last = 0;

    for (uint32_t k = 0; k < gang->n; k++)
        if (s->insts[gang->first + k].ended_ms > last)
            last = s->insts[gang->first + k].ended_ms;
    return last;
}

static void gang_settle(struct fr_sched *s, struct gang *gang)
{
    bool good = !gang->failing;

    if (gang->unit) {
        gang->unit = false;
        s->units--;
    }
    if (!good && !gang->unproven && gang->free && !s->stopping &&
        !fails_fast(s, s->plan->insts[gang->first].task)) {
        make_ready(s, gang->first);
        return;
    }
    if (!good && !gang->unproven && may_retry(s, gang->first_failed)) {
        try_again(s, gang->first_failed, gang_ended(s, gang));
        return;
    }
    for (uint32_t k = 0; k < gang->n; k++) {
        struct fr_row *row = &s->insts[gang->first + k].row;

        if (good)
            row->attempt_state = FR_ST_SUCCEEDED;
        if (!fr_state_ended(row->state))
            set_row(s, gang->first + k, state_of(row->cause, row->code));
    }
}

void gang_stop(struct fr_sched *s, uint32_t g, enum fr_cause cause)
{
    struct gang *gang = &s->gangs[g];

    gang->failing = true;
    for (uint32_t k = 0; k < gang->n; k++) {
        uint32_t inst = gang->first + k;
        struct fr_row *row = &s->insts[inst].row;

        if (row->live) {
            if (row->state != FR_ST_STOPPING)
                put_stop(s, inst, cause);
        } else if (row->state == FR_ST_RUNNING) { /* held: its success is void */
            row->cause = row->stop_cause = cause;
            row->attempt_state = state_of(cause, 0);
            set_row(s, inst, FR_ST_STOPPING);
        }
    }
    gang->held = 0;
}

static void member_ended(struct fr_sched *s, uint32_t inst, bool proven)
{
    uint32_t g = gang_of(s, inst);
    struct gang *gang = &s->gangs[g];
    struct fr_row *row = &s->insts[inst].row;
    bool good = row->cause == FR_CAUSE_EXIT && row->code == 0 && proven && !gang->failing;

    gang->live--;
    if (good) {
        row->attempt_state = FR_ST_RUNNING;
        gang->held++;
        if (gang->held < gang->n)
            set_row(s, inst, FR_ST_RUNNING);
    } else {
        gang->unproven |= !proven;
        if (gang->first_failed == NONE && row->cause != FR_CAUSE_GANG_PEER) {
            gang->first_failed = inst;
            gang->free = row->cause == FR_CAUSE_NONE;
        }
        if (row->stop_cause == FR_CAUSE_NONE)
            row->stop_cause = FR_CAUSE_GANG_PEER;
        set_row(s, inst, proven ? FR_ST_STOPPING : FR_ST_STOP_UNPROVEN);
        if (!gang->failing)
            gang_stop(s, g, FR_CAUSE_GANG_PEER);
    }
    if (gang->live == 0)
        gang_settle(s, gang);
}

static void single_ended(struct fr_sched *s, uint32_t inst, bool proven)
{
    struct fr_row *row = &s->insts[inst].row;

    if (!proven)
        set_row(s, inst, FR_ST_STOP_UNPROVEN);
    else if (may_retry(s, inst))
        try_again(s, inst, s->insts[inst].ended_ms);
    else
        set_row(s, inst, state_of(row->cause, row->code));
}

/* A gang of which a member stays unproven cannot start again; not while one is still stopped. */
static void give_up_waiting(struct fr_sched *s, const struct gang *gang)
{
    bool unproven = false;

    for (uint32_t k = 0; k < gang->n; k++) {
        enum fr_state_of state = s->insts[gang->first + k].row.state;

        if (state == FR_ST_STOPPING)
            return;
        unproven = unproven || state == FR_ST_STOP_UNPROVEN;
    }
    for (uint32_t k = 0; unproven && k < gang->n; k++) {
        struct fr_row *row = &s->insts[gang->first + k].row;

        if (row->state == FR_ST_WAITING) {
            row->cause = FR_CAUSE_GANG_PEER;
            set_row(s, gang->first + k, FR_ST_FAILED);
        }
    }
}

/* An attempt that was STOP_UNPROVEN is gone now, and the retry by the user goes on; or it is still
 * there. */
static void again_ended(struct fr_sched *s, uint32_t inst, bool proven)
{
    uint32_t t = s->plan->insts[inst].task;

    s->insts[inst].again = false;
    set_row(s, inst, !proven ? FR_ST_STOP_UNPROVEN : s->stopping ? FR_ST_CANCELLED : FR_ST_WAITING);
    if (plan_task(s, inst)->gang)
        give_up_waiting(s, &s->gangs[gang_of(s, inst)]);
    if (!is_hook(s, t) && s->tasks[t].needs_left == 0)
        activate(s, t);
}

static void finish_attempt(struct fr_sched *s, uint32_t inst, enum fr_cause cause, bool proven)
{
    struct inst *in = &s->insts[inst];
    enum fr_state_of how = proven ? state_of(cause, in->row.code) : FR_ST_STOP_UNPROVEN;

    end_live(s, inst, how, cause);
    in->ended_ms = s->now_ms - s->ago_ms;
    if (!is_hook(s, s->plan->insts[inst].task) && in->ended_ms > s->ended_ms)
        s->ended_ms = in->ended_ms;
    if (in->again)
        again_ended(s, inst, proven);
    else if (plan_task(s, inst)->gang)
        member_ended(s, inst, proven);
    else
        single_ended(s, inst, proven);
}

/* Our own stop is the cause of a later end. But a loss stays a loss, and a single instance that
 * finished before the signal came has succeeded. */
static enum fr_cause cause_of(const struct fr_sched *s, uint32_t inst, const struct fr_event *ev)
{
    const struct fr_row *row = &s->insts[inst].row;
    bool lost = ev->cause == FR_CAUSE_LOST || ev->cause == FR_CAUSE_NODE_LOST;
    bool good = ev->cause == FR_CAUSE_EXIT && ev->code == 0 && !plan_task(s, inst)->gang;

    if (row->state != FR_ST_STOPPING || lost || (good && !s->insts[inst].again))
        return ev->cause;
    return row->stop_cause;
}

void attempt_ended(struct fr_sched *s, uint32_t inst, const struct fr_event *ev)
{
    struct inst *in = &s->insts[inst];
    enum fr_cause cause = cause_of(s, inst, ev);

    in->row.code = ev->code;
    in->no_retry = ev->no_retry;
    finish_attempt(s, inst, cause, ev->proven);
}

bool idle_answer(struct fr_sched *s, uint32_t inst)
{
    struct inst *in = &s->insts[inst];
    struct fr_event ev = {.cause = FR_CAUSE_START_FAILED, .proven = true};

    if (in->idle_answers++ < IDLE_ANSWERS_MAX)
        return false;
    in->idle_answers = 0;
    if (in->row.state != FR_ST_STARTING) { /* it ran, or may have */
        ev.cause = FR_CAUSE_LOST;
        ev.proven = false;
    }
    attempt_ended(s, inst, &ev);
    return true;
}

void send_again(struct fr_sched *s, uint32_t i, enum fr_act_kind kind)
{
    put_act(s, s->tasks[s->plan->insts[i].task].blocked ? FR_ACT_TOMBSTONE : kind, i);
}

void attempt_tombstoned(struct fr_sched *s, uint32_t inst)
{
    struct inst *in = &s->insts[inst];
    bool stopped = in->row.state == FR_ST_STOPPING;

    in->row.code = 0;
    if (in->row.state == FR_ST_RUNNING) { /* it was launched, and the node knows nothing of it */
        finish_attempt(s, inst, FR_CAUSE_LOST, true);
    } else if (!stopped && !s->stopping && idle_answer(s, inst)) {
        return;
    } else if (stopped || plan_task(s, inst)->gang || s->stopping) {
        finish_attempt(s, inst, stopped ? in->row.stop_cause : FR_CAUSE_NONE, true);
    } else {
        end_live(s, inst, FR_ST_CANCELLED, FR_CAUSE_NONE);
        make_ready(s, inst);
    }
}

void fail_unstarted(struct fr_sched *s, uint32_t inst, enum fr_cause cause)
{
    struct fr_plan_unit unit = fr_plan_unit(s->plan, inst);

    for (uint32_t k = 0; k < unit.n; k++) {
        s->insts[unit.first + k].row.cause = cause;
        s->insts[unit.first + k].row.code = 0;
        s->insts[unit.first + k].no_retry = cause != FR_CAUSE_UNREACHABLE;
    }
    if (may_retry(s, unit.first)) {
        try_again(s, unit.first, s->now_ms);
        return;
    }
    for (uint32_t k = 0; k < unit.n; k++)
        set_row(s, unit.first + k, FR_ST_FAILED);
}
