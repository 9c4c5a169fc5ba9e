#include "tests/op/op.h"

#include <math.h>
#include <stdio.h>

/* Row counts and widths: none (-1), one, odd ones, a tile and one more, the tiny and the real
 * model's. */
static const int64_t sizes[][2] = {{-1, 7}, {1, 1},   {1, 7},    {5, 11},   {7, 13},   {13, 5},
                                   {3, 16}, {17, 64}, {33, 129}, {65, 256}, {2, 1031}, {2, 7168}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static struct op_case *begin(const char *op, enum tr_dtype t, int64_t a, int64_t b, int64_t c)
{
    struct op_case *k;
    char what[96];

    snprintf(what, sizeof what, "%s %s %lld %lld %lld", op, tr_dtype_name(t), (long long)a,
             (long long)b, (long long)c);
    op_begin(&k, what);
    return k;
}

static void embed(enum tr_dtype t, int64_t T, int64_t H)
{
    static const int64_t ids[] = {4, 9, 3, 4, 100, -1, 12, 5, 4};
    struct tr_embed f[OP_BACKENDS] = {0}, g[OP_BACKENDS] = {0};
    struct op_case *c = begin("embed_fwd", t, T, H, 0);

    OP_BIND(c, f, y, OP_OUT, t, {T, H}, .gap = 3);
    OP_BIND(c, f, table, OP_IN, t, {10, H}, .gap = 1);
    OP_BIND(c, f, ids, OP_IN, TR_I32, {T}, .ints = ids, .count = 9);
    for (int b = 0; b < OP_BACKENDS; b++)
        f[b].row0 = g[b].row0 = 3;
    OP_RUN(c, embed_fwd, f);
    c = begin("embed_bwd", t, T, H, 0);
    OP_BIND(c, g, dy, OP_IN, t, {T, H}, .gap = 3);
    OP_BIND(c, g, dtable, OP_INOUT, TR_F32, {10, H}, .gap = 2, .loose = 4);
    OP_BIND(c, g, ids, OP_IN, TR_I32, {T}, .ints = ids, .count = 9);
    OP_RUN(c, embed_bwd, g);
}

static void rmsnorm(enum tr_dtype t, int64_t T, int64_t n, int variant)
{
    struct tr_rmsnorm a[OP_BACKENDS] = {0};
    struct op_case *c = begin("rmsnorm_fwd", t, T, n, variant);
    double loose = t == TR_F32 ? 4 : 2; /* the normalised row may round the other way */

    OP_BIND(c, a, y, OP_OUT, t, {T, n}, .gap = 5, .loose = loose);
    OP_BIND(c, a, x, OP_IN, t, {T, n}, .gap = 7);
    OP_BIND(c, a, gain, OP_IN, variant & 1 ? TR_F32 : t, {n}, .shift = 1);
    if (variant & 2) {
        OP_BIND(c, a, rrms, OP_OUT, TR_F32, {T}, .loose = loose);
        OP_BIND(c, a, add, OP_IN, t, {T, n});
        OP_BIND(c, a, sum, OP_OUT, t, {T, n});
    }
    for (int b = 0; b < OP_BACKENDS; b++)
        a[b].eps = 1e-6f;
    OP_RUN(c, rmsnorm_fwd, a);
}

/* dx and dy each of type t or f32. */
static void rmsnorm_grad(enum tr_dtype t, int64_t T, int64_t n, int variant)
{
    struct tr_rmsnorm_grad a[OP_BACKENDS] = {0};
    struct op_case *c = begin("rmsnorm_bwd", t, T, n, variant);
    enum tr_dtype out = variant & 1 ? TR_F32 : t;

    OP_BIND(c, a, dx, OP_OUT, out, {T, n}, .gap = 1, .loose = 8);
    OP_BIND(c, a, dy, OP_IN, variant & 2 ? t : TR_F32, {T, n}, .gap = 2);
    OP_BIND(c, a, x, OP_IN, t, {T, n}, .gap = 3);
    OP_BIND(c, a, rrms, OP_IN, TR_F32, {T}, .shift = 1.7, .scale = 0.2);
    OP_BIND(c, a, gain, OP_IN, t, {n}, .shift = 1);
    if (variant == 0 || variant == 3) {
        OP_BIND(c, a, dres, OP_IN, out, {T, n});
        OP_BIND(c, a, dgain, OP_INOUT, TR_F32, {n}, .loose = 8);
    }
    OP_RUN(c, rmsnorm_bwd, a);
}

/* The FP8 weight of a product, scales of blocks that do not divide it. */
static void bind_weight(struct op_case *c, struct tr_gemm *a, enum tr_dtype t, int64_t rows,
                        int64_t cols)
{
    int block = rows > 1024 || cols > 1024 ? 128 : 16;

    OP_BIND(c, a, b.w, OP_IN, t, {rows, cols}, .gap = 3);
    if (t != TR_F8_E4M3)
        return;
    OP_BIND(c, a, b.scale, OP_IN, TR_F32,
            {(rows + 5 + block - 1) / block, (cols + block - 1) / block}, .shift = 1, .scale = 0.5);
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].b.block_rows = a[b].b.block_cols = block;
        a[b].b.row0 = 5;
    }
}

struct product {
    int64_t M, N, D;
    enum tr_dtype a, b, c;
    bool trans_a, trans_b, bias, f32_bias;
    bool dense; /* rows of a one behind the other */
    float alpha, beta;
};

static void gemm(const struct product *p)
{
    struct tr_gemm a[OP_BACKENDS] = {0};
    char what[96];
    struct op_case *c;
    /* an FP8 weight may be rounded to a's type */
    double unit = op_sum_unit(p->D, p->b == TR_F8_E4M3 ? p->a : TR_F64);

    snprintf(what, sizeof what, "gemm %lldx%lldx%lld %s %s %s %d%d%d", (long long)p->M,
             (long long)p->N, (long long)p->D, tr_dtype_name(p->a), tr_dtype_name(p->b),
             tr_dtype_name(p->c), p->trans_a, p->trans_b, p->bias);
    op_begin(&c, what);
    op_sums(c);
    OP_BIND(c, a, c, p->beta != 0 ? OP_INOUT : OP_OUT, p->c, {p->M, p->N}, .gap = 2,
            .sum_unit = unit);
    if (p->trans_a)
        OP_BIND(c, a, a, OP_IN, p->a, {p->D, p->M}, .gap = 1);
    else
        OP_BIND(c, a, a, OP_IN, p->a, {p->M, p->D}, .gap = !p->dense);
    bind_weight(c, a, p->b, p->trans_b ? p->N : p->D, p->trans_b ? p->D : p->N);
    if (p->bias)
        OP_BIND(c, a, bias, OP_IN, p->f32_bias ? TR_F32 : p->a, {p->N});
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].trans_a = p->trans_a;
        a[b].trans_b = p->trans_b;
        a[b].alpha = p->alpha;
        a[b].beta = p->beta;
        if (p->trans_b)
            op_prepack(c, b, &a[b].b);
        else if (!p->trans_a)
            op_repack(c, b, &a[b].b);
    }
    a[OP_MAGNITUDES].beta = fabsf(p->beta);
    OP_RUN(c, gemm, a);
}

static void gemm_cases(void)
{
    static const int64_t shapes[][3] = {
        {1, 1, 1},     {5, 7, 11},     {13, 11, 7},     {7, 13, 5},     {16, 32, 64},
        {3, 130, 17},  {1, 33, 600},   {64, 48, 96},    {129, 257, 65}, {260, 40, 136},
        {48, 300, 16}, {270, 520, 24}, {570, 290, 8},   {30, 40, 1024}, {30, 48, 1600},
        {49, 49, 34},  {270, 1040, 5}, {290, 80, 1024}, {260, 112, 530}};

    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int t = 0; t < 3; t++)
            for (int v = 0; v < 9; v++) {
                struct product p = {.M = shapes[s][0],
                                    .N = shapes[s][1],
                                    .D = shapes[s][2],
                                    .a = op_types[t],
                                    .b = op_types[t],
                                    .c = v & 4 ? TR_F32 : op_types[t],
                                    .trans_a = v & 1,
                                    .trans_b = (v & 2) != 0 || v == 8,
                                    .bias = v == 2 || v == 7,
                                    .f32_bias = v == 2 && s % 2 == 1,
                                    .dense = shapes[s][2] == 1024, /* share sets of a cache */
                                    .alpha = v & 1 || v == 8 ? 0.5f : 1,
                                    .beta = v == 3 || v == 6       ? 1
                                            : v == 7               ? -2.0f
                                            : v == 8 && s % 2 == 1 ? 0.75f
                                                                   : 0};

                gemm(&p);
                if ((v & 1) || p.D > 1024) /* the bound of so many FP8 weights hides a bias */
                    continue;
                p.b = TR_F8_E4M3;
                gemm(&p);
            }
}

/* Long sums, long rows and long columns of the real model's weights, in its types. */
static void model_gemms(void)
{
    static const int64_t shapes[][3] = {
        {2, 40, 7168}, {2, 7168, 24}, {3, 18432, 8}, {1, 16, 18432}};

    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int v = 0; v < 4; v++) {
            struct product p = {.M = shapes[s][0],
                                .N = shapes[s][1],
                                .D = shapes[s][2],
                                .a = TR_BF16,
                                .b = v & 1 ? TR_F8_E4M3 : TR_BF16,
                                .c = TR_BF16,
                                .trans_b = v & 2,
                                .alpha = 1};

            gemm(&p);
        }
}

static void colsum(enum tr_dtype t, int64_t T, int64_t n)
{
    struct tr_colsum a[OP_BACKENDS] = {0};
    struct op_case *c = begin("colsum", t, T, n, 0);

    OP_BIND(c, a, x, OP_IN, t, {T, n}, .gap = 1);
    OP_BIND(c, a, out, OP_INOUT, TR_F32, {n}, .loose = 8);
    OP_RUN(c, colsum, a);
}

static void dropout(enum tr_dtype t, int64_t T, int64_t n, bool routed)
{
    static const int64_t place[] = {0, 7, (int64_t)5 << 33, 1}, pos[] = {0, 1, 2, 3000, 5};
    static const int64_t slots[] = {1, 0, 5, 2, 3}, groups[] = {0, 2, 2, 5}, window[] = {1, 4};
    struct tr_dropout a[OP_BACKENDS] = {0};
    struct op_case *c = begin("dropout", t, T, n, routed);
    int64_t R = routed ? 5 : T;

    OP_BIND(c, a, y, OP_OUT, t, {R, n}, .gap = 2);
    OP_BIND(c, a, x, OP_IN, t, {R, n}, .gap = 1);
    OP_BIND(c, a, place, OP_IN, TR_I64, {T}, .ints = place, .count = 4);
    OP_BIND(c, a, pos, OP_IN, TR_I32, {T}, .ints = pos, .count = 5);
    if (routed) {
        OP_BIND(c, a, slot_of, OP_IN, TR_I32, {5}, .ints = slots, .count = 5);
        OP_BIND(c, a, groups, OP_IN, TR_I32, {4}, .ints = groups, .count = 4);
        OP_BIND(c, a, rows.offsets, OP_IN, TR_I32, {2}, .ints = window, .count = 2);
    }
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].K = 2;
        a[b].rows.last = 1;
        a[b].seed = 42;
        a[b].module = 0x123456789abcdefu;
        a[b].epoch = 3;
        a[b].p = 0.25f;
    }
    OP_RUN(c, dropout, a);
}

/* cos and sin of 9 positions, and T positions among them. */
#define BIND_TABLE(c, a, half, T)                                                                  \
    do {                                                                                           \
        static const int64_t pos[] = {0, 3, 8, 1};                                                 \
        OP_BIND(c, a, table.cosines, OP_IN, TR_F32, {9, half});                                    \
        OP_BIND(c, a, table.sines, OP_IN, TR_F32, {9, half});                                      \
        OP_BIND(c, a, table.pos, OP_IN, TR_I32, {T}, .ints = pos, .count = 4);                     \
    } while (0)

static void rope(enum tr_dtype t, int64_t T, int64_t n, int64_t hd)
{
    for (int v = 0; v < 4; v++) {
        struct tr_rope a[OP_BACKENDS] = {0};
        struct op_case *c = begin("rope", t, T, n, hd);
        int64_t half = v == 3 && hd > 2 ? hd / 2 - 1 : hd / 2;

        OP_BIND(c, a, y, OP_OUT, t, {T, n, hd}, .gap = 3);
        OP_BIND(c, a, x, OP_IN, t, {T, n, hd}, .gap = 1);
        BIND_TABLE(c, a, half, T);
        for (int b = 0; b < OP_BACKENDS; b++) {
            a[b].inverse = v & 1;
            a[b].table.interleave = (v & 2) != 0;
        }
        OP_RUN(c, rope, a);
    }
}

struct mla {
    int64_t T, nh, dn, dr, dv;
};

static void mla(enum tr_dtype t, const struct mla *m, bool interleave)
{
    struct tr_mla f[OP_BACKENDS] = {0};
    struct tr_mla_grad g[OP_BACKENDS] = {0};
    struct op_case *c = begin("mla_assemble_fwd", t, m->T, m->nh, m->dn);
    bool wide = m->dn % 8 == 0;
    int64_t T = m->T, nh = m->nh, dq = m->dn + m->dr, dkv = m->dn + m->dv;

    for (int b = 0; b < OP_BACKENDS; b++)
        f[b].table.interleave = g[b].table.interleave = interleave;
    OP_BIND(c, f, Q, OP_OUT, t, {T, nh, dq}, .gap = wide ? 8 : 1);
    OP_BIND(c, f, K, OP_OUT, t, {T, nh, dq}, .gap = wide ? 8 : 2);
    OP_BIND(c, f, V, OP_OUT, t, {T, nh, m->dv}, .gap = wide ? 8 : 3);
    OP_BIND(c, f, q, OP_IN, t, {T, nh * dq}, .gap = wide ? 8 : 4);
    OP_BIND(c, f, kv, OP_IN, t, {T, nh * dkv}, .gap = wide ? 8 : 5);
    OP_BIND(c, f, k_pe, OP_IN, t, {T, m->dr}, .gap = wide ? 8 : 7);
    BIND_TABLE(c, f, m->dr / 2, T);
    OP_RUN(c, mla_assemble_fwd, f);
    c = begin("mla_assemble_bwd", t, m->T, m->nh, m->dn);
    OP_BIND(c, g, dQ, OP_IN, t, {T, nh, dq}, .gap = wide ? 8 : 1);
    OP_BIND(c, g, dK, OP_IN, t, {T, nh, dq}, .gap = wide ? 8 : 2);
    OP_BIND(c, g, dV, OP_IN, t, {T, nh, m->dv}, .gap = wide ? 8 : 3);
    OP_BIND(c, g, dq, OP_OUT, t, {T, nh * dq}, .gap = wide ? 8 : 4);
    OP_BIND(c, g, dkv, OP_OUT, t, {T, nh * dkv}, .gap = wide ? 8 : 5);
    OP_BIND(c, g, dk_pe, OP_OUT, t, {T, m->dr}, .gap = wide ? 8 : 7, .loose = 4);
    BIND_TABLE(c, g, m->dr / 2, T);
    OP_RUN(c, mla_assemble_bwd, g);
}

void op_dense_cases(void)
{
    static const struct mla shapes[] = {{-1, 2, 3, 4, 5},
                                        {1, 1, 1, 2, 1},
                                        {5, 3, 7, 4, 5},
                                        {7, 2, 16, 8, 16},
                                        {3, 16, 128, 64, 128}};
    static const struct mla model = {2, 128, 128, 64, 128};

    for (int t = 0; t < 3; t++) {
        for (int s = 0; s < SIZES; s++) {
            embed(op_types[t], sizes[s][0], sizes[s][1]);
            colsum(op_types[t], sizes[s][0], sizes[s][1]);
            dropout(op_types[t], sizes[s][0], sizes[s][1], false);
            for (int v = 0; v < 4; v++) {
                rmsnorm(op_types[t], sizes[s][0], sizes[s][1], v);
                rmsnorm_grad(op_types[t], sizes[s][0], sizes[s][1], v);
            }
        }
        dropout(op_types[t], 3, 13, true);
        rope(op_types[t], 1, 1, 2);
        rope(op_types[t], 5, 3, 14);
        rope(op_types[t], 7, 8, 128);
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            mla(op_types[t], &shapes[s], s % 2 == 0);
    }
    mla(TR_BF16, &model, true);
    gemm_cases();
    model_gemms();
}
