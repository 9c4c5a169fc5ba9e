/* config.json of the Llama family: one row says what a model type has of its own. Experts are read
 * by model_experts.c. */
#include "trainer/config/model_read.h"

#include <stdio.h>
#include <string.h>

static const struct tr_size_row sizes[] = {
#define AT(field) offsetof(struct tr_model_config, field)
    {"vocab_size", NULL, AT(vocab_size), true, 0, 1, 1 << 24},
    {"hidden_size", NULL, AT(hidden_size), true, 0, 1, 1 << 20},
    {"num_hidden_layers", NULL, AT(num_hidden_layers), true, 0, 1, TR_LAYERS_MAX},
    {"num_attention_heads", NULL, AT(num_attention_heads), true, 0, 1, 4096},
    {"num_key_value_heads", NULL, AT(num_key_value_heads), false, 0, 1, 4096},
    {"head_dim", NULL, AT(head_dim), false, 0, 2, 2048},
    {"intermediate_size", NULL, AT(intermediate_size), true, 0, 1, 1 << 24},
    {"max_position_embeddings", NULL, AT(max_position_embeddings), true, 0, 1, INT32_MAX},
#undef AT
};

/* What a model type has: biases of q, k and v always, or those of attention and MLP where
 * config.json asks for them. */
struct family {
    const char *type;
    bool qkv_bias, attention_bias, mlp_bias, qk_norm;
    bool own_kv_heads;  /* num_key_value_heads must be there; else it is num_attention_heads */
    bool always_window; /* sliding_window holds for all layers unless it is null; 4096 */
    bool given_window;  /* with always_window: absent is null */
    bool may_window;    /* use_sliding_window asks for one */
    bool whole_window;  /* with may_window: of all layers */
    bool experts;
    double theta; /* of rope where config.json says none; 0: 10000 */
};

static const struct family families[] = {
    {.type = "llama", .attention_bias = true, .mlp_bias = true},
    {.type = "mistral", .own_kv_heads = true, .always_window = true},
    {.type = "mixtral",
     .own_kv_heads = true,
     .always_window = true,
     .given_window = true,
     .experts = true,
     .theta = 1000000},
    {.type = "qwen2", .qkv_bias = true, .own_kv_heads = true, .may_window = true},
    {.type = "qwen3",
     .attention_bias = true,
     .qk_norm = true,
     .own_kv_heads = true,
     .may_window = true},
    {.type = "qwen3_moe",
     .attention_bias = true,
     .qk_norm = true,
     .own_kv_heads = true,
     .may_window = true,
     .whole_window = true,
     .experts = true},
};

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

static const char *const known_of_rope[] = {"type",
                                            "rope_type",
                                            "factor",
                                            "rope_theta",
                                            "low_freq_factor",
                                            "high_freq_factor",
                                            "original_max_position_embeddings",
                                            "beta_fast",
                                            "beta_slow",
                                            "mscale",
                                            "mscale_all_dim",
                                            "attention_factor",
                                            "truncate",
                                            "partial_rotary_factor",
                                            "finetuned"};

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

static enum fr_rc refuse_unknown(const struct tr_fields *f, const struct family *k,
                                 const struct tr_model_config *c, struct fr_err *err)
{
    const struct keys none = {NULL, 0};
    const json_t *rope = tr_field(f, "rope_parameters");
    const char *near;
    const char *key =
        unknown_key(f->object, KEYS(known), k->experts ? KEYS(known_of_experts) : none);

    if (rope == NULL)
        rope = tr_field(f, "rope_scaling");
    if (key == NULL && rope != NULL)
        key = unknown_key(rope, KEYS(known_of_rope), none);
    if (key == NULL)
        return FR_OK;
    near = fr_suggest(key, known, sizeof(known) / sizeof(known[0]));
    if (near != NULL && tr_field(f, near) == NULL)
        return fr_fail(err, FR_USAGE, "%s: unknown key %s: did you mean %s?", f->where, key, near);
    return fr_fail(err, FR_UNSUPPORTED,
                   "%s: unknown key %s: no %s model that this program knows has it; if it changes "
                   "nothing there, remove it",
                   f->where, key, c->model_type);
}

/* A switch that the model type does not have must be off. */
static enum fr_rc read_switch(const struct tr_fields *f, const char *key, bool has, bool *out,
                              struct fr_err *err)
{
    enum fr_rc rc = tr_field_bool(f, key, out, err);

    if (rc == FR_OK && *out && !has)
        rc = tr_field_bad(f, key, "false, as in every model of its type", err);
    return rc;
}

static enum fr_rc read_switches(const struct tr_fields *f, const struct family *k,
                                struct tr_model_config *c, struct fr_err *err)
{
    bool bias = false;
    enum fr_rc rc = FR_OK;

    if (k->attention_bias || !k->qkv_bias)
        rc = read_switch(f, "attention_bias", k->attention_bias, &bias, err);
    if (rc == FR_OK)
        rc = read_switch(f, "mlp_bias", k->mlp_bias, &c->mlp_bias, err);
    c->qkv_bias = k->qkv_bias || bias;
    c->o_bias = bias;
    c->qk_norm = k->qk_norm;
    return rc;
}

static enum fr_rc read_fixed(const struct tr_fields *f, struct fr_err *err)
{
    static const struct tr_fixed_row rows[] = {{"hidden_act", "silu"}};
    const json_t *rope = tr_field(f, "rope_parameters");
    struct tr_fields r = {rope != NULL ? rope : f->object, f->where};
    double dropout = 0, rotary = 1;
    enum fr_rc rc;

    if ((rc = tr_read_fixed(f, rows, 1, err)) != FR_OK ||
        (rc = tr_field_f64(f, "attention_dropout", &dropout, err)) != FR_OK ||
        (rc = tr_field_f64(&r, "partial_rotary_factor", &rotary, err)) != FR_OK)
        return rc;
    if (dropout != 0)
        return tr_field_bad(f, "attention_dropout", "0", err);
    if (rotary != 1)
        return tr_field_bad(&r, "partial_rotary_factor", "1: whole heads are rotated", err);
    return FR_OK;
}

/* layer_types, where the model has them: which layers have a window. */
static enum fr_rc read_layers(const struct tr_fields *f, bool use, struct tr_model_config *c,
                              struct fr_err *err)
{
    const json_t *types = tr_field(f, "layer_types"), *one;
    size_t i;

    if (json_array_size(types) != (size_t)c->num_hidden_layers)
        return tr_field_bad(f, "layer_types", "a type for each layer", err);
    json_array_foreach(types, i, one)
    {
        const char *type = json_is_string(one) ? json_string_value(one) : "";
        bool slides = strcmp(type, "sliding_attention") == 0;

        if (!slides && strcmp(type, "full_attention") != 0)
            return tr_field_bad(f, "layer_types", "full_attention and sliding_attention", err);
        if (slides && !use)
            return tr_field_bad(f, "layer_types", "full_attention: use_sliding_window is off", err);
        c->windowed[i / 64] |= (uint64_t)slides << i % 64;
    }
    return FR_OK;
}

/* Layers from `first` on have a window. */
static void set_layers(struct tr_model_config *c, int64_t first)
{
    for (int64_t i = first < 0 ? 0 : first; i < c->num_hidden_layers; i++)
        c->windowed[i / 64] |= (uint64_t)1 << i % 64;
}

static enum fr_rc read_window(const struct tr_fields *f, const struct family *k,
                              struct tr_model_config *c, struct fr_err *err)
{
    bool null = json_is_null(json_object_get(f->object, "sliding_window")), use = false;
    bool whole = k->always_window || k->whole_window;
    int64_t first = 28; /* the reference's default, as 4096 */
    enum fr_rc rc;

    c->sliding_window = 4096;
    if ((rc = tr_field_i64(f, "sliding_window", &c->sliding_window, err)) != FR_OK ||
        (rc = tr_field_i64(f, "max_window_layers", &first, err)) != FR_OK ||
        (rc = tr_field_bool(f, "use_sliding_window", &use, err)) != FR_OK)
        return rc;
    null = null || (k->given_window && tr_field(f, "sliding_window") == NULL);
    use = !null && (k->always_window || (k->may_window && use));
    if (!use)
        c->sliding_window = 0;
    else if (c->sliding_window < 1)
        return tr_field_bad(f, "sliding_window", "at least 1", err);
    if (k->may_window && !whole && tr_field(f, "layer_types") != NULL)
        return read_layers(f, use, c, err);
    if (use)
        set_layers(c, whole ? 0 : first);
    return FR_OK;
}

static enum fr_rc check(const struct tr_fields *f, const struct tr_model_config *c,
                        struct fr_err *err)
{
    if (c->head_dim % 2 != 0 || c->head_dim < 2)
        return tr_field_bad(f, tr_field(f, "head_dim") != NULL ? "head_dim" : "hidden_size",
                            "heads of an even size", err);
    if (c->num_attention_heads % c->num_key_value_heads != 0)
        return tr_field_bad(f, "num_key_value_heads", "a divisor of num_attention_heads", err);
    return FR_OK;
}

enum fr_rc tr_read_llama(const struct tr_fields *f, struct tr_model_config *c, struct fr_err *err)
{
    const unsigned ropes = 1U << TR_ROPE_DEFAULT | 1U << TR_ROPE_LINEAR | 1U << TR_ROPE_DYNAMIC |
                           1U << TR_ROPE_LLAMA3 | 1U << TR_ROPE_YARN;
    const struct family *k = families;
    enum fr_rc rc;

    while (strcmp(k->type, c->model_type) != 0)
        k++;
    if ((rc = refuse_unknown(f, k, c, err)) != FR_OK ||
        (k->own_kv_heads && (rc = tr_field_need(f, "num_key_value_heads", err)) != FR_OK) ||
        (rc = tr_read_sizes(f, sizes, sizeof(sizes) / sizeof(sizes[0]), c, err)) != FR_OK)
        return rc;
    if (c->num_key_value_heads == 0)
        c->num_key_value_heads = c->num_attention_heads;
    if (c->head_dim == 0 && c->hidden_size % c->num_attention_heads != 0)
        return tr_field_bad(f, "num_attention_heads", "a divisor of hidden_size, or head_dim", err);
    if (c->head_dim == 0)
        c->head_dim = c->hidden_size / c->num_attention_heads;
    c->first_k_dense_replace = c->num_hidden_layers;
    c->rope.theta = k->theta;
    if (k->experts && (rc = tr_read_experts(f, c, err)) != FR_OK)
        return rc;
    if ((rc = check(f, c, err)) != FR_OK || (rc = tr_read_rope(f, ropes, c, err)) != FR_OK ||
        (rc = read_switches(f, k, c, err)) != FR_OK || (rc = read_fixed(f, err)) != FR_OK)
        return rc;
    return read_window(f, k, c, err);
}
