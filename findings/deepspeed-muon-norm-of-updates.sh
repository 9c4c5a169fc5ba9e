#!/bin/sh
# deepspeed 0.19.8: with the optimizer Muon the gradient norm that the engine tells, and clips by, is of gradients at ZeRO stage 0 and
# of the orthogonalised updates at stages 1 to 3, where Muon's iteration runs before the norm is taken. There it says nothing of the
# gradients: a loss 1,000 times as large has the same norm (but for the iteration's rounding), and gradient_clipping 1.0 shortens every
# step, whose norm is about the root of the sum of all matrices' smaller sides.
. "$(dirname "$0")/lib.sh"
export DS_BUILD_OPS=0 DS_ACCELERATOR=cpu CUDA_VISIBLE_DEVICES= TORCHDYNAMO_DISABLE=1
packages torch==2.9.1 numpy setuptools==80.9.0 wheel ninja
packages --no-build-isolation deepspeed==0.19.8

seen "stage 0: the norm of a loss 1000 times as large is 1000 times as large
stage 1: the norm of a loss 1000 times as large is 1 times as large
stage 2: the norm of a loss 1000 times as large is 1 times as large
stage 3: the norm of a loss 1000 times as large is 1 times as large" << 'END'
import os
import sys

sys.stdout.flush()
out = os.dup(1)
os.dup2(2, 1)  # what the package prints
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29737")
import torch
import deepspeed

deepspeed.init_distributed("gloo")
for stage in 0, 1, 2, 3:
    norms = []
    for factor in 1, 1000:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(16, 16, bias=False))
        model[0].weight.use_muon = True
        config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": stage, "reduce_scatter": False},
                  "optimizer": {"type": "Muon", "params": {"lr": 1e-3, "ns_method": "standard"}}}
        engine = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)[0]
        x = torch.randn(4, 16)
        engine.backward(factor * engine(x).square().mean())
        if stage == 0:
            norms.append(float(torch.nn.utils.get_total_norm([p.grad for p in engine.module.parameters()])))
            engine.step()
        else:
            engine.step()
            norms.append(float(engine.get_global_grad_norm()))
    ratio = round(norms[1] / norms[0])
    os.write(out, f"stage {stage}: the norm of a loss 1000 times as large is {ratio} times as large\n".encode())
END
