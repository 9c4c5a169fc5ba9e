#!/bin/sh
# peft 0.21.2 with transformers 5.24.0: where head and embedding are tied and the head is a module to save, ensure_weight_tying puts the
# embedding's name in its place. adapter_config.json names a module that nobody asked for, the file holds one weight under both names, and
# the list that the caller gave is another one afterwards. Without it the head is untied and trained alone.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.24.0 peft==0.21.2

seen "ensure_weight_tying False: trained: lm_head
  modules_to_save of adapter_config.json: lm_head; in the file: lm_head
  the caller's list: lm_head
ensure_weight_tying True: trained: model.embed_tokens
  modules_to_save of adapter_config.json: model.embed_tokens; in the file: lm_head model.embed_tokens
  the caller's list: model.embed_tokens" << 'END'
import json

from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

for tying in (False, True):
    base = LlamaForCausalLM(LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=32, tie_word_embeddings=True))
    modules = ["lm_head"]
    model = get_peft_model(base, LoraConfig(
        r=4, target_modules=["q_proj"], modules_to_save=modules, ensure_weight_tying=tying, task_type="CAUSAL_LM"))
    trained = [name.removeprefix("base_model.model.").removesuffix(".modules_to_save.default.weight")
               for name, weight in model.named_parameters() if weight.requires_grad and "lora_" not in name]
    model.save_pretrained("adapter")
    saved = [name.removeprefix("base_model.model.").removesuffix(".weight")
             for name in sorted(load_file("adapter/adapter_model.safetensors")) if "lora_" not in name]
    with open("adapter/adapter_config.json") as file:
        config = json.load(file)
    print(f"ensure_weight_tying {tying}: trained:", *trained)
    print("  modules_to_save of adapter_config.json:", " ".join(config["modules_to_save"]) + "; in the file:", *saved)
    print("  the caller's list:", *modules)
END
