/*
 * The schedules of a pipeline: schedule: of its file, one or a list, and the rule of each on this
 * machine.
 */
#ifndef FR_SPEC_SCHEDULE_H
#define FR_SPEC_SCHEDULE_H

#include "engine/schedule/decide.h"
#include "engine/spec/expr.h"

enum { FR_SCHEDULE_NAME = 63, FR_SCHEDULES_MAX = 100, FR_SCHEDULE_AT_MAX = 1000 };

struct fr_schedule {  /* in the spec's arena */
    const char *name; /* unique in its file; "default" where the file has one without */
    struct fr_pos pos;
    enum fr_rule_kind kind;
    const char *cron_text; /* CRON: as written */
    struct fr_cron cron;
    int64_t every_ms;         /* EVERY */
    const struct fr_when *at; /* AT: n_at, as written */
    size_t n_at;
    struct fr_when start, end; /* where said */
    bool has_start, has_end;
    const char *zone; /* NULL: the zone of the home */
    int64_t jitter_ms, grace_ms;
    enum fr_catchup catchup;
    int catchup_limit;
    enum fr_overlap overlap;
    int queue_max;
    int priority;
    int pause_after;           /* failed runs in a row; 0: never */
    const char *const *params; /* "name=value", as -p gives them; paths count from the file */
    size_t n_params;
};

/* Where zones come from. */
struct fr_zones {
    const char *folder; /* of the database; NULL: FR_ZONE_FOLDER */
    const char *home;   /* the zone of schedules that name none; NULL: UTC */
    int64_t now_ms;     /* the wall clock: jitter is compared with the next fires */
};

struct fr_timetable { /* a schedule's rule; it points into itself: do not copy */
    struct fr_zone zone;
    struct fr_rule rule;
    int64_t *at; /* owns */
};

/* FR_USAGE: the zone is none, it can never fire, or its jitter is not below the distance of its
 * fires; FR_NOTFOUND: no database of zones. s must outlive out, which fr_timetable_close frees also
 * after a failure. */
enum fr_rc fr_timetable_open(struct fr_timetable *out, const struct fr_schedule *s,
                             const struct fr_zones *zones, struct fr_err *err);
void fr_timetable_close(struct fr_timetable *t);

#endif
