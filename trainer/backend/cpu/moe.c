#include "trainer/backend/cpu/cells.h"

#include <math.h>
#include <string.h>

/* Work per expert and token, in elements of other ops. */
enum { ROUTE = 8 };

/* The sum of the two largest of c[0..size). */
static float group_score(const float *c, int64_t size)
{
    float best = -INFINITY, second = -INFINITY;

    for (int64_t e = 0; e < size; e++)
        if (c[e] > best) {
            second = best;
            best = c[e];
        } else if (c[e] > second) {
            second = c[e];
        }
    return best + second;
}

/* taken[i] = 1 for the n largest of v[0..count), else 0; ties go to the lower index. NaN counts as
 * smallest, so n are always found. */
static void take_largest(const float *v, int64_t count, int64_t n, float *taken)
{
    memset(taken, 0, (size_t)count * sizeof *taken);
    while (n-- > 0) {
        int64_t best = -1;

        for (int64_t i = 0; i < count; i++)
            if (taken[i] == 0 && (best < 0 || v[i] > v[best] || isnan(v[best])))
                best = i;
        taken[best] = 1;
    }
}

/* Scratch of a token: s (E), c (E), taken (E), group scores and groups kept (n_group each). */
static void choose(const struct tr_router *a, int64_t t, const float *s, float *work)
{
    int64_t E = a->gate.shape[0], size = E / a->n_group, at = 0;
    float *c = work, *taken = work + E, *scores = work + 2 * E, *kept = scores + a->n_group;
    int32_t *ids = (int32_t *)a->ids.p + t * a->ids.ld;

    memcpy(c, s, (size_t)E * sizeof *c);
    if (!tr_view_absent(a->bias))
        cpu_axpy(c, 1, a->bias.p, E);
    if (a->n_group > 1) {
        for (int64_t g = 0; g < a->n_group; g++)
            scores[g] = group_score(c + g * size, size);
        take_largest(scores, a->n_group, a->topk_group, kept);
        for (int64_t e = 0; e < E; e++)
            if (kept[e / size] == 0)
                c[e] = -INFINITY;
    }
    take_largest(c, E, a->ids.shape[1], taken);
    for (int64_t e = 0; e < E; e++)
        if (taken[e] != 0)
            ids[at++] = (int32_t)e;
}

static void route(const struct tr_router *a, int64_t t, float *s, float *work)
{
    int64_t E = a->gate.shape[0], K = a->ids.shape[1];
    const int32_t *ids = (const int32_t *)a->ids.p + t * a->ids.ld;
    float *weights = (float *)a->weights.p + t * a->weights.ld;
    float *scores = (float *)a->scores.p + t * a->scores.ld;
    float sum = 0;

    if (a->softmax)
        cpu_scale(s, 1 / cpu_exp_sum(s, cpu_max(s, E), E), E);
    else
        cpu_sigmoid(s, s, E);
    if (!tr_view_absent(a->all))
        memcpy((float *)a->all.p + t * a->all.ld, s, (size_t)E * sizeof *s);
    if (!a->replay)
        choose(a, t, s, work);
    for (int64_t k = 0; k < K; k++) {
        scores[k] = s[ids[k]];
        sum += scores[k];
    }
    for (int64_t k = 0; k < K; k++)
        weights[k] = a->factor * (a->norm ? scores[k] / (sum + 1e-20f) : scores[k]);
}

static int64_t router_lane(const struct tr_router *a)
{
    return 2 * a->gate.shape[0] + 2 * a->n_group;
}

size_t cpu_router_bytes(const struct cpu *cpu, const struct tr_router *a)
{
    return (size_t)(a->x.shape[0] * a->gate.shape[0] + cpu->threads * (router_lane(a) + 16)) *
           sizeof(float);
}

enum fr_rc tr_cpu_router_fwd(void *self, struct tr_queue *q, const struct tr_router *a,
                             struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->x.shape[0], E = a->gate.shape[0], lane = router_lane(a);
    void *work;
    float *z;
    enum fr_rc rc = cpu_work(q, CPU_WORK_OP, cpu_router_bytes(cpu, a), &work, err);

    if (rc != FR_OK)
        return rc;
    z = work;
    rc = cpu_product(cpu, q,
                     &(struct tr_gemm){.c = tr_view2(z, TR_F32, T, E),
                                       .a = a->x,
                                       .b = {.w = a->gate},
                                       .trans_b = true,
                                       .alpha = 1},
                     err);
    if (rc != FR_OK)
        return rc;
#pragma omp parallel for num_threads(cpu->threads) if (T * E * ROUTE > CPU_SMALL)
    for (int64_t t = 0; t < T; t++)
        route(a, t, z + t * E, cpu_lane(z + T * E, lane));
    return FR_OK;
}

/* Experts of a token that have a gradient: its K, or all of them. */
static int64_t graded(const struct tr_router_grad *a)
{
    return tr_view_absent(a->all) ? a->ids.shape[1] : a->gate.shape[0];
}

/* The k-th of them. */
static int64_t graded_at(const struct tr_router_grad *a, int64_t t, int64_t k)
{
    return tr_view_absent(a->all) ? cpu_int(&a->ids, t, k) : k;
}

/* dz of all experts of token t. */
static void route_grad_all(const struct tr_router_grad *a, int64_t t, float *dz)
{
    int64_t K = a->ids.shape[1], E = a->gate.shape[0];
    const float *d = (const float *)a->dweights.p + t * a->dweights.ld;
    const float *s = (const float *)a->all.p + t * a->all.ld;
    float mean = 0;

    for (int64_t k = 0; k < K; k++)
        mean += s[cpu_int(&a->ids, t, k)] * d[k];
    for (int64_t e = 0; e < E; e++)
        dz[e] = -mean;
    for (int64_t k = 0; k < K; k++)
        dz[cpu_int(&a->ids, t, k)] += d[k];
    for (int64_t e = 0; e < E; e++)
        dz[e] *= a->factor * s[e];
}

/* dz of the chosen experts of token t. */
static void route_grad(const struct tr_router_grad *a, int64_t t, float *dz)
{
    int64_t K = a->ids.shape[1];
    const float *d = (const float *)a->dweights.p + t * a->dweights.ld;
    const float *s = (const float *)a->scores.p + t * a->scores.ld;
    float S = 1e-20f, mean = 0;

    for (int64_t k = 0; k < K; k++)
        S += s[k];
    for (int64_t k = 0; k < K; k++)
        mean += s[k] / S * d[k];
    for (int64_t k = 0; k < K; k++)
        dz[k] =
            a->factor * (a->norm ? (d[k] - mean) / S : d[k]) * s[k] * (a->softmax ? 1 : 1 - s[k]);
}

/* dgate's columns [col, col+n), from the dz of all tokens. */
static void gate_grad(const struct tr_router_grad *a, const float *dz, int64_t col, float *x)
{
    enum { COLUMNS = 256 };
    int64_t n = a->x.shape[1] - col < COLUMNS ? a->x.shape[1] - col : COLUMNS;
    int64_t N = graded(a);

    for (int64_t t = 0; t < a->x.shape[0]; t++) {
        cpu_load(x, &a->x, t, col, n);
        for (int64_t k = 0; k < N; k++)
            cpu_axpy((float *)a->dgate.p + graded_at(a, t, k) * a->dgate.ld + col, dz[t * N + k], x,
                     n);
    }
}

static int64_t router_grad_lane(const struct tr_router_grad *a)
{
    return 2 * a->dx.shape[1] + 256;
}

size_t cpu_router_grad_bytes(const struct cpu *cpu, const struct tr_router_grad *a)
{
    return (size_t)(a->dx.shape[0] * graded(a) + cpu->threads * (router_grad_lane(a) + 16)) *
           sizeof(float);
}

enum fr_rc tr_cpu_router_bwd(void *self, struct tr_queue *q, const struct tr_router_grad *a,
                             struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->dx.shape[0], H = a->dx.shape[1], N = graded(a);
    int64_t lane = router_grad_lane(a);
    void *work;
    float *dz;
    enum fr_rc rc = cpu_work(q, CPU_WORK_OP, cpu_router_grad_bytes(cpu, a), &work, err);

    if (rc != FR_OK)
        return rc;
    dz = work;
#pragma omp parallel for num_threads(cpu->threads) if (T * H > CPU_SMALL)
    for (int64_t t = 0; t < T; t++) {
        float *dx = cpu_lane(dz + T * N, lane), *row = dx + H;

        if (tr_view_absent(a->all))
            route_grad(a, t, dz + t * N);
        else
            route_grad_all(a, t, dz + t * N);
        if (a->add)
            cpu_load(dx, &a->dx, t, 0, H);
        else
            memset(dx, 0, (size_t)H * sizeof *dx);
        for (int64_t k = 0; k < N; k++) {
            cpu_axpy(dx, dz[t * N + k], cpu_row(row, &a->gate, graded_at(a, t, k), H), H);
        }
        cpu_store(&a->dx, t, 0, dx, H);
    }
    if (tr_view_absent(a->dgate))
        return FR_OK;
#pragma omp parallel for num_threads(cpu->threads) if (T * H > CPU_SMALL)
    for (int64_t col = 0; col < H; col += 256)
        gate_grad(a, dz, col, cpu_lane(dz + T * N, lane));
    return FR_OK;
}

enum fr_rc tr_cpu_moe_plan(void *self, struct tr_queue *q, const struct tr_moe_plan *a,
                           struct fr_err *err)
{
    int64_t E = a->counts.shape[0], R = tr_view_count(a->ids), end = R;
    const int32_t *ids = a->ids.p;
    int32_t *counts = a->counts.p, *offsets = a->offsets.p, *row_of = a->row_of.p;
    int32_t *slot_of = a->slot_of.p;

    if (!tr_view_absent(a->tokens)) {
        end = *(const int32_t *)a->tokens.p * a->ids.shape[1];
        end = end < R ? end : R;
    }
    memset(counts, 0, (size_t)E * sizeof *counts);
    for (int64_t s = 0; s < R; s++)
        row_of[s] = slot_of[s] = -1;
    for (int64_t s = 0; s < end; s++)
        if (ids[s] >= 0 && ids[s] < E)
            counts[ids[s]]++;
    offsets[0] = 0;
    for (int64_t e = 0; e < E; e++) {
        offsets[e + 1] = offsets[e] + counts[e];
        counts[e] = 0;
    }
    for (int64_t s = 0; s < end; s++)
        if (ids[s] >= 0 && ids[s] < E) {
            row_of[s] = offsets[ids[s]] + counts[ids[s]]++;
            slot_of[row_of[s]] = (int32_t)s;
        }
    return FR_OK;
}

static void permute_row(const void *args, int64_t i, float *x)
{
    const struct tr_moe_permute *a = args;
    int64_t n = a->xp.shape[1], slot = cpu_int(&a->slot_of, i, 0);

    if (slot < 0)
        return;
    if (i + 1 < a->xp.shape[0] && cpu_int(&a->slot_of, i + 1, 0) >= 0)
        cpu_bring_row(&a->x, cpu_int(&a->slot_of, i + 1, 0) / a->K);
    if (tr_view_absent(a->weight)) {
        cpu_copy_row(cpu_row_at(&a->xp, i), cpu_row_at(&a->x, slot / a->K),
                     (size_t)n * tr_dtype_bytes(a->x.dtype));
        return;
    }
    cpu_load(x, &a->x, slot / a->K, 0, n);
    cpu_scale(x, ((const float *)a->weight.p)[slot], n);
    cpu_store(&a->xp, i, 0, x, n);
}

enum fr_rc tr_cpu_moe_permute(void *self, struct tr_queue *q, const struct tr_moe_permute *a,
                              struct fr_err *err)
{
    int64_t n = a->xp.shape[1];

    return cpu_each_row(self, q,
                        &(struct cpu_loop){.rows = cpu_rows(&a->rows, a->xp.shape[0]),
                                           .n = n,
                                           .floats = n,
                                           .next = {&a->xp},
                                           .row = permute_row,
                                           .args = a},
                        err);
}

/* Computes row t by the kernel of cells.h; false: the kernel does not take the types or the number
 * of rows. */
static bool combine_cells(const struct tr_moe_combine *a, int64_t t)
{
    bool f32 = a->y.dtype == TR_F32, weighted = !tr_view_absent(a->weight);
    struct cpu_combine c = {.n = a->y.shape[1], .f32 = f32};

    if (a->y.dtype != a->yp.dtype || (!f32 && a->y.dtype != TR_BF16) ||
        a->row_of.shape[1] > CPU_COMBINE || cpu_kernels() == NULL)
        return false;
    c.y = cpu_row_at(&a->y, t);
    c.add = tr_view_absent(a->add) ? NULL : cpu_row_at(&a->add, t);
    for (int64_t k = 0; k < a->row_of.shape[1]; k++) {
        int64_t at = cpu_int(&a->row_of, t, k);

        if (at < 0)
            continue;
        c.rows[c.count] = cpu_row_at(&a->yp, at);
        c.weights[c.count++] = weighted ? ((const float *)a->weight.p)[t * a->weight.ld + k] : 1;
    }
    cpu_kernels()->combine(&c);
    return true;
}

static void combine_row(const void *args, int64_t t, float *lane)
{
    const struct tr_moe_combine *a = args;
    int64_t n = a->y.shape[1], K = a->row_of.shape[1];
    float *sum = cpu_out(lane, &a->y, t), *row = lane + n;

    for (int64_t k = 0; k < K && t + 1 < a->y.shape[0]; k++)
        cpu_bring_row(&a->yp, cpu_int(&a->row_of, t + 1, k));
    if (combine_cells(a, t))
        return;
    if (tr_view_absent(a->add))
        memset(sum, 0, (size_t)n * sizeof *sum);
    else
        cpu_load(sum, &a->add, t, 0, n);
    for (int64_t k = 0; k < K; k++) {
        int64_t at = cpu_int(&a->row_of, t, k);

        if (at < 0)
            continue;
        cpu_axpy(sum,
                 tr_view_absent(a->weight) ? 1 : ((const float *)a->weight.p)[t * a->weight.ld + k],
                 cpu_row(row, &a->yp, at, n), n);
    }
    if (sum == lane)
        cpu_store(&a->y, t, 0, sum, n);
}

enum fr_rc tr_cpu_moe_combine(void *self, struct tr_queue *q, const struct tr_moe_combine *a,
                              struct fr_err *err)
{
    int64_t n = a->y.shape[1];

    return cpu_each_row(self, q,
                        &(struct cpu_loop){.rows = {0, a->y.shape[0]},
                                           .n = n,
                                           .floats = 2 * n,
                                           .next = {&a->add, &a->y},
                                           .row = combine_row,
                                           .args = a},
                        err);
}
