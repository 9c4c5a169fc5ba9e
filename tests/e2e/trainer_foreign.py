#!/usr/bin/env python3
"""convert --from_deepspeed: every layout of DeepSpeed's checkpoints gives back the bytes of each parameter; what is wrong with
one is named with file and tensor, and nothing is written; a pickle that names what no checkpoint needs is refused and not run."""
import json
import os
import random
import shutil
import struct
import subprocess
import zipfile

import deepspeed_lib as d
import trainer_lib as t
from fp8_lib import read

draw = random.Random(5)


def run(words, code=0):
    done = subprocess.run([t.flowtrain, "convert"] + words, capture_output=True, text=True, timeout=600)
    t.same("exit status of %s" % " ".join(words), done.returncode, code)
    return done.stdout if code == 0 else done.stderr


def values(n):
    return struct.pack("<%df" % n, *(draw.uniform(-1, 1) for _ in range(n)))


def model():
    """Sizes that no number of ranks divides."""
    shapes = {"model.embed_tokens.weight": (7, 5), "model.layers.0.q.weight": (5, 11), "model.layers.0.q.bias": (13,),
              "model.layers.1.q.weight": (3, 3, 3), "model.layers.1.scale": (1,), "model.norm.weight": (5,), "model.wide.weight": (9001,)}
    found = {n: ("F32", s, values(d.numel(s))) for n, s in shapes.items()}
    found["model.cold.weight"] = ("BF16", (3, 7), bytes(draw.choice((0x3f, 0x12)) for _ in range(42)))
    found["model.steps"] = ("I64", (3,), struct.pack("<3q", 1, -2, 1 << 40))
    found["model.bias"] = ("F32", (2,), struct.pack("<2f", float("-inf"), 1))
    return found


GROUPS = [["model.embed_tokens.weight", "model.layers.0.q.weight", "model.layers.1.q.weight", "model.wide.weight"],
          ["model.layers.0.q.bias", "model.layers.1.scale", "model.norm.weight"]]


def checkpoint(parts, **more):
    return d.Checkpoint(parts, GROUPS, frozen=["model.cold.weight"], buffers=["model.steps", "model.bias"], **more)


def as_f32(tensor):
    dtype, shape, raw = tensor
    if dtype == "BF16":
        raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
    return ("I64" if dtype == "I64" else "F32", list(shape), raw)


def as_bf16(tensor):
    dtype, shape, raw = as_f32(tensor)
    if dtype == "I64":
        return dtype, shape, raw
    out = b""
    for (bits,) in struct.iter_unpack("<I", raw):
        out += struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)
    return "BF16", shape, out


def whole(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            found.update({n: (kind, list(shape), raw) for n, (kind, shape, raw) in read(folder + "/" + name).items()})
    return found


def layouts(parts):
    want = {n: as_f32(x) for n, x in parts.items()}
    short = {n: as_bf16(x) for n, x in parts.items()}
    for stage, world, more in ((1, 1, {}), (1, 2, {"pads": 3}), (1, 3, {}), (2, 2, {}), (2, 4, {}), (2, 2, {"pads": 1}),
                               (3, 1, {}), (3, 2, {}), (3, 3, {"subs": 5}), (3, 4, {"subs": 2})):
        what = "stage %d, %d ranks %s" % (stage, world, more)
        folder = "ds-%d-%d-%d" % (stage, world, len(more))
        checkpoint(parts, **more).write(folder, stage, world, "bf16_" if stage == 1 else "")
        said = run(["--from-deepspeed", folder, "--to", "out"])
        t.has(what, said, "converted 10 tensors of ZeRO stage %d of %d ranks, step 3 to float32 in out\n" % (stage, world))
        t.has(what + ": no configuration", said, "note: %s has no config.json" % folder)
        t.same(what + ": every bit", whole("out"), want)
        run(["--from_deepspeed", folder + "/global_step3", "--to", "out", "--save_dtype", "bfloat16"])
        t.same(what + ": rounded to bf16", whole("out"), short)
    for stage in (1, 2, 3):
        checkpoint(parts).universal("universal-%d" % stage, stage)
        t.has("universal", run(["--from_deepspeed", "universal-%d" % stage, "--to", "out"]), "of a universal checkpoint")
        t.same("universal of stage %d: every bit" % stage, whole("out"), want)
    checkpoint(parts).write("ds-0", 0, 2)
    had = sorted(os.listdir("out"))
    os.makedirs("out/.tmp-deepspeed/old")  # of a conversion that was killed
    for name in ("model-00002-of-00009.safetensors", "model.safetensors.index.json", "old/readme.md"):
        with open("out/.tmp-deepspeed/" + name, "w") as f:
            f.write("x")
    t.has("without a stage", run(["--from_deepspeed", "ds-0", "--to", "out"]), "converted 10 tensors of no ZeRO stage, step 3")
    t.same("nothing of one that was killed", sorted(os.listdir("out")), had)
    t.same("without a stage: every bit", whole("out"), want)


def wide(parts):
    """Numbers of zip64, as files of more than 4 GB have them."""
    limit = zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT
    zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT = 10, 1
    checkpoint(parts).write("wide", 3, 2)
    zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT = limit
    t.check("it has an end of zip64", b"PK\x06\x06" in t.file_bytes("wide/global_step3/zero_pp_rank_0_mp_rank_00_optim_states.pt"))
    run(["--from_deepspeed", "wide", "--to", "out"])
    t.same("zip64: every bit", whole("out"), {n: as_f32(x) for n, x in parts.items()})


def folders():
    """A checkpoint-N of the Hugging Face Trainer, of the example's own weights, over an older model."""
    base = {n: as_f32(x) for n, x in whole("ex/model").items()}
    buffers = [n for n in base if "e_score_correction_bias" in n]
    names = [n for n in base if n not in buffers]
    os.mkdir("checkpoint-3")
    for name in os.listdir("ex/model"):
        if not name.endswith(".safetensors"):
            shutil.copy("ex/model/" + name, "checkpoint-3")
    for name in ("zero_to_fp32.py", "trainer_state.json", "scheduler.pt"):
        with open("checkpoint-3/" + name, "w") as f:
            f.write("{}")
    d.Checkpoint(base, [names[::2], names[1::2]], buffers=buffers).write("checkpoint-3", 3, 3)
    os.mkdir("tuned")
    shutil.copy("ex/model/model.safetensors", "tuned/model.safetensors")
    said = run(["--from_deepspeed", "checkpoint-3", "--to", "tuned", "--max_shard_size", "100KB"])
    t.same("what is said", said, "converted %d tensors of ZeRO stage 3 of 3 ranks, step 3 to float32 in tuned\n" % len(base))
    t.same("the weights", whole("tuned"), base)
    with open("tuned/model.safetensors.index.json") as f:
        index = json.load(f)
    t.same("the index", sorted(index["weight_map"]), sorted(base))
    t.check("the older weights are gone", not os.path.exists("tuned/model.safetensors"))
    t.same("files beside", sorted(n for n in os.listdir("tuned") if "model" not in n),
           sorted(n for n in os.listdir("ex/model") if "model" not in n))
    with open("tuned/config.json") as f:
        config = json.load(f)
    t.same("the type is named", config.get("dtype", config.get("torch_dtype")), "float32")
    done = subprocess.run([t.flowtrain, "generate", "--model_name_or_path", "tuned", "--template", "default", "--prompt", "What is 3 plus 4?",
                           "--max_new_tokens", "2"], capture_output=True, text=True)
    t.same("it answers", done.returncode, 0)
    t.has("into itself", run(["--from_deepspeed", "checkpoint-3", "--to", "./checkpoint-3"], 2), "is the checkpoint itself")
    t.has("a type in place of a folder", run(["--from_deepspeed", "checkpoint-3", "--to", "bf16"], 2), "a folder bf16 is --to ./bf16")


def tied(parts):
    """A head that is the embedding: once beside a config.json, else under both names."""
    del parts["model.cold.weight"]
    made = d.Checkpoint(parts, GROUPS, buffers=["model.steps", "model.bias"], tied={"lm_head.weight": "model.embed_tokens.weight"})
    made.write("tied", 1, 2)
    run(["--from_deepspeed", "tied", "--to", "both"])
    t.same("both names", whole("both")["lm_head.weight"], as_f32(parts["model.embed_tokens.weight"]))
    with open("tied/config.json", "w") as f:
        f.write('{"tie_word_embeddings": true, "torch_dtype": "bfloat16"}')
    t.has("one name", run(["--from_deepspeed", "tied", "--to", "one"]), "1 tied tensors stand under their other name alone\n")
    t.check("the head is left out", "lm_head.weight" not in whole("one"))
    t.same("the others", {n: x for n, x in whole("both").items() if n != "lm_head.weight"}, whole("one"))


class Evil:
    def __reduce__(self):
        return os.system, ("touch " + os.path.abspath("was-run"),)


def spoil(what, change, want, stage=3, world=2, **more):
    """One checkpoint, changed by change(folder of the step); the error must name the parts of want."""
    shutil.rmtree("bad", ignore_errors=True)
    at = checkpoint(model(), **more).write("bad", stage, world)
    change(at)
    said = run(["--from_deepspeed", "bad", "--to", "never"], 2)
    for part in want:
        t.has(what, said, part)
    t.check(what + ": nothing is written", not os.path.exists("never"))


def rank(at, r, kind="optim"):
    return at + "/zero_pp_rank_%d_mp_rank_00_%s_states.pt" % (r, kind)


def rewrite(path, edit, **more):
    """The data.pkl of a file is replaced by what edit makes of it, or entries by edit's rules."""
    with zipfile.ZipFile(path) as z:
        entries = [(i.filename, z.read(i)) for i in z.infolist()]
    with zipfile.ZipFile(path, "w", **more) as z:
        for name, raw in entries:
            raw = edit(name.split("/", 1)[1], raw)
            if raw is not None:
                z.writestr(name, raw)


def pickled(change):
    return lambda name, raw: change(raw) if name == "data.pkl" else raw


def hostile():
    for value, name in ((Evil(), "posix.system"), ([1, {"x": (Evil(),)}], "posix.system")):
        spoil("os.system", lambda at: d.save(rank(at, 1), value), (name, "zero_pp_rank_1_mp_rank_00_optim_states.pt", "offset "))
    spoil("eval in the model's file", lambda at: rewrite(rank(at, 0, "model"), pickled(lambda raw: b"\x80\x02c__builtin__\neval\n" + raw)),
          ("__builtin__.eval", "zero_pp_rank_0_mp_rank_00_model_states.pt: offset 2 of its pickle"))
    spoil("a name nearly known", lambda at: rewrite(rank(at, 0), pickled(lambda raw: raw.replace(b"ctorch\nTensor\n", b"ctorch\nTensors\n"))),
          ("torch.Tensors",))
    t.check("nothing was run", not os.path.exists("was-run"))
    for opcode, why in ((b"\x80\x04K\x01.", "protocol 2"), (b"\x80\x02(.", "values left"), (b"\x80\x02K", "within a number"),
                        (b"\x80\x02\x8c\x01a.", "an opcode that torch.save does not write"), (b"\x80\x02" + b"(" * 2000, "nested too deep"),
                        (b"\x80\x02Kqr\xff\xff\xff\x7f.", "does not follow"), (b"\x80\x02h\x05.", "is not there"), (b"", "ends before its end"),
                        (b"\x80\x02X\xff\xff\xff\xffa", "within a text"), (b"\x80\x02K\x01R.", "a call of"), (b"\x80\x02K\x01Q.", "no storage")):
        spoil("a pickle %r" % opcode[:12], lambda at: rewrite(rank(at, 1), pickled(lambda raw: opcode)), (why, "zero_pp_rank_1"))


def cut(path, n):
    with open(path, "r+b") as f:
        f.truncate(os.path.getsize(path) - n if n > 0 else -n)


def longer(path, entry):
    """The directory says that an entry has 1 GB."""
    raw = t.file_bytes(path)
    at = raw.rindex(entry) - raw[:raw.rindex(entry)][::-1].index(b"PK\x01\x02"[::-1]) - 4
    with open(path, "wb") as f:
        f.write(raw[:at + 20] + struct.pack("<II", 1 << 30, 1 << 30) + raw[at + 28:])


def flipped(path, entry):
    """One bit of an entry, by its name or size, is another."""
    with zipfile.ZipFile(path) as z:
        info = next(i for i in z.infolist()[::-1] if i.filename.endswith("/%s" % entry) or i.file_size == entry)
    with open(path, "r+b") as f:
        f.seek(info.header_offset + 26)
        at = info.header_offset + 30 + sum(struct.unpack("<HH", f.read(4))) + info.file_size // 2
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


def unsummed(path):
    """As torch writes it where it is told to leave checksums out: they are 0."""
    raw = bytearray(t.file_bytes(path))
    at = raw.find(b"PK\x01\x02")
    while at >= 0:
        raw[at + 16:at + 20] = bytes(4)
        at = raw.find(b"PK\x01\x02", at + 4)
    with open(path, "wb") as f:
        f.write(raw)


def damaged():
    """Bytes that are not those that were written: torch itself takes them."""
    said = ("does not match its checksum: the file is damaged", "fetch it again")
    for stage in (1, 2, 3):
        spoil("a weight of stage %d" % stage, lambda at: flipped(rank(at, 1), "data/2"),
              ("zero_pp_rank_1_mp_rank_00_optim_states.pt: entry ", "data/2") + said, stage)
    spoil("a pickle", lambda at: flipped(rank(at, 1), "data.pkl"), ("data.pkl",) + said)
    spoil("a frozen weight", lambda at: flipped(at + "/mp_rank_00_model_states.pt", 42), ("mp_rank_00_model_states.pt: entry ",) + said, 2)
    checkpoint(model()).write("sums", 3, 2)
    run(["--from_deepspeed", "sums", "--to", "out"])
    want = whole("out")
    for r in (0, 1):
        unsummed(rank("sums/global_step3", r))
    run(["--from_deepspeed", "sums", "--to", "out"])
    t.check("without checksums: every bit", want and whole("out") == want)


def wrong_files():
    for n in (1, 200, -100):
        spoil("cut by %d" % n, lambda at: cut(rank(at, 1), n), ("zero_pp_rank_1_mp_rank_00_optim_states.pt",))
    spoil("an entry ends outside", lambda at: longer(rank(at, 1), b"data/2"), ("data/2 lies outside of the file", "zero_pp_rank_1"))
    spoil("no bytes", lambda at: open(rank(at, 1), "w").close(), ("zero_pp_rank_1_mp_rank_00_optim_states.pt",))
    spoil("no zip file", lambda at: open(rank(at, 0), "w").write("torch" * 40), ("is no zip file",))
    spoil("compressed", lambda at: rewrite(rank(at, 0), lambda name, raw: raw, compression=zipfile.ZIP_DEFLATED), ("is compressed",))
    spoil("another order of bytes", lambda at: rewrite(rank(at, 0), lambda name, raw: b"big" if name == "byteorder" else raw), ("byte order 'big'",))
    spoil("no pickle", lambda at: rewrite(rank(at, 0), lambda name, raw: None if name == "data.pkl" else raw), ("has no data.pkl",))
    spoil("a storage is missing", lambda at: rewrite(rank(at, 1), lambda name, raw: None if name == "data/2" else raw), ("has no data/2", "zero_pp_rank_1"))
    spoil("a storage is short", lambda at: rewrite(rank(at, 1), lambda name, raw: raw[:-4] if name == "data/2" else raw), ("data/2 has ", "zero_pp_rank_1"))


def wrong_worlds():
    spoil("rank 0 is missing", lambda at: os.remove(rank(at, 0)), ("the file of rank 0 is missing", "zero_pp_rank_1"))
    spoil("the last rank is missing", lambda at: os.remove(rank(at, 1)), ("is of a run of 2 ranks, but bad/global_step3 has the files of 1",))
    spoil("a rank of another run", lambda at: shutil.copy(checkpoint(model()).write("other", 3, 3) + "/zero_pp_rank_1_mp_rank_00_optim_states.pt", at),
          ("zero_pp_rank_1_mp_rank_00_optim_states.pt is of a run of 3 ranks",))
    spoil("a rank of another stage", lambda at: shutil.copy(checkpoint(model()).write("other-2", 2, 2) + "/zero_pp_rank_1_mp_rank_00_optim_states.pt", at),
          ("zero_pp_rank_1_mp_rank_00_optim_states.pt is of ZeRO stage 2",))
    spoil("a model's file of another world", lambda at: shutil.copy(checkpoint(model()).write("other", 3, 3) + "/zero_pp_rank_1_mp_rank_00_model_states.pt", at),
          ("zero_pp_rank_1_mp_rank_00_model_states.pt is of a run of 3 ranks",))
    spoil("a model's file of another step", lambda at: shutil.copy(checkpoint(model(), step=4).write("later", 3, 2) + "/zero_pp_rank_1_mp_rank_00_model_states.pt", at),
          ("is of step 4, that of rank 0 of step 3",))
    spoil("a model's file is missing", lambda at: os.remove(rank(at, 1, "model")), ("*_model_states.pt of 1 ranks and *_optim_states.pt of 2",))
    spoil("tensor parallel", lambda at: shutil.copy(at + "/mp_rank_00_model_states.pt", at + "/mp_rank_01_model_states.pt"), ("mp_rank_01_model_states.pt", "tensor parallelism"), 2)
    spoil("experts", lambda at: shutil.copy(at + "/mp_rank_00_model_states.pt", at + "/layer_0_expert_0_mp_rank_00_model_states.pt"), ("layer_0_expert_0", "expert parallelism"), 2)
    spoil("latest leads away", lambda at: open("bad/latest", "w").write("../ds-0"), ("bad/latest does not name a folder beside it",))
    spoil("no latest", lambda at: os.remove("bad/latest"), ("bad is no checkpoint of DeepSpeed", "'latest'"))


def wrong_shapes():
    def other(stage, world, name, shape):
        changed = model()
        changed[name] = ("F32", shape, values(d.numel(shape)))
        kind = "mp_rank_00" if stage < 3 else "zero_pp_rank_0_mp_rank_00"
        return lambda at: shutil.copy(checkpoint(changed).write("odd", stage, world) + "/%s_model_states.pt" % kind, at)
    shutil.rmtree("odd", ignore_errors=True)
    spoil("larger than the ranks' parts", other(2, 2, "model.norm.weight", (500,)), ("model.norm.weight ends at element 514 of group 1",), 2)
    spoil("smaller", other(2, 2, "model.norm.weight", (1,)), ("elements of group 1, its parameters have 15",), 2)
    spoil("larger, stage 3", other(3, 2, "model.norm.weight", (500,)), ("model.norm.weight ends at element",))
    spoil("smaller, stage 3", other(3, 2, "model.norm.weight", (2,)), ("zero_pp_rank_0_mp_rank_00_optim_states.pt", "the parameters take"))
    parts = model()
    parts["model.norm.weight"] = ("F32", (5,), struct.pack("<5f", 1, 2, float("nan"), 4, 5))
    shutil.rmtree("bad")
    checkpoint(parts).write("bad", 3, 2)
    t.has("not finite", run(["--from_deepspeed", "bad", "--to", "never"], 2), "model.norm.weight holds nan at element 2, which is not finite")
    parts["model.norm.weight"] = ("F32", (5,), struct.pack("<5f", 1, 2, 3, 70000, 5))
    checkpoint(parts).write("bad", 3, 2)
    t.has("beyond f16", run(["--from_deepspeed", "bad", "--to", "never", "--save_dtype", "float16"], 2), "model.norm.weight holds 70000 at element 3, which f16 cannot")
    t.same("nothing is left of them", os.listdir("never"), [])
    adapter = {"base_model.model.q.lora_A.default.weight": ("F32", (2,), values(2))}
    d.Checkpoint(adapter, [list(adapter)]).write("adapter", 2, 1)
    t.has("an adapter", run(["--from_deepspeed", "adapter", "--to", "x"], 2), "adapter_model.safetensors")


def flags():
    for words, want in ((["--from_deepspeed", "bad"], "--to is missing"), (["--from_deepspeed", "none", "--to", "x"], "cannot read the folder none"),
                        (["--from_deepspeed", "bad", "--to", "x", "--output", "y"], "--from_deepspeed goes without --output"),
                        (["--model_name_or_path", "ex/model", "--to", "bf16", "--output", "x", "--save_dtype", "float16"], "--save_dtype belongs to"),
                        (["--from_deepspeed", "bad", "--to", "x", "--save_dtype", "int8"], "expected float32, bfloat16 or float16")):
        t.has(" ".join(words), run(words, 2), want)


def main():
    t.begin()
    layouts(model())
    wide(model())
    folders()
    tied(model())
    hostile()
    damaged()
    wrong_files()
    wrong_worlds()
    wrong_shapes()
    flags()
    t.finish()


main()
