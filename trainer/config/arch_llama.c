/*
 * The Llama family (Touvron et al. 2023, and Mistral, Mixtral, Qwen2, Qwen3): grouped-query
 * attention, with biases or norms of heads where the model has them. Experts are read by
 * model_experts.c, windows by model_windows.c, rope by model_rope.c.
 */
#include "trainer/config/model_read.h"

/* clang-format off */
/* Defaults of transformers' configuration classes where they are not those of all types. */
static const struct tr_key_default llama[] = {
    {"num_key_value_heads", TR_DERIVED, TR_DERIVED}, {"head_dim", TR_DERIVED, TR_DERIVED},
    {"max_position_embeddings", 2048, TR_REFUSED}, {"attention_bias", 0, TR_REFUSED},
    {"mlp_bias", 0, TR_REFUSED},
};
static const struct tr_key_default ministral[] = {
    {"num_key_value_heads", 8, TR_REFUSED}, {"head_dim", TR_NEEDED, TR_REFUSED},
    {"max_position_embeddings", 131072, TR_REFUSED}, {"sliding_window", 4096, TR_REFUSED},
};
static const struct tr_key_default mistral[] = {
    {"num_key_value_heads", 8, TR_REFUSED}, {"head_dim", TR_DERIVED, TR_DERIVED},
    {"max_position_embeddings", 131072, TR_REFUSED}, {"sliding_window", 4096, 0},
};
static const struct tr_key_default mixtral[] = {
    {"num_key_value_heads", 8, TR_REFUSED}, {"head_dim", TR_DERIVED, TR_DERIVED},
    {"max_position_embeddings", 131072, TR_REFUSED}, {"rms_norm_eps", 1e-5, TR_REFUSED},
    {"rope_theta", 1e6, TR_REFUSED}, {"sliding_window", 0, 0},
    {"num_local_experts", TR_NEEDED, TR_REFUSED}, {"num_experts_per_tok", TR_NEEDED, TR_REFUSED},
};
static const struct tr_key_default qwen2[] = {
    {"num_key_value_heads", 32, TR_DERIVED}, {"head_dim", TR_DERIVED, TR_REFUSED},
    {"max_position_embeddings", 32768, TR_REFUSED}, {"sliding_window", 4096, 0},
    {"use_sliding_window", 0, TR_REFUSED}, {"max_window_layers", 28, TR_REFUSED},
};
static const struct tr_key_default qwen3[] = {
    {"num_key_value_heads", 32, TR_DERIVED}, {"head_dim", 128, TR_REFUSED},
    {"max_position_embeddings", 32768, TR_REFUSED}, {"attention_bias", 0, TR_REFUSED},
    {"sliding_window", 4096, 0}, {"use_sliding_window", 0, TR_REFUSED},
    {"max_window_layers", 28, TR_REFUSED},
};
static const struct tr_key_default qwen3_moe[] = {
    {"num_key_value_heads", 4, TR_REFUSED}, {"head_dim", TR_DERIVED, TR_REFUSED},
    {"max_position_embeddings", 32768, TR_REFUSED}, {"attention_bias", 0, TR_REFUSED},
    {"sliding_window", 4096, 0}, {"use_sliding_window", 0, TR_REFUSED},
    {"num_experts", TR_NEEDED, TR_REFUSED}, {"num_experts_per_tok", TR_NEEDED, TR_REFUSED},
    {"moe_intermediate_size", TR_NEEDED, TR_REFUSED}, {"norm_topk_prob", 0, TR_REFUSED},
    {"decoder_sparse_step", 1, TR_REFUSED},
};
/* clang-format on */

#define TYPE(name, class)                                                                          \
    .type = #name, .architecture = class "ForCausalLM", .defaults = name,                          \
    .n_defaults = sizeof(name) / sizeof(name[0])
static const struct tr_model_type types[] = {
    {TYPE(llama, "Llama"), .layer_types = true},
    {TYPE(ministral, "Ministral"), .layer_types = true},
    {TYPE(mistral, "Mistral"), .with_layer_types = "ministral"},
    {TYPE(mixtral, "Mixtral"), .block_sparse_moe = true},
    {TYPE(qwen2, "Qwen2"), .layer_types = true, .qkv_bias = true},
    {TYPE(qwen3, "Qwen3"), .layer_types = true, .qk_norm = true},
    {TYPE(qwen3_moe, "Qwen3Moe"), .qk_norm = true},
};

/* clang-format off */
/* Keys that the readers use, and keys without effect in this program. */
static const char *const known[] = {
    "model_type", "architectures", "vocab_size", "hidden_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters", "hidden_act",
    "rms_norm_eps", "initializer_range", "tie_word_embeddings", "torch_dtype", "dtype",
    "attention_bias", "mlp_bias", "attention_dropout", "sliding_window", "use_sliding_window",
    "max_window_layers", "layer_types", "quantization_config", "partial_rotary_factor",
    "original_max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id",
    "_name_or_path", "_attn_implementation", "_attn_implementation_autoset", "auto_map",
    "chunk_size_feed_forward", "id2label", "label2id", "output_attentions", "output_hidden_states",
    "pretraining_tp", "problem_type", "return_dict", "tokenizer_class", "transformers_version",
    "unsloth_fixed", "unsloth_version", "use_cache", "max_length", "do_sample", "temperature",
    "top_k", "top_p", "repetition_penalty", "num_return_sequences", "rope_type",
};

/* Further keys of models with experts. Without output_router_logits there is no balancing loss. */
static const char *const known_of_experts[] = {
    "num_local_experts", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
    "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "output_router_logits",
    "router_aux_loss_coef", "router_jitter_noise",
};
/* clang-format on */

static bool has_experts(const struct tr_model_read *r)
{
    return tr_key_has(r, "num_experts_per_tok");
}

static enum fr_rc refuse_unknown(const struct tr_model_read *r, struct fr_err *err)
{
    const size_t n = sizeof(known) / sizeof(known[0]);
    const size_t more = sizeof(known_of_experts) / sizeof(known_of_experts[0]);
    const struct tr_fields *f = &r->f;
    const char *key, *near;
    json_t *v;

    json_object_foreach((json_t *)f->object, key, v)
    {
        if (json_is_null(v) || tr_is_among(key, known, n) ||
            (has_experts(r) && tr_is_among(key, known_of_experts, more)))
            continue;
        near = fr_suggest(key, known, n);
        if (near != NULL && tr_field(f, near) == NULL)
            return fr_fail(err, FR_USAGE, "%s: unknown key %s: did you mean %s?", f->where, key,
                           near);
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: unknown key %s: no %s model that this program knows has it; if it "
                       "changes nothing there, remove it",
                       f->where, key, r->type->type);
    }
    return FR_OK;
}

/* FR_USAGE if the type lacks the switch and the file turns it on. */
static enum fr_rc refuse_switch(const struct tr_model_read *r, const char *key, struct fr_err *err)
{
    bool on = false;
    enum fr_rc rc = FR_OK;

    if (!tr_key_has(r, key) && (rc = tr_field_bool(&r->f, key, &on, err)) == FR_OK && on)
        rc = tr_field_bad(&r->f, key, "false, as in every model of its type", err);
    return rc;
}

static enum fr_rc read_switches(const struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;
    enum fr_rc rc = r->type->qkv_bias ? FR_OK : refuse_switch(r, "attention_bias", err);

    c->qkv_bias = r->type->qkv_bias || c->attention_bias;
    c->o_bias = c->attention_bias;
    c->qk_norm = r->type->qk_norm;
    return rc == FR_OK ? refuse_switch(r, "mlp_bias", err) : rc;
}

static enum fr_rc read_fixed(const struct tr_fields *f, struct fr_err *err)
{
    static const struct tr_fixed_row rows[] = {{"hidden_act", "silu"}};
    enum fr_rc rc = tr_read_fixed(f, rows, 1, err);

    return rc == FR_OK ? tr_read_off(f, "attention_dropout", "0", err) : rc;
}

static enum fr_rc check(const struct tr_model_read *r, struct fr_err *err)
{
    const struct tr_model_config *c = r->c;

    if (c->head_dim % 2 != 0 || c->head_dim < 2)
        return tr_field_bad(&r->f, tr_field(&r->f, "head_dim") != NULL ? "head_dim" : "hidden_size",
                            "heads of an even size", err);
    if (c->num_attention_heads % c->num_key_value_heads != 0)
        return tr_key_bad(r, "num_key_value_heads", "a divisor of num_attention_heads", err);
    return FR_OK;
}

static enum fr_rc read(const struct tr_model_read *r, struct fr_err *err)
{
    const unsigned ropes = 1U << TR_ROPE_DEFAULT | 1U << TR_ROPE_LINEAR | 1U << TR_ROPE_DYNAMIC |
                           1U << TR_ROPE_LLAMA3 | 1U << TR_ROPE_YARN;
    struct tr_model_config *c = r->c;
    enum fr_rc rc;

    c->first_k_dense_replace = c->num_hidden_layers;
    if ((has_experts(r) && (rc = tr_read_experts(r, err)) != FR_OK) ||
        (rc = check(r, err)) != FR_OK || (rc = tr_read_rope(r, ropes, err)) != FR_OK ||
        (rc = read_switches(r, err)) != FR_OK || (rc = read_fixed(&r->f, err)) != FR_OK)
        return rc;
    return tr_read_windows(r, err);
}

static struct tr_head_sizes head(const struct tr_model_config *c)
{
    return (struct tr_head_sizes){c->head_dim, c->head_dim, c->head_dim};
}

/* clang-format off */
#define NAMES(ffn, gate, up, down)                                                                 \
    .embed = "model.embed_tokens.weight", .layers = "model.layers", .experts = ffn ".experts",     \
    .head = "lm_head.weight", .router = ffn ".gate.weight",                                        \
    .norm = {[TR_NORM_ATTENTION] = "input_layernorm", [TR_NORM_Q] = "self_attn.q_norm",            \
             [TR_NORM_K] = "self_attn.k_norm", [TR_NORM_FFN] = "post_attention_layernorm",         \
             [TR_NORM_FINAL] = "model.norm"},                                                      \
    .linear = {[TR_LIN_Q] = "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",            \
               [TR_LIN_O] = "self_attn.o_proj",                                                    \
               [TR_LIN_GATE] = "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",                    \
               [TR_LIN_GATE + TR_OF_EXPERT] = gate, up, down}
static const struct tr_tensor_names names = {NAMES("mlp", "gate_proj", "up_proj", "down_proj")};
static const struct tr_tensor_names mixtrals = {NAMES("block_sparse_moe", "w1", "w3", "w2")};
/* clang-format on */

static void attention_tensors(struct tr_walk *w, const struct tr_model_config *c)
{
    int64_t q = c->num_attention_heads * c->head_dim, kv = c->num_key_value_heads * c->head_dim;
    const struct tr_linear_sizes one = {kv, c->hidden_size, c->qkv_bias};

    tr_put_linear(w, TR_LIN_Q, (struct tr_linear_sizes){q, c->hidden_size, c->qkv_bias});
    tr_put_linear(w, TR_LIN_K, one);
    tr_put_linear(w, TR_LIN_V, one);
    if (c->qk_norm) {
        tr_put_norm(w, TR_NORM_Q, c->head_dim);
        tr_put_norm(w, TR_NORM_K, c->head_dim);
    }
    tr_put_linear(w, TR_LIN_O, (struct tr_linear_sizes){c->hidden_size, q, c->o_bias});
}

const struct tr_arch_row *tr_arch_llama(void)
{
    static const struct tr_arch_row arch = {.types = types,
                                            .n_types = sizeof(types) / sizeof(types[0]),
                                            .names = &names,
                                            .names_sparse = &mixtrals,
                                            .attention = TR_ATTENTION_gqa,
                                            .refuse_unknown = refuse_unknown,
                                            .read = read,
                                            .head = head,
                                            .attention_tensors = attention_tensors};

    return &arch;
}
