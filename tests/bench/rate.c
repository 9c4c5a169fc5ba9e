/*
 * oneDNN's own rate at the shapes of a model's products: activations in rows, weights packed once
 * as oneDNN likes them, all threads. Five rounds over all shapes by turns; a shape's time is its
 * best.
 *
 * usage: rate CONFIG TOKENS [type=bf16|f32]
 *
 * Prints a line a shape, and last the rate of all of a layer's products together, in TFLOP/s: that
 * which `layers … rate=` compares with.
 */
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "tests/bench/meter.h"
#include "trainer/backend/cpu/onednn_api.h"
#include "trainer/config/model_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, SHAPES = 16 };
static const double ROUND_S = 0.08;

struct shape {
    const char *what;
    int64_t m, k, n;
    double times; /* how often a layer has it */
    double best;  /* seconds */
    dnnl_primitive_t run;
    dnnl_memory_t memory[3]; /* activations, weights, results */
};

struct bench {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_data_type_t type;
    struct shape shapes[SHAPES];
    size_t n;
};

static void add(struct bench *b, const char *what, const int64_t mkn[3], double times)
{
    if (mkn[0] > 0 && mkn[1] > 0 && mkn[2] > 0 && b->n < SHAPES)
        b->shapes[b->n++] = (struct shape){
            .what = what, .m = mkn[0], .k = mkn[1], .n = mkn[2], .times = times, .best = INFINITY};
}

/* The products of a layer with experts. */
static void list(struct bench *b, const struct tr_model_config *c, int64_t T)
{
    int64_t H = c->hidden_size, nh = c->num_attention_heads, I = c->moe_intermediate_size;
    int64_t q = nh * (c->qk_nope_head_dim + c->qk_rope_head_dim), kr = c->kv_lora_rank;
    int64_t E = c->n_routed_experts, R = E > 0 ? T * c->num_experts_per_tok / E : 0;

    add(b, "q_a", (int64_t[]){T, H, c->q_lora_rank}, 1);
    add(b, "q_b", (int64_t[]){T, c->q_lora_rank > 0 ? c->q_lora_rank : H, q}, 1);
    add(b, "kv_a", (int64_t[]){T, H, kr + c->qk_rope_head_dim}, 1);
    add(b, "kv_b", (int64_t[]){T, kr, nh * (c->qk_nope_head_dim + c->v_head_dim)}, 1);
    add(b, "o", (int64_t[]){T, nh * c->v_head_dim, H}, 1);
    add(b, "expert gate, up", (int64_t[]){R, H, I}, 2 * (double)E);
    add(b, "expert down", (int64_t[]){R, I, H}, (double)E);
    add(b, "shared gate, up", (int64_t[]){T, H, I * c->n_shared_experts}, 2);
    add(b, "shared down", (int64_t[]){T, I * c->n_shared_experts, H}, 1);
}

static dnnl_status_t fill(dnnl_memory_t memory, size_t bytes)
{
    unsigned char *p = NULL;
    dnnl_status_t st = dnnl_memory_get_data_handle(memory, (void **)&p);

    /* Values near 1 in both types, no two alike for long. */
    for (size_t i = 0; st == dnnl_success && i < bytes; i++)
        p[i] = i % 2 == 1 ? 0x3f : (unsigned char)(i * 2654435761U >> 13);
    return st;
}

static dnnl_status_t remember(struct bench *b, struct shape *s, const_dnnl_primitive_desc_t pd)
{
    const dnnl_query_t what[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
    dnnl_status_t st = dnnl_success;

    for (int i = 0; i < 3 && st == dnnl_success; i++) {
        st = dnnl_memory_create(&s->memory[i], dnnl_primitive_desc_query_md(pd, what[i], 0),
                                b->engine, DNNL_MEMORY_ALLOCATE);
        if (st == dnnl_success)
            st = fill(s->memory[i],
                      dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, what[i], 0)));
    }
    return st;
}

static dnnl_status_t make(struct bench *b, struct shape *s)
{
    const struct cpu_matrix abc[3] = {{s->m, s->k, s->k, false, b->type},
                                      {s->k, s->n, 0, false, b->type},
                                      {s->m, s->n, s->n, false, b->type}};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = cpu_dnnl_matmul(&pd, b->engine, abc, NULL);

    if (st == dnnl_success)
        st = dnnl_primitive_create(&s->run, pd);
    if (st == dnnl_success)
        st = remember(b, s, pd);
    dnnl_primitive_desc_destroy(pd);
    return st;
}

static dnnl_status_t once(struct bench *b, struct shape *s)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->memory[0]},
                                    {DNNL_ARG_WEIGHTS, s->memory[1]},
                                    {DNNL_ARG_DST, s->memory[2]}};
    double t = meter_now();
    dnnl_status_t st = dnnl_primitive_execute(s->run, b->stream, 3, args);

    if (st == dnnl_success)
        st = dnnl_stream_wait(b->stream);
    s->best = fmin(s->best, meter_now() - t);
    return st;
}

static dnnl_status_t measure(struct bench *b)
{
    dnnl_status_t st = dnnl_success;

    for (int i = 0; i < ROUNDS; i++)
        for (size_t k = 0; k < b->n; k++)
            for (double begun = meter_now(); st == dnnl_success && meter_now() - begun < ROUND_S;)
                st = once(b, &b->shapes[k]);
    return st;
}

static void print(const struct bench *b)
{
    double flop = 0, seconds = 0;

    for (size_t i = 0; i < b->n; i++) {
        const struct shape *s = &b->shapes[i];
        double one = 2 * (double)s->m * (double)s->k * (double)s->n;

        fr_print("%-16s %5lld x %5lld x %5lld  %.4g TFLOP/s\n", s->what, (long long)s->m,
                 (long long)s->k, (long long)s->n, one / s->best * 1e-12);
        flop += one * s->times;
        seconds += s->best * s->times;
    }
    fr_print("oneDNN's rate %.4g TFLOP/s\n", flop / seconds * 1e-12);
}

static enum fr_rc bench(struct bench *b, int argc, char **argv, struct fr_err *err)
{
    struct tr_model_config c;
    int64_t tokens = 0;
    dnnl_status_t st;
    enum fr_rc rc;

    if (argc < 3)
        return fr_fail(err, FR_USAGE, "expected CONFIG TOKENS [type=bf16|f32]");
    if ((rc = tr_model_config_load(argv[1], &c, err)) != FR_OK ||
        (rc = fr_parse_i64(fr_str_of(argv[2]), &tokens, err)) != FR_OK)
        return rc;
    b->type = argc > 3 && strcmp(argv[3], "type=f32") == 0 ? dnnl_f32 : dnnl_bf16;
    list(b, &c, tokens);
    st = dnnl_engine_create(&b->engine, dnnl_cpu, 0);
    if (st == dnnl_success)
        st = dnnl_stream_create(&b->stream, b->engine, dnnl_stream_default_flags);
    for (size_t i = 0; i < b->n && st == dnnl_success; i++)
        st = make(b, &b->shapes[i]);
    if (st == dnnl_success)
        st = measure(b);
    if (st != dnnl_success)
        return fr_fail(err, FR_UNSUPPORTED, "oneDNN: status %d", (int)st);
    print(b);
    return FR_OK;
}

int main(int argc, char **argv)
{
    struct bench b = {.n = 0};
    struct fr_err err = {0};
    enum fr_rc rc = bench(&b, argc, argv, &err);

    if (rc != FR_OK)
        fr_complain("rate: %s\n", err.msg);
    for (size_t i = 0; i < b.n; i++) {
        dnnl_primitive_destroy(b.shapes[i].run);
        for (int k = 0; k < 3; k++)
            dnnl_memory_destroy(b.shapes[i].memory[k]);
    }
    dnnl_stream_destroy(b.stream);
    dnnl_engine_destroy(b.engine);
    return rc == FR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
