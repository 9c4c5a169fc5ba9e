/* Jobs of Slurm that a run still has, for whoever leaves it. */
#include "engine/base/str.h"
#include "engine/schedule/calendar.h"
#include "engine/slurm/wait.h"
#include "engine/view/allocations.h"

void fr_left_name(const struct fr_left *left, struct fr_buf *out)
{
    const struct fr_allocation_row *row = left->row;
    char job[FR_SLURM_JOB_TEXT];

    fr_buf_fmt(out, "allocation %s: ", row->name);
    if (row->job == 0) {
        fr_buf_fmt(out, "the job fr-%s, if Slurm has it,", row->tag);
        return;
    }
    fr_buf_fmt(out, "Slurm job %s",
               fr_slurm_job_text(row->job, left->n > 1 ? 0 : row->element, job));
    if (left->n > 1)
        fr_buf_fmt(out, " (%zu of its elements)", left->n);
    if (left->cluster[0] != '\0')
        fr_buf_fmt(out, " of cluster %s", left->cluster);
}

void fr_left_say(const struct fr_left *left, int64_t run, const char *also, struct fr_buf *out)
{
    const struct fr_allocation_row *row = left->row;
    const bool waits = row->state == FR_ALLOCATION_QUEUED;
    const bool runs = row->state == FR_ALLOCATION_STARTING || row->state == FR_ALLOCATION_UP;
    char at[FR_TIME_TEXT], lease[24];

    fr_left_name(left, out);
    fr_buf_fmt(out, " is left%s", waits ? " in Slurm's queue" : runs ? " running" : "");
    if (runs && row->hosts[0] != '\0' && left->n == 1)
        fr_buf_fmt(out, " on %s", row->hosts);
    if (waits)
        fr_allocation_queue(row->reason, row->estimate_wall, out);
    if (runs && row->end_wall != 0) {
        fr_time_text(row->end_wall / 1000, 0, at);
        fr_buf_fmt(out, ", at most until %s", at);
    }
    fr_buf_fmt(out,
               "; %s'flowrun resume %lld' goes on with it, 'flowrun cancel %lld' gives it back; ",
               also, (long long)run, (long long)run);
    fr_show_duration(row->lease_ms, lease);
    if (row->lease_ms == 0)
        fr_buf_text(out, "without either it ends by itself when its lease is over");
    else
        fr_buf_fmt(out,
                   "without either it ends by itself once it has run for %s without a task and "
                   "without a flowrun",
                   lease);
}

/* Slurm has its job, or may have it, and nobody gives it back. */
static bool is_left(const struct fr_allocation_row *row)
{
    return row->state > FR_ALLOCATION_WANTED && row->state < FR_ALLOCATION_RELEASING;
}

/* Elements of one array of which the same is to be said. */
static bool are_alike(const struct fr_allocation_row *a, const struct fr_allocation_row *b)
{
    const bool wait = a->state == FR_ALLOCATION_QUEUED;

    return a == b || (is_left(b) && a->element != 0 && b->element != 0 && a->job == b->job &&
                      wait == (b->state == FR_ALLOCATION_QUEUED));
}

void fr_left_rows(const struct fr_allocation_rows *rows, int64_t run, const char *also,
                  struct fr_buf *out)
{
    for (size_t i = 0; i < rows->n; i++) {
        struct fr_left left = {&rows->rows[i], rows->rows[i].cluster, 0};
        bool first = is_left(left.row);

        for (size_t k = 0; first && k < rows->n; k++) {
            first = k >= i || !are_alike(left.row, &rows->rows[k]);
            left.n += are_alike(left.row, &rows->rows[k]);
        }
        if (!first)
            continue;
        fr_left_say(&left, run, also, out);
        fr_buf_text(out, "\n");
    }
}
