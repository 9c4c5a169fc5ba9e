#!/usr/bin/env python3
"""Types, flags and layouts that the help promises, each through `flowtrain train` and `flowtrain forward`
on a model with experts. What the help names and this script does not run fails it.

usage: trainer_types.py BUILD flags|layouts
"""
import json
import math
import os
import re
import subprocess
import sys

import trainer_lib as t

BASE = dict(accumulation=1, deepspeed=None, max_samples=40, lora_dropout=0, save_strategy="no")
FFN = ["gate_proj", "up_proj", "down_proj"]


FLAGS = {
    # flag: its value in a run, and what must be seen; a list: each value in a run of its own
    "stage": "sft", "finetuning_type": "lora", "do_train": True,
    "adapter_name_or_path": "attention",
    "lora_target": "kv_b_proj", "lora_rank": 3, "lora_alpha": 5, "lora_dropout": 0.2, "use_rslora": True, "loraplus_lr_ratio": 4,
    "default_system": "be brief", "enable_thinking": False, "preserve_thinking": True, "tokenized_path": "elsewhere", "cutoff_len": 9, "max_samples": 5,
    "interleave_probs": "0.5,0.5", "mix_strategy": ["concat", "interleave_under", "interleave_over", "interleave_once"], "tool_format": ["default", "qwen", "llama3", "gemma4"], "split_special_tokens": True, "packing": True, "neat_packing": True, "preprocessing_batch_size": 5, "mask_history": True, "train_on_prompt": True, "overwrite_cache": True, "disable_shuffling": True,
    "dataloader_drop_last": True, "streaming": True, "buffer_size": 4, "preprocessing_num_workers": 2, 
    "per_device_train_batch_size": 3, "gradient_accumulation_steps": 3, "max_steps": 3, "num_train_epochs": 0.1,
    "learning_rate": "2e-3", "adam_beta1": 0.8, "adam_beta2": 0.99, "adam_epsilon": "1e-6", "weight_decay": 0.1,
    "max_grad_norm": 0.01, "lr_scheduler_kwargs": '{"min_lr": 1e-4}', "warmup_steps": 1, "warmup_ratio": 0.5,
    "bf16": True, "fp16": True, "use_cpu": True, "no_cuda": True, "device": ["auto", "cpu"], "recompute": ["auto", "all", "none"], "deepspeed": t.ZERO3, "seed": 5, "data_seed": 6,
    "logging_dir": "boards",
    "resume_from_checkpoint": "last", "resume_run": "a", "overwrite_output_dir": True, "save_only_model": True,
    "logging_first_step": True, "no_resume_state": True, "disable_tqdm": True,
    "save_strategy": ["no", "steps", "epoch"],
    "logging_strategy": ["no", "steps", "epoch"], "save_steps": 1, "logging_steps": 1, "save_total_limit": 1,
    "report_to": ["none", "tensorboard", "all"], "ddp_timeout": 60, "allow_slow_links": True,
    "transport": ["auto", "host"], "trace": "trace.json", "trace_steps": 1,
}

EVALUATION = {"do_eval", "eval_dataset", "val_size", "eval_on_each_dataset", "eval_strategy", "eval_steps", "eval_delay",
              "eval_on_start", "per_device_eval_batch_size", "compute_accuracy", "load_best_model_at_end",
              "metric_for_best_model", "greater_is_better", "early_stopping_steps", "plot_loss"}  # trainer_eval.py
CODED = {"optim", "use_muon"}  # trainer_coded.py, trainer_muon.py
COPIES = {"resume_copies"}  # trainer_full_resume.py
FREEZE = {"freeze_trainable_layers", "freeze_trainable_modules", "freeze_extra_modules"}  # trainer_full.py
ADDITIONAL = {"additional_target", "resize_vocab"}  # trainer_additional.py
SAVED = {"save_dtype", "max_shard_size"}  # trainer_full_saved.py
ELSEWHERE = {"model_name_or_path", "dataset", "dataset_dir", "template", "output_dir"}  # every run has them


def forward(what, adapter, model="ex/model", *words):
    """The tensors of a forward with the adapter: finite, every gradient of A and B not zero."""
    with open("ids.json", "w") as f:
        json.dump([list(range(5, 25)), list(range(30, 41))], f)
    run = t.Run(["forward", "--model_name_or_path", model, "--adapter_name_or_path", adapter, "--input_ids",
                 "ids.json", "--labels", "ids.json", "--grads", "--output", "f.safetensors"] + list(words))
    if not t.check(what + ": forward", run.wait() == 0, run.text()[-2000:]):
        return {}
    found = t.tensors("f.safetensors", also=("I32",))
    t.check(what + ": all is finite", all(math.isfinite(x) for v in found.values() for x in v))
    t.check(what + ": gradients", all(any(v) for k, v in found.items() if k.startswith("grad.")) and
            any(k.startswith("grad.") for k in found))
    return found


def several(runs, most=3):
    """Runs of (what, out, flags), a few at a time."""
    live = []
    for what, out, flags in runs + [(None, None, None)] * most:
        if len(live) == most:
            one, run = live.pop(0)
            if run is not None:
                t.check(one, run.wait() == 0, run.text()[-2000:])
        live.append((what, t.Run(t.train_args(out, **{**BASE, "steps": 2, **flags})) if what else None))


def names(help_of):
    text = subprocess.run([t.flowtrain, help_of, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {m.group(1): m.group(2) for m in re.finditer(r"^  --(\w+) +(.*)$", text, re.M)}


def flags():
    """Each flag by itself."""
    promised = {name for name, text in names("train").items() if not text.startswith(("no effect: ", "not done: "))}
    t.same("flags of the help", sorted(promised), sorted(set(FLAGS) | EVALUATION | FREEZE | ADDITIONAL | SAVED | CODED | COPIES | ELSEWHERE | {"lr_scheduler_type"}))
    kinds = re.search(r": (.*) \[linear\]", names("train")["lr_scheduler_type"]).group(1).split(", ")
    runs = []
    for name, values in list(FLAGS.items()) + [("lr_scheduler_type", kinds)]:
        for value in values if isinstance(values, list) else [values]:
            more = {name: value}
            if name == "num_train_epochs" or "epoch" in str(value):
                more.update(steps=None, num_train_epochs=value if name == "num_train_epochs" else 1, max_samples=2)
            if name == "max_steps":
                more = {"steps": value}
            if name == "gradient_accumulation_steps":
                more = {"accumulation": value}
            if value == "cosine_with_min_lr" or name == "lr_scheduler_kwargs":
                more.update(lr_scheduler_type="cosine_with_min_lr", lr_scheduler_kwargs='{"min_lr": 1e-4}')
            if name == "interleave_probs":
                more.update(mix_strategy="interleave_over", dataset="arithmetic,arithmetic")
            if name in ("streaming", "buffer_size"):
                more.update(streaming=True, max_samples=None)
            if name == "trace_steps":
                more["trace"] = "one.json"
            what = "--%s %s" % (name, "" if value is True else str(value)[:40])
            runs.append((what, "flag-%d" % len(runs), more))
    several(runs)
    done = [os.path.exists("flag-%d/adapter_model.safetensors" % k) for k in range(len(runs))]
    t.check("every run leaves an adapter", all(done), [runs[k][0] for k in range(len(runs)) if not done[k]])
    t.check("--tokenized_path", os.path.isdir("elsewhere/cache"))
    t.check("--trace", os.path.exists("trace.json") and os.path.exists("one.json"))
    print("%d flags in %d runs" % (len(promised), len(runs)))


def types():
    """f32, bf16 and f16, on one rank and on two, and what each trained goes through forward."""
    runs = [("%s, %s" % (kind or "f32", place), "type-%s-%s" % (kind, place),
             dict(more, **({kind: True} if kind else {}), deepspeed=json.dumps(
                 {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": dict(zero)})))
            for kind in (None, "bf16", "fp16")
            for place, zero, more in (("plain", {"stage": 0}, {}), ("stage 1", {"stage": 1}, {}),
                                      ("stage 2", {"stage": 2}, {}), ("stage 3", {"stage": 3}, {}),
                                      ("offload", {"stage": 3, "offload_param": {"device": "cpu"}}, {}))]
    for what, out, more in runs:
        t.train(what, out, 2, **{**BASE, "steps": 2, **more})
    for kind in (None, "bf16", "fp16"):
        want = t.losses("type-%s-plain" % kind)
        for place in ("stage 1", "stage 2", "stage 3", "offload"):
            t.same("%s: losses with %s" % (kind, place), t.losses("type-%s-%s" % (kind, place)), want)
        forward("type " + str(kind), "type-%s-plain" % kind, "ex/model", *(["--" + kind] if kind else []))


def layouts():
    """Shapes of the architecture and of the checkpoint."""
    with open("ex/model/config.json") as f:
        base = json.load(f)
    base["num_hidden_layers"] = 2
    rows = [("f16 weights", dict(torch_dtype="float16")), ("f32 weights", dict(torch_dtype="float32")),
            ("one q_proj", dict(q_lora_rank=None)), ("one group", dict(n_group=1, topk_group=1)),
            ("no shared experts", dict(n_shared_experts=0)), ("two shared experts", dict(n_shared_experts=2)),
            ("all dense", dict(first_k_dense_replace=2)), ("all experts", dict(first_k_dense_replace=0)),
            ("biases", dict(attention_bias=True)), ("tied", dict(tie_word_embeddings=True)),
            ("plain rotation", dict(rope_scaling=None)), ("halves", dict(rope_interleave=False)),
            ("weights not normalised", dict(norm_topk_prob=False)), ("shards", {})]
    for what, change in rows:
        name = what.replace(" ", "-")
        with open("config.json", "w") as f:
            json.dump(dict(base, **change), f)
        one = t.Run(["init", "--config", "config.json", "--output", name, "--tokenizer", "ex/model"] +
                    (["--shard_bytes", "100KiB"] if what == "shards" else []))
        t.check(what + ": init", one.wait() == 0, one.text())
    t.check("shards: several files", sum(n.endswith(".safetensors") for n in os.listdir("shards")) > 3)
    several([(what, what.replace(" ", "-") + "-out", dict(model_name_or_path=what.replace(" ", "-"), lora_target=None,
                                                          learning_rate="1e-2")) for what, _ in rows])
    for what, _ in rows:
        name = what.replace(" ", "-")
        forward(what, name + "-out", name)
    experts = {k: v for k, v in forward("routing", "shards-out", "shards").items() if k.startswith("experts.")}
    with open("routing.json", "w") as f:
        json.dump([experts["experts.%d" % i] for i in range(len(experts))], f)
    again = forward("routing", "shards-out", "shards", "--routing", "routing.json")
    t.same("--routing: the same experts", {k: v for k, v in again.items() if k.startswith("experts.")}, experts)




def targets():
    """The default adapts what PEFT's all-linear does on transformers 5. Adapters that a stack would not load
    are named, those of routed experts refused."""
    run = t.train("all", "all", 1, **dict(BASE, lora_target=None, steps=2, learning_rate="1e-2"))
    t.has("all: the stacks", run.text(), "adapters are on FFNs (model.layers.0.mlp.gate_proj …): PEFT up to 0.18")
    with open("ex/model/config.json") as f:
        layers = json.load(f)["num_hidden_layers"]
    want = {"model.layers.%d.%s" % (layer, name) for layer in range(layers) for name in
            ["self_attn." + p for p in t.TARGETS.split(",")] +
            [("mlp.shared_experts." if layer > 0 else "mlp.") + p for p in FFN]}
    got = t.tensors("all/adapter_model.safetensors")
    t.same("all: tensors", sorted(got), sorted("base_model.model.%s.lora_%s.weight" % (m, x) for m in want for x in "AB"))
    t.check("all: every B has learnt", all(any(v) for k, v in got.items() if "lora_B" in k))
    with open("all/adapter_config.json") as f:
        t.same("all: written as names that mean the same on every stack", sorted(json.load(f)["target_modules"]),
               sorted(t.TARGETS.split(",") + ["mlp." + p for p in FFN] + ["shared_experts." + p for p in FFN]))
    forward("all", "all")

    run = t.train("attention", "attention", 1, **dict(BASE, steps=1))
    t.check("attention alone: no word of the stacks", "PEFT" not in run.text(), run.text())
    run = t.launch("routed", 1, **dict(BASE, steps=1, lora_target="q_a_proj,up_proj"))
    t.same("routed experts: refused", run.wait(), 2)
    for part in ("routed experts (model.layers.1.mlp.experts.0.up_proj …)", "parameters, held by every rank",
                 "shared_experts.gate_proj"):
        t.has("routed experts: named", run.text(), part)
    t.check("routed experts: nothing is written", not os.path.exists("routed/adapter_config.json"))


def forward_flags():
    t.train("attention", "attention", 1, **dict(BASE, steps=1))
    t.same("flags of forward", sorted(names("forward")), ["adapter_name_or_path", "bf16", "device", "fp16", "grads",
                                                          "help", "input_ids", "labels", "model_name_or_path",
                                                          "output", "routing"])
    forward("--device cpu", "attention", "ex/model", "--device", "cpu")


def main():
    t.begin()
    if sys.argv[2] == "flags":
        targets()
        flags()
    else:
        types()
        layouts()
        forward_flags()
    t.finish()


main()
