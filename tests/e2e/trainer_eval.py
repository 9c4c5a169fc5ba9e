#!/usr/bin/env python3
"""Evaluation during training: the figures of transformers' Trainer (golden/evaluate.json), the same on
1, 2 and 3 ranks to the bit; which files hold them; the best checkpoint, early stopping, resume.
"""
import glob
import gzip
import json
import math
import os
import re
import shutil
import struct
import subprocess
import zlib

import trainer_lib as t
from fp8_lib import read

HERE = os.path.dirname(os.path.abspath(__file__))
CLOSE = 2e-6  # f32, sums in other orders


def load(path):
    with open(path) as f:
        return json.load(f)


def evals(out):
    """(step, loss, accuracy) of every evaluation in trainer_log.jsonl."""
    return [(e["current_steps"], e["eval_loss"], e.get("eval_accuracy"))
            for e in t.log_lines(out) if "eval_loss" in e]


def as_the_reference():
    golden = load(HERE + "/../golden/evaluate.json")
    for row in golden["batches"]:
        for world in (1, 2, 3):
            out = "g%d-%d" % (row["batch"], world)
            t.train(out, out, world, accumulation=6 // world, steps=1, save_strategy="no", seed=golden["seed"],
                    val_size=golden["val_size"], cutoff_len=golden["cutoff_len"], eval_on_start=True, do_eval=True,
                    compute_accuracy=True, per_device_eval_batch_size=row["batch"], lora_dropout=0.5)
            first = evals(out)[0]
            t.same(out + ": before the first step", first[0], 0)
            t.check(out + ": loss", abs(first[1] / row["eval_loss"] - 1) < CLOSE, (first, row))
            t.check(out + ": accuracy", abs(first[2] - row["eval_accuracy"]) < 1e-12, (first, row))
            if world > 1:
                t.same(out + ": as on one rank", first, evals("g%d-1" % row["batch"])[0])


def files():
    """eval_steps 2 of 6 steps. The loss falls; with greater_is_better the first evaluation is the best."""
    run = t.train("files", "best", 1, steps=6, val_size=40, eval_strategy="steps", eval_steps=2, greater_is_better=True,
                  load_best_model_at_end=True, save_total_limit=2, compute_accuracy=True, report_to="tensorboard")
    found = evals("best")
    t.same("evaluations", [e[0] for e in found], [2, 4, 6, 6])
    t.check("the loss falls", found[0][1] > found[1][1] > found[2][1], found)
    t.same("the final figures are those of the best adapter", found[3][1:], found[0][1:])
    state = load("best/trainer_state.json")
    t.same("best_metric", state["best_metric"], found[0][1])
    t.same("best_global_step", state["best_global_step"], 2)
    t.same("best_model_checkpoint", state["best_model_checkpoint"], "best/checkpoint-2")
    t.same("eval_steps", state["eval_steps"], 2)
    entry = next(e for e in state["log_history"] if "eval_loss" in e)
    t.same("an entry of the history", sorted(entry),
           ["epoch", "eval_accuracy", "eval_loss", "eval_runtime", "eval_samples_per_second",
            "eval_steps_per_second", "step"])
    t.same("rotation keeps the best", sorted(n for n in os.listdir("best") if n.startswith("checkpoint")),
           ["checkpoint-2", "checkpoint-6"])
    t.same("the adapter is the best", t.file_bytes("best/adapter_model.safetensors"),
           t.file_bytes("best/checkpoint-2/adapter_model.safetensors"))
    results, every = load("best/eval_results.json"), load("best/all_results.json")
    t.same("eval_results.json", results["eval_loss"], found[3][1])
    t.same("all_results.json", [every["eval_loss"], "train_loss" in every], [found[3][1], True])
    text = run.text()
    for part in ("***** Running Evaluation *****", "  Num examples = 40", "***** eval metrics *****", "'eval_loss': ",
                 "Loading best model from best/checkpoint-2 (score: "):
        t.has("terminal", text, part)
    t.check("all samples have targets", "have no targets" not in text, text)
    events = [os.path.join(d, f) for d, _, names in os.walk("best/runs") for f in names]
    t.check("TensorBoard has eval/loss", len(events) == 1 and b"eval/loss" in t.file_bytes(events[0]), events)


def early():
    base = dict(steps=12, val_size=0.05, metric_for_best_model="eval_loss", greater_is_better=True,
                eval_strategy="steps", eval_steps=1, early_stopping_steps=2)
    run = t.train("early stop", "early", 2, accumulation=3, save_strategy="best", **base)
    steps, state = [e[0] for e in evals("early")], load("early/trainer_state.json")
    best = state["best_global_step"]
    t.same("it stopped two evaluations after the best, and evaluated the adapter", steps, [1, 2, 3, 3])
    t.same("best_global_step", best, 1)
    t.has("it is said", run.text(), "Stopping early")
    t.same("the callback's state", state["stateful_callbacks"]["EarlyStoppingCallback"],
           {"args": {"early_stopping_patience": 2, "early_stopping_threshold": 0.0},
            "attributes": {"early_stopping_patience_counter": 2}})
    t.same("save_strategy best saves the best alone", [n for n in os.listdir("early") if n.startswith("checkpoint")],
           ["checkpoint-1"])
    t.check("the last adapter, not the best", t.file_bytes("early/adapter_model.safetensors") !=
            t.file_bytes("early/checkpoint-%d/adapter_model.safetensors" % best))


def several():
    """Figures of each data set, by epoch."""
    info = load("ex/data/dataset_info.json")
    with open("ex/data/arithmetic.jsonl") as f:
        lines = f.readlines()
    for name, part in (("few", lines[:24]), ("odd", lines[100:113]), ("even", lines[200:208])):
        with open("ex/data/%s.jsonl" % name, "w") as f:
            f.writelines(part)
        info[name] = dict(info["arithmetic"], file_name=name + ".jsonl")
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)
    base = dict(dataset="few", steps=None, max_steps=None, num_train_epochs=2, accumulation=6, eval_strategy="epoch",
                save_strategy="epoch", per_device_eval_batch_size=3)
    t.train("each", "each", 1, eval_dataset="odd, even", eval_on_each_dataset=True, load_best_model_at_end=True,
            metric_for_best_model="even_loss", **base)
    state = load("each/trainer_state.json")
    names = [(e["step"], k) for e in state["log_history"] for k in sorted(e) if k.endswith("_loss") and k[0] == "e"]
    t.same("figures by name, at the end of each epoch", names,
           [(4, "eval_odd_loss"), (4, "eval_even_loss"), (8, "eval_odd_loss"), (8, "eval_even_loss")])
    last = [e for e in state["log_history"] if "eval_odd_loss" in e][-1]
    t.check("13 samples are five steps of three", abs(
        last["eval_odd_samples_per_second"] / last["eval_odd_steps_per_second"] / (13 / 5) - 1) < 0.01, last)
    t.check("the best by name", state["best_metric"] in
            [e.get("eval_even_loss") for e in state["log_history"]], state["best_metric"])
    t.train("one", "one", 1, eval_dataset="odd,even", **base)
    results = load("one/eval_results.json")
    both = load("each/eval_results.json")
    t.check("together they lie between", min(both["eval_odd_loss"], both["eval_even_loss"]) <= results["eval_loss"] <=
            max(both["eval_odd_loss"], both["eval_even_loss"]), (results, both))


def late():
    """--eval_delay: by steps and by epochs; epochs of a stream. What is saved and evaluated at the end of each."""
    t.train("from the fourth step on", "late", 1, steps=6, val_size=40, eval_strategy="steps", eval_steps=2, eval_delay=4,
            save_strategy="no")
    t.same("from the fourth step on", [e[0] for e in evals("late")], [4, 6, 6])
    base = dict(dataset="few", accumulation=6, eval_strategy="epoch", save_strategy="epoch")
    t.train("from the second epoch on", "later", 1, steps=None, num_train_epochs=3, eval_dataset="odd", eval_delay=2, **base)
    t.same("from the second epoch on", [e[0] for e in evals("later")], [8, 12, 12])
    run = t.train("epochs of a stream", "stream", 1, steps=9, eval_dataset="odd", streaming=True, buffer_size=5, **base)
    t.same("epochs of a stream", [e[0] for e in evals("stream")], [4, 8, 9, 9])
    t.same("epochs of a stream: checkpoints", sorted(n for n in os.listdir("stream") if n.startswith("checkpoint")),
           ["checkpoint-4", "checkpoint-8", "checkpoint-9"])
    count = {name: shape for name, (_, shape, _) in read("ex/model/model.safetensors").items() if "e_score_correction_bias" not in name}
    base, lora = sum(math.prod(shape) for shape in count.values()), sum(len(v) for v in t.tensors("stream/adapter_model.safetensors").values())
    t.has("parameters", run.text(), "trainable params: %d || all params: %d || trainable%%: %.4f" % (lora, base + lora, 100 * lora / (base + lora)))


def packed():
    """Packed rows, of a packed file too: their loss is that of their examples, for none sees another."""
    info = load("ex/data/dataset_info.json")
    with open("ex/data/odd.jsonl", "rb") as f, gzip.open("ex/data/odd.jsonl.gz", "wb") as to:
        to.write(f.read())
    info["zip"] = dict(info["odd"], file_name="odd.jsonl.gz")
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)
    base = dict(steps=2, packing=True, do_eval=True, per_device_eval_batch_size=100, cutoff_len=96)
    text = {name: t.train("packed " + name, "rows-" + name, 1, eval_dataset=name, **base).text()
            for name in ("odd", "zip")}
    rows = [int(n) for n in re.findall(r"Running Evaluation.*\n.*Num examples = (\d+)", text["odd"])]
    t.check("fewer rows than records", rows and all(1 < n < 13 for n in rows), rows)
    got = load("rows-odd/eval_results.json")
    t.same("of the packed file", load("rows-zip/eval_results.json")["eval_loss"], got["eval_loss"])
    subprocess.run([t.flowtrain, "eval", "--model_name_or_path", "ex/model", "--adapter_name_or_path", "rows-odd", "--template",
                    "default", "--dataset", "odd", "--dataset_dir", "ex/data", "--cutoff_len", "95", "--output",
                    "rows.json"], check=True, stdout=subprocess.DEVNULL)
    t.check("the loss of a target", abs(load("rows.json")["token_loss"] / got["eval_loss"] - 1) < 1e-6,
            (load("rows.json"), got))
    with open("ex/data/short.jsonl", "w") as f:
        f.writelines('{"instruction": "%d?", "output": "%d"}\n' % (k, k) for k in range(40))
    info["short"] = dict(info["odd"], file_name="short.jsonl")
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)
    base.update(steps=1, eval_dataset="short", learning_rate="0", per_device_eval_batch_size=2)
    for n in (1, 2):
        t.train("rows of more examples than those trained on", "short-%d" % n, 1, per_device_train_batch_size=n, **base)
    one, two = (load("short-%d/eval_results.json" % n)["eval_loss"] for n in (1, 2))
    t.check("the same loss, one row at a time or two", abs(one / two - 1) < CLOSE, (one, two))
    del base["eval_dataset"], base["do_eval"]
    for name, stream in (("rows", {}), ("rows of a stream", dict(streaming=True, buffer_size=8))):
        out = name.replace(" ", "-") + "-of-two"
        t.train("two %s at once" % name, out, 1, dataset="short", per_device_train_batch_size=2, accumulation=1, **base, **stream)
        t.check("two %s at once: a loss" % name, t.log_lines(out)[0]["loss"] > 0, t.log_lines(out))


def pace():
    """How far an evaluation is, every five seconds: by libfaketime a clock that is 100,000 times as fast."""
    fast = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not fast:
        print("pace: skipped, needs libfaketime")
        return
    said = subprocess.run([t.flowtrain, "eval", "--model_name_or_path", "ex/model", "--template", "default", "--dataset",
                           "odd", "--dataset_dir", "ex/data", "--cutoff_len", "95", "--per_device_eval_batch_size", "1"],
                          env=dict(os.environ, LD_PRELOAD=fast[0], FAKETIME="+0 x100000"), check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    found = re.findall(r"Evaluation: (\d+) of (\d+) batches, \S+ left", said)
    t.check("some of the batches", found and all(0 < int(done) < int(of) for done, of in found), said)


def resumed():
    """A run stopped after its best goes on as the whole one does."""
    base = dict(val_size=40, eval_strategy="steps", eval_steps=2, load_best_model_at_end=True, greater_is_better=True,
                lr_scheduler_type="constant")
    t.train("first part", "part", 1, steps=4, **base)
    t.train("whole", "whole", 1, steps=6, **base)
    t.train("second part", "part", 1, steps=6, resume_from_checkpoint="last", **base)
    t.same("evaluations", evals("part")[-2:], evals("whole")[-2:])
    got, want = load("part/trainer_state.json"), load("whole/trainer_state.json")
    t.same("best_global_step of before", got["best_global_step"], 2)
    t.same("best_metric", got["best_metric"], want["best_metric"])
    t.same("the adapter", t.file_bytes("part/adapter_model.safetensors"), t.file_bytes("whole/adapter_model.safetensors"))


def dead_best():
    """The best checkpoint was removed between two parts of a run: a later one is the best."""
    base = dict(val_size=40, eval_strategy="steps", eval_steps=2, load_best_model_at_end=True, greater_is_better=True,
                save_total_limit=1, lr_scheduler_type="constant")
    t.train("before it went", "dead", 1, steps=4, **base)
    shutil.rmtree("dead/checkpoint-2")
    run = t.train("after it went", "dead", 1, steps=6, resume_from_checkpoint="last", **base)
    t.has("it is said", run.text(), "dead/checkpoint-2, the best model so far, is no longer there")
    t.same("a later one is the best", load("dead/trainer_state.json")["best_global_step"], 6)
    t.same("one checkpoint is kept", [n for n in os.listdir("dead") if n.startswith("checkpoint")], ["checkpoint-6"])


def damaged_best():
    """The best checkpoint's adapter cannot be read in the end: the last step's is taken, and it is said."""
    base = dict(val_size=40, eval_strategy="steps", eval_steps=2, load_best_model_at_end=True, greater_is_better=True)
    t.train("before it broke", "broken", 2, accumulation=3, steps=4, **base)
    os.remove("broken/checkpoint-2/adapter_model.safetensors")
    run = t.train("after it broke", "broken", 2, accumulation=3, steps=6, resume_from_checkpoint="last", **base)
    t.has("it is said", run.text(), "the best model is not loaded, the adapter is that of the last step: adapter broken/checkpoint-2/")
    t.check("nothing else is", "Loading best model" not in run.text())
    t.same("the last adapter", t.file_bytes("broken/adapter_model.safetensors"),
           t.file_bytes("broken/checkpoint-6/adapter_model.safetensors"))


def pixels(path):
    """(width, height, rows of colour numbers) of a PNG with a palette, by zlib; None: it is damaged."""
    with open(path, "rb") as f:
        data = f.read()
    at, chunks = 8, {}
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if zlib.crc32(kind + body) != struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0]:
            return None
        chunks[kind], at = body, at + 12 + size
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    raw, rows, above = zlib.decompress(chunks[b"IDAT"]), [], [0] * width
    for y in range(height):
        row = raw[y * (width + 1):(y + 1) * (width + 1)]
        above = [(a + b) % 256 for a, b in zip(above, row[1:])]
        rows.append(above)
    return (width, height, rows) if form == [8, 3, 0, 0, 0] and len(raw) == height * (width + 1) else None


def pictures():
    """The curve goes through its points: the smoothed one, which is drawn last."""
    t.train("drawn", "drawn", 1, steps=6, val_size=40, eval_strategy="steps", eval_steps=2, plot_loss="true")
    history = load("drawn/trainer_state.json")["log_history"]
    for key in ("loss", "eval_loss"):
        points = [(e["step"], e[key]) for e in history if key in e][:None if key == "loss" else 3]
        png = pixels("drawn/training_%s.png" % key)
        if not t.check(key + ": a whole picture", png is not None):
            continue
        width, height, rows = png
        low, high = min(v for _, v in points), max(v for _, v in points)
        first, last = points[0][0], points[-1][0]
        weight = 1.8 * (1 / (1 + math.exp(-0.05 * len(points))) - 0.5)
        smooth = points[0][1]
        for k, (step, v) in enumerate(points):
            smooth = v if k == 0 else smooth * weight + (1 - weight) * v
            x = 130 + (step - first) / (last - first) * (width - 130 - 40)
            y = height - 80 - (smooth - low) / (high - low) * (height - 60 - 80)
            t.same("%s: at step %d" % (key, step), rows[min(round(y), height - 1)][min(round(x), width - 1)], 4)
    t.check("no picture of what is not there", not os.path.exists("drawn/training_eval_accuracy.png"))


def main():
    t.begin()
    as_the_reference()
    files()
    early()
    resumed()
    dead_best()
    damaged_best()
    several()
    late()
    packed()
    pace()
    pictures()
    t.finish()


main()
