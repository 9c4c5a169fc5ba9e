#include "engine/client/follow.h"

#include "engine/base/sys.h"
#include "engine/client/copies.h"

#include <string.h>

enum {
    SLICE_EVENTS = 200,
    SLICE_BYTES = 64 << 10,
    BATCH = 1000, /* rows of fr_store_events() */
};

struct follow_inst {
    uint32_t began; /* number of the newest attempt that was sent to the node */
    uint8_t state;
    bool away;
};

struct cli_follow {
    struct cli_follow_opts opts;
    struct fr_run_row row;
    struct fr_arena arena; /* of the row */
    struct fr_stored stored;
    int64_t lists;             /* of the store, when stored was read */
    struct follow_inst *insts; /* in stored's arena */
    struct fr_event_rows batch;
    struct fr_arena batch_arena;
    size_t place; /* number of rows of the batch that were taken */
    int64_t seq;
    struct cli_copies copies;
    bool over;
};

/* ---- events ---- */

static enum fr_cause cause_of(const char *name)
{
    enum fr_cause cause = FR_CAUSE_NONE;

    (void)fr_cause_parse(fr_str_of(name), &cause);
    return cause;
}

static bool is_end(enum fr_state_of state)
{
    return fr_state_ended(state) || state == FR_ST_RETRYING;
}

/* The scheduler's row at the time of the event. The start of a booked attempt has no event. */
static struct fr_row row_of(const struct cli_follow *f, const struct fr_event_row *ev)
{
    const struct follow_inst *in = &f->insts[ev->idx];
    struct fr_row row = {.inst = (uint32_t)ev->idx,
                         .state = (enum fr_state_of)in->state,
                         .attempt_no = (uint32_t)ev->attempt_no,
                         .cause = cause_of(ev->cause),
                         .code = (int)ev->code,
                         .stop_cause = ev->stop_cause,
                         .delay_ms = ev->delay_ms,
                         .unreachable = in->away};

    row.attempt_state = row.attempt_no > in->began ? FR_ST_CANCELLED : row.state;
    return row;
}

/* Reads the outputs of an instance as "NAME=value"; none if they are not shown. */
static enum fr_rc read_outputs(struct cli_follow *f, uint32_t inst, struct fr_strs *out,
                               struct fr_err *err)
{
    const struct fr_plan_task *task = &f->stored.plan->tasks[f->stored.plan->insts[inst].task];
    struct fr_arena *arena = &f->batch_arena;
    struct fr_output_rows rows = {0};
    enum fr_rc rc = FR_OK;

    *out = (struct fr_strs){0};
    if (task->hook >= 0 || task->n_users > 0 || task->spec->n_outputs == 0)
        return FR_OK;
    rc = fr_store_outputs_of(f->opts.store, &(struct fr_inst_of){f->row.id, inst}, arena, &rows,
                             err);
    if (rc == FR_OK && (out->v = fr_arena_array(arena, rows.n + 1, sizeof(*out->v))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for outputs");
    for (; rc == FR_OK && out->n < rows.n; out->n++) {
        const struct fr_output_row *row = &rows.rows[out->n];

        out->v[out->n] = fr_str_of(fr_arena_fmt(arena, "%s=%s", row->key, row->value));
        if (out->v[out->n].p == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for outputs");
    }
    return rc;
}

/* Whether the event proves that the attempt was sent to the node. A booked attempt has no event of
 * its start if the next host found it launched or ended. */
static bool is_sent(const struct fr_event_row *ev, enum fr_state_of state)
{
    if (state == FR_ST_STARTING || state == FR_ST_RUNNING)
        return true;
    return is_end(state) && (ev->log_bytes > 0 || fr_cause_ran(cause_of(ev->cause)));
}

/* Notes an event that leaves the instance's state as it is (run/metrics.h). */
static bool take_remark(struct cli_follow *f, const struct fr_event_row *ev)
{
    struct fr_note note = {.kind = FR_NOTE_TROUBLE,
                           .wall_ms = ev->wall,
                           .inst = (uint32_t)ev->idx,
                           .node = FR_PLAN_NONE,
                           .text = ev->text,
                           .seq = ev->seq};

    if (strcmp(ev->kind, "stalled") != 0 && strcmp(ev->kind, "progress") != 0 &&
        strcmp(ev->kind, "not_finite") != 0)
        return false;
    f->opts.note(f->opts.arg, &note);
    return true;
}

/* Notes the change of an instance in the batch's next row. *taken: 2 if the row after it is part of
 * the same change; 0: the slice is over. */
static enum fr_rc take_inst(struct cli_follow *f, size_t *taken, struct fr_err *err)
{
    const struct fr_event_row *ev = &f->batch.rows[f->place], *last = ev;
    struct follow_inst *in = &f->insts[ev->idx];
    enum fr_state_of state = (enum fr_state_of)in->state;
    bool changed = fr_state_parse(ev->kind, &state);
    struct fr_note note = {.kind = FR_NOTE_STATE, .text = changed ? ev->text : ""};
    struct fr_strs outputs = {0};
    enum fr_rc rc = FR_OK;

    *taken = 1;
    if (!changed && take_remark(f, ev))
        return FR_OK;
    *taken = 0;
    if (changed && ev->attempt_no > in->began && is_sent(ev, state)) {
        in->began = (uint32_t)ev->attempt_no;
        rc = cli_copies_add(&f->copies, (uint32_t)ev->idx, in->began, err);
    }
    if (rc == FR_OK && changed && is_end(state) &&
        !cli_copies_end(&f->copies, (uint32_t)ev->idx, (uint64_t)ev->log_bytes, &note.left))
        return FR_OK;
    *taken = 1;
    if (changed && f->place + 1 < f->batch.n && ev[1].idx == ev->idx && ev[1].wall == ev->wall &&
        strcmp(ev[1].kind, "reachable") == 0) /* the end made the node reachable, too */
        last = &ev[(*taken)++];
    in->state = (uint8_t)state;
    if (strcmp(last->kind, "unreachable") == 0 || strcmp(last->kind, "reachable") == 0)
        in->away = last->kind[0] == 'u';
    if (rc == FR_OK && changed && state == FR_ST_SUCCEEDED)
        rc = read_outputs(f, (uint32_t)ev->idx, &outputs, err);
    note.outputs = &outputs;
    note.row = row_of(f, ev);
    note.seq = last->seq;
    note.wall_ms = ev->wall;
    note.inst = (uint32_t)ev->idx;
    note.node = f->stored.plan->insts[ev->idx].node;
    if (rc == FR_OK)
        f->opts.note(f->opts.arg, &note);
    return rc;
}

static enum fr_outcome outcome_of(const char *name)
{
    int found = fr_word_find(&fr_outcome_words, fr_str_of(name));

    return found > FR_OUT_NONE ? (enum fr_outcome)found : FR_OUT_NONE;
}

/* ev->kind is the run's state, or its outcome once the run is over. */
static void take_run(struct cli_follow *f, const struct fr_event_row *ev)
{
    struct fr_note note = {.kind = FR_NOTE_RUN,
                           .wall_ms = ev->wall,
                           .inst = FR_PLAN_NONE,
                           .node = FR_PLAN_NONE,
                           .now = {.state = FR_RUN_OVER, .outcome = outcome_of(ev->kind)},
                           .text = ev->text,
                           .seq = ev->seq};

    if (strcmp(ev->kind, "rerun") == 0 || strcmp(ev->kind, "late") == 0 ||
        strcmp(ev->kind, "expanded") == 0) { /* the state stays */
        note.kind = FR_NOTE_TROUBLE;
        f->opts.note(f->opts.arg, &note);
        return;
    }
    if (note.now.outcome == FR_OUT_NONE) {
        int state = fr_word_find(&fr_run_state_words, fr_str_of(ev->kind));

        note.now.outcome = outcome_of(ev->cause);
        if (state >= 0)
            note.now.state = (enum fr_run_state)state;
    }
    f->over = note.now.state == FR_RUN_OVER;
    if (f->over)
        cli_copies_end_all(&f->copies);
    if (f->seq > 0) /* the first event is the submit: no change */
        f->opts.note(f->opts.arg, &note);
}

/* The pipeline, with the lists that the run knows now. */
static enum fr_rc read_plan(struct cli_follow *f, struct fr_stored *out, struct fr_err *err)
{
    struct fr_run_plan known = {0};
    enum fr_rc rc = fr_store_run_spec(f->opts.store, f->row.id, &f->batch_arena, &known, err);

    f->lists = known.lists;
    return rc == FR_OK ? fr_run_stored(f->opts.store, &f->row, out, err) : rc;
}

/* What is known of the instances that were there goes with them. */
static enum fr_rc grow(struct cli_follow *f, struct fr_err *err)
{
    struct fr_stored next = {0};
    struct fr_note note = {
        .kind = FR_NOTE_PLAN, .inst = FR_PLAN_NONE, .node = FR_PLAN_NONE, .text = ""};
    struct follow_inst *to = NULL;
    enum fr_rc rc = read_plan(f, &next, err);

    if (rc == FR_OK &&
        (to = fr_arena_array(&next.arena, next.plan->n_insts + 1, sizeof(*to))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to follow a run");
    if (rc == FR_OK)
        rc = cli_copies_grow(&f->copies, next.plan, err);
    if (rc != FR_OK) {
        fr_run_stored_finish(&next);
        return rc;
    }
    for (uint32_t i = 0; i < f->stored.plan->n_insts; i++) {
        uint32_t now = fr_plan_moved(next.plan, f->stored.plan, i);

        if (now != FR_PLAN_NONE)
            to[now] = f->insts[i];
    }
    note.plan = next.plan;
    f->insts = to;
    f->opts.note(f->opts.arg, &note);
    fr_run_stored_finish(&f->stored);
    f->stored = next;
    return FR_OK;
}

/* Events have indices of the plan: the run must still have this plan. *grown: it has one with more
 * instances now, and the events are to be read again. */
static enum fr_rc check_plan(struct cli_follow *f, bool *grown, struct fr_err *err)
{
    struct fr_run_plan known = {0};
    enum fr_rc rc = fr_store_run_spec(f->opts.store, f->row.id, &f->batch_arena, &known, err);

    *grown = false;
    if (rc == FR_OK && strcmp(known.hash, f->row.spec_hash) != 0)
        return fr_fail(
            err, FR_STOPPED,
            "run %lld goes on with another pipeline file; 'flowrun attach %lld' shows it",
            (long long)f->row.no, (long long)f->row.no);
    *grown = rc == FR_OK && known.lists != f->lists;
    return *grown ? grow(f, err) : rc;
}

/* Reads the next batch of rows. */
static enum fr_rc next_batch(struct cli_follow *f, struct fr_err *err)
{
    bool grown = true;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && grown) {
        grown = false;
        fr_arena_finish(&f->batch_arena);
        f->batch.after = f->seq;
        f->place = 0;
        rc = fr_store_events(f->opts.store, f->row.id, &f->batch_arena, &f->batch, err);
        if (rc == FR_OK && f->batch.n > 0)
            rc = check_plan(f, &grown, err);
    }
    return rc;
}

/* *more: rows are left for the next slice. */
static enum fr_rc take_events(struct cli_follow *f, bool *more, struct fr_err *err)
{
    bool all = false;
    enum fr_rc rc = FR_OK;

    *more = true;
    for (size_t n = 0; rc == FR_OK && n < SLICE_EVENTS; n++) {
        const struct fr_event_row *ev;
        size_t taken = 1;

        if (f->place == f->batch.n) {
            *more = !all && (rc = next_batch(f, err)) == FR_OK && f->batch.n > 0;
            all = f->batch.n < BATCH;
            if (!*more)
                break;
        }
        ev = &f->batch.rows[f->place];
        if (ev->idx == -1)
            take_run(f, ev);
        else if (ev->idx >= 0 && ev->idx < (int64_t)f->stored.plan->n_insts)
            rc = take_inst(f, &taken, err);
        if (taken == 0)
            break;
        f->place += taken;
        f->seq = f->batch.rows[f->place - 1].seq;
    }
    return rc;
}

enum fr_rc cli_follow_news(struct cli_follow *f, bool *more, struct fr_err *err)
{
    enum fr_rc rc;

    f->copies.budget = SLICE_BYTES;
    rc = take_events(f, more, err);
    if (rc == FR_OK)
        cli_copies_take(&f->copies);
    *more = *more || f->copies.budget == 0;
    return rc;
}

enum fr_rc cli_follow_catch_up(struct cli_follow *f, struct fr_err *err)
{
    bool more = true;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && more)
        rc = cli_follow_news(f, &more, err);
    return rc;
}

static enum fr_rc add_booked(struct cli_follow *f, const struct fr_attempt_row *row,
                             struct fr_err *err)
{
    struct follow_inst *in = &f->insts[row->idx];

    if (row->ended_wall != 0 || row->no <= in->began)
        return FR_OK;
    in->began = (uint32_t)row->no;
    return cli_copies_add(&f->copies, (uint32_t)row->idx, in->began, err);
}

enum fr_rc cli_follow_booked(struct cli_follow *f, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_attempt_rows rows = {0};
    enum fr_rc rc = fr_store_attempts(f->opts.store, f->row.id, &arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        if (rows.rows[i].idx >= 0 && rows.rows[i].idx < (int64_t)f->stored.plan->n_insts)
            rc = add_booked(f, &rows.rows[i], err);
    fr_arena_finish(&arena);
    return rc == FR_OK ? cli_follow_catch_up(f, err) : rc;
}

/* ---- the rest ---- */

enum fr_rc cli_follow_nodes(struct cli_follow *f, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_node_rows rows = {0};
    enum fr_rc rc = FR_OK;

    if (cli_copies_wait(&f->copies))
        rc = fr_store_nodes(f->opts.store, f->row.id, &arena, &rows, err);
    for (size_t n = 0; rc == FR_OK && n < rows.n; n++)
        cli_copies_node(&f->copies, fr_plan_node(f->stored.plan, rows.rows[n].name),
                        rows.rows[n].unreachable_wall != 0);
    fr_arena_finish(&arena);
    return rc;
}

bool cli_follow_over(const struct cli_follow *f, bool *complete)
{
    *complete = f->over && f->place == f->batch.n && f->copies.n == 0;
    return f->over && f->place == f->batch.n;
}

const struct fr_run_row *cli_follow_row(const struct cli_follow *f)
{
    return &f->row;
}

const struct fr_plan *cli_follow_plan(const struct cli_follow *f)
{
    return f->stored.plan;
}

enum fr_rc cli_follow_create(struct cli_follow **out, const struct cli_follow_opts *opts,
                             struct fr_err *err)
{
    struct cli_follow *f = fr_sys.alloc(sizeof(*f));
    enum fr_rc rc;

    *out = NULL;
    if (f == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to follow a run");
    memset(f, 0, sizeof(*f));
    f->opts = *opts;
    rc = fr_store_run_find(opts->store, opts->run, &f->arena, &f->row, err);
    if (rc == FR_OK)
        rc = read_plan(f, &f->stored, err);
    if (rc == FR_OK && (f->insts = fr_arena_array(&f->stored.arena, f->stored.plan->n_insts + 1,
                                                  sizeof(*f->insts))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to follow a run");
    f->copies.plan = f->stored.plan;
    f->copies.note = opts->note;
    f->copies.arg = opts->arg;
    if (rc == FR_OK)
        rc = cli_copies_begin(&f->copies, fr_store_home(opts->store), f->row.id, err);
    if (rc == FR_OK)
        *out = f;
    else
        cli_follow_destroy(f);
    return rc;
}

void cli_follow_destroy(struct cli_follow *f)
{
    if (f == NULL)
        return;
    cli_copies_finish(&f->copies);
    fr_arena_finish(&f->batch_arena);
    fr_run_stored_finish(&f->stored);
    fr_arena_finish(&f->arena);
    fr_sys.free(f);
}
