#!/usr/bin/env python3
"""What flowtrain saves beside an adapter and a merged model, as transformers, PEFT and LLaMA-Factory read it.

    PYTHON tests/golden/saved.py BUILD SEED      # with torch, transformers, peft, llamafactory 0.9.5

By hand. For both kinds of example models, tokenizers with tokens, a map of special tokens or a chat template of their own, and
several templates: AutoTokenizer finds in the adapter's folder and in the merged one the special tokens, added tokens, chat template
and ids of drawn texts that it finds in what LLaMA-Factory saves (template applied, save_pretrained); PEFT loads the adapter, and
logits of the merged model are those of base and adapter, in f32 within 1e-5.
"""
import importlib.machinery
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import types

import torch

sound = types.ModuleType("torchaudio")  # which no model here hears
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
from llamafactory.data.template import get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

PIECES = ["hi", " what is 2+2?", "\u00e9t\u00e9", "\u4f60\u597d", "\n", "  ", "<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|endoftext|>", "</s>", "<think>",
          "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|end_of_text|>", "<eos>", "<|eom_id|>", "User: ", "<|mine|>", "0.1"]
counts = {"same": 0, "different": 0}


def same(what, got, want):
    counts["same" if got == want else "different"] += 1
    if got != want:
        print("DIFFERENT %s: %r, there %r" % (what, got, want))


def run(words):
    done = subprocess.run([flowtrain] + words, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr[-2000:])


def own_tokens(path):
    """Tokens of a template that the tokenizer has: one special, one plain."""
    with open(path + "/tokenizer.json") as f:
        tok = json.load(f)
    last = max(t["id"] for t in tok["added_tokens"])
    for k, (content, special) in enumerate((("<|im_start|>", True), ("<|im_end|>", False), ("<|mine|>", True))):
        tok["added_tokens"].append({"id": last + 1 + k, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                                    "normalized": False, "special": special})
    with open(path + "/tokenizer.json", "w") as f:
        json.dump(tok, f)
    config(path, additional_special_tokens=["<|im_start|>", "<|mine|>"])


def config(path, **more):
    with open(path + "/tokenizer_config.json") as f:
        values = dict(json.load(f), **more)
    with open(path + "/tokenizer_config.json", "w") as f:
        json.dump({k: v for k, v in values.items() if v is not None}, f)


def special_map(path):
    with open(path + "/special_tokens_map.json", "w") as f:
        json.dump({"eos_token": {"content": "<\uff5cend\u2581of\u2581sentence\uff5c>" if "deepseek" in path else "<|end_of_text|>", "lstrip": False,
                                 "normalized": False, "rstrip": False, "single_word": False}}, f)
    config(path, pad_token=None)


def chat(path):
    with open(path + "/chat_template.jinja", "w") as f:
        f.write("{% for m in messages %}{{ m['content'] }}{% endfor %}")


CASES = {"as it is": lambda path: None, "own tokens": own_tokens, "map": special_map, "chat": chat,
         "no pad": lambda path: config(path, pad_token=None), "no eos": lambda path: config(path, eos_token=None, pad_token=None)}


def compare(what, folder, want, texts):
    got = AutoTokenizer.from_pretrained(folder)
    for key in ("eos_token", "eos_token_id", "pad_token", "pad_token_id", "bos_token", "bos_token_id", "unk_token", "chat_template"):
        same("%s: %s" % (what, key), getattr(got, key), getattr(want, key))
    same(what + ": vocabulary", got.get_vocab(), want.get_vocab())
    # with transformers 5 the stop words of LLaMA-Factory take the place of the tokenizer's own; with 4, and here, they come behind
    own = {"<|im_start|>", "<|mine|>"} & set(got.all_special_tokens)
    same(what + ": special tokens", sorted(set(got.all_special_tokens)), sorted(set(want.all_special_tokens) | own))
    for text in texts:
        ids = got(text, add_special_tokens=False)["input_ids"]
        same(what + ": ids of %r" % text, ids, want(text, add_special_tokens=False)["input_ids"])
        same(what + ": text", got.decode(ids, skip_special_tokens=True), want.decode(ids, skip_special_tokens=True))


def logits(model, ids):
    with torch.no_grad():
        return model(input_ids=ids).logits


def merged_model(what, base, adapter, merged, rng):
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    ids = torch.tensor([[rng.randrange(3, 400) for _ in range(37)]])
    before = logits(plain, ids)
    both = PeftModel.from_pretrained(plain, adapter).eval()
    want, got = logits(both, ids), logits(AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32).eval(), ids)
    off, moved = ((got - want).norm() / want.norm()).item(), ((before - want).norm() / want.norm()).item()
    print("%s: merged is off by %.2g, the base by %.2g" % (what, off, moved))
    same(what + ": merged logits", off < 1e-5 and moved > 1e-3, True)


def as_f32(path):
    """The same model in f32: rounding once more would be seen."""
    from safetensors.torch import load_file, save_file
    state = load_file(path + "/model.safetensors")
    save_file({k: v.float() for k, v in state.items()}, path + "/model.safetensors", metadata={"format": "pt"})
    for name in ("config.json",):
        with open(path + "/" + name) as f:
            text = f.read()
        with open(path + "/" + name, "w") as f:
            f.write(text.replace("bfloat16", "float32"))


def main():
    rng = random.Random(int(sys.argv[2]))
    for kind in ("deepseek", "llama"):
        run(["init", "--example", kind, "--model", kind])
        as_f32(kind + "/model")
        for case, change in CASES.items():
            for template in ("default", "qwen", "llama3", "chatml", "empty", "deepseek3", "gemma"):
                base, out, merged = ("%s-%s" % (kind, x) for x in ("base", "out", "merged"))
                for folder in (base, out, merged, "theirs"):
                    shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(kind + "/model", base)
                change(base)
                if template in ("deepseek3", "gemma", "llama3") and kind == "llama" and case == "no eos":
                    continue  # the template asks for an eos token
                words = ["train", "--stage", "sft", "--do_train", "--model_name_or_path", base, "--dataset", "arithmetic", "--dataset_dir",
                         kind + "/data", "--template", template, "--output_dir", out, "--max_steps", "3", "--learning_rate", "1e-2",
                         "--cutoff_len", "64", "--logging_steps", "1", "--save_strategy", "no"]
                done = subprocess.run([flowtrain] + words, capture_output=True, text=True)
                if done.returncode != 0:
                    print("no run: %s, %s, %s: %s" % (kind, case, template, done.stderr.splitlines()[-1][:150]))
                    continue
                run(["merge", "--model_name_or_path", base, "--adapter_name_or_path", out, "--output", merged, "--template", template])
                tokenizer = AutoTokenizer.from_pretrained(base)
                get_template_and_fix_tokenizer(tokenizer, DataArguments(template=template))
                tokenizer.save_pretrained("theirs")
                want = AutoTokenizer.from_pretrained("theirs")
                texts = ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 9))) for _ in range(20)]
                for folder in (out, merged):
                    compare("%s, %s, %s, %s" % (kind, case, template, folder), folder, want, texts)
                if case == "as it is" and template in ("default", "llama3"):
                    merged_model("%s, %s" % (kind, template), base, out, merged, rng)
    print("%(same)d same, %(different)d different" % counts)
    sys.exit(1 if counts["different"] else 0)


flowtrain = os.path.join(os.path.abspath(sys.argv[1]), "trainer/cli/flowtrain")
logging.disable(logging.WARNING)
with tempfile.TemporaryDirectory() as here:
    os.chdir(here)
    main()
