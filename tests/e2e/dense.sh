#!/bin/bash
# The shipped pipeline of dense models on three local nodes; what it publishes answers, merges, and does
# after that what base and adapter do.
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -x "$build/trainer/cli/flowtrain" ] || skip "no flowtrain in this build"
mkdir src # not the current folder
cp -r "$repo/pipelines" "$repo/examples" src/
flowtrain=$build/trainer/cli/flowtrain

start src/pipelines/llama-sft.yaml -p max_steps=24 -p save_steps=12
wait $!
same "the pipeline" $? 0
has "the figures of the evaluation" out "evaluate@n1 | eval_loss before the training "
check "closing table" grep -Eq '^publish +n1 +succeeded +1 ' out
"$flowrun" logs 1 train | sed -n "s/.*{'loss': \([0-9.]*\),.*'epoch': \([0-9.]*\),.*/\2 \1/p" | sort -u > losses
same "a loss for each step" "$(lines losses)" 24
check "the loss falls" awk '{ if (NR <= 4) a += $2; if (NR > 20) b += $2 } END { exit !(b < a - 1) }' losses

"$flowrun" watch 1 > out
same "watch" $? 0
nodes=$FLOWRUN_HOME/nodes/n1/work
last() { sed -n "s/.*\"eval_$1\":\([^,}]*\).*/\1/p" "$nodes/output-llama/trainer_log.jsonl" | tail -n 1; } # of the trainer
for figure in loss accuracy; do
    shown=$(sed -n "s/.*, eval_$figure \([0-9.e+-]*\).*/\1/p" out)
    check "watch has eval_$figure: '$shown' of '$(last $figure)'" \
        awk -v shown="$shown" -v is="$(last $figure)" 'BEGIN { d = shown - is; exit !(shown != "" && is > 0 && d * d <= is * is * 1e-6) }'
done
model=$nodes/example-llama/model adapter=$nodes/published-llama/latest
check "all linears are adapted" grep -q '"gate_proj"' "$adapter/adapter_config.json"
ask() { "$flowtrain" generate --template llama3 --prompt "What is 33 plus 89?" --max_new_tokens 12 --device cpu "$@" 2> err; }
ask --model_name_or_path "$model" --adapter_name_or_path "$adapter" > answer
same "the adapter answers" $? 0
"$flowtrain" merge --model_name_or_path "$model" --adapter_name_or_path "$adapter" --output merged > out 2>&1
same "merge" $? 0
"$flowtrain" export --check --model_name_or_path "$model" --adapter_name_or_path "$adapter" --merged merged > out 2>&1
same "the merged model does what base and adapter do" $? 0
has "PEFT loads what stands for the whole model" out "down_proj                   4  yes "
ask --model_name_or_path merged > merged.answer
same "the merged model answers" $? 0

# A rate that spoils the merged model, which has learnt: eval_loss rises, and nothing is published, neither where a version is nor where none is.
before=$(readlink -f "$adapter")
for to in published-llama published-new; do
    start src/pipelines/llama-sft.yaml -p "model=node:$PWD/merged" -p max_steps=6 -p learning_rate=60 -p output_dir=spoilt-$to -p publish_to=$to
    wait $!
    same "a training that spoils the model, $to" $? 1
    has "why, $to" out "evaluate: eval_loss rose from "
    check "it did rise, $to" awk '/eval_loss before the training/ { b = $(NF - 4) + 0; a = $NF + 0; exit !(a > b) }' out
    check "publish did not run, $to" bash -c '! grep -Eq "^publish +n1 +(succeeded|failed|running)" out'
done
# A rate that leaves no number at all: the loss is NaN, which is null in the log.
start src/pipelines/llama-sft.yaml -p max_steps=4 -p learning_rate=1e5 -p output_dir=spoilt-null
wait $!
same "a training whose loss is no number" $? 1
has "it is not published" out "to null: the adapter is not published"
same "what was published stays" "$(readlink -f "$adapter")" "$before"
check "nothing new is published" test ! -e "$nodes/published-new"
same "nothing is left running" "$(left)" ""
finish
