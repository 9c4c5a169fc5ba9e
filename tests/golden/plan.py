#!/usr/bin/env python3
"""What `flowtrain plan` has to say of DeepSeek-V3 on three clusters: plan.json.

The formulas of trainer/plan/plan.h written again from the sizes of the model alone, with another
generator of random numbers. Standard library only.

usage: plan.py > plan.json
"""
import json
import random

H, L, DENSE, E, K, F, FD, V = 7168, 61, 3, 256, 8, 2048, 18432, 129280
HEADS, QR, KR, NOPE, ROPE, DV = 128, 1536, 512, 128, 64, 128
MOE, RANK = L - DENSE, 16
ATTENTION = H * QR + QR * HEADS * (NOPE + ROPE) + H * (KR + ROPE) + KR * HEADS * (NOPE + DV) + HEADS * DV * H
EXPERT = 3 * H * F
ROUTED = MOE * E * EXPERT
LINEARS = L * ATTENTION + DENSE * 3 * H * FD + MOE * EXPERT
OTHERS = MOE * E * H + 2 * V * H
USED = L * ATTENTION + DENSE * 3 * H * FD + MOE * ((K + 1) * EXPERT + E * H)
ADAPTERS = L * RANK * ((H + QR) + (QR + HEADS * (NOPE + ROPE)) + (H + KR + ROPE) + (KR + HEADS * (NOPE + DV)) +
                       (HEADS * DV + H))
GPUS = {"a100-80g": (271e12, 2.00e12, 230e9, 200e9, 12.5e9), "h100-80g": (794e12, 3.35e12, 360e9, 224e9, 55e9),
        "h200-141g": (794e12, 4.80e12, 360e9, 224e9, 55e9)}
CLUSTERS = [("a100-80g", 3, 8, 10), ("h200-141g", 1, 8, 10), ("h100-80g", 2, 8, 50)]


def kept(units=((ATTENTION, 3 * H * FD) * DENSE), reuse=10 ** 9):
    """Elements that windows keep from the end of a backward to the next forward: of the first layers, those between
    whose last use and first no more than `reuse` are gathered. The head lies between forward and backward."""
    before = 0
    for n, elements in enumerate(units):
        if 2 * before > reuse:
            return sum(units[:n])
        before += elements
    raise ValueError("more layers than the dense ones")


def spread(nodes, gpus, draws=40000):
    """Other nodes, and ranks inside nodes, that a token goes to: experts in 8 groups, the best 4 by their two best."""
    lot, ranks = random.Random(7), nodes * gpus
    owner = [e * ranks // E for e in range(E)]
    far = near = 0
    for _ in range(draws):
        score = [lot.random() for _ in range(E)]
        groups = sorted(range(8), key=lambda g: -sum(sorted(score[32 * g:32 * g + 32])[-2:]))[:4]
        chosen = sorted((e for g in groups for e in range(32 * g, 32 * g + 32)), key=lambda e: -score[e])[:K]
        to = {owner[e] for e in chosen}
        home, place = lot.randrange(nodes), lot.randrange(gpus)
        far += len({r // gpus for r in to} - {home})
        near += sum(r % gpus != place for r in to)
    return far / draws, near / draws


def expect(gpu, n, g, network, tokens, fp8):
    flops, stream, link, swap, _ = GPUS[gpu]
    linear = 1 + 4 / (128 * 128) if fp8 else 2
    routed, rest = ROUTED * linear, LINEARS * linear + OTHERS * 2
    weights, W, nic = routed + rest, n * g, network * 1e9
    a_token = 6 * USED + 4.6 * HEADS * (NOPE + ROPE + DV) * tokens * L + 4 * V * H + 8 * ADAPTERS
    work = a_token * tokens / flops
    step = ADAPTERS * (g * (W - g) / W * 4 + (W - 1) / W * 2) if n > 1 else 0
    never, head = (V * H + MOE * E * H) * 2, V * H * 2  # gathered never, and once
    row = 5 * 2 * H + 12 * K
    out = []

    def add(name, work_s, far, near, speed, passes=2):
        micro = max(work_s, far / nic, near / speed)
        out.append({"name": name, "passes": passes, "work_s": work_s, "far_bytes": far, "near_bytes": near, "step_bytes": step,
                    "step_s": micro + step / nic})
    for name, passes in (("ZeRO-3", 2), ("ZeRO-3 of DeepSpeed, 3 passes", 3)):
        moved = (passes * (weights - never - head) + head - (kept() * linear if passes == 2 else 0)) * (W - 1) / W
        add(name, max(work, passes * weights / stream), moved if n > 1 else 0, moved, link, passes)
    inner = (2 * (rest - never - head) + head - kept() * linear) * (g - 1) / g
    far, near = spread(n, g)
    drawn = {"far_all": far, "near_all": near}
    add("experts over all ranks", work,
        MOE * (g * tokens * far * row + (W - 1) * 4 * tokens * K) if n > 1 else 0,
        MOE * (tokens * near * row + (W - 1) * 4 * tokens * K) + inner, swap)
    if n > 1:
        _, near = spread(1, g)
        drawn["near_node"] = near
        inside = MOE * (tokens * near * row + (g - 1) * 4 * tokens * K) + inner
        add("experts on each node", work, 0, inside, swap)
        add("stages x experts (not built)", work * (8 + n - 1) / 8, 2 * n * g * tokens * H * 2, inside, swap)
    return {"gpu": gpu, "nodes": n, "gpus": g, "network": network, "cutoff_len": tokens, "fp8": fp8,
            "weights_bytes": weights, "adapters": ADAPTERS, "flops_a_token": a_token, **drawn, "layouts": out}


print(json.dumps([expect(*c, tokens, fp8) for c in CLUSTERS for tokens in (2048, 4096) for fp8 in (False, True)],
                 indent=1))
