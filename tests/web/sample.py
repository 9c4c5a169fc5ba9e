"""A home with something on every page: runs that failed, succeeded and go on, curves, a schedule, a queue."""
import bed
from bed import begin_run, flow, until, write

TRAIN = """\
name: fine-tune
description: A small training on three nodes, with everything that the pages show.
params:
  lr: {default: 0.001, type: float, help: learning rate}
  model: {default: tiny, help: folder of the model}
  fail: {default: none, help: node whose training fails}
  hold: {default: none, help: file that the evaluation waits for}
nodes:
  - {name: n1}
  - {name: n2}
  - {name: n3}
tasks:
  cleanup: {on: all, run: "echo cleaned"}
  preflight: {needs: [cleanup], on: all, run: "printf '\\\\033[32mok\\\\033[0m disk, clock, driver\\\\n'; sleep 0.1"}
  tokenize: {needs: [cleanup], run: "for i in $(seq 1 400); do echo part $i of 400; done"}
  probe: {needs: [preflight], on: all, gang: true, run: "echo 4.1 Gbit/s; sleep 0.2"}
  train:
    needs: [probe, tokenize]
    on: all
    gang: true
    outputs: [steps]
    metrics: trainer_log.jsonl
    env: {FAIL: "${{ params.fail }}", NODE: "${{ node.name }}", LR: "${{ params.lr }}"}
    run: |
      test "$NODE" != n1 || awk -v lr="$LR" 'BEGIN { srand(1000 * lr); for (i = 1; i <= 600; i++) {
        loss = 4.6 * exp(-i / (lr > 0.002 ? 90 : 150)) + 1.15 + 0.02 / (0.01 + lr) * 0.1 + 0.12 * rand();
        printf "{\\"current_steps\\": %d, \\"total_steps\\": 600, \\"loss\\": %.4f, \\"grad_norm\\": %.3f, \\"lr\\": %.8f, \\"throughput\\": %.1f, \\"elapsed_time\\": %.1f, \\"epoch\\": %.3f}\\n",
          i, loss, 0.9 + 0.3 * rand() + (i % 97 == 31 ? 0.8 : 0) + (i == 322 ? 6 : 0), lr * (i < 60 ? i / 60 : 0.5 + 0.5 * cos(3.14159 * i / 600)), 1150 + 60 * rand(), i * 0.42, i / 200 } }' > trainer_log.jsonl
      for i in $(seq 20 20 600); do echo "{'loss': $(awk -v i=$i 'BEGIN { printf "%.4f", 4.6 * exp(-i / 150) + 1.2 }'), 'step': $i}"; done
      echo "steps=600" >> "$FLOWRUN_OUTPUT"
      if [ "$FAIL" = "$NODE" ]; then
        echo "Traceback (most recent call last):"; echo '  File "train.py", line 212, in step'
        echo "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"; exit 1
      fi
  gather: {needs: [train], run: "echo gathered"}
  evaluate:
    needs: [train]
    env: {HOLD: "${{ params.hold }}"}
    run: "echo eval_loss 1.31; test $HOLD = none || until test -e $HOLD; do sleep 0.02; done"
  publish: {needs: [gather, evaluate], run: "echo published"}
on_exit:
  - {name: tidy, run: "echo tidied"}
"""
NIGHTLY = """\
name: nightly
description: Collects what a day has brought.
schedule: {cron: "30 2 * * *", zone: Europe/Berlin, catchup: last}
tasks:
  collect: {run: "echo collected"}
  report: {needs: [collect], run: "echo reported"}
"""
# Names that are longer than a phone is wide.
LONG = "name: long\ntasks:\n  %s: {run: 'true'}\n  last: {needs: [%s], run: 'true'}\n" % (2 * ("a_long_name_" * 5,))


def make():
    """Runs 1 (succeeded), 2 (failed), 3 (succeeded with another rate), 4 (goes on until the file go is made)."""
    write("served/fine-tune.yaml", TRAIN)
    write("served/nightly.yaml", NIGHTLY)
    write("served/long.yaml", LONG)
    bed.serve()
    flow("served/fine-tune.yaml")
    flow("served/fine-tune.yaml", "-p", "fail=n2", "-p", "lr=0.01")
    flow("served/fine-tune.yaml", "-p", "lr=0.003")
    follower = begin_run("served/fine-tune.yaml", "-p", "hold=%s/go" % bed.folder)
    until("run 4 waits", lambda: "evaluate" in flow("status", "4") and "running" in flow("status", "4"))
    follower.kill()  # the host alone drives it from now on
    follower.wait()
