#include "trainer/config/model_config.h"

#include "engine/base/sys.h"
#include "trainer/config/model_read.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_MAX_BYTES = 4 << 20 };

enum fr_rc tr_read_sizes(const struct tr_fields *f, const struct tr_size_row *rows, size_t n,
                         struct tr_model_config *c, struct fr_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct tr_size_row *row = &rows[i];
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

enum fr_rc tr_read_fixed(const struct tr_fields *f, const struct tr_fixed_row *rows, size_t n,
                         struct fr_err *err)
{
    enum fr_rc rc;

    for (size_t i = 0; i < n; i++) {
        const char *got = rows[i].want;

        if ((rc = tr_field_text(f, rows[i].key, &got, err)) != FR_OK)
            return rc;
        if (strcmp(got, rows[i].want) != 0)
            return fr_fail(err, FR_UNSUPPORTED, "%s: %s is '%s', only '%s' is done", f->where,
                           rows[i].key, got, rows[i].want);
    }
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
    json_array_foreach(
        list, i,
        v) if (json_is_string(v) &&
               has_part(
                   t->name,
                   json_string_value(
                       v))) return fr_fail(err, FR_UNSUPPORTED,
                                           "quantization_config.modules_to_not_convert names '%s', "
                                           "which leaves %s "
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

/* The architectures, by the names that config.json gives. */
static const struct kind {
    const char *type, *architecture;
    enum tr_arch arch;
} kinds[] = {
    {"deepseek_v3", "DeepseekV3ForCausalLM", TR_ARCH_DEEPSEEK},
    {"llama", "LlamaForCausalLM", TR_ARCH_LLAMA},
    {"mistral", "MistralForCausalLM", TR_ARCH_LLAMA},
    {"mixtral", "MixtralForCausalLM", TR_ARCH_LLAMA},
    {"qwen2", "Qwen2ForCausalLM", TR_ARCH_LLAMA},
    {"qwen3", "Qwen3ForCausalLM", TR_ARCH_LLAMA},
    {"qwen3_moe", "Qwen3MoeForCausalLM", TR_ARCH_LLAMA},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* By the architecture where there is one of ours: it says what the code of the reference runs, and
 * stands there for other types of models as well. */
static enum fr_rc read_kind(const struct tr_fields *f, struct tr_model_config *c,
                            struct fr_err *err)
{
    const char *type = "", *arch;
    size_t k = 0;
    enum fr_rc rc = tr_field_text(f, "model_type", &type, err);

    if (rc != FR_OK)
        return rc;
    arch = json_string_value(json_array_get(tr_field(f, "architectures"), 0));
    while (k < KINDS && (arch == NULL || strcmp(arch, kinds[k].architecture) != 0))
        k++;
    for (size_t i = 0; k == KINDS && i < KINDS; i++)
        if (strcmp(type, kinds[i].type) == 0)
            k = i;
    if (k == KINDS)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: model_type '%s', architecture '%s': only deepseek_v3, llama, mistral, "
                       "mixtral, qwen2, qwen3 and qwen3_moe are done",
                       f->where, type, arch != NULL ? arch : "");
    c->arch = kinds[k].arch;
    (void)snprintf(c->model_type, sizeof(c->model_type), "%s", kinds[k].type);
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

    c->rms_norm_eps = 1e-6;
    c->initializer_range = 0.02;
    c->bos_token_id = token_id(tr_field(f, "bos_token_id"));
    c->eos_token_id = token_id(tr_field(f, "eos_token_id"));
    if ((rc = tr_field_f64(f, "rms_norm_eps", &c->rms_norm_eps, err)) != FR_OK ||
        (rc = tr_field_f64(f, "initializer_range", &c->initializer_range, err)) != FR_OK ||
        (rc = tr_field_bool(f, "tie_word_embeddings", &c->tie_word_embeddings, err)) != FR_OK ||
        (rc = tr_field_text(f, "torch_dtype", &dtype, err)) != FR_OK ||
        (rc = tr_field_text(f, "dtype", &dtype, err)) != FR_OK)
        return rc;
    if (!(c->rms_norm_eps > 0))
        return tr_field_bad(f, "rms_norm_eps", "a positive number", err);
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

static enum fr_rc read_all(const struct tr_fields *f, struct tr_model_config *c, struct fr_err *err)
{
    enum fr_rc rc;

    if (!json_is_object(f->object))
        return fr_fail(err, FR_USAGE, "%s is not a JSON object", f->where);
    if ((rc = read_kind(f, c, err)) != FR_OK)
        return rc;
    rc = c->arch == TR_ARCH_LLAMA ? tr_read_llama(f, c, err) : tr_read_deepseek(f, c, err);
    if (rc != FR_OK || (rc = read_rest(f, c, err)) != FR_OK)
        return rc;
    return read_quant(f, c, err);
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
        return fr_fail(err, FR_NOTFOUND,
                       "model folder %s does not exist: nothing is downloaded, give a folder with "
                       "config.json, safetensors and tokenizer.json",
                       path);
    if ((rc = fr_json_load(file, CONFIG_MAX_BYTES, &root, err)) != FR_OK)
        return rc;
    rc = read_all(&(struct tr_fields){root, file}, out, err);
    json_decref(root);
    return rc;
}
