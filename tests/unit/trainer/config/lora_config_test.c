#include "tests/unit/check.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"

#include "engine/base/file.h"
#include "engine/base/json.h"

#include <math.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-lora-XXXXXX";

static void put(const char *text)
{
    char path[256];
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/adapter_config.json", dir);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

#define HEAD "{\"peft_type\":\"LORA\",\"r\":16,\"lora_alpha\":32,"
#define Q0 "model.layers.0.self_attn.q_a_proj"

static const struct {
    const char *name, *json, *module;
    int64_t r; /* 0: not adapted */
    float scale;
} rows[] = {
    {"list", HEAD "\"target_modules\":[\"q_a_proj\",\"o_proj\"]}", Q0, 16, 2},
    {"not a suffix of a word", HEAD "\"target_modules\":[\"a_proj\"]}", Q0, 0, 0},
    {"two components", HEAD "\"target_modules\":[\"self_attn.q_a_proj\"]}", Q0, 16, 2},
    {"whole name", HEAD "\"target_modules\":[\"" Q0 "\"]}", Q0, 16, 2},
    {"rslora", HEAD "\"use_rslora\":true,\"target_modules\":[\"q_a_proj\"]}", Q0, 16, 8},
    {"regex", HEAD "\"target_modules\":\".*q_a_proj\"}", Q0, 16, 2},
    {"regex is whole", HEAD "\"target_modules\":\"q_a_proj\"}", Q0, 0, 0},
    {"regex classes",
     HEAD "\"target_modules\":\"model\\\\.layers\\\\.\\\\d+\\\\.(?:self_attn|mlp)"
          "\\\\.q_[ab]_proj\"}",
     Q0, 16, 2},
    {"all-linear", HEAD "\"target_modules\":\"ALL-linear\"}", Q0, 16, 2},
    {"all but the head", HEAD "\"target_modules\":\"all-linear\"}", "lm_head", 0, 0},
    {"all but routed experts", HEAD "\"target_modules\":\"all-linear\"}",
     "model.layers.3.mlp.experts.9.up_proj", 0, 0},
    {"all, shared experts too", HEAD "\"target_modules\":\"all-linear\"}",
     "model.layers.3.mlp.shared_experts.up_proj", 16, 2},
    {"exclude", HEAD "\"target_modules\":\"all-linear\",\"exclude_modules\":[\"q_a_proj\"]}", Q0, 0,
     0},
    {"exclude regex",
     HEAD "\"target_modules\":[\"q_a_proj\"],"
          "\"exclude_modules\":\".*layers.0.*\"}",
     Q0, 0, 0},
    {"layer", HEAD "\"target_modules\":[\"q_a_proj\"],\"layers_to_transform\":[1,7]}",
     "model.layers.7.self_attn.q_a_proj", 16, 2},
    {"other layer", HEAD "\"target_modules\":[\"q_a_proj\"],\"layers_to_transform\":7}", Q0, 0, 0},
    {"first number", HEAD "\"target_modules\":[\"up_proj\"],\"layers_to_transform\":3}",
     "model.layers.3.mlp.experts.9.up_proj", 16, 2},
    {"rank", HEAD "\"target_modules\":[\"q_a_proj\"],\"rank_pattern\":{\"q_a_proj\":4}}", Q0, 4, 8},
    {"rank and alpha, first wins",
     HEAD "\"target_modules\":[\"q_a_proj\"],\"rank_pattern\":{\"layers.0.self_attn.*\":8,"
          "\"q_a_proj\":4},\"alpha_pattern\":{\"^" Q0 "\":2}}",
     Q0, 8, 0.25f},
};

static void test_match(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_lora_config c;
        struct tr_lora_hit hit;
        struct fr_err err;
        check_row(rows[i].name);
        put(rows[i].json);
        if (!CHECK_INT(tr_lora_read(dir, &c, &err), FR_OK)) {
            printf("   %s\n", err.msg);
            continue;
        }
        CHECK_INT(tr_lora_match(&c, rows[i].module, &hit, &err), FR_OK);
        CHECK_INT(hit.adapted ? hit.r : 0, rows[i].r);
        CHECK(fabsf(hit.scale - rows[i].scale) < 1e-6f);
        tr_lora_finish(&c);
    }
}

static const struct {
    const char *name, *json, *want;
    enum fr_rc rc;
} refused[] = {
    {"no type", "{}", "peft_type is missing", FR_USAGE},
    {"prefix tuning", "{\"peft_type\":\"PREFIX\"}", "peft_type 'PREFIX'", FR_UNSUPPORTED},
    {"no rank", "{\"peft_type\":\"LORA\"}", "r is missing", FR_USAGE},
    {"no targets", HEAD "\"a\":1}", "target_modules is missing", FR_USAGE},
    {"dora", HEAD "\"target_modules\":[],\"use_dora\":true}", "use_dora", FR_UNSUPPORTED},
    {"bias", HEAD "\"target_modules\":[],\"bias\":\"all\"}", "bias 'all'", FR_UNSUPPORTED},
    {"saved and tied",
     HEAD "\"target_modules\":[],\"modules_to_save\":[\"a\"],\"ensure_weight_tying\":true}",
     "ensure_weight_tying with modules_to_save", FR_UNSUPPORTED},
    {"saved", HEAD "\"target_modules\":[],\"modules_to_save\":\"a\"}",
     "modules_to_save is \"a\", expected a list of names", FR_USAGE},
    {"pissa", HEAD "\"target_modules\":[],\"init_lora_weights\":\"pissa_niter_4\"}",
     "init_lora_weights", FR_UNSUPPORTED},
    {"other lists of layers", HEAD "\"target_modules\":[\"a\"],\"layers_pattern\":\"h\"}",
     "layers_pattern is \"h\", expected layers", FR_USAGE},
    {"numbers", HEAD "\"target_modules\":[1]}", "list of names", FR_USAGE},
};

static void test_refused(void)
{
    struct tr_lora_config c;
    struct tr_lora_hit hit;
    struct fr_err err;

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        check_row(refused[i].name);
        put(refused[i].json);
        CHECK_INT(tr_lora_read(dir, &c, &err), refused[i].rc);
        if (!CHECK(strstr(err.msg, refused[i].want) != NULL))
            printf("   message: %s\n", err.msg);
    }
    check_row("bad regex");
    put(HEAD "\"target_modules\":\"a(b\"}");
    CHECK_INT(tr_lora_read(dir, &c, &err), FR_OK);
    CHECK_INT(tr_lora_match(&c, "x", &hit, &err), FR_USAGE);
    CHECK(strstr(err.msg, "regular expression 'a(b'") != NULL);
    tr_lora_finish(&c);
}

static void test_round_trip(void)
{
    const char *want = "{\n  \"alpha_pattern\": {},\n  \"auto_mapping\": null,\n"
                       "  \"base_model_name_or_path\": \"m\",\n  \"bias\": \"none\",\n"
                       "  \"fan_in_fan_out\": false,\n  \"inference_mode\": true,\n"
                       "  \"init_lora_weights\": true,\n  \"layer_replication\": null,\n"
                       "  \"layers_pattern\": null,\n  \"layers_to_transform\": null,\n"
                       "  \"loftq_config\": {},\n  \"lora_alpha\": 32,\n  \"lora_dropout\": 0.0,\n"
                       "  \"megatron_config\": null,\n  \"megatron_core\": \"megatron.core\",\n"
                       "  \"modules_to_save\": null,\n  \"peft_type\": \"LORA\",\n  \"r\": 16,\n"
                       "  \"rank_pattern\": {},\n  \"revision\": null,\n  \"target_modules\": [\n"
                       "    \"q_a_proj\",\n    \"o_proj\"\n  ],\n  \"task_type\": \"CAUSAL_LM\",\n"
                       "  \"use_dora\": false,\n  \"use_rslora\": false\n}\n";
    struct tr_args a;
    struct tr_lora_config c, back;
    struct fr_buf got = {0};
    struct fr_err err;
    char path[256];

    check_row("round trip");
    tr_args_init(&a);
    a.model_name_or_path = "m";
    a.lora_target = " q_a_proj, o_proj ,";
    a.lora_rank = 16;
    a.lora_alpha = 32;
    CHECK_INT(tr_lora_from_args(&a, &c, &err), FR_OK);
    CHECK_INT(tr_lora_write(dir, &c, &err), FR_OK);
    (void)snprintf(path, sizeof(path), "%s/adapter_config.json", dir);
    CHECK_INT(fr_file_read(path, 100000, &got, &err), FR_OK);
    CHECK_TEXT(got.p, want);
    CHECK_INT(tr_lora_read(dir, &back, &err), FR_OK);
    CHECK(back.ntargets == 2 && back.r == 16 && back.alpha == 32);
    fr_buf_finish(&got);
    tr_lora_finish(&back);
    tr_lora_finish(&c);
    tr_args_finish(&a);
}

#define EXPERT "model.layers.1.mlp.experts.0.up_proj"

static void test_check(void)
{
    static const struct tr_model_config model = {.hidden_size = 64,
                                                 .num_hidden_layers = 2,
                                                 .q_lora_rank = 4,
                                                 .moe_intermediate_size = 36,
                                                 .n_routed_experts = 2,
                                                 .first_k_dense_replace = 1};
    static const struct {
        const char *name, *targets, *want;
        enum fr_rc rc;
        size_t hits;
    } checks[] = {
        {"one", "q_a_proj", "", FR_OK, 2},
        {"all", "all", "3 of 13 adapters are on FFNs (model.layers.0.mlp.gate_proj …)", FR_OK, 13},
        {"an FFN", "mlp.up_proj",
         "has --lora_target q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj\n", FR_OK, 1},
        {"one unused", "q_a_proj,k_proj", "lora_target 'k_proj' matches no module\n", FR_OK, 2},
        {"none", "k_proj",
         "match no module of the model (q_a_proj, q_b_proj, kv_a_proj_with_mqa, kv_b_proj, o_proj, "
         "mlp.gate_proj, mlp.up_proj, mlp.down_proj)",
         FR_USAGE, 0},
        {"router", "mlp.gate", "model.layers.1.mlp.gate is no linear map", FR_USAGE, 0},
        {"head", "lm_head", "lm_head: adapters of the head are not done", FR_UNSUPPORTED, 0},
        {"head, beside another", "q_a_proj,lm_head", "lm_head: adapters of", FR_UNSUPPORTED, 0},
        {"routed experts", "q_a_proj,up_proj",
         "hit 2 linears of routed experts (" EXPERT " …): their adapters have 1600 parameters",
         FR_UNSUPPORTED, 0},
    };

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        struct tr_args a;
        struct tr_lora_config c;
        struct fr_buf notes = {0};
        struct fr_err err = {0};
        size_t hits;
        check_row(checks[i].name);
        tr_args_init(&a);
        a.model_name_or_path = "m";
        a.lora_target = checks[i].targets;
        CHECK_INT(tr_lora_from_args(&a, &c, &err), FR_OK);
        CHECK_INT(tr_lora_check(&c, &model, &hits, &notes, &err), checks[i].rc);
        if (checks[i].rc == FR_OK) {
            CHECK_INT(hits, checks[i].hits);
            CHECK((notes.n > 0) == (checks[i].want[0] != '\0'));
            CHECK(strstr(notes.p != NULL ? notes.p : "", checks[i].want) != NULL);
        } else
            CHECK(strstr(err.msg, checks[i].want) != NULL);
        fr_buf_finish(&notes);
        tr_lora_finish(&c);
        tr_args_finish(&a);
    }
}

/* ---- "all" is what the reference stack adapts ---- */

struct compared {
    const struct tr_lora_config *lora;
    const json_t *modules;
    size_t found;
};

static enum fr_rc compare(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct compared *k = arg;
    struct tr_lora_hit hit;
    char module[TR_NAME_MAX];
    const json_t *name;
    bool wanted = false;
    size_t i;

    if (strstr(t->name, ".weight") == NULL)
        return FR_OK;
    (void)snprintf(module, sizeof(module), "%.*s", (int)strlen(t->name) - 7, t->name);
    json_array_foreach(k->modules, i, name) wanted =
        wanted || strcmp(json_string_value(name), module) == 0;
    CHECK_INT(tr_lora_match(k->lora, module, &hit, err), FR_OK);
    if (!CHECK(hit.adapted == wanted))
        printf("   %s: %d\n", module, hit.adapted);
    k->found += hit.adapted;
    return FR_OK;
}

static int64_t size_of(const json_t *change, const json_t *base, const char *key)
{
    const json_t *v = json_object_get(change, key);

    return json_integer_value(v != NULL ? v : json_object_get(base, key)); /* null: 0 */
}

static void test_golden(void)
{
    json_t *root = NULL;
    const json_t *base, *one;
    struct fr_err err;
    size_t i;

    CHECK_INT(fr_json_load(SOURCE_ROOT "/tests/golden/targets.json", 1 << 20, &root, &err), FR_OK);
    base = json_object_get(root, "base");
    CHECK(json_array_size(json_object_get(root, "configs")) > 3);
    json_array_foreach(json_object_get(root, "configs"), i, one)
    {
        const json_t *change = json_object_get(one, "change");
        struct tr_lora_config c = {.r = 2, .alpha = 4, .all_linear = true};
        struct compared k = {&c, json_object_get(one, "modules"), 0};
        struct tr_model_config m = {.vocab_size = 101, .hidden_size = 48, .num_attention_heads = 4};

        check_row(json_string_value(json_object_get(one, "name")));
        m.num_hidden_layers = size_of(change, base, "num_hidden_layers");
        m.q_lora_rank = size_of(change, base, "q_lora_rank");
        m.n_routed_experts = size_of(change, base, "n_routed_experts");
        m.n_shared_experts = size_of(change, base, "n_shared_experts");
        m.first_k_dense_replace = size_of(change, base, "first_k_dense_replace");
        CHECK_INT(tr_model_tensors(&m, compare, &k, &err), FR_OK);
        CHECK_INT(k.found, json_array_size(k.modules));
        k.found = 0;
        CHECK_INT(tr_lora_resolve(&c, &m, &err), FR_OK);
        CHECK(!c.all_linear);
        CHECK_INT(tr_model_tensors(&m, compare, &k, &err), FR_OK);
        CHECK_INT(k.found, json_array_size(k.modules));
        for (size_t t = 0; t < c.ntargets; t++) { /* every name of the list is there */
            bool hit = false;
            size_t j;
            const json_t *name;

            json_array_foreach(k.modules, j, name) hit =
                hit || strstr(json_string_value(name), c.targets[t]) != NULL;
            if (!CHECK(hit))
                printf("   unused: %s\n", c.targets[t]);
        }
        tr_lora_finish(&c);
    }
    json_decref(root);
}

struct sums {
    const struct tr_lora_config *c;
    int64_t params, modules;
};

static enum fr_rc add(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct sums *s = arg;
    struct tr_lora_hit hit;
    char module[TR_NAME_MAX];
    enum fr_rc rc;

    if (t->role != TR_ROLE_LINEAR)
        return FR_OK;
    (void)snprintf(module, sizeof(module), "%.*s", (int)strlen(t->name) - 7, t->name);
    if ((rc = tr_lora_match(s->c, module, &hit, err)) != FR_OK || !hit.adapted)
        return rc;
    s->modules++;
    s->params += hit.r * (t->shape[0] + t->shape[1]);
    return FR_OK;
}

/* The names that PEFT and LLaMA-Factory write for a dense model. */
static void test_dense(void)
{
    static const char *const want[] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                       "gate_proj", "up_proj", "down_proj"};
    struct tr_model_config m = {.arch = TR_ARCH_llama,
                                .hidden_size = 8,
                                .num_hidden_layers = 2,
                                .num_attention_heads = 2,
                                .num_key_value_heads = 1,
                                .head_dim = 4,
                                .intermediate_size = 12,
                                .vocab_size = 16,
                                .first_k_dense_replace = 2};
    struct tr_lora_config c = {.r = 2, .alpha = 4, .all_linear = true};
    struct sums s = {.c = &c};
    struct fr_err err = {0};

    check_row("all of a dense model");
    for (int resolved = 0; resolved < 2; resolved++) {
        s.modules = 0;
        CHECK_INT(tr_model_tensors(&m, add, &s, &err), FR_OK);
        CHECK_INT(s.modules, 14);
        CHECK_INT(tr_lora_resolve(&c, &m, &err), FR_OK);
    }
    CHECK_INT((long long)c.ntargets, 7);
    for (size_t i = 0; i < 7 && i < c.ntargets; i++)
        CHECK_TEXT(c.targets[i], want[i]);
    tr_lora_finish(&c);
}

static void test_seed_count(const char *data)
{
    struct tr_model_config m;
    struct tr_lora_config c;
    struct sums s = {.c = &c};
    struct tr_args a;
    struct fr_err err;
    char path[512];

    check_row("671B, r 16, five projections");
    (void)snprintf(path, sizeof(path), "%s/deepseek-v3", data);
    tr_args_init(&a);
    a.model_name_or_path = "m";
    a.lora_target = "q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj";
    a.lora_rank = 16;
    CHECK_INT(tr_lora_from_args(&a, &c, &err), FR_OK);
    CHECK_INT(tr_model_config_load(path, &m, &err), FR_OK);
    CHECK_INT(tr_model_tensors(&m, add, &s, &err), FR_OK);
    CHECK_INT(s.params, 97006592);
    CHECK_INT(s.modules * 2, 610);
    tr_lora_finish(&c);
    tr_args_finish(&a);
}

int main(void)
{
    struct fr_err err;
    const char *data = getenv("FLOWRUN_DATA");

    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    test_match();
    test_refused();
    test_round_trip();
    test_check();
    test_golden();
    test_dense();
    if (data != NULL)
        test_seed_count(data);
    else
        printf("skipped: the 671B count, FLOWRUN_DATA is not set\n");
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}
