/* What an occurrence does beside live runs of its pipeline. */
#include "engine/schedule/decide.h"

#include <string.h>

FR_WORDS(fr_origin_words, FR_ORIGINS(FR_WORD_TEXT));

const char *fr_origin_name(enum fr_origin origin)
{
    return fr_word(&fr_origin_words, origin);
}

static bool same(const struct fr_overlap_of *of, const struct fr_live *run)
{
    return run->schedule[0] != '\0' && strcmp(run->schedule, of->schedule) == 0;
}

/* Catch-up runs of one schedule only wait for each other. */
static bool both_catch_up(const struct fr_overlap_of *of, const struct fr_live *run)
{
    return of->origin == FR_ORIGIN_CATCHUP && run->origin == FR_ORIGIN_CATCHUP && same(of, run);
}

/* It matters to the occurrences of the schedule: backfills do not. */
static bool counts(const struct fr_overlap_of *of, const struct fr_live *run)
{
    return run->origin != FR_ORIGIN_BACKFILL && !both_catch_up(of, run);
}

bool fr_overlap_cancels(const struct fr_overlap_of *of, const struct fr_live *run)
{
    return of->policy == FR_OVERLAP_CANCEL && counts(of, run) && same(of, run);
}

static struct fr_overlap_out skip_beside(const struct fr_overlap_of *of, bool other_only)
{
    for (size_t i = 0; i < of->n_live; i++)
        if (counts(of, &of->live[i]) && !(other_only && same(of, &of->live[i])))
            return (struct fr_overlap_out){.act = FR_SKIP, .by = of->live[i].no};
    return (struct fr_overlap_out){.act = FR_ENTER};
}

/* The oldest waiting run of the schedule where queue_max of them wait. */
static struct fr_overlap_out queue_behind(const struct fr_overlap_of *of)
{
    struct fr_overlap_out out = {.act = FR_ENTER};
    int64_t oldest = 0;
    int waiting = 0;

    for (size_t i = 0; i < of->n_live; i++) {
        const struct fr_live *run = &of->live[i];

        if (run->queued && run->origin == FR_ORIGIN_SCHEDULE && same(of, run)) {
            waiting++;
            if (oldest == 0 || run->no < oldest)
                oldest = run->no;
        }
    }
    if (of->origin == FR_ORIGIN_SCHEDULE && waiting >= of->queue_max)
        out.supersede = oldest;
    return out;
}

struct fr_overlap_out fr_overlap_enter(const struct fr_overlap_of *of)
{
    switch (of->policy) {
    case FR_OVERLAP_SKIP:
        return skip_beside(of, false);
    case FR_OVERLAP_QUEUE:
        return queue_behind(of);
    case FR_OVERLAP_CANCEL:
        return skip_beside(of, true);
    case FR_OVERLAP_PARALLEL:
    case FR_OVERLAP_N:
        break;
    }
    return (struct fr_overlap_out){.act = FR_ENTER};
}

/* A queued run waits for this other one. */
static bool blocks(const struct fr_overlap_of *of, const struct fr_live *run, int64_t no)
{
    if (run->no == no || (run->queued && run->no > no))
        return false; /* of two that wait the older goes first */
    if (both_catch_up(of, run))
        return true;
    return counts(of, run) && (of->policy == FR_OVERLAP_QUEUE || fr_overlap_cancels(of, run));
}

int64_t fr_overlap_blocker(const struct fr_overlap_of *of, int64_t no)
{
    for (size_t i = 0; i < of->n_live; i++)
        if (blocks(of, &of->live[i], no))
            return of->live[i].no;
    return 0;
}
