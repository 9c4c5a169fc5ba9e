#!/usr/bin/env python3
"""Golden data of evaluation: transformers' Seq2SeqTrainer, which is
LLaMA-Factory's, on the example of `flowtrain init --example`.

The data are split as LLaMA-Factory's --val_size splits them (datasets' train_test_split), encoded by
the tokenizer with the template `default`, and evaluated in f32 by its evaluate() with LLaMA-Factory's
eval_accuracy. Writes evaluate.json beside this file:

    seed, val_size, cutoff_len
    batches     of per_device_eval_batch_size: eval_loss, eval_accuracy
    first       the first records that the split takes, by their line in the file
    permutations of numpy's default_rng: seed, n, first (20 of them), sum (of i * value)

Usage: evaluate.py FLOWTRAIN   (needs torch, transformers, datasets, accelerate)
"""
import json
import os
import subprocess
import sys
import tempfile

import datasets
import numpy
import torch
from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Seq2SeqTrainer,
                          Seq2SeqTrainingArguments)

HERE = os.path.dirname(os.path.abspath(__file__))
SEED, VAL_SIZE, CUTOFF, IGNORE = 7, 0.1, 64, -100
BATCHES = (1, 4, 7)
SEEDS = [(42, 10), (7, 1000), (2**40 + 5, 12), (0, 4097)]


def encode(tokenizer, record):
    """The template `default`: each literal and the text between is encoded by itself."""
    def ids(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    eos = tokenizer.eos_token_id
    prompt = record["instruction"] + ("\n" + record["input"] if record.get("input") else "")
    source = ids("Human: " + prompt) + [eos] + ids("\nAssistant:")
    target = ids(record["output"]) + [eos] + ids("\n")
    assert len(source) + len(target) <= CUTOFF
    return {"input_ids": source + target, "attention_mask": [1] * (len(source) + len(target)),
            "labels": [IGNORE] * len(source) + target}


def accuracy(got):
    """LLaMA-Factory's eval_accuracy: the mean over samples of the share of right tokens."""
    shares = []
    for first, labels in zip(got.predictions, got.label_ids):
        first, labels = first[:-1], labels[1:]
        scored = labels != IGNORE
        shares.append(numpy.mean(first[scored] == labels[scored]))
    return {"accuracy": float(numpy.mean(shares))}


def evaluate(model, tokenizer, data, batch):
    with tempfile.TemporaryDirectory() as out:
        args = Seq2SeqTrainingArguments(out, per_device_eval_batch_size=batch, report_to="none", use_cpu=True)
        trainer = Seq2SeqTrainer(model, args, eval_dataset=data, compute_metrics=accuracy,
                          data_collator=DataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=8,
                                                               label_pad_token_id=IGNORE),
                          preprocess_logits_for_metrics=lambda logits, labels: torch.argmax(logits, dim=-1))
        got = trainer.evaluate()
    return {"batch": batch, "eval_loss": got["eval_loss"], "eval_accuracy": got["eval_accuracy"]}


def permutation(seed, n):
    order = [int(x) for x in numpy.random.default_rng(seed).permutation(n)]
    return {"seed": seed, "n": n, "first": order[:20], "sum": sum(i * x for i, x in enumerate(order))}


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "init", "--example", folder, "--overwrite"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(folder + "/data/arithmetic.jsonl") as f:
            records = [dict(json.loads(line), line=i) for i, line in enumerate(f)]
        split = datasets.Dataset.from_list(records).train_test_split(test_size=VAL_SIZE, seed=SEED)["test"]
        tokenizer = AutoTokenizer.from_pretrained(folder + "/model")
        model = AutoModelForCausalLM.from_pretrained(folder + "/model", dtype=torch.float32)
        data = [encode(tokenizer, r) for r in split]
        found = {"seed": SEED, "val_size": VAL_SIZE, "cutoff_len": CUTOFF,
                 "first": [r["line"] for r in split][:10],
                 "batches": [evaluate(model, tokenizer, data, b) for b in BATCHES],
                 "permutations": [permutation(*s) for s in SEEDS]}
    with open(os.path.join(HERE, "evaluate.json"), "w") as f:
        json.dump(found, f, indent=1)
        f.write("\n")


main()
