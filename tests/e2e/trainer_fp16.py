#!/usr/bin/env python3
"""Training in fp16: the loss scaler is DeepSpeed's, a skipped step counts for neither the learning rate nor
Adam, also across a resume, and gradients are unscaled and clipped by their own norm."""
import json
import math
import os
import shutil

import trainer_lib as t

RATE, BETA1, STEPS = 1e-3, 0.9, 16
BASE = dict(lora_dropout=0, learning_rate=str(RATE), lr_scheduler_type="linear", per_device_train_batch_size=2,
            max_samples=200)


def fp16(power, window=2, hysteresis=1, **more):
    return json.dumps({"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto",
                       "fp16": dict(enabled=True, initial_scale_power=power, loss_scale_window=window,
                                    hysteresis=hysteresis, **more),
                       "zero_optimization": {"stage": 3}})


def steps(out):
    """The last word on each step."""
    return list({e["current_steps"]: e for e in t.log_lines(out) if "loss" in e}.values())


def skipped(out):
    return [e["grad_norm"] is None for e in steps(out)]  # JSON has no NaN


def state(out, step):
    with open("%s/resume/step-%d/state.json" % (out, step)) as f:
        return json.load(f)


def scale_after(power, window, hysteresis, pattern):
    """DeepSpeed's dynamic scaler without consecutive_hysteresis."""
    scale, left, last = 2.0 ** power, hysteresis, -1
    for i, overflow in enumerate(pattern):
        if overflow:
            if hysteresis == 1 or left == 1:
                scale = max(scale / 2, 1)
            else:
                left -= 1
            last = i
        elif i - last - 1 > 0 and (i - last - 1) % window == 0:
            left, scale = hysteresis, scale * 2
    return scale


def overflows():
    """Scales that overflow again and again: what is logged and kept follows from which steps were skipped."""
    for out, world, window, hysteresis in (("one", 1, 3, 1), ("two", 2, 3, 1), ("patient", 1, 100, 3)):
        text = t.train(out, out, world, steps=STEPS, accumulation=2 // world, fp16=True, save_steps=4,
                       deepspeed=fp16(20, window, hysteresis), **BASE).text()
        pattern = skipped(out)
        t.has(out + ": how many were", text, "%d of %d steps changed nothing: gradients not finite" % (sum(pattern), STEPS))
        print("%s: %s" % (out, "".join("x" if x else "." for x in pattern)))
        t.check(out + ": steps are skipped before and behind others", sum(pattern) > 2 and not all(pattern[-4:]),
                pattern)
        done = 0
        for i, e in enumerate(steps(out)):
            want = RATE * (STEPS - done) / STEPS
            t.check("%s: rate of step %d" % (out, i + 1), abs(e["lr"] - want) < 1e-12, (e["lr"], want))
            done += not pattern[i]
        last = state(out, STEPS)
        t.same(out + ": updates", last["updates"], done)
        t.same(out + ": steps of Adam", last["adam_step"], done)
        t.same(out + ": the scale", last["scaler"]["scale"], scale_after(20, window, hysteresis, pattern))
    first = skipped("one").index(False) + 1
    t.train("first", "first", 1, steps=STEPS, accumulation=2, fp16=True, save_steps=first, save_total_limit=9,
            deepspeed=fp16(20, 3, 1), **BASE)
    tensors = t.tensors("first/checkpoint-%d/adapter_model.safetensors" % first)
    moved = max(abs(x) for name, v in tensors.items() if "lora_B" in name for x in v)
    t.check("Adam's first step is as large as the rate of no update", abs(moved / RATE - 1) < 1e-3, (first, moved))
    t.same("two ranks skip the same steps", skipped("two"), skipped("one"))


def resumes(out, window, hysteresis):
    """From the middle of it, bit for bit."""
    again = out + "-again"
    shutil.copytree(out, again)
    shutil.rmtree("%s/resume/step-%d" % (again, STEPS))
    before = state(again, 12)
    t.check(again + ": the state is of a run that skipped", before["updates"] < 12, before["updates"])
    run = t.train(again, again, 1, steps=STEPS, accumulation=2, fp16=True, save_steps=4,
                  deepspeed=fp16(20, window, hysteresis), resume_from_checkpoint="last",
                  overwrite_output_dir=True, **BASE)
    t.has(again + ": goes on", run.text(), "from global step 12")
    t.same(again + ": loss, norm and rate of every step", *([(e["loss"], e["grad_norm"], e["lr"]) for e in steps(o)]
                                                           for o in (again, out)))
    for name in ("adapter_model.safetensors", "resume/step-%d/state.safetensors" % STEPS):
        t.same("%s: %s" % (again, name), t.file_bytes(again + "/" + name), t.file_bytes(out + "/" + name))
    t.same(again + ": scaler", state(again, STEPS)["scaler"], state(out, STEPS)["scaler"])


def norms():
    """Adam forgets the size of gradients, its first moment does not: after one step it is (1 - beta1) times
    the unscaled, clipped gradient. Gradients below the limit stay as they are."""
    for clip in ("1000", "0.5", "0"):
        seen = {}
        for name, more in (("f32", dict(deepspeed=None)), ("fp16", dict(fp16=True, deepspeed=fp16(10))),
                           ("two", dict(fp16=True, deepspeed=fp16(10)))):
            out, world = "%s-%s" % (name, clip), 2 if name == "two" else 1
            t.train(out, out, world, steps=1, accumulation=2 // world, save_steps=1, max_grad_norm=clip,
                    **{**BASE, **more})
            moments = [v for k, v in t.tensors(out + "/resume/step-1/state.safetensors").items()
                       if k.startswith("exp_avg.")]
            norm = steps(out)[0]["grad_norm"]
            kept = math.sqrt(sum(x * x for v in moments for x in v)) / (1 - BETA1)
            want = min(norm, float(clip)) if float(clip) > 0 else norm
            t.check(out + ": what Adam sees", abs(kept / want - 1) < 1e-5, (kept, want))
            seen[name] = norm
        for name in ("fp16", "two"):
            t.check("%s, clip %s: the norm of f32" % (name, clip), abs(seen[name] / seen["f32"] - 1) < 0.01, seen)


def no_failure():
    """A scale far too large costs steps, not the run; one that cannot fall any further ends it."""
    run = t.train("all skipped", "skips", 1, steps=3, accumulation=1, fp16=True, deepspeed=fp16(32), **BASE)
    t.same("all skipped", skipped("skips"), [True] * 3)
    t.has("all skipped: said", run.text(), "all 3 steps were skipped, the loss scale fell from 4294967296 to 536870912")
    tensors = t.tensors("skips/adapter_model.safetensors")
    starts = [tuple(v[:4]) for k, v in tensors.items() if "lora_A" in k]
    t.same("all skipped: no two adapters start with the same numbers", len(set(starts)), len(starts))
    t.check("all skipped: the adapter as it started", not any(any(v) for k, v in tensors.items() if "lora_B" in k))
    t.same("all skipped: no update", state("skips", 3)["updates"], 0)
    run = t.launch("least", 1, steps=6, accumulation=1, fp16=True, deepspeed=fp16(32, min_loss_scale=2 ** 30), **BASE)
    t.same("at the least scale", run.wait(), 2)
    t.has("at the least scale", run.text(), "loss scale already at minimum")
    t.check("at the least scale: nothing is exported", not os.path.exists("least/adapter_model.safetensors"))


def main():
    t.begin()
    overflows()
    resumes("one", 3, 1)
    resumes("patient", 100, 3)
    norms()
    no_failure()
    t.finish()


main()
