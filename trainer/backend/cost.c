/* FLOP and bytes of each op: formulas in ops.h, moe.h, vec.h. */
#include "trainer/backend/cost.h"

/* Bytes of a view; none when it is absent. */
static double size(struct tr_view v)
{
    return v.p == NULL ? 0 : (double)tr_view_count(v) * (double)tr_dtype_bytes(v.dtype);
}

static double weight(const struct tr_weight *w)
{
    return size(w->w) + size(w->scale);
}

/* An op that is bound by memory: rows of v, and all bytes. */
static struct tr_cost moved(struct tr_view v, double bytes)
{
    int64_t rows = v.shape[0];

    return (struct tr_cost){.bytes = bytes,
                            .shape = {rows, rows > 0 ? tr_view_count(v) / rows : 0}};
}

/* Experts that routed rows are spread over. */
static int64_t experts(struct tr_view offsets)
{
    return offsets.shape[0] - 1;
}

static struct tr_cost product(double share, const int64_t shape[3], double bytes)
{
    return (struct tr_cost){.flop =
                                2 * share * (double)shape[0] * (double)shape[1] * (double)shape[2],
                            .bytes = bytes,
                            .shape = {shape[0], shape[1], shape[2]}};
}

static struct tr_cost gemm(const struct tr_gemm *a)
{
    int64_t shape[] = {a->c.shape[0], a->trans_a ? a->a.shape[0] : a->a.shape[1], a->c.shape[1]};

    return product(1, shape, size(a->a) + weight(&a->b) + size(a->c) * (a->beta != 0 ? 2 : 1));
}

/* Of the routed rows, the share that experts [e0, e1) have when all have the same. */
static double share(struct tr_view offsets, int64_t e0, int64_t e1)
{
    return (double)(e1 - e0) / (double)experts(offsets);
}

static struct tr_cost grouped_gemm(const struct tr_grouped_gemm *a)
{
    struct tr_cost c;
    double part = share(a->offsets, a->e0, a->e1), bytes;
    int64_t shape[] = {a->c.shape[0], a->a.shape[1], a->c.shape[1]};

    bytes = part * (size(a->a) + size(a->c) * (a->beta != 0 ? 2 : 1));
    for (int64_t e = a->e0; e < a->e1; e++)
        bytes += a->weights[e] != NULL ? weight(a->weights[e]) : 0;
    c = product(part, shape, bytes);
    c.experts = experts(a->offsets);
    return c;
}

static struct tr_cost grouped_wgrad(const struct tr_grouped_wgrad *a)
{
    struct tr_cost c;
    double part = share(a->offsets, a->e0, a->e1), bytes = part * (size(a->dy) + size(a->x));
    int64_t shape[] = {a->x.shape[0], a->x.shape[1], a->dy.shape[1]};

    for (int64_t e = a->e0; e < a->e1; e++)
        bytes += a->dw[e] != NULL ? size(*a->dw[e]) * (a->beta != 0 ? 2 : 1) : 0;
    c = product(part, shape, bytes);
    c.experts = experts(a->offsets);
    return c;
}

/* Forward: Q K^T and P V. Backward: both again, dP, dV, dK, dQ less the one that forward had. */
static struct tr_cost attention(const struct tr_attention *a, bool backward)
{
    double T = (double)a->Q.shape[0], length = a->max_len > 0 ? (double)a->max_len : T;
    double pairs = T * length * (a->causal ? 0.5 : 1) * (double)a->Q.shape[1];
    double dq = (double)a->Q.shape[2], dv = (double)a->V.shape[2];
    double once = size(a->Q) + size(a->K) + size(a->V) + size(a->O) + size(a->lse);

    return (struct tr_cost){
        .flop = 2 * pairs * (backward ? 3 * dq + 2 * dv : dq + dv),
        .bytes = backward ? once + size(a->dO) + size(a->dQ) + size(a->dK) + size(a->dV) : once,
        .shape = {a->Q.shape[0], a->max_len, a->Q.shape[1]}};
}

static struct tr_cost xent_chunk(const struct tr_xent *a)
{
    bool train = a->state.acc.p != NULL;
    int64_t shape[] = {a->F.shape[0], a->F.shape[1], a->w.w.shape[0]};

    return product(train ? 2 : 1, shape,
                   size(a->F) + weight(&a->w) + size(a->state.acc) * (a->first ? 1 : 2));
}

static struct tr_cost router_fwd(const struct tr_router *a)
{
    int64_t shape[] = {a->x.shape[0], a->x.shape[1], a->gate.shape[0]};

    return product(1, shape, size(a->x) + size(a->gate));
}

/* The share of an op that runs on the rows of some experts. */
static double rows_of(const struct tr_rows *r)
{
    return r->offsets.p == NULL ? 1 : share(r->offsets, r->first, r->last);
}

static double dense_bytes(enum tr_op op, const void *args, struct tr_view *rows)
{
    const struct tr_embed *e = args;
    const struct tr_rmsnorm *n = args;
    const struct tr_rmsnorm_grad *ng = args;
    const struct tr_colsum *c = args;
    const struct tr_dropout *d = args;
    const struct tr_rope *r = args;
    const struct tr_mla *m = args;
    const struct tr_mla_grad *mg = args;
    const struct tr_swiglu *s = args;
    const struct tr_swiglu_grad *sg = args;
    const struct tr_xent_finish *x = args;

    switch (op) {
    case TR_OP_embed_fwd:
        *rows = e->y;
        return 2 * size(e->y);
    case TR_OP_embed_bwd:
        *rows = e->dy;
        return 3 * size(e->dy);
    case TR_OP_rmsnorm_fwd:
        *rows = n->x;
        return size(n->y) + size(n->sum) + size(n->x) + size(n->add) + size(n->rrms);
    case TR_OP_rmsnorm_bwd:
        *rows = ng->x;
        return size(ng->dx) + size(ng->dres) + size(ng->dy) + size(ng->x) + size(ng->rrms);
    case TR_OP_colsum:
        *rows = c->x;
        return size(c->x);
    case TR_OP_dropout:
        *rows = d->x;
        return size(d->x) + size(d->y);
    case TR_OP_rope:
        *rows = r->x;
        return size(r->x) + size(r->y);
    case TR_OP_mla_assemble_fwd:
        *rows = m->Q;
        return size(m->Q) + size(m->K) + size(m->V) + size(m->q) + size(m->kv) + size(m->k_pe);
    case TR_OP_mla_assemble_bwd:
        *rows = mg->dQ;
        return size(mg->dq) + size(mg->dkv) + size(mg->dk_pe) + size(mg->dQ) + size(mg->dK) +
               size(mg->dV);
    case TR_OP_swiglu_fwd:
        *rows = s->h;
        return rows_of(&s->rows) * (size(s->h) + size(s->g) + size(s->u));
    case TR_OP_swiglu_bwd:
        *rows = sg->dh;
        return rows_of(&sg->rows) *
               (size(sg->dg) + size(sg->du) + size(sg->dh) + size(sg->g) + size(sg->u));
    case TR_OP_xent_finish:
        *rows = x->state.target_row;
        return size(x->state.acc) + size(x->state.target_row) + size(x->dF);
    default:
        return -1;
    }
}

static double other_bytes(enum tr_op op, const void *args, struct tr_view *rows)
{
    const struct tr_router_grad *rg = args;
    const struct tr_moe_plan *mp = args;
    const struct tr_moe_permute *p = args;
    const struct tr_moe_combine *c = args;
    const struct tr_decode *de = args;
    const struct tr_sum *s = args;
    const struct tr_adamw *w = args;
    const struct tr_reduce *r = args;

    switch (op) {
    case TR_OP_router_bwd:
        *rows = rg->dx;
        return size(rg->dx) * (rg->add ? 2 : 1) + size(rg->gate);
    case TR_OP_moe_plan:
        *rows = mp->ids;
        return 3 * size(mp->ids);
    case TR_OP_moe_permute:
        *rows = p->xp;
        return 2 * size(p->xp);
    case TR_OP_moe_combine:
        *rows = c->y;
        return size(c->y) + size(c->add) + size(c->yp);
    case TR_OP_noise:
        *rows = ((const struct tr_noise *)args)->y;
        return size(*rows);
    case TR_OP_fill:
        *rows = ((const struct tr_fill *)args)->y;
        return size(*rows);
    case TR_OP_cast:
        *rows = ((const struct tr_cast *)args)->y;
        return size(*rows) + size(((const struct tr_cast *)args)->x);
    case TR_OP_decode:
        *rows = de->y;
        return size(de->y) + weight(&de->w);
    case TR_OP_sum:
        *rows = s->y;
        return size(s->y) * (s->n + 1);
    case TR_OP_sumsq:
        *rows = ((const struct tr_sumsq *)args)->x;
        return size(*rows);
    case TR_OP_nonfinite:
        *rows = ((const struct tr_nonfinite *)args)->x;
        return size(*rows);
    case TR_OP_adamw:
        *rows = w->p;
        return 2 * (size(w->p) + size(w->m) + size(w->v)) + size(w->g) + size(w->copy);
    case TR_OP_reduce_ordered:
        *rows = r->out;
        return size(r->slices) + size(r->out) * (r->add ? 2 : 1);
    default:
        return 0;
    }
}

struct tr_cost tr_cost_of(enum tr_op op, const void *args)
{
    struct tr_view rows = {.shape = {0}};
    double bytes;

    switch (op) {
    case TR_OP_gemm:
        return gemm(args);
    case TR_OP_attention_fwd:
        return attention(args, false);
    case TR_OP_attention_bwd:
        return attention(args, true);
    case TR_OP_xent_chunk:
        return xent_chunk(args);
    case TR_OP_router_fwd:
        return router_fwd(args);
    case TR_OP_grouped_gemm:
        return grouped_gemm(args);
    case TR_OP_grouped_wgrad:
        return grouped_wgrad(args);
    default:
        bytes = dense_bytes(op, args, &rows);
        if (bytes < 0)
            bytes = other_bytes(op, args, &rows);
        return moved(rows, bytes);
    }
}
