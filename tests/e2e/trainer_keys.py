#!/usr/bin/env python3
"""Files with the keys that LLaMA-Factory's own example files have, beside those of examples/train: texts to pretrain on,
data sets for evaluation, tokens kept in a folder, a stream, a DeepSpeed file and a state to go on from."""
import json
import os
import re

import trainer_lib as t

BASE = {"model_name_or_path": "ex/model", "trust_remote_code": True, "stage": "sft", "do_train": True, "finetuning_type": "lora",
        "lora_rank": 8, "lora_target": "all", "dataset": "arithmetic", "dataset_dir": "ex/data", "template": "default",
        "cutoff_len": 64, "max_samples": 16, "overwrite_cache": True, "preprocessing_num_workers": 16,
        "dataloader_num_workers": 4, "logging_steps": 1, "save_steps": 500, "plot_loss": True, "overwrite_output_dir": True,
        "save_only_model": False, "report_to": "none", "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2,
        "learning_rate": 1.0e-4, "num_train_epochs": 1.0, "lr_scheduler_type": "cosine", "warmup_ratio": 0.1, "bf16": True,
        "ddp_timeout": 180000000, "resume_from_checkpoint": None}
TEXTS = {"stage": "pt", "dataset": "texts", "template": None}
STREAM = {"streaming": True, "buffer_size": 8, "max_samples": None, "max_steps": 6}


def begin(out, ranks=1, **more):
    """Starts a run of a file with these keys."""
    args = {k: v for k, v in dict(BASE, output_dir=out, **more).items() if k not in more or v is not None}
    file = out.replace("/", "-") + ".json"
    with open(file, "w") as f:
        json.dump(args, f)
    head = ["launch", "--nproc_per_node", str(ranks), "--standalone", "--"] if ranks > 1 else []
    return t.Run(head + ["train", file])


def train(out, **more):
    """Runs to the end; the state that it leaves."""
    run = begin(out, **more)
    if not t.check(out + ": ends well", run.wait() == 0, run.text()[-2000:]):
        return {"log_history": []}
    t.check(out + ": an adapter", os.path.exists(out + "/adapter_model.safetensors"))
    with open(out + "/trainer_state.json") as f:
        return json.load(f)


def losses(state):
    return [row["loss"] for row in state["log_history"] if "loss" in row]


def evaluations(state):
    return [row["eval_loss"] for row in state["log_history"] if "eval_loss" in row]


def theirs():
    special = '{"eos_token": "<｜end▁of▁sentence｜>"}\n'
    with open("ex/model/special_tokens_map.json", "w") as f:
        f.write(special)
    train("pretrain", **TEXTS)
    state = train("evaluation", eval_dataset="arithmetic", per_device_eval_batch_size=1, eval_strategy="steps", eval_steps=4)
    t.check("evaluation: a loss", any("eval_loss" in row for row in state["log_history"]))
    with open("evaluation/README.md") as f:
        card = f.read()
    for part in ("| data set | `arithmetic` |", "| eval_loss | ", "| train_loss | ", "| steps | 8 of 8 |"):
        t.has("the card: " + part, card, part)
    with open("evaluation/chat_template.jinja") as f:
        t.has("the chat template", f.read(), "'Human: ' + content")
    for folder in ("evaluation", "evaluation/checkpoint-8"):
        with open(folder + "/special_tokens_map.json") as f:
            t.same(folder + ": special_tokens_map.json", f.read(), special)
    run = begin("words", template="llama3")
    t.check("words: ends well", run.wait() == 0, run.text()[-2000:])
    t.has("words: they are told", run.text(), "the tokenizer lacks stop words, which are tokens ")
    for folder in ("words", "words/checkpoint-8"):
        with open(folder + "/tokenizer_config.json") as f, open(folder + "/tokenizer.json") as g:
            config, added = json.load(f), {one["content"]: (one["id"], one["special"]) for one in json.load(g)["added_tokens"]}
        t.same(folder + ": eos", config["eos_token"], "<|eot_id|>")
        t.same(folder + ": other stop words", config["additional_special_tokens"], ["<|eom_id|>"])
        t.same(folder + ": their ids", (added["<|eot_id|>"], added["<|eom_id|>"]), ((456, True), (457, True)))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        t.same("a template that changes nothing: " + name, t.file_bytes("evaluation/" + name), t.file_bytes("ex/model/" + name))
    train("tokens", tokenized_path="kept")
    t.check("tokens: they are kept", os.path.isdir("kept/cache"))
    with open("ds.json", "w") as f:
        json.dump({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
                   "gradient_clipping": "auto", "zero_allow_untested_optimizer": True, "bf16": {"enabled": "auto"},
                   "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}}}, f)
    train("zero", ranks=2, deepspeed="ds.json")


def stream():
    """A stream goes on from a checkpoint as it went, and on two ranks; its order is another one than the file's."""
    first = train("stream", save_steps=2, **STREAM)
    t.same("stream: an epoch is a share of all steps", first["epoch"], 1.0)
    t.same("stream: epochs", first["num_train_epochs"], (1 << 63) - 1)
    t.check("stream: six losses", len(losses(first)) == 6, losses(first))
    os.rename("stream/checkpoint-6", "gone")
    again = train("stream", save_steps=2, overwrite_output_dir=False, resume_from_checkpoint="stream/checkpoint-2", **STREAM)
    t.same("stream: resumed as it went", losses(again), losses(first))
    two = train("two", ranks=2, gradient_accumulation_steps=1, **STREAM)
    t.same("stream: two ranks as one", losses(two), losses(first))
    other = train("buffer", **dict(STREAM, buffer_size=16384))
    t.check("stream: another buffer, another order", losses(other) != losses(first))
    train("texts", **dict(STREAM, **TEXTS), packing=False)


def stream_rows():
    """Rows of texts, and of examples, that a stream makes anew in each epoch; two data sets; records for evaluation, which
    are not those of training; a run goes on in the middle of the second epoch."""
    rows = dict(STREAM, per_device_eval_batch_size=4, eval_strategy="steps", eval_steps=3, eval_on_start=True,
                gradient_accumulation_steps=1)
    train("rows of texts", **dict(STREAM, **TEXTS))
    for what, more in (("rows", {"packing": True, "cutoff_len": 96, "val_size": 5, "preprocessing_batch_size": 8, "max_steps": 12,
                                 "dataset": "few"}),
                       ("sets", {"val_size": 3, "dataset": "few,five", "mix_strategy": "interleave_over",
                                 "interleave_probs": "0.7,0.3"})):
        args = dict(rows, save_steps=2, **more)
        first = train(what, **args)
        t.check(what + ": evaluations", len(evaluations(first)) == args["max_steps"] // 3 + 1, evaluations(first))
        t.check(what + ": losses", len(losses(first)) == args["max_steps"] and all(0 < x < 20 for x in losses(first)))
        os.rename(what + "/checkpoint-%d" % args["max_steps"], what + "-gone")
        again = train(what, **dict(args, overwrite_output_dir=False, resume_from_checkpoint=what + "/checkpoint-4"))
        t.same(what + ": resumed as it went", losses(again), losses(first))
        two = train(what + " of two", ranks=2, **args)
        t.same(what + ": two ranks evaluate the same", evaluations(two)[:1], evaluations(first)[:1])
    for packing, want in ((True, [4]), (False, [5])):
        run = begin("evaluated", **dict(STREAM, packing=packing, cutoff_len=96, val_size=5, dataset="few", do_eval=True, max_steps=1,
                                        preprocessing_batch_size=8))
        t.same("records for evaluation, packed %s: exit status" % packing, run.wait(), 0)
        t.same("records for evaluation, packed %s" % packing,
               [int(n) for n in re.findall(r"Running Evaluation \*\*\*\*\*\n.*Num examples = (\d+)", run.text())], want)
    held = dict(STREAM, packing=False, val_size=3, eval_on_start=True, eval_strategy="no", max_steps=1, mix_strategy="interleave_over")
    alone = evaluations(train("held of one", **dict(held, dataset="few")))
    both = evaluations(train("held of two", **dict(held, dataset="few,five", interleave_probs="0.999999,0.000001")))
    t.check("records for evaluation are drawn as those of training", len(alone) == 1 and both == alone, (both, alone))
    run = begin("share", val_size=0.1, **STREAM)
    t.same("a share of a stream: exit status", run.wait(), 2)
    t.has("a share of a stream", run.text(), "a number of records is taken, not a share")


def short_stream():
    """Of 5 records, one of which is invalid, in batches of 3 each epoch has two, the second of one sample."""
    with open("ex/data/five.jsonl", "w") as f:
        f.writelines('{"instruction": "say %d", "output": "%s"}\n' % (k, "six " * (k + 1)) for k in range(4))
        f.write('{"instruction": "no answer", "output": null}\n')
    with open("ex/data/dataset_info.json") as f:
        info = json.load(f)
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(dict(info, five={"file_name": "five.jsonl"}), f)
    state = train("short", dataset="five", per_device_train_batch_size=3, gradient_accumulation_steps=1, **STREAM)
    t.same("short stream: steps", state["global_step"], 6)
    t.check("short stream: losses of each epoch", len(losses(state)) == 6, losses(state))


def loraplus():
    """Two rates: by one rank or two, in one piece or two; a ratio of 1 is none."""
    keys = {"bf16": False, "max_steps": 6, "save_steps": 2, "learning_rate": 1.0e-3, "max_samples": 12}
    plain = losses(train("one rate", **keys))
    t.same("a ratio of 1 is none", losses(train("ratio of 1", loraplus_lr_ratio=1, **keys)), plain)
    first = train("loraplus", loraplus_lr_ratio=16.0, loraplus_lr_embedding=2.0e-6, **keys)
    t.check("loraplus: another course", losses(first)[:1] == plain[:1] and losses(first)[2] < plain[2], (losses(first), plain))
    t.same("loraplus: the rate that is told is A's", [row["learning_rate"] for row in first["log_history"] if "loss" in row],
           [row["learning_rate"] for row in train("one rate again", **keys)["log_history"] if "loss" in row])
    two = train("loraplus of two", ranks=2, loraplus_lr_ratio=16.0, **dict(keys, gradient_accumulation_steps=1))
    t.check("loraplus: two ranks as one, but for sums in another order", len(losses(two)) == 6 and
            all(abs(a / b - 1) < 1e-6 for a, b in zip(losses(two), losses(first))), (losses(two), losses(first)))
    os.rename("loraplus/checkpoint-6", "loraplus-gone")
    again = dict(keys, overwrite_output_dir=False, resume_from_checkpoint="loraplus/checkpoint-2")
    t.same("loraplus: resumed as it went", losses(train("loraplus", loraplus_lr_ratio=16.0, **again)), losses(first))
    for more, want in (({}, "--loraplus_lr_ratio=16 is only there"), ({"loraplus_lr_ratio": 8}, "--loraplus_lr_ratio is 16 there, 8 here")):
        run = begin("loraplus", **dict(again, **more))
        t.same("loraplus: another ratio, exit status", run.wait(), 2)
        t.has("loraplus: another ratio", run.text(), want)
    for more, want in (({"loraplus_lr_ratio": 0}, "--loraplus_lr_ratio 0: expected 1e-09 to"), ({"loraplus_lr_ratio": 2, "deepspeed": {
            "zero_optimization": {"stage": 3}, "scheduler": {"type": "WarmupLR", "params": {}}}}, "scheduler gives A and B one rate")):
        run = begin("refused", **dict(keys, **more))
        t.same("loraplus: exit status", run.wait(), 2)
        t.has("loraplus: refused", run.text(), want)


def main():
    t.begin()
    with open("ex/data/texts.jsonl", "w") as f:
        f.writelines('{"text": "%s"}\n' % ("seven boats %d cross the river " % k * 9) for k in range(40))
    with open("ex/data/dataset_info.json") as f:
        info = json.load(f)
    with open("ex/data/arithmetic.jsonl") as f, open("ex/data/few.jsonl", "w") as few:
        few.writelines(f.readlines()[:29])
    info["few"] = dict(info["arithmetic"], file_name="few.jsonl")
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(dict(info, texts={"file_name": "texts.jsonl", "columns": {"prompt": "text"}}), f)
    theirs()
    loraplus()
    stream()
    short_stream()
    stream_rows()
    t.finish()


main()
