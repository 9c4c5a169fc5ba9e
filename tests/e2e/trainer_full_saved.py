#!/usr/bin/env python3
"""What a training of weights saves: the type of its floats, shards of a size that is given, the same files for every
number of ranks and stage; flowtrain reads them again. Resume states alone, and the model that export makes of them.

usage: trainer_full_saved.py BUILD types|states|cuda     (cuda: on the simulated GPU)
"""
import glob
import hashlib
import json
import os
import shutil
import struct
import sys

import trainer_lib as t
from fp8_lib import read, write

MICROS = 6
INDEX = "/model.safetensors.index.json"
FULL = dict(finetuning_type="full", lora_target=None, lora_rank=None, lora_alpha=None, lora_dropout=None,
            tokenized_path=None, lr_scheduler_type="constant", max_grad_norm=0, save_steps=100, steps=3)
KINDS = {"full": {}, "tied": dict(model_name_or_path="tied/model", dataset_dir="tied/data"),
         "freeze": dict(finetuning_type="freeze", freeze_trainable_layers=1, freeze_extra_modules="norm"),
         "rows": dict(finetuning_type="freeze", freeze_trainable_layers=0, freeze_extra_modules="embed_tokens"),
         "norms": dict(finetuning_type="freeze", freeze_trainable_layers=0, freeze_extra_modules="norm")}


def flags(ranks, stage, **more):
    zero = {"stage": stage}
    zero.update(more.pop("zero", {}))
    text = json.dumps({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
                       "gradient_clipping": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": zero})
    return dict(FULL, **dict(dict(accumulation=MICROS // ranks, deepspeed=text), **more))


def train(what, out, ranks=1, stage=2, **more):
    return t.train(what, out, ranks, **flags(ranks, stage, **more)).text()


def model(folder):
    """The tensors of a model folder, by its index where there is one."""
    if not os.path.exists(folder + INDEX):
        return t.stored(folder + "/model.safetensors")
    with open(folder + INDEX) as f:
        weight_map = json.load(f)["weight_map"]
    files = {name: t.stored(folder + "/" + name) for name in set(weight_map.values())}
    return {name: files[file][name] for name, file in weight_map.items()}


def masters(folder):
    """The masters in the newest resume state, put together from its parts."""
    step = max(os.listdir(folder + "/resume"), key=lambda name: int(name.split("-")[1]))
    found = {}
    for path in sorted(glob.glob("%s/resume/%s/part-*" % (folder, step))):
        for key, (_, _, data) in t.stored(path).items():
            state, rest = key.split(":", 1)
            name, first = rest.rsplit("@", 1)
            if state == "master":
                found.setdefault(name, {})[int(first)] = data
    return {name: b"".join(data for _, data in sorted(pieces.items())) for name, pieces in found.items()}


def to_bf16(data):
    """To nearest, ties to even."""
    words = struct.unpack("<%dI" % (len(data) // 4), data)
    return struct.pack("<%dH" % len(words), *((w + 0x7fff + (w >> 16 & 1)) >> 16 for w in words))


def shards(folder):
    return sorted(os.path.basename(p) for p in glob.glob(folder + "/model*.safetensors"))


def check_shards(what, folder, most):
    """Files are filled as transformers fills them: no file above the limit unless it is one tensor; the next file's first
    tensor would not have fitted in."""
    with open(folder + INDEX) as f:
        index = json.load(f)
    names = shards(folder)
    files = [t.stored(folder + "/" + name) for name in names]
    sizes = [[len(v[2]) for v in file.values()] for file in files]
    t.check(what + ": several files", len(names) > 2, names)
    t.same(what + ": names", names, ["model-%05d-of-%05d.safetensors" % (k + 1, len(names)) for k in range(len(names))])
    t.same(what + ": sizes", [n for n in sizes if sum(n) > most and len(n) > 1], [])
    t.same(what + ": total_size", index["metadata"]["total_size"], sum(map(sum, sizes)))
    t.same(what + ": the index", index["weight_map"], {key: name for name, file in zip(names, files) for key in file})
    return len(names)


def check_masters(what, folder):
    got, want = model(folder), masters(folder)
    t.same(what + ": type", {v[0] for k, v in got.items()}, {"F32"})
    t.check(what + ": masters are there", len(want) > 0, sorted(want))
    t.same(what + ": tensors that are not the masters", [k for k, data in want.items() if got[k][2] != data], [])
    with open(folder + "/config.json") as f:
        config = json.load(f)
    t.same(what + ": config.json", config.get("dtype", config.get("torch_dtype")), "float32")


def types():
    t.same("the tied model is made", t.Run(["init", "--example", "tied", "--model", "llama"]).wait(), 0)
    for kind, more in KINDS.items():
        train(kind + ", auto", kind + "-auto", 1, 2, bf16=True, **more)
        half = model(kind + "-auto")
        base = model(more.get("model_name_or_path", "ex/model"))
        biases = [k for k in base if k.endswith("e_score_correction_bias")]
        t.check(kind + ", auto: router biases are the base's", (biases != []) == (kind != "tied") and all(half[k] == base[k] for k in biases))
        t.same(kind + ", auto: one file", shards(kind + "-auto"), ["model.safetensors"])
        for ranks, stage in ((1, 2), (2, 3), (3, 2)):
            what = "%s, float32, %d ranks at stage %d" % (kind, ranks, stage)
            out = "%s-%d-%d" % (kind, ranks, stage)
            train(what, out, ranks, stage, bf16=True, save_dtype="float32", max_shard_size="100KB", save_steps=3, **more)
            check_masters(what, out)
            t.check(what + ": the checkpoint", model(out) == model(out + "/checkpoint-3"))
            check_shards(what, out, 100000)
            t.same(what + ": rounded", [k for k, v in model(out).items() if to_bf16(v[2]) != half[k][2] and half[k][0] == "BF16"], [])
    off = dict(zero={"offload_optimizer": {"device": "cpu", "pin_memory": True}}, max_shard_size="100KB")
    for ranks, stage in ((1, 2), (3, 3)):
        what, out = "the optimizer on the host, %d ranks at stage %d" % (ranks, stage), "host-%d" % ranks
        train(what, out, ranks, stage, bf16=True, save_dtype="float32", **off)
        check_masters(what, out)
        t.check(what + ": the same model", model(out) == model("full-1-2"))
    train("an f32 run", "f32", 2, 3, save_dtype="float32")
    check_masters("an f32 run", "f32")

    # one file in place of several, and back; flowtrain reads each
    want = model("full-1-2")
    train("one file", "full-1-2", 1, 2, bf16=True, save_dtype="float32", overwrite_output_dir=True)
    t.same("one file", [n for n in os.listdir("full-1-2") if n.startswith("model")], ["model.safetensors"])
    t.check("one file: the same tensors", model("full-1-2") == want)
    with open("ids.json", "w") as f:
        json.dump([[1, 2, 3, 4, 5, 6, 7, 8]], f)
    runs = [t.Run(["forward", "--model_name_or_path", out, "--input_ids", "ids.json", "--output", out + ".safetensors"])
            for out in ("full-1-2", "full-2-3")]
    t.same("forward", [run.wait() for run in runs], [0, 0])
    t.check("forward: the same logits", t.stored("full-1-2.safetensors") == t.stored("full-2-3.safetensors") != {})
    train("training goes on from shards", "more", 2, 3, bf16=True, model_name_or_path="full-2-3", steps=2)
    losses = [[e["loss"] for e in t.log_lines(out) if "loss" in e] for out in ("full-2-3", "more")]
    t.check("training goes on from shards: where it ended", losses[1][0] < losses[0][0], losses)


def best():
    """The best checkpoint is read again in whichever type it was saved."""
    for dtype, resumed in (("float32", "float32"), ("auto", "float32")):
        out = "best-" + dtype
        more = dict(val_size=40, eval_strategy="steps", eval_steps=2, save_steps=2, load_best_model_at_end=True, bf16=True,
                    greater_is_better=True, max_samples=100, max_shard_size="100KB")
        train(out, out, 2, 3, steps=2, save_dtype=dtype, **more)
        text = train(out, out, 3, 2, steps=4, save_dtype=resumed, resume_from_checkpoint="last", overwrite_output_dir=True, **more)
        t.has(out, text, "Loading best model from %s/checkpoint-2 " % out)
        got, want = model(out), model(out + "/checkpoint-2")
        same = got == want if dtype == resumed else {k: to_bf16(v[2]) for k, v in got.items() if want[k][0] == "BF16"} == \
            {k: v[2] for k, v in want.items() if v[0] == "BF16"}
        t.check(out + ": its weights", same)


def refused():
    for what, more, want in (
            ("a size", dict(max_shard_size="many"), "--max_shard_size many: expected bytes, as 5GB or 100KB"),
            ("a size of nothing", dict(max_shard_size="0GB"), "--max_shard_size 0GB: expected bytes, as 5GB or 100KB"),
            ("a type", dict(save_dtype="bfloat16"), "--save_dtype bfloat16: expected one of auto, float32"),
            ("adapters", dict(save_dtype="float32", finetuning_type="lora"), "--save_dtype belongs to --finetuning_type full and freeze"),
            ("an adapter's file", dict(max_shard_size="1GB", finetuning_type="lora"), "--max_shard_size belongs to --finetuning_type full and freeze")):
        run = t.launch("refused", 1, **flags(1, 2, **more))
        t.check(what + ": refused", run.wait() != 0)
        t.has(what, run.text(), want)
    words = dict(flags(1, 2), stage="sft", do_train="true", model_name_or_path="ex/model", dataset="arithmetic", dataset_dir="ex/data",
                 template="default", cutoff_len=64, output_dir="yaml", save_dtype="float32", max_shard_size="100KB", bf16="true", max_steps=1)
    words = {k: v for k, v in words.items() if v is not None and k not in ("steps", "accumulation")}
    with open("sizes.yaml", "w") as f:
        f.write("".join("%s: %s\n" % (k, v) for k, v in words.items()))
    run = t.Run(["train", "sizes.yaml"])
    t.same("a YAML", run.wait(), 0)
    check_shards("a YAML", "yaml", 100000)


NONE = {"stage3_gather_16bit_weights_on_model_save": False}
SAID = "stage3_gather_16bit_weights_on_model_save is false: flowtrain export --from %s/resume writes the model"


def result(folder):
    """The files of a model folder."""
    return {name: t.file_bytes(folder + "/" + name) for name in os.listdir(folder)
            if name.startswith(("model", "tokenizer", "special_tokens", "chat_template")) or name.endswith("config.json")}


def export(what, *words):
    run = t.Run(["export"] + list(words))
    if not t.check(what + ": succeeds", run.wait() == 0):
        print(run.text()[-2000:])
    return run.text()


def no_model(what, out):
    t.same(what + ": no model", [n for n in os.listdir(out) if n.startswith(("model", "checkpoint-", "adapter"))], [])


def states():
    """Parts of any number of ranks become the files that the training itself saves."""
    t.same("the tied model is made", t.Run(["init", "--example", "tied", "--model", "llama"]).wait(), 0)
    for kind, more in KINDS.items():
        more = dict(more, bf16=True, save_steps=2)
        for dtype in ("auto", "float32"):
            train(kind + ", " + dtype, "ref-" + dtype, 2, 3, save_dtype=dtype, max_shard_size="100KB", overwrite_output_dir=True, **more)
        refs = {folder: result(folder) for dtype in ("auto", "float32") for folder in ("ref-" + dtype, "ref-%s/checkpoint-2" % dtype)}
        t.check(kind + ": the types differ", refs["ref-auto"] != refs["ref-float32"])
        for ranks in (1, 2, 3) if kind == "full" else (2,):
            what, out = "%s, %d ranks" % (kind, ranks), "%s-%d" % (kind, ranks)
            text = train(what, out, ranks, 3, zero=NONE, max_shard_size="100KB", **more)
            t.has(what + ": said", text, SAID % out)
            no_model(what, out)
            t.same(what + ": states", sorted(os.listdir(out + "/resume")), ["step-2", "step-3"])
            text = export(what, "--from", out + "/resume")
            t.has(what + ": what was written", text, "wrote the model of step 3, ")
            t.check(what + ": the model", result(out) == refs["ref-auto"] != {}, sorted(result(out)))
            for words, ref in ((["--save_dtype", "float32"], "ref-float32"), ([], "ref-auto")):
                export(what + ", into a folder", "--from", out + "/resume/", "--output", out + "-to", *words)
                t.check("%s: %s" % (what, ref), result(out + "-to") == refs[ref], sorted(result(out + "-to")))
            export(what + ", step 2", "--from", out + "/resume/step-2", "--output", out + "-2")
            step = refs["ref-auto/checkpoint-2"]
            t.same(what + ": step 2", [name for name in step if result(out + "-2").get(name) != step[name]], [])
            left = [name for name in os.listdir(out) + os.listdir(out + "-to") if name.startswith(".tmp")]
            t.same(what + ": leftovers", left, [])
    for what, more in (("f16", dict(fp16=True)), ("f32", {})):
        train(what, what + "-ref", 2, 3, **more)
        train(what + ", no model", what + "-none", 2, 3, zero=NONE, **more)
        t.has(what, export(what, "--from", what + "-none/resume"), "in float" + what[1:])
        t.check(what + ": the model", result(what + "-none") == result(what + "-ref"))
    train("in place of a model", "full-2", 2, 3, zero=NONE, bf16=True, overwrite_output_dir=True)
    no_model("in place of a model", "full-2")
    train("saved as float32", "f32", 2, 3, zero=NONE, bf16=True, save_dtype="float32", steps=2)
    export("saved as float32", "--from", "f32/resume")
    check_masters("saved as float32", "f32")
    os.chdir("f32")
    export("from the folder itself", "--from", "resume", "--model_name_or_path", "../ex/model", "--max_shard_size", "1000000")
    os.chdir("..")
    check_masters("from the folder itself", "f32")


def elsewhere():
    """Where nothing is held back: below stage 3, and of adapters. What contradicts it."""
    text = train("stage 2", "two", 2, 2, zero=NONE, steps=1)
    t.same("stage 2: a model", shards("two"), ["model.safetensors"])
    t.has("stage 2: said", text, "no effect of stage3_gather_16bit_weights_on_model_save: adapters, and weights below stage 3, are saved whole")
    lora = dict(finetuning_type="lora", lora_target=t.TARGETS, lora_rank=4, zero=NONE, steps=1, save_steps=1)
    t.has("LoRA: said", train("LoRA", "lora", 1, 3, **lora), "no effect of stage3_gather_16bit_weights_on_model_save: adapters, ")
    t.check("LoRA: an adapter", os.path.exists("lora/adapter_model.safetensors"))
    for flag, more in (("no_resume_state", {}), ("load_best_model_at_end", dict(val_size=4, eval_strategy="steps", eval_steps=2, save_steps=2))):
        run = t.launch("bad", 1, **flags(1, 3, zero=NONE, **{flag: True}, **more))
        t.check(flag + ": refused", run.wait() != 0)
        t.has(flag, run.text(), "--%s: stage3_gather_16bit_weights_on_model_save is false" % flag)


def wrong_states():
    """What is not whole or not the run's writes nothing."""
    part = "/step-3/part-00001-of-00002.safetensors"
    train("a state of two ranks", "out", 2, 3, zero=NONE, bf16=True)

    def flip(path):
        with open(path, "r+b") as f:
            f.seek(-5, os.SEEK_END)
            byte = f.read(1)
            f.seek(-5, os.SEEK_END)
            f.write(bytes([byte[0] ^ 1]))

    def without_args(path):
        os.unlink(os.path.dirname(os.path.dirname(os.path.dirname(path))) + "/training_args.json")

    def described(path, change):
        """state.json of a part's state, otherwise."""
        name = os.path.dirname(path) + "/state.json"
        with open(name) as f:
            state = json.load(f)
        del state["checksum"]
        change(state)
        with open(name, "w") as f:
            json.dump(state, f)

    def retold(change):
        """The part with other tensors; its sum and size are said anew."""
        def harm(path):
            tensors = read(path)
            change(tensors)
            write(path, tensors)
            raw = t.file_bytes(path)
            described(path, lambda state: state["parts"][1].update(bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest()))
        return harm

    def renamed(tensors, old, new):
        for state in ("master", "m", "v"):
            tensors[state + ":" + new] = tensors.pop(state + ":" + old)

    first = next(name[len("master:"):] for name in sorted(read("out/resume" + part))
                 if name.startswith("master:") and not name.endswith("@0"))
    host = os.uname().nodename
    for name, harm, words, want in (
            ("a tensor lacks its end", retold(lambda x: [x.pop(state + ":" + first) for state in ("master", "m", "v")]), [],
             "%s/resume/step-3 lacks " + "%s from element %s on" % tuple(first.split("@"))),
            ("a tensor lacks its number", retold(lambda x: renamed(x, first, first + "x")), [],
             "%s/resume/step-3: master:" + first + "x is no part of a state"),
            ("a tensor more", retold(lambda x: x.update({"master:other.weight@0": ("F32", [1], bytes(4))})), [],
             "%s/resume/step-3 has other.weight, which ex/model lacks"),
            ("state.json is damaged", lambda path: described(path, lambda state: state.update(updates=1, checksum="0" * 64)), [],
             "%s/resume/step-3/state.json does not match its checksum"),
            ("a part is not described", lambda path: described(path, lambda state: state["parts"][1].pop("sha256")), [],
             "%s/resume/step-3/state.json: part 1 is not described"),
            ("the type is not said", lambda path: described(path, lambda state: state["digests"].update(
                config=state["digests"]["config"].replace("precision=", "precise="))), [],
             "%s/resume/step-3/state.json does not say the type of the run"),
            ("a part is missing", os.unlink, [], "%s/resume" + part + ", which " + host + " wrote, is not here: copy all parts of the state"),
            ("a part is cut", lambda path: os.truncate(path, 700), [], "%s/resume" + part + " has not the "),
            ("a part is damaged", flip, [], "%s/resume" + part + " does not match its checksum"),
            ("no arguments", without_args, [], "%s/training_args.json is not there to name the base: give --model_name_or_path"),
            ("another base", None, ["--model_name_or_path", "tied/model"], "tied/model is not the model that %s/resume/step-3 was trained from"),
            ("the base's own folder", None, ["--output", "ex/model"], "--output ex/model is the base itself"),
            ("no such step", None, ["--from", "out/resume/step-7"], "step-7/state.json"),
            ("no state", None, ["--from", "ex/data"], "--from ex/data: no step-N folder of a resume state is there"),
            ("LoRA", None, ["--from", "lora/resume"], "lora/resume/step-1 is of a LoRA run"),
            ("an adapter", None, ["--adapter_name_or_path", "lora"], "--adapter_name_or_path goes without --from"),
            ("a check", None, ["--check"], "--check and --from exclude each other")):
        folder = name.replace(" ", "-").replace("'", "")
        shutil.copytree("out", folder)
        if harm is not None:
            harm(folder + "/resume" + part)
        before = sorted(os.listdir(folder))
        run = t.Run(["export", "--from", folder + "/resume"] + words)
        t.check(name + ": refused", run.wait() != 0)
        t.has(name, run.text(), want % folder if "%s" in want else want)
        t.same(name + ": nothing was written", sorted(os.listdir(folder)), before)


def on_simulated_gpu():
    t.simulate()
    t.same("a model is made", t.Run(["init", "--example", "small", "--model", "llama"]).wait(), 0)
    train("the simulated GPU", "cuda", 2, 3, device="cuda", bf16=True, steps=1, max_samples=12, save_dtype="float32", max_shard_size="100KB",
          model_name_or_path="small/model", dataset_dir="small/data")
    check_masters("the simulated GPU", "cuda")
    check_shards("the simulated GPU", "cuda", 100000)
    want = result("cuda")
    train("the simulated GPU, no model", "unsaved", 2, 3, device="cuda", bf16=True, steps=1, max_samples=12, save_dtype="float32", zero=NONE,
          max_shard_size="100KB", model_name_or_path="small/model", dataset_dir="small/data")
    no_model("the simulated GPU", "unsaved")
    export("the simulated GPU", "--from", "unsaved/resume")
    t.check("the simulated GPU: the model", result("unsaved") == want)


def main():
    t.begin()
    for part in {"types": (types, best, refused), "states": (states, elsewhere, wrong_states), "cuda": (on_simulated_gpu,)}[sys.argv[2]]:
        part()
    t.finish()


main()
