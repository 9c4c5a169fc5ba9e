/*
 * Cron expressions: five fields, minute hour day-of-month month day-of-week, as POSIX and cronie's
 * crontab(5) have them, with L, W and # for days and the words @hourly … @yearly. An expression
 * that cron programs read differently is refused; the message has the clear form.
 *
 * An expression speaks of wall times (calendar.h); rule.h says at which instants it fires.
 */
#ifndef FR_SCHEDULE_CRON_H
#define FR_SCHEDULE_CRON_H

#include "engine/schedule/calendar.h"

enum { FR_CRON_MAX_BYTES = 256 };

/* Which days fire if day-of-month and day-of-week are both restricted, that is, neither "*" nor
 * "?". */
enum fr_cron_days {
    FR_DAYS_UNSAID, /* as ANY; refused where one of the two has a step over "*" */
    FR_DAYS_ANY,
    FR_DAYS_ALL
};

enum fr_cron_field {
    FR_CRON_MINUTE,
    FR_CRON_HOUR,
    FR_CRON_DAY,
    FR_CRON_MONTH,
    FR_CRON_WEEKDAY,
    FR_CRON_FIELDS
};

struct fr_cron {
    uint64_t field[FR_CRON_FIELDS]; /* bit v: the value v; Sunday is 0 */
    uint32_t from_last;             /* bit n: L-n, and bit 0: L */
    uint32_t near;                  /* bit n: nW */
    bool near_last;                 /* LW */
    uint8_t last_weekday;           /* bit d: dL */
    uint8_t nth_weekday[7];         /* bit n of [d]: d#n */
    bool day_restricted, weekday_restricted;
    enum fr_cron_days days;
    uint8_t step[FR_CRON_FIELDS]; /* n of "*" "/n" where n does not divide the field; else 0 */
};

/* FR_USAGE: *at is the byte of text that is wrong. */
enum fr_rc fr_cron_parse(struct fr_str text, enum fr_cron_days days, struct fr_cron *out,
                         size_t *at, struct fr_err *err);

/* Whether it fires on some day of some year. */
bool fr_cron_ever(const struct fr_cron *c);
bool fr_cron_every_hour(const struct fr_cron *c);
bool fr_cron_matches(const struct fr_cron *c, int64_t wall_s);

/* The first match in [from, to), the last one, and how many there are. false: there is none. */
bool fr_cron_first(const struct fr_cron *c, int64_t from, int64_t to, int64_t *wall);
bool fr_cron_last(const struct fr_cron *c, int64_t from, int64_t to, int64_t *wall);
int64_t fr_cron_count(const struct fr_cron *c, int64_t from, int64_t to);

/* Appends the expression in words: "every day at 02:30". */
void fr_cron_words(const struct fr_cron *c, struct fr_buf *out);
/* Appends a note on each likely mistake: a step that does not divide its field. */
void fr_cron_notes(const struct fr_cron *c, struct fr_buf *out);

#endif
