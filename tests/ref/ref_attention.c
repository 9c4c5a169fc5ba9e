#include "tests/ref/ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED(self, q, err) ((void)(self), (void)(q), (void)(err))

/* One head of one segment: tokens begin .. end of q head h and kv head g. */
struct head {
    const struct tr_attention *a;
    int64_t begin, end, h, g;
};

/* One head of one token. */
struct vec {
    const struct tr_view *v;
    int64_t t, h;
};

static double dot(struct vec x, struct vec y)
{
    int64_t n = x.v->shape[2];
    double sum = 0;

    for (int64_t k = 0; k < n; k++)
        sum += ref_at(x.v, x.t, x.h * n + k) * ref_at(y.v, y.t, y.h * n + k);
    return sum;
}

static int64_t last_key(const struct head *s, int64_t i)
{
    return s->a->causal ? i + 1 : s->end;
}

static int64_t first_key(const struct head *s, int64_t i)
{
    int64_t first = i - s->a->window + 1;

    return s->a->window > 0 && first > s->begin ? first : s->begin;
}

static void forward(const struct head *s, double *p)
{
    const struct tr_attention *a = s->a;
    int64_t dv = a->V.shape[2];

    for (int64_t i = s->begin; i < s->end; i++) {
        int64_t begin = first_key(s, i), end = last_key(s, i);
        double max = -INFINITY, sum = 0;

        for (int64_t j = begin; j < end; j++) {
            p[j] =
                (double)a->scale * dot((struct vec){&a->Q, i, s->h}, (struct vec){&a->K, j, s->g});
            max = fmax(max, p[j]);
        }
        for (int64_t j = begin; j < end; j++)
            sum += p[j] = exp(p[j] - max);
        for (int64_t d = 0; d < dv; d++) {
            double o = 0;

            for (int64_t j = begin; j < end; j++)
                o += p[j] * ref_at(&a->V, j, s->g * dv + d);
            ref_put(&a->O, i, s->h * dv + d, o / sum);
        }
        ref_put(&a->lse, s->h, i, max + log(sum));
    }
}

enum fr_rc ref_attention_fwd(void *self, struct tr_queue *q, const struct tr_attention *a,
                             struct fr_err *err)
{
    int64_t nh = a->Q.shape[1], group = nh / a->K.shape[1];
    double *p = calloc((size_t)a->Q.shape[0] + 1, sizeof *p);

    UNUSED(self, q, err);
    for (int64_t b = 0; b + 1 < a->offsets.shape[0]; b++)
        for (int64_t h = 0; h < nh; h++) {
            struct head s = {a, ref_int(&a->offsets, b, 0), ref_int(&a->offsets, b + 1, 0), h,
                             h / group};

            forward(&s, p);
        }
    free(p);
    return FR_OK;
}

/* Sums of one segment in double: rows of T tokens, as wide as K's and V's rows. */
struct sums {
    double *dK, *dV;
};

static void backward_row(const struct head *s, int64_t i, struct sums *sums)
{
    const struct tr_attention *a = s->a;
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2], nkv = a->K.shape[1];
    double D = dot((struct vec){&a->dO, i, s->h}, (struct vec){&a->O, i, s->h}),
           lse = ref_at(&a->lse, s->h, i);
    double *dQ = calloc((size_t)dq, sizeof *dQ);

    for (int64_t j = first_key(s, i); j < last_key(s, i); j++) {
        double p =
            exp((double)a->scale * dot((struct vec){&a->Q, i, s->h}, (struct vec){&a->K, j, s->g}) -
                lse);
        double dS = p * (dot((struct vec){&a->dO, i, s->h}, (struct vec){&a->V, j, s->g}) - D);

        for (int64_t d = 0; d < dv; d++)
            sums->dV[(j * nkv + s->g) * dv + d] += p * ref_at(&a->dO, i, s->h * dv + d);
        for (int64_t d = 0; d < dq; d++) {
            dQ[d] += (double)a->scale * dS * ref_at(&a->K, j, s->g * dq + d);
            sums->dK[(j * nkv + s->g) * dq + d] +=
                (double)a->scale * dS * ref_at(&a->Q, i, s->h * dq + d);
        }
    }
    for (int64_t d = 0; d < dq; d++)
        ref_put(&a->dQ, i, s->h * dq + d, dQ[d]);
    free(dQ);
}

enum fr_rc ref_attention_bwd(void *self, struct tr_queue *q, const struct tr_attention *a,
                             struct fr_err *err)
{
    int64_t T = a->Q.shape[0], nh = a->Q.shape[1], nkv = a->K.shape[1], group = nh / nkv;
    int64_t wide_k = nkv * a->K.shape[2], wide_v = nkv * a->V.shape[2];
    struct sums sums = {calloc((size_t)(T * wide_k + 1), sizeof(double)),
                        calloc((size_t)(T * wide_v + 1), sizeof(double))};

    UNUSED(self, q, err);
    for (int64_t b = 0; b + 1 < a->offsets.shape[0]; b++) {
        int64_t begin = ref_int(&a->offsets, b, 0), end = ref_int(&a->offsets, b + 1, 0);

        for (int64_t h = 0; h < nh; h++)
            for (int64_t i = begin; i < end; i++)
                backward_row(&(struct head){a, begin, end, h, h / group}, i, &sums);
        for (int64_t t = begin; t < end; t++) {
            for (int64_t j = 0; j < wide_k; j++)
                ref_put(&a->dK, t, j, sums.dK[t * wide_k + j]);
            for (int64_t j = 0; j < wide_v; j++)
                ref_put(&a->dV, t, j, sums.dV[t * wide_v + j]);
        }
    }
    free(sums.dK);
    free(sums.dV);
    return FR_OK;
}

static void chunk_row(const struct tr_xent *a, int64_t t, double *z)
{
    const struct tr_xent_state *s = &a->state;
    int64_t rows = a->w.w.shape[0], H = a->F.shape[1];
    int64_t target = ref_int(&a->targets, t, 0) - a->row0;
    double old = a->first ? -INFINITY : ref_at(&s->m, t, 0), max = old, keep, l;

    for (int64_t v = 0; v < rows; v++) {
        z[v] = 0;
        for (int64_t k = 0; k < H; k++)
            z[v] += ref_at(&a->F, t, k) * ref_weight(&a->w, v, k);
        max = fmax(max, z[v]);
    }
    for (int64_t v = 0; v < rows && !tr_view_absent(a->p); v++)
        ref_put(&a->p, t, v, exp(z[v] - max));
    if (!tr_view_absent(a->top))
        ref_put(&a->top, t, 0, max);
    keep = a->first ? 0 : exp(old - max);
    l = a->first ? 0 : ref_at(&s->l, t, 0) * keep;
    for (int64_t v = 0; v < rows; v++)
        l += exp(z[v] - max);
    ref_put(&s->m, t, 0, max);
    ref_put(&s->l, t, 0, l);
    if (a->first)
        ref_put(&s->target_logit, t, 0, 0);
    if (target >= 0 && target < rows && ref_int(&a->targets, t, 0) >= 0)
        ref_put(&s->target_logit, t, 0, z[target]);
    for (int64_t k = 0; k < H && !tr_view_absent(s->acc); k++) {
        double sum = a->first ? 0 : ref_at(&s->acc, t, k) * keep;

        for (int64_t v = 0; v < rows; v++)
            sum += exp(z[v] - max) * ref_weight(&a->w, v, k);
        ref_put(&s->acc, t, k, sum);
        if (a->first)
            ref_put(&s->target_row, t, k, 0);
        if (target >= 0 && target < rows && ref_int(&a->targets, t, 0) >= 0)
            ref_put(&s->target_row, t, k, ref_weight(&a->w, target, k));
    }
}

enum fr_rc ref_xent_chunk(void *self, struct tr_queue *q, const struct tr_xent *a,
                          struct fr_err *err)
{
    double *z = calloc((size_t)a->w.w.shape[0] + 1, sizeof *z);

    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->F.shape[0]; t++)
        chunk_row(a, t, z);
    free(z);
    return FR_OK;
}

enum fr_rc ref_xent_finish(void *self, struct tr_queue *q, const struct tr_xent_finish *a,
                           struct fr_err *err)
{
    const struct tr_xent_state *s = &a->state;
    double total = 0;

    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->targets.shape[0]; t++) {
        bool scored = ref_int(&a->targets, t, 0) >= 0;
        double l = ref_at(&s->l, t, 0);
        double loss = scored ? ref_at(&s->m, t, 0) + log(l) - ref_at(&s->target_logit, t, 0) : 0;

        total += loss;
        if (!tr_view_absent(a->loss))
            ref_put(&a->loss, t, 0, loss);
        for (int64_t k = 0; k < a->dF.shape[1] && !tr_view_absent(a->dF); k++)
            ref_put(&a->dF, t, k,
                    scored ? a->scale * (ref_at(&s->acc, t, k) / l - ref_at(&s->target_row, t, k))
                           : 0);
    }
    ref_add(&a->loss_sum, 0, 0, total);
    return FR_OK;
}

enum fr_rc ref_xent_bwd(void *self, struct tr_queue *q, const struct tr_xent_grad *a,
                        struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->dz.shape[0]; t++)
        for (int64_t v = 0; v < a->dz.shape[1]; v++) {
            int64_t target = ref_int(&a->targets, t, 0);
            double shrink = exp(ref_at(&a->top, t, 0) - ref_at(&a->m, t, 0));
            double p = ref_at(&a->p, t, v) * shrink / ref_at(&a->l, t, 0);

            ref_put(&a->dz, t, v, target < 0 ? 0 : a->scale * (p - (target == a->row0 + v)));
        }
    return FR_OK;
}
