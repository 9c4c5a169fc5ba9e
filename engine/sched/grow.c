/* The elements of a list that gets known while the run goes on. */
#include "engine/sched/internal.h"

#include "engine/base/sys.h"

#include <string.h>

struct grown { /* what takes the place of the arrays */
    struct inst *insts;
    struct gang *gangs;
    uint32_t n_gangs;
};

static uint32_t gangs_of(const struct fr_plan_task *task)
{
    return task->gang ? task->count / task->width : 0;
}

static enum fr_rc make_room(const struct fr_sched *s, const struct fr_plan *plan, uint32_t task,
                            struct grown *out, struct fr_err *err)
{
    out->n_gangs = s->n_gangs + gangs_of(&plan->tasks[task]);
    out->insts = zeroed(plan->n_insts, sizeof(*out->insts));
    out->gangs = zeroed(out->n_gangs, sizeof(*out->gangs));
    if (out->insts != NULL && out->gangs != NULL)
        return FR_OK;
    fr_sys.free(out->insts);
    fr_sys.free(out->gangs);
    return fr_fail(err, FR_NOMEM, "no memory for %u instances", plan->n_insts);
}

/* Instances of other tasks keep their numbers, and with them their places in lists and heaps. What
 * stands for an awaited task is in none. */
static void move_insts(const struct fr_sched *s, const struct fr_plan *plan, struct inst *to)
{
    for (uint32_t i = 0; i < s->plan->n_insts; i++) {
        uint32_t now = fr_plan_moved(plan, s->plan, i);

        if (now == NONE)
            continue;
        to[now] = s->insts[i];
        to[now].row.inst = now;
    }
}

static void begin_insts(struct fr_sched *s, const struct fr_plan_task *task)
{
    for (uint32_t i = task->first; i < task->first + task->count; i++) {
        s->insts[i] = (struct inst){.row = {.inst = i}, .prev = NONE, .next = NONE};
        count_state(s, i, 1);
    }
}

static void begin_gangs(struct fr_sched *s, uint32_t t)
{
    const struct fr_plan_task *task = &s->plan->tasks[t];
    uint32_t g = s->n_gangs - gangs_of(task);

    s->tasks[t].gangs = g;
    for (uint32_t k = 0; k < task->count && task->gang; k += task->width)
        s->gangs[g++] = (struct gang){
            .first = task->first + k, .n = task->width, .next_wait = NONE, .first_failed = NONE};
    if (task->gang && task->width > s->largest_gang)
        s->largest_gang = task->width;
}

bool fr_sched_awaits(const struct fr_sched *s, uint32_t task)
{
    return s->plan->tasks[task].awaited && s->insts[s->plan->tasks[task].first].asked;
}

enum fr_rc fr_sched_grow(struct fr_sched *s, const struct fr_plan *plan, uint32_t t,
                         struct fr_err *err)
{
    uint32_t before = s->plan->tasks[t].first;
    struct grown grown;
    enum fr_rc rc = make_room(s, plan, t, &grown, err);

    if (rc != FR_OK)
        return rc;
    s->insts[before].asked = false;
    s->asking--;
    s->tasks[t].asked--;
    count_state(s, before, -1);
    move_insts(s, plan, grown.insts);
    if (s->n_gangs > 0)
        memcpy(grown.gangs, s->gangs, s->n_gangs * sizeof(*s->gangs));
    fr_sys.free(s->insts);
    fr_sys.free(s->gangs);
    s->insts = grown.insts;
    s->gangs = grown.gangs;
    s->n_gangs = grown.n_gangs;
    s->plan = plan;
    s->tasks[t].held = true;
    s->tasks[t].at = 0;
    begin_insts(s, &plan->tasks[t]);
    begin_gangs(s, t);
    return FR_OK;
}

struct losing {
    const unsigned char *what;
    bool any;
};

/* A list is made of what tasks gave alone, and of what is known when the file is read. */
static bool is_reset(void *arg, const struct fr_ref *ref)
{
    struct losing *l = arg;

    l->any = l->what[ref->task] != 0;
    return !l->any;
}

uint32_t loses_list(const struct fr_sched *s, const unsigned char *what)
{
    for (uint32_t t = 0; t < s->plan->n_tasks - s->plan->n_hooks; t++) {
        const struct fr_plan_task *task = &s->plan->tasks[t];
        struct losing l = {.what = what};

        if (fr_plan_is_grown(task) && task->spec->items->list != NULL)
            fr_text_refs(task->spec->items->list, is_reset, &l);
        if (l.any)
            return t;
    }
    return NONE;
}
