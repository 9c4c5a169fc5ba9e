/* From a schedule as written to the instants at which it fires. */
#include "engine/spec/schedule.h"

#include "engine/base/sys.h"

#include <stdlib.h>

enum { JITTER_FIRES = 1000 };

static int by_time(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The instants of at:, in order, each once. */
static enum fr_rc list_instants(struct fr_timetable *t, const struct fr_schedule *s,
                                struct fr_err *err)
{
    size_t n = 0;

    if ((t->at = fr_sys.alloc((s->n_at + 1) * sizeof(*t->at))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a schedule");
    for (size_t i = 0; i < s->n_at; i++)
        t->at[i] = fr_zone_instant(&t->zone, s->at[i]) * 1000;
    if (s->n_at > 0)
        qsort(t->at, s->n_at, sizeof(*t->at), by_time);
    for (size_t i = 0; i < s->n_at; i++)
        if (n == 0 || t->at[i] != t->at[n - 1])
            t->at[n++] = t->at[i];
    t->rule.at = t->at;
    t->rule.n_at = n;
    return FR_OK;
}

static enum fr_rc check(const struct fr_timetable *t, const struct fr_schedule *s, int64_t now_ms,
                        struct fr_err *err)
{
    int64_t fire, shortest;
    char length[24];

    if (t->rule.start_ms >= t->rule.end_ms)
        return fr_fail(err, FR_USAGE, "its end is not behind its start");
    if (s->has_end && !fr_rule_prev(&t->rule, t->rule.end_ms, &fire))
        return fr_fail(err, FR_USAGE, "it never fires between its start and its end");
    if (s->jitter_ms == 0)
        return FR_OK;
    shortest = fr_rule_shortest(&t->rule, now_ms, JITTER_FIRES);
    if (s->jitter_ms < shortest)
        return FR_OK;
    fr_show_duration(shortest, length);
    return fr_fail(err, FR_USAGE, "its jitter is not below the shortest distance of its fires, %s",
                   length);
}

enum fr_rc fr_timetable_open(struct fr_timetable *out, const struct fr_schedule *s,
                             const struct fr_zones *zones, struct fr_err *err)
{
    const char *name = s->zone != NULL ? s->zone : zones->home != NULL ? zones->home : "UTC";
    enum fr_rc rc;

    *out = (struct fr_timetable){.at = NULL};
    if ((rc = fr_zone_load(&out->zone, zones->folder, name, err)) != FR_OK)
        return rc;
    out->rule = (struct fr_rule){.kind = s->kind,
                                 .zone = &out->zone,
                                 .cron = s->cron,
                                 .every_ms = s->every_ms,
                                 .start_ms = FR_NO_START,
                                 .end_ms = FR_NO_END};
    if (s->has_start)
        out->rule.start_ms = out->rule.anchor_ms = fr_zone_instant(&out->zone, s->start) * 1000;
    if (s->has_end)
        out->rule.end_ms = fr_zone_instant(&out->zone, s->end) * 1000;
    if (s->kind == FR_RULE_AT)
        rc = list_instants(out, s, err);
    return rc == FR_OK ? check(out, s, zones->now_ms, err) : rc;
}

void fr_timetable_close(struct fr_timetable *t)
{
    if (t == NULL)
        return;
    fr_zone_finish(&t->zone);
    fr_sys.free(t->at);
    *t = (struct fr_timetable){.at = NULL};
}
