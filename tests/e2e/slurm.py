#!/usr/bin/env python3
"""flowrun on a real Slurm of three nodes on this machine (slurm_lib.py): a run takes an allocation, uses it
and gives it back; kills of flowrun, links, keepers and the controller; limits, scancel, refusals.
train: the main job. usage: slurm.py BUILD runs|kills|ends|leases|train. Skipped where there is no Slurm, or without root."""
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys

import slurm_lib
import trainer_lib as t

INVENTORY = """slurm:
  work: %s/work
  rpc: 60
  allocations:
    train: {nodes: 2, cpus: 1, time: 30m, idle: %s}
    prep: {nodes: 1, cpus: 1, time: 30m}
"""
flowrun = s = None


def pipeline(name, tasks, idle="2m", more=""):
    """A pipeline file; tasks: lines of its map."""
    with open(name + ".yaml", "w") as f:
        f.write("name: %s\nnodes: %s.nodes.yaml\n%stasks:\n" % (name, name, more))
        f.write("".join("  %s\n" % line for line in tasks.strip().splitlines()))
    with open(name + ".nodes.yaml", "w") as f:
        f.write(INVENTORY % (t.folder, idle))
    return name + ".yaml"


def begin(*words, **env):
    return slurm_lib.Flowrun([flowrun, *words], **s.env, **env)


def ask(*words):
    return s.run([flowrun, *words])


def status(no=None):
    code, text = ask("status", *([str(no)] if no else []), "--json")
    return json.loads(text) if code == 0 else {}


def jobs():
    """All jobs that Slurm knows: {id: (name, state)}."""
    lines = s.run(["squeue", "-h", "-t", "all", "-o", "%A %j %T"])[1].split("\n")
    return {int(a): (b, c) for a, b, c in (line.split() for line in lines if line.strip())}


def nothing_left(what, ids):
    """The jobs are over, no process of one is left, and Slurm has taken no node out of use."""
    t.until(what + ": its jobs end", lambda: not [i for i in ids if s.state(i) in ("PENDING", "RUNNING", "COMPLETING")])
    tags = [name[3:] for i, (name, _) in jobs().items() if i in ids]
    t.until(what + ": no process of its jobs is left", lambda: not slurm_lib.running(tags), 60)
    slurm_lib.folders_gone(what, tags, flowrun, s.env)
    t.same(what + ": no node is drained", s.drained(), "")


def new_jobs(before):
    return sorted(set(jobs()) - set(before))


# ---- runs ----

def runs():
    before = jobs()
    path = pipeline("hello", """
hello: {on: train, run: 'echo "$FLOWRUN_NODE of $FLOWRUN_EXECUTOR in job $SLURM_JOB_ID"; env | grep -E "^(SLURM_PROCID|SLURM_LOCALID|SLURM_NTASKS|SLURM_STEP_ID|PMI)" || echo none of a step'}
gang: {on: train, gang: true, needs: [hello], run: 'echo "rank $NODE_RANK of $NNODES at $MASTER_ADDR; $FLOWRUN_PEERS" | tr "\\n" " "; echo'}
last: {on: prep1, needs: [gang], env: {WHERE: "${{ node.name }} by ${{ node.executor }}"}, run: 'echo "$WHERE"'}
""")
    code, text = ask(path)
    t.same("a run on two allocations", code, 0)
    made = new_jobs(before)
    t.same("two jobs", len(made), 2)
    for place in ("train1", "train2"):
        t.has("a task at " + place, text, "hello@%s | %s of slurm in job " % (place, place))
    t.same("nothing of a rank is there", text.count("| none of a step"), 2)
    for rank in (0, 1):
        t.has("a member of a gang", text, "rank %d of 2 at 127.0.0.1; train1 127.0.0.1 train2 127.0.0.1" % rank)
    t.has("an expression", text, "last@prep1 | prep1 by slurm")
    t.has("what is waited for", text, "waits for Slurm job %d (train)" % made[0])
    got = status()
    t.same("allocations in --json", [(a["name"], a["no"], a["job"], a["state"], a["submits"], a["hosts"])
                                     for a in got["allocations"]],
           [("train", 1, made[0], "over", 1, "node1 node2"), ("prep", 1, made[1], "over", 1, got["allocations"][1]["hosts"])])
    t.has("and in status", ask("status")[1], "allocation train: over, Slurm job %d CANCELLED on node1 node2" % made[0])
    nothing_left("a run", made)
    without_slurm()
    idle(jobs())
    refused(jobs())
    queued(jobs())
    left(jobs())
    secret(jobs())


def holders(value):
    """Names of the programs whose arguments or environment have it."""
    names = set()
    for pid, words in slurm_lib.processes():
        with contextlib.suppress(OSError), open("/proc/%d/environ" % pid, "rb") as f, open("/proc/%d/comm" % pid) as g:
            if value.encode() in f.read() + words:
                names.add(g.read().strip())
    return names


def secret(before):
    """A secret reaches its task, and nothing that Slurm keeps, shows or starts."""
    value = os.urandom(16).hex()
    with open("token", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write(value)
    run = begin(pipeline("secret", """
a: {on: train1, env: {TOKEN: '${{ secrets.token }}'}, run: 'test ${#TOKEN} = 32 && echo has it; until [ -e %s/told ]; do sleep 0.1; done'}
""" % t.folder, more="secrets: {token: {file: token}}\n"))
    t.until("the task has it", lambda: "| has it" in run.text())
    allocation = status()["allocations"][0]
    shown = s.run(["scontrol", "show", "job", "-dd", str(allocation["job"])])[1] + \
        s.run(["scontrol", "write", "batch_script", str(allocation["job"]), "-"])[1]
    t.check("Slurm shows the job and its script, and no secret", "flowrun:" in shown and "srun" in shown and value not in shown, shown)
    names = holders(value)
    t.check("the task has it, and no other program", "sh" in names and names <= {"sh", "sleep"}, names)
    folders = [t.folder + "/cluster", t.folder + "/work", t.folder + "/state", "/tmp/flowrun-%d" % os.getuid()]
    for text, there in (("has it", True), (value, False)):
        t.same("files with a text of the task: %s" % there, s.run(["grep", "-rlsF", "--devices=skip", text, *folders])[1] != "", there)  # files come and go meanwhile
    open("told", "w").close()
    t.same("a run with a secret", run.ended(), 0)
    nothing_left("a run with a secret", new_jobs(before))


def without_slurm():
    """The same tasks on nodes of another kind: the pipeline says nothing of Slurm."""
    with open("other.yaml", "w") as f:
        f.write("name: hello\nnodes:\n  - {name: train1, labels: [train]}\n  - {name: train2, labels: [train]}\n  - {name: prep1}\n")
        with open("hello.yaml") as g:
            f.write(g.read().split("yaml\n", 1)[1])
    t.same("the same pipeline without Slurm", ask("other.yaml")[0], 0)


def idle(before):
    """An allocation that nothing uses is given back, and another one is taken when a task needs it."""
    path = pipeline("pause", """
a: {on: train1, run: 'true'}
b: {on: prep1, needs: [a], run: 'until [ -e %s/go ]; do sleep 0.1; done'}
c: {on: train2, needs: [b], run: 'true'}
""" % t.folder, idle="1s")
    run = begin(path)
    t.until("the first is given back", lambda: any(a["state"] == "over" for a in status().get("allocations", [])))
    open("go", "w").close()
    t.same("a pause", run.ended(), 0)
    t.same("another allocation of the name", [(a["name"], a["no"]) for a in status()["allocations"]],
           [("train", 1), ("prep", 1), ("train", 2)])
    nothing_left("a pause", new_jobs(before))


def queued(before):
    """Others have all nodes for longer than queue_for: the job is given up, and so is what waits for it."""
    others = s.submit("-N3", "--exclusive", "--wrap", "sleep 1000", "-o", "/dev/null")
    t.until("others run", lambda: s.state(others) == "RUNNING")
    path = pipeline("queued", "a: {on: train, gang: true, retry: {times: 3, delay: 0s}, run: 'true'}")
    chained("queued", "time: 30m", "queue_for: 3s")
    code, text = ask(path)
    got = status()
    t.same("a wait that is too long", (code, [(x["state"], x["cause"], x["attempts"]) for x in got["tasks"]]),
           (1, [("failed", "queue_time", 0)] * 2))
    job = got["allocations"][0]["job"]
    t.has("its reason", text, "a@train1: job %d did not begin within queue_for (" % job)
    t.same("one job", [(a["state"], a["cause"]) for a in got["allocations"]], [("over", "queue_time")])
    s.run(["scancel", str(others)])
    nothing_left("a wait that is too long", [i for i in new_jobs(before) if i != others])
    t.same("a retry by hand asks anew", ask("retry")[0], 0)
    nothing_left("a retry by hand", [i for i in new_jobs(before) if i != others])


def refused(before):
    for key, value, words in (("partition", "nowhere", "invalid partition"), ("constraint", "quantum", "invalid feature")):
        path = pipeline("no", "a: {on: train1, run: 'true'}")
        with open("no.nodes.yaml") as f:
            text = f.read().replace("time: 30m, idle", "time: 30m, %s: %s, idle" % (key, value), 1)
        with open("no.nodes.yaml", "w") as f:
            f.write(text)
        code, text = ask(path)
        t.same("a %s that is not there" % key, code, 6)
        t.has("Slurm's words about %s" % key, text.lower(), words)
        t.same("no attempt", [x["attempts"] for x in status()["tasks"]], [0])
    t.same("no job", new_jobs(before), [])
    pipeline("later", "a: {on: train1, run: 'true'}")
    with open("later.nodes.yaml") as f:
        text = f.read().replace("time: 30m, idle", "time: 30m, partition: late, idle", 1)
    with open("later.nodes.yaml", "w") as f:
        f.write(text)
    t.same("no such partition yet", ask("later.yaml")[0], 6)
    s.run(["scontrol", "create", "PartitionName=late", "Nodes=ALL"])
    t.same("asked again by a retry", ask("retry")[0], 0)
    os.mkdir("none")
    code, text = s.run([flowrun, pipeline("bare", "a: {on: train1, run: 'true'}")], PATH=t.folder + "/none")
    t.same("without Slurm's programs", code, 6)
    t.has("what is missing is said", text, "a@train1 failed: there is no program scontrol in PATH; load Slurm's module")


def left(before):
    """Cancelled while it waits in the queue: the job goes, too."""
    s.run(["scontrol", "update", "PartitionName=all", "State=DOWN"])
    run = begin(pipeline("queued", "a: {on: train, run: 'true'}"))
    t.until("it waits", lambda: "waits for Slurm job" in run.text())
    t.until("why is said", lambda: "PartitionDown" in run.text() or "PartitionDown" in ask("status")[1])
    run.process.send_signal(signal.SIGINT)
    t.same("cancelled", run.ended(), 3)
    s.run(["scontrol", "update", "PartitionName=all", "State=UP"])
    nothing_left("cancelled", new_jobs(before))
    folders()


def folders():
    """What a flowrun left that was killed behind the row and before it removed the folder: the next one does it."""
    rows = [("proven", 1, 0), ("not closed", 0, 0), ("not closed for a day", 0, 86401000)]
    with contextlib.closing(sqlite3.connect("state/state.db")) as store:
        ids = [row[0] for row in store.execute("SELECT id FROM allocation ORDER BY id DESC LIMIT 3")]
        for id, (_, proven, ago) in zip(ids, rows):
            folder = "%s/work/alloc/%032x" % (t.folder, id)
            os.mkdir(folder)
            open(folder + "/claim", "w").close()
            store.execute("UPDATE allocation SET folder = ?, proven = ?, job = 1, ended_wall = ended_wall - ? WHERE id = ?",
                          (folder, proven, ago + 61000, id))
        store.commit()
    t.same("the next flowrun", ask(pipeline("next", "a: {on: prep, run: 'true'}"))[0], 0)
    for id, (what, _, _), there in zip(ids, rows, (False, True, False)):
        t.same("a folder that is " + what, os.path.exists("work/alloc/%032x" % id), there)


# ---- kills ----

COUNT = "for i in $(seq 1 60); do echo line $i; sleep 0.1; done"


def at_work(home, **more):
    """The environment of another home."""
    return dict(FLOWRUN_HOME="%s/%s" % (t.folder, home), **more)


def allocations(env):
    code, text = s.run([flowrun, "status", "--json"], **env)
    return json.loads(text).get("allocations", []) if code == 0 else []


def kills():
    """Homes of their own, since one that must look for its job waits for minutes before it submits again."""
    before = jobs()
    path = pipeline("kills", "a: {on: prep, run: 'true'}")
    homes = [at_work("home.%d" % ms) for ms in range(20)]
    for ms, env in enumerate(homes):
        run = begin(path, **env)
        t.until("Slurm is asked", lambda: [a for a in allocations(env) if a["state"] != "wanted"])
        subprocess.run(["sleep", "%.3f" % (ms / 1000)], check=True)
        run.kill()
    again = [begin("resume", **env) for env in homes]
    for ms, (run, env) in enumerate(zip(again, homes)):
        what = "killed %d ms behind the row" % ms
        t.same(what + ": ends well", run.ended(), 0)
        rows = allocations(env)
        t.same(what + ": one allocation", [(a["no"], a["state"]) for a in rows], [(1, "over")])
    made = new_jobs(before)
    names = [jobs()[i][0] for i in made]
    t.same("one job of each tag", len(set(names)), len(names))
    t.same("as many jobs as runs", len(names), len(homes))
    nothing_left("killed at the submit", made)
    killed_up()
    limited(jobs())


def limited(before):
    """A limit of Slurm is no failure: the run is at rest for a minute, and asks again."""
    os.mkdir("limit")
    with open("limit/sbatch", "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
        f.write("#!/bin/sh\n[ -e %s/room ] && exec %s \"$@\"\necho 'sbatch: error: Batch job submission failed: "
                "Slurm temporarily unable to accept job, sleeping and retrying' >&2\nexit 1\n"
                % (t.folder, shutil.which("sbatch")))
    pipeline("limited", "a: {on: prep, run: 'until [ -e %s/turns ]; do sleep 0.1; done'}" % t.folder)
    with open("limited.nodes.yaml") as f:
        text = f.read().replace("rpc: 60", "rpc: 60\n  path: %s/limit" % t.folder)
    with open("limited.nodes.yaml", "w") as f:
        f.write(text)
    run = begin("limited.yaml")
    rows = "SELECT note, job FROM allocation ORDER BY id DESC LIMIT 1"

    def row():
        with contextlib.closing(sqlite3.connect("file:%s/state/state.db?mode=ro" % t.folder, uri=True)) as store:
            return store.execute(rows).fetchone()
    t.until("the run is there", lambda: allocations(os.environ))
    t.until("it hears of the limit", lambda: "temporarily unable" in row()[0])
    open("room", "w").close()
    t.until("it asks again", lambda: row()[1] != 0)
    turns = status()["host"]["turns"]
    t.check("the host was at rest", turns < 2000, turns)
    open("turns", "w").close()
    t.same("a limit", run.ended(), 0)
    nothing_left("a limit", new_jobs(before))


def killed_up():
    before = jobs()
    run = begin(pipeline("up", "a: {on: train1, run: '%s'}\nb: {on: train2, run: '%s'}" % (COUNT, COUNT)))
    t.until("both write", lambda: "a@train1 | line 3" in run.text() and "b@train2 | line 3" in run.text())
    for pid in links(before):
        os.kill(pid, signal.SIGKILL)
    t.until("the links come back", lambda: run.text().count("connected (srun)") >= 4)
    run.kill()
    t.same("resumed", ask("resume")[0], 0)
    t.same("nothing is submitted again", [a["submits"] for a in status()["allocations"]], [1])
    for name in ("a@train1", "b@train2"):
        lines = re.findall(r"line (\d+)", ask("logs", name)[1])
        t.same("lines of " + name, lines, [str(i) for i in range(1, 61)])
    nothing_left("killed while tasks run", new_jobs(before))


def links(before):
    """Processes of the link steps of new jobs: srun on this machine."""
    ids = [b"--jobid=%d" % i for i in new_jobs(before)]
    split = [(pid, words.split(b"\0")) for pid, words in slurm_lib.processes()]
    return [pid for pid, words in split if words[0] == b"srun" and b"relay" in words and any(i in words for i in ids)]


# ---- ends ----

WAIT = "until [ -e %s/go.$FLOWRUN_ATTEMPT_NO ]; do sleep 0.1; done"


def begin_waiting(name, retry="{times: 0}"):
    """A run whose two attempts wait for the file go.N."""
    for n in (1, 2, 3):
        if os.path.exists("go.%d" % n):
            os.remove("go.%d" % n)
    before = jobs()
    run = begin(pipeline(name, "a: {on: train, retry: %s, run: '%s'}" % (retry, WAIT % t.folder)))
    t.until("both run", lambda: [x["state"] for x in status().get("tasks", [])] == ["running"] * 2)
    return run, before, status()["allocations"][0]["job"]


def go(n):
    open("go.%d" % n, "w").close()


def ends():
    run, before, job = begin_waiting("outside")
    s.run(["scancel", str(job)])
    t.same("scancel by hand", run.ended(), 1)
    t.same("its cause", {x["cause"] for x in status()["tasks"]}, {"cancelled_outside"})
    t.same("none is taken in its place", len(status()["allocations"]), 1)
    nothing_left("scancel by hand", new_jobs(before))
    controller()
    noticed(jobs())
    preempted(jobs())
    node_fails(jobs())
    forgotten()


def noticed(before):
    """A task with notice: is stopped before the limit, and goes on in the next job once nothing else uses the first."""
    path = pipeline("noticed", """
a: {on: train1, notice: 90s, run: 'trap "echo saved; exit 0" TERM; while [ $FLOWRUN_ATTEMPT_NO = 1 ]; do sleep 0.1; done; echo goes on'}
b: {on: train2, run: 'until [ -e %s/other ]; do sleep 0.1; done'}
""" % t.folder)
    with open("noticed.nodes.yaml") as f:
        text = f.read().replace("cpus: 1, time: 30m", "cpus: 1, time: 2m, chain: 1", 1)
    with open("noticed.nodes.yaml", "w") as f:
        f.write(text)
    run = begin(path)
    t.until("it is told", lambda: "a@train1 | saved" in run.text(),
            more=lambda: "\n".join(["", run.text(), ask("status")[1], ask("logs", "a@train1")[1]]))
    got = status()
    t.same("its end waits while another task runs there", [x["state"] for x in got["tasks"]], ["running"] * 2)
    t.same("and no other job is asked for", [(a["no"], a["state"]) for a in got["allocations"]], [(1, "up")])
    open("other", "w").close()
    t.same("notice:", run.ended(), 0)
    got = status()
    t.same("attempts", [(x["state"], x["attempts"]) for x in got["tasks"]], [("succeeded", 2), ("succeeded", 1)])
    t.same("two jobs", [(a["no"], a["cause"]) for a in got["allocations"]], [(1, "time_limit"), (2, "stopped")])
    t.has("the first is given back before its limit", got["allocations"][0]["note"], "was near its time limit")
    t.has("the second's output", ask("logs", "a@train1")[1], "goes on")
    t.has("it is told", run.text(), "its allocation reached its time limit; it goes on in another one (1 of 1)")
    nothing_left("notice:", new_jobs(before))


def preempted(before):
    """Others take the nodes: a task with notice: has time to save, and goes on once they are free again."""
    path = pipeline("preempted", """
a: {on: train, gang: true, notice: 5m, run: 'trap "echo saved; exit 0" TERM; echo up; while [ $FLOWRUN_ATTEMPT_NO = 1 ]; do sleep 0.1; done; echo goes on'}
""")
    chained("preempted", "time: 30m", "chain: 1")
    s.run(["scontrol", "update", "PartitionName=all", "GraceTime=20"])
    run = begin(path)
    t.until("both run", lambda: run.text().count(" | up") == 2)
    urgent = s.submit("-p", "urgent", "-N3", "--exclusive", "--wrap", "sleep 1000", "-o", "/dev/null")
    t.until("they have time to save", lambda: run.text().count(" | saved") == 2)
    t.until("another job is asked for", lambda: [a["no"] for a in status()["allocations"]] == [1, 2])
    t.has("it is told", run.text(), "its allocation was preempted; it goes on in another one (1 of 1)")
    s.run(["scancel", str(urgent)])
    t.same("a preemption", run.ended(), 0)
    got = status()
    t.same("attempts", [(x["state"], x["attempts"]) for x in got["tasks"]], [("succeeded", 2)] * 2)
    t.same("the jobs", [a["cause"] for a in got["allocations"]], ["preempted", "stopped"])
    nothing_left("a preemption", [job for job in new_jobs(before) if job != urgent])


def chained(name, old, new):
    with open(name + ".nodes.yaml") as f:
        text = f.read().replace(old, old + ", " + new, 1)
    with open(name + ".nodes.yaml", "w") as f:
        f.write(text)


def node_fails(before):
    """A node is drained: what runs there goes on. It fails, and its job with it, whose keepers cannot close then."""
    run, before, job = begin_waiting("fails", "{times: 1, delay: 0s}")
    hosts = s.hosts(job)
    s.run(["scontrol", "update", "nodename=" + hosts[1], "state=drain", "reason=test"])
    t.same("drained, tasks go on", [x["state"] for x in status()["tasks"]], ["running"] * 2)
    s.run(["scontrol", "update", "nodename=" + hosts[1], "state=down", "reason=test"])
    t.same("a failed node", run.ended(), 1)
    t.same("whether its tasks are gone is not known, so nothing starts in their place",
           [(x["state"], x["cause"], x["attempts"]) for x in status()["tasks"]], [("stop_unproven", "node_lost", 1)] * 2)
    t.same("nor is another job asked for", [a["cause"] for a in status()["allocations"]], ["node_lost"])
    go(1)
    s.run(["scontrol", "update", "nodename=" + hosts[1], "state=resume"])
    nothing_left("a failed node", new_jobs(before))


def controller():
    """The controller is away while tasks run and end: nothing is concluded, and the same end comes."""
    run, before, job = begin_waiting("away")
    s.controller.send_signal(signal.SIGTERM)
    s.controller.wait()
    go(1)
    t.until("the tasks end without it", lambda: {x["state"] for x in status()["tasks"]} == {"succeeded"})
    s.start_controller("-R")
    t.same("the controller was away", run.ended(), 0)
    nothing_left("the controller was away", new_jobs(before))
    t.check("its nodes are back", s.wait_idle(), s.report())  # it asks one that was slow to answer minutes later


def forgotten():
    """The controller comes back without its state: what runs goes on, or is told as lost, and ids that begin
    again are not mistaken."""
    run, before, job = begin_waiting("lost", "{times: 1, delay: 0s}")
    s.controller.kill()
    s.controller.wait()
    shutil.rmtree(s.folder + "/state")
    os.makedirs(s.folder + "/state")
    s.start_controller("-c")
    t.until("it answers", lambda: s.run(["scontrol", "ping"])[0] == 0)
    go(1)
    go(2)
    t.check("the state is lost: the run ends", run.ended() in (0, 1), run.text())
    t.same("the state is lost: no node is drained", s.drained(), "")


# ---- leases ----

def leases():
    """A job in which nothing runs, and nothing waits to be fetched, ends itself once nobody comes; not before."""
    before = jobs()
    path = pipeline("leased", """
a: {on: train, run: 'true'}
b: {on: prep1, needs: [a], run: 'echo up; until [ -e %s/go ]; do sleep 0.1; done; echo done'}
c: {on: train2, needs: [b], run: 'true'}
""" % t.folder, idle="30m, lease: 1m")
    chained("leased", "prep: {nodes: 1", "lease: 1m")
    run = begin(path)
    t.until("b runs", lambda: "b@prep1 | up" in run.text())
    train, prep = [a["job"] for a in status()["allocations"]]
    env, late = killed_while_queued()
    t.until("a job that began while nobody was there ends", lambda: s.state(late) == "COMPLETED")
    t.same("not one that is older, and whose flowrun is there", s.state(train), "RUNNING")
    t.same("nor is a link to it cut", run.text().count("train1: connected (srun)"), 1)
    run.kill()
    t.until("once that is killed, what nothing uses ends by itself", lambda: s.state(train) == "COMPLETED")
    t.same("where a task runs, it goes on", s.state(prep), "RUNNING")
    open("go", "w").close()
    t.same("resumed", ask("resume")[0], 0)
    got = status()
    t.same("tasks", [(x["state"], x["attempts"]) for x in got["tasks"]], [("succeeded", 1)] * 4)
    t.same("allocations", [(a["name"], a["no"], a["cause"]) for a in got["allocations"]],
           [("train", 1, "stopped"), ("prep", 1, "stopped"), ("train", 2, "stopped")])
    t.has("why the first ended", got["allocations"][0]["note"], "job %d ended itself, as its lease was over" % train)
    t.has("what came of b", ask("logs", "b")[1], "done")
    t.same("the late one, resumed", s.run([flowrun, "resume"], **env)[0], 0)
    t.same("another job is taken", [(a["no"], a["cause"]) for a in allocations(env)], [(1, "start_failed"), (2, "stopped")])
    nothing_left("leases", new_jobs(before))
    requeued(jobs())


def requeued(before):
    """Our jobs cannot be requeued; an administrator's requeue all the same is a preemption, and the job is cancelled."""
    path = pipeline("requeued", "a: {on: train, gang: true, retry: {times: 0}, run: '%s'}" % (WAIT % t.folder))
    chained("requeued", "time: 30m", "chain: 1")
    go(2)
    run = begin(path)
    t.until("both run", lambda: [x["state"] for x in status().get("tasks", [])] == ["running"] * 2)
    job = status()["allocations"][0]["job"]
    t.check("Slurm refuses to requeue it", s.run(["scontrol", "requeue", str(job)])[0] != 0)
    t.same("unless root allows that", [s.run(["scontrol", *words])[0] for words in
                                       (["update", "jobid=%d" % job, "requeue=1"], ["requeue", str(job)])], [0, 0])
    t.same("a requeue", run.ended(), 0)
    got = status()
    t.same("it goes on in another job", [(x["state"], x["attempts"]) for x in got["tasks"]], [("succeeded", 2)] * 2)
    t.same("the jobs", [(a["no"], a["cause"]) for a in got["allocations"]], [(1, "preempted"), (2, "stopped")])
    t.has("why", got["allocations"][0]["note"], "job %d was requeued" % job)
    t.has("what users hear", run.text(), "its allocation was preempted; it goes on in another one (1 of 1)")
    t.same("the requeued job runs no more", s.state(job), "CANCELLED")
    nothing_left("a requeue", new_jobs(before))


def killed_while_queued():
    """Of a run in a home of its own: the home, and the job, which begins then."""
    before, env = jobs(), at_work("home.late")
    pipeline("late", "a: {on: prep, run: 'true'}")
    chained("late", "prep: {nodes: 1", "lease: 1m")
    s.run(["scontrol", "update", "PartitionName=all", "State=DOWN"])
    run = begin("late.yaml", **env)
    t.until("it waits", lambda: "PartitionDown" in run.text() or "PartitionDown" in s.run([flowrun, "status"], **env)[1])
    run.kill()
    s.run(["scontrol", "update", "PartitionName=all", "State=UP"])
    return env, new_jobs(before)[0]
# ---- train ----

REPO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STEPS = 60


def job_words(nodes):
    """The main job: the same file and parameters wherever the nodes are."""
    return [REPO + "/pipelines/deepseek-lora.yaml", "-p", "nodes=" + nodes, "-p", "max_steps=%d" % STEPS,
            "-p", "save_steps=%d" % (2 * STEPS), "-p", "port=%d" % t.free_port()]


def trained(work):
    """The steps in the log of a training; work: of its first node."""
    with contextlib.suppress(OSError), open(work + "/output/trainer_log.jsonl") as f:
        return [x["current_steps"] for x in map(json.loads, f) if "loss" in x]
    return []


def published(work):
    return t.file_bytes(work + "/published/latest/adapter_model.safetensors")


def ranks():
    """Processes of the training under Slurm that are ranks, by their rank."""
    found = {}
    for pid, words in slurm_lib.processes():
        with contextlib.suppress(OSError), open("/proc/%d/environ" % pid, "rb") as f:
            env = f.read().split(b"\0") if (t.folder + "/work/work/").encode() in words else []
            found.update({int(word[5:]): pid for word in env if word.startswith(b"RANK=")})
    return found


def train():
    """The main job from cleanup to a published adapter, on nodes of this machine and in two jobs of Slurm: the first is
    preempted while it trains, and the second goes on where that stopped. The same file, the same adapter."""
    local, slurm = "state/nodes/n1/work", "work/work/train1"
    t.same("on nodes of this machine", ask(*job_words(REPO + "/examples/clusters/local-3.yaml"))[0], 0)
    t.same("a loss for each step", trained(local), list(range(1, STEPS + 1)))
    before = jobs()
    with open("slurm.yaml", "w") as f:
        f.write("slurm:\n  work: %s/work\n  rpc: 60\n  allocations:\n    train: {nodes: 3, cpus: 1, time: 30m, chain: 1}\n" % t.folder)
    s.run(["scontrol", "update", "PartitionName=all", "GraceTime=30"])
    run = begin(*job_words("slurm.yaml"))
    t.until("it trains", lambda: len(trained(slurm)) > 4 and len(ranks()) == 3)
    os.kill(ranks()[1], signal.SIGSTOP)  # all wait for it, so that the training is not over before it is preempted
    urgent = s.submit("-p", "urgent", "-N3", "--exclusive", "--wrap", "sleep 1000", "-o", "/dev/null")
    t.until("another job is asked for", lambda: [a["no"] for a in status()["allocations"]] == [1, 2])  # Slurm's TERM comes with a CONT
    t.has("it saved what it had", run.text(), "as asked; the resume state is written")
    s.run(["scancel", str(urgent)])
    t.same("the main job under Slurm", run.ended(), 0)
    got = status()
    t.same("its jobs", [a["cause"] for a in got["allocations"]], ["preempted", "stopped"])
    t.same("no try is spent", {(x["state"], x["attempts"]) for x in got["tasks"] if x["task"] == "train"}, {("succeeded", 2)})
    t.has("it goes on", run.text(), "Continuing training from global step")
    t.same("each step was trained once", trained(slurm), list(range(1, STEPS + 1)))
    t.check("the same adapter", published(slurm) == published(local))
    nothing_left("the main job", [job for job in new_jobs(before) if job != urgent])


def main():
    global flowrun, s
    flowrun = slurm_lib.program("engine/cli/flowrun")
    slurm_lib.begin(slurm_lib.why_not())
    os.mkdir("cluster")
    s = slurm_lib.Slurm(t.folder + "/cluster", nodes=3, KillWait=15, PreemptType="preempt/partition_prio", PreemptMode="CANCEL",
                        more=["PartitionName=urgent Nodes=ALL PriorityTier=9 PreemptMode=OFF State=UP"])
    if t.check("Slurm is up", s.start(), s.report()):
        {"runs": runs, "kills": kills, "ends": ends, "leases": leases, "train": train}[sys.argv[2]]()
    s.stop()
    t.finish()


main()
