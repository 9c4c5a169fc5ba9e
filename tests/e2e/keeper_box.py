#!/usr/bin/env python3
"""Keepers in containers of Apptainer, without Slurm, and with a fake of Apptainer (keeper_lib.py).
usage: keeper_box.py BUILD"""
import os
import signal
import subprocess

import keeper_lib as k
import trainer_lib as t

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"
NEVER = dict(SLURM_PROCID="0", SLURM_NTASKS="2", PMI_RANK="0", RANK="0", WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", USER_PATH="/x")


def box(tag, *words, wait=None, program=None, **env):
    """A keeper behind the fake, and its folder."""
    folder = k.allocation(tag)
    return k.Keeper(folder, wait=wait, more=("--image", "/i.sif", "--program", program or t.folder + "/apptainer", *words), **env), folder


def children(pid):
    """All descendants of a process, as a cluster without control groups finds them."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        stat = k.read("/proc/%s/stat" % name)
        if stat:
            parents[int(name)] = int(stat.rsplit(")", 1)[1].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(file):
    return os.path.exists("/proc/%s/stat" % k.read(file).strip()) and " Z " not in k.read("/proc/%s/stat" % k.read(file).strip())


def test_up():
    """Its words, and what attempts get of the environment."""
    keeper, folder = box("up", "--nv", "--mount", "/etc", "--mount", "/etc:/e:ro", TMPDIR=k.tmp, CUDA_VISIBLE_DEVICES="1", **NEVER)
    home = keeper.up()["home"]
    t.same("words of the program", k.read("args").splitlines(),
           ["--quiet", "--nocolor", "exec", "--bind", os.path.dirname(home), "--bind", t.folder, "--nv", "--bind", "/etc", "--bind",
            "/etc:/e:ro", "/i.sif", k.flownode, "keep", "--alloc", folder, "--kill-wait", "0", "--lease", "0", "--base", k.tmp, "--inside", "--guarded"])
    t.same("nothing of it descends from the step's process", children(keeper.process.pid), set())
    lines = k.say(1, ["start", "env; echo last", "log", "\nlast\n", "read"], k.relay_words(folder, 1))
    got = dict(line.split("=", 1) for line in lines if "=" in line)
    want = dict(OF_IMAGE="/i.sif", LD_LIBRARY_PATH="/.singularity.d/libs", SLURM_JOB_ID="4711", CUDA_VISIBLE_DEVICES="1")
    t.same("of the image and the job", {name: got.get(name) for name in want}, want)
    t.has("the image's PATH", got["PATH"], t.folder + "/bin:")
    t.same("nothing of a rank or of the program", sorted(n for n in got if n in NEVER or n.startswith("APPTAINER")), [])
    keeper.term()
    t.same("it closes", (keeper.ended(), os.path.exists(keeper.file + ".closed"), keeper.error()), (0, True, ""))
    t.check("and its program has ended", not alive("program") and not alive("files"), "")


def test_term():
    """TERM reaches all of a step: what serves the image's files lives until the keeper has closed."""
    keeper, folder = box("term", wait=6)
    keeper.up()
    link = k.Say(1, ["start", STUBBORN, "log", "up", "end", "wait"], k.relay_words(folder, 1))
    link.line("started")
    link.line("log")
    for pid in {keeper.process.pid} | children(keeper.process.pid):
        os.kill(pid, signal.SIGTERM)
    t.same("the engine hears of the end", link.line("ended"), "node_lost 9 0")
    t.same("it closes", (keeper.ended(), os.path.exists(keeper.file + ".closed")), (0, True))
    t.same("and what served the image's files was not told to end", os.path.exists("termed"), False)


def test_killed():
    """Slurm has killed the step: the keeper ends what lives, and itself."""
    keeper, folder = box("killed", wait=600)
    keeper.up()
    link = k.Say(1, ["start", STUBBORN, "log", "up", "end", "wait"], k.relay_words(folder, 1))
    attempt = link.line("started")
    link.line("log")
    t.until("it has processes", lambda: k.carriers(attempt))
    keeper.process.kill()
    if not t.until("the keeper closes", lambda: os.path.exists(keeper.file + ".closed"), 60):
        t.kill(t.alive())
        return
    t.same("the engine hears of the end", link.line("ended"), "node_lost 9 0")
    t.until("nothing is left", lambda: not k.carriers(attempt) and not alive("program") and not alive("files"), 60)


def test_hold():
    """The first process of a container that a task starts with podman or docker: it ends with the keeper."""
    for end in ("term", "kill"):
        keeper = k.Keeper(k.allocation("hold-" + end))
        home = keeper.up()["home"]
        hold = subprocess.Popen([k.flownode, "hold", "--home", home])
        t.started.append(hold)
        t.same("the home as it holds", k.relay(keeper.folder, 1)[0], 0)
        t.check("it holds", hold.poll() is None)
        getattr(keeper, end)() if end == "term" else keeper.process.kill()
        t.until("it ends by itself", lambda: hold.poll() is not None, 60)
        t.same("well", hold.poll(), 0)
    p = subprocess.run([k.flownode, "hold", "--home", "/none"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                       check=False)
    t.same("no home", (p.returncode, p.stdout), (1, "flownode hold: cannot open /none/keep.lock: No such file or directory\n"))


def test_refused():
    keeper, folder = box("program", program="/none/apptainer", PATH="/a:/b")
    t.same("no program", keeper.ended(), 1)
    t.same("is told", keeper.error(), "nid001: the container of /i.sif did not run: there is no program /none/apptainer there; install "
                                      "Apptainer, or write container: {program: /PATH}; PATH=/a:/b\n")
    open("fatal", "w").close()
    keeper, folder = box("image")
    t.same("no image", keeper.ended(), 1)
    t.same("the program's last line", keeper.error(), "nid001: the container of /i.sif did not run: FATAL:   could not open image\n")
    os.unlink("fatal")
    keeper, folder = box("base", TMPDIR="/proc")
    t.same("no place for a home", keeper.ended(), 1)
    t.has("is told", keeper.error(), "cannot make /proc/flowrun-")
    with open("%s/flowrun-%d/home-1" % (k.tmp, os.getuid()), "w"):
        pass
    keeper, folder = box("home")
    t.same("a home that is none", keeper.ended(), 1)
    t.has("the keeper's own word counts", keeper.error(), "/home-1 (uid")
    keeper, folder = box("twin", "--mount", "/etc")
    keeper.up()
    twin = k.Keeper(folder, job=k.JOB + 1, more=("--image", "/i.sif", "--program", t.folder + "/apptainer"))
    t.same("a twin starts nothing", (twin.ended(), twin.error()), (0, ""))
    keeper.term()
    t.same("the first goes on to its end", (keeper.ended(), keeper.error()), (0, ""))


def main():
    k.begin()
    k.fake_apptainer("apptainer")
    for test in (test_up, test_term, test_killed, test_hold, test_refused):
        test()
    t.finish()


main()
