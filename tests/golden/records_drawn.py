#!/usr/bin/env python3
"""Drawn data sets, records and options as LLaMA-Factory 0.9.5 turns them into token ids and labels.

    python3 tests/golden/records_drawn.py SEED N FILE       # with llamafactory 0.9.5; rows as of records.py
    build/tests/unit/records_test FILE                      # flowtrain's samples of the same

By hand, with a seed of one's own: what differs becomes a row of records.py. A data set that the reference refuses
(it ends with a Python error there) is no row.
"""
import collections
import json
import logging
import random
import subprocess
import sys
import tempfile

import records
from datasets import disable_progress_bars

OURS = {"llama3.0", "llama3.1", "llama3.2", "kimi_k2"}  # chat templates that are none of LLaMA-Factory's
PIECES = ["hi", "what is 2+2?", "\u00e9t\u00e9 ", "\u4f60\u597d", "\U0001f60a", "<s>", "</s>", "<think>", "</think>", "<think>\nhm\n</think>\n\n",
          "{{content}}", "{{name}}", "<tool_call>", "</tool_call>", "<|im_end|>", "<|im_start|>user", "\n", "\r\n", "\t", "  ", "\u00a0", "\u2028",
          "\\", "\"", "'", "{\"a\": 1}", "[1, 2]", "\x7f", "\u200b", "0.1", "<|eot_id|>", "<image>", "\u0301", "%s", "{}", "\x01", "\x02", "\x03"]
VALUES = [0, -0.0, 1, 1e-7, 1e16, 123456789012345678901234567890, 0.1, True, False, None, "", "x", "\u00e9\n\"", "\u001f", "\u2028", "</s>",
          [], {}, [1, "a", None], {"k": [1.5, {"z": "\U0001f60a"}]}, [[]], "it's", "'", "a'b\"c"]
TYPES = ["string", "number", "integer", "boolean", "array", "object", ["string", "null"], None, "", "weird"]


def text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.choice((0, 1, 1, 2, 3, 8))))


def value(rng):
    return rng.choice(VALUES)


def arguments(rng):
    return {rng.choice("abcxyz\u00e9 ") + rng.choice(("", "1")): value(rng) for _ in range(rng.randint(0, 4))}


def parameter(rng):
    made = {"type": rng.choice(TYPES)}
    for key, draw in (("description", lambda: rng.choice((None, "", text(rng)))), ("enum", lambda: [rng.choice(("a", "\u00e9", "it's")) for _ in range(3)] if rng.random() < 0.9 else [value(rng)]),
                      ("items", lambda: {"type": rng.choice(TYPES)}), ("default", lambda: value(rng)), ("maximum", lambda: 1e-07)):
        if rng.random() < 0.4:
            made[key] = draw()
    return made


def tool(rng):
    made = {"name": rng.choice(("f", "get_it", "\u00e9", "a b")), "description": text(rng),
            "parameters": {"type": "object", "properties": {rng.choice("abcxy"): parameter(rng) for _ in range(rng.randint(0, 3))}}}
    if rng.random() < 0.5:
        made["parameters"]["required"] = rng.sample(["a", "b", "x"], rng.randint(0, 2))
    if rng.random() < 0.1:
        del made["description"]
    return {"type": "function", "function": made} if rng.random() < 0.4 else made


def tools(rng):
    return json.dumps([tool(rng) for _ in range(rng.randint(0, 3))], ensure_ascii=rng.random() < 0.5)


def call(rng, words):
    one = json.dumps({"name": rng.choice(("f", "get_it")), "arguments": arguments(rng)}, ensure_ascii=rng.random() < 0.5)
    kind = rng.random()
    if kind < 0.5:
        return one
    if kind < 0.6:
        return "[%s, %s]" % (one, one)
    if kind < 0.7:
        return "<think>\nhm\n</think>\n\n" + one
    return rng.choice(("", "let me", "\n")) + words[0] + one + words[1] + rng.choice(("", "so", words[0] + one + words[1]))


def answer(rng):
    return rng.choice(("", "<think>\nhm\n</think>\n\n", "<think>", "</think>")) + text(rng) if rng.random() < 0.3 else text(rng)


def talk(rng, template):
    """Roles and texts: mostly a conversation in order, sometimes not."""
    turns = []
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        turns.append(("o" if turns and turns[-1][0] == "f" and rng.random() < 0.9 else "u", text(rng)))
        turns.append(("f", call(rng, records.calls_of(template))) if rng.random() < 0.2 else ("a", answer(rng)))
    odd = rng.random()
    if odd < 0.04:
        turns.pop()
    elif odd < 0.08:
        turns.pop(rng.randrange(len(turns)))
    elif odd < 0.1:
        turns.insert(0, ("s", text(rng)))
    elif odd < 0.12:
        turns = []
    return turns


def sharegpt(rng, template):
    tags = {"u": "human", "a": "gpt", "o": "observation", "f": "function_call", "s": "system"}
    turns = talk(rng, template)
    if rng.random() < 0.1:
        turns.insert(0, ("s", text(rng)))
    return {"m": [{"from": tags[r], "value": t} for r, t in turns], "s": text(rng) if rng.random() < 0.3 else "",
            "t": tools(rng) if rng.random() < 0.3 else ""}


def openai(rng, template):
    tags = {"u": "user", "a": "assistant", "o": "tool", "f": "function", "s": "system"}
    made = []
    for role, words in talk(rng, template):
        row = {"role": tags[role], "content": words, "tool_calls": None}
        if role == "f" and rng.random() < 0.7:
            row.update(role="assistant", content=rng.choice(("", "let me")), tool_calls=[
                {"type": "function", "function": {"name": "f", "arguments": json.dumps(arguments(rng))}}
                for _ in range(rng.choice((1, 1, 2)))])
        made += [row] * (2 if role == "o" and rng.random() < 0.3 else 1)
    return {"m": made, "t": tools(rng) if rng.random() < 0.3 else ""}


def alpaca(rng, template):
    made = {"instruction": text(rng), "input": text(rng) if rng.random() < 0.5 else "", "output": answer(rng), "s": text(rng) if
            rng.random() < 0.3 else "", "t": tools(rng) if rng.random() < 0.1 else "", "h": None}
    if rng.random() < 0.3:
        made["h"] = [[text(rng), answer(rng)] for _ in range(rng.randint(0, 3))]
    for key in ("output", "input", "s", "t"):
        if rng.random() < 0.05:
            made[key] = None
    return made


ALPACA = {"file_name": "a.json", "columns": {"prompt": "instruction", "query": "input", "response": "output", "system": "s",
                                             "tools": "t", "history": "h"}}
FORMATS = [(sharegpt, records.CHAT), (openai, records.OPENAI), (alpaca, ALPACA)]


def options(rng):
    made = {}
    if rng.random() < 0.25:
        made["mask_history"] = True
        made["preserve_thinking"] = rng.random() < 0.5
    elif rng.random() < 0.2:
        made["train_on_prompt"] = True
    if rng.random() < 0.3:
        made["enable_thinking"] = False
    if rng.random() < 0.2:
        made["tool_format"] = rng.choice(records.TOOLS)
    if rng.random() < 0.15:
        made["split_special_tokens"] = True
    if rng.random() < 0.15:
        made["default_system"] = text(rng)
    if rng.random() < 0.3:
        made["cutoff_len"] = rng.choice((1, 2, 5, 17, 40, 100))
    return made


def draw(rng, names):
    template = rng.choice(names)
    make, entry = rng.choice(FORMATS)
    rows = [make(rng, template) for _ in range(rng.randint(1, 12))]
    if rng.random() < 0.2:
        entry = dict(entry, num_samples=rng.randint(1, 15))
    lines = [json.dumps(row, ensure_ascii=rng.random() < 0.5) for row in rows]
    written = "[%s]" % ",\n".join(lines) if entry["file_name"].endswith(".json") else "\n".join(lines) + "\n"
    row = {"entry": entry, "text": written, "template": template, "seed": rng.randrange(1000)}
    kind = rng.random()
    if kind < 0.2:
        row["packing"] = {"cutoff_len": rng.choice((9, 24, 64, 200)), "batch": rng.choice((2, 5, 1000)), "shards": rng.choice((1, 2, 5))}
        row["tool_format"] = rng.choice([None] + records.TOOLS)
    elif kind < 0.3:
        row["pretrain"] = {"cutoff_len": rng.choice((3, 9, 24, 64)), "batch": rng.choice((2, 5, 1000)), "shards": rng.choice((1, 2, 5)),
                           "packing": rng.random() < 0.7}
    else:
        row.update(options(rng))
    return row


def main():
    seed, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    logging.disable(logging.WARNING)
    disable_progress_bars()
    records.settle()
    known = subprocess.run(["build/trainer/cli/flowtrain", "help", "templates"], check=True, capture_output=True, text=True).stdout
    names = sorted(set(known.split()) - OURS)
    rng, made, refused = random.Random(seed), [], collections.Counter()
    for k in range(count):
        row = draw(rng, names)
        row["name"] = "drawn %d.%d, %s" % (seed, k, row["template"])
        with tempfile.TemporaryDirectory() as folder:
            try:
                row["samples"] = records.samples(folder=folder, **{k: v for k, v in row.items() if k != "name"})
            except Exception as error:
                refused["%s %s" % (type(error).__name__, str(error).splitlines()[0][:60] if str(error) else "")] += 1
                continue
        if any(len(sample[0]) != len(sample[1]) for sample in row["samples"]):
            refused["a label too many: an empty question behind another turn, with efficient_eos"] += 1
            continue
        if row["template"] in records.NEEDS:
            row["needs"] = records.NEEDS[row["template"]]
        made.append(row)
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print(len(made), "rows", sum(len(row["samples"]) for row in made), "samples; refused there:", refused.most_common(12))


main()
