/* The schedules of a host that stays: from the files of its folders to what is due. */
#include "engine/timetable/schedules.h"

#include "engine/base/log.h"

enum {
    SLICE_MS = 5,      /* of a turn, for what many schedules need at once … */
    SLICE_LEAST = 8,   /* … and so many of them, however busy the machine is */
    ASLEEP_MS = 60000, /* at once: the clock may be set meanwhile */
    STEP_MS = 2000,    /* of the wall clock against the monotonic one: it was set */
    BACKOFF_MS = 1000,
    BACKOFF_MOST_MS = 60000,
    MAKING_MOST = 8 /* runs at once: the others wait their turn */
};

static int64_t next_backoff(int64_t *backoff_ms)
{
    *backoff_ms = *backoff_ms == 0                    ? BACKOFF_MS
                  : *backoff_ms > BACKOFF_MOST_MS / 2 ? BACKOFF_MOST_MS
                                                      : 2 * *backoff_ms;
    return fr_sys.mono_ms() + *backoff_ms;
}

struct host_schedule *schedules_find(const struct fr_host *host, int64_t id)
{
    const struct host_schedules *all = schedules_of(host);

    for (size_t i = 0; i < all->n; i++)
        if (all->list[i]->stored && all->list[i]->row.id == id)
            return all->list[i];
    return NULL;
}

/* ---- when it is due ---- */

static void arm(struct host_schedules *all, struct host_schedule *s, int64_t due_wall)
{
    s->due_wall = due_wall;
    s->stamp++;
    if (due_wall != INT64_MAX &&
        !fr_heap_push(&all->due, (struct fr_heap_entry){(uint64_t)due_wall, s->place, s->stamp}))
        all->unarmed = true; /* no memory: all are looked at again */
}

void schedules_rearm(struct host_schedules *all, struct host_schedule *s)
{
    struct fr_arena arena = {0};
    struct fr_due due;
    int64_t at = INT64_MAX;

    if (s->s != NULL && s->stored && !s->dirty && s->occurrence == NULL) {
        if (occurrences_state(all, s, &arena, &due, NULL) == FR_OK)
            at = fr_next_due(&due);
        else
            all->unarmed = true;
    }
    arm(all, s, at != FR_NO_END && at < 0 ? 0 : at);
    fr_arena_finish(&arena);
}

/* Some of all. */
static void rearm_all(struct host_schedules *all)
{
    if (all->unarmed && all->to_arm == 0) {
        all->unarmed = false;
        all->due.n = 0;
        all->to_arm = all->n;
    }
    for (size_t n = 0; all->to_arm > 0 && !schedules_spent(all, n); n++)
        schedules_rearm(all, all->list[--all->to_arm]);
}

/* The next one that is due; entries that are out of date go. NULL: none is. */
static struct host_schedule *first_due(struct host_schedules *all)
{
    while (all->due.n > 0) {
        struct host_schedule *s = all->list[all->due.v[0].id];

        if (s->stamp == all->due.v[0].stamp)
            return s;
        (void)fr_heap_pop(&all->due);
    }
    return NULL;
}

/* Some of what is due. */
static enum fr_rc decide_due(struct host_schedules *all, struct fr_err *err)
{
    struct occurrences_batch batch = {.all = all};
    int64_t now = fr_sys.wall_ms();
    struct fr_err why = {0};
    struct host_schedule *s = NULL;
    size_t looked = 0;

    while (why.rc == FR_OK && looked < OCCURRENCES_BATCH && !schedules_spent(all, looked) &&
           all->making < MAKING_MOST && (s = first_due(all)) != NULL && s->due_wall <= now) {
        size_t had = batch.n;

        if (s->retry_ms > fr_sys.mono_ms()) { /* its last decision could not be written */
            arm(all, s, now + (s->retry_ms - fr_sys.mono_ms()));
            continue;
        }
        s->stamp++;
        looked++;
        if (occurrences_decide(&batch, s, &why) != FR_OK) {
            if (batch.n == had)
                schedules_retry(all, s);
        } else if (batch.n == had && s->occurrence == NULL) {
            s->backoff_ms = 0;
            schedules_rearm(all, s);
        }
    }
    all->more = looked == OCCURRENCES_BATCH || schedules_spent(all, looked);
    if (occurrences_commit(&batch, why.rc, &why) == FR_DENIED)
        return fr_fail(err, FR_DENIED, "%s", why.msg);
    if (why.rc != FR_OK)
        fr_log(FR_LOG_WARN, "schedules", "what is due is decided later: %s", why.msg);
    return FR_OK;
}

void schedules_retry(struct host_schedules *all, struct host_schedule *s)
{
    s->retry_ms = next_backoff(&s->backoff_ms);
    schedules_rearm(all, s);
}

/* ---- the clock ---- */

static void watch_clock(struct host_schedules *all)
{
    int64_t wall = fr_sys.wall_ms(), mono = fr_sys.mono_ms();
    int64_t step = (wall - all->wall_ms) - (mono - all->mono_ms);

    if (wall < all->wall_ms) {
        all->back = true;
        all->back_at = 0;
    }
    all->wall_ms = wall;
    all->mono_ms = mono;
    if (step >= -STEP_MS && step <= STEP_MS)
        return;
    all->clock_steps++;
    all->unarmed = true;
    if (step > FR_KEEP_STEP_MS || step < -FR_KEEP_STEP_MS)
        all->prune_ms = mono + FR_KEEP_WAIT_MS;
    fr_log(FR_LOG_WARN, "schedules", "the clock was set by %lld.%03lld s, or this machine slept",
           (long long)(step / 1000), (long long)(step < 0 ? -step : step) % 1000);
}

const char *schedules_file_of(const struct fr_host *host, const char *name)
{
    const struct host_schedules *all = schedules_of(host);

    for (size_t i = 0; i < all->n_files; i++)
        if (all->files[i]->name != NULL && strcmp(all->files[i]->name, name) == 0)
            return all->files[i]->path;
    return NULL;
}

json_t *schedules_pipelines(const struct fr_host *host)
{
    const struct host_schedules *all = schedules_of(host);
    json_t *list = json_array();

    for (size_t i = 0; i < all->n_files; i++)
        if (all->files[i]->name != NULL)
            json_array_append_new(list,
                                  json_pack("[s, s]", all->files[i]->name, all->files[i]->path));
    return list;
}

bool schedules_spent(const struct host_schedules *all, size_t done)
{
    return done >= SLICE_LEAST && fr_sys.mono_ms() >= all->mono_ms + SLICE_MS;
}

uint64_t schedules_clock_steps(const struct fr_host *host)
{
    return schedules_of(host)->clock_steps;
}

void schedules_look_soon(struct host_schedules *all, int64_t in_ms)
{
    int64_t at = fr_sys.mono_ms() + in_ms;

    all->look_ms = at < all->look_ms ? at : all->look_ms;
}

void schedules_configured(struct fr_host *host)
{
    struct host_schedules *all = schedules_of(host);

    for (size_t i = 0; i < all->n_files; i++)
        all->files[i]->mark = (struct fr_folder_mark){0}; /* each is read again */
    schedules_look_soon(all, 0);
}

/* It may have begun, and its row not know that yet. */
static bool does_wait(void *arg, struct fr_id run)
{
    const struct host_run *h = host_find(arg, run);

    return h == NULL || fr_run_queued(h->run);
}

enum fr_rc schedules_pause(struct host_schedules *all, struct host_schedule *s,
                           const struct fr_pause *how, struct fr_err *err)
{
    struct fr_pause pause = *how;
    struct fr_schedule_row row = s->row;
    enum fr_rc rc;

    pause.waits = does_wait;
    pause.waits_arg = all->host;
    rc = s->stored && !s->dirty ? fr_schedule_pause(all->host->env.store, &row, &pause, err)
                                : fr_fail(err, FR_BUSY, "the schedule is being written: ask again");
    if (rc != FR_OK)
        return rc;
    host_changed(all->host, HOST_QUEUE);
    fr_log(FR_LOG_INFO, "schedules", "%s/%s is %s%s%s", row.pipeline, row.name,
           fr_word(&fr_schedule_state_words, row.state), row.note[0] != '\0' ? ": " : "", row.note);
    s->row.state_wall = row.state_wall;
    s->row.seen_ms = row.seen_ms;
    s->row.since_ms = row.since_ms;
    s->turn++;
    s->row.state = row.state;
    if (!schedules_text(&s->row.note, row.note))
        fr_fail(&all->err, FR_NOMEM, "no memory for schedules");
    schedules_rearm(all, s);
    return FR_OK;
}

/* ---- runs that failed ---- */

void schedules_ended(struct fr_host *host, const struct fr_run_row *run)
{
    struct host_schedule *s = run->schedule != 0 ? schedules_find(host, run->schedule) : NULL;

    if (s != NULL)
        s->ended = schedules_of(host)->ended = true;
}

/* Whether its newest runs have failed, as many as pause_after says. */
static enum fr_rc failed_often(struct host_schedules *all, const struct host_schedule *s, bool *yes,
                               struct fr_err *err)
{
    struct fr_occurrence_page page = {s->row.id, INT64_MAX, (size_t)s->s->pause_after};
    struct fr_arena arena = {0};
    struct fr_occurrence_rows rows = {0};
    enum fr_rc rc = fr_store_occurrences_ended(all->host->env.store, &page, &arena, &rows, err);

    *yes = rc == FR_OK && rows.n == page.limit;
    for (size_t i = 0; *yes && i < rows.n; i++)
        *yes = rows.rows[i].at_ms > s->row.since_ms && rows.rows[i].outcome == FR_OUT_FAILED;
    fr_arena_finish(&arena);
    return rc;
}

/* Some of those that ended; ended stays true until all are looked at. */
static enum fr_rc pause_failed(struct host_schedules *all, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    size_t i = 0, looked = 0;

    for (; rc == FR_OK && i < all->n; i++) {
        struct host_schedule *s = all->list[i];
        bool often = false;
        char note[80];
        int n;

        if (!s->ended)
            continue;
        if (schedules_spent(all, looked++))
            break;
        if (s->s != NULL && s->s->pause_after > 0 && s->row.state == FR_SCHEDULE_ACTIVE)
            rc = failed_often(all, s, &often, err);
        n = s->s != NULL ? s->s->pause_after : 0;
        snprintf(note, sizeof(note),
                 n == 1 ? "its last run has failed" : "its last %d runs have failed", n);
        if (rc == FR_OK && often)
            rc = schedules_pause(all, s, &(struct fr_pause){.pause = true, .note = note}, err);
        s->ended = rc != FR_OK;
    }
    all->ended = rc != FR_OK || i < all->n;
    return rc;
}

/* ---- a turn ---- */

static enum fr_rc write_rows(struct host_schedules *all, struct fr_err *err)
{
    struct fr_err why = {0};

    if (fr_sys.mono_ms() < all->write_ms)
        return FR_OK;
    if (all->back)
        (void)clock_rollback(all, &why);
    if (why.rc == FR_OK && !all->back && all->dirty)
        (void)schedules_write(all, &why);
    if (why.rc == FR_OK) {
        all->write_ms = all->backoff_ms = 0;
        return FR_OK;
    }
    all->write_ms = next_backoff(&all->backoff_ms);
    fr_log(FR_LOG_WARN, "schedules", "nothing is decided until it can be written: %s", why.msg);
    return why.rc == FR_DENIED ? fr_fail(err, why.rc, "%s", why.msg) : FR_OK;
}

/* With all that is known of the schedules. */
static enum fr_rc decide(struct host_schedules *all, struct fr_err *err)
{
    enum fr_rc rc;

    rearm_all(all);
    if (all->to_arm > 0)
        return FR_OK;
    rc = all->ended ? pause_failed(all, err) : FR_OK;
    if (rc == FR_DENIED || (rc == FR_OK && all->ended)) /* another error: the next turn tries */
        return rc;
    if ((rc = decide_due(all, err)) != FR_OK)
        return rc;
    all->ready = all->ready || !all->more;
    if (fr_sys.mono_ms() >= all->prune_ms)
        schedules_prune(all);
    return FR_OK;
}

enum fr_rc schedules_turn(struct fr_host *host, struct fr_err *err)
{
    struct host_schedules *all = schedules_of(host);
    enum fr_rc rc;

    if (!all->served)
        return FR_OK;
    watch_clock(all);
    if (all->err.rc != FR_OK)
        return fr_fail(err, all->err.rc, "%s", all->err.msg);
    if (all->look == NULL && fr_sys.mono_ms() >= all->look_ms &&
        (rc = folder_scan_begin(all, err)) != FR_OK)
        return rc;
    if (all->taking)
        folder_scan_take(all);
    if (!all->looked || all->taking)
        return FR_OK;
    all->more = true; /* unless decide() comes to an end */
    if ((all->dirty || all->back) && (rc = write_rows(all, err)) != FR_OK)
        return rc;
    return all->dirty || all->back ? FR_OK : decide(all, err);
}

int64_t schedules_due(const struct fr_host *host)
{
    struct host_schedules *all = schedules_of(host);
    int64_t now = fr_sys.mono_ms(), due = now + ASLEEP_MS, in;
    const struct host_schedule *s;

    if (!all->served)
        return INT64_MAX;
    if (all->taking)
        return now;
    if (all->look == NULL && all->look_ms < due)
        due = all->look_ms;
    if (!all->looked)
        return due;
    if (all->dirty || all->back)
        return all->write_ms < due ? all->write_ms : due;
    if (all->more)
        return now;
    if (all->unarmed)
        return now + BACKOFF_MS;
    if (all->making >= MAKING_MOST || (s = first_due(all)) == NULL)
        return due;
    in = s->due_wall - fr_sys.wall_ms();
    return in < due - now ? now + (in > 0 ? in : 0) : due;
}
