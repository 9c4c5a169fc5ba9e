#!/usr/bin/env python3
"""generate and eval as a user calls them: the same answers and figures on 1, 2 and 3 ranks and for any
number of answers at once; stop strings, draws, the terminal; eval says what training said.

usage: trainer_generate.py BUILD [cuda]     (cuda: a few answers on the simulated GPU, which are the CPU's)
"""
import json
import os
import re
import shutil
import subprocess
import sys

import trainer_lib as t

MODEL = ["--model_name_or_path", "ex/model", "--template", "default", "--device", "cpu"]
ADAPTER = MODEL + ["--adapter_name_or_path", "out"]
DATA = ["--dataset", "few", "--dataset_dir", "ex/data"]


def run(words, world=1, code=0):
    launcher = ["launch", "--nproc_per_node", str(world), "--master_port", str(t.free_port()), "--"] if world > 1 else []
    done = subprocess.run([t.flowtrain] + launcher + words, capture_output=True, text=True, timeout=600)
    if done.returncode != code:
        t.check("exit status of %s" % " ".join(words), False, (done.returncode, done.stderr[-2000:]))
    return done.stdout if code == 0 else done.stderr


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def make_few():
    with open("ex/data/arithmetic.jsonl") as f:
        part = f.readlines()[:11]
    with open("ex/data/few.jsonl", "w") as f:
        f.writelines(part)
    with open("ex/data/dataset_info.json") as f:
        info = json.load(f)
    info["few"] = dict(info["arithmetic"], file_name="few.jsonl")
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)


def answers():
    words = ["generate"] + ADAPTER + DATA + ["--max_new_tokens", "24"]
    run(words + ["--output", "one.jsonl", "--batch", "1"])
    want = lines("one.jsonl")
    t.same("an answer a record", len(want), 11)
    t.check("prompts, answers and labels", all(set(a) == {"prompt", "predict", "finish", "label"} for a in want), want[0])
    t.check("answers differ, and end by themselves and at the limit", len({a["predict"] for a in want}) > 3 and
            {a["finish"] for a in want} == {"eos", "length"}, want)
    for world, batch in ((1, 8), (2, 3), (3, 2), (2, 1)):
        run(words + ["--output", "some.jsonl", "--batch", str(batch)], world)
        t.same("answers of %d ranks, %d at once" % (world, batch), lines("some.jsonl"), want)
    run(["generate"] + MODEL + DATA + ["--max_new_tokens", "24", "--output", "base.jsonl"])
    t.check("the base answers otherwise", [a["predict"] for a in lines("base.jsonl")] !=
            [a["predict"] for a in want])
    shutil.copytree("ex/model", "other")
    with open("other/generation_config.json", "w") as f:
        json.dump({"eos_token_id": list(range(10 ** 6, 10 ** 6 + 99))}, f)
    run([w if w != "ex/model" else "other" for w in words] + ["--output", "some.jsonl"])
    t.same("the tokenizer's token ends answers beside others", lines("some.jsonl"), want)
    return want


def cut():
    """Of a conversation that is cut inside of its second question the first answer is asked for."""
    with open("ex/data/dataset_info.json") as f:
        info = json.load(f)
    info["turns"] = {"file_name": "turns.json", "formatting": "sharegpt", "columns": {"messages": "conversations"}}
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)
    turns = ("human", "1?"), ("gpt", "7"), ("human", "what is all that there is to be said of 33 and of 89 then?"), ("gpt", "9")
    with open("ex/data/turns.json", "w") as f:
        json.dump([{"conversations": [{"from": who, "value": text} for who, text in turns]}], f)
    labels = {}
    for cutoff in (22, 25, 27, 60):
        run(["generate"] + MODEL + ["--dataset", "turns", "--dataset_dir", "ex/data", "--cutoff_len", str(cutoff),
                                    "--max_new_tokens", "1", "--output", "cut.jsonl"])
        labels[cutoff] = [a["label"] for a in lines("cut.jsonl")]
    t.same("labels by cutoff_len", labels, {22: ["7\n"], 25: ["7\n"], 27: ["7\n"], 60: ["9\n"]})


def as_the_reference():
    """Greedy answers in f32 are transformers' own (golden/answers.py), of both kinds of models, on one rank and two."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/answers.json")) as f:
        golden = json.load(f)
    run(["init", "--example", "llama", "--model", "llama"])
    for kind, folder in (("deepseek", "ex/model"), ("llama", "llama/model")):
        with open(kind + ".jsonl", "w") as f:
            f.writelines(json.dumps({"prompt": p}) + "\n" for p in golden[kind]["prompts"])
        for world in (1, 2):
            run(["generate", "--model_name_or_path", folder, "--template", "default", "--device", "cpu", "--input", kind + ".jsonl",
                 "--max_new_tokens", "16", "--batch", "5", "--output", "answers.jsonl"], world)
            t.same("%s: answers of transformers, %d ranks" % (kind, world), [a["predict"] for a in lines("answers.jsonl")],
                   golden[kind]["answers"])


def draws(want):
    words = ["generate"] + ADAPTER + DATA + ["--max_new_tokens", "12", "--temperature", "1.5", "--top_p", "0.95"]
    run(words + ["--output", "a.jsonl"])
    run(words + ["--output", "b.jsonl", "--batch", "2"], 2)
    run(words + ["--output", "c.jsonl", "--seed", "43"])
    t.same("draws depend on the seed alone", lines("a.jsonl"), lines("b.jsonl"))
    t.check("another seed draws others", lines("a.jsonl") != lines("c.jsonl"))
    run(["generate"] + ADAPTER + DATA + ["--max_new_tokens", "24", "--temperature", "1.5", "--top_k", "1",
                                         "--output", "k.jsonl"])
    t.same("one to draw from is the largest", lines("k.jsonl"), want)


def terminal(want):
    """The question with the longest answer: there is something to stop at."""
    longest = max(range(len(want)), key=lambda i: len(want[i]["predict"]))
    record = lines("ex/data/few.jsonl")[longest]
    question = "\n".join(x for x in (record["instruction"], record["input"]) if x)
    one = ["generate"] + ADAPTER + ["--prompt", question, "--max_new_tokens", "24"]
    text = run(one)
    run(one + ["--output", "q.jsonl"])
    found = lines("q.jsonl")[0]
    t.same("one prompt is answered in plain text", text, found["predict"] + "\n")
    t.same("its prompt", found["prompt"], question)
    part = found["predict"][2:5]
    stop = found["predict"].index(part)
    t.same("a stop string", run(one + ["--stop", "never there", "--stop", part]), found["predict"][:stop] + "\n")
    run(one + ["--stop", part, "--output", "q.jsonl"], 2)
    t.same("it is said", lines("q.jsonl")[0]["finish"], "stop")
    told = subprocess.run([t.flowtrain, "tokenize", "--tokenizer", "ex/model"], input=json.dumps(found["predict"]) + "\n",
                          capture_output=True, text=True, check=True).stdout
    shutil.copytree("ex/model", "ends")
    with open("ends/generation_config.json", "w") as f:
        json.dump({"eos_token_id": [10 ** 6] + sorted(set(json.loads(told)))[:20]}, f)
    run([w if w != "ex/model" else "ends" for w in one] + ["--output", "q.jsonl"])
    last = lines("q.jsonl")[0]
    t.same("each of a list of tokens ends an answer", last["finish"], "eos")
    t.check("before it", found["predict"].startswith(last["predict"]) and last["predict"] != found["predict"], last)
    with open("in.jsonl", "w") as f:
        f.write(json.dumps({"prompt": question}) + "\n\n \t\r\n" + json.dumps({"prompt": question, "system": "Be brief."}) + "\r\n")
    both = [json.loads(x) for x in run(["generate"] + ADAPTER + ["--input", "in.jsonl", "--max_new_tokens",
                                                                 "24"]).splitlines()]
    t.same("a file of prompts", both[0]["predict"], found["predict"])
    t.same("two of them", len(both), 2)


def figures():
    words = ["eval"] + ADAPTER + DATA + ["--batch", "4", "--cutoff_len", "64"]
    run(words + ["--output", "e1.json"])
    with open("e1.json") as f:
        want = json.load(f)
    with open("out/eval_results.json") as f:
        trained = json.load(f)
    for key in ("eval_loss", "eval_accuracy"):
        t.check(key + " is that of the training", abs(want[key] / trained[key] - 1) < 1e-6, (want[key], trained[key]))
    text = run(words + ["--generate", "--max_new_tokens", "24", "--output", "e3.json"], 3)
    with open("e3.json") as f:
        got = json.load(f)
    t.same("three ranks", {k: got[k] for k in want}, want)
    t.same("answers", got["answers"], 11)
    t.has("the table", text, "perplexity")
    t.check("perplexity", abs(want["perplexity"] - 2.718281828459045 ** want["token_loss"]) < 1e-9, want)
    same = [{"instruction": "say 7", "output": "x"}]
    predicted = lines("one.jsonl")
    with open("ex/data/few.jsonl", "w") as f:  # answers that are right: their own, but one
        for a in predicted:
            prompt = a["prompt"].split("Human: ")[1].split("<")[0]
            f.write(json.dumps({"instruction": prompt, "output": a["predict"]}) + "\n")
        f.write(json.dumps(dict(same[0])) + "\n")
    run(["eval"] + ADAPTER + DATA + ["--generate", "--max_new_tokens", "24", "--output", "e4.json"])
    with open("e4.json") as f:
        t.same("right answers", json.load(f)["answer_accuracy"], 11 / 12)


def loading():
    """What was read is said beside the answers, once, by the first rank."""
    ask = ["generate", "--prompt", "What is 1 plus 1?", "--max_new_tokens", "2"] + ADAPTER
    for words in (ask, ["eval"] + ADAPTER + DATA):
        for launcher in ([], ["launch", "--nproc_per_node", "2", "--master_port", str(t.free_port()), "--"]):
            done = subprocess.run([t.flowtrain] + launcher + words, capture_output=True, text=True, timeout=600)
            t.check("%s: it was loaded" % words[0], done.returncode == 0 and "Weights loaded" not in done.stdout and
                    done.stderr.count(">> Weights loaded: ") == 1, done.stderr[-2000:])


def thoughts():
    """--enable_thinking false: an empty thought waits in front of the answer."""
    words = ["--max_new_tokens", "6", "--enable_thinking", "false"] + ADAPTER
    words[words.index("default")] = "deepseekr1"
    question = lines("ex/data/few.jsonl")[0]
    question = "\n".join(x for x in (question["instruction"], question.get("input")) if x)
    found = []
    for how in ("false", "true"):
        run(["generate", "--max_samples", "1", "--output", "thought.jsonl"] + DATA + words + ["--enable_thinking", how])
        found += lines("thought.jsonl")
    t.check("an empty thought", found[0]["prompt"].endswith("<think>\n\n</think>\n\n"), found[0])
    t.check("none", "<think>" not in found[1]["prompt"], found[1])
    t.same("a prompt's answer", run(["generate", "--prompt", question] + words), found[0]["predict"] + "\n")
    t.check("the answer depends on it", run(["generate", "--prompt", question] + words + ["--enable_thinking", "true"]) !=
            found[0]["predict"] + "\n", found[0])


def name_data(name, records):
    with open("ex/data/%s.jsonl" % name, "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in records)
    with open("ex/data/dataset_info.json") as f:
        info = json.load(f)
    info[name] = dict(info["arithmetic"], file_name=name + ".jsonl")
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)


def scored():
    """Which answers are right: as text but for blanks, or by their last number."""
    known = [a for a in lines("one.jsonl") if " " in a["predict"].strip() and a["predict"] != a["predict"].upper()]
    t.check("answers of several words", len(known) >= 5, lines("one.jsonl"))
    prompts = [a["prompt"].split("Human: ")[1].split("<")[0] for a in known]
    last = [int(re.findall(r"[0-9]+", a["predict"])[-1]) for a in known]
    texts = {True: (lambda a, n: a, lambda a, n: "  " + a.replace(" ", "  \t") + " \n"),
             False: (lambda a, n: a.strip()[:-1], lambda a, n: a + " 7", lambda a, n: a.strip().replace(" ", "", 1), lambda a, n: "x" + a,
                     lambda a, n: a.upper())}
    numbers = {True: (lambda a, n: "%d" % n, lambda a, n: "7 and 12, then {:,}.".format(n), lambda a, n: "-3 is %d.0" % n,
                      lambda a, n: "so x=%d, as said" % n, lambda a, n: "%d." % n, lambda a, n: "%.6f" % (n * (1 + 4e-7)),
                      lambda a, n: "0,%06d, ," % n),
               False: (lambda a, n: "-%d" % n, lambda a, n: "%d of %d" % (n, n + 5 + n // 7), lambda a, n: "none at all",
                       lambda a, n: "%d.5" % (n % 1000), lambda a, n: "%.6f" % (n * (1 + 3e-6) + 1e-5), lambda a, n: "%d%d" % (n, n),
                       lambda a, n: "%d,234" % n)}
    for how, rows in (("text", texts), ("number", numbers)):
        for right, makers in rows.items():
            name_data("scored", [{"instruction": q, "output": make(a["predict"], n)} for make in makers
                                 for q, a, n in zip(prompts[:7], known, last)])
            text = run(["eval"] + ADAPTER + ["--dataset", "scored", "--dataset_dir", "ex/data", "--generate", "--answer", how,
                                             "--max_new_tokens", "24", "--batch", "42", "--output", "scored.json"])
            with open("scored.json") as f:
                got = json.load(f)
            t.same("%s answers by their %s" % ("right" if right else "wrong", how), got["answer_accuracy"], float(right))
            t.same("all are judged", (got["samples"], got["answers"]), (7 * len(makers), 7 * len(makers)))
    keys = ["eval_loss", "eval_accuracy", "token_loss", "token_accuracy", "perplexity", "samples", "targets", "answer_accuracy",
            "answers"]
    t.same("all figures", sorted(got), sorted(keys))
    t.same("as a table", text, "".join("%-16s %s\n" % (k, got[k]) for k in keys))
    hits = got["token_accuracy"] * got["targets"]
    t.check("a share of the targets", got["targets"] > 40 and abs(hits - round(hits)) < 1e-6, got)


def whole_lines():
    """What is written, to the byte; the same on the terminal. Prompts of all kinds in their order."""
    ask = ["generate"] + ADAPTER + ["--max_new_tokens", "9"]
    with open("both.jsonl", "w") as f:
        f.write(json.dumps({"prompt": "Add 2 and 5.", "system": "Be brief."}) + "\n" + json.dumps({"prompt": "Say \"é\"\n"}))
    samples = ["--max_samples", "12", "--dataset", "arithmetic", "--dataset_dir", "ex/data"]
    text = run(ask + ["--prompt", "What is 9 plus 30?", "--prompt", "Add 2 and 5.", "--input", "both.jsonl"] + samples)
    got = [json.loads(line) for line in text.splitlines()]
    t.same("all that is asked", [a["prompt"] for a in got[:4]], ["What is 9 plus 30?", "Add 2 and 5.", "Add 2 and 5.", "Say \"é\"\n"])
    t.same("and a data set's", [("label" in a, a["prompt"][:7] == "Human: ") for a in got], [(False, False)] * 4 + [(True, True)] * 12)
    t.same("lines", text, "".join(json.dumps(a, ensure_ascii=False, separators=(",", ":")) + "\n" for a in got))
    t.same("keys", [list(got[0]), list(got[4])], [["prompt", "predict", "finish"], ["prompt", "predict", "finish", "label"]])
    t.same("its label", got[4]["label"], lines("ex/data/arithmetic.jsonl")[0]["output"] + "\n")
    system = run(ask + ["--prompt", "Add 2 and 5.", "--default_system", "Be brief."] + samples)
    system = [json.loads(line)["predict"] for line in system.splitlines()]
    t.same("a system text of a line", got[2]["predict"], system[0])
    t.check("it makes a difference to one of them", [a["predict"] for a in got[4:]] != system[1:], got)
    with open("both.jsonl", "w") as f:
        f.write(json.dumps({"prompt": "Add 2 and 5."}) + "\n" + json.dumps({"prompt": "Add 2 and 5.", "system": "Be long."}) + "\n")
    both = [json.loads(x)["predict"] for x in run(ask + ["--input", "both.jsonl", "--default_system", "Be brief."]).splitlines()]
    t.same("a line's own goes before the flag's", [both[0] + "\n", both[1] + "\n"],
           [system[0] + "\n", run(ask + ["--prompt", "Add 2 and 5.", "--default_system", "Be long."])])
    for line, want in (('{"prompt": 5}', ":3: expected an object"), ('{"prompt": "x", "system": 5}', ":3: expected an object"),
                       ('["x"]', ":3: expected an object"), ('{"prompt"', ":3: expected an object")):
        with open("bad.jsonl", "w") as f:
            f.write('{"prompt": "x"}\n \t\n' + line + "\n")
        t.has(line, run(ask + ["--input", "bad.jsonl"], code=2), "bad.jsonl" + want)
    with open("bad.jsonl", "w") as f:
        f.write("\n \t\r\n")
    t.has("no line", run(ask + ["--input", "bad.jsonl"], code=2), "bad.jsonl holds no prompt")
    with open("long.json", "w") as f:
        json.dump("".join(lines("one.jsonl")[0]["prompt"]), f)
    count = len(json.loads(subprocess.run([t.flowtrain, "tokenize", "--tokenizer", "ex/model"], stdin=open("long.json"), text=True,
                                          capture_output=True, check=True).stdout))
    first = "What is 33 plus 89?"
    t.same("as long as it may be", run(ask + ["--prompt", first, "--cutoff_len", str(count)]), run(ask + ["--prompt", first]))
    t.has("longer", run(ask + ["--prompt", first, "--cutoff_len", str(count - 1)], code=2),
          "a prompt has %d tokens, more than --cutoff_len %d" % (count, count - 1))


def defaults():
    """What is taken where nothing is said."""
    ask = ["generate"] + MODEL + ["--prompt", "Add 2 and 5."]
    plain = run(ask)
    t.same("answers of 256 tokens", plain, run(ask + ["--max_new_tokens", "256"]))
    t.check("and no shorter", len(run(ask + ["--max_new_tokens", "255"])) < len(plain), plain)
    ask += ["--max_new_tokens", "40"]
    greedy, hot = run(ask), ask + ["--temperature", "1.3"]
    drawn = run(hot)
    t.same("seed 42, all tokens, their whole share", drawn, run(hot + ["--seed", "42", "--top_k", "0", "--top_p", "1"]))
    for more in (["--seed", "43"], ["--top_k", "9"], ["--top_p", "0.3"]):
        t.check("not so with " + " ".join(more), run(hot + more) != drawn, drawn)
    sample = run(ask + ["--do_sample", "true"])
    t.same("draws by 0.95, 50 and 0.7", sample, run(ask + ["--temperature", "0.95", "--top_k", "50", "--top_p", "0.7"]))
    for more in (["--temperature", "1.6"], ["--top_k", "0"], ["--top_p", "1"]):
        t.check("draws otherwise with " + " ".join(more), run(ask + ["--do_sample", "true"] + more) != sample, sample)
    t.same("no draws", run(hot + ["--do_sample", "false"]), greedy)
    for name, least, most in (("max_new_tokens", 1, 1 << 24), ("seed", 0, None), ("top_k", 0, None), ("temperature", 0, 10 ** 6),
                              ("top_p", 1e-9, 1), ("batch", 1, 1 << 16), ("cutoff_len", 1, 1 << 24), ("max_samples", 1, None)):
        for value in ("x", str(least - 1)) + (() if most is None else (str(most + 1),)):
            t.has("--%s %s" % (name, value), run(ask + ["--" + name, value], code=2), "--%s is '%s', expected %g to " % (
                name, value, least))
    t.has("neither true nor false", run(ask + ["--do_sample", "some"], code=2), "--do_sample is 'some', expected true or false")
    shutil.copytree("ex/model", "end")
    told = json.loads(subprocess.run([t.flowtrain, "tokenize", "--tokenizer", "ex/model"], input=json.dumps(greedy[:-1]) + "\n",
                                     capture_output=True, text=True, check=True).stdout)
    end = [w if w != "ex/model" else "end" for w in ask]
    with open("end/generation_config.json", "w") as f:
        json.dump({"eos_token_id": told[5]}, f)
    t.check("one token that ends an answer", greedy.startswith(run(end)[:-1]) and len(run(end)) < 20, run(end))
    for ids in ([], ["x", -1, 1 << 40], None, "x"):
        with open("end/generation_config.json", "w") as f:
            json.dump({"eos_token_id": ids}, f)
        t.same("no such token: %s" % ids, run(end), greedy)
    with open("end/generation_config.json", "w") as f:
        f.write("{")
    t.has("no JSON", run(end, code=2), "end/generation_config.json")


INFER = """model_name_or_path: ex/model
adapter_name_or_path: out
template: default
infer_backend: huggingface  # choices: [huggingface, vllm, sglang, ktransformers]
trust_remote_code: true
"""


def ask(words, code=0):
    """Answers, and what is told beside them."""
    done = subprocess.run([t.flowtrain] + words, capture_output=True, text=True, timeout=600)
    t.same("exit status of %s" % " ".join(words), done.returncode, code)
    return done.stdout, done.stderr


def files():
    """LLaMA-Factory's file of arguments for inference, unchanged but for the names; keys of a training are told."""
    with open("infer.yaml", "w") as f:
        f.write(INFER)
    prompt = ["--prompt", "What is 33 plus 89?", "--max_new_tokens", "9"]
    words = ["generate", "infer.yaml", "--device", "cpu"] + prompt
    text, told = ask(words)
    plain = run(["generate"] + ADAPTER + prompt)
    t.same("an answer by a file", text, plain)
    t.has("what has no effect", told, "--trust_remote_code has no effect: nothing remote is run\n")
    t.check("what is at its default is not told", "--infer_backend" not in told, told)
    t.has("another engine", ask(words + ["infer_backend=vllm"])[1], "--infer_backend has no effect: answers are this program's own\n")
    t.same("what is told, on two ranks", subprocess.run([t.flowtrain, "launch", "--nproc_per_node", "2", "--standalone", "--"] +
           words, capture_output=True, text=True).stderr.count("--trust_remote_code"), 1)
    drawn = run(["generate"] + ADAPTER + prompt + ["--temperature", "0.95", "--top_k", "50", "--top_p", "0.7"])
    t.check("draws differ", drawn != plain)
    for more in (["temperature=0.95"], ["do_sample=true"], ["--top_p", "0.7"]):
        t.same("drawn as LLaMA-Factory's defaults say, by " + more[0], ask(words + more)[0], drawn)
    t.same("not drawn", ask(words + ["temperature=0.95", "do_sample=false"])[0], plain)
    t.same("null takes a value back", ask(words + ["temperature=0.95", "temperature=null"])[0], plain)
    half = run(["generate"] + ADAPTER + prompt + ["--bf16"])
    for more in (["infer_dtype=bfloat16"], ["bf16=true"], ["--bf16", "true"], ["--bf16=true"]):
        t.same("a type by " + " ".join(more), ask(words + more)[0], half)
    t.same("a switch put out", ask(words + ["--bf16", "--bf16", "false"])[0], plain)
    t.has("no switch", ask(words + ["--bf16=perhaps"], 2)[1], "--bf16 is 'perhaps', expected true or false")
    with open("train.yaml", "w") as f:
        f.write(INFER + "eval_dataset: few\ndataset: arithmetic\ndataset_dir: ex/data\ncutoff_len: 64\nlearning_rate: 1.0e-4\n"
                        "per_device_eval_batch_size: 4\nlora_rank: 8\nlora_alpha: null\npredict_with_generate: true\n")
    run(["eval"] + ADAPTER + DATA + ["--batch", "4", "--cutoff_len", "64", "--generate", "--output", "flags.json",
                                     "--max_new_tokens", "9"])
    told = ask(["eval", "train.yaml", "--device", "cpu", "--output", "file.json", "--max_new_tokens", "9"])[1]
    with open("flags.json") as f, open("file.json") as g:
        t.same("figures by a file of a training", json.load(g), json.load(f))
    t.has("a key of a training", told, "--learning_rate has no effect: it belongs to flowtrain train\n")
    t.check("one at its default is not told", "--lora_rank" not in told, told)
    t.same("another data set behind the file", json.loads(ask(["eval", "train.yaml", "dataset=arithmetic", "--max_samples", "3",
           "--device", "cpu", "--output", "file.json", "predict_with_generate=false"])[0] and open("file.json").read())["samples"], 3)
    told = ask(["eval", "train.yaml", "--device", "cpu", "--max_new_tokens", "9", "do_predict=true", "output_dir=new/predicted"])[1]
    with open("flags.json") as f, open("new/predicted/predict_results.json") as g:
        t.same("figures of do_predict", json.load(g), json.load(f))
    run(["generate"] + ADAPTER + DATA + ["--batch", "4", "--cutoff_len", "64", "--output", "flags.jsonl", "--max_new_tokens", "9"])
    t.same("answers of do_predict", lines("new/predicted/generated_predictions.jsonl"), lines("flags.jsonl"))
    t.check("its folder is not said to be without effect", "--output_dir" not in told, told)
    t.has("a training's folder stays as it is", ask(["eval", "train.yaml", "--device", "cpu", "output_dir=kept",
          "predict_with_generate=false"])[1], "--output_dir has no effect")
    t.check("nothing is written there", not os.path.exists("kept"))
    t.has("do_predict in train", ask(["train", "train.yaml", "do_predict=true"], 2)[1], "flowtrain eval reads the same file")
    for more, want in (("num_beams: 4", "wrong.yaml:6:1: --num_beams 4 is not done"),
                       ("repetition_penalty: 1.1", "--repetition_penalty 1.1 is not done"),
                       ("quantization_bit: 4", "--quantization_bit 4 is not done: base weights stay"),
                       ("infer_dtype: int8", "--infer_dtype is 'int8', expected auto"),
                       ("max_new_tokens: many", "--max_new_tokens many: expected an integer"),
                       ("infer_bakend: vllm", "wrong.yaml:6:1: unknown argument --infer_bakend: did you mean --infer_backend?")):
        with open("wrong.yaml", "w") as f:
            f.write(INFER + more + "\n")
        t.has(more, ask(["generate", "wrong.yaml", "--device", "cpu"] + prompt[:2], 2)[1], want)


def errors():
    name_data("mute", [{"instruction": "count " * 200, "output": "one two three"}])
    for words, want in (
            (["generate"] + MODEL, "--prompt, --input or --dataset is needed"),
            (["generate", "--model_name_or_path", "ex/model", "--prompt", "x"], "--template is missing"),
            (["generate"] + MODEL + ["--prompt", "x", "--top_p", "0"], "--top_p is '0', expected"),
            (["generate"] + MODEL + ["--prompt", "x", "--stop", ""], "--stop is empty"),
            (["generate"] + MODEL + ["--prompt", "x y z", "--cutoff_len", "2"], "more than --cutoff_len 2"),
            (["generate"] + MODEL + ["--dataset", "mute", "--dataset_dir", "ex/data", "--cutoff_len", "8"],
             "the data set has no prompt with an answer"),
            (["generate"] + MODEL + ["--input", "ex/data/dataset_info.json"], "dataset_info.json:1: "),
            (["generate"] + MODEL + ["--prompt", "x", "--adapter_name_or_path", "none"], "none/adapter_config.json"),
            (["generate"] + MODEL + ["--prompt", "x", "--enable_thinking", "perhaps"], "expected true or false"),
            (["eval"] + MODEL, "--dataset is missing"),
            (["eval"] + MODEL + DATA + ["--answer", "colour"], "expected text or number"),
            (["eval"] + MODEL + ["--dataset", "nothing", "--dataset_dir", "ex/data"], "nothing")):
        t.has(" ".join(words), run(words, code=2), want)


def simulated():
    """Greedy answers and figures of a few records, by one GPU and by two ranks that share it."""
    few = DATA + ["--max_samples", "3", "--batch", "2", "--cutoff_len", "64"]
    words = ["generate"] + few + ["--max_new_tokens", "5", "--template", "default", "--model_name_or_path", "ex/model",
                                  "--adapter_name_or_path", "out"]
    run(words + ["--device", "cpu", "--output", "cpu.jsonl"])
    run(["eval"] + words[1:7] + ADAPTER + ["--cutoff_len", "64", "--output", "cpu.json"])
    t.simulate()
    run(words + ["--device", "cuda", "--output", "cuda.jsonl"])
    t.same("answers of the simulated GPU", lines("cuda.jsonl"), lines("cpu.jsonl"))
    run(words + ["--device", "cuda", "--transport", "host", "--output", "two.jsonl"], 2)
    t.same("answers of two ranks on it", lines("two.jsonl"), lines("cpu.jsonl"))
    run(["eval"] + words[1:7] + ADAPTER[:-3] + ["cuda", "--adapter_name_or_path", "out", "--cutoff_len", "64",
                                                "--output", "cuda.json"])
    with open("cpu.json") as f, open("cuda.json") as g:
        want, got = json.load(f), json.load(g)
    t.check("its loss", abs(got["eval_loss"] / want["eval_loss"] - 1) < 1e-4, (got, want))
    t.same("its accuracy", got["eval_accuracy"], want["eval_accuracy"])


def main():
    t.begin()
    make_few()
    t.train("an adapter", "out", 2, steps=30, accumulation=3, learning_rate="1e-2", save_strategy="no", lora_rank=16,
            lora_alpha=32, lora_target="all", lora_dropout=0, eval_dataset="few", do_eval=True, compute_accuracy=True,
            per_device_eval_batch_size=4)
    if sys.argv[2:] == ["cuda"]:
        simulated()
        t.finish()
    want = answers()
    cut()
    as_the_reference()
    draws(want)
    terminal(want)
    figures()
    loading()
    thoughts()
    scored()
    whole_lines()
    defaults()
    files()
    errors()
    t.finish()


main()
