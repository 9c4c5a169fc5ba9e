#!/usr/bin/env python3
"""Muon where weights train, by --use_muon and by DeepSpeed's optimizer block: losses and norms against golden numbers of
LLaMA-Factory and DeepSpeed (tests/golden/muon.py); the same bits, states too, for every number of ranks, stage and place of the
optimizer; which tensors have a momentum alone; a run that was stopped goes on bit for bit; what is refused.

usage: trainer_muon.py BUILD [states | planned | cuda]     (states: runs that go on; planned: what plan says of it; cuda: the numbers alone,
                                                            on the simulated GPU)
"""
import json
import os
import subprocess
import sys

import trainer_full as full
import trainer_lib as t
from trainer_coded import exported, goes_not_on, in_parts, same, states

MUON = dict(overwrite_output_dir=True, steps=3, save_steps=3)
MATRICES = ("_proj.weight", "mlp.gate.weight")
TOLERANCE = 1e-4, 5e-3  # of losses, of norms: see like_the_references


def zero(stage, host=False, muon=None, **more):
    """muon: params of the block; None: no block."""
    place = {"offload_optimizer": {"device": "cpu", "pin_memory": True}, "sub_group_size": 1000} if host else {}
    if muon is not None:
        more["optimizer"] = {"type": "Muon", "params": dict({"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}, **muon)}
    return json.dumps(dict(full.STAGE, bf16={"enabled": "auto"}, zero_optimization=dict({"stage": stage}, **place), **more))


RUNS = (("flag-llama", "llama", dict(use_muon=True)), ("flag-qwen2-tied", "qwen2-tied", dict(use_muon=True)),
        ("flag-eps", "llama", dict(use_muon=True, adam_epsilon=1e-3)),
        ("gram-0", "llama", dict(deepspeed=zero(0, muon={}))), ("gram-1", "llama", dict(deepspeed=zero(1, muon={}))),
        ("gram-3", "llama", dict(deepspeed=zero(3, muon={}))),
        ("standard-2", "llama", dict(deepspeed=zero(2, muon={"ns_method": "standard"}))),
        ("rates-2", "llama", dict(deepspeed=zero(2, muon={"muon_lr": 5e-3, "adam_lr": 2e-4, "momentum": 0.9}))))


def like_the_references(golden, runs=RUNS, steps=10, **more):
    """Iterations in 16 bits round differently: an update in bf16 by torch is itself 7 % apart from that in f64."""
    for run, model, flags in runs:
        full.train(run, model, **dict(MUON, **dict(flags, steps=steps, save_steps=steps, **more)))
        full.follows(run, run, golden[run], *TOLERANCE, steps=steps)


def methods():
    """Both iterations are near each other; stages have the same bits."""
    t.check("ns_method", t.stored("gram-1/model.safetensors") != t.stored("standard-2/model.safetensors"))


def momenta():
    """Which tensors have one state, and how much memory that is."""
    found = states("flag-llama", 10)
    t.same("matrices of Muon", {n for n, s in found.items() if set(s) == {"master", "m"}}, {n for n in found if n.endswith(MATRICES)})
    t.same("the others", {n for n, s in found.items() if set(s) == {"master", "m", "v"}}, {n for n in found if not n.endswith(MATRICES)})
    spared = sum(len(s["m"][1]) for s in found.values() if "v" not in s)
    sizes = sum(os.path.getsize("flag-llama/resume/step-10/" + f) for f in os.listdir("flag-llama/resume/step-10") if f.startswith("part-"))
    weights = sum(len(s["master"][1]) for s in found.values())
    t.check("bytes of the state", 0 <= sizes - (3 * weights - spared) < 16384, (sizes, weights, spared))


def layouts():
    """Shares that no power of two divides, experts, routers; the host's side; both doors."""
    full.make_odd(30, 133)
    for model, door, layouts in (("odd", None, ((1, 2, True), (2, 1, False), (3, 3, True), (3, 2, False))),
                                 ("deepseek_v3", None, ((2, 3, True), (3, 3, False))),
                                 ("odd", {}, ((1, 1, True), (2, 2, True), (3, 3, False)))):
        more = dict(MUON, dataset="arithmetic", max_samples=36, stage="sft", template="default", bf16=model != "odd",
                    **({"use_muon": True} if door is None else {}))
        full.train("ref", model, accumulation=6, deepspeed=zero(3, muon=door), **more)
        t.check(model + ": some have a momentum alone", any("v" not in s for s in states("ref").values()))
        for world, stage, host in layouts:
            full.train("out", model, world=world, accumulation=6 // world, deepspeed=zero(stage, host, muon=door), **more)
            same("%s, %s, %d ranks, stage %d%s" % (model, "flag" if door is None else "block", world, stage, ", on the host" * host),
                 "out", "ref")


def parts():
    """freeze trains some matrices, or none; fp16 has its scaler."""
    more = dict(MUON, use_muon=True, finetuning_type="freeze", deepspeed=zero(2))
    full.train("freeze", "llama", freeze_trainable_layers=1, freeze_trainable_modules="mlp", **more)
    t.same("freeze: matrices of the last layer's mlp", sorted({n.split(".")[4] for n in states("freeze")}), ["down_proj", "gate_proj", "up_proj"])
    text = full.train("norms", "llama", freeze_trainable_layers=0, freeze_extra_modules="norm", **more)
    t.check("freeze without matrices", "Training completed" in text and all("v" in s for s in states("norms").values()))
    for door in (None, {}):
        full.train("fp16", "llama", fp16=True, deepspeed=zero(2, muon=door, fp16={"enabled": "auto"}), **dict(MUON, use_muon=door is None, steps=4))
        full.train("f32", "llama", deepspeed=zero(2, muon=door), **dict(MUON, use_muon=door is None, steps=4))
        norms = [[e["grad_norm"] for e in t.log_lines(out) if "loss" in e] for out in ("fp16", "f32")]
        t.check("fp16: norms without the scale", full.far(*norms) < 0.05, norms)


def refused():
    block = dict(deepspeed=zero(2, muon={}))
    lora = dict(finetuning_type="lora", lora_rank=8, lora_target="q_proj")
    for what, flags, want in (
            ("adapters", dict(use_muon=True, **lora), "--use_muon trains weights: --finetuning_type full or freeze"),
            ("adapters, the block", dict(block, **lora), "Muon of the optimizer block trains weights"),
            ("8-bit moments", dict(use_muon=True, optim="adamw_8bit"), "--use_muon has f32 states, --optim asks for 8-bit ones"),
            ("both doors", dict(block, use_muon=True), "the optimizer block and --use_muon both name the optimizer"),
            ("heads", dict(deepspeed=zero(2, muon={"per_head_muon": True})), "per_head_muon is not done"),
            ("steps", dict(deepspeed=zero(2, muon={"ns_steps": 6})), "ns_steps: Muon makes 5 steps"),
            ("no Nesterov", dict(deepspeed=zero(2, muon={"nesterov": False})), "nesterov: Muon makes 5 steps"),
            ("another method", dict(deepspeed=zero(2, muon={"ns_method": "newton"})), "gram or standard"),
            ("a momentum of 1", dict(deepspeed=zero(2, muon={"momentum": 1})), "a number below 1"),
            ("two rates of one schedule", dict(deepspeed=zero(2, muon={"muon_lr": 1e-2}, scheduler={"type": "WarmupLR", "params": {
                "warmup_min_lr": 0, "warmup_max_lr": "auto", "warmup_num_steps": "auto"}})), "scheduler gives all weights one rate")):
        run = t.launch("refused", 1, **dict(dict(MUON, finetuning_type="full", model_name_or_path="llama", lora_rank=None, lora_alpha=None,
                                                 lora_dropout=None, lora_target=None), **flags))
        t.same(what + ": refused", run.wait(), 2)
        t.has(what, run.text(), want)


def planned():
    """plan has no v of matrices, and their way between ranks; a run counts the bytes."""
    said = []
    for words in ([], ["--use_muon", "true"]):
        run = subprocess.run([t.flowtrain, "plan", "--json", "--gpus", "2", "llama", "--finetuning_type", "full", "--cutoff_len", "64"] + words,
                             capture_output=True, text=True)
        t.same("plan %s" % " ".join(words), run.returncode, 0)
        said.append(json.loads(run.stdout))
    elements = sum(len(s["m"][1]) // 4 for s in states("flag-llama", 10).values() if "v" not in s)
    t.same("plan: bytes of a checkpoint", said[0]["checkpoint_bytes"] - said[1]["checkpoint_bytes"], 4 * elements)
    for a, b in zip(said[0]["layouts"], said[1]["layouts"]):
        t.check(a["name"] + ": time of the update", b["update_s"] > a["update_s"])
        bytes_of = [{r["name"]: r["bytes"] for r in x["memory"]} for x in (a, b)]
        t.check(a["name"] + ": rows of memory", "matrices of Muon" in bytes_of[1] and "matrices of Muon" not in bytes_of[0] and
                b["memory_bytes"] == sum(r["bytes"] for r in b["memory"] if not r["host"]), b["memory"])
    near = {stage: l["step_near_bytes"] - m["step_near_bytes"] for stage, m, l in zip((3, 2), said[0]["layouts"], said[1]["layouts"])}
    for model, nodes, world, stage in (("llama", 1, 1, 2), ("llama", 1, 2, 2), ("llama", 1, 2, 3), ("odd", 1, 3, 2), ("odd", 1, 3, 3), ("odd", 2, 2, 2),
                                       ("odd", 2, 2, 3), ("odd", 3, 1, 2), ("deepseek_v3", 2, 2, 3)):
        what = "%s, %d nodes of %d ranks, stage %d" % (model, nodes, world, stage)
        rows = on_nodes(what, nodes, world, model_name_or_path=model, deepspeed=zero(stage))
        got = {link: rows.get("matrices, bytes " + link, (0, 0)) for link in ("on the same rank", "inside nodes", "between nodes")}
        t.check(what + ": bytes of matrices, planned and counted", all(p == n for p, n in got.values()) and sum(p for p, _ in got.values()) > 0
                and (got["inside nodes"][0] > 0) == (world > 1) and (got["between nodes"][0] > 0) == (nodes > 1), got)
        if (model, world) == ("llama", 1):
            t.same(what + ": all elements go and come", got["on the same rank"][1], 3 * 8 * elements)
        if (model, world) == ("llama", 2):  # one gets what the other sends
            t.same(what + ": near bytes of a step", near[stage], got["inside nodes"][1] / 3 / 2)


def on_nodes(what, nodes, world, **more):
    """A run on so many nodes of this machine; what rank 0 compares in the end."""
    port = t.free_port()
    runs = [t.launch("nodes-%d" % k, world, port=port, nodes=nodes, node=k, **dict(dict(
        MUON, use_muon=True, finetuning_type="full", stage="sft", template="default", dataset="arithmetic", accumulation=1, lora_rank=None,
        lora_alpha=None, lora_dropout=None, lora_target=None, tokenized_path=None, no_resume_state=True), **more)) for k in range(nodes)]
    for run in runs:
        if run.wait() != 0:
            t.check(what, False, run.text()[-2000:])
    return t.compared(runs[0].text())


def wide():
    """Memory of a model whose matrices are large beside the rest, as planned: what is worked in counts."""
    os.environ.pop("MALLOC_PERTURB_", None)  # see trainer_full.planned
    config = dict(full.read("llama/config.json"), hidden_size=768, intermediate_size=3072, num_hidden_layers=2, num_attention_heads=6,
                  num_key_value_heads=6, head_dim=128)
    os.mkdir("wide-config")
    with open("wide-config/config.json", "w") as f:
        json.dump(config, f)
    t.same("a wide model is made", t.Run(["init", "--config", "wide-config", "--output", "wide", "--tokenizer", "ex/model"]).wait(), 0)
    for world, stage in ((1, 2), (2, 3)):
        text = full.train("wide-out", "wide", world=world, dataset="arithmetic", stage="sft", template="default", packing=None, use_muon=True,
                          overwrite_output_dir=True, steps=3, no_resume_state=True, save_only_model=None, deepspeed=zero(stage))
        plan, got = t.compared(text).get("memory, bytes of a rank", (0, 0))
        t.check("wide: memory of %d ranks, stage %d" % (world, stage), 0 < plan and abs(got - plan) <= 0.05 * plan + (world - 1) * 2**21, (plan, got))


def go_on():
    """Ranks, stages and places that differ before and after; a rank that does not see the other's part; other optimizers."""
    for n, (door, layouts) in enumerate(((None, ((1, 2, False), (3, 3, True), (2, 2, False))), ({}, ((3, 3, False), (2, 1, True), (1, 2, False))))):
        in_parts("go-%d" % n, layouts, lambda stage, host, door=door: zero(stage, host, muon=door),
                 **(dict(MUON, use_muon=True) if door is None else MUON))
    for what, zeros, why in (("AdamW after Muon", zero(2), "--use_muon=1 is only there"),
                             ("DeepSpeed's Muon after the flag's", zero(2, muon={}), "Muon of the optimizer block=gram is only here")):
        goes_not_on("go-0", what, why, deepspeed=zeros, **MUON)
    exported("go-0")


def on_simulated_gpu(golden):
    like_the_references(golden, [r for r in RUNS if r[0] in ("flag-llama", "gram-3", "standard-2")], device="cuda", steps=3)
    for door, layouts in ((None, ((2, 3, False), (2, 2, True))), ({}, ((2, 2, True),))):
        more = dict(MUON, device="cuda", **({"use_muon": True} if door is None else {}))
        full.train("ref", "llama", accumulation=2, deepspeed=zero(3, muon=door), **more)
        for world, stage, host in layouts:
            full.train("out", "llama", world=world, accumulation=2 // world, deepspeed=zero(stage, host, muon=door), **more)
            same("%d ranks, stage %d%s" % (world, stage, ", on the host" * host), "out", "ref")


def main():
    t.begin()
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    if part == "cuda":
        t.simulate()
    full.make_inputs()
    golden = full.read(os.path.join(full.GOLDEN, "muon.json"))
    if part == "cuda":
        on_simulated_gpu(golden)
    elif part == "states":
        go_on()
    elif part == "planned":
        full.make_odd(30, 133)
        like_the_references(golden, RUNS[:1])
        planned()
        wide()
    else:
        like_the_references(golden)
        methods()
        momenta()
        layouts()
        parts()
        refused()
    t.finish()


main()
