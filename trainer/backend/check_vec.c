#include "trainer/backend/check.h"

static bool same_shape(struct tr_view x, struct tr_view y)
{
    if (x.rank != y.rank)
        return false;
    for (int i = 0; i < x.rank; i++)
        if (x.shape[i] != y.shape[i])
            return false;
    return true;
}

void tr_check_fill(struct tr_check *c, const struct tr_fill *a)
{
    const struct tr_need needs[] = {
        {"y", &a->y, FLOAT | INTS | OUT, 0, {0}},
    };
    enum tr_dtype t = a->y.dtype == TR_I32 || a->y.dtype == TR_I64 ? TR_F32 : a->y.dtype;

    tr_check_views(c, t, t, needs, 1);
}

void tr_check_noise(struct tr_check *c, const struct tr_noise *a)
{
    const struct tr_need needs[] = {{"y", &a->y, FLOAT | WHOLE | OUT, 0, {0}}};

    VIEWS(c, a->y, needs);
}

void tr_check_cast(struct tr_check *c, const struct tr_cast *a)
{
    bool whole = a->x.dtype == TR_I32 || a->x.dtype == TR_I64;
    const struct tr_need needs[] = {
        {"y", &a->y, FLOAT | INTS | OUT, 0, {0}},
        {"x", &a->x, FLOAT | INTS, 0, {0}},
    };
    enum tr_dtype t = whole                                          ? TR_F32
                      : a->x.dtype == TR_F64 || a->y.dtype == TR_F64 ? TR_F64
                                                                     : a->x.dtype;

    tr_check_views(c, t, t, needs, 2);
    tr_check_that(c, same_shape(a->x, a->y), "x and y differ in shape");
    if (c->rc == FR_OK && (whole || a->y.dtype == TR_I32 || a->y.dtype == TR_I64) &&
        a->x.dtype != a->y.dtype)
        c->rc = fr_fail(c->err, FR_DTYPE, "cast: %s to %s", tr_dtype_name(a->x.dtype),
                        tr_dtype_name(a->y.dtype));
}

void tr_check_decode(struct tr_check *c, const struct tr_decode *a)
{
    int64_t rows = a->w.w.shape[0], cols = a->w.w.shape[1];
    const struct tr_need needs[] = {{"y", &a->y, C | OUT, 2, {rows, cols}}};

    tr_check_views(c, a->y.dtype, a->w.w.dtype, needs, 1);
    if (c->rc == FR_OK && a->w.w.dtype != TR_F8_E4M3)
        c->rc = fr_fail(c->err, FR_DTYPE, "decode: weight in %s", tr_dtype_name(a->w.w.dtype));
    tr_check_weight(c, &a->w, rows, cols);
}

void tr_check_sum(struct tr_check *c, const struct tr_sum *a)
{
    const struct tr_need y[] = {{"y", &a->y, FLOAT | OUT, 0, {0}}};
    enum tr_dtype t = a->y.dtype;

    tr_check_that(c, a->n >= 1 && a->n <= TR_SUM_MAX, "n");
    for (int i = 0; i < a->n && c->rc == FR_OK; i++) {
        const struct tr_need x[] = {{"x", &a->x[i], FLOAT, 0, {0}}};

        t = a->x[i].dtype == TR_F64 ? TR_F64 : t;
        tr_check_views(c, t, t, x, 1);
        tr_check_that(c, same_shape(a->x[i], a->y), "x and y differ in shape");
    }
    tr_check_views(c, t, t, y, 1);
}

void tr_check_sumsq(struct tr_check *c, const struct tr_sumsq *a)
{
    const struct tr_need needs[] = {
        {"x", &a->x, FLOAT, 0, {0}},
        {"out", &a->out, I64 | ADD | FEW, 1, {TR_EXACT_LIMBS}},
        {"found", &a->found, I64 | ADD | FEW | OPT, 1, {1}},
    };

    VIEWS(c, a->x, needs);
}

void tr_check_nonfinite(struct tr_check *c, const struct tr_nonfinite *a)
{
    const struct tr_need needs[] = {
        {"x", &a->x, FLOAT | F8, 0, {0}},
        {"found", &a->found, I64 | ADD | FEW, 1, {1}},
    };
    enum tr_dtype t = a->x.dtype == TR_F8_E4M3 ? TR_F32 : a->x.dtype;

    tr_check_views(c, t, a->x.dtype, needs, 2);
}

void tr_check_adamw(struct tr_check *c, const struct tr_adamw *a)
{
    int64_t n = a->p.shape[0], blocks = tr_div_up(n, TR_CODED_BLOCK);
    bool coded = a->m.dtype == TR_U8;
    int moment = (coded ? U8 : S) | ADD, most = S | ADD | (coded ? 0 : OPT);
    const struct tr_need needs[] = {
        {"p", &a->p, S | ADD, 1, {n}},
        {"m", &a->m, moment, 1, {n}},
        {"v", &a->v, moment, 1, {n}},
        {"m_max", &a->m_max, most, 1, {blocks}},
        {"v_max", &a->v_max, most, 1, {blocks}},
        {"g", &a->g, S, 1, {n}},
        {"copy", &a->copy, FLOAT | OUT | OPT, 1, {n}},
        {"gscale", &a->gscale, S | FEW | OPT, 1, {1}},
        {"skip", &a->skip, I64 | FEW | OPT, 1, {1}},
    };

    VIEWS(c, a->p, needs);
    tr_check_that(c, a->step >= 1, "step is below 1");
    tr_check_that(c, a->b1 >= 0 && a->b1 < 1 && a->b2 >= 0 && a->b2 < 1 && a->eps >= 0,
                  "b1, b2 or eps");
}

void tr_check_reduce_ordered(struct tr_check *c, const struct tr_reduce *a)
{
    int64_t n = a->out.shape[0];
    const struct tr_need needs[] = {
        {"out", &a->out, FLOAT | (a->add ? ADD : OUT), 1, {n}},
        {"slices", &a->slices, FLOAT, 2, {a->slices.shape[0], n}},
    };
    enum tr_dtype t =
        a->out.dtype == TR_F64 || a->slices.dtype == TR_F64 ? TR_F64 : a->slices.dtype;

    tr_check_views(c, t, t, needs, 2);
}
