#!/usr/bin/env python3
"""copies: of an allocation: arrays of Slurm, whose elements are places.
usage: slurm_copies.py BUILD fake|real. fake: over the commands of fakeslurm. real: three nodes on this machine
(slurm_lib.py); skipped where there is no Slurm, or without root."""
import json
import os
import re
import signal
import subprocess
import sys

import slurm_lib
import trainer_lib as t

INVENTORY = """slurm:
  work: %s/work
  rpc: 60
  max_jobs: %d
  allocations:
    wide: {copies: %d, cpus: 2, time: 30m, slots: 1}
"""
NAME = "echo $FLOWRUN_NODE in $SLURM_JOB_ID >> ${FLOWRUN_NODE}.ran"
flowrun = fakeslurm = None
env = {}


def sh(words):
    """A command's exit status and all it printed."""
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       env={**os.environ, **env}, timeout=600, text=True, errors="replace")
    return p.returncode, p.stdout


def begin(*words):
    return slurm_lib.Flowrun([flowrun, *words], **env)


def pipeline(name, copies, tasks, max_jobs=500):
    with open(name + ".yaml", "w") as f:
        f.write("name: %s\nnodes: %s.nodes.yaml\nmax_parallel: 100\ntasks:\n" % (name, name))
        f.write("".join("  %s\n" % line for line in tasks))
    with open(name + ".nodes.yaml", "w") as f:
        f.write(INVENTORY % (t.folder, max_jobs, copies))
    return name + ".yaml"


def waiting(name, gate):
    """A task that says that it has begun, and waits for a file."""
    return "%s: {on: wide, run: '%s; until [ -e %s/%s ]; do sleep 0.1; done'}" % (
        name, "echo x >> %s/$FLOWRUN_NODE.%s" % (t.folder, name), t.folder, gate)


def began(name):
    """Places where a waiting() of that name has begun."""
    return sorted(f[:-len(name) - 1] for f in os.listdir(".") if f.endswith("." + name))


def status():
    code, text = sh([flowrun, "status", "--json"])
    return json.loads(text) if code == 0 else {}


def rows():
    return status().get("allocations", [])


def elements():
    """What squeue knows of elements: {"4711_0": its state}."""
    lines = [line.split() for line in sh(["squeue", "-h", "-r", "--states=all", "-o", "%i %T"])[1].split("\n")]
    return {words[0]: words[1] for words in lines if words and "_" in words[0]}


def arrays(before):
    """The new elements by their arrays: {4711: [0, 1]}."""
    found = {}
    for name in set(elements()) - set(before):
        job, index = name.split("_")
        found.setdefault(int(job), []).append(int(index))
    return {job: sorted(found[job]) for job in sorted(found)}


def live():
    return [name for name, state in elements().items() if state in ("PENDING", "RUNNING", "COMPLETING")]


def nothing_left(what):
    """All elements are over, no process of one is left, nor a folder."""
    t.until(what + ": its elements end", lambda: not live())

    t.until(what + ": no keeper is left", lambda: not slurm_lib.running([t.folder + "/work/alloc/"]))
    slurm_lib.folders_gone(what, os.listdir("work/alloc"), flowrun, env)


def shape(row):
    return row["name"], row["copy"], row["no"], row["state"], row["submits"], row["cause"]


# ---- on both ----

def runs():
    """All copies are one array."""
    before = elements()
    path = pipeline("wide", 10, ["each: {on: wide, run: 'echo $FLOWRUN_NODE of $FLOWRUN_EXECUTOR in $SLURM_JOB_ID'}",
                                 "last: {on: wide7, needs: [each], run: 'true'}"])
    t.has("validate", sh([flowrun, "validate", path])[1], "allocation wide: 10 copies of 1 node for 30m00s, wide1 to wide10\n")
    code, text = sh([flowrun, path])
    t.same("a run on ten copies", code, 0)
    ran = dict(re.findall(r"each@(wide\d+) \| wide\d+ of slurm in (\d+)", text))
    t.same("a task at each place", sorted(ran), sorted("wide%d" % (k + 1) for k in range(10)))
    got = rows()
    t.same("their ends", {shape(row)[3:] for row in got}, {("over", 1, "stopped")})
    t.same("one array of all", sorted((row["job"], row["element"]) for row in got if row["job"] == got[0]["job"]),
           [(got[0]["job"], k + 1) for k in range(10)])
    t.has("status counts them", sh([flowrun, "status"])[1], "\nallocation wide: %d over\n" % len(got))
    t.check("Slurm had no other element", sum(map(len, arrays(before).values())) <= len(got), arrays(before))
    nothing_left("a run on ten copies")


def joins(given):
    """given of the eight elements run at once; the others wait. flowrun is killed; nothing is submitted again."""
    before = elements()
    run = begin(pipeline("joins", 8, [waiting("each", "go")]))
    t.until("as many run as the cluster gives", lambda: len(began("each")) == given)
    t.until("the others wait", lambda: sorted(row["state"] for row in rows()) == ["queued"] * (8 - given) + ["up"] * given)
    ours = arrays(before)
    t.same("one array", list(map(len, ours.values())), [8])
    job = list(ours)[0]
    t.until("why is said", lambda: "waits for Slurm job %d (wide): " % job in run.text())
    said = re.findall(r"wide\d+: (waits for Slurm job .*)", run.text())
    t.same("once for all", len(set(said)), len(said))
    text = sh([flowrun, "status"])[1]
    t.check("in status", re.search(r"\nallocation wide: %d queued, %d up; the next waits for Slurm job %d \(wide\)" %
                                   (8 - given, given, job), text), text)
    waits = next(row["copy"] for row in rows() if row["state"] == "queued")
    t.check("and of an instance", re.search(r"each@wide%d .* waits for Slurm job %d_\d+ \(wide\)" % (waits, job), text), text)
    run.kill()
    first = began("each")
    run = begin("resume")
    t.until("it is attached", lambda: sorted(row["state"] for row in rows()).count("up") == given)
    t.same("no other place", began("each"), first)
    open("go", "w").close()
    t.same("a run that was killed", run.ended(), 0)
    t.same("all places", len(began("each")), 8)
    t.same("each task once", [open(name + ".each").read() for name in began("each")], ["x\n"] * 8)
    t.same("no other array", {row["job"] for row in rows()}, {job})
    nothing_left("a run that was killed")


def shares(given):
    """What has nothing left to do goes to a place that still waits: as many jobs as the cluster gives do all, and what
    has not begun by then is not needed."""
    path = pipeline("shares", 11, ["s: {on: wide, run: 'echo $SLURM_JOB_ID > %s/$FLOWRUN_NODE.s; until [ -e %s/shared ]; "
                                   "do sleep 0.1; done'}" % (t.folder, t.folder)])
    run = begin(path)
    t.until("as many run as the cluster gives", lambda: len(began("s")) == given)
    t.until("the others wait", lambda: [row["state"] for row in rows()].count("queued") == 11 - given)
    open("shared", "w").close()
    t.same("all tasks run", run.ended(), 0)
    t.same("at their places", len(began("s")), 11)
    t.has("a job that goes to another place is not given back", run.text(), "left: its job serves another place now")
    t.same("in the jobs that there were", len({open(name + ".s").read() for name in began("s")}), given)
    t.same("one row each", sorted(shape(row) for row in rows()), [("wide", k + 1, 1, "over", 1, "stopped") for k in range(11)])
    t.same("the others have never begun", sum(row["start_wall"] > 0 for row in rows()), given)
    nothing_left("shared jobs")


def cancelled(given):
    """Elements that wait and elements that run go with the run; Slurm keeps no record of the first."""
    run = begin(pipeline("cancelled", 9, [waiting("c", "never")]))
    t.until("some run", lambda: len(began("c")) == given)
    t.until("some wait", lambda: [row["state"] for row in rows()].count("queued") == 9 - given)
    run.process.send_signal(signal.SIGINT)
    t.same("cancelled", run.ended(), 3)
    t.same("all are over", sorted(shape(row) for row in rows()), [("wide", k + 1, 1, "over", 1, "stopped") for k in range(9)])
    t.check("none that waited has begun", sum(row["start_wall"] > 0 for row in rows()) == given, rows())
    t.same("one array", len({row["job"] for row in rows()}), 1)
    nothing_left("cancelled")


# ---- fake ----

def killed_sharing(given):
    """flowrun dies while copies are at places of others: each is found where it is."""
    run = begin(pipeline("moved", 10, [
        "s: {on: wide, run: 'echo x >> %s/$FLOWRUN_NODE.m; until [ -e %s/m1 -a -e %s/$FLOWRUN_NODE.old -o -e %s/m2 ]; "
        "do sleep 0.1; done'}" % ((t.folder,) * 4)]))
    t.until("some run", lambda: len(began("m")) == given)
    first = began("m")
    for name in first:
        open(name + ".old", "w").close()
    open("m1", "w").close()
    t.until("the same jobs run at other places", lambda: len(began("m")) == 2 * given)
    run.kill()
    run = begin("resume")
    t.until("they are attached", lambda: [x["state"] for x in status().get("tasks", [])].count("running") == given)
    t.same("at their places", sorted("wide%d" % row["copy"] for row in rows() if row["state"] == "up"),
           sorted(set(began("m")) - set(first)))
    open("m2", "w").close()
    t.same("all tasks run", run.ended(), 0)
    t.same("each once", [open(name + ".m").read() for name in began("m")], ["x\n"] * 10)
    t.same("one array", len({row["job"] for row in rows()}), 1)
    nothing_left("killed while it shares")


def conf(**settings):
    with open("cluster/slurm.conf", "w") as f:
        f.write("Nodes=4\nKillWait=5\nMinJobAge=300\n" + "".join("%s=%d\n" % pair for pair in settings.items()))


def switch(name, text=""):
    with open("cluster/switch/" + name, "w") as f:
        f.write(text + "\n")


def commands(name, since=0):
    """The arguments of each such command that came to the cluster, from the since-th on."""
    with open("cluster/log") as f:
        lines = [line.split() for line in f]
    return [words[3:] for words in lines if words[1] == name][since:]


def lists(since):
    """--array= of each sbatch."""
    return [word[8:] for words in commands("sbatch", since) for word in words if word.startswith("--array=")]


def array_size():
    """An index of an array is less than MaxArraySize."""
    conf(MaxArraySize=4)
    since = len(commands("sbatch"))
    run = begin(pipeline("sizes", 10, [waiting("size", "size")]))
    t.until("arrays of four at most", lambda: lists(since) == ["0-3", "0-3", "0-1"])
    open("size", "w").close()
    t.same("ten copies", run.ended(), 0)
    conf()


def max_jobs():
    """No more jobs than max_jobs, which go from place to place."""
    run = begin(pipeline("few", 7, [waiting("few", "few")], max_jobs=3))
    t.until("three run", lambda: len(began("few")) == 3)
    t.same("there are no others", sorted(row["state"] for row in rows()), ["up"] * 3)
    t.has("why", sh([flowrun, "status"])[1], "waits for one of the 3 jobs that Slurm may have (max_jobs)")
    open("few", "w").close()
    t.same("all come", run.ended(), 0)
    t.same("each place", len(began("few")), 7)
    t.same("there were no others", len(rows()), 3)
    nothing_left("few jobs")


def limit():
    """Slurm takes four jobs: as many are submitted, the rest waits, is no failure, and says why."""
    conf(MaxSubmit=4)
    since = len(commands("sbatch"))
    run = begin(pipeline("limit", 8, [waiting("limit", "limit")]))
    t.until("four run", lambda: len(began("limit")) == 4)
    t.until("why the others wait", lambda: "waits for the allocation wide: Slurm is asked for it again (QOSMaxSubmit" in run.text())
    t.until("fewer were tried, down to one", lambda: lists(since) == ["0-7", "0-3", "4-7", "4-5", "6"])
    t.same("none has failed", {row["cause"] for row in rows()}, {""})
    run.process.send_signal(signal.SIGINT)
    t.same("cancelled", run.ended(), 3)
    nothing_left("a limit")
    conf()


def answers():
    """sbatch gives no answer, or flowrun is killed before it: the array is found, and there is one."""
    before = elements()
    switch("silent", "1")
    t.same("sbatch is silent", sh([flowrun, pipeline("silent", 6, ["each: {on: wide, run: 'true'}"])])[0], 0)
    t.same("one array", len(arrays(before)), 1)
    before = elements()
    switch("hang", "1")
    run = begin(pipeline("hang", 6, ["each: {on: wide, run: 'true'}"]))
    t.until("sbatch hangs", lambda: os.path.exists("cluster/hanging"))
    run.kill()
    t.same("before its answer", [(row["state"], row["job"]) for row in rows()], [("submitting", 0)] * 6)
    t.same("resumed", sh([flowrun, "resume"])[0], 0)
    t.same("one array", len(arrays(before)), 1)
    t.same("each once", sorted(shape(row) for row in rows()), [("wide", k + 1, 1, "over", 1, "stopped") for k in range(6)])
    nothing_left("without an answer")


def ends():
    """An element that somebody cancels is lost, the others are not; a retry asks for another one of it alone."""
    since = len(commands("sbatch"))
    run = begin(pipeline("ends", 3, [waiting("e", "e")]))
    t.until("all run", lambda: len(began("e")) == 3)
    row = next(row for row in rows() if row["copy"] == 2)
    sh([fakeslurm, t.folder + "/cluster", "end", "%d_%d" % (row["job"], row["element"] - 1), "CANCELLED"])
    t.until("it is over", lambda: any(row["cause"] == "cancelled_outside" for row in rows()))
    open("e", "w").close()
    t.same("its task failed", run.ended(), 1)
    t.same("the others did not", sorted((x["node"], x["state"]) for x in status()["tasks"]),
           [("wide1", "succeeded"), ("wide2", "failed"), ("wide3", "succeeded")])
    t.same("a retry", sh([flowrun, "retry"])[0], 0)
    t.same("of one element", lists(since), ["0-2", "0"])
    t.same("a further one of the copy", [shape(row)[1:4] for row in rows() if row["no"] > 1], [(2, 2, "over")])
    nothing_left("an end")


def scancels():
    """One scancel for many."""
    words = [words for words in commands("scancel") if len(words) > 3]
    t.check("a scancel of several elements", words and all(re.fullmatch(r"\d+_\d+", w) for w in words[0]), words[:3])
    t.check("no array is cancelled as a whole", all("_" in w for words in commands("scancel") for w in words),
            commands("scancel"))


def fake():
    env.update(SLURM_CONF=t.folder + "/cluster/slurm.conf", PATH="%s/cluster/bin:%s" % (t.folder, os.environ["PATH"]))
    t.same("a cluster", sh([fakeslurm, "init", t.folder + "/cluster", "4"])[0], 0)
    runs()
    joins(4)
    shares(4)
    killed_sharing(4)
    cancelled(4)
    array_size()
    max_jobs()
    limit()
    answers()
    ends()
    scancels()
    sh([fakeslurm, t.folder + "/cluster", "stop"])


# ---- real ----

def real():
    os.makedirs("cluster")
    s = slurm_lib.Slurm(t.folder + "/cluster", nodes=3, KillWait=15)
    if t.check("Slurm is up", s.start(), s.report()):
        env.update(s.env)
        runs()
        joins(6)
        shares(6)
        cancelled(6)
        t.same("no node is drained", s.drained(), "")
    s.stop()


def main():
    global flowrun, fakeslurm
    flowrun, fakeslurm = slurm_lib.program("engine/cli/flowrun"), slurm_lib.program("tests/e2e/fakeslurm")
    slurm_lib.begin(slurm_lib.why_not() if sys.argv[2] == "real" else None)
    {"fake": fake, "real": real}[sys.argv[2]]()
    t.finish()


main()
