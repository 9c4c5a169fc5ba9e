/* A clock that was set back: what it had decided ahead of now is decided again. */
#include "engine/timetable/schedules.h"

/* ---- its rows ---- */

/* The occurrences of a decision that seen has passed. false: it has passed none. */
static bool passed(const struct host_schedule *s, const struct occurrences_stored *rows,
                   const struct fr_decided *d, int64_t seen_ms, struct fr_occurrence_row *out)
{
    bool known = !s->other_rule && d->at_ms > s->row.since_ms; /* the rule that it went by */
    struct fr_due beside = {.rule = &s->t->rule,
                            .seen_ms = d->first_ms - 1,
                            .decided = rows->list,
                            .n_decided = rows->n};
    struct fr_decision part = {.first_ms = d->first_ms, .at_ms = d->first_ms, .count = 1};

    if (known ? !fr_undecided_upto(&beside, seen_ms, &part) : d->first_ms > seen_ms)
        return false;
    *out = (struct fr_occurrence_row){.schedule = s->row.id,
                                      .at_ms = part.at_ms,
                                      .first_ms = part.first_ms,
                                      .count = part.count,
                                      .decision = d->fate,
                                      .decided_wall = d->decided_ms,
                                      .note = known ? "" : "and later ones, by its rule of before"};
    return true;
}

/* Of a decision made ahead of now the occurrences up to seen stay decided, those behind it do not.
 */
static enum fr_rc cut(struct fr_store *st, const struct host_schedule *s,
                      struct occurrences_stored *rows, struct fr_decided *d, int64_t seen_ms,
                      struct fr_err *err)
{
    struct fr_decided whole = *d;
    struct fr_occurrence_row left;
    enum fr_rc rc = fr_store_occurrence_drop(st, s->row.id, whole.at_ms, err);

    d->first_ms = INT64_MAX; /* it covers nothing */
    if (rc != FR_OK || !passed(s, rows, &whole, seen_ms, &left))
        return rc;
    d->first_ms = left.first_ms;
    return fr_store_occurrence_add(st, &left, err);
}

static enum fr_rc cut_ahead(struct fr_store *st, const struct host_schedule *s, int64_t seen_ms,
                            int64_t now, struct fr_err *err)
{
    struct occurrences_stored rows = {.schedule = s->row.id, .after_ms = seen_ms};
    struct fr_arena arena = {0};
    enum fr_rc rc = occurrences_read(st, &rows, &arena, err);

    for (size_t i = 0; i < rows.n; i++)
        if (fr_decide_anew(&rows.list[i], now) && rows.list[i].first_ms <= rows.after_ms)
            rows.after_ms = rows.list[i].first_ms - 1;
    if (rc == FR_OK && rows.after_ms < seen_ms) /* those beside it count, too */
        rc = occurrences_read(st, &rows, &arena, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        if (rows.list[i].at_ms > seen_ms && fr_decide_anew(&rows.list[i], now))
            rc = cut(st, s, &rows, &rows.list[i], seen_ms, err);
    fr_arena_finish(&arena);
    return rc;
}

/* ---- schedules ---- */

static bool is_ahead(const struct host_schedule *s, int64_t now)
{
    return s->s != NULL && (s->row.seen_ms > now || s->row.since_ms > now);
}

/* Its rows and its own, in one commit with those of others. */
static enum fr_rc write_back(struct fr_store *st, const struct host_schedule *s, int64_t now,
                             struct fr_err *err)
{
    struct fr_schedule_row row = s->row;
    enum fr_rc rc;

    row.seen_ms = fr_seen_back(s->row.seen_ms, now, &row.since_ms);
    rc = cut_ahead(st, s, row.seen_ms, now, err);
    return rc == FR_OK ? fr_store_schedule_set(st, &row, err) : rc;
}

static void take_back(struct host_schedules *all, struct host_schedule *s, int64_t now)
{
    s->other_rule = false;
    s->turn++; /* what was decided with the other clock is not to be committed */
    if (!is_ahead(s, now))
        return;
    s->row.seen_ms = fr_seen_back(s->row.seen_ms, now, &s->row.since_ms);
    schedules_rearm(all, s);
}

enum fr_rc clock_rollback(struct host_schedules *all, struct fr_err *err)
{
    struct fr_store *st = all->host->env.store;
    int64_t now = fr_sys.wall_ms();
    size_t at = all->back_at;
    enum fr_rc rc = FR_OK;
    bool open = false;

    for (; rc == FR_OK && at < all->n; at++) {
        if (schedules_spent(all, at - all->back_at))
            break;
        if (!all->list[at]->stored || !is_ahead(all->list[at], now))
            continue;
        rc = open ? FR_OK : fr_store_begin(st, err);
        open = open || rc == FR_OK;
        rc = rc == FR_OK ? write_back(st, all->list[at], now, err) : rc;
    }
    if (open)
        rc = fr_store_end(st, rc, err);
    if (rc != FR_OK)
        return rc;
    while (all->back_at < at)
        take_back(all, all->list[all->back_at++], now);
    all->back = at < all->n;
    return FR_OK;
}
