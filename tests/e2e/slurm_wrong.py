#!/usr/bin/env python3
"""Wrong allocations: what Slurm says of them, and what flowrun does, which is more and earlier: Slurm takes every other one as
it is. On a real Slurm (slurm_lib.py). usage: slurm_wrong.py BUILD. Skipped where there is none, or without root."""
import os

import slurm_lib
import trainer_lib as t

WORDS_OF = "slurm-wlm 22.05"  # Slurm's words are compared on this version

# The keys of an allocation; the same to sbatch; its error, "": it takes the job; flowrun's, from the column on.
# By flowrun validate, which asks no Slurm:
VALIDATED = (
    ("", "", "",
     "8: an allocation needs the key 'time'; expected time: 12h, how long it may last"),
    ("time: 90", "-t 90", "",
     "15: time is '90'; expected a unit: 90m or 90s (to Slurm 90 would be minutes)"),
    ("time: '1:30'", "-t 1:30", "",
     "15: time is '1:30'; expected a duration above zero, at most 365d, like 12h or 1h30m"),
    ("time: 0s", "-t 0", "",
     "15: time is '0s'; expected a duration above zero, at most 365d, like 12h or 1h30m"),
    ("time: -5m", "-t -5", "",
     "15: time is '-5m'; expected a duration above zero, at most 365d, like 12h or 1h30m"),
    ("time: soon", "-t soon", "Invalid --time specification",
     "15: time is 'soon'; expected a duration above zero, at most 365d, like 12h or 1h30m"),
    ("time: 400d", "-t 400-0", "",
     "15: time is '400d'; expected a duration above zero, at most 365d, like 12h or 1h30m"),
    ("time: 1h, nodes: 0", "-N0", "Node count specification invalid",
     "26: nodes is '0'; expected a whole number from 1 to 4096"),
    ("time: 1h, nodes: -1", "-N -1", "",
     "26: nodes is '-1'; expected a whole number from 1 to 4096"),
    ("time: 1h, nodes: two", "-N two", '"two" is not a valid node count',
     "26: nodes is 'two'; expected a whole number from 1 to 4096"),
    ("time: 1h, nodes: 5000", "-N5000", "",
     "26: nodes is '5000'; expected a whole number from 1 to 4096"),
    ("time: 1h, nodes: 1-2", "-N 1-2", "",
     "26: nodes is '1-2'; expected a whole number from 1 to 4096"),
    ("time: 1h, gpus: -2", "--gres=gpu:-2", "Requested node configuration is not available",
     "25: gpus is '-2'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"),
    ("time: 1h, gpus: 'a100:x'", "--gres=gpu:a100:x", "Invalid generic resource (gres) specification",
     "25: gpus is 'a100:x'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"),
    ("time: 1h, gpus: ':2'", "--gres=gpu::2", "Invalid generic resource (gres) specification",
     "25: gpus is ':2'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"),
    ("time: 1h, gpus: all", "--gres=gpu:all", "Requested node configuration is not available",
     "25: gpus is 'all'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"),
    ("time: 1h, gpus: 'a 100:2'", ["--gres=gpu:a 100:2"], "Requested node configuration is not available",
     "25: gpus is 'a 100:2'; expected a whole number from 0 to 1024, or TYPE:N like a100:8"),
    ("time: 1h, cpus: 0", "-c 0", 'Invalid numeric value "0" for --cpus-per-task.',
     "25: cpus is '0'; expected a whole number from 1 to 65535"),
    ("time: 1h, cpus: many", "-c many", 'Invalid numeric value "many" for --cpus-per-task.',
     "25: cpus is 'many'; expected a whole number from 1 to 65535"),
    ("time: 1h, cpus: 100000000", "-c 100000000", "",
     "25: cpus is '100000000'; expected a whole number from 1 to 65535"),
    ("time: 1h, memory: 64", "--mem=64", "Requested node configuration is not available",
     "27: memory is '64'; expected a unit: 64GiB (to Slurm 64 would be MiB)"),
    ("time: 1h, memory: 64X", "--mem=64X", "Invalid --mem specification",
     "27: memory is '64X'; expected a size from 1MiB to 1024TiB, like 64GiB"),
    ("time: 1h, memory: 0", "--mem=0", "",
     "27: memory is '0'; expected a unit: 0GiB (to Slurm 0 would be MiB)"),
    ("time: 1h, memory: -1GiB", "--mem=-1G", "Invalid --mem specification",
     "27: memory is '-1GiB'; expected a size from 1MiB to 1024TiB, like 64GiB"),
    ("time: 1h, partition: ''", ["-p", ""], "Invalid partition name specified",
     "30: partition is ''; expected one word that does not begin with '-'"),
    ("time: 1h, partition: -x", "-p -x", "Invalid partition name specified",
     "30: partition is '-x'; expected one word that does not begin with '-'"),
    ("time: 1h, account: 'my project'", ["-A", "my project"], "",
     "28: account is 'my project'; expected one word that does not begin with '-'"),
    ("time: 1h, qos: 'a b'", ["-q", "a b"], "",
     "24: qos is 'a b'; expected one word that does not begin with '-'"),
    ("time: 1h, constraint: 'a100 nvlink'", ["-C", "a100 nvlink"], "Invalid feature specification",
     "31: constraint is 'a100 nvlink'; expected one word that does not begin with '-'"),
    ("time: 1h, reservation: 'a b'", ["--reservation=a b"], "Requested reservation is invalid",
     "32: reservation is 'a b'; expected one word that does not begin with '-'"),
    ("time: 1h, exclusive: maybe", "--exclusive=maybe", "Invalid --exclusive specification",
     "30: exclusive is 'maybe'; expected true or false"),
    ("time: 1h, options: [--requeue]", "--requeue", "",
     "29: option '--requeue' is flowrun's own to set; expected chain: N, how often it is followed by another"),
    ("time: 1h, options: [--array=0-3]", "--array=0-3", "",
     "29: option '--array' is flowrun's own to set; expected copies: N, allocations of one node each"),
    ("time: 1h, options: ['--dependency=afterok:1']", "--dependency=afterok:1", "",
     "29: option '--dependency' is flowrun's own to set; expected needs: of a task"),
    ("time: 1h, options: [--output=/x]", "--output=/x", "",
     "29: option '--output' is flowrun's own to set; expected log: of a task"),
    ("time: 1h, options: [--export=ALL]", "--export=ALL", "",
     "29: option '--export' is flowrun's own to set; expected env:"),
    ("time: 1h, options: [--begin=now+1hour]", "--begin=now+1hour", "",
     "29: option '--begin' is flowrun's own to set; expected schedule: of the pipeline"),
    ("time: 1h, options: [--hold]", "--hold", "",
     "29: option '--hold' is flowrun's own to set: leave it out"),
    ("time: 1h, options: [--comment=x]", "--comment=x", "",
     "29: option '--comment' is flowrun's own to set: leave it out"),
    ("time: 1h, options: ['--signal=USR1@60']", "--signal=USR1@60", "",
     "29: option '--signal' is flowrun's own to set; expected grace: of a task"),
    ("time: 1h, options: [--job-name=x]", "--job-name=x", "",
     "29: option '--job-name' is flowrun's own to set: leave it out"),
    ("time: 1h, options: ['--nice 5']", ["--nice 5"], "unrecognized option '--nice 5'",
     "29: option '--nice 5' cannot stand here; did you mean '--nice'?"),
    ("time: 1h, options: [--foo=1]", "--foo=1", "unrecognized option '--foo=1'",
     "29: option '--foo' cannot stand here; expected --licenses, -"),
    ("time: 1h, options: [-n4]", "-n4", "",
     "29: option '-n' is flowrun's own to set; expected nodes: N"),
    ("time: 1h, options: [--chdir=/nowhere]", "--chdir=/nowhere", "",
     "29: option '--chdir' is flowrun's own to set; expected work:, or cwd: of a task"),
    ("time: 1h, options: [--clusters=b]", "--clusters=b", "'b' can't be reached now, or it is an invalid entry for --cluster.",
     "29: option '--clusters' is flowrun's own to set: leave it out"),
    ("time: 1h, options: ['--nice=']", "--nice=", "",
     "29: an option is '--nice='; expected --nice=VALUE, the value without blanks"),
    ("time: 1h, copies: 0", "--array=0--1", "Invalid job array specification",
     "27: copies is '0'; expected a whole number from 1 to 100000"),
    ("time: 1h, copies: 2, nodes: 2", "-N2 --array=0-1", "",
     "27: allocation 'a' has both nodes and copies; expected nodes: (one allocation) or copies: (many of one node)"),
    ("time: 1h, copies: 200000", "--array=0-199999", "Invalid job array specification",
     "27: copies is '200000'; expected a whole number from 1 to 100000"),
    ("time: 1h, walltime: 3", "--walltime=3", "unrecognized option '--walltime=3'",
     "19: an allocation has no key 'walltime'; expected time: 12h"),
    ("time: 1h, container: {pyxis: a, apptainer: b}", "--container-image=a", "unrecognized option '--container-image=a'",
     "30: a container has both pyxis: and apptainer:; expected one of them: pyxis: IMAGE or apptainer: IMAGE"),
)

# By flowrun nodes --check, which asks for partitions and their limits:
CHECKED = (
    ("time: 1h, partition: 'gpu;x'", "-p gpu;x", "Invalid partition name specified",
     "30: partition of allocation 'a': Slurm has no partition 'gpu;x'; expected one of all, short, down, one"),
    ("time: 1h, partition: gpux", "-p gpux", "Invalid partition name specified",
     "30: partition of allocation 'a': Slurm has no partition 'gpux'; expected one of all, short, down, one"),
    ("time: 1h, partition: down", "-p down", "",
     "30: partition 'down' of allocation 'a' is down; expected one that is up"),
    ("time: 1h, partition: short", "-p short -t 60", "",
     "15: time of allocation 'a' is 1h00m; expected at most 10m00s, the limit of partition 'short'"),
    ("time: 1h, partition: one, nodes: 2", "-p one -N2", "",
     "42: nodes of allocation 'a' is 2; expected at most 1, the limit of partition 'one'"),
    ("time: 1h, nodes: 3", "-N3", "",
     "26: allocation 'a' asks for 3 nodes; partition 'all' has 2"),
    ("time: 1h, gpus: 3", "--gres=gpu:3", "Requested node configuration is not available",
     "25: allocation 'a' asks for 1 node with 3 GPUs; partition 'all' has 0"),
    ("time: 1h, gpus: 'h100:1'", "--gres=gpu:h100:1", "Requested node configuration is not available",
     "25: allocation 'a' asks for 1 node with 1 h100 GPU; partition 'all' has 0"),
)

# By the run: Slurm alone knows. flowrun passes on its words.
RUN = (
    ("time: 1h, memory: 4TiB", "--mem=4T", "Memory specification can not be satisfied"),
    ("time: 1h, reservation: none", "--reservation=none", "Requested reservation is invalid"),
    ("time: 1h, constraint: a100", "-C a100", "Invalid feature specification"),
    ("time: 1h, options: [--licenses=matlab:1]", "--licenses=matlab:1", "Invalid license specification"),
    ("time: 1h, options: [--nodelist=nid9]", "--nodelist=nid9", "Invalid node name specified"),
    ("time: 1h, options: [--distribution=round]", "--distribution=round", "Invalid --distribution specification"),
    ("time: 1h, options: [--mail-type=x]", "--mail-type=x", "Invalid --mail-type specification"),
    ("time: 1h, options: [--switches=x]", "--switches=x", 'Invalid numeric value "x" for --switches.'),
)


def of_slurm(words):
    """Slurm's answer to a job with these options, without what is said of every error. The job goes."""
    code, text = s.run(["sbatch", "-o", "/dev/null", *(words.split() if isinstance(words, str) else words), "--wrap", "true"])
    s.run(["scancel", "-u", "root"])
    if code == 0:
        return ""
    for noise in ("sbatch: ", "error: ", "Batch job submission failed: "):
        text = text.replace(noise, "")
    return text


def compare(row, ours):
    keys, words, theirs, want = row
    said = of_slurm(words)
    if same_words:
        t.check("%s: Slurm's words" % keys, theirs in said if theirs else said == "", said)
    t.has("%s: flowrun's" % keys, ours(keys), want)


def write(keys):
    with open("nodes.yaml", "w") as f:
        f.write("slurm:\n  work: %s/work\n  allocations:\n    a: {%s}\n" % (t.folder, keys))
    with open("p.yaml", "w") as f:
        f.write("name: p\nnodes: nodes.yaml\ntasks: {t: {run: 'true'}}\n")


def ask(status, *words):
    """What flowrun prints; its exit status is that."""
    code, text = s.run([flowrun, *words])
    t.same("%s: exit status" % words[0], code, status)
    return text.replace(t.folder + "/nodes.yaml:4:", "")


def validated(keys):
    write(keys)
    return ask(2, "validate", "p.yaml")


def checked(keys):
    write(keys)
    ask(0, "validate", "p.yaml")
    return ask(6, "nodes", "nodes.yaml", "--check")


def run(keys):
    write(keys)
    return ask(6, "p.yaml")


flowrun = slurm_lib.program("engine/cli/flowrun")
slurm_lib.begin(slurm_lib.why_not())
os.mkdir("cluster")
s = slurm_lib.Slurm(t.folder + "/cluster", nodes=2, gpus=2, more=[
    "PartitionName=short Nodes=ALL MaxTime=10 State=UP", "PartitionName=down Nodes=ALL State=DOWN",
    "PartitionName=one Nodes=ALL MaxNodes=1 State=UP"])
if t.check("Slurm is up", s.start(), s.report()):
    same_words = s.run(["sinfo", "--version"])[1].startswith(WORDS_OF)
    for row in VALIDATED:
        compare(row, validated)
    for row in CHECKED:
        compare(row, checked)
    for keys, words, theirs in RUN:
        compare((keys, words, theirs, "5: Slurm refuses allocation 'a': " + (theirs if same_words else "")), run)
s.stop()
t.finish()
