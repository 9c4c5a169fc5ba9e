#include "trainer/backend/check.h"

enum fr_rc tr_check_put_rows(struct tr_check *c, const struct tr_put_rows *a)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1];
    const struct tr_need needs[] = {
        {"y", &a->y, TR_IS_C, 2, {a->y.shape[0], n}},
        {"x", &a->x, TR_IS_C, 2, {T, n}},
        {"index", &a->index, TR_IS_I32, 1, {T}},
    };

    return tr_check_views(c, a->x.dtype, a->x.dtype, needs, sizeof(needs) / sizeof(needs[0]));
}

enum fr_rc tr_check_attention_cached(struct tr_check *c, const struct tr_attention_cached *a)
{
    int64_t T = a->Q.shape[0], nh = a->Q.shape[1], dq = a->Q.shape[2];
    int64_t R = a->K.shape[0], nkv = a->K.shape[1], dv = a->V.shape[2];
    int64_t B = a->first.shape[0];
    const struct tr_need needs[] = {
        {"Q", &a->Q, TR_IS_C, 3, {T, nh, dq}},           {"K", &a->K, TR_IS_C, 3, {R, nkv, dq}},
        {"V", &a->V, TR_IS_C, 3, {R, nkv, dv}},          {"O", &a->O, TR_IS_C, 3, {T, nh, dv}},
        {"first", &a->first, TR_IS_I32, 1, {B}},         {"len", &a->len, TR_IS_I32, 1, {B}},
        {"offsets", &a->offsets, TR_IS_I32, 1, {B + 1}},
    };
    enum fr_rc rc =
        tr_check_views(c, a->Q.dtype, a->Q.dtype, needs, sizeof(needs) / sizeof(needs[0]));

    return rc == FR_OK ? tr_check_that(c, nkv > 0 && nh % nkv == 0 && dq > 0 && dv > 0, "heads")
                       : rc;
}
