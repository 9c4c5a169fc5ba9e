#!/usr/bin/env python3
"""flowrun in an allocation beside Slurm's own ways, by turns on one small cluster of this machine (tests/e2e/slurm_lib.py: as
root, with Slurm's programs): many tasks beside an srun each and an array, one task beside one srun, the bytes of a log, and how often
slurmctld is asked. Prints one line a measurement and never fails. About six minutes; "hour": an hour of 10,000 tasks of two seconds,
in which only what slurmctld is asked is counted.

usage: slurm.py BUILD [TASKS | hour]    (1,000)
"""
import glob
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import slurm_lib
import trainer_lib as t

HOUR = sys.argv[2:] == ["hour"]
TASKS = int(sys.argv[2]) if len(sys.argv) > 2 and not HOUR else 1000
AT_ONCE = 6
LOG_BYTES = 128 << 20
INVENTORY = """slurm:
  work: %s/work
  path: %s/counted
  rpc: 12
  allocations:
    wide: {nodes: 3, cpus: 2, slots: 2, time: 1h, idle: 10m}
"""
COUNTED = """#!/bin/sh
echo "$(date +%%s) $0" >> %s/asked
exec %s "$@"
"""


def row(name, value):
    print("%-66s %s" % (name, value), flush=True)


def flowrun(name, tasks):
    """The run's tasks as `flowrun status --json` has them, its wall time, and when it ended."""
    with open(name + ".yaml", "w") as f:
        f.write("name: %s\nnodes: nodes.yaml\nmax_parallel: 64\ntasks:\n  first: {on: wide, run: 'true'}\n%s" % (name, tasks))
    begin = time.monotonic()
    subprocess.run([PROGRAM, name + ".yaml"], env={**os.environ, **s.env}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    wall, end = time.monotonic() - begin, time.time()
    text = s.run([PROGRAM, "status", "--json"])[1]
    return [x for x in json.loads(text)["tasks"] if x["task"] != "first"], wall, end


def span(tasks):
    """Seconds from the first start to the last end."""
    return (max(x["ended_wall"] for x in tasks) - min(x["started_wall"] for x in tasks)) / 1000


def timed(words, **more):
    """Seconds of a command whose output goes to a file, as that of a task does."""
    begin = time.monotonic()
    with open("copy", "w") as f:
        subprocess.run(words, env={**os.environ, **s.env}, check=True, stdout=f, stderr=subprocess.DEVNULL, **more)
    return time.monotonic() - begin


def held():
    """A job of Slurm that has the same nodes and CPUs, for its own steps."""
    job = s.submit("-N3", "-c2", "--ntasks-per-node=1", "-o", "/dev/null", "--wrap", "sleep 3600")
    t.until("it runs", lambda: s.state(job) == "RUNNING")
    return job


def step(job):
    return ["srun", "--jobid=%d" % job, "--overlap", "-N1", "-n1", "--cpu-bind=none"]


def many():
    ours, wall, _ = flowrun("many", "".join("  t%d: {needs: [first], on: wide%d, argv: ['true']}\n" % (i, i % 3 + 1) for i in range(TASKS)))
    asked = sum(1 for _ in open("asked"))
    job = held()
    loop = timed(["xargs", "-P%d" % AT_ONCE, "-I{}", *step(job), "true"], input=b"x\n" * TASKS)
    s.run(["scancel", str(job)])
    t.until("it is over", s.wait_idle)
    begin = time.monotonic()
    s.run(["sbatch", "--wait", "--array=0-%d" % (TASKS - 1), "-c2", "-o", "/dev/null", "--wrap", "true"])
    array = time.monotonic() - begin
    row("%d tasks, %d at once, in one allocation: flowrun" % (TASKS, AT_ONCE), "%.1f s (with the job's wait: %.1f s)" % (span(ours), wall))
    row("the same by xargs -P%d srun --overlap" % AT_ONCE, "%.1f s: flowrun takes %.3f of it" % (loop, span(ours) / loop))
    row("the same by sbatch --array", "%.1f s: flowrun takes %.3f of it" % (array, span(ours) / array))
    row("commands to slurmctld for them", "%d in %.0f s" % (asked, wall))


def one():
    chain = "".join("  t%d: {needs: [%s], on: wide1, argv: ['true']}\n" % (i, "t%d" % (i - 1) if i else "first") for i in range(50))
    ours = span(flowrun("one", chain)[0]) / 50
    job = held()
    theirs = statistics.median(timed([*step(job), "true"]) for _ in range(20))
    s.run(["scancel", str(job)])
    row("one task of a chain in an allocation: flowrun", "%.1f ms" % (ours * 1000))
    row("srun --overlap true", "%.1f ms: flowrun takes %.3f of it" % (theirs * 1000, ours / theirs))


def shown(name):
    """Seconds from the start of a task that prints a file to the last byte of it in the log here."""
    size = os.path.getsize(name)
    with open("log.yaml", "w") as f:
        f.write("name: log\nnodes: nodes.yaml\ntasks:\n  first: {on: wide, run: 'true'}\n"
                "  t: {needs: [first], on: wide1, log: {max: 1GiB}, run: 'cat %s/%s'}\n" % (t.folder, name))
    p = subprocess.Popen([PROGRAM, "log.yaml"], env={**os.environ, **s.env}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not any(os.path.getsize(path) >= size for path in glob.glob("state/runs/*/t@wide1.1.log")):
        time.sleep(0.002)
    end = time.time()
    p.wait()
    (task,) = [x for x in json.loads(s.run([PROGRAM, "status", "--json"])[1])["tasks"] if x["task"] == "t"]
    return end - task["started_wall"] / 1000


def log():
    with open("lines", "w") as f:
        f.write("".join("%099d\n" % i for i in range(LOG_BYTES // 100)))
    open("none", "w").close()
    size = os.path.getsize("lines")
    ours = shown("lines")
    job = held()
    theirs = timed([*step(job), "-u", "cat", t.folder + "/lines"]) - timed([*step(job), "-u", "cat", t.folder + "/none"])
    s.run(["scancel", str(job)])
    row("a log of %d MB over a link: flowrun" % (size >> 20), "%.1f MB/s" % (size / ours / 1e6))
    row("srun -u cat", "%.1f MB/s: flowrun has %.2f of it" % (size / theirs / 1e6, theirs / ours))


def hour():
    tasks, wall, _ = flowrun("hour", "".join("  t%d: {needs: [first], on: wide%d, argv: [sleep, '2']}\n" % (i, i % 3 + 1) for i in range(10000)))
    asked = sorted(int(line.split()[0]) for line in open("asked"))
    busiest = lambda seconds: max(sum(1 for b in asked if a <= b < a + seconds) for a in asked)
    row("10,000 tasks, %d succeeded" % sum(x["state"] == "succeeded" for x in tasks), "%.0f s" % wall)
    row("commands to slurmctld", "%d, %d in the busiest hour, %d in the busiest minute" % (len(asked), busiest(3600), busiest(60)))


if slurm_lib.why_not():
    row("skipped", slurm_lib.why_not())
    sys.exit(0)
PROGRAM = os.path.abspath(os.path.join(sys.argv[1], "engine/cli/flowrun"))
os.environ["TEST_DEADLINE"] = "0"
t.begin_plain()
for name in ("cluster", "home", "counted"):
    os.mkdir(name)
os.environ.update(HOME=t.folder + "/home", FLOWRUN_HOME=t.folder + "/state")
s = slurm_lib.Slurm(t.folder + "/cluster", nodes=3, MaxArraySize=max(1001, TASKS + 1))
if not s.start():
    row("there is no Slurm", s.report())
    sys.exit(0)
for name in ("sbatch", "squeue", "scancel", "scontrol", "sinfo"):  # those that ask slurmctld; links are steps
    with open("counted/" + name, "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
        f.write(COUNTED % (t.folder, subprocess.run(["which", name], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()))
with open("nodes.yaml", "w") as f:
    f.write(INVENTORY % (t.folder, t.folder))
row("Slurm", s.run(["sinfo", "--version"])[1].strip())
for measure in [hour] if HOUR else [many, one, log]:
    measure()
s.stop()
