#!/usr/bin/env python3
"""The order of records in LLaMA-Factory's --streaming, for tests/unit/trainer/dataset/stream_test.c.

    DISABLE_VERSION_CHECK=1 python3 tests/golden/stream.py    # with llamafactory 0.9.5, datasets 5.2; writes stream.json

A row: lengths of the data sets (records laid end to end), strategy and probs (null: by turns), buffer, seed, val (records
for evaluation), epoch, and order: the records to train on as a loader with one process gives them, in epoch 0 also
eval: those for evaluation. Of eight records the one with number 5 is dropped, as an invalid one is.
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
from llamafactory.data.data_utils import merge_dataset, split_dataset
from llamafactory.hparams import DataArguments
from torch.utils.data import DataLoader

HERE = os.path.dirname(os.path.abspath(__file__))
ONE = [(5, 16384, 42), (8, 16384, 0), (20, 4, 42), (23, 5, 7), (9, 1, 42), (40, 16, 3), (3000, 1024, 42), (7, 7, 42)]
SEVERAL = [([3, 4, 5], "concat", None), ([5, 1, 2, 6], "concat", None), ([2, 1, 3] * 4, "concat", None), ([2, 7], "concat", None),
           ([3, 4, 5], "interleave_under", None), ([5, 4, 3], "interleave_over", None), ([5, 2, 7], "interleave_once", None),
           ([5, 2, 7], "interleave_under", [0.5, 0.3, 0.2]), ([40, 3], "interleave_over", [0.1, 0.9]),
           ([600, 700], "interleave_once", [0.7, 0.3]), ([600, 700], "interleave_under", [0.7, 0.3])]


def valid(batch):
    return {"x": [i for i in batch["i"] if not batch["n"][0] == 8 or i != 5]}


def drawn(stream):
    return [int(x) for batch in DataLoader(stream, batch_size=4, num_workers=1) for x in batch["x"]]


def rows(lengths, buffer, seed, val=0, strategy="concat", probs=None):
    args = DataArguments(dataset=",".join("x" for _ in lengths), streaming=True, buffer_size=buffer, val_size=val, mix_strategy=strategy,
                         interleave_probs=probs and ",".join(map(str, probs)))
    begin, sets = 0, []
    for n in lengths:
        records = Dataset.from_dict({"i": list(range(begin, begin + n)), "n": [sum(lengths)] * n})
        sets.append(records.to_iterable_dataset(num_shards=1).map(lambda record: record))  # as they are converted there
        begin += n
    train, evaluation = split_dataset(merge_dataset(sets, args, seed=seed), None, args, seed=seed)
    parts = {k: v.map(valid, batched=True, batch_size=1000, remove_columns=["i", "n"]) for k, v in {**train, **evaluation}.items()}
    for epoch in (0, 1, 2):
        parts["train"].set_epoch(epoch)
        row = {"lengths": lengths, "strategy": strategy, "probs": probs, "buffer": buffer, "seed": seed, "val": val, "epoch": epoch,
               "order": drawn(parts["train"])}
        if val and epoch == 0:
            row["eval"] = drawn(parts["validation"])
        yield row


def main():
    disable_progress_bars()
    made = [row for n, buffer, seed in ONE for row in rows([n], buffer, seed)]
    for n, buffer, seed in ((8, 3, 42), (23, 5, 7), (40, 16384, 42)):
        made += rows([n], buffer, seed, val=6)
    for lengths, strategy, probs in SEVERAL:
        made += rows(lengths, 4, 42, strategy=strategy, probs=probs)
    made += rows([5, 2, 7], 6, 9, val=3)
    made += rows([5, 2, 7], 6, 9, val=3, strategy="interleave_over", probs=[0.5, 0.3, 0.2])
    with open(os.path.join(HERE, "stream.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print(len(made))


main()
