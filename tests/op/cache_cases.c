#include "tests/op/op.h"

#include <math.h>
#include <stdio.h>

static void put_rows(enum tr_dtype t, int64_t T, int64_t n, int64_t R)
{
    static const int64_t index[] = {3, 0, -1, 8, 5, 1, 10};
    struct tr_put_rows a[OP_BACKENDS] = {0};
    struct op_case *c;
    char what[96];

    snprintf(what, sizeof what, "put_rows %s %lld %lld %lld", tr_dtype_name(t), (long long)T,
             (long long)n, (long long)R);
    op_begin(&c, what);
    OP_BIND(c, a, y, OP_OUT, t, {R, n}, .gap = n % 16 == 0 ? 8 : 1);
    OP_BIND(c, a, x, OP_IN, t, {T, n}, .gap = n % 16 == 0 ? 16 : 2);
    OP_BIND(c, a, index, OP_IN, TR_I32, {T}, .ints = index, .count = 7);
    OP_RUN(c, put_rows, a);
}

struct shape {
    int64_t T, nh, nkv, dq, dv, R;
    int64_t B, offsets[4], first[3], len[3];
    int64_t max_len, window;
};

static const struct shape shapes[] = {
    {-1, 2, 1, 3, 5, 4, 1, {0, 0}, {0}, {3}, 0, 0}, /* no token */
    {1, 1, 1, 1, 1, 1, 1, {0, 1}, {0}, {1}, 1, 0},  /* the first token of all */
    {3, 2, 2, 5, 3, 40, 3, {0, 1, 2, 3}, {20, 0, 33}, {7, 11, 1}, 11, 0},
    {9, 3, 1, 11, 7, 60, 2, {0, 4, 8}, {5, 30}, {29, 4}, 29, 0},       /* several tokens; one in no
                                                                        * segment
                                                                        */
    {2, 20, 1, 24, 16, 300, 2, {0, 1, 2}, {150, 0}, {150, 131}, 0, 0}, /* more heads than one turn
                                                                        */
    {2, 4, 2, 64, 64, 64, 2, {0, 0, 2}, {0, 0}, {1, 64}, 64, 0},       /* an empty segment */
    {9, 3, 1, 11, 7, 60, 2, {0, 4, 8}, {5, 30}, {29, 4}, 29, 3},
    {2, 4, 2, 64, 64, 200, 2, {0, 1, 2}, {0, 70}, {64, 130}, 130, 70},
    {1, 2, 1, 99, 71, 200, 1, {0, 1}, {0}, {200}, 200, 0}, /* rows at no multiple of 16 bytes */
    {3, 2, 1, 576, 512, 20, 2, {0, 1, 3}, {0, 9}, {9, 11}, 11, 0}, /* latents of the real model */
};

static void attention(enum tr_dtype t, const struct shape *s)
{
    struct tr_attention_cached a[OP_BACKENDS] = {0};
    struct op_case *c;
    char what[96];

    snprintf(what, sizeof what, "attention_cached %s T=%lld nh=%lld R=%lld", tr_dtype_name(t),
             (long long)s->T, (long long)s->nh, (long long)s->R);
    for (int b = 0; b < OP_BACKENDS; b++) {
        a[b].scale = 1 / sqrtf((float)s->dq);
        a[b].max_len = s->max_len;
        a[b].window = s->window;
    }
    op_begin(&c, what);
    OP_BIND(c, a, O, OP_OUT, t, {s->T, s->nh, s->dv}, .gap = 3, .loose = t == TR_F32 ? 8 : 4);
    OP_BIND(c, a, Q, OP_IN, t, {s->T, s->nh, s->dq}, .gap = 1, .scale = 2);
    OP_BIND(c, a, K, OP_IN, t, {s->R, s->nkv, s->dq}, .gap = 5, .scale = 2);
    OP_BIND(c, a, V, OP_IN, t, {s->R, s->nkv, s->dv}, .gap = 7);
    OP_BIND(c, a, offsets, OP_IN, TR_I32, {s->B + 1}, .ints = s->offsets, .count = s->B + 1);
    OP_BIND(c, a, first, OP_IN, TR_I32, {s->B}, .ints = s->first, .count = s->B);
    OP_BIND(c, a, len, OP_IN, TR_I32, {s->B}, .ints = s->len, .count = s->B);
    OP_RUN(c, attention_cached, a);
}

void op_cache_cases(void)
{
    for (int t = 0; t < 3; t++) {
        put_rows(op_types[t], -1, 5, 11);
        put_rows(op_types[t], 1, 1, 11);
        put_rows(op_types[t], 7, 13, 11);
        put_rows(op_types[t], 5, 576, 11);
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            attention(op_types[t], &shapes[s]);
    }
}
