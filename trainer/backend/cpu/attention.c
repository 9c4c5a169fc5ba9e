/*
 * Attention by blocks of queries and keys, f32 inside, no T x T buffer. One head of one segment is
 * one thread's work (backward: one kv head with all its q heads), so sums have one order. Source:
 * Dao et al. 2022 (FlashAttention), algorithms 1 and 4.
 */
#include "trainer/backend/cpu/attention.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { BQ = 64, BK = 64 }; /* queries and keys of a block */

/* f32 scratch of a thread; backward also has dK and dV of a whole segment. */
struct lane {
    float *q, *kt, *v, *s, *o;         /* (BQ,dq) (dq,BK) (BK,dv) (BQ,BK) (BQ,dv) */
    float *max, *sum;                  /* (BQ) */
    float *k, *vt, *dO, *ds, *st, *dq; /* (BK,dq) (dv,BK) (BQ,dv) (BQ,BK) (BK,BQ) (BQ,dq) */
    float *d;                          /* (BQ) dO.O */
    float *dK, *dV;                    /* (len,dq) (len,dv) */
};

static int64_t lane_floats(const struct tr_attention *a, int64_t len)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2];

    return BQ * (2 * dq + 2 * dv + 3 * BK + 3) + BK * (2 * dq + 2 * dv) + len * (dq + dv);
}

static struct lane lane_of(const struct tr_attention *a, float *p, int64_t len)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2];
    struct lane l;

    l.q = p;
    l.kt = l.q + BQ * dq;
    l.v = l.kt + BK * dq;
    l.s = l.v + BK * dv;
    l.o = l.s + BQ * BK;
    l.max = l.o + BQ * dv;
    l.sum = l.max + BQ;
    l.k = l.sum + BQ;
    l.vt = l.k + BK * dq;
    l.dO = l.vt + BK * dv;
    l.ds = l.dO + BQ * dv;
    l.st = l.ds + BQ * BK;
    l.dq = l.st + BQ * BK;
    l.d = l.dq + BQ * dq;
    l.dK = l.d + BQ;
    l.dV = l.dK + len * dq;
    return l;
}

/* n tokens from t on of head h, row by row. */
static void load_head(float *dst, const struct tr_view *v, int64_t t, int64_t n, int64_t h)
{
    for (int64_t i = 0; i < n; i++)
        cpu_load(dst + i * v->shape[2], v, t + i, h * v->shape[2], v->shape[2]);
}

static void store_head(const struct tr_view *v, int64_t t, int64_t n, int64_t h, const float *src)
{
    for (int64_t i = 0; i < n; i++)
        cpu_store(v, t + i, h * v->shape[2], src + i * v->shape[2], v->shape[2]);
}

/* dst (cols, ld) = src (rows, cols) transposed. */
static void turn(float *dst, int64_t ld, const float *src, int64_t rows, int64_t cols)
{
    cpu_turn(&(struct cpu_turn){dst, src, rows, cols, ld, cols});
}

/* s (m, BK) = scale * q (m, dq) kt (dq, n): the scores of a block. */
static void scores(const struct cpu_head *x, struct lane *l, int64_t m, int64_t n)
{
    memset(l->s, 0, (size_t)(m * BK) * sizeof(float));
    cpu_tile_gemm(&(struct cpu_tile){.c = l->s,
                                     .a = l->q,
                                     .b = l->kt,
                                     .m = m,
                                     .n = n,
                                     .k = x->dq,
                                     .ldc = BK,
                                     .lda = x->dq,
                                     .ldb = BK});
    for (int64_t i = 0; i < m; i++)
        cpu_scale(l->s + i * BK, x->a->scale, n);
}

int64_t cpu_seen(const struct cpu_head *x, int64_t i, int64_t j0, int64_t n)
{
    if (!x->a->causal)
        return n;
    return i < j0 ? 0 : cpu_least(i - j0 + 1, n);
}

int64_t cpu_passed(const struct cpu_head *x, int64_t i, int64_t j0, int64_t n)
{
    int64_t first = i - x->a->window + 1;

    return x->a->window == 0 || first <= j0 ? 0 : cpu_least(first - j0, n);
}

int64_t cpu_first_block(const struct cpu_head *x, struct cpu_range qs, int64_t block)
{
    int64_t first = qs.begin - x->a->window + 1;

    return x->a->window == 0 || first <= x->begin ? x->begin
                                                  : x->begin + (first - x->begin) / block * block;
}

int64_t cpu_last_key(const struct cpu_head *x, struct cpu_range qs)
{
    return x->a->causal ? qs.end : x->end;
}

/* One block of keys: s becomes P relative to the running maximum, o and sum are rescaled. */
static void softmax(const struct cpu_head *x, struct lane *l, struct cpu_range qs,
                    struct cpu_range ks)
{
    for (int64_t i = qs.begin; i < qs.end; i++) {
        int64_t r = i - qs.begin, n = cpu_seen(x, i, ks.begin, ks.end - ks.begin);
        int64_t from = cpu_passed(x, i, ks.begin, n);
        float *p = l->s + r * BK, max, keep;

        if (n > from) {
            max = fmaxf(l->max[r], cpu_max(p + from, n - from));
            keep = l->max[r] == -INFINITY ? 0 : expf(l->max[r] - max);
            l->sum[r] = l->sum[r] * keep + cpu_exp_sum(p + from, max, n - from);
            l->max[r] = max;
            cpu_scale(l->o + r * x->dv, keep, x->dv);
        }
        memset(p, 0, (size_t)from * sizeof *p);
        memset(p + n, 0, (size_t)(BK - n) * sizeof *p);
    }
}

static void forward_block(const struct cpu_head *x, float *lane, struct cpu_range qs)
{
    const struct tr_attention *a = x->a;
    struct lane own = lane_of(a, lane, 0), *l = &own;
    int64_t m = qs.end - qs.begin, last = cpu_last_key(x, qs);
    float *lse = (float *)a->lse.p + x->h * a->lse.ld;

    load_head(l->q, &a->Q, qs.begin, m, x->h);
    memset(l->o, 0, (size_t)(m * x->dv) * sizeof(float));
    for (int64_t r = 0; r < m; r++) {
        l->max[r] = -INFINITY;
        l->sum[r] = 0;
    }
    for (int64_t j = cpu_first_block(x, qs, BK); j < last; j += BK) {
        struct cpu_range ks = {j, cpu_least(j + BK, last)};
        int64_t n = ks.end - j;

        load_head(l->k, &a->K, j, n, x->g);
        turn(l->kt, BK, l->k, n, x->dq);
        load_head(l->v, &a->V, j, n, x->g);
        scores(x, l, m, n);
        softmax(x, l, qs, ks);
        cpu_tile_gemm(&(struct cpu_tile){.c = l->o,
                                         .a = l->s,
                                         .b = l->v,
                                         .m = m,
                                         .n = x->dv,
                                         .k = n,
                                         .ldc = x->dv,
                                         .lda = BK,
                                         .ldb = x->dv});
    }
    for (int64_t r = 0; r < m; r++) {
        cpu_scale(l->o + r * x->dv, 1 / l->sum[r], x->dv);
        lse[qs.begin + r] = l->max[r] + logf(l->sum[r]);
    }
    store_head(&a->O, qs.begin, m, x->h, l->o);
}

/* Turns scores into P (s), and dP (ds) into dS, for one block. */
static void softmax_grad(const struct cpu_head *x, struct lane *l, struct cpu_range qs,
                         struct cpu_range ks)
{
    const float *lse = (const float *)x->a->lse.p + x->h * x->a->lse.ld;

    for (int64_t i = qs.begin; i < qs.end; i++) {
        int64_t r = i - qs.begin, n = cpu_seen(x, i, ks.begin, ks.end - ks.begin);
        int64_t from = cpu_passed(x, i, ks.begin, n);
        float *p = l->s + r * BK, *ds = l->ds + r * BK;

        cpu_exp_sum(p + from, lse[i], n - from);
        memset(p, 0, (size_t)from * sizeof *p);
        memset(ds, 0, (size_t)from * sizeof *ds);
        memset(p + n, 0, (size_t)(BK - n) * sizeof *p);
        for (int64_t j = from; j < n; j++)
            ds[j] = p[j] * (ds[j] - l->d[r]) * x->a->scale;
        memset(ds + n, 0, (size_t)(BK - n) * sizeof *ds);
    }
}

/* One block of queries against one of keys: adds to dq, dK, dV. */
static void backward_pair(const struct cpu_head *x, struct lane *l, struct cpu_range qs,
                          struct cpu_range ks)
{
    int64_t m = qs.end - qs.begin, n = ks.end - ks.begin, at = ks.begin - x->begin;

    load_head(l->k, &x->a->K, ks.begin, n, x->g);
    load_head(l->v, &x->a->V, ks.begin, n, x->g);
    turn(l->kt, BK, l->k, n, x->dq);
    turn(l->vt, BK, l->v, n, x->dv);
    scores(x, l, m, n);
    memset(l->ds, 0, (size_t)(m * BK) * sizeof(float));
    cpu_tile_gemm(&(struct cpu_tile){.c = l->ds,
                                     .a = l->dO,
                                     .b = l->vt,
                                     .m = m,
                                     .n = n,
                                     .k = x->dv,
                                     .ldc = BK,
                                     .lda = x->dv,
                                     .ldb = BK});
    softmax_grad(x, l, qs, ks);
    turn(l->st, BQ, l->s, m, BK);
    cpu_tile_gemm(&(struct cpu_tile){.c = l->dV + at * x->dv,
                                     .a = l->st,
                                     .b = l->dO,
                                     .m = n,
                                     .n = x->dv,
                                     .k = m,
                                     .ldc = x->dv,
                                     .lda = BQ,
                                     .ldb = x->dv});
    turn(l->st, BQ, l->ds, m, BK);
    cpu_tile_gemm(&(struct cpu_tile){.c = l->dK + at * x->dq,
                                     .a = l->st,
                                     .b = l->q,
                                     .m = n,
                                     .n = x->dq,
                                     .k = m,
                                     .ldc = x->dq,
                                     .lda = BQ,
                                     .ldb = x->dq});
    cpu_tile_gemm(&(struct cpu_tile){.c = l->dq,
                                     .a = l->ds,
                                     .b = l->k,
                                     .m = m,
                                     .n = x->dq,
                                     .k = n,
                                     .ldc = x->dq,
                                     .lda = BK,
                                     .ldb = x->dq});
}

static void backward_queries(const struct cpu_head *x, struct lane *l, struct cpu_range qs)
{
    const struct tr_attention *a = x->a;
    int64_t m = qs.end - qs.begin, last = cpu_last_key(x, qs);

    load_head(l->q, &a->Q, qs.begin, m, x->h);
    load_head(l->dO, &a->dO, qs.begin, m, x->h);
    load_head(l->o, &a->O, qs.begin, m, x->h);
    memset(l->dq, 0, (size_t)(m * x->dq) * sizeof(float));
    for (int64_t r = 0; r < m; r++)
        l->d[r] = cpu_dot(l->dO + r * x->dv, l->o + r * x->dv, x->dv);
    for (int64_t j = cpu_first_block(x, qs, BK); j < last; j += BK)
        backward_pair(x, l, qs, (struct cpu_range){j, cpu_least(j + BK, last)});
    store_head(&a->dQ, qs.begin, m, x->h, l->dq);
}

static void backward_head(struct cpu_head *x, float *lane)
{
    const struct tr_attention *a = x->a;
    int64_t len = x->end - x->begin, group = a->Q.shape[1] / a->K.shape[1];
    struct lane own = lane_of(a, lane, len), *l = &own;

    memset(l->dK, 0, (size_t)(len * x->dq) * sizeof(float));
    memset(l->dV, 0, (size_t)(len * x->dv) * sizeof(float));
    for (x->h = x->g * group; x->h < (x->g + 1) * group; x->h++)
        for (int64_t i = x->begin; i < x->end; i += BQ)
            backward_queries(x, l, (struct cpu_range){i, cpu_least(i + BQ, x->end)});
    store_head(&a->dK, x->begin, len, x->g, l->dK);
    store_head(&a->dV, x->begin, len, x->g, l->dV);
}

static const struct cpu_attend attend_f32 = {BQ, lane_floats, forward_block, backward_head};

static const struct cpu_attend *way_of(const struct cpu *cpu)
{
    return cpu->cells != NULL ? cpu_attend_cells() : &attend_f32;
}

size_t cpu_attention_bytes(const struct cpu *cpu, const struct tr_attention *a, int64_t len)
{
    int64_t floats = way_of(cpu)->floats(a, len);

    return (size_t)((floats + 15) / 16 * 16 * cpu->threads) * sizeof(float);
}

static int64_t longest(const struct tr_attention *a)
{
    int64_t len = 0;

    for (int64_t b = 0; b + 1 < a->offsets.shape[0]; b++) {
        int64_t n = cpu_int(&a->offsets, b + 1, 0) - cpu_int(&a->offsets, b, 0);

        len = n > len ? n : len;
    }
    return len;
}

/* Head `index % heads` of segment `index / heads`. */
static struct cpu_head head_of(const struct cpu *cpu, const struct tr_attention *a, int64_t index,
                               int64_t heads)
{
    int64_t b = index / heads;

    return (struct cpu_head){.a = a,
                             .amx = cpu->amx && !cpu_attend_f32(a),
                             .begin = cpu_int(&a->offsets, b, 0),
                             .end = cpu_int(&a->offsets, b + 1, 0),
                             .h = index % heads,
                             .g = index % heads / (heads / a->K.shape[1]),
                             .dq = a->Q.shape[2],
                             .dv = a->V.shape[2]};
}

enum fr_rc tr_cpu_attention_fwd(void *self, struct tr_queue *q, const struct tr_attention *a,
                                struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t nh = a->Q.shape[1], tasks = (a->offsets.shape[0] - 1) * nh;
    const struct cpu_attend *way = way_of(cpu);
    int64_t floats = way->floats(a, 0), blocks = (longest(a) + way->block - 1) / way->block;
    float *lanes;
    enum fr_rc rc = cpu_lanes(cpu, q, floats, &lanes, err);

    if (rc != FR_OK)
        return rc;
#pragma omp parallel for num_threads(cpu->threads) collapse(2)                                     \
    schedule(dynamic) if (tr_view_count(a->Q) > CPU_SMALL)
    for (int64_t i = 0; i < tasks; i++)
        for (int64_t b = 0; b < blocks; b++) {
            struct cpu_head x = head_of(cpu, a, i, nh);
            int64_t i0 = x.begin + b * way->block;
            struct cpu_range qs = {i0, cpu_least(i0 + way->block, x.end)};

            if (qs.begin < qs.end)
                way->forward(&x, cpu_lane(lanes, floats), qs);
        }
    return FR_OK;
}

enum fr_rc tr_cpu_attention_bwd(void *self, struct tr_queue *q, const struct tr_attention *a,
                                struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t nkv = a->K.shape[1], tasks = (a->offsets.shape[0] - 1) * nkv, len = longest(a);
    const struct cpu_attend *way = way_of(cpu);
    int64_t floats = way->floats(a, len);
    float *lanes;
    enum fr_rc rc = cpu_lanes(cpu, q, floats, &lanes, err);

    if (rc != FR_OK)
        return rc;
#pragma omp parallel for num_threads(cpu->threads)                                                 \
    schedule(dynamic) if (tr_view_count(a->Q) > CPU_SMALL)
    for (int64_t i = 0; i < tasks; i++) {
        struct cpu_head x = head_of(cpu, a, i, nkv);

        x.g = x.h;
        way->backward(&x, cpu_lane(lanes, floats));
    }
    return FR_OK;
}
