/* Requests that begin, change or remove runs, and their answers. */
#include "engine/answer/call.h"
#include "engine/api/body.h"
#include "engine/timetable/fenced.h"
#include "engine/answer/remote.h"
#include "engine/retain/retain.h"

#include <stdlib.h>

/* ---- what users ask of a run ---- */

/* The run; this host drives it from now on. */
static enum fr_rc drive(struct call *c, struct fr_resume_opts *opts, json_t *shell,
                        struct host_run **out, struct fr_err *err)
{
    char id[FR_ID_TEXT];
    enum fr_rc rc;

    if (make_find(c->host, c->run.id) != NULL) {
        json_decref(shell);
        return fr_fail(err, FR_BUSY, "run %lld is being submitted: ask again in a moment",
                       (long long)c->run.no);
    }
    *out = host_find(c->host, c->run.id);
    if (*out != NULL && opts->retry && fr_run_now((*out)->run).state == FR_RUN_OVER &&
        fr_run_due((*out)->run).commit_ms == INT64_MAX && !(*out)->mine) {
        fr_host_drop(c->host, (*out)->run);
        *out = NULL;
    }
    if (*out == NULL) {
        fr_id_text(c->run.id, id);
        opts->run = id;
        rc = host_resume(c->host, opts, shell, out, &c->issues, err);
        return rc == FR_OK && opts->retry ? host_settle(c->host, err) : rc;
    }
    if (opts->retry || opts->file != NULL)
        rc = fr_fail(err, FR_BUSY,
                     "run %lld is still going on; cancel it first, or wait for its end",
                     (long long)c->run.no);
    else
        rc = host_give(*out, shell, err);
    json_decref(shell);
    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; i < opts->n_abandon; i++) {
        if ((rc = fr_run_abandon((*out)->run, opts->abandon[i], err)) != FR_OK)
            return rc;
    }
    return opts->n_abandon > 0 ? host_settle(c->host, err) : FR_OK;
}

/* The response to the first request was lost, perhaps with its host: this host then drives the
 * run. */
static enum fr_rc submit_again(struct call *c, json_t *shell, struct fr_err *err)
{
    struct fr_resume_opts opts = {0};
    struct host_run *h = NULL;
    enum fr_rc rc = FR_OK;

    if (c->run.state == FR_RUN_OVER)
        json_decref(shell);
    else
        rc = drive(c, &opts, shell, &h, err);
    return rc == FR_OK ? answer_run(c, 200, c->run.id, err) : rc;
}

/* own: in the host's own shell. */
static enum fr_rc begin_submit(struct call *c, bool own, struct fr_err *err)
{
    struct host_texts texts = {.arena = &c->arena};
    struct fr_again *again = NULL;
    struct host_job *job;
    struct fr_submit submit;
    char id[FR_ID_TEXT];
    enum fr_rc rc = FR_OK;

    if (c->run.no != 0 && (again = fr_arena_alloc(&c->arena, sizeof(*again))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    if (again != NULL)
        rc = fr_run_again(c->host->env.store, &c->run, &c->arena, again, err);
    if (rc == FR_OK)
        rc = body_submit(c->doc, again, &c->arena, &submit, &texts.shell, err);
    if (rc == FR_OK && c->req->caller != NULL &&
        (submit.who = fr_arena_dup(&c->arena, c->req->caller->name)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a request");
    if (rc != FR_OK)
        return rc;
    submit.spec.fence = c->fence;
    if (c->fence != NULL)
        c->fence->n_params = submit.spec.n_params;
    texts.doc = c->doc;
    texts.own = own && c->host->config.shell.getenv != NULL ? &c->host->config.shell : NULL;
    fr_id_text(submit.id, id);
    if ((job = make_find(c->host, submit.id)) != NULL)
        json_decref(texts.shell);
    else if (fr_store_run_find(c->host->env.store, id, &c->arena, &c->run, NULL) == FR_OK)
        return submit_again(c, texts.shell, err);
    else
        job = host_submit(c->host, &submit, &texts, err);
    return answer_later(c, job, err);
}

/* Responds with the run that this request submitted, or with the error. */
static enum fr_rc end_submit(struct call *c, struct host_job *job, struct fr_err *err)
{
    struct fr_id run = job->run;
    enum fr_rc rc;

    if (!job_over(job) && make_stuck(job) && c->req->caller != NULL)
        return fr_fail(
            err, FR_FULL,
            "the state cannot be written now: the run begins once it can be, if this host "
            "lives that long");
    if (!job_over(job))
        return answer_later(c, job, err);
    rc = job_result(job, &c->issues, err);
    job_drop(job);
    if (rc != FR_OK)
        return rc;
    rc = answer_run(c, 201, run, err);
    c->run.no = c->made; /* the audit names it */
    return rc;
}

enum fr_rc post_runs(struct call *c, struct fr_err *err)
{
    struct host_job *job = job_of(c->host, c->req->waiter);
    bool remote = c->req->caller != NULL;
    enum fr_rc rc = FR_OK;

    if (job != NULL)
        return end_submit(c, job, err);
    if (remote)
        rc = remote_submit(c, err);
    return rc == FR_OK ? begin_submit(c, remote, err) : rc;
}

enum fr_rc post_runs_run_rerun(struct call *c, struct fr_err *err)
{
    return post_runs(c, err);
}

enum fr_rc post_schedules_id_run(struct call *c, struct fr_err *err)
{
    struct host_job *job = job_of(c->host, c->req->waiter);
    struct fr_schedule_row row;
    enum fr_rc rc;

    if (job != NULL)
        return end_submit(c, job, err);
    if (json_object_size(c->doc) != 0)
        return fr_fail(err, FR_USAGE, "the body must be {}");
    rc = call_schedule_row(c, &row, err);
    if (rc == FR_OK)
        rc = remote_schedule(c, &row, err);
    return rc == FR_OK ? begin_submit(c, true, err) : rc;
}

enum fr_rc post_runs_run_resume(struct call *c, struct fr_err *err)
{
    struct fr_resume_opts opts;
    struct host_run *h;
    json_t *shell = NULL;
    enum fr_rc rc = FR_OK;

    if (c->req->caller != NULL && json_object_size(c->doc) != 0)
        return fr_fail(err, FR_USAGE, "the body must be {}");
    rc = body_resume(c->doc, &c->arena, &opts, &shell, err);
    if (rc == FR_OK && c->req->caller != NULL) {
        json_decref(shell);
        shell = NULL; /* keeps the stored one */
    }
    if (rc == FR_OK)
        rc = drive(c, &opts, shell, &h, err);
    return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
}

/* {from}, or {failed: true}: failed tasks run again, and the tasks that need them */
enum fr_rc post_runs_run_retry(struct call *c, struct fr_err *err)
{
    struct fr_resume_opts opts = {.retry = true};
    struct host_run *h;
    int failed = 1;
    enum fr_rc rc;

    if (json_unpack(c->doc, "{s?s, s?b !}", "from", &opts.retry_from, "failed", &failed) != 0 ||
        failed == 0 || json_object_size(c->doc) > 1)
        return fr_fail(err, FR_USAGE,
                       "the body must be {\"failed\": true} or {\"from\": \"task\"}");
    rc = drive(c, &opts, NULL, &h, err);
    return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
}

/* {node}: gives the node up */
enum fr_rc post_runs_run_abandon(struct call *c, struct fr_err *err)
{
    struct fr_resume_opts opts = {0};
    const char *node = NULL;
    struct host_run *h;
    enum fr_rc rc;

    if (json_unpack(c->doc, "{s:s !}", "node", &node) != 0)
        return fr_fail(err, FR_USAGE, "the body must be {\"node\": \"name\"}");
    opts.abandon = &node;
    opts.n_abandon = 1;
    rc = drive(c, &opts, NULL, &h, err);
    return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
}

/* A follower hands over secrets and an agent that the run may lack. */
enum fr_rc post_runs_run_shell(struct call *c, struct fr_err *err)
{
    struct host_run *h = host_find(c->host, c->run.id);
    json_t *shell = NULL;
    enum fr_rc rc = body_give(c->doc, &shell, err);

    if (rc == FR_OK && h == NULL)
        rc = fr_fail(err, FR_BUSY, "run %lld is not driven by this host", (long long)c->run.no);
    if (rc == FR_OK)
        rc = host_give(h, shell, err);
    json_decref(shell);
    return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
}

static bool waits(const struct call *c)
{
    struct host_run *h = host_find(c->host, c->run.id);

    return h != NULL ? fr_run_queued(h->run) : c->run.state == FR_RUN_QUEUED;
}

static enum fr_rc say_begun(const struct call *c, struct fr_err *err)
{
    return fr_fail(err, FR_BUSY, "run %lld does not wait in the queue", (long long)c->run.no);
}

/* {queued}: only if the run is still queued */
enum fr_rc post_runs_run_cancel(struct call *c, struct fr_err *err)
{
    struct fr_resume_opts opts = {0};
    struct host_run *h;
    int queued = 0;
    enum fr_rc rc;

    if (json_unpack(c->doc, "{s?b !}", "queued", &queued) != 0)
        return fr_fail(err, FR_USAGE, "the body must be {} or {\"queued\": true}");
    if (queued && !waits(c))
        return say_begun(c, err);
    if (c->run.state == FR_RUN_OVER && c->run.rerun_wall == 0)
        return fr_fail(err, FR_BUSY, "run %lld is over (%s)", (long long)c->run.no,
                       fr_outcome_name(c->run.outcome));
    if (c->run.state == FR_RUN_OVER) {
        rc = fr_store_rerun_drop(c->host->env.store, c->run.id, FR_RERUN_CANCELLED, err);
        host_changed(c->host, HOST_QUEUE);
        return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
    }
    rc = drive(c, &opts, NULL, &h, err);
    if (rc != FR_OK)
        return rc;
    h->cancelled = true;
    fr_run_say(h->run, "cancelled from another shell: stopping all tasks");
    fr_run_cancel(h->run);
    rc = host_settle(c->host, err);
    return rc == FR_OK ? answer_run(c, 202, c->run.id, err) : rc;
}

/* {priority}: of a queued run */
enum fr_rc post_runs_run_priority(struct call *c, struct fr_err *err)
{
    struct host_run *h = host_find(c->host, c->run.id);
    json_int_t priority;
    enum fr_rc rc;

    if (json_unpack(c->doc, "{s:I !}", "priority", &priority) != 0)
        return fr_fail(
            err, FR_USAGE,
            "the body must be {\"priority\": N}, a whole number: in the queue the larger "
            "goes first");
    if (!waits(c))
        return say_begun(c, err);
    if ((rc = fr_store_run_priority(c->host->env.store, c->run.id, priority, err)) != FR_OK)
        return rc;
    if (h != NULL)
        fr_run_prioritize(h->run, priority);
    host_changed(c->host, HOST_QUEUE);
    return answer_run(c, 200, c->run.id, err);
}

/* ---- which runs the home keeps ---- */

/* Later turns of the loop remove its files and rows. */
enum fr_rc delete_runs_run(struct call *c, struct fr_err *err)
{
    struct host_job *job;
    int64_t bytes;
    enum fr_rc rc;

    if ((job = ask_job(c, size_begin, &rc, err)) == NULL)
        return rc;
    bytes = size_bytes(job);
    job_drop(job);
    if ((rc = fr_retain_remove(c->host->env.store, c->run.id, err)) != FR_OK)
        return rc;
    fr_retain_wake(c->host->retain);
    return answer_json(
        c, 200, json_pack("{s:I, s:I}", "no", (json_int_t)c->run.no, "bytes", (json_int_t)bytes),
        err);
}

enum fr_rc post_runs_run_pin(struct call *c, struct fr_err *err)
{
    json_t *pinned = json_object_get(c->doc, "pinned");
    enum fr_rc rc;

    if (!json_is_boolean(pinned) || json_object_size(c->doc) != 1)
        return fr_fail(err, FR_USAGE, "the body must be {\"pinned\": true} or false");
    rc = fr_store_run_pin(c->host->env.store, c->run.id, json_is_true(pinned), err);
    return rc == FR_OK ? answer_run(c, 200, c->run.id, err) : rc;
}

enum fr_rc post_sweep(struct call *c, struct fr_err *err)
{
    struct host_job *job;
    struct fr_swept swept;
    enum fr_rc rc;

    if ((job = ask_job(c, sweep_begin, &rc, err)) == NULL)
        return rc;
    swept = sweep_result(job);
    job_drop(job);
    return answer_json(
        c, 200,
        json_pack("{s:I, s:I}", "files", (json_int_t)swept.files, "bytes", (json_int_t)swept.bytes),
        err);
}
