#!/usr/bin/env python3
"""Full fine-tuning steps by transformers and torch's fused AdamW, and the parts of a step's end alone.

usage: full_peer.py step MODEL TEXT TOKENS SEQUENCE STEPS f32|bf16 all|none
       full_peer.py update ELEMENTS ROUNDS

step: the model folder and the text's samples that flowtrain takes for stage pt, in the text's order: the same losses in f32. bf16 is
a module in bf16 under autocast with f32 weights, as the Trainer does it. all: each layer's activations are computed again.
update: seconds of the gradient's norm and clipping, and of AdamW.
"""
import json
import statistics
import sys
import time

import torch


def peak_mib():
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1]) / 1024


def forget_peak():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def batches(tokenizer, path, tokens, sequence):
    """The texts with an end each, one after the other, cut into samples; padding's token is no target, as in LLaMA-Factory."""
    ids = []
    with open(path) as f:
        for line in f:
            ids += tokenizer(json.loads(line)["text"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    samples = torch.tensor(ids[:len(ids) // tokens * tokens]).view(-1, tokens // sequence, sequence)
    return zip(samples, samples.masked_fill(samples == tokenizer.pad_token_id, -100))


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, fused=True)


def step(model_path, text, tokens, sequence, steps, dtype, recompute):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32).train()
    model.config.use_cache = False
    if recompute == "all":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    data = batches(AutoTokenizer.from_pretrained(model_path), text, tokens, sequence)
    trained = list(model.parameters())
    optim = optimizer(trained)
    forget_peak()
    seconds = []
    for i in range(steps + 1):
        ids, labels = next(data)
        t = time.monotonic()
        optim.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optim.step()
        value = float(loss.detach())
        seconds += [time.monotonic() - t] if i > 0 else []
        print(f"step {i + 1}: loss {value:.4f}", flush=True)
    print(f"peer {tokens / statistics.median(seconds):.1f} tokens/s, peak {peak_mib():.0f} MiB")


def update(elements, rounds):
    size = elements // 8
    parameters = [torch.nn.Parameter(torch.randn(size)) for _ in range(8)]
    for p in parameters:
        p.grad = torch.randn(size)
    optim, norm, adamw = optimizer(parameters), [], []
    for _ in range(rounds + 1):
        t = time.monotonic()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        norm.append(time.monotonic() - t)
        t = time.monotonic()
        optim.step()
        adamw.append(time.monotonic() - t)
    print(f"peer norm and clipping {statistics.median(norm[1:]):.5f} s, AdamW {statistics.median(adamw[1:]):.5f} s")


if sys.argv[1] == "step":
    step(*sys.argv[2:4], *map(int, sys.argv[4:7]), *sys.argv[7:9])
else:
    update(*map(int, sys.argv[2:4]))
