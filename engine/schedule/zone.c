/* Looking up offsets, and reading wall times. */
#include "engine/schedule/zone.h"

#include "engine/base/sys.h"

void fr_zone_finish(struct fr_zone *zone)
{
    if (zone == NULL)
        return;
    fr_sys.free(zone->changes);
    *zone = (struct fr_zone){0};
}

/* How many changes of the table are at or before t. */
static size_t count_before(const struct fr_zone *zone, int64_t t)
{
    size_t lo = 0, hi = zone->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (zone->changes[mid].at <= t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool fr_zone_before(const struct fr_zone *zone, int64_t t, struct fr_zone_change *out)
{
    size_t n;

    if (zone->summer && t > zone->table_end && fr_zone_rule_change(zone, t, false, out))
        return true;
    n = count_before(zone, t);
    if (n > 0)
        *out = zone->changes[n - 1];
    return n > 0;
}

bool fr_zone_after(const struct fr_zone *zone, int64_t t, struct fr_zone_change *out)
{
    size_t n = count_before(zone, t);

    if (n < zone->n) {
        *out = zone->changes[n];
        return true;
    }
    return zone->summer &&
           fr_zone_rule_change(zone, t > zone->table_end ? t : zone->table_end, true, out);
}

int32_t fr_zone_offset(const struct fr_zone *zone, int64_t t)
{
    struct fr_zone_change c;

    if (fr_zone_before(zone, t, &c))
        return c.after;
    return fr_zone_after(zone, t, &c) ? c.before : zone->first;
}

int64_t fr_zone_instant(const struct fr_zone *zone, struct fr_when when)
{
    enum { FAR = 3 * FR_DAY_S }; /* no offset is as large */
    int64_t since, at;
    int32_t before, now;
    struct fr_zone_change c;

    if (when.instant)
        return when.s;
    since = when.s - FAR;
    now = before = fr_zone_offset(zone, since);
    while (fr_zone_after(zone, since, &c) && when.s - now >= c.at) {
        since = c.at;
        before = c.before;
        now = c.after;
    }
    at = when.s - now;
    return at >= since ? at : when.s - before;
}
