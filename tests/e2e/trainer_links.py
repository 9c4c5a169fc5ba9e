#!/usr/bin/env python3
"""Nodes with links of their own: network namespaces on a bridge, a token bucket on each link.
The same model trained with ZeRO-3 and with experts that stay. What a step moves between nodes is what formulas
say, to the byte, and so is the ratio of the two layouts; what leaves the interfaces is that and at most 5 % beside
it (headers of segments of 8,948 bytes, acknowledgements, beats and sums on the control connections).

usage: trainer_links.py BUILD [full]   full: three nodes, 0.7 GB of experts, 100, 400 and 1,000 Mbit/s (20 minutes)

Bytes of a step are the difference of a long run and a short one. Skipped where namespaces or token buckets are not
permitted. Times decide nothing but in full: at 100 and 400 Mbit/s the layouts' steps are at least 0.7 of the time
apart that their bytes take, and within 35 % of what the plan says for the speeds that it measures in the same run.
"""
import json
import os
import re
import shutil
import subprocess
import sys

import trainer_lib as t

SMALL = dict(hidden_size=256, num_hidden_layers=4, first_k_dense_replace=1, moe_intermediate_size=256, intermediate_size=512,
             n_routed_experts=16, num_experts_per_tok=2, n_group=1, topk_group=1, num_attention_heads=4,
             num_key_value_heads=4, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32)
FULL = dict(SMALL, hidden_size=1024, num_hidden_layers=8, moe_intermediate_size=512, intermediate_size=2048,
            n_routed_experts=32, num_experts_per_tok=4, num_attention_heads=8, num_key_value_heads=8, q_lora_rank=256,
            kv_lora_rank=128, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64)
SHORT, LONG, MBIT = 2, 3, 10 ** 6  # only from the second pass on is anything kept
tag = "ftl%d" % os.getpid()


def ip(*words):
    return subprocess.run(words, capture_output=True, text=True)


def must(*words):
    run = ip(*words)
    if run.returncode != 0:
        print("skipped: %s: %s" % (" ".join(words), run.stderr.strip()))
        sys.exit(77)


def connect(nodes):
    """Namespaces TAG-0 …, each with eth0 at 10.99.0.k+1 and no way to this machine. Only this process's."""
    if os.getuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        print("skipped: needs root, ip and tc")
        sys.exit(77)
    must("ip", "link", "add", tag, "type", "bridge")
    must("ip", "link", "set", tag, "mtu", "9000", "up")
    for k in range(nodes):
        ns, link = "%s-%d" % (tag, k), "%sv%d" % (tag, k)
        must("ip", "netns", "add", ns)
        must("ip", "link", "add", link, "mtu", "9000", "type", "veth", "peer", "name", "eth0", "mtu", "9000", "netns", ns)
        must("ip", "link", "set", link, "master", tag, "up")
        must("ip", "-n", ns, "addr", "add", "10.99.0.%d/24" % (k + 1), "dev", "eth0")
        must("ip", "-n", ns, "link", "set", "lo", "up")
        must("ip", "-n", ns, "link", "set", "eth0", "up")
        must("ip", "netns", "exec", ns, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1gbit", "burst",
             "256kb", "latency", "400ms")
        with open("in-%d" % k, "w") as f:
            f.write('#!/bin/sh\nexec nsenter --net=/run/netns/%s %s "$@"\n' % (ns, t.flowtrain))
        os.chmod("in-%d" % k, 0o755)


def disconnect(nodes):
    for k in range(nodes):
        ip("ip", "netns", "del", "%s-%d" % (tag, k))
    ip("ip", "link", "del", tag)


def limit(nodes, mbit):
    """The rate of every link."""
    for k in range(nodes):
        tc = ("ip", "netns", "exec", "%s-%d" % (tag, k), "tc", "qdisc")
        must(*tc, "replace", "dev", "eth0", "root", "handle", "1:", "tbf", "rate", "%dmbit" % mbit, "burst", "256kb",
             "latency", "400ms")


def wires(nodes):
    """Bytes that left each node so far."""
    out = []
    for k in range(nodes):
        text = ip("ip", "-n", "%s-%d" % (tag, k), "-j", "-s", "link", "show", "dev", "eth0").stdout
        out.append(json.loads(text)[0]["stats64"]["tx"]["bytes"])
    return out


def run(nodes, deepspeed, steps, **more):
    """(bytes that each node sent, but to measure links; {what of where: (planned, counted)}, seconds of a step as planned and as they were,
    rank 0's text)"""
    before, plain, runs = wires(nodes), t.flowtrain, []
    for k in range(nodes):
        words = ["launch", "--nproc_per_node", "1", "--nnodes", str(nodes), "--node_rank", str(k), "--master_addr",
                 "10.99.0.1", "--master_port", "29500", "--"]
        t.flowtrain = os.path.abspath("in-%d" % k)
        runs.append(t.Run(words + t.train_args("out-%d" % k, steps=steps, deepspeed=deepspeed, bf16=True, save_strategy="no",
                                               model_name_or_path="model", no_resume_state=True,
                                               overwrite_output_dir=True, tokenized_path=None, **more)))
    t.flowtrain = plain
    for one in runs:
        if one.wait(900) != 0:
            t.check("a run over the links", False, one.text()[-3000:])
    text = runs[0].text()
    rows = {kind: (int(planned), int(got)) for kind, planned, got in
            re.findall(r"(\w+) +(?:bytes|rows) between nodes +(\d+) +(\d+)", text)}
    took = re.search(r"us of a step +(\d+) +(\d+)", text)
    seconds = [int(n) / 1e6 for n in took.groups()] if took else [0, 0]
    return [b - a - measuring(text) / nodes for a, b in zip(before, wires(nodes))], rows, seconds, text


def measuring(text):
    """Bytes by which a run measured its links."""
    return int((re.findall(r"measured by (\d+) bytes", text) or [0])[0])


def unit(nodes, *shapes):
    """What one gather of these bf16 tensors sends, of all ranks: slices of whole 256 bytes, round a ring."""
    size = sum(-(-rows * cols * 2 // 256) * 256 for rows, cols in shapes)
    return nodes * (nodes - 1) * (-(-(-(-size // nodes)) // 256) * 256)


def gathered(c, nodes):
    """What the gathers of a micro-batch send: all weights twice but the head; the first attention is still there
    from the micro-batch before."""
    H, heads = c["hidden_size"], c["num_attention_heads"]
    qk, v, rank = c["qk_nope_head_dim"] + c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
    attention = unit(nodes, (c["q_lora_rank"], H), (heads * qk, c["q_lora_rank"]), (rank + c["qk_rope_head_dim"], H),
                     (heads * (c["qk_nope_head_dim"] + v), rank), (H, heads * v))

    def ffn(inner):
        return unit(nodes, (inner, H), (inner, H), (H, inner))
    layers, dense = c["num_hidden_layers"], c["first_k_dense_replace"]
    experts = c["n_routed_experts"] * ffn(c["moe_intermediate_size"]) + ffn(c["moe_intermediate_size"] * c["n_shared_experts"])
    whole = layers * attention + dense * ffn(c["intermediate_size"]) + (layers - dense) * experts
    return 2 * whole - attention + unit(nodes, (c["vocab_size"], H))


def exchanged(c, nodes, rows, tokens_max):
    """What the exchange of a micro-batch sends between nodes: for each row x and weights, y; dy, x and weights,
    dx and those of the weights; and the choices of tokens_max tokens, from each rank to all."""
    H, K, layers = c["hidden_size"], c["num_experts_per_tok"], c["num_hidden_layers"] - c["first_k_dense_replace"]
    return rows * (5 * 2 * H + 3 * 4 * K) + nodes * (nodes - 1) * layers * tokens_max * K * 4


def layout(c, nodes, name, deepspeed, **more):
    """(bytes of all nodes a step: counted, on the wire; seconds of a step: planned, counted)"""
    short, few, _, brief = run(nodes, deepspeed, SHORT, **more)
    long, many, seconds, text = run(nodes, deepspeed, LONG, **more)
    step = {kind: (many[kind][1] - few.get(kind, (0, 0))[1]) / (LONG - SHORT) for kind in many}
    rows = step.pop("routes", 0)
    wire = sum(b - a for a, b in zip(short, long)) / (LONG - SHORT)
    counted = sum(step.values())
    if "tokens" in step:
        kind, want = "tokens", exchanged(c, nodes, rows, more["cutoff_len"] * more["per_device_train_batch_size"])
        print("%s: a token goes to %.3f other nodes, planned %.3f" %
              (name, many["routes"][1] / visits(c, text), many["routes"][0] / visits(c, text)))
        t.check("%s: as many rows as planned" % name, abs(many["routes"][1] / many["routes"][0] - 1) <= 0.05, many)
    else:
        kind, want = "weights", gathered(c, nodes)
    t.same("%s: %s of a step" % (name, kind), step[kind], want)
    t.same("%s: adapters" % name, many["adapters"][1], many["adapters"][0])
    # What two runs send besides may differ by so much: to find each other, again, and around what they measure links by.
    start = (65536 + 0.01 * (measuring(brief) + measuring(text))) / (LONG - SHORT)
    t.check("%s: on the wire %.0f, counted %.0f" % (name, wire, counted),
            0 < counted - start <= wire <= 1.05 * counted + start)
    print("%s: a step: %s; %.0f counted, %.0f on the wire; %.2f s, planned %.2f" %
          (name, ", ".join("%s %.0f" % one for one in sorted(step.items())), counted, wire, seconds[1], seconds[0]),
          flush=True)
    return counted, wire, seconds


def visits(c, text):
    """Tokens of the steps, once a layer with experts."""
    steps, tokens = re.search(r"Plan and run, .*, (\d+) steps of (\d+) tokens", text).groups()
    return int(steps) * int(tokens) * (c["num_hidden_layers"] - c["first_k_dense_replace"])


def zero(live, **more):
    """Nothing is gathered ahead or kept, so that what a step moves is known."""
    return json.dumps(dict({"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
                            "zero_optimization": {"stage": 3, "stage3_max_live_parameters": live,
                                                  "stage3_prefetch_bucket_size": 0, "stage3_max_reuse_distance": 0}}, **more))


def compare(config, nodes, mbit, live, full, **more):
    """ZeRO-3 and experts that stay, side by side."""
    rate = "%d Mbit/s" % mbit
    zero0, wire0, (p0, s0) = layout(config, nodes, rate + ", ZeRO-3", zero(live), **more)
    zero1, wire1, (p1, s1) = layout(config, nodes, rate + ", experts", zero(live, moe={"enabled": True, "expert_group": "world"}),
                              **more)
    saved = (wire0 - wire1) / nodes * 8 / (mbit * MBIT)
    print("%s: bytes %.2f to 1; a step takes %.2f s less, its bytes %.2f s: %.2f of it" %
          (rate, zero0 / zero1, s0 - s1, saved, (s0 - s1) / saved), flush=True)
    if full and mbit <= 400:
        t.check("%s: the time follows the bytes" % rate, s0 - s1 >= 0.7 * saved, (s0, s1, saved))
        t.check("%s: as planned to 35 %%" % rate, all(abs(s / p - 1) <= 0.35 for p, s in ((p0, s0), (p1, s1))))
        t.check("%s: the plan's choice" % rate, (p0 > p1) == (s0 > s1))


def main():
    t.begin()
    full = sys.argv[2:] == ["full"]
    nodes, live = (3, 16e6) if full else (2, 8e5)
    with open("ex/model/config.json") as f:
        config = dict(json.load(f), **(FULL if full else SMALL))
    with open("config.json", "w") as f:
        json.dump(config, f)
    subprocess.run([t.flowtrain, "init", "--config", "config.json", "--output", "model", "--tokenizer", "ex/model"],
                   check=True, stdout=subprocess.DEVNULL)
    more = dict(cutoff_len=12, per_device_train_batch_size=8, accumulation=1, ddp_timeout=600)
    if full:
        more.update(per_device_train_batch_size=42)
    try:
        connect(nodes)
        for mbit in (100, 400, 1000) if full else (100,):
            limit(nodes, mbit)
            compare(config, nodes, mbit, live, full, **more)
    finally:
        disconnect(nodes)
    t.finish()


main()
