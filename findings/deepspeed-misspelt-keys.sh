#!/bin/sh
# deepspeed 0.19.8: a key that does not exist is an error in one block of the file and taken without a word in another. zero_optimization,
# its offload blocks, fp16 and bf16 refuse it; the top of the file, optimizer, scheduler, data_types, aio and activation_checkpointing
# take it, and what it should have set keeps its default. So `gradient_cliping: 0.5` trains with another clipping.
. "$(dirname "$0")/lib.sh"
export DS_BUILD_OPS=0 DS_ACCELERATOR=cpu CUDA_VISIBLE_DEVICES=
packages torch==2.9.1 numpy setuptools==80.9.0 wheel ninja
packages --no-build-isolation deepspeed==0.19.8

seen "top of the file: taken
optimizer: taken
scheduler: taken
data_types: taken
aio: taken
activation_checkpointing: taken
zero_optimization: refused
offload_optimizer: refused
fp16: refused
bf16: refused
the clipping under gradient_cliping 0.5: 1.0" << 'END'
import os
import sys

import deepspeed
from deepspeed.runtime.config import DeepSpeedConfig

sys.stdout.flush()
out = os.dup(1)
os.dup2(2, 1)  # what the package prints
blocks = {
    "top of the file": {"gradient_cliping": 0.5},
    "optimizer": {"optimizer": {"type": "AdamW", "parms": {"lr": 1e-3}}},
    "scheduler": {"scheduler": {"type": "WarmupLR", "params": {"warmup_stps": 3}}},
    "data_types": {"data_types": {"grad_acum_dtype": "fp32"}},
    "aio": {"aio": {"block_sise": 4096}},
    "activation_checkpointing": {"activation_checkpointing": {"partition_activation": True}},
    "zero_optimization": {"zero_optimization": {"stage": 2, "overlap_com": True}},
    "offload_optimizer": {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memry": True}}},
    "fp16": {"fp16": {"enabled": True, "loss_scal": 128}},
    "bf16": {"bf16": {"enabled": True, "imediate": True}},
}
batch = {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}
for name, block in blocks.items():
    try:
        config = DeepSpeedConfig({**batch, **block})
        answer = "taken"
    except ValueError:
        answer = "refused"
    os.write(out, f"{name}: {answer}\n".encode())
clipping = DeepSpeedConfig({**batch, **blocks["top of the file"]}).gradient_clipping
os.write(out, f"the clipping under gradient_cliping 0.5: {clipping}\n".encode())
END
