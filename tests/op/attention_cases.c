#include "tests/op/op.h"

#include <math.h>
#include <stdio.h>

struct shape {
    int64_t T, nh, nkv, dq, dv;
    int64_t offsets[5];
    int64_t n; /* of offsets */
    bool causal;
    int64_t window;
};

static const struct shape shapes[] = {
    {-1, 2, 1, 3, 5, {0, 0}, 2, true, 0}, /* no token */
    {1, 1, 1, 1, 1, {0, 1}, 2, true, 0},
    {7, 2, 2, 5, 3, {0, 7}, 2, true, 0},
    {13, 3, 1, 11, 7, {0, 5, 13}, 3, true, 0},
    {70, 2, 2, 24, 16, {0, 70}, 2, true, 0}, /* over a block of queries */
    {131, 4, 2, 24, 16, {0, 1, 66, 131}, 4, true, 0},
    {131, 2, 2, 16, 16, {0, 64, 129}, 3, false, 0}, /* the last two tokens in no segment */
    {20, 2, 1, 8, 8, {3, 3, 9, 20}, 4, false, 0},   /* an empty segment */
    {40, 2, 1, 64, 64, {0, 40}, 2, true, 0},
    {150, 2, 2, 192, 128, {0, 22, 150}, 3, true, 0},
    {200, 1, 1, 192, 128, {0, 200}, 2, true, 0}, /* the backward's rings wrap, too */
    {70, 2, 1, 128, 128, {0, 5, 70}, 3, true, 0},
    {37, 1, 1, 99, 71, {0, 37}, 2, true, 0}, /* rows at no multiple of 16 bytes */
    {37, 1, 1, 150, 100, {0, 37}, 2, true, 0},
    {13, 3, 1, 11, 7, {0, 5, 13}, 3, true, 1}, /* a token sees itself alone */
    {131, 4, 2, 24, 16, {0, 1, 66, 131}, 4, true, 17},
    {300, 2, 1, 64, 64, {0, 300}, 2, true, 70}, /* whole tiles in front of the window */
    {200, 1, 1, 192, 128, {0, 200}, 2, true, 130},
    {70, 2, 2, 24, 16, {0, 70}, 2, true, 1000},
    {70, 8, 2, 128, 128, {0, 5, 70}, 3, true, 0}, /* rows that share sets of a cache */
};

/* As many heads as the real model has. */
static const struct shape model_shape = {2, 128, 128, 16, 8, {0, 2}, 2, true, 0};

/* Over so many tiles of keys that the rings of sm_90 kernels wrap; the forward alone, for sums as
 * long lose too much of a rounded P. */
static const struct shape long_shapes[] = {
    {560, 1, 1, 192, 128, {0, 20, 560}, 3, true, 0},
    {530, 1, 1, 192, 128, {0, 530}, 2, false, 0},
};

static void attention(enum tr_dtype t, const struct shape *s, bool backward)
{
    struct tr_attention f[OP_BACKENDS] = {0}, g[OP_BACKENDS] = {0};
    struct op_case *c;
    char what[96];
    float scale = 1 / sqrtf((float)s->dq);
    double loose = t == TR_F32 ? 4 : 10;    /* probabilities may be rounded to C */
    bool dense = s->nh * s->dq % 1024 == 0; /* rows one behind the other */

    snprintf(what, sizeof what, "attention_fwd %s T=%lld nh=%lld", tr_dtype_name(t),
             (long long)s->T, (long long)s->nh);
    for (int b = 0; b < OP_BACKENDS; b++) {
        f[b].causal = g[b].causal = s->causal;
        f[b].scale = g[b].scale = scale;
        f[b].window = g[b].window = s->window;
    }
    op_begin(&c, what);
    OP_BIND(c, f, O, OP_OUT, t, {s->T, s->nh, s->dv}, .gap = 3, .loose = loose);
    OP_BIND(c, f, lse, OP_OUT, TR_F32, {s->nh, s->T}, .gap = 2, .loose = 4);
    OP_BIND(c, f, Q, OP_IN, t, {s->T, s->nh, s->dq}, .gap = !dense, .scale = 2);
    OP_BIND(c, f, K, OP_IN, t, {s->T, s->nkv, s->dq}, .gap = 5, .scale = 2);
    OP_BIND(c, f, V, OP_IN, t, {s->T, s->nkv, s->dv}, .gap = 7);
    OP_BIND(c, f, offsets, OP_IN, TR_I32, {s->n}, .ints = s->offsets, .count = s->n);
    OP_RUN(c, attention_fwd, f);
    if (!backward)
        return;

    what[10] = 'b';
    op_begin(&c, what);
    OP_BIND(c, g, dQ, OP_OUT, t, {s->T, s->nh, s->dq}, .gap = 1, .loose = 10);
    OP_BIND(c, g, dK, OP_OUT, t, {s->T, s->nkv, s->dq}, .gap = 5, .loose = 10);
    OP_BIND(c, g, dV, OP_OUT, t, {s->T, s->nkv, s->dv}, .gap = 7, .loose = 10);
    OP_BIND(c, g, dO, OP_IN, t, {s->T, s->nh, s->dv}, .gap = dense ? 0 : 2);
    OP_BIND(c, g, O, OP_IN, t, {s->T, s->nh, s->dv}, .gap = 3);
    OP_BIND(c, g, lse, OP_IN, TR_F32, {s->nh, s->T}, .gap = 2, .shift = s->T == 1 ? 0 : 4);
    OP_BIND(c, g, Q, OP_IN, t, {s->T, s->nh, s->dq}, .gap = !dense);
    OP_BIND(c, g, K, OP_IN, t, {s->T, s->nkv, s->dq}, .gap = 5);
    OP_BIND(c, g, V, OP_IN, t, {s->T, s->nkv, s->dv}, .gap = 7);
    OP_BIND(c, g, offsets, OP_IN, TR_I32, {s->n}, .ints = s->offsets, .count = s->n);
    OP_RUN(c, attention_bwd, g);
}

/* A chunk of the vocabulary as the head of xent_chunk; FP8 in blocks with scales that every type
 * holds. */
static void bind_head(struct op_case *c, struct tr_xent *a, enum tr_dtype t, const int64_t *size)
{
    enum { BLOCK = 16, ROW0 = 5 };
    static const int64_t scales[] = {1, 2, 4};

    OP_BIND(c, a, w.w, OP_IN, t, {size[2], size[1]}, .gap = 4, .shift = size[1] == 1 ? 2 : 0);
    if (t != TR_F8_E4M3)
        return;
    OP_BIND(c, a, w.scale, OP_IN, TR_F32,
            {(size[2] + ROW0 + BLOCK - 1) / BLOCK, (size[1] + BLOCK - 1) / BLOCK}, .ints = scales,
            .count = 3);
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].w.block_rows = a[b].w.block_cols = BLOCK;
        a[b].w.row0 = ROW0;
    }
}

/* Chunk after chunk over a vocabulary of V rows; each call is compared from its own state. */
static void xent_chunk(enum tr_dtype t, enum tr_dtype wt, const int64_t *size, bool first,
                       bool grad)
{
    enum tr_dtype kept = t == TR_F16 ? TR_F32 : t; /* p is of one type or the other */
    int64_t T = size[0], H = size[1], rows = size[2];
    static const int64_t targets[] = {5, -1, 3, 70, 4, 0, -1};
    struct tr_xent a[OP_BACKENDS] = {0};
    struct op_case *c;
    char what[96];
    enum op_role state = first ? OP_OUT : OP_INOUT;
    double loose = t == TR_F32 ? 16 : t == TR_BF16 ? 2000 : 300; /* exp(z - m) rounded to C */
    double most = wt == TR_F8_E4M3 ? 4 : 1;                      /* of a decoded weight */
    double before = 1 + (double)rows / 16; /* the chunks before weigh as much as this one */

    snprintf(what, sizeof what, "xent_chunk %s %s %lld %lld %lld %d%d", tr_dtype_name(t),
             tr_dtype_name(wt), (long long)T, (long long)H, (long long)rows, first, grad);
    op_begin(&c, what);
    OP_BIND(c, a, state.m, state, TR_F32, {T}, .shift = 1, .loose = 4);
    OP_BIND(c, a, state.l, state, TR_F32, {T}, .shift = 1 + before, .loose = 8);
    OP_BIND(c, a, state.target_logit, state, TR_F32, {T}, .loose = 4);
    if (grad) {
        OP_BIND(c, a, state.acc, state, TR_F32, {T, H}, .gap = 1, .scale = before,
                .loose = most * loose);
        OP_BIND(c, a, state.target_row, state, t, {T, H}, .gap = 2);
    } else if (first) {
        OP_BIND(c, a, p, OP_OUT, kept, {T, rows}, .gap = 3, .loose = kept == TR_F32 ? 16 : 4);
        OP_BIND(c, a, top, OP_OUT, TR_F32, {T}, .loose = 4);
    }
    OP_BIND(c, a, F, OP_IN, t, {T, H}, .gap = 3, .scale = wt == TR_F8_E4M3 ? 0.05 : 1);
    bind_head(c, a, wt, size);
    OP_BIND(c, a, targets, OP_IN, TR_I32, {T}, .ints = targets, .count = 7);
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].row0 = rows == 1 ? 5 : 3; /* one row is a target's */
        a[b].first = first;
        op_prepack(c, b, &a[b].w);
    }
    OP_RUN(c, xent_chunk, a);
}

static void xent_finish(enum tr_dtype t, enum tr_dtype out, int64_t T, int64_t H, bool grad)
{
    static const int64_t targets[] = {5, -1, 3, 70, 4, 0, -1};
    struct tr_xent_finish a[OP_BACKENDS] = {0};
    struct op_case *c;
    char what[96];

    snprintf(what, sizeof what, "xent_finish %s %lld %lld %d", tr_dtype_name(t), (long long)T,
             (long long)H, grad);
    op_begin(&c, what);
    OP_BIND(c, a, state.m, OP_IN, TR_F32, {T});
    OP_BIND(c, a, state.l, OP_IN, TR_F32, {T}, .shift = 2);
    OP_BIND(c, a, state.target_logit, OP_IN, TR_F32, {T});
    OP_BIND(c, a, loss_sum, OP_INOUT, TR_F64, {1}, .loose = 1000);
    OP_BIND(c, a, targets, OP_IN, TR_I32, {T}, .ints = targets, .count = 7);
    if (grad) {
        OP_BIND(c, a, state.acc, OP_IN, TR_F32, {T, H}, .gap = 1);
        OP_BIND(c, a, state.target_row, OP_IN, t, {T, H}, .gap = 2);
        OP_BIND(c, a, dF, OP_OUT, out, {T, H}, .gap = 3);
        OP_BIND(c, a, loss, OP_OUT, TR_F32, {T});
    }
    for (int b = 0; b < OP_BACKENDS; b++)
        a[b].scale = 0.125;
    OP_RUN(c, xent_finish, a);
}

static void xent_bwd(enum tr_dtype t, enum tr_dtype kept, int64_t T, int64_t rows)
{
    static const int64_t targets[] = {5, -1, 3, 70, 4, 0, -1};
    struct tr_xent_grad a[OP_BACKENDS] = {0};
    struct op_case *c;
    char what[96];

    snprintf(what, sizeof what, "xent_bwd %s %s %lld %lld", tr_dtype_name(t), tr_dtype_name(kept),
             (long long)T, (long long)rows);
    op_begin(&c, what);
    OP_BIND(c, a, dz, OP_OUT, t, {T, rows}, .gap = 2, .loose = 16);
    OP_BIND(c, a, p, OP_IN, kept, {T, rows}, .gap = 1);
    OP_BIND(c, a, top, OP_IN, TR_F32, {T});
    OP_BIND(c, a, m, OP_IN, TR_F32, {T}, .shift = 1);
    OP_BIND(c, a, l, OP_IN, TR_F32, {T}, .shift = 2);
    OP_BIND(c, a, targets, OP_IN, TR_I32, {T}, .ints = targets, .count = 7);
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].row0 = 3;
        a[b].scale = 0.125;
    }
    OP_RUN(c, xent_bwd, a);
}

static void swiglu(enum tr_dtype t, int64_t R, int64_t n, bool routed)
{
    static const int64_t window[] = {0, 2, 4}, slots[] = {3, 0, 5, 1, 4, 2};
    struct tr_swiglu f[OP_BACKENDS] = {0};
    struct tr_swiglu_grad g[OP_BACKENDS] = {0};
    struct op_case *c;
    char what[96];

    for (int b = 0; b < OP_BACKENDS; b++) {
        f[b].rows.first = g[b].rows.first = 1;
        f[b].rows.last = g[b].rows.last = 2;
    }
    snprintf(what, sizeof what, "swiglu_fwd %s %lld %lld %d", tr_dtype_name(t), (long long)R,
             (long long)n, routed);
    op_begin(&c, what);
    OP_BIND(c, f, h, OP_OUT, t, {R, n}, .gap = 1, .loose = 2);
    OP_BIND(c, f, g, OP_IN, t, {R, n}, .gap = 2, .scale = 9);
    OP_BIND(c, f, u, OP_IN, t, {R, n}, .gap = 3);
    if (routed)
        OP_BIND(c, f, rows.offsets, OP_IN, TR_I32, {3}, .ints = window, .count = 3);
    OP_RUN(c, swiglu_fwd, f);
    what[7] = 'b';
    op_begin(&c, what);
    OP_BIND(c, g, dg, OP_OUT, t, {R, n}, .gap = 1, .loose = 4);
    OP_BIND(c, g, du, OP_OUT, t, {R, n}, .gap = 2, .loose = 4);
    OP_BIND(c, g, dh, OP_IN, t, {R, n}, .gap = 3);
    OP_BIND(c, g, g, OP_IN, t, {R, n}, .scale = 9);
    OP_BIND(c, g, u, OP_IN, t, {R, n});
    if (routed) {
        OP_BIND(c, g, weight, OP_IN, TR_F32, {3, 2});
        OP_BIND(c, g, dweight, OP_OUT, TR_F32, {3, 2}, .loose = 16);
        OP_BIND(c, g, slot_of, OP_IN, TR_I32, {R}, .ints = slots, .count = 6);
        OP_BIND(c, g, rows.offsets, OP_IN, TR_I32, {3}, .ints = window, .count = 3);
    }
    OP_RUN(c, swiglu_bwd, g);
}

void op_attention_cases(void)
{
    for (int t = 0; t < 3; t++) {
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            attention(op_types[t], &shapes[s], true);
        if (op_types[t] != TR_F32)
            attention(op_types[t], &long_shapes[op_types[t] == TR_F16], false);
    }
    attention(TR_BF16, &model_shape, false);
}

void op_loss_cases(void)
{
    static const int64_t sizes[][3] = {
        {-1, 5, 7}, {1, 1, 1}, {5, 7, 11}, {7, 13, 5}, {70, 64, 300}};
    static const int64_t model[][3] = {{3, 7168, 24}, {2, 8, 129280}};
    static const int64_t coded[][3] = {{5, 64, 21}, {5, 19, 11}};

    for (int t = 0; t < 3; t++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (int v = 0; v < 4; v++)
                xent_chunk(op_types[t], op_types[t], sizes[s], v & 1, v & 2);
            xent_finish(op_types[t], op_types[t], sizes[s][0], sizes[s][1], true);
            if (op_types[t] != TR_F32)
                xent_finish(op_types[t], TR_F32, sizes[s][0], sizes[s][1], true);
            xent_finish(op_types[t], op_types[t], sizes[s][0], sizes[s][1], false);
            xent_bwd(op_types[t], op_types[t], sizes[s][0], sizes[s][2]);
            if (op_types[t] != TR_F32)
                xent_bwd(op_types[t], TR_F32, sizes[s][0], sizes[s][2]);
            swiglu(op_types[t], sizes[s][0], sizes[s][2], false);
        }
        for (int s = 0; s < 2; s++)
            xent_chunk(op_types[t], TR_F8_E4M3, coded[s], s, true);
        swiglu(op_types[t], 6, 13, true);
        swiglu(op_types[t], 6, 2048, true);
    }
    for (int s = 0; s < 2; s++)
        for (int v = 2; v < 4; v++)
            xent_chunk(TR_BF16, TR_BF16, model[s], v & 1, true);
    xent_finish(TR_BF16, TR_BF16, 3, 7168, true);
    swiglu(TR_BF16, 2, 18432, false);
}
