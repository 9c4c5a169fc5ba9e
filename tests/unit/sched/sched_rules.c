#include "tests/unit/sched/sched_rules.h"

enum say { SAY_NOT_YET, SAY_RUN, SAY_SKIP, SAY_FAIL };

/* Whether what item of t waits for at place i is an item alone. */
static bool joined(const struct world *w, uint32_t t, uint32_t need)
{
    const struct fr_plan_task *task = &w->plan->tasks[t];

    for (size_t k = 0; !task->empty && k < task->spec->n_same; k++)
        if ((uint32_t)task->spec->same[k] == need)
            return true;
    return false;
}

/* How many of what is needed are in a state. */
static unsigned count_of(const struct world *w, uint32_t t, uint32_t item, uint32_t need,
                         enum fr_state_of state)
{
    const struct fr_plan_task *of = &w->plan->tasks[need];
    unsigned n = 0;

    for (uint32_t k = 0; k < of->count; k++)
        if (!joined(w, t, need) || k / of->width == item)
            n += w->rows[of->first + k].state == state;
    return n;
}

/* The state that shows: the one of the least concern number. */
static enum fr_state_of shown(const struct world *w, uint32_t t, uint32_t item, uint32_t need)
{
    for (int c = 0; c < FR_ST_N; c++)
        if (count_of(w, t, item, need, fr_state_at(c)) > 0)
            return fr_state_at(c);
    return FR_ST_WAITING;
}

static bool any_open(const struct world *w, uint32_t t, uint32_t item, uint32_t need)
{
    unsigned open = 0;

    for (int st = 0; st < FR_ST_SUCCEEDED; st++)
        open += count_of(w, t, item, need, (enum fr_state_of)st);
    return open > 0;
}

static bool any_bad(const struct world *w, uint32_t t, uint32_t item, uint32_t need)
{
    unsigned bad = 0;

    for (int st = FR_ST_SUCCEEDED + 1; st < FR_ST_N; st++)
        if (st != FR_ST_SKIPPED && st != FR_ST_CANCELLED)
            bad += count_of(w, t, item, need, (enum fr_state_of)st);
    return bad > 0;
}

static enum say say_of(const struct world *w, uint32_t t, uint32_t item)
{
    const struct fr_task *spec = w->plan->tasks[t].spec;
    unsigned failed = 0, skips = 0, bad = 0, good = 0, counted_failed = 0;

    for (size_t i = 0; i < spec->n_needs; i++)
        if (any_open(w, t, item, (uint32_t)spec->needs[i]))
            return SAY_NOT_YET;
    for (size_t i = 0; i < spec->n_needs; i++) {
        uint32_t need = (uint32_t)spec->needs[i];
        struct fr_need_rule rule = spec->rules != NULL ? spec->rules[i] : (struct fr_need_rule){0};
        enum fr_state_of state = shown(w, t, item, need);
        bool is_bad = any_bad(w, t, item, need);
        bool is_failed = (is_bad || count_of(w, t, item, need, FR_ST_CANCELLED) > 0) &&
                         !w->plan->tasks[need].spec->best_effort;

        if (rule.skip_with && state == FR_ST_SKIPPED)
            skips++;
        if (rule.states != 0 && (rule.states >> state & 1) == 0) {
            failed += is_failed;
            skips += !is_failed;
        }
        if (rule.states != 0)
            continue;
        bad += is_bad;
        counted_failed += is_failed;
        if (!w->plan->tasks[need].empty)
            good += count_of(w, t, item, need, FR_ST_SUCCEEDED);
        failed += is_failed && spec->run_if == FR_RUN_IF_SUCCESS;
    }
    skips += spec->run_if == FR_RUN_IF_FAILURE && bad == 0;
    if (spec->run_if == FR_RUN_IF_ANY && good == 0) {
        failed += counted_failed > 0;
        skips += counted_failed == 0;
    }
    return failed > 0 ? SAY_FAIL : skips > 0 ? SAY_SKIP : SAY_RUN;
}

/* A member of its gang may still run: such a gang ends where it stands, also when it is tried
 * again. */
static bool unproven(const struct world *w, const struct fr_plan_inst *in)
{
    const struct fr_plan_task *task = &w->plan->tasks[in->task];
    uint32_t first = task->first + in->item * task->width;

    for (uint32_t k = 0; k < task->width && task->spec->gang; k++)
        if (w->rows[first + k].state == FR_ST_STOP_UNPROVEN)
            return true;
    return false;
}

static void check_inst(struct world *w, uint32_t inst)
{
    const struct fr_plan_inst *in = &w->plan->insts[inst];
    const struct fr_row *row = &w->rows[inst], *was = &w->before[inst];
    enum say say = say_of(w, in->task, in->item);
    bool when = w->plan->tasks[in->task].spec->when.s != NULL;

    if (row->state == FR_ST_WAITING) { /* nothing starts while a run is cancelled */
        if (say != SAY_NOT_YET && w->run.state == FR_RUN_OVER)
            CHECK(!"it has never been decided");
        return;
    }
    if (was->state != FR_ST_WAITING || row->state == FR_ST_CANCELLED || unproven(w, in))
        return;
    CHECK(say != SAY_NOT_YET);
    CHECK((row->state == FR_ST_UPSTREAM_FAILED) == (say == SAY_FAIL));
    if (w->plan->tasks[in->task].empty && say == SAY_RUN) /* what it awaits may be no list */
        CHECK(row->state == FR_ST_SUCCEEDED ||
              (w->plan->tasks[in->task].awaited && row->state == FR_ST_FAILED &&
               row->cause == FR_CAUSE_EXPRESSION));
    if (w->plan->tasks[in->task].empty)
        CHECK(row->attempt_no == 0);
    if (say == SAY_SKIP)
        CHECK(row->state == FR_ST_SKIPPED);
    if (row->state == FR_ST_SKIPPED)
        CHECK(say == SAY_SKIP || (say == SAY_RUN && when));
}

void rules_check(struct world *w)
{
    for (uint32_t i = 0; i < w->plan->n_insts; i++)
        if (w->plan->tasks[w->plan->insts[i].task].hook < 0)
            check_inst(w, i);
}
