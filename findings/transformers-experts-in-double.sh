#!/bin/sh
# transformers 5.24.0 with torch 2.9.1: a model with experts in float64, on a CPU, fails in its first forward with the experts'
# implementation that is chosen by itself (grouped products), which takes 32 and 16 bits alone; with experts_implementation="eager" the
# same model runs. A dense model runs in float64 either way. So who checks numbers against float64 has to name it.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.24.0

seen "dense: runs
experts: RuntimeError
experts, eager: runs
experts in float32: runs" << 'END'
import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

SIZES = dict(hidden_size=16, intermediate_size=32, moe_intermediate_size=8, num_attention_heads=2, num_key_value_heads=2,
             n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1,
             kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=4, vocab_size=32)


def run(layers, dtype, **more):
    torch.manual_seed(0)
    DeepseekV3ForCausalLM(DeepseekV3Config(num_hidden_layers=layers, **SIZES)).save_pretrained("model")
    model = DeepseekV3ForCausalLM.from_pretrained("model", dtype=dtype, **more)
    try:
        model(torch.tensor([[1, 2, 3]]))
    except RuntimeError as e:
        return type(e).__name__
    return "runs"


print("dense:", run(1, torch.float64))
print("experts:", run(2, torch.float64))
print("experts, eager:", run(2, torch.float64, experts_implementation="eager"))
print("experts in float32:", run(2, torch.float32))
END
