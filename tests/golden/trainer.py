#!/usr/bin/env python3
"""Golden data of the trainer's arithmetic: learning rates of transformers' and DeepSpeed's schedulers,
and what transformers counts as floating-point operations for one token of the models in deepseek_v3/.

Writes trainer.json beside this file:

    schedules   name, type (of --lr_scheduler_type), kwargs (null or an object), lr, warmup, total, and
                rates: the learning rate of updates 0, 1, …
    deepspeed   name, type, params of the "scheduler" block, lr, rates
    flops       model (a folder of deepseek_v3/), trainable parameters, flops of a token

Usage: trainer.py   (needs torch, transformers, peft, deepspeed)
"""
import json
import os

import deepspeed.runtime.lr_schedules as ds
import torch
import transformers
from transformers import AutoModelForCausalLM, Trainer, get_scheduler

HERE = os.path.dirname(os.path.abspath(__file__))
UPDATES = 14
SCHEDULES = [
    ("linear", "linear", None),
    ("cosine", "cosine", None),
    ("cosine of one and a half waves", "cosine", {"num_cycles": 1.5}),
    ("restarts", "cosine_with_restarts", None),
    ("three restarts", "cosine_with_restarts", {"num_cycles": 3}),
    ("polynomial", "polynomial", None),
    ("squared", "polynomial", {"power": 2.0, "lr_end": 1e-5}),
    ("constant", "constant", None),
    ("constant behind a warm-up", "constant_with_warmup", None),
    ("inverse root", "inverse_sqrt", None),
    ("inverse root of a time scale", "inverse_sqrt", {"timescale": 20}),
    ("lowest rate", "cosine_with_min_lr", {"min_lr": 2e-5}),
    ("lowest share", "cosine_with_min_lr", {"min_lr_rate": 0.25, "num_cycles": 0.75}),
    ("stable, then decay", "warmup_stable_decay", {"num_stable_steps": 3, "num_decay_steps": 4}),
    ("decay, then stable", "warmup_stable_decay", {"num_decay_steps": 4, "num_stable_steps": 3}),
    ("decay alone", "warmup_stable_decay", {"num_decay_steps": 4}),
    ("decay of more than there is", "warmup_stable_decay", {"num_decay_steps": 14}),
    ("lowest ratio", "warmup_stable_decay", {"min_lr_ratio": 0.1, "num_decay_steps": 5, "num_stable_steps": 2}),
    ("straight decay", "warmup_stable_decay", {"decay_type": "linear", "num_decay_steps": 5, "min_lr_ratio": 0.2}),
    ("roots", "warmup_stable_decay", {"decay_type": "1-sqrt", "warmup_type": "1-sqrt", "num_decay_steps": 5}),
    ("cosine warm-up", "warmup_stable_decay", {"warmup_type": "cosine", "num_decay_steps": 5, "num_cycles": 0.25}),
]
NUMBERS = [(2e-4, 3, 11), (1e-3, 0, 12), (0.0, 3, 11)]
DEEPSPEED = [
    ("WarmupLR", dict(warmup_num_steps=4)),
    ("WarmupLR", dict(warmup_num_steps=4, warmup_type="linear", warmup_min_lr=1e-5)),
    ("WarmupDecayLR", dict(warmup_num_steps=4, total_num_steps=10)),
    ("WarmupDecayLR", dict(warmup_num_steps=4, total_num_steps=10, warmup_type="linear", warmup_min_lr=1e-5)),
    ("WarmupCosineLR", dict(warmup_num_steps=4, total_num_steps=10)),
    ("WarmupCosineLR", dict(warmup_num_steps=3, total_num_steps=11, warmup_type="linear", warmup_min_ratio=0.1,
                            cos_min_ratio=0.01)),
]


def rates(make, lr):
    """The optimizer's rate at each update; None where the reference refuses the numbers."""
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    seen = []
    try:
        scheduler = make(optimizer)
        for _ in range(UPDATES):
            seen.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    except (ValueError, ZeroDivisionError):
        return None
    return seen


def schedules():
    for name, kind, kwargs in SCHEDULES:
        for lr, warmup, total in NUMBERS:
            found = rates(lambda o: get_scheduler(kind, o, num_warmup_steps=warmup, num_training_steps=total,
                                                  scheduler_specific_kwargs=kwargs), lr)
            yield {"name": name, "type": kind, "kwargs": kwargs, "lr": lr, "warmup": warmup, "total": total,
                   "rates": found}


def deepspeed_schedules(lr=2e-4):
    for kind, params in DEEPSPEED:
        full = dict(params) if kind == "WarmupCosineLR" else dict(params, warmup_max_lr=lr)
        yield {"name": kind, "type": kind, "params": full, "lr": lr,
               "rates": rates(lambda o: getattr(ds, kind)(o, **full), lr)}


class Counter(Trainer):
    """Only what floating_point_ops looks at."""

    def __init__(self, model):
        self.model = model


def flops():
    for name in sorted(os.listdir(os.path.join(HERE, "deepseek_v3"))):
        folder = os.path.join(HERE, "deepseek_v3", name)
        model = AutoModelForCausalLM.from_pretrained(folder)  # with its adapter
        adapter = sum(p.numel() for n, p in model.named_parameters() if "lora_" in n)
        yield {"model": name, "trainable": adapter,
               "flops": Counter(model).floating_point_ops({"input_ids": torch.zeros(1, 1)})}


def line(row):
    return "    " + json.dumps(row, ensure_ascii=False)


if __name__ == "__main__":
    parts = {"schedules": schedules(), "deepspeed": deepspeed_schedules(), "flops": flops()}
    text = ",\n".join('  "%s": [\n%s\n  ]' % (k, ",\n".join(map(line, v))) for k, v in parts.items())
    with open(os.path.join(HERE, "trainer.json"), "w") as f:
        f.write("{\n%s\n}\n" % text)
    print("transformers", transformers.__version__)
