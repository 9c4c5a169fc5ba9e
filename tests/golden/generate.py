#!/usr/bin/env python3
"""Golden data of generation: greedy answers of models in deepseek_v3/ and dense/ by transformers' generate
in f32, of the base and of base and adapter.

Writes generate.json beside this file: for each model `prompts` (lists of ids), and for `base` and
`adapter` the ids that follow each prompt. Every choice is clear: prompts are drawn anew until the largest
logit leads the second by GAP at each step, so that sums in another order choose the same.

Writes generate_many.json: 200 prompts of one model of each kind, the ids that follow each in f32 (clear, as
above) and in bf16; of bf16 `gaps`, by how much the largest logit led the second at each step, and `bound`:
an implementation that rounds in other places chooses otherwise only where the gap is below it. Errors of a
logit in bf16 have a deviation s, measured here against f32; a gap of one implementation less that of another
has four of them, so 2 s, and six times that is the bound.

Usage: generate.py [many [SEED FILE]]   many: only generate_many.json, or FILE with prompts of another seed, for
build/tests/unit/generate_test FILE   (needs torch, transformers, peft)
"""
import json
import os
import random
import shutil
import sys
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


def rounded(model, prompt):
    """The ids that follow in bf16, and the gaps."""
    ids = torch.tensor([prompt])
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, eos_token_id=None,
                         pad_token_id=0, return_dict_in_generate=True, output_scores=True)
    gaps = [s[0].float().topk(2).values.tolist() for s in got.scores]
    return got.sequences[0, len(prompt):].tolist(), [round(a - b, 4) for a, b in gaps]


@torch.no_grad()
def deviation(exact, other, prompts):
    squares = [((other(torch.tensor([p])).logits.float() - exact(torch.tensor([p])).logits) ** 2).mean() for p in prompts]
    return torch.stack(squares).mean().sqrt().item()


def many(name, seed):
    folder, draw = os.path.join(HERE, name), random.Random(seed)
    exact, other = base(folder), base(folder).to(torch.bfloat16)
    row = {"prompts": [], "base": [], "bf16": [], "gaps": []}
    while len(row["prompts"]) < 200:
        prompt = [draw.randrange(2, exact.config.vocab_size) for _ in range(draw.randint(1, 45))]
        clear = answer(exact, prompt)
        if clear is None:
            continue
        ids, gaps = rounded(other, prompt)
        for key, value in (("prompts", prompt), ("base", clear), ("bf16", ids), ("gaps", gaps)):
            row[key].append(value)
    return dict(row, bound=12 * deviation(exact, other, row["prompts"]))


def write(path, found):
    with open(os.path.join(HERE, path), "w") as f:
        f.write("{\n" + ",\n".join('"%s": %s' % (k, json.dumps(v)) for k, v in found.items()) + "\n}\n")


def main():
    torch.set_num_threads(1)
    seed, path = (int(sys.argv[2]), os.path.abspath(sys.argv[3])) if len(sys.argv) > 2 else (5, "generate_many.json")
    write(path, {name: many(name, seed) for name in ("deepseek_v3/yarn", "dense/llama_plain")})
    if sys.argv[1:2] == ["many"]:
        return
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
    write("generate.json", found)


main()
