#!/bin/sh
# transformers 5.24.0: a config.json with tie_word_embeddings true, and a lm_head.weight in the checkpoint whose numbers are
# not those of the embedding: from_pretrained() leaves the two apart, while the configuration goes on saying that they are tied. So does
# what it saves. Whatever ties them again (tie_weights(), or another program that believes the configuration) loses the head.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.24.0

seen "no lm_head.weight in the file: tied by the configuration True, one weight True
the embedding's numbers in it: tied by the configuration True, one weight True
other numbers in it: tied by the configuration True, one weight False
other numbers in it: the file's head is the model's True
saved again: tied by config.json True, lm_head.weight in the file True
tie_weights(): one weight True" << 'END'
import json

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
LlamaForCausalLM(LlamaConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=32,
                             tie_word_embeddings=True)).save_pretrained("model")
weights = load_file("model/model.safetensors")
embedding = weights["model.embed_tokens.weight"]


def one_weight(model):
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


for name, head in (("no lm_head.weight in the file", {}), ("the embedding's numbers in it", {"lm_head.weight": embedding.clone()}),
                   ("other numbers in it", {"lm_head.weight": embedding + 1})):
    save_file({**weights, **head}, "model/model.safetensors", metadata={"format": "pt"})
    model = LlamaForCausalLM.from_pretrained("model")
    print(f"{name}: tied by the configuration {model.config.tie_word_embeddings}, one weight {one_weight(model)}")
print(f"{name}: the file's head is the model's {torch.equal(model.get_output_embeddings().weight, embedding + 1)}")
model.save_pretrained("again")
with open("again/config.json") as f:
    tied = json.load(f)["tie_word_embeddings"]
print(f"saved again: tied by config.json {tied}, lm_head.weight in the file {'lm_head.weight' in load_file('again/model.safetensors')}")
model.tie_weights()
print(f"tie_weights(): one weight {one_weight(model)}")
END
