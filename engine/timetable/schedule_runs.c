/* The runs that schedules make: of their instants and of backfills. */
#include "engine/timetable/backfilling.h"
#include "engine/timetable/fenced.h"
#include "engine/timetable/schedules.h"

/* Those of the schedule, and behind them those of now, which win. */
static enum fr_rc take_params(const struct fr_host *host, const struct host_making *what,
                              struct fr_arena *arena, struct fr_spec_opts *out, struct fr_err *err)
{
    const struct fr_schedule *s = what->s->s;
    size_t mark = json_is_true(json_array_get(what->params, 0)),
           all = json_array_size(what->params);
    size_t n = s->n_params + all - mark;
    const char **params = fr_arena_array(arena, n + 1, sizeof(*params));
    struct fr_fence *fence = mark != 0 ? fenced_make(host, arena) : NULL;

    if (params == NULL || (mark != 0 && fence == NULL))
        return fr_fail(err, FR_NOMEM, "no memory for parameters");
    for (size_t i = 0; i < n; i++) {
        size_t k = i - s->n_params + mark;
        const char *text =
            i < s->n_params ? s->params[i] : json_string_value(json_array_get(what->params, k));

        if (text == NULL)
            return fr_fail(err, FR_USAGE, "params must be a list of \"name=value\"");
        if ((params[i] = fr_arena_dup(arena, text)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for parameters");
    }
    out->params = params;
    out->n_params = n;
    if (fence != NULL)
        fence->n_params = n - s->n_params;
    out->fence = fence;
    return FR_OK;
}

/* Copies, as the schedule may change meanwhile. */
static enum fr_rc fill(const struct fr_host *host, const struct host_making *what,
                       struct fr_arena *arena, struct fr_submit *out, struct fr_err *err)
{
    const struct host_schedule *s = what->s;
    enum fr_rc rc;

    *out = (struct fr_submit){
        .spec = {.path = fr_arena_dup(arena, s->file->path),
                 .cwd = fr_arena_dup(arena, s->file->spec->folder)},
        .origin = what->origin,
        .priority = what->priority,
        .schedule = s->row.id,
        .backfill = what->backfill != NULL ? what->backfill->id : 0,
        .occasion = {.at_ms = what->at_ms, .schedule = fr_arena_dup(arena, s->row.name)}};
    out->who = out->occasion.schedule;
    if (out->spec.path == NULL || out->spec.cwd == NULL || out->occasion.schedule == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    rc = take_params(host, what, arena, &out->spec, err);
    return rc == FR_OK ? fr_id_new(&out->id, err) : rc;
}

/* Tells whom the run is made for; a backfill's part of it lies in the memory of the run. */
static void make_of(struct host_job *job, const struct host_making *what,
                    struct host_backfill *backfill)
{
    if (what->occurrence != NULL)
        make_for(job, &of_occurrence, what->occurrence);
    else if (backfill != NULL)
        make_for(job, &of_backfill, backfill);
}

enum fr_rc schedules_make(struct fr_host *host, const struct host_making *what, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct host_texts texts = {.own = &host->config.schedule_shell, .arena = &arena};
    struct host_backfill *backfill = NULL;
    struct host_job *job = NULL;
    struct fr_submit submit;
    enum fr_rc rc = fill(host, what, &arena, &submit, err);

    if (rc == FR_OK && what->backfill != NULL) {
        if ((backfill = fr_arena_alloc(&arena, sizeof(*backfill))) == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a run");
        else
            *backfill = *what->backfill;
    }
    if (rc == FR_OK)
        rc = fr_store_occurrence_succeeded(host->env.store, what->s->row.id, what->at_ms,
                                           &submit.occasion.previous_ms, err);
    if (rc == FR_OK && (texts.shell = json_pack("{s:s}", "cwd", submit.spec.cwd)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a run");
    if (rc == FR_OK && (job = host_submit(host, &submit, &texts, err)) == NULL)
        rc = err->rc;
    if (job != NULL)
        make_of(job, what, backfill);
    fr_arena_finish(&arena);
    return rc;
}
