#!/usr/bin/env python3
"""--finetuning_type full: losses, gradient norms and weights against golden numbers of torch (tests/golden/full.py); the
same bits for every number of ranks and stage; the model folder that is saved; what is refused.

usage: trainer_full.py BUILD [cuda | planned | offload]     (cuda: the numbers alone, on the simulated GPU; planned: what plan
said; offload: the optimizer in the host's memory)
"""
import json
import os
import re
import resource
import shutil
import struct
import sys

import trainer_lib as t

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
STAGE = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto"}


def read(path):
    with open(path) as f:
        return json.load(f)


def make_inputs():
    models = read(os.path.join(GOLDEN, "full_models.json"))
    for name, config in models["models"].items():
        os.mkdir(name + "-config")
        with open(name + "-config/config.json", "w") as f:
            json.dump(config, f)
        run = t.Run(["init", "--config", name + "-config", "--output", name, "--tokenizer", "ex/model"])
        t.same(name + " is made", run.wait(), 0)
        shutil.copy("ex/model/tokenizer_config.json", name)
    with open("ex/data/texts.jsonl", "w") as f:
        f.write("".join(json.dumps({"text": text}) + "\n" for text in models["texts"]))
    info = read("ex/data/dataset_info.json")
    info["texts"] = {"file_name": "texts.jsonl", "columns": {"prompt": "text"}}
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)
    t.same("the tied model is made", t.Run(["init", "--example", "tied", "--model", "llama"]).wait(), 0)
    for stage in (2, 3):
        with open("zero%d.json" % stage, "w") as f:
            json.dump(dict(STAGE, zero_optimization={"stage": stage}), f)


def flags_of(model, batch=1, accumulation=2, **more):
    flags = dict(finetuning_type="full", model_name_or_path=model, stage="pt", packing="false", template=None,
                 dataset="texts", cutoff_len=64, steps=10, weight_decay=0.1, max_grad_norm=1.0, logging_steps=1,
                 lr_scheduler_type="constant", tokenized_path=None, per_device_train_batch_size=batch,
                 accumulation=accumulation, lora_rank=None, lora_alpha=None, lora_dropout=None, lora_target=None,
                 save_steps=1000, deepspeed=None)
    return dict(flags, **more)


def train(out, model, world=1, **more):
    return t.train(out, out, world, **flags_of(model, **more)).text()


def far(got, want):
    return max(abs(a - b) / abs(b) for a, b in zip(got, want))


def follows(name, out, golden, loss, norm, steps=10):
    """Relative distances: loss to step 5, to the last step; norm to step 5."""
    log = [e for e in t.log_lines(out) if "loss" in e]
    losses, norms = [e["loss"] for e in log], [e["grad_norm"] for e in log]
    t.same(name + ": steps", len(log), steps)
    found = far(losses[:5], golden["losses"][:5]), far(losses, golden["losses"]), far(norms[:5], golden["norms"][:5])
    t.check("%s follows torch" % name, found[0] < loss and found[1] < 5 * loss and found[2] < norm, found)


def write(path, found):
    header, at = {}, 0
    for name, (dtype, shape, data) in found.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in found.values()))


def make_odd(head, inner):
    """The model "odd": no power of two divides its sizes, of which these are those of a head and of the MLP."""
    config = dict(read("llama/config.json"), vocab_size=521, hidden_size=3 * head, num_attention_heads=3, num_key_value_heads=1,
                  head_dim=head, intermediate_size=inner)
    os.mkdir("odd-config")
    with open("odd-config/config.json", "w") as f:
        json.dump(config, f)
    t.same("odd sizes: made", t.Run(["init", "--config", "odd-config", "--output", "odd", "--tokenizer", "ex/model"]).wait(), 0)


def odd_sizes():
    """Shares, rows and windows that no power of two divides."""
    make_odd(10, 37)
    for name, more in (("full", {}), ("full in bf16", dict(bf16=True)),
                       ("the embedding alone", dict(finetuning_type="freeze", freeze_trainable_layers=0,
                                                    freeze_extra_modules="embed_tokens", cutoff_len=4))):
        train("odd-1", "odd", accumulation=6, steps=3, dataset="arithmetic", max_samples=36, stage="sft", template="default",
              overwrite_output_dir=True, **more)
        for stage in (2, 3):
            train("odd-3", "odd", world=3, accumulation=2, steps=3, dataset="arithmetic", max_samples=36, stage="sft",
                  template="default", overwrite_output_dir=True, deepspeed="zero%d.json" % stage, **more)
            t.check("odd sizes, %s, stage %d on three ranks: the same bits" % (name, stage),
                    t.stored("odd-3/model.safetensors") == t.stored("odd-1/model.safetensors"))


def freeze():
    """Which tensors change, in f32; the others have the type of the run."""
    base = t.stored("llama/model.safetensors")

    def changed(**more):
        text = train("freeze", "llama", steps=1, finetuning_type="freeze", overwrite_output_dir=True, **more)
        after = t.stored("freeze/model.safetensors")
        found = {k for k in base if base[k][2] != after[k][2]}
        count = sum(len(base[k][2]) // 4 for k in found)
        t.has("freeze: trainable elements", text, "trainable params: %d ||" % count)
        return found

    def of(*parts):
        return {k for k in base if any(p in k for p in parts)}

    t.same("freeze: two last layers", changed(), of(".layers.1.", ".layers.2."))
    t.same("freeze: all, and one of them", changed(freeze_trainable_modules="all,mlp"), of(".layers.1.", ".layers.2."))
    t.same("freeze: the first layer's mlp", changed(freeze_trainable_layers=-1, freeze_trainable_modules="mlp"),
           of(".layers.0.mlp."))
    t.same("freeze: a part of a layer's norms", changed(freeze_trainable_layers=1, freeze_trainable_modules="input_layernorm"),
           of(".layers.2.input_layernorm"))
    t.same("freeze: norm is all norms", changed(freeze_trainable_layers=0, freeze_extra_modules="norm"), of("norm"))
    t.same("freeze: the ends", changed(freeze_trainable_layers=0, freeze_extra_modules="embed_tokens,lm_head"),
           of("embed_tokens", "lm_head"))
    t.same("freeze: more layers than there are", changed(freeze_trainable_layers=9), of(".layers."))
    train("freeze", "llama", steps=1, finetuning_type="freeze", overwrite_output_dir=True, bf16=True)
    t.same("freeze in bf16: types", {v[0] for v in t.stored("freeze/model.safetensors").values()}, {"BF16"})


def planned():
    """What a run says at its end: bytes as planned, but rows of the embedding, which come once an id; memory of a model that is
    large beside what a process has anyway, and but for 2 MiB between two ranks."""
    os.environ.pop("MALLOC_PERTURB_", None)  # filled memory is resident, also where a run never touches it
    config = dict(read("llama-config/config.json"), hidden_size=320, intermediate_size=800, num_hidden_layers=6, vocab_size=24000,
                  num_attention_heads=8, head_dim=40)
    os.mkdir("large-config")
    with open("large-config/config.json", "w") as f:
        json.dump(config, f)
    t.same("a larger model is made", t.Run(["init", "--config", "large-config", "--output", "large", "--tokenizer", "ex/model"]).wait(), 0)
    for what, each, more in (("f32: weights are the masters", 8, {}), ("bf16", 12, dict(bf16=True)),
                             ("f32, states and two tiles of weights in the host's memory", 13.56, dict(deepspeed=zero(2)))):
        text = train("planned", "large", steps=1, dataset="arithmetic", stage="sft", template="default", packing=None,
                     overwrite_output_dir=True, **more)
        count = int(re.search(r"trainable params: (\d+) ", text).group(1))
        states = 2**20 * sum(float(n) for n in re.findall(r">>   (?:optimizer|optimizer states) +([\d.]+) MiB", text))
        t.check("planned: bytes of states a weight, " + what, abs(states / count - each) < 0.1, states / count)
    attention = dict(finetuning_type="freeze", freeze_trainable_modules="self_attn", freeze_trainable_layers=1)
    for name, model, world, stage, more in (("a large one", "large", 2, 2, {}), ("a large one", "large", 3, 3, {}), ("a large one", "large", 2, 3, {}),
                                            ("a large one, its optimizer in the host's memory", "large", 2, 2, dict(deepspeed=zero(2))),
                                            ("experts, ditto", "deepseek_v3", 2, 3, dict(deepspeed=zero(3))),
                                            ("llama", "llama", 3, 2, {}), ("llama", "llama", 2, 3, {}),
                                            ("tied", "tied/model", 3, 3, {}), ("experts", "deepseek_v3", 2, 3, {}),
                                            ("freeze", "llama", 2, 3, attention), ("freeze", "llama", 3, 2, attention)):
        name = "planned: %s, %d ranks, stage %d" % (name, world, stage)
        rows = t.compared(train("planned", model, world=world, **dict(dict(
            deepspeed="zero%d.json" % stage, steps=4, dataset="arithmetic", stage="sft", template="default", packing=None,
            overwrite_output_dir=True), **more)))
        for kind in ("weights", "gradients", "embedding"):
            for link in ("on the same rank", "inside nodes"):
                plan, got = rows.get("%s, bytes %s" % (kind, link), (0, -1))
                if kind == "embedding":
                    t.check("%s: %s %s" % (name, kind, link), 0 < got <= plan or (stage == 2 and more == attention and got == -1), rows)
                else:
                    t.check("%s: %s %s" % (name, kind, link), 0 < plan and abs(got - plan) <= 0.01 * plan, rows)
        t.check(name + ": no adapters", not [k for k in rows if k.startswith("adapters")], rows)
        plan, got = rows.get("memory, bytes of a rank", (0, 0))
        margin = 0.05 * plan + (world - 1) * 2**21 if model == "large" else 32e6
        t.check(name + ": memory", 0 < plan and abs(got - plan) <= margin, rows)


def zero(stage, tile=None, **more):
    """The optimizer is in the host's memory; tile: elements that it steps on at once."""
    block = dict({"stage": stage, "offload_optimizer": {"device": "cpu", "pin_memory": True}}, **more)
    return json.dumps(dict(STAGE, bf16={"enabled": "auto"},
                           zero_optimization=dict(block, sub_group_size=tile) if tile else block))


def same_run(what, out, ref):
    t.same(what + ": losses and norms", t.losses(out), t.losses(ref))
    t.check(what + ": the model", t.file_bytes(out + "/model.safetensors") == t.file_bytes(ref + "/model.safetensors"))


def too_large():
    """A model whose states are as large as the machine's memory is refused before its weights, a file of holes, are read."""
    with open("/proc/meminfo", encoding="ascii") as f:
        memory = 1024 * int(f.readline().split()[1])
    config = read("llama/config.json")
    rows = memory // (2 * config["hidden_size"] * 16) + 1
    shutil.copytree("llama", "huge")
    with open("huge/config.json", "w") as f:
        json.dump(dict(config, vocab_size=rows), f)
    header, at = {}, 0
    for name, (_, shape, _) in t.stored("llama/model.safetensors").items():
        shape = [rows, shape[1]] if name in ("lm_head.weight", "model.embed_tokens.weight") else shape
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open("huge/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    for world in (1, 2):
        resource.setrlimit(resource.RLIMIT_AS, (max(memory // 4, 2 << 30), hard))  # should it not be refused, it ends soon
        run = t.launch("huge-out", world, finetuning_type="full", model_name_or_path="huge", steps=1, bf16=True, accumulation=1,
                       lora_rank=None, lora_alpha=None, lora_dropout=None, lora_target=None, no_resume_state=True, save_strategy="no",
                       deepspeed=zero(3))
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        t.same("too large, %d ranks: exit status" % world, run.wait(), 1)
        said = re.search(r"offload_optimizer: ([\d.]+) GB of host memory a node, ([\d.]+) available: take more nodes, or", run.text())
        t.check("too large, %d ranks: said" % world, said and float(said.group(1)) > memory / 1e9 > float(said.group(2)), run.text())
    os.truncate("huge/model.safetensors", 0)


def offload():
    """Sums, masters and moments in the host's memory: the bits of a run that has them on the device, for every stage, number of
    ranks and accumulation; of a tied head, experts and parts of a model; tiles that end anywhere."""
    arithmetic = dict(stage="sft", dataset="arithmetic", template="default", steps=3, overwrite_output_dir=True)
    for world in (1, 2, 3):
        for accumulation in (1, 2):
            more = dict(arithmetic, world=world, accumulation=accumulation, bf16=world == 2)
            train("ref", "llama", deepspeed="zero2.json", **more)
            for stage, tile in enumerate((None, 1000, 64, 12345)):
                what = "offload, %d ranks, %d micro-batches, stage %d" % (world, accumulation, stage)
                text = train("off", "llama", deepspeed=zero(stage, tile), **more)
                same_run(what, "off", "ref")
                t.check(what + ": in the table", "optimizer states" in text, text)
                t.check(what + ": has effect", "offload_optimizer" not in text and "sub_group_size" not in text, text)
    embedding = dict(finetuning_type="freeze", freeze_trainable_layers=0, freeze_extra_modules="embed_tokens")
    norms = dict(finetuning_type="freeze", freeze_trainable_layers=0, freeze_extra_modules="norm")
    for name, model, more in (("a tied head", "qwen2-tied", {}), ("experts", "deepseek_v3", {}), ("the embedding", "llama", embedding),
                              ("norms", "llama", norms)):
        for world in (1, 2):
            flags = dict(arithmetic, world=world, accumulation=2, **more)
            train("ref", model, deepspeed="zero3.json", **flags)
            for stage in (2, 3):
                train("off", model, deepspeed=zero(stage, 1000), **flags)
                same_run("offload, %s, %d ranks, stage %d" % (name, world, stage), "off", "ref")
    text = train("off", "llama", deepspeed=zero(2, offload_optimizer={"device": "cpu"}), **arithmetic)
    t.has("offload, not pinned", text, "offload_optimizer: states on the host are pinned whatever")
    too_large()


def on_simulated_gpu(golden):
    for model in ("llama", "qwen2-tied", "deepseek_v3"):
        train(model + "-out", model, device="cuda", steps=3)
        follows(model, model + "-out", golden[model], 2e-6, 1e-5, steps=3)
    train("two", "llama", world=2, accumulation=1, deepspeed="zero3.json", device="cuda", steps=3)
    t.check("stage 3 on two ranks: the same bits",
            t.stored("two/model.safetensors") == t.stored("llama-out/model.safetensors"))
    # The host steps with the device's bits. All work of rank 1's device runs as late as it can.
    train("four", "qwen2-tied", world=2, deepspeed="zero2.json", device="cuda", steps=3)
    for what, model, world, accumulation, stage, ref in (
            ("one rank", "llama", 1, 2, 2, "llama-out"), ("two ranks", "llama", 2, 1, 3, "two"), ("two ranks, stage 1", "llama", 2, 1, 1, "two"),
            ("a tied head on two", "qwen2-tied", 2, 2, 3, "four"), ("experts", "deepseek_v3", 1, 2, 3, "deepseek_v3-out")):
        text = train("off", model, world=world, accumulation=accumulation, deepspeed=zero(stage, 1000), device="cuda", steps=3,
                     overwrite_output_dir=True)
        same_run("the host steps, " + what, "off", ref)
        for row in ("gradients", "optimizer states"):
            t.check("the host steps, %s: %s are the host's" % (what, row), re.search(r"  %s +[\d.]+ \w+  host\n" % row, text), text)
    # Weights are there as well.
    weights = {"offload_param": {"device": "cpu", "pin_memory": True}}
    for what, model, world, accumulation, ref in (("one rank", "llama", 1, 2, "llama-out"), ("two ranks", "llama", 2, 1, "two"),
                                                  ("a tied head", "qwen2-tied", 2, 2, "four"), ("experts", "deepseek_v3", 1, 2, "deepseek_v3-out")):
        text = train("off", model, world=world, accumulation=accumulation, deepspeed=zero(3, 1000, **weights), device="cuda", steps=3,
                     overwrite_output_dir=True)
        same_run("weights on the host, " + what, "off", ref)
        t.check("weights on the host, " + what, re.search(r"  base shard +[\d.]+ \w+  host\n", text), text)
    run = t.launch("alone", 1, finetuning_type="full", model_name_or_path="llama", device="cuda", steps=1, lora_rank=None, lora_alpha=None,
                   lora_dropout=None, lora_target=None, deepspeed=json.dumps(dict(STAGE, zero_optimization=dict(weights, stage=3))))
    t.same("weights on the host, the optimizer not: refused", run.wait(), 2)
    t.has("weights on the host, the optimizer not", run.text(), "set zero_optimization.offload_optimizer.device to cpu as well")
    train("half", "llama", device="cpu", bf16=True, steps=1)  # whose file is smaller than sums
    run = t.launch("little", 1, finetuning_type="full", model_name_or_path="half", device="cuda", bf16=True, steps=1, lora_rank=None, lora_alpha=None,
                   lora_dropout=None, lora_target=None, deepspeed=zero(2), env={"CUDASIM_PINNED": "0:600000"})
    t.same("too little pinned memory", run.wait(), 1)
    t.check("too little pinned memory: said", re.search(r"needs .* of its host's memory: (gradients|optimizer states): \d+ bytes of "
                                                        r"pinned memory: .*; take more nodes", run.text()), run.text())


def overflows():
    """Gradients that are not finite, though the loss is, from one product on to all that the backward reaches after it: its
    tensor is named, whichever rank and stage has it. A gate of zeros gives the loss nothing of the great weights behind it."""
    found = t.stored("llama/model.safetensors")
    layer = "model.layers.1."
    gate = layer + "mlp.gate_proj.weight"
    for name, factor in ((layer + "post_attention_layernorm.weight", 1e5), (gate, 0), (layer + "mlp.down_proj.weight", 1e39)):
        dtype, shape, data = found[name]
        values = struct.unpack("<%df" % (len(data) // 4), data)
        found[name] = dtype, shape, struct.pack("<%df" % len(values), *(v * factor for v in values))
    shutil.copytree("llama", "steep")
    write("steep/model.safetensors", found)
    with open("zero3-host.json", "w") as f:
        json.dump(dict(STAGE, zero_optimization={"stage": 3, "offload_optimizer": {"device": "cpu"}}), f)
    for world, config in ((1, None), (2, "zero2.json"), (2, "zero3.json"), (2, "zero3-host.json")):
        what = "overflow-%d-%s" % (world, config)
        run = t.launch(what, world, **flags_of("steep", steps=1, deepspeed=config))
        t.check(what + ": the run ends", run.wait() != 0)
        t.has(what, run.text(), "step 1 skipped: gradients of %s are not finite" % gate)


def main():
    t.begin()
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    if part == "cuda":
        t.simulate()
    make_inputs()
    golden = read(os.path.join(GOLDEN, "full.json"))
    if part != "":
        {"planned": planned, "offload": offload, "cuda": lambda: on_simulated_gpu(golden)}[part]()
        return t.finish()
    for model in ("llama", "qwen2", "qwen2-tied", "qwen3", "deepseek_v3"):
        train(model + "-out", model)
        follows(model, model + "-out", golden[model], 2e-6, 1e-5)
        if model != "deepseek_v3":  # a router without training flips in bf16
            train(model + "-bf16-out", model, bf16=True)
            follows(model + " in bf16", model + "-bf16-out", golden[model + "-bf16"], 4e-3, 2e-2)

    # A step of two micro-batches: two of one rank, or one of each of two; stages 2 and 3.
    one = t.stored("llama-out/model.safetensors")
    for stage in (2, 3):
        out = "two-%d" % stage
        text = train(out, "llama", world=2, accumulation=1, deepspeed="zero%d.json" % stage)
        t.same("stage %d: what is said of it" % stage, "stages 0, 1 and 2 are alike" in text, stage == 2)
        t.check("stage %d on two ranks: the same bits" % stage, t.stored(out + "/model.safetensors") == one)
        follows("stage %d" % stage, out, golden["llama"], 2e-6, 1e-5)
        t.same("stage %d: norms have the same bits" % stage, *[[norm for _, norm in t.losses(o).values()]
                                                               for o in (out, "llama-out")])
    train("moe-3", "deepseek_v3", world=2, accumulation=1, deepspeed="zero3.json")
    t.check("experts at stage 3: the same bits",
            t.stored("moe-3/model.safetensors") == t.stored("deepseek_v3-out/model.safetensors"))

    # The example's dense model: its head is the embedding.
    for out, world, accumulation, deepspeed in (("tied-1", 1, 2, None), ("tied-3", 2, 1, "zero3.json")):
        train(out, "tied/model", world=world, accumulation=accumulation, deepspeed=deepspeed, steps=6)
    a, b = ([e["loss"] for e in t.log_lines(out) if "loss" in e] for out in ("tied-1", "tied-3"))
    t.check("a tied head: the same losses", len(a) == len(b) == 6 and far(a, b) < 1e-6 and a[5] < a[0] - 1, (a, b))
    t.same("a tied head: tensors", sorted(t.stored("tied-1/model.safetensors")), sorted(t.stored("tied/model/model.safetensors")))

    # The folder: names, shapes and types of the base, every float changed, its other files.
    base = t.stored("llama/model.safetensors")
    t.same("tensors", {k: v[:2] for k, v in one.items()}, {k: v[:2] for k, v in base.items()})
    t.same("tensors that did not change", [k for k in base if base[k][2] == one[k][2]], [])
    t.same("config.json", read("llama-out/config.json"), read("llama/config.json"))
    half = t.stored("llama-bf16-out/model.safetensors")
    t.same("types in bf16", {v[0] for v in half.values()}, {"BF16"})
    t.same("config.json in bf16", read("llama-bf16-out/config.json")["torch_dtype"], "bfloat16")
    moe, before = t.stored("deepseek_v3-out/model.safetensors"), t.stored("deepseek_v3/model.safetensors")
    t.same("buffers stay", [k for k in before if before[k][2] == moe[k][2]],
           [k for k in before if k.endswith("e_score_correction_bias")])
    t.check("tokenizer", os.path.exists("llama-out/tokenizer.json"))
    t.check("nothing unfinished", not [n for n in os.listdir("llama-out") if n.startswith(".tmp")])

    # What was saved is a model to go on from; checkpoints are as well; a stale file goes.
    train("more", "llama-out", steps=2, save_steps=1)
    first = [e["loss"] for e in t.log_lines("more") if "loss" in e][0]
    last = [e["loss"] for e in t.log_lines("llama-out") if "loss" in e][-1]
    t.check("training goes on where it ended", first < last, (first, last))
    t.check("the last checkpoint is the result",
            t.stored("more/checkpoint-2/model.safetensors") == t.stored("more/model.safetensors"))
    shutil.copy("llama/model.safetensors", "more/model-00001-of-00002.safetensors")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy("llama/config.json", "more/" + name)
    train("more", "llama-out", steps=1, overwrite_output_dir=True)
    t.same("weights in the folder", sorted(n for n in os.listdir("more") if n.endswith(".safetensors") or "adapter" in n),
           ["model.safetensors"])

    # A tied model that has its head beside the embedding: no stale copy is written.
    shutil.copytree("qwen2-tied", "twice")
    both = t.stored("twice/model.safetensors")
    both["lm_head.weight"] = both["model.embed_tokens.weight"]
    write("twice/model.safetensors", both)
    train("twice-out", "twice")
    t.check("a tied head in the base: the same result",
            t.stored("twice-out/model.safetensors") == t.stored("qwen2-tied-out/model.safetensors"))

    odd_sizes()
    overflows()
    freeze()
    for what, flags, said in (("full", {}, False),
                              ("freeze", dict(finetuning_type="freeze"), True),
                              ("freeze, the embedding", dict(finetuning_type="freeze", freeze_extra_modules="embed_tokens"), False)):
        text = train("words", "llama", stage="sft", dataset="arithmetic", template="llama3", max_samples=4, steps=1,
                     overwrite_output_dir=True, **flags)
        t.has(what + ": stop words", text, "the tokenizer lacks stop words")
        t.same(what + ": stop words that are not trained", "their embeddings are not trained" in text, said)
    shutil.copytree("llama", "own/checkpoint-3")
    for what, flags, want in (
            ("freeze: a module that is none", dict(finetuning_type="freeze", freeze_trainable_modules="q_proj"),
             "--freeze_trainable_modules: Module q_proj is not found, please choose from input_layernorm, self_attn, "),
            ("freeze: an extra that is none", dict(finetuning_type="freeze", freeze_extra_modules="mlp"),
             "--freeze_extra_modules: Module mlp is not found, please choose from embed_tokens, norm, lm_head"),
            ("freeze: nothing", dict(finetuning_type="freeze", freeze_trainable_layers=0), "freeze trains nothing"),
            ("freeze: no module", dict(finetuning_type="freeze", freeze_trainable_modules=","), "freeze trains nothing"),
            ("freeze: no extra", dict(finetuning_type="freeze", freeze_trainable_layers=0, freeze_extra_modules=","), "freeze trains nothing"),
            ("freeze: none beside all", dict(finetuning_type="freeze", freeze_trainable_modules="all,q_proj"), "Module q_proj is not found"),
            ("the model's own folder", dict(output_dir="llama", overwrite_output_dir=True),
             "the model llama would be overwritten by what is trained"),
            ("a checkpoint of its own", dict(output_dir="own", model_name_or_path="own/checkpoint-3"),
             "the model own/checkpoint-3 would be overwritten by what is trained"),
            ("another model's folder", dict(output_dir="qwen2"), "Output directory qwen2 already exists and is not empty"),
            ("an adapter", dict(adapter_name_or_path="x"), "--adapter_name_or_path belongs to --finetuning_type lora"),
            ("LoRA+", dict(loraplus_lr_ratio=4), "--loraplus_lr_ratio belongs to --finetuning_type lora")):
        flags = dict(dict(finetuning_type="full", model_name_or_path="llama", steps=1), **flags)
        run = t.launch("refused", 1, **flags)
        t.check(what + " is refused", run.wait() != 0)
        t.has(what, run.text(), want)
    t.finish()


if __name__ == "__main__":
    main()
