#!/usr/bin/env python3
"""What is said of jobs that are left as flowrun ends before its runs do, over the commands of fakeslurm: by the flowrun of a
run, and by `flowrun serve`; then they are gone on with, or given back. usage: slurm_left.py BUILD"""
import json
import os
import re
import signal

import slurm_lib
import trainer_lib as t

NODES = """slurm:
  work: %s/work
  rpc: 60
  allocations:
    train: {nodes: 2, cpus: 1, time: 30m}
    wide: {copies: 6, cpus: 1, time: 2h, slots: 1, lease: 90s}
"""
WAIT = "until [ -e %s/go ]; do sleep 0.1; done"
QUEUE = (r"allocation train: Slurm job %d of cluster fake is left in Slurm's queue, expected 20\d\d-\S+Z; 'flowrun resume %d' "
         r"goes on with it, 'flowrun cancel %d' gives it back; without either it ends by itself once it has run for 30m00s "
         r"without a task and without a flowrun")
flowrun = cluster = None


def write(name, task):
    with open(name + ".yaml", "w") as f:
        f.write("name: %s\nnodes: nodes.yaml\nmax_parallel: 100\ntasks: {a: {%s}}\n" % (name, task))


def allocations(run):
    code, text = cluster.run([flowrun, "status", str(run), "--json"])
    return json.loads(text).get("allocations", []) if code == 0 else []


def counted(run):
    """How many of its allocations are in each state."""
    states = [row["state"] for row in allocations(run)]
    return {state: states.count(state) for state in states}


def told(run):
    """Slurm has said when its only job may start."""
    return [row["state"] for row in allocations(run) if row["estimate_wall"]] == ["queued"]


def begin(*words):
    return slurm_lib.Flowrun([flowrun, *words], **cluster.env)


def serve():
    host = begin("serve")
    t.until("serve", lambda: "this is the host" in host.text())
    return host


def end(what, process, status):
    """What it printed until SIGTERM ended it."""
    process.process.send_signal(signal.SIGTERM)
    t.same(what + ": exit status", process.ended(), status)
    return process.text()


def left_by_a_run(no):
    """The job of a run whose flowrun is ended while it waits."""
    run = begin("train.yaml")
    t.until("run %d waits for its job" % no, lambda: told(no))
    job = allocations(no)[0]["job"]
    text = end("flowrun of run %d" % no, run, 4)
    t.check("what is left", re.search(QUEUE % (job, no, no), text), text)
    t.same("and nothing else", text.count("goes on with it"), 1)
    return job


def ends_unseen(no):
    """The job of a run that was left begins, and somebody cancels it: the next flowrun of the home removes its folder, too."""
    job = left_by_a_run(no)
    folder = "work/alloc/" + allocations(no)[0]["tag"]
    cluster.act("begin", job)
    t.until("it begins", lambda: cluster.state(job) == "RUNNING")
    t.until("its places come up", lambda: all(os.path.exists("%s/place.%d" % (folder, n)) for n in (1, 2)))
    cluster.run(["scancel", str(job)])
    t.until("and close", lambda: all(os.path.exists("%s/place.%d.closed" % (folder, n)) for n in (1, 2)))
    host = serve()
    t.until("the next flowrun hears of it", lambda: counted(no) == {"over": 1})
    t.until("and removes its folder", lambda: not os.path.exists(folder), 60)
    t.same("the run waits for whoever resumes it", end("serve", host, 0).count("goes on with it"), 0)


def nodes(job):
    """What the host's interface says of the allocations of its nodes: all of the home that are not over."""
    shown = json.loads(cluster.run([flowrun, "api", "nodes"])[1])["allocations"]
    t.same("allocations of the interface", [(row["run"], row["name"], row["places"], row["state"], row["job"], row["cluster"], row["why"],
                                             row["hosts"], row["nodes"], row["time_ms"], row["end_wall"] > row["start_wall"] > 0) for row in shown if row["run"] == 2],
           [(2, "wide", "wide%d" % n, "up", job, "fake", "", row["hosts"], 1, 7200000, True) for n in range(1, 5) for row in shown if row["copy"] == n]
           + [(2, "wide", "wide%d" % n, "queued", job, "fake", "nodes are busy (Resources)", "", 1, 7200000, False) for n in (5, 6)])
    one = [row for row in shown if row["run"] == 1]
    t.same("and of a run that was left", [(row["name"], row["places"], row["state"], row["nodes"], row["estimate_wall"] > 0) for row in one],
           [("train", "train1 to train2", "queued", 2, True)])


def left_by_serve():
    """The job of run 2: of its six elements four run. Somebody follows run 3, and goes on with it."""
    host = serve()
    body = json.dumps({"pipeline": t.folder + "/wide.yaml", "cwd": t.folder})
    code, text = cluster.run([flowrun, "api", "-d", body, "runs"])
    t.check("submitted", code == 0, text)
    t.until("four elements run", lambda: counted(2) == {"up": 4, "queued": 2})
    job = allocations(2)[0]["job"]
    cluster.switch("hold", "9 100000")
    nodes(job)
    follower = begin("train.yaml")
    t.until("run 3 waits for its job", lambda: told(3))
    text = end("serve", host, 0)
    kept = ("; the next 'flowrun serve' or 'flowrun resume 2' goes on with it, 'flowrun cancel 2' gives it back; without either it "
            "ends by itself once it has run for 1m30s without a task and without a flowrun")
    t.check("what runs", re.search(r"allocation wide: Slurm job %d \(4 of its elements\) of cluster fake is left running, at most "
                                   r"until \d{4}-\S+Z?%s" % (job, re.escape(kept)), text), text)
    t.has("what waits", text, "allocation wide: Slurm job %d (2 of its elements) of cluster fake is left in Slurm's queue: nodes are "
          "busy (Resources)%s" % (job, kept))
    t.same("and nothing else, as run 3 is followed, and run 1 was left before", text.count("goes on with it"), 2)
    t.until("who follows is the host then", lambda: '"version"' in cluster.run([flowrun, "api", "host"])[1])
    text = end("follower", follower, 4)
    t.check("and says what it leaves", re.search(QUEUE % (allocations(3)[0]["job"], 3, 3), text), text)
    return job


def follower_leaves(no):
    """Who follows run no + 1 leaves, while the host goes on with a run of its own: both say which job is left."""
    host = begin("gate.yaml")
    t.until("a host", lambda: '"version"' in cluster.run([flowrun, "api", "host"])[1] and "of gate" in host.text())
    follower = begin("train.yaml")
    t.until("run %d waits for its job" % (no + 1), lambda: told(no + 1))
    job = allocations(no + 1)[0]["job"]
    text = end("the follower", follower, 4)
    t.check("the follower says what is left", re.search(QUEUE.replace("; '", "; a 'flowrun serve' of this home, whoever else follows the run, "
                                                                      "or '", 1) % (job, no + 1, no + 1), text), text)
    t.same("and nothing else", text.count("goes on with it"), 1)
    open("gate", "w").close()
    t.same("the host ends", host.ended(), 0)
    t.check("and says it, too", re.search(QUEUE % (job, no + 1, no + 1), host.text()), host.text())
    t.same("given back", (cluster.run([flowrun, "cancel", str(no + 1)])[0], counted(no + 1)), (0, {"over": 1}))


def main():
    global flowrun, cluster
    flowrun, cluster = slurm_lib.begin_fake()
    with open("nodes.yaml", "w") as f:
        f.write(NODES % t.folder)
    write("train", "on: train, run: 'true'")
    write("gate", "on: control, run: 'until [ -e %s/gate ]; do sleep 0.1; done'" % t.folder)
    write("wide", "on: wide, run: '%s'" % (WAIT % t.folder))
    cluster.switch("hold", "9 100000")
    first = left_by_a_run(1)
    cluster.off("hold")
    wide = left_by_serve()
    submits = len(cluster.commands("sbatch"))
    t.same("cancelled without a host", cluster.run([flowrun, "cancel", "1"])[0], 0)
    t.same("its job is given back", (cluster.state(first), counted(1)), ("CANCELLED", {"over": 1}))
    host = serve()
    open("go", "w").close()
    t.until("the next serve ends run 2", lambda: '"succeeded"' in cluster.run([flowrun, "status", "2", "--json"])[1]
            and counted(2) == {"over": 6})
    t.same("in the same job", {row["job"] for row in allocations(2)}, {wide})
    t.same("without a further one", len(cluster.commands("sbatch")), submits)
    text = end("serve", host, 0)
    t.check("then nothing is left", "is left" not in text and "given back" not in text, text)
    ends_unseen(4)
    follower_leaves(5)
    cluster.stop()
    t.finish()


main()
