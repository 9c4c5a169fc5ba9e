#!/usr/bin/env python3
"""Experts that stay on simulated GPUs over nodes of other shapes, by a simulated NCCL in checking mode: the
losses of one rank on the CPU within the bound of f32, the same layout twice the same bits.

usage: experts.py BUILD
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import trainer_lib as t  # noqa: E402

SIZES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32,
             kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, intermediate_size=128,
             moe_intermediate_size=32, n_routed_experts=16, num_experts_per_tok=4, n_group=4, topk_group=2,
             first_k_dense_replace=1)
BASE = dict(model_name_or_path="model", cutoff_len=32, train_on_prompt=True, save_strategy="no", lora_rank=4, steps=2)
SAMPLES = 12


def layout(**moe):
    return json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3},
                       "moe": dict(enabled=True, **moe)})


def nodes(out, sizes, **more):
    """A launcher a node, with so many ranks each, which see their own devices."""
    world, port, runs = sum(sizes), t.free_port(), []
    for node, ranks in enumerate(sizes):
        for local in range(ranks):
            env = dict(RANK=sum(sizes[:node]) + local, WORLD_SIZE=world, LOCAL_RANK=local, LOCAL_WORLD_SIZE=ranks,
                       GROUP_RANK=node, GROUP_WORLD_SIZE=len(sizes), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            words = t.train_args("%s-%d" % (out, node), accumulation=SAMPLES // world, device="cuda", **dict(BASE, **more))
            runs.append(t.Run(words, TORCH_DISTRIBUTED_DEBUG="DETAIL", **{k: str(v) for k, v in env.items()}))
    for run in runs:
        t.check(out + ": ends", run.wait(200) == 0, run.text()[-3000:])
    t.has(out + ": the simulator computes", runs[0].text(), "cudasim sm_90")
    return out + "-0"


def near(what, got, want):
    pairs = [[(e["loss"], e["grad_norm"]) for e in t.log_lines(out) if "loss" in e] for out in (got, want)]
    t.same(what + ": steps", (len(pairs[0]), len(pairs[1])), (2, 2))
    for (loss, norm), (one, one_norm) in zip(*pairs):
        t.check(what + ": loss", abs(loss / one - 1) <= 1e-5, (loss, one))
        t.check(what + ": gradient norm", abs(norm / one_norm - 1) <= 1e-4, (norm, one_norm))


def main():
    t.begin()
    t.simulate()
    with open("ex/model/config.json") as f:
        config = dict(json.load(f), **SIZES)
    with open("config.json", "w") as f:
        json.dump(config, f)
    subprocess.run([t.flowtrain, "init", "--config", "config.json", "--output", "model", "--tokenizer", "ex/model"],
                   check=True, stdout=subprocess.DEVNULL)
    t.train("one", "one", 1, accumulation=SAMPLES, device="cpu", **BASE)
    for name, sizes, moe in (("2x2", (2, 2), dict(expert_group="world")), ("3+1", (3, 1), dict(expert_group="world")),
                             ("pairs", (2, 2), dict(expert_parallel_size=2)), ("three", (1, 2), dict(expert_group="world"))):
        near(name, nodes(name, sizes, deepspeed=layout(**moe)), "one")
    again = nodes("again", (3, 1), deepspeed=layout(expert_group="world"))
    t.same("the same layout twice", t.losses(again), t.losses("3+1-0"))
    t.finish()


main()
