/*
 * The keys of a config.json that hold one number or switch, and what each family takes where a key
 * is absent or null: the defaults of transformers' configuration classes. tests/golden/
 * model_config.py records what those do, key by key, and model_config_test compares.
 */
#include "trainer/config/model_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind { INT, REAL, BOOL };

/* In the place of a default. */
#define NEED (-1e300) /* config.json must have the key */
#define NONE (-2e300) /* the family has no such key: the field stays 0 */
#define DERIVED (-3e300)
/* In the place of what null means. */
#define BAD (-4e300)

static const struct key {
    const char *key;
    const char *alias; /* a second name, which counts where both stand */
    enum kind kind;
    size_t at; /* in struct tr_model_config */
    double min, max;
    /* of deepseek_v3, llama, ministral, mistral, mixtral, qwen2, qwen3, qwen3_moe */
    double absent[TR_FAMILIES];
    double null[TR_FAMILIES];
} keys[] = {
/* clang-format off */
#define AT(field) offsetof(struct tr_model_config, field)
#define ALL(x) {x, x, x, x, x, x, x, x}
#define DEEPSEEK(x) {x, NONE, NONE, NONE, NONE, NONE, NONE, NONE}
#define EXPERTS(d, x, q) {d, NONE, NONE, NONE, x, NONE, NONE, q}
#define SIZE(name, max) {#name, NULL, INT, AT(name), 1, max, ALL(NEED), ALL(BAD)}
#define LATENT(name, min, max, absent, null) \
    {#name, NULL, INT, AT(name), min, max, DEEPSEEK(absent), DEEPSEEK(null)}
    SIZE(vocab_size, 1 << 24),
    SIZE(hidden_size, 1 << 20),
    SIZE(num_hidden_layers, TR_LAYERS_MAX),
    SIZE(num_attention_heads, 4096),
    SIZE(intermediate_size, 1 << 24),
    {"num_key_value_heads", NULL, INT, AT(num_key_value_heads), 1, 4096,
     {DERIVED, DERIVED, 8, 8, 8, 32, 32, 4},
     {DERIVED, DERIVED, BAD, BAD, BAD, DERIVED, DERIVED, BAD}},
    {"head_dim", NULL, INT, AT(head_dim), 2, 2048,
     {NONE, DERIVED, NEED, DERIVED, DERIVED, DERIVED, 128, DERIVED},
     {NONE, DERIVED, BAD, DERIVED, DERIVED, BAD, BAD, BAD}},
    {"max_position_embeddings", NULL, INT, AT(max_position_embeddings), 1, INT32_MAX,
     {4096, 2048, 131072, 131072, 131072, 32768, 32768, 32768}, ALL(BAD)},
    {"rms_norm_eps", NULL, REAL, AT(rms_norm_eps), 1e-30, 1e30,
     {1e-6, 1e-6, 1e-6, 1e-6, 1e-5, 1e-6, 1e-6, 1e-6}, ALL(BAD)},
    {"initializer_range", NULL, REAL, AT(initializer_range), 0, 1e30, ALL(0.02), ALL(BAD)},
    {"rope_theta", NULL, REAL, AT(rope.theta), 1, 1e30,
     {1e4, 1e4, 1e4, 1e4, 1e6, 1e4, 1e4, 1e4}, ALL(BAD)},
    {"tie_word_embeddings", NULL, BOOL, AT(tie_word_embeddings), 0, 1, ALL(0), ALL(BAD)},
    {"attention_bias", NULL, BOOL, AT(attention_bias), 0, 1,
     {0, 0, NONE, NONE, NONE, NONE, 0, 0}, {BAD, BAD, NONE, NONE, NONE, NONE, BAD, BAD}},
    {"mlp_bias", NULL, BOOL, AT(mlp_bias), 0, 1,
     {NONE, 0, NONE, NONE, NONE, NONE, NONE, NONE}, ALL(BAD)},
    {"sliding_window", NULL, INT, AT(sliding_window), 1, INT32_MAX,
     {NONE, NONE, 4096, 4096, 0, 4096, 4096, 4096}, {NONE, NONE, BAD, 0, 0, 0, 0, 0}},
    {"use_sliding_window", NULL, BOOL, AT(use_sliding_window), 0, 1,
     {NONE, NONE, NONE, NONE, NONE, 0, 0, 0}, ALL(BAD)},
    {"max_window_layers", NULL, INT, AT(max_window_layers), -INT32_MAX, INT32_MAX,
     {NONE, NONE, NONE, NONE, NONE, 28, 28, NONE}, ALL(BAD)},
    {"n_routed_experts", "num_local_experts", INT, AT(n_routed_experts), 1, 65536,
     DEEPSEEK(NEED), ALL(BAD)},
    {"num_local_experts", "num_experts", INT, AT(n_routed_experts), 1, 65536,
     {NONE, NONE, NONE, NONE, NEED, NONE, NONE, NONE}, ALL(BAD)},
    {"num_experts", "num_local_experts", INT, AT(n_routed_experts), 1, 65536,
     {NONE, NONE, NONE, NONE, NONE, NONE, NONE, NEED}, ALL(BAD)},
    {"num_experts_per_tok", NULL, INT, AT(num_experts_per_tok), 1, 1024,
     EXPERTS(NEED, NEED, NEED), ALL(BAD)},
    {"moe_intermediate_size", NULL, INT, AT(moe_intermediate_size), 1, 1 << 24,
     EXPERTS(NEED, NONE, NEED), ALL(BAD)},
    {"norm_topk_prob", NULL, BOOL, AT(norm_topk_prob), 0, 1,
     EXPERTS(1, NONE, 0), EXPERTS(0, BAD, BAD)},
    {"decoder_sparse_step", NULL, INT, AT(decoder_sparse_step), 1, INT32_MAX,
     EXPERTS(NONE, NONE, 1), ALL(BAD)},
    LATENT(q_lora_rank, 0, 1 << 20, 1536, 0),
    LATENT(kv_lora_rank, 1, 1 << 20, NEED, BAD),
    LATENT(qk_nope_head_dim, 1, 4096, NEED, BAD),
    LATENT(qk_rope_head_dim, 2, 4096, NEED, BAD),
    LATENT(v_head_dim, 1, 4096, NEED, BAD),
    LATENT(n_shared_experts, 0, 1024, 1, BAD),
    LATENT(n_group, 1, 65536, 8, BAD),
    LATENT(topk_group, 1, 65536, 4, BAD),
    LATENT(first_k_dense_replace, 0, 4096, NEED, BAD),
    {"num_mtp_layers", "num_nextn_predict_layers", INT, AT(num_nextn_predict_layers), 0, 64,
     DEEPSEEK(0), DEEPSEEK(0)},
    {"routed_scaling_factor", NULL, REAL, AT(routed_scaling_factor), -1e30, 1e30,
     DEEPSEEK(2.5), ALL(BAD)},
    {"rope_interleave", NULL, BOOL, AT(rope.interleave), 0, 1, DEEPSEEK(1), DEEPSEEK(0)},
/* clang-format on */
#undef AT
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static void *at(struct tr_model_config *c, const struct key *k)
{
    return (char *)c + k->at;
}

static void put(struct tr_model_config *c, const struct key *k, double x)
{
    if (k->kind == INT)
        *(int64_t *)at(c, k) = (int64_t)x;
    else if (k->kind == REAL)
        *(double *)at(c, k) = x;
    else
        *(bool *)at(c, k) = x != 0;
}

/* The name that counts. */
static const char *name_of(const struct tr_fields *f, const struct key *k)
{
    return k->alias != NULL && json_object_get(f->object, k->alias) != NULL ? k->alias : k->key;
}

enum fr_rc tr_key_bad(const struct tr_model_read *r, const char *key, const char *want,
                      struct fr_err *err)
{
    size_t i = 0;

    while (i < KEYS && (strcmp(keys[i].key, key) != 0 || keys[i].absent[r->family] == NONE))
        i++;
    if (i == KEYS || tr_field(&r->f, name_of(&r->f, &keys[i])) != NULL || keys[i].kind != INT)
        return tr_field_bad(&r->f, i < KEYS ? name_of(&r->f, &keys[i]) : key, want, err);
    return fr_fail(err, FR_USAGE, "%s: %s is absent, so %lld as by default, expected %s",
                   r->f.where, key, (long long)*(int64_t *)at(r->c, &keys[i]), want);
}

static enum fr_rc read_value(const struct tr_fields *f, const struct key *k,
                             struct tr_model_config *c, struct fr_err *err)
{
    const char *key = name_of(f, k);
    char want[64] = "a positive number";
    double x;
    enum fr_rc rc;

    if (k->kind == BOOL)
        return tr_field_bool(f, key, at(c, k), err);
    if ((rc = k->kind == INT ? tr_field_i64(f, key, at(c, k), err)
                             : tr_field_f64(f, key, at(c, k), err)) != FR_OK)
        return rc;
    x = k->kind == INT ? (double)*(int64_t *)at(c, k) : *(double *)at(c, k);
    if (x >= k->min && x <= k->max)
        return FR_OK;
    if (k->kind == INT)
        (void)snprintf(want, sizeof(want), "%.0f to %.0f", k->min, k->max);
    else if (k->min == 1)
        (void)snprintf(want, sizeof(want), "a number above 1");
    return tr_field_bad(f, key, want, err);
}

static enum fr_rc read_key(const struct tr_model_read *r, const struct key *k, struct fr_err *err)
{
    const json_t *v = json_object_get(r->f.object, name_of(&r->f, k));
    double absent = k->absent[r->family], null = k->null[r->family];

    if (absent == NONE)
        return FR_OK;
    if (k->alias != NULL)
        tr_twice_add_json(tr_read_twice(r),
                          (struct tr_twice_row){.what = k->key, .from = k->alias, .over = k->key},
                          json_object_get(r->f.object, k->alias),
                          json_object_get(r->f.object, k->key));
    if (v == NULL && absent == NEED)
        return tr_field_need(&r->f, k->key, err);
    if (json_is_null(v) && null == BAD)
        return tr_field_bad(&r->f, name_of(&r->f, k),
                            "a value: transformers has no default for null", err);
    if (v == NULL || json_is_null(v)) {
        double x = v == NULL ? absent : null;

        put(r->c, k, x == DERIVED ? 0 : x);
        return FR_OK;
    }
    return read_value(&r->f, k, r->c, err);
}

static enum fr_rc derive(const struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;

    if (c->num_key_value_heads == 0)
        c->num_key_value_heads = c->num_attention_heads;
    if (c->arch != TR_ARCH_LLAMA || c->head_dim != 0)
        return FR_OK;
    if (c->hidden_size % c->num_attention_heads != 0)
        return tr_field_bad(&r->f, "num_attention_heads", "a divisor of hidden_size, or head_dim",
                            err);
    c->head_dim = c->hidden_size / c->num_attention_heads;
    return FR_OK;
}

enum fr_rc tr_read_keys(const struct tr_model_read *r, struct fr_err *err)
{
    enum fr_rc rc;

    for (size_t i = 0; i < KEYS; i++)
        if ((rc = read_key(r, &keys[i], err)) != FR_OK)
            return rc;
    return derive(r, err);
}

static json_t *value(struct tr_model_config *c, const struct key *k)
{
    if (k->kind == BOOL)
        return json_boolean(*(bool *)at(c, k));
    return k->kind == INT ? json_integer(*(int64_t *)at(c, k)) : json_real(*(double *)at(c, k));
}

/* Where the value of a key came from. */
static void origin(const struct tr_model_read *r, const struct key *k, char out[96])
{
    const char *key = name_of(&r->f, k);
    const json_t *v = json_object_get(r->f.object, key);
    double x = v == NULL ? k->absent[r->family] : k->null[r->family];

    if (v != NULL && !json_is_null(v))
        (void)snprintf(out, 96, "config.json%s%s", key == k->key ? "" : ": ",
                       key == k->key ? "" : key);
    else if (x == DERIVED)
        (void)snprintf(out, 96, "derived");
    else if (v == NULL)
        (void)snprintf(out, 96, "default of %s", r->c->model_type);
    else
        (void)snprintf(out, 96, "null in config.json");
}

enum fr_rc tr_keys_values(const struct tr_model_read *r, struct fr_err *err)
{
    for (size_t i = 0; i < KEYS; i++) {
        const struct key *k = &keys[i];
        char from[96];

        if (k->absent[r->family] == NONE || k->at == offsetof(struct tr_model_config, rope.theta))
            continue;
        origin(r, k, from);
        if (json_object_set_new(r->said->values, k->key,
                                json_pack("{s:o, s:s}", "value", value(r->c, k), "from", from)) !=
            0)
            return fr_fail(err, FR_NOMEM, "no memory for what config.json says");
    }
    return FR_OK;
}
