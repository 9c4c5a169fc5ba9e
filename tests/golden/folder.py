#!/usr/bin/env python3
"""What AutoTokenizer makes of a tokenizer's folder, for tests/unit/trainer/tokenizer/tokenizer_test.c.

    python3 tests/golden/folder.py    # with transformers 5.24, tokenizers 0.23; writes folder.json

A row: name; base, a file of tokenizer/, with the token that it pads with behind a plus; changes to it: added (content, special, normalized behind its own, numbers left out in front
of it where there are any); files beside it: config (tokenizer_config.json), map (special_tokens_map.json), more (added_tokens.json), model (config.json),
null: none; and what AutoTokenizer gives: class, bos, eos, pad (ids or null), and of each text its ids, what those decode to without
special tokens, and where they differ the ids when the text of special tokens is split.
"""
import json
import os
import tempfile

from transformers import AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ["the river counts seven boats", "  two  blanks and 12345 don't I'LL", "e\u0301t\u00e9 \uac00 \u1100\u1161\u017f's", "x=3.14\r\n\n\tfoo_bar",
         "<s>the</s> of <|endoftext|><|im_start|>a<|im_end|> <mine> stone", "\u5e74\u306e\u30c6\u30b9\u30c8 \U0001f60a 2024 bridge...", "",
         "stone \U0001f170stone \U0001f130stone two \n \n  boats and  the\u2581 boat"]
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
CHATML = [["<|im_start|>", True, False], ["<|im_end|>", False, False], ["<mine>", False, True]]


def decoder(*entries):
    return {str(i): {"content": c, "lstrip": False, "normalized": n, "rstrip": False, "single_word": False, "special": s}
            for i, c, s, n in entries}


def token(content, **flags):
    return {"__type": "AddedToken", "content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, **flags}


def rows():
    yield "the file alone", "deepseek", [], None, None, None, None
    for kind in ("gpt2", "qwen", "llama3", "deepseek"):
        for name in ("Qwen2Tokenizer", "Qwen2TokenizerFast", "GPT2Tokenizer", "GPT2TokenizerFast", "GPTNeoXTokenizerFast", "Qwen3_5Tokenizer",
                     "CohereTokenizerFast", "LlamaTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend", "NoSuchTokenizer"):
            yield "%s as %s" % (kind, name), kind, CHATML, dict(NAMES, tokenizer_class=name), None, None, None
        for prefix in (True, False):
            yield "%s, a blank in front: %s" % (kind, prefix), kind, [], dict(NAMES, tokenizer_class="GPT2Tokenizer", add_prefix_space=prefix), None, None, None
    for kind in ("llama2", "mistral", "words"):
        for name in ("LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "GemmaTokenizer", "PreTrainedTokenizerFast"):
            yield "%s as %s" % (kind, name), kind, CHATML, dict(NAMES, tokenizer_class=name), None, None, None
        for more in ({"legacy": True}, {"legacy": False}, {"add_prefix_space": False}, {"add_prefix_space": True, "legacy": True}):
            yield "%s as LlamaTokenizer, %s" % (kind, more), kind, CHATML, dict(NAMES, tokenizer_class="LlamaTokenizer", **more), None, None, None
    for model in ("qwen2", "qwen3", "qwen3_moe", "llama", "mistral", "deepseek_v3"):
        for name in (None, "Qwen2Tokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast", "GPT2Tokenizer"):
            config = dict(NAMES) if name is None else dict(NAMES, tokenizer_class=name)
            yield "a %s as %s" % (model, name), "deepseek", [], config, None, None, {"model_type": model}
    for name in ("CohereTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"):
        yield "%s: its names" % name, "llama2", [], {"tokenizer_class": name, "unk_token": token("the", rstrip=True), "a_token": token("stone"), "eot_token": "boats", "prefix_token": token("of"), "sep_token": token("river", lstrip=True)}, {"bos_token": "<s>"}, {"counts": 700}, None
    for name in ("CodeLlamaTokenizer", "GemmaTokenizer"):
        yield "%s: an unknown token of its own" % name, "words", [], {"tokenizer_class": name, "unk_token": token("the", rstrip=True)}, None, None, None
    yield "CodeLlamaTokenizer, legacy", "llama2", CHATML, dict(NAMES, tokenizer_class="CodeLlamaTokenizer", legacy=True), None, None, None
    for name in ("GPT2Tokenizer", "LlamaTokenizer", "PreTrainedTokenizerFast"):
        for config in ({}, {"pad_token": None}, {"pad_token": "<p>"}):
            yield "%s, padding in the file, %s" % (name, config), "deepseek+<mine>", [], dict(NAMES, tokenizer_class=name, **config), None, None, None
    yield "special tokens again", "deepseek", [], {
        "tokenizer_class": "CohereTokenizer", "added_tokens_decoder": decoder((300, "<|im_start|>", True, False), (301, "<|im_end|>", False, False)),
        "eos_token": token("<|im_end|>", rstrip=True), "sep_token": token("<|im_start|>", lstrip=True),
        "extra_special_tokens": [{"__type": "AddedToken", "content": "e\u0301"}, token("boats", special=False)]}, None, None, None
    yield "code that is not run", "deepseek", [], dict(NAMES, tokenizer_class="GPT2Tokenizer", auto_map={"AutoTokenizer": ["x.T", None]}), None, None, {"model_type": "qwen2"}
    ends = decoder((300, "<|im_start|>", True, False), (301, "<|im_end|>", False, False))
    for name in ("Qwen2Tokenizer", "PreTrainedTokenizerFast"):
        for legacy in (False, True):
            config = dict(NAMES, tokenizer_class=name) if legacy else dict(NAMES, tokenizer_class=name, added_tokens_decoder=ends)
            what = "%s, %s list" % (name, "no" if legacy else "a")
            bare = {k: v for k, v in config.items() if not k.endswith("os_token")}
            yield what + ": tokens of the file", "deepseek", CHATML, config, None, None, None
            yield what + ": tokens of the file, numbers left out", "deepseek", [t + [3] for t in CHATML], config, None, None, None
            yield what + ": a map", "deepseek", CHATML, config, {"eos_token": "<|im_end|>", "pad_token": {"content": "<mine>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}}, None, None
            yield what + ": only a map", "deepseek", [], bare, dict(NAMES), None, None
            yield what + ": a new word in the map", "deepseek", [], bare, {"eos_token": "<|new|>"}, None, None
            yield what + ": more tokens", "deepseek", [], config, None, {"<|im_start|>": 700, "<mine>": 701}, None
            yield what + ": more tokens, special by the map", "deepseek", CHATML, config, {"additional_special_tokens": ["<|im_start|>", "<x>"]}, {"<x>": 710, "<|im_start|>": 711}, None
            yield what + ": extra as a list", "deepseek", CHATML, dict(config, extra_special_tokens=["<y>", "<|im_end|>"]), {"extra_special_tokens": ["<z>"]}, None, None
            yield what + ": extra as a map", "deepseek", CHATML, dict(config, extra_special_tokens={"image_token": "<i>", "b_token": "<|im_end|>"}), None, None, None
            yield what + ": none by the map", "deepseek", CHATML, dict(config, pad_token="<|im_end|>"), {"bos_token": None, "pad_token": None}, None, None
            yield what + ": old and new list", "deepseek", [], dict(config, additional_special_tokens=["<y>"], extra_special_tokens=["<z>"]), {"additional_special_tokens": ["<x>"]}, None, None
            yield what + ": the old list alone", "deepseek", [], dict(config, additional_special_tokens=["<y>"], extra_special_tokens=[]), {"additional_special_tokens": []}, None, None
            yield what + ": a map over the old list", "deepseek", [], dict(config, additional_special_tokens=["<y>"]), {"extra_special_tokens": {"image_token": "<i>"}}, None, None
            yield what + ": named in two ways", "deepseek", [], dict(config, bos_token="<mine>", sep_token=token("<mine>", rstrip=True), pad_token="<mine>"), None, None, None
            yield what + ": flags of a named one", "deepseek", [], dict(config, eos_token=token("<mine>", rstrip=True, normalized=True), mask_token="the"), None, None, None
            yield what + ": more tokens, named as an object", "llama2", [], dict(config, eos_token=token("<mine>")), None, {"<mine>": 523}, None
            yield what + ": an object with a name of its own", "deepseek", CHATML, dict(config, image_token=token("<mine>", rstrip=True), a_token=token("the")), None, None, None
            yield what + ": names of its own in the map", "deepseek", CHATML, dict(config, image_token="<i>", b_token="boats"), {"c_token": "river", "b_token": "counts", "d_token": token("stone", lstrip=True)}, None, None
            yield what + ": saved names of its own", "deepseek", CHATML, dict(config, model_specific_special_tokens={"image_token": token("<i>", normalized=True), "b_token": "boats"}), None, None, None
            yield what + ": saved names beside names", "deepseek", CHATML, dict(config, image_token="boats", model_specific_special_tokens={"b_token": "river"}), None, None, None
            yield what + ": the map over an object's name", "deepseek", CHATML, dict(config, image_token=token("boats"), b_token=token("<i>")), {"image_token": "river", "b_token": None}, None, None
            yield what + ": objects that say little", "deepseek", [], dict(config, sep_token={"__type": "AddedToken", "content": "cafe\u0301", "rstrip": True}, a_token={"__type": "AddedToken", "content": "e\u0301"}), None, None, None
            yield what + ": a named one of the file", "deepseek", CHATML, dict(config, image_token="<|im_end|>"), None, None, None
            yield what + ": named, then listed in another form", "deepseek", [], dict(config, image_token="<mine>", extra_special_tokens=[token("<mine>", lstrip=True), token("boats", special=False)]), None, None, None
            yield what + ": listed in the map as objects", "deepseek", [], config, {"additional_special_tokens": [token("<x>", rstrip=True), token("<mine>", lstrip=True, special=True)]}, {"<x>": 710, "<mine>": 711}, None
            yield what + ": more tokens, special by the old list behind an object", "llama2", [], dict(config, additional_special_tokens=["the", "<x>"], extra_special_tokens={"a_token": "boats"}), None, {"the": 700, "<x>": 701}, None
            yield what + ": a name of all in an object", "deepseek", [], dict(config, extra_special_tokens={"eos_token": "<mine>", "odd": "boats"}), None, None, None
            yield what + ": a character that is found as a word alone", "llama2", [], dict(config, tokenizer_class="PreTrainedTokenizerFast", sep_token=token("\U0001f170", single_word=True)), None, None, None
            yield what + ": a line's end with blanks around it", "deepseek", [], dict(config, sep_token=token("\n", lstrip=True, rstrip=True)), None, None, None
            yield what + ": a word alone behind blanks that are taken", "deepseek", [], dict(config, sep_token=token("two", rstrip=True), a_token=token(" ", single_word=True), b_token=token("  b", lstrip=True)), None, None, None
            yield what + ": a token in another one", "deepseek", [], dict(config, sep_token=token("boat", single_word=True), a_token=token("boats and", rstrip=True), b_token=token("oats"), c_token=token("s s")), None, None, None
            yield what + ": normalized, with blanks at the ends", "llama2", [], dict(config, sep_token=token(" two ", normalized=True), a_token=token("\u2581", normalized=True, single_word=True), b_token=token("boats ", normalized=True, lstrip=True), c_token="counts"), None, None, None
            yield what + ": special and normalized", "llama2", [], dict(config, sep_token=token("the", normalized=True), a_token=token("\u2581boats", special=True), b_token=token("boats", normalized=True)), None, None, None
            yield what + ": a letter in a square beside a word alone", "deepseek", [], dict(config, sep_token=token("stone", single_word=True), a_token=token("\U0001f170"), b_token=token("stone two", single_word=True)), None, None, None
            yield what + ": a name of its own", "deepseek", CHATML, dict(config, image_token="<i>"), None, None, None


def write(folder, name, value):
    if value is not None:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f)


def text_of(got, text):
    ids = got.encode(text, add_special_tokens=False)
    made = {"text": text, "ids": ids, "decoded": got.decode(ids, skip_special_tokens=True)}
    got.split_special_tokens = True
    split = got.encode(text, add_special_tokens=False)
    got.split_special_tokens = False
    return made if split == ids else dict(made, split=split)


def row(name, base, added, config, special_map, more, model):
    with open(os.path.join(HERE, "tokenizer", base.split("+")[0] + ".json"), encoding="utf-8") as f:
        file = json.load(f)
    if "+" in base:
        file["padding"] = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
                           "pad_token": base.split("+")[1]}
    last = max([max(file["model"]["vocab"].values())] + [t["id"] for t in file["added_tokens"]])
    for content, special, normalized, *gap in added:
        last += 1 + sum(gap)
        file["added_tokens"].append({"id": last, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                                     "normalized": normalized, "special": special})
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "tokenizer.json", file)
        write(folder, "tokenizer_config.json", config)
        write(folder, "special_tokens_map.json", special_map)
        write(folder, "added_tokens.json", more)
        write(folder, "config.json", model)
        try:
            got = AutoTokenizer.from_pretrained(folder)
        except Exception as e:
            print("left out:", name, repr(e)[:150])
            return None
    return {"name": name, "base": base, "added": added, "config": config, "map": special_map, "more": more, "model": model,
            "class": type(got).__name__, "bos": got.bos_token_id, "eos": got.eos_token_id, "pad": got.pad_token_id,
            "texts": [text_of(got, text) for text in TEXTS]}


def main():
    made = [r for r in (row(*values) for values in rows()) if r is not None]
    with open(os.path.join(HERE, "folder.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in made) + "\n]\n")
    print(len(made))


main()
