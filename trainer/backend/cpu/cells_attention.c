/*
 * Attention by the kernels of cells.h: scores, probabilities and sums in f32; where cells are pairs
 * of bf16, probabilities and their gradients are rounded where they are factors. Blocks of queries
 * run over blocks of keys in strips of rows, and a strip does not look at keys behind its last
 * query. Source: Dao et al. 2022 (FlashAttention), algorithms 1 and 4.
 */
#include "trainer/backend/cpu/attention.h"
#include "trainer/backend/cpu/cells.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 128, CELL = sizeof(uint32_t) };

/* Scratch of a thread. C: bf16 where cells are pairs, else f32. A square: (BLOCK, BLOCK) of C, the
 * factor a of a product. Packed rows, and columns marked wide, are rounded up to panels. Members
 * after o are for backward alone. */
struct lane {
    float *s, *dp;             /* (strip, BLOCK) scores; dO V^T */
    float *max, *sum;          /* (BLOCK) */
    uint32_t *p;               /* square: probabilities; forward: of a strip */
    uint32_t *kt, *v;          /* packed: K turned (dq, BLOCK), V (BLOCK, dv) */
    uint32_t *rows;            /* copied rows of a strip */
    float *o;                  /* (BLOCK, wide dv) */
    uint32_t *ds;              /* square: gradients of scores */
    uint32_t *pt, *dst;        /* cells of both by queries */
    uint32_t *vt, *k, *q, *dO; /* packed: V turned (dv, BLOCK), K, Q, dO */
    float *d, *dQ, *dK, *dV;   /* (BLOCK) dO.O; (BLOCK, wide dq); (len, wide dq), (len, wide dv) */
};

static int64_t wide(int64_t n)
{
    return cpu_panels_of(n) * cpu_kernels()->panel;
}

bool cpu_attend_f32(const struct tr_attention *a)
{
    bool even = a->Q.shape[2] % 2 == 0 && a->V.shape[2] % 2 == 0;

    return !cpu_kernels()->pairs || a->Q.dtype != TR_BF16 || !even;
}

static int64_t cells_of(const struct tr_attention *a, int64_t k)
{
    return cpu_cells_of(k, cpu_attend_f32(a));
}

/* C, and the bytes of an element of C. */
static enum tr_dtype type_of(const struct tr_attention *a)
{
    return cpu_attend_f32(a) ? TR_F32 : TR_BF16;
}

static int64_t size_of(const struct tr_attention *a)
{
    return (int64_t)tr_dtype_bytes(type_of(a));
}

/* Takes n cells at *at and advances *at. */
static void *take(uint32_t **at, int64_t n)
{
    uint32_t *p = *at;

    *at += n;
    return p;
}

/* Cells of the longest row that a strip copies. */
static int64_t spread(const struct tr_attention *a)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2];

    return cpu_spread(cells_of(a, dq > dv ? dq : dv));
}

static int64_t lane_floats(const struct tr_attention *a, int64_t len)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2], wq = wide(dq), wv = wide(dv);
    int64_t deep = cells_of(a, BLOCK);
    int64_t forward = 2 * CPU_STRIP_AMX * BLOCK + 2 * BLOCK + deep * (BLOCK + wv) +
                      cells_of(a, dq) * BLOCK + CPU_STRIP_AMX * spread(a) + BLOCK * wv;

    if (len == 0)
        return forward;
    return forward + deep * (3 * BLOCK + 2 * wq + wv) + cells_of(a, dv) * BLOCK + BLOCK +
           BLOCK * wq + len * (wq + wv);
}

static struct lane lane_of(const struct tr_attention *a, float *lane, int64_t len)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2], wq = wide(dq), wv = wide(dv);
    int64_t deep = cells_of(a, BLOCK);
    uint32_t *at = (uint32_t *)lane;
    struct lane l;

    l.s = take(&at, CPU_STRIP_AMX * BLOCK);
    l.dp = take(&at, CPU_STRIP_AMX * BLOCK);
    l.max = take(&at, BLOCK);
    l.sum = take(&at, BLOCK);
    l.p = take(&at, deep * BLOCK);
    l.kt = take(&at, cells_of(a, dq) * BLOCK);
    l.v = take(&at, deep * wv);
    l.rows = take(&at, CPU_STRIP_AMX * spread(a));
    l.o = take(&at, BLOCK * wv);
    l.ds = take(&at, deep * BLOCK);
    l.pt = take(&at, deep * BLOCK);
    l.dst = take(&at, deep * BLOCK);
    l.vt = take(&at, cells_of(a, dv) * BLOCK);
    l.k = take(&at, deep * wq);
    l.q = take(&at, deep * wq);
    l.dO = take(&at, deep * wv);
    l.d = take(&at, BLOCK);
    l.dQ = take(&at, BLOCK * wq);
    l.dK = take(&at, len * wq);
    l.dV = take(&at, len * wv);
    return l;
}

/* Row t of head h. */
static const char *row_of(const struct tr_view *v, int64_t t, int64_t h)
{
    return cpu_at(v, t, h * v->shape[2]);
}

/* Panels of tokens ts of head h; turned: of their elements by tokens. */
static void pack_head(const struct cpu_head *x, uint32_t *dst, const struct tr_view *v,
                      struct cpu_range ts, int64_t h, bool turned)
{
    struct cpu_pack p = {.dst = dst,
                         .src = row_of(v, ts.begin, h),
                         .k = turned ? v->shape[2] : cpu_length(ts),
                         .n = turned ? cpu_length(ts) : v->shape[2],
                         .ld = v->ld,
                         .type = v->dtype,
                         .f32 = cpu_attend_f32(x->a)};

    turned ? cpu_kernels()->pack_turned(&p) : cpu_kernels()->pack_rows(&p);
}

/* The cell stride of a key, and of a query, in a square that pack_square transposed. */
struct turned {
    int64_t key, query;
};

static struct turned turned_of(const struct cpu_head *x, struct cpu_range ks)
{
    return x->amx ? (struct turned){BLOCK / 2, 1} : (struct turned){1, cpu_length(ks)};
}

/* A square that has qs rows and ks columns by keys, in cells of queries. */
static void pack_square(const struct cpu_head *x, uint32_t *dst, const uint32_t *square,
                        struct cpu_range qs, struct cpu_range ks)
{
    struct cpu_pack p = {.dst = dst,
                         .src = square,
                         .k = cpu_length(qs),
                         .n = cpu_length(ks),
                         .ld = BLOCK,
                         .type = type_of(x->a),
                         .f32 = cpu_attend_f32(x->a)};

    if (x->amx)
        cpu_pack_across(&p, turned_of(x, ks).key);
    else
        cpu_kernels()->pack_cells(&p);
}

/* Row r of a square. */
static char *square_row(const struct tr_attention *a, const uint32_t *square, int64_t r)
{
    return (char *)(uintptr_t)square + r * BLOCK * size_of(a);
}

/* Rows of src into the tokens' head. */
static void store_head(const struct tr_view *v, struct cpu_range ts, int64_t h, const float *src)
{
    cpu_kernels()->put(&(struct cpu_put){.y = (char *)(uintptr_t)row_of(v, ts.begin, h),
                                         .x = src,
                                         .m = cpu_length(ts),
                                         .n = v->shape[2],
                                         .ldy = v->ld,
                                         .ldx = wide(v->shape[2]),
                                         .alpha = 1,
                                         .type = v->dtype});
}

/* c (strip's rows, ldc) = or, if held, += the strip's rows of a times n columns of b, whose panels
 * have `depth` cells. Changes s in place: a copy would wait for recent stores. */
static void multiply(struct cpu_strip *s, int64_t n, int64_t depth)
{
    const struct cpu_kernels *k = cpu_kernels();

    for (int64_t j = 0; j < n; j += k->panel, s->c += k->panel, s->b += depth * k->panel) {
        s->n = cpu_least(k->panel, n - j);
        if (s->held != NULL)
            s->held = s->c;
        k->strip(s);
    }
}

/* Rows r of a block of queries against a block of keys. */
struct pair {
    struct cpu_range qs, ks, r;
    int64_t most; /* keys that the last row sees */
};

static struct pair pair_of(const struct cpu_head *x, struct cpu_range qs, struct cpu_range ks,
                           int64_t strip)
{
    struct pair p = {qs, ks, cpu_strip_rows(cpu_length(qs), strip, x->amx), 0};

    p.most = cpu_seen(x, qs.begin + p.r.end - 1, ks.begin, cpu_length(ks));
    return p;
}

/* Rows of queries or of dO, the packed keys or values to multiply, and the destination. */
struct factor {
    const struct tr_view *rows;
    const uint32_t *keys;
    float *dst;
};

/* dst (rows, BLOCK) = rows times packed keys. */
static void scores(const struct cpu_head *x, const struct lane *l, const struct pair *p,
                   const struct factor *f)
{
    const struct tr_view *v = f->rows;
    int64_t depth = cells_of(x->a, v->shape[2]);
    struct cpu_strip s = {.c = f->dst,
                          .ldc = BLOCK,
                          .b = f->keys,
                          .m = cpu_length(p->r),
                          .cells = depth,
                          .f32 = cpu_attend_f32(x->a),
                          .amx = x->amx};

    cpu_strip_take(&s, row_of(v, p->qs.begin + p->r.begin, x->h),
                   v->ld * (int64_t)tr_dtype_bytes(v->dtype), v->dtype, l->rows);
    multiply(&s, p->most, depth);
}

/* c (rows of the strip, n) += rows of a square from r on times packed rows of keys. */
static void add_rows(const struct cpu_head *x, const struct pair *p, const char *square, float *c,
                     const uint32_t *keys, int64_t n)
{
    multiply(&(struct cpu_strip){.c = c,
                                 .ldc = wide(n),
                                 .a = square,
                                 .a_row = BLOCK * size_of(x->a),
                                 .a_cell = CELL,
                                 .b = keys,
                                 .m = cpu_length(p->r),
                                 .cells = cells_of(x->a, p->most),
                                 .held = c,
                                 .ld_held = wide(n),
                                 .f32 = cpu_attend_f32(x->a),
                                 .amx = x->amx},
             n, cells_of(x->a, cpu_length(p->ks)));
}

/* Row r of the strip's scores and the row of l->p for its probabilities, up to `width` keys. */
static struct cpu_scores scores_of(const struct cpu_head *x, const struct lane *l,
                                   const struct pair *p, int64_t r, int64_t width)
{
    int64_t i = p->qs.begin + r, n = cpu_seen(x, i, p->ks.begin, cpu_length(p->ks));

    return (struct cpu_scores){.s = l->s + (r - p->r.begin) * BLOCK,
                               .dp = l->dp + (r - p->r.begin) * BLOCK,
                               .from = cpu_passed(x, i, p->ks.begin, n),
                               .n = n,
                               .width = (width + 15) / 16 * 16,
                               .scale = x->a->scale,
                               .f32 = cpu_attend_f32(x->a)};
}

/* Probabilities of row r relative to its running maximum; o and sum are rescaled. */
static void softmax(const struct cpu_head *x, const struct lane *l, const struct pair *p, int64_t r)
{
    const struct cpu_kernels *k = cpu_kernels();
    struct cpu_scores s = scores_of(x, l, p, r, p->most);
    bool begun = l->max[r] != -INFINITY;
    float max = s.n > s.from ? k->scores_max(&s, l->max[r]) : l->max[r];
    float keep = begun ? expf(l->max[r] - max) : 1;

    s.p = square_row(x->a, l->p, r - p->r.begin);
    l->sum[r] = l->sum[r] * keep + k->scores_exp(&s, max);
    l->max[r] = max;
    if (keep != 1)
        cpu_scale(l->o + r * wide(x->dv), keep, x->dv);
}

static void forward_pair(const struct cpu_head *x, const struct lane *l, struct cpu_range qs,
                         struct cpu_range ks)
{
    pack_head(x, l->kt, &x->a->K, ks, x->g, true);
    pack_head(x, l->v, &x->a->V, ks, x->g, false);
    for (int64_t i = 0; i < cpu_strips_of(cpu_length(qs), x->amx); i++) {
        struct pair p = pair_of(x, qs, ks, i);

        scores(x, l, &p, &(struct factor){&x->a->Q, l->kt, l->s});
        for (int64_t r = p.r.begin; r < p.r.end; r++)
            softmax(x, l, &p, r);
        add_rows(x, &p, (const char *)l->p, l->o + p.r.begin * wide(x->dv), l->v, x->dv);
    }
}

static void forward(const struct cpu_head *x, float *lane, struct cpu_range qs)
{
    struct lane l = lane_of(x->a, lane, 0);
    int64_t last = cpu_last_key(x, qs), wv = wide(x->dv);
    float *lse = (float *)x->a->lse.p + x->h * x->a->lse.ld;

    memset(l.o, 0, (size_t)(cpu_length(qs) * wv) * sizeof(float));
    for (int64_t r = 0; r < cpu_length(qs); r++) {
        l.max[r] = -INFINITY;
        l.sum[r] = 0;
    }
    for (int64_t j = cpu_first_block(x, qs, BLOCK); j < last; j += BLOCK)
        forward_pair(x, &l, qs, (struct cpu_range){j, cpu_least(j + BLOCK, last)});
    for (int64_t r = 0; r < cpu_length(qs); r++) {
        int64_t t = qs.begin + r;

        lse[t] = l.max[r] + logf(l.sum[r]);
        cpu_scale(l.o + r * wv, 1 / l.sum[r], x->dv);
    }
    store_head(&x->a->O, qs, x->h, l.o);
    cpu_amx_release();
}

/* Row r of P and dS from its scores and dP. */
static void softmax_grad(const struct cpu_head *x, const struct lane *l, const struct pair *p,
                         int64_t r)
{
    struct cpu_scores s = scores_of(x, l, p, r, cpu_length(p->ks));
    const float *lse = (const float *)x->a->lse.p + x->h * x->a->lse.ld;

    s.p = square_row(x->a, l->p, r);
    s.ds = square_row(x->a, l->ds, r);
    cpu_kernels()->scores_grad(&s, lse[p->qs.begin + r], l->d[r]);
}

/* dst (keys, n) += the transpose of a square, given by its cells, times packed rows of queries: a
 * strip's sums begin at the first query that sees one of its keys, for AMX a multiple of 32. */
static void add_keys(const struct cpu_head *x, const struct pair *p, const uint32_t *square,
                     float *dst, const uint32_t *rows, int64_t n)
{
    int64_t keys = cpu_length(p->ks), depth = cells_of(x->a, cpu_length(p->qs));
    struct turned by = turned_of(x, p->ks);

    for (int64_t i = 0; i < cpu_strips_of(keys, x->amx); i++) {
        struct cpu_range c = cpu_strip_rows(keys, i, x->amx);
        int64_t before = x->a->causal ? p->ks.begin + c.begin - p->qs.begin : 0;
        int64_t first = before <= 0 ? 0 : cpu_attend_f32(x->a) ? before : before / 2;

        multiply(
            &(struct cpu_strip){.c = dst + c.begin * wide(n),
                                .ldc = wide(n),
                                .a = (const char *)(square + first * by.query + c.begin * by.key),
                                .a_row = by.key * CELL,
                                .a_cell = by.query * CELL,
                                .b = rows + first * cpu_kernels()->panel,
                                .m = cpu_length(c),
                                .cells = depth - first,
                                .held = dst,
                                .ld_held = wide(n),
                                .f32 = cpu_attend_f32(x->a),
                                .amx = x->amx},
            n, depth);
    }
}

/* The strips of a pair: P, dS and their part of dQ. */
static void query_strips(const struct cpu_head *x, const struct lane *l, struct cpu_range qs,
                         struct cpu_range ks)
{
    for (int64_t i = 0; i < cpu_strips_of(cpu_length(qs), x->amx); i++) {
        struct pair p = pair_of(x, qs, ks, i);

        scores(x, l, &p, &(struct factor){&x->a->Q, l->kt, l->s});
        scores(x, l, &p, &(struct factor){&x->a->dO, l->vt, l->dp});
        for (int64_t r = p.r.begin; r < p.r.end; r++)
            softmax_grad(x, l, &p, r);
        add_rows(x, &p, square_row(x->a, l->ds, p.r.begin), l->dQ + p.r.begin * wide(x->dq), l->k,
                 x->dq);
    }
}

static void backward_pair(const struct cpu_head *x, const struct lane *l, struct cpu_range qs,
                          struct cpu_range ks)
{
    const struct tr_attention *a = x->a;
    struct pair whole = {.qs = qs, .ks = ks};
    int64_t at = ks.begin - x->begin;

    pack_head(x, l->kt, &a->K, ks, x->g, true);
    pack_head(x, l->vt, &a->V, ks, x->g, true);
    pack_head(x, l->k, &a->K, ks, x->g, false);
    query_strips(x, l, qs, ks);
    pack_square(x, l->pt, l->p, qs, ks);
    pack_square(x, l->dst, l->ds, qs, ks);
    add_keys(x, &whole, l->pt, l->dV + at * wide(x->dv), l->dO, x->dv);
    add_keys(x, &whole, l->dst, l->dK + at * wide(x->dq), l->q, x->dq);
}

static void backward_queries(const struct cpu_head *x, const struct lane *l, struct cpu_range qs)
{
    const struct tr_attention *a = x->a;
    int64_t last = cpu_last_key(x, qs);

    pack_head(x, l->q, &a->Q, qs, x->h, false);
    pack_head(x, l->dO, &a->dO, qs, x->h, false);
    memset(l->dQ, 0, (size_t)(cpu_length(qs) * wide(x->dq)) * sizeof(float));
    for (int64_t r = 0; r < cpu_length(qs); r++)
        l->d[r] = cpu_kernels()->dot(&(struct cpu_pair){.x = row_of(&a->O, qs.begin + r, x->h),
                                                        .y = row_of(&a->dO, qs.begin + r, x->h),
                                                        .n = x->dv,
                                                        .type = a->O.dtype});
    for (int64_t j = cpu_first_block(x, qs, BLOCK); j < last; j += BLOCK)
        backward_pair(x, l, qs, (struct cpu_range){j, cpu_least(j + BLOCK, last)});
    store_head(&a->dQ, qs, x->h, l->dQ);
}

static void backward(struct cpu_head *x, float *lane)
{
    const struct tr_attention *a = x->a;
    struct cpu_range all = {x->begin, x->end};
    int64_t len = cpu_length(all), group = a->Q.shape[1] / a->K.shape[1];
    struct lane l = lane_of(a, lane, len);

    memset(l.dK, 0, (size_t)(len * wide(x->dq)) * sizeof(float));
    memset(l.dV, 0, (size_t)(len * wide(x->dv)) * sizeof(float));
    for (x->h = x->g * group; x->h < (x->g + 1) * group; x->h++)
        for (int64_t i = x->begin; i < x->end; i += BLOCK)
            backward_queries(x, &l, (struct cpu_range){i, cpu_least(i + BLOCK, x->end)});
    store_head(&a->dK, all, x->g, l.dK);
    store_head(&a->dV, all, x->g, l.dV);
    cpu_amx_release();
}

const struct cpu_attend *cpu_attend_cells(void)
{
    static const struct cpu_attend way = {BLOCK, lane_floats, forward, backward};

    return &way;
}
