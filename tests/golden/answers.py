#!/usr/bin/env python3
"""Answers of transformers' generate to the example of `flowtrain init --example`: greedy, in f32, as text.

Writes answers.json beside this file: for each kind of model (--model of init) `prompts`, and `answers` in the template
`default`. Every choice is clear: the largest logit leads the second by GAP at each step.

Usage: answers.py FLOWTRAIN   (needs torch, transformers)
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
WANTED, NEW, GAP = 12, 16, 1e-3


def prompt_ids(tokenizer, text):
    """The template `default`: each literal and the text between is encoded by itself."""
    def ids(part):
        return tokenizer(part, add_special_tokens=False)["input_ids"]

    return ids("Human: " + text) + [tokenizer.eos_token_id] + ids("\nAssistant:")


def answer(model, tokenizer, text):
    """The text that follows; None: a choice was not clear."""
    ids = torch.tensor([prompt_ids(tokenizer, text)])
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, return_dict_in_generate=True,
                         eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id, output_scores=True)
    for scores in got.scores:
        first, second = scores[0].topk(2).values.tolist()
        if first - second < GAP:
            return None
    return tokenizer.decode(got.sequences[0, ids.shape[1]:], skip_special_tokens=True, clean_up_tokenization_spaces=False)


def answers(flowtrain, kind):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([flowtrain, "init", "--example", folder, "--overwrite", "--model", kind], check=True, stdout=subprocess.DEVNULL)
        with open(folder + "/data/arithmetic.jsonl") as f:
            records = [json.loads(line) for line in f]
        tokenizer = AutoTokenizer.from_pretrained(folder + "/model")
        model = AutoModelForCausalLM.from_pretrained(folder + "/model", dtype=torch.float32).eval()
        model.generation_config = type(model.generation_config)()
        found = {"prompts": [], "answers": []}
        for record in records[::7]:
            text = record["instruction"] + ("\n" + record["input"] if record.get("input") else "")
            got = answer(model, tokenizer, text)
            if got is not None and len(found["prompts"]) < WANTED:
                found["prompts"].append(text)
                found["answers"].append(got)
    assert len(found["prompts"]) == WANTED and len(set(found["answers"])) > 3, found
    return found


def main():
    torch.set_num_threads(1)
    found = {kind: answers(sys.argv[1], kind) for kind in ("deepseek", "llama")}
    with open(os.path.join(HERE, "answers.json"), "w") as f:
        json.dump(found, f, indent=1)
        f.write("\n")


main()
