#!/usr/bin/env python3
"""Keepers of a job of Slurm, without Slurm: two on this machine as the places of one allocation, relays
as their links. usage: keeper.py BUILD"""
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

import keeper_lib as k
import trainer_lib as t

NOBODY = 65534
STUBBORN = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000' &); echo up; while :; do sleep 1; done"


def test_up():
    """Both come up; what they write; hello, and an attempt's log, byte for byte."""
    folder = k.allocation("up")
    second = k.Keeper(folder, 2)  # it waits for the claim of the first
    first = k.Keeper(folder, 1)
    for keeper in (first, second):
        n, said = keeper.place, keeper.up()
        home = "%s/flowrun-%d/up-%d" % (k.tmp, os.getuid(), n)
        t.same("place %d" % n, said, {"job": "4711", "restarts": "0", "own": "4711", "host": "nid%03d" % n,
                                      "address": "127.0.0.1", "home": home, "pid": str(keeper.process.pid)})
        for path, mode in ((home, 0o40700), (os.path.dirname(home), 0o40700), (home + "/s/keep", 0o140600),
                           (keeper.file, 0o100600)):
            t.same("mode of " + path, oct(os.stat(path).st_mode), oct(mode))
        fds = ["/proc/%d/fd/%d" % (keeper.process.pid, fd) for fd in range(3)]
        t.same("streams of place %d" % n, [os.readlink(fd) for fd in fds], ["/dev/null"] * 3)
    t.same("the claim", k.read(folder + "/claim"), "4711 0\n")
    t.same("files", sorted(os.listdir(folder)), ["claim", "place.1", "place.2"])
    homes = set()
    for n in (1, 2):
        lines = k.say(1, ["start", "seq 1 200000; echo last", "log", "last\n", "end", "ack", "state"],
                      k.relay_words(folder, n), place=n)
        homes.add(lines[0])
        t.same("place %d: what came" % n, lines[2:], ["log 1288900", "ended exit 0 0", "state unknown", "status 0"])
    t.same("homes", len(homes), 2)
    t.same("a piece of a message is answered", k.say(2, ["piece"], k.relay_words(folder, 1))[1:], ["answered", "status 0"])
    t.same("another host", k.relay(folder, 1, SLURMD_NODENAME="nid009"),
           (1, "flownode relay: place 1 is on nid001, and this is nid009\n"))
    other = k.Keeper(folder, 2)
    t.same("a second keeper of a place", other.ended(), 1)
    t.has("a second keeper of a place", other.error(), "another keeper has " + k.tmp)
    os.unlink(other.file + ".error")
    for keeper in (first, second):
        keeper.term()
        t.same("place %d closes" % keeper.place, (keeper.ended(), k.read(keeper.file + ".closed"), keeper.error()),
               (0, "job 4711\nrestarts 0\n", ""))
        t.same("its home is gone", [os.path.join(d, f) for d, _, fs in os.walk(keeper.up()["home"]) for f in fs], [])
    code, text = k.relay(folder, 1)
    t.same("no keeper", code, 3)
    t.has("no keeper", text, "no keeper listens at place 1 (nid001), and none of its attempts has a process")


def test_twin():
    """Whatever job comes second starts nothing."""
    folder = k.allocation("twin")
    first = k.Keeper(folder, 1)
    before = first.up()
    element = k.Keeper(k.allocation("element"), 1, job=4715, SLURM_ARRAY_JOB_ID="4711")
    said = element.up()
    t.same("an element of an array", (said["job"], said["own"], k.read(os.path.dirname(element.file) + "/claim")),
           ("4711", "4715", "4711 0\n"))
    element.term()
    t.same("it closes", (element.ended(), k.read(element.file + ".closed")), (0, "job 4711\nrestarts 0\n"))
    os.mkdir("other")
    for what, place, job, more in (("another job", 1, 4712, {}), ("another job", 2, 4712, {}),
                                   ("a requeued job", 1, k.JOB, {"SLURM_RESTART_COUNT": "1"})):
        twin = k.Keeper(folder, place, job=job, TMPDIR=t.folder + "/other", **more)
        t.same("%s: place %d" % (what, place), (twin.ended(), twin.error()), (0, ""))
    t.same("twins make no home", os.listdir("other"), [])
    t.same("the first is undisturbed", (first.up(), first.process.poll()), (before, None))
    t.same("files", sorted(os.listdir(folder)), ["claim", "place.1"])
    t.same("the first answers", k.say(1, ["start", "true", "end"], k.relay_words(folder, 1))[2:],
           ["ended exit 0 0", "status 0"])
    first.term()
    t.same("the first closes", first.ended(), 0)
    waits = k.Keeper(k.allocation("alone"), 2)
    fds = "/proc/%d/fd/" % waits.process.pid
    t.until("it takes signals", lambda: any("signalfd" in os.readlink(fds + fd) for fd in os.listdir(fds)))
    waits.term()
    t.same("a keeper without a claim ends", (waits.ended(), waits.error()), (0, ""))


SET = {"SLURM_JOB_NODELIST": "nid[001-002]", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "gpu",
       "SLURM_CLUSTER_NAME": "hpc", "CUDA_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "2",
       "ZE_AFFINITY_MASK": "3", "GPU_DEVICE_ORDINAL": "4"}
NEVER = {"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0",
         "SLURM_STEP_NUM_TASKS": "2", "SLURM_CPU_BIND": "quiet", "SLURM_CPU_BIND_TYPE": "mask", "SLURM_NODEID": "0",
         "SLURM_CPUS_PER_TASK": "1", "SLURM_TASKS_PER_NODE": "1", "SLURM_GPUS_ON_NODE": "2", "PMI_RANK": "1",
         "PMIX_RANK": "1", "OMPI_COMM_WORLD_RANK": "0", "FLOWRUN_DEADLINE": "7", "SLURM_RESTART_COUNT": "0"}


def test_environ():
    folder = k.allocation("environ")
    keeper = k.Keeper(folder, 1, SLURM_TMPDIR=k.tmp + "/own", TMPDIR=k.tmp, **SET, **NEVER)
    os.mkdir(k.tmp + "/own")
    keeper.wait()
    keeper = k.Keeper(folder, 1, SLURM_TMPDIR=k.tmp + "/own", TMPDIR=k.tmp, **SET, **NEVER)
    t.has("the home is in SLURM_TMPDIR", keeper.up()["home"], k.tmp + "/own/flowrun-")
    lines = k.say(1, ["start", "env; echo last", "log", "\nlast\n", "read"], k.relay_words(folder, 1))
    got = dict(line.split("=", 1) for line in lines if "=" in line)
    got["PATH_"] = got.pop("PATH")  # not of Slurm
    want = dict(SET, SLURM_JOB_ID="4711", SLURMD_NODENAME="nid001", SLURM_TMPDIR=k.tmp + "/own")
    t.same("variables of Slurm", {name: got.get(name) for name in want}, want)
    t.same("no others", [n for n in got if n.startswith(("SLURM", "PMI", "OMPI", "FLOWRUN_DEADLINE")) and n not in want], [])
    keeper.term()
    t.same("it closes", keeper.ended(), 0)


def test_links():
    """Links end and come again; the attempt goes on. The newest connection fences older ones."""
    folder = k.allocation("links")
    keeper = k.Keeper(folder, 1)
    keeper.up()
    link = k.Say(1, ["start", "echo up; until test -e %s/go; do sleep 0.05; done; echo done" % t.folder,
                     "log", "up", "wait"], ["sh", "-c", "echo $$ > link.pid; exec \"$@\"", "sh"] + k.relay_words(folder, 1))
    attempt = link.line("started")
    link.line("log")
    os.kill(int(k.read("link.pid")), signal.SIGKILL)
    t.same("the link is cut", link.rest()[-2:], ["closed", "status -1"])
    older = k.Say(2, ["use", attempt, "state", "log", "up", "wait"], k.relay_words(folder, 1))
    t.same("a further link", (older.line("state"), older.line("log")), ("running", "3"))
    newer = k.Say(3, ["use", attempt, "state", "log", "done", "end", "ack", "wait"],
                  ["sh", "-c", "echo $$ > link.pid; exec \"$@\"", "sh"] + k.relay_words(folder, 1))
    t.same("a newer link", newer.line("state"), "running")
    for sig in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        os.kill(int(k.read("link.pid")), sig)  # as Slurm does with all steps
    t.same("the older one is fenced", older.rest()[-2:], ["closed", "status 0"])
    with open("go", "w"):
        pass
    t.same("the end of the attempt", (newer.line("log"), newer.line("ended")), ("8", "exit 0 0"))
    t.same("many links", [k.say(4 + i, [], k.relay_words(folder, 1))[1:] for i in range(5)], [["status 0"]] * 5)
    keeper.process.send_signal(signal.SIGUSR1)
    keeper.term()  # while a link is up
    t.same("it closes", (keeper.ended(), keeper.error()), (0, ""))
    t.same("its links end", newer.rest()[-2:], ["closed", "status 0"])


def test_term_live():
    """TERM while attempts live: no other starts; those that do not end are killed, and proven to be gone."""
    folder = k.allocation("live")
    keeper = k.Keeper(folder, 1, wait=6)
    home = keeper.up()["home"]
    link = k.Say(1, ["prepare", "echo never > never", "start", STUBBORN, "log", "up", "end", "wait"],
                 k.relay_words(folder, 1))
    waiting, live = link.line("prepared"), link.line("started")
    link.line("log")
    t.until("it has processes", lambda: len(k.carriers(live)) >= 2)
    keeper.term()
    t.same("the engine hears of the end", link.line("ended"), "node_lost 9 0")
    t.same("the keeper closes", (keeper.ended(), k.read(keeper.file + ".closed"), keeper.error()),
           (0, "job 4711\nrestarts 0\n", ""))
    t.same("nothing is left", k.carriers(live), [])
    t.same("the link ends", link.rest()[-2:], ["closed", "status 0"])
    lines = k.say(2, ["use", live, "state", "end", "use", waiting, "state", "go", "state"], k.serve_words(home))
    t.same("an engine that comes later", lines[1:], ["state ended", "ended node_lost 9 0", "state tombstoned",
                                                     "state tombstoned", "status 0"]
           if "state tombstoned" in lines else ["state ended", "ended node_lost 9 0", "state ended", "state ended", "status 0"])


def test_term_waits():
    """An attempt that ends in time ends as it wants. Nothing starts meanwhile."""
    folder = k.allocation("waits")
    keeper = k.Keeper(folder, 1, wait=86400)
    keeper.up()
    link = k.Say(1, ["start", "echo up; until test -e %s/gate; do sleep 0.05; done" % t.folder, "log", "up", "end",
                     "ack", "wait"], k.relay_words(folder, 1))
    attempt = link.line("started")
    link.line("log")
    keeper.term()
    tried = []  # Popen.send_signal returns before the keeper has read it
    while not any(line.startswith("refused") for line in tried):
        tried = k.say(2 + len(tried), ["start", "true"], k.relay_words(folder, 1))
    t.has("a start is refused", "\n".join(tried), "refused stopped the job of Slurm ends: nothing starts in it any more")
    t.check("the attempt goes on", k.carriers(attempt) != [])
    with open("gate", "w"):
        pass
    t.same("the keeper closes", (keeper.ended(), keeper.error()), (0, ""))
    t.check("closed", os.path.exists(keeper.file + ".closed"))


def test_term_notice():
    """An attempt with a notice is stopped at once, and has the time to save; others go on until they are killed."""
    folder = k.allocation("notice")
    keeper = k.Keeper(folder, 1, wait=86400)
    keeper.up()
    link = k.Say(1, ["start", "until test -e %s/later; do sleep 0.05; done" % t.folder, "notice", "start",
                     "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done", "log", "up", "end", "read",
                     "wait"], k.relay_words(folder, 1))
    other = link.line("started")
    link.line("started")
    link.line("log")
    keeper.term()
    t.same("it is stopped, and ends", link.line("ended"), "node_lost 0 0")
    link.line("read")
    t.same("it had time to save", [link.line("up"), link.line("saved")], ["", ""])
    t.check("the other goes on", k.carriers(other) != [])
    with open("later", "w"):
        pass
    t.same("the keeper closes", (keeper.ended(), keeper.error()), (0, ""))


def test_supervisor_killed():
    """A dead supervisor's processes are found and ended, too."""
    folder = k.allocation("orphan")
    keeper = k.Keeper(folder, 1, wait=1)
    home = keeper.up()["home"]
    link = k.Say(1, ["start", STUBBORN, "log", "up", "wait"], k.relay_words(folder, 1))
    live = link.line("started")
    link.line("log")
    link.process.kill()
    pids = k.carriers(live)
    with open("/proc/%d/stat" % min(pids)) as f:
        supervisor = int(f.read().rsplit(")", 1)[1].split()[1])
    os.kill(supervisor, signal.SIGKILL)
    keeper.term()
    t.same("the keeper closes", (keeper.ended(), keeper.error(), k.carriers(live)), (0, "", []))
    t.same("an engine that comes later", k.say(2, ["use", live, "end"], k.serve_words(home))[1:],
           ["ended lost 0 0", "status 0"])


def test_killed():
    """The keeper is killed: its serves end with it, and a relay says so."""
    folder = k.allocation("killed")
    keeper = k.Keeper(folder, 1)
    home = keeper.up()["home"]
    link = k.Say(1, ["start", "echo up; exec sleep 1000", "log", "up", "wait"], k.relay_words(folder, 1))
    live = link.line("started")
    link.line("log")
    keeper.process.kill()
    keeper.ended()
    t.same("the link ends", link.rest()[-2:], ["closed", "status 0"])
    code, text = k.relay(folder, 1)
    t.same("no keeper", code, 1)
    t.has("no keeper", text, "no keeper listens at place 1 (nid001); 1 of its attempts have processes")
    t.same("the attempt goes on", k.say(2, ["use", live, "state", "stop", "end"], k.serve_words(home))[1:],
           ["state running", "ended stopped 9 0", "status 0"])
    code, text = k.relay(folder, 1)
    t.same("no keeper, and nothing left", code, 3)
    t.check("it is not closed", not os.path.exists(keeper.file + ".closed"))
    t.same("no such place", k.relay(folder, 7), (3, "flownode relay: no keeper has come up at place 7\n"))


def test_sweep():
    """A keeper that comes up removes what earlier ones left on its node, but for homes that are in use."""
    base = "%s/flowrun-%d/" % (k.tmp, os.getuid())
    keepers = {tag: k.Keeper(k.allocation(tag), 1) for tag in ("dead", "used", "lives")}
    homes = {tag: keeper.up()["home"] for tag, keeper in keepers.items()}
    k.say(1, ["start", "true", "end", "ack", "state"], k.relay_words(keepers["dead"].folder, 1))
    link = k.Say(1, ["start", "echo up; exec sleep 1000", "log", "up", "wait"], k.relay_words(keepers["used"].folder, 1))
    live = link.line("started")
    link.line("log")
    for tag in ("dead", "used"):
        keepers[tag].process.kill()
        keepers[tag].ended()
    os.makedirs(base + ".gone-x/log")
    later = k.Keeper(k.allocation("later"), 1)
    later.up()
    t.until("it removes what is left", lambda: not [n for n in os.listdir(base) if n.startswith((".gone", "dead"))])
    t.same("homes in use stay", [os.path.exists(homes[tag]) for tag in ("used", "lives")], [True, True])
    t.same("an attempt there goes on", k.say(2, ["use", live, "state", "stop", "end", "ack"], k.serve_words(homes["used"]))[1:],
           ["state running", "ended stopped 9 0", "status 0"])
    last = k.Keeper(k.allocation("last"), 1)
    last.up()
    t.until("then it goes, too", lambda: not os.path.exists(homes["used"]))
    t.same("the other keeper lives", k.say(1, ["start", "true", "end"], k.relay_words(keepers["lives"].folder, 1))[2:],
           ["ended exit 0 0", "status 0"])
    for keeper in (keepers["lives"], later, last):
        keeper.term()
        t.same("they close", (keeper.ended(), keeper.error()), (0, ""))


def test_refused():
    """Folders that others may write, and wrong variables, are refused before anything is made."""
    folder = k.allocation("refused")
    rows = [("relative", "alloc/refused", {}, "--alloc needs the absolute path of a folder"),
            ("a slash at the end", folder + "/", {}, "--alloc needs the absolute path of a folder"),
            ("not there", folder + "x", {}, "the folder of the allocation, %sx: No such file" % folder),
            ("a link", t.folder + "/link", {}, "link is no folder"),
            ("for all to write", t.folder + "/open", {}, "can be written by others"),
            ("in a folder for all to write", t.folder + "/open/in", {}, "is writable for everybody"),
            ("of another user", t.folder + "/theirs", {}, "belongs to uid 65534")]
    rows += [("no " + name, folder, {name: None}, name + " is not set: flownode keep is started by srun")
             for name in ("SLURM_JOB_ID", "SLURM_NODEID", "SLURM_LAUNCH_NODE_IPADDR")]
    rows += [("a wrong place", folder, {"SLURM_NODEID": "-1"}, 'SLURM_NODEID is not a number from 0 to 4095: "-1"'),
             ("a wrong count", folder, {"SLURM_RESTART_COUNT": "x"}, "SLURM_RESTART_COUNT is not a number"),
             ("a wrong address", folder, {"SLURM_LAUNCH_NODE_IPADDR": "n1"}, 'is not an address: "n1"'),
             ("a wrong name", folder, {"SLURMD_NODENAME": "a b"}, "this node has no usable name"),
             ("a relative home", folder, {"TMPDIR": "tmp"}, "is not an absolute path: tmp")]
    os.symlink(folder, "link")
    os.makedirs("open/in")
    os.chmod("open/in", 0o700)
    os.chmod("open", 0o777)
    os.mkdir("theirs", 0o700)
    if os.getuid() == 0:
        os.chown("theirs", NOBODY, NOBODY)
    for what, path, env, want in rows:
        if what == "of another user" and os.getuid() != 0:
            continue
        keeper = k.Keeper(path, 1, **env)
        text = keeper.said()
        t.has(what, text, want)
        t.same(what + ": exit status", keeper.process.returncode, 1)
        t.check(what + ": nothing is made", not os.path.exists(path + "/claim"))
    t.has("relay, too", k.relay(t.folder + "/open", 1)[1], "can be written by others")
    for words in (["keep"], ["keep", "--alloc", folder, "--kill-wait", "-1"], ["relay", "--alloc", folder],
                  ["relay", "--alloc", folder, "--place", "0"]):
        t.same("usage", subprocess.run([k.flownode] + words, capture_output=True).returncode, 2)


def test_home():
    """A home that cannot be made or trusted: place.K.error says why."""
    own = "flowrun-%d" % os.getuid()
    for what, prepare, want in (
            ("not there", lambda p: os.rmdir(p), "cannot make %s/%s: No such file"),
            ("a link", lambda p: os.symlink(t.folder, p + "/" + own), "%s/%s (uid"),
            ("for others to read", lambda p: os.mkdir(p + "/" + own, 0o755), "%s/%s (uid"),
            ("of another user", lambda p: (os.mkdir(p + "/" + own, 0o700), os.chown(p + "/" + own, NOBODY, NOBODY)),
             "%s/%s (uid 65534, mode 0700) is not a folder that only uid 0 may use"),
            ("read-only", lambda p: mount(p, "ro"), "cannot make %s/%s: Read-only file system"),
            ("a full disk", lambda p: (mount(p, "size=4k"), fill(p)), "No space left on device"),
            ("no files left", lambda p: mount(p, "nr_inodes=2"), "No space left on device")):
        if os.getuid() != 0 and what in ("of another user", "read-only", "a full disk", "no files left"):
            continue
        path = tempfile.mkdtemp(dir=k.tmp)
        try:
            prepare(path)
        except subprocess.CalledProcessError:
            print("no mount here:", what)
            continue
        keeper = k.Keeper(k.allocation("home" + what.replace(" ", "")), 1, TMPDIR=path)
        t.same(what + ": exit status", keeper.ended(), 1)
        t.has(what, keeper.error(), want % (path, own) if "%" in want else want)
        t.check(what + ": it is not up", not os.path.exists(keeper.file))
        code, text = k.relay(keeper.folder, 1)
        t.check(what + ": a relay says so", code == 3 and keeper.error().strip() in text, text)
        subprocess.run(["umount", "-l", path], capture_output=True)


def mount(path, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True, capture_output=True)


def fill(path):
    with open(path + "/all", "wb") as f:
        f.write(b"x" * 4096)


def as_nobody(work):
    """Runs work() as another user in a child; what it returned, as text."""
    r, w = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(w, repr(work()).encode())
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return text


def first_bytes(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(100)
        s.connect(path)
        return s.recv(4)


def test_other_users():
    if os.getuid() != 0:
        return
    os.chmod(t.folder, 0o711)
    os.makedirs("/tmp/" + os.path.basename(t.folder) + ".k")
    short = "/tmp/" + os.path.basename(t.folder) + ".k"  # a socket's path is short
    try:
        keeper = k.Keeper(k.allocation("others"), 1, TMPDIR=short)
        home = keeper.up()["home"]
        for path in (short, os.path.dirname(home), home, home + "/s"):
            os.chmod(path, 0o711)
        os.chmod(home + "/s/keep", 0o666)
        t.same("its own user", first_bytes(home + "/s/keep") != b"", True)
        t.same("another user", as_nobody(lambda: first_bytes(home + "/s/keep")), "b''")
        keeper.term()
        keeper.ended()
        folder = k.allocation("planted")
        os.makedirs(short + "/theirs/s")
        os.chown(short + "/theirs/s", NOBODY, NOBODY)
        with open(folder + "/place.1", "w") as f:
            f.write("job 1\nrestarts 0\nhost nid001\naddress 127.0.0.1\nhome %s/theirs\npid 1\n" % short)
        with socket.socket(socket.AF_UNIX) as s:
            os.seteuid(NOBODY)
            s.bind(short + "/theirs/s/keep")
            s.listen()
            os.seteuid(0)
            code, text = k.relay(folder, 1)
        t.same("a socket of another user", code, 1)
        t.has("a socket of another user", text, "is a socket of another user")
        undumpable(short)
        unproven(short)
    finally:
        shutil.rmtree(short)


def unproven(short):
    """A process that the keeper may not end: it is named, and the place is not closed."""
    folder = short + "/theirs/unproven"
    os.mkdir(folder, 0o700)
    os.chown(folder, NOBODY, NOBODY)
    shutil.copy(shutil.which("setpriv"), short + "/setpriv")
    os.chmod(short + "/setpriv", 0o4755)
    keeper = k.Keeper(folder, 1, wait=1, user=NOBODY, TMPDIR=short + "/theirs")
    keeper.up()
    link = k.Say(1, ["start", "%s/setpriv --reuid 0 sleep 1000 & wait" % short, "wait"], k.relay_words(folder, 1),
                 user=NOBODY)
    live = link.line("started")
    roots = t.until("a process of root", lambda: [pid for pid in k.carriers(live) if is_roots(pid)], 20)
    keeper.term()
    t.same("it cannot close", keeper.ended(), 1)
    t.has("it cannot close", keeper.error(), "1 attempts could not be ended")
    t.check("it is not closed", not os.path.exists(keeper.file + ".closed"))
    t.kill(roots or [])


def is_roots(pid):
    return k.read("/proc/%d/comm" % pid) == "sleep\n" and "Uid:\t0\t0" in k.read("/proc/%d/status" % pid)


def undumpable(short):
    """Nobody looks into the memory of a keeper, of its serves and of a relay: they have secrets."""
    folder = short + "/theirs/tag"
    os.mkdir(folder, 0o700)
    os.chown(folder, NOBODY, NOBODY)
    os.chown(short + "/theirs", NOBODY, NOBODY)
    keeper = k.Keeper(folder, 1, user=NOBODY, TMPDIR=short + "/theirs")
    keeper.up()
    relay = subprocess.Popen(k.relay_words(folder, 1), env=k.step_env(1), user=NOBODY, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    relay.stdout.read(4)
    serves = k.read("/proc/%d/task/%d/children" % (keeper.process.pid, keeper.process.pid)).split()
    owners = [os.stat("/proc/%s/mem" % pid).st_uid for pid in [keeper.process.pid, relay.pid] + serves]
    t.same("processes that nobody looks into", owners, [0, 0, 0])
    relay.stdin.close()
    relay.wait()
    keeper.term()
    keeper.ended()


def lease_files(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith(("quiet", "lease")))


def test_lease():
    """Nobody comes and nothing runs: the keepers of both places end together, once each of them is quiet."""
    env = {"SLURM_JOB_NUM_NODES": "2", "lease": 1}
    folder = k.allocation("lease")
    first, second = k.Keeper(folder, 1, **env), k.Keeper(folder, 2, **env)
    first.up()
    second.up()
    script = "until test -e %s/go.lease; do sleep 0.05; done; echo done" % t.folder
    attempt = k.Say(1, ["start", script], k.relay_words(folder, 1)).line("started")
    waits = k.Say(1, ["prepare", "true", "wait"], k.relay_words(folder, 2), place=2)
    waits.line("prepared")
    t.check("a link that brings nothing is cut", "closed" in waits.rest(), waits.lines)
    t.until("one that only waits for go does not hold a place", lambda: "quiet.0.2" in lease_files(folder))
    t.same("an engine comes back to the quiet place", k.say(2, ["start", "true", "end", "ack", "state"],
           k.relay_words(folder, 2), place=2)[2:], ["ended exit 0 0", "state unknown", "status 0"])
    t.same("which renews the lease", k.read(folder + "/lease.0"), "renewed\n")
    t.until("it is quiet again", lambda: "quiet.1.2" in lease_files(folder))
    t.same("a place where something runs is not", [x for x in lease_files(folder) if x.endswith(".1")], [])
    open("go.lease", "w").close()
    t.until("it ends", lambda: k.carriers(attempt) == [])
    t.same("and again", k.say(3, ["start", "true", "end", "ack", "state"], k.relay_words(folder, 2), place=2)[2:],
           ["ended exit 0 0", "state unknown", "status 0"])
    t.until("the other place is quiet once more", lambda: "quiet.2.2" in lease_files(folder))
    t.same("an end that nobody fetched holds its place, too",
           [x for x in lease_files(folder) if x.endswith(".1") and not x.startswith("lease")], [])
    t.same("it is fetched", k.say(4, ["use", attempt, "log", "done", "end", "ack", "state"], k.relay_words(folder, 1))[1:],
           ["log 5", "ended exit 0 0", "state unknown", "status 0"])
    for keeper in (first, second):
        t.same("place %d ends by itself" % keeper.place, (keeper.ended(), keeper.error()), (0, ""))
        t.same("place %d says why" % keeper.place, k.read(keeper.file + ".closed"), "job 4711\nrestarts 0\nlease 1000\n")
    t.same("the verdict", k.read(folder + "/lease.2"), "over\n")
    t.same("no keeper", k.relay(folder, 2)[0], 3)
    alone = k.Keeper(k.allocation("uncounted"), 1, lease=1, SLURM_JOB_NUM_NODES=None)
    t.same("a keeper that is not told of the others", alone.ended(), 1)
    t.has("a keeper that is not told of the others", alone.error(), "SLURM_JOB_NUM_NODES is not set")
    plain = k.Keeper(k.allocation("leaseless"), 1)
    plain.up()
    t.same("without a lease", (plain.process.poll(), lease_files(plain.folder)), (None, []))
    plain.term()
    t.same("it is told to end", (plain.ended(), k.read(plain.file + ".closed")), (0, "job 4711\nrestarts 0\n"))


def main():
    k.begin()
    for test in (test_up, test_twin, test_environ, test_links, test_term_live, test_term_waits, test_term_notice,
                 test_supervisor_killed, test_killed, test_sweep, test_refused, test_home, test_lease, test_other_users):
        test()
    t.finish()


main()
