/* Which days and times of day an expression matches. */
#include "engine/schedule/cron.h"

enum { SATURDAY = 6, DAY_MINUTES = 24 * 60, LAST_MONTH = 12 };

struct month {
    int year, month;
    int64_t first; /* day number of its first */
    int days;
};

static struct month month_of(int64_t day)
{
    struct fr_date d = fr_day_date(day);

    return (struct month){d.year, d.month, day - d.day + 1, fr_month_days(d.year, d.month)};
}

static struct month month_at(int year, int month)
{
    return (struct month){year, month, fr_date_day((struct fr_date){year, month, 1}),
                          fr_month_days(year, month)};
}

static struct month month_step(const struct month *m, int by)
{
    if (by > 0)
        return m->month == LAST_MONTH ? month_at(m->year + 1, 1) : month_at(m->year, m->month + 1);
    return m->month == 1 ? month_at(m->year - 1, LAST_MONTH) : month_at(m->year, m->month - 1);
}

static int weekday(const struct month *m, int day)
{
    return fr_day_weekday(m->first + day - 1);
}

/* The day from Monday to Friday that is nearest to `day`, in the same month. */
static int nearest(const struct month *m, int day)
{
    if (weekday(m, day) == SATURDAY)
        return day > 1 ? day - 1 : day + 2;
    if (weekday(m, day) == 0)
        return day < m->days ? day + 1 : day - 2;
    return day;
}

/* Bits 1..31 of the days that the third field names. */
static uint32_t by_day(const struct fr_cron *c, const struct month *m)
{
    uint32_t mask = (uint32_t)c->field[FR_CRON_DAY];

    for (int n = 0; n < m->days; n++)
        if (c->from_last >> n & 1)
            mask |= 1u << (m->days - n);
    for (int n = 1; n <= m->days; n++)
        if (c->near >> n & 1)
            mask |= 1u << nearest(m, n);
    if (c->near_last)
        mask |= 1u << nearest(m, m->days);
    return mask;
}

/* The same of the fifth. */
static uint32_t by_weekday(const struct fr_cron *c, const struct month *m)
{
    uint32_t mask = 0;

    for (int day = 1; day <= m->days; day++) {
        int w = weekday(m, day);
        bool last = day + 7 > m->days, yes = c->field[FR_CRON_WEEKDAY] >> w & 1;

        yes |= last && (c->last_weekday >> w & 1);
        yes |= c->nth_weekday[w] >> ((day + 6) / 7) & 1;
        if (yes)
            mask |= 1u << day;
    }
    return mask;
}

static uint32_t days_of(const struct fr_cron *c, const struct month *m)
{
    uint32_t all = (uint32_t)(((uint64_t)1 << (m->days + 1)) - 2), days;

    if ((c->field[FR_CRON_MONTH] >> m->month & 1) == 0)
        return 0;
    if (!c->weekday_restricted)
        days = c->day_restricted ? by_day(c, m) : all;
    else if (!c->day_restricted)
        days = by_weekday(c, m);
    else if (c->days == FR_DAYS_ALL)
        days = by_day(c, m) & by_weekday(c, m);
    else
        days = by_day(c, m) | by_weekday(c, m);
    return days & all;
}

bool fr_cron_ever(const struct fr_cron *c)
{
    struct month m = month_at(2000, 1);

    for (; m.year < 2400; m = month_step(&m, 1))
        if (days_of(c, &m) != 0)
            return true;
    return false;
}

bool fr_cron_every_hour(const struct fr_cron *c)
{
    return c->field[FR_CRON_HOUR] == ((uint64_t)1 << 24) - 1;
}

static bool matches_time(const struct fr_cron *c, int minute_of_day)
{
    return (c->field[FR_CRON_HOUR] >> minute_of_day / 60 & 1) != 0 &&
           (c->field[FR_CRON_MINUTE] >> minute_of_day % 60 & 1) != 0;
}

bool fr_cron_matches(const struct fr_cron *c, int64_t wall_s)
{
    int64_t day = fr_div_down(wall_s, FR_DAY_S);
    int left = (int)(wall_s - day * FR_DAY_S);
    struct month m = month_of(day);

    return left % 60 == 0 && matches_time(c, left / 60) &&
           (days_of(c, &m) >> (day - m.first + 1) & 1) != 0;
}

/* The first matching minute of a day from `minute` on, the last one before it; -1: none. */
static int first_time(const struct fr_cron *c, int minute)
{
    for (int h = minute / 60; h < 24; h++) {
        uint64_t left = c->field[FR_CRON_MINUTE] >> (h == minute / 60 ? minute % 60 : 0);

        if ((c->field[FR_CRON_HOUR] >> h & 1) != 0 && left != 0)
            return h * 60 + (h == minute / 60 ? minute % 60 : 0) + __builtin_ctzll(left);
    }
    return -1;
}

static int last_time(const struct fr_cron *c, int before)
{
    for (int h = (before - 1) / 60; before > 0 && h >= 0; h--) {
        int minutes = h == (before - 1) / 60 ? (before - 1) % 60 + 1 : 60;
        uint64_t left = c->field[FR_CRON_MINUTE] & (((uint64_t)1 << minutes) - 1);

        if ((c->field[FR_CRON_HOUR] >> h & 1) != 0 && left != 0)
            return h * 60 + 63 - __builtin_clzll(left);
    }
    return -1;
}

/* Whole minutes: the first one at or after s. */
static int64_t minute_up(int64_t s)
{
    return -fr_div_down(-s, 60);
}

/* The days [from, to) of the month m that match, as day numbers' bits within it. */
static uint32_t days_between(const struct fr_cron *c, const struct month *m, int64_t from,
                             int64_t to)
{
    uint32_t days = days_of(c, m);

    for (int d = 1; d <= m->days; d++)
        if (m->first + d - 1 < from || m->first + d - 1 >= to)
            days &= ~(1u << d);
    return days;
}

bool fr_cron_first(const struct fr_cron *c, int64_t from, int64_t to, int64_t *wall)
{
    int64_t minute = minute_up(from), end = fr_div_down(to - 1, FR_DAY_S) + 1;
    int64_t day = fr_div_down(minute, DAY_MINUTES);

    if (from >= to)
        return false;
    for (struct month m = month_of(day); m.first < end; m = month_step(&m, 1)) {
        for (uint32_t days = days_between(c, &m, day, end); days != 0; days &= days - 1) {
            int64_t d = m.first + __builtin_ctz(days) - 1;
            int t = first_time(c, d == day ? (int)(minute - day * DAY_MINUTES) : 0);

            if (t < 0)
                continue;
            *wall = d * FR_DAY_S + t * 60;
            return *wall < to;
        }
    }
    return false;
}

bool fr_cron_last(const struct fr_cron *c, int64_t from, int64_t to, int64_t *wall)
{
    int64_t minute = minute_up(to); /* before it */
    int64_t day = fr_div_down(minute - 1, DAY_MINUTES), first = fr_div_down(from, FR_DAY_S);
    int64_t last_of = day + 1;

    if (from >= to)
        return false;
    for (struct month m = month_of(day); m.first + m.days > first; m = month_step(&m, -1)) {
        uint32_t days = days_between(c, &m, first, last_of);

        while (days != 0) {
            int bit = 31 - __builtin_clz(days);
            int64_t d = m.first + bit - 1;
            int t = last_time(c, d == day ? (int)(minute - day * DAY_MINUTES) : DAY_MINUTES);

            days &= ~(1u << bit);
            if (t < 0)
                continue;
            *wall = d * FR_DAY_S + t * 60;
            return *wall >= from;
        }
    }
    return false;
}

/* How many times of a day match before `minute`. */
static int64_t times_before(const struct fr_cron *c, int minute)
{
    uint64_t hours = c->field[FR_CRON_HOUR], minutes = c->field[FR_CRON_MINUTE];
    int h = minute / 60;
    int64_t n = __builtin_popcountll(hours & (((uint64_t)1 << h) - 1)) *
                (int64_t)__builtin_popcountll(minutes);

    if (hours >> h & 1)
        n += __builtin_popcountll(minutes & (((uint64_t)1 << minute % 60) - 1));
    return n;
}

/* Matches from the beginning of the day to s, where that day matches. */
static int64_t part_of_day(const struct fr_cron *c, int64_t minute)
{
    int64_t day = fr_div_down(minute, DAY_MINUTES);
    struct month m = month_of(day);

    if ((days_of(c, &m) >> (day - m.first + 1) & 1) == 0)
        return 0;
    return times_before(c, (int)(minute - day * DAY_MINUTES));
}

int64_t fr_cron_count(const struct fr_cron *c, int64_t from, int64_t to)
{
    int64_t first = minute_up(from), last = minute_up(to), days = 0;
    int64_t day = fr_div_down(first, DAY_MINUTES), end = fr_div_down(last, DAY_MINUTES);

    if (from >= to)
        return 0;
    for (struct month m = month_of(day); m.first < end; m = month_step(&m, 1))
        days += __builtin_popcount(days_between(c, &m, day, end));
    return days * times_before(c, DAY_MINUTES) + part_of_day(c, last) - part_of_day(c, first);
}
