#!/usr/bin/env python3
"""Other launchers start ranks: what mpirun of MPICH and a real Slurm mean is what flowtrain does.

trainer_launchers.py BUILD locks|mpich|slurm. One training of several ranks, or one of one rank; never two
in one folder. Skipped where the launcher is not installed; Slurm also where we are not root: it runs
here with its own munge, one controller and two nodes on this machine.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import trainer_lib as t

PROBE = ["probe", "--device", "cpu", "--bytes", "64KiB", "--iterations", "1"]
SLURM = """ClusterName=e2e
SlurmctldHost=%(host)s(127.0.0.1)
SlurmctldPort=%(port)d
AuthType=auth/munge
AuthInfo=socket=%(p)s/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=%(p)s/state
SlurmdSpoolDir=%(p)s/spool-%%n
SlurmctldPidFile=%(p)s/slurmctld.pid
SlurmdPidFile=%(p)s/slurmd.%%n.pid
SlurmctldLogFile=%(p)s/slurmctld.log
SlurmdLogFile=%(p)s/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName=node[1-2] NodeHostname=%(host)s NodeAddr=127.0.0.1 Port=%(first)d-%(last)d CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def run(words, **env):
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       env={**os.environ, **env}, timeout=600, text=True, errors="replace")
    return p.returncode, p.stdout


def worlds(text):
    """How many ranks each probe found that spoke: one line is one world."""
    return sorted(json.loads(line)["ranks"] for line in text.splitlines() if line.startswith('{"'))


def started(text):
    return sorted(line.split(",")[1].strip() for line in text.splitlines() if line.startswith("Process rank"))


def one_training(what, words, out, ranks):
    """A training of so many ranks, and not so many trainings."""
    code, text = run(words + [t.flowtrain] + t.train_args(out, steps=2, tokenized_path=None))
    t.check(what + ": ends well", code == 0, text[-3000:])
    t.same(what + ": the world of each rank", started(text), ["world size: %d" % ranks] * ranks)
    t.same(what + ": steps", t.steps_done(out), 2)


def locks():
    """Two trainings on their own, one folder: the second is refused while the first runs."""
    first = t.Run(t.train_args("both", steps=4000, save_steps=4000))
    if not t.until("the first trains", lambda: t.steps_done("both") > 0):
        return
    for what, more in (("the same", {}), ("overwriting", {"overwrite_output_dir": True})):
        second = t.Run(t.train_args("both", steps=2, **more))
        t.check(what + ": it is refused", second.wait() not in (0, None), second.text())
        t.has(what + ": says why", second.text(), "another training writes --output_dir both (process %d on" % first.pid)
        t.has(what + ": says what to do", second.text(), "started by flowtrain launch, torchrun, srun or mpirun")
    first.process.send_signal(signal.SIGKILL)
    first.wait()
    third = t.Run(t.train_args("both", steps=2, overwrite_output_dir=True))
    t.check("a killed one holds nothing", third.wait() == 0, third.text()[-2000:])
    t.check("nor does one that is over", not os.path.exists("both/.training.lock"))
    unequal()
    alone = t.Run(["launch", "--nproc_per_node", "2", "--"] + PROBE, PMI_RANK="1", PMI_SIZE="2",
                  MPI_LOCALRANKID="1", MPI_LOCALNRANKS="2")
    t.same("a launcher a rank, told of no other", alone.wait(), 2)
    t.has("a launcher a rank: what to say", alone.text(), "say --nnodes 2 --node_rank 1 --master_addr HOST")


def unequal():
    """MPI's variables do not number machines: two ranks here and one where the host has another name."""
    if run(["unshare", "--uts", "hostname", "other"])[0] != 0:
        return
    port = str(t.free_port())
    runs = []
    for rank, local, locals_ in ((0, 0, 2), (1, 1, 2), (2, 0, 1)):
        env = dict(PMI_RANK=str(rank), PMI_SIZE="3", MPI_LOCALRANKID=str(local), MPI_LOCALNRANKS=str(locals_),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        wrap = ["unshare", "--uts", "sh", "-c", "hostname other; exec \"$@\"", "sh"] if rank == 2 else []
        runs.append(subprocess.Popen(wrap + [t.flowtrain] + PROBE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     stdin=subprocess.DEVNULL, env={**os.environ, **env}, text=True))
    texts = [p.communicate(timeout=600)[0] for p in runs]
    t.same("unequal machines: all end well", [p.returncode for p in runs], [0, 0, 0])
    rows = [json.loads(line)["by_rank"] for line in texts[0].splitlines() if line.startswith('{"')]
    t.same("unequal machines: the machine of each", [[r["node"] for r in row] for row in rows], [[0, 0, 1]])


def mpich():
    mpirun = shutil.which("mpiexec.mpich") or shutil.which("mpiexec.hydra")
    if mpirun is None:
        skip("no mpiexec of MPICH")
    os.environ["MASTER_PORT"] = str(t.free_port())
    one_training("mpiexec -n 2", [mpirun, "-n", "2"], "mpi", 2)
    code, text = run([mpirun, "-n", "3", t.flowtrain] + PROBE)
    t.check("three ranks probe", code == 0, text[-2000:])
    t.same("three ranks are one world", worlds(text), [3])


class Slurm:
    def __init__(self):
        host = socket.gethostname()
        self.folder = os.path.join(t.folder, "slurm")
        os.makedirs(self.folder + "/state")
        for node in ("node1", "node2"):
            os.mkdir("%s/spool-%s" % (self.folder, node))
        port = t.free_port()
        with open(self.folder + "/slurm.conf", "w") as f:
            f.write(SLURM % {"host": host, "port": port, "p": self.folder, "first": port + 1, "last": port + 2})
        with open(self.folder + "/key", "wb", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(os.urandom(1024))
        os.environ["SLURM_CONF"] = self.folder + "/slurm.conf"
        p = self.folder
        self.daemons = []
        self.start(["munged", "-F", "--force", "--key-file=%s/key" % p, "--socket=%s/munge.sock" % p,
                    "--pid-file=%s/munged.pid" % p, "--seed-file=%s/seed" % p, "--log-file=%s/munged.log" % p])
        t.until("munge listens", lambda: os.path.exists(p + "/munge.sock"))
        self.start(["slurmctld", "-D", "-c", "-f", p + "/slurm.conf"])
        t.until("the controller answers", lambda: run(["scontrol", "ping"])[0] == 0)  # slurmd asks seldom
        for node in ("node1", "node2"):
            self.start(["slurmd", "-D", "-N", node, "-f", p + "/slurm.conf"])
        self.ready = t.until("two nodes are idle", lambda: run(["sinfo", "-h", "-o", "%t %D"])[1].strip() == "idle 2")
        if not self.ready:
            print(run(["sinfo", "-R"])[1] + "".join(run(["tail", "-n", "20", p + "/" + name])[1]
                                                    for name in sorted(os.listdir(p)) if name.endswith(".log")))

    def start(self, words):
        with open("%s/out-%d" % (self.folder, len(self.daemons)), "wb") as f:
            self.daemons.append(subprocess.Popen(words, stdout=f, stderr=f, stdin=subprocess.DEVNULL))

    def stop(self):
        for p in reversed(self.daemons):
            p.send_signal(signal.SIGTERM)
        for p in reversed(self.daemons):
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()

    def script(self, what, flags, text, want=0):
        """What a job's script printed."""
        with open("job.sh", "w") as f:
            f.write("#!/bin/sh\nexport MASTER_ADDR=127.0.0.1\n" + text + "\n")
        code, said = run(["sbatch", "--wait", "-o", t.folder + "/job.out"] + flags + ["job.sh"])
        with open("job.out") as f:
            out = f.read()
        t.check("%s: exit status" % what, code == want, "%d\n%s%s" % (code, said, out[-2000:]))
        return out


def slurm():
    if os.getuid() != 0 or not all(map(shutil.which, ("munged", "slurmctld", "slurmd", "srun"))):
        skip("no Slurm, or not root")
    s = Slurm()
    try:
        if s.ready:
            slurm_jobs(s)
    finally:
        s.stop()


def slurm_jobs(s):
    probe = " ".join([t.flowtrain] + PROBE)
    one_training("srun -n 2", ["srun", "-N", "1", "-n", "2"], "srun", 2)
    for what, flags, text, ranks in (
            ("a script", [], probe, [1]),
            ("a script of four tasks", ["-N2", "--ntasks=4"], probe, [1]),
            ("srun in a script, nodes unlike each other", ["-N2", "-n3"], "srun " + probe, [3]),
            ("srun in a script, ranks dealt out", ["-N2", "-n4"], "srun -m cyclic " + probe, [4]),
            ("two steps at once", ["-n4"], "srun -n2 --exact %s & srun -n2 --exact %s; wait" % (probe, probe), [2, 2]),
            ("a launcher in a script", ["-n2"], "%s launch --nproc_per_node 2 --standalone %s"
             % (t.flowtrain, " ".join(PROBE)), [2])):
        out = s.script(what, flags, text)
        t.same(what + ": worlds", worlds(out), ranks)
        if what == "a script of four tasks":
            t.has(what + ": a word about it", out, "Slurm gave this job 4 tasks, and this is its script or shell")
    for what, flags in (("salloc -n 2", ["-n2"]), ("salloc", [])):
        code, text = run(["salloc", "-Q"] + flags + [t.flowtrain] + PROBE)
        t.check(what, code == 0, text[-2000:])
        t.same(what + ": worlds", worlds(text), [1])
    mpirun = shutil.which("mpiexec.mpich")
    if mpirun is not None:
        out = s.script("MPICH in a script", ["-N1", "-n4"], "export MASTER_PORT=%d\n%s -n 4 %s" % (t.free_port(), mpirun, probe))
        t.same("MPICH in a script: worlds", worlds(out), [4])


def main():
    t.begin()
    {"locks": locks, "mpich": mpich, "slurm": slurm}[sys.argv[2]]()
    t.finish()


main()
