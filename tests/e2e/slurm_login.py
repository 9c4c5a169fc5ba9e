#!/usr/bin/env python3
"""A cluster under Slurm behind a login node: flowrun has no program of Slurm here, and reaches them over one
connection of SSH to an sshd on loopback. Kills of the connection, of flownode on the login node and of flowrun.
usage: slurm_login.py BUILD fake|real. Skipped without sshd; real: where there is no Slurm, or
without root."""
import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import slurm_lib
import sshd_lib
import trainer_lib as t

INVENTORY = """slurm:
  login: {%s, work: %s/login-work%s}
  work: %s/work
  path: %s
  rpc: 60
  allocations:
    train: {nodes: 2, cpus: 1, time: 30m}
    prep: {nodes: 1, cpus: 1, time: 30m}
"""
flowrun = login = cluster = None
programs = ""  # where the login node has Slurm's


class Real(slurm_lib.Slurm):
    def __init__(self, folder):
        super().__init__(folder, nodes=3, KillWait=5)
    def jobs(self):
        lines = self.run(["squeue", "-h", "-t", "all", "-o", "%A %T"])[1].split("\n")
        return {int(a): b for a, b in (line.split() for line in lines if line.strip())}


def begin(*words):
    return slurm_lib.Flowrun([flowrun, *words])


def ask(*words):
    p = subprocess.run([flowrun, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, errors="replace", timeout=600)
    return p.returncode, p.stdout


def allocations():
    code, text = ask("status", "--json")
    return json.loads(text).get("allocations", []) if code == 0 else []


def pipeline(name, tasks, more="", keys=None):
    """A pipeline file; tasks: lines of its map."""
    with open(name + ".yaml", "w") as f:
        f.write("name: %s\nnodes: %s.nodes.yaml\ntasks:\n" % (name, name))
        f.write("".join("  %s\n" % line for line in tasks.strip().splitlines()))
    with open(name + ".nodes.yaml", "w") as f:
        f.write(INVENTORY % (keys or login.keys, t.folder, more, t.folder, programs))
    return name + ".yaml"


def over(what, before):
    """The jobs since then are over, their folders are gone, and the login node runs nothing of them."""
    made = sorted(set(cluster.jobs()) - set(before))
    t.until(what + ": its jobs end", lambda: not [i for i in made if cluster.jobs().get(i) in ("PENDING", "RUNNING", "COMPLETING")])
    t.until(what + ": nothing runs on the login node", lambda: not login.below(), 60)
    return made


# ---- runs ----

def runs():
    before, logins = cluster.jobs(), login.logins()
    code, text = ask(pipeline("hello", """
hello: {on: train, outputs: [where], run: 'echo "$FLOWRUN_NODE in job $SLURM_JOB_ID"; echo "where=$FLOWRUN_NODE" >> $FLOWRUN_OUTPUT'}
gang: {on: train, gang: true, needs: [hello], run: 'echo "rank $NODE_RANK of $NNODES"'}
last: {on: prep1, needs: [gang], files: {note: note.txt}, run: 'cat note; seq 200000 | tail -1'}
""".replace("note.txt", t.folder + "/note.txt")))
    t.same("a run over a login node", code, 0)
    made = over("a run", before)
    t.same("two jobs", len(made), 2)
    t.same("one connection", login.logins(), logins + 1)
    for place in ("train1", "train2"):
        t.has("a task at " + place, text, "hello@%s | %s in job %d" % (place, place, made[0]))
    for rank in (0, 1):
        t.has("a member of a gang", text, "rank %d of 2" % rank)
    t.has("a file that was shipped", text, "last@prep1 | a note")
    t.has("the end of many lines", text, "last@prep1 | 200000")
    t.same("allocations", [(a["name"], a["job"], a["state"], a["submits"]) for a in allocations()],
           [("train", made[0], "over", 1), ("prep", made[1], "over", 1)])
    t.same("the folders of its jobs are gone", os.listdir("work/alloc"), [])
    t.same("flownode is in the shared folder once", len(os.listdir("work/bin")), 1)
    code, text = ask("nodes", "--check", "hello.nodes.yaml")
    t.same("nodes --check over a login node", code, 0)
    t.check("what Slurm says of itself", re.search(r"^cluster (fake|e2e): Slurm \d\d\.\d\d", text, re.M), text)


def shared():
    """A connection that somebody has opened with ssh, where nobody else is let in."""
    if shutil.which("ssh") is None:
        return
    before, logins = cluster.jobs(), login.logins()
    with open(login.folder + "/config.shared", "w") as f:
        f.write("Host *\n  ControlPath %s/shared\n" % login.folder)
    first = subprocess.Popen(["ssh", "-F", login.folder + "/config.shared", "-M", "-N", "-i", login.folder + "/id", "-p",
                              str(login.port), "-o", "UserKnownHostsFile=%s/known" % login.folder, "127.0.0.1"], stdin=subprocess.DEVNULL)
    t.started.append(first)
    t.until("ssh shares its connection", lambda: os.path.exists(login.folder + "/shared") or first.poll() is not None)
    os.rename(login.folder + "/allowed", login.folder + "/allowed.not")
    code, text = ask(pipeline("shared", "a: {on: prep, run: 'true'}", more=", transport: openssh",
                              keys=login.keys.replace("/config", "/config.shared")))
    os.rename(login.folder + "/allowed.not", login.folder + "/allowed")
    t.same("a run through a connection of ssh", code, 0)
    t.same("nobody logs in again", login.logins(), logins + 1)
    first.kill()
    over("a connection of ssh", before)


# ---- kills ----

COUNT = "for i in $(seq 1 60); do echo line $i; sleep 0.1; done"


def lines_of(what):
    for name in ("a@train1", "b@train2"):
        lines = re.findall(r"line (\d+)", ask("logs", name)[1])
        t.same("%s: lines of %s" % (what, name), lines, [str(i) for i in range(1, 61)])


def at_work():
    run = begin(pipeline("up", "a: {on: train1, run: '%s'}\nb: {on: train2, run: '%s'}" % (COUNT, COUNT)))
    t.until("both write", lambda: "a@train1 | line 3" in run.text() and "b@train2 | line 3" in run.text())
    return run


def same_job(what, before):
    t.same(what + ": nothing is submitted again", [(a["no"], a["submits"]) for a in allocations()], [(1, 1)])
    t.same(what + ": one job", len(over(what, before)), 1)


def kills():
    for what, strike in (("the connection falls", login.cut), ("flownode there is killed", lambda: t.kill(login.flownodes()))):
        before, logins = cluster.jobs(), login.logins()
        run = at_work()
        strike()
        t.until(what + ": the links come back", lambda: run.text().count("connected (srun)") >= 4)
        t.same(what, run.ended(), 0)
        t.check(what + ": it was made again", login.logins() > logins + 1)
        lines_of(what)
        same_job(what, before)
    before = cluster.jobs()
    run = at_work()
    run.kill()
    t.same("flowrun is killed: resumed", ask("resume")[0], 0)
    lines_of("flowrun is killed")
    same_job("flowrun is killed", before)


def away():
    """No way to the login node while tasks run: they go on, and end."""
    before = cluster.jobs()
    run = at_work()
    login.stop()
    t.until("the connection is missed", lambda: "no connection to the login node" in run.text())
    login.start()
    t.same("the login node was away", run.ended(), 0)
    lines_of("the login node was away")
    same_job("the login node was away", before)


# ---- submits ----

def submits():
    """A job is made, and who made it does not hear of it."""
    for what, strike in (("flowrun", lambda run: run.kill()), ("the connection", lambda run: login.cut()),
                         ("flownode there", lambda run: t.kill(login.flownodes()))):
        what += " falls while sbatch runs"
        before = cluster.jobs()
        cluster.switch("hang")
        run = begin(pipeline("submit", "a: {on: prep, run: 'true'}"))
        t.until(what + ": sbatch hangs", lambda: os.path.exists(cluster.folder + "/hanging"))
        os.unlink(cluster.folder + "/hanging")
        cluster.off("hang")
        strike(run)
        t.same(what, ask("resume")[0] if run.process.poll() is not None else run.ended(), 0)
        same_job(what, before)


# ---- what is wrong ----

def wrong():
    path = pipeline("wrong", "a: {on: prep, run: 'true'}", keys=login.keys.replace("/known,", "/wrong,"))
    code, text = ask(path)
    t.same("another host key", code, 6)
    t.has("another host key is said", text, "a@prep1 failed: the login node: ")
    t.has("the file is named", text, login.folder + "/wrong")
    with contextlib.closing(sqlite3.connect("state/state.db")) as store:
        folder = store.execute("SELECT folder FROM allocation ORDER BY id DESC LIMIT 1").fetchone()[0]
    t.same("no folder is left to be removed", folder, "")
    code, text = ask("nodes", "--check", "wrong.nodes.yaml")
    t.same("another host key in nodes --check", code, 6)
    t.has("where it stands", text, "wrong.nodes.yaml:2:10: login: ")
    path = pipeline("refused", "a: {on: prep, run: 'true'}", keys=login.keys.replace("/id,", "/other,"))
    code, text = ask(path)
    t.same("a key that is not allowed", code, 6)
    t.has("a key that is not allowed is said", text, "a@prep1 failed: the login node: ")
    port = t.free_port()
    path = pipeline("nobody", "a: {on: prep, run: 'true'}", more=", connect: {retry_for: 1s}",
                    keys=login.keys.replace("port: %d" % login.port, "port: %d" % port))
    code, text = ask(path)
    t.same("nobody listens", code, 6)
    t.has("nobody listens is said", text, "port %d" % port)
    bare()


def bare():
    """A login node whose PATH has all programs but those of Slurm."""
    global programs
    os.mkdir("bare")
    os.mkdir("bare/bin")
    for folder in ("/usr/bin", "/bin"):
        for name in os.listdir(folder):
            if name not in slurm_lib.PROGRAMS and not os.path.lexists("bare/bin/" + name):
                os.symlink(folder + "/" + name, "bare/bin/" + name)
    other = sshd_lib.Sshd(t.folder + "/bare", PATH=t.folder + "/bare/bin")
    other.start()
    there, programs = programs, t.folder + "/none"
    code, text = ask(pipeline("bare", "a: {on: prep, run: 'true'}", keys=other.keys))
    programs = there
    t.same("programs of Slurm that are not there", code, 6)
    t.has("what is missing is said", text, "a@prep1 failed: there is no program scontrol in %s/none" % t.folder)
    other.stop()


def main():
    global flowrun, login, cluster, programs
    flowrun, fakeslurm = slurm_lib.program("engine/cli/flowrun"), slurm_lib.program("tests/e2e/fakeslurm")
    real = sys.argv[2] == "real"
    os.environ.pop("SLURM_CONF", None)  # the login node has it
    slurm_lib.begin((slurm_lib.why_not() if real else None) or sshd_lib.why_not())
    os.mkdir("sshd")
    with open("note.txt", "w") as f:
        f.write("a note\n")
    if real:
        os.mkdir("cluster")
    cluster = Real(t.folder + "/cluster") if real else slurm_lib.Fake(fakeslurm, nodes=3)
    programs = "/usr/bin" if real else cluster.folder + "/bin"
    login = sshd_lib.Sshd(t.folder + "/sshd", SLURM_CONF=cluster.env["SLURM_CONF"])
    if not real or t.check("the cluster is up", cluster.start(), cluster.report()):
        login.start()
        runs()
        kills()
        away()
        if not real:
            shared()
            submits()
            wrong()
        login.stop()
    cluster.stop()
    t.finish()


main()
