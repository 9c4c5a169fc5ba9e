#!/usr/bin/env python3
"""`flowrun drain` of a place of an allocation, over the commands of fakeslurm: what waits there keeps no job, and the
next job has the drained place, too. usage: slurm_drain.py BUILD"""
import json
import os
import re
import sys

import slurm_lib
import trainer_lib as t

NODES = """slurm:
  work: %s/work
  rpc: 60
  allocations:
    train: {nodes: 2, cpus: 1, time: 30m, idle: 1s}
    prep: {nodes: 1, cpus: 1, time: 30m}
"""
WAIT = "until [ -e %s/%s ]; do sleep 0.1; done"
HEARD_S = 60  # what a run that does not hear of it never does, takes a turn of the host
flowrun = cluster = None


def ask(*words):
    return cluster.run([flowrun, *words])


def jobs():
    """The allocations called train: (number, state)."""
    got = json.loads(ask("status", "1", "--json")[1])["allocations"]
    return [(row["no"], row["state"]) for row in got if row["name"] == "train"]


def states():
    return {"%s@%s" % (x["task"], x["node"]): x["state"] for x in json.loads(ask("status", "1", "--json")[1])["tasks"]}


def open_gate(name):
    open(name, "w").close()


def waits(key, run="1"):
    return re.search(r"%s .* waits for train2, which is drained: disks" % key, ask("status", run)[1])


def never_there():
    """The place is drained before a run begins, so it has no job: the run hears that it takes tasks again."""
    with open("q.yaml", "w") as f:
        f.write("name: q\nnodes: nodes.yaml\ntasks: {b: {on: train2, run: 'true'}}\n")
    t.same("drained before", ask("drain", "train2", "--note", "disks")[0], 0)
    submits = len(cluster.commands("sbatch"))
    run = slurm_lib.Flowrun([flowrun, "q.yaml"], **cluster.env)
    t.until("a run waits for the place alone", lambda: waits("b@train2", "2"))
    t.same("and asks for no job", len(cluster.commands("sbatch")), submits)
    t.same("undrained again", ask("undrain", "train2")[0], 0)
    if t.until("it asks for its job", lambda: len(cluster.commands("sbatch")) > submits, HEARD_S):
        t.same("it gets its job", (run.ended(), len(cluster.commands("sbatch"))), (0, submits + 1))
    run.kill()


def main():
    global flowrun, cluster
    flowrun, cluster = slurm_lib.begin_fake()
    with open("nodes.yaml", "w") as f:
        f.write(NODES % t.folder)
    with open("p.yaml", "w") as f:
        f.write("name: p\nnodes: nodes.yaml\ntasks:\n"
                "  a: {on: train, run: 'true'}\n"
                "  gate: {on: prep1, needs: [a], run: '%s'}\n"
                "  b: {on: train2, needs: [gate], run: 'true'}\n"
                "  g: {on: train, gang: true, needs: [gate], run: 'true'}\n"
                "  more: {on: prep1, needs: [gate], run: '%s'}\n"
                "  c: {on: train1, needs: [more], run: '%s'}\n"
                % (WAIT % (t.folder, "gate"), WAIT % (t.folder, "more"), WAIT % (t.folder, "c")))
    run = slurm_lib.Flowrun([flowrun, "p.yaml"], **cluster.env)
    t.until("the gate waits", lambda: run.text().count("a@train") >= 2 and states()["gate@prep1"] == "running")
    t.same("drained", ask("drain", "train2", "--note", "disks")[0], 0)
    open_gate("gate")
    t.until("what is ready there waits", lambda: waits("b@train2"))
    t.until("and keeps no job, nor does a gang that needs the place", lambda: jobs() == [(1, "over")])
    open_gate("more")
    t.until("another place gets the next job", lambda: states()["c@train1"] == "running")
    t.same("of which the place is drained, too", [states()[key] for key in ("b@train2", "g@train1", "g@train2")], ["ready"] * 3)
    t.check("which is said", waits("b@train2"), ask("status", "1")[1])
    t.has("its node says so", ask("api", "nodes")[1], '"note":"disks"')
    run.kill()
    run = slurm_lib.Flowrun([flowrun, "resume"], **cluster.env)
    t.until("resumed", lambda: "c@train1" in states() and jobs() == [(1, "over"), (2, "up")])
    open_gate("c")
    t.until("that is given back, too", lambda: jobs() == [(1, "over"), (2, "over")])
    t.same("nothing has begun there", states()["b@train2"], "ready")
    t.same("undrained", ask("undrain", "train2")[0], 0)
    if t.until("the run hears of it", lambda: len(jobs()) == 3, HEARD_S):
        t.same("it goes on", run.ended(), 0)
        t.same("in a further job", jobs(), [(1, "over"), (2, "over"), (3, "over")])
        never_there()
    run.kill()
    cluster.stop()
    t.finish()


main()
