/* What a host that stays starts by itself: how that begins and ends. */
#include "engine/timetable/timetable.h"

#include "engine/timetable/backfilling.h"
#include "engine/timetable/rerun.h"
#include "engine/timetable/schedules.h"

enum { LOOK_SOON_MS = 20 /* several files are written at once */ };

/* ---- begin and end ---- */

struct host_schedules *schedules_of(const struct fr_host *host)
{
    return host_state(host, &timetable_part);
}

static void on_dir_news(void *arg, int what)
{
    struct host_schedules *all = arg;
    char news[4096];

    (void)what;
    while (fr_sys.read(all->dir_fd, news, sizeof(news)) > 0)
        ;
    schedules_look_soon(all, LOOK_SOON_MS);
}

static void on_clock_news(void *arg, int what)
{
    struct host_schedules *all = arg;
    uint64_t news;

    (void)what;
    (void)!fr_sys.read(all->clock_fd, &news, sizeof(news)); /* the turn looks at the clock */
}

static enum fr_rc listen_to(struct host_schedules *all, int fd, fr_ready_fn *fn,
                            struct fr_watch **out)
{
    enum fr_rc rc = fd < 0 ? FR_OK : fr_loop_watch(all->host->env.loop, fd, fn, all, out);

    if (rc == FR_OK && fd >= 0)
        fr_loop_want(all->host->env.loop, *out, FR_LOOP_READ);
    return rc;
}

static enum fr_rc open_schedules(struct fr_host *host, struct fr_err *err)
{
    (void)err;
    *schedules_of(host) = (struct host_schedules){
        .host = host, .rerun_due_ms = INT64_MAX, .backfill_due_ms = INT64_MAX};
    return FR_OK;
}

static void close_schedules(struct fr_host *host)
{
    struct host_schedules *all = schedules_of(host);

    if (!all->served)
        return;
    folder_scan_end(all);
    fr_loop_unwatch(host->env.loop, &all->dir_watch);
    fr_loop_unwatch(host->env.loop, &all->clock_watch);
    if (all->dir_fd >= 0)
        fr_sys.close(all->dir_fd);
    if (all->clock_fd >= 0)
        fr_sys.close(all->clock_fd);
    for (size_t i = 0; i < all->n_files; i++)
        schedules_free_file(all->files[i]);
    for (size_t i = 0; i < all->n_folders; i++)
        fr_sys.free((void *)all->folders[i]);
    fr_sys.free(all->folders);
    fr_sys.free(all->files);
    fr_sys.free(all->list);
    fr_heap_finish(&all->due);
    (void)open_schedules(host, NULL);
}

enum fr_rc fr_host_watch(struct fr_host *host, const char *const *folders, size_t n,
                         const struct fr_run_shell *shell, struct fr_err *err)
{
    struct host_schedules *all = schedules_of(host);
    size_t bytes;
    bool ok;
    enum fr_rc rc;

    all->served = all->back = true;
    all->dir_fd = fr_sys.dir_news(folders, n);
    all->clock_fd = fr_sys.clock_news();
    all->wall_ms = fr_sys.wall_ms();
    all->mono_ms = fr_sys.mono_ms();
    host->config.schedule_shell = *shell;
    ok = fr_mul_size(n, sizeof(*all->folders), &bytes) &&
         (all->folders = fr_sys.alloc(bytes)) != NULL;
    for (; ok && all->n_folders < n; all->n_folders += ok) {
        all->folders[all->n_folders] = NULL;
        ok = schedules_text(&all->folders[all->n_folders], folders[all->n_folders]);
    }
    ok = ok && listen_to(all, all->dir_fd, on_dir_news, &all->dir_watch) == FR_OK &&
         listen_to(all, all->clock_fd, on_clock_news, &all->clock_watch) == FR_OK;
    rc = ok ? schedules_load(all, err) : fr_fail(err, FR_NOMEM, "no memory for schedules");
    if (rc != FR_OK)
        close_schedules(host);
    return rc;
}

bool fr_host_ready(const struct fr_host *host)
{
    return !schedules_of(host)->served || schedules_of(host)->ready;
}

/* ---- the part ---- */

static enum fr_rc begin_due(struct fr_host *host, struct fr_err *err)
{
    enum fr_rc rc = rerun_turn(host, err);

    return rc == FR_OK ? backfill_turn(host, err) : rc;
}

static int64_t due(const struct fr_host *host)
{
    const struct host_schedules *all = schedules_of(host);
    int64_t due = schedules_due(host);

    due = all->rerun_due_ms < due ? all->rerun_due_ms : due;
    return all->backfill_due_ms < due ? all->backfill_due_ms : due;
}

static void gone(struct host_run *h)
{
    rerun_changed(h->host);
    backfill_changed(h->host);
}

/* A run that begins leaves its place in the queue. */
static void note(struct host_run *h, const struct fr_run *run, const struct fr_note *note)
{
    if (note->kind == FR_NOTE_RUN && note->now.state == FR_RUN_OVER)
        schedules_ended(h->host, fr_run_record(run));
    else if (note->kind == FR_NOTE_RUN)
        gone(h);
}

const struct host_part timetable_part = {
    .name = "what schedules had to do",
    .state_bytes = sizeof(struct host_schedules),
    .step = {[HOST_OPEN] = open_schedules, [HOST_TURN] = schedules_turn, [HOST_DECIDE] = begin_due},
    .superseded = rerun_forget,
    .due = due,
    .note = note,
    .of_run = {[HOST_RUN_GONE] = gone},
    .close = close_schedules};
