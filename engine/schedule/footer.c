/* The footer of a TZif file: a TZ string of POSIX, with the hours of RFC 9636 (-167 to 167). */
#include "engine/schedule/zone.h"

enum {
    YEARS = 5, /* around an instant: two of them on each side */
    HOUR = 3600
};

/* No rule is asked about instants further than 20,000 years from 1970. */
static const int64_t TIME_LATE = (int64_t)20000 * 366 * FR_DAY_S;

struct reader {
    const char *p, *end;
};

static bool take(struct reader *r, char c)
{
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

static bool number(struct reader *r, int max, int *out)
{
    const char *from = r->p;

    for (*out = 0; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
        *out = *out * 10 + (*r->p - '0');
        if (*out > max)
            return false;
    }
    return r->p > from;
}

/* [+-]hh[:mm[:ss]] */
static bool read_time(struct reader *r, int max_hours, int32_t *out)
{
    int sign = take(r, '-') ? -1 : 1, h, m = 0, s = 0;

    if (sign == 1)
        (void)take(r, '+');
    if (!number(r, max_hours, &h))
        return false;
    if (take(r, ':') && (!number(r, 59, &m) || (take(r, ':') && !number(r, 59, &s))))
        return false;
    *out = sign * (h * HOUR + m * 60 + s);
    return true;
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Three letters or more, or anything of letters, digits and signs in <>. */
static bool skip_name(struct reader *r)
{
    const char *from = r->p;

    if (take(r, '<')) {
        while (r->p < r->end && *r->p != '>')
            r->p++;
        return take(r, '>') && r->p - from > 4;
    }
    while (r->p < r->end && letter(*r->p))
        r->p++;
    return r->p - from >= 3;
}

/* ,Mm.w.d or ,Jn or ,n, then /time, else 02:00 */
static bool read_day(struct reader *r, struct fr_zone_day *day)
{
    if (!take(r, ','))
        return false;
    *day = (struct fr_zone_day){.time_s = 2 * HOUR};
    if (take(r, 'M')) {
        day->kind = FR_ZONE_WEEKDAY;
        if (!number(r, 12, &day->month) || !take(r, '.') || !number(r, 5, &day->week) ||
            !take(r, '.') || !number(r, 6, &day->day) || day->month < 1 || day->week < 1)
            return false;
    } else if (take(r, 'J')) {
        day->kind = FR_ZONE_JULIAN;
        if (!number(r, 365, &day->day) || day->day < 1)
            return false;
    } else {
        day->kind = FR_ZONE_ORDINAL;
        if (!number(r, 365, &day->day))
            return false;
    }
    return !take(r, '/') || read_time(r, 167, &day->time_s);
}

static bool read_rule(struct reader *r, struct fr_zone *zone)
{
    int32_t west;

    if (!skip_name(r) || !read_time(r, 25, &west))
        return false;
    zone->std = -west;
    if (r->p == r->end)
        return true;
    if (!skip_name(r))
        return false;
    zone->dst = zone->std + HOUR;
    if (r->p < r->end && *r->p != ',') {
        if (!read_time(r, 25, &west))
            return false;
        zone->dst = -west;
    }
    zone->summer = zone->dst != zone->std;
    return read_day(r, &zone->start) && read_day(r, &zone->end) && r->p == r->end;
}

enum fr_rc fr_zone_read_footer(struct fr_zone *zone, struct fr_str text, struct fr_err *err)
{
    struct reader r = {text.p, text.p + text.n};

    if (read_rule(&r, zone))
        return FR_OK;
    zone->summer = false;
    return fr_fail(err, FR_CORRUPT, "its footer '%.*s' is no TZ rule",
                   (int)(text.n < 80 ? text.n : 80), text.p);
}

static int64_t day_of(const struct fr_zone_day *d, int year)
{
    int64_t first = fr_date_day((struct fr_date){year, 1, 1}), month;
    int ahead, days;

    if (d->kind == FR_ZONE_ORDINAL)
        return first + d->day;
    if (d->kind == FR_ZONE_JULIAN)
        return first + d->day - 1 + (d->day > 59 && fr_month_days(year, 2) == 29);
    month = fr_date_day((struct fr_date){year, d->month, 1});
    ahead = (d->day - fr_day_weekday(month) + 7) % 7 + 7 * (d->week - 1);
    days = fr_month_days(year, d->month);
    return month + (ahead < days ? ahead : ahead - 7);
}

/* The changes of a few years in order; where summer ends and begins at one instant, its begin is
 * the later one. */
static void list_changes(const struct fr_zone *zone, int year, struct fr_zone_change list[])
{
    size_t n = 0;

    for (int y = year - YEARS / 2; y <= year + YEARS / 2; y++) {
        int64_t end = day_of(&zone->end, y) * FR_DAY_S + zone->end.time_s - zone->dst;
        int64_t start = day_of(&zone->start, y) * FR_DAY_S + zone->start.time_s - zone->std;

        list[n++] = (struct fr_zone_change){end, zone->dst, zone->std};
        list[n++] = (struct fr_zone_change){start, zone->std, zone->dst};
    }
    for (size_t i = 1; i < n; i++) {
        struct fr_zone_change c = list[i];
        size_t k = i;

        for (; k > 0 && (list[k - 1].at > c.at || (list[k - 1].at == c.at && c.after == zone->std));
             k--)
            list[k] = list[k - 1];
        list[k] = c;
    }
}

bool fr_zone_rule_change(const struct fr_zone *zone, int64_t t, bool after,
                         struct fr_zone_change *out)
{
    struct fr_zone_change list[2 * YEARS];
    int32_t now;
    bool found = false;

    t = t > TIME_LATE ? TIME_LATE : t < -TIME_LATE ? -TIME_LATE : t;
    list_changes(zone, fr_day_date(fr_div_down(t, FR_DAY_S)).year, list);
    now = list[0].before;
    for (size_t i = 0; i < 2 * YEARS; i++) {
        struct fr_zone_change c = {list[i].at, now, list[i].after};

        if (i == 2 * YEARS - 1 || list[i + 1].at == c.at)
            continue; /* the newest one's neighbour is not known */
        now = c.after;
        if (i == 0)
            continue; /* nor is the oldest one's */
        if (c.before == c.after || c.at <= zone->table_end || (after && c.at <= t))
            continue;
        if (!after && c.at > t)
            break;
        *out = c;
        found = true;
        if (after)
            break;
    }
    return found;
}
