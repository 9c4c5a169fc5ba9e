/* config.json of the Llama family: which keys it may have, its switches. Experts are read by
 * model_experts.c, windows by model_windows.c, rope by model_rope.c. */
#include "trainer/config/model_read.h"

#include <stdio.h>
#include <string.h>

/* Keys that are read, here or in model_config.c, and keys that change nothing in this program. */
static const char *const known[] = {"model_type",
                                    "architectures",
                                    "vocab_size",
                                    "hidden_size",
                                    "num_hidden_layers",
                                    "num_attention_heads",
                                    "num_key_value_heads",
                                    "head_dim",
                                    "intermediate_size",
                                    "max_position_embeddings",
                                    "rope_theta",
                                    "rope_scaling",
                                    "rope_parameters",
                                    "hidden_act",
                                    "rms_norm_eps",
                                    "initializer_range",
                                    "tie_word_embeddings",
                                    "torch_dtype",
                                    "dtype",
                                    "attention_bias",
                                    "mlp_bias",
                                    "attention_dropout",
                                    "sliding_window",
                                    "use_sliding_window",
                                    "max_window_layers",
                                    "layer_types",
                                    "quantization_config",
                                    "partial_rotary_factor",
                                    "original_max_position_embeddings",
                                    "bos_token_id",
                                    "eos_token_id",
                                    "pad_token_id",
                                    "_name_or_path",
                                    "_attn_implementation",
                                    "_attn_implementation_autoset",
                                    "auto_map",
                                    "chunk_size_feed_forward",
                                    "id2label",
                                    "label2id",
                                    "output_attentions",
                                    "output_hidden_states",
                                    "pretraining_tp",
                                    "problem_type",
                                    "return_dict",
                                    "tokenizer_class",
                                    "transformers_version",
                                    "unsloth_fixed",
                                    "unsloth_version",
                                    "use_cache",
                                    "max_length",
                                    "do_sample",
                                    "temperature",
                                    "top_k",
                                    "top_p",
                                    "repetition_penalty",
                                    "num_return_sequences",
                                    "rope_type"};

/* The same of models with experts. The loss that balances them has no effect without
 * output_router_logits. */
static const char *const known_of_experts[] = {
    "num_local_experts",    "num_experts",         "num_experts_per_tok", "moe_intermediate_size",
    "norm_topk_prob",       "decoder_sparse_step", "mlp_only_layers",     "output_router_logits",
    "router_aux_loss_coef", "router_jitter_noise"};

struct keys {
    const char *const *names;
    size_t n;
};
#define KEYS(list) ((struct keys){list, sizeof(list) / sizeof((list)[0])})

static bool is_known(const char *key, struct keys k)
{
    size_t i = 0;

    while (i < k.n && strcmp(key, k.names[i]) != 0)
        i++;
    return i < k.n;
}

/* The first key with a value that is of neither list. */
static const char *unknown_key(const json_t *object, struct keys a, struct keys b)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)object, key, v) if (!json_is_null(v) && !is_known(key, a) &&
                                                      !is_known(key, b)) return key;
    return NULL;
}

static bool has_experts(const struct tr_model_read *r)
{
    return r->family == TR_FAMILY_MIXTRAL || r->family == TR_FAMILY_QWEN3_MOE;
}

enum fr_rc tr_llama_unknown(const struct tr_model_read *r, struct fr_err *err)
{
    const struct keys none = {NULL, 0};
    const struct tr_fields *f = &r->f;
    const char *near;
    const char *key =
        unknown_key(f->object, KEYS(known), has_experts(r) ? KEYS(known_of_experts) : none);

    if (key == NULL)
        return FR_OK;
    near = fr_suggest(key, known, sizeof(known) / sizeof(known[0]));
    if (near != NULL && tr_field(f, near) == NULL)
        return fr_fail(err, FR_USAGE, "%s: unknown key %s: did you mean %s?", f->where, key, near);
    return fr_fail(err, FR_UNSUPPORTED,
                   "%s: unknown key %s: no %s model that this program knows has it; if it changes "
                   "nothing there, remove it",
                   f->where, key, r->c->model_type);
}

/* A switch that the model type does not have must be off. */
static enum fr_rc refuse_switch(const struct tr_fields *f, const char *key, bool has,
                                struct fr_err *err)
{
    bool on = false;
    enum fr_rc rc = tr_field_bool(f, key, &on, err);

    if (rc == FR_OK && on && !has)
        rc = tr_field_bad(f, key, "false, as in every model of its type", err);
    return rc;
}

/* Biases of q, k and v: always of Qwen2, else where config.json asks for those of attention. */
static enum fr_rc read_switches(const struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;
    bool always = r->family == TR_FAMILY_QWEN2, llama = r->family == TR_FAMILY_LLAMA;
    bool qwen3 = r->family == TR_FAMILY_QWEN3 || r->family == TR_FAMILY_QWEN3_MOE;
    enum fr_rc rc = FR_OK;

    if (!always)
        rc = refuse_switch(&r->f, "attention_bias", llama || qwen3, err);
    if (rc == FR_OK)
        rc = refuse_switch(&r->f, "mlp_bias", llama, err);
    c->qkv_bias = always || c->attention_bias;
    c->o_bias = c->attention_bias;
    c->qk_norm = qwen3;
    return rc;
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

enum fr_rc tr_read_llama(const struct tr_model_read *r, struct fr_err *err)
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
