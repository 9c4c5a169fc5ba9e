#!/usr/bin/env python3
"""The order of records in LLaMA-Factory's --streaming, for tests/unit/sampler_test.c.

    DISABLE_VERSION_CHECK=1 python3 tests/golden/stream.py    # with llamafactory 0.9.5, datasets 5.2; writes stream.json

A row: n records, buffer, seed, epoch, and order: the records as a loader with one process gives them. Of eight
records the one with number 5 is dropped, as an invalid one is.
"""
import importlib.machinery
import json
import os
import sys
import types

sound = types.ModuleType("torchaudio")  # which no record here has
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
from datasets import Dataset, disable_progress_bars
from llamafactory.data.data_utils import split_dataset
from llamafactory.hparams import DataArguments
from torch.utils.data import DataLoader

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = [(5, 16384, 42), (8, 16384, 0), (20, 4, 42), (23, 5, 7), (9, 1, 42), (40, 16, 3), (3000, 1024, 42), (7, 7, 42)]


def valid(batch):
    return {"x": [i for i in batch["i"] if not batch["n"][0] == 8 or i != 5]}


def main():
    disable_progress_bars()
    made = []
    for n, buffer, seed in ROWS:
        args = DataArguments(streaming=True, buffer_size=buffer)
        records = Dataset.from_dict({"i": list(range(n)), "n": [n] * n}).to_iterable_dataset(num_shards=1)
        records = records.map(lambda record: record)  # as records are converted there, one by one
        stream = split_dataset(records, None, args, seed=seed)[0]["train"]
        stream = stream.map(valid, batched=True, batch_size=1000, remove_columns=["i", "n"])
        for epoch in (0, 1, 2):
            stream.set_epoch(epoch)
            order = [int(x) for batch in DataLoader(stream, batch_size=4, num_workers=1) for x in batch["x"]]
            made.append({"n": n, "buffer": buffer, "seed": seed, "epoch": epoch, "order": order})
    with open(os.path.join(HERE, "stream.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print(len(made))


main()
