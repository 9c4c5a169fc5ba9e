#!/usr/bin/env python3
"""1, 2, 3 and 4 ranks with 12 samples a step are one run: the same losses and the same adapter.

f32: losses to 1e-5 relative, adapters to 1e-2 * rate * steps in every element. Ranks of one node
talk through shared memory, ranks of several launchers over TCP: the same bits either way.
bf16: with the same micro-batches the same bounds for two steps, as gradients are summed in f32. Later a
weight may lie so near the middle between two numbers of bf16 that it is rounded to the other one, and losses
agree to 2^-7. Two samples a micro-batch add up in other orders before a rounding to bf16 (2^-8): the first
loss agrees to 1e-3, the later ones to 2^-7, and single elements of the adapter, which Adam moves by the sign of small gradients,
are not compared.
"""
import json
import shutil
import subprocess

import trainer_lib as t

RATE, STEPS = 1e-3, 4


def compare(what, got, want, relative, steps=STEPS):
    lines, others = t.log_lines(got), t.log_lines(want)
    a = [e["loss"] for e in lines if "loss" in e]
    b = [e["loss"] for e in others if "loss" in e]
    t.same(what + ": steps", len(a), steps)
    worst = max(abs(x - y) / abs(y) for x, y in zip(a, b))
    t.check(what + ": losses", worst <= relative, "relative difference %g" % worst)
    same_keys = t.tensors(got + "/adapter_model.safetensors"), t.tensors(want + "/adapter_model.safetensors")
    t.same(what + ": names", sorted(same_keys[0]), sorted(same_keys[1]))
    far = max(abs(x - y) for name in same_keys[1]
              for x, y in zip(same_keys[0][name], same_keys[1][name]))
    moved = max(abs(x) for name, v in same_keys[1].items() if "lora_B" in name for x in v)
    t.check(what + ": the adapter has moved", moved > RATE)
    print("%s: losses within %.2g, adapter within %.2g of %.2g" % (what, worst, far, moved))
    return far


def several_nodes(out, nodes, a, **more):
    """One rank a launcher: every byte goes over TCP."""
    port = t.free_port()
    runs = [t.launch("%s-%d" % (out, k), 1, port=port, nodes=nodes, node=k, accumulation=a,
                     steps=STEPS, **more) for k in range(nodes)]
    for k, run in enumerate(runs):
        t.same("node %d of %s" % (k, out), run.wait(), 0)
    return out + "-0"


def traced(steps):
    """What two ranks on CPUs recorded: every op lies inside one of the recorded steps."""
    for rank, path in enumerate(("trace.json", "trace.json.rank1")):
        what = "the trace of rank %d" % rank
        rows = t.trace(what, path)
        t.same(what + ": rows", sorted(rows), ["compute", "gather", "steps"])
        spans = rows.get("steps", [])
        t.same(what + ": steps", [s[2] for s in spans if s[3] == 0],
               ["step %d" % (k + 1) for k in range(steps)])
        inside = [any(s[0] <= op[0] and op[1] <= s[1] for s in spans if s[3] == 0)
                  for row in ("compute", "gather") for op in rows.get(row, ())
                  if op[2] in ("attention_bwd", "grouped_gemm", "all_gather head rows 0")]
        t.check(what + ": ops lie inside the steps", len(inside) > 100 and all(inside), len(inside))


def gradients(adapter):
    """The bytes of what `forward --grads` gives."""
    with open("ids.json", "w") as f:
        json.dump([list(range(1, 40)), list(range(60, 99))], f)
    subprocess.run([t.flowtrain, "forward", "--model_name_or_path", "ex/model", "--adapter_name_or_path", adapter,
                    "--input_ids", "ids.json", "--labels", "ids.json", "--grads", "--device", "cpu",
                    "--output", "forward.safetensors"], check=True)
    return t.file_bytes("forward.safetensors")


def without_dropout(adapter):
    """Gradients are those of the loss beside them, whatever dropout the adapter was trained with."""
    shutil.copytree(adapter, "still")
    with open("still/adapter_config.json") as f:
        config = json.load(f)
    t.check("the adapter was trained with dropout", config["lora_dropout"] > 0)
    with open("still/adapter_config.json", "w") as f:
        json.dump(dict(config, lora_dropout=0.0), f)
    t.check("forward --grads has no dropout", gradients(adapter) == gradients("still"))


def main():
    t.begin()
    limit = 1e-2 * RATE * STEPS
    base = dict(steps=STEPS, learning_rate=RATE, save_strategy="no")
    for world, a in ((1, 12), (2, 6), (3, 4), (4, 3)):
        more = dict(trace="trace.json", trace_steps=2) if world == 2 else {}
        t.train("W=%d" % world, "f%d" % world, world, accumulation=a, **base, **more)
    traced(2)
    without_dropout("f1")
    for world in (2, 3, 4):
        far = compare("f32, W=%d" % world, "f%d" % world, "f1", 1e-5)
        t.check("f32, W=%d: adapter" % world, far <= limit, "%g > %g" % (far, limit))
    del base["steps"]
    tcp = several_nodes("tcp", 2, 6, **base)
    t.same("TCP: losses are those of shared memory", t.losses(tcp), t.losses("f2"))
    t.same("TCP: so is the adapter", t.file_bytes(tcp + "/adapter_model.safetensors"),
           t.file_bytes("f2/adapter_model.safetensors"))
    base["steps"] = STEPS
    t.train("replicated", "whole", 2, accumulation=6, deepspeed=None, **base)
    t.same("sharded or not: losses", t.losses("whole"), t.losses("f2"))
    for world, a, b in ((1, 12, 1), (3, 4, 1), (2, 3, 2)):
        t.train("bf16, W=%d" % world, "b%d" % world, world, accumulation=a, bf16=True,
                per_device_train_batch_size=b, **base)
    compare("bf16, W=3", "b3", "b1", 2.0 ** -7)
    for world, accumulation in ((1, 12), (3, 4)):
        t.train("bf16, two steps, W=%d" % world, "two%d" % world, world, accumulation=accumulation, bf16=True,
                per_device_train_batch_size=1, **dict(base, steps=2))
    far = compare("bf16, two steps, W=3", "two3", "two1", 1e-5, steps=2)
    t.check("bf16: adapter", far <= limit / 2, "%g > %g" % (far, limit / 2))
    compare("bf16, W=2, B=2", "b2", "b1", 2.0 ** -7)
    first = [t.log_lines(out)[0]["loss"] for out in ("b2", "b1")]
    t.check("bf16, B=2: the loss before any update", abs(first[0] / first[1] - 1) <= 1e-3, first)
    t.train("B=2", "pairs", 2, accumulation=3, per_device_train_batch_size=2, **base)
    far = compare("f32, W=2, B=2", "pairs", "f1", 1e-5)
    t.check("f32, B=2: adapter", far <= limit, "%g > %g" % (far, limit))
    t.finish()


main()
