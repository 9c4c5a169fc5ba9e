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
import subprocess
import sys

import slurm_lib
import trainer_lib as t

PROBE = ["probe", "--device", "cpu", "--bytes", "64KiB", "--iterations", "1"]


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


def script(s, what, flags, text, want=0):
    """What a job's script printed."""
    with open("job.sh", "w") as f:
        f.write("#!/bin/sh\nexport MASTER_ADDR=127.0.0.1\n" + text + "\n")
    code, said = run(["sbatch", "--wait", "-o", t.folder + "/job.out"] + flags + ["job.sh"])
    with open("job.out") as f:
        out = f.read()
    t.check("%s: exit status" % what, code == want, "%d\n%s%s" % (code, said, out[-2000:]))
    return out


def slurm():
    if slurm_lib.why_not():
        skip(slurm_lib.why_not())
    os.mkdir("slurm")
    s = slurm_lib.Slurm(os.path.join(t.folder, "slurm"), nodes=2)
    os.environ.update(s.env)
    try:
        if t.check("two nodes are idle", s.start(), s.report()):
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
        out = script(s, what, flags, text)
        t.same(what + ": worlds", worlds(out), ranks)
        if what == "a script of four tasks":
            t.has(what + ": a word about it", out, "Slurm gave this job 4 tasks, and this is its script or shell")
    for what, flags in (("salloc -n 2", ["-n2"]), ("salloc", [])):
        code, text = run(["salloc", "-Q"] + flags + [t.flowtrain] + PROBE)
        t.check(what, code == 0, text[-2000:])
        t.same(what + ": worlds", worlds(text), [1])
    mpirun = shutil.which("mpiexec.mpich")
    if mpirun is not None:
        out = script(s, "MPICH in a script", ["-N1", "-n4"], "export MASTER_PORT=%d\n%s -n 4 %s" % (t.free_port(), mpirun, probe))
        t.same("MPICH in a script: worlds", worlds(out), [4])


def main():
    t.begin()
    {"locks": locks, "mpich": mpich, "slurm": slurm}[sys.argv[2]]()
    t.finish()


main()
