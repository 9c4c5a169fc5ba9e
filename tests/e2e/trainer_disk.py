#!/usr/bin/env python3
"""Disks and files of a run: one that is too small is told before the first step, one that fills up later loses
nothing that was saved; files that the model does not read may come and go."""
import json
import os
import shutil
import subprocess
import sys

import trainer_lib as t

ADAPTER = "/adapter_model.safetensors"
SMALL = dict(accumulation=1, max_samples=20, deepspeed=None, tokenized_path=None)


def own_mounts():
    """From now on this process is alone with its mounts; false: it may not be."""
    if os.environ.get("FT_INSIDE"):
        return True
    words = ["unshare", "--mount", "--propagation", "private"]
    try:
        if subprocess.run(words + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            return False
    except FileNotFoundError:
        return False
    os.environ["FT_INSIDE"] = "1"
    os.execvp(words[0], words + [sys.executable] + sys.argv)


def disk(name, kilobytes):
    os.mkdir(name)
    return subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % kilobytes, "tmpfs", name]).returncode == 0


def state_bytes():
    """Of a resume state: three numbers of four bytes for each of the adapter's."""
    t.train("a state to measure", "measure", 1, **SMALL, steps=2)
    return os.path.getsize("measure/resume/step-2/state.safetensors"), os.path.getsize("measure" + ADAPTER)


def too_small(state):
    if not disk("tiny", 2 * state // 1024):
        return False
    run = t.Run(t.train_args("tiny/out", **SMALL, steps=2))
    t.check("a disk for two states: it ends", run.wait() != 0)
    t.has("a disk for two states: why", run.text(), "--output_dir tiny/out has ")
    t.has("a disk for two states: what to do", run.text(), ": make room, give another folder, or set --no_resume_state")
    t.check("a disk for two states: before weights are read", "Weights loaded" not in run.text(), run.text())
    t.same("a disk for two states: nothing is left", [n for n in os.listdir("tiny/out") if n != "cache"], [])
    t.train("without states it is large enough", "tiny/out", 1, **SMALL, steps=2, no_resume_state=True, save_strategy="no")
    return True


def fills_up(state, adapter):
    """Room for what is there at once and some checkpoints, not for all of them: this is said at the start, the run
    ends when a checkpoint has no room, and goes on from its newest state when there is some again."""
    disk("full", (5 * state + 3 * adapter) // 1024 + 200)
    args = dict(SMALL, steps=8, save_steps=1, seed=3)
    t.train("with all room", "all", 1, **args)
    run = t.Run(t.train_args("full/out", **args))
    t.same("a full disk: exit status", run.wait(), 1)
    text = run.text()
    t.has("a full disk: told at the start", text, "checkpoints with their resume states need ")
    t.has("a full disk: what to do", text, "set --save_total_limit or --save_only_model, or make room")
    t.has("a full disk: why it ends", text, "No space left on device")
    t.check("a full disk: the file is named", "full/out/" in text.split("flowtrain train: ")[-1], text[-500:])
    steps = sorted(int(n.split("-")[1]) for n in os.listdir("full/out/resume") if n.startswith("step-"))
    t.check("a full disk: states are there", len(steps) >= 2, steps)
    for name in os.listdir("full/out"):
        if name.startswith("checkpoint-"):
            shutil.rmtree("full/out/" + name)
    t.train("room again", "full/out", 1, **args, save_total_limit=1, resume_from_checkpoint="last", overwrite_output_dir=True)
    t.same("room again: losses", t.losses("full/out"), t.losses("all"))
    t.same("room again: adapter", t.file_bytes("full/out" + ADAPTER), t.file_bytes("all" + ADAPTER))


FULL = dict(SMALL, finetuning_type="full", lora_target=None, lora_rank=None, lora_alpha=None, lora_dropout=None, steps=4,
            save_steps=1)
MODEL = "/model.safetensors"


def parts():
    """States of trained weights, in parts of two ranks: the disk has room for two, then not for a third beside those of
    the checkpoints."""
    t.train("states of parts", "parts", 2, **FULL)
    at = "parts/resume/step-4/"
    state = sum(os.path.getsize(at + name) for name in os.listdir(at) if name.startswith("part-"))
    model = os.path.getsize("parts" + MODEL)

    disk("narrow", 3 * state // 2048)
    run = t.launch("narrow/out", 2, **FULL)
    t.check("no room for two states of parts: it ends", run.wait() != 0)
    t.has("no room for two states of parts: why", run.text(), "--output_dir narrow/out has ")
    t.has("no room for two states of parts: how many", run.text(), " (2 of ")

    disk("filled", (5 * state // 2 + 3 * model) // 1024 + 600)
    run = t.launch("filled/out", 2, **FULL)
    t.same("parts fill the disk: exit status", run.wait(), 1)
    t.has("parts fill the disk: told at the start", run.text(), "checkpoints with their resume states need ")
    t.has("parts fill the disk: the file", run.text(), "writing resume state of step 3: filled/out/resume/.tmp-step-3/part-0000")
    t.has("parts fill the disk: why", run.text(), "No space left on device")
    t.same("parts fill the disk: what is left", sorted(os.listdir("filled/out/resume")), ["step-1", "step-2"])
    for step in (1, 2, 3):
        shutil.rmtree("filled/out/checkpoint-%d" % step)
    t.train("room for parts again", "filled/out", 2, **FULL, save_total_limit=1, resume_from_checkpoint="last", overwrite_output_dir=True)
    t.same("room for parts again: losses", t.losses("filled/out"), t.losses("parts"))
    t.same("room for parts again: the model", t.file_bytes("filled/out" + MODEL), t.file_bytes("parts" + MODEL))


def unread_files():
    """A checkpoint with a file of tensors that the model does not read, as of a further prediction layer: it counts
    for nothing, there or not."""
    run = t.Run(["init", "--shape-of", "ex/model", "--shard_bytes", "200KB", "--tokenizer", "ex/model", "--output", "more"])
    t.check("a model in many files", run.wait() == 0, run.text())
    header = json.dumps({"model.layers.99.eh_proj.weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    with open("more/extra.safetensors", "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header + bytes(8))
    with open("more/model.safetensors.index.json") as f:
        index = json.load(f)
    index["weight_map"]["model.layers.99.eh_proj.weight"] = "extra.safetensors"
    with open("more/model.safetensors.index.json", "w") as f:
        json.dump(index, f)
    args = dict(SMALL, model_name_or_path="more", save_steps=2)
    t.train("with a file more", "more-4", 1, **args, steps=4)
    shutil.copytree("more-4", "less-4")
    shutil.rmtree("less-4/resume/step-4")
    os.remove("more/extra.safetensors")
    run = t.train("without it", "less-4", 1, **args, steps=4, resume_from_checkpoint="last", overwrite_output_dir=True)
    t.has("without it: it goes on", run.text(), "Continuing training from global step 2")
    t.same("without it: losses", t.losses("less-4"), t.losses("more-4"))
    t.same("without it: adapter", t.file_bytes("less-4" + ADAPTER), t.file_bytes("more-4" + ADAPTER))


def main():
    mounts = own_mounts()
    t.begin()
    unread_files()
    sizes = state_bytes()
    if mounts and too_small(sizes[0]):
        fills_up(*sizes)
        parts()
    else:
        print("skipped: small disks, no file system can be mounted here")
    t.finish()


main()
