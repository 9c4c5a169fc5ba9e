/* Rows of the scheduler become rows of the store, once a transition, and notes for the view. */
#include "engine/run/inside.h"
#include "engine/run/growth.h"
#include "engine/run/metrics.h"
#include "engine/run/reasons.h"
#include "engine/run/times.h"

#include <stdio.h>
#include <string.h>

/* ---- attempts ---- */

static const char *log_name(struct fr_run *run, uint32_t inst, uint32_t no)
{
    struct fr_buf b = {0};
    const char *name = NULL;

    fr_run_log_name(&b, run->plan->insts[inst].key, no);
    if (!b.bad)
        name = fr_arena_dup(&run->arena, b.p);
    fr_buf_finish(&b);
    return name;
}

/* Where it starts is recorded with it. */
static void record_place(struct fr_run *run, struct run_node *node, struct run_attempt *at)
{
    if (node->known) {
        at->home_id = node->home_id;
        snprintf(at->boot_id, sizeof(at->boot_id), "%s", node->boot_id);
    }
    if (node->boot_kept == NULL || strcmp(node->boot_kept, at->boot_id) != 0)
        node->boot_kept = fr_arena_dup(&run->arena, at->boot_id);
}

/* The attempt's row as it is when it is made. */
static enum fr_rc new_attempt(struct fr_run *run, const struct fr_row *row, struct fr_err *err)
{
    struct run_inst *in = &run->insts[row->inst];
    struct run_node *node = &run->nodes[run_node_of(run, row->inst)];
    struct run_attempt *at = run_attempt_find(run, row->attempt);
    const char *log = log_name(run, row->inst, row->attempt_no);

    if (at == NULL)
        at = run_attempt_add(run, row->attempt, row->inst, row->attempt_no);
    if (at == NULL || log == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for an attempt");
    at->generation = row->generation;
    at->log.name = (char *)log;
    record_place(run, node, at);
    in->launched_wall = in->end_wall = 0;
    in->row = (struct fr_attempt_row){.id = row->attempt,
                                      .idx = row->inst,
                                      .no = row->attempt_no,
                                      .node = run->plan->nodes[run_node_of(run, row->inst)].name,
                                      .rank = run->plan->insts[row->inst].member,
                                      .home_id = at->home_id,
                                      .boot_id = node->boot_kept,
                                      .state = FR_ST_NONE,
                                      .cause = FR_CAUSE_NONE,
                                      .reason = "",
                                      .address = "",
                                      .log = log,
                                      .slots = run_task_of(run, row->inst)->spec->slots,
                                      .started_wall = fr_sys.wall_ms()};
    return FR_OK;
}

/* A booked attempt starts: now, and on its node's present boot. */
static void starts(struct fr_run *run, struct run_inst *in, const struct fr_row *row,
                   struct run_attempt *at)
{
    struct run_node *node = &run->nodes[run_node_of(run, row->inst)];

    if (row->state != FR_ST_STARTING || in->state != FR_ST_READY)
        return;
    in->row.started_wall = fr_sys.wall_ms();
    if (at == NULL || at->sent)
        return;
    record_place(run, node, at);
    in->row.home_id = at->home_id;
    in->row.boot_id = node->boot_kept;
}

/* The head's place of rendezvous is committed with its go. */
static void rendezvous(struct fr_run *run, const struct fr_row *row, const struct run_attempt *at)
{
    struct run_inst *in = &run->insts[row->inst];
    const struct fr_plan_task *task = run_task_of(run, row->inst);
    char address[64];
    struct fr_err err;

    if (!task->gang || !row->go || run->plan->insts[row->inst].member != 0 || in->row.port != 0 ||
        at == NULL)
        return;
    in->row.port = at->port;
    if (run_rendezvous(run, row->inst, address, &err) == FR_OK)
        in->row.address = fr_arena_dup(&run->arena, address);
    else
        run_trouble(run, row->inst, "%s", err.msg);
}

enum fr_rc run_put_output(struct fr_run *run, uint32_t inst, const char *kv, struct fr_err *err)
{
    const char *eq = strchr(kv, '=');
    struct fr_output_row row = {.idx = inst, .value = eq != NULL ? eq + 1 : ""};
    struct fr_buf key = {0};
    enum fr_rc rc;

    fr_buf_add(&key, kv, eq != NULL ? (size_t)(eq - kv) : strlen(kv));
    row.key = key.p;
    rc = key.bad ? fr_fail(err, FR_NOMEM, "no memory for an output")
                 : fr_store_output_put(run->env.store, run->id, &row, err);
    fr_buf_finish(&key);
    return rc;
}

static enum fr_rc write_outputs(struct fr_run *run, const struct run_attempt *at,
                                struct fr_err *err)
{
    enum fr_rc rc = fr_store_output_clear(run->env.store, run->id, at->inst, err);

    for (size_t i = 0; rc == FR_OK && i < at->outputs.n; i++)
        rc = run_put_output(run, at->inst, at->outputs.v[i].p, err);
    return rc;
}

/* The reason that the attempt's end gave, as its row has it. */
static enum fr_rc keep_reason(struct fr_run *run, struct run_inst *in, const struct run_attempt *at,
                              struct fr_err *err)
{
    if (at == NULL || at->reason[0] == '\0' || strcmp(in->row.reason, at->reason) == 0)
        return FR_OK;
    in->row.reason = fr_arena_dup(&run->arena, at->reason);
    return in->row.reason != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a reason");
}

/* The attempt's row is to be written, once however often it changes before the commit. */
static enum fr_rc add_attempt(struct fr_run *run, struct run_inst *in, struct fr_err *err)
{
    size_t i = in->changed_attempt;

    if (i == 0 || !fr_id_eq(run->changed_attempts[i - 1].id, in->row.id)) {
        void *more = fr_grow(run->changed_attempts, run->n_changed_attempts + 1,
                             &run->cap_changed_attempts, sizeof(*run->changed_attempts));

        if (more == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for an attempt");
        run->changed_attempts = more;
        i = in->changed_attempt = ++run->n_changed_attempts;
    }
    run->changed_attempts[i - 1] = in->row;
    return FR_OK;
}

static enum fr_rc prepare_attempt(struct fr_run *run, const struct fr_row *row, struct fr_err *err)
{
    struct run_inst *in = &run->insts[row->inst];
    struct run_attempt *at;
    enum fr_rc rc = FR_OK;

    if (!fr_id_eq(in->row.id, row->attempt) && (rc = new_attempt(run, row, err)) != FR_OK)
        return rc;
    at = run_attempt_find(run, row->attempt);
    rendezvous(run, row, at);
    starts(run, in, row, at);
    in->row.generation = row->generation;
    if (row->live || in->row.state != row->attempt_state) {
        in->row.cause = row->cause;
        in->row.code = row->code;
    } /* else it has ended before, and the cause is that of a start that never came */
    in->row.state = row->attempt_state;
    if (!row->live && in->row.ended_wall == 0)
        in->row.ended_wall = in->end_wall != 0 ? in->end_wall : fr_sys.wall_ms();
    if ((rc = keep_reason(run, in, at, err)) != FR_OK)
        return rc;
    return add_attempt(run, in, err);
}

static enum fr_rc write_attempts(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < run->n_changed_attempts; i++) {
        const struct fr_attempt_row *row = &run->changed_attempts[i];
        const struct run_attempt *at = run_attempt_find(run, row->id);

        rc = fr_store_attempt_put(run->env.store, run->id, row, err);
        if (rc == FR_OK && at != NULL && at->outputs_new)
            rc = write_outputs(run, at, err);
    }
    return rc;
}

/* ---- instances ---- */

static enum fr_rc write_events(struct fr_run *run, const struct run_change *c, struct fr_err *err)
{
    const struct fr_row *row = &run->acts.v[c->act].row;
    struct fr_event_row ev = {.wall = c->wall_ms,
                              .idx = row->inst,
                              .attempt_no = row->attempt_no,
                              .code = row->code,
                              .log_bytes = (int64_t)c->log_bytes};
    enum fr_rc rc = FR_OK;

    ev.cause = fr_cause_name(row->cause);
    if (row->state == FR_ST_STOPPING)
        ev.stop_cause = row->stop_cause;
    if (row->state == FR_ST_RETRYING)
        ev.delay_ms = row->delay_ms;
    if (c->state) {
        ev.seq = c->seq - c->reach;
        ev.kind = fr_state_name(row->state);
        ev.text = c->text;
        rc = fr_store_event_add(run->env.store, run->id, &ev, err);
    }
    if (rc == FR_OK && c->reach) {
        ev.seq = c->seq;
        ev.kind = row->unreachable ? "unreachable" : "reachable";
        ev.text = run->nodes[run_node_of(run, row->inst)].reason;
        rc = fr_store_event_add(run->env.store, run->id, &ev, err);
    }
    return rc;
}

static enum fr_rc add_change(struct fr_run *run, struct run_change change, struct fr_err *err)
{
    void *more =
        fr_grow(run->changes, run->n_changes + 1, &run->cap_changes, sizeof(*run->changes));

    if (more == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for what happened");
    run->changes = more;
    run->changes[run->n_changes++] = change;
    return FR_OK;
}

enum fr_rc run_put_inst(struct fr_run *run, const struct fr_row *row, int64_t wall_ms,
                        struct fr_err *err)
{
    const struct run_inst *in = &run->insts[row->inst];
    const struct fr_plan_inst *pi = &run->plan->insts[row->inst];
    const struct fr_plan_task *task = &run->plan->tasks[pi->task];
    struct fr_inst_row out;

    out =
        (struct fr_inst_row){.idx = row->inst,
                             .key = pi->key,
                             .task = task->name,
                             .node = run->plan->nodes[pi->node].name,
                             .hook = task->hook >= 0 ? fr_hook_name((enum fr_hook)task->hook) : "",
                             .state = row->state,
                             .attempt_no = row->attempt_no,
                             .attempt = row->attempt,
                             .attempt_state = row->attempt_no > 0 ? row->attempt_state : FR_ST_NONE,
                             .live = row->live,
                             .go = row->go,
                             .generation = row->generation,
                             .retries = row->retries,
                             .chained = row->chained,
                             .cause = row->cause,
                             .code = row->code,
                             .stop_cause = row->stop_cause,
                             .reason = in->reason,
                             .unreachable_wall = in->unreachable_wall,
                             .started_wall = in->started_wall,
                             .ended_wall = in->ended_wall};
    if (row->state == FR_ST_RETRYING) {
        out.due_delay_ms = row->delay_ms;
        out.due_wall = wall_ms + row->delay_ms;
    }
    return fr_store_inst_put(run->env.store, run->id, &out, err);
}

static enum fr_rc prepare_row(struct fr_run *run, size_t act, struct fr_err *err)
{
    struct fr_row *row = &run->acts.v[act].row;
    struct run_inst *in = &run->insts[row->inst];
    int64_t now = fr_sys.wall_ms();
    struct run_change change = {.act = act, .wall_ms = run_times_of(run, row, now)};
    const struct run_attempt *at;
    const char *before = in->reason;
    enum fr_rc rc = FR_OK;

    if (row->attempt_no > 0)
        rc = prepare_attempt(run, row, err);
    if (rc != FR_OK)
        return rc;
    in->reason = run_why(run, row);
    if (in->reason == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a reason");
    if (row->delay_ms > 0)
        row->delay_ms += now - change.wall_ms; /* from then on */
    run_times_put(run, row, change.wall_ms);
    change.text = in->reason;
    change.state = row->state != in->state || (row->blocked && strcmp(before, in->reason) != 0);
    change.reach = row->unreachable != in->unreachable;
    if (change.state || change.reach)
        change.seq = run->seq += change.state + change.reach;
    if ((fr_state_ended(row->state) || row->state == FR_ST_RETRYING) && row->attempt_no > 0 &&
        (at = run_attempt_find(run, row->attempt)) != NULL)
        change.log_bytes = at->log_bytes; /* 0 while its node has not said it */
    in->state = row->state;
    in->unreachable = row->unreachable;
    in->last_act = act;
    return add_change(run, change, err);
}

static enum fr_rc write_row(struct fr_run *run, const struct run_change *c, struct fr_err *err)
{
    const struct fr_row *row = &run->acts.v[c->act].row;
    enum fr_rc rc = FR_OK;

    if (run->insts[row->inst].last_act == c->act)
        rc = run_put_inst(run, row, c->wall_ms, err);
    return rc == FR_OK ? write_events(run, c, err) : rc;
}

/* ---- the run ---- */

static enum fr_rc prepare_run(struct fr_run *run, size_t act, struct fr_err *err)
{
    const struct fr_run_now *now = &run->acts.v[act].run;
    int64_t wall_ms = fr_sys.wall_ms();
    const char *text;
    bool known = run->row.outcome == FR_OUT_FAILED; /* the reason stands since then */

    run->row.state = now->state;
    run->row.outcome = now->outcome;
    run->row.round = now->round;
    if (now->state == FR_RUN_OVER)
        wall_ms = run_times_over(run, wall_ms);
    run->row.ended_wall = now->state == FR_RUN_OVER ? wall_ms : 0;
    if (now->outcome != FR_OUT_FAILED)
        run->row.reason = "";
    else if (!known)
        run->row.reason = now->timed_out ? run_why_timed_out(run) : run_why_failed(run);
    if (now->state == FR_RUN_OVER)
        run_rerun_plan(run, now);
    else
        run_rerun_begin(run);
    text = run->row.reason != NULL && run_reset_mark(run) ? run_rerun_text(run) : NULL;
    if (text == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a reason");
    return add_change(
        run, (struct run_change){.act = act, .text = text, .wall_ms = wall_ms, .seq = ++run->seq},
        err);
}

static enum fr_rc write_run(struct fr_run *run, const struct run_change *c, struct fr_err *err)
{
    const struct fr_run_now *now = &run->acts.v[c->act].run;
    struct fr_event_row ev = {.wall = c->wall_ms, .idx = -1, .text = c->text, .seq = c->seq};
    enum fr_rc rc = fr_store_run_set(run->env.store, &run->row, err);

    ev.kind = fr_run_word(now->state, now->outcome);
    ev.cause = fr_outcome_name(now->outcome);
    return rc == FR_OK ? fr_store_event_add(run->env.store, run->id, &ev, err) : rc;
}

/* Rows that came since the last try. */
static enum fr_rc prepare_changes(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (; rc == FR_OK && run->prepared < run->acts.n; run->prepared += rc == FR_OK) {
        enum fr_act_kind kind = run->acts.v[run->prepared].kind;

        if (kind == FR_ACT_ROW)
            rc = prepare_row(run, run->prepared, err);
        else if (kind == FR_ACT_ROW_RUN)
            rc = prepare_run(run, run->prepared, err);
    }
    return rc;
}

enum fr_rc fr_run_write(struct fr_run *run, struct fr_err *err)
{
    static enum fr_rc (*const steps[])(struct fr_run * run, struct fr_err * err) = {
        run_growth_write, prepare_changes,   run_reset_write,   run_nodes_write,
        write_attempts,   run_remarks_write, run_shipping_write};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < sizeof(steps) / sizeof(steps[0]); i++)
        rc = steps[i](run, err);
    for (size_t i = 0; rc == FR_OK && i < run->n_changes; i++) {
        const struct run_change *c = &run->changes[i];

        rc = run->acts.v[c->act].kind == FR_ACT_ROW ? write_row(run, c, err)
                                                    : write_run(run, c, err);
    }
    for (size_t i = 0; rc == FR_OK && i < run->n_done; i++)
        rc = fr_store_attempt_done(run->env.store, run->id,
                                   &(struct fr_attempt_row){.idx = run->done[i].inst,
                                                            .no = run->done[i].no,
                                                            .id = run->done[i].id},
                                   err);
    if (rc == FR_OK && run_frees_host(run))
        rc = fr_store_run_host(run->env.store, run->id, 0, err);
    return rc;
}

/* Shows a committed change, but no booking. */
static void show_change(struct fr_run *run, const struct run_change *c)
{
    const struct fr_act *act = &run->acts.v[c->act];
    struct fr_note note = {.kind = FR_NOTE_RUN,
                           .inst = FR_PLAN_NONE,
                           .node = FR_PLAN_NONE,
                           .now = act->run,
                           .text = c->text,
                           .wall_ms = c->wall_ms,
                           .seq = c->seq};

    if (act->kind == FR_ACT_ROW) {
        struct run_attempt *at = run_attempt_find(run, act->row.attempt);

        run->insts[act->row.inst].changed_attempt = 0;
        if (at != NULL)
            at->outputs_new = false;
        if (at != NULL && fr_row_booked(&act->row))
            at->booked = true;
        if (fr_row_booked(&act->row) && !c->state)
            return;
        note.kind = FR_NOTE_STATE;
        note.inst = act->row.inst;
        note.node = run_node_of(run, act->row.inst);
        note.row = act->row;
        note.outputs = &run->insts[act->row.inst].outputs;
        if (fr_state_ended(act->row.state) || act->row.state == FR_ST_RETRYING)
            note.left = fr_run_output_left(run, act->row.inst);
    }
    if (c->state && c->reach && note.row.unreachable) { /* two changes, as in its two event rows */
        note.row.unreachable = false;
        note.seq--;
        run_note(run, &note);
        note.row.unreachable = true;
        note.seq++;
    }
    run_note(run, &note);
}

void run_show(struct fr_run *run)
{
    if (run_frees_host(run))
        run->row.host = 0;
    run->resetting = run->resetting && fr_sched_resets(run->sched);
    run->n_done = 0;
    run->nodes_changed = false;
    run_shipping_written(run);
    for (uint32_t n = 0; n < run->plan->n_nodes; n++)
        run->nodes[n].dirty = false;
    for (size_t i = 0; i < run->n_changes; i++) {
        if (run->changes[i].seq > 0)
            run_remarks_show(run, run->changes[i].seq);
        show_change(run, &run->changes[i]);
    }
    run_remarks_show(run, INT64_MAX);
    run->n_changes = run->n_changed_attempts = 0;
}

void run_changes_drop(struct fr_run *run)
{
    fr_sys.free(run->changes);
    fr_sys.free(run->changed_attempts);
    run->changes = NULL;
    run->changed_attempts = NULL;
    run->cap_changes = run->cap_changed_attempts = 0;
    run->n_changes = run->n_changed_attempts = 0;
}
