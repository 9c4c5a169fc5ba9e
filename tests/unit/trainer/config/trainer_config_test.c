#include "tests/unit/check.h"
#include "trainer/config/args.h"
#include "trainer/config/model_config.h"

#include "engine/base/file.h"

#include <math.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-cfg-XXXXXX";
static char path[256];

static void put(const char *name, const char *text)
{
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

/* ---- model config ---- */

#define TINY                                                                                       \
    "\"model_type\":\"deepseek_v3\",\"vocab_size\":512,\"hidden_size\":64,"                        \
    "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"kv_lora_rank\":32,"                       \
    "\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":16,"                            \
    "\"intermediate_size\":128,\"moe_intermediate_size\":32,\"n_routed_experts\":8,"               \
    "\"first_k_dense_replace\":1,\"n_shared_experts\":0"
#define ONE ",\"n_group\":1,\"topk_group\":1"

#define FP8 "\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]"

static const struct {
    const char *name, *json, *want; /* NULL: accepted */
    enum fr_rc rc;
} models[] = {
    {"tiny", "{" TINY ONE ",\"num_experts_per_tok\":2}", NULL, FR_OK},
    {"null rank", "{" TINY ONE ",\"num_experts_per_tok\":2,\"q_lora_rank\":null}", NULL, FR_OK},
    {"by architecture",
     "{\"architectures\":[\"DeepseekV3ForCausalLM\"]," TINY ONE
     ",\"num_experts_per_tok\":2,\"model_type\":\"kimi_k2\"}",
     "uplicate", FR_USAGE},
    {"no K", "{" TINY ONE "}", "num_experts_per_tok is missing", FR_USAGE},
    {"K text", "{" TINY ONE ",\"num_experts_per_tok\":\"2\"}", "num_experts_per_tok is \"2\"",
     FR_USAGE},
    {"K zero", "{" TINY ONE ",\"num_experts_per_tok\":0}", "num_experts_per_tok is 0", FR_USAGE},
    {"groups", "{" TINY ",\"num_experts_per_tok\":2,\"n_group\":3}", "n_group is 3", FR_USAGE},
    {"groups of one", "{" TINY ",\"num_experts_per_tok\":2,\"n_group\":8,\"topk_group\":4}",
     "groups of at least 2", FR_USAGE},
    {"K above the groups", "{" TINY ",\"num_experts_per_tok\":3,\"n_group\":4,\"topk_group\":1}",
     "num_experts_per_tok is 3", FR_USAGE},
    {"softmax", "{" TINY ONE ",\"num_experts_per_tok\":2,\"scoring_func\":\"softmax\"}",
     "scoring_func is 'softmax'", FR_UNSUPPORTED},
    {"linear rope",
     "{" TINY ONE ",\"num_experts_per_tok\":2,\"rope_scaling\":{\"type\":\"linear\"}}",
     "rope type 'linear'", FR_UNSUPPORTED},
    {"odd rope", "{" TINY ONE ",\"num_experts_per_tok\":2,\"num_key_value_heads\":2}",
     "num_key_value_heads is 2", FR_USAGE},
    {"a slip", "{\"model_type\":\"llama\",\"num_hiden_layers\":2}",
     "unknown key num_hiden_layers: did you mean num_hidden_layers?", FR_USAGE},
    {"a key of another model", "{\"model_type\":\"llama\",\"logit_softcap\":30}",
     "unknown key logit_softcap: no llama model that this program knows has it", FR_UNSUPPORTED},
    {"gemma", "{\"model_type\":\"gemma\"}", "only deepseek_v3, llama", FR_UNSUPPORTED},
    {"int4",
     "{" TINY ONE ",\"num_experts_per_tok\":2,\"quantization_config\":{\"quant_method\":"
     "\"awq\"}}",
     "quantization 'awq'", FR_UNSUPPORTED},
    {"fp8", "{" TINY ONE ",\"num_experts_per_tok\":2," FP8 "}}", NULL, FR_OK},
    {"fp8, the head is none",
     "{" TINY ONE ",\"num_experts_per_tok\":2," FP8
     ",\"modules_to_not_convert\":[\"lm_head\",\"mlp.gate\"]}}",
     NULL, FR_OK},
    {"fp8, a linear is none",
     "{" TINY ONE ",\"num_experts_per_tok\":2," FP8 ",\"modules_to_not_convert\":[\"o_proj\"]}}",
     "names 'o_proj', which leaves model.layers.0.", FR_UNSUPPORTED},
    {"fp8, stored scales",
     "{" TINY ONE ",\"num_experts_per_tok\":2," FP8 ",\"activation_scheme\":\"static\"}}",
     "activation_scheme 'static'", FR_UNSUPPORTED},
    {"fp8, a scale a tensor",
     "{" TINY ONE ",\"num_experts_per_tok\":2,\"quantization_config\":"
     "{\"quant_method\":\"fp8\",\"weight_block_size\":null}}",
     "weight_block_size", FR_USAGE},
    {"list", "[]", "not a JSON object", FR_USAGE},
};

struct tally {
    int64_t elements, tensors;
};

static enum fr_rc tally(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct tally *sum = arg;

    (void)err;
    sum->tensors++;
    sum->elements += t->shape[0] * (t->ndim == 2 ? t->shape[1] : 1);
    return FR_OK;
}

static void test_models(void)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct tr_model_config c;
        struct fr_err err = {0};
        check_row(models[i].name);
        put("config.json", models[i].json);
        CHECK_INT(tr_model_config_load(path, &c, &err), models[i].rc);
        if (models[i].want != NULL && !CHECK(strstr(err.msg, models[i].want) != NULL))
            printf("   message: %s\n", err.msg);
    }
}

#define LLAMA(type)                                                                                \
    "{\"model_type\":\"" type "\",\"vocab_size\":67,\"hidden_size\":36,"                           \
    "\"num_hidden_layers\":2,\"num_attention_heads\":6,\"intermediate_size\":45,"                  \
    "\"max_position_embeddings\":128,"
#define KV "\"num_key_value_heads\":3"

struct names {
    const char *want;
    enum tr_linear_kind kind;
    bool found;
};

static enum fr_rc find_name(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct names *n = arg;

    (void)err;
    if (strcmp(t->name, n->want) == 0) {
        n->found = true;
        n->kind = t->kind;
    }
    return FR_OK;
}

struct wrong {
    const char *name, *json, *want; /* NULL: accepted */
    enum fr_rc rc;
};

static const struct wrong dense[] = {
    {"llama", LLAMA("llama") "\"head_dim\":null}", NULL, FR_OK},
    {"by architecture", LLAMA("other") KV ",\"architectures\":[\"Qwen2ForCausalLM\"]}", NULL,
     FR_OK},
    {"keys without effect", LLAMA("llama") "\"use_cache\":true,\"pretraining_tp\":2}", NULL, FR_OK},
    {"an unknown key", LLAMA("llama") "\"attn_logit_softcapping\":30}",
     "unknown key attn_logit_softcapping: no llama model", FR_UNSUPPORTED},
    {"an unknown key, null", LLAMA("llama") "\"attn_logit_softcapping\":null}", NULL, FR_OK},
    {"an unknown key of rope",
     LLAMA("llama") "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"long_factor\":[1]}}",
     NULL, FR_OK},
    {"no heads of keys", LLAMA("mistral") "\"head_dim\":8}",
     "num_key_value_heads is absent, so 8 as by default, expected a divisor of num_attention_heads",
     FR_USAGE},
    {"odd heads", LLAMA("llama") "\"head_dim\":7}", "head_dim is 7, expected heads of an even size",
     FR_USAGE},
    {"heads that do not divide", LLAMA("llama") "\"num_key_value_heads\":4}",
     "num_key_value_heads is 4, expected a divisor", FR_USAGE},
    {"gelu", LLAMA("llama") "\"hidden_act\":\"gelu\"}", "hidden_act is 'gelu'", FR_UNSUPPORTED},
    {"dropout", LLAMA("llama") "\"attention_dropout\":0.1}", "attention_dropout is 0.1", FR_USAGE},
    {"bias of a mistral", LLAMA("mistral") KV ",\"sliding_window\":null,\"attention_bias\":true}",
     "attention_bias is true, expected false", FR_USAGE},
    {"a window", LLAMA("mistral") KV ",\"sliding_window\":16}", NULL, FR_OK},
    {"no window", LLAMA("mistral") KV ",\"sliding_window\":0}",
     "sliding_window is 0, expected 1 to", FR_USAGE},
    {"a layer of another kind",
     LLAMA("qwen3") KV ",\"layer_types\":[\"full_attention\",\"chunked_attention\"]}",
     "expected full_attention and sliding_attention", FR_USAGE},
    {"too few layers", LLAMA("qwen3") KV ",\"layer_types\":[\"full_attention\"]}",
     "expected a type for each layer", FR_USAGE},
    {"a layer with a window that is off",
     LLAMA("qwen3") KV ",\"sliding_window\":16,\"layer_types\":[\"full_attention\","
                       "\"sliding_attention\"]}",
     "expected full_attention: use_sliding_window is off", FR_USAGE},
    {"longrope",
     LLAMA("llama") "\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1],"
                    "\"short_factor\":[1]}}",
     "rope type 'longrope', only default, linear, dynamic, llama3, yarn are done", FR_UNSUPPORTED},
    {"no factor", LLAMA("llama") "\"rope_scaling\":{\"type\":\"linear\"}}", "factor is missing",
     FR_USAGE},
    {"llama3 without a part",
     LLAMA("llama") "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}}",
     "low_freq_factor is missing", FR_USAGE},
    {"a part of a head",
     LLAMA("llama") "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"
                    "\"partial_rotary_factor\":0.5}",
     "partial_rotary_factor is 0.5", FR_USAGE},
};

#define MIXTRAL KV ",\"num_local_experts\":8,\"num_experts_per_tok\":2"
#define QWEN KV ",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":16"

static const struct wrong experts[] = {
    {"mixtral", LLAMA("mixtral") MIXTRAL ",\"sliding_window\":null,\"router_aux_loss_coef\":0.02}",
     NULL, FR_OK},
    {"another name", LLAMA("mixtral") KV ",\"num_experts\":8,\"num_experts_per_tok\":2}", NULL,
     FR_OK},
    {"qwen", LLAMA("qwen3_moe") QWEN ",\"mlp_only_layers\":[],\"decoder_sparse_step\":1}", NULL,
     FR_OK},
    {"no experts", LLAMA("mixtral") KV ",\"num_experts_per_tok\":2}",
     "num_local_experts is missing", FR_USAGE},
    {"of a dense model", LLAMA("qwen3") QWEN "}", "unknown key", FR_UNSUPPORTED},
    {"more than there are",
     LLAMA("mixtral") KV ",\"num_local_experts\":2,\"num_experts_per_tok\":3}",
     "num_experts_per_tok is 3, expected at most the number of experts", FR_USAGE},
    {"noise", LLAMA("mixtral") MIXTRAL ",\"router_jitter_noise\":0.5}",
     "router_jitter_noise is 0.5, expected 0", FR_USAGE},
    {"a loss more", LLAMA("qwen3_moe") QWEN ",\"output_router_logits\":true}",
     "output_router_logits is true, expected false", FR_USAGE},
    {"no width", LLAMA("qwen3_moe") MIXTRAL "}", "moe_intermediate_size is missing", FR_USAGE},
    {"a step of none", LLAMA("qwen3_moe") QWEN ",\"decoder_sparse_step\":0}",
     "decoder_sparse_step is 0, expected 1 to", FR_USAGE},
    {"a layer beyond", LLAMA("qwen3_moe") QWEN ",\"mlp_only_layers\":[2]}",
     "mlp_only_layers is [2], expected layers below", FR_USAGE},
    {"no list", LLAMA("qwen3_moe") QWEN ",\"mlp_only_layers\":1}",
     "mlp_only_layers is 1, expected a list", FR_USAGE},
};

static void try_wrong(const struct wrong *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tr_model_config c;
        struct fr_err err = {0};
        check_row(rows[i].name);
        put("config.json", rows[i].json);
        if (!CHECK_INT(tr_model_config_load(path, &c, &err), rows[i].rc) ||
            (rows[i].want != NULL && !CHECK(strstr(err.msg, rows[i].want) != NULL)))
            printf("   message: %s\n", err.msg);
    }
}

static void test_dense(void)
{
    try_wrong(dense, sizeof(dense) / sizeof(dense[0]));
    try_wrong(experts, sizeof(experts) / sizeof(experts[0]));
}

/* Names and places of what models with experts have; the layers that are dense. */
static void test_experts(void)
{
    struct tr_model_config c;
    struct names seen = {.want = "model.layers.1.block_sparse_moe.experts.7.w3.weight"};
    struct fr_err err = {0};

    check_row("mixtral's experts");
    put("config.json", LLAMA("mixtral") MIXTRAL "}");
    CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK);
    CHECK(c.rope.theta == 1e6 && c.sliding_window == 0 && c.moe_intermediate_size == 45);
    CHECK_INT(tr_model_tensors(&c, find_name, &seen, &err), FR_OK);
    CHECK(seen.found && seen.kind == TR_LIN_UP);
    check_row("qwen's layers");
    put("config.json", LLAMA("qwen3_moe") QWEN ",\"decoder_sparse_step\":2}");
    CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK);
    CHECK(!tr_model_is_moe(&c, 0) && tr_model_is_moe(&c, 1));
    put("config.json", LLAMA("qwen3_moe") QWEN ",\"mlp_only_layers\":[1]}");
    CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK);
    CHECK(tr_model_is_moe(&c, 0) && !tr_model_is_moe(&c, 1) && !c.norm_topk_prob);
    seen = (struct names){.want = "model.layers.0.mlp.gate.weight"};
    CHECK_INT(tr_model_tensors(&c, find_name, &seen, &err), FR_OK);
    CHECK(seen.found);
    seen = (struct names){.want = "model.layers.0.mlp.gate.e_score_correction_bias"};
    CHECK_INT(tr_model_tensors(&c, find_name, &seen, &err), FR_OK);
    CHECK(!seen.found);
}

/* Which of the two layers have a window. */
static const struct {
    const char *name, *json;
    int64_t first, second;
} windows[] = {
    {"mistral", LLAMA("mistral") KV ",\"sliding_window\":16}", 16, 16},
    {"mistral, by default", LLAMA("mistral") KV "}", 4096, 4096},
    {"mistral, null", LLAMA("mistral") KV ",\"sliding_window\":null}", 0, 0},
    {"llama", LLAMA("llama") "\"sliding_window\":16,\"use_sliding_window\":true}", 0, 0},
    {"qwen2, off", LLAMA("qwen2") KV ",\"sliding_window\":16,\"max_window_layers\":0}", 0, 0},
    {"qwen2, from a layer on",
     LLAMA("qwen2") KV
     ",\"sliding_window\":16,\"max_window_layers\":1,\"use_sliding_window\":true}",
     0, 16},
    {"mixtral, by default", LLAMA("mixtral") MIXTRAL "}", 0, 0},
    {"mixtral", LLAMA("mixtral") MIXTRAL ",\"sliding_window\":16}", 16, 16},
    {"qwen3_moe",
     LLAMA("qwen3_moe") QWEN
     ",\"sliding_window\":16,\"max_window_layers\":1,\"use_sliding_window\":true}",
     16, 16},
    {"qwen3, by layers",
     LLAMA("qwen3") KV ",\"sliding_window\":16,\"use_sliding_window\":true,"
                       "\"layer_types\":[\"sliding_attention\",\"full_attention\"]}",
     16, 0},
};

static void test_windows(void)
{
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        struct tr_model_config c;
        struct fr_err err = {0};

        check_row(windows[i].name);
        put("config.json", windows[i].json);
        CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK);
        CHECK_INT(tr_model_window(&c, 0), windows[i].first);
        CHECK_INT(tr_model_window(&c, 1), windows[i].second);
    }
}

/* Published sizes, and the parameters that the models are known by. */
static const struct {
    const char *type;
    int64_t hidden, inter, layers, heads, kv, hd, vocab;
    bool tied;
    int64_t parameters;
} sized[] = {
    {"llama", 4096, 11008, 32, 32, 32, 128, 32000, false, 6738415616},
    {"llama", 8192, 28672, 80, 64, 8, 128, 32000, false, 68976648192},
    {"llama", 4096, 14336, 32, 32, 8, 128, 128256, false, 8030261248},
    {"llama", 16384, 53248, 126, 128, 8, 128, 128256, false, 405853388800},
    {"llama", 2048, 8192, 16, 32, 8, 64, 128256, true, 1235814400},
    {"qwen2", 3584, 18944, 28, 28, 4, 128, 152064, false, 7615616512},
    {"qwen3", 4096, 12288, 36, 32, 8, 128, 151936, false, 8190735360},
    {"qwen3", 1024, 3072, 28, 16, 8, 128, 151936, true, 596049920},
};

/* The same of models with experts, and what a token uses of them. */
static const struct {
    const char *type, *more;
    int64_t hidden, inter, layers, heads, kv, vocab, parameters, activated;
} sparse[] = {
    {"mixtral", "\"num_local_experts\":8,\"num_experts_per_tok\":2", 4096, 14336, 32, 32, 8, 32000,
     46702792704, 12879925248},
    {"qwen3_moe", "\"num_experts\":128,\"num_experts_per_tok\":8,\"moe_intermediate_size\":768",
     2048, 6144, 48, 32, 4, 151936, 30532122624, 3353032704},
};

static void test_sparse(void)
{
    for (size_t i = 0; i < sizeof(sparse) / sizeof(sparse[0]); i++) {
        struct tr_model_config c;
        struct tr_model_counts n;
        struct tally sum = {0};
        struct fr_err err = {0};
        char json[512];

        check_row(sparse[i].type);
        (void)snprintf(json, sizeof(json),
                       "{\"model_type\":\"%s\",\"hidden_size\":%lld,\"intermediate_size\":%lld,"
                       "\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,"
                       "\"num_key_value_heads\":%lld,\"head_dim\":128,\"vocab_size\":%lld,"
                       "\"max_position_embeddings\":4096,%s}",
                       sparse[i].type, (long long)sparse[i].hidden, (long long)sparse[i].inter,
                       (long long)sparse[i].layers, (long long)sparse[i].heads,
                       (long long)sparse[i].kv, (long long)sparse[i].vocab, sparse[i].more);
        put("config.json", json);
        CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK);
        tr_model_count(&c, &n);
        CHECK_INT(n.total, sparse[i].parameters);
        CHECK_INT(n.activated, sparse[i].activated);
        CHECK_INT(tr_model_tensors(&c, tally, &sum, &err), FR_OK);
        CHECK_INT(sum.elements, n.total);
    }
}

static void test_sized(void)
{
    for (size_t i = 0; i < sizeof(sized) / sizeof(sized[0]); i++) {
        struct tr_model_config c;
        struct tr_model_counts n;
        struct tally sum = {0};
        struct fr_err err = {0};
        char json[512];

        check_row(sized[i].type);
        (void)snprintf(json, sizeof(json),
                       "{\"model_type\":\"%s\",\"hidden_size\":%lld,\"intermediate_size\":%lld,"
                       "\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,"
                       "\"num_key_value_heads\":%lld,\"head_dim\":%lld,\"vocab_size\":%lld,"
                       "\"max_position_embeddings\":4096,\"tie_word_embeddings\":%s}",
                       sized[i].type, (long long)sized[i].hidden, (long long)sized[i].inter,
                       (long long)sized[i].layers, (long long)sized[i].heads,
                       (long long)sized[i].kv, (long long)sized[i].hd, (long long)sized[i].vocab,
                       sized[i].tied ? "true" : "false");
        put("config.json", json);
        CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK);
        tr_model_count(&c, &n);
        CHECK_INT(n.total, sized[i].parameters);
        CHECK_INT(n.activated, n.total);
        CHECK_INT(tr_model_tensors(&c, tally, &sum, &err), FR_OK);
        CHECK_INT(sum.elements, n.total);
    }
}

static void test_rope(void)
{
    struct tr_model_config c;
    struct fr_err err;

    check_row("both spellings of rope");
    put("config.json",
        "{" TINY ONE ",\"num_experts_per_tok\":2,\"max_position_embeddings\":4096,"
        "\"rope_theta\":50000,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8,"
        "\"mscale\":1,\"mscale_all_dim\":0.5,\"original_max_position_embeddings\":512}}");
    CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK);
    CHECK(c.rope.kind == TR_ROPE_YARN && c.rope.factor == 8 && c.rope.theta == 50000 &&
          c.rope.mscale_all_dim == 0.5);
    CHECK(c.rope.beta_fast == 32 && c.rope.original_max_positions == 512 && c.rope.interleave);
    put("config.json",
        "{" TINY ONE ",\"num_experts_per_tok\":2,\"max_position_embeddings\":4096,"
        "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":null,\"rope_theta\":1000,"
        "\"original_max_position_embeddings\":512}}");
    CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK);
    CHECK(c.rope.kind == TR_ROPE_YARN && c.rope.factor == 8 && c.rope.theta == 1000 &&
          c.rope.mscale == 0);
}

static void test_counts(const char *data)
{
    struct tr_model_config c;
    struct tr_model_counts n;
    struct tally sum = {0};
    struct fr_err err;

    check_row("671B");
    (void)snprintf(path, sizeof(path), "%s/deepseek-v3", data);
    if (!CHECK_INT(tr_model_config_load(path, &c, &err), FR_OK))
        return;
    tr_model_count(&c, &n);
    CHECK_INT(n.attention_layer, 187105280);
    CHECK_INT(n.attention_norms, 2048);
    CHECK_INT(n.dense_ffn, 396361728);
    CHECK_INT(n.expert, 44040192);
    CHECK_INT(n.shared_expert, 44040192);
    CHECK_INT(n.router, 1835008);
    CHECK_INT(n.router_bias, 256);
    CHECK_INT(n.dense_layer, 583483392);
    CHECK_INT(n.moe_layer, 11507286272);
    CHECK_INT(n.total, 671026419200);
    CHECK_INT(n.mtp_unique, 11610068224);
    CHECK_INT(n.disk, 684489845504);
    CHECK_INT(n.disk + n.disk_scales, 684531386000);
    CHECK_INT(n.disk_bytes, 688574839360);
    CHECK_INT(n.activated, 37552282624);
    CHECK_INT(tr_model_tensors(&c, tally, &sum, &err), FR_OK);
    CHECK_INT(sum.elements, n.total);
    CHECK_INT(sum.tensors, 61 * 9 + 3 * 3 + 58 * (256 * 3 + 2 + 3) + 3);
}

/* ---- arguments ---- */

#define NEED                                                                                       \
    "--do_train", "--model_name_or_path", "m", "--dataset", "d", "--template", "empty",            \
        "--output_dir", "o"

static const struct {
    const char *name;
    const char *argv[6];
    const char *want; /* NULL: accepted */
} lines[] = {
    {"plain", {NULL}, NULL},
    {"equals", {"--max_steps=5", "--bf16"}, NULL},
    {"dashes", {"--max-steps", "5", "--lora-rank=4"}, NULL},
    {"negative", {"--max_steps", "-1"}, NULL},
    {"boolean words", {"--bf16", "True", "--overwrite_cache", "no"}, NULL},
    {"no_", {"--bf16", "--fp16", "--no_bf16"}, NULL},
    {"float", {"--learning_rate", "1e-4"}, NULL},
    {"ignored", {"--flash_attn", "fa2", "--trust_remote_code"}, NULL},
    {"typo", {"--lora_rnak", "3"}, "did you mean --lora_rank?"},
    {"nothing near", {"--qqqqqqqqqqqq", "3"}, "unknown argument --qqqqqqqqqqqq"},
    {"int 1e3", {"--max_steps", "1e3"}, "--max_steps 1e3: expected an integer"},
    {"no value", {"--max_steps"}, "--max_steps needs a value"},
    {"no flag", {"max_steps"}, "flags begin with --"},
    {"choice", {"--save_strategy", "worst"}, "expected one of no, steps, epoch, best"},
    {"boolean", {"--bf16=maybe"}, "expected true or false"},
    {"both", {"--bf16", "--fp16"}, "exclude each other"},
    {"rank", {"--lora_rank", "0"}, "--lora_rank 0: expected"},
    {"stage", {"--stage", "dpo"}, "only sft"},
    {"dropout", {"--lora_dropout", "1"}, "--lora_dropout 1: expected"},
    {"nan", {"--learning_rate", "nan"}, "learning_rate"},
    {"refused", {"--quantization_bit", "4"}, "--quantization_bit 4 is not done: base weights stay"},
    {"refused, at its default", {"--quantization_bit", "none", "--model-revision", "main"}, NULL},
    {"refused, alone", {"--use_dora"}, "--use_dora true is not done: adapters are plain LoRA"},
    {"idle, wrong type", {"--tf32", "many"}, "--tf32 many: expected true or false"},
    {"no_ of an idle one", {"--no_save_safetensors"}, NULL},
};

static void test_lines(void)
{
    static const char *const need[] = {NEED};
    enum { NNEED = sizeof(need) / sizeof(need[0]) };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *argv[NNEED + 6];
        struct tr_args a;
        struct fr_err err = {0};
        int n = 0;
        check_row(lines[i].name);
        memcpy(argv, need, sizeof(need));
        while (n < 6 && lines[i].argv[n] != NULL) {
            argv[NNEED + n] = lines[i].argv[n];
            n++;
        }
        enum fr_rc rc = tr_args_read(&a, NNEED + n, argv, NULL, &err);
        if (!CHECK((rc == FR_OK) == (lines[i].want == NULL)) ||
            (lines[i].want != NULL && !CHECK(strstr(err.msg, lines[i].want) != NULL)))
            printf("   message: %s\n", err.msg);
        tr_args_finish(&a);
    }
    check_row("values");
    const char *argv[] = {NEED, "--max-steps", "5", "--lora_rank=4", "--bf16", "--max_steps", "7"};
    struct tr_args a;
    struct fr_err err;
    CHECK_INT(tr_args_read(&a, (int)(sizeof(argv) / sizeof(argv[0])), argv, NULL, &err), FR_OK);
    CHECK_INT(a.max_steps, 7);
    CHECK_INT(a.lora_rank, 4);
    CHECK(a.bf16 && !a.fp16 && a.lora_alpha == 8 && a.adam_beta2 == 0.999);
    CHECK_TEXT(a.dataset_dir, "data");
    CHECK(a.default_system == NULL && a.max_samples == -1);
    tr_args_finish(&a);
}

#define NEED_YAML                                                                                  \
    "do_train: true\nmodel_name_or_path: m\ndataset: a\ntemplate: empty\noutput_dir: o\n"

static void test_file(void)
{
    struct tr_args a;
    struct fr_err err = {0};
    struct fr_buf notes = {0};
    const char *argv[] = {path, "max_steps=9", "bf16=false", "optim=adamw_8bit", "run_name=r"};

    check_row("yaml");
    put("a.yaml",
        "do_train: true\nmodel_name_or_path: m\ndataset: [a, b]\ntemplate: empty\n"
        "output_dir: o\nmax_steps: 3\nlearning_rate: 1.0e-4\nbf16: true\nmax_samples: null\n"
        "default_system: \"null\"\nseed: null\nflash_attn: fa2\nplot_loss: true\n"
        "optim: adamw_torch\n");
    if (!CHECK_INT(tr_args_read(&a, 5, argv, &notes, &err), FR_OK))
        printf("   %s\n", err.msg);
    CHECK_INT(a.max_steps, 9);
    CHECK_INT(a.seed, 42);
    CHECK_TEXT(a.dataset, "a,b");
    CHECK(!a.bf16 && a.plot_loss && a.learning_rate == 1e-4);
    CHECK_TEXT(notes.p, "--flash_attn has no effect: attention is this program's own\n"
                        /* and behind the file */
                        "--run_name has no effect: --output_dir tells runs apart\n"
                        "--optim: states of AdamW are f32 where adapters train, whose states are "
                        "small\n");
    fr_buf_finish(&notes);
    tr_args_finish(&a);
    check_row("optim");
    put("a.yaml", "optim: sgd\n");
    CHECK_INT(tr_args_read(&a, 1, argv, NULL, &err), FR_USAGE);
    CHECK(strstr(err.msg, "--optim sgd: expected one of adamw_torch, ") != NULL);
    check_row("maps and lists");
    put("a.yaml", NEED_YAML
        "lr_scheduler_kwargs: {min_lr: 1e-5, on: yes, name: '7'}\n"
        "deepspeed: {zero_optimization: {stage: 3, sub_group_size: 1e9}, list: [1, a, null]}\n"
        "report_to: [tensorboard]\nfsdp: []\ninclude_for_metrics: []\n"
        "accelerator_config: {dispatch_batches: false, split_batches: false}\n");
    if (!CHECK_INT(tr_args_read(&a, 1, argv, &notes, &err), FR_OK))
        printf("   %s\n", err.msg);
    CHECK_TEXT(a.lr_scheduler_kwargs,
               "{\"min_lr\": 1.0000000000000001e-5, \"on\": true, \"name\": \"7\"}");
    CHECK_TEXT(a.deepspeed, "{\"zero_optimization\": {\"stage\": 3, \"sub_group_size\": "
                            "1000000000.0}, \"list\": [1, \"a\", null]}");
    CHECK_INT(a.report_to, TR_REPORT_TENSORBOARD);
    CHECK_TEXT(notes.p, "--accelerator_config has no effect: batches are cut as by the reference's "
                        "defaults\n");
    fr_buf_finish(&notes);
    tr_args_finish(&a);
    put("a.yaml", NEED_YAML "accelerator_config: {dispatch_batches: false, even_batches: false}\n");
    CHECK_INT(tr_args_read(&a, 1, argv, NULL, &err), FR_UNSUPPORTED);
    CHECK(strstr(err.msg, "--accelerator_config {\"dispatch_batches\": false, \"even_ba") != NULL);
    put("a.yaml", "bf16: {a: 1}\n");
    CHECK_INT(tr_args_read(&a, 1, argv, NULL, &err), FR_USAGE);
    CHECK(strstr(err.msg, "--bf16: expected a plain value") != NULL);
    check_row("json");
    put("a.json", "{\"do_train\": true, \"model_name_or_path\": \"m\", \"dataset\": \"a\",\n"
                  "\"template\": \"empty\", \"output_dir\": \"o\", \"max_step\": 3}");
    CHECK_INT(tr_args_read(&a, 1, argv, NULL, &err), FR_USAGE);
    CHECK(strstr(err.msg, "a.json:2:") != NULL &&
          strstr(err.msg, "did you mean --max_steps") != NULL);
}

static const struct {
    int64_t n, world, batch, acc, max_steps;
    double epochs;
    bool drop;
    int64_t micro, per_epoch, total, shown;
} derived[] = {
    {1000, 8, 1, 2, -1, 3, false, 125, 63, 189, 3}, {10, 4, 1, 1, -1, 1, false, 3, 3, 3, 1},
    {10, 4, 1, 1, -1, 1, true, 2, 2, 2, 1},         {7, 2, 2, 3, 10, 3, false, 2, 1, 10, 10},
    {100, 1, 8, 1, -1, 0.5, false, 13, 13, 7, 1},   {1, 4, 4, 4, -1, 2, false, 1, 1, 2, 2},
};

static void test_derive(void)
{
    check_row("derived");
    for (size_t i = 0; i < sizeof(derived) / sizeof(derived[0]); i++) {
        struct tr_args a;
        struct tr_derived d;
        struct fr_err err;
        tr_args_init(&a);
        a.per_device_train_batch_size = derived[i].batch;
        a.gradient_accumulation_steps = derived[i].acc;
        a.max_steps = derived[i].max_steps;
        a.num_train_epochs = derived[i].epochs;
        a.dataloader_drop_last = derived[i].drop;
        a.warmup_ratio = 0.1;
        a.save_steps = 0.5;
        CHECK_INT(tr_args_derive(&a, derived[i].n, derived[i].world, &d, &err), FR_OK);
        CHECK_INT(d.micro_per_rank, derived[i].micro);
        CHECK_INT(d.steps_per_epoch, derived[i].per_epoch);
        CHECK_INT(d.total_steps, derived[i].total);
        CHECK_INT(d.epochs, derived[i].shown);
        CHECK_INT(d.warmup_steps, (int64_t)ceil(0.1 * (double)derived[i].total));
        CHECK_INT(d.save_every, (int64_t)ceil(0.5 * (double)derived[i].total));
        CHECK_INT(d.log_every, 500);
        tr_args_finish(&a);
    }
    struct tr_args a;
    struct tr_derived d;
    struct fr_err err;
    tr_args_init(&a);
    a.dataloader_drop_last = true;
    CHECK_INT(tr_args_derive(&a, 7, 1, &d, &err), FR_USAGE);
    tr_args_finish(&a);
}

int main(void)
{
    struct fr_err err;
    const char *data = getenv("FLOWRUN_DATA");

    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    test_models();
    test_dense();
    test_experts();
    test_windows();
    test_sized();
    test_sparse();
    test_rope();
    test_lines();
    test_file();
    test_derive();
    if (data != NULL)
        test_counts(data);
    else
        printf("skipped: the 671B counts, FLOWRUN_DATA is not set\n");
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}
