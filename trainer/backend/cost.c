#include "trainer/backend/check.h"

static void count(void *self, const struct tr_need *n)
{
    struct tr_check *c = self;
    struct tr_view v = *n->view;

    if (v.p == NULL || (n->rule & FEW) != 0)
        return;
    if (c->cost.shape[1] == 0 && v.shape[0] > 0) { /* the first that counts */
        c->cost.shape[0] = v.shape[0];
        c->cost.shape[1] = tr_view_count(v) / v.shape[0];
    }
    c->cost.bytes += c->share * (double)tr_view_count(v) * (double)tr_dtype_bytes(v.dtype) *
                     ((n->rule & ADD) != 0 ? 2 : 1);
}

struct tr_cost tr_cost_of(enum tr_op op, const void *args)
{
    struct tr_check c = {.op = op, .see = count, .self = &c, .share = 1};

    tr_check_args(&c, args);
    return c.cost;
}
