#!/usr/bin/env python3
"""flowtrain launch takes torchrun's words: what the ranks see of each spelling."""
import json
import os

import trainer_lib as t

PROBE = ["probe", "--device", "cpu", "--bytes", "64KiB", "--iterations", "1"]


def world(what, words, program=PROBE, **env):
    """How many ranks a probe finds."""
    run = t.Run(["launch"] + words + program, **env)
    t.check(what, run.wait() == 0, run.text()[-2000:])
    lines = [json.loads(line) for line in run.text().splitlines() if line.startswith("{")]
    return lines[0]["ranks"] if lines else 0, run.text()


def nodes(what, words, count=2):
    """One launcher a node, told apart by their words."""
    runs = [t.Run(["launch"] + words(k) + PROBE) for k in range(count)]
    for k, run in enumerate(runs):
        t.check("%s: node %d" % (what, k), run.wait() == 0, run.text()[-2000:])
    lines = [json.loads(line) for line in runs[0].text().splitlines() if line.startswith("{")]
    t.same(what + ": ranks", lines[0]["ranks"] if lines else 0, count)


def main():
    t.begin()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for what, words, env, ranks in (
            ("dashes", ["--nproc-per-node", "2", "--standalone", "--"], {}, 2),
            ("an equals sign, no --", ["--nproc-per-node=2", "--standalone"], {}, 2),
            ("one to one", ["--standalone", "--nnodes", "1:1", "--nproc_per_node", "3"], {}, 3),
            ("all of torchrun", ["--standalone", "--nnodes=1", "--nproc-per-node=2", "--max-restarts=0", "--rdzv-id=7",
                                 "--rdzv-backend=c10d", "--monitor-interval=5", "--role=x", "--log-dir=logs", "--tee=3",
                                 "--redirects=0", "--local-ranks-filter=0", "--no-python", "--start-method=spawn",
                                 "--event-log-handler=null", "--logs-specs=x", "--numa-binding=node", "--run-path", "--virtual-local-rank",
                                 "--local-addr=127.0.0.1", "--signals-to-handle=SIGTERM"], {}, 2),
            ("letters", ["--standalone", "-r", "3", "-t3", "--nproc-per-node=2"], {}, 2),
            ("beginnings of words", ["--stand", "--nproc", "2", "--max-re", "0"], {}, 2),
            ("a switch by a variable", [], dict(PET_STANDALONE="1", PET_NPROC_PER_NODE="2"), 2),
            ("a variable of torchrun", ["--standalone"], dict(PET_NPROC_PER_NODE="2"), 2),
            ("a plain variable", ["--standalone"], dict(NPROC_PER_NODE="2"), 2),
            ("torchrun's comes first", ["--standalone"], dict(NPROC_PER_NODE="3", PET_NPROC_PER_NODE="2"), 2),
            ("the flag comes first", ["--standalone", "--nproc_per_node", "2"], dict(PET_NPROC_PER_NODE="3"), 2),
            ("processors", ["--standalone", "--nproc_per_node", "cpu"], {}, len(os.sched_getaffinity(0))),
            ("no GPU: processors", ["--standalone", "--nproc_per_node", "auto"], {}, len(os.sched_getaffinity(0))),
            ("all variables", [], dict(NNODES="1", NODE_RANK="0", NPROC_PER_NODE="2", MASTER_ADDR="127.0.0.1",
                                       MASTER_PORT=str(t.free_port())), 2)):
        got, text = world(what, words, **env)
        t.same(what + ": ranks", got, ranks)
        if what == "all of torchrun":
            for name in ("monitor_interval", "role", "log_dir", "tee", "redirects", "local_ranks_filter", "no_python", "start_method",
                         "event_log_handler", "logs_specs", "numa_binding", "run_path", "virtual_local_rank", "local_addr"):
                t.has(what, text, "--%s has no effect" % name)
    for what, words, env, said in (("-m", ["-m"], {}, "--module: no Python is run here"),
                                   ("a variable for -m", [], dict(PET_MODULE="1"), "--module: no Python is run here"),
                                   ("a letter without a value", ["-r"], {}, "-r needs a value"),
                                   ("several begin so", ["--n", "2"], {}, "unknown argument --n"),
                                   ("a bad switch", [], dict(PET_STANDALONE="yes"), "PET_STANDALONE is 'yes', expected 0 or 1")):
        run = t.Run(["launch"] + words + ([] if words == ["-r"] else PROBE), **env)
        t.same(what, run.wait(), 2)
        t.has(what, run.text(), said)
    port = t.free_port()
    nodes("c10d", lambda k: ["--nnodes=2", "--node-rank=%d" % k, "--rdzv-backend=c10d",
                             "--rdzv-endpoint=127.0.0.1:%d" % port, "--rdzv-id=r"])
    port = t.free_port()
    nodes("static, numbered by --rdzv_conf", lambda k: ["--nnodes", "2:2", "--rdzv-endpoint", "[::1]:%d" % port,
                                                        "--rdzv-conf", "timeout=60,rank=%d" % k, "--"])
    t.finish()


main()
