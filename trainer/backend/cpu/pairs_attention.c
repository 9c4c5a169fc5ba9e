/*
 * Attention in bf16 by dot products of pairs: scores, probabilities and sums in f32, probabilities
 * and their gradients rounded where they are factors. Blocks of queries run over blocks of keys in
 * strips of rows, and a strip does not look at keys behind its last query.
 * Source: Dao et al. 2022 (FlashAttention), algorithms 1 and 4.
 */
#include "trainer/backend/cpu/attention.h"
#include "trainer/backend/cpu/pairs.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 128, CELL = sizeof(uint32_t), HALF = sizeof(uint16_t) };

/* Scratch of a thread; behind o of backward alone. dq', dv': rounded up to panels. */
struct lane {
    float *s, *dp;           /* (STRIP, BLOCK) scores; dO V^T */
    float *max, *sum;        /* (BLOCK) */
    uint16_t *p;             /* (BLOCK, BLOCK) probabilities; forward: of a strip */
    uint32_t *kt, *v;        /* packed: K turned (dq, BLOCK); V (BLOCK, dv') */
    float *o;                /* (BLOCK, dv') */
    uint16_t *ds;            /* (BLOCK, BLOCK) gradients of scores */
    uint32_t *pt, *dst;      /* pairs of rows of p, ds (BLOCK/2, BLOCK) */
    uint32_t *vt, *k;        /* packed: V turned (dv, BLOCK); K (BLOCK, dq') */
    uint32_t *q, *dO;        /* packed: (BLOCK, dq'), (BLOCK, dv') */
    float *d, *dQ, *dK, *dV; /* (BLOCK) dO.O; (BLOCK, dq'), (len, dq'), (len, dv') */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t wide(int64_t n)
{
    return cpu_panels_of(n) * CPU_PANEL;
}

static int64_t lane_floats(const struct tr_attention *a, int64_t len)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2], wq = wide(dq), wv = wide(dv);
    int64_t forward = 2 * CPU_STRIP * BLOCK + 2 * BLOCK + BLOCK * BLOCK / 2 + dq / 2 * BLOCK +
                      BLOCK / 2 * wv + BLOCK * wv;

    if (len == 0)
        return forward;
    return forward + 3 * BLOCK * BLOCK / 2 + dv / 2 * BLOCK + BLOCK / 2 * (2 * wq + wv) + BLOCK +
           BLOCK * wq + len * (wq + wv);
}

static struct lane lane_of(const struct tr_attention *a, float *at, int64_t len)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2], wq = wide(dq), wv = wide(dv);
    struct lane l;

    l.s = at;
    l.dp = l.s + CPU_STRIP * BLOCK;
    l.max = l.dp + CPU_STRIP * BLOCK;
    l.sum = l.max + BLOCK;
    l.p = (uint16_t *)(l.sum + BLOCK);
    l.kt = (uint32_t *)(l.p + BLOCK * BLOCK);
    l.v = l.kt + dq / 2 * BLOCK;
    l.o = (float *)(l.v + BLOCK / 2 * wv);
    l.ds = (uint16_t *)(l.o + BLOCK * wv);
    l.pt = (uint32_t *)(l.ds + BLOCK * BLOCK);
    l.dst = l.pt + BLOCK / 2 * BLOCK;
    l.vt = l.dst + BLOCK / 2 * BLOCK;
    l.k = l.vt + dv / 2 * BLOCK;
    l.q = l.k + BLOCK / 2 * wq;
    l.dO = l.q + BLOCK / 2 * wq;
    l.d = (float *)(l.dO + BLOCK / 2 * wv);
    l.dQ = l.d + BLOCK;
    l.dK = l.dQ + BLOCK * wq;
    l.dV = l.dK + len * wq;
    return l;
}

static int64_t length(struct cpu_range r)
{
    return r.end - r.begin;
}

/* Row t of head h. */
static const uint16_t *row_of(const struct tr_view *v, int64_t t, int64_t h)
{
    return (const uint16_t *)v->p + t * v->ld + h * v->shape[2];
}

static struct cpu_pack rows_to(uint32_t *dst, const struct tr_view *v, struct cpu_range ts,
                               int64_t h)
{
    return (struct cpu_pack){dst, row_of(v, ts.begin, h), length(ts), v->shape[2], v->ld};
}

static struct cpu_pack turned_to(uint32_t *dst, const struct tr_view *v, struct cpu_range ts,
                                 int64_t h)
{
    return (struct cpu_pack){dst, row_of(v, ts.begin, h), v->shape[2], length(ts), v->ld};
}

static void store_head(const struct tr_view *v, struct cpu_range ts, int64_t h, const float *src)
{
    int64_t n = v->shape[2];

    for (int64_t t = ts.begin; t < ts.end; t++)
        cpu_store(v, t, h * n, src + (t - ts.begin) * wide(n), n);
}

/* c (strip's rows, ldc) = or += the strip's rows of a times n columns of b, whose panels have
 * `depth` pairs. */
static void multiply(struct cpu_strip s, int64_t n, int64_t depth)
{
    for (int64_t j = 0; j < n; j += CPU_PANEL, s.c += CPU_PANEL, s.b += depth * CPU_PANEL) {
        s.n = least(CPU_PANEL, n - j);
        cpu_strip(&s);
    }
}

/* Rows r of a block of queries against a block of keys. */
struct pair {
    struct cpu_range qs, ks, r;
    int64_t most; /* keys that the last of the rows sees */
};

static struct pair pair_of(const struct cpu_head *x, struct cpu_range qs, struct cpu_range ks,
                           int64_t strip)
{
    struct pair p = {qs, ks, cpu_strip_rows(length(qs), strip), 0};

    p.most = cpu_seen(x, qs.begin + p.r.end - 1, ks.begin, length(ks));
    return p;
}

/* dst (rows, BLOCK) = rows of v times packed keys of `depth` pairs. */
static void scores(const struct cpu_head *x, const struct pair *p, float *dst,
                   const struct tr_view *v, const uint32_t *keys)
{
    int64_t depth = v->shape[2] / 2;

    multiply((struct cpu_strip){.c = dst,
                                .ldc = BLOCK,
                                .a = (const char *)row_of(v, p->qs.begin + p->r.begin, x->h),
                                .a_row = v->ld * HALF,
                                .a_pair = CELL,
                                .b = keys,
                                .m = length(p->r),
                                .pairs = depth},
             p->most, depth);
}

/* Values [from, n) of a row of BLOCK as bf16, zeros around them. */
static void round_row(uint16_t *dst, const float *src, int64_t from, int64_t n)
{
    memset(dst, 0, (size_t)from * HALF);
    if (n > from)
        cpu_from_f32(dst + from, TR_BF16, src + from, n - from);
    memset(dst + n, 0, (size_t)(BLOCK - n) * HALF);
}

/* Probabilities of row r relative to its running maximum; o and sum are rescaled. */
static void softmax(const struct cpu_head *x, const struct lane *l, const struct pair *p, int64_t r)
{
    int64_t i = p->qs.begin + r, n = cpu_seen(x, i, p->ks.begin, length(p->ks));
    int64_t from = cpu_passed(x, i, p->ks.begin, n);
    float *s = l->s + (r - p->r.begin) * BLOCK, max, keep;

    if (n > from) {
        cpu_scale(s + from, x->a->scale, n - from);
        max = fmaxf(l->max[r], cpu_max(s + from, n - from));
        keep = l->max[r] == -INFINITY ? 0 : expf(l->max[r] - max);
        l->sum[r] = l->sum[r] * keep + cpu_exp_sum(s + from, max, n - from);
        l->max[r] = max;
        if (keep != 1)
            cpu_scale(l->o + r * wide(x->dv), keep, x->dv);
    }
    round_row(l->p + (r - p->r.begin) * BLOCK, s, from, n);
}

static void forward_pair(const struct cpu_head *x, const struct lane *l, struct cpu_range qs,
                         struct cpu_range ks)
{
    struct cpu_pack kt = turned_to(l->kt, &x->a->K, ks, x->g);
    struct cpu_pack v = rows_to(l->v, &x->a->V, ks, x->g);

    cpu_pack_turned(&kt);
    cpu_pack_rows(&v);
    for (int64_t i = 0; i < cpu_strips_of(length(qs)); i++) {
        struct pair p = pair_of(x, qs, ks, i);

        scores(x, &p, l->s, &x->a->Q, l->kt);
        for (int64_t r = p.r.begin; r < p.r.end; r++)
            softmax(x, l, &p, r);
        multiply((struct cpu_strip){.c = l->o + p.r.begin * wide(x->dv),
                                    .ldc = wide(x->dv),
                                    .a = (const char *)l->p,
                                    .a_row = BLOCK * HALF,
                                    .a_pair = CELL,
                                    .b = l->v,
                                    .m = length(p.r),
                                    .pairs = cpu_pairs_of(p.most),
                                    .add = true},
                 x->dv, cpu_pairs_of(length(ks)));
    }
}

static void forward(const struct cpu_head *x, float *lane, struct cpu_range qs)
{
    struct lane l = lane_of(x->a, lane, 0);
    int64_t last = cpu_last_key(x, qs), wv = wide(x->dv);
    float *lse = (float *)x->a->lse.p + x->h * x->a->lse.ld;

    memset(l.o, 0, (size_t)(length(qs) * wv) * sizeof(float));
    for (int64_t r = 0; r < length(qs); r++) {
        l.max[r] = -INFINITY;
        l.sum[r] = 0;
    }
    for (int64_t j = cpu_first_block(x, qs, BLOCK); j < last; j += BLOCK)
        forward_pair(x, &l, qs, (struct cpu_range){j, least(j + BLOCK, last)});
    for (int64_t r = 0; r < length(qs); r++) {
        cpu_scale(l.o + r * wv, 1 / l.sum[r], x->dv);
        lse[qs.begin + r] = l.max[r] + logf(l.sum[r]);
    }
    store_head(&x->a->O, qs, x->h, l.o);
}

/* Row r of P and dS from its scores and dP. */
static void softmax_grad(const struct cpu_head *x, const struct lane *l, const struct pair *p,
                         int64_t r)
{
    int64_t i = p->qs.begin + r, n = cpu_seen(x, i, p->ks.begin, length(p->ks));
    int64_t from = cpu_passed(x, i, p->ks.begin, n);
    float *s = l->s + (r - p->r.begin) * BLOCK, *ds = l->dp + (r - p->r.begin) * BLOCK;
    float lse = ((const float *)x->a->lse.p)[x->h * x->a->lse.ld + i], d = l->d[r];
    float scale = x->a->scale;

    cpu_scale(s + from, scale, n - from);
    cpu_exp_sum(s + from, lse, n - from);
    for (int64_t j = from; j < n; j++)
        ds[j] = s[j] * (ds[j] - d) * scale;
    round_row(l->p + r * BLOCK, s, from, n);
    round_row(l->ds + r * BLOCK, ds, from, n);
}

/* dst (keys, wide) += the transpose of pairs (queries, keys) times packed rows (queries, n): a
 * key's sums begin at the first query that sees it. */
static void add_keys(const struct cpu_head *x, const struct pair *p, const uint32_t *pairs,
                     const uint32_t *rows, float *dst, int64_t n)
{
    int64_t keys = length(p->ks), depth = cpu_pairs_of(length(p->qs));

    for (int64_t i = 0; i < cpu_strips_of(keys); i++) {
        struct cpu_range c = cpu_strip_rows(keys, i);
        int64_t first = x->a->causal ? p->ks.begin + c.begin - p->qs.begin : 0;

        first = first < 0 ? 0 : first / 2;
        multiply((struct cpu_strip){.c = dst + c.begin * wide(n),
                                    .ldc = wide(n),
                                    .a = (const char *)(pairs + first * keys + c.begin),
                                    .a_row = CELL,
                                    .a_pair = keys * CELL,
                                    .b = rows + first * CPU_PANEL,
                                    .m = length(c),
                                    .pairs = depth - first,
                                    .add = true},
                 n, depth);
    }
}

/* The strips of a pair: P, dS and their part of dQ. */
static void query_strips(const struct cpu_head *x, const struct lane *l, struct cpu_range qs,
                         struct cpu_range ks)
{
    int64_t depth = cpu_pairs_of(length(ks)), wq = wide(x->dq);

    for (int64_t i = 0; i < cpu_strips_of(length(qs)); i++) {
        struct pair p = pair_of(x, qs, ks, i);

        scores(x, &p, l->s, &x->a->Q, l->kt);
        scores(x, &p, l->dp, &x->a->dO, l->vt);
        for (int64_t r = p.r.begin; r < p.r.end; r++)
            softmax_grad(x, l, &p, r);
        multiply((struct cpu_strip){.c = l->dQ + p.r.begin * wq,
                                    .ldc = wq,
                                    .a = (const char *)(l->ds + p.r.begin * BLOCK),
                                    .a_row = BLOCK * HALF,
                                    .a_pair = CELL,
                                    .b = l->k,
                                    .m = length(p.r),
                                    .pairs = cpu_pairs_of(p.most),
                                    .add = true},
                 x->dq, depth);
    }
}

static void backward_pair(const struct cpu_head *x, const struct lane *l, struct cpu_range qs,
                          struct cpu_range ks)
{
    const struct tr_attention *a = x->a;
    struct cpu_pack kt = turned_to(l->kt, &a->K, ks, x->g), k = rows_to(l->k, &a->K, ks, x->g);
    struct cpu_pack vt = turned_to(l->vt, &a->V, ks, x->g);
    struct cpu_pack pt = {l->pt, l->p, length(qs), length(ks), BLOCK};
    struct cpu_pack dst = {l->dst, l->ds, length(qs), length(ks), BLOCK};
    struct pair whole = {.qs = qs, .ks = ks};
    int64_t at = ks.begin - x->begin;

    cpu_pack_turned(&kt);
    cpu_pack_turned(&vt);
    cpu_pack_rows(&k);
    query_strips(x, l, qs, ks);
    cpu_pack_pairs(&pt);
    cpu_pack_pairs(&dst);
    add_keys(x, &whole, l->pt, l->dO, l->dV + at * wide(x->dv), x->dv);
    add_keys(x, &whole, l->dst, l->q, l->dK + at * wide(x->dq), x->dq);
}

static void backward_queries(const struct cpu_head *x, const struct lane *l, struct cpu_range qs)
{
    const struct tr_attention *a = x->a;
    struct cpu_pack q = rows_to(l->q, &a->Q, qs, x->h), dO = rows_to(l->dO, &a->dO, qs, x->h);
    int64_t last = cpu_last_key(x, qs);

    cpu_pack_rows(&q);
    cpu_pack_rows(&dO);
    memset(l->dQ, 0, (size_t)(length(qs) * wide(x->dq)) * sizeof(float));
    for (int64_t r = 0; r < length(qs); r++) {
        cpu_load(l->o, &a->O, qs.begin + r, x->h * x->dv, x->dv);
        cpu_load(l->o + x->dv, &a->dO, qs.begin + r, x->h * x->dv, x->dv);
        l->d[r] = cpu_dot(l->o, l->o + x->dv, x->dv);
    }
    for (int64_t j = cpu_first_block(x, qs, BLOCK); j < last; j += BLOCK)
        backward_pair(x, l, qs, (struct cpu_range){j, least(j + BLOCK, last)});
    store_head(&a->dQ, qs, x->h, l->dQ);
}

static void backward(struct cpu_head *x, float *lane)
{
    const struct tr_attention *a = x->a;
    struct cpu_range all = {x->begin, x->end};
    int64_t len = length(all), group = a->Q.shape[1] / a->K.shape[1];
    struct lane l = lane_of(a, lane, len);

    memset(l.dK, 0, (size_t)(len * wide(x->dq)) * sizeof(float));
    memset(l.dV, 0, (size_t)(len * wide(x->dv)) * sizeof(float));
    for (x->h = x->g * group; x->h < (x->g + 1) * group; x->h++)
        for (int64_t i = x->begin; i < x->end; i += BLOCK)
            backward_queries(x, &l, (struct cpu_range){i, least(i + BLOCK, x->end)});
    store_head(&a->dK, all, x->g, l.dK);
    store_head(&a->dV, all, x->g, l.dV);
}

const struct cpu_attend *cpu_attend_pairs(void)
{
    static const struct cpu_attend way = {BLOCK, lane_floats, forward, backward};

    return &way;
}
