#!/usr/bin/env python3
"""Golden data of --additional_target: losses and gradient norms of ten steps of AdamW over adapters and modules beside them, by
transformers and PEFT; and an adapter that PEFT saved, with the logits that it gives.

Models are those of full_models.json, as `flowtrain init --config` draws them from seed 42; adapters begin as flowtrain draws them;
every step trains on the same two texts, as in full.py. Writes additional.json, {row: {"model", "flags", "losses", "norms"}}, and the
folder additional beside this file. f32 runs are computed in f64; "-bf16" runs have a bf16 module with f32 masters. Then the other way
round: PEFT loads what flowtrain has trained, and transformers what it has merged, with the logits of `flowtrain forward`.

Usage: additional.py FLOWTRAIN   (needs torch, transformers, peft)
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Trainer

HERE = os.path.dirname(os.path.abspath(__file__))
LR, DECAY, CLIP, STEPS = 1e-3, 0.1, 1.0, 10
QV = "q_proj,v_proj"
ROWS = {"ends": ("llama", QV, "embed_tokens,lm_head", None),
        "norms": ("llama", "k_proj,v_proj,up_proj", "norm,o_proj", None),
        "biases": ("qwen2", "k_proj,v_proj", "q_proj,model.norm", None),
        "tied-embedding": ("qwen2-tied", QV, "embed_tokens", None),
        "tied-head": ("qwen2-tied", QV, "lm_head", None),
        "tied-both": ("qwen2-tied", QV, "lm_head,embed_tokens", None),
        "experts": ("deepseek_v3", "q_b_proj,kv_b_proj,o_proj", "embed_tokens,lm_head,norm", None),
        "plus": ("llama", QV, "norm,lm_head", 4.0)}
TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 48, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "attention_bias": True,
        "mlp_bias": False, "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "rope_theta": 10000.0,
        "initializer_range": 0.02, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32"}


def run(*words, **more):
    return subprocess.run([str(w) for w in words], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more).stdout


def flags_of(row):
    model, target, additional, ratio = ROWS[row]
    return dict({"lora_target": target, "additional_target": additional, "lora_rank": 4, "lora_alpha": 8},
                **({"loraplus_lr_ratio": ratio} if ratio else {}))


def train_by(flowtrain, model, out, flags, **more):
    flags = dict({"stage": "pt", "do_train": True, "model_name_or_path": model, "dataset": "texts", "dataset_dir": "data",
                  "template": "default", "output_dir": out, "overwrite_output_dir": True, "cutoff_len": 64,
                  "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2, "packing": False, "lr_scheduler_type": "constant",
                  "learning_rate": LR, "weight_decay": DECAY, "max_grad_norm": CLIP, "max_steps": STEPS, "save_strategy": "no",
                  "no_resume_state": True, "device": "cpu"}, **dict(flags, **more))
    run(flowtrain, "train", *[w for k, v in flags.items() for w in ("--" + k, v)])


def groups_of(model, named, ratio):
    """The Trainer's, and with a ratio those of LLaMA-Factory's LoRA+."""
    decays = set(Trainer.get_decay_parameter_names(None, model)) if ratio is None else {n for n, _ in named if "bias" not in n}
    fast = {n for n, p in named if ratio is not None and ("lora_B" in n or p.ndim == 1)}
    return [{"names": [n for n, _ in named if (n in decays) == decay and (n in fast) == quick],
             "weight_decay": DECAY if decay else 0.0, "lr": LR * (ratio if ratio and quick else 1)}
            for decay in (True, False) for quick in (True, False)]


def train(folder, start, row, ids, bf16):
    _, target, additional, ratio = ROWS[row]
    dtype = torch.bfloat16 if bf16 else torch.float64
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager")
    config = LoraConfig(r=4, lora_alpha=8, target_modules=target.split(","), modules_to_save=additional.split(","), task_type="CAUSAL_LM")
    model = get_peft_model(base, config, autocast_adapter_dtype=False)
    adapters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in load_file(start + "/adapter_model.safetensors").items():
            if "lora_" in name:
                adapters[name.replace(".weight", ".default.weight")].copy_(value)
    model = model.to(dtype)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    wide = torch.float32 if bf16 else torch.float64
    masters = {n: p.detach().to(wide).clone().requires_grad_() for n, p in named}
    groups = [dict(g, params=[masters[n] for n in g.pop("names")]) for g in groups_of(model, named, ratio)]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=LR)
    targets = sum(x.shape[1] - 1 for x in ids)
    losses, norms = [], []
    for _ in range(STEPS):
        for m in masters.values():
            m.grad = torch.zeros_like(m)
        total = 0
        for x in ids:
            logits = model(input_ids=x).logits[0, :-1].to(wide)
            loss = torch.nn.functional.cross_entropy(logits, x[0, 1:], reduction="sum") / targets
            loss.backward()
            total += loss.item()
            for n, p in named:
                if p.grad is not None:
                    masters[n].grad += p.grad.to(wide)
                p.grad = None
        norms.append(torch.nn.utils.clip_grad_norm_(masters.values(), CLIP).item())
        optimizer.step()
        with torch.no_grad():
            for n, p in named:
                p.copy_(masters[n])
        losses.append(total)
    return {"losses": losses, "norms": norms, "trained": sum(p.numel() for _, p in named)}


def logits_by(flowtrain, ids, model, *adapter):
    with open("ids.json", "w") as f:
        json.dump([x[0].tolist() for x in ids], f)
    run(flowtrain, "forward", "--model_name_or_path", model, "--input_ids", "ids.json", "--output", "f.safetensors", "--device", "cpu",
        *(["--adapter_name_or_path"] + list(adapter) if adapter else []))
    return load_file("f.safetensors")["logits"].double()


def logits_of(model, ids):
    with torch.no_grad():
        return torch.cat([model(input_ids=x).logits[0] for x in ids]).double()


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")


def check_ours(flowtrain, folder, row, ids):
    """PEFT loads our adapter, transformers our merge; their logits are ours."""
    out = row + "-ours"
    train_by(flowtrain, folder, out, flags_of(row))
    ours = logits_by(flowtrain, ids, folder, out)
    theirs = logits_of(PeftModel.from_pretrained(load(folder), out).eval(), ids)
    run(flowtrain, "merge", "--model_name_or_path", folder, "--adapter_name_or_path", out, "--output", row + "-merged")
    merged = logits_of(load(row + "-merged").eval(), ids)
    again = logits_by(flowtrain, ids, row + "-merged")
    far = [((x - ours).norm() / ours.norm()).item() for x in (theirs, merged, again)]
    moved = ((logits_by(flowtrain, ids, folder) - ours).norm() / ours.norm()).item()
    print("%s: logits of PEFT are off by %.2g, of transformers with the merged model by %.2g, of flowtrain with it by %.2g; of the base by %.2g" %
          (row, *far, moved))
    assert max(far) < 1e-5 < moved, (row, far, moved)


def save_theirs(flowtrain):
    """An adapter of PEFT's for a tied model: embedding and head, a norm, a linear with a bias; and its logits."""
    os.mkdir("tiny-config")
    with open("tiny-config/config.json", "w") as f:
        json.dump(TINY, f)
    run(flowtrain, "init", "--config", "tiny-config", "--output", "tiny")
    torch.manual_seed(5)
    model = get_peft_model(load("tiny"), LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM",
                                                    modules_to_save=["embed_tokens", "lm_head", "model.norm", "0.self_attn.k_proj"]))
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p += 0.1 * torch.randn_like(p)
    folder = os.path.join(HERE, "additional")
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    os.remove(folder + "/README.md")
    ids = torch.tensor([[3, 17, 45, 8, 8, 30, 2, 21]])
    return {"config": TINY, "ids": ids.tolist(), "logits": logits_of(model.double().eval(), [ids]).tolist(),
            "names": sorted(load_file(folder + "/adapter_model.safetensors"))}


def main():
    flowtrain = os.path.abspath(sys.argv[1])
    with open(os.path.join(HERE, "full_models.json")) as f:
        models = json.load(f)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["OMP_NUM_THREADS"] = "1"
        run(flowtrain, "init", "--example", "ex")
        os.mkdir("data")
        with open("data/texts.jsonl", "w") as f:
            f.write("".join(json.dumps({"text": text}) + "\n" for text in models["texts"]))
        with open("data/dataset_info.json", "w") as f:
            json.dump({"texts": {"file_name": "texts.jsonl", "columns": {"prompt": "text"}}}, f)
        for name in sorted({row[0] for row in ROWS.values()}):
            os.mkdir(name + "-config")
            with open(name + "-config/config.json", "w") as f:
                json.dump(models["models"][name], f)
            run(flowtrain, "init", "--config", name + "-config", "--output", name, "--tokenizer", "ex/model")
            shutil.copy("ex/model/tokenizer_config.json", name)
        for row, (model, _, _, _) in ROWS.items():
            said = run(flowtrain, "tokenize", "--tokenizer", model, input="".join(json.dumps(x) + "\n" for x in models["texts"]))
            ids = [torch.tensor([json.loads(line)]) for line in said.splitlines() if line.startswith("[")]
            train_by(flowtrain, model, row + "-start", flags_of(row), learning_rate=0, max_steps=1)
            rows[row] = dict(train(model, row + "-start", row, ids, False), model=model, flags=flags_of(row))
            if model != "deepseek_v3":  # a router flips in bf16
                rows[row + "-bf16"] = dict(train(model, row + "-start", row, ids, True), model=model, flags=dict(flags_of(row), bf16=True))
            check_ours(flowtrain, model, row, ids)
        result = {"rows": rows, "theirs": save_theirs(flowtrain)}
    with open(os.path.join(HERE, "additional.json"), "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
