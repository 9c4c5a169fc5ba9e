#!/usr/bin/env python3
"""Slices of a large model for trials: flowtrain init --shape-of, in bf16 and FP8, and what reads them:
training, generation, and a report of how fast the weights came. With FLOWRUN_DATA the plan of the released
671B configuration, in little time and memory, and which of its files each node has to hold.
"""
import gzip
import json
import os
import shutil
import struct

import trainer_lib as t

KEYS = ("hidden_size", "n_routed_experts", "num_attention_heads", "kv_lora_rank", "vocab_size")


def load(path):
    with open(path) as f:
        return json.load(f)


def init(what, out, *words):
    run = t.Run(["init", "--output", out] + list(words))
    t.check(what, run.wait() == 0, run.text())
    return run.text()


def refused(what, want, *words, code=2):
    run = t.Run(["init", "--output", "no"] + list(words))
    t.same(what + ": exit status", run.wait(), code)
    t.has(what, run.text(), want)
    t.check(what + ": nothing is left", not os.path.exists("no") or os.listdir("no") == [], os.path.exists("no") and os.listdir("no"))


def headers(folder):
    """{name: (type, shape)} of all weights, and their bytes on disk."""
    found, total = {}, 0
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, name), "rb") as f:
            size = struct.unpack("<Q", f.read(8))[0]
            header = json.loads(f.read(size))
        for key, v in header.items():
            if key != "__metadata__":
                found[key] = (v["dtype"], v["shape"])
                total += v["data_offsets"][1] - v["data_offsets"][0]
    return found, total


def shown(text, words):
    """The size that was said beforehand, in bytes as far as one digit behind the point goes."""
    number, unit = text.split(words)[1].split("(")[0].split()[-2:]
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def slices():
    """Two of the example's four layers, as they are released: in bf16, and in FP8."""
    whole = load("ex/model/config.json")
    for form, words in (("bf16", "16 bits"), ("fp8", "FP8")):
        text = init("a slice in " + form, form, "--shape-of", "ex/model", "--layers", "2", "--weights", form, "--seed", "7",
                    "--tokenizer", "ex/model")
        config = load(form + "/config.json")
        t.same(form + ": the shape", [config[k] for k in KEYS], [whole[k] for k in KEYS])
        t.same(form + ": layers", (config["num_hidden_layers"], config["first_k_dense_replace"]), (2, 1))
        tensors, total = headers(form)
        t.same(form + ": layers of weights", sorted({n.split(".")[2] for n in tensors if ".layers." in n}), ["0", "1"])
        said = shown(text, "parameters in %s: " % words)
        t.check(form + ": the size was said", abs(said / total - 1) < 0.06, (said, total, text))
        scales = [n for n in tensors if n.endswith("_scale_inv")]
        coded = [n for n, (kind, _) in tensors.items() if kind == "F8_E4M3"]
        t.same(form + ": scales", sorted(n + "_scale_inv" for n in coded), sorted(scales))
        t.check(form + ": coded", (len(coded) > 0) == (form == "fp8"), coded[:3])
        t.check(form + ": nothing but a whole folder", "config.unfinished.json" not in os.listdir(form))
    text = init("one layer", "one", "--shape_of", "ex/model/config.json", "--layers", "1")
    t.same("a slice has a layer with experts", load("one/config.json")["first_k_dense_replace"], 0)
    t.has("it says so", text, "1 layers, 1 of them with experts")
    shutil.copy("bf16/model.safetensors", "before")
    init("again", "bf16", "--shape-of", "ex/model", "--layers", "2", "--weights", "bf16", "--seed", "7", "--overwrite")
    t.check("the same seed, the same weights", t.file_bytes("before") == t.file_bytes("bf16/model.safetensors"))


def refusals():
    refused("too many layers", "--layers 9: ex/model has 4", "--shape-of", "ex/model", "--layers", "9")
    refused("no model", "--shape-of no-model: neither deepseek-v3 nor a model's config.json", "--shape-of", "no-model")
    refused("another type", "--weights is 'int4', expected bf16 or fp8", "--shape-of", "ex/model", "--weights", "int4")
    refused("both", "one of --config and --shape-of", "--shape-of", "ex/model", "--config", "ex/model")
    refused("layers of nothing", "--layers and --weights are of --shape-of", "--config", "ex/model", "--layers", "2")
    config = load("ex/model/config.json")
    with open("huge.json", "w") as f: # no disk holds its embedding
        json.dump(dict(config, vocab_size=2 ** 24, hidden_size=2 ** 16), f)
    run = t.Run(["init", "--output", "huge", "--shape-of", "huge.json", "--layers", "2"])
    t.same("no room: exit status", run.wait(), 2)
    t.check("no room", " free, the weights take " in run.text() and "fewer --layers" in run.text(), run.text())
    t.same("no room: nothing is written", os.listdir("huge"), [])


def trained():
    """A slice loads and trains as any model does; the FP8 one as its dequantised twin."""
    text = t.train("bf16", "t-bf16", 2, model_name_or_path="bf16", steps=2, save_strategy="no").text()
    t.has("what was loaded", text, "Weights loaded: ")
    run = t.Run(["convert", "--model_name_or_path", "fp8", "--to", "bf16", "--output", "twin"])
    t.same("convert", run.wait(), 0)
    for out, model in (("t-fp8", "fp8"), ("t-twin", "twin")):
        t.train(out, out, 1, model_name_or_path=model, steps=2, save_strategy="no")
    pairs = [[e["loss"] for e in t.log_lines(out) if "loss" in e] for out in ("t-fp8", "t-twin")]
    # the twin's weights are rounded to bf16 once more: 2^-9 of each, so that losses near log(V) move little
    t.check("FP8 trains as its twin", len(pairs[0]) == 2 and
            all(abs(a / b - 1) < 2.0 ** -7 for a, b in zip(*pairs)), pairs)


def lacking():
    """Files that a folder lacks are named, all of them, before one is read."""
    init("in many files", "many", "--shape-of", "ex/model", "--shard_bytes", "200KB", "--tokenizer", "ex/model")
    files = sorted(n for n in os.listdir("many") if n.endswith(".safetensors"))
    t.check("in many files", len(files) > 4, files)
    for name in files[1:4]:
        os.remove("many/" + name)
    run = t.launch("lacking", 1, steps=1, model_name_or_path="many")
    t.check("files that are not there: it ends", run.wait() != 0)
    t.has("files that are not there", run.text(), "node 0 lacks 3 of the checkpoint's %d files that its ranks read: %s; "
          % (len(files), ", ".join(files[1:4])))
    run = t.Run(["convert", "--model_name_or_path", "many", "--to", "fp8", "--output", "never"])
    t.check("to be converted: it ends", run.wait() != 0)
    t.has("to be converted", run.text(), "3 of the %d files that many/model.safetensors.index.json names are not "
          "there: %s" % (len(files), ", ".join(files[1:4])))


def layout(**moe):
    return json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3},
                       "moe": dict(enabled=True, **moe)})


def files_of(node, model, *words):
    run = t.Run(["plan", "--files", str(node), "--nodes", "2", "--gpus", "2", model, *words])
    t.check("plan --files", run.wait() == 0, run.text())
    return run.text().splitlines()


def nodes(out, folders, **more):
    """Two nodes of two ranks, each with a folder of its own; their launchers' statuses and texts."""
    port, runs = t.free_port(), []
    for node, folder in enumerate(folders):
        runs.append(t.launch("%s-%d" % (out, node), 2, port=port, nodes=2, node=node, model_name_or_path=folder,
                             accumulation=3, steps=2, save_strategy="no", **more))
    return [run.wait() for run in runs], [run.text() for run in runs]


def parts():
    """Each node holds the files that its ranks read, as the plan names them: the run is that of whole folders,
    a resume state is of the same model. A file less is named before anything is read."""
    words = dict(deepspeed=layout(expert_group="world"))
    init("in small files", "whole", "--shape-of", "ex/model", "--shard_bytes", "60KB", "--tokenizer", "ex/model")
    every = sorted(n for n in os.listdir("whole") if n.endswith(".safetensors"))
    lists = [files_of(node, "whole", "--deepspeed", words["deepspeed"]) for node in range(2)]
    t.check("no node needs all files, but both together do", set(lists[0]) | set(lists[1]) == set(every) and
            all(4 < len(names) < len(every) for names in lists), [len(names) for names in lists])
    t.same("a layout in which all need all", sorted(files_of(1, "whole")), every)
    for node, names in enumerate(lists):
        os.mkdir("part%d" % node)
        for name in os.listdir("whole"):
            if name not in every or name in names:
                os.symlink(os.path.abspath("whole/" + name), "part%d/%s" % (node, name))
    t.same("whole folders", nodes("all", ("whole", "whole"), **words)[0], [0, 0])
    statuses, texts = nodes("part", ("part0", "part1"), **words)
    t.check("parts of folders", statuses == [0, 0], texts[0][-2000:])
    t.same("parts of folders: losses", t.losses("part-0"), t.losses("all-0"))
    only = [name for name in lists[1] if name not in lists[0]]
    os.remove("part1/" + only[0])
    os.remove("part1/" + only[-1])
    statuses, texts = nodes("less", ("part0", "part1"), **words)
    t.check("files less", 0 not in statuses, statuses)
    t.check("files less: named", any("node 1 lacks 2 of the checkpoint's %d files that its ranks read: %s, %s; "
            "`flowtrain plan --files 1`" % (len(every), only[0], only[-1]) in text for text in texts), texts[1][-2000:])


def released():
    """The index of the 671B model, without its weights: what each of three nodes has to hold."""
    data = os.environ.get("FLOWRUN_DATA", "")
    if not os.path.exists(data + "/deepseek-v3/model.safetensors.index.json.gz"):
        print("skipped: the index of the 671B model, FLOWRUN_DATA has none")
        return
    os.mkdir("v3")
    shutil.copy(data + "/deepseek-v3/config.json", "v3/")
    with gzip.open(data + "/deepseek-v3/model.safetensors.index.json.gz") as f:
        index = f.read()
    with open("v3/model.safetensors.index.json", "wb") as f:
        f.write(index)
    where = json.loads(index)["weight_map"]
    for node in range(3):
        mine = range(node * 8, node * 8 + 8)
        want = {file for name, file in where.items() if not name.startswith("model.layers.61.") and
                (".mlp.experts." not in name or int(name.split(".mlp.experts.")[1].split(".")[0]) * 24 // 256 in mine)}
        words = ["plan", "--files", str(node), "--nodes", "3", "--gpus", "8", "v3", "--deepspeed", layout(expert_group="world")]
        run = t.Run(words)
        _, status, used = os.wait4(run.pid, 0)
        run.process.returncode = status
        t.same("671B, node %d: exit status" % node, status, 0)
        t.same("671B, node %d" % node, set(run.text().splitlines()), want)
        print("671B: node %d holds %d of %d files; %.2f s of a processor, %.0f MB" %
              (node, len(want), len(set(where.values())), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
        t.check("671B: memory", used.ru_maxrss <= 100 * 1024, used.ru_maxrss)


def main():
    t.begin()
    slices()
    refusals()
    trained()
    lacking()
    parts()
    released()
    t.finish()


main()
