#include "engine/timetable/pause.h"

#include "engine/base/sys.h"
#include "engine/schedule/decide.h"

#include <string.h>

/* What was decided as paused behind seen is undecided again; seen falls below the first of it, as
 * a row may begin with instants of before the pause, which no host has decided in time. */
static enum fr_rc drop_paused(struct fr_store *st, struct fr_schedule_row *row, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_occurrence_rows rows = {0};
    enum fr_rc rc = fr_store_occurrences_after(st, row->id, row->seen_ms, &arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_occurrence_row *occurrence = &rows.rows[i];

        if (occurrence->decision != FR_FATE_PAUSED)
            continue;
        if (occurrence->first_ms <= row->seen_ms && occurrence->first_ms > row->since_ms)
            row->seen_ms = occurrence->first_ms - 1;
        rc = fr_store_occurrence_drop(st, row->id, occurrence->at_ms, err);
    }
    fr_arena_finish(&arena);
    return rc;
}

/* The instant of a run that waits is paused, too: for the host that run is to be cancelled. */
static enum fr_rc pause_queued(struct fr_store *st, int64_t schedule, const struct fr_pause *how,
                               struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    enum fr_rc rc = fr_store_runs_open(st, &arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_run_row *run = &rows.rows[i];
        struct fr_occurrence_row row = {.schedule = schedule,
                                        .at_ms = run->at_ms,
                                        .decision = FR_FATE_PAUSED,
                                        .run = run->no,
                                        .note = "its run waited, and does not begin"};

        if (run->schedule == schedule && run->backfill == 0 && run->outcome == FR_OUT_NONE &&
            run->state == FR_RUN_QUEUED &&
            (how->waits == NULL || how->waits(how->waits_arg, run->id)))
            rc = fr_store_occurrence_set(st, &row, err);
    }
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc write_row(struct fr_store *st, struct fr_schedule_row *row,
                            const struct fr_pause *how, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc == FR_OK && !how->pause && how->catchup)
        rc = drop_paused(st, row, err);
    if (rc == FR_OK && how->pause && how->queued)
        rc = pause_queued(st, row->id, how, err);
    if (rc == FR_OK)
        rc = fr_store_schedule_set(st, row, err);
    return fr_store_end(st, rc, err);
}

enum fr_rc fr_schedule_pause(struct fr_store *st, struct fr_schedule_row *row,
                             const struct fr_pause *how, struct fr_err *err)
{
    struct fr_schedule_row now = *row;
    bool paused = row->state == FR_SCHEDULE_PAUSED;
    enum fr_rc rc;

    if (paused && how->pause && how->queued)
        return write_row(st, row, how, err);
    if (paused == how->pause)
        return fr_fail(err, FR_BUSY, "schedule %s/%s is %s", row->pipeline, row->name,
                       paused ? "paused already" : "not paused");
    now.state = how->pause ? FR_SCHEDULE_PAUSED : FR_SCHEDULE_ACTIVE;
    now.note = how->pause && how->note != NULL ? how->note : "";
    now.state_wall = fr_sys.wall_ms();
    if (!how->pause && how->catchup)
        now.seen_ms = row->state_wall > row->since_ms ? row->state_wall : row->since_ms;
    else if (!how->pause)
        now.since_ms = now.state_wall;
    if (!how->pause && now.seen_ms < now.since_ms) /* ahead: see clock_rollback.c */
        now.seen_ms = now.since_ms;
    rc = write_row(st, &now, how, err);
    if (rc == FR_OK)
        *row = now;
    return rc;
}

/* ---- by name ---- */

static bool is_full_name(const struct fr_schedule_row *row, const char *text)
{
    size_t n = strlen(row->pipeline);

    return strcmp(row->source, text) == 0 ||
           (strncmp(row->pipeline, text, n) == 0 && text[n] == '/' &&
            strcmp(row->name, text + n + 1) == 0);
}

/* How many of rows that way names; they move to the front if keep. */
static size_t choose(struct fr_schedule_rows *rows, const char *text, int way, bool keep)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->n; i++) {
        struct fr_schedule_row row = rows->rows[i];
        bool there = row.gone_wall == 0;
        bool fits = text == NULL ? there
                    : way == 0   ? is_full_name(&row, text)
                    : way == 1   ? there && strcmp(row.pipeline, text) == 0
                                 : there && strcmp(row.name, text) == 0;

        if (fits && keep) {
            rows->rows[i] = rows->rows[n];
            rows->rows[n] = row;
        }
        n += fits;
    }
    return n;
}

enum fr_rc fr_schedules_named(struct fr_schedule_rows *rows, const char *text, struct fr_err *err)
{
    enum { FULL, PIPELINE, NAME };
    int way = FULL;
    size_t n = choose(rows, text, way, false);

    while (n == 0 && text != NULL && way < NAME)
        n = choose(rows, text, ++way, false);
    if (n == 0 && text != NULL)
        return fr_fail(err, FR_NOTFOUND, "there is no schedule '%s': 'flowrun schedules' lists all",
                       text);
    if (n > 1 && way == NAME)
        return fr_fail(err, FR_USAGE,
                       "%zu schedules are called '%s': say PIPELINE/%s ('flowrun schedules' lists "
                       "all)",
                       n, text, text);
    rows->n = choose(rows, text, way, true);
    return FR_OK;
}
