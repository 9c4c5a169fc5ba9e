/* Why an instance, or the run, is in its state: in words, for people. */
#include "engine/run/inside.h"
#include "engine/run/reasons.h"
#include "engine/sched/verdict.h"

#include <string.h>

/* Of the instances of an item of a task the first in the state that shows. */
static const char *item_ended(struct fr_run *run, const struct fr_plan_task *need, uint32_t item)
{
    uint32_t first = need->first + item * need->width, found = first;
    enum fr_state_of shown = fr_sched_row(run->sched, first, fr_sys.mono_ms()).state;

    for (uint32_t i = first; i < first + need->width; i++) {
        enum fr_state_of st = fr_sched_row(run->sched, i, fr_sys.mono_ms()).state;

        if (fr_state_shown(shown, st) != shown) {
            shown = st;
            found = i;
        }
    }
    return fr_arena_fmt(&run->arena, "needs %s, which ended as %s", run->plan->insts[found].key,
                        fr_state_name(shown));
}

/* Of the needs of an instance the one at place i, and how it ended. */
static const char *need_ended(struct fr_run *run, uint32_t inst, uint32_t i)
{
    const struct fr_plan_inst *in = &run->plan->insts[inst];
    const struct fr_plan_task *task = &run->plan->tasks[in->task];
    const struct fr_plan_task *need = &run->plan->tasks[task->needs[i]];

    if (fr_plan_is_same(run->plan, in->task, task->needs[i]))
        return item_ended(run, need, in->item);
    return fr_arena_fmt(&run->arena, "needs %s, which ended as %s", need->name,
                        fr_state_name(fr_sched_task_state(run->sched, task->needs[i])));
}

static const char *failed_need(struct fr_run *run, uint32_t inst)
{
    const struct fr_plan_task *task = run_task_of(run, inst);
    struct fr_verdict v = fr_sched_verdict(run->sched, inst);
    const char *text;
    bool stated;

    if (v.kind != FR_VERDICT_FAIL)
        return "something it needs failed";
    stated = task->rules != NULL && task->rules[v.need].states != 0;
    if (stated || task->spec->run_if != FR_RUN_IF_ANY)
        return need_ended(run, inst, v.need);
    text = need_ended(run, inst, v.need);
    return text == NULL
               ? NULL
               : fr_arena_fmt(&run->arena, "%s, and nothing that it needs succeeded (run_if: any)",
                              text);
}

/* "": its when: said no. */
static const char *why_skipped(struct fr_run *run, uint32_t inst)
{
    const struct fr_plan_task *task = run_task_of(run, inst);
    struct fr_verdict v = fr_sched_verdict(run->sched, inst);
    struct fr_buf states = {0};
    const char *why;

    if (v.kind != FR_VERDICT_SKIP)
        return "";
    if (v.need == FR_PLAN_NONE)
        return task->spec->run_if == FR_RUN_IF_ANY
                   ? "nothing that it needs succeeded (run_if: any)"
                   : "nothing that it needs failed (run_if: failure)";
    why = need_ended(run, inst, v.need);
    if (v.with)
        return why == NULL ? NULL : fr_arena_fmt(&run->arena, "%s (skip_with)", why);
    fr_states_add(task->rules[v.need].states, &states);
    why = why == NULL || states.bad ? NULL
                                    : fr_arena_fmt(&run->arena, "%s (states: %s)", why, states.p);
    fr_buf_finish(&states);
    return why;
}

/* A gang has one when:, that of its first member. */
static const char *no_when(const struct fr_run *run, uint32_t inst)
{
    return run->insts[fr_plan_unit(run->plan, inst).first].no_when;
}

/* Its allocation ended. Says which of chain: it goes on in, unless a try of retry: comes next. */
static const char *why_chained(struct fr_run *run, const struct fr_row *row)
{
    const struct fr_node *node = run->plan->nodes[run_node_of(run, row->inst)].spec;
    const char *reason = fr_cause_reason(row->cause);
    int chain = node != NULL ? node->chain : 0;
    bool waits = row->state == FR_ST_RETRYING || row->state == FR_ST_READY;

    if (!waits || row->chained == 0 || ((int)row->chained == chain && row->retries > 0))
        return reason;
    return fr_arena_fmt(&run->arena, "%s; it goes on in another one (%u of %d)", reason,
                        row->chained, chain);
}

static const char *why_cause(struct fr_run *run, const struct fr_row *row)
{
    const struct fr_task *task = run_task_of(run, row->inst)->spec;
    const char *reason;
    char text[24];

    switch (row->cause) {
    case FR_CAUSE_EXIT:
        return row->code == 0 ? "" : fr_arena_fmt(&run->arena, "exit code %d", row->code);
    case FR_CAUSE_SIGNAL:
        return fr_arena_fmt(&run->arena, "ended by signal %d (%s)", row->code,
                            strsignal(row->code));
    case FR_CAUSE_TIMEOUT:
        fr_show_duration(task->timeout_ms, text);
        return fr_arena_fmt(&run->arena, "no end within its timeout of %s", text);
    case FR_CAUSE_START_FAILED:
    case FR_CAUSE_QUEUE_TIME:
        reason = run->nodes[run_node_of(run, row->inst)].reason;
        if (reason[0] != '\0')
            return fr_arena_dup(&run->arena, reason);
        break;
    case FR_CAUSE_EXPRESSION:
        reason = no_when(run, row->inst);
        if (reason != NULL)
            return reason;
        break;
    case FR_CAUSE_UNREACHABLE:
        return run_node_missed(run, row->inst);
    case FR_CAUSE_TIME_LIMIT:
    case FR_CAUSE_PREEMPTED:
        return why_chained(run, row);
    case FR_CAUSE_STOPPED:
        if (fr_sched_now(run->sched).timed_out)
            return "stopped: the run's timeout";
        break;
    default:
        break;
    }
    return fr_cause_reason(row->cause);
}

const char *run_why_waiting(const struct fr_run *run, uint32_t inst)
{
    return run_task_of(run, inst)->awaited ? "n elements, not known yet" : "";
}

const char *run_why(struct fr_run *run, const struct fr_row *row)
{
    const struct run_inst *in = &run->insts[row->inst];
    bool cut = row->state == FR_ST_CANCELLED && row->cause == FR_CAUSE_FAIL_FAST;
    bool unstarted = fr_cause_unstarted(row->cause);
    bool ours =
        fr_id_eq(in->row.id, row->attempt) && row->attempt_no > 0 && in->row.cause == row->cause;
    const char *base, *own = ours ? in->row.reason : ""; /* an older end has its own */

    if (row->state == FR_ST_UPSTREAM_FAILED)
        return failed_need(run, row->inst);
    if (row->state == FR_ST_SKIPPED)
        return why_skipped(run, row->inst);
    if (row->state == FR_ST_WAITING)
        return row->blocked ? run_block_text(run, run->plan->insts[row->inst].task)
                            : run_why_waiting(run, row->inst);
    if (row->state == FR_ST_SUCCEEDED && run_task_of(run, row->inst)->empty)
        return run_task_of(run, row->inst)->spec->items->of_list ? "its list has no element"
                                                                 : "no row of its matrix is left";
    if (row->attempt_no == 0 || row->live)
        return unstarted || cut ? why_cause(run, row) : "";
    base = why_cause(run, row);
    if (own == NULL || own[0] == '\0')
        return base;
    if (base == NULL || base[0] == '\0' || unstarted)
        return own;
    return fr_arena_fmt(&run->arena, "%s: %s", base, own);
}

bool run_is_failure(const struct fr_run *run, const struct fr_row *row)
{
    return row->state >= FR_ST_FAILED && row->state <= FR_ST_STOP_UNPROVEN &&
           row->state != FR_ST_CANCELLED && run_task_of(run, row->inst)->hook < 0 &&
           row->cause != FR_CAUSE_GANG_PEER && !run_task_of(run, row->inst)->spec->best_effort;
}

const char *run_why_timed_out(struct fr_run *run)
{
    char text[24];

    fr_show_duration(run->spec->timeout_ms, text);
    return fr_arena_fmt(&run->arena, "timeout after %s", text);
}

/* Of a gang that failed because one member was lost, that member is to blame. */
const char *run_why_failed(struct fr_run *run)
{
    uint32_t found = FR_PLAN_NONE;
    struct fr_row first = {0};

    for (uint32_t i = 0; i < run->plan->n_insts; i++) {
        struct fr_row row = fr_sched_row(run->sched, i, fr_sys.mono_ms());

        if (run_is_failure(run, &row) &&
            (found == FR_PLAN_NONE || (run->plan->insts[i].task == run->plan->insts[found].task &&
                                       row.state == FR_ST_LOST && first.state != FR_ST_LOST))) {
            found = i;
            first = row;
        }
    }
    if (found == FR_PLAN_NONE)
        return "";
    return fr_arena_fmt(&run->arena, "%s: %s", run->plan->insts[found].key,
                        run->insts[found].reason[0] != '\0' ? run->insts[found].reason
                                                            : fr_state_name(first.state));
}
