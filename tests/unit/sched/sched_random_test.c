/*
 * Random runs: random pipelines on simulated nodes whose links are cut, that reboot, that are given
 * up; the engine crashes before and after its commits and resumes from the committed rows. Checked
 * at every commit and at every command that reaches a node; every run must end. Usage: [FIRST_SEED
 * [COUNT]].
 */
#include "tests/unit/sched/sched_lists.h"
#include "tests/unit/sched/sched_nodes.h"
#include "tests/unit/sched/sched_rules.h"

/* ---- a random pipeline ---- */

static const char *random_states(struct world *w)
{
    static const char *const some[] = {"/s", "/k", "/sk", "/f", "/ftlu", "/p", "/pc", "/sfk"};

    return some[draw(w, sizeof(some) / sizeof(some[0]))];
}

static void random_spec(struct world *w, char *text, size_t size)
{
    unsigned n = 1 + (unsigned)draw(w, 9), items[9];
    size_t at = 0;

    for (unsigned t = 0; t < n; t++) {
        bool all = chance(w, 50);

        items[t] = chance(w, 60) ? 9 : (unsigned)draw(w, 4); /* 9: it has none */

        at += (size_t)snprintf(text + at, size - at, "%st%u: retry=%u delay=%u", t ? "; " : "", t,
                               (unsigned)draw(w, 3), (unsigned)draw(w, 3) * 700);
        at += (size_t)snprintf(text + at, size - at, " %s%s%s slots=%u",
                               all             ? "@all"
                               : chance(w, 50) ? "@n2"
                                               : "@n1",
                               all && chance(w, 60) ? " gang" : "", chance(w, 20) ? " when" : "",
                               (unsigned)draw(w, 9));
        if (items[t] != 9)
            at += (size_t)snprintf(text + at, size - at, " items=%u", items[t]);
        else if (chance(w, 35))
            at += (size_t)snprintf(text + at, size - at, " each");
        if (chance(w, 30))
            at += (size_t)snprintf(text + at, size - at, " par=%u", 1 + (unsigned)draw(w, 3));
        if (chance(w, 30))
            at += (size_t)snprintf(text + at, size - at, " fast");
        if (chance(w, 35))
            at += (size_t)snprintf(text + at, size - at, " %s",
                                   (const char *[]){"ended", "onfail", "any"}[draw(w, 3)]);
        if (chance(w, 10))
            at += (size_t)snprintf(text + at, size - at, " best");
        if (chance(w, 25))
            at += (size_t)snprintf(text + at, size - at, " lost=5000");
        if (chance(w, 30))
            at += (size_t)snprintf(text + at, size - at, " notice=%u", 1 + (unsigned)draw(w, 9000));
        for (unsigned k = 0; k < t; k++)
            if (chance(w, 30))
                at += (size_t)snprintf(text + at, size - at, " %st%u%s%s",
                                       items[k] == items[t] && items[t] != 9 ? "=" : "", k,
                                       chance(w, 15) ? "~" : "",
                                       chance(w, 80) ? "" : random_states(w));
    }
    snprintf(text + at, size - at, "; !success hs; !failure hf; !cancel hc; !exit hx; !exit hy");
}

/* ---- the run layer ---- */

/* STOP_UNPROVEN, stopped anew for a retry: outside the pools, apart from its gang. */
static bool is_again(const struct world *w, const struct fr_row *row)
{
    return row->live && row->state == FR_ST_STOPPING && row->stop_cause == FR_CAUSE_STOPPED &&
           w->again[row->inst];
}

static void check_gang(struct world *w, uint32_t first, uint32_t n)
{
    unsigned go = 0, before = 0, again = 0, unproven = 0;

    for (uint32_t k = 0; k < n; k++) {
        const struct fr_row *row = &w->rows[first + k];

        CHECK(row->generation == w->rows[first].generation);
        CHECK(row->retries == w->rows[first].retries);
        go += row->go;
        again += is_again(w, row);
        unproven += row->state == FR_ST_STOP_UNPROVEN;
        before += row->state < FR_ST_STARTING || row->state == FR_ST_RETRYING;
    }
    CHECK(go == 0 || go == n);
    if (again < n)
        CHECK(before == 0 || before + again == n || (again > 0 && before + again + unproven == n));
}

static void check_gangs(struct world *w)
{
    for (uint32_t t = 0; t < w->plan->n_tasks; t++) {
        const struct fr_plan_task *task = &w->plan->tasks[t];

        for (uint32_t k = 0; task->gang && k < task->count; k += task->width)
            check_gang(w, task->first + k, task->width);
    }
}

static void check_pools(struct world *w)
{
    uint32_t used[NODES] = {0}, units = 0;

    for (uint32_t t = 0; t < w->plan->n_tasks; t++) {
        const struct fr_plan_task *task = &w->plan->tasks[t];
        unsigned live = 0, going = 0;

        for (uint32_t k = 0; k < task->count; k += task->gang ? task->width : 1) {
            const struct fr_row *row = &w->rows[task->first + k];

            going +=
                !fr_state_ended(row->state) && row->state != FR_ST_WAITING && !is_again(w, row);
        }
        CHECK(task->spec->max_parallel == 0 || going <= (unsigned)task->spec->max_parallel);
        for (uint32_t k = 0; k < task->count; k++) {
            const struct fr_row *row = &w->rows[task->first + k];
            bool none =
                !row->live || is_again(w, row) || fr_row_booked(row) || w->doubt[task->first + k];

            live = task->gang && k % task->width == 0 ? 0 : live;
            if (none)
                continue;
            units += !task->gang || live == 0;
            live++;
            used[w->plan->insts[task->first + k].node] += (uint32_t)task->spec->slots;
        }
    }
    CHECK(units <= w->plan->max_parallel);
    for (uint32_t n = 0; n < NODES; n++)
        CHECK(used[n] <= w->plan->nodes[n].slots);
}

/* Of a task with fail_fast: once an instance has failed, the others have ended or are stopped, in
 * the same commit; and nothing else ends by that cause. */
static void check_fast(struct world *w)
{
    for (uint32_t t = 0; t < w->plan->n_tasks; t++) {
        const struct fr_plan_task *task = &w->plan->tasks[t];
        unsigned failed = 0, open = 0, cut = 0;

        for (uint32_t k = 0; k < task->count; k++) {
            const struct fr_row *row = &w->rows[task->first + k];

            failed += fr_state_failed(row->state);
            open += !fr_state_ended(row->state) && row->state != FR_ST_STOPPING;
            cut += row->state == FR_ST_CANCELLED && row->cause == FR_CAUSE_FAIL_FAST &&
                   row->attempt_state != FR_ST_CANCELLED;
        }
        CHECK(cut == 0 || (task->spec->fail_fast && failed > 0));
        if (task->spec->fail_fast && failed > 0 && w->run.state == FR_RUN_RUNNING)
            CHECK_INT(open, 0);
    }
}

/* Nothing starts that comes too late for the allocation of its node, if that was long enough. What
 * is booked there begins when the node has room for it. */
static void check_limit(struct world *w, uint32_t inst)
{
    const struct place *p = &w->at[w->plan->insts[inst].node];
    int64_t notice = w->plan->tasks[w->plan->insts[inst].task].spec->notice_ms;

    CHECK(notice == 0 || p->lasts_ms <= notice || p->limit_ms - w->now_ms > notice);
}

static void check_row_change(struct world *w, const struct fr_row *old, const struct fr_row *row)
{
    const struct fr_plan_task *task = &w->plan->tasks[w->plan->insts[row->inst].task];

    if (fr_state_ended(old->state) && !w->retrying)
        CHECK(old->state == row->state);
    w->again[row->inst] =
        (old->state == FR_ST_STOP_UNPROVEN || w->again[row->inst]) && row->state == FR_ST_STOPPING;
    if (old->live && row->attempt_no != old->attempt_no)
        CHECK(!"a second attempt while the first was live");
    CHECK(row->attempt_no == old->attempt_no || row->attempt_no == old->attempt_no + 1);
    if (row->live)
        CHECK(!fr_id_zero(row->attempt));
    if (row->state == FR_ST_STARTING && old->state != FR_ST_STARTING && !fr_row_booked(old))
        check_limit(w, row->inst);
    if (!row->live || fr_row_booked(row))
        w->doubt[row->inst] = false;
    if (task->hook >= 0 && row->attempt_no != old->attempt_no)
        CHECK(w->run.outcome != FR_OUT_NONE);
    if (row->attempt_no != old->attempt_no)
        att_of(w, row->attempt)->boot = w->at[w->plan->insts[row->inst].node].boot;
    if (row->attempt_no != old->attempt_no)
        att_of(w, row->attempt)->inst = row->inst;
}

static void commit(struct world *w)
{
    for (size_t i = 0; i < w->acts.n; i++)
        if (w->acts.v[i].kind == FR_ACT_ROW_RUN)
            w->run = w->acts.v[i].run;
    memcpy(w->before, w->rows, sizeof w->before);
    for (size_t i = 0; i < w->acts.n; i++) {
        const struct fr_act *a = &w->acts.v[i];

        if (a->kind != FR_ACT_ROW)
            continue;
        check_row_change(w, &w->rows[a->inst], &a->row);
        w->rows[a->inst] = a->row;
        w->due_ms[a->inst] = w->now_ms + a->row.delay_ms;
    }
    check_gangs(w);
    check_pools(w);
    check_fast(w);
    rules_check(w);
    lists_check(w);
}

static void perform(struct world *w)
{
    for (size_t i = 0; i < w->acts.n; i++) {
        const struct fr_act *a = &w->acts.v[i];
        struct place *p = a->node != FR_PLAN_NONE ? &w->at[a->node] : NULL;

        if (a->kind == FR_ACT_CONNECT)
            p->wanted = true;
        else if (a->kind == FR_ACT_OVER)
            w->over = true;
        else if (a->kind == FR_ACT_FORGET)
            CHECK(!att_of(w, a->attempt)->launched);
        else if (a->kind > FR_ACT_CONNECT && CHECK(p->cmd_n < MAX_Q))
            p->cmd[p->cmd_n++] = *a;
        if (a->kind == FR_ACT_STOP && (!w->rows[a->inst].live || /* or another one is live by now */
                                       !fr_id_eq(w->rows[a->inst].attempt, a->attempt)))
            w->fenced = true; /* given up, and its start may be under way */
    }
}

static void apply(struct world *w, struct fr_event ev)
{
    struct fr_err err = {0};

    while (fr_sched_ids_wanted(w->s) > 0 && CHECK(w->n_atts < MAX_ATTS)) {
        struct fr_id id = id_of(++w->n_atts);

        CHECK(fr_sched_add_ids(w->s, &id, 1, NULL) == FR_OK);
    }
    if (fr_sched_apply(w->s, &ev, w->now_ms, &w->acts, &err) != FR_OK)
        CHECK_TEXT(err.msg, "");
}

static void evals(struct world *w, size_t from)
{
    for (size_t i = from; i < w->acts.n; i++)
        if (w->acts.v[i].kind == FR_ACT_EVAL) {
            struct fr_event ev = about(&w->acts.v[i], FR_EV_WHEN);

            ev.value = !chance(w, 20);
            ev.failed = chance(w, 5);
            w->self[w->self_n++] = ev;
        } else if (w->acts.v[i].kind == FR_ACT_EXPAND) {
            struct fr_event ev;

            if (lists_ask(w, &w->acts.v[i], &ev))
                w->self[w->self_n++] = ev;
        }
}

static void resume(struct world *w);

/* What the committed rows have booked may start before the commit of what is decided now. */
static void start_booked(struct world *w)
{
    for (size_t i = 0; i < w->acts.n; i++) {
        struct fr_act *a = &w->acts.v[i];
        const struct fr_row *row;
        struct place *p;

        if (a->kind != FR_ACT_START || !a->booked) /* others may be of no instance, or no node */
            continue;
        row = &w->rows[a->inst];
        p = &w->at[a->node];
        if (!fr_row_booked(row) || !fr_id_eq(row->attempt, a->attempt) || chance(w, 20))
            continue;
        if (p->up && p->cmd_n == 0 && chance(w, 50))
            nodes_do(w, a);
        else if (CHECK(p->cmd_n < MAX_Q))
            p->cmd[p->cmd_n++] = *a;
        a->kind = FR_ACT_PAST;
    }
}

/* One drain of one to three events; a crash may come before the commit or among the effects. */
static void drain(struct world *w, struct fr_event ev)
{
    bool crash = !w->calm && chance(w, 2);

    w->acts.n = 0;
    w->retrying = ev.kind == FR_EV_RETRY;
    apply(w, ev);
    evals(w, 0);
    while (w->self_at < w->self_n && chance(w, 70)) {
        size_t from = w->acts.n;

        apply(w, w->self[w->self_at++]);
        evals(w, from);
    }
    start_booked(w);
    if (crash && chance(w, 50)) {
        resume(w);
        return;
    }
    commit(w);
    if (crash)
        w->acts.n = draw(w, w->acts.n + 1);
    perform(w);
    if (crash || (lists_grow(w) && !w->calm && chance(w, 10)))
        resume(w);
    w->retrying = false;
}

static void resume(struct world *w)
{
    fr_sched_destroy(w->s);
    w->self_at = w->self_n = 0;
    lists_forget(w);
    for (uint32_t n = 0; n < NODES; n++) {
        w->at[n].cmd_at = w->at[n].cmd_n = w->at[n].msg_at = w->at[n].msg_n = 0;
        w->at[n].up = w->at[n].wanted = false;
        w->at[n].limit_ms = w->at[n].lasts_ms = 0;
    }
    CHECK(fr_sched_create(w->plan, NULL, &w->s, NULL) == FR_OK);
    CHECK(fr_sched_load_run(w->s, &w->run, NULL) == FR_OK);
    for (uint32_t i = 0; i < w->plan->n_insts; i++) {
        struct fr_row row = w->rows[i];

        row.delay_ms = w->due_ms[i] > w->now_ms ? w->due_ms[i] - w->now_ms : 0;
        w->doubt[i] = w->doubt[i] || fr_row_booked(&row);
        if (row.state != FR_ST_WAITING || row.attempt_no > 0)
            CHECK(fr_sched_load(w->s, &row, NULL) == FR_OK);
    }
    w->acts.n = 0;
    w->retrying = false;
    apply(w, (struct fr_event){.kind = FR_EV_RESUME});
    evals(w, 0);
    commit(w);
    perform(w);
    (void)lists_grow(w);
    w->over = w->run.state == FR_RUN_OVER;
}

/* ---- what happens ---- */

static void cut(struct world *w, uint32_t n)
{
    struct place *p = &w->at[n];

    if (n == w->plan->control || !p->wire)
        return;
    p->wire = false;
    p->cut_ms = w->now_ms;
    p->msg_at = p->msg_n = 0;
    if (p->up) {
        p->up = false;
        drain(w, (struct fr_event){.kind = FR_EV_NODE_DOWN, .node = n, .since_ms = w->now_ms});
    }
}

static void fault(struct world *w, uint32_t n)
{
    uint64_t what = draw(w, 100);

    if (n == w->plan->control)
        return;
    if (what < 60) {
        cut(w, n);
    } else if (what < 80) { /* a reboot */
        cut(w, n);
        w->at[n].boot++;
        nodes_kill_all(w, n, FR_CAUSE_LOST, 0);
    } else if (what < 90) { /* the plug is pulled, and the user says so */
        cut(w, n);
        w->at[n].boot++;
        nodes_kill_all(w, n, FR_CAUSE_LOST, 0);
        w->fenced = true;
        drain(w,
              (struct fr_event){
                  .kind = FR_EV_ABANDON, .node = n, .cause = FR_CAUSE_NODE_LOST, .proven = true});
    } else if (what < 92 && !w->cancelled) {
        w->cancelled = true;
        drain(w, (struct fr_event){.kind = FR_EV_CANCEL});
    }
}

static void pass_time(struct world *w)
{
    int64_t due = fr_sched_next_due(w->s);

    if (due != INT64_MAX && (w->calm || chance(w, 50)))
        w->now_ms = due > w->now_ms ? due : w->now_ms;
    else
        w->now_ms += (int64_t)draw(w, 4000);
    for (uint32_t n = 0; n < w->plan->control; n++)
        if (!w->at[n].wire && w->now_ms > w->at[n].cut_ms + 5000) {
            nodes_kill_all(w, n, FR_CAUSE_NODE_LOST, w->now_ms - w->at[n].cut_ms);
            w->fenced = true;
        }
    if (fr_sched_next_due(w->s) <= w->now_ms)
        drain(w, (struct fr_event){.kind = FR_EV_TICK});
}

/* The place gets another allocation, where a task waits for that, or by chance. */
static void place(struct world *w, uint32_t n)
{
    int64_t left = w->calm || chance(w, 20) ? 0 : 1 + (int64_t)draw(w, 20000);

    if (n == w->plan->control || !chance(w, fr_sched_spent(w->s, n) ? 30 : 3))
        return;
    w->at[n].limit_ms = w->now_ms + left;
    w->at[n].lasts_ms = left;
    drain(w, (struct fr_event){.kind = FR_EV_LIMIT, .node = n, .left_ms = left});
}

static void node_step(struct world *w, uint32_t n)
{
    struct place *p = &w->at[n];

    if (!p->wire && (w->calm || chance(w, 20)))
        p->wire = true;
    place(w, n);
    if (p->wire && !p->up && p->wanted) {
        p->up = true;
        drain(w, (struct fr_event){.kind = FR_EV_NODE_UP, .node = n});
    } else if (p->up && p->cmd_at < p->cmd_n && chance(w, 60)) {
        struct fr_act a = p->cmd[p->cmd_at++];

        nodes_do(w, &a);
    } else if (p->up && p->msg_at < p->msg_n) {
        struct fr_event ev = p->msg[p->msg_at++];

        drain(w, ev);
    }
    if (p->cmd_at == p->cmd_n)
        p->cmd_at = p->cmd_n = 0;
    if (p->msg_at == p->msg_n)
        p->msg_at = p->msg_n = 0;
}

static void step(struct world *w)
{
    uint64_t what = draw(w, 100);
    struct fr_event ev;

    if (w->self_at < w->self_n)
        drain(w, w->self[w->self_at++]);
    else if (chance(w, 30) && lists_next(w, &ev))
        drain(w, ev);
    else if (what < 70)
        node_step(w, (uint32_t)draw(w, NODES));
    else if (what < 88)
        nodes_end_one(w);
    else if (what < 94 || w->calm)
        pass_time(w);
    else
        fault(w, (uint32_t)draw(w, NODES));
    if (w->self_at == w->self_n)
        w->self_at = w->self_n = 0;
}

static void check_end(struct world *w)
{
    size_t count[FR_ST_N] = {0};

    CHECK(fr_sched_live(w->s) == 0);
    CHECK(w->run.state == FR_RUN_OVER);
    for (uint32_t i = 0; i < w->plan->n_insts; i++) {
        struct fr_row row = fr_sched_row(w->s, i, w->now_ms);

        CHECK(fr_state_ended(row.state) && row.state == w->rows[i].state);
        count[row.state]++;
    }
    for (int st = 0; st < FR_ST_N; st++)
        CHECK_INT(fr_sched_count(w->s, (enum fr_state_of)st), count[st]);
    for (size_t i = 0; i < w->n_atts; i++)
        CHECK(w->fenced || w->atts[i].st != AT_RUNNING);
}

static void retry(struct world *w)
{
    struct fr_event ev = {.kind = FR_EV_RETRY, .task = FR_PLAN_NONE};

    if (w->run.outcome != FR_OUT_FAILED || chance(w, 50))
        ev.task = (uint32_t)draw(w, w->plan->n_tasks - w->plan->n_hooks);
    w->over = w->calm = w->cancelled = false;
    drain(w, ev);
}

static void show_world(const struct world *w)
{
    for (uint32_t i = 0; w->plan != NULL && i < w->plan->n_insts; i++) {
        const struct fr_row *row = &w->rows[i];

        printf("  %s: %s/%u live %d go %d generation %u cause %s\n", w->plan->insts[i].key,
               fr_state_name(row->state), row->attempt_no, row->live, row->go, row->generation,
               fr_cause_name(row->cause));
    }
    for (uint32_t n = 0; n < NODES; n++)
        printf("  node %u: wire %d up %d wanted %d commands %zu answers %zu\n", n, w->at[n].wire,
               w->at[n].up, w->at[n].wanted, w->at[n].cmd_n - w->at[n].cmd_at,
               w->at[n].msg_n - w->at[n].msg_at);
}

static bool play(uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    char text[2048], row[32];
    int failed = check_counts.failed;

    snprintf(row, sizeof row, "seed %llu", (unsigned long long)seed);
    check_row(row);
    w->random = seed;
    draw(w, 2);
    random_spec(w, text, sizeof text);
    mini_make(&w->mini, text);
    w->mini.spec.max_parallel = 1 + (int)draw(w, 6);
    for (uint32_t n = 0; n < NODES; n++)
        w->at[n].wire = true;
    if (CHECK(fr_plan_make(&w->mini.spec, &w->arena, &w->plan, NULL) == FR_OK) &&
        CHECK(fr_sched_create(w->plan, NULL, &w->s, NULL) == FR_OK)) {
        for (uint32_t i = 0; i < w->plan->n_insts; i++)
            w->rows[i].inst = i;
        w->acts.n = 0;
        apply(w, (struct fr_event){.kind = FR_EV_BEGIN});
        evals(w, 0);
        commit(w);
        perform(w);
        (void)lists_grow(w);
        for (int rounds = 0; rounds < 3; rounds++) {
            int chaos = (int)draw(w, CHAOS), k = 0;

            for (; k < LIMIT && !w->over && check_counts.failed == failed; k++) {
                w->calm = k > chaos;
                step(w);
            }
            if (!CHECK(w->over) || check_counts.failed != failed)
                break;
            check_end(w);
            if (rounds < 2)
                retry(w);
        }
    }
    if (check_counts.failed != failed) {
        printf("seed %llu: %s\n", (unsigned long long)seed, text);
        show_world(w);
    }
    fr_sched_destroy(w->s);
    fr_acts_finish(&w->acts);
    fr_arena_finish(&w->arena);
    free(w);
    return check_counts.failed == failed;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 500;

    for (uint64_t seed = first; seed < first + count; seed++)
        if (!play(seed))
            break;
    printf("seeds %llu to %llu\n", (unsigned long long)first,
           (unsigned long long)(first + count - 1));
    return check_done();
}
