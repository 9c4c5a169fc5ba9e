#!/usr/bin/env python3
"""Lists every argument of the reference's trainer with its type and default.

    python3 tests/golden/arguments.py        # with llamafactory 0.9.5 and one transformers installed

Run it once for each generation of transformers (4.57 and 5.6): arguments.json names for every
argument the generations that have it, and holds the default of the newest.
"""
import dataclasses
import enum
import json
import os
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


def main():
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

    rows = {}
    if os.path.exists(OUT):
        rows = {row["name"]: row for row in json.load(open(OUT, encoding="utf-8"))}
    generation = ".".join(transformers.__version__.split(".")[:2])
    for cls in (ModelArguments, DataArguments, TrainingArguments, FinetuningArguments,
                GeneratingArguments):
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
            if old["transformers"] and max(old["transformers"]) > generation:
                row = dict(old)
            row["transformers"] = sorted(set(old["transformers"]) | {generation})
            rows[field.name] = row
    with open(OUT, "w", encoding="utf-8") as f:
        lines = (json.dumps(rows[name], ensure_ascii=False) for name in sorted(rows))
        f.write("[\n" + ",\n".join(lines) + "\n]\n")
    print(generation, len(rows))


main()
