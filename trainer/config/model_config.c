#include "trainer/config/model_config.h"

#include "engine/base/sys.h"
#include "trainer/config/model_read.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_MAX_BYTES = 4 << 20 };

enum fr_rc tr_read_fixed(const struct tr_fields *f, const struct tr_fixed_row *rows, size_t n,
                         struct fr_err *err)
{
    enum fr_rc rc;

    for (size_t i = 0; i < n; i++) {
        const char *got = rows[i].want;

        if (json_is_null(json_object_get(f->object, rows[i].key)))
            return tr_field_bad(f, rows[i].key, rows[i].want, err);
        if ((rc = tr_field_text(f, rows[i].key, &got, err)) != FR_OK)
            return rc;
        if (strcmp(got, rows[i].want) != 0)
            return fr_fail(err, FR_UNSUPPORTED, "%s: %s is '%s', only '%s' is done", f->where,
                           rows[i].key, got, rows[i].want);
    }
    return FR_OK;
}

enum fr_rc tr_read_off(const struct tr_fields *f, const char *key, const char *want,
                       struct fr_err *err)
{
    const json_t *v = json_object_get(f->object, key);

    if (v == NULL || json_is_false(v) || (json_is_number(v) && json_number_value(v) == 0))
        return FR_OK;
    return tr_field_bad(f, key, want, err);
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
    const json_t *list = arg;

    for (size_t i = 0; t->role == TR_ROLE_LINEAR && i < json_array_size(list); i++) {
        const char *part = json_string_value(json_array_get(list, i));

        if (part != NULL && has_part(t->name, part))
            return fr_fail(err, FR_UNSUPPORTED,
                           "quantization_config.modules_to_not_convert names '%s', which leaves %s "
                           "unquantised: FP8 checkpoints have every linear in FP8",
                           part, t->name);
    }
    return FR_OK;
}

/* Scales of activations are computed at run time ("dynamic"); stored scales are another scheme. */
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

#define ROW(name) [TR_ARCH_##name] = tr_arch_##name,
static const struct tr_arch_row *(*const archs[])(void) = {TR_ARCHS(ROW)};
#undef ROW

const struct tr_arch_row *tr_arch_at(size_t i)
{
    return i < sizeof(archs) / sizeof(archs[0]) ? archs[i]() : NULL;
}

const struct tr_arch_row *tr_arch_of(const struct tr_model_config *c)
{
    return tr_arch_at(c->arch);
}

const struct tr_model_type *tr_model_type(size_t i, enum tr_arch *arch)
{
    const struct tr_arch_row *row;

    for (size_t k = 0; (row = tr_arch_at(k)) != NULL; k++) {
        *arch = (enum tr_arch)k;
        if (i < row->n_types)
            return &row->types[i];
        i -= row->n_types;
    }
    return NULL;
}

/* The type with that name, or with that architecture; NULL: none. */
static const struct tr_model_type *find_type(const char *name, bool by_architecture,
                                             enum tr_arch *arch)
{
    const struct tr_model_type *t = NULL;

    for (size_t i = 0; name != NULL && (t = tr_model_type(i, arch)) != NULL; i++)
        if (strcmp(name, by_architecture ? t->architecture : t->type) == 0)
            break;
    return t;
}

/* Returns FR_UNSUPPORTED; the message lists the names of all types. */
static enum fr_rc no_type(const char *where, const char *type, const char *architecture,
                          struct fr_err *err)
{
    const struct tr_model_type *t, *next;
    enum tr_arch arch;
    char names[512] = "";
    size_t n = 0;

    for (size_t i = 0; (t = tr_model_type(i, &arch)) != NULL && n < sizeof(names); i++) {
        next = tr_model_type(i + 1, &arch);
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
                              i == 0         ? ""
                              : next == NULL ? " and "
                                             : ", ",
                              t->type);
    }
    return fr_fail(err, FR_UNSUPPORTED, "%s: model_type '%s', architecture '%s': only %s are done",
                   where, type, architecture != NULL ? architecture : "", names);
}

struct tr_twice *tr_read_twice(const struct tr_model_read *r)
{
    return r->said != NULL ? &r->said->twice : NULL;
}

/* If config.json has layer_types, even null, the reference reads some types as another type. */
static void follow_layer_types(struct tr_model_read *r, const char *type)
{
    const char *other = r->type->with_layer_types;

    if (other == NULL || json_object_get(r->f.object, "layer_types") == NULL)
        return;
    r->type = find_type(other, false, &r->c->arch);
    tr_twice_add(tr_read_twice(r), &(struct tr_twice_row){.what = "the type of the model",
                                                          .from = "layer_types",
                                                          .value = other,
                                                          .over = "model_type",
                                                          .other = type});
}

/* model_type decides, as in the reference. An unknown model_type, such as that of a model with code
 * of its own, falls back to the architecture. */
static enum fr_rc read_type(struct tr_model_read *r, struct fr_err *err)
{
    static const char what[] = "the type of the model";
    const char *type = "", *name;
    const struct tr_model_type *by_name;
    enum tr_arch arch;
    enum fr_rc rc = tr_field_text(&r->f, "model_type", &type, err);

    if (rc != FR_OK)
        return rc;
    name = json_string_value(json_array_get(tr_field(&r->f, "architectures"), 0));
    by_name = find_type(name, true, &arch);
    if ((r->type = find_type(type, false, &r->c->arch)) == NULL) {
        if (by_name == NULL)
            return no_type(r->f.where, type, name, err);
        r->type = by_name;
        r->c->arch = arch;
        tr_twice_add(tr_read_twice(r),
                     &(struct tr_twice_row){what, "architectures", name, "model_type", type});
    } else if (by_name != NULL && by_name != r->type)
        tr_twice_add(tr_read_twice(r),
                     &(struct tr_twice_row){what, "model_type", type, "architectures", name});
    follow_layer_types(r, type);
    (void)snprintf(r->c->model_type, sizeof(r->c->model_type), "%s", r->type->type);
    return FR_OK;
}

/* An id, or the first of a list of ids. */
static int64_t token_id(const json_t *v)
{
    if (json_is_array(v))
        v = json_array_get(v, 0);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

/* Reads dtype, or else its older name torch_dtype. */
static enum fr_rc read_dtype(const struct tr_model_read *r, struct fr_err *err)
{
    static const char *const dtypes[] = {
        [TR_TORCH_BF16] = "bfloat16", [TR_TORCH_F16] = "float16", [TR_TORCH_F32] = "float32"};
    const char *key = tr_field(&r->f, "dtype") != NULL ? "dtype" : "torch_dtype";
    const char *dtype = "bfloat16";
    enum fr_rc rc = tr_field_text(&r->f, key, &dtype, err);

    if (rc != FR_OK)
        return rc;
    tr_twice_add_json(
        tr_read_twice(r),
        (struct tr_twice_row){.what = "dtype", .from = "dtype", .over = "torch_dtype"},
        json_object_get(r->f.object, "dtype"), json_object_get(r->f.object, "torch_dtype"));
    for (int i = TR_TORCH_BF16; i <= TR_TORCH_F32; i++)
        if (strcmp(dtype, dtypes[i]) == 0) {
            r->c->torch_dtype = (enum tr_torch_dtype)i;
            return FR_OK;
        }
    return tr_field_bad(&r->f, key, "bfloat16, float16 or float32", err);
}

/* Keys that make the reference read other files. */
static enum fr_rc refuse_files(const struct tr_fields *f, struct fr_err *err)
{
    if (tr_field(f, "configuration_files") != NULL)
        return tr_field_bad(f, "configuration_files",
                            "none: the reference reads another file instead of this one", err);
    if (tr_field(f, "transformers_weights") != NULL)
        return tr_field_bad(f, "transformers_weights",
                            "none: the reference reads the weights from that file alone; rename "
                            "it to model.safetensors and take the key out",
                            err);
    return FR_OK;
}

static enum fr_rc refuse_unknown(const struct tr_model_read *r, struct fr_err *err)
{
    const struct tr_arch_row *arch = tr_arch_of(r->c);

    return arch->refuse_unknown != NULL ? arch->refuse_unknown(r, err) : FR_OK;
}

static enum fr_rc read_all(struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;
    enum fr_rc rc;

    if (!json_is_object(r->f.object))
        return fr_fail(err, FR_USAGE, "%s is not a JSON object", r->f.where);
    if ((rc = read_type(r, err)) != FR_OK || (rc = refuse_files(&r->f, err)) != FR_OK ||
        (rc = refuse_unknown(r, err)) != FR_OK || (rc = tr_read_keys(r, err)) != FR_OK ||
        (rc = tr_arch_of(c)->read(r, err)) != FR_OK || (rc = read_dtype(r, err)) != FR_OK)
        return rc;
    c->bos_token_id = token_id(tr_field(&r->f, "bos_token_id"));
    c->eos_token_id = token_id(tr_field(&r->f, "eos_token_id"));
    if ((rc = read_quant(&r->f, c, err)) != FR_OK || r->said == NULL)
        return rc;
    return tr_keys_values(r, err);
}

void tr_model_said_finish(struct tr_model_said *said)
{
    tr_twice_finish(&said->twice);
    json_decref(said->values);
    said->values = NULL;
}

static enum fr_rc read_file(const char *file, struct tr_model_config *out,
                            struct tr_model_said *said, struct fr_err *err)
{
    json_t *root = NULL;
    struct tr_model_read r = {.c = out, .said = said};
    enum fr_rc rc = fr_json_load(file, CONFIG_MAX_BYTES, &root, err);

    if (rc != FR_OK)
        return rc;
    if (said != NULL && said->values == NULL && (said->values = json_object()) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for what %s says", file);
    r.f = (struct tr_fields){root, file};
    if (rc == FR_OK)
        rc = read_all(&r, err);
    json_decref(root);
    return rc;
}

enum fr_rc tr_model_config_read(const char *path, struct tr_model_config *out,
                                struct tr_model_said *said, struct fr_err *err)
{
    char file[PATH_MAX];
    struct stat st;
    size_t n = strlen(path);
    bool is_file = n > 5 && strcmp(path + n - 5, ".json") == 0;

    memset(out, 0, sizeof(*out)); /* padding too: the bytes are hashed */
    out->rope.factor = out->rope.beta_slow = 1;
    out->rope.beta_fast = 32;
    out->rope.truncate = true;
    if (snprintf(file, sizeof(file), is_file ? "%s" : "%s/config.json", path) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", path);
    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail(err, FR_NOTFOUND,
                       "model folder %s does not exist: nothing is downloaded, give a folder with "
                       "config.json, safetensors and tokenizer.json",
                       path);
    return read_file(file, out, said, err);
}

enum fr_rc tr_model_config_load(const char *path, struct tr_model_config *out, struct fr_err *err)
{
    return tr_model_config_read(path, out, NULL, err);
}
