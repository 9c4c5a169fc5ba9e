#!/usr/bin/env python3
"""A run that was stopped, killed or damaged goes on as if nothing had happened: bit for bit.

usage: trainer_resume.py BUILD stop|save|state
"""
import functools
import json
import os
import shutil
import signal
import subprocess
import sys

import trainer_lib as t

STEPS = 8
ADAPTER = "/adapter_model.safetensors"


def whole(what, out, steps=STEPS):
    """The finished run equals the uninterrupted one, and nothing half-written is left."""
    want = {k: v for k, v in t.losses("ref").items() if k <= steps}
    t.same(what + ": losses", t.losses(out), want)
    t.same(what + ": adapter", t.file_bytes(out + ADAPTER), t.file_bytes("ref" + ADAPTER))
    left = [os.path.join(d, f) for d, dirs, files in os.walk(out) for f in dirs + files if "tmp" in f]
    t.same(what + ": leftovers", left, [])


def go_on(what, out, **more):
    run = t.launch(out, 2, steps=STEPS, resume_from_checkpoint="last", overwrite_output_dir=True, **more)
    if run.wait() != 0:
        t.check(what, False, run.text()[-3000:])
    return run.text()


def kill_children(launcher):
    """After kill -9 of the launcher its ranks must die too."""
    ranks = t.until("ranks have begun", lambda: len(r := launcher.ranks()) == 2 and r)
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    t.until("ranks die with their launcher", lambda: not set(ranks.values()) & set(t.alive()) or None)


def held(out):
    """A run of two ranks that goes on from step 6 and stays at step 7, until release(): its next line of
    the log goes to a FIFO that nobody reads."""
    shutil.copytree("ref", out)
    shutil.rmtree(out + "/resume/step-%d" % STEPS)
    log = out + "/trainer_log.jsonl"
    with open(log) as f, open(out + "/log", "w") as kept:
        kept.writelines(line for line in f if json.loads(line)["current_steps"] <= 6)
    os.unlink(log)
    os.mkfifo(log)
    run = t.launch(out, 2, steps=STEPS, resume_from_checkpoint="last", overwrite_output_dir=True)
    t.until("%s shows step 7, and writes it next" % out, lambda: "{'loss': " in run.text() or run.ended())
    t.check("%s is under way" % out, not run.ended() and len(run.ranks()) == 2, run.text()[-2000:])
    return run


def release(out, run):
    """The log is a file again, and in the end has what went to the FIFO. The run's exit status."""
    os.rename(out + "/trainer_log.jsonl", out + "/fifo")
    os.rename(out + "/log", out + "/trainer_log.jsonl")
    with open(os.open(out + "/fifo", os.O_RDWR | os.O_NONBLOCK), "rb") as fifo:
        code = run.wait()
        with open(out + "/trainer_log.jsonl", "ab") as log:
            log.write(fifo.read() or b"")
    return code


def pending(pid, sig):
    with open("/proc/%d/status" % pid) as f:
        return any(int(line.split()[1], 16) >> (sig - 1) & 1 for line in f if line[:6] in ("SigPnd", "ShdPnd"))


def stops():
    run = held("term")
    os.kill(run.pid, signal.SIGTERM)
    # Rank 0 is held, so the signal waits for it; another rank may have taken its own already.
    t.until("rank 0 has the signal", lambda: run.ended() or pending(run.ranks()[0], signal.SIGTERM))
    t.same("SIGTERM: exit status", release("term", run), 3)
    t.has("SIGTERM: message", run.text(), "as asked; the resume state is written")
    t.has("SIGTERM: goes on behind the step", go_on("SIGTERM", "term"), "Continuing training from global step 7")
    whole("SIGTERM", "term")

    run = held("rank")
    os.kill(t.until("rank 1", lambda: run.ranks().get(1)), signal.SIGKILL)
    t.same("kill -9 of a rank: exit status", release("rank", run), 4)
    t.has("kill -9 of a rank: named by the launcher", run.text(), "rank 1 (local rank 1 on ")
    t.has("kill -9 of a rank: its signal", run.text(), "was killed by signal 9")
    t.has("kill -9 of a rank: rank 0 says who", run.text(), "flowtrain train: ")
    go_on("kill -9 of a rank", "rank")
    whole("kill -9 of a rank", "rank")

    run = held("launcher")
    kill_children(run)
    release("launcher", run)
    go_on("kill -9 of the launcher", "launcher")
    whole("kill -9 of the launcher", "launcher")


def names(out):
    """Every file below the folder, as a save makes them come and go."""
    found = set()
    for d, dirs, files in os.walk(out):
        found.update(os.path.join(d, f) for f in dirs + files if "/cache" not in d)
    return found


def killed_while_saving():
    out = "saves"
    t.killed_while_saving(lambda: t.launch(out, 2, steps=STEPS, save_steps=1, resume_from_checkpoint="last"), lambda: names(out), 4)
    go_on("killed while saving", out, save_steps=1)
    whole("killed while saving", out)
    t.same("checkpoints", [k for k in range(1, STEPS + 1)
                           if not os.path.exists("%s/checkpoint-%d%s" % (out, k, ADAPTER))], [])


def copy(to, origin="half"):
    shutil.copytree(origin, to)
    return to


def states():
    t.train("the first half", "half", 2, steps=4)
    t.same("states kept", sorted(os.listdir("half/resume"))[:2], ["step-2", "step-4"])

    with open(copy("broken") + "/resume/step-4/state.safetensors", "r+b") as f:
        f.seek(-5, os.SEEK_END)
        f.write(b"x")
    copy("broken-before", "broken")
    text = go_on("damaged state", "broken")
    t.has("damaged state: warned", text, "state of step 4 is not usable")
    t.has("damaged state: why", text, "does not match its checksum")
    t.has("damaged state: the older one", text, "from global step 2")
    whole("damaged state", "broken")

    with open(copy("nojson") + "/resume/step-4/state.json", "w") as f:
        f.write('{"version": 1, "st')
    t.has("cut state.json: the older one", go_on("cut state.json", "nojson"), "from global step 2")
    whole("cut state.json", "nojson")

    # both are damaged, in different ways: nothing begins anew unasked, on one rank or two
    copy("both", "broken-before")
    with open("both/resume/step-2/state.safetensors", "r+b") as f:
        f.truncate(700)
    copy("damaged", "both")
    for what, ranks, more in (("last", 2, dict(resume_from_checkpoint="last")), ("true", 1, dict(resume_from_checkpoint="true")),
                              ("without a word", 1, {})):
        run = t.launch("both", ranks, steps=STEPS, accumulation=12 // ranks, **more)
        t.same("both damaged, %s: refused" % what, run.wait(), 2)
        for part in ("no resume state in both/resume can be used: both/resume/step-4/state.safetensors does not match its "
                     "checksum; both/resume/step-2/state.safetensors", "begin anew by --overwrite_output_dir"):
            t.has("both damaged, %s: the message" % what, run.text(), part)
    t.same("both damaged: nothing was touched", sorted(os.listdir("both/resume")), ["step-2", "step-4"])
    t.check("both damaged: no log of another run", t.steps_done("both") == 4, t.steps_done("both"))
    run = t.launch("both", 2, steps=STEPS, overwrite_output_dir=True)
    t.same("both damaged: begun anew when asked", run.wait(), 0)
    whole("both damaged", "both")
    os.makedirs("empty/resume")
    run = t.launch("empty", 2, steps=STEPS, resume_from_checkpoint="last")
    t.same("an empty folder begins anew", run.wait(), 0)
    whole("an empty folder", "empty")

    # one rank alone takes up the state of two: 12 samples a step as before
    run = t.launch(copy("alone"), 1, steps=STEPS, accumulation=12, resume_from_checkpoint="last")
    t.same("another number of ranks", run.wait(), 0)
    for part in ("will skip to saved global_step", "from epoch 0", "from global step 4",
                 "Will skip the first 0 epochs then the first 48 batches in the first epoch."):
        t.has("another number of ranks: goes on", run.text(), part)
    for step, want in t.losses("ref").items():
        got = float.fromhex(t.losses("alone")[step][0])
        t.check("another number of ranks: step %d" % step, abs(got / float.fromhex(want[0]) - 1) <= 1e-5)


def strays():
    """States behind the one that the run goes on from, and half-written ones, are removed at the next save. A
    state of another version is refused."""
    copy("strays")
    shutil.copytree("strays/resume/step-4", "strays/resume/step-99")
    os.mkdir("strays/resume/.tmp-step-3")
    t.train("strays", "strays", 2, steps=STEPS, resume_from_checkpoint="4", overwrite_output_dir=True)
    t.same("strays: states", sorted(os.listdir("strays/resume")), ["step-2", "step-4", "step-6", "step-8"])
    for version in (0, 2):
        out = "version-%d" % version
        copy(out)
        with open(out + "/resume/step-4/state.json") as f:
            state = json.load(f)
        with open(out + "/resume/step-4/state.json", "w") as f:
            json.dump(dict(state, version=version), f)
        run = t.launch(out, 2, steps=STEPS, resume_from_checkpoint="4", overwrite_output_dir=True)
        t.same(out + ": refused", run.wait(), 2)
        t.has(out + ": named", run.text(), "state.json has version %d, expected 1" % version)


def other_runs():
    shutil.copytree("ex/data", "data2")
    with open("data2/arithmetic.jsonl") as f:
        first, rest = f.read().split("\n", 1)
    with open("data2/arithmetic.jsonl", "w") as f:
        f.write(first.replace("What", "Which") .replace("How", "So how").replace("Add", "So add") + "\n" + rest)
    subprocess.run([t.flowtrain, "init", "--example", "ex2", "--seed", "8"], check=True, stdout=subprocess.DEVNULL)
    shutil.copy("ex/model/tokenizer.json", "ex2/model/tokenizer.json")
    rows = [
        ("another model", dict(model_name_or_path="ex2/model"), "the model differs"),
        ("another data set", dict(dataset_dir="data2"), "the data set differs"),
        ("another LoRA rank", dict(lora_rank=8), "--lora_rank is 4 there, 8 here"),
        ("another rate", dict(learning_rate="2e-3"), "--learning_rate is 0.001 there, 0.002 here"),
        ("another schedule", dict(lr_scheduler_type="cosine"), "--lr_scheduler_type is constant there, cosine here"),
        ("another batch", dict(accumulation=5), "samples of a step is 12 there, 10 here"),
        ("another warm-up", dict(warmup_steps=2), "--warmup_steps is 0 there, 2 here"),
        ("another seed", dict(seed=8), "--seed is 7 there, 8 here"),
        ("a step that is not there", dict(resume_from_checkpoint="3"), "no node holds a whole resume state of step 3"),
    ]
    for what, change, message in rows:
        run = t.launch("half", 2, **{**dict(steps=STEPS, resume_from_checkpoint="last"), **change})
        t.same(what + ": refused", run.wait(), 2)
        t.has(what + ": named", run.text(), message)
    t.same("states are untouched", sorted(os.listdir("half/resume")), ["step-2", "step-4"])


def nodes(outs, **more):
    """A node a folder of outs."""
    port = t.free_port()
    runs = [t.launch(out, 1, port=port, nodes=len(outs), node=k, steps=STEPS, **more) for k, out in enumerate(outs)]
    return runs, [run.wait() for run in runs]


def lost_node():
    """The head has lost its state (another disk): it comes from the other node."""
    for out in ("headless", "other"):
        copy(out)
    shutil.rmtree("headless/resume")
    runs, codes = nodes(["headless", "other"], resume_from_checkpoint="last")
    t.same("a node without its state", codes, [0, 0])
    t.has("a node without its state: goes on", runs[0].text(), "from global step 4")
    whole("a node without its state", "headless")
    t.check("its state is there again", os.path.exists("headless/resume/step-%d/state.json" % STEPS))
    copy("harmed", "damaged")
    runs, codes = nodes(["harmed", "bare"], resume_from_checkpoint="last")
    # one that leaves may be heard of before what both have agreed on
    t.check("all that is left is damaged: refused", sorted(codes) in ([2, 2], [2, 4]), codes)
    for run in runs:
        t.has("each names what is damaged", run.text(), "harmed/resume/step-4/state.safetensors does not match its checksum")


def shared_folder():
    """Nodes that share the output folder write one state of a step there, and the node apart its own."""
    outs = ["joint", "joint", "joint", "apart"]
    for what, more in (("nodes that share a folder", {}), ("they begin again", dict(overwrite_output_dir=True))):
        runs, codes = nodes(outs, save_steps=1, **more)
        t.same(what, codes, [0] * 4)
        for out in ("joint", "apart"):
            t.same("%s: states of %s" % (what, out), sorted(os.listdir(out + "/resume")), sorted("step-%d" % (k + 1) for k in range(STEPS)))
        t.same(what + ": leftovers", [name for name in sorted(names("joint") | names("apart")) if "tmp" in name], [])
        t.check(what + ": the same", t.file_bytes("joint/resume/step-8/state.safetensors") == t.file_bytes("apart/resume/step-8/state.safetensors"))
    for k in range(5, STEPS + 1):
        shutil.rmtree("joint/resume/step-%d" % k)
    runs, codes = nodes(["joint"] * 2, accumulation=12, resume_from_checkpoint="last", overwrite_output_dir=True)
    t.same("nodes that share a folder go on", codes, [0, 0])
    t.has("from the state", runs[0].text(), "from global step 4")


def own_run():
    """--resume_run: a run goes on where it has been, and what another one left is not its own."""
    def run(name, rate, **more):
        got = t.launch("owned", 2, steps=STEPS, learning_rate=rate, resume_run=name, overwrite_output_dir=True, **more)
        t.same("run %s" % name, got.wait(), 0)
        return got.text()

    t.check("a new folder: from the beginning", "Continuing training" not in run("a", 1e-3, save_steps=4))
    shutil.rmtree("owned/resume/step-8")
    t.has("the same run goes on", run("a", 1e-3), "from global step 4")
    t.check("another run begins, whatever lies there", "Continuing training" not in run("b", 5e-4))
    t.same("and nothing of the first is left", sorted(t.losses("owned")), list(range(1, STEPS + 1)))
    shutil.rmtree("owned/resume/step-8")
    t.check("the first run begins anew, too", "Continuing training" not in run("a", 1e-3))
    t.same("its states", sorted(os.listdir("owned/resume")), ["step-%d" % k for k in (2, 4, 6, 8)])


def full_disk():
    os.mkdir("small")
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=640k", "none", "small"],
                                           stderr=subprocess.DEVNULL).returncode != 0:
        print("full disk: left out, no right to mount")
        return
    try:
        run = t.launch("small/out", 2, steps=STEPS, save_steps=1)
        code = run.wait()
        t.same("full disk: exit status", code, 1)
        t.has("full disk: said", run.text(), "No space left on device")
        t.check("full disk: step and file named", "small/out" in run.text(), run.text())
        kept = os.listdir("small/out/resume")
        t.check("full disk: older states stay", any(k.startswith("step-") for k in kept), str(kept))
        t.same("full disk: nothing half-written", [k for k in kept if not k.startswith("step-")], [])
        subprocess.run(["mount", "-o", "remount,size=16m", "small"], check=True)
        go_on("full disk", "small/out", save_steps=1)
        whole("full disk", "small/out")
    finally:
        subprocess.run(["umount", "-l", "small"], check=True)


def main():
    t.begin()
    if sys.argv[2] == "state":  # four steps are half of eight: the rate must not depend on their number
        t.train_args = functools.partial(t.train_args, lr_scheduler_type="constant")
    t.train("uninterrupted", "ref", 2, steps=STEPS)
    t.same("all steps are logged", sorted(t.losses("ref")), list(range(1, STEPS + 1)))
    parts = {"stop": (stops,), "save": (killed_while_saving, full_disk),
             "state": (states, strays, other_runs, lost_node, shared_folder, own_run)}
    for part in parts[sys.argv[2]]:
        part()
    t.finish()


main()
