#include "trainer/config/model_config.h"

#include "engine/base/sys.h"
#include "trainer/config/fields.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_MAX_BYTES = 4 << 20 };

/* The sizes: name, place, whether config.json must have it, and the value when it need not. */
static const struct size_row {
    const char *key, *alias;
    size_t at;
    bool need;
    int64_t def, min, max;
} sizes[] = {
#define AT(field) offsetof(struct tr_model_config, field)
    {"vocab_size", NULL, AT(vocab_size), true, 0, 1, 1 << 24},
    {"hidden_size", NULL, AT(hidden_size), true, 0, 1, 1 << 20},
    {"num_hidden_layers", NULL, AT(num_hidden_layers), true, 0, 1, 4096},
    {"num_nextn_predict_layers", NULL, AT(num_nextn_predict_layers), false, 0, 0, 64},
    {"num_attention_heads", NULL, AT(num_attention_heads), true, 0, 1, 4096},
    {"q_lora_rank", NULL, AT(q_lora_rank), false, 0, 0, 1 << 20},
    {"kv_lora_rank", NULL, AT(kv_lora_rank), true, 0, 1, 1 << 20},
    {"qk_nope_head_dim", NULL, AT(qk_nope_head_dim), true, 0, 1, 4096},
    {"qk_rope_head_dim", NULL, AT(qk_rope_head_dim), true, 0, 2, 4096},
    {"v_head_dim", NULL, AT(v_head_dim), true, 0, 1, 4096},
    {"intermediate_size", NULL, AT(intermediate_size), true, 0, 1, 1 << 24},
    {"moe_intermediate_size", NULL, AT(moe_intermediate_size), true, 0, 1, 1 << 24},
    {"n_routed_experts", "num_local_experts", AT(n_routed_experts), true, 0, 1, 65536},
    {"n_shared_experts", NULL, AT(n_shared_experts), false, 0, 0, 1024},
    {"num_experts_per_tok", NULL, AT(num_experts_per_tok), true, 0, 1, 1024},
    {"n_group", NULL, AT(n_group), false, 1, 1, 65536},
    {"topk_group", NULL, AT(topk_group), false, 1, 1, 65536},
    {"first_k_dense_replace", NULL, AT(first_k_dense_replace), true, 0, 0, 4096},
    {"max_position_embeddings", NULL, AT(max_position_embeddings), false, 4096, 1, INT32_MAX},
#undef AT
};

static enum fr_rc read_sizes(const struct tr_fields *f, struct tr_model_config *c,
                             struct fr_err *err)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const struct size_row *row = &sizes[i];
        int64_t *at = (int64_t *)(void *)((char *)c + row->at);
        const char *key = row->key;
        char want[64];
        enum fr_rc rc;

        *at = row->def;
        if (row->alias != NULL && tr_field(f, key) == NULL && tr_field(f, row->alias) != NULL)
            key = row->alias;
        if (row->need && (rc = tr_field_need(f, key, err)) != FR_OK)
            return rc;
        if ((rc = tr_field_i64(f, key, at, err)) != FR_OK)
            return rc;
        if (tr_field(f, key) != NULL && (*at < row->min || *at > row->max)) {
            (void)snprintf(want, sizeof(want), "%lld to %lld", (long long)row->min,
                           (long long)row->max);
            return tr_field_bad(f, key, want, err);
        }
    }
    return FR_OK;
}

/* The rotary part: rope_parameters (one object), else rope_theta and rope_scaling. */
static enum fr_rc read_rope(const struct tr_fields *f, struct tr_model_config *c,
                            struct fr_err *err)
{
    const json_t *one = tr_field(f, "rope_parameters");
    struct tr_fields s = {one != NULL ? one : tr_field(f, "rope_scaling"), f->where};
    const struct tr_fields *theta = one != NULL && tr_field(&s, "rope_theta") != NULL ? &s : f;
    struct tr_rope_config *r = &c->rope;
    const char *type = "default";
    enum fr_rc rc;

    *r = (struct tr_rope_config){.theta = 10000, .factor = 1, .beta_fast = 32, .beta_slow = 1,
                                 .truncate = true, .interleave = true};
    r->original_max_positions = c->max_position_embeddings;
    if ((rc = tr_field_f64(theta, "rope_theta", &r->theta, err)) != FR_OK ||
        (rc = tr_field_bool(f, "rope_interleave", &r->interleave, err)) != FR_OK)
        return rc;
    if (!(r->theta > 1))
        return tr_field_bad(theta, "rope_theta", "a number above 1", err);
    if (s.object == NULL)
        return FR_OK;
    if ((rc = tr_field_text(&s, "type", &type, err)) != FR_OK ||
        (rc = tr_field_text(&s, "rope_type", &type, err)) != FR_OK)
        return rc;
    if (strcmp(type, "default") == 0)
        return FR_OK;
    if (strcmp(type, "yarn") != 0)
        return fr_fail(err, FR_UNSUPPORTED, "%s: rope type '%s', only default and yarn are done",
                       f->where, type);
    r->yarn = true;
    if ((rc = tr_field_i64(&s, "original_max_position_embeddings", &r->original_max_positions,
                           err)) != FR_OK)
        return rc;
    if (r->original_max_positions < 1)
        return tr_field_bad(&s, "original_max_position_embeddings", "at least 1", err);
    r->factor = (double)c->max_position_embeddings / (double)r->original_max_positions;
    if ((rc = tr_field_f64(&s, "factor", &r->factor, err)) != FR_OK ||
        (rc = tr_field_f64(&s, "beta_fast", &r->beta_fast, err)) != FR_OK ||
        (rc = tr_field_f64(&s, "beta_slow", &r->beta_slow, err)) != FR_OK ||
        (rc = tr_field_f64(&s, "mscale", &r->mscale, err)) != FR_OK ||
        (rc = tr_field_f64(&s, "mscale_all_dim", &r->mscale_all_dim, err)) != FR_OK ||
        (rc = tr_field_f64(&s, "attention_factor", &r->attention_factor, err)) != FR_OK ||
        (rc = tr_field_bool(&s, "truncate", &r->truncate, err)) != FR_OK)
        return rc;
    if (!(r->factor >= 1))
        return tr_field_bad(&s, "factor", "at least 1", err);
    return FR_OK;
}

/* Whether the module path has `part` as one or more whole components. */
static bool has_part(const char *name, const char *part)
{
    size_t n = strlen(part);

    for (const char *p = name; n > 0 && (p = strstr(p, part)) != NULL; p++)
        if ((p == name || p[-1] == '.') && (p[n] == '.' || p[n] == '\0'))
            return true;
    return false;
}

/* FR_UNSUPPORTED for a linear that modules_to_not_convert (arg) leaves in 16 bits. */
static enum fr_rc check_converted(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    const json_t *list = arg, *v;
    size_t i;

    if (t->role != TR_ROLE_LINEAR)
        return FR_OK;
    json_array_foreach(list, i, v)
        if (json_is_string(v) && has_part(t->name, json_string_value(v)))
            return fr_fail(err, FR_UNSUPPORTED,
                           "quantization_config.modules_to_not_convert names '%s', which leaves %s "
                           "unquantised: FP8 checkpoints have every linear in FP8",
                           json_string_value(v), t->name);
    return FR_OK;
}

/* Scales of activations are computed while it runs ("dynamic"); stored ones are another scheme. */
static enum fr_rc check_scheme(const struct tr_fields *q, const struct tr_model_config *c,
                               struct fr_err *err)
{
    const char *scheme = "dynamic";
    const json_t *kept = tr_field(q, "modules_to_not_convert");
    enum fr_rc rc = tr_field_text(q, "activation_scheme", &scheme, err);

    if (rc != FR_OK)
        return rc;
    if (strcmp(scheme, "dynamic") != 0)
        return fr_fail(err, FR_UNSUPPORTED, "%s: activation_scheme '%s', only dynamic is done",
                       q->where, scheme);
    if (kept == NULL)
        return FR_OK;
    rc = tr_model_tensors(c, check_converted, (void *)kept, err);
    return rc == FR_OK ? rc : fr_while(err, "%s", q->where);
}

static enum fr_rc read_quant(const struct tr_fields *f, struct tr_model_config *c,
                             struct fr_err *err)
{
    struct tr_fields q = {tr_field(f, "quantization_config"), f->where};
    const char *method = "", *fmt = "e4m3";
    const json_t *block;
    enum fr_rc rc;

    if (q.object == NULL)
        return FR_OK;
    if ((rc = tr_field_text(&q, "quant_method", &method, err)) != FR_OK ||
        (rc = tr_field_text(&q, "fmt", &fmt, err)) != FR_OK)
        return rc;
    block = tr_field(&q, "weight_block_size");
    if (strcmp(method, "fp8") != 0 || strcmp(fmt, "e4m3") != 0)
        return fr_fail(err, FR_UNSUPPORTED, "%s: quantization '%s' '%s', only fp8 e4m3 is done",
                       f->where, method, fmt);
    if (!json_is_array(block) || json_array_size(block) != 2 ||
        json_integer_value(json_array_get(block, 0)) < 1 ||
        json_integer_value(json_array_get(block, 1)) < 1)
        return tr_field_bad(&q, "weight_block_size", "two sizes", err);
    c->fp8 = true;
    c->fp8_block_rows = json_integer_value(json_array_get(block, 0));
    c->fp8_block_cols = json_integer_value(json_array_get(block, 1));
    return check_scheme(&q, c, err);
}

static enum fr_rc read_kind(const struct tr_fields *f, struct tr_model_config *c,
                            struct fr_err *err)
{
    const char *type = "", *arch;
    enum fr_rc rc = tr_field_text(f, "model_type", &type, err);

    if (rc != FR_OK)
        return rc;
    arch = json_string_value(json_array_get(tr_field(f, "architectures"), 0));
    if (strcmp(type, "deepseek_v3") != 0 &&
        (arch == NULL || strcmp(arch, "DeepseekV3ForCausalLM") != 0))
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: model_type '%s', architecture '%s': only deepseek_v3 is done", f->where,
                       type, arch != NULL ? arch : "");
    (void)snprintf(c->model_type, sizeof(c->model_type), "%s", type);
    return FR_OK;
}

/* Keys that may only have the value of the architecture. */
static enum fr_rc read_fixed(const struct tr_fields *f, const struct tr_model_config *c,
                             struct fr_err *err)
{
    static const struct {
        const char *key, *want;
    } rows[] = {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}, {"hidden_act", "silu"}};
    int64_t kv_heads = c->num_attention_heads, freq = 1;
    double dropout = 0;
    enum fr_rc rc;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = rows[i].want;
        if ((rc = tr_field_text(f, rows[i].key, &got, err)) != FR_OK)
            return rc;
        if (strcmp(got, rows[i].want) != 0)
            return fr_fail(err, FR_UNSUPPORTED, "%s: %s is '%s', only '%s' is done", f->where,
                           rows[i].key, got, rows[i].want);
    }
    if ((rc = tr_field_i64(f, "num_key_value_heads", &kv_heads, err)) != FR_OK ||
        (rc = tr_field_i64(f, "moe_layer_freq", &freq, err)) != FR_OK ||
        (rc = tr_field_f64(f, "attention_dropout", &dropout, err)) != FR_OK)
        return rc;
    if (kv_heads != c->num_attention_heads)
        return tr_field_bad(f, "num_key_value_heads", "as num_attention_heads", err);
    if (freq != 1)
        return tr_field_bad(f, "moe_layer_freq", "1", err);
    if (dropout != 0)
        return tr_field_bad(f, "attention_dropout", "0", err);
    return FR_OK;
}

static enum fr_rc check(const struct tr_fields *f, const struct tr_model_config *c,
                        struct fr_err *err)
{
    int64_t group = c->n_routed_experts / c->n_group;

    if (c->qk_rope_head_dim % 2 != 0)
        return tr_field_bad(f, "qk_rope_head_dim", "an even number", err);
    if (c->n_routed_experts % c->n_group != 0)
        return tr_field_bad(f, "n_group", "a divisor of n_routed_experts", err);
    if (c->topk_group > c->n_group)
        return tr_field_bad(f, "topk_group", "at most n_group", err);
    if (c->n_group > 1 && group < 2)
        return tr_field_bad(f, "n_group", "groups of at least 2 experts", err);
    if (c->num_experts_per_tok > c->topk_group * group)
        return tr_field_bad(f, "num_experts_per_tok", "at most the experts of topk_group groups",
                            err);
    if (c->first_k_dense_replace > c->num_hidden_layers)
        return tr_field_bad(f, "first_k_dense_replace", "at most num_hidden_layers", err);
    if (!(c->rms_norm_eps > 0))
        return tr_field_bad(f, "rms_norm_eps", "a positive number", err);
    return FR_OK;
}

/* An id, or the first of a list of ids. */
static int64_t token_id(const json_t *v)
{
    if (json_is_array(v))
        v = json_array_get(v, 0);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

static enum fr_rc read_rest(const struct tr_fields *f, struct tr_model_config *c,
                            struct fr_err *err)
{
    const char *dtype = "bfloat16";
    enum fr_rc rc;

    c->norm_topk_prob = true;
    c->routed_scaling_factor = 1;
    c->rms_norm_eps = 1e-6;
    c->initializer_range = 0.02;
    c->bos_token_id = token_id(tr_field(f, "bos_token_id"));
    c->eos_token_id = token_id(tr_field(f, "eos_token_id"));
    if ((rc = tr_field_bool(f, "norm_topk_prob", &c->norm_topk_prob, err)) != FR_OK ||
        (rc = tr_field_f64(f, "routed_scaling_factor", &c->routed_scaling_factor, err)) != FR_OK ||
        (rc = tr_field_f64(f, "rms_norm_eps", &c->rms_norm_eps, err)) != FR_OK ||
        (rc = tr_field_f64(f, "initializer_range", &c->initializer_range, err)) != FR_OK ||
        (rc = tr_field_bool(f, "attention_bias", &c->attention_bias, err)) != FR_OK ||
        (rc = tr_field_bool(f, "tie_word_embeddings", &c->tie_word_embeddings, err)) != FR_OK ||
        (rc = tr_field_text(f, "torch_dtype", &dtype, err)) != FR_OK ||
        (rc = tr_field_text(f, "dtype", &dtype, err)) != FR_OK)
        return rc;
    if (strcmp(dtype, "bfloat16") == 0)
        c->torch_dtype = TR_TORCH_BF16;
    else if (strcmp(dtype, "float16") == 0)
        c->torch_dtype = TR_TORCH_F16;
    else if (strcmp(dtype, "float32") == 0)
        c->torch_dtype = TR_TORCH_F32;
    else
        return tr_field_bad(f, "torch_dtype", "bfloat16, float16 or float32", err);
    return FR_OK;
}

static enum fr_rc read_all(const struct tr_fields *f, struct tr_model_config *c,
                           struct fr_err *err)
{
    enum fr_rc rc;

    if (!json_is_object(f->object))
        return fr_fail(err, FR_USAGE, "%s is not a JSON object", f->where);
    if ((rc = read_kind(f, c, err)) != FR_OK || (rc = read_sizes(f, c, err)) != FR_OK ||
        (rc = read_rope(f, c, err)) != FR_OK || (rc = read_quant(f, c, err)) != FR_OK ||
        (rc = read_rest(f, c, err)) != FR_OK || (rc = read_fixed(f, c, err)) != FR_OK)
        return rc;
    return check(f, c, err);
}

enum fr_rc tr_model_config_load(const char *path, struct tr_model_config *out, struct fr_err *err)
{
    char file[PATH_MAX];
    json_t *root = NULL;
    struct stat st;
    enum fr_rc rc;
    size_t n = strlen(path);
    bool is_file = n > 5 && strcmp(path + n - 5, ".json") == 0;

    *out = (struct tr_model_config){.vocab_size = 0};
    if (snprintf(file, sizeof(file), is_file ? "%s" : "%s/config.json", path) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", path);
    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail(err, FR_NOTFOUND, "model folder %s does not exist", path);
    if ((rc = fr_json_load(file, CONFIG_MAX_BYTES, &root, err)) != FR_OK)
        return rc;
    rc = read_all(&(struct tr_fields){root, file}, out, err);
    json_decref(root);
    return rc;
}
