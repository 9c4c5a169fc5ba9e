/*
 * Rows of a key-value cache, and attention over it. A piece of work is one token and up to HEADS of
 * the q heads that share a kv head: a key's row is turned into f32 once for all of them. Two passes
 * over the keys: all scores, then the weighted sum of the values.
 */
#include "trainer/backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { HEADS = 16 };

static void put_row(const void *args, int64_t t, float *lane)
{
    const struct tr_put_rows *a = args;
    int64_t at = cpu_int(&a->index, t, 0), n = a->x.shape[1];

    if (at < 0)
        return;
    cpu_load(lane, &a->x, t, 0, n);
    cpu_store(&a->y, at, 0, lane, n);
}

enum fr_rc tr_cpu_put_rows(void *self, struct tr_queue *q, const struct tr_put_rows *a,
                           struct fr_err *err)
{
    int64_t n = a->x.shape[1];

    return cpu_each_row(
        self, q,
        &(struct cpu_loop){
            .rows = {0, a->x.shape[0]}, .n = n, .floats = n, .row = put_row, .args = a},
        err);
}

/* One token's view of its sequence. */
struct token {
    const struct tr_attention_cached *a;
    int64_t t, first, keys;
};

static int64_t longest(const struct tr_attention_cached *a)
{
    return a->max_len > 0 && a->max_len < a->K.shape[0] ? a->max_len : a->K.shape[0];
}

/* (HEADS, dq) queries, (HEADS, dv) sums, (HEADS, keys) scores, one row. */
static int64_t lane_floats(const struct tr_attention_cached *a)
{
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2];

    return HEADS * (dq + dv + longest(a)) + (dq > dv ? dq : dv);
}

size_t cpu_cached_bytes(const struct cpu *cpu, const struct tr_attention_cached *a)
{
    return (size_t)((lane_floats(a) + 15) / 16 * 16 * cpu->threads) * sizeof(float);
}

/* q heads h .. h+n of one kv head. */
static void some_heads(const struct token *x, int64_t h, int64_t n, float *lane)
{
    const struct tr_attention_cached *a = x->a;
    int64_t dq = a->Q.shape[2], dv = a->V.shape[2], g = h / (a->Q.shape[1] / a->K.shape[1]);
    float *o = lane + HEADS * dq, *s = o + HEADS * dv, *row = s + HEADS * x->keys;

    cpu_load(lane, &a->Q, x->t, h * dq, n * dq);
    for (int64_t j = 0; j < x->keys; j++) {
        cpu_load(row, &a->K, x->first + j, g * dq, dq);
        for (int64_t i = 0; i < n; i++)
            s[i * x->keys + j] = a->scale * cpu_dot(lane + i * dq, row, dq);
    }
    memset(o, 0, (size_t)(n * dv) * sizeof *o);
    for (int64_t i = 0; i < n; i++) {
        float *p = s + i * x->keys, sum = cpu_exp_sum(p, cpu_max(p, x->keys), x->keys);

        cpu_scale(p, 1 / sum, x->keys);
    }
    for (int64_t j = 0; j < x->keys; j++) {
        cpu_load(row, &a->V, x->first + j, g * dv, dv);
        for (int64_t i = 0; i < n; i++)
            cpu_axpy(o + i * dv, s[i * x->keys + j], row, dv);
    }
    cpu_store(&a->O, x->t, h * dv, o, n * dv);
}

/* Finds the segment of token t; false: t is in none. */
static bool find(const struct tr_attention_cached *a, int64_t t, struct token *x)
{
    for (int64_t b = 0; b < a->first.shape[0]; b++) {
        int64_t begin = cpu_int(&a->offsets, b, 0), end = cpu_int(&a->offsets, b + 1, 0);

        if (t < begin || t >= end)
            continue;
        *x = (struct token){.a = a,
                            .t = t,
                            .first = cpu_int(&a->first, b, 0),
                            .keys = cpu_int(&a->len, b, 0) - (end - t) + 1};
        if (a->window > 0 && x->keys > a->window) {
            x->first += x->keys - a->window;
            x->keys = a->window;
        }
        return true;
    }
    return false;
}

enum fr_rc tr_cpu_attention_cached(void *self, struct tr_queue *q,
                                   const struct tr_attention_cached *a, struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->Q.shape[0], nh = a->Q.shape[1], group = nh / a->K.shape[1];
    int64_t turns = (group + HEADS - 1) / HEADS, pieces = T * a->K.shape[1] * turns;
    float *lanes;
    enum fr_rc rc = cpu_lanes(cpu, q, lane_floats(a), &lanes, err);

    if (rc != FR_OK)
        return rc;
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic) if (pieces > 1)
    for (int64_t i = 0; i < pieces; i++) {
        int64_t g = i / turns % a->K.shape[1], from = i % turns * HEADS;
        struct token x;

        if (find(a, i / turns / a->K.shape[1], &x))
            some_heads(&x, g * group + from, group - from < HEADS ? group - from : HEADS,
                       cpu_lane(lanes, lane_floats(a)));
    }
    return FR_OK;
}
