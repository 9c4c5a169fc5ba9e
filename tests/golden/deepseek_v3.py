#!/usr/bin/env python3
"""Golden data of small DeepSeek-V3 models: transformers' DeepseekV3ForCausalLM with PEFT's LoRA.

Writes, for each configuration, a folder beside this file: the model (config.json, model.safetensors
in the checkpoint's layout), the adapter as PEFT saves it, and golden.safetensors with

    input_ids, labels (B, S) i64; lengths (B) i64
    logits (tokens, V), loss, grad.NAME, experts.L (tokens, K): one forward and backward in f32
    bf16.NAME: distance |x - x_f32| / |x_f32| of the same in bf16 with the f32 run's experts, root
               mean square over the attention implementations
    steps.loss (10), final.NAME: ten AdamW steps in f32 on that batch

NAME is logits, loss, or an adapter tensor as PEFT writes it. Weights and adapters are drawn
bf16-representable, B included, so that f32 and bf16 runs start from the same numbers. Seeds in
which a routing decision (the K-th expert, or the cut between groups) is closer than 1e-3 in any of
the f32 runs are rejected, and tokens are drawn so that this is rare: a closer decision has no stable
answer to compare with.

Usage: deepseek_v3.py [CONFIG ...]   (needs torch, transformers, peft, safetensors)
"""
import json
import os
import platform
import shutil
import sys

import peft
import safetensors
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as ds

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deepseek_v3")
GAP, STEPS, LENGTHS = 1e-3, 10, [88, 60]
ATTENTION = ["sdpa", "eager"]
ADAMW = {"lr": 3e-5, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 0.8, "original_max_position_embeddings": 16}
MLA = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
BASE = dict(
    vocab_size=101, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
    q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
    intermediate_size=64, moe_intermediate_size=16, n_routed_experts=8, n_shared_experts=1,
    num_experts_per_tok=3, n_group=4, topk_group=2, first_k_dense_replace=1, norm_topk_prob=True,
    routed_scaling_factor=2.5, max_position_embeddings=128, rope_parameters=YARN,
    tie_word_embeddings=False, bos_token_id=0, eos_token_id=1, pad_token_id=None)
CONFIGS = {
    "yarn": (dict(), MLA),
    "plain": (dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), MLA),
    "no_q_lora": (dict(q_lora_rank=None), ["q_proj"] + MLA[2:]),
    "one_group": (dict(n_group=1, topk_group=1, norm_topk_prob=False), MLA),
    "two_shared": (dict(n_shared_experts=2, num_hidden_layers=2), MLA),
    "negative_bias": (dict(num_hidden_layers=2), MLA),
}


class Router:
    """Stands in for the router's forward: notes choices and gaps, or injects choices."""

    def __init__(self):
        self.original = ds.DeepseekV3TopkRouter.forward
        self.restart(None)
        ds.DeepseekV3TopkRouter.forward = lambda module, x: self.forward(module, x)

    def restart(self, mask):
        """mask (tokens): which of them are no padding and count for the gap."""
        self.inject, self.seen, self.gap, self.mask = None, [], float("inf"), mask

    def forward(self, module, x):
        if self.inject is not None:
            return self.forced(module, x, self.inject[len(self.seen)])
        logits, weights, ids = self.original(module, x)
        self.note_gap(module, logits.detach()[self.mask])
        self.seen.append(ids.detach())
        return logits, weights, ids

    def forced(self, module, x, ids):
        self.seen.append(ids)
        x = x.view(-1, module.hidden_dim)
        logits = torch.nn.functional.linear(x.float(), module.weight.float())
        weights = logits.sigmoid().gather(1, ids)
        if module.norm_topk_prob:
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
        return logits, weights * module.routed_scaling_factor, ids

    def note_gap(self, module, logits):
        choice = logits.sigmoid() + module.e_score_correction_bias
        groups = choice.view(choice.shape[0], module.num_group, -1)
        score = groups.topk(2, dim=-1)[0].sum(-1)
        if module.num_group > module.topk_group:
            order = score.sort(-1, descending=True)[0]
            gap = order[:, module.topk_group - 1] - order[:, module.topk_group]
            self.gap = min(self.gap, gap.min().item())
        kept = torch.zeros_like(score).scatter_(1, score.topk(module.topk_group, -1)[1], 1)
        mask = kept.unsqueeze(-1).expand_as(groups).reshape_as(choice)
        order = choice.masked_fill(mask == 0, float("-inf")).sort(-1, descending=True)[0]
        gap = order[:, module.top_k - 1] - order[:, module.top_k]
        self.gap = min(self.gap, gap.min().item())


def representable(x):
    return x.to(torch.bfloat16).float()


def draw(model, generator, negative):
    for name, p in list(model.named_parameters()) + list(model.named_buffers()):
        noise = torch.randn(p.shape, generator=generator)
        if "e_score_correction_bias" in name:
            x = -0.6 * torch.rand(p.shape, generator=generator) if negative else 0.1 * noise
        elif "norm" in name:
            x = 1 + 0.1 * noise
        elif "embed" in name:
            x = noise
        elif "inv_freq" in name:
            continue
        else:
            x = noise / p.shape[-1] ** 0.5 * (2 if "mlp.gate.weight" in name else 1)
        p.data.copy_(representable(x).to(p.dtype))


def make_batch(model, generator, vocab):
    """Two sequences, token by token: a token whose routing is closer than 4 * GAP is drawn again.
    What comes later does not change what came before it, so every token keeps its distance."""
    width = max(LENGTHS)
    ids = torch.randint(2, vocab, (2, width), generator=generator)
    for i in range(width):
        for b, n in enumerate(LENGTHS):
            while i < n:
                router.restart(torch.arange(i + 1) == i)
                with torch.no_grad():
                    model(input_ids=ids[b:b + 1, :i + 1])
                if router.gap >= 4 * GAP:
                    break
                ids[b, i] = torch.randint(2, vocab, (1,), generator=generator)
    labels = ids.clone()
    for b, n in enumerate(LENGTHS):
        ids[b, n:] = 0
        labels[b, n:] = -100
        labels[b, :4 + b] = -100
    mask = torch.arange(width)[None, :] < torch.tensor(LENGTHS)[:, None]
    return ids, labels, mask, torch.tensor(LENGTHS)


def with_adapter(model, targets, generator):
    model = get_peft_model(model, LoraConfig(
        r=4, lora_alpha=6, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"))
    for name, p in model.named_parameters():
        if "lora_" in name:
            x = torch.randn(p.shape, generator=generator) / p.shape[-1] ** 0.5
            p.data.copy_(representable(x if "lora_A" in name else 0.3 * x))
    return model


def adapters(model):
    return {n.replace(".default.", "."): p for n, p in model.named_parameters() if "lora_" in n}


def run(model, batch):
    """Logits of the real tokens, loss, and the gradient of every adapter tensor, in f32."""
    ids, labels, mask, _ = batch
    model.zero_grad()
    out = model(input_ids=ids, attention_mask=mask.long(), labels=labels)
    out.loss.backward()
    result = {"logits": out.logits.detach().float()[mask], "loss": out.loss.detach().float().view(1)}
    for name, p in adapters(model).items():
        result["grad." + name] = p.grad.detach().float().clone()
    return result


def train(model, batch):
    """Ten AdamW steps: the loss before each, and the adapter behind the last."""
    optimizer = torch.optim.AdamW(adapters(model).values(), **ADAMW)
    losses = []
    for _ in range(STEPS):
        losses.append(run(model, batch)["loss"])
        optimizer.step()
    result = {"final." + n: p.detach().clone() for n, p in adapters(model).items()}
    result["steps.loss"] = torch.cat(losses)
    return result


def build(name, seed):
    """One try; None when a routing gap is too small."""
    change, targets = CONFIGS[name]
    generator = torch.Generator().manual_seed(seed)
    base = DeepseekV3ForCausalLM(DeepseekV3Config(**{**BASE, **change})).float().eval()
    draw(base, generator, name == "negative_bias")
    state = {k: v.clone() for k, v in base.state_dict().items()}
    model = with_adapter(base, targets, generator)
    start = {n: p.detach().clone() for n, p in adapters(model).items()}
    batch = make_batch(model, generator, BASE["vocab_size"])
    router.restart(batch[2].view(-1))
    router.seen = []
    golden = run(model, batch)
    chosen = list(router.seen)
    router.seen = []
    trained = train(model, batch)
    if router.gap < GAP:
        return None
    golden.update(trained)
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    for n, p in adapters(model).items():
        p.data.copy_(start[n])
    model.save_pretrained(folder)
    base = DeepseekV3ForCausalLM(DeepseekV3Config(**{**BASE, **change}))
    base.load_state_dict(state)
    base.to(torch.bfloat16).save_pretrained(folder)
    return golden, chosen, batch, folder


def bf16_distance(folder, golden, chosen, batch):
    """Root mean square over the reference's attention implementations: one run's luck is large in
    tensors as small as these."""
    squares = {}
    for attention in ATTENTION:
        router.inject, router.seen = chosen, []
        base = DeepseekV3ForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation=attention).eval()
        model = peft.PeftModel.from_pretrained(base, folder, is_trainable=True)
        assert all(p.dtype == torch.float32 for p in adapters(model).values())
        for name, x in run(model, batch).items():
            square = ((x - golden[name]).norm() / golden[name].norm()).view(1) ** 2
            squares["bf16." + name] = squares.get("bf16." + name, 0) + square / len(ATTENTION)
    router.inject = None
    return {name: x.sqrt() for name, x in squares.items()}


def write(name):
    for seed in range(1, 300):
        made = build(name, seed)
        if made is not None:
            break
    golden, chosen, batch, folder = made
    gap = router.gap
    distance = bf16_distance(folder, golden, chosen, batch)
    golden.update(distance)
    ids, labels, mask, lengths = batch
    golden.update({"input_ids": ids, "labels": labels, "lengths": lengths})
    for i, x in enumerate(chosen):
        golden["experts.%d" % i] = x[mask.view(-1)].sort(-1)[0].to(torch.int32)
    golden = {k: v.contiguous() for k, v in golden.items()}
    save_file(golden, os.path.join(folder, "golden.safetensors"),
              metadata={"adamw": json.dumps(ADAMW), "seed": str(seed), "versions": json.dumps(versions())})
    for extra in ("README.md", "generation_config.json"):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    print("%-14s seed %d, gap %.4g, loss %.6f, bf16 logits %.3g, worst gradient %.3g" % (
        name, seed, gap, golden["loss"].item(), distance["bf16.logits"].item(),
        max(v.item() for k, v in distance.items() if "grad" in k)))


def versions():
    return {"python": platform.python_version(), "torch": torch.__version__, "peft": peft.__version__,
            "transformers": transformers.__version__, "safetensors": safetensors.__version__}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    print(", ".join("%s %s" % x for x in versions().items()))
    router = Router()
    for config in sys.argv[1:] or CONFIGS:
        write(config)
