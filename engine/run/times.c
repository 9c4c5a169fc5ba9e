#include "engine/run/times.h"
#include "engine/run/inside.h"

static const int64_t TIME_MOST = (int64_t)1 << 53; /* ms; nothing that a clock says */

static int64_t between(int64_t low, int64_t ms, int64_t high)
{
    ms = ms < low ? low : ms;
    return ms > high ? high : ms;
}

static bool is_time(int64_t ms)
{
    return ms > -TIME_MOST && ms < TIME_MOST;
}

/* How long ago that was of the node's clock, by the newest measurement of it. */
static int64_t node_ago(const struct fr_run *run, const struct run_attempt *at, int64_t node_ms)
{
    int64_t offset = run->exec.ops->clock_offset(run->exec.self, run_node_of(run, at->inst));

    return fr_sys.mono_ms() + offset - node_ms;
}

void run_times_launched(struct fr_run *run, const struct run_attempt *at, int64_t node_ms)
{
    struct run_inst *in = &run->insts[at->inst];
    int64_t now = fr_sys.wall_ms();

    if (node_ms != 0 && is_time(node_ms) && fr_id_eq(in->row.id, at->id))
        in->launched_wall = between(in->row.started_wall, now - node_ago(run, at, node_ms), now);
}

/* Age of an end, and how long the command ran. An older flownode reports only the clock that stands
 * still while its machine sleeps. */
static int64_t end_ago(const struct fr_run *run, const struct run_attempt *at,
                       const struct fr_ended *e, int64_t *ran)
{
    *ran = 0;
    if (!is_time(e->sent_boot_ms) || !is_time(e->ended_boot_ms) || !is_time(e->launched_boot_ms) ||
        !is_time(e->ended_ms) || !is_time(e->launched_ms))
        return 0;
    if (e->sent_boot_ms != 0) {
        *ran = e->ended_boot_ms - e->launched_boot_ms;
        return e->sent_boot_ms - e->ended_boot_ms;
    }
    if (e->ended_ms == 0)
        return 0;
    *ran = e->launched_ms > 0 ? e->ended_ms - e->launched_ms : 0;
    return node_ago(run, at, e->ended_ms);
}

/* A report may have been under way for long: this process stood still, or its machine slept. The
 * command ended no later than its launch, which was reported before, and its duration say. */
static int64_t end_of(const struct run_inst *in, int64_t ran, int64_t reported)
{
    int64_t end = in->launched_wall + ran;

    return in->launched_wall > 0 && ran > 0 && end < reported ? end : reported;
}

int64_t run_times_ended(struct fr_run *run, const struct run_attempt *at, const struct fr_ended *e)
{
    struct run_inst *in = &run->insts[at->inst];
    int64_t now = fr_sys.wall_ms(), ran = 0, ago = e != NULL ? end_ago(run, at, e, &ran) : 0;

    if (!fr_id_eq(in->row.id, at->id))
        return 0;
    in->end_wall =
        between(in->row.started_wall + (ran > 0 ? ran : 0), end_of(in, ran, now - ago), now);
    return now - in->end_wall;
}

/* A gang has ended with the last of its members. */
static int64_t ended(const struct fr_run *run, uint32_t inst)
{
    struct fr_plan_unit unit = fr_plan_unit(run->plan, inst);
    int64_t last = 0;

    for (uint32_t k = 0; k < unit.n; k++)
        if (run->insts[unit.first + k].end_wall > last)
            last = run->insts[unit.first + k].end_wall;
    return last;
}

int64_t run_times_of(const struct fr_run *run, const struct fr_row *row, int64_t now)
{
    const struct run_inst *in = &run->insts[row->inst];
    int64_t wall = 0;

    if (row->state == in->state || !fr_state_lives(in->state))
        return now;
    if (row->state == FR_ST_RUNNING && row->live)
        wall = in->launched_wall;
    else if (row->state == FR_ST_RETRYING || fr_state_ended(row->state))
        wall = ended(run, row->inst);
    return wall > 0 && wall < now ? wall : now;
}

void run_times_put(struct fr_run *run, const struct fr_row *row, int64_t wall_ms)
{
    struct run_inst *in = &run->insts[row->inst];

    if (!fr_state_ended(row->state) && in->ended_wall != 0)
        in->started_wall = in->ended_wall = 0; /* the user runs it again */
    if (row->live && !fr_row_booked(row) && in->started_wall == 0)
        in->started_wall = wall_ms;
    if (!fr_state_ended(row->state))
        in->ended_wall = 0;
    else if (in->ended_wall == 0)
        in->ended_wall = wall_ms;
    if (!row->unreachable)
        in->unreachable_wall = 0;
    else if (in->unreachable_wall == 0)
        in->unreachable_wall = wall_ms;
}

int64_t run_times_over(const struct fr_run *run, int64_t now)
{
    int64_t last = 0;

    for (uint32_t i = 0; i < run->plan->n_insts; i++)
        if (run->insts[i].ended_wall > last && run->insts[i].state != FR_ST_SKIPPED)
            last = run->insts[i].ended_wall;
    return last >= run->row.started_wall && last > 0 && last < now ? last : now;
}
