#!/usr/bin/env python3
"""merge and export --check: each merged weight is W + s B A rounded once, in bf16, f32 and FP8 blocks; all
other tensors are the base's bytes; the merged model gives the logits and the answers of base and adapter.
"""
import json
import os
import re
import shutil
import struct
import subprocess

import trainer_lib as t
from fp8_lib import convert, e4m3, floats, read, write

SCALE = 2.0  # alpha/r of the adapter


def run(words, code=0):
    done = subprocess.run([t.flowtrain] + words, capture_output=True, text=True, timeout=600)
    t.same("exit status of %s" % " ".join(words), done.returncode, code)
    return done.stdout if code == 0 else done.stderr


def whole(folder):
    """All tensors of a model folder; those in shards are the index's."""
    names = sorted(n for n in os.listdir(folder) if n.endswith(".safetensors"))
    found = {}
    for name in names:
        part = read(os.path.join(folder, name))
        t.check("no tensor stands twice", not set(part) & set(found))
        found.update(part)
    if len(names) > 1:
        with open(folder + "/model.safetensors.index.json") as f:
            index = json.load(f)
        t.same("the index names all", sorted(index["weight_map"]), sorted(found))
        if folder != "fp8-base":  # which the test itself has written
            t.same("its sum", index["metadata"]["total_size"], sum(len(raw) for _, _, raw in found.values()))
            t.same("its parameters", index["metadata"]["total_parameters"],
                   sum(len(raw) // {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1}[dtype] for name, (dtype, _, raw) in found.items()
                       if "e_score_correction_bias" not in name))
    return found


def decoded(model, name, block):
    dtype, shape, raw = model[name]
    if dtype != "F8_E4M3":
        return floats(dtype, raw)
    scales = floats("F32", model[name + "_scale_inv"][2])
    width = model[name + "_scale_inv"][1][1]
    return [e4m3(code) * scales[i // shape[1] // block[0] * width + i % shape[1] // block[1]]
            for i, code in enumerate(raw)]


def deltas(adapter):
    """s B A of each adapted weight, by its name."""
    halves = t.tensors(adapter + "/adapter_model.safetensors")
    shapes = {k: v[1] for k, v in read(adapter + "/adapter_model.safetensors").items()}
    found = {}
    for key, A in halves.items():
        if not key.endswith("lora_A.weight"):
            continue
        B, other = halves[key.replace("lora_A", "lora_B")], key.replace("lora_A", "lora_B")
        r, cols = shapes[key]
        rows = shapes[other][0]
        module = key[len("base_model.model."):-len(".lora_A.weight")]
        found[module + ".weight"] = [SCALE * sum(B[i * r + k] * A[k * cols + j] for k in range(r))
                                     for i in range(rows) for j in range(cols)]
    return found


def check_weights(what, base, merged, adapter, block=None):
    before, after, change = whole(base), whole(merged), deltas(adapter)
    t.same(what + ": names, types and shapes", {k: v[:2] for k, v in after.items()}, {k: v[:2] for k, v in before.items()})
    changed = set(change) | {n + "_scale_inv" for n in change}
    t.same(what + ": other tensors", {k: v for k, v in after.items() if k not in changed},
           {k: v for k, v in before.items() if k not in changed})
    t.check(what + ": weights are adapted", len(change) >= 20 and all(before[n] != after[n] for n in change))
    worst = 0
    for name, delta in change.items():
        want = [w + d for w, d in zip(decoded(before, name, block), delta)]
        got = decoded(after, name, block)
        most = max(abs(x) for x in want)
        step = {"F32": 2.0 ** -22, "F16": 2.0 ** -11, "BF16": 2.0 ** -8, "F8_E4M3": 2.0 ** -4}[after[name][0]]
        for x, y in zip(got, want):  # half a step of the value, and below the smallest normal one of FP8
            off = abs(x - y) / (step * abs(y) + (most * 2.0 ** -15 if block else most * 2.0 ** -22))
            worst = max(worst, off)
    t.check(what + ": rounded once", worst <= 1.01, worst)


def same_model(what, base, merged, bound="0.25"):
    text = run(["export", "--check", "--model_name_or_path", base, "--adapter_name_or_path", "out", "--merged", merged,
                "--bound", bound])
    print(what + ": " + text.splitlines()[-1])
    return text


def as_type(source, target, dtype, place=None):
    """place: (name, element, value) of a weight that holds another value."""
    letter, word = {"F32": ("f", "float32"), "F16": ("e", "float16")}[dtype]
    os.mkdir(target)
    tensors = {}
    for name, (old, shape, raw) in read(source + "/model.safetensors").items():
        values = floats(old, raw)
        if place is not None and name == place[0]:
            values[place[1]] = place[2]
        tensors[name] = (dtype, shape, struct.pack("<%d%s" % (len(values), letter), *values))
    write(target + "/model.safetensors", tensors)
    for name in os.listdir(source):
        if name.endswith(".json"):
            with open(os.path.join(source, name)) as f, open(os.path.join(target, name), "w") as g:
                g.write(f.read().replace("bfloat16", word))


def half():
    """In f16, and where a sum is more than f16 holds."""
    ask = ["merge", "--model_name_or_path"]
    as_type("ex/model", "f16-base", "F16")
    run(ask + ["f16-base", "--adapter_name_or_path", "out", "--output", "f16"])
    check_weights("f16", "f16-base", "f16", "out")
    shutil.copytree("out", "large")
    with open("large/adapter_config.json") as f:
        config = json.load(f)
    with open("large/adapter_config.json", "w") as f:
        json.dump(dict(config, lora_alpha=config["lora_alpha"] * 10 ** 6), f)
    name, delta = sorted(deltas("out").items())[0]
    element = max(range(len(delta)), key=lambda i: delta[i])
    t.check("its sum is too large", 65504 + delta[element] * 10 ** 6 > 65520, delta[element])
    as_type("ex/model", "most-base", "F16", (name, element, 65504.0))
    text = run(ask + ["most-base", "--adapter_name_or_path", "large", "--output", "most"], 2)
    t.has("it is refused", text, "at element %d, which f16 cannot" % element)
    as_type("ex/model", "inf-base", "F32", (name, element, float("inf")))
    text = run(ask + ["inf-base", "--adapter_name_or_path", "out", "--output", "none"], 2)
    t.has("so is what is not finite", text, "at element %d, which is not finite" % element)


STACKS = """target                modules  PEFT         vLLM                         SGLang
q_a_proj                    4  yes          yes                          yes
q_b_proj                    4  yes          yes                          yes
kv_a_proj_with_mqa          4  yes          yes                          yes
kv_b_proj                   4  yes          loaded, not applied: merge   since May 2026
o_proj                      4  yes          yes                          yes
"""
DENSE = """target                modules  PEFT         vLLM                         SGLang
q_proj                      4  yes          yes                          yes
k_proj                      4  yes          yes                          yes
v_proj                      4  yes          yes                          yes
o_proj                      4  yes          yes                          yes
gate_proj                   4  yes          yes                          yes
up_proj                     4  yes          yes                          yes
down_proj                   4  yes          yes                          yes
rank 40: vLLM has to be started with --max-lora-rank 40 or more
"""


def stacks():
    """The whole table, of a model with experts and of one without."""
    words = ["export", "--check", "--model_name_or_path", "ex/model", "--adapter_name_or_path"]
    t.same("stacks", run(words + ["out"]), STACKS)
    shutil.copytree("out", "all")
    with open("all/adapter_config.json") as f:
        config = json.load(f)
    with open("all/adapter_config.json", "w") as f:
        json.dump(dict(config, r=4, rank_pattern={"o_proj": 40}, target_modules="all-linear"), f)
    t.same("stacks of all linears", run(words + ["all"]), STACKS + "".join(
        "%-20s        4  up to 0.18   yes                          yes\n" % name for name in ("gate_proj", "up_proj", "down_proj")) +
        DENSE.splitlines()[-1] + "\n")
    t.check("a model without experts", t.Run(["init", "--example", "plain", "--model", "llama"]).wait() == 0)
    t.same("stacks of a model without experts", run(words[:3] + ["plain/model", "--adapter_name_or_path", "all"]), DENSE)


def companions():
    """What lies beside the weights and goes along; what does not."""
    shutil.copytree("ex/model", "beside")
    kept = ["added.json", "chat_template.jinja", "merges.txt", "tokenizer.model", "modeling.py", "README.md", "config.json",
            "tokenizer.json", "tokenizer_config.json"]
    for name in kept[:6] + ["pytorch_model.bin", "model.safetensors.index.json", "json"]:
        with open("beside/" + name, "w") as f:
            f.write('{"weight_map": {}, "of": "%s"}' % name)
    os.remove("beside/model.safetensors.index.json")
    tensors = read("ex/model/model.safetensors")
    t.same("what is said", run(["merge", "--model_name_or_path", "beside", "--adapter_name_or_path", "out", "--output",
                                "new/beside"]),
           "merged 20 weights of %d tensors into new/beside\n" % len(tensors))
    t.same("what goes along", sorted(os.listdir("new/beside")), sorted(kept + ["model.safetensors"]))
    for name in kept:
        t.same(name, t.file_bytes("new/beside/" + name), t.file_bytes("beside/" + name))
    run(["merge", "--model_name_or_path", "bf16", "--adapter_name_or_path", "out", "--output", "new/joined"])
    t.same("no index of shards that are one now", sorted(os.listdir("new/joined")),
           ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
    text = run(["convert", "--model_name_or_path", "beside", "--to", "fp8", "--output", "new/coded", "--max_shard_size", "200KB"])
    coded = sum(name.endswith("_proj.weight") or name.endswith("_with_mqa.weight") for name in tensors)
    t.same("what is said of a conversion", text, "converted %d weights to fp8 in new/coded\n" % coded)
    t.same("what goes along with a conversion", sorted(n for n in os.listdir("new/coded") if not n.startswith("model-0")),
           sorted(kept + ["model.safetensors.index.json"]))
    for name in kept:
        if name != "config.json":
            t.same("converted, " + name, t.file_bytes("new/coded/" + name), t.file_bytes("beside/" + name))


def bounds():
    """What the figures say, and the bound between kept and lost."""
    words = ["export", "--check", "--model_name_or_path", "ex/model", "--adapter_name_or_path", "out", "--merged", "bf16"]
    text = run(words)
    line = text[len(STACKS):]
    found = re.match(r"logits of 64 tokens, relative to those of base and adapter: bf16 is off by (\S+), the base alone by "
                     r"(\S+)\n$", line)
    t.check("the figures", text.startswith(STACKS) and found, text)
    lost, moved = float(found.group(1)), float(found.group(2))
    t.check("much moved, little lost", 0 < lost < 0.02 < 0.2 < moved, line)
    for part, code in ((1.02, 0), (0.98, 2)):
        bound = "%.4g" % (lost / moved * part)
        done = subprocess.run([t.flowtrain] + words + ["--bound", bound], capture_output=True, text=True)
        t.same("--bound %s of what is lost" % part, (done.returncode != 0, done.stdout), (code != 0, text))
        said = re.search(r"bf16 has lost (\S+) of what the adapter changes, more than --bound (\S+): ", done.stderr)
        t.check("it is said", (said is not None) == (code != 0) and (said is None or (
            said.group(2) == bound and abs(float(said.group(1)) * moved / lost - 1) < 0.02)), done.stderr)
    for bound in ("0", "-1", "much", "nan"):
        t.has("--bound " + bound, run(words + ["--bound", bound], 2), "--bound is '%s', expected a number above 0" % bound)
    os.mkdir("fewer")
    for name in os.listdir("ex/model"):
        shutil.copy("ex/model/" + name, "fewer")
    with open("fewer/config.json") as f:
        config = json.load(f)
    with open("fewer/config.json", "w") as f:
        json.dump(dict(config, num_experts_per_tok=config["num_experts_per_tok"] - 1), f)
    t.has("other experts a token", run(words[:-1] + ["fewer"], 2), "--merged fewer is no merge of ex/model: its num_experts_per_tok is "
          "%d, that of the base %d" % (config["num_experts_per_tok"] - 1, config["num_experts_per_tok"]))


def types():
    merge = ["merge", "--adapter_name_or_path", "out", "--model_name_or_path"]
    t.same("what is said", run(merge + ["ex/model", "--output", "bf16", "--max_shard_size", "300KB"]),
           "merged 20 weights of %d tensors into bf16\n" % len(read("ex/model/model.safetensors")))
    t.check("several shards", len([n for n in os.listdir("bf16") if n.startswith("model-0000")]) > 3)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        t.same(name, t.file_bytes("bf16/" + name), t.file_bytes("ex/model/" + name))
    check_weights("bf16", "ex/model", "bf16", "out")
    text = same_model("bf16", "ex/model", "bf16")
    t.has("the table of stacks", text, "kv_b_proj                   4  yes          loaded, not applied: merge")
    as_type("ex/model", "f32-base", "F32")
    run(merge + ["f32-base", "--output", "f32"])
    check_weights("f32", "f32-base", "f32", "out")
    same_model("f32", "f32-base", "f32", "1e-4")
    convert("ex/model", "fp8-base", "twin", [24, 32])
    run(merge + ["fp8-base", "--output", "fp8"])
    check_weights("fp8", "fp8-base", "fp8", "out", [24, 32])
    same_model("fp8", "fp8-base", "fp8", "0.9")


def answers():
    """In f32 the merged model's greedy answers are those of base and adapter."""
    ask = ["generate", "--template", "default", "--device", "cpu", "--dataset", "arithmetic", "--dataset_dir", "ex/data",
           "--max_samples", "6", "--max_new_tokens", "16", "--model_name_or_path"]
    t.same("answers", run(ask + ["f32"]), run(ask + ["f32-base", "--adapter_name_or_path", "out"]))


MERGE = """### Note: DO NOT use quantized model or quantization_bit when merging lora adapters

### model
model_name_or_path: ex/model
adapter_name_or_path: out
template: default
trust_remote_code: true

### export
export_dir: by-file
export_size: 5
export_device: cpu  # choices: [cpu, auto]
export_legacy_format: false
"""


def merge(words, code=0):
    done = subprocess.run([t.flowtrain, "merge"] + words, capture_output=True, text=True, timeout=600)
    t.same("exit status of merge %s" % " ".join(words), done.returncode, code)
    return done.stdout + done.stderr


def files():
    """LLaMA-Factory's file of arguments for an export, unchanged but for the names."""
    with open("merge.yaml", "w") as f:
        f.write(MERGE)
    text = merge(["merge.yaml"])
    t.has("what has no effect", text, "--trust_remote_code has no effect: nothing remote is run\n")
    t.check("what is at its default is not told", "--export" not in text, text)
    t.check("export_size counts in GB", os.path.exists("by-file/model.safetensors"))
    t.same("weights by a file", whole("by-file"), whole("bf16"))
    with open("by-file/chat_template.jinja") as f:
        t.has("the template, which the base lacks", f.read(), "'Human: ' + content")
    t.check("without a template there is none", not os.path.exists("bf16/chat_template.jinja"))
    text = merge(["merge.yaml", "--output", "flag", "export_legacy_format=true", "--max_shard_size", "300KB", "template=null"])
    t.has("a word behind the file", text, "--export_legacy_format has no effect: files are always safetensors\n")
    t.check("flags go before the file", len([n for n in os.listdir("flag") if n.startswith("model-0000")]) > 3)
    t.check("null takes the file's value back", not os.path.exists("flag/chat_template.jinja"))
    merge(["--model_name_or_path", "ex/model", "--adapter_name_or_path", "out", "--export_dir", "named", "--export_size", "1"])
    t.same("weights by the file's names as flags", whole("named"), whole("bf16"))
    merge(["merge.yaml", "--output", "ends", "template=qwen"])
    with open("ends/tokenizer_config.json") as f, open("ends/tokenizer.json") as g:
        t.same("the template's eos", json.load(f)["eos_token"], "<|im_end|>")
        t.same("it is a token", [one["id"] for one in json.load(g)["added_tokens"] if one["content"] == "<|im_end|>"], [456])
    t.same("without it the base's", t.file_bytes("flag/tokenizer_config.json"), t.file_bytes("ex/model/tokenizer_config.json"))
    for line, want in (("export_quantization_bit: 4\nexport_quantization_dataset: data/c4_demo.jsonl",
                        "wrong.yaml:14:1: --export_quantization_bit 4 is not done: the merged model has the types of the base"),
                       ("export_hub_model_id: me/mine", "--export_hub_model_id me/mine is not done: nothing is uploaded"),
                       ("infer_dtype: float16", "--infer_dtype float16 is not done"),
                       ("quantization_bit: 4", "--quantization_bit 4 is not done: base weights stay"),
                       ("export_sise: 5", "wrong.yaml:14:1: unknown argument --export_sise: did you mean --export_size?")):
        with open("wrong.yaml", "w") as f:
            f.write(MERGE.replace("by-file", "x") + line + "\n")
        t.has(line, merge(["wrong.yaml"], 2), want)
    with open("wrong.yaml", "w") as f:
        f.write(MERGE.replace("by-file", "x").replace("template: default", "template: qwen3_vl_nothing"))
    t.has("a template that is not there", merge(["wrong.yaml"], 2), "unknown template 'qwen3_vl_nothing'")
    with open("wrong.yaml", "w") as f:
        f.write(MERGE.replace("adapter_name_or_path: out\n", "").replace("by-file", "x"))
    with open("several.yaml", "w") as f:
        f.write(MERGE.replace("adapter_name_or_path: out", "adapter_name_or_path: [out, out]").replace("by-file", "x"))
    t.has("several adapters", merge(["several.yaml"], 2), "--adapter_name_or_path out,out: one adapter is taken")


def plain():
    """A model without an adapter: the same tensors in files of another size, by merge and by export, over older ones."""
    with open("plain.yaml", "w") as f:
        f.write(MERGE.replace("adapter_name_or_path: out\n", "").replace("by-file", "copied"))
    base = whole("ex/model")
    t.has("what is said", merge(["plain.yaml", "--max_shard_size", "300KB"]), "copied %d tensors into copied\n" % len(base))
    t.check("several shards", len([n for n in os.listdir("copied") if n.startswith("model-0000")]) > 3)
    t.same("in shards", whole("copied"), base)
    t.check("the template, which the base lacks", os.path.exists("copied/chat_template.jinja"))
    t.same("config.json", t.file_bytes("copied/config.json"), t.file_bytes("ex/model/config.json"))
    with open("again.yaml", "w") as f:
        f.write("model_name_or_path: copied\ntemplate: default\nexport_dir: one\nexport_size: 1\n")
    t.has("export reads the same file", run(["export", "again.yaml"]), "copied %d tensors into one\n" % len(base))
    t.same("from shards to one", whole("one"), base)
    run(["export", "again.yaml", "--max_shard_size", "300KB"])
    t.check("older files are gone", not os.path.exists("one/model.safetensors") and os.path.exists("one/model.safetensors.index.json"))
    t.same("over older files", whole("one"), base)
    run(["export", "again.yaml"])
    t.same("and back", sorted(n for n in os.listdir("one") if n.startswith("model")), ["model.safetensors"])
    run(["export", "merge.yaml", "--output", "exported"])
    t.same("export takes an adapter as merge does", whole("exported"), whole("bf16"))
    t.same("a tied model", t.Run(["init", "--example", "ties", "--model", "llama"]).wait(), 0)
    shutil.copytree("ties/model", "twice")
    both = read("twice/model.safetensors")
    alone = dict(both)
    both["lm_head.weight"] = both["model.embed_tokens.weight"]
    write("twice/model.safetensors", both)
    run(["export", "--model_name_or_path", "twice", "--output", "untwice"])
    t.same("its head is left out", whole("untwice"), alone)
    for words, want in (([], "--model_name_or_path and --output write a model, --from OUT/resume that of a training, --check compares"),
                        (["again.yaml", "--output", "copied"], "--output copied is the base itself"),
                        (["again.yaml", "--output", "out"], "--output out holds an adapter"),
                        (["again.yaml", "--save_dtype", "float32"], "--save_dtype belongs to --from"),
                        (["again.yaml", "export_quantization_bit=4"], "--export_quantization_bit 4 is not done")):
        t.has(" ".join(words), run(["export"] + words, 2), want)


def errors():
    t.check("a model of another kind", t.Run(["init", "--example", "dense", "--model", "llama"]).wait() == 0)
    base = ["merge", "--model_name_or_path", "ex/model", "--adapter_name_or_path", "out"]
    coding = ["convert", "--model_name_or_path", "ex/model", "--to", "fp8", "--output"]
    for words, want in ((base, "--output are needed"), (base + ["--output", "ex/model"], "is the base itself"),
                        (base + ["--output", "x", "--max_shard_size", "none"], "--max_shard_size is 'none'"),
                        (base + ["--output", "x", "--max_shard_size", "0"], "--max_shard_size is '0', expected a size as 5GB"),
                        (coding[:-1], "--model_name_or_path, --to and --output are needed"),
                        (coding + ["ex/model"], "--output ex/model is the checkpoint itself: give another folder"),
                        (coding + ["x", "--max_shard_size", "0"], "--max_shard_size is '0', expected a size as 5GB"),
                        (coding + ["x", "--to", "bf16"], "ex/model is without FP8 already"),
                        (coding + ["x", "--to", "int8"], "--to is 'int8', expected fp8 or bf16"),
                        (base + ["--output", "out"], "--output out holds an adapter"),
                        (["export", "--check", "--model_name_or_path", "ex/model", "--adapter_name_or_path", "out", "--merged",
                          "dense/model"], "--merged dense/model is no merge of ex/model: its "),
                        (base[:3] + ["--adapter_name_or_path", "none", "--output", "x"], "none/adapter_config.json"),
                        (["export", "--model_name_or_path", "ex/model", "--adapter_name_or_path", "out"], "--check"),
                        (["export", "--check"], "are needed"),
                        (["export", "--check", "--model_name_or_path", "ex/model", "--adapter_name_or_path", "out",
                          "--merged", "ex/model"], "has lost 1 of what the adapter changes")):
        t.has(" ".join(words), run(words, code=2), want)
    for rank in (16, 17):  # vLLM serves ranks up to 16 as it is
        shutil.rmtree("ranked", ignore_errors=True)
        shutil.copytree("out", "ranked")
        with open("ranked/adapter_config.json") as f:
            config = json.load(f)
        with open("ranked/adapter_config.json", "w") as f:
            json.dump(dict(config, r=rank), f)
        text = run(["export", "--check", "--model_name_or_path", "ex/model", "--adapter_name_or_path", "ranked"])
        t.same("rank %d" % rank, "--max-lora-rank %d" % rank in text, rank > 16)
    for part in ("layers.99.self_attn.o_proj", "layers.1.self_attn.no_proj"):
        shutil.rmtree("more", ignore_errors=True)
        shutil.copytree("out", "more")
        tensors = read("out/adapter_model.safetensors")
        for half in ("A", "B"):
            found = next(n for n in tensors if n.endswith("o_proj.lora_%s.weight" % half))
            tensors["base_model.model.model.%s.lora_%s.weight" % (part, half)] = tensors[found]
        write("more/adapter_model.safetensors", tensors)
        t.has("an adapter of %s, which the base lacks" % part, run(base[:4] + ["more", "--output", "x"], code=2),
              "base_model.model.model.%s.lora_" % part)
    t.check("nothing was written", not os.path.exists("x"))


def main():
    t.begin()
    t.train("an adapter", "out", 1, steps=12, accumulation=2, learning_rate="1e-2", save_strategy="no", lora_dropout=0)
    types()
    stacks()
    companions()
    bounds()
    half()
    answers()
    files()
    plain()
    errors()
    t.finish()


main()
