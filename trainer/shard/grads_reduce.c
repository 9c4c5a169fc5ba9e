/* Gradients of a micro-batch: their windows, and the sums of shares. */
#include "trainer/shard/grads_private.h"

#include <string.h>

void tr_grads_reset(struct tr_grads *g)
{
    for (size_t i = 0; i < g->nparts; i++)
        g->parts[i].fresh = true;
}

enum fr_rc tr_grads_begin(struct tr_grads *g, struct tr_queue *q, struct fr_err *err)
{
    if (tr_zero(g->o.be, q, g->norm_window.p, tr_view_bytes(g->norm_window)) != FR_OK)
        return fr_fail(err, FR_IO, "cannot clear the gradients of norms");
    return FR_OK;
}

/* A dry run calls it before there is memory: an address that is not read. */
struct tr_view tr_grads_view(const struct tr_grads *g, int unit, int i)
{
    const struct unit *u = &g->o.shard->units[unit];
    const struct tr_unit_tensor *t = &u->tensors[i];
    const struct tr_view *v = grads_is_norm(u) ? &g->norm_window : &g->window;
    size_t at = u->at[i] + (grads_is_norm(u) ? u->base_at : 0);
    char *p = v->p != NULL ? v->p : (char *)(uintptr_t)4096;

    return tr_view_of(p + (size_t)grads_elements_of(u, at) * tr_dtype_bytes(g->o.sum), g->o.sum,
                      t->rank, t->shape);
}

enum fr_rc grads_on_wire(const struct tr_grads *g, struct tr_queue *q, struct tr_view *x,
                         struct fr_err *err)
{
    struct tr_cast c = {.y = tr_view_of(g->rounded.p, g->wire, x->rank, x->shape), .x = *x};

    if (!grads_rounds(g))
        return FR_OK;
    *x = c.y;
    return tr_view_count(c.x) > 0 ? tr_cast(g->o.be, q, &c, err) : FR_OK;
}

static enum fr_rc reduce(struct tr_grads *g, struct tr_queue *q, struct grads_part *p,
                         struct tr_view window, const char *what, struct fr_err *err)
{
    bool add = !p->fresh;
    struct tr_view in = tr_view2(window.p, g->o.sum, g->ranks, p->n), sums = grads_sums_of(g, p);
    struct tr_view out = grads_hosted(g) ? tr_view1(g->landing.p, g->o.sum, p->n) : sums;
    struct tr_reduce own = {.out = out, .slices = in, .add = add};
    struct tr_reduce_scatter all = {.out = out,
                                    .slices = tr_view2(g->arrived.p, g->wire, g->ranks, p->n),
                                    .add = add,
                                    .what = what};
    size_t before[TR_LINK_CLASSES];
    enum fr_rc rc = grads_on_wire(g, q, &in, err);

    p->fresh = false;
    all.in = in;
    if (rc == FR_OK && grads_hosted(g))
        rc = grads_host_up(g, q, add ? sums : (struct tr_view){0}, err);
    if (rc == FR_OK && g->ranks == 1)
        rc = tr_reduce_ordered(g->o.be, q, &own, err);
    if (rc == FR_OK && g->ranks > 1) {
        memcpy(before, g->o.comm->class_bytes, sizeof(before));
        rc = tr_comm_reduce_scatter(g->o.comm, q, &all, err);
        grads_count(g, before, g->moved.reduced);
    }
    return rc == FR_OK && grads_hosted(g) ? grads_host_down(g, q, sums, err) : rc;
}

enum fr_rc tr_grads_reduce(struct tr_grads *g, struct tr_queue *q, int unit, struct fr_err *err)
{
    int k = g->part_of[unit];

    return k < 0 ? FR_OK : reduce(g, q, &g->parts[k], g->window, g->o.shard->units[unit].what, err);
}

enum fr_rc tr_grads_end(struct tr_grads *g, struct tr_queue *q, struct fr_err *err)
{
    return g->norms < 0 ? FR_OK : reduce(g, q, &g->parts[g->norms], g->norm_window, "norms", err);
}
