#!/usr/bin/env python3
"""--additional_target: modules that are trained whole beside adapters. Losses, gradient norms against golden numbers of transformers
and PEFT (tests/golden/additional.py), the same bits for every number of ranks and stage, what the adapter holds, who reads it, states
to go on from, what is refused.

usage: trainer_additional.py BUILD [states | resized | cuda]     (cuda: on the simulated GPU)
"""
import array
import json
import os
import re
import shutil
import struct
import subprocess
import sys

import trainer_lib as t

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
STAGE = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
         "bf16": {"enabled": "auto"}}
FILE = "/adapter_model.safetensors"
ENDS = dict(lora_target="q_proj,v_proj", additional_target="embed_tokens,lm_head", lora_rank=4, lora_alpha=8)
PREFIX = "base_model.model."
MOST_OF_RATE = 3.2  # AdamW moves an element by (1 - b1) / sqrt(1 - b2) of its rate at most, and decay by less


def read(path):
    with open(path) as f:
        return json.load(f)


def make_inputs():
    models = read(os.path.join(GOLDEN, "full_models.json"))
    for name in ("llama", "qwen2", "qwen2-tied", "deepseek_v3"):
        os.mkdir(name + "-config")
        with open(name + "-config/config.json", "w") as f:
            json.dump(models["models"][name], f)
        run = t.Run(["init", "--config", name + "-config", "--output", name, "--tokenizer", "ex/model"])
        t.same(name + " is made", run.wait(), 0)
        shutil.copy("ex/model/tokenizer_config.json", name)
    with open("ex/data/texts.jsonl", "w") as f:
        f.write("".join(json.dumps({"text": text}) + "\n" for text in models["texts"]))
    info = read("ex/data/dataset_info.json")
    info["texts"] = {"file_name": "texts.jsonl", "columns": {"prompt": "text"}}
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)


def zero(stage, host=False, **more):
    place = {"offload_optimizer": {"device": "cpu", "pin_memory": True}, "sub_group_size": 1000} if host else {}
    return json.dumps(dict(STAGE, zero_optimization=dict(place, stage=stage, **more)))


def flags(model, world=1, accumulation=2, **more):
    base = dict(model_name_or_path=model, stage="pt", packing="false", template=None, dataset="texts", cutoff_len=64, steps=10,
                weight_decay=0.1, max_grad_norm=1.0, lr_scheduler_type="constant", tokenized_path=None, accumulation=accumulation,
                lora_dropout=None, save_steps=1000, seed=42, deepspeed=None)
    return dict(base, **more)


def train(out, model, world=1, **more):
    return t.train(out, out, world, **flags(model, world, **more)).text()


def refused(what, model, want, code=2, **more):
    run = t.launch("refused", 1, **flags(model, **dict(more, steps=1)))
    t.same(what + ": exit status", run.wait(), code)
    t.has(what, run.text(), want)


def command(words, want=0):
    done = subprocess.run([t.flowtrain] + words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    t.check(" ".join(words[:2]) + ": exit status", done.returncode == want, done.stdout)
    return done.stdout


def logits(model, adapter=None, ids=((3, 17, 45, 8, 8, 30, 2, 21),)):
    with open("ids.json", "w") as f:
        json.dump(ids, f)
    command(["forward", "--model_name_or_path", model, "--input_ids", "ids.json", "--output", "f.safetensors", "--device", "cpu"] +
        (["--adapter_name_or_path", adapter] if adapter else []))
    return t.tensors("f.safetensors", also=("I32",))["logits"]


def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5 / sum(y * y for y in b) ** 0.5


def far(got, want):
    return max(abs(a - b) / abs(b) for a, b in zip(got, want))


def follows(name, out, golden, loss, norm, steps=10):
    """Relative distances: loss to step 5, to the last step; norm to step 5."""
    log = [e for e in t.log_lines(out) if "loss" in e]
    losses, norms = [e["loss"] for e in log], [e["grad_norm"] for e in log]
    t.same(name + ": steps", len(log), steps)
    found = far(losses[:5], golden["losses"][:5]), far(losses, golden["losses"]), far(norms[:5], golden["norms"][:5])
    t.check("%s follows transformers and PEFT" % name, found[0] < loss and found[1] < 5 * loss and found[2] < norm, found)


def golden_steps(rows):
    for name, row in rows.items():
        text = train(name, row["model"], **row["flags"])
        half = name.endswith("-bf16")
        follows(name, name, row, 4e-3 if half else 2e-6, 2e-2 if half else 1e-5)
        t.has(name + ": trainable elements", text, "trainable params: %d ||" % row["trained"])


def layouts():
    """A step of two micro-batches: two of one rank, or one of each of two."""
    for what, model, of in (("ends", "llama", ENDS), ("a tied head", "qwen2-tied", dict(ENDS, additional_target="lm_head,norm")),
                            ("experts", "deepseek_v3", dict(ENDS, lora_target="o_proj", additional_target="embed_tokens,kv_b_proj"))):
        train("one", model, overwrite_output_dir=True, bf16=what == "ends", **of)
        for stage in range(4):
            train("two", model, world=2, accumulation=1, deepspeed=zero(stage), overwrite_output_dir=True, bf16=what == "ends", **of)
            t.check("%s, stage %d on two ranks: the same bits" % (what, stage), t.stored("two" + FILE) == t.stored("one" + FILE))
        text = train("two", model, world=2, accumulation=1, deepspeed=zero(3, host=True), overwrite_output_dir=True, bf16=what == "ends", **of)
        t.check("%s, the optimizer in the host's memory: the same bits" % what, t.stored("two" + FILE) == t.stored("one" + FILE))
        t.check(what + ": has effect", "optimizer states" in text and "has no effect: the optimizer" not in text, text)


def saved():
    """Names, shapes, types as PEFT writes them; checkpoints; who reads it all."""
    train("saved", "llama", bf16=True, **ENDS)
    got = t.stored("saved" + FILE)
    want = {PREFIX + n: ["F32", [512, 64]] for n in ("model.embed_tokens.weight", "lm_head.weight")}
    for layer in range(3):
        for linear, out in (("q_proj", 64), ("v_proj", 32)):
            for half, shape in (("A", [4, 64]), ("B", [out, 4])):
                want["%smodel.layers.%d.self_attn.%s.lora_%s.weight" % (PREFIX, layer, linear, half)] = ["F32", shape]
    t.same("tensors", {k: list(v[:2]) for k, v in got.items()}, want)
    t.same("modules_to_save", read("saved/adapter_config.json")["modules_to_save"], ["embed_tokens", "lm_head"])
    base = t.stored("llama/model.safetensors")
    t.check("masters, not what they round to", any(struct.unpack("<I", got[PREFIX + "lm_head.weight"][2][i:i + 4])[0] & 0xffff
                                                   for i in range(0, 4096, 4)))
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        now, before = (array.array("f", tensor[2]) for tensor in (got[PREFIX + name], base[name]))
        moved = max(abs(x - y) for x, y in zip(now, before))
        t.check(name + ": moved by ten steps", 0 < moved < 10 * 1e-3 * MOST_OF_RATE, moved)
    said = json.loads(command(["inspect", "saved", "--verify", "--json"]))
    t.same("inspect: tensors", (said["verified"], said["modules_to_save"]), (14, ["embed_tokens", "lm_head"]))
    shutil.move("llama", "away")
    said = json.loads(command(["inspect", "saved", "--verify", "--json"]))
    t.same("inspect without the base", said["verified"], 14)
    shutil.move("away", "llama")

    # The merged model is base and adapter, whoever asks.
    for name, model, of in (("ends", "llama", {}), ("tied", "qwen2-tied", dict(additional_target="lm_head,norm"))):
        train(name + "-a", model, **dict(ENDS, **of))
        command(["merge", "--model_name_or_path", model, "--adapter_name_or_path", name + "-a", "--output", name + "-m"])
        both, alone, merged = logits(model, name + "-a"), logits(model), logits(name + "-m")
        t.check(name + ": merged", distance(merged, both) < 1e-5 < distance(alone, both), (distance(merged, both), distance(alone, both)))
        t.same(name + ": merged, types", {v[0] for v in t.stored(name + "-m/model.safetensors").values()}, {"F32"})
        t.same(name + ": merged, the head", "lm_head.weight" in t.stored(name + "-m/model.safetensors"), True)
        t.same(name + ": config.json", read(name + "-m/config.json")["tie_word_embeddings"], False)
        t.has(name + ": export", command(["export", "--check", "--model_name_or_path", model, "--adapter_name_or_path", name + "-a", "--merged",
                                      name + "-m"]), "modules trained whole (modules_to_save): PEFT loads them")
        data = ["--template", "default", "--dataset", "arithmetic", "--dataset_dir", "ex/data", "--max_samples", "6", "--device", "cpu"]
        for words in (["eval"], ["generate", "--max_new_tokens", "6"]):
            said = [answers(command(words + place + data)) for place in
                    (["--model_name_or_path", model, "--adapter_name_or_path", name + "-a"], ["--model_name_or_path", name + "-m"],
                     ["--model_name_or_path", model])]
            t.check("%s: %s of the merged one and of the adapter" % (name, words[0]), said[0] and said[0] == said[1] != said[2], said)


def answers(text):
    """What generate answers; the loss that eval gives."""
    return re.findall(r'"predict":"(.*?)","finish"', text) or [round(float(x), 3) for x in re.findall(r"eval_loss\D+([\d.]+)", text)]


def planned():
    """What plan says before, and a run at its end."""
    text = command(["plan", "--gpus", "2", "llama"] + [w for k, v in ENDS.items() for w in ("--" + k, str(v))])
    t.has("plan: how many", text, "adapters of 2688 (rank 4), and 65536 train whole beside them (--additional_target)")
    t.check("plan: rows of memory", re.search(r"  gradients +[\d.]+ ", text) and re.search(r"  adapters +[\d.]+ ", text), text)
    said = json.loads(command(["plan", "--json", "--gpus", "2", "llama"] + [w for k, v in ENDS.items() for w in ("--" + k, str(v))]))
    t.same("plan: a checkpoint", said["checkpoint_bytes"], 16 * (said["adapters"] + said["trained"]))
    t.same("plan: numbers", (said["adapters"], said["trained"]), (2688, 65536))
    for world, stage in ((2, 3), (3, 2), (2, 0)):
        rows = t.compared(train("planned", "llama", world=world, deepspeed=zero(stage), overwrite_output_dir=True, steps=4, dataset="arithmetic",
                                stage="sft", template="default", **ENDS))
        for kind in ("weights", "gradients", "adapters", "memory"):
            got = {k: v for k, v in rows.items() if k.startswith(kind)}
            t.check("planned: %d ranks, stage %d: %s" % (world, stage, kind), got and all(
                abs(n - p) <= (32e6 if kind == "memory" else 0.01 * p) for p, n in got.values()), rows)


def theirs(golden):
    """An adapter that PEFT saved."""
    os.mkdir("tiny-config")
    with open("tiny-config/config.json", "w") as f:
        json.dump(golden["config"], f)
    command(["init", "--config", "tiny-config", "--output", "tiny"])
    want = [x for row in golden["logits"] for x in row]
    adapter = os.path.join(GOLDEN, "additional")
    got = logits("tiny", adapter, golden["ids"])
    t.check("PEFT's adapter: its logits", distance(got, want) < 1e-5, distance(got, want))
    t.check("PEFT's adapter: has effect", distance(logits("tiny", None, golden["ids"]), want) > 1e-2)
    t.same("PEFT's adapter: tensors", json.loads(command(["inspect", adapter, "--verify", "--json", "--model", "tiny"]))["verified"],
           len(golden["names"]))
    command(["merge", "--model_name_or_path", "tiny", "--adapter_name_or_path", adapter, "--output", "tiny-merged"])
    got = logits("tiny-merged", None, golden["ids"])
    t.check("PEFT's adapter, merged: its logits", distance(got, want) < 1e-5, distance(got, want))


def go_on():
    """Training of a saved adapter, with what its configuration names."""
    train("first", "qwen2-tied", steps=3, **dict(ENDS, additional_target="lm_head"))
    for world, stage in ((1, 0), (2, 3)):
        train("second", "qwen2-tied", world=world, accumulation=2 // world, steps=2, adapter_name_or_path="first", lora_target=None, lora_rank=None,
              lora_alpha=None, deepspeed=zero(stage), overwrite_output_dir=True)
        a, b = ([e["loss"] for e in t.log_lines(out) if "loss" in e] for out in ("first", "second"))
        t.check("goes on where it ended, %d ranks" % world, b[0] < a[-1] and b[1] < b[0], (a, b))
        t.same("goes on: tensors", sorted(t.stored("second" + FILE)), sorted(t.stored("first" + FILE)))
    lacking = t.stored("first" + FILE)
    del lacking[PREFIX + "lm_head.weight"]
    shutil.copytree("first", "lacking")
    write("lacking" + FILE, lacking)
    refused("an adapter that lacks a module", "qwen2-tied", "adapter lacking: it lacks base_model.model.lm_head.weight",
            adapter_name_or_path="lacking", lora_target=None, lora_rank=None, lora_alpha=None)


def write(path, found):
    header, at = {}, 0
    for name, (dtype, shape, data) in found.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in found.values()))


def refusals():
    for what, model, want, more in (
            ("a name that is none", "llama", "additional_target nothing is the name of no module of this model", dict(additional_target="nothing")),
            ("a module with parts", "llama", "additional_target mlp: model.layers.0.mlp is a module with parts", dict(additional_target="norm,mlp")),
            ("a router", "deepseek_v3", "is of a router, which trains with --finetuning_type full", dict(additional_target="mlp.gate")),
            ("routed experts", "deepseek_v3", "is of a routed expert, which", dict(additional_target="up_proj", lora_target="o_proj")),
            ("no names", "llama", "--additional_target names no module", dict(additional_target=",")),
            ("freeze", "llama", "--additional_target belongs to --finetuning_type lora", dict(finetuning_type="freeze", additional_target="norm"))):
        refused(what, model, want, **dict(ENDS, **more))
    t.same("FP8: made", command(["convert", "--model_name_or_path", "deepseek_v3", "--to", "fp8", "--output", "fp8"]) is None, False)
    refused("FP8", "fp8", "is FP8 and cannot be trained", **dict(ENDS, lora_target="kv_b_proj", additional_target="o_proj"))
    t.has("FP8: the ends train", train("fp8-out", "fp8", steps=2, **dict(ENDS, lora_target="kv_b_proj")), "trainable params")


def planned_of_rows(model, rows, name):
    """What plan says of a model and of --resize_vocab is what it says of the model with its rows; a run's bytes are those."""
    lora = [w for k, v in dict(ENDS, additional_target=None).items() if v for w in ("--" + k, str(v))]
    nvme = ["--deepspeed", json.dumps(dict(STAGE, zero_optimization={"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}))]
    for what, words, more, grown in (("full", ["--finetuning_type", "full"], [], "all"), ("full, nvme", ["--finetuning_type", "full"] + nvme, [], "all"),
                                     ("lora", lora, ["--additional_target", "embed_tokens,lm_head"], "rows-m")):
        say = ["plan", "--json", "--gpus", "2"]
        got = json.loads(command(say + [model, "--resize_vocab", "true", "--template", "llama3"] + words))
        t.same("%s: plan, %s" % (model, what), got, json.loads(command(say + [grown] + words + more)))
        few = json.loads(command(say + [model] + words + more))
        ends = 1 if name == "qwen2-tied" and what != "lora" else 2
        t.same("%s: plan, %s: weights that train" % (model, what), got["trained"] - few["trained"], ends * 64 * (rows - read(model + "/config.json")["vocab_size"]))
    for rest in ("", "tokenizer.json"):
        shutil.rmtree("bare", ignore_errors=True)
        shutil.copytree(model, "bare")
        for file in ("model.safetensors", rest):
            if file:
                os.unlink("bare/" + file)
        text = command(["plan", "--json", "bare", "--resize_vocab", "true"] + lora, 2 if rest else 0)
        t.check("%s: plan asks for %s" % (model, rest or "no weights"), not rest or ("--resize_vocab" in text and "tokenizer.json" in text), text)
    text = command(["plan", model, "--resize_vocab", "true", "--template", "llama3", "--additional_target", "lm_head"] + lora, 2)
    t.has(model + ": plan refuses as the run does", text, "name both in --additional_target")


def folder(path):
    """The files of a model folder."""
    files = [n for n in os.listdir(path) if n.startswith(("model", "tokenizer", "special_tokens", "chat_template")) or n.endswith("config.json")]
    return {n: t.file_bytes("%s/%s" % (path, n)) for n in files}


def of_states(model, rows, sft):
    """A state with rows of --resize_vocab becomes the model that the training saves, from any number of ranks."""
    more = dict(sft, resize_vocab=True, finetuning_type="full", lora_target=None, lora_rank=None, lora_alpha=None)
    for dtype in ("auto", "float32"):
        train("ref-" + dtype, model, bf16=True, save_dtype=dtype, max_shard_size="60KB", **more)
    for world in (1, 3):
        what = "%s, %d ranks" % (model, world)
        text = train("unsaved", model, world=world, accumulation=6 // world, bf16=True, deepspeed=json.dumps(dict(STAGE, zero_optimization=dict(
            stage=3, stage3_gather_16bit_weights_on_model_save=False))), max_shard_size="60KB", **more)
        t.has(what + ": no model", text, "flowtrain export --from unsaved/resume writes the model")
        train("ref", model, accumulation=6, bf16=True, max_shard_size="60KB", **more)
        command(["export", "--from", "unsaved/resume"])
        t.check(what + ": the model of its state", folder("unsaved") == folder("ref"), sorted(folder("unsaved")))
        t.same(what + ": vocab_size", (read("unsaved/config.json")["vocab_size"], t.stored("all/model.safetensors")["model.embed_tokens.weight"][1][0]),
               (rows, rows))
    for dtype in ("auto", "float32"):
        shutil.rmtree("of-state", ignore_errors=True)
        command(["export", "--from", "ref-auto/resume", "--output", "of-state", "--save_dtype", dtype])
        t.check("%s: %s of its state" % (model, dtype), folder("of-state") == folder("ref-" + dtype), sorted(folder("of-state")))
    freeze = dict(more, finetuning_type="freeze", freeze_trainable_layers=1, freeze_extra_modules="lm_head" if model == "full-llama" else None)
    text = train("ends-frozen", model, **freeze)
    t.has(model + ": rows that did not train", command(["export", "--from", "ends-frozen/resume", "--output", "none"], 2),
          "in which model.embed_tokens.weight did not train")
    refused(model + ": rows that are in no state", model, "--resize_vocab: stage3_gather_16bit_weights_on_model_save is false", deepspeed=json.dumps(
        dict(STAGE, zero_optimization=dict(stage=3, stage3_gather_16bit_weights_on_model_save=False))), **freeze)


def as_planned(what, text):
    rows = t.compared(text)
    for kind in ("weights", "gradients"):
        got = {k: v for k, v in rows.items() if k.startswith(kind)}
        t.check("%s: %s as planned" % (what, kind), got and all(abs(n - p) <= 0.01 * p for p, n in got.values()), rows)


def resized():
    """Rows for tokens that the model has none for: the template's stop words, in a vocabulary that is full."""
    size = max(max(read("ex/model/tokenizer.json")["model"]["vocab"].values()), max(x["id"] for x in read("ex/model/tokenizer.json")["added_tokens"])) + 1
    for name in ("llama", "qwen2-tied"):
        model = "full-" + name
        os.mkdir(model + "-config")
        with open(model + "-config/config.json", "w") as f:
            json.dump(dict(read(name + "/config.json"), vocab_size=size), f)
        t.same(model + " is made", t.Run(["init", "--config", model + "-config", "--output", model, "--tokenizer", "ex/model"]).wait(), 0)
        shutil.copy("ex/model/tokenizer_config.json", model)
        base = t.stored(model + "/model.safetensors")["model.embed_tokens.weight"]
        rows = (size + 64) // 64 * 64  # a stop word more, at least
        sft = dict(stage="sft", dataset="arithmetic", template="llama3", steps=2, overwrite_output_dir=True)
        none = dict(ENDS, additional_target=None)
        refused(model + ": no row for a stop word", model, "tokenizer and model do not belong together", **dict(none, **sft))
        text = train("rows", model, resize_vocab=True, learning_rate="0", **dict(none, **sft))
        t.has(model + ": said", text, "Resizing embeddings: %d -> %d rows" % (size, rows))
        t.check(model + ": nothing is said of stop words that stay", "their embeddings are not trained" not in text, text)
        got = t.stored("rows" + FILE)
        for end in ("model.embed_tokens.weight", "lm_head.weight"):
            data = got[PREFIX + end]
            t.same("%s: %s" % (model, end), data[:2], ("F32", [rows, 64]))
            old = t.stored(model + "/model.safetensors").get(end, base)
            t.check("%s: %s: its old rows" % (model, end), data[2][:len(old[2])] == old[2])
            values = struct.unpack("<%df" % (rows * 64), data[2])
            mean = [sum(values[j:size * 64:64]) / size for j in range(64)]
            noise = [x - mean[i % 64] for i, x in enumerate(values[size * 64:])]
            sd = (sum(x * x for x in noise) / len(noise)) ** 0.5
            t.check("%s: %s: new rows are the mean and noise" % (model, end), abs(sum(noise) / len(noise)) < 0.03 and abs(sd * 8 - 1) < 0.1, sd)
        t.check(model + ": each tensor has its own noise", name == "qwen2-tied" or got[PREFIX + "lm_head.weight"][2][-256:] != got[PREFIX + "model.embed_tokens.weight"][2][-256:])
        train("one", model, resize_vocab=True, **dict(none, **sft))
        for stage in (0, 3):
            as_planned(model + ", resized", train("two", model, world=2, accumulation=1, resize_vocab=True, deepspeed=zero(stage), **dict(none, **sft)))
            t.check("%s, resized, stage %d on two ranks: the same bits" % (model, stage), t.stored("two" + FILE) == t.stored("one" + FILE))
        t.same(model + ": nothing unfinished", [n for n in os.listdir("one") if n.startswith(".tmp")], [])
        t.same(model + ": inspect", json.loads(command(["inspect", "one", "--verify", "--json"]))["verified"], len(got))
        shutil.rmtree("rows-m", ignore_errors=True)
        command(["merge", "--model_name_or_path", model, "--adapter_name_or_path", "one", "--output", "rows-m"])
        t.same(model + ": config.json", [read("rows-m/config.json")[k] for k in ("vocab_size", "tie_word_embeddings")], [rows, False])
        ids = ((3, size, 45, size + 1, 8),)
        t.check(model + ": merged", distance(logits("rows-m", None, ids), logits(model, "one", ids)) < 1e-5)
        command(["export", "--check", "--model_name_or_path", model, "--adapter_name_or_path", "one", "--merged", "rows-m"])
        train("more", model, adapter_name_or_path="one", resize_vocab=True, **dict(none, lora_target=None, lora_rank=None, lora_alpha=None, **sft))
        a, b = ([e["loss"] for e in t.log_lines(out) if "loss" in e] for out in ("one", "more"))
        t.check(model + ": goes on", b[0] < a[0], (a, b))
        train("all", model, resize_vocab=True, finetuning_type="full", **dict(sft, lora_target=None, lora_rank=None, lora_alpha=None))
        t.same(model + ": full: rows", (t.stored("all/model.safetensors")["model.embed_tokens.weight"][1], read("all/config.json")["vocab_size"]),
               ([rows, 64], rows))
        of_states(model, rows, sft)
        t.check(model + ": full: it is a model", len(logits("all", None, ids)) == 5 * rows)
        planned_of_rows(model, rows, name)
    refused("one of the two", "full-llama", "name both in --additional_target", resize_vocab=True, **dict(ENDS, additional_target="lm_head", **dict(sft, steps=1)))
    full = dict(sft, resize_vocab=True, finetuning_type="full", lora_target=None, lora_rank=None, lora_alpha=None)
    train("enough-full", "llama", **full)
    command(["export", "--from", "enough-full/resume", "--output", "enough-state"])
    t.check("rows enough: the model of its state", folder("enough-state") == folder("enough-full"))
    text = train("enough", "llama", resize_vocab=True, **dict(none, steps=1))
    t.check("rows enough: both train all the same", "Resizing" not in text and t.stored("enough" + FILE)[PREFIX + "lm_head.weight"][1] == [512, 64], text)


STEPS = 8


def state(out, ranks=1, stage=2, model="llama", host=False, **more):
    return t.train(out, out, ranks, **dict(flags(model, accumulation=6 // ranks, dataset="arithmetic", stage="sft", template="default",
                                                 deepspeed=zero(stage, host=host), steps=STEPS, save_steps=4, max_grad_norm=0,
                                                 lora_dropout=0.1), **dict(ENDS, **more))).text()


def states():
    """Stopped on some ranks, taken up on others; in bf16 masters are more than weights. Gradients of adapters are summed on each rank
    first, so that another number of ranks gives other last bits after the next step."""
    for model, of in (("llama", {}), ("qwen2-tied", dict(additional_target="lm_head,norm,q_proj", lora_target="k_proj,v_proj"))):
        ref, at = model + "-ref", STEPS // 2
        state(ref, model=model, **of)
        state(ref + "-bf16", model=model, bf16=True, **of)
        for a, b in (((1, 2), (1, 2)), ((1, 2), (2, 3)), ((3, 3), (2, 1)), ((2, 0), (3, 3))):
            what, out = "%s: %d ranks at stage %d, then %d at %d" % ((model,) + a + b), "%s-%d%d%d%d" % ((model,) + a + b)
            same = a == b
            state(out, *a, model=model, bf16=same, steps=at, **of)
            before = t.stored(out + FILE)
            parts = os.listdir("%s/resume/step-%d" % (out, at))
            t.same(what + ": parts", len(parts), a[0] + 1)
            more = dict(model=model, bf16=same, resume_from_checkpoint="last", overwrite_output_dir=True, host=b == (3, 3), **of)
            state(out, *b, **dict(more, steps=at))
            t.check(what + ": what was saved, without a step", t.stored(out + FILE) == before)
            text = state(out, *b, **more)
            t.has(what + ": goes on", text, "Continuing training from global step %d" % at)
            if same:
                t.check(what + ": the adapter", t.stored(out + FILE) == t.stored(ref + "-bf16" + FILE))
                continue
            got, want = t.tensors(out + FILE), t.tensors(ref + FILE)
            off = max(distance(got[n], want[n]) for n in want)
            t.check(what + ": the adapter, but for last bits", off < 1e-5, off)
    out = "llama-1212"
    for what, more, want in (("fewer modules", dict(additional_target="lm_head"), "--additional_target is embed_tokens,lm_head there, lm_head here"),
                             ("adapters alone", dict(additional_target=None), "--additional_target=embed_tokens,lm_head is"),
                             ("all weights", dict(finetuning_type="full", additional_target=None, lora_target=None, lora_rank=None, lora_alpha=None,
                                                  lora_dropout=None), "is of a LoRA run")):
        run = t.launch(out, 1, **dict(flags("llama", accumulation=6, dataset="arithmetic", stage="sft", template="default", deepspeed=zero(2),
                                            steps=STEPS, save_steps=4, max_grad_norm=0, lora_dropout=0.1, bf16=True, overwrite_output_dir=True,
                                            resume_from_checkpoint="last"), **dict(ENDS, **more)))
        t.same(what + ": refused", run.wait(), 2)
        t.has(what, run.text(), want)
    text = command(["export", "--from", "llama-1212/resume", "--output", "none", "--model_name_or_path", "llama"], 2)
    t.has("no model of a state of adapters", text, "is of a LoRA run: its adapter is in the output folder")
    # The best of several is loaded in the end: its modules too.
    text = state("best", 2, 3, learning_rate="3e-2", eval_strategy="steps", eval_steps=2, save_steps=2, val_size=6, load_best_model_at_end=True,
                 metric_for_best_model="loss", greater_is_better=True)
    t.has("the best is loaded", text, "Loading best model from best/checkpoint-")
    step = text.split("Loading best model from best/checkpoint-")[1].split(" ")[0]
    t.check("the best is the result", step != str(STEPS) and t.stored("best" + FILE) == t.stored("best/checkpoint-%s%s" % (step, FILE)), step)
    train("nvme", "llama", world=2, accumulation=1, steps=3, overwrite_output_dir=True, **ENDS)
    nvme = {"device": "nvme", "nvme_path": t.folder}
    shutil.copytree("nvme", "nvme-ref")
    run = t.launch("nvme", 2, **flags("llama", accumulation=1, steps=3, overwrite_output_dir=True, deepspeed=zero(3, offload_optimizer=nvme), **ENDS))
    if run.wait() == 0:
        t.check("states on a disk: the same bits", t.stored("nvme" + FILE) == t.stored("nvme-ref" + FILE))
    else:
        t.has("states on a disk", run.text(), "O_DIRECT")


def on_simulated_gpu(rows):
    for name in ("ends", "norms", "tied-head", "experts", "plus"):
        train(name, rows[name]["model"], device="cuda", steps=3, **rows[name]["flags"])
        follows(name, name, rows[name], 2e-6, 1e-5, steps=3)
    for stage in (0, 3):
        train("two", "llama", world=2, accumulation=1, deepspeed=zero(stage), device="cuda", steps=3, overwrite_output_dir=True, **ENDS)
        t.check("stage %d on two ranks: the same bits" % stage, t.stored("two" + FILE) == t.stored("ends" + FILE))
    train("off", "llama", world=2, accumulation=1, deepspeed=zero(3, host=True), device="cuda", steps=3, overwrite_output_dir=True, **ENDS)
    t.check("the host steps: the same bits", t.stored("off" + FILE) == t.stored("ends" + FILE))


def main():
    t.begin()
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    if part == "cuda":
        t.simulate()
    make_inputs()
    golden = read(os.path.join(GOLDEN, "additional.json"))
    if part == "states":
        states()
    elif part == "resized":
        resized()
    elif part == "cuda":
        on_simulated_gpu(golden["rows"])
    else:
        golden_steps(golden["rows"])
        layouts()
        saved()
        planned()
        theirs(golden["theirs"])
        go_on()
        refusals()
    t.finish()


main()
