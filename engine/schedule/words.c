/* Rules and expressions in words. */
#include "engine/schedule/rule.h"

enum {
    TIMES_MAX = 6, /* times that are listed one by one */
    ALL_MONTHS = 0x1ffe
};

static const char *const month_names[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};
static const char *const day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
static const char *const ordinals[] = {"last", "first", "second", "third", "fourth", "fifth"};

/* A list as it grows: "a", "a and b", "a, b and c" need to know how many there will be. */
struct list {
    struct fr_buf *out;
    int n, done;
};

static void next_item(struct list *l)
{
    if (l->done > 0)
        fr_buf_text(l->out, l->done + 1 == l->n ? " and " : ", ");
    l->done++;
}

typedef void show_value(struct fr_buf *out, int v);

static void show_number(struct fr_buf *out, int v)
{
    fr_buf_fmt(out, "%d", v);
}

static void show_month(struct fr_buf *out, int v)
{
    fr_buf_text(out, month_names[v - 1]);
}

static void show_weekday(struct fr_buf *out, int v)
{
    fr_buf_text(out, day_names[v]);
}

static void show_ordinal(struct fr_buf *out, int v)
{
    const char *end = v % 10 == 1 && v != 11   ? "st"
                      : v % 10 == 2 && v != 12 ? "nd"
                      : v % 10 == 3 && v != 13 ? "rd"
                                               : "th";

    fr_buf_fmt(out, "%d%s", v, end);
}

/* The end of the run of values that begins at v. */
static int run_end(uint64_t set, int v)
{
    while (v < 63 && (set >> (v + 1) & 1) != 0)
        v++;
    return v;
}

/* Runs of three values and more as "a to b". */
static void show_set(struct fr_buf *out, uint64_t set, show_value *show)
{
    struct list l = {.out = out};

    for (int pass = 0; pass < 2; pass++)
        for (int v = 0; v < 64; v++) {
            int to;

            if ((set >> v & 1) == 0)
                continue;
            to = run_end(set, v);
            to = to - v >= 2 ? to : v;
            if (pass == 0) {
                l.n++;
            } else {
                next_item(&l);
                show(out, v);
                if (to > v) {
                    fr_buf_text(out, " to ");
                    show(out, to);
                }
            }
            v = to;
        }
}

/* The distance between values that fill the field from its first value on; 0: they do not. */
static int even_step(uint64_t set, int size)
{
    for (int step = 2; step <= size / 2; step++) {
        uint64_t want = 0;

        for (int v = 0; v < size; v += step)
            want |= (uint64_t)1 << v;
        if (size % step == 0 && set == want)
            return step;
    }
    return 0;
}

static void show_minutes(struct fr_buf *out, uint64_t minutes)
{
    fr_buf_text(out, __builtin_popcountll(minutes) == 1 ? "at minute " : "at minutes ");
    show_set(out, minutes, show_number);
}

/* "every 15 minutes", "at minute 30 of every hour": the minute field within an hour. */
static void show_in_hour(struct fr_buf *out, uint64_t minutes)
{
    int step = even_step(minutes, 60);

    if (minutes == ((uint64_t)1 << 60) - 1) {
        fr_buf_text(out, "every minute");
    } else if (step > 0) {
        fr_buf_fmt(out, "every %d minutes", step);
    } else {
        show_minutes(out, minutes);
        fr_buf_text(out, " of every hour");
    }
}

static void show_times(struct fr_buf *out, uint64_t hours, uint64_t minutes)
{
    struct list l = {.out = out, .n = __builtin_popcountll(hours) * __builtin_popcountll(minutes)};

    fr_buf_text(out, "at ");
    for (int h = 0; h < 24; h++)
        for (int m = 0; m < 60; m++)
            if ((hours >> h & 1) != 0 && (minutes >> m & 1) != 0) {
                next_item(&l);
                fr_buf_fmt(out, "%02d:%02d", h, m);
            }
}

static void show_time(struct fr_buf *out, const struct fr_cron *c)
{
    uint64_t hours = c->field[FR_CRON_HOUR], minutes = c->field[FR_CRON_MINUTE];
    int step = even_step(hours, 24), n = __builtin_popcountll(minutes);

    if (fr_cron_every_hour(c)) {
        show_in_hour(out, minutes);
    } else if (__builtin_popcountll(hours) * n <= TIMES_MAX) {
        show_times(out, hours, minutes);
    } else if (step > 0 && n == 1) {
        fr_buf_fmt(out, "every %d hours at minute %d", step, __builtin_ctzll(minutes));
    } else {
        if (minutes == ((uint64_t)1 << 60) - 1)
            fr_buf_text(out, "every minute");
        else
            show_minutes(out, minutes);
        fr_buf_text(out, __builtin_popcountll(hours) == 1 ? " of hour " : " of hours ");
        show_set(out, hours, show_number);
    }
}

static int count_days(const struct fr_cron *c)
{
    return (c->field[FR_CRON_DAY] != 0) + __builtin_popcount(c->from_last) +
           __builtin_popcount(c->near) + c->near_last;
}

/* "day 1 and 15 of the month, the last day of the month" */
static void show_days(struct fr_buf *out, const struct fr_cron *c)
{
    struct list l = {.out = out, .n = count_days(c)};

    if (c->field[FR_CRON_DAY] != 0) {
        next_item(&l);
        fr_buf_text(out, "the ");
        show_set(out, c->field[FR_CRON_DAY], show_ordinal);
    }
    for (int n = 0; n < 32; n++)
        if ((c->from_last >> n & 1) != 0) {
            next_item(&l);
            if (n == 0)
                fr_buf_text(out, "the last day");
            else
                fr_buf_fmt(out, "%d day%s before the last", n, fr_plural((uint64_t)n));
        }
    for (int n = 1; n < 32; n++)
        if ((c->near >> n & 1) != 0) {
            next_item(&l);
            fr_buf_text(out, "the weekday nearest the ");
            show_ordinal(out, n);
        }
    if (c->near_last) {
        next_item(&l);
        fr_buf_text(out, "the weekday nearest the last day");
    }
}

static int count_weekdays(const struct fr_cron *c)
{
    int n = (c->field[FR_CRON_WEEKDAY] != 0) + __builtin_popcount(c->last_weekday);

    for (int d = 0; d < 7; d++)
        n += __builtin_popcount(c->nth_weekday[d]);
    return n;
}

/* Monday before Sunday: the Sunday of "fri-sun" comes after Saturday. */
static uint64_t from_monday(uint64_t days)
{
    return (days & 0x7e) | (days & 1) << 7;
}

static void show_day_of_week(struct fr_buf *out, int v)
{
    show_weekday(out, v % 7);
}

static void show_weekdays(struct fr_buf *out, const struct fr_cron *c)
{
    struct list l = {.out = out, .n = count_weekdays(c)};

    if (c->field[FR_CRON_WEEKDAY] != 0) {
        next_item(&l);
        show_set(out, from_monday(c->field[FR_CRON_WEEKDAY]), show_day_of_week);
    }
    for (int d = 0; d < 7; d++)
        for (int n = 0; n <= 5; n++)
            if (n == 0 ? c->last_weekday >> d & 1 : c->nth_weekday[d] >> n & 1) {
                next_item(&l);
                fr_buf_fmt(out, "the %s %s", ordinals[n], day_names[d]);
            }
}

/* " of every month", " of January and July" */
static void show_months(struct fr_buf *out, const struct fr_cron *c)
{
    fr_buf_text(out, " of ");
    if (c->field[FR_CRON_MONTH] == ALL_MONTHS)
        fr_buf_text(out, "every month");
    else
        show_set(out, c->field[FR_CRON_MONTH], show_month);
}

static bool plain_weekdays(const struct fr_cron *c)
{
    uint8_t special = c->last_weekday;

    for (int d = 0; d < 7; d++)
        special |= c->nth_weekday[d];
    return special == 0;
}

/* "every day", "every Monday to Friday", with the months where these are restricted. */
static void show_every_day(struct fr_buf *out, const struct fr_cron *c)
{
    fr_buf_text(out, "every ");
    if (c->weekday_restricted)
        show_weekdays(out, c);
    else
        fr_buf_text(out, "day");
    if (c->field[FR_CRON_MONTH] != ALL_MONTHS) {
        fr_buf_text(out, " in ");
        show_set(out, c->field[FR_CRON_MONTH], show_month);
    }
}

/* "on the 1st and 15th of every month, and on every Monday" */
static void show_dates(struct fr_buf *out, const struct fr_cron *c)
{
    bool both = c->day_restricted && c->weekday_restricted;

    fr_buf_text(out, "on ");
    if (c->day_restricted)
        show_days(out, c);
    else
        show_weekdays(out, c);
    show_months(out, c);
    if (both) {
        fr_buf_text(out, c->days == FR_DAYS_ALL ? " if it is "
                         : plain_weekdays(c)    ? " and on every "
                                                : " and on ");
        show_weekdays(out, c);
    }
}

void fr_cron_words(const struct fr_cron *c, struct fr_buf *out)
{
    bool hours = fr_cron_every_hour(c), dates = c->day_restricted || !plain_weekdays(c);

    if (dates)
        show_dates(out, c);
    else if (!hours || c->weekday_restricted || c->field[FR_CRON_MONTH] != ALL_MONTHS)
        show_every_day(out, c);
    else {
        show_time(out, c);
        return;
    }
    fr_buf_text(out, hours ? ", " : " ");
    show_time(out, c);
}

void fr_cron_notes(const struct fr_cron *c, struct fr_buf *out)
{
    static const struct {
        const char *name;
        int values;
    } fields[FR_CRON_FIELDS] = {
        {"minute", 60}, {"hour", 24}, {"day-of-month", 31}, {"month", 12}, {"day-of-week", 7}};

    for (int f = 0; f < FR_CRON_FIELDS; f++)
        if (c->step[f] != 0)
            fr_buf_fmt(out,
                       "%s%s */%d begins anew after the last of %d values, so its distances are "
                       "not even; every: has even ones",
                       out->n > 0 ? "; " : "", fields[f].name, c->step[f], fields[f].values);
}

/* "2 h", "1 d 12 h" */
static void show_period(struct fr_buf *out, int64_t ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
    bool any = false;

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (ms / units[i].ms > 0) {
            fr_buf_fmt(out, "%s%lld %s", any ? " " : "", (long long)(ms / units[i].ms),
                       units[i].name);
            ms %= units[i].ms;
            any = true;
        }
}

static void show_wall(struct fr_buf *out, const struct fr_zone *zone, int64_t ms)
{
    int64_t s = fr_div_down(ms, 1000);
    char text[FR_TIME_TEXT];

    fr_wall_text(s + fr_zone_offset(zone, s), text);
    fr_buf_text(out, text);
}

static void show_list(struct fr_buf *out, const struct fr_rule *rule)
{
    struct list l = {.out = out, .n = (int)rule->n_at};

    fr_buf_text(out, "at ");
    if (l.n > TIMES_MAX)
        l.n = TIMES_MAX;
    for (int i = 0; i < l.n; i++) {
        next_item(&l);
        if (i + 1 == TIMES_MAX && rule->n_at > TIMES_MAX)
            fr_buf_fmt(out, "%zu further times", rule->n_at - TIMES_MAX + 1);
        else
            show_wall(out, rule->zone, rule->at[i]);
    }
}

void fr_rule_words(const struct fr_rule *rule, struct fr_buf *out)
{
    if (rule->kind == FR_RULE_CRON) {
        fr_cron_words(&rule->cron, out);
    } else if (rule->kind == FR_RULE_EVERY) {
        fr_buf_text(out, "every ");
        show_period(out, rule->every_ms);
    } else {
        show_list(out, rule);
    }
    if (rule->kind != FR_RULE_AT && rule->start_ms != FR_NO_START) {
        fr_buf_text(out, " from ");
        show_wall(out, rule->zone, rule->start_ms);
    }
    if (rule->kind != FR_RULE_AT && rule->end_ms != FR_NO_END) {
        fr_buf_text(out, " until ");
        show_wall(out, rule->zone, rule->end_ms);
    }
    fr_buf_fmt(out, " in %s", rule->zone->name[0] != '\0' ? rule->zone->name : "UTC");
}
