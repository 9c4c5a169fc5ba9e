#!/usr/bin/env python3
"""A tiny DeepSeek-V3 trained by flowtrain on the simulated GPU, through the module, the NCCL transport
and all that lies between, against the same training on the CPU backend.

usage: train.py BUILD [STEPS]

One dense layer and two with experts, 64 tokens a step at the most. Tolerances, relative, of each step:
  f32    the losses of the CPU to 1e-5, the gradient norms to 1e-4; two ranks those of one to the same
  bf16   the losses of the CPU to 2^-6, the gradient norms to 2^-4: values of 8 bits are rounded in other
         orders, and where two experts score nearly the same a token goes to the other one. Before any
         update 2^-8 and 2^-6. Two ranks see the same micro-batches as one: as in f32.
"""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import trainer_lib as t  # noqa: E402

SIZES = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2,
             q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16,
             intermediate_size=128, moe_intermediate_size=32, n_routed_experts=8, first_k_dense_replace=1)
BASE = dict(model_name_or_path="model", cutoff_len=32, train_on_prompt=True, save_strategy="no",
            learning_rate="1e-3", lora_rank=4)


def prepare():
    """The program, its module beside it, and the model."""
    t.begin()
    t.simulate()
    with open("ex/model/config.json") as f:
        config = dict(json.load(f), **SIZES)
    with open("config.json", "w") as f:
        json.dump(config, f)
    subprocess.run([t.flowtrain, "init", "--config", "config.json", "--output", "model", "--tokenizer",
                    "ex/model"], check=True, stdout=subprocess.DEVNULL)


def run(out, device, world, steps, rows=(), **more):
    one = t.train("%s: %s, %d ranks" % (out, device, world), out, world, accumulation=2 // world,
                  steps=steps, device=device, **dict(BASE, **more))
    if device == "cuda":
        t.has(out + ": the simulator computes", one.text(), "cudasim sm_90")
    if os.path.exists("stats-" + out):
        with open("stats-" + out) as f:
            stats = f.read()
        t.same(out + ": processes with a device", len(stats.splitlines()), world)
        table(out, one.text(), stats)
    lines = [e for e in t.log_lines(out) if "loss" in e]
    t.same(out + ": steps", len(lines), steps)
    for words in rows:
        t.check(out + ": it says " + words, re.search(words, one.text()), one.text())
    return [(e["loss"], e["grad_norm"]) for e in lines]


def near(what, got, want, loss, norm):
    worst = [max([abs(a[i] / b[i] - 1) for a, b in zip(got, want)] or [9]) for i in (0, 1)]
    print("%s: losses within %.2g, gradient norms within %.2g" % (what, *worst))
    t.check(what + ": losses", worst[0] <= loss, "%g > %g" % (worst[0], loss))
    t.check(what + ": gradient norms", worst[1] <= norm, "%g > %g" % (worst[1], norm))


HOST = json.dumps({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                   "activation_checkpointing": {"cpu_checkpointing": True},
                   "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": True}}})


def peaks(stats):
    return int(stats.split("peak=")[1])


def table(name, text, stats):
    """What the table says of the device is what each process has taken of it, NCCL's memory included."""
    said = re.search(r"on the device +([\d.]+) MiB", text)
    for line in stats.splitlines():
        peak = peaks(line) / 2 ** 20
        t.check(name + ": the table's bytes are the device's", said and abs(peak - float(said.group(1))) < 0.1,
                "peak %.2f MiB\n%s" % (peak, text))


def memory(steps):
    """Steps allocate nothing; the device's memory is what the table says, and too little is an error. What goes
    to the host leaves the device, and changes no bit of one rank's run; nor does what waits on the device."""
    seen = {}
    for name, n, more in (("m1", 1, {}), ("m%d" % steps, steps, {}), ("host", 1, {"deepspeed": HOST})):
        one = t.launch(name, 1, accumulation=2, steps=n, device="cuda", bf16=True,
                       env={"CUDASIM_STATS": os.path.abspath("stats-" + name)}, **dict(BASE, **more))
        t.same("a run of %d steps" % n, one.wait(), 0)
        kept = one.text()
        with open("stats-" + name) as f:
            seen[name] = f.read().strip()
        table(name, one.text(), seen[name])
    t.same("allocations and peak of %d steps are those of one" % steps, seen["m%d" % steps], seen["m1"])
    one = t.train("all computed again", "again", 1, accumulation=2, steps=1, device="cuda", bf16=True,
                  env={"CUDASIM_STATS": os.path.abspath("stats-again")}, recompute="all", **BASE)
    with open("stats-again") as f:
        seen["again"] = f.read().strip()
    table("again", one.text(), seen["again"])
    t.check("nothing waits where all is computed again", "kept activations" not in one.text(), one.text())
    t.check("what waits is in the table", "kept activations" in kept, kept)
    t.same("losses with activations that wait", t.losses("m1"), t.losses("again"))
    between = (peaks(seen["m1"]) + peaks(seen["again"])) // 2
    one = t.train("less at once than is free", "at-once", 1, accumulation=2, steps=1, device="cuda", bf16=True,
                  env={"CUDASIM_LARGEST": str(between)}, **BASE)
    t.has("less at once than is free", one.text(), "less at once than it says is free: all activations are computed again")
    t.same("losses without them", t.losses("at-once"), t.losses("m1"))
    t.check("with weights on the host", peaks(seen["host"]) < peaks(seen["m1"]), seen)
    t.same("losses with weights and inputs on the host", t.losses("host"), t.losses("m1"))
    one = t.launch("little", 1, accumulation=2, steps=1, device="cuda", env={"CUDASIM_MEMORY": "9000000"},
                   **BASE)
    t.same("too little memory", one.wait(), 1)
    for part in ("on the device", "the largest part is cuBLASLt workspace with 32", "9000000 bytes are free",
                 "; lower --per_device_train_batch_size or --cutoff_len"):
        t.has("too little memory", one.text(), part)
    one = t.launch("pinned", 2, accumulation=1, steps=1, device="cuda", env={"CUDASIM_PINNED": "1:100000"},
                   deepspeed=HOST, **BASE)
    t.same("too little pinned memory", one.wait(), 1)
    for part in (r"rank 1 needs .* of its host's memory: base shard: \d+ bytes of pinned memory: ",
                 "; take more ranks with ZeRO stage 3, or leave out offload_param", "Memory of rank 0 of 2:",
                 "Memory of rank 1 of 2:"):
        t.check("too little pinned memory: " + part, re.search(part, one.text()), one.text())


def overlap(span, others):
    return any(c[0] < span[1] and span[0] < c[1] for c in others)


def queues():
    """Gathers ahead or alone, one expert in a window or three, weights and inputs of blocks on the device or
    on the host: the same bits. With room for two windows gathers run beside ops, those of experts beside
    the experts before them; with room for one unit none comes before its predecessor is released. The
    times in a trace are those of a device whose streams run side by side, without a clock of the host. On
    rank 1 kernels run as late as they can, what moves data late or early."""
    seen, moved = {}, {}
    early = {"CUDASIM_EARLY": "1"}
    for name, bucket, live, host, env in (("single", 0, 1, False, {}),
                                          ("ahead", 10 ** 7, 40000, False, early),
                                          ("host", 0, 1, True, early),
                                          ("late", 10 ** 7, 40000, True, {})):
        zero = {"stage": 3, "stage3_prefetch_bucket_size": bucket, "stage3_max_live_parameters": live,
                "offload_param": {"device": "cpu" if host else "none", "pin_memory": True}}
        run("q-" + name, "cuda", 2, 2, trace="q-%s.json" % name, per_device_train_batch_size=1, env=env,
            rows=("base shard .* host", "waiting activations .* host") if host else (),
            deepspeed=json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": zero,
                                  "activation_checkpointing": {"cpu_checkpointing": host}}))
        seen[name] = t.losses("q-" + name)
        for rank in ("", ".rank1"):
            what = "trace of %s%s" % (name, rank)
            rows = t.trace(what, "q-%s.json%s" % (name, rank))
            ops = [c for c in rows.get("compute", ()) if c[3] > 0]
            two = live > 1
            for row, first in (("gather", "all_gather layer"), ("copy weights", ""),
                               ("copy activations", "")):
                spans = [g for g in rows.get(row, ()) if g[2].startswith(first)]
                beside = [g for g in spans if overlap(g, ops)]
                share = 0.8 if row == "gather" else 0.5
                if row == "copy activations" and host or row == "copy weights" and host and two or \
                        row == "gather" and two:
                    t.check("%s: %s runs beside ops" % (what, row), len(beside) > share * len(spans) > 0,
                            "%d of %d, %d ops" % (len(beside), len(spans), len(ops)))
                moved[name, row] = len(spans)
            products = [c for c in ops if c[2] == "grouped_gemm"]
            beside = [g for g in rows.get("gather", ()) if " expert " in g[2] and overlap(g, products)]
            t.check("%s: experts are gathered %s products" % (what, "beside" if two else "never beside"),
                    products and bool(beside) == two, "%d, %d products" % (len(beside), len(products)))
    t.check("larger windows, fewer gathers", moved["ahead", "gather"] < moved["single", "gather"], moved)
    for name in ("ahead", "host", "late"):
        t.same("the losses of " + name, seen[name], seen["single"])
    run("q-share", "cuda", 2, 2, per_device_train_batch_size=1, transport="host",
        env={"CUDASIM_DEVICES": "1", "CUDASIM_GPU": "1"})
    t.same("the losses of two ranks on one device", t.losses("q-share"), seen["single"])


STAYING = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3},
           "moe": {"enabled": True, "expert_group": "world"}}


def staying():
    """Experts stay and tokens move, over the host and over NCCL: the same bits whatever runs late, and
    whether the library keeps the order of its communicators or events do; and the run of one rank."""
    one = run("s-one", "cuda", 1, 3)
    host = run("s-host", "cuda", 2, 3, transport="host", deepspeed=json.dumps(STAYING))
    near("experts that stay", host, one, 1e-5, 1e-4)
    early, old = {"CUDASIM_EARLY": "1"}, {"CUDASIM_NCCL": "22300"}
    for name, env, order in (("late", {}, "host"), ("early", early, "host"), ("old", old, "events"),
                             ("old-early", dict(early, **old), "events"),
                             ("off", {"NCCL_LAUNCH_ORDER_IMPLICIT": "0"}, "events")):
        out = "s-" + name
        stats = {"CUDASIM_STATS": os.path.abspath("stats-" + out)}
        run(out, "cuda", 2, 3, trace=out + ".json", env=dict(env, **stats), deepspeed=json.dumps(STAYING),
            rows=("nccl order=" + order, "experts +[0-9.]+ KiB", "exchange of tokens +[0-9.]+ KiB"))
        t.same("experts that stay, %s: losses" % name, t.losses(out), t.losses("s-host"))
        rows = t.trace("experts that stay, " + name, out + ".json")
        t.check("experts that stay, %s: exchanges" % name, len(rows.get("exchange", ())) == 60,
                len(rows.get("exchange", ())))
    words = dict(STAYING, zero_optimization={"stage": 3, "offload_param": {"device": "cpu"}})
    one = t.launch("s-no", 2, steps=1, device="cuda", deepspeed=json.dumps(words), **BASE)
    t.same("experts that stay on the host: exit status", one.wait(), 2)
    t.has("experts that stay on the host", one.text(), "leave out offload_param, or set moe.enabled to false")


# Set already, so that no others are tried: grid.py does that.
GRID = dict(NCCL_SOCKET_NTHREADS="1", NCCL_NCHANNELS_PER_NET_PEER="2", NCCL_P2P_NET_CHUNKSIZE="131072",
            NCCL_BUFFSIZE="4194304")


def probe(device, transport, words=(), **env):
    """Two nodes of two ranks: every collective inside a node, across and over all."""
    port = t.free_port()
    runs = [t.Run(["launch", "--nproc_per_node", "2", "--nnodes", "2", "--node_rank", str(node),
                   "--master_addr", "127.0.0.1", "--master_port", str(port), "--", "probe", "--device", device,
                   "--bytes", "64KiB", "--sweep", "20000", "--iterations", "1"], **env) for node in range(2)]
    for run in runs:
        t.same("probe on %s: exit status" % device, run.wait(), 0)
    text = runs[0].text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    report = lines[0] if t.same("probe on %s: one line of JSON" % device, len(lines), 1) else {}
    t.same("probe on %s: transport" % device, report.get("transport"), transport)
    want = [(scope, op, ranks, ranks * 4 * max(1, size // (4 * ranks)))
            for scope, ranks in (("node", 2), ("across", 2), ("all", 4))
            for size in (8, 64, 512, 4096, 20000) for op in ("all_reduce", "all_gather", "all_to_all")]
    want += [("rail", "all_to_allv", 4, size) for size in (8, 64, 512, 4096, 20000)]
    rows = report.get("sweep", [])
    t.same("probe on %s: rows" % device, [(r["scope"], r["op"], r["ranks"], r["bytes"]) for r in rows], want)
    t.check("probe on %s: times" % device, all(r["us"] > 0 and r["bandwidth_gbps"] > 0 for r in rows))
    for part in ("Inside a node: 2 ranks by " + transport, "Across nodes: 2 ranks", "All ranks: 4 ranks") + words:
        t.has("probe on %s: a table" % device, text, part)


def broken(*names):
    """A folder of libraries that cannot be opened."""
    os.makedirs("broken", exist_ok=True)
    for name in names:
        with open(os.path.join("broken", name), "w") as f:
            f.write("no library\n")


def modules():
    """Without the module, or with one that cannot be opened: --device cuda fails, auto takes the CPU, both
    with one line that says why; so does a machine without a driver."""
    good = t.flowtrain
    os.mkdir("bare")
    shutil.copy(good, "bare/flowtrain")
    for what, program, make, env, why in (
            ("no module", "bare/flowtrain", (), {}, "build where nvcc is found, or pass --device cpu"),
            ("a broken module", "broken/flowtrain", ("flowtrain_cuda13.so",), {}, "install what it names"),
            ("no driver", good, (), {"CUDASIM_DRIVER": "0"}, "no NVIDIA driver on this machine: install")):
        broken(*make)
        if program.startswith("broken"):
            shutil.copy(good, program)
        t.flowtrain = os.path.abspath(program)
        for device, code in (("cuda", None), ("auto", 0)):
            one = t.Run(["launch", "--nproc_per_node", "1", "--", "probe", "--device", device, "--bytes",
                         "64KiB", "--iterations", "1"], **env)
            status = one.wait()
            t.check("%s, %s: exit status" % (what, device), status != 0 if code is None else status == code,
                    "%s\n%s" % (status, one.text()))
            lines = [line for line in one.text().splitlines() if why in line]
            t.check("%s, %s: one line says why" % (what, device), len(lines) == 1, one.text())
            if device == "auto":
                t.has(what + ", auto", "".join(lines), "device=cpu why=")
    t.flowtrain = good


def majors():
    """A module for each major version of CUDA: the newest that driver and cuBLASLt serve."""
    good = t.flowtrain
    real = os.path.realpath(os.path.join(os.path.dirname(good), "flowtrain_cuda13.so"))
    os.mkdir("both")
    t.flowtrain = os.path.abspath("both/flowtrain")
    shutil.copy(good, t.flowtrain)
    for name in ("flowtrain_cuda13.so", "flowtrain_cuda12.so"):
        shutil.copy(real, os.path.join("both", name))
    for what, env, words in (
            ("all is there", {}, "module=flowtrain_cuda13.so"),
            ("a driver of CUDA 12", {"CUDASIM_DRIVER": "12040"}, "module=flowtrain_cuda12.so"),
            ("cuBLASLt of CUDA 12", {"CUDASIM_NO_BLAS": "13"}, "module=flowtrain_cuda12.so"),
            ("a driver that is too old", {"CUDASIM_DRIVER": "12000"},
             "flowtrain_cuda13.so: the NVIDIA driver serves CUDA 12.0, this build is of CUDA 13.0: install driver "
             "580 or later; flowtrain_cuda12.so: the NVIDIA driver serves CUDA 12.0, this build is of CUDA 12.9: "
             "install driver 530.30.02 or later"),
            ("no cuBLASLt of either", {"CUDASIM_NO_BLAS": "12 13"}, "libcublasLt.so.12 cannot be opened"),
            ("a device that is too old", {"CUDASIM_SM": "75"}, "device cuda: cudasim sm_75 is sm_75, kernels")):
        one = t.Run(["launch", "--nproc_per_node", "1", "--", "probe", "--device", "cuda", "--bytes", "64KiB",
                     "--iterations", "1"], **env)
        t.same("both modules, %s: exit status" % what, one.wait() == 0, words.startswith("module="))
        t.has("both modules, " + what, one.text(), words)
    t.flowtrain = good


def refusals():
    """Machines that cannot train: one line with the cure."""
    broken("libnccl.so.2")
    for what, world, env, words in (
            ("an old driver", 1, {"CUDASIM_DRIVER": "12040"},
             "the NVIDIA driver serves CUDA 12.4, this build is of CUDA 13.0: install driver 580 or later"),
            ("no driver", 1, {"CUDASIM_DRIVER": "0"},
             "device cuda: no NVIDIA driver on this machine: install driver 580 or later, or pass --device cpu"),
            ("an old device", 1, {"CUDASIM_SM": "75"}, "is sm_75, kernels need sm_80 or later: leave it out of"),
            ("a new device", 1, {"CUDASIM_SM": "100"}, "is sm_100, kernels are of sm_80 and sm_90: leave it out of"),
            ("an A10", 1, {"CUDASIM_SM": "86"},
             "cudasim sm_86 is sm_86 with 99 KiB of shared memory a block, kernels need 163 KiB"),
            ("an L40", 1, {"CUDASIM_SM": "89"},
             "cudasim sm_89 is sm_89 with 99 KiB of shared memory a block, kernels need 163 KiB"),
            ("no cuBLASLt", 1, {"CUDASIM_NO_BLAS": "13"},
             "device cuda: libcublasLt.so.13 cannot be opened: install cuBLAS of CUDA 13, or name its folder in"),
            ("no NCCL", 2, {"LD_LIBRARY_PATH": os.path.abspath("broken")},
             "install version 2.14 or later, or name its folder in LD_LIBRARY_PATH, or pass --transport host"),
            ("no fabric", 1, {"CUDASIM_FABRIC": "1"}, "systemctl start nvidia-fabricmanager"),
            ("more ranks than devices", 4, {}, "device 3: this process sees 3"),
            ("slow links", 2, {"NCCL_P2P_DISABLE": "1"}, "unset it, or pass --allow_slow_links"),
            ("one GPU for two ranks", 2, {"CUDASIM_GPU": "1"}, "ranks 0 and 1 have the same GPU, GPU-0000"),
            ("the cure", 2, {"CUDASIM_GPU": "1"}, "or share it by --transport host")):
        one = t.launch("no", world, steps=1, device="cuda", env=env,
                       **dict(BASE, **({"transport": "nccl"} if "CUDASIM_GPU" in env else {})))
        t.same(what + ": exit status", one.wait(), 2)
        t.has(what, one.text(), words)
    one = t.train("one GPU for two ranks", "shared", 2, steps=1, device="cuda", env={"CUDASIM_GPU": "1"}, **BASE)
    t.has("one GPU for two ranks", one.text(), "all data go through the host's memory, not by NCCL")


def whole(steps):
    f32 = [run("f-cpu", "cpu", 1, steps),
           run("f-one", "cuda", 1, steps, rows=("nvidia-smi does not answer: memory errors",)),
           run("f-two", "cuda", 2, steps, env={"CUDASIM_STATS": os.path.abspath("stats-f-two")},
               rows=(r"NCCL, its own +2\.0 MiB  estimated", "left free +[0-9]"))]
    near("f32, 1 rank", f32[1], f32[0], 1e-5, 1e-4)
    near("f32, 2 ranks", f32[2], f32[0], 1e-5, 1e-4)
    near("f32, 2 ranks to 1", f32[2], f32[1], 1e-5, 1e-4)
    bf16 = [run("b-cpu", "cpu", 1, steps, bf16=True), run("b-one", "cuda", 1, steps, bf16=True),
            run("b-two", "cuda", 2, steps, bf16=True)]
    near("bf16, first step", bf16[1][:1], bf16[0][:1], 2.0 ** -8, 2.0 ** -6)
    near("bf16, 1 rank", bf16[1], bf16[0], 2.0 ** -6, 2.0 ** -4)
    near("bf16, 2 ranks to 1", bf16[2], bf16[1], 1e-5, 1e-4)


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    prepare()
    whole(steps)
    queues()
    staying()
    probe("cuda", "nccl", ("nccl environment:", " NCCL_DEBUG=WARN", "CUDA_DEVICE_ORDER=FASTEST_FIRST: devices are"),
          NCCL_DEBUG="WARN", CUDA_DEVICE_ORDER="FASTEST_FIRST", **GRID)
    probe("cpu", "cpu")
    memory(3)
    refusals()
    modules()
    majors()
    t.finish()


main()
