#!/usr/bin/env python3
"""Lists the keys that DeepSpeed reads from its JSON: at the top, and in the blocks that it validates.

    python3 tests/golden/deepspeed_keys.py        # with deepspeed 0.19 installed; writes deepspeed_keys.json

The keys at the top are those that its configuration class asks the dictionary for.
"""
import json
import os

import torch
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.runtime.zero.offload_config import (DeepSpeedZeroOffloadOptimizerConfig,
                                                   DeepSpeedZeroOffloadParamConfig)

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deepspeed_keys.json")


class Asked(dict):
    """A configuration that remembers what it was asked for."""

    def __init__(self, *args):
        super().__init__(*args)
        self.keys_asked = set()

    def get(self, key, default=None):
        self.keys_asked.add(key)
        return super().get(key, default)

    def __contains__(self, key):
        self.keys_asked.add(key)
        return super().__contains__(key)

    def __getitem__(self, key):
        self.keys_asked.add(key)
        return super().__getitem__(key)


def fields(model):
    names = set()
    for name, field in model.model_fields.items():
        names.add(name)
        alias = field.alias or field.validation_alias
        if isinstance(alias, str):
            names.add(alias)
    return sorted(names)


def main():
    asked = Asked({"train_batch_size": 1, "zero_optimization": {"stage": 3}})
    DeepSpeedConfig(asked)
    blocks = {"": sorted(asked.keys_asked), "zero_optimization": fields(DeepSpeedZeroConfig),
              "offload_param": fields(DeepSpeedZeroOffloadParamConfig),
              "offload_optimizer": fields(DeepSpeedZeroOffloadOptimizerConfig),
              "fp16": fields(DeepSpeedFP16Config), "bf16": fields(DeepSpeedBF16Config)}
    with open(OUT, "w", encoding="utf-8") as f:
        json.dump(blocks, f, indent=1)
        f.write("\n")
    print({name: len(keys) for name, keys in blocks.items()}, torch.__version__)


main()
