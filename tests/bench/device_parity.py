#!/usr/bin/env python3
"""The example model on the device against the CPU backend, and against transformers and PEFT.

usage: device_parity.py FOLDER [limit=SECONDS] [steps=N] [compared=N] [device=cuda] [config=FILE] [PART ...]

FOLDER: what pack.sh made. config: another model than the example's, of a vocabulary of 512

f32     trainings: losses of COMPARED (10) steps to 1e-3 relative, norms to 1e-2 (products of f32 go through other
        sums there)
batch   logits, loss and every adapter's gradient of one batch, f32: |x - x'| / |x'| <= 1e-4 against the CPU
        backend, and against transformers and PEFT where Python has them (on the same GPU if torch sees it).
        In bf16: at most twice as far from the f32 numbers as the CPU backend's bf16 is
shares  two ranks on one GPU, by the transport through the host: the f32 losses of one to 1e-5. With weights
        and inputs of blocks on the host: its losses to the bit
bf16    trainings: losses to 2^-5
models  tiny models with grouped-query attention, dense and with experts: as tests/e2e/trainer_models.py says
fp8     the example's weights in FP8: one batch, f32, to 1e-4 against the CPU backend, and the same answer; bf16 as above
resumes a run of six steps, and one that goes on from the state of its third, end in the same bytes
falls   STEPS (200) steps of the example's data: the mean loss of the last tenth is below that of the first by
        a quarter
gsm8k   STEPS steps of GSM8K, where the folder has it, of a small model with the tokenizer of DeepSeek-R1
        where the folder has that, else with one of bytes: the last tenth below the first by a fiftieth

All parts, or those named. A part that needs more time than is left is not begun, or is cut short, and is named
at the end. Exit status: 0; 1: something is wrong; 3: nothing is, but time ran out.
"""
import array
import gzip
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import trainer_lib as t
import trainer_models


class OutOfTime(Exception):
    pass


option = {"limit": "530", "steps": "200", "compared": "10", "device": "cuda", "config": ""}


def left():
    """Seconds; the option's are counted from the start of this program."""
    seconds = float(option["limit"]) - time.monotonic() + began
    if seconds < 1:
        raise OutOfTime()
    return seconds


def ended(what, one):
    """Waits for a run that must end well."""
    seconds = left()
    try:
        code = one.process.wait(seconds)
    except subprocess.TimeoutExpired:
        one.process.kill()
        one.process.wait()
        raise OutOfTime() from None
    t.check(what, code == 0, "exit status %d\n%s" % (code, one.text()[-3000:]))
    return one


def run(out, device, steps, world=1, **more):
    one = t.launch(out, world, **{**dict(model_name_or_path=model, accumulation=2 // world, steps=steps,
                                         device=device, train_on_prompt=True, save_strategy="no"), **more})
    ended(out, one)
    lines = [e for e in t.log_lines(out) if "loss" in e]
    t.same(out + ": steps", len(lines), steps)
    return [(e["loss"], e["grad_norm"]) for e in lines]


def compare(what, bounds, **more):
    steps = int(option["compared"])
    cpu, gpu = run(what + "-cpu", "cpu", steps, **more), run(what + "-gpu", option["device"], steps, **more)
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


def forward(device, adapter, ids, *more, of=None):
    for name in ("ids", "labels"):
        with open(name + ".json", "w") as f:
            json.dump(ids, f)
    subprocess.run([t.flowtrain, "forward", "--model_name_or_path", of or model, "--adapter_name_or_path", adapter,
                    "--input_ids", "ids.json", "--labels", "labels.json", "--grads", "--device", device,
                    "--output", device + ".safetensors", *more], check=True, timeout=left())
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
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).to(device)
    adapted = peft.PeftModel.from_pretrained(base, adapter, is_trainable=True).eval()
    batch = torch.tensor(ids, device=device)
    out = adapted(input_ids=batch, labels=batch)
    out.loss.backward()
    found = {"logits": out.logits, "loss": out.loss}
    found.update(("grad." + n.replace(".default", ""), p.grad)
                 for n, p in adapted.named_parameters() if p.requires_grad)
    return {n: array.array("f", x.detach().float().cpu().flatten().tolist()) for n, x in found.items()}


def apart(got, want):
    """name -> |got - want| / |want|."""
    far = {}
    for name in want:
        square = math.fsum(x * x for x in want[name])
        between = math.fsum((a - b) ** 2 for a, b in zip(got[name], want[name]))
        far[name] = math.sqrt(between / square) if square > 0 and len(got[name]) == len(want[name]) else 9
    return far


def near(what, got, want, bound):
    worst, where = max((far, name) for name, far in apart(got, want).items())
    print("%s: %d tensors within %.2g (%s)" % (what, len(want), worst, where), flush=True)
    t.check(what, len(want) > 2 and worst <= bound, "%s is %g away" % (where, worst))


def f32():
    compare("f32", (1e-3, 1e-2))


def bf16():
    compare("bf16", (2.0 ** -5,), bf16=True)


def init(config, out, tokenizer):
    subprocess.run([t.flowtrain, "init", "--config", config, "--output", out, "--tokenizer", tokenizer],
                   check=True, stdout=subprocess.DEVNULL, timeout=left())


def alone():
    """One rank's f32 run, which f32() may have made."""
    if not os.path.exists("f32-gpu"):
        run("f32-gpu", option["device"], int(option["compared"]))


def batch_ids():
    draw = random.Random(1)
    return [[draw.randrange(512) for _ in range(48)] for _ in range(4)]


def batch():
    alone()
    adapter, ids = "f32-gpu", batch_ids()
    gpu, cpu, other = forward(option["device"], adapter, ids), forward("cpu", adapter, ids), reference(adapter, ids)
    near("one batch against the CPU backend", gpu, cpu, 1e-4)
    if other is not None:
        near("one batch against transformers and PEFT", gpu, other, 1e-4)
    rounded("one batch in bf16", adapter, ids, cpu)


def rounded(what, adapter, ids, exact, of=None):
    far = [max(apart(forward(device, adapter, ids, "--bf16", of=of), exact).values())
           for device in (option["device"], "cpu")]
    print("%s: %.2g from f32, the CPU backend's %.2g" % (what, *far), flush=True)
    t.check(what, far[0] <= 2 * far[1], far)


def models():
    for name in trainer_models.MODELS:
        left()
        trainer_models.make(name)
        trainer_models.train(name, option["device"], 4, transport="host", env=first_alone())
        trainer_models.answers(name, option["device"], name + "-one")


def fp8():
    alone()
    subprocess.run([t.flowtrain, "convert", "--model_name_or_path", model, "--to", "fp8", "--output", "in-fp8"],
                   check=True, stdout=subprocess.DEVNULL, timeout=left())
    adapter, ids = "f32-gpu", batch_ids()
    cpu = forward("cpu", adapter, ids, of="in-fp8")
    near("one batch of FP8 weights against the CPU backend", forward(option["device"], adapter, ids, of="in-fp8"), cpu,
         1e-4)
    rounded("one batch of FP8 weights in bf16", adapter, ids, cpu, of="in-fp8")
    trainer_models.answers("in-fp8", option["device"], adapter)


def lower(what, losses, share):
    part = max(1, len(losses) // 10)
    first, last = sum(losses[:part]) / part, sum(losses[-part:]) / part
    print("%s, %d steps: loss %.3f to %.3f (to fall by %.3g %%)" % (what, len(losses), first, last, 100 * share),
          flush=True)
    t.check(what + ": the loss falls", last < (1 - share) * first, "%g to %g" % (first, last))


def falls():
    losses = run("long", option["device"], int(option["steps"]), accumulation=8, bf16=True, learning_rate="5e-3")
    lower("the example's data", [x[0] for x in losses], 0.25)


def unpacked(name, to):
    """A file that pack.sh packed; False where it did not."""
    path = os.path.join(folder, name + ".gz")
    if os.path.exists(path):
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with gzip.open(path, "rb") as f, open(to, "wb") as out:
            shutil.copyfileobj(f, out)
    return os.path.exists(path)


def gsm8k():
    if not unpacked("gsm8k.jsonl", "gsm8k/train.jsonl"):
        print("GSM8K: skipped: no GSM8K in the folder", flush=True)
        return
    with open("gsm8k/dataset_info.json", "w") as f:
        json.dump({"gsm8k": {"file_name": "train.jsonl", "columns": {"prompt": "question", "response": "answer"}}}, f)
    real = all([unpacked(name, "tokenizer/" + name) for name in ("tokenizer.json", "tokenizer_config.json")])
    with open(os.path.join(model, "config.json")) as f:
        config = json.load(f)
    config.update(vocab_size=129280 if real else config["vocab_size"], initializer_range=0.08)
    with open("config.json", "w") as f:
        json.dump(config, f)
    init("config.json", "small", "tokenizer" if real else "ex/model")
    losses = run("gsm8k-run", option["device"], int(option["steps"]), model_name_or_path="small", dataset="gsm8k",
                 dataset_dir="gsm8k", template="deepseek3" if real else "default", tokenized_path="gsm8k-tokens",
                 cutoff_len=256, accumulation=4, lora_rank=8, lora_alpha=16, bf16=True, learning_rate="5e-3")
    lower("GSM8K, tokens of " + ("DeepSeek-R1" if real else "bytes"), [x[0] for x in losses], 0.02)


def first_alone():
    """Ranks that share a device: where there are more, they see the first alone."""
    return {"CUDA_VISIBLE_DEVICES": (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]}


def shares():
    alone()
    device = option["device"]
    steps = int(option["compared"])
    one, two = run("again", device, steps), run("two", device, steps, world=2, transport="host",
                                                env=first_alone())
    worst = max(abs(a[0] / b[0] - 1) for a, b in zip(two, one))
    print("two ranks on one GPU: losses within %.2g" % worst, flush=True)
    t.check("two ranks on one GPU: losses", worst <= 1e-5, worst)
    t.same("the same run twice", t.losses("again"), t.losses("f32-gpu"))
    run("host", device, steps, deepspeed=json.dumps({
        "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto",
        "activation_checkpointing": {"cpu_checkpointing": True},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": True}}}))
    t.same("weights and inputs on the host", t.losses("host"), t.losses("f32-gpu"))


def resumes():
    kept = dict(save_strategy="steps", save_steps=3, bf16=True)
    run("whole", option["device"], 6, **kept)
    before = t.losses("whole"), t.file_bytes("whole/adapter_model.safetensors")
    one = ended("resumed", t.launch("whole", 1, model_name_or_path=model, accumulation=2, steps=6,
                                    device=option["device"], train_on_prompt=True, resume_from_checkpoint="3",
                                    overwrite_output_dir=True, **kept))
    t.has("resumed", one.text(), "Continuing training from global step 3")
    t.same("resumed: losses", t.losses("whole"), before[0])
    t.check("resumed: the adapter", t.file_bytes("whole/adapter_model.safetensors") == before[1])


PARTS = [f32, batch, shares, bf16, models, fp8, resumes, falls, gsm8k]


def main():
    named = []
    for word in sys.argv[2:]:
        name, equals, value = word.partition("=")
        if equals:
            option[name] = value
        else:
            named.append(name)
    late = []
    config = os.path.abspath(option["config"]) if option["config"] else None
    # our programs' alone: this Python's own libraries are not to be hidden from it
    if os.environ.get("OUR_LIBRARIES"):
        os.environ["LD_LIBRARY_PATH"] = os.environ["OUR_LIBRARIES"]
    t.begin()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves no rank on the GPU
    if config:
        global model
        model = "model"
        init(config, model, "ex/model")
    for part in PARTS:
        if named and part.__name__ not in named:
            continue
        try:
            left()
            part()
        except (OutOfTime, subprocess.TimeoutExpired):
            late.append(part.__name__)
    if late:
        print("out of time, not done: parity: " + " ".join(late), flush=True)
    try:
        t.finish()
    except SystemExit as e:
        sys.exit(3 if late and not t.counts["failed"] else e.code)


began = time.monotonic()
model = "ex/model"  # of all trainings but GSM8K's
folder = os.path.abspath(sys.argv[1])
main()
