#!/bin/bash
# The train task asks `flowtrain plan` first: what fits is said and launched; what does not is refused before any
# rank starts, with its reason and what would fit; `plan: show` says so and launches, `plan: off` asks nothing.
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -x "$build/trainer/cli/flowtrain" ] || skip "no flowtrain in this build"
"$build/trainer/cli/flowtrain" init --example example > /dev/null

pipeline() {   # NAME NODES [LINE OF with]…
    local name=$1 nodes=$2
    shift 2
    cat > "$name.yaml" << END
name: $name
nodes:
  nodes:
$(for i in $(seq "$nodes"); do printf '    - {name: n%s, executor: local}\n' "$i"; done)
tasks:
  train:
    uses: train
    on: all
    gang: true
    with:
      model: example/model
      dataset: arithmetic
      dataset_dir: example/data
      lora_target: all
      max_steps: 2
      per_device_train_batch_size: 1
      gradient_accumulation_steps: 1
$(printf '      %s\n' "$@")
END
    "$flowrun" "$name.yaml" > out 2>&1
}

pipeline fits 2 "cutoff_len: 64"
same "what fits" $? 0
has "what was found" out "train@n1 | plan: weights whole on each GPU: "
hasnt "the head says it" out "train@n2 | plan: "
has "then it is launched" out "train: run "
has "the end compares" out "Plan and run, weights whole on each GPU, 2 steps of "
has "in one line" out "The run moved 1.000 on the same rank, 1.000 between nodes of the planned bytes, and took "
check "the end compares bytes" grep -Eq 'adapters +bytes between nodes +([0-9]+) +\1 +1\.000' out

cat > ds.json << END
{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}, "moe": {"enabled": true, "expert_group": "world"}}
END
pipeline stays 2 "cutoff_len: 64" "deepspeed: ds.json" "network_gbps: 4"
same "experts that stay" $? 0
has "experts that stay: found" out "train@n1 | plan: experts over all ranks: "
has "experts that stay: compared" out "Plan and run, experts over all ranks, 2 steps of "
check "experts that stay: tokens cross" grep -Eq 'tokens +bytes between nodes +[1-9]' out

pipeline large 2 "cutoff_len: 16000000"
same "what does not fit" $? 1
check "why" grep -Eq "train@n[12].*weights whole on each GPU: a rank needs [0-9.]+ GB of [0-9.]+ GB \(97 % of [0-9.]+ GB\), with samples of 16000000 tokens; no layout that is built fits: take more ranks" out
hasnt "nothing is launched" out "train: run "
same "not tried again" "$("$flowrun" status | awk '/^train@n2/ {print $3; exit}')" 1

pipeline small 1 "cutoff_len: 64" "plan: off"
same "not asked" $? 0
hasnt "not asked: nothing is said" out "| plan: "

pipeline word 1 "plan: maybe"
same "another word" $? 2
has "another word: why" out "refuse"
same "nothing is left running" "$(left)" ""
finish
