/*
 * Schedules: any text as a cron expression, as a time, as the name of a zone; any bytes as a zone's
 * file. What is accepted obeys its contract: the next fire is later and is one by the definition,
 * and the file that is opened for a name lies in the database.
 */
#include "tests/fuzz/fuzz.h"

#include "engine/base/sys.h"
#include "engine/schedule/rule.h"
#include "tests/unit/schedule/schedule_bed.h"

#include <errno.h>

enum { FIRES = 6 };

/* Some fires of rule from t on, there and back. */
static void walk(const struct fr_rule *rule, int64_t t)
{
    int64_t at = t * 1000, next, back;

    for (int i = 0; i < FIRES && fr_rule_next(rule, at, &next); i++, at = next) {
        fuzz_want(next > at, "the next fire is later");
        fuzz_want(fr_rule_fires(&rule->cron, rule->zone, next / 1000), "a fire is one");
        fuzz_want(fr_rule_count(rule, at, next) == 1, "there is one fire up to the next");
        fuzz_want(fr_rule_prev(rule, next + 1, &back) && back == next, "it is found from behind");
        fuzz_want(!fr_rule_prev(rule, next, &back) || back <= at, "none lies between");
    }
}

static int64_t instant_of(struct fr_str in)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < in.n; i++)
        hash = (hash ^ (uint8_t)in.p[i]) * 1099511628211u;
    return (int64_t)(hash % ((uint64_t)200 * 366 * FR_DAY_S));
}

void fuzz_cron(struct fr_str in)
{
    static struct fr_zone zone;
    struct fr_rule rule = {.zone = &zone, .start_ms = FR_NO_START, .end_ms = FR_NO_END};
    struct fr_err err = {0};
    struct fr_buf words = {0};
    struct fr_when when;
    size_t at = 0;
    enum fr_rc rc = fr_when_parse(in, &when, &err);

    fuzz_want_err(rc, &err);
    if (zone.name[0] == '\0')
        zone = bed_zone("America/New_York");
    rc = fr_cron_parse(in, (enum fr_cron_days)(in.n % 3), &rule.cron, &at, &err);
    fuzz_want_err(rc, &err);
    fuzz_want(at <= in.n, "the mistake lies in the text");
    if (rc != FR_OK)
        return;
    walk(&rule, instant_of(in));
    fr_rule_words(&rule, &words);
    fuzz_want(words.n > 0 && !words.bad, "a rule has words");
    fr_cron_notes(&rule.cron, &words);
    fr_buf_finish(&words);
}

static void check_changes(const struct fr_zone *zone, int64_t t)
{
    struct fr_zone_change c;

    for (int i = 0; i < 20; i++, t = c.at) {
        if (!fr_zone_after(zone, t, &c))
            break;
        fuzz_want(c.at > t && c.before != c.after, "a change is later, and is one");
        fuzz_want(fr_zone_offset(zone, c.at) == c.after, "the offset changes with it");
        fuzz_want(fr_zone_offset(zone, c.at - 1) == c.before, "and not before");
    }
}

void fuzz_tzif(struct fr_str in)
{
    static const int64_t from[] = {0, 1772953200, 4102444800, 32503680000};
    struct fr_zone zone;
    struct fr_err err = {0};
    enum fr_rc rc = fr_zone_parse(&zone, "fuzzed", in, &err);

    fuzz_want_err(rc, &err);
    if (rc == FR_OK) {
        struct fr_rule rule = bed_rule("30 2 * * *", &zone);

        for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
            check_changes(&zone, from[i]);
            walk(&rule, from[i]);
            (void)fr_zone_instant(&zone, (struct fr_when){from[i], false});
        }
        check_changes(&zone, INT64_MIN);
        (void)fr_zone_offset(&zone, INT64_MAX);
    }
    fr_zone_finish(&zone);
}

void fuzz_tzif_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    for (size_t i = 0; i < BED_ZONES; i++) {
        struct fr_buf b = {0};
        char name[FR_ZONE_NAME];

        (void)snprintf(name, sizeof(name), "%s",
                       strrchr(bed_zones[i].name, '/') != NULL ? strrchr(bed_zones[i].name, '/') + 1
                                                               : bed_zones[i].name);
        bed_file(&bed_zones[i], &b);
        put(arg, name, (struct fr_str){b.p, b.n});
        fr_buf_finish(&b);
    }
}

static int open_none(const char *path, int flags, mode_t mode)
{
    const char *rest = path + strlen("/zones/");

    (void)mode;
    (void)flags;
    fuzz_want(fr_has_prefix(path, "/zones/") && *rest != '/' && *rest != '\0',
              "a file of the database is opened");
    fuzz_want(strstr(path, "..") == NULL && strlen(rest) < FR_ZONE_NAME, "none beside it");
    errno = ENOENT;
    return -1;
}

void fuzz_zone_name(struct fr_str in)
{
    char name[512];
    struct fr_zone zone;
    struct fr_err err = {0};
    enum fr_rc rc;

    (void)snprintf(name, sizeof(name), "%.*s", (int)(in.n < 500 ? in.n : 500), in.p);
    fr_sys.open = open_none;
    rc = fr_zone_load(&zone, "/zones", name, &err);
    fr_sys.open = fr_sys_real.open;
    fuzz_want_err(rc, &err);
    fuzz_want((rc == FR_OK) == (strcmp(name, "UTC") == 0), "UTC alone needs no file");
    fr_zone_finish(&zone);
}
