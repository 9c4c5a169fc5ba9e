#!/usr/bin/env python3
"""Drawn texts through flowtrain tokenize and through the tokenizers library.

    SEED=12 python3 tests/golden/texts.py build/trainer/cli/flowtrain 20000 tests/golden/tokenizer/*.json FOLDER …

A line a tokenizer: how many texts there were, and how many differ, with the first three of these; it fails if any
do. By hand, with tokenizers 0.23. Combining marks that Unicode got after version 3.2 are not in the texts: that
library's NFC does not know all of them (U+1DF9, U+1AC4).
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer

WORDS = ["river", "the", "don't", "I'LL", "we'Re", "x=3.14", "2024", "12345", "foo_bar", "#include", "<stdio.h>", "\u00e9t\u00e9",
         "e\u0301", "\u5e74\u306e\u30c6\u30b9\u30c8", "\U0001f60a", "\u017f", "'\u017f", "==", "...", "\uac00", "\u1100\u1161\u11a8", "\u212a",
         "\u00b2", "\u00bd", "\u0661\u0662\u0663", "\u0301", "\u2014", "\u201cq\u201d", "\ufb01", "\u212b", "<s>", "</s>", "<think>"]
SPACES = [" ", " ", "  ", "\n", "\r\n", "\n\n", "\t", "   ", "\u00a0", "", "\u2028", "\x0b", "\x1c", "\x01", "\u3000", "\x85", "\u180e"]
RANGES = [(32, 126), (0xa0, 0x5ff), (0x600, 0x1aff), (0x2000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0x1f300, 0x1f5ff)]


def known(c):
    if unicodedata.category(c) in ("Cn", "Cs"):
        return False
    return not unicodedata.combining(c) or unicodedata.ucd_3_2_0.category(c) != "Cn"


def draw(rng):
    kind = rng.random()
    if kind < 0.45:
        return "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(rng.randint(0, 25)))
    if kind < 0.7:
        return "".join(chr(rng.randint(1, 126)) for _ in range(rng.randint(0, 60)))
    if kind < 0.9:
        chars = [chr(rng.randint(*rng.choice(RANGES))) for _ in range(rng.randint(1, 40))]
        return "".join(filter(known, chars))
    return rng.choice(["a", " ", "ab", "\n", "\u00e9", "\u4e2d", "0", "=", "'s"]) * rng.randint(1, 400)


def compare(flowtrain, count, path):
    """Texts that differ: (text, ids here, ids there)."""
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rng = random.Random(int(os.environ.get("SEED", "11")))
    texts = [draw(rng) for _ in range(count)]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.writelines(json.dumps(text) + "\n" for text in texts)
        f.flush()
        run = subprocess.run([flowtrain, "tokenize", "--tokenizer", path, f.name], check=True, capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert len(lines) == count
    there = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
    return [(text, line, ids) for text, line, ids in zip(texts, lines, there) if json.loads(line) != ids]


def main():
    flowtrain, count = sys.argv[1], int(sys.argv[2])
    failed = False
    for path in sys.argv[3:]:
        path = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
        if path.endswith("_config.json"):
            continue
        differ = compare(flowtrain, count, path)
        failed = failed or bool(differ)
        print("%s: %d texts, %d differ" % (path, count, len(differ)), flush=True)
        for text, here, there in differ[:3]:
            print("   %r: %s, %s" % (text[:80], here[:80], there[:20]))
    sys.exit(failed)


main()
