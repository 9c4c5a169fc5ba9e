/* What becomes of attempts on the simulated nodes, and their answers. */
#include "tests/unit/sched/sched_nodes.h"

static void answer(struct world *w, uint32_t node, struct fr_event ev)
{
    struct place *p = &w->at[node];

    if (CHECK(p->msg_n < MAX_Q))
        p->msg[p->msg_n++] = ev;
}

static void answer_state(struct world *w, const struct fr_act *a, const struct att *t)
{
    static const enum fr_event_kind kinds[] = {FR_EV_UNKNOWN, FR_EV_PREPARED, FR_EV_LAUNCHED,
                                               FR_EV_ENDED, FR_EV_TOMBSTONED};
    struct fr_event ev = about(a, kinds[t->st]);

    CHECK(!t->acked);
    ev.cause = t->cause;
    ev.code = t->code;
    ev.proven = t->proven;
    ev.same_home = true;
    ev.same_boot = t->boot == w->at[a->node].boot;
    answer(w, a->node, ev);
}

static void att_end(struct att *t, enum fr_cause cause, int code)
{
    t->st = AT_ENDED;
    t->cause = cause;
    t->code = code;
    t->proven = true;
}

static struct att *other_live(struct world *w, const struct fr_act *a, struct fr_id *id)
{
    struct att *self = att_of(w, a->attempt);

    for (size_t i = 0; i < w->n_atts; i++)
        if (w->atts[i].inst == a->inst && &w->atts[i] != self &&
            (w->atts[i].st == AT_PREPARED || w->atts[i].st == AT_RUNNING)) {
            *id = id_of(i + 1);
            return &w->atts[i];
        }
    return NULL;
}

/* What an instance waits for has ended when it is launched: of a need that it joins item by
 * item its own item, else all of it. Without items there is nothing, but what such a task needs. */
static void check_needs(struct world *w, uint32_t t, uint32_t item)
{
    const struct fr_plan_task *task = &w->plan->tasks[t];

    for (uint32_t i = 0; i < task->n_needs; i++) {
        const struct fr_plan_task *need = &w->plan->tasks[task->needs[i]];
        bool same = fr_plan_is_same(w->plan, t, task->needs[i]);

        for (uint32_t k = 0; k < need->count; k++)
            if (!same || w->plan->insts[need->first + k].item == item)
                CHECK(fr_state_ended(w->rows[need->first + k].state));
    }
}

static void check_launch(struct world *w, const struct fr_act *a)
{
    const struct fr_plan_task *task = &w->plan->tasks[w->plan->insts[a->inst].task];

    CHECK(!att_of(w, a->attempt)->launched);
    att_of(w, a->attempt)->launched = true;
    if (!w->rows[a->inst].live || !fr_id_eq(w->rows[a->inst].attempt, a->attempt)) {
        CHECK(w->fenced); /* given up while its start was under way; a stop follows it */
        return;
    }
    check_needs(w, w->plan->insts[a->inst].task, w->plan->insts[a->inst].item);
    w->launches[a->inst]++;
    if (task->hook >= 0)
        CHECK(w->run.outcome != FR_OUT_NONE && w->launches[a->inst] <= w->run.round);
    else
        CHECK(w->run.outcome == FR_OUT_NONE);
}

static void do_start(struct world *w, const struct fr_act *a)
{
    struct att *t = att_of(w, a->attempt);
    struct fr_event busy = about(a, FR_EV_BUSY);

    if (t->st == AT_PREPARED && a->kind == FR_ACT_START) {
        t->st = AT_RUNNING;
        check_launch(w, a);
    } else if (t->st == AT_UNKNOWN) {
        if (other_live(w, a, &busy.other) != NULL) {
            CHECK(w->fenced);
            answer(w, a->node, busy);
            return;
        }
        t->boot = w->at[a->node].boot;
        if (chance(w, w->calm ? 0 : 4)) {
            att_end(t, FR_CAUSE_START_FAILED, 0);
        } else if (a->kind == FR_ACT_START) {
            t->st = AT_RUNNING;
            check_launch(w, a);
        } else {
            t->st = AT_PREPARED;
        }
    }
    answer_state(w, a, t);
}

static void do_stop(struct world *w, const struct fr_act *a)
{
    struct att *t = att_of(w, a->attempt);

    if (t->acked)
        return;
    if (t->st == AT_PREPARED || t->st == AT_RUNNING) {
        att_end(t, FR_CAUSE_STOPPED, 0);
        t->proven = !chance(w, w->calm ? 0 : 4);
    } else if (t->st == AT_ENDED) {
        t->proven = true;
    }
    answer_state(w, a, t);
}

void nodes_do(struct world *w, const struct fr_act *a)
{
    struct att *t = att_of(w, a->kind == FR_ACT_STOP_OTHER ? a->other : a->attempt);

    if (!CHECK(t != NULL))
        return;
    switch (a->kind) {
    case FR_ACT_START:
    case FR_ACT_PREPARE:
        do_start(w, a);
        break;
    case FR_ACT_GO:
        if (t->st == AT_PREPARED) {
            t->st = AT_RUNNING;
            check_launch(w, a);
        }
        answer_state(w, a, t);
        break;
    case FR_ACT_STOP:
        do_stop(w, a);
        break;
    case FR_ACT_STOP_OTHER:
        if (t->st == AT_PREPARED || t->st == AT_RUNNING)
            att_end(t, FR_CAUSE_STOPPED, 0);
        answer(w, a->node, about(a, FR_EV_CLEARED));
        break;
    case FR_ACT_TOMBSTONE:
        if (t->st == AT_UNKNOWN || t->st == AT_PREPARED)
            t->st = AT_TOMBSTONED;
        answer_state(w, a, t);
        break;
    case FR_ACT_QUERY:
        answer_state(w, a, t);
        break;
    case FR_ACT_ACK:
        CHECK(t->st == AT_ENDED);
        t->acked = true;
        break;
    default:
        break;
    }
}

void nodes_end_one(struct world *w)
{
    size_t start = w->n_atts > 0 ? draw(w, w->n_atts) : 0;

    for (size_t k = 0; k < w->n_atts; k++) {
        size_t i = (start + k) % w->n_atts;
        struct att *t = &w->atts[i];
        uint32_t node = w->plan->insts[t->inst].node;
        struct fr_act a = {.inst = t->inst, .node = node, .attempt = id_of(i + 1)};

        if (t->st != AT_RUNNING && (t->st != AT_PREPARED || w->calm || !chance(w, 3)))
            continue;
        if (t->st == AT_PREPARED)
            att_end(t, FR_CAUSE_START_FAILED, 0);
        else if (w->calm || chance(w, 75))
            att_end(t, FR_CAUSE_EXIT, 0);
        else
            att_end(t, FR_CAUSE_EXIT + draw(w, 4), 1);
        if (w->at[node].up)
            answer_state(w, &a, t);
        return;
    }
}

void nodes_kill_all(struct world *w, uint32_t node, enum fr_cause cause, int64_t lost_ms)
{
    for (size_t i = 0; i < w->n_atts; i++) {
        struct att *t = &w->atts[i];
        int64_t after = w->plan->tasks[w->plan->insts[t->inst].task].spec->lost_after_ms;

        if (w->plan->insts[t->inst].node != node ||
            (lost_ms > 0 && (after == 0 || after > lost_ms)))
            continue;
        if (t->st == AT_RUNNING)
            att_end(t, cause, 0);
        else if (t->st == AT_PREPARED && lost_ms > 0)
            att_end(t, FR_CAUSE_START_FAILED, 0);
        else if (t->st == AT_PREPARED)
            t->st = AT_UNKNOWN;
    }
}
