#!/usr/bin/env python3
"""Gradients of weights between ranks: of 16 bits where the DeepSpeed file says so (communication_data_type): the same bits for
every number of ranks above one, stage and place of the optimizer; one rank does not round; bytes as planned; what is refused.

overlap_comm: the same bits when they are summed beside the backward.

usage: trainer_wire.py BUILD [cuda | beside]     (cuda, beside: on the simulated GPU; all work of its rank 1 runs as late as it can, or gradients
travel as early)
"""
import json
import os
import re
import signal
import sys

import trainer_full as full
import trainer_lib as t

FLAGS = dict(dataset="arithmetic", stage="sft", template="default", packing=None, overwrite_output_dir=True, steps=2)


def zero(stage, wire=None, host=False, zero=None, **more):
    place = {"offload_optimizer": {"device": "cpu", "pin_memory": True}, "sub_group_size": 1000} if host else {}
    types = {"communication_data_type": wire} if wire else {}
    return json.dumps(dict(full.STAGE, bf16={"enabled": "auto"}, fp16={"enabled": "auto"}, zero_optimization=dict({"stage": stage}, **dict(place, **(zero or {}))),
                           **dict(types, **more)))


def near(what, out, ref, least, most):
    """Losses of out differ from those of ref, by a share of `least` to `most` of theirs."""
    a, b = ([float.fromhex(loss) for loss, _ in t.losses(o).values()] for o in (out, ref))
    off = full.far(a, b)
    t.check(what, len(a) == len(b) == FLAGS["steps"] and least < off < most, off)


def same(what, out, ref):
    """Of losses, which are sums of each rank's, the last bits may differ."""
    t.same(what + ": norms", *[[norm for _, norm in t.losses(o).values()] for o in (out, ref)])
    t.check(what + ": the model", t.file_bytes(out + "/model.safetensors") == t.file_bytes(ref + "/model.safetensors"))
    near(what + ": losses", out, ref, -1, 1e-12)


def same_bits(device=None):
    """One step has 12 micro-batches."""
    norms = {}
    where = dict(FLAGS, **({"device": device} if device else {}))
    for name, model, wire, more in (("bf16", "llama", "bf16", {}), ("fp16", "llama", "fp16", {}), ("a tied head", "qwen2-tied", "bf16", {}),
                                    ("experts", "deepseek_v3", "bf16", {}), ("bf16 in bf16", "llama", "bf16", dict(bf16=True)))[:1 if device else None]:
        more = dict(where, **more)
        full.train("f32", model, world=2, accumulation=6, deepspeed=zero(2), **more)
        full.train("ref", model, world=2, accumulation=6, deepspeed=zero(2, wire), **more)
        near(name + ": near f32", "ref", "f32", 1e-9, 2e-3)
        norms[name] = [norm for _, norm in t.losses("ref").values()]
        t.check(name + ": is not bf16", name == "bf16" or norms[name] != norms["bf16"], norms)
        for world, stage, host in ((3, 3, True),) if name != "bf16" else ((2, 3, False), (3, 3, False), (2, 1, True), (4, 2, False))[:3 if device else None]:
            full.train("out", model, world=world, accumulation=12 // world, deepspeed=zero(stage, wire, host), **more)
            what = "%s: %d ranks, stage %d%s" % (name, world, stage, ", optimizer on the host" if host else "")
            if model == "qwen2-tied":  # parts of the head are added before those of the embedding
                near(what, "out", "ref", -1, 1e-5)
            else:
                same(what, "out", "ref")
    full.train("one", "llama", accumulation=12, deepspeed=zero(2), **where)
    full.train("out", "llama", accumulation=12, deepspeed=zero(2, "bf16"), **where)
    same("one rank does not round", "out", "one")


def overlap(on):
    return {"overlap_comm": on}


def beside():
    """Gradients are summed on a queue of their own, in the order of events alone."""
    flags = dict(FLAGS, device="cuda", world=2, accumulation=2)
    windows = {}
    for name, model, wire, host, stage in (("f32", "llama", None, False, 2), ("bf16", "llama", "bf16", False, 2), ("on the host", "llama", None, True, 2),
                                           ("a tied head, stage 3", "qwen2-tied", None, False, 3), ("experts, stage 3", "deepseek_v3", None, False, 3)):
        for out, on in (("ref", False), ("out", True)):
            text = full.train(out, model, deepspeed=zero(stage, wire, host, zero=overlap(on)), **flags)
            windows[name, on] = re.search(r"  gradient windows +(.*)", text).group(1)
        full.same_run("beside, " + name, "out", "ref")
        if stage == 2:
            full.train("out", model, deepspeed=zero(stage, wire, host, zero=overlap(True)), env={"CUDASIM_EARLY": "all"}, **flags)
            full.same_run("beside, as early as they can, " + name, "out", "ref")
        t.check("beside, %s: another window" % name, (windows[name, True] == windows[name, False]) == (wire is not None), windows)
        t.check("beside, %s: nothing is without effect" % name, "overlap_comm" not in text, text)
    full.train("out", "llama", deepspeed=zero(3), trace="trace.json", **dict(flags, steps=1))
    with open("trace.json", encoding="utf-8") as f:
        t.check("stage 3: beside without a word", '"reduce"' in f.read())
    run = t.launch("gone", 2, device="cuda", finetuning_type="full", model_name_or_path="llama", lora_rank=None, lora_alpha=None, lora_dropout=None,
                   lora_target=None, deepspeed=zero(3), steps=10**7, save_strategy="no")
    t.until("it is under way", lambda: t.steps_done("gone") >= 2 or run.ended())
    os.kill(t.until("its pid", lambda: run.ranks().get(1)), signal.SIGKILL)
    t.same("a rank killed: exit status", run.wait(), 4)
    t.has("a rank killed: named", run.text(), "rank 1 (local rank 1 on")
    t.has("a rank killed: how", run.text(), "was killed by signal 9")


def planned():
    elements = {}
    for wire, size in ((None, 4), ("bf16", 2), ("fp16", 2)):
        for world, stage in ((2, 2), (3, 3)):
            rows = t.compared(full.train("out", "llama", world=world, deepspeed=zero(stage, wire), **dict(FLAGS, steps=4)))
            what = "planned, %s, %d ranks, stage %d" % (wire, world, stage)
            for link in ("on the same rank", "inside nodes"):
                plan, got = rows.get("gradients, bytes " + link, (0, -1))
                t.check("%s: gradients %s" % (what, link), 0 < plan == got, rows)
            plan, got = rows.get("embedding, bytes inside nodes", (0, -1))
            t.check(what + ": embedding", 0 < got <= plan, rows)
            each = rows["gradients, bytes inside nodes"][1] // size
            t.same(what + ": elements", each, elements.setdefault(world, each))


def refused():
    for what, more, said in (("sums of 16 bits", dict(data_types={"grad_accum_dtype": "bf16"}), "gradients of weights are summed in f32: say fp32"),
                             ("sums of another type", dict(data_types={"grad_accum_dtype": "int8"}), "fp32, bf16 or fp16"),
                             ("a wire of another type", dict(communication_data_type="int8"), "fp32, bf16 or fp16")):
        run = t.launch("refused", 1, finetuning_type="full", model_name_or_path="llama", steps=1, lora_rank=None, lora_alpha=None, lora_dropout=None,
                       lora_target=None, deepspeed=zero(2, **more))
        t.same(what + ": exit status", run.wait(), 2)
        t.has(what, run.text(), said)
    text = full.train("out", "llama", world=2, deepspeed=zero(2, "bf16", data_types={"grad_accum_dtype": "fp32"}), **FLAGS)
    t.check("nothing is said where weights train", "communication_data_type" not in text and "grad_accum" not in text, text)
    more = dict(dataset="arithmetic", stage="sft", template="default", steps=2, overwrite_output_dir=True, world=2)
    text = t.train("lora", "lora", **dict(more, deepspeed=zero(2, "bf16"))).text()
    t.has("adapters", text, "communication_data_type bf16: gradients of adapters travel as fp32")
    t.train("lora-ref", "lora-ref", **dict(more, deepspeed=zero(2)))
    t.same("adapters: the same bits", *[t.file_bytes(o + "/adapter_model.safetensors") for o in ("lora", "lora-ref")])
    # A run goes on with the type that it began with.
    full.train("going", "llama", world=2, deepspeed=zero(2, "bf16"), **dict(FLAGS, save_steps=2))
    run = t.launch("going", 2, finetuning_type="full", model_name_or_path="llama", lora_rank=None, lora_alpha=None, lora_dropout=None, lora_target=None,
                   deepspeed=zero(2), resume_from_checkpoint="going/checkpoint-2", per_device_train_batch_size=1, accumulation=2, cutoff_len=64, weight_decay=0.1,
                   max_grad_norm=1.0, lr_scheduler_type="constant", **dict(FLAGS, overwrite_output_dir=None, packing="false"))
    t.check("another type goes not on", run.wait() != 0)
    t.has("another type", run.text(), "wire of gradients")


def main():
    t.begin()
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    if part:
        t.simulate()
    full.make_inputs()
    if part == "beside":
        beside()
    else:
        same_bits(part)
    if not part:
        planned()
        refused()
        text = full.train("out", "llama", world=2, deepspeed=zero(2, zero=overlap(True)), **FLAGS)
        t.has("beside, on the CPU", text, "overlap_comm has no effect on backend cpu")
    t.finish()


if __name__ == "__main__":
    main()
