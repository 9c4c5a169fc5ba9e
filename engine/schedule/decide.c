/* Which of the due occurrences run. */
#include "engine/schedule/decide.h"

FR_WORDS(fr_fate_words, FR_FATES(FR_WORD_TEXT));

const char *fr_fate_name(enum fr_fate fate)
{
    return fr_word(&fr_fate_words, fate);
}

bool fr_decide_anew(const struct fr_decided *d, int64_t now_ms)
{
    return (d->fate == FR_FATE_MISSED || d->fate == FR_FATE_DROPPED) && d->decided_ms > now_ms;
}

/* The newest occurrence in (after, before) that no stored decision covers. */
static bool undecided_before(const struct fr_due *due, int64_t before, int64_t *occurrence)
{
    while (fr_rule_prev(due->rule, before, occurrence) && *occurrence > due->seen_ms) {
        const struct fr_decided *over = NULL;

        for (size_t i = due->n_decided; i-- > 0 && over == NULL;)
            if (due->decided[i].first_ms <= *occurrence && *occurrence <= due->decided[i].at_ms)
                over = &due->decided[i];
        if (over == NULL)
            return true;
        before = over->first_ms;
    }
    return false;
}

/* How many undecided occurrences lie in (seen, upto]. */
static int64_t count_undecided(const struct fr_due *due, int64_t upto)
{
    int64_t n = fr_rule_count(due->rule, due->seen_ms, upto), from = due->seen_ms;

    for (size_t i = 0; i < due->n_decided; i++) {
        const struct fr_decided *d = &due->decided[i];
        int64_t first = d->first_ms - 1 > from ? d->first_ms - 1 : from;
        int64_t last = d->at_ms < upto ? d->at_ms : upto;

        if (last > first) { /* decisions may overlap: each occurrence counts once */
            n -= fr_rule_count(due->rule, first, last);
            from = last;
        }
    }
    return n;
}

/* The oldest undecided occurrence, due or not. */
static bool first_undecided(const struct fr_due *due, int64_t *occurrence)
{
    int64_t at = due->seen_ms;

    while (fr_rule_next(due->rule, at, occurrence)) {
        size_t i = 0;

        while (i < due->n_decided &&
               (due->decided[i].first_ms > *occurrence || *occurrence > due->decided[i].at_ms))
            i++;
        if (i == due->n_decided)
            return true;
        at = due->decided[i].at_ms;
    }
    return false;
}

/* How many of the newest run. */
static size_t running(const struct fr_due *due, int64_t newest)
{
    if (due->paused)
        return 0;
    if (due->catchup == FR_CATCHUP_ALL)
        return due->limit;
    if (due->catchup == FR_CATCHUP_LAST)
        return 1;
    return due->now_ms - (newest + due->delay_ms) <= due->grace_ms;
}

static void reverse(struct fr_decision *list, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        struct fr_decision d = list[i];

        list[i] = list[n - 1 - i];
        list[n - 1 - i] = d;
    }
}

size_t fr_decide(const struct fr_due *due, struct fr_decision *out, int64_t *seen_ms)
{
    enum fr_fate rest = due->paused                      ? FR_FATE_PAUSED
                        : due->catchup == FR_CATCHUP_ALL ? FR_FATE_DROPPED
                                                         : FR_FATE_MISSED;
    int64_t occurrence, first, newest;
    size_t n = 0, runs;
    bool more = undecided_before(due, due->now_ms - due->delay_ms + 1, &occurrence);

    newest = more ? occurrence : due->seen_ms;
    runs = more ? running(due, occurrence) : 0;
    for (; more && n < runs; n++) { /* newest first */
        bool in_time = due->now_ms - (occurrence + due->delay_ms) <= due->grace_ms;

        out[n] = (struct fr_decision){FR_FATE_RAN, n > 0 || !in_time, occurrence, occurrence, 1};
        more = undecided_before(due, occurrence, &occurrence);
    }
    if (more && first_undecided(due, &first))
        out[n++] =
            (struct fr_decision){rest, false, first, occurrence, count_undecided(due, occurrence)};
    reverse(out, n);
    *seen_ms = newest; /* it may be due's own */
    return n;
}

bool fr_undecided_upto(const struct fr_due *due, int64_t upto_ms, struct fr_decision *out)
{
    *out = (struct fr_decision){0};
    if (!undecided_before(due, upto_ms + 1, &out->at_ms) || !first_undecided(due, &out->first_ms))
        return false;
    out->count = count_undecided(due, out->at_ms);
    return true;
}

int64_t fr_next_due(const struct fr_due *due)
{
    int64_t occurrence;

    return first_undecided(due, &occurrence) ? occurrence + due->delay_ms : FR_NO_END;
}

int64_t fr_seen_back(int64_t seen_ms, int64_t now_ms, int64_t *since_ms)
{
    if (*since_ms > now_ms)
        *since_ms = now_ms;
    if (seen_ms <= now_ms)
        return seen_ms;
    return now_ms > *since_ms ? now_ms : *since_ms;
}
