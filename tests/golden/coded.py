#!/usr/bin/env python3
"""Golden data of AdamW with 8-bit moments, by bitsandbytes on the CPU: coded.safetensors, weights and states of one tensor
after some steps of gradients that coded_test.c makes as well; coded.json, losses and gradient norms of ten steps of a small
model, set up as full.py sets it up, with the embedding's states in 32 bits as transformers' Trainer has them. Both beside
this file.

bitsandbytes' own coder on the CPU looks numbers up in a table of 65,536 even steps from -1 to 1, so that all below 1.5e-5 of
a block's largest, zero too, become 1.6e-5 (0.50.2). Its kernels for GPUs take the nearest value of the map, and so does
its coder for devices without one of their own, which takes the place here.

Usage: coded.py FLOWTRAIN   (needs torch, transformers, bitsandbytes 0.50.2)
"""
import json
import os
import sys
import tempfile

import bitsandbytes
import bitsandbytes.backends.cpu.ops as cpu
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import full  # noqa: E402

def nearest(x, code, most, out, block):
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)
    codes, maxima = torch.ops.bitsandbytes.quantize_blockwise.default.redispatch(keys, x, code, block)
    out.copy_(codes)
    most.copy_(maxima)


cpu._quant_blockwise_fp32_direct = nearest

ELEMENTS, AT = 5000, (1, 2, 5, 12)


def number(i, step):
    """In [-1, 1): the same in coded_test.c."""
    return ((i * 2654435761 + step * 2246822519 + 374761393) * 3266489917 % 2**32) / 2**31 - 1


def gradient(step):
    """Over many decades."""
    x = torch.tensor([number(i, step) for i in range(ELEMENTS)], dtype=torch.float64)
    return (x * x * x).float()


def one_tensor():
    p = torch.nn.Parameter(torch.tensor([number(i, 0) for i in range(ELEMENTS)], dtype=torch.float64).float())
    optimizer = bitsandbytes.optim.AdamW([p], lr=1e-2, weight_decay=0.1, optim_bits=8)
    result = {}
    for step in range(1, AT[-1] + 1):
        p.grad = gradient(step)
        optimizer.step()
        state = optimizer.state[p]
        if step == 1:
            result["map.m"], result["map.v"] = state["qmap1"].clone(), state["qmap2"].clone()
        if step in AT:
            result["p.%d" % step] = p.detach().clone()
            for key, name in (("state1", "m"), ("state2", "v"), ("absmax1", "m_max"), ("absmax2", "v_max")):
                result["%s.%d" % (name, step)] = state[key].clone()
    save_file(result, os.path.join(HERE, "coded.safetensors"))


def adamw(groups, lr, embeddings):
    manager = bitsandbytes.optim.GlobalOptimManager.get_instance()
    optimizer = bitsandbytes.optim.AdamW(groups, lr=lr, optim_bits=8)
    manager.pid2config.clear()  # by addresses, which a later model has again
    for p in embeddings:
        manager.pid2config[id(p)] = {"optim_bits": 32}
    return optimizer


def train(folder, ids):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    named = list(model.named_parameters())
    optimizer = adamw([{"params": [p for n, p in named if full.decays(n)], "weight_decay": full.DECAY},
                       {"params": [p for n, p in named if not full.decays(n)], "weight_decay": 0.0}], full.LR,
                      [p for n, p in named if "embed_tokens" in n])
    targets = sum(x.shape[1] - 1 for x in ids)
    losses, norms = [], []
    for _ in range(full.STEPS):
        total = 0
        for x in ids:
            logits = model(input_ids=x).logits[0, :-1]
            loss = torch.nn.functional.cross_entropy(logits, x[0, 1:], reduction="sum") / targets
            loss.backward()
            total += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), full.CLIP).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    bits = {n: "8" if optimizer.state[p]["state1"].dtype == torch.uint8 else "32" for n, p in named}
    return {"losses": losses, "norms": norms, "bits": bits}


def main():
    flowtrain = os.path.abspath(sys.argv[1])
    one_tensor()
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, at, ids in full.made(flowtrain, folder, ("llama", "qwen2-tied")):
            result[name] = train(at, ids)
    with open(os.path.join(HERE, "coded.json"), "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
