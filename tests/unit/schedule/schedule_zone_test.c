/*
 * Zones: files as they should be and cut, footers beside the C library's reading of them, names
 * that are none, and the machine's database beside the C library.
 */
#include "tests/unit/check.h"
#include "tests/unit/schedule/schedule_bed.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static enum fr_rc parse(struct fr_zone *zone, const struct bed_zone *z, struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc;

    bed_file(z, &b);
    rc = fr_zone_parse(zone, z->name, (struct fr_str){b.p, b.n}, err);
    fr_buf_finish(&b);
    return rc;
}

/* Offsets of a footer at instants around its changes. */
static void footers(void)
{
    static const struct {
        const char *footer;
        int first; /* minutes: the offset that the table ends with */
        const char *at;
        int minutes; /* the offset there */
    } rows[] = {
        {"EST5EDT,M3.2.0,M11.1.0", -300, "2031-03-09T06:59", -300},
        {"EST5EDT,M3.2.0,M11.1.0", -300, "2031-03-09T07:00", -240},
        {"EST5EDT,M3.2.0,M11.1.0", -300, "2031-11-02T05:59", -240},
        {"EST5EDT,M3.2.0,M11.1.0", -300, "2031-11-02T06:00", -300},
        {"EST5EDT,M3.2.0,M11.1.0", -300, "2400-07-01", -240},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 660, "2031-10-04T15:29", 630},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 660, "2031-10-04T15:30", 660},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 660, "2031-01-01", 660},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", 0, "2031-01-01", 0},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", 0, "2031-07-01", 60},
        {"AAA3BBB,J60,J300", -180, "2031-03-01T04:59", -180},
        {"AAA3BBB,J60,J300", -180, "2031-03-01T05:00", -120},
        {"AAA3BBB,J60,J300", -180, "2032-02-29T12:00", -180}, /* J60 is 1 March, always */
        {"AAA3BBB,59,299", -180, "2032-02-29T05:00", -120},   /* 59 is 29 February */
        {"AAA3BBB,59/-24,299/167", -180, "2031-02-28T02:59", -180},
        {"AAA3BBB,59/-1,299/167", -180, "2031-03-01T02:00", -120},
        {"AAA3BBB,59,299/167", -180, "2031-11-02T00:59", -120},
        {"AAA3BBB,0/0,J365/25", -120, "2031-01-01T02:59", -120}, /* all the year */
        {"AAA3BBB,0/0,J365/25", -120, "2031-12-31T23:00", -120},
        {"AAA3AAB4,M3.2.0,M11.1.0", -180, "2031-07-01", -240},
        {"AAA-5:30:30", 330, "2031-07-01", 330},
        {"", 60, "2031-07-01", 60},
    };
    struct fr_err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bed_zone z = {"made", rows[i].footer, {{"", 0}, {"2020-02-01", 0}}};
        struct fr_zone zone;

        check_row(rows[i].footer);
        z.table[1].minutes = rows[i].first;
        if (strcmp(rows[i].footer, "AAA-5:30:30") == 0) /* the table has whole minutes */
            z.table[1].at = NULL;
        if (!CHECK_INT(parse(&zone, &z, &err), FR_OK)) {
            printf("%s\n", err.msg);
            continue;
        }
        CHECK_INT(fr_zone_offset(&zone, bed_time(rows[i].at)) / 60, rows[i].minutes);
        fr_zone_finish(&zone);
    }
}

static void all_year_has_no_change(void)
{
    struct bed_zone z = {"made", "AAA3BBB,0/0,J365/25", {{"", -120}}};
    struct fr_zone zone;
    struct fr_zone_change c;

    check_row("summer all the year");
    if (!CHECK_INT(parse(&zone, &z, NULL), FR_OK))
        return;
    CHECK(!fr_zone_before(&zone, bed_time("2031-06-01"), &c));
    CHECK(!fr_zone_after(&zone, bed_time("2031-06-01"), &c));
    fr_zone_finish(&zone);
}

static void bad_footers(void)
{
    static const char *const rows[] = {
        "E5",
        "EST",
        "EST5EDT",
        "EST5EDT,M3.2.0",
        "EST5EDT,M13.2.0,M11.1.0",
        "EST5EDT,M3.6.0,M11.1.0",
        "EST5EDT,M3.2.7,M11.1.0",
        "EST5EDT,M0.2.0,M11.1.0",
        "EST5EDT,J0,J300",
        "EST5EDT,J366,J300",
        "EST5EDT,366,1",
        "EST5EDT,M3.2.0,M11.1.0,",
        "EST5EDT,M3.2.0/168,M11.1.0",
        "<E>5",
        "<EST5",
        "EST26",
        "EST5:60",
        "EST5EDT,M3.2.0/2:60,M11.1.0",
    };
    struct fr_err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bed_zone z = {"made", rows[i], {{"", -300}}};
        struct fr_zone zone;

        check_row(rows[i]);
        CHECK_INT(parse(&zone, &z, &err), FR_CORRUPT);
        CHECK(strstr(err.msg, rows[i]) != NULL && zone.changes == NULL);
    }
}

/* A file cut anywhere, or with one count changed, is refused or is a zone; it never crashes. */
static void cut_files(void)
{
    struct fr_buf b = {0};
    struct fr_zone zone;
    struct fr_err err;
    int taken = 0;

    check_row("cut");
    bed_file(&bed_zones[BED_ZONES - 2], &b);
    for (size_t n = 0; n < b.n; n++) {
        char *copy = malloc(n + 1); /* reading behind it is found by sanitizers */

        memcpy(copy, b.p, n);
        taken += fr_zone_parse(&zone, "cut", (struct fr_str){copy, n}, &err) == FR_OK;
        fr_zone_finish(&zone);
        free(copy);
    }
    CHECK_INT(taken, 0);
    CHECK(fr_zone_parse(&zone, "whole", (struct fr_str){b.p, b.n}, &err) == FR_OK);
    fr_zone_finish(&zone);
    for (size_t at = 0; at < b.n; at++) {
        char was = b.p[at];

        b.p[at] = (char)0xff;
        (void)fr_zone_parse(&zone, "changed", (struct fr_str){b.p, b.n}, &err);
        fr_zone_finish(&zone);
        b.p[at] = was;
    }
    fr_buf_finish(&b);
}

/* What a file says that is not as RFC 9636 has it: a byte is changed, of the last zone's file. */
static void refused_files(void)
{
    enum { V2 = 44 + 10, TABLE = V2 + 44 };
    static const struct {
        const char *name;
        size_t at;
        char byte;
        enum fr_rc rc;
        const char *text;
    } rows[] = {
        {"magic", 0, 't', FR_CORRUPT, "not a TZif file"},
        {"version 1", 4, 0, FR_CORRUPT, "version 1"},
        {"second magic", V2, 'x', FR_CORRUPT, "64-bit table"},
        {"no types", V2 + 39, 0, FR_CORRUPT, "64-bit table"},
        {"a type that is not there", TABLE + 8, 7, FR_CORRUPT, "a type that is not there"},
        {"a far offset", TABLE + 9, 0x7f, FR_CORRUPT, "out of range"},
        {"no footer", TABLE + 9 + 12 + 4, 'x', FR_CORRUPT, "no footer"},
        {"footer and table", TABLE + 9 + 12 + 4 + 7, '6', FR_CORRUPT, "disagree"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf b = {0};
        struct fr_zone zone;
        struct fr_err err = {0};

        check_row(rows[i].name);
        bed_file(&bed_zones[BED_ZONES - 1], &b);
        b.p[rows[i].at] = rows[i].byte;
        CHECK_INT(fr_zone_parse(&zone, "made", (struct fr_str){b.p, b.n}, &err), rows[i].rc);
        if (strstr(err.msg, rows[i].text) == NULL || strstr(err.msg, "zone made") == NULL)
            CHECK_TEXT(err.msg, rows[i].text);
        CHECK(zone.changes == NULL);
        fr_buf_finish(&b);
    }
}

static void leap_seconds(void)
{
    struct fr_buf b = {0};
    struct fr_zone zone;
    struct fr_err err = {0};

    check_row("leap seconds");
    bed_header(&b, 0, 1);
    fr_buf_add(&b, "\0\0\0\0\0\0UTC", 10);
    bed_header(&b, 0, 1);
    b.p[b.n - 13] = 1;
    fr_buf_add(&b, "\0\0\0\0\0\0UTC", 10);
    bed_put(&b, 78796800, 8);
    bed_put(&b, 1, 4);
    fr_buf_text(&b, "\nUTC0\n");
    CHECK_INT(fr_zone_parse(&zone, "made", (struct fr_str){b.p, b.n}, &err), FR_USAGE);
    CHECK_TEXT(err.msg, "zone made counts leap seconds, which this machine's clock does not");
    fr_buf_finish(&b);
}

static void names(const char *folder)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"", "not the name of a zone"},
        {"../Made/Zone", "not the name of a zone"},
        {"Made/../Zone", "not the name of a zone"},
        {"/etc/passwd", "not the name of a zone"},
        {"Made//Zone", "not the name of a zone"},
        {"Made/", "not the name of a zone"},
        {"Made\nZone", "not the name of a zone"},
        {"a very long name that no zone has, since there are none beyond sixty-four", "not the"},
        {"+02:00", "is a fixed offset"},
        {"UTC+2", "is a fixed offset"},
        {"GMT-3", "is a fixed offset"},
        {"Etc/GMT+5", "is a fixed offset"},
        {"CEST", "'CEST' is an abbreviation"},
        {"right/Made/Zone", "write that"},
        {"localtime", "this machine's zone"},
        {"US/Eastern", "tzdata-legacy"},
        {"Made/Nowhere", "no zone 'Made/Nowhere' in"},
        {"Made", "no zone 'Made' in"}, /* a folder */
        {"Made/Text", "not a TZif file"},
        {"Made/Large", "larger than 1 MiB"},
    };
    struct fr_zone zone;
    struct fr_err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        err = (struct fr_err){0};
        CHECK(fr_zone_load(&zone, folder, rows[i].name, &err) != FR_OK);
        if (strstr(err.msg, rows[i].text) == NULL)
            CHECK_TEXT(err.msg, rows[i].text);
        CHECK(zone.changes == NULL);
    }
    check_row("no database");
    CHECK_INT(fr_zone_load(&zone, "/nonexistent", "Europe/Berlin", &err), FR_NOTFOUND);
    CHECK(strstr(err.msg, "install the package tzdata") != NULL);
    CHECK_INT(fr_zone_load(&zone, "/nonexistent", "UTC", &err), FR_OK);
    CHECK(!fr_zone_replaced(&zone, "/nonexistent"));
}

static void *no_alloc(size_t n)
{
    (void)n;
    return NULL;
}

static ssize_t no_read(int fd, void *p, size_t n)
{
    (void)fd;
    (void)p;
    (void)n;
    errno = EIO;
    return -1;
}

static void put(const char *folder, const char *name, const char *p, size_t n)
{
    struct fr_buf path = {0};

    fr_buf_fmt(&path, "%s/%s", folder, name);
    CHECK_INT(fr_file_write(path.p, p, n, 0644, NULL), FR_OK);
    fr_buf_finish(&path);
}

/* A database of the test's own. */
static void database(void)
{
    static char large[(1 << 20) + 1];
    char folder[] = "/tmp/flowrun-zones-XXXXXX", sub[64];
    struct fr_buf b = {0};
    struct fr_zone zone;
    struct fr_err err;

    if (!CHECK(mkdtemp(folder) != NULL))
        return;
    (void)snprintf(sub, sizeof(sub), "%s/Made", folder);
    CHECK(fr_sys.mkdir(sub, 0755) == 0);
    (void)snprintf(sub, sizeof(sub), "%s/Etc", folder);
    CHECK(fr_sys.mkdir(sub, 0755) == 0);
    bed_file(&bed_zones[1], &b);
    put(folder, "Etc/UTC", b.p, b.n);
    put(folder, "Made/Zone", b.p, b.n);
    put(folder, "Made/Text", "hello\n", 6);
    put(folder, "Made/Large", large, sizeof(large));
    names(folder);
    check_row("a file that is replaced");
    CHECK_INT(fr_zone_load(&zone, folder, "Made/Zone", &err), FR_OK);
    CHECK_INT(fr_zone_offset(&zone, bed_time("2026-07-01")), -4 * 3600);
    CHECK(!fr_zone_replaced(&zone, folder));
    put(folder, "Made/Zone", b.p, b.n);
    CHECK(fr_zone_replaced(&zone, folder));
    fr_zone_finish(&zone);
    check_row("faults");
    fr_sys.alloc = no_alloc;
    CHECK_INT(fr_zone_load(&zone, folder, "Made/Zone", &err), FR_NOMEM);
    fr_sys.alloc = fr_sys_real.alloc;
    fr_sys.read = no_read;
    CHECK_INT(fr_zone_load(&zone, folder, "Made/Zone", &err), FR_IO);
    fr_sys.read = fr_sys_real.read;
    fr_buf_finish(&b);
    CHECK_INT(fr_remove_tree(folder, &err), FR_OK);
}

/* Written times around a gap and a repeated hour. */
static void instants(void)
{
    static const struct {
        const char *zone, *wall, *instant;
    } rows[] = {
        {"America/New_York", "2026-03-08T01:59", "2026-03-08T06:59"},
        {"America/New_York", "2026-03-08T02:30", "2026-03-08T07:30"},
        {"America/New_York", "2026-03-08T03:00", "2026-03-08T07:00"},
        {"America/New_York", "2026-11-01T00:59", "2026-11-01T04:59"},
        {"America/New_York", "2026-11-01T01:30", "2026-11-01T05:30"},
        {"America/New_York", "2026-11-01T02:00", "2026-11-01T07:00"},
        {"America/New_York", "2026-03-08T02:30Z", "2026-03-08T02:30"},
        {"America/New_York", "2026-03-08T02:30+01:00", "2026-03-08T01:30"},
        {"America/New_York", "2026-03-08T02:30:10-0530", "2026-03-08T08:00:10"},
        {"Pacific/Apia", "2011-12-30T12:00", "2011-12-30T22:00"},
        {"Pacific/Apia", "2011-12-31T12:00", "2011-12-30T22:00"},
        {"Asia/Kathmandu", "2026-01-01 05:45", "2026-01-01"},
        {"UTC", "2026-01-01", "2026-01-01T00:00"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_zone zone = bed_zone(rows[i].zone);
        struct fr_when when;

        check_row(rows[i].wall);
        CHECK_INT(fr_when_parse(fr_str_of(rows[i].wall), &when, NULL), FR_OK);
        CHECK_INT(fr_zone_instant(&zone, when), bed_time(rows[i].instant));
        fr_zone_finish(&zone);
    }
}

static void times_refused(void)
{
    static const char *const rows[] = {
        "",
        "tomorrow",
        "2026-12",
        "2026-13-01",
        "2026-02-29",
        "2026-12-00",
        "1969-12-31",
        "2026-12-24T24:00",
        "2026-12-24T02",
        "2026-12-24T02:60",
        "2026-12-24T02:00:60",
        "2026-12-24T02:00 ",
        "2026-12-24T02:00+1",
        "2026-12-24T02:00+24:00",
        "2026-12-24T02:00ZZ",
        "2026-12-24Z02:00",
    };
    struct fr_when when;
    struct fr_err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i]);
        CHECK_INT(fr_when_parse(fr_str_of(rows[i]), &when, &err), FR_USAGE);
        CHECK(strstr(err.msg, "is not a time such as") != NULL);
    }
}

/* Dates beside the C library's, far into both directions. */
static void calendar(void)
{
    int wrong = 0;

    check_row("calendar");
    for (int64_t day = -800000; day < 800000; day += 7) {
        time_t t = (time_t)(day * FR_DAY_S);
        struct fr_date d = fr_day_date(day);
        struct tm tm;

        if (gmtime_r(&t, &tm) == NULL)
            continue;
        wrong += d.year != tm.tm_year + 1900 || d.month != tm.tm_mon + 1 || d.day != tm.tm_mday;
        wrong += fr_day_weekday(day) != tm.tm_wday || fr_date_day(d) != day;
    }
    CHECK_INT(wrong, 0);
    for (int m = 1; m <= 12; m++)
        CHECK_INT(fr_month_days(2023, m), fr_date_day((struct fr_date){2023, m + 1, 1}) -
                                              fr_date_day((struct fr_date){2023, m, 1}));
}

/* The machine's zones beside the C library's offsets, a day and a quarter apart. */
static int beside_library(const struct fr_zone *zone)
{
    int wrong = 0;

    for (int64_t t = bed_time("1970-01-02"); t < bed_time("2060-01-01"); t += 108013) {
        time_t s = (time_t)t;
        struct tm tm;

        wrong += localtime_r(&s, &tm) == NULL || fr_zone_offset(zone, t) != tm.tm_gmtoff;
    }
    return wrong;
}

static void machine(void)
{
    static const char *const list[] = {
        "America/New_York",  "Europe/Dublin",     "Australia/Lord_Howe",
        "Africa/Casablanca", "Pacific/Apia",      "Asia/Gaza",
        "Antarctica/Troll",  "America/Sao_Paulo", "Africa/El_Aaiun",
        "Asia/Tehran",       "America/Nuuk",      "America/Scoresbysund",
        "Antarctica/Casey",  "Europe/Volgograd",  "EST5EDT",
        "Africa/Monrovia",   "Pacific/Kwajalein", "Asia/Pyongyang",
        "Europe/Istanbul",   "Pacific/Easter",
    };
    struct fr_zone zone;
    struct fr_err err;
    int n = 0;

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        check_row(list[i]);
        if (fr_zone_load(&zone, NULL, list[i], &err) != FR_OK)
            continue;
        n++;
        (void)setenv("TZ", list[i], 1);
        tzset();
        CHECK_INT(beside_library(&zone), 0);
        fr_zone_finish(&zone);
    }
    (void)unsetenv("TZ");
    tzset();
    printf("%d zones of the machine beside the C library\n", n);
}

int main(void)
{
    footers();
    all_year_has_no_change();
    bad_footers();
    cut_files();
    refused_files();
    leap_seconds();
    instants();
    times_refused();
    calendar();
    database();
    machine();
    return check_done();
}
