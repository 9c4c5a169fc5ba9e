#!/usr/bin/env python3
"""Lists every argument of the reference's trainer with its type and default.

    python3 tests/golden/arguments.py        # with llamafactory 0.9.5 and one transformers installed

Run it once for each generation of transformers (4.57, 5.6 and 5.23): arguments.json names for every
argument the generations that have it, and holds the default of the newest.

    python3 tests/golden/arguments.py build/trainer/cli/flowtrain    # writes nothing

says which arguments of what is installed that program does not know, and fails if there are any.
"""
import dataclasses
import enum
import json
import os
import re
import subprocess
import sys
import types
import typing

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "arguments.json")


def plain(value):
    if isinstance(value, enum.Enum):
        return value.value
    return value


def kind(hint):
    """One word for a type: bool, int, float, text, or json where a mapping is taken."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind(x) for x in typing.get_args(hint) if x is not type(None)]
        return "json" if "json" in kinds else "text" if "text" in kinds else kinds[0]
    if hint in (bool, int, float):
        return hint.__name__
    if hint is dict or typing.get_origin(hint) is dict:
        return "json"
    return "text"


def number(generation):
    return [int(part) for part in generation.split(".")]


def classes():
    # the package itself asks for a dozen programs that its argument classes do not need
    import importlib.util
    root = os.path.dirname(importlib.util.find_spec("llamafactory").origin)
    for name in ("", ".hparams", ".extras"):
        module = types.ModuleType("llamafactory" + name)
        module.__path__ = [os.path.join(root, *name.split(".")[1:])]
        sys.modules["llamafactory" + name] = module
    import transformers
    from llamafactory.hparams.data_args import DataArguments
    from llamafactory.hparams.finetuning_args import FinetuningArguments
    from llamafactory.hparams.generating_args import GeneratingArguments
    from llamafactory.hparams.model_args import ModelArguments
    from llamafactory.hparams.training_args import TrainingArguments

    return ".".join(transformers.__version__.split(".")[:2]), (
        ModelArguments, DataArguments, TrainingArguments, FinetuningArguments, GeneratingArguments)


def compare(flowtrain):
    generation, found = classes()
    table = subprocess.run([flowtrain, "help", "arguments"], check=True, capture_output=True, text=True).stdout
    known = set(re.findall(r"^\| `(\w+)` \|", table.split("\n# ")[0], re.M))
    names = sorted({field.name for cls in found for field in dataclasses.fields(cls) if field.init})
    unknown = [name for name in names if name not in known]
    print("transformers %s: %d arguments, unknown to flowtrain: %s" % (generation, len(names), ", ".join(unknown) or "none"))
    sys.exit(1 if unknown else 0)


def main():
    if len(sys.argv) > 1:
        compare(sys.argv[1])
    rows = {}
    if os.path.exists(OUT):
        rows = {row["name"]: row for row in json.load(open(OUT, encoding="utf-8"))}
    generation, found = classes()
    for cls in found:
        hints = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if not field.init:
                continue
            value = field.default
            if value is dataclasses.MISSING:
                made = field.default_factory is not dataclasses.MISSING
                value = field.default_factory() if made else None
            row = {"name": field.name, "type": kind(hints[field.name]), "default": plain(value)}
            old = rows.get(field.name, {"transformers": []})
            if old["transformers"] and max(map(number, old["transformers"])) > number(generation):
                row = dict(old)
            row["transformers"] = sorted(set(old["transformers"]) | {generation}, key=number)
            rows[field.name] = row
    with open(OUT, "w", encoding="utf-8") as f:
        lines = (json.dumps(rows[name], ensure_ascii=False) for name in sorted(rows))
        f.write("[\n" + ",\n".join(lines) + "\n]\n")
    print(generation, len(rows))


main()
