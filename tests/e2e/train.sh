#!/bin/bash
# The main job on three local nodes: uninterrupted; with flowrun killed in the middle and resumed; with one
# rank killed. All three give the same losses and the same adapter, bit for bit.
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -x "$build/trainer/cli/flowtrain" ] || skip "no flowtrain in this build"
mkdir src # not the current folder
cp -r "$repo/pipelines" "$repo/examples" src/

job() { start "src/pipelines/${1:-deepseek-lora}.yaml" -p max_steps=24 -p save_steps=12; }
published() { sha256sum < "$FLOWRUN_HOME/nodes/n1/work/published/latest/adapter_model.safetensors"; }
# epoch and loss of each step that run $1 logged, each once
losses() { "$flowrun" logs "$1" train | sed -n "s/.*{'loss': \([0-9.]*\),.*'epoch': \([0-9.]*\),.*/\2 \1/p" | sort -u; }

# Training in the middle, for as long as the test wants it there: the output folder of the first run without
# what came behind step 12, and half.yaml, which goes on from there. The next line of the log goes to a FIFO
# that nobody reads, so that step 14 is out of reach until release.
output=$FLOWRUN_HOME/nodes/n1/work/output
half() {
    for i in 1 2 3; do rm -rf "$FLOWRUN_HOME/nodes/n$i/work/output" && cp -r "whole.$i" "$FLOWRUN_HOME/nodes/n$i/work/output"; done
    mv "$output/trainer_log.jsonl" "$output/log"
    mkfifo "$output/trainer_log.jsonl"
    job half
    pid=$!
    until_true 60 holds out "Continuing training from global step 12"
}
release() {
    mv "$output/trainer_log.jsonl" "$output/fifo"
    mv "$output/log" "$output/trainer_log.jsonl"
    cat <> "$output/fifo" > /dev/null &
    fifo=$!
}

job
wait $!
same "the main job" $? 0
hasnt "a training is not nothing" out "train: nothing to do"
check "closing table" grep -Eq '^publish +n1 +succeeded +1 ' out
has "the figures of the evaluation" out "evaluate@n1 | eval_loss before the training "
losses 1 > losses.1
same "a loss for each step" "$(lines losses.1)" 24
check "the loss falls" awk '{ if (NR <= 4) a += $2; if (NR > 20) b += $2 } END { exit !(b < a - 1) }' losses.1
adapter=$(published)
sed -n '13,$p' losses.1 > rest
for i in 1 2 3; do
    cp -r "$FLOWRUN_HOME/nodes/n$i/work/output" "whole.$i"
    rm -rf "whole.$i"/{checkpoint-24,resume/step-24,adapter*}
done
sed 's/^      seed: 42/&\n      args: [--resume_from_checkpoint, last]/' src/pipelines/deepseek-lora.yaml > src/pipelines/half.yaml

half
kill -9 "$pid"
wait "$pid" 2> /dev/null
release
"$flowrun" resume > out 2>&1
same "resumed after kill -9" $? 0
same "train ran once" "$("$flowrun" status 2 | awk '/^train@n1/ {print $3; exit}')" 1
losses 2 > losses.2
check "the same losses" cmp rest losses.2
same "the same adapter" "$(published)" "$adapter"

kill "$fifo"
half
# by two greps over all processes: a look at each by itself takes long on a busy machine
rank1() { grep -slzx RANK=1 /proc/[0-9]*/environ | xargs -r grep -slz "^FLOWRUN_NODE_HOME=$work/" | sed -n '1s|/proc/\([0-9]*\)/.*|\1|p'; }
rank=$(rank1)
check "rank 1 is found" test -n "$rank"
kill -9 "$rank"
release
wait "$pid"
same "a killed rank" $? 0
same "two attempts" "$("$flowrun" status 3 | awk '/^train@n1/ {print $3; exit}')" 2
has "the retry" out "train@n1 retrying"
losses 3 > losses.3
check "the same losses again" cmp rest losses.3
same "the same adapter again" "$(published)" "$adapter"
kill "$fifo"

# A rate that spoils the model: what was published stays.
start src/pipelines/deepseek-lora.yaml -p max_steps=2 -p learning_rate=6
wait $!
same "a training that spoils the model" $? 1
has "why" out "evaluate: eval_loss rose from "
same "what was published stays" "$(published)" "$adapter"
same "nothing is left running" "$(left)" ""
finish
