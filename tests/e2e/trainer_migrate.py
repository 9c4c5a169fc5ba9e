#!/usr/bin/env python3
"""What docs/migrate.md promises: files with the keys of other programs run as they are, and its messages are
what flowtrain says."""
import json
import os

import trainer_lib as t

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
GUIDE = open(os.path.join(ROOT, "docs/migrate.md"), encoding="utf-8").read()
BASE = {"model_name_or_path": "example/model", "stage": "sft", "do_train": True, "finetuning_type": "lora",
        "dataset": "arithmetic", "dataset_dir": "example/data", "template": "default", "max_steps": 1,
        "max_samples": 8, "per_device_train_batch_size": 1, "output_dir": "wrong"}
ZERO3 = {"zero_optimization": {"stage": 3}}


def shipped():
    """The files of examples/train, on two ranks, with nothing changed."""
    folder = os.path.join(ROOT, "examples/train")
    for name in sorted(os.listdir(folder)):
        run = t.Run(["launch", "--nproc_per_node", "2", "--standalone", "--", "train", os.path.join(folder, name)])
        t.check(name + ": ends well", run.wait() == 0, run.text()[-2000:])
        out = "saves/example/lora/" + name[len("lora_"):-len(".yaml")]
        t.check(name + ": an adapter", os.path.exists(out + "/adapter_model.safetensors"))
        with open(out + "/trainer_state.json") as f:
            t.check(name + ": losses", any("loss" in row for row in json.load(f)["log_history"]))
        t.check(name + ": nothing is unknown", "unknown" not in run.text(), run.text()[-2000:])


def dense():
    """The same file with a dense model and the templates of two families."""
    file = os.path.join(ROOT, "examples/train/lora_sft.yaml")
    for template in ("llama3", "qwen3_nothink"):
        out = "saves/" + template
        run = t.Run(["launch", "--nproc_per_node", "2", "--standalone", "--", "train", file, "dataset_dir=llama/data",
                     "model_name_or_path=llama/model", "template=" + template, "output_dir=" + out,
                     "learning_rate=1e-3", "num_train_epochs=4"])
        t.check(template + ": ends well", run.wait() == 0, run.text()[-2000:])
        with open(out + "/trainer_state.json") as f:
            losses = [row["loss"] for row in json.load(f)["log_history"] if "loss" in row]
        t.check(template + ": the loss falls", len(losses) > 2 and losses[-1] < losses[0], losses)


def packed():
    """Rows of examples: fewer of them, and the loss of the first step is that of the same examples unpacked."""
    flags = ["train"] + [w for k, v in BASE.items() if k not in ("max_steps", "output_dir") for w in ("--" + k, str(v))]
    flags += ["--disable_shuffling", "--max_steps", "1", "--logging_steps", "1", "--lr_scheduler_type", "constant"]
    losses = {}
    for what, more in (("rows", ["--packing", "--cutoff_len", "4096"]), ("examples", ["--gradient_accumulation_steps", "8"])):
        run = t.Run(flags + more + ["--output_dir", what])
        t.check("packing: %s end well" % what, run.wait() == 0, run.text()[-2000:])
        t.has("packing: number of " + what, run.text(), "Num examples = %d" % (1 if what == "rows" else 8))
        with open(what + "/trainer_state.json") as f:
            losses[what] = json.load(f)["log_history"][0]["loss"]
    t.check("packing: the loss is the same", abs(losses["rows"] - losses["examples"]) < 1e-5, losses)


def values():
    """Values of a file and of the words behind it are those of YAML 1.1, as LLaMA-Factory reads them."""
    with open("values.yaml", "w") as f:
        f.write("\n".join("%s: %s" % (k, str(v).lower() if v is True else v) for k, v in BASE.items() if k not in ("max_samples", "do_train")))
        f.write("\ndo_train: on\nbf16: off\n<<: {lora_rank: 02, lora_alpha: 0x10}\nlogging_steps: 1_0\nrun_name: ${stage}\n")
    run = t.Run(["train", "values.yaml", "lora_target=[q_a_proj,kv_b_proj]", "dataset=[arithmetic]", "report_to=[none]",
                 "max_samples=1:30", "seed=017", "overwrite_output_dir=yes", "output_dir=values"])
    t.check("values: ends well", run.wait() == 0, run.text()[-2000:])
    t.has("values: 1:30", run.text(), "Num examples = 90")
    t.has("values: what refers to another one", run.text(), "--run_name ${stage}: ${…} is text, nothing is put in its place")
    with open("values/adapter_config.json") as f:
        adapter = json.load(f)
    t.same("values: a merge key, octal and hexadecimal numbers, a list", [adapter["r"], adapter["lora_alpha"], sorted(adapter["target_modules"])],
           [2, 16, ["kv_b_proj", "q_a_proj"]])


def words(**more):
    """A file of arguments."""
    return {k: v for k, v in dict(BASE, **more).items() if v is not None}


def info(**entry):
    with open("example/data/dataset_info.json", "w") as f:
        json.dump({"arithmetic": dict({"file_name": "arithmetic.jsonl"}, **entry)}, f)


def messages():
    rows = [
        (words(lora_rnak=8), "unknown argument --lora_rnak: did you mean --lora_rank?"),
        (words(stage="dpo"), "--stage dpo: only sft and pt are done"),
        (words(finetuning_type="oft"), "--finetuning_type oft: only lora, full and freeze are done"),
        (words(quantization_bit=4), "--quantization_bit 4 is not done"),
        (words(optim="adafactor"), "--optim adafactor: expected one of adamw_torch"),
        (words(report_to="wandb"), "one of none, tensorboard"),
        (words(push_to_hub=True), "--push_to_hub true is not done"),
        (words(template=None), "--template is missing"),
        (words(streaming=True, max_steps=-1, max_samples=None), "--streaming needs --max_steps"),
        (words(template="deepseek4"), "unknown template 'deepseek4'"),
        (words(dataset_dir="REMOTE:a/b"), "nothing is downloaded, give a local folder with a dataset_info.json"),
        (words(model_name_or_path="Qwen/Qwen3-4B"), "nothing is downloaded, give a folder with config.json, safetensors and tokenizer.json"),
        (words(dataset="arithmetics"), "Undefined dataset arithmetics in dataset_info.json."),
        (words(deepspeed=dict(ZERO3, gradient_accumulation_steps=3)),
         "Please correct the following DeepSpeed config values that mismatch TrainingArguments values"),
        (words(deepspeed={"train_batch_size": "auto"}),
         "Please specify the ZeRO optimization config in the DeepSpeed config."),
        (words(deepspeed=dict(ZERO3, tensor_parallel={"autotp_size": 2})),
         "tensor_parallel: tensor parallelism is not done, use ZeRO stage 3"),
        (words(lora_target="wq,wk"), "LoRA targets (wq, …) match no module of the model"),
        (words(output_dir="saves/example/lora/sft"), "belongs to another run"),
    ]
    for k, (args, message) in enumerate(rows):
        with open("args-%d.json" % k, "w") as f:
            json.dump(args, f)
        refused("args-%d.json" % k, message)
    for entry, message in ((dict(columns={"prompt": "q", "response": "r"}), "has the column 'q', its prompt"),
                           (dict(file_name="empty.jsonl"), "Cannot find valid samples"),
                           (dict(hf_hub_url="a/b"), "hf_hub_url: nothing is downloaded, give file_name"),
                           (dict(file_name="../model/config.bin"),
                            "only .json, .jsonl, .csv and .txt files are done, also packed as .gz or .zst, and .parquet and .arrow files"),
                           (dict(file_name="a.parquet"), "a Python with pyarrow reads .parquet files, but"),
                           (dict(file_name="twice.jsonl"), "stands twice in the record, and datasets refuses such a file")):
        if "file_name" in entry:
            open("example/model/config.bin", "w").close()
            open("example/data/a.parquet", "w").close()
            os.environ["FLOWTRAIN_PYTHON"] = "/nowhere/python3"
            with open("example/data/twice.jsonl", "w") as f:
                f.write('{"instruction": "a", "output": "b", "output": "c"}\n')
            with open("example/data/empty.jsonl", "w") as f:
                f.write('{"instruction": "a", "output": null}\n')
        info(**entry)
        with open("args.json", "w") as f:
            json.dump(words(overwrite_cache=True), f)
        refused("args.json", message)


def refused(file, message):
    run = t.Run(["train", file])
    t.same(message + ": exit status", run.wait(), 2)
    t.has(message, run.text(), message)
    t.check(message + ": the guide has it", "`%s`" % message in GUIDE)


def main():
    t.begin()
    t.check("the example", t.Run(["init", "--example", "example"]).wait() == 0)
    t.check("the dense example", t.Run(["init", "--example", "llama", "--model", "llama"]).wait() == 0)
    shipped()
    dense()
    packed()
    values()
    messages()
    t.finish()


main()
