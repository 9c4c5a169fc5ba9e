#!/bin/sh
# deepspeed 0.19.8: save_checkpoint() names frozen parameters from stage 2 on. Of stage 1 `frozen_param_shapes` is None, and
# zero_to_fp32.py then writes a model without them, and says nothing; their values stand in `module` of mp_rank_00_model_states.pt.
. "$(dirname "$0")/lib.sh"
export DS_BUILD_OPS=0 DS_ACCELERATOR=cpu CUDA_VISIBLE_DEVICES=
packages torch==2.9.1 numpy setuptools==80.9.0 wheel ninja
packages --no-build-isolation deepspeed==0.19.8
PATH=$folder/venv/bin:$PATH

seen "stage 1: zero_to_fp32 gives 1.weight; module has 0.weight 1.weight
stage 2: zero_to_fp32 gives 0.weight 1.weight; module has 0.weight 1.weight" << 'END'
import os
import sys

import deepspeed
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29545")
sys.stdout.flush()
out = os.dup(1)
os.dup2(2, 1)  # what the packages print
deepspeed.init_distributed("gloo")
for stage in (1, 2):
    model = torch.nn.Sequential(torch.nn.Linear(5, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
    model[0].weight.requires_grad = False
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}}}
    engine = deepspeed.initialize(model=model, model_parameters=model[1].parameters(), config=config)[0]
    engine.backward(engine(torch.ones(1, 5)).sum())
    engine.step()
    at = "stage%d" % stage
    engine.save_checkpoint(at, tag="now")
    given = sorted(get_fp32_state_dict_from_zero_checkpoint(at))
    module = sorted(torch.load(at + "/now/mp_rank_00_model_states.pt", weights_only=False)["module"])
    os.write(out, ("stage %d: zero_to_fp32 gives %s; module has %s\n" % (stage, " ".join(given), " ".join(module))).encode())
END
