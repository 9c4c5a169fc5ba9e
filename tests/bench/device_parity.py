#!/usr/bin/env python3
"""Trainings of the example model on the device against the same on the CPU backend.

usage: device_parity.py FOLDER [STEPS]    FOLDER: what device.sh pack made

f32: losses of ten steps to 1e-3 relative, norms to 1e-2 (products of f32 go through other sums there).
bf16: losses to 2^-5. STEPS more steps: the mean loss of the last tenth is below that of the first by a
quarter. A run of six steps, and one that goes on from the state of its third, end in the same bytes.
"""
import sys

import trainer_lib as t


def run(out, device, steps, **more):
    one = t.launch(out, 1, **{**dict(accumulation=2, steps=steps, device=device, train_on_prompt=True,
                                     save_strategy="no"), **more})
    code = one.wait(400)
    t.check(out, code == 0, "exit status %d\n%s" % (code, one.text()[-3000:]))
    lines = [e for e in t.log_lines(out) if "loss" in e]
    t.same(out + ": steps", len(lines), steps)
    return [(e["loss"], e["grad_norm"]) for e in lines]


def compare(what, bounds, **more):
    cpu, gpu = run(what + "-cpu", "cpu", 10, **more), run(what + "-gpu", "cuda", 10, **more)
    worst = [max([abs(a[i] / b[i] - 1) for a, b in zip(gpu, cpu)] or [9]) for i in (0, 1)]
    print("%s: losses within %.2g, gradient norms within %.2g" % (what, *worst), flush=True)
    for i, bound in enumerate(bounds):
        t.check("%s: %s" % (what, ("losses", "norms")[i]), worst[i] <= bound, "%g > %g" % (worst[i], bound))


def falls(steps):
    losses = [x[0] for x in run("long", "cuda", steps, accumulation=8, bf16=True, learning_rate="5e-3")]
    part = max(1, len(losses) // 10)
    first, last = sum(losses[:part]) / part, sum(losses[-part:]) / part
    print("%d steps: loss %.3f to %.3f" % (steps, first, last), flush=True)
    t.check("the loss falls", last < 0.75 * first, "%g to %g" % (first, last))


def resumes():
    kept = dict(save_strategy="steps", save_steps=3, bf16=True)
    run("whole", "cuda", 6, **kept)
    before = t.losses("whole"), t.file_bytes("whole/adapter_model.safetensors")
    one = t.launch("whole", 1, accumulation=2, steps=6, device="cuda", train_on_prompt=True,
                   resume_from_checkpoint="3", overwrite_output_dir=True, **kept)
    t.same("resumed", one.wait(400), 0)
    t.has("resumed", one.text(), "Continuing training from global step 3")
    t.same("resumed: losses", t.losses("whole"), before[0])
    t.check("resumed: the adapter", t.file_bytes("whole/adapter_model.safetensors") == before[1])


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    t.begin()
    compare("f32", (1e-3, 1e-2))
    compare("bf16", (2.0 ** -5,), bf16=True)
    resumes()
    if steps > 0:
        falls(steps)
    t.finish()


main()
