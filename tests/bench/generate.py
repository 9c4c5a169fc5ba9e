#!/usr/bin/env python3
"""A greedy answer of a model of half a billion weights, beside transformers with the same weights: milliseconds a token, in
f32 and bf16, by turns; and whether the f32 answers are equal.

usage: PYTHON generate.py BUILD TOKENIZER [ROUNDS]

PYTHON has torch and transformers; TOKENIZER is a tokenizer.json of at least the vocabulary of half_billion.json. Times are
from the first piece of the answer to the last: loading is not counted. Prints medians of ROUNDS [3].
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import transformers
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = 96
PROMPT = "What is it that a river carries to the sea, and what does it leave behind on its way?"


class Ours:
    def __init__(self, build, folder, kind):
        self.command = [build + "/trainer/cli/flowtrain", "generate", "--model_name_or_path", folder, "--template", "empty",
                        "--prompt", PROMPT, "--device", "cpu", "--max_new_tokens", str(TOKENS)]
        self.command += ["--bf16"] if kind == "bf16" else []

    def answer(self):
        """The text, and the milliseconds of a token."""
        text, first, last = b"", None, None
        with subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            while piece := os.read(p.stdout.fileno(), 1 << 16):
                last = time.monotonic()
                first = first or last
                text += piece
        return text.decode()[:-1], 1000 * (last - first) / (TOKENS - 1)


class Clock(transformers.generation.streamers.BaseStreamer):
    """When the prompt and each token came."""

    def __init__(self):
        self.times = []

    def put(self, value):
        self.times.append(time.monotonic())

    def end(self):
        pass


class Theirs:
    def __init__(self, folder, kind):
        dtype = torch.bfloat16 if kind == "bf16" else torch.float32
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        self.tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")

    def answer(self):
        ids = torch.tensor([self.tokenizer.encode(PROMPT, add_special_tokens=False).ids])
        clock = Clock()
        with torch.no_grad():
            out = self.model.generate(ids, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0, streamer=clock)
        text = self.tokenizer.decode(out[0, ids.shape[1]:].tolist(), skip_special_tokens=True)
        return text, 1000 * (clock.times[-1] - clock.times[1]) / (TOKENS - 1)


def main():
    build, tokenizer, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3
    folder = tempfile.mkdtemp(prefix="generate_bench.")
    try:
        subprocess.run([build + "/trainer/cli/flowtrain", "init", "--config", HERE + "/half_billion.json", "--output", folder,
                        "--tokenizer", tokenizer], check=True, capture_output=True)
        print(f"torch {torch.__version__}, transformers {transformers.__version__}, load {os.getloadavg()[0]:.1f}")
        for kind in ("f32", "bf16"):
            ours, theirs = Ours(build, folder, kind), Theirs(folder, kind)
            found = [(ours.answer(), theirs.answer()) for _ in range(rounds)]
            mine, other = (statistics.median(x[side][1] for x in found) for side in (0, 1))
            same = ", answers " + ("equal" if found[0][0][0] == found[0][1][0] else "DIFFER") if kind == "f32" else ""
            print(f"{kind}: {mine:.1f} ms a token, peer {other:.1f}: {other / mine:.1f} x{same}", flush=True)
    finally:
        shutil.rmtree(folder)


main()
