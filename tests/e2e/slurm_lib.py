"""A real Slurm on this machine, for tests: its own munge, one controller, and nodes that are slurmd
processes of this host. Needs root and the programs (`why_not`). Several may run at once.

    s = slurm_lib.Slurm(FOLDER, nodes=3, KillWait=5)    # FOLDER is there, and the caller's to remove
    if s.start():                                       # else s.report() says why
        code, text = s.run(["sbatch", …])
    s.stop()

Settings are lines of slurm.conf; None leaves one out; more: further lines. Commands get SLURM_CONF by
s.env. With database=True there is accounting: slurmdbd over a MariaDB of its own in the folder, without a
network (`why_no_database`). gpus: so many of each node, which are files. Nothing here sleeps to
synchronise: until() polls for a state with a bound.
"""
import atexit
import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import trainer_lib

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")
DATABASE = ("slurmdbd", "sacct", "mariadbd", "mariadb-install-db")


def why_not(programs=PROGRAMS):
    """Why there can be no Slurm here; None: there can."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        return "no " + ", ".join(missing)
    return None if os.getuid() == 0 else "not root"


def why_no_database():
    """Why there can be no Slurm with accounting here; None: there can."""
    return why_not(PROGRAMS + DATABASE)


def program(name):
    """The path of a program of the build folder, which is the test's first argument; before begin()."""
    return os.path.join(os.path.abspath(sys.argv[1]), name)


def begin(why=None, **env):
    """The beginning of a test, in a folder and with homes of its own. why: it is skipped for that."""
    if why is not None:
        print("skipped:", why)
        sys.exit(77)
    trainer_lib.begin_plain()
    os.mkdir("home")
    os.environ.update(HOME=trainer_lib.folder + "/home", FLOWRUN_HOME=trainer_lib.folder + "/state", **env)


def processes():
    """Of each process its number and its arguments, as bytes."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/cmdline" % pid, "rb") as f:
            yield int(pid), f.read()


def running(texts):
    """The arguments of processes that have one of these texts in them."""
    return [words.decode(errors="replace").replace("\0", " ") for _, words in processes()
            if any(text.encode() in words for text in texts)]


def closed(tag):
    """Whether the folder of that allocation is there, and all its keepers have closed."""
    folder = "work/alloc/" + tag
    files = os.listdir(folder) if os.path.exists(folder) else []
    places = [name for name in files if re.fullmatch(r"place\.\d+", name)]
    return bool(places) and all(name + ".closed" in files for name in places)


def folders_gone(what, tags, flowrun, env):
    """The folders of allocations are gone: where flowrun knew that all had closed, with it; where a keeper closed later, as
    on a machine with much to do, with the next flowrun of its home. Of a keeper that Slurm killed the folder stays."""
    late = set()
    for path in glob.glob("*/state.db"):
        with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True)) as store:
            rows = store.execute("SELECT tag, proven FROM allocation WHERE folder <> '' AND state = 'over'").fetchall()
        known = [tag for tag, proven in rows if proven and tag in tags]
        trainer_lib.same(what + ": what is known to have closed leaves no folder", known, [])
        late.update(os.path.dirname(path) for tag, _ in rows if tag in tags and closed(tag))
    for home in late:
        with open("next.yaml", "w") as f:
            f.write("tasks: {a: {run: 'true'}}\n")
        code, text = command([flowrun, "next.yaml"], {**env, "FLOWRUN_HOME": "%s/%s" % (trainer_lib.folder, home)})
        trainer_lib.check(what + ": the next flowrun of its home", code == 0, text)
    trainer_lib.same(what + ": no folder is left whose keepers have closed", [tag for tag in tags if closed(tag)], [])


def can_cgroups():
    """Whether proctrack/cgroup works here: it needs a freezer."""
    return os.access("/sys/fs/cgroup/freezer/cgroup.procs", os.W_OK)


def until(state, seconds=120):
    """The first true value of state(), None if none came in time."""
    end = time.monotonic() + seconds
    while not (value := state()):
        if time.monotonic() > end:
            return None
        time.sleep(0.02)
    return value


def command(words, env):
    """A command's exit status and all it printed; env: beside the environment of this process."""
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       env={**os.environ, **env}, timeout=600, text=True, errors="replace")
    return p.returncode, p.stdout


class Flowrun:
    """One in the background. words: the program and its arguments."""

    def __init__(self, words, **env):
        self.out = "out.%d" % len(trainer_lib.started)
        with open(self.out, "w") as f:
            self.process = subprocess.Popen(words, stdout=f, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **env})
        trainer_lib.started.append(self)

    def text(self):
        with open(self.out, errors="replace") as f:
            return f.read()

    def wait(self):
        return self.process.wait()

    def ended(self):
        """Its exit status, once it has one."""
        got = trainer_lib.until("%s ends" % self.process.args[1],
                                lambda: (self.process.poll(),) if self.process.poll() is not None else None)
        return got[0] if got else None

    def kill(self):
        self.process.kill()
        self.process.wait()


class Fake:
    """A cluster of fakeslurm in the folder `cluster` of the test: it answers Slurm's commands to env, which its run()
    has. Settings are lines of its slurm.conf."""

    def __init__(self, program, nodes=4):
        self.folder = trainer_lib.folder + "/cluster"
        self.program, self.nodes = program, nodes
        self.env = {"SLURM_CONF": self.folder + "/slurm.conf", "PATH": "%s/bin:%s" % (self.folder, os.environ["PATH"])}
        trainer_lib.same("a cluster", self.run([self.program, "init", self.folder, str(nodes)])[0], 0)
        self.conf()

    def run(self, words, **env):
        """A command's exit status and all it printed."""
        return command(words, {**self.env, **env})

    def act(self, *words):
        """fakeslurm's own commands, such as end JOB WORD."""
        return self.run([self.program, self.folder, *map(str, words)])

    def conf(self, **settings):
        lines = dict(Nodes=self.nodes, KillWait=5, MinJobAge=300, **settings)
        with open(self.folder + "/slurm.conf", "w") as f:
            f.write("".join("%s=%s\n" % pair for pair in lines.items()))

    def switch(self, name, text=""):
        with open(self.folder + "/switch/" + name, "w") as f:
            f.write(text + "\n")

    def off(self, name):
        os.remove(self.folder + "/switch/" + name)

    def commands(self, name):
        """The arguments of each such command that came to the cluster."""
        with open(self.folder + "/log") as f:
            lines = [line.split() for line in f]
        return [words[3:] for words in lines if words[1] == name]

    def jobs(self):
        """{id: state}."""
        return {int(line.split()[0]): line.split()[1] for line in self.act("jobs")[1].splitlines()}

    def state(self, job):
        """Slurm's word for the state of a job; "": it is not known."""
        return self.jobs().get(job, "")

    def stop(self):
        self.act("stop")


def begin_fake():
    """The beginning of a test over the commands of fakeslurm: flowrun's path, and the cluster."""
    flowrun, fakeslurm = program("engine/cli/flowrun"), program("tests/e2e/fakeslurm")
    begin()
    return flowrun, Fake(fakeslurm)


class Slurm:
    def __init__(self, folder, nodes=2, cgroups=False, more=(), database=False, gpus=0, **settings):
        self.folder, self.count, self.database, self.accounting = folder, nodes, database, None
        self.daemons, self.slurmd, self.controller = [], {}, None
        self.env = {"SLURM_CONF": folder + "/slurm.conf"}
        host, port, p = socket.gethostname(), trainer_lib.free_port(), folder
        prefix = "node%d-" % port if cgroups else "node"  # a node's cgroup has its name
        self.names = [prefix + str(i + 1) for i in range(nodes)]
        conf = dict(
            ClusterName="e2e", SlurmctldHost="%s(127.0.0.1)" % host, SlurmctldPort=port, AuthType="auth/munge",
            AuthInfo="socket=%s/munge.sock" % p, CredType="cred/munge", SlurmUser="root", SlurmdUser="root",
            StateSaveLocation=p + "/state", SlurmdSpoolDir=p + "/spool-%n", SlurmctldPidFile=p + "/slurmctld.pid",
            SlurmdPidFile=p + "/slurmd.%n.pid", SlurmctldLogFile=p + "/slurmctld.log",
            SlurmdLogFile=p + "/slurmd.%n.log", ProctrackType="proctrack/linuxproc", TaskPlugin="task/none",
            JobAcctGatherType="jobacct_gather/none", AccountingStorageType="accounting_storage/none",
            SelectType="select/cons_tres", SelectTypeParameters="CR_CPU", SwitchType="switch/none",
            MpiDefault="none", ReturnToService=2, SchedulerParameters="sched_interval=1,batch_sched_delay=0",
            MailProg="/bin/true", SlurmdParameters="config_overrides")
        if cgroups:  # of version 1; can_cgroups() says whether they can be made
            conf["ProctrackType"] = "proctrack/cgroup"
            with open(p + "/cgroup.conf", "w") as f:
                f.write("CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n")
        if database:
            conf.update(AccountingStorageType="accounting_storage/slurmdbd", AccountingStorageHost="localhost",
                        AccountingStoragePass=p + "/munge.sock",
                        AccountingStoragePort=trainer_lib.free_port(), JobAcctGatherType="jobacct_gather/linux",
                        JobAcctGatherFrequency=1)
            self.write_slurmdbd(conf["AccountingStoragePort"])
        if gpus:
            conf.update(GresTypes="gpu", **({"AccountingStorageTRES": "gres/gpu"} if database else {}))
            with open(p + "/gres.conf", "w") as f:
                f.write("Name=gpu File=%s/gpu[1-%d]\n" % (p, gpus))
            for i in range(gpus):
                open("%s/gpu%d" % (p, i + 1), "w").close()
        conf.update(settings)
        lines = ["%s=%s" % (name, value) for name, value in conf.items() if value is not None]
        lines.append("NodeName=%s[1-%d] NodeHostname=%s NodeAddr=127.0.0.1 Port=%d-%d CPUs=4 %sState=UNKNOWN"
                     % (prefix, nodes, host, port + 1, port + nodes, "Gres=gpu:%d " % gpus if gpus else ""))
        lines.append("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO")
        lines += more
        with open(p + "/slurm.conf", "w") as f:
            f.write("\n".join(lines) + "\n")
        with open(p + "/key", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(os.urandom(1024))
        for name in ["state"] + ["spool-" + name for name in self.names]:
            os.makedirs(p + "/" + name, exist_ok=True)

    def write_slurmdbd(self, port):
        lines = dict(AuthType="auth/munge", AuthInfo="socket=%s/munge.sock" % self.folder, DbdHost="localhost", DbdPort=port,
                     SlurmUser="root", StorageType="accounting_storage/mysql", StorageUser="root", StorageLoc="slurm",
                     LogFile=self.folder + "/slurmdbd.log", PidFile=self.folder + "/slurmdbd.pid")
        with open(self.folder + "/slurmdbd.conf", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write("".join("%s=%s\n" % pair for pair in lines.items()))

    def start_database(self):
        """MariaDB, and slurmdbd over it. True: both answer."""
        data, sock = self.folder + "/db", self.folder + "/db.sock"
        code, text = self.run(["mariadb-install-db", "--no-defaults", "--user=root", "--datadir=" + data, "--skip-test-db",
                               "--auth-root-authentication-method=socket", "--auth-root-socket-user=root"])
        if code != 0:
            print(text)
            return False
        self.env["MYSQL_UNIX_PORT"] = sock  # libmariadb's; of slurmdbd alone
        self.daemon(["mariadbd", "--no-defaults", "--user=root", "--datadir=" + data, "--socket=" + sock, "--skip-networking",
                     "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--log-error=%s/mariadb.log" % self.folder])
        return until(lambda: os.path.exists(sock)) is not None and self.start_accounting()

    def start_accounting(self):
        self.accounting = self.daemon(["slurmdbd", "-D"])
        return until(lambda: self.run(["sacctmgr", "-n", "list", "cluster"])[0] == 0) is not None

    def start(self):
        """True: all nodes are idle."""
        p = self.folder
        atexit.register(self.stop)
        self.daemon(["munged", "-F", "--force", "--key-file=%s/key" % p, "--socket=%s/munge.sock" % p,
                     "--pid-file=%s/munged.pid" % p, "--seed-file=%s/seed" % p, "--log-file=%s/munged.log" % p])
        if not until(lambda: os.path.exists(p + "/munge.sock")):
            return False
        if self.database and not self.start_database():
            return False
        self.start_controller()
        if not until(lambda: self.run(["scontrol", "ping"])[0] == 0):  # slurmd asks seldom
            return False
        for name in self.names:
            self.start_node(name)
        return self.wait_idle()

    def start_controller(self, *options):
        self.controller = self.daemon(["slurmctld", "-D", *(options or ("-c",)), "-f", self.env["SLURM_CONF"]])

    def start_node(self, name):
        self.slurmd[name] = self.daemon(["slurmd", "-D", "-N", name, "-f", self.env["SLURM_CONF"]])

    def daemon(self, words):
        with open("%s/out-%d" % (self.folder, len(self.daemons)), "wb") as f:
            self.daemons.append(subprocess.Popen(words, stdout=f, stderr=f, stdin=subprocess.DEVNULL,
                                                 env={**os.environ, **self.env}))
        return self.daemons[-1]

    def run(self, words, **env):
        """A command's exit status and all it printed."""
        return command(words, {**self.env, **env})

    def submit(self, *words):
        """The id of a job: sbatch's arguments."""
        code, text = self.run(["sbatch", "--parsable", *words])
        return int(text.split(";")[0]) if code == 0 and text.strip().isdigit() else None

    def state(self, job):
        """Slurm's word for the state of a job; "": it is not known."""
        return self.run(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T"])[1].strip().split("\n")[0]

    def hosts(self, job):
        """Names of the nodes of a job, in the order of its places."""
        names = self.run(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%N"])[1].strip()
        return self.run(["scontrol", "show", "hostnames", names])[1].split()

    def wait_idle(self, seconds=120):
        want = "idle %d" % self.count
        return until(lambda: self.run(["sinfo", "-h", "-o", "%t %D"])[1].strip() == want, seconds) is not None

    def drained(self):
        """What `sinfo -R` says: nodes that were taken out of use, "": none."""
        return self.run(["sinfo", "-h", "-R"])[1].strip()

    def report(self):
        """What the daemons say, for a test that failed."""
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".log"))
        return self.drained() + "".join(self.run(["tail", "-n", "20", self.folder + "/" + name])[1] for name in names)

    def stop(self):
        """Ends the jobs and the daemons. May be called again."""
        if self.daemons and self.controller and self.controller.poll() is None:
            for job in self.run(["squeue", "-h", "-o", "%A"])[1].split():
                self.run(["scancel", job])
            until(lambda: not self.run(["squeue", "-h", "-o", "%A"])[1].strip(), 30)
        for p in reversed(self.daemons):
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)
        for p in reversed(self.daemons):
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.daemons = []
        for name in self.names:
            for folder, _, _ in os.walk("/sys/fs/cgroup/freezer/slurm_" + name, topdown=False):
                os.rmdir(folder)
