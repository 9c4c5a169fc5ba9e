"""Tiny models with grouped-query attention, dense and with experts: on a device against the CPU backend, trainings
on one and two ranks, and answers. For tests/cudasim/dense.py and tests/bench/device_parity.py.

Tolerances, relative, of each step: f32 losses 1e-5, gradient norms 1e-4; bf16 2^-7 and 2^-5, as values of 8
bits are rounded in other orders. Two ranks see the same micro-batches as one: as in f32.
"""
import json
import subprocess

import trainer_lib as t

SIZES = dict(vocab_size=512, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=96, max_position_embeddings=4096, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1,
             torch_dtype="bfloat16")
MODELS = {
    "llama": dict(model_type="llama", tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                  rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                    original_max_position_embeddings=512)),
    "qwen3": dict(model_type="qwen3", head_dim=24, num_key_value_heads=1),
    "mistral": dict(model_type="mistral", sliding_window=9, num_key_value_heads=4),
    "qwen3_moe": dict(model_type="qwen3_moe", num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
                      mlp_only_layers=[0], norm_topk_prob=False),
}


def make(name):
    with open(name + ".json", "w") as f:
        json.dump(dict(SIZES, **MODELS[name]), f)
    subprocess.run([t.flowtrain, "init", "--config", name + ".json", "--output", name, "--tokenizer", "ex/model"],
                   check=True, stdout=subprocess.DEVNULL, timeout=600)


def run(out, model, device, world, steps, **more):
    one = t.train("%s on %s, %d ranks" % (out, device, world), out, world, accumulation=2 // world, steps=steps,
                  device=device, model_name_or_path=model, lora_target="all", lora_rank=4, cutoff_len=32,
                  train_on_prompt=True, save_strategy="no", learning_rate="1e-3", **more)
    if device == "cuda":
        t.has(out + ": a device computes", one.text(), "info cuda device=")
    lines = [e for e in t.log_lines(out) if "loss" in e]
    t.same(out + ": steps", len(lines), steps)
    return [(e["loss"], e["grad_norm"]) for e in lines]


def near(what, got, want, *limits):
    for i, (name, limit) in enumerate(zip(("losses", "gradient norms"), limits)):
        worst = max([abs(a[i] / b[i] - 1) for a, b in zip(got, want)] or [9])
        print("%s: %s within %.2g" % (what, name, worst), flush=True)
        t.check("%s: %s" % (what, name), worst <= limit, "%g > %g" % (worst, limit))


def train(name, device, steps, **two):
    """two: what two ranks need beside."""
    cpu = run(name + "-cpu", name, "cpu", 1, steps)
    one = run(name + "-one", name, device, 1, steps)
    near(name + ", f32", one, cpu, 1e-5, 1e-4)
    near(name + ", f32, 2 ranks", run(name + "-two", name, device, 2, steps, **two), one, 1e-5, 1e-4)
    near(name + ", bf16", run(name + "-b", name, device, 1, steps, bf16=True),
         run(name + "-b-cpu", name, "cpu", 1, steps, bf16=True), 2.0 ** -7, 2.0 ** -5)


def answers(name, device, adapter):
    words = ["generate", "--model_name_or_path", name, "--adapter_name_or_path", adapter, "--template", "default",
             "--prompt", "What is 33 plus 89?", "--max_new_tokens", "12", "--device"]
    said = [subprocess.run([t.flowtrain] + words + [d], capture_output=True, text=True, timeout=600)
            for d in ("cpu", device)]
    t.check(name + ": it answers", all(s.returncode == 0 for s in said), said[1].stderr[-2000:])
    t.same(name + ": the answer", said[1].stdout, said[0].stdout)
    print("%s: answers are equal" % name, flush=True)
