/* Gradients of a micro-batch: their windows, and the sums of shares. */
#include "trainer/backend/trace.h"
#include "trainer/shard/grads_private.h"

#include <assert.h>

void tr_grads_reset(struct tr_grads *g)
{
    for (size_t i = 0; i < g->nparts; i++) {
        g->parts[i].fresh = true;
        g->parts[i].whole = false;
    }
}

enum fr_rc tr_grads_begin(struct tr_grads *g, struct tr_queue *q, bool last, struct fr_err *err)
{
    g->last = last;
    if (tr_zero(g->o.be, q, g->norm_window.p, tr_view_bytes(g->norm_window)) != FR_OK)
        return fr_fail(err, FR_IO, "cannot clear the gradients of norms");
    return FR_OK;
}

static const struct tr_view *window_in_turn(const struct tr_grads *g)
{
    return g->turn % 2 == 0 ? &g->window : &g->second;
}

bool grads_sums_alone(const struct tr_grads *g)
{
    return g->ranks == 1 && !grads_hosted(g);
}

static bool is_sum(const struct tr_grads *g, const struct grads_part *p)
{
    return grads_sums_alone(g) && p->fresh;
}

/* Where the gradient of a unit is written. */
static struct tr_view window_of(const struct tr_grads *g, int unit)
{
    const struct grads_part *p = g->part_of[unit] >= 0 ? &g->parts[g->part_of[unit]] : NULL;

    if (grads_is_norm(&g->o.shard->units[unit]))
        return g->norm_window;
    return p != NULL && is_sum(g, p) ? grads_sums_of(g, p) : *window_in_turn(g);
}

/* A dry run calls it before there is memory: an address that is not read. */
struct tr_view tr_grads_view(const struct tr_grads *g, int unit, int i)
{
    const struct unit *u = &g->o.shard->units[unit];
    const struct tr_unit_tensor *t = &u->tensors[i];
    size_t at = u->at[i] + (grads_is_norm(u) ? u->base_at : 0);
    char *p = g->buffer != NULL ? window_of(g, unit).p : (char *)(uintptr_t)4096;

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

/* ---- beside the caller's queue ---- */

enum fr_rc grads_beside_alloc(struct tr_grads *g, struct fr_err *err)
{
    struct tr_event **const events[] = {&g->filled, &g->free[0], &g->free[1], &g->reduced};
    enum fr_rc rc = tr_queue_create(g->o.be, 0, &g->rq, err);

    for (size_t i = 0; i < sizeof(events) / sizeof(*events) && rc == FR_OK; i++)
        rc = tr_event_create(g->o.be, events[i], err);
    if (rc == FR_OK)
        tr_trace_queue(g->o.be, g->rq, "reduce");
    return rc;
}

void grads_beside_free(struct tr_grads *g)
{
    struct tr_event *const events[] = {g->filled, g->free[0], g->free[1], g->reduced};

    if (g->rq == NULL)
        return;
    tr_comm_leave(g->o.beside, g->rq);
    tr_queue_destroy(g->o.be, g->rq);
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++)
        if (events[i] != NULL)
            tr_event_destroy(g->o.be, events[i]);
}

/* Later work of `later` waits for the work that `first` holds now. */
static enum fr_rc follow(const struct tr_grads *g, struct tr_queue *first, struct tr_queue *later,
                         struct tr_event *e, struct fr_err *err)
{
    if (tr_event_record(g->o.be, first, e) == FR_OK && tr_event_wait(g->o.be, later, e) == FR_OK)
        return FR_OK;
    return fr_fail(err, FR_IO, "cannot order the reduction of gradients");
}

enum fr_rc grads_beside_wait(struct tr_grads *g, struct tr_queue *q, struct fr_err *err)
{
    return grads_beside(g) ? follow(g, g->rq, q, g->reduced, err) : FR_OK;
}

/* Marks that the window in turn is sent when the work so far is done; q goes on with the next one
 * when that is sent. Rounded gradients are apart from the window, which may be written at once. */
static enum fr_rc next_window(struct tr_grads *g, struct tr_queue *q, struct fr_err *err)
{
    enum fr_rc rc;

    if (!grads_beside(g))
        return FR_OK;
    rc = tr_event_record(g->o.be, g->rq, g->free[g->turn % 2]);
    g->turn += grads_rounds(g) ? 0 : 1;
    if (rc == FR_OK && !grads_rounds(g))
        rc = tr_event_wait(g->o.be, q, g->free[g->turn % 2]);
    return rc == FR_OK ? rc : fr_fail(err, rc, "cannot order the reduction of gradients");
}

/* ---- sums ---- */

static enum fr_rc reduce(struct tr_grads *g, struct tr_queue *q, struct grads_part *p,
                         struct tr_view window, const char *what, struct fr_err *err)
{
    struct tr_queue *rq = grads_beside(g) ? g->rq : q;
    struct tr_view sums = grads_sums_of(g, p);
    struct tr_reduce_scatter x = {.out = grads_hosted(g) ? tr_view1(g->landing.p, g->o.sum, p->n)
                                                         : sums,
                                  .in = tr_view2(window.p, g->o.sum, g->ranks, p->n),
                                  .add = !p->fresh,
                                  .what = what};
    enum fr_rc rc = FR_OK;

    assert(!p->whole);
    p->fresh = false;
    if (grads_beside(g) && grads_rounds(g) && tr_event_wait(g->o.be, q, g->free[0]) != FR_OK)
        rc = fr_fail(err, FR_IO, "cannot order the reduction of gradients");
    if (rc == FR_OK)
        rc = grads_on_wire(g, q, &x.in, err);
    if (rc == FR_OK && grads_beside(g))
        rc = follow(g, q, rq, g->filled, err);
    if (rc == FR_OK && grads_hosted(g))
        rc = grads_host_up(g, rq, x.add ? sums : (struct tr_view){0}, err);
    if (rc == FR_OK)
        rc = grads_scatter(g, rq, &x, err);
    if (rc == FR_OK)
        rc = grads_look_early(g, rq, p, x.out, err);
    return rc == FR_OK && grads_hosted(g) ? grads_host_down(g, rq, sums, err) : rc;
}

enum fr_rc tr_grads_reduce(struct tr_grads *g, struct tr_queue *q, int unit, struct fr_err *err)
{
    int k = g->part_of[unit];
    enum fr_rc rc;

    if (k < 0)
        return FR_OK;
    if (is_sum(g, &g->parts[k])) {
        g->parts[k].fresh = false;
        return grads_look_early(g, q, &g->parts[k], grads_sums_of(g, &g->parts[k]), err);
    }
    assert(!g->o.once || !grads_sums_alone(g));
    rc = reduce(g, q, &g->parts[k], *window_in_turn(g), g->o.shard->units[unit].what, err);
    return rc == FR_OK ? next_window(g, q, err) : rc;
}

enum fr_rc tr_grads_end(struct tr_grads *g, struct tr_queue *q, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (g->norms >= 0)
        rc = reduce(g, q, &g->parts[g->norms], g->norm_window, "norms", err);
    return rc == FR_OK ? grads_beside_wait(g, q, err) : rc;
}
