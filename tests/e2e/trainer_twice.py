#!/usr/bin/env python3
"""A model folder that says one thing twice: the losses are those of the one that transformers takes, a note names both,
and inspect has it too. Which one that is, is recorded: tests/golden/model_config.py and model_folder.py."""
import json
import math
import os
import shutil
import subprocess

import trainer_lib as t
from fp8_lib import read, write

LINEAR = {"rope_type": "linear", "factor": 2.0}


def folder(name, config={}, without=(), files=None):
    """A copy of the example with another config.json and other files."""
    shutil.copytree("llama/model", name)
    with open(name + "/config.json") as f:
        content = json.load(f)
    content = {k: v for k, v in {**content, **config}.items() if k not in without}
    with open(name + "/config.json", "w") as f:
        json.dump(content, f)
    for file, text in (files or {}).items():
        with open(os.path.join(name, file), "w") as f:
            f.write(text)
    return name


def run(words):
    done = subprocess.run([t.flowtrain] + words, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def loss(name, notes=()):
    """Of some records; the notes are all that is said of the folder."""
    code, _, said = run(["eval", "--model_name_or_path", name, "--template", "default", "--dataset", "arithmetic",
                         "--dataset_dir", "llama/data", "--max_samples", "8", "--output", name + ".json"])
    t.same(name + ": exit status", code, 0)
    lines = [line for line in said.split("\n") if line.startswith(("said twice", "without effect"))]
    t.same(name + ": lines", len(lines), len(notes))
    for line, note in zip(lines, notes):
        t.has(name + ": note", line, note)
    code, shown, _ = run(["inspect", "--verify", "--json", name])
    t.same(name + ": said by inspect", len(json.loads(shown)["said_twice"]), len(notes))
    with open(name + ".json") as f:
        return json.load(f)["token_loss"]


def refused(what, words, part):
    code, _, said = run(words)
    t.check(what + ": refused", code != 0)
    t.has(what, said, part)


def keys(plain):
    other = {"rope_type": "default", "rope_theta": 500.0}
    t.same("rope_scaling counts", loss(folder("both", {"rope_parameters": other}),
                                       ["rope_scaling {\"rope_type\":\"llama3\""]), plain)
    t.same("rope_scaling of null does not", loss(folder("null", {"rope_scaling": None, "rope_parameters": other}, ["rope_theta"])),
           loss(folder("alone", {"rope_parameters": other}, ["rope_scaling", "rope_theta"])))
    inner = loss(folder("inner", {"rope_scaling": {**LINEAR, "rope_theta": 500}}, ["rope_theta"]))
    t.same("a base in rope_scaling", inner, loss(folder("top", {"rope_scaling": LINEAR, "rope_theta": 500})))
    t.check("is another one", inner != loss(folder("usual", {"rope_scaling": LINEAR})))
    t.same("both bases", loss(folder("bases", {"rope_scaling": {**LINEAR, "rope_theta": 500}}), ["rope_theta: rope_scaling 500"]),
           inner)
    t.same("a key that nobody knows", loss(folder("idle", {"rope_scaling": {**LINEAR, "attn_factor": 0.8}}),
                                           ["without effect, attn_factor: rope_scaling 0.8"]), loss("usual"))
    mistral = {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 4}
    full, slide = ["full_attention"] * 4, ["sliding_attention"] * 4
    t.same("a Mistral with layers that see all",
           loss(folder("full", {**mistral, "layer_types": full}), ["layer_types ministral is taken, model_type mistral"]), plain)
    t.same("with layers that have a window", loss(folder("slide", {**mistral, "layer_types": slide}), ["layer_types"]),
           loss(folder("window", mistral)))
    refused("no window", ["eval", "--model_name_or_path", folder("none", {**mistral, "layer_types": full, "sliding_window": None}),
                          "--template", "default", "--dataset", "arithmetic", "--dataset_dir", "llama/data"], "sliding_window")


def weights(plain):
    base = read("llama/model/model.safetensors")
    shape = base["model.embed_tokens.weight"][1]
    head = folder("head")
    write(head + "/model.safetensors", {**base, "lm_head.weight": ("BF16", shape, bytes(2 * shape[0] * shape[1]))})
    got = loss(head, ["the head: lm_head.weight is taken, tie_word_embeddings true"])
    t.check("a head of zeros", abs(got - math.log(shape[0])) < 1e-3, got)
    t.train("under it", "adapter", 1, steps=2, accumulation=1, deepspeed=None, max_samples=8, model_name_or_path=head,
            dataset_dir="llama/data")
    code, _, said = run(["merge", "--model_name_or_path", head, "--adapter_name_or_path", "adapter", "--output", "merged"])
    t.same("merge", code, 0)
    t.has("merge says it", said, "lm_head.weight is taken")
    t.same("the merged head", read("merged/model.safetensors")["lm_head.weight"][2], bytes(2 * shape[0] * shape[1]))
    same = folder("same")
    write(same + "/model.safetensors", {**base, "lm_head.weight": base["model.embed_tokens.weight"]})
    t.same("the same head", loss(same), plain)
    bare = folder("bare")
    write(bare + "/model.safetensors", {name[len("model."):]: v for name, v in base.items()})
    t.same("names of the trunk", loss(bare), plain)
    index = json.dumps({"weight_map": {name: "gone.safetensors" for name in base}})
    t.same("an index whose shards are gone", loss(folder("gone", files={"model.safetensors.index.json": index}),
                                                  ["weights: model.safetensors is taken"]), plain)
    beside = folder("beside", files={"adapter_config.json": "{}"})
    refused("an adapter beside it", ["eval", "--model_name_or_path", beside, "--template", "default", "--dataset",
                                     "arithmetic", "--dataset_dir", "llama/data"], "lies beside a model")


def adapters():
    """Of an adapter: pickled weights, and one on the head of a model that is tied."""
    with open("adapter/adapter_config.json") as f:
        config = json.load(f)
    for name, change in (("pickled", {}), ("on-head", {"target_modules": ["q_proj", "lm_head"]})):
        os.mkdir(name)
        with open(name + "/adapter_config.json", "w") as f:
            json.dump({**config, **change}, f)
    with open("pickled/adapter_model.bin", "w"):
        pass
    shutil.copy("adapter/adapter_model.safetensors", "on-head")
    evaluate = ["eval", "--model_name_or_path", "plain", "--template", "default", "--dataset", "arithmetic", "--dataset_dir",
                "llama/data", "--adapter_name_or_path"]
    for name, part in (("pickled", "adapter_model.bin is not read: pickled weights may run code. Convert them once: python3"),
                       ("on-head", "LoRA target lm_head: adapters of the head are not done")):
        refused(name, evaluate + [name], part)
        refused(name, ["inspect", "--verify", "--model", "plain", name], part)


def marks():
    """A byte order mark before JSON is refused, as by the reference's reader: of a model, data sets and DeepSpeed."""
    said = ":1:1: a byte order mark stands before the JSON"
    with open("plain/config.json") as f:
        text = f.read()
    refused("a byte order mark", ["inspect", folder("mark", files={"config.json": "\ufeff" + text})],
            "mark/config.json" + said)
    shutil.copytree("llama/data", "marked")
    with open("marked/dataset_info.json") as f:
        text = f.read()
    for name, more in (("marked/dataset_info.json", text), ("marked.json", t.ZERO3)):
        with open(name, "w") as f:
            f.write("\ufeff" + more)
    flags = dict(steps=1, deepspeed=None, model_name_or_path="plain", dataset_dir="llama/data", tokenized_path=None)
    refused("a mark in dataset_info.json", t.train_args("marked-out", **dict(flags, dataset_dir="marked")), "marked/dataset_info.json" + said)
    refused("a mark in DeepSpeed's file", t.train_args("marked-out", **dict(flags, deepspeed="marked.json")), "marked.json" + said)


def files():
    """A node's files are those of its tensors, by either form of names, and that of a head that may be another one."""
    names = [name[len("model."):] for name in read("llama/model/model.safetensors")]
    os.mkdir("listed")
    shutil.copy("llama/model/config.json", "listed")
    index = {name: "layers.safetensors" if "layers" in name else "ends.safetensors" for name in names}
    with open("listed/model.safetensors.index.json", "w") as f:
        json.dump({"weight_map": {**index, "lm_head.weight": "head.safetensors"}}, f)
    code, shown, said = run(["plan", "--files", "0", "--nodes", "1", "--gpus", "1", "listed"])
    t.check("files of a node", code == 0, said)
    t.same("all of them", sorted(shown.split()), ["ends.safetensors", "head.safetensors", "layers.safetensors"])


def origins():
    """Where each value came from."""
    code, shown, _ = run(["inspect", "--json", folder("bare-keys", {"rope_scaling": LINEAR},
                                                      ["rms_norm_eps", "head_dim", "rope_theta"])])
    t.same("exit status", code, 0)
    config = json.loads(shown)["config"]
    t.same("of the file", config["hidden_size"], {"value": 96, "from": "config.json"})
    t.same("by default", config["rms_norm_eps"], {"value": 1e-6, "from": "default of llama"})
    t.same("derived", config["head_dim"], {"value": 16, "from": "derived"})
    t.same("the base", config["rope_theta"], {"value": 10000.0, "from": "default of llama"})


def main():
    t.begin()
    run(["init", "--example", "llama", "--model", "llama"])
    shutil.copytree("llama/model", "plain")
    plain = loss("plain")
    keys(plain)
    weights(plain)
    adapters()
    files()
    marks()
    origins()
    t.finish()


main()
