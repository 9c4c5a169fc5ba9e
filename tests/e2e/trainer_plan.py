#!/usr/bin/env python3
"""flowtrain plan: the figures of DeepSeek-V3 on three clusters by formulas written apart
(tests/golden/plan.py), to 1 %; memory as the run's own table has it, and bytes as the run counts them;
whole plans as they were read in review.

usage: trainer_plan.py BUILD [write]     (write: tests/golden/plan/*.out anew, to be read before they are kept)
"""
import json
import os
import re
import shutil
import subprocess
import sys

import trainer_lib as t

HERE = os.path.dirname(os.path.abspath(t.__file__))
V3_LORA = ["--lora_rank", "16", "--lora_target", t.TARGETS, "--bf16", "true", "--per_device_train_batch_size", "1"]


def plan(*words):
    run = subprocess.run([t.flowtrain, "plan"] + [str(w) for w in words], capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


def plan_json(what, *words):
    code, out, err = plan("--json", *words)
    if not t.check(what + ": a plan", code == 0, err):
        return {"layouts": []}
    return json.loads(out)


def make_v3():
    """Only a configuration: no weights are asked for."""
    with open(os.path.join(HERE, "../bench/deepseek_v3.json")) as f:
        config = json.load(f)
    config.update(num_hidden_layers=61, first_k_dense_replace=3, quantization_config={
        "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})
    os.mkdir("v3")
    with open("v3/config.json", "w") as f:
        json.dump(config, f)


def near(what, got, want, part=0.01):
    t.check(what, abs(got - want) <= part * abs(want), "%g, expected %g" % (got, want))


def clusters():
    make_v3()
    with open(os.path.join(HERE, "../golden/plan.json")) as f:
        expected = json.load(f)
    for e in expected:
        what = "%d x %d %s, %d tokens, %s" % (e["nodes"], e["gpus"], e["gpu"], e["cutoff_len"],
                                              "FP8" if e["fp8"] else "bf16")
        got = plan_json(what, "--nodes", e["nodes"], "--gpus", e["gpus"], "--gpu", e["gpu"], "--network", e["network"],
                        *([] if e["fp8"] else ["--weights", "bf16"]), "v3", "--cutoff_len", e["cutoff_len"], *V3_LORA)
        for key in ("weights_bytes", "adapters", "flops_a_token", "far_all", "near_all", "near_node"):
            if key in e:
                near("%s: %s" % (what, key), got.get(key, 0), e[key])
        cared(what, got)
        layouts = {l["name"]: l for l in got["layouts"]}
        for want in e["layouts"]:
            have = layouts.get(want["name"], {})
            for key in ("passes", "work_s", "far_bytes", "near_bytes", "step_bytes", "step_s"):
                near("%s: %s of %s" % (what, key, want["name"]), have.get(key, -1), want[key])


def cared(what, got):
    """Of each layout: pinned memory of a node's ranks; a step; what a checkpoint, a start and a failure take with 2 GB/s of a
    disk and a failure a day."""
    for l in got["layouts"]:
        name = "%s, %s" % (what, l["name"])
        if l["memory"]:
            near(name + ": pinned memory", l["host_bytes"], 8 * sum(row["bytes"] for row in l["memory"] if row["host"]), 1e-9)
        near(name + ": links beside each other and beside the work", l["step_s"],
             max(l["work_s"], l["moves_s"]) + l["step_bytes"] / got["network"], 1e-6)
        near(name + ": a checkpoint", l["save_s"], got["checkpoint_bytes"] / 2e9, 1e-9)
        near(name + ": a start", l["load_s"], l["read_bytes"] / 2e9, 1e-9)
        steps = max(1, round((2 * l["save_s"] * 24 * 3600) ** 0.5 / l["step_s"]))
        t.same(name + ": steps between checkpoints", l["save_steps"], steps)
        near(name + ": a failure", l["failure_s"], l["load_s"] + steps * l["step_s"] / 2, 1e-9)


def same_numbers(got, want):
    """Alike but for the last digits, which other processors may round otherwise."""
    if isinstance(want, dict):
        return isinstance(got, dict) and list(got) == list(want) and all(same_numbers(got[k], want[k]) for k in want)
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same_numbers, got, want))
    if isinstance(want, float):
        return isinstance(got, float) and abs(got - want) <= 1e-9 * abs(want)
    return got == want


def whole():
    """Every line, and every figure of the JSON."""
    v3 = ["v3", "--cutoff_len", 2048, "--gradient_accumulation_steps", 4] + V3_LORA
    three = ["--nodes", 3, "--gpus", 8, "--gpu", "a100-80g", "--tokens", 1e9]
    odd = ["--network", 5, "--disk", 3, "--failures", 7, "--skew", 1.5, "--micro_batches", 6, "--host_memory", 2000]
    subprocess.run([t.flowtrain, "init", "--example", "plain", "--model", "llama"], check=True, stdout=subprocess.DEVNULL)
    for name, words in (("three.out", three + v3), ("odd.out", three + odd + v3), ("json.out", ["--json"] + three + odd + v3),
                        ("bf16.out", ["--gpu", "h200-141g", "--weights", "bf16"] + v3),
                        ("none.out", ["--gpu", "h200-141g", "--gpu_memory", 40, "--host_memory", 100] + v3),
                        ("dense.out", ["--nodes", 2, "--gpus", 4, "--gpu", "h100-80g", "plain/model", "--cutoff_len", 100]),
                        ("asked.out", ["--json", "--nodes", 2, "--gpus", 4, "v3", "--cutoff_len", 500, "--lora_target", "all",
                                       "--lora_rank", 8, "--lora_dropout", 0.1, "--recompute", "none", "--bf16", "true",
                                       "--per_device_train_batch_size", 3, "--deepspeed", json.dumps(dict(
                                           json.loads(t.ZERO3), moe={"enabled": True, "expert_group": "node"}))]),
                        ("check.out", ["--check"] + three + v3 + ["--deepspeed", t.ZERO3])):
        path = os.path.join(HERE, "../golden/plan", name)
        code, text, err = plan(*words)
        t.same(name + ": exit status", (code, err), (0, ""))
        if sys.argv[2:] == ["write"]:
            with open(path, "w") as f:
                f.write(text)
        with open(path) as f:
            want = f.read()
        if text[0] == "{":
            t.check(name, same_numbers(json.loads(text), json.loads(want)), text)
        else:
            t.same(name, text, want)


def choice():
    """What fits decides, then what is fastest."""
    three = ["--nodes", 3, "--gpus", 8, "--gpu", "a100-80g"]
    rows = (("bf16 experts of a node do not fit", three + ["--weights", "bf16"], "experts over all ranks"),
            ("FP8 fits eight H200", ["--gpu", "h200-141g"], "experts over all ranks"),
            ("little memory", ["--gpu", "h200-141g", "--gpu_memory", 40], "ZeRO-3, shards in host memory"),
            ("nor for the host", ["--gpu", "h200-141g", "--gpu_memory", 40, "--host_memory", 100], None),
            ("a larger GPU", three + ["--gpu_memory", 120], "experts on each node"))
    for what, words, want in rows:
        got = plan_json(what, *words, "v3", "--cutoff_len", 2048, *V3_LORA)
        t.same(what, got.get("best"), want)
    text = plan("--gpu", "h200-141g", "--gpu_memory", 40, "--host_memory", 100, "v3", "--cutoff_len", 2048, *V3_LORA)[1]
    t.has("nothing fits", text, "no layout that is built fits")
    t.has("why not", text, "experts over all ranks does not fit: a GPU needs ")
    t.has("why not, of the host", text, "shards in host memory does not fit: a node needs ")


def sizes(text):
    """{row: size} of a memory table."""
    return dict(re.findall(r"(?:^|>>) +([a-z][a-z -]+?) +(\d[\d.]* (?:B|KiB|MiB|GiB))", text, re.M))


def shown(size):
    unit = 0
    while size >= 1024 and unit < 3:
        size, unit = size / 1024, unit + 1
    return ("%d B" if unit == 0 else "%.1f %s") % ((size,) if unit == 0 else (size, ("", "KiB", "MiB", "GiB")[unit]))


def table(layout, moe, cutoff, recompute):
    """The run's own table. Every sample is cut, so that the longest has as many tokens as it may."""
    words = dict(cutoff_len=cutoff, lora_dropout=0, accumulation=1, steps=1, recompute=recompute)
    deepspeed = json.dumps(dict(json.loads(t.ZERO3), **moe))
    run = t.train(layout, layout.replace(" ", "-") + "-" + recompute, 2, deepspeed=deepspeed, tokenized_path=None, **words)
    args = t.train_args("out", deepspeed=deepspeed, **words)[1:]
    layouts = {l["name"]: l for l in plan_json(layout, "--gpus", 2, "--", *args)["layouts"]}
    got = {row["name"]: shown(row["bytes"]) for row in layouts[layout]["memory"]}
    want = sizes(run.text())
    t.check(layout + ": rows", len(want) > 8, run.text())
    for name in sorted(set(want) - {"backend scratch", "state staging", "transport", "total"}):
        t.same("%s: %s" % (layout, name), got.get(name), want[name])


def counted():
    """A model that takes every expert for every token leaves nothing to draw: what a run says at its end has
    bytes as planned, of tokens, adapters and, whatever the windows keep, of gathers."""
    shutil.copytree("ex/model", "all")
    with open("all/config.json") as f:
        config = json.load(f)
    with open("all/config.json", "w") as f:
        json.dump(dict(config, num_experts_per_tok=config["n_routed_experts"], topk_group=config["n_group"]), f)
    stay = {"moe": {"enabled": True, "expert_group": "world"}}
    for out, ranks, nodes, kinds in (("one", 2, 1, "weights embedding tokens adapters"), ("two", 1, 2, "tokens adapters")):
        text = planned_run(out, ranks, nodes, stay).text()
        rows = t.compared(text)
        where = "inside nodes" if nodes == 1 else "between nodes"
        as_planned(out, rows, where, kinds)
        t.same(out + ": rows of tokens", *rows["routes, rows " + where])
        t.same(out + ": nothing elsewhere", len(rows), 2 * len(kinds.split()) + 3)
        planned, got = rows.get("memory, bytes of a rank", (0, 0))
        t.check(out + ": memory", 0 < planned and abs(got - planned) <= max(0.05 * planned, 32e6), rows)
        t.check(out + ": time", min(rows["time, us of a step"]) > 0, rows)
    longest = {cutoff: t.compared(planned_run("of-%d" % cutoff, 1, 1, stay, cutoff_len=cutoff).text()) for cutoff in (64, 4096)}
    t.same("planned for samples that came, not for the longest that may", longest[64]["memory, bytes of a rank"][0],
           longest[4096]["memory, bytes of a rank"][0])
    t.check("in one line", re.search(r">> The run moved 1\.000 on the same rank, 1\.000 between nodes of the planned bytes, "
                                     r"and took [\d.]+ of the planned time$", text, re.M), text[-1500:])
    subprocess.run([t.flowtrain, "convert", "--model_name_or_path", "all", "--to", "fp8", "--output", "fp8"], check=True,
                   stdout=subprocess.DEVNULL)
    limits = {"as it is": {}, "nothing kept": {"stage3_prefetch_bucket_size": 0, "stage3_max_reuse_distance": 0},
              "narrow": {"stage3_max_live_parameters": 60000, "stage3_max_reuse_distance": 20000},
              "narrow, one ahead": {"stage3_max_live_parameters": 100000, "stage3_prefetch_bucket_size": 1},
              "FP8": {"stage3_max_live_parameters": 60000}}
    for name, zero in limits.items():
        zero = {"zero_optimization": dict(stage=3, **zero)}
        for ranks, nodes in ((1, 2), (2, 1)) if name == "narrow" else ((1, 2),):
            out = "%s-%d" % (name.replace(" ", "-"), nodes)
            rows = t.compared(planned_run(out, ranks, nodes, zero, "fp8" if name == "FP8" else "all").text())
            as_planned("sharded, " + name, rows, "between nodes" if nodes == 2 else "inside nodes", "weights adapters embedding")
            t.check("sharded, %s: no tokens" % name, "tokens, bytes between nodes" not in rows, rows)


def as_planned(what, rows, where, kinds):
    """Of the embedding a rank fetches a row once, however many tokens of a micro-batch have it."""
    for kind in kinds.split():
        for link in ("on the same rank", where):
            planned, got = rows.get("%s, bytes %s" % (kind, link), (0, -1))
            t.check("%s: %s %s" % (what, kind, link), 0 < got <= planned and (kind == "embedding" or got == planned), rows)


def planned_run(out, ranks, nodes, more, model="all", cutoff_len=12):
    """Every sample is cut, so that micro-batches have as many tokens as they may."""
    words = dict(model_name_or_path=model, cutoff_len=cutoff_len, accumulation=2, steps=2, tokenized_path=None,
                 deepspeed=json.dumps(dict(json.loads(t.ZERO3), **more)))
    port = t.free_port()
    runs = [t.launch("%s-%d" % (out, k), ranks, port, nodes, k, **words) for k in range(nodes)]
    for run in runs:
        t.same(out + ": exit status", run.wait(), 0)
    return runs[0]


def rows():
    """What ops do that are no products, from the blocks themselves: dropout draws for the input of each adapter in the
    forward and in the backward, and for its gradient where something below wants it; recomputing draws again, but for
    the last projection, which nothing behind it needs. Of the bytes more where more is recomputed, and as the tokens."""
    with open("ex/model/config.json") as f:
        c = json.load(f)
    H, layers = c["hidden_size"], c["num_hidden_layers"]
    out = c["num_attention_heads"] * c["v_head_dim"]
    ins = 2 * H + c["q_lora_rank"] + c["kv_lora_rank"] + out
    found = {}
    for recompute, cutoff in (("none", 12), ("all", 12), ("all", 24)):
        args = t.train_args("out", cutoff_len=cutoff, recompute=recompute)[1:]
        got = plan_json("rows", "--gpus", 2, "--", *args)
        times = layers * (3 * ins + (ins - out if recompute == "all" else 0)) - 2 * H
        t.same("dropout of %d tokens, recompute %s" % (cutoff, recompute), got["draws"], cutoff * times)
        found[recompute, cutoff] = got["row_bytes"]
    t.check("bytes of rows", 0 < found["none", 12] < found["all", 12], found)
    t.check("bytes of twice the tokens", 1.9 < found["all", 24] / found["all", 12] < 2.1, found)


def checked():
    """--check: a line of what the flags ask for, or why it does not fit and what would."""
    small = ["--check", "--gpus", 2, "--gpu", "cpu", "--gpu_memory"]
    moe = json.dumps({"moe": {"enabled": True, "expert_group": "world"}, "zero_optimization": {"stage": 3},
                      "train_micro_batch_size_per_gpu": "auto"})
    pairs = moe.replace('"expert_group": "world"', '"expert_parallel_size": 1')
    rows = ((small + [1], moe, 0, "experts over all ranks: "), (small + [1], pairs, 0, "experts over 1 rank: "),
            (small + [1], None, 0, "weights whole on each GPU: "),
            (small + [0.001], moe, 2, "experts over all ranks: a rank needs 0.0 GB of 0.0 GB (97 % of 0.0 GB), with samples of 64 tokens; "
             "no layout that is built fits: take more ranks"),
            (["--check", "--gpus", 8, "--gpu", "h200-141g"], "v3", 2,
             "ZeRO-3: a GPU needs 178.8 GB of 145.5 GB (97 % of 150.0 GB), with samples of 2048 tokens; "
             "ZeRO-3, shards in host memory would fit: "))
    for words, deepspeed, status, want in rows:
        more = ["--weights", "bf16", "v3", "--cutoff_len", 2048, "--deepspeed", t.ZERO3] + V3_LORA if deepspeed == "v3" \
            else ["--"] + t.train_args("out", deepspeed=deepspeed)[1:]
        code, out, err = plan(*words, *more)
        t.same(want + "exit status", code, status)
        t.has(want, out if status == 0 else err, want)


# Llama-2 7B: layers, hidden size, FFN, vocabulary.
L7, H7, F7, V7 = 32, 4096, 11008, 32000


def trained():
    """Weights that train, by formulas written apart: a rank has an even share of gradients, masters and moments, at stage 3
    of the weights as well."""
    os.mkdir("l7")
    with open("l7/config.json", "w") as f:
        json.dump(dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=H7, intermediate_size=F7,
                       num_hidden_layers=L7, num_attention_heads=32, num_key_value_heads=32, vocab_size=V7,
                       max_position_embeddings=4096, rms_norm_eps=1e-5, hidden_act="silu", rope_theta=10000.0,
                       tie_word_embeddings=False), f)
    linears, last = L7 * (4 * H7 * H7 + 3 * H7 * F7), L7 * (H7 * H7 + H7 * F7)
    norms, P = (2 * L7 + 1) * H7, linears + (2 * L7 + 1) * H7 + 2 * V7 * H7
    asked = ["l7", "--finetuning_type", "full", "--bf16", "true", "--per_device_train_batch_size", 1]
    for gpu, n, g, tokens, flops, stream, network in (("a100-80g", 1, 4, 2048, 271e12, 2e12, 10), ("a6000-48g", 1, 8, 4096, 110e12, 0.768e12, 10),
                                                      ("h100-80g", 2, 8, 2048, 794e12, 3.35e12, 50)):
        W = n * g
        got = plan_json(gpu, "--nodes", n, "--gpus", g, "--gpu", gpu, "--network", network, *asked, "--cutoff_len", tokens,
                        "--gradient_accumulation_steps", 4)
        core = 2 * tokens * H7 * L7
        t.same(gpu + ": elements", got.get("trained"), P)
        t.same(gpu + ": adapters", got.get("adapters"), 0)
        near(gpu + ": operations", got["flops_a_token"], 6 * linears + 2 * (linears - last) + 4.6 * core + 8 * V7 * H7, 1e-9)
        near(gpu + ": a checkpoint", got["checkpoint_bytes"], 2 * P + 12 * P, 1e-9)
        sent = 4 * (P - V7 * H7)
        for l, weights, part in zip(got["layouts"], (2 * P / W, 2 * P), (2 * norms, 2 * P)):
            name = "%s, %s" % (gpu, l["name"])
            rows = {row["name"]: row["bytes"] for row in l["memory"]}
            near(name + ": weights", rows["base shard"], weights)
            near(name + ": gradients", rows["gradients"], 4 * P / W)
            near(name + ": optimizer", rows["optimizer"], 12 * P / W)
            near(name + ": after an update", l["step_near_bytes"], part * (W - 1) / W)
            near(name + ": AdamW", l["update_s"], P / W * (32 + 2) / stream)
            near(name + ": computing", l["work_s"], max(got["flops_a_token"] * tokens / flops, 2 * got["weights_bytes"] / stream) +
                 (W + 2 * (n + 1 if n > 1 else 1)) * sent / W / stream)
            if l["name"].startswith("weights"):
                t.same(name + ": gradients between nodes", l["gradients"], ["chain" if n > 1 else "all_to_all"] * 2)
                own = (1 + 3 * 2) / 4 / W  # of each rank's sums, to their owners and, but in a step's first micro-batch, from there
                near(name + ": gradients to a GPU", l["near_bytes"], sent * (g - 1) / W * (n + own if n > 1 else 1))
                near(name + ": gradients out of a node", l["far_bytes"] + 1, sent * (n > 1) + 1)
        for l, weights in zip(got["layouts"][2:], (2 * P / W, 2 * P)):  # optimizer in the host's memory
            name = "%s, %s" % (gpu, l["name"])
            rows = {row["name"]: (row["bytes"], row["host"]) for row in l["memory"]}
            t.same(name + ": of the host", [rows[k][1] for k in ("gradients", "optimizer states", "gradient windows")], [True, True, False])
            near(name + ": gradients", rows["gradients"][0], 4 * P / W)
            near(name + ": states and two tiles", rows["optimizer states"][0], 12 * P / W + 2 * 2 * 2**22)
            near(name + ": of a node", l["host_bytes"], g * (16 * P / W + 2 * 2 * 2**22))
            near(name + ": weights", rows["base shard"][0], weights)
            near(name + ": AdamW", l["update_s"], g * P / W * (28 + 2) / 300e9)
            t.check(name + ": less of the device", l["memory_bytes"] < got["layouts"][l["name"].startswith("w")]["memory_bytes"] - 14 * P / W, l)
        t.same(gpu + ": layouts", [l["name"] for l in got["layouts"]],
               ["ZeRO-3", "weights whole on each GPU", "ZeRO-3, optimizer in host memory", "weights whole, optimizer in host"])
    nvme = json.dumps(dict(json.loads(t.ZERO3), zero_optimization={"stage": 3, "offload_optimizer": {
        "device": "nvme", "nvme_path": "/absent", "buffer_count": 3}}))
    for n, g, disk in ((1, 4, 2), (2, 8, 5)):  # masters and moments on a disk, three tiles of them in memory
        words = ["--nodes", n, "--gpus", g, "--gpu", "a100-80g", "--disk", disk, *asked, "--cutoff_len", 2048, "--deepspeed", nvme]
        l, W, name = plan_json("nvme", *words)["layouts"][-1], n * g, "nvme on %d x %d" % (n, g)
        t.same(name + ": its name", l["name"], "ZeRO-3, optimizer on NVMe")
        near(name + ": of a node's disk", l["disk_bytes"], g * 12 * P / W)
        near(name + ": seconds of it", l["disk_s"], g * 12 * P / W / (disk * 1e9))
        near(name + ": of a step", l["update_s"], l["disk_s"])
        near(name + ": of a node's memory", l["host_bytes"], g * (4 * P / W + (3 * 12 + 2 * 2) * 2**24))
        said = plan(*words)[1] if n == 1 else None
        if said is not None:
            t.has(name + ": said", said, "ZeRO-3, optimizer on NVMe: %.1f GB of a node's disk, read and written in every step: %.1f s at %d GB/s\n"
                  % (l["disk_bytes"] * 1e-9, l["disk_s"], disk))
    moe = dict(json.loads(t.ZERO3), moe={"enabled": True, "expert_group": "world"})
    hosted = json.dumps(dict(json.loads(t.ZERO3), zero_optimization={"stage": 2, "offload_optimizer": {"device": "cpu"}}))
    both = json.dumps(dict(json.loads(t.ZERO3), zero_optimization={"stage": 3, "offload_optimizer": {"device": "cpu"},
                                                                   "offload_param": {"device": "cpu"}}))
    small = ["--check", "--gpus", 2, "--gpu_memory", 1, "--gpu"]
    run = ["--", *t.train_args("out", finetuning_type="full", lora_rank=None, lora_alpha=None, lora_dropout=None, lora_target=None,
                               deepspeed=None)[1:], "--deepspeed"]
    for words, status, want in (
            (["--check", "--gpus", 4, "--gpu", "a100-40g"] + asked, 2,
             "finetuning_type full: weights whole on each GPU: a GPU needs 45.9 GB of 41.0 GB (97 % of 42.3 GB), with samples of 2048 tokens; "
             "ZeRO-3 (zero_optimization.stage 3) needs 38.3 and would fit; ZeRO-3, optimizer in host memory (zero_optimization.stage 3, "
             "offload_optimizer.device \"cpu\") needs 11.5 (host 108) and would fit; weights whole, optimizer in host (zero_optimization.stage 2, "
             "offload_optimizer.device \"cpu\") needs 19.1 (host 108) and would fit\n"),
            (["--check", "--gpus", 1] + asked, 2, " of 83.3 GB (97 % of 85.9 GB), with samples of 2048 tokens; ZeRO-3 (zero_optimization.stage 3) needs "
             "125.7; ZeRO-3, optimizer in host memory (zero_optimization.stage 3, offload_optimizer.device \"cpu\") needs 18.9 (host 108) and would fit; "),
            (["--check", "--gpus", 1, "--host_memory", 100] + asked, 2, "needs 18.9 (host 108): take more ranks, or --finetuning_type lora\n"),
            (["--check", "--gpus", 2, "--gpu", "a100-40g"] + asked + ["--deepspeed", hosted], 0, "weights whole, optimizer in host: 17.9 GiB of 39.4 GiB a rank, "),
            (["--check", "--gpus", 2, "--host_memory", 100] + asked + ["--deepspeed", hosted], 2,
             "finetuning_type full: weights whole, optimizer in host: a node needs 108 GB of 100 GB of host memory, with samples of 2048 tokens; "),
            (["--check", "--gpus", 8, "--gpu", "a6000-48g"] + asked, 0, "weights whole on each GPU: 30.2 GiB of 48.0 GiB a rank, a step takes at least "),
            (["--gpus", 1, "--gpu_memory", 10] + asked, 0, "no layout that is built fits: take more GPUs, or --finetuning_type lora\n"),
            (small + ["cpu"] + run + [json.dumps(moe)], 2, "--finetuning_type full: experts that stay on their ranks cannot be trained yet"),
            (small + ["a100-80g"] + run + [json.dumps(dict(json.loads(t.ZERO3), zero_optimization={"stage": 3, "offload_param": {"device": "cpu"}}))],
             2, "wait in the host's memory beside their optimizer alone: set offload_optimizer.device to cpu as well, or leave out"),
            (["--check", "--gpus", 4, "--gpu", "a100-40g"] + asked + ["--deepspeed", both], 0, "ZeRO-3, in host memory, optimizer in host: ")):
        if "l7" in words:
            words = words + ["--cutoff_len", 2048]
        code, out, err = plan(*words)
        t.same(want + ": exit status", code, status)
        t.has(want, out if status == 0 else err, want)


def as_ranks():
    """Speeds of the processors are measured by a process with the threads of a rank, which spin briefly as they wait."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    words = ["plan", "--json", "--gpu", "cpu", "--gpu_memory", "1", "--gpus", "2", "ex/model", "--cutoff_len", "12"]
    run = subprocess.run([t.flowtrain] + words, capture_output=True, text=True, env=dict(env, OMP_DISPLAY_ENV="verbose"))
    last = run.stderr.split("OPENMP DISPLAY ENVIRONMENT BEGIN")[-1]
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    t.check("as ranks: a plan", run.returncode == 0 and json.loads(run.stdout)["layouts"], run.stderr[-2000:])
    t.check("as ranks: their threads", "OMP_NUM_THREADS = '%d'" % share in last, last)
    t.check("as ranks: how they wait", "GOMP_SPINCOUNT = '2000'" in last, last)


def tied():
    """A head of its own in the weights counts, whatever config.json says, as in the run; without weights config.json does."""
    subprocess.run([t.flowtrain, "init", "--example", "kin", "--model", "llama"], check=True, stdout=subprocess.DEVNULL)
    with open("kin/model/config.json") as f:
        config = json.load(f)
    os.mkdir("bare")
    for tie in (False, True):
        with open("bare/config.json", "w") as f:
            json.dump(dict(config, tie_word_embeddings=tie), f)
        if not tie:
            subprocess.run([t.flowtrain, "init", "--config", "bare", "--output", "own"], check=True, stdout=subprocess.DEVNULL)
    shutil.copy("bare/config.json", "own")
    head = config["vocab_size"] * config["hidden_size"]
    bare = plan_json("config.json alone", "bare").get("parameters")
    t.same("a head of its own", plan_json("a head of its own", "own").get("parameters"), bare + head)


def wrong():
    rows = ((["--gpu", "abacus", "v3"], "--gpu abacus: expected one of a100-40g, "),
            (["--nodes", "0", "v3"], "--nodes 0: expected a number above 0"),
            (["--nodes", "1025", "v3"], "--nodes 1025: expected a number above 0, at most 1024"),
            (["--gpus", "65", "v3"], "--gpus 65: expected a number above 0, at most 64"),
            (["--disk", "2x", "v3"], "--disk 2x: expected a number above 0"),
            (["--gpu", "cpu", "v3"], "--gpu cpu: say by --gpu_memory how much a rank may take"),
            (["--files", "2", "--nodes", "2", "v3"], "--files 2: expected a node, 0 to 1"),
            (["--files", "one", "--nodes", "2", "v3"], "--files is 'one', expected a node's number"),
            (["--weights", "int4", "v3"], "--weights int4: expected bf16"),
            (["--skew", "0.5", "v3"], "a skew of 0.5"),
            (["nowhere"], "nowhere"),
            (["--network"], "--network"),
            (["v3", "--cutoff_len", "many"], "cutoff_len"))
    for words, want in rows:
        code, out, err = plan(*words)
        t.same("%s: exit status" % " ".join(words), (code, out), (2, ""))
        t.has(" ".join(words), err, want)


def main():
    t.begin()
    clusters()
    whole()
    choice()
    as_ranks()
    table("ZeRO-3", {}, 12, "all")
    table("ZeRO-3", {}, 12, "none")
    table("experts over all ranks", {"moe": {"enabled": True, "expert_group": "world"}}, 12, "none")
    counted()
    rows()
    checked()
    trained()
    tied()
    wrong()
    t.finish()


main()
