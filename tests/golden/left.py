#!/usr/bin/env python3
"""What the Hugging Face Trainer leaves of a training that is not over, and how it goes on from there itself.

Full fine-tuning of tiny models on the texts of left.json: checkpoint-5 is kept as the Trainer wrote it (without what nobody
reads: rng_state.pth, training_args.bin), and the losses of all ten steps, then those of the last five again, from
checkpoint-5 in a second process's Trainer, with its moments and without. Writes left/NAME/checkpoint-5 and the numbers of
left.json beside this file.

Usage: left.py FLOWTRAIN   (needs torch, transformers, accelerate)
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = ("config.json", "model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json")
FLAGS = dict(per_device_train_batch_size=1, gradient_accumulation_steps=2, learning_rate=1e-2, weight_decay=0.1, max_grad_norm=1.0,
             max_steps=10, save_steps=5, logging_steps=1, lr_scheduler_type="linear", warmup_steps=2, seed=7, use_cpu=True,
             report_to=[], logging_nan_inf_filter=False, disable_tqdm=True)


def collate(rows):
    ids = torch.tensor([r["input_ids"] for r in rows])
    return {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}


def trainer(model, ids, out, **more):
    model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    return Trainer(model=model, args=TrainingArguments(output_dir=out, **dict(FLAGS, **more)),
                   train_dataset=[{"input_ids": x} for x in ids], data_collator=collate)


def exact(run):
    """The losses of steps in f32: the Trainer rounds those that it logs."""
    found, before = [], run._maybe_log_save_evaluate

    def keep(tr_loss, *args, **more):
        if run.state.global_step > run._globalstep_last_logged:
            found.append(tr_loss.item())
        return before(tr_loss, *args, **more)
    run._maybe_log_save_evaluate = keep
    return found


def forget(path):
    """The same optimizer.pt, with moments as at the beginning."""
    state = torch.load(path)
    for s in state["state"].values():
        for t in s.values():
            t.zero_()
    torch.save(state, path)


def record(flowtrain, folder, name, config, texts):
    at, out = os.path.join(folder, name), os.path.join(folder, name + "-out")
    os.mkdir(at + "-config")
    with open(os.path.join(at + "-config", "config.json"), "w") as f:
        json.dump(config, f)
    subprocess.run([flowtrain, "init", "--config", at + "-config", "--output", at, "--tokenizer", os.path.join(folder, "ex/model")],
                   check=True, stdout=subprocess.DEVNULL)
    run = subprocess.run([flowtrain, "tokenize", "--tokenizer", at], text=True, capture_output=True, check=True,
                         input="".join(json.dumps(text) + "\n" for text in texts))
    ids = [json.loads(line) for line in run.stdout.splitlines()]
    result = {}
    first = trainer(at, ids, out)
    found = exact(first)
    first.train()
    result["losses"] = list(found)
    again = trainer(at, ids, out + "2")
    found = exact(again)
    again.train(resume_from_checkpoint=out + "/checkpoint-5")
    result["resumed"] = list(found)
    bare = shutil.copytree(out + "/checkpoint-5", out + "/bare/checkpoint-5")
    forget(bare + "/optimizer.pt")
    without = trainer(at, ids, out + "3")
    found = exact(without)
    without.train(resume_from_checkpoint=bare)
    result["without_moments"] = list(found)
    kept = os.path.join(HERE, "left", name, "checkpoint-5")
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(kept)
    for n in KEPT:
        shutil.copy(os.path.join(out, "checkpoint-5", n), kept)
    return result


def main():
    flowtrain = os.path.abspath(sys.argv[1])
    with open(os.path.join(HERE, "left.json")) as f:
        data = json.load(f)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([flowtrain, "init", "--example", os.path.join(folder, "ex")], check=True, stdout=subprocess.DEVNULL)
        for name, model in data["models"].items():
            data["runs"][name] = record(flowtrain, folder, name, model, data["texts"])
            print(name, json.dumps(data["runs"][name]), flush=True)
    with open(os.path.join(HERE, "left.json"), "w") as f:
        json.dump(data, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
