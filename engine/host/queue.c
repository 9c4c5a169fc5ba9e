/* Which queued runs start. */
#include "engine/host/rerun.h"
#include "engine/host/schedules.h"
#include "engine/store/lead.h"

#include <time.h>

enum {
    AGAIN_MS = 1000, /* between two tries to read the store */
    LOOK_MS = 60000, /* the wall clock may be set: a time is looked at again so often */
    LEAD_MS = 10000, /* whether this is still the host is looked at so often */
    NAMED = 8,       /* active runs in a reason */
};

static bool is_queued(const struct fr_run_row *row)
{
    return strcmp(row->state, "queued") == 0;
}

/* ---- limits ---- */

struct limit {
    enum { NO_LIMIT, OF_PIPELINE, OF_POOL, OF_HOME } kind;
    const char *name; /* of the pipeline or pool */
    size_t most;
};

static bool counts(const struct limit *l, const struct fr_run_row *row)
{
    return l->kind == OF_HOME || strcmp(l->name, l->kind == OF_POOL ? row->pool : row->name) == 0;
}

static size_t count(const struct limit *l, const struct fr_run_rows *active)
{
    size_t n = 0;

    for (size_t i = 0; i < active->n; i++)
        n += counts(l, &active->rows[i]);
    return n;
}

/* The limit that keeps a run of that pipeline and pool from starting. One of a pool that the home
 * has no more waits until it is there again. */
static struct limit find_limit(const struct fr_run_rows *active, const char *name, const char *pool,
                               const struct fr_queue_limits *limits)
{
    const struct fr_pool *place = fr_pool_find(limits->home, pool);
    struct limit all[3];
    size_t n = 0;

    if (limits->pipeline > 0)
        all[n++] = (struct limit){OF_PIPELINE, name, (size_t)limits->pipeline};
    if (pool[0] != '\0')
        all[n++] = (struct limit){OF_POOL, pool, place != NULL ? (size_t)place->runs : 0};
    if (limits->home->max_active_runs > 0)
        all[n++] = (struct limit){OF_HOME, NULL, (size_t)limits->home->max_active_runs};
    for (size_t i = 0; i < n; i++)
        if (count(&all[i], active) >= all[i].most)
            return all[i];
    return (struct limit){0};
}

/* Moves the active rows to the front. host NULL: the store alone says which are. */
static void keep_active(const struct fr_host *host, struct fr_run_rows *rows)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->n; i++) {
        struct fr_run_row row = rows->rows[i];
        const struct host_run *h = host != NULL ? host_find((struct fr_host *)host, row.id) : NULL;

        if (h != NULL ? fr_run_queued(h->run) : is_queued(&row))
            continue;
        rows->rows[i] = rows->rows[n];
        rows->rows[n++] = row;
    }
    rows->n = n;
}

/* ---- admission ---- */

void queue_changed(struct fr_host *host)
{
    host->queue_changed = host->woken = true;
    feed_topic(host, HOST_QUEUE);
}

bool fr_queue_before(const struct fr_run_row *a, const struct fr_run_row *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->no < b->no;
}

/* The queued run behind last in the order of admission, or the first. */
static struct host_run *next_queued(const struct fr_host *host, const struct fr_run_row *last)
{
    struct host_run *best = NULL;

    for (size_t i = 0; i < host->n; i++) {
        struct host_run *h = host->runs[i];
        const struct fr_run_row *row = fr_run_record(h->run);

        if (!fr_run_queued(h->run) || (last != NULL && !fr_queue_before(last, row)))
            continue;
        if (best == NULL || fr_queue_before(row, fr_run_record(best->run)))
            best = h;
    }
    return best;
}

/* Whether its time has come; else the host looks again. */
static bool is_due(struct fr_host *host, const struct fr_run_row *row)
{
    int64_t left = row->not_before_wall - fr_sys.wall_ms();
    int64_t due = fr_sys.mono_ms() + (left < LOOK_MS ? left : LOOK_MS);

    if (left > 0 && due < host->queue_due_ms)
        host->queue_due_ms = due;
    return left <= 0;
}

/* The store could not be read: it is tried again. */
static enum fr_rc look_again(struct host_run *h, struct fr_err *err)
{
    if (err->rc == FR_NOMEM)
        return FR_NOMEM;
    fr_run_say(h->run, err->msg);
    h->host->queue_due_ms = fr_sys.mono_ms() + AGAIN_MS;
    return FR_OK;
}

/* ---- overlap ---- */

/* A retry, a run that repeats another, and one of a backfill wait for limits alone. */
static bool overlaps(const struct fr_run_row *row, const struct fr_schedule *s)
{
    enum fr_origin origin = FR_ORIGIN_CLI;

    return s != NULL && row->outcome[0] == '\0' &&
           fr_origin_parse(fr_str_of(row->origin), &origin) &&
           (origin == FR_ORIGIN_SCHEDULE || origin == FR_ORIGIN_CATCHUP);
}

/* What a run of a schedule looks at: the live runs of its pipeline among open. */
static enum fr_rc look_beside(const struct fr_host *host, const struct fr_run_rows *open,
                              const struct fr_run_row *row, struct fr_arena *arena,
                              struct fr_overlap_of *out, struct fr_err *err)
{
    enum fr_rc rc = fires_live(host, open, row->name, arena, out, err);

    for (size_t i = 0; rc == FR_OK && i < out->n_live; i++)
        if (out->live[i].no == row->no) {
            out->schedule = out->live[i].schedule;
            out->origin = out->live[i].origin;
        }
    return rc;
}

/* It is not wanted any more, as a newer one took its place, or it was paused away: the row of its
 * instant says so. */
static enum fr_rc look_unwanted(struct fr_store *st, const struct fr_run_row *row,
                                struct fr_arena *arena, bool *yes, struct fr_err *err)
{
    struct fr_fire_page page = {row->schedule, row->at_ms + 1, 1};
    struct fr_fire_rows rows = {0};
    enum fr_rc rc = fr_store_fires_before(st, &page, arena, &rows, err);

    *yes = rc == FR_OK && rows.n > 0 && rows.rows[0].at_ms == row->at_ms &&
           (strcmp(rows.rows[0].decision, fr_fate_name(FR_FATE_SUPERSEDED)) == 0 ||
            strcmp(rows.rows[0].decision, fr_fate_name(FR_FATE_PAUSED)) == 0);
    return rc;
}

/* Whether another run is in the way of one of a schedule; some are asked to end. */
static enum fr_rc look_held(struct host_run *h, const struct fr_run_rows *open, bool *held,
                            struct fr_err *err)
{
    const struct fr_run_row *row = fr_run_record(h->run);
    const struct fr_schedule *s = fr_run_schedule(h->run);
    struct fr_overlap_of of = {.schedule = ""};
    struct fr_arena arena = {0};
    enum fr_rc rc;

    *held = false;
    if (!overlaps(row, s))
        return FR_OK;
    of.policy = s->overlap;
    of.queue_max = s->queue_max;
    rc = look_unwanted(h->host->store, row, &arena, held, err);
    if (rc == FR_OK && *held)
        fr_run_cancel(h->run);
    else if (rc == FR_OK)
        rc = look_beside(h->host, open, row, &arena, &of, err);
    *held = *held || (rc == FR_OK && of.live != NULL && fr_overlap_blocker(&of, row->no) != 0);
    for (size_t i = 0; *held && i < of.n_live; i++) {
        struct host_run *old = host_find_no(h->host, of.live[i].no);

        if (of.live[i].no >= row->no || !fr_overlap_cancels(&of, &of.live[i]))
            continue;
        if (old == NULL) {
            rerun_forget(h->host, of.live[i].no);
        } else if (!old->cancelled) {
            old->cancelled = true;
            fr_run_say(old->run, "the next run of its schedule takes its place");
            fr_run_cancel(old->run);
        }
    }
    fr_arena_finish(&arena);
    return rc;
}

/* Admits it if it may start. Its row is then one of active, in the place of a queued one. */
static enum fr_rc try_admit(struct host_run *h, const struct fr_run_rows *open,
                            struct fr_run_rows *active, struct fr_err *err)
{
    const struct fr_run_row *row = fr_run_record(h->run);
    struct fr_queue_limits limits = {fr_run_spec(h->run)->max_active_runs, &h->host->limits, NULL};
    bool held = false;
    enum fr_rc rc = look_held(h, open, &held, err);

    if (rc != FR_OK)
        return look_again(h, err);
    if (held || find_limit(active, row->name, row->pool, &limits).kind != NO_LIMIT ||
        !is_due(h->host, row))
        return FR_OK;
    rc = fr_run_admit(h->run, err);
    if (rc == FR_OK)
        active->rows[active->n++] = *row;
    return rc == FR_OK || h->mine ? rc : host_give_up(h, err);
}

/* A host finds out by its next commit that another one took its place. One whose runs all wait for
 * runs that it does not drive may have none. */
static enum fr_rc check_lead(struct fr_host *host, struct fr_err *err)
{
    uint32_t epoch = 0;

    host->queue_due_ms = fr_sys.mono_ms() + LEAD_MS;
    if (fr_store_followed(host->store, &epoch))
        return fr_fail(err, FR_DENIED,
                       "another flowrun became the host of %s (epoch %u, ours is %u): this one "
                       "starts no more",
                       fr_store_home(host->store), epoch, host->env.epoch);
    return FR_OK;
}

enum fr_rc queue_admit(struct fr_host *host, struct fr_err *err)
{
    struct host_run *h = next_queued(host, NULL);
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0}, open = {0};
    size_t most;
    enum fr_rc rc = FR_OK;

    if (!host->queue_changed && host->queue_due_ms > fr_sys.mono_ms())
        return FR_OK;
    host->queue_changed = false;
    host->queue_due_ms = INT64_MAX;
    if (h != NULL && (rc = check_lead(host, err)) != FR_OK)
        return rc;
    if (h != NULL && (fr_store_runs_open(host->store, &arena, &rows, err) != FR_OK ||
                      fr_store_runs_live(host->store, &arena, &open, err) != FR_OK)) {
        rc = look_again(h, err);
        h = NULL;
    }
    most = rows.n;
    keep_active(host, &rows);
    while (rc == FR_OK && h != NULL && rows.n < most) { /* else the next host has ended it */
        struct fr_run_row last = *fr_run_record(h->run);

        rc = try_admit(h, &open, &rows, err);
        h = next_queued(host, &last);
    }
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc queue_wait(void *arg, const struct fr_spec *spec, int64_t not_before_wall, bool *wait,
                      struct fr_err *err)
{
    (void)arg, (void)spec, (void)not_before_wall, (void)err;
    *wait = true;
    return FR_OK;
}

enum fr_rc queue_ask(void *arg, const struct fr_spec *spec, int64_t not_before_wall, bool *wait,
                     struct fr_err *err)
{
    struct fr_host *host = arg;
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    struct fr_queue_limits limits = {spec->max_active_runs, &host->limits, NULL};
    const char *pool = spec->pool != NULL ? spec->pool : "";
    size_t queued = 0;
    enum fr_rc rc;

    *wait = not_before_wall > fr_sys.wall_ms();
    if (!*wait && pool[0] != '\0' && fr_pool_find(&host->limits, pool) == NULL)
        return fr_fail(err, FR_USAGE,
                       "pool '%s' of pipeline '%s' is not among pools: of this home's config.yaml",
                       pool, spec->name);
    if (limits.pipeline == 0 && pool[0] == '\0' && host->limits.max_active_runs == 0 && !*wait)
        return FR_OK;
    if ((rc = fr_store_runs_open(host->store, &arena, &rows, err)) == FR_OK) {
        for (size_t i = 0; i < rows.n; i++)
            queued += is_queued(&rows.rows[i]);
        keep_active(host, &rows);
        /* the slot of a run that ended just now belongs to one that waits */
        *wait = *wait || find_limit(&rows, spec->name, pool, &limits).kind != NO_LIMIT ||
                (host->queue_changed && next_queued(host, NULL) != NULL);
    }
    if (rc == FR_OK && *wait && host->limits.max_queued > 0 &&
        queued >= (size_t)host->limits.max_queued)
        rc = fr_fail(err, FR_BUSY,
                     "the queue of this home is full: %zu runs wait (limits.max_queued is %d in "
                     "config.yaml)",
                     queued, host->limits.max_queued);
    fr_arena_finish(&arena);
    return rc;
}

/* ---- reasons ---- */

enum { DAY_MS = 24 * 3600 * 1000 };

/* "02:00", or with its date where that is not the last day. */
static void name_time(int64_t wall_ms, struct fr_buf *out)
{
    int64_t past = fr_sys.wall_ms() - wall_ms;
    time_t s = (time_t)(wall_ms / 1000);
    char text[32] = "";
    struct tm tm;

    if (localtime_r(&s, &tm) != NULL)
        strftime(text, sizeof(text), past >= 0 && past < DAY_MS ? "%H:%M" : "%Y-%m-%d %H:%M", &tm);
    fr_buf_text(out, text);
}

/* The runs that a limit counts, and what to do about one that nobody drives. */
static void name_active(const struct limit *l, const struct fr_run_rows *active, uint32_t epoch,
                        struct fr_buf *out)
{
    int64_t left = 0;
    size_t n = 0;

    for (size_t i = active->n; i-- > 0;) {
        const struct fr_run_row *row = &active->rows[i];

        if (!counts(l, row))
            continue;
        if (n < NAMED) {
            fr_buf_fmt(out, "%srun %lld of %s since ", n > 0 ? ", " : "", (long long)row->no,
                       row->name);
            name_time(row->started_wall, out);
        } else if (n == NAMED) {
            fr_buf_text(out, ", …");
        }
        n++;
        if (row->host != (int64_t)epoch && left == 0)
            left = row->no;
    }
    if (left != 0)
        fr_buf_fmt(out, "; no flowrun looks after run %lld: 'flowrun resume %lld' takes over",
                   (long long)left, (long long)left);
}

static void name_limit(const struct limit *l, const struct fr_run_rows *active, uint32_t epoch,
                       struct fr_buf *out)
{
    size_t n = count(l, active);

    if (l->kind == OF_POOL && l->most == 0) {
        fr_buf_fmt(out, "pool %s, which is not among pools: of config.yaml", l->name);
        return;
    }
    if (l->kind == OF_POOL)
        fr_buf_fmt(out, "pool %s", l->name);
    else
        fr_buf_text(out, l->kind == OF_HOME ? "limits.max_active_runs" : "max_active_runs");
    fr_buf_fmt(out, " %zu of %zu: ", n, l->most);
    name_active(l, active, epoch, out);
}

enum fr_rc fr_queue_why(struct fr_store *st, const struct fr_queue_limits *limits,
                        const struct fr_run_row *run, struct fr_buf *out, struct fr_err *err)
{
    struct fr_overlap_of of = {.schedule = ""};
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0}, live = {0};
    uint32_t epoch = 0;
    int64_t before = 0;
    struct limit full;
    enum fr_rc rc = fr_store_runs_open(st, &arena, &rows, err);

    if (rc == FR_OK)
        rc = fr_store_epoch(st, &epoch, err);
    if (rc == FR_OK && overlaps(run, limits->schedule)) {
        of.policy = limits->schedule->overlap;
        of.queue_max = limits->schedule->queue_max;
        if ((rc = fr_store_runs_live(st, &arena, &live, err)) == FR_OK &&
            (rc = look_beside(NULL, &live, run, &arena, &of, err)) == FR_OK)
            before = fr_overlap_blocker(&of, run->no);
    }
    keep_active(NULL, &rows);
    full = find_limit(&rows, run->name, run->pool, limits);
    if (rc == FR_OK && full.kind != NO_LIMIT) {
        name_limit(&full, &rows, epoch, out);
    } else if (rc == FR_OK && before != 0) {
        fr_buf_fmt(out, "overlap: run %lld of %s is before it", (long long)before, run->name);
    } else if (rc == FR_OK && run->not_before_wall > fr_sys.wall_ms()) {
        fr_buf_text(out, "not before ");
        name_time(run->not_before_wall, out);
    }
    fr_arena_finish(&arena);
    return rc;
}
