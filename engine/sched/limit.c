/* What comes too late for the allocation of its node (FR_EV_LIMIT). */
#include "engine/sched/internal.h"

bool is_late(const struct fr_sched *s, uint32_t inst)
{
    const struct node *n = &s->nodes[s->plan->insts[inst].node];
    int64_t last = n->limit_ms != 0 ? fr_task_last_ms(plan_task(s, inst)->spec) : 0;

    return last > 0 && n->lasts_ms > last && n->limit_ms - s->now_ms <= last;
}

uint32_t node_spent(const struct fr_sched *s, const struct gang *gang)
{
    for (uint32_t k = 0; k < gang->n; k++)
        if (is_late(s, gang->first + k))
            return s->plan->insts[gang->first + k].node;
    return NONE;
}

void limit_node(struct fr_sched *s, uint32_t node, int64_t left_ms)
{
    s->nodes[node].limit_ms = left_ms != 0 ? s->now_ms + left_ms : 0;
    s->nodes[node].lasts_ms = left_ms;
    node_back(s, node);
}

bool fr_sched_spent(struct fr_sched *s, uint32_t node)
{
    const struct node *n = &s->nodes[node];
    uint32_t best = best_of(s, node);

    if (n->link != LINK_UP)
        return false;
    for (uint32_t g = n->gang_wait; g != NONE; g = s->gangs[g].next_wait)
        if (s->insts[s->gangs[g].first].row.state == FR_ST_READY)
            return true;
    return best != NONE && is_late(s, best);
}
