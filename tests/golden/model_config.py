#!/usr/bin/env python3
"""What transformers makes of a config.json: each key absent, null and changed, and keys that say one thing twice.

    /path/to/python tests/golden/model_config.py    # needs torch, transformers; writes model_config.json

A row has a name, what is changed in the content of its architecture's base, and what the reference does with it: the
facts of the model that AutoModelForCausalLM builds which differ from those of the base, or "refused". Facts are taken from the
modules, so that they are what runs and not what the configuration says. Small models are run once, since some
are refused only then.
"""
import json
import logging
import os
import tempfile
import warnings

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model_config.json")
RUN_MAX = 2_000_000  # parameters of a model that is run

GROUPED = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 2, "head_dim": 12, "intermediate_size": 48, "max_position_embeddings": 96,
           "rms_norm_eps": 3e-5, "initializer_range": 0.03, "rope_theta": 777.0, "tie_word_embeddings": False,
           "hidden_act": "silu", "attention_dropout": 0.0, "bos_token_id": 3, "eos_token_id": 4, "pad_token_id": 5,
           "dtype": "float32"}
WINDOW = {"sliding_window": 7}
QWEN = {**WINDOW, "use_sliding_window": True, "max_window_layers": 1}
BASES = {
    "llama": {**GROUPED, "attention_bias": False, "mlp_bias": False},
    "mistral": {**GROUPED, **WINDOW},
    "ministral": {**GROUPED, **WINDOW, "layer_types": ["full_attention", "sliding_attention"]},
    "mixtral": {**GROUPED, **WINDOW, "num_local_experts": 4, "num_experts_per_tok": 3, "router_jitter_noise": 0.0,
                "output_router_logits": False, "router_aux_loss_coef": 0.5},
    "qwen2": {**GROUPED, **QWEN},
    "qwen3": {**GROUPED, **QWEN, "attention_bias": False},
    "qwen3_moe": {**GROUPED, **QWEN, "attention_bias": False, "num_experts": 4, "num_experts_per_tok": 3,
                  "moe_intermediate_size": 20, "norm_topk_prob": True, "decoder_sparse_step": 2,
                  "mlp_only_layers": [0], "output_router_logits": False, "router_aux_loss_coef": 0.5},
    "deepseek_v3": {
        "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 6, "v_head_dim": 10, "intermediate_size": 48, "moe_intermediate_size": 20,
        "n_routed_experts": 32, "n_shared_experts": 2, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2,
        "first_k_dense_replace": 1, "norm_topk_prob": False, "routed_scaling_factor": 1.75, "rope_interleave": False,
        "max_position_embeddings": 96, "rms_norm_eps": 3e-5, "initializer_range": 0.03, "rope_theta": 777.0,
        "tie_word_embeddings": False, "hidden_act": "silu", "attention_dropout": 0.0, "attention_bias": True,
        "bos_token_id": 3, "eos_token_id": 4, "num_nextn_predict_layers": 0, "dtype": "float32"},
}

# Another value of a key, where one shows that the key is read.
CHANGED = {
    "vocab_size": 72, "hidden_size": 40, "num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 8,
    "intermediate_size": 56, "max_position_embeddings": 112, "rms_norm_eps": 1e-4, "initializer_range": 0.01,
    "rope_theta": 888.0, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "sliding_window": 9,
    "use_sliding_window": False, "max_window_layers": 0, "num_local_experts": 6, "num_experts": 6,
    "num_experts_per_tok": 2, "moe_intermediate_size": 28, "norm_topk_prob": True, "decoder_sparse_step": 1,
    "mlp_only_layers": [1], "q_lora_rank": 20, "kv_lora_rank": 14, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8,
    "v_head_dim": 12, "n_routed_experts": 16, "n_shared_experts": 1, "n_group": 2, "topk_group": 3,
    "first_k_dense_replace": 2, "routed_scaling_factor": 0.5, "rope_interleave": True, "eos_token_id": [6, 7],
    "bos_token_id": 8, "dtype": "bfloat16"}

LINEAR = {"rope_type": "linear", "factor": 2.0}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 24}
NONE = object()  # the key is taken out

# name, architectures, keys that are set: what stands in two places, and forms that are read in some way.
ALL = sorted(BASES)
DENSE = ["llama", "mistral", "qwen2", "qwen3"]
TWICE = [
    ("scaling beside parameters", ALL, {"rope_parameters": PLAIN, "rope_scaling": {**YARN}}),
    ("scaling beside parameters, no theta at the top", ALL,
     {"rope_theta": NONE, "rope_parameters": {**PLAIN, "rope_theta": 555.0}, "rope_scaling": {**YARN}}),
    ("scaling with a theta of its own", ALL,
     {"rope_parameters": PLAIN, "rope_scaling": {**YARN, "rope_theta": 333.0}}),
    ("scaling with a theta of its own, alone", ALL,
     {"rope_theta": NONE, "rope_scaling": {**YARN, "rope_theta": 333.0}}),
    ("scaling with a theta beside one at the top", ALL, {"rope_scaling": {**YARN, "rope_theta": 333.0}}),
    ("scaling null beside parameters", ALL, {"rope_scaling": None, "rope_parameters": PLAIN}),
    ("scaling empty beside parameters", ALL, {"rope_scaling": {}, "rope_parameters": PLAIN}),
    ("parameters empty beside scaling", ALL, {"rope_scaling": {**YARN}, "rope_parameters": {}}),
    ("parameters null beside scaling", ALL, {"rope_scaling": {**YARN}, "rope_parameters": None}),
    ("parameters with a theta beside one at the top", ALL, {"rope_parameters": PLAIN}),
    ("parameters without a theta", ALL, {"rope_parameters": {**YARN}}),
    ("parameters without a theta, none at the top", ALL, {"rope_theta": NONE, "rope_parameters": {**YARN}}),
    ("no theta at all", ALL, {"rope_theta": NONE}),
    ("a theta of null", ALL, {"rope_theta": None}),
    ("parameters with a theta of null", ALL, {"rope_parameters": {"rope_type": "default", "rope_theta": None}}),
    ("linear with a theta", DENSE, {"rope_theta": NONE, "rope_scaling": {**LINEAR, "rope_theta": 500.0}}),
    ("linear with a theta beside one at the top", DENSE, {"rope_scaling": {**LINEAR, "rope_theta": 500.0}}),
    ("type beside rope_type", DENSE, {"rope_scaling": {"type": "dynamic", "rope_type": "linear", "factor": 2.0}}),
    ("type alone", DENSE, {"rope_scaling": {"type": "linear", "factor": 2.0}}),
    ("a scaling without a type", DENSE, {"rope_scaling": {"factor": 2.0}}),
    ("original length at the top, yarn", ALL,
     {"original_max_position_embeddings": 48, "rope_scaling": {**YARN}}),
    ("original length at the top alone, yarn", ALL,
     {"original_max_position_embeddings": 48, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
    ("original length at the top, parameters, yarn", ALL,
     {"original_max_position_embeddings": 48, "rope_parameters": {**YARN}}),
    ("original length of null at the top, yarn", ALL,
     {"original_max_position_embeddings": None, "rope_scaling": {**YARN}}),
    ("no original length, yarn", ALL, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
    ("original length at the top, llama3", DENSE,
     {"original_max_position_embeddings": 48, "rope_scaling": {**LLAMA3}}),
    ("no original length, llama3", DENSE,
     {"rope_scaling": {k: v for k, v in LLAMA3.items() if k != "original_max_position_embeddings"}}),
    ("original length at the top, default", ALL, {"original_max_position_embeddings": 48}),
    ("original length at the top, linear", DENSE,
     {"original_max_position_embeddings": 48, "rope_scaling": {**LINEAR}}),
    ("yarn without a factor", ALL, {"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 24}}),
    ("yarn with a factor of null", ALL,
     {"rope_scaling": {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 24}}),
    ("yarn with attn_factor", ALL, {"rope_scaling": {**YARN, "attn_factor": 0.8}}),
    ("yarn with attention_factor", ALL, {"rope_scaling": {**YARN, "attention_factor": 0.8}}),
    ("yarn with mscale", ALL, {"rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.5}}),
    ("yarn with mscale alone", ALL, {"rope_scaling": {**YARN, "mscale": 0.7}}),
    ("yarn with mscale_all_dim alone", ALL, {"rope_scaling": {**YARN, "mscale_all_dim": 0.7}}),
    ("yarn with betas", ALL, {"rope_scaling": {**YARN, "beta_fast": 20, "beta_slow": 2, "truncate": False}}),
    ("yarn with truncate of null", ALL, {"rope_scaling": {**YARN, "truncate": None}}),
    ("yarn with betas of 0 and null", ALL, {"rope_scaling": {**YARN, "beta_fast": 0, "beta_slow": None}}),
    ("yarn with factors of null", ALL,
     {"rope_scaling": {**YARN, "attention_factor": None, "mscale": None, "mscale_all_dim": None}}),
    ("a type of null", DENSE, {"rope_scaling": {"rope_type": None, "type": "linear", "factor": 2.0}}),
    ("an unknown key of a scaling", DENSE, {"rope_scaling": {**LINEAR, "long_factor": [1.0]}}),
    ("parameters by kind of layer", ALL,
     {"rope_parameters": {"full_attention": PLAIN, "sliding_attention": PLAIN}}),
    ("part of a head, at the top", ALL, {"partial_rotary_factor": 0.5}),
    ("part of a head, at the top, null", ALL, {"partial_rotary_factor": None}),
    ("part of a head, at the top, more than one", ALL, {"partial_rotary_factor": 2}),
    ("part of a head, at the top, a text", ALL, {"partial_rotary_factor": "half"}),
    ("part of a head, at the top beside parameters", ALL, {"partial_rotary_factor": 0.5, "rope_parameters": PLAIN}),
    ("part of a head, in parameters", ALL, {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}}),
    ("part of a head, in parameters, null", ALL, {"rope_parameters": {**PLAIN, "partial_rotary_factor": None}}),
    ("part of a head, in a scaling", ALL, {"rope_scaling": {"rope_type": "default", "partial_rotary_factor": 0.5}}),
    ("part of a head, linear", DENSE, {"rope_scaling": {**LINEAR, "partial_rotary_factor": 0.5}}),
    ("part of a head, at the top, linear", DENSE, {"rope_scaling": {**LINEAR}, "partial_rotary_factor": 0.5}),
    ("part of a head, at the top, dynamic", DENSE,
     {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "partial_rotary_factor": 0.5}),
    ("part of a head, yarn", ALL, {"rope_scaling": {**YARN, "partial_rotary_factor": 0.5}}),
    ("part of a head, at the top, yarn", ALL, {"rope_scaling": {**YARN}, "partial_rotary_factor": 0.5}),
    ("part of a head, at the top, whole in a yarn", ALL,
     {"rope_scaling": {**YARN, "partial_rotary_factor": 1.0}, "partial_rotary_factor": 0.5}),
    ("part of a head, llama3", DENSE, {"rope_scaling": {**LLAMA3, "partial_rotary_factor": 0.5}}),
    ("part of a head, more than one, yarn", ALL, {"rope_scaling": {**YARN, "partial_rotary_factor": 2}}),
    ("part of a head, almost one, yarn", ALL, {"rope_scaling": {**YARN, "partial_rotary_factor": 0.99}}),
    ("part of a head, null, yarn", ALL, {"rope_scaling": {**YARN, "partial_rotary_factor": None}}),
    ("dtype beside torch_dtype", ALL, {"dtype": "float32", "torch_dtype": "bfloat16"}),
    ("torch_dtype alone", ALL, {"dtype": NONE, "torch_dtype": "bfloat16"}),
    ("dtype null beside torch_dtype", ALL, {"dtype": None, "torch_dtype": "bfloat16"}),
    ("another architecture", DENSE, {"architectures": ["MixtralForCausalLM"]}),
    ("the architecture of the trunk", ALL, {"architectures": ["LlamaModel"]}),
    ("layers by type", ["llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral"],
     {"layer_types": ["sliding_attention", "full_attention"]}),
    ("layers by type, null", ["llama", "mistral", "ministral", "qwen2", "qwen3"], {"layer_types": None}),
    ("layers by type, no window", ["mistral", "ministral", "qwen2", "qwen3"],
     {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": None}),
    ("layers by type, all full, no window", ["mistral", "ministral", "qwen2", "qwen3"],
     {"layer_types": ["full_attention", "full_attention"], "sliding_window": None}),
    ("layers by type, all full", ["mistral", "ministral", "qwen2", "qwen3"],
     {"layer_types": ["full_attention", "full_attention"]}),
    ("layers by type, window off", ["qwen2", "qwen3"],
     {"layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": False}),
    ("layers by type, of old names", ["mistral", "qwen2"], {"layer_types": ["attention", "attention"]}),
    ("layers by type, too few", ["mistral", "qwen2"], {"layer_types": ["full_attention"]}),
    ("layers by type, no head_dim", ["mistral", "ministral", "qwen2", "qwen3"],
     {"layer_types": ["sliding_attention", "full_attention"], "head_dim": NONE}),
    ("a window that is switched on", ["llama", "mistral", "mixtral"],
     {"sliding_window": 9, "use_sliding_window": False}),
    ("experts by the other name", ["mixtral"], {"num_local_experts": NONE, "num_experts": 6}),
    ("experts by both names", ["mixtral"], {"num_experts": 6}),
    ("experts by both names, the other first", ["mixtral"],
     {"num_local_experts": NONE, "num_experts": 6, "num_local_experts ": 5}),
    ("experts by the other name", ["qwen3_moe"], {"num_experts": NONE, "num_local_experts": 6}),
    ("experts by both names", ["qwen3_moe"], {"num_local_experts": 6}),
    ("experts by the other name", ["deepseek_v3"], {"n_routed_experts": NONE, "num_local_experts": 16}),
    ("experts by both names", ["deepseek_v3"], {"num_local_experts": 16}),
    ("layers behind by the other name", ["deepseek_v3"], {"num_nextn_predict_layers": NONE, "num_mtp_layers": 2}),
    ("kinds of FFN beside a first layer", ["deepseek_v3"], {"mlp_layer_types": ["sparse", "dense", "sparse"]}),
    ("kinds of FFN", ["qwen3_moe"], {"mlp_layer_types": ["sparse", "sparse"]}),
    ("dense layers beside a step", ["qwen3_moe"], {"mlp_only_layers": [1], "decoder_sparse_step": 1}),
    ("a dense layer that there is not", ["qwen3_moe"], {"mlp_only_layers": [5], "decoder_sparse_step": 1}),
    ("a head_dim of deepseek", ["deepseek_v3"], {"head_dim": 14}),
    ("a head_dim of deepseek, as saved", ["deepseek_v3"], {"head_dim": 6, "qk_head_dim": 14}),
    ("another qk_head_dim", ["deepseek_v3"], {"qk_head_dim": 99}),
    ("other scores", ["deepseek_v3"], {"scoring_func": "softmax"}),
    ("other ways of choosing", ["deepseek_v3"], {"topk_method": "greedy"}),
    ("experts in some layers", ["deepseek_v3"], {"moe_layer_freq": 2}),
    ("another epsilon", ALL, {"layer_norm_eps": 0.5}),
    ("another file of weights", ALL, {"transformers_weights": "other.safetensors"}),
    ("other files for a version", ALL, {"configuration_files": ["config.4.0.0.json"]}),
]


def facts(config, model):
    attention, layers = model.model.layers[0].self_attn, model.model.layers
    windows = [getattr(layer.self_attn, "sliding_window", None) for layer in layers]
    if config.model_type in ("mistral", "mixtral"):
        windows = [config.sliding_window] * len(layers)
    out = {"class": type(model).__name__, "vocab_size": config.vocab_size, "hidden_size": config.hidden_size,
           "num_hidden_layers": len(layers), "num_attention_heads": config.num_attention_heads,
           "intermediate_size": config.intermediate_size,
           "max_position_embeddings": config.max_position_embeddings,
           "rms_norm_eps": model.model.norm.variance_epsilon, "initializer_range": config.initializer_range,
           "tie_word_embeddings": config.tie_word_embeddings,
           "bos_token_id": config.bos_token_id, "eos_token_id": config.eos_token_id,
           "rope_theta": float(config.rope_parameters["rope_theta"]), "rope_type": config.rope_parameters["rope_type"],
           "frequencies": [float(x) for x in model.model.rotary_emb.inv_freq.to("cpu", torch.float64)],
           "rope_factor": float(model.model.rotary_emb.attention_scaling), "softmax_scale": float(attention.scaling),
           "windows": [w or 0 for w in windows]}
    moe = [hasattr(layer.mlp, "experts") or hasattr(layer.mlp, "gate") for layer in layers]
    out["experts_in"] = [i for i, m in enumerate(moe) if m]
    if any(moe):
        block = layers[moe.index(True)].mlp
        out["experts"] = block.experts.num_experts
        out["num_experts_per_tok"] = config.num_experts_per_tok
        out["moe_intermediate_size"] = block.experts.intermediate_dim
        if config.model_type != "mixtral":
            out["norm_topk_prob"] = bool(config.norm_topk_prob)
    if config.model_type == "deepseek_v3":
        out.update({k: getattr(config, k) for k in (
            "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "n_shared_experts",
            "n_group", "topk_group", "routed_scaling_factor", "rope_interleave")})
        out["attention_bias"] = attention.o_proj.bias is not None
    else:
        out["num_key_value_heads"] = config.num_key_value_heads
        out["head_dim"] = attention.head_dim
        out["qkv_bias"] = attention.q_proj.bias is not None
        out["o_bias"] = attention.o_proj.bias is not None
        out["mlp_bias"] = getattr(getattr(layers[0].mlp, "gate_proj", None), "bias", None) is not None
    return out


def made(content):
    """The facts of a folder with this config.json, or why the reference refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(content, f)
        try:
            config = AutoConfig.from_pretrained(folder)
            dtype = str(config.dtype).replace("torch.", "")
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
            small = sum(p.numel() for p in model.parameters()) <= RUN_MAX
            if small:
                model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
                with torch.no_grad():
                    model(torch.arange(8)[None])
                return {"want": {**facts(config, model), "dtype": dtype}}
            if model.model.rotary_emb.inv_freq.device.type == "meta":
                model.model.rotary_emb = type(model.model.rotary_emb)(config)
            return {"want": {**facts(config, model), "dtype": dtype}}
        except Exception as e:  # whatever the reference raises: it does not train this model
            return {"refused": "%s: %s" % (type(e).__name__, str(e).strip().split("\n")[0][:100])}


def rows():
    for arch, base in sorted(BASES.items()):
        keys = {k: NONE for k in base}
        yield arch, "as it stands", {}
        for key in keys:
            yield arch, key + " absent", {key: NONE}
            yield arch, key + " null", {key: None}
            if key in CHANGED and CHANGED[key] != base[key]:
                change = {key: CHANGED[key]}
                if key == "num_hidden_layers" and "layer_types" in base:
                    change["layer_types"] = base["layer_types"] * 2
                yield arch, key + " changed", change
        for name, archs, change in TWICE:
            if arch in archs:
                yield arch, name, change


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    out = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "bases": {}, "rows": []}
    for arch, base in BASES.items():
        out["bases"][arch] = {"model_type": arch, **base}
    for arch, name, change in rows():
        content = dict(out["bases"][arch])
        for key, value in change.items():
            content.pop(key, None)
            if value is not NONE:
                content[key.strip()] = value
        row = {"arch": arch, "name": name, "without": sorted(k for k, v in change.items() if v is NONE),
               "with": {k.strip(): v for k, v in change.items() if v is not NONE}}
        row.update(made(content))
        if not change:
            whole = row["want"]
        elif "want" in row:
            row["want"] = {k: row["want"].get(k) for k in sorted({*row["want"], *whole})
                           if row["want"].get(k) != whole.get(k)}
        out["rows"].append(row)
    with open(OUT, "w", encoding="utf-8") as f:
        f.write('{"versions": %s,\n"bases": %s,\n"rows": [\n' % (json.dumps(out["versions"]), json.dumps(out["bases"])))
        f.write(",\n".join(json.dumps(r) for r in out["rows"]) + "\n]}\n")
    print(len(out["rows"]), "rows,", sum("refused" in r for r in out["rows"]), "refused")


main()
