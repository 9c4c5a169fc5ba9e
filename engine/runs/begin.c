/* Runs join a host: submitted, resumed, or made by the host. */
#include "engine/runs/job.h"
#include "engine/runs/private.h"

#include "engine/metrics/meters.h"
#include "engine/store/lead.h"

#include <stdlib.h>

static void on_wake(void *arg)
{
    struct host_run *h = arg;

    h->woken = h->host->woken = true;
}

static void on_note(void *arg, const struct fr_run *run, const struct fr_note *note)
{
    struct host_run *h = arg;

    if (h->view.note != NULL)
        h->view.note(h->view.arg, run, note);
    meters_note(h->host->meters, &h->counts, h->run, note);
    for (const struct host_part *const *p = h->parts; *p != NULL; p++)
        if ((*p)->note != NULL)
            (*p)->note(h, run, note);
    if (note->kind == FR_NOTE_RUN && note->now.state == FR_RUN_OVER)
        host_changed(h->host, HOST_QUEUE);
}

/* own: of a run of this process; NULL. */
static struct host_run *new_run(struct fr_host *host, const struct fr_host_own *own, json_t *shell)
{
    struct host_run *h = fr_sys.alloc(sizeof(*h));

    if (h == NULL) {
        json_decref(shell);
        return NULL;
    }
    *h = (struct host_run){.host = host, .parts = host->parts, .mine = own != NULL, .shell = shell};
    if (own != NULL) {
        h->view = own->view;
        h->own = own->shell;
        h->own_shell = true;
    }
    h->granted = shell_granted(h);
    return h;
}

static struct fr_run_env env_of(struct host_run *h)
{
    struct fr_run_env env = h->host->env;
    const char *cwd = json_string_value(json_object_get(h->shell, "cwd"));
    const json_t *mask = json_object_get(h->shell, "umask");

    env.view = (struct fr_view){on_note, h};
    env.limits = &h->host->config.limits;
    env.shell = (struct fr_run_shell){.cwd = h->mine ? h->own.cwd : cwd,
                                      .getenv = shell_env,
                                      .self = h,
                                      .umask = h->own.umask,
                                      .stored = !h->own_shell && cwd == NULL};
    if (env.shell.cwd == NULL)
        env.shell.cwd = "/";
    if (!h->own_shell && mask != NULL)
        env.shell.umask = FR_UMASK_SET | (uint32_t)json_integer_value(mask);
    return env;
}

void host_free_run(struct host_run *h)
{
    fr_run_destroy(h->run);
    host_run_step(h, HOST_RUN_FREE);
    meters_forget(h->counts);
    json_decref(h->shell);
    fr_sys.free(h);
}

/* Adds a made run to the host's list. */
enum fr_rc host_take(struct host_run *h, struct fr_err *err)
{
    struct fr_host *host = h->host;
    struct host_run **runs = fr_grow(host->runs, host->n + 1, &host->cap, sizeof(*runs));
    enum fr_rc rc = FR_OK;

    if (runs == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    host->runs = runs;
    h->alone_ms = fr_sys.mono_ms();
    for (const struct host_part *const *p = host->parts; rc == FR_OK && *p != NULL; p++)
        if ((*p)->came != NULL)
            rc = (*p)->came(h, err);
    if (rc != FR_OK)
        return rc;
    host->runs[host->n++] = h;
    if (host->n == 1 || json_object_get(h->shell, "agent") != NULL)
        shell_agents(host);
    fr_run_on_wake(h->run, on_wake, h);
    on_wake(h);
    host_changed(host, HOST_QUEUE);
    return FR_OK;
}

struct fr_zones host_zones(const struct fr_host *host)
{
    return (struct fr_zones){.folder = getenv("TZDIR"),
                             .home = host->config.zone[0] != '\0' ? host->config.zone : "UTC",
                             .now_ms = fr_sys.wall_ms()};
}

/* Whether a new run waits in the queue: for fr_submit.queue, arg is the host. */
static enum fr_rc ask_queue(void *arg, const struct fr_spec *spec, int64_t not_before_wall,
                            bool *wait, struct fr_err *err)
{
    struct fr_host *host = arg;
    enum fr_rc rc = FR_OK;

    *wait = false;
    for (const struct host_part *const *p = host->parts; rc == FR_OK && !*wait && *p != NULL; p++)
        if ((*p)->waits != NULL)
            rc = (*p)->waits(host, spec, not_before_wall, wait, err);
    return rc;
}

/* A run of a schedule is always queued first. */
static enum fr_rc always_wait(void *arg, const struct fr_spec *spec, int64_t not_before_wall,
                              bool *wait, struct fr_err *err)
{
    (void)arg, (void)spec, (void)not_before_wall, (void)err;
    *wait = true;
    return FR_OK;
}

/* What h needs to be made as that. */
static struct host_make make_of(struct host_run *h, const struct fr_submit *what)
{
    struct host_make make = {.h = h, .env = env_of(h), .submit = *what};

    make.submit.spec.getenv = make.env.shell.getenv;
    make.submit.spec.getenv_self = make.env.shell.self;
    make.zones = host_zones(h->host);
    if (fr_id_zero(h->granted)) { /* else a task that is active waits for it */
        make.submit.queue = what->schedule != 0 ? always_wait : ask_queue;
        make.submit.queue_arg = h->host;
    }
    return make;
}

enum fr_rc host_cause(const struct fr_host *host, enum fr_rc rc, const struct fr_issues *issues,
                      struct fr_err *err)
{
    return rc != FR_OK && issues->n == 0 && fr_store_followed(host->env.store, err) ? FR_DENIED
                                                                                    : rc;
}

static enum fr_rc resume(struct host_run *h, const struct fr_resume_opts *what,
                         struct fr_issues *issues, struct fr_err *err)
{
    struct fr_resume_opts opts = *what;
    struct fr_run_env env;
    enum fr_rc rc;

    if (h == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    env = env_of(h);
    if (fr_id_zero(h->granted)) {
        opts.queue = ask_queue;
        opts.queue_arg = h->host;
    }
    rc = fr_run_resume(&env, &opts, &h->run, issues, err);
    h->host->jobs.untidy = h->host->jobs.untidy || opts.file != NULL;
    if (rc == FR_OK)
        rc = host_take(h, err);
    rc = host_cause(h->host, rc, issues, err);
    if (rc != FR_OK)
        host_free_run(h);
    return rc;
}

enum fr_rc fr_host_submit(struct fr_host *host, const struct fr_submit *what,
                          const struct fr_host_own *own, struct fr_run **out,
                          struct fr_issues *issues, struct fr_err *err)
{
    struct host_run *h = new_run(host, own, NULL);
    struct host_make make;
    enum fr_rc rc;

    *out = NULL;
    if (h == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    make = make_of(h, what);
    make.submit.spec.zones = &make.zones;
    rc = fr_run_submit(&make.env, &make.submit, &h->run, issues, err);
    if (rc == FR_OK)
        rc = host_take(h, err);
    if (rc != FR_OK) {
        host->jobs.untidy = true;
        host_free_run(h);
        return host_cause(host, rc, issues, err);
    }
    *out = h->run;
    return FR_OK;
}

enum fr_rc fr_host_resume(struct fr_host *host, const struct fr_resume_opts *opts,
                          const struct fr_host_own *own, struct fr_run **out,
                          struct fr_issues *issues, struct fr_err *err)
{
    struct host_run *h = new_run(host, own, NULL);
    enum fr_rc rc = resume(h, opts, issues, err);

    *out = rc == FR_OK ? h->run : NULL;
    return rc;
}

struct host_job *host_submit(struct fr_host *host, const struct fr_submit *what,
                             const struct host_texts *texts, struct fr_err *err)
{
    struct host_run *h = new_run(host, NULL, texts->shell);
    struct host_job *job = NULL;
    struct host_make make;

    if (h != NULL) {
        if ((h->own_shell = texts->own != NULL))
            h->own = *texts->own;
        make = make_of(h, what);
        make.doc = texts->doc;
        make.arena = texts->arena;
        job = make_begin(host, &make);
    }
    if (job == NULL) {
        fr_fail(err, FR_NOMEM, "no memory for a run");
        if (h != NULL)
            host_free_run(h);
    }
    return job;
}

enum fr_rc host_resume(struct fr_host *host, const struct fr_resume_opts *opts, json_t *shell,
                       struct host_run **out, struct fr_issues *issues, struct fr_err *err)
{
    struct host_run *h = new_run(host, NULL, shell);
    enum fr_rc rc;

    if (h != NULL)
        shell_find(h, opts->run);
    rc = resume(h, opts, issues, err);
    *out = rc == FR_OK ? h : NULL;
    return rc;
}
