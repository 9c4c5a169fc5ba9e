#!/usr/bin/env python3
"""Losses of a stream by flowtrain and by transformers' Trainer with LLaMA-Factory's data, templates and collation.

    DISABLE_VERSION_CHECK=1 python3 tests/golden/stream_losses.py build/trainer/cli/flowtrain

By hand, with llamafactory 0.9.5, transformers 5.23, datasets 5.2: nine steps of a tiny model in f32 over 11 records in
batches of 3, with one and with two micro-batches a step; it fails where a loss differs by more than 1e-5 of it or an epoch
by more than 1e-9.
"""
import importlib.machinery
import json
import os
import random
import subprocess
import sys
import tempfile
import types

sound = types.ModuleType("torchaudio")  # which no record here has
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
import torch
from llamafactory.data.loader import get_dataset
from llamafactory.data.template import get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments, ModelArguments
from peft import PeftModel
from transformers import (AutoModelForCausalLM, DataCollatorForSeq2Seq, PreTrainedTokenizerFast, Seq2SeqTrainer,
                          Seq2SeqTrainingArguments)

WORDS = "river stone bridge boats count seven the of and".split()
STEPS = dict(max_steps=9, logging_steps=1, save_strategy="no", learning_rate=1e-3, lr_scheduler_type="constant",
             per_device_train_batch_size=3, dataloader_num_workers=1, use_cpu=True, report_to="none", seed=7)
DATA = dict(dataset="drawn", dataset_dir="data", template="default", cutoff_len=256, streaming=True, buffer_size=4)


def here(flowtrain, out, **more):
    args = dict(STEPS, **DATA, stage="sft", do_train=True, finetuning_type="lora", lora_target="all", lora_rank=4,
                model_name_or_path="example/model", output_dir=out, **more)
    with open(out + ".json", "w") as f:
        json.dump(args, f)
    subprocess.run([flowtrain, "train", out + ".json"], check=True, capture_output=True)
    with open(out + "/trainer_state.json") as f:
        return [(row["loss"], row["epoch"]) for row in json.load(f)["log_history"] if "loss" in row]


def there(accumulation):
    tokenizer = PreTrainedTokenizerFast.from_pretrained("example/model")
    data = DataArguments(**DATA)
    args = Seq2SeqTrainingArguments(output_dir="there", gradient_accumulation_steps=accumulation, do_train=True,
                                    remove_unused_columns=False, disable_tqdm=True, **STEPS)
    template = get_template_and_fix_tokenizer(tokenizer, data)
    records = get_dataset(template, ModelArguments(model_name_or_path="example/model"), data, args, "sft", tokenizer=tokenizer)
    model = AutoModelForCausalLM.from_pretrained("example/model", dtype=torch.float32)
    model = PeftModel.from_pretrained(model, "first", is_trainable=True)
    pad = DataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=8, label_pad_token_id=-100)
    trainer = Seq2SeqTrainer(model=model, args=args, train_dataset=records["train_dataset"], data_collator=lambda batch: pad(
        [{k: row[k] for k in ("input_ids", "attention_mask", "labels")} for row in batch]))
    trainer.train()
    return [(row["loss"], row["epoch"]) for row in trainer.state.log_history if "loss" in row]


def main():
    flowtrain = os.path.abspath(sys.argv[1])
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([flowtrain, "init", "--example", "example", "--model", "llama"], check=True, capture_output=True)
        draw = random.Random(3)
        os.mkdir("data")
        with open("data/drawn.jsonl", "w") as f:
            for k in range(11):
                f.write(json.dumps({"instruction": "say %d %s" % (k, " ".join(draw.choices(WORDS, k=draw.randint(1, 6)))), "input": "",
                                    "output": " ".join(draw.choices(WORDS, k=draw.randint(1, 9)))}) + "\n")
        with open("data/dataset_info.json", "w") as f:
            json.dump({"drawn": {"file_name": "drawn.jsonl"}}, f)
        here(flowtrain, "first")
        for accumulation in (1, 2):
            ours = here(flowtrain, "ours-%d" % accumulation, adapter_name_or_path="first", gradient_accumulation_steps=accumulation)
            theirs = there(accumulation)
            assert len(ours) == len(theirs) == 9
            assert all(abs(a[1] - b[1]) < 1e-9 for a, b in zip(ours, theirs)), (ours, theirs)
            worst = max([worst] + [abs(a[0] - b[0]) / b[0] for a, b in zip(ours, theirs)])
        os.chdir("/")
    print("losses differ by %.1e of them at most" % worst)
    sys.exit(worst > 1e-5)


main()
