/*
 * The Gregorian calendar, and times as people write them. A wall time is the reading of a clock on
 * the wall, as seconds since 1970-01-01 00:00 of the same clock; with an offset from UTC it names
 * an instant, seconds since 1970 in UTC. Leap seconds do not exist here, as in POSIX.
 */
#ifndef FR_SCHEDULE_CALENDAR_H
#define FR_SCHEDULE_CALENDAR_H

#include "engine/base/str.h"

enum {
    FR_DAY_S = 86400,
    FR_CYCLE_DAYS = 146097, /* 400 years: the calendar repeats, weekdays too */
    FR_YEAR_MIN = 1970,     /* of times that people write */
    FR_YEAR_MAX = 9999
};

struct fr_date {
    int year, month, day; /* 1..12, 1..31 */
};

int64_t fr_date_day(struct fr_date date); /* days since 1970-01-01; any day is carried over */
struct fr_date fr_day_date(int64_t day);
int fr_day_weekday(int64_t day); /* 0: Sunday */
int fr_month_days(int year, int month);

/* floor(a / b) for b > 0. */
int64_t fr_div_down(int64_t a, int64_t b);

/* A time as written: a wall time in a zone given elsewhere, or, with Z or an offset, an instant. */
struct fr_when {
    int64_t s;
    bool instant;
};

/* "2026-12-01", its midnight, "2026-12-01T06:30", "2026-12-01 06:30:15", each time also with "Z",
 * "+01:00" or "-0500". FR_USAGE else. */
enum fr_rc fr_when_parse(struct fr_str text, struct fr_when *out, struct fr_err *err);

enum { FR_TIME_TEXT = 40 };

/* The instant s at an offset: "2026-12-01T06:30:00+01:00", with "Z" at offset 0. */
void fr_time_text(int64_t s, int32_t offset_s, char out[FR_TIME_TEXT]);
/* For people: "2026-12-01 06:30", seconds only where they are not 0. */
void fr_wall_text(int64_t wall_s, char out[FR_TIME_TEXT]);

#endif
