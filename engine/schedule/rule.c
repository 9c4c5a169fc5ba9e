/* Occurrences of a rule. Between two changes of a zone's offset cron is a plain search of wall
 * times. */
#include "engine/schedule/rule.h"

#include "engine/base/file.h"

#include <stdlib.h>

/* A cron expression fires within 400 years, or its day falls into a hole of the zone. */
static const int64_t HORIZON_S = (int64_t)(FR_CYCLE_DAYS + 366) * FR_DAY_S;
/* Where a clock may stand: some 30,000 years around 1970. */
static const int64_t CLOCK_MAX_S = 1000000000000;

/* The instants [from, to) that have one offset: now; before it, o. */
struct segment {
    int64_t from, to;
    int32_t before, now;
};

static struct segment segment_of(const struct fr_zone *zone, int64_t t)
{
    struct segment s = {.from = -2 * CLOCK_MAX_S, .to = 2 * CLOCK_MAX_S};
    struct fr_zone_change c;

    bool later = fr_zone_after(zone, t, &c);

    s.before = s.now = later ? c.before : zone->first;
    if (later && c.at < s.to)
        s.to = c.at;
    if (fr_zone_before(zone, t, &c)) {
        s.from = c.at > s.from ? c.at : s.from; /* a file may say anything: sums stay in range */
        s.before = c.before;
        s.now = c.after;
    }
    return s;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* From here on wall times by the new offset count: those of a repeated hour have fired already. */
static int64_t fresh_from(const struct fr_cron *c, const struct segment *s)
{
    if (s->now < s->before && !fr_cron_every_hour(c))
        return s->from + (s->before - s->now);
    return s->from;
}

/* Up to here wall times that do not exist are read with the offset before the gap. */
static int64_t gap_to(const struct segment *s)
{
    return s->now > s->before ? s->from + (s->now - s->before) : s->from;
}

bool fr_rule_fires(const struct fr_cron *cron, const struct fr_zone *zone, int64_t t)
{
    struct segment s = segment_of(zone, t);

    return (t >= fresh_from(cron, &s) && fr_cron_matches(cron, t + s.now)) ||
           (t < gap_to(&s) && fr_cron_matches(cron, t + s.before));
}

/* The first occurrence in [from, to) of one segment. */
static bool first_in(const struct fr_cron *c, const struct segment *s, int64_t from, int64_t *t)
{
    int64_t a = most(from, fresh_from(c, s)), gap = least(gap_to(s), s->to), wall;
    bool found = fr_cron_first(c, a + s->now, s->to + s->now, &wall);

    if (found)
        *t = wall - s->now;
    if (fr_cron_first(c, from + s->before, gap + s->before, &wall) &&
        (!found || wall - s->before < *t)) {
        *t = wall - s->before;
        found = true;
    }
    return found;
}

static bool last_in(const struct fr_cron *c, const struct segment *s, int64_t to, int64_t *t)
{
    int64_t gap = least(gap_to(s), to), wall;
    bool found = fr_cron_last(c, fresh_from(c, s) + s->now, to + s->now, &wall);

    if (found)
        *t = wall - s->now;
    if (fr_cron_last(c, s->from + s->before, gap + s->before, &wall) &&
        (!found || wall - s->before > *t)) {
        *t = wall - s->before;
        found = true;
    }
    return found;
}

/* The first occurrence in [from, to). */
static bool cron_next(const struct fr_rule *r, int64_t from, int64_t to, int64_t *t)
{
    while (from < to) {
        struct segment s = segment_of(r->zone, from);

        s.to = least(s.to, to);
        if (first_in(&r->cron, &s, from, t))
            return true;
        from = s.to;
    }
    return false;
}

static bool cron_prev(const struct fr_rule *r, int64_t from, int64_t to, int64_t *t)
{
    while (from < to) {
        struct segment s = segment_of(r->zone, to - 1);

        if (last_in(&r->cron, &s, to, t))
            return *t >= from;
        to = s.from;
    }
    return false;
}

/* Occurrences in [from, to) of one segment. */
static int64_t count_in(const struct fr_cron *c, const struct segment *s, int64_t from, int64_t to)
{
    int64_t n = fr_cron_count(c, most(from, fresh_from(c, s)) + s->now, to + s->now), wall;
    int64_t gap = least(gap_to(s), to);

    for (int64_t at = from; at < gap && fr_cron_first(c, at + s->before, gap + s->before, &wall);
         at = wall - s->before + 1)
        n += !fr_cron_matches(c, wall - s->before + s->now);
    return n;
}

static int64_t cron_count(const struct fr_rule *r, int64_t from, int64_t to)
{
    int64_t n = 0;

    while (from < to) {
        struct segment s = segment_of(r->zone, from);
        int64_t end = least(s.to, to);

        n += count_in(&r->cron, &s, from, end);
        from = end;
    }
    return n;
}

/* The instants of at[] that are at or before t. */
static size_t at_before(const struct fr_rule *r, int64_t t)
{
    size_t n = 0;

    while (n < r->n_at && r->at[n] <= t)
        n++;
    return n;
}

/* The first second at or after ms. */
static int64_t second_up(int64_t ms)
{
    return -fr_div_down(-ms, 1000);
}

static int64_t clamp(int64_t ms)
{
    return most(least(ms, CLOCK_MAX_S * 1000), -CLOCK_MAX_S * 1000);
}

/* The first occurrence in [from, to), which lie within the clock's range. */
static bool next_in(const struct fr_rule *r, int64_t from, int64_t to, int64_t *occurrence)
{
    int64_t s, k;

    switch (r->kind) {
    case FR_RULE_CRON:
        s = second_up(from);
        if (!cron_next(r, s, least(second_up(to), s + HORIZON_S), &s))
            return false;
        *occurrence = s * 1000;
        return true;
    case FR_RULE_EVERY:
        k = -fr_div_down(-(from - r->anchor_ms), r->every_ms);
        *occurrence = r->anchor_ms + k * r->every_ms;
        return *occurrence < to;
    default:
        k = (int64_t)at_before(r, from - 1);
        *occurrence = k < (int64_t)r->n_at ? r->at[k] : to;
        return *occurrence < to;
    }
}

static bool prev_in(const struct fr_rule *r, int64_t from, int64_t to, int64_t *occurrence)
{
    int64_t s, k;

    switch (r->kind) {
    case FR_RULE_CRON:
        s = second_up(to);
        if (!cron_prev(r, most(second_up(from), s - HORIZON_S), s, &s))
            return false;
        *occurrence = s * 1000;
        return true;
    case FR_RULE_EVERY:
        k = fr_div_down(to - 1 - r->anchor_ms, r->every_ms);
        *occurrence = r->anchor_ms + k * r->every_ms;
        return *occurrence >= from;
    default:
        k = (int64_t)at_before(r, to - 1);
        *occurrence = k > 0 ? r->at[k - 1] : from - 1;
        return *occurrence >= from;
    }
}

bool fr_rule_next(const struct fr_rule *rule, int64_t after_ms, int64_t *at_ms)
{
    int64_t from = most(clamp(after_ms) + 1, clamp(rule->start_ms)), to = clamp(rule->end_ms);

    return from < to && next_in(rule, from, to, at_ms);
}

bool fr_rule_prev(const struct fr_rule *rule, int64_t before_ms, int64_t *at_ms)
{
    int64_t from = clamp(rule->start_ms), to = least(clamp(before_ms), clamp(rule->end_ms));

    return from < to && prev_in(rule, from, to, at_ms);
}

int64_t fr_rule_count(const struct fr_rule *rule, int64_t after_ms, int64_t upto_ms)
{
    int64_t from = most(clamp(after_ms) + 1, clamp(rule->start_ms));
    int64_t to = least(clamp(upto_ms) + 1, clamp(rule->end_ms));

    if (from >= to)
        return 0;
    switch (rule->kind) {
    case FR_RULE_CRON:
        return cron_count(rule, second_up(from), second_up(to));
    case FR_RULE_EVERY:
        return fr_div_down(to - 1 - rule->anchor_ms, rule->every_ms) -
               fr_div_down(from - 1 - rule->anchor_ms, rule->every_ms);
    default:
        return (int64_t)at_before(rule, to - 1) - (int64_t)at_before(rule, from - 1);
    }
}

int64_t fr_rule_shortest(const struct fr_rule *rule, int64_t after_ms, size_t n)
{
    int64_t shortest = FR_NO_END, at, next;

    if (n == 0 || !fr_rule_next(rule, after_ms, &at))
        return shortest;
    for (; n > 1 && fr_rule_next(rule, at, &next); n--, at = next)
        shortest = least(shortest, next - at);
    return shortest;
}

int64_t fr_jitter_ms(const struct fr_jitter_of *of, int64_t jitter_ms)
{
    struct fr_buf b = {0};
    char hash[FR_SHA256_TEXT];

    if (jitter_ms <= 0)
        return 0;
    fr_buf_fmt(&b, "flowrun-jitter-1%c%s%c%s%c%s", '\0', of->home, '\0', of->pipeline, '\0',
               of->schedule);
    fr_sha256(b.p != NULL ? b.p : "", b.n, hash);
    fr_buf_finish(&b);
    hash[16] = '\0';
    return (int64_t)(strtoull(hash, NULL, 16) % (uint64_t)jitter_ms);
}
