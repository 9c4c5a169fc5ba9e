#!/usr/bin/env python3
"""Drawn conversations as transformers' apply_chat_template writes them, beside those of chat.py.

    python3 tests/golden/chat_drawn.py SEED COUNT FOLDER FILE   # FOLDER of chat templates as of chat.py; COUNT of each
    build/tests/unit/chat_test FILE                             # flowtrain's text of the same

By hand, with a seed of one's own: what differs becomes a row of chat.py. What a chat template refuses is no row, and
what is written with blanks cut off by some templates is drawn without blanks at its ends.
"""
import glob
import json
import os
import random
import sys

import chat

PIECES = ["hi", "what is 2+2?", "\u00e9t\u00e9 ", "\u4f60\u597d", "\U0001f60a", "{{content}}", "{{ x }}", "{% if a %}", "\n", "\r\n", "\t", "  ", "\u00a0",
          "\\", "\"", "'", "{\"a\": 1}", "[1, 2]", "\x7f", "\u200b", "0.1", "\u0301", "%s", "{}", "it's", "<b>", "&amp;", "<|", "|>", "\n\n"]
VALUES = [0, 1, -3, 1e-7, 1e16, 0.1, True, False, None, "", "x", "\u00e9\n\"", "\u2028", [], {}, [1, "a", None], {"k": [1.5, {"z": "\U0001f60a"}]}, "it's"]
TYPES = ["string", "number", "integer", "boolean", "array", "object"]


def text(rng, least=0):
    return "".join(rng.choice(PIECES) for _ in range(rng.choice((1, 2, 3, 8)))).strip() or ("ok" if least else "")


def tool(rng):
    properties = {}
    for _ in range(rng.randint(0, 3)):
        made = {"type": rng.choice(TYPES)}
        if rng.random() < 0.5:
            made["description"] = text(rng)
        if rng.random() < 0.3:
            made["enum"] = ["a", "\u00e9", "it's"]
        properties[rng.choice(("x", "y", "b\u00e9", "query"))] = made
    function = {"name": rng.choice(("f", "get_it")), "description": text(rng), "parameters": {"type": "object", "properties": properties}}
    if rng.random() < 0.5:
        function["parameters"]["required"] = list(properties)[:1]
    return {"type": "function", "function": function}


def talk(rng, tools):
    """Letters and texts: users and assistants in turn; with tools, calls and their results."""
    made = []
    for _ in range(rng.randint(1, 4)):
        made.append(("u", text(rng, 1)))
        if tools and rng.random() < 0.6 and len(made) < 6:
            call = {"name": "f", "arguments": {rng.choice("abxyz"): rng.choice(VALUES) for _ in range(rng.randint(0, 3))}}
            made += [("f", json.dumps(call)), ("o", text(rng, 1))]
        made.append(("a", text(rng, 1)))
    return made[:8 - len(made) % 2] if len(made) > 8 else made


def drawn(rng, name, tokenizer, digest):
    tools = [tool(rng) for _ in range(rng.randint(1, 3))] if name in chat.WITH_TOOLS and rng.random() < 0.4 else None
    turns, system = talk(rng, tools), text(rng) if rng.random() < 0.5 else ""
    if tools and not system and name == "qwen3_nothink":
        system = "s"  # chat.py says why
    asked = [{"role": "system", "content": system}] if system else []
    asked += [chat.turn_of(role, words) for role, words in turns]
    more = dict(chat.MORE.get(name, {}), **({"tools": tools} if tools else {}))
    row = {"template": name, "sha256": digest, "messages": [words for _, words in turns], "system": system}
    if tools:
        row.update(roles="".join(role for role, _ in turns), tools=json.dumps(tools))
    written = tokenizer.apply_chat_template(asked, tokenize=False, **more)
    written = written.replace("<\uff5cend\u2581of\u2581sentence\uff5c>", tokenizer.eos_token)
    written = written.replace("<think>\n\n</think>\n\n", "")  # empty thoughts, which chat_test leaves out
    return dict(row, text=chat.hashlib.sha256(written.encode()).hexdigest(), whole=written)


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    templates = [(os.path.basename(p)[:-6].split("--")[0], open(p, encoding="utf-8").read())
                 for p in sorted(glob.glob(os.path.join(sys.argv[3], "*.jinja")))]
    templates.append(("llama4", chat.processing_llama4.chat_template))
    rng, made, refused = random.Random(seed), [], 0
    for name, template in templates:
        tokenizer, digest = chat.tokenizer_of(template)
        for _ in range(count):
            try:
                made.append(drawn(rng, name, tokenizer, digest))
            except Exception as e:  # what the chat template raises
                print(name, type(e).__name__, e)
                refused += 1
    with open(sys.argv[4], "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n")
    print("%d rows of %d templates, %d refused" % (len(made), len(templates), refused))


main()
