#!/usr/bin/env python3
"""Golden data of Muon: losses and gradient norms of ten steps, by LLaMA-Factory's optimizer and by DeepSpeed's engine, over
models of full_models.json, set up as full.py sets them up. Writes muon.json beside this file: {run: {"losses", "norms"}}.

LLaMA-Factory's runs compute models in f64. DeepSpeed's run in f32 on the CPU, told that it has fp16, as GPUs have: the
iteration of its method "gram" is in fp16 then. Its norms at stages 1 to 3 are those of updates.

Usage: CUDA_VISIBLE_DEVICES= DS_ACCELERATOR=cpu TORCHDYNAMO_DISABLE=1 muon.py FLOWTRAIN MUON
MUON: src/llamafactory/third_party/muon/muon.py of LLaMA-Factory 0.9.5. Needs torch 2.9, transformers, deepspeed 0.19.8.
"""
import importlib.util
import json
import os
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import full  # noqa: E402

EPS = 1e-3  # so large that it shows whether it is added to the root of v before or after its correction
ADAM = {"betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": full.DECAY, "torch_adam": True}


def loss_of(model, ids):
    targets = sum(x.shape[1] - 1 for x in ids)
    return sum(torch.nn.functional.cross_entropy(model(input_ids=x).logits[0, :-1], x[0, 1:], reduction="sum") for x in ids) / targets


def llama_factory(module, folder, ids, eps=1e-8):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    matrices, others = [], []
    for name, p in model.named_parameters():
        (matrices if p.ndim == 2 and "embed" not in name and "lm_head" not in name else others).append(p)
    optimizer = module.Muon(lr=full.LR, wd=full.DECAY, muon_params=matrices, adamw_params=others, adamw_betas=(0.9, 0.999),
                            adamw_eps=eps)
    losses, norms = [], []
    for _ in range(full.STEPS):
        loss = loss_of(model, ids)
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), full.CLIP).item())
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": losses, "norms": norms}


def deepspeed_engine(folder, ids, stage, params):
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    get_accelerator().is_fp16_supported = lambda: True
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29531")
    deepspeed.init_distributed("gloo")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": full.CLIP,
              "zero_optimization": {"stage": stage, "reduce_scatter": False},
              "optimizer": {"type": "Muon", "params": dict(ADAM, lr=full.LR, **params)}}
    engine = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)[0]
    losses, norms = [], []
    for _ in range(full.STEPS):
        loss = loss_of(engine, ids)
        engine.backward(loss)
        norm = stage == 0 and torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        engine.step()
        losses.append(loss.item())
        norms.append(float(norm if stage == 0 else engine.get_global_grad_norm()))
    return {"losses": losses, "norms": norms}


def main():
    flowtrain = os.path.abspath(sys.argv[1])
    spec = importlib.util.spec_from_file_location("reference_muon", sys.argv[2])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, at, ids in full.made(flowtrain, folder, ("llama", "qwen2-tied")):
            result["flag-" + name] = llama_factory(module, at, ids)
            if name == "llama":
                result["flag-eps"] = llama_factory(module, at, ids, EPS)
                for run, stage, params in (("gram-0", 0, {}), ("gram-1", 1, {}), ("gram-3", 3, {}),
                                           ("standard-2", 2, {"ns_method": "standard"}),
                                           ("rates-2", 2, {"muon_lr": 5e-3, "adam_lr": 2e-4, "momentum": 0.9})):
                    result[run] = deepspeed_engine(at, ids, stage, params)
    with open(os.path.join(HERE, "muon.json"), "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
