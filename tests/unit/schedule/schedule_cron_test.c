/*
 * Cron expressions: what each form means on days of 2026, what is refused and what is said of it,
 * and rules in words.
 */
#include "tests/unit/check.h"
#include "tests/unit/schedule/schedule_bed.h"

#include <stdio.h>

/* The days of 2026 to 2028 (or those of the row's years) on which an expression fires. */
static const struct {
    const char *cron;
    enum fr_cron_days days;
    const char *from, *to;
    int count;
    const char *first; /* the first fires, split by blanks */
} good[] = {
    {"0 0 L-2 2 *", 0, "2026-01-01", "2029-01-01", 3, "2026-02-26 2027-02-26 2028-02-27"},
    {"0 0 15W * *", 0, "2026-01-01", "2027-01-01", 12, "2026-01-15 2026-02-16 2026-03-16"},
    {"0 0 1W * *", 0, "2026-01-01", "2027-01-01", 12, "2026-01-01 2026-02-02 2026-03-02"},
    {"0 0 1W 8 *", 0, "2026-01-01", "2029-01-01", 3, "2026-08-03 2027-08-02 2028-08-01"},
    {"0 0 LW * *", 0, "2026-01-01", "2027-01-01", 12, "2026-01-30 2026-02-27 2026-03-31"},
    {"0 0 31W * *", 0, "2026-01-01", "2027-01-01", 7, "2026-01-30 2026-03-31 2026-05-29"},
    {"0 0 * * 5L", 0, "2026-01-01", "2027-01-01", 12, "2026-01-30 2026-02-27 2026-03-27"},
    {"0 0 * * friL", 0, "2026-01-01", "2027-01-01", 12, "2026-01-30 2026-02-27 2026-03-27"},
    {"0 0 * * 1#1", 0, "2026-01-01", "2027-01-01", 12, "2026-01-05 2026-02-02 2026-03-02"},
    {"0 0 * * 5#5", 0, "2026-01-01", "2027-01-01", 4,
     "2026-01-30 2026-05-29 2026-07-31 2026-10-30"},
    {"0 0 L * *", 0, "2026-01-01", "2027-01-01", 12, "2026-01-31 2026-02-28 2026-03-31"},
    {"0 0 L-30 * *", 0, "2026-01-01", "2027-01-01", 7, "2026-01-01 2026-03-01 2026-05-01"},
    {"0 0 1,15 * 1", 0, "2026-01-01", "2027-01-01", 74, "2026-01-01 2026-01-05 2026-01-12"},
    {"0 0 1,15 * 1", FR_DAYS_ALL, "2026-01-01", "2027-01-01", 2, "2026-06-01 2026-06-15"},
    {"0 0 */2 * 1", FR_DAYS_ANY, "2026-01-01", "2027-01-01", 212, "2026-01-01 2026-01-03"},
    {"0 0 */2 * 1", FR_DAYS_ALL, "2026-01-01", "2027-01-01", 26, "2026-01-05 2026-01-19"},
    {"0 0 1-31 * 1", 0, "2026-01-01", "2027-01-01", 365, "2026-01-01 2026-01-02"},
    {"0 0 1-31 * 1", FR_DAYS_ALL, "2026-01-01", "2027-01-01", 52, "2026-01-05 2026-01-12"},
    {"0 0 ? * 1", 0, "2026-01-01", "2027-01-01", 52, "2026-01-05 2026-01-12"},
    {"0 0 1 * ?", 0, "2026-01-01", "2027-01-01", 12, "2026-01-01 2026-02-01"},
    {"0 0 ?/10 * *", 0, "2026-01-01", "2026-02-01", 4, "2026-01-01 2026-01-11 2026-01-21"},
    {"0 0 * * fri-sun", 0, "2026-01-01", "2026-01-12", 6, "2026-01-02 2026-01-03 2026-01-04"},
    {"0 0 * * 5-7", 0, "2026-01-01", "2026-01-12", 6, "2026-01-02 2026-01-03 2026-01-04"},
    {"0 0 * * 0-7", 0, "2026-01-01", "2026-01-08", 7, "2026-01-01"},
    {"0 0 * * SUN-sun", 0, "2026-01-01", "2026-01-12", 2, "2026-01-04 2026-01-11"},
    {"0 0 * * 7", 0, "2026-01-01", "2026-01-12", 2, "2026-01-04 2026-01-11"},
    {"0 0 * * 0", 0, "2026-01-01", "2026-01-12", 2, "2026-01-04 2026-01-11"},
    {"0 0 * * sun,3", 0, "2026-01-01", "2026-01-12", 3, "2026-01-04 2026-01-07 2026-01-11"},
    {"0 0 * * mon/2", 0, "2026-01-04", "2026-01-11", 3, "2026-01-05 2026-01-07 2026-01-09"},
    {"0 0 * * */3", 0, "2026-01-04", "2026-01-11", 3, "2026-01-04 2026-01-07 2026-01-10"},
    {"0 0 1 jan,JUL-sep *", 0, "2026-01-01", "2027-01-01", 4, "2026-01-01 2026-07-01"},
    {"0 0 10/7 * *", 0, "2026-01-01", "2026-02-01", 4,
     "2026-01-10 2026-01-17 2026-01-24 2026-01-31"},
    {"0 0 10-20/7 * *", 0, "2026-01-01", "2026-02-01", 2, "2026-01-10 2026-01-17"},
    {"0 0 29 2 1", FR_DAYS_ALL, "2026-01-01", "2080-01-01", 2, "2044-02-29 2072-02-29"},
    {"0 0 1 1 *", 0, "2026-01-01", "2028-01-01", 2, "2026-01-01 2027-01-01"},
    {"\t0  0 1\t1 *  ", 0, "2026-01-01", "2028-01-01", 2, "2026-01-01 2027-01-01"},
    {"*/40 * * * *", 0, "2026-01-01", "2026-01-02", 48,
     "2026-01-01 2026-01-01T00:40 2026-01-01T01:00 2026-01-01T01:40"},
    {"50/5 3 * * *", 0, "2026-01-01", "2026-01-02", 2, "2026-01-01T03:50 2026-01-01T03:55"},
    {"5-7,9 8 * * *", 0, "2026-01-01", "2026-01-02", 4, "2026-01-01T08:05 2026-01-01T08:06"},
    {"05 08 01 01 *", 0, "2026-01-01", "2027-01-01", 1, "2026-01-01T08:05"},
    {"@yearly", 0, "2026-01-01", "2028-01-01", 2, "2026-01-01 2027-01-01"},
    {"@Annually", 0, "2026-01-01", "2028-01-01", 2, "2026-01-01 2027-01-01"},
    {"@monthly", 0, "2026-01-01", "2027-01-01", 12, "2026-01-01 2026-02-01"},
    {"@weekly", 0, "2026-01-01", "2026-01-12", 2, "2026-01-04 2026-01-11"},
    {"@daily", 0, "2026-01-01", "2027-01-01", 365, "2026-01-01 2026-01-02"},
    {"@midnight", 0, "2026-01-01", "2027-01-01", 365, "2026-01-01 2026-01-02"},
    {"@hourly", 0, "2026-01-01", "2027-01-01", 8760, "2026-01-01 2026-01-01T01:00"},
};

static void meanings(void)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct fr_cron c = bed_cron(good[i].cron, good[i].days);
        int64_t from = bed_time(good[i].from), to = bed_time(good[i].to), wall = from;
        const char *p = good[i].first;

        check_row(good[i].cron);
        CHECK_INT(fr_cron_count(&c, from, to), good[i].count);
        for (; *p != '\0'; p += strcspn(p, " ") + (strchr(p, ' ') != NULL), from = wall + 1) {
            char text[32];

            (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(p, " "), p);
            CHECK(fr_cron_first(&c, from, to, &wall));
            CHECK_INT(wall, bed_time(text));
            CHECK(fr_cron_matches(&c, wall) && !fr_cron_matches(&c, wall + 1));
        }
        CHECK(fr_cron_ever(&c));
    }
}

static const struct {
    const char *cron;
    size_t at;
    const char *says;
} bad[] = {
    {"", 0, "an empty expression; expected five fields"},
    {"0 2 * *", 6, "4 fields; expected five: minute hour day-of-month month day-of-week"},
    {"0 2 * * * *", 10,
     "a sixth field; expected five: minute hour day-of-month month "
     "day-of-week. Seconds have no field; write every: 30s"},
    {"0 2 * * * * 2026", 10, "7 fields"},
    {"60 2 * * *", 0, "minute 60 is not within 0-59"},
    {"0 24 * * *", 2, "hour 24 is not within 0-23; midnight is 0"},
    {"0 0 0 * *", 4, "day-of-month 0 is not within 1-31"},
    {"0 0 32 * *", 4, "day-of-month 32"},
    {"0 0 99999999999 * *", 4, "day-of-month 99999999999 is not within"},
    {"0 0 1 13 *", 6, "month 13 is not within 1-12"},
    {"0 0 * * 8", 8, "day-of-week 8 is not within 0-7"},
    {"0 22-2 * * *", 2, "hour: '22-2' runs backwards; write 22-23,0-2"},
    {"0 23-0 * * *", 2, "'23-0' runs backwards; write 23,0"},
    {"0 0 * * 5-1", 8, "day-of-week: '5-1' runs backwards; write 5-6,0-1"},
    {"0 0 * * 7-2", 8, "day-of-week: '7-2' runs backwards; write 0-2"},
    {"0 0 * nov-feb *", 6, "month: 'nov-feb' runs backwards; write 11-12,1-2"},
    {"0 0 * * sat-mon/2", 8, "runs backwards; write 6,0-1"},
    {"*/0 * * * *", 1, "minute: a step is a number from 1 on, as in */5"},
    {"*/ * * * *", 1, "a step is a number"},
    {"*-5 * * * *", 0, "minute: '*-5' is not understood"},
    {"1,,2 * * * *", 2, "minute: an item is missing beside a comma"},
    {"1, * * * *", 2, "an item is missing"},
    {"1- * * * *", 0, "minute: '1-' is not understood"},
    {"-1 * * * *", 0, "minute: '-1' is not understood"},
    {"1.5 * * * *", 0, "minute: '1.5' is not understood"},
    {"0 0 * foo *", 6, "month: 'foo' is not understood; expected 1-12 or jan-dec"},
    {"0 0 * * monday", 8, "day-of-week: 'monday' is not understood; expected 0-7 or sun-sat"},
    {"? 0 * * *", 0, "minute: '?' stands for any day; write *"},
    {"L * * * *", 0, "minute: L and W are for days"},
    {"0 0 * * L", 8, "day-of-week: L stands behind a day (5L, the last Friday)"},
    {"0 0 L-0 * *", 4, "L-n counts back from the last day, n 1-30"},
    {"0 0 L-31 * *", 4, "L-n counts back"},
    {"0 0 32W * *", 4, "day-of-month 32 is not within 1-31"},
    {"0 0 L/2 * *", 4, "day-of-month: 'L/2' is not understood"},
    {"0 0 * * 1#0", 8, "behind # stands 1-5"},
    {"0 0 * * 1#6", 8, "behind # stands 1-5"},
    {"0 0 * * 1#1/2", 8, "'1#1/2' is not understood"},
    {"H * * * *", 0, "minute: 'H' has no meaning here; write a number, and jitter: 10m"},
    {"6~15 2 * * *", 0,
     "minute: '6~15' has no meaning here; write its lower number, and "
     "jitter:"},
    {"@reboot", 0, "'@reboot' is not a time; write every: or"},
    {"@every 90m", 0, "'@every' is a key of its own; write every: 90m instead of cron:"},
    {"@every", 0, "write every: 1h instead of cron:"},
    {"@fortnightly", 0, "'@fortnightly' is not known; expected @hourly, @daily"},
    {"@daily x", 0, "'@daily' is not known"},
    {"TZ=Europe/Berlin 0 2 * * *", 0, "write zone: Europe/Berlin beside cron:"},
    {"CRON_TZ=UTC 0 2 * * *", 0, "'CRON_TZ=UTC': the zone is a key of its own; write zone: UTC"},
    {"0 0 */2 * 1", 4,
     "day-of-month '*/2' beside a restricted day-of-week is read in two "
     "ways; say days: any"},
    {"0 0 1 * */2", 8, "day-of-week '*/2' beside a restricted day-of-month"},
    {"0 0 30 2 *", 0, "'0 0 30 2 *' never fires: no month it names has such a day"},
    {"0 0 31 2,4 *", 0, "never fires"},
    {"0 0 31W 2,4 *", 0, "never fires"},
    {"\xc3\xa4 * * * *", 0, "is not understood"},
};

static void refusals(void)
{
    struct fr_cron c;
    struct fr_err err;
    size_t at;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        check_row(bad[i].cron);
        err = (struct fr_err){0};
        CHECK_INT(fr_cron_parse(fr_str_of(bad[i].cron), FR_DAYS_UNSAID, &c, &at, &err), FR_USAGE);
        CHECK_INT(at, bad[i].at);
        if (strstr(err.msg, bad[i].says) == NULL)
            CHECK_TEXT(err.msg, bad[i].says);
    }
}

static void too_long(void)
{
    char text[FR_CRON_MAX_BYTES + 2];
    struct fr_cron c;
    size_t at;

    check_row("256 bytes");
    memset(text, ' ', sizeof(text));
    memcpy(text, "0 0 * * *", 9);
    CHECK_INT(fr_cron_parse((struct fr_str){text, FR_CRON_MAX_BYTES}, 0, &c, &at, NULL), FR_OK);
    CHECK_INT(fr_cron_parse((struct fr_str){text, FR_CRON_MAX_BYTES + 1}, 0, &c, &at, NULL),
              FR_USAGE);
}

/* An item that is a string of digits, W and L: each value alone, and what it may not be. */
static void each_value(void)
{
    static const struct {
        const char *format;
        int min, max, bit;
        enum fr_cron_field field;
    } rows[] = {{"%d * * * *", 0, 59, 0, FR_CRON_MINUTE},
                {"* %d * * *", 0, 23, 0, FR_CRON_HOUR},
                {"* * %d * *", 1, 31, 0, FR_CRON_DAY},
                {"* * * %d *", 1, 12, 0, FR_CRON_MONTH},
                {"* * * * %d", 0, 6, 0, FR_CRON_WEEKDAY}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int v = rows[i].min; v <= rows[i].max; v++) {
            char text[32];
            struct fr_cron c;

            check_row(rows[i].format);
            /* NOLINTNEXTLINE: the formats are those above */
            (void)snprintf(text, sizeof(text), rows[i].format, v);
            c = bed_cron(text, FR_DAYS_UNSAID);
            CHECK(c.field[rows[i].field] == (uint64_t)1 << v);
        }
}

static void words(void)
{
    static const struct {
        const char *cron;
        enum fr_cron_days days;
        const char *words;
    } rows[] = {
        {"30 2 * * *", 0, "every day at 02:30"},
        {"0 2,14 * * *", 0, "every day at 02:00 and 14:00"},
        {"0,30 1-3 * * *", 0, "every day at 01:00, 01:30, 02:00, 02:30, 03:00 and 03:30"},
        {"30 2 * * mon-fri", 0, "every Monday to Friday at 02:30"},
        {"0 9 * * 1,3", 0, "every Monday and Wednesday at 09:00"},
        {"0 9 * * fri-sun", 0, "every Friday to Sunday at 09:00"},
        {"0 9 * * 0", 0, "every Sunday at 09:00"},
        {"* * * * *", 0, "every minute"},
        {"*/5 * * * *", 0, "every 5 minutes"},
        {"*/40 * * * *", 0, "at minutes 0 and 40 of every hour"},
        {"@hourly", 0, "at minute 0 of every hour"},
        {"15 * * * 6", 0, "every Saturday, at minute 15 of every hour"},
        {"0 */2 * * *", 0, "every day every 2 hours at minute 0"},
        {"*/10 9-17 * * *", 0, "every day at minutes 0, 10, 20, 30, 40 and 50 of hours 9 to 17"},
        {"* 3 * * *", 0, "every day every minute of hour 3"},
        {"0 0 1 * *", 0, "on the 1st of every month at 00:00"},
        {"0 0 1,2,3,22,31 * *", 0, "on the 1st to 3rd, 22nd and 31st of every month at 00:00"},
        {"0 0 11,12,13 * *", 0, "on the 11th to 13th of every month at 00:00"},
        {"0 0 L 1,7 *", 0, "on the last day of January and July at 00:00"},
        {"0 0 15,L-1,L-2 * *", 0,
         "on the 15th, 1 day before the last and 2 days before the last of every month at 00:00"},
        {"0 0 15W,LW * *", 0,
         "on the weekday nearest the 15th and the weekday nearest the last day of every month at "
         "00:00"},
        {"0 18 * * 5L", 0, "on the last Friday of every month at 18:00"},
        {"0 18 * 12 mon#1,mon#3", 0,
         "on the first Monday and the third Monday of December at 18:00"},
        {"0 0 1,15 * 1", 0, "on the 1st and 15th of every month and on every Monday at 00:00"},
        {"0 0 1 * 5L", 0, "on the 1st of every month and on the last Friday at 00:00"},
        {"0 0 13 * 5", FR_DAYS_ALL, "on the 13th of every month if it is Friday at 00:00"},
        {"0 0 * 6 *", 0, "every day in June at 00:00"},
        {"0 0 * 6-8 1", 0, "every Monday in June to August at 00:00"},
        {"* * * 6 *", 0, "every day in June, every minute"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_cron c = bed_cron(rows[i].cron, rows[i].days);
        struct fr_buf b = {0};

        check_row(rows[i].cron);
        fr_cron_words(&c, &b);
        CHECK_TEXT(b.p, rows[i].words);
        fr_buf_finish(&b);
    }
}

static void rules_in_words(void)
{
    struct fr_zone zone = bed_zone("Europe/Berlin"), utc = {0};
    struct fr_rule rule = bed_rule("30 2 * * *", &zone);
    int64_t at[9];
    struct fr_buf b = {0};

    check_row("rules");
    fr_rule_words(&rule, &b);
    CHECK_TEXT(b.p, "every day at 02:30 in Europe/Berlin");
    b.n = 0;
    rule.kind = FR_RULE_EVERY;
    rule.every_ms = (36 * 3600 + 90) * 1000 + 5;
    rule.start_ms = bed_time("2026-06-30T22:00") * 1000;
    rule.end_ms = bed_time("2026-12-24T02:00:30") * 1000;
    fr_rule_words(&rule, &b);
    CHECK_TEXT(b.p, "every 1 d 12 h 1 min 30 s 5 ms from 2026-07-01 00:00 until 2026-12-24 "
                    "03:00:30 in Europe/Berlin");
    b.n = 0;
    for (int i = 0; i < 9; i++)
        at[i] = bed_time("2026-12-24T02:00") * 1000 + i * 86400000;
    rule = (struct fr_rule){.kind = FR_RULE_AT,
                            .zone = &utc,
                            .at = at,
                            .n_at = 2,
                            .start_ms = FR_NO_START,
                            .end_ms = FR_NO_END};
    fr_rule_words(&rule, &b);
    CHECK_TEXT(b.p, "at 2026-12-24 02:00 and 2026-12-25 02:00 in UTC");
    b.n = 0;
    rule.n_at = 9;
    fr_rule_words(&rule, &b);
    CHECK_TEXT(b.p, "at 2026-12-24 02:00, 2026-12-25 02:00, 2026-12-26 02:00, 2026-12-27 02:00, "
                    "2026-12-28 02:00 and 4 further times in UTC");
    fr_buf_finish(&b);
    fr_zone_finish(&zone);
}

static void notes(void)
{
    static const struct {
        const char *cron, *note;
    } rows[] = {
        {"*/40 * * * *", "minute */40 begins anew after the last of 60 values, so its distances "
                         "are not even; every: has even ones"},
        {"0 */5 */2 * *", "hour */5 begins anew after the last of 24 values, so its distances are "
                          "not even; every: has even ones; day-of-month */2 begins anew after the "
                          "last of 31 values, so its distances are not even; every: has even "
                          "ones"},
        {"*/15 */8 * */3 *", ""},
        {"0/40 5-20/7 * * *", ""},
        {"*/1 */1 */1 */1 *", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_cron c = bed_cron(rows[i].cron, FR_DAYS_UNSAID);
        struct fr_buf b = {0};

        check_row(rows[i].cron);
        fr_cron_notes(&c, &b);
        CHECK_TEXT(b.n > 0 ? b.p : "", rows[i].note);
        fr_buf_finish(&b);
    }
}

int main(void)
{
    meanings();
    refusals();
    too_long();
    each_value();
    words();
    rules_in_words();
    notes();
    return check_done();
}
