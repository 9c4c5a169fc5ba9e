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
            double lane[TR_SUMSQ_LANES] = {0};
            uint64_t bits;

            for (int64_t j = first; j < cols && j < first + TR_SUMSQ_BLOCK; j++)
                lane[(j - first) % TR_SUMSQ_LANES] +=
                    tr_get(a->x, r * cols + j) * tr_get(a->x, r * cols + j);
            for (int half = TR_SUMSQ_LANES / 2; half > 0; half /= 2)
                for (int l = 0; l < half; l++)
                    lane[l] += lane[l + half];
            memcpy(&bits, &lane[0], sizeof bits);
            if (isfinite(lane[0]))
                tr_exact_add(out, tr_exact_of(bits));
            for (int64_t j = first; j < cols && j < first + TR_SUMSQ_BLOCK; j++)
                if (!tr_view_absent(a->found) && !isfinite(tr_get(a->x, r * cols + j)))
                    ref_add(&a->found, 0, 0, 1);
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

/* A moment of all elements, as numbers or as codes. */
struct moment {
    struct tr_view x, most;
    struct tr_codes map;
};

static struct moment moment_of(struct tr_view x, struct tr_view most, int both_signs)
{
    struct moment r = {.x = x, .most = most};

    tr_codes_make(&r.map, both_signs);
    return r;
}

static void take_block(const struct moment *r, int64_t first, int64_t n, double *to)
{
    for (int64_t k = 0; k < n; k++) {
        to[k] = tr_get(r->x, first + k);
        if (r->x.dtype == TR_U8)
            to[k] = (double)tr_codes_value(&r->map, (int)to[k]) *
                    tr_get(r->most, first / TR_CODED_BLOCK);
    }
}

/* The code of the nearest value of all, or the number as it is. */
static void give_block(const struct moment *r, int64_t first, int64_t n, const double *from)
{
    double most = 0;

    for (int64_t k = 0; k < n; k++)
        most = fmax(most, fabs(from[k]));
    if (r->x.dtype == TR_U8)
        tr_set(r->most, first / TR_CODED_BLOCK, most);
    for (int64_t k = 0; k < n; k++) {
        int best = r->map.zero;

        for (int code = 0; code < 256 && most > 0 && r->x.dtype == TR_U8; code++)
            if (fabs((double)tr_codes_value(&r->map, code) - from[k] / most) <
                fabs((double)tr_codes_value(&r->map, best) - from[k] / most))
                best = code;
        tr_set(r->x, first + k, r->x.dtype == TR_U8 ? best : from[k]);
    }
}

enum fr_rc ref_adamw(void *self, struct tr_queue *q, const struct tr_adamw *a, struct fr_err *err)
{
    double c1 = 1 - pow(a->b1, (double)a->step), c2 = 1 - pow(a->b2, (double)a->step);
    double scale = (double)a->scale;
    struct moment ms = moment_of(a->m, a->m_max, 1), vs = moment_of(a->v, a->v_max, 0);

    UNUSED(self, q, err);
    if (!tr_view_absent(a->skip) && ref_int(&a->skip, 0, 0) != 0)
        return FR_OK;
    if (!tr_view_absent(a->gscale))
        scale *= tr_get(a->gscale, 0);
    for (int64_t first = 0; first < a->p.shape[0]; first += TR_CODED_BLOCK) {
        int64_t n = a->p.shape[0] - first;
        double m[TR_CODED_BLOCK], v[TR_CODED_BLOCK];

        n = n < TR_CODED_BLOCK ? n : TR_CODED_BLOCK;
        take_block(&ms, first, n, m);
        take_block(&vs, first, n, v);
        for (int64_t k = 0, i = first; k < n; k++, i++) {
            double g = tr_get(a->g, i) * scale, p;

            m[k] = a->b1 * m[k] + (1 - a->b1) * g;
            v[k] = a->b2 * v[k] + (1 - a->b2) * g * g;
            p = tr_get(a->p, i) * (1 - (double)a->lr * (double)a->wd);
            p -= (double)a->lr * (m[k] / c1) / (sqrt(v[k] / c2) + a->eps);
            tr_set(a->p, i, p);
            if (!tr_view_absent(a->copy))
                tr_set(a->copy, i, tr_get(a->p, i));
        }
        give_block(&ms, first, n, m);
        give_block(&vs, first, n, v);
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
