/* A run comes to be: from a pipeline file (submit) or from the store (resume). */
#include "engine/run/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- both ---- */

static struct fr_run *new_run(const struct fr_run_env *env, struct fr_err *err)
{
    struct fr_run *run = fr_sys.alloc(sizeof(*run));

    if (run == NULL) {
        fr_fail(err, FR_NOMEM, "no memory for a run");
        return NULL;
    }
    memset(run, 0, sizeof(*run));
    run->env = *env;
    run->home = fr_store_home(env->store);
    run->lock_fd = run->sock_fd = -1;
    run->heard_last = &run->heard;
    run->ask_due_ms = run->log_due_ms = INT64_MAX;
    return run;
}

static void on_event(void *arg, struct fr_exec_event *ev)
{
    struct fr_run *run = arg;

    ev->next = NULL;
    *run->heard_last = ev;
    run->heard_last = &ev->next;
}

static void on_timer(void *arg)
{
    (void)arg; /* the turn that follows looks at what is due */
}

static struct fr_exec_node exec_node(const struct fr_plan_node *pn)
{
    const struct fr_node *n = pn->spec;
    struct fr_exec_node out = {.name = pn->name, .transport = FR_TRANSPORT_LOCAL};

    if (n == NULL)
        return out;
    out.work = n->work;
    if (n->executor == FR_EXECUTOR_LOCAL)
        return out;
    out.transport = n->transport == FR_VIA_LIBSSH2   ? FR_TRANSPORT_LIBSSH2
                    : n->transport == FR_VIA_OPENSSH ? FR_TRANSPORT_OPENSSH
                                                     : FR_TRANSPORT_AUTO;
    out.ssh = (struct fr_ssh_target){.host = n->address,
                                     .user = n->user,
                                     .port = n->port,
                                     .key = n->key,
                                     .config = n->ssh_config,
                                     .known_hosts = n->known_hosts};
    return out;
}

static enum fr_rc make_exec(struct fr_run *run, struct fr_err *err)
{
    const struct fr_plan *plan = run->plan;
    struct fr_exec_node *nodes = fr_arena_array(&run->arena, plan->n_nodes, sizeof(*nodes));
    struct fr_exec_node_args args = {.loop = run->env.loop,
                                     .sink = {on_event, run},
                                     .nodes = nodes,
                                     .n = plan->n_nodes,
                                     .control = fr_store_home_id(run->env.store),
                                     .run = run->id,
                                     .flownode_dir = run->env.flownode_dir,
                                     .home = run->home,
                                     .make_link = run->env.make_link,
                                     .make_link_arg = run->env.make_link_arg};
    int64_t base = 0;
    enum fr_rc rc;

    if (nodes == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the nodes");
    for (uint32_t i = 0; i < plan->n_nodes; i++)
        nodes[i] = exec_node(&plan->nodes[i]);
    if ((rc = fr_store_epochs(run->env.store, run->id, 1, &base, err)) != FR_OK)
        return rc;
    args.base_epoch = (uint32_t)base + 1;
    return fr_exec_node_create(&run->exec, &args, err);
}

static enum fr_rc make_arrays(struct fr_run *run, struct fr_err *err)
{
    const struct fr_plan *plan = run->plan;

    run->insts = fr_arena_array(&run->arena, plan->n_insts, sizeof(*run->insts));
    run->nodes = fr_arena_array(&run->arena, plan->n_nodes, sizeof(*run->nodes));
    if (run->insts == NULL || run->nodes == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the plan");
    for (uint32_t i = 0; i < plan->n_insts; i++)
        run->insts[i].reason = "";
    for (uint32_t i = 0; i < plan->n_nodes; i++)
        run->nodes[i].asked_ms = -1;
    for (uint32_t t = 0; t < plan->n_tasks; t++) {
        int64_t lost = plan->tasks[t].spec->lost_after_ms;

        if (lost > 0 && (run->lease_every_ms == 0 || lost / 3 < run->lease_every_ms))
            run->lease_every_ms = lost / 3 > 0 ? lost / 3 : 1;
    }
    return FR_OK;
}

/* What both ways need once spec and id stand: folder, plan, scheduler. */
static enum fr_rc make_parts(struct fr_run *run, struct fr_err *err)
{
    struct fr_sched_opts opts = {0};
    struct fr_buf dir = {0};
    enum fr_rc rc = fr_plan_make(run->spec, &run->arena, &run->plan, err);

    if (rc != FR_OK || (rc = make_arrays(run, err)) != FR_OK)
        return rc;
    memcpy(&opts.seed, run->id.b, sizeof(opts.seed));
    if ((rc = fr_sched_create(run->plan, &opts, &run->sched, err)) != FR_OK)
        return rc;
    fr_home_at(run->home, FR_HOME_RUN, run->id, &dir);
    run->dir = dir.bad ? NULL : fr_arena_text(&run->arena, dir.p, dir.n);
    fr_buf_finish(&dir);
    if (run->dir == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    return fr_mkdirs(run->dir, 0700, err);
}

static enum fr_rc begin(struct fr_run *run, enum fr_event_kind kind, struct fr_err *err)
{
    enum fr_rc rc = fr_loop_timer(run->env.loop, on_timer, run, &run->timer);

    if (rc == FR_OK)
        rc = make_exec(run, err);
    if (rc == FR_OK)
        rc = run_queue(run, &(struct fr_event){.kind = kind}, err);
    return rc;
}

/* ---- submit ---- */

/* {"params": ["name=value"], "env": {"X": "…"}}: what makes the same spec again. */
static enum fr_rc pack_params(struct fr_run *run, const struct fr_spec_opts *opts,
                              struct fr_err *err)
{
    json_t *doc = json_object(), *params = json_array(), *env = json_object();
    char *text;

    for (size_t i = 0; i < opts->n_params; i++)
        json_array_append_new(params, json_string(opts->params[i]));
    for (size_t i = 0; i < run->spec->n_env_used; i++)
        json_object_set_new(env, run->spec->env_used[i].name,
                            json_string(run->spec->env_used[i].value.s));
    json_object_set_new(doc, "params", params);
    json_object_set_new(doc, "env", env);
    text = json_dumps(doc, JSON_COMPACT);
    run->row.params = text != NULL ? fr_arena_dup(&run->arena, text) : NULL;
    free(text);
    json_decref(doc);
    return run->row.params != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for parameters");
}

static enum fr_rc keep_sources(struct fr_run *run, struct fr_err *err)
{
    const char **hashes[2] = {&run->row.spec_hash, &run->row.inventory_hash};
    enum fr_rc rc = FR_OK;

    run->row.spec_hash = run->row.inventory_hash = run->row.inventory = "";
    for (size_t i = 0; rc == FR_OK && i < run->spec->n_sources && i < 2; i++) {
        char *hash = fr_arena_alloc(&run->arena, FR_SHA256_TEXT);

        rc = hash != NULL ? fr_blob_put(run->home, run->spec->sources[i].text, hash, err)
                          : fr_fail(err, FR_NOMEM, "no memory for a hash");
        *hashes[i] = hash;
        if (i == 1)
            run->row.inventory = run->spec->sources[i].path;
    }
    return rc;
}

static enum fr_rc put_nodes(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    char boot[40] = "";

    if (fr_sys.boot_id(boot) != 0)
        boot[0] = '\0';
    for (uint32_t n = 0; rc == FR_OK && n < run->plan->n_nodes; n++) {
        struct fr_node_row row = {.name = run->plan->nodes[n].name,
                                  .boot_id = n == run->plan->control ? boot : ""};

        rc = fr_store_node_put(run->env.store, run->id, &row, err);
    }
    return rc;
}

static enum fr_rc first_commit(struct fr_run *run, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    struct fr_event_row ev = {.wall = fr_sys.wall_ms(), .idx = -1, .kind = "running"};
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    if ((rc = fr_store_run_add(st, &run->row, err)) == FR_OK &&
        (rc = put_nodes(run, err)) == FR_OK && (rc = run_stage(run, err)) == FR_OK)
        rc = fr_store_event_add(st, run->id, &ev, err);
    if (rc == FR_OK)
        return fr_store_commit(st, err);
    fr_store_rollback(st);
    return rc;
}

enum fr_rc fr_run_submit(const struct fr_run_env *env, const struct fr_spec_opts *opts,
                         struct fr_run **out, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_run *run = new_run(env, err);
    char path[4096];
    enum fr_rc rc;

    *out = NULL;
    if (run == NULL)
        return FR_NOMEM;
    if ((rc = fr_spec_load(opts, &run->spec, issues, err)) != FR_OK)
        goto out;
    if ((rc = fr_id_new(&run->id, err)) != FR_OK || (rc = make_parts(run, err)) != FR_OK)
        goto out;
    run->row = (struct fr_run_row){
        .id = run->id,
        .name = run->spec->name,
        .folder = fr_arena_dup(&run->arena, env->cwd),
        .source = fr_arena_dup(&run->arena, realpath(opts->path, path) != NULL ? path : opts->path),
        .state = "running",
        .started_wall = fr_sys.wall_ms(),
        .round = 1};
    if ((rc = pack_params(run, opts, err)) != FR_OK || (rc = keep_sources(run, err)) != FR_OK ||
        (rc = run_own(run, err)) != FR_OK || (rc = first_commit(run, err)) != FR_OK)
        goto out;
    if ((rc = fr_store_files(env->store, run->id, &run->arena, &run->files, err)) == FR_OK)
        rc = begin(run, FR_EV_BEGIN, err);
out:
    if (rc == FR_OK)
        *out = run;
    else
        fr_run_destroy(run);
    return rc;
}

/* ---- resume ---- */

static const char *stored_env(void *self, const char *name)
{
    return json_string_value(json_object_get(self, name));
}

static enum fr_rc get_source(struct fr_run *run, const char *hash, const char *path,
                             struct fr_source *out, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = fr_blob_get(run->home, hash, &text, err);

    if (rc == FR_OK) {
        out->path = path;
        out->text =
            (struct fr_str){fr_arena_text(&run->arena, text.p ? text.p : "", text.n), text.n};
        if (out->text.p == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for %s", path);
    }
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc load_spec(struct fr_run *run, const struct fr_resume_opts *ro,
                            struct fr_issues *issues, struct fr_err *err)
{
    struct fr_source sources[2];
    struct fr_spec_opts opts = {
        .path = run->row.source, .cwd = run->row.folder, .sources = sources, .getenv = stored_env};
    json_t *doc = NULL, *list, *item;
    const char **params = NULL;
    size_t i;
    enum fr_rc rc = fr_json_parse(fr_str_of(run->row.params), "stored parameters", &doc, err);

    if (rc == FR_OK && ro->file == NULL)
        rc = get_source(run, run->row.spec_hash, run->row.source, &sources[opts.n_sources++], err);
    if (rc == FR_OK && run->row.inventory_hash[0] != '\0')
        rc = get_source(run, run->row.inventory_hash, run->row.inventory,
                        &sources[opts.n_sources++], err);
    list = json_object_get(doc, "params");
    if (rc == FR_OK &&
        (params = fr_arena_array(&run->arena, json_array_size(list) + 1, sizeof(*params))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for parameters");
    if (rc == FR_OK) {
        json_array_foreach(list, i, item) params[opts.n_params++] = json_string_value(item);
        opts.params = params;
        opts.getenv_self = json_object_get(doc, "env");
        if (ro->file != NULL)
            opts.path = ro->file;
        rc = fr_spec_load(&opts, &run->spec, issues, err);
    }
    json_decref(doc);
    return rc;
}

static bool parse_state(const char *text, enum fr_state_of *out)
{
    *out = FR_ST_WAITING;
    return text[0] == '\0' || fr_state_parse(text, out);
}

static enum fr_rc load_inst(struct fr_run *run, const struct fr_inst_row *row, struct fr_err *err)
{
    uint32_t i = fr_plan_inst(run->plan, row->key);
    struct fr_row out = {.inst = i};
    struct run_inst *in;
    int64_t left;

    if (i == FR_PLAN_NONE)
        return row->live != 0 ? fr_fail(err, FR_USAGE,
                                        "%s lives, and the changed pipeline does "
                                        "not have it",
                                        row->key)
                              : FR_OK;
    if (!parse_state(row->state, &out.state) ||
        !parse_state(row->attempt_state, &out.attempt_state) ||
        (row->cause[0] != '\0' && !fr_cause_parse(fr_str_of(row->cause), &out.cause)) ||
        (row->stop_cause[0] != '\0' &&
         !fr_cause_parse(fr_str_of(row->stop_cause), &out.stop_cause)))
        return fr_fail(err, FR_CORRUPT, "%s has a state that this flowrun does not know", row->key);
    out.attempt_no = (uint32_t)row->attempt_no;
    out.attempt = row->attempt;
    out.live = row->live != 0;
    out.go = row->go != 0;
    out.generation = (uint32_t)row->generation;
    out.retries = (uint32_t)row->retries;
    out.code = (int)row->code;
    left = row->due_wall - fr_sys.wall_ms(); /* the wall clock may have been set: clamped */
    out.delay_ms = left < 0 ? 0 : left > row->due_delay_ms ? row->due_delay_ms : left;
    in = &run->insts[i];
    in->shown = in->writing = out.state;
    in->started_wall = row->started_wall;
    in->ended_wall = row->ended_wall;
    in->reason = row->reason;
    return fr_sched_load(run->sched, &out, err);
}

static enum fr_rc load_attempt(struct fr_run *run, const struct fr_attempt_row *row,
                               const struct fr_inst_row *inst, struct fr_err *err)
{
    uint32_t i = fr_plan_inst(run->plan, inst->key);
    bool newest = fr_id_eq(inst->attempt, row->id);
    bool live = newest && inst->live != 0;
    struct run_attempt *at;

    if (i == FR_PLAN_NONE)
        return FR_OK;
    if (newest)
        run->insts[i].row = *row;
    if (row->done != 0 && !live)
        return FR_OK;
    at = run_attempt_add(run, row->id, i, (uint32_t)row->no);
    if (at == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for an attempt");
    at->generation = (uint32_t)row->generation;
    at->log.name = fr_arena_dup(&run->arena, row->log);
    at->home_id = row->home_id;
    memcpy(at->boot_id, row->boot_id, strnlen(row->boot_id, sizeof(at->boot_id) - 1));
    at->port = (int)row->port;
    at->sent = true; /* for all that is known */
    if (!live) {
        at->ended = true;
        at->ack = true; /* only its log may still be missing */
    }
    return FR_OK;
}

static enum fr_rc load_rows(struct fr_run *run, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    struct fr_inst_rows insts;
    struct fr_attempt_rows attempts;
    struct fr_output_rows outputs;
    struct fr_run_now now = {.round = (uint32_t)run->row.round};
    enum fr_rc rc;

    if ((rc = fr_store_insts(st, run->id, &run->arena, &insts, err)) != FR_OK ||
        (rc = fr_store_attempts(st, run->id, &run->arena, &attempts, err)) != FR_OK ||
        (rc = fr_store_outputs(st, run->id, &run->arena, &outputs, err)) != FR_OK ||
        (rc = fr_store_files(st, run->id, &run->arena, &run->files, err)) != FR_OK)
        return rc;
    for (int s = 0; s <= FR_RUN_OVER; s++)
        if (strcmp(fr_run_state_name((enum fr_run_state)s), run->row.state) == 0)
            now.state = (enum fr_run_state)s;
    for (int o = 1; o <= FR_OUT_CANCELLED; o++)
        if (strcmp(fr_outcome_name((enum fr_outcome)o), run->row.outcome) == 0)
            now.outcome = (enum fr_outcome)o;
    rc = fr_sched_load_run(run->sched, &now, err);
    for (size_t i = 0; rc == FR_OK && i < insts.n; i++)
        rc = load_inst(run, &insts.rows[i], err);
    for (size_t a = 0, i = 0; rc == FR_OK && a < attempts.n; a++) {
        while (i < insts.n && insts.rows[i].idx < attempts.rows[a].idx)
            i++;
        if (i < insts.n && insts.rows[i].idx == attempts.rows[a].idx)
            rc = load_attempt(run, &attempts.rows[a], &insts.rows[i], err);
    }
    for (size_t o = 0; rc == FR_OK && o < outputs.n; o++)
        for (size_t i = 0; i < insts.n; i++) {
            uint32_t k = insts.rows[i].idx == outputs.rows[o].idx
                             ? fr_plan_inst(run->plan, insts.rows[i].key)
                             : FR_PLAN_NONE;

            if (k != FR_PLAN_NONE && !run_add(&run->arena, &run->insts[k].outputs, "%s=%s",
                                              outputs.rows[o].key, outputs.rows[o].value))
                rc = fr_fail(err, FR_NOMEM, "no memory for outputs");
        }
    return rc;
}

/* After a power cut the tail of a log may never have reached the disk: it is fetched again, from
 * nodes that still have it. (Of an attempt that was acknowledged it was synced before.) */
static enum fr_rc distrust_logs(struct fr_run *run, struct fr_err *err)
{
    struct fr_node_rows nodes;
    char boot[40] = "";
    bool same = true;
    enum fr_rc rc = fr_store_nodes(run->env.store, run->id, &run->arena, &nodes, err);

    if (rc != FR_OK || fr_sys.boot_id(boot) != 0)
        return rc;
    for (size_t i = 0; i < nodes.n; i++)
        if (strcmp(nodes.rows[i].name, run->plan->nodes[run->plan->control].name) == 0 &&
            nodes.rows[i].boot_id[0] != '\0')
            same = strcmp(nodes.rows[i].boot_id, boot) == 0;
    for (struct run_attempt *at = run->attempts; !same && at != NULL; at = at->next)
        at->log.doubted = true;
    return FR_OK;
}

static enum fr_rc queue_wishes(struct fr_run *run, const struct fr_resume_opts *opts,
                               struct fr_err *err)
{
    struct fr_event retry = {.kind = FR_EV_RETRY, .task = FR_PLAN_NONE};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < opts->n_abandon; i++) {
        struct fr_event ev = {.kind = FR_EV_ABANDON,
                              .node = fr_plan_node(run->plan, opts->abandon[i])};

        if (ev.node == FR_PLAN_NONE)
            return fr_fail(err, FR_USAGE, "the run has no node '%s'", opts->abandon[i]);
        rc = run_queue(run, &ev, err);
    }
    if (rc != FR_OK || !opts->retry)
        return rc;
    if (opts->retry_from != NULL &&
        (retry.task = fr_plan_task(run->plan, opts->retry_from)) == FR_PLAN_NONE)
        return fr_fail(err, FR_USAGE, "the run has no task '%s'", opts->retry_from);
    return run_queue(run, &retry, err);
}

static enum fr_rc check_wish(const struct fr_run *run, const struct fr_resume_opts *opts,
                             struct fr_err *err)
{
    bool over = strcmp(run->row.state, "over") == 0;

    if (over && !opts->retry)
        return fr_fail(err, FR_USAGE,
                       "run %lld is over (%s); 'flowrun retry %lld' runs again what "
                       "failed",
                       (long long)run->row.no, run->row.outcome, (long long)run->row.no);
    if (!over && opts->retry)
        return fr_fail(err, FR_USAGE, "run %lld is not over; 'flowrun resume %lld' goes on with it",
                       (long long)run->row.no, (long long)run->row.no);
    return FR_OK;
}

enum fr_rc fr_run_resume(const struct fr_run_env *env, const struct fr_resume_opts *opts,
                         struct fr_run **out, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_run *run = new_run(env, err);
    enum fr_rc rc;

    *out = NULL;
    if (run == NULL)
        return FR_NOMEM;
    if ((rc = fr_store_run_find(env->store, opts->run, &run->arena, &run->row, err)) != FR_OK)
        goto out;
    run->id = run->row.id;
    if ((rc = run_own(run, err)) != FR_OK)
        goto out;
    /* again, now that nobody else writes it */
    {
        char id[FR_ID_TEXT];

        fr_id_text(run->id, id);
        rc = fr_store_run_find(env->store, id, &run->arena, &run->row, err);
    }
    if (rc != FR_OK || (rc = check_wish(run, opts, err)) != FR_OK ||
        (rc = load_spec(run, opts, issues, err)) != FR_OK || (rc = make_parts(run, err)) != FR_OK)
        goto out;
    if (opts->file != NULL && (rc = keep_sources(run, err)) != FR_OK)
        goto out;
    if ((rc = load_rows(run, err)) == FR_OK && (rc = distrust_logs(run, err)) == FR_OK &&
        (rc = put_nodes(run, err)) == FR_OK && (rc = begin(run, FR_EV_RESUME, err)) == FR_OK &&
        (rc = queue_wishes(run, opts, err)) == FR_OK)
        for (struct run_attempt *at = run->attempts; at != NULL; at = at->next)
            if (at->ended)
                run_follow(run, at);
out:
    if (rc == FR_OK)
        *out = run;
    else
        fr_run_destroy(run);
    return rc;
}
