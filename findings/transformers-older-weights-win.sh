#!/bin/sh
# transformers 5.24.0: save_pretrained() in shards, into a folder that holds a model.safetensors of before, leaves that file, and
# from_pretrained() then loads it: the OLD weights, without a word, though index and shards are newer. The other way round the
# shards go (their index stays), and the new weights are loaded. So a training that saves into one folder again and again keeps its first
# result as soon as the model outgrows one file, or max_shard_size is lowered.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.24.0

seen "one file, then shards: model.safetensors stays True, loaded are the old weights
shards, then one file: shards stay False, their index stays True, loaded are the new weights" << 'END'
import os

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=32))


def save_twice(folder, first, second):
    """Saves, changes every weight, saves again; says which weights the folder then gives."""
    model.save_pretrained(folder, **first)
    before = model.lm_head.weight.detach().clone()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    model.save_pretrained(folder, **second)
    got = LlamaForCausalLM.from_pretrained(folder).lm_head.weight
    return "old" if torch.equal(got, before) else "new" if torch.equal(got, model.lm_head.weight) else "other"


small = {"max_shard_size": "4KB"}
which = save_twice("a", {}, small)
print(f"one file, then shards: model.safetensors stays {os.path.exists('a/model.safetensors')}, loaded are the {which} weights")
which = save_twice("b", small, {})
shards = any(name.startswith("model-0") for name in os.listdir("b"))
index = os.path.exists("b/model.safetensors.index.json")
print(f"shards, then one file: shards stay {shards}, their index stays {index}, loaded are the {which} weights")
END
