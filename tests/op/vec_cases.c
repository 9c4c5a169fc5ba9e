#include "tests/op/op.h"

#include "trainer/tensor/draw.h"

#include <stdio.h>

static struct op_case *begin(const char *op, enum tr_dtype t, int64_t a, int64_t b)
{
    struct op_case *k;
    char what[96];

    snprintf(what, sizeof what, "%s %s %lld %lld", op, tr_dtype_name(t), (long long)a,
             (long long)b);
    op_begin(&k, what);
    return k;
}

static void elementwise(enum tr_dtype t, int64_t rows, int64_t n)
{
    struct tr_fill f[OP_BACKENDS] = {0};
    struct tr_cast k[OP_BACKENDS] = {0};
    struct tr_sum s[OP_BACKENDS] = {0};
    struct op_case *c = begin("fill", t, rows, n);

    for (int b = 0; b < OP_BACKENDS; b++) {
        f[b].value = 0.375;
        s[b].n = 3;
        s[b].alpha[0] = 1;
        s[b].alpha[1] = -0.5f;
        s[b].alpha[2] = 2;
    }
    OP_BIND(c, f, y, OP_OUT, t, {rows, n}, .gap = 3);
    OP_RUN(c, fill, f);
    for (int from = 0; from < 3; from++) {
        c = begin("cast", t, rows, n);
        OP_BIND(c, k, y, OP_OUT, t, {rows, n}, .gap = 1);
        OP_BIND(c, k, x, OP_IN, op_types[from], {rows, n}, .gap = 2, .scale = 100);
        OP_RUN(c, cast, k);
    }
    c = begin("sum", t, rows, n);
    OP_BIND(c, s, y, OP_OUT, t, {rows, n}, .gap = 1, .loose = 2);
    OP_BIND(c, s, x[0], OP_IN, TR_F32, {rows, n}, .gap = 2);
    OP_BIND(c, s, x[1], OP_IN, t, {rows, n}, .gap = 3);
    OP_BIND(c, s, x[2], OP_IN, TR_BF16, {rows, n});
    OP_RUN(c, sum, s);
}

static void noise(enum tr_dtype t, int64_t rows, int64_t n, bool uniform)
{
    struct tr_noise a[OP_BACKENDS] = {0};
    struct op_case *c = begin("noise", t, rows, n);

    OP_BIND(c, a, y, OP_OUT, t, {rows, n});
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].key = tr_draw_of(42, "model.norm.weight").key;
        a[b].first = 1000000007;
        a[b].scale = 0.02f;
        a[b].uniform = uniform;
    }
    OP_RUN(c, noise, a);
}

static void decode(enum tr_dtype t, int64_t rows, int64_t cols)
{
    struct tr_decode a[OP_BACKENDS] = {0};
    struct op_case *c = begin("decode", t, rows, cols);

    OP_BIND(c, a, y, OP_OUT, t, {rows, cols}, .gap = 1);
    OP_BIND(c, a, w.w, OP_IN, TR_F8_E4M3, {rows, cols}, .gap = 2, .scale = 400);
    OP_BIND(c, a, w.scale, OP_IN, TR_F32, {(rows + 7 + 127) / 128, (cols + 127) / 128}, .gap = 1);
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].w.block_rows = a[b].w.block_cols = 128;
        a[b].w.row0 = 7;
    }
    OP_RUN(c, decode, a);
}

static void integers(void)
{
    static const int64_t values[] = {7, -3, 1 << 30, 0};
    struct tr_fill f[OP_BACKENDS] = {0};
    struct tr_cast k[OP_BACKENDS] = {0};
    static const enum tr_dtype types[] = {TR_I32, TR_I64};

    for (int b = 0; b < OP_BACKENDS; b++)
        f[b].value = -1;
    for (int t = 0; t < 2; t++) {
        struct op_case *c = begin("fill", types[t], 13, 0);

        OP_BIND(c, f, y, OP_OUT, types[t], {13});
        OP_RUN(c, fill, f);
        c = begin("cast", types[t], 5, 3);
        OP_BIND(c, k, y, OP_OUT, types[t], {5, 3}, .gap = 1);
        OP_BIND(c, k, x, OP_IN, types[t], {5, 3}, .ints = values, .count = 4);
        OP_RUN(c, cast, k);
    }
}

static void scans(enum tr_dtype t, int64_t rows, int64_t n)
{
    struct tr_sumsq s[OP_BACKENDS] = {0};
    struct tr_nonfinite f[OP_BACKENDS] = {0};
    struct op_case *c = begin("sumsq", t, rows, n);

    OP_BIND(c, s, x, OP_IN, t, {rows, n}, .gap = n % TR_SUMSQ_BLOCK == 0 ? 0 : 2);
    OP_BIND(c, s, out, OP_INOUT, TR_I64, {TR_EXACT_LIMBS}, .ints = (const int64_t[]){3},
            .count = 1);
    OP_RUN(c, sumsq, s);
    c = begin("sumsq", t, rows, n);
    OP_BIND(c, s, x, OP_IN, t, {rows, n}, .gap = 2, .broken = true);
    OP_BIND(c, s, out, OP_INOUT, TR_I64, {TR_EXACT_LIMBS}, .ints = (const int64_t[]){3},
            .count = 1);
    OP_BIND(c, s, found, OP_INOUT, TR_I64, {1}, .ints = (const int64_t[]){3}, .count = 1);
    OP_RUN(c, sumsq, s);
    c = begin("nonfinite", t, rows, n);
    OP_BIND(c, f, x, OP_IN, t, {rows, n}, .gap = 2, .broken = true);
    OP_BIND(c, f, found, OP_INOUT, TR_I64, {1}, .ints = (const int64_t[]){3}, .count = 1);
    OP_RUN(c, nonfinite, f);
}

static void scan_f8(int64_t rows, int64_t n)
{
    struct tr_nonfinite f[OP_BACKENDS] = {0};
    struct op_case *c = begin("nonfinite", TR_F8_E4M3, rows, n);

    OP_BIND(c, f, x, OP_IN, TR_F8_E4M3, {rows, n}, .gap = 2, .scale = 400, .broken = true);
    OP_BIND(c, f, found, OP_INOUT, TR_I64, {1}, .ints = (const int64_t[]){3}, .count = 1);
    OP_RUN(c, nonfinite, f);
}

static void adamw(int64_t n, int variant)
{
    struct tr_adamw a[OP_BACKENDS] = {0};
    struct op_case *c = begin("adamw", TR_F32, n, variant);
    static const int64_t found[] = {1}, codes[] = {127, 0, 255, 65, 128, 201, 126};

    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].lr = 1e-2f;
        a[b].wd = variant & 1 ? 0.1f : 0;
        a[b].scale = 0.5f;
        a[b].b1 = 0.9;
        a[b].b2 = 0.999;
        a[b].eps = 1e-8;
        a[b].step = variant & 1 ? 7 : 1;
    }
    OP_BIND(c, a, p, OP_INOUT, TR_F32, {n}, .loose = 2);
    if (variant & 8) {
        int64_t blocks = n < 0 ? n : (n + TR_CODED_BLOCK - 1) / TR_CODED_BLOCK;

        OP_BIND(c, a, m, OP_INOUT, TR_U8, {n}, .ints = codes, .count = 7);
        OP_BIND(c, a, v, OP_INOUT, TR_U8, {n}, .ints = codes, .count = 7);
        OP_BIND(c, a, m_max, OP_INOUT, TR_F32, {blocks}, .shift = 3);
        OP_BIND(c, a, v_max, OP_INOUT, TR_F32, {blocks}, .shift = 2);
    } else {
        OP_BIND(c, a, m, OP_INOUT, TR_F32, {n});
        OP_BIND(c, a, v, OP_INOUT, TR_F32, {n}, .shift = 1.5);
    }
    OP_BIND(c, a, g, OP_IN, TR_F32, {n});
    if (variant & 2) {
        OP_BIND(c, a, copy, OP_OUT, variant & 1 ? TR_F16 : TR_BF16, {n});
        OP_BIND(c, a, gscale, OP_IN, TR_F32, {1});
    }
    if (variant & 4)
        OP_BIND(c, a, skip, OP_IN, TR_I64, {1}, .ints = found, .count = 1);
    OP_RUN(c, adamw, a);
}

static void reduce(enum tr_dtype t, enum tr_dtype out, int64_t W, int64_t n)
{
    for (int add = 0; add < 2; add++) {
        struct tr_reduce a[OP_BACKENDS] = {0};
        struct op_case *c = begin("reduce_ordered", t, W, n);

        OP_BIND(c, a, out, add ? OP_INOUT : OP_OUT, out, {n}, .loose = 4);
        OP_BIND(c, a, slices, OP_IN, t, {W, n}, .gap = 1);
        for (int b = 0; b < OP_BACKENDS; b++)
            a[b].add = add;
        OP_RUN(c, reduce_ordered, a);
    }
}

void op_vec_cases(void)
{
    static const int64_t sizes[][2] = {{-1, 3},   {1, 1},    {5, 7},   {11, 13},
                                       {3, 7168}, {2, 9001}, {300, 17}};

    integers();
    scans(TR_F32, 3, 140005); /* more sums of one size than the CPU adds up at once */
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int t = 0; t < 3; t++) {
            elementwise(op_types[t], sizes[s][0], sizes[s][1]);
            noise(op_types[t], sizes[s][0], sizes[s][1], t % 2 == 0);
            decode(op_types[t], sizes[s][0], sizes[s][1]);
            scans(op_types[t], sizes[s][0], sizes[s][1]);
            reduce(op_types[t], op_types[t], sizes[s][0], sizes[s][1]);
            reduce(op_types[t], TR_F32, sizes[s][0], sizes[s][1]);
        }
        scan_f8(sizes[s][0], sizes[s][1]);
        for (int v = 0; v < 16; v++)
            adamw(sizes[s][0] * sizes[s][1], v);
    }
}
