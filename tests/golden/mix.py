#!/usr/bin/env python3
"""The order in which the datasets library mixes data sets, for tests/unit/trainer/dataset/mix_test.c.

    python3 tests/golden/mix.py        # with datasets 5.2; writes mix.json

A row: lengths, strategy (of --mix_strategy), probs (null: by turns), seed, and order: indices into the sets laid end to end.
"""
import json
import os

from datasets import Dataset, disable_progress_bars, interleave_datasets

STRATEGIES = {"interleave_under": "first_exhausted", "interleave_over": "all_exhausted",
              "interleave_once": "all_exhausted_without_replacement"}
HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = [([3, 4, 5], None), ([1, 9], None), ([5, 2, 7], [0.5, 0.3, 0.2]), ([40, 3], [0.1, 0.9]),
        ([4, 4, 4, 4], [0.25, 0.25, 0.25, 0.25]), ([600, 700], [0.7, 0.3]), ([6], None), ([6, 2], [1.0, 0.0])]


def main():
    disable_progress_bars()
    made = []
    for lengths, probs in ROWS:
        for strategy, stop in STRATEGIES.items():
            if strategy != "interleave_under" and probs and 0.0 in probs:
                continue  # never ends
            for seed in (42, 7) if probs else (42,):
                begin, sets = 0, []
                for n in lengths:
                    sets.append(Dataset.from_dict({"x": list(range(begin, begin + n))}))
                    begin += n
                mixed = interleave_datasets(sets, probabilities=probs, seed=seed,
                                            stopping_strategy=stop)
                made.append({"lengths": lengths, "strategy": strategy, "probs": probs, "seed": seed, "order": mixed["x"][:]})
    with open(os.path.join(HERE, "mix.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print(len(made))


main()
