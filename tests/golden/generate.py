#!/usr/bin/env python3
"""Golden data of generation: greedy answers of models in deepseek_v3/ and dense/ by transformers' generate
in f32, of the base and of base and adapter.

Writes generate.json beside this file: for each model `prompts` (lists of ids), and for `base` and
`adapter` the ids that follow each prompt. Every choice is clear: prompts are drawn anew until the largest
logit leads the second by GAP at each step, so that sums in another order choose the same.

Usage: generate.py   (needs torch, transformers, peft)
"""
import json
import os
import shutil
import tempfile

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ["deepseek_v3/" + n for n in ("yarn", "plain", "no_q_lora", "one_group", "two_shared")] + [
    "dense/" + n for n in ("llama_plain", "llama_llama3", "mistral_one_kv", "qwen2_yarn", "qwen3_biases",
                             "mistral_window", "qwen3_window")]
LENGTHS, NEW, GAP = [1, 5, 23, 40, 12], 16, 1e-3


def answer(model, prompt):
    """The ids that follow, or None where a choice was not clear."""
    ids = torch.tensor([prompt])
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, eos_token_id=None,
                         pad_token_id=0, return_dict_in_generate=True, output_scores=True)
    for scores in got.scores:
        first, second = scores[0].topk(2).values.tolist()
        if first - second < GAP:
            return None
    return got.sequences[0, len(prompt):].tolist()


def base(folder):
    """Without the adapter, which transformers would load along with a folder that holds one."""
    with tempfile.TemporaryDirectory() as alone:
        for name in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(folder, name), alone)
        return AutoModelForCausalLM.from_pretrained(alone, dtype=torch.float32).eval()


def merged(folder):
    """Base and adapter as one model, whose logits are those of PEFT's."""
    model = PeftModel.from_pretrained(base(folder), folder).eval()
    ids = torch.tensor([[5, 17, 3, 40, 8]])
    with torch.no_grad():
        want = model(input_ids=ids).logits
        one = model.merge_and_unload().eval()
        assert (one(input_ids=ids).logits - want).abs().max() < 1e-4
    return one


def main():
    torch.set_num_threads(1)
    found = {}
    for name in MODELS:
        folder = os.path.join(HERE, name)
        kinds = {"base": base(folder), "adapter": merged(folder)}
        row = {"prompts": [], "base": [], "adapter": []}
        draw = torch.Generator().manual_seed(11)
        while len(row["prompts"]) < len(LENGTHS):
            n = LENGTHS[len(row["prompts"])]
            prompt = torch.randint(2, kinds["base"].config.vocab_size, (n,), generator=draw).tolist()
            answers = {kind: answer(model, prompt) for kind, model in kinds.items()}
            if None in answers.values():
                continue
            row["prompts"].append(prompt)
            for kind, ids in answers.items():
                row[kind].append(ids)
        assert row["base"] != row["adapter"], name
        found[name] = row
    with open(os.path.join(HERE, "generate.json"), "w") as f:
        f.write("{\n" + ",\n".join('"%s": %s' % (k, json.dumps(v)) for k, v in found.items()) + "\n}\n")


main()
