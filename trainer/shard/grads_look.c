/* Squares of sums, and values in them that are not finite. */
#include "trainer/shard/grads_private.h"

#include <stdio.h>

void tr_grads_watch(struct tr_grads *g, struct tr_view squares, struct tr_view found)
{
    g->squares = squares;
    g->found = found;
}

/* x: the part's sums. The ranges alone: gaps hold anything. */
static enum fr_rc look_at(const struct tr_grads *g, const struct tr_grads_look *l,
                          const struct grads_part *p, struct tr_view x, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = p->range; i < p->range + p->ranges && rc == FR_OK; i++) {
        const struct tr_grads_range *r = &g->ranges[i];
        struct tr_sumsq sq = {.out = l->squares, .found = l->found};

        sq.x = tr_view1((char *)x.p + (size_t)(r->at - p->at) * tr_dtype_bytes(x.dtype), x.dtype,
                        r->n);
        if (r->cols > 0)
            sq.x = tr_view2(sq.x.p, x.dtype, r->n / r->cols, r->cols);
        rc = tr_sumsq(l->be, l->q, &sq, err);
    }
    return rc;
}

enum fr_rc grads_look_early(struct tr_grads *g, struct tr_queue *q, struct grads_part *p,
                            struct tr_view x, struct fr_err *err)
{
    struct tr_grads_look l = {g->o.be, q, g->squares, g->found};
    bool rows = p->unit >= 0 && rows_has(&g->o.shard->units[p->unit]); /* tr_grads_rows adds more */

    if (!g->last || rows || tr_view_absent(g->squares))
        return FR_OK;
    p->whole = true;
    return look_at(g, &l, p, x, err);
}

enum fr_rc tr_grads_look(struct tr_grads *g, const struct tr_grads_look *l, bool again,
                         struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; k < g->nparts && rc == FR_OK; k++)
        if (again || !g->parts[k].whole)
            rc = look_at(g, l, &g->parts[k], grads_sums_of(g, &g->parts[k]), err);
    return rc;
}

/* Counts values of a range that are not finite. */
static enum fr_rc count_in(struct tr_grads *g, const struct tr_grads_look *l,
                           const struct grads_part *p, size_t range, int64_t *n, struct fr_err *err)
{
    const struct tr_grads_range *r = &g->ranges[range];
    struct tr_view sums = grads_sums_of(g, p);
    size_t at = (size_t)(r->at - p->at) * tr_dtype_bytes(sums.dtype);
    struct tr_nonfinite a = {l->found, tr_view1((char *)sums.p + at, sums.dtype, r->n)};
    enum fr_rc rc = tr_zero(l->be, l->q, l->found.p, tr_view_bytes(l->found));

    if (rc == FR_OK)
        rc = tr_nonfinite(l->be, l->q, &a, err);
    if (rc == FR_OK)
        rc = tr_copy(l->be, l->q, n, l->found.p, sizeof *n);
    return rc == FR_OK ? tr_sync(l->be, l->q, err) : rc;
}

enum fr_rc tr_grads_blame(struct tr_grads *g, const struct tr_grads_look *l,
                          struct tr_grads_blame *out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *out = (struct tr_grads_blame){.unit = -1};
    for (size_t k = 0; k < g->nparts && rc == FR_OK; k++) {
        const struct grads_part *p = &g->parts[k];

        for (size_t i = p->range; i < p->range + p->ranges && rc == FR_OK; i++) {
            int64_t n = 0;

            rc = count_in(g, l, p, i, &n, err);
            if (rc != FR_OK || n == 0 || (out->name[0] != '\0' && p->unit <= out->unit))
                continue;
            out->unit = p->unit;
            (void)snprintf(out->name, sizeof out->name, "%s", g->ranges[i].name);
        }
    }
    return rc;
}
