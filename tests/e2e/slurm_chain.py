#!/usr/bin/env python3
"""Chains of allocations over the commands of fakeslurm: a training that brings no newer checkpoint ends, others go
on; what comes too late for one waits for the next. usage: slurm_chain.py BUILD"""
import json
import os
import re
import subprocess

import slurm_lib
import trainer_lib as t

NODES = """slurm:
  work: %s/work
  rpc: 60
  allocations:
    train: {nodes: 2, cpus: 1, time: 30m, chain: 6}
    short: {cpus: 1, time: 1m}
"""
# Attempt N writes the rows of line N of the file `rows`, and waits for the file go.N.
FIT = """test "$NODE_RANK" = 1 || sed -n "$FLOWRUN_ATTEMPT_NO p" rows | tr ';' '\\n' >> m.jsonl
until [ -e go.$FLOWRUN_ATTEMPT_NO ]; do sleep 0.1; done
"""
flowrun = cluster = None


def status():
    code, text = cluster.run([flowrun, "status", "--json"])
    return json.loads(text) if code == 0 else {}


def rows_of(no, text):
    """Whether the rows of that attempt have come."""
    folders = [os.path.join(at, name) for at, _, names in os.walk("state/runs") for name in names if "/metrics" in at]
    for path in folders:
        if re.search(r"a@train1\D+%d\b" % no, os.path.basename(path)):
            with open(path) as f:
                return text in f.read()
    return False


def row(checkpoint):
    return '{"step": 1}' if checkpoint is None else '{"step": 1, "checkpoint": %d}' % checkpoint


def run(what, attempts, on, ends):
    """attempts: the checkpoints that the rows of each name; all but the last one are preempted."""
    for name in os.listdir("."):
        if name == "m.jsonl" or name.startswith("go."):
            os.remove(name)
    subprocess.run(["rm", "-rf", "state/runs"], check=True)
    with open("rows", "w") as f:
        f.write("".join(";".join(row(c) for c in one) + "\n" for one in attempts))
    with open("fit.yaml", "w") as f:
        f.write("name: fit\nnodes: nodes.yaml\ntasks:\n  a: {on: %s, metrics: %s/m.jsonl, retry: {times: 0}, run: 'cd %s && sh fit.sh'}\n"
                % (on, t.folder, t.folder))
    going = slurm_lib.Flowrun([flowrun, "fit.yaml"], **cluster.env)
    for no, one in enumerate(attempts, 1):
        if no < len(attempts):
            t.until("%s: rows of attempt %d" % (what, no), lambda: rows_of(no, row(one[-1])))
            job = status()["allocations"][-1]["job"]
            t.same("%s: preempted" % what, cluster.act("end", job, "PREEMPTED")[0], 0)
        elif ends is None:
            t.until("%s: rows of attempt %d" % (what, no), lambda: rows_of(no, row(one[-1])))
            t.same("%s: it goes on" % what, {x["state"] for x in status()["tasks"]}, {"running"})
            open("go.%d" % no, "w").close()
    t.same(what + ": exit status", going.ended(), 0 if ends is None else 1)
    t.check(what + ": an end that is planned is no outage", "is unreachable" not in going.text(), going.text())
    t.check(what + ": and srun complains of nothing", "cpu binding" not in going.text(), going.text())
    got = status()
    t.same(what, {(x["state"], x["cause"], x["attempts"]) for x in got["tasks"]},
           {("succeeded" if ends is None else "failed", ends or "exit", len(attempts))})
    t.same(what + ": allocations", len(got["allocations"]), len(attempts))
    if ends:
        t.has(what, got["tasks"][0]["reason"], "two allocations in a row brought no newer checkpoint")


LATE = """name: late
nodes: nodes.yaml
tasks:
  a: {on: short1, run: 'while [ $(date +%%s) -lt $((FLOWRUN_DEADLINE - 39)) ]; do sleep 0.1; done'}
  other: {on: short1, run: 'until [ -e %s/other ]; do sleep 0.1; done'}
  b: {on: short1, needs: [a], notice: 40s, run: 'test $(($FLOWRUN_DEADLINE - $(date +%%s))) -gt 40'}
"""


def late():
    """A task that would be told to end at once is not begun: it costs no attempt, nor a link of a chain."""
    with open("late.yaml", "w") as f:
        f.write(LATE % t.folder)
    going = slurm_lib.Flowrun([flowrun, "late.yaml"], **cluster.env)
    t.until("late: it waits", lambda: "b@short1" in cluster.run([flowrun, "status"])[1] and re.search(
        r"b@short1 .*waits for a further allocation short, as this one is near its limit", cluster.run([flowrun, "status"])[1]))
    t.same("late: while another task uses that one", [x["state"] for x in status()["allocations"]], ["up"])
    open("other", "w").close()
    t.same("late: exit status", going.ended(), 0)
    got = status()
    t.same("late: no attempt is lost", [x["attempts"] for x in got["tasks"]], [1, 1, 1])
    t.same("late: allocations", [x["state"] for x in got["allocations"]], ["over", "over"])
    t.has("late: the first", got["allocations"][0]["note"], "was near its time limit")


def main():
    global flowrun, cluster
    flowrun, cluster = slurm_lib.begin_fake()
    for name, text in (("nodes.yaml", NODES % t.folder), ("fit.sh", FIT)):
        with open(name, "w") as f:
            f.write(text)
    run("the same checkpoint thrice", [[100], [100], [100]], "train1", "no_progress")
    run("of a gang, too", [[100], [100], [100]], "train, gang: true", "no_progress")
    run("a newer one that only the next attempt tells of", [[100], [100], [200], [200], [300]], "train1", None)
    run("a newer one in between", [[100], [100, 200], [100]], "train1", None)
    run("a task that names none", [[None], [None], [None], [None]], "train1", None)
    late()
    cluster.stop()
    t.finish()


main()
