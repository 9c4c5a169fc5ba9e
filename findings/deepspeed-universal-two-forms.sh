#!/bin/sh
# deepspeed 0.19.8: ds_to_universal.py writes zero/NAME/fp32.pt in two forms. Of a checkpoint of stage 2 the file is a dict whose `param`
# has the parameter's shape; of one of stage 3 it is the tensor itself, flat. The folder says nowhere which of them it has, so a
# reader has to ask each file. Both lead to the same weights.
. "$(dirname "$0")/lib.sh"
export DS_BUILD_OPS=0 DS_ACCELERATOR=cpu CUDA_VISIBLE_DEVICES=
packages torch==2.9.1 numpy setuptools==80.9.0 wheel ninja
packages --no-build-isolation deepspeed==0.19.8
PATH=$folder/venv/bin:$PATH

seen "stage 2: weight/fp32.pt is a dict of cat_dim, param; the weight has the shape (3, 5)
stage 3: weight/fp32.pt is a Tensor; the weight has the shape (15,)" << 'END'
import os
import subprocess
import sys

import deepspeed
import torch
from deepspeed.checkpoint import ds_to_universal

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29544")
sys.stdout.flush()
out = os.dup(1)
os.dup2(2, 1)  # what the packages print
deepspeed.init_distributed("gloo")
for stage in (2, 3):
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3, bias=False)
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}}}
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
    engine.backward(engine(torch.ones(1, 5)).sum())
    engine.step()
    at = "stage%d" % stage
    engine.save_checkpoint(at, tag="now")
    subprocess.run([sys.executable, ds_to_universal.__file__, "--input_folder", at + "/now", "--output_folder", at + "/universal",
                    "--inject_missing_state"], check=True, stdout=2)
    found = torch.load(at + "/universal/zero/weight/fp32.pt", weights_only=False)
    form = "a dict of " + ", ".join(sorted(found)) if isinstance(found, dict) else "a " + type(found).__name__
    weight = found["param"] if isinstance(found, dict) else found
    os.write(out, ("stage %d: weight/fp32.pt is %s; the weight has the shape %s\n" % (stage, form, tuple(weight.shape))).encode())
END
