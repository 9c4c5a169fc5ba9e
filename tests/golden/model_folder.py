#!/usr/bin/env python3
"""What transformers loads of a model folder whose files say one thing twice.

    /path/to/python tests/golden/model_folder.py    # needs torch, transformers, peft; writes model_folder.json

A row has the files: safetensors as {tensor: the one value that all its numbers have}, an index as the map of names,
or a text. Of the loaded model it records the value of one tensor of each part, or "random" where the reference draws
the weight anew, and whether embedding and head are one; or that it refuses the folder.
"""
import json
import logging
import os
import tempfile
import warnings

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model_folder.json")
CONFIG = {"model_type": "llama", "vocab_size": 6, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1,
          "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 8, "max_position_embeddings": 32,
          "rope_theta": 10000.0, "dtype": "float32", "tie_word_embeddings": True}
SHAPES = {"embed_tokens.weight": [6, 4], "norm.weight": [4]}
SHAPES.update({"layers.0." + k: v for k, v in {
    "input_layernorm.weight": [4], "post_attention_layernorm.weight": [4], "self_attn.q_proj.weight": [4, 4],
    "self_attn.k_proj.weight": [4, 4], "self_attn.v_proj.weight": [4, 4], "self_attn.o_proj.weight": [4, 4],
    "mlp.gate_proj.weight": [8, 4], "mlp.up_proj.weight": [8, 4], "mlp.down_proj.weight": [4, 8]}.items()})
HEAD = "lm_head.weight"
INDEX = "model.safetensors.index.json"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def tensors(value, prefix="model.", **change):
    out = {prefix + k: value for k in SHAPES}
    for key, v in change.items():
        out[{"head": HEAD, "embed": prefix + "embed_tokens.weight", "norm": prefix + "norm.weight"}[key]] = v
    return {k: v for k, v in out.items() if v is not None}


def shards(value):
    whole = tensors(value)
    first = {k: v for k, v in whole.items() if "layers" in k}
    rest = {k: v for k, v in whole.items() if "layers" not in k}
    return {ONE: first, TWO: rest, INDEX: {**{k: ONE for k in first}, **{k: TWO for k in rest}}}


def index_alone(value):
    return {INDEX: shards(value)[INDEX]}


MIXED = {(k if "layers" in k else "model." + k): 1.0 for k in SHAPES}
ROWS = [
    ("one file", {}, {"model.safetensors": tensors(1.0)}),
    ("shards", {}, shards(2.0)),
    ("one file beside shards", {}, {"model.safetensors": tensors(1.0), **shards(2.0)}),
    ("one file beside an index whose shards are gone", {}, {"model.safetensors": tensors(1.0), **index_alone(2.0)}),
    ("one file beside an index that is none", {}, {"model.safetensors": tensors(1.0), INDEX: "no index"}),
    ("one file that is none beside shards", {}, {"model.safetensors": "no file", **shards(2.0)}),
    ("an index whose shards are gone", {}, index_alone(2.0)),
    ("one file beside pickled weights", {}, {"model.safetensors": tensors(1.0), "pytorch_model.bin": "anything"}),
    ("shards beside pickled weights", {}, {**shards(2.0), "pytorch_model.bin": "anything"}),
    ("tied, a head of zeros", {}, {"model.safetensors": tensors(1.0, head=0.0)}),
    ("tied, a head of its own", {}, {"model.safetensors": tensors(1.0, head=3.0)}),
    ("tied, the same head", {}, {"model.safetensors": tensors(1.0, head=1.0)}),
    ("tied, a head that differs in digits that bf16 lacks", {"dtype": "bfloat16"},
     {"model.safetensors": tensors(1.0, head=1.0001)}),
    ("tied, a head and no embedding", {}, {"model.safetensors": tensors(1.0, embed=None, head=3.0)}),
    ("tied, neither", {}, {"model.safetensors": tensors(1.0, embed=None)}),
    ("not tied, a head", {"tie_word_embeddings": False}, {"model.safetensors": tensors(1.0, head=3.0)}),
    ("not tied, no head", {"tie_word_embeddings": False}, {"model.safetensors": tensors(1.0)}),
    ("names of the trunk", {}, {"model.safetensors": tensors(1.0, prefix="")}),
    ("names of the trunk, its architecture", {"architectures": ["LlamaModel"]},
     {"model.safetensors": tensors(1.0, prefix="")}),
    ("names of the trunk, a head of its own", {}, {"model.safetensors": tensors(1.0, prefix="", head=3.0)}),
    ("names of both kinds", {}, {"model.safetensors": MIXED}),
    ("a tensor by both names", {}, {"model.safetensors": {**tensors(1.0), "norm.weight": 5.0}}),
    ("no norm", {}, {"model.safetensors": tensors(1.0, norm=None)}),
    ("an adapter beside the model", {}, {
        "model.safetensors": tensors(1.0), "adapter_config.json": json.dumps(
            {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM",
             "base_model_name_or_path": "elsewhere"}),
        "adapter_model.safetensors": {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": 1.0,
                                      "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight": 1.0}}),
]


def shape_of(name):
    if name == HEAD:
        return [6, 4]
    if ".lora_" in name:
        return [1, 4] if ".lora_A" in name else [4, 1]
    return SHAPES[name[len("model."):] if name.startswith("model.") else name]


def write(folder, name, content):
    path = os.path.join(folder, name)
    if isinstance(content, str):
        with open(path, "w", encoding="utf-8") as f:
            f.write(content)
    elif name == INDEX:
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"metadata": {}, "weight_map": content}, f)
    else:
        save_file({k: torch.full(shape_of(k), v) for k, v in content.items()}, path, {"format": "pt"})


def value(t):
    first = float(t.detach().flatten()[0])
    return first if bool((t == t.flatten()[0]).all()) else "random"


def loaded(config, files):
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "config.json", json.dumps(config))
        for name, content in files.items():
            write(folder, name, content)
        try:
            model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        except Exception as e:
            return {"refused": "%s: %s" % (type(e).__name__, str(e).strip().split("\n")[0][:100])}
        if getattr(model, "peft_config", None):
            return {"adapter": True}
        head, embed = model.lm_head.weight, model.model.embed_tokens.weight
        gone = sorted(info["missing_keys"])
        return {"missing": gone, "tied": head.data_ptr() == embed.data_ptr(), "head": value(head),
                "embed": value(embed), "norm": value(model.model.norm.weight),
                "layer": value(model.model.layers[0].self_attn.q_proj.weight)}


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    rows = []
    for name, change, files in ROWS:
        config = {**CONFIG, **change}
        rows.append({"name": name, "config": config, "files": files, **loaded(config, files)})
    with open(OUT, "w", encoding="utf-8") as f:
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        f.write('{"versions": %s,\n"rows": [\n' % json.dumps(versions))
        f.write(",\n".join(json.dumps(r) for r in rows) + "\n]}\n")
    print(len(rows), "rows")


main()
