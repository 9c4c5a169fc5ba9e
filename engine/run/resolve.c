/* Values of ${{ … }} when an instance starts. */
#include "engine/run/inside.h"

#include <string.h>

/* ---- outputs ---- */

const char *run_output(const struct fr_run *run, uint32_t inst, const char *name)
{
    const struct fr_strs *outs = &run->insts[inst].outputs;
    size_t n = strlen(name);

    for (size_t i = 0; i < outs->n; i++)
        if (outs->v[i].n > n && memcmp(outs->v[i].p, name, n) == 0 && outs->v[i].p[n] == '=')
            return outs->v[i].p + n + 1;
    return NULL;
}

static enum fr_rc output_inst(const struct run_scope *scope, const struct fr_ref *ref,
                              uint32_t *inst, struct fr_err *err)
{
    const struct fr_plan *plan = scope->run->plan;
    const struct fr_plan_task *task = &plan->tasks[ref->task];
    uint32_t node = run_node_of(scope->run, scope->inst);

    *inst = task->first;
    if (ref->where == FR_WHERE_HEAD)
        return FR_OK;
    if (ref->where == FR_WHERE_NODE)
        node = fr_plan_node_of(plan, ref->node);
    *inst = fr_plan_inst_on(plan, (uint32_t)ref->task, node);
    if (*inst == FR_PLAN_NONE && ref->where == FR_WHERE_SAME && task->count == 1)
        *inst = task->first;
    if (*inst != FR_PLAN_NONE)
        return FR_OK;
    if (ref->where == FR_WHERE_NODE)
        return fr_fail(err, FR_NOTFOUND, "task %s does not run on %s", task->name,
                       plan->nodes[node].name);
    return fr_fail(err, FR_NOTFOUND,
                   "task %s runs on several nodes, but not on %s: write "
                   "tasks.%s.on('%s').outputs.%s or tasks.%s.on_head.outputs.%s",
                   task->name, plan->nodes[node].name, task->name,
                   plan->nodes[plan->insts[task->first].node].name, ref->name, task->name,
                   ref->name);
}

static enum fr_rc get_output(struct run_scope *scope, const struct fr_ref *ref, struct fr_buf *out,
                             struct fr_err *err)
{
    uint32_t inst;
    const char *value;
    enum fr_rc rc = output_inst(scope, ref, &inst, err);

    if (rc != FR_OK)
        return rc;
    if (!run_node_local(scope->run, run_node_of(scope->run, inst)))
        scope->other_node = scope->run->plan->nodes[run_node_of(scope->run, inst)].name;
    if ((value = run_output(scope->run, inst, ref->name)) == NULL)
        return fr_fail(
            err, FR_NOTFOUND, "%s gave no output '%s' (it %s)", scope->run->plan->insts[inst].key,
            ref->name,
            fr_state_name(fr_sched_row(scope->run->sched, inst, fr_sys.mono_ms()).state));
    fr_buf_text(out, value);
    return FR_OK;
}

/* ---- the rest ---- */

static enum fr_rc get_node(const struct run_scope *scope, uint32_t index, const char *name,
                           struct fr_buf *out)
{
    const struct fr_plan_node *pn = &scope->run->plan->nodes[index];
    const struct fr_node *node = pn->spec;

    if (strcmp(name, "name") == 0)
        fr_buf_text(out, pn->name);
    else if (strcmp(name, "address") == 0)
        fr_buf_text(out, run_node_address(scope->run, index));
    else if (strcmp(name, "index") == 0)
        fr_buf_fmt(out, "%d", node != NULL ? (int)index : -1);
    else if (strcmp(name, "user") == 0)
        fr_buf_text(out, node != NULL && node->user != NULL ? node->user : "");
    else if (strcmp(name, "gpus") == 0)
        fr_buf_fmt(out, "%d", node != NULL ? node->gpus : 0);
    else if (strcmp(name, "slots") == 0)
        fr_buf_fmt(out, "%u", pn->slots);
    else if (strcmp(name, "work") == 0)
        fr_buf_text(out, node != NULL && node->work != NULL ? node->work : "");
    else if (strcmp(name, "executor") == 0)
        fr_buf_text(out, run_node_local(scope->run, index) ? "local" : "ssh");
    else if (strcmp(name, "labels") == 0)
        for (size_t i = 0; node != NULL && i < node->n_labels; i++)
            fr_buf_fmt(out, "%s%s", i > 0 ? "," : "", node->labels[i]);
    return FR_OK;
}

static enum fr_rc get_run(const struct run_scope *scope, const char *name, struct fr_buf *out)
{
    char id[FR_ID_TEXT];
    struct fr_run_now now = fr_sched_now(scope->run->sched);

    fr_id_text(scope->run->id, id);
    if (strcmp(name, "id") == 0)
        fr_buf_text(out, id);
    else if (strcmp(name, "name") == 0)
        fr_buf_text(out, scope->run->spec->name);
    else
        fr_buf_text(out, now.outcome != FR_OUT_NONE ? fr_outcome_name(now.outcome)
                                                    : fr_run_state_name(now.state));
    return FR_OK;
}

static enum fr_rc get(void *self, const struct fr_ref *ref, struct fr_buf *out, struct fr_err *err)
{
    struct run_scope *scope = self;
    const struct fr_plan_inst *pi = &scope->run->plan->insts[scope->inst];
    bool failed;

    switch (ref->kind) {
    case FR_REF_OUTPUT:
        return get_output(scope, ref, out, err);
    case FR_REF_NODE:
        return get_node(scope, pi->node, ref->name, out);
    case FR_REF_HEAD:
        return get_node(scope, 0, ref->name, out);
    case FR_REF_NODES:
        fr_buf_fmt(out, "%zu", scope->run->spec->n_nodes);
        return FR_OK;
    case FR_REF_RUN:
        return get_run(scope, ref->name, out);
    case FR_REF_ATTEMPT:
        fr_buf_fmt(out, "%u", scope->attempt_no);
        return FR_OK;
    case FR_REF_SECRET:
        return run_secret(scope, ref->name, out, err);
    default:
        failed = fr_sched_needs_failed(scope->run->sched, pi->task);
        fr_buf_text(out, failed == (ref->kind == FR_REF_FAILURE) ? "true" : "false");
        return FR_OK;
    }
}

struct fr_resolver run_resolver(struct run_scope *scope)
{
    return (struct fr_resolver){scope, get};
}
