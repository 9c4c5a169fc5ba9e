#include "trainer/train/sample.h"

#include "engine/base/sys.h"
#include "trainer/tensor/draw.h"

#include <math.h>
#include <stdlib.h>

/* A token that may be drawn. */
struct choice {
    float logit;
    int32_t id;
};

/* Larger logits first, smaller ids among equal ones. */
static int by_logit(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static enum fr_rc largest(const struct tr_row *row, int32_t *out, struct fr_err *err)
{
    int64_t best = 0;

    for (int64_t i = 0; i < row->V; i++) {
        if (isnan(row->logits[i]))
            return fr_fail(err, FR_CORRUPT, "logit %lld of token %llu is not a number",
                           (long long)i, (unsigned long long)row->step);
        if (row->logits[i] > row->logits[best])
            best = i;
    }
    *out = (int32_t)best;
    return FR_OK;
}

/* How many of the sorted choices reach the share p of the whole; their weights into w. */
static int64_t nucleus(const struct choice *c, int64_t n, const struct tr_sampling *s, double *w)
{
    double all = 0, sum = 0, p = s->top_p > 0 ? s->top_p : 1;
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        all += w[i] = exp(((double)c[i].logit - (double)c[0].logit) / s->temperature);
    while (kept < n && (kept == 0 || sum < p * all))
        sum += w[kept++];
    return kept;
}

enum fr_rc tr_sample(const struct tr_sampling *s, const struct tr_row *row, int32_t *out,
                     struct fr_err *err)
{
    struct choice *c;
    double *w, sum = 0, at;
    int64_t n = s->top_k > 0 && s->top_k < row->V ? s->top_k : row->V, pick = 0;
    enum fr_rc rc = largest(row, out, err);

    if (rc != FR_OK || s->temperature <= 0)
        return rc;
    c = fr_sys.alloc((size_t)row->V * sizeof(*c));
    w = fr_sys.alloc((size_t)row->V * sizeof(*w));
    if (c == NULL || w == NULL) {
        fr_sys.free(c);
        fr_sys.free(w);
        return fr_fail(err, FR_NOMEM, "no memory to sort %lld logits", (long long)row->V);
    }
    for (int64_t i = 0; i < row->V; i++)
        c[i] = (struct choice){row->logits[i], (int32_t)i};
    qsort(c, (size_t)row->V, sizeof(*c), by_logit);
    n = nucleus(c, n, s, w);
    for (int64_t i = 0; i < n; i++)
        sum += w[i];
    struct tr_draw d = {tr_draw_mix(s->seed ^ tr_draw_mix(row->stream + 1))};
    at = (double)(tr_draw_bits(d, row->step) >> 11) * 0x1p-53 * sum;
    while (pick + 1 < n && at >= w[pick])
        at -= w[pick++];
    *out = c[pick].id;
    fr_sys.free(c);
    fr_sys.free(w);
    return FR_OK;
}
