#!/bin/sh
# llamafactory 0.9.5 with transformers 5.6.0, finetuning_type freeze: freeze_trainable_modules names whole children of a layer, while
# freeze_extra_modules is looked for inside every parameter's name. So `norm`, offered as an extra module and meant for the model's last
# norm, also trains both norms of every layer, those of the frozen layers too. freeze_trainable_layers 0 trains nothing, without an error.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.6.0 peft==0.18.1 accelerate==1.11.0 datasets==4.0.0 trl==0.24.0 omegaconf==2.3.0 einops==0.8.1
# Without what its web page and its video input need.
"$python" -m pip install --quiet --no-deps llamafactory==0.9.5
export DISABLE_VERSION_CHECK=1 CUDA_VISIBLE_DEVICES=

seen "last layer's self_attn: 4 of layers.2
and extra norm: 2 of layers.0, 2 of layers.1, 6 of layers.2, 1 of norm
and extra lm_head: 4 of layers.2, 1 of lm_head
no layer: nothing" << 'END'
import collections
import logging

logging.disable(logging.CRITICAL)
from llamafactory.hparams import FinetuningArguments
from llamafactory.model.adapter import _setup_freeze_tuning
from transformers import LlamaConfig, LlamaForCausalLM


def trained(**arguments):
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2))
    _setup_freeze_tuning(model, FinetuningArguments(finetuning_type="freeze", **arguments), True, False)
    places = collections.Counter()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parts = name.removeprefix("model.").split(".")
            places[".".join(parts[:2]) if parts[0] == "layers" else parts[0]] += 1
    return ", ".join("%d of %s" % (count, place) for place, count in sorted(places.items())) or "nothing"


last = {"freeze_trainable_layers": 1, "freeze_trainable_modules": "self_attn"}
print("last layer's self_attn:", trained(**last))
print("and extra norm:", trained(freeze_extra_modules="norm", **last))
print("and extra lm_head:", trained(freeze_extra_modules="lm_head", **last))
print("no layer:", trained(freeze_trainable_layers=0))
END
