/* Schedules of a pipeline as text, with the next times at which they fire. */
#include "engine/cli/fires.h"

#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 3 };

void cli_fire_text(const struct fr_zone *zone, int64_t ms, char out[CLI_FIRE_TEXT])
{
    int64_t s = fr_div_down(ms, 1000);
    int32_t offset = fr_zone_offset(zone, s);
    char wall[FR_TIME_TEXT], utc[FR_TIME_TEXT];

    fr_wall_text(s + offset, wall);
    fr_wall_text(s, utc);
    if (zone->name[0] != '\0' && strcmp(zone->name, "UTC") != 0)
        snprintf(out, CLI_FIRE_TEXT, "%s %s = %s UTC", wall, zone->name, utc);
    else
        snprintf(out, CLI_FIRE_TEXT, "%s UTC", utc);
}

static void print_fires(const struct fr_timetable *t, const struct fr_schedule *s, int64_t now_ms)
{
    int64_t at = now_ms, n = 0;
    char length[24], time[CLI_FIRE_TEXT];

    for (; n < SHOWN && fr_rule_next(&t->rule, at, &at); n++) {
        cli_fire_text(&t->zone, at, time);
        fr_print("    %s\n", time);
    }
    if (n == 0)
        fr_print("    finished: no further time\n");
    fr_show_duration(s->jitter_ms, length);
    if (s->jitter_ms > 0 && n > 0)
        fr_print("    each later by a fixed delay of less than %s\n", length);
}

enum fr_rc cli_print_schedules(const struct fr_spec *spec, const struct fr_zones *zones,
                               struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < spec->n_schedules; i++) {
        struct fr_timetable t;
        struct fr_buf b = {0};

        if ((rc = fr_timetable_open(&t, &spec->schedules[i], zones, err)) == FR_OK) {
            fr_rule_words(&t.rule, &b);
            if (!b.bad)
                fr_print("schedule %s: %s\n", spec->schedules[i].name, b.p);
            print_fires(&t, &spec->schedules[i], zones->now_ms);
        }
        fr_buf_finish(&b);
        fr_timetable_close(&t);
    }
    if (rc == FR_OK && spec->n_schedules > 0)
        fr_print("'flowrun serve FOLDER' starts the pipelines in FOLDER at these times\n");
    return rc;
}
