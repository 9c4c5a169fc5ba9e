#!/usr/bin/env python3
"""Experts that stay on their ranks while tokens move: the run of one rank, within the bound of a type.

f32: losses to 1e-6 relative, gradient norms to 1e-5; sums of a token's experts are associated otherwise.
bf16: parts of a token are rounded once more on each rank and node: the first loss to 3e-3, the later ones,
of adapters that Adam has moved by the sign of small gradients, to 2^-7.
The same layout twice, and gone on with in the same layout: the same bits. In another layout: the bound.
A model that takes every expert for every token has bytes that are known: they are counted exactly.
"""
import json
import os
import re
import shutil

import trainer_lib as t

STEPS, SAMPLES = 4, 12
ADAPTER = "/adapter_model.safetensors"


def layout(stage=3, **moe):
    """Experts over all ranks unless it is said otherwise."""
    if "expert_parallel_size" not in moe:
        moe.setdefault("expert_group", "world")
    return json.dumps({"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto",
                       "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": stage},
                       "moe": dict(enabled=True, **moe)})


def by_hand(out, nodes, **more):
    """A rank each of nodes with so many ranks, started as a launcher of another kind would."""
    world, port, runs = sum(nodes), t.free_port(), []
    for node, ranks in enumerate(nodes):
        for local in range(ranks):
            rank = sum(nodes[:node]) + local
            env = dict(RANK=rank, WORLD_SIZE=world, LOCAL_RANK=local, LOCAL_WORLD_SIZE=ranks, GROUP_RANK=node,
                       GROUP_WORLD_SIZE=len(nodes), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            words = t.train_args("%s-%d" % (out, node), steps=STEPS, save_strategy="no",
                                 accumulation=SAMPLES // world, **more)
            runs.append(t.Run(words, **{k: str(v) for k, v in env.items()}))
    for run in runs:
        if run.wait() != 0:
            t.check(out + ": ends", False, run.text()[-2000:])
    return out + "-0", runs[0].text()


def local(out, world, steps=STEPS, **more):
    more = dict(dict(save_strategy="no", accumulation=SAMPLES // world), **more)
    return out, t.train(out, out, world, steps=steps, **more).text()


def near(what, got, want="one", loss=1e-6, norm=1e-5):
    """Losses and norms of two runs; the largest relative differences."""
    lines = [[(e["loss"], e["grad_norm"]) for e in t.log_lines(out) if "loss" in e] for out in (got, want)]
    t.same(what + ": steps", len(lines[0]), len(lines[1]))
    worst = [max([abs(a[i] / b[i] - 1) for a, b in zip(*lines)] or [9]) for i in (0, 1)]
    print("%s: losses within %.2g, gradient norms within %.2g" % (what, *worst))
    t.check(what + ": losses", worst[0] <= loss, "%g > %g" % (worst[0], loss))
    t.check(what + ": gradient norms", worst[1] <= norm, "%g > %g" % (worst[1], norm))


def exact(what, got, want):
    t.same(what + ": losses", t.losses(got), t.losses(want))
    t.check(what + ": the same adapter", t.file_bytes(got + ADAPTER) == t.file_bytes(want + ADAPTER))


def busy(text):
    """The busiest rank's rows over the mean, their layer, and what it would have: as a run says them."""
    said = re.search(r"busiest rank has ([\d.]+) times the mean \(layer (\d+)\); placed .* it would have ([\d.]+)", text)
    return said and (said.group(1), int(said.group(2)), said.group(3))


def planned_busy(path, ranks):
    layers = planned(path, ranks)["layers"]
    worst = max(layers, key=lambda p: p["busiest_in_order"])
    return ("%.2f" % worst["busiest_in_order"], worst["layer"], "%.2f" % max(p["busiest_placed"] for p in layers))


def layouts():
    """W = 1 to 4, groups of 2, 3 and 4, one node and several."""
    world = dict(deepspeed=layout(expert_group="world"))
    local("one", 1)
    for out, ranks, more in (("alone", 1, {}), ("two", 2, {}), ("three", 3, {}),
                             ("four", 4, dict(expert_parallel_size=4)), ("pairs", 4, dict(expert_parallel_size=2)),
                             ("each", 2, dict(expert_parallel_size=1))):
        text = local(out, ranks, deepspeed=layout(**more))[1]
        near(out, out)
        group = more.get("expert_parallel_size", ranks)
        t.has(out + ": the log", text, "Experts stay, tokens move: 8 routed experts a layer over %d ranks" % group)
        t.same(out + ": how busy", busy(text), planned_busy(out + "/expert_counts.json", group))
    local("whole", 2, deepspeed=layout(stage=0))
    near("the rest whole", "whole")
    words = json.loads(layout())
    del words["moe"]
    words["expert_parallel"] = {"enabled": True, "autoep_size": 2}
    local("autoep", 2, deepspeed=json.dumps(words))
    exact("DeepSpeed's words", "autoep", "two")
    shipped = os.path.join(os.path.dirname(os.path.abspath(t.__file__)), "../../pipelines/ds_experts.json")
    local("shipped", 2, deepspeed=shipped)
    exact("the shipped file", "shipped", "two")
    for name, nodes in (("2x2", (2, 2)), ("3+1", (3, 1)), ("1+2", (1, 2))):
        out, text = by_hand(name, nodes, **world)
        near("nodes of " + name, out)
        t.has(name + ": the log", text, "Other weights: sharded over %d ranks of a node" % nodes[0])
    again = by_hand("again", (2, 2), **world)[0]
    exact("the same layout twice", again, "2x2-0")
    out, text = by_hand("in-node", (2, 2), deepspeed=layout(expert_group="node"))
    near("a group in each node", out)
    t.has("a group in each node: nothing crosses", text, ", 0 between nodes; rounds of a layer: at most 1")


def types():
    local("bf16-one", 1, bf16=True)
    local("bf16", 4, bf16=True, deepspeed=layout())
    by_hand("bf16-nodes", (3, 1), bf16=True, deepspeed=layout(expert_group="world"))
    want = t.log_lines("bf16-one")[0]["loss"]
    for out in ("bf16", "bf16-nodes-0"):
        near(out, out, "bf16-one", 2.0 ** -7, 2.0 ** -5)
        got = t.log_lines(out)[0]["loss"]
        t.check(out + ": the loss before any update", abs(got / want - 1) <= 3e-3, (got, want))


def evaluated():
    """Evaluation goes through the exchange as well, with ranks that have nothing to do."""
    figures = []
    for world, words in ((1, t.ZERO3), (3, layout())):
        out, text = local("evals%d" % world, world, deepspeed=words, val_size=0.05, do_eval=True,
                          eval_strategy="steps", eval_steps=2)
        figures.append([e["eval_loss"] for e in t.log_lines(out) if "eval_loss" in e])
    t.check("evaluation", len(figures[0]) > 0 and len(figures[0]) == len(figures[1]) and
            all(abs(a / b - 1) <= 1e-6 for a, b in zip(*figures)), figures)


def used():
    """eval and generate with experts that stay: the figures and the answers of one rank."""
    common = ["--model_name_or_path", "ex/model", "--adapter_name_or_path", "one", "--template", "default", "--dataset",
              "arithmetic", "--dataset_dir", "ex/data", "--batch", "3", "--max_samples", "7"]
    found = []
    for world, more in ((1, []), (2, ["world"]), (3, ["node"]), (4, ["world"])):
        launcher = ["launch", "--nproc_per_node", str(world), "--master_port", str(t.free_port()), "--"] if world > 1 else []
        for command, words in (("eval", []), ("generate", ["--max_new_tokens", "12"])):
            run = t.Run(launcher + [command] + common + words + ["--output", "%s-%d" % (command, world)] +
                        (["--experts"] + more if more else []))
            t.check("%s with %d ranks" % (command, world), run.wait() == 0, run.text()[-2000:])
        found.append((load("eval-%d" % world)["token_loss"], t.file_bytes("generate-%d" % world)))
    for loss, answers in found[1:]:
        t.check("eval of experts that stay", abs(loss / found[0][0] - 1) <= 1e-6, (loss, found[0][0]))
        t.check("generate of experts that stay", answers == found[0][1] != b"", (answers, found[0][1]))
    run = t.Run(["eval"] + common + ["--experts", "here"])
    t.same("another word: exit status", run.wait(), 2)
    t.has("another word", run.text(), "--experts is 'here', expected node or world")


def resumed():
    """Two steps, then two more: in the same layout, and in another one."""
    more = dict(lr_scheduler_type="constant", save_strategy="steps", save_steps=2)
    pairs, four = layout(expert_parallel_size=2), layout(expert_parallel_size=4)
    local("kept", 4, deepspeed=pairs, **more)
    local("half", 4, steps=2, deepspeed=pairs, **more)
    shutil.copytree("half", "other")
    for out, words in (("half", pairs), ("other", four)):
        text = local(out, 4, deepspeed=words, resume_from_checkpoint="last", overwrite_output_dir=True, **more)[1]
        t.has(out + " goes on", text, "Continuing training from global step 2")
    exact("gone on with in the same layout", "half", "kept")
    near("gone on with in another layout", "other", "kept")


def counted():
    """Every token has all experts, so it goes to every rank, over nodes of 2 and 1 ranks: to one rank of
    the other node, to one that is not its own in a node of two, and twice to the rank that it is on. There
    it goes as x and weights, and comes back as y; in the backward dy, weights and x, back dx and those of
    the weights. And each rank says its choices, for T_max tokens, to all three."""
    shutil.copytree("ex/model", "all")
    with open("all/config.json") as f:
        config = json.load(f)
    K, H = config["n_routed_experts"], config["hidden_size"]
    layers = config["num_hidden_layers"] - config["first_k_dense_replace"]
    with open("all/config.json", "w") as f:
        json.dump(dict(config, num_experts_per_tok=K, topk_group=config["n_group"]), f)
    for name, more, row in (("counted", {}, 4 * (5 * H + 3 * K)), ("counted-bf16", dict(bf16=True), 2 * 5 * H + 4 * 3 * K)):
        out, text = by_hand(name, (2, 1), model_name_or_path="all", deepspeed=layout(expert_group="world"), **more)
        counted_bytes(name, out, text, layers, K, row)
    local("counted-one", 1, model_name_or_path="all")
    near("all experts", "counted-0", "counted-one")


def counted_bytes(name, out, text, layers, K, row):
    """row: bytes of a token and layer to one rank and back."""
    said = re.search(r"exchanged by all ranks: (\d+) bytes inside a rank, (\d+) inside a node, (\d+) between", text)
    own, node, far = (int(n) for n in said.groups())
    rows = t.log_lines(out)[-1]["total_tokens"] * layers * row
    choices = (node - rows) // 2  # of one rank, to one rank
    longest, left = divmod(choices, layers * STEPS * SAMPLES // 3 * 4 * K)
    t.check(name + ": choices are those of T_max tokens", left == 0 and 0 < longest <= 64, (longest, left))
    t.same(name + ": bytes inside ranks", own, 2 * rows + 3 * choices)
    t.same(name + ": bytes inside nodes", node, rows + 2 * choices)
    t.same(name + ": bytes between nodes", far, rows + 4 * choices)


def load(path):
    with open(path) as f:
        return json.load(f)


def placed():
    """Every rank's choices are counted; by the counts experts lie elsewhere, which changes the order of sums
    and how busy the busiest rank is."""
    counts = load("four/expert_counts.json")
    total = t.log_lines("four")[-1]["total_tokens"] * counts["experts_per_token"]
    t.same("rows of each layer", [sum(layer["rows"]) for layer in counts["layers"]], [total] * len(counts["layers"]))
    t.same("counted whatever the layout", counts, load("2x2-0/expert_counts.json"))
    text = local("placed", 4, deepspeed=layout(expert_placement="four/expert_counts.json"))[1]
    near("placed by counts", "placed")
    t.has("placed by counts", text, "Experts are placed by the rows counted in four/expert_counts.json")
    said = re.search(r"busiest rank has ([\d.]+) times the mean .* it would have ([\d.]+)", text)
    places = planned("four/expert_counts.json", 4)
    with open("places.json", "w") as f:
        json.dump(places, f)
    t.same("a plan of places", [(p["layer"], sorted(p["ranks"])) for p in places["layers"]],
           [(c["layer"], [0, 0, 1, 1, 2, 2, 3, 3]) for c in counts["layers"]])
    t.check("a plan of places: it says how busy", max(p["busiest_placed"] for p in places["layers"]) <=
            max(p["busiest_in_order"] for p in places["layers"]), places)
    has = local("planned", 4, deepspeed=layout(expert_placement="places.json"))[1]
    t.has("as planned", has, "Experts are placed as in places.json")
    exact("as planned", "planned", "placed")
    t.check("placed by counts: as was said", said and said.group(1) == said.group(2) and float(said.group(1)) >= 1,
            text[-2000:])


def planned(path, ranks):
    run = t.Run(["plan", "--placement", path, "--gpus", str(ranks), "ex/model"])
    t.check("plan --placement", run.wait() == 0, run.text()[-2000:])
    return json.loads(run.text())


def refusals():
    """What is not done is refused by name, with what to do instead."""
    counts = load("four/expert_counts.json")
    counts["layers"][1]["rows"][3] = -1
    with open("below.json", "w") as f:
        json.dump(counts, f)
    counts["layers"][0]["rows"].pop()
    with open("wrong.json", "w") as f:
        json.dump(counts, f)
    places = load("places.json")
    places["layers"][0]["ranks"][0] = places["layers"][0]["ranks"][0] % 4 + 1
    with open("uneven.json", "w") as f:
        json.dump(places, f)
    rows = (
        ("three of four", layout(expert_parallel_size=3), 4, "expert_parallel_size 3 does not divide the 4 ranks"),
        ("a part of the world", layout(expert_parallel_size=2, expert_group="world"), 4,
         "expert_group \"world\" is all 4 ranks"),
        ("a capacity", layout(capacity_factor=1.5), 2, "capacity_factor: no token is dropped"),
        ("no counts", layout(expert_placement="none.json"), 2, "moe.expert_placement: "),
        ("counts of another model", layout(expert_placement="wrong.json"), 2,
         "wrong.json: layers[0] is not layer 1 with the rows of 8 experts: take the counts of a run of this model"),
        ("places for others", layout(expert_placement="places.json"), 2,
         "moe.expert_placement was made for groups of 4 ranks, those of this run have 2"),
        ("uneven places", layout(expert_placement="uneven.json"), 4, "uneven.json: layers[0].ranks"),
        ("a count below 0", layout(expert_placement="below.json"), 2, "below.json: layers[1].rows[3] is not a number"),
    )
    for what, words, world, want in rows:
        run = t.launch("refused", world, steps=1, deepspeed=words, launcher=("--max_restarts", "0"))
        t.check(what + " is refused", run.wait() != 0)
        t.has(what, run.text(), want)


def main():
    t.begin()
    layouts()
    types()
    evaluated()
    used()
    resumed()
    counted()
    placed()
    refusals()
    t.finish()


main()
