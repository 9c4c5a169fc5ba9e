#!/usr/bin/env python3
"""Allocations whose tasks run in a container. usage: slurm_container.py BUILD fake|real|cgroups|podman.
fake: over the commands of fakeslurm and a fake of Apptainer (keeper_lib.py). real: over a Slurm of this test's own
(slurm_lib.py), each container whose programs are here: Apptainer; pyxis, of which SPANK_PYXIS names the plugin, with
enroot. cgroups: the same where Slurm ends jobs by control groups. podman: tasks with in: there, in containers of podman.
Skipped where there is none, without root or busybox."""
import json
import os
import shutil
import subprocess
import sys

import keeper_lib
import slurm_lib
import trainer_lib as t

here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
flowrun = s = None
env = {}
homes = []
TREE = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 4747 & sleep 4748' &); echo grown; while :; do sleep 0.1; done"


def ask(*words):
    """A command's exit status and all it printed."""
    p = subprocess.run([flowrun, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       env={**os.environ, **env}, timeout=600, text=True, errors="replace")
    return p.returncode, p.stdout


def begin(*words, **more):
    return slurm_lib.Flowrun([flowrun, *words], **env, **more)


def pipeline(container, tasks, more="nodes: 1", head=""):
    """p.yaml, and nodes.yaml with an allocation box."""
    with open("p.yaml", "w") as f:
        f.write("name: p\nnodes: nodes.yaml\n%stasks:\n" % head + "".join("  %s\n" % line for line in tasks.strip().splitlines()))
    with open("nodes.yaml", "w") as f:
        f.write("slurm:\n  work: %s/work\n  rpc: 60\n  allocations:\n    box: {time: 20m, %s%s}\n"
                % (t.folder, more, ", container: " + container if container else ""))
    return "p.yaml"


def not_begun(what):
    """What a run of p.yaml says of an allocation that did not begin. It would ask for two more, so it is killed."""
    homes.append("%s/home.%d" % (t.folder, len(homes)))
    run = begin("p.yaml", FLOWRUN_HOME=homes[-1])
    t.until(what + " is told", lambda: "is over:" in run.text() or run.process.poll() is not None)
    run.kill()
    return run.text()


# ---- over the fake ----

def fake():
    program = os.path.join(os.path.dirname(flowrun), "../../tests/e2e/fakeslurm")
    env.update(SLURM_CONF=t.folder + "/cluster/slurm.conf", PATH="%s/cluster/bin:%s" % (t.folder, os.environ["PATH"]))
    t.same("a cluster", subprocess.run([program, "init", t.folder + "/cluster", "2"], check=False).returncode, 0)
    with open("cluster/slurm.conf", "a") as f:
        f.write("Sinfo=up|infinite|0/2/0/2|1-infinite|gpu:2|all*\n")
    no_pyxis()
    open("cluster/switch/pyxis", "w").close()
    fake_pyxis()
    fake_program()
    subprocess.run([program, t.folder + "/cluster", "stop"], check=True)


def no_pyxis():
    path = pipeline("{pyxis: 'nvcr.io#nvidia/pytorch:25.01'}", "a: {on: box, run: 'true'}")
    words = ("nodes.yaml:5:51: allocation 'box' wants a container of pyxis, and srun has no --container-image here; expected a "
             "cluster with that plugin, or apptainer: IMAGE")
    code, text = ask("nodes", "--check", "nodes.yaml")
    t.same("--check without pyxis", code, 6)
    t.has("says where it is wanted", text, words)
    t.has("and that it cannot be had", text, "allocation box: 1 node for 20m00s of partition all  cannot be had")
    found = json.loads(ask("nodes", "--check", "--json", "nodes.yaml")[1])["cluster"]["findings"]
    t.same("in --json", [(f["key"], f["line"], f["column"]) for f in found if f["bad"]], [("container", 5, 51)])
    code, text = ask(path)
    t.same("a run without pyxis", code, 6)
    t.has("says the same", text, words)
    with open("cluster/log") as f:
        t.check("and submits nothing", "sbatch" not in f.read())


def fake_pyxis():
    t.same("--check with pyxis", ask("nodes", "--check", "nodes.yaml")[0], 0)
    code, text = ask("retry")
    t.same("a retry asks the cluster again", code, 0)
    path = pipeline("{pyxis: /i.sqsh, mounts: ['/etc:/e:ro']}", """
a: {on: box, run: 'echo "in $OF_IMAGE at $PATH of $SLURM_JOB_ID, rank ${RANK-none}"'}
""", more="nodes: 2")
    code, text = ask(path)
    t.same("a run with pyxis", code, 0)
    for place in ("box1", "box2"):
        t.has("in the image at " + place, text, "a@%s | in /i.sqsh at " % place)
    t.same("the image's PATH, and no rank of the step", text.count("/bin:/usr/bin of ") - text.count("rank none"), 0)
    path = pipeline("{pyxis: /c.sqsh}", "a: {on: box, run: 'echo in $OF_IMAGE'}", more="copies: 2")
    code, text = ask(path)
    t.same("copies of it", (code, text.count("| in /c.sqsh")), (0, 2))
    pipeline("{pyxis: missing}", "a: {on: box, run: 'true'}")
    t.has("an image that is not there", not_begun("no image"), "pyxis: failed to import docker image: missing")


def fake_program():
    keeper_lib.fake_apptainer("apptainer")
    path = pipeline("{apptainer: /i.sif, program: %s/apptainer, mounts: [/etc]}" % t.folder, """
a: {on: box, run: 'echo "in $OF_IMAGE of $SLURM_JOB_ID, ${APPTAINER_CONTAINER-} with $LD_LIBRARY_PATH"'}
""", more="gpus: 1")
    code, text = ask(path)
    t.same("a run in a container of Apptainer", code, 0)
    t.has("in the image", text, "a@box1 | in /i.sif of ")
    t.has("with its variables", text, ",  with /.singularity.d/libs")
    with open("args") as f:
        t.check("GPUs and mounts", "--nv\n--bind\n/etc\n/i.sif\n" in f.read())
    open("fatal", "w").close()
    t.has("an image that is not there", not_begun("no image"),
          "the container of /i.sif did not run: FATAL:   could not open image")
    pipeline("{apptainer: /i.sif, program: /none/singularity}", "a: {on: box, run: 'true'}")
    t.has("no program", not_begun("no program"),
          "node1: the container of /i.sif did not run: there is no program /none/singularity there; install Apptainer, or write "
          "container: {program: /PATH}")


# ---- over the real ones ----

def image():
    """A folder with busybox alone."""
    for name in ("bin", "etc", "tmp", "dev", "proc", "sys", "root", "var/tmp"):
        os.makedirs("bb/" + name)
    shutil.copy(shutil.which("busybox"), "bb/bin/busybox")
    for name in "sh cat echo env sleep setsid true test ls mkdir rm touch tr grep ps id".split():
        os.symlink("busybox", "bb/bin/" + name)
    with open("bb/etc/inside", "w") as f:
        f.write("a container\n")


def quiet(*words, **more):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True,
                          env={**os.environ, **more})


def own_apptainer():
    """The program and an image for it; None: there is none that works. Without all capabilities root needs a namespace."""
    if shutil.which("apptainer") is None or quiet("apptainer", "build", "bb.sif", "bb").returncode != 0:
        return None
    for more in ({}, {"APPTAINER_USERNS": "1"}):
        if quiet("apptainer", "exec", "bb.sif", "cat", "/etc/inside", **more).returncode == 0:
            with open("apptainer", "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
                f.write("#!/bin/sh\nexport PATH=%s %s\nexec %s \"$@\"\n" % (os.environ["PATH"], " ".join("%s=%s" % kv for kv in more.items()),
                                                                         shutil.which("apptainer")))
            return "{apptainer: %s/bb.sif, program: %s/apptainer, mounts: ['%s/bb/etc:/mnt:ro', '%s/shared:/shared']}" % ((t.folder,) * 4)
    return None


def own_pyxis():
    if None in map(shutil.which, ("enroot", "mksquashfs")) or not os.path.exists(os.environ.get("SPANK_PYXIS", "")):
        return None
    if quiet("mksquashfs", "bb", "bb.sqsh", "-quiet").returncode != 0:
        return None
    return "{pyxis: %s/bb.sqsh, mounts: ['%s/bb/etc:/mnt:ro', '%s/shared:/shared']}" % ((t.folder,) * 3)


def boxed(what, container):
    """Files, outputs, secrets and built-in tasks in a container; what is killed there; flowrun killed beside it."""
    secret = os.urandom(16).hex()
    with open("token", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write(secret)
    path = pipeline(container, """
a: {on: box, outputs: [where], env: {TOKEN: "${{ secrets.token }}"}, run: 'test ! -e /usr/bin/python3 && cat /mnt/inside && echo "${#TOKEN} of $TOKEN at $SLURMD_NODENAME"; echo "where=$(cat /etc/inside)" >> "$FLOWRUN_OUTPUT"'}
b: {on: box, needs: [a], env: {WHERE: "${{ tasks.a.outputs.where }}"}, run: 'echo "it was $WHERE"; echo kept > "$FLOWRUN_WORK/kept"'}
c: {on: box, needs: [b], run: 'cat "$FLOWRUN_WORK/kept"; until [ -e /shared/go ]; do sleep 0.1; done; echo goes on'}
d: {on: box, needs: [c], uses: cleanup}
e: {on: box, needs: [d], gang: true, uses: preflight}
""", head="secrets: {token: {file: token}}\n")
    run = begin(path)
    t.until(what + ": a task there", lambda: "c@box1 | kept" in run.text() or run.process.poll() is not None)
    first = run.text()
    run.kill()
    open("shared/go", "w").close()
    code, text = ask("resume")
    t.same(what + ": a run, of which flowrun was killed", code, 0)
    for words in ("a@box1 | a container", "a@box1 | 32 of *** at node", "b@box1 | it was a container"):
        t.has(what + ": it ran inside", first, words)
    t.has(what + ": goes on", text, "c@box1 | goes on")
    t.check(what + ": no secret is said", secret not in first + text)
    os.unlink("shared/go")
    run = begin(pipeline(container, "a: {on: box, grace: 200ms, run: '%s'}" % TREE.replace("'", "''")))
    t.until(what + ": a tree", lambda: "| grown" in run.text() or run.process.poll() is not None)
    t.has(what + ": cancel", ask("cancel")[1], "1 task stopped, no process of them is left")
    t.same(what + ": cancelled", run.ended(), 3)
    t.same(what + ": nothing is left of it", quiet("pgrep", "-f", "^sleep 474[78]$").stdout, "")
    told(what, container)


def told(what, container):
    """Slurm tells a job to end: the image is there as long as its tasks save."""
    saved = "shared/saved." + what
    run = begin(pipeline(container, """
a: {on: box, notice: 5m, run: 'trap "cat /etc/inside /mnt/inside > /%s; exit 0" TERM; echo up; while :; do sleep 0.1; done'}
""" % saved))
    t.until(what + ": it runs", lambda: "| up" in run.text() or run.process.poll() is not None)
    job = json.loads(ask("status", "--json")[1])["allocations"][0]["job"]
    s.run(["scancel", str(job)])
    run.ended()
    t.same(what + ": told to end, it saves files of the image", keeper_lib.read(saved), "a container\n" * 2)
    t.same(what + ": no node is drained", s.drained(), "")


def trained(container):
    """The shipped pipeline of a training in it, on two nodes."""
    pipeline(container, "a: {on: box, run: 'true'}", more="nodes: 2, cpus: 1")
    code, text = ask(os.path.join(here, "pipelines/deepseek-lora.yaml"), "-p", "nodes=nodes.yaml", "-p", "max_steps=6", "-p", "save_steps=3")
    t.same("a training in the image", code, 0)
    t.has("on two nodes", text, "train@box2 succeeded")
    t.has("publishes", text, "publish@box1 gave path=")


def missing(container):
    key = "apptainer: " if "apptainer" in container else "pyxis: "
    image = container.split(key)[1].split(",")[0]
    pipeline(container.replace(image, "/none/of.it"), "a: {on: box, run: 'true'}")
    text = not_begun("no image")
    t.check("an image that is not there", "/none/of.it" in text and "no such file" in text.lower(), text)


def cgroups():
    if not slurm_lib.can_cgroups():
        print("skipped: no control group can be made here")
        sys.exit(77)
    real(cgroups=True)


def real(**more):
    os.mkdir("shared")
    image()
    apptainer, pyxis = own_apptainer(), own_pyxis()
    if apptainer is None and pyxis is None:
        print("skipped: neither apptainer nor enroot with SPANK_PYXIS runs a container here")
        sys.exit(77)
    start(pyxis is not None, **more)
    for what, container in (("apptainer", apptainer), ("pyxis", pyxis)):
        if container is None:
            print(what + ": not here")
            continue
        boxed(what, container)
        missing(container)
    if apptainer is not None and not more:
        trained(apptainer)
    s.stop()


# ---- in: of tasks ----

def own_podman():
    """A podman with storage of its own and the image bb:1, first in the PATH of jobs. False: it runs no container."""
    if None in map(shutil.which, ("podman", "runc")):
        return False
    with open("cc.conf", "w") as f:
        f.write("[containers]\ndefault_ulimits = ['nofile=1024:1024', 'nproc=1000:1000']\nnetns = 'host'\n[engine]\nruntime = 'runc'\n"
                "cgroup_manager = 'cgroupfs'\nevents_logger = 'file'\n")
    os.mkdir("bin")
    for path, text in (("bin/podman", "export CONTAINERS_CONF=%s/cc.conf\nexec %s --root %s/store --runroot %s/runroot \"$@\"\n"
                        % (t.folder, shutil.which("podman"), t.folder, t.folder)), ("prolog", "echo \"export PATH=%s/bin:$PATH\"\n" % t.folder)):
        with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
            f.write("#!/bin/sh\n" + text)
    if subprocess.run("tar -C bb -c . | bin/podman import - bb:1", shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                      check=False).returncode != 0:
        return False
    return quiet("bin/podman", "run", "--rm", "--network", "host", "--ipc", "host", "bb:1", "cat", "/etc/inside").stdout == "a container\n"


def boxes():
    return quiet("bin/podman", "ps", "-aq").stdout.split()


def podman():
    image()
    if not own_podman():
        print("skipped: podman runs no container here")
        sys.exit(77)
    os.mkdir("shared")
    start(False, TaskProlog=t.folder + "/prolog")
    box = 'box: {uses: container, on: box, with: {image: "bb:1", runtime: podman, gpus: none, pull: never, mounts: ["%s/shared:/shared"]}}\n' % t.folder
    try:
        inside(box)
    finally:
        s.stop()
        quiet("bin/podman", "rm", "-fa")
        quiet("sh", "-c", "while pgrep -f '[-]-root %s/store' > /dev/null; do sleep 0.05; done; "
              "awk -v at=%s/store/ 'index($2, at) == 1 {print $2}' /proc/self/mounts | sort -r | xargs -r umount; "
              "rmdir /sys/fs/cgroup/*/libpod_parent/conmon /sys/fs/cgroup/*/libpod_parent" % (t.folder, t.folder))


def inside(box):
    with open("token", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write(os.urandom(16).hex())
    run = begin(pipeline(None, box + """
a: {on: box, in: box, needs: [box], outputs: [where], env: {TOKEN: "${{ secrets.token }}"}, run: 'echo "${#TOKEN} of $TOKEN in job $SLURM_JOB_ID"; until [ -e /shared/go ]; do sleep 0.1; done; echo "where=$(cat /etc/inside)" >> "$FLOWRUN_OUTPUT"'}
b: {on: box, needs: [a], env: {WHERE: "${{ tasks.a.outputs.where }}"}, run: 'echo "it was $WHERE"'}
""", head="secrets: {token: {file: token}}\n"))
    t.until("a task in podman", lambda: "a@box1 | " in run.text() or run.process.poll() is not None)
    first = run.text()
    run.kill()
    t.same("its container", len(boxes()), 1)
    open("shared/go", "w").close()
    code, text = ask("resume")
    t.same("a run, of which flowrun was killed", code, 0)
    job = json.loads(ask("status", "--json")[1])["allocations"][0]["job"]
    t.has("a task there", first, "a@box1 | 32 of *** in job %d" % job)
    t.has("an output from there", text, "b@box1 | it was a container")
    t.until("the container goes with its job", lambda: not boxes())
    run = begin(pipeline(None, box + "a: {on: box, in: box, needs: [box], grace: 200ms, run: '%s'}" % TREE.replace("'", "''")))
    t.until("a tree", lambda: "| grown" in run.text() or run.process.poll() is not None)
    t.has("cancel", ask("cancel")[1], "no process of them is left")
    t.same("cancelled", run.ended(), 3)
    t.same("nothing is left of it", quiet("pgrep", "-f", "^sleep 474[78]$").stdout, "")
    t.until("nor its container", lambda: not boxes())
    run = begin(pipeline(None, box + "a: {on: box, in: box, needs: [box], run: 'echo up; while :; do sleep 0.1; done'}"))
    t.until("it runs", lambda: "| up" in run.text() or run.process.poll() is not None)
    s.run(["scancel", str(json.loads(ask("status", "--json")[1])["allocations"][0]["job"])])
    t.check("its job is cancelled", run.ended() != 0, run.text())
    t.until("the container goes, too", lambda: not boxes())
    t.same("no node is drained", s.drained(), "")


def start(plugin, **more):
    global s
    os.mkdir("cluster")
    if plugin:
        os.mkdir("cluster/pyxis")
        with open("cluster/plugstack.conf", "w") as f:
            f.write("required %s runtime_path=%s/cluster/pyxis\n" % (os.environ["SPANK_PYXIS"], t.folder))
        more["PlugStackConfig"] = t.folder + "/cluster/plugstack.conf"
    s = slurm_lib.Slurm(t.folder + "/cluster", nodes=2, KillWait=15, **more)
    up = s.start()
    env.update(s.env)
    t.check("Slurm is up", up, s.report())


def main():
    global flowrun
    flowrun = slurm_lib.program("engine/cli/flowrun")
    slurm_lib.begin(slurm_lib.why_not(slurm_lib.PROGRAMS + ("busybox",)) if sys.argv[2] != "fake" else None)
    {"fake": fake, "real": real, "cgroups": cgroups, "podman": podman}[sys.argv[2]]()
    t.finish()


main()
