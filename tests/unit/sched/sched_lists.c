#include "tests/unit/sched/sched_lists.h"

bool lists_ask(struct world *w, const struct fr_act *a, struct fr_event *ev)
{
    uint32_t t = w->plan->insts[a->inst].task;
    unsigned n = (unsigned)draw(w, 5);

    CHECK(w->plan->tasks[t].awaited && w->list[t] == 0 && !w->held[t]);
    *ev = about(a, FR_EV_LIST);
    ev->failed = chance(w, 8);
    if (!ev->failed)
        w->list[t] = n;
    return ev->failed || n == 0;
}

/* Each array that is by instance, after its numbers have changed. */
#define MOVE(array, none)                                                                          \
    do {                                                                                           \
        memcpy(old_##array, w->array, sizeof(w->array));                                           \
        for (uint32_t i = 0; i < 256; i++)                                                         \
            w->array[i] = none;                                                                    \
        for (uint32_t i = 0; i < old->n_insts; i++)                                                \
            if (fr_plan_moved(plan, old, i) != FR_PLAN_NONE)                                       \
                w->array[fr_plan_moved(plan, old, i)] = old_##array[i];                            \
    } while (0)

static void move_all(struct world *w, const struct fr_plan *plan)
{
    static struct fr_row old_rows[256], old_before[256];
    static int64_t old_due_ms[256];
    static unsigned old_launches[256];
    static bool old_again[256], old_doubt[256];
    const struct fr_plan *old = w->plan;

    MOVE(rows, (struct fr_row){0});
    MOVE(before, (struct fr_row){0});
    MOVE(due_ms, 0);
    MOVE(launches, 0);
    MOVE(again, false);
    MOVE(doubt, false);
    for (uint32_t i = 0; i < plan->n_insts; i++)
        w->rows[i].inst = w->before[i].inst = i;
}

static void grow(struct world *w, uint32_t t)
{
    struct fr_plan *plan;

    mini_items(&w->mini, t, w->list[t]);
    w->mini.items[t].grown = ++w->n_lists;
    w->list[t] = 0;
    if (!CHECK(fr_plan_make(&w->mini.spec, &w->arena, &plan, NULL) == FR_OK) ||
        !CHECK(fr_sched_grow(w->s, plan, t, NULL) == FR_OK))
        return;
    CHECK(plan->n_insts + 1 == w->plan->n_insts + plan->tasks[t].count);
    move_all(w, plan);
    w->plan = plan;
    w->held[t] = true;
}

bool lists_grow(struct world *w)
{
    if (w->self_at < w->self_n) /* answers name instances as they are numbered now */
        return false;
    for (uint32_t t = 0; t < w->plan->n_tasks - w->plan->n_hooks; t++) {
        if (w->list[t] == 0)
            continue;
        if (fr_sched_awaits(w->s, t)) {
            grow(w, t);
            return true;
        }
        w->list[t] = 0; /* it was cancelled */
    }
    return false;
}

bool lists_next(struct world *w, struct fr_event *ev)
{
    for (uint32_t t = 0; t < w->plan->n_tasks - w->plan->n_hooks; t++)
        if (w->held[t]) {
            w->held[t] = false;
            *ev = (struct fr_event){.kind = FR_EV_EXPANDED, .task = t};
            return true;
        }
    return false;
}

void lists_forget(struct world *w)
{
    memset(w->list, 0, sizeof(w->list));
    memset(w->held, 0, sizeof(w->held));
}

void lists_check(const struct world *w)
{
    for (uint32_t t = 0; t < w->plan->n_tasks; t++)
        for (uint32_t k = 0; t < MINI_TASKS && w->held[t] && k < w->plan->tasks[t].count; k++) {
            enum fr_state_of state = w->rows[w->plan->tasks[t].first + k].state;

            CHECK(state == FR_ST_WAITING || state == FR_ST_CANCELLED);
        }
}
