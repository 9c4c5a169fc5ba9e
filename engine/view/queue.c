#include "engine/view/queue.h"

#include "engine/base/sys.h"
#include "engine/store/lead.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { NAMED = 8 /* active runs in a reason */ };

bool fr_queue_waits(const struct fr_run_row *row)
{
    return row->state == FR_RUN_QUEUED;
}

static bool waits(const struct fr_queue_driven *driven, const struct fr_run_row *row)
{
    return driven != NULL ? driven->waits(driven->arg, row) : fr_queue_waits(row);
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

void fr_queue_active(struct fr_run_rows *rows, const struct fr_queue_driven *driven)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->n; i++) {
        struct fr_run_row row = rows->rows[i];

        if (waits(driven, &row))
            continue;
        rows->rows[i] = rows->rows[n];
        rows->rows[n++] = row;
    }
    rows->n = n;
}

bool fr_queue_full(const struct fr_run_rows *active, const char *name, const char *pool,
                   const struct fr_queue_limits *limits)
{
    return find_limit(active, name, pool, limits).kind != NO_LIMIT;
}

bool fr_queue_before(const struct fr_run_row *a, const struct fr_run_row *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->no < b->no;
}

int fr_queue_order(const void *a, const void *b)
{
    return fr_queue_before(a, b) ? -1 : 1;
}

/* ---- overlap ---- */

/* A retry, a run that repeats another, and one of a backfill wait for limits alone. */
bool fr_queue_overlaps(const struct fr_run_row *row, const struct fr_schedule *s)
{
    return s != NULL && row->outcome == FR_OUT_NONE &&
           (row->origin == FR_ORIGIN_SCHEDULE || row->origin == FR_ORIGIN_CATCHUP);
}

const char *fr_queue_key(struct fr_arena *arena, int64_t schedule)
{
    return schedule == 0 ? "" : fr_arena_fmt(arena, "%" PRId64, schedule);
}

enum fr_rc fr_queue_live(const struct fr_run_rows *rows, const char *name,
                         const struct fr_queue_driven *driven, struct fr_arena *arena,
                         struct fr_overlap_of *out, struct fr_err *err)
{
    struct fr_live *live = fr_arena_array(arena, rows->n + 1, sizeof(*live));
    size_t n = 0;

    for (size_t i = rows->n; live != NULL && i-- > 0;) { /* the newest is the first */
        const struct fr_run_row *row = &rows->rows[i];

        if (strcmp(row->name, name) != 0)
            continue;
        live[n] = (struct fr_live){.no = row->no,
                                   .schedule = fr_queue_key(arena, row->schedule),
                                   .origin = row->origin,
                                   .queued = waits(driven, row)};
        if (live[n++].schedule == NULL)
            live = NULL;
    }
    if (live == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for live runs");
    out->live = live;
    out->n_live = n;
    return FR_OK;
}

enum fr_rc fr_queue_beside(const struct fr_run_rows *open, const struct fr_run_row *row,
                           const struct fr_queue_driven *driven, struct fr_arena *arena,
                           struct fr_overlap_of *out, struct fr_err *err)
{
    enum fr_rc rc = fr_queue_live(open, row->name, driven, arena, out, err);

    for (size_t i = 0; rc == FR_OK && i < out->n_live; i++)
        if (out->live[i].no == row->no) {
            out->schedule = out->live[i].schedule;
            out->origin = out->live[i].origin;
        }
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
    if (rc == FR_OK && fr_queue_overlaps(run, limits->schedule)) {
        of.policy = limits->schedule->overlap;
        if ((rc = fr_store_runs_live(st, &arena, &live, err)) == FR_OK &&
            (rc = fr_queue_beside(&live, run, NULL, &arena, &of, err)) == FR_OK)
            before = fr_overlap_blocker(&of, run->no);
    }
    fr_queue_active(&rows, NULL);
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
