/*
 * Zones for the tests of engine/schedule, made from their rules, so that they need no database and
 * no later version of it changes a result.
 */
#ifndef TESTS_UNIT_SCHEDULE_BED_H
#define TESTS_UNIT_SCHEDULE_BED_H

#include "engine/base/file.h"
#include "engine/schedule/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bed_zone {
    const char *name, *footer;
    struct { /* times in UTC, offsets in minutes; the first row has the first offset alone */
        const char *at;
        int minutes;
    } table[12];
};

/* What the IANA database says of them in the years that the tests look at. */
enum { BED_ZONES = 16 };
extern const struct bed_zone bed_zones[BED_ZONES];

/* An instant in seconds, "2026-03-08T07:30Z"; "Z" may be left out. */
int64_t bed_time(const char *text);
void bed_put(struct fr_buf *b, uint64_t v, int bytes);
void bed_header(struct fr_buf *b, uint32_t times, uint32_t types);
/* The file of a zone: a type of its own for each row of the table. */
void bed_file(const struct bed_zone *z, struct fr_buf *b);
/* Writes the zones as a database below folder, a folder that is there. */
void bed_database(const char *folder);
/* The zone of that name; the caller finishes it. */
struct fr_zone bed_zone(const char *name);
struct fr_cron bed_cron(const char *text, enum fr_cron_days days);
struct fr_rule bed_rule(const char *text, const struct fr_zone *zone);
/* A generator of the test's own: Marsaglia's xorshift64. */
uint64_t bed_draw(uint64_t *state, uint64_t below);

#endif
