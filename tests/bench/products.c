/*
 * Products of a dense model's linears on the CPU, as training has them: forward, gradient of the
 * input, gradient of the weight, each alone, on all threads.
 *
 * usage: products CONFIG TOKENS [type=bf16|f32] [sets=N]
 *
 * A product goes round N [1] sets of operands: with one they stay in the caches, with many they
 * come from memory, as in a step. Prints GFLOP/s of the best round of each, and of all products of
 * a step together.
 */
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "tests/bench/meter.h"
#include "trainer/backend/device.h"
#include "trainer/config/model_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SETS = 64, ROUNDS = 8 };
static const double ROUND_S = 0.15; /* at least one turn of the sets */

enum kind { FORWARD, INPUT, WEIGHT, KINDS };
static const char *const KIND[KINDS] = {"forward", "dX", "dW"};

struct bench {
    struct tr_backend *be;
    struct tr_queue *q;
    enum tr_dtype type;
    int64_t tokens, sets;
    double flop, seconds; /* of all products of a step */
};

/* A linear of the model, which a step has so many times. */
struct linear {
    const char *what;
    int64_t in, out, times;
};

static enum fr_rc make(struct bench *b, struct tr_view *v, enum tr_dtype type, int64_t rows,
                       int64_t cols, struct fr_err *err)
{
    struct tr_noise noise = {.key = 1, .scale = 0.1F};
    void *p = NULL;
    enum fr_rc rc =
        tr_mem_alloc(b->be, TR_MEM_DEVICE, (size_t)(rows * cols) * tr_dtype_bytes(type), &p, err);

    *v = tr_view2(p, type, rows, cols);
    noise.y = tr_view1(p, type, rows * cols);
    return rc == FR_OK ? tr_noise(b->be, b->q, &noise, err) : rc;
}

static enum fr_rc make_set(struct bench *b, const struct linear *l, enum kind kind,
                           struct tr_gemm *g, struct fr_err *err)
{
    int64_t T = b->tokens, in = l->in, out = l->out;
    enum tr_dtype c = kind == WEIGHT ? TR_F32 : b->type;
    const int64_t rows[KINDS][3] = {{T, T, out}, {T, T, out}, {out, T, T}};
    const int64_t cols[KINDS][3] = {{out, in, in}, {in, out, in}, {in, out, in}};
    enum fr_rc rc = make(b, &g->c, c, rows[kind][0], cols[kind][0], err);

    g->trans_a = kind == WEIGHT;
    g->trans_b = kind == FORWARD;
    g->alpha = 1;
    if (rc == FR_OK)
        rc = make(b, &g->a, b->type, rows[kind][1], cols[kind][1], err);
    return rc == FR_OK ? make(b, &g->b.w, b->type, rows[kind][2], cols[kind][2], err) : rc;
}

static enum fr_rc measure(struct bench *b, const struct tr_gemm *sets, double *best,
                          struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *best = INFINITY;
    for (int i = 0; i < ROUNDS && rc == FR_OK; i++) {
        double begun = meter_now(), now = begun;
        int64_t n = 0;

        for (; (now - begun < ROUND_S || n % b->sets != 0) && rc == FR_OK; n++) {
            rc = tr_gemm(b->be, b->q, &sets[n % b->sets], err);
            if (rc == FR_OK)
                rc = tr_sync(b->be, b->q, err);
            now = meter_now();
        }
        *best = fmin(*best, (now - begun) / (double)n);
    }
    return rc;
}

static enum fr_rc bench_one(struct bench *b, const struct linear *l, enum kind kind,
                            struct fr_err *err)
{
    struct tr_gemm sets[SETS] = {0};
    double best = 0, flop = 2 * (double)b->tokens * (double)l->in * (double)l->out;
    enum fr_rc rc = FR_OK;

    for (int64_t i = 0; i < b->sets && rc == FR_OK; i++)
        rc = make_set(b, l, kind, &sets[i], err);
    if (rc == FR_OK)
        rc = measure(b, sets, &best, err);
    if (rc == FR_OK)
        fr_print("%-12s %5lld x %5lld  %-8s %8.1f GFLOP/s\n", l->what, (long long)l->in,
                 (long long)l->out, KIND[kind], flop / best * 1e-9);
    b->flop += flop * (double)l->times;
    b->seconds += best * (double)l->times;
    for (int64_t i = 0; i < b->sets; i++) {
        tr_mem_free(b->be, TR_MEM_DEVICE, sets[i].a.p);
        tr_mem_free(b->be, TR_MEM_DEVICE, sets[i].b.w.p);
        tr_mem_free(b->be, TR_MEM_DEVICE, sets[i].c.p);
    }
    return rc;
}

static enum fr_rc run(struct bench *b, const struct tr_model_config *c, struct fr_err *err)
{
    int64_t H = c->hidden_size, q = c->num_attention_heads * c->head_dim;
    int64_t kv = c->num_key_value_heads * c->head_dim, n = c->num_hidden_layers;
    const struct linear all[] = {{"q", H, q, n},
                                 {"k, v", H, kv, 2 * n},
                                 {"o", q, H, n},
                                 {"gate, up", H, c->intermediate_size, 2 * n},
                                 {"down", c->intermediate_size, H, n},
                                 {"head", H, c->vocab_size, 1}};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (int kind = 0; kind < KINDS && rc == FR_OK; kind++)
            rc = bench_one(b, &all[i], (enum kind)kind, err);
    if (rc == FR_OK)
        fr_print("all of a step %.1f GFLOP/s, %.3f s\n", b->flop / b->seconds * 1e-9, b->seconds);
    return rc;
}

static enum fr_rc read_options(struct bench *b, int argc, char **argv, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int i = 3; i < argc && rc == FR_OK; i++) {
        if (strcmp(argv[i], "type=bf16") == 0)
            b->type = TR_BF16;
        else if (fr_has_prefix(argv[i], "sets="))
            rc = fr_parse_i64(fr_str_of(argv[i] + strlen("sets=")), &b->sets, err);
        else if (strcmp(argv[i], "type=f32") != 0)
            rc = fr_fail(err, FR_USAGE, "%s: expected type=bf16, type=f32 or sets=N", argv[i]);
    }
    if (rc == FR_OK && (b->sets < 1 || b->sets > SETS))
        rc = fr_fail(err, FR_USAGE, "sets: expected 1 to %d", SETS);
    return rc;
}

int main(int argc, char **argv)
{
    struct bench b = {.type = TR_F32, .sets = 1};
    struct tr_model_config c;
    struct fr_err err = {0};
    enum fr_rc rc = argc < 3 ? fr_fail(&err, FR_USAGE, "expected CONFIG TOKENS") : FR_OK;

    if (rc == FR_OK)
        rc = tr_model_config_load(argv[1], &c, &err);
    if (rc == FR_OK)
        rc = fr_parse_i64(fr_str_of(argv[2]), &b.tokens, &err);
    if (rc == FR_OK)
        rc = read_options(&b, argc, argv, &err);
    if (rc == FR_OK)
        rc = tr_device_create(TR_DEVICE_CPU, 0, &b.be, &err);
    if (rc == FR_OK)
        rc = tr_queue_create(b.be, 0, &b.q, &err);
    if (rc == FR_OK)
        rc = run(&b, &c, &err);
    if (rc != FR_OK)
        fr_complain("products: %s\n", err.msg);
    return rc == FR_OK ? 0 : 1;
}
