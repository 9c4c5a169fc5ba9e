/* What is left of clusters when the host ends: jobs that it has not given back, and what becomes of
 * them. */
#include "engine/allocate/private.h"

#include "engine/view/allocations.h"

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

static void say_released(const struct host_allocation *al, struct fr_buf *out)
{
    fr_buf_text(out, " is not given back yet: ");
    if (!alloc_is_away(al, out))
        fr_buf_text(out, "Slurm has not said that it is over");
    fr_buf_text(out, "; the next run of this home gives it back; without one it ends by itself "
                     "when its lease is over");
}

static void say(const struct host_allocation *al, bool released, struct fr_buf *out)
{
    const bool named = al->cluster->name[0] != '\0';
    const struct fr_left left = {&al->row, named ? al->cluster->name : al->row.cluster,
                                 count_alike(al)};

    if (!released) {
        fr_left_say(&left, al->run_no, al->host->config.stays ? "the next 'flowrun serve' or " : "",
                    out);
        return;
    }
    fr_left_name(&left, out);
    say_released(al, out);
}

void alloc_say_left(const struct fr_host *host, struct fr_buf *out)
{
    for (const struct host_allocation *al = allocations_of(host)->first; al != NULL;
         al = al->next) {
        const enum left left = left_of(al);

        if (left == LEFT_NOT || !is_first(al))
            continue;
        say(al, left == LEFT_RELEASED, out);
        fr_buf_text(out, "\n");
    }
}
