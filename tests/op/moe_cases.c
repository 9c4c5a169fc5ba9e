#include "tests/op/op.h"

#include <stdio.h>

static struct op_case *begin(const char *op, enum tr_dtype t, int64_t a, int64_t b, int64_t c)
{
    struct op_case *k;
    char what[96];

    snprintf(what, sizeof what, "%s %s %lld %lld %lld", op, tr_dtype_name(t), (long long)a,
             (long long)b, (long long)c);
    op_begin(&k, what);
    return k;
}

/* Elements between rows of n, so that kernels meet every way of moving rows: whole words of 16
 * bytes, odd sizes, and whole words in rows that do not begin at 16 bytes. */
static int64_t gap(int64_t n, int64_t odd)
{
    return n % 16 == 0 ? 8 : odd;
}

struct router {
    int64_t T, H, E, K, groups, top;
    bool norm, bias;
    double scale; /* of the gate */
    bool softmax;
};

static void router(enum tr_dtype t, const struct router *s, bool replay)
{
    bool all = s->softmax && !s->norm;

    static const int64_t forced[] = {0, 1, 2, 3, 4, 5, 6, 7}; /* of them K */
    struct tr_router f[OP_BACKENDS] = {0};
    struct tr_router_grad g[OP_BACKENDS] = {0};
    struct op_case *c = begin("router_fwd", t, s->T, s->E, s->K);

    for (int b = 0; b < OP_BACKENDS; b++) {
        f[b].n_group = s->groups;
        f[b].topk_group = s->top;
        f[b].factor = g[b].factor = 2.5f;
        f[b].norm = g[b].norm = s->norm;
        f[b].softmax = g[b].softmax = s->softmax;
        f[b].replay = replay;
        g[b].add = replay;
    }
    if (replay)
        OP_BIND(c, f, ids, OP_IN, TR_I32, {s->T, s->K}, .ints = forced, .count = s->K);
    else
        OP_BIND(c, f, ids, OP_OUT, TR_I32, {s->T, s->K}, .gap = 1);
    OP_BIND(c, f, weights, OP_OUT, TR_F32, {s->T, s->K}, .gap = 2, .loose = 8);
    OP_BIND(c, f, scores, OP_OUT, TR_F32, {s->T, s->K}, .loose = 4);
    if (all)
        OP_BIND(c, f, all, OP_OUT, TR_F32, {s->T, s->E}, .gap = 3, .loose = 4);
    OP_BIND(c, f, x, OP_IN, t, {s->T, s->H}, .gap = gap(s->H, 3));
    OP_BIND(c, f, gate, OP_IN, replay ? TR_F32 : t, {s->E, s->H}, .gap = gap(s->H, 1),
            .scale = s->scale);
    if (s->bias)
        OP_BIND(c, f, bias, OP_IN, TR_F32, {s->E}, .shift = -0.6);
    OP_RUN(c, router_fwd, f);

    c = begin("router_bwd", t, s->T, s->E, s->K);
    OP_BIND(c, g, dx, replay ? OP_INOUT : OP_OUT, replay ? TR_F32 : t, {s->T, s->H},
            .gap = gap(s->H, 3), .loose = 8);
    OP_BIND(c, g, dweights, OP_IN, TR_F32, {s->T, s->K}, .gap = 1);
    OP_BIND(c, g, ids, OP_IN, TR_I32, {s->T, s->K}, .ints = forced, .count = s->K);
    OP_BIND(c, g, scores, OP_IN, TR_F32, {s->T, s->K}, .shift = 0.5, .scale = 0.4);
    if (all)
        OP_BIND(c, g, all, OP_IN, TR_F32, {s->T, s->E}, .shift = 0.5, .scale = 0.4, .gap = 1);
    OP_BIND(c, g, gate, OP_IN, t, {s->E, s->H}, .gap = gap(s->H, 1));
    if (replay) {
        OP_BIND(c, g, dgate, OP_INOUT, TR_F32, {s->E, s->H}, .loose = 8);
        OP_BIND(c, g, x, OP_IN, t, {s->T, s->H});
    }
    OP_RUN(c, router_bwd, g);
}

/* Scores that are equal: of sums of the gate's rows, which are whole numbers, and of the bias. */
struct ties {
    int64_t E, K, groups, top;
    int64_t gate[5], bias[12]; /* of experts 0, 1, ..., again and again */
    int64_t nbias;             /* 0: none */
};

static void router_ties(enum tr_dtype t, const struct ties *s)
{
    enum { T = 5, H = 8, ROWS = 5 };
    static const int64_t x[] = {1, 0, -1, 1, 1, 0, 0};
    int64_t gate[ROWS * H];
    struct tr_router f[OP_BACKENDS] = {0};
    struct op_case *c = begin("router_ties", t, s->E, s->K, s->nbias);

    for (int i = 0; i < ROWS * H; i++)
        gate[i] = s->gate[i / H];
    for (int b = 0; b < OP_BACKENDS; b++) {
        f[b].n_group = s->groups;
        f[b].topk_group = s->top;
        f[b].factor = 2.5f;
        f[b].norm = true;
    }
    OP_BIND(c, f, ids, OP_OUT, TR_I32, {T, s->K});
    OP_BIND(c, f, weights, OP_OUT, TR_F32, {T, s->K});
    OP_BIND(c, f, scores, OP_OUT, TR_F32, {T, s->K});
    OP_BIND(c, f, x, OP_IN, t, {T, H}, .ints = x, .count = 7);
    OP_BIND(c, f, gate, OP_IN, t, {s->E, H}, .ints = gate, .count = ROWS * H);
    if (s->nbias > 0)
        OP_BIND(c, f, bias, OP_IN, TR_F32, {s->E}, .ints = s->bias, .count = s->nbias);
    OP_RUN(c, router_fwd, f);
}

/* ids: the first n slots, again and again. */
struct planned {
    const int64_t *ids;
    int64_t n, T, K, E, tokens; /* tokens < 0: absent */
};

static void plan(const struct planned *s)
{
    int64_t T = s->T, K = s->K, E = s->E;
    struct tr_moe_plan a[OP_BACKENDS] = {0};
    struct op_case *c = begin("moe_plan", TR_I32, T, K, E);

    OP_BIND(c, a, ids, OP_IN, TR_I32, {T, K}, .ints = s->ids, .count = s->n);
    OP_BIND(c, a, counts, OP_OUT, TR_I32, {E});
    OP_BIND(c, a, offsets, OP_OUT, TR_I32, {E + 1});
    OP_BIND(c, a, row_of, OP_OUT, TR_I32, {T, K});
    OP_BIND(c, a, slot_of, OP_OUT, TR_I32, {T * K});
    if (s->tokens >= 0)
        OP_BIND(c, a, tokens, OP_IN, TR_I32, {1}, .ints = &s->tokens, .count = 1);
    OP_RUN(c, moe_plan, a);
}

static void permute(enum tr_dtype t, int64_t T, int64_t K, int64_t n, int variant)
{
    static const int64_t perm[] = {4, 1, 5, 0, 3, 2}, window[] = {0, 3, 6};
    struct tr_moe_permute p[OP_BACKENDS] = {0};
    struct tr_moe_combine m[OP_BACKENDS] = {0};
    struct op_case *c = begin("moe_permute", t, T, K, n);
    int64_t R = T * K, slots[64];

    for (int64_t i = 0; i < R; i++) /* whole turns of a permutation of six */
        slots[i] = i / 6 * 6 + perm[i % 6] < R ? i / 6 * 6 + perm[i % 6] : -1;
    for (int b = 0; b < OP_BACKENDS; b++) {
        p[b].K = K;
        p[b].rows.first = 1;
        p[b].rows.last = 2;
    }
    OP_BIND(c, p, xp, OP_OUT, t, {R, n}, .gap = gap(n, 1));
    OP_BIND(c, p, x, OP_IN, t, {T, n}, .gap = gap(n, 2));
    OP_BIND(c, p, slot_of, OP_IN, TR_I32, {R}, .ints = slots, .count = R);
    if (variant & 1)
        OP_BIND(c, p, weight, OP_IN, TR_F32, {T, K});
    if ((variant & 2) && R >= 6)
        OP_BIND(c, p, rows.offsets, OP_IN, TR_I32, {3}, .ints = window, .count = 3);
    OP_RUN(c, moe_permute, p);

    c = begin("moe_combine", t, T, K, n);
    OP_BIND(c, m, y, OP_OUT, variant & 2 ? TR_F32 : t, {T, n}, .gap = gap(n, 3), .loose = 4);
    OP_BIND(c, m, yp, OP_IN, t, {R, n}, .gap = gap(n, 1));
    OP_BIND(c, m, row_of, OP_IN, TR_I32, {T, K}, .ints = slots, .count = R, .gap = 1);
    if (variant & 1)
        OP_BIND(c, m, weight, OP_IN, TR_F32, {T, K}, .gap = 1);
    if (variant & 2)
        OP_BIND(c, m, add, OP_IN, TR_F32, {T, n});
    OP_RUN(c, moe_combine, m);
}

enum { E = 5 };

static const int64_t offsets[E + 1] = {0, 3, 3, 10, 47, 52}; /* one expert has no rows */

/* The weights one behind another, as a window of experts is gathered. */
static void bind_window(struct op_case *c, struct tr_gemm (*w)[OP_BACKENDS], enum tr_dtype t,
                        int64_t rows, int64_t cols)
{
    struct tr_gemm all[OP_BACKENDS] = {0};

    OP_BIND(c, all, c, OP_IN, t, {E, rows, cols});
    for (int b = 0; b < OP_BACKENDS; b++)
        for (int64_t e = 0; e < E; e++)
            w[e][b].b.w = tr_view2(
                (char *)all[b].c.p + (size_t)(e * all[b].c.ld) * tr_dtype_bytes(t), t, rows, cols);
}

struct grouped {
    enum tr_dtype weight;
    int64_t N, D;
    bool large;   /* many rows an expert, weights of one window */
    int64_t most; /* rows in all; 0: no such bound */
};

static void grouped(enum tr_dtype t, const struct grouped *s, bool trans)
{
    enum tr_dtype wt = s->weight != TR_NONE ? s->weight : t;
    int64_t N = s->N, D = s->D;
    bool large = s->large;
    int64_t many[E + 1], R;
    struct tr_grouped_gemm a[OP_BACKENDS] = {0};
    struct tr_gemm w[E][OP_BACKENDS] = {0};
    const struct tr_weight *list[OP_BACKENDS][E] = {0};
    struct op_case *c = begin("grouped_gemm", t, N, D, trans);
    double unit = op_sum_unit(D, wt == TR_F8_E4M3 ? t : TR_F64); /* as in gemm */

    op_sums(c);
    for (int e = 0; e <= E; e++)
        many[e] = s->most > 0 && offsets[e] > s->most ? s->most : offsets[e] * (large ? 10 : 1);
    R = many[E];
    OP_BIND(c, a, c, OP_INOUT, t, {R, N}, .gap = 1, .sum_unit = unit);
    OP_BIND(c, a, a, OP_IN, t, {R, D}, .gap = 2);
    OP_BIND(c, a, offsets, OP_IN, TR_I32, {E + 1}, .ints = many, .count = E + 1);
    if (large)
        bind_window(c, w, wt, trans ? N : D, trans ? D : N);
    for (int e = 0; e < E; e++) {
        if (e == 2) /* not gathered: its rows stay */
            continue;
        if (large)
            ;
        else if (trans)
            OP_BIND(c, w[e], b.w, OP_IN, wt, {N, D}, .gap = 1);
        else
            OP_BIND(c, w[e], b.w, OP_IN, wt, {D, N}, .gap = 1);
        if (wt == TR_F8_E4M3)
            OP_BIND(c, w[e], b.scale, OP_IN, TR_F32, {32, 32}, .shift = 1, .scale = 0.5);
        for (int b = 0; b < OP_BACKENDS; b++) {
            w[e][b].b.block_rows = w[e][b].b.block_cols = N > 1024 ? 128 : 8;
            list[b][e] = &w[e][b].b;
            if (trans)
                op_prepack(c, b, &w[e][b].b);
            else
                op_repack(c, b, &w[e][b].b);
        }
    }
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].weights = list[b];
        a[b].e1 = E - 1; /* the last is outside the window */
        a[b].trans_b = trans;
        a[b].alpha = 0.5f;
        a[b].beta = trans ? 1 : 0;
    }
    OP_RUN(c, grouped_gemm, a);
}

/* As many experts as the real model has: more than a launch takes, most without rows. */
static void grouped_many(enum tr_dtype t, bool trans)
{
    enum { MANY = 256, N = 24, D = 40 };
    struct tr_grouped_gemm a[OP_BACKENDS] = {0};
    struct tr_gemm w[OP_BACKENDS] = {0};
    struct tr_weight each[OP_BACKENDS][MANY];
    const struct tr_weight *list[OP_BACKENDS][MANY] = {0};
    int64_t ends[MANY + 1] = {0};
    struct op_case *c = begin("grouped_gemm", t, MANY, N, trans);

    for (int e = 0; e < MANY; e++)
        ends[e + 1] = ends[e] + (e % 17 == 12 ? 2 : e % 64 == 0 || e % 64 == 63);
    op_sums(c);
    OP_BIND(c, a, c, OP_OUT, t, {ends[MANY], N}, .sum_unit = op_sum_unit(D, TR_F64));
    OP_BIND(c, a, a, OP_IN, t, {ends[MANY], D});
    OP_BIND(c, a, offsets, OP_IN, TR_I32, {MANY + 1}, .ints = ends, .count = MANY + 1);
    OP_BIND(c, w, c, OP_IN, t, {MANY, trans ? N : D, trans ? D : N});
    for (int b = 0; b < OP_BACKENDS; b++) {
        for (int e = 0; e < MANY; e++) {
            size_t at = (size_t)(e * w[b].c.ld) * tr_dtype_bytes(t);

            each[b][e] = (struct tr_weight){
                .w = tr_view2((char *)w[b].c.p + at, t, trans ? N : D, trans ? D : N)};
            list[b][e] = &each[b][e];
        }
        a[b].weights = list[b];
        a[b].e1 = MANY;
        a[b].trans_b = trans;
        a[b].alpha = 1;
    }
    OP_RUN(c, grouped_gemm, a);
}

static void wgrad(enum tr_dtype t, int64_t N, int64_t D)
{
    struct tr_grouped_wgrad a[OP_BACKENDS] = {0};
    struct tr_gemm w[E][OP_BACKENDS] = {0};
    const struct tr_view *list[OP_BACKENDS][E] = {0};
    struct op_case *c = begin("grouped_wgrad", t, N, D, 0);

    op_sums(c);
    OP_BIND(c, a, dy, OP_IN, t, {52, N}, .gap = 1);
    OP_BIND(c, a, x, OP_IN, t, {52, D}, .gap = 2);
    OP_BIND(c, a, offsets, OP_IN, TR_I32, {E + 1}, .ints = offsets, .count = E + 1);
    for (int e = 0; e < E; e++) {
        OP_BIND(c, w[e], b.w, OP_INOUT, TR_F32, {N, D}, .sum_unit = op_sum_unit(37, TR_F64));
        for (int b = 0; b < OP_BACKENDS; b++)
            list[b][e] = e == 2 ? NULL : &w[e][b].b.w;
    }
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].dw = list[b];
        a[b].e1 = E;
        a[b].alpha = 2;
        a[b].beta = 1;
    }
    OP_RUN(c, grouped_wgrad, a);
}

/* The real model's dimensions, each beside short ones. */
static void model_moe(void)
{
    static const struct router route = {3, 7168, 256, 8, 8, 4, true, true, 0.02, false};
    static const struct grouped products[] = {{TR_NONE, 24, 7168, false, 3},
                                              {TR_NONE, 7168, 24, false, 3},
                                              {TR_F8_E4M3, 2048, 24, false, 3}};

    router(TR_BF16, &route, false);
    permute(TR_BF16, 3, 8, 7168, 0);
    permute(TR_BF16, 3, 8, 7168, 3);
    for (size_t s = 0; s < sizeof products / sizeof products[0]; s++)
        grouped(TR_BF16, &products[s], s != 1);
    for (int v = 0; v < 2; v++)
        grouped_many(TR_BF16, v);
    wgrad(TR_BF16, 7168, 8);
}

static void ties(void)
{
    static const struct ties rows[] = {
        {16, 4, 4, 2, {0}, {0}, 0},              /* all are equal */
        {15, 5, 1, 1, {1, -1, 1, 0, 1}, {0}, 0}, /* two or three values, no groups */
        {256, 8, 8, 4, {1, 0, 1, -1, 0}, {0, 1, 1, 0, 1, 0, 0}, 7},
        /* fewer finite ones in the kept groups than are chosen; a group of none */
        {12,
         5,
         3,
         2,
         {0},
         {OP_NEVER, OP_NEVER, OP_NEVER, OP_NEVER, 1, OP_NEVER, OP_NEVER, 0, 0, 0, OP_NEVER,
          OP_NEVER},
         12},
        {12, 4, 6, 4, {0}, {OP_NEVER, OP_NEVER, OP_NEVER, OP_NEVER, OP_NEVER, 2}, 6},
    };

    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof rows / sizeof rows[0]; s++)
            router_ties(op_types[t], &rows[s]);
}

void op_moe_cases(void)
{
    static const struct router shapes[] = {
        {-1, 5, 4, 2, 1, 1, true, false, 1, false},   {1, 1, 1, 1, 1, 1, true, false, 1, false},
        {7, 13, 8, 3, 1, 1, true, true, 1, false},    {11, 5, 12, 4, 3, 2, true, true, 1, false},
        {13, 64, 16, 4, 4, 2, false, true, 1, false}, {5, 130, 256, 4, 8, 4, true, true, 1, false},
        {70, 200, 72, 8, 2, 1, true, true, 1, false}, {-1, 5, 4, 2, 1, 1, false, false, 1, true},
        {7, 13, 8, 2, 1, 1, true, false, 1, true},    {13, 64, 16, 4, 1, 1, false, false, 1, true},
        {70, 200, 72, 8, 1, 1, false, false, 1, true}};
    static const struct grouped products[] = {{TR_NONE, 7, 11, false, 0},
                                              {TR_NONE, 64, 128, false, 0},
                                              {TR_F8_E4M3, 40, 24, false, 0},
                                              {TR_NONE, 288, 416, false, 0},
                                              {TR_NONE, 288, 288, true, 0}};
    static const int64_t ids[] = {2, 4, 0, 2, 1, 3, 0, 4, 2, 3, 4, 0, 4, 2};
    static const int64_t odd[] = {2, -1, 9, 0, 2, 2};

    const struct planned plans[] = {{ids, 14, 7, 2, 5, -1},    {ids, 14, 7, 2, 5, 4},
                                    {ids, 14, 14, 1, 7, 0},    {ids, 14, -1, 1, 3, -1},
                                    {odd, 6, 6, 1, 3, -1},     {ids, 13, 701, 3, 70, -1},
                                    {odd, 6, 1100, 1, 3, 1030}};

    for (size_t s = 0; s < sizeof plans / sizeof plans[0]; s++)
        plan(&plans[s]);
    for (int t = 0; t < 3; t++) {
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            router(op_types[t], &shapes[s], false);
            router(op_types[t], &shapes[s], true);
        }
        for (int v = 0; v < 4; v++) {
            permute(op_types[t], 1, 1, 1, v);
            permute(op_types[t], 3, 2, 13, v);
            permute(op_types[t], 6, 4, 257, v);
            permute(op_types[t], 6, 3, 136, v);
        }
        for (int v = 0; v < 2; v++)
            for (size_t s = 0; s < sizeof products / sizeof products[0]; s++)
                if (op_types[t] != TR_F32 || !products[s].large) /* its tiles have one size */
                    grouped(op_types[t], &products[s], v);
        wgrad(op_types[t], 7, 11);
        wgrad(op_types[t], 16, 200);
        wgrad(op_types[t], 136, 130); /* a tile of 128 and a rest */
    }
    ties();
    model_moe();
}
