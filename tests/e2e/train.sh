#!/bin/bash
# The main job on three local nodes: uninterrupted; with flowrun killed in the middle and resumed; with one
# rank killed. All three give the same losses and the same adapter, bit for bit.
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -x "$build/trainer/cli/flowtrain" ] || skip "no flowtrain in this build"
mkdir src # not the current folder
cp -r "$repo/pipelines" "$repo/examples" src/

job() { start src/pipelines/deepseek-lora.yaml -p max_steps=24 -p save_steps=5; }
published() { sha256sum < "$FLOWRUN_HOME/nodes/n1/work/published/latest/adapter_model.safetensors"; }
# epoch and loss of each step that run $1 logged, each once
losses() { "$flowrun" logs "$1" train | sed -n "s/.*{'loss': \([0-9.]*\),.*'epoch': \([0-9.]*\),.*/\2 \1/p" | sort -u; }
steps() { grep -c "{'loss'" out; }

job
wait $!
same "the main job" $? 0
check "closing table" grep -Eq '^publish +n1 +succeeded +1 ' out
losses 1 > losses.1
same "a loss for each step" "$(lines losses.1)" 24
check "the loss falls" awk '{ if (NR <= 4) a += $2; if (NR > 20) b += $2 } END { exit !(b < a - 1) }' losses.1
adapter=$(published)

job
pid=$!
until_true 60 eval 'test "$(steps)" -ge 8'
kill -9 "$pid"
wait "$pid" 2>/dev/null
"$flowrun" resume > out 2>&1
same "resumed after kill -9" $? 0
same "train ran once" "$("$flowrun" status 2 | awk '/^train@n1/ {print $3; exit}')" 1
losses 2 > losses.2
check "the same losses" cmp losses.1 losses.2
same "the same adapter" "$(published)" "$adapter"

job
pid=$!
# by two greps over all processes: a look at each by itself takes longer than the job on a busy machine
rank1() { grep -slzx RANK=1 /proc/[0-9]*/environ | xargs -r grep -slz "^FLOWRUN_NODE_HOME=$work/" | sed -n '1s|/proc/\([0-9]*\)/.*|\1|p'; }
until_true 60 eval 'test "$(steps)" -ge 1'
rank=$(rank1)
check "rank 1 is found" test -n "$rank"
until_true 60 eval 'test "$(steps)" -ge 8'
kill -9 "$rank"
wait "$pid"
same "a killed rank" $? 0
same "two attempts" "$("$flowrun" status 3 | awk '/^train@n1/ {print $3; exit}')" 2
has "the retry" out "train@n1 retrying"
losses 3 > losses.3
check "the same losses again" cmp losses.1 losses.3
same "the same adapter again" "$(published)" "$adapter"
same "nothing is left running" "$(left)" ""
finish
