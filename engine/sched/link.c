/* Links to nodes: up, down, refused, given up; and the instances that wait for an absent node. */
#include "engine/sched/internal.h"

static void end_there(struct fr_sched *s, uint32_t inst, enum fr_cause cause, bool proven)
{
    struct fr_event ev = {.cause = cause, .proven = proven};

    put_act(s, FR_ACT_STOP, inst); /* should a start still be on its way there */
    attempt_ended(s, inst, &ev);
}

void give_up(struct fr_sched *s, uint32_t inst)
{
    end_there(s, inst, FR_CAUSE_NODE_LOST, true);
}

static void arm_lost(struct fr_sched *s, uint32_t inst, int64_t since_ms)
{
    int64_t after = plan_task(s, inst)->spec->lost_after_ms;

    if (after > 0)
        set_timer(s, inst | LOST_TIMER, ++s->insts[inst].lost_stamp,
                  since_ms + after + s->margin_ms);
}

/* Schedules a look at the instances that wait for the node, then or sooner. */
static void look_in(struct fr_sched *s, uint32_t n, int64_t ms)
{
    s->nodes[n].look_ms = s->now_ms + (ms < AWAY_LOOK_MS ? ms : AWAY_LOOK_MS);
    set_timer(s, n | AWAY_TIMER, 0, s->nodes[n].look_ms);
}

static void node_down(struct fr_sched *s, uint32_t n, int64_t since_ms, bool left)
{
    struct node *node = &s->nodes[n];

    if (node->link == LINK_DOWN)
        return;
    if (node->link != LINK_ASKED)
        node->away_ms = s->now_ms;
    else if (node->look_ms >= 0)
        look_in(s, n, 0); /* the wait may be shorter now */
    node->link = LINK_DOWN;
    for (uint32_t i = left ? NONE : node->live; i != NONE; i = s->insts[i].next) {
        s->insts[i].row.unreachable = true;
        put_row(s, i);
        arm_lost(s, i, since_ms);
    }
    room_changed(s, n);
    node_gone(s, n);
    wait_for_node(s, n);
}

static void node_up(struct fr_sched *s, uint32_t n)
{
    struct node *node = &s->nodes[n];

    node->link = LINK_UP;
    for (uint32_t i = node->live; i != NONE; i = s->insts[i].next) {
        s->insts[i].lost_stamp++;
        if (s->insts[i].row.unreachable) {
            s->insts[i].row.unreachable = false;
            put_row(s, i);
        }
        s->insts[i].queried = true;
        put_act(s, FR_ACT_QUERY, i);
    }
    node_back(s, n);
}

/* ---- nodes that are not there ---- */

static int64_t retry_for_ms(const struct fr_sched *s, uint32_t n)
{
    const struct fr_node *spec = s->plan->nodes[n].spec;

    return spec != NULL ? spec->connect.retry_for_ms : CONTROL_RETRY_FOR_MS;
}

/* The first try to reach a node is let to end, so that the reason is known. */
static int64_t wait_ms(const struct fr_sched *s, uint32_t n)
{
    const struct fr_node *spec = s->plan->nodes[n].spec;
    int64_t wait = retry_for_ms(s, n);
    int64_t first_try = spec != NULL ? spec->connect.timeout_ms + FIRST_TRY_MS : 0;

    return s->nodes[n].link == LINK_ASKED && first_try > wait ? first_try : wait;
}

static bool is_away(const struct node *node)
{
    return node->link == LINK_ASKED || node->link == LINK_DOWN;
}

/* When an instance that is ready has waited long enough: it counts while it is ready and its node
 * is away. */
static int64_t wait_due(const struct fr_sched *s, uint32_t n, uint32_t inst)
{
    int64_t ready_ms = s->insts[inst].due_ms, away_ms = s->nodes[n].away_ms;

    return (ready_ms > away_ms ? ready_ms : away_ms) + wait_ms(s, n);
}

void wait_for_node(struct fr_sched *s, uint32_t n)
{
    if (is_away(&s->nodes[n]) && s->nodes[n].look_ms < 0 && retry_for_ms(s, n) != 0)
        look_in(s, n, wait_ms(s, n));
}

/* Fails the instance if its time has come; else *next is the earliest of those that wait on. */
static bool waited_enough(struct fr_sched *s, uint32_t n, uint32_t inst, int64_t *next)
{
    int64_t due = wait_due(s, n, inst);

    if (due <= s->now_ms) {
        fail_unstarted(s, inst, FR_CAUSE_UNREACHABLE);
        return true;
    }
    *next = due < *next ? due : *next;
    return false;
}

/* One look at all that wait for the node; the next comes AWAY_STEP_MS later at the earliest, or at
 * once where the slice ended this one. A process that was stopped did not wait: the wait begins
 * again, as the node may have answered meanwhile. */
void end_waits(struct fr_sched *s, uint32_t n, int64_t due_ms)
{
    struct node *node = &s->nodes[n];
    int64_t next = INT64_MAX;

    if (due_ms != node->look_ms)
        return; /* another timer was set since then */
    node->look_ms = -1;
    if (!is_away(node))
        return;
    if (s->now_ms >= due_ms + AWAY_LOOK_MS)
        node->away_ms = s->now_ms;
    for (size_t i = 0; i < node->ready.n && s->slice > 0; i++) {
        struct fr_heap_entry e = node->ready.v[i];

        if (s->insts[e.id].stamp == e.stamp && waited_enough(s, n, e.id, &next))
            s->slice--;
    }
    if (s->slice == 0) {
        s->late = true;
        look_in(s, n, 0);
        return;
    }
    for (uint32_t *g = &node->gang_wait; *g != NONE;) {
        uint32_t first = s->gangs[*g].first;

        if (s->insts[first].row.state != FR_ST_READY || waited_enough(s, n, first, &next))
            *g = s->gangs[*g].next_wait;
        else
            g = &s->gangs[*g].next_wait;
    }
    if (next != INT64_MAX)
        look_in(s, n, next > s->now_ms + AWAY_STEP_MS ? next - s->now_ms : AWAY_STEP_MS);
}

/* false: the slice is over. */
static bool fail_on(struct fr_sched *s, uint32_t n)
{
    struct node *node = &s->nodes[n];

    while (node->link == LINK_REFUSED && node->ready.n > 0) {
        struct fr_heap_entry e;

        if (s->slice == 0)
            return false;
        e = fr_heap_pop(&node->ready);
        if (s->insts[e.id].stamp != e.stamp)
            continue;
        s->slice--;
        fail_unstarted(s, e.id, node->why);
    }
    return true;
}

void fail_refused(struct fr_sched *s)
{
    for (uint32_t n = 0; s->n_refused > 0 && n < s->plan->n_nodes; n++)
        if (s->nodes[n].fails && fail_on(s, n)) {
            s->nodes[n].fails = false;
            s->n_refused--;
        }
}

static void node_refused(struct fr_sched *s, uint32_t n, enum fr_cause cause)
{
    struct node *node = &s->nodes[n];

    node->link = LINK_REFUSED;
    node->why = cause != FR_CAUSE_NONE ? cause : FR_CAUSE_START_FAILED;
    s->n_refused += !node->fails;
    node->fails = true;
    node_gone(s, n);
    node_back(s, n);
}

static void abandon(struct fr_sched *s, uint32_t n, const struct fr_event *ev)
{
    uint32_t i = s->nodes[n].live;

    while (i != NONE) {
        end_there(s, i, ev->cause, ev->proven);
        i = s->nodes[n].live; /* an end may have stopped others, but starts nothing */
    }
}

void node_event(struct fr_sched *s, const struct fr_event *ev)
{
    if (ev->kind == FR_EV_NODE_UP)
        node_up(s, ev->node);
    else if (ev->kind == FR_EV_NODE_DOWN)
        node_down(s, ev->node, ev->since_ms, ev->value);
    else if (ev->kind == FR_EV_NODE_REFUSED)
        node_refused(s, ev->node, ev->cause);
    else
        abandon(s, ev->node, ev);
}
