/* How what a task needs has ended, and what follows for the task. */
#include "engine/sched/verdict.h"

#include "engine/sched/internal.h"

/* The end of a need: of the whole task, or of an item of it. */
struct ending {
    const uint32_t *count; /* its instances by state: of the task, or own */
    uint32_t own[FR_ST_N];
    bool over, failed, good; /* failed: badly, and not best_effort; good: an instance succeeded */
    bool bad; /* an instance failed, best_effort or not; fail_fast cancelled others */
};

bool item_over(const struct fr_sched *s, uint32_t t, uint32_t item)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    const struct inst *in = &s->insts[task->first + item * task->width];

    for (uint32_t k = 0; k < task->width; k++)
        if (!fr_state_ended(in[k].row.state))
            return false;
    return true;
}

static void count_own(const struct fr_sched *s, uint32_t t, uint32_t item, struct ending *e)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];

    e->count = e->own;
    for (int st = 0; st < FR_ST_N; st++)
        e->own[st] = 0;
    for (uint32_t k = 0; k < task->width; k++)
        e->own[s->insts[task->first + item * task->width + k].row.state]++;
}

/* The end of what stands at place i among the needs of an item of task t. */
static void look_at(const struct fr_sched *s, uint32_t t, uint32_t i, uint32_t item,
                    struct ending *e)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    uint32_t need = task->needs[i];
    bool same = task->n_same > 0 && fr_plan_is_same(s->plan, t, need);
    const uint32_t *c = s->tasks[need].count;

    e->count = c;
    e->over = s->tasks[need].open == 0;
    if (same) {
        count_own(s, need, item, e);
        c = e->count;
        e->over = item_over(s, need, item);
    }
    e->bad = c[FR_ST_FAILED] + c[FR_ST_TIMED_OUT] + c[FR_ST_LOST] + c[FR_ST_STOP_UNPROVEN] +
                 c[FR_ST_UPSTREAM_FAILED] >
             0;
    e->failed = (e->bad || c[FR_ST_CANCELLED] > 0) && !s->plan->tasks[need].spec->best_effort;
    e->good = c[FR_ST_SUCCEEDED] > 0 && !s->plan->tasks[need].empty;
}

enum fr_state_of worst_state(const uint32_t *count)
{
    for (int c = 0; c < FR_ST_N; c++)
        if (fr_state_ended(fr_state_at(c)) && count[fr_state_at(c)] > 0)
            return fr_state_at(c);
    return FR_ST_WAITING;
}

static void decide(struct fr_verdict *v, enum fr_verdict_kind kind, uint32_t need, bool with)
{
    if (kind > v->kind)
        *v = (struct fr_verdict){kind, need, with};
}

struct fr_verdict verdict_of(const struct fr_sched *s, uint32_t t, uint32_t item)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    enum fr_run_if run_if = task->spec->run_if;
    struct fr_verdict v = {FR_VERDICT_RUN, NONE, false};
    bool bad = false, good = false;
    uint32_t failed = NONE;

    for (uint32_t i = 0; i < task->n_needs; i++) {
        const struct fr_need_rule *rule = task->rules != NULL ? &task->rules[i] : NULL;
        bool stated = rule != NULL && rule->states != 0, accepted;
        struct ending e;

        look_at(s, t, i, item, &e);
        if (!e.over)
            return (struct fr_verdict){FR_VERDICT_WAIT, i, false};
        if (!stated) {
            bad = bad || e.bad;
            good = good || e.good;
            failed = e.failed && failed == NONE ? i : failed;
        }
        accepted = stated ? (rule->states & 1u << worst_state(e.count)) != 0
                          : run_if != FR_RUN_IF_SUCCESS || !e.failed;
        if (!accepted)
            decide(&v, e.failed ? FR_VERDICT_FAIL : FR_VERDICT_SKIP, i, false);
        if (rule != NULL && rule->skip_with && worst_state(e.count) == FR_ST_SKIPPED)
            decide(&v, FR_VERDICT_SKIP, i, true);
    }
    if (run_if == FR_RUN_IF_FAILURE && !bad)
        decide(&v, FR_VERDICT_SKIP, NONE, false);
    if (run_if == FR_RUN_IF_ANY && !good)
        decide(&v, failed != NONE ? FR_VERDICT_FAIL : FR_VERDICT_SKIP, failed, false);
    return v;
}

struct fr_verdict fr_sched_verdict(const struct fr_sched *s, uint32_t inst)
{
    return verdict_of(s, s->plan->insts[inst].task, s->plan->insts[inst].item);
}

bool fr_sched_needs_failed(const struct fr_sched *s, uint32_t inst)
{
    const struct fr_plan_inst *in = &s->plan->insts[inst];
    struct ending e = {.failed = false};

    if (is_hook(s, in->task))
        return s->run.outcome == FR_OUT_FAILED;
    for (uint32_t i = 0; i < s->plan->tasks[in->task].n_needs && !e.failed; i++)
        look_at(s, in->task, i, in->item, &e);
    return e.failed;
}
