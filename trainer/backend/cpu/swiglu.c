#include "trainer/backend/cpu/cpu.h"

static void swiglu_row(const void *args, int64_t i, float *g)
{
    const struct tr_swiglu *a = args;
    int64_t n = a->h.shape[1];
    float *h = cpu_out(g, &a->h, i);

    cpu_swiglu(h, cpu_row(g, &a->g, i, n), cpu_row(g + n, &a->u, i, n), n);
    if (h == g)
        cpu_store(&a->h, i, 0, h, n);
}

enum fr_rc tr_cpu_swiglu_fwd(void *self, struct tr_queue *q, const struct tr_swiglu *a,
                             struct fr_err *err)
{
    int64_t n = a->h.shape[1];

    return cpu_each_row(self, q,
                        &(struct cpu_loop){.rows = cpu_rows(&a->rows, a->h.shape[0]),
                                           .n = n,
                                           .floats = 2 * n,
                                           .next = {&a->g, &a->u, &a->h},
                                           .row = swiglu_row,
                                           .args = a},
                        err);
}

/* Rows of a backward; s: sigmoids of g. dg may be g, du may be u or dh. */
struct swiglu_rows {
    float *dg, *du;
    const float *dh, *g, *u, *s;
};

/* Returns the sum of dh*silu(g)*u. */
CPU_KERNEL static float swiglu_grad(float w, const struct swiglu_rows *r, int64_t n)
{
    float *dg = r->dg, *du = r->du, sum = 0;
    const float *dhs = r->dh, *gs = r->g, *us = r->u, *sigmoids = r->s;

#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        float dh = dhs[j], g = gs[j], u = us[j], s = sigmoids[j], silu = g * s;

        sum += dh * silu * u;
        dg[j] = w * dh * u * s * (1 + g * (1 - s));
        du[j] = w * dh * silu;
    }
    return sum;
}

static void swiglu_grad_row(const void *args, int64_t i, float *lane)
{
    const struct tr_swiglu_grad *a = args;
    int64_t n = a->dh.shape[1], slot = tr_view_absent(a->slot_of) ? i : cpu_int(&a->slot_of, i, 0);
    const float *weight = a->weight.p;
    float *dweight = a->dweight.p, *g = lane + n, *u = g + n, *s = u + n, sum;

    if (slot < 0)
        return;
    struct swiglu_rows r = {.dg = cpu_out(g, &a->dg, i),
                            .du = cpu_out(u, &a->du, i),
                            .dh = cpu_row(lane, &a->dh, i, n),
                            .g = cpu_row(g, &a->g, i, n),
                            .u = cpu_row(u, &a->u, i, n),
                            .s = s};
    cpu_sigmoid(s, r.g, n);
    sum = swiglu_grad(weight != NULL ? weight[slot] : 1, &r, n);
    if (r.dg == g)
        cpu_store(&a->dg, i, 0, g, n);
    if (r.du == u)
        cpu_store(&a->du, i, 0, u, n);
    if (dweight != NULL)
        dweight[slot] = sum;
}

enum fr_rc tr_cpu_swiglu_bwd(void *self, struct tr_queue *q, const struct tr_swiglu_grad *a,
                             struct fr_err *err)
{
    int64_t n = a->dh.shape[1];

    return cpu_each_row(self, q,
                        &(struct cpu_loop){.rows = cpu_rows(&a->rows, a->dh.shape[0]),
                                           .n = n,
                                           .floats = 4 * n,
                                           .next = {&a->g, &a->u, &a->dh, &a->dg, &a->du},
                                           .row = swiglu_grad_row,
                                           .args = a},
                        err);
}
