/*
 * A config.json as transformers reads it (tests/golden/model_config.py): each key absent, null and
 * changed, and keys that say one thing twice, of every family. What the reference refuses is
 * refused; of what it takes, this program refuses the rows of `stricter` alone, and has the
 * reference's value of every fact of the others. Where two places differ, the report has a row.
 */
#include "tests/unit/check.h"
#include "trainer/config/arch.h"
#include "trainer/model/rope.h"

#include "engine/base/file.h"

#include <math.h>

static char dir[] = "/tmp/flowrun-keys-XXXXXX";
static char path[64];

/* What the reference takes and this program does not. Names and families may end with '*'. */
static const struct {
    const char *family, *name, *want;
} stricter[] = {
    {"*", "vocab_size absent", "vocab_size is missing"},
    {"*", "hidden_size absent", "hidden_size is missing"},
    {"*", "num_hidden_layers absent", "num_hidden_layers is missing"},
    {"*", "num_attention_heads absent", "num_attention_heads is missing"},
    {"*", "intermediate_size absent", "intermediate_size is missing"},
    {"mixtral", "num_local_experts absent", "num_local_experts is missing"},
    {"*", "num_experts* absent", "is missing"},
    {"*", "moe_intermediate_size absent", "moe_intermediate_size is missing"},
    {"deepseek_v3", "n_routed_experts absent", "n_routed_experts is missing"},
    {"deepseek_v3", "kv_lora_rank absent", "kv_lora_rank is missing"},
    {"deepseek_v3", "qk_nope_head_dim absent", "qk_nope_head_dim is missing"},
    {"deepseek_v3", "qk_rope_head_dim absent", "qk_rope_head_dim is missing"},
    {"deepseek_v3", "v_head_dim absent", "v_head_dim is missing"},
    {"deepseek_v3", "first_k_dense_replace absent", "first_k_dense_replace is missing"},
    {"deepseek_v3", "other scores", "scoring_func is 'softmax'"},
    {"deepseek_v3", "other ways of choosing", "topk_method is 'greedy'"},
    {"deepseek_v3", "experts in some layers", "moe_layer_freq is 2"},
    {"deepseek_v3", "another qk_head_dim", "qk_head_dim is 99"},
    {"qwen3_moe", "kinds of FFN", "unknown key mlp_layer_types"},
    {"qwen3_moe", "a dense layer that there is not", "mlp_only_layers is [5]"},
    {"*", "layers by type, of old names", "layer_types is [\"attention"},
    {"*", "parameters by kind of layer", "full_attention is an object"},
    {"*", "another file of weights", "transformers_weights is \"other.safetensors\""},
    {"deepseek_v3", "another epsilon", NULL},
    {"*", "another epsilon", "unknown key layer_norm_eps"},
};

/* What the report has to have of a row, and of no other: all else is said once. */
static const struct {
    const char *family, *name, *what, *from, *over;
} reported[] = {
    {"*", "scaling beside parameters*", "rope parameters", "rope_scaling", "rope_parameters"},
    {"*", "scaling with a theta of its own", "rope parameters", "rope_scaling", "rope_parameters"},
    {"*", "scaling with a theta of its own", "rope_theta", "rope_scaling", "config.json"},
    {"*", "* with a theta beside one at the top", "rope_theta", "rope_*", "config.json"},
    {"*", "scaling * beside parameters", "rope_theta", "rope_parameters", "config.json"},
    {"*", "part of a head, in parameters*", "rope_theta", "rope_parameters", "config.json"},
    {"*", "part of a head, at the top beside parameters", "rope_theta", "rope_parameters",
     "config.json"},
    {"*", "part of a head, at the top", "partial_rotary_factor", NULL, "config.json"},
    {"*", "part of a head, at the top, more than one", "partial_rotary_factor", NULL,
     "config.json"},
    {"*", "part of a head, at the top, a text", "partial_rotary_factor", NULL, "config.json"},
    {"*", "part of a head, at the top beside parameters", "partial_rotary_factor", NULL,
     "config.json"},
    {"*", "part of a head, in parameters", "partial_rotary_factor", NULL, "rope_parameters"},
    {"*", "part of a head, in a scaling", "partial_rotary_factor", NULL, "rope_scaling"},
    {"*", "part of a head, at the top, whole in a yarn", "partial_rotary_factor", "rope_scaling",
     "config.json"},
    {"*", "type beside rope_type", "the type of rope", "rope_type", "type"},
    {"*", "original length at the top, yarn", "original_max_position_embeddings", "config.json",
     "rope_scaling"},
    {"*", "original length at the top, llama3", "original_max_position_embeddings", "config.json",
     "rope_scaling"},
    {"*", "original length at the top, parameters, yarn", "original_max_position_embeddings",
     "config.json", "rope_parameters"},
    {"*", "yarn with attn_factor", "attn_factor", NULL, "rope_scaling"},
    {"*", "an unknown key of a scaling", "long_factor", NULL, "rope_scaling"},
    {"*", "dtype beside torch_dtype", "dtype", "dtype", "torch_dtype"},
    {"*", "another architecture", "the type of the model", "model_type", "architectures"},
    {"mistral", "layers by type*", "the type of the model", "layer_types", "model_type"},
    {"mixtral", "experts by both names*", "num_local_experts", "num_experts", "num_local_experts"},
    {"qwen3_moe", "experts by both names", "num_experts", "num_local_experts", "num_experts"},
    {"deepseek_v3", "experts by both names", "n_routed_experts", "num_local_experts",
     "n_routed_experts"},
};
enum { REPORTED = sizeof(reported) / sizeof(reported[0]) };

static bool fits(const char *pattern, const char *text)
{
    size_t n = strcspn(pattern, "*"), rest = pattern[n] == '*' ? strlen(pattern + n + 1) : 0;
    size_t len = strlen(text);

    return pattern[n] == '\0' ? strcmp(pattern, text) == 0
                              : len >= n + rest && strncmp(pattern, text, n) == 0 &&
                                    strcmp(pattern + n + 1, text + len - rest) == 0;
}

static const char *stricter_than(const char *family, const char *name)
{
    for (size_t i = 0; i < sizeof(stricter) / sizeof(stricter[0]); i++)
        if (fits(stricter[i].family, family) && fits(stricter[i].name, name))
            return stricter[i].want;
    return NULL;
}

static json_t *list_of(const struct tr_model_config *c, bool experts)
{
    json_t *list = json_array();

    for (int64_t l = 0; l < c->num_hidden_layers; l++)
        if (!experts)
            (void)json_array_append_new(list, json_integer(tr_model_window(c, l)));
        else if (tr_model_is_moe(c, l))
            (void)json_array_append_new(list, json_integer(l));
    return list;
}

static json_t *frequencies(const struct tr_model_config *c)
{
    double inv[2048];
    int64_t dr = tr_model_head(c).rotary;
    json_t *list = json_array();

    tr_rope_frequencies(&c->rope, dr, inv);
    for (int64_t i = 0; i < dr / 2; i++)
        (void)json_array_append_new(list, json_real(inv[i]));
    return list;
}

static json_t *rank(int64_t n)
{
    return n > 0 ? json_integer(n) : json_null();
}

/* The facts of the golden file, as this program has them. */
static json_t *facts(const struct tr_model_config *c)
{
    static const char *const dtypes[] = {"bfloat16", "float16", "float32"};
    static const char *const ropes[] = {"default", "linear", "dynamic", "llama3", "yarn"};
    bool moe = tr_model_moe_count(c) > 0, latent = c->arch == TR_ARCH_deepseek;
    json_t *all = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:s, s:f, s:s, s:o, s:f, s:f, s:o, s:o}",
        "vocab_size", (json_int_t)c->vocab_size, "hidden_size", (json_int_t)c->hidden_size,
        "num_hidden_layers", (json_int_t)c->num_hidden_layers, "num_attention_heads",
        (json_int_t)c->num_attention_heads, "intermediate_size", (json_int_t)c->intermediate_size,
        "max_position_embeddings", (json_int_t)c->max_position_embeddings, "rms_norm_eps",
        c->rms_norm_eps, "initializer_range", c->initializer_range, "tie_word_embeddings",
        (int)c->tie_word_embeddings, "dtype", dtypes[c->torch_dtype], "rope_theta", c->rope.theta,
        "rope_type", ropes[c->rope.kind], "frequencies", frequencies(c), "rope_factor",
        tr_rope_attention_factor(&c->rope), "softmax_scale", tr_rope_softmax_scale(c), "windows",
        list_of(c, false), "experts_in", list_of(c, true));
    json_t *more =
        latent ? json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:b}", "q_lora_rank",
                           rank(c->q_lora_rank), "kv_lora_rank", (json_int_t)c->kv_lora_rank,
                           "qk_nope_head_dim", (json_int_t)c->qk_nope_head_dim, "qk_rope_head_dim",
                           (json_int_t)c->qk_rope_head_dim, "v_head_dim", (json_int_t)c->v_head_dim,
                           "n_shared_experts", (json_int_t)c->n_shared_experts, "n_group",
                           (json_int_t)c->n_group, "topk_group", (json_int_t)c->topk_group,
                           "routed_scaling_factor", c->routed_scaling_factor, "rope_interleave",
                           (int)c->rope.interleave, "attention_bias", (int)c->attention_bias)
               : json_pack("{s:I, s:I, s:b, s:b, s:b}", "num_key_value_heads",
                           (json_int_t)c->num_key_value_heads, "head_dim", (json_int_t)c->head_dim,
                           "qkv_bias", (int)c->qkv_bias, "o_bias", (int)c->o_bias, "mlp_bias",
                           (int)c->mlp_bias);

    (void)json_object_update(all, more);
    json_decref(more);
    if (moe) {
        more = json_pack("{s:I, s:I, s:I, s:b}", "experts", (json_int_t)c->n_routed_experts,
                         "num_experts_per_tok", (json_int_t)c->num_experts_per_tok,
                         "moe_intermediate_size", (json_int_t)c->moe_intermediate_size,
                         "norm_topk_prob", (int)c->norm_topk_prob);
        (void)json_object_update(all, more);
        json_decref(more);
    }
    return all;
}

/* Null is absent and, of a switch, off. The reference's frequencies are f32. */
static bool same(const json_t *got, const json_t *want)
{
    bool equal = json_array_size(got) == json_array_size(want);

    if (json_is_null(want))
        return got == NULL || json_is_null(got) || json_is_false(got);
    if (json_is_number(want))
        return json_is_number(got) && fabs(json_number_value(got) - json_number_value(want)) <=
                                          2e-6 * fabs(json_number_value(want));
    if (!json_is_array(want))
        return json_equal((json_t *)got, (json_t *)want);
    for (size_t i = 0; equal && i < json_array_size(want); i++)
        equal = same(json_array_get(got, i), json_array_get(want, i));
    return json_is_array(got) && equal;
}

/* Facts of the reference that this program has no use for. */
static bool unused(const char *key)
{
    return strcmp(key, "bos_token_id") == 0 || strcmp(key, "eos_token_id") == 0 ||
           strcmp(key, "class") == 0;
}

static void compare(const struct tr_model_config *c, const json_t *base, const json_t *want)
{
    json_t *got = facts(c), *all = json_copy((json_t *)base), *v;
    const char *key;

    (void)json_object_update(all, (json_t *)want);
    json_object_foreach(all, key, v)
    {
        const json_t *mine = json_object_get(got, key);
        bool dtype = strcmp(key, "dtype") == 0 && (json_is_null(v) || json_is_string(v));

        if (unused(key) || (dtype && strcmp(json_string_value(v), "None") == 0))
            continue;
        if (strcmp(key, "norm_topk_prob") == 0 && mine == NULL)
            continue;
        if (!CHECK(same(mine, v))) {
            char *a = json_dumps(mine, JSON_ENCODE_ANY), *b = json_dumps(v, JSON_ENCODE_ANY);
            printf("   %s is %s, want %s\n", key, a != NULL ? a : "absent", b);
            free(a);
            free(b);
        }
    }
    json_decref(all);
    json_decref(got);
}

static json_t *content(const json_t *golden, const json_t *row)
{
    const char *arch = json_string_value(json_object_get(row, "arch"));
    json_t *c = json_copy(json_object_get(json_object_get(golden, "bases"), arch)), *v;
    size_t i;

    json_array_foreach(json_object_get(row, "without"), i, v)(void)
        json_object_del(c, json_string_value(v));
    (void)json_object_update(c, json_object_get(row, "with"));
    return c;
}

static bool is_there(const struct tr_twice *t, size_t k)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct tr_twice_row *r = &t->rows[i];
        bool from = reported[k].from == NULL ? r->from == NULL
                                             : r->from != NULL && fits(reported[k].from, r->from);

        if (from && strcmp(r->what, reported[k].what) == 0 &&
            strcmp(r->over, reported[k].over) == 0)
            return true;
    }
    return false;
}

static void check_report(const char *family, const char *name, const struct tr_twice *t)
{
    struct fr_buf lines = {0};
    size_t want = 0;
    bool all = true;

    for (size_t k = 0; k < REPORTED; k++)
        if (fits(reported[k].family, family) && fits(reported[k].name, name)) {
            want++;
            all = all && is_there(t, k);
        }
    tr_twice_notes(t, &lines);
    if (!CHECK(all && t->n == want))
        printf("   %s\n", lines.p != NULL ? lines.p : "nothing is said");
    fr_buf_finish(&lines);
}

static void try_row(const json_t *row, json_t *config, const json_t *base)
{
    const char *family = json_string_value(json_object_get(row, "arch"));
    const char *name = json_string_value(json_object_get(row, "name")), *more;
    struct tr_model_said said = {.values = NULL};
    struct tr_model_config c;
    struct fr_err err = {0};
    char title[160];
    enum fr_rc rc;

    (void)snprintf(title, sizeof(title), "%s: %s", family, name);
    check_row(title);
    CHECK_INT(json_dump_file(config, path, 0), 0);
    rc = tr_model_config_read(path, &c, &said, &err);
    if (json_object_get(row, "refused") != NULL) {
        if (!CHECK(rc != FR_OK))
            printf("   the reference says: %s\n",
                   json_string_value(json_object_get(row, "refused")));
    } else if ((more = stricter_than(family, name)) != NULL) {
        if (!CHECK(rc != FR_OK && strstr(err.msg, more) != NULL))
            printf("   %s\n", err.msg);
    } else if (CHECK_INT(rc, FR_OK)) {
        compare(&c, base, json_object_get(row, "want"));
        check_report(family, name, &said.twice);
    } else
        printf("   %s\n", err.msg);
    tr_model_said_finish(&said);
}

/* Each type has its rows here, is read as itself, and no default of it is of a key that the table
 * of keys lacks. */
static void check_types(const json_t *bases)
{
    const struct tr_model_type *t;
    enum tr_arch arch;
    size_t n = 0;

    for (; (t = tr_model_type(n, &arch)) != NULL; n++) {
        const json_t *base = json_object_get(bases, t->type);
        struct tr_model_said said = {.values = NULL};
        struct tr_model_config c;
        struct fr_err err = {0};

        check_row(t->type);
        if (!CHECK(base != NULL))
            continue;
        CHECK_INT(json_dump_file(base, path, 0), 0);
        CHECK_INT(tr_model_config_read(path, &c, &said, &err), FR_OK);
        CHECK(c.arch == arch && strcmp(c.model_type, t->type) == 0);
        for (size_t i = 0; i < t->n_defaults; i++)
            if (!CHECK(json_object_get(said.values, t->defaults[i].key) != NULL))
                printf("   %s\n", t->defaults[i].key);
        tr_model_said_finish(&said);
    }
    CHECK_INT((long long)n, (long long)json_object_size(bases));
}

int main(void)
{
    json_error_t e;
    json_t *golden = json_load_file(SOURCE_ROOT "/tests/golden/model_config.json", 0, &e);
    const json_t *base = NULL, *row;
    struct fr_err err;
    size_t i;

    if (!CHECK(golden != NULL) || mkdtemp(dir) == NULL)
        return check_done();
    (void)snprintf(path, sizeof(path), "%s/config.json", dir);
    check_types(json_object_get(golden, "bases"));
    json_array_foreach(json_object_get(golden, "rows"), i, row)
    {
        json_t *config = content(golden, row);

        if (strcmp(json_string_value(json_object_get(row, "name")), "as it stands") == 0)
            base = json_object_get(row, "want");
        try_row(row, config, base);
        json_decref(config);
    }
    json_decref(golden);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}
