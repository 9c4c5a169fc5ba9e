#include "tests/ref/ref.h"

#include <math.h>
#include <stdlib.h>

#define UNUSED(self, q, err) ((void)(self), (void)(q), (void)(err))

enum fr_rc ref_put_rows(void *self, struct tr_queue *q, const struct tr_put_rows *a,
                        struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->x.shape[0]; t++)
        for (int64_t j = 0; j < a->x.shape[1] && ref_int(&a->index, t, 0) >= 0; j++)
            ref_put(&a->y, ref_int(&a->index, t, 0), j, ref_at(&a->x, t, j));
    return FR_OK;
}

/* Token t of one q head over keys first .. first+keys. */
static void one(const struct tr_attention_cached *a, int64_t t, int64_t h, int64_t first,
                int64_t keys)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2], g = h / (a->Q.shape[1] / a->K.shape[1]);
    double *p = calloc((size_t)keys + 1, sizeof *p), max = -INFINITY, sum = 0;

    for (int64_t j = 0; j < keys; j++) {
        for (int64_t k = 0; k < dq; k++)
            p[j] += ref_at(&a->Q, t, h * dq + k) * ref_at(&a->K, first + j, g * dq + k);
        p[j] *= (double)a->scale;
        max = fmax(max, p[j]);
    }
    for (int64_t j = 0; j < keys; j++)
        sum += p[j] = exp(p[j] - max);
    for (int64_t d = 0; d < dv; d++) {
        double o = 0;

        for (int64_t j = 0; j < keys; j++)
            o += p[j] * ref_at(&a->V, first + j, g * dv + d);
        ref_put(&a->O, t, h * dv + d, o / sum);
    }
    free(p);
}

enum fr_rc ref_attention_cached(void *self, struct tr_queue *q, const struct tr_attention_cached *a,
                                struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t b = 0; b < a->first.shape[0]; b++) {
        int64_t begin = ref_int(&a->offsets, b, 0), end = ref_int(&a->offsets, b + 1, 0);

        for (int64_t t = begin; t < end; t++) {
            int64_t keys = ref_int(&a->len, b, 0) - (end - t) + 1;
            int64_t skip = a->window > 0 && keys > a->window ? keys - a->window : 0;

            for (int64_t h = 0; h < a->Q.shape[1]; h++)
                one(a, t, h, ref_int(&a->first, b, 0) + skip, keys - skip);
        }
    }
    return FR_OK;
}
