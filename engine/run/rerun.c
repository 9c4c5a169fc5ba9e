/* Whether a run that failed runs again by itself, as rerun: of its pipeline says. */
#include "engine/run/inside.h"
#include "engine/run/reasons.h"

#include <string.h>

static bool is_listed(const struct fr_retry *when, const struct fr_row *row)
{
    if (when->causes & 1u << row->cause)
        return true;
    for (size_t i = 0; row->cause == FR_CAUSE_EXIT && i < when->n_codes; i++)
        if (when->codes[i] == row->code)
            return true;
    return false;
}

/* A rerun would start a task beside itself, or repeat a mistake in the file. */
static bool is_hopeless(const struct fr_run *run, const struct fr_row *row)
{
    return row->state == FR_ST_STOP_UNPROVEN ||
           (row->cause == FR_CAUSE_EXIT && row->code == FR_EXIT_USAGE &&
            run_task_of(run, row->inst)->spec->act.what == FR_USES);
}

/* Each failure is one that the policy lists. */
static bool causes_allow(const struct fr_run *run, const struct fr_run_now *now)
{
    const struct fr_retry *when = &run->spec->rerun.when;
    bool any = now->timed_out;

    if (now->timed_out && !(when->causes & 1u << FR_CAUSE_TIMEOUT))
        return false;
    for (uint32_t i = 0; i < run->plan->n_insts; i++) {
        struct fr_row row = fr_sched_row(run->sched, i, fr_sys.mono_ms());

        if (!run_is_failure(run, &row))
            continue;
        if (!is_listed(when, &row) || is_hopeless(run, &row))
            return false;
        any = true;
    }
    return any;
}

void run_rerun_plan(struct fr_run *run, const struct fr_run_now *now)
{
    const struct fr_rerun *policy = &run->spec->rerun;

    if (now->outcome != FR_OUT_FAILED || run->row.reruns >= policy->when.times ||
        !causes_allow(run, now))
        return;
    run->row.rerun_wall = run->row.ended_wall + policy->after_ms;
    run->row.rerun_from = policy->from == FR_RERUN_START ? "start" : "failed";
}

void run_rerun_begin(struct fr_run *run)
{
    run->row.reruns = run->reruns;
    run->row.rerun_wall = 0;
    run->row.rerun_from = "";
}

const char *run_rerun_text(struct fr_run *run)
{
    const struct fr_rerun *policy = &run->spec->rerun;
    char after[24];

    if (run->row.rerun_wall == 0)
        return run->row.reason;
    fr_show_duration(policy->after_ms, after);
    return fr_arena_fmt(&run->arena,
                        "%s; in %s it runs again from %s, if a 'flowrun serve' drives "
                        "the home's runs then (rerun %lld of %d)",
                        run->row.reason, after,
                        policy->from == FR_RERUN_START ? "its start" : "what failed",
                        (long long)run->row.reruns + 1, policy->when.times);
}
