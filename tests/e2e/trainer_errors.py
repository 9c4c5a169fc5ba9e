#!/usr/bin/env python3
"""Wrong inputs of flowtrain: one clear line that names the file, key, flag or rank; the documented exit
status; no adapter, state or checkpoint left behind, and nothing running."""
import json
import os
import re
import shutil
import struct
import subprocess

import trainer_lib as t

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # this machine may have one


def split(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(n)), f.read()


def join(path, header, data):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def json_change(path, **values):
    with open(path) as f:
        c = json.load(f)
    c.update(values)
    with open(path, "w") as f:
        json.dump(c, f)


# ---- wrong models: each gets a copy of the example's folder ----

WEIGHTS = "model/model.safetensors"
NORM = "model.layers.1.input_layernorm.weight"
Q_A = "model.layers.2.self_attn.q_a_proj.weight"
PREFIX = "base_model.model."
LORA_B = "model.layers.1.self_attn.kv_a_proj_with_mqa.lora_B.weight"


def truncated(d):
    os.truncate(d + "/model.safetensors", os.path.getsize(d + "/model.safetensors") - 1000)


def header_cut(d):
    with open(d + "/model.safetensors", "r+b") as f:
        f.write(struct.pack("<Q", 1 << 40))


def overlapping(d):
    header, data = split(d + "/model.safetensors")
    other = header[NORM]["data_offsets"]
    header[Q_A]["data_offsets"] = [other[0], other[0] + header[Q_A]["data_offsets"][1] - header[Q_A]["data_offsets"][0]]
    join(d + "/model.safetensors", header, data)


def twice(d):
    header, data = split(d + "/model.safetensors")
    text = json.dumps(header)
    join(d + "/model.safetensors", (text[:-1] + ', "%s": %s}' % (NORM, json.dumps(header[NORM]))).encode(), data)


def wrong_shape(d):
    header, data = split(d + "/model.safetensors")
    header[Q_A]["shape"] = header[Q_A]["shape"][::-1]
    join(d + "/model.safetensors", header, data)


def without(path, name):
    header, data = split(path)
    first, last = header.pop(name)["data_offsets"]
    for t_name, entry in header.items():
        if t_name != "__metadata__" and entry["data_offsets"][0] >= last:
            entry["data_offsets"] = [x - (last - first) for x in entry["data_offsets"]]
    join(path, header, data[:first] + data[last:])


def missing_tensor(d):
    without(d + "/model.safetensors", Q_A)


def hole(d):
    header, data = split(d + "/model.safetensors")
    del header[Q_A]
    join(d + "/model.safetensors", header, data)


def not_finite(d):
    header, data = split(d + "/model.safetensors")
    at = header[Q_A]["data_offsets"][0]
    join(d + "/model.safetensors", header, data[:at + 6] + struct.pack("<H", 0x7fc0) + data[at + 8:])


def config(**values):
    return lambda d: json_change(d + "/config.json", **values)


def text_file(name, text):
    def write(d):
        with open(os.path.join(d, name), "w") as f:
            f.write(text)
    return write


def remove(name):
    return lambda d: os.remove(os.path.join(d, name))


def model(change):
    def make(out):
        shutil.copytree("ex/model", out + "-model")
        change(out + "-model")
        return dict(model_name_or_path=out + "-model")
    return make


def data(change):
    def make(out):
        shutil.copytree("ex/data", out + "-data")
        change(out + "-data")
        return dict(dataset_dir=out + "-data")
    return make


def deepspeed(**change):
    ds = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}
    for key, value in change.items():
        if key == "zero":
            ds["zero_optimization"].update(value)
        else:
            ds[key] = value
    return lambda out: dict(deepspeed=json.dumps(ds))


def flags(**change):
    return lambda out: change


def full_folder(out):
    shutil.copytree("adapter", out)
    return {}


def adapter(change):
    def make(out):
        shutil.copytree("adapter", out + "-adapter")
        change(out + "-adapter")
        return dict(adapter_name_or_path=out + "-adapter")
    return make


def cut_adapter(d):
    without(d + "/adapter_model.safetensors", PREFIX + LORA_B)


def longer_adapter(d):
    path = d + "/adapter_model.safetensors"
    header, data = split(path)
    header[PREFIX + LORA_B.replace("layers.1.", "layers.9.")] = header[PREFIX + LORA_B]
    first, last = header[PREFIX + LORA_B]["data_offsets"]
    header[PREFIX + LORA_B] = dict(header[PREFIX + LORA_B], data_offsets=[len(data), len(data) + last - first])
    join(path, header, data + data[first:last])


# what; how it is made: the flags that change; exit status; what the message must name
ROWS = [
    ("unknown flag", flags(lora_rnak=8), 2, ["--lora_rnak", "did you mean --lora_rank?"]),
    ("no number", flags(learning_rate="fast"), 2, ["--learning_rate", "fast"]),
    ("number out of range", flags(lora_dropout="1.5"), 2, ["--lora_dropout"]),
    ("cutoff_len 0", flags(cutoff_len=0), 2, ["--cutoff_len 0"]),
    ("negative accumulation", flags(accumulation=-1), 2, ["--gradient_accumulation_steps"]),
    ("another word of a choice", flags(save_strategy="sometimes"), 2, ["--save_strategy", "epoch"]),
    ("flag without its value", flags(run_name=True), 2, ["--run_name"]),
    ("no model given", flags(model_name_or_path=None), 2, ["--model_name_or_path"]),
    ("no data set given", flags(dataset=None), 2, ["--dataset"]),
    ("another stage", flags(stage="dpo"), 2, ["--stage dpo"]),
    ("both precisions", flags(bf16=True, fp16=True), 2, ["--bf16", "--fp16"]),
    ("no such model", flags(model_name_or_path="nowhere"), 2, ["model folder nowhere does not exist: nothing is downloaded"]),
    ("no weights", model(remove("model.safetensors")), 2, ["-model", "other files of weights (.bin, .gguf) are not read"]),
    ("no tokenizer", model(remove("tokenizer.json")), 2, ["tokenizer.json does not exist: a tokenizer.model alone is not read"]),
    ("tokenizer is no JSON", model(text_file("tokenizer.json", "{\"model\": {")), 2, ["tokenizer.json"]),
    ("another architecture", model(config(model_type="gpt2", architectures=["GPT2LMHeadModel"])), 2,
     ["config.json", "gpt2", "GPT2LMHeadModel"]),
    ("a size of the wrong type", model(config(hidden_size="wide")), 2, ["config.json", "hidden_size"]),
    ("heads that divide by nothing", model(config(n_group=3)), 2, ["config.json", "n_group"]),
    ("truncated weights", model(truncated), 2, [WEIGHTS.split("/")[1], "bytes", "it is cut, fetch it again"]),
    ("a pointer in place of weights", model(text_file("model.safetensors", "version https://git-lfs.github.com/spec/v1\n")), 2,
     ["model.safetensors is a pointer of Git LFS", "git lfs pull"]),
    ("header longer than the file", model(header_cut), 2, ["model.safetensors"]),
    ("overlapping tensors", model(overlapping), 2, ["model.safetensors", Q_A, "overlap"]),
    ("a hole between tensors", model(hole), 2, ["model.safetensors", "a hole in the data"]),
    ("one name twice", model(twice), 2, ["model.safetensors", "duplicate"]),
    ("wrong shape", model(wrong_shape), 2, [Q_A]),
    ("missing tensor", model(missing_tensor), 2, [Q_A]),
    ("NaN in the weights", model(not_finite), 2, [Q_A]),
    ("tokens beyond the model", model(config(vocab_size=50)), 2, ["vocab_size", "sample"]),
    ("unknown template", flags(template="deepseek4"), 2, ["deepseek4"]),
    ("undefined data set", flags(dataset="arithmetics"), 2, ["arithmetics", "dataset_info.json"]),
    ("no dataset_info.json", flags(dataset_dir="ex/model"), 2, ["--dataset_dir ex/model: ", "dataset_info.json"]),
    ("dataset_info.json is a list", data(text_file("dataset_info.json", "[]")), 2, ["dataset_info.json: expected an object of data sets"]),
    ("a folder of data to fetch", flags(dataset_dir="ONLINE"), 2, ["--dataset_dir ONLINE: nothing is downloaded"]),
    ("a column that no record has", data(text_file("arithmetic.jsonl", '{"instruct": "a", "output": "b"}\n' * 3)), 2,
     ["arithmetic.jsonl: none of 3 records of data set 'arithmetic' has the column 'instruction', its prompt",
      "the first has: instruct, output"]),
    ("template of another model", flags(template="yuan"), 2, ["arithmetic.jsonl:1: template 'yuan' needs the token <sep>"]),
    ("bad JSON record", data(text_file("arithmetic.jsonl", '{"instruction": "a", "output": "b"}\n{"instr')), 2,
     ["arithmetic.jsonl", "2"]),
    ("record of the wrong type", data(text_file("arithmetic.jsonl", '[1, 2]\n')), 2, ["arithmetic.jsonl"]),
    ("empty data set", data(text_file("arithmetic.jsonl", "")), 2, ["arithmetic"]),
    ("no valid record", data(text_file("arithmetic.jsonl", '{"output": null, "instruction": null}\n' * 5)), 2,
     ["Cannot find valid samples", "all 5 records of --dataset arithmetic failed", "arithmetic.jsonl:1: there is no response",
      "arithmetic.jsonl:2: ", "arithmetic.jsonl:3: there is no response"]),
    ("no data file", data(remove("arithmetic.jsonl")), 2, ["arithmetic.jsonl"]),
    ("DeepSpeed file is not there", flags(deepspeed="ds.json"), 2, ["ds.json"]),
    ("batch arithmetic", deepspeed(train_batch_size=7), 2, ["train_batch_size"]),
    ("DeepSpeed against a flag", deepspeed(gradient_accumulation_steps=3), 2, ["gradient_accumulation_steps"]),
    ("fp16 and bf16 in DeepSpeed", deepspeed(fp16={"enabled": True}, bf16={"enabled": True}), 2, ["fp16", "bf16"]),
    ("unknown key", deepspeed(zero={"stage4": True}), 2, ["stage4"]),
    ("no such stage", deepspeed(zero={"stage": 4}), 2, ["stage"]),
    ("nvme without path", deepspeed(zero={"offload_param": {"device": "nvme"}}), 2, ["nvme_path"]),
    ("more rows than can be counted", flags(per_device_train_batch_size=1 << 20, cutoff_len=8192,
                                            default_system="many words " * 2000), 2,
     ["--per_device_train_batch_size", "--cutoff_len", "more than 2147483647 rows"]),
    ("no module is adapted", flags(lora_target="wq,wk"), 2, ["wq"]),
    ("adapter is not there", flags(adapter_name_or_path="nowhere"), 2, ["nowhere"]),
    ("adapter of another base", adapter(lambda d: json_change(d + "/adapter_config.json", base_model_name_or_path="elsewhere",
                                                              target_modules=["up_proj", "down_proj"])), 2,
     ["-adapter, which was made for elsewhere, does not fit this model: LoRA targets hit "]),
    ("adapter of another rank", adapter(lambda d: json_change(d + "/adapter_config.json", r=16)), 2,
     ["adapter_model.safetensors", "lora_"]),
    ("adapter lacks a tensor", adapter(cut_adapter), 2, ["adapter_model.safetensors: it lacks " + PREFIX + LORA_B]),
    ("adapter of more layers", adapter(longer_adapter), 2,
     ["adapter_model.safetensors: it holds " + PREFIX + LORA_B.replace("layers.1.", "layers.9.") + ", which is no adapter of"]),
    ("output folder holds a run", full_folder, 2, ["--overwrite_output_dir"]),
    ("output folder is a file", lambda out: (text_file(out, "x")("."), {})[1], 2, ["row", "is not a folder"]),
    ("NCCL without GPUs", flags(device="cpu", transport="nccl"), 2, ["--transport nccl: NCCL works"]),
    ("no device to be seen", flags(device="cuda"), 2, ["device cuda: "]),
    ("resume where nothing is", flags(resume_from_checkpoint="true"), 2,
     ["--resume_from_checkpoint true: there is no resume state", "take last"]),
    ("a mistyped DeepSpeed key", deepspeed(gradient_cliping=1.0), 2, ["gradient_cliping", "did you mean 'gradient_clipping'?"]),
    ("another way to train", flags(finetuning_type="oft"), 2, ["--finetuning_type", "only lora, full and freeze are done"]),
    ("resume from nonsense", flags(resume_from_checkpoint="yesterday"), 2, ["--resume_from_checkpoint", "yesterday"]),
]


# what; environment; exit status; what the message must name
ENVIRONMENTS = [
    ("RANK is no number", dict(RANK="first", WORLD_SIZE="2"), 2, ["RANK", "first"]),
    ("RANK alone", dict(RANK="0"), 2, ["WORLD_SIZE"]),
    ("RANK beyond WORLD_SIZE", dict(RANK="2", WORLD_SIZE="2"), 2, ["RANK 2"]),
    ("no WORLD_SIZE at all", dict(RANK="0", WORLD_SIZE="0"), 2, ["WORLD_SIZE"]),
    ("no MASTER_ADDR", dict(RANK="0", WORLD_SIZE="2"), 2, ["MASTER_ADDR"]),
    ("bad MASTER_PORT", dict(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="99999"), 2,
     ["MASTER_PORT", "99999"]),
]

# what; words; exit status; what the message must name
COMMANDS = [
    ("no command", [], 2, ["usage: flowtrain COMMAND"]),
    ("unknown command", ["trian"], 2, ["trian", "'train'"]),
    ("launch: unknown flag", ["launch", "--nproc_per_nodes", "2", "--", "train"], 2, ["--nproc_per_nodes", "did you mean --nproc_per_node?"]),
    ("launch: no number", ["launch", "--nproc_per_node", "two", "--", "train"], 2, ["--nproc_per_node", "two"]),
    ("launch: nothing to run", ["launch", "--nproc_per_node", "2"], 2, ["-- train"]),
    ("launch: elastic nodes", ["launch", "--nnodes", "1:2", "--", "train"], 2, ["--nnodes 1:2", "fixed"]),
    ("launch: another rendezvous", ["launch", "--rdzv-backend", "etcd", "--", "train"], 2, ["--rdzv_backend etcd", "static"]),
    ("launch: c10d without a number", ["launch", "--rdzv-backend=c10d", "--rdzv-endpoint=h:1", "--nnodes=2", "train"], 2,
     ["--node_rank"]),
    ("launch: standalone of two", ["launch", "--standalone", "--nnodes", "2", "--", "train"], 2, ["--standalone"]),
    ("launch: a Python module", ["launch", "--module", "torch", "--", "train"], 2, ["--module", "no Python"]),
    ("launch: no GPU", ["launch", "--nproc-per-node", "gpu", "--", "train"], 2, ["--nproc_per_node gpu", "no GPU"]),
    ("launch: node beyond nnodes", ["launch", "--node_rank", "2", "--nnodes", "2", "--", "train"], 2, ["--node_rank 2"]),
    ("probe: bad transport", ["probe", "--transport", "mail"], 2, ["--transport is 'mail'"]),
    ("probe: bad size", ["probe", "--bytes", "much"], 2, ["--bytes", "much"]),
]


def judge(what, run, status, parts, world=1):
    t.same(what + ": exit status", run.wait(), status)
    lines = [l for l in run.text().splitlines()
             if l and not re.match(r"info |warn |note |Process rank|\[INFO\|", l)]
    said = [l for l in lines if l.startswith("flowtrain")]
    for part in parts:
        t.check("%s: names %s" % (what, part), any(part in l for l in lines), "\n".join(lines))
    if world == 1 and status != 0 and what != "no command":
        t.check("%s: one line" % what, len(lines) == 1, "\n".join(lines))
    if os.environ.get("SHOW"):
        print("%-32s %s" % (what, "\n".join(said)))


def half_written(out):
    """What a refused run must not leave: an adapter, a checkpoint, a state, a temporary file."""
    return [os.path.join(d, f) for d, dirs, files in os.walk(out) for f in dirs + files
            if re.search(r"adapter|checkpoint|step-|tmp|trainer_state", f)]


def main():
    t.begin()
    base = dict(steps=1, accumulation=1, deepspeed=None, tokenized_path=None, max_samples=20)
    t.train("an adapter to begin with", "adapter", 1, **base, save_strategy="no", no_resume_state=True)
    for i, (what, make, status, parts) in enumerate(ROWS):
        out = "row%d" % i
        change = make(out)
        before = half_written(out)
        args = t.train_args(out, **{**base, **change})
        judge(what, t.Run(args), status, parts)
        t.same(what + ": leaves nothing", half_written(out), before)
    for what, env, status, parts in ENVIRONMENTS:
        judge(what, t.Run(t.train_args("env", **base), **env), status, parts)
    for what, words, status, parts in COMMANDS:
        judge(what, t.Run(words), status, parts)

    # of two ranks the one at fault is named by the launcher, and its status is the launcher's
    run = t.launch("two", 2, steps=1, dataset="arithmetics")
    judge("two ranks", run, 2, ["arithmetics", "exited with status 2"], world=2)

    help_text = subprocess.run([t.flowtrain, "help"], stdout=subprocess.PIPE, text=True).stdout
    for status in range(5):
        t.check("help tells status %d" % status, re.search(r"^  %d  \w" % status, help_text, re.M) is not None)
    for command in ("train", "launch", "eval", "generate", "merge", "convert", "export", "plan", "probe", "forward", "init", "inspect", "tokenize"):
        for words in (["--help"], ["-h"], ["--bogus", "--help"]):
            told = subprocess.run([t.flowtrain, command] + words, stdout=subprocess.PIPE, text=True)
            t.check("%s %s" % (command, words), told.returncode == 0 and "flowtrain " + command in told.stdout, told.stdout)
        told = subprocess.run([t.flowtrain, command, "--bogus"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        t.check("%s refuses what it does not know" % command, told.returncode == 2 and "--bogus" in told.stdout, told.stdout)
    print("%d wrong inputs" % (len(ROWS) + len(ENVIRONMENTS) + len(COMMANDS) + 1))
    t.finish()


main()
