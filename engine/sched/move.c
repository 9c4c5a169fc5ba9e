/* States, rows, actions, and the slots and lists that go with a live attempt. */
#include "engine/base/sys.h"
#include "engine/sched/internal.h"

#include <assert.h>
#include <string.h>

struct fr_act *new_act(struct fr_sched *s, enum fr_act_kind kind)
{
    struct fr_acts *a = s->acts;
    struct fr_act *v = fr_grow(a->v, a->n + 1, &a->cap, sizeof(*v));

    if (v == NULL) {
        s->broken = true;
        return NULL;
    }
    a->v = v;
    a->v[a->n] = (struct fr_act){.kind = kind, .inst = NONE, .node = NONE, .task = NONE};
    return &a->v[a->n++];
}

void put_act(struct fr_sched *s, enum fr_act_kind kind, uint32_t inst)
{
    struct fr_act *a = new_act(s, kind);
    const struct fr_row *row = &s->insts[inst].row;
    const struct fr_plan_task *task = plan_task(s, inst);

    if (a == NULL)
        return;
    a->inst = inst;
    a->node = s->plan->insts[inst].node;
    a->task = s->plan->insts[inst].task;
    a->attempt = row->attempt;
    a->generation = row->generation;
    a->attempt_no = row->attempt_no;
    a->member = s->plan->insts[inst].member;
    a->members = task->gang ? task->width : 1;
    a->stop_cause = row->stop_cause;
    a->grace_ms = task->spec->grace_ms;
}

void put_row(struct fr_sched *s, uint32_t inst)
{
    struct fr_act *a = new_act(s, FR_ACT_ROW);

    if (a == NULL)
        return;
    a->inst = inst;
    a->node = s->plan->insts[inst].node;
    a->task = s->plan->insts[inst].task;
    a->row = fr_sched_row(s, inst, s->now_ms);
}

void put_run(struct fr_sched *s)
{
    struct fr_act *a = new_act(s, FR_ACT_ROW_RUN);

    if (a != NULL)
        a->run = s->run;
}

bool ended_badly(enum fr_state_of state)
{
    return fr_state_ended(state) && state != FR_ST_SUCCEEDED && state != FR_ST_SKIPPED;
}

void count_state(struct fr_sched *s, uint32_t inst, int by)
{
    enum fr_state_of state = s->insts[inst].row.state;
    uint32_t t = s->plan->insts[inst].task;
    struct task *task = &s->tasks[t];
    struct node *node = &s->nodes[s->plan->insts[inst].node];
    uint32_t d = (uint32_t)by;

    task->count[state] += d;
    s->count[state] += (size_t)by;
    if (state == FR_ST_READY && !s->plan->tasks[t].gang)
        node->waiting += d * (uint32_t)plan_task(s, inst)->spec->slots;
    if (state == FR_ST_READY || fr_state_lives(state))
        node->busy += d;
    if (!fr_state_ended(state)) {
        node->open += d;
        task->open += d;
        s->main_open += is_hook(s, t) ? 0 : d;
    } else if (ended_badly(state) && !is_hook(s, t) && !s->plan->tasks[t].spec->best_effort) {
        s->main_bad += d;
    }
}

void mark_booked(struct fr_sched *s, uint32_t inst)
{
    s->insts[inst].booked = true;
    s->nodes[s->plan->insts[inst].node].booked++;
    s->booked++;
}

void unmark_booked(struct fr_sched *s, uint32_t inst)
{
    s->insts[inst].booked = false;
    s->nodes[s->plan->insts[inst].node].booked--;
    s->booked--;
}

void set_state(struct fr_sched *s, uint32_t inst, enum fr_state_of state)
{
    struct inst *in = &s->insts[inst];

    if (in->booked) { /* it goes elsewhere than to its start */
        unmark_booked(s, inst);
        in->row.attempt_state = FR_ST_CANCELLED;
        put_act(s, FR_ACT_FORGET, inst);
    }
    count_state(s, inst, -1);
    in->row.state = state;
    in->row.blocked = false;
    if (state == FR_ST_READY)
        in->due_ms = s->now_ms;
    in->stamp++;
    count_state(s, inst, 1);
    if (plan_task(s, inst)->spec->max_parallel > 0 && fr_state_ended(state))
        activate_more(s, s->plan->insts[inst].task);
    if (s->begun && plan_task(s, inst)->spec->fail_fast && fr_state_failed(state))
        activate(s, s->plan->insts[inst].task);
    if (s->tasks[s->plan->insts[inst].task].joined && fr_state_ended(state))
        item_ended(s, inst);
    if (s->tasks[s->plan->insts[inst].task].open == 0)
        conclude(s, s->plan->insts[inst].task);
}

void set_row(struct fr_sched *s, uint32_t inst, enum fr_state_of state)
{
    set_state(s, inst, state);
    put_row(s, inst);
}

void set_timer(struct fr_sched *s, uint32_t id, uint32_t stamp, int64_t due_ms)
{
    uint64_t key = due_ms > 0 ? (uint64_t)due_ms : 0;

    if (!fr_heap_push(&s->timers, (struct fr_heap_entry){key, id, stamp}))
        s->broken = true;
}

void take_slot(struct fr_sched *s, uint32_t inst)
{
    struct node *node = &s->nodes[s->plan->insts[inst].node];

    s->insts[inst].slotted = true;
    node->used += (uint32_t)plan_task(s, inst)->spec->slots;
}

void make_live(struct fr_sched *s, uint32_t inst)
{
    struct inst *in = &s->insts[inst];
    struct node *node = &s->nodes[s->plan->insts[inst].node];

    in->row.live = true;
    in->prev = NONE;
    in->next = node->live;
    if (node->live != NONE)
        s->insts[node->live].prev = inst;
    node->live = inst;
    s->live++;
}

void end_live(struct fr_sched *s, uint32_t inst, enum fr_state_of how, enum fr_cause cause)
{
    struct inst *in = &s->insts[inst];
    uint32_t n = s->plan->insts[inst].node;
    struct node *node = &s->nodes[n];

    assert(in->row.live);
    if (in->prev != NONE)
        s->insts[in->prev].next = in->next;
    else
        node->live = in->next;
    if (in->next != NONE)
        s->insts[in->next].prev = in->prev;
    s->live--;
    in->row.live = in->row.unreachable = false;
    in->row.attempt_state = how;
    in->row.cause = cause;
    in->queried = in->unsure = in->loaded = false;
    in->lost_stamp++;
    if (!in->slotted)
        return;
    in->slotted = false;
    node->used -= (uint32_t)plan_task(s, inst)->spec->slots;
    if (node->contended && node->slots > node->used)
        node->slots = node->used;
    if (!plan_task(s, inst)->gang)
        s->units--;
    room_changed(s, n);
}

void put_stop(struct fr_sched *s, uint32_t inst, enum fr_cause cause)
{
    struct fr_row *row = &s->insts[inst].row;

    row->stop_cause = cause;
    row->attempt_state = FR_ST_STOPPING;
    set_row(s, inst, FR_ST_STOPPING);
    put_act(s, FR_ACT_STOP, inst);
}
