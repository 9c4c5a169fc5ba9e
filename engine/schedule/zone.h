/*
 * Time zones of the IANA database: which offset from UTC holds at an instant, and when it changes.
 * A zone is a value: nothing here reads the environment or the machine's own zone. The file is TZif
 * of version 2 or later (RFC 9636): its 64-bit table, then the rule in its footer (POSIX TZ) for
 * all later times.
 *
 * Only offsets count. The daylight-saving flag of a file is ignored (Dublin sets it in winter), and
 * so is a transition without a change of the offset. Instants (t, at) are seconds since 1970.
 */
#ifndef FR_SCHEDULE_ZONE_H
#define FR_SCHEDULE_ZONE_H

#include "engine/schedule/calendar.h"

enum { FR_ZONE_NAME = 65, FR_ZONE_MAX_BYTES = 1 << 20 };

#define FR_ZONE_FOLDER "/usr/share/zoneinfo"

struct fr_zone_change { /* at: the first second with the offset after */
    int64_t at;
    int32_t before, after; /* seconds east of UTC; they differ */
};

/* A day of each year in the form that the footer has it, and a time on that day. */
struct fr_zone_day {
    enum { FR_ZONE_WEEKDAY, FR_ZONE_JULIAN, FR_ZONE_ORDINAL } kind;
    int month, week; /* WEEKDAY: week 1..5, 5 the last */
    int day; /* WEEKDAY: 0..6, 0 Sunday; JULIAN: 1..365 without 29 February; ORDINAL: 0..365 */
    int32_t time_s; /* -167 h … 167 h */
};

struct fr_zone { /* UTC when zeroed; fr_zone_finish frees it */
    char name[FR_ZONE_NAME];
    int32_t first;                  /* offset before the first change */
    struct fr_zone_change *changes; /* owns: n, ascending */
    size_t n;
    bool summer;      /* after the last change the offset alternates: */
    int32_t std, dst; /* dst from the day `start` (clock: std) to the day `end` (clock: dst) */
    struct fr_zone_day start, end;
    int64_t table_end; /* the rule holds from here on */
    struct {           /* which file it was read from, all 0 for UTC */
        uint64_t inode;
        int64_t size, mtime_ns;
    } file;
};

/* Reads zone `name` from below folder (NULL: FR_ZONE_FOLDER). UTC needs no file. FR_USAGE: no such
 * zone, or a path, an abbreviation or an offset; the message names the remedy. FR_NOTFOUND: the
 * machine has no database. FR_CORRUPT: the file is no TZif file. */
enum fr_rc fr_zone_load(struct fr_zone *zone, const char *folder, const char *name,
                        struct fr_err *err);
/* The same from the bytes of a file. */
enum fr_rc fr_zone_parse(struct fr_zone *zone, const char *name, struct fr_str bytes,
                         struct fr_err *err);
void fr_zone_finish(struct fr_zone *zone);

/* Whether the file was replaced since it was read; false too if it cannot be checked. */
bool fr_zone_replaced(const struct fr_zone *zone, const char *folder);

/* The newest change at or before t; false: there is none. */
bool fr_zone_before(const struct fr_zone *zone, int64_t t, struct fr_zone_change *out);
/* The oldest change after t; false: there is none. */
bool fr_zone_after(const struct fr_zone *zone, int64_t t, struct fr_zone_change *out);
/* The offset from UTC that holds at t, in seconds east. */
int32_t fr_zone_offset(const struct fr_zone *zone, int64_t t);

/* The instant that a written time names (RFC 5545, section 3.3.5): one that does not exist is read
 * with the offset before the gap, one that exists twice is its first. */
int64_t fr_zone_instant(const struct fr_zone *zone, struct fr_when when);

/* For zone.c and its parts. */

/* Reads the rule of a footer, "CET-1CEST,M3.5.0,M10.5.0/3", into zone. */
enum fr_rc fr_zone_read_footer(struct fr_zone *zone, struct fr_str text, struct fr_err *err);
/* The change by the rule nearest to t: the newest at or before it, or the oldest after it. */
bool fr_zone_rule_change(const struct fr_zone *zone, int64_t t, bool after,
                         struct fr_zone_change *out);

#endif
