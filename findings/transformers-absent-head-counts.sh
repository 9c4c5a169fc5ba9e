#!/bin/sh
# transformers 5.24.0: what an absent num_key_value_heads or head_dim means depends on the class. Llama and Mistral follow
# num_attention_heads and hidden_size; Qwen2, Qwen3 and DeepSeek-V3 have the number of one model, 32 or 128, whatever the file
# says beside it: a config.json with 16 heads gets 32 or 128 heads of keys. Mixtral's 8 are fewer than its heads.
. "$(dirname "$0")/lib.sh"
packages transformers==5.24.0

seen "LlamaConfig: 16 heads of keys, head_dim 64
MistralConfig: 8 heads of keys, head_dim 64
MixtralConfig: 8 heads of keys, head_dim None
Qwen2Config: 32 heads of keys, head_dim None
Qwen3Config: 32 heads of keys, head_dim 128
Qwen3MoeConfig: 4 heads of keys, head_dim None
DeepseekV3Config: 128 heads of keys, head_dim 64" << 'END'
import transformers

for name in ("Llama", "Mistral", "Mixtral", "Qwen2", "Qwen3", "Qwen3Moe", "DeepseekV3"):
    kind = getattr(transformers, name + "Config")
    config = kind.from_dict({"hidden_size": 1024, "num_attention_heads": 16})
    print(f"{kind.__name__}: {config.num_key_value_heads} heads of keys, head_dim {getattr(config, 'head_dim', None)}")
END
