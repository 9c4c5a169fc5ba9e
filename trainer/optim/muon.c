/* Matrices that Muon updates: how they get to who orthogonalises them, and back. */
#include "engine/base/sys.h"
#include "trainer/optim/newton.h"
#include "trainer/optim/optim_private.h"

#include <math.h>
#include <string.h>

struct optim_muon {
    const struct tr_grads_piece **list; /* owns: the largest first, W of them in a round */
    size_t n;
    struct tr_newton newton;
    void *memory;         /* of the device, owns: all below and newton's */
    struct tr_view whole; /* f32: the matrix that this rank orthogonalises */
    struct tr_view stage; /* f32, with the host's side: this rank's shares of a round */
    struct tr_view state; /* f32, with the host's side: a momentum or a master */
    size_t *counts;       /* owns: [4 W] of an exchange */
};

static void *carve(char **at, int64_t n, size_t size)
{
    void *p = *at;

    *at += (size_t)n * size;
    return p;
}

enum fr_rc optim_muon_create(struct tr_optim *o, struct fr_err *err)
{
    struct optim_matrices s = optim_matrices(o->grads);
    struct optim_muon *m = fr_sys.alloc(sizeof(*m));
    size_t n = optim_list_matrices(o->grads, NULL), ranks = (size_t)tr_grads_ranks(o->grads);
    enum fr_rc rc = FR_OK;
    char *at;

    if (m == NULL)
        return fr_fail(err, FR_NOMEM, "Muon");
    *m = (struct optim_muon){.n = n};
    o->room = m;
    m->list = fr_sys.alloc((n + 1) * sizeof(*m->list));
    m->counts = fr_sys.alloc(4 * ranks * sizeof(*m->counts));
    if (m->list == NULL || m->counts == NULL)
        return fr_fail(err, FR_NOMEM, "%zu matrices of %zu ranks", n, ranks);
    (void)optim_list_matrices(o->grads, m->list);
    for (size_t i = 0; i < n; i++)
        if (m->list[i]->n != m->list[i]->shape[0] * m->list[i]->shape[1])
            return fr_fail(err, FR_BUG, "%s is no whole matrix", m->list[i]->name);
    if (n == 0)
        return FR_OK;
    if ((rc = tr_mem_alloc(o->be, TR_MEM_DEVICE, optim_muon_bytes(o->grads), &m->memory, err)) !=
        FR_OK)
        return rc;
    at = m->memory;
    m->whole = tr_view1(carve(&at, s.whole, sizeof(float)), TR_F32, s.whole);
    m->stage = tr_view1(carve(&at, s.stage, sizeof(float)), TR_F32, s.stage);
    m->state = tr_view1(carve(&at, s.state, sizeof(float)), TR_F32, s.state);
    m->newton = (struct tr_newton){.be = o->be, .q = o->q, .limbs = o->sumsq};
    for (int i = 0; i < 2; i++)
        m->newton.x[i] = carve(&at, s.whole, sizeof(uint16_t));
    for (int i = 0; i < TR_NEWTON_SQUARES; i++)
        m->newton.square[i] = carve(&at, s.square, sizeof(uint16_t));
    return FR_OK;
}

void optim_muon_finish(struct tr_optim *o)
{
    if (o->room == NULL)
        return;
    tr_mem_free(o->be, TR_MEM_DEVICE, o->room->memory);
    fr_sys.free(o->room->list);
    fr_sys.free(o->room->counts);
    fr_sys.free(o->room);
    o->room = NULL;
}

/* ---- shares ---- */

/* What this rank has of a matrix: its gradient, then its update, on the device. */
struct share {
    const struct tr_grads_range *r; /* NULL: nothing */
    struct tr_view u;
};

/* Of the sums, or where they wait on the device: share `slot` of a round. */
static struct tr_view place_of(const struct tr_optim *o, const struct tr_grads_span *s, int slot)
{
    const struct optim_muon *m = o->room;

    return o->host.be == NULL ? optim_part(tr_grads_sums(o->grads), s->at, s->n)
                              : optim_part(m->stage, slot * tr_view_count(m->state), s->n);
}

static struct share share_of(const struct tr_optim *o, const struct tr_grads_piece *p, int slot)
{
    struct tr_grads_span s = tr_grads_span(o->grads, p, tr_grads_rank(o->grads));

    if (s.n == 0)
        return (struct share){.r = NULL};
    return (struct share){optim_range_at(o, s.at), place_of(o, &s, slot)};
}

/* A state of a range on the device: itself, or a copy of the host's, or of the disk's. */
static enum fr_rc bring(struct tr_optim *o, enum tr_optim_what what, const struct tr_grads_range *r,
                        struct tr_view *out, struct fr_err *err)
{
    const struct optim_piece all = {r, r->at, r->n};
    const struct tr_optim_part part = {what, r->at, r->n};

    *out = optim_state(o, what, &all);
    if (o->host.be == NULL)
        return FR_OK;
    *out = optim_part(o->room->state, 0, r->n);
    if (o->host.disk != NULL)
        return tr_optim_read(o, &part, out->p, err);
    return tr_copy(o->be, o->q, out->p, optim_state(o, what, &all).p, tr_view_bytes(*out));
}

static enum fr_rc put_back(struct tr_optim *o, enum tr_optim_what what,
                           const struct tr_grads_range *r, struct tr_view from, struct fr_err *err)
{
    const struct optim_piece all = {r, r->at, r->n};
    const struct tr_optim_part part = {what, r->at, r->n};

    if (o->host.be == NULL)
        return FR_OK;
    if (o->host.disk != NULL)
        return tr_optim_write(o, &part, from, err);
    return tr_copy(o->be, o->q, optim_state(o, what, &all).p, from.p, tr_view_bytes(from));
}

/* ---- a step ---- */

/* m = momentum m + fresh g, u = fresh g + momentum m. */
static enum fr_rc step_momentum(struct tr_optim *o, const struct share *s, double scale,
                                struct fr_err *err)
{
    struct tr_view m, sums = optim_part(tr_grads_sums(o->grads), s->r->at, s->r->n);
    float keep = (float)o->muon.momentum, fresh = (float)(o->muon.fresh * scale);
    enum fr_rc rc = bring(o, TR_OPTIM_M, s->r, &m, err);

    if (rc == FR_OK && o->host.be != NULL)
        rc = tr_copy(o->be, o->q, s->u.p, sums.p, tr_view_bytes(sums));

    struct tr_sum momentum = {.y = m, .x = {m, s->u}, .alpha = {keep, fresh}, .n = 2};
    struct tr_sum ahead = {.y = s->u, .x = {s->u, m}, .alpha = {fresh, keep}, .n = 2};

    if (rc == FR_OK)
        rc = tr_sum(o->be, o->q, &momentum, err);
    if (rc == FR_OK)
        rc = tr_sum(o->be, o->q, &ahead, err);
    return rc == FR_OK ? put_back(o, TR_OPTIM_M, s->r, m, err) : rc;
}

/* Matrix first + k of the list belongs to rank k; out: shares of this rank's matrix go back. */
static enum fr_rc exchange(struct tr_optim *o, size_t first, bool back, struct fr_err *err)
{
    struct optim_muon *m = o->room;
    int ranks = tr_grads_ranks(o->grads), me = tr_grads_rank(o->grads);
    size_t *share_at = m->counts, *share_bytes = share_at + ranks;
    size_t *whole_at = share_bytes + ranks, *whole_bytes = whole_at + ranks;
    char *shares = o->host.be == NULL ? tr_grads_sums(o->grads).p : m->stage.p;
    struct tr_alltoallv x = {.out = m->whole.p,
                             .in = shares,
                             .out_at = whole_at,
                             .out_bytes = whole_bytes,
                             .in_at = share_at,
                             .in_bytes = share_bytes,
                             .what = "matrices"};

    memset(m->counts, 0, 4 * (size_t)ranks * sizeof(*m->counts));
    for (int k = 0; k < ranks; k++) {
        if (first + (size_t)k < m->n) {
            struct tr_grads_span s = tr_grads_span(o->grads, m->list[first + (size_t)k], me);

            share_at[k] = s.n > 0 ? (size_t)((char *)place_of(o, &s, k).p - shares) : 0;
            share_bytes[k] = (size_t)s.n * sizeof(float);
        }
        if (first + (size_t)me < m->n) {
            struct tr_grads_span s = tr_grads_span(o->grads, m->list[first + (size_t)me], k);

            whole_at[k] = (size_t)s.first * sizeof(float);
            whole_bytes[k] = (size_t)s.n * sizeof(float);
        }
    }
    if (back)
        x = (struct tr_alltoallv){.out = shares,
                                  .in = m->whole.p,
                                  .out_at = share_at,
                                  .out_bytes = share_bytes,
                                  .in_at = whole_at,
                                  .in_bytes = whole_bytes,
                                  .what = "updates of matrices"};
    return tr_comm_all_to_allv(o->comm, o->q, &x, err);
}

static double shape_of(const struct tr_muon *rule, const struct tr_grads_piece *p)
{
    double rows = (double)p->shape[0], cols = (double)p->shape[1];

    return rule->by_width ? 0.2 * sqrt(fmax(rows, cols)) : sqrt(fmax(1, rows / cols));
}

/* Matrices first … of the list, one a rank. */
static enum fr_rc round_of(struct tr_optim *o, size_t first, const double scales[2],
                           struct fr_err *err)
{
    struct optim_muon *m = o->room;
    size_t ranks = (size_t)tr_grads_ranks(o->grads), mine = first + (size_t)tr_grads_rank(o->grads);
    size_t end = m->n - first < ranks ? m->n : first + ranks;
    enum fr_rc rc = FR_OK;

    for (size_t i = first; i < end && rc == FR_OK; i++) {
        struct share s = share_of(o, m->list[i], (int)(i - first));

        if (s.r != NULL)
            rc = step_momentum(o, &s, scales[0], err);
    }
    if (o->host.disk != NULL)
        rc = optim_agree(o, rc, err);
    if (rc == FR_OK)
        rc = exchange(o, first, false, err);
    if (rc == FR_OK && mine < m->n) {
        const struct tr_grads_piece *p = m->list[mine];
        struct tr_view u = tr_view2(m->whole.p, TR_F32, p->shape[0], p->shape[1]);

        rc = tr_newton_run(&m->newton, u, scales[1] * shape_of(&o->muon, p), err);
    }
    if (rc == FR_OK)
        rc = exchange(o, first, true, err);
    for (size_t i = first; i < end && rc == FR_OK && o->host.be != NULL; i++) {
        struct share s = share_of(o, m->list[i], (int)(i - first));

        if (s.r != NULL)
            rc = tr_copy(o->be, o->q, (float *)tr_grads_sums(o->grads).p + s.r->at, s.u.p,
                         tr_view_bytes(s.u));
    }
    return rc;
}

enum fr_rc optim_muon_updates(struct tr_optim *o, double scale, double factor, struct fr_err *err)
{
    const double scales[2] = {scale, factor};
    enum fr_rc rc = FR_OK;

    o->room->newton.gram = o->muon.gram;
    for (size_t i = 0; i < o->room->n && rc == FR_OK; i += (size_t)tr_grads_ranks(o->grads))
        rc = round_of(o, i, scales, err);
    /* The host may look at updates; and no rank waits in a norm for the shares of one that already
     * is in a call of the control plane. */
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}

/* p = (1 - lr wd) p - lr f u of all matrices, and their weights. */
static enum fr_rc apply(struct tr_optim *o, double lr, double f, struct fr_err *err)
{
    size_t n;
    const struct tr_grads_range *r = tr_grads_ranges(o->grads, &n);
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        struct tr_view p;
        struct tr_view sums = optim_part(tr_grads_sums(o->grads), r[i].at, r[i].n), u = sums;

        if (!o->places[i].matrix)
            continue;
        rc = bring(o, TR_OPTIM_MASTER, &r[i], &p, err);
        if (rc == FR_OK && o->host.be != NULL) {
            u = optim_part(o->room->stage, 0, r[i].n);
            rc = tr_copy(o->be, o->q, u.p, sums.p, tr_view_bytes(sums));
        }
        struct tr_sum step = {.y = p,
                              .x = {p, u},
                              .alpha = {(float)(1 - lr * o->weight_decay), (float)(-lr * f)},
                              .n = 2};
        struct tr_cast copy = {.y = r[i].weight, .x = p};

        if (rc == FR_OK)
            rc = tr_sum(o->be, o->q, &step, err);
        if (rc == FR_OK && !o->weights.are_masters)
            rc = tr_cast(o->be, o->q, &copy, err);
        if (rc == FR_OK)
            rc = put_back(o, TR_OPTIM_MASTER, &r[i], p, err);
    }
    return rc;
}

enum fr_rc optim_muon_step(struct tr_optim *o, double lr, struct tr_adamw *a, struct fr_err *err)
{
    const struct tr_muon *m = &o->muon;
    enum fr_rc rc = FR_OK;

    if (!m->norm_after)
        rc = optim_muon_updates(o, a->scale, 1, err);
    if (rc == FR_OK)
        rc = apply(o, lr * m->lr, m->norm_after ? a->scale : 1, err);
    a->lr = (float)(lr * m->adam_lr);
    if (m->eps_raw)
        a->eps /= sqrt(1 - pow(a->b2, (double)a->step));
    return rc;
}
