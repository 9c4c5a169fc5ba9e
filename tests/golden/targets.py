#!/usr/bin/env python3
"""What PEFT's "all-linear" adapts in small DeepSeek-V3 models, recorded with transformers 5 and the last
PEFT that leaves the names of linears as they are (0.18).

Writes targets.json beside this file: the versions, and for each configuration the changed sizes and the
sorted names of the adapted modules.

Usage: targets.py   (needs torch, transformers >= 5, peft < 0.19)
"""
import json
import os
import platform

import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

BASE = dict(
    vocab_size=101, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
    q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
    intermediate_size=64, moe_intermediate_size=16, n_routed_experts=8, n_shared_experts=1,
    num_experts_per_tok=3, n_group=4, topk_group=2, first_k_dense_replace=1)
CONFIGS = {"mixed": {}, "no_q_lora": {"q_lora_rank": None}, "all_moe": {"first_k_dense_replace": 0},
           "all_dense": {"first_k_dense_replace": 3}, "two_shared": {"n_shared_experts": 2}}


def adapted(change):
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**{**BASE, **change}))
    model = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    names = {n.split(".lora_")[0] for n, _ in model.named_parameters() if "lora_" in n}
    return sorted(n.replace("base_model.model.", "", 1) for n in names)


def main():
    out = {"versions": {"python": platform.python_version(), "torch": torch.__version__,
                        "transformers": transformers.__version__, "peft": peft.__version__},
           "base": BASE,
           "configs": [{"name": k, "change": v, "modules": adapted(v)} for k, v in CONFIGS.items()]}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets.json"), "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


main()
