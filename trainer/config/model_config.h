/*
 * A model's config.json (Hugging Face layout) as one struct: the DeepSeek-V3 family, and the Llama
 * family, dense (Llama, Ministral, Mistral, Qwen2, Qwen3) or with experts (Mixtral, Qwen3-MoE).
 * Sizes are required; other absent keys have the defaults of transformers' classes. If two keys set
 * the same value, the key that transformers uses wins. A feature that this program lacks (group
 * ratios, other activations …) is an error that names key and value.
 * Unknown keys are ignored in the DeepSeek-V3 family and refused in the Llama family. This file
 * also has the inventory of the tensors in a checkpoint and the parameter counts. Both need no
 * weights.
 * Source: configuration_deepseek.py beside the DeepSeek-V3 checkpoints; transformers deepseek_v3,
 * llama, mistral, mixtral, qwen2, qwen3, qwen3_moe.
 */
#ifndef TR_CONFIG_MODEL_CONFIG_H
#define TR_CONFIG_MODEL_CONFIG_H

#include "engine/base/err.h"
#include "trainer/config/archs.h" /* TR_ARCHS(X), made by meson.build: X(deepseek) X(llama) … */
#include "trainer/tensor/twice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_LAYERS_MAX = 4096 };

/* The architectures; each has its row in arch_NAME.c, see arch.h. */
#define TR_ARCH(name) TR_ARCH_##name,
enum tr_arch { TR_ARCHS(TR_ARCH) };
#undef TR_ARCH

/*
 * How rotary frequencies follow from the base. Linear: position interpolation (Chen et al. 2023).
 * Dynamic: the default ones, up to max_position_embeddings. Llama 3: frequencies between two wave
 * lengths are blended (transformers, modeling_rope_utils). YaRN: Peng et al. 2023.
 */
enum tr_rope_kind {
    TR_ROPE_DEFAULT,
    TR_ROPE_LINEAR,
    TR_ROPE_DYNAMIC,
    TR_ROPE_LLAMA3,
    TR_ROPE_YARN
};

/* Rotary position embedding. */
struct tr_rope_config {
    double theta;           /* base of the frequencies, 10000 */
    enum tr_rope_kind kind; /* default: only interleave is used of the fields below */
    double factor;          /* s >= 1: how much longer than original_max_positions */
    double low_freq_factor, high_freq_factor; /* llama3: low < high */
    double beta_fast, beta_slow;              /* of YaRN, as the fields below */
    double mscale, mscale_all_dim;            /* 0: absent */
    double attention_factor;                  /* 0: derived from mscale */
    int64_t original_max_positions;
    bool truncate;   /* floor and ceil of the correction range; default true */
    bool interleave; /* pairs are (2i, 2i+1) on disk; default true */
};

enum tr_torch_dtype { TR_TORCH_BF16, TR_TORCH_F16, TR_TORCH_F32 };

/* What config.json says. Letters as everywhere: H hidden, V vocabulary, E experts, K experts a
 * token. All ranks and all resumes compare a digest of its bytes (trainer/save/identity.c): no
 * pointers, and a new field or value refuses the checkpoints of before. */
struct tr_model_config {
    char model_type[32];
    enum tr_arch arch;
    int64_t vocab_size;               /* V */
    int64_t hidden_size;              /* H */
    int64_t num_hidden_layers;        /* L */
    int64_t num_nextn_predict_layers; /* MTP layers on disk after the main layers; never loaded */
    int64_t num_attention_heads;      /* nh */
    int64_t num_key_value_heads;      /* nkv, a divisor of nh */
    int64_t head_dim;                 /* hd, even; Llama family */
    bool qkv_bias, o_bias, mlp_bias;  /* Llama family */
    bool qk_norm;                     /* each head of q and k is normalised; Llama family */
    int64_t sliding_window;      /* tokens visible to a token in a layer with a window; 0: none */
    bool use_sliding_window;     /* Qwen */
    int64_t max_window_layers;   /* Qwen2 and Qwen3: layers before the first with a window */
    int64_t decoder_sparse_step; /* Qwen3-MoE: layers from one with experts to the next */
    uint64_t windowed[TR_LAYERS_MAX / 64]; /* layers with a window, one bit each */
    int64_t q_lora_rank;                   /* 0: one q_proj instead of q_a, norm, q_b */
    int64_t kv_lora_rank;
    int64_t qk_nope_head_dim;      /* dn */
    int64_t qk_rope_head_dim;      /* dr, even */
    int64_t v_head_dim;            /* dv */
    int64_t intermediate_size;     /* width of a dense FFN */
    int64_t moe_intermediate_size; /* width of one expert */
    int64_t n_routed_experts;      /* E */
    /* 0: none; the shared MLP is moe_intermediate_size times this */
    int64_t n_shared_experts;
    int64_t num_experts_per_tok;        /* K */
    int64_t n_group, topk_group;        /* E % n_group == 0 */
    int64_t first_k_dense_replace;      /* layers below it are dense */
    uint64_t dense[TR_LAYERS_MAX / 64]; /* further dense layers, one bit each */
    bool softmax_scores;                /* the router uses softmax; false: sigmoids and a bias */
    bool block_sparse_moe;              /* tensors of experts have Mixtral's names */
    bool norm_topk_prob;
    double routed_scaling_factor;
    double rms_norm_eps; /* the latent norms always use 1e-6 */
    int64_t max_position_embeddings;
    struct tr_rope_config rope;
    bool attention_bias; /* of q_a_proj, kv_a_proj_with_mqa, o_proj; or of q, k, v, o */
    bool tie_word_embeddings;
    int64_t bos_token_id, eos_token_id; /* -1: absent */
    double initializer_range;
    enum tr_torch_dtype torch_dtype;
    bool fp8; /* quantization_config: F8_E4M3 weights with block scales */
    int64_t fp8_block_rows, fp8_block_cols;
};

/* Where the values come from. All zero is empty. */
struct tr_model_said {
    struct tr_twice twice;
    json_t *values; /* {"rms_norm_eps": {"value": 1e-06, "from": "default of llama"}, …} */
};

void tr_model_said_finish(struct tr_model_said *said);

/* Reads path, which is a config.json or its folder. FR_USAGE names file, key and value. said may be
 * NULL; if not, the caller calls tr_model_said_finish, also after an error. */
enum fr_rc tr_model_config_read(const char *path, struct tr_model_config *out,
                                struct tr_model_said *said, struct fr_err *err);
enum fr_rc tr_model_config_load(const char *path, struct tr_model_config *out, struct fr_err *err);

/* Whether the layer has experts. */
bool tr_model_is_moe(const struct tr_model_config *c, int64_t layer);
int64_t tr_model_moe_count(const struct tr_model_config *c); /* layers with experts */

/* Tokens that a token of the layer attends to, itself included; 0: all tokens before it. */
int64_t tr_model_window(const struct tr_model_config *c, int64_t layer);

/* Channels of a head: of query and key, those of them that are rotated, of the value. */
struct tr_head_sizes {
    int64_t qk, rotary, v;
};
struct tr_head_sizes tr_model_head(const struct tr_model_config *c);

/* The linear maps of a layer that LoRA may adapt. */
enum tr_linear_kind {
    TR_LIN_Q,
    TR_LIN_K,
    TR_LIN_V,
    TR_LIN_Q_A,
    TR_LIN_Q_B,
    TR_LIN_KV_A,
    TR_LIN_KV_B,
    TR_LIN_O,
    TR_LIN_ATTENTION, /* count of the linears of attention; those from here on are of an FFN */
    TR_LIN_GATE = TR_LIN_ATTENTION,
    TR_LIN_UP,
    TR_LIN_DOWN
};

enum tr_norm_kind {
    TR_NORM_ATTENTION,            /* of the input of attention */
    TR_NORM_Q,                    /* of the query's latent, or of each of its heads */
    TR_NORM_K,                    /* of each head of the key */
    TR_NORM_KV,                   /* of the latent of key and value */
    TR_NORM_FFN,                  /* of the input of the FFN or the experts */
    TR_NORM_KINDS,                /* how many a layer may have */
    TR_NORM_FINAL = TR_NORM_KINDS /* before the head */
};

enum tr_tensor_role {
    TR_ROLE_EMBED,
    TR_ROLE_HEAD,
    TR_ROLE_NORM,
    TR_ROLE_LINEAR,
    TR_ROLE_BIAS,
    TR_ROLE_ROUTER,
    TR_ROLE_ROUTER_BIAS
};

enum { TR_NAME_MAX = 128 };

/* One tensor of the checkpoint. */
struct tr_model_tensor {
    char name[TR_NAME_MAX]; /* model.layers.3.mlp.experts.7.up_proj.weight */
    enum tr_tensor_role role;
    enum tr_linear_kind kind; /* of TR_ROLE_LINEAR and TR_ROLE_BIAS */
    enum tr_norm_kind norm;   /* of TR_ROLE_NORM */
    int64_t layer;            /* -1 outside the layers */
    int64_t expert;           /* -1: not a routed expert; -2: the shared experts */
    int ndim;                 /* 1 or 2 */
    int64_t shape[2];         /* (out, in) of a linear */
};

typedef enum fr_rc tr_each_tensor(void *arg, const struct tr_model_tensor *t, struct fr_err *err);

/* Calls each for every tensor in the order of the forward pass: embedding, layers, final norm, and
 * the head unless it is tied. Block scales of FP8 weights are left out. Stops at the first failure
 * and returns it. */
enum fr_rc tr_model_tensors(const struct tr_model_config *c, tr_each_tensor *each, void *arg,
                            struct fr_err *err);

/* A tensor's name without ".weight", which is the name of its module. false: not a weight. */
bool tr_model_module(const char *tensor, char out[TR_NAME_MAX]);

/* Numbers of parameters of the main model, without MTP layers, by kind. */
struct tr_model_counts {
    int64_t attention_layer; /* projections of one layer */
    int64_t attention_norms; /* norms of latents and heads inside the attention of one layer */
    int64_t dense_ffn, expert, shared_expert, router, router_bias; /* of one layer, one expert */
    int64_t dense_layer, moe_layer;
    int64_t embedding, head;
    int64_t total;         /* router biases counted as parameters */
    int64_t router_biases; /* of all layers */
    int64_t activated;     /* used by one token, embedding and head included */
    int64_t mtp_unique;    /* MTP layers without their copies of embedding and head */
    /* all on disk with the MTP layers and their copies, without scales */
    int64_t disk;
    int64_t disk_scales; /* block scales of the FP8 form */
    int64_t disk_bytes;  /* bytes of all tensors on disk */
};

void tr_model_count(const struct tr_model_config *c, struct tr_model_counts *out);

#endif
