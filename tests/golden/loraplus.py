#!/usr/bin/env python3
"""Ten AdamW steps of LoRA+ by LLaMA-Factory's own optimizer, for tests/unit/trainer/train/parity_test.c.

    PYTHON tests/golden/loraplus.py       # with torch, transformers, peft, llamafactory 0.9.5; writes loraplus.json

For some folders of dense/: the batch and the adapter of golden.safetensors, the optimizer that create_custom_optimizer makes of
loraplus_lr_ratio. A row: ratio, losses (the loss before each step), and moved: for each adapter tensor the 2-norm of what it moved.
"""
import importlib.machinery
import json
import os
import sys
import types

import peft
import torch
import transformers
from safetensors import safe_open

sound = types.ModuleType("torchaudio")  # which no model here hears
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
from llamafactory.hparams import FinetuningArguments, TrainingArguments
from llamafactory.train.trainer_utils import create_custom_optimizer

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 10
ROWS = [("dense/llama_plain", 16.0), ("dense/qwen3_biases", 4.5), ("dense/mistral_one_kv", 0.25)]


def row(name, ratio):
    folder = os.path.join(HERE, name)
    config = transformers.AutoConfig.from_pretrained(folder)
    base = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with safe_open(folder + "/model.safetensors", "pt") as f:
        state = {key: f.get_tensor(key).float() for key in f.keys()}
    lacks = base.load_state_dict(state, strict=False)
    assert not lacks.unexpected_keys and set(lacks.missing_keys) <= {"lm_head.weight"}, lacks
    base.tie_weights()
    model = peft.PeftModel.from_pretrained(base.eval(), folder, is_trainable=True).eval()
    with safe_open(folder + "/golden.safetensors", "pt") as f:
        ids, labels, lengths, steps = (f.get_tensor(key) for key in ("input_ids", "labels", "lengths", "steps.loss"))
    mask = (torch.arange(ids.shape[1])[None, :] < lengths[:, None]).long()
    args = TrainingArguments(output_dir="/tmp/none", learning_rate=3e-5, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8,
                             weight_decay=0.1, use_cpu=True, report_to="none", optim="adamw_torch")
    optimizer = create_custom_optimizer(model, args, FinetuningArguments(finetuning_type="lora", loraplus_lr_ratio=ratio))
    rates = sorted({group["lr"] for group in optimizer.param_groups if group["params"]})
    assert rates == sorted({3e-5, 3e-5 * ratio}), rates
    start = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
    losses = []
    for _ in range(STEPS):
        model.zero_grad()
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    assert abs(losses[0] - steps[0].item()) < 1e-5 and abs(losses[-1] - steps[-1].item()) > 1e-4, (losses, steps)
    moved = {n.replace(".default", ""): (p.detach() - start[n]).norm().item() for n, p in model.named_parameters() if n in start}
    return {"model": name, "ratio": ratio, "losses": losses, "moved": moved}


def main():
    torch.set_num_threads(1)
    rows = [row(*values) for values in ROWS]
    with open(os.path.join(HERE, "loraplus.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    for r in rows:
        print(r["model"], r["losses"])


main()
