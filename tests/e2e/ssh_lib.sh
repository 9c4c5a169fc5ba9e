# What the scripts that train on nodes behind sshd share. Usage in each:
#   . "$(dirname "$0")/ssh_lib.sh"; begin_nodes BUILD
# Each node has a root of its own (cluster.sh) in which the build folder, FLOWRUN_HOME, the test's
# folder and the data are hidden: what a node uses was shipped there.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

begin_nodes() {
    begin "$1"
    cluster=$repo/tests/e2e/cluster.sh
    flowtrain=$build/trainer/cli/flowtrain
    [ -z "${FLOWRUN_DATA:-}" ] || FLOWRUN_DATA=$(realpath "$FLOWRUN_DATA") # a link cannot be hidden
    export CLUSTER_HIDE=$build:$work${FLOWRUN_DATA:+:$FLOWRUN_DATA}
    "$cluster" up "$work/c" 3 || { rc=$?; [ $rc = 77 ] && skip "no cluster in this machine"; exit $rc; }
    trap '"$cluster" down "$work/c"; cleanup' EXIT
    trap 'exit 1' INT TERM
    cp -r "$repo/pipelines" .
}

# On node $1, the shell command $2.
on() { "$cluster" exec "$work/c" "$1" sh -c "$2"; }

# The example's model and data on control: ./ex.
example() { "$flowtrain" init --example ex > /dev/null || bad "flowtrain init --example"; }

# A pipeline of one gang that trains the model in ./ex. Beside each attempt a sidecar writes the
# attempt's id to /var/starts of its node.
train_only() {
    echo "name: training"
    cat c/nodes.yaml
    cat <<'END'
params:
  output_dir: {default: output}
  max_steps: {default: 12, type: int}
  save_steps: {default: 4, type: int}
  accumulation: {default: 6, type: int} # steps that last longer than a look at them
  deepspeed: {default: pipelines/ds_z3.json, type: path}
  ranks: {default: 2, type: int}
tasks:
  train:
    uses: train
    on: all
    gang: true
    retry: {times: 2, delay: 100ms}
    grace: 2s
    with:
      model: ex/model
      dataset: arithmetic
      dataset_dir: ex/data
      template: default
      output_dir: ${{ params.output_dir }}
      nproc_per_node: ${{ params.ranks }}
      deepspeed: ${{ params.deepspeed }}
      lora_target: q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj
      lora_rank: 8
      per_device_train_batch_size: 1
      gradient_accumulation_steps: ${{ params.accumulation }}
      learning_rate: 1e-3
      bf16: true
      cutoff_len: 128
      max_steps: ${{ params.max_steps }}
      logging_steps: 1
      save_steps: ${{ params.save_steps }}
      save_only_model: true
      seed: 42
      ddp_timeout: 120s
    sidecars:
      - {name: count, run: "echo $FLOWRUN_ATTEMPT >> /var/starts; exec sleep 100000"}
END
}

# Folder of node $1 on which its tasks work.
workof() { echo "/root/.local/state/flowrun/*-node$1/work"; }

# The log of the training in output folder $1, less what a clock, or the moment of an interruption, decides. A step that was done again
# stands there once if it came out the same, else twice.
losses() {
    on 1 "cat $(workof 1)/$1/trainer_log.jsonl" | python3 -c '
import json, sys
seen = {}
for line in sys.stdin:
    e = json.loads(line)
    for k in ("elapsed_time", "remaining_time", "throughput", "tokens_per_second", "total_tokens", "checkpoint"):
        e.pop(k, None)
    seen[e["current_steps"], json.dumps(e, sort_keys=True)] = None
for step, line in sorted(seen):
    print(line)'
}

# train.yaml, and what it gives when nothing disturbs it: whole.log, adapter in the folder whole.
undisturbed() { # further parameters
    example
    train_only > train.yaml
    "$flowrun" train.yaml -p output_dir=whole "$@" > out 2>&1
    same "an uninterrupted run" $? 0
    losses whole > whole.log
    same "its steps" "$(grep -c '"loss"' whole.log)" 12
}

# Steps that the training in output folder $1 has logged.
steps() { on 1 "grep -c '\"loss\"' $(workof 1)/$1/trainer_log.jsonl 2> /dev/null || :"; }
past() { [ "$(steps "$1")" -ge "$2" ]; }

# Training in the middle, for as long as the test wants it there. half OUT makes on each node the output
# folder OUT as a training leaves it that was killed behind step 8 of `whole`; half.yaml goes on from
# there. Its first line of the log goes to a FIFO that nobody reads, so that step 10 is out of reach until
# `release OUT`.
half() {
    local i
    sed 's/^      seed: 42/&\n      args: [--resume_from_checkpoint, last]/' train.yaml > half.yaml
    for i in 1 2 3; do
        on $i "cd $(workof $i) && cp -r whole $1 && cd $1 && rm -rf resume/step-12 checkpoint-12 adapter* model*"
    done
    on 1 "cd $(workof 1)/$1 && sed '/\"current_steps\":9,/,\$d' trainer_log.jsonl > log && rm trainer_log.jsonl &&
        mkfifo trainer_log.jsonl"
}
begun() { until_true 60 holds out "Continuing training from global step 8"; }
release() {
    on 1 "cd $(workof 1)/$1 && mv trainer_log.jsonl fifo && mv log trainer_log.jsonl &&
        setsid cat <> fifo >> trainer_log.jsonl 2> /dev/null &"
}

# The link of node 2 is down for 20 s while the training that half OUT began waits before step 10.
cut_for_20s() {
    local end
    "$cluster" cut "$work/c" 2
    end=$((SECONDS + 20))
    until_true 30 holds out "node2: unreachable"
    release "$1"
    until_true 60 holds out "has been silent for"
    while [ "$SECONDS" -lt "$end" ]; do sleep 0.2; done
    check "training waits" test "$(steps "$1")" -le 9
    "$cluster" join "$work/c" 2
}

# Attempts that were started on node $1.
starts() { on "$1" 'wc -l < /var/starts'; }
sidecars() { on "$1" 'pgrep -fx "sleep 100000" || :'; }

# Processes of the trainer on node $1, and those of them that are ranks.
trainers() { on "$1" 'pgrep -x flowtrain || :'; }
ranks() { on "$1" 'for p in $(pgrep -x flowtrain); do tr "\0" "\n" < /proc/$p/environ | grep -q ^LOCAL_RANK= && echo $p; done'; }

# The adapter of output folder $1.
adapter() { on 1 "sha256sum $(workof 1)/$1/adapter_model.safetensors" | cut -d' ' -f1; }
