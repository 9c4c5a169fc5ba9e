#!/bin/sh
# datasets 5.2.0: what an answer in a .jsonl file becomes is decided by the other answers of its column. Dates alone become
# timestamps, whole numbers beside fractions become floats, numbers beside words stay what they are (a column of JSON); a date
# beside a word stays text. A preprocessing that keeps strings only loses the records of the first two kinds.
. "$(dirname "$0")/lib.sh"
packages datasets==5.2.0

seen "dates: timestamp[s] [datetime.datetime(2024, 1, 31, 0, 0), datetime.datetime(2024, 2, 1, 0, 0)]
a date and a word: string ['2024-01-31', 'never']
numbers: float64 [1.0, 1.5]
a number and a word: Json [1, 'never']" << 'END'
import json

import datasets

datasets.disable_progress_bars()
for name, answers in {
    "dates": ["2024-01-31", "2024-02-01"],
    "a date and a word": ["2024-01-31", "never"],
    "numbers": [1, 1.5],
    "a number and a word": [1, "never"],
}.items():
    file = name.replace(" ", "-") + ".jsonl"
    with open(file, "w") as f:
        f.writelines(json.dumps({"answer": answer}) + "\n" for answer in answers)
    column = datasets.load_dataset("json", data_files=file, split="train")
    kind = column.features["answer"]
    print(f"{name}: {getattr(kind, 'dtype', type(kind).__name__) if type(kind).__name__ != 'Json' else 'Json'} {column['answer'][:]}")
END
