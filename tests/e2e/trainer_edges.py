#!/usr/bin/env python3
"""Edges of a run: the last step off the save grid, a limit of checkpoints, a stop that one rank alone was
asked for, a token cache under another train_on_prompt, masks of dropout by epoch, steps that are logged."""
import json
import os
import shutil
import signal
import subprocess

import trainer_lib as t

BASE = dict(accumulation=1, deepspeed=None, max_samples=30)


def numbers(folder, prefix):
    return sorted(int(n[len(prefix):]) for n in os.listdir(folder) if n.startswith(prefix))


def saves():
    """Which checkpoints and resume states stand at the end."""
    for what, flags, checkpoints, states in (
            ("on the grid", dict(steps=4, save_steps=2), [2, 4], [2, 4]),
            ("off the grid", dict(steps=5, save_steps=2), [2, 4, 5], [2, 4, 5]),
            ("one step beyond it", dict(steps=3, save_steps=2), [2, 3], [2, 3]),
            ("before it", dict(steps=1, save_steps=2), [1], [1]),
            ("the newest", dict(steps=4, save_steps=1, save_total_limit=1), [4], [3, 4]),
            ("no limit", dict(steps=4, save_steps=1, save_total_limit=0), [1, 2, 3, 4], [1, 2, 3, 4]),
            ("the newest two", dict(steps=4, save_steps=1, save_total_limit=2), [3, 4], [3, 4]),
            ("the newest three", dict(steps=4, save_steps=1, save_total_limit=3), [2, 3, 4], [2, 3, 4]),
            ("as many as there are", dict(steps=4, save_steps=1, save_total_limit=4), [1, 2, 3, 4], [1, 2, 3, 4]),
            ("models alone", dict(steps=4, save_steps=1, save_only_model=True), [1, 2, 3, 4], [3, 4]),
            ("by epoch", dict(steps=None, num_train_epochs=2, max_samples=3, save_strategy="epoch"), [3, 6], [3, 6]),
            ("ten come after nine", dict(steps=10, save_steps=1, save_total_limit=2), [9, 10], [9, 10])):
        out = "saves-" + what.replace(" ", "-")
        t.train(what, out, 1, **{**BASE, **flags})
        t.same(what + ": checkpoints", numbers(out, "checkpoint-"), checkpoints)
        t.same(what + ": resume states", numbers(out + "/resume", "step-"), states)


def older():
    """Any checkpoint that is kept can be gone on from, also into another folder; what it left behind is newer
    and goes."""
    flags = dict(BASE, save_steps=1, lr_scheduler_type="constant", overwrite_output_dir=True)
    t.train("older", "older", 2, steps=5, **flags)
    adapter = t.file_bytes("older/checkpoint-5/adapter_model.safetensors")
    t.train("from another folder", "newer", 2, steps=5, resume_from_checkpoint="older/checkpoint-2", **flags)
    t.check("from another folder: the same adapter", t.file_bytes("newer/adapter_model.safetensors") == adapter)
    t.same("from another folder: states", numbers("newer/resume", "step-"), [3, 4, 5])
    t.train("from the second", "older", 2, steps=3, resume_from_checkpoint="older/checkpoint-2", **flags)
    t.same("from the second: states", numbers("older/resume", "step-"), [1, 2, 3])
    text = t.train("from none", "third", 2, steps=1, resume_from_checkpoint="false", **flags).text()
    t.check("from none: begun anew", "Continuing training" not in text and numbers("third/resume", "step-") == [1], text[-2000:])
    t.train("by its state's folder", "third", 2, steps=5, resume_from_checkpoint="older/resume/step-3", **flags)
    t.check("by its state's folder: the same adapter", t.file_bytes("third/adapter_model.safetensors") == adapter)


def logs():
    """The first step is logged where it was asked for."""
    for first, want in ((None, [2, 4]), (True, [1, 2, 4])):
        out = "logs-%s" % first
        t.train(out, out, 1, steps=4, logging_steps=2, logging_first_step=first, save_strategy="no", **BASE)
        t.same(out, [e["current_steps"] for e in t.log_lines(out) if "loss" in e], want)


def stop_of_one():
    """Rank 1 alone is asked to stop: all stop behind the same step and the state is whole."""
    run = t.launch("stop", 2, steps=100000, save_steps=100000, lr_scheduler_type="constant", accumulation=1,
                   max_samples=30)
    t.until("the run has begun", lambda: t.steps_done("stop") >= 1 or run.ended())
    os.kill(t.until("rank 1", lambda: run.ranks().get(1)), signal.SIGTERM)
    t.same("one rank is asked: exit status", run.wait(), 3)
    t.has("one rank is asked: message", run.text(), "as asked; the resume state is written")
    states = numbers("stop/resume", "step-")
    if t.same("one rank is asked: one state", len(states), 1):
        run = t.train("goes on", "stop", 2, steps=states[0] + 1, save_steps=100000, accumulation=1, max_samples=30,
                      resume_from_checkpoint="last", overwrite_output_dir=True, lr_scheduler_type="constant")
        t.check("goes on from there", run.ended())


def bar():
    """On a terminal the bar is drawn over itself, and its control characters are no text."""
    ours, theirs = os.openpty()
    run = subprocess.Popen([t.flowtrain] + t.train_args("bar", steps=3, save_strategy="no", **BASE),
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    seen = b""
    with open(ours, "rb", buffering=0) as f:
        try:
            while more := f.read(4096):
                seen += more
        except OSError:  # nobody has the terminal any more
            pass
    t.same("a bar: exit status", run.wait(), 0)
    for part in (b"\r 33%|", b"| 1/3 [", b"\r100%|", b"]\x1b[K\r\n"):
        t.check("a bar: %r" % part, part in seen, seen[-600:])


def caches():
    """One token cache folder, two answers to what is trained."""
    seen = {}
    for prompt in (False, True):
        for where in ("shared", "fresh-%s" % prompt):
            out = "cache-%s-%s" % (prompt, where)
            t.train(out, out, 1, steps=1, save_strategy="no", tokenized_path=where, train_on_prompt=prompt, **BASE)
            seen[prompt, where.split("-")[0]] = t.losses(out)
        t.same("train_on_prompt %s: the cache of the other is not taken" % prompt, seen[prompt, "shared"],
               seen[prompt, "fresh"])
    t.check("train_on_prompt is felt", seen[True, "fresh"] != seen[False, "fresh"])


def masks():
    """With a rate of 0 and a trained adapter, only dropout can change the loss from epoch to epoch."""
    t.train("an adapter", "start", 1, steps=4, save_strategy="no", **dict(BASE, lora_dropout=0.5, learning_rate="5e-2"))
    for p, kinds in (("0", 1), ("0.5", 3)):
        with open("start/adapter_config.json") as f:
            config = json.load(f)
        with open("start/adapter_config.json", "w") as f:
            json.dump(dict(config, lora_dropout=float(p)), f)
        out = "masks-" + p
        t.train(out, out, 1, steps=None, num_train_epochs=3, save_strategy="no", learning_rate="0",
                adapter_name_or_path="start", lora_dropout=p, disable_shuffling=True,
                **dict(BASE, accumulation=2, max_samples=2))
        seen = [loss for loss, _ in t.losses(out).values()]
        t.same("dropout %s: epochs" % p, len(seen), 3)
        t.same("dropout %s: different losses" % p, len(set(seen)), kinds)


def cut_off():
    """Samples whose prompt fills --cutoff_len have no targets: how many is said, and no mean counts them."""
    os.mkdir("cut")
    with open("cut/dataset_info.json", "w") as f:
        json.dump({"long": {"file_name": "long.json"}}, f)
    rows = [{"instruction": "count " * 200, "input": "", "output": "one two three four five six"}] * 2
    with open("cut/long.json", "w") as f:
        json.dump(rows + [{"instruction": "a", "input": "", "output": "b"}], f)
    flags = dict(BASE, max_samples=None, dataset="long", dataset_dir="cut", cutoff_len=8, tokenized_path=None, disable_shuffling=True)
    run = t.train("cut", "cut-out", 1, steps=3, logging_steps=1, save_strategy="no", eval_dataset="long", do_eval=True, **flags)
    t.has("how many", run.text(), "--cutoff_len 8 leaves 2 of 3 samples no targets")
    t.has("a step without any", run.text(), "step 1 has no targets and changes nothing")
    t.has("samples without any in an evaluation", run.text(), "2 of 3 samples have no targets and count for nothing")
    losses = [e["loss"] for e in t.log_lines("cut-out") if "loss" in e]
    with open("cut-out/train_results.json") as f:
        t.same("train_loss is that of the step with targets", json.load(f)["train_loss"], losses[-1])
    t.check("there was one", losses[-1] > 1, losses)


def columns():
    """A file of columns is read by the Python that has pyarrow; here a program that has the records stands for it."""
    os.mkdir("columns")
    with open("columns/dataset_info.json", "w") as f:
        json.dump({"lines": {"file_name": "rows.jsonl"}, "columns": {"file_name": "rows.parquet"}}, f)
    with open("columns/rows.jsonl", "w") as f:
        f.writelines(json.dumps({"instruction": "count %d" % k, "input": "", "output": "it is %d" % k}) + "\n" for k in range(20))
    open("columns/rows.parquet", "w").close()
    with open("python", "w") as f:
        f.write("#!/bin/sh\nexec cat \"${3%parquet}jsonl\"\n")
    os.chmod("python", 0o755)
    flags = dict(BASE, steps=2, dataset_dir="columns", save_strategy="no", tokenized_path=None)
    t.train("lines", "lines-out", 1, dataset="lines", **flags)
    t.train("columns", "columns-out", 1, dataset="columns", env={"FLOWTRAIN_PYTHON": os.path.abspath("python")}, **flags)
    t.same("columns: losses as of lines", t.losses("columns-out"), t.losses("lines-out"))
    run = t.launch("none-out", 1, dataset="columns", env={"FLOWTRAIN_PYTHON": "/nowhere/python3"}, **flags)
    t.check("no Python: refused", run.wait() != 0)
    t.has("no Python: what to do", run.text(), "Install it (pip install pyarrow), name one that has it (FLOWTRAIN_PYTHON=")


def tokenizers():
    """A tokenizer's class and special tokens, where the files of its folder differ."""
    with open("ex/model/tokenizer_config.json") as f:
        plain = json.load(f)
    for what, config, special, said in (
            ("a class with a pipeline of its own", dict(plain, tokenizer_class="Qwen2TokenizerFast"), None,
             "said twice, normalizer: tokenizer_class Qwen2Tokenizer:"),
            ("eos in the map alone", {k: v for k, v in plain.items() if k != "eos_token"}, {"eos_token": plain["eos_token"]}, None),
            ("another eos in the map", dict(plain, eos_token=plain["bos_token"]), {"eos_token": plain["eos_token"]},
             "said twice, eos_token: special_tokens_map.json")):
        folder = what.replace(" ", "-")
        shutil.copytree("ex/model", folder)
        with open(folder + "/tokenizer_config.json", "w") as f:
            json.dump(config, f)
        if special is not None:
            with open(folder + "/special_tokens_map.json", "w") as f:
                json.dump(special, f)
        run = t.train(what, "out-" + folder, 1, steps=1, model_name_or_path=folder, tokenized_path=None, **BASE)
        if said is not None:
            t.has(what, run.text(), said)
            shown = subprocess.run([t.flowtrain, "inspect", folder], stdout=subprocess.PIPE, text=True)
            t.has(what + ": inspect", shown.stdout, said)
        t.check(what + ": no new token", "the tokenizer lacks stop words" not in run.text(), run.text()[-2000:])


def main():
    t.begin()
    tokenizers()
    cut_off()
    columns()
    saves()
    older()
    logs()
    stop_of_one()
    bar()
    caches()
    masks()
    t.finish()


main()
