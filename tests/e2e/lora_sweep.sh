#!/bin/bash
# The shipped sweep on three local nodes: what it publishes is the adapter of the row with the least loss, wherever that
# row stands; a row that spoils the model is left out and holds up no other; where none is left, nothing is published.
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -x "$build/trainer/cli/flowtrain" ] || skip "no flowtrain in this build"
mkdir src # not the current folder
cp -r "$repo/pipelines" "$repo/examples" src/
nodes=$FLOWRUN_HOME/nodes/n1/work
published=$nodes/published-sweep/latest
loss() { sed -n 's/.*"eval_loss":\([^,}]*\).*/\1/p' "$nodes/output-sweep/$1/trainer_log.jsonl" | tail -n 1; } # of a row
row_of() { # the row whose adapter is published
    local dir
    for dir in "$nodes"/output-sweep/*/; do
        if cmp -s "$dir/adapter_model.safetensors" "$published/adapter_model.safetensors"; then basename "$dir"; fi
    done
}
least() { # of the rows named, that with the least loss
    local row
    for row in "$@"; do echo "$(loss "$row") $row"; done | LC_ALL=C sort -g | sed -n '1s/.* //p'
}

"$flowrun" validate src/pipelines/lora-sweep.yaml > out 2>&1
same "it is valid" $? 0
# The best row is neither the first nor the last. The first two spoil the model, the last cannot be trained.
sed 's/^      lora_rank: \[.*/&\n      include: [{learning_rate: 1e-5, lora_rank: 8}, {learning_rate: 1e-5, lora_rank: 0}]/' \
    src/pipelines/lora-sweep.yaml > src/pipelines/more.yaml
start src/pipelines/more.yaml -p max_steps=8 -p save_steps=8 -p low_rate=1e5 -p high_rate=2e-3 -p low_rank=4 -p high_rank=8
wait $!
same "the sweep" $? 0
rows=$(cd "$nodes/output-sweep" && LC_ALL=C ls | tr '\n' ' ')
same "a folder for each row that was trained" "$rows" \
    "lr0.002-rank4 lr0.002-rank8 lr100000.0-rank4 lr100000.0-rank8 lr1e-05-rank8 "
has "a row that spoils the model" out "to null: this row is not published"
has "a row that cannot be trained" out "flowtrain plan: --lora_rank 0: expected 1 to 65536"
same "rows that are left out" "$(grep -Ec '^evaluate\[.* failed ' out)" 3
same "the others are evaluated" "$(grep -Ec '^evaluate\[.* succeeded ' out)" 3
best=$(least lr0.002-rank4 lr0.002-rank8 lr1e-05-rank8)
same "the adapter of the row with the least loss is published" "$(row_of)" "$best"
check "a rate that trains is better than one that does not: $best" [ "${best%-*}" = lr0.002 ]
rank=${best#*-rank}
has "its rank" "$published/adapter_config.json" "\"r\": $rank"
has "its row is named" out "published evaluate[learning_rate=0.002,lora_rank=$rank] with eval_loss $(loss "$best"), of ["
check "every tensor is sound" "$build/trainer/cli/flowtrain" inspect "$published" --verify > /dev/null
"$flowrun" status 1 > status
check "what a row gave" grep -q "^evaluate.learning_rate=1e-05,lora_rank=8. .* succeeded .* $(loss lr1e-05-rank8) " status
check "how many are left out" grep -qE "^evaluate +failed .* 3 failed, 3 succeeded$" status

# No row is good: the run fails, and what was published stays.
before=$(readlink -f "$published")
start src/pipelines/lora-sweep.yaml -p max_steps=4 -p save_steps=4 -p low_rate=1e5 -p high_rate=2e5
wait $!
same "a sweep without a good row" $? 1
has "why" out "none of the 4 instances of evaluate gave a number 'eval_loss'"
same "what was published stays" "$(readlink -f "$published")" "$before"
same "nothing is left running" "$(left)" ""
finish
