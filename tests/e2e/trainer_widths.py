#!/usr/bin/env python3
"""Widths of the CPU's kernels through `flowtrain train`: FLOWTRAIN_MAX_ISA takes the lesser ones. At each the
log names the kernels, one thread and three give the same bits, and losses agree with the machine's best: f32 to
1e-5 relative; bf16 in the first step to 2^-9, the rounding of a bf16, then to 2^-6: AdamW moves by the whole rate
where a gradient is nearly 0, to whichever side that is rounded. Skipped on a chip without AVX2.

usage: trainer_widths.py BUILD
"""
import re
import sys

import trainer_lib as t

WIDE = {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
NEEDS = {"AVX2": {"avx2", "fma", "f16c"}, "AVX512": WIDE, "AVX512_BF16": WIDE | {"avx512_bf16"}}
SAID = {"AVX2": ("avx2", "widened-to-avx2-f32"), "AVX512": ("avx512", "widened-to-avx512-f32"),
        "AVX512_BF16": ("avx512", "avx512")}
KERNELS = re.compile(r"cpu threads=\d+ f32=(\S+) bf16=(\S+)")


def train(out, bf16, **env):
    run = t.Run(t.train_args(out, steps=3, accumulation=2, deepspeed=None, lora_dropout=0, save_strategy="no",
                             bf16=True if bf16 else None), **env)
    t.check(out + ": trains", run.wait() == 0, run.text()[-2000:])
    said = KERNELS.search(run.text())
    return said.groups() if said else None


def compare(what, got, want, bounds):
    a, b = ([e["loss"] for e in t.log_lines(out) if "loss" in e] for out in (got, want))
    t.same(what + ": steps", len(a), 3)
    apart = [abs(x - y) / abs(y) for x, y in zip(a, b)]
    t.check(what + ": losses", all(d <= bound for d, bound in zip(apart, bounds)), "relative differences %s" % apart)


def main():
    with open("/proc/cpuinfo") as f:
        flags = set(re.search(r"^flags\s*: (.*)$", f.read(), re.M).group(1).split())
    if not NEEDS["AVX2"] <= flags:
        print("skipped: the chip has no AVX2")
        sys.exit(77)
    t.begin()
    for bf16 in (False, True):
        name = "bf16" if bf16 else "f32"
        train(name, bf16)
        for isa in [k for k in NEEDS if NEEDS[k] <= flags]:
            one, three = "%s-%s-1" % (name, isa), "%s-%s-3" % (name, isa)
            t.same(one + ": kernels", train(one, bf16, FLOWTRAIN_MAX_ISA=isa), SAID[isa])
            train(three, bf16, FLOWTRAIN_MAX_ISA=isa, OMP_NUM_THREADS="3")
            t.same(one + ": three threads", t.losses(three), t.losses(one))
            compare(one, one, name, (2 ** -9, 2 ** -6, 2 ** -6) if bf16 else 3 * (1e-5,))
    t.finish()


main()
