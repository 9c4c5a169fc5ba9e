#include "tests/unit/schedule/schedule_bed.h"

const struct bed_zone bed_zones[BED_ZONES] = {
    {"UTC", "UTC0", {{"", 0}}},
    {"America/New_York", "EST5EDT,M3.2.0,M11.1.0", {{"", -300}}},
    {"America/Chicago", "CST6CDT,M3.2.0,M11.1.0", {{"", -360}}},
    {"Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3", {{"", 60}}},
    {"Europe/London", "GMT0BST,M3.5.0/1,M10.5.0", {{"", 0}}},
    {"Europe/Dublin", "IST-1GMT0,M10.5.0,M3.5.0/1", {{"", 0}}},
    {"Australia/Lord_Howe", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", {{"", 660}}},
    {"Africa/Cairo", "EET-2EEST,M4.5.5/0,M10.5.4/24", {{"", 120}}},
    {"Antarctica/Troll", "<+00>0<+02>-2,M3.5.0/1,M10.5.0/3", {{"", 0}}},
    {"Asia/Kathmandu", "<+0545>-5:45", {{"", 345}}},
    {"Asia/Tokyo", "JST-9", {{"", 540}}},
    {"Asia/Kolkata", "IST-5:30", {{"", 330}}},
    {"Pacific/Apia",
     "<+13>-13",
     {{"", -660},
      {"2011-09-24T14:00Z", -600},
      {"2011-12-30T10:00Z", 840},
      {"2012-03-31T14:00Z", 780}}},
    {"America/Sao_Paulo",
     "<-03>3",
     {{"", -180}, {"2018-11-04T03:00Z", -120}, {"2019-02-17T02:00Z", -180}}},
    {"Africa/Casablanca",
     "<+01>-1",
     {{"", 60},
      {"2026-02-15T02:00Z", 0},
      {"2026-03-22T02:00Z", 60},
      {"2027-02-07T02:00Z", 0},
      {"2027-03-14T02:00Z", 60}}},
    {"Asia/Almaty", "<+05>-5", {{"", 360}, {"2024-02-29T18:00Z", 300}}},
};

/* What a test is made of has to be right. (Fuzz targets use this header too: no check.h.) */
static void bed_want(enum fr_rc rc, const struct fr_err *err)
{
    if (rc == FR_OK)
        return;
    printf("a test is wrong itself: %s\n", err->msg);
    abort();
}

int64_t bed_time(const char *text)
{
    struct fr_when when;
    struct fr_err err;

    bed_want(fr_when_parse(fr_str_of(text), &when, &err), &err);
    return when.s;
}

void bed_put(struct fr_buf *b, uint64_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        fr_buf_add(b, &(uint8_t){(uint8_t)(v >> 8 * i)}, 1);
}

void bed_header(struct fr_buf *b, uint32_t times, uint32_t types)
{
    fr_buf_add(b, "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
    bed_put(b, 0, 4);
    bed_put(b, 0, 4);
    bed_put(b, 0, 4);
    bed_put(b, times, 4);
    bed_put(b, types, 4);
    bed_put(b, 4, 4);
}

void bed_file(const struct bed_zone *z, struct fr_buf *b)
{
    uint32_t n = 1;

    while (n < 12 && z->table[n].at != NULL)
        n++;
    bed_header(b, 0, 1);
    fr_buf_add(b, "\0\0\0\0\0\0UTC", 10);
    bed_header(b, n - 1, n);
    for (uint32_t i = 1; i < n; i++)
        bed_put(b, (uint64_t)bed_time(z->table[i].at), 8);
    for (uint32_t i = 1; i < n; i++)
        bed_put(b, i, 1);
    for (uint32_t i = 0; i < n; i++) {
        bed_put(b, (uint64_t)(int64_t)(z->table[i].minutes * 60), 4);
        bed_put(b, 0, 2);
    }
    fr_buf_add(b, "LMT", 4);
    fr_buf_fmt(b, "\n%s\n", z->footer);
}

void bed_database(const char *folder)
{
    struct fr_err err;

    for (size_t i = 0; i < BED_ZONES; i++) {
        struct fr_buf path = {0}, b = {0};

        fr_buf_fmt(&path, "%s/%s", folder, bed_zones[i].name);
        if (strchr(bed_zones[i].name, '/') != NULL) {
            *strrchr(path.p, '/') = '\0';
            bed_want(fr_mkdirs(path.p, 0755, &err), &err);
            path.p[strlen(path.p)] = '/';
        }
        bed_file(&bed_zones[i], &b);
        bed_want(fr_file_write(path.p, b.p, b.n, 0644, &err), &err);
        if (strcmp(bed_zones[i].name, "UTC") == 0) {
            path.n = 0;
            fr_buf_fmt(&path, "%s/Etc", folder);
            bed_want(fr_mkdirs(path.p, 0755, &err), &err);
            fr_buf_text(&path, "/UTC");
            bed_want(fr_file_write(path.p, b.p, b.n, 0644, &err), &err);
        }
        fr_buf_finish(&b);
        fr_buf_finish(&path);
    }
}

struct fr_zone bed_zone(const char *name)
{
    struct fr_zone zone = {0};
    struct fr_buf b = {0};
    struct fr_err err = {0};

    for (size_t i = 0; i < BED_ZONES; i++)
        if (strcmp(bed_zones[i].name, name) == 0)
            bed_file(&bed_zones[i], &b);
    bed_want(fr_zone_parse(&zone, name, (struct fr_str){b.p, b.n}, &err), &err);
    fr_buf_finish(&b);
    return zone;
}

struct fr_cron bed_cron(const char *text, enum fr_cron_days days)
{
    struct fr_cron cron;
    struct fr_err err;
    size_t at;

    bed_want(fr_cron_parse(fr_str_of(text), days, &cron, &at, &err), &err);
    return cron;
}

struct fr_rule bed_rule(const char *text, const struct fr_zone *zone)
{
    return (struct fr_rule){.zone = zone,
                            .cron = bed_cron(text, FR_DAYS_UNSAID),
                            .start_ms = FR_NO_START,
                            .end_ms = FR_NO_END};
}

uint64_t bed_draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}
