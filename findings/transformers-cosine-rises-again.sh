#!/bin/sh
# transformers 5.24.0 with torch 2.9.1: beyond the steps that it was made for, lr_scheduler_type cosine rises again (so does
# cosine_with_min_lr), while linear, polynomial, cosine_with_restarts and warmup_stable_decay stay at their last rate. A run that goes on
# behind its last step, with its scheduler as it was saved, trains at a growing rate by one name and stands still by another.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 transformers==5.24.0

seen "linear: 0.125 0.0 | 0.0 0.0 0.0
polynomial: 0.125 0.0 | 0.0 0.0 0.0
cosine: 0.0381 0.0 | 0.0381 0.1464 0.3087
cosine_with_min_lr: 0.1343 0.1 | 0.1343 0.2318 0.3778
cosine_with_restarts: 0.1464 0.0 | 0.0 0.0 0.0
warmup_stable_decay: 0.25 0.0 | 0.0 0.0 0.0" << 'END'
import torch
from transformers import get_scheduler

STEPS = 10
special = {"cosine_with_min_lr": {"min_lr": 0.1}, "cosine_with_restarts": {"num_cycles": 2},
           "warmup_stable_decay": {"num_decay_steps": 3}}
for name in ("linear", "polynomial", "cosine", "cosine_with_min_lr", "cosine_with_restarts", "warmup_stable_decay"):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = get_scheduler(
        name, optimizer, num_warmup_steps=2, num_training_steps=STEPS, scheduler_specific_kwargs=special.get(name))
    rates = []
    for _ in range(STEPS + 4):
        rates.append(round(optimizer.param_groups[0]["lr"], 4))
        optimizer.step()
        scheduler.step()
    print(f"{name}:", *rates[STEPS - 1:STEPS + 1], "|", *rates[STEPS + 1:])
END
