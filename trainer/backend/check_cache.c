#include "trainer/backend/check.h"

void tr_check_put_rows(struct tr_check *c, const struct tr_put_rows *a)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1];
    const struct tr_need needs[] = {
        {"y", &a->y, C | OUT | FEW, 2, {a->y.shape[0], n}},
        {"x", &a->x, C, 2, {T, n}},
        {"index", &a->index, I32 | FEW, 1, {T}},
    };

    VIEWS(c, a->x, needs);
    tr_check_picks(c, (double)T, a->y);
}

void tr_check_attention_cached(struct tr_check *c, const struct tr_attention_cached *a)
{
    int64_t T = a->Q.shape[0], nh = a->Q.shape[1], dq = a->Q.shape[2];
    int64_t R = a->K.shape[0], nkv = a->K.shape[1], dv = a->V.shape[2];
    int64_t B = a->first.shape[0], len = a->max_len > 0 ? a->max_len : R;
    const struct tr_need needs[] = {
        {"Q", &a->Q, C, 3, {T, nh, dq}},
        {"K", &a->K, C | FEW, 3, {R, nkv, dq}},
        {"V", &a->V, C | FEW, 3, {R, nkv, dv}},
        {"O", &a->O, C | OUT, 3, {T, nh, dv}},
        {"first", &a->first, I32 | FEW, 1, {B}},
        {"len", &a->len, I32 | FEW, 1, {B}},
        {"offsets", &a->offsets, I32 | FEW, 1, {B + 1}},
    };

    VIEWS(c, a->Q, needs);
    tr_check_picks(c, (double)B * (double)len, a->K);
    tr_check_picks(c, (double)B * (double)len, a->V);
    c->cost.flop = 2 * (double)T * (double)len * (double)(nh * (dq + dv));
    tr_check_that(c, nkv > 0 && nh % nkv == 0 && dq > 0 && dv > 0, "heads");
}
