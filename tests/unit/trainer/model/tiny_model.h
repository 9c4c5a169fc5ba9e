/*
 * Small models of both architectures with pseudo-random weights, for tests of shard and model.
 * Weights are a function of tensor name and index alone, so any number of ranks has the same model.
 */
#ifndef TESTS_UNIT_TINY_MODEL_H
#define TESTS_UNIT_TINY_MODEL_H

#include "trainer/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TINY_T = 9, TINY_B = 2, TINY_LORA = 6 };

/* What a variant changes. */
struct tiny {
    bool yarn, no_q_lora, one_group, no_norm, half_split, bias, tied;
    int64_t window; /* of the second layer */
    int kv_heads;   /* of 4 heads: a model of the Llama family; 0: DeepSeek-V3 */
    bool qk_norm;
    int shared; /* 0: one; -1: none */
    double dropout;
    int64_t max_live, prefetch; /* 0: no limit; none ahead */
    int64_t head_rows;          /* 0: all at once */
    bool partition;
    bool host, offload; /* weights, inputs of blocks in the host's memory */
    int experts;        /* experts stay: ranks of a group; 0: they do not */
    bool rest_in_node;  /* the other weights are sharded inside nodes */
    int64_t exchange_rows;
    size_t prepack; /* bytes of packed forms of weights at most */
    bool wide;      /* inputs of most weights are multiples of 32 */
    bool crowded;   /* all tokens go to the same experts */
    bool trained;   /* all weights are */
    int node[4];    /* of each rank */
    const char *lora[TINY_LORA];
};

struct tiny_model {
    struct tr_model_config config;
    struct tr_lora_config lora;
    struct tr_model *model;
    struct tr_comm *experts, *rest, *reduce; /* own */
    int32_t ids[TINY_T], pos[TINY_T], targets[TINY_T];
    int64_t offsets[TINY_B + 1], place[TINY_B];
    int32_t routing[4][TINY_T * 4];
    const int32_t *forced[4];
};

static inline double tiny_random(const char *name, uint64_t i)
{
    uint64_t h = 1469598103934665603U;

    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211U;
    h += i * 0x9e3779b97f4a7c15U;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9U;
    h = (h ^ h >> 27) * 0x94d049bb133111ebU;
    h ^= h >> 31;
    return (double)(h >> 11) / 9007199254740992.0 * 2 - 1;
}

/* A weight's value: norms near 1, router biases small and some negative. */
static inline double tiny_value(const char *name, uint64_t i)
{
    double x = tiny_random(name, i);

    if (strstr(name, "norm") != NULL)
        return 1 + 0.2 * x;
    if (strstr(name, "e_score") != NULL)
        return 0.1 * x;
    return (strstr(name, "embed") != NULL ? 1.0 : 0.5) * x;
}

static inline enum fr_rc tiny_fill(void *arg, const struct tr_unit_tensor *t,
                                   const struct tr_fill_range *r, struct fr_err *err)
{
    size_t size = tr_dtype_bytes(t->dtype);
    int64_t cols = t->rank == 2 ? t->shape[1] : 1;
    struct tr_view v = tr_view1(r->dst, t->dtype, (int64_t)(r->n / size));

    (void)arg;
    (void)err;
    for (uint64_t i = 0; i < r->n / size; i++)
        tr_set(v, (int64_t)i, tiny_value(t->name, (uint64_t)(t->row0 * cols) + r->at / size + i));
    return FR_OK;
}

static inline void tiny_llama(const struct tiny *v, struct tr_model_config *c)
{
    c->arch = TR_ARCH_llama;
    c->num_attention_heads = 4;
    c->num_key_value_heads = v->kv_heads;
    c->head_dim = 6;
    c->qk_norm = v->qk_norm;
    c->sliding_window = v->window;
    c->windowed[0] = v->window > 0 ? 2 : 0;
    c->qkv_bias = c->o_bias = c->mlp_bias = v->bias;
    c->n_routed_experts = c->n_shared_experts = c->num_experts_per_tok = 0;
    c->first_k_dense_replace = c->num_hidden_layers;
}

static inline struct tr_model_config tiny_config(const struct tiny *v)
{
    struct tr_model_config c = {
        .model_type = "deepseek_v3",
        .vocab_size = 23,
        .hidden_size = v->wide ? 64 : 12,
        .num_hidden_layers = 3,
        .num_attention_heads = 2,
        .q_lora_rank = v->no_q_lora ? 0
                       : v->wide    ? 32
                                    : 6,
        .kv_lora_rank = v->wide ? 32 : 5,
        .qk_nope_head_dim = 4,
        .qk_rope_head_dim = 4,
        .v_head_dim = 3,
        .intermediate_size = v->wide ? 96 : 10,
        .moe_intermediate_size = v->wide ? 64 : 6,
        .n_routed_experts = 8,
        .n_shared_experts = v->shared < 0    ? 0
                            : v->shared == 0 ? 1
                                             : v->shared,
        .num_experts_per_tok = 3,
        .n_group = v->one_group ? 1 : 4,
        .topk_group = v->one_group ? 1 : 2,
        .first_k_dense_replace = 1,
        .norm_topk_prob = !v->no_norm,
        .routed_scaling_factor = 2.5,
        .rms_norm_eps = 1e-5,
        .max_position_embeddings = 64,
        .attention_bias = v->bias,
        .tie_word_embeddings = v->tied,
    };

    c.rope = (struct tr_rope_config){.theta = 100,
                                     .kind = v->yarn ? TR_ROPE_YARN : TR_ROPE_DEFAULT,
                                     .factor = 4,
                                     .beta_fast = 32,
                                     .beta_slow = 1,
                                     .mscale = 1,
                                     .mscale_all_dim = 0.7,
                                     .original_max_positions = 16,
                                     .truncate = true,
                                     .interleave = !v->half_split};
    if (v->kv_heads > 0)
        tiny_llama(v, &c);
    return c;
}

/* Values of the adapters' working copies, by module; B is not 0. */
static inline void tiny_adapters(struct tr_model *m)
{
    struct tr_params p;

    tr_model_params(m, &p);
    for (size_t k = 0; k < p.n; k++) {
        const struct tr_adapter *a = &p.adapters[k];

        for (int64_t i = 0; i < a->r * a->in; i++)
            tr_set(p.work, a->a_at + i, 0.5 * tiny_random(a->module, (uint64_t)i));
        for (int64_t i = 0; i < a->r * a->out; i++)
            tr_set(p.work, a->b_at + i, 0.5 * tiny_random(a->module, (uint64_t)(1000 + i)));
    }
}

static inline void tiny_tokens(struct tiny_model *t)
{
    static const int64_t offsets[TINY_B + 1] = {0, 4, TINY_T};

    memcpy(t->offsets, offsets, sizeof(offsets));
    for (int b = 0; b < TINY_B; b++)
        t->place[b] = 5 + b;
    for (int i = 0; i < TINY_T; i++) {
        int b = i >= offsets[1];

        t->ids[i] = (7 * i + 3) % 23;
        t->pos[i] = i - (int)offsets[b];
        t->targets[i] = i + 1 == offsets[b + 1] || i == 5 ? -1 : (7 * i + 10) % 23;
    }
}

static inline enum fr_rc tiny_make(struct tiny_model *t, const struct tiny *v, struct tr_comm *comm,
                                   enum tr_dtype compute, struct fr_err *err)
{
    static const struct tr_trained all = {.all = true};
    struct tr_shard_source src = {.fill = tiny_fill};
    struct tr_model_opts o = {
        .be = comm->be,
        .comm = comm,
        .config = &t->config,
        .lora = &t->lora,
        .compute = compute,
        .partition = v->partition,
        .place = v->host ? TR_PLACE_HOST : TR_PLACE_DEVICE,
        .offload = v->offload,
        .tokens_max = TINY_T + 2,
        .samples_max = TINY_B,
        .head_rows = v->head_rows,
        .train = true,
        .logits = true,
        .score = true,
        .seed = 42,
        .exchange_rows = v->exchange_rows,
    };
    size_t n = 0;
    enum fr_rc rc;

    if (v->experts > 0 &&
        (rc = tr_comm_split(comm, comm->rank / v->experts, &t->experts, err)) != FR_OK)
        return rc;
    if (v->rest_in_node && (rc = tr_comm_split(comm, comm->node, &t->rest, err)) != FR_OK)
        return rc;
    if (v->trained && (rc = tr_comm_split(comm, 0, &t->reduce, err)) != FR_OK)
        return rc;
    o.experts = t->experts;
    o.rest = t->rest;
    o.reduce = t->reduce;
    o.trained = v->trained ? &all : NULL;

    while (n < TINY_LORA && v->lora[n] != NULL)
        n++;
    t->config = tiny_config(v);
    t->lora = (struct tr_lora_config){
        .r = 2, .alpha = 3, .dropout = v->dropout, .targets = v->lora, .ntargets = n};
    o.limits.max_live = v->max_live > 0 ? v->max_live : 1000000;
    o.limits.max_reuse = 0;
    o.limits.prefetch_bucket = v->prefetch;
    o.lora = n > 0 ? &t->lora : NULL;
    if ((rc = tr_model_create(&o, &t->model, NULL, err)) != FR_OK)
        return rc;
    (void)tr_model_prepack(t->model, v->prepack);
    if ((rc = tr_model_fill(t->model, &src, err)) != FR_OK)
        return rc;
    tiny_adapters(t->model);
    tiny_tokens(t);
    return FR_OK;
}

static inline struct tr_micro tiny_micro(const struct tiny_model *t)
{
    return (struct tr_micro){.T = TINY_T,
                             .B = TINY_B,
                             .ids = t->ids,
                             .pos = t->pos,
                             .targets = t->targets,
                             .offsets = t->offsets,
                             .place = t->place,
                             .epoch = 1,
                             .loss_scale = 1.0 / 6};
}

/* Later micro-batches use the experts that the last one chose. */
static inline void tiny_keep_routing(struct tiny_model *t, struct tr_micro *mb)
{
    for (int64_t i = 0; i < tr_model_moe_layers(t->model); i++) {
        (void)tr_model_routing(t->model, i, 0, t->routing[i], NULL);
        t->forced[i] = t->routing[i];
    }
    mb->forced = t->forced;
}

/* All tokens go to the first experts. */
static inline void tiny_crowd(struct tiny_model *t, struct tr_micro *mb)
{
    int64_t K = t->config.num_experts_per_tok;

    for (int64_t i = 0; i < tr_model_moe_layers(t->model); i++) {
        for (int64_t n = 0; n < TINY_T * K; n++)
            t->routing[i][n] = (int32_t)(n % K);
        t->forced[i] = t->routing[i];
    }
    mb->forced = t->forced;
}

static inline void tiny_finish(struct tiny_model *t)
{
    tr_model_destroy(t->model);
    tr_comm_destroy(t->experts);
    tr_comm_destroy(t->rest);
    tr_comm_destroy(t->reduce);
    t->model = NULL;
    t->experts = t->rest = t->reduce = NULL;
}

#endif
