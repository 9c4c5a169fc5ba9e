#include "trainer/config/lora_config.h"

#include "engine/base/sys.h"
#include "trainer/config/fields.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { CONFIG_MAX_BYTES = 4 << 20 };

/* Keys that change the base model or the formula unless they have a harmless value. */
static enum fr_rc refuse_variants(const struct tr_fields *f, struct fr_err *err)
{
    static const char *const bools[] = {"use_dora", "lora_bias", "use_qalora", "use_bdlora",
                                        "fan_in_fan_out"};
    static const char *const nulls[] = {"target_parameters",
                                        "layer_replication",
                                        "eva_config",
                                        "corda_config",
                                        "lora_ga_config",
                                        "arrow_config",
                                        "velora_config",
                                        "monteclora_config",
                                        "kasa_config",
                                        "trainable_token_indices",
                                        "alora_invocation_tokens"};
    static const char *const inits[] = {"gaussian", "eva", "orthogonal"};
    const char *bias = "none", *type = "";
    const json_t *init = tr_field(f, "init_lora_weights");
    enum fr_rc rc;

    if ((rc = tr_field_need(f, "peft_type", err)) != FR_OK ||
        (rc = tr_field_text(f, "peft_type", &type, err)) != FR_OK ||
        (rc = tr_field_text(f, "bias", &bias, err)) != FR_OK)
        return rc;
    if (strcmp(type, "LORA") != 0)
        return fr_fail(err, FR_UNSUPPORTED, "%s: peft_type '%s', only LORA is done", f->where,
                       type);
    if (strcmp(bias, "none") != 0)
        return fr_fail(err, FR_UNSUPPORTED, "%s: bias '%s' is not done", f->where, bias);
    for (size_t i = 0; i < sizeof(bools) / sizeof(bools[0]); i++)
        if (json_is_true(tr_field(f, bools[i])))
            return fr_fail(err, FR_UNSUPPORTED, "%s: %s is not done", f->where, bools[i]);
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) {
        const json_t *v = tr_field(f, nulls[i]);
        if (v != NULL && !((json_is_object(v) && json_object_size(v) == 0) ||
                           (json_is_array(v) && json_array_size(v) == 0)))
            return fr_fail(err, FR_UNSUPPORTED, "%s: %s is not done", f->where, nulls[i]);
    }
    if (init == NULL || json_is_boolean(init) ||
        (json_is_string(init) &&
         tr_is_among(json_string_value(init), inits, sizeof(inits) / sizeof(inits[0]))))
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "%s: init_lora_weights changes the base weights, which is not done", f->where);
}

static enum fr_rc read_list(struct fr_arena *arena, const struct tr_fields *f, const char *key,
                            const char *const **out, size_t *n, struct fr_err *err)
{
    const json_t *v = tr_field(f, key);
    const char **list = fr_arena_array(arena, json_array_size(v) + 1, sizeof(*list));

    if (list == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", f->where);
    for (*n = 0; *n < json_array_size(v); (*n)++) {
        const char *text = json_string_value(json_array_get(v, *n));
        if (text == NULL)
            return tr_field_bad(f, key, "a list of names", err);
        if ((list[*n] = fr_arena_dup(arena, text)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for %s", f->where);
    }
    *out = list;
    return FR_OK;
}

/* target_modules or exclude_modules: a list of names, or one regular expression. */
static enum fr_rc read_modules(struct tr_lora_config *c, const struct tr_fields *f, const char *key,
                               bool exclude, struct fr_err *err)
{
    const json_t *v = tr_field(f, key);
    const char **regex = exclude ? &c->exclude_regex : &c->target_regex;

    if (v == NULL)
        return FR_OK;
    if (json_is_string(v)) {
        if (!exclude && strcasecmp(json_string_value(v), "all-linear") == 0)
            c->all_linear = true;
        else if ((*regex = fr_arena_dup(&c->arena, json_string_value(v))) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for %s", f->where);
        return FR_OK;
    }
    if (!json_is_array(v))
        return tr_field_bad(f, key, "a list of names or a regular expression", err);
    return read_list(&c->arena, f, key, exclude ? &c->excludes : &c->targets,
                     exclude ? &c->nexcludes : &c->ntargets, err);
}

static enum fr_rc read_patterns(struct tr_lora_config *c, const struct tr_fields *f,
                                const char *key, const struct tr_lora_pattern **out, size_t *n,
                                struct fr_err *err)
{
    const json_t *v = tr_field(f, key);
    struct tr_lora_pattern *list;
    const char *name;
    json_t *x;

    if (v == NULL)
        return FR_OK;
    if (!json_is_object(v))
        return tr_field_bad(f, key, "an object", err);
    list = fr_arena_array(&c->arena, json_object_size(v) + 1, sizeof(*list));
    json_object_foreach((json_t *)v, name, x)
    {
        if (!json_is_number(x) || !(json_number_value(x) > 0))
            return tr_field_bad(f, key, "positive numbers", err);
        if (list == NULL || (list[*n].key = fr_arena_dup(&c->arena, name)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for %s", f->where);
        list[(*n)++].value = json_number_value(x);
    }
    *out = list;
    return FR_OK;
}

/* PEFT's ensure_weight_tying would make one tensor of a trained head and embedding. */
static enum fr_rc read_saves(struct tr_lora_config *c, const struct tr_fields *f,
                             struct fr_err *err)
{
    const char *key = "modules_to_save";
    const json_t *v = tr_field(f, key);

    if (v == NULL)
        return FR_OK;
    if (!json_is_array(v))
        return tr_field_bad(f, key, "a list of names", err);
    if (json_array_size(v) > 0 && json_is_true(tr_field(f, "ensure_weight_tying")))
        return fr_fail(err, FR_UNSUPPORTED, "%s: ensure_weight_tying with %s is not done", f->where,
                       key);
    return read_list(&c->arena, f, key, &c->saves, &c->nsaves, err);
}

/* layers_pattern names the list that layers_to_transform indexes; every model here calls it layers.
 */
static enum fr_rc check_pattern(const struct tr_fields *f, struct fr_err *err)
{
    const json_t *v = tr_field(f, "layers_pattern");
    const json_t *one = json_array_size(v) == 1 ? json_array_get(v, 0) : v;

    if (v == NULL || (json_is_array(v) && json_array_size(v) == 0) ||
        (json_is_string(one) &&
         (json_string_length(one) == 0 || strcmp(json_string_value(one), "layers") == 0)))
        return FR_OK;
    return tr_field_bad(f, "layers_pattern", "layers, as the models' lists of layers are called",
                        err);
}

static enum fr_rc read_layers(struct tr_lora_config *c, const struct tr_fields *f,
                              struct fr_err *err)
{
    const json_t *v = tr_field(f, "layers_to_transform");
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    int64_t *list = fr_arena_array(&c->arena, n + 1, sizeof(*list));

    if (v == NULL)
        return FR_OK;
    if (list == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", f->where);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(x))
            return tr_field_bad(f, "layers_to_transform", "layer numbers", err);
        list[i] = json_integer_value(x);
    }
    c->layers = list;
    c->nlayers = n;
    return FR_OK;
}

static enum fr_rc read_all(struct tr_lora_config *c, const struct tr_fields *f, struct fr_err *err)
{
    const char *base = NULL;
    enum fr_rc rc;

    if (!json_is_object(f->object))
        return fr_fail(err, FR_USAGE, "%s is not a JSON object", f->where);
    if ((rc = refuse_variants(f, err)) != FR_OK || (rc = tr_field_need(f, "r", err)) != FR_OK ||
        (rc = tr_field_i64(f, "r", &c->r, err)) != FR_OK ||
        (rc = tr_field_need(f, "lora_alpha", err)) != FR_OK ||
        (rc = tr_field_f64(f, "lora_alpha", &c->alpha, err)) != FR_OK ||
        (rc = tr_field_f64(f, "lora_dropout", &c->dropout, err)) != FR_OK ||
        (rc = tr_field_bool(f, "use_rslora", &c->rslora, err)) != FR_OK ||
        (rc = tr_field_need(f, "target_modules", err)) != FR_OK ||
        (rc = read_modules(c, f, "target_modules", false, err)) != FR_OK ||
        (rc = read_modules(c, f, "exclude_modules", true, err)) != FR_OK ||
        (rc = read_saves(c, f, err)) != FR_OK || (rc = check_pattern(f, err)) != FR_OK ||
        (rc = read_layers(c, f, err)) != FR_OK ||
        (rc = read_patterns(c, f, "rank_pattern", &c->rank_pattern, &c->nrank, err)) != FR_OK ||
        (rc = read_patterns(c, f, "alpha_pattern", &c->alpha_pattern, &c->nalpha, err)) != FR_OK ||
        (rc = tr_field_text(f, "base_model_name_or_path", &base, err)) != FR_OK)
        return rc;
    if (c->r < 1)
        return tr_field_bad(f, "r", "at least 1", err);
    if (base != NULL && (c->base_model = fr_arena_dup(&c->arena, base)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", f->where);
    return FR_OK;
}

enum fr_rc tr_lora_read(const char *dir, struct tr_lora_config *out, struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *root = NULL;
    enum fr_rc rc;

    *out = (struct tr_lora_config){.r = 0};
    if (snprintf(path, sizeof(path), "%s/adapter_config.json", dir) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    rc = fr_json_load(path, CONFIG_MAX_BYTES, &root, err);
    if (rc == FR_NOTFOUND && strchr(dir, ',') != NULL)
        return fr_fail(err, FR_UNSUPPORTED,
                       "--adapter_name_or_path %s: one adapter is taken: merge the first into the "
                       "model, then the next into what comes out",
                       dir);
    if (rc != FR_OK)
        return rc;
    rc = read_all(out, &(struct tr_fields){root, path}, err);
    json_decref(root);
    if (rc == FR_OK && (out->dir = fr_arena_dup(&out->arena, dir)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %s", path);
    if (rc != FR_OK)
        tr_lora_finish(out);
    return rc;
}

enum fr_rc tr_lora_weights(const char *dir, struct tr_st **out, struct fr_err *err)
{
    char path[PATH_MAX], pickled[PATH_MAX];
    struct stat st;

    *out = NULL;
    if (snprintf(path, sizeof(path), "%s/adapter_model.safetensors", dir) >= PATH_MAX ||
        snprintf(pickled, sizeof(pickled), "%s/adapter_model.bin", dir) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    if (fr_sys.lstat(path, &st) == 0 || fr_sys.lstat(pickled, &st) != 0)
        return tr_st_open(path, out, err);
    return fr_fail(err, FR_NOTFOUND,
                   "%s is not read: pickled weights may run code. Convert them once: python3 -c "
                   "\"import torch, safetensors.torch as s; "
                   "s.save_file(torch.load('adapter_model.bin', weights_only=True), "
                   "'adapter_model.safetensors', {'format': 'pt'})\"",
                   pickled);
}

/* A number as PEFT writes it: an integer where it is one. */
static json_t *number(double x)
{
    return x == (double)(int64_t)x ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *patterns(const struct tr_lora_pattern *p, size_t n)
{
    json_t *o = json_object();

    for (size_t i = 0; i < n; i++)
        (void)json_object_set_new(o, p[i].key, number(p[i].value));
    return o;
}

static json_t *targets(const struct tr_lora_config *c)
{
    if (c->target_regex != NULL)
        return json_string(c->target_regex);
    return c->all_linear ? json_string("all-linear") : fr_json_texts(c->targets, c->ntargets);
}

static json_t *layers(const struct tr_lora_config *c)
{
    json_t *a;

    if (c->nlayers == 0)
        return json_null();
    a = json_array();
    for (size_t i = 0; i < c->nlayers; i++)
        (void)json_array_append_new(a, json_integer(c->layers[i]));
    return a;
}

enum fr_rc tr_lora_write(const char *dir, const struct tr_lora_config *c, struct fr_err *err)
{
    char path[PATH_MAX];
    enum fr_rc rc;

    if (snprintf(path, sizeof(path), "%s/adapter_config.json", dir) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    json_t *root = json_pack(
        "{s:s, s:s, s:s?, s:n, s:b, s:n, s:I, s:o, s:o, s:o, s:s, s:b, s:b, s:o, s:b, s:o, s:n,"
        " s:o, s:o, s:n, s:s, s:{}, s:b, s:n}",
        "peft_type", "LORA", "task_type", "CAUSAL_LM", "base_model_name_or_path", c->base_model,
        "revision", "inference_mode", 1, "auto_mapping", "r", (json_int_t)c->r, "lora_alpha",
        number(c->alpha), "lora_dropout", json_real(c->dropout), "target_modules", targets(c),
        "bias", "none", "fan_in_fan_out", 0, "use_rslora", (int)c->rslora, "modules_to_save",
        c->nsaves > 0 ? fr_json_texts(c->saves, c->nsaves) : json_null(), "init_lora_weights", 1,
        "layers_to_transform", layers(c), "layers_pattern", "rank_pattern",
        patterns(c->rank_pattern, c->nrank), "alpha_pattern", patterns(c->alpha_pattern, c->nalpha),
        "megatron_config", "megatron_core", "megatron.core", "loftq_config", "use_dora", 0,
        "layer_replication");
    if (root == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", path);
    rc = FR_OK;
    if (c->exclude_regex != NULL || c->nexcludes > 0) {
        json_t *x = c->exclude_regex != NULL ? json_string(c->exclude_regex)
                                             : fr_json_texts(c->excludes, c->nexcludes);
        if (json_object_set_new(root, "exclude_modules", x) != 0)
            rc = fr_fail(err, FR_NOMEM, "no memory for %s", path);
    }
    if (rc == FR_OK)
        rc = fr_json_save(root, path, JSON_INDENT(2) | JSON_SORT_KEYS, 0644, err);
    json_decref(root);
    return rc;
}
