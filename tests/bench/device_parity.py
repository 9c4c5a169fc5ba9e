#!/usr/bin/env python3
"""The example model on the device against the CPU backend, and against transformers and PEFT.

usage: device_parity.py FOLDER [STEPS]    FOLDER: what device.sh pack made

Logits, loss and every adapter's gradient of one batch, in f32: |x - x'| / |x'| <= 1e-4 against the CPU
backend, and against transformers and PEFT where Python has them (on the same GPU if torch sees it).
Trainings, f32: losses of ten steps to 1e-3 relative, norms to 1e-2 (products of f32 go through other sums there).
bf16: losses to 2^-5. STEPS more steps: the mean loss of the last tenth is below that of the first by a
quarter. A run of six steps, and one that goes on from the state of its third, end in the same bytes.
Two ranks on one GPU, by the transport through the host: the f32 losses of one to 1e-5. With weights and
inputs of blocks on the host: its losses to the bit.
"""
import array
import json
import math
import random
import subprocess
import sys

import trainer_lib as t


def run(out, device, steps, world=1, **more):
    one = t.launch(out, world, **{**dict(accumulation=2 // world, steps=steps, device=device, train_on_prompt=True,
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


def tensors(path):
    """name -> numbers of a safetensors file's f32 tensors."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        start = f.tell()
        found = {}
        for name, one in header.items():
            if one.get("dtype") == "F32":
                f.seek(start + one["data_offsets"][0])
                found[name] = array.array("f", f.read(one["data_offsets"][1] - one["data_offsets"][0]))
    return found


def forward(device, adapter, ids):
    for name in ("ids", "labels"):
        with open(name + ".json", "w") as f:
            json.dump(ids, f)
    subprocess.run([t.flowtrain, "forward", "--model_name_or_path", "ex/model", "--adapter_name_or_path", adapter,
                    "--input_ids", "ids.json", "--labels", "labels.json", "--grads", "--device", device,
                    "--output", device + ".safetensors"], check=True)
    return tensors(device + ".safetensors")


def reference(adapter, ids):
    """The same numbers by transformers and PEFT; None where Python lacks them."""
    try:
        import peft
        import torch
        from transformers import AutoModelForCausalLM
    except ImportError as e:
        print("transformers and PEFT: skipped:", e)
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = AutoModelForCausalLM.from_pretrained("ex/model", dtype=torch.float32).to(device)
    model = peft.PeftModel.from_pretrained(base, adapter, is_trainable=True).eval()
    batch = torch.tensor(ids, device=device)
    out = model(input_ids=batch, labels=batch)
    out.loss.backward()
    found = {"logits": out.logits, "loss": out.loss}
    found.update(("grad." + n.replace(".default", ""), p.grad) for n, p in model.named_parameters() if p.requires_grad)
    return {n: array.array("f", x.detach().float().cpu().flatten().tolist()) for n, x in found.items()}


def near(what, got, want, bound):
    worst, where = 0, "nothing"
    for name in sorted(want):
        square = math.fsum(x * x for x in want[name])
        apart = math.fsum((a - b) ** 2 for a, b in zip(got[name], want[name]))
        far = math.sqrt(apart / square) if square > 0 and len(got[name]) == len(want[name]) else 9
        worst, where = max((worst, where), (far, name))
    print("%s: %d tensors within %.2g (%s)" % (what, len(want), worst, where), flush=True)
    t.check(what, len(want) > 2 and worst <= bound, "%s is %g away" % (where, worst))


def one_batch(adapter):
    draw = random.Random(1)
    ids = [[draw.randrange(512) for _ in range(48)] for _ in range(4)]
    gpu, cpu, other = forward("cuda", adapter, ids), forward("cpu", adapter, ids), reference(adapter, ids)
    near("one batch against the CPU backend", gpu, cpu, 1e-4)
    if other is not None:
        near("one batch against transformers and PEFT", gpu, other, 1e-4)


def falls(steps):
    losses = [x[0] for x in run("long", "cuda", steps, accumulation=8, bf16=True, learning_rate="5e-3")]
    part = max(1, len(losses) // 10)
    first, last = sum(losses[:part]) / part, sum(losses[-part:]) / part
    print("%d steps: loss %.3f to %.3f" % (steps, first, last), flush=True)
    t.check("the loss falls", last < 0.75 * first, "%g to %g" % (first, last))


def shares():
    """As the run f32-gpu."""
    one, two = run("again", "cuda", 10), run("two", "cuda", 10, world=2, transport="host")
    worst = max(abs(a[0] / b[0] - 1) for a, b in zip(two, one))
    print("two ranks on one GPU: losses within %.2g" % worst, flush=True)
    t.check("two ranks on one GPU: losses", worst <= 1e-5, worst)
    t.same("the same run twice", t.losses("again"), t.losses("f32-gpu"))
    run("host", "cuda", 10, deepspeed=json.dumps({
        "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto",
        "activation_checkpointing": {"cpu_checkpointing": True},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": True}}}))
    t.same("weights and inputs on the host", t.losses("host"), t.losses("f32-gpu"))


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
    one_batch("f32-gpu")
    shares()
    compare("bf16", (2.0 ** -5,), bf16=True)
    resumes()
    if steps > 0:
        falls(steps)
    t.finish()


main()
