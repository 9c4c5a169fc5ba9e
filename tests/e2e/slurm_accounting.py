#!/usr/bin/env python3
"""What Slurm's accounting says of allocations that are over, in `flowrun status` and its --json.
usage: slurm_accounting.py BUILD fake|real. fake: over the commands of fakeslurm. real: with slurmdbd and MariaDB
(slurm_lib.py); skipped where these programs are not, or without root."""
import json
import os
import re
import subprocess
import sys

import slurm_lib
import trainer_lib as t

INVENTORY = """slurm:
  work: %s/work
  rpc: 60
  allocations:
    train: {nodes: 2, cpus: 1, gpus: 1, time: 30m}
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


def allocations(*no):
    code, text = sh([flowrun, "status", *no, "--json"])
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
    with open("cluster/log") as f:
        t.has("by one question", f.read(), " --jobs=%d,%d " % (rows[0]["job"], rows[1]["job"]))


# ---- real ----

def real():
    """The same with Slurm's own programs, and with slurmdbd killed while a job runs."""
    os.mkdir("cluster")
    s = slurm_lib.Slurm(t.folder + "/cluster", nodes=3, database=True, gpus=2, KillWait=5)
    up = s.start()
    env.update(s.env)
    if t.check("Slurm with slurmdbd is up", up, s.report()):
        wait = "until [ -e %s/go ]; do sleep 0.1; done" % t.folder
        path = pipeline("both", "a: {on: train, run: '%s'}" % wait, "b: {on: prep, run: '%s'}" % wait)
        run = begin(path)
        t.until("memory is sampled in both jobs", lambda: sampled(s) == 2)
        open("go", "w").close()
        t.same("with accounting", run.wait(), 0)
        rows = asked("1")
        agrees(s, rows)
        killed(s, path, rows)
    s.stop()


def begin(path):
    """flowrun in the background; its output in the file out."""
    with open("out", "w") as f:
        t.started.append(subprocess.Popen([flowrun, path], env={**os.environ, **env}, stdout=f, stderr=subprocess.STDOUT))
    return t.started[-1]


def sampled(s):
    """How many jobs have a step whose memory Slurm knows."""
    return sum(bool(s.run(["sstat", "-n", "-P", "-a", "-j", str(row["job"]), "-o", "MaxRSS"])[1].strip())
               for row in allocations() if row["state"] == "up")


def asked(no):
    """The allocations of that run, once accounting is known: slurmdbd may hear of an end later than flowrun waits for,
    and then the next one of the home asks."""
    with open("next.yaml", "w") as f:
        f.write("name: next\ntasks: {a: {run: 'true'}}\n")
    for _ in range(10):
        rows = allocations(no)
        if "wanted" not in [row["accounting"] for row in rows]:
            break
        sh([flowrun, "next.yaml"])
    return rows


def agrees(s, rows):
    """With what sacct prints for people."""
    t.same("it is known", [shown(row, "accounting", "exit_state", "energy_j") for row in rows], [("known", "CANCELLED by 0", 0)] * 2)
    for row, gpus in zip(rows, (2, 0)):
        text = s.run(["sacct", "-n", "-P", "-X", "-j", str(row["job"]), "-o", "ElapsedRaw,AllocTRES"])[1]
        t.same("elapsed and TRES of job %d" % row["job"], "%d|%s\n" % (row["elapsed_ms"] // 1000, row["tres"]), text)
        t.check("GPUs", ("gres/gpu=%d," % gpus in row["tres"]) == (gpus > 0), row["tres"])
        sizes = s.run(["sacct", "-n", "-P", "--noconvert", "-j", str(row["job"]), "-o", "MaxRSS"])[1].split()
        t.same("memory", row["max_rss"], max(map(int, sizes), default=None))
    t.has("and in status", sh([flowrun, "status", "1"])[1], "allocation train: over, Slurm job %d CANCELLED by 0 on " % rows[0]["job"])


def killed(s, path, before):
    """Nothing differs but what accounting says; once slurmdbd is back, another flowrun has that, too."""
    os.unlink("go")
    run = begin(path)
    t.until("both are up", lambda: [row["state"] for row in allocations()] == ["up"] * 2)
    s.accounting.kill()
    s.accounting.wait()
    open("go", "w").close()
    t.same("slurmdbd is killed while jobs run", run.wait(), 0)
    with open("out") as f:
        text = f.read()
    t.check("nothing is said of it", "sacct" not in text and "slurmdbd" not in text, text)
    rows = allocations()
    same = ("name", "no", "state", "slurm_state", "submits", "cause", "reason", "note")
    t.same("the same end", [shown(row, *same) for row in rows], [shown(row, *same) for row in before])
    t.same("but for accounting", [shown(row, *ALL) for row in rows], [("wanted", "", 0, 0, "")] * 2)
    no = str(json.loads(sh([flowrun, "status", "--json"])[1])["no"])
    os.unlink("go")
    t.check("slurmdbd is back", s.start_accounting(), s.report())
    run = begin(path)

    t.until("another flowrun hears of it", lambda: [shown(row, "accounting", "exit_state") for row in allocations(no)]
            == [("known", "CANCELLED by 0")] * 2)
    open("go", "w").close()
    t.same("and ends", run.wait(), 0)


def main():
    global flowrun
    flowrun = slurm_lib.program("engine/cli/flowrun")
    slurm_lib.begin(slurm_lib.why_no_database() if sys.argv[2] == "real" else None)
    with open("nodes.yaml", "w") as f:
        f.write(INVENTORY % t.folder)
    {"fake": fake, "real": real}[sys.argv[2]]()
    t.finish()


main()
