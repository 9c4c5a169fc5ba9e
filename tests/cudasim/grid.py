#!/usr/bin/env python3
"""NCCL's settings for the exchange between nodes, found by flowtrain probe with a simulated NCCL that is
told which are best; as an output of the task nccl-probe, and as an input of the task train.

usage: grid.py BUILD
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import trainer_lib as t  # noqa: E402

BEST = {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4", "NCCL_P2P_NET_CHUNKSIZE": "524288"}
FLOWNODE = os.path.abspath(os.path.join(sys.argv[1], "tasks/flownode"))
SETS = 1 + 5 + 3 + 3 + 3


def words(settings):
    return " ".join("%s=%s" % pair for pair in settings.items())


def probe(what, nodes, **env):
    """The report of a sweep over nodes of two ranks, or of one."""
    port = t.free_port()
    runs = [t.Run(["launch", "--nproc_per_node", str(2 if nodes > 1 else 3), "--nnodes", str(nodes), "--node_rank",
                   str(node), "--master_addr", "127.0.0.1", "--master_port", str(port), "--", "probe", "--device",
                   "cuda", "--bytes", "64KiB", "--sweep", "20000", "--iterations", "2"], **env)
            for node in range(nodes)]
    for run in runs:
        t.check(what + ": ends", run.wait() == 0, run.text()[-3000:])
    lines = [json.loads(line) for line in runs[0].text().splitlines() if line.startswith("{")]
    return (lines[0] if t.same(what + ": one line of JSON", len(lines), 1) else {}), runs[0].text()


def near(a, b):
    return abs(a - b) < 1e-5 * b


def found():
    """The best set, and the times that the simulated library takes: 1,000 us, 200 more for each setting that
    is not as it should be, 100 for one that nobody asked for."""
    report, text = probe("best", 2, CUDASIM_NCCL_BEST=words(BEST))
    t.same("the best set", report.get("nccl"), BEST)
    rows = report.get("nccl_grid", [])
    t.same("sets that were tried", len(rows), SETS)
    for row in rows:
        wrong = sum(row["set"].get(name) != value for name, value in BEST.items())
        more = sum(name not in BEST for name in row["set"])
        t.check("time of a set", near(row.get("us", 0), 1000 + 200 * wrong + 100 * more), row)
        t.check("rate of a set", near(row.get("bandwidth_gbps", 0), 20000 * 8e-3 / row["us"]), row)
    t.has("a row of the table", text, "SOCKET_NTHREADS=4 NSOCKS_PERTHREAD=4 P2P_NET_CHUNKSIZE=524288")
    rail = [r for r in report.get("sweep", []) if r["scope"] == "rail"]
    t.same("the exchange in the sweep", [r["op"] for r in rail], ["all_to_allv"] * 5)


def kept():
    """What the user has set stays, and nothing is set that gains nothing; a set that fails is no choice."""
    report, text = probe("as it is", 2, CUDASIM_NCCL_BEST="NCCL_BUFFSIZE=8388608", NCCL_BUFFSIZE="123",
                         CUDASIM_NCCL_REFUSES="NCCL_SOCKET_NTHREADS=2")
    t.same("nothing is better", report.get("nccl"), {})
    t.has("what is set", text, "NCCL_BUFFSIZE is set already and stays")
    rows = report.get("nccl_grid", [])
    t.same("sets that were tried", len(rows), SETS - 3)
    failed = [row for row in rows if "us" not in row]
    t.same("a set that does not work", [row["set"].get("NCCL_SOCKET_NTHREADS") for row in failed], ["2"])
    t.check("and why", all("NCCL" in row["why"] for row in failed), failed)
    report, _ = probe("one node", 1)
    t.check("one node has no grid", "nccl" not in report and report.get("sweep"), report)


def task(name, inputs, **env):
    return subprocess.Popen([FLOWNODE, "task", name, json.dumps(inputs)], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env={**os.environ, **env})


def outputs(path):
    with open(path) as f:
        return dict(line.split("=", 1) for line in f.read().splitlines() if "=" in line)


def tasks():
    """From task to task, as a pipeline hands it on."""
    here = dict(FLOWRUN_PROGRAM_FLOWTRAIN=t.flowtrain, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(t.free_port()),
                NNODES="2", CUDASIM_NCCL_BEST=words(BEST))
    members = [task("nccl-probe", {"sweep": 20000, "size": 65536, "nproc_per_node": 1, "iterations": 1},
                    NODE_RANK=str(node), FLOWRUN_OUTPUT=os.path.abspath("probe-%d" % node), **here)
               for node in range(2)]
    texts = [m.communicate()[0] for m in members]
    t.same("nccl-probe", [m.returncode for m in members], [0, 0])
    t.has("nccl-probe says what is best", texts[0], "nccl-probe: NCCL is fastest with " + words(BEST))
    t.same("its output", outputs("probe-0").get("nccl_env"), words(BEST))
    inputs = dict(model="ex/model", dataset="arithmetic", dataset_dir="ex/data", output_dir="out", template="default",
                  nproc_per_node=2, max_steps=1, cutoff_len=32, lora_target=t.TARGETS, plan="off", args=["--device", "cuda"],
                  nccl_env=outputs("probe-0").get("nccl_env", ""))
    run = task("train", inputs, FLOWRUN_PROGRAM_FLOWTRAIN=t.flowtrain, FLOWRUN_WORK=t.folder, NCCL_SOCKET_NTHREADS="7",
               FLOWRUN_OUTPUT=os.path.abspath("train"))
    text = run.communicate()[0]
    t.check("train", run.returncode == 0, text[-3000:])
    t.has("a setting that is there stays", text, "NCCL_SOCKET_NTHREADS=4 was found, but it is set to 7")
    for part in ("nccl environment:", " NCCL_SOCKET_NTHREADS=7", " NCCL_NSOCKS_PERTHREAD=4",
                 " NCCL_P2P_NET_CHUNKSIZE=524288"):
        t.has("the settings are used", text, part)
    for wrong in ("PATH=/tmp", "NCCL_DEBUG", "NCCL_DEBUG="):
        run = task("train", dict(inputs, nccl_env=wrong), FLOWRUN_PROGRAM_FLOWTRAIN=t.flowtrain, FLOWRUN_WORK=t.folder)
        t.has("no setting of NCCL", run.communicate()[0], "input 'nccl_env': '%s' is no setting of NCCL" % wrong)
        t.same("no setting of NCCL: exit status", run.returncode, 64)


def main():
    t.begin()
    t.simulate()
    found()
    kept()
    tasks()
    t.finish()


main()
