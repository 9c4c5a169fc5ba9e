/* Life of a scheduler, loading, views, and the switch over events. */
#include "engine/sched/sched.h"

#include "engine/base/sys.h"
#include "engine/sched/internal.h"

#include <string.h>

void fr_acts_finish(struct fr_acts *acts)
{
    fr_sys.free(acts->v);
    *acts = (struct fr_acts){0};
}

void *zeroed(size_t n, size_t size)
{
    size_t bytes;
    void *p = fr_mul_size(n > 0 ? n : 1, size, &bytes) ? fr_sys.alloc(bytes) : NULL;

    return p != NULL ? memset(p, 0, bytes) : NULL;
}

static void first_states(struct fr_sched *s)
{
    for (uint32_t n = 0; n < s->plan->n_nodes; n++) {
        s->nodes[n].offered = UINT64_MAX;
        s->nodes[n].live = s->nodes[n].gang_wait = NONE;
        s->nodes[n].look_ms = -1;
    }
    for (uint32_t t = 0, g = 0; t < s->plan->n_tasks; t++) {
        const struct fr_plan_task *task = &s->plan->tasks[t];

        s->tasks[t].gangs = g;
        for (uint32_t k = 0; k < task->n_same; k++)
            s->tasks[task->same[k]].joined = true;
        for (uint32_t k = 0; task->gang && k < task->count; k += task->width)
            s->gangs[g++] = (struct gang){.first = task->first + k,
                                          .n = task->width,
                                          .next_wait = NONE,
                                          .first_failed = NONE};
        if (task->gang && task->width > s->largest_gang)
            s->largest_gang = task->width;
    }
    for (uint32_t i = 0; i < s->plan->n_insts; i++) {
        s->insts[i].row.inst = i;
        s->insts[i].prev = s->insts[i].next = NONE;
        count_state(s, i, 1);
    }
}

static uint32_t count_gangs(const struct fr_plan *plan)
{
    uint32_t n = 0;

    for (uint32_t t = 0; t < plan->n_tasks; t++)
        n += plan->tasks[t].gang ? plan->tasks[t].count / plan->tasks[t].width : 0;
    return n;
}

enum fr_rc fr_sched_create(const struct fr_plan *plan, const struct fr_sched_opts *opts,
                           struct fr_sched **out, struct fr_err *err)
{
    struct fr_sched *s = zeroed(1, sizeof *s);

    *out = NULL;
    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a scheduler");
    s->plan = plan;
    s->reserver = NONE;
    s->random = opts != NULL ? opts->seed : 0;
    s->timeout_ms = opts != NULL ? opts->timeout_ms : 0;
    s->end_due_ms = INT64_MAX;
    s->margin_ms = opts != NULL && opts->lost_margin_ms > 0 ? opts->lost_margin_ms : 10000;
    s->run.round = 1;
    s->insts = zeroed(plan->n_insts, sizeof *s->insts);
    s->tasks = zeroed(plan->n_tasks, sizeof *s->tasks);
    s->n_gangs = count_gangs(plan);
    s->gangs = zeroed(s->n_gangs, sizeof *s->gangs);
    s->nodes = zeroed(plan->n_nodes, sizeof *s->nodes);
    s->queue = zeroed(plan->n_tasks, sizeof *s->queue);
    s->going = zeroed(plan->n_tasks, sizeof *s->going);
    s->touched = zeroed(plan->n_nodes, sizeof *s->touched);
    if (s->insts == NULL || s->tasks == NULL || s->gangs == NULL || s->nodes == NULL ||
        s->queue == NULL || s->going == NULL || s->touched == NULL) {
        fr_sched_destroy(s);
        return fr_fail(err, FR_NOMEM, "no memory for %u instances", plan->n_insts);
    }
    first_states(s);
    for (uint32_t n = 0; n < plan->n_nodes && !(opts != NULL && opts->lent); n++)
        s->nodes[n].slots = plan->nodes[n].slots;
    *out = s;
    return FR_OK;
}

void fr_sched_destroy(struct fr_sched *s)
{
    if (s == NULL)
        return;
    for (uint32_t n = 0; s->nodes != NULL && n < s->plan->n_nodes; n++)
        fr_heap_finish(&s->nodes[n].ready);
    fr_heap_finish(&s->offers);
    fr_heap_finish(&s->ready_gangs);
    fr_heap_finish(&s->timers);
    fr_sys.free(s->insts);
    fr_sys.free(s->tasks);
    fr_sys.free(s->gangs);
    fr_sys.free(s->nodes);
    fr_sys.free(s->queue);
    fr_sys.free(s->going);
    fr_sys.free(s->items);
    fr_sys.free(s->touched);
    fr_sys.free(s->what);
    fr_sys.free(s->ids);
    fr_sys.free(s);
}

enum fr_rc fr_sched_load_run(struct fr_sched *s, const struct fr_run_now *row, struct fr_err *err)
{
    if (s->begun || (unsigned)row->state > FR_RUN_OVER || (unsigned)row->outcome > FR_OUT_CANCELLED)
        return fr_fail(err, FR_CORRUPT, "the stored state of the run makes no sense");
    s->run = *row;
    return FR_OK;
}

enum fr_rc fr_sched_load(struct fr_sched *s, const struct fr_row *row, struct fr_err *err)
{
    bool flying = fr_state_lives(row->state);
    bool booked = fr_row_booked(row) && row->attempt_state == FR_ST_STARTING;
    struct inst *in;

    if (s->begun || row->inst >= s->plan->n_insts || (unsigned)row->state >= FR_ST_N)
        return fr_fail(err, FR_CORRUPT, "a stored instance (%u) that the plan does not have",
                       row->inst);
    in = &s->insts[row->inst];
    if ((row->live && (fr_id_zero(row->attempt) || !(flying || booked))) || in->stamp != 0 ||
        (flying && !row->live && !plan_task(s, row->inst)->gang) ||
        (booked && plan_task(s, row->inst)->gang))
        return fr_fail(err, FR_CORRUPT, "the stored row of %s contradicts itself",
                       s->plan->insts[row->inst].key);
    set_state(s, row->inst, row->state);
    in->row = *row;
    in->row.live = false;
    in->due_ms = row->delay_ms > 0 ? row->delay_ms : 0;
    in->unsure = booked;
    in->loaded = row->state == FR_ST_STARTING;
    if (row->live)
        make_live(s, row->inst);
    return FR_OK;
}

size_t fr_sched_ids_wanted(const struct fr_sched *s)
{
    size_t want = (size_t)s->plan->max_parallel + BOOK_MAX;

    if (want > s->plan->n_insts)
        want = s->plan->n_insts;
    if (want < s->largest_gang)
        want = s->largest_gang;
    return want > s->ids_n - s->ids_at ? want - (s->ids_n - s->ids_at) : 0;
}

enum fr_rc fr_sched_add_ids(struct fr_sched *s, const struct fr_id *ids, size_t n,
                            struct fr_err *err)
{
    size_t have = s->ids_n - s->ids_at;

    if (s->ids_at > 0) {
        memmove(s->ids, s->ids + s->ids_at, have * sizeof *s->ids);
        s->ids_at = 0;
        s->ids_n = have;
    }
    if (have + n > 0) {
        struct fr_id *v = fr_grow(s->ids, have + n, &s->ids_cap, sizeof(*v));

        if (v == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for attempt ids");
        s->ids = v;
    }
    if (n > 0)
        memcpy(s->ids + have, ids, n * sizeof *ids);
    s->ids_n = have + n;
    return FR_OK;
}

static void on_prepared(struct fr_sched *s, uint32_t i, bool unready)
{
    struct inst *in = &s->insts[i];
    struct gang *gang = plan_task(s, i)->gang ? &s->gangs[gang_of(s, i)] : NULL;

    if (in->row.state == FR_ST_STOPPING) {
        put_act(s, FR_ACT_STOP, i);
    } else if (in->row.state == FR_ST_STARTING && in->row.go && gang != NULL) {
        put_act(s, FR_ACT_GO, i);
    } else if (in->row.state == FR_ST_STARTING && in->row.go) {
        send_again(s, i, FR_ACT_START);
    } else if (in->row.state == FR_ST_STARTING && gang != NULL && !in->prepared && !unready) {
        in->prepared = true;
        if (++gang->prepared < gang->n)
            return;
        for (uint32_t k = 0; k < gang->n; k++) {
            s->insts[gang->first + k].row.go = true;
            put_row(s, gang->first + k);
        }
        for (uint32_t k = 0; k < gang->n; k++)
            put_act(s, FR_ACT_GO, gang->first + k);
    }
}

static void on_launched(struct fr_sched *s, uint32_t i, bool queried)
{
    struct inst *in = &s->insts[i];

    if (in->row.state == FR_ST_STARTING) {
        in->row.attempt_state = FR_ST_RUNNING;
        in->idle_answers = 0;
        set_row(s, i, FR_ST_RUNNING);
    }
    if (in->row.state == FR_ST_STOPPING)
        put_act(s, FR_ACT_STOP, i);
    if (queried)
        put_act(s, FR_ACT_ATTACH, i);
}

static void on_cleared(struct fr_sched *s, uint32_t i)
{
    const struct fr_row *row = &s->insts[i].row;

    if (row->state == FR_ST_STOPPING)
        put_act(s, FR_ACT_STOP, i);
    else if (row->state == FR_ST_STARTING && !idle_answer(s, i))
        send_again(s, i, row->go && !plan_task(s, i)->gang ? FR_ACT_START : FR_ACT_PREPARE);
}

static void on_unknown(struct fr_sched *s, uint32_t i, const struct fr_event *ev)
{
    const struct fr_row *row = &s->insts[i].row;
    struct fr_event lost = {.cause = FR_CAUSE_LOST, .proven = true};
    /* A gang begins anew where peers know a member's old address, or a member's slot is lost. What
     * was prepared gives no slot away before it is sure that it will not start. */
    bool gang = plan_task(s, i)->gang, lost_slot = slot_is_lost(s, i);
    bool gone = gang ? row->go || lost_slot : (lost_slot || s->insts[i].unsure) && ev->prepared;

    if (!ev->same_boot) { /* nothing outlives a reboot, but a start may still be on its way */
        put_act(s, FR_ACT_STOP, i);
        attempt_ended(s, i, &lost);
    } else if (ev->same_home && row->state == FR_ST_STARTING && !gone) {
        if (!waits_again(s, i))
            on_cleared(s, i);
    } else if (idle_answer(s, i))
        return;
    else if (ev->same_home)
        put_act(s, FR_ACT_TOMBSTONE, i);
    else if (row->state == FR_ST_STOPPING)
        put_act(s, FR_ACT_STOP, i);
    else
        put_stop(
            s, i,
            FR_CAUSE_LOST); /* its record is gone: remaining processes are found by their marker */
}

/* An action about another attempt than the newest. */
static void put_about(struct fr_sched *s, enum fr_act_kind kind, const struct fr_event *ev)
{
    put_act(s, kind, ev->inst);
    if (s->broken)
        return;
    s->acts->v[s->acts->n - 1].attempt = ev->attempt;
    s->acts->v[s->acts->n - 1].other = ev->other;
}

/* An attempt is proven gone late: its row says so, and a retry does not stop it again. */
static void late_proof(struct fr_sched *s, const struct fr_event *ev)
{
    struct fr_row *row = &s->insts[ev->inst].row;

    if (row->live || row->attempt_state != FR_ST_STOP_UNPROVEN || !ev->proven ||
        !fr_id_eq(row->attempt, ev->attempt))
        return;
    row->attempt_state = FR_ST_CANCELLED;
    put_row(s, ev->inst);
}

static void stop_in_vain(struct fr_sched *s, uint32_t inst)
{
    if (plan_task(s, inst)->gang)
        gang_stop(s, gang_of(s, inst), FR_CAUSE_NO_PROGRESS);
    else if (s->insts[inst].row.state != FR_ST_STOPPING)
        put_stop(s, inst, FR_CAUSE_NO_PROGRESS);
}

static void attempt_event(struct fr_sched *s, const struct fr_event *ev)
{
    struct inst *in = &s->insts[ev->inst];
    bool ours = in->row.live && fr_id_eq(in->row.attempt, ev->attempt);
    bool queried = in->queried;

    if (ev->kind == FR_EV_ENDED && ev->proven) {
        late_proof(s, ev);
        put_about(s, FR_ACT_ACK, ev);
    }
    if (ours && ev->kind == FR_EV_NO_PROGRESS)
        stop_in_vain(s, ev->inst);
    if (!ours || ev->kind == FR_EV_NO_PROGRESS)
        return;
    in->queried = false;
    in->unsure = in->unsure && ev->kind == FR_EV_UNKNOWN;
    in->loaded = in->loaded && ev->kind == FR_EV_UNKNOWN;
    switch (ev->kind) {
    case FR_EV_PREPARED:
        on_prepared(s, ev->inst, ev->unready);
        break;
    case FR_EV_LAUNCHED:
        on_launched(s, ev->inst, queried);
        break;
    case FR_EV_ENDED:
        attempt_ended(s, ev->inst, ev);
        break;
    case FR_EV_BUSY:
        put_about(s, FR_ACT_STOP_OTHER, ev);
        break;
    case FR_EV_CLEARED:
        on_cleared(s, ev->inst);
        break;
    case FR_EV_UNKNOWN:
        on_unknown(s, ev->inst, ev);
        break;
    default:
        attempt_tombstoned(s, ev->inst);
    }
}

static enum fr_rc check_event(const struct fr_sched *s, const struct fr_event *ev,
                              struct fr_err *err)
{
    bool first = ev->kind == FR_EV_BEGIN || ev->kind == FR_EV_RESUME ||
                 (ev->kind == FR_EV_CANCEL && !s->begun);

    if (s->broken)
        return fr_fail(err, FR_BUG, "the scheduler ran out of memory before and cannot go on");
    if (first == s->begun && ev->kind != FR_EV_BLOCK)
        return fr_fail(err, FR_USAGE, "BEGIN or RESUME comes first, and once");
    if ((ev->kind >= FR_EV_PREPARED && ev->kind <= FR_EV_LIST && ev->inst >= s->plan->n_insts) ||
        (ev->kind >= FR_EV_NODE_UP && ev->kind <= FR_EV_LIMIT && ev->node >= s->plan->n_nodes) ||
        ((ev->kind == FR_EV_BLOCK || ev->kind == FR_EV_EXPANDED) && ev->task >= s->plan->n_tasks))
        return fr_fail(err, FR_USAGE, "an event about what the plan has not");
    return FR_OK;
}

static enum fr_rc handle(struct fr_sched *s, const struct fr_event *ev, struct fr_err *err)
{
    switch (ev->kind) {
    case FR_EV_BEGIN:
        s->begun = true;
        limit_run(s, s->timeout_ms);
        put_run(s);
        recount_needs(s);
        return FR_OK;
    case FR_EV_RESUME:
        s->begun = true;
        limit_run(s, ev->left_ms);
        resume_run(s);
        return ev->value ? retry_run(s, ev, err) : FR_OK;
    case FR_EV_TICK:
        return FR_OK;
    case FR_EV_WHEN:
    case FR_EV_LIST:
        answer_when(s, ev);
        return FR_OK;
    case FR_EV_NODE_UP:
    case FR_EV_NODE_DOWN:
    case FR_EV_NODE_REFUSED:
    case FR_EV_ABANDON:
        node_event(s, ev);
        return FR_OK;
    case FR_EV_SLOTS:
        s->nodes[ev->node].slots = ev->slots;
        s->nodes[ev->node].contended = ev->contended;
        s->nodes[ev->node].over = ev->over;
        room_changed(s, ev->node);
        return FR_OK;
    case FR_EV_LIMIT:
        limit_node(s, ev->node, ev->left_ms);
        return FR_OK;
    case FR_EV_BLOCK:
        block_task(s, ev->task, ev->value);
        return FR_OK;
    case FR_EV_EXPANDED:
        s->tasks[ev->task].held = false;
        activate(s, ev->task);
        return FR_OK;
    case FR_EV_CANCEL:
        s->unstarted = !s->begun;
        s->begun = true;
        cancel_run(s);
        if (s->unstarted)
            recount_needs(s);
        return FR_OK;
    case FR_EV_RETRY:
        return retry_run(s, ev, err);
    default:
        attempt_event(s, ev);
        return FR_OK;
    }
}

enum fr_rc fr_sched_apply(struct fr_sched *s, const struct fr_event *ev, int64_t now_ms,
                          struct fr_acts *acts, struct fr_err *err)
{
    enum fr_rc rc = check_event(s, ev, err);

    if (rc != FR_OK)
        return rc;
    s->acts = acts;
    if (ev->kind != FR_EV_WHEN && ev->kind != FR_EV_LIST) /* these go on with what asked for them */
        s->slice = FR_SCHED_SLICE;
    s->ago_ms = ev->kind == FR_EV_ENDED && ev->ago_ms > 0 ? ev->ago_ms : 0;
    if (now_ms > s->now_ms)
        s->now_ms = now_ms;
    if ((rc = handle(s, ev, err)) != FR_OK)
        return rc;
    if (s->begun) {
        tick(s);
        settle(s);
        if (time_out(s))
            settle(s);
    }
    s->acts = NULL;
    return s->broken ? fr_fail(err, FR_NOMEM, "no memory for the scheduler") : FR_OK;
}

int64_t fr_sched_next_due(const struct fr_sched *s)
{
    if (s->starved || fr_sched_more(s))
        return s->now_ms;
    if (!s->begun)
        return INT64_MAX;
    int64_t due = s->timers.n > 0 ? (int64_t)s->timers.v[0].key : INT64_MAX;

    return s->run.state == FR_RUN_RUNNING && !s->in_doubt && s->end_due_ms < due ? s->end_due_ms
                                                                                 : due;
}

struct fr_row fr_sched_row(const struct fr_sched *s, uint32_t inst, int64_t now_ms)
{
    const struct inst *in = &s->insts[inst];
    struct fr_row row = in->row;

    row.delay_ms = row.state == FR_ST_RETRYING && in->due_ms > now_ms ? in->due_ms - now_ms : 0;
    row.live = row.live || in->booked;
    return row;
}

struct fr_run_now fr_sched_now(const struct fr_sched *s)
{
    return s->run;
}

size_t fr_sched_count(const struct fr_sched *s, enum fr_state_of state)
{
    return s->count[state];
}

enum fr_need fr_sched_need(const struct fr_sched *s, uint32_t node)
{
    const struct node *n = &s->nodes[node];

    if (n->live != NONE || n->busy > 0)
        return FR_NEED_NOW;
    return n->open > 0 ? FR_NEED_LATER : FR_NEED_NONE;
}

bool fr_sched_lives(const struct fr_sched *s, uint32_t node)
{
    return s->nodes[node].live != NONE;
}

uint32_t fr_sched_ready(const struct fr_sched *s, uint32_t node)
{
    return s->nodes[node].busy;
}

size_t fr_sched_live(const struct fr_sched *s)
{
    return s->live;
}

enum fr_state_of fr_sched_task_state(const struct fr_sched *s, uint32_t task)
{
    static const unsigned char open[] = {FR_ST_STOPPING, FR_ST_RUNNING, FR_ST_STARTING,
                                         FR_ST_RETRYING, FR_ST_READY,   FR_ST_WAITING};
    const struct task *t = &s->tasks[task];

    if (t->open == 0)
        return worst_state(t->count);
    for (size_t i = 0; i < sizeof open; i++)
        if (t->count[open[i]] > 0)
            return (enum fr_state_of)open[i];
    return FR_ST_WAITING;
}
