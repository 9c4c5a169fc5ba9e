#!/bin/sh
# peft 0.21.2 with transformers 5.24.0: an adapter on the lm_head of a model with tied embeddings is trained beside the head
# alone, and merged into the one weight that head and embedding share. The merged model embeds other vectors than the trained one, so
# that it answers otherwise. peft warns of "complications"; nothing fails.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.24.0 peft==0.21.2

seen "head of its own: merged model gives the adapter's logits: True
tied head: merged model gives the adapter's logits: False
tied head: the embedding was changed by the merge: True" << 'END'
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

tokens = torch.arange(8)[None]
for tied in (False, True):
    torch.manual_seed(0)
    base = LlamaForCausalLM(LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=32, tie_word_embeddings=tied))
    embedding = base.get_input_embeddings().weight.detach().clone()
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["lm_head"], task_type="CAUSAL_LM"))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.ones_(weight)
    before = model(tokens).logits
    merged = model.merge_and_unload()
    name = "tied head" if tied else "head of its own"
    print(f"{name}: merged model gives the adapter's logits: {torch.allclose(before, merged(tokens).logits, atol=1e-4)}")
    if tied:
        print(f"{name}: the embedding was changed by the merge: {not torch.equal(embedding, merged.get_input_embeddings().weight)}")
END
