#!/usr/bin/env python3
"""The training steps of layers.c by transformers and PEFT, with the same weights, adapters and tokens.

usage: peer.py CONFIG TOKENS SEQUENCE [steps=N] [layers=N] [type=bf16|f32] [device=cuda|cpu] [supervised=SHARE]

EXPERTS: eager, grouped_mm or batched_mm; ATTENTION: sdpa, eager or flash_attention_2; RECOMPUTE: all or none
(environment). Gradient checkpointing of each layer unless RECOMPUTE is none, AdamW, the gradient's norm clipped to 1, as layers.c does.
Exit status: 0; 3: no room in memory; 77: this Python lacks a package; 1: anything else.
Numbers are those of trainer/tensor/draw.h and trainer/config/untrained.h, drawn on the device.
"""
import json
import os
import statistics
import sys
import time

NO_ROOM, LACKS = 3, 77
try:
    import peft
    import torch
    import transformers
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
except ImportError as e:
    print(e, file=sys.stderr)
    sys.exit(LACKS)

SEED, RANK, LR = 1, 16, 1e-3
TARGETS = ["q_a_proj", "q_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
M64 = (1 << 64) - 1
PIECE = 1 << 24


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M64
    return x ^ x >> 31


def key_of(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 & M64
    return mix(mix(SEED + 0x9E3779B97F4A7C15 & M64) ^ h)


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def shifted(x, n):
    """x >> n of unsigned numbers, kept as i64."""
    return (x >> n) & ((1 << (64 - n)) - 1)


def bits(key, first, n, device):
    """64 random bits for each index from first on, as i64."""
    i = torch.arange(first + 1, first + 1 + n, dtype=torch.int64, device=device)
    x = i * signed(0x9E3779B97F4A7C15) + signed(key)
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


def normal(b):
    total = (b & 0xFFFF) + (b >> 16 & 0xFFFF) + (b >> 32 & 0xFFFF) + shifted(b, 48)
    return (total - 131070).to(torch.float32) * torch.tensor(2.6428998e-5, dtype=torch.float32, device=b.device)


def uniform(b):
    return 2 * (shifted(b, 40).to(torch.float32) * 2.0**-24) - 1


def fill(tensor, name, scale, how):
    """tensor[i] = scale * how(bits i of the stream `name`), rounded to its type once."""
    flat, key = tensor.view(-1), key_of(name)
    scale = torch.tensor(scale, dtype=torch.float32, device=tensor.device)
    for at in range(0, flat.numel(), PIECE):
        n = min(PIECE, flat.numel() - at)
        flat[at:at + n] = (scale * how(bits(key, at, n, tensor.device))).to(tensor.dtype)


def deviation(config, fan_in, to_residual):
    one = torch.tensor(1.0)
    s = torch.maximum(torch.tensor(config.initializer_range), one / torch.tensor(float(fan_in)).sqrt())
    return float(s / torch.tensor(2.0 * config.num_hidden_layers).sqrt()) if to_residual else float(s)


def draw_matrix(config, weight, name):
    module = name.split(".")[-2]
    fill(weight, name, deviation(config, weight.shape[1], module in ("o_proj", "down_proj")), normal)


@torch.no_grad()
def draw_model(config, model):
    for name, p in list(model.named_parameters()) + list(model.named_buffers()):
        if name.endswith("mlp.experts.gate_up_proj"):
            for e in range(p.shape[0]):
                half, base = p.shape[1] // 2, name[:-len("gate_up_proj")] + f"{e}."
                draw_matrix(config, p[e, :half], base + "gate_proj.weight")
                draw_matrix(config, p[e, half:], base + "up_proj.weight")
        elif name.endswith("mlp.experts.down_proj"):
            for e in range(p.shape[0]):
                draw_matrix(config, p[e], name[:-len("down_proj")] + f"{e}.down_proj.weight")
        elif name.endswith("e_score_correction_bias"):
            fill(p, name, 0.05, uniform)
        elif "norm" in name.split(".")[-2]:
            p.fill_(1)
        elif name.endswith(".bias"):
            p.zero_()
        elif name.endswith(".weight"):
            draw_matrix(config, p, name)


@torch.no_grad()
def draw_adapters(model):
    for name, p in model.named_parameters():
        if ".lora_A." in name:
            module = name[len("base_model.model."):name.index(".lora_A.")]
            fill(p, module, float(torch.tensor(1.0) / torch.tensor(float(p.shape[1])).sqrt()), uniform)
            p.copy_(p.to(model.dtype).to(p.dtype))
        elif ".lora_B." in name:
            p.zero_()


def make(config, o):
    dtype = torch.bfloat16 if o["type"] == "bf16" else torch.float32
    with torch.device(o["device"]):
        model = DeepseekV3ForCausalLM._from_config(config, dtype=dtype, attn_implementation=o["attention"],
                                                   experts_implementation=o["experts"])
    draw_model(config, model)
    targets = [t for t in TARGETS if any(n.endswith("." + t) for n, _ in model.named_modules())]
    model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=targets,
                                                       lora_dropout=0.0), autocast_adapter_dtype=True)
    draw_adapters(model)
    if o["recompute"] == "all":
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    return model.train()


def forget_peak():
    """The kernel's peak of this process's resident memory begins anew."""
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def resident_peak():
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1]) / 1024


def main():
    path, tokens, sequence = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    o = {"steps": "3", "layers": "0", "type": "bf16", "device": "cuda", "supervised": "1",
         "experts": os.environ.get("EXPERTS", "grouped_mm"), "attention": os.environ.get("ATTENTION", "sdpa"),
         "recompute": os.environ.get("RECOMPUTE", "all")}
    o.update(a.split("=", 1) for a in sys.argv[4:])
    raw = json.load(open(path))
    if int(o["layers"]) > 0:
        raw["num_hidden_layers"] = int(o["layers"])
    config = DeepseekV3Config(**{k: v for k, v in raw.items() if k not in ("torch_dtype", "architectures")})
    config.use_cache = False
    device = torch.device(o["device"])
    cuda = device.type == "cuda"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}, "
          f"experts {o['experts']}, attention {o['attention']}, recompute {o['recompute']}", flush=True)
    model = make(config, o)
    drawn = [(v & M64) % config.vocab_size for v in bits(key_of("tokens"), 0, tokens, "cpu").tolist()]
    ids = torch.tensor(drawn, device=device).view(-1, sequence)
    labels = ids.clone()
    labels[:, :sequence - int(float(o["supervised"]) * sequence)] = -100
    trained = [p for p in model.parameters() if p.requires_grad]
    optim = torch.optim.AdamW(trained, lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    forget_peak()
    seconds = []
    for i in range(int(o["steps"]) + 1):
        if cuda:
            torch.cuda.synchronize()
        t, worked = time.monotonic(), time.process_time()
        optim.zero_grad(set_to_none=True)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optim.step()
        value = float(loss.detach())
        if cuda:
            torch.cuda.synchronize()
        t = time.monotonic() - t
        seconds += [t] if i > 0 else []
        print(f"step {i + 1}: loss {value:.6f}, {t:.3f} s, of processors {time.process_time() - worked:.3f} s"
              f"{'' if i else ' (not counted)'}", flush=True)
    print(f"{tokens} tokens of {sequence}: {tokens / statistics.median(seconds):.1f} tokens/s"
          + (f", peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if cuda else f", peak {resident_peak():.1f} MiB"))


def no_room(e):
    """On the device, of a library there, or in the host's memory."""
    said = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "DefaultCPUAllocator")
    return isinstance(e, (torch.OutOfMemoryError, MemoryError)) or any(x in str(e) for x in said)


try:
    main()
except (ImportError, RuntimeError, MemoryError) as e:
    if not isinstance(e, ImportError) and not no_room(e):
        raise
    print(str(e).splitlines()[0] if str(e) else repr(e), file=sys.stderr)
    sys.exit(LACKS if isinstance(e, ImportError) else NO_ROOM)
