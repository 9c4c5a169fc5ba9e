/*
 * When schedules fire: a table of cases around changes of offset, by zones made from their rules
 * and by the machine's database; then next, prev and count beside the definition, minute by minute.
 */
#include "tests/unit/check.h"
#include "tests/unit/schedule/schedule_bed.h"

#include "engine/base/sys.h"

#include <stdio.h>
#include <time.h>

enum { FIRES_MAX = 8, YEAR_DAYS = 365, CASES = 2000 };

struct fire_case {
    const char *zone, *cron, *from, *to, *fires; /* UTC, [from, to); fires split by blanks */
};

static const struct fire_case cases[] = {
    {"America/New_York", "30 2 * * *", "2026-03-07T12:00", "2026-03-09T12:00",
     "2026-03-08T07:30 2026-03-09T06:30"},
    {"America/New_York", "0 3 * * *", "2026-03-07T12:00", "2026-03-09T12:00",
     "2026-03-08T07:00 2026-03-09T07:00"},
    {"America/New_York", "0 2,3 * * *", "2026-03-08", "2026-03-08T12:00", "2026-03-08T07:00"},
    {"America/New_York", "*/15 2 * * *", "2026-03-08", "2026-03-09T05:00",
     "2026-03-08T07:00 2026-03-08T07:15 2026-03-08T07:30 2026-03-08T07:45"},
    {"America/New_York", "*/30 * * * *", "2026-03-08T06:00", "2026-03-08T08:31",
     "2026-03-08T06:00 2026-03-08T06:30 2026-03-08T07:00 2026-03-08T07:30 2026-03-08T08:00 "
     "2026-03-08T08:30"},
    {"America/New_York", "30 1 * * *", "2026-10-31T12:00", "2026-11-02T12:00",
     "2026-11-01T05:30 2026-11-02T06:30"},
    {"America/New_York", "30 * * * *", "2026-11-01T04:00", "2026-11-01T08:00",
     "2026-11-01T04:30 2026-11-01T05:30 2026-11-01T06:30 2026-11-01T07:30"},
    {"America/New_York", "0 */2 * * *", "2026-11-01T03:00", "2026-11-01T12:00",
     "2026-11-01T04:00 2026-11-01T07:00 2026-11-01T09:00 2026-11-01T11:00"},
    {"America/New_York", "0 */2 * * *", "2026-03-08T04:00", "2026-03-08T11:00",
     "2026-03-08T05:00 2026-03-08T07:00 2026-03-08T08:00 2026-03-08T10:00"},
    {"Europe/Berlin", "30 2 * * *", "2026-03-28T12:00", "2026-03-30T12:00",
     "2026-03-29T01:30 2026-03-30T00:30"},
    {"Europe/Berlin", "0 2 * * 0", "2026-03-22T12:00", "2026-04-06T12:00",
     "2026-03-29T01:00 2026-04-05T00:00"},
    {"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", "2026-10-26T12:00",
     "2026-10-25T00:30 2026-10-26T01:30"},
    {"Europe/Berlin", "0 0-4 * * *", "2026-10-24T20:00", "2026-10-25T06:00",
     "2026-10-24T22:00 2026-10-24T23:00 2026-10-25T00:00 2026-10-25T02:00 2026-10-25T03:00"},
    {"Europe/Dublin", "30 1 * * *", "2026-10-24T12:00", "2026-10-26T12:00",
     "2026-10-25T00:30 2026-10-26T01:30"},
    {"Australia/Lord_Howe", "15 2 * * *", "2026-10-03", "2026-10-05",
     "2026-10-03T15:45 2026-10-04T15:15"},
    {"Australia/Lord_Howe", "45 1 * * *", "2026-04-04", "2026-04-06",
     "2026-04-04T14:45 2026-04-05T15:15"},
    {"Australia/Lord_Howe", "0 * * * *", "2026-10-03T13:00", "2026-10-03T18:00",
     "2026-10-03T13:30 2026-10-03T14:30 2026-10-03T15:30 2026-10-03T16:00 2026-10-03T17:00"},
    {"Africa/Cairo", "0 0 * * *", "2026-04-22T12:00", "2026-04-25T12:00",
     "2026-04-22T22:00 2026-04-23T22:00 2026-04-24T21:00"},
    {"Africa/Cairo", "30 23 * * *", "2026-10-28T12:00", "2026-10-31T12:00",
     "2026-10-28T20:30 2026-10-29T20:30 2026-10-30T21:30"},
    {"Pacific/Apia", "0 12 * * *", "2011-12-29", "2012-01-01T12:00",
     "2011-12-29T22:00 2011-12-30T22:00 2011-12-31T22:00"},
    {"Antarctica/Troll", "30 1 * * *", "2026-03-28T12:00", "2026-03-30T12:00",
     "2026-03-29T01:30 2026-03-29T23:30"},
    {"Asia/Kathmandu", "0 0 * * *", "2026-01-01", "2026-01-03",
     "2026-01-01T18:15 2026-01-02T18:15"},
    {"America/Sao_Paulo", "@daily", "2018-11-03", "2018-11-06",
     "2018-11-03T03:00 2018-11-04T03:00 2018-11-05T02:00"},
    {"Africa/Casablanca", "30 2 * * *", "2026-02-14", "2026-02-17",
     "2026-02-14T01:30 2026-02-15T01:30 2026-02-16T02:30"},
    {"Asia/Almaty", "30 23 * * *", "2024-02-28", "2024-03-02T20:00",
     "2024-02-28T17:30 2024-02-29T17:30 2024-03-01T18:30 2024-03-02T18:30"},
    {"Europe/London", "0 0 L * *", "2026-03-30", "2026-05-08", "2026-03-30T23:00 2026-04-29T23:00"},
    {"America/Chicago", "0 18 * * 5L", "2026-10-25", "2026-12-03",
     "2026-10-30T23:00 2026-11-28T00:00"},
    {"Asia/Tokyo", "0 9 * * mon-fri", "2026-01-09", "2026-01-14",
     "2026-01-09T00:00 2026-01-12T00:00 2026-01-13T00:00"},
    {"Asia/Kolkata", "0 12 * * fri-sun", "2026-01-01", "2026-01-05",
     "2026-01-02T06:30 2026-01-03T06:30 2026-01-04T06:30"},
    {"UTC", "0 0 29 2 *", "2096-01-01", "2104-03-01", "2096-02-29T00:00 2104-02-29T00:00"},
};

/* All fires of [from, to) as the table writes them, by next or, from the back, by prev. */
static void list_fires(const struct fr_rule *rule, const struct fire_case *c, bool back,
                       struct fr_buf *out)
{
    int64_t from = bed_time(c->from) * 1000, to = bed_time(c->to) * 1000, list[64];
    int64_t at = back ? to : from - 1;
    size_t n = 0;

    while (n < 64 && (back ? fr_rule_prev(rule, at, &at) && at >= from
                           : fr_rule_next(rule, at, &at) && at < to))
        list[n++] = at;
    for (size_t i = 0; i < n; i++) {
        char text[FR_TIME_TEXT];

        fr_time_text(list[back ? n - 1 - i : i] / 1000, 0, text);
        fr_buf_fmt(out, "%s%.16s", i > 0 ? " " : "", text);
    }
    CHECK_INT(fr_rule_count(rule, from - 1, to - 1), n);
}

static void check_case(const struct fire_case *c, const struct fr_zone *zone)
{
    struct fr_rule rule = bed_rule(c->cron, zone);

    for (int back = 0; back < 2; back++) {
        struct fr_buf got = {0};

        list_fires(&rule, c, back != 0, &got);
        CHECK_TEXT(got.p, c->fires);
        fr_buf_finish(&got);
    }
}

/* Whether libc finds the same offsets in the machine's database, which may be older than a rule. */
static bool is_known(const struct fire_case *c, const struct fr_zone *made)
{
    bool same = true;

    setenv("TZ", c->zone, 1);
    tzset();
    for (time_t t = bed_time(c->from); same && t < bed_time(c->to); t += 1800) {
        struct tm tm;

        same = localtime_r(&t, &tm) != NULL && tm.tm_gmtoff == fr_zone_offset(made, t);
    }
    unsetenv("TZ");
    return same;
}

static void table_of_cases(void)
{
    int by_machine = 0, older = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fr_zone made = bed_zone(cases[i].zone), read;

        check_row(cases[i].cron);
        check_case(&cases[i], &made);
        if (fr_zone_load(&read, NULL, cases[i].zone, NULL) == FR_OK) {
            if (is_known(&cases[i], &made)) {
                by_machine++;
                check_case(&cases[i], &read);
            } else {
                older++;
            }
            fr_zone_finish(&read);
        }
        fr_zone_finish(&made);
    }
    printf("%zu cases, %d also by the machine's database, which is older than %d\n",
           sizeof(cases) / sizeof(cases[0]), by_machine, older);
}

static const char *const year_zones[] = {"America/New_York",
                                         "Europe/Berlin",
                                         "Australia/Lord_Howe",
                                         "Africa/Cairo",
                                         "Antarctica/Troll",
                                         "Africa/Casablanca",
                                         "UTC"};

/* A job a day runs every day of the year, and one an hour every hour. */
static void counts_of_a_year(void)
{
    static const struct {
        const char *cron;
        int fires;
    } rows[] = {{"30 2 * * *", YEAR_DAYS},
                {"0 0 * * *", YEAR_DAYS},
                {"30 1 * * *", YEAR_DAYS},
                {"@hourly", YEAR_DAYS * 24}};

    for (size_t z = 0; z < sizeof(year_zones) / sizeof(year_zones[0]); z++) {
        struct fr_zone zone = bed_zone(year_zones[z]);
        int64_t from = fr_zone_instant(&zone, (struct fr_when){bed_time("2026-01-01"), false});
        int64_t to = fr_zone_instant(&zone, (struct fr_when){bed_time("2027-01-01"), false});

        check_row(year_zones[z]);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            struct fr_rule rule = bed_rule(rows[i].cron, &zone);
            int64_t at = from * 1000 - 1, n = 0;

            while (fr_rule_next(&rule, at, &at) && at < to * 1000)
                n++;
            CHECK_INT(n, rows[i].fires);
            CHECK_INT(fr_rule_count(&rule, from * 1000 - 1, to * 1000 - 1), rows[i].fires);
        }
        fr_zone_finish(&zone);
    }
}

/* A field at random: a star, a value, a list, a range, a step. */
static void draw_field(struct fr_buf *b, uint64_t *rng, int min, int max)
{
    int a = min + (int)bed_draw(rng, (uint64_t)(max - min + 1));
    int c = a + (int)bed_draw(rng, (uint64_t)(max - a + 1));

    switch (bed_draw(rng, 6)) {
    case 0:
        fr_buf_fmt(b, "%d", a);
        break;
    case 1:
        fr_buf_fmt(b, "%d-%d", a, c);
        break;
    case 2:
        fr_buf_fmt(b, "%d,%d", a, c);
        break;
    case 3:
        fr_buf_fmt(b, "%d/%d", a, 1 + (int)bed_draw(rng, 20));
        break;
    default:
        fr_buf_text(b, "*");
    }
}

static void draw_cron(struct fr_buf *b, uint64_t *rng)
{
    static const char *const days[] = {"L", "L-3", "15W", "LW", "1W"};
    static const char *const weekdays[] = {"5L", "1#1", "mon-fri", "fri-sun", "0#5"};

    draw_field(b, rng, 0, 59);
    fr_buf_text(b, " ");
    draw_field(b, rng, 0, bed_draw(rng, 2) == 0 ? 4 : 23); /* changes are at night */
    fr_buf_text(b, " ");
    if (bed_draw(rng, 6) == 0)
        fr_buf_text(b, days[bed_draw(rng, 5)]);
    else if (bed_draw(rng, 3) == 0)
        draw_field(b, rng, 1, 28);
    else
        fr_buf_text(b, "*");
    fr_buf_text(b, " * ");
    if (bed_draw(rng, 6) == 0)
        fr_buf_text(b, weekdays[bed_draw(rng, 5)]);
    else if (bed_draw(rng, 4) == 0)
        draw_field(b, rng, 0, 6);
    else
        fr_buf_text(b, "*");
}

/* next, prev and count of one rule from an instant on, beside a walk over minutes. */
static int compare(const struct fr_rule *rule, int64_t from)
{
    enum { WINDOW_MIN = 60 * 60 };
    int64_t first = 0, last = 0, n = 0, got;
    int wrong = 0;

    for (int64_t t = from; t < from + WINDOW_MIN * 60; t += 60)
        if (fr_rule_fires(&rule->cron, rule->zone, t)) {
            first = n == 0 ? t : first;
            last = t;
            n++;
        }
    wrong += fr_rule_count(rule, from * 1000 - 1, (from + WINDOW_MIN * 60) * 1000 - 1) != n;
    if (!fr_rule_next(rule, from * 1000 - 1, &got))
        return wrong + (n > 0);
    wrong += n > 0 ? got != first * 1000 : got < (from + WINDOW_MIN * 60) * 1000;
    wrong += got < from * 1000; /* next is after */
    if (!fr_rule_prev(rule, (from + WINDOW_MIN * 60) * 1000, &got))
        return wrong + (n > 0);
    return wrong + (n > 0 ? got != last * 1000 : got >= from * 1000);
}

/* The change of offset nearest behind a random instant of some years, less up to two days. */
static int64_t draw_instant(const struct fr_zone *zone, uint64_t *rng)
{
    int64_t t = bed_time("2011-01-01") + (int64_t)bed_draw(rng, 20 * 366) * FR_DAY_S;
    struct fr_zone_change c;

    if (fr_zone_after(zone, t, &c) && bed_draw(rng, 4) > 0)
        t = c.at - c.at % 60;
    return t - (int64_t)bed_draw(rng, 2 * 24 * 60) * 60;
}

static void random_cases(void)
{
    uint64_t rng = 20260308;

    for (int i = 0; i < CASES; i++) {
        struct fr_zone zone = bed_zone(bed_zones[bed_draw(&rng, BED_ZONES)].name);
        struct fr_buf b = {0};
        struct fr_cron cron;
        size_t at;

        draw_cron(&b, &rng);
        check_row(b.p);
        if (CHECK_INT(fr_cron_parse((struct fr_str){b.p, b.n}, FR_DAYS_ANY, &cron, &at, NULL),
                      FR_OK)) {
            struct fr_rule rule = {
                .zone = &zone, .cron = cron, .start_ms = FR_NO_START, .end_ms = FR_NO_END};

            if (!CHECK_INT(compare(&rule, draw_instant(&zone, &rng)), 0))
                printf("zone %s\n", zone.name);
        }
        fr_buf_finish(&b);
        fr_zone_finish(&zone);
    }
}

/* The same fires by mapping wall times to instants, as the standard words it. */
static int fires_by_walls(const struct fr_rule *rule, int64_t from, int64_t to)
{
    int wrong = 0;

    for (int64_t wall = from - 2 * FR_DAY_S; wall < to + 2 * FR_DAY_S; wall += 60) {
        int64_t t = fr_zone_instant(rule->zone, (struct fr_when){wall, false});

        if (fr_cron_matches(&rule->cron, wall) && t >= from && t < to)
            wrong += !fr_rule_fires(&rule->cron, rule->zone, t);
    }
    return wrong;
}

static void walls_of_changes(void)
{
    static const char *const crons[] = {"30 2 * * *", "*/20 1-3 * * *", "@hourly", "0 0 * * *"};

    for (size_t z = 0; z < BED_ZONES; z++) {
        struct fr_zone zone = bed_zone(bed_zones[z].name);
        int64_t t = bed_time("2011-06-01");
        struct fr_zone_change c;

        check_row(zone.name);
        for (int k = 0; k < 4 && fr_zone_after(&zone, t, &c); k++, t = c.at)
            for (size_t i = 0; i < 4; i++) {
                struct fr_rule rule = bed_rule(crons[i], &zone);
                int64_t from = c.at - c.at % 60 - FR_DAY_S;

                CHECK_INT(fires_by_walls(&rule, from, from + 2 * FR_DAY_S), 0);
            }
        fr_zone_finish(&zone);
    }
}

static void periods_and_lists(void)
{
    static const int64_t at[] = {1000, 5000, 9000};
    struct fr_zone utc = {.name = "UTC"};
    struct fr_rule every = {.kind = FR_RULE_EVERY,
                            .zone = &utc,
                            .every_ms = 7 * 3600000,
                            .start_ms = FR_NO_START,
                            .end_ms = FR_NO_END};
    struct fr_rule list = {.kind = FR_RULE_AT,
                           .zone = &utc,
                           .at = at,
                           .n_at = 3,
                           .start_ms = FR_NO_START,
                           .end_ms = FR_NO_END};
    struct fire_case c = {"UTC", "", "2026-03-07", "2026-03-08",
                          "2026-03-07T01:00 2026-03-07T08:00 2026-03-07T15:00 2026-03-07T22:00"};
    struct fr_buf got = {0};
    int64_t fire;

    check_row("every 7h");
    list_fires(&every, &c, false, &got);
    CHECK_TEXT(got.p, c.fires);
    fr_buf_finish(&got);
    list_fires(&every, &c, true, &got);
    CHECK_TEXT(got.p, c.fires);
    fr_buf_finish(&got);
    check_row("every 28d");
    every.every_ms = (int64_t)28 * FR_DAY_S * 1000;
    c.from = "2026-03-07", c.to = "2026-06-05";
    list_fires(&every, &c, false, &got);
    CHECK_TEXT(got.p, "2026-03-12T00:00 2026-04-09T00:00 2026-05-07T00:00 2026-06-04T00:00");
    fr_buf_finish(&got);
    check_row("every 1d from 09:00, until a day");
    every.every_ms = (int64_t)FR_DAY_S * 1000;
    every.anchor_ms = every.start_ms = bed_time("2026-03-07T09:00") * 1000;
    every.end_ms = bed_time("2026-03-10T09:00") * 1000;
    c.from = "2026-03-01", c.to = "2026-04-01";
    list_fires(&every, &c, false, &got);
    CHECK_TEXT(got.p, "2026-03-07T09:00 2026-03-08T09:00 2026-03-09T09:00");
    fr_buf_finish(&got);
    check_row("at");
    CHECK(fr_rule_next(&list, 0, &fire) && fire == 1000);
    CHECK(fr_rule_next(&list, 1000, &fire) && fire == 5000);
    CHECK(!fr_rule_next(&list, 9000, &fire));
    CHECK(fr_rule_prev(&list, 9000, &fire) && fire == 5000);
    CHECK(!fr_rule_prev(&list, 1000, &fire));
    CHECK_INT(fr_rule_count(&list, 1000, 9000), 2);
    list.start_ms = 5000, list.end_ms = 9000;
    CHECK_INT(fr_rule_count(&list, 0, 99999), 1);
}

/* start is the first instant that may fire, end is none any more; also where clocks are absurd. */
static void bounds(void)
{
    struct fr_zone utc = {.name = "UTC"};
    struct fr_rule rule = bed_rule("0 2 * * *", &utc);
    int64_t fire, day = (int64_t)FR_DAY_S * 1000;

    check_row("bounds");
    rule.start_ms = bed_time("2026-03-02T02:00") * 1000;
    rule.end_ms = rule.start_ms + 2 * day;
    CHECK(fr_rule_next(&rule, 0, &fire) && fire == rule.start_ms);
    CHECK(fr_rule_next(&rule, fire, &fire) && fire == rule.start_ms + day);
    CHECK(!fr_rule_next(&rule, fire, &fire));
    CHECK(fr_rule_prev(&rule, FR_NO_END, &fire) && fire == rule.start_ms + day);
    CHECK(!fr_rule_prev(&rule, rule.start_ms, &fire));
    CHECK_INT(fr_rule_count(&rule, 0, FR_NO_END), 2);
    rule.start_ms = FR_NO_START, rule.end_ms = FR_NO_END;
    CHECK(!fr_rule_next(&rule, FR_NO_END, &fire));
    CHECK(fr_rule_next(&rule, FR_NO_START, &fire) && !fr_rule_prev(&rule, FR_NO_START, &fire));
    CHECK(fr_rule_next(&rule, -1, &fire) && fire == 2 * 3600000);
    CHECK(fr_rule_next(&rule, fire, &fire) && fire == day + 2 * 3600000);
    check_row("rare days");
    rule.cron = bed_cron("0 0 29 2 1", FR_DAYS_ALL);
    CHECK(fr_rule_next(&rule, bed_time("2026-01-01") * 1000, &fire));
    CHECK_INT(fire / 1000, bed_time("2044-02-29"));
    CHECK(fr_rule_next(&rule, fire, &fire) && fire / 1000 == bed_time("2072-02-29"));
    CHECK(fr_rule_prev(&rule, fire, &fire) && fire / 1000 == bed_time("2044-02-29"));
    check_row("a year of minutes is counted");
    rule.cron = bed_cron("* * * * *", FR_DAYS_UNSAID);
    CHECK_INT(fr_rule_count(&rule, bed_time("2025-01-01") * 1000, bed_time("2026-01-01") * 1000),
              525600);
    CHECK_INT(fr_rule_shortest(&rule, 0, 1000), 60000);
    rule.cron = bed_cron("0 0,5 * * *", FR_DAYS_UNSAID);
    CHECK_INT(fr_rule_shortest(&rule, 0, 1000), 5 * 3600000);
}

int main(void)
{
    table_of_cases();
    counts_of_a_year();
    random_cases();
    walls_of_changes();
    periods_and_lists();
    bounds();
    return check_done();
}
