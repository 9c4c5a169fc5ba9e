#!/usr/bin/env python3
"""Special tokens as LLaMA-Factory saves them with a tokenizer behind a template, for tests/unit/trainer/template/chat_test.c.

    DISABLE_VERSION_CHECK=1 python3 tests/golden/special.py    # with llamafactory 0.9.5, transformers 5.24; writes special.json

A row: template; tokens, which tokenizer/deepseek.json gets behind its own (content, special); config and map: tokenizer_config.json
and special_tokens_map.json (null: none); and what AutoTokenizer finds in what is saved: eos, pad, special (more special tokens, that
are listed without a name) and ids of the tokens that were added. saved.py compares whole trainings.
"""
import importlib.machinery
import json
import os
import sys
import tempfile
import types

sound = types.ModuleType("torchaudio")  # which no template here has
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
from llamafactory.data.template import get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments
from transformers import AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
NO_PAD = {k: v for k, v in CONFIG.items() if k != "pad_token"}
BARE = {k: v for k, v in NO_PAD.items() if k != "eos_token"}
AS_OBJECT = dict(CONFIG, eos_token={"content": "</s>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                                    "__type": "AddedToken"})
CHATML = [["<|im_start|>", True], ["<|im_end|>", True]]
PLAIN = [["<|im_start|>", True], ["<|im_end|>", False]]
ROWS = [(template, tokens, config, None) for template in ("default", "empty", "qwen", "llama3", "chatml", "deepseek3", "gemma", "qwen3", "glm4")
        for tokens, config in (([], CONFIG), (CHATML, CONFIG), (PLAIN, NO_PAD), ([], BARE), ([], AS_OBJECT))]
ROWS += [("qwen", CHATML, NO_PAD, {"eos_token": "</s>", "pad_token": "</s>"}), ("llama3", [], CONFIG, {"eos_token": "</s>"}),
         ("default", [], NO_PAD, {"bos_token": "<s>", "eos_token": "</s>"}), ("default", [], BARE, {"eos_token": "</s>"}),
         ("qwen", [], BARE, {"eos_token": "<|im_end|>"}), ("default", [], CONFIG, {"eos_token": None}), ("default", [], CONFIG, {"pad_token": None}),
         ("empty", [], NO_PAD, {"pad_token": "<pad>"}), ("default", [], {"tokenizer_class": "Qwen2Tokenizer"}, None),
         ("llama3", [], dict(NO_PAD, pad_token="<|pad|>"), None),
         ("llama3", [], dict(CONFIG, image_token="<i>", sep_token={"__type": "AddedToken", "content": "the", "rstrip": True}), None),
         ("llama3", [], dict(CONFIG, tokenizer_class="Qwen2Tokenizer", image_token="<i>"), None),
         ("default", [], dict(NO_PAD, eos_token={"__type": "AddedToken", "content": "<|im_end|>", "rstrip": True}), None)]


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f)


def row(template, tokens, config, special_map):
    with open(os.path.join(HERE, "tokenizer", "deepseek.json"), encoding="utf-8") as f:
        file = json.load(f)
    last = max(max(file["model"]["vocab"].values()), *(t["id"] for t in file["added_tokens"]))
    for k, (content, special) in enumerate(tokens):
        file["added_tokens"].append({"id": last + 1 + k, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                                     "normalized": False, "special": special})
    with tempfile.TemporaryDirectory() as base, tempfile.TemporaryDirectory() as saved:
        write(base, "tokenizer.json", file)
        write(base, "tokenizer_config.json", config)
        if special_map is not None:
            write(base, "special_tokens_map.json", special_map)
        tokenizer = AutoTokenizer.from_pretrained(base)
        before = tokenizer.get_vocab()
        get_template_and_fix_tokenizer(tokenizer, DataArguments(template=template))
        tokenizer.save_pretrained(saved)
        got = AutoTokenizer.from_pretrained(saved)
    return {"template": template, "tokens": tokens, "config": config, "map": special_map, "eos": got.eos_token, "pad": got.pad_token,
            "special": sorted(set(got.extra_special_tokens) - {"<s>", got.eos_token, got.pad_token}),
            "added": {word: number for word, number in sorted(got.get_vocab().items()) if word not in before}}


def main():
    rows = [row(*values) for values in ROWS]
    with open(os.path.join(HERE, "special.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    print(len(rows))


main()
