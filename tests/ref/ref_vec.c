#include "tests/ref/ref.h"

#include "trainer/tensor/draw.h"

#include <math.h>
#include <string.h>

#define UNUSED(self, q, err) ((void)(self), (void)(q), (void)(err))

enum fr_rc ref_fill(void *self, struct tr_queue *q, const struct tr_fill *a, struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t i = 0; i < tr_view_count(a->y); i++)
        tr_set(a->y, i, a->value);
    return FR_OK;
}

enum fr_rc ref_noise(void *self, struct tr_queue *q, const struct tr_noise *a, struct fr_err *err)
{
    struct tr_draw d = {a->key};

    UNUSED(self, q, err);
    for (int64_t i = 0; i < tr_view_count(a->y); i++) {
        uint64_t k = (uint64_t)(a->first + i);
        float x = a->uniform ? 2 * tr_draw_uniform(d, k) - 1 : tr_draw_normal(d, k);

        tr_set(a->y, i, (double)(a->scale * x));
    }
    return FR_OK;
}

enum fr_rc ref_cast(void *self, struct tr_queue *q, const struct tr_cast *a, struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t i = 0; i < tr_view_count(a->y); i++)
        tr_set(a->y, i, tr_get(a->x, i));
    return FR_OK;
}

enum fr_rc ref_decode(void *self, struct tr_queue *q, const struct tr_decode *a, struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t i = 0; i < a->y.shape[0]; i++)
        for (int64_t j = 0; j < a->y.shape[1]; j++)
            ref_put(&a->y, i, j, ref_weight(&a->w, i, j));
    return FR_OK;
}

enum fr_rc ref_sum(void *self, struct tr_queue *q, const struct tr_sum *a, struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t i = 0; i < tr_view_count(a->y); i++) {
        double sum = 0;

        for (int k = 0; k < a->n; k++)
            sum += (double)a->alpha[k] * tr_get(a->x[k], i);
        tr_set(a->y, i, sum);
    }
    return FR_OK;
}

enum fr_rc ref_sumsq(void *self, struct tr_queue *q, const struct tr_sumsq *a, struct fr_err *err)
{
    int64_t *out = a->out.p, count = tr_view_count(a->x), rows = a->x.rank > 1 ? a->x.shape[0] : 1;
    int64_t cols = rows > 0 ? count / rows : 0;

    UNUSED(self, q, err);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t first = 0; first < cols; first += TR_SUMSQ_BLOCK) {
            double sum = 0;
            uint64_t bits;

            for (int64_t j = first; j < cols && j < first + TR_SUMSQ_BLOCK; j++)
                sum += tr_get(a->x, r * cols + j) * tr_get(a->x, r * cols + j);
            memcpy(&bits, &sum, sizeof bits);
            if (isfinite(sum))
                tr_exact_add(out, tr_exact_of(bits));
        }
    tr_exact_carry(out);
    return FR_OK;
}

enum fr_rc ref_nonfinite(void *self, struct tr_queue *q, const struct tr_nonfinite *a,
                         struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t i = 0; i < tr_view_count(a->x); i++)
        if (!isfinite(tr_get(a->x, i)))
            ref_add(&a->found, 0, 0, 1);
    return FR_OK;
}

enum fr_rc ref_adamw(void *self, struct tr_queue *q, const struct tr_adamw *a, struct fr_err *err)
{
    double c1 = 1 - pow(a->b1, (double)a->step), c2 = 1 - pow(a->b2, (double)a->step);
    double scale = (double)a->scale;

    UNUSED(self, q, err);
    if (!tr_view_absent(a->skip) && ref_int(&a->skip, 0, 0) != 0)
        return FR_OK;
    if (!tr_view_absent(a->gscale))
        scale *= tr_get(a->gscale, 0);
    for (int64_t i = 0; i < a->p.shape[0]; i++) {
        double g = tr_get(a->g, i) * scale;
        double m = a->b1 * tr_get(a->m, i) + (1 - a->b1) * g;
        double v = a->b2 * tr_get(a->v, i) + (1 - a->b2) * g * g;
        double p = tr_get(a->p, i) * (1 - (double)a->lr * (double)a->wd);

        p -= (double)a->lr * (m / c1) / (sqrt(v / c2) + a->eps);
        tr_set(a->m, i, m);
        tr_set(a->v, i, v);
        tr_set(a->p, i, p);
        if (!tr_view_absent(a->copy))
            tr_set(a->copy, i, tr_get(a->p, i));
    }
    return FR_OK;
}

enum fr_rc ref_reduce_ordered(void *self, struct tr_queue *q, const struct tr_reduce *a,
                              struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t i = 0; i < a->out.shape[0]; i++) {
        double sum = a->add ? tr_get(a->out, i) : 0;

        for (int64_t w = 0; w < a->slices.shape[0]; w++)
            sum += ref_at(&a->slices, w, i);
        tr_set(a->out, i, sum);
    }
    return FR_OK;
}
