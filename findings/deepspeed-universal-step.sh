#!/bin/sh
# deepspeed 0.19.8: ds_to_universal.py writes Adam's count of updates beside each parameter (zero/NAME/step.pt) where the checkpoint is of
# stage 2. Of one of stage 3 no such file is written: there the count stands in the optimizer's states alone, in zero/optimizer_state.pt.
# A reader that looks for step.pt takes a training of stage 3 for one without updates, and its bias corrections begin anew.
. "$(dirname "$0")/lib.sh"
export DS_BUILD_OPS=0 DS_ACCELERATOR=cpu CUDA_VISIBLE_DEVICES=
packages torch==2.9.1 numpy setuptools==80.9.0 wheel ninja
packages --no-build-isolation deepspeed==0.19.8
PATH=$folder/venv/bin:$PATH

seen "stage 2: exp_avg.pt exp_avg_sq.pt fp32.pt step.pt; step.pt says 3
stage 3: exp_avg.pt exp_avg_sq.pt fp32.pt" << 'END'
import os
import subprocess
import sys

import deepspeed
import torch
from deepspeed.checkpoint import ds_to_universal

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29545")
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
    for _ in range(3):
        engine.backward(engine(torch.ones(1, 5)).sum())
        engine.step()
    at = "stage%d" % stage
    engine.save_checkpoint(at, tag="now")
    subprocess.run([sys.executable, ds_to_universal.__file__, "--input_folder", at + "/now", "--output_folder", at + "/universal",
                    "--inject_missing_state"], check=True, stdout=2)
    files = sorted(os.listdir(at + "/universal/zero/weight"))
    text = "stage %d: %s" % (stage, " ".join(files))
    if "step.pt" in files:
        text += "; step.pt says %d" % int(torch.load(at + "/universal/zero/weight/step.pt", weights_only=False))
    os.write(out, (text + "\n").encode())
END
