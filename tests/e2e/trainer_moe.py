#!/usr/bin/env python3
"""Mixtral and Qwen3-MoE as a user has them: a YAML file with LLaMA-Factory's keys, one rank and two, experts
that travel and experts that stay, answers, merging.

The losses of two ranks are those of one to 1e-6, gradient norms to 1e-5, as in trainer_experts.py. Models are
f32, so that merged weights are rounded to f32 alone.
"""
import json
import subprocess

import trainer_lib as t

STEPS = 12
SIZES = dict(vocab_size=512, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             head_dim=16, max_position_embeddings=4096, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1,
             torch_dtype="float32", rope_theta=10000.0)
MODELS = {
    "mixtral": dict(model_type="mixtral", architectures=["MixtralForCausalLM"], num_local_experts=8,
                    num_experts_per_tok=2, intermediate_size=48, sliding_window=None, router_aux_loss_coef=0.02),
    "qwen3_moe": dict(model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], num_experts=6,
                      num_experts_per_tok=3, intermediate_size=96, moe_intermediate_size=24, mlp_only_layers=[1],
                      norm_topk_prob=False, decoder_sparse_step=1, tie_word_embeddings=True),
}
STAY = json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3},
                   "moe": {"enabled": True, "expert_group": "world"}})
FILE = """### model
model_name_or_path: %(model)s
trust_remote_code: true

### method
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all

### dataset
dataset: arithmetic
dataset_dir: ex/data
template: default
cutoff_len: 64
max_samples: 1000
overwrite_cache: true
preprocessing_num_workers: 2
dataloader_num_workers: 4

### output
output_dir: %(out)s
logging_steps: 1
save_steps: 500
plot_loss: true
overwrite_output_dir: true
save_only_model: false
report_to: none

### train
per_device_train_batch_size: 1
gradient_accumulation_steps: %(accumulation)d
learning_rate: 1.0e-2
max_steps: %(steps)d
lr_scheduler_type: cosine
warmup_ratio: 0.1
ddp_timeout: 180
resume_from_checkpoint: null
"""


def call(words, code=0):
    done = subprocess.run([t.flowtrain] + words, capture_output=True, text=True, timeout=600)
    t.check("exit status of %s" % " ".join(words), done.returncode == code, (done.returncode, done.stderr[-2000:]))
    return done.stdout if code == 0 else done.stderr


def train(model, out, world, *more):
    with open(out + ".yaml", "w") as f:
        f.write(FILE % dict(model=model, out=out, accumulation=4 // world, steps=STEPS))
    run = t.Run(["launch", "--nproc_per_node", str(world), "--master_port", str(t.free_port()), "--", "train",
                 out + ".yaml"] + list(more))
    t.check(out + ": ends well", run.wait() == 0, run.text()[-3000:])
    t.check(out + ": no key is unknown", "unknown" not in run.text(), run.text())
    return [(e["loss"], e["grad_norm"]) for e in t.log_lines(out) if "loss" in e]


def near(what, got, want):
    worst = [max([abs(a[i] / b[i] - 1) for a, b in zip(got, want)] or [9]) for i in (0, 1)]
    print("%s: losses within %.2g, gradient norms within %.2g" % (what, *worst))
    t.check(what, len(got) == STEPS and worst[0] <= 1e-6 and worst[1] <= 1e-5, worst)


def trainings(name):
    want = train(name, name + "-one", 1)
    t.check(name + ": the loss falls", len(want) == STEPS and want[-1][0] < want[0][0] - 0.5, want)
    near(name + ": two ranks", train(name, name + "-two", 2, "deepspeed=" + t.ZERO3), want)
    near(name + ": experts that stay", train(name, name + "-stay", 2, "deepspeed=" + STAY), want)


def adapter(name):
    """all is what transformers 5 has as linears: attention, and the dense FFN."""
    linears = ["self_attn.%s_proj" % x for x in "qkvo"]
    want = {"model.layers.%d.%s" % (layer, x) for layer in range(3) for x in linears}
    if name == "qwen3_moe":
        want |= {"model.layers.1.mlp.%s_proj" % x for x in ("gate", "up", "down")}
    found = t.tensors(name + "-one/adapter_model.safetensors")
    t.same(name + ": adapters", sorted(found),
           sorted("base_model.model.%s.lora_%s.weight" % (m, x) for m in want for x in "AB"))
    t.check(name + ": every B has learnt", all(any(v) for k, v in found.items() if "lora_B" in k))


def afterwards(name):
    base = ["--model_name_or_path", name, "--adapter_name_or_path", name + "-one"]
    ask = ["generate", "--template", "default", "--device", "cpu", "--dataset", "arithmetic", "--dataset_dir", "ex/data",
           "--max_samples", "6", "--max_new_tokens", "16"]
    call(["merge"] + base + ["--output", name + "-merged"])
    call(["export", "--check"] + base + ["--merged", name + "-merged", "--bound", "1e-4"])
    answers = call(ask + base)
    t.same(name + ": answers of the merged", call(ask + ["--model_name_or_path", name + "-merged"]), answers)
    t.check(name + ": the base answers otherwise", call(ask + ["--model_name_or_path", name]) != answers)
    text = call(["launch", "--nproc_per_node", "2", "--master_port", str(t.free_port()), "--"] + ask + base)
    t.same(name + ": answers of two ranks", text, answers)
    counts = json.loads(call(["inspect", name, "--verify", "--json"]))
    t.check(name + ": a token uses a part", counts["activated"] < counts["parameters"] and counts["verified"] > 50, counts)


def refusals():
    with open("other.json", "w") as f:
        json.dump(dict(SIZES, **MODELS["mixtral"], output_router_logits=True), f)
    t.has("a loss that is not done", call(["init", "--config", "other.json", "--output", "other"], 2),
          "output_router_logits is true, expected false")
    run = t.Run(t.train_args("routed", model_name_or_path="mixtral", lora_target="q_proj,w1"))
    t.same("routed experts: refused", run.wait(), 2)
    t.has("routed experts: named", run.text(), "routed experts (model.layers.0.block_sparse_moe.experts.0.w1 …)")


def main():
    t.begin()
    for name, more in MODELS.items():
        with open(name + ".json", "w") as f:
            json.dump(dict(SIZES, **more), f)
        call(["init", "--config", name + ".json", "--output", name, "--tokenizer", "ex/model"])
        trainings(name)
        adapter(name)
        afterwards(name)
    refusals()
    t.finish()


main()
