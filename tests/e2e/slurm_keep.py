#!/usr/bin/env python3
"""Keepers in a real Slurm of three nodes on this machine (slurm_lib.py): a job as flowrun submits it, links
by srun, an attempt that outlives its link, a twin, and scancel. usage: slurm_keep.py BUILD [cgroups].
Skipped where there is no Slurm, or without root."""
import os
import shutil
import signal
import sys

import keeper_lib as k
import slurm_lib
import trainer_lib as t

PLACES = (1, 2, 3)
KILL_WAIT = 12  # s
STUBBORN = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000' &); echo up; while :; do sleep 1; done"
SCRIPT = """#!/bin/sh
unset SLURM_EXPORT_ENV
exec srun -Q -N3 -n3 --ntasks-per-node=1 --overlap --mem=0 --kill-on-bad-exit=0 --wait=0 \\
    --cpu-bind=none --input=none -o none %s keep --alloc %s --kill-wait %d
"""


class Job:
    """A job of three keepers."""

    def __init__(self, s, tag, folder=None):
        self.s, self.tag, self.folder = s, tag, folder or k.allocation(tag)
        with open(self.folder + "/job.sh", "w", opener=lambda path, flags: os.open(path, flags, 0o700)) as f:
            f.write(SCRIPT % (k.flownode, self.folder, KILL_WAIT))
        env = {name: os.environ[name] for name in ("PATH", "HOME", "USER", "LOGNAME", "LANG") if name in os.environ}
        words = ["sbatch", "--parsable", "-N3", "--ntasks-per-node=1", "-t", "30", "--export=NONE", "-D", "/",
                 "-o", self.folder + "/job.log", "--open-mode=append", "--no-requeue", "--no-kill", "-J", "fr-" + tag,
                 "--comment", "flowrun:1:train", self.folder + "/job.sh"]
        code, text = s.run(["env", "-i"] + ["%s=%s" % pair for pair in {**env, **s.env}.items()] + words)
        t.check("sbatch", code == 0, text)
        self.id = int(text)

    def up(self):
        """What the keepers say of their places; None: they did not come up."""
        files = ["%s/place.%d" % (self.folder, n) for n in PLACES]
        if not t.until("the keepers come up", lambda: all(map(os.path.exists, files))):
            print(k.read(self.folder + "/job.log"), [k.read(name + ".error") for name in files])
            return None
        return [dict(line.split(" ", 1) for line in k.read(name).splitlines()) for name in files]

    def link(self, place, host):
        return ["srun", "-u", "-Q", "--jobid=%d" % self.id, "--overlap", "-N1", "-n1", "-w", host, "--mem=0",
                "--gres=none", "--export=NONE", "--input=all"] + k.relay_words(self.folder, place)

    def gone(self):
        """Waits until no process has the tag in its arguments or its environment."""
        def left():
            found = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                text = k.read("/proc/%s/cmdline" % pid) + k.read("/proc/%s/environ" % pid)
                if self.tag in text and int(pid) != os.getpid():
                    found.append(text.replace("\0", " ")[:200])
            return found
        return t.until("no process of the job is left", lambda: not left(), 60) or t.check("nothing is left", False, left())


def engine_env(s):
    """The engine has no variable of Slurm but one."""
    return {name: None for name in k.step_env(1) if name.startswith("SLURM")} | s.env


def test_links(s, job, places):
    hosts = [p["host"] for p in places]
    t.same("hosts in the order of places", hosts, s.hosts(job.id))
    t.same("the job of places", {p["job"] for p in places}, {str(job.id)})
    env = engine_env(s)
    for n in PLACES:
        lines = k.say(1, ["start", "seq 1 100000; echo last", "log", "last\n", "end", "ack"], job.link(n, hosts[n - 1]), **env)
        t.same("place %d: bytes" % n, lines[2:], ["log 588900", "ended exit 0 0", "status 0"])
    lines = k.say(2, ["start", "env; echo last", "log", "\nlast\n", "read"], job.link(2, hosts[1]), **env)
    got = dict(line.split("=", 1) for line in lines if "=" in line)
    t.same("what an attempt is told", [got.get(name) for name in ("SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_JOB_NUM_NODES",
                                                                 "SLURM_JOB_PARTITION", "SLURM_CLUSTER_NAME")],
           [str(job.id), hosts[1], "3", "all", "e2e"])
    t.same("and what not", [name for name in got if name.startswith(("SLURM_STEP", "SLURM_PROCID", "SLURM_LOCALID",
                            "SLURM_NTASKS", "SLURM_CPU", "SLURM_TASKS", "SLURM_GPUS", "PMI"))], [])
    code, text = s.run(job.link(1, hosts[1]))
    t.same("the wrong host", code, 1)
    t.has("the wrong host", text, "place 1 is on %s, and this is %s" % (hosts[0], hosts[1]))


def test_link_killed(s, job, host):
    """The attempt outlives the srun of its link."""
    env = engine_env(s)
    link = k.Say(3, ["start", "echo up; until test -e %s/go; do sleep 0.05; done; echo done" % t.folder, "log", "up", "wait"],
                 ["sh", "-c", "echo $$ > link.pid; exec \"$@\"", "sh"] + job.link(1, host), **env)
    attempt = link.line("started")
    link.line("log")
    os.kill(int(k.read("link.pid")), signal.SIGKILL)
    t.same("the link is cut", link.rest()[-2:], ["closed", "status -1"])
    further = k.Say(4, ["use", attempt, "state", "log", "done", "end", "ack"], job.link(1, host), **env)
    t.same("the attempt goes on", further.line("state"), "running")
    with open("go", "w"):
        pass
    t.same("to its end", further.rest()[-3:], ["log 8", "ended exit 0 0", "status 0"])


def test_twin(s, job):
    before = {name: k.read(job.folder + "/" + name) for name in os.listdir(job.folder) if not name.startswith("job.")}
    twin = Job(s, job.tag, job.folder)
    t.until("the twin ends", lambda: s.state(twin.id) in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", ""))
    t.same("the twin does nothing", s.state(twin.id), "COMPLETED")
    t.same("nor leaves anything", {name: k.read(job.folder + "/" + name) for name in before}, before)


def test_cancelled(s, job, places):
    """scancel while an attempt lives that ignores SIGTERM."""
    env = engine_env(s)
    s.run(["scancel", "-s", "USR1", str(job.id)])
    link = k.Say(5, ["start", STUBBORN, "log", "up", "end", "wait"], job.link(2, places[1]["host"]), **env)
    live = link.line("started")
    link.line("log")
    t.same("scancel", s.run(["scancel", str(job.id)])[0], 0)
    t.until("the job ends", lambda: s.state(job.id) in ("CANCELLED", ""))
    t.same("closed places", sorted(name for name in os.listdir(job.folder) if name.startswith("place")),
           ["place.%d%s" % (n, more) for n in PLACES for more in ("", ".closed")])
    t.same("what they say", {k.read("%s/place.%d.closed" % (job.folder, n)) for n in PLACES}, {"job %d\nrestarts 0\n" % job.id})
    t.check("the link brings the end", "ended node_lost 9 0" in link.rest(), link.lines)
    job.gone()
    t.same("an engine that comes later", k.say(6, ["use", live, "end"], k.serve_words(places[1]["home"]))[1:],
           ["ended node_lost 9 0", "status 0"])


def test_keeper_killed(s, job):
    """A place without its keeper: its links say so, the others go on."""
    places = job.up()
    os.kill(int(places[1]["pid"]), signal.SIGKILL)
    t.until("no keeper", lambda: s.run(job.link(2, places[1]["host"]))[0] == 3)
    env = engine_env(s)
    for n in (1, 3):
        lines = k.say(1, ["start", "true", "end", "ack"], job.link(n, places[n - 1]["host"]), **env)
        t.same("place %d goes on" % n, lines[2:], ["ended exit 0 0", "status 0"])
    s.run(["scancel", str(job.id)])
    t.until("the job ends", lambda: s.state(job.id) in ("CANCELLED", "FAILED", ""))
    t.same("closed places", [n for n in PLACES if os.path.exists("%s/place.%d.closed" % (job.folder, n))], [1, 3])
    job.gone()


def jobs(s, tags):
    job = Job(s, tags[0])
    places = job.up()
    if places is None:
        return
    test_links(s, job, places)
    test_link_killed(s, job, places[0]["host"])
    test_twin(s, job)
    test_cancelled(s, job, places)
    test_keeper_killed(s, Job(s, tags[1]))
    t.check("all nodes are idle again", s.wait_idle(), s.report())
    t.same("no node was drained", s.drained(), "")


def main():
    if slurm_lib.why_not():
        print("skipped:", slurm_lib.why_not())
        sys.exit(77)
    if sys.argv[2:] == ["cgroups"] and not slurm_lib.can_cgroups():
        print("skipped: no freezer of cgroups here")
        sys.exit(77)
    k.begin()
    os.mkdir("slurm")
    s = slurm_lib.Slurm(t.folder + "/slurm", nodes=3, cgroups=sys.argv[2:] == ["cgroups"], KillWait=KILL_WAIT)
    tags = [os.urandom(16).hex() for _ in range(2)]
    try:
        if t.check("three nodes are idle", s.start(), s.report()):
            jobs(s, tags)
    finally:
        s.stop()
        for tag in tags:
            for n in PLACES:
                shutil.rmtree("/tmp/flowrun-0/%s-%d" % (tag, n), ignore_errors=True)
    t.finish()


main()
