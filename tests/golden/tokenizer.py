#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/: small tokenizer.json files of several kinds and what the tokenizers
library encodes with them. Run in the reference environment: python tests/golden/tokenizer.py
All text is generated here."""
import json
import os
import random
import unicodedata

import tokenizers
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer")
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
WORDS = ["river", "stone", "bridge", "the", "a", "of", "counts", "seven", "boats", "and", "don't", "I'LL",
         "x=3.14", "2024", "12345", "foo_bar", "#include", "stdio.h", "\u00e9t\u00e9", "e\u0301",
         "\u5e74\u306e\u30c6\u30b9\u30c8", "\U0001f60a", "\u017f", "'\u017f", "==", "...", "\uac00", "\u1100\u1161"]
SPACES = [" ", " ", " ", "  ", "\n", "\r\n", "\n\n", "\t", "   ", "\u00a0", ""]


def text(rng, n):
    out = []
    for _ in range(n):
        out.append(rng.choice(WORDS))
        out.append(rng.choice(SPACES))
    return "".join(out)


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def kinds():
    yield "gpt2", None, byte_level(True), {}
    yield "qwen", normalizers.NFC(), pre_tokenizers.Sequence([split(QWEN), byte_level(False)]), {}
    yield "llama3", None, pre_tokenizers.Sequence([split(LLAMA3), byte_level(False)]), {"ignore_merges": True}
    yield ("deepseek", normalizers.Sequence([]),
           pre_tokenizers.Sequence([split(p) for p in DEEPSEEK] + [byte_level(False)]), {})


def spelled(kind, corpus):
    """tokenizer.json over characters, in the forms of Llama 2 (llama2), of newer conversions (mistral), and
    with a mark in front of every word and no bytes to fall back on (words)."""
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    if kind == "words":
        space = dict(space, prepend_scheme="always", split=True)
        tok.normalizer, tok.pre_tokenizer = None, pre_tokenizers.Metaspace("\u2581", "always", True)
    tok.train_from_iterator([part for t in corpus for part in t.split("\n")], trainers.BpeTrainer(
        vocab_size=260, show_progress=False, limit_alphabet=50))
    data = json.loads(tok.to_str())
    fallback = kind != "words"
    first = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256) if fallback]
    learned = sorted(data["model"]["vocab"], key=data["model"]["vocab"].get)
    data["model"].update(unk_token="<unk>", fuse_unk=kind != "words", byte_fallback=fallback,
                         vocab={t: i for i, t in enumerate(first + learned)})
    data["added_tokens"] = [dict(token(t, special=True), id=i) for i, t in enumerate(first[:3])]
    data["added_tokens"].append(dict(token("<think>", normalized=kind == "llama2"), id=len(first) + len(learned)))
    if kind == "llama2":
        data["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    else:
        data["normalizer"], data["pre_tokenizer"], data["decoder"] = None, space, space
        if kind == "mistral":
            data["decoder"] = {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return data


def added(kind):
    tokens = [AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False),
              AddedToken("<think>", special=False, normalized=True)]
    if kind == "gpt2":
        tokens += [AddedToken("<left>", special=False, normalized=False, lstrip=True),
                   AddedToken("<right>", special=False, normalized=False, rstrip=True),
                   AddedToken("word", special=False, normalized=False, single_word=True),
                   AddedToken("<s><s>", special=False, normalized=False)]
    if kind == "qwen":
        tokens += [AddedToken("cafe\u0301", special=False, normalized=True)]
    return tokens


def cases(kind):
    rng = random.Random(7)
    yield from ["", " ", "  ", "\n", "a", "Hello world's  12345 x=3.14\n\n  foo", "f(x_1)#include <stdio.h>",
                "I'LL don't 2024\u5e74\u306e\u30c6\u30b9\u30c83\u500b ok.", "<s>a</s>", "<think> \n</think>", "a" * 300,
                "\u2550" * 200, "ab" * 100, "<s><s><s>", "x <left> y", "x <right>  y", "word words aword word. _word \u00e9word",
                "cafe\u0301 caf\u00e9", "\u1100\u1161\u11a8", "\u0344\u0958"]
    for _ in range(30):
        yield text(rng, rng.randint(1, 30))
    for _ in range(30):
        chars = [chr(rng.choice([rng.randint(32, 126), rng.randint(0xa0, 0x5ff), rng.randint(0x2000, 0x30ff),
                                 rng.randint(0x1f300, 0x1f64f)])) for _ in range(rng.randint(1, 40))]
        yield "".join(c for c in chars if unicodedata.category(c) not in ("Cn", "Cs"))


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": False, **flags}


def with_config():
    """config/: the deepseek tokenizer with tokens that stand only in tokenizer_config.json, as transformers
    numbers and finds them."""
    folder = os.path.join(HERE, "config")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(HERE, "deepseek.json")) as f:
        text = f.read()
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        f.write(text)
    data = json.loads(text)
    decoder = {a["id"]: {k: v for k, v in a.items() if k != "id"} for a in data["added_tokens"]}
    last = max(decoder)
    decoder[last]["special"] = True               # another flag than in tokenizer.json
    decoder[last + 9] = token("<far>", special=True)
    decoder[last + 2] = token("<plain>", normalized=True)
    decoder[last + 1] = token("<strip>", rstrip=True, special=True)
    decoder[data["model"]["vocab"]["river"]] = token("river", special=True)
    config = {"bos_token": "<s>", "eos_token": {"__type": "AddedToken", **token("</s>", special=True)},
              "pad_token": "<pad>", "unk_token": "the", "additional_special_tokens": ["<more>", "<far>"], "tokenizer_class": "PreTrainedTokenizerFast",
              "added_tokens_decoder": {str(k): v for k, v in decoder.items()}}
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(config, f)
        f.write("\n")
    tok = transformers.AutoTokenizer.from_pretrained(folder)
    rng = random.Random(9)
    parts = ["<far>", "<plain>", "<strip>", "<pad>", "<more>", "<think>", "<s>", "the", "river", " ", "  ", "rivers", "a"]
    with open(os.path.join(folder, "golden.jsonl"), "w") as f:
        for t in parts + ["".join(rng.choice(parts) for _ in range(8)) for _ in range(40)]:
            ids = tok.encode(t, add_special_tokens=False)
            f.write(json.dumps({"text": t, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=True)}) + "\n")


def record(kind, texts):
    tok = Tokenizer.from_file(os.path.join(HERE, kind + ".json"))
    with open(os.path.join(HERE, kind + ".jsonl"), "w") as f:
        for t in texts:
            ids = tok.encode(t, add_special_tokens=False).ids
            f.write(json.dumps({"text": t, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=True)}) + "\n")


def main():
    print("tokenizers", tokenizers.__version__, "transformers", transformers.__version__)
    os.makedirs(HERE, exist_ok=True)
    with open(os.path.join(HERE, "tokenizer_config.json"), "w") as f:
        json.dump({"bos_token": "<s>", "eos_token": {"content": "</s>"}}, f)
        f.write("\n")
    corpus = [text(random.Random(i), 200) for i in range(20)]
    for kind, normalizer, pre, model in kinds():
        tok = Tokenizer(models.BPE(**model))
        if normalizer is not None:
            tok.normalizer = normalizer
        tok.pre_tokenizer = pre
        tok.decoder = decoders.ByteLevel()
        tok.train_from_iterator(corpus, trainers.BpeTrainer(
            vocab_size=420, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        if kind == "llama3":  # a token that no merge reaches
            data = json.loads(tok.to_str())
            data["model"]["vocab"]["zqzqzq"] = len(data["model"]["vocab"])
            tok = Tokenizer.from_str(json.dumps(data))
        tok.add_tokens(added(kind))
        data = json.loads(tok.to_str())
        path = os.path.join(HERE, kind + ".json")
        with open(path, "w") as f:
            json.dump(data, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
        record(kind, list(cases(kind)) + (["zqzqzq zqzqzqz"] if kind == "llama3" else []))
    for kind in ("llama2", "mistral", "words"):
        with open(os.path.join(HERE, kind + ".json"), "w") as f:
            json.dump(spelled(kind, corpus), f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
        record(kind, list(cases(kind)) + ["a<s> b</s>c", "</s> a", "\u2581a \u2581", "<0x0A>", "  a<think>  b"])
    with_config()


main()
