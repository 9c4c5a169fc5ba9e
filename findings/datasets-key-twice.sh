#!/bin/sh
# datasets 5.2.0: a record with a key twice is an error in a file with a record a line, and its last value counts where the same
# record stands in a list. Inside of a value of a line it is no error, but the value comes out without its key.
. "$(dirname "$0")/lib.sh"
packages datasets==5.2.0

seen "a line: refused
a list: [{'answer': 'two'}]
a line, inside of a value: [{'row': 'two'}]" << 'END'
import datasets

datasets.disable_progress_bars()
record = '{"answer": "one", "answer": "two"}'
for name, file, text in (
        ("a line", "line.jsonl", record),
        ("a list", "list.json", "[" + record + "]"),
        ("a line, inside of a value", "inside.jsonl", '{"row": ' + record + "}")):
    with open(file, "w") as f:
        f.write(text + "\n")
    try:
        print(name + ":", datasets.load_dataset("json", data_files=file, split="train").to_list())
    except datasets.exceptions.DatasetGenerationError:
        print(name + ": refused")
END
