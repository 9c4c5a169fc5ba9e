#include "trainer/cli/shape.h"

#include "trainer/save/quantize.h"
#include "trainer/text/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_MAX = 4 << 20 };

/* Source: config.json of the released checkpoint, deepseek-ai/DeepSeek-V3. */
static const char deepseek_v3[] =
    "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"deepseek_v3\","
    " \"vocab_size\": 129280, \"hidden_size\": 7168, \"num_hidden_layers\": 61,"
    " \"num_attention_heads\": 128, \"num_key_value_heads\": 128, \"q_lora_rank\": 1536,"
    " \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64,"
    " \"v_head_dim\": 128, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048,"
    " \"n_routed_experts\": 256, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8,"
    " \"n_group\": 8, \"topk_group\": 4, \"first_k_dense_replace\": 3, \"moe_layer_freq\": 1,"
    " \"norm_topk_prob\": true, \"routed_scaling_factor\": 2.5, \"scoring_func\": \"sigmoid\","
    " \"topk_method\": \"noaux_tc\", \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-06,"
    " \"max_position_embeddings\": 163840, \"rope_theta\": 10000,"
    " \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"beta_fast\": 32, \"beta_slow\": 1,"
    " \"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 4096},"
    " \"attention_bias\": false, \"attention_dropout\": 0.0, \"initializer_range\": 0.02,"
    " \"tie_word_embeddings\": false, \"bos_token_id\": 0, \"eos_token_id\": 1,"
    " \"torch_dtype\": \"bfloat16\", \"quantization_config\": {\"activation_scheme\": \"dynamic\","
    " \"fmt\": \"e4m3\", \"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}}";

static const struct known {
    const char *name, *config;
} known[] = {{"deepseek-v3", deepseek_v3}};

static enum fr_rc load(const char *of, json_t **out, struct fr_err *err)
{
    char path[PATH_MAX];
    bool file = tr_ends(of, ".json");

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(of, known[i].name) == 0)
            return fr_json_parse(fr_str_of(known[i].config), of, out, err);
    if (snprintf(path, sizeof(path), file ? "%s" : "%s/config.json", of) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", of);
    if (fr_json_load(path, CONFIG_MAX, out, err) != FR_OK)
        return fr_while(err, "--shape-of %s: neither deepseek-v3 nor a model's config.json", of);
    return json_is_object(*out) ? FR_OK : fr_fail(err, FR_USAGE, "%s: expected an object", path);
}

static int64_t number(const json_t *c, const char *key)
{
    return json_integer_value(json_object_get(c, key));
}

/* Lists with an entry a layer. */
static void cut_lists(json_t *c, int64_t layers)
{
    static const char *const kinds[] = {"layer_types", "mlp_layer_types"};
    json_t *dense = json_object_get(c, "mlp_only_layers");

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        json_t *list = json_object_get(c, kinds[i]);

        while (json_array_size(list) > (size_t)layers)
            (void)json_array_remove(list, json_array_size(list) - 1);
    }
    for (size_t i = json_array_size(dense); i-- > 0;)
        if (json_integer_value(json_array_get(dense, i)) >= layers)
            (void)json_array_remove(dense, i);
}

static void cut(json_t *c, int64_t layers)
{
    int64_t dense = number(c, "first_k_dense_replace");

    (void)json_object_set_new(c, "num_hidden_layers", json_integer(layers));
    if (json_object_get(c, "num_nextn_predict_layers") != NULL)
        (void)json_object_set_new(c, "num_nextn_predict_layers", json_integer(0));
    if (number(c, "n_routed_experts") > 0 && dense >= layers)
        (void)json_object_set_new(c, "first_k_dense_replace", json_integer(layers - 1));
    (void)json_object_del(c, "auto_map"); /* code beside the checkpoint, which is not there */
    cut_lists(c, layers);
}

static enum fr_rc set_weights(json_t *c, const char *weights, struct fr_err *err)
{
    if (weights == NULL)
        return FR_OK;
    if (strcmp(weights, "bf16") == 0) {
        (void)json_object_del(c, "quantization_config");
        (void)json_object_set_new(c, "torch_dtype", json_string("bfloat16"));
    } else if (strcmp(weights, "fp8") == 0 && json_object_get(c, "quantization_config") == NULL) {
        (void)json_object_set_new(c, "quantization_config", tr_fp8_config());
    } else if (strcmp(weights, "fp8") != 0) {
        return fr_fail(err, FR_USAGE, "--weights is '%s', expected bf16 or fp8", weights);
    }
    return FR_OK;
}

enum fr_rc tr_shape_make(const struct tr_shape *s, json_t **out, int64_t *of_layers,
                         struct fr_err *err)
{
    json_t *c = NULL;
    enum fr_rc rc = load(s->of, &c, err);

    *out = NULL;
    *of_layers = number(c, "num_hidden_layers");
    if (rc == FR_OK && s->layers > *of_layers)
        rc = fr_fail(err, FR_USAGE, "--layers %lld: %s has %lld", (long long)s->layers, s->of,
                     (long long)*of_layers);
    if (rc == FR_OK && s->layers > 0)
        cut(c, s->layers);
    if (rc == FR_OK)
        rc = set_weights(c, s->weights, err);
    if (rc == FR_OK)
        *out = c;
    else
        json_decref(c);
    return rc;
}
