#!/bin/sh
# peft 0.21.2: of two keys of rank_pattern (or alpha_pattern) that fit a module the first one in the file counts, not the one
# that says more. Writing adapter_config.json with sorted keys, as many JSON tools do, changes the ranks of an adapter.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.24.0 peft==0.21.2

seen "q_proj first: layer 0 has 8, layer 1 has 8
layers.1.q_proj first: layer 0 has 8, layer 1 has 16" << 'END'
import torch
from peft import LoraConfig, get_peft_model


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = torch.nn.Linear(32, 32)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))


def ranks(pattern):
    model = get_peft_model(Model(), LoraConfig(r=4, target_modules=["q_proj"], rank_pattern=pattern))
    return [layer.q_proj.r["default"] for layer in model.base_model.model.layers]


wide, narrow = {"q_proj": 8}, {"layers.1.q_proj": 16}
for pattern in ({**wide, **narrow}, {**narrow, **wide}):
    zero, one = ranks(pattern)
    print(f"{next(iter(pattern))} first: layer 0 has {zero}, layer 1 has {one}")
END
