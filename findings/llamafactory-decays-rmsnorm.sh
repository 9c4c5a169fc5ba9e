#!/bin/sh
# llamafactory 0.9.5 with transformers 5.6.0: the Trainer excludes norms from weight decay by class and by name, and llamafactory's own
# optimizers (LoRA+, GaLore, APOLLO, BAdam) by class and by `bias` in the name. The list of classes holds nn.LayerNorm alone, so every
# RMSNorm weight decays under those optimizers, and under plain AdamW it does not.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.6.0 peft==0.18.1 accelerate==1.11.0 datasets==4.0.0 trl==0.24.0 omegaconf==2.3.0 einops==0.8.1
# Without what its web page and its video input need.
"$python" -m pip install --quiet --no-deps llamafactory==0.9.5
export DISABLE_VERSION_CHECK=1 CUDA_VISIBLE_DEVICES=

seen "LlamaForCausalLM: 3 norms, decayed by the Trainer 0, by llamafactory 3
Qwen3ForCausalLM: 5 norms, decayed by the Trainer 0, by llamafactory 5
GPT2LMHeadModel: 3 norms, decayed by the Trainer 0, by llamafactory 0" << 'END'
import logging

logging.disable(logging.CRITICAL)
from llamafactory.train.trainer_utils import _get_decay_parameter_names
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM, Trainer

small = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 2}
for model in (LlamaForCausalLM(LlamaConfig(**small)), Qwen3ForCausalLM(Qwen3Config(head_dim=8, **small)),
              GPT2LMHeadModel(GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2))):
    norms = {name for name, _ in model.named_parameters() if ("norm" in name or "ln_" in name) and name.endswith("weight")}
    print("%s: %d norms, decayed by the Trainer %d, by llamafactory %d" % (
        type(model).__name__, len(norms), len(norms & set(Trainer.get_decay_parameter_names(None, model))),
        len(norms & set(_get_decay_parameter_names(model)))))
END
