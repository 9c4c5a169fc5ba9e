/* Lists that get known in the run: the elements of a task with foreach: become instances. The list
 * is committed once, with the first slice of their rows; they start when all rows are. */
#include "engine/run/inside.h"
#include "engine/run/growth.h"
#include "engine/run/metrics.h"
#include "engine/store/item_lists.h"

#include <string.h>

/* ---- a list is evaluated ---- */

static enum fr_rc read_list(struct fr_run *run, uint32_t inst, struct run_list *out,
                            struct fr_err *err)
{
    struct run_scope scope = {.run = run, .inst = inst, .attempt_no = 1};
    struct fr_resolver resolver = run_resolver(&scope);
    struct fr_buf text = {0};
    enum fr_rc rc;

    out->task = run->plan->insts[inst].task;
    out->items = fr_arena_alloc(&run->arena, sizeof(*out->items));
    rc = out->items != NULL
             ? fr_text_eval(run->plan->tasks[out->task].spec->items->list, &resolver, &text, err)
             : fr_fail(err, FR_NOMEM, "no memory for a list");
    if (rc == FR_OK &&
        (out->text = fr_arena_text(&run->arena, text.p != NULL ? text.p : "", text.n)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a list");
    if (rc == FR_OK)
        rc = fr_items_read((struct fr_str){out->text, text.n}, &run->arena, out->items, err);
    fr_buf_finish(&text);
    return rc;
}

void run_expand(struct fr_run *run, const struct fr_act *act)
{
    struct fr_event ev = {.kind = FR_EV_LIST, .inst = act->inst};
    struct run_list *list = fr_arena_alloc(&run->arena, sizeof(*list)), **last = &run->lists;
    struct fr_err err = {0};
    enum fr_rc rc = list != NULL ? read_list(run, act->inst, list, &err)
                                 : fr_fail(&err, FR_NOMEM, "no memory for a list");

    if (rc == FR_NOMEM) {
        run_die(run, &err);
        return;
    }
    ev.failed = rc != FR_OK;
    run->insts[act->inst].no_when =
        ev.failed ? fr_arena_fmt(&run->arena, "foreach: %s", err.msg) : NULL;
    if (ev.failed || list->items->n == 0) {
        run_queue_or_die(run, &ev);
        return;
    }
    while (*last != NULL)
        last = &(*last)->next;
    *last = list;
}

/* ---- it enters the plan ---- */

/* The spec is this run's own; of a list that is known only this member changes. */
static const struct fr_items *set_items(struct fr_run *run, uint32_t task,
                                        const struct fr_items *items)
{
    struct fr_task *spec = (struct fr_task *)&run->spec->tasks[task];
    const struct fr_items *before = spec->items;

    spec->items = items;
    return before;
}

static enum fr_rc grow_insts(struct fr_run *run, const struct fr_plan *plan, struct run_inst **out,
                             struct fr_err *err)
{
    struct run_inst *to = run_new_insts(plan);

    if ((*out = to) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %u instances", plan->n_insts);
    for (uint32_t i = 0; i < run->plan->n_insts; i++) {
        uint32_t now = fr_plan_moved(plan, run->plan, i);

        if (now != FR_PLAN_NONE)
            to[now] = run->insts[i];
    }
    return FR_OK;
}

static enum fr_rc enter_plan(struct fr_run *run, struct run_list *list, struct fr_err *err)
{
    const struct fr_items *before = set_items(run, list->task, list->items);
    struct fr_plan *plan = NULL;
    struct fr_arena arena = {0};
    struct run_inst *insts = NULL;
    enum fr_rc rc;

    list->items->grown = run->n_lists + 1;
    list->items->list = before->list;
    if ((rc = fr_plan_make(run->spec, &arena, &plan, err)) != FR_OK ||
        (rc = grow_insts(run, plan, &insts, err)) != FR_OK ||
        (rc = fr_sched_grow(run->sched, plan, list->task, err)) != FR_OK) {
        set_items(run, list->task, before);
        fr_sys.free(insts);
        fr_arena_finish(&arena);
        return rc;
    }
    fr_sys.free(run->insts);
    run->growth =
        (struct run_growth){.before = run->plan,
                            .arena = run->plan_arena,
                            .next = plan->tasks[list->task].first,
                            .end = plan->tasks[list->task].first + plan->tasks[list->task].count};
    run->plan = plan;
    run->plan_arena = arena;
    run->insts = insts;
    run->n_lists++;
    return FR_OK;
}

static void drop_list(struct fr_run *run)
{
    run->lists = run->lists->next;
}

/* The plan has no room for it: its task fails. */
static void refuse_list(struct fr_run *run, const struct fr_err *why)
{
    uint32_t inst = run->plan->tasks[run->lists->task].first;

    run->insts[inst].no_when = fr_arena_fmt(&run->arena, "foreach: %s", why->msg);
    run_queue_or_die(run, &(struct fr_event){.kind = FR_EV_LIST, .inst = inst, .failed = true});
    drop_list(run);
}

void run_growth_begin(struct fr_run *run)
{
    struct fr_err err = {0};

    while (run->lists != NULL && run->growth.before == NULL && !run->fatal) {
        const struct run_list *list = run->lists;
        enum fr_rc rc;

        if (!fr_sched_awaits(run->sched, list->task)) { /* it was cancelled meanwhile */
            drop_list(run);
            continue;
        }
        rc = enter_plan(run, run->lists, &err);
        if (rc == FR_USAGE)
            refuse_list(run, &err);
        else if (rc != FR_OK)
            run_die(run, &err);
        else
            run_remark(run, "expanded", "%s: %zu element%s", run->plan->tasks[list->task].name,
                       list->items->n, fr_plural(list->items->n));
    }
}

/* ---- its rows ---- */

/* What stands for awaited tasks makes room: the last one first, as each goes further back. */
static enum fr_rc move_rows(struct fr_run *run, struct fr_err *err)
{
    const struct fr_plan *before = run->growth.before;
    enum fr_rc rc = FR_OK;

    for (uint32_t i = before->n_insts;
         rc == FR_OK && i-- > 0 && before->tasks[before->insts[i].task].awaited;) {
        uint32_t now = fr_plan_moved(run->plan, before, i);

        if (now != i)
            rc = fr_store_inst_move(run->env.store, run->id, i,
                                    now != FR_PLAN_NONE ? (int64_t)now : -1, err);
    }
    return rc;
}

enum fr_rc run_growth_write(struct fr_run *run, struct fr_err *err)
{
    struct run_growth *g = &run->growth;
    enum fr_rc rc = FR_OK;

    if (g->before == NULL)
        return FR_OK;
    if (!g->stored) {
        struct fr_item_list_row row = {.no = run->n_lists,
                                       .task = run->plan->tasks[run->lists->task].name,
                                       .list = run->lists->text};

        if ((rc = move_rows(run, err)) == FR_OK)
            rc = fr_store_item_list_put(run->env.store, run->id, &row, err);
    }
    g->put = g->end - g->next < FR_RUN_PUT_ROWS ? g->end - g->next : FR_RUN_PUT_ROWS;
    return rc == FR_OK ? run_put_insts(run, g->next, g->next + g->put, err) : rc;
}

void run_growth_written(struct fr_run *run)
{
    struct run_growth *g = &run->growth;

    if (g->before == NULL)
        return;
    if (!g->stored)
        run_note(run, &(struct fr_note){.kind = FR_NOTE_PLAN,
                                        .inst = FR_PLAN_NONE,
                                        .node = FR_PLAN_NONE,
                                        .plan = run->plan,
                                        .text = ""});
    g->stored = true;
    g->next += g->put;
    if (g->next < g->end)
        return;
    run_queue_or_die(run, &(struct fr_event){.kind = FR_EV_EXPANDED, .task = run->lists->task});
    drop_list(run);
    fr_arena_finish(&g->arena);
    *g = (struct run_growth){0};
}

/* ---- a stored run ---- */

enum fr_rc run_lists_load(const struct run_source *from, struct fr_spec *spec, struct fr_err *err)
{
    struct fr_item_list_rows rows = {0};
    enum fr_rc rc = fr_store_item_lists(from->st, from->row->id, from->arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_item_list_row *row = &rows.rows[i];
        int t = fr_spec_task(spec, row->task);
        struct fr_task *task = t >= 0 ? (struct fr_task *)&spec->tasks[t] : NULL;
        struct fr_items *items;

        if (task == NULL || task->items == NULL || task->items->list == NULL)
            continue; /* a changed file has it no more */
        if ((items = fr_arena_alloc(&spec->arena, sizeof(*items))) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a list");
        rc = fr_items_read(fr_str_of(row->list), &spec->arena, items, err);
        items->grown = (uint32_t)row->no;
        items->list = task->items->list;
        task->items = items;
    }
    return rc;
}
