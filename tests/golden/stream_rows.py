#!/usr/bin/env python3
"""Rows of packed examples, and of texts laid end to end, in LLaMA-Factory's --streaming, for tests/unit/trainer/dataset/stream_test.c: its
own loader, converters and processors, and a loader with one process.

    DISABLE_VERSION_CHECK=1 python3 tests/golden/stream_rows.py    # with llamafactory 0.9.5, datasets 5.2; writes stream_rows.json

A row: texts (of the files of the data sets), stage, cutoff_len, batch, buffer, val_size, seed, and epochs: of each the rows
[ids, lengths of the examples] of the tokenizer in tokenizer/deepseek.json, without their padding.
"""
import importlib.machinery
import json
import os
import sys
import tempfile
import types

sound = types.ModuleType("torchaudio")  # which no record here has
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
from datasets import disable_progress_bars
from llamafactory.data.data_utils import merge_dataset, split_dataset
from llamafactory.data.loader import _load_single_dataset
from llamafactory.data.parser import get_dataset_list
from llamafactory.data.processor import PackedSupervisedDatasetProcessor, PretrainDatasetProcessor
from llamafactory.data.template import get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments, ModelArguments
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCHS = 3
# data sets, cutoff_len, batch, buffer, val_size
CASES = [([40], 32, 1000, 16384, 0), ([40], 24, 7, 16, 0), ([40], 32, 9, 5, 6), ([17, 26], 24, 10, 8, 0)]


def file_of(n, stage):
    if stage == "pt":
        return "".join(json.dumps({"text": "a " * (i * 7 % 19) + str(i)}) + "\n" for i in range(n))
    return "".join(json.dumps({"instruction": "a " * (i * 7 % 19), "input": "",
                               "output": None if i % 11 == 5 else "b " * (i * 5 % 13) + str(i)}) + "\n" for i in range(n))


class Training:
    local_process_index = 0
    dataloader_num_workers = 1
    seed = 42


def kept(made):
    """A row without its padding, and the lengths of its examples."""
    mask = made["attention_mask"]
    lengths = [mask.count(k) for k in range(1, max(mask) + 1)]
    return [made["input_ids"][:sum(lengths)], lengths]


def epochs_of(texts, stage, case, folder):
    _, cutoff, batch, buffer, val = case
    column = {"columns": {"prompt": "text"}} if stage == "pt" else {}
    names = ["x%d" % i for i in range(len(texts))]
    for name, text in zip(names, texts):
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as f:
            f.write(text)
    with open(os.path.join(folder, "dataset_info.json"), "w", encoding="utf-8") as f:
        json.dump({name: {"file_name": name + ".jsonl", **column} for name in names}, f)
    args = DataArguments(template="default", dataset=",".join(names), dataset_dir=folder, streaming=True, buffer_size=buffer, val_size=val, packing=True,
                         preprocessing_batch_size=batch, neat_packing=stage == "sft", cutoff_len=cutoff)
    if stage == "pt":
        args.cutoff_len = cutoff
    models = ModelArguments(model_name_or_path="none", cache_dir=os.path.join(folder, "cache"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer", "deepseek.json"), bos_token="<s>",
                                        eos_token="</s>")
    template = get_template_and_fix_tokenizer(tokenizer, args)
    sets = [_load_single_dataset(attr, models, args, Training) for attr in get_dataset_list(names, folder)]
    stream = split_dataset(merge_dataset(sets, args, seed=42), None, args, seed=42)[0]["train"]
    kind = PretrainDatasetProcessor if stage == "pt" else PackedSupervisedDatasetProcessor
    processor = kind(template=template, tokenizer=tokenizer, processor=None, data_args=args)
    stream = stream.map(processor.preprocess_dataset, batched=True, batch_size=batch, remove_columns=list(next(iter(stream))))
    for epoch in range(EPOCHS):
        stream.set_epoch(epoch)
        rows = list(DataLoader(stream, batch_size=None, num_workers=1, collate_fn=lambda row: row))
        yield [[row["input_ids"], [len(row["input_ids"])]] if stage == "pt" else kept(row) for row in rows]


def main():
    disable_progress_bars()
    made = []
    for stage in ("sft", "pt"):
        for case in CASES:
            texts = [file_of(n, stage) for n in case[0]]
            with tempfile.TemporaryDirectory() as folder:
                epochs = list(epochs_of(texts, stage, case, folder))
            made.append({"stage": stage, "cutoff_len": case[1], "batch": case[2], "buffer": case[3], "val_size": case[4], "seed": 42,
                         "texts": texts, "epochs": epochs})
    with open(os.path.join(HERE, "stream_rows.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print(len(made))


main()
