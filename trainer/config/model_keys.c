/*
 * The keys of a config.json that hold one number or switch. Defaults for an absent or null key are
 * those of transformers' configuration classes. They stand in the row of a type (arch.h), or here
 * if all types share them. tests/golden/model_config.py records the classes, and model_config_test
 * compares.
 */
#include "trainer/config/model_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind { INT, REAL, BOOL };

#define NONE (-4e300) /* in place of a default: only types that name the key have it */

static const struct key {
    const char *key;
    const char *alias; /* a second name, which counts where both stand */
    enum kind kind;
    size_t at; /* in struct tr_model_config */
    double min, max;
    double absent, null; /* defaults of types that do not name the key */
} keys[] = {
/* clang-format off */
#define AT(field) offsetof(struct tr_model_config, field)
#define SIZE(name, max) {#name, NULL, INT, AT(name), 1, max, TR_NEEDED, TR_REFUSED}
#define COUNT(name, min, max) {#name, NULL, INT, AT(name), min, max, NONE, NONE}
#define SWITCH(name) {#name, NULL, BOOL, AT(name), 0, 1, NONE, NONE}
    SIZE(vocab_size, 1 << 24),
    SIZE(hidden_size, 1 << 20),
    SIZE(num_hidden_layers, TR_LAYERS_MAX),
    SIZE(num_attention_heads, 4096),
    SIZE(intermediate_size, 1 << 24),
    COUNT(num_key_value_heads, 1, 4096),
    COUNT(head_dim, 2, 2048),
    COUNT(max_position_embeddings, 1, INT32_MAX),
    {"rms_norm_eps", NULL, REAL, AT(rms_norm_eps), 1e-30, 1e30, 1e-6, TR_REFUSED},
    {"initializer_range", NULL, REAL, AT(initializer_range), 0, 1e30, 0.02, TR_REFUSED},
    {"rope_theta", NULL, REAL, AT(rope.theta), 1, 1e30, 1e4, TR_REFUSED},
    {"tie_word_embeddings", NULL, BOOL, AT(tie_word_embeddings), 0, 1, 0, TR_REFUSED},
    SWITCH(attention_bias),
    SWITCH(mlp_bias),
    COUNT(sliding_window, 1, INT32_MAX),
    SWITCH(use_sliding_window),
    COUNT(max_window_layers, -INT32_MAX, INT32_MAX),
    {"n_routed_experts", "num_local_experts", INT, AT(n_routed_experts), 1, 65536, NONE, NONE},
    {"num_local_experts", "num_experts", INT, AT(n_routed_experts), 1, 65536, NONE, NONE},
    {"num_experts", "num_local_experts", INT, AT(n_routed_experts), 1, 65536, NONE, NONE},
    COUNT(num_experts_per_tok, 1, 1024),
    COUNT(moe_intermediate_size, 1, 1 << 24),
    SWITCH(norm_topk_prob),
    COUNT(decoder_sparse_step, 1, INT32_MAX),
    COUNT(q_lora_rank, 0, 1 << 20),
    COUNT(kv_lora_rank, 1, 1 << 20),
    COUNT(qk_nope_head_dim, 1, 4096),
    COUNT(qk_rope_head_dim, 2, 4096),
    COUNT(v_head_dim, 1, 4096),
    COUNT(n_shared_experts, 0, 1024),
    COUNT(n_group, 1, 65536),
    COUNT(topk_group, 1, 65536),
    COUNT(first_k_dense_replace, 0, 4096),
    {"num_mtp_layers", "num_nextn_predict_layers", INT, AT(num_nextn_predict_layers), 0, 64, NONE,
     NONE},
    {"routed_scaling_factor", NULL, REAL, AT(routed_scaling_factor), -1e30, 1e30, NONE, NONE},
    {"rope_interleave", NULL, BOOL, AT(rope.interleave), 0, 1, NONE, NONE},
/* clang-format on */
#undef AT
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static struct tr_key_default default_of(const struct tr_model_type *t, const struct key *k)
{
    for (size_t i = 0; i < t->n_defaults; i++)
        if (strcmp(t->defaults[i].key, k->key) == 0)
            return t->defaults[i];
    return (struct tr_key_default){k->key, k->absent, k->null};
}

/* The key of that name, NULL: the type has none. */
static const struct key *find(const struct tr_model_type *t, const char *key)
{
    for (const struct key *k = keys; k < keys + KEYS; k++)
        if (strcmp(k->key, key) == 0 && default_of(t, k).absent != NONE)
            return k;
    return NULL;
}

bool tr_key_has(const struct tr_model_read *r, const char *key)
{
    return find(r->type, key) != NULL;
}

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

/* The name to read: the alias, if the file has it. */
static const char *name_of(const struct tr_fields *f, const struct key *k)
{
    return k->alias != NULL && json_object_get(f->object, k->alias) != NULL ? k->alias : k->key;
}

enum fr_rc tr_key_bad(const struct tr_model_read *r, const char *key, const char *want,
                      struct fr_err *err)
{
    const struct key *k = find(r->type, key);

    if (k == NULL || tr_field(&r->f, name_of(&r->f, k)) != NULL || k->kind != INT)
        return tr_field_bad(&r->f, k != NULL ? name_of(&r->f, k) : key, want, err);
    return fr_fail(err, FR_USAGE, "%s: %s is absent, so %lld as by default, expected %s",
                   r->f.where, key, (long long)*(int64_t *)at(r->c, k), want);
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
    const struct tr_key_default d = default_of(r->type, k);

    if (d.absent == NONE)
        return FR_OK;
    if (k->alias != NULL)
        tr_twice_add_json(tr_read_twice(r),
                          (struct tr_twice_row){.what = k->key, .from = k->alias, .over = k->key},
                          json_object_get(r->f.object, k->alias),
                          json_object_get(r->f.object, k->key));
    if (v == NULL && d.absent == TR_NEEDED)
        return tr_field_need(&r->f, k->key, err);
    if (json_is_null(v) && d.null == TR_REFUSED)
        return tr_field_bad(&r->f, name_of(&r->f, k),
                            "a value: transformers has no default for null", err);
    if (v == NULL || json_is_null(v)) {
        double x = v == NULL ? d.absent : d.null;

        put(r->c, k, x == TR_DERIVED ? 0 : x);
        return FR_OK;
    }
    return read_value(&r->f, k, r->c, err);
}

static enum fr_rc derive(const struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;

    if (c->num_key_value_heads == 0)
        c->num_key_value_heads = c->num_attention_heads;
    if (c->head_dim != 0 || !tr_key_has(r, "head_dim"))
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

/* Writes the origin of a key's value. */
static void origin(const struct tr_model_read *r, const struct key *k, char out[96])
{
    const char *key = name_of(&r->f, k);
    const json_t *v = json_object_get(r->f.object, key);
    const struct tr_key_default d = default_of(r->type, k);

    if (v != NULL && !json_is_null(v))
        (void)snprintf(out, 96, "config.json%s%s", key == k->key ? "" : ": ",
                       key == k->key ? "" : key);
    else if ((v == NULL ? d.absent : d.null) == TR_DERIVED)
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

        if (default_of(r->type, k).absent == NONE ||
            k->at == offsetof(struct tr_model_config, rope.theta))
            continue;
        origin(r, k, from);
        if (json_object_set_new(r->said->values, k->key,
                                json_pack("{s:o, s:s}", "value", value(r->c, k), "from", from)) !=
            0)
            return fr_fail(err, FR_NOMEM, "no memory for what config.json says");
    }
    return FR_OK;
}
