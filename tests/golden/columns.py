#!/usr/bin/env python3
"""Writes tests/golden/columns/: data files of columns, and columns.json, the records that datasets gives of each.

    python3 tests/golden/columns.py    # with datasets 5.2, pyarrow

What JSON cannot hold is {"type": NAME of the Python type} in columns.json.
"""
import datetime
import decimal
import json
import os
import shutil

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "columns")
MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string()), ("name", pa.string())])
TABLE = pa.table({
    "instruction": pa.array(["count", None, "\u00e9t\u00e9 \U0001f60a \"q\"\n", ""]),
    "input": pa.array(["a", "b", "c", None], pa.large_string()),
    "output": pa.array(["1", "2", "3", "4"]).dictionary_encode(),
    "number": pa.array([1, None, -3, 2**62], pa.int64()),
    "small": pa.array([1, 2, None, 4], pa.uint8()),
    "real": pa.array([0.5, None, 1e300, -0.1], pa.float64()),
    "yes": pa.array([True, None, False, True]),
    "history": pa.array([[["a", "b"]], [], None, [["c", "d"], ["e", None]]], pa.list_(pa.list_(pa.string()))),
    "messages": pa.array([[{"role": "user", "content": "x", "name": None}, {"role": "assistant", "content": "y", "name": "z"}], [], None,
                          [{"role": "user", "content": None, "name": None}, None]], pa.list_(MESSAGE)),
    "fixed": pa.array([["a", "b"], None, ["c", "d"], ["e", "f"]], pa.list_(pa.string(), 2)),
    "nothing": pa.nulls(4),
    "time": pa.array([datetime.datetime(2024, 1, 2, 3, 4, 5), None, None, None], pa.timestamp("us")),
    "day": pa.array([datetime.date(2024, 1, 2), None, None, None]),
    "bytes": pa.array([b"\x00\xff", None, None, None]),
    "money": pa.array([decimal.Decimal("1.50"), None, None, None], pa.decimal128(8, 2)),
})


def plain(v):
    return {"type": type(v).__name__}


def put(name):
    return os.path.join(HERE, name)


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    os.mkdir(HERE)
    cache = os.path.join(HERE, "cache")
    pq.write_table(TABLE, put("all.parquet"), row_group_size=3)
    with pa.OSFile(put("stream.arrow"), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=3)
    with pa.OSFile(put("file.arrow"), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=3)
    rows = [{"q": "a", "more": {"b": 1}}, {"q": "c", "more": {"d": [1, None, "x"]}}, {"q": None, "more": None}]
    mixed = datasets.Dataset.from_list(rows, on_mixed_types="use_json")
    mixed.to_parquet(put("mixed.parquet"))
    mixed.select([2, 0]).save_to_disk(put("saved"))
    datasets.DatasetDict({"train": mixed, "test": mixed}).save_to_disk(put("splits"))
    shutil.rmtree(put("splits/train"))
    shutil.rmtree(put("splits/test"))
    found = {}
    for name in ("all.parquet", "stream.arrow", "file.arrow", "mixed.parquet"):
        found[name] = list(datasets.load_dataset("parquet" if name.endswith("parquet") else "arrow", data_files=put(name), split="train",
                                                 cache_dir=cache))
    found["saved"] = list(datasets.load_from_disk(put("saved")))
    shutil.rmtree(cache)
    with open(put("columns.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(found, default=plain, indent=1) + "\n")
    print({k: len(v) for k, v in found.items()}, mixed.features)


main()
