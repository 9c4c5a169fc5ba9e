/* What is left of clusters when the host ends: jobs that it has not given back, and what becomes of
 * them. */
#include "engine/allocate/private.h"

#include "engine/schedule/calendar.h"
#include "engine/slurm/wait.h"

enum left {
    LEFT_NOT,      /* nothing of it is, or a further flowrun looks after its run */
    LEFT_RELEASED, /* it is to be given back */
    LEFT_UNKNOWN,  /* Slurm has not said whether it has the job */
    LEFT_WAITS,
    LEFT_RUNS
};

static enum left left_of(const struct host_allocation *al)
{
    if (al->a.life.state != FR_ALLOCATION_OVER && al->leaves)
        return LEFT_RELEASED;
    if (al->run_no == 0 || (al->h != NULL && al->h->followers > 0))
        return LEFT_NOT;
    switch (al->a.life.state) {
    case FR_ALLOCATION_SUBMITTING:
    case FR_ALLOCATION_LOOKING:
        return LEFT_UNKNOWN;
    case FR_ALLOCATION_QUEUED:
        return LEFT_WAITS;
    case FR_ALLOCATION_STARTING:
    case FR_ALLOCATION_UP:
        return LEFT_RUNS;
    case FR_ALLOCATION_RELEASING:
        return LEFT_RELEASED;
    default:
        return LEFT_NOT;
    }
}

/* Elements of one array of which the same is to be said. */
static bool are_alike(const struct host_allocation *a, const struct host_allocation *b)
{
    return a == b || (a->a.life.element != 0 && b->a.life.element != 0 &&
                      a->a.life.job == b->a.life.job && a->cluster == b->cluster &&
                      fr_id_eq(a->row.run, b->row.run) && left_of(a) == left_of(b));
}

static size_t count_alike(const struct host_allocation *al)
{
    size_t n = 0;

    for (const struct host_allocation *m = al; m != NULL; m = m->next)
        n += are_alike(al, m);
    return n;
}

static bool is_first(const struct host_allocation *al)
{
    const struct host_allocation *m = allocations_of(al->host)->first;

    while (!are_alike(al, m))
        m = m->next;
    return m == al;
}

static void name_job(const struct host_allocation *al, struct fr_buf *out)
{
    const struct fr_allocation_life *l = &al->a.life;
    const char *cluster = al->cluster->name[0] != '\0' ? al->cluster->name : al->row.cluster;
    char job[FR_SLURM_JOB_TEXT];
    size_t n = count_alike(al);

    fr_buf_fmt(out, "allocation %s: ", al->row.name);
    if (l->job == 0) {
        fr_buf_fmt(out, "the job fr-%s, if Slurm has it,", al->row.tag);
        return;
    }
    fr_buf_fmt(out, "Slurm job %s", fr_slurm_job_text(l->job, n > 1 ? 0 : l->element, job));
    if (n > 1)
        fr_buf_fmt(out, " (%zu of its elements)", n);
    if (cluster[0] != '\0')
        fr_buf_fmt(out, " of cluster %s", cluster);
}

static void say_released(const struct host_allocation *al, struct fr_buf *out)
{
    fr_buf_text(out, " is not given back yet: ");
    if (!alloc_is_away(al, out))
        fr_buf_text(out, "Slurm has not said that it is over");
    fr_buf_text(out, "; the next run of this home gives it back; without one it ends by itself "
                     "when its lease is over");
}

/* Its run is not over. */
static void say_kept(const struct host_allocation *al, enum left left, struct fr_buf *out)
{
    const struct fr_allocation_life *l = &al->a.life;
    char at[FR_TIME_TEXT], lease[24];
    const char *serve = al->host->config.stays ? "the next 'flowrun serve' or " : "";

    fr_buf_fmt(out, " is left%s",
               left == LEFT_WAITS  ? " in Slurm's queue"
               : left == LEFT_RUNS ? " running"
                                   : "");
    if (left == LEFT_RUNS && al->row.hosts[0] != '\0' && count_alike(al) == 1)
        fr_buf_fmt(out, " on %s", al->row.hosts);
    if (left == LEFT_WAITS)
        fr_allocation_queue(l->reason, l->estimate_wall, out);
    if (left == LEFT_RUNS && l->end_wall != 0) {
        fr_time_text(l->end_wall / 1000, 0, at);
        fr_buf_fmt(out, ", at most until %s", at);
    }
    fr_buf_fmt(out,
               "; %s'flowrun resume %lld' goes on with it, 'flowrun cancel %lld' gives it back; ",
               serve, (long long)al->run_no, (long long)al->run_no);
    fr_show_duration(al->row.lease_ms, lease);
    if (al->row.lease_ms == 0)
        fr_buf_text(out, "without either it ends by itself when its lease is over");
    else
        fr_buf_fmt(out,
                   "without either it ends by itself once it has run for %s without a task and "
                   "without a flowrun",
                   lease);
}

void alloc_say_left(const struct fr_host *host, struct fr_buf *out)
{
    for (const struct host_allocation *al = allocations_of(host)->first; al != NULL;
         al = al->next) {
        const enum left left = left_of(al);

        if (left == LEFT_NOT || !is_first(al))
            continue;
        name_job(al, out);
        if (left == LEFT_RELEASED)
            say_released(al, out);
        else
            say_kept(al, left, out);
        fr_buf_text(out, "\n");
    }
}
