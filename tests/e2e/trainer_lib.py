"""What the trainer's scripts share: a folder with the example, runs of flowtrain, counted checks.

A script calls begin(), makes its checks, and ends with finish(), which prints "N passed, N failed".
Nothing here sleeps to synchronise: until() polls for a state with a bound. A script that checked
nothing has failed, and so has one that is not over after TEST_DEADLINE seconds (150; 0: never).
"""
import atexit
import contextlib
import fcntl
import json
import os
import re
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

counts = {"passed": 0, "failed": 0}
folder = None     # this test's own
flowtrain = None
started = []      # launchers and ranks that may still live
claims = []       # ports of this test: files, locked


def late(sig, frame):
    print("FAILED: not over in time")
    sys.exit(1)


def begin_plain():
    """A folder for this test, and the clock of its checks."""
    global folder
    signal.signal(signal.SIGALRM, late)
    step()
    folder = tempfile.mkdtemp(prefix="ft-e2e.")
    atexit.register(clean)
    os.environ.update(TZ="UTC", FT_E2E=folder)
    os.chdir(folder)


def begin():
    """argv[1]: the build folder. Makes the example in ./ex."""
    global flowtrain
    flowtrain = os.path.abspath(os.path.join(sys.argv[1], "trainer/cli/flowtrain"))
    os.environ.update(OMP_NUM_THREADS="1")
    begin_plain()
    subprocess.run([flowtrain, "init", "--example", "ex"], check=True, stdout=subprocess.DEVNULL)


def simulate():
    """From now on flowtrain stands beside the CUDA module of the simulated GPU (tests/cudasim)."""
    global flowtrain
    sim = os.path.abspath(os.path.join(os.path.dirname(flowtrain), "../../tests/cudasim"))
    os.mkdir("bin")
    shutil.copy(flowtrain, "bin/flowtrain")
    os.symlink(os.path.join(sim, "flowtrain_cuda13.so"), "bin/flowtrain_cuda13.so")
    flowtrain = os.path.abspath("bin/flowtrain")
    os.environ["LD_LIBRARY_PATH"] = sim


def alive():
    """Processes that carry this test's folder in their environment, but this one."""
    mark = b"FT_E2E=" + folder.encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                if mark in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def kill(pids):
    """Ends them at once; who ended meanwhile, as ranks do whose launcher is gone, is passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def clean():
    kill(alive())
    for run in started:
        run.wait()
    os.chdir("/")
    if not (counts["failed"] and os.environ.get("KEEP")):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print("kept:", folder)


def step():
    """The test comes on: it is not over until nothing is checked for TEST_DEADLINE seconds."""
    signal.alarm(int(os.environ.get("TEST_DEADLINE", "150")))


def check(what, good, more=""):
    step()
    counts["passed" if good else "failed"] += 1
    if not good:
        print("FAILED: %s%s" % (what, ": %s" % (more,) if more != "" else ""), flush=True)
    return good


def same(what, got, want):
    return check(what, got == want, "got %r, want %r" % (got, want))


def has(what, text, part):
    return check(what, part in text, "no %r in:\n%s" % (part, text[-3000:]))


def until(what, state, seconds=300, more=lambda: ""):
    """Polls for a state; how long it takes is no matter of the test. more(): what else is said when it never came."""
    end = time.monotonic() + seconds
    while not (value := state()):
        step()  # it has an end of its own
        if time.monotonic() > end:
            check(what, False, "never came%s" % more())
            return None
        time.sleep(0.02)
    return value


def finish():
    checked = counts["passed"]
    left = until("nothing is left running", lambda: not alive() or None, 10)
    if left:
        counts["passed"] += 1
    print("%(passed)d passed, %(failed)d failed" % counts)
    sys.exit(1 if counts["failed"] or not checked else 0)


def free_port():
    """A port of which the 31 above are mostly free too; below the range of outgoing connections. It is this test's until it
    ends: tests run side by side, and a port that is free now may be another's a moment later."""
    draw = random.Random(os.getpid() * 1000003 + len(started))
    for _ in range(200):
        port = draw.randrange(20000, 32000, 32)
        claim = open("%s/flowtrain-test-%d-port-%d" % (tempfile.gettempdir(), os.getuid(), port), "w")
        with socket.socket(socket.AF_INET6) as s:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                s.bind(("::", port))
                claims.append(claim)
                return port
            except OSError:
                claim.close()
    raise SystemExit("no free port")


TARGETS = "q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj"
ZERO3 = json.dumps({"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto",
                    "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}})


def train_args(out, accumulation=6, steps=6, **more):
    """The flags of a small run; a value None takes a flag out, True is a switch."""
    flags = dict(stage="sft", do_train=True, model_name_or_path="ex/model", dataset="arithmetic",
                 dataset_dir="ex/data", template="default", finetuning_type="lora",
                 lora_target=TARGETS, lora_rank=4, lora_alpha=8, lora_dropout=0.1, output_dir=out,
                 per_device_train_batch_size=1, gradient_accumulation_steps=accumulation,
                 learning_rate="1e-3", max_steps=steps, logging_steps=1, save_steps=2, seed=7,
                 cutoff_len=64, ddp_timeout=60, deepspeed=ZERO3, tokenized_path="tokens")
    flags.update(more)
    words = ["train"]
    for name, value in flags.items():
        if value is not None:
            words += ["--" + name] if value is True else ["--" + name, str(value)]
    return words


class Run:
    """A launcher (or one process) in the background; its output goes to a file."""

    def __init__(self, words, **env):
        self.log = os.path.join(folder, "log-%d" % len(started))
        with open(self.log, "wb") as f:
            self.process = subprocess.Popen([flowtrain] + words, stdout=f, stderr=f,
                                            stdin=subprocess.DEVNULL, env={**os.environ, **env})
        self.pid = self.process.pid
        started.append(self)

    def text(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def wait(self, seconds=120):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            check("the run ends", False, self.text()[-3000:])
            self.process.kill()
            return self.process.wait()

    def ended(self):
        return self.process.poll() is not None

    def ranks(self):
        """Pids of the launcher's ranks by local rank, as far as they have begun."""
        found = {}
        for pid in alive():
            try:
                with open("/proc/%d/stat" % pid) as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
                with open("/proc/%d/environ" % pid, "rb") as f:
                    env = dict(v.split(b"=", 1) for v in f.read().split(b"\0") if b"=" in v)
            except OSError:
                continue
            if parent == self.pid and b"LOCAL_RANK" in env:
                found[int(env[b"LOCAL_RANK"])] = pid
        return found


def launch(out, world, port=None, nodes=1, node=0, launcher=(), env={}, **more):
    """Starts one launcher: `world` ranks here, of nodes * world."""
    words = ["launch", "--nproc_per_node", str(world), "--nnodes", str(nodes), "--node_rank",
             str(node), "--master_addr", "127.0.0.1", "--master_port",
             str(port or free_port())] + list(launcher) + ["--"] + train_args(out, **more)
    return Run(words, **env)


def train(what, out, world, **more):
    """Runs to the end; must succeed."""
    run = launch(out, world, **more)
    code = run.wait()
    if code != 0:
        check(what, False, "exit status %d\n%s" % (code, run.text()[-3000:]))
    return run


def log_lines(out):
    try:
        with open(os.path.join(out, "trainer_log.jsonl")) as f:
            return [json.loads(line) for line in f.read().splitlines()]
    except (OSError, ValueError):
        return []


def losses(out):
    """Loss and gradient norm of each step, the last word on it, as their exact values."""
    return {e["current_steps"]: (e["loss"].hex(), e["grad_norm"].hex())
            for e in log_lines(out) if "loss" in e}


def steps_done(out):
    return max([e["current_steps"] for e in log_lines(out)] or [0])


def compared(text):
    """{what: (planned, counted)} of the lines that end a run."""
    rows = re.findall(r">>   (weights|embedding|tokens|gradients|adapters|matrices|routes|memory|time) +([a-z][a-z ]+[a-z]) +(\d+) +(\d+) +[\d.inf]+$", text, re.M)
    return {"%s, %s" % (kind, what): (int(planned), int(counted)) for kind, what, planned, counted in rows}


def stored(path):
    """{name: (type, shape, bytes)} of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        base = f.tell()
        found = {}
        for name, v in header.items():
            if name != "__metadata__":
                f.seek(base + v["data_offsets"][0])
                found[name] = (v["dtype"], v["shape"], f.read(v["data_offsets"][1] - v["data_offsets"][0]))
    return found


def tensors(path, also=()):
    """{name: list of numbers} of a safetensors file of f32 tensors, and of the types in also (I32)."""
    found = {}
    for name, (dtype, _, raw) in stored(path).items():
        assert dtype == "F32" or dtype in also, (name, dtype)
        found[name] = struct.unpack("<%d%s" % (len(raw) // 4, "f" if dtype == "F32" else "i"), raw)
    return found


def killed_while_saving(begin_run, names, apart):
    """Kills everything at the Nth change of names() while begin_run() saves, N = 1, 1 + apart, …; each attempt goes on from
    the newest state that is whole, and must get further in the end."""
    n, attempts = 1, 0
    while attempts < 8:
        attempts += 1
        run = begin_run()
        seen, changes = names(), 0
        while not run.ended() and changes < n:
            now = names()
            changes += len(now ^ seen)
            seen = now
        if run.ended():
            break
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        until("ranks die", lambda: not alive() or None)
        n += apart
    print("killed %d times while saving" % (attempts - 1))
    check("killed at several points", attempts > 3)


def trace(what, path):
    """A Chrome trace: {row: spans (begin, end, name, depth)}, checked: its spans nest and their times
    never go back."""
    try:
        with open(path) as f:
            events = json.load(f)["traceEvents"]
    except (OSError, ValueError, KeyError) as e:
        check(what + ": a trace", False, e)
        return {}
    names, open_spans, rows, last = {}, {}, {}, {}
    bad = []
    for e in events:
        row = e["tid"]
        if e["ph"] == "M":
            if e["name"] == "thread_name":
                names[row] = e["args"]["name"]
            continue
        mine = open_spans.setdefault(row, [])
        if e["ts"] < last.get(row, 0):
            bad.append(e)
        last[row] = e["ts"]
        if e["ph"] == "B":
            mine.append((e["ts"], e["name"]))
        elif e["ph"] == "E" and mine:
            begin_at, name = mine.pop()
            rows.setdefault(names[row], []).append((begin_at, e["ts"], name, len(mine)))
        else:
            bad.append(e)
    bad += [spans for spans in open_spans.values() if spans]
    check(what + ": spans nest", not bad, bad[:3])
    return rows


def file_bytes(path):
    with open(path, "rb") as f:
        return f.read()
