#!/usr/bin/env python3
"""Stage pt: texts of .jsonl and .txt files, laid end to end and cut, or one by one; evaluation with its
perplexity; what belongs to conversations is refused."""
import json
import math
import subprocess

import trainer_lib as t

TEXTS = ["%d plus %d is %d, and that is all there is to say about it." % (i, 2 * i, 3 * i) for i in range(60)]
CUTOFF = 32


def tokens_of(texts):
    """Ids of each by `flowtrain tokenize`."""
    run = subprocess.run([t.flowtrain, "tokenize", "--tokenizer", "ex/model"], input="".join(
        json.dumps(text) + "\n" for text in texts), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def make_data():
    with open("ex/data/dataset_info.json") as f:
        info = json.load(f)
    for name, file in (("texts", "texts.jsonl"), ("lines", "texts.txt"), ("long", "long.txt")):
        info[name] = {"file_name": file, "columns": {"prompt": "text"}}
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)
    with open("ex/data/texts.jsonl", "w") as f:
        f.write("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    with open("ex/data/texts.txt", "w") as f:
        f.write("\n".join(TEXTS) + "\n")
    with open("ex/data/long.txt", "w") as f:
        f.write(" ".join(TEXTS) + "\n")


def train(out, dataset, **more):
    more = dict(dict(stage="pt", template=None, cutoff_len=CUTOFF, accumulation=1, steps=2, lora_dropout=0,
                     tokenized_path=None), **more)
    return t.train(out, out, 1, dataset=dataset, **more).text()


def examples(text):
    return int(text.split("Num examples = ")[1].split()[0].replace(",", ""))


def eval_of(out, batch):
    """The loss of a text whose rows have equally many targets; the last batch of more than one is smaller."""
    text = train(out, "texts", steps=1, do_eval=True, eval_dataset="long", per_device_eval_batch_size=batch)
    rows = int(text.split("Running Evaluation")[1].split("Num examples = ")[1].split()[0])
    t.check("a smaller batch is left", batch == 1 or 0 < rows % batch < batch - 1, rows)
    with open(out + "/eval_results.json") as f:
        return json.load(f)["eval_loss"]


def main():
    t.begin()
    make_data()
    with open("ex/model/tokenizer_config.json") as f:
        eos = json.load(f)["eos_token"]
    lengths = [len(ids) for ids in tokens_of([text + (eos if isinstance(eos, str) else eos["content"])
                                              for text in TEXTS])]
    t.same("samples of texts end to end", examples(train("chunks", "texts")), sum(lengths) // CUTOFF)
    t.same("a packing that was asked for is one shorter", examples(train("shorter", "texts", packing="true")),
           sum(lengths) // (CUTOFF - 1))
    t.same("two together", examples(train("batches", "texts", preprocessing_batch_size=2)),
           sum(sum(lengths[i:i + 2]) // CUTOFF for i in range(0, 60, 2)))
    t.same("one by one", examples(train("single", "texts", packing="false")), len(TEXTS))
    train("lines", "lines")
    t.same("lines of a text file are texts", t.losses("lines"), t.losses("chunks"))
    t.check("losses", all(0 < loss < 10 for loss in t.losses("chunks")), t.losses("chunks"))

    train("eval", "texts", val_size=0.2, eval_strategy="steps", eval_steps=1)
    with open("eval/eval_results.json") as f:
        results = json.load(f)
    t.check("perplexity", math.isclose(results.get("eval_perplexity", 0), math.exp(results["eval_loss"]), rel_tol=1e-12),
            results)
    by_one, by_seven = [eval_of("batch-%d" % batch, batch) for batch in (1, 7)]
    t.check("a batch counts by its samples", math.isclose(by_one, by_seven, rel_tol=1e-6), (by_one, by_seven))
    for flag, value, want in (("neat_packing", "true", "--neat_packing belongs to --stage sft"),
                              ("mask_history", "true", "--mask_history belongs to --stage sft"),
                              ("stage", "dpo", "only sft and pt are done"),
                              ("cutoff_len", "100000", "which is not one sample of 100000: lower --cutoff_len")):
        run = t.launch("wrong", 1, launcher=("--max_restarts", "0"), **{**dict(
            stage="pt", dataset="texts", template=None, steps=1, tokenized_path=None), flag: value})
        t.check("refused: " + want, run.wait() != 0)
        t.has("refused", run.text(), want)
    t.finish()


main()
