#include "trainer/backend/check.h"

void tr_check_embed_fwd(struct tr_check *c, const struct tr_embed *a)
{
    int64_t T = a->y.shape[0], H = a->y.shape[1];
    const struct tr_need needs[] = {
        {"y", &a->y, C | OUT, 2, {T, H}},
        {"table", &a->table, C | FEW, 2, {a->table.shape[0], H}},
        {"ids", &a->ids, I32 | FEW, 1, {T}},
    };

    VIEWS(c, a->y, needs);
    tr_check_picks(c, (double)T, a->y);
}

void tr_check_embed_bwd(struct tr_check *c, const struct tr_embed *a)
{
    int64_t T = a->dy.shape[0], H = a->dy.shape[1];
    const struct tr_need needs[] = {
        {"dy", &a->dy, C, 2, {T, H}},
        {"dtable", &a->dtable, S | ADD | FEW, 2, {a->dtable.shape[0], H}},
        {"ids", &a->ids, I32 | FEW, 1, {T}},
    };

    VIEWS(c, a->dy, needs);
    tr_check_picks(c, 2 * (double)T, a->dy);
}

void tr_check_rmsnorm_fwd(struct tr_check *c, const struct tr_rmsnorm *a)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1];
    const struct tr_need needs[] = {
        {"x", &a->x, C, 2, {T, n}},
        {"y", &a->y, C | OUT, 2, {T, n}},
        {"rrms", &a->rrms, S | OUT | OPT, 1, {T}},
        {"sum", &a->sum, C | OUT | OPT, 2, {T, n}},
        {"add", &a->add, C | OPT, 2, {T, n}},
        {"gain", &a->gain, C_OR_S | FEW, 1, {n}},
    };

    VIEWS(c, a->x, needs);
    tr_check_that(c, tr_view_absent(a->sum) || !tr_view_absent(a->add),
                  "sum is wanted without add");
    tr_check_that(c, n > 0 && a->eps >= 0, "eps or row length");
}

void tr_check_rmsnorm_bwd(struct tr_check *c, const struct tr_rmsnorm_grad *a)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1];
    const struct tr_need needs[] = {
        {"x", &a->x, C, 2, {T, n}},
        {"dx", &a->dx, C_OR_S | OUT | OPT, 2, {T, n}},
        {"dres", &a->dres, C_OR_S | OPT, 2, {T, n}},
        {"dgain", &a->dgain, S | ADD | FEW | OPT, 1, {n}},
        {"dy", &a->dy, C_OR_S, 2, {T, n}},
        {"rrms", &a->rrms, S, 1, {T}},
        {"gain", &a->gain, C_OR_S | FEW, 1, {n}},
    };

    VIEWS(c, a->x, needs);
    tr_check_that(c, tr_view_absent(a->dres) || a->dres.dtype == a->dx.dtype,
                  "dres has another type than dx");
}

void tr_check_gemm(struct tr_check *c, const struct tr_gemm *a)
{
    int64_t M = a->c.shape[0], N = a->c.shape[1], D = a->a.shape[a->trans_a ? 0 : 1];
    const struct tr_need needs[] = {
        {"c", &a->c, C_OR_S | (a->beta != 0 ? ADD : OUT), 2, {M, N}},
        {"a", &a->a, C, 2, {a->trans_a ? D : M, a->trans_a ? M : D}},
        {"bias", &a->bias, C_OR_S | FEW | OPT, 1, {N}},
    };

    tr_check_product(c, M, D, N);
    tr_check_views(c, a->a.dtype, a->b.w.dtype, needs, 3);
    tr_check_weight(c, &a->b, a->trans_b ? N : D, a->trans_b ? D : N);
}

void tr_check_colsum(struct tr_check *c, const struct tr_colsum *a)
{
    const struct tr_need needs[] = {
        {"x", &a->x, C, 2, {a->x.shape[0], a->x.shape[1]}},
        {"out", &a->out, S | ADD | FEW, 1, {a->x.shape[1]}},
    };

    VIEWS(c, a->x, needs);
}

void tr_check_dropout(struct tr_check *c, const struct tr_dropout *a)
{
    int64_t R = a->x.shape[0], n = a->x.shape[1], T = a->pos.shape[0];
    const struct tr_need needs[] = {
        {"x", &a->x, C, 2, {R, n}},
        {"y", &a->y, C | OUT, 2, {R, n}},
        {"place", &a->place, I64 | FEW, 1, {T}},
        {"pos", &a->pos, I32 | FEW, 1, {T}},
        {"slot_of", &a->slot_of, I32 | FEW | OPT, 1, {R}},
        {"groups", &a->groups, I32 | FEW | OPT, 1, {a->groups.shape[0]}},
        {"rows", &a->rows.offsets, I32 | FEW | OPT, 1, {a->rows.offsets.shape[0]}},
    };

    VIEWS(c, a->x, needs);
    tr_check_that(c, tr_view_absent(a->slot_of) ? T == R : a->K > 0, "K, or rows of pos");
    tr_check_that(c, a->p >= 0 && a->p < 1, "p is outside [0, 1)");
}

static void check_table(struct tr_check *c, const struct tr_rope_table *t, int64_t T)
{
    int64_t half = t->cosines.shape[1], positions = t->cosines.shape[0];
    const struct tr_need needs[] = {
        {"cosines", &t->cosines, S | WHOLE | FEW, 2, {positions, half}},
        {"sines", &t->sines, S | WHOLE | FEW, 2, {positions, half}},
        {"pos", &t->pos, I32 | FEW, 1, {T}},
    };

    tr_check_views(c, c->compute, c->compute, needs, 3);
}

void tr_check_rope(struct tr_check *c, const struct tr_rope *a)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1], hd = a->x.shape[2];
    const struct tr_need needs[] = {
        {"x", &a->x, C, 3, {T, n, hd}},
        {"y", &a->y, C | OUT, 3, {T, n, hd}},
    };

    VIEWS(c, a->x, needs);
    check_table(c, &a->table, T);
    tr_check_that(c, 2 * a->table.cosines.shape[1] <= hd, "the table is wider than a head");
}

void tr_check_mla_assemble_fwd(struct tr_check *c, const struct tr_mla *a)
{
    int64_t T = a->Q.shape[0], nh = a->Q.shape[1], dq = a->Q.shape[2], dv = a->V.shape[2];
    int64_t dr = a->k_pe.shape[1], dn = dq - dr;
    const struct tr_need needs[] = {
        {"Q", &a->Q, C | OUT, 3, {T, nh, dq}}, {"K", &a->K, C | OUT, 3, {T, nh, dq}},
        {"V", &a->V, C | OUT, 3, {T, nh, dv}}, {"k_pe", &a->k_pe, C, 2, {T, dr}},
        {"q", &a->q, C, 2, {T, nh * dq}},      {"kv", &a->kv, C, 2, {T, nh * (dn + dv)}},
    };

    VIEWS(c, a->Q, needs);
    check_table(c, &a->table, T);
    tr_check_that(c, dn >= 0 && dr == 2 * a->table.cosines.shape[1], "head sizes");
}

void tr_check_mla_assemble_bwd(struct tr_check *c, const struct tr_mla_grad *a)
{
    int64_t T = a->dQ.shape[0], nh = a->dQ.shape[1], dq = a->dQ.shape[2], dv = a->dV.shape[2];
    int64_t dr = a->dk_pe.shape[1], dn = dq - dr;
    const struct tr_need needs[] = {
        {"dQ", &a->dQ, C, 3, {T, nh, dq}},        {"dK", &a->dK, C, 3, {T, nh, dq}},
        {"dV", &a->dV, C, 3, {T, nh, dv}},        {"dk_pe", &a->dk_pe, C | OUT, 2, {T, dr}},
        {"dq", &a->dq, C | OUT, 2, {T, nh * dq}}, {"dkv", &a->dkv, C | OUT, 2, {T, nh * (dn + dv)}},
    };

    VIEWS(c, a->dQ, needs);
    check_table(c, &a->table, T);
    tr_check_that(c, dn >= 0 && dr == 2 * a->table.cosines.shape[1], "head sizes");
}

/* result: direction of O and lse; products: multiplications for each pair of tokens and head. */
static void check_attention(struct tr_check *c, const struct tr_attention *a, int result,
                            int64_t products)
{
    int64_t T = a->Q.shape[0], nh = a->Q.shape[1], dq = a->Q.shape[2];
    int64_t nkv = a->K.shape[1], dv = a->V.shape[2];
    double tokens = (double)T, length = a->max_len > 0 ? (double)a->max_len : tokens;
    const struct tr_need needs[] = {
        {"Q", &a->Q, C, 3, {T, nh, dq}},
        {"K", &a->K, C, 3, {T, nkv, dq}},
        {"V", &a->V, C, 3, {T, nkv, dv}},
        {"O", &a->O, C | result, 3, {T, nh, dv}},
        {"lse", &a->lse, S | result, 2, {nh, T}},
        {"offsets", &a->offsets, I32 | FEW, 1, {a->offsets.shape[0]}},
    };

    VIEWS(c, a->Q, needs);
    tr_check_that(c, nkv > 0 && nh % nkv == 0 && dq > 0 && dv > 0, "heads");
    tr_check_that(c, a->offsets.shape[0] >= 1 && a->max_len >= 0, "offsets");
    tr_check_that(c, a->window == 0 || (a->window > 0 && a->causal), "window");
    c->cost.flop = tokens * length * (a->causal ? 0.5 : 1) * (double)(nh * products) * 2;
    c->cost.shape[1] = a->max_len;
    c->cost.shape[2] = nh;
}

/* Q K^T and P V. */
void tr_check_attention_fwd(struct tr_check *c, const struct tr_attention *a)
{
    check_attention(c, a, OUT, a->Q.shape[2] + a->V.shape[2]);
}

/* Q K^T again, dP, dV, dK and dQ. */
void tr_check_attention_bwd(struct tr_check *c, const struct tr_attention *a)
{
    int64_t T = a->Q.shape[0], nh = a->Q.shape[1], dq = a->Q.shape[2];
    int64_t nkv = a->K.shape[1], dv = a->V.shape[2];
    const struct tr_need needs[] = {
        {"dQ", &a->dQ, C | OUT, 3, {T, nh, dq}},
        {"dK", &a->dK, C | OUT, 3, {T, nkv, dq}},
        {"dV", &a->dV, C | OUT, 3, {T, nkv, dv}},
        {"dO", &a->dO, C, 3, {T, nh, dv}},
    };

    check_attention(c, a, 0, 3 * dq + 2 * dv);
    VIEWS(c, a->Q, needs);
}

static double share_of(const struct tr_rows *r)
{
    return tr_view_absent(r->offsets) ? 1 : tr_check_share(r->offsets, r->first, r->last);
}

void tr_check_swiglu_fwd(struct tr_check *c, const struct tr_swiglu *a)
{
    int64_t R = a->h.shape[0], I = a->h.shape[1];
    const struct tr_need needs[] = {
        {"h", &a->h, C | OUT, 2, {R, I}},
        {"g", &a->g, C, 2, {R, I}},
        {"u", &a->u, C, 2, {R, I}},
        {"rows", &a->rows.offsets, I32 | FEW | OPT, 1, {a->rows.offsets.shape[0]}},
    };

    c->share = share_of(&a->rows);
    VIEWS(c, a->h, needs);
}

void tr_check_swiglu_bwd(struct tr_check *c, const struct tr_swiglu_grad *a)
{
    int64_t R = a->dh.shape[0], I = a->dh.shape[1];
    const struct tr_view *w = tr_view_absent(a->weight) ? &a->dweight : &a->weight;
    const struct tr_need needs[] = {
        {"dh", &a->dh, C, 2, {R, I}},
        {"dg", &a->dg, C | OUT, 2, {R, I}},
        {"du", &a->du, C | OUT, 2, {R, I}},
        {"g", &a->g, C, 2, {R, I}},
        {"u", &a->u, C, 2, {R, I}},
        {"weight", &a->weight, S | FEW | OPT | WHOLE, 2, {w->shape[0], w->shape[1]}},
        {"dweight", &a->dweight, S | OUT | FEW | OPT | WHOLE, 2, {w->shape[0], w->shape[1]}},
        {"slot_of", &a->slot_of, I32 | FEW | (tr_view_absent(*w) ? OPT : 0), 1, {R}},
        {"rows", &a->rows.offsets, I32 | FEW | OPT, 1, {a->rows.offsets.shape[0]}},
    };

    c->share = share_of(&a->rows);
    VIEWS(c, a->dh, needs);
}

/* rule: direction of all views; FEW: target_row does not count. */
static void check_state(struct tr_check *c, const struct tr_xent_state *s, int rule,
                        const int64_t shape[2])
{
    int64_t T = shape[0], H = shape[1];
    int whole = tr_view_absent(s->acc) ? OPT : 0, direction = rule & ~FEW;
    const struct tr_need needs[] = {
        {"m", &s->m, S | FEW | direction, 1, {T}},
        {"l", &s->l, S | FEW | direction, 1, {T}},
        {"target_logit", &s->target_logit, S | FEW | direction, 1, {T}},
        {"acc", &s->acc, S | OPT | direction, 2, {T, H}},
        {"target_row", &s->target_row, C | whole | rule, 2, {T, H}},
    };

    tr_check_views(c, c->compute, c->compute, needs, 5);
}

void tr_check_xent_chunk(struct tr_check *c, const struct tr_xent *a)
{
    int64_t T = a->F.shape[0], H = a->F.shape[1];
    const struct tr_need needs[] = {
        {"F", &a->F, C, 2, {T, H}},
        {"targets", &a->targets, I32 | FEW, 1, {T}},
        {"p", &a->p, C_OR_S | OUT | OPT, 2, {T, a->w.w.shape[0]}},
        {"top", &a->top, S | OUT | FEW | OPT, 1, {T}},
    };

    tr_check_that(c, tr_view_absent(a->p) || tr_view_absent(a->state.acc), "p stands beside acc");
    tr_check_that(c, tr_view_absent(a->p) == tr_view_absent(a->top), "p and top come together");
    tr_check_product(c, T, H, a->w.w.shape[0]);
    if (!tr_view_absent(a->state.acc)) /* exp(z - m) Wc too */
        c->cost.flop *= 2;
    tr_check_views(c, a->F.dtype, a->w.w.dtype, needs, 4);
    tr_check_weight(c, &a->w, a->w.w.shape[0], H);
    check_state(c, &a->state, FEW | (a->first ? OUT : ADD), a->F.shape);
}

void tr_check_xent_bwd(struct tr_check *c, const struct tr_xent_grad *a)
{
    int64_t T = a->dz.shape[0], rows = a->dz.shape[1];
    const struct tr_need needs[] = {
        {"dz", &a->dz, C | OUT, 2, {T, rows}}, {"p", &a->p, C_OR_S, 2, {T, rows}},
        {"top", &a->top, S | FEW, 1, {T}},     {"m", &a->m, S | FEW, 1, {T}},
        {"l", &a->l, S | FEW, 1, {T}},         {"targets", &a->targets, I32 | FEW, 1, {T}},
    };

    VIEWS(c, a->dz, needs);
}

void tr_check_xent_finish(struct tr_check *c, const struct tr_xent_finish *a)
{
    int64_t T = a->targets.shape[0], H = a->dF.shape[1];
    bool grad = !tr_view_absent(a->dF);
    const struct tr_need needs[] = {
        {"targets", &a->targets, I32 | FEW, 1, {T}},
        {"loss_sum", &a->loss_sum, F64 | ADD | FEW, 1, {1}},
        {"loss", &a->loss, S | OUT | FEW | OPT, 1, {T}},
        {"dF", &a->dF, C_OR_S | OUT | OPT, 2, {T, H}},
    };
    enum tr_dtype compute = grad                         ? a->state.target_row.dtype
                            : a->state.m.dtype == TR_F64 ? TR_F64
                                                         : TR_F32;
    const struct tr_need state[] = {
        {"m", &a->state.m, S | FEW, 1, {T}},
        {"l", &a->state.l, S | FEW, 1, {T}},
        {"target_logit", &a->state.target_logit, S | FEW, 1, {T}},
    };

    tr_check_views(c, compute, compute, needs, 4);
    if (!grad) {
        tr_check_views(c, compute, compute, state, 3);
        return;
    }
    tr_check_that(c, !tr_view_absent(a->state.acc) || T == 0, "dF needs acc");
    check_state(c, &a->state, 0, (int64_t[]){T, H});
}
