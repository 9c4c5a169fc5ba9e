/* DeepSeek-V3 (2024): multi-head latent attention, experts chosen in groups by a bias. */
#include "trainer/config/model_read.h"

/* clang-format off */
static const struct tr_key_default deepseek_v3[] = {
    {"num_key_value_heads", TR_DERIVED, TR_DERIVED}, {"max_position_embeddings", 4096, TR_REFUSED},
    {"attention_bias", 0, TR_REFUSED}, {"n_routed_experts", TR_NEEDED, TR_REFUSED},
    {"num_experts_per_tok", TR_NEEDED, TR_REFUSED},
    {"moe_intermediate_size", TR_NEEDED, TR_REFUSED}, {"norm_topk_prob", 1, 0},
    {"q_lora_rank", 1536, 0}, {"kv_lora_rank", TR_NEEDED, TR_REFUSED},
    {"qk_nope_head_dim", TR_NEEDED, TR_REFUSED}, {"qk_rope_head_dim", TR_NEEDED, TR_REFUSED},
    {"v_head_dim", TR_NEEDED, TR_REFUSED}, {"n_shared_experts", 1, TR_REFUSED},
    {"n_group", 8, TR_REFUSED}, {"topk_group", 4, TR_REFUSED},
    {"first_k_dense_replace", TR_NEEDED, TR_REFUSED}, {"num_mtp_layers", 0, 0},
    {"routed_scaling_factor", 2.5, TR_REFUSED}, {"rope_interleave", 1, 0},
};
/* clang-format on */
static const struct tr_model_type types[] = {
    {.type = "deepseek_v3",
     .architecture = "DeepseekV3ForCausalLM",
     .defaults = deepseek_v3,
     .n_defaults = sizeof(deepseek_v3) / sizeof(deepseek_v3[0])}};

/* Keys that accept one value only. */
static enum fr_rc read_fixed(const struct tr_fields *f, const struct tr_model_config *c,
                             struct fr_err *err)
{
    static const struct tr_fixed_row rows[] = {
        {"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}, {"hidden_act", "silu"}};
    int64_t freq = 1;
    enum fr_rc rc = tr_read_fixed(f, rows, sizeof(rows) / sizeof(rows[0]), err);

    if (rc != FR_OK || (rc = tr_field_i64(f, "moe_layer_freq", &freq, err)) != FR_OK)
        return rc;
    if (c->num_key_value_heads != c->num_attention_heads)
        return tr_field_bad(f, "num_key_value_heads", "as num_attention_heads", err);
    if (freq != 1)
        return tr_field_bad(f, "moe_layer_freq", "1", err);
    return tr_read_off(f, "attention_dropout", "0", err);
}

/* A size that follows from others; the file may repeat it. */
static enum fr_rc check_size(const struct tr_fields *f, const char *key, int64_t is,
                             const char *want, struct fr_err *err)
{
    int64_t said = is;
    enum fr_rc rc = tr_field_i64(f, key, &said, err);

    return rc != FR_OK || said == is ? rc : tr_field_bad(f, key, want, err);
}

static enum fr_rc check(const struct tr_model_read *r, struct fr_err *err)
{
    const struct tr_model_config *c = r->c;
    int64_t group = c->n_routed_experts / c->n_group;

    if (c->qk_rope_head_dim % 2 != 0)
        return tr_key_bad(r, "qk_rope_head_dim", "an even number", err);
    if (c->n_routed_experts % c->n_group != 0)
        return tr_key_bad(r, "n_group", "a divisor of n_routed_experts", err);
    if (c->topk_group > c->n_group)
        return tr_key_bad(r, "topk_group", "at most n_group", err);
    if (c->n_group > 1 && group < 2)
        return tr_key_bad(r, "n_group", "groups of at least 2 experts", err);
    if (c->num_experts_per_tok > c->topk_group * group)
        return tr_key_bad(r, "num_experts_per_tok", "at most the experts of topk_group groups",
                          err);
    if (c->first_k_dense_replace > c->num_hidden_layers)
        return tr_key_bad(r, "first_k_dense_replace", "at most num_hidden_layers", err);
    return FR_OK;
}

static enum fr_rc read(const struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;
    enum fr_rc rc = tr_read_rope(r, 1U << TR_ROPE_DEFAULT | 1U << TR_ROPE_YARN, err);

    if (rc != FR_OK || (rc = read_fixed(&r->f, c, err)) != FR_OK ||
        (rc = check_size(&r->f, "head_dim", c->qk_rope_head_dim, "as qk_rope_head_dim", err)) !=
            FR_OK ||
        (rc = check_size(&r->f, "qk_head_dim", c->qk_nope_head_dim + c->qk_rope_head_dim,
                         "the sum of qk_nope_head_dim and qk_rope_head_dim", err)) != FR_OK)
        return rc;
    return check(r, err);
}

static struct tr_head_sizes head(const struct tr_model_config *c)
{
    return (struct tr_head_sizes){c->qk_nope_head_dim + c->qk_rope_head_dim, c->qk_rope_head_dim,
                                  c->v_head_dim};
}

/* clang-format off */
static const struct tr_tensor_names names = {
    .embed = "model.embed_tokens.weight", .layers = "model.layers", .head = "lm_head.weight",
    .experts = "mlp.experts", .router = "mlp.gate.weight",
    .router_bias = "mlp.gate.e_score_correction_bias",
    .norm = {[TR_NORM_ATTENTION] = "input_layernorm", [TR_NORM_Q] = "self_attn.q_a_layernorm",
             [TR_NORM_KV] = "self_attn.kv_a_layernorm", [TR_NORM_FFN] = "post_attention_layernorm",
             [TR_NORM_FINAL] = "model.norm"},
    .linear = {[TR_LIN_Q] = "self_attn.q_proj", [TR_LIN_Q_A] = "self_attn.q_a_proj",
               "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj",
               "self_attn.o_proj", [TR_LIN_GATE] = "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
               [TR_LIN_GATE + TR_OF_SHARED] = "mlp.shared_experts.gate_proj",
               "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj",
               [TR_LIN_GATE + TR_OF_EXPERT] = "gate_proj", "up_proj", "down_proj"},
};
/* clang-format on */

static void attention_tensors(struct tr_walk *w, const struct tr_model_config *c)
{
    int64_t H = c->hidden_size, qk = c->num_attention_heads * head(c).qk;
    int64_t kv = c->num_attention_heads * (c->qk_nope_head_dim + c->v_head_dim);
    int64_t v = c->num_attention_heads * c->v_head_dim;
    int64_t kv_a = c->kv_lora_rank + c->qk_rope_head_dim;
    bool bias = c->attention_bias;

    if (c->q_lora_rank > 0) {
        tr_put_linear(w, TR_LIN_Q_A, (struct tr_linear_sizes){c->q_lora_rank, H, bias});
        tr_put_norm(w, TR_NORM_Q, c->q_lora_rank);
        tr_put_linear(w, TR_LIN_Q_B, (struct tr_linear_sizes){qk, c->q_lora_rank, false});
    } else
        tr_put_linear(w, TR_LIN_Q, (struct tr_linear_sizes){qk, H, false});
    tr_put_linear(w, TR_LIN_KV_A, (struct tr_linear_sizes){kv_a, H, bias});
    tr_put_norm(w, TR_NORM_KV, c->kv_lora_rank);
    tr_put_linear(w, TR_LIN_KV_B, (struct tr_linear_sizes){kv, c->kv_lora_rank, false});
    tr_put_linear(w, TR_LIN_O, (struct tr_linear_sizes){H, v, bias});
}

const struct tr_arch_row *tr_arch_deepseek(void)
{
    static const struct tr_arch_row arch = {.types = types,
                                            .n_types = sizeof(types) / sizeof(types[0]),
                                            .names = &names,
                                            .attention = TR_ATTENTION_mla,
                                            .mscale_in_softmax = true,
                                            .read = read,
                                            .head = head,
                                            .attention_tensors = attention_tensors};

    return &arch;
}
