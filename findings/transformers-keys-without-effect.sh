#!/bin/sh
# transformers 5.24.0: keys of config.json that a reader takes for meaningful and no code reads. DeepSeek-V3's own files have
# scoring_func, topk_method and moe_layer_freq: the router is a sigmoid with groups, and every layer behind the dense ones has experts,
# whatever they say. Llama, Mistral, Qwen2 and Qwen3 rotate whole heads beside any partial_rotary_factor. Of num_experts
# and num_local_experts in one file the one that is not the class's own name counts, in either order. Nothing is said.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.24.0

seen "DeepseekV3: scoring_func softmax changes the logits: False
DeepseekV3: topk_method greedy changes the logits: False
DeepseekV3: moe_layer_freq 2 changes the logits: False
DeepseekV3: norm_topk_prob False changes the logits: True
Llama: partial_rotary_factor 0.5 changes the logits: False
Llama: rope_theta 100.0 changes the logits: True
Mistral: partial_rotary_factor 0.5 changes the logits: False
Qwen2: partial_rotary_factor 0.5 changes the logits: False
Qwen3: partial_rotary_factor 0.5 changes the logits: False
Mixtral, num_local_experts 4, num_experts 6: 6 experts
Mixtral, num_experts 6, num_local_experts 4: 6 experts
Qwen3Moe, num_local_experts 4, num_experts 6: 4 experts
Qwen3Moe, num_experts 6, num_local_experts 4: 4 experts" << 'END'
import torch
import transformers

dense = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 2, "initializer_range": 0.5}
experts = {**dense, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
deepseek = {**experts, "n_routed_experts": 8, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 0, "q_lora_rank": 8,
            "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}


def model(name, values):
    torch.manual_seed(0)
    config = getattr(transformers, name + "Config").from_dict(values)
    return getattr(transformers, name + "ForCausalLM")(config).eval()


def logits(name, values):
    with torch.no_grad():
        return model(name, values)(torch.arange(12)[None]).logits


for name, base, key, value in (
        ("DeepseekV3", deepseek, "scoring_func", "softmax"), ("DeepseekV3", deepseek, "topk_method", "greedy"),
        ("DeepseekV3", deepseek, "moe_layer_freq", 2), ("DeepseekV3", deepseek, "norm_topk_prob", False),
        ("Llama", dense, "partial_rotary_factor", 0.5), ("Llama", dense, "rope_theta", 100.0),
        ("Mistral", dense, "partial_rotary_factor", 0.5), ("Qwen2", dense, "partial_rotary_factor", 0.5),
        ("Qwen3", dense, "partial_rotary_factor", 0.5)):
    changed = not torch.equal(logits(name, base), logits(name, {**base, key: value}))
    print(f"{name}: {key} {value} changes the logits: {changed}")
for name in ("Mixtral", "Qwen3Moe"):
    for counts in ({"num_local_experts": 4, "num_experts": 6}, {"num_experts": 6, "num_local_experts": 4}):
        said = ", ".join(f"{key} {value}" for key, value in counts.items())
        print(f"{name}, {said}: {model(name, {**experts, **counts}).model.layers[0].mlp.gate.weight.shape[0]} experts")
END
