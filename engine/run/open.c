/* A run comes to be from a pipeline file; and what a resumed one needs, too. */
#include "engine/run/inside.h"
#include "engine/run/metrics.h"
#include "engine/run/reasons.h"

#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

/* ---- both ---- */

static void on_shipment(void *run)
{
    run_wake(run);
}

struct fr_run *run_new(const struct fr_run_env *env, struct fr_err *err)
{
    struct fr_run *run = fr_sys.alloc(sizeof(*run));

    if (run == NULL) {
        fr_fail(err, FR_NOMEM, "no memory for a run");
        return NULL;
    }
    memset(run, 0, sizeof(*run));
    run->env = *env;
    run->home = fr_arena_dup(&run->arena, env->home);
    run->env.shell.cwd = fr_arena_dup(&run->arena, env->shell.cwd);
    if (run->home == NULL || run->env.shell.cwd == NULL) {
        fr_fail(err, FR_NOMEM, "no memory for a run");
        fr_run_destroy(run);
        return NULL;
    }
    run->posted_last = &run->posted;
    run->log_due_ms = run->block_due_ms = INT64_MAX;
    run->shipment = (struct fr_shipment){.arena = &run->arena,
                                         .loop = env->loop,
                                         .copies = run_copies,
                                         .ready = on_shipment,
                                         .arg = run,
                                         .program = env->program,
                                         .program_arg = env->program_arg};
    return run;
}

static void on_event(void *arg, struct fr_exec_event *ev)
{
    struct fr_run *run = arg;

    ev->next = NULL;
    *run->posted_last = ev;
    run->posted_last = &ev->next;
    run_wake(run);
}

static enum fr_rc make_exec(struct fr_run *run, struct fr_err *err)
{
    const struct fr_plan *plan = run->plan;
    struct fr_exec_node *nodes = fr_arena_array(&run->arena, plan->n_nodes, sizeof(*nodes));
    struct fr_nodes_run join = {
        .id = run->id, .nodes = nodes, .n = plan->n_nodes, .sink = {on_event, run}};

    if (nodes == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the nodes");
    for (uint32_t i = 0; i < plan->n_nodes; i++)
        nodes[i] = plan->nodes[i].spec != NULL
                       ? fr_exec_node_of(plan->nodes[i].spec, run->id)
                       : (struct fr_exec_node){.name = plan->nodes[i].name,
                                               .transport = FR_TRANSPORT_LOCAL};
    return fr_nodes_join(run->env.nodes, &join, &run->exec, err);
}

struct run_inst *run_new_insts(const struct fr_plan *plan)
{
    size_t bytes;
    struct run_inst *to =
        fr_mul_size(plan->n_insts, sizeof(*to), &bytes) ? fr_sys.alloc(bytes) : NULL;

    if (to != NULL)
        memset(to, 0, bytes);
    for (uint32_t i = 0; to != NULL && i < plan->n_insts; i++)
        to[i].reason = "";
    return to;
}

static enum fr_rc make_arrays(struct fr_run *run, struct fr_err *err)
{
    const struct fr_plan *plan = run->plan;

    run->insts = run_new_insts(plan);
    run->nodes = fr_arena_array(&run->arena, plan->n_nodes, sizeof(*run->nodes));
    if (run->insts == NULL || run->nodes == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the plan");
    for (uint32_t i = 0; i < plan->n_insts; i++)
        run->insts[i].reason = run_why_waiting(run, i);
    for (uint32_t t = 0; t < plan->n_tasks; t++) {
        int64_t lost = plan->tasks[t].spec->lost_after_ms;

        if (lost > 0 && (run->lease_every_ms == 0 || lost / 3 < run->lease_every_ms))
            run->lease_every_ms = lost / 3 > 0 ? lost / 3 : 1;
    }
    return FR_OK;
}

/* What both ways need once spec and id stand: plan, scheduler, the name of the folder. */
enum fr_rc run_make_parts(struct fr_run *run, struct fr_err *err)
{
    struct fr_sched_opts opts = {.lent = true, .timeout_ms = run->spec->timeout_ms};
    struct fr_buf dir = {0};
    enum fr_rc rc = fr_plan_make(run->spec, &run->plan_arena, &run->plan, err);

    if (rc != FR_OK || (rc = make_arrays(run, err)) != FR_OK)
        return rc;
    memcpy(&opts.seed, run->id.b, sizeof(opts.seed));
    if ((rc = fr_sched_create(run->plan, &opts, &run->sched, err)) != FR_OK)
        return rc;
    fr_home_at(run->home, FR_HOME_RUN, run->id, &dir);
    run->dir = dir.bad ? NULL : fr_arena_text(&run->arena, dir.p, dir.n);
    fr_buf_finish(&dir);
    return run->dir != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a path");
}

/* Of its timeout, on a wall clock that may have been set. */
static enum fr_rc time_left(struct fr_run *run, int64_t *ms, struct fr_err *err)
{
    int64_t began = run->row.started_wall, most = run->spec->timeout_ms, left;
    enum fr_rc rc = FR_OK;

    if (most > 0 && run->row.round > 1)
        rc = fr_store_round_began(run->env.store, run->id, &began, err);
    left = began + most - fr_sys.wall_ms();
    *ms = left > most ? most : left;
    return rc;
}

enum fr_rc run_begin(struct fr_run *run, enum fr_event_kind kind, struct fr_err *err)
{
    struct fr_event first = {.kind = kind, .value = run->resetting, .task = FR_PLAN_NONE};
    enum fr_rc rc = fr_mkdirs(run->dir, 0700, err);

    if (run->resetting && run->retry_from != NULL)
        first.task = fr_plan_task(run->plan, run->retry_from);

    if (rc == FR_OK && (rc = time_left(run, &first.left_ms, err)) == FR_OK &&
        (rc = fr_check_unlinked(run->dir, strlen(run->home), err)) == FR_OK &&
        (rc = make_exec(run, err)) == FR_OK && (rc = run_blocks_begin(run, err)) == FR_OK)
        rc = run_queue(run, &first, err);
    return rc;
}

/* ---- submit ---- */

/* {"params": ["name=value"], "env": {"X": "…"}, "folder": "/…", "rules": 2}: what makes the same
 * spec again. Rows without folder and rules were made under rules 1. And the run's shell, "shell":
 * {"env": {"PATH": "…"}, "umask": 18}, and its occasion, "schedule": {"time": "…"}. A queued run
 * that has been over also has "retry": the task from which it runs again, or ""; one whose retry
 * has not reset all instances yet has that as "resets". */
enum fr_rc run_pack_params(struct fr_run *run, json_t *params, struct fr_err *err)
{
    json_t *doc = json_object(), *env = json_object();

    for (size_t i = 0; i < run->spec->n_env_used; i++)
        json_object_set_new(env, run->spec->env_used[i].name,
                            json_string(run->spec->env_used[i].value.s));
    json_object_set(doc, "params", params);
    json_object_set_new(doc, "env", env);
    json_object_set_new(doc, "folder", json_string(run->spec->folder));
    json_object_set_new(doc, "rules", json_integer(FR_SPEC_RULES));
    json_object_set_new(doc, "shell", run_shell_json(run));
    json_object_set_new(doc, "schedule", run_occasion_pack(run));
    run->row.params = run_json_text(run, doc);
    json_decref(doc);
    return run->row.params != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for parameters");
}

static enum fr_rc keep_source(struct fr_run *run, struct fr_str text, char hash[FR_SHA256_TEXT],
                              struct fr_err *err)
{
    bool there = false;
    enum fr_rc rc;

    fr_sha256(text.p, text.n, hash);
    rc = run_blob_begin(run, hash, &there, err);
    return rc == FR_OK && !there ? fr_blob_put(run->home, text, hash, err) : rc;
}

static enum fr_rc keep_rules(struct fr_run *run, struct fr_err *err)
{
    json_t *doc;

    run->row.notify = "";
    if (run->spec->n_notify == 0)
        return FR_OK;
    doc = fr_notify_json(run->spec->notify, run->spec->n_notify);
    run->row.notify = run_json_text(run, doc);
    json_decref(doc);
    return run->row.notify != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for rules");
}

enum fr_rc run_keep_sources(struct fr_run *run, struct fr_err *err)
{
    const char **hashes[2] = {&run->row.spec_hash, &run->row.inventory_hash};
    enum fr_rc rc = keep_rules(run, err);

    run->row.pool = fr_arena_dup(&run->arena, run->spec->pool != NULL ? run->spec->pool : "");
    if (rc == FR_OK && run->row.pool == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the name of a pool");
    run->row.spec_hash = run->row.inventory_hash = run->row.inventory = "";
    for (size_t i = 0; rc == FR_OK && i < run->spec->n_sources && i < 2; i++) {
        char *hash = fr_arena_alloc(&run->arena, FR_SHA256_TEXT);

        rc = hash != NULL ? keep_source(run, run->spec->sources[i].text, hash, err)
                          : fr_fail(err, FR_NOMEM, "no memory for a hash");
        *hashes[i] = hash;
        if (i == 1)
            run->row.inventory = run->spec->sources[i].path;
    }
    return rc;
}

enum fr_rc run_name_source(struct fr_run *run, const char *file, struct fr_err *err)
{
    char path[PATH_MAX];

    run->row.source = fr_arena_dup(&run->arena, realpath(file, path) != NULL ? path : file);
    return run->row.source != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a path");
}

enum fr_rc run_put_nodes(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    char boot[40] = "";

    if (fr_sys.boot_id(boot) != 0)
        boot[0] = '\0';
    for (uint32_t n = 0; rc == FR_OK && n < run->plan->n_nodes; n++) {
        struct fr_node_row row = {.name = run->plan->nodes[n].name,
                                  .home_id = run->nodes[n].home_id,
                                  .boot_id = n == run->plan->control ? boot : "",
                                  .unreachable_wall = run->nodes[n].away_wall};

        rc = fr_store_node_put(run->env.store, run->id, &row, err);
    }
    return rc;
}

enum fr_rc run_put_insts(struct fr_run *run, uint32_t from, uint32_t to, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (uint32_t i = from; rc == FR_OK && i < to; i++) {
        struct fr_row row = fr_sched_row(run->sched, i, fr_sys.mono_ms());

        rc = run_put_inst(run, &row, fr_sys.wall_ms(), err);
    }
    return rc;
}

enum fr_rc run_put_files(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < run->files.n; i++)
        rc = fr_store_file_put(run->env.store, run->id, &run->files.rows[i], err);
    return rc;
}

static enum fr_rc keep_params(struct fr_run *run, const struct fr_spec_opts *opts,
                              struct fr_err *err)
{
    json_t *params = fr_json_texts(opts->params, opts->n_params);
    enum fr_rc rc = run_pack_params(run, params, err);

    json_decref(params);
    return rc;
}

static enum fr_rc make_new(struct fr_run *run, const struct fr_submit *submit,
                           struct fr_issues *issues, struct fr_err *err)
{
    enum fr_rc rc = fr_spec_load(&submit->spec, &run->spec, issues, err);

    if (rc == FR_OK && (rc = run_make_parts(run, err)) == FR_OK &&
        (rc = fr_run_check(run->plan, &run->env.shell, NULL, issues, err)) == FR_OK &&
        (rc = run_shell_take(run, err)) == FR_OK &&
        (rc = run_occasion_make(run, submit, err)) == FR_OK &&
        (rc = run_name_source(run, submit->spec.path, err)) == FR_OK)
        rc = keep_params(run, &submit->spec, err);
    return rc;
}

static enum fr_rc store_blobs(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = run_keep_sources(run, err), marked;

    if (rc == FR_OK)
        rc = run_stage(run, err);
    if (!run->marked)
        return rc;
    marked = fr_blob_mark_again(run->home, run->id, rc == FR_OK ? err : NULL);
    return rc == FR_OK ? marked : rc;
}

/* The home's: who submits over its socket, or is its host. */
static const char *owner(struct fr_arena *arena)
{
    struct passwd pw, *found = NULL;
    char space[1024];

    if (getpwuid_r(fr_sys.uid(), &pw, space, sizeof(space), &found) == 0 && found != NULL)
        return fr_arena_dup(arena, found->pw_name);
    return fr_arena_fmt(arena, "uid %ld", (long)fr_sys.uid());
}

enum fr_rc fr_run_make(const struct fr_run_env *env, const struct fr_submit *submit,
                       struct fr_run **out, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_run *run = run_new(env, err);
    enum fr_rc rc;

    *out = NULL;
    if (run == NULL)
        return FR_NOMEM;
    run->id = submit->id;
    run->row.origin = submit->origin;
    if (submit->who != NULL)
        run->row.who = fr_arena_dup(&run->arena, submit->who);
    else
        run->row.who = submit->schedule == 0 ? owner(&run->arena) : "";
    if (run->row.who == NULL) {
        fr_run_destroy(run);
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    }
    run->row.schedule = submit->schedule;
    run->row.backfill = submit->backfill;
    run->row.at_ms = submit->schedule != 0 ? submit->occasion.at_ms : 0;
    rc = submit->again != NULL ? run_again_make(run, submit, issues, err)
                               : make_new(run, submit, issues, err);
    if (rc == FR_OK)
        rc = store_blobs(run, err);
    if (rc == FR_OK)
        *out = run;
    else
        fr_run_destroy(run);
    return rc;
}

static void fill_row(struct fr_run *run, const struct fr_submit *submit)
{
    int64_t now = fr_sys.wall_ms();
    struct fr_run_row *row = &run->row;

    row->id = run->id;
    row->name = run->spec->name;
    row->folder = row->folder != NULL ? row->folder : run->env.shell.cwd;
    row->state = run->queued ? FR_RUN_QUEUED : FR_RUN_RUNNING;
    row->outcome = FR_OUT_NONE;
    row->started_wall = run->queued ? 0 : now;
    row->queued_wall = now;
    run_late_begin(run);
    row->not_before_wall = submit->not_before_wall;
    row->round = 1;
    row->host = run->env.epoch;
    row->priority = submit->priority;
}

static enum fr_rc put_run(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    struct fr_event_row ev = {.wall = fr_sys.wall_ms(), .idx = -1, .seq = run->seq = 1};
    enum fr_rc rc;

    fill_row(run, submit);
    ev.kind = fr_run_state_name(run->row.state);
    if ((rc = fr_store_run_add(st, &run->row, err)) == FR_OK &&
        (rc = run_put_nodes(run, err)) == FR_OK && (rc = run_put_files(run, err)) == FR_OK)
        rc = fr_store_event_add(st, run->id, &ev, err);
    if (rc == FR_OK && submit->again != NULL)
        rc = run_again_put(run, submit, err);
    return rc;
}

enum fr_rc fr_run_enqueue(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (!run->added && submit->again != NULL)
        rc = run_again_check(run, submit, err);
    if (rc != FR_OK || run->added || submit->queue == NULL)
        return rc;
    return submit->queue(submit->queue_arg, run->spec, submit->not_before_wall, &run->queued, err);
}

bool fr_run_added(const struct fr_run *run)
{
    return run->added;
}

enum fr_rc fr_run_put(struct fr_run *run, const struct fr_submit *submit, size_t *rows,
                      struct fr_err *err)
{
    uint32_t left = run->plan->n_insts - run->put, n = left < *rows ? left : (uint32_t)*rows;
    enum fr_rc rc = run->added ? FR_OK : put_run(run, submit, err);

    if (rc == FR_OK)
        rc = run_put_insts(run, run->put, run->put + n, err);
    run->putting = n;
    *rows -= n;
    return rc;
}

enum fr_rc fr_run_put_over(struct fr_run *run, bool *all, struct fr_err *err)
{
    if (!run->added && run->marked)
        fr_blob_unmark(run->home, run->id);
    fr_claims_end(run->env.claims, run->id);
    run->added = true;
    run->put += run->putting;
    run->putting = 0;
    *all = run->put == run->plan->n_insts;
    return *all && !run->queued ? run_begin(run, FR_EV_BEGIN, err) : FR_OK;
}

/* All of its rows, a slice a commit. */
static enum fr_rc put_all(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    enum fr_rc rc = FR_OK;

    for (bool all = false; rc == FR_OK && !all;) {
        size_t rows = FR_RUN_PUT_ROWS;

        if ((rc = fr_store_begin(st, err)) != FR_OK)
            return rc;
        if ((rc = fr_run_enqueue(run, submit, err)) != FR_OK ||
            (rc = fr_run_put(run, submit, &rows, err)) != FR_OK)
            fr_store_rollback(st);
        else if ((rc = fr_store_commit(st, err)) == FR_OK)
            rc = fr_run_put_over(run, &all, err);
    }
    return rc;
}

enum fr_rc fr_run_submit(const struct fr_run_env *env, const struct fr_submit *submit,
                         struct fr_run **out, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_run *run = NULL;
    enum fr_rc rc = fr_run_make(env, submit, &run, issues, err);

    *out = NULL;
    if (rc == FR_OK)
        rc = put_all(run, submit, err);
    if (rc == FR_OK)
        *out = run;
    else
        fr_run_destroy(run);
    return rc;
}
