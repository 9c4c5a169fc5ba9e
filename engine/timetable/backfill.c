#include "engine/timetable/backfilling.h"
#include "engine/timetable/schedules.h"

#include "engine/admit/admit.h"
#include "engine/base/log.h"

enum {
    LOOK_MS = 60000, /* its file may be served by then; what failed is tried again */
    STEP = 500,      /* instants that one look passes over */
};

bool fr_backfill_next(const struct fr_backfill_row *row, const struct fr_rule *rule, int64_t *at_ms)
{
    if (row->newest != 0)
        return fr_rule_prev(rule, row->cursor_ms, at_ms) && *at_ms >= row->from_ms;
    return fr_rule_next(rule, row->cursor_ms, at_ms) && *at_ms < row->to_ms;
}

bool fr_backfill_wants(const struct fr_backfill_row *row, const struct fr_instant *there)
{
    if (there->word == FR_OUT_LIVE)
        return false;
    if (row->existing == FR_EXISTING_FAILED)
        return there->word == FR_OUT_FAILED;
    return row->existing == FR_EXISTING_ALL || there->word != FR_OUT_SUCCEEDED;
}

/* ---- what users ask for ---- */

static enum fr_rc change(struct fr_store *st, struct fr_backfill_row *row,
                         enum fr_backfill_state state, struct fr_err *err)
{
    if (row->state == FR_BACKFILL_OVER || row->state == FR_BACKFILL_CANCELLED ||
        row->state == state)
        return fr_fail(err, FR_BUSY, "backfill %lld is %s already", (long long)row->id,
                       fr_word(&fr_backfill_state_words, row->state));
    row->state = state;
    row->note = state == FR_BACKFILL_PAUSED ? "by hand" : "";
    return fr_store_backfill_set(st, row, err);
}

enum fr_rc fr_backfill_change(struct fr_store *st, int64_t id, enum fr_backfill_state state,
                              struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_backfill_row row;
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc == FR_OK)
        rc = fr_store_backfill_find(st, id, &arena, &row, err);
    if (rc == FR_OK)
        rc = change(st, &row, state, err);
    rc = fr_store_end(st, rc, err);
    fr_arena_finish(&arena);
    return rc;
}

/* ---- which runs are made ---- */

void backfill_changed(struct fr_host *host)
{
    if (!schedules_of(host)->served)
        return;
    schedules_of(host)->backfill_due_ms = 0;
    host->woken = true;
}

static void look_in(struct fr_host *host, int64_t ms)
{
    int64_t due = fr_sys.mono_ms() + ms;

    if (due < schedules_of(host)->backfill_due_ms)
        schedules_of(host)->backfill_due_ms = due;
}

static enum fr_rc set(struct fr_store *st, const struct fr_backfill_row *row, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc == FR_OK)
        rc = fr_store_backfill_set(st, row, err);
    return fr_store_end(st, rc, err);
}

static enum fr_rc begin(struct fr_host *host, const struct host_schedule *s,
                        const struct fr_backfill_row *row, const struct host_backfill *b,
                        struct fr_err *err)
{
    struct host_making what = {.s = s,
                               .origin = FR_ORIGIN_BACKFILL,
                               .at_ms = b->at_ms,
                               .priority = row->priority,
                               .backfill = b};
    enum fr_rc rc =
        fr_json_parse(fr_str_of(row->params), "the parameters of a backfill", &what.params, err);

    if (rc == FR_OK)
        rc = schedules_make(host, &what, err);
    json_decref(what.params);
    return rc;
}

/* Passes over instants that stay as they are; the first other one gets a run. */
static enum fr_rc go_on(struct fr_host *host, const struct host_schedule *s,
                        struct fr_backfill_row *row, struct fr_arena *arena, struct fr_err *err)
{
    struct host_backfill b = {.host = host, .id = row->id, .cursor_ms = row->cursor_ms};
    enum fr_rc rc = FR_OK;
    bool more = true;

    for (int n = 0; rc == FR_OK && n < STEP; n++) {
        struct fr_instant there;

        if (!(more = fr_backfill_next(row, &s->t->rule, &b.at_ms)))
            break;
        rc = fr_store_instant(host->env.store, row->schedule, b.at_ms, arena, &there, err);
        if (rc == FR_OK && fr_backfill_wants(row, &there))
            return begin(host, s, row, &b, err);
        row->cursor_ms = b.at_ms;
        row->kept++;
        b.kept++;
    }
    if (!more)
        row->state = FR_BACKFILL_OVER;
    if (rc == FR_OK)
        rc = set(host->env.store, row, err);
    if (rc == FR_OK && more)
        backfill_changed(host);
    return rc;
}

static bool is_of(const void *arg, const void *id)
{
    return ((const struct host_backfill *)arg)->id == *(const int64_t *)id;
}

/* Whether the queue has room for a run of that pipeline. */
static enum fr_rc ask_room(struct fr_host *host, const struct fr_spec *spec, bool *room,
                           struct fr_err *err)
{
    struct fr_err why = {0};
    bool wait;
    enum fr_rc rc = queue_ask(host, spec, INT64_MAX, &wait, &why);

    *room = rc != FR_BUSY;
    return *room && rc != FR_OK ? fr_fail(err, rc, "%s", why.msg) : FR_OK;
}

static enum fr_rc look(struct fr_host *host, struct fr_backfill_row *row, struct fr_arena *arena,
                       struct fr_err *err)
{
    const struct host_schedule *s = schedules_find(host, row->schedule);
    int64_t live = 0;
    bool room = true;
    enum fr_rc rc;

    if (make_any(host, &of_backfill, is_of, &row->id))
        return FR_OK;
    if (s == NULL || s->s == NULL || s->file->spec == NULL) {
        look_in(host, LOOK_MS); /* its file is not served, or was not looked at yet */
        return FR_OK;
    }
    rc = fr_store_backfill_live(host->env.store, row->id, &live, err);
    if (rc == FR_OK)
        rc = ask_room(host, s->file->spec, &room, err);
    if (!room)
        look_in(host, LOOK_MS);
    return rc == FR_OK && room && live < row->max_active ? go_on(host, s, row, arena, err) : rc;
}

/* Of one that was cancelled no run starts any more. */
static void cancel_queued(struct fr_host *host)
{
    for (size_t i = 0; i < host->n; i++) {
        struct host_run *h = host->runs[i];
        struct fr_arena arena = {0};
        struct fr_backfill_row row;
        int64_t id = fr_run_record(h->run)->backfill;

        if (id != 0 && fr_run_queued(h->run) &&
            fr_store_backfill_find(host->env.store, id, &arena, &row, NULL) == FR_OK &&
            row.state == FR_BACKFILL_CANCELLED) {
            fr_run_say(h->run, "its backfill was cancelled");
            fr_run_cancel(h->run);
        }
        fr_arena_finish(&arena);
    }
}

enum fr_rc backfill_turn(struct fr_host *host, struct fr_err *err)
{
    struct host_schedules *all = schedules_of(host);
    struct fr_arena arena = {0};
    struct fr_backfill_rows rows = {0};
    enum fr_rc rc;

    if (!all->served || all->backfill_due_ms > fr_sys.mono_ms())
        return FR_OK;
    all->backfill_due_ms = INT64_MAX;
    cancel_queued(host);
    rc = fr_store_backfills(host->env.store, true, &arena, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        rc = look(host, &rows.rows[i], &arena, err);
    fr_arena_finish(&arena);
    if (rc == FR_OK || rc == FR_NOMEM)
        return rc;
    look_in(host, LOOK_MS); /* the store could not be read or written */
    return FR_OK;
}

/* ---- a run ---- */

/* Its row, if it still stands where it stood; *found false: else. */
static enum fr_rc find(struct fr_host *host, const struct host_backfill *b, struct fr_arena *arena,
                       struct fr_backfill_row *row, bool *found, struct fr_err *err)
{
    enum fr_rc rc = fr_store_backfill_find(host->env.store, b->id, arena, row, err);

    *found = rc == FR_OK && row->state == FR_BACKFILL_ACTIVE && row->cursor_ms == b->cursor_ms;
    return rc == FR_NOTFOUND ? FR_OK : rc;
}

static enum fr_rc enter(void *arg, const struct fr_run *run, bool *enters, struct fr_err *err)
{
    const struct host_backfill *b = arg;
    struct fr_host *host = b->host;
    struct fr_arena arena = {0};
    struct fr_backfill_row row;
    struct fr_instant there;
    bool room = false;
    enum fr_rc rc = find(host, b, &arena, &row, enters, err);

    if (rc == FR_OK && *enters) {
        rc = fr_store_instant(host->env.store, row.schedule, b->at_ms, &arena, &there, err);
        *enters = rc == FR_OK && fr_backfill_wants(&row, &there);
    }
    if (rc == FR_OK && *enters) {
        rc = ask_room(host, fr_run_spec(run), &room, err);
        *enters = room;
    }
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc put(void *arg, int64_t run, struct fr_err *err)
{
    const struct host_backfill *b = arg;
    struct fr_host *host = b->host;
    struct fr_arena arena = {0};
    struct fr_backfill_row row;
    enum fr_rc rc = fr_store_backfill_find(host->env.store, b->id, &arena, &row, err);

    if (rc == FR_OK) {
        row.cursor_ms = b->at_ms;
        row.kept += b->kept;
        row.made++;
        rc = fr_store_backfill_set(host->env.store, &row, err);
    }
    if (rc == FR_OK)
        rc = fr_store_instant_fill(host->env.store, row.schedule, b->at_ms, run, err);
    fr_arena_finish(&arena);
    return rc;
}

/* Its pipeline cannot be loaded: somebody has to look at that. */
static enum fr_rc pause(struct fr_host *host, const struct host_backfill *b, const char *why,
                        struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_backfill_row row;
    bool found = false;
    enum fr_rc rc = find(host, b, &arena, &row, &found, err);

    if (rc == FR_OK && found) {
        row.state = FR_BACKFILL_PAUSED;
        row.note = why;
        rc = set(host->env.store, &row, err);
    }
    fr_arena_finish(&arena);
    return rc;
}

static void made(void *arg, const struct fr_issues *issues, const struct fr_err *why)
{
    const struct host_backfill *b = arg;
    struct fr_host *host = b->host;
    bool later =
        why->rc == FR_NOMEM || why->rc == FR_BUSY || why->rc == FR_FULL || why->rc == FR_IO;
    struct fr_err err = *why;

    if (why->rc == FR_OK) {
        backfill_changed(host);
        return;
    }
    if (!later)
        later = pause(host, b, issues->n > 0 ? issues->lines[0] : why->msg, &err) != FR_OK;
    fr_log(FR_LOG_WARN, "host", "backfill=%lld %s: %s", (long long)b->id,
           later ? "goes on later" : "is paused", issues->n > 0 ? issues->lines[0] : why->msg);
    if (later)
        look_in(host, LOOK_MS);
}

const struct make_for of_backfill = {.enter = enter, .put = put, .over = made};
