#!/usr/bin/env python3
"""Records as LLaMA-Factory 0.9.5 turns them into token ids and labels: its own loader, converters,
templates and processor on small files that this script makes.

    python3 tests/golden/records.py        # with llamafactory 0.9.5; writes records.json

A row: name, entry (of dataset_info.json), text (of the file), template, seed, and samples: a list of
[ids, labels] of the tokenizer in tokenizer/deepseek.json. tool_format, split_special_tokens, cutoff_len, default_system,
mask_history, train_on_prompt, enable_thinking and preserve_thinking may be there, and needs: tokens to add to it first. A row with packing (cutoff_len, batch,
shards) has rows of packed examples, without their padding: [ids, labels, lengths of the examples].
A row with pretrain (cutoff_len, batch, shards, packing) has texts of stage pt; labels as the collator makes them.
"""
import copy
import datetime
import importlib.machinery
import json
import os
import sys
import tempfile
import types

import numpy as np

import transformers

sound = types.ModuleType("torchaudio")  # which no record here has
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
from transformers import PreTrainedTokenizerFast
from llamafactory.data import tool_utils
from llamafactory.data.loader import _load_single_dataset
from llamafactory.data.parser import get_dataset_list
from llamafactory.data.processor import PackedSupervisedDatasetProcessor, PretrainDatasetProcessor
from llamafactory.data.processor import SupervisedDatasetProcessor
from llamafactory.data.template import TEMPLATES as KNOWN
from llamafactory.data.template import get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments, ModelArguments

HERE = os.path.dirname(os.path.abspath(__file__))
CHAT = {"file_name": "a.jsonl", "formatting": "sharegpt",
        "columns": {"messages": "m", "system": "s", "tools": "t"}}
OPENAI = {"file_name": "a.jsonl", "formatting": "openai", "columns": {"messages": "m", "tools": "t"},
          "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user",
                   "assistant_tag": "assistant", "observation_tag": "tool",
                   "function_tag": "function", "system_tag": "system"}}
PLAIN = {"file_name": "a.jsonl"}
BARE = '[{"name": "f", "description": null, "parameters": {"type": "object", "properties": {"x": ' \
       '{"type": ["string", "null"], "enum": ["a", "b"], "description": null}, "y": {"type": "array", ' \
       '"items": {"type": ["number", true, 1e-7, null, "it\'s"]}, "description": "d\\u001f"}}, ' \
       '"required": ["y"]}}]'
WRAPPED = '[{"type": "function", "function": %s}]' % BARE[1:-1]
OTHER = '[{"type": "tool", "function": {"name": "g"}, "name": "h", "parameters": {"properties": {}}}]'


def turns(*texts, tools=None, system=None):
    tags = {"u": "human", "a": "gpt", "o": "observation", "f": "function_call"}
    row = {"m": [{"from": tags[t[0]], "value": t[1:]} for t in texts], "s": system or "", "t": tools or ""}
    return json.dumps(row, ensure_ascii=False) + "\n"


def call(arguments):
    return 'f{"name": "f", "arguments": %s}' % arguments


WITH_TOOLS = ["default", "qwen", "llama3", "mistral", "ministral3", "glm4", "glm4_moe", "qwen3_5", "minimax1", "minimax2",
              "seed_oss", "bailing_v2", "lfm2", "gemma4", "phi4_mini", "granite4", "youtu",
              "dbrx", "chatglm3"]
TOOLS = ["default", "qwen", "llama3", "mistral", "glm4", "glm4_moe", "qwen3_5", "minimax1", "minimax2", "seed_oss", "ling", "lfm2",
         "gemma4"]
NUMBERS = '{"a": 1e-7, "b": 1e16, "c": 0.30000000000000004, "d": "\\u001f", "e": 18446744073709551616, ' \
          '"f": NaN, "g": -Infinity, "h": 1e999, "i": -0.0, "j": -0, "k": 1, "k": 2}'


def rows():
    for template in WITH_TOOLS:
        for name, tools in (("bare", BARE), ("wrapped", WRAPPED), ("other type", OTHER), ("none", "[]")):
            yield "%s tools, %s" % (name, template), CHAT, turns("uhi", "aho", tools=tools), template
        yield "numbers, " + template, CHAT, turns("uhi", call(NUMBERS), "o7", "aho", tools=BARE), template
        two = 'f[{"name": "f", "arguments": {}}, {"name": "g", "arguments": "{\\"x\\": 1}"}]'
        yield "two calls, " + template, CHAT, turns("uhi", two, "o7", "aho", tools=BARE), template
        for what, text in (
                ("text around a call", 'flet me\n<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call> so'),
                ("thought and call", 'f<think>\nhm\n</think>\n\n{"name": "f", "arguments": {"x": 1}}'),
                ("thought and tags", 'f<think>\nhm\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {}}\n'
                                     '</tool_call>'),
                ("two tags", 'f<tool_call>{"name": "f", "arguments": {}}</tool_call>'
                             '<tool_call>{"name": "f", "arguments": {}}</tool_call>')):
            text = text.replace("<tool_call>", calls_of(template)[0]).replace("</tool_call>", calls_of(template)[1])
            yield what + ", " + template, CHAT, turns("uhi", text, "o7", "aho"), template
    yield "byte order mark", PLAIN, "\ufeff" + json.dumps({"instruction": "a", "input": "b", "output": "c"}), "default"
    yield "all empty", PLAIN, json.dumps({"instruction": "", "input": "", "output": ""}), "default"
    yield "no response", PLAIN, json.dumps({"instruction": "a", "input": "", "output": None}) + "\n" + \
        json.dumps({"instruction": "a", "input": "", "output": "b"}), "default"
    many = "".join(json.dumps({"instruction": str(i), "input": "", "output": None if i % 3 == 1 else str(i)}) + "\n"
                   for i in range(7))
    for n in (0, 3, 7, 12):
        if n > 0:
            yield "num_samples %d of 7, some dropped" % n, dict(PLAIN, num_samples=n), many, "default"
    say = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    use = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    tool = {"role": "tool", "content": "7"}
    for name, messages in (("ends in a tool message", say + [dict(say[0]), use, tool, tool]),
                           ("two results", [say[0], use, tool, tool, say[1]]),
                           ("ends after a call", [say[0], use]),
                           ("only a result", [tool]),
                           ("starts with a result", [tool, say[1]]),
                           ("system", [{"role": "system", "content": "s"}] + say)):
        for tools in ([], json.loads(WRAPPED)):
            text = json.dumps({"m": messages, "t": json.dumps(tools) if tools else ""})
            yield "openai: %s%s" % (name, ", tools" if tools else ""), OPENAI, text, "qwen"


def calls_of(template):
    """The words around calls in the data, where a template has its own."""
    return ("<|tool_call_start|>", "<|tool_call_end|>") if template == "lfm2" else ("<tool_call>", "</tool_call>")


def others():
    """Other files, formats of tools and readings of special tokens: options of samples()."""
    csv = '\ufeffinstruction,input,output\r\n"a, ""b""\nc",,x\r\n\r\nNA,d,"y"\nshort\n"",e,null\n'
    yield "csv", dict(PLAIN, file_name="a.csv"), csv, "default", {}
    for tools in TOOLS:
        for template in ("qwen", "fewshot"):
            yield "tool_format %s, %s" % (tools, template), CHAT, \
                turns("uhi", call('{"x": 1}'), "o7", "aho", tools=BARE), template, {"tool_format": tools}
    for template in ("default", "qwen"):
        text = json.dumps({"instruction": "a <s> b</s> <|im_end|>", "input": "", "output": "<|im_start|> c </s>"})
        yield "split_special_tokens, " + template, PLAIN, text, template, {"split_special_tokens": True}


TEMPLATES = ["deepseekr1", "qwen3", "llama2", "mistral", "ministral3", "mistral_small", "yi", "glm4", "glm4_moe", "moonlight",
             "vicuna", "zephyr", "alpaca", "qwen3_nothink", "deepseek3", "chatml", "llama4"]
MORE = ["llama2_zh", "qwen3_5", "qwen3_5_nothink", "qwen3_6", "mimo", "mimo_v2", "chatml_de", "cpm4", "falcon_h1",
        "opencoder", "smollm", "smollm2", "intern2", "sailor", "lfm2", "ernie", "ernie_nothink", "glmz1", "glm4_7", "aeva",
        "ministral", "breeze", "deepseekcoder", "bailing", "bailing_v2", "cohere", "hy3", "hunyuan", "hunyuan_small",
        "exaone", "falcon", "gemma", "gemma2", "gemma3", "gemma4", "gpt_oss", "granite3", "granite4", "index", "minimax1",
        "minimax2", "olmo", "openchat", "openchat-3.6", "phi", "phi_small", "phi4", "phi4_mini", "seed_coder", "seed_oss",
        "solar", "starchat", "telechat2", "xuanyuan", "youtu", "dbrx", "yuan", "chatglm3"]
# tokens that stand in a template by their names, so that the tokenizer has to have them
NEEDS = {"chatglm3": ["[gMASK]", "sop", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"], "yuan": ["<sep>"]}
REASONING = ["deepseekr1", "qwen3", "glm4_moe"]
# words around thoughts of their own, or an empty thought of its own
THOUGHTS = {"glm4_7": ("<think>", "</think>"), "mimo_v2": ("<think>", "</think>"), "seed_oss": ("<seed:think>", "</seed:think>"),
            "gemma4": ("<|channel>thought\n", "<channel|>"),
            "gpt_oss": ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>")}


def conversations():
    """Turns with and without a system text, in every template that has no row above; thoughts in the answers
    of those that reason."""
    talk = ["uhi", "aho", "uwhat?", "athis\n", "u", "a"]
    for template in TEMPLATES:
        for name, text in (("one turn", turns(*talk[:2])), ("system", turns(*talk, system="be brief")),
                           ("turns", turns(*talk)), ("a result first", turns("o7", "aho", system="be brief"))):
            yield "%s, %s" % (name, template), CHAT, text, template, {}
        yield "masked, " + template, CHAT, turns(*talk, system="s"), template, {"mask_history": True}
    for template in MORE:
        for name, text in (("turns", turns(*talk)), ("a result first", turns("o7", "aho", *talk[2:], system="be brief"))):
            yield "%s, %s" % (name, template), CHAT, text, template, {}
    thoughts = ["uhi", "a<think>\nhm\n</think>\n\nho", "uso", "a<think>\none\n</think>\n\n\n<think>\ntwo\n</think>\n\nb",
                "uand", "ano", "uend", "a<think> odd </think>c", "ulast", "a<think>\nopen"]
    for template, (think, thought) in THOUGHTS.items():
        own = [t.replace("<think>\n", think).replace("\n</think>\n\n", thought) for t in thoughts[:6]]
        for n in (2, 6):
            for options in ({}, {"enable_thinking": False}, {"mask_history": True}):
                yield "thoughts of %d messages %s, %s" % (n, "".join(options), template), CHAT, turns(*own[:n]), template, options
    for template in REASONING:
        for n in (2, 4, 6, 8, 10):
            for options in ({}, {"enable_thinking": False}, {"mask_history": True},
                            {"mask_history": True, "preserve_thinking": True},
                            {"mask_history": True, "enable_thinking": False}):
                yield "thoughts of %d messages %s, %s" % (n, "".join(options), template), CHAT, \
                    turns(*thoughts[:n]), template, options


def packed():
    """Examples of many lengths, some dropped, some longer than a row."""
    long = "".join(json.dumps({"instruction": "a " * (i * 7 % 19), "input": "",
                               "output": None if i % 11 == 5 else "b " * (i * 5 % 13) + str(i)}) + "\n"
                   for i in range(40))
    for cutoff, batch, shards in ((32, 1000, 1), (32, 1000, 3), (24, 7, 1), (48, 7, 2), (9, 1000, 50)):
        yield "packed in %d, %d together, %d shards" % (cutoff, batch, shards), long, \
            {"cutoff_len": cutoff, "batch": batch, "shards": shards}


def rows_of(processor, data, packing):
    """What the processor makes of the data, cut as its processes and map batches would."""
    n, out = len(data), []
    shards = min(packing["shards"], n)
    begin = 0
    for s in range(shards):
        end = begin + n // shards + (1 if s < n % shards else 0)
        for i in range(begin, end, packing["batch"]):
            part = processor.preprocess_dataset(data[i:min(end, i + packing["batch"])])
            for ids, labels, places, mask in zip(part["input_ids"], part["labels"], part["position_ids"],
                                                 part["attention_mask"]):
                lengths = [mask.count(k) for k in range(1, max(mask) + 1)]
                kept = sum(lengths)
                assert places[:kept] == [k for length in lengths for k in range(length)]
                out.append([ids[:kept], labels[:kept], lengths])
        begin = end
    return out


def texts():
    """Texts of many lengths, of the four kinds of files, in conversations, and with their own eos."""
    lines = ["a " * (i * 7 % 19) + "b</s> c" * (i % 5 == 3) + str(i) for i in range(40)]
    column = {"file_name": "a.jsonl", "columns": {"prompt": "text"}}
    many = "".join(json.dumps({"text": line}) + "\n" for line in lines)
    plain = "first line\n\nthird\r\nfourth \rfifth"
    talk = turns("uhi", "aho") + turns("uwhat?", "athis", "uno", "ayes")
    for template in ("empty", "llama3", "qwen"):
        for packing, cutoff, batch, shards in ((True, 16, 1000, 1), (True, 16, 1000, 3), (True, 11, 7, 2),
                                               (True, 7, 3, 40), (False, 12, 1000, 1)):
            yield "%s in %d, %d together, %d shards, packing %s" % (template, cutoff, batch, shards, packing), column, \
                many, template, {"cutoff_len": cutoff, "batch": batch, "shards": shards, "packing": packing}
    whole = {"cutoff_len": 100, "batch": 1000, "shards": 1, "packing": False}
    yield "a text file", {"file_name": "a.txt", "columns": {"prompt": "text"}}, plain, "empty", whole
    yield "conversations", CHAT, talk, "qwen", whole
    yield "instructions", PLAIN, json.dumps({"instruction": "a", "input": "b", "output": "c"}) + "\n" + \
        json.dumps({"instruction": "d", "input": "", "output": None}), "empty", whole


def texts_of(processor, data, pretrain, pad):
    n, out, begin = len(data), [], 0
    shards = min(pretrain["shards"], n)
    for s in range(shards):
        end = begin + n // shards + (1 if s < n % shards else 0)
        for i in range(begin, end, pretrain["batch"]):
            made = processor.preprocess_dataset(data[i:min(end, i + pretrain["batch"])])
            out += [[ids, [-100 if k == pad else k for k in ids]] for ids in made["input_ids"]]
        begin = end
    return out


def tokenizer_of():
    return PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer", "deepseek.json"),
                                   bos_token="<s>", eos_token="</s>")


def samples(entry, text, template, seed, folder, packing=None, pretrain=None, tool_format=None, split_special_tokens=False,
            cutoff_len=100000, **more):
    with open(os.path.join(folder, entry["file_name"]), "w", encoding="utf-8", newline="") as f:
        f.write(text)
    with open(os.path.join(folder, "dataset_info.json"), "w", encoding="utf-8") as f:
        json.dump({"x": entry}, f)
    data_args = DataArguments(template=template, dataset_dir=folder, overwrite_cache=True,
                              cutoff_len=packing["cutoff_len"] if packing else cutoff_len,
                              neat_packing=packing is not None, tool_format=tool_format, **more)
    if pretrain:
        data_args.cutoff_len, data_args.packing = pretrain["cutoff_len"], pretrain["packing"]
    model_args = ModelArguments(model_name_or_path="none", cache_dir=os.path.join(folder, "cache"))
    tokenizer = tokenizer_of()
    tokenizer.add_special_tokens({"additional_special_tokens": NEEDS.get(template, [])})
    tokenizer.split_special_tokens = split_special_tokens
    own = KNOWN[template]
    KNOWN[template] = copy.deepcopy(own)  # it changes by its options
    fixed = get_template_and_fix_tokenizer(tokenizer, data_args)
    KNOWN[template] = own

    class Training:
        local_process_index = 0
        seed = 0

    np.random.seed(seed)
    attr = get_dataset_list(["x"], folder)[0]
    data = _load_single_dataset(attr, model_args, data_args, Training)
    if packing:
        return rows_of(PackedSupervisedDatasetProcessor(template=fixed, tokenizer=tokenizer, processor=None,
                                                        data_args=data_args), data, packing)
    if pretrain:
        return texts_of(PretrainDatasetProcessor(template=fixed, tokenizer=tokenizer, processor=None,
                                                 data_args=data_args), data, pretrain, tokenizer.pad_token_id)
    processor = SupervisedDatasetProcessor(template=fixed, tokenizer=tokenizer, processor=None, data_args=data_args)
    out = processor.preprocess_dataset(data[:])
    return [[out["input_ids"][i], out["labels"][i]] for i in range(len(out["input_ids"]))]


class Day:
    """The day that the test lives on: the llama3 tools name it."""

    @staticmethod
    def now():
        return datetime.datetime(2026, 1, 2)


def settle():
    """What the reference needs to be told before it makes samples."""
    tool_utils.datetime = Day
    for template in KNOWN.values():  # no pictures here, so no processor of them
        template.mm_plugin = KNOWN["mistral"].mm_plugin


def main():
    settle()
    made = []
    for name, entry, text, template in rows():
        with tempfile.TemporaryDirectory() as folder:
            seed = 42
            try:
                found = samples(entry, text, template, seed, folder)
            except Exception as error:  # refused there
                print(name, "REFUSED", type(error).__name__, str(error)[:150], file=sys.stderr)
                continue
        made.append({"name": name, "entry": entry, "text": text, "template": template, "seed": seed,
                     "samples": found})
    for name, entry, text, template, options in list(others()) + list(conversations()):
        with tempfile.TemporaryDirectory() as folder:
            made.append({"name": name, "entry": entry, "text": text, "template": template, "seed": 42, **options,
                         "samples": samples(entry, text, template, 42, folder, **options)})
    for name, text, packing in packed():
        with tempfile.TemporaryDirectory() as folder:
            made.append({"name": name, "entry": PLAIN, "text": text, "template": "default", "seed": 42,
                         "packing": packing, "samples": samples(PLAIN, text, "default", 42, folder, packing)})
    for name, entry, text, template, pretrain in texts():
        with tempfile.TemporaryDirectory() as folder:
            made.append({"name": name, "entry": entry, "text": text, "template": template, "seed": 42,
                         "pretrain": pretrain,
                         "samples": samples(entry, text, template, 42, folder, pretrain=pretrain)})
    for row in made:
        if row["template"] in NEEDS:
            row["needs"] = NEEDS[row["template"]]
    with open(os.path.join(HERE, "records.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print(len(made))


if __name__ == "__main__":
    main()
