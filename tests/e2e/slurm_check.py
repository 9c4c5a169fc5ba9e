#!/usr/bin/env python3
"""`flowrun nodes --check` of inventories with slurm:, in text and --json. usage: slurm_check.py BUILD fake|real.
fake: over the commands of fakeslurm. real: over a Slurm of this test's own (slurm_lib.py); skipped where there is
none, or without root."""
import json
import os
import subprocess
import sys

import slurm_lib
import trainer_lib as t

# What sinfo of Slurm 22.05 printed, and a partition with nodes of two kinds.
SINFO = """up|infinite|0/2/1/3|1-infinite|gpu:a100:2|all*
up|30:00|0/1/0/1|1-2|gpu:a100:2|short
up|1-00:00:00|3/0/1/4|1-infinite|gpu:v100:4(S:0,1)|mixed
up|1-00:00:00|2/0/0/2|1-infinite|gpu:a100:8(S:0-1),gpu:v100:1|mixed
down|infinite|0/2/1/3|1-infinite|gpu:a100:2|down
inactive|infinite|0/2/1/3|1-infinite|gpu:a100:2|gone
up|infinite|0/0/0/0|1-infinite|(null)|empty
"""
flowrun = None
env = {}


def sh(*words):
    """A command's exit status and all it printed."""
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       env={**os.environ, **env}, timeout=600, text=True, errors="replace")
    return p.returncode, p.stdout


def inventory(*allocations, rpc=12):
    """nodes.yaml: the allocations stand from line 5 on."""
    with open("nodes.yaml", "w") as f:
        f.write("slurm:\n  work: %s/work\n  rpc: %d\n  allocations:\n" % (t.folder, rpc))
        f.write("".join("    %s\n" % line for line in allocations))
    return t.folder + "/nodes.yaml"


def check(*allocations, rpc=12):
    """Exit status and lines without those of places; and the cluster of --json."""
    path = inventory(*allocations, rpc=rpc)
    code, text = sh(flowrun, "nodes", "--check", path)
    again, doc = sh(flowrun, "nodes", "--check", "--json", path)
    t.same("--json has the same exit status", again, code)
    lines = [line.replace(path, "FILE") for line in text.splitlines() if "comes with an allocation" not in line]
    return code, lines, json.loads(doc)["cluster"]


# ---- fake ----

def conf(*lines, sinfo=SINFO):
    with open("cluster/slurm.conf", "w") as f:
        f.write("Nodes=4\n" + "".join("Sinfo=%s\n" % line for line in sinfo.splitlines()))
        f.write("".join("%s\n" % line for line in lines))


BAD = [  # an allocation, and what is said of it
    ("partition: nowhere", "5:30: partition of allocation 'a': Slurm has no partition 'nowhere'; expected one of all, short, mixed, "
                           "down, gone, empty"),
    ("partition: 'all,nowhere'", "5:30: partition of allocation 'a': Slurm has no partition 'nowhere'; expected one of all, short, "
                                 "mixed, down, gone, empty"),
    ("partition: down", "5:30: partition 'down' of allocation 'a' is down; expected one that is up"),
    ("partition: gone", "5:30: partition 'gone' of allocation 'a' is inactive; expected one that is up"),
    ("partition: short", "5:15: time of allocation 'a' is 1h00m; expected at most 30m00s, the limit of partition 'short'"),
    ("partition: mixed, nodes: 7", "5:44: allocation 'a' asks for 7 nodes; partition 'mixed' has 6"),
    ("gpus: 3", "5:25: allocation 'a' asks for 1 node with 3 GPUs; partition 'all' has 0"),
    ("partition: mixed, gpus: 'a100:4', nodes: 3", "5:43: allocation 'a' asks for 3 nodes with 4 a100 GPUs; partition 'mixed' has 2"),
    ("partition: empty", "5:5: allocation 'a' asks for 1 node; partition 'empty' has 0"),
]


def fake():
    program = os.path.join(os.path.dirname(flowrun), "../../tests/e2e/fakeslurm")
    env.update(SLURM_CONF=t.folder + "/cluster/slurm.conf", PATH="%s/cluster/bin:%s" % (t.folder, os.environ["PATH"]))
    t.same("a cluster", sh(program, "init", t.folder + "/cluster", "4")[0], 0)
    good()
    for keys, want in BAD:
        code, lines, cluster = check("a: {time: 1h, %s}" % keys)
        t.same(keys, code, 6)
        said = [line for line in lines if line.startswith("FILE:")]
        t.check("%s is named" % keys, any(line.startswith("FILE:" + want) for line in said), said)
        found = [f for f in cluster["findings"] if f["bad"]]
        t.same("and in --json", ["FILE:%d:%d: %s" % (f["line"], f["column"], f["text"]) for f in found], said)
        t.same("it cannot be had", ([a["ok"] for a in cluster["allocations"]], cluster["ok"]), ([False], False))
    notes()
    folders()
    clusters()


def good():
    conf("Accounting=1", "Config=ProctrackType = proctrack/cgroup")
    code, lines, cluster = check("a: {nodes: 2, time: 1h}", "b: {time: 1d, partition: 'short,mixed', gpus: 'v100:4'}")
    t.same("what fits", code, 0)
    t.same("what is said", lines, ["cluster fake: Slurm 22.05, accounting by slurmdbd, MaxArraySize 1001, 12 commands a minute",
                                   "allocation a: 2 nodes for 1h00m of partition all  ok",
                                   "allocation b: 1 node for 24h00m of partitions short,mixed  ok",
                                   "note: time of allocation 'b' is 24h00m; expected at most 30m00s, the limit of partition 'short'",
                                   "note: allocation 'b' asks for 1 node with 4 v100 GPUs; partition 'short' has 0"])
    t.same("the cluster", {k: v for k, v in cluster.items() if k not in ("findings", "allocations")},
           dict(ok=True, name="fake", version="22.05", cgroups=True, accounting=True, max_array_size=1001, rpc=12))
    t.same("allocations", cluster["allocations"], [dict(name="a", partition="all", ok=True),
                                                   dict(name="b", partition="short,mixed", ok=True)])
    code, text = sh(flowrun, "nodes", "--json", "nodes.yaml")
    t.same("without --check", ([(n["name"], n["state"]) for n in json.loads(text)["nodes"]], "cluster" in json.loads(text)),
           ([("a1", "not_asked"), ("a2", "not_asked"), ("b1", "not_asked")], False))


def notes():
    conf("Config=SlurmctldParameters = rl_enable,rl_refill_rate=1,rl_refill_period=2")
    code, lines, cluster = check("a: {nodes: 3, time: 1h}", "b: {time: 1h, partition: short, qos: long}", rpc=60)
    t.same("notes", code, 0)
    t.same("they are", [line for line in lines if line.startswith("note: ")],
           ["note: ProctrackType is not cgroup: processes may outlive a job whose keeper was killed",
            "note: there is no accounting (AccountingStorageType): of an allocation that is over, only its time is known",
            "note: rpc is 60, more than half of what the cluster's rate limit (rl_enable) allows: flowrun asks 15 times a minute",
            "note: allocation 'a' asks for 3 nodes; of the 3 that partition 'all' has, 2 are neither down nor drained now",
            "note: time of allocation 'b' is 1h00m; expected at most 30m00s, the limit of partition 'short'"])
    t.same("where rpc: stands", [(f["key"], f["line"], f["column"]) for f in cluster["findings"] if f["key"] == "rpc"], [("rpc", 3, 8)])
    t.same("how often", cluster["rpc"], 15)
    conf(sinfo=SINFO.replace("*", ""))
    code, lines, cluster = check("a: {time: 1h}")
    t.same("no default", code, 6)
    t.has("is named", "\n".join(lines), "FILE:5:5: allocation 'a' names no partition, and the cluster has no default; expected one of all")


FOLDERS = [  # lines below slurm:, and what is said of them
    (["work: %s/nowhere/x"], "work", "2:9: work of slurm: %s/nowhere/x: there is no folder %s/nowhere to make it in"),
    (["work: %s/p"], "work", "2:9: work of slurm: %s/p: no folder; expected a folder that compute nodes share"),
    (["work: %s/new", "path: %s/p"], "path", "3:9: path of slurm: %s/p: no folder; expected the folder of Slurm's commands"),
    (["work: %s/new", "path: %s/none"], "path", "3:9: path of slurm: %s/none: No such file or directory; expected the folder of "
                                                "Slurm's commands"),
]


def folders():
    """work: and path: are looked for on this machine, as a run does."""
    conf()
    open("p", "w").close()
    for lines, key, want in FOLDERS:
        with open("nodes.yaml", "w") as f:
            f.write("slurm:\n%s  allocations: {a: {time: 1h}}\n" % "".join("  %s\n" % line.replace("%s", t.folder) for line in lines))
        path = t.folder + "/nodes.yaml"
        code, text = sh(flowrun, "nodes", "--check", path)
        t.same(want, code, 6)
        t.same("what is said", [line for line in text.splitlines() if line.startswith(path)],
               [path + ":" + want.replace("%s", t.folder)])
        code, doc = sh(flowrun, "nodes", "--check", "--json", path)
        found = [f for f in json.loads(doc)["cluster"]["findings"] if f["bad"]]
        t.same("in --json", (code, [f["key"] for f in found], json.loads(doc)["cluster"]["ok"]), (6, [key], False))
    t.check("nothing is made", not os.path.exists("new"))


def clusters():
    """Those that cannot be used at all."""
    conf("Config=SLURM_VERSION = 20.02.7")
    code, lines, cluster = check("a: {time: 1h}")
    t.same("an old Slurm", (code, cluster["ok"]), (6, False))
    t.has("is named", "\n".join(lines), "FILE:2:3: Slurm 20.02 is too old; expected 20.11 or later, whose srun has --overlap")
    with open("p.yaml", "w") as f:
        f.write("nodes: nodes.yaml\ntasks: {t: {on: a, run: 'true'}}\n")
    code, text = sh(flowrun, "p.yaml")
    t.same("and no job is asked of it", code, 6)
    t.has("which is said", text, "Slurm 20.02 is too old; expected 20.11 or later")
    refused()
    conf(sinfo="up|infinite|4|1-infinite|(null)|all*\n")
    code, lines, cluster = check("a: {time: 1h}")
    t.same("another sinfo", (code, cluster["allocations"]), (6, []))
    t.has("is quoted", "\n".join(lines), "FILE:2:3: sinfo printed 'up|infinite|4|1-infinite|(null)|all*'")
    open("cluster/switch/away", "w").close()
    code, lines, cluster = check("a: {time: 1h}")
    t.same("no controller", (code, cluster["version"]), (6, ""))
    t.same("is named", lines, ["FILE:2:3: scontrol show config: slurm_load_ctl_conf error: Unable to contact slurm controller "
                               "(connect failure)"])


def refused():
    """What Slurm refuses is said with the place of the allocation, or of the key that its words are about."""
    conf()
    inventory("other: {time: 1h}", "a: {time: 1h, partition: all}")
    for words, column in (("Requested time limit is invalid", 15), ("Invalid partition name specified", 30), ("Invalid account", 5)):
        with open("cluster/switch/refuse", "w") as f:
            f.write("1 %s\n" % words)
        code, text = sh(flowrun, "p.yaml")
        t.same(words, code, 6)
        t.has("and where", text, "t@a1 failed: %s/nodes.yaml:6:%d: Slurm refuses allocation 'a': " % (t.folder, column))
        t.has("in its words", text, words)


# ---- real ----

def real():
    os.mkdir("cluster")
    s = slurm_lib.Slurm(t.folder + "/cluster", nodes=3, gpus=2)
    up = s.start()
    env.update(s.env)
    if t.check("Slurm is up", up, s.report()):
        s.run(["scontrol", "create", "PartitionName=short", "Nodes=" + s.names[0], "MaxTime=30", "MaxNodes=2"])
        s.run(["scontrol", "create", "PartitionName=off", "Nodes=ALL", "State=DOWN"])
        asked(s)
    s.stop()


def asked(s):
    code, lines, cluster = check("a: {nodes: 3, gpus: 2, time: 12h}", "b: {time: 20m, partition: short}")
    t.same("what fits", code, 0)
    t.same("is said", lines[:3], ["cluster e2e: Slurm %s, no accounting, MaxArraySize 1001, 12 commands a minute" % cluster["version"],
                                  "allocation a: 3 nodes for 12h00m of partition all  ok",
                                  "allocation b: 1 node for 20m00s of partition short  ok"])
    version = s.run(["scontrol", "-V"])[1].split()[1]
    t.check("the version", version.startswith(cluster["version"] + "."), version)
    code, lines, cluster = check("a: {nodes: 4, time: 1h}", "b: {time: 1h, partition: short}", "c: {time: 1h, partition: off}",
                                 "d: {time: 1h, gpus: 3}", "e: {time: 1h, partition: none}")
    t.same("what does not fit", code, 6)
    t.same("is named", [line for line in lines if line.startswith("FILE:")],
           ["FILE:5:16: allocation 'a' asks for 4 nodes; partition 'all' has 3",
            "FILE:6:15: time of allocation 'b' is 1h00m; expected at most 30m00s, the limit of partition 'short'",
            "FILE:7:30: partition 'off' of allocation 'c' is down; expected one that is up",
            "FILE:8:25: allocation 'd' asks for 1 node with 3 GPUs; partition 'all' has 0",
            "FILE:9:30: partition of allocation 'e': Slurm has no partition 'none'; expected one of all, short, off"])
    s.run(["scontrol", "update", "NodeName=" + s.names[2], "State=DRAIN", "Reason=test"])
    code, lines, cluster = check("a: {nodes: 3, time: 1h}")
    t.same("a drained node is a note", code, 0)
    t.has("that says so", "\n".join(lines), "note: allocation 'a' asks for 3 nodes; of the 3 that partition 'all' has, 2 are neither down")
    s.run(["scontrol", "update", "NodeName=" + s.names[2], "State=RESUME"])


def main():
    global flowrun
    flowrun = slurm_lib.program("engine/cli/flowrun")
    slurm_lib.begin(slurm_lib.why_not() if sys.argv[2] == "real" else None)
    {"fake": fake, "real": real}[sys.argv[2]]()
    t.finish()


main()
