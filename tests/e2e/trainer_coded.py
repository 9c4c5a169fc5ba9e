#!/usr/bin/env python3
"""--optim adamw_bnb_8bit where weights train: losses and norms against golden numbers of bitsandbytes (tests/golden/coded.py);
the same bits, states too, for every number of ranks, stage and place of the optimizer; which tensors have 8-bit moments; a
run that was stopped goes on bit for bit; what is refused.

usage: trainer_coded.py BUILD [states | cuda]     (states: runs that go on; cuda: the numbers alone, on the simulated GPU)
"""
import json
import os
import re
import sys

import trainer_full as full
import trainer_lib as t

CODED = dict(optim="adamw_bnb_8bit", overwrite_output_dir=True, steps=3, save_steps=3)


def zero(stage, host=False, **more):
    place = {"offload_optimizer": {"device": "cpu", "pin_memory": True}, "sub_group_size": 1000} if host else {}
    return json.dumps(dict(full.STAGE, bf16={"enabled": "auto"}, zero_optimization=dict({"stage": stage}, **place), **more))


def states(out, step=3):
    """{tensor: {state: (type, values' bytes)}}, joined over the parts of a resume state."""
    pieces = {}
    folder = "%s/resume/step-%d/" % (out, step)
    for name in os.listdir(folder):
        if name.startswith("part-"):
            for key, (dtype, _, data) in t.stored(folder + name).items():
                state, rest = key.split(":", 1)
                tensor, first = rest.rsplit("@", 1)
                pieces.setdefault((tensor, state, dtype), []).append((int(first), data))
    found = {}
    for (tensor, state, dtype), parts in pieces.items():
        found.setdefault(tensor, {})[state] = (dtype, b"".join(data for _, data in sorted(parts)))
    return found


def same(what, out, ref, step=3):
    t.same(what + ": losses", *[{k: "%.12g" % float.fromhex(loss) for k, (loss, _) in t.losses(o).items()} for o in (out, ref)])
    t.check(what + ": the model", t.file_bytes(out + "/model.safetensors") == t.file_bytes(ref + "/model.safetensors"))
    a, b = states(out, step), states(ref, step)
    t.same(what + ": states that differ", [n for n in b if a.get(n) != b[n]], [])


def like_bitsandbytes(golden):
    """Its sums are of f32, whose roundings part ten steps by some 1e-5; AdamW with f32 moments is away by 1e-4."""
    for model in ("llama", "qwen2-tied"):
        full.train(model + "-out", model, **dict(CODED, steps=10, save_steps=10))
        full.follows(model, model + "-out", golden[model], 5e-6, 2e-5)
        got = {name: "8" if s["m"][0] == "U8" else "32" for name, s in states(model + "-out", 10).items()}
        t.same(model + ": bits of moments", got, golden[model]["bits"])
        for name, s in states(model + "-out", 10).items():
            n = len(s["master"][1]) // 4
            want = {"master": 4 * n, "m": n, "v": n, "m_max": (n + 255) // 256 * 4, "v_max": (n + 255) // 256 * 4}
            want = want if got[name] == "8" else {"master": 4 * n, "m": 4 * n, "v": 4 * n}
            t.same("%s: bytes of states of %s" % (model, name), {k: len(v) for k, (_, v) in s.items()}, want)


def layouts():
    """Shares that no power of two divides, a tied head, experts; masters of bf16 are more than weights."""
    full.make_odd(30, 133)
    for model in ("odd", "qwen2-tied", "deepseek_v3"):
        more = dict(CODED, dataset="arithmetic", max_samples=36, stage="sft", template="default", bf16=model != "odd")
        full.train("ref", model, accumulation=6, **more)
        t.check(model + ": some moments are coded", any(s["m"][0] == "U8" for s in states("ref").values()))
        for world, stage, host in ((1, 2, True), (2, 1, False), (2, 3, True), (3, 2, True), (3, 3, False)):
            if model == "qwen2-tied":  # the head's gradients of all ranks are added first
                full.train("ref", model, world=world, accumulation=6 // world, deepspeed=zero(2), **more)
            full.train("out", model, world=world, accumulation=6 // world, deepspeed=zero(stage, host), **more)
            same("%s, %d ranks, stage %d%s" % (model, world, stage, ", on the host" * host), "out", "ref")


def memory():
    """The table has half of it for what is coded, but for its rounding to a tenth."""
    texts = [full.train("out", "llama", **dict(CODED, optim=optim)) for optim in ("adamw_torch", "paged_adamw_8bit")]
    found = [re.search(r" optimizer +([\d.]+) ([KM])iB", text) for text in texts]
    sizes = [float(m.group(1)) / {"K": 1024, "M": 1}[m.group(2)] for m in found]
    coded = sum(len(s["m"][1]) for s in states("out").values() if s["m"][0] == "U8")
    t.check("memory that is saved", abs(sizes[0] - sizes[1] - coded * (6 - 8 / 256) / 2**20) < 0.11 and coded > 150000, (sizes, coded))


def refused():
    for what, flags, want in (
            ("an optimizer block", dict(deepspeed=zero(2, optimizer={"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                                                                                "weight_decay": "auto"}})),
             "AdamW of the optimizer block has f32 states, --optim asks for 8-bit ones"),
            ("another optimizer", dict(optim="sgd"), "--optim sgd")):
        run = t.launch("refused", 1, **dict(dict(CODED, finetuning_type="full", model_name_or_path="llama", lora_rank=None, lora_alpha=None,
                                                 lora_dropout=None, lora_target=None), **flags))
        t.same(what + " is refused", run.wait(), 2)
        t.has(what, run.text(), want)
    text = t.train("adapters", "adapters", 1, steps=1, optim="adamw_8bit").text()
    t.has("adapters", text, "--optim: states of AdamW are f32 where adapters train")


SFT = dict(stage="sft", dataset="arithmetic", template="default", max_samples=90, bf16=True)


def in_parts(out, layouts, zeros, **more):
    """Three runs of three steps, each with its (ranks, stage, host), end as one of nine with the last; zeros(stage, host): DeepSpeed's file."""
    for k, (world, stage, host) in [(None, layouts[-1])] + list(enumerate(layouts)):
        flags = dict(SFT, world=world, accumulation=6 // world, deepspeed=zeros(stage, host), **more)
        if k is None:
            full.train(out + "-ref", "llama", **dict(flags, steps=9))
            continue
        text = full.train(out, "llama", **dict(flags, steps=3 * k + 3, **({"resume_from_checkpoint": "last"} if k > 0 else {})))
        if k > 0:
            t.has("%s goes on" % out, text, "Continuing training from global step %d" % (3 * k))
    same("%s, in three parts" % out, out, out + "-ref", 9)


def goes_not_on(out, what, want, **more):
    """The states of a run by in_parts are those of another optimizer."""
    flags = dict(SFT, finetuning_type="full", lora_rank=None, lora_alpha=None, lora_dropout=None, lora_target=None, lr_scheduler_type="constant",
                 tokenized_path=None, model_name_or_path="llama", weight_decay=0.1, cutoff_len=64, packing="false", resume_from_checkpoint="last",
                 accumulation=6, logging_steps=1, max_grad_norm=1.0, **dict(more, save_steps=3, steps=12))
    run = t.launch(out, 1, **flags)
    t.same(what + ": refused", run.wait(), 2)
    t.has(what, run.text(), want)


def exported(out):
    run = t.Run(["export", "--from", out + "/resume", "--output", "exported", "--model_name_or_path", "llama"])
    t.same("export of a state", run.wait(), 0)
    t.check("export of a state: the model", t.stored("exported/model.safetensors") == t.stored(out + "/model.safetensors"))


def go_on():
    """Ranks, stages and places that differ before and after; a rank that does not see the other's part; other states."""
    for n, layouts in enumerate((((1, 2, False), (3, 3, True), (2, 2, False)), ((3, 3, False), (2, 1, True), (1, 0, False)),
                                 ((2, 2, True), (2, 2, True), (2, 2, True)))):
        in_parts("go-%d" % n, layouts, zero, **CODED)
    goes_not_on("go-0", "f32 after 8 bits", "bits of moments=8 is only there", deepspeed=zero(2), **dict(CODED, optim="adamw_torch"))
    exported("go-0")


def on_simulated_gpu(golden):
    for model in ("llama", "qwen2-tied"):
        full.train(model + "-out", model, device="cuda", **CODED)
        full.follows(model, model + "-out", golden[model], 5e-6, 2e-5, steps=3)
    for world, stage, host in ((2, 3, False), (2, 2, True), (1, 2, True)):
        full.train("out", "llama", world=world, accumulation=2 // world, deepspeed=zero(stage, host), device="cuda", **CODED)
        same("%d ranks, stage %d%s" % (world, stage, ", on the host" * host), "out", "llama-out")


def main():
    t.begin()
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    if part == "cuda":
        t.simulate()
    full.make_inputs()
    golden = full.read(os.path.join(full.GOLDEN, "coded.json"))
    if part == "cuda":
        on_simulated_gpu(golden)
    elif part == "states":
        go_on()
    else:
        like_bitsandbytes(golden)
        layouts()
        memory()
        refused()
    t.finish()


if __name__ == "__main__":
    main()
