/* Rows of the scheduler become rows of the store, once a transition, and notes for the view. */
#include "engine/run/inside.h"

#include <stdio.h>
#include <string.h>

static const char *node_name(const struct fr_run *run, uint32_t inst)
{
    return run->plan->nodes[run_node_of(run, inst)].name;
}

/* ---- why, in words ---- */

static const char *failed_need(struct fr_run *run, uint32_t inst)
{
    const struct fr_plan_task *task = run_task_of(run, inst);

    for (uint32_t i = 0; i < task->n_needs; i++) {
        enum fr_state_of st = fr_sched_task_state(run->sched, task->needs[i]);

        if (fr_state_ended(st) && st != FR_ST_SUCCEEDED && st != FR_ST_SKIPPED)
            return fr_arena_fmt(&run->arena, "needs %s, which ended as %s",
                                run->plan->tasks[task->needs[i]].name, fr_state_name(st));
    }
    return "something it needs failed";
}

static const char *why_cause(struct fr_run *run, const struct fr_row *row)
{
    const struct fr_task *task = run_task_of(run, row->inst)->spec;
    const char *reason;
    char text[24];

    switch (row->cause) {
    case FR_CAUSE_EXIT:
        return row->code == 0 ? "" : fr_arena_fmt(&run->arena, "exit code %d", row->code);
    case FR_CAUSE_SIGNAL:
        return fr_arena_fmt(&run->arena, "ended by signal %d (%s)", row->code,
                            strsignal(row->code));
    case FR_CAUSE_TIMEOUT:
        fr_show_duration(task->timeout_ms, text);
        return fr_arena_fmt(&run->arena, "no end within its timeout of %s", text);
    case FR_CAUSE_OOM:
        return "killed by the kernel: out of memory";
    case FR_CAUSE_START_FAILED:
        reason = run->nodes[run_node_of(run, row->inst)].reason;
        return reason[0] != '\0' ? reason : "its node did not start it";
    case FR_CAUSE_NODE_LOST:
        return "its node is given up";
    case FR_CAUSE_LOST:
        return "its outcome is not known";
    case FR_CAUSE_GANG_PEER:
        return "another member of its gang ended";
    case FR_CAUSE_STOPPED:
        return "stopped by the user";
    default:
        return "";
    }
}

static const char *why(struct fr_run *run, const struct fr_row *row)
{
    const struct run_inst *in = &run->insts[row->inst];
    const char *base, *own = fr_id_eq(in->row.id, row->attempt) ? in->row.reason : "";

    if (row->state == FR_ST_UPSTREAM_FAILED)
        return failed_need(run, row->inst);
    if (row->attempt_no == 0 || row->live || row->state == FR_ST_SKIPPED)
        return row->cause == FR_CAUSE_START_FAILED ? why_cause(run, row) : "";
    base = why_cause(run, row);
    if (own == NULL || own[0] == '\0')
        return base;
    if (base[0] == '\0' || row->cause == FR_CAUSE_START_FAILED)
        return own;
    return fr_arena_fmt(&run->arena, "%s: %s", base, own);
}

/* ---- attempts ---- */

static const char *log_name(struct fr_run *run, uint32_t inst, uint32_t no)
{
    char *name = fr_arena_fmt(&run->arena, "%s.%u.log", run->plan->insts[inst].key, no);

    for (char *p = name; p != NULL && *p != '\0'; p++)
        if (*p == '/')
            *p = '_';
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
    in->row = (struct fr_attempt_row){.id = row->attempt,
                                      .idx = row->inst,
                                      .no = row->attempt_no,
                                      .node = node_name(run, row->inst),
                                      .rank = run->plan->insts[row->inst].member,
                                      .home_id = at->home_id,
                                      .boot_id = node->boot_kept,
                                      .reason = "",
                                      .address = "",
                                      .log = log,
                                      .started_wall = fr_sys.wall_ms()};
    return FR_OK;
}

/* What was booked starts: now, and where its node is now. */
static void starts(struct fr_run *run, struct run_inst *in, const struct fr_row *row,
                   struct run_attempt *at)
{
    struct run_node *node = &run->nodes[run_node_of(run, row->inst)];

    if (row->state != FR_ST_STARTING || in->writing != FR_ST_READY)
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
    if (run_rendezvous(run, task, address, &err) == FR_OK)
        in->row.address = fr_arena_dup(&run->arena, address);
    else
        run_trouble(run, row->inst, "%s", err.msg);
}

enum fr_rc run_put_output(struct fr_run *run, uint32_t inst, const char *kv, struct fr_err *err)
{
    const char *eq = strchr(kv, '=');
    struct fr_output_row row = {.idx = inst, .value = eq != NULL ? eq + 1 : ""};

    row.key = fr_arena_text(&run->arena, kv, eq != NULL ? (size_t)(eq - kv) : strlen(kv));
    return row.key != NULL ? fr_store_output_put(run->env.store, run->id, &row, err)
                           : fr_fail(err, FR_NOMEM, "no memory for an output");
}

static enum fr_rc write_outputs(struct fr_run *run, const struct run_attempt *at,
                                struct fr_err *err)
{
    enum fr_rc rc = fr_store_output_clear(run->env.store, run->id, at->inst, err);

    for (size_t i = 0; rc == FR_OK && i < at->outputs.n; i++)
        rc = run_put_output(run, at->inst, at->outputs.v[i].p, err);
    return rc;
}

/* last: no later row of this attempt comes in this commit. */
static enum fr_rc write_attempt(struct fr_run *run, const struct fr_row *row, bool last,
                                struct fr_err *err)
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
    in->row.state = fr_state_name(row->attempt_state);
    in->row.cause = row->cause != FR_CAUSE_NONE ? fr_cause_name(row->cause) : "";
    in->row.code = row->code;
    if (!row->live && in->row.ended_wall == 0)
        in->row.ended_wall = fr_sys.wall_ms();
    if (!last)
        return FR_OK;
    if (at != NULL && at->reason[0] != '\0')
        in->row.reason = fr_arena_dup(&run->arena, at->reason);
    rc = fr_store_attempt_put(run->env.store, run->id, &in->row, err);
    if (rc == FR_OK && at != NULL && at->outputs_new)
        rc = write_outputs(run, at, err);
    return rc;
}

/* ---- instances ---- */

static enum fr_rc write_event(struct fr_run *run, const struct fr_row *row, struct fr_err *err)
{
    struct run_inst *in = &run->insts[row->inst];
    struct fr_event_row ev = {.wall = fr_sys.wall_ms(),
                              .idx = row->inst,
                              .attempt_no = row->attempt_no,
                              .code = row->code};
    enum fr_rc rc = FR_OK;

    ev.cause = row->cause != FR_CAUSE_NONE ? fr_cause_name(row->cause) : "";
    ev.text = in->reason;
    if (row->state != in->writing) {
        ev.kind = fr_state_name(row->state);
        rc = fr_store_event_add(run->env.store, run->id, &ev, err);
    }
    if (rc == FR_OK && row->unreachable != in->writing_away) {
        ev.kind = row->unreachable ? "unreachable" : "reachable";
        ev.text = run->nodes[run_node_of(run, row->inst)].reason;
        rc = fr_store_event_add(run->env.store, run->id, &ev, err);
    }
    in->writing = row->state;
    in->writing_away = row->unreachable;
    return rc;
}

static void times(struct fr_run *run, const struct fr_row *row)
{
    struct run_inst *in = &run->insts[row->inst];
    int64_t now = fr_sys.wall_ms();

    if (!fr_state_ended(row->state) && in->ended_wall != 0)
        in->started_wall = in->ended_wall = 0; /* the user runs it again */
    if (row->live && !fr_row_booked(row) && in->started_wall == 0)
        in->started_wall = now;
    if (!fr_state_ended(row->state))
        in->ended_wall = 0;
    else if (in->ended_wall == 0)
        in->ended_wall = now;
    if (!row->unreachable)
        in->unreachable_wall = 0;
    else if (in->unreachable_wall == 0)
        in->unreachable_wall = now;
}

static enum fr_rc put_note(struct fr_run *run, size_t act, const char *text, struct fr_err *err)
{
    if (!run_grow_list((void **)&run->notes, run->n_notes, &run->cap_notes, sizeof(*run->notes)))
        return fr_fail(err, FR_NOMEM, "no memory to show what happened");
    run->notes[run->n_notes++] = (struct run_shown){act, text};
    return FR_OK;
}

enum fr_rc run_put_inst(struct fr_run *run, const struct fr_row *row, struct fr_err *err)
{
    const struct run_inst *in = &run->insts[row->inst];
    const struct fr_plan_inst *pi = &run->plan->insts[row->inst];
    const struct fr_plan_task *task = &run->plan->tasks[pi->task];
    struct fr_inst_row out;

    out = (struct fr_inst_row){
        .idx = row->inst,
        .key = pi->key,
        .task = task->name,
        .node = node_name(run, row->inst),
        .hook = task->hook >= 0 ? fr_hook_name((enum fr_hook)task->hook) : "",
        .state = fr_state_name(row->state),
        .attempt_no = row->attempt_no,
        .attempt = row->attempt,
        .attempt_state = row->attempt_no > 0 ? fr_state_name(row->attempt_state) : "",
        .live = row->live,
        .go = row->go,
        .generation = row->generation,
        .retries = row->retries,
        .cause = row->cause != FR_CAUSE_NONE ? fr_cause_name(row->cause) : "",
        .code = row->code,
        .stop_cause = row->stop_cause != FR_CAUSE_NONE ? fr_cause_name(row->stop_cause) : "",
        .reason = in->reason,
        .unreachable_wall = in->unreachable_wall,
        .started_wall = in->started_wall,
        .ended_wall = in->ended_wall};
    if (row->state == FR_ST_RETRYING) {
        out.due_delay_ms = row->delay_ms;
        out.due_wall = fr_sys.wall_ms() + row->delay_ms;
    }
    return fr_store_inst_put(run->env.store, run->id, &out, err);
}

static enum fr_rc write_row(struct fr_run *run, size_t i, struct fr_err *err)
{
    const struct fr_row *row = &run->acts.v[i].row;
    struct run_inst *in = &run->insts[row->inst];
    const struct fr_row *last = &run->acts.v[in->last_act].row;
    bool newest = last == row, other = !fr_id_eq(last->attempt, row->attempt);
    enum fr_rc rc = row->attempt_no > 0 ? write_attempt(run, row, newest || other, err) : FR_OK;

    if (rc != FR_OK)
        return rc;
    in->reason = why(run, row);
    if (in->reason == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a reason");
    times(run, row);
    if ((newest && (rc = run_put_inst(run, row, err)) != FR_OK) ||
        (rc = write_event(run, row, err)) != FR_OK || fr_row_booked(row))
        return rc;
    return put_note(run, i, in->reason, err);
}

/* ---- the run ---- */

/* An instance whose failure failed the run. */
static bool to_blame(const struct fr_run *run, const struct fr_row *row)
{
    return row->state >= FR_ST_FAILED && row->state <= FR_ST_STOP_UNPROVEN &&
           row->state != FR_ST_CANCELLED && run_task_of(run, row->inst)->hook < 0 &&
           row->cause != FR_CAUSE_GANG_PEER && !run_task_of(run, row->inst)->spec->best_effort;
}

/* The first one; of a gang whose others failed because one was lost, that one. */
static const char *why_run(struct fr_run *run)
{
    uint32_t found = FR_PLAN_NONE;
    struct fr_row culprit = {0};

    for (uint32_t i = 0; i < run->plan->n_insts; i++) {
        struct fr_row row = fr_sched_row(run->sched, i, fr_sys.mono_ms());

        if (to_blame(run, &row) &&
            (found == FR_PLAN_NONE || (run->plan->insts[i].task == run->plan->insts[found].task &&
                                       row.state == FR_ST_LOST && culprit.state != FR_ST_LOST))) {
            found = i;
            culprit = row;
        }
    }
    if (found == FR_PLAN_NONE)
        return "";
    return fr_arena_fmt(&run->arena, "%s: %s", run->plan->insts[found].key,
                        run->insts[found].reason[0] != '\0' ? run->insts[found].reason
                                                            : fr_state_name(culprit.state));
}

static enum fr_rc write_run(struct fr_run *run, size_t i, struct fr_err *err)
{
    const struct fr_run_now *now = &run->acts.v[i].run;
    struct fr_event_row ev = {.wall = fr_sys.wall_ms(), .idx = -1};
    enum fr_rc rc;

    run->row.state = fr_run_state_name(now->state);
    run->row.outcome = now->outcome != FR_OUT_NONE ? fr_outcome_name(now->outcome) : "";
    run->row.round = now->round;
    run->row.ended_wall = now->state == FR_RUN_OVER ? fr_sys.wall_ms() : 0;
    run->row.reason = now->outcome == FR_OUT_FAILED ? why_run(run) : "";
    if (run->row.reason == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a reason");
    if ((rc = fr_store_run_set(run->env.store, &run->row, err)) != FR_OK)
        return rc;
    ev.kind = now->state == FR_RUN_OVER ? run->row.outcome : run->row.state;
    ev.text = run->row.reason;
    if ((rc = fr_store_event_add(run->env.store, run->id, &ev, err)) != FR_OK)
        return rc;
    return put_note(run, i, run->row.reason, err);
}

static enum fr_rc write_nodes(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (uint32_t n = 0; rc == FR_OK && n < run->plan->n_nodes; n++) {
        const struct run_node *node = &run->nodes[n];
        struct fr_node_row row = {.name = run->plan->nodes[n].name,
                                  .home_id = node->home_id,
                                  .boot_id = node->boot_id,
                                  .folder = node->store,
                                  .unreachable_wall = node->down_wall};

        if (node->dirty)
            rc = fr_store_node_put(run->env.store, run->id, &row, err);
    }
    return rc;
}

enum fr_rc run_write(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = write_nodes(run, err);

    run->n_notes = 0;
    for (size_t i = 0; i < run->acts.n; i++)
        if (run->acts.v[i].kind == FR_ACT_ROW) {
            struct run_inst *in = &run->insts[run->acts.v[i].row.inst];

            in->writing = in->shown;
            in->writing_away = in->shown_away;
            in->last_act = i;
        }
    for (size_t i = 0; rc == FR_OK && i < run->acts.n; i++) {
        if (run->acts.v[i].kind == FR_ACT_ROW)
            rc = write_row(run, i, err);
        else if (run->acts.v[i].kind == FR_ACT_ROW_RUN)
            rc = write_run(run, i, err);
    }
    for (size_t i = 0; rc == FR_OK && i < run->n_done; i++)
        rc = fr_store_attempt_done(run->env.store, run->id,
                                   &(struct fr_attempt_row){.idx = run->done[i].inst,
                                                            .no = run->done[i].no,
                                                            .id = run->done[i].id},
                                   err);
    for (const struct run_answer *a = run->answers; rc == FR_OK && a != NULL; a = a->next)
        rc = fr_store_request_done(run->env.store, a->id, a->text, err);
    return rc;
}

/* The row is shown, and as the newest that is committed. */
static struct fr_note show_row(struct fr_run *run, const struct fr_row *row)
{
    struct run_inst *in = &run->insts[row->inst];
    struct run_attempt *at = run_attempt_find(run, row->attempt);

    in->shown = in->writing;
    in->shown_away = in->writing_away;
    if (at != NULL)
        at->outputs_new = false;
    return (struct fr_note){
        .kind = FR_NOTE_STATE, .inst = row->inst, .node = run_node_of(run, row->inst), .row = *row};
}

void run_show(struct fr_run *run)
{
    struct run_attempt *at;

    run->n_done = 0;
    run->answers = NULL;
    for (size_t i = 0; i < run->acts.n; i++)
        if (run->acts.v[i].kind == FR_ACT_ROW && fr_row_booked(&run->acts.v[i].row) &&
            (at = run_attempt_find(run, run->acts.v[i].row.attempt)) != NULL)
            at->booked = true;
    for (uint32_t n = 0; n < run->plan->n_nodes; n++)
        run->nodes[n].dirty = false;
    for (size_t i = 0; i < run->n_notes; i++) {
        const struct fr_act *act = &run->acts.v[run->notes[i].act];
        struct fr_note note = {
            .kind = FR_NOTE_RUN, .inst = FR_PLAN_NONE, .node = FR_PLAN_NONE, .now = act->run};

        if (act->kind == FR_ACT_ROW)
            note = show_row(run, &act->row);
        note.text = run->notes[i].text;
        run_note(run, &note);
    }
    run->n_notes = 0;
}
