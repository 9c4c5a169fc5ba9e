#!/usr/bin/env python3
"""Slurm's controller is away at the end of a run, over the commands of fakeslurm: what cannot be given back then.
usage: slurm_away.py BUILD"""
import json
import os
import sys

import slurm_lib
import trainer_lib as t

NODES = """slurm:
  work: %s/work
  rpc: 60
  allocations:
    train: {nodes: 2, cpus: 1, time: 30m%s}
"""
flowrun = cluster = None


def at_work(home):
    return {**cluster.env, "FLOWRUN_HOME": "%s/%s" % (t.folder, home)}


def allocations(env):
    return json.loads(cluster.run([flowrun, "status", "1", "--json"], **env)[1])["allocations"]


def end_without_slurm(name, more):
    """A run that ends while the controller is away: its environment and its job."""
    env = at_work(name)
    with open(name + ".nodes.yaml", "w") as f:
        f.write(NODES % (t.folder, more))
    with open(name + ".yaml", "w") as f:
        f.write("name: a\nnodes: %s.nodes.yaml\ntasks:\n  a: {on: train, run: 'until [ -e %s/%s.go ]; do sleep 0.1; done; echo out'}\n"
                % (name, t.folder, name))
    run = slurm_lib.Flowrun([flowrun, name + ".yaml", "--verbose"], **env)
    t.until(name + ": both run", lambda: run.text().count(" running") == 2)
    cluster.switch("away")
    open(name + ".go", "w").close()
    t.same(name + ": exit status", run.ended(), 0)
    job = allocations(env)[0]["job"]
    t.has(name + ": what is left is said", run.text(), "allocation train: Slurm job %d of cluster fake is not given back yet: Slurm does "
          "not answer: slurm_load_jobs error: Unable to contact slurm controller" % job)
    t.has(name + ": and what becomes of it", run.text(), "; the next run of this home gives it back; without one it ends by "
          "itself when its lease is over")
    t.same(name + ": its row", [row["state"] for row in allocations(env)], ["releasing"])
    cluster.off("away")
    t.same(name + ": Slurm has it", cluster.state(job), "RUNNING")
    return env, job


def main():
    global flowrun, cluster
    flowrun, cluster = slurm_lib.begin_fake()
    env, leased = end_without_slurm("leased", ", lease: 1m")
    env, next_one = end_without_slurm("next", "")
    with open("other.yaml", "w") as f:
        f.write("tasks: {b: {run: 'true'}}\n")
    code, text = cluster.run([flowrun, "other.yaml"], **env)
    t.same("the next run", code, 0)
    t.same("gives it back", (cluster.state(next_one), [row["state"] for row in allocations(env)]), ("CANCELLED", ["over"]))
    t.check("and says nothing of it", "given back" not in text, text)
    t.until("without one the lease ends it", lambda: cluster.state(leased) == "COMPLETED")
    cluster.stop()
    t.finish()


main()
