#include "trainer/cli/inspect.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/config/lora_saves.h"
#include "trainer/config/model_config.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PREFIX TR_PEFT_PREFIX

struct check {
    const struct tr_lora_config *lora;
    const struct tr_st *st;
    int64_t modules, whole; /* adapted; tensors of those that are trained whole */
    bool zero;              /* no number of a B matrix differs from 0 */
};

static enum fr_rc check_type(const struct tr_st_tensor *t, struct fr_err *err)
{
    if (t->elements == 0)
        return fr_fail(err, FR_CORRUPT, "tensor '%s' is empty", t->name);
    if (t->type != TR_ST_F32 && t->type != TR_ST_BF16 && t->type != TR_ST_F16)
        return fr_fail(err, FR_DTYPE, "tensor '%s' has type %s", t->name, tr_st_type_name(t->type));
    return FR_OK;
}

/* Tensor `module`.lora_X.weight: there, of this shape, not empty, finite. */
static enum fr_rc check_half(struct check *k, const char *module, char half, const int64_t *shape,
                             struct fr_err *err)
{
    char name[TR_NAME_MAX + 64];
    const struct tr_st_tensor *t;
    bool zero = true;
    enum fr_rc rc;

    (void)snprintf(name, sizeof(name), PREFIX "%s.lora_%c.weight", module, half);
    if ((t = tr_st_find(k->st, name)) == NULL)
        return fr_fail(err, FR_CORRUPT, "tensor '%s' is missing", name);
    if ((rc = check_type(t, err)) != FR_OK)
        return rc;
    if (shape != NULL && (rc = tr_st_want_shape(t, 2, shape, err)) != FR_OK)
        return rc;
    if (t->ndim != 2)
        return fr_fail(err, FR_SHAPE, "tensor '%s' is no matrix", name);
    rc = tr_inspect_finite(k->st, t, &zero, err);
    if (half == 'B' && !zero)
        k->zero = false;
    return rc;
}

/* A tensor that was trained whole; base: its like in the base model, NULL: not known. */
static enum fr_rc check_whole(struct check *k, const char *tensor,
                              const struct tr_model_tensor *base, struct fr_err *err)
{
    char name[TR_NAME_MAX + 64];
    const struct tr_st_tensor *t;
    bool zero = true;
    enum fr_rc rc;

    (void)snprintf(name, sizeof(name), PREFIX "%s", tensor);
    if ((t = tr_st_find(k->st, name)) == NULL)
        return fr_fail(err, FR_CORRUPT, "tensor '%s' is missing", name);
    if ((rc = check_type(t, err)) != FR_OK ||
        (base != NULL && (rc = tr_st_want_shape(t, base->ndim, base->shape, err)) != FR_OK))
        return rc;
    k->whole++;
    return tr_inspect_finite(k->st, t, &zero, err);
}

/* One tensor of the base model: if it is adapted, its two halves. */
static enum fr_rc check_module(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct check *k = arg;
    struct tr_lora_hit hit;
    char module[TR_NAME_MAX];
    enum fr_rc rc;

    if (tr_lora_saves_tensor(k->lora, t->name))
        return check_whole(k, t->name, t, err);
    if ((rc = tr_lora_match_tensor(k->lora, t, module, &hit, err)) != FR_OK || !hit.adapted)
        return rc;
    k->modules++;
    if ((rc = check_half(k, module, 'A', (int64_t[]){hit.r, t->shape[1]}, err)) != FR_OK)
        return rc;
    return check_half(k, module, 'B', (int64_t[]){t->shape[0], hit.r}, err);
}

/* Without the base model: every tensor is a half of a pair that the configuration names. */
static enum fr_rc check_pairs(struct check *k, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < tr_st_count(k->st); i++) {
        const struct tr_st_tensor *t = tr_st_at(k->st, i);
        const char *end = strstr(t->name, ".lora_");
        struct tr_lora_hit hit;
        char module[TR_NAME_MAX];
        if (fr_has_prefix(t->name, PREFIX) &&
            tr_lora_saves_tensor(k->lora, t->name + strlen(PREFIX))) {
            rc = check_whole(k, t->name + strlen(PREFIX), NULL, err);
            continue;
        }
        if (!fr_has_prefix(t->name, PREFIX) || end == NULL ||
            (strcmp(end, ".lora_A.weight") != 0 && strcmp(end, ".lora_B.weight") != 0))
            return fr_fail(err, FR_CORRUPT, "tensor '%s' is no half of an adapter", t->name);
        (void)snprintf(module, sizeof(module), "%.*s", (int)(end - t->name) - (int)strlen(PREFIX),
                       t->name + strlen(PREFIX));
        if ((rc = tr_lora_match(k->lora, module, &hit, err)) != FR_OK)
            return rc;
        if (!hit.adapted)
            return fr_fail(err, FR_CORRUPT, "tensor '%s': the configuration does not name it",
                           t->name);
        if (end[6] != 'A')
            continue; /* its A leads to it; a lone B is counted below */
        k->modules++;
        int64_t in = t->ndim == 2 ? t->shape[1] : 0;
        if ((rc = check_half(k, module, 'A', (int64_t[]){hit.r, in}, err)) == FR_OK)
            rc = check_half(k, module, 'B', NULL, err);
    }
    return rc;
}

/* The folder of the base model's config.json into path; false when there is none here. */
static bool find_base(const char *base, const struct tr_lora_config *lora, char path[PATH_MAX])
{
    char config[PATH_MAX];
    struct stat st;
    const char *from = base != NULL ? base : lora->base_model;

    if (from == NULL || snprintf(path, PATH_MAX, "%s", from) >= PATH_MAX ||
        snprintf(config, sizeof(config), "%.4000s/config.json", from) >= PATH_MAX)
        return false;
    return base != NULL || fr_sys.lstat(config, &st) == 0;
}

static enum fr_rc verify_all(struct check *k, const char *base, struct fr_err *err)
{
    struct tr_model_config c;
    char path[PATH_MAX];
    enum fr_rc rc = tr_lora_refuse_head(k->lora, err);

    if (rc != FR_OK)
        return rc;
    if (find_base(base, k->lora, path)) {
        if ((rc = tr_model_config_load(path, &c, err)) == FR_OK &&
            (rc = tr_lora_settle(k->lora, &c, NULL, err)) == FR_OK)
            rc = tr_model_tensors(&c, check_module, k, err);
    } else
        rc = check_pairs(k, err);
    if (rc == FR_OK && k->modules == 0)
        return fr_fail(err, FR_CORRUPT, "the adapter is empty");
    if (rc == FR_OK && tr_st_count(k->st) != (size_t)(k->modules * 2 + k->whole))
        return fr_fail(err, FR_CORRUPT, "%zu tensors, expected %lld: two a module%s",
                       tr_st_count(k->st), (long long)(k->modules * 2 + k->whole),
                       k->whole > 0 ? ", and those trained whole" : "");
    return rc;
}

static enum fr_rc put_sums(const char *dir, json_t *out, struct fr_err *err)
{
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors"};
    char path[PATH_MAX], sum[FR_SHA256_TEXT];
    json_t *sums = json_object();
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        if ((rc = fr_sha256_file(path, sum, err)) == FR_OK &&
            json_object_set_new(sums, names[i], json_string(sum)) != 0)
            rc = fr_fail(err, FR_NOMEM, "no memory for the checksums");
    }
    if (rc != FR_OK)
        json_decref(sums);
    else if (json_object_set_new(out, "sha256", sums) != 0)
        rc = fr_fail(err, FR_NOMEM, "no memory for the checksums");
    return rc;
}

/* Reports the configuration and the header. */
static enum fr_rc put_facts(const struct tr_lora_config *c, const struct tr_st *st, json_t *out,
                            struct fr_err *err)
{
    json_t *targets = c->target_regex != NULL ? json_string(c->target_regex)
                                              : fr_json_texts(c->targets, c->ntargets);
    int64_t elements = 0, bytes = 0;

    for (size_t i = 0; i < tr_st_count(st); i++) {
        elements += tr_st_at(st, i)->elements;
        bytes += tr_st_at(st, i)->bytes;
    }
    json_t *facts =
        json_pack("{s:s?, s:I, s:f, s:b, s:o, s:I, s:I, s:I}", "base_model", c->base_model, "r",
                  (json_int_t)c->r, "lora_alpha", c->alpha, "use_rslora", (int)c->rslora,
                  "target_modules", targets, "tensors", (json_int_t)tr_st_count(st), "parameters",
                  (json_int_t)elements, "tensor_bytes", (json_int_t)bytes);
    if (c->nsaves > 0) {
        json_t *saves = json_array();

        for (size_t i = 0; i < c->nsaves; i++)
            (void)json_array_append_new(saves, json_string(c->saves[i]));
        (void)json_object_set_new(facts, "modules_to_save", saves);
    }
    int failed = facts == NULL || json_object_update(out, facts) != 0;
    json_decref(facts);
    return failed ? fr_fail(err, FR_NOMEM, "no memory for what is found") : FR_OK;
}

enum fr_rc tr_inspect_adapter(const char *dir, const char *base, bool verify, json_t *out,
                              struct fr_err *err)
{
    struct tr_lora_config lora;
    struct tr_st *st = NULL;
    char path[PATH_MAX];
    enum fr_rc rc = tr_lora_read(dir, &lora, err);

    if (rc != FR_OK)
        return rc;
    (void)snprintf(path, sizeof(path), "%.4000s/adapter_model.safetensors", dir);
    rc = tr_lora_weights(dir, &st, err);
    if (rc == FR_OK)
        rc = put_facts(&lora, st, out, err);
    if (rc == FR_OK && verify) {
        struct check k = {.lora = &lora, .st = st, .zero = true};
        if ((rc = verify_all(&k, base, err)) != FR_OK)
            fr_while(err, "%s", path);
        else if (json_object_set_new(out, "verified", json_integer(k.modules * 2 + k.whole)) != 0 ||
                 json_object_set_new(out, "untrained", json_boolean(k.zero)) != 0)
            rc = fr_fail(err, FR_NOMEM, "no memory for what is found");
        if (rc == FR_OK)
            rc = put_sums(dir, out, err);
    }
    tr_st_close(st);
    tr_lora_finish(&lora);
    return rc;
}
