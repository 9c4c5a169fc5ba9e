#!/usr/bin/env python3
"""Checkpoints in FP8 as DeepSeek-V3 and Qwen3 are released: linears in E4M3 with one f32 multiplier a block,
in a shard of their own; embedding, norms, head and router in bf16. Golden models are converted and must give
what their dequantised f32 twins give, through `flowtrain forward` and `flowtrain train`.

usage: trainer_fp8.py BUILD [cpu|cuda]     (cuda: on the simulated GPU)

Tolerances, relative: logits, loss and every adapter gradient in f32 1e-5 of the tensor's 2-norm, chosen
experts equal; losses and gradient norms of f32 trainings 1e-5. bf16 trainings on the same device: the same bits, for
a weight is decoded to what the twin's is rounded to. `flowtrain convert` gives the twin in bf16, byte for byte, and
FP8 as one would code it, but for ties.
"""
import json
import math
import os
import shutil
import struct
import sys

import trainer_lib as t
from fp8_lib import LINEAR, convert, floats, read, write

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")


def distance(got, want):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want))


def forward(name, folder, device, out):
    batch = read(os.path.join(GOLDEN, name, "golden.safetensors"))
    numbers = {k: struct.unpack("<%dq" % (len(batch[k][2]) // 8), batch[k][2])
               for k in ("input_ids", "labels", "lengths")}
    width = len(numbers["input_ids"]) // len(numbers["lengths"])
    for k in ("input_ids", "labels"):
        with open(k + ".json", "w") as f:
            json.dump([numbers[k][b * width:b * width + n] for b, n in enumerate(numbers["lengths"])], f)
    run = t.Run(["forward", "--model_name_or_path", folder, "--adapter_name_or_path", folder, "--input_ids",
                 "input_ids.json", "--labels", "labels.json", "--grads", "--output", out, "--device", device])
    t.check("forward of " + folder, run.wait() == 0, run.text()[-2000:])
    return read(out)


def same_answers(name, block, device):
    folder = "%s-%d" % (os.path.basename(name), block[0])
    convert(os.path.join(GOLDEN, name), folder, folder + "-twin", block)
    got = forward(name, folder, device, "got.safetensors")
    want = forward(name, folder + "-twin", "cpu", "want.safetensors")
    first = forward(name, os.path.join(GOLDEN, name), "cpu", "first.safetensors")
    t.same(folder + ": tensors", sorted(got), sorted(want))
    worst = 0
    for key in want:
        if key.startswith("experts"):
            t.same("%s: %s" % (folder, key), got[key], want[key])
            continue
        off = distance(floats("F32", got[key][2]), floats("F32", want[key][2]))
        worst = max(worst, off)
        t.check("%s: %s" % (folder, key), off <= 1e-5, off)
    moved = distance(floats("F32", first["logits"][2]), floats("F32", want["logits"][2]))
    print("%s, blocks of %d: %d tensors, worst %.2g; quantising moved the logits by %.2g" %
          (name, block[0], len(want), worst, moved))
    t.check(folder + ": quantising is felt", moved > 1e-3, moved)


SIZES = dict(hidden_size=160, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32,
             kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, intermediate_size=136,
             moe_intermediate_size=24, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2,
             first_k_dense_replace=1)
HOST = json.dumps({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                   "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})


STAY = json.dumps({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3},
                   "moe": {"enabled": True, "expert_group": "world"}})


# Windows of one expert, of which nothing is kept.
NARROW = json.dumps({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                     "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 24000,
                                           "stage3_max_reuse_distance": 0}})


def run(out, folder, device, world=1, **more):
    t.train("train " + out, out, world, model_name_or_path=folder, device=device, steps=3, accumulation=2 // world,
            cutoff_len=32, train_on_prompt=True, save_strategy="no", no_resume_state=True,
            **{"lora_dropout": 0, **more})
    steps = [(e["loss"], e["grad_norm"]) for e in t.log_lines(out) if "loss" in e]
    t.same(out + ": steps", len(steps), 3)
    return steps


def near(what, got, want, loss, norm):
    worst = [max([abs(a[i] / b[i] - 1) for a, b in zip(got, want)] or [9]) for i in (0, 1)]
    print("%s: losses within %.2g, gradient norms within %.2g" % (what, *worst))
    t.check(what + ": losses", worst[0] <= loss, worst[0])
    t.check(what + ": gradient norms", worst[1] <= norm, worst[1])


def trainings(device):
    """Blocks of 128 that divide by nothing: matrices of 160 have two by two."""
    with open("ex/model/config.json") as f:
        config = dict(json.load(f), **SIZES)
    with open("config.json", "w") as f:
        json.dump(config, f)
    one = t.Run(["init", "--config", "config.json", "--output", "model", "--tokenizer", "ex/model"])
    t.check("init", one.wait() == 0, one.text())
    convert("model", "fp8", "fp8-twin", [128, 128])
    want = run("w", "fp8-twin", "cpu")
    near("1 rank", run("one", "fp8", device), want, 1e-5, 1e-5)
    near("2 ranks, ZeRO-3", run("two", "fp8", device, 2), want, 1e-5, 1e-5)
    near("experts that stay", run("stay", "fp8", device, 2, deepspeed=STAY), want, 1e-5, 1e-5)
    near("weights on the host", run("host", "fp8", device, 2, deepspeed=HOST), want, 1e-5, 1e-5)
    for what, world, more in (("half", 1, {}), ("half-two", 2, {}), ("half-stay", 2, dict(deepspeed=STAY)),
                              ("half-narrow", 2, dict(deepspeed=NARROW))):
        more = dict(bf16=True, **more)
        t.same("bf16: " + what, run(what, "fp8", device, world, **more), run(what + "-twin", "fp8-twin", device, world, **more))


def converted():
    """There and back: FP8 in blocks as they were; the twin rounded to bf16."""
    for folder, to, out in (("fp8", "bf16", "as-bf16"), ("as-bf16", "fp8", "as-fp8"), ("model", "fp8", "from-model")):
        one = t.Run(["convert", "--model_name_or_path", folder, "--to", to, "--output", out])
        t.check("convert %s to %s" % (folder, to), one.wait() == 0, one.text())
    with open("fp8/config.json") as a, open("as-fp8/config.json") as b:
        t.same("the configuration of FP8", json.load(b), json.load(a))
    twin, bf16 = read("fp8-twin/model.safetensors"), read("as-bf16/model.safetensors")
    t.same("tensors of the twin", sorted(twin), sorted(bf16))
    for name, (dtype, shape, raw) in bf16.items():
        want = floats(twin[name][0], twin[name][2])
        t.check("%s in bf16" % name, dtype == "F32" or floats(dtype, raw) == [nearest_bf16(x) for x in want])
    parts = [read("fp8/model-%05d-of-00002.safetensors" % k) for k in (1, 2)]
    released, again, coded = {**parts[0], **parts[1]}, read("as-fp8/model.safetensors"), read("from-model/model.safetensors")
    t.same("tensors of FP8", sorted(released), sorted(again))
    for name in released:
        t.check("%s coded" % name, almost(coded[name], released[name]))
        if name.endswith("_scale_inv"):
            off = max(abs(a / b - 1) for a, b in zip(floats("F32", again[name][2]), floats("F32", released[name][2])))
            t.check("%s there and back" % name, off <= 2.0 ** -8, off)
    for name in ("experts/mixtral_plain", "dense/qwen3_biases"):
        os.mkdir("alone")  # the golden folder has an adapter, too
        for file in ("config.json", "model.safetensors"):
            os.symlink(os.path.join(GOLDEN, name, file), os.path.join("alone", file))
        one = t.Run(["convert", "--model_name_or_path", "alone", "--to", "fp8", "--output", "all"])
        t.check("convert " + name, one.wait() == 0, one.text())
        shutil.rmtree("alone")
        found = read("all/model.safetensors")
        shutil.rmtree("all")
        t.same(name + ": what is coded", sorted(k for k in found if found[k][0] == "F8_E4M3"),
               sorted(k for k in found if LINEAR.search(k)))
    for words, want in ((["--to", "fp8"], "is in FP8 already"), (["--to", "int4"], "expected fp8 or bf16")):
        one = t.Run(["convert", "--model_name_or_path", "fp8", "--output", "no"] + words)
        t.same(want + ": exit status", one.wait(), 2)
        t.has(want, one.text(), want)


def almost(got, want):
    """Quotients are f32: what lies within 2^-24 of the middle between two codes may become either."""
    off = [abs(a - b) for a, b in zip(got[2], want[2])]
    return got[:2] == want[:2] and (got[0] == "F32" and not any(off) or max(off) <= 1 and sum(off) <= len(off) / 100)


def nearest_bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]


def broken():
    """Scales that are not what the weights need: one line that names the tensor."""
    q_a = "model.layers.0.self_attn.q_a_proj.weight"
    weights, scales = (read("fp8/model-%05d-of-00002.safetensors" % k) for k in (1, 2))
    dtype, shape, raw = scales[q_a + "_scale_inv"]
    rows = [("no scale", None, [q_a + "_scale_inv", "no such tensor"]),
            ("a transposed scale", (dtype, shape[::-1], raw), [q_a + "_scale_inv"]),
            ("a scale that is not finite", (dtype, shape, struct.pack("<f", float("nan")) + raw[4:]), [q_a, "finite"]),
            ("an infinite scale", (dtype, shape, raw[:-4] + struct.pack("<f", float("inf"))),
             [q_a + "_scale_inv", "holds a value that is not finite"]),
            ("a scale of zero", (dtype, shape, raw[:-4] + bytes(4)),
             [q_a + "_scale_inv", "holds a scale of 0 or below, expected above 0"]),
            ("a negative scale", (dtype, shape, struct.pack("<f", -1) + raw[4:]),
             [q_a + "_scale_inv", "holds a scale of 0 or below, expected above 0"]),
            ("a weight that is not FP8", "bf16", [q_a, "is bf16, f8_e4m3 is needed"])]
    for what, scale, parts in rows:
        folder = what.replace(" ", "-")
        os.mkdir(folder)
        for name in os.listdir("fp8"):
            if not name.endswith((".safetensors", "index.json")):
                os.symlink(os.path.abspath("fp8/" + name), folder + "/" + name)
        tensors = {**weights, **scales}
        if scale == "bf16":
            tensors[q_a] = ("BF16", weights[q_a][1], bytes(2 * len(weights[q_a][2])))
        elif scale is None:
            del tensors[q_a + "_scale_inv"]
        else:
            tensors[q_a + "_scale_inv"] = scale
        write(folder + "/model.safetensors", tensors)
        run = t.launch("out-" + folder, 1, model_name_or_path=folder, steps=1, accumulation=1)
        t.same(what + ": exit status", run.wait(), 2)
        for part in parts:
            t.has(what, run.text(), part)


def main():
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    t.begin()
    if device == "cuda":
        t.simulate()
    for name, block in (("deepseek_v3/yarn", [128, 128]), ("deepseek_v3/no_q_lora", [16, 16]),
                        ("deepseek_v3/two_shared", [24, 32]), ("dense/llama_plain", [128, 128]),
                        ("dense/qwen2_each_kv", [16, 16]), ("dense/qwen3_biases", [24, 32]),
                        ("experts/mixtral_plain", [16, 24]), ("experts/qwen3_moe_mixed", [8, 16]))[:4 if device == "cuda" else None]:
        same_answers(name, block, device)
    trainings(device)
    if device == "cpu":
        converted()
        broken()
    t.finish()


main()
