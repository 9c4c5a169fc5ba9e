#!/usr/bin/env python3
"""What OmegaConf reads in a file of arguments and behind it, for tests/unit/trainer/config/arguments_test.c.

    python3 tests/golden/yaml_values.py    # with omegaconf 2.4; writes yaml_values.json

Three lists: files (text of a file with the key k, and the value of k), words (a word behind a file without k), parts (a word
behind the file "k: {x: 1, y: [2]}"). No value: it is refused there.
"""
import json
import math
import os
import tempfile

from omegaconf import OmegaConf

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "yaml_values.json")
SCALARS = """0 00 017 -017 +017 018 08 09 0_17 +17 -5 3 1_024 1__0 _1 1_ 0x10 0x_1 0x1_0 0xZ -0x1f 0X10 0o17 0O17 0b101 0b1_0 0b 0b2 1:30 1:30:15 -1:30
1:60 190:20:30 01:30 0:59 1_0:30 1:3 1: 1:30.5 1:2:3.4 01:30.5 1.5 1. .5 +.5 -.5 . ._ 1e5 1E5 1e+5 1e-5 -1e-5 1.e5 .5e3 .5e+3 1_0.5 1_0e5 1e5_0 1.5_0 inf nan
Infinity 1,000 12e03 -2E+05 0.1e-5 1e 1e+ 0e0 e5 true True TRUE tRUE yes Yes YES y Y n N no No NO on On ON off Off OFF oFF null Null NULL nULL none None
2001-01-01 2001-01-01T00:00:00Z --1 +-1 1+1 - + 1.2.3 1.5e 9007199254740993""".split()
VALUES = SCALARS + ["a b", "1 2", "[1, 017, a, off, '017']", "{a: 017, b: 1_0, c: [no]}", "'017'", '"on"', "''", "|\n  017\n", "~", "", "x # c",
                    "&n {a: 1}", "{<<: {a: 1, b: 2}, b: 3}", "{b: 1, <<: {b: 2}}", "{<<: [{a: 1}, {a: 2, c: 3}], d: 4}", "{<<: {<<: {a: 1}, a: 2, b: 5}, c: 3}",
                    "{a: &m {x: 1}, b: {<<: *m, y: 2}}", "saves/${a}", "[${a}]"]
WORDS = ["k=" + v for v in SCALARS + ["[a,b]", "[x]", "[none]", "'x'", '"017"', "{x: 3}", "{z: {w: 017}}", "", "null", "~", "x=y", "x,y", "a b", "x # c", "{x:1}",
                                      "${b}", "[1,'2']", "{\"x\":3}", "[]", "{}"]]
PARTS = ["k.x=5", "k.z.w=1_0", "k.y=[3]", "k.x=null", "k.z={a: on}", "k={x: 3}", "k={z: {w: 017}}", "k={x: {}}"]


def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def load(text, words):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        try:
            return {"value": OmegaConf.to_container(OmegaConf.merge(OmegaConf.load(path), OmegaConf.from_cli(words)))["k"]}
        except Exception:
            return {}


def main():
    made = {"files": [dict(load("k: " + v + "\n", []), text="k: " + v + "\n") for v in VALUES],
            "words": [dict(load("j: 1\n", [w]), word=w) for w in WORDS],
            "parts": [dict(load("k: {x: 1, y: [2]}\n", [w]), word=w) for w in PARTS]}
    with open(OUT, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join('"%s": [\n%s\n]' % (k, ",\n".join(json.dumps(r) for r in v)) for k, v in made.items()) + "\n}\n")
    print({k: len(v) for k, v in made.items()}, "refused:", [r for v in made.values() for r in v if "value" not in r])


main()
