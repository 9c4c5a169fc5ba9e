#!/usr/bin/env python3
"""The table that a run prints before it loads against what its processes then take.

usage: trainer_memory.py BUILD [full]   full: a model of 1.1 GB instead of 0.3, as the suite takes
Each rank's peak resident memory less its peak before loading: within 5 % of the table or 32 MB.
"""
import json
import re
import subprocess
import sys

import trainer_lib as t

SIZES = dict(vocab_size=32000, hidden_size=1024, num_hidden_layers=8, num_attention_heads=16,
             num_key_value_heads=16, q_lora_rank=384, kv_lora_rank=256, qk_nope_head_dim=64,
             qk_rope_head_dim=32, v_head_dim=64, intermediate_size=4096, moe_intermediate_size=512,
             n_routed_experts=40, n_group=4, num_experts_per_tok=4)


STAY = json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3},
                   "moe": {"enabled": True, "expert_group": "world"}})


def make(full):
    with open("ex/model/config.json") as f:
        config = json.load(f)
    config.update(SIZES)
    if not full:
        config["num_hidden_layers"] = 3
        config["n_routed_experts"] = 16
    with open("config.json", "w") as f:
        json.dump(config, f)
    subprocess.run([t.flowtrain, "init", "--config", "config.json", "--output", "model",
                    "--tokenizer", "ex/model"], check=True, stdout=subprocess.DEVNULL)


def compare(world, batch, **more):
    what = "W=%d B=%d %s%s" % (world, batch, "bf16" if "bf16" in more else "f32",
                               ", experts stay" if "deepspeed" in more else "")
    run = t.train(what, "out", world, steps=1, accumulation=1, per_device_train_batch_size=batch,
                  save_strategy="no", no_resume_state=True, overwrite_output_dir=True,
                  model_name_or_path="model", **more)
    found = re.findall(r"Memory of rank (\d+): the table says ([\d.]+) MiB, the process's peak grew by ([\d.]+) MiB",
                       run.text())
    t.same(what + ": every rank tells", [int(f[0]) for f in found], list(range(world)))
    for rank, table, peak in found:
        table, peak = float(table), float(peak)
        print("%s rank %s: table %.1f MiB, peak %.1f MiB" % (what, rank, table, peak))
        t.check("%s: rank %s" % (what, rank), abs(peak - table) <= max(0.05 * table, 32e6 / 2 ** 20))


def main():
    t.begin()
    full = sys.argv[2:] == ["full"]
    make(full)
    for world in (1, 2, 4) if full else (2,):
        compare(world, 1, bf16=True)
    compare(1, 16, bf16=True)
    compare(2, 8, deepspeed=STAY)
    if full:
        compare(2, 32)
        compare(2, 32, bf16=True)
    t.finish()


main()
