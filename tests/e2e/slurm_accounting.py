#!/usr/bin/env python3
"""What Slurm's accounting says of allocations that are over, in `flowrun status` and its --json.
usage: slurm_accounting.py BUILD fake: over the commands of fakeslurm."""
import json
import os
import re
import subprocess
import sys

import trainer_lib as t

INVENTORY = """slurm:
  work: %s/work
  rpc: 60
  allocations:
    train: {nodes: 2, cpus: 1, time: 30m}
    prep: {nodes: 1, cpus: 1, time: 30m}
"""
flowrun = None
env = {}


def sh(words, **more):
    """A command's exit status and all it printed."""
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       env={**os.environ, **env, **more}, timeout=600, text=True, errors="replace")
    return p.returncode, p.stdout


def pipeline(name, *tasks):
    with open(name + ".yaml", "w") as f:
        f.write("name: %s\nnodes: nodes.yaml\ntasks:\n" % name)
        f.write("".join("  %s\n" % line for line in tasks))
    return name + ".yaml"


def allocations():
    code, text = sh([flowrun, "status", "--json"])
    return json.loads(text).get("allocations", []) if code == 0 else []


def shown(row, *names):
    return tuple(row[name] for name in names)


NOTHING = ("", "", 0, 0, "")
ALL = ("accounting", "exit_state", "max_rss", "energy_j", "tres")


# ---- fake ----

def conf(accounting):
    with open("cluster/slurm.conf", "w") as f:
        f.write("Nodes=4\nKillWait=5\nMinJobAge=300\nAccounting=%d\n" % accounting)


def switch(name, text=""):
    with open("cluster/switch/" + name, "w") as f:
        f.write(text + "\n")


def calls():
    """How often sacct was asked so far."""
    with open("cluster/log") as f:
        return sum(line.split()[1] == "sacct" for line in f)


def fake():
    env.update(SLURM_CONF=t.folder + "/cluster/slurm.conf", PATH="%s/cluster/bin:%s" % (t.folder, os.environ["PATH"]))
    program = os.path.join(os.path.dirname(flowrun), "../../tests/e2e/fakeslurm")
    t.same("a cluster", sh([program, "init", t.folder + "/cluster", "4"])[0], 0)
    path = pipeline("both", "a: {on: train, run: 'true'}", "b: {on: prep, run: 'true'}")
    conf(0)
    t.same("without accounting", sh([flowrun, path])[0], 0)
    t.same("nothing of it", [shown(row, *ALL) for row in allocations()], [NOTHING] * 2)
    t.same("nobody is asked", calls(), 0)
    conf(1)
    known(path)
    late(path)
    away(path)
    sh([program, t.folder + "/cluster", "stop"])


def known(path):
    t.same("with accounting", sh([flowrun, path])[0], 0)
    t.same("it is known", [shown(row, *ALL) for row in allocations()],
           [("known", "CANCELLED by 1000", 33107968, 7200000, "billing=2,cpu=%d,gres/gpu=%d,node=%d" % (n, 2 * n, n))
            for n in (2, 1)])
    t.check("one sacct for both, or one each", calls() in (1, 2), calls())
    text = sh([flowrun, "status"])[1]
    t.check("and in status", re.search(r"allocation train: over, Slurm job \d+ CANCELLED by 1000 on \S+ \S+(, ran \S+)?, "
                                       r"4 GPUs, at most 31.6 MiB a task, 2.00 kWh\n", text), text)


def late(path):
    """A row that says nothing yet is asked for again."""
    before = calls()
    switch("late", "1")
    t.same("late rows", sh([flowrun, path])[0], 0)
    t.same("are known in the end", [shown(row, "accounting", "exit_state") for row in allocations()],
           [("known", "CANCELLED by 1000")] * 2)
    t.check("after another question", calls() - before in (2, 3), calls() - before)


def away(path):
    """Without slurmdbd the run has its end all the same; the next flowrun asks again."""
    switch("nodb")
    t.same("slurmdbd is away", sh([flowrun, path])[0], 0)
    rows = allocations()
    t.same("it is still wanted", [shown(row, *ALL) for row in rows], [("wanted", "", 0, 0, "")] * 2)
    t.same("they are over", [shown(row, "state", "cause") for row in rows], [("over", "stopped")] * 2)
    no = json.loads(sh([flowrun, "status", "--json"])[1])["no"]
    os.unlink("cluster/switch/nodb")
    t.same("another run", sh([flowrun, pipeline("other", "a: {on: prep, run: 'true'}")])[0], 0)
    rows = json.loads(sh([flowrun, "status", str(no), "--json"])[1])["allocations"]
    t.same("now it is known", [shown(row, "accounting", "max_rss") for row in rows], [("known", 33107968)] * 2)


def main():
    global flowrun
    flowrun = os.path.abspath(os.path.join(sys.argv[1], "engine/cli/flowrun"))
    t.begin_plain()
    os.mkdir("home")
    os.environ.update(HOME=t.folder + "/home", FLOWRUN_HOME=t.folder + "/state")
    with open("nodes.yaml", "w") as f:
        f.write(INVENTORY % t.folder)
    {"fake": fake}[sys.argv[2]]()
    t.finish()


main()
