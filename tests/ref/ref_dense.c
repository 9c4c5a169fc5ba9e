#include "tests/ref/ref.h"

#include "trainer/backend/philox.h"

#include <math.h>
#include <stdlib.h>

#define UNUSED(self, q, err) ((void)(self), (void)(q), (void)(err))

enum fr_rc ref_embed_fwd(void *self, struct tr_queue *q, const struct tr_embed *a,
                         struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->y.shape[0]; t++) {
        int64_t row = ref_int(&a->ids, t, 0) - a->row0;
        bool inside = row >= 0 && row < a->table.shape[0];

        for (int64_t j = 0; j < a->y.shape[1]; j++)
            ref_put(&a->y, t, j, inside ? ref_at(&a->table, row, j) : 0);
    }
    return FR_OK;
}

enum fr_rc ref_embed_bwd(void *self, struct tr_queue *q, const struct tr_embed *a,
                         struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->dy.shape[0]; t++) {
        int64_t row = ref_int(&a->ids, t, 0) - a->row0;

        if (row < 0 || row >= a->dtable.shape[0])
            continue;
        for (int64_t j = 0; j < a->dy.shape[1]; j++)
            ref_add(&a->dtable, row, j, ref_at(&a->dy, t, j));
    }
    return FR_OK;
}

enum fr_rc ref_rmsnorm_fwd(void *self, struct tr_queue *q, const struct tr_rmsnorm *a,
                           struct fr_err *err)
{
    int64_t n = a->x.shape[1];
    enum tr_dtype c = a->x.dtype;

    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->x.shape[0]; t++) {
        double sq = 0, r, *s = malloc((size_t)n * sizeof *s);

        for (int64_t j = 0; j < n; j++) {
            s[j] = ref_at(&a->x, t, j);
            if (!tr_view_absent(a->add))
                s[j] = ref_round(c, s[j] + ref_at(&a->add, t, j));
            sq += s[j] * s[j];
        }
        r = 1 / sqrt(sq / (double)n + (double)a->eps);
        for (int64_t j = 0; j < n; j++) {
            if (!tr_view_absent(a->sum))
                ref_put(&a->sum, t, j, s[j]);
            ref_put(&a->y, t, j, ref_at(&a->gain, j, 0) * ref_round(c, s[j] * r));
        }
        if (!tr_view_absent(a->rrms))
            ref_put(&a->rrms, t, 0, r);
        free(s);
    }
    return FR_OK;
}

enum fr_rc ref_rmsnorm_bwd(void *self, struct tr_queue *q, const struct tr_rmsnorm_grad *a,
                           struct fr_err *err)
{
    int64_t n = a->x.shape[1];

    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->x.shape[0]; t++) {
        double r = ref_at(&a->rrms, t, 0), dot = 0;

        for (int64_t j = 0; j < n; j++)
            dot += ref_at(&a->gain, j, 0) * ref_at(&a->dy, t, j) * ref_at(&a->x, t, j) * r;
        for (int64_t j = 0; j < n; j++) {
            double dy = ref_at(&a->dy, t, j), xh = ref_at(&a->x, t, j) * r;
            double dx = r * (ref_at(&a->gain, j, 0) * dy - xh * dot / (double)n);

            if (!tr_view_absent(a->dgain))
                ref_add(&a->dgain, j, 0, dy * xh);
            if (tr_view_absent(a->dx))
                continue;
            if (!tr_view_absent(a->dres))
                dx += ref_at(&a->dres, t, j);
            ref_put(&a->dx, t, j, dx);
        }
    }
    return FR_OK;
}

/* op(a) by rows and op(b) by columns in double, then plain sums. */
enum fr_rc ref_gemm(void *self, struct tr_queue *q, const struct tr_gemm *a, struct fr_err *err)
{
    int64_t M = a->c.shape[0], N = a->c.shape[1], D = a->a.shape[a->trans_a ? 0 : 1];
    double *x = calloc((size_t)(M * D + 1), sizeof *x), *w = calloc((size_t)(N * D + 1), sizeof *w);

    UNUSED(self, q, err);
    for (int64_t k = 0; k < D; k++) {
        for (int64_t i = 0; i < M; i++)
            x[i * D + k] = a->trans_a ? ref_at(&a->a, k, i) : ref_at(&a->a, i, k);
        for (int64_t j = 0; j < N; j++)
            w[j * D + k] = a->trans_b ? ref_weight(&a->b, j, k) : ref_weight(&a->b, k, j);
    }
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0;

            for (int64_t k = 0; k < D; k++)
                sum += x[i * D + k] * w[j * D + k];
            sum *= (double)a->alpha;
            if (a->beta != 0)
                sum += (double)a->beta * ref_at(&a->c, i, j);
            if (!tr_view_absent(a->bias))
                sum += ref_at(&a->bias, j, 0);
            ref_put(&a->c, i, j, sum);
        }
    free(x);
    free(w);
    return FR_OK;
}

enum fr_rc ref_colsum(void *self, struct tr_queue *q, const struct tr_colsum *a, struct fr_err *err)
{
    UNUSED(self, q, err);
    for (int64_t j = 0; j < a->x.shape[1]; j++) {
        double sum = 0;

        for (int64_t t = 0; t < a->x.shape[0]; t++)
            sum += ref_at(&a->x, t, j);
        ref_add(&a->out, j, 0, sum);
    }
    return FR_OK;
}

/* The routed group that row i lies in. */
static uint64_t group_of(const struct tr_view *groups, int64_t i)
{
    uint64_t e = 0;

    while ((int64_t)e + 1 < groups->shape[0] - 1 && ref_int(groups, (int64_t)e + 1, 0) <= i)
        e++;
    return e;
}

enum fr_rc ref_dropout(void *self, struct tr_queue *q, const struct tr_dropout *a,
                       struct fr_err *err)
{
    struct ref_range rows = ref_rows(&a->rows, a->x.shape[0]);
    uint32_t below = tr_dropout_threshold(a->p);

    UNUSED(self, q, err);
    for (int64_t i = rows.begin; i < rows.end; i++) {
        int64_t t = tr_view_absent(a->slot_of) ? i : ref_int(&a->slot_of, i, 0) / a->K;
        uint64_t module = a->module;

        if (!tr_view_absent(a->groups))
            module += group_of(&a->groups, i);
        for (int64_t j = 0; j < a->x.shape[1]; j++) {
            struct tr_philox bits =
                tr_dropout_bits(tr_dropout_key(a->seed, module, a->epoch), ref_int(&a->place, t, 0),
                                (int32_t)ref_int(&a->pos, t, 0), (uint32_t)(j / 4));
            double keep = bits.v[j % 4] < below ? 0 : 1 / (1 - (double)a->p);

            ref_put(&a->y, i, j, ref_at(&a->x, i, j) * keep);
        }
    }
    return FR_OK;
}

/* Rotates the dr channels that start at column `at` of x's row t into y's row t; sign -1 inverts.
 */
struct turn {
    const struct tr_rope_table *table;
    int64_t t;
    double sign;
};

static void rotate(const struct turn *r, const double *x, double *y)
{
    int64_t half = r->table->cosines.shape[1], at = ref_int(&r->table->pos, r->t, 0);

    for (int64_t i = 0; i < half; i++) {
        int64_t p = r->table->interleave ? 2 * i : i;
        int64_t s = r->table->interleave ? 2 * i + 1 : i + half;
        double c = ref_at(&r->table->cosines, at, i);
        double z = r->sign * ref_at(&r->table->sines, at, i);
        double a = x[p], b = x[s];

        y[p] = a * c - b * z;
        y[s] = b * c + a * z;
    }
}

/* Columns of a view from `col` on. */
struct place {
    const struct tr_view *v;
    int64_t col;
};

/* As rotate, from columns of one view to columns of another. */
static void rotate_view(const struct turn *r, struct place y, struct place x)
{
    int64_t dr = 2 * r->table->cosines.shape[1];
    double *v = calloc((size_t)dr + 1, sizeof *v);

    for (int64_t j = 0; j < dr; j++)
        v[j] = ref_at(x.v, r->t, x.col + j);
    rotate(r, v, v);
    for (int64_t j = 0; j < dr; j++)
        ref_put(y.v, r->t, y.col + j, v[j]);
    free(v);
}

enum fr_rc ref_rope(void *self, struct tr_queue *q, const struct tr_rope *a, struct fr_err *err)
{
    int64_t n = a->x.shape[1], hd = a->x.shape[2], dr = 2 * a->table.cosines.shape[1];

    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->x.shape[0]; t++)
        for (int64_t h = 0; h < n; h++) {
            struct turn turn = {&a->table, t, a->inverse ? -1 : 1};

            rotate_view(&turn, (struct place){&a->y, h * hd}, (struct place){&a->x, h * hd});
            for (int64_t j = dr; j < hd; j++)
                ref_put(&a->y, t, h * hd + j, ref_at(&a->x, t, h * hd + j));
        }
    return FR_OK;
}

static void copy_cols(int64_t t, int64_t n, struct place y, struct place x)
{
    for (int64_t j = 0; j < n; j++)
        ref_put(y.v, t, y.col + j, ref_at(x.v, t, x.col + j));
}

enum fr_rc ref_mla_assemble_fwd(void *self, struct tr_queue *q, const struct tr_mla *a,
                                struct fr_err *err)
{
    int64_t nh = a->Q.shape[1], dq = a->Q.shape[2], dr = a->k_pe.shape[1], dn = dq - dr;
    int64_t dv = a->V.shape[2];

    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->Q.shape[0]; t++)
        for (int64_t h = 0; h < nh; h++) {
            struct turn turn = {&a->table, t, 1};

            copy_cols(t, dn, (struct place){&a->Q, h * dq}, (struct place){&a->q, h * dq});
            rotate_view(&turn, (struct place){&a->Q, h * dq + dn},
                        (struct place){&a->q, h * dq + dn});
            copy_cols(t, dn, (struct place){&a->K, h * dq}, (struct place){&a->kv, h * (dn + dv)});
            rotate_view(&turn, (struct place){&a->K, h * dq + dn}, (struct place){&a->k_pe, 0});
            copy_cols(t, dv, (struct place){&a->V, h * dv},
                      (struct place){&a->kv, h * (dn + dv) + dn});
        }
    return FR_OK;
}

enum fr_rc ref_mla_assemble_bwd(void *self, struct tr_queue *q, const struct tr_mla_grad *a,
                                struct fr_err *err)
{
    int64_t nh = a->dQ.shape[1], dq = a->dQ.shape[2], dr = a->dk_pe.shape[1], dn = dq - dr;
    int64_t dv = a->dV.shape[2];

    UNUSED(self, q, err);
    for (int64_t t = 0; t < a->dQ.shape[0]; t++) {
        struct turn turn = {&a->table, t, -1};
        double *sum = calloc((size_t)dr + 1, sizeof *sum);

        for (int64_t h = 0; h < nh; h++) {
            copy_cols(t, dn, (struct place){&a->dq, h * dq}, (struct place){&a->dQ, h * dq});
            rotate_view(&turn, (struct place){&a->dq, h * dq + dn},
                        (struct place){&a->dQ, h * dq + dn});
            copy_cols(t, dn, (struct place){&a->dkv, h * (dn + dv)},
                      (struct place){&a->dK, h * dq});
            copy_cols(t, dv, (struct place){&a->dkv, h * (dn + dv) + dn},
                      (struct place){&a->dV, h * dv});
            for (int64_t j = 0; j < dr; j++)
                sum[j] += ref_at(&a->dK, t, h * dq + dn + j);
        }
        rotate(&turn, sum, sum);
        for (int64_t j = 0; j < dr; j++)
            ref_put(&a->dk_pe, t, j, sum[j]);
        free(sum);
    }
    return FR_OK;
}

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

enum fr_rc ref_swiglu_fwd(void *self, struct tr_queue *q, const struct tr_swiglu *a,
                          struct fr_err *err)
{
    struct ref_range rows = ref_rows(&a->rows, a->h.shape[0]);

    UNUSED(self, q, err);
    for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t j = 0; j < a->h.shape[1]; j++) {
            double g = ref_at(&a->g, i, j);

            ref_put(&a->h, i, j, g * sigmoid(g) * ref_at(&a->u, i, j));
        }
    return FR_OK;
}

enum fr_rc ref_swiglu_bwd(void *self, struct tr_queue *q, const struct tr_swiglu_grad *a,
                          struct fr_err *err)
{
    struct ref_range rows = ref_rows(&a->rows, a->dh.shape[0]);

    UNUSED(self, q, err);
    for (int64_t i = rows.begin; i < rows.end; i++) {
        int64_t slot = tr_view_absent(a->slot_of) ? i : ref_int(&a->slot_of, i, 0);
        double w = 1, sum = 0;

        if (!tr_view_absent(a->weight))
            w = tr_get(a->weight, slot);
        for (int64_t j = 0; j < a->dh.shape[1]; j++) {
            double g = ref_at(&a->g, i, j), u = ref_at(&a->u, i, j), dh = ref_at(&a->dh, i, j);
            double s = sigmoid(g);

            sum += dh * g * s * u;
            ref_put(&a->dg, i, j, w * dh * u * s * (1 + g * (1 - s)));
            ref_put(&a->du, i, j, w * dh * g * s);
        }
        if (!tr_view_absent(a->dweight))
            tr_set(a->dweight, slot, sum);
    }
    return FR_OK;
}
