#!/usr/bin/env python3
"""Conversations as transformers' apply_chat_template writes them, for tests/unit/trainer/template/chat_test.c.

    python3 tests/golden/chat.py FOLDER      # with transformers 5.23, llamafactory 0.9.5; writes chat.json

FOLDER holds the chat templates of checkpoints as NAME.jinja or NAME--WHICH.jinja, NAME being that of our
template; that of llama4 is transformers' own. Rows of chat templates that are not there stay. A row: template, sha256 of
the chat template (as --template auto takes it), messages (alternating, user first), system (empty: none), and text: the
SHA-256 of what is written. A row with tools has roles: a letter a message, f being a call and o its result.
"""
import glob
import hashlib
import importlib.machinery
import json
import os
import sys
import types

sound = types.ModuleType("torchaudio")  # which no conversation here has
sound.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules.setdefault("torchaudio", sound)
from llamafactory.data.data_utils import Role
from transformers import PreTrainedTokenizerFast
from transformers.models.llama4 import processing_llama4

HERE = os.path.dirname(os.path.abspath(__file__))
TALK = ["hi", "ho", "what?", "this\n", "{{content}}", "it's\n\nso", "", "."]
BLANKS = ["  hi\t", "\u00a0ho\u2003", "\n\n", "\u200bso\u3000", "a\x1f", "\x85b"]
MORE = {"llama3.2": {"date_string": "02 Jan 2026"}}  # the day that the test lives on


# With an escape, a number, and letters beyond ASCII; a call as the data sets write it.
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d\u001f \u00e9\"", "parameters": {
    "type": "object", "properties": {"x": {"type": ["string", "null"], "enum": ["a", "\u4e2d"]}, "y": {"type": "number",
                                                                                                     "maximum": 1e-07}},
    "required": ["x"]}}}, {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}}]
CALL = {"name": "f", "arguments": {"x": "\u00e9\n\"", "y": [1e16, True, None], "z": {}}}
USE = [("u", "hi"), ("f", json.dumps(CALL)), ("o", '{"r": "\u00e9\n"}'), ("a", "ho"), ("u", "more"), ("a", "no")]
WITH_TOOLS = {"qwen": USE, "qwen3_nothink": USE, "llama3.1": USE, "llama3.2": USE, "kimi_k2": USE[:1] + USE[3:]}


def conversations():
    for n in (2, 4, 6, 8):
        for system in ("", "be brief", "two\nlines"):
            yield TALK[:n], system
    yield BLANKS[:2], ""
    yield BLANKS, " \nbe brief\u2028"


def turn_of(role, text):
    """A message as apply_chat_template takes it."""
    if role == "f":
        return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": json.loads(text)}]}
    return {"role": {"u": "user", "a": "assistant", "o": "tool"}[role], "content": text}


def with_tools(name, tokenizer, digest):
    use = WITH_TOOLS[name]
    for system in ("", "be brief"):
        if not system and name == "qwen3_nothink":
            continue  # two line ends stand in front of the tools there, as LLaMA-Factory has it, and none here
        turns = [{"role": "system", "content": system}] if system else []
        turns += [turn_of(role, text) for role, text in use]
        text = tokenizer.apply_chat_template(turns, tools=TOOLS, tokenize=False, **MORE.get(name, {}))
        yield {"template": name, "sha256": digest, "messages": [text for _, text in use], "roles": "".join(r for r, _ in use),
               "system": system, "tools": json.dumps(TOOLS), "text": hashlib.sha256(text.encode()).hexdigest()}


def tokenizer_of(template):
    """With that chat template, and its digest."""
    return (PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer", "deepseek.json"), bos_token="<s>",
                                    eos_token="</s>", chat_template=template),
            hashlib.sha256(template.rstrip(" \t\r\n").encode()).hexdigest())


def rows(name, template):
    tokenizer, digest = tokenizer_of(template)
    if name in WITH_TOOLS:
        yield from with_tools(name, tokenizer, digest)
    for messages, system in conversations():
        if system.strip() != system and not name.startswith("llama3."):
            continue  # blanks around a system text: as they are
        turns = [{"role": "system", "content": system}] if system else []
        roles = [Role.USER.value, Role.ASSISTANT.value]
        turns += [{"role": roles[i % 2], "content": m} for i, m in enumerate(messages)]
        text = tokenizer.apply_chat_template(turns, tokenize=False, **MORE.get(name, {}))
        text = text.replace("<\uff5cend\u2581of\u2581sentence\uff5c>", tokenizer.eos_token)  # DeepSeek's by name
        yield {"template": name, "sha256": digest, "messages": messages, "system": system,
               "text": hashlib.sha256(text.encode()).hexdigest()}


def main():
    templates = [(os.path.basename(p)[:-6].split("--")[0], open(p, encoding="utf-8").read())
                 for p in sorted(glob.glob(os.path.join(sys.argv[1], "*.jinja")))]
    templates.append(("llama4", processing_llama4.chat_template))
    made = [row for name, template in templates for row in rows(name, template)]
    fresh = {row["sha256"] for row in made}
    with open(os.path.join(HERE, "chat.json"), encoding="utf-8") as f:
        made = [row for row in json.load(f) if row["sha256"] not in fresh] + made
    with open(os.path.join(HERE, "chat.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print(len(made), ", ".join(name for name, _ in templates))


if __name__ == "__main__":
    main()
