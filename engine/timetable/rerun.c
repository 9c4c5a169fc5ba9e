/* What is due of runs that run again by themselves. */
#include "engine/timetable/rerun.h"

#include "engine/base/log.h"
#include "engine/timetable/schedules.h"
#include "engine/store/occurrences.h"

enum {
    LOOK_MS = 60000,  /* the wall clock may be set: a time is looked at again so often */
    AGAIN_MS = 60000, /* what could not be begun is tried again */
    LATE_MS = 24 * 3600 * 1000,
};

void rerun_changed(struct fr_host *host)
{
    if (!host->config.stays)
        return;
    schedules_of(host)->rerun_due_ms = 0;
    host->woken = true;
}

static void look_in(struct fr_host *host, int64_t ms)
{
    int64_t due = fr_sys.mono_ms() + ms;

    if (due < schedules_of(host)->rerun_due_ms)
        schedules_of(host)->rerun_due_ms = due;
}

/* In a commit of its own; what cannot be written is tried again. */
static void drop(struct fr_host *host, const struct fr_run_row *row, const char *why)
{
    struct fr_store *st = host->env.store;
    struct fr_err err = {0};
    struct fr_buf text = {0};
    enum fr_rc rc = fr_store_begin(st, &err);

    fr_buf_fmt(&text, "it does not run again by itself: %s", why);
    if (rc == FR_OK)
        rc = fr_store_rerun_drop(st, row->id, text.bad ? why : text.p, &err);
    if (fr_store_end(st, rc, &err) == FR_OK) {
        host_changed(host, HOST_QUEUE);
        fr_log(FR_LOG_INFO, "host", "run=%lld does not run again by itself: %s", (long long)row->no,
               why);
    } else {
        look_in(host, AGAIN_MS);
    }
    fr_buf_finish(&text);
}

/* It could not be begun: later, unless that is for good. */
static void not_begun(struct fr_host *host, const struct fr_run_row *row, const struct fr_err *why)
{
    if (why->rc == FR_NOMEM || why->rc == FR_BUSY || why->rc == FR_FULL || why->rc == FR_IO)
        look_in(host, AGAIN_MS);
    else if (why->rc != FR_STOPPED) /* somebody repeated it meanwhile */
        drop(host, row, why->msg);
}

static void retry(struct fr_host *host, const struct fr_run_row *row)
{
    char id[FR_ID_TEXT];
    struct fr_resume_opts opts = {.run = id, .retry = true, .by_itself = true};
    struct fr_issues issues = {0};
    struct host_run *h = host_find(host, row->id);
    struct fr_err why = {0};

    if (h != NULL)
        fr_host_drop(host, h->run);
    fr_id_text(row->id, id);
    if (host_resume(host, &opts, NULL, &h, &issues, &why) != FR_OK)
        not_begun(host, row, &why);
    fr_issues_finish(&issues);
}

struct repeated { /* in the memory of the new run */
    struct fr_host *host;
    const struct fr_run_row *row;
};

static bool is_of(const void *arg, const void *run)
{
    return fr_id_eq(((const struct repeated *)arg)->row->id, *(const struct fr_id *)run);
}

static void made(void *arg, const struct fr_issues *issues, const struct fr_err *why)
{
    const struct repeated *of = arg;

    (void)issues;
    if (why->rc != FR_OK)
        not_begun(of->host, of->row, why);
}

static const struct make_for of_rerun = {.over = made};

static void repeat(struct fr_host *host, const struct fr_run_row *row)
{
    struct fr_arena arena = {0};
    struct host_texts texts = {.arena = &arena};
    struct fr_again *again = fr_arena_alloc(&arena, sizeof(*again));
    struct fr_submit submit = {
        .origin = FR_ORIGIN_RETRY, .priority = row->priority, .by_itself = true, .again = again};
    struct fr_run_row kept; /* in the arena, which is the new run's while it is made */
    struct repeated *of = fr_arena_alloc(&arena, sizeof(*of));
    struct host_job *job = NULL;
    struct fr_err why = {0};
    char id[FR_ID_TEXT];
    enum fr_rc rc;

    if (row->schedule != 0 && schedules_of(host)->served)
        texts.own = &host->config.schedule_shell;
    fr_id_text(row->id, id);
    rc = again == NULL || of == NULL ? fr_fail(&why, FR_NOMEM, "no memory for a run")
                                     : fr_store_run_find(host->env.store, id, &arena, &kept, &why);
    if (rc == FR_OK)
        rc = fr_run_again(host->env.store, &kept, &arena, again, &why);
    if (rc == FR_OK)
        rc = fr_id_new(&submit.id, &why);
    if (rc == FR_OK)
        *of = (struct repeated){host, &again->row};
    if (rc == FR_OK && (job = host_submit(host, &submit, &texts, &why)) == NULL)
        rc = why.rc;
    if (rc == FR_OK)
        make_for(job, &of_rerun, of);
    if (rc != FR_OK)
        not_begun(host, row, &why);
    fr_arena_finish(&arena);
}

void rerun_forget(struct fr_host *host, int64_t no)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};

    (void)fr_store_reruns(host->env.store, &arena, &rows, NULL); /* else the next time */
    for (size_t i = 0; i < rows.n; i++)
        if (rows.rows[i].no == no)
            drop(host, &rows.rows[i], "the next run of its schedule takes its place");
    fr_arena_finish(&arena);
}

/* One whose time has come. */
static enum fr_rc begin(struct fr_host *host, const struct fr_run_row *row, struct fr_err *err)
{
    const struct host_run *h = host_find(host, row->id);
    int64_t newer = 0;
    char text[100];
    enum fr_rc rc = FR_OK;

    if ((h != NULL && (h->mine || !fr_run_over(h->run))) ||
        make_any(host, &of_rerun, is_of, &row->id))
        return FR_OK; /* it is still here, or begun */
    if (row->schedule != 0)
        rc = fr_store_occurrence_newer(host->env.store, row->schedule, row->at_ms, &newer, err);
    if (rc != FR_OK)
        return rc;
    if (fr_sys.wall_ms() - row->rerun_wall > LATE_MS) {
        drop(host, row, "no host that stays was there for a day when it was due");
    } else if (newer != 0) {
        snprintf(text, sizeof(text), "run %lld of a later instant of its schedule has succeeded",
                 (long long)newer);
        drop(host, row, text);
    } else if (strcmp(row->rerun_from, "start") == 0) {
        repeat(host, row);
    } else {
        retry(host, row);
    }
    return FR_OK;
}

enum fr_rc rerun_turn(struct fr_host *host, struct fr_err *err)
{
    struct host_schedules *all = schedules_of(host);
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    enum fr_rc rc;

    if (!host->config.stays || all->rerun_due_ms > fr_sys.mono_ms())
        return FR_OK;
    all->rerun_due_ms = INT64_MAX;
    rc = fr_store_reruns(host->env.store, &arena, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        int64_t left = rows.rows[i].rerun_wall - fr_sys.wall_ms();

        if (left > 0) {
            look_in(host, left < LOOK_MS ? left : LOOK_MS);
            break;
        }
        rc = begin(host, &rows.rows[i], err);
    }
    fr_arena_finish(&arena);
    if (rc == FR_OK || rc == FR_NOMEM)
        return rc;
    look_in(host, AGAIN_MS); /* the store could not be read */
    return FR_OK;
}
