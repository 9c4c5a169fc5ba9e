#!/usr/bin/env python3
"""Which columns of answers datasets gives as text, for tests/unit/trainer/dataset/columns_test.c.

    python3 tests/golden/answer_types.py    # with datasets 5.2; writes answer_types.json

A row: file (csv or jsonl), answers (null: none), and text: whether the answers that are there are text.
"""
import csv
import json
import os
import tempfile

import datasets

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "answer_types.json")
ONE = """1 1.5 -3 +1 007 1e5 -.5 5. inf -inf 0x10 1_0 1,5 - . e5 1e True true TRUE tRUE False T yes no 2024-01-02 2024-01-02T03:04:05 2024-01-02T03:04
2024-01-02T03 2024-01-02T03:04:05Z 2024-01-02T03:04:05.5 2024-01-02T03:04:05+01:00 2024-01-02T03:04:05-0100 2024-01-02T03:04+01 2024-1-2 2024-01
20240102 03:04:05 2024-01-02x 2024-01-02T 2024-01-02TX a""".split()
COLUMNS = [[a, a] for a in ONE] + [["2024-01-02 03:04:05"] * 2, ["2024-01-02 03:04"] * 2, [" 1", "2 "], ["1", "b"], ["1", None], ["True", None], ["True", "1"],
                                   ["1", "1.5"], ["2024-01-02", "x"], ["2024-01-02", None], ["2024-01-02", "2024-01-02T03:04:05"], ["2024-01-02", "1"]]


def is_text(kind, answers):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a." + kind)
        with open(path, "w", encoding="utf-8", newline="") as f:
            if kind == "csv":
                csv.writer(f).writerows([["i", "o"]] + [["x", a] for a in answers])
            else:
                f.writelines(json.dumps({"i": "x", "o": a}) + "\n" for a in answers)
        found = datasets.load_dataset("csv" if kind == "csv" else "json", data_files=path, split="train", cache_dir=folder)["o"]
        return all(isinstance(v, str) for v in found if v is not None)


def main():
    datasets.disable_progress_bars()
    made = [{"file": kind, "answers": answers, "text": is_text(kind, answers)} for kind in ("csv", "jsonl") for answers in COLUMNS]
    with open(OUT, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in made) + "\n]\n")
    print(len(made))


main()
