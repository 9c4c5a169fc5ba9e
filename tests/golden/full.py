#!/usr/bin/env python3
"""Golden data of full fine-tuning: losses and gradient norms of ten steps of AdamW over all weights, by torch.

Models are those of full_models.json, as `flowtrain init --config` draws them from seed 42; every step trains on the same
two texts (stage pt without packing, as LLaMA-Factory has it: the closing token is no target). Writes full.json beside
this file: {name: {"losses": [...], "norms": [...]}}. f32 runs are computed in f64, so that their own rounding is
none; "-bf16" runs have a bf16 module with f32 masters, moments and sums of gradients.

Usage: full.py FLOWTRAIN   (needs torch, transformers)
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
LR, DECAY, CLIP, STEPS = 1e-3, 0.1, 1.0, 10


def decays(name):
    return "norm" not in name and "bias" not in name


def batches(flowtrain, model):
    with open(os.path.join(HERE, "full_models.json")) as f:
        texts = json.load(f)["texts"]
    run = subprocess.run([flowtrain, "tokenize", "--tokenizer", model], text=True, capture_output=True, check=True,
                         input="".join(json.dumps(text) + "\n" for text in texts))
    return [torch.tensor([json.loads(line)]) for line in run.stdout.splitlines()]


def train(folder, ids, bf16):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16 if bf16 else torch.float64,
                                                 attn_implementation="eager", experts_implementation="eager")
    named = list(model.named_parameters())
    masters = [p.detach().to(torch.float32 if bf16 else torch.float64).clone().requires_grad_() for _, p in named]
    groups = [{"params": [m for (n, _), m in zip(named, masters) if decays(n)], "weight_decay": DECAY},
              {"params": [m for (n, _), m in zip(named, masters) if not decays(n)], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR)
    targets = sum(x.shape[1] - 1 for x in ids)
    losses, norms = [], []
    for _ in range(STEPS):
        for m in masters:
            m.grad = torch.zeros_like(m)
        total = 0
        for x in ids:
            logits = model(input_ids=x).logits[0, :-1].to(masters[0].dtype)
            loss = torch.nn.functional.cross_entropy(logits, x[0, 1:], reduction="sum") / targets
            loss.backward()
            total += loss.item()
            for (_, p), m in zip(named, masters):
                if p.grad is not None:
                    m.grad += p.grad.to(m.dtype)
                p.grad = None
        norms.append(torch.nn.utils.clip_grad_norm_(masters, CLIP).item())
        optimizer.step()
        with torch.no_grad():
            for (_, p), m in zip(named, masters):
                p.copy_(m)
        losses.append(total)
    return {"losses": losses, "norms": norms}


def made(flowtrain, folder, names=None):
    """Makes models of full_models.json (all) in a folder; gives the name, the model's folder and its batches of each."""
    with open(os.path.join(HERE, "full_models.json")) as f:
        models = json.load(f)["models"]
    example = os.path.join(folder, "ex")
    subprocess.run([flowtrain, "init", "--example", example], check=True, stdout=subprocess.DEVNULL)
    for name in names or models:
        at = os.path.join(folder, name)
        os.mkdir(at + "-config")
        with open(os.path.join(at + "-config", "config.json"), "w") as f:
            json.dump(models[name], f)
        subprocess.run([flowtrain, "init", "--config", at + "-config", "--output", at, "--tokenizer",
                        os.path.join(example, "model")], check=True, stdout=subprocess.DEVNULL)
        yield name, at, batches(flowtrain, at)


def main():
    flowtrain = os.path.abspath(sys.argv[1])
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, at, ids in made(flowtrain, folder):
            result[name] = train(at, ids, False)
            result[name + "-bf16"] = train(at, ids, True)
    with open(os.path.join(HERE, "full.json"), "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
