/* What all instances of a task gave, as values of expressions. */
#include "engine/run/inside.h"

#include <string.h>

enum { VALUE_MAX = 1 << 20 /* bytes of a list */ };

/* The output of an instance that succeeded; NULL: there is none. */
static const char *output_of(const struct fr_run *run, uint32_t inst, const char *name)
{
    bool good = fr_sched_row(run->sched, inst, 0).state == FR_ST_SUCCEEDED;

    return good ? run_output(run, inst, name) : NULL;
}

static void put_member(const char *name, const char *text, struct fr_buf *out)
{
    fr_buf_fmt(out, "\"%s\":", name);
    fr_json_add_text(out, text);
}

static void put_inst(const struct fr_run *run, uint32_t inst, struct fr_buf *out)
{
    const struct fr_plan_inst *in = &run->plan->insts[inst];
    const struct fr_task *task = run_task_of(run, inst)->spec;
    const char *gap = "";

    fr_buf_text(out, "{");
    put_member("key", in->key, out);
    fr_buf_text(out, ",");
    put_member("state", fr_state_name(fr_sched_row(run->sched, inst, 0).state), out);
    fr_buf_text(out, ",");
    put_member("node", run->plan->nodes[in->node].name, out);
    if (task->items != NULL) {
        fr_buf_text(out, task->items->of_list ? ",\"item\":" : ",\"matrix\":");
        fr_item_json(task->items, in->item, out);
    }
    fr_buf_text(out, ",\"outputs\":{");
    for (size_t i = 0; i < task->n_outputs; i++) {
        const char *value = output_of(run, inst, task->outputs[i]);

        if (value == NULL || strcmp(task->outputs[i], FR_RESULT) == 0)
            continue;
        fr_buf_text(out, gap);
        put_member(task->outputs[i], value, out);
        gap = ",";
    }
    fr_buf_text(out, "}}");
}

static enum fr_rc get_list(const struct fr_run *run, const struct fr_ref *ref, struct fr_buf *out,
                           struct fr_err *err)
{
    const struct fr_plan_task *task = &run->plan->tasks[ref->task];
    size_t from = out->n;

    fr_buf_text(out, "[");
    for (uint32_t k = 0; k < fr_plan_rows(task) && out->n - from <= VALUE_MAX; k++) {
        const char *value =
            ref->kind == FR_REF_ALL ? output_of(run, task->first + k, ref->name) : NULL;

        fr_buf_text(out, k > 0 ? "," : "");
        if (ref->kind == FR_REF_ITEMS)
            put_inst(run, task->first + k, out);
        else if (value != NULL)
            fr_json_add_text(out, value);
        else
            fr_buf_text(out, "null");
    }
    fr_buf_text(out, "]");
    if (out->n - from > VALUE_MAX)
        return fr_fail(err, FR_USAGE, "the list of %u instances of %s is longer than 1 MiB",
                       task->count, task->name);
    return FR_OK;
}

/* The instance whose output is the smallest or largest number; of equal ones the first. */
static uint32_t best_of(const struct fr_run *run, const struct fr_ref *ref)
{
    const struct fr_plan_task *task = &run->plan->tasks[ref->task];
    uint32_t best = FR_PLAN_NONE;
    double least = 0, v;

    for (uint32_t i = task->first; i < task->first + fr_plan_rows(task); i++) {
        const char *value = output_of(run, i, ref->name);

        if (value == NULL || fr_parse_f64(fr_str_of(value), &v, NULL) != FR_OK)
            continue;
        v = ref->largest ? -v : v;
        if (best == FR_PLAN_NONE || v < least) {
            best = i;
            least = v;
        }
    }
    return best;
}

static enum fr_rc get_best(const struct fr_run *run, const struct fr_ref *ref, struct fr_buf *out,
                           struct fr_err *err)
{
    const struct fr_plan_task *task = &run->plan->tasks[ref->task];
    const struct fr_items *items = task->spec->items;
    uint32_t inst = best_of(run, ref);
    const char *text = NULL;

    if (inst == FR_PLAN_NONE)
        return fr_fail(err, FR_NOTFOUND, "none of the %u instances of %s gave a number '%s'",
                       fr_plan_rows(task), task->name, ref->name);
    switch (ref->pick) {
    case FR_PICK_WHOLE:
        put_inst(run, inst, out);
        return FR_OK;
    case FR_PICK_KEY:
        text = run->plan->insts[inst].key;
        break;
    case FR_PICK_STATE:
        text = fr_state_name(fr_sched_row(run->sched, inst, 0).state);
        break;
    case FR_PICK_NODE:
        text = run->plan->nodes[run_node_of(run, inst)].name;
        break;
    case FR_PICK_MATRIX:
        text =
            items->v[run->plan->insts[inst].item].values[fr_items_name(items, ref->pick_name)].text;
        break;
    case FR_PICK_ITEM:
        return fr_item_member(&items->v[run->plan->insts[inst].item], ref->pick_name, out, err);
    case FR_PICK_OUTPUT:
        text = output_of(run, inst, ref->pick_name);
    }
    if (text == NULL)
        return fr_fail(err, FR_NOTFOUND, "%s gave no output '%s'", run->plan->insts[inst].key,
                       ref->pick_name);
    fr_buf_text(out, text);
    return FR_OK;
}

enum fr_rc run_fan_value(const struct fr_run *run, const struct fr_ref *ref, struct fr_buf *out,
                         struct fr_err *err)
{
    return ref->kind == FR_REF_BEST ? get_best(run, ref, out, err) : get_list(run, ref, out, err);
}
