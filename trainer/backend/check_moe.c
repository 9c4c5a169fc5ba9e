#include "trainer/backend/check.h"

void tr_check_router_fwd(struct tr_check *c, const struct tr_router *a)
{
    int64_t T = a->x.shape[0], H = a->x.shape[1], E = a->gate.shape[0], K = a->ids.shape[1];
    int64_t size = a->n_group > 0 ? E / a->n_group : 0;
    const struct tr_need needs[] = {
        {"x", &a->x, C, 2, {T, H}},
        {"ids", &a->ids, I32 | FEW | (a->replay ? 0 : OUT), 2, {T, K}},
        {"weights", &a->weights, S | OUT | FEW, 2, {T, K}},
        {"scores", &a->scores, S | OUT | FEW, 2, {T, K}},
        {"all", &a->all, S | OUT | FEW | OPT, 2, {T, E}},
        {"gate", &a->gate, C_OR_S, 2, {E, H}},
        {"bias", &a->bias, S | FEW | OPT, 1, {E}},
    };

    tr_check_product(c, T, H, E);
    VIEWS(c, a->x, needs);
    tr_check_that(c, a->n_group >= 1 && E % a->n_group == 0 && (a->n_group == 1 || size >= 2),
                  "n_group does not fit the experts");
    tr_check_that(
        c, a->topk_group >= 1 && a->topk_group <= a->n_group && K >= 1 && K <= a->topk_group * size,
        "K or topk_group does not fit the groups");
}

void tr_check_router_bwd(struct tr_check *c, const struct tr_router_grad *a)
{
    int64_t T = a->dx.shape[0], H = a->dx.shape[1], E = a->gate.shape[0], K = a->ids.shape[1];
    bool dgate = !tr_view_absent(a->dgate), all = a->softmax && !a->norm;
    enum tr_dtype compute = dgate ? a->x.dtype : a->dx.dtype;
    const struct tr_need needs[] = {
        {"dx", &a->dx, FLOAT | (a->add ? ADD : OUT), 2, {T, H}},
        {"dgate", &a->dgate, S | ADD | FEW | OPT, 2, {E, H}},
        {"dweights", &a->dweights, S | FEW, 2, {T, K}},
        {"ids", &a->ids, I32 | FEW, 2, {T, K}},
        {"scores", &a->scores, S | FEW, 2, {T, K}},
        {"gate", &a->gate, FLOAT, 2, {E, H}},
        {"x", &a->x, C | FEW | (dgate ? 0 : OPT), 2, {T, H}},
        {"all", &a->all, S | FEW | (all ? 0 : OPT), 2, {T, E}},
    };

    tr_check_views(c, compute, compute, needs, 8);
    tr_check_that(c, all || tr_view_absent(a->all), "all is of softmax without norm");
}

void tr_check_moe_plan(struct tr_check *c, const struct tr_moe_plan *a)
{
    int64_t T = a->ids.shape[0], K = a->ids.shape[1], E = a->counts.shape[0];
    const struct tr_need needs[] = {
        {"ids", &a->ids, I32 | WHOLE, 2, {T, K}},
        {"counts", &a->counts, I32 | OUT | FEW, 1, {E}},
        {"offsets", &a->offsets, I32 | OUT | FEW, 1, {E + 1}},
        {"row_of", &a->row_of, I32 | OUT | WHOLE, 2, {T, K}},
        {"slot_of", &a->slot_of, I32 | OUT, 1, {T * K}},
        {"tokens", &a->tokens, I32 | FEW | OPT, 1, {1}},
    };

    tr_check_views(c, TR_F32, TR_F32, needs, 6);
}

void tr_check_moe_permute(struct tr_check *c, const struct tr_moe_permute *a)
{
    int64_t R = a->xp.shape[0], n = a->xp.shape[1], T = a->x.shape[0];
    const struct tr_need needs[] = {
        {"xp", &a->xp, C | OUT, 2, {R, n}},
        {"x", &a->x, C | FEW, 2, {T, n}},
        {"weight", &a->weight, S | FEW | OPT | WHOLE, 2, {T, a->K}},
        {"slot_of", &a->slot_of, I32 | FEW, 1, {R}},
        {"rows", &a->rows.offsets, I32 | FEW | OPT, 1, {a->rows.offsets.shape[0]}},
    };

    VIEWS(c, a->xp, needs);
    tr_check_picks(c, (double)R, a->x);
    tr_check_that(c, a->K >= 1, "K");
}

void tr_check_moe_combine(struct tr_check *c, const struct tr_moe_combine *a)
{
    int64_t T = a->y.shape[0], n = a->y.shape[1], K = a->row_of.shape[1];
    const struct tr_need needs[] = {
        {"y", &a->y, C_OR_S | OUT, 2, {T, n}},
        {"add", &a->add, C_OR_S | OPT, 2, {T, n}},
        {"yp", &a->yp, C, 2, {a->yp.shape[0], n}},
        {"weight", &a->weight, S | FEW | OPT, 2, {T, K}},
        {"row_of", &a->row_of, I32 | FEW, 2, {T, K}},
    };

    VIEWS(c, a->yp, needs);
    tr_check_that(c, tr_view_absent(a->add) || a->add.dtype == a->y.dtype,
                  "add has another type than y");
}

/* Checks the experts [e0, e1); each counts as having the same number of rows. */
static void check_window(struct tr_check *c, struct tr_view offsets, int64_t e0, int64_t e1)
{
    int64_t E = offsets.shape[0] - 1;

    tr_check_that(c, e0 >= 0 && e0 <= e1 && e1 <= E, "expert window");
    c->share = tr_check_share(offsets, e0, e1);
    c->cost.experts = E;
}

void tr_check_grouped_gemm(struct tr_check *c, const struct tr_grouped_gemm *a)
{
    int64_t R = a->c.shape[0], N = a->c.shape[1], D = a->a.shape[1], E = a->offsets.shape[0] - 1;
    enum tr_dtype weight = a->a.dtype;
    const struct tr_need needs[] = {
        {"c", &a->c, C_OR_S | (a->beta != 0 ? ADD : OUT), 2, {R, N}},
        {"a", &a->a, C, 2, {R, D}},
        {"offsets", &a->offsets, I32 | FEW, 1, {E + 1}},
    };

    check_window(c, a->offsets, a->e0, a->e1);
    tr_check_product(c, R, D, N);
    for (int64_t e = a->e0; e < a->e1 && c->rc == FR_OK; e++)
        if (a->weights[e] != NULL)
            weight = a->weights[e]->w.dtype;
    tr_check_views(c, a->a.dtype, weight, needs, 3);
    c->share = 1;
    for (int64_t e = a->e0; e < a->e1 && c->rc == FR_OK; e++) {
        const struct tr_weight *w = a->weights[e];

        if (w == NULL)
            continue;
        tr_check_that(c, w->w.dtype == weight, "experts' weights differ in type");
        tr_check_weight(c, w, a->trans_b ? N : D, a->trans_b ? D : N);
    }
}

void tr_check_grouped_wgrad(struct tr_check *c, const struct tr_grouped_wgrad *a)
{
    int64_t R = a->dy.shape[0], N = a->dy.shape[1], D = a->x.shape[1], E = a->offsets.shape[0] - 1;
    const struct tr_need needs[] = {
        {"dy", &a->dy, C, 2, {R, N}},
        {"x", &a->x, C, 2, {R, D}},
        {"offsets", &a->offsets, I32 | FEW, 1, {E + 1}},
    };

    check_window(c, a->offsets, a->e0, a->e1);
    tr_check_product(c, R, D, N);
    VIEWS(c, a->dy, needs);
    c->share = 1;
    for (int64_t e = a->e0; e < a->e1 && c->rc == FR_OK; e++)
        if (a->dw[e] != NULL) {
            const struct tr_need dw[] = {
                {"dw", a->dw[e], S | (a->beta != 0 ? ADD : OUT), 2, {N, D}}};

            VIEWS(c, a->dy, dw);
        }
}
