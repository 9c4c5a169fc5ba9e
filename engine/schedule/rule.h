/*
 * When a schedule fires: a cron expression in a zone, a period, or a list of instants; within
 * [start, end). Pure: the caller says which time it is. Instants are milliseconds since 1970, UTC.
 *
 * Daylight saving (RFC 5545, section 3.3.5): a wall time that does not exist is read with the
 * offset before the gap, so 02:30 fires as 03:30 on that day; one that exists twice fires once, the
 * first time. An expression whose hour field holds all 24 hours fires in both passes of a repeated
 * hour. Two names of one instant are one occurrence.
 */
#ifndef FR_SCHEDULE_RULE_H
#define FR_SCHEDULE_RULE_H

#include "engine/schedule/cron.h"
#include "engine/schedule/zone.h"

enum { FR_EVERY_MIN_MS = 10000 };

enum fr_rule_kind { FR_RULE_CRON, FR_RULE_EVERY, FR_RULE_AT };

struct fr_rule { /* borrows: zone, at */
    enum fr_rule_kind kind;
    const struct fr_zone *zone;
    struct fr_cron cron;
    int64_t every_ms, anchor_ms; /* EVERY: at anchor + k × every, also before the anchor */
    const int64_t *at;           /* AT: n instants, ascending, each once */
    size_t n_at;
    int64_t start_ms, end_ms; /* start <= occurrence < end; FR_NO_START, FR_NO_END */
};

#define FR_NO_START INT64_MIN
#define FR_NO_END INT64_MAX

/* The first occurrence after an instant, the last one before it. false: there is none. A call takes
 * less than a millisecond. */
bool fr_rule_next(const struct fr_rule *rule, int64_t after_ms, int64_t *at_ms);
bool fr_rule_prev(const struct fr_rule *rule, int64_t before_ms, int64_t *at_ms);
/* How many occurrences lie in (after, upto], without visiting each. */
int64_t fr_rule_count(const struct fr_rule *rule, int64_t after_ms, int64_t upto_ms);
/* Whether cron fires at an instant in seconds: the definition for next, prev and count. */
bool fr_rule_fires(const struct fr_cron *cron, const struct fr_zone *zone, int64_t t);

/* The shortest distance between any two of the next n occurrences; FR_NO_END when there are not
 * two. */
int64_t fr_rule_shortest(const struct fr_rule *rule, int64_t after_ms, size_t n);

/* The fixed delay of a schedule's occurrences, 0 <= delay < jitter. It is drawn from the names, so
 * that it differs between schedules and homes and stays over restarts: the first 8 bytes, big end
 * first, of SHA-256 over "flowrun-jitter-1", home, pipeline and schedule, joined by NUL. */
struct fr_jitter_of {
    const char *home; /* 32 hexadecimal digits */
    const char *pipeline, *schedule;
};
int64_t fr_jitter_ms(const struct fr_jitter_of *of, int64_t jitter_ms);

/* Appends the rule in words: "every day at 02:30 in Europe/Berlin". */
void fr_rule_words(const struct fr_rule *rule, struct fr_buf *out);

#endif
