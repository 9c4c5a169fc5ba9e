#include "engine/slurm/wait.h"

#include "engine/base/str.h"
#include "engine/schedule/calendar.h"
#include "engine/slurm/reason.h"

void fr_allocation_queue(const char *reason, int64_t estimate_wall, struct fr_buf *out)
{
    char text[FR_ALLOCATION_NOTE], at[FR_TIME_TEXT];
    const char *why = fr_slurm_reason(reason, text, sizeof(text));

    if (why[0] != '\0')
        fr_buf_fmt(out, ": %s", why);
    if (estimate_wall == 0)
        return;
    fr_time_text(estimate_wall / 1000, 0, at);
    fr_buf_fmt(out, ", expected %s", at);
}

void fr_allocation_wait(const struct fr_allocation_life *a, const char *name, struct fr_buf *out)
{
    char job[FR_SLURM_JOB_TEXT] = "";

    if (a != NULL)
        fr_slurm_job_text(a->job, a->element, job);
    switch (a != NULL ? a->state : FR_ALLOCATION_WANTED) {
    case FR_ALLOCATION_WANTED:
    case FR_ALLOCATION_SUBMITTING:
    case FR_ALLOCATION_LOOKING:
        fr_buf_fmt(out, "the allocation %s: Slurm is asked for it", name);
        if (a != NULL && a->state == FR_ALLOCATION_WANTED && a->note[0] != '\0')
            fr_buf_fmt(out, " again (%s)", a->note);
        break;
    case FR_ALLOCATION_QUEUED:
        fr_buf_fmt(out, "Slurm job %s (%s)", job, name);
        fr_allocation_queue(a->reason, a->estimate_wall, out);
        break;
    case FR_ALLOCATION_STARTING:
        fr_buf_fmt(out, "the nodes of Slurm job %s (%s), which has begun", job, name);
        break;
    case FR_ALLOCATION_UP:
        break;
    default:
        fr_buf_fmt(out, "another allocation %s: Slurm job %s is given back", name, job);
        break;
    }
}
