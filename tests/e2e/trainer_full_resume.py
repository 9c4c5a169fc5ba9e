#!/usr/bin/env python3
"""--finetuning_type full: a run that was stopped, killed or damaged goes on bit for bit, on any number of ranks and at
any stage that makes the same micro-batches.

usage: trainer_full_resume.py BUILD layouts|stop|states|cuda     (cuda: on the simulated GPU)
"""
import json
import os
import shutil
import signal
import sys

import trainer_lib as t

STEPS, MICROS = 10, 6
MODEL = "/model.safetensors"
FULL = dict(finetuning_type="full", lora_target=None, lora_rank=None, lora_alpha=None, lora_dropout=None,
            tokenized_path=None, lr_scheduler_type="constant", max_grad_norm=0, save_steps=5, weight_decay=0.1)

KINDS = {"tied": dict(model_name_or_path="tied/model", dataset_dir="tied/data"),
         "freeze": dict(finetuning_type="freeze", freeze_trainable_layers=1, freeze_extra_modules="norm")}


def flags(ranks, stage, host=False, **more):
    """host: the optimizer is in the host's memory."""
    place = {"stage": stage, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "sub_group_size": 1000}
    zero = json.dumps({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
                       "gradient_clipping": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": place if host else {"stage": stage}})
    return dict(FULL, **dict(dict(accumulation=MICROS // ranks, deepspeed=zero, steps=STEPS), **more))


def begin(out, ranks=1, stage=2, **more):
    return t.launch(out, ranks, **flags(ranks, stage, **more))


def train(what, out, ranks=1, stage=2, **more):
    return t.train(what, out, ranks, **flags(ranks, stage, **more)).text()


def go_on(what, out, ranks=1, stage=2, **more):
    return train(what, out, ranks, stage, **dict(dict(resume_from_checkpoint="last", overwrite_output_dir=True), **more))


def losses(out):
    """Their sums over ranks are of doubles, whose order is that of ranks."""
    return {step: "%.12g" % float.fromhex(loss) for step, (loss, norm) in t.losses(out).items()}


def whole(what, out, ref="ref", bits=False):
    """bits: the layout is that of the uninterrupted run all along."""
    t.same(what + ": losses", (t.losses if bits else losses)(out), (t.losses if bits else losses)(ref))
    t.check(what + ": the model", t.file_bytes(out + MODEL) == t.file_bytes(ref + MODEL))
    left = [os.path.join(d, f) for d, dirs, files in os.walk(out) for f in dirs + files if "tmp" in f]
    t.same(what + ": leftovers", left, [])


def parts(out, step):
    return sorted(n for n in os.listdir("%s/resume/step-%d" % (out, step)) if n != "state.json")


def layouts():
    """Stopped after step 5 on some ranks, taken up on others. In bf16 masters are more than weights."""
    train("uninterrupted", "ref", bf16=True)
    t.same("a state of one rank", parts("ref", 10), ["part-00000-of-00001.safetensors"])
    for a, b in (((1, 2), (1, 2)), ((1, 2), (2, 2)), ((2, 3), (1, 0)), ((3, 3), (2, 3)), ((2, 1), (3, 3))):
        what = "%d ranks at stage %d, then %d at %d" % (a + b)
        out = "r%d-%d-%d-%d" % (a + b)
        train(what, out, *a, steps=5, bf16=True)
        t.same(what + ": parts", len(parts(out, 5)), a[0])
        t.has(what + ": goes on", go_on(what, out, *b, bf16=True), "Continuing training from global step 5")
        whole(what, out, bits=a == b == (1, 2))
        t.same(what + ": states", sorted(os.listdir(out + "/resume")), ["step-10", "step-5"])


def to_host():
    """The optimizer on the device, in the host's memory, on the device again: the same bits, whatever the ranks."""
    for out, layouts in (("h1", ((1, 2), (1, 2), (1, 2))), ("h2", ((2, 3), (3, 3), (2, 2))), ("h3", ((3, 1), (2, 3), (1, 0)))):
        train("on the device", out, *layouts[0], steps=3, save_steps=3, bf16=True)
        text = go_on("to the host", out, *layouts[1], host=True, steps=6, save_steps=3, bf16=True)
        t.has(out + ": to the host: goes on", text, "Continuing training from global step 3")
        t.has(out + ": to the host: in the table", text, "optimizer states")
        text = go_on("to the device", out, *layouts[2], bf16=True, save_steps=4)
        t.has(out + ": to the device: goes on", text, "Continuing training from global step 6")
        whole("%s: device, host, device" % out, out, bits=out == "h1")


def kinds():
    """A head that is the embedding; some of the weights."""
    t.same("the tied model is made", t.Run(["init", "--example", "tied", "--model", "llama"]).wait(), 0)
    for what, more in KINDS.items():
        train(what, what + "-ref", 2, 3, **more)
        train(what + ": the first half", what, 2, 3, steps=5, **more)
        go_on(what, what, 2, 3, **more)
        whole(what, what, what + "-ref", bits=True)
    run = begin("freeze", 2, 3, resume_from_checkpoint="last")
    t.same("freeze, then full: refused", run.wait(), 2)
    t.has("freeze, then full: named", run.text(), "--finetuning_type is freeze there, full here")


def best():
    """The result is the best checkpoint's weights, of which rank 0 alone has the folder; eval_loss falls, so the
    first is the greatest."""
    more = dict(val_size=40, eval_strategy="steps", eval_steps=2, save_steps=2, load_best_model_at_end=True,
                greater_is_better=True, steps=4, max_samples=100)
    for out, ranks, stage, kind in (("best-1", 1, 2, dict(bf16=True)), ("best-2", 2, 3, {}), ("best-3", 3, 2, dict(bf16=True)),
                                    ("best-tied", 2, 2, KINDS["tied"]), ("best-freeze", 2, 3, KINDS["freeze"])):
        what = "the best, in " + out
        text = train(what, out, ranks, stage, do_eval=True, **more, **kind)
        t.has(what, text, "Loading best model from %s/checkpoint-2 " % out)
        t.check(what + ": its weights", t.file_bytes(out + MODEL) == t.file_bytes(out + "/checkpoint-2" + MODEL))
        evals = [e["eval_loss"] for e in t.log_lines(out) if "eval_loss" in e]
        t.check(what + ": is evaluated", len(evals) >= 2 and evals[0] > evals[1], evals)
        with open(out + "/eval_results.json") as f:
            t.same(what + ": its loss", json.load(f)["eval_loss"], evals[0])
    os.truncate("best-2/checkpoint-2" + MODEL, 1000)
    more["steps"] = 6
    text = go_on("the best is damaged", "best-2", 2, 3, **more)
    t.has("the best is damaged: said", text, "the best model is not loaded, the weights are those of the last step: best-2/checkpoint-2/")
    t.check("the best is damaged: the last weights",
            t.file_bytes("best-2" + MODEL) == t.file_bytes("best-2/checkpoint-6" + MODEL))


def stopped():
    """SIGTERM before a step; then nothing at all was saved at the grid of saves."""
    port = dict(save_steps=100)
    run = begin("term", 2, 3, logging_steps=1, **port)
    t.until("the run shows a step", lambda: t.steps_done("term") > 0 or run.ended())
    os.kill(run.pid, signal.SIGTERM)
    t.same("SIGTERM: exit status", run.wait(), 3)
    step = t.steps_done("term")
    t.has("SIGTERM: message", run.text(), "as asked; the resume state is written")
    t.same("SIGTERM: parts", len(parts("term", step)), 2)
    text = go_on("SIGTERM", "term", 2, 3, **port)
    t.has("SIGTERM: goes on behind the step", text, "Continuing training from global step %d" % step)
    train("uninterrupted on two ranks", "ref-2", 2, 3, **port)
    whole("SIGTERM", "term", "ref-2", bits=True)


def names(out):
    return {os.path.join(d, f) for d, dirs, files in os.walk(out + "/resume") for f in dirs + files}


def killed_while_saving():
    out = "saves"
    t.killed_while_saving(lambda: begin(out, 2, 3, save_steps=1, save_only_model=True, resume_from_checkpoint="last"),
                          lambda: names(out), 3)
    go_on("killed while saving", out, 2, 3, save_steps=1, save_only_model=True)
    whole("killed while saving", out, "ref-2", bits=True)
    t.same("killed while saving: states", sorted(os.listdir(out + "/resume")), ["step-10", "step-9"])


def copy(to, origin="half"):
    shutil.copytree(origin, to)
    return to


def flip(path):
    with open(path, "r+b") as f:
        f.seek(-5, os.SEEK_END)
        byte = f.read(1)
        f.seek(-5, os.SEEK_END)
        f.write(bytes([byte[0] ^ 1]))


def rewritten(path, old, new):
    with open(path) as f:
        text = f.read()
    t.check("%s has %s" % (path, old), old in text)
    with open(path, "w") as f:
        f.write(text.replace(old, new))


def other_words():
    """A state.json in which a value or a name is another: it is no other run, it is damaged."""
    for name, old, new in (("updates", '"updates": 6', '"updates": 2'), ("samples", '"micro": 18', '"micro": 6'), ("steps", '"adam_step": 6', '"adam_step": 60'),
                           ("flags", "--seed=7", "--seed=8"), ("names", '"seconds"', '"sexonds"')):
        rewritten(copy("word-" + name) + "/resume/step-6/state.json", old, new)
        text = go_on("state.json: " + name, "word-" + name, 2, 3)
        t.has("state.json: %s: said" % name, text, "state of step 6 is not usable: word-%s/resume/step-6/state.json does not match its checksum" % name)
        t.has("state.json: %s: the one before" % name, text, "from global step 4")
        whole("state.json: " + name, "word-" + name, "ref-2", bits=True)
    rewritten(copy("older") + "/resume/step-6/state.json", '"checksum"', '"older"')  # as a release without checksums wrote it
    t.has("no checksum", go_on("no checksum", "older", 2, 3), "from global step 6")


def damaged():
    """The newest state lacks a part, or has a bad one: the one before is taken, by 2, 1 or 3 ranks."""
    train("the first half", "half", 2, 3, steps=6, save_steps=2)
    t.same("states kept", sorted(os.listdir("half/resume"))[:3], ["step-2", "step-4", "step-6"])
    host = os.uname().nodename
    part = "/resume/step-6/part-00001-of-00002.safetensors"
    rows = [
        ("missing", 2, os.unlink, "%s, which " + host + " wrote, is on no node"),
        ("cut", 1, lambda path: os.truncate(path, 700), host + ": %s has not the "),
        ("flipped", 3, flip, host + ": %s does not match its checksum"),
        ("header", 2, lambda path: open(path, "r+b").write(b"\x7f" * 8), host + ": %s"),
    ]
    for name, ranks, harm, want in rows:
        harm(copy(name) + part)
        text = go_on("a part is " + name, name, ranks, 2)
        t.has(name + ": said", text, "state of step 6 is not usable: " + want % (name + part))
        t.has(name + ": the one before", text, "from global step 4")
        whole("a part is " + name, name, "ref-2")
    other_words()

    for step in (2, 4, 6):
        flip("%s/resume/step-%d/part-00000-of-00002.safetensors" % ("all" if step > 2 else copy("all"), step))
    for what, more in (("last", dict(resume_from_checkpoint="last")), ("without a word", {})):
        run = begin("all", 2, 3, **more)
        t.same("all damaged, %s: refused" % what, run.wait(), 2)
        t.has("all damaged, %s: the message" % what, run.text(), "no resume state in all/resume can be used: ")
        t.has("all damaged, %s: what to do" % what, run.text(), "begin anew by --overwrite_output_dir")
    run = begin(copy("other"), 2, 3, resume_from_checkpoint="3")
    t.same("a step that is not there: refused", run.wait(), 2)
    t.has("a step that is not there: named", run.text(), "no node holds a whole resume state of step 3 in other/resume; the newest before it is of step 2")


def of_lora():
    lora = dict(steps=4, accumulation=MICROS, tokenized_path=None, deepspeed=None)
    t.train("a LoRA run", "lora", 1, **lora)
    run = begin("lora", 1, 2, resume_from_checkpoint="last")
    t.same("a state of LoRA: refused", run.wait(), 2)
    t.has("a state of LoRA: named", run.text(), "step-4 is of a LoRA run")
    run = t.launch("half", 1, **dict(lora, resume_from_checkpoint="last"))
    t.same("a state of a full run: refused", run.wait(), 2)
    t.has("a state of a full run: named", run.text(), "step-6 is of a full run")


def two_nodes(outs, ranks=1, micros=MICROS, **more):
    port = t.free_port()
    runs = [begin(out, ranks, 3, port=port, nodes=2, node=k, accumulation=micros // 2 // ranks, **more)
            for k, out in enumerate(outs)]
    return runs, [run.wait() for run in runs]


def nodes_apart():
    """Two nodes with folders of their own: each has its part."""
    runs, codes = two_nodes(["near", "far"], steps=5)
    t.same("two nodes", codes, [0, 0])
    for k, out in enumerate(("near", "far")):
        t.same("the part of node %d" % k, parts(out, 5), ["part-%05d-of-00002.safetensors" % k])
    for swapped in (("near", "far"), ("far", "near")):  # each reads its own, or both are sent
        outs = [copy("%s-%s" % (out, swapped[0]), out) for out in swapped]
        runs, codes = two_nodes(outs, resume_from_checkpoint="last", overwrite_output_dir=True)
        t.same("two nodes, %s first: go on" % swapped[0], codes, [0, 0])
        t.has("two nodes, %s first: from the state" % swapped[0], runs[0].text(), "from global step 5")
        t.check("two nodes, %s first: the model" % swapped[0], t.file_bytes(outs[0] + MODEL) == t.file_bytes("ref-2" + MODEL))
    # six ranks take up what two wrote, in one folder as a shared one
    shared = copy("shared", "near")
    shutil.copy("far/resume/step-5/part-00001-of-00002.safetensors", "shared/resume/step-5")
    runs, codes = two_nodes([shared, shared], 3, resume_from_checkpoint="last", overwrite_output_dir=True)
    t.same("a shared folder", codes, [0, 0])
    t.same("a shared folder: parts", len(parts("shared", 10)), 6)
    whole("a shared folder", "shared", "ref-2")
    # a node is lost, of two; with copies its part is on the other
    runs, codes = two_nodes([copy("lost", "near"), "fresh"], resume_from_checkpoint="last", overwrite_output_dir=True)
    t.check("a lost node: refused", sorted(codes) in ([2, 2], [2, 4]), codes)
    t.has("a lost node: its part is named", runs[0].text(),
          "part-00001-of-00002.safetensors, which %s wrote, is on no node" % os.uname().nodename)
    runs, codes = two_nodes(["one", "two"], 3, steps=5, save_steps=2, resume_copies=2)
    t.same("copies", codes, [0, 0])
    names = ["part-%05d-of-00006.safetensors" % k for k in range(6)]
    for out in ("one", "two"):
        t.same("copies: the parts of " + out, parts(out, 5), names)
        t.same("copies: they are the same on " + out, [t.file_bytes("%s/resume/step-5/%s" % (out, name)) for name in names],
               [t.file_bytes("one/resume/step-5/" + name) for name in names])
    for k in (0, 1):
        outs = ["fresh.%d" % k, copy("kept.%d" % k, ("one", "two")[k])]
        runs, codes = two_nodes(outs[::1 if k else -1], resume_from_checkpoint="last", overwrite_output_dir=True)
        t.same("node %d is lost" % (1 - k), codes, [0, 0])
        t.has("node %d is lost: from the state" % (1 - k), runs[0].text(), "from global step 5")
        t.check("node %d is lost: the model" % (1 - k), t.file_bytes(outs[::1 if k else -1][0] + MODEL) == t.file_bytes("ref-2" + MODEL))
    runs, codes = two_nodes([copy("both", "near")] * 2, steps=5, resume_copies=3, overwrite_output_dir=True)
    t.same("copies where nodes share a folder", codes, [0, 0])
    t.same("copies where nodes share a folder: parts", len(parts("both", 5)), 2)
    t.has("more copies than nodes", runs[0].text(), "--resume_copies 3: a part stands on each of 2 nodes, there are no more")


def on_simulated_gpu():
    """States go between the device and the files; parts that a node lacks are sent between devices."""
    t.simulate()
    t.same("a model is made", t.Run(["init", "--example", "small", "--model", "llama"]).wait(), 0)
    more = dict(device="cuda", bf16=True, save_steps=1, max_samples=30, val_size=2, eval_strategy="steps", eval_steps=1,
                load_best_model_at_end=True, greater_is_better=True, model_name_or_path="small/model",
                dataset_dir="small/data")
    train("the simulated GPU", "ref", 2, 3, steps=2, accumulation=1, **more)
    more["micros"] = 2
    runs, codes = two_nodes(["near", "far"], steps=1, **more)
    t.same("the simulated GPU, two nodes", codes, [0, 0])
    shutil.copytree("near/checkpoint-1", "far/checkpoint-1")
    for what, host in (("device", False), ("host", True)):
        outs = [copy(what + "-" + out, out) for out in ("far", "near")]
        runs, codes = two_nodes(outs, steps=2, resume_from_checkpoint="last", overwrite_output_dir=True, host=host, **more)
        what = "the simulated GPU, swapped, to the " + what
        t.same(what, codes, [0, 0])
        t.has(what + ": from the state", runs[0].text(), "from global step 1")
        t.same(what + ": the table", "optimizer states" in runs[0].text(), host)
        for checkpoint in ("", "/checkpoint-1", "/checkpoint-2"):
            t.check("%s: the model %s" % (what, checkpoint), t.file_bytes(outs[0] + checkpoint + MODEL) == t.file_bytes("ref" + checkpoint + MODEL))
    runs, codes = two_nodes(["one", "two"], steps=2, resume_copies=2, **more)
    t.same("the simulated GPU, copies", codes, [0, 0])
    t.check("the simulated GPU, copies: the model", t.file_bytes("one" + MODEL) == t.file_bytes("ref" + MODEL))
    for name in ("part-00000-of-00002.safetensors", "part-00001-of-00002.safetensors"):
        t.check("the simulated GPU, copies: " + name, t.file_bytes("one/resume/step-2/" + name) == t.file_bytes("two/resume/step-2/" + name))


def main():
    t.begin()
    for part in {"layouts": (layouts, to_host, kinds, best), "stop": (stopped, killed_while_saving),
                 "states": (stopped, damaged, of_lora, nodes_apart),
                 "cuda": (on_simulated_gpu,)}[sys.argv[2]]:
        part()
    t.finish()


main()
