#!/usr/bin/env python3
"""Gradients of weights between nodes: sums that go from node to node where that sends fewer bytes. The model is that of ranks on
one node, bit for bit, for every stage, accumulation, type between ranks and place of the optimizer; the bytes between nodes are
those of the plan and of a formula, and fewer than each rank's parts to their owners; a rank that ends, ends all.

usage: trainer_nodes.py BUILD [half | ends | cuda]     (half: 16 bits between ranks, and experts; ends: nodes of other sizes, and a
rank that ends; cuda: on the simulated GPU, by NCCL)
"""
import os
import re
import signal
import sys

import trainer_full as full
import trainer_lib as t
from trainer_wire import zero

FLAGS = dict(dataset="arithmetic", stage="sft", template="default", packing=None, overwrite_output_dir=True, steps=2)
LORA = dict(lora_rank=None, lora_alpha=None, lora_dropout=None, lora_target=None)
LINKS = ("on the same rank", "inside nodes", "between nodes")


def make_wide():
    """An FFN whose parts are sent in several pieces."""
    config = dict(full.read("llama/config.json"), hidden_size=128, intermediate_size=512, num_hidden_layers=2)
    os.mkdir("wide-config")
    with open("wide-config/config.json", "w") as f:
        full.json.dump(config, f)
    t.same("wide: made", t.Run(["init", "--config", "wide-config", "--output", "wide", "--tokenizer", "ex/model"]).wait(), 0)


def start(out, nodes, world, model, **more):
    """Launchers of so many nodes; rank 0 writes to `out`."""
    port = t.free_port()
    flags = dict(FLAGS, finetuning_type="full", model_name_or_path=model, weight_decay=0.1, max_grad_norm=1.0,
                 lr_scheduler_type="constant", packing="false", tokenized_path=None, save_steps=1000, **LORA)
    return [t.launch(out if k == 0 else "%s-node%d" % (out, k), world, port=port, nodes=nodes, node=k, **dict(flags, **more))
            for k in range(nodes)]


def train(what, out, nodes, world, model, **more):
    """Rank 0's text."""
    runs = start(out, nodes, world, model, **more)
    for run in runs:
        code = run.wait()
        t.check(what + ": it ends well", code == 0, (code, run.text()[-2000:]))
    return runs[0].text()


def same(what, out, ref):
    """Of losses, which are sums of each rank's, the last bits may differ."""
    t.same(what + ": norms", *[[norm for _, norm in t.losses(o).values()] for o in (out, ref)])
    t.check(what + ": the model", t.file_bytes(out + "/model.safetensors") == t.file_bytes(ref + "/model.safetensors"))


def far_bytes(nodes, world, part, sums, chain):
    """Between nodes in a step: parts of the ranks' own type, and of sums; chain: of each micro-batch, whether sums go from
    node to node. The first has no sums that owners give to the first node."""
    ranks = nodes * world
    return sum((nodes - 1) * ranks * sums + (2 if later else 1) * (nodes - 1) * world * sums if one else ranks * (ranks - world) * part
               for later, one in enumerate(chain))


def way(text):
    found = re.search(r"gradients nodes=(\d+) ranks_of_node=(\d+) first=(\w+) later=(\w+)", text)
    return found and [int(found[1]), int(found[2]), found[3] == "chain", found[4] == "chain"]


# Name, nodes, ranks of each, whether sums go from node to node first and later; model, type between ranks, stage, host.
WAYS = (("2 x 2, stage 3", 2, 2, True, False, "wide", None, 3, False),
        ("3 x 2, stage 2", 3, 2, True, True, "wide", None, 2, False),
        ("2 x 3, stage 3, optimizer on the host", 2, 3, True, True, "wide", None, 3, True),
        ("2 x 3, stage 1, a tied head", 2, 3, True, True, "qwen2-tied", None, 1, False))
HALF = (("3 x 2, experts, optimizer on the host", 3, 2, True, True, "deepseek_v3", None, 3, True),
        ("2 x 3, 16 bits", 2, 3, False, False, "wide", "bf16", 2, False),
        ("2 x 4, 16 bits", 2, 4, True, False, "wide", "bf16", 3, False))


def references(ways):
    """{model, type, micro-batches of a step: the folder of a run on one node}, {ranks: bytes of a part of "wide"}"""
    refs, parts = {}, {}
    for name, nodes, world, _, _, model, wire, _, _ in ways:
        ranks, micros = nodes * world, micros_of(nodes, world)
        here = ranks if model == "qwen2-tied" or (model, wire) == ("wide", None) else 2  # of a tied head sums are those of so many ranks
        key, out = (model, wire, ranks * micros), "ref-%s-%d" % (model, ranks)
        if key in refs and ranks in parts:
            continue
        text = full.train(out, model, world=here, accumulation=ranks * micros // here, deepspeed=zero(2, wire), **FLAGS)
        refs[key] = out
        t.check(name + ": one node has no choice", way(text) is None, way(text))
        if (model, wire) == ("wide", None):
            parts[ranks] = t.compared(text)["gradients, bytes inside nodes"][1] / FLAGS["steps"] / micros / ranks / (ranks - 1)
    return refs, parts


def micros_of(nodes, world):
    """The order of a sum is the same for every number of ranks that divides 12."""
    return 12 // (nodes * world) if 12 % (nodes * world) == 0 else 2


def bits_and_bytes(ways, **more):
    refs, parts = references(ways)
    for name, nodes, world, first, later, model, wire, stage, host in ways:
        ranks, micros = nodes * world, micros_of(nodes, world)
        text = train(name, "out", nodes, world, model, accumulation=micros, deepspeed=zero(stage, wire, host), **more)
        same(name, "out", refs[model, wire, ranks * micros])
        t.same(name + ": the way", way(text), [nodes, world, first, later])
        rows = t.compared(text)
        for link in LINKS:
            plan, got = rows.get("gradients, bytes " + link, (0, -1))
            t.check("%s: gradients %s" % (name, link), 0 < plan == got, rows)
        plan, got = rows.get("memory, bytes of a rank", (0, 0))
        t.check(name + ": memory", 0 < plan and abs(got - plan) <= 32e6, rows)
        if ranks in parts and model == "wide":
            want, alone = (FLAGS["steps"] * far_bytes(nodes, world, parts[ranks], parts[ranks], chain)
                           for chain in ([first] + [later] * (micros - 1), [False] * micros))
            t.same(name + ": by a formula", rows["gradients, bytes between nodes"][1], want)
            t.check(name + ": fewer", want < alone, (want, alone))


def uneven():
    """Two ranks of one node and one of another: parts go to their owners, and that is said."""
    port = t.free_port()
    words = t.train_args("out", **dict(FLAGS, finetuning_type="full", model_name_or_path="wide", weight_decay=0.1, max_grad_norm=1.0,
                                       lr_scheduler_type="constant", packing="false", tokenized_path=None, save_steps=1000,
                                       accumulation=4, deepspeed=zero(2), **LORA))
    runs = [t.Run(words, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(local),
                  LOCAL_WORLD_SIZE=str(size), GROUP_RANK=str(node), GROUP_WORLD_SIZE="2")
            for rank, node, local, size in ((0, 0, 0, 2), (1, 0, 1, 2), (2, 1, 0, 1))]
    for run in runs:
        code = run.wait()
        t.check("uneven nodes: they end well", code == 0, (code, run.text()[-2000:]))
    t.has("uneven nodes", runs[0].text(), "gradients go from each rank to their owners, not from node to node: nodes have different "
                                          "numbers of ranks")
    full.train("one", "wide", accumulation=12, deepspeed=zero(2), **FLAGS)
    same("uneven nodes", "out", "one")


def killed(**more):
    for victim in (0, 1):
        out = "gone-%d" % victim
        runs = start(out, 2, 2, "wide", **dict(dict(steps=10**7, save_strategy="no", deepspeed=zero(3), accumulation=1), **more))
        t.until("%s is under way" % out, lambda: t.steps_done(out) >= 2 or runs[0].ended())
        os.kill(t.until("its pid", lambda: runs[victim].ranks().get(1)), signal.SIGKILL)
        for k, run in enumerate(runs):
            t.same("rank 1 of node %d killed: exit status of node %d" % (victim, k), run.wait(), 4)
        t.has("rank 1 of node %d killed: how" % victim, runs[victim].text(), "was killed by signal 9")
        t.check("rank 1 of node %d killed: named" % victim, re.search(
            r"rank %d \([^)]+\) (in collective \d+ '[^']+'|after collective \d+) ended" % (2 * victim + 1), runs[1 - victim].text()),
            runs[1 - victim].text()[-2000:])


def simulated():
    """By NCCL in checking mode, each rank with a GPU of its own; NCCL keeps the order of calls or events do; gradients travel
    beside the backward or not."""
    flags = dict(FLAGS, device="cuda", steps=1)
    full.train("ref", "llama", world=2, accumulation=6, deepspeed=zero(3), **flags)
    for name, nodes, world, on, host, env in (("3 x 2", 3, 2, True, False, {}), ("2 x 3, not beside", 2, 3, False, True, {}),
                                              ("2 x 3, events", 2, 3, True, True, {"NCCL_LAUNCH_ORDER_IMPLICIT": "0"})):
        name = "simulated, " + name
        text = train(name, "out", nodes, world, "llama", accumulation=2, deepspeed=zero(3, None, host, zero={"overlap_comm": on}),
                     env=dict(env, TORCH_DISTRIBUTED_DEBUG="DETAIL"), **flags)
        same(name, "out", "ref")
        t.same(name + ": the way", way(text), [nodes, world, True, True])
        t.has(name + ": by NCCL", text, "comm nccl order=" + ("events" if env else "host"))


def main():
    t.begin()
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    if part == "cuda":
        t.simulate()
    full.make_inputs()
    make_wide()
    if part == "cuda":
        simulated()
    elif part == "half":
        bits_and_bytes(HALF, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})  # checking mode
    elif part == "ends":
        uneven()
        killed()
    else:
        bits_and_bytes(WAYS)
    t.finish()


main()
