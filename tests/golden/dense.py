#!/usr/bin/env python3
"""Golden data of small dense models: transformers' Llama, Mistral, Qwen2 and Qwen3 with PEFT's LoRA.

Writes, for each configuration, a folder dense/NAME beside this file: model, adapter and
golden.safetensors, as deepseek_v3.py does and by its functions (there are no experts to record), and

    bf16.grad: root mean square of bf16.grad.NAME over all adapter tensors

Usage: dense.py [NAME ...]   (needs torch, transformers, peft, safetensors)
"""
import json
import os
import shutil
import sys
import zlib

import peft
import torch
import transformers
from safetensors.torch import save_file

import deepseek_v3 as common

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dense")
LENGTHS = [37, 22]
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
BASE = dict(vocab_size=67, hidden_size=36, intermediate_size=45, num_hidden_layers=2, num_attention_heads=6,
            num_key_value_heads=3, head_dim=6, rms_norm_eps=1e-5, max_position_embeddings=128,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=False,
            bos_token_id=0, eos_token_id=1, pad_token_id=None)
ONE = dict(num_attention_heads=3, num_key_value_heads=1, head_dim=14, vocab_size=51, tie_word_embeddings=True)
EACH = dict(num_attention_heads=4, num_key_value_heads=4, head_dim=10, vocab_size=101, intermediate_size=77)
LLAMA3 = dict(rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
LINEAR = dict(rope_parameters={"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.5}, num_key_value_heads=2)
DYNAMIC = dict(rope_parameters={"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 2.0},
               num_key_value_heads=1)
YARN = dict(rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                             "original_max_position_embeddings": 16}, num_key_value_heads=6,
            tie_word_embeddings=True)
MSCALE = dict(YARN, rope_parameters=dict(YARN["rope_parameters"], mscale=1.0, mscale_all_dim=0.5, beta_fast=16.0))
FACTOR = dict(YARN, rope_parameters=dict(YARN["rope_parameters"], attention_factor=1.25, truncate=False))
WINDOW = dict(sliding_window=9, num_key_value_heads=1)
LATER = dict(WINDOW, use_sliding_window=True, max_window_layers=1)
FIRST = dict(WINDOW, use_sliding_window=True, layer_types=["sliding_attention", "full_attention"])
BIASES = dict(EACH, attention_bias=True)
CONFIGS = {
    "llama": dict(plain={}, one_kv=ONE, biases=dict(BIASES, mlp_bias=True), llama3=LLAMA3, linear=LINEAR, yarn=YARN),
    "mistral": dict(plain=dict(sliding_window=None), one_kv=dict(ONE, sliding_window=None),
                    each_kv=dict(EACH, sliding_window=None), llama3=dict(LLAMA3, sliding_window=None),
                    yarn=dict(MSCALE, sliding_window=None), dynamic=dict(DYNAMIC, sliding_window=None), window=WINDOW),
    "qwen2": dict(plain={}, one_kv=ONE, each_kv=EACH, linear=LINEAR, yarn=FACTOR, dynamic=DYNAMIC, window=LATER),
    "qwen3": dict(plain={}, one_kv=ONE, biases=BIASES, llama3=LLAMA3, linear=LINEAR, yarn=YARN, window=FIRST),
}
TARGETS = {"one_kv": ["q_proj", "v_proj"], "linear": ["o_proj", "down_proj"], "dynamic": ["k_proj", "up_proj"]}
CLASSES = {"llama": ("LlamaConfig", "LlamaForCausalLM"), "mistral": ("MistralConfig", "MistralForCausalLM"),
           "qwen2": ("Qwen2Config", "Qwen2ForCausalLM"), "qwen3": ("Qwen3Config", "Qwen3ForCausalLM")}


def make(family, change):
    config, model = (getattr(transformers, name) for name in CLASSES[family])
    return model(config(**{**BASE, **change}))


def draw(model, generator):
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if "norm" in name:
            x = 1 + 0.1 * noise
        elif "embed" in name:
            x = 0.5 * noise
        elif name.endswith(".bias"):
            x = 0.3 * noise
        else:
            x = noise / p.shape[-1] ** 0.5
        p.data.copy_(common.representable(x))


def make_batch(generator, vocab):
    width = max(LENGTHS)
    ids = torch.randint(2, vocab, (2, width), generator=generator)
    labels = ids.clone()
    for b, n in enumerate(LENGTHS):
        ids[b, n:] = 0
        labels[b, n:] = -100
        labels[b, :4 + b] = -100
    mask = torch.arange(width)[None, :] < torch.tensor(LENGTHS)[:, None]
    return ids, labels, mask, torch.tensor(LENGTHS)


def distance(folder, golden, batch):
    """Of the same in bf16: root mean square over the reference's attention implementations."""
    squares = {}
    for attention in common.ATTENTION:
        base = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation=attention).eval()
        model = peft.PeftModel.from_pretrained(base, folder, is_trainable=True)
        for name, x in common.run(model, batch).items():
            square = ((x - golden[name]).norm() / golden[name].norm()).view(1) ** 2
            squares["bf16." + name] = squares.get("bf16." + name, 0) + square / len(common.ATTENTION)
    squares["bf16.grad"] = torch.stack([x for n, x in squares.items() if n.startswith("bf16.grad.")]).mean(0)
    return {name: x.sqrt() for name, x in squares.items()}


def write(family, variant, seed, limits=None):
    """limits(folder, golden, batch, seed): limits of bf16 to record beside the distances."""
    change = CONFIGS[family][variant]
    generator = torch.Generator().manual_seed(seed)
    base = make(family, change).float().eval()
    draw(base, generator)
    state = {k: v.clone() for k, v in base.state_dict().items()}
    model = common.with_adapter(base, TARGETS.get(variant, ALL), generator)
    start = {n: p.detach().clone() for n, p in common.adapters(model).items()}
    batch = make_batch(generator, base.config.vocab_size)
    golden = common.run(model, batch)
    golden.update(common.train(model, batch))
    folder = os.path.join(HERE, "%s_%s" % (family, variant))
    shutil.rmtree(folder, ignore_errors=True)
    for n, p in common.adapters(model).items():
        p.data.copy_(start[n])
    model.save_pretrained(folder)
    base = make(family, change)
    base.load_state_dict(state)
    base.to(torch.bfloat16).save_pretrained(folder)
    golden.update(distance(folder, golden, batch))
    if limits is not None:
        golden.update(limits(folder, golden, batch, seed))
    ids, labels, _, lengths = batch
    golden.update({"input_ids": ids, "labels": labels, "lengths": lengths})
    save_file({k: v.contiguous() for k, v in golden.items()}, os.path.join(folder, "golden.safetensors"),
              metadata={"adamw": json.dumps(common.ADAMW), "seed": str(seed),
                        "versions": json.dumps(common.versions())})
    for extra in ("README.md", "generation_config.json"):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    print("%s %s: loss %.6f, bf16 logits %.3g" % (family, variant, golden["loss"].item(), golden["bf16.logits"].item()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    print(", ".join("%s %s" % x for x in common.versions().items()))
    for family, variant in ((f, v) for f in CONFIGS for v in CONFIGS[f]):
        name = "%s_%s" % (family, variant)
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            write(family, variant, zlib.crc32(name.encode()))
