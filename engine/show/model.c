#include "engine/show/model.h"

#include "engine/base/sys.h"

#include <string.h>

static struct cli_model_inst *new_insts(const struct fr_plan *plan)
{
    size_t bytes = ((size_t)plan->n_insts + 1) * sizeof(struct cli_model_inst);
    struct cli_model_inst *to = fr_sys.alloc(bytes);

    if (to != NULL)
        memset(to, 0, bytes);
    for (uint32_t i = 0; to != NULL && i < plan->n_insts; i++)
        to[i].reason = "";
    return to;
}

enum fr_rc cli_model_begin(struct cli_model *m, struct fr_err *err)
{
    fr_sys.free(m->insts);
    m->insts = new_insts(m->plan);
    return m->insts != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory to show a run");
}

bool cli_model_grow(struct cli_model *m, const struct fr_plan *plan)
{
    struct cli_model_inst *to = new_insts(plan);

    if (to == NULL)
        return false;
    for (uint32_t i = 0; i < m->plan->n_insts; i++) {
        uint32_t now = fr_plan_moved(plan, m->plan, i);

        if (now != FR_PLAN_NONE)
            to[now] = m->insts[i];
    }
    fr_sys.free(m->insts);
    m->plan = plan;
    m->name = plan->spec->name;
    m->insts = to;
    return true;
}

/* Sets *to to a copy of text, unless it is equal; to "" without memory. */
static void keep_text(struct cli_model *m, const char **to, const char *text)
{
    if (strcmp(*to, text) == 0)
        return;
    *to = text[0] != '\0' ? fr_arena_dup(&m->arena, text) : "";
    if (*to == NULL)
        *to = "";
}

/* The newest "NAME=value" of name among outputs, or NULL. */
static const struct fr_str *find(const struct fr_strs *outputs, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = outputs->n; i-- > 0;) {
        const struct fr_str *s = &outputs->v[i];

        if (s->n > n && s->p[n] == '=' && memcmp(s->p, name, n) == 0)
            return s;
    }
    return NULL;
}

/* Keeps the outputs of instances that no task waits for; none without memory. */
static void keep_outputs(struct cli_model *m, uint32_t inst, const struct fr_strs *outputs)
{
    const struct fr_plan_task *task = &m->plan->tasks[m->plan->insts[inst].task];
    size_t n = task->spec->n_outputs;
    struct fr_strs *copy = NULL;

    m->insts[inst].outputs = NULL;
    if (outputs == NULL || outputs->n == 0 || task->hook >= 0 || task->n_users > 0 ||
        (copy = fr_arena_alloc(&m->arena, sizeof(*copy))) == NULL ||
        (copy->v = fr_arena_array(&m->arena, n + 1, sizeof(*copy->v))) == NULL)
        return;
    for (size_t k = 0; k < n; k++) {
        const struct fr_str *s = find(outputs, task->spec->outputs[k]);
        char *p = s != NULL ? fr_arena_text(&m->arena, s->p, s->n) : NULL;

        if (p != NULL)
            copy->v[copy->n++] = (struct fr_str){p, s->n};
    }
    m->insts[inst].outputs = copy;
}

static void take_row(struct cli_model *m, const struct fr_row *row)
{
    struct cli_model_inst *in = &m->insts[row->inst];

    in->state = row->state;
    in->cause = row->cause;
    in->attempt_no = row->attempt_no;
    in->began = fr_row_began(row);
    in->unreachable = row->unreachable;
}

enum fr_rc cli_model_load(struct cli_model *m, const struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = cli_model_begin(m, err);

    m->now = fr_run_now(run);
    for (uint32_t i = 0; rc == FR_OK && i < m->plan->n_insts; i++) {
        struct fr_row row = fr_run_row(run, i);
        struct fr_run_inst in = fr_run_inst(run, i);

        take_row(m, &row);
        keep_text(m, &m->insts[i].reason, in.reason);
        m->insts[i].started_wall = in.started_wall;
        m->insts[i].ended_wall = in.ended_wall;
        if (row.state == FR_ST_SUCCEEDED)
            keep_outputs(m, i, fr_run_outputs(run, i));
    }
    return rc;
}

void cli_model_finish(struct cli_model *m)
{
    fr_sys.free(m->insts);
    fr_arena_finish(&m->arena);
    *m = (struct cli_model){0};
}

/* Sets the times by the rule of the run's own rows. */
static void take_time(struct cli_model_inst *in, int64_t wall_ms)
{
    bool ended = fr_state_ended(in->state);
    bool begun = fr_state_lives(in->state);

    if (!ended && in->ended_wall != 0)
        in->started_wall = 0; /* a retry of the user */
    if (begun && in->started_wall == 0)
        in->started_wall = wall_ms;
    if (!ended)
        in->ended_wall = 0;
    else if (in->ended_wall == 0)
        in->ended_wall = wall_ms;
}

static void take_state(struct cli_model *m, const struct fr_note *note)
{
    struct cli_model_inst *in = &m->insts[note->inst];

    take_row(m, &note->row);
    take_time(in, note->wall_ms);
    keep_text(m, &in->reason, note->text);
    in->left = note->left;
    if (in->state == FR_ST_SUCCEEDED)
        keep_outputs(m, note->inst, note->outputs);
}

static void take_log(struct cli_model *m, struct fr_note *note)
{
    struct cli_model_inst *in = &m->insts[note->inst];
    uint64_t end = note->offset + note->bytes.n;

    in->left = note->left;
    if (note->attempt_no < in->log_no)
        return; /* late output of an older attempt */
    if (note->attempt_no == in->log_no && note->offset < in->log_at) {
        size_t seen = end < in->log_at ? note->bytes.n : (size_t)(in->log_at - note->offset);

        note->bytes.p += seen;
        note->bytes.n -= seen;
        note->offset += seen;
    }
    in->log_no = note->attempt_no;
    in->log_at = note->offset + note->bytes.n;
}

bool cli_model_take(struct cli_model *m, struct fr_note *note)
{
    if (note->seq != 0 && note->seq <= m->seq)
        return false;
    if (note->seq != 0)
        m->seq = note->seq;
    if (note->kind == FR_NOTE_RUN)
        m->now = note->now;
    if (m->insts == NULL)
        return true;
    if (note->inst != FR_PLAN_NONE && note->inst >= m->plan->n_insts)
        return false; /* without memory for a plan that has grown */
    if (note->kind == FR_NOTE_STATE)
        take_state(m, note);
    if (note->kind == FR_NOTE_LOG)
        take_log(m, note);
    if (note->kind == FR_NOTE_FULL && m->insts[note->inst].full_no >= note->attempt_no)
        return false;
    if (note->kind == FR_NOTE_FULL)
        m->insts[note->inst].full_no = note->attempt_no;
    return true;
}
