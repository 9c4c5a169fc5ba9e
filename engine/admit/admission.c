/* Admission: which queued runs start. */
#include "engine/admit/private.h"
#include "engine/view/queue.h"

#include "engine/store/occurrences.h"
#include "engine/store/lead.h"

enum {
    AGAIN_MS = 1000, /* between two tries to read the store */
    LEAD_MS = 10000, /* whether this is still the host is looked at so often, and a time: the wall
                        clock may be set */
};

struct host_queue {
    bool changed;   /* a queued run may start now */
    int64_t due_ms; /* likewise then; INT64_MAX: none waits for a time */
};

static struct host_queue *queue_of(const struct fr_host *host)
{
    return host_state(host, &queue_part);
}

static bool waits(const void *arg, const struct fr_run_row *row)
{
    const struct host_run *h = host_find(arg, row->id);

    return h != NULL ? fr_run_queued(h->run) : fr_queue_waits(row);
}

enum fr_rc queue_live(const struct fr_host *host, const struct fr_run_rows *rows, const char *name,
                      struct fr_arena *arena, struct fr_overlap_of *out, struct fr_err *err)
{
    return fr_queue_live(rows, name, &(struct fr_queue_driven){waits, host}, arena, out, err);
}

/* ---- admission ---- */

/* The queued run after last in the order of admission; last NULL: the first. */
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

/* Whether its time has come; else sets when to look again. */
static bool is_due(struct fr_host *host, const struct fr_run_row *row)
{
    struct host_queue *queue = queue_of(host);
    int64_t left = row->not_before_wall - fr_sys.wall_ms();
    int64_t due = fr_sys.mono_ms() + left;

    if (left > 0 && due < queue->due_ms)
        queue->due_ms = due;
    return left <= 0;
}

/* The store could not be read: try again later. */
static enum fr_rc look_again(struct host_run *h, struct fr_err *err)
{
    if (err->rc == FR_NOMEM)
        return FR_NOMEM;
    fr_run_say(h->run, err->msg);
    queue_of(h->host)->due_ms = fr_sys.mono_ms() + AGAIN_MS;
    return FR_OK;
}

/* ---- overlap ---- */

/* Whether the row of the run's instant says that it was superseded, or paused. */
static enum fr_rc look_unwanted(struct fr_store *st, const struct fr_run_row *row,
                                struct fr_arena *arena, bool *yes, struct fr_err *err)
{
    struct fr_occurrence_page page = {row->schedule, row->at_ms + 1, 1};
    struct fr_occurrence_rows rows = {0};
    enum fr_rc rc = fr_store_occurrences_before(st, &page, arena, &rows, err);

    *yes = rc == FR_OK && rows.n > 0 && rows.rows[0].at_ms == row->at_ms &&
           (rows.rows[0].decision == FR_FATE_SUPERSEDED || rows.rows[0].decision == FR_FATE_PAUSED);
    return rc;
}

/* Supersedes a run that is not driven and may be due for a rerun. */
static void supersede(struct fr_host *host, int64_t no)
{
    for (const struct host_part *const *p = host->parts; *p != NULL; p++)
        if ((*p)->superseded != NULL)
            (*p)->superseded(host, no);
}

/* Whether live runs keep a run of a schedule from starting; cancel_previous cancels them. */
static enum fr_rc look_held(struct host_run *h, const struct fr_run_rows *open, bool *held,
                            struct fr_err *err)
{
    const struct fr_run_row *row = fr_run_record(h->run);
    const struct fr_schedule *s = fr_run_schedule(h->run);
    const struct fr_queue_driven driven = {waits, h->host};
    struct fr_overlap_of of = {.schedule = ""};
    struct fr_arena arena = {0};
    enum fr_rc rc;

    *held = false;
    if (!fr_queue_overlaps(row, s))
        return FR_OK;
    of.policy = s->overlap;
    rc = look_unwanted(h->host->env.store, row, &arena, held, err);
    if (rc == FR_OK && *held)
        fr_run_cancel(h->run);
    else if (rc == FR_OK)
        rc = fr_queue_beside(open, row, &driven, &arena, &of, err);
    *held = *held || (rc == FR_OK && of.live != NULL && fr_overlap_blocker(&of, row->no) != 0);
    for (size_t i = 0; *held && i < of.n_live; i++) {
        struct host_run *old = host_find_no(h->host, of.live[i].no);

        if (of.live[i].no >= row->no || !fr_overlap_cancels(&of, &of.live[i]))
            continue;
        if (old == NULL) {
            supersede(h->host, of.live[i].no);
        } else if (!old->cancelled) {
            old->cancelled = true;
            fr_run_say(old->run, "the next run of its schedule takes its place");
            fr_run_cancel(old->run);
        }
    }
    fr_arena_finish(&arena);
    return rc;
}

/* Admits the run if it may start, and moves its row to the active ones. */
static enum fr_rc try_admit(struct host_run *h, const struct fr_run_rows *open,
                            struct fr_run_rows *active, struct fr_err *err)
{
    const struct fr_run_row *row = fr_run_record(h->run);
    struct fr_queue_limits limits = {fr_run_spec(h->run)->max_active_runs, &h->host->config.limits,
                                     NULL};
    bool held = false;
    enum fr_rc rc = look_held(h, open, &held, err);

    if (rc != FR_OK)
        return look_again(h, err);
    if (held || fr_queue_full(active, row->name, row->pool, &limits) || !is_due(h->host, row))
        return FR_OK;
    rc = fr_run_admit(h->run, err);
    if (rc == FR_OK)
        active->rows[active->n++] = *row;
    return rc == FR_OK || h->mine ? rc : host_give_up(h, err);
}

/* A host learns from its next commit that another host has taken over. A host whose runs all wait
 * for runs that it does not drive may have no commit, so it asks the store. */
static enum fr_rc check_lead(struct fr_host *host, struct fr_err *err)
{
    queue_of(host)->due_ms = fr_sys.mono_ms() + LEAD_MS;
    return fr_store_followed(host->env.store, err) ? FR_DENIED : FR_OK;
}

static enum fr_rc admit(struct fr_host *host, struct fr_err *err)
{
    struct host_queue *queue = queue_of(host);
    struct host_run *h = next_queued(host, NULL);
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0}, open = {0};
    size_t most;
    enum fr_rc rc = FR_OK;

    if (!queue->changed && queue->due_ms > fr_sys.mono_ms())
        return FR_OK;
    queue->changed = false;
    queue->due_ms = INT64_MAX;
    if (h != NULL && (rc = check_lead(host, err)) != FR_OK)
        return rc;
    if (h != NULL && (fr_store_runs_open(host->env.store, &arena, &rows, err) != FR_OK ||
                      fr_store_runs_live(host->env.store, &arena, &open, err) != FR_OK)) {
        rc = look_again(h, err);
        h = NULL;
    }
    most = rows.n;
    fr_queue_active(&rows, &(struct fr_queue_driven){waits, host});
    while (rc == FR_OK && h != NULL && rows.n < most) { /* else the next host has ended it */
        struct fr_run_row last = *fr_run_record(h->run);

        rc = try_admit(h, &open, &rows, err);
        h = next_queued(host, &last);
    }
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc queue_ask(struct fr_host *host, const struct fr_spec *spec, int64_t not_before_wall,
                     bool *wait, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    struct fr_queue_limits limits = {spec->max_active_runs, &host->config.limits, NULL};
    const char *pool = spec->pool != NULL ? spec->pool : "";
    size_t queued = 0;
    enum fr_rc rc;

    *wait = not_before_wall > fr_sys.wall_ms();
    if (!*wait && pool[0] != '\0' && fr_pool_find(&host->config.limits, pool) == NULL)
        return fr_fail(err, FR_USAGE,
                       "pool '%s' of pipeline '%s' is not among pools: of this home's config.yaml",
                       pool, spec->name);
    if (limits.pipeline == 0 && pool[0] == '\0' && host->config.limits.max_active_runs == 0 &&
        !*wait)
        return FR_OK;
    if ((rc = fr_store_runs_open(host->env.store, &arena, &rows, err)) == FR_OK) {
        for (size_t i = 0; i < rows.n; i++)
            queued += fr_queue_waits(&rows.rows[i]);
        fr_queue_active(&rows, &(struct fr_queue_driven){waits, host});
        /* the slot of a run that ended just now belongs to one that waits */
        *wait = *wait || fr_queue_full(&rows, spec->name, pool, &limits) ||
                (queue_of(host)->changed && next_queued(host, NULL) != NULL);
    }
    if (rc == FR_OK && *wait && host->config.limits.max_queued > 0 &&
        queued >= (size_t)host->config.limits.max_queued)
        rc = fr_fail(err, FR_BUSY,
                     "the queue of this home is full: %zu runs wait (limits.max_queued is %d in "
                     "config.yaml)",
                     queued, host->config.limits.max_queued);
    fr_arena_finish(&arena);
    return rc;
}

static int64_t due(const struct fr_host *host)
{
    return queue_of(host)->due_ms;
}

static void note_change(struct fr_host *host, enum host_topic topic)
{
    if (topic == HOST_QUEUE)
        queue_of(host)->changed = host->woken = true;
}

static enum fr_rc open_queue(struct fr_host *host, struct fr_err *err)
{
    (void)err;
    queue_of(host)->due_ms = INT64_MAX;
    return FR_OK;
}

const struct host_part queue_part = {.name = "admitting queued runs",
                                     .state_bytes = sizeof(struct host_queue),
                                     .step = {[HOST_OPEN] = open_queue, [HOST_DECIDE] = admit},
                                     .changed = note_change,
                                     .waits = queue_ask,
                                     .due = due};
