#!/usr/bin/env python3
"""The row of this machine's chip in results/chips.txt: LoRA steps of a small model of DeepSeek-V3's architecture by the CPU
backend at each width that the chip has, f32 and bf16, activations kept and computed again: tokens/s, and the share of the
chip's own rate of products at that width (peak.c, in the same run); with a Python that has torch, transformers and peft in
PEER, the same steps by these beside it, held to the same width. By turns, medians of ROUNDS. A chip that the file does not
have yet is added to it; never fails on time.

usage: chips.py BUILD [ROUNDS] [STEPS]"""
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results", "chips.txt")
MODEL = [os.path.join(HERE, "small.json"), "512", "128", "device=cpu"]
WIDTHS = [None, "AVX512_BF16", "AVX512", "AVX2"]  # as FLOWTRAIN_MAX_ISA has them; None: what the chip is best at
TOO_SLOW = {("bf16", "AVX2")}  # torch multiplies bf16 below 1 GFLOP/s there: minutes a step
KINDS = [(kind, recompute) for kind in ("f32", "bf16") for recompute in ("none", "all")]


def chip():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        text = f.read()
    found = [re.search(r"^%s\s*: (.*)$" % key, text, re.M) for key in ("model name", "cpu family", "model", "CPU part")]
    return ", ".join("%s %s" % (what, m[1]) if what else m[1] for what, m in zip(("", "family", "model", "part"), found) if m)


def said(words, env):
    done = subprocess.run(words, env=dict(os.environ, **env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    return done.stdout


def width_env(width):
    """Variables that hold flowtrain's kernels and the peer's libraries to a width."""
    if width is None:
        return {}
    narrow = width == "AVX2"
    return {"FLOWTRAIN_MAX_ISA": width, "ONEDNN_MAX_CPU_ISA": width.replace("AVX512", "AVX512_CORE"), "ATEN_CPU_CAPABILITY": "avx2" if narrow else "avx512",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2" if narrow else "AVX512"}


class Width:
    def __init__(self, build, width):
        self.build, self.env = build, width_env(width)
        self.name = "best" if width is None else width
        self.rates = {"f32": [], "bf16": []}
        self.ours, self.peer = {k: [] for k in KINDS}, {k: [] for k in KINDS}
        self.measure_peak()

    def bench(self, name):
        return os.path.join(self.build, "tests", "bench", name)

    def measure_peak(self):
        lines = [line.split() for line in said([self.bench("peak")], self.env).splitlines()]
        self.kernels = tuple(line[1] for line in lines)
        for kind, _, rate in lines:
            self.rates[kind].append(float(rate))

    def turn(self, steps):
        self.measure_peak()
        for kind, recompute in KINDS:
            how = MODEL + ["steps=%d" % steps, "type=" + kind]
            rate = "rate=%g" % self.rates[kind][-1]
            text = said([self.bench("layers")] + how + ["recompute=" + recompute, rate],
                        dict(self.env, GOMP_SPINCOUNT="2000"))
            found = re.search(r": ([\d.]+) tokens/s, ([\d.]+) TFLOP/s", text)
            if found:
                self.ours[kind, recompute].append((float(found[1]), float(found[2])))
            if os.environ.get("PEER") and (kind, self.name) not in TOO_SLOW:
                text = said([os.environ["PEER"], os.path.join(HERE, "peer.py")] + how,
                            dict(self.env, RECOMPUTE=recompute, EXPERTS="grouped_mm"))
                found = re.search(r": ([\d.]+) tokens/s", text)
                if found:
                    self.peer[kind, recompute].append(float(found[1]))

    def rows(self):
        for kind, recompute in KINDS:
            if not self.ours[kind, recompute]:
                yield "%-5s %s: no figure" % (kind, recompute)
                continue
            ours = statistics.median(o[0] for o in self.ours[kind, recompute])
            flop = statistics.median(o[1] for o in self.ours[kind, recompute])
            peak = statistics.median(self.rates[kind])
            row = "%-5s %-15s %-12s %6.3f %10.0f %7.0f %%" % (
                kind, "kept" if recompute == "none" else "computed again", self.kernels[kind == "bf16"], peak, ours,
                100 * flop / peak)
            if self.peer[kind, recompute]:
                peer = statistics.median(self.peer[kind, recompute])
                row += " %10.0f %7.2f x" % (peer, ours / peer)
            yield row


def measured(build, rounds, steps):
    """The lines of this chip."""
    widths, seen = [], set()
    for width in WIDTHS:
        w = Width(build, width)
        if w.kernels not in seen:
            widths.append(w)
        seen.add(w.kernels)
    for _ in range(rounds):
        for w in widths:
            w.turn(steps)
    commit = said(["git", "-C", HERE, "rev-parse", "--short=8", "HEAD"], {}).strip()
    yield chip()
    yield "%s, %d cores, commit %s, rounds: %d of %d steps%s" % (
        time.strftime("%Y-%m-%d", time.gmtime()), os.cpu_count(), commit, rounds, steps,
        "" if os.environ.get("PEER") else ", no peer")
    for w in widths:
        yield ""
        yield "%-30s %10s %10s %9s %10s" % (w.name, "TFLOP/s", "tokens/s", "of it", "peer")
        yield from w.rows()


def main():
    build = os.path.abspath(sys.argv[1])
    rounds, steps = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((2, 3), (3, 5)))
    lines = list(measured(build, rounds, steps))
    print("\n".join(lines))
    with open(RESULTS, encoding="utf-8") as f:
        known = lines[0] in f.read().splitlines()
    if not known:
        with open(RESULTS, "a", encoding="utf-8") as f:
            f.write("\n" + "\n".join(lines) + "\n")


main()
