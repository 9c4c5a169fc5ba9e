#!/usr/bin/env python3
"""A rank that ends or falls silent ends the others, and they say who it was and where."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import trainer_lib as t
from fp8_lib import read, write

STEPS = 10**7   # more than any of these runs will make


def pair(out, **more):
    """Two ranks on two nodes (TCP between them), under way."""
    port = t.free_port()
    runs = [t.launch("%s-%d" % (out, k), 1, port=port, nodes=2, node=k, steps=STEPS,
                     save_strategy="no", **more) for k in range(2)]
    t.until("%s is under way" % out, lambda: t.steps_done(out + "-0") >= 2 or runs[0].ended())
    t.check("%s: both run" % out, not runs[0].ended() and not runs[1].ended(), runs[0].text()[-2000:])
    return runs


def shared(out, **more):
    """Two ranks on one node (shared memory), under way."""
    run = t.launch(out, 2, steps=STEPS, save_strategy="no", **more)
    t.until("%s is under way" % out, lambda: t.steps_done(out) >= 2 or run.ended())
    return run


def named(what, text, rank, ending):
    """'rank 1 (host) in collective 12 'layer 1 attention'' or '… after collective 12'."""
    t.check(what, re.search(r"rank %d \([^)]+\) (in collective \d+ '[^']+'|after collective \d+) %s"
                            % (rank, ending), text) is not None, text[-1500:])


def ended():
    for victim in (0, 1):
        runs = pair("gone%d" % victim)
        os.kill(t.until("its pid", lambda: runs[victim].ranks().get(0)), signal.SIGKILL)
        t.same("rank %d killed: its launcher" % victim, runs[victim].wait(), 4)
        t.same("rank %d killed: the other node" % victim, runs[1 - victim].wait(), 4)
        named("rank %d killed: named" % victim, runs[1 - victim].text(), victim, "ended")
    run = shared("near")
    os.kill(t.until("its pid", lambda: run.ranks().get(1)), signal.SIGKILL)
    t.same("shared memory: exit status", run.wait(), 4)
    named("shared memory: named", run.text(), 1, "ended")


def silent():
    """SIGSTOP: sockets stay open, no byte comes. Warned after 10 s, over at --ddp_timeout."""
    runs = pair("silent", ddp_timeout=12)
    os.kill(t.until("its pid", lambda: runs[1].ranks().get(0)), signal.SIGSTOP)
    t.until("silence is reported while the run goes on",
            lambda: "the run ends at 12 s (--ddp_timeout)" in runs[0].text(), 60)
    code = runs[0].wait()
    t.same("silence: exit status", code, 4)
    text = runs[0].text()
    named("silence: warned", text, 1, r"has been silent for \d+ s; the run ends")
    last = text[text.index("(--ddp_timeout)") + 1:]
    t.check("silence: the end names rank and collective",
            re.search(r"flowtrain train: .*rank 1 \([^)]+\) (in collective|after collective|in ')", last)
            is not None, last[-1500:])
    os.kill(runs[1].pid, signal.SIGKILL)
    t.kill(t.alive())
    runs[1].wait()


def rendezvous():
    port = t.free_port()
    with socket.socket(socket.AF_INET6) as s:
        s.bind(("::", port))
        s.listen()
        run = t.launch("busy", 1, port=port, nodes=2, node=0)
        t.same("busy port: exit status", run.wait(), 1)
        t.has("busy port: named", run.text(), "port %d is in use" % port)
    # a rank of an older try knocks at a run that waits for its second node
    port = t.free_port()
    head = t.launch("head", 1, port=port, nodes=2, node=0, steps=2, env={"FLOWTRAIN_GENERATION": "2"})
    stranger = t.launch("old", 1, port=port, nodes=2, node=1, steps=2, env={"FLOWTRAIN_GENERATION": "1"})
    t.same("a rank of another run: exit status", stranger.wait(), 4)
    t.has("a rank of another run: why", stranger.text(),
          "refused rank 1: it belongs to another run or an older try of this one")
    other = t.launch("third", 1, port=port, nodes=3, node=1, steps=2, env={"FLOWTRAIN_GENERATION": "2"})
    t.same("another WORLD_SIZE: exit status", other.wait(), 4)
    t.has("another WORLD_SIZE: why", other.text(), "it has WORLD_SIZE 3, rank 0 has 2")
    right = t.launch("right", 1, port=port, nodes=2, node=1, steps=2, env={"FLOWTRAIN_GENERATION": "2"})
    t.same("the right rank is let in", (right.wait(), head.wait()), (0, 0))
    t.has("the head tells whom it refused", head.text(), "refused a connection: it belongs to another run")


def asked_to_stop():
    """Before the first step: a request to stop ends ranks that read data or wait, and they say for whom they waited."""
    def alone(rank, port, size=2):
        run = t.Run(t.train_args("nobody-%d-%d" % (rank, size)), RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK="0",
                    LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))

        def reads_signals():
            with open("/proc/%d/status" % run.pid) as f:
                return int(re.search(r"^SigBlk:\s*([0-9a-f]+)", f.read(), re.M)[1], 16) >> (signal.SIGTERM - 1) & 1
        t.until("rank %d of %d reads its signals" % (rank, size), reads_signals)
        return run

    def stopped(what, run, sig, said):
        run.process.send_signal(sig)
        t.same(what + ": exit status", run.wait(), 3)
        t.has(what + ": for whom it waited", run.text(), "stopped as asked, while %s awaited" % said)

    def asked_before():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)

    run = subprocess.run([t.flowtrain] + t.train_args("nobody", tokenized_path=None), preexec_fn=asked_before, text=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    t.same("no other rank: exit status", run.returncode, 3)
    t.has("no other rank: what it did", run.stdout, "stopped as asked, while data set 'arithmetic' was read")
    port = t.free_port()
    stopped("rank 0, SIGTERM", alone(0, port, 4), signal.SIGTERM, "ranks 1-3 of 4 were")
    stopped("rank 1, SIGINT", alone(1, port), signal.SIGINT, "rank 0 at 127.0.0.1 port %d was" % port)
    with socket.create_server(("127.0.0.1", port)) as s:
        run = alone(1, port, 3)
        with s.accept()[0] as head:
            t.check("rank 1 says hello", len(head.recv(1)) == 1)
            stopped("rank 1, with rank 0", run, signal.SIGTERM, "other ranks were")
    run = t.launch("nobody", 1, port=port, nodes=2, node=0)
    t.until("its rank listens", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
    run.process.send_signal(signal.SIGINT)
    t.same("a launcher: exit status", run.wait(), 3)
    t.check("a launcher: no rank is killed", "signal 9" not in run.text(), run.text())


def unlike():
    """Nodes with other flags or files are told so before the first step."""
    port = t.free_port()
    runs = [t.launch("unlike-%d" % k, 1, port=port, nodes=2, node=k, learning_rate=("1e-3", "2e-3")[k])
            for k in range(2)]
    codes = [run.wait() for run in runs]
    t.check("other flags on a node: refused", 2 in codes and 0 not in codes, codes)
    t.has("other flags on a node: named", runs[0].text() + runs[1].text(), "rank 1 and rank 0 differ in the flags")


def other_files():
    """What differs is named: data, weights, tokenizer, each flag that counts for a step."""
    shutil.copytree("ex/model", "weights")
    write("weights/model.safetensors", {name: (dtype, shape, bytes([raw[0] ^ 1]) + raw[1:]) for name, (dtype, shape, raw) in
                                        read("ex/model/model.safetensors").items()})
    shutil.copytree("ex/model", "words")
    with open("words/tokenizer.json") as f:
        words = json.load(f)
    words["added_tokens"].append(dict(words["added_tokens"][-1], id=len(words["model"]["vocab"]) + 50, content="<|never|>"))
    with open("words/tokenizer.json", "w") as f:
        json.dump(words, f)
    with open("ex/data/dataset_info.json") as f:
        info = json.load(f)
    for k, name in enumerate(("one", "two")):
        with open("ex/data/arithmetic.jsonl") as f, open("ex/data/%s.jsonl" % name, "w") as to:
            to.writelines(f.readlines()[k:k + 9])
        info[name] = dict(info["arithmetic"], file_name=name + ".jsonl")
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)
    for what, flag, values in (("the data set", "dataset", ("one", "two")),
                               ("the data for evaluation", "eval_dataset", ("one", "two")),
                               ("the model", "model_name_or_path", ("ex/model", "weights")),
                               ("the tokenizer", "model_name_or_path", ("ex/model", "words")),
                               ("the flags", "per_device_eval_batch_size", (1, 2)),
                               ("the flags", "per_device_train_batch_size", (1, 2)),
                               ("the flags", "gradient_accumulation_steps", (1, 2))):
        port = t.free_port()
        runs = [t.launch("other-%s-%d" % (flag, k), 1, port=port, nodes=2, node=k, steps=1, tokenized_path=None,
                         **dict({"eval_dataset": "one"}, **{flag: values[k]})) for k in range(2)]
        t.check("%s, other on a node: refused" % flag, 0 not in [run.wait() for run in runs])
        t.has("%s, other on a node: named" % flag, runs[0].text() + runs[1].text(), "rank 1 and rank 0 differ in %s:" % what)


def main():
    t.begin()
    ended()
    silent()
    rendezvous()
    asked_to_stop()
    unlike()
    other_files()
    t.finish()


main()
