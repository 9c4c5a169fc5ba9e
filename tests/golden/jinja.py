#!/usr/bin/env python3
"""Chat templates as LLaMA-Factory saves them with a tokenizer that has none, for tests/unit/trainer/template/chat_test.c.

    DISABLE_VERSION_CHECK=1 python3 tests/golden/jinja.py    # with llamafactory 0.9.5; writes jinja.json

A row: template, and text, with the special tokens of tokenizer/deepseek.json.
"""
import importlib.machinery
import json
import os
import sys
import types

sound = types.ModuleType("torchaudio")  # which no template here has
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
from llamafactory.data.template import TEMPLATES, get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments
from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["default", "deepseek3", "deepseek", "empty", "llama3", "llama4", "qwen", "qwen3_nothink", "chatml", "deepseekr1", "qwen3",
         "llama2", "mistral", "ministral3", "mistral_small", "yi", "glm4", "glm4_moe", "moonlight", "vicuna", "zephyr", "alpaca",
         "fewshot", "gemma", "olmo", "openchat", "seed_coder", "hunyuan_small", "intern2", "chatml_de", "dbrx", "chatglm3", "yuan"]


def main():
    made = []
    for name in NAMES:
        TEMPLATES[name].mm_plugin = TEMPLATES["qwen"].mm_plugin  # no pictures here, so no processor of them
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer", "deepseek.json"),
                                            bos_token="<s>", eos_token="</s>")
        get_template_and_fix_tokenizer(tokenizer, DataArguments(template=name))
        made.append({"template": name, "text": tokenizer.chat_template or ""})
    with open(os.path.join(HERE, "jinja.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print(len(made))


main()
