/*
 * Who starts where. Each node keeps its ready single instances in a heap by key (longest chain
 * first, then the file's order) and offers the best of them while it fits: one entry in s->offers.
 * A ready gang becomes the reserver when its turn comes: slots that free up on its nodes are kept
 * for it against whatever has a worse key, so it cannot starve; only one gang collects at a time,
 * so two cannot block each other. A gang one of whose nodes has no link waits for that link and
 * keeps nothing. What comes too late for the allocation of its node holds up what is less urgent
 * there, until that has another one.
 *
 * Of a node that can take no more, the next instances are booked (sched.h): they stay in its heap.
 */
#include "engine/sched/internal.h"

static uint32_t weight(const struct fr_sched *s, uint32_t inst)
{
    return (uint32_t)plan_task(s, inst)->spec->slots;
}

static uint32_t free_slots(const struct fr_sched *s, uint32_t node)
{
    uint32_t slots = s->nodes[node].slots, used = s->nodes[node].used;

    return used < slots ? slots - used : 0;
}

static bool fits(const struct fr_sched *s, uint32_t node, uint32_t inst)
{
    const struct node *n = &s->nodes[node];
    uint32_t room = free_slots(s, node), need = weight(s, inst);

    if (n->link != LINK_UP || is_late(s, inst))
        return false;
    if (n->reserved > 0 && key_of(s, inst) > key_of(s, s->gangs[s->reserver].first))
        room = room > n->reserved ? room - n->reserved : 0;
    return need <= room;
}

void want_link(struct fr_sched *s, uint32_t node)
{
    struct fr_act *a;

    if (s->nodes[node].link != LINK_NEW)
        return;
    s->nodes[node].link = LINK_ASKED;
    s->nodes[node].away_ms = s->now_ms;
    if ((a = new_act(s, FR_ACT_CONNECT)) != NULL)
        a->node = node;
}

uint32_t best_of(struct fr_sched *s, uint32_t node)
{
    struct fr_heap *h = &s->nodes[node].ready;

    while (h->n > 0 && s->insts[h->v[0].id].stamp != h->v[0].stamp)
        fr_heap_pop(h);
    return h->n > 0 ? h->v[0].id : NONE;
}

static void offer(struct fr_sched *s, uint32_t node)
{
    struct node *n = &s->nodes[node];
    uint32_t best = best_of(s, node);

    if (best == NONE)
        return;
    want_link(s, node);
    if (!fits(s, node, best) || n->offered == key_of(s, best))
        return;
    n->offered = key_of(s, best);
    if (!fr_heap_push(&s->offers, (struct fr_heap_entry){n->offered, node, 0}))
        s->broken = true;
}

void enqueue(struct fr_sched *s, uint32_t inst)
{
    uint32_t t = s->plan->insts[inst].task, node = s->plan->insts[inst].node;
    struct fr_heap_entry e = {key_of(s, inst), inst, s->insts[inst].stamp};

    if (s->plan->tasks[t].gang) {
        e.id = gang_of(s, inst);
        e.stamp = ++s->gangs[e.id].stamp;
        s->broken |= !fr_heap_push(&s->ready_gangs, e);
        return;
    }
    if (s->nodes[node].link == LINK_REFUSED) {
        fail_unstarted(s, inst, s->nodes[node].why);
        return;
    }
    s->broken |= !fr_heap_push(&s->nodes[node].ready, e);
    offer(s, node);
    wait_for_node(s, node);
}

static void check_reserved(struct fr_sched *s, uint32_t node)
{
    struct node *n = &s->nodes[node];
    bool ok = n->link == LINK_UP && free_slots(s, node) >= n->reserved;

    if (n->reserved == 0 || ok == n->res_ok)
        return;
    n->res_ok = ok;
    s->missing += ok ? UINT32_MAX : 1; /* -1 or +1 */
}

void room_changed(struct fr_sched *s, uint32_t node)
{
    check_reserved(s, node);
    offer(s, node);
}

void drop_reservation(struct fr_sched *s)
{
    const struct gang *gang = &s->gangs[s->reserver];

    s->reserver = NONE;
    s->missing = 0;
    for (uint32_t k = 0; k < gang->n; k++) {
        struct node *n = &s->nodes[s->plan->insts[gang->first + k].node];

        n->reserved = 0;
        n->res_ok = false;
    }
    for (uint32_t k = 0; k < gang->n; k++)
        offer(s, s->plan->insts[gang->first + k].node);
}

/* The first node of the gang that it cannot use now, NONE: all are up. Links are asked for. */
static uint32_t node_missing(struct fr_sched *s, const struct gang *gang)
{
    uint32_t missing = NONE;

    for (uint32_t k = 0; k < gang->n; k++) {
        uint32_t node = s->plan->insts[gang->first + k].node;

        want_link(s, node);
        if (s->nodes[node].link == LINK_REFUSED)
            return node;
        if (s->nodes[node].link != LINK_UP && missing == NONE)
            missing = node;
    }
    return missing;
}

static void wait_for_link(struct fr_sched *s, uint32_t gang, uint32_t node)
{
    s->gangs[gang].next_wait = s->nodes[node].gang_wait;
    s->nodes[node].gang_wait = gang;
    wait_for_node(s, node);
}

static void reserve(struct fr_sched *s, uint32_t g)
{
    const struct gang *gang = &s->gangs[g];
    uint32_t missing = node_missing(s, gang);

    if (missing != NONE && s->nodes[missing].link == LINK_REFUSED) {
        fail_unstarted(s, gang->first, s->nodes[missing].why);
        return;
    }
    if (missing != NONE) {
        wait_for_link(s, g, missing);
        return;
    }
    s->reserver = g;
    s->missing = 0;
    for (uint32_t k = 0; k < gang->n; k++) {
        struct node *n = &s->nodes[s->plan->insts[gang->first + k].node];

        n->reserved += weight(s, gang->first + k);
        n->res_ok = true;
    }
    for (uint32_t k = 0; k < gang->n; k++)
        check_reserved(s, s->plan->insts[gang->first + k].node);
}

/* A gang that has all it needs. One that comes too late waits for the next link to that node. */
static bool gang_starts(struct fr_sched *s)
{
    uint32_t gang = s->reserver, spent;

    if (gang == NONE || s->missing > 0)
        return false;
    if ((spent = node_spent(s, &s->gangs[gang])) == NONE)
        return true;
    drop_reservation(s);
    wait_for_link(s, gang, spent);
    return false;
}

static void pick_reserver(struct fr_sched *s)
{
    while (s->reserver == NONE && s->ready_gangs.n > 0) {
        struct fr_heap_entry e = fr_heap_pop(&s->ready_gangs);

        if (s->gangs[e.id].stamp == e.stamp &&
            s->insts[s->gangs[e.id].first].row.state == FR_ST_READY)
            reserve(s, e.id);
    }
}

/* The node of the best single instance that can start now, NONE: none can. */
static uint32_t pick_node(struct fr_sched *s)
{
    while (s->offers.n > 0) {
        struct fr_heap_entry e = s->offers.v[0];
        uint32_t best = best_of(s, e.id);

        if (best != NONE && key_of(s, best) == e.key && fits(s, e.id, best))
            return e.id;
        fr_heap_pop(&s->offers);
        if (s->nodes[e.id].offered == e.key)
            s->nodes[e.id].offered = UINT64_MAX;
        offer(s, e.id);
    }
    return NONE;
}

static void give_attempt(struct fr_sched *s, uint32_t inst, uint32_t generation)
{
    struct inst *in = &s->insts[inst];
    struct fr_row *row = &in->row;
    bool gang = plan_task(s, inst)->gang;

    row->attempt_no++;
    row->attempt = s->ids[s->ids_at++];
    row->attempt_state = FR_ST_STARTING;
    row->generation = gang ? generation : row->attempt_no;
    row->go = !gang;
    row->cause = row->stop_cause = FR_CAUSE_NONE;
    row->code = 0;
    in->prepared = in->queried = in->no_retry = in->unsure = in->loaded = false;
}

static void begin_attempt(struct fr_sched *s, uint32_t inst)
{
    take_slot(s, inst);
    make_live(s, inst);
    set_row(s, inst, FR_ST_STARTING);
}

static void start_single(struct fr_sched *s, uint32_t node)
{
    uint32_t inst = best_of(s, node);
    bool booked = s->insts[inst].booked;

    fr_heap_pop(&s->offers);
    fr_heap_pop(&s->nodes[node].ready);
    s->nodes[node].offered = UINT64_MAX;
    s->units++;
    if (booked)
        unmark_booked(s, inst);
    else
        give_attempt(s, inst, 0);
    begin_attempt(s, inst);
    put_act(s, FR_ACT_START, inst);
    if (!s->broken)
        s->acts->v[s->acts->n - 1].booked = booked;
    if (!s->nodes[node].touched)
        s->touched[s->n_touched++] = node;
    s->nodes[node].touched = true;
    room_changed(s, node);
}

static void start_gang(struct fr_sched *s, struct gang *gang)
{
    gang->generation++;
    gang->live = gang->n;
    gang->prepared = gang->held = 0;
    gang->failing = gang->free = gang->unproven = false;
    gang->first_failed = NONE;
    gang->unit = true;
    s->units++;
    for (uint32_t k = 0; k < gang->n; k++) {
        give_attempt(s, gang->first + k, gang->generation);
        begin_attempt(s, gang->first + k);
    }
    for (uint32_t k = 0; k < gang->n; k++)
        put_act(s, FR_ACT_PREPARE, gang->first + k);
    drop_reservation(s);
}

/* Books the best instances that wait for a slot of the node, as long as there are ids. */
static void book(struct fr_sched *s, uint32_t node)
{
    struct fr_heap *ready = &s->nodes[node].ready;
    struct fr_heap_entry best[BOOK_MAX];
    uint32_t n = 0, inst;

    if (s->nodes[node].booked > BOOK_MIN || s->nodes[node].link != LINK_UP)
        return;
    while (n < BOOK_MAX && s->booked < BOOK_ALL && s->ids_at < s->ids_n &&
           (inst = best_of(s, node)) != NONE) {
        best[n++] = fr_heap_pop(ready);
        if (s->insts[inst].booked)
            continue;
        give_attempt(s, inst, 0);
        mark_booked(s, inst);
        put_row(s, inst);
    }
    while (n > 0)
        (void)fr_heap_push(ready, best[--n]); /* where it was: no memory is taken */
}

static void book_again(struct fr_sched *s, uint32_t i)
{
    end_live(s, i, FR_ST_STARTING, FR_CAUSE_NONE);
    set_state(s, i, FR_ST_READY);
    mark_booked(s, i);
    put_row(s, i);
    enqueue(s, i);
}

bool slot_is_lost(const struct fr_sched *s, uint32_t i)
{
    const struct inst *in = &s->insts[i];

    return in->loaded && s->nodes[s->plan->insts[i].node].over;
}

bool waits_again(struct fr_sched *s, uint32_t i)
{
    struct inst *in = &s->insts[i];
    bool again = !plan_task(s, i)->gang && (in->unsure || slot_is_lost(s, i));

    in->loaded = false;
    if (again && !s->tasks[s->plan->insts[i].task].blocked)
        book_again(s, i);
    return in->booked;
}

size_t fr_sched_booked(const struct fr_sched *s)
{
    return s->booked;
}

struct fr_demand fr_sched_demand(struct fr_sched *s, uint32_t node)
{
    const struct node *n = &s->nodes[node];
    struct fr_demand d = {.slots = n->slots, .used = n->used};
    uint32_t best = best_of(s, node), units = s->plan->max_parallel;

    units = s->units < units && !s->stopping ? units - s->units : 0;
    if (n->link != LINK_UP || units == 0)
        return d;
    if (best != NONE) {
        uint32_t most = weight(s, best) * units;

        d.single = n->waiting < most ? n->waiting : most;
        d.single_ms = s->insts[best].due_ms;
    }
    if (n->reserved > 0) {
        d.gang = n->reserved;
        d.gang_ms = s->insts[s->gangs[s->reserver].first].due_ms;
        d.gang_first = best != NONE && key_of(s, best) > key_of(s, s->gangs[s->reserver].first);
    }
    return d;
}

static void start_all(struct fr_sched *s)
{
    s->starved = false;
    while (!s->broken && s->units < s->plan->max_parallel) {
        uint32_t node, ids;
        bool gang;

        do
            pick_reserver(s);
        while (!(gang = gang_starts(s)) && s->reserver == NONE && s->ready_gangs.n > 0);
        node = pick_node(s);
        if (gang && node != NONE)
            gang = key_of(s, s->gangs[s->reserver].first) < s->offers.v[0].key;
        if (!gang && node == NONE)
            return;
        ids = gang ? s->gangs[s->reserver].n : !s->insts[best_of(s, node)].booked;
        if (s->ids_n - s->ids_at < ids) {
            s->starved = true;
            return;
        }
        if (gang)
            start_gang(s, &s->gangs[s->reserver]);
        else
            start_single(s, node);
    }
}

void dispatch(struct fr_sched *s)
{
    bool cuts = s->going_n > 0 && fails_fast(s, s->going[s->going_at]);

    if (past_limit(s) || (cuts && !s->stopping)) /* what is left of the slices comes first */
        return;
    start_all(s);
    while (s->n_touched > 0) {
        uint32_t node = s->touched[--s->n_touched];

        s->nodes[node].touched = false;
        book(s, node);
    }
}

/* A gang that collects slots on a node without a link holds up others for nothing. */
void node_gone(struct fr_sched *s, uint32_t node)
{
    uint32_t gang = s->reserver;

    if (gang == NONE || node_missing(s, &s->gangs[gang]) == NONE)
        return;
    drop_reservation(s);
    if (s->nodes[node].link == LINK_REFUSED)
        fail_unstarted(s, s->gangs[gang].first, s->nodes[node].why);
    else
        wait_for_link(s, gang, node);
}

void node_back(struct fr_sched *s, uint32_t node)
{
    uint32_t g = s->nodes[node].gang_wait;

    s->nodes[node].gang_wait = NONE;
    while (g != NONE) {
        uint32_t next = s->gangs[g].next_wait;

        if (s->insts[s->gangs[g].first].row.state == FR_ST_READY)
            enqueue(s, s->gangs[g].first);
        g = next;
    }
    room_changed(s, node);
}
