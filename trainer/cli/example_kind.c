/* The models of examples. */
#include "trainer/cli/example.h"

#include <string.h>

static const char deepseek_config[] =
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

static const char llama_config[] =
    "{\n"
    "  \"architectures\": [\"LlamaForCausalLM\"],\n"
    "  \"model_type\": \"llama\",\n"
    "  \"vocab_size\": 512,\n"
    "  \"hidden_size\": 96,\n"
    "  \"num_hidden_layers\": 4,\n"
    "  \"num_attention_heads\": 6,\n"
    "  \"num_key_value_heads\": 2,\n"
    "  \"head_dim\": 16,\n"
    "  \"intermediate_size\": 192,\n"
    "  \"hidden_act\": \"silu\",\n"
    "  \"rms_norm_eps\": 1e-05,\n"
    "  \"max_position_embeddings\": 4096,\n"
    "  \"rope_theta\": 10000.0,\n"
    "  \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0,\n"
    "    \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 512},\n"
    "  \"attention_bias\": false,\n"
    "  \"attention_dropout\": 0.0,\n"
    "  \"mlp_bias\": false,\n"
    "  \"initializer_range\": 0.02,\n"
    "  \"tie_word_embeddings\": true,\n"
    "  \"bos_token_id\": 0,\n"
    "  \"eos_token_id\": 1,\n"
    "  \"torch_dtype\": \"bfloat16\"\n"
    "}\n";

#define BAR "\xef\xbd\x9c"
#define LOW "\xe2\x96\x81"

static const struct tr_example_kind kinds[] = {
    {.name = "deepseek",
     .config = deepseek_config,
     .begin = "<" BAR "begin" LOW "of" LOW "sentence" BAR ">",
     .end = "<" BAR "end" LOW "of" LOW "sentence" BAR ">",
     .pad = "<" BAR LOW "pad" LOW BAR ">",
     .chat = {"<" BAR "User" BAR ">", "<" BAR "Assistant" BAR ">"},
     .chats = 2},
    {.name = "llama",
     .config = llama_config,
     .begin = "<|begin_of_text|>",
     .end = "<|end_of_text|>",
     .pad = "<|finetune_right_pad_id|>",
     .chat = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"},
     .chats = 4,
     .chat_special = true},
};

enum fr_rc tr_example_find(const char *name, const struct tr_example_kind **out, struct fr_err *err)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *out = &kinds[i];
            return FR_OK;
        }
    return fr_fail(err, FR_USAGE, "--model %s: expected deepseek or llama", name);
}
