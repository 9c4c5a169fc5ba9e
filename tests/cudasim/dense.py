#!/usr/bin/env python3
"""The tiny models of tests/e2e/trainer_models.py on the simulated GPU.

usage: dense.py BUILD [STEPS]
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import trainer_lib as t  # noqa: E402
import trainer_models as models  # noqa: E402


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    t.begin()
    t.simulate()
    for name in models.MODELS:
        models.make(name)
        models.train(name, "cuda", steps)
        models.answers(name, "cuda", name + "-one")
    t.finish()


main()
