/* A stored run is taken up again: its rows, its spec, and what the user asks for. */
#include "engine/run/inside.h"
#include "engine/run/metrics.h"
#include "engine/run/reasons.h"
#include "engine/store/told.h"
#include "engine/store/unfetched.h"

#include <errno.h>
#include <string.h>

static struct run_source run_source(struct fr_run *run)
{
    return (struct run_source){.row = &run->row,
                               .home = run->home,
                               .st = run->env.store,
                               .shell = &run->env.shell,
                               .arena = &run->arena};
}

/* Which tasks of the stored file differ. A file that cannot be read any more is not compared. */
static enum fr_rc compare_stored(struct fr_run *run, struct fr_err *err)
{
    struct fr_issues issues = {0};
    struct fr_spec *old = NULL;
    struct run_source from = run_source(run);
    enum fr_rc rc = run_load_file(&from, NULL, &old, &issues, err);

    if (rc == FR_OK)
        run_name_changes(run, old);
    else if (rc == FR_USAGE || rc == FR_UNSUPPORTED)
        run_trouble(run, FR_PLAN_NONE, "the stored file is not compared with the new one: %s",
                    err->msg);
    fr_spec_destroy(old);
    fr_issues_finish(&issues);
    return rc == FR_USAGE || rc == FR_UNSUPPORTED ? FR_OK : rc;
}

static enum fr_rc load_spec(struct fr_run *run, const struct fr_resume_opts *ro,
                            struct fr_issues *issues, struct fr_err *err)
{
    struct run_source from = run_source(run);
    struct fr_run_plan known = {0};
    enum fr_rc rc = run_load_file(&from, ro->file, &run->spec, issues, err);

    if (rc == FR_OK)
        rc = fr_store_run_spec(run->env.store, run->id, &run->arena, &known, err);
    run->n_lists = (uint32_t)known.lists;
    if (rc == FR_OK)
        rc = run_occasion_read(run, err);
    if (rc == FR_OK && ro->file == NULL && !run->late)
        run_edited(run, ro->retry);
    return rc;
}

static enum fr_rc load_inst(struct fr_run *run, const struct fr_inst_row *row, struct fr_err *err)
{
    uint32_t i = fr_plan_inst(run->plan, row->key);
    struct fr_row out = {.inst = i};
    struct run_inst *in;
    int64_t left;

    if (i == FR_PLAN_NONE)
        return row->live != 0
                   ? fr_fail(err, FR_USAGE,
                             "%s still runs, and the changed pipeline does not have it: 'flowrun "
                             "resume %lld' goes on with the run's own copy, 'flowrun cancel %lld' "
                             "stops the run, and 'flowrun retry %lld --file FILE' takes the "
                             "changed one then",
                             row->key, (long long)run->row.no, (long long)run->row.no,
                             (long long)run->row.no)
                   : FR_OK;
    run->moved = run->moved || (int64_t)i != row->idx;
    out.state = row->state;
    if (row->attempt_state != FR_ST_NONE)
        out.attempt_state = row->attempt_state;
    out.cause = row->cause;
    out.stop_cause = row->stop_cause;
    out.attempt_no = (uint32_t)row->attempt_no;
    out.attempt = row->attempt;
    out.live = row->live != 0;
    out.unreachable = out.live && row->unreachable_wall != 0; /* until its node is reached */
    out.go = row->go != 0;
    out.generation = (uint32_t)row->generation;
    out.retries = (uint32_t)row->retries;
    out.chained = (uint32_t)row->chained;
    out.code = (int)row->code;
    left = row->due_wall - fr_sys.wall_ms(); /* the wall clock may have been set: clamped */
    out.delay_ms = left < 0 ? 0 : left > row->due_delay_ms ? row->due_delay_ms : left;
    in = &run->insts[i];
    in->state = out.state;
    in->unreachable = out.unreachable;
    in->unreachable_wall = out.unreachable ? row->unreachable_wall : 0;
    in->started_wall = row->started_wall;
    in->ended_wall = row->ended_wall;
    in->reason = out.state == FR_ST_WAITING ? run_why_waiting(run, i)
                                            : row->reason; /* why it waits is found anew */
    return fr_sched_load(run->sched, &out, err);
}

static enum fr_rc load_attempt(struct fr_run *run, const struct fr_attempt_row *row,
                               const struct fr_inst_row *inst, struct fr_err *err)
{
    uint32_t i = fr_plan_inst(run->plan, inst->key);
    bool newest = fr_id_eq(inst->attempt, row->id);
    /* an attempt that was not proven stopped may be stopped again, and is kept until then */
    bool live = newest && (inst->live != 0 || inst->attempt_state == FR_ST_STOP_UNPROVEN);
    struct run_attempt *at;

    if (i == FR_PLAN_NONE)
        return FR_OK;
    if (newest) {
        run->insts[i].row = *row;
        run->insts[i].end_wall = row->ended_wall;
    }
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

const struct fr_inst_row *run_cursor_to(struct run_cursor *c, int64_t idx)
{
    while (c->at < c->insts.n && c->insts.rows[c->at].idx < idx) {
        c->at++;
        c->steps++;
    }
    return c->at < c->insts.n && c->insts.rows[c->at].idx == idx ? &c->insts.rows[c->at] : NULL;
}

static enum fr_rc load_attempts(struct fr_run *run, const struct fr_inst_rows *insts,
                                struct fr_err *err)
{
    struct run_cursor c = {.insts = *insts};
    struct fr_attempt_rows attempts;
    enum fr_rc rc = fr_store_attempts(run->env.store, run->id, &run->arena, &attempts, err);

    for (size_t a = 0; rc == FR_OK && a < attempts.n; a++) {
        const struct fr_inst_row *inst = run_cursor_to(&c, attempts.rows[a].idx);

        if (inst != NULL)
            rc = load_attempt(run, &attempts.rows[a], inst, err);
    }
    return rc;
}

static enum fr_rc load_outputs(struct fr_run *run, const struct fr_inst_rows *insts,
                               struct fr_err *err)
{
    struct run_cursor c = {.insts = *insts};
    struct fr_output_rows outputs;
    enum fr_rc rc = fr_store_outputs(run->env.store, run->id, &run->arena, &outputs, err);

    for (size_t o = 0; rc == FR_OK && o < outputs.n; o++) {
        const struct fr_output_row *out = &outputs.rows[o];
        const struct fr_inst_row *inst = run_cursor_to(&c, out->idx);
        uint32_t i = inst != NULL ? fr_plan_inst(run->plan, inst->key) : FR_PLAN_NONE;

        if (i != FR_PLAN_NONE &&
            !run_add(&run->arena, &run->insts[i].outputs, "%s=%s", out->key, out->value))
            rc = fr_fail(err, FR_NOMEM, "no memory for outputs");
    }
    return rc;
}

static enum fr_rc load_rows(struct fr_run *run, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    struct fr_inst_rows insts;
    struct fr_shipped_rows shipped;
    struct fr_run_now now = {.round = (uint32_t)run->row.round};
    enum fr_rc rc;

    if ((rc = fr_store_insts(st, run->id, &run->arena, &insts, err)) != FR_OK ||
        (rc = fr_store_files(st, run->id, &run->arena, &run->files, err)) != FR_OK ||
        (rc = fr_store_shipped(st, run->id, &run->arena, &shipped, err)) != FR_OK ||
        (rc = run_shipping_add(run, &shipped, 0, err)) != FR_OK)
        return rc;
    if (!run->queued) {
        now.state = run->row.state;
        now.outcome = run->row.outcome;
    }
    rc = fr_sched_load_run(run->sched, &now, err);
    if (rc == FR_OK)
        rc = fr_store_event_last(st, run->id, &run->seq, err);
    for (size_t i = 0; rc == FR_OK && i < insts.n; i++)
        rc = load_inst(run, &insts.rows[i], err);
    run->unput = run->n_lists > 0 && insts.n < run->plan->n_insts;
    if (rc == FR_OK)
        rc = load_attempts(run, &insts, err);
    return rc == FR_OK ? load_outputs(run, &insts, err) : rc;
}

/* The homes of nodes, as they were known before. After a power cut the tail of a log may never have
 * reached the disk: it is fetched again, from nodes that still have it. (Of an attempt that was
 * acknowledged it was synced before.) */
static enum fr_rc look_at_nodes(struct fr_run *run, bool retry, struct fr_err *err)
{
    struct fr_node_rows nodes;
    char boot[40] = "";
    bool same = true;
    enum fr_rc rc = fr_store_nodes(run->env.store, run->id, &run->arena, &nodes, err);

    if (rc != FR_OK || fr_sys.boot_id(boot) != 0)
        return rc;
    for (size_t i = 0; i < nodes.n; i++) {
        uint32_t n = fr_plan_node(run->plan, nodes.rows[i].name);

        if (n != FR_PLAN_NONE)
            run->nodes[n].home_id = nodes.rows[i].home_id;
        if (n != FR_PLAN_NONE && !retry)
            run->nodes[n].away_wall = nodes.rows[i].unreachable_wall;
        if (n == run->plan->control && nodes.rows[i].boot_id[0] != '\0')
            same = strcmp(nodes.rows[i].boot_id, boot) == 0;
    }
    for (struct run_attempt *at = run->attempts; !same && at != NULL; at = at->next)
        at->log.refetch = at->metrics.refetch = true;
    return FR_OK;
}

/* The number of an instance of before in this plan; FR_EVENT_GONE: none. */
static int64_t new_idx(const struct fr_run *run, const struct fr_inst_rows *insts, int64_t idx)
{
    const struct fr_inst_row *row = fr_inst_at(insts, idx);
    uint32_t now = row != NULL ? fr_plan_inst(run->plan, row->key) : FR_PLAN_NONE;

    return now != FR_PLAN_NONE ? (int64_t)now : FR_EVENT_GONE;
}

static enum fr_rc renumber_events(struct fr_run *run, const struct fr_inst_rows *insts,
                                  struct fr_err *err)
{
    struct fr_event_rows events = {0};
    enum fr_rc rc = FR_OK;

    do {
        struct fr_arena arena = {0};

        rc = fr_store_events(run->env.store, run->id, &arena, &events, err);
        for (size_t i = 0; rc == FR_OK && i < events.n; i++) {
            struct fr_event_row *ev = &events.rows[i];

            if (ev->idx < 0)
                continue;
            ev->idx = new_idx(run, insts, ev->idx);
            rc = fr_store_event_move(run->env.store, run->id, ev, err);
        }
        fr_arena_finish(&arena);
    } while (rc == FR_OK && events.n > 0);
    return rc;
}

/* Another plan numbers instances anew: all rows are put again under their new numbers. */
static enum fr_rc renumber(struct fr_run *run, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    struct fr_inst_rows insts;
    struct fr_attempt_rows attempts;
    struct run_cursor c;
    enum fr_rc rc = fr_store_insts(st, run->id, &run->arena, &insts, err);

    if (rc != FR_OK ||
        (rc = fr_store_attempts(st, run->id, &run->arena, &attempts, err)) != FR_OK ||
        (rc = fr_store_insts_clear(st, run->id, err)) != FR_OK ||
        (rc = run_put_insts(run, 0, run->plan->n_insts, err)) != FR_OK)
        return rc;
    rc = renumber_events(run, &insts, err);
    c = (struct run_cursor){.insts = insts};
    for (size_t a = 0; rc == FR_OK && a < attempts.n; a++) {
        struct fr_attempt_row *row = &attempts.rows[a];
        const struct fr_inst_row *inst = run_cursor_to(&c, row->idx);
        uint32_t now = inst != NULL ? fr_plan_inst(run->plan, inst->key) : FR_PLAN_NONE;

        row->idx = now != FR_PLAN_NONE ? (int64_t)now : -1;
        rc = fr_store_attempt_put(st, run->id, row, err);
    }
    for (uint32_t i = 0; rc == FR_OK && i < run->plan->n_insts; i++) {
        const struct fr_strs *outs = &run->insts[i].outputs;

        run->insts[i].row.idx = i;
        for (size_t o = 0; rc == FR_OK && o < outs->n; o++)
            rc = run_put_output(run, i, outs->v[o].p, err);
    }
    return rc;
}

/* A stored run whose plan an older flowrun numbered without its empty tasks. */
static enum fr_rc put_moved(struct fr_run *run, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    if ((rc = renumber(run, err)) == FR_OK)
        return fr_store_commit(st, err);
    fr_store_rollback(st);
    return rc;
}

/* The changed file is read by today's rules, in its own folder, with the parameters of before. */
static enum fr_rc pack_again(struct fr_run *run, struct fr_err *err)
{
    json_t *doc = NULL;
    enum fr_rc rc = fr_json_parse(fr_str_of(run->row.params), "stored parameters", &doc, err);

    if (rc == FR_OK)
        rc = run_pack_params(run, json_object_get(doc, "params"), err);
    json_decref(doc);
    return rc;
}

/* Everything about a changed file that must be safe before it is gone on with. */
static enum fr_rc adopt(struct fr_run *run, const char *file, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    enum fr_rc rc = run_name_source(run, file, err);

    if (rc != FR_OK || (rc = fr_store_begin(st, err)) != FR_OK)
        return rc;
    run->marked = true;
    if ((rc = fr_blob_mark(run->home, run->id, err)) == FR_OK &&
        (rc = pack_again(run, err)) == FR_OK && (rc = run_keep_sources(run, err)) == FR_OK &&
        (rc = fr_store_run_set(st, &run->row, err)) == FR_OK &&
        (rc = renumber(run, err)) == FR_OK && (rc = run_stage(run, err)) == FR_OK)
        rc = run_put_files(run, err);
    if (rc != FR_OK)
        fr_store_rollback(st);
    else
        rc = fr_store_commit(st, err);
    fr_claims_end(run->env.claims, run->id);
    /* the mark stays: also what the file before had, and no row names any more, goes */
    return rc == FR_OK ? fr_store_files(st, run->id, &run->arena, &run->files, err) : rc;
}

/* The task from which it is to run again; FR_PLAN_NONE: what failed. */
static enum fr_rc find_retry(const struct fr_run *run, uint32_t *task, struct fr_err *err)
{
    *task = FR_PLAN_NONE;
    if (run->retry_from != NULL &&
        (*task = fr_plan_task(run->plan, run->retry_from)) == FR_PLAN_NONE)
        return fr_fail(err, FR_USAGE, "the run has no task '%s'", run->retry_from);
    /* asked now: a retry that the schedule refuses later would leave the run over, and us waiting
     */
    return fr_sched_may_retry(run->sched, *task, err);
}

enum fr_rc run_queue_retry(struct fr_run *run, struct fr_err *err)
{
    struct fr_event retry = {.kind = FR_EV_RETRY};
    enum fr_rc rc = find_retry(run, &retry.task, err);

    return rc == FR_OK ? run_queue(run, &retry, err) : rc;
}

static enum fr_rc queue_requests(struct fr_run *run, const struct fr_resume_opts *opts,
                                 struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < opts->n_abandon; i++)
        rc = fr_run_abandon(run, opts->abandon[i], err);
    return rc == FR_OK && opts->retry && !run->queued ? run_queue_retry(run, err) : rc;
}

void run_follow_ended(struct fr_run *run)
{
    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next)
        if (at->ended)
            run_follow(run, at);
}

/* A retry that has to wait: the run is queued, and its scheduler as of one that has not begun. */
static enum fr_rc wait_for_turn(struct fr_run *run, const struct fr_resume_opts *opts,
                                struct fr_err *err)
{
    struct fr_run_now now = {.state = FR_RUN_RUNNING, .round = (uint32_t)run->row.round};
    uint32_t task;
    bool wait = false;
    enum fr_rc rc;

    if (!opts->retry)
        return FR_OK;
    if (opts->retry_from != NULL &&
        (run->retry_from = fr_arena_dup(&run->arena, opts->retry_from)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a retry");
    if (opts->queue == NULL)
        return FR_OK;
    if ((rc = find_retry(run, &task, err)) != FR_OK ||
        (rc = opts->queue(opts->queue_arg, run->spec, 0, &wait, err)) != FR_OK || !wait)
        return rc;
    run->queued = run->retries = true;
    run_rerun_begin(run);
    run->row.state = FR_RUN_QUEUED;
    run->row.queued_wall = fr_sys.wall_ms();
    return fr_sched_load_run(run->sched, &now, err);
}

/* Whether a queued run has been over before, and whether a retry was interrupted as it reset
 * instances. */
static enum fr_rc load_retry(struct fr_run *run, struct fr_err *err)
{
    json_t *doc = NULL;
    enum fr_rc rc = fr_json_parse(fr_str_of(run->row.params), "stored parameters", &doc, err);
    const char *from = json_string_value(json_object_get(doc, run->queued ? "retry" : "resets"));

    run->retries = run->queued && from != NULL;
    run->resetting = !run->queued && from != NULL;
    if (from != NULL && from[0] != '\0' &&
        (run->retry_from = fr_arena_dup(&run->arena, from)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a retry");
    json_decref(doc);
    return rc;
}

/* From this commit on the run is driven by this host. enqueued: and queued. */
static enum fr_rc take_over(struct fr_run *run, bool enqueued, struct fr_err *err)
{
    struct fr_store *st = run->env.store;
    struct fr_event_row ev = {.wall = fr_sys.wall_ms(), .idx = -1, .kind = "queued"};
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    run->row.host = run->env.epoch;
    ev.seq = run->seq += enqueued;
    if ((rc = run_put_nodes(run, err)) == FR_OK &&
        (!run->unput || (rc = run_put_insts(run, 0, run->plan->n_insts, err)) == FR_OK) &&
        (rc = fr_store_run_set(st, &run->row, err)) == FR_OK &&
        (!enqueued || (rc = fr_store_event_add(st, run->id, &ev, err)) == FR_OK) &&
        (rc = fr_store_run_host(st, run->id, run->row.host, err)) == FR_OK)
        return fr_store_commit(st, err);
    fr_store_rollback(st);
    return rc;
}

static enum fr_rc check_request(struct fr_run *run, const struct fr_resume_opts *opts,
                                struct fr_err *err)
{
    bool over = run->row.state == FR_RUN_OVER;
    enum fr_rc rc = FR_OK;

    if (over && !opts->retry && opts->file == NULL && opts->n_abandon == 0)
        rc = fr_store_lacks_output(run->env.store, run->id, &run->late, err);
    if (rc != FR_OK)
        return rc;
    if (over && !opts->retry && !run->late)
        return fr_fail(err, FR_USAGE, "run %lld is over (%s); 'flowrun retry %lld%s' runs again %s",
                       (long long)run->row.no, fr_outcome_name(run->row.outcome),
                       (long long)run->row.no,
                       run->row.outcome == FR_OUT_SUCCEEDED ? " --from TASK" : "",
                       run->row.outcome == FR_OUT_SUCCEEDED ? "from there" : "what failed");
    if (!over && opts->retry)
        return fr_fail(err, FR_USAGE, "run %lld is not over; 'flowrun resume %lld' goes on with it",
                       (long long)run->row.no, (long long)run->row.no);
    return FR_OK;
}

enum fr_rc fr_run_resume(const struct fr_run_env *env, const struct fr_resume_opts *opts,
                         struct fr_run **out, struct fr_issues *issues, struct fr_err *err)
{
    struct fr_run *run = run_new(env, err);
    bool was_queued;
    enum fr_rc rc;

    *out = NULL;
    if (run == NULL)
        return FR_NOMEM;
    rc = fr_store_run_find(env->store, opts->run, &run->arena, &run->row, err);
    if (rc != FR_OK)
        goto out;
    run->id = run->row.id;
    run->reruns = !opts->retry ? run->row.reruns : opts->by_itself ? run->row.reruns + 1 : 0;
    run->queued = was_queued = run->row.state == FR_RUN_QUEUED;
    if ((rc = check_request(run, opts, err)) != FR_OK ||
        (rc = load_spec(run, opts, issues, err)) != FR_OK ||
        (rc = run_make_parts(run, err)) != FR_OK)
        goto out;
    if ((rc = load_retry(run, err)) != FR_OK || (rc = load_rows(run, err)) != FR_OK ||
        (run->moved && opts->file == NULL && (rc = put_moved(run, err)) != FR_OK) ||
        (!was_queued && (rc = wait_for_turn(run, opts, err)) != FR_OK) ||
        (opts->file != NULL &&
         ((rc = fr_run_check(run->plan, &env->shell, &run->files, issues, err)) != FR_OK ||
          (rc = compare_stored(run, err)) != FR_OK || (rc = adopt(run, opts->file, err)) != FR_OK)))
        goto out;
    if (opts->retry)
        run_late_begin(run);
    if ((rc = run_shell_load(run, err)) == FR_OK &&
        (rc = look_at_nodes(run, opts->retry, err)) == FR_OK &&
        (rc = take_over(run, run->queued && !was_queued, err)) == FR_OK &&
        (run->queued || (rc = run_begin(run, FR_EV_RESUME, err)) == FR_OK) &&
        (rc = queue_requests(run, opts, err)) == FR_OK && !run->queued)
        run_follow_ended(run);
    run->over = run->late;
    run->over_ms = fr_sys.mono_ms();
out:
    if (rc == FR_OK)
        *out = run;
    else
        fr_run_destroy(run);
    return rc;
}
