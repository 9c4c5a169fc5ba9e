/* Dates by counting from March, so that the leap day is a year's last. */
#include "engine/schedule/calendar.h"

#include <stdio.h>
#include <stdlib.h>

/* From 0000-03-01 to 1970-01-01. */
enum { EPOCH = 719468, CENTURY = 36524, FOUR_YEARS = 1461, YEAR = 365 };

int64_t fr_div_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Days from 1 March to the first of the month that is m months later. */
static int days_before(int m)
{
    return (153 * m + 2) / 5;
}

int64_t fr_date_day(struct fr_date date)
{
    int64_t y = date.year - (date.month <= 2);
    int m = (date.month + 9) % 12; /* 0: March */

    return y * YEAR + fr_div_down(y, 4) - fr_div_down(y, 100) + fr_div_down(y, 400) +
           days_before(m) + date.day - 1 - EPOCH;
}

struct fr_date fr_day_date(int64_t day)
{
    int64_t cycle = fr_div_down(day + EPOCH, FR_CYCLE_DAYS);
    int left = (int)(day + EPOCH - cycle * FR_CYCLE_DAYS);
    int century = left / CENTURY < 3 ? left / CENTURY : 3; /* the last one is a day longer */
    int four, year, m;

    left -= century * CENTURY;
    four = left / FOUR_YEARS;
    left -= four * FOUR_YEARS;
    year = left / YEAR < 3 ? left / YEAR : 3;
    left -= year * YEAR;
    m = (5 * left + 2) / 153;
    return (struct fr_date){.year =
                                (int)(cycle * 400) + century * 100 + four * 4 + year + (m >= 10),
                            .month = m < 10 ? m + 3 : m - 9,
                            .day = left - days_before(m) + 1};
}

int fr_day_weekday(int64_t day)
{
    return (int)(day + 4 - fr_div_down(day + 4, 7) * 7); /* 1970-01-01 was a Thursday */
}

int fr_month_days(int year, int month)
{
    if (month == 2)
        return 28 + ((year % 4 == 0 && year % 100 != 0) || year % 400 == 0);
    return 30 + (0x15aa >> month & 1);
}

/* Takes n digits from the front of s. */
static bool digits(struct fr_str *s, size_t n, int *out)
{
    if (s->n < n)
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9')
            return false;
        *out = *out * 10 + (s->p[i] - '0');
    }
    *s = (struct fr_str){s->p + n, s->n - n};
    return true;
}

static bool take(struct fr_str *s, char c)
{
    if (s->n == 0 || s->p[0] != c)
        return false;
    *s = (struct fr_str){s->p + 1, s->n - 1};
    return true;
}

static bool read_date(struct fr_str *s, struct fr_date *d)
{
    return digits(s, 4, &d->year) && take(s, '-') && digits(s, 2, &d->month) && take(s, '-') &&
           digits(s, 2, &d->day) && d->year >= FR_YEAR_MIN && d->month >= 1 && d->month <= 12 &&
           d->day >= 1 && d->day <= fr_month_days(d->year, d->month);
}

static bool read_time(struct fr_str *s, int64_t *out)
{
    int h, m, sec = 0;

    if (!digits(s, 2, &h) || !take(s, ':') || !digits(s, 2, &m))
        return false;
    if (take(s, ':') && !digits(s, 2, &sec))
        return false;
    *out = h * 3600 + m * 60 + sec;
    return h < 24 && m < 60 && sec < 60;
}

/* "Z", "+01:00", "-0500"; nothing is fine too. */
static bool read_offset(struct fr_str *s, struct fr_when *when)
{
    int sign = 1, h, m;

    if (s->n == 0)
        return true;
    when->instant = true;
    if (take(s, 'Z') || take(s, 'z'))
        return s->n == 0;
    if (take(s, '-'))
        sign = -1;
    else if (!take(s, '+'))
        return false;
    if (!digits(s, 2, &h))
        return false;
    (void)take(s, ':');
    if (!digits(s, 2, &m) || s->n > 0 || h > 23 || m > 59)
        return false;
    when->s -= sign * (h * 3600 + m * 60);
    return true;
}

enum fr_rc fr_when_parse(struct fr_str text, struct fr_when *out, struct fr_err *err)
{
    struct fr_str s = text;
    struct fr_date date;
    int64_t time = 0;
    bool ok = read_date(&s, &date);

    *out = (struct fr_when){0};
    if (ok && s.n > 0)
        ok = (take(&s, 'T') || take(&s, 't') || take(&s, ' ')) && read_time(&s, &time);
    if (ok) {
        out->s = fr_date_day(date) * FR_DAY_S + time;
        ok = read_offset(&s, out);
    }
    if (ok)
        return FR_OK;
    *out = (struct fr_when){0};
    return fr_fail(err, FR_USAGE,
                   "'%.*s' is not a time such as 2026-12-24T02:00, 2026-12-24 or "
                   "2026-12-24T01:00Z",
                   (int)(text.n < 64 ? text.n : 64), text.p);
}

static int wall_text(int64_t wall, bool seconds, char sep, char out[FR_TIME_TEXT])
{
    int64_t day = fr_div_down(wall, FR_DAY_S);
    int left = (int)(wall - day * FR_DAY_S);
    struct fr_date d = fr_day_date(day);
    int n = snprintf(out, FR_TIME_TEXT, "%04d-%02d-%02d%c%02d:%02d", d.year, d.month, d.day, sep,
                     left / 3600, left / 60 % 60);

    if (seconds && n > 0 && n < FR_TIME_TEXT)
        n += snprintf(out + n, FR_TIME_TEXT - (size_t)n, ":%02d", left % 60);
    return n;
}

void fr_wall_text(int64_t wall_s, char out[FR_TIME_TEXT])
{
    (void)wall_text(wall_s, wall_s % 60 != 0, ' ', out);
}

void fr_time_text(int64_t s, int32_t offset_s, char out[FR_TIME_TEXT])
{
    int n = wall_text(s + offset_s, true, 'T', out), shown = abs(offset_s);

    if (n < 0 || n >= FR_TIME_TEXT)
        return;
    if (offset_s == 0)
        (void)snprintf(out + n, FR_TIME_TEXT - (size_t)n, "Z");
    else
        (void)snprintf(out + n, FR_TIME_TEXT - (size_t)n, "%c%02d:%02d", offset_s < 0 ? '-' : '+',
                       shown / 3600, shown / 60 % 60);
}
