#!/usr/bin/env python3
"""Records how many steps of warm-up LLaMA-Factory's parser and scheduler make of warmup_steps and warmup_ratio.

    PYTHON tests/golden/warmup.py BUILD        # with llamafactory 0.9.5 and transformers 5.6

writes warmup.json: what a file says of the two (no key: nothing), all steps, those of warm-up by get_warmup_steps, and where
the learning rate of the scheduler is largest.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from llamafactory.hparams import get_train_args
from transformers import Trainer

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "warmup.json")
TOTAL = 20
GIVEN = [{}, {"warmup_steps": 5}, {"warmup_ratio": 0.1}, {"warmup_steps": 5, "warmup_ratio": 0.1}, {"warmup_steps": 5, "warmup_ratio": 0.0},
         {"warmup_steps": 5, "warmup_ratio": None}, {"warmup_ratio": None}, {"warmup_ratio": 1.0}, {"warmup_steps": 5, "warmup_ratio": 1.0},
         {"warmup_steps": 0.25}, {"warmup_steps": 0.25, "warmup_ratio": 0.1}, {"warmup_steps": 2.7}, {"warmup_steps": 0, "warmup_ratio": 0.33}]


def row(given, base):
    args = get_train_args(dict(base, **given))[2]
    trainer = Trainer(model=torch.nn.Linear(2, 2), args=args)
    trainer.create_optimizer()
    schedule = trainer.create_scheduler(TOTAL, trainer.optimizer)
    rates = []
    for _ in range(TOTAL):
        rates.append(schedule.get_last_lr()[0])
        trainer.optimizer.step()
        schedule.step()
    return {"given": given, "total": TOTAL, "warmup": args.get_warmup_steps(TOTAL), "largest": rates.index(max(rates))}


def main():
    flowtrain = os.path.join(os.path.abspath(sys.argv[1]), "trainer/cli/flowtrain")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([flowtrain, "init", "--example", "ex"], check=True, stdout=subprocess.DEVNULL)
        base = dict(model_name_or_path="ex/model", stage="sft", do_train=True, finetuning_type="lora", dataset="arithmetic",
                    dataset_dir="ex/data", template="default", output_dir="out", report_to="none", max_steps=TOTAL, use_cpu=True)
        rows = [row(given, base) for given in GIVEN]
    with open(OUT, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


main()
