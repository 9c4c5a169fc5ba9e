/* What becomes of the instants of a schedule that are due. */
#include "engine/timetable/schedules.h"

#include "engine/admit/admit.h"
#include "engine/base/log.h"
#include "engine/metrics/meters.h"
#include "engine/view/queue.h"

#include <inttypes.h>

enum { REASON_BYTES = 2000 }; /* of a pipeline that cannot be loaded */

/* An instant whose run is being made. Its texts live in its arena. */
struct host_occurrence {
    struct host_schedules *all;
    struct host_schedule *s;
    uint32_t turn; /* of the schedule when it was decided */
    struct fr_arena arena;
    struct fr_occurrence_row *rows; /* decided before it, in the same commit */
    size_t n;
    struct fr_occurrence_row row;
    enum fr_origin origin;
    int64_t supersede; /* number of the waiting run that makes room for it; 0: none */
    enum { OCCURRENCE_MAKES, OCCURRENCE_RAN, OCCURRENCE_DECIDED, OCCURRENCE_STALE } what;
};

/* ---- the state of a schedule ---- */

enum fr_rc occurrences_read(struct fr_store *st, struct occurrences_stored *of,
                            struct fr_arena *arena, struct fr_err *err)
{
    struct fr_occurrence_rows rows = {0};
    enum fr_rc rc = fr_store_occurrences_after(st, of->schedule, of->after_ms, arena, &rows, err);

    of->n = 0;
    if (rc != FR_OK || rows.n == 0)
        return rc;
    if ((of->list = fr_arena_array(arena, rows.n, sizeof(*of->list))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a schedule");
    for (; of->n < rows.n; of->n++) {
        const struct fr_occurrence_row *row = &rows.rows[of->n];

        of->list[of->n] =
            (struct fr_decided){row->decision, row->first_ms, row->at_ms, row->decided_wall};
    }
    return FR_OK;
}

enum fr_rc occurrences_state(struct host_schedules *all, const struct host_schedule *s,
                             struct fr_arena *arena, struct fr_due *out, struct fr_err *err)
{
    struct occurrences_stored behind = {.schedule = s->row.id, .after_ms = s->row.seen_ms};
    enum fr_rc rc = occurrences_read(all->host->env.store, &behind, arena, err);

    *out = (struct fr_due){.rule = &s->t->rule,
                           .seen_ms = s->row.seen_ms,
                           .now_ms = fr_sys.wall_ms(),
                           .delay_ms = s->delay_ms,
                           .grace_ms = s->s->grace_ms,
                           .catchup = s->s->catchup,
                           .limit = (size_t)s->s->catchup_limit,
                           .paused = s->row.state == FR_SCHEDULE_PAUSED,
                           .decided = behind.list,
                           .n_decided = behind.n};
    return rc;
}

/* ---- beside live runs ---- */

static enum fr_rc beside(struct host_schedules *all, const struct host_schedule *s,
                         enum fr_origin origin, struct fr_arena *arena, struct fr_overlap_out *out,
                         struct fr_err *err)
{
    struct fr_overlap_of of = {.policy = s->s->overlap,
                               .schedule = fr_queue_key(arena, s->row.id),
                               .origin = origin,
                               .queue_max = s->s->queue_max};
    struct fr_run_rows rows = {0};
    enum fr_rc rc = fr_store_runs_live(all->host->env.store, arena, &rows, err);

    if (rc == FR_OK)
        rc = queue_live(all->host, &rows, s->row.pipeline, arena, &of, err);
    if (rc == FR_OK && of.schedule == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for live runs");
    if (rc == FR_OK)
        *out = fr_overlap_enter(&of);
    return rc;
}

/* Of several that catch up the newest may be in time: it is one of them where the one before was
 * decided when it was due already. */
static enum fr_origin origin_of(struct host_schedules *all, const struct host_schedule *s,
                                const struct fr_decision *d, struct fr_arena *arena)
{
    struct fr_occurrence_page before = {s->row.id, d->at_ms, 1};
    struct fr_occurrence_rows rows = {0};

    if (d->late)
        return FR_ORIGIN_CATCHUP;
    if (s->s->catchup != FR_CATCHUP_ALL ||
        fr_store_occurrences_before(all->host->env.store, &before, arena, &rows, NULL) != FR_OK ||
        rows.n == 0 || rows.rows[0].decision != FR_FATE_RAN)
        return FR_ORIGIN_SCHEDULE;
    return rows.rows[0].decided_wall >= d->at_ms + s->delay_ms ? FR_ORIGIN_CATCHUP
                                                               : FR_ORIGIN_SCHEDULE;
}

/* ---- decisions without a run ---- */

/* Of one that is committed. */
static void tell(struct fr_host *host, const struct host_schedule *s,
                 const struct fr_occurrence_row *row)
{
    char at[FR_TIME_TEXT];

    meters_occurrence(host->meters, row->decision, row->decided_wall - row->at_ms);
    fr_time_text(fr_div_down(row->at_ms, 1000), 0, at);
    fr_log(FR_LOG_INFO, "schedules", "%s/%s: %s at=%s count=%lld run=%lld%s%s", s->row.pipeline,
           s->row.name, fr_fate_name(row->decision), at, (long long)row->count, (long long)row->run,
           row->note[0] != '\0' ? " " : "", row->note);
}

static struct fr_occurrence_row row_of(const struct host_schedule *s, const struct fr_decision *d)
{
    return (struct fr_occurrence_row){.schedule = s->row.id,
                                      .at_ms = d->at_ms,
                                      .first_ms = d->first_ms,
                                      .count = d->count,
                                      .decision = d->fate,
                                      .decided_wall = fr_sys.wall_ms(),
                                      .note = ""};
}

static enum fr_rc add_rows(struct fr_store *st, const struct fr_occurrence_row *rows, size_t n,
                           struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < n; i++)
        rc = fr_store_occurrence_add(st, &rows[i], err);
    return rc;
}

/* Into the transaction of the batch. */
static enum fr_rc add_decided(struct occurrences_batch *batch, struct host_schedule *s,
                              const struct host_occurrence *what, int64_t seen_ms,
                              struct fr_err *err)
{
    struct fr_store *st = batch->all->host->env.store;
    enum fr_rc rc = batch->n > 0 ? FR_OK : fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    batch->list[batch->n++] = (struct occurrences_decided){s, seen_ms, what->rows[what->n - 1]};
    if ((rc = add_rows(st, what->rows, what->n, err)) == FR_OK)
        rc = fr_store_schedule_seen(st, s->row.id, seen_ms, err);
    return rc;
}

enum fr_rc occurrences_commit(struct occurrences_batch *batch, enum fr_rc rc, struct fr_err *err)
{
    if (batch->n == 0)
        return rc;
    rc = fr_store_end(batch->all->host->env.store, rc, err);
    for (size_t i = 0; i < batch->n; i++) {
        struct occurrences_decided *d = &batch->list[i];

        if (rc != FR_OK) {
            schedules_retry(batch->all, d->s);
            continue;
        }
        d->s->row.seen_ms = d->seen_ms;
        d->s->backoff_ms = 0;
        tell(batch->all->host, d->s, &d->newest);
        schedules_rearm(batch->all, d->s);
    }
    batch->n = 0;
    return rc;
}

/* ---- decisions with a run ---- */

static void free_occurrence(struct host_occurrence *f)
{
    f->s->occurrence = NULL;
    f->all->making--;
    fr_arena_finish(&f->arena);
    fr_sys.free(f);
}

void occurrences_forget(struct host_schedule *s)
{
    if (s->occurrence != NULL)
        free_occurrence(s->occurrence);
}

static enum fr_rc begin_run(struct host_occurrence *f, struct fr_err *err)
{
    struct host_making what = {.s = f->s,
                               .origin = f->origin,
                               .at_ms = f->row.at_ms,
                               .priority = f->s->s->priority,
                               .occurrence = f};

    return schedules_make(f->all->host, &what, err);
}

/* rows are decided together with it. */
static enum fr_rc begin(struct host_schedules *all, struct host_schedule *s,
                        const struct host_occurrence *what, struct fr_err *err)
{
    struct host_occurrence *f = fr_sys.alloc(sizeof(*f));
    enum fr_rc rc = FR_OK;

    if (f == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    *f = (struct host_occurrence){.all = all,
                                  .s = s,
                                  .turn = s->turn,
                                  .n = what->n,
                                  .row = what->row,
                                  .origin = what->origin};
    s->occurrence = f;
    all->making++;
    f->rows = fr_arena_array(&f->arena, what->n + 1, sizeof(*f->rows));
    if (f->rows == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a run");
    for (size_t i = 0; rc == FR_OK && i < what->n; i++) {
        f->rows[i] = what->rows[i];
        if ((f->rows[i].note = fr_arena_dup(&f->arena, what->rows[i].note)) == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a run");
    }
    if (rc == FR_OK)
        rc = begin_run(f, err);
    if (rc != FR_OK)
        free_occurrence(f);
    return rc;
}

enum fr_rc occurrences_decide(struct occurrences_batch *batch, struct host_schedule *s,
                              struct fr_err *err)
{
    struct host_schedules *all = batch->all;
    struct fr_arena arena = {0};
    struct fr_due due;
    struct fr_decision *list;
    struct host_occurrence f = {0};
    int64_t seen = 0;
    size_t n = 0;
    enum fr_rc rc = occurrences_state(all, s, &arena, &due, err);

    list = fr_arena_array(&arena, (size_t)s->s->catchup_limit + 1, sizeof(*list));
    f.rows = fr_arena_array(&arena, (size_t)s->s->catchup_limit + 1, sizeof(*f.rows));
    if (rc == FR_OK && (list == NULL || f.rows == NULL))
        rc = fr_fail(err, FR_NOMEM, "no memory for a schedule");
    if (rc == FR_OK)
        n = fr_decide(&due, list, &seen);
    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        struct fr_overlap_out o = {.act = FR_SKIP};

        f.row = row_of(s, &list[i]);
        f.origin = origin_of(all, s, &list[i], &arena);
        if (list[i].fate == FR_FATE_RAN)
            rc = beside(all, s, f.origin, &arena, &o, err);
        if (rc == FR_OK && o.act == FR_ENTER) {
            rc = begin(all, s, &f, err);
            goto out;
        }
        if (list[i].fate == FR_FATE_RAN) {
            f.row.decision = FR_FATE_SKIPPED;
            f.row.run = o.by;
        }
        f.rows[f.n++] = f.row;
    }
    if (rc == FR_OK && n > 0)
        rc = add_decided(batch, s, &f, seen, err);
out:
    fr_arena_finish(&arena);
    return rc;
}

/* ---- its commit ---- */

/* One of its instants has a row by now, as of a backfill. */
static enum fr_rc look_taken(const struct host_occurrence *f, struct fr_arena *arena, bool *taken,
                             struct fr_err *err)
{
    struct fr_occurrence_rows rows = {0};
    enum fr_rc rc = fr_store_occurrences_after(f->all->host->env.store, f->s->row.id,
                                               f->s->row.seen_ms, arena, &rows, err);

    *taken = false;
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        *taken = *taken || rows.rows[i].at_ms == f->row.at_ms;
        for (size_t k = 0; k < f->n; k++)
            *taken = *taken || rows.rows[i].at_ms == f->rows[k].at_ms;
    }
    return rc;
}

static enum fr_rc decide_again(struct host_occurrence *f, const struct fr_run *run,
                               struct fr_arena *arena, struct fr_err *err)
{
    struct host_schedules *all = f->all;
    struct fr_overlap_out o = {0};
    bool wait = false, taken = false;
    enum fr_rc rc = look_taken(f, arena, &taken, err);

    f->what = OCCURRENCE_STALE;
    if (rc != FR_OK || taken || f->turn != f->s->turn || f->s->dirty || f->s->s == NULL ||
        fr_run_schedule(run) == NULL)
        return rc;
    f->what = OCCURRENCE_DECIDED;
    f->row.decision = FR_FATE_SKIPPED;
    if ((rc = queue_ask(all->host, fr_run_spec(run), INT64_MAX, &wait, err)) == FR_BUSY) {
        f->row.note = fr_arena_dup(&f->arena, err->msg);
        return f->row.note != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a decision");
    }
    if (rc != FR_OK || (rc = beside(all, f->s, f->origin, arena, &o, err)) != FR_OK)
        return rc;
    f->row.run = o.act == FR_SKIP ? o.by : 0;
    f->supersede = o.act == FR_SKIP ? 0 : o.supersede;
    if (o.act == FR_ENTER) {
        f->what = OCCURRENCE_RAN;
        f->row.decision = FR_FATE_RAN;
    }
    return FR_OK;
}

static enum fr_rc enter(void *arg, const struct fr_run *run, bool *enters, struct fr_err *err)
{
    struct host_occurrence *f = arg;
    struct fr_store *st = f->all->host->env.store;
    struct fr_arena arena = {0};
    enum fr_rc rc = decide_again(f, run, &arena, err);

    fr_arena_finish(&arena);
    *enters = f->what == OCCURRENCE_RAN;
    if (rc != FR_OK || f->what == OCCURRENCE_STALE)
        return rc;
    rc = add_rows(st, f->rows, f->n, err);
    if (rc == FR_OK && f->what == OCCURRENCE_DECIDED)
        rc = fr_store_occurrence_add(st, &f->row, err);
    return rc == FR_OK ? fr_store_schedule_seen(st, f->s->row.id, f->row.at_ms, err) : rc;
}

/* The run that waits makes room: its instant says for which one. */
static enum fr_rc set_superseded(struct host_occurrence *f, struct fr_err *err)
{
    struct host_run *h = host_find_no(f->all->host, f->supersede);
    const struct fr_run_row *old = h != NULL ? fr_run_record(h->run) : NULL;
    char note[40];
    struct fr_occurrence_row row = {
        .decision = FR_FATE_SUPERSEDED, .run = f->supersede, .note = note};

    if (old == NULL)
        return FR_OK; /* nobody drives it: it does not start either */
    snprintf(note, sizeof(note), "by run %lld", (long long)f->row.run);
    row.schedule = old->schedule;
    row.at_ms = old->at_ms;
    return fr_store_occurrence_set(f->all->host->env.store, &row, err);
}

static enum fr_rc put(void *arg, int64_t no, struct fr_err *err)
{
    struct host_occurrence *f = arg;
    enum fr_rc rc;

    f->row.run = no;
    rc = fr_store_occurrence_add(f->all->host->env.store, &f->row, err);
    return rc == FR_OK && f->supersede != 0 ? set_superseded(f, err) : rc;
}

/* ---- behind it ---- */

/* What is said of a pipeline that cannot be loaded. */
static void say_wrong(const struct fr_issues *issues, const struct fr_err *err, struct fr_buf *out)
{
    for (size_t i = 0; i < issues->n && out->n < REASON_BYTES; i++)
        fr_buf_fmt(out, "%s%s", i > 0 ? "; " : "", issues->lines[i]);
    if (issues->n == 0)
        fr_buf_text(out, err->msg);
}

/* A run that has failed already, so that it is seen where runs are. */
static enum fr_rc add_failed(struct host_occurrence *f, const char *reason, struct fr_err *err)
{
    int64_t now = fr_sys.wall_ms();
    struct fr_run_row run = {.name = f->s->row.pipeline,
                             .source = f->s->file->path,
                             .folder = "/",
                             .params = "{}",
                             .state = FR_RUN_RUNNING,
                             .origin = f->origin,
                             .who = f->s->row.name,
                             .schedule = f->s->row.id,
                             .at_ms = f->row.at_ms,
                             .started_wall = now,
                             .queued_wall = now,
                             .round = 1};
    struct fr_event_row ev = {
        .wall = now, .idx = -1, .kind = "over", .cause = "failed", .text = reason};
    struct fr_store *st = f->all->host->env.store;
    enum fr_rc rc = fr_id_new(&run.id, err);

    if (rc == FR_OK && (rc = fr_store_run_add(st, &run, err)) == FR_OK &&
        (rc = fr_store_event_add(st, run.id, &ev, err)) == FR_OK) {
        f->row.run = run.no;
        rc = fr_store_occurrence_add(st, &f->row, err);
    }
    run.state = FR_RUN_OVER;
    run.outcome = FR_OUT_FAILED;
    run.reason = reason;
    run.ended_wall = now;
    return rc == FR_OK ? fr_store_run_set(st, &run, err) : rc;
}

static enum fr_rc commit_invalid(struct host_occurrence *f, const char *reason, struct fr_err *err)
{
    struct fr_store *st = f->all->host->env.store;
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    f->row.decision = FR_FATE_INVALID;
    f->row.note = reason;
    if ((rc = add_rows(st, f->rows, f->n, err)) == FR_OK &&
        (rc = add_failed(f, reason, err)) == FR_OK)
        rc = fr_store_schedule_seen(st, f->s->row.id, f->row.at_ms, err);
    return fr_store_end(st, rc, err);
}

static bool is_of_file(enum fr_rc rc)
{
    return rc == FR_USAGE || rc == FR_CORRUPT || rc == FR_UNSUPPORTED || rc == FR_DENIED;
}

static void settle(struct host_occurrence *f)
{
    struct host_schedule *s = f->s;
    struct host_run *waiting = host_find_no(f->all->host, f->supersede);

    s->row.seen_ms = f->row.at_ms;
    s->backoff_ms = 0;
    for (size_t i = 0; i < f->n; i++)
        tell(f->all->host, s, &f->rows[i]);
    tell(f->all->host, s, &f->row);
    if (f->what == OCCURRENCE_RAN && waiting != NULL) {
        fr_run_say(waiting->run, "a newer run of its schedule takes its place");
        fr_run_cancel(waiting->run);
    }
    host_changed(f->all->host, HOST_QUEUE);
    host_changed(f->all->host, HOST_SCHEDULES);
}

static void over(void *arg, const struct fr_issues *issues, const struct fr_err *why)
{
    struct host_occurrence *f = arg;
    struct host_schedules *all = f->all;
    struct host_schedule *s = f->s;
    struct fr_err err = *why;
    struct fr_buf reason = {0};
    bool again = err.rc != FR_OK;

    if (is_of_file(err.rc) && f->turn == s->turn && s->s != NULL) {
        say_wrong(issues, &err, &reason);
        f->what = OCCURRENCE_DECIDED;
        s->ended = all->ended = true;
        again = reason.bad || commit_invalid(f, reason.p, &err) != FR_OK;
    }
    if (again) {
        fr_log(FR_LOG_WARN, "schedules", "%s/%s is decided later: %s", s->row.pipeline, s->row.name,
               err.msg);
        schedules_look_soon(all, 0);
    } else if (f->what != OCCURRENCE_STALE) {
        settle(f);
    }
    fr_buf_finish(&reason);
    bool stale = f->what == OCCURRENCE_STALE;
    free_occurrence(f);
    all->host->woken = true;
    if (again || stale)
        schedules_retry(all, s);
    else
        schedules_rearm(all, s);
}

const struct make_for of_occurrence = {.enter = enter, .put = put, .over = over};
