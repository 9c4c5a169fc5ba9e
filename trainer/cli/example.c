#include "trainer/cli/example.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/cli/weights.h"
#include "trainer/config/model_config.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char model_config[] =
    "{\n"
    "  \"architectures\": [\"DeepseekV3ForCausalLM\"],\n"
    "  \"model_type\": \"deepseek_v3\",\n"
    "  \"vocab_size\": 512,\n"
    "  \"hidden_size\": 96,\n"
    "  \"num_hidden_layers\": 4,\n"
    "  \"num_nextn_predict_layers\": 0,\n"
    "  \"num_attention_heads\": 4,\n"
    "  \"num_key_value_heads\": 4,\n"
    "  \"q_lora_rank\": 48,\n"
    "  \"kv_lora_rank\": 32,\n"
    "  \"qk_nope_head_dim\": 16,\n"
    "  \"qk_rope_head_dim\": 16,\n"
    "  \"v_head_dim\": 16,\n"
    "  \"intermediate_size\": 192,\n"
    "  \"moe_intermediate_size\": 48,\n"
    "  \"n_routed_experts\": 8,\n"
    "  \"n_shared_experts\": 1,\n"
    "  \"num_experts_per_tok\": 2,\n"
    "  \"n_group\": 4,\n"
    "  \"topk_group\": 2,\n"
    "  \"first_k_dense_replace\": 1,\n"
    "  \"moe_layer_freq\": 1,\n"
    "  \"norm_topk_prob\": true,\n"
    "  \"routed_scaling_factor\": 2.5,\n"
    "  \"scoring_func\": \"sigmoid\",\n"
    "  \"topk_method\": \"noaux_tc\",\n"
    "  \"hidden_act\": \"silu\",\n"
    "  \"rms_norm_eps\": 1e-06,\n"
    "  \"max_position_embeddings\": 4096,\n"
    "  \"rope_theta\": 10000,\n"
    "  \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, \"beta_fast\": 32, \"beta_slow\": 1,\n"
    "    \"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 512},\n"
    "  \"attention_bias\": false,\n"
    "  \"attention_dropout\": 0.0,\n"
    "  \"initializer_range\": 0.02,\n"
    "  \"tie_word_embeddings\": false,\n"
    "  \"bos_token_id\": 0,\n"
    "  \"eos_token_id\": 1,\n"
    "  \"torch_dtype\": \"bfloat16\"\n"
    "}\n";

static const char tokenizer_config[] =
    "{\n"
    "  \"add_bos_token\": false,\n"
    "  \"add_eos_token\": false,\n"
    "  \"bos_token\": \"<\xef\xbd\x9c" "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>\",\n"
    "  \"eos_token\": \"<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>\",\n"
    "  \"pad_token\": \"<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>\",\n"
    "  \"model_max_length\": 4096,\n"
    "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n"
    "}\n";

static const char dataset_info[] =
    "{\n"
    "  \"arithmetic\": {\n"
    "    \"file_name\": \"arithmetic.jsonl\",\n"
    "    \"columns\": {\"prompt\": \"instruction\", \"query\": \"input\", \"response\": "
    "\"output\"}\n"
    "  }\n"
    "}\n";

static enum fr_rc put(const char *dir, const char *name, const char *p, size_t n,
                      struct fr_err *err)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    return fr_file_write(path, p, n, 0644, err);
}

static enum fr_rc write_model(const char *dir, struct fr_str text, uint64_t seed,
                              struct fr_err *err)
{
    char model[PATH_MAX], path[PATH_MAX];
    struct fr_buf json = {0};
    struct tr_model_config c;
    enum fr_rc rc;

    if (snprintf(model, sizeof(model), "%s/model", dir) >= PATH_MAX - 16)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    (void)snprintf(path, sizeof(path), "%.*s/config.json", PATH_MAX - 16, model);
    rc = fr_mkdirs(model, 0755, err);
    if (rc == FR_OK)
        rc = put(model, "config.json", model_config, sizeof(model_config) - 1, err);
    if (rc == FR_OK)
        rc = tr_learn_tokenizer(text, &json, err);
    if (rc == FR_OK)
        rc = put(model, "tokenizer.json", json.p, json.n, err);
    if (rc == FR_OK)
        rc = put(model, "tokenizer_config.json", tokenizer_config, sizeof(tokenizer_config) - 1,
                 err);
    if (rc == FR_OK)
        rc = tr_model_config_load(path, &c, err);
    if (rc == FR_OK)
        rc = tr_weights_write(model, &c, seed, INT64_MAX, err);
    fr_buf_finish(&json);
    return rc;
}

enum fr_rc tr_example_write(const char *dir, uint64_t seed, int64_t records, bool overwrite,
                            struct fr_err *err)
{
    char data[PATH_MAX], last[PATH_MAX];
    struct fr_buf lines = {0}, text = {0};
    struct stat st;
    enum fr_rc rc;

    if (snprintf(data, sizeof(data), "%s/data", dir) >= PATH_MAX - 32)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    (void)snprintf(last, sizeof(last), "%.*s/dataset_info.json", PATH_MAX - 32, data);
    if (!overwrite && fr_sys.lstat(last, &st) == 0) {
        fr_print("%s is there already\n", dir);
        return FR_OK;
    }
    rc = tr_exercises(seed, records, &lines, &text, err);
    if (rc == FR_OK)
        rc = write_model(dir, (struct fr_str){text.p, text.n}, seed, err);
    if (rc == FR_OK)
        rc = fr_mkdirs(data, 0755, err);
    if (rc == FR_OK)
        rc = put(data, "arithmetic.jsonl", lines.p, lines.n, err);
    if (rc == FR_OK)
        rc = put(data, "dataset_info.json", dataset_info, sizeof(dataset_info) - 1, err);
    if (rc == FR_OK)
        fr_print("wrote %s/model and %s: %lld records, seed %llu\n", dir, data, (long long)records,
                 (unsigned long long)seed);
    fr_buf_finish(&lines);
    fr_buf_finish(&text);
    return rc;
}
