#!/usr/bin/env python3
"""offload_optimizer to nvme: masters and moments of trained weights in a file of each rank give the bits of a run that has
them in memory; states go between memory and files; disks that are too small, change bytes or cannot be used; what a
killed job left.

usage: trainer_nvme.py BUILD bits|kinds|states|disks|cuda     (cuda: the numbers alone, on the simulated GPU)
"""
import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import trainer_lib as t
from trainer_coded import states

MICROS = 6
MODEL = "/model.safetensors"
FULL = dict(finetuning_type="full", lora_target=None, lora_rank=None, lora_alpha=None, lora_dropout=None, tokenized_path=None,
            lr_scheduler_type="constant", weight_decay=0.1, overwrite_output_dir=True)
TIED = dict(model_name_or_path="tied/model", dataset_dir="tied/data")
EMBEDDING = dict(finetuning_type="freeze", freeze_trainable_layers=0, freeze_extra_modules="embed_tokens")
NORMS = dict(finetuning_type="freeze", freeze_trainable_layers=0, freeze_extra_modules="norm")


def takes_direct(path):
    """Whether a file there is written past the page cache."""
    try:
        if subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, check=False).stdout.strip() in (b"tmpfs", b"ramfs"):
            return False
        name = os.path.join(path, "probe-%d" % os.getpid())
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        os.close(fd)
        os.unlink(name)
        return True
    except OSError:
        return False


def find_disk():
    """A folder on a file system with O_DIRECT, which is removed at the end; None: there is none."""
    for base in (os.path.abspath(sys.argv[1]), "/var/tmp", os.getcwd()):
        if takes_direct(base):
            path = os.path.join(base, "nvme-%d" % os.getpid())
            atexit.register(shutil.rmtree, path, True)
            return path
    return None


def flags(ranks, stage, place=None, tile=20000, **more):
    """place: None: the optimizer is on the device; "cpu", or the path of a disk."""
    zero = {"stage": stage}
    if place is not None:
        zero.update(sub_group_size=tile, offload_optimizer={"device": "cpu" if place == "cpu" else "nvme", "pin_memory": True,
                                                           "nvme_path": place})
    config = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
              "bf16": {"enabled": "auto"}, "zero_optimization": zero}
    config.update(more.get("config", {}))
    more.pop("config", None)
    return dict(FULL, **dict(dict(accumulation=MICROS // ranks, steps=3, save_steps=3, deepspeed=json.dumps(config)), **more))


def train(what, out, ranks, stage, place=None, **more):
    return t.train(what, out, ranks, **flags(ranks, stage, place, **more)).text()


def begin(out, ranks, stage, place, **more):
    return t.launch(out, ranks, **flags(ranks, stage, place, **more))


def files(out):
    """{name: bytes} of the model and of all parts of states."""
    found = {MODEL: t.file_bytes(out + MODEL)}
    for where, _, names in os.walk(out + "/resume"):
        found.update({os.path.join(where, n)[len(out):]: t.file_bytes(os.path.join(where, n)) for n in names if n.startswith("part-")})
    return found


def same(what, out, ref, parts=True):
    t.same(what + ": losses and norms", *[[(e["loss"], e["grad_norm"]) for e in t.log_lines(o) if "loss" in e] for o in (out, ref)])
    a, b = files(out), files(ref)
    if parts:
        t.check(what + ": masters and moments are there", len(b) > 1, sorted(b))
        t.same(what + ": files that differ", [n for n in set(a) | set(b) if a.get(n) != b.get(n)], [])
    else:
        t.check(what + ": the model", a[MODEL] == b[MODEL])


def bits(disk):
    """Every stage, some ranks, tiles that end anywhere, blocks smaller than a tile; part by part what is trained."""
    for ranks, stage, tile, aio in ((1, 0, 1000, {}), (1, 2, 50000, {"block_size": 65536}), (2, 1, 64000, {}), (2, 3, 20000, {"block_size": 16384, "thread_count": 7}),
                                    (3, 2, 30000, {"block_size": 50000})):
        what = "%d ranks, stage %d" % (ranks, stage)
        more = dict(bf16=ranks != 3)
        train(what, "ref", ranks, stage, **more)
        text = train(what, "off", ranks, stage, disk, tile=tile, config={"aio": aio} if aio else {}, **more)
        same(what, "off", "ref")
        t.has(what + ": in the table", text, "on the disk")
        t.has(what + ": what a step writes", text, " GB to nvme_path %s and reads as much" % disk)
        t.same(what + ": said once", text.count("reads as much"), 1)
        t.check(what + ": has effect", "no effect" not in text.split("stages 0")[0] and "ignored" not in text, text)
        t.same(what + ": nothing is left", os.listdir(disk), [])
    train("one tile", "whole", 3, 2, disk, tile=10**9)
    same("one tile", "whole", "off")
    for what, more in (("a tied head", TIED), ("the embedding", EMBEDDING), ("norms", NORMS)):
        train(what, "ref", 2, 3, **more)
        train(what, "off", 2, 3, disk, **more)
        same(what, "off", "ref")
    text = train("waits", "off", 1, 2, disk, config={"aio": {"thread_count": 1}, "zero_optimization": {
        "stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": disk, "pin_memory": True, "pipeline_read": False, "buffer_count": 1}}})
    for want in ("tiles are read and written beside the step, whatever pipeline_read and pipeline_write say",
                 "aio: thread_count 1: 4 threads read and write tiles", "buffer_count 1: 3 tiles are in memory at once"):
        t.has("settings", text, want)


CODED, MUON = dict(optim="adamw_8bit"), dict(use_muon=True)


def block(params):
    return dict(config={"optimizer": {"type": "Muon", "params": dict({"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}, **params)}})


def sizes(text):
    """Of the rows of the table: bytes, to a tenth of their unit."""
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20}
    return {name: float(n) * units[unit] for name, n, unit in re.findall(r">> +([a-z][a-zA-Z -]+?) +([\d.]+) (B|KiB|MiB)", text)}


def others(disk):
    """8-bit moments, and Muon by both doors: its matrices come whole from the disk, and have no second moments there."""
    for what, kind, model, (ranks, stage, tile), part in (
            ("8 bits", CODED, {}, (2, 3, 30000), (0.5, 0.75)), ("8 bits, tied", CODED, TIED, (3, 2, 5000), None),
            ("Muon", MUON, {}, (2, 3, 30000), (0.66, 0.9)), ("Muon, tied", MUON, TIED, (3, 3, 5000), None),
            ("Muon of the block", block({}), TIED, (1, 2, 20000), None)):
        name = "%s, %d ranks, stage %d" % (what, ranks, stage)
        more = dict(model, bf16=ranks != 3, **kind)
        train(name, "ref", ranks, stage, **more)
        text = train(name, "off", ranks, stage, disk, tile=tile, **more)
        same(name, "off", "ref")
        t.same(name + ": nothing is left", os.listdir(disk), [])
        wrote = re.search(r"every step writes ([\d.]+) GB", text)
        if part:  # of the masters and moments in f32, which are three times the sums of gradients
            rows = sizes(text)
            twice = 8 * sum(len(s["m"][1]) // 4 for s in states("off").values() if "v" not in s)  # masters and momenta of matrices
            t.check(name + ": what a step writes", wrote and abs(float(wrote.group(1)) * 1e9 / ranks - rows["on the disk"] - twice / ranks) < 310000, (wrote, rows, twice))
            t.check(name + ": bytes on the disk", part[0] < rows["on the disk"] / 3 / rows["gradients"] < part[1], rows)
    for n, (kind, layouts) in enumerate(((CODED, ((2, 3, disk), (3, 1, "cpu"), (1, 2, disk))), (MUON, ((3, 2, None), (2, 3, disk), (1, 2, disk))))):
        go_on("other-%d" % n, layouts, disk, **kind)


def go_on(out, layouts, disk, **kind):
    """Three runs of three steps end as one of nine with the last of these layouts."""
    ref = out + "-ref"
    train("uninterrupted", ref, *layouts[2][:2], bf16=True, steps=9, **kind)
    for k, layout in enumerate(layouts):
        more = dict(kind, resume_from_checkpoint="last") if k > 0 else kind
        text = train("layout %d of %s" % (k, out), out, *layout, bf16=True, steps=3 * k + 3, tile=15000 + 10000 * k, **more)
        if k > 0:
            t.has("%s: goes on" % out, text, "Continuing training from global step %d" % (3 * k))
    t.same(out + ": nothing is left", os.listdir(disk), [])
    a, b = files(out), files(ref)
    t.check(out + ": the model", a[MODEL] == b[MODEL])
    part = [name for name in b if "/step-9/" in name]
    t.check(out + ": masters and moments", part and all(a.get(name) == b[name] for name in part), part)


def resumed(disk):
    """The optimizer in memory, on a disk, on the device: the same bits, whatever the ranks and stages; a state of a run that
    did no step since it began."""
    for n, layouts in enumerate((((1, 2, "cpu"), (1, 2, disk), (1, 2, None)), ((2, 3, disk), (3, 1, "cpu"), (1, 0, disk)),
                                 ((3, 2, None), (2, 3, disk), (2, 2, disk)))):
        go_on("go-%d" % n, layouts, disk)
    train("masters", "m-ref", 2, 3, bf16=True, save_dtype="float32")
    train("masters", "m-off", 2, 3, disk, bf16=True, save_dtype="float32")
    same("masters are saved", "m-off", "m-ref")
    best = dict(val_size=40, eval_strategy="steps", eval_steps=2, save_steps=2, load_best_model_at_end=True, greater_is_better=True,
                steps=4, max_samples=100, save_dtype="float32", bf16=True)
    for out, place in (("b-ref", None), ("b-off", disk)):
        text = train("the best", out, 2, 2, place, **best)
        t.has("the best of " + out, text, "Loading best model from %s/checkpoint-2 " % out)
    same("the best", "b-off", "b-ref")


def skipped(disk):
    """Steps of fp16 that are skipped: masters of a state are the weights, moments zeros."""
    half = {"fp16": {"enabled": True, "initial_scale_power": 20, "hysteresis": 1}, "bf16": {"enabled": False}}
    for out, place in (("half-ref", None), ("half", disk)):
        train("fp16", out, 1, 2, place, fp16=True, steps=4, save_steps=1, save_total_limit=9, config=half)
    norms = [e["grad_norm"] for e in t.log_lines("half") if "loss" in e]
    t.check("fp16: steps are skipped, then not", norms[0] is None and norms[-1] is not None, norms)
    same("fp16", "half", "half-ref")


def refused(disk):
    for what, place, want in (("memory", "/dev/shm/x", "nvme_path /dev/shm/x is a tmpfs: O_DIRECT is not possible"),
                              ("a file", t.folder + "/ex/model/config.json", "ex/model/config.json")):
        if what == "memory" and takes_direct("/dev/shm"):
            continue
        for ranks in (1, 2):
            run = begin("no", ranks, 2, place)
            t.check("%s, %d ranks: refused" % (what, ranks), run.wait() not in (0, 124), run.text())
            t.has("%s, %d ranks" % (what, ranks), run.text(), want)
            t.check("%s: before weights are read" % what, "Weights loaded" not in run.text(), run.text())
    shutil.rmtree("/dev/shm/x", True)


def small_disk(_):
    """A file system that has no room for the states, then one that has."""
    if os.geteuid() != 0:
        print("skipped: a small disk, which root alone mounts")
        return
    with open("image", "wb") as f:
        f.truncate(20 << 20)
    os.mkdir("small")
    for words in (["mkfs.ext4", "-q", "-m", "0", "image"], ["mount", "-o", "loop", "image", "small"]):
        try:
            if subprocess.run(words, capture_output=True, check=False).returncode != 0:
                print("skipped: a small disk, no file system can be made here")
                return
        except FileNotFoundError:
            print("skipped: a small disk, there is no " + words[0])
            return
    place = t.folder + "/small/states"
    try:
        with open("small/taken", "wb") as f:
            f.write(bytes(os.statvfs("small").f_bavail * os.statvfs("small").f_frsize - (1 << 19)))
        for ranks in (1, 2):
            run = begin("no", ranks, 2, place)
            t.same("no room, %d ranks: exit status" % ranks, run.wait(), 1)
            t.has("no room, %d ranks" % ranks, run.text(), "offload_optimizer: %s has 0.0 GB free, " % place)
            t.check("no room: before weights are read", "Weights loaded" not in run.text(), run.text())
            t.same("no room: nothing is left", os.listdir(place), [])
        os.unlink("small/taken")
        train("room", "room", 1, 2, place)
        train("room", "room-ref", 1, 2)
        same("room", "room", "room-ref")
    finally:
        subprocess.run(["umount", "small"], check=False)


def running(out, disk, ranks):
    """A run that has done some steps, and the files of its ranks."""
    run = begin(out, ranks, 3, disk, steps=5000, save_steps=5000, save_strategy="no")
    t.until(out + " runs", lambda: t.steps_done(out) >= 2 or run.ended())
    names = [os.path.join(where, n) for where, _, all_of in os.walk(disk) for n in all_of if n.startswith("rank-")]
    t.same(out + ": files", sorted(os.path.basename(n) for n in names), ["rank-%d.bin" % k for k in range(ranks)])
    return run, names


def changed(disk):
    """Bytes that change on the disk end the run on all ranks."""
    run, names = running("flip", disk, 2)
    for path in names:
        t.same("modes", (os.stat(path).st_mode & 0o777, os.stat(os.path.dirname(path)).st_mode & 0o777), (0o600, 0o700))
    pids = run.ranks().values()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    with open(names[0], "r+b") as f:
        for at in range(100, os.path.getsize(names[0]), 4096):
            f.seek(at)
            byte = f.read(1)
            f.seek(at)
            f.write(bytes([byte[0] ^ 16]))
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    t.same("a flipped bit: exit status", run.wait(), 2)
    want = "rank %s: %s: " % (names[0][-5], names[0])
    t.has("a flipped bit: named", run.text(), want)
    t.has("a flipped bit: why", run.text(), "do not match their checksum: the disk gave other bytes than were written")
    t.same("a flipped bit: nothing is left", os.listdir(disk), [])


def killed(disk):
    """What a killed job left goes with the next one; what a living one has stays."""
    run, names = running("killed", disk, 2)
    t.kill([run.pid] + list(run.ranks().values()))
    run.wait()
    t.until("ranks die", lambda: not t.alive() or None)
    t.check("killed: files stay", all(os.path.exists(n) for n in names), names)
    os.makedirs(disk + "/flowtrain-mine")
    living, held = running("living", disk, 1)
    t.check("the next job removes them", not os.path.exists(os.path.dirname(names[0])), os.listdir(disk))
    train("beside it", "beside", 1, 3, disk)
    train("beside it", "beside-ref", 1, 3)
    same("beside it", "beside", "beside-ref")
    t.check("a living job's file stays", os.path.exists(held[0]))
    os.kill(living.pid, signal.SIGTERM)
    t.same("stopped: exit status", living.wait(), 3)
    t.same("stopped: nothing is left but a folder of another's", os.listdir(disk), ["flowtrain-mine"])


def on_simulated_gpu(disk):
    t.simulate()
    t.same("a model is made", t.Run(["init", "--example", "small", "--model", "llama"]).wait(), 0)
    more = dict(device="cuda", bf16=True, model_name_or_path="small/model", dataset_dir="small/data", max_samples=30, steps=2, save_steps=2)
    for ranks, stage, tile in ((1, 2, 30000), (2, 3, 9000)):
        what = "the simulated GPU, %d ranks" % ranks
        train(what, "ref", ranks, stage, **dict(more, accumulation=2 // ranks))
        text = train(what, "off", ranks, stage, disk, tile=tile, **dict(more, accumulation=2 // ranks))
        same(what, "off", "ref")
        t.has(what + ": in the table", text, "on the disk")
    for what, kind in (("8 bits", CODED), ("Muon", MUON)):
        for out, place in (("kind-ref", None), ("kind", disk)):
            train(what, out, 2, 3, place, tile=9000, **dict(more, accumulation=1, **kind))
        same("the simulated GPU, " + what, "kind", "kind-ref")
    shutil.rmtree("off/resume/step-2")
    train("the first step", "half", 2, 3, disk, tile=9000, **dict(more, accumulation=1, steps=1, save_steps=1))
    for what, place in (("device", None), ("disk", disk)):
        shutil.copytree("half", "half-" + what)
        train("on to the " + what, "half-" + what, 2, 3, place, tile=5000, resume_from_checkpoint="last", **dict(more, accumulation=1))
        t.check("the simulated GPU, on to the %s: the model" % what, t.file_bytes("half-" + what + MODEL) == t.file_bytes("ref" + MODEL))


def main():
    t.begin()
    disk = find_disk()
    if disk is None:
        print("skipped: neither the build folder nor /var/tmp takes O_DIRECT")
        t.check("there is a build folder", os.path.isdir(sys.argv[1]))
        return t.finish()
    if sys.argv[2] in ("bits", "kinds"):
        t.same("the tied model is made", t.Run(["init", "--example", "tied", "--model", "llama"]).wait(), 0)
    for part in {"bits": (bits,), "kinds": (others,), "states": (resumed, skipped), "disks": (refused, changed, killed, small_disk),
                 "cuda": (on_simulated_gpu,)}[sys.argv[2]]:
        part(disk)
    t.finish()


main()
